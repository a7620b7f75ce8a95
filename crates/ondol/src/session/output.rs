//! Where the outcomes of statements go.
use crate::session::rows::{Column, Iter, Row, Rows};
use ondol_engine::{Charge, Token};
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::io::{Read, Write};
use std::sync::Arc;

/// A message beside the outcome: a notice or a warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// `NOTICE` or `WARNING`.
    pub severity: &'static str,
    pub sqlstate: &'static str,
    pub message: String,
    pub detail: Option<String>,
}

impl Notice {
    /// As psql shows it, in lines.
    pub fn shown(&self) -> String {
        let detail = self.detail.as_ref().map_or(String::new(), |d| format!("DETAIL:  {d}\n"));
        format!("{}:  {}\n{detail}", self.severity, self.message)
    }
}

/// How far a long statement has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Rows done; 0 where only bytes are counted (COPY from a stream of the caller's).
    pub rows: u64,
    /// Bytes of the input taken so far, and its size when that is known.
    pub bytes: u64,
    pub all_bytes: Option<u64>,
}

/// How the rows that COPY reads or writes lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopiedRows {
    /// Each is a line.
    Lines,
    /// Each is a line, but for lines that end within these quotes.
    Quoted(u8),
    /// In the binary format.
    Binary,
}

/// Makes rows into bytes, on threads beside the session's.
pub trait Encode: Send + Sync {
    /// Appends a row.
    fn row(&self, row: Row<'_>, out: &mut Vec<u8>) -> SqlResult<()>;
}

/// Takes the outcomes of statements as they come: for each statement `columns` and `row`s if it has a result,
/// then `done`. An error from `columns`, `row` or `copy_out` ends the statement as failed.
pub trait Output {
    fn columns(&mut self, columns: &Arc<[Column]>) -> SqlResult<()> {
        let _ = columns;
        Ok(())
    }
    fn row(&mut self, row: Row<'_>) -> SqlResult<()> {
        let _ = row;
        Ok(())
    }
    /// What makes rows of these columns into bytes, for the threads that read a large table beside the
    /// session's; `None`: each row comes by itself.
    fn encoder(&mut self, columns: &Arc<[Column]>) -> Option<Arc<dyn Encode>> {
        let _ = columns;
        None
    }
    /// The bytes of one row or more, which the encoder made, in the place of `row`.
    fn encoded(&mut self, rows: Vec<u8>) -> SqlResult<()> {
        let _ = rows;
        Ok(())
    }
    /// The statement is done. `tag` is PostgreSQL's command tag; `token` names the commit, if it committed
    /// something: durable, unless `synchronous_commit` is off.
    fn done(&mut self, tag: &str, token: Option<Token>) -> SqlResult<()> {
        let _ = (tag, token);
        Ok(())
    }
    /// COPY begins, of rows with so many columns: `copy_in` or `copy_out` follows.
    fn copying(&mut self, columns: usize, rows: CopiedRows) {
        let _ = (columns, rows);
    }
    /// Where COPY FROM STDIN reads.
    fn copy_in(&mut self) -> SqlResult<Box<dyn Read + '_>> {
        Err(SqlError::new(
            sqlstate::FEATURE_NOT_SUPPORTED,
            "COPY FROM STDIN needs an input: use Session::copy_in",
        ))
    }
    /// Where COPY TO STDOUT writes.
    fn copy_out(&mut self) -> SqlResult<Box<dyn Write + '_>> {
        Err(SqlError::new(
            sqlstate::FEATURE_NOT_SUPPORTED,
            "COPY TO STDOUT needs an output: use Session::copy_out",
        ))
    }
    /// Called now and then during COPY.
    fn progress(&mut self, progress: Progress) {
        let _ = progress;
    }
}

/// What one statement gave. Its rows can be looked at as they are, without taking them out.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Outcome {
    /// PostgreSQL's command tag: `SELECT 4`, `INSERT 0 3`, `CREATE TABLE`; empty for blanks and comments.
    pub tag: String,
    /// Rows that were given, inserted, changed, deleted or copied, as the tag says; 0 where it says nothing
    /// of rows.
    pub count: u64,
    /// The rows, of statements that have a result.
    pub rows: Option<Rows>,
    /// Names the commit, if the statement committed something: durable, unless `synchronous_commit` is off;
    /// then it can be waited for.
    pub token: Option<Token>,
}

