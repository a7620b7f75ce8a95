//! COPY FROM: text into rows, by several threads.
//!
//! ```text
//! session's thread   cut blocks of whole records ──┐         ┌─> insert, block after block
//! helpers                                          └> parse, │
//!                    (and the session's thread,       convert, encode
//!                     when it has nothing to insert)
//! ```
//! The blocks' way is `scan`'s ([`Fed`]).
//!
//! - **Y1** COPY FROM is one statement: all its rows or none.
//! - **Y2** A field is converted straight into the value that the row takes; a bad one is an error that
//!   names line and column in its CONTEXT.
//! - **Y3** Where anything in a block is wrong, helpers give it up, and the session's thread reads it again
//!   when its turn has come, row by row: so errors are those of a copy without helpers, and come in the order
//!   of the rows.
//! - **Y4** The blocks under way are limited, and so is what they take.
use crate::session::Session;
use crate::session::execute::{RowChecks, RowValues};
use crate::session::facts::Facts;
use crate::session::output::Progress;
use crate::session::plan::Plan;
use crate::session::runtime::seeing;
use crate::transfer::binary_form;
use ondol_base::fiber::take_turns;
use ondol_base::thread;
use ondol_engine::{RowBatch, Table, Token};
use ondol_scan::pipeline::Fed;
use ondol_sql::bound::{Bound, CopyOptions, Expr, ExprKind};
use ondol_sql::copy::{Block, CopyReader};
use ondol_types::catalog::registered;
use ondol_types::func::Context;
use ondol_types::style::Styles;
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, ValueRef, sqlstate, text};
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Blocks under way for each thread.
const AHEAD: usize = 3;
/// Rows after which others of the thread may have their turn.
const ROWS: usize = 64;

/// What COPY FROM fills.
pub(crate) struct Into<'a> {
    pub table: &'a Arc<Table>,
    /// The table's column of each field.
    pub columns: &'a [u16],
    /// Columns that the data lacks, and what they get.
    pub defaults: &'a [(u16, Expr)],
    pub options: &'a CopyOptions,
}

/// Columns that the data lacks, with their values.
pub(crate) type Filled = Vec<(u16, Value)>;

/// The way of a record to a row, apart from any session.
struct Converter {
    table: Arc<Table>,
    /// Fields are values' binary forms.
    binary: bool,
    columns: Vec<u16>,
    types: Vec<Type>,
    /// Columns that the data lacks, with their values where those are constants.
    filled: Option<Filled>,
    /// Values are to be looked at by the session's thread, row by row.
    checked: bool,
    names: std::sync::Arc<crate::session::identity::Names>,
    now_us: i64,
    styles: Styles,
}

/// A block that a helper has looked at.
struct Parsed {
    block: Block,
    /// `None`: it is to be read row by row (Y3).
    rows: Option<RowBatch>,
    lines: u64,
    /// The data ends in it.
    ended: bool,
}

impl Converter {
    /// The values of a record's fields, each in its column's place.
    #[inline]
    fn values<'v>(
        &self,
        row: &ondol_sql::copy::CopyRow<'v>,
        ctx: &Context<'_>,
        encoded: &'v mut [Vec<u8>],
        values: &mut [ValueRef<'v>],
    ) -> Result<(), (Option<usize>, SqlError)> {
        // A row without columns is an empty line.
        let is_bare = !self.binary
            && self.types.is_empty()
            && row.len() == 1
            && row.get(0).unwrap_or_default().is_empty();
        if row.len() != self.types.len() && !is_bare {
            let e = if row.len() < self.types.len() {
                let name = &self.table.def.columns[self.columns[row.len()] as usize].name;
                format!("missing data for column \"{name}\"")
            } else {
                "extra data after last expected column".to_string()
            };
            return Err((None, SqlError::new(sqlstate::BAD_COPY_FILE_FORMAT, e)));
        }
        if self.binary {
            for ((i, ty), scratch) in self.types.iter().enumerate().zip(encoded) {
                values[self.columns[i] as usize] = match row.get_bytes(i) {
                    Some(field) => {
                        binary_form::convert(field, *ty, ctx, scratch).map_err(|e| (Some(i), e))?
                    }
                    None => ValueRef::Null,
                }
            }
            return Ok(());
        }
        for ((i, ty), scratch) in self.types.iter().enumerate().zip(encoded) {
            values[self.columns[i] as usize] = match row.get(i) {
                Some(field) => convert(field, *ty, ctx, scratch).map_err(|e| (Some(i), e))?,
                None => ValueRef::Null,
            }
        }
        Ok(())
    }

