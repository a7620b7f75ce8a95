//! Rows on their way out: [`RowView`] as a sink sees it, [`RowBuffer`] as a caller keeps it.
//!
//! - **R1** A row of one whole table goes out as the bytes that it has in the table and is decoded only where
//!   it is looked at. Strings that lie in slots of their own are appended, and their heads hold an offset
//!   within the row's bytes instead of an OID, so that the bytes stand alone; what is missing there of
//!   columns that were added later, the table has (engine/later/N3).
//! - **R2** A [`RowBuffer`] that is cleared and filled again allocates nothing once it has grown.
use super::datum::{Datum, Tag, text};
use ondol_base::ascii::trimmed;
use ondol_engine::layout::{INLINE, StringAt, WIDE, string_at};
use ondol_engine::{ColumnLayout, Connection, Layout, Storage, Table, later};
use ondol_types::ty::Class;
use ondol_types::{Packed, SqlError, SqlResult, ValueRef, sqlstate};
use std::sync::Arc;

/// Takes a statement's rows.
pub trait Sink {
    /// False: no more rows are wanted.
    fn row(&mut self, row: &RowView<'_>) -> SqlResult<bool>;
    /// The buffer that it puts all rows in as they are, if it does nothing else with them.
    fn rows(&mut self) -> Option<&mut RowBuffer> {
        None
    }
}

impl<F: FnMut(&RowView<'_>) -> SqlResult<bool>> Sink for F {
    fn row(&mut self, row: &RowView<'_>) -> SqlResult<bool> {
        self(row)
    }
}

/// Drops what it is given.
pub struct Nowhere;
impl Sink for Nowhere {
    fn row(&mut self, _: &RowView<'_>) -> SqlResult<bool> {
        Ok(true)
    }
}

#[derive(Clone, Copy)]
pub struct RowView<'a>(pub(super) Shape<'a>);

#[derive(Clone, Copy)]
pub(super) enum Shape<'a> {
    Values {
        values: &'a [Datum],
        memory: &'a [u8],
    },
    /// R1
    Raw {
        table: &'a Arc<Table>,
        bytes: &'a [u8],
    },
}

impl<'a> RowView<'a> {
    pub fn len(&self) -> usize {
        match self.0 {
            Shape::Values { values, .. } => values.len(),
            Shape::Raw { table, .. } => table.layout.shown().len(),
        }
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The first `n` values of it. A whole row of a table stays one.
    pub fn first(&self, n: usize) -> RowView<'a> {
        match self.0 {
            Shape::Values { values, memory } => {
                RowView(Shape::Values { values: values.get(..n).unwrap_or(values), memory })
            }
            Shape::Raw { .. } => *self,
        }
    }
    /// NULL for a column that is not there.
    #[inline]
    pub fn get(&self, column: usize) -> ValueRef<'a> {
        match self.0 {
            Shape::Values { values, memory } => {
                values.get(column).map_or(ValueRef::Null, |d| d.value(memory))
            }
            Shape::Raw { table, bytes } => match table.layout.columns.get(column) {
                Some(c) => raw_value(&table.layout, bytes, c),
                None => ValueRef::Null,
            },
        }
    }
    #[inline]
    pub fn values(&self) -> impl Iterator<Item = ValueRef<'a>> + use<'a> {
        match self.0 {
            Shape::Values { values, memory } => Values::Datums { rest: values.iter(), memory },
            Shape::Raw { table, bytes } => {
                Values::Raw { rest: table.layout.shown().iter(), layout: &table.layout, bytes }
            }
        }
    }
    /// Calls `f` for each value with what goes with its column, as long as it says so. Quicker than
    /// [`RowView::values`].
    #[inline(always)]
    pub fn each<C>(&self, columns: impl IntoIterator<Item = C>, mut f: impl FnMut(ValueRef<'a>, C) -> bool) {
        let (datums, stored, layout, memory): (_, _, Option<&'a Layout>, _) = match self.0 {
            Shape::Values { values, memory } => (values, &[][..], None, memory),
            Shape::Raw { table, bytes } => (&[][..], &table.layout.columns[..], Some(&*table.layout), bytes),
        };
        // In one place, so that the compiler puts `f` there, and no value is put together to be taken apart.
        for (n, column) in columns.into_iter().enumerate() {
            let value = match layout {
                Some(layout) => {
                    let Some(c) = stored.get(n) else { return };
                    raw_value(layout, memory, c)
                }
                None => {
                    let Some(d) = datums.get(n) else { return };
                    d.value(memory)
                }
            };
            if !f(value, column) {
                return;
            }
        }
    }
    /// The row's stored bytes, when it is a whole row of a table without strings in other slots.
    pub fn raw(&self) -> Option<&'a [u8]> {
        match self.0 {
            Shape::Raw { bytes, .. } => Some(bytes),
            Shape::Values { .. } => None,
        }
    }
    /// An integer of any width, a date or a timestamp.
    pub fn get_i64(&self, column: usize) -> Option<i64> {
        Some(match self.get(column) {
            ValueRef::Int2(v) => v.into(),
            ValueRef::Int4(v) | ValueRef::Date(v) => v.into(),
            ValueRef::Int8(v) | ValueRef::Timestamp(v) | ValueRef::Timestamptz(v) => v,
            _ => return None,
        })
    }
    pub fn get_f64(&self, column: usize) -> Option<f64> {
        if let ValueRef::Float8(v) = self.get(column) { Some(v) } else { None }
    }
    pub fn get_bool(&self, column: usize) -> Option<bool> {
        if let ValueRef::Bool(v) = self.get(column) { Some(v) } else { None }
    }
    pub fn get_str(&self, column: usize) -> Option<&'a str> {
        if let ValueRef::Text(v) = self.get(column) { Some(v) } else { None }
    }
    /// The bytes of a bytea, a string, an opaque value, or of a numeric's encoding; nothing of a numeric that
    /// is packed.
    pub fn get_bytes(&self, column: usize) -> Option<&'a [u8]> {
        match self.get(column) {
            ValueRef::Bytea(b) | ValueRef::Numeric(b) | ValueRef::Opaque(_, b) => Some(b),
            ValueRef::Text(s) => Some(s.as_bytes()),
            _ => None,
        }
    }
    pub fn is_null(&self, column: usize) -> bool {
        match self.0 {
            Shape::Values { values, .. } => values.get(column).is_none_or(|d| d.is_null()),
            Shape::Raw { .. } => self.get(column).is_null(),
        }
    }
}

