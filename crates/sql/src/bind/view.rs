//! Views: CREATE, ALTER and DROP VIEW, and what a view is in a query.
//!
//! A view's query is stored in numbers (view/V1). To be used it is put into today's names, parsed and bound
//! by itself, and stands then where the view is named, as a subquery in FROM does.
use super::Binder;
use super::ddl::{check_column_name, upper_words};
use super::declared::{self, Declared};
use super::tree::{kind, need, option_text, options, refuse, strings, unexpected};
use super::written::Verbatim;
use crate::bound::{ExprKind, Query, Statement, Viewed, walk_query, walk_query_mut};
use crate::deparse::{self, Style};
use crate::parse::parse;
use crate::parse::tree::{self, AlterTableType, ObjectType, SelectStmt, node::Node as Kind};
use ondol_engine::name::TEMPORARY;
use ondol_engine::temporary::is_temporary;
use ondol_engine::view::{Slot, in_names, option_is_on, slots};
use ondol_engine::{Catalog, ColumnDef, Name, ViewCheck, ViewDef};
use ondol_types::{SqlError, SqlResult, Type, TypeId, sqlstate};
use std::sync::Arc;

/// Parses a view's query, put into names.
fn with_query<T>(
    catalog: &Catalog,
    view: &ViewDef,
    f: impl FnOnce(&str, &SelectStmt) -> SqlResult<T>,
) -> SqlResult<T> {
    let text = in_names(&view.query, catalog)?;
    let placeless = |mut e: SqlError| {
        // Its place is in the view's text, not in the statement's.
        e.0.position = None;
        e
    };
    let raws = parse(&text).map_err(placeless)?;
    let bad = || SqlError::new(sqlstate::INTERNAL_ERROR, format!("view {} is no query: {text}", view.name));
    let [raw] = raws.as_slice() else { return Err(bad()) };
    let Kind::SelectStmt(select) = &raw.node else { return Err(bad()) };
    f(&text, select).map_err(placeless)
}

/// A view's query as it is written, in today's names.
pub fn view_as_written(catalog: &Catalog, view: &ViewDef) -> SqlResult<Verbatim> {
    with_query(catalog, view, |text, select| {
        let mut binder = Binder::new(catalog, text, &[]).verbatim();
        binder.is_view = true;
        binder.open_params = false;
        let query = binder.settled_select(select)?;
        Ok(Verbatim { query, notes: binder.into_notes() })
    })
}

/// A view's query, bound.
pub fn bind_view(catalog: &Catalog, view: &Arc<ViewDef>) -> SqlResult<Query> {
    Binder::new(catalog, "", &[]).view_query(view)
}

/// Whether a query rests on the view, or on one that does.
fn rests_on(catalog: &Catalog, query: &str, id: u32) -> bool {
    slots(query).iter().any(|s| match s {
        Slot::Relation(n) => {
            *n == id || catalog.query_by_id(*n).is_some_and(|v| rests_on(catalog, &v.query, id))
        }
        _ => false,
    })
}

fn wrong(state: &'static str, message: impl Into<String>) -> SqlError {
    SqlError::new(state, message)
}

fn no_check_option(why: &str) -> SqlError {
    let message = "WITH CHECK OPTION is supported only on automatically updatable views";
    wrong(sqlstate::FEATURE_NOT_SUPPORTED, message).hint(why)
}

/// What WITH says of a view.
fn view_options(nodes: &[tree::Node]) -> SqlResult<Vec<(String, String)>> {
    let mut said: Vec<(String, String)> = Vec::new();
    for o in options(nodes)? {
        let name = o.defname.as_str();
        let value = option_text(o)?.unwrap_or_else(|| "true".into());
        let is_known = matches!(name, "check_option" | "security_barrier" | "security_invoker");
        if !is_known || !o.defnamespace.is_empty() {
            let message = format!("unrecognized parameter \"{name}\"");
            return Err(wrong(sqlstate::INVALID_PARAMETER_VALUE, message));
        }
        if said.iter().any(|s| s.0 == name) {
            let message = format!("parameter \"{name}\" specified more than once");
            return Err(wrong(sqlstate::INVALID_PARAMETER_VALUE, message));
        }
        if name != "check_option" && option_is_on(&value).is_none() {
            let message = format!("invalid value for boolean option \"{name}\": {value}");
            return Err(wrong(sqlstate::INVALID_PARAMETER_VALUE, message));
        }
        said.push((name.to_string(), value))
    }
    check_of(&said)?;
    Ok(said)
}