    fn parse(&self, block: Block) -> Parsed {
        let mut reader = block.read(1);
        // A panic comes again where the block is read again.
        let rows = catch_unwind(AssertUnwindSafe(|| self.rows(&mut reader))).ok().flatten();
        let (lines, ended) = (reader.next_line() - 1, reader.ended());
        Parsed { block: reader.into_block(), rows, lines, ended }
    }

    fn rows(&self, reader: &mut CopyReader<std::io::Empty>) -> Option<RowBatch> {
        let filled = self.filled.as_ref().filter(|_| !self.checked)?;
        // Rows take about as much as their text.
        let mut rows = RowBatch::new(self.table.layout.clone(), reader.unread());
        let ctx = crate::session::runtime::context_at(&self.names, self.now_us, self.styles);
        let mut filled_bytes: Vec<Vec<u8>> = vec![Vec::new(); filled.len()];
        let constants: Vec<(usize, ValueRef<'_>)> = (filled.iter().zip(&mut filled_bytes))
            .map(|((column, v), scratch)| (*column as usize, v.as_ref(scratch)))
            .collect();
        // The owned forms of values that cannot be borrowed from the line: kept to reuse their memory.
        let mut encoded: Vec<Vec<u8>> = vec![Vec::new(); self.types.len()];
        let mut memory: Vec<ValueRef<'static>> = Vec::new();
        while let Some(row) = reader.next().ok()? {
            let mut values = reused(memory);
            values.resize(self.table.def.columns.len(), ValueRef::Null);
            constants.iter().for_each(|(column, v)| values[*column] = *v);
            self.values(&row, &ctx, &mut encoded, &mut values).ok()?;
            if !rows.push(&values) {
                return None;
            }
            if rows.len().is_multiple_of(ROWS) {
                take_turns()
            }
            values.clear();
            memory = reused(values)
        }
        Some(rows)
    }
}

impl Session {
    pub(crate) fn copy_from(
        &mut self,
        into: &Into<'_>,
        input: impl Read,
        bound: &Bound,
        progress: &mut dyn FnMut(Progress),
        all_bytes: Option<u64>,
    ) -> SqlResult<(u64, Option<Token>)> {
        self.copy_rows(into, input, bound, progress, all_bytes).map_err(|mut e| {
            let before = before_line(into);
            if let Some(c) = e.0.context.as_mut().filter(|c| !c.contains(&format!("\n{before}"))) {
                c.insert_str(0, &before)
            }
            e
        })
    }

