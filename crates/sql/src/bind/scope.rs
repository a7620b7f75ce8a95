//! What names mean in a query, and at which level of the queries around it.
//!
//! 1. The last level is the query being bound; a reference to the level `i` from the end has depth `i`.
//! 2. A level's items are what its FROM clause shows so far. While an item of FROM is being bound, the others
//!    are kept as `hidden`: only a function's arguments and LATERAL queries see them, those before it.

use super::Binder;
use super::tree::at;
use super::written::{Note, Written};
use crate::bound::{Aggregate, CTID, Expr, ExprKind, Rel, RelEntry, Window, WindowCall, With};
use crate::catalog;
use ondol_engine::Name;
use ondol_types::catalog::{oid, registered};
use ondol_types::func::id;
use ondol_types::{SqlError, SqlResult, Type, TypeId, known, sqlstate};

/// The part of a query that is being bound, which decides whether aggregates may stand there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clause {
    Targets,
    From,
    FromFunction,
    Lateral,
    On,
    Where,
    GroupBy,
    Having,
    OrderBy,
    DistinctOn,
    Limit,
    Offset,
    Values,
    UpdateSet,
    Returning,
    Default,
    Check,
    Generated,
    IndexExpression,
    IndexPredicate,
    Transform,
    Filter,
    Execute,
    /// PARTITION BY and ORDER BY of a window.
    Window,
    FrameRows,
    FrameRange,
    FrameGroups,
}

impl Clause {
    /// How PostgreSQL's messages call the clause where aggregates may not stand.
    pub fn refuses_aggregates(self) -> Option<&'static str> {
        Some(match self {
            Clause::Targets | Clause::Having | Clause::OrderBy | Clause::DistinctOn | Clause::Window => {
                return None;
            }
            Clause::From | Clause::Lateral => "FROM clause of their own query level",
            Clause::FromFunction => "functions in FROM",
            Clause::On => "JOIN conditions",
            Clause::Where => "WHERE",
            Clause::GroupBy => "GROUP BY",
            Clause::Limit => "LIMIT",
            Clause::Offset => "OFFSET",
            Clause::Values => "VALUES",
            Clause::UpdateSet => "UPDATE",
            Clause::Returning => "RETURNING",
            Clause::Default => "DEFAULT expressions",
            Clause::Check => "check constraints",
            Clause::Generated => "column generation expressions",
            Clause::IndexExpression => "index expressions",
            Clause::IndexPredicate => "index predicates",
            Clause::Transform => "transform expressions",
            Clause::Filter => "FILTER",
            Clause::Execute => "EXECUTE parameters",
            Clause::FrameRows => "window ROWS",
            Clause::FrameRange => "window RANGE",
            Clause::FrameGroups => "window GROUPS",
        })
    }
}

/// The columns that an item shows.
#[derive(Clone, Debug)]
pub enum ItemColumns {
    /// Those of a relation.
    Rel(u16),
    /// Those of a join.
    List(Vec<(String, Expr)>),
}

/// Something in FROM that names can mean.
#[derive(Clone, Debug)]
pub struct Item {
    /// Empty for a join without an alias.
    pub name: String,
    /// A table under its own name, so that `public.t.c` can mean it.
    pub own: Option<Name>,
    pub columns: ItemColumns,
    /// `name.column` can be written.
    pub by_name: bool,
    /// `column` can be written, and `*` means it.
    pub by_column: bool,
}

/// [`Level::own_hidden`] where they see nothing at all.
pub const NOTHING_SEEN: usize = usize::MAX;

/// One query being bound.
#[derive(Debug)]
pub struct Level {
    pub rels: Vec<RelEntry>,
    pub items: Vec<Item>,
    pub hidden: Vec<Item>,
    /// How many of the hidden ones not even functions and LATERAL queries see: the table that a statement
    /// changes.
    pub own_hidden: usize,
    pub clause: Clause,
    pub aggregates: Vec<Aggregate>,
    pub windows: Vec<Window>,
    pub window_calls: Vec<WindowCall>,
    /// The relations that an outer join may fill with NULLs.
    pub nullable: Vec<u16>,
    /// Functions that give rows, those whose arguments use none first.
    pub sets: Vec<Sets>,
    /// A side of a join in FROM may be missing.
    pub has_outer_join: bool,
    /// The relation of a row that is not a table's yet: the one that an insert proposed.
    pub proposed: Option<u16>,
    /// The relations of which `*` means some columns only, and how many it leaves out, the last ones.
    pub unstarred: Vec<(u16, usize)>,
    /// How it was written, if that is wanted.
    pub written: Option<Box<Written>>,
}