impl Outcome {
    /// The result's columns; none for statements without a result.
    pub fn columns(&self) -> &[Column] {
        self.rows.as_ref().map_or(&[], |r| r.columns())
    }
    /// Rows of the result: not those that were changed, which are [`Outcome::count`].
    pub fn len(&self) -> usize {
        self.rows.as_ref().map_or(0, |r| r.len())
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The row at `i`, counted from 0; panics beyond the end, as indexing a slice does.
    pub fn row(&self, i: usize) -> Row<'_> {
        match &self.rows {
            Some(rows) => rows.row(i),
            None => panic!("row {i} of a statement without a result ({})", self.tag),
        }
    }
    pub fn iter(&self) -> Iter<'_> {
        self.into_iter()
    }
    /// The rows alone.
    pub fn into_rows(self) -> Rows {
        self.rows.unwrap_or_default()
    }
}

impl<'a> IntoIterator for &'a Outcome {
    type Item = Row<'a>;
    type IntoIter = Iter<'a>;
    fn into_iter(self) -> Iter<'a> {
        Iter::new(self.rows.as_ref())
    }
}

/// The number that a command tag ends with, or 0.
fn count_of(tag: &str) -> u64 {
    let (mut count, mut unit) = (0u64, 1u64);
    for digit in tag.bytes().rev().take_while(u8::is_ascii_digit) {
        count = count.wrapping_add(unit.wrapping_mul((digit - b'0').into()));
        unit = unit.wrapping_mul(10);
    }
    count
}

/// Rows are charged in such steps.
const STEP: usize = 256 << 10;

/// Gathers outcomes. Rows count against the memory limit until they are the caller's.
#[derive(Default)]
pub(crate) struct Gather {
    earlier: Vec<Outcome>,
    last: Option<Outcome>,
    rows: Option<Rows>,
    charge: Option<Charge>,
    /// Bytes of the rows of all outcomes.
    before: usize,
}

impl Gather {
    pub fn charged(charge: Charge) -> Gather {
        Gather { charge: Some(charge), ..Gather::default() }
    }
    /// Its charge, empty.
    pub fn uncharged(&mut self) -> Option<Charge> {
        let mut charge = self.charge.take()?;
        if charge.bytes() > 0 {
            charge.resize(0).ok()?
        }
        Some(charge)
    }
    /// What each statement gave.
    pub fn into_all(mut self) -> Vec<Outcome> {
        self.earlier.extend(self.last);
        self.earlier
    }
    /// What the last statement gave, or nothing where there was none.
    pub fn into_last(self) -> Outcome {
        self.last.unwrap_or_default()
    }
    #[cold]
    fn grow(&mut self, bytes: usize) -> SqlResult<()> {
        self.charge.as_mut().map_or(Ok(()), |c| c.resize(bytes.next_multiple_of(STEP)))
    }
}

impl Output for Gather {
    fn columns(&mut self, columns: &Arc<[Column]>) -> SqlResult<()> {
        self.rows = Some(Rows::of(columns.clone()));
        Ok(())
    }
    fn row(&mut self, row: Row<'_>) -> SqlResult<()> {
        let Some(rows) = &mut self.rows else { return Ok(()) };
        rows.append(row)?;
        let bytes = self.before + rows.bytes();
        if bytes > STEP && self.charge.as_ref().is_some_and(|c| c.bytes() < bytes) {
            self.grow(bytes)?
        }
        Ok(())
    }
    fn done(&mut self, tag: &str, token: Option<Token>) -> SqlResult<()> {
        let rows = self.rows.take();
        self.before += rows.as_ref().map_or(0, Rows::bytes);
        let outcome = Outcome { tag: tag.to_string(), count: count_of(tag), rows, token };
        self.earlier.extend(self.last.replace(outcome));
        Ok(())
    }
}
