//! DECLARE, FETCH, MOVE and CLOSE: cursors by name, with PostgreSQL's rules.
//!
//! - **D1** A cursor of SCROLL keeps the rows that were fetched, and goes back in them. So does one without
//!   SCROLL and NO SCROLL from when it first goes back, if it can at all: its rows up to there are read once
//!   more then. Others do not go back (55000).
//! - **D2** A cursor WITH HOLD has its remaining rows gathered before its transaction commits: an error then
//!   is the commit's. A rollback closes it.
//! - **D3** After an error in a fetch the cursor keeps its name, as long as its transaction does, and gives
//!   nothing more.
//! - **D4** Its rows have `ctid` of the tables' rows that they are made of behind their columns
//!   (sql/bind/cursor/C1), which are not shown. Of the row that it stands on they are at hand for WHERE
//!   CURRENT OF. They mean those rows as long as what it saw is readable (sql/interpret/portal/S3).
//!
//! Source: PostgreSQL 15's documentation of these statements, and its answers.
use crate::session::Session;
use crate::session::cursor::{Cursor, KeptRows, Made, cannot_be_run};
use crate::session::output::Output;
use crate::session::params::with_refs;
use crate::session::plan::Plan;
use crate::session::planned::Telling;
#[cfg(feature = "server")]
use crate::session::prepared::Prepared;
use crate::session::rows::{Column, styled};
use ondol_sql::bound::{Bound, Declare, Fetch, Modes, Movement, Statement};
use ondol_sql::interpret::rows::RowView;
use ondol_sql::interpret::{Nowhere, Sink, Suspended};
use ondol_types::catalog::tid;
use ondol_types::{SqlError, SqlResult, Value, sqlstate};
use std::collections::HashMap;
use std::sync::Arc;

/// A cursor with a place in its result.
struct Named {
    cursor: Cursor,
    /// What declared it, and when, in microseconds from 2000-01-01.
    text: Arc<str>,
    declared_us: i64,
    hold: bool,
    /// D1: whether it does; the parameters with which it is read once more; all rows that were fetched.
    goes_back: bool,
    params: Vec<Value>,
    fetched: Option<KeptRows>,
    /// The columns that are shown.
    shown: Arc<[Column]>,
    /// D4: the tables, by their numbers, and the rows that it stands on, in their order.
    tables: Vec<u32>,
    rows: Vec<Option<u64>>,
    locks: bool,
    /// The row that it stands on, from 1; at the end, the last one.
    place: u64,
    /// Before the first row.
    at_start: bool,
    /// Behind the last row.
    at_end: bool,
}

/// An open cursor as the view `pg_cursors` has it (none is binary), and WHERE CURRENT OF.
#[derive(Clone, Debug)]
pub(crate) struct CursorRow {
    pub name: String,
    pub statement: Arc<str>,
    pub is_holdable: bool,
    pub is_scrollable: bool,
    /// Microseconds from 2000-01-01.
    pub creation_us: i64,
    is_held: bool,
    is_on_row: bool,
    /// D4
    tables: Vec<u32>,
    rows: Vec<Option<u64>>,
    locks: bool,
}

impl CursorRow {
    /// Which row of a table, by its name and number, it stands on; none where an outer join has none.
    fn current_row(&self, (table, number): (&str, u32)) -> SqlResult<Option<u64>> {
        let name = &self.name;
        let refused = |what: String| {
            let message = format!("cursor \"{name}\" {what}");
            Err(SqlError::new(sqlstate::INVALID_CURSOR_STATE, message))
        };
        if self.is_held {
            return refused("is held from a previous transaction".to_string());
        }
        let mut places = (0..self.tables.len()).filter(|n| self.tables[*n] == number);
        let place = match (places.next(), places.next()) {
            (Some(place), None) => place,
            (None, _) if self.locks => {
                return refused(format!("does not have a FOR UPDATE/SHARE reference to table \"{table}\""));
            }
            (Some(_), Some(_)) => {
                return refused(format!("has multiple FOR UPDATE/SHARE references to table \"{table}\""));
            }
            (None, _) => {
                return refused(format!("is not a simply updatable scan of table \"{table}\""));
            }
        };
        match self.is_on_row {
            true => Ok(self.rows.get(place).copied().flatten()),
            false => refused("is not positioned on a row".to_string()),
        }
    }
}

