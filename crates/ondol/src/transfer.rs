//! COPY: between a table or query and a stream of text.
//!
//! - **Y1** COPY FROM is one statement: all its rows or none.
//! - **Y2** A field is converted straight into the value that the row takes; a bad one is an error that
//!   names line and column, as PostgreSQL's CONTEXT does (here in DETAIL).
use crate::output::{Output, Progress};
use crate::planned::Plan;
use crate::session::Session;
use ondol_engine::Table;
use ondol_engine::error::io_state;
use ondol_sql::bound::{Bound, Copy, CopyEnd, CopyOptions, Expr, Query, Statement};
use ondol_sql::copy::{Reader, Writer};
use ondol_sql::interpret::rows::Row;
use ondol_types::func::Context;
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, ValueRef, sqlstate, text};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

/// Rows between two reports of progress.
const REPORT_EVERY: u64 = 8192;
/// Bytes gathered before they are written.
const BLOCK: usize = 1 << 18;

fn file_error(path: &str, what: &str, e: std::io::Error) -> SqlError {
    let state = if e.kind() == std::io::ErrorKind::NotFound { "58P01" } else { io_state(&e) };
    SqlError::new(state, format!("could not {what} file \"{path}\": {e}"))
}

/// An error of COPY with the file's name, where it was the medium's and not the data's.
fn in_file(path: &str, e: SqlError) -> SqlError {
    match e.sqlstate() {
        sqlstate::DISK_FULL | sqlstate::IO_ERROR if e.0.detail.is_none() => {
            e.detail(format!("File \"{path}\"."))
        }
        _ => e,
    }
}

impl Session {
    pub(crate) fn copy(&mut self, copy: &Copy, bound: &Bound, out: &mut dyn Output) -> SqlResult<()> {
        let (rows, token) = match copy {
            Copy::From { table, columns, defaults, end, options } => {
                let into = Into { table: table.0.clone(), columns, defaults };
                match end {
                    CopyEnd::Client => {
                        // The input borrows the output, which progress is told to as well: so none is told here unless
                        // the input is counted by its owner.
                        let input = out.copy_in()?;
                        let done = self.copy_from(&into, options, input, bound, &mut |_| {}, None);
                        // Whoever gives the input may have ended it because of the same wish.
                        done.map_err(|e| match e.sqlstate() {
                            sqlstate::IO_ERROR => self.check_cancel().err().unwrap_or(e),
                            _ => e,
                        })?
                    }
                    CopyEnd::File(path) => {
                        let file = File::open(Path::new(path)).map_err(|e| file_error(path, "open", e))?;
                        let about = file.metadata().map_err(|e| file_error(path, "read", e))?;
                        if about.is_dir() {
                            return Err(SqlError::new(
                                sqlstate::WRONG_OBJECT_TYPE,
                                format!("\"{path}\" is a directory"),
                            ));
                        }
                        let size = about.is_file().then_some(about.len());
                        self.copy_from(&into, options, file, bound, &mut |p| out.progress(p), size)
                            .map_err(|e| in_file(path, e))?
                    }
                }
            }
            Copy::To { query, end, options } => match end {
                CopyEnd::Client => {
                    let mut sink = out.copy_out()?;
                    self.copy_to(query, options, &mut *sink, bound)?
                }
                CopyEnd::File(path) => {
                    let mut file =
                        File::create(Path::new(path)).map_err(|e| file_error(path, "create", e))?;
                    let done =
                        self.copy_to(query, options, &mut file, bound).map_err(|e| in_file(path, e))?;
                    // What is no file of a disk (a pipe, a device) has nothing to sync.
                    if file.metadata().is_ok_and(|m| m.is_file()) {
                        file.sync_all().map_err(|e| file_error(path, "write", e))?;
                    }
                    done
                }
            },
        };
        let token = self.told(token);
        out.done(&format!("COPY {rows}"), token)
    }

