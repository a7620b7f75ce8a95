//! How a typed row lies in bytes.
//!
//! ```text
//! bits | numbers, widest first | opaque values of fixed width | char(n) columns | string heads | zeros to a multiple of 16
//! ```
//! - **L1** Bit 0 of the first byte is the live bit (set in every row in use); bit 1 says that the row is
//!   wide (L3); from bit 2 on one null bit for each nullable column.
//! - **L2** A null column's bytes are zero. Numbers are little-endian.
//! - **L3** char(n) takes n bytes, filled with spaces, and holds values whose UTF-8 form without trailing
//!   spaces fits n bytes. If one column's does not, the row is wide: the first 8 bytes of its char area hold
//!   the OID of a string with all char columns' values, each as u32 length and bytes (null: length 0). The
//!   char area has at least 8 bytes.
//! - **L4** A string head is 16 bytes: length u32, then up to 12 bytes inline; longer ones have a 4-byte
//!   prefix and the OID (u64) of a string slot. A string slot's row bytes are: live bit byte (1), 3 zero
//!   bytes, length u32, bytes. A numeric that L5 does not make a number is stored as a string of its
//!   encoding, an opaque value of no fixed width as one of its bytes.
//! - **L5** A numeric(p, s) whose values have at most 18 digits each is a number of 8 bytes: the value times
//!   10^s (10^0 where s is negative), or NaN's word (`types::numeric::packed`). The scale is the column's,
//!   which every value was brought to. A column of a table made before there was this form keeps its strings
//!   ([`crate::catalog::ColumnDef::packed`], dictionary/D5).
//! - **L6** A row that is longer than a page's slot lies in a run of pages, as long strings do: whole, so
//!   that versions, differences and snapshots are of it what they are of others. So that its offsets stay
//!   small, its char(n) columns are strings, and so are opaque values of more than 16 bytes. All rows of a
//!   table lie one way, which its columns say: where a new column makes the rows so long, they are laid out
//!   anew.
//! - **L7** At a row's end is a word for columns that are added later, whose rows then stay as they are
//!   ([`crate::later`]): 0, or the OID, of 48 bits, of a string with their values. It has 8 bytes, of which
//!   the last two are the string's length, or where only 6 or 7 are left, 6. The rows of a table have the
//!   word if zeros are left for it there anyway, or if the table was made with room for it
//!   ([`crate::catalog::Room`]): for that its rows are 16 bytes longer. They do not become so long for it
//!   that they would take runs of pages (L6).
//! - **L8** Where a column is dropped, its bytes stay in the rows, as a hidden column's: new rows have zeros
//!   there. The columns lie in the order of their ranks then ([`crate::catalog::ColumnDef::rank`]).
//! - **L9** A value of regclass or its like is its object's number, of 4 bytes, without the name that it had.
use crate::catalog::{Later, Room};
use ondol_kernel::heap::LARGEST_ROW;
use ondol_types::catalog::registered;
use ondol_types::ty::Class;
use ondol_types::{Type, TypeId};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    Bool,
    Int2,
    Int4,
    Int8,
    Float8,
    Date,
    Timestamp,
    Timestamptz,
    /// char(n): `width` bytes inline.
    Char {
        width: u16,
    },
    /// text, varchar, char without length
    Text,
    Bytea,
    Numeric,
    /// Of an opaque type whose values have one width: inline.
    Fixed {
        ty: TypeId,
        width: u8,
    },
    /// Of any other opaque type.
    Opaque {
        ty: TypeId,
    },
    /// numeric(p, s) as a word of this scale (L5).
    Packed {
        scale: u16,
    },
    /// Of a column that was added later (L7): at this place among [`Layout::later`].
    Later {
        place: u16,
    },
}