/// The row of a table that one of these cursors stands on.
pub(crate) fn current_row(all: &[CursorRow], name: &str, table: (&str, u32)) -> SqlResult<Option<u64>> {
    all.iter().find(|c| c.name == name).ok_or_else(|| no_cursor(name))?.current_row(table)
}

/// A session's cursors.
#[derive(Default)]
pub(crate) struct Cursors {
    by_name: HashMap<String, Named>,
}

impl Cursors {
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }
    /// Forgets those that were closed by the end of what they were opened in.
    #[inline]
    pub fn sweep(&mut self) {
        if !self.is_empty() {
            self.by_name.retain(|_, n| !n.cursor.is_closed())
        }
    }
    pub fn clear(&mut self) {
        self.by_name.clear()
    }
    /// Those that are open, by name, but for the one that is being fetched from.
    pub fn all(&self) -> Vec<CursorRow> {
        let row = |(name, n): (&String, &Named)| CursorRow {
            name: name.clone(),
            statement: n.text.clone(),
            is_holdable: n.hold,
            is_scrollable: n.goes_back,
            creation_us: n.declared_us,
            is_held: n.cursor.is_held(),
            is_on_row: !n.at_start && !n.at_end,
            tables: n.tables.clone(),
            rows: n.rows.clone(),
            locks: n.locks,
        };
        let mut all: Vec<CursorRow> = self.by_name.iter().map(row).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
}

fn no_cursor(name: &str) -> SqlError {
    SqlError::new(sqlstate::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist"))
}

fn forward_only() -> SqlError {
    SqlError::new(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, "cursor can only scan forward")
        .hint("Declare it with SCROLL option to enable backward scan.")
}

/// Gives rows without what tells which they are, which of the last one is kept (D4).
struct Standing<'s> {
    sink: &'s mut dyn Sink,
    shown: usize,
    rows: &'s mut Vec<Option<u64>>,
}

impl Sink for Standing<'_> {
    fn row(&mut self, row: &RowView<'_>) -> SqlResult<bool> {
        self.rows.clear();
        self.rows.extend((self.shown..row.len()).map(|n| row.get_bytes(n).map(tid::bits)));
        self.sink.row(&row.first(self.shown))
    }
}

impl Named {
    /// So many rows forward, or all; how many there were.
    fn forward(&mut self, s: &mut Session, count: Option<u64>, sink: &mut dyn Sink) -> SqlResult<u64> {
        if self.at_end || count == Some(0) {
            return Ok(0);
        }
        let most = count.unwrap_or(u64::MAX);
        let sink = &mut Standing { sink, shown: self.shown.len(), rows: &mut self.rows };
        let given = match &mut self.fetched {
            None => s.pull(&mut self.cursor, most, sink)?,
            Some(fetched) => {
                let mut at = self.place as usize;
                let there = (fetched.rows.len() - at) as u64;
                if there < most {
                    s.pull(&mut self.cursor, most - there, fetched)?;
                }
                fetched.give(&mut at, most, sink)?
            }
        };
        self.at_start &= given == 0;
        self.at_end = given < most;
        self.place += given;
        Ok(given)
    }

    /// D1: the rows that were fetched are kept.
    fn look_back(&mut self, s: &mut Session) -> SqlResult<()> {
        if !self.goes_back {
            return Err(forward_only());
        }
        if self.fetched.is_none() {
            let mut fetched = KeptRows::new(self.cursor.shared_columns(), s.connection.charge());
            s.restart(&mut self.cursor, &self.params)?;
            s.pull(&mut self.cursor, self.place, &mut fetched)?;
            self.fetched = Some(fetched)
        }
        Ok(())
    }

