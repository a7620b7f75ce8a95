//! json, a text that is kept as it was written, and jsonb, a value of JSON that is found one's way in.
//!
//! | part | what it does |
//! | --- | --- |
//! | `lex`, `parse` | read a text, and tell what is wrong with it |
//! | `stored`, `build` | the stored form of jsonb: read where it lies, and made |
//! | `order` | the order of values of jsonb, and their keys |
//! | `show` | their text |
//! | `make` | values of all types as JSON |
//! | `find` | what stands at a path |
//! | `change` | values made of others: joined, with something set, put in or left out |
//! | `spread` | keys, pairs and items as lists, of which the binder makes rows |
//! | `populate` | rows made of objects |
//! | `aggregate` | json_agg and its like |
//! | `plain`, `binary` | the two types with their functions |
//!
//! Nothing here recurs as deeply as a value is nested: a deep one must not end a stack. What recurs does so
//! by the types of arrays and rows.
//!
//! Not here: SQL/JSON path, indexes of the kind `gin`, and full text search of JSON.
//!
//! Source: PostgreSQL 15's documentation, 8.14 and 9.16, and its answers.

mod aggregate;
pub mod binary;
mod build;
mod change;
mod find;
mod lex;
mod make;
mod order;
mod parse;
pub mod plain;
mod populate;
mod show;
mod spread;
mod stored;

pub(crate) use aggregate::{Gathered, Gathers};
pub(crate) use stored::is_whole;

use crate::array::Array;
use crate::func::{Call, Context, internal};
use crate::limits::Limits;
use crate::{SqlResult, TypeId, Value, ValueRef};
use change::wrong;
use parse::Parser;

/// How deeply arrays and objects may be nested.
const MAX_DEPTH: usize = 10_000;

/// Appends a text in quotes, as JSON has it.
pub fn quote(s: &str, out: &mut String) {
    out.push('"');
    let mut rest = s;
    while let Some(at) = rest.bytes().position(|b| b < b' ' || b == b'"' || b == b'\\') {
        out.push_str(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x8 => out.push_str("\\b"),
            0xc => out.push_str("\\f"),
            b => out.push_str(&format!("\\u{b:04x}")),
        }
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"')
}

/// Appends the text of a value of type jsonb.
fn push_json(value: &[u8], limits: &Limits<'_>, out: &mut String) -> SqlResult<()> {
    show::write(stored::root(value)?, show::Layout::Line, limits, out)
}

/// Whether bytes that come from outside are a text of JSON.
pub(crate) fn is_text(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|s| {
        !s.contains('\0') && check(s, &Context { limits: Limits::NONE, ..Context::EMPTY }).is_ok()
    })
}

/// Whether a text is one of JSON; the error that it is not.
fn check(text: &str, ctx: &Context<'_>) -> SqlResult<()> {
    let mut parser = Parser::new(text, false);
    let mut parts = 0;
    while parser.next()?.is_some() {
        parts += 1;
        if parts % 4096 == 0 {
            ctx.limits.turn(parts)?;
        }
    }
    Ok(())
}

/// A value of type json of a text that is one.
fn plain_value(text: String) -> Value {
    Value::Opaque(TypeId::JSON, text.into_bytes().into())
}

impl<'a> Call<'a> {
    /// An argument of type json.
    fn json(&self, i: usize) -> SqlResult<&'a str> {
        std::str::from_utf8(self.opaque(i)?).map_err(|_| internal("a value of type json is no text"))
    }

    /// The texts of an array of them, `None` for NULLs.
    fn texts(&self, i: usize) -> SqlResult<Vec<Option<&'a str>>> {
        let array = Array::of_type(TypeId::TEXT.of_arrays(), self.opaque(i)?);
        Ok(array.items().map(text_of).collect())
    }

    /// The texts of the arguments from one on.
    fn texts_from(&self, i: usize) -> SqlResult<Vec<Option<&'a str>>> {
        let text = |v: &ValueRef<'a>| match v {
            ValueRef::Null => Ok(None),
            ValueRef::Text(s) => Ok(Some(*s)),
            other => Err(internal(format!("a path has the step {other:?}"))),
        };
        self.args.get(i..).unwrap_or_default().iter().map(text).collect()
    }
}

fn text_of(v: ValueRef<'_>) -> Option<&str> {
    match v {
        ValueRef::Text(s) => Some(s),
        _ => None,
    }
}

/// A path of texts; `None` if one is NULL, which leads nowhere.
fn path_of<'a>(steps: &[Option<&'a str>]) -> Option<Vec<find::PathStep<'a>>> {
    steps.iter().map(|s| s.map(find::PathStep::Text)).collect()
}