    fn copy_from(
        &mut self,
        into: &Into<'_>,
        options: &CopyOptions,
        input: impl Read,
        bound: &Bound,
        progress: &mut dyn FnMut(Progress),
        all_bytes: Option<u64>,
    ) -> SqlResult<(u64, Option<ondol_engine::Token>)> {
        self.fresh = false;
        self.refuse_read_only("COPY FROM")?;
        let exprs: Vec<&Expr> = into.defaults.iter().map(|(_, e)| e).collect();
        let defaults = match exprs.is_empty() {
            true => None,
            false => Some(self.compile_values(&exprs, bound.catalog_version)?),
        };
        let mut tables = vec![into.table.clone()];
        if let Some(d) = &defaults {
            tables.extend(d.program.tables.iter().filter(|t| t.def.id != into.table.def.id).cloned());
        }
        self.connection.start_statement(bound.catalog_version, &tables, true)?;
        let name = self.database.name.clone();
        let ctx = self.context_of(&name);
        let mut reader = Reader::new(input, options);
        let def = &into.table.def;
        let types: Vec<Type> = into.columns.iter().map(|&c| def.columns[c as usize].ty).collect();
        let mut rows = 0u64;
        // The owned forms of values that cannot be borrowed from the line: kept to reuse their memory.
        let mut encoded: Vec<Vec<u8>> = vec![Vec::new(); types.len()];
        let mut filled: Vec<Value> = Vec::new();
        let mut filled_bytes: Vec<Vec<u8>> = vec![Vec::new(); into.defaults.len()];
        // Defaults that are constants are computed once.
        let constant = exprs.iter().all(|e| matches!(e.kind, ondol_sql::bound::ExprKind::Const(_)));
        if let Some(d) = defaults.as_ref().filter(|_| constant) {
            filled = self.values_of(d)?;
        }
        while let Some(row) = reader.next()? {
            let line = row.line();
            let place = |e: SqlError, column: Option<usize>, shown: &str| {
                let at = match column {
                    Some(c) => format!(
                        "COPY {}, line {}, column {}: \"{}\"",
                        def.name, line, def.columns[into.columns[c] as usize].name, shown
                    ),
                    None => format!("COPY {}, line {}: \"{}\"", def.name, line, shown),
                };
                let detail = e.0.detail.as_ref().map_or(at.clone(), |d| format!("{d}\n{at}"));
                e.detail(detail)
            };
            if row.len() != types.len() {
                let e = if row.len() < types.len() {
                    let name = &def.columns[into.columns[row.len()] as usize].name;
                    SqlError::new(
                        sqlstate::BAD_COPY_FILE_FORMAT,
                        format!("missing data for column \"{name}\""),
                    )
                } else {
                    SqlError::new(sqlstate::BAD_COPY_FILE_FORMAT, "extra data after last expected column")
                };
                return Err(place(e, None, &row.shown()));
            }
            if let Some(d) = defaults.as_ref().filter(|_| !constant) {
                filled = self.values_of(d)?;
            }
            let mut values: Vec<ValueRef<'_>> = vec![ValueRef::Null; def.columns.len()];
            for ((i, ty), scratch) in types.iter().enumerate().zip(&mut encoded) {
                if let Some(field) = row.get(i) {
                    values[into.columns[i] as usize] =
                        convert(field, *ty, &ctx, scratch).map_err(|e| place(e, Some(i), field))?;
                }
            }
            for (((column, _), v), scratch) in into.defaults.iter().zip(&filled).zip(&mut filled_bytes) {
                values[*column as usize] = v.as_ref(scratch);
            }
            if let Err(e) = self.connection.insert(&into.table, &values) {
                return Err(place(e, None, &row.shown()));
            }
            rows += 1;
            if rows.is_multiple_of(REPORT_EVERY) {
                self.check_cancel()?;
                progress(Progress { rows, bytes: reader.consumed(), all_bytes });
            }
        }
        progress(Progress { rows, bytes: reader.consumed(), all_bytes });
        let token = self.connection.end_statement()?;
        Ok((rows, token))
    }

    fn copy_to(
        &mut self,
        query: &Query,
        options: &CopyOptions,
        sink: &mut dyn Write,
        bound: &Bound,
    ) -> SqlResult<(u64, Option<ondol_engine::Token>)> {
        let inner = Bound {
            statement: Statement::Query(query.clone()),
            params: bound.params.clone(),
            catalog_version: bound.catalog_version,
            notices: Vec::new(),
        };
        let plan = Arc::new(Plan::new(self.compile(&inner)?));
        let mut writer = Writer::new(options, plan.columns.len());
        let mut buffer = Vec::with_capacity(BLOCK + 4096);
        let mut cell = String::new();
        writer.header(plan.columns.iter().map(|c| c.name.as_str()), &mut buffer);
        let failed =
            |e: std::io::Error| SqlError::new(io_state(&e), format!("could not write COPY data: {e}"));
        let types: Vec<Type> = plan.columns.iter().map(|c| c.ty).collect();
        let (rows, token) = self.run_program(&plan, &[], &mut |row: &Row<'_>| {
            for (v, ty) in row.values().zip(&types) {
                cell.clear();
                let there = crate::rows::write_text(v, *ty, &mut cell);
                writer.field(there.then_some(&cell), &mut buffer);
            }
            writer.end_row(&mut buffer);
            if buffer.len() >= BLOCK {
                sink.write_all(&buffer).map_err(failed)?;
                buffer.clear();
            }
            Ok(true)
        })?;
        sink.write_all(&buffer).and_then(|()| sink.flush()).map_err(failed)?;
        Ok((rows, token))
    }
}

