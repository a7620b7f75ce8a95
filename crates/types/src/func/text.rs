//! Functions of text: length, case, parts, padding, trimming, replacing, joining, quoting.
//!
//! A function charges what it makes beyond the length of its arguments, which [`super::call`] charged.
//!
//! Positions and lengths count characters (code points) from 1. Case mapping is that of the locale C.UTF-8:
//! one character to one character; a character whose mapping is longer stays as it is.

use super::{Call, Context, digest, state};
use crate::limits::{Limits, TURNS};
use crate::{SqlError, SqlResult, Type, Value, ValueRef, sqlstate};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// The largest value PostgreSQL stores in one piece, less its header.
pub(crate) const MAX_BYTES: usize = 0x3fff_ffff - 4;

pub(crate) fn too_large() -> SqlError {
    SqlError::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, "requested length too large")
}

fn text(s: impl Into<String>) -> SqlResult<Value> {
    Ok(Value::Text(s.into()))
}

/// A length as an integer; values are far smaller than 2 GiB.
fn int4(n: usize) -> SqlResult<Value> {
    i32::try_from(n).map(Value::Int4).map_err(|_| super::out_of_range("integer"))
}

/// Byte offset of character number `n` (from 0), or the end.
fn offset(s: &str, n: usize) -> usize {
    if s.is_ascii() {
        return n.min(s.len());
    }
    s.char_indices().nth(n).map_or(s.len(), |(at, _)| at)
}

fn char_count(s: &str) -> usize {
    s.chars().count()
}

/// Upper case, one character to one character.
pub(crate) fn upper_char(c: char) -> char {
    let mut m = c.to_uppercase();
    match (m.next(), m.next()) {
        (Some(u), None) => u,
        // Greek letters with an iota below have a longer full mapping and a simple one: the letter with the
        // iota beside it.
        _ => match u32::from(c) {
            u @ (0x1f80..=0x1f87 | 0x1f90..=0x1f97 | 0x1fa0..=0x1fa7) => char::from_u32(u + 8).unwrap_or(c),
            u @ (0x1fb3 | 0x1fc3 | 0x1ff3) => char::from_u32(u + 9).unwrap_or(c),
            _ => c,
        },
    }
}

/// Lower case, one character to one character.
pub(crate) fn lower_char(c: char) -> char {
    let mut m = c.to_lowercase();
    match (m.next(), m.next()) {
        (Some(l), None) => l,
        // The Turkish capital I with a dot, whose full mapping keeps the dot as a second character.
        _ if c == '\u{130}' => 'i',
        _ => c,
    }
}

pub(crate) fn lower(s: &str) -> String {
    if s.is_ascii() { s.to_ascii_lowercase() } else { s.chars().map(lower_char).collect() }
}

pub(crate) fn upper(s: &str) -> String {
    if s.is_ascii() { s.to_ascii_uppercase() } else { s.chars().map(upper_char).collect() }
}

/// Upper case at the start of each run of letters and digits (as Unicode classes them), lower case within.
fn initcap(s: &str) -> String {
    let mut in_word = false;
    s.chars()
        .map(|c| {
            let mapped = if in_word { lower_char(c) } else { upper_char(c) };
            in_word = c.is_alphanumeric();
            mapped
        })
        .collect()
}

pub(super) fn negative_length() -> SqlError {
    SqlError::new(state::SUBSTRING_ERROR, "negative substring length not allowed")
}

/// The range of units (from 0) that `substring(x, start, length)` takes; the end may lie past the value's
/// end.
pub(super) fn substring_range(start: i32, length: Option<i32>) -> SqlResult<(usize, usize)> {
    let from = i64::from(start.max(1)) - 1;
    let to = match length {
        None => i64::MAX,
        Some(n) if n < 0 => return Err(negative_length()),
        Some(n) => (i64::from(start) + i64::from(n) - 1).max(from),
    };
    Ok((from as usize, to as usize))
}

