//! CREATE TABLE, DROP, TRUNCATE.
//!
//! Whether an object exists is checked here for a good error with a place, and again when the statement runs.
//! With IF [NOT] EXISTS it is left to then, and so is the notice.

use super::accepted::{self, is_index_storage, is_table_storage};
use super::declared::{self, Declared};
use super::index::{self, Hiding, Part};
use super::names::{no_schema, parts};
use super::tree::{
    at, kind, need, option_bool, option_text, options, refuse, refuse_at, string, strings, unexpected,
    variant,
};
use super::types::{any_type, is_taken};
use super::{Binder, system};
use crate::bound::{Dropped, Expr, ExprKind, NewForeign, NewIndex, NewSequence, SequenceOf, Statement};
use crate::parse::tree::{
    self, ConstrType, Constraint, DropBehavior, Node, ObjectType, OnCommitAction, RangeVar,
    node::Node as Kind,
};
use ondol_engine::name::{PUBLIC, TEMPORARY};
use ondol_engine::{
    CheckDef, ColumnDef, ForeignSource, Generated, IndexColumn, IndexKind, IndexOptions, Name, Nature,
    OnCommit, Relation, TableDef,
};
use ondol_types::{SqlError, SqlResult, TypeId, Value, sqlstate};
use std::collections::BTreeSet;

/// Whether a column's default is none: NULL, unless its domain has one, or it is converted to a length.
pub(super) fn is_no_default(default: &Expr, column: &ColumnDef) -> bool {
    matches!(default.kind, ExprKind::Const(Value::Null)) && column.domain.is_none() && column.ty.typmod < 0
}

/// Bytes in a name.
const MAX_NAME: usize = 63;
/// Columns in a table.
const MAX_COLUMNS: usize = 1600;
/// Columns in an index.
const MAX_KEYS: usize = 32;

/// A key that a constraint asks for, before its columns are looked up.
pub(super) struct Key<'a> {
    pub constraint: &'a Constraint,
    pub primary: bool,
    pub columns: Vec<&'a str>,
    /// INCLUDE
    pub include: Vec<&'a str>,
}

impl Key<'_> {
    /// What names that are chosen are made of.
    pub fn names(&self) -> String {
        index::distinct_names(self.columns.iter().chain(&self.include).copied()).join("_")
    }
}

/// Whether a table can have so many columns.
pub(super) fn check_columns(n: usize) -> SqlResult<()> {
    if n > MAX_COLUMNS {
        let message = format!("tables can have at most {MAX_COLUMNS} columns");
        return Err(SqlError::new("54011", message));
    }
    Ok(())
}

pub(super) fn check_column_name(name: &str) -> SqlResult<()> {
    if matches!(name, "ctid" | "xmin" | "xmax" | "cmin" | "cmax" | "tableoid") {
        let message = format!("column name \"{name}\" conflicts with a system column name");
        return Err(SqlError::new(sqlstate::DUPLICATE_COLUMN, message));
    }
    Ok(())
}

