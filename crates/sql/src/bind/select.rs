//! SELECT, VALUES and WITH.

use super::from::rename;
use super::scope::{Clause, Cte, column};
use super::tree::{at, at_expr, kind, list, need, refuse, refuse_at, strings, unexpected};
use super::{Binder, coerce, expr, group, recursion};
use crate::bound::{Expr, ExprKind, From, JoinKind, Query, Rel, RelEntry, Target, With};
use crate::parse::tree::{
    self, LimitOption, LockClauseStrength, LockWaitPolicy, Node, SelectStmt, SetOperation, node::Node as Kind,
};
use ondol_engine::{LockStrength, Wait};
use ondol_types::{SqlError, SqlResult, Type, Value, sqlstate};
use std::collections::BTreeSet;

impl<'a> Binder<'a> {
    /// A query. Literals among its targets are left without a type, since its user may know better
    /// ([`coerce::settle_targets`]).
    pub(super) fn select(&mut self, s: &'a SelectStmt) -> SqlResult<Query> {
        let (mut query, with) = self.with_clause(s.with_clause.as_ref(), |b| {
            if !matches!(s.op(), SetOperation::SetopNone | SetOperation::Undefined) {
                b.set_operation(s)
            } else if !s.values_lists.is_empty() {
                b.values(s)
            } else {
                b.plain_select(s)
            }
        })?;
        query.with = with;
        Ok(query)
    }

    fn plain_select(&mut self, s: &'a SelectStmt) -> SqlResult<Query> {
        let is_into = self.into_of.is_some_and(|o| std::ptr::eq(o, s));
        if s.into_clause.is_some() && !is_into {
            let message = "SELECT ... INTO is not allowed here";
            return Err(SqlError::new(sqlstate::SYNTAX_ERROR, message));
        }
        refuse(s.group_distinct, "GROUP BY DISTINCT")?;
        let distinct = Self::distinct_clause(&s.distinct_clause);
        let has_on = !distinct && !s.distinct_clause.is_empty();
        let (query, _) = self.nested(Clause::From, |b| {
            let from = b.bind_from(&s.from_clause)?;
            b.level().clause = Clause::Targets;
            b.window_clause(&s.window_clause)?;
            let mut targets = b.target_list(&s.target_list)?;
            let filter = b.where_clause(s.where_clause.as_deref())?;
            let having = match s.having_clause.as_deref() {
                Some(h) => {
                    let e = b.within(Clause::Having, |b| b.expr(h))?;
                    Some(b.condition(e, "HAVING")?)
                }
                None => None,
            };
            if distinct {
                // Rows are compared, so literals are text here.
                coerce::settle_all(b, &mut targets)?;
                targets.iter().try_for_each(|t| super::json::check_comparable(&t.expr, false))?;
            }
            let order_by = b.sort_clause(&s.sort_clause, &mut targets, distinct)?;
            let distinct_on = match has_on {
                true => b.distinct_on(&s.distinct_clause, &mut targets, &order_by)?,
                false => Vec::new(),
            };
            let group_by = b.group_clause(&s.group_clause, &mut targets)?;
            super::set::none_in(b.level(), &group_by, "GROUP BY")?;
            let (limit, offset, ties) = b.limits(s)?;
            let level = b.level();
            let aggregates = std::mem::take(&mut level.aggregates);
            let windows = std::mem::take(&mut level.windows);
            let window_calls = std::mem::take(&mut level.window_calls);
            let places = level.end_sets();
            let rels = std::mem::take(&mut level.rels);
            if !aggregates.is_empty() && b.reads_last_turn(&rels) {
                return Err(recursion::no_aggregates(targets.iter().map(|t| &t.expr).chain(&having)));
            }
            let grouped = !group_by.is_empty() || !aggregates.is_empty() || having.is_some();
            let mut query = Query {
                rels,
                from,
                places,
                filter,
                grouped,
                group_by,
                aggregates,
                having,
                windows,
                window_calls,
                targets,
                distinct,
                distinct_on,
                set: None,
                order_by,
                limit,
                offset,
                ties,
                locks: Vec::new(),
                with: Vec::new(),
                barrier: false,
                of_view: None,
                is_call: false,
                written: None,
            };
            query.written = b.written(query.group_by.len());
            if grouped {
                // GROUP BY compares typed expressions, so literals are text here.
                coerce::settle_targets(b, &mut query)?;
                group::apply(&mut query)?;
            }
            b.locking(&s.locking_clause, &mut query)?;
            Ok(query)
        })?;
        Ok(query)
    }

