//! Text input and output of every type, as PostgreSQL's input and output functions read and write them.
//!
//! Output appends to a `String` or to bytes ([`Out`]) that the caller reuses, and allocates nothing of its
//! own for the usual values: millions of rows pass through here when tables are copied.
//!
//! Invariants:
//! 1. What [`output`] writes, [`input`] reads back to an equal value.
//! 2. A float is written with the fewest digits that read back to it, none of them standing exactly between
//!    two floats.
//! 3. Values of char(n) are held without trailing spaces; output pads them to n characters.
//!
//! Not here: the quoting of COPY and CSV, and the binary formats of the wire.
//!
//! Sources: PostgreSQL 15's documentation, chapter 8, and its answers.

use crate::catalog::record;
use crate::func::Context;
use crate::style::Styles;
use crate::ty::Class;
use crate::{Numeric, SqlError, SqlResult, Type, TypeId, Value, ValueRef, cast, datetime, sqlstate};
use std::fmt::Write as _;
use std::io::Write as _;

/// A blank to PostgreSQL's input functions.
pub(crate) fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t'..=b'\r')
}

/// What follows the blanks.
pub(crate) fn skip_space(b: &[u8]) -> &[u8] {
    &b[b.iter().take_while(|c| is_space(**c)).count()..]
}

/// Without blanks on either side.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| u8::try_from(c).is_ok_and(is_space))
}

/// "invalid input syntax for type ..."
pub(crate) fn invalid_syntax(ty: &str, text: &str) -> SqlError {
    SqlError::new(
        sqlstate::INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for type {ty}: \"{text}\""),
    )
}

/// Reads a value of a type with its modifier, as a literal or a parameter in text form.
pub fn input(text: &str, ty: Type, ctx: &Context<'_>) -> SqlResult<Value> {
    let v = match ty.id.class() {
        Class::Bool => Value::Bool(parse_bool(text)?),
        Class::Int2 => Value::Int2(parse_i16(text)?),
        Class::Int4 => Value::Int4(parse_i32(text)?),
        Class::Int8 => Value::Int8(parse_i64(text)?),
        Class::Float8 => Value::Float8(parse_f64(text)?),
        Class::Numeric => Value::Numeric(Numeric::parse(text)?),
        Class::Text => Value::Text(text.to_string()),
        Class::Bytea => Value::Bytea(parse_bytea(text)?),
        Class::Date => Value::Date(datetime::parse_date(text, ctx)?),
        Class::Timestamp => Value::Timestamp(datetime::parse_timestamp(text, ctx)?),
        Class::Timestamptz => Value::Timestamptz(datetime::parse_timestamptz(text, ctx)?),
        Class::Opaque(form) => (form.input)(text, ty, ctx)?,
        Class::None => {
            let message = format!("cannot accept a value of type {}", ty.id);
            return Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message));
        }
    };
    cast::apply_typmod(v, ty, false, ctx)
}

/// What text is appended to.
pub trait Out {
    fn text(&mut self, text: &str);
    /// Appends ASCII.
    fn ascii(&mut self, bytes: &[u8]);
    /// Appends the first `len` bytes of ASCII, as long as all of them, where that is quicker.
    fn beginning<const N: usize>(&mut self, bytes: [u8; N], len: usize);
}

impl Out for String {
    #[inline]
    fn text(&mut self, text: &str) {
        self.push_str(text)
    }
    #[inline]
    fn ascii(&mut self, bytes: &[u8]) {
        self.push_str(ascii(bytes))
    }
    #[inline]
    fn beginning<const N: usize>(&mut self, bytes: [u8; N], len: usize) {
        self.ascii(&bytes[..len])
    }
}

impl Out for Vec<u8> {
    #[inline]
    fn text(&mut self, text: &str) {
        self.extend_from_slice(text.as_bytes())
    }
    #[inline]
    fn ascii(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes)
    }
    #[inline(always)]
    fn beginning<const N: usize>(&mut self, bytes: [u8; N], len: usize) {
        let end = self.len() + len;
        self.extend_from_slice(&bytes);
        self.truncate(end)
    }
}

