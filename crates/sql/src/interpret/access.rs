//! Reaching rows through indexes: the only part of the interpreter that knows how an index is asked.
//!
//! A lookup is four steps, each an opcode, so that a batch can do one step for all its lanes before the next and let
//! the cache misses of different lanes overlap:
//!
//! ```text
//! KeyPut      values -> key
//! KeyPrefetch key -> hash; the bucket is asked for
//! KeyProbe    bucket -> OIDs
//! RowPrefetch the first row is asked for
//! RowNext     the row as the statement sees it -> row buffer
//! ```
//! A point lookup (`Point`) is all of them in one, by a unique hash index of whole numbers.
//!
//! - **A1** What a lookup gathers are candidates: the code after `RowNext` compares the row's columns with the key
//!   (I4 of the index crate). `RangeNext` does it here, against the entry's own key, so that a row whose key moved
//!   within the range comes once.
use super::datum::{Datum, with_values};
use super::frame::{End, Frame, TableCursor};
use crate::code::Program;
use crate::code::operand::Edge;
use ondol_engine::layout::{StringAt, string_at};
use ondol_engine::{Connection, IndexKind, Layout, Oid, Storage, TableIndex};
use ondol_types::{SqlError, SqlResult, ValueRef, sqlstate};
use std::ops::Bound;
use std::sync::Arc;

#[cold]
fn no_index() -> SqlError {
    SqlError::new(sqlstate::INTERNAL_ERROR, "a cursor without an index is asked for a key")
}

/// False when a value is NULL: nothing equals it.
#[inline(never)]
pub(super) fn key_put(cursor: &mut TableCursor, values: &[Datum], memory: &[u8]) -> bool {
    cursor.key.clear();
    cursor.oids.clear();
    cursor.at = 0;
    let Some(index) = &cursor.index else { return false };
    if let ([value], [part]) = (values, &index.key.parts[..]) {
        if value.is_null() {
            return false;
        }
        ondol_types::key::encode(value.value(memory), part.1, part.2, part.3, part.4, &mut cursor.key);
        return true;
    }
    if values.iter().any(|d| d.is_null()) {
        return false;
    }
    with_values(values, memory, |v| index.key.encode(v, &mut cursor.key));
    true
}

#[inline]
pub(super) fn key_prefetch(cursor: &mut TableCursor) {
    if let Some(h) = cursor.index.as_ref().and_then(|i| i.index.as_hash()) {
        cursor.aim = h.aim(ondol_index::hash::hash_key(&cursor.key));
    }
}

pub(super) fn key_probe(connection: &Connection, cursor: &mut TableCursor) -> SqlResult<()> {
    let Some(index) = &cursor.index else { return Err(no_index()) };
    let oids = &mut cursor.oids;
    oids.clear();
    cursor.at = 0;
    match index.index.as_hash() {
        Some(h) if !connection.is_serializable() => {
            let guard = connection.pin();
            h.probe_at(&guard, cursor.aim, &mut |oid| {
                oids.push(oid);
                true
            });
        }
        _ => connection.lookup(index, &cursor.key, oids)?,
    }
    // A hash index may name a row once for each of its versions' keys that share a tag.
    if oids.len() > 1 && index.def.kind == IndexKind::Hash {
        oids.sort_unstable();
        oids.dedup();
    }
    Ok(())
}

/// Looks for the row of a point lookup; false when there is none that the statement sees. `ahead` as for [`Connection::find`].
#[inline]
pub(super) fn point(
    connection: &Connection,
    cursor: &mut TableCursor,
    values: &[Datum],
    memory: &mut [u8],
    ahead: Oid,
) -> SqlResult<bool> {
    let Some(index) = &cursor.index else { return Err(no_index()) };
    let Some(point) = &index.point else { return Err(no_index()) };
    if values.iter().any(|d| d.is_null()) {
        return Ok(false);
    }
    let row = &mut memory[cursor.from..cursor.to];
    let number = |i: usize| values.get(i).map_or(0, |d: &Datum| d.as_int());
    let found = if connection.is_serializable() {
        // All of them are numbers: no value's bytes are in the memory.
        cursor.key.clear();
        with_values(values, &[], |v| index.key.encode(v, &mut cursor.key));
        connection.find_remembered(index, &cursor.key, number, row)?
    } else {
        connection.find(&connection.pin(), point, point.aim(number), ahead, number, row)
    };
    cursor.oid = found.unwrap_or_default();
    Ok(found.is_some())
}

