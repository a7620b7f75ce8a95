//! What a batch's calls have given.
use crate::message::Body;
use crate::statement::{Column, Prepared};
use ondol_types::{Numeric, SqlError, SqlResult, Type, TypeId, Value, ValueRef, text};
use ondol_wire::binary;
use std::sync::Arc;

/// Of one call.
#[derive(Default)]
pub(crate) struct Answer {
    /// How many rows' places come before it.
    pub first: usize,
    /// Rows that it has changed, or given.
    pub affected: u64,
    pub error: Option<SqlError>,
}

/// Where the answers of a batch are in its client's input.
#[derive(Default)]
pub(crate) struct Found {
    pub answers: Vec<Answer>,
    /// Where each row begins.
    pub rows: Vec<usize>,
}

impl Found {
    pub fn clear(&mut self) {
        self.answers.clear();
        self.rows.clear()
    }
}

/// The answers to a batch, call by call, until its client does something else.
#[derive(Clone, Copy)]
pub struct Answers<'c> {
    pub(crate) found: &'c Found,
    pub(crate) input: &'c [u8],
    pub(crate) calls: &'c [Arc<Prepared>],
}

impl<'c> Answers<'c> {
    /// The number of calls.
    pub fn len(&self) -> usize {
        self.found.answers.len()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    fn answer(&self, call: usize) -> SqlResult<&'c Answer> {
        let Some(answer) = self.found.answers.get(call) else {
            let message = format!("expected a call below {}, found {call}", self.len());
            return Err(SqlError::new("22023", message));
        };
        answer.error.as_ref().map_or(Ok(answer), |e| Err(e.clone()))
    }
    /// How many rows a call has changed, or given.
    ///
    /// # Errors
    /// The call's own.
    pub fn affected(&self, call: usize) -> SqlResult<u64> {
        self.answer(call).map(|a| a.affected)
    }
    /// The rows of a call, counted from 0.
    ///
    /// # Errors
    /// The call's own.
    pub fn rows(&self, call: usize) -> SqlResult<SentRows<'c>> {
        let first = self.answer(call)?.first;
        let end = self.found.answers.get(call + 1).map_or(self.found.rows.len(), |a| a.first);
        let places = self.found.rows.get(first..end).unwrap_or(&[]);
        let columns = self.calls.get(call).map_or(&[][..], |c| &c.columns);
        Ok(SentRows { columns, input: self.input, places })
    }
}

/// The rows of a call.
#[derive(Clone, Copy)]
pub struct SentRows<'c> {
    columns: &'c [Column],
    input: &'c [u8],
    places: &'c [usize],
}

impl<'c> SentRows<'c> {
    pub fn columns(&self) -> &'c [Column] {
        self.columns
    }
    pub fn len(&self) -> usize {
        self.places.len()
    }
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
    /// The row at `i`, counted from 0; panics beyond the end, as indexing a slice does.
    pub fn row(&self, i: usize) -> SentRow<'c> {
        SentRow { columns: self.columns, values: Body(&self.input[self.places[i]..]) }
    }
    pub fn iter(&self) -> Iter<'c> {
        Iter { rows: *self, places: 0..self.len() }
    }
}

impl<'c> IntoIterator for SentRows<'c> {
    type Item = SentRow<'c>;
    type IntoIter = Iter<'c>;
    fn into_iter(self) -> Iter<'c> {
        self.iter()
    }
}

/// The rows of a call, one after the other.
pub struct Iter<'c> {
    rows: SentRows<'c>,
    places: std::ops::Range<usize>,
}

impl<'c> Iterator for Iter<'c> {
    type Item = SentRow<'c>;
    fn next(&mut self) -> Option<SentRow<'c>> {
        self.places.next().map(|i| self.rows.row(i))
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.places.size_hint()
    }
}
impl ExactSizeIterator for Iter<'_> {}

/// One row, as the server has sent it.
#[derive(Clone, Copy)]
pub struct SentRow<'c> {
    columns: &'c [Column],
    /// From the first value's length on.
    values: Body<'c>,
}

