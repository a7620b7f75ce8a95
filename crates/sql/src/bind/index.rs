//! CREATE INDEX, and what indexes are about that is no column: expressions and predicates.
//!
//! - **H1** An expression of a key is a hidden column of the table, which is computed as a generated column
//!   is, so that whoever looks after rows and indexes knows nothing but columns. The same expression is one
//!   column, however many indexes it is in.
//! - **H2** A predicate is one, too: true where the predicate is true, else NULL. It is the first column of
//!   the index's key.
//! - **H3** Its text is the expression as PostgreSQL shows it, over the table's columns by their bare names.
//!   Its name is that text as messages have it behind a mark ([`HIDDEN`]), or the predicate's text behind
//!   two.
//! - **H4** Hidden columns stand behind all others, so a column's number is its place.
//! - **H5** Where its value depends on data that other builds have in other versions, a hidden column says
//!   with which versions all of its values were computed. Where these are not the program's, what the column
//!   has is not what the expression gives: no query and no ON CONFLICT goes by it, until it is computed anew,
//!   as REINDEX does. Rows are held to be unique by the keys that they have.

use super::accepted::{self, is_index_storage};
use super::check::{self, Over};
use super::ddl::check_key_count;
use super::tree::{
    at, kind, list, option_bool, option_text, options, refuse, refuse_at, strings, unexpected,
};
use super::{Binder, expr};
use crate::bound::{AlterTable, AlteredColumn, Expr, ExprKind, NewIndex, Rel, Statement};
use crate::imply::same_value;
use crate::parse::tree::{
    self, Constraint, IndexElem, Node, ReindexObjectType, SortByDir, SortByNulls, node::Node as Kind,
};
use ondol_engine::{
    Catalog, ColumnDef, DIMENSIONS, Generated, HIDDEN, IndexColumn, IndexDef, IndexKind, IndexOptions, Name,
    Nature, Relation, TableDef,
};
use ondol_types::coordinate::has_coordinates;
use ondol_types::data::{Data, DataVersions};
use ondol_types::name::quote;
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, sqlstate};
use std::collections::BTreeSet;

/// The state of what a definition cannot be.
const INVALID_DEFINITION: &str = "42P17";

/// What a part of an index is of a row.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    Column(usize),
    /// A hidden column: its name, what it is computed by, its type, and the data that it is computed with.
    Hidden(String, String, Type, DataVersions),
}

/// A part of a key.
pub(super) struct KeyPart {
    pub part: Part,
    pub desc: bool,
    pub nulls_first: bool,
    /// What stands for it in a name that is chosen.
    pub label: String,
    /// COLLATE and the operator class, where they are not what is so anyway, as they are shown.
    pub form: String,
}

/// A table's definition that gets hidden columns, and where its columns come from.
pub(super) struct Hiding {
    pub def: TableDef,
    pub columns: Vec<AlteredColumn>,
    /// Hidden columns that no index has are out already.
    swept: bool,
}

impl Hiding {
    pub fn new(def: &TableDef) -> Hiding {
        let columns = (0..def.columns.len()).map(AlteredColumn::Kept).collect();
        Hiding { def: def.clone(), columns, swept: false }
    }
    /// That of a table that is being altered.
    pub fn by(mut def: TableDef, mut columns: Vec<AlteredColumn>) -> Hiding {
        sweep(&mut def, &mut columns);
        Hiding { def, columns, swept: true }
    }
    /// That of a table that is being made.
    pub fn of_new(name: &Name, columns: Vec<ColumnDef>) -> Hiding {
        let (schema, name) = (name.schema, name.name.clone());
        let (indexes, checks, foreign) = (Vec::new(), Vec::new(), Vec::new());
        let def =
            TableDef { id: 0, schema, name, columns, indexes, checks, foreign, nature: Nature::default() };
        Hiding { def, columns: Vec::new(), swept: true }
    }

    fn find(&self, name: &str, text: &str, ty: Type) -> Option<usize> {
        let is_it = |c: &ColumnDef| c.name == name && c.computed() == Some(text) && c.ty == ty;
        self.def.columns.iter().position(is_it)
    }

    /// The places of parts, which get columns where they have none.
    pub fn places(&mut self, parts: &[&Part]) -> Vec<usize> {
        let missing =
            |p: &&&Part| matches!(p, Part::Hidden(name, text, ty, _) if self.find(name, text, *ty).is_none());
        if !self.swept && parts.iter().any(|p| missing(&p)) {
            // Rows are copied anyway.
            sweep(&mut self.def, &mut self.columns);
            self.swept = true
        }
        let place = |p: &&Part| match p {
            Part::Column(n) => *n,
            Part::Hidden(name, text, ty, data) => match self.find(name, text, *ty) {
                Some(n) => {
                    self.renew(n, data);
                    n
                }
                None => {
                    let (generated, data) = (Some(Generated::Stored(text.clone())), data.clone());
                    let column = ColumnDef { generated, data, ..ColumnDef::new(name.clone(), *ty) };
                    self.def.columns.push(column);
                    self.columns.push(AlteredColumn::Computed(text.clone()));
                    self.def.columns.len() - 1
                }
            },
        };
        parts.iter().map(place).collect()
    }

