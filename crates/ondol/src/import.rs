//! A table of MySQL or MariaDB loaded from its file, in parallel.
//!
//! ```text
//! workers            read, prove, convert, encode  ──┐
//! session's thread                                    └> insert, piece after piece, in key order
//! ```
//! - **P1** The table and its rows are one transaction's: after an error, or a crash, there is neither.
//! - **P2** Values are those of `innodb_scan`; what has no value here ends the import with an error that names file, page and column, unless told otherwise.
use crate::innodb::{Either, Reader, Table};
use crate::session::Session;
use ondol_engine::{Access, ColumnDef, IndexColumn, IndexKind, Isolation, Rows};
use ondol_innodb::scan::{Buffers, Scan};
use ondol_innodb::value::ZeroDates;
use ondol_scan::pipeline::{self, Hand};
use ondol_sql::bound::NewIndex;
use ondol_types::{SqlError, SqlResult, ValueRef, sqlstate};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of rows that are handed over as one piece, roughly.
const PIECE: usize = 1 << 20;
/// Bytes in a name.
const MAX_NAME: usize = 63;

/// What is made of a file's table.
#[derive(Clone, Debug)]
pub struct Import {
    /// The new table's name, as it is: without quotes SQL asks for names in lower case.
    pub table: String,
    /// What becomes of dates that are no days of the calendar.
    pub zero_dates: ZeroDates,
    /// Threads that read and convert; at least one.
    pub workers: usize,
}

/// What was imported, so far or in all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    pub rows: u64,
    /// Bytes of pages that were read.
    pub read: u64,
    /// Dates that are no days of the calendar and became NULL, as was wished.
    pub nulled: u64,
    /// What the new table has not: keys, each with the reason.
    pub left_out: Vec<String>,
}

struct Piece {
    rows: Rows,
    nulled: u64,
    read: u64,
}

/// A row's values on their way, their bytes in one place.
#[derive(Default)]
struct Held {
    values: Vec<(ValueRef<'static>, Range<usize>)>,
    bytes: Vec<u8>,
}
impl Held {
    fn clear(&mut self) {
        self.values.clear();
        self.bytes.clear();
    }
    fn push(&mut self, value: ValueRef<'_>) {
        let from = self.bytes.len();
        let kind = match value {
            ValueRef::Text(t) => {
                self.bytes.extend_from_slice(t.as_bytes());
                ValueRef::Text("")
            }
            ValueRef::Bytea(b) => {
                self.bytes.extend_from_slice(b);
                ValueRef::Bytea(&[])
            }
            ValueRef::Numeric(b) => {
                self.bytes.extend_from_slice(b);
                ValueRef::Numeric(&[])
            }
            ValueRef::Null => ValueRef::Null,
            ValueRef::Bool(v) => ValueRef::Bool(v),
            ValueRef::Int2(v) => ValueRef::Int2(v),
            ValueRef::Int4(v) => ValueRef::Int4(v),
            ValueRef::Int8(v) => ValueRef::Int8(v),
            ValueRef::Float8(v) => ValueRef::Float8(v),
            ValueRef::Date(v) => ValueRef::Date(v),
            ValueRef::Timestamp(v) => ValueRef::Timestamp(v),
            ValueRef::Timestamptz(v) => ValueRef::Timestamptz(v),
        };
        self.values.push((kind, from..self.bytes.len()));
    }
    fn values(&self) -> impl Iterator<Item = ValueRef<'_>> {
        self.values.iter().map(|(kind, range)| {
            let bytes = &self.bytes[range.clone()];
            match kind {
                // They were a text's before.
                ValueRef::Text(_) => ValueRef::Text(std::str::from_utf8(bytes).unwrap_or_default()),
                ValueRef::Bytea(_) => ValueRef::Bytea(bytes),
                ValueRef::Numeric(_) => ValueRef::Numeric(bytes),
                other => *other,
            }
        })
    }
}