/// Appends the value as text; nothing for NULL.
pub fn output(v: ValueRef<'_>, ty: Type, out: &mut impl Out) {
    match v {
        ValueRef::Null => {}
        ValueRef::Bool(b) => out.ascii(if b { b"t" } else { b"f" }),
        ValueRef::Int2(i) => write_i64(i64::from(i), out),
        ValueRef::Int4(i) => write_i64(i64::from(i), out),
        ValueRef::Int8(i) => write_i64(i, out),
        ValueRef::Float8(f) => write_f64(f, out),
        ValueRef::Numeric(b) => Numeric::write_encoded(b, out),
        ValueRef::Packed(p) => p.write(out),
        ValueRef::Text(s) => {
            out.text(s);
            if let (TypeId::BPCHAR, Some(n)) = (ty.id, ty.char_len()) {
                const BLANKS: [u8; 32] = [b' '; 32];
                let have = if s.is_ascii() { s.len() } else { s.chars().count() };
                let mut missing = n.saturating_sub(have);
                while missing > 0 {
                    let n = missing.min(BLANKS.len());
                    out.beginning(BLANKS, n);
                    missing -= n;
                }
            }
        }
        ValueRef::Bytea(b) => write_bytea(b, out),
        ValueRef::Date(d) => datetime::write_date(d, out),
        ValueRef::Timestamp(t) => datetime::write_timestamp(t, out),
        ValueRef::Timestamptz(t) => datetime::write_timestamptz(t, out),
        ValueRef::Opaque(ty, b) => {
            let mut text = String::new();
            if let Some(form) = ty.form() {
                (form.output)(ty, b, &mut text)
            }
            out.text(&text)
        }
    }
}

/// Appends the value as text in a session's styles; nothing for NULL.
pub fn styled(v: ValueRef<'_>, ty: Type, styles: &Styles, out: &mut impl Out) {
    if styles.is_usual() {
        return output(v, ty, out);
    }
    match v {
        ValueRef::Float8(f) => write_float(f, 15, styles, out, write_f64),
        ValueRef::Bytea(b) if styles.escape_bytes => write_escaped(b, out),
        ValueRef::Date(d) => datetime::write_styled_date(d, styles, out),
        ValueRef::Timestamp(t) => datetime::write_styled_timestamp(t, styles, out),
        ValueRef::Timestamptz(t) => datetime::write_styled_timestamptz(t, styles, out),
        ValueRef::Opaque(ty, b) => {
            let mut text = String::new();
            match ty {
                TypeId::INTERVAL => crate::catalog::interval::write_styled(b, styles, &mut text),
                TypeId::FLOAT4 => crate::catalog::real::write_styled(b, styles, &mut text),
                ty if ty.is_array() => crate::array::write_styled(ty, b, styles, &mut text),
                ty if record::is_row(ty) => record::write_styled(ty, b, styles, &mut text),
                ty => output(ValueRef::Opaque(ty, b), Type::new(ty), &mut text),
            }
            out.text(&text)
        }
        v => output(v, ty, out),
    }
}

/// Whether the text of a type's values depends on the session's styles.
pub fn is_styled(ty: TypeId) -> bool {
    let ty = ty.element().unwrap_or(ty);
    let is_row = matches!(ty, TypeId::RECORD) || ty.is_user();
    is_row && record::is_styled(ty)
        || matches!(
            ty,
            TypeId::FLOAT4
                | TypeId::FLOAT8
                | TypeId::BYTEA
                | TypeId::DATE
                | TypeId::TIMESTAMP
                | TypeId::TIMESTAMPTZ
                | TypeId::INTERVAL
        )
}

