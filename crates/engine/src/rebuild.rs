//! A table made anew because the layout of its rows changes.
use crate::catalog::TableDef;
use crate::connection::Connection;
use crate::database::find;
use crate::dictionary as d;
use crate::name::Name;
use crate::row;
use crate::table::{Table, TableIndex};
use ondol_base::sim::mutated;
use ondol_kernel::heap::Slots;
use ondol_kernel::transaction::Newest;
use ondol_types::{SqlError, SqlResult, Value, ValueRef, sqlstate};
use std::sync::Arc;

/// What a value of a column becomes.
pub type Convert = Arc<dyn Fn(Value) -> SqlResult<Value>>;

/// Where the values of a column come from when its table is changed.
#[derive(Clone)]
pub enum Origin {
    /// A column of the table as it was.
    Column(usize),
    /// One of another type.
    Converted(usize, Convert),
    /// It is the same in all rows.
    Value(Value),
}

impl Connection {
    /// Makes columns NOT NULL, as a primary key's must be. A column that is has no null bit, so where one was
    /// not, the rows are copied to a table of another layout, with its indexes, within the open transaction.
    /// As with PostgreSQL's rewriting forms of ALTER TABLE, a snapshot older than its commit finds no rows
    /// there.
    pub(crate) fn forbid_nulls(&mut self, name: &Name, columns: &[usize]) -> SqlResult<()> {
        let old = find(&self.catalog(), name)?.clone();
        if columns.iter().all(|&i| old.def.columns[i].not_null) {
            return Ok(());
        }
        self.mark_table(&old, "ALTER TABLE")?;
        let mut def = old.def.clone();
        columns.iter().for_each(|&i| def.columns[i].not_null = true);
        let origins: Vec<Origin> = (0..def.columns.len()).map(Origin::Column).collect();
        let new = self.rebuild(&old, def, &origins)?;
        self.draft().table(name, Some(new));
        Ok(())
    }

    /// The table with its rows copied to heaps of another layout, and indexes of their own. It is marked, so
    /// nobody else changes rows: the newest versions are what there is.
    pub(crate) fn rebuild(
        &mut self,
        old: &Arc<Table>,
        def: TableDef,
        origins: &[Origin],
    ) -> SqlResult<Arc<Table>> {
        let db = self.db.clone();
        let heaps = db.next_heaps(&def)?;
        self.made.push(heaps);
        self.dropped.push(old.heaps);
        d::remove_table(&mut self.session, &db.dictionary, def.id)?;
        d::add_table(&mut self.session, &db.dictionary, &def, heaps)?;
        let (layout, rows) = (Table::layout_of(&def), old.count_rows());
        let indexes = def
            .indexes
            .iter()
            .map(|i| TableIndex::new(&db.kernel, &def, &layout, i.clone(), rows))
            .collect::<SqlResult<Vec<_>>>()?;
        let new = Table::new(&db.kernel, def, heaps, indexes, Some(old));
        self.copy_rows(old, &new, origins)?;
        Ok(new)
    }

    fn copy_rows(&mut self, old: &Arc<Table>, new: &Arc<Table>, origins: &[Origin]) -> SqlResult<()> {
        let mut slots = Slots::default();
        slots.start(&old.store.rows);
        let mut bytes = vec![0; old.layout.row_size];
        let mut scratch: Vec<Vec<u8>> = new.def.columns.iter().map(|_| vec![]).collect();
        let mut turn = 0;
        loop {
            let next = {
                let _pin = self.session.pin();
                slots.next(&self.db.kernel.space)
            };
            let Some(oid) = next else { return Ok(()) };
            turn += 1;
            if turn % 256 == 0 {
                self.session.patience.look().map_err(crate::error::kernel)?
            }
            if !self.session.read_newest(oid, &mut bytes) {
                continue;
            }
            let strings = Newest(&self.session);
            let was = |i: usize, s: &mut Vec<u8>| {
                s.clear();
                row::column(&old.layout, &bytes, i, &strings, s).to_owned()
            };
            let values = scratch.iter_mut().zip(origins).map(|(s, origin)| match origin {
                Origin::Column(i) if mutated("columns_shifted") => {
                    Ok(was((i + 1) % old.def.columns.len(), s))
                }
                Origin::Column(i) => Ok(was(*i, s)),
                Origin::Converted(i, convert) => convert(was(*i, s)),
                Origin::Value(v) => Ok(v.clone()),
            });
            let values: Vec<Value> = values.collect::<SqlResult<_>>()?;
            let null = values.iter().zip(&new.def.columns).find(|(v, c)| c.not_null && v.is_null());
            if let Some((_, column)) = null {
                return Err(SqlError::new(
                    sqlstate::NOT_NULL_VIOLATION,
                    format!(
                        "column \"{}\" of relation \"{}\" contains null values",
                        column.name, old.def.name
                    ),
                ));
            }
            let refs: Vec<ValueRef<'_>> = values.iter().zip(&mut scratch).map(|(v, s)| v.as_ref(s)).collect();
            // As far as foreign keys go it is the row that it was.
            self.insert_unnoted(new, &refs)?;
        }
    }
}