/// Functions that give rows beside each other.
#[derive(Debug)]
pub struct Sets {
    /// Their relation, of kind [`Rel::Places`].
    pub rel: u16,
    /// What each is made of: a kind, and its first value.
    pub list: Vec<(super::set::Kind, usize)>,
    pub values: Vec<Expr>,
    /// The function of each value that begins one.
    pub names: Vec<String>,
}

impl Level {
    pub fn new(clause: Clause) -> Level {
        Level {
            rels: Vec::new(),
            items: Vec::new(),
            hidden: Vec::new(),
            own_hidden: 0,
            clause,
            aggregates: Vec::new(),
            windows: Vec::new(),
            window_calls: Vec::new(),
            nullable: Vec::new(),
            sets: Vec::new(),
            has_outer_join: false,
            proposed: None,
            unstarred: Vec::new(),
            written: None,
        }
    }

    /// Column `i` of an item, as seen from this level.
    pub fn item_column(&self, item: &Item, i: usize) -> Option<(String, Expr)> {
        match &item.columns {
            ItemColumns::Rel(rel) => {
                let entry = self.rels.get(*rel as usize)?;
                let (name, ty) = entry.columns.get(i)?;
                Some((name.clone(), shown_column(&entry.rel, *rel, i, *ty)))
            }
            ItemColumns::List(list) => list.get(i).cloned(),
        }
    }

    /// All columns of an item.
    pub fn item_columns(&self, item: &Item) -> Vec<(String, Expr)> {
        (0..).map_while(|i| self.item_column(item, i)).collect()
    }

    /// The columns of an item that `*` means.
    fn starred(&self, item: &Item) -> Vec<(String, Expr)> {
        let mut columns = self.item_columns(item);
        if let ItemColumns::Rel(rel) = item.columns
            && let Some((_, last)) = self.unstarred.iter().find(|u| u.0 == rel)
        {
            columns.truncate(columns.len().saturating_sub(*last));
        }
        columns
    }

    /// Whether an item is a table, under its own name or another.
    fn is_table(&self, item: &Item) -> bool {
        match item.columns {
            ItemColumns::Rel(rel) => {
                let entry = self.rels.get(usize::from(rel));
                self.proposed != Some(rel) && entry.is_some_and(|r| matches!(r.rel, Rel::Table(_)))
            }
            ItemColumns::List(_) => false,
        }
    }

    /// The items that expressions of the clause at hand see.
    fn seen(&self) -> &[Item] {
        match self.clause {
            Clause::FromFunction | Clause::Lateral => self.hidden.get(self.own_hidden..).unwrap_or(&[]),
            _ => &self.items,
        }
    }

    /// Whether a function or a LATERAL query is bound that a RIGHT or FULL JOIN keeps from seeing what is
    /// before it.
    fn is_beside_outer_join(&self) -> bool {
        matches!(self.clause, Clause::FromFunction | Clause::Lateral) && self.own_hidden == NOTHING_SEEN
    }

    /// The places of a name among the columns of an item: none, one, or the first two.
    fn find(&self, item: &Item, name: &str) -> (Option<usize>, bool) {
        let mut hits: (Option<usize>, bool) = (None, false);
        let mut note = |i: usize| match hits.0 {
            None => hits.0 = Some(i),
            Some(_) => hits.1 = true,
        };
        match &item.columns {
            ItemColumns::Rel(rel) => {
                let columns = self.rels.get(*rel as usize).map_or(&[][..], |r| &r.columns);
                columns.iter().enumerate().filter(|(_, c)| c.0 == name).for_each(|(i, _)| note(i));
            }
            ItemColumns::List(list) => {
                list.iter().enumerate().filter(|(_, c)| c.0 == name).for_each(|(i, _)| note(i));
            }
        }
        hits
    }
}

/// A column of a relation of the query itself.
pub fn column(rel: u16, column: usize, ty: Type) -> Expr {
    Expr { kind: ExprKind::Column { depth: 0, rel, column: column as u16 }, ty, at: u32::MAX }
}

/// The same as expressions see it: one of a table that has the numbers of objects gives them with the names
/// that the objects have now.
pub fn shown_column(of: &Rel, rel: u16, n: usize, ty: Type) -> Expr {
    let e = column(rel, n, ty);
    match of {
        Rel::Table(_) if registered::kind(ty.id).is_some() => {
            Expr { kind: ExprKind::Call { func: id::NAMED, args: vec![e] }, ty, at: u32::MAX }
        }
        _ => e,
    }
}