fn check_of(options: &[(String, String)]) -> SqlResult<Option<ViewCheck>> {
    let said = options.iter().find(|(name, _)| name == "check_option");
    match said.map(|(_, value)| value.to_ascii_lowercase()).as_deref() {
        None => Ok(None),
        Some("local") => Ok(Some(ViewCheck::Local)),
        Some("cascaded") => Ok(Some(ViewCheck::Cascaded)),
        Some(_) => {
            let value = said.map_or("", |(_, value)| value);
            let message = format!("invalid value for enum option \"check_option\": {value}");
            let error = wrong(sqlstate::INVALID_PARAMETER_VALUE, message);
            Err(error.detail("Valid values are \"local\" and \"cascaded\"."))
        }
    }
}

impl<'a> Binder<'a> {
    /// The error of a view that is not there, or is something else.
    pub(super) fn no_view(&self, v: &tree::RangeVar) -> SqlError {
        match self.relation_of(v) {
            Some((name, _)) => wrong(sqlstate::WRONG_OBJECT_TYPE, format!("\"{}\" is not a view", name.name)),
            None => {
                let name = super::names::written(v);
                wrong(sqlstate::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
            }
        }
    }

    fn view_of(&self, v: &tree::RangeVar) -> Option<&'a Arc<ViewDef>> {
        self.relation_of(v).and_then(|f| f.1.view())
    }

    /// What a view is in a query.
    pub(super) fn view_query(&mut self, view: &Arc<ViewDef>) -> SqlResult<Query> {
        self.count_query()?;
        let mut query = with_query(self.catalog, view, |text, select| {
            let mut inner = Binder::new(self.catalog, text, &[]).limited(self.limits);
            inner.is_view = true;
            inner.open_params = false;
            inner.withs = self.withs;
            inner.queries = self.queries;
            inner.around = self.around + self.levels.len() + 1;
            inner.opened = std::mem::take(&mut self.opened);
            let query = inner.settled_select(select)?;
            (self.withs, self.queries, self.opened) = (inner.withs, inner.queries, inner.opened);
            Ok(query)
        })?;
        query.barrier = view.is_barrier();
        query.of_view = Some(Viewed::View(view.id));
        // Places are in the view's text.
        walk_query_mut(&mut query, 0, &mut |e, _| {
            e.at = u32::MAX;
            true
        });
        let fits = query.columns().iter().map(|c| c.1).eq(view.columns.iter().map(|c| c.ty));
        if !fits {
            let message = format!("view \"{}\" gives other columns than it did", view.name);
            return Err(wrong(sqlstate::INTERNAL_ERROR, message));
        }
        Ok(query)
    }

    /// The error of a statement that names a view where it needs a table.
    pub(super) fn refuse_view(
        &self,
        v: &tree::RangeVar,
        error: impl FnOnce(&str) -> SqlError,
    ) -> SqlResult<()> {
        match self.view_of(v) {
            Some(view) => Err(error(&view.name)),
            None => Ok(()),
        }
    }

    /// A query of the statement as it is written.
    pub(super) fn as_written(&self, select: &'a SelectStmt) -> SqlResult<Verbatim> {
        let mut binder =
            Binder::new(self.catalog, self.text, &[]).with_path(self.path, self.listed).verbatim();
        (binder.open_params, binder.into_of) = (false, self.into_of);
        let query = binder.settled_select(select)?;
        Ok(Verbatim { query, notes: binder.into_notes() })
    }

