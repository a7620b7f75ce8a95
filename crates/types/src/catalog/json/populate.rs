//! Rows and arrays made of values of JSON: each field is of the pair of its name, read as the text of its
//! type, or made in turn, where it is a row or an array.
//!
//! What the domains of fields ask is looked at by who calls (the binder puts it around the call).

use super::change::wrong;
use super::parse::{Parser, Part};
use super::show;
use super::stored::{self, Node};
use crate::array::{self, Array, Dimension};
use crate::catalog::record::{self, Builder, Record};
use crate::func::Context;
use crate::user::composite;
use crate::{SqlError, SqlResult, Type, TypeId, Value, ValueRef, sqlstate, text};
use std::borrow::Cow;

/// A value of JSON in either form.
#[derive(Clone, Debug)]
pub(super) enum Source<'a> {
    /// A piece of a text, and what it is; of a string, its characters.
    Text(Part<'a>, &'a str),
    /// A node.
    Node(&'a [u8]),
}

impl<'a> Source<'a> {
    /// An argument.
    pub fn of(v: ValueRef<'a>) -> SqlResult<Source<'a>> {
        match v {
            ValueRef::Opaque(TypeId::JSONB, b) => Ok(Source::Node(stored::root(b)?)),
            ValueRef::Opaque(_, b) => {
                let text = std::str::from_utf8(b).unwrap_or("null");
                let mut parser = Parser::new(text, true);
                let part = parser.next()?.unwrap_or(Part::Null);
                let place = parser.rest(&part)?;
                Ok(Source::Text(part, parser.text(place)))
            }
            _ => Ok(Source::Text(Part::Null, "null")),
        }
    }

    fn is_null(&self) -> bool {
        matches!(self, Source::Text(Part::Null, _) | Source::Node([stored::NULL]))
    }
    fn is_string(&self) -> bool {
        matches!(self, Source::Text(Part::String(_), _) | Source::Node([stored::STRING, ..]))
    }
    fn is_array(&self) -> bool {
        matches!(self, Source::Text(Part::ArrayStart, _) | Source::Node([stored::ARRAY, ..]))
    }
    fn is_object(&self) -> bool {
        matches!(self, Source::Text(Part::ObjectStart, _) | Source::Node([stored::OBJECT, ..]))
    }

    /// The parts of an array or an object, with their keys if they have some.
    fn parts(&self) -> SqlResult<Vec<(Cow<'a, str>, Source<'a>)>> {
        let mut out = Vec::new();
        match self {
            Source::Text(_, text) => {
                let mut parser = Parser::new(text, true);
                let mut key = Cow::Borrowed("");
                parser.next()?;
                while let Some(part) = parser.next()?.filter(|p| !p.is_end()) {
                    if let Part::Key(k) = part {
                        key = k;
                        continue;
                    }
                    let place = parser.rest(&part)?;
                    out.push((std::mem::take(&mut key), Source::Text(part, parser.text(place))));
                }
            }
            Source::Node(bytes) => match Node::read(bytes)? {
                Node::Array(list) => {
                    for i in 0..list.len() {
                        out.push((Cow::Borrowed(""), Source::Node(list.raw(i)?)));
                    }
                }
                Node::Object(pairs) => {
                    for i in 0..pairs.len() {
                        out.push((Cow::Borrowed(pairs.key(i)?), Source::Node(pairs.raw(i)?)));
                    }
                }
                _ => {}
            },
        }
        Ok(out)
    }

    /// As a value of the type, whose input function reads the text of the value.
    fn scalar(&self, ty: Type, ctx: &Context<'_>) -> SqlResult<Value> {
        let is_json = matches!(ty.id, TypeId::JSON | TypeId::JSONB);
        match self {
            Source::Text(_, json) if is_json => text::input(json, ty, ctx),
            Source::Text(Part::String(s), _) => text::input(s, ty, ctx),
            Source::Text(_, json) => text::input(json, ty, ctx),
            Source::Node(node) if ty.id == TypeId::JSONB => Ok(stored::of_node(node)),
            Source::Node(node) if is_json => {
                let mut json = String::new();
                show::write(node, show::Layout::Line, &ctx.limits, &mut json)?;
                text::input(&json, ty, ctx)
            }
            Source::Node(node) => match show::as_text(node, &ctx.limits)? {
                Some(s) => text::input(&s, ty, ctx),
                None => Ok(Value::Null),
            },
        }
    }
}

/// What is filled: of an error, where it is.
struct Filling<'a, 'c> {
    ctx: &'a Context<'c>,
    /// The key at which an array stands.
    key: Option<&'a str>,
}

impl<'a, 'c> Filling<'a, 'c> {
    fn value(&self, of: &Source<'_>, ty: Type, before: ValueRef<'_>) -> SqlResult<Value> {
        let ty = ty.base();
        if of.is_null() {
            return Ok(Value::Null);
        }
        // A string is read as the text of the type, whatever it is.
        if ty.id.is_array() && !of.is_string() {
            return self.array(of, ty);
        }
        if record::is_row(ty.id) && !of.is_string() {
            return row(of, ty.id, &[], before, self.ctx);
        }
        of.scalar(ty, self.ctx)
    }

