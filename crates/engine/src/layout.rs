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
use ondol_kernel::heap::LARGEST_ROW;
use ondol_types::ty::Class;
use ondol_types::{Type, TypeId};

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
    /// Bit number (L1) counted from the row's first bit; `None` for NOT NULL columns.
    pub null_bit: Option<u16>,
    /// The byte that has this bit, and the bit in it: 0 for NOT NULL columns.
    null_at: u16,
    null_mask: u8,
}

impl ColumnLayout {
    fn new(storage: Storage, null_bit: Option<u16>) -> ColumnLayout {
        let (null_at, null_mask) = null_bit.map_or((0, 0), |b| (b / 8, 1 << (b % 8)));
        ColumnLayout { storage, offset: 0, null_bit, null_at, null_mask }
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
    /// Row bytes, a multiple of 16.
    pub row_size: usize,
    /// Offset of the char area (L3); meaningful when there are char columns.
    pub char_area: u16,
    pub char_columns: Vec<u16>,
    /// Offsets of the string heads (L4).
    pub strings: Vec<u16>,
}

pub const LIVE: u8 = 1;
pub const WIDE: u8 = 2;
/// Columns that a table may have, as in PostgreSQL.
pub const MAX_COLUMNS: usize = 1600;
/// Longest string kept inline in its head.
pub const INLINE: usize = 12;

impl Layout {
    /// Lays out columns given as (type, not null), as a new table has them.
    pub fn new(columns: &[(Type, bool)]) -> Layout {
        Layout::of(columns.iter().map(|&(ty, not_null)| (ty, not_null, true)))
    }
    /// The same, with what [`crate::catalog::ColumnDef::packed`] says of each. There are at most
    /// [`MAX_COLUMNS`].
    pub(crate) fn of(columns: impl Iterator<Item = (Type, bool, bool)>) -> Layout {
        let columns: Vec<(Type, bool, bool)> = columns.collect();
        let near = Layout::lay(&columns, false);
        // L6
        if near.is_long() { Layout::lay(&columns, true) } else { near }
    }
    /// Whether rows take runs of pages (L6).
    pub fn is_long(&self) -> bool {
        self.row_size > LARGEST_ROW
    }
    fn lay(columns: &[(Type, bool, bool)], long: bool) -> Layout {
        let mut bits = 2u16;
        let storage = |ty: Type, packed: bool| match ty.id.class() {
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
            Class::Opaque(form) => match form.width {
                Some(width) if !long || width <= 16 => Storage::Fixed { ty: ty.id, width },
                _ => Storage::Opaque { ty: ty.id },
            },
            Class::Text | Class::None => match ty.char_len() {
                Some(n) if n <= 255 && ty.id == TypeId::BPCHAR && !long => Storage::Char { width: n as u16 },
                _ => Storage::Text,
            },
        };
        let mut out: Vec<ColumnLayout> = columns
            .iter()
            .map(|&(ty, not_null, packed)| {
                let null_bit = (!not_null).then(|| {
                    bits += 1;
                    bits - 1
                });
                ColumnLayout::new(storage(ty, packed), null_bit)
            })
            .collect();
        // What is too long for the offsets is laid out again (L6).
        let mut at = u32::from(bits.div_ceil(8));
        let mut place = |want: &dyn Fn(Storage) -> Option<u16>, at: &mut u32| {
            for c in out.iter_mut() {
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
        let char_columns: Vec<u16> = (0..out.len() as u16)
            .filter(|&i| matches!(out[i as usize].storage, Storage::Char { .. }))
            .collect();
        if !char_columns.is_empty() {
            at = at.max(char_area + 8);
        }
        let mut strings = vec![];
        for c in out.iter_mut() {
            if c.storage.is_string() {
                c.offset = at as u16;
                strings.push(at as u16);
                at += 16;
            }
        }
        Layout {
            columns: out,
            types: columns.iter().map(|c| c.0).collect(),
            row_size: (at as usize).next_multiple_of(16),
            char_area: char_area as u16,
            char_columns,
            strings,
        }
    }

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