impl<'a> Binder<'a> {
    pub(super) fn create_table(
        &mut self,
        s: &'a tree::CreateStmt,
        source: Option<ForeignSource>,
    ) -> SqlResult<Statement> {
        refuse(!s.inh_relations.is_empty(), "INHERITS")?;
        refuse(s.partbound.is_some() || s.partspec.is_some(), "PARTITION")?;
        refuse(s.of_typename.is_some(), "CREATE TABLE OF")?;
        refuse(!s.constraints.is_empty() || !s.nnconstraints.is_empty(), "these constraints")?;
        refuse(!matches!(s.access_method.as_str(), "" | "heap"), "a table access method")?;
        let (place, on_commit) = self.new_table(&s.relation, s.oncommit())?;
        self.storage(&s.options, is_table_storage, accepted::TABLE_STORAGE)?;
        self.tablespace(&s.tablespacename)?;
        let name = &place.name;
        if !s.if_not_exists {
            self.no_such_relation(&place)?;
            self.no_such_type(&place)?;
        }
        let mut columns: Vec<ColumnDef> = Vec::new();
        let mut keys: Vec<Key<'a>> = Vec::new();
        let mut conditions: Vec<&'a Constraint> = Vec::new();
        let mut sequences: Vec<NewSequence> = Vec::new();
        let mut generations: Vec<(usize, &'a Node)> = Vec::new();
        let mut exclusions: Vec<&'a Constraint> = Vec::new();
        let mut foreign: Vec<NewForeign> = Vec::new();
        let (mut like_checks, mut like_indexes, mut comments) = (Vec::new(), Vec::new(), Vec::new());
        for node in &s.table_elts {
            match kind(node)? {
                Kind::ColumnDef(c) => {
                    let column = self.column_def(&place, c, &mut keys, &mut conditions, &mut foreign)?;
                    if columns.iter().any(|o| o.name == column.name) {
                        let message = format!("column \"{}\" specified more than once", column.name);
                        return Err(SqlError::new(sqlstate::DUPLICATE_COLUMN, message));
                    }
                    let column_at = columns.len();
                    generations.extend(self.new_generation_of.take().map(|node| (column_at, node)));
                    sequences
                        .extend(self.new_sequence.take().map(|s| NewSequence { column: column_at, ..s }));
                    columns.push(column);
                }
                Kind::Constraint(c) if c.contype() == ConstrType::ConstrCheck => conditions.push(c),
                Kind::Constraint(c) if c.contype() == ConstrType::ConstrForeign => {
                    // There are no rows that it could be violated by.
                    let key = self.new_foreign(&place, c, None)?;
                    foreign.push(NewForeign { validated: true, ..key })
                }
                Kind::Constraint(c) if c.contype() == ConstrType::ConstrExclusion => exclusions.push(c),
                Kind::Constraint(c) => keys.push(self.table_key(c)?),
                Kind::TableLikeClause(l) => {
                    let like = self.like(l, columns.len())?;
                    for column in like.columns {
                        if columns.iter().any(|o| o.name == column.name) {
                            let message = format!("column \"{}\" specified more than once", column.name);
                            return Err(SqlError::new(sqlstate::DUPLICATE_COLUMN, message));
                        }
                        columns.push(column)
                    }
                    like_checks.extend(like.checks);
                    like_indexes.extend(like.indexes);
                    comments.extend(like.comments)
                }
                other => return Err(unexpected(&variant(other))),
            }
        }
        check_columns(columns.len())?;
        for (n, node) in generations {
            let text = self.new_generation(&place, &columns, n, node)?;
            columns[n].generated = Some(Generated::Stored(text))
        }
        let mut checks = self.new_checks(&place, &columns, conditions)?;
        for check in like_checks {
            if checks.iter().any(|c| c.name == check.name) {
                let message =
                    format!("constraint \"{}\" for relation \"{}\" already exists", check.name, place.name);
                return Err(SqlError::new(sqlstate::DUPLICATE_OBJECT, message));
            }
            checks.push(check)
        }
        let mut constraints = self.keys(&place, &mut columns, keys)?;
        let mut like_indexes: Vec<NewIndex> = (like_indexes.into_iter())
            .map(|(index, parts)| {
                let parts: Vec<&Part> = parts.iter().collect();
                let mut index = index;
                let places = index::places_in(&mut columns, &parts);
                index.columns.iter_mut().zip(places).for_each(|(c, place)| c.column = place);
                index
            })
            .collect();
        if constraints.iter().chain(&like_indexes).filter(|i| i.primary).count() > 1 {
            let message = format!("multiple primary keys for table \"{}\" are not allowed", place.name);
            return Err(SqlError::new(sqlstate::INVALID_TABLE_DEFINITION, message));
        }
        constraints.append(&mut like_indexes);
        let mut hiding = Hiding::of_new(&place, columns);
        for k in exclusions {
            let taken = |n: &str| {
                let has_it = |i: &NewIndex| i.name.as_deref() == Some(n);
                n == place.name || constraints.iter().any(has_it) || checks.iter().any(|c| c.name == n)
            };
            let made = self.exclusion(&mut hiding, k, &taken)?;
            constraints.push(made)
        }
        let columns = hiding.def.columns;
        let twice = |i: &&NewIndex| checks.iter().find(|c| Some(&c.name) == i.name.as_ref());
        if let Some(c) = constraints.iter().find_map(|i| twice(&i)) {
            let message = format!("constraint \"{}\" for relation \"{name}\" already exists", c.name);
            return Err(SqlError::new(sqlstate::DUPLICATE_OBJECT, message));
        }
        self.rests_within(place.schema, &columns, &sequences)?;
        Ok(Statement::CreateTable {
            name: place,
            columns,
            constraints,
            checks,
            sequences,
            foreign,
            comments,
            on_commit,
            if_not_exists: s.if_not_exists,
            unlogged: is_unlogged(&s.relation),
            source,
        })
    }

    pub(super) fn create_table_as(&mut self, s: &'a tree::CreateTableAsStmt) -> SqlResult<Statement> {
        let into = s.into.as_deref().ok_or_else(|| unexpected("CREATE TABLE AS"))?;
        let Kind::SelectStmt(select) = kind(need(&s.query)?)? else {
            return Err(SqlError::unsupported("CREATE TABLE AS EXECUTE"));
        };
        if s.objtype() == ObjectType::ObjectMatview {
            return self.create_material(into, select, s.if_not_exists);
        }
        self.table_of_query(into, select, s.if_not_exists)
    }

    /// SELECT ... INTO: the same as CREATE TABLE AS. `None`: it is a query.
    pub(super) fn select_into(&mut self, s: &'a tree::SelectStmt) -> SqlResult<Option<Statement>> {
        // Of a set operation the first query says so.
        let mut first = s;
        while let Some(left) = first.larg.as_deref() {
            first = left
        }
        let Some(into) = first.into_clause.as_deref() else { return Ok(None) };
        self.into_of = Some(first);
        self.table_of_query(into, s, false).map(Some)
    }

    pub(super) fn table_of_query(
        &mut self,
        into: &'a tree::IntoClause,
        select: &'a tree::SelectStmt,
        if_not_exists: bool,
    ) -> SqlResult<Statement> {
        refuse(!matches!(into.access_method.as_str(), "" | "heap"), "a table access method")?;
        let (place, on_commit) = self.new_table(&into.rel, into.on_commit())?;
        self.storage(&into.options, is_table_storage, accepted::TABLE_STORAGE)?;
        self.tablespace(&into.table_space_name)?;
        if !if_not_exists {
            self.no_such_relation(&place)?;
            self.no_such_type(&place)?;
        }
        let query = self.settled_select(select)?;
        let mut has_params = false;
        crate::bound::walk_query(&query, 0, &mut |e, _| {
            has_params |= matches!(e.kind, ExprKind::Param(_));
            true
        });
        refuse(has_params, "a parameter in CREATE TABLE AS")?;
        let given = strings(&into.col_names)?;
        // What reads files was opened for this query alone.
        let declared = match self.opened.by_functions {
            true => Vec::new(),
            false => declared::columns(self.catalog, &self.as_written(select)?),
        };
        let found = query.columns();
        if given.len() > found.len() {
            return Err(SqlError::new(sqlstate::SYNTAX_ERROR, "too many column names were specified"));
        }
        let mut columns: Vec<ColumnDef> = Vec::with_capacity(found.len());
        for (n, (own, ty)) in found.into_iter().enumerate() {
            let name = given.get(n).map_or(own, |g| g.to_string());
            if ty.id == TypeId::VOID {
                let message = format!("column \"{name}\" has pseudo-type {}", super::name_of(ty.id));
                return Err(SqlError::new(sqlstate::INVALID_TABLE_DEFINITION, message));
            }
            check_column_name(&name)?;
            super::types::check_stored(ty.id)?;
            if columns.iter().any(|c| c.name == name) {
                let message = format!("column \"{name}\" specified more than once");
                return Err(SqlError::new(sqlstate::DUPLICATE_COLUMN, message));
            }
            let Declared { domain, collation } = declared.get(n).cloned().unwrap_or_default();
            columns.push(ColumnDef { domain, collation, ..ColumnDef::new(name, ty) });
        }
        check_columns(columns.len())?;
        Ok(Statement::CreateTableAs {
            name: place,
            columns,
            query,
            with_data: !into.skip_data,
            on_commit,
            if_not_exists,
            nature: Nature { unlogged: is_unlogged(&into.rel), ..Nature::default() },
        })
    }

    /// Where a table is made, which may be a temporary one, and what a commit does to it.
    fn new_table(&self, relation: &Option<RangeVar>, action: OnCommitAction) -> SqlResult<(Name, OnCommit)> {
        let place = self.new_place(relation)?;
        let on_commit = match action {
            OnCommitAction::OncommitDeleteRows => OnCommit::Delete,
            OnCommitAction::OncommitDrop => OnCommit::Drop,
            _ => OnCommit::Preserve,
        };
        let is_said = !matches!(action, OnCommitAction::OncommitNoop | OnCommitAction::Undefined);
        if is_said && place.schema != TEMPORARY {
            let message = "ON COMMIT can only be used on temporary tables";
            return Err(SqlError::new(sqlstate::INVALID_TABLE_DEFINITION, message));
        }
        Ok((place, on_commit))
    }

    /// No default of a table that stays takes values of a session's own sequences (engine/temporary/E5), and
    /// a temporary table's sequences are temporary.
    pub(super) fn rests_within(
        &self,
        schema: u32,
        columns: &[ColumnDef],
        sequences: &[NewSequence],
    ) -> SqlResult<()> {
        if schema == TEMPORARY {
            let is_other = |s: &NewSequence| s.name.as_ref().is_some_and(|n| n.schema != TEMPORARY);
            return if sequences.iter().any(is_other) { Err(super::names::elsewhere()) } else { Ok(()) };
        }
        let has_own = self.catalog.sequences().any(|s| s.def.schema == TEMPORARY);
        let takes_own = |c: &ColumnDef| {
            let mut found = super::sequence::sequences_of(self.catalog, c).into_iter();
            found.any(ondol_engine::temporary::is_temporary)
        };
        let rests = has_own && columns.iter().any(takes_own);
        refuse(rests, "a default of a table that takes values of a temporary sequence")
    }

    pub(super) fn no_such_relation(&self, name: &Name) -> SqlResult<()> {
        let is_view = name.schema == PUBLIC && system::view(&name.name).is_some();
        if self.catalog.relations.contains_key(name) || is_view {
            let message = format!("relation \"{}\" already exists", name.name);
            return Err(SqlError::new(sqlstate::DUPLICATE_TABLE, message));
        }
        Ok(())
    }

    /// A table's rows have a type of its name.
    pub(super) fn no_such_type(&self, name: &Name) -> SqlResult<()> {
        if !is_taken(self.catalog, name) {
            return Ok(());
        }
        let message = format!("type \"{}\" already exists", name.name);
        Err(SqlError::new(sqlstate::DUPLICATE_OBJECT, message).hint(
            "A relation has an associated type of the same name, so you must use a name that doesn't conflict \
             with any existing type.",
        ))
    }

    /// Storage parameters: the known ones mean nothing, others are an error.
    pub(super) fn storage(
        &mut self,
        nodes: &'a [Node],
        known: fn(&str) -> Option<accepted::Parameter>,
        what: accepted::Accepted,
    ) -> SqlResult<()> {
        let list = options(nodes)?;
        for (n, o) in list.iter().enumerate() {
            refuse_at(
                !o.defnamespace.is_empty() && o.defnamespace != "toast",
                "a parameter's namespace",
                o.location,
            )?;
            let wrong = |message: String| SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, message);
            let own = |o: &&tree::DefElem| (o.defnamespace.clone(), o.defname.clone());
            if list[..n].iter().any(|before| own(before) == own(o)) {
                return Err(wrong(format!("parameter \"{}\" specified more than once", o.defname)));
            }
            let Some(parameter) = known(&o.defname) else {
                if o.defname == "oids" && o.defnamespace.is_empty() && known("parallel_workers").is_some() {
                    if !option_bool(o)? {
                        continue;
                    }
                    return Err(SqlError::new(
                        sqlstate::FEATURE_NOT_SUPPORTED,
                        "tables declared WITH OIDS are not supported",
                    ));
                }
                let error = wrong(format!("unrecognized parameter \"{}\"", o.defname));
                return Err(at(error, o.location));
            };
            parameter.check(&o.defname, option_text(o)?.as_deref())?;
            self.notice(what);
        }
        Ok(())
    }