/// The keys of a table that can be made here, and why others cannot.
fn keys(table: &Table) -> (Vec<NewIndex>, Vec<String>) {
    let there = &table.scan().definition().table;
    let (mut made, mut left_out) = (Vec::new(), Vec::new());
    let index = |name: Option<String>, primary, columns: &[(usize, u32)]| {
        let places = columns.iter().map(|(c, prefix)| match table.place(*c) {
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
    /// Makes a table of a tablespace's, with its primary key and unique keys, and loads its rows. Whether the file may be believed is for the caller to know
    /// (`ondol_innodb::evidence`). `progress` is told now and then. Not within a transaction.
    pub fn import_innodb(
        &mut self,
        scan: &Scan,
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
            let done = s.import_rows(scan, import, &mut progress).and_then(|done| {
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
        scan: &Scan,
        import: &Import,
        progress: &mut dyn FnMut(&Imported),
    ) -> SqlResult<Imported> {
        let source = Table::new(scan.clone(), import.zero_dates)?;
        if import.table.is_empty() || import.table.len() > MAX_NAME {
            let message =
                format!("\"{}\" is no name of a table: expected 1 to {MAX_NAME} bytes", import.table);
            return Err(SqlError::new("42602", message));
        }
        let columns: Vec<ColumnDef> = source.definitions();
        let (keys, left_out) = keys(&source);
        self.connection.start_definitions(self.connection.catalog_version())?;
        self.create_table(&import.table, &columns, &keys, false)?;
        let catalog = self.connection.catalog();
        let table =
            catalog.table(&import.table).ok_or_else(|| crate::define::no_table(&import.table))?.clone();
        self.connection.start_statement(catalog.version, std::slice::from_ref(&table), true)?;

        let source = Arc::new(source);
        let wanted: Vec<u16> = (0..columns.len() as u16).collect();
        let state = {
            let source = source.clone();
            move || (Buffers::default(), source.reader(&wanted), Held::default())
        };
        let layout = table.layout.clone();
        let name = import.table.clone();
        let work = move |(buffers, reader, held): &mut (Buffers, Reader, Held),
                         part: usize,
                         hand: &Hand<'_, Piece, Either>| {
            let scan = source.scan();
            let mut made = Rows::new(layout.clone(), PIECE);
            let mut bytes = 0;
            // The first error of a value, which is none of the file's.
            let mut wrong = None;
            let stopped = || {
                ondol_innodb::error::Error::new(
                    scan.space().path(),
                    ondol_innodb::error::Kind::Io,
                    "the import was stopped",
                )
            };
            let read = scan.read(part, buffers, |leaf| {
                let mut values: Vec<ValueRef<'_>> = Vec::new();
                for row in 0..leaf.rows.len() {
                    held.clear();
                    if let Err(e) = reader.read(&leaf, row, &mut |_, value| held.push(value)) {
                        wrong = Some(e);
                        return Err(stopped());
                    }
                    let mut memory = crate::load::reused(std::mem::take(&mut values));
                    memory.extend(held.values());
                    let is_whole = made.push(&memory);
                    memory.clear();
                    values = crate::load::reused(memory);
                    if !is_whole {
                        let e = leaf.damaged(format!("a row of {name} has NULL where none can be"));
                        wrong = Some(crate::innodb::failed(e));
                        return Err(stopped());
                    }
                    bytes += layout.row_size + held.bytes.len();
                    if bytes >= PIECE {
                        bytes = 0;
                        let rows = std::mem::replace(&mut made, Rows::new(layout.clone(), PIECE));
                        hand.over(Piece { rows, nulled: reader.take_nulled(), read: 0 })
                            .map_err(|_| stopped())?;
                    }
                }
                Ok(())
            });
            if let Some(e) = wrong {
                return Err(Either(e));
            }
            read?;
            let piece = Piece { rows: made, nulled: reader.take_nulled(), read: scan.part_bytes(part) };
            hand.over(piece).map_err(|_| Either::from(stopped()))
        };
        let workers = import.workers.max(1);
        let options = pipeline::Options { workers, ordered: true, ahead: workers * 2 };
        let mut total = Imported { left_out, ..Imported::default() };
        pipeline::run(scan.parts(), options, state, work, |_, mut piece: Piece| {
            self.check_cancel().map_err(Either)?;
            self.connection.insert_rows(&table, &mut piece.rows).map_err(|(_, e)| Either(e))?;
            total.rows += piece.rows.len() as u64;
            total.nulled += piece.nulled;
            total.read += piece.read;
            progress(&total);
            Ok(())
        })
        .map_err(|e| e.0)?;
        self.connection.end_statement()?;
        Ok(total)
    }
}
