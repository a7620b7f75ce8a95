//! Arrays as text: `{1,2}`, `{{a,"b c"},{NULL,""}}`, `[0:1]={7,8}`.
//!
//! Reading goes over the text once for its shape, which finds every error of braces, quotes and lengths, and
//! gathers the items' texts; then the items are read by their type.

use super::{Array, Builder, Dimension, MAX_DIMENSIONS, count_items, too_many_dimensions};
use crate::func::{Context, internal, state};
use crate::style::Styles;
use crate::text::{self, Out as _, is_space, skip_space};
use crate::ty::Class;
use crate::{SqlError, SqlResult, Type, Value, ValueRef, sqlstate};

/// Reads an array of a type, with the items' modifier.
pub(super) fn read(written: &str, ty: Type, ctx: &Context<'_>) -> SqlResult<Value> {
    let Some(element) = ty.element() else {
        return Err(internal(format!("{} is no type of arrays", ty.id)));
    };
    let shape = Shape::of(written).map_err(|e| e.told(written))?;
    if shape.items.len() != count_items(&shape.dimensions)? {
        return Err(Problem::Other.told(written));
    }
    let mut out = Builder::new(element.id);
    for (i, item) in shape.items.iter().enumerate() {
        ctx.limits.turn(i)?;
        match item {
            None => out.push(ValueRef::Null)?,
            // Strings are brought into the modifier with the whole array, which keeps the blanks of char(n).
            Some(t) if matches!(element.id.class(), Class::Text) => out.push(ValueRef::Text(t))?,
            Some(t) => out.push(text::input(t, element, ctx)?.as_ref(&mut Vec::new()))?,
        }
    }
    out.finish(&shape.dimensions)
}

/// What is wrong with a text that is no array.
enum Problem {
    /// The detail that PostgreSQL gives.
    Detail(String),
    Other,
    /// An error with a message of its own.
    Own(SqlError),
}

impl Problem {
    fn told(self, written: &str) -> SqlError {
        let message = format!("malformed array literal: \"{written}\"");
        let error = SqlError::new(sqlstate::INVALID_TEXT_REPRESENTATION, message);
        match self {
            Problem::Detail(detail) => error.detail(detail),
            Problem::Other => error,
            Problem::Own(own) => own,
        }
    }
}

fn detail<T>(detail: impl Into<String>) -> Result<T, Problem> {
    Err(Problem::Detail(detail.into()))
}

fn unexpected<T>(c: u8) -> Result<T, Problem> {
    detail(format!("Unexpected \"{}\" character.", char::from(c)))
}

/// The dimensions of a text, and the texts of its items.
struct Shape {
    dimensions: Vec<Dimension>,
    items: Vec<Option<String>>,
}

/// What was read last.
#[derive(Clone, Copy, PartialEq)]
enum Last {
    Nothing,
    LevelStart,
    Item,
    /// Within quotes.
    Quoted,
    QuotedEnd,
    ItemComma,
    LevelEnd,
    LevelComma,
}

impl Shape {
    fn of(written: &str) -> Result<Shape, Problem> {
        let (given, rest) = explicit_dimensions(written.as_bytes())?;
        if rest.first() != Some(&b'{') {
            return detail(match given.is_empty() {
                true => "Array value must start with \"{\" or dimension information.",
                false => "Array contents must start with \"{\".",
            });
        }
        let start = written.len() - rest.len();
        let mut braces = Braces::default();
        let end = braces.read(&written[start..])?;
        if !skip_space(&rest[end..]).is_empty() {
            return detail("Junk after closing right brace.");
        }
        let lengths = if braces.is_empty { &[] } else { &braces.lengths[..braces.depth] };
        let dimensions = match given.is_empty() {
            true => lengths.iter().map(|n| Dimension::of_length(*n)).collect(),
            false
                if given.len() != lengths.len()
                    || given.iter().zip(lengths).any(|(d, n)| d.length as usize != *n) =>
            {
                return detail("Specified array dimensions do not match array contents.");
            }
            false => given,
        };
        let items = if braces.is_empty { Vec::new() } else { braces.items };
        Ok(Shape { dimensions, items })
    }
}