    pub(super) fn tablespace(&mut self, name: &str) -> SqlResult<()> {
        match name {
            "" => Ok(()),
            "pg_default" => {
                self.notice(accepted::TABLESPACE);
                Ok(())
            }
            other => {
                let message = format!("tablespace \"{other}\" does not exist");
                Err(SqlError::new(sqlstate::UNDEFINED_OBJECT, message))
            }
        }
    }

    /// The checks of a new table.
    fn new_checks(
        &mut self,
        name: &Name,
        columns: &[ColumnDef],
        conditions: Vec<&'a Constraint>,
    ) -> SqlResult<Vec<CheckDef>> {
        let Name { schema, name } = name.clone();
        let (columns, indexes, checks) = (columns.to_vec(), Vec::new(), Vec::new());
        let foreign = Vec::new();
        let nature = Nature::default();
        let mut def = TableDef { id: 0, schema, name, columns, indexes, checks, foreign, nature };
        for k in conditions {
            if def.is_constraint(&k.conname) {
                let message = format!("check constraint \"{}\" already exists", k.conname);
                return Err(SqlError::new(sqlstate::DUPLICATE_OBJECT, message));
            }
            // There are no rows that it could be false of.
            let check = CheckDef { validated: true, ..self.new_check(&def, k)? };
            def.checks.push(check)
        }
        Ok(def.checks)
    }

