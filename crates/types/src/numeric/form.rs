//! NUMERIC as text and as a float.

use super::code::read_short;
use super::dec::Dec;
use super::mag::{Cut, Mag};
use super::{Big, Infinity, MAX_SCALE, MAX_WHOLE_DIGITS, NaN, NegInfinity, Numeric, Small, overflow};
use crate::text::{Out, ZEROS, digits_u128, eight_digits, sixteen_digits, skip_space};
use crate::{SqlError, SqlResult, sqlstate};

/// Exponents from here on are refused before anything is computed with them.
const EXPONENT_LIMIT: i64 = i32::MAX as i64 / 2;

/// Whether `text` begins with `word`, whatever the case.
fn begins(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word))
}

impl Numeric {
    /// Reads what PostgreSQL's input function for numeric reads.
    pub fn parse(text: &str) -> SqlResult<Numeric> {
        let invalid = || {
            SqlError::new(
                sqlstate::INVALID_TEXT_REPRESENTATION,
                format!("invalid input syntax for type numeric: \"{text}\""),
            )
        };
        let bytes = skip_space(text.as_bytes());
        let (value, rest) = match bytes.first() {
            Some(b'0'..=b'9' | b'.') => Numeric::parse_finite(bytes, false, invalid)?,
            Some(sign @ (b'+' | b'-')) if matches!(bytes.get(1), Some(b'0'..=b'9' | b'.')) => {
                Numeric::parse_finite(&bytes[1..], *sign == b'-', invalid)?
            }
            _ => {
                let specials: [(&[u8], Numeric); 7] = [
                    (b"nan", Numeric::NAN),
                    (b"infinity", Numeric::INFINITY),
                    (b"+infinity", Numeric::INFINITY),
                    (b"-infinity", Numeric::NEG_INFINITY),
                    (b"inf", Numeric::INFINITY),
                    (b"+inf", Numeric::INFINITY),
                    (b"-inf", Numeric::NEG_INFINITY),
                ];
                let found = specials.into_iter().find(|(word, _)| begins(bytes, word));
                let (word, value) = found.ok_or_else(invalid)?;
                (value, &bytes[word.len()..])
            }
        };
        if skip_space(rest).is_empty() { Ok(value) } else { Err(invalid()) }
    }

    /// Digits, a point and an exponent; gives back what follows them.
    fn parse_finite(bytes: &[u8], neg: bool, invalid: impl Fn() -> SqlError) -> SqlResult<(Numeric, &[u8])> {
        let run = |b: &[u8]| b.iter().take_while(|c| c.is_ascii_digit()).count();
        let whole = &bytes[..run(bytes)];
        let mut rest = &bytes[whole.len()..];
        let mut fraction: &[u8] = &[];
        if let Some((b'.', after)) = rest.split_first() {
            fraction = &after[..run(after)];
            rest = &after[fraction.len()..];
        }
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let mut exponent = 0i64;
        if let Some((b'e' | b'E', after)) = rest.split_first() {
            let after = skip_space(after);
            let (minus, digits) = match after.split_first() {
                Some((b'-', d)) => (true, d),
                Some((b'+', d)) => (false, d),
                _ => (false, after),
            };
            let n = run(digits);
            if n == 0 {
                return Err(invalid());
            }
            let fold = |e: i64, d: &u8| e.saturating_mul(10).saturating_add(i64::from(d - b'0'));
            let e = digits[..n].iter().fold(0, fold);
            if e >= EXPONENT_LIMIT {
                return Err(overflow());
            }
            exponent = if minus { -e } else { e };
            rest = &digits[n..];
        }
        // What follows is found wrong before the number is found too large.
        if !skip_space(rest).is_empty() {
            return Err(invalid());
        }
        let scale = (fraction.len() as i64 - exponent).max(0);
        if scale > MAX_SCALE as i64 {
            return Err(overflow());
        }
        let scale = scale as usize;
        // Zeros to append where the exponent moves the point past the last digit.
        let pad = (exponent - fraction.len() as i64).max(0) as usize;
        let count = whole.len() + fraction.len();
        if pad == 0 && count <= 38 {
            let fold = |m: u64, d: &u8| m * 10 + u64::from(d - b'0');
            let m = if count <= 19 {
                u128::from(fraction.iter().fold(whole.iter().fold(0, fold), fold))
            } else {
                whole.iter().chain(fraction).fold(0u128, |m, d| m * 10 + u128::from(d - b'0'))
            };
            // Fewer than 39 digits are within an i128.
            let m = m as i128;
            return Ok((Numeric(Small { m: if neg { -m } else { m }, scale: scale as u16 }), rest));
        }
        let digits: Vec<u8> = whole.iter().chain(fraction).copied().collect();
        let mag = Mag::from_digits(&digits);
        if mag.is_zero() {
            return Ok((Numeric::pack(Dec::zero(scale)), rest));
        }
        if mag.digits() + pad > MAX_WHOLE_DIGITS + scale {
            return Err(overflow());
        }
        Ok((Numeric::checked(Dec { neg, mag: mag.shift_up(pad), scale })?, rest))
    }