fn substring(s: &str, start: i32, length: Option<i32>) -> SqlResult<Value> {
    let (from, to) = substring_range(start, length)?;
    let rest = &s[offset(s, from)..];
    text(&rest[..offset(rest, to - from)])
}

fn position(s: &str, part: &str) -> SqlResult<Value> {
    int4(s.find(part).map_or(0, |at| char_count(&s[..at]) + 1))
}

/// The number of characters that `left(s, n)` takes, or that `right(s, n)` leaves; negative counts are from
/// the other end.
fn cut(s: &str, n: i32) -> usize {
    let n = n as i64;
    if n >= 0 { n as usize } else { (char_count(s) as i64 + n).max(0) as usize }
}

fn left(s: &str, n: i32) -> SqlResult<Value> {
    text(&s[..offset(s, cut(s, n))])
}

fn right(s: &str, n: i32) -> SqlResult<Value> {
    let skip = if n >= 0 { char_count(s).saturating_sub(n as usize) } else { n.unsigned_abs() as usize };
    text(&s[offset(s, skip)..])
}

/// Appends a text many times.
fn push_many(out: &mut String, unit: &str, times: usize, limits: &Limits<'_>) -> SqlResult<()> {
    // Copied in long pieces, since a unit may be one byte.
    let per_piece = times.min(TURNS.div_ceil(unit.len().max(1)));
    let piece = unit.repeat(per_piece);
    for _ in 0..times.checked_div(per_piece).unwrap_or(0) {
        limits.go_on()?;
        out.push_str(&piece);
    }
    let rest = times.checked_rem(per_piece).unwrap_or(0);
    out.push_str(&piece[..rest * unit.len()]);
    Ok(())
}

/// What is missing of a text: `whole` times the filling, and a part of it.
struct Filling<'a> {
    fill: &'a str,
    whole: usize,
    part: &'a str,
}

impl Filling<'_> {
    fn bytes(&self) -> usize {
        self.fill.len() * self.whole + self.part.len()
    }
    fn push_to(&self, out: &mut String, limits: &Limits<'_>) -> SqlResult<()> {
        push_many(out, self.fill, self.whole, limits)?;
        out.push_str(self.part);
        Ok(())
    }
}

/// The text cut to `length` characters, and the filling that makes up for what is missing.
fn pad<'a>(s: &'a str, length: i32, fill: &'a str) -> SqlResult<(&'a str, Filling<'a>)> {
    // With nothing to fill, the text only becomes shorter.
    let longest = if fill.is_empty() { char_count(s) } else { usize::MAX };
    let length = (length.max(0) as usize).min(longest);
    if length.checked_mul(4).is_none_or(|bytes| bytes > MAX_BYTES) {
        return Err(too_large());
    }
    let kept = &s[..offset(s, length)];
    let missing = length - char_count(kept);
    let units = char_count(fill).max(1);
    let part = &fill[..offset(fill, missing % units)];
    Ok((kept, Filling { fill, whole: missing / units, part }))
}

fn lpad(s: &str, length: i32, fill: &str, limits: &Limits<'_>) -> SqlResult<Value> {
    let (kept, filling) = pad(s, length, fill)?;
    limits.take(filling.bytes())?;
    let mut padded = String::with_capacity(filling.bytes() + kept.len());
    filling.push_to(&mut padded, limits)?;
    padded.push_str(kept);
    text(padded)
}

fn rpad(s: &str, length: i32, fill: &str, limits: &Limits<'_>) -> SqlResult<Value> {
    let (kept, filling) = pad(s, length, fill)?;
    limits.take(filling.bytes())?;
    let mut padded = String::with_capacity(filling.bytes() + kept.len());
    padded.push_str(kept);
    filling.push_to(&mut padded, limits)?;
    text(padded)
}

fn trim(s: &str, set: &str, start: bool, end: bool) -> SqlResult<Value> {
    // One character is looked for as it is; of many, a table saves the search in a long list.
    let table: HashSet<char> = if set.len() > 16 { set.chars().collect() } else { HashSet::new() };
    let inside = |c: char| if table.is_empty() { set.contains(c) } else { table.contains(&c) };
    let s = if start { s.trim_start_matches(inside) } else { s };
    text(if end { s.trim_end_matches(inside) } else { s })
}

