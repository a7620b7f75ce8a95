//! Functions of bytea: length, parts, trimming, single bytes and bits, encodings, digests.

use super::digest::{Sha224, Sha256, Sha384, Sha512};
use super::text::{negative_length, substring_range};
use super::{digest, state};
use crate::limits::{Limits, TURNS};
use crate::{SqlError, SqlResult, Value, sqlstate};

fn bytes(b: impl Into<Vec<u8>>) -> SqlResult<Value> {
    Ok(Value::Bytea(b.into()))
}

fn int4(n: usize) -> SqlResult<Value> {
    i32::try_from(n).map(Value::Int4).map_err(|_| super::out_of_range("integer"))
}

fn bad_input(message: impl Into<String>) -> SqlError {
    SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}

fn substring(b: &[u8], start: i32, length: Option<i32>) -> SqlResult<Value> {
    let (from, to) = substring_range(start, length)?;
    let to = to.min(b.len());
    bytes(&b[from.min(to)..to])
}

fn position(b: &[u8], part: &[u8], limits: &Limits<'_>) -> SqlResult<Value> {
    if part.is_empty() {
        return int4(1);
    }
    let per_turn = TURNS.div_ceil(part.len());
    for (at, window) in b.windows(part.len()).enumerate() {
        if at.is_multiple_of(per_turn) {
            limits.turn(at)?;
        }
        if window == part {
            return int4(at + 1);
        }
    }
    int4(0)
}

fn trim(b: &[u8], set: &[u8], start: bool, end: bool) -> SqlResult<Value> {
    let mut b = b;
    while let (true, Some((first, rest))) = (start, b.split_first()) {
        if !set.contains(first) {
            break;
        }
        b = rest;
    }
    while let (true, Some((last, rest))) = (end, b.split_last()) {
        if !set.contains(last) {
            break;
        }
        b = rest;
    }
    bytes(b)
}

fn overlay(b: &[u8], with: &[u8], start: i32, length: i32) -> SqlResult<Value> {
    if start <= 0 {
        return Err(negative_length());
    }
    let end = start.checked_add(length).ok_or_else(|| super::out_of_range("integer"))?;
    let head = &b[..b.len().min(start as usize - 1)];
    let tail = &b[b.len().min(end.max(1) as usize - 1)..];
    bytes([head, with, tail].concat())
}

/// An index checked against the number of units there are.
fn index(n: i64, count: usize) -> SqlResult<usize> {
    usize::try_from(n).ok().filter(|n| *n < count).ok_or_else(|| {
        let message = format!("index {n} out of valid range, 0..{}", count as i64 - 1);
        SqlError::new(state::ARRAY_SUBSCRIPT_ERROR, message)
    })
}

fn set_byte(b: &[u8], n: i32, value: i32) -> SqlResult<Value> {
    let n = index(n.into(), b.len())?;
    let mut b = b.to_vec();
    b[n] = value as u8;
    bytes(b)
}

fn get_bit(b: &[u8], n: i64) -> SqlResult<Value> {
    let n = index(n, b.len() * 8)?;
    Ok(Value::Int4((b[n / 8] >> (n % 8) & 1).into()))
}