    fn array(&self, of: &Source<'_>, ty: Type) -> SqlResult<Value> {
        let item = ty.element().unwrap_or(Type::TEXT);
        let mut out = Items {
            builder: array::Builder::new(item.id),
            item,
            depth: 0,
            lengths: Vec::new(),
            place: Vec::new(),
        };
        self.items(of, 0, &mut out)?;
        let dimensions: Vec<Dimension> =
            out.lengths.iter().map(|l| Dimension::of_length(l.unwrap_or(0))).collect();
        out.builder.finish(&dimensions)
    }

    /// The items of an array so many dimensions in.
    fn items(&self, of: &Source<'_>, depth: usize, out: &mut Items) -> SqlResult<()> {
        if !of.is_array() {
            return Err(self.no_array(&out.place));
        }
        array::check_depth(depth + 1)?;
        let parts = of.parts()?;
        self.ctx.limits.take(size_of_val(&parts[..]))?;
        if parts.is_empty() && out.depth == 0 {
            out.depth = depth + 1;
        }
        for (n, (_, part)) in parts.iter().enumerate() {
            self.ctx.limits.turn(n)?;
            out.place.push(n);
            // How many dimensions there are is told by the first item that is no array.
            if out.depth == 0 && !part.is_array() {
                out.depth = depth + 1;
            }
            if depth + 1 == out.depth {
                let filling = Filling { ctx: self.ctx, key: None };
                let v = filling.value(part, out.item, ValueRef::Null)?;
                out.push(v)?;
            } else {
                self.items(part, depth + 1, out)?;
            }
            out.place.pop();
        }
        if out.lengths.len() < out.depth {
            out.lengths.resize(out.depth, None);
        }
        if let Some(length) = out.lengths.get_mut(depth)
            && *length.get_or_insert(parts.len()) != parts.len()
        {
            let detail = "Multidimensional arrays must have sub-arrays with matching dimensions.";
            let error = SqlError::new(sqlstate::INVALID_TEXT_REPRESENTATION, "malformed JSON array");
            return Err(error.detail(detail));
        }
        Ok(())
    }

