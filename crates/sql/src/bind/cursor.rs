//! DECLARE, FETCH, MOVE, CLOSE, WHERE CURRENT OF.
//!
//! - **C1** The declared query has `ctid` of its tables' rows behind its columns, which are not shown: so
//!   that it is known on which rows the cursor stands. Of a query that locks rows these are the locked ones;
//!   of any other its only table's, if each of its rows is one of that.
use super::scope::column;
use super::tree::{kind, need, unexpected};
use super::updatable::Changed;
use super::{Binder, constant};
use crate::bound::{
    CTID, Declare, Expr, ExprKind, Fetch, From, Movement, Query, Rel, SetOperation, Statement, Target,
};
use crate::parse::tree::{self, FetchDirection, node::Node as Kind};
use ondol_engine::LockStrength;
use ondol_types::func::id;
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, sqlstate};

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
        if has(BINARY) {
            let detail =
                "A cursor gives values, which have no form until they are shown; the shell shows text.";
            return Err(SqlError::unsupported("DECLARE BINARY CURSOR").detail(detail));
        }
        let Kind::SelectStmt(select) = kind(need(&s.query)?)? else {
            return Err(unexpected("DECLARE CURSOR"));
        };
        if select.into_clause.is_some() {
            return Err(SqlError::unsupported("SELECT INTO"));
        }
        // INSENSITIVE and ASENSITIVE ask for nothing: a cursor sees what it saw when it was declared.
        let mut query = self.settled_select(select)?;
        if let Some((_, strength, _)) = query.locks.first() {
            let how = locking_words(*strength);
            let refused = |state, message, kind: &str| {
                Err(SqlError::new(state, message).detail(format!("{kind} cursors must be READ ONLY.")))
            };
            let unsupported = sqlstate::FEATURE_NOT_SUPPORTED;
            if has(HOLD) {
                let message = format!("DECLARE CURSOR WITH HOLD ... {how} is not supported");
                return refused(unsupported, message, "Holdable");
            }
            if has(SCROLL) {
                let message = format!("DECLARE SCROLL CURSOR ... {how} is not supported");
                return refused(unsupported, message, "Scrollable");
            }
            if has(INSENSITIVE) {
                let message = format!("DECLARE INSENSITIVE CURSOR ... {how} is not valid");
                return refused(sqlstate::INVALID_CURSOR_DEFINITION, message, "Insensitive");
            }
        }
        let rows = rows_of(&mut query);
        let scroll = has(SCROLL);
        let goes_back = scroll || !has(NO_SCROLL) && goes_back(&query);
        let (name, hold) = (s.portalname.clone(), has(HOLD));
        Ok(Statement::Declare(Declare { name, scroll, goes_back, hold, query, rows }))
    }

    /// That a row is the one on which a cursor stands.
    pub(super) fn current_of(&mut self, changed: &Changed, cursor: &str) -> SqlResult<Expr> {
        if changed.view.is_some() {
            let message = "WHERE CURRENT OF on a view is not implemented";
            return Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message));
        }
        let def = &changed.table.def;
        let text = |s: &str| constant(Value::Text(s.to_string()), Type::TEXT, u32::MAX);
        let args =
            vec![text(cursor), text(&def.name), constant(Value::Int4(def.id as i32), Type::INT4, u32::MAX)];
        let tid = Type::new(TypeId::TID);
        let row = Expr { kind: ExprKind::Call { func: id::CURRENT_OF, args }, ty: tid, at: u32::MAX };
        let args = vec![column(0, usize::from(CTID), tid), row];
        Ok(Expr { kind: ExprKind::Call { func: id::TID_EQ, args }, ty: Type::BOOL, at: u32::MAX })
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

/// How a lock is asked for.
fn locking_words(strength: LockStrength) -> &'static str {
    match strength {
        LockStrength::KeyShare => "FOR KEY SHARE",
        LockStrength::Share => "FOR SHARE",
        LockStrength::NoKeyUpdate => "FOR NO KEY UPDATE",
        LockStrength::Update => "FOR UPDATE",
    }
}

/// Adds to a query's targets which rows its rows are made of (C1); gives the tables of these.
fn rows_of(query: &mut Query) -> Vec<u32> {
    if query.locks.is_empty() {
        return row_of(query).into_iter().collect();
    }
    let mut rels: Vec<u16> = query.locks.iter().flat_map(|l| l.0.iter().copied()).collect();
    rels.sort_unstable();
    rels.dedup();
    let mut rows = Vec::new();
    for rel in rels {
        if let Some(Rel::Table(table)) = query.rels.get(usize::from(rel)).map(|r| &r.rel) {
            rows.push(table.def.id);
            query.targets.push(row_target(rel, usize::from(CTID)))
        }
    }
    rows
}

/// The same of a query that locks nothing: the table each of whose rows is one of the query's.
fn row_of(query: &mut Query) -> Option<u32> {
    let is_plain = query.set.is_none()
        && !query.grouped
        && query.window_calls.is_empty()
        && !query.distinct
        && query.distinct_on.is_empty()
        && query.places.is_empty()
        && query.locks.is_empty();
    let (true, &[From::Rel(rel)]) = (is_plain, &query.from[..]) else { return None };
    let entry = query.rels.get_mut(usize::from(rel))?;
    let (column, table) = match &mut entry.rel {
        Rel::Table(table) if !table.def.is_foreign() => (usize::from(CTID), table.def.id),
        Rel::Query(inner) if inner.order_by.is_empty() => {
            let table = row_of(inner)?;
            entry.columns.push(("ctid".to_string(), Type::new(TypeId::TID)));
            (entry.columns.len() - 1, table)
        }
        _ => return None,
    };
    query.targets.push(row_target(rel, column));
    Some(table)
}

fn row_target(rel: u16, place: usize) -> Target {
    Target { expr: column(rel, place, Type::new(TypeId::TID)), name: "ctid".to_string(), hidden: false }
}

/// Whether a cursor for the query goes back though SCROLL was not written: where PostgreSQL's plan is likely
/// to read backward.
fn goes_back(query: &Query) -> bool {
    let has_sets = !query.places.is_empty() || !query.distinct_on.is_empty();
    if !query.locks.is_empty() || has_sets {
        return false;
    }
    if !query.order_by.is_empty() {
        return true;
    }
    if query.distinct || query.grouped || !query.window_calls.is_empty() {
        return false;
    }
    if let Some(set) = &query.set {
        let is_append = set.all && set.operation == SetOperation::Union;
        return is_append && goes_back(&set.left) && goes_back(&set.right);
    }
    let &[From::Rel(rel)] = &query.from[..] else { return false };
    match query.rels.get(usize::from(rel)).map(|r| &r.rel) {
        Some(Rel::Query(q)) => goes_back(q),
        Some(Rel::Table(t)) if t.def.is_foreign() => false,
        Some(Rel::Foreign(_) | Rel::Places { .. }) | None => false,
        Some(_) => true,
    }
}