    /// Has a hidden column computed anew whose values are of other versions of data (H5).
    fn renew(&mut self, n: usize, data: &DataVersions) {
        let column = &mut self.def.columns[n];
        let unrecorded = || column.data.is_empty() && data.iter().all(|(d, v)| v == d.unrecorded());
        let is_same = column.data == *data || unrecorded();
        if let (false, Some(text), Some(from)) = (is_same, column.computed(), self.columns.get_mut(n)) {
            *from = AlteredColumn::Computed(text.to_string());
            column.data = data.clone()
        }
    }
}

/// Data of which something was computed with another version than the program has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherVersion {
    pub data: Data,
    pub was: String,
    pub now: String,
}

/// The data that a value depends on beside its row, in the program's versions. What a registered query calls
/// may be changed, and is not looked into.
fn versions_of(catalog: &Catalog, value: &Expr) -> DataVersions {
    let mut found = catalog.data.as_ref().clone();
    if !has_query(value) {
        let mut asked = Vec::new();
        crate::bound::walk_expr(value, 0, &mut |e, _| {
            if let ExprKind::Call { func, .. } = e.kind {
                asked.extend(ondol_types::func::find(func).and_then(|f| f.data))
            }
            true
        });
        found.retain(|data, _| asked.contains(data))
    }
    found
}

/// The same of a hidden column that is kept up. None where it has no meaning.
pub(super) fn versions_of_hidden(catalog: &Catalog, def: &TableDef, column: &ColumnDef) -> DataVersions {
    let (table, over) = (def.full_name(), over_of(column));
    let bound = check::bind_over_row(catalog, &table, def.shown(), over, text_of(column));
    bound.map_or(DataVersions::new(), |e| versions_of(catalog, &e))
}

/// The data of which the hidden column has not the program's versions (H5).
fn other_versions(catalog: &Catalog, def: &TableDef, column: &ColumnDef) -> Vec<OtherVersion> {
    if !column.is_hidden() || column.computed().is_none() {
        return Vec::new();
    }
    let is_usual = || catalog.data.iter().all(|(data, now)| now == data.unrecorded());
    let recorded = match column.data.is_empty() {
        false => column.data.clone(),
        true if is_usual() => return Vec::new(),
        true => (versions_of_hidden(catalog, def, column).into_keys())
            .map(|data| (data, data.unrecorded().to_string()))
            .collect(),
    };
    let other = |(data, was): (Data, String)| {
        let now = catalog.data.get(&data).filter(|now| **now != was)?.clone();
        Some(OtherVersion { data, was, now })
    };
    recorded.into_iter().filter_map(other).collect()
}

/// The data of which an index's keys have not the program's versions, so that nothing goes by it (H5).
pub fn outdated(catalog: &Catalog, def: &TableDef, index: &IndexDef) -> Vec<OtherVersion> {
    let mut all = Vec::new();
    for n in index.all_columns() {
        for other in other_versions(catalog, def, &def.columns[n]) {
            if !all.contains(&other) {
                all.push(other)
            }
        }
    }
    all
}

/// What computes the outdated keys of a table anew, or those of one of its indexes. `None` where there are
/// none.
pub fn renewal(catalog: &Catalog, def: &TableDef, only: Option<&str>) -> Option<AlterTable> {
    let mut hiding = Hiding::new(def);
    for n in outdated_columns(catalog, def, only) {
        let data = versions_of_hidden(catalog, def, &def.columns[n]);
        hiding.renew(n, &data)
    }
    let is_other = hiding.def != *def;
    is_other.then(|| AlterTable {
        columns: hiding.columns,
        def: Some(hiding.def),
        ..AlterTable::new(def.full_name(), "REINDEX")
    })
}

/// What notes, before rows are changed, that outdated keys will be of several versions: who has the one that
/// is recorded now is not to believe it. `None` where all is known already.
pub fn mixture(catalog: &Catalog, def: &TableDef) -> Option<AlterTable> {
    let mut mixed = def.clone();
    for n in outdated_columns(catalog, def, None) {
        let column = &mut mixed.columns[n];
        for OtherVersion { data, was, now } in other_versions(catalog, def, &def.columns[n]) {
            if !was.split(MIXED).any(|v| v == now) {
                column.data.insert(data, format!("{was}{MIXED}{now}"));
            }
        }
        // Of what was not recorded the rest is now.
        let usual = versions_of_hidden(catalog, def, &def.columns[n]);
        for (data, now) in if def.columns[n].data.is_empty() { usual } else { DataVersions::new() } {
            column.data.entry(data).or_insert(now);
        }
    }
    let columns = (0..def.columns.len()).map(AlteredColumn::Kept).collect();
    let is_other = mixed != *def;
    is_other.then(|| AlterTable { def: Some(mixed), columns, ..AlterTable::new(def.full_name(), "REINDEX") })
}

/// Between versions where a column's values are of several.
const MIXED: &str = " and ";