/// A row's values, in order.
enum Values<'a> {
    Datums { rest: std::slice::Iter<'a, Datum>, memory: &'a [u8] },
    Raw { rest: std::slice::Iter<'a, ColumnLayout>, layout: &'a Layout, bytes: &'a [u8] },
}

impl<'a> Iterator for Values<'a> {
    type Item = ValueRef<'a>;
    // A call for each value, which puts it together for the caller to take apart, costs a batch of look-ups a
    // sixth of its time.
    #[inline(always)]
    fn next(&mut self) -> Option<ValueRef<'a>> {
        match self {
            Values::Datums { rest, memory } => rest.next().map(|d| d.value(memory)),
            Values::Raw { rest, layout, bytes } => rest.next().map(|c| raw_value(layout, bytes, c)),
        }
    }
    // A value goes straight into what takes it. One that is handed out as an `Option` is written and read
    // again in parts that do not fit together, for which the processor waits.
    #[inline(always)]
    fn fold<B, F: FnMut(B, ValueRef<'a>) -> B>(self, first: B, mut take: F) -> B {
        let mut so_far = first;
        match self {
            Values::Datums { rest, memory } => {
                for d in rest {
                    so_far = take(so_far, d.value(memory))
                }
            }
            Values::Raw { rest, layout, bytes } => {
                for c in rest {
                    so_far = take(so_far, raw_value(layout, bytes, c))
                }
            }
        }
        so_far
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Values::Datums { rest, .. } => rest.size_hint(),
            Values::Raw { rest, .. } => rest.size_hint(),
        }
    }
}

#[inline(always)]
pub(super) fn fixed<const N: usize>(row: &[u8], at: usize) -> [u8; N] {
    match row.get(at..at.wrapping_add(N)).and_then(|b| b.first_chunk::<N>()) {
        Some(b) => *b,
        None => [0; N],
    }
}

/// The value of a char column among those of a wide row (engine/layout/L3): offset and length in `all`.
pub(super) fn wide_part(layout: &Layout, all: &[u8], column: usize) -> (usize, usize) {
    let mut at = 0;
    for c in &layout.char_columns {
        let len = u32::from_le_bytes(fixed(all, at)) as usize;
        if *c as usize == column {
            return (at + 4, len);
        }
        at += 4 + len;
    }
    (0, 0)
}