impl Storage {
    /// Whether it is a string head (L4).
    #[inline]
    pub fn is_string(self) -> bool {
        matches!(self, Storage::Text | Storage::Bytea | Storage::Numeric | Storage::Opaque { .. })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnLayout {
    pub storage: Storage,
    /// Byte offset in the row.
    pub offset: u16,
    /// Bit number (L1) counted from the row's first bit; `None` for columns that were NOT NULL when rows were
    /// laid out, and for those that were added later.
    pub null_bit: Option<u16>,
    /// Whether it must not be NULL.
    pub not_null: bool,
    /// The byte that has this bit, and the bit in it: 0 where there is none.
    null_at: u16,
    null_mask: u8,
}

impl ColumnLayout {
    fn new(storage: Storage, null_bit: Option<u16>) -> ColumnLayout {
        let (null_at, null_mask) = null_bit.map_or((0, 0), |b| (b / 8, 1 << (b % 8)));
        ColumnLayout { storage, offset: 0, null_bit, not_null: false, null_at, null_mask }
    }
    #[inline(always)]
    pub fn is_null(&self, row: &[u8]) -> bool {
        row[self.null_at as usize] & self.null_mask != 0
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    pub columns: Vec<ColumnLayout>,
    pub types: Vec<Type>,
    /// How many of the columns, from the first on, are not hidden.
    shown: usize,
    /// Row bytes, a multiple of 16.
    pub row_size: usize,
    /// Offset of the char area (L3); meaningful when there are char columns.
    pub char_area: u16,
    pub char_columns: Vec<u16>,
    /// Offsets of the string heads (L4).
    pub strings: Vec<u16>,
    /// The word for columns that are added later, if there is one (L7).
    pub word: Option<Word>,
    /// The columns that were, by their places in the string of their values; `None`: it is gone.
    pub later: Vec<Option<LaterColumn>>,
}

/// How the values of a column that was added later are stored (L7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaterColumn {
    /// Its place in the table's columns.
    pub column: u16,
    /// How its values would be stored in the row.
    pub storage: Storage,
    /// What it is in rows that say nothing of it, as bytes of that storage; `None`: NULL.
    pub missing: Option<Arc<[u8]>>,
}

/// Where a row names the string of the columns that were added later (L7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    at: u16,
    bytes: u8,
}

impl Word {
    /// Bytes of one with a length, and of an OID alone.
    const SIZES: [usize; 2] = [8, 6];
    pub fn range(self) -> std::ops::Range<usize> {
        let at = usize::from(self.at);
        at..at + usize::from(self.bytes)
    }
    pub fn has_length(self) -> bool {
        usize::from(self.bytes) == Word::SIZES[0]
    }
}

/// What a layout is made of.
#[derive(Clone, Debug)]
pub struct Laid {
    pub ty: Type,
    pub not_null: bool,
    /// See [`crate::catalog::ColumnDef::packed`].
    pub packed: bool,
    pub later: Option<Later>,
    /// See [`crate::catalog::ColumnDef::rank`] and [`crate::catalog::ColumnDef::has_bit`].
    pub rank: Option<u16>,
    pub bit: bool,
    /// See [`crate::catalog::ColumnDef::is_hidden`].
    pub hidden: bool,
}

impl Laid {
    /// A column as a new table has it.
    pub fn new(ty: Type, not_null: bool) -> Laid {
        let (packed, later, rank, bit, hidden) = (true, None, None, !not_null, false);
        Laid { ty, not_null, packed, later, rank, bit, hidden }
    }
}

pub const LIVE: u8 = 1;
pub const WIDE: u8 = 2;
/// Columns that a table may have, as in PostgreSQL.
pub const MAX_COLUMNS: usize = 1600;
/// Longest string kept inline in its head.
pub const INLINE: usize = 12;

impl Layout {
    /// Lays out columns given as (type, not null), without room for further ones.
    pub fn new(columns: &[(Type, bool)]) -> Layout {
        let laid = |&(ty, not_null): &(Type, bool)| Laid::new(ty, not_null);
        Layout::of(columns.iter().map(laid).collect(), None)
    }
    /// Lays out at most [`MAX_COLUMNS`].
    pub(crate) fn of(columns: Vec<Laid>, room: Option<Room>) -> Layout {
        let near = Layout::lay(&columns, false, room);
        // L6
        if near.is_long() { Layout::lay(&columns, true, room) } else { near }
    }
    /// Whether rows take runs of pages (L6).
    pub fn is_long(&self) -> bool {
        self.row_size > LARGEST_ROW
    }
    /// How values are stored, in a row that is long or not (L6).
    fn storage(ty: Type, packed: bool, long: bool) -> Storage {
        match ty.id.class() {
            Class::Bool => Storage::Bool,
            Class::Int2 => Storage::Int2,
            Class::Int4 => Storage::Int4,
            Class::Int8 => Storage::Int8,
            Class::Float8 => Storage::Float8,
            Class::Date => Storage::Date,
            Class::Timestamp => Storage::Timestamp,
            Class::Timestamptz => Storage::Timestamptz,
            Class::Bytea => Storage::Bytea,
            Class::Numeric => match ty.packed_scale() {
                Some(scale) if packed => Storage::Packed { scale },
                _ => Storage::Numeric,
            },
            // L7
            Class::Opaque(_) if registered::kind(ty.id).is_some() => {
                Storage::Fixed { ty: ty.id, width: registered::STORED }
            }
            Class::Opaque(form) => match form.width {
                Some(width) if !long || width <= 16 => Storage::Fixed { ty: ty.id, width },
                _ => Storage::Opaque { ty: ty.id },
            },
            Class::Text | Class::None => match ty.char_len() {
                Some(n) if n <= 255 && ty.id == TypeId::BPCHAR && !long => Storage::Char { width: n as u16 },
                _ => Storage::Text,
            },
        }
    }
    /// The same of a column that is added later (L7).
    pub fn later_storage(ty: Type, packed: bool) -> Storage {
        match Layout::storage(ty, packed, false) {
            Storage::Char { .. } => Storage::Text,
            other => other,
        }
    }
    fn lay(columns: &[Laid], long: bool, room: Option<Room>) -> Layout {
        let mut bits = 2u16;
        let mut later: Vec<Option<LaterColumn>> = vec![None; room.map_or(0, |r| r.places).into()];
        // L8
        let mut order: Vec<usize> = (0..columns.len()).collect();
        order.sort_by_key(|n| columns[*n].rank.map_or(*n, usize::from));
        let mut out = vec![ColumnLayout::new(Storage::Bool, None); columns.len()];
        for &n in &order {
            let c = &columns[n];
            out[n] = match &c.later {
                Some(Later { place, missing }) => {
                    let storage = Layout::later_storage(c.ty, c.packed);
                    let (column, missing) = (n as u16, missing.clone());
                    if let Some(at) = later.get_mut(usize::from(*place)) {
                        *at = Some(LaterColumn { column, storage, missing })
                    }
                    ColumnLayout::new(Storage::Later { place: *place }, None)
                }
                None => {
                    let null_bit = c.bit.then(|| {
                        bits += 1;
                        bits - 1
                    });
                    ColumnLayout::new(Layout::storage(c.ty, c.packed, long), null_bit)
                }
            };
            out[n].not_null = c.not_null
        }
        // What is too long for the offsets is laid out again (L6).
        let mut at = u32::from(bits.div_ceil(8));
        let mut place = |want: &dyn Fn(Storage) -> Option<u16>, at: &mut u32| {
            for &n in &order {
                let c = &mut out[n];
                if let Some(w) = want(c.storage) {
                    c.offset = *at as u16;
                    *at += u32::from(w);
                }
            }
        };
        place(
            &|s| match s {
                Storage::Int8 | Storage::Float8 | Storage::Timestamp | Storage::Timestamptz => Some(8),
                Storage::Packed { .. } => Some(8),
                _ => None,
            },
            &mut at,
        );
        place(&|s| matches!(s, Storage::Int4 | Storage::Date).then_some(4), &mut at);
        place(&|s| matches!(s, Storage::Int2).then_some(2), &mut at);
        place(&|s| matches!(s, Storage::Bool).then_some(1), &mut at);
        place(&|s| if let Storage::Fixed { width, .. } = s { Some(width.into()) } else { None }, &mut at);
        let char_area = at;
        place(&|s| if let Storage::Char { width } = s { Some(width) } else { None }, &mut at);
        let is_char = |&&n: &&usize| matches!(out[n].storage, Storage::Char { .. });
        let char_columns: Vec<u16> = order.iter().filter(is_char).map(|n| *n as u16).collect();
        if !char_columns.is_empty() {
            at = at.max(char_area + 8);
        }
        let mut strings = vec![];
        for &n in &order {
            let c = &mut out[n];
            if c.storage.is_string() {
                c.offset = at as u16;
                strings.push(at as u16);
                at += 16;
            }
        }
        // L7
        let (at, mut row_size) = (at as usize, (at as usize).next_multiple_of(16));
        let longer = room.is_some_and(|r| r.longer);
        if longer && at + Word::SIZES[0] > row_size && row_size != LARGEST_ROW {
            row_size += 16
        }
        let bytes = Word::SIZES.into_iter().find(|bytes| at + bytes <= row_size);
        let word = bytes.map(|bytes| Word { at: (row_size - bytes) as u16, bytes: bytes as u8 });
        let is_later = |c: &&mut ColumnLayout| matches!(c.storage, Storage::Later { .. });
        out.iter_mut().filter(is_later).for_each(|c| c.offset = word.map_or(0, |w| w.at));
        Layout {
            columns: out,
            types: columns.iter().map(|c| c.ty).collect(),
            shown: columns.iter().position(|c| c.hidden).unwrap_or(columns.len()),
            row_size,
            char_area: char_area as u16,
            char_columns,
            strings,
            word,
            later,
        }
    }