impl<'c> SentRow<'c> {
    pub(crate) fn new(columns: &'c [Column], values: Body<'c>) -> SentRow<'c> {
        SentRow { columns, values }
    }
    pub fn columns(&self) -> &'c [Column] {
        self.columns
    }
    /// The value in column `i` as it was sent, in binary or as a text; `None` is NULL.
    #[inline]
    fn sent(&self, i: usize) -> SqlResult<(Option<&'c [u8]>, &'c Column)> {
        let Some(column) = self.columns.get(i) else {
            let n = self.columns.len();
            let message = format!("the rows have {n} columns; column {i} was asked for (counted from 0)");
            return Err(SqlError::new("22023", message));
        };
        let mut body = self.values;
        let lost = |e: std::io::Error| SqlError::new("08P01", e.to_string());
        for _ in 0..i {
            body.value().map_err(lost)?;
        }
        Ok((body.value().map_err(lost)?, column))
    }
    /// The value in column `i` (from 0) as a Rust type: `row.get::<i64>(0)?`. NULL needs an `Option`.
    ///
    /// # Errors
    /// 42804, if it is of another type; 22023, if there is no such column.
    #[inline]
    pub fn get<T: FromSent<'c>>(&self, i: usize) -> SqlResult<T> {
        let (bytes, column) = self.sent(i)?;
        T::from_sent(bytes, column)
    }
    /// Calls `f` with each value, until it fails.
    ///
    /// # Errors
    /// Those of `f`; what [`SentRow::get`] says of a value that is none of its type.
    pub fn each(&self, mut f: impl FnMut(ValueRef<'_>) -> SqlResult<()>) -> SqlResult<()> {
        let (mut body, mut scratch) = (self.values, vec![]);
        for column in self.columns {
            let sent = body.value().map_err(|e| SqlError::new("08P01", e.to_string()))?;
            match borrowed(sent, column) {
                Some(value) => f(value)?,
                None => f(owned(sent, column)?.as_ref(&mut scratch))?,
            }
        }
        Ok(())
    }
    /// Appends the value in column `i` as PostgreSQL writes it in its usual styles, moments in UTC; false
    /// (and nothing written) for NULL.
    ///
    /// # Errors
    /// 22023, if there is no such column.
    pub fn text(&self, i: usize, out: &mut String) -> SqlResult<bool> {
        let (sent, column) = self.sent(i)?;
        let Some(value) = sent.is_some().then(|| owned(sent, column)).transpose()? else { return Ok(false) };
        text::output(value.as_ref(&mut vec![]), column.ty, out);
        Ok(true)
    }
}

/// The value, where it needs no memory of its own.
#[inline]
fn borrowed<'c>(sent: Option<&'c [u8]>, column: &Column) -> Option<ValueRef<'c>> {
    match sent {
        None => Some(ValueRef::Null),
        Some(bytes) if column.is_binary => match (binary::borrow(bytes, column.ty.id), column.ty.id) {
            // Without its padding, which a text of it has.
            (Some(ValueRef::Text(t)), TypeId::BPCHAR) => Some(ValueRef::Text(t.trim_end_matches(' '))),
            (value, _) => value,
        },
        Some(bytes) => std::str::from_utf8(bytes).ok().map(ValueRef::Text),
    }
}

fn owned(sent: Option<&[u8]>, column: &Column) -> SqlResult<Value> {
    match sent {
        None => Ok(Value::Null),
        Some(bytes) if column.is_binary => match binary::read(bytes, column.ty.id)? {
            Value::Text(t) if column.ty.id == TypeId::BPCHAR => {
                Ok(Value::Text(t.trim_end_matches(' ').into()))
            }
            value => Ok(value),
        },
        Some(bytes) => std::str::from_utf8(bytes)
            .map(|t| Value::Text(t.into()))
            .map_err(|_| SqlError::new("22021", "invalid byte sequence for encoding \"UTF8\"")),
    }
}

/// Rust types that a value can be read as. Nothing is converted silently with loss: integers widen only.
pub trait FromSent<'c>: Sized {
    /// # Errors
    /// 42804, if the column's values are of another type, or it is NULL.
    fn from_sent(sent: Option<&'c [u8]>, column: &Column) -> SqlResult<Self>;
}