    /// How the query of this level was written; it has so many groups.
    fn written(&mut self, groups: usize) -> Option<Box<super::written::Written>> {
        if !self.is_verbatim() {
            return None;
        }
        let mut written = self.level().written.take().unwrap_or_default();
        written.groups = groups;
        Some(written)
    }

    pub(super) fn where_clause(&mut self, node: Option<&'a Node>) -> SqlResult<Option<Expr>> {
        let Some(node) = node else { return Ok(None) };
        let e = self.within(Clause::Where, |b| b.expr(node))?;
        self.condition(e, "WHERE").map(Some)
    }

    /// The select list, or RETURNING's.
    pub(super) fn target_list(&mut self, nodes: &'a [Node]) -> SqlResult<Vec<Target>> {
        let mut targets = Vec::with_capacity(nodes.len());
        for node in nodes {
            let Kind::ResTarget(t) = kind(node)? else { return Err(unexpected("a select list")) };
            refuse_at(!t.indirection.is_empty(), "a subscript or field as a target", t.location)?;
            let value = need(&t.val)?;
            if let Some(columns) = self.star_of(value)? {
                targets.extend(columns.into_iter().map(|(name, expr)| Target { expr, name, hidden: false }));
                continue;
            }
            let e = self.expr(value)?;
            let name = if t.name.is_empty() { expr::column_label(value) } else { t.name.clone() };
            targets.push(Target { expr: e, name, hidden: false });
        }
        check_targets(targets.len())?;
        Ok(targets)
    }

