//! `format`, `parse_ident`, and the functions of any number of arguments that take these as one array, by
//! VARIADIC.
//!
//! Source: PostgreSQL 15's documentation, 9.4.1 and 10.3, and its answers.

use super::session::count_nulls;
use super::text::{join, output};
use super::{Call, Context};
use crate::name;
use crate::{SqlError, SqlResult, TypeId, Value, ValueRef, sqlstate};

fn wrong(message: impl Into<String>) -> SqlError {
    SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}

const HINT: &str = "For a single \"%\" use \"%%\".";

fn unterminated() -> SqlError {
    wrong("unterminated format() type specifier").hint(HINT)
}

/// Reads what stands behind a `%`.
struct Specifier<'f> {
    rest: &'f str,
}

impl Specifier<'_> {
    fn next(&mut self) -> SqlResult<char> {
        let mut chars = self.rest.chars();
        let c = chars.next().ok_or_else(unterminated)?;
        self.rest = chars.as_str();
        Ok(c)
    }
    fn begins(&self, c: char) -> bool {
        self.rest.starts_with(c)
    }
    /// A number, if one is there.
    fn number(&mut self) -> SqlResult<Option<i32>> {
        let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return Ok(None);
        }
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        if rest.is_empty() {
            return Err(unterminated());
        }
        let too_far = || SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "number is out of range");
        number.parse().map(Some).map_err(|_| too_far())
    }
}

/// How wide, and whether at the left.
fn padded(text: &str, width: i32, is_left: bool, out: &mut String) {
    let missing = (width.unsigned_abs() as usize).saturating_sub(text.chars().count());
    let blanks = std::iter::repeat_n(' ', missing);
    match is_left || width < 0 {
        true => {
            out.push_str(text);
            out.extend(blanks)
        }
        false => {
            out.extend(blanks);
            out.push_str(text)
        }
    }
}

/// An argument as a width: NULL is none.
fn width_of(v: &ValueRef<'_>, ctx: &Context<'_>) -> SqlResult<i32> {
    match v {
        ValueRef::Null => Ok(0),
        ValueRef::Int2(n) => Ok((*n).into()),
        ValueRef::Int4(n) => Ok(*n),
        v => {
            let text = output(v, ctx)?;
            let message = || format!("invalid input syntax for type integer: \"{text}\"");
            let bad = |_| SqlError::new(sqlstate::INVALID_TEXT_REPRESENTATION, message());
            text.trim().parse().map_err(bad)
        }
    }
}

fn compose(format: &str, args: &[ValueRef<'_>], ctx: &Context<'_>) -> SqlResult<Value> {
    let mut out = String::new();
    let mut rest = format;
    // The argument that comes next, from 0.
    let mut next = 0;
    let take = |at: usize| args.get(at).ok_or_else(|| wrong("too few arguments for format()"));
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let mut s = Specifier { rest: &rest[at + 1..] };
        if s.begins('%') {
            out.push('%');
            rest = &s.rest[1..];
            continue;
        }
        if s.rest.is_empty() {
            return Err(unterminated());
        }
        let zero = || wrong("format specifies argument 0, but arguments are numbered from 1");
        let mut position = None;
        let mut width = s.number()?;
        if width.is_some() && s.begins('$') {
            s.next()?;
            position = width.take();
            if position == Some(0) {
                return Err(zero());
            }
        }
        let mut is_left = false;
        if width.is_none() {
            while s.begins('-') {
                s.next()?;
                is_left = true
            }
            if s.begins('*') {
                s.next()?;
                if s.rest.is_empty() {
                    return Err(unterminated());
                }
                let place = match s.number()? {
                    None => next,
                    Some(_) if !s.begins('$') => {
                        return Err(wrong("width argument position must be ended by \"$\""));
                    }
                    Some(0) => return Err(zero()),
                    Some(n) => {
                        s.next()?;
                        n as usize - 1
                    }
                };
                width = Some(width_of(take(place)?, ctx)?);
                next = place + 1
            } else {
                width = s.number()?
            }
        }
        let kind = s.next()?;
        if !matches!(kind, 's' | 'I' | 'L') {
            let message = format!("unrecognized format() type specifier \"{kind}\"");
            return Err(wrong(message).hint(HINT));
        }
        let place = position.map_or(next, |n| n as usize - 1);
        let value = take(place)?;
        next = place + 1;
        ctx.limits.take(value.byte_len().saturating_add(width.unwrap_or(0).unsigned_abs() as usize))?;
        let text = match kind {
            _ if value.is_null() && kind == 's' => String::new(),
            _ if value.is_null() && kind == 'L' => "NULL".into(),
            _ if value.is_null() => {
                let message = "null values cannot be formatted as an SQL identifier";
                return Err(SqlError::new("22004", message));
            }
            's' => output(value, ctx)?.into_owned(),
            'I' => name::quote(&output(value, ctx)?),
            _ => super::text::quote_literal(&output(value, ctx)?),
        };
        padded(&text, width.unwrap_or(0), is_left, &mut out);
        rest = s.rest;
    }
    out.push_str(rest);
    Ok(Value::Text(out))
}

