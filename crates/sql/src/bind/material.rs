//! Materialised views: CREATE and REFRESH (engine/view/V4).
use super::Binder;
use super::tree::{refuse_at, unexpected};
use crate::bound::{From, Modify, Query, Rel, RelEntry, Statement, TableRef};
use crate::parse::tree;
use ondol_engine::temporary::is_temporary;
use ondol_engine::view::{Slot, slots};
use ondol_engine::{IndexColumn, IndexDef, Material, Name, Nature, Table, ViewDef};
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::sync::Arc;

fn wrong(state: &'static str, message: impl Into<String>) -> SqlError {
    SqlError::new(state, message)
}

impl<'a> Binder<'a> {
    /// The materialised view of a name.
    pub(super) fn material_of(&self, v: &tree::RangeVar) -> SqlResult<Arc<Table>> {
        match self.relation_of(v) {
            Some((name, relation)) => match relation.table().filter(|t| t.def.is_material()) {
                Some(table) => Ok(table.clone()),
                None => {
                    let message = format!("\"{}\" is not a materialized view", name.name);
                    Err(wrong(sqlstate::WRONG_OBJECT_TYPE, message))
                }
            },
            None => {
                let message = format!("relation \"{}\" does not exist", super::names::written(v));
                Err(wrong(sqlstate::UNDEFINED_TABLE, message))
            }
        }
    }

    pub(super) fn create_material(
        &mut self,
        into: &'a tree::IntoClause,
        select: &'a tree::SelectStmt,
        if_not_exists: bool,
    ) -> SqlResult<Statement> {
        let relation = into.rel.as_ref().ok_or_else(|| unexpected("CREATE MATERIALIZED VIEW"))?;
        if relation.relpersistence == "u" {
            let message = "materialized views cannot be unlogged";
            return Err(wrong(sqlstate::FEATURE_NOT_SUPPORTED, message));
        }
        refuse_at(relation.relpersistence == "t", "a temporary materialized view", relation.location)?;
        // What is there already is not looked at again.
        let there = self.relation_of(relation).filter(|_| if_not_exists);
        let before = self.open_params;
        self.open_params = false;
        let bound = self.table_of_query(into, select, if_not_exists);
        self.open_params = before;
        let Statement::CreateTableAs { name, columns, query, with_data, on_commit, .. } =
            bound.map_err(|e| match e.0.message.contains("a parameter in CREATE TABLE AS") {
                true => wrong(
                    sqlstate::FEATURE_NOT_SUPPORTED,
                    "materialized views may not be defined using bound parameters",
                ),
                false => e,
            })?
        else {
            return Err(unexpected("CREATE MATERIALIZED VIEW"));
        };
        super::tree::refuse(self.opened.by_functions, "a function that reads files, in a view")?;
        let names: Vec<String> = columns.iter().map(|c| c.name.clone()).collect();
        let text = self.in_numbers(select, &names)?;
        if slots(&text).iter().any(|s| matches!(s, Slot::Relation(n) if is_temporary(*n))) {
            let message = "materialized views must not use temporary tables or views";
            return Err(wrong(sqlstate::FEATURE_NOT_SUPPORTED, message));
        }
        if there.is_none() {
            let (columns, query) = (columns.clone(), text.clone());
            let Name { schema, name } = name.clone();
            self.means_the_same(&ViewDef {
                id: 0,
                schema,
                name,
                columns,
                query,
                check: None,
                options: vec![],
            })?
        }
        let material = Some(Material { query: text, populated: with_data });
        let nature = Nature { material, ..Nature::default() };
        Ok(Statement::CreateTableAs { name, columns, query, with_data, on_commit, if_not_exists, nature })
    }

    pub(super) fn refresh(&mut self, s: &'a tree::RefreshMatViewStmt) -> SqlResult<Statement> {
        let relation = self.relation_name(&s.relation)?;
        let table = match self.material_of(relation) {
            Err(e) if e.sqlstate() == sqlstate::WRONG_OBJECT_TYPE => {
                let message = format!("\"{}\" is not a materialized view", relation.relname);
                return Err(wrong(sqlstate::WRONG_OBJECT_TYPE, message));
            }
            found => found?,
        };
        let name = table.def.full_name();
        if s.concurrent {
            if table.def.is_unpopulated() {
                let message = "CONCURRENTLY cannot be used when the materialized view is not populated";
                return Err(wrong(sqlstate::FEATURE_NOT_SUPPORTED, message));
            }
            if s.skip_data {
                let message = "REFRESH options CONCURRENTLY and WITH NO DATA cannot be used together";
                return Err(wrong(sqlstate::SYNTAX_ERROR, message));
            }
            // Which rows are the same is told by columns, and by all rows of them.
            let is_seen = |c: &IndexColumn| !table.def.columns[c.column].is_hidden();
            let tells = |i: &IndexDef| i.unique && !i.options.partial && i.keys().iter().all(is_seen);
            if !table.def.indexes.iter().any(tells) {
                let shown = self.catalog.qualified(&name);
                let message = format!("cannot refresh materialized view \"{shown}\" concurrently");
                return Err(wrong(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, message).hint(
                    "Create a unique index with no WHERE clause on one or more columns of the materialized view.",
                ));
            }
        }
        let mut rows = None;
        if !s.skip_data {
            let shown = ViewDef::of_material(&table.def).ok_or_else(|| unexpected("REFRESH"))?;
            let query = self.view_query(&Arc::new(shown))?;
            rows = Some(Box::new((all_rows(&table), query)))
        }
        Ok(Statement::Refresh { name, rows, concurrently: s.concurrent })
    }
}

/// DELETE of all rows of a table.
fn all_rows(table: &Arc<Table>) -> Modify {
    let columns = table.def.shown().iter().map(|c| (c.name.clone(), c.ty)).collect();
    let alias = table.def.name.clone();
    let rels = vec![RelEntry { rel: Rel::Table(table.clone()), alias, columns }];
    let query = Query { rels, from: vec![From::Rel(0)], ..Query::default() };
    let (assign, checks, returning) = (Vec::new(), Vec::new(), Vec::new());
    let table = TableRef(table.clone());
    Modify { table, query, assign, checks, delete: true, returning, through: None }
}