/// A float of a type with so many digits, or with as many as it needs.
pub(crate) fn write_float<O: Out>(
    f: f64,
    digits: i32,
    styles: &Styles,
    out: &mut O,
    shortest: impl FnOnce(f64, &mut O),
) {
    match styles.float_digits > 0 || !f.is_finite() {
        true => shortest(f, out),
        false => write_general(f, (digits + i32::from(styles.float_digits)).max(1) as usize, out),
    }
}

/// Appends bytes as characters; those that are none of ASCII's that can be printed, in octal.
fn write_escaped(bytes: &[u8], out: &mut impl Out) {
    for b in bytes {
        match b {
            b'\\' => out.ascii(b"\\\\"),
            0x20..=0x7e => out.ascii(&[*b]),
            b => out.ascii(&[b'\\', b'0' + (b >> 6), b'0' + (b >> 3 & 7), b'0' + (b & 7)]),
        }
    }
}

/// The digits of every number below a hundred, two and two.
static PAIRS: [u8; 200] = {
    let mut table = [0; 200];
    let mut i = 0;
    while i < 100 {
        table[2 * i] = b'0' + (i / 10) as u8;
        table[2 * i + 1] = b'0' + (i % 10) as u8;
        i += 1;
    }
    table
};

/// Eight digits, the first in the lowest byte; of a number below 10^8.
#[inline(always)]
pub(crate) fn eight_digits(v: u32) -> u64 {
    // Two numbers of four digits, then four of two, then eight of one, each at the bits of those that it
    // becomes. The multiplications are divisions by 100 and 10.
    let fours = u64::from(v / 10_000) | u64::from(v % 10_000) << 32;
    let high = ((fours * 10_486) >> 20) & 0x7f_0000_007f;
    let twos = high | (fours - 100 * high) << 16;
    let high = ((twos * 103) >> 10) & 0x0f_000f_000f_000f;
    high | (twos - 10 * high) << 8
}

/// The same, sixteen of them; of a number below 10^16.
#[inline(always)]
pub(crate) fn sixteen_digits(v: u64) -> u128 {
    const HALF: u64 = 100_000_000;
    let low = u128::from(eight_digits((v % HALF) as u32)) << 64;
    if v < HALF { low } else { low | u128::from(eight_digits((v / HALF) as u32)) }
}

/// "0" in each byte: what makes characters of digits.
pub(crate) const ZEROS: u128 = u128::from_ne_bytes([b'0'; 16]);