    /// So many rows backward, or all.
    fn backward(&mut self, s: &mut Session, count: Option<u64>, sink: &mut dyn Sink) -> SqlResult<u64> {
        self.look_back(s)?;
        if self.at_start || count == Some(0) {
            return Ok(0);
        }
        let sink = &mut Standing { sink, shown: self.shown.len(), rows: &mut self.rows };
        let Some(fetched) = &self.fetched else { return Ok(0) };
        // Rows before the present one, which at the end is behind the last.
        let before = if self.at_end { self.place } else { self.place - 1 };
        let most = count.unwrap_or(u64::MAX);
        let given = before.min(most);
        for i in 1..=given {
            sink.row(&fetched.rows.view((before - i) as usize))?;
        }
        if given > 0 {
            self.at_end = false
        }
        self.at_start = given < most;
        self.place = if self.at_start { 0 } else { before + 1 - given };
        Ok(given)
    }

    fn rewind(&mut self, s: &mut Session) -> SqlResult<()> {
        // One that was not moved is there already.
        if self.at_start && !self.at_end {
            return Ok(());
        }
        self.look_back(s)?;
        (self.place, self.at_start, self.at_end) = (0, true, false);
        Ok(())
    }

    /// Moves, and gives the rows of the movement; how many they are.
    fn go(&mut self, s: &mut Session, to: Movement, is_move: bool, sink: &mut dyn Sink) -> SqlResult<u64> {
        match to {
            Movement::Forward(Some(0)) | Movement::Backward(Some(0)) | Movement::Relative(0) => {
                let on_row = !self.at_start && !self.at_end;
                if let Movement::Backward(_) = to
                    && !is_move
                    && !self.goes_back
                {
                    return Err(forward_only());
                }
                if is_move || !on_row {
                    return Ok(on_row.into());
                }
                self.backward(s, Some(1), &mut Nowhere)?;
                self.forward(s, Some(1), sink)
            }
            Movement::Forward(n) => self.forward(s, n, sink),
            Movement::Backward(None) if is_move => {
                let passed = if self.place > 0 && !self.at_end { self.place - 1 } else { self.place };
                self.rewind(s).map(|()| passed)
            }
            Movement::Backward(n) => self.backward(s, n, sink),
            Movement::Relative(n) if n > 0 => {
                self.forward(s, Some(n.unsigned_abs() - 1), &mut Nowhere)?;
                self.forward(s, Some(1), sink)
            }
            Movement::Relative(n) => {
                self.backward(s, Some(n.unsigned_abs() - 1), &mut Nowhere)?;
                self.backward(s, Some(1), sink)
            }
            Movement::Absolute(0) => self.rewind(s).map(|()| 0),
            Movement::Absolute(n) if n > 0 => {
                // Of the rows up to the one before it, those that are not behind us yet.
                let wanted = n.unsigned_abs() - 1;
                let here = if self.at_end { self.place + 1 } else { self.place };
                if wanted < here {
                    self.rewind(s)?
                }
                let passed = if self.at_end { here } else { self.place };
                self.forward(s, Some(wanted.saturating_sub(passed)), &mut Nowhere)?;
                self.forward(s, Some(1), sink)
            }
            Movement::Absolute(n) => {
                self.forward(s, None, &mut Nowhere)?;
                self.backward(s, Some(n.unsigned_abs() - 1), &mut Nowhere)?;
                self.backward(s, Some(1), sink)
            }
        }
    }
}

impl Session {
    pub(crate) fn declare(
        &mut self,
        (declare, text): (&Declare, &str),
        bound: &Bound,
        params: &[Value],
        out: &mut dyn Output,
    ) -> SqlResult<()> {
        if self.in_transaction() {
            self.declare_within((declare, text), bound, params)?;
            return out.done("DECLARE CURSOR", None);
        }
        if !declare.hold {
            return Err(SqlError::new(
                sqlstate::NO_ACTIVE_SQL_TRANSACTION,
                "DECLARE CURSOR can only be used in transaction blocks",
            ));
        }
        self.start_transaction(Modes::default())?;
        let done = self
            .declare_within((declare, text), bound, params)
            .and_then(|()| self.hold_cursors())
            .and_then(|()| self.connection.commit());
        match done {
            Ok(token) => {
                self.settings_committed();
                out.done("DECLARE CURSOR", token)
            }
            Err(e) => {
                self.drop_transaction();
                Err(e)
            }
        }
    }