    /// LIMIT, OFFSET, and whether ties come, too.
    pub(super) fn limits(&mut self, s: &'a SelectStmt) -> SqlResult<(Option<Expr>, Option<Expr>, bool)> {
        let ties = s.limit_option() == LimitOption::WithTies;
        let is_null = |n: &Node| matches!(&n.node, Some(Kind::AConst(c)) if c.isnull);
        if ties && s.limit_count.as_deref().is_some_and(is_null) {
            let message = "row count cannot be null in FETCH FIRST ... WITH TIES clause";
            return Err(SqlError::new("2201W", message));
        }
        let mut one = |node: Option<&'a Node>, clause, name| match node {
            // LIMIT ALL, LIMIT NULL.
            Some(n) if !is_null(n) => self.count(n, clause, name).map(Some),
            _ => Ok(None),
        };
        let offset = one(s.limit_offset.as_deref(), Clause::Offset, "OFFSET")?;
        let limit = one(s.limit_count.as_deref(), Clause::Limit, "LIMIT")?;
        Ok((limit, offset, ties))
    }

    /// VALUES as a query.
    fn values(&mut self, s: &'a SelectStmt) -> SqlResult<Query> {
        let (query, _) = self.nested(Clause::Values, |b| {
            let rows = b.value_rows(&s.values_lists)?;
            let width = rows.first().map_or(0, Vec::len);
            check_targets(width)?;
            let mut columns: Vec<Vec<Expr>> = (0..width).map(|_| Vec::with_capacity(rows.len())).collect();
            for row in rows {
                for (column, e) in columns.iter_mut().zip(row) {
                    column.push(e);
                }
            }
            let count = columns.first().map_or(0, Vec::len);
            let mut rows: Vec<Vec<Expr>> = (0..count).map(|_| Vec::with_capacity(width)).collect();
            let mut types = Vec::with_capacity(width);
            for column in columns {
                let (ty, column) = b.unify(column, "VALUES")?;
                types.push(ty);
                for (row, e) in rows.iter_mut().zip(column) {
                    row.push(e);
                }
            }
            let columns: Vec<(String, Type)> =
                types.iter().enumerate().map(|(i, t)| (format!("column{}", i + 1), *t)).collect();
            let mut targets: Vec<Target> = columns
                .iter()
                .enumerate()
                .map(|(i, (name, ty))| Target { expr: column(0, i, *ty), name: name.clone(), hidden: false })
                .collect();
            let alias = "*VALUES*".to_string();
            let level = b.level();
            level.rels.push(RelEntry { rel: Rel::Values(rows), alias: alias.clone(), columns });
            level.items.push(super::scope::Item {
                name: alias,
                own: None,
                columns: super::scope::ItemColumns::Rel(0),
                by_name: true,
                by_column: true,
            });
            let order_by = b.sort_clause(&s.sort_clause, &mut targets, false)?;
            let (limit, offset, ties) = b.limits(s)?;
            if !s.locking_clause.is_empty() {
                let message = "SELECT FOR UPDATE/SHARE cannot be applied to VALUES";
                return Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message));
            }
            let rels = std::mem::take(&mut b.level().rels);
            Ok(Query {
                rels,
                from: vec![From::Rel(0)],
                targets,
                order_by,
                limit,
                offset,
                ties,
                ..Query::default()
            })
        })?;
        Ok(query)
    }

    /// The rows of VALUES lists, all of one length.
    fn value_rows(&mut self, lists: &'a [Node]) -> SqlResult<Vec<Vec<Expr>>> {
        let mut rows: Vec<Vec<Expr>> = Vec::with_capacity(lists.len());
        for row in lists {
            let row = self.expanded(list(row)?)?;
            if rows.first().is_some_and(|f| f.len() != row.len()) {
                let message = "VALUES lists must all be the same length";
                let here = row.first().map_or(u32::MAX, |e| e.at);
                return Err(at_expr(SqlError::new(sqlstate::SYNTAX_ERROR, message), here));
            }
            rows.push(row);
        }
        Ok(rows)
    }

    /// FOR UPDATE and its kin.
    fn locking(&mut self, clauses: &'a [Node], query: &mut Query) -> SqlResult<()> {
        for clause in clauses {
            let Kind::LockingClause(l) = kind(clause)? else { return Err(unexpected("a locking clause")) };
            let (strength, name) = match l.strength() {
                LockClauseStrength::LcsForkeyshare => (LockStrength::KeyShare, "FOR KEY SHARE"),
                LockClauseStrength::LcsForshare => (LockStrength::Share, "FOR SHARE"),
                LockClauseStrength::LcsFornokeyupdate => (LockStrength::NoKeyUpdate, "FOR NO KEY UPDATE"),
                LockClauseStrength::LcsForupdate => (LockStrength::Update, "FOR UPDATE"),
                _ => return Err(unexpected("a lock strength")),
            };
            let wait = match l.wait_policy() {
                LockWaitPolicy::LockWaitError => Wait::NoWait,
                LockWaitPolicy::LockWaitSkip => Wait::SkipLocked,
                _ => Wait::Block,
            };
            let not_with = |with: &str| {
                let message = format!("{name} is not allowed with {with}");
                Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message))
            };
            if query.distinct || !query.distinct_on.is_empty() {
                return not_with("DISTINCT clause");
            }
            if !query.group_by.is_empty() {
                return not_with("GROUP BY clause");
            }
            if query.having.is_some() {
                return not_with("HAVING clause");
            }
            if query.grouped {
                return not_with("aggregate functions");
            }
            if !query.window_calls.is_empty() {
                return not_with("window functions");
            }
            if !query.places.is_empty() {
                return not_with("set-returning functions in the target list");
            }
            let rels = self.locked_rels(l, query, name)?;
            let mut nullable = Vec::new();
            query.from.iter().for_each(|f| nullable_rels(f, false, &mut nullable));
            if rels.iter().any(|r| nullable.contains(r)) {
                let message = format!("{name} cannot be applied to the nullable side of an outer join");
                return Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message));
            }
            query.locks.push((rels, strength, wait));
        }
        Ok(())
    }

    fn locked_rels(&mut self, l: &'a tree::LockingClause, query: &Query, name: &str) -> SqlResult<Vec<u16>> {
        let mut rels = Vec::new();
        if l.locked_rels.is_empty() {
            for (i, r) in query.rels.iter().enumerate() {
                match r.rel {
                    Rel::Table(ref t) => {
                        has_locks(&t.def)?;
                        rels.push(i as u16)
                    }
                    Rel::Query(_) => {
                        return Err(SqlError::unsupported(format_args!("{name} of a subquery's tables")));
                    }
                    Rel::Sequence(_, ref name) => {
                        let message = format!("cannot lock rows in sequence \"{name}\"");
                        return Err(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message));
                    }
                    // As in PostgreSQL, what has no rows of its own is left alone.
                    Rel::With(_)
                    | Rel::Values(_)
                    | Rel::Function { .. }
                    | Rel::Foreign(_)
                    | Rel::System(_)
                    | Rel::Places { .. }
                    | Rel::Series { .. } => {}
                }
            }
            return Ok(rels);
        }
        for wanted in &l.locked_rels {
            let Kind::RangeVar(v) = kind(wanted)? else { return Err(unexpected("a locked table")) };
            if !v.schemaname.is_empty() || !v.catalogname.is_empty() {
                let message = format!("{name} must specify unqualified relation names");
                return Err(at(SqlError::new(sqlstate::SYNTAX_ERROR, message), v.location));
            }
            let own = self.own_named.iter().find(|o| o.0 == v.relname).map(|o| usize::from(o.1));
            let Some(i) = own.or_else(|| query.rels.iter().position(|r| r.alias == v.relname)) else {
                let message = format!("relation \"{}\" in {name} clause not found in FROM clause", v.relname);
                return Err(at(SqlError::new(sqlstate::UNDEFINED_TABLE, message), v.location));
            };
            let cannot = |what: &str| {
                let message = format!("{name} cannot be applied to {what}");
                Err(at(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message), v.location))
            };
            match &query.rels[i].rel {
                Rel::Table(t) => {
                    has_locks(&t.def)?;
                    if !rels.contains(&(i as u16)) {
                        rels.push(i as u16);
                    }
                }
                Rel::Query(_) => {
                    return Err(at(
                        SqlError::unsupported(format_args!("{name} of a subquery's tables")),
                        v.location,
                    ));
                }
                Rel::With(_) => return cannot("a WITH query"),
                Rel::Values(_) => return cannot("VALUES"),
                Rel::Function { .. } | Rel::Foreign(_) | Rel::Series { .. } | Rel::Places { .. } => {
                    return cannot("a function");
                }
                Rel::System(_) => return cannot("a system view"),
                Rel::Sequence(_, name) => {
                    let message = format!("cannot lock rows in sequence \"{name}\"");
                    return Err(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message));
                }
            }
        }
        Ok(rels)
    }

    // ----
    // WITH --------------------------------------------------------------------------------------------

    /// Binds something that can see the queries of a WITH clause, and gives these as well.
    pub(super) fn with_clause<T>(
        &mut self,
        with: Option<&'a tree::WithClause>,
        f: impl FnOnce(&mut Self) -> SqlResult<T>,
    ) -> SqlResult<(T, Vec<With>)> {
        let Some(with) = with else { return Ok((f(self)?, Vec::new())) };
        let before = self.ctes.len();
        let result = self.with_queries(with, before).and_then(|()| f(self));
        let own = self.ctes.drain(before..).map(|c| c.with).collect();
        Ok((result?, own))
    }

    /// The queries of a WITH clause: each sees those before it; with RECURSIVE, all that do not rest on it.
    fn with_queries(&mut self, with: &'a tree::WithClause, before: usize) -> SqlResult<()> {
        let mut list = Vec::with_capacity(with.ctes.len());
        let mut names = BTreeSet::new();
        for node in &with.ctes {
            let Kind::CommonTableExpr(c) = kind(node)? else { return Err(unexpected("WITH")) };
            if !names.insert(c.ctename.as_str()) {
                let message = format!("WITH query name \"{}\" specified more than once", c.ctename);
                return Err(at(SqlError::new(sqlstate::DUPLICATE_ALIAS, message), c.location));
            }
            list.push(&**c);
        }
        if with.recursive {
            for item in recursion::in_order(&list)? {
                self.with_query(item.query, item.reads_itself)?;
                let number = self.ctes.last().map_or(0, |c| c.with.number);
                if let Some(notes) = &mut self.notes {
                    notes.get_mut().recursive.insert(number);
                }
            }
            return Ok(());
        }
        let outer = self.later_ctes.len();
        self.later_ctes.extend(list.iter().rev().map(|c| c.ctename.as_str()));
        let done = list.iter().try_for_each(|c| {
            self.with_query(c, false)?;
            self.later_ctes.pop();
            Ok(())
        });
        self.later_ctes.truncate(outer);
        done?;
        debug_assert_eq!(self.ctes.len(), before + list.len());
        Ok(())
    }

    fn with_query(&mut self, c: &'a tree::CommonTableExpr, reads_itself: bool) -> SqlResult<()> {
        let Kind::SelectStmt(s) = kind(need(&c.ctequery)?)? else {
            return Err(at(SqlError::unsupported("a data-modifying statement in WITH"), c.location));
        };
        let materialized = match c.ctematerialized() {
            tree::CteMaterialize::Always => Some(true),
            tree::CteMaterialize::Never => Some(false),
            _ => None,
        };
        let number = self.withs;
        self.withs = number.checked_add(1).ok_or_else(|| {
            SqlError::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, "the statement is too complex")
                .detail("It has more than 65,535 WITH queries.")
        })?;
        let (query, columns, unstarred) = if reads_itself {
            self.recursive_query(c, s, number)?
        } else {
            if c.search_clause.is_some() || c.cycle_clause.is_some() {
                let error = SqlError::new(sqlstate::SYNTAX_ERROR, "WITH query is not recursive");
                return Err(at(error, c.location));
            }
            let query = self.settled_select(s)?;
            let columns = with_columns(c, query.columns())?;
            (query, columns, 0)
        };
        if let Some(notes) = self.notes.as_mut().filter(|_| !c.aliascolnames.is_empty()) {
            let names = columns.iter().take(c.aliascolnames.len()).map(|c| c.0.clone()).collect();
            notes.get_mut().with_columns.insert(number, names);
        }
        let name = c.ctename.clone();
        let with = With { number, name, query, uses: 0, recursive: reads_itself, materialized };
        self.ctes.push(Cte { with, columns, unstarred, behind: self.levels.len() + 1 });
        Ok(())
    }

    /// The place of a WITH query that can be seen.
    pub(super) fn find_cte(&self, name: &str) -> Option<usize> {
        self.ctes.iter().rposition(|c| c.with.name == name)
    }
}