fn set_bit(b: &[u8], n: i64, value: i32) -> SqlResult<Value> {
    let n = index(n, b.len() * 8)?;
    if value != 0 && value != 1 {
        return Err(bad_input("new bit must be 0 or 1"));
    }
    let mut b = b.to_vec();
    b[n / 8] = b[n / 8] & !(1 << (n % 8)) | (value as u8) << (n % 8);
    bytes(b)
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base 64 with a line break after every 76 characters.
fn to_base64(b: &[u8]) -> String {
    let mut out = String::with_capacity(b.len() * 4 / 3 + b.len() / 57 + 4);
    for (i, group) in b.chunks(3).enumerate() {
        if i > 0 && i % 19 == 0 {
            out.push('\n');
        }
        let word = group.iter().fold(0u32, |w, b| w << 8 | u32::from(*b)) << (8 * (3 - group.len()));
        for k in 0..4 {
            let symbol = BASE64[(word >> (18 - 6 * k) & 63) as usize] as char;
            out.push(if k <= group.len() { symbol } else { '=' });
        }
    }
    // A full last line is ended too.
    if b.len().is_multiple_of(57) && !b.is_empty() {
        out.push('\n');
    }
    out
}

fn from_base64(s: &str) -> SqlResult<Vec<u8>> {
    let mut out = Vec::with_capacity(s.len() * 3 / 4);
    let (mut word, mut symbols, mut padding) = (0u32, 0, 0);
    for c in s.chars().filter(|c| !matches!(c, ' ' | '\t' | '\n' | '\r')) {
        let value = if c == '=' {
            // Padding may stand in the third and fourth place only.
            if padding == 0 {
                padding = match symbols {
                    2 => 2,
                    3 => 1,
                    _ => return Err(bad_input("unexpected \"=\" while decoding base64 sequence")),
                };
            }
            0
        } else {
            let known = u8::try_from(c).ok().and_then(|c| BASE64.iter().position(|b| *b == c));
            match known {
                Some(v) if padding == 0 => v as u32,
                Some(_) => return Err(base64_end()),
                None => {
                    return Err(bad_input(format!(
                        "invalid symbol \"{c}\" found while decoding base64 sequence"
                    )));
                }
            }
        };
        word = word << 6 | value;
        symbols += 1;
        if symbols == 4 {
            out.extend(&word.to_be_bytes()[1..4 - padding]);
            (word, symbols) = (0, 0);
        }
    }
    if symbols != 0 {
        return Err(base64_end());
    }
    Ok(out)
}

fn base64_end() -> SqlError {
    bad_input("invalid base64 end sequence")
        .hint("Input data is missing padding, is truncated, or is otherwise corrupted.")
}

fn from_hex(s: &str) -> SqlResult<Vec<u8>> {
    let mut out = Vec::with_capacity(s.len() / 2);
    let mut digits = s.chars().filter(|c| !matches!(c, ' ' | '\t' | '\n' | '\r'));
    let value =
        |c: char| c.to_digit(16).ok_or_else(|| bad_input(format!("invalid hexadecimal digit: \"{c}\"")));
    while let Some(high) = digits.next() {
        let high = value(high)?;
        let low = digits.next().ok_or_else(|| bad_input("invalid hexadecimal data: odd number of digits"))?;
        out.push((high << 4 | value(low)?) as u8);
    }
    Ok(out)
}

/// Zero and bytes above 127 in octal, the backslash doubled.
fn to_escape(b: &[u8]) -> String {
    let mut out = String::with_capacity(b.len());
    for byte in b {
        match byte {
            b'\\' => out.push_str("\\\\"),
            1..=127 => out.push(*byte as char),
            _ => out.push_str(&format!("\\{byte:03o}")),
        }
    }
    out
}

fn from_escape(s: &str) -> SqlResult<Vec<u8>> {
    let bad = || SqlError::new(sqlstate::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type bytea");
    let mut out = Vec::with_capacity(s.len());
    let mut rest = s.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = match (first, tail) {
            (b'\\', [b'\\', tail @ ..]) => {
                out.push(b'\\');
                tail
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..]) => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                tail
            }
            (b'\\', _) => return Err(bad()),
            (plain, tail) => {
                out.push(*plain);
                tail
            }
        };
    }
    Ok(out)
}

fn unknown_encoding(format: &str) -> SqlError {
    bad_input(format!("unrecognized encoding: \"{format}\""))
}

fn encode(b: &[u8], format: &str, limits: &Limits<'_>) -> SqlResult<Value> {
    // The longest form has four characters a byte. One is charged already.
    let more = if format.eq_ignore_ascii_case("escape") { 3 } else { 1 };
    limits.take(b.len().saturating_mul(more))?;
    Ok(Value::Text(match format.to_ascii_lowercase().as_str() {
        "hex" => digest::hex(b),
        "base64" => to_base64(b),
        "escape" => to_escape(b),
        _ => return Err(unknown_encoding(format)),
    }))
}

fn decode(s: &str, format: &str) -> SqlResult<Value> {
    bytes(match format.to_ascii_lowercase().as_str() {
        "hex" => from_hex(s)?,
        "base64" => from_base64(s)?,
        "escape" => from_escape(s)?,
        _ => return Err(unknown_encoding(format)),
    })
}

/// Whether this is a name of the one encoding there is: letters and digits count, in either case.
fn check_utf8(encoding: &str, direction: &str) -> SqlResult<()> {
    let plain: String = encoding.chars().filter(char::is_ascii_alphanumeric).collect();
    match plain.to_ascii_lowercase().as_str() {
        "utf8" | "unicode" => Ok(()),
        _ => Err(SqlError::unsupported(format_args!("conversion {direction} encoding \"{encoding}\""))),
    }
}

/// Bytes as text, if they are text.
fn convert_from(b: &[u8], encoding: &str) -> SqlResult<Value> {
    check_utf8(encoding, "from")?;
    let bad_at = match std::str::from_utf8(b) {
        Ok(s) if !s.contains('\0') => return Ok(Value::Text(s.into())),
        Ok(s) => s.find('\0').unwrap_or(0),
        Err(e) => b[..e.valid_up_to()].iter().position(|b| *b == 0).unwrap_or(e.valid_up_to()),
    };
    // The message shows as many bytes as the first of them announces.
    let announced = match b[bad_at] {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        _ => 1,
    };
    let shown: Vec<String> = b[bad_at..].iter().take(announced).map(|b| format!("0x{b:02x}")).collect();
    let message = format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" "));
    Err(SqlError::new(state::CHARACTER_NOT_IN_REPERTOIRE, message))
}

fn convert_to(s: &str, encoding: &str) -> SqlResult<Value> {
    check_utf8(encoding, "to")?;
    bytes(s.as_bytes())
}