fn outdated_columns(catalog: &Catalog, def: &TableDef, only: Option<&str>) -> Vec<usize> {
    let indexes = def.indexes.iter().filter(|i| only.is_none_or(|name| i.name == name));
    let named: BTreeSet<usize> = indexes.flat_map(IndexDef::all_columns).collect();
    named.into_iter().filter(|n| !other_versions(catalog, def, &def.columns[*n]).is_empty()).collect()
}

/// The same for a new table's columns.
pub(super) fn places_in(columns: &mut Vec<ColumnDef>, parts: &[&Part]) -> Vec<usize> {
    let place = |p: &&Part| match p {
        Part::Column(n) => *n,
        Part::Hidden(name, text, ty, data) => {
            let there = columns.iter().position(|c| c.name == *name);
            there.unwrap_or_else(|| {
                let (generated, data) = (Some(Generated::Stored(text.clone())), data.clone());
                columns.push(ColumnDef { generated, data, ..ColumnDef::new(name.clone(), *ty) });
                columns.len() - 1
            })
        }
    };
    parts.iter().map(place).collect()
}

/// Takes hidden columns out that no index has.
pub(super) fn sweep(def: &mut TableDef, columns: &mut Vec<AlteredColumn>) {
    for n in (0..def.columns.len()).rev() {
        if def.columns[n].is_hidden() && !def.is_indexed(n) {
            def.remove_column(n);
            columns.remove(n);
        }
    }
}

/// Whether a hidden column is that of a predicate (H3).
pub fn is_predicate(column: &ColumnDef) -> bool {
    column.name.strip_prefix(HIDDEN).is_some_and(|n| n.starts_with(HIDDEN))
}

/// The text of what a hidden column is of (H3).
pub fn text_of(column: &ColumnDef) -> &str {
    if is_predicate(column) { column.label() } else { column.computed().unwrap_or(column.label()) }
}

/// The name of a hidden column, and what it is computed by (H2, H3).
fn hidden_as(
    catalog: &Catalog,
    table: &Name,
    columns: &[ColumnDef],
    over: Over,
    text: &str,
) -> SqlResult<(String, String)> {
    Ok(match over {
        Over::Predicate => (format!("{HIDDEN}{HIDDEN}{text}"), format!("CASE WHEN {text} THEN true END")),
        Over::IndexExpression => {
            let label = crate::deparse::index::label(catalog, table, columns, text)?;
            (format!("{HIDDEN}{label}"), text.to_string())
        }
    })
}

/// The hidden columns of a table that are what they are of: their places, whether each is that of a
/// predicate, and what they are, over relation 0. Nothing where that has no meaning: then no query is about
/// it either.
pub fn hidden_of(catalog: &Catalog, def: &TableDef) -> Vec<(u16, bool, Expr)> {
    let mut all = computed_of(catalog, def);
    all.retain(|h| other_versions(catalog, def, &def.columns[usize::from(h.0)]).is_empty());
    all
}

/// The same with those that are outdated (H5).
fn computed_of(catalog: &Catalog, def: &TableDef) -> Vec<(u16, bool, Expr)> {
    let hidden = def.columns.iter().enumerate().skip(def.shown().len());
    let live = hidden.filter(|(_, c)| c.computed().is_some());
    live.filter_map(|(n, c)| {
        let over = over_of(c);
        let e = check::bind_over_row(catalog, &def.full_name(), def.shown(), over, text_of(c)).ok()?;
        Some((n as u16, over == Over::Predicate, e))
    })
    .collect()
}

/// What a hidden column is of.
pub(super) fn over_of(column: &ColumnDef) -> Over {
    if is_predicate(column) { Over::Predicate } else { Over::IndexExpression }
}

/// A hidden column becomes that of another expression, or of the same by other names.
pub(super) fn set_hidden(
    catalog: &Catalog,
    def: &mut TableDef,
    n: usize,
    over: Over,
    text: &str,
    ty: Type,
) -> SqlResult<()> {
    let (name, computed) = hidden_as(catalog, &def.full_name(), def.shown(), over, text)?;
    let column = &mut def.columns[n];
    (column.name, column.ty) = (name, if over == Over::Predicate { Type::BOOL } else { ty });
    column.generated = Some(Generated::Stored(computed));
    Ok(())
}

fn wrong(state: &'static str, message: impl Into<String>) -> SqlError {
    SqlError::new(state, message)
}