/// What pairs of keys and values that are given one after the other make.
fn uneven(function: &str) -> crate::SqlError {
    wrong("argument list must have even number of elements")
        .hint(format!("The arguments of {function}() must consist of alternating keys and values."))
}

/// The keys and values of json_object and jsonb_object: of one array, or of two.
fn pairs_of(c: &Call<'_>) -> SqlResult<Vec<(String, Option<String>)>> {
    use crate::{SqlError, sqlstate};
    let array = |i: usize| -> SqlResult<(Vec<Option<String>>, Vec<i32>)> {
        let array = Array::of_type(TypeId::TEXT.of_arrays(), c.opaque(i)?);
        let texts = array.items().map(|v| text_of(v).map(String::from)).collect();
        Ok((texts, array.dimensions().map(|d| d.length).collect()))
    };
    let subscripts = |message: &str| Err(SqlError::new(crate::func::state::ARRAY_SUBSCRIPT_ERROR, message));
    let (first, lengths) = array(0)?;
    c.limits().take(c.args.iter().map(ValueRef::byte_len).sum())?;
    let given: Vec<(Option<String>, Option<String>)> = if c.args.len() == 2 {
        let (second, others) = array(1)?;
        if lengths.len() > 1 || lengths.len() != others.len() {
            return Err(change::wrong_subscripts());
        }
        if first.len() != second.len() {
            return subscripts("mismatched array dimensions");
        }
        first.into_iter().zip(second).collect()
    } else {
        match lengths[..] {
            [] => {}
            [n] if n % 2 != 0 => return subscripts("array must have even number of elements"),
            [_] | [_, 2] => {}
            [_, _] => return subscripts("array must have two columns"),
            _ => return Err(change::wrong_subscripts()),
        }
        let mut items = first.into_iter();
        std::iter::from_fn(|| items.next().zip(items.next())).collect()
    };
    let key = |(k, v): (Option<String>, Option<String>)| match k {
        Some(k) => Ok((k, v)),
        None => {
            let message = "null value not allowed for object key";
            Err(SqlError::new(sqlstate::NULL_VALUE_NOT_ALLOWED, message))
        }
    };
    given.into_iter().map(key).collect()
}

/// The fields that a template of a row of type `record` has, of json_to_record and its like.
fn template_of(c: &Call<'_>) -> SqlResult<(TypeId, Vec<(String, crate::Type)>)> {
    match c.args.first() {
        Some(ValueRef::Opaque(ty, b)) => Ok((*ty, super::record::template_fields(*ty, b))),
        other => Err(internal(format!("a row was to be made of {other:?}"))),
    }
}

/// A row of the object that an argument is, of the type of the row before it: as json_populate_record.
fn populated(c: &Call<'_>) -> SqlResult<Value> {
    let (ty, fields) = populated_type(c)?;
    let (before, json) = (c.args[0], c.args[1]);
    if json.is_null() {
        return Ok(before.to_owned());
    }
    populate::row(&populate::Source::of(json)?, ty, &fields, before, c.ctx)
}

/// Rows of the objects in the array that an argument is, as json_populate_recordset, which is `caller`.
fn populated_rows(c: &Call<'_>, caller: &str) -> SqlResult<Value> {
    let (ty, fields) = populated_type(c)?;
    let json = c.args[1];
    if json.is_null() {
        return Ok(ty.array().map_or(Value::Null, crate::array::empty));
    }
    populate::rows(&populate::Source::of(json)?, ty, &fields, c.args[0], caller, c.ctx)
}

/// The type of the rows to make, and the fields of one of type `record`.
fn populated_type(c: &Call<'_>) -> SqlResult<(TypeId, Vec<(String, crate::Type)>)> {
    use super::record::{self, Record};
    use crate::{SqlError, Type, sqlstate};
    let ty = c.args.last().and_then(|template| populate::row_type(*template));
    let Some(ty) = ty.filter(|ty| record::is_row(*ty)) else {
        let message = "first argument of json_populate_record must be a row type";
        return Err(SqlError::new(sqlstate::DATATYPE_MISMATCH, message));
    };
    match c.args[0] {
        ValueRef::Opaque(TypeId::RECORD, b) => {
            let record = Record::of(b);
            let named = record::named_fields(TypeId::RECORD, b);
            let types = (0..record.len()).map(|i| Type::new(record.ty(i)));
            Ok((ty, named.into_iter().map(|(n, _)| n.into_owned()).zip(types).collect()))
        }
        _ if ty == TypeId::RECORD => {
            let message = "could not determine row type for result of json_populate_record";
            let hint = "Provide a non-null record argument, or call the function in the FROM clause using a \
                        column definition list.";
            Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message).hint(hint))
        }
        _ => Ok((ty, Vec::new())),
    }
}

#[cfg(test)]
mod tests;
