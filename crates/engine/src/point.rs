//! The shortest way to a row: by a unique hash index whose key is made of whole numbers.
//!
//! ```text
//! numbers -> key bytes, in a register -> hash -> bucket -> OID -> row copied out -> its columns compared
//! ```
//! - **P1** A key is the normalised one (`types::key`): a byte 1 for a column that may be NULL, then the
//!   number's bytes, highest first, sign bit turned over. Of at most [`WIDEST`] bytes, it is never written to
//!   memory.
//! - **P2** Normalised keys are equal exactly if the numbers are, so comparing the row's columns with them is
//!   the recheck that a hash index asks for (index/I4).
use crate::catalog::{IndexDef, IndexKind};
use crate::connection::Connection;
use crate::layout::{INLINE, Layout, Storage};
use crate::table::KeySpec;
use ondol_base::epoch::Guard;
use ondol_base::oid::Oid;
use ondol_index::hash::{Aim, HashIndex, Target, hash_short};
use ondol_kernel::slot;
use ondol_kernel::transaction::{Found, Session};
use std::sync::Arc;

/// Bytes of the longest key (P1).
const WIDEST: usize = 16;

/// A key's numbers, in the order of its columns, of at least two bytes each; those behind them count for
/// nothing.
pub type Numbers = [i64; WIDEST / 2];

/// A key's column.
#[derive(Clone)]
struct Number {
    /// Where the row's eight bytes begin that hold it.
    from: u16,
    /// Where its null bit lies in the row, if it may be NULL; else the mask is 0.
    null_at: u16,
    null_mask: u8,
    /// By how much those eight bytes are moved left and then right to leave the number, sign and all.
    left: u8,
    right: u8,
    /// Bytes in a key, with the null byte.
    key_bytes: u8,
}

impl Number {
    /// `at` is where the number lies in a row, `width` its bytes: 2, 4 or 8. `null` is its null bit, if it
    /// may be NULL.
    fn new(at: u16, width: u16, null: Option<u16>, row_size: usize) -> Number {
        // Rows are of 16 bytes at least.
        let from = at.min((row_size - 8) as u16);
        Number {
            from,
            null_at: null.map_or(0, |b| b / 8),
            null_mask: null.map_or(0, |b| 1 << (b % 8)),
            left: (64 - 8 * (at - from + width)) as u8,
            right: (64 - 8 * width) as u8,
            key_bytes: width as u8 + null.is_some() as u8,
        }
    }
    /// Whether a row has this number.
    #[inline(always)]
    fn is(&self, row: &[u8], value: i64) -> bool {
        let from = self.from as usize;
        let (Some(&word), Some(null)) =
            (row.get(from..from + 8).and_then(|b| b.first_chunk()), row.get(self.null_at as usize))
        else {
            return false;
        };
        i64::from_le_bytes(word) << self.left >> self.right == value && null & self.null_mask == 0
    }
    /// Its bytes in a key, read little-endian: the first eight, and what is beyond.
    #[inline(always)]
    fn key(&self, value: i64) -> (u64, u64) {
        let bytes = ((value as u64) << self.right ^ 1 << 63).swap_bytes();
        if self.null_mask == 0 { (bytes, 0) } else { (bytes << 8 | 1, bytes >> 56) }
    }
    /// How many they are.
    #[inline(always)]
    fn bytes(&self) -> usize {
        self.key_bytes.into()
    }
}

/// A unique hash index that is asked by whole numbers.
#[derive(Clone)]
pub struct PointIndex {
    hash: Arc<HashIndex>,
    first: Number,
    /// The other columns.
    more: Box<[Number]>,
    /// Bytes of the table's rows.
    row_size: usize,
}

impl PointIndex {
    /// `None` unless the index is unique and its key such a one.
    pub(crate) fn new(
        def: &IndexDef,
        key: &KeySpec,
        layout: &Layout,
        hash: &Arc<HashIndex>,
    ) -> Option<PointIndex> {
        if !def.unique || def.kind != IndexKind::Hash || key.width.is_none_or(|w| w > WIDEST) {
            return None;
        }
        let number = |&(column, _, desc, _, _): &(usize, _, bool, _, _)| {
            let c = layout.columns[column];
            let width = match c.storage {
                Storage::Int2 => 2u16,
                Storage::Int4 | Storage::Date => 4,
                Storage::Int8 | Storage::Timestamp | Storage::Timestamptz => 8,
                _ => return None,
            };
            (!desc).then(|| Number::new(c.offset, width, c.null_bit, layout.row_size))
        };
        let (first, more) = key.parts.split_first()?;
        let more = more.iter().map(number).collect::<Option<_>>()?;
        Some(PointIndex { hash: hash.clone(), first: number(first)?, more, row_size: layout.row_size })
    }