fn replace(s: &str, from: &str, to: &str, limits: &Limits<'_>) -> SqlResult<Value> {
    if from.is_empty() {
        return text(s);
    }
    let found = s.matches(from).count();
    let bytes = found.saturating_mul(to.len()).saturating_add(s.len() - found * from.len());
    if bytes > MAX_BYTES {
        return Err(too_large());
    }
    limits.take(bytes.saturating_sub(s.len()))?;
    let mut replaced = String::with_capacity(bytes);
    for (n, part) in s.split(from).enumerate() {
        if n > 0 {
            replaced.push_str(to);
        }
        if n.is_multiple_of(TURNS) {
            limits.go_on()?;
        }
        replaced.push_str(part);
    }
    text(replaced)
}

fn translate(s: &str, from: &str, to: &str, limits: &Limits<'_>) -> SqlResult<Value> {
    /// Bytes of a character beyond its first.
    const MORE: usize = 3;
    let mut map: HashMap<char, Option<char>> = HashMap::new();
    let mut others = to.chars();
    for c in from.chars() {
        let other = others.next();
        map.entry(c).or_insert(other);
    }
    limits.take(if to.is_ascii() { 0 } else { s.len().saturating_mul(MORE) })?;
    let mut made = String::with_capacity(s.len());
    for (n, c) in s.chars().enumerate() {
        if n.is_multiple_of(TURNS) {
            limits.go_on()?;
        }
        made.extend(map.get(&c).copied().unwrap_or(Some(c)));
    }
    text(made)
}

fn repeat(s: &str, count: i32, limits: &Limits<'_>) -> SqlResult<Value> {
    let count = count.max(0) as usize;
    let Some(bytes) = s.len().checked_mul(count).filter(|bytes| *bytes <= MAX_BYTES) else {
        return Err(too_large());
    };
    // The unit itself is charged already.
    limits.take(bytes.saturating_sub(s.len()))?;
    let mut repeated = String::with_capacity(bytes);
    push_many(&mut repeated, s, count, limits)?;
    text(repeated)
}

fn split_part(s: &str, delimiter: &str, field: i32) -> SqlResult<Value> {
    if field == 0 {
        return Err(SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, "field position must not be zero"));
    }
    let n = field.unsigned_abs() as usize - 1;
    let found = if delimiter.is_empty() {
        (n == 0).then_some(s)
    } else if field > 0 {
        s.split(delimiter).nth(n)
    } else {
        // Fields are counted back from the end, but they are found from the start: the two differ where
        // delimiters could overlap.
        let fields = s.split(delimiter).count();
        fields.checked_sub(n + 1).and_then(|i| s.split(delimiter).nth(i))
    };
    text(found.unwrap_or(""))
}

fn overlay(s: &str, with: &str, start: i32, length: i32) -> SqlResult<Value> {
    if start <= 0 {
        return Err(negative_length());
    }
    let end = start.checked_add(length).ok_or_else(|| super::out_of_range("integer"))?;
    let head = &s[..offset(s, start as usize - 1)];
    let tail = &s[offset(s, end.max(1) as usize - 1)..];
    text([head, with, tail].concat())
}

fn chr(code: i32) -> SqlResult<Value> {
    let limit = |message: String| Err(SqlError::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, message));
    if code < 0 {
        let message = "character number must be positive";
        return Err(SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, message));
    }
    if code == 0 {
        return limit("null character not permitted".into());
    }
    if code > 0x10ffff {
        return limit(format!("requested character too large for encoding: {code}"));
    }
    match char::from_u32(code as u32) {
        Some(c) => text(c),
        None => limit(format!("requested character not valid for encoding: {code}")),
    }
}