/// The value of a column.
#[inline(always)]
fn raw_value<'a>(layout: &'a Layout, row: &'a [u8], c: &ColumnLayout) -> ValueRef<'a> {
    if c.is_null(row) {
        return ValueRef::Null;
    }
    let at = c.offset as usize;
    match c.storage {
        Storage::Bool => ValueRef::Bool(row[at] != 0),
        Storage::Int2 => ValueRef::Int2(i16::from_le_bytes(fixed(row, at))),
        Storage::Int4 => ValueRef::Int4(i32::from_le_bytes(fixed(row, at))),
        Storage::Int8 => ValueRef::Int8(i64::from_le_bytes(fixed(row, at))),
        Storage::Float8 => ValueRef::Float8(f64::from_le_bytes(fixed(row, at))),
        Storage::Date => ValueRef::Date(i32::from_le_bytes(fixed(row, at))),
        Storage::Timestamp => ValueRef::Timestamp(i64::from_le_bytes(fixed(row, at))),
        Storage::Timestamptz => ValueRef::Timestamptz(i64::from_le_bytes(fixed(row, at))),
        Storage::Char { width } if !Layout::is_wide(row) => {
            ValueRef::Text(padded_text(&row[at..at + width as usize]))
        }
        Storage::Char { .. } => ValueRef::Text(wide_text(layout, row, c)),
        Storage::Text => ValueRef::Text(text(string(row, at))),
        Storage::Bytea => ValueRef::Bytea(string(row, at)),
        Storage::Numeric => ValueRef::Numeric(string(row, at)),
        Storage::Packed { scale } => ValueRef::Packed(Packed::new(i64::from_le_bytes(fixed(row, at)), scale)),
        Storage::Fixed { ty, width } => {
            ValueRef::Opaque(ty, row.get(at..at + usize::from(width)).unwrap_or(&[]))
        }
        Storage::Opaque { ty } => ValueRef::Opaque(ty, string(row, at)),
        Storage::Later { place } => later::standing(layout, row, place),
    }
}

/// char(n), without its padding. Codes of one character are common.
#[inline(always)]
fn padded_text(b: &[u8]) -> &str {
    match b {
        [b' '] => "",
        [_] => text(b),
        _ => text(trimmed(b)),
    }
}

#[inline(never)]
fn wide_text<'a>(layout: &Layout, row: &'a [u8], c: &ColumnLayout) -> &'a str {
    // No two columns lie at one place.
    let column = layout.columns.iter().position(|other| other.offset == c.offset).unwrap_or_default();
    let all = u64::from_le_bytes(fixed(row, layout.char_area as usize)) as usize;
    let all = row.get(all..).unwrap_or(&[]);
    let (from, len) = wide_part(layout, all, column);
    text(all.get(from..from + len).unwrap_or(&[]))
}

/// The bytes of a string of a row that stands alone (R1).
#[inline]
fn string(row: &[u8], at: usize) -> &[u8] {
    let (from, len) = match string_at(row, at) {
        StringAt::Inline(from, len) => (from, len),
        StringAt::Slot(from, len) => (from as usize, len),
    };
    row.get(from..from.saturating_add(len)).unwrap_or(&[])
}

/// Whether a row's bytes stand alone as they are: no string lies in another slot.
#[inline]
pub(super) fn stands_alone(layout: &Layout, row: &[u8]) -> bool {
    !Layout::is_wide(row) && first_outside(layout, row).is_none() && !later::is_named(layout, row)
}

/// Which string head of a row's is the first that names another slot.
#[inline]
fn first_outside(layout: &Layout, row: &[u8]) -> Option<usize> {
    let is_outside = |at: &u16| u32::from_le_bytes(fixed(row, *at as usize)) as usize > INLINE;
    layout.strings.iter().position(is_outside)
}

/// Whether the values of some columns may lie in other slots, whatever the row (char(n) aside, see
/// [`Layout::is_wide`]).
pub(super) fn has_strings(layout: &Layout) -> bool {
    !layout.strings.is_empty() || !layout.later.is_empty()
}

