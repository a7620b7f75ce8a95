//! ON CONFLICT of INSERT: which indexes are its arbiters, and what DO UPDATE does.

use super::check::row_checks;
use super::scope::{Clause, Item, ItemColumns};
use super::tree::{at, kind, refuse_at, unexpected};
use super::updatable::{Change, Changed};
use super::{Binder, index};
use crate::bound::{ConflictUpdate, Expr, ExprKind, OnConflict, Query, Rel};
use crate::imply::{implies, same_value};
use crate::parse::tree::{self, InferClause, OnConflictAction, SortByDir, SortByNulls, node::Node as Kind};
use ondol_engine::{Catalog, IndexDef, Table};
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::collections::BTreeSet;

/// The name of the row that was proposed.
const EXCLUDED: &str = "excluded";

/// What names a table's arbiters.
enum Named {
    /// These columns, in any order, and those that a condition says are in it.
    Columns(BTreeSet<usize>, Option<Expr>),
    /// The place of a constraint's index.
    Index(u16),
    /// An expression that no index is on.
    Nothing,
}

impl<'a> Binder<'a> {
    pub(super) fn on_conflict(
        &mut self,
        s: &'a tree::InsertStmt,
        c: &'a tree::OnConflictClause,
    ) -> SqlResult<OnConflict> {
        let updates = c.action() == OnConflictAction::OnconflictUpdate;
        let infer = c.infer.as_deref();
        if updates && infer.is_none() {
            let message = "ON CONFLICT DO UPDATE requires inference specification or constraint name";
            let error = SqlError::new(sqlstate::SYNTAX_ERROR, message);
            return Err(at(error.hint("For example, ON CONFLICT (column_name)."), c.location));
        }
        let ((table, named, update), _) = self.nested(Clause::UpdateSet, |b| {
            let (changed, _, items) = b.target_table(&s.relation, Change::Insert)?;
            b.level().items = items;
            let named = infer.map(|i| b.named_arbiters(&changed.table, i, updates)).transpose()?;
            let update = if updates { Some(Box::new(b.conflict_update(&changed, c)?)) } else { None };
            Ok((changed.table, named, update))
        })?;
        let arbiters = match named {
            None => Vec::new(),
            Some(Named::Index(n)) => vec![n],
            Some(Named::Columns(columns, condition)) => {
                matching(self.catalog, &table, &columns, condition.as_ref())?
            }
            Some(Named::Nothing) => return Err(no_arbiter()),
        };
        Ok(OnConflict { arbiters, update })
    }

    /// The row that was proposed, as a relation of the level.
    pub(super) fn excluded(&mut self, changed: &Changed) -> SqlResult<Vec<Item>> {
        let table = &changed.table;
        let columns = table.def.shown().iter().map(|c| (c.name.clone(), c.ty)).collect();
        let mut items = self.add(Rel::Table(table.clone()), columns, EXCLUDED, None, None, -1)?.1;
        let level = self.level();
        level.proposed = level.rels.len().checked_sub(1).map(|n| n as u16);
        if let Some(view) = &changed.view {
            let rel = self.level().rels.len() as u16 - 1;
            items.iter_mut().for_each(|i| i.columns = ItemColumns::List(view.columns_over(rel)))
        }
        Ok(items)
    }

    fn conflict_update(
        &mut self,
        changed: &Changed,
        c: &'a tree::OnConflictClause,
    ) -> SqlResult<ConflictUpdate> {
        let table = &changed.table;
        let excluded = self.excluded(changed)?;
        self.level().items.extend(excluded);
        let (assign, targets) = self.set_list(changed, &c.target_list)?;
        let filter = self.where_clause(c.where_clause.as_deref())?;
        let rels = std::mem::take(&mut self.level().rels);
        let mut checks = row_checks(self.catalog, table, Some(&assign))?;
        checks.extend(self.view_row_checks(changed)?);
        Ok(ConflictUpdate { query: Query { rels, targets, filter, ..Query::default() }, assign, checks })
    }