/// Writes digits so that they end where `end` says; gives the start.
#[inline]
fn digits_before(mut v: u64, buf: &mut [u8], mut end: usize) -> usize {
    while v >= 100 {
        let pair = 2 * (v % 100) as usize;
        v /= 100;
        end -= 2;
        buf[end..end + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if v >= 10 {
        end -= 2;
        buf[end..end + 2].copy_from_slice(&PAIRS[2 * v as usize..2 * v as usize + 2]);
    } else {
        end -= 1;
        buf[end] = b'0' + v as u8;
    }
    end
}

#[inline]
fn ascii(b: &[u8]) -> &str {
    std::str::from_utf8(b).unwrap_or_default()
}

/// The digits of a number, "0" for zero.
pub(crate) fn digits_u128(v: u128, buf: &mut [u8; 40]) -> &str {
    const CHUNK: u128 = 10_000_000_000_000_000_000;
    let mut end = buf.len();
    let mut v = v;
    loop {
        if let Ok(small) = u64::try_from(v) {
            let start = digits_before(small, buf, end);
            return ascii(&buf[start..]);
        }
        let start = digits_before((v % CHUNK) as u64, buf, end);
        end -= 19;
        buf[end..start].fill(b'0');
        v /= CHUNK;
    }
}

/// The last two digits of a number.
#[inline]
pub(crate) fn pair(v: u32) -> [u8; 2] {
    let i = 2 * (v % 100) as usize;
    [PAIRS[i], PAIRS[i + 1]]
}

#[inline]
pub fn write_i64(v: i64, out: &mut impl Out) {
    const HALF: u64 = 100_000_000;
    let n = v.unsigned_abs();
    if v >= 0 && n < HALF {
        let digits = eight_digits(n as u32);
        let zeros = (digits.trailing_zeros() / 8).min(7);
        let shown = (digits | ZEROS as u64) >> (8 * zeros);
        return out.beginning(shown.to_le_bytes(), 8 - zeros as usize);
    }
    write_long(v, out)
}

#[inline(never)]
fn write_long(v: i64, out: &mut impl Out) {
    let mut buf = [0; 20];
    let mut start = digits_before(v.unsigned_abs(), &mut buf, 20);
    if v < 0 {
        start -= 1;
        buf[start] = b'-';
    }
    out.ascii(&buf[start..]);
}

pub fn write_f64(f: f64, out: &mut impl Out) {
    // Floats that are whole and have up to 15 digits are written like integers.
    const WHOLE: f64 = 1e15;
    if f.is_nan() {
        return out.ascii(b"NaN");
    }
    if f.is_sign_negative() {
        out.ascii(b"-");
    }
    let f = f.abs();
    if f.is_infinite() {
        return out.ascii(b"Infinity");
    }
    if f < WHOLE && f.trunc() == f {
        return write_i64(f as i64, out);
    }
    let mut buf = [0; 32];
    let (digits, exponent) = shortest(f, &mut buf);
    write_digits(digits, exponent, 15, out)
}

/// A positive number, by its digits and the decimal exponent of the first; as a power of ten from 10^`large`
/// on, and below 10^-4.
pub(crate) fn write_digits(digits: &str, exponent: i32, large: i32, out: &mut impl Out) {
    let zeros = |out: &mut _, n: i32| (0..n).for_each(|_| Out::ascii(out, b"0"));
    let n = digits.len() as i32;
    if !(-4..large).contains(&exponent) {
        out.text(&digits[..1]);
        if n > 1 {
            out.ascii(b".");
            out.text(&digits[1..]);
        }
        out.ascii(if exponent < 0 { b"e-" } else { b"e+" });
        let e = exponent.unsigned_abs();
        if e >= 100 {
            out.ascii(&[b'0' + (e / 100) as u8]);
        }
        out.ascii(&pair(e));
    } else if exponent < 0 {
        out.ascii(b"0.");
        zeros(out, -1 - exponent);
        out.text(digits);
    } else if exponent >= n - 1 {
        out.text(digits);
        zeros(out, exponent - n + 1);
    } else {
        let (whole, fraction) = digits.split_at(exponent as usize + 1);
        out.text(whole);
        out.ascii(b".");
        out.text(fraction);
    }
}

/// The digits of a positive float and the decimal exponent of the first (invariant 2).
fn shortest(f: f64, buf: &mut [u8; 32]) -> (&str, i32) {
    /// Prints with `{:e}`, which is exact with a precision and shortest without.
    fn print(f: f64, precision: Option<usize>, buf: &mut [u8; 32]) -> (usize, i32) {
        let mut rest = &mut buf[..];
        // The buffer holds the longest form, 17 digits with point and exponent.
        let _ = match precision {
            None => write!(rest, "{f:e}"),
            Some(p) => write!(rest, "{f:.p$e}"),
        };
        let len = 32 - rest.len();
        let e = buf[..len].iter().position(|b| *b == b'e').unwrap_or(len);
        let exponent = ascii(&buf[e + 1..len]).parse().unwrap_or(0);
        if e > 1 {
            // Move the point out.
            buf.copy_within(2..e, 1);
            (e - 1, exponent)
        } else {
            (1, exponent)
        }
    }
    let (mut n, mut exponent) = print(f, None, buf);
    if stands_between(f, ascii(&buf[..n]), exponent) {
        for length in n + 1..=17 {
            (n, exponent) = print(f, Some(length - 1), buf);
            let digits = ascii(&buf[..n]);
            if read_back(digits, exponent) == f && !stands_between(f, digits, exponent) {
                break;
            }
        }
    } else if buf[n - 1] & 1 == 1 && is_tie(f, n, exponent) {
        buf[n - 1] -= 1;
        if read_back(ascii(&buf[..n]), exponent) != f {
            buf[n - 1] += 1;
        }
    }
    (ascii(&buf[..n]), exponent)
}

fn read_back(digits: &str, exponent: i32) -> f64 {
    format!("{}.{}e{exponent}", &digits[..1], &digits[1..]).parse().unwrap_or(0.0)
}

/// A positive float as mantissa and binary exponent.
fn parts(f: f64) -> (u64, i32) {
    let bits = f.to_bits();
    let (exponent, fraction) = ((bits >> 52) as i32 & 0x7ff, bits & ((1 << 52) - 1));
    if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) }
}