impl<'a> Binder<'a> {
    pub(super) fn create_index(&mut self, s: &'a tree::IndexStmt) -> SqlResult<Statement> {
        let relation = self.relation_name(&s.relation)?;
        refuse(
            !s.idxcomment.is_empty() || s.primary || s.isconstraint || s.iswithoutoverlaps,
            "this kind of index",
        )?;
        refuse(s.deferrable || s.initdeferred, "a DEFERRABLE index")?;
        self.refuse_view(relation, |name| {
            let message = format!("cannot create index on relation \"{name}\"");
            let error = wrong(sqlstate::WRONG_OBJECT_TYPE, message);
            error.detail("This operation is not supported for views.")
        })?;
        let table = self.table(relation)?;
        let mut index_kind = index_method(&s.access_method)?;
        if let IndexKind::Crtree { bits } = &mut index_kind {
            *bits = crtree_bits(&s.options)?;
            let no = |what: &str| {
                let message = format!("access method \"crtree\" does not support {what}");
                Err(wrong(sqlstate::FEATURE_NOT_SUPPORTED, message))
            };
            if s.unique {
                return no("unique indexes");
            }
            if s.where_clause.is_some() {
                return no("predicates");
            }
        } else {
            self.storage(&s.options, is_index_storage, accepted::INDEX_STORAGE)?;
        }
        self.tablespace(&s.table_space)?;
        let keys = self.key_parts(&table.def, &s.index_params, index_kind)?;
        let include = self.included(&table.def, &s.index_including_params, index_kind)?;
        check_key_count(keys.len() + include.len())?;
        let predicate = match s.where_clause.as_deref() {
            Some(node) => self.predicate(&table.def, node)?,
            None => None,
        };
        let full = table.def.full_name();
        let name = if s.idxname.is_empty() {
            let columns = include.iter().map(|c| table.def.columns[*c].name.as_str());
            let names = distinct_names(keys.iter().map(|k| k.label.as_str()).chain(columns));
            self.choose_name(&full, &names.join("_"), "idx", &|_| false)
        } else {
            if !s.if_not_exists {
                self.no_such_relation(&Name::new(table.def.schema, &*s.idxname))?;
            }
            s.idxname.clone()
        };
        let mut hiding = Hiding::new(&table.def);
        let (columns, options) = key_columns(&mut hiding, &keys, predicate.as_ref(), include);
        if matches!(index_kind, IndexKind::Crtree { .. }) {
            check_dimensions(&hiding.def, &columns, &keys)?
        }
        let index = NewIndex {
            name: Some(name),
            kind: index_kind,
            unique: s.unique,
            primary: false,
            constraint: false,
            columns,
            options: IndexOptions { nulls_not_distinct: s.nulls_not_distinct, ..options },
        };
        let alter = (hiding.def != table.def).then(|| {
            Box::new(AlterTable {
                def: Some(hiding.def),
                columns: hiding.columns,
                ..AlterTable::new(full.clone(), "CREATE INDEX")
            })
        });
        let exclusive = alter.as_ref().is_some_and(|a| {
            let columns = a.columns.iter().zip(a.def.iter().flat_map(|d| &d.columns));
            let mut computed = columns.filter_map(|(c, now)| match c {
                AlteredColumn::Computed(text) => Some((now, text)),
                _ => None,
            });
            computed.any(|(now, text)| check::value_of_row(self.catalog, &table.def, now, text).is_none())
        });
        if s.concurrent && exclusive {
            self.notice(accepted::INDEX_CONCURRENTLY)
        }
        Ok(Statement::CreateIndex {
            table: full,
            index,
            alter,
            if_not_exists: s.if_not_exists,
            concurrently: s.concurrent,
        })
    }

    pub(super) fn reindex(&mut self, s: &'a tree::ReindexStmt) -> SqlResult<Statement> {
        let mut concurrently = false;
        for o in options(&s.params)? {
            match o.defname.as_str() {
                "concurrently" => concurrently = option_bool(o)?,
                "verbose" => refuse(option_bool(o)?, "REINDEX (VERBOSE)")?,
                "tablespace" => return Err(SqlError::unsupported("REINDEX (TABLESPACE)")),
                other => {
                    let message = format!("unrecognized REINDEX option \"{other}\"");
                    return Err(at(wrong(sqlstate::SYNTAX_ERROR, message), o.location));
                }
            }
        }
        let alone = |what: &'static str| if concurrently { Some("REINDEX CONCURRENTLY") } else { Some(what) };
        let catalog = self.catalog;
        let all = |schema: Option<u32>| {
            let tables = catalog.tables().filter(|t| t.def.schema != ondol_engine::name::TEMPORARY);
            let tables = tables.filter(|t| !t.def.is_foreign());
            let tables = tables.filter(|t| schema.is_none_or(|s| t.def.schema == s));
            tables.filter(|t| !t.def.indexes.is_empty()).map(|t| (t.def.full_name(), None)).collect()
        };
        let (tables, alone) = match s.kind() {
            ReindexObjectType::ReindexObjectIndex | ReindexObjectType::ReindexObjectTable => {
                let relation = self.relation_name(&s.relation)?;
                let name = &relation.relname;
                let is_index = s.kind() == ReindexObjectType::ReindexObjectIndex;
                let found = self.relation_of(relation);
                let one = match (&found, is_index) {
                    (Some((index, Relation::Index { table })), true)
                        if !catalog.table(table).is_some_and(|t| t.def.is_foreign()) =>
                    {
                        (table.clone(), Some(index.name.clone()))
                    }
                    (Some((name, Relation::Table(table))), false) if !table.def.is_foreign() => {
                        if table.def.indexes.is_empty() {
                            let notice = format!("table \"{}\" has no indexes to reindex", name.name);
                            self.notices.push(("00000", notice))
                        }
                        (name.clone(), None)
                    }
                    (Some(_), _) => {
                        let what = if is_index { "an index" } else { "a table or materialized view" };
                        let message = format!("\"{name}\" is not {what}");
                        return Err(wrong(sqlstate::WRONG_OBJECT_TYPE, message));
                    }
                    (None, _) => {
                        let message =
                            format!("relation \"{}\" does not exist", super::names::written(relation));
                        return Err(wrong(sqlstate::UNDEFINED_TABLE, message));
                    }
                };
                (vec![one], concurrently.then_some("REINDEX CONCURRENTLY"))
            }
            ReindexObjectType::ReindexObjectSchema => {
                let Some(schema) = catalog.schema(&s.name) else {
                    return Err(super::names::no_schema(&s.name));
                };
                (all(Some(schema.number)), alone("REINDEX SCHEMA"))
            }
            ReindexObjectType::ReindexObjectDatabase => (all(None), alone("REINDEX DATABASE")),
            // PostgreSQL's own tables have no indexes here.
            ReindexObjectType::ReindexObjectSystem if concurrently => {
                let message = "cannot reindex system catalogs concurrently";
                return Err(wrong(sqlstate::FEATURE_NOT_SUPPORTED, message));
            }
            ReindexObjectType::ReindexObjectSystem => (Vec::new(), alone("REINDEX SYSTEM")),
            ReindexObjectType::Undefined => return Err(unexpected("REINDEX")),
        };
        if concurrently {
            self.notice(accepted::REINDEX_CONCURRENTLY)
        }
        Ok(Statement::Reindex { tables, alone })
    }

