//! Tables and their indexes as live objects.
use crate::catalog::{ColumnDef, ForeignDef, IndexDef, IndexKind, Reference, TableDef};
use crate::connection::Connection;
use crate::error;
use crate::layout::{Laid, Layout, Storage};
use crate::members::{Members, is_member};
use crate::point::PointIndex;
use crate::row;
use ondol_base::oid::Oid;
use ondol_index::Seen;
use ondol_index::btree::{Cursor, KeyShape};
use ondol_index::crtree::{self, CrTree, MOST};
use ondol_kernel::registry;
use ondol_kernel::wait::SessionId;
use ondol_kernel::{IndexStore, Kernel, KeyOf, Strings, TableStore, VersionKeys};
use ondol_types::coordinate::coordinate;
use ondol_types::{SqlResult, TypeId, ValueRef};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// How an index's key is made of column values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// (column, type, desc, nulls first, not null)
    pub parts: Vec<(usize, TypeId, bool, bool, bool)>,
    /// The key's width when every part has a fixed one.
    pub width: Option<usize>,
    /// How many of the parts, from the first on, make the key no other's by being NULL: all, but where NULLs
    /// are not distinct.
    pub distinct: usize,
}

impl KeySpec {
    pub fn new(table: &TableDef, index: &IndexDef) -> KeySpec {
        let parts: Vec<_> = index
            .columns
            .iter()
            .map(|c| {
                let d = &table.columns[c.column];
                (c.column, d.ty.id, c.desc, c.nulls_first, !d.has_bit())
            })
            .collect();
        let width = parts.iter().map(|p| ondol_types::key::width(p.1, p.4)).sum();
        let distinct = match index.options.nulls_not_distinct {
            true => usize::from(index.options.partial),
            false => parts.len(),
        };
        KeySpec { parts, width, distinct }
    }
    /// Appends the normalised key of the first `values.len()` parts.
    pub fn encode(&self, values: &[ValueRef<'_>], out: &mut Vec<u8>) {
        for (v, p) in values.iter().zip(&self.parts) {
            ondol_types::key::encode(*v, p.1, p.2, p.3, p.4, out)
        }
    }
}

/// The key of a row's bytes: what the kernel asks for.
pub struct RowKey {
    layout: Arc<Layout>,
    spec: KeySpec,
    ranges: Vec<(usize, usize)>,
    /// The parts, where all are integers: their keys are made straight from the bytes.
    integers: Option<Vec<Integer>>,
    /// The key's length where it is of integers that are not NULL and fits into 16 bytes, as most keys of
    /// several columns do.
    short: Option<usize>,
}

#[inline(always)]
fn fixed<const N: usize>(row: &[u8], at: usize) -> Option<[u8; N]> {
    row.get(at..)?.first_chunk().copied()
}

/// A key part that is a signed little-endian number in the row.
struct Integer {
    offset: usize,
    bytes: usize,
    /// Where the null bit is, and the byte that a NULL's key begins with.
    null: Option<(usize, u8, u8)>,
    desc: bool,
}

impl Integer {
    fn of(layout: &Layout, part: &(usize, TypeId, bool, bool, bool)) -> Option<Integer> {
        let &(column, ty, desc, nulls_first, not_null) = part;
        let c = layout.columns[column];
        let bytes = match c.storage {
            Storage::Int2 | Storage::Int4 | Storage::Int8 | Storage::Date => row::width(c.storage),
            Storage::Timestamp | Storage::Timestamptz => row::width(c.storage),
            _ => return None,
        };
        // Both say the same of NULLs, or neither way here is the key that others make.
        if c.null_bit.is_some() == not_null {
            return None;
        }
        let mut of_null = vec![];
        ondol_types::key::encode(ValueRef::Null, ty, desc, nulls_first, not_null, &mut of_null);
        let null = c.null_bit.map(|b| (b as usize / 8, 1 << (b % 8), of_null[0]));
        Some(Integer { offset: c.offset as usize, bytes, null, desc })
    }
    /// The number's key, the first byte highest; not for a column that may be NULL.
    #[inline(always)]
    fn bits(&self, row: &[u8]) -> u64 {
        let bits = match self.bytes {
            8 => fixed(row, self.offset).map(u64::from_le_bytes),
            4 => fixed(row, self.offset).map(|b| u64::from(u32::from_le_bytes(b)) << 32),
            _ => fixed(row, self.offset).map(|b| u64::from(u16::from_le_bytes(b)) << 48),
        };
        let bits = bits.unwrap_or_default() ^ 1 << 63;
        if self.desc { !bits & !0 << (64 - 8 * self.bytes) } else { bits }
    }
    /// Appends the key; true if it is of NULL.
    #[inline(always)]
    fn key(&self, row: &[u8], out: &mut Vec<u8>) -> bool {
        // The null byte, then the number, highest byte first.
        let mut key = [1; 9];
        let mut is_null = false;
        let value = &row[self.offset..self.offset + self.bytes];
        for (k, v) in key[1..].iter_mut().zip(value.iter().rev()) {
            *k = if self.desc { !v } else { *v }
        }
        key[1] ^= 0x80;
        if let Some((byte, bit, of_null)) = self.null
            && row[byte] & bit != 0
        {
            is_null = true;
            key = [0; 9];
            key[0] = of_null
        }
        // The usual lengths by themselves: copies of a constant length call nothing.
        match (self.bytes, self.null) {
            (8, None) => out.extend_from_slice(&key[1..]),
            (8, Some(_)) => out.extend_from_slice(&key),
            (4, None) => out.extend_from_slice(&key[1..5]),
            (4, Some(_)) => out.extend_from_slice(&key[..5]),
            (n, null) => out.extend_from_slice(&key[null.is_none() as usize..1 + n]),
        }
        is_null
    }
}

impl RowKey {
    pub fn new(layout: Arc<Layout>, spec: KeySpec) -> RowKey {
        let mut ranges = vec![];
        for p in &spec.parts {
            let c = layout.columns[p.0];
            // The word of a column that was added later (engine/layout/L7).
            let width = match c.storage {
                Storage::Later { .. } => layout.word.map_or(0, |w| w.range().len()),
                storage => row::width(storage),
            };
            ranges.push((c.offset as usize, width));
            if let Some(b) = c.null_bit {
                ranges.push((b as usize / 8, 1))
            }
            if matches!(c.storage, Storage::Char { .. }) {
                // The wide flag and reference (engine/layout/L3).
                ranges.push((0, 1));
                ranges.push((layout.char_area as usize, 8));
            }
        }
        let integers: Option<Vec<Integer>> = spec.parts.iter().map(|p| Integer::of(&layout, p)).collect();
        let numbers = integers.iter().flatten();
        let short = (integers.is_some() && numbers.clone().all(|i| i.null.is_none()))
            .then(|| numbers.map(|i| i.bytes).sum())
            .filter(|n| *n <= 16);
        RowKey { layout, spec, ranges, integers, short }
    }
}

impl KeyOf for RowKey {
    fn key(&self, row: &[u8], strings: &dyn Strings, out: &mut Vec<u8>) -> bool {
        let mut nulls = false;
        if let Some(integers) = &self.integers {
            if let Some(len) = self.short {
                let (mut key, mut at) = (0u128, 64);
                for i in integers {
                    // What a number fills of its 64 bits goes behind the numbers before it.
                    let bits = i.bits(row) as u128;
                    key |= if at >= 0 { bits << at } else { bits >> -at };
                    at -= 8 * i.bytes as i32;
                }
                let end = out.len() + len;
                out.extend_from_slice(&key.to_be_bytes());
                out.truncate(end);
                return false;
            }
            for (n, i) in integers.iter().enumerate() {
                nulls |= i.key(row, out) && n < self.spec.distinct
            }
            return nulls;
        }
        for (n, p) in self.spec.parts.iter().enumerate() {
            let mut scratch = vec![];
            let v = row::column(&self.layout, row, p.0, strings, &mut scratch);
            nulls |= v.is_null() && n < self.spec.distinct;
            ondol_types::key::encode(v, p.1, p.2, p.3, p.4, out)
        }
        nulls
    }
    fn unaffected(&self, old: &[u8], new: &[u8]) -> bool {
        self.ranges.iter().all(|(o, l)| old[*o..o + l] == new[*o..o + l])
    }
    fn ranges(&self) -> &[(usize, usize)] {
        &self.ranges
    }
}

/// The key of a row's point: an index by boxes is asked for that. NULL is at the end of its axis, so that the
/// row is found where nothing is asked of that column; whoever asks looks at the row anyway. A row of which
/// all values are NULL is found by no condition, and its key has no bytes.
struct PointKey {
    row: RowKey,
}

impl KeyOf for PointKey {
    fn key(&self, row: &[u8], strings: &dyn Strings, out: &mut Vec<u8>) -> bool {
        let mut point = [0.0; MOST];
        let parts = &self.row.spec.parts;
        let mut scratch = vec![];
        let mut nulls = 0;
        for (x, part) in point.iter_mut().zip(parts) {
            let value = row::column(&self.row.layout, row, part.0, strings, &mut scratch);
            let found = coordinate(value);
            nulls += usize::from(found.is_none());
            *x = found.unwrap_or(f64::MAX)
        }
        if nulls < parts.len() {
            crtree::put_key(&point[..parts.len()], out)
        }
        nulls > 0
    }
    fn unaffected(&self, old: &[u8], new: &[u8]) -> bool {
        self.row.unaffected(old, new)
    }
    fn ranges(&self) -> &[(usize, usize)] {
        self.row.ranges()
    }
}

pub struct TableIndex {
    pub def: IndexDef,
    pub key: KeySpec,
    pub index: ondol_index::IndexRef,
    pub store: Arc<IndexStore>,
    /// The index as the shortest way to a row, where it is one.
    pub point: Option<PointIndex>,
}

impl TableIndex {
    /// An empty index for about `expected` entries.
    pub fn new(
        kernel: &Kernel,
        table: &TableDef,
        layout: &Arc<Layout>,
        def: IndexDef,
        expected: u64,
    ) -> SqlResult<Arc<TableIndex>> {
        let key = KeySpec::new(table, &def);
        let full =
            |_| crate::error::kernel(ondol_kernel::Error::OutOfMemory { limit: kernel.space.budget.limit() });
        let budget: Arc<dyn ondol_index::Budget> = kernel.space.budget.clone();
        let mut point = None;
        let row_key = RowKey::new(layout.clone(), key.clone());
        let row_key: Arc<dyn KeyOf> = match def.kind {
            IndexKind::Crtree { .. } => Arc::new(PointKey { row: row_key }),
            _ => Arc::new(row_key),
        };
        let index: ondol_index::IndexRef = match def.kind {
            IndexKind::Crtree { bits } => {
                let keys = VersionKeys::new(kernel.space.clone(), layout.row_size, row_key.clone());
                let tree = CrTree::new(key.parts.len(), bits.into(), Arc::new(keys), budget);
                Arc::new(tree.map_err(full)?)
            }
            IndexKind::Hash => {
                let hash = Arc::new(ondol_index::hash::HashIndex::new(budget, expected).map_err(full)?);
                point = PointIndex::new(&def, &key, layout, &hash);
                hash
            }
            IndexKind::Btree => {
                let shape = match key.width {
                    Some(w) if w <= 64 => KeyShape::Fixed(w),
                    _ => KeyShape::Variable,
                };
                Arc::new(ondol_index::btree::BTree::new(shape, budget).map_err(full)?)
            }
        };
        let index: ondol_index::IndexRef = match def.options.partial {
            true => Arc::new(Members(index)),
            false => index,
        };
        let store =
            Arc::new(IndexStore { id: def.id, unique: def.unique, index: index.clone(), key: row_key });
        Ok(Arc::new(TableIndex { def, key, index, store, point }))
    }
}

impl TableIndex {
    /// Whether an entry is made under the key (members/M1).
    #[inline]
    pub(crate) fn takes(&self, key: &[u8]) -> bool {
        !self.def.options.partial || is_member(key)
    }
}

/// What writers do for an index that is being built beside them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// They note which keys grow old.
    Noted,
    /// They enter keys as well.
    Entered,
}