/// What [`shown_column`] makes the names of, where only the numbers matter.
pub fn unnamed(e: Expr) -> Expr {
    match e.kind {
        ExprKind::Call { func: id::NAMED, mut args } if args.len() == 1 => args.remove(0),
        kind => Expr { kind, ..e },
    }
}

/// A WITH query that can be seen, with its columns by the names that it gives them.
pub struct Cte {
    pub with: With,
    pub columns: Vec<(String, Type)>,
    /// How many of them, the last ones, are SEARCH's and CYCLE's: `*` means these only in the FROM of the
    /// query that stands behind, where there are so many levels.
    pub unstarred: usize,
    pub behind: usize,
}

fn ambiguous(name: &str, location: i32) -> SqlError {
    let message = format!("column reference \"{name}\" is ambiguous");
    at(SqlError::new(sqlstate::AMBIGUOUS_COLUMN, message), location)
}

fn undefined(message: String, location: i32) -> SqlError {
    at(SqlError::new(sqlstate::UNDEFINED_COLUMN, message), location)
}

/// The error of a function that would see a side of a join that may be missing.
fn no_lateral(table: &str, location: i32) -> SqlError {
    let message = format!("invalid reference to FROM-clause entry for table \"{table}\"");
    let error = SqlError::new(sqlstate::INVALID_COLUMN_REFERENCE, message);
    at(error.detail("The combining JOIN type must be INNER or LEFT for a LATERAL reference."), location)
}

/// The error of a column that each of PostgreSQL's tables has.
fn system_column(name: &str, location: i32) -> SqlError {
    let error = at(SqlError::unsupported(format_args!("system column \"{name}\"")), location);
    match name {
        "ctid" | "tableoid" => error,
        _ => error.detail("Rows do not tell by which transactions and commands they were made and changed."),
    }
}

/// The error of a system column in a clause that has none.
fn misplaced(clause: Clause, name: &str) -> Option<SqlError> {
    Some(match clause {
        Clause::Check if name != "tableoid" => {
            let message = format!("system column \"{name}\" reference in check constraint is invalid");
            SqlError::new(sqlstate::INVALID_COLUMN_REFERENCE, message)
        }
        Clause::Generated if name != "tableoid" => {
            let message = format!("cannot use system column \"{name}\" in column generation expression");
            SqlError::new(sqlstate::INVALID_COLUMN_REFERENCE, message)
        }
        Clause::IndexExpression | Clause::IndexPredicate => {
            let message = "index creation on system columns is not supported";
            SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message)
        }
        Clause::Check | Clause::Generated => system_column(name, -1),
        Clause::Transform if name == "ctid" => system_column(name, -1),
        _ => return None,
    })
}

impl<'a> Binder<'a> {
    /// A system column, where it may be used. A view shows a table's number as it is written.
    fn system_value(
        &self,
        (item, depth): (&Item, u16),
        name: &str,
        e: Expr,
        location: i32,
    ) -> SqlResult<Expr> {
        let rel = if let ItemColumns::Rel(rel) = item.columns { rel } else { 0 };
        match self.levels.last().and_then(|l| misplaced(l.clause, name)) {
            Some(error) => Err(at(error, location)),
            None if name == "ctid" => Ok(e),
            None => Ok(self.noted(e, || Note::System { depth, rel, name: name.to_string() })),
        }
    }

    pub(super) fn level(&mut self) -> &mut Level {
        // There is always one while an expression is bound: statements push theirs first.
        if self.levels.is_empty() {
            self.levels.push(Level::new(Clause::Targets));
        }
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }

    /// Binds something as part of a clause.
    pub(super) fn within<T>(
        &mut self,
        clause: Clause,
        f: impl FnOnce(&mut Self) -> SqlResult<T>,
    ) -> SqlResult<T> {
        let before = std::mem::replace(&mut self.level().clause, clause);
        let result = f(self);
        self.level().clause = before;
        result
    }

    /// Binds something in a query of its own; gives that level as it was left.
    pub(super) fn nested<T>(
        &mut self,
        clause: Clause,
        f: impl FnOnce(&mut Self) -> SqlResult<T>,
    ) -> SqlResult<(T, Level)> {
        self.count_query()?;
        self.levels.push(Level::new(clause));
        let result = f(self);
        let level = self.levels.pop().unwrap_or_else(|| Level::new(clause));
        Ok((result?, level))
    }

