//! A table of MySQL or MariaDB loaded from its file, by several threads.
//!
//! ```text
//! workers            read, prove, convert, insert: parts of the file, each into pages of its own
//! session's thread   transaction begun, lent ── counts what is done ── keys made of the rows, on all cores ── committed
//! ```
//! - **P1** The table and its rows are one transaction's: after an error, or a crash, there is neither.
//! - **P2** Values are those of `innodb_scan`; what has no value here ends the import with an error that
//!   names file, page and column, unless told otherwise.
//! - **P3** Nobody else sees the table before it is whole: so rows are entered into no index, and each key is
//!   sorted once they are all there.
use crate::innodb::leaves::Maker;
use crate::innodb::{Either, InnodbTable, failed};
use crate::session::Session;
use crate::session::planned::is_stale;
use ondol_engine::{Access, ColumnDef, IndexColumn, IndexKind, Inserter, Isolation, Name, Nature, RowBatch};
use ondol_innodb::error::{Error, Kind};
use ondol_innodb::evidence::{self, Evidence};
use ondol_innodb::scan::{Buffers, Scan};
use ondol_innodb::value::{ZeroBytes, ZeroDates};
use ondol_scan::pipeline::{self, Hand};
use ondol_sql::bound::NewIndex;
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::sync::Arc;

/// Bytes of rows that a worker inserts at once, roughly.
const PIECE: usize = 1 << 20;
/// Parts for each worker at least, where the file has leaves for them.
const TURNS: usize = 8;
/// Bytes in a name.
const MAX_NAME: usize = 63;

/// What is made of a file's table.
#[derive(Clone, Debug)]
pub struct Import {
    /// The new table's name, as it is: without quotes SQL asks for names in lower case.
    pub table: String,
    /// What becomes of dates that are no days of the calendar.
    pub zero_dates: ZeroDates,
    /// What becomes of zero bytes in texts.
    pub zero_bytes: ZeroBytes,
    /// Threads that read, convert and insert; at least one.
    pub workers: usize,
    /// Why each file is believed, as [`evidence::find`] told; looked at once more before the commit.
    pub evidence: Vec<Evidence>,
}

/// What was imported, so far or in all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    pub rows: u64,
    /// Bytes of pages that were read.
    pub read: u64,
    /// Dates that are no days of the calendar and became NULL, as was wished.
    pub nulled: u64,
    /// Rows of a system-versioned table's history that were left out.
    pub history: u64,
    /// What the new table has not: columns and keys, each with the reason.
    pub left_out: Vec<String>,
}

/// What a worker has done.
#[derive(Default)]
struct Step {
    rows: u64,
    nulled: u64,
    history: u64,
    read: u64,
}

/// The keys of a table that can be made here, and why others cannot, nor columns that no file holds.
fn keys(table: &InnodbTable) -> (Vec<NewIndex>, Vec<String>) {
    let there = &table.scan().definition().table;
    let (mut made, mut left_out) = (Vec::new(), Vec::new());
    let virtual_columns = ondol_innodb::export::virtual_columns(table.scan());
    left_out.extend(
        virtual_columns.iter().map(|name| format!("the column {name}: it is virtual, no file holds it")),
    );
    // Of rows that are current the end of their time tells nothing apart.
    let end = table.scan().hides_history().map(|period| period.end);
    let index = |name: Option<String>, primary, columns: &[(usize, u32)]| {
        let places =
            columns.iter().filter(|(c, _)| Some(*c) != end).map(|(c, prefix)| match table.place(*c) {
                Some(column) if *prefix == 0 => Ok(IndexColumn { column, desc: false, nulls_first: false }),
                Some(_) => Err("it is of a part of a column"),
                None => Err("it has a column that SELECT * does not show"),
            });
        let columns = places.collect::<Result<Vec<_>, _>>()?;
        Ok::<_, &str>(NewIndex {
            name,
            kind: IndexKind::Btree,
            unique: true,
            primary,
            constraint: true,
            columns,
            options: Default::default(),
        })
    };
    if !there.key.is_empty() {
        match index(None, true, &there.key) {
            Ok(index) => made.push(index),
            Err(why) => left_out.push(format!("the primary key: {why}")),
        }
    }
    for key in &there.unique {
        match index(None, false, &key.columns) {
            Ok(index) => made.push(index),
            Err(why) => left_out.push(format!("the unique key {}: {why}", key.name)),
        }
    }
    (made, left_out)
}

impl Session {
    /// Makes a table of a tablespace's, with its primary key and unique keys, and loads its rows. `progress`
    /// is called now and then. It is refused within a transaction.
    pub fn import_innodb(
        &mut self,
        scan: &Scan,
        import: &Import,
        progress: impl FnMut(&Imported),
    ) -> SqlResult<Imported> {
        self.import_partitions(std::slice::from_ref(scan), import, progress)
    }

    /// The same of a table whose partitions are these.
    pub fn import_partitions(
        &mut self,
        scans: &[Scan],
        import: &Import,
        mut progress: impl FnMut(&Imported),
    ) -> SqlResult<Imported> {
        self.timed(|s| {
            if s.in_transaction() {
                return Err(SqlError::new(
                    sqlstate::ACTIVE_SQL_TRANSACTION,
                    "an import cannot run inside a transaction block",
                ));
            }
            s.fresh = false;
            s.refuse_read_only("CREATE TABLE")?;
            s.connection.begin(Isolation::ReadCommitted, Access::ReadWrite)?;
            // P1
            let done = s.import_rows(scans, import, &mut progress).and_then(|done| {
                for (scan, evidence) in scans.iter().zip(&import.evidence) {
                    evidence::still(scan.space(), evidence).map_err(failed)?;
                }
                s.connection.commit()?;
                Ok(done)
            });
            done.inspect_err(|_| {
                s.connection.abort_statement();
                s.connection.rollback()
            })
        })
    }