/// Whether the float is exactly the middle between the decimal and its neighbour of the same length, so that
/// rounding goes to the even one of the two.
fn is_tie(f: f64, length: usize, exponent: i32) -> bool {
    let (m, e) = parts(f);
    // It is if 2 * f * 10^s is an odd integer, where the last digit stands at 10^-s.
    let s = length as i32 - 1 - exponent;
    let fives = if s >= 0 { true } else { s > -24 && u128::from(m) % 5u128.pow(s.unsigned_abs()) == 0 };
    fives && m.trailing_zeros() as i32 + e + s + 1 == 0
}

/// Whether the decimal is exactly the middle between `f` and a neighbour, so that it reads back as `f` only
/// by the rule that ties go to the even one.
fn stands_between(f: f64, digits: &str, exponent: i32) -> bool {
    let (m, e) = parts(f);
    if m & 1 == 1 {
        return false;
    }
    // The decimal is d * 10^k.
    let k = exponent + 1 - digits.len() as i32;
    let Ok(d) = digits.parse::<u128>() else { return false };
    // The middle is (2m +- 1) * 2^(e-1): an odd number of 54 bits times a power of two. d * 5^k must have it
    // as its odd part, so k is small.
    if !(-25..=25).contains(&k) {
        return false;
    }
    let five = 5u128.pow(k.unsigned_abs());
    let product = if k >= 0 {
        match d.checked_mul(five) {
            Some(p) => p,
            None => return false,
        }
    } else if d % five == 0 {
        d / five
    } else {
        return false;
    };
    let twos = product.trailing_zeros();
    let odd = product >> twos;
    (odd == 2 * u128::from(m) + 1 || odd + 1 == 2 * u128::from(m)) && twos as i32 + k == e - 1
}

/// Appends a finite number with at most so many digits that count, as C's `%g` does.
pub fn write_general(f: f64, digits: usize, out: &mut impl Out) {
    let digits = digits.max(1);
    let scientific = format!("{:.*e}", digits - 1, f);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let bare = |number: &str| match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => number.to_string(),
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        out.text(&format!("{}e{sign}{:02}", bare(mantissa), exponent.abs()));
    } else {
        let decimals = (digits as i32 - 1 - exponent) as usize;
        out.text(&bare(&format!("{f:.decimals$}")));
    }
}

/// Appends bytes in hexadecimal, with the leading `\x`.
pub fn write_bytea(v: &[u8], out: &mut impl Out) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.ascii(b"\\x");
    for b in v {
        out.ascii(&[HEX[(b >> 4) as usize], HEX[(b & 15) as usize]]);
    }
}

/// Reads t, f, 1, 0, on, off, and what begins true, false, yes, no.
pub fn parse_bool(text: &str) -> SqlResult<bool> {
    let word = trim(text).as_bytes();
    let begins = |whole: &[u8], least: usize| {
        word.len() >= least && whole.get(..word.len()).is_some_and(|w| w.eq_ignore_ascii_case(word))
    };
    if begins(b"true", 1) || begins(b"yes", 1) || begins(b"on", 2) || word == b"1" {
        Ok(true)
    } else if begins(b"false", 1) || begins(b"no", 1) || begins(b"off", 2) || word == b"0" {
        Ok(false)
    } else {
        Err(invalid_syntax("boolean", text))
    }
}