/// `[1:2][0:3]=` and what follows.
fn explicit_dimensions(written: &[u8]) -> Result<(Vec<Dimension>, &[u8]), Problem> {
    let mut dimensions = Vec::new();
    let mut rest = skip_space(written);
    while let [b'[', inner @ ..] = rest {
        if dimensions.len() == MAX_DIMENSIONS {
            return Err(Problem::Own(too_many_dimensions(MAX_DIMENSIONS + 1)));
        }
        let (first, after) = bound(inner);
        let Some(first) = first else {
            return detail("\"[\" must introduce explicitly-specified array dimensions.");
        };
        let (lower, upper, after) = match after {
            [b':', after @ ..] => match bound(after) {
                (Some(upper), after) => (first, upper, after),
                (None, _) => return detail("Missing array dimension value."),
            },
            after => (1, first, after),
        };
        let [b']', after @ ..] = after else {
            return detail("Missing \"]\" after array dimensions.");
        };
        if upper < lower {
            let message = "upper bound cannot be less than lower bound";
            return Err(Problem::Own(SqlError::new(state::ARRAY_SUBSCRIPT_ERROR, message)));
        }
        // What is beyond an int wraps round there, and matches no contents.
        dimensions.push(Dimension { length: upper.wrapping_sub(lower).wrapping_add(1), lower });
        rest = skip_space(after);
    }
    if !dimensions.is_empty() {
        let [b'=', after @ ..] = rest else {
            return detail("Missing \"=\" after array dimensions.");
        };
        rest = skip_space(after);
    }
    Ok((dimensions, rest))
}