    pub(super) fn key_parts(
        &mut self,
        def: &TableDef,
        nodes: &'a [Node],
        index_kind: IndexKind,
    ) -> SqlResult<Vec<KeyPart>> {
        let mut keys = Vec::with_capacity(nodes.len());
        for node in nodes {
            let Kind::IndexElem(e) = kind(node)? else { return Err(unexpected("an index column")) };
            keys.push(self.key_part(def, e, index_kind)?)
        }
        Ok(keys)
    }

    pub(super) fn key_part(
        &mut self,
        def: &TableDef,
        e: &'a IndexElem,
        index_kind: IndexKind,
    ) -> SqlResult<KeyPart> {
        refuse(!e.opclassopts.is_empty(), "options of an operator class")?;
        let mut expression = e.expr.as_deref();
        // COLLATE around the whole expression is the key's, and no part of the expression.
        let mut within = None;
        while let Some(Kind::CollateClause(c)) = expression.map(kind).transpose()? {
            within = within.or(strings(&c.collname)?.last().copied());
            expression = c.arg.as_deref();
        }
        let (part, ty, label) = match expression {
            None => {
                let column = column_of(def, &e.name)?;
                (Part::Column(column), def.columns[column].ty.id, e.name.clone())
            }
            Some(node) => {
                let (part, ty) = self.index_expression(def, node)?;
                let label = match &part {
                    Part::Column(n) => def.columns[*n].name.clone(),
                    Part::Hidden(..) => expr::index_label(node),
                };
                (part, ty.id, label)
            }
        };
        super::json::check_key(ty, method_name(index_kind))?;
        let mut form = String::new();
        if let Some(name) = strings(&e.collation)?.last().copied().or(within) {
            expr::check_collation(name, ty, -1)?;
            let own = match &part {
                Part::Column(n) => def.columns[*n].collation.as_deref(),
                Part::Hidden(..) => None,
            };
            if name != own.unwrap_or("default") {
                form += &format!(" COLLATE {}", quote(name))
            }
        }
        let class = strings(&e.opclass)?;
        if let Some(class) = class.last() {
            let other = is_other_class(class, ty);
            refuse(!other && !is_default_class(class, ty), format_args!("operator class \"{class}\""))?;
            if other {
                form += &format!(" {class}")
            }
        }
        let ordered = e.ordering() != SortByDir::SortbyDefault
            || !matches!(e.nulls_ordering(), SortByNulls::SortbyNullsDefault | SortByNulls::Undefined);
        if index_kind != IndexKind::Btree && ordered {
            let what = if e.ordering() != SortByDir::SortbyDefault { "ASC/DESC" } else { "NULLS FIRST/LAST" };
            let message =
                format!("access method \"{}\" does not support {what} options", method_name(index_kind));
            return Err(wrong(sqlstate::FEATURE_NOT_SUPPORTED, message));
        }
        let desc = e.ordering() == SortByDir::SortbyDesc;
        let nulls_first = match e.nulls_ordering() {
            SortByNulls::SortbyNullsFirst => true,
            SortByNulls::SortbyNullsLast => false,
            _ => desc,
        };
        Ok(KeyPart { part, desc, nulls_first, label, form })
    }

