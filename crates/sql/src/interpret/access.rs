//! Reaching rows through indexes: the only part of the interpreter that knows how an index is asked.
//!
//! A lookup is four steps, each an opcode, so that a batch can do one step for all its lanes before the next
//! and let the cache misses of different lanes overlap:
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
//! - **A1** What a lookup gathers are candidates: the code after `RowNext` compares the row's columns with
//!   the key (index/I4). `RangeNext` does it here, against the entry's own key, so that a row whose key moved
//!   within the range comes once.
use super::datum::{Allowance, Datum, Tag, with_values};
use super::frame::{End, Frame, TableCursor};
use crate::code::Program;
use crate::code::operand::Edge;
use ondol_engine::layout::{StringAt, string_at};
use ondol_engine::{
    Connection, IndexKind, Layout, MOST_DIMENSIONS, Oid, Rect, Storage, TableIndex, WantedNeighbours,
};
use ondol_types::catalog::registered;
use ondol_types::coordinate::coordinate;
use ondol_types::{SqlError, SqlResult, TypeId, ValueRef, sqlstate};
use std::ops::Bound;
use std::sync::Arc;

#[cold]
fn no_index() -> SqlError {
    SqlError::new(sqlstate::INTERNAL_ERROR, "a cursor without an index is asked for a key")
}

/// Appends the key of the index's first columns, one for each value.
#[inline]
fn put_key(index: &TableIndex, values: &[Datum], memory: &[u8], key: &mut Vec<u8>) {
    for (d, part) in values.iter().zip(&index.key.parts) {
        ondol_types::key::encode(d.value(memory), part.1, part.2, part.3, part.4, key)
    }
}