/// Makes the row at `start` of `memory`, which ends with it, stand alone (R1): its strings are appended.
pub(super) fn make_alone(connection: &Connection, layout: &Layout, start: usize, memory: &mut Vec<u8>) {
    let put = |memory: &mut Vec<u8>, at: usize, oid: u64, len: usize| {
        let offset = (memory.len() - start) as u64;
        connection.read_string(oid, len, memory);
        memory[start + at..start + at + 8].copy_from_slice(&offset.to_le_bytes());
    };
    if let Some((slot, len)) = ondol_engine::row::wide_of(layout, &memory[start..]) {
        put(memory, layout.char_area as usize, slot, len);
    }
    let first = first_outside(layout, &memory[start..]).unwrap_or(layout.strings.len());
    for at in layout.strings[first..].iter().map(|at| *at as usize) {
        if let StringAt::Slot(oid, len) = string_at(&memory[start..], at) {
            put(memory, at + 8, oid, len);
        }
    }
    let mut values = vec![];
    let mut read = |slot, len, out: &mut Vec<u8>| connection.read_string(slot, len, out);
    if later::read(layout, &memory[start..], &mut read, &mut values).is_some() {
        let string = memory.len();
        memory.extend_from_slice(&values);
        for (oid, len, at) in later::far(&values) {
            put(memory, string - start + at, oid, len);
        }
        later::name(layout, &mut memory[start..], Some(((string - start) as u64, values.len())))
    }
}

/// A buffer of rows.
#[derive(Default)]
pub struct RowBuffer {
    /// Set while the rows are a table's (R1).
    table: Option<Arc<Table>>,
    /// The table's rows, which use the bytes up to the last one's end; those behind are room, zeroed once and
    /// never again.
    raw: Vec<u8>,
    /// Where each of the table's rows ends.
    ends: Vec<usize>,
    width: usize,
    datums: Vec<Datum>,
    /// What the datums name.
    bytes: Vec<u8>,
    len: usize,
}

impl RowBuffer {
    pub fn new() -> RowBuffer {
        RowBuffer::default()
    }
    #[inline]
    pub fn clear(&mut self) {
        self.datums.clear();
        self.bytes.clear();
        self.ends.clear();
        self.len = 0;
    }
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Bytes in use, for callers that bound their buffers.
    pub fn bytes(&self) -> usize {
        self.used() + self.bytes.len() + size_of_val(&self.datums[..])
    }
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub fn row(&self, n: usize) -> RowView<'_> {
        assert!(n < self.len, "row {n} of {}", self.len);
        match &self.table {
            Some(table) => {
                let from = if n == 0 { 0 } else { self.ends[n - 1] };
                RowView(Shape::Raw { table, bytes: &self.raw[from..self.ends[n]] })
            }
            None => RowView(Shape::Values {
                values: &self.datums[n * self.width..(n + 1) * self.width],
                memory: &self.bytes,
            }),
        }
    }
    pub fn iter(&self) -> impl Iterator<Item = RowView<'_>> {
        (0..self.len).map(|n| self.row(n))
    }
    pub fn get(&self, row: usize, column: usize) -> ValueRef<'_> {
        self.row(row).get(column)
    }
    pub fn get_i64(&self, row: usize, column: usize) -> Option<i64> {
        self.row(row).get_i64(column)
    }
    pub fn get_f64(&self, row: usize, column: usize) -> Option<f64> {
        self.row(row).get_f64(column)
    }
    pub fn get_bool(&self, row: usize, column: usize) -> Option<bool> {
        self.row(row).get_bool(column)
    }
    pub fn get_str(&self, row: usize, column: usize) -> Option<&str> {
        self.row(row).get_str(column)
    }
    pub fn get_bytes(&self, row: usize, column: usize) -> Option<&[u8]> {
        self.row(row).get_bytes(column)
    }
    /// Appends a row of values.
    pub fn push(&mut self, values: &[ValueRef<'_>]) -> SqlResult<()> {
        self.begin(values.len())?;
        for v in values {
            let d = Datum::of(*v, &mut self.bytes);
            self.datums.push(d);
        }
        self.len += 1;
        Ok(())
    }
    /// Bytes of `raw` that rows are in.
    #[inline(always)]
    fn used(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }
    /// The bytes of a table's rows, with room for one more of the layout's row size, and where that begins;
    /// `None` after rows of another shape.
    #[inline(always)]
    pub(super) fn room(&mut self, table: &Arc<Table>, row_size: usize) -> Option<(&mut Vec<u8>, usize)> {
        if !self.table.as_ref().is_some_and(|t| Arc::ptr_eq(t, table)) {
            self.turn(table)?
        }
        let from = self.used();
        if self.raw.len() < from + row_size {
            self.grow(from + row_size)
        }
        Some((&mut self.raw, from))
    }
    /// Forgets all rows; then the bytes of a table's rows, with room for a first one of the layout's row
    /// size.
    #[inline(always)]
    pub(super) fn fresh(&mut self, table: &Arc<Table>, row_size: usize) -> &mut Vec<u8> {
        self.clear();
        if !self.table.as_ref().is_some_and(|t| Arc::ptr_eq(t, table)) {
            self.table = Some(table.clone())
        }
        if self.raw.len() < row_size {
            self.grow(row_size)
        }
        &mut self.raw
    }
    #[cold]
    fn turn(&mut self, table: &Arc<Table>) -> Option<()> {
        if self.len > 0 {
            return None;
        }
        self.table = Some(table.clone());
        Some(())
    }
    #[cold]
    fn grow(&mut self, len: usize) {
        self.raw.resize(len, 0)
    }
    /// Keeps the row that was put into the room, and ends there.
    #[inline(always)]
    pub(super) fn keep(&mut self, end: usize) {
        self.ends.push(end);
        self.len += 1;
    }
    fn begin(&mut self, width: usize) -> SqlResult<()> {
        if self.len == 0 {
            self.table = None;
            self.width = width;
        } else if self.table.is_some() || self.width != width {
            return Err(SqlError::new(
                sqlstate::INTERNAL_ERROR,
                format!("a row of {width} values follows rows of another shape"),
            ));
        }
        Ok(())
    }
}