/// A bound of digits and signs, as C's `atoi` takes them.
fn bound(b: &[u8]) -> (Option<i32>, &[u8]) {
    let length = b.iter().take_while(|c| c.is_ascii_digit() || matches!(c, b'-' | b'+')).count();
    let (word, rest) = b.split_at(length);
    let (negative, digits) = match word {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let digits = digits.iter().take_while(|c| c.is_ascii_digit());
    let number = digits.fold(0i64, |n, c| n.saturating_mul(10).saturating_add(i64::from(c - b'0')));
    let number = if negative { -number } else { number } as i32;
    ((length > 0).then_some(number), rest)
}

/// Goes over braces, commas and quotes, and gathers the items.
struct Braces {
    /// How many braces are open.
    level: usize,
    /// The deepest level that there was.
    depth: usize,
    /// The lengths of the levels, outermost first.
    lengths: [usize; MAX_DIMENSIONS],
    /// The items of each open level so far, and of the last one that was closed there.
    here: [usize; MAX_DIMENSIONS],
    before: [usize; MAX_DIMENSIONS],
    is_empty: bool,
    items: Vec<Option<String>>,
    /// The item that is being read: its bytes, how many of them are surely part of it, and whether it was
    /// quoted.
    item: Vec<u8>,
    kept: usize,
    is_quoted: bool,
}

impl Default for Braces {
    fn default() -> Braces {
        Braces {
            level: 0,
            depth: 1,
            lengths: [0; MAX_DIMENSIONS],
            here: [1; MAX_DIMENSIONS],
            before: [0; MAX_DIMENSIONS],
            is_empty: true,
            items: Vec::new(),
            item: Vec::new(),
            kept: 0,
            is_quoted: false,
        }
    }
}

impl Braces {
    /// Reads up to the last brace; gives where that ends.
    fn read(&mut self, written: &str) -> Result<usize, Problem> {
        use Last::*;
        let mut last = Nothing;
        let bytes = written.as_bytes();
        let mut at = 0;
        loop {
            let Some(c) = bytes.get(at).copied() else { return detail("Unexpected end of input.") };
            at += 1;
            if matches!(last, Item | Quoted) {
                self.is_empty = false;
            }
            match c {
                b'\\' => {
                    if !matches!(last, LevelStart | Item | Quoted | ItemComma) {
                        return unexpected(c);
                    }
                    if last != Quoted {
                        last = Item;
                    }
                    let Some(escaped) = bytes.get(at) else { return detail("Unexpected end of input.") };
                    at += 1;
                    self.item.push(*escaped);
                    (self.kept, self.is_quoted) = (self.item.len(), true);
                }
                b'"' if last == Quoted => {
                    (last, self.kept) = (QuotedEnd, self.item.len());
                }
                b'"' => {
                    if !matches!(last, LevelStart | ItemComma) {
                        return detail("Unexpected array element.");
                    }
                    (last, self.is_quoted) = (Quoted, true);
                }
                c if last == Quoted => self.item.push(c),
                b'{' => {
                    if !matches!(last, Nothing | LevelStart | LevelComma) {
                        return unexpected(c);
                    }
                    if self.level == MAX_DIMENSIONS {
                        return Err(Problem::Own(too_many_dimensions(MAX_DIMENSIONS + 1)));
                    }
                    self.lengths[self.level] = 0;
                    self.level += 1;
                    self.depth = self.depth.max(self.level);
                    last = LevelStart;
                }
                b'}' => {
                    let is_empty = self.level == 1 && last == LevelStart;
                    if !matches!(last, Item | QuotedEnd | LevelEnd) && !is_empty {
                        return unexpected(c);
                    }
                    if last != LevelEnd && !is_empty {
                        self.end_item();
                    }
                    last = LevelEnd;
                    self.level -= 1;
                    let n = self.level;
                    if self.before[n] != 0 && self.here[n] != self.before[n] {
                        return detail(
                            "Multidimensional arrays must have sub-arrays with matching dimensions.",
                        );
                    }
                    self.before[n] = std::mem::replace(&mut self.here[n], 1);
                    if n == 0 {
                        self.lengths[self.depth - 1] += 1;
                        return Ok(at);
                    }
                    self.lengths[n - 1] += 1;
                }
                b',' => {
                    if !matches!(last, Item | QuotedEnd | LevelEnd) {
                        return unexpected(c);
                    }
                    if last != LevelEnd {
                        self.end_item();
                    }
                    last = if last == LevelEnd { LevelComma } else { ItemComma };
                    self.here[self.level - 1] += 1;
                    self.lengths[self.depth - 1] += 1;
                }
                c if is_space(c) => {
                    // Blanks before an item are none of it, and those behind it only if more follows.
                    if last == Item {
                        self.item.push(c);
                    }
                }
                c => {
                    if !matches!(last, LevelStart | Item | ItemComma) {
                        return detail("Unexpected array element.");
                    }
                    last = Item;
                    self.item.push(c);
                    self.kept = self.item.len();
                }
            }
        }
    }

    fn end_item(&mut self) {
        self.item.truncate(self.kept);
        let is_null = !self.is_quoted && self.item.eq_ignore_ascii_case(b"NULL");
        // An escape takes one byte, and what follows of its character comes by itself: so it is text again.
        let item = String::from_utf8(std::mem::take(&mut self.item)).unwrap_or_default();
        self.items.push((!is_null).then_some(item));
        (self.kept, self.is_quoted) = (0, false);
    }
}

/// Writes an array, with its bounds unless all subscripts start at 1.
pub(super) fn write(array: &Array<'_>, styles: &Styles, out: &mut String) {
    if array.is_empty() {
        return out.push_str("{}");
    }
    let dimensions: Vec<Dimension> = array.dimensions().collect();
    if dimensions.iter().any(|d| d.lower != 1) {
        write_bounds(&dimensions, out);
        out.push('=');
    }
    // How many items a brace of each level holds.
    let mut spans: Vec<usize> = Vec::with_capacity(dimensions.len());
    for d in dimensions.iter().rev() {
        spans.push(spans.last().unwrap_or(&1) * d.length as usize);
    }
    let mut item = String::new();
    for i in 0..array.len() {
        if i > 0 {
            spans.iter().filter(|n| i % **n == 0).for_each(|_| out.push('}'));
            out.push(',');
        }
        spans.iter().filter(|n| i % **n == 0).for_each(|_| out.push('{'));
        item.clear();
        match array.stored(i) {
            ValueRef::Null => out.push_str("NULL"),
            v => {
                text::styled(v, Type::new(array.element), styles, &mut item);
                write_item(&item, out)
            }
        }
    }
    spans.iter().for_each(|_| out.push('}'));
}

/// `[1:2][0:3]`
pub(super) fn write_bounds(dimensions: &[Dimension], out: &mut String) {
    for d in dimensions {
        out.push('[');
        text::write_i64(d.lower.into(), out);
        out.push(':');
        text::write_i64(d.upper().into(), out);
        out.push(']');
    }
}

/// An item, in quotes if it would read as something else without.
fn write_item(item: &str, out: &mut String) {
    let is_special = |b: u8| matches!(b, b'"' | b'\\' | b'{' | b'}' | b',') || is_space(b);
    if !item.is_empty() && !item.eq_ignore_ascii_case("NULL") && !item.bytes().any(is_special) {
        return out.text(item);
    }
    out.push('"');
    for c in item.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
}