fn bit_count(b: &[u8]) -> i64 {
    b.iter().map(|b| i64::from(b.count_ones())).sum()
}

functions! {
    610 BYTEA_LENGTH "length" (Bytea) -> Int4 = |c| int4(c.bytea(0)?.len());
    611 OCTET_LENGTH_BYTEA "octet_length" (Bytea) -> Int4 = |c| int4(c.bytea(0)?.len());
    612 BIT_LENGTH_BYTEA "bit_length" (Bytea) -> Int4 = |c| int4(c.bytea(0)?.len() * 8);
    613 BYTEA_CAT "byteacat" (Bytea, Bytea) -> Bytea = |c| bytes([c.bytea(0)?, c.bytea(1)?].concat());
    614 SUBSTR_BYTEA "substr" (Bytea, Int4) -> Bytea = |c| substring(c.bytea(0)?, c.int4(1)?, None);
    615 SUBSTR_BYTEA_LENGTH "substr" (Bytea, Int4, Int4) -> Bytea =
        |c| substring(c.bytea(0)?, c.int4(1)?, Some(c.int4(2)?));
    616 SUBSTRING_BYTEA "substring" (Bytea, Int4) -> Bytea = |c| substring(c.bytea(0)?, c.int4(1)?, None);
    617 SUBSTRING_BYTEA_LENGTH "substring" (Bytea, Int4, Int4) -> Bytea =
        |c| substring(c.bytea(0)?, c.int4(1)?, Some(c.int4(2)?));
    618 POSITION_BYTEA "position" (Bytea, Bytea) -> Int4 =
        |c| position(c.bytea(0)?, c.bytea(1)?, c.limits());
    619 LTRIM_BYTEA "ltrim" (Bytea, Bytea) -> Bytea = |c| trim(c.bytea(0)?, c.bytea(1)?, true, false);
    620 RTRIM_BYTEA "rtrim" (Bytea, Bytea) -> Bytea = |c| trim(c.bytea(0)?, c.bytea(1)?, false, true);
    621 BTRIM_BYTEA "btrim" (Bytea, Bytea) -> Bytea = |c| trim(c.bytea(0)?, c.bytea(1)?, true, true);
    622 OVERLAY_BYTEA "overlay" (Bytea, Bytea, Int4) -> Bytea = |c| {
        let with = c.bytea(1)?;
        overlay(c.bytea(0)?, with, c.int4(2)?, with.len() as i32)
    };
    623 OVERLAY_BYTEA_LENGTH "overlay" (Bytea, Bytea, Int4, Int4) -> Bytea =
        |c| overlay(c.bytea(0)?, c.bytea(1)?, c.int4(2)?, c.int4(3)?);
    624 GET_BYTE "get_byte" (Bytea, Int4) -> Int4 = |c| {
        let b = c.bytea(0)?;
        Ok(Value::Int4(b[index(c.int4(1)?.into(), b.len())?].into()))
    };
    625 SET_BYTE "set_byte" (Bytea, Int4, Int4) -> Bytea = |c| set_byte(c.bytea(0)?, c.int4(1)?, c.int4(2)?);
    626 GET_BIT "get_bit" (Bytea, Int8) -> Int4 = |c| get_bit(c.bytea(0)?, c.int8(1)?);
    627 SET_BIT "set_bit" (Bytea, Int8, Int4) -> Bytea = |c| set_bit(c.bytea(0)?, c.int8(1)?, c.int4(2)?);
    628 BIT_COUNT "bit_count" (Bytea) -> Int8 = |c| Ok(Value::Int8(bit_count(c.bytea(0)?)));
    629 ENCODE "encode" (Bytea, Text) -> Text = |c| encode(c.bytea(0)?, c.text(1)?, c.limits());
    630 DECODE "decode" (Text, Text) -> Bytea = |c| decode(c.text(0)?, c.text(1)?);
    631 MD5_BYTEA "md5" (Bytea) -> Text = |c| Ok(Value::Text(digest::md5(c.bytea(0)?)));
    632 SHA224 "sha224" (Bytea) -> Bytea = |c| bytes(digest::sha2::<Sha224>(c.bytea(0)?));
    633 SHA256 "sha256" (Bytea) -> Bytea = |c| bytes(digest::sha2::<Sha256>(c.bytea(0)?));
    634 CONVERT_FROM "convert_from" (Bytea, Text) -> Text = |c| convert_from(c.bytea(0)?, c.text(1)?), stable;
    635 CONVERT_TO "convert_to" (Text, Text) -> Bytea = |c| convert_to(c.text(0)?, c.text(1)?), stable;
    636 SHA384 "sha384" (Bytea) -> Bytea = |c| bytes(digest::sha2::<Sha384>(c.bytea(0)?));
    637 SHA512 "sha512" (Bytea) -> Bytea = |c| bytes(digest::sha2::<Sha512>(c.bytea(0)?));
}