/// False when a value is NULL: nothing equals it.
#[inline(never)]
pub(super) fn key_put(cursor: &mut TableCursor, values: &[Datum], memory: &[u8]) -> bool {
    cursor.key.clear();
    cursor.oids.clear();
    cursor.at = 0;
    let Some(index) = &cursor.index else { return false };
    if values.iter().any(|d| d.is_null()) {
        return false;
    }
    put_key(index, values, memory, &mut cursor.key);
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

pub(super) fn boxes_new(cursor: &mut TableCursor) {
    cursor.oids.clear();
    cursor.at = 0;
    (cursor.distinct, cursor.nodes) = (0, 0)
}

/// Gathers the rows that may lie in a box: its least values, then its greatest, NULL where it is open.
pub(super) fn box_probe(
    connection: &Connection,
    cursor: &mut TableCursor,
    values: &[Datum],
    memory: &[u8],
    allow: &mut Allowance,
) -> SqlResult<()> {
    let Some(index) = &cursor.index else { return Err(no_index()) };
    let within = rect(values, memory)?;
    let first = cursor.oids.is_empty();
    cursor.nodes += connection.search(index, &within, &mut cursor.search, &mut cursor.oids)?;
    // Boxes that lie upon each other give the same rows.
    if first {
        cursor.distinct = cursor.oids.len()
    } else if cursor.oids.len() > 2 * cursor.distinct {
        each_once(cursor)
    }
    gathered(&mut cursor.gathered, size_of_val(&cursor.oids[..]), allow)
}

/// Of what was gathered.
fn each_once(cursor: &mut TableCursor) {
    cursor.oids.sort_unstable();
    cursor.oids.dedup();
    cursor.distinct = cursor.oids.len()
}

/// Each row once, by where they lie.
pub(super) fn boxes_end(connection: &Connection, cursor: &mut TableCursor) {
    if cursor.oids.len() > cursor.distinct {
        each_once(cursor)
    }
    (0..AHEAD).for_each(|n| row_ahead(connection, cursor, n))
}

/// Which rows may be among some: a bit for each, and 31 that stand for none.
struct OidFilter {
    bits: Vec<u64>,
    shift: u32,
}

impl OidFilter {
    fn of(oids: &[Oid]) -> OidFilter {
        let log = (32 * oids.len()).next_power_of_two().ilog2().max(6);
        let mut filter = OidFilter { bits: vec![0; 1 << (log - 6)], shift: 64 - log };
        for oid in oids {
            let (word, bit) = filter.place(*oid);
            filter.bits[word] |= bit
        }
        filter
    }
    #[inline(always)]
    fn place(&self, oid: Oid) -> (usize, u64) {
        // Fibonacci hashing (Knuth, The Art of Computer Programming, 6.4).
        let n = oid.bits().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift;
        (n as usize / 64, 1 << (n % 64))
    }
    #[inline(always)]
    fn may_have(&self, oid: Oid) -> bool {
        let (word, bit) = self.place(oid);
        self.bits[word] & bit != 0
    }
}

/// Of the rows that `cursor` has gathered, leaves those that may lie in a box of the index of `other`.
pub(super) fn within(
    connection: &Connection,
    cursor: &mut TableCursor,
    other: &mut TableCursor,
    values: &[Datum],
    memory: &[u8],
    allow: &mut Allowance,
) -> SqlResult<()> {
    /// So few are read sooner than looked for in a box.
    const FEW: usize = 64;
    /// A row that is read costs as much as some twenty that are gathered.
    const TIMES: usize = 8;
    if cursor.oids.len() <= FEW {
        return Ok(());
    }
    let Some(index) = &other.index else { return Err(no_index()) };
    let within = rect(values, memory)?;
    other.oids.clear();
    let most = TIMES * cursor.oids.len();
    let is_whole = connection.search_beside(index, &within, most, &mut other.search, &mut other.oids)?;
    other.nodes = other.search.nodes();
    gathered(&mut other.gathered, size_of_val(&other.oids[..]), allow)?;
    if is_whole {
        let filter = OidFilter::of(&cursor.oids);
        other.oids.retain(|oid| filter.may_have(*oid));
        std::mem::swap(&mut cursor.oids, &mut other.oids);
        each_once(cursor)
    }
    (0..AHEAD).for_each(|n| row_ahead(connection, cursor, n));
    Ok(())
}

/// The statement is allowed what gathered rows take, and not what those before took.
fn gathered(before: &mut usize, bytes: usize, allow: &mut Allowance) -> SqlResult<()> {
    allow.give_back(std::mem::replace(before, bytes));
    allow.take(bytes)
}

/// A box: its least values, then its greatest, NULL where it is open.
fn rect(values: &[Datum], memory: &[u8]) -> SqlResult<Rect> {
    let (low, high) = values.split_at(values.len() / 2);
    let mut rect = Rect { low: [f64::MIN; MOST_DIMENSIONS], high: [f64::MAX; MOST_DIMENSIONS] };
    for (ends, values) in [(&mut rect.low, low), (&mut rect.high, high)] {
        for (end, value) in ends.iter_mut().zip(values).filter(|(_, v)| !v.is_null()) {
            *end = place(value, memory)?
        }
    }
    Ok(rect)
}

fn place(value: &Datum, memory: &[u8]) -> SqlResult<f64> {
    let none = || SqlError::new(sqlstate::INTERNAL_ERROR, "a value that is no coordinate");
    coordinate(value.value(memory)).ok_or_else(none)
}

/// Begins to look for the nearest rows in a box: its values, then a point, of which the columns in `counted`
/// count.
pub(super) fn near_start(
    cursor: &mut TableCursor,
    values: &[Datum],
    mut counted: u32,
    memory: &[u8],
) -> SqlResult<()> {
    let (sides, point) = values.split_at(values.len() / 3 * 2);
    let mut to = [0.0; MOST_DIMENSIONS];
    let counts = |n: usize| counted >> n & 1 == 1;
    let is_null = point.iter().enumerate().any(|(n, v)| counts(n) && v.is_null());
    for (_, (x, value)) in to.iter_mut().zip(point).enumerate().filter(|(n, _)| counts(*n) && !is_null) {
        *x = place(value, memory)?
    }
    if is_null {
        counted = 0
    }
    let is_bounded = sides.iter().any(|v| !v.is_null());
    let within = rect(sides, memory)?;
    cursor.nodes = 0;
    let neighbours = cursor.neighbours.get_or_insert_default();
    neighbours.start(WantedNeighbours { to, counted, within, is_bounded });
    Ok(())
}

/// Reads the next of the nearest rows; false when there is none.
pub(super) fn near_next(
    connection: &Connection,
    cursor: &mut TableCursor,
    memory: &mut [u8],
    allow: &mut Allowance,
) -> SqlResult<bool> {
    let (Some(index), Some(table)) = (&cursor.index, &cursor.table) else { return Err(no_index()) };
    let Some(neighbours) = &mut cursor.neighbours else { return Err(no_index()) };
    let row = &mut memory[cursor.from..cursor.to];
    let found = neighbours.next(connection, table, index, row)?;
    cursor.nodes += neighbours.take_nodes();
    gathered(&mut cursor.gathered, neighbours.memory_bytes(), allow)?;
    cursor.oid = found.unwrap_or_default();
    Ok(found.is_some())
}

/// Looks for the row of a point lookup; false when there is none that the statement sees. `ahead` as for
/// [`Connection::find`].
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
    if connection.may_see_twins() {
        return first_twin(connection, cursor, values, memory);
    }
    // Nothing is left to go on with, should the statement itself make a twin.
    cursor.at = usize::MAX;
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

/// [`point`] where several rows may have the key.
#[cold]
fn first_twin(
    connection: &Connection,
    cursor: &mut TableCursor,
    values: &[Datum],
    memory: &mut [u8],
) -> SqlResult<bool> {
    let Some(index) = &cursor.index else { return Err(no_index()) };
    // All of them are numbers: no value's bytes are in the memory.
    cursor.key.clear();
    with_values(values, &[], |v| index.key.encode(v, &mut cursor.key));
    key_prefetch(cursor);
    key_probe(connection, cursor)?;
    next_twin(connection, cursor, memory)
}

/// The next row that has the key which the cursor was asked for last (see `Op::Twin`); false when there is
/// none.
#[inline]
pub(super) fn twin(connection: &Connection, cursor: &mut TableCursor, memory: &mut [u8]) -> SqlResult<bool> {
    Ok(connection.may_see_twins() && next_twin(connection, cursor, memory)?)
}

#[cold]
fn next_twin(connection: &Connection, cursor: &mut TableCursor, memory: &mut [u8]) -> SqlResult<bool> {
    let (Some(index), Some(table)) = (&cursor.index, &cursor.table) else { return Err(no_index()) };
    let mut key = vec![];
    while let Some(oid) = cursor.oids.get(cursor.at).copied() {
        cursor.at += 1;
        let row = &mut memory[cursor.from..cursor.to];
        if !connection.read(table, oid, row) {
            continue;
        }
        key.clear();
        connection.row_key(index, row, &mut key);
        if key == cursor.key {
            cursor.oid = oid;
            return Ok(true);
        }
    }
    Ok(false)
}

#[inline]
pub(super) fn row_prefetch(connection: &Connection, cursor: &TableCursor) {
    if let Some(oid) = cursor.oids.first() {
        connection.prefetch(*oid)
    }
}

/// How many rows are under way to the cache while one is read.
pub(super) const AHEAD: usize = 8;

/// Asks for the row that the gathered OID number `n` names, if there are so many.
#[inline(always)]
pub(super) fn row_ahead(connection: &Connection, cursor: &TableCursor, n: usize) {
    if let Some(oid) = cursor.oids.get(n) {
        connection.prefetch_row(*oid, cursor.to - cursor.from)
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
    put_key(index, values, memory, key);
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

/// The range beside those kept before.
pub(super) fn range_keep(cursor: &mut TableCursor) {
    cursor.ranges.push([cursor.low.clone(), cursor.high.clone()])
}

/// Begins with the first of the ranges kept.
pub(super) fn ranges_start(
    connection: &Connection,
    cursor: &mut TableCursor,
    index: &Arc<TableIndex>,
    backward: bool,
) -> SqlResult<()> {
    apart(&mut cursor.ranges);
    if !backward {
        cursor.ranges.reverse()
    }
    cursor.backward = backward;
    if !next_range(connection, cursor, index)? {
        cursor.range.leave()
    }
    Ok(())
}

/// Ranges that overlap or touch become one; in the order of their keys.
fn apart(ranges: &mut Vec<[Vec<u8>; 2]>) {
    ranges.retain(|[low, high]| high.is_empty() || low < high);
    ranges.sort_unstable();
    ranges.dedup_by(|[low, high], [_, end]| {
        let meet = end.is_empty() || low <= end;
        if meet && !end.is_empty() && (high.is_empty() || high > end) {
            std::mem::swap(high, end)
        }
        meet
    })
}

/// Goes to the next of several ranges; false when there is none.
fn next_range(connection: &Connection, cursor: &mut TableCursor, index: &Arc<TableIndex>) -> SqlResult<bool> {
    let Some([low, high]) = cursor.ranges.pop() else { return Ok(false) };
    let end = if high.is_empty() { Bound::Unbounded } else { Bound::Excluded(&high[..]) };
    cursor.range.seek(connection, index, Bound::Included(&low), end, cursor.backward)?;
    Ok(true)
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
    loop {
        let Some(oid) = cursor.range.next(connection)? else {
            if next_range(connection, cursor, index)? {
                continue;
            }
            return Ok(false);
        };
        let (from, to) = (cursor.from, cursor.to);
        if !connection.read(table, oid, &mut frame.memory[from..to]) {
            continue;
        }
        scratch.clear();
        connection.row_key(index, &frame.memory[from..to], scratch);
        if *scratch == cursor.range.key {
            cursor.oid = oid;
            return Ok(true);
        }
    }
}

/// The string whose head is at `at`.
#[inline]
pub(super) fn string_value(connection: &Connection, memory: &mut Vec<u8>, at: usize, tag: Tag) -> Datum {
    match string_at(memory, at) {
        StringAt::Inline(from, len) => Datum::string(tag, from, len),
        StringAt::Slot(oid, len) => {
            let from = memory.len();
            connection.read_string(oid, len, memory);
            Datum::string(tag, from, memory.len() - from)
        }
    }
}

/// The value of a column of an opaque type that is not NULL.
pub(super) fn opaque_value(connection: &Connection, memory: &mut Vec<u8>, at: usize, ty: TypeId) -> Datum {
    let width = ty.form().and_then(|f| f.width).or_else(|| registered::stored_width(ty));
    match width {
        Some(width) => Datum::opaque(ty, at, width.into()),
        None => string_value(connection, memory, at, Tag::Opaque).with_type(ty),
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
    let Storage::Char { width } = layout.columns[column].storage else { return Datum::NULL };
    let at = row.start + layout.columns[column].offset as usize;
    if let Some((slot, len)) = ondol_engine::row::wide_of(layout, &memory[row.clone()]) {
        let start = memory.len();
        connection.read_string(slot, len, memory);
        let (from, len) = super::rows::wide_part(layout, &memory[start..], column);
        return Datum::string(Tag::Text, start + from, len);
    }
    let n = ondol_base::ascii::trimmed(&memory[at..at + width as usize]).len();
    Datum::string(Tag::Text, at, n)
}

/// A column that was added later.
pub(super) fn later_value(
    connection: &Connection,
    layout: &Layout,
    memory: &mut Vec<u8>,
    row: std::ops::Range<usize>,
    column: usize,
    scratch: &mut Vec<u8>,
) -> Datum {
    let Storage::Later { place } = layout.columns[column].storage else { return Datum::NULL };
    scratch.clear();
    let value = ondol_engine::later::column(layout, &memory[row], place, connection, scratch);
    Datum::of(value, memory)
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
