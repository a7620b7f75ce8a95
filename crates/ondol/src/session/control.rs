//! Transaction control with PostgreSQL's rules.
//!
//! - **X1** Outside BEGIN each statement is a transaction of its own.
//! - **X2** In a failed transaction only ROLLBACK, ROLLBACK TO and COMMIT (which then rolls back) are taken;
//!   all else is refused with 25P02.
//! - **X3** What PostgreSQL warns of (BEGIN inside a transaction, COMMIT outside one) is a warning here, and
//!   what it refuses (SAVEPOINT outside a transaction) is refused.
//! - **X4** Statements that come together, as one text or in a pipeline, share a transaction that none of
//!   them begins. BEGIN makes it a block, COMMIT and ROLLBACK end it with a warning, and savepoints are
//!   refused.
use crate::session::Session;
use crate::session::output::Output;
use ondol_engine::{Access, Token};
use ondol_sql::bound::Modes;
use ondol_types::{SqlError, SqlResult, sqlstate};

/// Whether a failed transaction takes the statement (X2), by its first word.
pub(crate) fn ends_failed(text: &str) -> bool {
    let word = first_word(text);
    ["rollback", "abort", "commit", "end"].iter().any(|w| word.eq_ignore_ascii_case(w))
}

/// The first word of a statement, comments skipped.
fn first_word(text: &str) -> &str {
    let mut t = text;
    loop {
        t = t.trim_start();
        if let Some(rest) = t.strip_prefix("--") {
            t = rest.find('\n').map_or("", |n| &rest[n..]);
        } else if t.starts_with("/*") {
            let (mut depth, mut at) = (0u32, 0);
            loop {
                let rest = &t.as_bytes()[at..];
                if rest.starts_with(b"/*") {
                    depth += 1;
                    at += 2;
                } else if rest.starts_with(b"*/") {
                    depth -= 1;
                    at += 2;
                    if depth == 0 {
                        break;
                    }
                } else if rest.is_empty() {
                    return "";
                } else {
                    at += 1;
                }
            }
            t = &t[at..];
        } else {
            let end = t.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(t.len());
            return &t[..end];
        }
    }
}

fn outside(what: &str) -> SqlError {
    SqlError::new(
        sqlstate::NO_ACTIVE_SQL_TRANSACTION,
        format!("{what} can only be used in transaction blocks"),
    )
}

impl Session {
    /// Starts a transaction, with the session's defaults where nothing is said.
    pub(crate) fn start_transaction(&mut self, modes: Modes) -> SqlResult<()> {
        if std::mem::take(&mut self.implicit) {
            return self.change_transaction(modes);
        }
        if self.connection.in_transaction() {
            // What it says of the transaction's mode is obeyed (X3).
            self.warn(sqlstate::ACTIVE_SQL_TRANSACTION, "there is already a transaction in progress");
            return self.change_transaction(modes);
        }
        let level = modes.isolation.unwrap_or(self.quick.default_level);
        let read_only = modes.access.map_or(self.quick.default_read_only, |a| a == Access::ReadOnly);
        let deferrable = modes.deferrable.unwrap_or(self.quick.default_deferrable);
        let mark = self.settings.clone();
        self.connection
            .begin(level.isolation(), if read_only { Access::ReadOnly } else { Access::ReadWrite })?;
        self.transactions += 1;
        self.marks.clear();
        self.marks.push((String::new(), mark, 0));
        self.fresh = true;
        self.settings.set_isolation(level);
        self.settings.set_read_only(read_only);
        self.settings.set_deferrable(deferrable);
        Ok(())
    }

    /// Begins a transaction for statements that come together (X4).
    #[cfg(feature = "server")]
    pub(crate) fn begin_implicit(&mut self) -> SqlResult<()> {
        self.start_transaction(Modes::default())?;
        self.implicit = true;
        Ok(())
    }
    /// Ends it, if it is one still.
    #[cfg(feature = "server")]
    pub(crate) fn end_implicit(&mut self) -> SqlResult<Option<Token>> {
        match self.implicit {
            true => {
                // A block from now on, so that nobody is warned.
                self.implicit = false;
                self.commit()
            }
            false => Ok(None),
        }
    }
    /// In a transaction that a statement began.
    fn in_block(&self) -> bool {
        self.connection.in_transaction() && !self.implicit
    }