    /// What a column reference means: `c`, `t.c` or `schema.t.c`.
    pub(super) fn resolve_column(&self, names: &[&str], location: i32) -> SqlResult<Expr> {
        let found = match *names {
            [name] => self.by_column_name(name, location)?,
            [table, name] => self.by_table_name(None, table, name, location)?,
            [schema, table, name] => self.by_table_name(Some(schema), table, name, location)?,
            _ => {
                let message = format!("improper qualified name (too many dotted names): {}", names.join("."));
                return Err(at(SqlError::new(sqlstate::SYNTAX_ERROR, message), location));
            }
        };
        Ok(self.placed(found, super::tree::place(location)))
    }

    fn visible_levels(&self) -> impl Iterator<Item = (u16, &Level)> {
        self.levels.iter().rev().enumerate().map(|(d, l)| (d as u16, l))
    }

    fn by_column_name(&self, name: &str, location: i32) -> SqlResult<Expr> {
        for (depth, level) in self.visible_levels() {
            let mut found = None;
            for item in level.seen().iter().filter(|i| i.by_column) {
                let (place, twice) = level.find(item, name);
                if twice || (place.is_some() && found.is_some()) {
                    return Err(ambiguous(name, location));
                }
                found = found.or(place.and_then(|p| level.item_column(item, p)));
            }
            if let Some((_, expr)) = found {
                return Ok(outer(expr, depth));
            }
        }
        if let Some(arg) = self.function_argument(None, name) {
            return Ok(arg);
        }
        for (depth, level) in self.visible_levels() {
            let shown = level.seen().iter().filter(|i| i.by_column);
            let mut found = shown.filter_map(|i| Some((i, level.system_column(i, name)?)));
            if let Some((item, e)) = found.next() {
                if found.next().is_some() {
                    return Err(ambiguous(name, location));
                }
                return self.system_value((item, depth), name, outer(e, depth), location);
            }
        }
        // The row of such a clause is no table's yet.
        if known::is_system_column(name)
            && let Some(level) = self.levels.last().filter(|l| !l.items.is_empty())
            && let Some(error) = misplaced(level.clause, name)
        {
            return Err(at(error, location));
        }
        let is_table = |(_, l): (u16, &Level)| l.items.iter().any(|i| i.by_column && l.is_table(i));
        if known::is_system_column(name) && self.visible_levels().any(is_table) {
            return Err(system_column(name, location));
        }
        for (depth, level) in self.visible_levels() {
            let Some(item) = level.seen().iter().find(|i| i.by_name && i.name == name) else { continue };
            return self.row_of_item(level, item).map(|e| outer(e, depth));
        }
        let error = undefined(format!("column \"{name}\" does not exist"), location);
        // What LATERAL would see.
        for (_, level) in self.visible_levels() {
            for item in level.hidden.iter().filter(|i| i.by_column) {
                if level.find(item, name).0.is_some() {
                    if level.is_beside_outer_join() {
                        return Err(no_lateral(&item.name, location));
                    }
                    return Err(error.hint(format!(
                        "There is a column named \"{name}\" in table \"{}\", but it cannot be referenced from this part of the query.",
                        item.name
                    )));
                }
            }
        }
        Err(error)
    }

    /// The row of an item; that of a function that gives values is the value.
    fn row_of_item(&self, level: &Level, item: &Item) -> SqlResult<Expr> {
        if let ItemColumns::Rel(rel) = item.columns
            && level.rels.get(usize::from(rel)).is_some_and(|r| gives_values(&r.rel))
            && let Some((_, expr)) = level.item_column(item, 0)
        {
            return Ok(expr);
        }
        let row = self.whole_row(level, item)?;
        Ok(self.noted(row, || {
            let is_join = matches!(item.columns, ItemColumns::List(_));
            super::written::Note::WholeRow(is_join.then(|| item.name.clone()))
        }))
    }