    /// The columns of INCLUDE.
    pub(super) fn included(
        &self,
        def: &TableDef,
        nodes: &'a [Node],
        index_kind: IndexKind,
    ) -> SqlResult<Vec<usize>> {
        if !nodes.is_empty() && index_kind != IndexKind::Btree {
            let message =
                format!("access method \"{}\" does not support included columns", method_name(index_kind));
            return Err(wrong(sqlstate::FEATURE_NOT_SUPPORTED, message));
        }
        let one = |node: &'a Node| {
            let Kind::IndexElem(e) = kind(node)? else { return Err(unexpected("INCLUDE")) };
            let refused = |what: &str| Err(wrong(sqlstate::FEATURE_NOT_SUPPORTED, what));
            if e.expr.is_some() {
                return refused("expressions are not supported in included columns");
            }
            let column = column_of(def, &e.name)?;
            let no =
                |what: &str| wrong(INVALID_DEFINITION, format!("including column does not support {what}"));
            if !e.collation.is_empty() {
                return Err(no("a collation"));
            }
            if !e.opclass.is_empty() {
                return Err(no("an operator class"));
            }
            if e.ordering() != SortByDir::SortbyDefault {
                return Err(no("ASC/DESC options"));
            }
            if !matches!(e.nulls_ordering(), SortByNulls::SortbyNullsDefault | SortByNulls::Undefined) {
                return Err(no("NULLS FIRST/LAST options"));
            }
            Ok(column)
        };
        nodes.iter().map(one).collect()
    }

    /// The index of an exclusion constraint of which all operators are equality.
    pub(super) fn exclusion(
        &mut self,
        hiding: &mut Hiding,
        k: &'a Constraint,
        taken: &dyn Fn(&str) -> bool,
    ) -> SqlResult<NewIndex> {
        let name = self.exclusion_name(&hiding.def, k, taken)?;
        self.exclusion_named(hiding, k, name)
    }

    /// The name of an exclusion constraint.
    pub(super) fn exclusion_name(
        &mut self,
        def: &TableDef,
        k: &'a Constraint,
        taken: &dyn Fn(&str) -> bool,
    ) -> SqlResult<String> {
        if !k.conname.is_empty() {
            if taken(&k.conname) {
                let message = format!("relation \"{}\" already exists", k.conname);
                return Err(wrong(sqlstate::DUPLICATE_TABLE, message));
            }
            self.no_such_relation(&Name::new(def.schema, &*k.conname))?;
            return Ok(k.conname.clone());
        }
        let index_kind = index_method(&k.access_method)?;
        let keys = self.exclusion_keys(def, k, index_kind)?;
        let include = strings(&k.including)?;
        let names = distinct_names(keys.iter().map(|k| k.label.as_str()).chain(include));
        Ok(self.choose_name(&def.full_name(), &names.join("_"), "excl", taken))
    }

    fn exclusion_keys(
        &mut self,
        def: &TableDef,
        k: &'a Constraint,
        index_kind: IndexKind,
    ) -> SqlResult<Vec<KeyPart>> {
        if let IndexKind::Crtree { .. } = index_kind {
            let message = "access method \"crtree\" does not support exclusion constraints";
            return Err(wrong(sqlstate::FEATURE_NOT_SUPPORTED, message));
        }
        let mut keys = Vec::with_capacity(k.exclusions.len());
        for node in &k.exclusions {
            let [element, operator] = list(node)? else { return Err(unexpected("EXCLUDE")) };
            let Kind::IndexElem(e) = kind(element)? else { return Err(unexpected("EXCLUDE")) };
            let operator = strings(list(operator)?)?;
            let operator = operator.last().copied().unwrap_or_default();
            refuse_at(operator != "=", format_args!("EXCLUDE ... WITH {operator}"), k.location)?;
            keys.push(self.key_part(def, e, index_kind)?)
        }
        Ok(keys)
    }

    pub(super) fn exclusion_named(
        &mut self,
        hiding: &mut Hiding,
        k: &'a Constraint,
        name: String,
    ) -> SqlResult<NewIndex> {
        refuse_at(k.deferrable || k.initdeferred, "a DEFERRABLE constraint", k.location)?;
        let index_kind = index_method(&k.access_method)?;
        self.storage(&k.options, is_index_storage, accepted::INDEX_STORAGE)?;
        self.tablespace(&k.indexspace)?;
        let def = hiding.def.clone();
        let keys = self.exclusion_keys(&def, k, index_kind)?;
        let include = strings(&k.including)?;
        let include = include.iter().map(|n| column_of(&def, n)).collect::<SqlResult<Vec<_>>>()?;
        check_key_count(keys.len() + include.len())?;
        let predicate = match k.where_clause.as_deref() {
            Some(node) => self.predicate(&def, node)?,
            None => None,
        };
        let (columns, options) = key_columns(hiding, &keys, predicate.as_ref(), include);
        let (unique, constraint) = (true, true);
        let options = IndexOptions { exclusion: true, ..options };
        Ok(NewIndex {
            name: Some(name),
            kind: index_kind,
            unique,
            primary: false,
            constraint,
            columns,
            options,
        })
    }

    /// An expression of a key.
    fn index_expression(&mut self, def: &TableDef, node: &'a Node) -> SqlResult<(Part, Type)> {
        let (value, text) = self.row_text(def, Over::IndexExpression, node)?;
        if let ExprKind::Column { column, .. } = value.kind {
            return Ok((Part::Column(usize::from(column)), value.ty));
        }
        super::types::check_stored(value.ty.id)?;
        let over = Over::IndexExpression;
        let (name, computed) = hidden_as(self.catalog, &def.full_name(), def.shown(), over, &text)?;
        let data = versions_of(self.catalog, &value);
        Ok((Part::Hidden(name, computed, value.ty, data), value.ty))
    }

    /// A predicate; none where it is true of all rows.
    pub(super) fn predicate(&mut self, def: &TableDef, node: &'a Node) -> SqlResult<Option<Part>> {
        let (value, text) = self.row_text(def, Over::Predicate, node)?;
        if matches!(value.kind, ExprKind::Const(Value::Bool(true))) {
            return Ok(None);
        }
        let over = Over::Predicate;
        let (name, computed) = hidden_as(self.catalog, &def.full_name(), def.shown(), over, &text)?;
        let data = versions_of(self.catalog, &value);
        Ok(Some(Part::Hidden(name, computed, Type::BOOL, data)))
    }

    /// An expression of an index with its text (H3).
    fn row_text(&mut self, def: &TableDef, over: Over, node: &'a Node) -> SqlResult<(Expr, String)> {
        let (table, columns) = (def.full_name(), def.shown());
        let value = self.over_row(&table, columns, over, node)?;
        if !check::is_constant_of(&value) {
            let message = format!("functions in {} must be marked IMMUTABLE", over.what());
            return Err(wrong(INVALID_DEFINITION, message));
        }
        let kept = self.kept_text(node, &|b, node| b.over_row(&table, columns, over, node).map(drop))?;
        let text = crate::deparse::over_row(self.catalog, &table, columns, over, &kept)?;
        let is_same = |read: &Expr| same_value(read, &value, &|a, b| a == b) || has_query(&value);
        match check::bind_over_row(self.catalog, &table, columns, over, &text) {
            Ok(read) if is_same(&read) => Ok((value, text)),
            // Another text would be another expression.
            _ => Err(SqlError::unsupported(format_args!("the {} {kept}", over.what()))),
        }
    }
}

