//! Values as text, as the servers show them.
use crate::charset::Charset;
use crate::page::{Window, chunk_at_mut};
use crate::table::{Column, Type};
use crate::value::{self, Date, Digits, Parts, Time};
use ondol_scan::csv::{Dialect, Lines};
use std::borrow::Cow;
use std::io::Write;

/// The width that MySQL allows a floating-point number, `narrow`; MariaDB allows what any needs.
fn width(dialect: Dialect, narrow: usize) -> usize {
    if dialect == Dialect::Mysql { narrow } else { usize::MAX }
}

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
    // A value that fits a slot.
    macro_rules! short {
        (|$slot:ident| $put:expr) => {{
            let mut written = [0; SLOT];
            let $slot = &mut written;
            let end = $put;
            lines.plain(|b| b.extend_from_slice(&written[..end]));
            Ok(())
        }};
    }
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
                short!(|slot| put_u64(slot, 0, n))
            } else {
                let n = value::signed(bytes).ok_or_else(no_value)?;
                short!(|slot| put_i64(slot, 0, n))
            }
        }
        Type::Int { zerofill: Some(width), .. } => {
            let n = value::unsigned(bytes).ok_or_else(no_value)?;
            plain!("{n:0width$}", width = *width as usize)
        }
        Type::Float { decimals, zerofill } => {
            let n = f32::from_le_bytes(bytes.try_into().map_err(|_| no_value())?);
            let width = width(lines.dialect(), 12);
            filled(lines, *zerofill, |b| value::push_float(b, n as f64, true, *decimals, width));
            Ok(())
        }
        Type::Double { decimals, zerofill } => {
            let n = f64::from_le_bytes(bytes.try_into().map_err(|_| no_value())?);
            let width = width(lines.dialect(), 24);
            filled(lines, *zerofill, |b| value::push_float(b, n, false, *decimals, width));
            Ok(())
        }
        Type::Decimal { precision, scale, zerofill } => {
            if let Some(digits) = Digits::known(*precision, *scale).filter(|_| zerofill.is_none()) {
                let field = word(bytes).filter(|_| bytes.len() == digits.bytes);
                let parts = field.and_then(|field| digits.parts(field)).ok_or_else(no_value)?;
                return short!(|slot| put_parts(slot, parts, *scale as usize));
            }
            let mut text = Vec::new();
            value::push_decimal(&mut text, bytes, *precision, *scale).ok_or_else(no_value)?;
            filled(lines, *zerofill, |b| b.extend_from_slice(&text));
            Ok(())
        }
        Type::Date => {
            let date = value::date(bytes).ok_or_else(no_value)?;
            short!(|slot| put_date(slot, 0, date))
        }
        Type::Time { fsp } => {
            let time = value::time(bytes, *fsp).ok_or_else(no_value)?;
            short!(|slot| {
                slot[0] = b'-';
                put_time(slot, time.negative as usize, time, *fsp)
            })
        }
        Type::DateTime { fsp } => {
            let (date, time) = value::datetime(bytes, *fsp).ok_or_else(no_value)?;
            short!(|slot| put_datetime(slot, date, time, *fsp))
        }
        Type::Timestamp { fsp } => {
            let (date, time) = moment(value::timestamp(bytes, *fsp).ok_or_else(no_value)?);
            short!(|slot| put_datetime(slot, date, time, *fsp))
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
        Type::Year { digits } => {
            let n = value::unsigned(bytes).ok_or_else(no_value)?;
            match digits {
                2 => plain!("{:02}", n % 100),
                _ => plain!("{:04}", if n == 0 { 0 } else { 1900 + n }),
            }
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
            short!(|slot| put_u64(slot, 0, n))
        }
        Type::Char { charset, .. } | Type::Text { charset, .. } => {
            let is_char = matches!(column.ty, Type::Char { .. });
            if lines.dialect().is_outfile() {
                let bytes = if is_char { strip(bytes, charset.min as usize) } else { bytes };
                if charset.hides_ascii() {
                    lines.characters(bytes, |b| charset.character(b));
                } else {
                    lines.text(bytes);
                }
                return Ok(());
            }
            if charset.has_ascii() && bytes.is_ascii() {
                lines.text(if is_char { trimmed(bytes) } else { bytes });
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
            lines.text(if is_char { trimmed(text.as_bytes()) } else { text.as_bytes() });
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
        Type::Enum { charset, elements, raw } => {
            let n = value::unsigned(bytes).ok_or_else(no_value)? as usize;
            if n > elements.len() {
                return Err(no_value());
            }
            let element: &[u8] = match n.checked_sub(1) {
                None => b"",
                Some(n) if lines.dialect().is_outfile() => &raw[n],
                Some(n) => elements[n].as_bytes(),
            };
            element_text(lines, *charset, element);
            Ok(())
        }
        Type::Set { charset, elements, raw } => {
            let n = value::unsigned(bytes).ok_or_else(no_value)?;
            let text = match lines.dialect().is_outfile() {
                true => value::set(n, raw.iter().map(Vec::as_slice), charset.comma()),
                false => value::set(n, elements.iter().map(String::as_bytes), b","),
            };
            let text = text.ok_or_else(no_value)?;
            element_text(lines, *charset, &text);
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

/// Appends a number with zeros before it, up to a width.
fn filled(lines: &mut Lines, zerofill: Option<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    lines.plain(|b| {
        let from = b.len();
        write(b);
        let missing = zerofill.map_or(0, |width| (width as usize).saturating_sub(b.len() - from));
        b.splice(from..from, std::iter::repeat_n(b'0', missing));
    });
}

/// Appends what an ENUM or SET has: in `SELECT … INTO OUTFILE` bytes of the column's character set.
fn element_text(lines: &mut Lines, charset: Charset, bytes: &[u8]) {
    if lines.dialect().is_outfile() && charset.hides_ascii() {
        lines.characters(bytes, |b| charset.character(b));
    } else {
        lines.text(bytes);
    }
}

/// A value as RFC 4180 has it, for types whose texts need no quotes. `None`: it is no value of the column's
/// type.
pub fn shown(column: &Column, bytes: &[u8]) -> Option<String> {
    let mut lines = Lines::new(Dialect::Rfc4180, 32);
    push(&mut lines, column, bytes).ok()?;
    lines.end_line();
    let mut line = String::from_utf8(lines.into_bytes()).ok()?;
    line.pop();
    Some(line)
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
        _ => return trimmed(bytes),
    }
    &bytes[..end]
}

/// Without the spaces at the end.
#[inline]
pub fn trimmed(mut bytes: &[u8]) -> &[u8] {
    while let Some((rest, last)) = bytes.split_last_chunk::<8>() {
        let others = u64::from_be_bytes(*last) ^ SPACES;
        if others != 0 {
            return &bytes[..bytes.len() - others.trailing_zeros() as usize / 8];
        }
        bytes = rest;
    }
    while let Some((b' ', rest)) = bytes.split_last() {
        bytes = rest;
    }
    bytes
}

/// The length of a value of up to N bytes without the spaces at its end, as [`trimmed`] finds it, but without
/// a branch.
#[inline(always)]
pub fn length_trimmed<const N: usize>(window: Window<'_>, at: u16, length: u16) -> u16 {
    // The N bytes up to its end, though it may begin later.
    let (words, _) = window.chunk::<N>(at.wrapping_add(length).wrapping_sub(N as u16)).as_chunks::<8>();
    // The last word with anything but spaces, and the bytes behind it.
    let (mut last, mut behind) = (0, N as u32 - 8);
    for (n, word) in (1..).zip(words) {
        let others = u64::from_le_bytes(*word) ^ SPACES;
        (last, behind) = if others != 0 { (others, N as u32 - 8 * n) } else { (last, behind) };
    }
    let spaces = behind + last.swap_bytes().trailing_zeros() / 8;
    length - length.min(spaces as u16)
}
const SPACES: u64 = u64::from_ne_bytes([b' '; 8]);

/// Up to 8 bytes, with zeros behind them.
#[inline]
fn word(bytes: &[u8]) -> Option<[u8; 8]> {
    // Two words that overlap.
    let four = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as u64);
    let word = match bytes.len() {
        n @ 4..=8 => four(0)? << 32 | four(n - 4)? << (64 - 8 * n),
        n @ 1..4 => bytes.iter().fold(0, |word, b| word << 8 | *b as u64) << (64 - 8 * n),
        _ => return None,
    };
    Some(word.to_be_bytes())
}

/// Eight digits of a number below 100,000,000, each in a byte, the first in the lowest.
#[inline]
fn eight(n: u32) -> u64 {
    // Two halves of four digits, four quarters of two, eight digits; each division is a multiplication that
    // is exact for so few.
    let halves = (n / 10_000) as u64 | ((n % 10_000) as u64) << 32;
    let hundreds = (halves * 10_486) >> 20 & 0x7f_0000_007f;
    let quarters = hundreds | (halves - hundreds * 100) << 16;
    let tens = (quarters * 103) >> 10 & 0x000f_000f_000f_000f;
    tens | (quarters - tens * 10) << 8
}
const ZEROS: u64 = u64::from_ne_bytes([b'0'; 8]);
const EIGHT: u64 = 100_000_000;

ondol_base::widest! {
    /// The digits of numbers as [`eight`] has them, four in each of the two. False if one of them has more
    /// than eight; then they mean nothing.
    pub fn eights(numbers: &[u64], digits: &mut Vec<[u32; 2]>) -> bool {
        digits.resize(numbers.len(), [0; 2]);
        let mut few = true;
        // In loops: adapters that call closures may be left out of line, one value a call.
        for (n, digits) in numbers.iter().zip(digits.iter_mut()) {
            few &= *n < EIGHT;
            // n / 10,000, exact for eight digits; the mask lets narrower multiplications do.
            let n = n & 0xffff_ffff;
            let upper = (n * 109_951_163) >> 40 & 0xffff_ffff;
            *digits = [upper as u32, n.wrapping_sub(upper * 10_000) as u32];
        }
        for four in digits.as_flattened_mut() {
            let hundreds = four.wrapping_mul(10_486) >> 20 & 0x7f;
            let pairs = hundreds | four.wrapping_sub(hundreds.wrapping_mul(100)) << 16;
            let tens = pairs.wrapping_mul(103) >> 10 & 0x000f_000f;
            *four = tens | pairs.wrapping_sub(tens.wrapping_mul(10)) << 8;
        }
        few
    }
}
/// The two as [`eight`] gives them.
#[inline(always)]
pub fn joined([upper, lower]: [u32; 2]) -> u64 {
    upper as u64 | (lower as u64) << 32
}

/// Where a short value is written: a number or a date, and more bytes that mean nothing. 26 bytes are the
/// longest, and whole words are written.
pub type Slot = [u8; SLOT];
pub const SLOT: usize = 32;

/// Puts the byte behind a value of a slot, and into the slot's last byte how many count with it.
#[inline(always)]
pub fn end_slot(slot: &mut Slot, length: usize, behind: u8) {
    slot[length & (SLOT - 1)] = behind;
    slot[SLOT - 1] = length as u8 + 1;
}
/// Writes 8 bytes, of which not all need count.
#[inline(always)]
fn put(slot: &mut Slot, at: usize, bytes: u64) {
    if let Some(to) = chunk_at_mut(slot, at) {
        *to = bytes.to_le_bytes();
    }
}
/// Writes a number at `at`. This and what follows return where the next would be.
#[inline]
pub fn put_u64(slot: &mut Slot, at: usize, n: u64) -> usize {
    if n < EIGHT {
        return put_number(slot, at, eight(n as u32));
    }
    put_long(slot, at, n)
}
/// The same of eight digits, zeros first. So are what follows on numbers of hundredths and dates.
#[inline(always)]
pub fn put_number(slot: &mut Slot, at: usize, digits: u64) -> usize {
    let zeros = (digits | 1 << 56).trailing_zeros() / 8;
    put(slot, at, (digits | ZEROS) >> (8 * zeros));
    at + 8 - zeros as usize
}
fn put_long(slot: &mut Slot, at: usize, n: u64) -> usize {
    let at = put_u64(slot, at, n / EIGHT);
    put_digits(slot, at, n % EIGHT, 8)
}
#[inline]
pub fn put_i64(slot: &mut Slot, at: usize, n: i64) -> usize {
    slot[at] = b'-';
    put_u64(slot, at + (n < 0) as usize, n.unsigned_abs())
}
/// So many digits of a number that has no more, with zeros before it.
#[inline]
fn put_digits(slot: &mut Slot, at: usize, n: u64, count: usize) -> usize {
    if count > 8 {
        let at = put_digits_of_many(slot, at, n / EIGHT, count - 8);
        return put_digits_of_many(slot, at, n % EIGHT, 8);
    }
    if count > 0 {
        put(slot, at, (eight(n as u32) | ZEROS) >> (64 - 8 * count));
    }
    at + count
}
#[inline(never)]
fn put_digits_of_many(slot: &mut Slot, at: usize, n: u64, count: usize) -> usize {
    put_digits(slot, at, n, count)
}
#[inline]
pub fn put_parts(slot: &mut Slot, parts: Parts, scale: usize) -> usize {
    slot[0] = b'-';
    let at = (parts.negative && (parts.whole, parts.fraction) != (0, 0)) as usize;
    let at = put_u64(slot, at, parts.whole);
    if scale == 0 {
        return at;
    }
    slot[at & (SLOT - 1)] = b'.';
    put_digits(slot, at + 1, parts.fraction, scale)
}
/// A number of hundredths.
#[inline]
pub fn put_cents(slot: &mut Slot, n: i64) -> usize {
    let (at, n) = ((n < 0) as usize, n.unsigned_abs());
    if n >= EIGHT {
        return put_parts(slot, Parts { negative: at > 0, whole: n / 100, fraction: n % 100 }, 2);
    }
    slot[0] = b'-';
    put_hundredths(slot, at, eight(n as u32))
}
#[inline(always)]
pub fn put_hundredths(slot: &mut Slot, at: usize, digits: u64) -> usize {
    // One digit before the point at least.
    let zeros = (digits | 1 << 40).trailing_zeros() / 8;
    let digits = digits | ZEROS;
    put(slot, at, digits >> (8 * zeros));
    let point = at + 6 - zeros as usize;
    put(slot, point, (digits >> 48) << 8 | b'.' as u64);
    point + 3
}
#[inline]
pub fn put_date(slot: &mut Slot, at: usize, date: Date) -> usize {
    put_day(slot, at, eight(date.year as u32 * 10_000 + date.month as u32 * 100 + date.day as u32))
}
#[inline(always)]
pub fn put_day(slot: &mut Slot, at: usize, digits: u64) -> usize {
    let digits = digits | ZEROS;
    let (year, month, day) = (digits & 0xffff_ffff, digits >> 32 & 0xffff, digits >> 48);
    put(slot, at, year | (b'-' as u64) << 32 | month << 40 | (b'-' as u64) << 56);
    put(slot, at + 8, day);
    at + 10
}
fn put_time(slot: &mut Slot, mut at: usize, time: Time, fsp: u8) -> usize {
    let hour = time.hour as u32;
    if hour >= 100 {
        at = put_u64(slot, at, hour as u64 / 100);
    }
    let digits = eight(hour % 100 * 10_000 + time.minute as u32 * 100 + time.second as u32) | ZEROS;
    let (hour, minute, second) = (digits >> 16 & 0xffff, digits >> 32 & 0xffff, digits >> 48);
    let colons = (b':' as u64) << 16 | (b':' as u64) << 40;
    put(slot, at, hour | minute << 24 | second << 48 | colons);
    at += 8;
    if fsp == 0 {
        return at;
    }
    let fsp = fsp.min(6) as u32;
    put(slot, at, b'.' as u64);
    put_digits(slot, at + 1, (time.micros / 10u32.pow(6 - fsp)) as u64, fsp as usize)
}
#[inline]
pub fn put_datetime(slot: &mut Slot, date: Date, time: Time, fsp: u8) -> usize {
    let at = put_date(slot, 0, date);
    put(slot, at, b' ' as u64);
    put_time(slot, at + 1, time, fsp)
}
/// Date and time of day of a TIMESTAMP's seconds and microseconds. Zero is not 1970 but the zero date.
pub fn moment((seconds, micros): (u32, u32)) -> (Date, Time) {
    let (date, time) = match (seconds, micros) {
        (0, 0) => (Date { year: 0, month: 0, day: 0 }, value::civil(0).1),
        _ => value::civil(seconds as i64),
    };
    (date, Time { micros, ..time })
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

/// MariaDB stores the parts of a UUID of RFC 4122's versions 1 to 5 in the reverse order, and others as they
/// are. What it takes for reversed is decided by the variant's bit, and the byte of the version.
pub fn uuid(bytes: &[u8]) -> Option<String> {
    let stored: [u8; 16] = bytes.try_into().ok()?;
    let mut b = stored;
    // Stored: node (6), clock (2), time high (2), time mid (2), time low (4).
    let is_swapped = stored[6] & 0x80 != 0 && (1..=0x80).contains(&stored[8]);
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

/// An IPv6 address as the server writes it: the longest run of zero words, also of one, is left out, and what
/// begins with 96 bits that say so ends as an IPv4 address.
pub fn inet6(octets: [u8; 16]) -> Cow<'static, str> {
    let words: Vec<u16> = octets.chunks(2).map(|w| u16::from_be_bytes([w[0], w[1]])).collect();
    // The first of the longest.
    let mut gap = 0..0;
    let mut from = 0;
    for (i, word) in words.iter().enumerate() {
        if *word != 0 {
            from = i + 1;
        } else if i + 1 - from > gap.len() {
            gap = from..i + 1;
        }
    }
    if gap == (0..6) || gap == (0..5) && words[5] == 0xffff {
        let [.., a, b, c, d] = octets;
        let mapped = if gap.len() == 5 { "ffff:" } else { "" };
        return Cow::Owned(format!("::{mapped}{a}.{b}.{c}.{d}"));
    }
    let join = |words: &[u16]| words.iter().map(|w| format!("{w:x}")).collect::<Vec<_>>().join(":");
    Cow::Owned(match gap.is_empty() {
        true => join(&words),
        false => format!("{}::{}", join(&words[..gap.start]), join(&words[gap.end..])),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_of_many_numbers_at_once() {
        let mut random = ondol_base::sim::Random::new(11);
        let mut numbers: Vec<u64> = (0..100_000).collect();
        numbers.extend((0..8).flat_map(|n| [10u64.pow(n) - 1, 10u64.pow(n), 10u64.pow(n) + 1]));
        numbers.extend((0..EIGHT).step_by(9_973).chain(EIGHT - 20_000..EIGHT));
        numbers.extend((0..100_000).map(|_| random.below(EIGHT)));
        let mut digits = Vec::new();
        assert!(eights(&numbers, &mut digits));
        for (n, digits) in numbers.iter().zip(&digits) {
            assert_eq!(pushed(|slot| put_number(slot, 0, joined(*digits))), n.to_string());
            let cents = format!("{}.{:02}", n / 100, n % 100);
            assert_eq!(pushed(|slot| put_hundredths(slot, 0, joined(*digits))), cents);
        }
        for large in [EIGHT, u32::MAX as u64 + 1, u64::MAX] {
            assert!(!eights(&[1, large, 2], &mut digits), "{large} has more than eight digits");
        }
    }

    fn pushed(put: impl FnOnce(&mut Slot) -> usize) -> String {
        let mut slot = [0; SLOT];
        let end = put(&mut slot);
        String::from_utf8(slot[..end].to_vec()).unwrap()
    }

    #[test]
    fn numbers_of_every_length() {
        let mut random = ondol_base::sim::Random::new(1);
        let near = (0..20).flat_map(|n| (0..3).map(move |d| 10u64.pow(n).wrapping_add(d).wrapping_sub(1)));
        let any = (0..20_000).map(|n| random.next() >> (n % 64)).collect::<Vec<_>>();
        for n in near.chain(any).chain([0, u64::MAX]) {
            assert_eq!(pushed(|b| put_u64(b, 0, n)), n.to_string());
            assert_eq!(pushed(|b| put_i64(b, 0, n as i64)), (n as i64).to_string());
            for count in 0..=18 {
                let n = n % 10u64.pow(count);
                let expected =
                    if count == 0 { String::new() } else { format!("{n:0width$}", width = count as usize) };
                assert_eq!(pushed(|b| put_digits(b, 0, n, count as usize)), expected);
            }
        }
        for n in 0..100_000 {
            assert_eq!(pushed(|b| put_u64(b, 0, n)), n.to_string());
        }
    }

    #[test]
    fn times_and_parts() {
        let time = |hour, micros| Time { negative: false, hour, minute: 5, second: 59, micros };
        assert_eq!(pushed(|b| put_time(b, 0, time(7, 0), 0)), "07:05:59");
        assert_eq!(pushed(|b| put_time(b, 0, time(838, 999_900), 4)), "838:05:59.9999");
        let parts = |negative, whole, fraction| Parts { negative, whole, fraction };
        for n in (0..12_000).chain([99_999, 1_000_000, 99_999_999, 100_000_000, 999_999_999_999_999_999]) {
            let (whole, fraction) = (n as u64 / 100, n as u64 % 100);
            for n in [n, -n] {
                let expected = pushed(|b| put_parts(b, Parts { negative: n < 0, whole, fraction }, 2));
                assert_eq!(pushed(|b| put_cents(b, n)), expected);
            }
        }
        assert_eq!(pushed(|b| put_parts(b, parts(true, 0, 5), 2)), "-0.05");
        assert_eq!(pushed(|b| put_parts(b, parts(true, 0, 0), 2)), "0.00");
        assert_eq!(pushed(|b| put_parts(b, parts(false, 12, 0), 0)), "12");
        assert_eq!(pushed(|b| put_parts(b, parts(false, 0, 123_456_789_012), 18)), "0.000000123456789012");
    }

    #[test]
    fn uuids_are_reversed_by_their_version() {
        let bytes = |text: &str| -> Vec<u8> {
            let digits: Vec<u8> =
                text.bytes().filter_map(|b| char::from(b).to_digit(16).map(|d| d as u8)).collect();
            digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect()
        };
        for (stored, shown) in [
            // Of version 1; of version 7; and of no version, with the variant's bit where a reversed one has
            // it.
            ("426655440000 a456 12d3 e89b 123e4567", "123e4567-e89b-12d3-a456-426655440000"),
            ("018f4d2e 1234 7abc 8def 0123456789ab", "018f4d2e-1234-7abc-8def-0123456789ab"),
            ("209e85dd 0ff4 bb53 fb4a 05dd1b8e206d", "209e85dd-0ff4-bb53-fb4a-05dd1b8e206d"),
        ] {
            assert_eq!(uuid(&bytes(stored)).as_deref(), Some(shown));
        }
        assert_eq!(uuid(&[0; 15]), None);
    }

    #[test]
    fn ipv6_as_mariadb_writes_it() {
        for (address, shown) in [
            ("e273:6529:853e:b715:bb8:0:ee2d:e21b", "e273:6529:853e:b715:bb8::ee2d:e21b"),
            ("2001:db8::ff00:42:8329", "2001:db8::ff00:42:8329"),
            ("1:0:0:2:3:0:0:4", "1::2:3:0:0:4"),
            ("::", "::"),
            ("::1", "::1"),
            ("1::", "1::"),
            ("::ffff:1.2.3.4", "::ffff:1.2.3.4"),
            ("::1.2.3.4", "::1.2.3.4"),
            ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"),
        ] {
            let octets = address.parse::<std::net::Ipv6Addr>().expect("an address").octets();
            assert_eq!(inet6(octets), shown);
        }
    }

    #[test]
    fn spaces_at_the_end_do_not_count() {
        for length in 0..40 {
            for spaces in 0..=length {
                let mut bytes = vec![b'x'; length - spaces];
                bytes.resize(length, b' ');
                assert_eq!(trimmed(&bytes).len(), length - spaces);
                let mut before = vec![b' '; length];
                before.push(b'x');
                before.resize(length + 1 + spaces, b' ');
                assert_eq!(trimmed(&before).len(), length + 1);
                // The same of a value in a page, whatever stands before and behind it.
                for around in [b' ', b'x'] {
                    let mut page = vec![around; Window::BYTES];
                    page[200..200 + length].copy_from_slice(&bytes);
                    let window = Window::new(&page).unwrap();
                    let (at, long, expected) = (200, length as u16, (length - spaces) as u16);
                    if length <= 8 {
                        assert_eq!(length_trimmed::<8>(window, at, long), expected);
                    }
                    if length <= 16 {
                        assert_eq!(length_trimmed::<16>(window, at, long), expected);
                    }
                    if length <= 32 {
                        assert_eq!(length_trimmed::<32>(window, at, long), expected);
                    }
                    assert_eq!(length_trimmed::<64>(window, at, long), expected);
                }
            }
        }
    }
}
