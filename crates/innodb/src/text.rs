//! Values as text, as the servers show them.
use crate::table::{Column, Type};
use crate::value::{self, Date, Time};
use ondol_scan::csv::{Dialect, Lines};
use std::borrow::Cow;
use std::io::Write;

/// Appends the value of a field's stored bytes. `Err`: what is wrong with them.
pub fn push(lines: &mut Lines, column: &Column, bytes: &[u8]) -> Result<(), String> {
    let no_value = || {
        format!(
            "column {} ({}) holds {}, which is no value of its type",
            column.name,
            column.sql,
            hex(&bytes[..bytes.len().min(32)])
        )
    };
    // Writing to memory does not fail.
    macro_rules! plain {
        ($($format:tt)*) => {{
            lines.plain(|b| { let _ = write!(b, $($format)*); });
            Ok(())
        }};
    }
    match &column.ty {
        Type::Int { unsigned, zerofill: None, .. } => {
            if *unsigned {
                let n = value::unsigned(bytes).ok_or_else(no_value)?;
                lines.plain(|b| push_u64(b, n));
            } else {
                let n = value::signed(bytes).ok_or_else(no_value)?;
                lines.plain(|b| push_i64(b, n));
            }
            Ok(())
        }
        Type::Int { zerofill: Some(width), .. } => {
            let n = value::unsigned(bytes).ok_or_else(no_value)?;
            plain!("{n:0width$}", width = *width as usize)
        }
        Type::Float { decimals } => {
            let n = f32::from_le_bytes(bytes.try_into().map_err(|_| no_value())?);
            lines.plain(|b| value::push_float(b, n as f64, true, *decimals));
            Ok(())
        }
        Type::Double { decimals } => {
            let n = f64::from_le_bytes(bytes.try_into().map_err(|_| no_value())?);
            lines.plain(|b| value::push_float(b, n, false, *decimals));
            Ok(())
        }
        Type::Decimal { precision, scale } if *precision <= 18 => {
            let n = value::decimal(bytes, *precision, *scale).ok_or_else(no_value)? as i64;
            lines.plain(|b| push_decimal(b, n, *scale as usize));
            Ok(())
        }
        Type::Decimal { precision, scale } => {
            let mut text = Vec::new();
            value::push_decimal(&mut text, bytes, *precision, *scale).ok_or_else(no_value)?;
            lines.plain(|b| b.extend_from_slice(&text));
            Ok(())
        }
        Type::Date => {
            let date = value::date(bytes).ok_or_else(no_value)?;
            lines.plain(|b| push_date(b, date));
            Ok(())
        }
        Type::Time { fsp } => {
            let time = value::time(bytes, *fsp).ok_or_else(no_value)?;
            lines.plain(|b| {
                if time.negative {
                    b.push(b'-');
                }
                push_time(b, time, *fsp);
            });
            Ok(())
        }
        Type::DateTime { fsp } => {
            let (date, time) = value::datetime(bytes, *fsp).ok_or_else(no_value)?;
            lines.plain(|b| push_datetime(b, date, time, *fsp));
            Ok(())
        }
        Type::Timestamp { fsp } => {
            let (seconds, micros) = value::timestamp(bytes, *fsp).ok_or_else(no_value)?;
            // Zero seconds is not 1970 but the zero date.
            let (date, mut time) = if seconds == 0 && micros == 0 {
                (Date { year: 0, month: 0, day: 0 }, value::civil(0).1)
            } else {
                value::civil(seconds as i64)
            };
            time.micros = micros;
            lines.plain(|b| push_datetime(b, date, time, *fsp));
            Ok(())
        }
        Type::OldTime => {
            let n = value::signed(bytes).ok_or_else(no_value)?;
            let sign = if n < 0 { "-" } else { "" };
            let n = n.unsigned_abs();
            plain!("{sign}{:02}:{:02}:{:02}", n / 10_000, n / 100 % 100, n % 100)
        }
        Type::OldDateTime => {
            let n = value::signed(bytes).filter(|n| *n >= 0).ok_or_else(no_value)?;
            let (d, t) = (n / 1_000_000, n % 1_000_000);
            plain!(
                "{:04}-{:02}-{:02} {:02}:{:02}:{:02}",
                d / 10_000,
                d / 100 % 100,
                d % 100,
                t / 10_000,
                t / 100 % 100,
                t % 100
            )
        }
        Type::Year => {
            let n = value::unsigned(bytes).ok_or_else(no_value)?;
            plain!("{:04}", if n == 0 { 0 } else { 1900 + n })
        }
        Type::Bit { .. } if lines.dialect() == Dialect::Mysql => {
            lines.text(bytes);
            Ok(())
        }
        Type::Bit { .. } if lines.dialect() == Dialect::Mariadb => {
            lines.plain(|b| b.extend_from_slice(bytes));
            Ok(())
        }
        Type::Bit { .. } => {
            let n = value::unsigned(bytes).ok_or_else(no_value)?;
            lines.plain(|b| push_u64(b, n));
            Ok(())
        }
        Type::Char { charset, .. } | Type::Text { charset, .. } => {
            let is_char = matches!(column.ty, Type::Char { .. });
            if lines.dialect().is_outfile() {
                let bytes = if is_char { strip(bytes, charset.min as usize) } else { bytes };
                lines.characters(bytes, |b| charset.character(b));
                return Ok(());
            }
            let text = charset.to_utf8(bytes).ok_or_else(|| {
                format!(
                    "column {} holds {}, which is no text of {}",
                    column.name,
                    hex(&bytes[..bytes.len().min(32)]),
                    charset.name
                )
            })?;
            lines.text(if is_char { text.trim_end_matches(' ') } else { &text }.as_bytes());
            Ok(())
        }
        Type::Binary { .. } | Type::Bytes { .. } | Type::Geometry => {
            if lines.dialect().is_outfile() {
                lines.text(bytes);
            } else {
                // A geometry without its SRID is WKB.
                let bytes =
                    if column.ty == Type::Geometry { bytes.get(4..).ok_or_else(no_value)? } else { bytes };
                lines.plain(|b| push_hex(b, bytes));
            }
            Ok(())
        }
        Type::Enum { elements, raw } => {
            let n = value::unsigned(bytes).ok_or_else(no_value)? as usize;
            if n > elements.len() {
                return Err(no_value());
            }
            let element: &[u8] = match n.checked_sub(1) {
                None => b"",
                Some(n) if lines.dialect().is_outfile() => &raw[n],
                Some(n) => elements[n].as_bytes(),
            };
            lines.text(element);
            Ok(())
        }
        Type::Set { elements, raw } => {
            let n = value::unsigned(bytes).ok_or_else(no_value)?;
            if elements.len() < 64 && n >> elements.len() != 0 {
                return Err(no_value());
            }
            let mut text = Vec::new();
            for i in (0..elements.len()).filter(|i| n >> i & 1 != 0) {
                if !text.is_empty() {
                    text.push(b',');
                }
                text.extend_from_slice(if lines.dialect().is_outfile() {
                    &raw[i]
                } else {
                    elements[i].as_bytes()
                });
            }
            lines.text(&text);
            Ok(())
        }
        Type::Json => {
            let text = crate::json::text(bytes).ok_or_else(no_value)?;
            lines.text(text.as_bytes());
            Ok(())
        }
        Type::Uuid => {
            let uuid = uuid(bytes).ok_or_else(no_value)?;
            lines.text(uuid.as_bytes());
            Ok(())
        }
        Type::Inet4 => {
            let octets: [u8; 4] = bytes.try_into().map_err(|_| no_value())?;
            plain!("{}", std::net::Ipv4Addr::from(octets))
        }
        Type::Inet6 => {
            let octets: [u8; 16] = bytes.try_into().map_err(|_| no_value())?;
            lines.text(inet6(octets).as_bytes());
            Ok(())
        }
    }
}