/// The items of the array that stands at a place.
fn items<'a>(c: &Call<'a>, at: usize) -> SqlResult<Vec<ValueRef<'a>>> {
    match c.is_null(at) {
        true => Ok(Vec::new()),
        false => Ok(c.array(at)?.items().collect()),
    }
}

fn parse_ident(text: &str, is_strict: bool) -> SqlResult<Value> {
    let invalid = || wrong(format!("string is not a valid identifier: \"{text}\""));
    let blanks = |t: &'_ str| t.len() - t.trim_start_matches(|c: char| c.is_ascii_whitespace()).len();
    let mut parts = Vec::new();
    let mut rest = &text[blanks(text)..];
    let mut is_behind = false;
    loop {
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut part = String::new();
            let mut left = quoted;
            loop {
                let end =
                    left.find('"').ok_or_else(|| invalid().detail("String has unclosed double quotes."))?;
                part.push_str(&left[..end]);
                left = &left[end + 1..];
                if !left.starts_with('"') {
                    break;
                }
                part.push('"');
                left = &left[1..]
            }
            if part.is_empty() {
                return Err(invalid().detail("Quoted identifier must not be empty."));
            }
            parts.push(Value::Text(part));
            rest = left
        } else {
            let begins = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
            let goes_on = |c: char| begins(c) || c.is_ascii_digit() || c == '$';
            if !rest.starts_with(begins) {
                return Err(match (rest.starts_with('.'), is_behind) {
                    (true, _) => invalid().detail("No valid identifier before \".\"."),
                    (false, true) => invalid().detail("No valid identifier after \".\"."),
                    (false, false) => invalid(),
                });
            }
            let end = rest.find(|c| !goes_on(c)).unwrap_or(rest.len());
            parts.push(Value::Text(rest[..end].to_ascii_lowercase()));
            rest = &rest[end..]
        }
        rest = &rest[blanks(rest)..];
        match rest.strip_prefix('.') {
            Some(behind) => {
                is_behind = true;
                rest = &behind[blanks(behind)..]
            }
            None if rest.is_empty() || !is_strict => break,
            None => return Err(invalid()),
        }
    }
    crate::array::of_values(TypeId::TEXT, &parts)
}

functions! {
    1515 FORMAT "format" (Text) -> Text = |c| match c.is_null(0) {
        true => Ok(Value::Null),
        false => compose(c.text(0)?, &[], c.ctx),
    }, lax, stable;
    1516 FORMAT_WITH "format" (Text, Any) -> Text = |c| match c.is_null(0) {
        true => Ok(Value::Null),
        false => compose(c.text(0)?, &c.args[1..], c.ctx),
    }, variadic, lax, stable;
    1517 FORMAT_LIST "$format" (Text, AnyArray) -> Text = |c| match c.is_null(0) {
        true => Ok(Value::Null),
        false => compose(c.text(0)?, &items(c, 1)?, c.ctx),
    }, lax, stable;
    1518 CONCAT_LIST "$concat" (AnyArray) -> Text = |c| join(&items(c, 0)?, "", c.ctx), stable;
    1519 CONCAT_WS_LIST "$concat_ws" (Text, AnyArray) -> Text =
        |c| join(&items(c, 1)?, c.text(0)?, c.ctx), stable;
    1520 NUM_NULLS_LIST "$num_nulls" (AnyArray) -> Int4 = |c| count_nulls(&items(c, 0)?, true);
    1521 NUM_NONNULLS_LIST "$num_nonnulls" (AnyArray) -> Int4 = |c| count_nulls(&items(c, 0)?, false);
    1522 PARSE_IDENT "parse_ident" (Text) -> TextArray = |c| parse_ident(c.text(0)?, true);
    1523 PARSE_IDENT_LAX "parse_ident" (Text, Bool) -> TextArray =
        |c| parse_ident(c.text(0)?, c.bool(1)?);
}