    pub(super) fn column_def(
        &mut self,
        of: &Name,
        c: &'a tree::ColumnDef,
        keys: &mut Vec<Key<'a>>,
        conditions: &mut Vec<&'a Constraint>,
        foreign: &mut Vec<NewForeign>,
    ) -> SqlResult<ColumnDef> {
        let (table, here) = (&of.name, c.location);
        refuse_at(!c.storage_name.is_empty() || !c.storage.is_empty(), "STORAGE", here)?;
        refuse_at(!c.fdwoptions.is_empty(), "OPTIONS of a column", here)?;
        refuse_at(c.raw_default.is_some() || c.cooked_default.is_some(), "this kind of default", here)?;
        check_column_name(&c.colname).map_err(|e| at(e, here))?;
        let name = c.type_name.as_ref().ok_or_else(|| unexpected("a column without a type"))?;
        let serial = self.serial_type(name)?;
        let declared = match serial {
            Some(id) => ondol_types::Type::new(id),
            None => any_type(self.names(), name)?,
        };
        let ty = declared.base();
        let domain = (ty != declared).then_some(declared.id);
        if matches!(ty.id, TypeId::UNKNOWN | TypeId::VOID) {
            let message = format!("column \"{}\" has pseudo-type {}", c.colname, super::name_of(ty.id));
            return Err(at(SqlError::new(sqlstate::INVALID_TABLE_DEFINITION, message), here));
        }
        super::types::check_stored(ty.id).map_err(|e| at(e, here))?;
        if !c.compression.is_empty() {
            self.compression(&c.compression, ty)?
        }
        let mut collation = None;
        if let Some(collate) = &c.coll_clause {
            let name = super::expr::collation_name(&collate.collname)?;
            super::expr::check_collation(name, ty.id, collate.location)?;
            collation = super::expr::kept_collation(name, ty.id)
        }
        let name = c.colname.clone();
        let mut column = ColumnDef { domain, collation, ..ColumnDef::new(name, ty) };
        let mut nullable: Option<bool> = c.is_not_null.then_some(false);
        let mut sequence = serial.map(|id| self.serial_sequence(id));
        let mut generation: Option<&'a Node> = None;
        let (mut last, mut kept, mut is_none) = (None, false, false);
        for node in &c.constraints {
            let Kind::Constraint(k) = kind(node)? else { return Err(unexpected("a column constraint")) };
            let before = last.replace(k.contype());
            let attribute = |t| {
                use ConstrType::{ConstrAttrDeferrable, ConstrAttrDeferred};
                use ConstrType::{ConstrAttrImmediate, ConstrAttrNotDeferrable};
                let all =
                    [ConstrAttrDeferrable, ConstrAttrDeferred, ConstrAttrImmediate, ConstrAttrNotDeferrable];
                all.contains(&t)
            };
            if attribute(k.contype()) {
                let of_key = matches!(before, Some(ConstrType::ConstrPrimary | ConstrType::ConstrUnique));
                let plain = [ConstrType::ConstrAttrNotDeferrable, ConstrType::ConstrAttrImmediate];
                last = before;
                if !(of_key && plain.contains(&k.contype())) {
                    refuse_at(of_key, "a DEFERRABLE constraint", k.location)?;
                    let key = foreign.last_mut().filter(|_| before == Some(ConstrType::ConstrForeign));
                    super::foreign::defer(key, k.contype(), kept, k.location)?;
                    kept |= k.contype() == ConstrType::ConstrAttrNotDeferrable
                }
                continue;
            }
            match k.contype() {
                ConstrType::ConstrNull | ConstrType::ConstrNotnull => {
                    refuse_at(k.is_no_inherit, "NO INHERIT", k.location)?;
                    refuse_at(k.skip_validation, "NOT VALID", k.location)?;
                    let allows = k.contype() == ConstrType::ConstrNull;
                    let identity = |s: &NewSequence| s.of != SequenceOf::Serial;
                    if nullable.is_some_and(|n| n != allows)
                        || allows && sequence.as_ref().is_some_and(identity)
                    {
                        let message = format!(
                            "conflicting NULL/NOT NULL declarations for column \"{}\" of table \"{table}\"",
                            c.colname
                        );
                        return Err(at(SqlError::new(sqlstate::SYNTAX_ERROR, message), k.location));
                    }
                    nullable = Some(allows);
                }
                ConstrType::ConstrGenerated => {
                    refuse_at(k.generated_kind == "v", "a VIRTUAL generated column", k.location)?;
                    let syntax =
                        |message: String| at(SqlError::new(sqlstate::SYNTAX_ERROR, message), k.location);
                    if generation.is_some() {
                        let message = format!(
                            "multiple generation clauses specified for column \"{}\" of table \"{table}\"",
                            c.colname
                        );
                        return Err(syntax(message));
                    }
                    generation = Some(need(&k.raw_expr)?)
                }
                ConstrType::ConstrIdentity => {
                    let identity = self.identity_sequence(k, declared.id)?;
                    if sequence.as_ref().is_some_and(|s| s.of == SequenceOf::Serial) {
                        return Err(both("default and identity", table, &c.colname, -1));
                    }
                    if sequence.is_some() {
                        let message = format!(
                            "multiple identity specifications for column \"{}\" of table \"{table}\"",
                            c.colname
                        );
                        return Err(at(SqlError::new(sqlstate::SYNTAX_ERROR, message), k.location));
                    }
                    if nullable == Some(true) {
                        let message = format!(
                            "conflicting NULL/NOT NULL declarations for column \"{}\" of table \"{table}\"",
                            c.colname
                        );
                        return Err(at(SqlError::new(sqlstate::SYNTAX_ERROR, message), k.location));
                    }
                    sequence = Some(identity)
                }
                ConstrType::ConstrDefault => {
                    let is_serial = sequence.as_ref().is_some_and(|s| s.of == SequenceOf::Serial);
                    if column.default.is_some() || is_serial {
                        let here = if is_serial { -1 } else { k.location };
                        let message = format!(
                            "multiple default values specified for column \"{}\" of table \"{table}\"",
                            c.colname
                        );
                        return Err(at(SqlError::new(sqlstate::SYNTAX_ERROR, message), here));
                    }
                    let value = need(&k.raw_expr)?;
                    let bound = self.default_value(value, &column)?;
                    is_none = is_no_default(&bound, &column);
                    column.default = Some(self.default_text(value, &column)?);
                }
                ConstrType::ConstrPrimary | ConstrType::ConstrUnique => {
                    let mut key = self.table_key(k)?;
                    key.columns = vec![&c.colname];
                    keys.push(key);
                }
                ConstrType::ConstrCheck => conditions.push(k),
                ConstrType::ConstrForeign => {
                    kept = false;
                    let key = self.new_foreign(of, k, Some(&c.colname))?;
                    foreign.push(NewForeign { validated: true, ..key })
                }
                // What this says is so.
                ConstrType::ConstrAttrEnforced => {}
                other => return Err(at(SqlError::unsupported(constraint_name(other)), k.location)),
            }
        }
        if let Some(s) = &sequence {
            // What serial stands for has no place.
            if nullable == Some(true) {
                let message = format!(
                    "conflicting NULL/NOT NULL declarations for column \"{}\" of table \"{table}\"",
                    c.colname
                );
                return Err(SqlError::new(sqlstate::SYNTAX_ERROR, message));
            }
            if column.default.is_some() && s.of != SequenceOf::Serial {
                let places = c.constraints.iter().filter_map(|n| match &n.node {
                    Some(Kind::Constraint(k)) => Some(k.location),
                    _ => None,
                });
                return Err(both("default and identity", table, &c.colname, places.max().unwrap_or(-1)));
            }
        }
        if generation.is_some() {
            let last = c.constraints.iter().filter_map(|n| match &n.node {
                Some(Kind::Constraint(k)) => Some(k.location),
                _ => None,
            });
            let last = last.max().unwrap_or(here);
            if column.default.is_some() || sequence.as_ref().is_some_and(|s| s.of == SequenceOf::Serial) {
                return Err(both("default and generation expression", table, &c.colname, last));
            }
            if sequence.is_some() {
                return Err(both("identity and generation expression", table, &c.colname, last));
            }
            // Its text is made when all columns are known.
            column.generated = Some(Generated::Stored(String::new()));
        }
        if is_none {
            column.default = None
        }
        self.new_generation_of = generation;
        column.not_null = nullable == Some(false) || sequence.is_some();
        self.new_sequence = sequence;
        Ok(column)
    }