    /// What a view's query is in numbers, its columns under these names.
    pub(super) fn in_numbers(&self, select: &'a SelectStmt, names: &[String]) -> SqlResult<String> {
        let verbatim = self.as_written(select)?;
        Ok(deparse::query(&verbatim, Some(names), self.catalog, Style::Stored))
    }

    pub(super) fn create_view(&mut self, s: &'a tree::ViewStmt) -> SqlResult<Statement> {
        let relation = s.view.as_ref().ok_or_else(|| unexpected("CREATE VIEW"))?;
        if relation.relpersistence == "u" {
            let message = "views cannot be unlogged because they do not have storage";
            return Err(wrong(sqlstate::SYNTAX_ERROR, message));
        }
        let mut name = self.new_place(&s.view).map_err(|mut e| {
            // PostgreSQL tells no place.
            e.0.position = None;
            e
        })?;
        let Kind::SelectStmt(select) = kind(need(&s.query)?)? else { return Err(unexpected("a view")) };
        if select.into_clause.is_some() {
            return Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, "views must not contain SELECT INTO"));
        }
        let mut said = view_options(&s.options)?;
        match s.with_check_option() {
            tree::ViewCheckOption::LocalCheckOption => said.push(("check_option".into(), "local".into())),
            tree::ViewCheckOption::CascadedCheckOption => {
                said.push(("check_option".into(), "cascaded".into()))
            }
            _ => {}
        }
        let check = check_of(&said)?;
        let before = self.open_params;
        self.open_params = false;
        let bound = self.settled_select(select);
        self.open_params = before;
        let query = bound?;
        refuse(self.opened.by_functions, "a function that reads files, in a view")?;
        let mut has_params = false;
        walk_query(&query, 0, &mut |e, _| {
            has_params |= matches!(e.kind, ExprKind::Param(_));
            true
        });
        refuse(has_params, "a parameter in a view")?;
        let given = strings(&s.aliases)?;
        let found = query.columns();
        if given.len() > found.len() {
            let message = "CREATE VIEW specifies more column names than columns";
            return Err(wrong(sqlstate::SYNTAX_ERROR, message));
        }
        let verbatim = self.as_written(select)?;
        let declared = declared::columns(self.catalog, &verbatim);
        let mut columns: Vec<ColumnDef> = Vec::with_capacity(found.len());
        for ((n, (own, ty)), of) in found.into_iter().enumerate().zip(declared) {
            let name = given.get(n).map_or(own, |g| g.to_string());
            if ty.id == TypeId::VOID || ty.id.element().unwrap_or(ty.id) == TypeId::RECORD {
                let message = format!("column \"{name}\" has pseudo-type {}", super::name_of(ty.id));
                return Err(wrong(sqlstate::INVALID_TABLE_DEFINITION, message));
            }
            if columns.iter().any(|c| c.name == name) {
                let message = format!("column \"{name}\" specified more than once");
                return Err(wrong(sqlstate::DUPLICATE_COLUMN, message));
            }
            let Declared { domain, collation } = of;
            columns.push(ColumnDef { packed: false, domain, collation, ..ColumnDef::new(name, ty) });
        }
        if check.is_some()
            && let Some(why) = super::updatable::why_not(&query, true)
        {
            return Err(no_check_option(why));
        }
        let names: Vec<String> = columns.iter().map(|c| c.name.clone()).collect();
        let text = deparse::query(&verbatim, Some(&names), self.catalog, Style::Stored);
        let is_own = |s: &Slot| matches!(s, Slot::Relation(n) if is_temporary(*n));
        if name.schema != TEMPORARY && slots(&text).iter().any(is_own) {
            if !relation.schemaname.is_empty() {
                return Err(super::names::elsewhere());
            }
            self.notices.push(("00000", format!("view \"{}\" will be a temporary view", name.name)));
            name = Name::new(TEMPORARY, &*name.name);
        }
        let mut def = ViewDef {
            id: 0,
            schema: name.schema,
            name: name.name.clone(),
            columns,
            query: text,
            check,
            options: said,
        };
        match self.catalog.view(&name) {
            Some(old) if s.replace => {
                self.may_replace(old, &mut def)?;
            }
            None if s.replace && self.catalog.relations.contains_key(&name) => {
                let message = format!("\"{}\" is not a view", name.name);
                return Err(wrong(sqlstate::WRONG_OBJECT_TYPE, message));
            }
            _ => {
                self.no_such_relation(&name)?;
                self.no_such_type(&name)?;
            }
        }
        self.means_the_same(&def)?;
        Ok(Statement::CreateView { def, replace: s.replace })
    }

    /// Whether a view may become another: its columns stay, more may come behind them.
    fn may_replace(&self, old: &Arc<ViewDef>, new: &mut ViewDef) -> SqlResult<()> {
        let broken = |message: String| Err(wrong(sqlstate::INVALID_TABLE_DEFINITION, message));
        if new.columns.len() < old.columns.len() {
            return broken("cannot drop columns from view".into());
        }
        // A view of an earlier version does not tell.
        let before = declared::columns(self.catalog, &view_as_written(self.catalog, old)?);
        for ((was, now), of) in old.columns.iter().zip(&mut new.columns).zip(&before) {
            if was.name != now.name {
                let message =
                    format!("cannot change name of view column \"{}\" to \"{}\"", was.name, now.name);
                return Err(wrong(sqlstate::INVALID_TABLE_DEFINITION, message)
                    .hint("Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead."));
            }
            if was.ty != now.ty || of.domain != now.domain {
                let [from, to] = [of.domain.map_or(was.ty, Type::new), now.domain.map_or(now.ty, Type::new)]
                    .map(|t| self.catalog.shown_type(self.path, t));
                let message =
                    format!("cannot change data type of view column \"{}\" from {from} to {to}", was.name);
                return broken(message);
            }
            if of.collation != now.collation {
                let [from, to] = [&of.collation, &now.collation].map(|c| c.as_deref().unwrap_or("default"));
                let name = &was.name;
                return broken(format!(
                    "cannot change collation of view column \"{name}\" from \"{from}\" to \"{to}\""
                ));
            }
            now.default = was.default.clone();
        }
        if rests_on(self.catalog, &new.query, old.id) {
            let message = format!("infinite recursion detected in rules for relation \"{}\"", old.name);
            return Err(wrong("42P17", message));
        }
        new.id = old.id;
        Ok(())
    }

    /// What is stored must give the columns that were asked for.
    pub(super) fn means_the_same(&mut self, def: &ViewDef) -> SqlResult<()> {
        self.view_query(&Arc::new(def.clone())).map(drop).map_err(|e| {
            let error = SqlError::unsupported("this query in a view");
            error.detail(format!("It would be stored as {}, which fails: {}.", def.query, e.0.message))
        })
    }

    /// ALTER VIEW ... ALTER COLUMN ... DEFAULT.
    pub(super) fn alter_view(&mut self, s: &'a tree::AlterTableStmt) -> SqlResult<Statement> {
        let of_view = s.objtype() == ObjectType::ObjectView;
        let tag = if of_view { "ALTER VIEW" } else { "ALTER TABLE" };
        let relation = s.relation.as_ref().ok_or_else(|| unexpected("ALTER VIEW"))?;
        if let Some(skipped) = self.skipped(relation, s.missing_ok, tag) {
            return Ok(skipped);
        }
        let relation = self.relation_name(&s.relation)?;
        let name = &relation.relname;
        let Some(view) = self.view_of(relation) else { return Err(self.no_view(relation)) };
        let mut def = (**view).clone();
        for node in &s.cmds {
            let Kind::AlterTableCmd(c) = kind(node)? else { return Err(unexpected("ALTER VIEW")) };
            if let AlterTableType::AtSetRelOptions | AlterTableType::AtResetRelOptions = c.subtype() {
                let items = super::tree::list(need(&c.def)?)?;
                let is_set = c.subtype() == AlterTableType::AtSetRelOptions;
                let names: Vec<String> = options(items)?.iter().map(|o| o.defname.clone()).collect();
                def.options.retain(|(name, _)| !names.contains(name));
                if is_set {
                    def.options.extend(view_options(items)?)
                }
                def.check = check_of(&def.options)?;
                if def.check.is_some()
                    && let Some(why) = super::updatable::why_not(&self.view_query(view)?, true)
                {
                    return Err(no_check_option(why));
                }
                continue;
            }
            if let AlterTableType::AtSetLogged | AlterTableType::AtSetUnLogged = c.subtype() {
                let is_logged = c.subtype() == AlterTableType::AtSetLogged;
                let action = if is_logged { "SET LOGGED" } else { "SET UNLOGGED" };
                let message = format!("ALTER action {action} cannot be performed on relation \"{name}\"");
                let error = wrong(sqlstate::WRONG_OBJECT_TYPE, message);
                return Err(error.detail("This operation is not supported for views."));
            }
            if c.subtype() != AlterTableType::AtColumnDefault {
                let what = upper_words(&format!("{:?}", c.subtype()), "At");
                return Err(SqlError::unsupported(format_args!("ALTER VIEW ... {what}")));
            }
            let Some(n) = def.column(&c.name) else {
                let message = format!("column \"{}\" of relation \"{name}\" does not exist", c.name);
                return Err(wrong(sqlstate::UNDEFINED_COLUMN, message));
            };
            def.columns[n].default = match &c.def {
                None => None,
                Some(value) => {
                    self.default_value(value, &def.columns[n])?;
                    let column = def.columns[n].clone();
                    Some(self.kept_text(value, &move |b, node| b.default_value(node, &column).map(drop))?)
                }
            }
        }
        Ok(Statement::AlterView { name: view.full_name(), def, tag })
    }

    /// ALTER VIEW ... RENAME and its kin, also where they are written as ALTER TABLE; `None`: it is of no
    /// view.
    pub(super) fn rename_in_view(&mut self, s: &'a tree::RenameStmt) -> SqlResult<Option<Statement>> {
        let what = s.rename_type();
        let is_column = what == ObjectType::ObjectColumn;
        let of = if is_column { s.relation_type() } else { what };
        let is_view = match of {
            ObjectType::ObjectView => true,
            ObjectType::ObjectTable => false,
            _ => return Ok(None),
        };
        let Some(relation) = &s.relation else { return Ok(None) };
        let view = self.view_of(relation).cloned();
        if view.is_none() && !is_view {
            return Ok(None);
        }
        let tag = if is_view { "ALTER VIEW" } else { "ALTER TABLE" };
        if let Some(skipped) = self.skipped(relation, s.missing_ok, tag) {
            return Ok(Some(skipped));
        }
        let relation = self.relation_name(&s.relation)?;
        let name = &relation.relname;
        let Some(view) = view else { return Err(self.no_view(relation)) };
        let mut def = (*view).clone();
        if is_column {
            let Some(n) = def.column(&s.subname) else {
                let message = format!("column \"{}\" does not exist", s.subname);
                return Err(wrong(sqlstate::UNDEFINED_COLUMN, message));
            };
            if def.column(&s.newname).is_some() {
                let message = format!("column \"{}\" of relation \"{name}\" already exists", s.newname);
                return Err(wrong(sqlstate::DUPLICATE_COLUMN, message));
            }
            check_column_name(&s.newname)?;
            def.columns[n].name = s.newname.clone();
        } else {
            def.name = s.newname.clone();
            self.no_such_relation(&def.full_name())?;
            self.no_such_type(&def.full_name())?;
        }
        Ok(Some(Statement::AlterView { name: view.full_name(), def, tag }))
    }
}
