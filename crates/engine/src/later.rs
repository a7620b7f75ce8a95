//! The values of columns that were added later: a string that their row names (engine/layout/L7).
//!
//! ```text
//! n u32 | n heads u32 | values
//! ```
//! - **N1** The head of each of n places is where its value ends behind the heads, in 30 bits, and above
//!   them what the value is: 0 these bytes, 1 NULL, 2 a string slot's OID (u64) and length (u32), where the
//!   value has more than [`NEAR`] bytes, 3 missing.
//!   The last head tells the string's length.
//! - **N2** A value has the bytes that it would have in the row ([`LaterColumn::storage`]), or that its
//!   string head would lead to.
//! - **N3** What is missing, and what the string has no place for, is what the table says of the column
//!   ([`LaterColumn::missing`]). Where all is missing there is no string, and the row's word is 0; so rows
//!   that were there before a column was added say nothing of it.
//! - **N4** A string is never changed. A row that gets other values gets another string, which goes on naming
//!   the slots of long values that stay; the former string is dropped, and the slots that it alone names.
//! - **N5** A place is not given again while the table has rows of this layout. Values at the place of a
//!   column that is gone are left out when their row gets another string.
use crate::layout::{LaterColumn, Layout, MAX_COLUMNS, Storage};
use crate::row::{self, Put};
use ondol_base::oid::Oid;
use ondol_kernel::Strings;
use ondol_types::{Packed, ValueRef};
use std::ops::Range;

/// Bytes of the longest value that lies in the string itself (N1). That of [`MAX_COLUMNS`] such ones is
/// shorter than the lengths that a row's word can tell.
const NEAR: usize = 32;
const _: () = assert!(4 + MAX_COLUMNS * (4 + NEAR) < 0xffff);

const KIND: u32 = 30;
const END: u32 = (1 << KIND) - 1;
/// OID and length (N1).
const FAR: usize = 12;

/// What a place says (N1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Missing,
    Null,
    /// The value's bytes in the string.
    Near(Range<usize>),
    /// The OID's bits and the length; where they stand in the string.
    Far(u64, usize, usize),
}

fn word(string: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*string.get(at..)?.first_chunk()?))
}

/// What the string says of a place; of one that cannot be read, NULL.
pub fn part(string: &[u8], place: usize) -> Part {
    let read = || {
        let n = word(string, 0)? as usize;
        if place >= n {
            return Some(Part::Missing);
        }
        let end = |k: usize| if k == 0 { Some(0) } else { Some((word(string, 4 * k)? & END) as usize) };
        let head = word(string, 4 * (place + 1))?;
        let base = 4 * n.checked_add(1)?;
        let range = base + end(place)?..base + (head & END) as usize;
        let bytes = string.get(range.clone())?;
        Some(match head >> KIND {
            0 => Part::Near(range),
            1 => Part::Null,
            2 => {
                let oid = u64::from_le_bytes(*bytes.first_chunk()?);
                Part::Far(oid, word(bytes, 8)? as usize, range.start)
            }
            _ => Part::Missing,
        })
    };
    read().unwrap_or(Part::Null)
}

/// How many places the string has.
pub fn places(string: &[u8]) -> usize {
    let heads = string.len() / 4;
    word(string, 0).map_or(0, |n| (n as usize).min(heads))
}

/// The slots that the string names: OID's bits and length, and where these stand in the string.
pub fn far(string: &[u8]) -> impl Iterator<Item = (u64, usize, usize)> {
    (0..places(string)).filter_map(|place| match part(string, place) {
        Part::Far(slot, len, at) => Some((slot, len, at)),
        _ => None,
    })
}