    /// A PRIMARY KEY or UNIQUE constraint; others are refused by name.
    pub(super) fn table_key(&mut self, k: &'a Constraint) -> SqlResult<Key<'a>> {
        let here = k.location;
        let primary = match k.contype() {
            ConstrType::ConstrPrimary => true,
            ConstrType::ConstrUnique => false,
            other => return Err(at(SqlError::unsupported(constraint_name(other)), here)),
        };
        refuse_at(k.deferrable || k.initdeferred, "a DEFERRABLE constraint", here)?;
        refuse_at(k.without_overlaps, "WITHOUT OVERLAPS", here)?;
        refuse_at(!k.exclusions.is_empty() || k.where_clause.is_some(), "EXCLUDE", here)?;
        self.storage(&k.options, is_index_storage, accepted::INDEX_STORAGE)?;
        self.tablespace(&k.indexspace)?;
        Ok(Key { constraint: k, primary, columns: strings(&k.keys)?, include: strings(&k.including)? })
    }

    /// The indexes of a new table's keys, named; a primary key's columns become NOT NULL.
    fn keys(
        &mut self,
        place: &Name,
        columns: &mut [ColumnDef],
        mut keys: Vec<Key<'a>>,
    ) -> SqlResult<Vec<NewIndex>> {
        let table = &place.name;
        // The primary key comes first.
        keys.sort_by_key(|k| !k.primary);
        let mut indexes: Vec<NewIndex> = Vec::new();
        for key in keys {
            let here = key.constraint.location;
            if key.primary && indexes.iter().any(|i| i.primary) {
                let message = format!("multiple primary keys for table \"{table}\" are not allowed");
                return Err(at(SqlError::new(sqlstate::INVALID_TABLE_DEFINITION, message), here));
            }
            let (places, options) =
                key_columns(&key, &mut |name| columns.iter().position(|c| c.name == name))?;
            if key.primary {
                places.iter().for_each(|p| columns[p.column].not_null = true);
            }
            let given = &key.constraint.conname;
            // The same key twice is one, as in PostgreSQL.
            let is_it = |i: &&mut NewIndex| i.columns == places && i.options == options;
            if let Some(same) = indexes.iter_mut().find(is_it) {
                if !given.is_empty() && !same.constraint {
                    same.name = Some(given.clone());
                    same.constraint = true;
                }
                continue;
            }
            if !given.is_empty() {
                self.check_new_name(given, place, &indexes)?;
            }
            for place in &places {
                super::json::check_key(columns[place.column].ty.base().id, "btree")?;
            }
            let name = (!given.is_empty()).then(|| given.clone());
            // Whether it has a name of its own is kept in `constraint` until all are known.
            let constraint = name.is_some();
            indexes.push(NewIndex {
                name,
                kind: IndexKind::Btree,
                unique: true,
                primary: key.primary,
                constraint,
                columns: places,
                options,
            });
        }
        for i in 0..indexes.len() {
            indexes[i].constraint = true;
            if indexes[i].name.is_none() {
                let all = indexes[i].columns.iter().map(|c| c.column);
                let all = all.chain(indexes[i].options.include.iter().copied());
                let names = index::distinct_names(all.map(|c| columns[c].name.as_str()));
                let taken = |n: &str| n == *table || indexes.iter().any(|o| o.name.as_deref() == Some(n));
                let name = if indexes[i].primary {
                    self.choose_name(place, "", "pkey", &taken)
                } else {
                    self.choose_name(place, &names.join("_"), "key", &taken)
                };
                indexes[i].name = Some(name);
            }
        }
        Ok(indexes)
    }

    fn check_new_name(&self, name: &str, table: &Name, others: &[NewIndex]) -> SqlResult<()> {
        self.no_such_relation(&Name::new(table.schema, name))?;
        if name == table.name || others.iter().any(|o| o.name.as_deref() == Some(name)) {
            let message = format!("relation \"{name}\" already exists");
            return Err(SqlError::new(sqlstate::DUPLICATE_TABLE, message));
        }
        Ok(())
    }

    /// A name like `t_a_b_key`, with a number behind it if it is taken.
    pub(super) fn choose_name(
        &self,
        table: &Name,
        columns: &str,
        label: &str,
        taken: &dyn Fn(&str) -> bool,
    ) -> String {
        self.choose_free_name(table, columns, label, &|_| false, taken)
    }

    /// The same where what has some names is about to go, so that these are `free`.
    pub(super) fn choose_free_name(
        &self,
        table: &Name,
        columns: &str,
        label: &str,
        free: &dyn Fn(&str) -> bool,
        taken: &dyn Fn(&str) -> bool,
    ) -> String {
        let mut n = 0;
        loop {
            let label = if n == 0 { label.to_string() } else { format!("{label}{n}") };
            let name = object_name(&table.name, columns, &label);
            let is_there = self.no_such_relation(&Name::new(table.schema, &*name)).is_err();
            if free(&name) || !is_there && !taken(&name) {
                return name;
            }
            n += 1;
        }
    }

    /// The index that ADD CONSTRAINT ... USING INDEX names.
    pub(super) fn constraint_index<'t>(
        &self,
        table: &'t TableDef,
        k: &Constraint,
        primary: bool,
    ) -> SqlResult<&'t ondol_engine::IndexDef> {
        let name = &k.indexname;
        let error = |state, message: String| at(SqlError::new(state, message), k.location);
        let Some(index) = table.indexes.iter().find(|i| i.name == *name) else {
            return Err(if self.catalog.table_of_index(Name::new(table.schema, &**name)).is_some() {
                let message = format!("index \"{name}\" does not belong to table \"{}\"", table.name);
                error("55000", message)
            } else {
                error(sqlstate::UNDEFINED_OBJECT, format!("index \"{name}\" does not exist"))
            });
        };
        if index.constraint {
            return Err(error("55000", format!("index \"{name}\" is already associated with a constraint")));
        }
        let cannot = |what: String| {
            error(sqlstate::WRONG_OBJECT_TYPE, what)
                .detail("Cannot create a primary key or unique constraint using such an index.")
        };
        if !index.unique {
            return Err(cannot(format!("\"{name}\" is not a unique index")));
        }
        if index.keys().iter().any(|c| table.columns[c.column].is_hidden()) {
            return Err(cannot(format!("index \"{name}\" contains expressions")));
        }
        if index.options.partial {
            return Err(cannot(format!("\"{name}\" is a partial index")));
        }
        if primary && index.options.nulls_not_distinct {
            let message = format!("index \"{name}\" has NULLS NOT DISTINCT");
            return Err(SqlError::unsupported(message));
        }
        if index.columns.iter().any(|c| c.desc || c.nulls_first) {
            let message = format!("index \"{name}\" column number 1 does not have default sorting behavior");
            return Err(error(sqlstate::WRONG_OBJECT_TYPE, message)
                .detail("Cannot create a primary key or unique constraint using such an index."));
        }
        Ok(index)
    }

    pub(super) fn drop(&mut self, s: &'a tree::DropStmt) -> SqlResult<Statement> {
        let if_exists = s.missing_ok;
        // CASCADE and RESTRICT: only functions that return a table's rows depend on something that can be
        // dropped.
        let cascade = s.behavior() == DropBehavior::DropCascade;
        match s.remove_type() {
            ObjectType::ObjectTable => {
                let names = self.dropped(s, "table")?;
                self.check_dropped(
                    &names,
                    "a table",
                    |r| matches!(r, Relation::Table(t) if !(t.def.is_material() || t.def.is_foreign())),
                )?;
                Ok(Statement::DropTable { names, if_exists, cascade, foreign: false })
            }
            ObjectType::ObjectForeignTable => {
                let names = self.dropped(s, "foreign table")?;
                self.check_dropped(
                    &names,
                    "a foreign table",
                    |r| matches!(r, Relation::Table(t) if t.def.is_foreign()),
                )?;
                Ok(Statement::DropTable { names, if_exists, cascade, foreign: true })
            }
            ObjectType::ObjectIndex => {
                if s.concurrent {
                    let refused = |what: &str| {
                        let message = format!("DROP INDEX CONCURRENTLY does not support {what}");
                        Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message))
                    };
                    if s.objects.len() > 1 {
                        return refused("dropping multiple objects");
                    }
                    if s.behavior() == DropBehavior::DropCascade {
                        return refused("CASCADE");
                    }
                    self.notice(accepted::CONCURRENTLY);
                }
                let names = self.dropped(s, "index")?;
                names.iter().filter_map(Dropped::there).try_for_each(|n| self.check_drop_index(n))?;
                let cascade = s.behavior() == DropBehavior::DropCascade;
                Ok(Statement::DropIndex { names, if_exists, cascade, concurrently: s.concurrent })
            }
            ObjectType::ObjectSequence => self.drop_sequence(s),
            ObjectType::ObjectView => {
                let names = self.dropped(s, "view")?;
                self.check_dropped(&names, "a view", |r| matches!(r, Relation::View(_)))?;
                Ok(Statement::DropView { names, if_exists, cascade, material: false })
            }
            ObjectType::ObjectMatview => {
                let names = self.dropped(s, "materialized view")?;
                self.check_dropped(
                    &names,
                    "a materialized view",
                    |r| matches!(r, Relation::Table(t) if t.def.is_material()),
                )?;
                Ok(Statement::DropView { names, if_exists, cascade, material: true })
            }
            ObjectType::ObjectFunction => self.drop_function(s),
            ObjectType::ObjectType | ObjectType::ObjectDomain => self.drop_type(s),
            ObjectType::ObjectSchema => self.drop_schema(s),
            other => {
                let feature = format!("DROP {}", upper_words(&format!("{other:?}"), "Object"));
                Err(SqlError::unsupported(feature))
            }
        }
    }

    /// The relations that DROP names, each once; `what` they are called.
    pub(super) fn dropped(&self, s: &'a tree::DropStmt, what: &str) -> SqlResult<Vec<Dropped>> {
        let mut names: Vec<Dropped> = Vec::with_capacity(s.objects.len());
        let mut there = BTreeSet::new();
        for o in &s.objects {
            let (schema, name) = match kind(o)? {
                Kind::List(l) => parts(&l.items)?,
                Kind::String(_) => (None, string(o)?),
                other => return Err(unexpected(&variant(other))),
            };
            let number = schema.and_then(|s| self.catalog.schema(s)).map(|s| s.number);
            let found = match (schema, number) {
                (None, _) => self.catalog.find(self.path, name).map(|f| f.0),
                (_, None) => None,
                (_, Some(number)) => {
                    Some(Name::new(number, name)).filter(|n| self.catalog.relations.contains_key(n))
                }
            };
            if found.is_none()
                && let Some(r) = crate::catalog::relation(schema.unwrap_or_default(), name)
            {
                return Err(super::from::no_change(r, -1));
            }
            let dropped = match (found, schema) {
                (Some(found), _) if !there.insert(found.clone()) => continue,
                (Some(found), _) => Dropped::There(found),
                (None, Some(schema)) if number.is_none() => {
                    let error = no_schema(schema);
                    if !s.missing_ok {
                        return Err(error);
                    }
                    Dropped::Missing(format!("{}, skipping", error.0.message))
                }
                (None, _) => {
                    let message = format!("{what} \"{name}\" does not exist");
                    if !s.missing_ok {
                        let is_table = matches!(
                            what,
                            "table" | "sequence" | "view" | "materialized view" | "foreign table"
                        );
                        let state =
                            if is_table { sqlstate::UNDEFINED_TABLE } else { sqlstate::UNDEFINED_OBJECT };
                        return Err(SqlError::new(state, message));
                    }
                    Dropped::Missing(format!("{message}, skipping"))
                }
            };
            names.push(dropped)
        }
        Ok(names)
    }

    /// Whether relations that are to be dropped are `what` ("a view"), those that are there.
    pub(super) fn check_dropped(
        &self,
        names: &[Dropped],
        what: &str,
        is_it: impl Fn(&Relation) -> bool,
    ) -> SqlResult<()> {
        for name in names.iter().filter_map(Dropped::there) {
            let is_other = self.catalog.relations.get(name).is_some_and(|r| !is_it(r));
            if is_other && let Some(hint) = self.drop_hint(name) {
                let message = format!("\"{}\" is not {what}", name.name);
                return Err(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message).hint(hint));
            }
        }
        Ok(())
    }

    /// Which statement drops a relation.
    fn drop_hint(&self, name: &Name) -> Option<&'static str> {
        Some(match self.catalog.relations.get(name)? {
            Relation::Table(t) if t.def.is_material() => {
                "Use DROP MATERIALIZED VIEW to remove a materialized view."
            }
            Relation::Table(t) if t.def.is_foreign() => "Use DROP FOREIGN TABLE to remove a foreign table.",
            Relation::Table(_) => "Use DROP TABLE to remove a table.",
            Relation::View(_) => "Use DROP VIEW to remove a view.",
            Relation::Index { .. } => "Use DROP INDEX to remove an index.",
            Relation::Sequence(_) => "Use DROP SEQUENCE to remove a sequence.",
        })
    }

    fn check_drop_index(&self, index: &Name) -> SqlResult<()> {
        let name = &index.name;
        let Some(table) = self.catalog.table_of_index(index) else {
            let error = SqlError::new(sqlstate::WRONG_OBJECT_TYPE, format!("\"{name}\" is not an index"));
            return Err(error.hint(self.drop_hint(index).unwrap_or_default()));
        };
        if table.def.indexes.iter().any(|i| i.name == *name && i.constraint) {
            let table = self.catalog.shown(self.path, &table.def.full_name());
            let index = self.catalog.shown(self.path, index);
            let message =
                format!("cannot drop index {index} because constraint {name} on table {table} requires it");
            let error = SqlError::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message);
            return Err(error.hint(format!("You can drop constraint {name} on table {table} instead.")));
        }
        Ok(())
    }

    pub(super) fn truncate(&mut self, s: &'a tree::TruncateStmt) -> SqlResult<Statement> {
        let mut names: Vec<Name> = Vec::with_capacity(s.relations.len());
        for node in &s.relations {
            let Kind::RangeVar(v) = kind(node)? else { return Err(unexpected("TRUNCATE")) };
            let v: &RangeVar = v;
            if !v.schemaname.is_empty() {
                self.names().schema(&v.schemaname, -1)?;
            }
            self.refuse_view(v, |name| {
                SqlError::new(sqlstate::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a table"))
            })?;
            let table = self.table(v)?;
            if table.def.is_material() {
                let message = format!("\"{}\" is not a table", table.def.name);
                return Err(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message));
            }
            let name = table.def.full_name();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let cascade = s.behavior() == DropBehavior::DropCascade;
        Ok(Statement::Truncate { names, restart: s.restart_seqs, cascade })
    }
}