    /// How many numbers make a key.
    pub fn columns(&self) -> usize {
        1 + self.more.len()
    }

    /// Bytes of the table's rows.
    #[inline(always)]
    pub fn row_size(&self) -> usize {
        self.row_size
    }

    /// Asks for the bucket of the key made of `number(i)` for each column `i` to be brought into the cache.
    #[inline]
    pub fn aim(&self, number: impl Fn(usize) -> i64) -> Aim {
        self.target(number).aim
    }

    /// The same for [`Connection::find_at`].
    #[inline(always)]
    pub fn target(&self, number: impl Fn(usize) -> i64) -> Target<'_> {
        let (low, high) = self.first.key(number(0));
        if !self.more.is_empty() {
            return self.target_of_many(low as u128 | (high as u128) << 64, number);
        }
        self.hash.target(hash_short(low, high, self.first.bytes()))
    }

    /// The same for a key of several columns that begins with `key`.
    #[inline(never)]
    fn target_of_many(&self, mut key: u128, number: impl Fn(usize) -> i64) -> Target<'_> {
        let mut n = self.first.bytes();
        for (i, c) in self.more.iter().enumerate() {
            let (low, high) = c.key(number(i + 1));
            key |= (low as u128 | (high as u128) << 64) << (8 * n);
            n += c.bytes();
        }
        self.hash.target(hash_short(key as u64, (key >> 64) as u64, n))
    }

    /// Some row that may stand where it is aimed at, or none.
    #[inline(never)]
    fn any(&self, pin: &Guard<'_>, aim: Aim) -> Oid {
        let mut found = Oid::NONE;
        self.hash.probe_at(pin, aim, &mut |oid| {
            found = oid;
            false
        });
        found
    }

    /// Whether the row has the key made of these numbers (P2).
    #[inline(always)]
    pub fn has(&self, row: &[u8], number: impl Fn(usize) -> i64) -> bool {
        let rest = |(i, c): (usize, &Number)| c.is(row, number(i + 1));
        self.first.is(row, number(0)) && (self.more.is_empty() || self.more.iter().enumerate().all(rest))
    }
}

/// Between `start_statement` and its end.
impl Connection {
    /// Some row that may stand where it is aimed at, or none; asks for it to be brought into the cache.
    #[inline]
    pub fn find_ahead(&self, pin: &Guard<'_>, index: &PointIndex, aim: Aim) -> Oid {
        let found = index.hash.glance(pin, aim).unwrap_or_else(|| index.any(pin, aim));
        if !found.is_none() {
            self.session.kernel().space.prefetch_row(found, index.row_size);
        }
        found
    }

    /// Looks into a row that was asked for, and asks for those of its strings that lie in slots of their own;
    /// `heads` are where the strings' heads lie in the row.
    #[inline]
    pub fn prefetch_strings(&self, oid: Oid, heads: &[u16]) {
        let space = &self.session.kernel().space;
        for at in heads {
            let [length, slot] = space.guess(oid, *at);
            if length as u32 as usize > INLINE {
                space.prefetch_at(slot)
            }
        }
    }

    /// Copies into `row` (of the layout's row size) the row that has the key made of `number(i)` for each
    /// column `i`, if the statement sees one. `aim` is at the key, `ahead` what [`Connection::find_ahead`]
    /// found there in the same statement, or none. Serializable transactions cannot use this, since they have
    /// to remember the rows that they looked at.
    #[inline]
    pub fn find(
        &self,
        pin: &Guard<'_>,
        index: &PointIndex,
        aim: Aim,
        ahead: Oid,
        number: impl Fn(usize) -> i64 + Copy,
        row: &mut [u8],
    ) -> Option<Oid> {
        debug_assert!(!self.is_serializable());
        if !ahead.is_none() && self.is_at(pin, index, ahead, number, row) {
            return Some(ahead);
        }
        match index.hash.glance(pin, aim) {
            Some(Oid::NONE) => None,
            Some(oid) if self.is_at(pin, index, oid, number, row) => Some(oid),
            _ => self.find_among(pin, index, aim, number, row),
        }
    }

    /// The first look of that, by a target of the index at the key: whether there is such a row; `None` where
    /// [`Connection::find`] has to tell.
    #[inline(always)]
    pub fn find_at(
        &self,
        pin: &Guard<'_>,
        index: &PointIndex,
        target: Target<'_>,
        number: impl Fn(usize) -> i64,
        row: &mut [u8],
    ) -> Option<bool> {
        match index.hash.glance_at(pin, target)? {
            Oid::NONE => Some(false),
            oid => self.is_at(pin, index, oid, number, row).then_some(true),
        }
    }