/// What a row's word names: the OID's bits, and the length where the word has it.
#[inline]
fn named(layout: &Layout, row: &[u8]) -> Option<(u64, Option<usize>)> {
    if layout.later.is_empty() {
        return None;
    }
    let word = layout.word?;
    let bytes = row.get(word.range())?;
    let mut all = [0; 8];
    all.get_mut(..bytes.len())?.copy_from_slice(bytes);
    let all = u64::from_le_bytes(all);
    (all != 0).then_some((all & Oid::MASK, word.has_length().then_some((all >> 48) as usize)))
}

/// Whether a row names a string.
#[inline]
pub fn is_named(layout: &Layout, row: &[u8]) -> bool {
    named(layout, row).is_some()
}

/// Names another, or none.
pub fn name(layout: &Layout, row: &mut [u8], string: Option<(u64, usize)>) {
    let all = string.map_or(0, |(slot, len)| slot | (len as u64) << 48).to_le_bytes();
    if let Some(place) = layout.word.and_then(|word| row.get_mut(word.range())) {
        place.copy_from_slice(&all[..place.len()])
    }
}

/// Appends the string that a row names, and gives the OID's bits and the length. `read` appends the first
/// bytes of a string, as many as it is told; or all, or none if it is not there.
pub fn read(
    layout: &Layout,
    row: &[u8],
    read: &mut dyn FnMut(u64, usize, &mut Vec<u8>),
    out: &mut Vec<u8>,
) -> Option<(u64, usize)> {
    let (slot, len) = named(layout, row)?;
    let start = out.len();
    let mut first = |len, out: &mut Vec<u8>| {
        out.truncate(start);
        read(slot, len, out)
    };
    let len = len.unwrap_or_else(|| {
        // The heads tell (N1).
        first(4, out);
        let heads = 4 * (word(&out[start..], 0).unwrap_or(0) as usize).min(MAX_COLUMNS);
        first(4 + heads, out);
        4 + heads + word(&out[start..], heads).map_or(0, |head| (head & END) as usize)
    });
    first(len, out);
    Some((slot, len))
}

/// A value that has these bytes (N2); NULL where they cannot be a value.
pub fn value(storage: Storage, bytes: &[u8]) -> ValueRef<'_> {
    macro_rules! number {
        ($t:ty, $make:expr) => {
            match bytes.first_chunk() {
                Some(b) => $make(<$t>::from_le_bytes(*b)),
                None => ValueRef::Null,
            }
        };
    }
    match storage {
        Storage::Bool => bytes.first().map_or(ValueRef::Null, |b| ValueRef::Bool(*b != 0)),
        Storage::Int2 => number!(i16, ValueRef::Int2),
        Storage::Int4 => number!(i32, ValueRef::Int4),
        Storage::Int8 => number!(i64, ValueRef::Int8),
        Storage::Float8 => number!(f64, ValueRef::Float8),
        Storage::Date => number!(i32, ValueRef::Date),
        Storage::Timestamp => number!(i64, ValueRef::Timestamp),
        Storage::Timestamptz => number!(i64, ValueRef::Timestamptz),
        Storage::Packed { scale } => number!(i64, |word| ValueRef::Packed(Packed::new(word, scale))),
        Storage::Text | Storage::Char { .. } => {
            ValueRef::Text(std::str::from_utf8(bytes).unwrap_or_default())
        }
        Storage::Bytea => ValueRef::Bytea(bytes),
        Storage::Numeric => ValueRef::Numeric(bytes),
        Storage::Fixed { ty, width } if bytes.len() == usize::from(width) => ValueRef::Opaque(ty, bytes),
        Storage::Opaque { ty } => ValueRef::Opaque(ty, bytes),
        Storage::Fixed { .. } | Storage::Later { .. } => ValueRef::Null,
    }
}

