//! Rows of a result with their columns' names and types.
//!
//! - **R1** A [`Rows`] that is cleared and filled again allocates nothing once it has grown; it holds rows in
//!   the interpreter's form, which is decoded only where it is looked at.
//! - **R2** char(n) values stand without their padding; [`Row::text`] adds it, as PostgreSQL shows it.
use ondol_sql::bound::Origin;
use ondol_sql::interpret::rows as raw;
use ondol_sql::interpret::rows::Sink;
use ondol_types::style::Styles;
use ondol_types::{Numeric, SqlError, SqlResult, Type, TypeId, Value, ValueRef, sqlstate, text};
use std::sync::Arc;

/// A result column.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub ty: Type,
    /// How the session that asked shows its values.
    pub(crate) styles: Styles,
    /// The column that its values are read from, where it is nothing else.
    #[cfg_attr(not(feature = "server"), expect(dead_code))]
    pub(crate) origin: Option<Origin>,
}

impl PartialEq for Column {
    fn eq(&self, other: &Column) -> bool {
        (&self.name, self.ty) == (&other.name, other.ty)
    }
}

impl Column {
    /// Its values are shown in the usual styles.
    pub fn new(name: impl Into<String>, ty: Type) -> Column {
        Column { name: name.into(), ty, styles: Styles::USUAL, origin: None }
    }
}

/// The columns as a session in these styles shows them; `own` has room for them, where they are others.
#[inline]
pub(crate) fn styled<'a>(
    columns: &'a Arc<[Column]>,
    styles: Styles,
    own: &'a mut Option<Arc<[Column]>>,
) -> &'a Arc<[Column]> {
    match styles.is_usual() {
        true => columns,
        false => own.insert(columns.iter().map(|c| Column { styles, ..c.clone() }).collect()),
    }
}

/// A result's columns and rows.
pub struct Rows {
    columns: Arc<[Column]>,
    rows: raw::RowBuffer,
}

impl Default for Rows {
    fn default() -> Self {
        Rows::new()
    }
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.iter().map(|r| r.values().map(|v| v.to_owned()).collect::<Vec<_>>()))
            .finish()
    }
}

impl Rows {
    /// Empty; to be given to calls that fill it.
    pub fn new() -> Rows {
        Rows::of(Arc::new([]))
    }
    /// Empty, with columns.
    pub fn of(columns: Arc<[Column]>) -> Rows {
        Rows { columns, rows: raw::RowBuffer::new() }
    }
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }
    #[inline]
    pub fn len(&self) -> usize {
        self.rows.len()
    }
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
    /// Bytes that the rows take.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.bytes()
    }
    /// Forgets the rows, keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.rows.clear()
    }
    /// Empty, with these columns.
    #[inline]
    pub(crate) fn reset(&mut self, columns: &Arc<[Column]>) {
        self.clear();
        self.have(columns)
    }
    /// With these columns, whatever it holds; the caller clears it.
    #[inline]
    pub(crate) fn have(&mut self, columns: &Arc<[Column]>) {
        if !Arc::ptr_eq(&self.columns, columns) {
            self.columns = columns.clone()
        }
    }
    #[inline]
    pub(crate) fn sink(&mut self) -> &mut raw::RowBuffer {
        &mut self.rows
    }
    /// Appends a row of as many values as there are columns.
    pub fn push(&mut self, values: &[ValueRef<'_>]) -> SqlResult<()> {
        if values.len() != self.columns.len() {
            return Err(SqlError::new(
                sqlstate::INTERNAL_ERROR,
                format!("a row of {} values for {} columns", values.len(), self.columns.len()),
            ));
        }
        self.rows.push(values)
    }
    /// Appends a row of a result with the same columns.
    pub fn append(&mut self, row: Row<'_>) -> SqlResult<()> {
        Sink::row(&mut self.rows, &row.row).map(|_| ())
    }

    /// The row at `i`, counted from 0; panics beyond the end, as indexing a slice does.
    #[inline]
    pub fn row(&self, i: usize) -> Row<'_> {
        Row { columns: &self.columns, row: self.rows.row(i) }
    }
    #[inline]
    pub fn iter(&self) -> Iter<'_> {
        Iter::new(Some(self))
    }
    /// The row at `i` as the interpreter has it.
    pub(crate) fn view(&self, i: usize) -> raw::RowView<'_> {
        self.rows.row(i)
    }
}

