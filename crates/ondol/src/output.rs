//! Where the outcomes of statements go.
use crate::rows::{Column, Row, Rows};
use ondol_engine::Token;
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

/// Takes the outcomes of statements as they come: for each statement `columns` and `row`s if it has a result, then `done`.
/// An error from `columns`, `row` or `copy_out` ends the statement as failed.
pub trait Output {
    fn columns(&mut self, columns: &Arc<[Column]>) -> SqlResult<()> {
        let _ = columns;
        Ok(())
    }
    fn row(&mut self, row: Row<'_>) -> SqlResult<()> {
        let _ = row;
        Ok(())
    }
    /// The statement is done; if it committed, the commit is durable (or waits to be, and `token` names it). `tag`
    /// is PostgreSQL's command tag.
    fn done(&mut self, tag: &str, token: Option<Token>) -> SqlResult<()> {
        let _ = (tag, token);
        Ok(())
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
    /// Told now and then during COPY.
    fn progress(&mut self, progress: Progress) {
        let _ = progress;
    }
}

/// What one statement gave.
#[derive(Debug, Default)]
pub struct Outcome {
    /// PostgreSQL's command tag: `SELECT 4`, `INSERT 0 3`, `CREATE TABLE`.
    pub tag: String,
    /// The rows, of statements that have a result.
    pub rows: Option<Rows>,
    /// Names the commit when it was asynchronous.
    pub token: Option<Token>,
}

/// Gathers outcomes.
#[derive(Default)]
pub(crate) struct Gather {
    pub outcomes: Vec<Outcome>,
    rows: Option<Rows>,
}

impl Output for Gather {
    fn columns(&mut self, columns: &Arc<[Column]>) -> SqlResult<()> {
        self.rows = Some(Rows::of(columns.clone()));
        Ok(())
    }
    fn row(&mut self, row: Row<'_>) -> SqlResult<()> {
        self.rows.as_mut().map_or(Ok(()), |r| r.append(row))
    }
    fn done(&mut self, tag: &str, token: Option<Token>) -> SqlResult<()> {
        self.outcomes.push(Outcome { tag: tag.to_string(), rows: self.rows.take(), token });
        Ok(())
    }
}