    fn import_rows(
        &mut self,
        scans: &[Scan],
        import: &Import,
        progress: &mut dyn FnMut(&Imported),
    ) -> SqlResult<Imported> {
        let workers = import.workers.max(1);
        let mut sources = Vec::with_capacity(scans.len());
        for scan in scans {
            let mut scan = scan.clone();
            scan.cut((workers * TURNS).div_ceil(scans.len()));
            sources.push(InnodbTable::new(scan, import.zero_dates, import.zero_bytes)?)
        }
        super::partitions::check_same(&sources)?;
        let Some(source) = sources.first() else { return Ok(Imported::default()) };
        if import.table.is_empty() || import.table.len() > MAX_NAME {
            let message =
                format!("\"{}\" is no name of a table: expected 1 to {MAX_NAME} bytes", import.table);
            return Err(SqlError::new("42602", message));
        }
        let mut columns: Vec<ColumnDef> = source.definitions();
        let (keys, left_out) = keys(source);
        for key in keys.iter().filter(|key| key.primary) {
            key.columns.iter().for_each(|c| columns[c.column].not_null = true);
        }
        let name = {
            let path = self.path(&self.connection.catalog());
            let none = || SqlError::new("3F000", "no schema has been selected to create in");
            Name::new(path.makes_in.ok_or_else(none)?, &*import.table)
        };
        self.create_table(&name, &columns, (&[], &[], &[]), Nature::default(), false)?;
        let table = loop {
            let catalog = self.connection.catalog();
            let table = catalog.table(&name).ok_or_else(|| crate::session::define::no_table(&name))?.clone();
            match self.connection.start_statement(catalog.version, std::slice::from_ref(&table), true) {
                // Others have changed what is theirs.
                Err(e) if is_stale(&e) => continue,
                started => started?,
            }
            break table;
        };

        let place =
            |(n, source): (usize, &InnodbTable)| (0..source.scan().parts()).map(move |part| (n, part));
        let places: Vec<(usize, usize)> = sources.iter().enumerate().flat_map(place).collect();
        let (sources, parts) = (Arc::new(sources), places.len());
        let options = pipeline::Options { workers, ordered: true, ahead: workers * 2 };
        let mut total = Imported { left_out, ..Imported::default() };
        let cancel = self.cancel.clone();
        self.connection.lend_writing(|loan| {
            let loan = loan.clone();
            let state = move || (Buffers::default(), None, loan.inserter());
            let work =
                move |(buffers, kept, inserter): &mut (Buffers, Option<(usize, Maker)>, Option<Inserter>),
                      place: usize,
                      hand: &Hand<'_, Step, Either>| {
                    let Some(inserter) = inserter else {
                        let message = "a transaction was not lent for writing";
                        return Err(Either(SqlError::new(sqlstate::INTERNAL_ERROR, message)));
                    };
                    let (n, part) = places[place];
                    let source = &sources[n];
                    // One that is for another partition is of no use.
                    kept.take_if(|kept| kept.0 != n);
                    let (_, maker) = kept.get_or_insert_with(|| (n, Maker::new(source)));
                    load(source, &table, part, buffers, maker, inserter, hand)
                };
            pipeline::run(parts, options, state, work, |_, step: Step| {
                if cancel.is_told() {
                    return Err(Either(crate::session::runtime::canceled()));
                }
                total.rows += step.rows;
                total.nulled += step.nulled;
                total.history += step.history;
                total.read += step.read;
                progress(&total);
                Ok(())
            })
            .map_err(|e| e.0)
        })??;
        self.connection.end_statement()?;
        // P3
        for key in &keys {
            self.create_index(&name, key, None, false)?;
        }
        Ok(total)
    }
}

/// Inserts a part's rows.
fn load(
    source: &InnodbTable,
    table: &Arc<ondol_engine::Table>,
    part: usize,
    buffers: &mut Buffers,
    maker: &mut Maker,
    inserter: &mut Inserter,
    hand: &Hand<'_, Step, Either>,
) -> Result<(), Either> {
    let scan = source.scan();
    let mut made = RowBatch::new(table.layout.clone(), PIECE);
    let mut insert = |made: &mut RowBatch| {
        inserter.insert_rows(table, made)?;
        let rows = made.len() as u64;
        made.clear();
        Ok(rows)
    };
    // The first error that is none of the file's.
    let mut wrong = None;
    let stopped = || Error::new(scan.space().path(), Kind::Io, "the import was stopped");
    let read = scan.read(part, buffers, |leaf| {
        let added = maker.add(&leaf, &mut made, |made| {
            if made.bytes() < PIECE {
                return Ok(());
            }
            let rows = insert(made)?;
            hand.over(Step { rows, ..Step::default() }).map_err(|_| failed(stopped()))
        });
        added.map_err(|e| {
            wrong = Some(e);
            stopped()
        })
    });
    if let Some(e) = wrong {
        return Err(Either(e));
    }
    let history = read?.history as u64;
    let rows = insert(&mut made).map_err(Either)?;
    let step = Step { rows, nulled: maker.take_nulled(), history, read: scan.part_bytes(part) };
    hand.over(step).map_err(|_| Either::from(stopped()))
}