/// A column whose values would come from two places.
pub(super) fn both(what: &str, table: &str, column: &str, location: i32) -> SqlError {
    let message = format!("both {what} specified for column \"{column}\" of table \"{table}\"");
    at(SqlError::new(sqlstate::SYNTAX_ERROR, message), location)
}

pub(super) fn is_unlogged(relation: &Option<RangeVar>) -> bool {
    relation.as_ref().is_some_and(|v| v.relpersistence == "u")
}

pub(super) fn check_key_count(n: usize) -> SqlResult<()> {
    if n > MAX_KEYS {
        let message = format!("cannot use more than {MAX_KEYS} columns in an index");
        return Err(SqlError::new("54011", message));
    }
    Ok(())
}

/// The columns of a key, each once.
pub(super) fn key_columns(
    key: &Key<'_>,
    find: &mut dyn FnMut(&str) -> Option<usize>,
) -> SqlResult<(Vec<IndexColumn>, IndexOptions)> {
    let here = key.constraint.location;
    let missing = |name: &str| {
        let message = format!("column \"{name}\" named in key does not exist");
        at(SqlError::new(sqlstate::UNDEFINED_COLUMN, message), here)
    };
    let mut columns: Vec<IndexColumn> = Vec::with_capacity(key.columns.len());
    for name in &key.columns {
        let column = find(name).ok_or_else(|| missing(name))?;
        if columns.iter().any(|c| c.column == column) {
            let what = if key.primary { "primary key" } else { "unique" };
            let message = format!("column \"{name}\" appears twice in {what} constraint");
            return Err(at(SqlError::new(sqlstate::DUPLICATE_COLUMN, message), here));
        }
        columns.push(IndexColumn { column, desc: false, nulls_first: false });
    }
    let include = key.include.iter().map(|name| find(name).ok_or_else(|| missing(name)));
    let include: Vec<usize> = include.collect::<SqlResult<_>>()?;
    check_key_count(columns.len() + include.len())?;
    let nulls_not_distinct = key.constraint.nulls_not_distinct;
    Ok((columns, IndexOptions { include, nulls_not_distinct, ..IndexOptions::default() }))
}