#[cold]
fn mismatch<T>(sent: Option<&[u8]>, column: &Column, wanted: &str) -> SqlResult<T> {
    let found: Type = column.ty;
    let found = if sent.is_none() { "NULL".to_string() } else { found.to_string() };
    let message = format!("column \"{}\" holds {found}, which cannot be read as {wanted}", column.name);
    Err(SqlError::new("42804", message))
}

macro_rules! from_sent {
    ($how:ident, $($to:ty, $name:literal: $($pattern:pat => $value:expr),+;)*) => {
        $(impl<'c> FromSent<'c> for $to {
            #[inline]
            fn from_sent(sent: Option<&'c [u8]>, column: &Column) -> SqlResult<Self> {
                match $how(sent, column) {
                    $($pattern => Ok($value),)+
                    _ => mismatch(sent, column, $name),
                }
            }
        })*
    };
}

from_sent! { borrowed,
    i16, "i16": Some(ValueRef::Int2(v)) => v;
    &'c str, "&str": Some(ValueRef::Text(v)) => v;
    &'c [u8], "&[u8]": Some(ValueRef::Bytea(v)) => v;
    Vec<u8>, "Vec<u8>": Some(ValueRef::Bytea(v)) => v.to_vec();
}
from_sent! { owned,
    bool, "bool": Ok(Value::Bool(v)) => v;
    i32, "i32": Ok(Value::Int4(v)) => v, Ok(Value::Int2(v)) => v.into(), Ok(Value::Date(v)) => v;
    Numeric, "Numeric": Ok(Value::Numeric(v)) => v;
}

impl<'c> FromSent<'c> for f64 {
    #[inline]
    fn from_sent(sent: Option<&'c [u8]>, column: &Column) -> SqlResult<f64> {
        match borrowed(sent, column) {
            Some(ValueRef::Float8(v)) => Ok(v),
            Some(ValueRef::Int4(v)) => Ok(v.into()),
            Some(ValueRef::Int2(v)) => Ok(v.into()),
            _ => match (sent.and_then(|b| b.first_chunk()), column.ty.id) {
                (Some(bits), TypeId::FLOAT4) => Ok(f32::from_be_bytes(*bits).into()),
                _ => mismatch(sent, column, "f64"),
            },
        }
    }
}

/// Also moments, in microseconds since 2000, dates, in days since then, and the numbers of objects.
impl<'c> FromSent<'c> for i64 {
    #[inline]
    fn from_sent(sent: Option<&'c [u8]>, column: &Column) -> SqlResult<i64> {
        match borrowed(sent, column) {
            Some(ValueRef::Int8(v)) => Ok(v),
            Some(ValueRef::Int4(v)) => Ok(v.into()),
            Some(ValueRef::Int2(v)) => Ok(v.into()),
            _ => match owned(sent, column) {
                Ok(Value::Timestamp(v) | Value::Timestamptz(v)) => Ok(v),
                Ok(Value::Date(v)) => Ok(v.into()),
                Ok(Value::Opaque(TypeId::OID, b)) => {
                    Ok(b.first_chunk().map_or(0, |b| u32::from_le_bytes(*b)).into())
                }
                _ => mismatch(sent, column, "i64"),
            },
        }
    }
}

impl<'c> FromSent<'c> for Value {
    fn from_sent(sent: Option<&'c [u8]>, column: &Column) -> SqlResult<Value> {
        owned(sent, column)
    }
}

/// Any value as a `String` is its text.
impl<'c> FromSent<'c> for String {
    fn from_sent(sent: Option<&'c [u8]>, column: &Column) -> SqlResult<String> {
        let mut out = String::new();
        match owned(sent, column)? {
            Value::Null => mismatch(sent, column, "String"),
            value => {
                text::output(value.as_ref(&mut vec![]), column.ty, &mut out);
                Ok(out)
            }
        }
    }
}

impl<'c, T: FromSent<'c>> FromSent<'c> for Option<T> {
    #[inline]
    fn from_sent(sent: Option<&'c [u8]>, column: &Column) -> SqlResult<Option<T>> {
        if sent.is_none() { Ok(None) } else { T::from_sent(sent, column).map(Some) }
    }
}