/// The bytes of a value (N2); `None`: NULL. Values are of their columns' types, modifiers applied.
pub fn bytes(storage: Storage, v: &ValueRef<'_>) -> ondol_kernel::Result<Option<Vec<u8>>> {
    match v {
        ValueRef::Null => return Ok(None),
        ValueRef::Text(s) => return Ok(Some(s.as_bytes().to_vec())),
        ValueRef::Bytea(b) | ValueRef::Opaque(_, b) => {
            // engine/layout/L9: a number without the name.
            let length =
                if let Storage::Fixed { width, .. } = storage { usize::from(width) } else { b.len() };
            return Ok(Some(b[..b.len().min(length)].to_vec()));
        }
        ValueRef::Numeric(b) if storage.is_string() => return Ok(Some(b.to_vec())),
        ValueRef::Packed(p) if storage.is_string() => return Ok(Some(p.encoded(&mut [0; _]).to_vec())),
        _ => {}
    }
    let mut bytes = vec![0; row::width(storage)];
    row::set_value(storage, v, &mut bytes, 0, &mut |_| Err(ondol_kernel::Error::Unfit))?;
    Ok(Some(bytes))
}

/// The column's value in a row; what lies in slots, or is missing, is put into `scratch`.
#[cold]
pub fn column<'a>(
    layout: &Layout,
    row: &[u8],
    place: u16,
    strings: &dyn Strings,
    scratch: &'a mut Vec<u8>,
) -> ValueRef<'a> {
    let Some(Some(column)) = layout.later.get(usize::from(place)) else { return ValueRef::Null };
    let mut start = scratch.len();
    let mut string = |slot, len, out: &mut Vec<u8>| strings.string(slot, len, out);
    let part = match read(layout, row, &mut string, scratch) {
        None => Part::Missing,
        Some(_) => part(&scratch[start..], place.into()),
    };
    let range = match part {
        Part::Null => return ValueRef::Null,
        Part::Near(range) => range,
        Part::Far(slot, len, _) => {
            start = scratch.len();
            strings.string(slot, len, scratch);
            0..scratch.len() - start
        }
        Part::Missing => match &column.missing {
            None => return ValueRef::Null,
            Some(missing) => {
                start = scratch.len();
                scratch.extend_from_slice(missing);
                0..missing.len()
            }
        },
    };
    value(column.storage, scratch.get(start..).and_then(|s| s.get(range)).unwrap_or_default())
}

/// The column's value in a row whose strings stand behind it: their offsets in `row` take the places of OIDs.
#[cold]
pub fn standing<'a>(layout: &'a Layout, row: &'a [u8], place: u16) -> ValueRef<'a> {
    let Some(Some(column)) = layout.later.get(usize::from(place)) else { return ValueRef::Null };
    let at = |from: u64, len: usize| {
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        row.get(from..from.saturating_add(len)).unwrap_or_default()
    };
    // Without a length, what follows stands behind it (N1).
    let string = named(layout, row)
        .map(|(from, len)| at(from, len.unwrap_or(row.len().saturating_sub(from as usize))));
    let bytes = match string.map_or(Part::Missing, |s| part(s, place.into())) {
        Part::Null => return ValueRef::Null,
        Part::Near(range) => string.and_then(|s| s.get(range)).unwrap_or_default(),
        Part::Far(from, len, _) => at(from, len),
        Part::Missing => match &column.missing {
            None => return ValueRef::Null,
            Some(missing) => missing,
        },
    };
    value(column.storage, bytes)
}

/// A string that is being made.
#[derive(Default)]
struct Made {
    heads: Vec<u32>,
    values: Vec<u8>,
    /// How many places there are, and bytes of values, without missing ones at the end.
    said: (usize, usize),
}