    /// Appends the text PostgreSQL shows.
    pub fn write_to(&self, out: &mut impl Out) {
        match &self.0 {
            Small { m, scale } => {
                let mut buf = [0; 40];
                let digits = digits_u128(m.unsigned_abs(), &mut buf);
                place_point(*m < 0, digits, *scale as usize, out);
            }
            Big(d) => {
                let mut digits = Vec::with_capacity(d.mag.digits());
                d.mag.write_digits(&mut digits);
                place_point(d.neg, std::str::from_utf8(&digits).unwrap_or_default(), d.scale, out);
            }
            NaN => out.ascii(b"NaN"),
            Infinity => out.ascii(b"Infinity"),
            NegInfinity => out.ascii(b"-Infinity"),
        }
    }

    /// The same of a stored form.
    #[inline]
    pub fn write_encoded(b: &[u8], out: &mut impl Out) {
        match read_short(b) {
            Some((m, scale)) => write_scaled(m, scale, out),
            None => Numeric::decode(b).write_to(out),
        }
    }

    /// The nearest float, of the fifteen digits that are sure: what PostgreSQL's cast gives.
    pub fn from_f64(f: f64) -> Numeric {
        Numeric::from_float(f, 15)
    }

    /// The nearest float, of so many digits.
    pub(crate) fn from_float(f: f64, digits: usize) -> Numeric {
        if f.is_nan() {
            return Numeric::NAN;
        }
        if f.is_infinite() {
            return if f > 0.0 { Numeric::INFINITY } else { Numeric::NEG_INFINITY };
        }
        let text = format!("{:.*e}", digits - 1, f.abs());
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_digit).collect();
        let kept = digits.iter().rposition(|d| *d != b'0').map_or(1, |i| i + 1);
        let mag = Mag::from_digits(&digits[..kept]);
        // The last kept digit stands at 10^-(kept - 1 - exponent).
        let scale = kept as i32 - 1 - exponent;
        let d = if scale >= 0 {
            Dec { neg: f < 0.0 && !mag.is_zero(), mag, scale: scale as usize }
        } else {
            Dec { neg: f < 0.0, mag: mag.shift_up(scale.unsigned_abs() as usize), scale: 0 }
        };
        Numeric::pack(d)
    }

    /// The nearest float; an error where it would be infinite or where a value other than zero would become
    /// zero.
    pub fn to_f64(&self) -> SqlResult<f64> {
        match &self.0 {
            NaN => return Ok(f64::NAN),
            Infinity => return Ok(f64::INFINITY),
            NegInfinity => return Ok(f64::NEG_INFINITY),
            // Both are exact as floats, so that one division rounds correctly.
            Small { m, scale } if *scale <= 22 && m.unsigned_abs() <= 1 << 53 => {
                return Ok(*m as i64 as f64 / 10f64.powi(i32::from(*scale)));
            }
            _ => {}
        }
        let text = self.to_string();
        match text.parse::<f64>() {
            Ok(f) if f.is_finite() && (f != 0.0 || self.is_zero()) => Ok(f),
            _ => Err(SqlError::new(
                sqlstate::NUMERIC_VALUE_OUT_OF_RANGE,
                format!("\"{text}\" is out of range for type double precision"),
            )),
        }
    }

    /// The value cut to an `i128`, if it is finite and fits.
    pub fn to_i128_truncated(&self) -> Option<i128> {
        match self.cut(0, Cut::Truncate).ok()?.0 {
            Small { m, .. } => Some(m),
            _ => None,
        }
    }
}