#[inline]
pub(super) fn row_prefetch(connection: &Connection, cursor: &TableCursor) {
    if let Some(oid) = cursor.oids.first() {
        connection.prefetch(*oid)
    }
}

/// The key bytes just after everything that begins with `key`; empty when there is no such key.
fn successor(key: &mut Vec<u8>) {
    while let Some(last) = key.pop() {
        if last != u8::MAX {
            key.push(last + 1);
            return;
        }
    }
}

fn put_end(index: &TableIndex, values: &[Datum], memory: &[u8], edge: Edge, key: &mut Vec<u8>) -> End {
    key.clear();
    with_values(values, memory, |v| index.key.encode(v, key));
    if edge == Edge::After {
        successor(key);
    }
    if key.is_empty() { End::Open } else { End::At }
}

pub(super) fn range_low(
    cursor: &mut TableCursor,
    index: &TableIndex,
    values: &[Datum],
    memory: &[u8],
    edge: Edge,
) {
    cursor.low_end = put_end(index, values, memory, edge, &mut cursor.low);
}

pub(super) fn range_high(
    cursor: &mut TableCursor,
    index: &TableIndex,
    values: &[Datum],
    memory: &[u8],
    edge: Edge,
) {
    cursor.high_end = put_end(index, values, memory, edge, &mut cursor.high);
}

pub(super) fn range_start(
    connection: &Connection,
    cursor: &mut TableCursor,
    index: &Arc<TableIndex>,
    backward: bool,
) -> SqlResult<()> {
    let low = if cursor.low_end == End::Open { Bound::Unbounded } else { Bound::Included(&cursor.low[..]) };
    let high =
        if cursor.high_end == End::Open { Bound::Unbounded } else { Bound::Excluded(&cursor.high[..]) };
    cursor.range.seek(connection, index, low, high, backward)
}