impl Made {
    fn push(&mut self, kind: u32, bytes: &[u8]) {
        self.values.extend_from_slice(bytes);
        self.heads.push(kind << KIND | self.values.len() as u32);
        if kind != 3 {
            self.said = (self.heads.len(), self.values.len())
        }
    }
    fn missing(&mut self) {
        self.push(3, &[])
    }
    fn value(&mut self, c: &LaterColumn, v: &ValueRef<'_>, put: &mut Put<'_>) -> ondol_kernel::Result<()> {
        match bytes(c.storage, v)? {
            bytes if bytes.as_deref() == c.missing.as_deref() => self.missing(),
            None => self.push(1, &[]),
            Some(bytes) if bytes.len() > NEAR => {
                let mut far = [0; FAR];
                far[..8].copy_from_slice(&put(&bytes)?.to_le_bytes());
                far[8..].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
                self.push(2, &far)
            }
            Some(bytes) => self.push(0, &bytes),
        }
        Ok(())
    }
    /// Stores it; `None` where it says nothing (N3).
    fn store(mut self, put: &mut Put<'_>) -> ondol_kernel::Result<Option<(u64, usize)>> {
        let (places, bytes) = self.said;
        self.heads.truncate(places);
        self.values.truncate(bytes);
        if places == 0 {
            return Ok(None);
        }
        let words = std::iter::once(places as u32).chain(self.heads);
        let mut string: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
        string.append(&mut self.values);
        Ok(Some((put(&string)?, string.len())))
    }
}

/// Makes and names the string of a new row.
#[cold]
pub(crate) fn set(
    layout: &Layout,
    values: &[ValueRef<'_>],
    row: &mut [u8],
    put: &mut Put<'_>,
) -> ondol_kernel::Result<()> {
    let mut made = Made::default();
    for c in &layout.later {
        match c.as_ref().and_then(|c| Some((c, values.get(usize::from(c.column))?))) {
            Some((c, v)) => made.value(c, v, put)?,
            None => made.missing(),
        }
    }
    name(layout, row, made.store(put)?);
    Ok(())
}

/// Makes and names the string of a row that is changed from what `old` says (N4); `dropped` is told of slots
/// that the row names no more.
#[cold]
pub(crate) fn change(
    layout: &Layout,
    old: &[u8],
    changes: &[(usize, ValueRef<'_>)],
    row: &mut [u8],
    strings: &dyn Strings,
    put: &mut Put<'_>,
    dropped: &mut Vec<(u64, usize)>,
) -> ondol_kernel::Result<()> {
    let mut was = vec![];
    let mut string = |slot, len, out: &mut Vec<u8>| strings.string(slot, len, out);
    dropped.extend(read(layout, old, &mut string, &mut was));
    // What changes nothing is not there.
    let part = |place| if was.is_empty() { Part::Missing } else { part(&was, place) };
    let mut made = Made::default();
    for place in 0..layout.later.len().max(places(&was)) {
        let column = layout.later.get(place).and_then(Option::as_ref);
        let change = column.and_then(|c| changes.iter().rev().find(|(n, _)| *n == usize::from(c.column)));
        let stays = column.is_some() && change.is_none();
        match part(place) {
            Part::Near(range) if stays => made.push(0, was.get(range).unwrap_or_default()),
            Part::Null if stays => made.push(1, &[]),
            Part::Far(_, _, at) if stays => made.push(2, was.get(at..at + FAR).unwrap_or_default()),
            Part::Missing if stays => made.missing(),
            Part::Far(slot, len, _) => dropped.push((slot, len)),
            _ => {}
        }
        match (column, change) {
            (Some(c), Some((_, v))) => made.value(c, v, put)?,
            (None, _) => made.missing(),
            (Some(_), None) => {}
        }
    }
    name(layout, row, made.store(put)?);
    Ok(())
}

/// The slots that a row names in its string, and the string's own.
#[cold]
pub(crate) fn slots_of(layout: &Layout, row: &[u8], strings: &dyn Strings, f: &mut dyn FnMut(u64, usize)) {
    let (mut string, mut of) = (vec![], |slot, len, out: &mut Vec<u8>| strings.string(slot, len, out));
    let Some((slot, len)) = read(layout, row, &mut of, &mut string) else { return };
    far(&string).for_each(|(slot, len, _)| f(slot, len));
    f(slot, len)
}