    /// Whether the row there has the key; copies it.
    #[inline(always)]
    fn is_at(
        &self,
        pin: &Guard<'_>,
        index: &PointIndex,
        oid: Oid,
        number: impl Fn(usize) -> i64,
        row: &mut [u8],
    ) -> bool {
        self.session.read_pinned(pin, oid, row) && index.has(row, number)
    }

    /// The row that has the key in its newest version, if nobody owns it; its bytes are copied. Where several
    /// rows may stand, or the index is being changed, a row may be missed. The page's header is asked for as
    /// well: whoever changes the row marks the page.
    #[inline]
    pub(crate) fn find_current(
        session: &Session,
        pin: &Guard<'_>,
        index: &PointIndex,
        aim: Aim,
        number: impl Fn(usize) -> i64,
        row: &mut [u8],
    ) -> Option<Found> {
        let space = &session.kernel().space;
        let mut at = |oid: Oid| {
            space.prefetch_row(oid, index.row_size);
            space.prefetch_page(oid);
            let header = slot::read_current(space, pin, oid, row)?;
            index.has(row, &number).then_some(Found { oid, header })
        };
        match index.hash.glance(pin, aim) {
            Some(Oid::NONE) => None,
            Some(oid) => at(oid),
            None => {
                let mut found = None;
                index.hash.probe_at(pin, aim, &mut |oid| {
                    found = at(oid);
                    found.is_none()
                });
                found
            }
        }
    }

    /// Tries every row that may stand where it is aimed at.
    #[cold]
    #[inline(never)]
    fn find_among(
        &self,
        pin: &Guard<'_>,
        index: &PointIndex,
        aim: Aim,
        number: impl Fn(usize) -> i64 + Copy,
        row: &mut [u8],
    ) -> Option<Oid> {
        let mut found = None;
        index.hash.probe_at(pin, aim, &mut |oid| {
            if self.is_at(pin, index, oid, number, row) {
                found = Some(oid)
            }
            found.is_none()
        });
        found
    }

    /// The same for any transaction; `key` is the numbers' normalised key.
    pub fn find_remembered(
        &self,
        index: &crate::table::TableIndex,
        key: &[u8],
        number: impl Fn(usize) -> i64 + Copy,
        row: &mut [u8],
    ) -> ondol_types::SqlResult<Option<Oid>> {
        let Some(point) = &index.point else { return Ok(None) };
        let mut oids = vec![];
        self.lookup(index, key, &mut oids)?;
        let mut there = |oid: &Oid| self.session.read(*oid, row) && point.has(row, number);
        Ok(oids.into_iter().find(|o| there(o)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondol_types::{TypeId, ValueRef};

    #[test]
    fn a_number_is_found_where_it_lies_and_only_there() {
        for row_size in [16u16, 32, 48] {
            for (width, null) in [2u16, 4, 8].into_iter().flat_map(|w| [(w, None), (w, Some(11))]) {
                for at in 2..=row_size - width {
                    let number = Number::new(at, width, null, row_size.into());
                    let mut row = vec![0xa5; row_size.into()];
                    row[1] = 0;
                    for v in [0i64, 1, -1, -2, 77, i16::MIN.into(), i16::MAX.into()] {
                        let place = at as usize..(at + width) as usize;
                        row[place].copy_from_slice(&v.to_le_bytes()[..width.into()]);
                        assert!(number.is(&row, v), "{v} at {at} of {row_size}");
                        assert!(!number.is(&row, v ^ 1) && !number.is(&row, v ^ 1 << 63));
                        row[1] = 8;
                        assert_eq!(number.is(&row, v), null.is_none());
                        row[1] = 0;
                    }
                }
            }
        }
    }

    #[test]
    fn keys_are_the_normalised_ones() {
        for v in [0i64, 1, -1, 1234, i16::MIN.into(), i16::MAX.into()] {
            let values = [
                (2, TypeId::INT2, ValueRef::Int2(v as i16)),
                (4, TypeId::INT4, ValueRef::Int4(v as i32)),
                (8, TypeId::INT8, ValueRef::Int8(v)),
            ];
            for (width, ty, value) in values {
                for nullable in [false, true] {
                    let number = Number::new(2, width, nullable.then_some(5), 16);
                    let mut key = vec![];
                    ondol_types::key::encode(value, ty, false, false, !nullable, &mut key);
                    let n = number.bytes();
                    assert_eq!(n, key.len());
                    key.resize(16, 0);
                    let (low, high) = number.key(v);
                    assert_eq!([low.to_le_bytes(), high.to_le_bytes()].concat(), key, "{v} of {width} bytes");
                }
            }
        }
    }
}