/// Reads on until a row is visible and has the entry's key; false at the end.
pub(super) fn range_next(
    connection: &Connection,
    frame: &mut Frame,
    program: &Program,
    number: usize,
    scratch: &mut Vec<u8>,
) -> SqlResult<bool> {
    let Some(index) = program.index_of(number as u16) else { return Err(no_index()) };
    let table = program.table_of(number as u16);
    let cursor = &mut frame.cursors[number];
    while let Some(oid) = cursor.range.next(connection)? {
        let (from, to) = (cursor.from, cursor.to);
        if !connection.read(table, oid, &mut frame.memory[from..to]) {
            continue;
        }
        scratch.clear();
        row_key(connection, index, &table.layout, &mut frame.memory, from..to, scratch);
        if *scratch == cursor.range.key {
            cursor.oid = oid;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Appends the normalised key that a row has in an index. Strings pass through the end of `memory`.
fn row_key(
    connection: &Connection,
    index: &TableIndex,
    layout: &Layout,
    memory: &mut Vec<u8>,
    row: std::ops::Range<usize>,
    out: &mut Vec<u8>,
) {
    let mark = memory.len();
    for (column, ty, desc, nulls_first, not_null) in &index.key.parts {
        let d = column_value(connection, layout, memory, row.clone(), *column);
        ondol_types::key::encode(d.value(memory), *ty, *desc, *nulls_first, *not_null, out);
    }
    memory.truncate(mark);
}

/// A column of a row that lies in `memory`; a string in a slot of its own is appended there.
pub(super) fn column_value(
    connection: &Connection,
    layout: &Layout,
    memory: &mut Vec<u8>,
    row: std::ops::Range<usize>,
    column: usize,
) -> Datum {
    use super::datum::Tag;
    use super::rows::fixed;
    let Some(c) = layout.columns.get(column) else { return Datum::NULL };
    if layout.is_null(&memory[row.clone()], column) {
        return Datum::NULL;
    }
    let at = row.start + c.offset as usize;
    match c.storage {
        Storage::Bool => Datum::bool(memory[at] != 0),
        Storage::Int2 => Datum::number(Tag::Int2, i16::from_le_bytes(fixed(memory, at)).into()),
        Storage::Int4 => Datum::number(Tag::Int4, i32::from_le_bytes(fixed(memory, at)).into()),
        Storage::Int8 => Datum::number(Tag::Int8, i64::from_le_bytes(fixed(memory, at))),
        Storage::Float8 => Datum::float(f64::from_le_bytes(fixed(memory, at))),
        Storage::Date => Datum::number(Tag::Date, i32::from_le_bytes(fixed(memory, at)).into()),
        Storage::Timestamp => Datum::number(Tag::Timestamp, i64::from_le_bytes(fixed(memory, at))),
        Storage::Timestamptz => Datum::number(Tag::Timestamptz, i64::from_le_bytes(fixed(memory, at))),
        Storage::Char { .. } => char_value(connection, layout, memory, row, column),
        Storage::Text => string_value(connection, memory, at, Tag::Text),
        Storage::Bytea => string_value(connection, memory, at, Tag::Bytea),
        Storage::Numeric => string_value(connection, memory, at, Tag::Numeric),
    }
}

/// The string whose head is at `at`.
#[inline]
pub(super) fn string_value(
    connection: &Connection,
    memory: &mut Vec<u8>,
    at: usize,
    tag: super::datum::Tag,
) -> Datum {
    match string_at(memory, at) {
        StringAt::Inline(from, len) => Datum::string(tag, from, len),
        StringAt::Slot(oid, len) => {
            let from = memory.len();
            connection.read_string(oid, len, memory);
            Datum::string(tag, from, memory.len() - from)
        }
    }
}

/// A char(n) column that is not NULL.
#[inline]
pub(super) fn char_value(
    connection: &Connection,
    layout: &Layout,
    memory: &mut Vec<u8>,
    row: std::ops::Range<usize>,
    column: usize,
) -> Datum {
    use super::datum::Tag;
    let Storage::Char { width } = layout.columns[column].storage else { return Datum::NULL };
    let at = row.start + layout.columns[column].offset as usize;
    if let Some((oid, len)) = ondol_engine::row::wide_of(layout, &memory[row.clone()]) {
        let start = memory.len();
        connection.read_string(oid.0, len, memory);
        let (from, len) = super::rows::wide_part(layout, &memory[start..], column);
        return Datum::string(Tag::Text, start + from, len);
    }
    let n = super::rows::trimmed(&memory[at..at + width as usize]).len();
    Datum::string(Tag::Text, at, n)
}

/// For `ValueRef`s that are needed as owned pairs.
pub(super) fn with_changes<R>(
    columns: &[u16],
    values: &[Datum],
    memory: &[u8],
    f: impl FnOnce(&[(usize, ValueRef<'_>)]) -> R,
) -> R {
    if let ([c], [d]) = (columns, values) {
        return f(&[(*c as usize, d.value(memory))]);
    }
    const FEW: usize = 8;
    if columns.len() <= FEW {
        let mut few = [(0, ValueRef::Null); FEW];
        for ((slot, c), d) in few.iter_mut().zip(columns).zip(values) {
            *slot = (*c as usize, d.value(memory));
        }
        f(&few[..columns.len()])
    } else {
        let all: Vec<_> = columns.iter().zip(values).map(|(c, d)| (*c as usize, d.value(memory))).collect();
        f(&all)
    }
}