/// Whether a query stands in an expression, as a call of a registered query is one.
pub(super) fn has_query(e: &Expr) -> bool {
    let mut found = false;
    crate::bound::walk_expr(e, 0, &mut |e, _| {
        found |= crate::bound::inner_query(e).is_some();
        !found
    });
    found
}

/// The columns of a key, the predicate's first (H2), and what options say of it.
pub(super) fn key_columns(
    hiding: &mut Hiding,
    keys: &[KeyPart],
    predicate: Option<&Part>,
    include: Vec<usize>,
) -> (Vec<IndexColumn>, IndexOptions) {
    let parts: Vec<&Part> = predicate.into_iter().chain(keys.iter().map(|k| &k.part)).collect();
    let places = hiding.places(&parts);
    let first = predicate.map(|_| (false, false));
    let orders = first.into_iter().chain(keys.iter().map(|k| (k.desc, k.nulls_first)));
    let columns = places.into_iter().zip(orders);
    let columns = columns.map(|(column, (desc, nulls_first))| IndexColumn { column, desc, nulls_first });
    let forms = keys.iter().enumerate().filter(|(_, k)| !k.form.is_empty());
    let forms = forms.map(|(n, k)| (n, k.form.clone())).collect();
    let options = IndexOptions { partial: predicate.is_some(), include, forms, ..IndexOptions::default() };
    (columns.collect(), options)
}

fn column_of(def: &TableDef, name: &str) -> SqlResult<usize> {
    if let Some(n) = def.column(name) {
        return Ok(n);
    }
    if ondol_types::known::is_system_column(name) {
        let message = "index creation on system columns is not supported";
        return Err(wrong(sqlstate::FEATURE_NOT_SUPPORTED, message));
    }
    Err(wrong(sqlstate::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist")))
}

/// Names, each with a number behind it if it was there before.
pub(super) fn distinct_names<'n>(names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for name in names {
        let mut chosen = name.to_string();
        let mut count = 0;
        while out.contains(&chosen) {
            count += 1;
            chosen = format!("{name}{count}")
        }
        out.push(chosen)
    }
    out
}

/// Whether an expression calls a registered query.
pub(super) fn calls(e: &Expr, function: u32) -> bool {
    let mut is_there = false;
    crate::bound::walk_expr(e, 0, &mut |e, _| {
        if let Some(q) = crate::bound::inner_query(e) {
            let is_it = |r: &crate::bound::RelEntry| matches!(&r.rel, Rel::Function { function: f, .. } if f.id == function);
            is_there |= q.rels.iter().any(is_it)
        }
        !is_there
    });
    is_there
}

/// The indexes that call a registered query, each with its table's number.
pub fn calling(catalog: &Catalog, function: u32) -> Vec<(Name, u32)> {
    let mut found = Vec::new();
    for table in catalog.tables() {
        if table.def.shown().len() == table.def.columns.len() {
            continue;
        }
        let hidden: Vec<usize> = (computed_of(catalog, &table.def).into_iter())
            .filter(|h| calls(&h.2, function))
            .map(|h| usize::from(h.0))
            .collect();
        let named = table.def.indexes.iter().filter(|i| i.all_columns().any(|c| hidden.contains(&c)));
        found.extend(named.map(|i| (table.def.index_name(i), i.id)))
    }
    found
}