    /// The row that `t.*` is where a value is wanted.
    pub(super) fn row_named(&self, names: &[&str], location: i32) -> SqlResult<Expr> {
        let (schema, table) = match *names {
            [table] => (None, table),
            [schema, table] => (Some(schema), table),
            _ => {
                let message = "row expansion via \"*\" is not supported here";
                return Err(at(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message), location));
            }
        };
        for (depth, level) in self.visible_levels() {
            if let Some(item) = level.seen().iter().find(|i| self.is_meant(i, schema, table)) {
                let row = outer(self.row_of_item(level, item)?, depth);
                return Ok(self.placed(row, super::tree::place(location)));
            }
        }
        Err(self.missing_table(table, location))
    }

    /// `(t).name` where `t` is no column: a column of the relation, if there is one of that name.
    pub(super) fn column_of_row(&self, table: &str, name: &str, location: i32) -> SqlResult<Option<Expr>> {
        if self.by_column_name(table, location).is_ok_and(|e| super::row::parts(&e).is_none()) {
            return Ok(None);
        }
        for (depth, level) in self.visible_levels() {
            let Some(item) = level.seen().iter().find(|i| self.is_meant(i, None, table)) else { continue };
            let (Some(place), false) = level.find(item, name) else { return Ok(None) };
            let found = level.item_column(item, place).map(|(_, e)| outer(e, depth));
            return Ok(found.map(|e| self.placed(e, super::tree::place(location))));
        }
        Ok(None)
    }

    /// Whether an item is what a table's name, perhaps with its schema, means.
    fn is_meant(&self, item: &Item, schema: Option<&str>, table: &str) -> bool {
        let number = || self.catalog.schema(schema?).map(|s| s.number);
        let is_there = |own: &Name| own.name == table && Some(own.schema) == number();
        item.by_name && item.name == table && (schema.is_none() || item.own.as_ref().is_some_and(is_there))
    }

    fn by_table_name(&self, schema: Option<&str>, table: &str, name: &str, location: i32) -> SqlResult<Expr> {
        let means = |i: &&Item| self.is_meant(i, schema, table);
        for (depth, level) in self.visible_levels() {
            let mut items = level.seen().iter().filter(means);
            let Some(item) = items.next() else { continue };
            // FROM has no two of one name, but INSERT INTO t AS excluded ... ON CONFLICT has.
            if items.next().is_some() {
                let message = format!("table reference \"{table}\" is ambiguous");
                return Err(at(SqlError::new("42P09", message), location));
            }
            let (place, twice) = level.find(item, name);
            if twice {
                return Err(ambiguous(name, location));
            }
            return match place.and_then(|p| level.item_column(item, p)) {
                Some((_, expr)) => Ok(outer(expr, depth)),
                None if let Some(e) = level.system_column(item, name) => {
                    self.system_value((item, depth), name, outer(e, depth), location)
                }
                None if known::is_system_column(name) && level.is_table(item) => {
                    Err(system_column(name, location))
                }
                None => Err(undefined(format!("column {table}.{name} does not exist"), location)),
            };
        }
        if schema.is_none()
            && let Some(arg) = self.function_argument(Some(table), name)
        {
            return Ok(arg);
        }
        if schema.is_none()
            && let Some(arg) = self.function_argument(None, table)
            && let Some(fields) = self.fields_of(&arg)
            && let Some((i, field)) = fields.iter().enumerate().find(|(_, f)| f.0 == name)
        {
            return Ok(self.field_at(arg, i, field));
        }
        for (_, level) in self.visible_levels() {
            if level.hidden.iter().any(|i| means(&i)) {
                if level.is_beside_outer_join() {
                    return Err(no_lateral(table, location));
                }
                let message = format!("invalid reference to FROM-clause entry for table \"{table}\"");
                let error = SqlError::new(sqlstate::UNDEFINED_TABLE, message).hint(format!(
                    "There is an entry for table \"{table}\", but it cannot be referenced from this part of the query."
                ));
                return Err(at(error, location));
            }
        }
        Err(self.missing_table(table, location))
    }

    /// The error of a table name that is not in FROM.
    pub(super) fn missing_table(&self, table: &str, location: i32) -> SqlError {
        // Is it there under an alias?
        let aliased = self.visible_levels().find_map(|(_, l)| {
            l.rels.iter().find_map(|r| match &r.rel {
                Rel::Table(t) if t.def.name == table && r.alias != table => Some(r.alias.clone()),
                _ => None,
            })
        });
        let hidden =
            self.visible_levels().any(|(_, l)| l.rels.iter().any(|r| !table.is_empty() && r.alias == table));
        match aliased {
            _ if hidden => {
                let message = format!("invalid reference to FROM-clause entry for table \"{table}\"");
                let hint = format!(
                    "There is an entry for table \"{table}\", but it cannot be referenced from this part of the query."
                );
                at(SqlError::new(sqlstate::UNDEFINED_TABLE, message).hint(hint), location)
            }
            Some(alias) => {
                let message = format!("invalid reference to FROM-clause entry for table \"{table}\"");
                let hint = format!("Perhaps you meant to reference the table alias \"{alias}\".");
                at(SqlError::new(sqlstate::UNDEFINED_TABLE, message).hint(hint), location)
            }
            None => {
                let message = format!("missing FROM-clause entry for table \"{table}\"");
                at(SqlError::new(sqlstate::UNDEFINED_TABLE, message), location)
            }
        }
    }

    /// In a function's body, arguments can be named; columns of the same name come first.
    fn function_argument(&self, function: Option<&str>, name: &str) -> Option<Expr> {
        let (own_name, args) = self.function?;
        if function.is_some_and(|f| f != own_name) {
            return None;
        }
        let i = args.iter().position(|a| a.0.as_deref() == Some(name))?;
        Some(Expr { kind: ExprKind::Param(i as u16), ty: Type::new(args[i].1.base().id), at: u32::MAX })
    }

    /// What `*` (or, with a name, `t.*`) means.
    pub(super) fn star(&mut self, names: &[&str], location: i32) -> SqlResult<Vec<(String, Expr)>> {
        let (schema, table) = match *names {
            [] => {
                let level = self.level();
                if !level.seen().iter().any(|i| i.by_column) {
                    let message = "SELECT * with no tables specified is not valid";
                    return Err(at(SqlError::new(sqlstate::SYNTAX_ERROR, message), location));
                }
                let items = level.seen().iter().filter(|i| i.by_column);
                return Ok(items.flat_map(|i| level.starred(i)).collect());
            }
            [table] => (None, table),
            [schema, table] => (Some(schema), table),
            _ => return Err(at(SqlError::unsupported("a database name before a table"), location)),
        };
        for (depth, level) in self.visible_levels() {
            let mut items = level.seen().iter().filter(|i| self.is_meant(i, schema, table));
            if let Some(item) = items.next() {
                let columns = level.starred(item);
                return Ok(columns.into_iter().map(|(n, e)| (n, outer(e, depth))).collect());
            }
        }
        Err(self.missing_table(table, location))
    }
}

