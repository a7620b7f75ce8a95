//! Rows through a connection, between a statement's start and its end: found, read, locked, changed.
use super::{Connection, Part};
use crate::dictionary::put_string;
use crate::error;
use crate::row::{self, RowBatch};
use crate::table::{Table, TableIndex};
use ondol_base::epoch::Guard;
use ondol_base::fiber::take_turns;
use ondol_base::oid::Oid;
use ondol_base::sim::mutated;
use ondol_index::crtree::{CrTree, Rect, Search};
use ondol_kernel::LockMode;
use ondol_kernel::heap::Slots;
use ondol_kernel::transaction::{Newest, Session};
use ondol_types::{SqlError, SqlResult, ValueRef, sqlstate};
use std::sync::Arc;

/// SQLSTATE-like marker of a row that an UPDATE has given back (kernel: lock/L6); never reaches a user.
pub const KEYS_SHARED: &str = "ONKSH";

/// FOR KEY SHARE and so on, the weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockStrength {
    KeyShare,
    Share,
    NoKeyUpdate,
    Update,
}

impl LockStrength {
    pub const ALL: [LockStrength; 4] =
        [LockStrength::KeyShare, LockStrength::Share, LockStrength::NoKeyUpdate, LockStrength::Update];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// As long as the lock timeout allows.
    Block,
    /// Refuse with 55P03.
    NoWait,
    /// Leave the row out.
    SkipLocked,
}

/// What locking a row found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locked {
    /// Ours; the row is as the statement's snapshot showed it.
    Same,
    /// Ours; the row was changed since the snapshot (READ COMMITTED only): read it again by
    /// [`Connection::read_newest`] and recheck the statement's condition.
    Changed,
    /// The row was deleted since the snapshot (READ COMMITTED only).
    Gone,
    /// Somebody else's, and SKIP LOCKED was asked for.
    Skipped,
}

/// A scan of all rows of a table, in storage order.
#[derive(Default)]
pub struct Scan {
    slots: Slots,
}

impl Scan {
    /// The parts, of at most `pages` pages each, that make up the scan of a whole table, in its order.
    pub fn parts(connection: &Connection, table: &Table, pages: usize) -> Vec<Part> {
        connection.session.remember_heap(&table.store);
        table.store.rows.parts(pages.max(1))
    }
    /// Begins the scan of a part, or of nothing.
    pub fn start_part(&mut self, part: Option<&Part>) {
        match part {
            Some(p) => self.slots.start_part(p),
            None => self.slots = Slots::default(),
        }
    }
    pub fn start(&mut self, connection: &Connection, table: &Arc<Table>) {
        connection.session.remember_heap(&table.store);
        self.slots.start(&table.store.rows);
    }
    /// Copies the next visible row into `row` (of the layout's row size).
    pub fn next(&mut self, connection: &Connection, row: &mut [u8]) -> SqlResult<Option<Oid>> {
        let session = &connection.session;
        let space = &session.kernel().space;
        let _pin = session.pin();
        while let Some(oid) = self.slots.next(space) {
            if session.read(oid, row) {
                return Ok(Some(oid));
            }
        }
        Ok(None)
    }
}

fn unpack(l: ondol_kernel::Locked) -> Locked {
    match l {
        ondol_kernel::Locked::Same => Locked::Same,
        ondol_kernel::Locked::Changed => Locked::Changed,
        ondol_kernel::Locked::Gone => Locked::Gone,
        ondol_kernel::Locked::Skipped => Locked::Skipped,
    }
}

/// The error of a row that could not be locked.
fn not_locked(table: &Table, e: ondol_kernel::Error) -> SqlError {
    match e {
        ondol_kernel::Error::LockNotAvailable { timeout: false } => SqlError::new(
            sqlstate::LOCK_NOT_AVAILABLE,
            format!("could not obtain lock on row in relation \"{}\"", table.def.name),
        ),
        e => error::kernel(e),
    }
}