impl Sink for RowBuffer {
    #[inline]
    fn row(&mut self, row: &RowView<'_>) -> SqlResult<bool> {
        match row.0 {
            Shape::Raw { table, bytes } => {
                if !self.table.as_ref().is_some_and(|t| Arc::ptr_eq(t, table)) && self.turn(table).is_none() {
                    let values: Vec<ValueRef<'_>> = row.values().collect();
                    return self.push(&values).map(|()| true);
                }
                let (from, end) = (self.used(), self.used() + bytes.len());
                if self.raw.len() < end {
                    self.grow(end)
                }
                self.raw[from..end].copy_from_slice(bytes);
                self.ends.push(end);
            }
            Shape::Values { values, memory } => {
                self.begin(values.len())?;
                for d in values {
                    let d = d.moved(memory, &mut self.bytes);
                    self.datums.push(d);
                }
            }
        }
        self.len += 1;
        Ok(true)
    }
    #[inline]
    fn rows(&mut self) -> Option<&mut RowBuffer> {
        Some(self)
    }
}

/// Makes the row at `row` of `raw`, the last there, stand alone (R1), within the statement that read it;
/// gives its end.
#[inline(always)]
pub(super) fn stand(
    connection: &Connection,
    table: &Table,
    raw: &mut Vec<u8>,
    row: std::ops::Range<usize>,
    has_strings: bool,
) -> usize {
    if !has_strings && raw.get(row.start).is_some_and(|b| b & WIDE == 0) {
        return row.end;
    }
    append_strings(connection, &table.layout, raw, row)
}

#[inline(never)]
fn append_strings(
    connection: &Connection,
    layout: &Layout,
    raw: &mut Vec<u8>,
    row: std::ops::Range<usize>,
) -> usize {
    if stands_alone(layout, &raw[row.clone()]) {
        return row.end;
    }
    raw.truncate(row.end);
    make_alone(connection, layout, row.start, raw);
    raw.len()
}

/// The tag that values of a type have.
pub(super) fn tag_of(t: ondol_types::TypeId) -> Option<Tag> {
    Some(match t.class() {
        Class::None => return None,
        Class::Bool => Tag::Bool,
        Class::Int2 => Tag::Int2,
        Class::Int4 => Tag::Int4,
        Class::Int8 => Tag::Int8,
        Class::Float8 => Tag::Float8,
        Class::Numeric => Tag::Numeric,
        Class::Text => Tag::Text,
        Class::Bytea => Tag::Bytea,
        Class::Date => Tag::Date,
        Class::Timestamp => Tag::Timestamp,
        Class::Timestamptz => Tag::Timestamptz,
        Class::Opaque(_) => Tag::Opaque,
    })
}
