//! DECLARE, FETCH, MOVE, CLOSE.
use super::Binder;
use super::tree::{kind, need, refuse, unexpected};
use crate::bound::{Declare, Fetch, Movement, Statement};
use crate::parse::tree::{self, FetchDirection, node::Node as Kind};
use ondol_types::{SqlError, SqlResult, sqlstate};

/// The bits of a declaration's options, as PostgreSQL's parse trees have them.
const BINARY: i32 = 1;
const SCROLL: i32 = 2;
const NO_SCROLL: i32 = 4;
const INSENSITIVE: i32 = 8;
const ASENSITIVE: i32 = 16;
const HOLD: i32 = 32;

/// ALL, as a number of rows.
const ALL: i64 = i64::MAX;

impl<'a> Binder<'a> {
    pub(super) fn declare_cursor(&mut self, s: &'a tree::DeclareCursorStmt) -> SqlResult<Statement> {
        let has = |bit: i32| s.options & bit != 0;
        for (one, other, names) in [
            (SCROLL, NO_SCROLL, "SCROLL and NO SCROLL"),
            (INSENSITIVE, ASENSITIVE, "ASENSITIVE and INSENSITIVE"),
        ] {
            if has(one) && has(other) {
                let message = format!("cannot specify both {names}");
                return Err(SqlError::new(sqlstate::INVALID_CURSOR_DEFINITION, message));
            }
        }
        refuse(has(BINARY), "DECLARE BINARY CURSOR")?;
        let Kind::SelectStmt(select) = kind(need(&s.query)?)? else {
            return Err(unexpected("DECLARE CURSOR"));
        };
        refuse(select.into_clause.is_some(), "SELECT INTO")?;
        // INSENSITIVE and ASENSITIVE ask for nothing: a cursor sees what it saw when it was declared.
        refuse(!select.locking_clause.is_empty(), "DECLARE CURSOR ... FOR UPDATE/SHARE")?;
        let query = self.settled_select(select)?;
        let (name, scroll, hold) = (s.portalname.clone(), has(SCROLL), has(HOLD));
        Ok(Statement::Declare(Declare { name, scroll, hold, query }))
    }

    pub(super) fn fetch(&mut self, s: &'a tree::FetchStmt) -> SqlResult<Statement> {
        let count = s.how_many;
        let rows = |n: i64| (n != ALL).then_some(n.unsigned_abs());
        let movement = match s.direction() {
            FetchDirection::FetchForward if count < 0 => Movement::Backward(rows(count)),
            FetchDirection::FetchForward => Movement::Forward(rows(count)),
            FetchDirection::FetchBackward if count < 0 => Movement::Forward(rows(count)),
            FetchDirection::FetchBackward => Movement::Backward(rows(count)),
            FetchDirection::FetchAbsolute => Movement::Absolute(count),
            FetchDirection::FetchRelative => Movement::Relative(count),
            FetchDirection::Undefined => return Err(unexpected("FETCH")),
        };
        Ok(Statement::Fetch(Fetch { name: s.portalname.clone(), movement, is_move: s.ismove }))
    }
}
