//! MySQL's binary JSON, as the text that the server shows.
//!
//! A value is a type byte and a body. Objects and arrays: count and size (2 bytes each, or 4 in the large
//! forms), for objects an entry of (offset, length) for each key, then for each value a type and either the
//! value itself, if it fits, or an offset. All little-endian, offsets from the container's body. Sources:
//! MySQL's description of the format (json_binary.h's comment, WL#8132); documents written by MySQL 9.7.
use crate::value::{self, push_float};
use std::io::Write;

/// Deeper than the server allows (100), so what is refused is damaged.
const DEPTH: usize = 128;

/// The text of a document; `None` if it is none.
pub fn text(bytes: &[u8]) -> Option<String> {
    let mut out = Vec::with_capacity(bytes.len() * 2);
    match bytes.split_first() {
        // Nothing at all is what a column of an old table holds for JSON null.
        None => out.extend_from_slice(b"null"),
        Some((&kind, body)) => push(&mut out, kind, body, DEPTH)?,
    }
    String::from_utf8(out).ok()
}

fn word(bytes: &[u8], at: usize, large: bool) -> Option<usize> {
    Some(if large {
        u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize
    } else {
        u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?) as usize
    })
}

fn push(out: &mut Vec<u8>, kind: u8, body: &[u8], depth: usize) -> Option<()> {
    match kind {
        0 | 1 => container(out, body, kind == 1, true, depth.checked_sub(1)?),
        2 | 3 => container(out, body, kind == 3, false, depth.checked_sub(1)?),
        4 => {
            out.extend_from_slice(match body.first()? {
                0 => b"null",
                1 => b"true",
                2 => b"false",
                _ => return None,
            });
            Some(())
        }
        5 => number(out, i16::from_le_bytes(body.get(..2)?.try_into().ok()?)),
        6 => number(out, u16::from_le_bytes(body.get(..2)?.try_into().ok()?)),
        7 => number(out, i32::from_le_bytes(body.get(..4)?.try_into().ok()?)),
        8 => number(out, u32::from_le_bytes(body.get(..4)?.try_into().ok()?)),
        9 => number(out, i64::from_le_bytes(body.get(..8)?.try_into().ok()?)),
        10 => number(out, u64::from_le_bytes(body.get(..8)?.try_into().ok()?)),
        11 => {
            let start = out.len();
            push_float(out, f64::from_le_bytes(body.get(..8)?.try_into().ok()?), false, None, usize::MAX);
            // A double stays one: 1.0, not 1.
            if !out[start..].iter().any(|b| matches!(b, b'.' | b'e')) {
                out.extend_from_slice(b".0");
            }
            Some(())
        }
        12 => string(out, sized(body)?.0),
        15 => opaque(out, body),
        _ => None,
    }
}

fn number(out: &mut Vec<u8>, n: impl std::fmt::Display) -> Option<()> {
    write!(out, "{n}").ok()
}

/// A length of 7 bits a byte, and so many bytes; and what follows.
fn sized(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut length, mut shift) = (0usize, 0);
    for (i, b) in body.iter().take(5).enumerate() {
        length |= ((b & 0x7f) as usize) << shift;
        shift += 7;
        if b & 0x80 == 0 {
            return body[i + 1..].split_at_checked(length);
        }
    }
    None
}

fn string(out: &mut Vec<u8>, text: &[u8]) -> Option<()> {
    std::str::from_utf8(text).ok()?;
    out.push(b'"');
    for &b in text {
        match b {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            8 => out.extend_from_slice(b"\\b"),
            12 => out.extend_from_slice(b"\\f"),
            0..32 => write!(out, "\\u{b:04x}").ok()?,
            _ => out.push(b),
        }
    }
    out.push(b'"');
    Some(())
}

fn container(out: &mut Vec<u8>, body: &[u8], large: bool, is_object: bool, depth: usize) -> Option<()> {
    let width = if large { 4 } else { 2 };
    let (count, size) = (word(body, 0, large)?, word(body, width, large)?);
    let body = body.get(..size)?;
    let keys = 2 * width;
    let values = keys + if is_object { count.checked_mul(width + 2)? } else { 0 };
    if values.checked_add(count.checked_mul(width + 1)?)? > size {
        return None;
    }
    out.push(if is_object { b'{' } else { b'[' });
    for i in 0..count {
        if i > 0 {
            out.extend_from_slice(b", ");
        }
        if is_object {
            let entry = keys + i * (width + 2);
            let (at, length) = (word(body, entry, large)?, word(body, entry + width, false)?);
            string(out, body.get(at..at.checked_add(length)?)?)?;
            out.extend_from_slice(b": ");
        }
        let entry = values + i * (width + 1);
        let kind = *body.get(entry)?;
        // Literals and short integers are in the entry, in the large form those of 4 bytes too.
        let is_here = matches!(kind, 4..=6) || (large && matches!(kind, 7 | 8));
        let value = if is_here { body.get(entry + 1..)? } else { body.get(word(body, entry + 1, large)?..)? };
        push(out, kind, value, depth)?;
    }
    out.push(if is_object { b'}' } else { b']' });
    Some(())
}

/// A value of a column type that JSON has not: its type, its length, its bytes.
fn opaque(out: &mut Vec<u8>, body: &[u8]) -> Option<()> {
    let (&kind, rest) = body.split_first()?;
    let (bytes, _) = sized(rest)?;
    match kind {
        // NEWDECIMAL: precision, scale, digits.
        246 => {
            let [precision, scale, digits @ ..] = bytes else { return None };
            if scale > precision || *precision > 65 {
                return None;
            }
            value::push_decimal(out, digits, *precision, *scale)
        }
        // DATE, TIME, DATETIME, TIMESTAMP: 24 bits of microseconds, then the packed form, in one number of 64
        // bits.
        7 | 10 | 11 | 12 => {
            let packed = i64::from_le_bytes(bytes.try_into().ok()?);
            let negative = packed < 0;
            let n = packed.unsigned_abs();
            let (micros, whole) = (n & 0xff_ffff, n >> 24);
            let (hms, ymd) = (whole & 0x1ffff, whole >> 17);
            let (h, m, s) = (hms >> 12, hms >> 6 & 63, hms & 63);
            let (months, day) = (ymd >> 5, ymd & 31);
            let (year, month) = (months / 13, months % 13);
            let sign = if negative { "-" } else { "" };
            match kind {
                10 => write!(out, "\"{year:04}-{month:02}-{day:02}\""),
                11 => write!(out, "\"{sign}{:02}:{m:02}:{s:02}.{micros:06}\"", whole >> 12 & 0x3ff),
                _ => write!(out, "\"{year:04}-{month:02}-{day:02} {h:02}:{m:02}:{s:02}.{micros:06}\""),
            }
            .ok()
        }
        // Anything else is shown in base64, with its type's number.
        _ => {
            use base64::prelude::{BASE64_STANDARD, Engine as _};
            write!(out, "\"base64:type{kind}:{}\"", BASE64_STANDARD.encode(bytes)).ok()
        }
    }
}