    fn copy_rows(
        &mut self,
        into: &Into<'_>,
        input: impl Read,
        bound: &Bound,
        progress: &mut dyn FnMut(Progress),
        all_bytes: Option<u64>,
    ) -> SqlResult<(u64, Option<Token>)> {
        let lacking: Vec<(u16, &Expr)> = into.defaults.iter().map(|(c, e)| (*c, e)).collect();
        let columns: Vec<_> = into.columns.iter().map(|&c| &into.table.def.columns[c as usize]).collect();
        let checks = self.domain_checks(&columns, bound.catalog_version)?;
        let row_checks = self.row_checks(into.table, bound.catalog_version)?;
        let row_values = self.row_values(into.table, bound.catalog_version)?;
        let used = checks.iter().map(|c| &c.1).chain(row_checks.iter().map(|c| &c.plan));
        let used = used.chain(row_values.iter().map(|v| &v.plan));
        let (defaults, filled) = self.start_copy(into.table, &lacking, used, bound)?;
        let converter = Arc::new(Converter {
            table: into.table.clone(),
            binary: into.options.binary,
            columns: into.columns.to_vec(),
            types: into.columns.iter().map(|&c| into.table.def.columns[c as usize].ty).collect(),
            checked: !checks.is_empty() || row_checks.is_some() || row_values.is_some(),
            filled,
            names: self.identity.names.clone(),
            now_us: self.connection.transaction_time_us(),
            styles: self.quick.styles,
        });
        let parser = converter.clone();
        let mut blocks = Fed::new(move |block| parser.parse(block));
        if into.options.binary {
            converter.types.iter().try_for_each(|ty| binary_form::is_read(*ty))?
        }
        let cutter = CopyReader::new(input, into.options).of_columns(converter.types.len());
        let mut cutter = cutter.charged(self.connection.charge());
        let (mut cut, mut taken, mut line, mut rows) = (0u64, 0u64, 1u64, 0u64);
        // What ended the input, to be told after everything before it.
        let mut end: Option<SqlResult<()>> = None;
        loop {
            while end.is_none() && cut - taken < (AHEAD * (1 + blocks.workers())) as u64 {
                match cutter.block() {
                    Ok(Some(block)) => {
                        blocks.feed(block);
                        cut += 1;
                        if cut == 2 && converter.filled.is_some() && !converter.checked {
                            blocks.start(thread::parallelism().saturating_sub(1))
                        }
                    }
                    Ok(None) => end = Some(Ok(())),
                    Err(e) => end = Some(Err(e)),
                }
            }
            let Some(parsed) = blocks.gather() else { break };
            taken += 1;
            self.check_cancel()?;
            rows += match parsed.rows {
                Some(mut made) => {
                    let inserted = self.connection.insert_rows(into.table, &mut made);
                    if let Err((n, e)) = inserted {
                        let mut reader = parsed.block.read(line);
                        let mut at = None;
                        for _ in 0..=n {
                            at = reader.next()?.map(|row| (row.line(), row.shown()))
                        }
                        let (line, shown) = at.unwrap_or_default();
                        return Err(placed(into, e, line, None, Some(&shown)));
                    }
                    made.len() as u64
                }
                None => {
                    let held = (row_values.as_ref(), row_checks.as_ref());
                    let computed = (defaults.as_ref(), &checks[..], held);
                    self.copy_block(into, &converter, parsed.block, line, computed)?
                }
            };
            line += parsed.lines;
            progress(Progress { rows, bytes: cutter.consumed(), all_bytes });
            if parsed.ended {
                // What follows the mark is no data.
                end = None;
                break;
            }
        }
        end.unwrap_or(Ok(()))?;
        progress(Progress { rows, bytes: cutter.consumed(), all_bytes });
        let token = self.connection.end_statement()?;
        Ok((rows, token))
    }

    /// Begins a statement that fills a table, and runs the programs `checks` on what comes. Gives a program
    /// for the defaults of columns that the data lacks, and their values where those are constants.
    pub(crate) fn start_copy<'p>(
        &mut self,
        table: &Arc<Table>,
        defaults: &[(u16, &Expr)],
        checks: impl Iterator<Item = &'p Plan>,
        bound: &Bound,
    ) -> SqlResult<(Option<Plan>, Option<Filled>)> {
        self.fresh = false;
        self.refuse_read_only("COPY FROM")?;
        let exprs: Vec<&Expr> = defaults.iter().map(|(_, e)| *e).collect();
        let computed = match exprs.is_empty() {
            true => None,
            false => Some(self.compile_values(&exprs, bound.catalog_version)?),
        };
        let mut tables = vec![table.clone()];
        let mut add = |plan: &Plan| {
            tables.extend(plan.program.tables.iter().filter(|t| t.def.id != table.def.id).cloned())
        };
        computed.iter().for_each(&mut add);
        checks.for_each(&mut add);
        self.connection.start_statement(bound.catalog_version, &tables, true)?;
        // Defaults that are constants are computed once.
        let constant = exprs.iter().all(|e| matches!(e.kind, ExprKind::Const(_)));
        let filled = match &computed {
            Some(d) if constant => self.values_of(d)?,
            _ => vec![],
        };
        let columns = defaults.iter().map(|(column, _)| *column);
        Ok((computed, constant.then(|| columns.zip(filled).collect())))
    }