/// The columns of a WITH query, by the names that it gives them.
pub fn with_columns(
    c: &tree::CommonTableExpr,
    mut columns: Vec<(String, Type)>,
) -> SqlResult<Vec<(String, Type)>> {
    let what = format!("WITH query \"{}\"", c.ctename);
    rename(&mut columns, &what, &strings(&c.aliascolnames)?, |c| &mut c.0).map_err(|e| at(e, c.location))?;
    Ok(columns)
}

/// Columns of a result, of GROUP BY and of ORDER BY are numbered with sixteen bits; the limit is
/// PostgreSQL's.
pub fn check_targets(n: usize) -> SqlResult<()> {
    const MAX_TARGETS: usize = 1664;
    if n > MAX_TARGETS {
        let message = format!("target lists can have at most {MAX_TARGETS} entries");
        return Err(SqlError::new("54011", message));
    }
    Ok(())
}

/// The relations that an outer join may fill with NULLs.
pub fn nullable_rels(from: &From, nullable: bool, out: &mut Vec<u16>) {
    match from {
        From::Rel(r) if nullable => out.push(*r),
        From::Rel(_) => {}
        From::Join { kind, left, right, .. } => {
            nullable_rels(left, nullable || *kind == JoinKind::Full, out);
            nullable_rels(right, nullable || *kind != JoinKind::Inner, out);
        }
    }
}

/// A NULL of a type.
pub fn null(ty: Type) -> Expr {
    Expr { kind: ExprKind::Const(Value::Null), ty, at: u32::MAX }
}

/// The rows of a materialised view are not locked, nor those of a foreign table.
fn has_locks(def: &ondol_engine::TableDef) -> SqlResult<()> {
    if !def.is_material() && !def.is_foreign() {
        return Ok(());
    }
    let message = format!("cannot lock rows in {} \"{}\"", def.kind_name(), def.name);
    Err(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message))
}
