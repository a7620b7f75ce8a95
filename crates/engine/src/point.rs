//! The shortest way to a row: by a unique hash index whose key is made of whole numbers.
//!
//! ```text
//! numbers -> key bytes, in a register -> hash -> bucket -> OID -> row copied out -> its columns compared
//! ```
//! - **P1** A key is the normalised one (`types::key`): a byte 1 for a column that may be NULL, then the number's bytes, highest
//!   first, sign bit turned over. Of at most [`WIDEST`] bytes, it is never written to memory.
//! - **P2** Normalised keys are equal exactly if the numbers are, so comparing the row's columns with them is the recheck that
//!   a hash index asks for (I4 of `index`).
use crate::catalog::{IndexDef, IndexKind};
use crate::connection::Connection;
use crate::layout::{Layout, Storage};
use crate::table::KeySpec;
use ondol_base::epoch::Guard;
use ondol_base::oid::Oid;
use ondol_index::hash::{Aim, HashIndex, hash_short};
use std::sync::Arc;

/// Bytes of the longest key (P1).
const WIDEST: usize = 16;
/// Columns of a key at most.
const MOST: usize = WIDEST / 2;

/// A key's numbers, in the order of its columns; those behind them count for nothing.
pub type Numbers = [i64; MOST];

/// A key's column.
#[derive(Clone)]
struct Number {
    /// Where it lies in the row.
    at: usize,
    /// Bytes: 2, 4 or 8.
    width: usize,
    /// Its null bit, if it may be NULL.
    null: Option<u16>,
}

impl Number {
    /// The number in a row; `None` for NULL.
    #[inline(always)]
    fn of(&self, row: &[u8]) -> Option<i64> {
        if self.null.is_some_and(|b| row[b as usize / 8] >> (b % 8) & 1 != 0) {
            return None;
        }
        let rest = row.get(self.at..)?;
        Some(match self.width {
            8 => i64::from_le_bytes(*rest.first_chunk()?),
            4 => i32::from_le_bytes(*rest.first_chunk()?).into(),
            _ => i16::from_le_bytes(*rest.first_chunk()?).into(),
        })
    }
    /// Its key bytes without the null byte, read little-endian.
    #[inline(always)]
    fn key(&self, value: i64) -> u64 {
        ((value as u64) << (64 - 8 * self.width) ^ 1 << 63).swap_bytes()
    }
}

/// A unique hash index that is asked by whole numbers.
#[derive(Clone)]
pub struct PointIndex {
    hash: Arc<HashIndex>,
    columns: Box<[Number]>,
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
                Storage::Int2 => 2,
                Storage::Int4 | Storage::Date => 4,
                Storage::Int8 | Storage::Timestamp | Storage::Timestamptz => 8,
                _ => return None,
            };
            (!desc).then_some(Number { at: c.offset as usize, width, null: c.null_bit })
        };
        let columns = key.parts.iter().map(number).collect::<Option<_>>()?;
        Some(PointIndex { hash: hash.clone(), columns, row_size: layout.row_size })
    }

    /// How many numbers make a key.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// Asks for the bucket of the key made of `number(i)` for each column `i` to be brought into the cache.
    #[inline]
    pub fn aim(&self, number: impl Fn(usize) -> i64) -> Aim {
        self.hash.aim(self.hash_of(number))
    }

    /// The hash of such a key.
    #[inline]
    fn hash_of(&self, number: impl Fn(usize) -> i64) -> u64 {
        if let [c] = &self.columns[..] {
            let key = c.key(number(0));
            return match (c.null, c.width) {
                (None, 8) => hash_short(key.into(), 8),
                (None, w) => hash_short(key.into(), w),
                (Some(_), 8) => hash_short((key as u128) << 8 | 1, 9),
                (Some(_), w) => hash_short((key as u128) << 8 | 1, w + 1),
            };
        }
        let (mut key, mut n) = (0, 0);
        for (i, c) in self.columns.iter().enumerate() {
            if c.null.is_some() {
                key |= 1 << (8 * n);
                n += 1;
            }
            key |= (c.key(number(i)) as u128) << (8 * n);
            n += c.width;
        }
        hash_short(key, n)
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
    #[inline]
    fn has(&self, row: &[u8], number: impl Fn(usize) -> i64) -> bool {
        if let [c] = &self.columns[..] {
            return c.of(row) == Some(number(0));
        }
        self.columns.iter().enumerate().all(|(i, c)| c.of(row) == Some(number(i)))
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

    /// Copies into `row` (of the layout's row size) the row that has the key made of `number(i)` for each column `i`, if the statement sees one.
    /// `aim` is at the key, `ahead` what [`Connection::find_ahead`] found there in the same statement, or none. Not for serializable
    /// transactions, which have to remember what they looked at.
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

    /// Tries every row that may stand where it is aimed at.
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