/// Writes digits with the point `scale` places from their end.
fn place_point(neg: bool, digits: &str, scale: usize, out: &mut impl Out) {
    if neg {
        out.ascii(b"-");
    }
    if scale == 0 {
        out.text(if digits.is_empty() { "0" } else { digits });
    } else if digits.len() > scale {
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        out.text(whole);
        out.ascii(b".");
        out.text(fraction);
    } else {
        // A single zero digit stands for itself among the decimals.
        out.ascii(b"0.");
        let mut zeros = scale - digits.len();
        while zeros > 0 {
            let n = zeros.min(size_of_val(&ZEROS));
            out.beginning(ZEROS.to_ne_bytes(), n);
            zeros -= n;
        }
        out.text(digits);
    }
}

/// Appends `m * 10^-scale`.
#[inline]
pub(super) fn write_scaled(m: i64, scale: u32, out: &mut impl Out) {
    if m.unsigned_abs() < 10u64.pow(8) && scale < 8 {
        write_short(m, scale, out)
    } else if m.unsigned_abs() < 10u64.pow(14) && scale < 14 {
        // Point and sign included, that is up to sixteen characters.
        write_usual(m, scale, out)
    } else {
        Numeric(Small { m: m.into(), scale: scale as u16 }).write_to(out)
    }
}

/// Writes a number of up to 8 digits, with less than 8 after the point.
#[inline(always)]
fn write_short(m: i64, scale: u32, out: &mut impl Out) {
    let digits = eight_digits(m.unsigned_abs() as u32);
    // One digit at least stands before the point.
    let shown = (8 - digits.trailing_zeros().min(63) / 8).max(scale + 1);
    let word = (digits | ZEROS as u64) >> (8 * (8 - shown));
    if m < 0 {
        out.ascii(b"-")
    }
    let whole = shown - scale;
    out.beginning(word.to_le_bytes(), whole as usize);
    if scale > 0 {
        let fraction = word >> (8 * whole) << 8 | u64::from(b'.');
        out.beginning(fraction.to_le_bytes(), scale as usize + 1)
    }
}

/// Writes a number of up to 14 digits, with less than 14 after the point.
#[inline(never)]
fn write_usual(m: i64, scale: u32, out: &mut impl Out) {
    let digits = sixteen_digits(m.unsigned_abs());
    // One digit at least stands before the point.
    let shown = (16 - digits.trailing_zeros().min(127) / 8).max(scale + 1);
    let mut word = (digits | ZEROS) >> (8 * (16 - shown));
    let mut len = shown;
    if scale > 0 {
        let whole = 8 * (shown - scale);
        let below = (1u128 << whole) - 1;
        word = word & below | u128::from(b'.') << whole | (word & !below) << 8;
        len += 1;
    }
    if m < 0 {
        word = word << 8 | u128::from(b'-');
        len += 1;
    }
    out.beginning(word.to_le_bytes(), len as usize)
}

impl std::fmt::Display for Numeric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::with_capacity(48);
        self.write_to(&mut text);
        f.pad(&text)
    }
}

impl std::fmt::Debug for Numeric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