/// Reads an integer; a number that is too large is reported as such even where something else follows it, but
/// for the one that would fit if it were negative.
fn parse_integer(text: &str, ty: &str, min: i64, max: i64) -> SqlResult<i64> {
    let b = skip_space(text.as_bytes());
    let (neg, digits) = match b.split_first() {
        Some((b'-', d)) => (true, d),
        Some((b'+', d)) => (false, d),
        _ => (false, b),
    };
    let n = digits.iter().take_while(|d| d.is_ascii_digit()).count();
    if n == 0 {
        return Err(invalid_syntax(ty, text));
    }
    let out_of_range = || {
        let message = format!("value \"{text}\" is out of range for type {ty}");
        SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, message)
    };
    // Negative numbers reach one further, so everything is summed up as negative.
    let step = |v: i64, d: &u8| v.checked_mul(10)?.checked_sub(i64::from(d - b'0')).filter(|v| *v >= min);
    let v = digits[..n].iter().try_fold(0, step).ok_or_else(out_of_range)?;
    if !skip_space(&digits[n..]).is_empty() {
        return Err(invalid_syntax(ty, text));
    }
    let v = if neg { Some(v) } else { v.checked_neg().filter(|v| *v <= max) };
    v.ok_or_else(out_of_range)
}

pub fn parse_i16(text: &str) -> SqlResult<i16> {
    parse_integer(text, "smallint", i16::MIN.into(), i16::MAX.into()).map(|v| v as i16)
}

pub fn parse_i32(text: &str) -> SqlResult<i32> {
    parse_integer(text, "integer", i32::MIN.into(), i32::MAX.into()).map(|v| v as i32)
}

pub fn parse_i64(text: &str) -> SqlResult<i64> {
    parse_integer(text, "bigint", i64::MIN, i64::MAX)
}

pub fn parse_f64(text: &str) -> SqlResult<f64> {
    parse_float(text, "double precision", |number| number.parse().ok(), |hex| hex)
}

/// Reads a float of the type `name`: what `decimal` makes of a number that stands alone, or `narrow` of one
/// that was read in hexadecimal digits, is as near as the type can be.
pub(crate) fn parse_float(
    text: &str,
    name: &str,
    decimal: impl Fn(&str) -> Option<f64>,
    narrow: impl Fn(f64) -> f64,
) -> SqlResult<f64> {
    let word = trim(text);
    let unsigned = word.strip_prefix(['+', '-']).unwrap_or(word);
    let invalid = || invalid_syntax(name, text);
    let hex = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X"));
    // As the C library does: what follows a number is looked at when the number is known to be one.
    let number = &word[..word.len() - unsigned.len() + decimal_length(unsigned)];
    let (f, lost) = if let Some(hex) = hex {
        let f = narrow(parse_hex_float(hex).ok_or_else(invalid)?);
        let digits = hex.split(['p', 'P']).next().unwrap_or_default();
        (if word.starts_with('-') { -f } else { f }, digits.bytes().any(|b| !matches!(b, b'0' | b'.')))
    } else if number.len() > word.len() - unsigned.len() {
        let digits = number.split(['e', 'E']).next().unwrap_or_default();
        (decimal(number).ok_or_else(invalid)?, digits.bytes().any(|b| matches!(b, b'1'..=b'9')))
    } else if is_nan(unsigned) {
        return Ok(f64::NAN);
    } else {
        return decimal(word).ok_or_else(invalid);
    };
    if f.is_infinite() || f == 0.0 && lost {
        let shown = if hex.is_some() { word } else { number };
        return Err(SqlError::new(
            sqlstate::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("\"{shown}\" is out of range for type {name}"),
        ));
    }
    if hex.is_none() && number.len() < word.len() { Err(invalid()) } else { Ok(f) }
}