impl<'a> IntoIterator for &'a Rows {
    type Item = Row<'a>;
    type IntoIter = Iter<'a>;
    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// The rows of a result, one after the other.
#[derive(Clone)]
pub struct Iter<'a> {
    rows: Option<&'a Rows>,
    places: std::ops::Range<usize>,
}

impl<'a> Iter<'a> {
    #[inline]
    pub(crate) fn new(rows: Option<&'a Rows>) -> Iter<'a> {
        Iter { rows, places: 0..rows.map_or(0, Rows::len) }
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = Row<'a>;
    #[inline]
    fn next(&mut self) -> Option<Row<'a>> {
        let rows = self.rows?;
        self.places.next().map(|i| rows.row(i))
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.places.size_hint()
    }
    /// In one loop, without asking for each row whether there are rows at all.
    #[inline]
    fn fold<B, F: FnMut(B, Row<'a>) -> B>(self, init: B, mut f: F) -> B {
        match self.rows {
            Some(rows) => self.places.fold(init, |all, i| f(all, rows.row(i))),
            None => init,
        }
    }
}
impl ExactSizeIterator for Iter<'_> {}

/// One row of a result.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    columns: &'a [Column],
    row: raw::RowView<'a>,
}

impl<'a> Row<'a> {
    pub(crate) fn new(columns: &'a [Column], row: raw::RowView<'a>) -> Row<'a> {
        Row { columns, row }
    }
    pub fn len(&self) -> usize {
        self.columns.len()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    pub fn columns(&self) -> &'a [Column] {
        self.columns
    }
    /// The value in column `i`, counted from 0; NULL for a column that is not there.
    #[inline]
    pub fn value(&self, i: usize) -> ValueRef<'a> {
        self.row.get(i)
    }
    #[inline]
    pub fn values(&self) -> impl Iterator<Item = ValueRef<'a>> + use<'a> {
        self.row.values()
    }
    /// Calls `f` for each value with what goes with its column, as long as it says so. Quicker than
    /// [`Row::values`].
    #[inline(always)]
    #[cfg_attr(not(feature = "server"), expect(dead_code))]
    pub(crate) fn each<C>(
        &self,
        columns: impl IntoIterator<Item = C>,
        f: impl FnMut(ValueRef<'a>, C) -> bool,
    ) {
        self.row.each(columns, f)
    }
    /// The value in column `i` (from 0) as a Rust type: `row.get::<i64>(0)?`. NULL needs an `Option`.
    pub fn get<T: FromValue<'a>>(&self, i: usize) -> SqlResult<T> {
        let Some(c) = self.columns.get(i) else {
            return Err(SqlError::new(
                sqlstate::INVALID_PARAMETER_VALUE,
                format!("the result has {} columns; column {i} was asked for (counted from 0)", self.len()),
            ));
        };
        T::from_value(self.value(i), c)
    }
    /// The value in the column of that name.
    pub fn get_named<T: FromValue<'a>>(&self, name: &str) -> SqlResult<T> {
        match self.columns.iter().position(|c| c.name == name) {
            Some(i) => self.get(i),
            None => {
                Err(SqlError::new(sqlstate::UNDEFINED_COLUMN, format!("the result has no column \"{name}\"")))
            }
        }
    }
    /// The value in column `i` as PostgreSQL writes it; false (and nothing written) for NULL.
    pub fn text(&self, i: usize, out: &mut String) -> bool {
        write_text(self.value(i), &self.columns[i], out)
    }
}

/// Writes a value as PostgreSQL does; false for NULL.
pub(crate) fn write_text(value: ValueRef<'_>, column: &Column, out: &mut String) -> bool {
    if value.is_null() {
        return false;
    }
    text::styled(value, column.ty, &column.styles, out);
    true
}

/// Rust types that a value can be read as. Nothing is converted silently with loss: integers widen only.
pub trait FromValue<'a>: Sized {
    fn from_value(value: ValueRef<'a>, column: &Column) -> SqlResult<Self>;
}

fn mismatch<T>(value: ValueRef<'_>, column: &Column, wanted: &str) -> SqlResult<T> {
    let found = if value.is_null() { "NULL".to_string() } else { column.ty.to_string() };
    Err(SqlError::new(
        sqlstate::DATATYPE_MISMATCH,
        format!("column \"{}\" holds {found}, which cannot be read as {wanted}", column.name),
    ))
}