/// Foreign keys that a transaction adds beside the table's users (define/foreign/R5).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Coming {
    pub by: SessionId,
    pub keys: Vec<u32>,
}

pub struct Table {
    pub def: TableDef,
    pub layout: Arc<Layout>,
    pub indexes: Vec<Arc<TableIndex>>,
    pub store: Arc<TableStore>,
    /// Number of the heaps: 2n for rows, 2n + 1 for strings.
    pub heaps: u32,
    /// The session whose open transaction changes the table's definition; 0: none.
    pub locked: Arc<AtomicU64>,
    /// An index that readers may not use yet (see `online`).
    pub building: Option<(Arc<TableIndex>, Stage)>,
    /// How often the indexes that writers keep up have changed beside them.
    pub generation: u32,
    /// The foreign keys that name its rows.
    pub references: Arc<[Reference]>,
    /// Of its foreign keys, those that are not there yet.
    pub coming: Option<Coming>,
}

impl Table {
    /// `former`: the table that this one takes the place of.
    pub fn new(
        kernel: &Kernel,
        def: TableDef,
        heaps: u32,
        indexes: Vec<Arc<TableIndex>>,
        former: Option<&Table>,
    ) -> Arc<Table> {
        let generation = former.map_or(0, |t| t.generation);
        let locked = former.map_or_else(Default::default, |t| t.locked.clone());
        let references = former.map_or_else(|| Arc::new([]) as Arc<[_]>, |t| t.references.clone());
        Arc::new(Self::make(kernel, def, heaps, indexes, None, locked, generation, references))
    }
    /// The table when these foreign keys name its rows.
    pub(crate) fn with_references(&self, kernel: &Kernel, references: Arc<[Reference]>) -> Arc<Table> {
        let (def, indexes, locked) = (self.def.clone(), self.indexes.clone(), self.locked.clone());
        let (building, generation) = (self.building.clone(), self.generation);
        Arc::new(Self::make(kernel, def, self.heaps, indexes, building, locked, generation, references))
    }
    /// The table with an index that is being built, or without the one that was. Its name in lines is
    /// another.
    pub(crate) fn with_building(
        &self,
        kernel: &Kernel,
        building: Option<(Arc<TableIndex>, Stage)>,
    ) -> Arc<Table> {
        let (def, indexes, locked) = (self.def.clone(), self.indexes.clone(), self.locked.clone());
        let (generation, references) = (self.generation + 1, self.references.clone());
        Arc::new(Self::make(kernel, def, self.heaps, indexes, building, locked, generation, references))
    }
    #[allow(clippy::too_many_arguments)]
    fn make(
        kernel: &Kernel,
        def: TableDef,
        heaps: u32,
        indexes: Vec<Arc<TableIndex>>,
        building: Option<(Arc<TableIndex>, Stage)>,
        locked: Arc<AtomicU64>,
        generation: u32,
        references: Arc<[Reference]>,
    ) -> Table {
        let layout = Self::layout_of(&def);
        let store = Arc::new(TableStore {
            rows: kernel.heap(heaps * 2),
            strings: kernel.heap(heaps * 2 + 1),
            row_size: layout.row_size,
            entered: indexes.len() + matches!(building, Some((_, Stage::Entered))) as usize,
            indexes: indexes.iter().chain(building.iter().map(|b| &b.0)).map(|i| i.store.clone()).collect(),
        });
        Table { def, layout, indexes, store, heaps, locked, building, generation, references, coming: None }
    }
    /// The table with other foreign keys, its own and those that name its rows. Its name in lines is another.
    pub(crate) fn announcing(
        &self,
        kernel: &Kernel,
        def: TableDef,
        references: Arc<[Reference]>,
        coming: Option<Coming>,
    ) -> Arc<Table> {
        let (indexes, locked, generation) = (self.indexes.clone(), self.locked.clone(), self.generation + 1);
        let table = Self::make(kernel, def, self.heaps, indexes, None, locked, generation, references);
        Arc::new(Table { coming, ..table })
    }
    /// Who adds the foreign key of that number; `None`: it is there, or is none of the table's.
    pub(crate) fn comes_by(&self, key: u32) -> Option<SessionId> {
        self.coming.as_ref().filter(|c| c.keys.contains(&key)).map(|c| c.by)
    }
    /// The foreign keys that are there, whatever others are being added.
    pub fn foreign_keys(&self) -> impl Iterator<Item = &ForeignDef> {
        self.def.foreign.iter().filter(|f| self.comes_by(f.id).is_none())
    }
    /// The indexes that writers have to think of.
    pub fn kept_up(&self) -> impl Iterator<Item = &Arc<TableIndex>> {
        self.indexes.iter().chain(self.building.iter().map(|b| &b.0))
    }
    /// Whether some index's key depends on the column, or a foreign key.
    pub fn is_keyed(&self, column: usize) -> bool {
        self.kept_up().any(|i| i.def.columns.iter().any(|c| c.column == column))
            || self.def.foreign_of(column).next().is_some()
    }
    /// The table as a transaction that uses it names it in its line (connection/N1).
    #[inline]
    pub(crate) fn name(&self) -> u64 {
        registry::table_name(self.def.id, self.generation)
    }
    pub fn layout_of(def: &TableDef) -> Arc<Layout> {
        let laid = |c: &ColumnDef| Laid {
            ty: c.ty,
            not_null: c.not_null,
            packed: c.packed,
            later: c.later.clone(),
            rank: c.rank,
            bit: c.has_bit(),
            hidden: c.is_hidden(),
        };
        Arc::new(Layout::of(def.columns.iter().map(laid).collect(), def.nature.room))
    }
    /// Pages of rows in use, of 4 KiB.
    pub fn pages(&self) -> usize {
        self.store.rows.pages()
    }
    /// Rows that are taken, live or not yet collected: every page is looked at.
    pub fn count_rows(&self) -> u64 {
        self.store.rows.taken()
    }
    /// About as many, in a time that does not grow with the table.
    pub fn estimate_rows(&self) -> u64 {
        self.store.rows.estimate_taken()
    }
}