/// `table_columns_label`, the first two cut (the longer one first) so that a name's length is kept.
pub(super) fn object_name(table: &str, columns: &str, label: &str) -> String {
    let overhead = label.len() + 1 + usize::from(!columns.is_empty());
    let room = MAX_NAME.saturating_sub(overhead);
    let (mut a, mut b) = (table.len(), columns.len());
    while a + b > room {
        if a > b { a -= 1 } else { b -= 1 }
    }
    let cut = |s: &str, mut n: usize| {
        while !s.is_char_boundary(n) {
            n -= 1;
        }
        s[..n].to_string()
    };
    let (table, columns) = (cut(table, a), cut(columns, b));
    if columns.is_empty() { format!("{table}_{label}") } else { format!("{table}_{columns}_{label}") }
}

fn constraint_name(c: ConstrType) -> &'static str {
    match c {
        ConstrType::ConstrForeign => "a FOREIGN KEY constraint",
        ConstrType::ConstrExclusion => "an EXCLUDE constraint",
        ConstrType::ConstrAttrDeferrable | ConstrType::ConstrAttrDeferred => "a DEFERRABLE constraint",
        ConstrType::ConstrAttrNotEnforced => "NOT ENFORCED",
        ConstrType::ConstrNotnull => "NOT NULL as a table constraint",
        _ => "this constraint",
    }
}

/// "AtDropColumn" as "DROP COLUMN".
pub fn upper_words(camel: &str, prefix: &str) -> String {
    let mut out = String::new();
    for c in camel.strip_prefix(prefix).unwrap_or(camel).chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push(' ');
        }
        out.push(c.to_ascii_uppercase());
    }
    out
}