    fn declare_within(
        &mut self,
        (declare, text): (&Declare, &str),
        bound: &Bound,
        params: &[Value],
    ) -> SqlResult<()> {
        let name = &declare.name;
        if self.cursors.by_name.contains_key(name) {
            let message = format!("cursor \"{name}\" already exists");
            return Err(SqlError::new(sqlstate::DUPLICATE_CURSOR, message));
        }
        let query = Bound {
            foreign: bound.foreign.clone(),
            ..Bound::of(Statement::Query(declare.query.clone()), bound.params.clone(), bound.catalog_version)
        };
        let plan = Plan::new(self.compile(&query)?).with_origins(&query.statement.origins());
        let plan = Arc::new(plan);
        if !Suspended::can_be_left(&plan.program) {
            // A function does.
            return Err(SqlError::unsupported("DECLARE CURSOR for a query that changes rows"));
        }
        if plan.program.writes {
            self.refuse_read_only(plan.program.tag.of_writing())?
        }
        let fitted = self.fit(params, &plan.program.params)?;
        let mut cursor =
            with_refs(&fitted, |refs| self.open_plan(&plan, || Made::Text("".into(), vec![]), refs))?;
        let locks = !declare.query.locks.is_empty();
        let shown = plan.columns.len() - declare.rows.len();
        // Rows that were sorted are not read where they are: PostgreSQL knows of no current one.
        let is_sorted = !locks && !declare.query.order_by.is_empty() && !plan.program.sorts.is_empty();
        let tables = if is_sorted { Vec::new() } else { declare.rows.clone() };
        let goes_back = declare.goes_back && !plan.program.writes;
        if goes_back || !tables.is_empty() {
            self.stay(&mut cursor)
        }
        let fetched = declare.scroll.then(|| KeptRows::new(&plan.columns, self.connection.charge()));
        let named = Named {
            cursor,
            text: text.trim().into(),
            declared_us: self.connection.transaction_time_us(),
            hold: declare.hold,
            goes_back,
            params: if goes_back { params.to_vec() } else { Vec::new() },
            fetched,
            shown: plan.columns[..shown].into(),
            tables,
            rows: Vec::new(),
            locks,
            place: 0,
            at_start: true,
            at_end: false,
        };
        self.cursors.by_name.insert(name.clone(), named);
        Ok(())
    }

    /// The columns of what FETCH gives.
    pub(crate) fn fetched_columns(&self, fetch: &Fetch) -> SqlResult<Arc<[Column]>> {
        match self.cursors.by_name.get(&fetch.name) {
            Some(_) if fetch.is_move => Ok([].into()),
            Some(named) => Ok(named.shown.clone()),
            None => Err(no_cursor(&fetch.name)),
        }
    }

    pub(crate) fn fetch_named(&mut self, fetch: &Fetch, out: &mut dyn Output) -> SqlResult<()> {
        // Taken out meanwhile.
        let Some(mut named) = self.cursors.by_name.remove(&fetch.name) else {
            return Err(no_cursor(&fetch.name));
        };
        let done = self.fetch_of(&mut named, fetch, out);
        if done.is_err() {
            // D3
            named.cursor.fail();
            named.fetched = None;
        }
        self.cursors.by_name.insert(fetch.name.clone(), named);
        let rows = done?;
        out.done(&format!("{} {rows}", if fetch.is_move { "MOVE" } else { "FETCH" }), None)
    }