impl Level {
    /// The column `ctid` of a table, or `tableoid` of one or of a relation of the catalogue: its number, but
    /// NULL where its row is. `None` also where it cannot be told whether the row is there.
    fn system_column(&self, item: &Item, name: &str) -> Option<Expr> {
        let ItemColumns::Rel(rel) = item.columns else { return None };
        let is_foreign = |r: &RelEntry| matches!(&r.rel, Rel::Table(t) if t.def.is_foreign());
        if name == "ctid" && self.is_table(item) && !self.rels.get(usize::from(rel)).is_some_and(is_foreign) {
            return Some(column(rel, usize::from(CTID), Type::new(TypeId::TID)));
        }
        let (number, never_null) = match &self.rels.get(usize::from(rel))?.rel {
            Rel::System(key) => (catalog::by_key(key).filter(|r| !r.is_view)?.oid, Some(0)),
            Rel::Table(t) => {
                let place = t.def.columns.iter().position(|c| c.not_null);
                (catalog::FIRST_OID.wrapping_add(t.def.id), place)
            }
            _ => return None,
        };
        if name != "tableoid" {
            return None;
        }
        let ty = Type::new(TypeId::OID);
        let number = super::constant(oid::oid(number), ty, u32::MAX);
        if !self.has_outer_join {
            return Some(number);
        }
        let (_, first) = self.item_column(item, never_null?)?;
        let is_there = ExprKind::IsNull { arg: Box::new(first), negated: true };
        let is_there = Expr { kind: is_there, ty: Type::BOOL, at: u32::MAX };
        let kind = ExprKind::Case { whens: vec![(is_there, number)], otherwise: None };
        Some(Expr { kind, ty, at: u32::MAX })
    }
}

/// Whether a relation is a function that gives values, not rows.
fn gives_values(rel: &Rel) -> bool {
    match rel {
        Rel::Series { .. } => true,
        Rel::Function { function, .. } => matches!(function.returns, ondol_engine::Returns::Scalar { .. }),
        _ => false,
    }
}

/// An expression of an outer level, as seen `depth` levels further in.
fn outer(mut e: Expr, depth: u16) -> Expr {
    if depth > 0 {
        crate::bound::walk_expr_mut(&mut e, 0, &mut |e, _| {
            if let ExprKind::Column { depth: d, .. } = &mut e.kind {
                *d += depth;
            }
            true
        });
    }
    e
}