/// What the columns of an index are called in the catalogue.
pub fn names(def: &TableDef, index: &IndexDef) -> Vec<String> {
    let name = |column: usize| {
        let column = &def.columns[column];
        let expression = || {
            let raws = crate::parse::parse(&format!("SELECT {}", text_of(column))).ok()?;
            super::only_target(&raws).map(expr::index_label)
        };
        match column.is_hidden() {
            true => expression().unwrap_or_else(|| "expr".into()),
            false => column.name.clone(),
        }
    };
    let all = index.keys().iter().map(|c| c.column).chain(index.options.include.iter().copied());
    let all: Vec<String> = all.map(name).collect();
    distinct_names(all.iter().map(String::as_str))
}

/// What WITH says of a CR-tree.
fn crtree_bits(given: &[Node]) -> SqlResult<u8> {
    let mut bits = CRTREE_BITS[0];
    for o in options(given)? {
        if o.defname != "bits" {
            let message = format!("unrecognized parameter \"{}\"", o.defname);
            return Err(wrong(sqlstate::INVALID_PARAMETER_VALUE, message));
        }
        let text = option_text(o)?.unwrap_or_default();
        let found = text.parse().ok().filter(|n| CRTREE_BITS.contains(n));
        bits = found.ok_or_else(|| {
            let message = format!("invalid value for option \"bits\": {text}");
            wrong(sqlstate::INVALID_PARAMETER_VALUE, message).detail("Valid values are 8 and 16.")
        })?
    }
    Ok(bits)
}

/// That a CR-tree can have a column of this type.
pub(super) fn check_coordinates(ty: Type, label: &str) -> SqlResult<()> {
    if has_coordinates(ty) {
        return Ok(());
    }
    let message = format!("data type {ty} of \"{label}\" has no coordinates for access method \"crtree\"");
    let hint =
        "It takes integers, real, double precision, numeric of up to 18 digits, date, time and timestamps.";
    Err(wrong(sqlstate::FEATURE_NOT_SUPPORTED, message).hint(hint))
}

/// That a CR-tree can have these columns.
fn check_dimensions(def: &TableDef, columns: &[IndexColumn], keys: &[KeyPart]) -> SqlResult<()> {
    if !DIMENSIONS.contains(&columns.len()) {
        let (least, most) = (DIMENSIONS.start(), DIMENSIONS.end());
        let message =
            format!("access method \"crtree\" takes {least} to {most} columns, found {}", columns.len());
        let error = wrong(INVALID_DEFINITION, message);
        return Err(match columns.len() {
            1 => error.hint("For one column an index of the method \"btree\" does."),
            _ => error,
        });
    }
    for (n, (c, key)) in columns.iter().zip(keys).enumerate() {
        let ty = def.columns[c.column].ty;
        if columns[..n].iter().any(|other| other.column == c.column) {
            let message =
                format!("column \"{}\" appears twice in an index of the method \"crtree\"", key.label);
            return Err(wrong(sqlstate::DUPLICATE_COLUMN, message));
        }
        check_coordinates(ty, &key.label)?
    }
    Ok(())
}

/// The bits that a CR-tree's values may have, the usual ones first.
pub const CRTREE_BITS: [u8; 2] = [8, 16];

/// The name of a kind of index.
pub fn method_name(kind: IndexKind) -> &'static str {
    match kind {
        IndexKind::Btree => "btree",
        IndexKind::Hash => "hash",
        IndexKind::Crtree { .. } => "crtree",
    }
}

pub(super) fn index_method(name: &str) -> SqlResult<IndexKind> {
    match name {
        "" | "btree" => Ok(IndexKind::Btree),
        "hash" => Ok(IndexKind::Hash),
        "crtree" => Ok(IndexKind::Crtree { bits: CRTREE_BITS[0] }),
        known @ ("gin" | "gist" | "spgist" | "brin") => {
            Err(SqlError::unsupported(format_args!("access method \"{known}\"")))
        }
        other => {
            let message = format!("access method \"{other}\" does not exist");
            Err(wrong(sqlstate::UNDEFINED_OBJECT, message))
        }
    }
}

/// Whether an operator class is another than a type's own that has the same order here, where texts are
/// compared by their bytes.
fn is_other_class(class: &str, ty: TypeId) -> bool {
    match class {
        "text_pattern_ops" | "varchar_pattern_ops" => matches!(ty, TypeId::TEXT | TypeId::VARCHAR),
        "bpchar_pattern_ops" => ty == TypeId::BPCHAR,
        "varchar_ops" => ty == TypeId::VARCHAR,
        _ => false,
    }
}

/// Whether an operator class is the one a type has anyway.
fn is_default_class(class: &str, ty: TypeId) -> bool {
    let def = ty.def();
    let own = |name: &str| name == def.catalog_name || (ty == TypeId::VARCHAR && name == "text");
    !matches!(def.class, ondol_types::ty::Class::None) && class.strip_suffix("_ops").is_some_and(own)
}
