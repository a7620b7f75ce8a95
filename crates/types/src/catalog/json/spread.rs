//! The parts of a value of JSON as rows: keys, pairs, items.

use super::change::wrong;
use super::parse::{Parser, Part};
use super::show;
use super::stored::{self, Node};
use crate::array::Builder;
use crate::func::Context;
use crate::{SqlResult, TypeId, Value, ValueRef};
use std::borrow::Cow;
use std::ops::Range;

/// What of an object or an array is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wanted {
    Keys,
    Values,
    Items,
}

/// A list of parts, as JSON or as text.
struct List {
    out: Builder,
    as_text: bool,
    /// The bytes that were charged.
    charged: usize,
}

impl List {
    fn new(ty: TypeId) -> List {
        List { out: Builder::new(ty), as_text: ty == TypeId::TEXT, charged: 0 }
    }
    fn push(&mut self, v: ValueRef<'_>, ctx: &Context<'_>) -> SqlResult<()> {
        self.out.push(v)?;
        if self.out.bytes() - self.charged > 1 << 16 {
            ctx.limits.take(2 * (self.out.bytes() - self.charged))?;
            self.charged = self.out.bytes();
        }
        Ok(())
    }
}

/// What is told where a part of an array or an object was asked of something else.
pub(super) struct Refusal {
    pub array: &'static str,
    pub scalar: &'static str,
}

/// Parts of a text, as an array of them.
pub(super) fn of_text(
    text: &str,
    wanted: Wanted,
    ty: TypeId,
    refusal: &Refusal,
    ctx: &Context<'_>,
) -> SqlResult<Value> {
    // The strings of items are wanted as text alone; those of objects are undone with the keys.
    let unescape = wanted != Wanted::Items || ty == TypeId::TEXT;
    let mut parser = Parser::new(text, unescape);
    let mut list = List::new(ty);
    match (parser.next()?, wanted) {
        (Some(Part::ArrayStart), Wanted::Items)
        | (Some(Part::ObjectStart), Wanted::Keys | Wanted::Values) => {}
        (Some(Part::ArrayStart | Part::ObjectStart), _) => return Err(wrong(refusal.array)),
        _ => return Err(wrong(refusal.scalar)),
    }
    let mut turn = 0;
    while let Some(part) = parser.next()?.filter(|p| !p.is_end()) {
        turn += 1;
        ctx.limits.turn(turn)?;
        match part {
            Part::Key(key) if wanted == Wanted::Keys => list.push(ValueRef::Text(&key), ctx)?,
            Part::Key(_) => {}
            part => {
                let place = parser.rest(&part)?;
                if wanted != Wanted::Keys {
                    push_part(&mut list, &part, parser.text(place), ctx)?;
                }
            }
        }
    }
    parser.finish()?;
    list.out.finish_list()
}

fn push_part(list: &mut List, part: &Part<'_>, text: &str, ctx: &Context<'_>) -> SqlResult<()> {
    match part {
        _ if !list.as_text => list.push(ValueRef::Opaque(TypeId::JSON, text.as_bytes()), ctx),
        Part::Null => list.push(ValueRef::Null, ctx),
        Part::String(s) => list.push(ValueRef::Text(s), ctx),
        _ => list.push(ValueRef::Text(text), ctx),
    }
}

/// Parts of a value of type jsonb, as an array of them.
pub(super) fn of_value(
    value: &[u8],
    wanted: Wanted,
    ty: TypeId,
    refusal: &Refusal,
    ctx: &Context<'_>,
) -> SqlResult<Value> {
    let mut list = List::new(ty);
    let push = |raw: &[u8], list: &mut List| match list.as_text {
        true => match show::as_text(raw, &ctx.limits)? {
            Some(text) => list.push(ValueRef::Text(&text), ctx),
            None => list.push(ValueRef::Null, ctx),
        },
        false => list.push(stored::of_node(raw).as_ref(&mut Vec::new()), ctx),
    };
    match (Node::of(value)?, wanted) {
        (Node::Array(items), Wanted::Items) => {
            for i in 0..items.len() {
                ctx.limits.turn(i)?;
                push(items.raw(i)?, &mut list)?;
            }
        }
        (Node::Object(pairs), Wanted::Keys | Wanted::Values) => {
            for i in 0..pairs.len() {
                ctx.limits.turn(i)?;
                match wanted {
                    Wanted::Keys => list.push(ValueRef::Text(pairs.key(i)?), ctx)?,
                    _ => push(pairs.raw(i)?, &mut list)?,
                }
            }
        }
        (Node::Array(_) | Node::Object(_), _) => return Err(wrong(refusal.array)),
        _ => return Err(wrong(refusal.scalar)),
    }
    list.out.finish_list()
}

/// How many items the array has that a text is.
pub(super) fn length_of_text(text: &str) -> SqlResult<i32> {
    let mut parser = Parser::new(text, false);
    match parser.next()? {
        Some(Part::ArrayStart) => {}
        Some(Part::ObjectStart) => return Err(wrong("cannot get array length of a non-array")),
        _ => return Err(wrong("cannot get array length of a scalar")),
    }
    let mut count = 0;
    while let Some(part) = parser.next()?.filter(|p| !p.is_end()) {
        parser.rest(&part)?;
        count += 1;
    }
    Ok(count)
}

/// The same of a value of type jsonb.
pub(super) fn length_of_value(value: &[u8]) -> SqlResult<i32> {
    match Node::of(value)? {
        Node::Array(list) => Ok(list.len() as i32),
        Node::Object(_) => Err(wrong("cannot get array length of a non-array")),
        _ => Err(wrong("cannot get array length of a scalar")),
    }
}

/// A text without the pairs whose values are null, and without blanks.
pub(super) fn without_nulls(text: &str, ctx: &Context<'_>) -> SqlResult<String> {
    ctx.limits.take(text.len())?;
    let mut parser = Parser::new(text, true);
    let mut out = String::new();
    let mut key: Option<Cow<'_, str>> = None;
    // What is open; whether something is in it already.
    let mut open: Vec<bool> = Vec::new();
    while let Some(part) = parser.next()? {
        let place: Range<usize> = parser.place();
        match &part {
            Part::Key(_) => {}
            part if part.is_end() => {
                out.push_str(parser.text(place));
                open.pop();
                continue;
            }
            Part::Null if key.take().is_some() => continue,
            _ => {}
        }
        if let Part::Key(k) = part {
            key = Some(k);
            continue;
        }
        if let Some(is_more) = open.last_mut()
            && std::mem::replace(is_more, true)
        {
            out.push(',');
        }
        if let Some(key) = key.take() {
            super::quote(&key, &mut out);
            out.push(':');
        }
        match &part {
            Part::String(s) => super::quote(s, &mut out),
            _ => out.push_str(parser.text(place)),
        }
        if part.is_start() {
            open.push(false);
        }
    }
    Ok(out)
}
