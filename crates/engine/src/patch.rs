//! What setting columns of a fixed width does to a row's bytes, worked out once for a statement.
//!
//! - **F1** The columns are numbers, packed numerics among them (engine/layout/L5), booleans, dates and
//!   times, and no index's key depends on them: so nothing is to be stored elsewhere, and no entry to be made
//!   or taken out.
//! - **F2** The difference is that which [`crate::row::change`] would make: the bytes of the columns and
//!   their null bits, whatever else the row holds.
use crate::layout::{Layout, Storage};
use crate::row::width;
use crate::table::Table;

/// A value for a column: the number in its lowest bytes (of a double its bits, of a packed numeric its word);
/// `None` for NULL.
pub type Bits = Option<u64>;

#[derive(Clone, Copy, Debug)]
struct Field {
    at: usize,
    width: usize,
    null: Option<u16>,
}

impl Field {
    /// False when the value is NULL and may not be.
    #[inline(always)]
    fn set(&self, value: Bits, row: &mut [u8]) -> bool {
        if let Some(b) = self.null {
            let (byte, bit) = (b as usize / 8, b % 8);
            row[byte] = row[byte] & !(1 << bit) | u8::from(value.is_none()) << bit;
        } else if value.is_none() {
            return false;
        }
        let bytes = value.unwrap_or(0).to_le_bytes();
        match self.width {
            8 => row[self.at..self.at + 8].copy_from_slice(&bytes),
            n => row[self.at..self.at + n].copy_from_slice(&bytes[..n]),
        }
        true
    }
}

/// Columns to be set, and the words of the row in which they and their null bits lie.
#[derive(Clone, Debug)]
pub struct Patch {
    fields: Box<[Field]>,
    /// Ascending.
    words: Box<[u16]>,
}

/// Words of a row that are changed at most.
const MOST: usize = 16;

impl Patch {
    /// `None` unless it may be done so (F1). A column comes once.
    pub fn new(table: &Table, columns: &[u16]) -> Option<Patch> {
        if columns.iter().any(|c| table.is_keyed(*c as usize)) {
            return None;
        }
        Patch::of(&table.layout, columns)
    }
    fn of(layout: &Layout, columns: &[u16]) -> Option<Patch> {
        let mut fields = vec![];
        let mut words = vec![];
        for &n in columns {
            let c = layout.columns.get(n as usize)?;
            let elsewhere =
                matches!(c.storage, Storage::Char { .. } | Storage::Fixed { .. } | Storage::Later { .. });
            let fixed = !c.storage.is_string() && !elsewhere;
            if !fixed || columns.iter().filter(|c| **c == n).count() > 1 {
                return None;
            }
            // What must not be NULL never is, whether or not the row has a bit for it.
            let null = c.null_bit.filter(|_| !c.not_null);
            let field = Field { at: c.offset as usize, width: width(c.storage), null };
            words.extend(field.null.map(|b| b / 64));
            words.extend((field.at / 8..=(field.at + field.width - 1) / 8).map(|w| w as u16));
            fields.push(field);
        }
        words.sort_unstable();
        words.dedup();
        (words.len() <= MOST).then(|| Patch { fields: fields.into(), words: words.into() })
    }
    /// How many columns are set.
    pub fn columns(&self) -> usize {
        self.fields.len()
    }