    fn named_arbiters(&mut self, table: &Table, infer: &'a InferClause, updates: bool) -> SqlResult<Named> {
        if !infer.conname.is_empty() {
            let is_it = |i: &IndexDef| i.constraint && i.name == infer.conname;
            return match table.def.indexes.iter().position(is_it) {
                Some(n) if updates && table.def.indexes[n].options.exclusion => Err(SqlError::new(
                    sqlstate::WRONG_OBJECT_TYPE,
                    "ON CONFLICT DO UPDATE not supported with exclusion constraints",
                )),
                Some(n) => Ok(Named::Index(n as u16)),
                None if table.def.checks.iter().any(|c| c.name == infer.conname) => Err(SqlError::new(
                    sqlstate::WRONG_OBJECT_TYPE,
                    "constraint in ON CONFLICT clause has no associated index",
                )),
                None => {
                    let message = format!(
                        "constraint \"{}\" for table \"{}\" does not exist",
                        infer.conname, table.def.name
                    );
                    Err(SqlError::new(sqlstate::UNDEFINED_OBJECT, message))
                }
            };
        }
        let hidden = index::hidden_of(self.catalog, &table.def);
        let mut columns = BTreeSet::new();
        let mut is_there = true;
        for node in &infer.index_elems {
            let Kind::IndexElem(e) = kind(node)? else { return Err(unexpected("ON CONFLICT")) };
            let refused = |what: &str| {
                let message = format!("{what} is not allowed in ON CONFLICT clause");
                Err(at(SqlError::new(sqlstate::INVALID_COLUMN_REFERENCE, message), infer.location))
            };
            if !matches!(e.ordering(), SortByDir::SortbyDefault | SortByDir::Undefined) {
                return refused("ASC/DESC");
            }
            if !matches!(e.nulls_ordering(), SortByNulls::SortbyNullsDefault | SortByNulls::Undefined) {
                return refused("NULLS FIRST/LAST");
            }
            refuse_at(!e.collation.is_empty(), "COLLATE in ON CONFLICT (...)", infer.location)?;
            refuse_at(!e.opclass.is_empty(), "an operator class in ON CONFLICT (...)", infer.location)?;
            let named = match e.expr.as_deref() {
                Some(node) => self.expr(node)?,
                None => self.resolve_column(&[e.name.as_str()], infer.location)?,
            };
            match named.kind {
                ExprKind::Column { column, .. } => {
                    columns.insert(usize::from(column));
                }
                _ => {
                    let named = self.settle(named)?;
                    let is_it = |h: &&(u16, bool, Expr)| !h.1 && same_value(&named, &h.2, &|a, b| a == b);
                    match hidden.iter().find(is_it) {
                        Some((column, ..)) => {
                            columns.insert(usize::from(*column));
                        }
                        None => is_there = false,
                    }
                }
            }
        }
        let condition = match infer.where_clause.as_deref() {
            None => None,
            Some(node) => {
                let e = self.expr(node)?;
                Some(self.condition(e, "WHERE")?)
            }
        };
        Ok(if is_there { Named::Columns(columns, condition) } else { Named::Nothing })
    }
}

/// The unique indexes whose columns are these, and that have all rows of which the condition is true.
fn matching(
    catalog: &Catalog,
    table: &Table,
    columns: &BTreeSet<usize>,
    condition: Option<&Expr>,
) -> SqlResult<Vec<u16>> {
    let hidden = index::hidden_of(catalog, &table.def);
    let given: Vec<&Expr> = condition.into_iter().collect();
    let has_all = |i: &IndexDef| {
        let Some(column) = i.predicate() else { return true };
        let predicate = hidden.iter().find(|h| usize::from(h.0) == column);
        predicate.is_some_and(|h| implies(&given, &h.2, &|a, b| a == b))
    };
    let matches = |i: &IndexDef| {
        i.unique
            && !i.options.exclusion
            && i.keys().iter().map(|c| c.column).collect::<BTreeSet<_>>() == *columns
            && has_all(i)
    };
    let arbiters: Vec<u16> =
        (0..).zip(&table.def.indexes).filter(|(_, i)| matches(i)).map(|(n, _)| n).collect();
    if arbiters.is_empty() { Err(no_arbiter()) } else { Ok(arbiters) }
}

fn no_arbiter() -> SqlError {
    let message = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
    SqlError::new(sqlstate::INVALID_COLUMN_REFERENCE, message)
}