    /// Copies a block row by row; `line` is that of its first. Gives the number of rows.
    fn copy_block(
        &mut self,
        into: &Into<'_>,
        converter: &Converter,
        block: Block,
        line: u64,
        (defaults, checks, (row_values, row_checks)): Computed<'_>,
    ) -> SqlResult<u64> {
        let mut reader = block.read(line);
        let names = self.identity.names.clone();
        // Who reads ahead knows no objects: what names some is read here.
        let names_objects = |ty: &Type| registered::kind(ty.id).is_some();
        let facts = converter.types.iter().any(names_objects).then(|| self.facts());
        let sight = facts.as_ref().and_then(Facts::sight);
        let ctx = seeing(self.context_of(&names), sight.as_ref());
        let mut rows = 0u64;
        loop {
            let row = match reader.next() {
                Ok(Some(row)) => row,
                Ok(None) => break,
                // What is wrong with a record in binary has no text to be shown by.
                Err(e) if into.options.binary => {
                    return Err(placed(into, e, reader.next_line(), reader.wrong_field(), None));
                }
                Err(e) => return Err(e),
            };
            if rows.is_multiple_of(ROWS as u64) {
                take_turns()
            }
            let whole = |e| placed(into, e, row.line(), None, Some(&row.shown()));
            let filled = match (&converter.filled, defaults) {
                (Some(constants), _) => constants.iter().map(|(_, v)| v.clone()).collect(),
                (None, Some(d)) => self.values_of(d)?,
                (None, None) => vec![],
            };
            let mut encoded: Vec<Vec<u8>> = vec![Vec::new(); converter.types.len()];
            let mut filled_bytes: Vec<Vec<u8>> = vec![Vec::new(); filled.len()];
            let mut values: Vec<ValueRef<'_>> = vec![ValueRef::Null; into.table.def.columns.len()];
            converter.values(&row, &ctx, &mut encoded, &mut values).map_err(|(i, e)| match i {
                Some(i) => placed(into, e, row.line(), Some(i), row.get(i)),
                None => whole(e),
            })?;
            for (i, check) in checks {
                let value = values[into.columns[*i] as usize];
                self.run_program_within(check, &[value], &mut ondol_sql::interpret::Nowhere).map_err(
                    |e| match row.get(*i) {
                        shown if shown.is_some() || into.options.binary => {
                            placed(into, e, row.line(), Some(*i), shown)
                        }
                        _ => {
                            let name = &into.table.def.columns[into.columns[*i] as usize].name;
                            e.context(format!("line {}, column {name}: null input", row.line()))
                        }
                    },
                )?;
            }
            for (((column, _), v), scratch) in into.defaults.iter().zip(&filled).zip(&mut filled_bytes) {
                values[*column as usize] = v.as_ref(scratch);
            }
            let computed = match row_values {
                Some(of) => self.computed_row(of, &values).map_err(whole)?,
                None => vec![],
            };
            let mut computed_bytes: Vec<Vec<u8>> = vec![Vec::new(); computed.len()];
            let columns = row_values.map_or(&[][..], |of| &of.computed[..]);
            for ((column, v), scratch) in columns.iter().zip(&computed).zip(&mut computed_bytes) {
                values[usize::from(*column)] = v.as_ref(scratch);
            }
            if let Some(checks) = row_checks {
                self.hold_row(checks, into.table, &values).map_err(whole)?
            }
            self.connection.insert(into.table, &values).map_err(whole)?;
            rows += 1;
        }
        Ok(rows)
    }
}