    /// The open transaction's modes.
    fn modes(&self) -> Modes {
        Modes {
            isolation: Some(self.settings.isolation()),
            access: self.connection.transaction_access(),
            deferrable: Some(self.settings.is_deferrable()),
        }
    }

    /// COMMIT: the tag says ROLLBACK when the transaction had failed.
    pub(crate) fn end_transaction(&mut self, chain: bool, out: &mut dyn Output) -> SqlResult<()> {
        match self.commit_or_roll_back(chain)? {
            Ended::Committed(token) => out.done("COMMIT", token),
            Ended::RolledBack => out.done("ROLLBACK", None),
        }
    }

    /// Commits, or rolls back if the transaction had failed. AND CHAIN (`chain`) starts another, unless the
    /// commit is refused.
    pub(crate) fn commit_or_roll_back(&mut self, chain: bool) -> SqlResult<Ended> {
        if chain && !self.in_block() {
            return Err(outside("COMMIT AND CHAIN"));
        }
        let modes = self.modes();
        if !self.in_block() {
            self.warn(sqlstate::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
            if !self.implicit {
                return Ok(Ended::Committed(None));
            }
        }
        let failed = self.connection.is_failed();
        // Settings follow the outcome: a commit that is refused (a serialization failure) rolls back.
        match self.commit_with_cursors() {
            Ok(token) => {
                if failed {
                    self.settings_rolled_back()
                } else {
                    self.settings_committed()
                }
                if chain {
                    self.start_transaction(modes)?
                }
                Ok(if failed { Ended::RolledBack } else { Ended::Committed(token) })
            }
            Err(e) => {
                self.drop_transaction();
                Err(e)
            }
        }
    }

    pub(crate) fn undo_transaction(&mut self, chain: bool) -> SqlResult<()> {
        if chain && !self.in_block() {
            return Err(outside("ROLLBACK AND CHAIN"));
        }
        if !self.in_block() {
            self.warn(sqlstate::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
        }
        if self.connection.in_transaction() {
            let modes = self.modes();
            self.connection.rollback();
            self.settings_rolled_back();
            if chain {
                self.start_transaction(modes)?
            }
        }
        Ok(())
    }

    /// Refuses a statement that writes where only reading is allowed.
    pub(crate) fn refuse_read_only(&self, command: &str) -> SqlResult<()> {
        let is_read_only = match self.in_transaction() {
            true => self.settings.is_read_only(),
            false => self.quick.default_read_only,
        };
        match is_read_only {
            true => Err(SqlError::new(
                sqlstate::READ_ONLY_SQL_TRANSACTION,
                format!("cannot execute {command} in a read-only transaction"),
            )),
            false => Ok(()),
        }
    }

    /// Commits; cursors WITH HOLD have their rows gathered before.
    pub(crate) fn commit_with_cursors(&mut self) -> SqlResult<Option<Token>> {
        if self.connection.is_failed() {
            return self.connection.commit();
        }
        self.hold_cursors()?;
        let coming = self.about_to_tell();
        let token = self.connection.commit()?;
        self.tell_said(coming, token);
        Ok(token)
    }

    /// Rolls back, whatever is left to be rolled back.
    pub(crate) fn drop_transaction(&mut self) {
        self.connection.rollback();
        self.settings_rolled_back();
    }

    pub(crate) fn settings_committed(&mut self) {
        self.tell_said(None, None);
        let changed = self.settings.end_transaction();
        self.settings_ended(changed)
    }

    pub(crate) fn settings_rolled_back(&mut self) {
        let changed = self.marks.first().is_some_and(|(_, m, _)| self.settings.go_back(m));
        self.unsay(0);
        self.settings_ended(changed)
    }

    fn settings_ended(&mut self, changed: bool) {
        self.implicit = false;
        self.marks.clear();
        self.cursors.sweep();
        match changed {
            true => self.settings_changed(),
            false => self.look_for_held(),
        }
    }

    pub(crate) fn set_savepoint(&mut self, name: &str) -> SqlResult<()> {
        if !self.in_block() {
            return Err(outside("SAVEPOINT"));
        }
        self.connection.savepoint(name)?;
        self.marks.push((name.to_string(), self.settings.clone(), self.said()));
        Ok(())
    }

    pub(crate) fn free_savepoint(&mut self, name: &str) -> SqlResult<()> {
        if !self.in_block() {
            return Err(outside("RELEASE SAVEPOINT"));
        }
        self.connection.release_savepoint(name)?;
        if let Some(i) = self.marks.iter().skip(1).rposition(|m| m.0 == name) {
            self.marks.truncate(i + 1)
        }
        // What was made read-only since the savepoint is as it was.
        let read_only = self.connection.transaction_access() == Some(Access::ReadOnly);
        self.settings.set_read_only(read_only);
        Ok(())
    }

    pub(crate) fn back_to_savepoint(&mut self, name: &str) -> SqlResult<()> {
        if !self.in_block() {
            return Err(outside("ROLLBACK TO SAVEPOINT"));
        }
        self.connection.rollback_to_savepoint(name)?;
        self.cursors.sweep();
        if let Some(i) = self.marks.iter().skip(1).rposition(|m| m.0 == name) {
            self.marks.truncate(i + 2);
            self.unsay(self.marks[i + 1].2);
            self.settings.go_back(&self.marks[i + 1].1);
            self.settings_changed();
        }
        Ok(())
    }

    /// SET TRANSACTION; SET SESSION CHARACTERISTICS sets the defaults.
    pub(crate) fn set_transaction(&mut self, modes: Modes, session: bool) -> SqlResult<()> {
        if session {
            if let Some(l) = modes.isolation {
                self.settings.set("default_transaction_isolation", Some(l.name()), false)?;
            }
            if let Some(a) = modes.access {
                let value = word(a == Access::ReadOnly);
                self.settings.set("default_transaction_read_only", Some(value), false)?;
            }
            if let Some(d) = modes.deferrable {
                self.settings.set("default_transaction_deferrable", Some(word(d)), false)?;
            }
            self.settings_changed();
            return Ok(());
        }
        if !self.connection.in_transaction() {
            self.warn(
                sqlstate::NO_ACTIVE_SQL_TRANSACTION,
                "SET TRANSACTION can only be used in transaction blocks",
            );
            return Ok(());
        }
        self.change_transaction(modes)
    }

    /// Changes the mode of the transaction, if there is one, where it is to be another.
    pub(crate) fn change_transaction(&mut self, modes: Modes) -> SqlResult<()> {
        if !self.connection.in_transaction() {
            return Ok(());
        }
        if let Some(l) = modes.isolation.filter(|l| *l != self.settings.isolation()) {
            self.connection.set_transaction(Some(l.isolation()), None)?;
            self.settings.set_isolation(l);
        }
        if let Some(a) = modes.access {
            self.connection.set_transaction(None, Some(a))?;
            self.settings.set_read_only(a == Access::ReadOnly);
        }
        if let Some(d) = modes.deferrable {
            self.connection.may_defer()?;
            self.settings.set_deferrable(d);
        }
        Ok(())
    }
}

/// How a transaction ended that was to be committed.
pub(crate) enum Ended {
    /// The token names the commit, if anything was written.
    Committed(Option<Token>),
    /// It had failed.
    RolledBack,
}

/// A flag as a setting has it.
fn word(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_end_a_failed_transaction() {
        for yes in ["rollback", "ROLLBACK TO a", " -- x\n/* y /* z */ */ Commit", "end;", "abort work"] {
            assert!(ends_failed(yes), "{yes}");
        }
        for no in ["", "select 1", "/* rollback", "-- commit", "endless", "savepoint a"] {
            assert!(!ends_failed(no), "{no}");
        }
    }
}