    fn fetch_of(&mut self, named: &mut Named, fetch: &Fetch, out: &mut dyn Output) -> SqlResult<u64> {
        if named.cursor.has_failed() {
            return Err(cannot_be_run(&fetch.name));
        }
        if fetch.is_move {
            return named.go(self, fetch.movement, true, &mut Nowhere);
        }
        let columns = styled(&named.shown, self.quick.styles, &mut None).clone();
        let mut sink = Telling::new(&columns, out);
        let rows = named.go(self, fetch.movement, false, &mut sink)?;
        sink.tell()?;
        Ok(rows)
    }

    /// Opens a cursor for a client's portal, which is a cursor by that name for statements too.
    #[cfg(feature = "server")]
    pub(crate) fn open_named(&mut self, name: &str, prepared: &Prepared, params: &[Value]) -> SqlResult<()> {
        let cursor = with_refs(params, |refs| self.open_prepared(prepared, refs))?;
        let named = Named {
            text: prepared.source().0.into(),
            declared_us: self.connection.transaction_time_us(),
            hold: false,
            goes_back: false,
            params: Vec::new(),
            fetched: None,
            shown: cursor.shared_columns().clone(),
            tables: Vec::new(),
            rows: Vec::new(),
            locks: false,
            place: 0,
            at_start: true,
            at_end: false,
            cursor,
        };
        self.cursors.by_name.insert(name.to_string(), named);
        Ok(())
    }
    /// The columns of what a cursor gives, if there is one of that name.
    #[cfg(feature = "server")]
    pub(crate) fn columns_of_cursor(&self, name: &str) -> Option<Arc<[Column]>> {
        self.cursors.by_name.get(name).map(|n| n.shown.clone())
    }
    /// Gives up to `most` rows of a cursor, or all that are left, as a client has them of a portal: the tag
    /// if there are no more.
    #[cfg(feature = "server")]
    pub(crate) fn fetch_portal(
        &mut self,
        name: &str,
        most: Option<u64>,
        out: &mut dyn Output,
    ) -> SqlResult<Option<String>> {
        self.timed(|s| {
            let Some(mut named) = s.cursors.by_name.remove(name) else {
                let message = format!("portal \"{name}\" does not exist");
                return Err(SqlError::new(sqlstate::INVALID_CURSOR_NAME, message));
            };
            let movement = Movement::Forward(most);
            let fetch = Fetch { name: name.to_string(), movement, is_move: false };
            let done = s.fetch_of(&mut named, &fetch, out);
            if done.is_err() {
                // D3
                named.cursor.fail();
                named.fetched = None;
            }
            let tag = done.map(|rows| named.at_end.then(|| named.cursor.tag(rows)));
            s.cursors.by_name.insert(name.to_string(), named);
            tag
        })
    }

    pub(crate) fn close_named(&mut self, name: Option<&str>) -> SqlResult<()> {
        match name {
            None => self.cursors.clear(),
            Some(n) => {
                self.cursors.by_name.remove(n).ok_or_else(|| no_cursor(n))?;
            }
        }
        Ok(())
    }

    /// D2: before the transaction commits.
    #[inline]
    pub(crate) fn hold_cursors(&mut self) -> SqlResult<()> {
        if self.cursors.is_empty() { Ok(()) } else { self.hold_all() }
    }
    #[cold]
    fn hold_all(&mut self) -> SqlResult<()> {
        let is_to_be_held =
            |n: &Named| n.hold && !n.cursor.is_held() && !n.cursor.has_failed() && !n.cursor.is_closed();
        let all = self.cursors.by_name.iter();
        let names: Vec<String> = all.filter(|(_, n)| is_to_be_held(n)).map(|(n, _)| n.clone()).collect();
        for name in names {
            let Some(mut named) = self.cursors.by_name.remove(&name) else { continue };
            // One of which all rows are gathered can begin anew.
            if named.goes_back && named.place > 0 {
                named.look_back(self)?
            }
            if let Some(fetched) = &mut named.fetched {
                self.pull(&mut named.cursor, u64::MAX, fetched)?;
            }
            self.hold(&mut named.cursor)?;
            self.cursors.by_name.insert(name, named);
        }
        Ok(())
    }
}