macro_rules! from_value {
    ($($to:ty, $name:literal: $($pattern:pat => $value:expr),+;)*) => {
        $(impl<'a> FromValue<'a> for $to {
            fn from_value(value: ValueRef<'a>, column: &Column) -> SqlResult<Self> {
                match value {
                    $($pattern => Ok($value),)+
                    other => mismatch(other, column, $name),
                }
            }
        })*
    };
}

from_value! {
    bool, "bool": ValueRef::Bool(v) => v;
    i16, "i16": ValueRef::Int2(v) => v;
    i32, "i32": ValueRef::Int4(v) => v, ValueRef::Int2(v) => v.into(), ValueRef::Date(v) => v;
    i64, "i64": ValueRef::Int8(v) => v, ValueRef::Int4(v) => v.into(), ValueRef::Int2(v) => v.into(),
        ValueRef::Timestamp(v) => v, ValueRef::Timestamptz(v) => v;
    f64, "f64": ValueRef::Float8(v) => v, ValueRef::Int4(v) => v.into(), ValueRef::Int2(v) => v.into();
    &'a str, "&str": ValueRef::Text(v) => v;
    &'a [u8], "&[u8]": ValueRef::Bytea(v) => v, ValueRef::Opaque(_, v) => v;
    Vec<u8>, "Vec<u8>": ValueRef::Bytea(v) => v.to_vec(), ValueRef::Opaque(_, v) => v.to_vec();
}

impl<'a> FromValue<'a> for ValueRef<'a> {
    fn from_value(value: ValueRef<'a>, _: &Column) -> SqlResult<Self> {
        Ok(value)
    }
}

impl<'a> FromValue<'a> for Value {
    fn from_value(value: ValueRef<'a>, _: &Column) -> SqlResult<Self> {
        Ok(value.to_owned())
    }
}

/// Any value as a `String` is its text.
impl<'a> FromValue<'a> for String {
    fn from_value(value: ValueRef<'a>, column: &Column) -> SqlResult<Self> {
        let mut out = String::new();
        if write_text(value, column, &mut out) { Ok(out) } else { mismatch(value, column, "String") }
    }
}

impl<'a> FromValue<'a> for Numeric {
    fn from_value(value: ValueRef<'a>, column: &Column) -> SqlResult<Self> {
        match value.to_owned() {
            Value::Numeric(n) if column.ty.id == TypeId::NUMERIC => Ok(n),
            _ => mismatch(value, column, "Numeric"),
        }
    }
}

impl<'a, T: FromValue<'a>> FromValue<'a> for Option<T> {
    fn from_value(value: ValueRef<'a>, column: &Column) -> SqlResult<Self> {
        if value.is_null() { Ok(None) } else { T::from_value(value, column).map(Some) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Rows {
        let mut r = Rows::new();
        let column = |name: &str, id| Column::new(name, Type::new(id));
        r.reset(&(Arc::new([column("a", TypeId::INT4), column("b", TypeId::TEXT)]) as Arc<[Column]>));
        r.push(&[ValueRef::Int4(1), ValueRef::Text("one")]).unwrap();
        r.push(&[ValueRef::Null, ValueRef::Text("")]).unwrap();
        assert_eq!(r.push(&[ValueRef::Null]).unwrap_err().sqlstate(), "XX000");
        r
    }

    #[test]
    fn typed_access() {
        let r = sample();
        assert_eq!(r.len(), 2);
        assert_eq!(r.row(0).get::<i64>(0).unwrap(), 1);
        assert_eq!(r.row(0).get::<&str>(1).unwrap(), "one");
        assert_eq!(r.row(1).get::<Option<i32>>(0).unwrap(), None);
        assert_eq!(r.row(1).get_named::<&str>("b").unwrap(), "");
        assert_eq!(r.row(1).get::<i32>(0).unwrap_err().sqlstate(), "42804");
        assert_eq!(r.row(0).get::<i16>(0).unwrap_err().sqlstate(), "42804");
        assert_eq!(r.row(0).get::<i16>(7).unwrap_err().sqlstate(), "22023");
        assert_eq!(r.row(0).get_named::<i16>("c").unwrap_err().sqlstate(), "42703");
    }

    #[test]
    fn clearing_keeps_the_columns() {
        let mut r = sample();
        r.clear();
        assert!(r.is_empty());
        r.push(&[ValueRef::Int4(2), ValueRef::Null]).unwrap();
        assert_eq!(r.row(0).get::<i32>(0).unwrap(), 2);
        assert_eq!(r.columns().len(), 2);
    }
}
