//! A table made anew because the layout of its rows changes.
use crate::catalog::TableDef;
use crate::connection::Connection;
use crate::database::find;
use crate::dictionary as d;
use crate::fill::{From, fill};
use crate::name::Name;
use crate::row;
use crate::table::{Table, TableIndex};
use ondol_base::sim::mutated;
use ondol_kernel::Strings;
use ondol_kernel::heap::Slots;
use ondol_kernel::transaction::Newest;
use ondol_types::{SqlError, SqlResult, Value, ValueRef, sqlstate};
use std::sync::Arc;

/// What a value of a column becomes.
pub type Convert = Arc<dyn Fn(Value) -> SqlResult<Value>>;

/// What a value becomes of values of its row.
pub type Compute = Arc<dyn Fn(&[ValueRef<'_>]) -> SqlResult<Value>>;

/// Where the values of a column come from when its table is changed.
#[derive(Clone)]
pub enum Origin {
    /// A column of the table as it was.
    Column(usize),
    /// One of another type.
    Converted(usize, Convert),
    /// It is the same in all rows.
    Value(Value),
    /// It is computed of values of these columns, and takes the place of one, perhaps.
    Computed { of: Vec<usize>, by: Compute, was: Option<usize> },
    /// NULL in all rows, which are going to get values of their own.
    Nulls,
}

impl Origin {
    /// The column of the table as it was that lives on in this one.
    pub(crate) fn was(&self) -> Option<usize> {
        match self {
            Origin::Column(n) | Origin::Converted(n, _) => Some(*n),
            Origin::Computed { was, .. } => *was,
            Origin::Value(_) | Origin::Nulls => None,
        }
    }
}

impl Connection {
    /// Makes columns NOT NULL, as a primary key's must be.
    pub(crate) fn forbid_nulls(&mut self, name: &Name, columns: &[usize]) -> SqlResult<()> {
        let old = find(&self.catalog(), name)?.clone();
        if columns.iter().all(|&i| old.def.columns[i].not_null) {
            return Ok(());
        }
        self.mark_table(&old, "ALTER TABLE")?;
        let mut def = old.def.clone();
        columns.iter().for_each(|&i| def.columns[i].not_null = true);
        let origins: Vec<Origin> = (0..def.columns.len()).map(Origin::Column).collect();
        let new = self.redefined(&old, def, &origins)?;
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
        let copy = self.empty_copy(def)?;
        let (def, heaps) = (&copy.def, copy.heaps);
        self.dropped.push(old.heaps);
        d::remove_table(&mut self.session, &db.dictionary, def.id)?;
        d::add_table(&mut self.session, &db.dictionary, def, heaps)?;
        self.copy_rows(old, &copy, origins)?;
        let indexes = self.fill_copy(old, &copy, From::Own(self.session.view.txn))?;
        Ok(Table::new(&db.kernel, copy.def.clone(), heaps, indexes, Some(old)))
    }

    /// A table on heaps of its own, in which its rows are to be laid out anew; without indexes, and nobody
    /// else's yet.
    pub(crate) fn empty_copy(&mut self, mut def: TableDef) -> SqlResult<Arc<Table>> {
        def.lay_anew();
        let heaps = self.db.next_heaps(&def)?;
        self.made.push(heaps);
        Ok(Table::new(&self.db.kernel, def, heaps, vec![], None))
    }

    /// The indexes of a table's copy, which has none yet and is nobody else's.
    pub(crate) fn fill_copy(
        &mut self,
        old: &Table,
        copy: &Arc<Table>,
        from: From,
    ) -> SqlResult<Vec<Arc<TableIndex>>> {
        let (db, rows) = (self.db.clone(), old.count_rows());
        let indexes = copy.def.indexes.iter();
        let indexes = indexes.map(|i| TableIndex::new(&db.kernel, &copy.def, &copy.layout, i.clone(), rows));
        let indexes = indexes.collect::<SqlResult<Vec<_>>>()?;
        let cancel = self.session.patience.cancel.clone();
        let filled = fill(&db.kernel, vec![(copy.clone(), indexes.clone())], from, cancel, &|_| {})?;
        self.outdated.append(filled.outdated);
        Ok(indexes)
    }

    /// Refuses a table in one of whose rows a column is NULL that must not be; each comes with the name that
    /// it is to have. The table is marked, so the newest versions are what there is.
    pub(crate) fn refuse_nulls(&mut self, table: &Arc<Table>, columns: &[(usize, String)]) -> SqlResult<()> {
        if columns.is_empty() {
            return Ok(());
        }
        let mut scratch = vec![];
        self.each_newest(table, &mut |me, bytes| {
            for (column, name) in columns {
                scratch.clear();
                let value = row::column(&table.layout, bytes, *column, &Newest(&me.session), &mut scratch);
                if value.is_null() {
                    return Err(has_nulls(table, name));
                }
            }
            Ok(())
        })
    }

    /// Gives each row, as it is now, to `f`.
    fn each_newest(
        &mut self,
        table: &Arc<Table>,
        f: &mut dyn FnMut(&mut Connection, &[u8]) -> SqlResult<()>,
    ) -> SqlResult<()> {
        let mut slots = Slots::default();
        slots.start(&table.store.rows);
        let mut bytes = vec![0; table.layout.row_size];
        let mut turn = 0;
        loop {
            let next = {
                let _pin = self.session.pin();
                slots.next(&self.db.kernel.space)
            };
            let Some(oid) = next else { return Ok(()) };
            turn += 1;
            if turn % 256 == 0 {
                self.session.patience.look_around().map_err(crate::error::kernel)?
            }
            if self.session.read_newest(oid, &mut bytes) {
                f(self, &bytes)?
            }
        }
    }

    fn copy_rows(&mut self, old: &Arc<Table>, new: &Arc<Table>, origins: &[Origin]) -> SqlResult<()> {
        let mut conversion = Conversion::new(old, new, origins);
        self.each_newest(old, &mut |me, bytes| {
            let values = conversion.values(bytes, &Newest(&me.session))?;
            // As far as foreign keys go it is the row that it was.
            me.insert_unnoted(new, &values).map(drop)
        })
    }
}

/// Makes the new rows' values of the old rows' bytes.
pub(crate) struct Conversion<'a> {
    old: &'a Table,
    new: &'a Table,
    origins: &'a [Origin],
    /// Of each new column: the value, where it is not one of the old row's, and room for its bytes.
    made: Vec<Option<Value>>,
    scratch: Vec<Vec<u8>>,
    /// Room for the values that one is computed of.
    rooms: Vec<Vec<u8>>,
}

impl<'a> Conversion<'a> {
    pub fn new(old: &'a Table, new: &'a Table, origins: &'a [Origin]) -> Conversion<'a> {
        let count = new.def.columns.len();
        let of = |o: &Origin| if let Origin::Computed { of, .. } = o { of.len() } else { 0 };
        let rooms = vec![vec![]; origins.iter().map(of).max().unwrap_or(0)];
        Conversion { old, new, origins, made: vec![None; count], scratch: vec![vec![]; count], rooms }
    }

    /// The values of the row whose bytes these are, NULL only where that may be.
    pub fn values<'v>(&'v mut self, bytes: &'v [u8], strings: &dyn Strings) -> SqlResult<Vec<ValueRef<'v>>> {
        let layout = &self.old.layout;
        let columns =
            self.made.iter_mut().zip(&mut self.scratch).zip(self.origins).zip(&self.new.def.columns);
        for (((made, scratch), origin), column) in columns {
            scratch.clear();
            *made = match origin {
                _ if column.is_left() => Some(Value::Null),
                Origin::Column(_) => None,
                Origin::Converted(i, convert) => {
                    let was = row::column(layout, bytes, *i, strings, scratch).to_owned();
                    scratch.clear();
                    Some(convert(was)?)
                }
                Origin::Value(v) => Some(v.clone()),
                Origin::Nulls => Some(Value::Null),
                Origin::Computed { of, by, .. } => {
                    let rooms = self.rooms.iter_mut();
                    let given = of.iter().zip(rooms).map(|(i, room)| {
                        room.clear();
                        row::column(layout, bytes, *i, strings, room)
                    });
                    Some(by(&given.collect::<Vec<_>>())?)
                }
            };
        }
        let all = self.made.iter().zip(&mut self.scratch).zip(self.origins);
        let values = all.map(|((made, scratch), origin)| match (made, origin) {
            (Some(v), _) => v.as_ref(scratch),
            (None, Origin::Column(i)) if mutated("columns_shifted") => {
                row::column(layout, bytes, (i + 1) % self.old.def.columns.len(), strings, scratch)
            }
            (None, Origin::Column(i)) => row::column(layout, bytes, *i, strings, scratch),
            (None, _) => ValueRef::Null,
        });
        let values: Vec<ValueRef<'v>> = values.collect();
        match values.iter().zip(&self.new.def.columns).find(|(v, c)| c.not_null && v.is_null()) {
            None => Ok(values),
            Some((_, column)) => Err(has_nulls(self.old, &column.name)),
        }
    }
}

fn has_nulls(table: &Table, column: &str) -> SqlError {
    let message = format!("column \"{column}\" of relation \"{}\" contains null values", table.def.name);
    SqlError::new(sqlstate::NOT_NULL_VIOLATION, message)
        .table(table.def.schema, &table.def.name)
        .column(column)
}