impl Connection {
    /// Copies the row as the statement sees it; false when it does not see it.
    #[inline]
    pub fn read(&self, table: &Table, oid: Oid, row: &mut [u8]) -> bool {
        let _ = table;
        self.session.read(oid, row)
    }
    /// Copies the newest version (committed, or our own), after [`Locked::Changed`].
    pub fn read_newest(&self, table: &Table, oid: Oid, row: &mut [u8]) -> bool {
        let _ = table;
        self.session.read_newest(oid, row)
    }
    /// Brings a row into the cache.
    #[inline]
    pub fn prefetch(&self, oid: Oid) {
        self.session.kernel().space.prefetch(oid)
    }
    /// The same of a row of so many bytes.
    #[inline(always)]
    pub fn prefetch_row(&self, oid: Oid, len: usize) {
        self.session.kernel().space.prefetch_row(oid, len)
    }
    /// Brings the header of a row's page into the cache, which a change of the row marks.
    #[inline]
    pub fn prefetch_page(&self, oid: Oid) {
        self.session.kernel().space.prefetch_page(oid)
    }
    /// Pins the epoch while the result lives.
    #[inline]
    pub fn pin(&self) -> Guard<'_> {
        self.session.pin()
    }
    /// Appends the normalised key that a row which the statement reads has in an index.
    #[inline]
    pub fn row_key(&self, index: &TableIndex, row: &[u8], out: &mut Vec<u8>) {
        index.store.key.key(row, self, out);
    }
    /// Appends the bytes of a string, which a row that the statement reads names by these bits.
    pub fn read_string(&self, slot: u64, len: usize, out: &mut Vec<u8>) {
        use ondol_kernel::Strings;
        if !self.session.read_string(slot, len, out) {
            Newest(&self.session).string(slot, len, out)
        }
    }
    /// The row of the table that these bits name, if they do, whether or not the statement sees it: a number
    /// that was an OID's bits may have become any other since.
    pub fn row_at(&self, table: &Table, bits: u64) -> Option<Oid> {
        table.store.rows.slot_at(bits)
    }
    /// Copies the row of the table that these bits name, if they name one that the statement sees.
    pub fn read_at(&self, table: &Table, bits: u64, row: &mut [u8]) -> SqlResult<Option<Oid>> {
        let found = self.row_at(table, bits).filter(|oid| self.session.read(*oid, row));
        match found {
            Some(oid) => self.session.remember_row(oid).map_err(error::kernel)?,
            // One may come to be there.
            None => self.session.remember_heap(&table.store),
        }
        Ok(found)
    }
    /// Appends every OID that stands under the key of these values, which are all the index's columns; the
    /// row's key must be rechecked by the caller.
    pub fn lookup(&self, index: &TableIndex, key: &[u8], out: &mut Vec<Oid>) -> SqlResult<()> {
        let start = out.len();
        if !self.session.is_serializable() {
            let guard = self.session.pin();
            index.index.lookup(&guard, key, out, None);
            return Ok(());
        }
        let mut seen = vec![];
        {
            let guard = self.session.pin();
            index.index.lookup(&guard, key, out, Some(&mut seen));
        }
        self.session.remember_nodes(&index.store, &mut seen).map_err(error::kernel)?;
        for oid in &out[start..] {
            self.session.remember_row(*oid).map_err(error::kernel)?
        }
        Ok(())
    }
    /// Appends the OIDs of all rows that may lie within a box of a CR-tree, each once, by where they lie; the
    /// row's columns must be looked at by the caller. Gives how many nodes were looked at.
    pub fn search(
        &self,
        index: &TableIndex,
        within: &Rect,
        search: &mut Search,
        out: &mut Vec<Oid>,
    ) -> SqlResult<u64> {
        let tree = points_of(index)?;
        let start = out.len();
        let mut seen = vec![];
        let serializable = self.session.is_serializable() && !mutated("boxes_forgotten");
        {
            let guard = self.session.pin();
            tree.search(&guard, within, search, out, serializable.then_some(&mut seen));
        }
        out[start..].sort_unstable();
        let mut kept = start;
        for i in start..out.len() {
            if kept == start || out[i] != out[kept - 1] {
                out[kept] = out[i];
                kept += 1
            }
        }
        out.truncate(kept);
        if serializable {
            self.session.remember_nodes(&index.store, &mut seen).map_err(error::kernel)?;
            for oid in &out[start..] {
                self.session.remember_row(*oid).map_err(error::kernel)?
            }
        }
        Ok(search.nodes())
    }
    /// The same for callers who go on with those of them alone that they have from another index: a
    /// serializable transaction has what it read by that one. In any order, some more than once, and false if
    /// it was given up, where more than `most` were found.
    pub fn search_beside(
        &self,
        index: &TableIndex,
        within: &Rect,
        most: usize,
        search: &mut Search,
        out: &mut Vec<Oid>,
    ) -> SqlResult<bool> {
        Ok(points_of(index)?.search_up_to(&self.session.pin(), within, most, search, out))
    }
    #[inline]
    pub fn is_serializable(&self) -> bool {
        self.session.is_serializable()
    }
    /// Whether the transaction may see two rows under one unique key: its own, and one that others have taken
    /// away since its snapshot.
    #[inline]
    pub fn may_see_twins(&self) -> bool {
        self.session.view.twins
    }
    pub fn lock(
        &mut self,
        table: &Arc<Table>,
        oid: Oid,
        strength: LockStrength,
        wait: Wait,
    ) -> SqlResult<Locked> {
        let mode = match strength {
            LockStrength::KeyShare => LockMode::KeyShare,
            LockStrength::Share => LockMode::Share,
            LockStrength::NoKeyUpdate => LockMode::NoKeyUpdate,
            LockStrength::Update => LockMode::Update,
        };
        let wait = match wait {
            Wait::Block => ondol_kernel::Wait::Block,
            Wait::NoWait => ondol_kernel::Wait::NoWait,
            Wait::SkipLocked => ondol_kernel::Wait::Skip,
        };
        if self.locking.is_some() {
            return self.lock_for_portal(table, oid, mode, wait);
        }
        self.session.lock(&table.store, oid, mode, wait).map(unpack).map_err(|e| not_locked(table, e))
    }
    /// The same by a portal's view, for the present command (portal/P5).
    #[cold]
    fn lock_for_portal(
        &mut self,
        table: &Arc<Table>,
        oid: Oid,
        mode: LockMode,
        wait: ondol_kernel::Wait,
    ) -> SqlResult<Locked> {
        let seen = self.session.view.command;
        self.session.view.command = self.locking.unwrap_or(seen);
        let done = self.session.lock(&table.store, oid, mode, wait);
        self.session.view.command = seen;
        let locked = done.map(unpack).map_err(|e| not_locked(table, e))?;
        match locked {
            Locked::Same | Locked::Changed if self.session.has_changed(oid, seen) => Ok(Locked::Gone),
            locked => Ok(locked),
        }
    }

    fn not_null(&self, table: &Table, column: usize, values: &dyn Fn(&mut String)) -> SqlError {
        let mut row = String::from("Failing row contains (");
        values(&mut row);
        row.push_str(").");
        SqlError::new(
            sqlstate::NOT_NULL_VIOLATION,
            format!(
                "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
                table.def.columns[column].name, table.def.name
            ),
        )
        .detail(row)
        .table(table.def.schema, &table.def.name)
        .column(&table.def.columns[column].name)
    }

    /// The error of a new row that one of the table's checks is false of, if the row has no NULL where none
    /// may be: that is told first.
    #[cold]
    pub fn violates(&self, table: &Table, check: usize, values: &[ValueRef<'_>]) -> SqlError {
        let name = table.def.checks.get(check).map_or("", |c| &c.name);
        let message =
            format!("new row for relation \"{}\" violates check constraint \"{name}\"", table.def.name);
        let error = self.refused_row(table, sqlstate::CHECK_VIOLATION, message, values);
        match error.sqlstate() == sqlstate::CHECK_VIOLATION {
            true => error.table(table.def.schema, &table.def.name).constraint(name),
            false => error,
        }
    }

    /// The error of a new row of the table that a view does not show which holds new rows to that; likewise.
    #[cold]
    pub fn out_of_view(&self, table: &Table, view: &str, values: &[ValueRef<'_>]) -> SqlError {
        let message = format!("new row violates check option for view \"{view}\"");
        self.refused_row(table, sqlstate::WITH_CHECK_OPTION_VIOLATION, message, values)
    }

    fn refused_row(
        &self,
        table: &Table,
        state: &'static str,
        message: String,
        values: &[ValueRef<'_>],
    ) -> SqlError {
        let shown = |out: &mut String| describe(table, values.iter().copied(), out);
        let null = values.iter().zip(&table.def.columns).position(|(v, c)| c.not_null && v.is_null());
        if let Some(column) = null {
            return self.not_null(table, column, &shown);
        }
        let mut row = String::from("Failing row contains (");
        shown(&mut row);
        row.push_str(").");
        SqlError::new(state, message).detail(row)
    }

    /// A kernel error of a change to `table`, the new row being `bytes`.
    fn change_error(&self, table: &Table, e: ondol_kernel::Error, bytes: &[u8]) -> SqlError {
        match e {
            ondol_kernel::Error::UniqueViolation { index } => {
                self.duplicate(table, index, bytes, &Newest(&self.session))
            }
            e => error::kernel(e),
        }
    }

    /// The error of a row whose key another has in a unique index.
    pub(super) fn duplicate(
        &self,
        table: &Table,
        index: u32,
        bytes: &[u8],
        strings: &dyn ondol_kernel::Strings,
    ) -> SqlError {
        let Some(i) = table.kept_up().find(|i| i.def.id == index) else {
            return error::kernel(ondol_kernel::Error::UniqueViolation { index });
        };
        let (mut names, mut values) = (vec![], vec![]);
        for c in i.def.keys() {
            let def = &table.def.columns[c.column];
            names.push(def.label());
            let mut scratch = vec![];
            let v = row::column(&table.layout, bytes, c.column, strings, &mut scratch);
            values.push(shown_value(v, def.ty))
        }
        let (names, values) = (names.join(", "), values.join(", "));
        if i.def.options.exclusion {
            let message = format!("conflicting key value violates exclusion constraint \"{}\"", i.def.name);
            return SqlError::new(sqlstate::EXCLUSION_VIOLATION, message)
                .detail(format!("Key ({names})=({values}) conflicts with existing key ({names})=({values})."))
                .table(table.def.schema, &table.def.name)
                .constraint(&i.def.name);
        }
        SqlError::new(
            sqlstate::UNIQUE_VIOLATION,
            format!("duplicate key value violates unique constraint \"{}\"", i.def.name),
        )
        .detail(format!("Key ({names})=({values}) already exists."))
        .table(table.def.schema, &table.def.name)
        .constraint(&i.def.name)
    }

    #[inline(always)]
    pub(super) fn check_not_null(&self, table: &Table, values: &[ValueRef<'_>]) -> SqlResult<()> {
        for (i, v) in values.iter().enumerate() {
            if v.is_null() && table.def.columns[i].not_null {
                return Err(self.not_null(table, i, &|out| describe(table, values.iter().copied(), out)));
            }
        }
        Ok(())
    }

    /// The row that was inserted last, one by one.
    pub fn inserted(&self) -> Oid {
        self.inserted
    }
    /// A new row; one value for each column, of the column's type (typmod applied). NOT NULL and uniqueness
    /// are checked here, index entries made.
    pub fn insert(&mut self, table: &Arc<Table>, values: &[ValueRef<'_>]) -> SqlResult<Oid> {
        let oid = self.insert_unnoted(table, values)?;
        self.inserted = oid;
        if !table.def.foreign.is_empty() {
            self.note_new(table, oid)?
        }
        Ok(oid)
    }
    /// The same of a row whose foreign keys are not looked at.
    pub(crate) fn insert_unnoted(&mut self, table: &Arc<Table>, values: &[ValueRef<'_>]) -> SqlResult<Oid> {
        self.check_not_null(table, values)?;
        let mut bytes = std::mem::take(&mut self.row);
        let (session, dictionary) = (&mut self.session, &self.db.dictionary);
        let put = &mut |b: &[u8]| put_string(session, dictionary, &table.store, b);
        let done = row::encode(&table.layout, values, &mut bytes, put)
            .and_then(|()| self.session.insert(&table.store, &bytes))
            .map_err(|e| self.change_error(table, e, &bytes));
        self.row = bytes;
        done
    }
    /// Inserts rows of the table's layout, in their order. An error comes with the number of its row.
    pub fn insert_rows(&mut self, table: &Arc<Table>, rows: &mut RowBatch) -> Result<(), (usize, SqlError)> {
        /// Rows whose strings are stored before they are.
        const GROUP: usize = 64;
        let size = table.layout.row_size;
        let mut done = 0;
        while done < rows.len() {
            take_turns();
            let end = (done + GROUP).min(rows.len());
            if rows.has_strings() {
                let (session, dictionary) = (&mut self.session, &self.db.dictionary);
                for n in done..end {
                    rows.place_strings(n, &mut |b| put_string(session, dictionary, &table.store, b))
                        .map_err(|e| (n, error::kernel(e)))?
                }
            }
            let group = &rows.bytes[done * size..end * size];
            let (mut oids, notes) = (vec![], !table.def.foreign.is_empty());
            let mut each = |oid| {
                if notes {
                    oids.push(oid)
                }
            };
            self.session.insert_rows(&table.store, group, &mut done, &mut each).map_err(|e| {
                let failed = &rows.bytes[done * size..][..size];
                (done, self.change_error(table, e, failed))
            })?;
            for oid in oids {
                self.note_new(table, oid).map_err(|e| (done - 1, e))?
            }
        }
        Ok(())
    }
    /// Changes columns of a row that is locked by us (`lock` first); `row` is its newest bytes.
    pub fn update(
        &mut self,
        table: &Arc<Table>,
        oid: Oid,
        row: &[u8],
        changes: &[(usize, ValueRef<'_>)],
    ) -> SqlResult<()> {
        self.update_or_let_go(table, oid, row, changes, false)
    }
    /// The same; `lets_go`: a row whose keys others share and would be others is given back, if this command
    /// has only locked it. The error is [`KEYS_SHARED`] then: it is to be locked FOR UPDATE, and looked at
    /// anew.
    pub fn update_or_let_go(
        &mut self,
        table: &Arc<Table>,
        oid: Oid,
        row: &[u8],
        changes: &[(usize, ValueRef<'_>)],
        lets_go: bool,
    ) -> SqlResult<()> {
        if let Some((i, _)) = changes.iter().find(|(i, v)| v.is_null() && table.def.columns[*i].not_null) {
            let all = |out: &mut String| {
                let mut scratch: Vec<Vec<u8>> = table.def.columns.iter().map(|_| vec![]).collect();
                let strings = Newest(&self.session);
                let values: Vec<ValueRef<'_>> = scratch
                    .iter_mut()
                    .enumerate()
                    .map(|(c, s)| match changes.iter().rev().find(|x| x.0 == c) {
                        Some((_, v)) => *v,
                        None => row::column(&table.layout, row, c, &strings, s),
                    })
                    .collect();
                describe(table, values.into_iter(), out)
            };
            return Err(self.not_null(table, *i, &all));
        }
        let mut new = std::mem::take(&mut self.changes);
        let mut gone = std::mem::take(&mut self.gone);
        gone.clear();
        let done = self.change(table, oid, row, changes, (&mut new, &mut gone), lets_go);
        self.changes = new;
        self.gone = gone;
        done
    }
    fn change(
        &mut self,
        table: &Arc<Table>,
        oid: Oid,
        row: &[u8],
        changes: &[(usize, ValueRef<'_>)],
        (new, gone): (&mut Vec<u8>, &mut Vec<(u64, usize)>),
        lets_go: bool,
    ) -> SqlResult<()> {
        let mut put = vec![];
        {
            // New strings are stored first, old ones dropped last: a reader of the old version finds its own.
            let (session, dictionary) = (std::cell::RefCell::new(&mut self.session), &self.db.dictionary);
            let strings = Through(&session);
            row::change(
                &table.layout,
                row,
                changes,
                new,
                &strings,
                &mut |b| {
                    let slot = put_string(&mut session.borrow_mut(), dictionary, &table.store, b)?;
                    put.push(slot);
                    Ok(slot)
                },
                gone,
            )
            .map_err(error::kernel)?;
        }
        let keyed = changes.iter().any(|(c, _)| table.is_keyed(*c));
        self.session
            .update_or_let_go(&table.store, oid, row, new, keyed, lets_go)
            .map_err(|e| self.change_error(table, e, new))?;
        if keyed && !(table.def.foreign.is_empty() && table.references.is_empty()) {
            self.note_changed(table, oid, |c| changes.iter().any(|(at, _)| *at == c), (row, new))?
        }
        for (o, n) in gone.iter() {
            self.session.drop_string(&table.store, *o, *n).map_err(error::kernel)?
        }
        Ok(())
    }
    /// Whether the running command, or one nested in it, has made the row's newest version: then the bytes
    /// that the statement has read are not its newest.
    pub fn is_of_this_command(&self, oid: Oid) -> bool {
        self.session.is_of_this_command(oid)
    }
    /// The statement that began deletes rows: for that it is not refused memory.
    pub fn removes_rows(&mut self) {
        self.session.removes = true
    }
    /// Deletes a row that is locked by us; `row` is its newest bytes.
    pub fn delete(&mut self, table: &Arc<Table>, oid: Oid, row: &[u8]) -> SqlResult<()> {
        if !table.references.is_empty() {
            self.note_gone(table, row, None)?
        }
        self.session.delete(&table.store, oid, row).map_err(error::kernel)?;
        let mut gone = std::mem::take(&mut self.gone);
        gone.clear();
        row::strings_of(&table.layout, row, &Newest(&self.session), |o, n| gone.push((o, n)));
        for (o, n) in &gone {
            self.session.drop_string(&table.store, *o, *n).map_err(error::kernel)?
        }
        self.gone = gone;
        Ok(())
    }
}

/// Strings as the running statement sees them.
impl ondol_kernel::Strings for Connection {
    fn string(&self, slot: u64, len: usize, out: &mut Vec<u8>) {
        self.read_string(slot, len, out)
    }
}

/// The session's strings while it is also written through.
struct Through<'a, 'b>(&'a std::cell::RefCell<&'b mut Session>);
impl ondol_kernel::Strings for Through<'_, '_> {
    fn string(&self, slot: u64, len: usize, out: &mut Vec<u8>) {
        let s = self.0.borrow();
        Newest(&s).string(slot, len, out)
    }
}

/// A part of a key as PostgreSQL shows it in errors.
pub(crate) fn shown_value(v: ValueRef<'_>, ty: ondol_types::Type) -> String {
    if v.is_null() {
        return "null".into();
    }
    let mut text = String::new();
    ondol_types::text::output(v, ty, &mut text);
    text
}

/// A row's values as PostgreSQL shows them in errors.
fn describe<'v>(table: &Table, values: impl Iterator<Item = ValueRef<'v>>, out: &mut String) {
    for (i, v) in values.take(table.def.shown().len()).enumerate() {
        if i > 0 {
            out.push_str(", ")
        }
        if v.is_null() {
            out.push_str("null")
        } else {
            let mut text = String::new();
            ondol_types::text::output(v, table.def.columns[i].ty, &mut text);
            if text.chars().count() > 64 {
                text = text.chars().take(64).collect::<String>() + "..."
            }
            out.push_str(&text)
        }
    }
}

fn points_of(index: &TableIndex) -> SqlResult<&CrTree> {
    index.index.as_crtree().ok_or_else(|| {
        let message = format!("a box is asked of index {}, which has no points", index.def.name);
        SqlError::new(sqlstate::INTERNAL_ERROR, message)
    })
}
