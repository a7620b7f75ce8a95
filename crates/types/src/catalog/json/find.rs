//! What stands in a value of JSON at a path.
//!
//! A step of a path is a key in an object, and a place in an array, counted from 0, or from the end if it is
//! negative. Of an object with the same key twice, which only type json has, the last is meant.

use super::parse::{Parser, Part};
use super::stored::{self, Node};
use crate::SqlResult;
use std::ops::Range;

/// The place that a step's text is, as C's strtol reads it; `None` if it is none of 32 bits.
pub(super) fn place_of(step: &str) -> Option<i32> {
    let digits = step.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
    let plain = digits.strip_prefix('+').unwrap_or(digits);
    match plain.as_bytes() {
        [b'+', ..] => None,
        [b'-', ..] if plain.len() != digits.len() => None,
        _ => plain.parse().ok(),
    }
}

/// A step of a path.
#[derive(Clone, Copy, Debug)]
pub(super) enum PathStep<'a> {
    Key(&'a str),
    Place(i32),
    /// Either, by what it is taken in.
    Text(&'a str),
}

impl<'a> PathStep<'a> {
    fn key(self) -> Option<&'a str> {
        match self {
            PathStep::Key(key) | PathStep::Text(key) => Some(key),
            PathStep::Place(_) => None,
        }
    }
    fn place(self) -> Option<i64> {
        match self {
            PathStep::Place(n) => Some(n.into()),
            PathStep::Text(text) => place_of(text).map(i64::from),
            PathStep::Key(_) => None,
        }
    }
}

/// What was found in a text: the part that it begins with, and where it stands.
type Found<'a> = (Part<'a>, Range<usize>);

/// An array or an object that the path leads through.
struct Level {
    /// The place that is wanted in an array, and the one that comes next.
    wanted: Option<usize>,
    next: usize,
}

/// In a text.
pub(super) fn in_text<'a>(text: &'a str, path: &[PathStep<'_>]) -> SqlResult<Option<Found<'a>>> {
    let mut parser = Parser::new(text, true);
    let mut found = None;
    let mut levels: Vec<Level> = Vec::new();
    // Whether the key that was met last is the wanted one.
    let mut is_key = false;
    while let Some(part) = parser.next()? {
        match &part {
            Part::Key(key) => {
                is_key = path[levels.len() - 1].key() == Some(key);
                continue;
            }
            Part::ArrayEnd | Part::ObjectEnd => {
                levels.pop();
                continue;
            }
            _ => {}
        }
        let is_on_path = match levels.last_mut() {
            None => true,
            Some(Level { wanted, next }) => {
                *next += 1;
                std::mem::take(&mut is_key) || *wanted == Some(*next - 1)
            }
        };
        if !is_on_path || levels.len() == path.len() || !part.is_start() {
            let place = parser.rest(&part)?;
            if is_on_path && levels.len() == path.len() {
                found = Some((part, place));
            }
            continue;
        }
        let wanted = match (&part, path[levels.len()].place()) {
            (Part::ArrayStart, Some(n)) if n < 0 => stored::place(count(&parser)?, n),
            (Part::ArrayStart, Some(n)) => usize::try_from(n).ok(),
            _ => None,
        };
        levels.push(Level { wanted, next: 0 });
    }
    Ok(found)
}

/// The items of the array that a parser has come to the start of.
fn count(parser: &Parser<'_>) -> SqlResult<usize> {
    let mut parser = parser.clone();
    let (depth, mut count) = (parser.depth(), 0);
    while let Some(part) = parser.next()? {
        if part.is_end() {
            break;
        }
        count += 1;
        if part.is_start() {
            while parser.depth() > depth {
                parser.next()?;
            }
        }
    }
    Ok(count)
}

/// In a value of type jsonb: a node.
pub(super) fn in_value<'a>(value: &'a [u8], path: &[PathStep<'_>]) -> SqlResult<Option<&'a [u8]>> {
    let mut node = stored::root(value)?;
    for (n, step) in path.iter().enumerate() {
        let found = match Node::read(node)? {
            Node::Object(pairs) => match step.key() {
                Some(key) => pairs.find(key)?.map(|i| pairs.raw(i)).transpose()?,
                None => None,
            },
            Node::Array(list) => step.place().and_then(|n| list.place(n)).map(|i| list.raw(i)).transpose()?,
            // PostgreSQL takes it for an array of one item where the step is a number.
            _ if n == 0 && matches!(step, PathStep::Place(0 | -1)) => Some(node),
            _ => None,
        };
        match found {
            Some(found) => node = found,
            None => return Ok(None),
        }
    }
    Ok(Some(node))
}
