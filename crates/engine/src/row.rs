//! Typed values to row bytes and back, by a [`Layout`] (engine/layout/L1 to engine/layout/L7).
use crate::later;
use crate::layout::{ColumnLayout, INLINE, LIVE, Layout, Storage, StringAt, WIDE, string_at};
use ondol_base::oid::Oid;
use ondol_kernel::Strings;
use ondol_types::{Numeric, Packed, ValueRef};
use std::sync::Arc;

/// Puts a long value into the string heap; gives the bits by which the row names it.
pub type Put<'a> = dyn FnMut(&[u8]) -> ondol_kernel::Result<u64> + 'a;

/// Makes the whole row. Values are of the columns' types, modifiers applied.
pub fn encode(
    layout: &Layout,
    values: &[ValueRef<'_>],
    out: &mut Vec<u8>,
    put: &mut Put<'_>,
) -> ondol_kernel::Result<()> {
    out.clear();
    out.resize(layout.row_size, 0);
    encode_into(layout, values, out, put)
}

/// The same, into bytes that are all zero.
fn encode_into(
    layout: &Layout,
    values: &[ValueRef<'_>],
    out: &mut [u8],
    put: &mut Put<'_>,
) -> ondol_kernel::Result<()> {
    out[0] = LIVE;
    let wide = layout.char_columns.iter().any(|&c| too_wide(layout, c as usize, &values[c as usize]));
    for (i, v) in values.iter().enumerate() {
        set(layout, i, v, out, put)?
    }
    if wide {
        set_wide(layout, &|c| text(&values[c]), out, put)?
    }
    if !layout.later.is_empty() {
        later::set(layout, values, out, put)?
    }
    Ok(())
}

fn text<'a>(v: &'a ValueRef<'_>) -> Option<&'a str> {
    match v {
        ValueRef::Text(s) => Some(s.trim_end_matches(' ')),
        _ => None,
    }
}

fn too_wide(layout: &Layout, column: usize, v: &ValueRef<'_>) -> bool {
    match (layout.columns[column].storage, text(v)) {
        (Storage::Char { width }, Some(s)) => s.len() > width as usize,
        _ => false,
    }
}

/// engine/layout/L3: all char columns' values go to one string.
fn set_wide<'v>(
    layout: &Layout,
    value: &dyn Fn(usize) -> Option<&'v str>,
    row: &mut [u8],
    put: &mut Put<'_>,
) -> ondol_kernel::Result<()> {
    let mut all = vec![];
    for &c in &layout.char_columns {
        let s = value(c as usize).unwrap_or("");
        all.extend_from_slice(&(s.len() as u32).to_le_bytes());
        all.extend_from_slice(s.as_bytes());
        if let Storage::Char { width } = layout.columns[c as usize].storage {
            let at = layout.columns[c as usize].offset as usize;
            row[at..at + width as usize].fill(0);
        }
    }
    let slot = put(&all)?;
    let at = layout.char_area as usize;
    // The string's length is found by reading its own length word; the reference keeps it too.
    row[at..at + 8].copy_from_slice(&wide_head(slot, all.len()).to_le_bytes());
    row[0] |= WIDE;
    Ok(())
}

fn wide_head(slot: u64, len: usize) -> u64 {
    slot | (len.min(0xffff) as u64) << 48
}

fn set_null(layout: &Layout, column: usize, null: bool, row: &mut [u8]) {
    if let Some(b) = layout.columns[column].null_bit {
        let (byte, bit) = (b as usize / 8, b % 8);
        row[byte] = row[byte] & !(1 << bit) | (null as u8) << bit;
    }
}

/// Sets one column of a row (char columns: in the narrow form), but for those that were added later, which
/// are set together.
#[inline]
fn set(
    layout: &Layout,
    column: usize,
    v: &ValueRef<'_>,
    row: &mut [u8],
    put: &mut Put<'_>,
) -> ondol_kernel::Result<()> {
    let c = layout.columns[column];
    set_null(layout, column, v.is_null(), row);
    set_value(c.storage, v, row, c.offset as usize, put)
}

/// Puts a value to its place in a row.
#[inline]
pub(crate) fn set_value(
    storage: Storage,
    v: &ValueRef<'_>,
    row: &mut [u8],
    at: usize,
    put: &mut Put<'_>,
) -> ondol_kernel::Result<()> {
    match (storage, v) {
        (s, ValueRef::Null) => {
            let n = width(s);
            row[at..at + n].fill(0)
        }
        (Storage::Bool, ValueRef::Bool(b)) => row[at] = *b as u8,
        (Storage::Int2, ValueRef::Int2(x)) => number(row, at, x.to_le_bytes()),
        (Storage::Int4, ValueRef::Int4(x)) | (Storage::Date, ValueRef::Date(x)) => {
            number(row, at, x.to_le_bytes())
        }
        (Storage::Int8, ValueRef::Int8(x))
        | (Storage::Timestamp, ValueRef::Timestamp(x))
        | (Storage::Timestamptz, ValueRef::Timestamptz(x)) => number(row, at, x.to_le_bytes()),
        (Storage::Float8, ValueRef::Float8(x)) => number(row, at, x.to_le_bytes()),
        (Storage::Char { width }, ValueRef::Text(s)) => {
            let s = s.trim_end_matches(' ').as_bytes();
            let (n, width) = (s.len().min(width as usize), width as usize);
            row[at..at + n].copy_from_slice(&s[..n]);
            row[at + n..at + width].fill(b' ')
        }
        (Storage::Text, ValueRef::Text(s)) => set_string(row, at, s.as_bytes(), put)?,
        (Storage::Bytea, ValueRef::Bytea(b)) | (Storage::Numeric, ValueRef::Numeric(b)) => {
            set_string(row, at, b, put)?
        }
        (Storage::Numeric, ValueRef::Packed(p)) => set_string(row, at, p.encoded(&mut [0; _]), put)?,
        (Storage::Packed { scale }, ValueRef::Packed(_) | ValueRef::Numeric(_)) => match packed(v, scale) {
            Some(p) => number(row, at, p.word().to_le_bytes()),
            None => return Err(ondol_kernel::Error::Unfit),
        },
        (Storage::Fixed { width, .. }, ValueRef::Opaque(_, b)) if b.len() == usize::from(width) => {
            row[at..at + b.len()].copy_from_slice(b)
        }
        (Storage::Opaque { .. }, ValueRef::Opaque(_, b)) => set_string(row, at, b, put)?,
        (Storage::Later { .. }, _) => {}
        // engine/layout/L9: the number without the name.
        (Storage::Fixed { width, .. }, ValueRef::Opaque(_, b)) if b.len() > usize::from(width) => {
            row[at..at + usize::from(width)].copy_from_slice(&b[..usize::from(width)])
        }
        (storage, v) => unreachable!("a {v:?} for a column stored as {storage:?}"),
    }
    Ok(())
}

/// Puts a number to its place: as an array, since slices of several lengths become one call of a copy.
#[inline(always)]
fn number<const N: usize>(row: &mut [u8], at: usize, bytes: [u8; N]) {
    *row[at..].first_chunk_mut().expect("columns lie in the row") = bytes
}

/// The word of a numeric in a column of that scale; `None` where it was not brought to the column's type.
#[inline]
fn packed(v: &ValueRef<'_>, scale: u16) -> Option<Packed> {
    match v {
        ValueRef::Packed(p) => p.with_scale(scale),
        ValueRef::Numeric(b) => Packed::of_encoded(b, scale),
        _ => None,
    }
}

/// Bytes that a storage takes in the row.
pub fn width(s: Storage) -> usize {
    match s {
        Storage::Bool => 1,
        Storage::Int2 => 2,
        Storage::Int4 | Storage::Date => 4,
        Storage::Int8 | Storage::Float8 | Storage::Timestamp | Storage::Timestamptz => 8,
        Storage::Packed { .. } => 8,
        Storage::Char { width } => width as usize,
        Storage::Fixed { width, .. } => width.into(),
        Storage::Text | Storage::Bytea | Storage::Numeric | Storage::Opaque { .. } => 16,
        Storage::Later { .. } => 0,
    }
}

fn set_string(row: &mut [u8], at: usize, bytes: &[u8], put: &mut Put<'_>) -> ondol_kernel::Result<()> {
    row[at..at + 16].fill(0);
    row[at..at + 4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    if bytes.len() <= INLINE {
        row[at + 4..at + 4 + bytes.len()].copy_from_slice(bytes)
    } else {
        row[at + 4..at + 8].copy_from_slice(&bytes[..4]);
        row[at + 8..at + 16].copy_from_slice(&put(bytes)?.to_le_bytes())
    }
    Ok(())
}

/// The string slots that a row names: (bits of the OID, length).
pub fn strings_of(layout: &Layout, row: &[u8], strings: &dyn Strings, mut f: impl FnMut(u64, usize)) {
    for (i, c) in layout.columns.iter().enumerate() {
        if c.storage.is_string()
            && !layout.is_null(row, i)
            && let StringAt::Slot(slot, len) = string_at(row, c.offset as usize)
        {
            f(slot, len)
        }
    }
    if let Some((slot, len)) = wide_of(layout, row) {
        f(slot, len)
    }
    if !layout.later.is_empty() {
        later::slots_of(layout, row, strings, &mut f)
    }
}

/// Gives each string that a row names another slot; but for that of columns that were added later.
fn replace_strings(
    layout: &Layout,
    row: &mut [u8],
    mut f: impl FnMut(u64) -> ondol_kernel::Result<u64>,
) -> ondol_kernel::Result<()> {
    for (i, c) in layout.columns.iter().enumerate() {
        let at = c.offset as usize;
        if c.storage.is_string()
            && !layout.is_null(row, i)
            && let StringAt::Slot(slot, _) = string_at(row, at)
        {
            row[at + 8..at + 16].copy_from_slice(&f(slot)?.to_le_bytes())
        }
    }
    if let Some((slot, len)) = wide_of(layout, row) {
        let at = layout.char_area as usize;
        row[at..at + 8].copy_from_slice(&wide_head(f(slot)?, len).to_le_bytes())
    }
    Ok(())
}

/// Rows of a table, made without its database: to be inserted by [`crate::Connection::insert_rows`]. Long
/// strings wait beside them, and the rows name them by number, from 1 on.
pub struct RowBatch {
    layout: Arc<Layout>,
    pub(crate) bytes: Vec<u8>,
    strings: Vec<u8>,
    ends: Vec<usize>,
}

impl RowBatch {
    /// With room for about `bytes` of rows.
    pub fn new(layout: Arc<Layout>, bytes: usize) -> RowBatch {
        RowBatch { layout, bytes: Vec::with_capacity(bytes), strings: vec![], ends: vec![] }
    }
    pub fn len(&self) -> usize {
        self.bytes.len() / self.layout.row_size
    }
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
    /// Bytes of memory that they take.
    pub fn memory(&self) -> usize {
        self.bytes.capacity() + self.strings.capacity() + self.ends.capacity() * size_of::<usize>()
    }
    /// Adds a row: a value for each column, of its type (modifiers applied). False, and nothing is added,
    /// where a value is NULL and may not be, or a numeric is none of its column's type.
    pub fn push(&mut self, values: &[ValueRef<'_>]) -> bool {
        let misses = |(v, c): (&ValueRef<'_>, &ColumnLayout)| v.is_null() && c.not_null;
        if values.iter().zip(&self.layout.columns).any(misses) {
            return false;
        }
        let before = self.counts();
        let start = self.bytes.len();
        self.bytes.resize(start + self.layout.row_size, 0);
        let (strings, ends) = (&mut self.strings, &mut self.ends);
        let put = &mut |b: &[u8]| {
            strings.extend_from_slice(b);
            ends.push(strings.len());
            Ok(ends.len() as u64)
        };
        let done = encode_into(&self.layout, values, &mut self.bytes[start..], put);
        if done.is_err() {
            self.truncate(before)
        }
        done.is_ok()
    }
    /// Adds rows whose columns are all zero, or empty, to be set column by column; gives the number of the
    /// first.
    pub fn add_zeros(&mut self, count: usize) -> usize {
        let first = self.len();
        self.bytes.resize((first + count) * self.layout.row_size, 0);
        self.bytes[first * self.layout.row_size..]
            .chunks_exact_mut(self.layout.row_size)
            .for_each(|row| row[0] = LIVE);
        first
    }
    /// The places of a column's value in rows from `first` on, each of this many bytes.
    fn places(&mut self, column: usize, first: usize) -> impl Iterator<Item = &mut [u8]> {
        let (c, size) = (self.layout.columns[column], self.layout.row_size);
        let (at, width) = (c.offset as usize, width(c.storage));
        self.bytes[first * size..].chunks_exact_mut(size).map(move |row| &mut row[at..at + width])
    }
    /// Sets a column that is stored in N bytes, little-endian, in rows from `first` on that were added as
    /// zeros. False, and nothing is set, where it is not.
    pub fn set_numbers<const N: usize>(
        &mut self,
        column: usize,
        first: usize,
        values: impl Iterator<Item = [u8; N]>,
    ) -> bool {
        let storage = self.layout.columns[column].storage;
        let is_number =
            !matches!(storage, Storage::Char { .. } | Storage::Fixed { .. } | Storage::Packed { .. });
        if width(storage) != N || !is_number {
            return false;
        }
        self.places(column, first).zip(values).for_each(|(place, value)| place.copy_from_slice(&value));
        true
    }
    /// The same for texts, bytes and encoded numerics, NULL among them as nothing. False where a char value
    /// does not fit its column's narrow form (engine/layout/L3), or a numeric is none of the column's type;
    /// what was set then means nothing.
    pub fn set_strings<'v>(
        &mut self,
        column: usize,
        first: usize,
        mut values: impl Iterator<Item = &'v [u8]>,
    ) -> bool {
        let (c, size) = (self.layout.columns[column], self.layout.row_size);
        let (at, width) = (c.offset as usize, width(c.storage));
        if let Storage::Char { .. } = c.storage {
            return self.places(column, first).zip(values).all(|(place, value)| {
                let fits = value.len() <= width;
                if fits {
                    place[..value.len()].copy_from_slice(value);
                    place[value.len()..].fill(b' ')
                }
                fits
            });
        }
        if let Storage::Packed { scale } = c.storage {
            return self.places(column, first).zip(values).all(|(place, value)| {
                // NULL is nothing here, and zero there.
                let word = match value {
                    [] => Some(0),
                    _ => Packed::of_encoded(value, scale).map(Packed::word),
                };
                word.is_some_and(|w| {
                    place.copy_from_slice(&w.to_le_bytes());
                    true
                })
            });
        }
        let (strings, ends) = (&mut self.strings, &mut self.ends);
        let mut put = |b: &[u8]| {
            strings.extend_from_slice(b);
            ends.push(strings.len());
            Ok(ends.len() as u64)
        };
        let is_string = c.storage.is_string();
        let rows = self.bytes[first * size..].chunks_exact_mut(size);
        is_string && rows.zip(&mut values).all(|(row, value)| set_string(row, at, value, &mut put).is_ok())
    }
    /// Makes a value NULL. False where it may not be.
    pub fn set_null(&mut self, column: usize, row: usize) -> bool {
        let c = self.layout.columns[column];
        let row = &mut self.bytes[row * self.layout.row_size..][..self.layout.row_size];
        set_null(&self.layout, column, true, row);
        row[c.offset as usize..][..width(c.storage)].fill(0);
        c.null_bit.is_some() && !c.not_null
    }
    /// Sets a value of a row that was added as zeros, of the column's type (modifiers applied). False where
    /// it may not be NULL, is a char value that does not fit the narrow form (engine/layout/L3), or of a
    /// column that was added later.
    pub fn set(&mut self, column: usize, row: usize, value: &ValueRef<'_>) -> bool {
        if value.is_null() {
            return self.set_null(column, row);
        }
        let is_later = matches!(self.layout.columns[column].storage, Storage::Later { .. });
        if is_later || too_wide(&self.layout, column, value) {
            return false;
        }
        let (strings, ends) = (&mut self.strings, &mut self.ends);
        let put = &mut |b: &[u8]| {
            strings.extend_from_slice(b);
            ends.push(strings.len());
            Ok(ends.len() as u64)
        };
        let row = &mut self.bytes[row * self.layout.row_size..][..self.layout.row_size];
        set(&self.layout, column, value, row, put).is_ok()
    }
    /// Bytes of the rows and of their strings.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.strings.len()
    }
    /// Leaves out all rows but the first `rows`, whose strings were the first `strings` then.
    pub fn truncate(&mut self, (rows, strings): (usize, usize)) {
        self.bytes.truncate(rows * self.layout.row_size);
        self.ends.truncate(strings);
        self.strings.truncate(self.ends.last().copied().unwrap_or(0))
    }
    /// How many rows and strings there are, for [`RowBatch::truncate`].
    pub fn counts(&self) -> (usize, usize) {
        (self.len(), self.ends.len())
    }
    pub fn clear(&mut self) {
        self.truncate((0, 0))
    }
    pub(crate) fn has_strings(&self) -> bool {
        !self.ends.is_empty()
    }
    /// Gives the strings of row `n` their places.
    pub(crate) fn place_strings(&mut self, n: usize, put: &mut Put<'_>) -> ondol_kernel::Result<()> {
        let size = self.layout.row_size;
        let (strings, ends) = (&self.strings, &self.ends);
        let string = |number: u64| {
            let i = number as usize - 1;
            &strings[if i == 0 { 0 } else { ends[i - 1] }..ends[i]]
        };
        let row = &mut self.bytes[n * size..][..size];
        replace_strings(&self.layout, row, |number| put(string(number)))?;
        let (mut values, mut read) = (vec![], |n, _, out: &mut Vec<u8>| out.extend_from_slice(string(n)));
        if let Some((number, len)) = later::read(&self.layout, row, &mut read, &mut values) {
            for (number, _, at) in later::far(string(number)) {
                values[at..at + 8].copy_from_slice(&put(string(number))?.to_le_bytes())
            }
            later::name(&self.layout, row, Some((put(&values)?, len)))
        }
        Ok(())
    }
}

/// The string that holds a wide row's char columns.
pub fn wide_of(layout: &Layout, row: &[u8]) -> Option<(u64, usize)> {
    Layout::is_wide(row).then(|| {
        let at = layout.char_area as usize;
        let w = u64::from_le_bytes(row[at..at + 8].try_into().expect("eight bytes"));
        (w & Oid::MASK, (w >> 48) as usize)
    })
}

/// Makes `new` of `old` with some columns changed; `dropped` is told the string slots that the new row names
/// no more.
pub fn change(
    layout: &Layout,
    old: &[u8],
    changes: &[(usize, ValueRef<'_>)],
    new: &mut Vec<u8>,
    strings: &dyn Strings,
    put: &mut Put<'_>,
    dropped: &mut Vec<(u64, usize)>,
) -> ondol_kernel::Result<()> {
    new.clear();
    new.extend_from_slice(old);
    let chars = changes.iter().any(|(c, _)| matches!(layout.columns[*c].storage, Storage::Char { .. }));
    // Leaving or entering the wide form touches all char columns.
    let rewide = chars && (Layout::is_wide(old) || changes.iter().any(|(c, v)| too_wide(layout, *c, v)));
    let mut kept: Vec<Option<String>> = vec![];
    if rewide {
        for &c in &layout.char_columns {
            let v = match changes.iter().rev().find(|(x, _)| *x == c as usize) {
                Some((_, v)) => text(v).map(str::to_string),
                None => {
                    let mut scratch = vec![];
                    match column(layout, old, c as usize, strings, &mut scratch) {
                        ValueRef::Text(s) => Some(s.to_string()),
                        _ => None,
                    }
                }
            };
            kept.push(v)
        }
        dropped.extend(wide_of(layout, old));
        new[0] &= !WIDE;
        let at = layout.char_area as usize;
        new[at..at + 8].fill(0);
    }
    for (c, v) in changes {
        let at = layout.columns[*c].offset as usize;
        if layout.columns[*c].storage.is_string()
            && !layout.is_null(old, *c)
            && let StringAt::Slot(slot, len) = string_at(old, at)
        {
            dropped.push((slot, len))
        }
        set(layout, *c, v, new, put)?
    }
    let is_later = |(c, _): &(usize, _)| matches!(layout.columns[*c].storage, Storage::Later { .. });
    if !layout.later.is_empty() && changes.iter().any(is_later) {
        later::change(layout, old, changes, new, strings, put, dropped)?
    }
    if rewide {
        let value = |c: usize| {
            let i = layout.char_columns.iter().position(|x| *x as usize == c)?;
            kept[i].as_deref()
        };
        let wide = layout.char_columns.iter().any(|&c| {
            let v = value(c as usize).map_or(ValueRef::Null, ValueRef::Text);
            too_wide(layout, c as usize, &v)
        });
        if wide {
            set_wide(layout, &value, new, put)?
        } else {
            for &c in &layout.char_columns {
                let v = value(c as usize).map_or(ValueRef::Null, ValueRef::Text);
                set(layout, c as usize, &v, new, put)?
            }
        }
    }
    Ok(())
}

/// A column's value; strings in slots are read into `scratch`. Bytes that cannot be what they should (damage,
/// or a version that is going) give NULL or an empty string, never a panic.
pub fn column<'a>(
    layout: &Layout,
    row: &'a [u8],
    i: usize,
    strings: &dyn Strings,
    scratch: &'a mut Vec<u8>,
) -> ValueRef<'a> {
    if layout.is_null(row, i) {
        return ValueRef::Null;
    }
    let c = layout.columns[i];
    let at = c.offset as usize;
    macro_rules! number {
        ($t:ty) => {
            <$t>::from_le_bytes(row[at..at + size_of::<$t>()].try_into().expect("of that size"))
        };
    }
    match c.storage {
        Storage::Bool => ValueRef::Bool(row[at] != 0),
        Storage::Int2 => ValueRef::Int2(number!(i16)),
        Storage::Int4 => ValueRef::Int4(number!(i32)),
        Storage::Int8 => ValueRef::Int8(number!(i64)),
        Storage::Float8 => ValueRef::Float8(number!(f64)),
        Storage::Date => ValueRef::Date(number!(i32)),
        Storage::Timestamp => ValueRef::Timestamp(number!(i64)),
        Storage::Timestamptz => ValueRef::Timestamptz(number!(i64)),
        Storage::Char { width } => {
            let bytes = match wide_of(layout, row) {
                Some((slot, len)) => {
                    let index = layout.char_columns.iter().position(|x| *x as usize == i).unwrap_or(0);
                    strings.string(slot, len, scratch);
                    wide_part(scratch, index)
                }
                None => {
                    let b = &row[at..at + width as usize];
                    let n = b.iter().rposition(|x| *x != b' ').map_or(0, |p| p + 1);
                    &b[..n]
                }
            };
            ValueRef::Text(std::str::from_utf8(bytes).unwrap_or(""))
        }
        Storage::Text => ValueRef::Text(std::str::from_utf8(bytes(row, at, strings, scratch)).unwrap_or("")),
        Storage::Bytea => ValueRef::Bytea(bytes(row, at, strings, scratch)),
        Storage::Numeric => ValueRef::Numeric(bytes(row, at, strings, scratch)),
        Storage::Packed { scale } => ValueRef::Packed(Packed::new(number!(i64), scale)),
        Storage::Fixed { ty, width } => ValueRef::Opaque(ty, &row[at..at + usize::from(width)]),
        Storage::Opaque { ty } => ValueRef::Opaque(ty, bytes(row, at, strings, scratch)),
        Storage::Later { place } => later::column(layout, row, place, strings, scratch),
    }
}

/// The char value number `index` of a wide row's string.
pub fn wide_part(all: &[u8], index: usize) -> &[u8] {
    let mut rest = all;
    for k in 0..=index {
        let Some((n, after)) = rest.split_first_chunk::<4>() else { return b"" };
        let n = (u32::from_le_bytes(*n) as usize).min(after.len());
        if k == index {
            return &after[..n];
        }
        rest = &after[n..]
    }
    b""
}

fn bytes<'a>(row: &'a [u8], at: usize, strings: &dyn Strings, scratch: &'a mut Vec<u8>) -> &'a [u8] {
    match string_at(row, at) {
        StringAt::Inline(o, n) => &row[o..o + n],
        StringAt::Slot(slot, n) => {
            let start = scratch.len();
            strings.string(slot, n, scratch);
            &scratch[start..]
        }
    }
}

/// A numeric's stored form, for callers that have a [`Numeric`].
pub fn numeric_bytes(n: &Numeric) -> Vec<u8> {
    let mut v = vec![];
    n.encode(&mut v);
    v
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Laid;
    use ondol_types::{Type, TypeId, Value};

    struct Slots(Vec<Vec<u8>>);
    impl Strings for Slots {
        fn string(&self, slot: u64, _: usize, out: &mut Vec<u8>) {
            out.extend_from_slice(&self.0[slot as usize])
        }
    }

    fn numeric(precision: i32, scale: i32) -> Type {
        Type::with(TypeId::NUMERIC, (precision << 16 | scale & 0x7ff) + 4)
    }

    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (*state >> 11) ^ (*state << 31)
    }

    /// NULL, NaN, zero, the ends of what the type holds, and values between.
    fn value(ty: Type, s: &mut u64) -> Value {
        let (precision, scale) = ty.numeric_mod().unwrap();
        let top = 10i128.pow(precision) - 1;
        let units = match random(s) % 8 {
            0 => return Value::Null,
            1 => return Value::Numeric(Numeric::NAN),
            2 => 0,
            3 => top,
            4 => -top,
            5 => (random(s) % 10) as i128 - 5,
            _ => random(s) as i64 as i128 % (top + 1),
        };
        let zeros = 10i128.pow((-scale).max(0) as u32);
        let n = Numeric::from_scaled(units * zeros, scale.max(0) as u16);
        Value::Numeric(n.apply_typmod(precision, scale).unwrap_or(Numeric::ZERO))
    }

    /// engine/layout/L5: of both forms of a table's rows, the same comes back, decimals and all, however the
    /// values come, and also after some of them were changed.
    #[test]
    fn numerics_come_back_from_words_and_from_strings() {
        let mut types = vec![numeric(19, 2), numeric(38, 10), numeric(30, -3)];
        for precision in 1..=18 {
            types.extend([0, 1, precision / 2, precision, precision + 3, -2].map(|s| numeric(precision, s)));
        }
        let mut s = 0x726f_7773;
        for round in 0..200 {
            let count = 1 + random(&mut s) % 9;
            let columns: Vec<Type> =
                (0..count).map(|_| types[random(&mut s) as usize % types.len()]).collect();
            for packed in [true, false] {
                let laid = |ty: &Type| Laid { packed, ..Laid::new(*ty, false) };
                let layout = Layout::of(columns.iter().map(laid).collect(), None);
                let mut slots = Slots(vec![]);
                let mut put = |b: &[u8]| {
                    slots.0.push(b.to_vec());
                    Ok(slots.0.len() as u64 - 1)
                };
                let mut values: Vec<Value> = columns.iter().map(|ty| value(*ty, &mut s)).collect();
                // Some as words of their own, others encoded.
                let mut scratch: Vec<Vec<u8>> = vec![vec![]; columns.len()];
                let given = |n: usize, v: &Value, s: &mut u64| match (v, columns[n].packed_scale()) {
                    (Value::Numeric(v), Some(scale)) if random(s).is_multiple_of(2) => Packed::of(v, scale),
                    _ => None,
                };
                let words: Vec<_> = values.iter().enumerate().map(|(n, v)| given(n, v, &mut s)).collect();
                let refs: Vec<ValueRef<'_>> = (values.iter().zip(&mut scratch).zip(words))
                    .map(|((v, b), w)| w.map_or(v.as_ref(b), ValueRef::Packed))
                    .collect();
                let mut row = vec![];
                encode(&layout, &refs, &mut row, &mut put).unwrap();
                drop(refs);
                let mut change_of =
                    |n: usize| random(&mut s).is_multiple_of(3).then(|| (n, value(columns[n], &mut s)));
                let changed: Vec<(usize, Value)> = (0..columns.len()).filter_map(&mut change_of).collect();
                let mut scratch: Vec<Vec<u8>> = vec![vec![]; changed.len()];
                let refs: Vec<(usize, ValueRef<'_>)> =
                    changed.iter().zip(&mut scratch).map(|((n, v), b)| (*n, v.as_ref(b))).collect();
                let mut new = vec![];
                let none = Slots(vec![]);
                change(&layout, &row, &refs, &mut new, &none, &mut put, &mut vec![]).unwrap();
                changed.iter().for_each(|(n, v)| values[*n] = v.clone());
                for (n, v) in values.iter().enumerate() {
                    let mut scratch = vec![];
                    let found = column(&layout, &new, n, &slots, &mut scratch);
                    let is_word = matches!(found, ValueRef::Packed(_));
                    assert_eq!(
                        is_word,
                        packed && columns[n].packed_scale().is_some() && !v.is_null(),
                        "round {round}: {} as {}",
                        v,
                        columns[n]
                    );
                    assert!(found.to_owned().is_same(v), "round {round}: {found} for {v} as {}", columns[n]);
                }
            }
        }
    }

    /// A value that was not brought to its column's type is refused, and leaves nothing.
    #[test]
    fn what_does_not_fit_a_word_is_refused() {
        let layout = Arc::new(Layout::new(&[(numeric(5, 2), false), (Type::TEXT, false)]));
        let encoded = |text: &str| crate::row::numeric_bytes(&Numeric::parse(text).unwrap());
        let long = "a text that lies in a slot of its own";
        let mut batch = RowBatch::new(layout.clone(), 0);
        assert!(batch.push(&[ValueRef::Numeric(&encoded("1.5")), ValueRef::Text(long)]));
        let before = (batch.bytes.clone(), batch.counts());
        for wrong in ["1.505", "Infinity", "1e16", "-123456789012345678901234567890"] {
            let wrong = encoded(wrong);
            let refs = [ValueRef::Numeric(&wrong), ValueRef::Text(long)];
            let done = encode(&layout, &refs, &mut vec![], &mut |_| Ok(1));
            assert!(matches!(done, Err(ondol_kernel::Error::Unfit)));
            assert!(!batch.push(&refs));
            assert_eq!((&batch.bytes, batch.counts()), (&before.0, before.1));
            let mut columnwise = RowBatch::new(layout.clone(), 0);
            let first = columnwise.add_zeros(2);
            let fine = encoded("1.50");
            assert!(!columnwise.set_strings(0, first, [&fine[..], &wrong].into_iter()));
            assert!(!columnwise.set(0, first, &refs[0]));
        }
        let mut columnwise = RowBatch::new(layout.clone(), 0);
        let first = columnwise.add_zeros(2);
        assert!(!columnwise.set_numbers(0, first, [[0; 8]; 2].into_iter()));
        let fine = [encoded("1.5"), vec![]];
        assert!(columnwise.set_strings(0, first, fine.iter().map(|b| &b[..])));
        assert!(columnwise.set_null(0, 1));
        let read = |row: usize| {
            let bytes = &columnwise.bytes[row * layout.row_size..];
            column(&layout, bytes, 0, &Slots(vec![]), &mut vec![]).to_string()
        };
        assert_eq!([read(0), read(1)], ["1.50", "NULL"]);
    }

    /// Adding to a balance changes bytes of its word only.
    #[test]
    fn an_addition_is_a_difference_of_a_word() {
        let layout = Layout::new(&[(Type::INT4, true), (numeric(12, 2), true), (Type::TEXT, true)]);
        let row = |units: i64| {
            let balance = ValueRef::Packed(Packed::new(units, 2));
            let mut bytes = vec![];
            let values = [ValueRef::Int4(7), balance, ValueRef::Text("owner")];
            encode(&layout, &values, &mut bytes, &mut |_| unreachable!("no long string")).unwrap();
            bytes
        };
        let at = layout.columns[1].offset as usize;
        for (before, after) in [(0, 1), (99, 100), (-1, 0), (-5, 7), (999_999_999_999, -999_999_999_999)] {
            let (old, new) = (row(before), row(after));
            let differ: Vec<usize> = (0..old.len()).filter(|i| old[*i] != new[*i]).collect();
            assert!(differ.iter().all(|i| (at..at + 8).contains(i)), "{before} {after}: {differ:?}");
        }
    }
}
