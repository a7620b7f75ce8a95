//! LIKE and ILIKE: matching text and bytes against a pattern of `%`, `_` and an escape.
//!
//! The escape is always a backslash here; another one is rewritten into it by `like_escape`, which the binder
//! calls for `LIKE ... ESCAPE`. ILIKE compares lower-cased text and pattern. A pattern that ends in its
//! escape is an error only where matching gets that far, as in PostgreSQL.

use super::{Call, state, text::lower};
use crate::limits::{Limits, TURNS};
use crate::{SqlError, SqlResult, Value};

fn trailing_escape() -> SqlError {
    SqlError::new(state::INVALID_ESCAPE_SEQUENCE, "LIKE pattern must not end with escape character")
}

/// Bytes in the character that begins with `lead`.
fn char_width(lead: u8) -> usize {
    match lead {
        0..0xc0 => 1,
        0xc0..0xe0 => 2,
        0xe0..0xf0 => 3,
        _ => 4,
    }
}

/// Whether all of `s` matches the pattern. `width` says how many bytes `_` takes at a byte. After a `%` only
/// the last one needs to be tried again, since an earlier one could not let the text match sooner; so the
/// time is at most the product of the lengths.
fn matches(s: &[u8], pattern: &[u8], width: fn(u8) -> usize, limits: &Limits<'_>) -> SqlResult<bool> {
    let (mut at, mut p) = (0, 0);
    let mut turns = 0usize;
    // Where to go on after a mismatch: the pattern behind the last %, and the text it has not yet swallowed.
    let mut retry: Option<(usize, usize)> = None;
    while at < s.len() {
        turns += 1;
        if turns.is_multiple_of(TURNS) {
            limits.turn(turns)?;
        }
        let step = match pattern.get(p) {
            Some(b'%') => {
                p += 1;
                if p == pattern.len() {
                    return Ok(true);
                }
                retry = Some((p, at));
                continue;
            }
            Some(b'_') => Some((1, width(s[at]))),
            Some(b'\\') => {
                let literal = pattern.get(p + 1).ok_or_else(trailing_escape)?;
                (*literal == s[at]).then_some((2, 1))
            }
            Some(literal) => (*literal == s[at]).then_some((1, 1)),
            None => None,
        };
        match (step, retry) {
            (Some((pattern_bytes, text_bytes)), _) => {
                p += pattern_bytes;
                at += text_bytes;
            }
            (None, Some((after, from))) => {
                let from = from + width(s[from]);
                retry = Some((after, from));
                (p, at) = (after, from);
            }
            (None, None) => return Ok(false),
        }
    }
    Ok(pattern[p..].iter().all(|b| *b == b'%'))
}

/// `s LIKE pattern`.
pub fn like(s: &str, pattern: &str, limits: &Limits<'_>) -> SqlResult<bool> {
    matches(s.as_bytes(), pattern.as_bytes(), char_width, limits)
}

/// `s ILIKE pattern`.
pub fn ilike(s: &str, pattern: &str, limits: &Limits<'_>) -> SqlResult<bool> {
    limits.take(s.len() + pattern.len())?;
    like(&lower(s), &lower(pattern), limits)
}

fn like_bytes(s: &[u8], pattern: &[u8], limits: &Limits<'_>) -> SqlResult<bool> {
    matches(s, pattern, |_| 1, limits)
}

fn invalid_escape() -> SqlError {
    SqlError::new(state::INVALID_ESCAPE_SEQUENCE, "invalid escape string")
        .hint("Escape string must be empty or one character.")
}

/// Rewrites a pattern with its own escape unit (or none) into one whose escape is the backslash.
fn rewrite_escape<T: Copy + PartialEq>(
    pattern: impl Iterator<Item = T>,
    escape: Option<T>,
    backslash: T,
) -> Vec<T> {
    let mut out = Vec::with_capacity(pattern.size_hint().0 + 8);
    let mut escaped = false;
    for unit in pattern {
        if escape == Some(unit) && !escaped && unit != backslash {
            out.push(backslash);
            escaped = true;
            continue;
        }
        if unit == backslash && !escaped && escape != Some(backslash) {
            out.push(backslash);
        }
        out.push(unit);
        escaped = false;
    }
    out
}

fn like_escape(pattern: &str, escape: &str) -> SqlResult<Value> {
    let mut units = escape.chars();
    let unit = units.next();
    if units.next().is_some() {
        return Err(invalid_escape());
    }
    Ok(Value::Text(rewrite_escape(pattern.chars(), unit, '\\').into_iter().collect()))
}

fn like_escape_bytes(pattern: &[u8], escape: &[u8]) -> SqlResult<Value> {
    if escape.len() > 1 {
        return Err(invalid_escape());
    }
    Ok(Value::Bytea(rewrite_escape(pattern.iter().copied(), escape.first().copied(), b'\\')))
}

macro_rules! matcher {
    ($fun:ident, $get:ident, $wanted:literal) => {
        |c: &mut Call<'_>| Ok(Value::Bool($fun(c.$get(0)?, c.$get(1)?, c.limits())? == $wanted))
    };
}

functions! {
    580 TEXT_LIKE "textlike" (Text, Text) -> Bool = matcher!(like, text, true);
    581 TEXT_NOT_LIKE "textnlike" (Text, Text) -> Bool = matcher!(like, text, false);
    582 TEXT_ILIKE "texticlike" (Text, Text) -> Bool = matcher!(ilike, text, true), unicode;
    583 TEXT_NOT_ILIKE "texticnlike" (Text, Text) -> Bool = matcher!(ilike, text, false), unicode;
    584 BPCHAR_LIKE "bpcharlike" (Bpchar, Text) -> Bool = matcher!(like, text, true);
    585 BPCHAR_NOT_LIKE "bpcharnlike" (Bpchar, Text) -> Bool = matcher!(like, text, false);
    586 BPCHAR_ILIKE "bpchariclike" (Bpchar, Text) -> Bool = matcher!(ilike, text, true), unicode;
    587 BPCHAR_NOT_ILIKE "bpcharicnlike" (Bpchar, Text) -> Bool = matcher!(ilike, text, false), unicode;
    588 BYTEA_LIKE "bytealike" (Bytea, Bytea) -> Bool = matcher!(like_bytes, bytea, true);
    589 BYTEA_NOT_LIKE "byteanlike" (Bytea, Bytea) -> Bool = matcher!(like_bytes, bytea, false);
    590 LIKE "like" (Text, Text) -> Bool = matcher!(like, text, true);
    591 NOT_LIKE "notlike" (Text, Text) -> Bool = matcher!(like, text, false);
    592 LIKE_BYTEA "like" (Bytea, Bytea) -> Bool = matcher!(like_bytes, bytea, true);
    593 NOT_LIKE_BYTEA "notlike" (Bytea, Bytea) -> Bool = matcher!(like_bytes, bytea, false);
    594 LIKE_ESCAPE "like_escape" (Text, Text) -> Text = |c| like_escape(c.text(0)?, c.text(1)?);
    595 LIKE_ESCAPE_BYTEA "like_escape" (Bytea, Bytea) -> Bytea =
        |c| like_escape_bytes(c.bytea(0)?, c.bytea(1)?);
}