/// Without the spaces at the end, in a character set whose characters have at least so many bytes.
fn strip(bytes: &[u8], width: usize) -> &[u8] {
    let mut end = bytes.len();
    match width {
        // Both byte orders: a space is 32 and zeros.
        2 | 4 => {
            while end >= width
                && bytes[end - width..end].iter().filter(|b| **b == b' ').count() == 1
                && bytes[end - width..end].iter().filter(|b| **b == 0).count() == width - 1
            {
                end -= width;
            }
        }
        _ => {
            while end > 0 && bytes[end - 1] == b' ' {
                end -= 1;
            }
        }
    }
    &bytes[..end]
}

pub fn push_u64(into: &mut Vec<u8>, mut n: u64) {
    let mut digits = [0u8; 20];
    let mut at = 20;
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    into.extend_from_slice(&digits[at..]);
}
pub fn push_i64(into: &mut Vec<u8>, n: i64) {
    if n < 0 {
        into.push(b'-');
    }
    push_u64(into, n.unsigned_abs());
}
fn push_decimal(into: &mut Vec<u8>, n: i64, scale: usize) {
    if n < 0 {
        into.push(b'-');
    }
    let n = n.unsigned_abs();
    if scale == 0 {
        return push_u64(into, n);
    }
    let power = 10u64.pow(scale as u32);
    push_u64(into, n / power);
    into.push(b'.');
    let at = into.len();
    into.resize(at + scale, b'0');
    let mut rest = n % power;
    for digit in into[at..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}
#[inline]
fn push_2(into: &mut Vec<u8>, n: u8) {
    into.extend_from_slice(&[b'0' + n / 10 % 10, b'0' + n % 10]);
}
fn push_date(into: &mut Vec<u8>, date: Date) {
    push_2(into, (date.year / 100) as u8);
    push_2(into, (date.year % 100) as u8);
    into.push(b'-');
    push_2(into, date.month);
    into.push(b'-');
    push_2(into, date.day);
}
fn push_time(into: &mut Vec<u8>, time: Time, fsp: u8) {
    if time.hour < 100 {
        push_2(into, time.hour as u8);
    } else {
        push_u64(into, time.hour as u64);
    }
    into.push(b':');
    push_2(into, time.minute);
    into.push(b':');
    push_2(into, time.second);
    if fsp > 0 {
        into.push(b'.');
        let digits = format!("{:06}", time.micros);
        into.extend_from_slice(&digits.as_bytes()[..fsp.min(6) as usize]);
    }
}
fn push_datetime(into: &mut Vec<u8>, date: Date, time: Time, fsp: u8) {
    push_date(into, date);
    into.push(b' ');
    push_time(into, time, fsp);
}
fn push_hex(into: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    into.extend_from_slice(b"0x");
    for b in bytes {
        into.extend_from_slice(&[DIGITS[(b >> 4) as usize], DIGITS[(b & 15) as usize]]);
    }
}
pub fn hex(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    push_hex(&mut text, bytes);
    String::from_utf8_lossy(&text).into_owned()
}

/// MariaDB stores a UUID's parts in the reverse order, unless its version is one that sorts by itself (6 and up).
pub fn uuid(bytes: &[u8]) -> Option<String> {
    let stored: [u8; 16] = bytes.try_into().ok()?;
    let mut b = stored;
    // Stored: node (6), clock (2), time high (2), time mid (2), time low (4).
    let is_swapped = stored[6] & 0x80 != 0;
    if is_swapped {
        b[0..4].copy_from_slice(&stored[12..16]);
        b[4..6].copy_from_slice(&stored[10..12]);
        b[6..8].copy_from_slice(&stored[8..10]);
        b[8..10].copy_from_slice(&stored[6..8]);
        b[10..16].copy_from_slice(&stored[0..6]);
    }
    let h = |r: std::ops::Range<usize>| b[r].iter().map(|x| format!("{x:02x}")).collect::<String>();
    Some(format!("{}-{}-{}-{}-{}", h(0..4), h(4..6), h(6..8), h(8..10), h(10..16)))
}

/// An IPv6 address as the server writes it.
pub fn inet6(octets: [u8; 16]) -> Cow<'static, str> {
    Cow::Owned(std::net::Ipv6Addr::from(octets).to_string())
}