/// A value in the text form of its own type.
fn written(v: ValueRef<'_>, ctx: &Context<'_>) -> String {
    let mut out = String::new();
    crate::text::styled(v, Type::TEXT, &ctx.styles, &mut out);
    out
}

/// A value as its type's output function writes it; what `concat` joins.
pub(super) fn output<'a>(v: &ValueRef<'a>, ctx: &Context<'_>) -> SqlResult<Cow<'a, str>> {
    match v {
        ValueRef::Text(s) => Ok(Cow::Borrowed(s)),
        v => Ok(Cow::Owned(written(*v, ctx))),
    }
}

/// A value as its cast to text gives it; what `||` and the quoting functions see. It differs from the output
/// for booleans only.
fn as_text<'a>(v: &ValueRef<'a>, ctx: &Context<'_>) -> SqlResult<Cow<'a, str>> {
    match v {
        ValueRef::Bool(b) => Ok(Cow::Borrowed(if *b { "true" } else { "false" })),
        v => output(v, ctx),
    }
}

/// Charges the text forms of values that are none: that of a bytea is twice as long, and is written piece by
/// piece.
fn charge_written(values: &[ValueRef<'_>], limits: &Limits<'_>) -> SqlResult<()> {
    const TIMES: usize = 5;
    let bytes = |v: &ValueRef<'_>| if let ValueRef::Text(_) = v { 0 } else { v.byte_len() };
    limits.take(values.iter().map(bytes).sum::<usize>().saturating_mul(TIMES))
}

fn catenate(c: &Call<'_>) -> SqlResult<Value> {
    charge_written(c.args, c.limits())?;
    let (a, b) = (as_text(&c.args[0], c.ctx)?, as_text(&c.args[1], c.ctx)?);
    if a.len() + b.len() > MAX_BYTES {
        return Err(too_large());
    }
    text([a, b].concat())
}

pub(super) fn join(values: &[ValueRef<'_>], separator: &str, ctx: &Context<'_>) -> SqlResult<Value> {
    let limits = &ctx.limits;
    charge_written(values, limits)?;
    // What the texts themselves have is charged already.
    limits.take(separator.len().saturating_mul(values.len()).min(MAX_BYTES))?;
    let mut joined = String::new();
    let mut first = true;
    for v in values.iter().filter(|v| !v.is_null()) {
        if !first {
            joined.push_str(separator);
        }
        first = false;
        joined.push_str(&output(v, ctx)?);
        if joined.len() > MAX_BYTES {
            return Err(too_large());
        }
    }
    text(joined)
}

fn concat_ws(c: &Call<'_>) -> SqlResult<Value> {
    if c.is_null(0) {
        return Ok(Value::Null);
    }
    join(&c.args[1..], &output(&c.args[0], c.ctx)?, c.ctx)
}

/// A string constant that reads back as `s`.
pub fn quote_literal(s: &str) -> String {
    let prefix = if s.contains('\\') { "E'" } else { "'" };
    let mut quoted = String::with_capacity(s.len() + 3);
    quoted.push_str(prefix);
    for c in s.chars() {
        if matches!(c, '\'' | '\\') {
            quoted.push(c);
        }
        quoted.push(c);
    }
    quoted.push('\'');
    quoted
}

/// char(n) with its blanks, as a value of bpchar ([`crate::cast`], invariant 4).
fn bpchar_pad(s: &str, length: i32, limits: &Limits<'_>) -> SqlResult<Value> {
    let kept = s.trim_end_matches(' ');
    let missing = (length.max(0) as usize).saturating_sub(char_count(kept));
    limits.take(missing)?;
    let mut padded = String::with_capacity(kept.len() + missing);
    padded.push_str(kept);
    push_many(&mut padded, " ", missing, limits)?;
    text(padded)
}

macro_rules! length_of {
    ($get:ident) => {
        |c| int4(char_count(c.$get(0)?))
    };
}

functions! {
    480 TEXT_LENGTH "length" (Text) -> Int4 = length_of!(text);
    481 BPCHAR_LENGTH "length" (Bpchar) -> Int4 = length_of!(bpchar);
    482 CHAR_LENGTH "char_length" (Text) -> Int4 = length_of!(text);
    483 CHAR_LENGTH_BPCHAR "char_length" (Bpchar) -> Int4 = length_of!(bpchar);
    484 CHARACTER_LENGTH "character_length" (Text) -> Int4 = length_of!(text);
    485 CHARACTER_LENGTH_BPCHAR "character_length" (Bpchar) -> Int4 = length_of!(bpchar);
    486 OCTET_LENGTH "octet_length" (Text) -> Int4 = |c| int4(c.text(0)?.len());
    487 OCTET_LENGTH_BPCHAR "octet_length" (Bpchar) -> Int4 = |c| int4(c.text(0)?.len());
    488 BIT_LENGTH "bit_length" (Text) -> Int4 = |c| int4(c.text(0)?.len() * 8);
    489 LOWER "lower" (Text) -> Text = |c| text(lower(c.text(0)?)), unicode;
    490 UPPER "upper" (Text) -> Text = |c| text(upper(c.text(0)?)), unicode;
    491 INITCAP "initcap" (Text) -> Text = |c| text(initcap(c.text(0)?)), unicode;
    492 SUBSTR "substr" (Text, Int4) -> Text = |c| substring(c.text(0)?, c.int4(1)?, None);
    493 SUBSTR_LENGTH "substr" (Text, Int4, Int4) -> Text =
        |c| substring(c.text(0)?, c.int4(1)?, Some(c.int4(2)?));
    494 SUBSTRING "substring" (Text, Int4) -> Text = |c| substring(c.text(0)?, c.int4(1)?, None);
    495 SUBSTRING_LENGTH "substring" (Text, Int4, Int4) -> Text =
        |c| substring(c.text(0)?, c.int4(1)?, Some(c.int4(2)?));
    496 POSITION "position" (Text, Text) -> Int4 = |c| position(c.text(0)?, c.text(1)?);
    497 STRPOS "strpos" (Text, Text) -> Int4 = |c| position(c.text(0)?, c.text(1)?);
    498 LEFT "left" (Text, Int4) -> Text = |c| left(c.text(0)?, c.int4(1)?);
    499 RIGHT "right" (Text, Int4) -> Text = |c| right(c.text(0)?, c.int4(1)?);
    500 LPAD "lpad" (Text, Int4) -> Text = |c| lpad(c.text(0)?, c.int4(1)?, " ", c.limits());
    501 LPAD_FILL "lpad" (Text, Int4, Text) -> Text =
        |c| lpad(c.text(0)?, c.int4(1)?, c.text(2)?, c.limits());
    502 RPAD "rpad" (Text, Int4) -> Text = |c| rpad(c.text(0)?, c.int4(1)?, " ", c.limits());
    503 RPAD_FILL "rpad" (Text, Int4, Text) -> Text =
        |c| rpad(c.text(0)?, c.int4(1)?, c.text(2)?, c.limits());
    504 LTRIM "ltrim" (Text) -> Text = |c| trim(c.text(0)?, " ", true, false);
    505 LTRIM_SET "ltrim" (Text, Text) -> Text = |c| trim(c.text(0)?, c.text(1)?, true, false);
    506 RTRIM "rtrim" (Text) -> Text = |c| trim(c.text(0)?, " ", false, true);
    507 RTRIM_SET "rtrim" (Text, Text) -> Text = |c| trim(c.text(0)?, c.text(1)?, false, true);
    508 BTRIM "btrim" (Text) -> Text = |c| trim(c.text(0)?, " ", true, true);
    509 BTRIM_SET "btrim" (Text, Text) -> Text = |c| trim(c.text(0)?, c.text(1)?, true, true);
    510 REPLACE "replace" (Text, Text, Text) -> Text =
        |c| replace(c.text(0)?, c.text(1)?, c.text(2)?, c.limits());
    511 TRANSLATE "translate" (Text, Text, Text) -> Text =
        |c| translate(c.text(0)?, c.text(1)?, c.text(2)?, c.limits());
    512 REPEAT "repeat" (Text, Int4) -> Text = |c| repeat(c.text(0)?, c.int4(1)?, c.limits());
    513 REVERSE "reverse" (Text) -> Text = |c| text(c.text(0)?.chars().rev().collect::<String>());
    514 SPLIT_PART "split_part" (Text, Text, Int4) -> Text =
        |c| split_part(c.text(0)?, c.text(1)?, c.int4(2)?);
    515 OVERLAY "overlay" (Text, Text, Int4) -> Text = |c| {
        let with = c.text(1)?;
        overlay(c.text(0)?, with, c.int4(2)?, char_count(with) as i32)
    };
    516 OVERLAY_LENGTH "overlay" (Text, Text, Int4, Int4) -> Text =
        |c| overlay(c.text(0)?, c.text(1)?, c.int4(2)?, c.int4(3)?);
    517 CONCAT "concat" (Any) -> Text = |c| join(c.args, "", c.ctx), variadic, lax, stable;
    518 CONCAT_WS "concat_ws" (Text, Any) -> Text = |c| concat_ws(c), variadic, lax, stable;
    519 TEXT_CAT "textcat" (Text, Text) -> Text = |c| catenate(c);
    520 TEXT_ANY_CAT "textanycat" (Text, AnyNonArray) -> Text = |c| catenate(c), stable;
    521 ANY_TEXT_CAT "anytextcat" (AnyNonArray, Text) -> Text = |c| catenate(c), stable;
    522 CHR "chr" (Int4) -> Text = |c| chr(c.int4(0)?);
    523 ASCII "ascii" (Text) -> Int4 = |c| Ok(Value::Int4(c.text(0)?.chars().next().map_or(0, |c| c as i32)));
    524 MD5 "md5" (Text) -> Text = |c| text(digest::md5(c.text(0)?.as_bytes()));
    525 TO_HEX4 "to_hex" (Int4) -> Text = |c| text(format!("{:x}", c.int4(0)?));
    526 TO_HEX8 "to_hex" (Int8) -> Text = |c| text(format!("{:x}", c.int8(0)?));
    527 STARTS_WITH "starts_with" (Text, Text) -> Bool =
        |c| Ok(Value::Bool(c.text(0)?.starts_with(c.text(1)?)));
    528 QUOTE_LITERAL "quote_literal" (Text) -> Text = |c| {
        // Each character may be doubled.
        c.limits().take(c.text(0)?.len())?;
        text(quote_literal(c.text(0)?))
    };
    529 QUOTE_LITERAL_ANY "quote_literal" (Any) -> Text =
        |c| quote_nullable(c), stable;
    530 QUOTE_IDENT "quote_ident" (Text) -> Text = |c| {
        c.limits().take(c.text(0)?.len())?;
        text(crate::name::quote(c.text(0)?))
    };
    531 QUOTE_NULLABLE "quote_nullable" (Text) -> Text = |c| quote_nullable(c), lax;
    532 QUOTE_NULLABLE_ANY "quote_nullable" (Any) -> Text = |c| quote_nullable(c), lax, stable;
    533 BPCHAR_PAD "$pad" (Bpchar, Int4) -> Bpchar =
        |c| bpchar_pad(c.text(0)?, c.int4(1)?, c.limits());
    534 TEXT_LARGER "text_larger" (Text, Text) -> Text = |c| text(c.text(0)?.max(c.text(1)?));
    535 TEXT_SMALLER "text_smaller" (Text, Text) -> Text = |c| text(c.text(0)?.min(c.text(1)?));
}

fn quote_nullable(c: &Call<'_>) -> SqlResult<Value> {
    if c.is_null(0) {
        return text("NULL");
    }
    c.limits().take(c.args[0].byte_len())?;
    charge_written(c.args, c.limits())?;
    text(quote_literal(&as_text(&c.args[0], c.ctx)?))
}