    #[cold]
    fn no_array(&self, place: &[usize]) -> SqlError {
        let error = SqlError::new(sqlstate::INVALID_TEXT_REPRESENTATION, "expected JSON array");
        let item: String = place.iter().map(|n| format!("[{n}]")).collect();
        match (self.key, place.is_empty()) {
            (Some(key), true) => error.hint(format!("See the value of key \"{key}\".")),
            (Some(key), false) => error.hint(format!("See the array element {item} of key \"{key}\".")),
            (None, true) => error,
            (None, false) => error.hint(format!("See the array element {item}.")),
        }
    }
}

/// An array that is being filled.
struct Items {
    builder: array::Builder,
    item: Type,
    /// How many dimensions it has, once that is known.
    depth: usize,
    lengths: Vec<Option<usize>>,
    /// Where in the array of JSON it is.
    place: Vec<usize>,
}

impl Items {
    fn push(&mut self, v: Value) -> SqlResult<()> {
        let v = match (v, self.item.char_len(), self.item.id) {
            // What is in an array has its blanks (array/A4).
            (Value::Text(mut s), Some(n), TypeId::BPCHAR) => {
                let missing = n.saturating_sub(s.chars().count());
                s.extend(std::iter::repeat_n(' ', missing));
                Value::Text(s)
            }
            (v, ..) => v,
        };
        self.builder.push(v.as_ref(&mut Vec::new()))
    }
}

/// A row of a type: of an object, and of the row that was before it where that has no pair of a field's name.
/// `fields`: the names and types of a row of type `record`.
pub(super) fn row(
    of: &Source<'_>,
    ty: TypeId,
    fields: &[(String, Type)],
    before: ValueRef<'_>,
    ctx: &Context<'_>,
) -> SqlResult<Value> {
    if !of.is_object() {
        let what = if of.is_array() { "an array" } else { "a scalar" };
        return Err(wrong(format!("cannot call populate_composite on {what}")));
    }
    let named: Vec<(String, Type)> = match composite::fields(ty) {
        Some(parts) => parts.iter().map(|p| (p.name.clone(), p.of())).collect(),
        None => fields.to_vec(),
    };
    let pairs = of.parts()?;
    ctx.limits.take(size_of_val(&pairs[..]))?;
    let before = match before {
        ValueRef::Opaque(_, b) => Some(Record::of(b)),
        _ => None,
    };
    let mut out = Builder::new(ty);
    for (i, (name, of)) in named.iter().enumerate() {
        ctx.limits.turn(i)?;
        let base = of.base();
        let kept = before.as_ref().map_or(ValueRef::Null, |r| r.field(i, base.id));
        let pair = pairs.iter().rfind(|(key, _)| key == name);
        let value = match pair {
            Some((_, source)) => Filling { ctx, key: Some(name) }.value(source, *of, kept)?,
            None => kept.to_owned(),
        };
        out.push(value.as_ref(&mut Vec::new()), base)?;
    }
    ctx.limits.take(out.bytes())?;
    Ok(out.finish())
}

/// Rows of a type, of an array of objects, as an array.
pub(super) fn rows(
    of: &Source<'_>,
    ty: TypeId,
    fields: &[(String, Type)],
    before: ValueRef<'_>,
    caller: &str,
    ctx: &Context<'_>,
) -> SqlResult<Value> {
    if !of.is_array() {
        let what = match of {
            Source::Node(_) => "a non-array",
            _ if of.is_object() => "an object",
            _ => "a scalar",
        };
        return Err(wrong(format!("cannot call {caller} on {what}")));
    }
    let mut out = array::Builder::new(ty);
    let parts = of.parts()?;
    ctx.limits.take(size_of_val(&parts[..]))?;
    for (n, (_, part)) in parts.iter().enumerate() {
        ctx.limits.turn(n)?;
        if !part.is_object() {
            return Err(wrong(format!("argument of {caller} must be an array of objects")));
        }
        let value = row(part, ty, fields, before, ctx)?;
        out.push(value.as_ref(&mut Vec::new()))?;
        if n.is_multiple_of(1 << 10) {
            ctx.limits.take(out.bytes())?;
        }
    }
    out.finish_list()
}

/// The type of the rows that a template is an empty array of.
pub(super) fn row_type(template: ValueRef<'_>) -> Option<TypeId> {
    match template {
        ValueRef::Opaque(ty, b) if ty.is_array() => Some(Array::of_type(ty, b).element),
        ValueRef::Opaque(ty, _) => Some(ty),
        _ => None,
    }
}