/// How long the decimal number is that a text begins with; 0 if it begins with none.
fn decimal_length(text: &str) -> usize {
    let b = text.as_bytes();
    let run = |from: usize| b[from.min(b.len())..].iter().take_while(|c| c.is_ascii_digit()).count();
    let whole = run(0);
    let fraction = if b.get(whole) == Some(&b'.') { run(whole + 1) } else { 0 };
    if whole + fraction == 0 {
        return 0;
    }
    let mut end = whole + if b.get(whole) == Some(&b'.') { 1 + fraction } else { 0 };
    if matches!(b.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(b.get(end + 1), Some(b'+' | b'-')));
        let digits = run(end + 1 + sign);
        if digits > 0 {
            end += 1 + sign + digits
        }
    }
    end
}

/// Whether a text is NaN with the payload that the C library reads behind it: `nan(1)`.
fn is_nan(text: &str) -> bool {
    let Some((nan, payload)) = text.split_at_checked(3) else { return false };
    let inner = payload.strip_prefix('(').and_then(|p| p.strip_suffix(')'));
    nan.eq_ignore_ascii_case("nan")
        && inner.is_some_and(|p| p.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_'))
}

/// The C library reads hexadecimal floats, so PostgreSQL does: digits with a point and a binary exponent.
/// More digits than a float has are refused rather than rounded.
fn parse_hex_float(text: &str) -> Option<f64> {
    let (mantissa, exponent) = match text.split_once(['p', 'P']) {
        Some((m, e)) => (m, e.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.len() + fraction.len() == 0 {
        return None;
    }
    let mut m = 0u64;
    for c in whole.chars().chain(fraction.chars()) {
        m = m.checked_mul(16)?.checked_add(u64::from(c.to_digit(16)?))?;
    }
    if m >= 1 << 53 {
        return None;
    }
    // In two steps, since a power of two alone may be out of range where the product is not.
    let e = exponent.clamp(-5000, 5000) - 4 * i32::try_from(fraction.len()).ok()?;
    Some(m as f64 * 2f64.powi(e / 2) * 2f64.powi(e - e / 2))
}

pub fn parse_bytea(text: &str) -> SqlResult<Vec<u8>> {
    if let Some(hex) = text.strip_prefix("\\x") {
        return parse_hex(hex);
    }
    let invalid = || {
        SqlError::new(
            sqlstate::INVALID_TEXT_REPRESENTATION,
            "invalid input syntax for type bytea".to_string(),
        )
    };
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((b, after)) = rest.split_first() {
        rest = after;
        if *b != b'\\' {
            out.push(*b);
            continue;
        }
        match *rest {
            [b'\\', ref after @ ..] => {
                out.push(b'\\');
                rest = after;
            }
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ref after @ ..] => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => return Err(invalid()),
        }
    }
    Ok(out)
}

fn parse_hex(hex: &str) -> SqlResult<Vec<u8>> {
    let mut out = Vec::with_capacity(hex.len() / 2);
    let mut chars = hex.chars();
    let digit = |c: char| {
        c.to_digit(16).map(|d| d as u8).ok_or_else(|| {
            let mut message = String::new();
            let _ = write!(message, "invalid hexadecimal digit: \"{c}\"");
            SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, message)
        })
    };
    while let Some(c) = chars.next() {
        // Blanks may stand between bytes, not within one.
        if matches!(c, ' ' | '\n' | '\t' | '\r') {
            continue;
        }
        let high = digit(c)?;
        let Some(c) = chars.next() else {
            return Err(SqlError::new(
                sqlstate::INVALID_PARAMETER_VALUE,
                "invalid hexadecimal data: odd number of digits",
            ));
        };
        out.push(high << 4 | digit(c)?);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(v: ValueRef<'_>, ty: Type) -> String {
        let mut out = String::new();
        output(v, ty, &mut out);
        out
    }

    #[test]
    fn char_is_padded_to_characters() {
        let char5 = Type::with(TypeId::BPCHAR, 9);
        assert_eq!(shown(ValueRef::Text("ab"), char5), "ab   ");
        assert_eq!(shown(ValueRef::Text("häß"), char5), "häß  ");
        assert_eq!(shown(ValueRef::Text("abcdef"), char5), "abcdef");
        assert_eq!(shown(ValueRef::Text("ab"), Type::TEXT), "ab");
        let read = input("ab        ", char5, &Context::EMPTY).unwrap();
        assert_eq!(read, Value::Text("ab".into()));
    }

    #[test]
    fn input_obeys_the_modifier() {
        let read = |s: &str, id, typmod| input(s, Type::with(id, typmod), &Context::EMPTY);
        let e = read("abcd", TypeId::VARCHAR, 7).unwrap_err();
        assert_eq!(
            (e.sqlstate(), e.to_string().as_str()),
            ("22001", "value too long for type character varying(3)")
        );
        let e = read("äöüß", TypeId::BPCHAR, 7).unwrap_err();
        assert_eq!((e.sqlstate(), e.to_string().as_str()), ("22001", "value too long for type character(3)"));
        assert_eq!(read("ab   ", TypeId::VARCHAR, 7).unwrap(), Value::Text("ab ".into()));
        assert_eq!(read("1.005", TypeId::NUMERIC, (5 << 16 | 2) + 4).unwrap().to_string(), "1.01");
        assert_eq!(read("1000", TypeId::NUMERIC, (5 << 16 | 2) + 4).unwrap_err().sqlstate(), "22003");
        assert_eq!(
            read("2024-01-01 0:0:0.6", TypeId::TIMESTAMP, 0).unwrap().to_string(),
            "2024-01-01 00:00:01"
        );
    }

    /// Invariant 1, with the shortest digits of floats from all over their range.
    #[test]
    fn floats_and_integers_lead_back() {
        let mut s = 1u64;
        for _ in 0..50_000 {
            s = s.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let bits = s ^ s >> 29;
            let f = f64::from_bits(bits);
            if f.is_finite() {
                let text = shown(ValueRef::Float8(f), Type::new(TypeId::FLOAT8));
                assert_eq!(parse_f64(&text).unwrap().to_bits(), f.to_bits(), "{text}");
            }
            let i = bits as i64 >> (bits % 64);
            assert_eq!(parse_i64(&shown(ValueRef::Int8(i), Type::INT8)).unwrap(), i);
        }
        let powers = (0..19).map(|n| 10i64.pow(n)).flat_map(|p| [p - 1, p, p + 1, -p, 1 - p]);
        for i in powers.chain([i64::MIN, i64::MAX]) {
            assert_eq!(shown(ValueRef::Int8(i), Type::INT8), i.to_string());
            let mut bytes = vec![b'x'];
            write_i64(i, &mut bytes);
            assert_eq!(bytes, format!("x{i}").as_bytes());
        }
        let mut buf = [0; 40];
        for v in [0, u128::MAX, 10u128.pow(19), 10u128.pow(38), u128::from(u64::MAX) + 1] {
            assert_eq!(digits_u128(v, &mut buf), v.to_string());
        }
    }

    #[test]
    fn booleans_have_prefixes() {
        for (word, value) in
            [("t", true), ("tRuE", true), (" ye ", true), ("on", true), ("of", false), ("0", false)]
        {
            assert_eq!(parse_bool(word).unwrap(), value, "{word}");
        }
        for word in ["o", "", "truex", "10", "tr ue"] {
            assert_eq!(
                parse_bool(word).unwrap_err().to_string(),
                format!("invalid input syntax for type boolean: \"{word}\"")
            );
        }
    }
}