/// What COPY FROM fills.
struct Into<'a> {
    table: Arc<Table>,
    /// The table's column of each field.
    columns: &'a [u16],
    /// Columns that the data lacks, and what they get.
    defaults: &'a [(u16, Expr)],
}

/// A field's value, of the column's type.
#[inline]
fn convert<'a>(
    field: &'a str,
    ty: Type,
    ctx: &Context<'_>,
    scratch: &'a mut Vec<u8>,
) -> SqlResult<ValueRef<'a>> {
    Ok(match ty.id {
        TypeId::Int8 => ValueRef::Int8(match plain_integer(field) {
            Some(n) => n,
            None => text::parse_i64(field)?,
        }),
        TypeId::Int4 => ValueRef::Int4(match plain_integer(field).and_then(|n| i32::try_from(n).ok()) {
            Some(n) => n,
            None => text::parse_i32(field)?,
        }),
        TypeId::Int2 => ValueRef::Int2(match plain_integer(field).and_then(|n| i16::try_from(n).ok()) {
            Some(n) => n,
            None => text::parse_i16(field)?,
        }),
        TypeId::Bool => ValueRef::Bool(text::parse_bool(field)?),
        TypeId::Float8 => ValueRef::Float8(text::parse_f64(field)?),
        TypeId::Text => ValueRef::Text(field),
        TypeId::Bpchar => {
            // Spaces at the end are not part of the value; those beyond the length are cut without an error.
            let value = field.trim_end_matches(' ');
            if let Some(n) = ty.char_len()
                && value.len() > n
            {
                check_length(value, n, ty)?;
            }
            ValueRef::Text(value)
        }
        TypeId::Varchar => match ty.char_len() {
            Some(n) if field.len() > n => {
                let kept = match field.char_indices().nth(n) {
                    Some((at, _)) if field[at..].bytes().all(|b| b == b' ') => &field[..at],
                    Some(_) => return Err(too_long(ty)),
                    None => field,
                };
                ValueRef::Text(kept)
            }
            _ => ValueRef::Text(field),
        },
        _ => match text::input(field, ty, ctx)? {
            Value::Null => ValueRef::Null,
            Value::Date(v) => ValueRef::Date(v),
            Value::Timestamp(v) => ValueRef::Timestamp(v),
            Value::Timestamptz(v) => ValueRef::Timestamptz(v),
            Value::Bytea(b) => {
                *scratch = b;
                ValueRef::Bytea(scratch)
            }
            Value::Numeric(n) => {
                scratch.clear();
                n.encode(scratch);
                ValueRef::Numeric(scratch)
            }
            other => {
                return Err(SqlError::new(
                    sqlstate::INTERNAL_ERROR,
                    format!("a value read as {:?} came out as {:?}", ty.id, other.type_id()),
                ));
            }
        },
    })
}

/// Digits with an optional minus, at most 18 of them; anything else is left to the full rules.
#[inline]
fn plain_integer(field: &str) -> Option<i64> {
    let b = field.as_bytes();
    let (negative, digits) = match b {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, b),
    };
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let mut n = 0i64;
    for d in digits {
        let d = d.wrapping_sub(b'0');
        if d > 9 {
            return None;
        }
        n = n * 10 + d as i64;
    }
    Some(if negative { -n } else { n })
}

fn check_length(value: &str, n: usize, ty: Type) -> SqlResult<()> {
    if value.chars().count() > n { Err(too_long(ty)) } else { Ok(()) }
}

fn too_long(ty: Type) -> SqlError {
    SqlError::new(
        sqlstate::STRING_DATA_RIGHT_TRUNCATION,
        format!("value too long for type {}", ondol_types::resolve::type_name(ty)),
    )
}