    /// The columns that statements see.
    #[inline]
    pub fn shown(&self) -> &[ColumnLayout] {
        &self.columns[..self.shown]
    }
    /// Whether the row says that a column is NULL; of one that was added later, its string does.
    #[inline]
    pub fn is_null(&self, row: &[u8], column: usize) -> bool {
        self.columns[column].is_null(row)
    }
    #[inline]
    pub fn is_wide(row: &[u8]) -> bool {
        row[0] & WIDE != 0
    }
}

/// Where a string column's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringAt {
    /// (offset in the row, length)
    Inline(usize, usize),
    /// A string slot: OID and length.
    Slot(u64, usize),
}

/// Reads the string head at `offset` of a row.
#[inline]
pub fn string_at(row: &[u8], offset: usize) -> StringAt {
    let len = u32::from_le_bytes(row[offset..offset + 4].try_into().unwrap_or_default()) as usize;
    if len <= INLINE {
        StringAt::Inline(offset + 4, len)
    } else {
        StringAt::Slot(u64::from_le_bytes(row[offset + 8..offset + 16].try_into().unwrap_or_default()), len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// engine/layout/L7: the word is behind all columns, also where rows become longer for it; nothing else
    /// of them changes, and no row takes a run for it.
    #[test]
    fn room_is_behind_all_columns() {
        let (mut longest, mut short) = (0, 0);
        let longer = Room { places: 0, longer: true };
        for count in (1..300).chain((300..MAX_COLUMNS).step_by(7)) {
            for ty in [Type::BOOL, Type::INT4, Type::INT8, Type::TEXT, Type::with(TypeId::BPCHAR, 4 + 7)] {
                let laid = || {
                    let column = |n: usize| Laid::new(ty, !n.is_multiple_of(3));
                    (0..count).map(column).collect::<Vec<_>>()
                };
                let (without, with) = (Layout::of(laid(), None), Layout::of(laid(), Some(longer)));
                assert_eq!(without.columns, with.columns);
                assert_eq!(without.is_long(), with.is_long());
                let end = |l: &Layout| {
                    let ends = l.columns.iter().map(|c| usize::from(c.offset) + crate::row::width(c.storage));
                    ends.max().unwrap_or(0)
                };
                for l in [&without, &with] {
                    assert!(l.word.is_none_or(|w| w.range().start >= end(l)));
                    assert!(l.word.is_none_or(|w| w.range().end == l.row_size))
                }
                let (has, had) = (with.word.is_some_and(Word::has_length), without.word);
                assert_eq!(!has, !had.is_some_and(Word::has_length) && without.row_size == LARGEST_ROW);
                let more = with.row_size - without.row_size;
                assert_eq!(more, if has && !had.is_some_and(Word::has_length) { 16 } else { 0 });
                longest += usize::from(with.row_size == LARGEST_ROW);
                short += usize::from(had.is_some_and(|w| !w.has_length()))
            }
        }
        assert!(longest > 0 && short > 0)
    }
}