    /// Sets the columns in `row` and appends the pieces of what that changed, as
    /// [`ondol_kernel::version::difference`] has them. False when a value is NULL that may not be; the row
    /// counts for nothing then.
    #[inline]
    pub fn apply(&self, value: impl Fn(usize) -> Bits, row: &mut [u8], pieces: &mut Vec<u64>) -> bool {
        let word = |row: &[u8], w: u16| match row.as_chunks::<8>().0.get(w as usize) {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => 0,
        };
        let mut before = [0; MOST];
        for (i, w) in self.words.iter().enumerate() {
            before[i] = word(row, *w)
        }
        for (i, f) in self.fields.iter().enumerate() {
            if !f.set(value(i), row) {
                return false;
            }
        }
        // Where the open piece began, and the word behind its last.
        let (mut head, mut end) = (0, usize::MAX);
        for (i, w) in self.words.iter().enumerate() {
            let x = before[i] ^ word(row, *w);
            if x == 0 {
                continue;
            }
            let w = *w as usize;
            if w != end {
                head = pieces.len();
                pieces.push(w as u64);
            }
            pieces[head] += 1 << 32;
            pieces.push(x);
            end = w + 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondol_kernel::version::difference;
    use ondol_types::{Packed, Type, TypeId, ValueRef};

    /// Rows of every kind of column, with NULLs and without, changed here and by `row::change`: the same
    /// bytes, and pieces that lead to them.
    #[test]
    fn a_patch_does_what_a_change_of_the_row_does() {
        let all = [
            TypeId::BOOL,
            TypeId::INT2,
            TypeId::INT4,
            TypeId::INT8,
            TypeId::FLOAT8,
            TypeId::DATE,
            TypeId::TIMESTAMP,
            TypeId::TIMESTAMPTZ,
            TypeId::NUMERIC,
            TypeId::TEXT,
        ];
        // A numeric is a numeric(12,2), which is packed.
        let ty = |t| Type::with(t, if t == TypeId::NUMERIC { (12 << 16 | 2) + 4 } else { -1 });
        let columns: Vec<_> = all.iter().flat_map(|t| [(ty(*t), true), (ty(*t), false)]).collect();
        let layout = Layout::new(&columns);
        let value = |c: usize, bits: Bits| match (columns[c].0.id, bits) {
            (_, None) => ValueRef::Null,
            (TypeId::BOOL, Some(b)) => ValueRef::Bool(b & 1 != 0),
            (TypeId::INT2, Some(b)) => ValueRef::Int2(b as i16),
            (TypeId::INT4, Some(b)) => ValueRef::Int4(b as i32),
            (TypeId::DATE, Some(b)) => ValueRef::Date(b as i32),
            (TypeId::FLOAT8, Some(b)) => ValueRef::Float8(f64::from_bits(b)),
            (TypeId::TIMESTAMP, Some(b)) => ValueRef::Timestamp(b as i64),
            (TypeId::TIMESTAMPTZ, Some(b)) => ValueRef::Timestamptz(b as i64),
            (TypeId::NUMERIC, Some(b)) => ValueRef::Packed(Packed::new(b as i64, 2)),
            (TypeId::TEXT, Some(_)) => ValueRef::Text("text"),
            (_, Some(b)) => ValueRef::Int8(b as i64),
        };
        let mut seed = 42u64;
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            seed >> 33
        };
        // Few values, so that some stay as they are.
        let numbers = [0, 1, 0xff, 0x1_0000, u64::MAX, 1 << 63, 0x0102_0304_0506_0708];
        let bits = |c: usize, next: &mut dyn FnMut() -> u64| {
            if !columns[c].1 && next().is_multiple_of(4) {
                return None;
            }
            let b = numbers[next() as usize % numbers.len()];
            Some(match columns[c].0.id {
                TypeId::BOOL => b & 1,
                TypeId::NUMERIC => Packed::new(b as i64, 2).word() as u64,
                _ => b,
            })
        };
        let mut unchanged = 0;
        for round in 0..3_000 {
            let values: Vec<_> = (0..columns.len()).map(|c| value(c, bits(c, &mut next))).collect();
            let mut old = vec![];
            crate::row::encode(&layout, &values, &mut old, &mut |_| unreachable!("no long string")).unwrap();
            let mut set: Vec<u16> = (0..18).filter(|_| next() % 5 == 0).collect();
            if set.is_empty() {
                set.push(round % 18)
            }
            let new_bits: Vec<_> = set.iter().map(|c| bits(*c as usize, &mut next)).collect();
            let changes: Vec<_> =
                set.iter().zip(&new_bits).map(|(c, b)| (*c as usize, value(*c as usize, *b))).collect();
            let mut wanted = vec![];
            let strings = |_: &[u8]| unreachable!("no long string");
            crate::row::change(&layout, &old, &changes, &mut wanted, &Nothing, &mut { strings }, &mut vec![])
                .unwrap();
            let patch = Patch::of(&layout, &set).unwrap();
            let (mut row, mut pieces) = (old.clone(), vec![]);
            assert!(patch.apply(|i| new_bits[i], &mut row, &mut pieces));
            assert_eq!(row, wanted, "round {round}");
            let mut longer = vec![];
            difference(&old, &wanted, &mut longer);
            unchanged += u32::from(longer.is_empty());
            assert_eq!(applied(&pieces, &old), wanted, "round {round}");
            assert_eq!(applied(&longer, &old), wanted, "round {round}");
            assert_eq!(pieces.is_empty(), longer.is_empty(), "round {round}");
            assert!(pieces.iter().all(|w| *w != 0) || pieces.first() == Some(&(1 << 32)), "round {round}");
        }
        assert!(unchanged > 0);
        let not_null = Patch::of(&layout, &[0]).unwrap();
        assert!(!not_null.apply(|_| None, &mut vec![0; layout.row_size], &mut vec![]));
    }

    fn applied(pieces: &[u64], row: &[u8]) -> Vec<u8> {
        let mut out = row.to_vec();
        let mut rest = pieces;
        while let Some((head, more)) = rest.split_first() {
            let (at, n) = (*head as u32 as usize, (*head >> 32) as usize);
            for (i, x) in more[..n].iter().enumerate() {
                for (k, b) in x.to_le_bytes().iter().enumerate() {
                    out[(at + i) * 8 + k] ^= b
                }
            }
            rest = &more[n..];
        }
        out
    }

    struct Nothing;
    impl ondol_kernel::Strings for Nothing {
        fn string(&self, _: u64, _: usize, _: &mut Vec<u8>) {}
    }
}