/// What is done to each row: defaults, looks at single values, generated columns, and checks.
type Computed<'c> = (Option<&'c Plan>, &'c [(usize, Plan)], (Option<&'c RowValues>, Option<&'c RowChecks>));

/// The error with the place where it arose (Y2).
fn placed(into: &Into<'_>, e: SqlError, line: u64, field: Option<usize>, shown: Option<&str>) -> SqlError {
    let mut at = format!("line {line}");
    if let Some(i) = field {
        at += &format!(", column {}", into.table.def.columns[into.columns[i] as usize].name)
    }
    // Of what is binary there is nothing to be shown.
    if let Some(shown) = shown.filter(|_| !into.options.binary) {
        at += &format!(": \"{shown}\"")
    }
    match e.0.context.clone() {
        // What a value was being read as comes first.
        Some(inner) => e.context(format!("{inner}\n{}{at}", before_line(into))),
        None => e.context(at),
    }
}

/// What stands before the line of an error.
fn before_line(into: &Into<'_>) -> String {
    format!("COPY {}, ", into.table.def.name)
}

/// An empty vector's memory for values of another lifetime.
pub(crate) fn reused<'a>(values: Vec<ValueRef<'_>>) -> Vec<ValueRef<'a>> {
    debug_assert!(values.is_empty());
    values.into_iter().map(|_| ValueRef::Null).collect()
}

/// A field's value, of the column's type.
#[inline]
pub(crate) fn convert<'a>(
    field: &'a str,
    ty: Type,
    ctx: &Context<'_>,
    scratch: &'a mut Vec<u8>,
) -> SqlResult<ValueRef<'a>> {
    Ok(match ty.id {
        TypeId::INT8 => ValueRef::Int8(match plain_integer(field) {
            Some(n) => n,
            None => text::parse_i64(field)?,
        }),
        TypeId::INT4 => ValueRef::Int4(match plain_integer(field).and_then(|n| i32::try_from(n).ok()) {
            Some(n) => n,
            None => text::parse_i32(field)?,
        }),
        TypeId::INT2 => ValueRef::Int2(match plain_integer(field).and_then(|n| i16::try_from(n).ok()) {
            Some(n) => n,
            None => text::parse_i16(field)?,
        }),
        TypeId::BOOL => ValueRef::Bool(text::parse_bool(field)?),
        TypeId::FLOAT8 => ValueRef::Float8(text::parse_f64(field)?),
        TypeId::TEXT => ValueRef::Text(field),
        TypeId::BPCHAR => {
            let Some(n) = ty.char_len() else { return Ok(ValueRef::Text(field)) };
            // Blanks at the end are not held with the value; those beyond the length are cut without error.
            let value = field.trim_end_matches(' ');
            if value.len() > n {
                check_length(value, n, ty)?;
            }
            ValueRef::Text(value)
        }
        TypeId::VARCHAR => match ty.char_len() {
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
        _ => held(text::input(field, ty, ctx)?, scratch),
    })
}

/// A value, of a column's type, whose bytes are kept in `scratch`.
pub(crate) fn held(value: Value, scratch: &mut Vec<u8>) -> ValueRef<'_> {
    match value {
        Value::Null => ValueRef::Null,
        Value::Bool(v) => ValueRef::Bool(v),
        Value::Int2(v) => ValueRef::Int2(v),
        Value::Int4(v) => ValueRef::Int4(v),
        Value::Int8(v) => ValueRef::Int8(v),
        Value::Float8(v) => ValueRef::Float8(v),
        Value::Text(t) => {
            *scratch = t.into_bytes();
            ValueRef::Text(std::str::from_utf8(scratch).unwrap_or_default())
        }
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
        Value::Opaque(ty, b) => {
            *scratch = b.into();
            ValueRef::Opaque(ty, scratch)
        }
    }
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
    SqlError::new(sqlstate::STRING_DATA_RIGHT_TRUNCATION, format!("value too long for type {}", ty))
}