/// A range scan over a B+-tree, reusable: `seek` again and again without allocating. Yields candidate OIDs in
/// key order; the caller reads the row in its snapshot and, by [`IndexScan::key`], rechecks that the row's
/// key is still the entry's (index/I4).
#[derive(Default)]
pub struct IndexScan {
    cursor: Cursor,
    index: Option<Arc<TableIndex>>,
    /// The key of the entry that `next` gave.
    pub key: Vec<u8>,
    seen: Vec<Seen>,
}

impl IndexScan {
    pub fn seek(
        &mut self,
        connection: &Connection,
        index: &Arc<TableIndex>,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        backward: bool,
    ) -> SqlResult<()> {
        let _ = connection;
        if !self.index.as_ref().is_some_and(|i| Arc::ptr_eq(i, index)) {
            self.index = Some(index.clone())
        }
        let Some(tree) = index.index.as_btree() else {
            return Err(ondol_types::SqlError::new(
                ondol_types::sqlstate::INTERNAL_ERROR,
                format!("a range scan over index {}, which has no order", index.def.name),
            ));
        };
        let direction = if backward {
            ondol_index::btree::Direction::Backward
        } else {
            ondol_index::btree::Direction::Forward
        };
        self.cursor.seek(tree, low, high, direction);
        Ok(())
    }
    /// Nothing comes until the next `seek`.
    pub fn leave(&mut self) {
        self.index = None
    }
    pub fn next(&mut self, connection: &Connection) -> SqlResult<Option<Oid>> {
        let Some(index) = &self.index else { return Ok(None) };
        let serializable = connection.session.is_serializable();
        let oid = {
            let guard = connection.session.pin();
            self.cursor.next(&guard, &mut self.key, serializable.then_some(&mut self.seen))
        };
        if serializable {
            connection.session.remember_nodes(&index.store, &mut self.seen).map_err(error::kernel)?;
            if let Some(o) = oid {
                connection.session.remember_row(o).map_err(error::kernel)?
            }
        }
        Ok(oid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondol_types::Type;

    struct None;
    impl Strings for None {
        fn string(&self, _: u64, _: usize, _: &mut Vec<u8>) {}
    }

    #[test]
    fn keys_of_integers_are_those_of_their_values() {
        let types =
            [TypeId::INT2, TypeId::INT4, TypeId::INT8, TypeId::DATE, TypeId::TIMESTAMP, TypeId::TIMESTAMPTZ];
        let value = |ty, n: i64| match ty {
            TypeId::INT2 => ValueRef::Int2(n as i16),
            TypeId::INT4 => ValueRef::Int4(n as i32),
            TypeId::INT8 => ValueRef::Int8(n),
            TypeId::DATE => ValueRef::Date(n as i32),
            TypeId::TIMESTAMP => ValueRef::Timestamp(n),
            _ => ValueRef::Timestamptz(n),
        };
        for (flags, from) in (0..8).flat_map(|f| (0..types.len()).map(move |t| (f, t))) {
            // All of them, and fewer: short keys are made in another way.
            let types = &types[from..];
            let (desc, nulls_first, not_null) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
            let columns: Vec<_> = types.iter().map(|t| (Type::with(*t, -1), not_null)).collect();
            let layout = Arc::new(Layout::new(&columns));
            let parts: Vec<_> =
                types.iter().enumerate().map(|(i, t)| (i, *t, desc, nulls_first, not_null)).collect();
            let key =
                RowKey::new(layout.clone(), KeySpec { distinct: parts.len(), parts, width: Option::None });
            assert!(key.integers.is_some());
            for n in [0, 1, -1, 77, i64::MIN, i64::MAX, 0x0102_0304_0506_0708] {
                for null in [7, 0, 3] {
                    let values: Vec<_> = (types.iter().enumerate())
                        .map(|(i, t)| if i == null && !not_null { ValueRef::Null } else { value(*t, n) })
                        .collect();
                    let (mut bytes, mut made, mut want) = (vec![], vec![], vec![]);
                    row::encode(&layout, &values, &mut bytes, &mut |_| unreachable!()).unwrap();
                    let nulls = key.key(&bytes, &None, &mut made);
                    key.spec.encode(&values, &mut want);
                    assert_eq!((made, nulls), (want, null < types.len() && !not_null), "{values:?}");
                }
            }
        }
    }
}
