//! CHECK constraints of tables: their texts, and the conditions that a new row is held to.
//!
//! A check is kept as text in which each column stands by its bare name. So a table's new name leaves it as
//! it is, and a column's new name is put where the old one stood.
use super::Binder;
use super::scope::{Clause, Item, ItemColumns};
use super::tree::{at, at_expr, need, refuse_at};
use super::written::Notes;
use crate::bound::{COMPUTED, Expr, ExprKind, Inner, Rel, RelEntry, RowCheck, walk_expr, walk_expr_mut};
use crate::parse::lexer::{Token, TokenKind, Tokens};
use crate::parse::parse;
use crate::parse::tree::{Constraint, Node};
use ondol_engine::{Catalog, CheckDef, ColumnDef, Name, Table, TableDef};
use ondol_types::func::Volatility;
use ondol_types::name::quote;
use ondol_types::ty::Category;
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, sqlstate};
use std::collections::BTreeSet;

/// Before the text of a check, to parse it.
const HEAD: &str = "SELECT ";

/// What an expression over a row of a table is, apart from a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Over {
    IndexExpression,
    Predicate,
}

impl Over {
    /// As PostgreSQL's messages call it.
    pub fn what(self) -> &'static str {
        match self {
            Over::IndexExpression => "index expression",
            Over::Predicate => "index predicate",
        }
    }
}

/// The columns that a condition names, each with its place in the text: (column, place).
fn columns_of(e: &Expr) -> Vec<(u16, u32)> {
    let mut found = Vec::new();
    walk_expr(e, 0, &mut |e, level| {
        if let ExprKind::Column { depth, column, .. } = e.kind
            && depth == level
        {
            found.push((column, e.at))
        }
        true
    });
    found
}

/// What `bind` makes of a text that is one expression, as it is written if it is to be shown
/// ([`super::written`]).
pub(super) fn with_text<T>(
    catalog: &Catalog,
    text: &str,
    verbatim: bool,
    bind: impl for<'t> FnOnce(&mut Binder<'t>, &'t Node) -> SqlResult<T>,
) -> SqlResult<(T, Notes)> {
    let sql = format!("{HEAD}{text}");
    let raws = parse(&sql)?;
    let bad = || SqlError::new(sqlstate::SYNTAX_ERROR, format!("not one expression: {text}"));
    let target = super::only_target(&raws).ok_or_else(bad)?;
    let binder = Binder::new(catalog, &sql, &[]);
    let mut binder = if verbatim { binder.verbatim() } else { binder };
    let bound = bind(&mut binder, target)?;
    Ok((bound, binder.into_notes()))
}

/// An error whose place is in the text of a definition, not in the statement's.
pub(super) fn elsewhere(mut e: SqlError) -> SqlError {
    e.0.position = None;
    e
}

/// Binds the text of a check, or of what a column is computed by, over the columns, which are those of
/// relation 0. Places are in the text.
fn bind_text(
    catalog: &Catalog,
    table: &Name,
    columns: &[ColumnDef],
    text: &str,
    is_condition: bool,
) -> SqlResult<Expr> {
    let (mut e, _) = with_text(catalog, text, false, |binder, target| match is_condition {
        true => binder.row_condition(table, columns, target),
        false => binder.row_expr(table, columns, Clause::Check, "check constraint", target, |_, e| Ok(e)),
    })
    .map_err(elsewhere)?;
    walk_expr_mut(&mut e, 0, &mut |e, _| {
        e.at = e.at.checked_sub(HEAD.len() as u32).filter(|_| e.at != u32::MAX).unwrap_or(u32::MAX);
        true
    });
    Ok(e)
}

/// What a text over a table's columns stands for.
#[derive(Clone, Copy, Debug)]
pub enum TableText<'t> {
    /// A check.
    Condition(&'t str),
    /// What the column of that place gets where a statement says nothing, or is computed by.
    Value(usize),
}

/// It as it is written, over relation 0 ([`super::written`]).
pub fn text_as_written(catalog: &Catalog, def: &TableDef, what: TableText<'_>) -> SqlResult<(Expr, Notes)> {
    let column = match what {
        TableText::Value(n) => def.columns.get(n),
        TableText::Condition(_) => None,
    };
    let text = match what {
        TableText::Condition(text) => Some(text),
        TableText::Value(_) => column.and_then(|c| c.computed().or(c.default.as_deref())),
    };
    let bad = || SqlError::new(sqlstate::SYNTAX_ERROR, "not one expression");
    with_text(catalog, text.ok_or_else(bad)?, true, |binder, target| match column {
        None => binder.row_condition(&def.full_name(), &def.columns, target),
        Some(c) if c.computed().is_some() => binder.generation(&def.full_name(), &def.columns, c, target),
        Some(c) => binder.default_value(target, c),
    })
}

/// Binds the text of an index's expression or predicate over the columns, which are those of relation 0.
pub fn bind_over_row(
    catalog: &Catalog,
    table: &Name,
    columns: &[ColumnDef],
    over: Over,
    text: &str,
) -> SqlResult<Expr> {
    with_text(catalog, text, false, |b, target| b.over_row(table, columns, over, target))
        .map(|(e, _)| e)
        .map_err(elsewhere)
}

/// The same, as it is written.
pub fn over_row_as_written(
    catalog: &Catalog,
    table: &Name,
    columns: &[ColumnDef],
    over: Over,
    text: &str,
) -> SqlResult<(Expr, Notes)> {
    with_text(catalog, text, true, |b, target| b.over_row(table, columns, over, target)).map_err(elsewhere)
}

/// The condition of a check of a table.
pub fn bind_check(catalog: &Catalog, def: &TableDef, check: &CheckDef) -> SqlResult<Expr> {
    let mut e = bind_text(catalog, &def.full_name(), &def.columns, &check.text, true)?;
    walk_expr_mut(&mut e, 0, &mut |e, _| {
        e.at = u32::MAX;
        true
    });
    Ok(e)
}

/// The text with another name for each column: what `name` gives. `None` where the text does not say where
/// all of them stand.
fn with_names(
    catalog: &Catalog,
    table: &Name,
    columns: &[ColumnDef],
    text: &str,
    name: &dyn Fn(u16) -> String,
) -> SqlResult<Option<String>> {
    with_texts(catalog, table, columns, text, &|c| quote(&name(c)))
}

/// The same with a text for each column.
pub fn with_texts(
    catalog: &Catalog,
    table: &Name,
    columns: &[ColumnDef],
    text: &str,
    name: &dyn Fn(u16) -> String,
) -> SqlResult<Option<String>> {
    let named = columns_of(&bind_text(catalog, table, columns, text, false)?);
    // A condition may name more often than the text what stands there once: some of it without a place, as a
    // domain's conditions do.
    let placed = named.iter().filter(|(_, place)| *place != u32::MAX);
    let places: BTreeSet<(u32, u16)> = placed.map(|(c, place)| (*place, *c)).collect();
    let (mut out, mut done) = (String::new(), 0);
    for (place, column) in places {
        let Some(start) = usize::try_from(place).ok().filter(|p| *p >= done && *p < text.len()) else {
            return Ok(None);
        };
        let tokens: Vec<Token> = Tokens::from(text, start).take(5).collect();
        let is_name =
            |t: Option<&Token>| t.is_some_and(|t| matches!(t.kind, TokenKind::Word | TokenKind::Quoted));
        if !is_name(tokens.first()) {
            return Ok(None);
        }
        // `table.column`, `schema.table.column`
        let mut last = 0;
        while tokens.get(last + 1).is_some_and(|t| t.is_mark(b'.')) && is_name(tokens.get(last + 2)) {
            last += 2;
        }
        out.push_str(&text[done..start]);
        out.push_str(&name(column));
        done = tokens[last].end;
    }
    out.push_str(&text[done..]);
    Ok(Some(out))
}

/// What a check names, in the order in which it does.
pub fn columns_in(catalog: &Catalog, table: &Name, columns: &[ColumnDef], text: &str) -> SqlResult<Vec<u16>> {
    Ok(columns_of(&bind_text(catalog, table, columns, text, false)?).into_iter().map(|c| c.0).collect())
}

/// Whether something stands in the text that has its type from what it stands beside: a quoted literal, or
/// NULL.
pub fn has_literal(text: &str) -> bool {
    Tokens::new(text).any(|t| t.kind == TokenKind::String || t.is_word(text, "null"))
}

/// Whether a check of the table names the column.
pub fn names(catalog: &Catalog, def: &TableDef, check: &CheckDef, column: usize) -> SqlResult<bool> {
    let named = columns_in(catalog, &def.full_name(), &def.columns, &check.text)?;
    Ok(named.iter().any(|c| usize::from(*c) == column))
}

/// The check's text once the columns have other names: those of `now`, which are the same columns.
pub fn renamed(catalog: &Catalog, old: &TableDef, now: &TableDef, check: &CheckDef) -> SqlResult<String> {
    let lost = || {
        let what =
            format!("renaming a column that constraint \"{}\" of table \"{}\" names", check.name, old.name);
        SqlError::unsupported(what).detail(format!("Its condition is {}.", check.text))
    };
    let name = |c: u16| now.columns.get(usize::from(c)).map_or(String::new(), |c| c.name.clone());
    let text = with_names(catalog, &old.full_name(), &old.columns, &check.text, &name)?.ok_or_else(lost)?;
    let before = columns_in(catalog, &old.full_name(), &old.columns, &check.text)?;
    match columns_in(catalog, &now.full_name(), &now.columns, &text) {
        Ok(after) if after == before => Ok(text),
        _ => Err(lost()),
    }
}

/// Whether a condition depends on nothing but the row: what it was of a row it stays.
fn is_immutable(e: &Expr) -> bool {
    let mut depends = e.calls(Volatility::Stable);
    walk_expr(e, 0, &mut |e, _| {
        // Their texts depend on settings.
        if let ExprKind::Cast { arg, .. } = &e.kind {
            let of_time = |t: TypeId| matches!(t.def().category, Category::DateTime);
            depends |= of_time(arg.ty.id) || of_time(e.ty.id)
        }
        true
    });
    !depends
}

/// The checks of the table that a new row is to be held to. `assigned`: the row was there before, and these
/// of its columns are set: a check that all rows hold, and that can be false of none of the new values, is
/// left out.
pub fn row_checks(catalog: &Catalog, table: &Table, assigned: Option<&[u16]>) -> SqlResult<Vec<RowCheck>> {
    let mut checks = computed(catalog, &table.def, assigned)?;
    let recomputed: Vec<u16> = checks.iter().map(|c| c.number & !COMPUTED).collect();
    for (number, check) in table.def.checks.iter().enumerate() {
        let condition = bind_check(catalog, &table.def, check)?;
        if matches!(condition.kind, ExprKind::Const(Value::Bool(true) | Value::Null)) {
            continue;
        }
        if let Some(assigned) = assigned {
            let is_set =
                columns_of(&condition).iter().any(|(c, _)| assigned.contains(c) || recomputed.contains(c));
            if check.validated && !is_set && is_immutable(&condition) {
                continue;
            }
        }
        checks.push(RowCheck { number: number as u16, condition });
    }
    Ok(checks)
}

/// Puts parameters in the place of a row's columns, which are listed in order.
fn over_params(e: &mut Expr, columns: &mut Vec<u16>) {
    walk_expr_mut(e, 0, &mut |e, level| {
        if let ExprKind::Column { depth, column, .. } = e.kind
            && depth == level
        {
            let n = columns.iter().position(|c| *c == column).unwrap_or(columns.len());
            if n == columns.len() {
                columns.push(column)
            }
            e.kind = ExprKind::Param(n as u16)
        }
        true
    });
}

/// The generated columns of a table with their values, as expressions over parameters: the row's columns that
/// are given as well, in order.
#[allow(clippy::type_complexity)]
pub fn computed_values(catalog: &Catalog, table: &Table) -> SqlResult<(Vec<(u16, Expr)>, Vec<u16>)> {
    let mut columns: Vec<u16> = Vec::new();
    let mut values = Vec::new();
    for RowCheck { number, mut condition } in computed(catalog, &table.def, None)? {
        over_params(&mut condition, &mut columns);
        values.push((number & !COMPUTED, condition))
    }
    Ok((values, columns))
}

/// The values of the generated columns of a new row. `assigned`: the row was there before, and these of its
/// columns are set: what depends on none of them stays.
fn computed(catalog: &Catalog, def: &TableDef, assigned: Option<&[u16]>) -> SqlResult<Vec<RowCheck>> {
    let mut all = Vec::new();
    for (n, column) in def.columns.iter().enumerate() {
        let Some(text) = column.computed() else { continue };
        let value = bind_generation(catalog, def, column, text)?;
        let number = n as u16;
        let is_set = |assigned: &[u16]| {
            assigned.contains(&number) || columns_of(&value).iter().any(|(c, _)| assigned.contains(c))
        };
        if assigned.is_none_or(is_set) {
            all.push(RowCheck { number: number | COMPUTED, condition: value })
        }
    }
    Ok(all)
}

/// The value of a generated column, by the text of its expression, over the columns of relation 0.
pub fn bind_generation(catalog: &Catalog, def: &TableDef, column: &ColumnDef, text: &str) -> SqlResult<Expr> {
    let sql = format!("{HEAD}{text}");
    let raws = parse(&sql)?;
    let bad = || SqlError::new(sqlstate::SYNTAX_ERROR, format!("not one expression: {text}"));
    let target = super::only_target(&raws).ok_or_else(bad)?;
    let mut binder = Binder::new(catalog, &sql, &[]);
    let bound = binder.generation(&def.full_name(), &def.columns, column, target);
    let mut e = bound.map_err(|mut e| {
        e.0.position = None;
        e
    })?;
    walk_expr_mut(&mut e, 0, &mut |e, _| {
        e.at = u32::MAX;
        true
    });
    binder.in_declared(e, super::domain::declared(column).id)
}

/// The value that a text over a row of the table gives a column, as an expression over parameters: the row's
/// columns that are given as well, in order. `None` where it depends on more than the row, or asks a query.
pub fn value_of_row(
    catalog: &Catalog,
    def: &TableDef,
    column: &ColumnDef,
    text: &str,
) -> Option<(Expr, Vec<u16>)> {
    let mut value = bind_generation(catalog, def, column, text).ok()?;
    if !is_constant_of(&value) || super::index::has_query(&value) {
        return None;
    }
    let mut columns = Vec::new();
    over_params(&mut value, &mut columns);
    Some((value, columns))
}

/// The columns that a generated column is computed of.
pub fn generated_of(catalog: &Catalog, def: &TableDef, column: &ColumnDef) -> SqlResult<Vec<u16>> {
    match column.computed() {
        None => Ok(Vec::new()),
        Some(text) => columns_in(catalog, &def.full_name(), &def.columns, text),
    }
}

/// The text of a generated column's expression once columns have other names: those of `now`.
pub fn renamed_generation(
    catalog: &Catalog,
    old: &TableDef,
    now: &TableDef,
    text: &str,
) -> SqlResult<String> {
    let lost = || SqlError::unsupported(format_args!("renaming a column that ({text}) is computed of"));
    let name = |c: u16| now.columns.get(usize::from(c)).map_or(String::new(), |c| c.name.clone());
    let new = with_names(catalog, &old.full_name(), &old.columns, text, &name)?.ok_or_else(lost)?;
    let before = columns_in(catalog, &old.full_name(), &old.columns, text)?;
    match columns_in(catalog, &now.full_name(), &now.columns, &new) {
        Ok(after) if after == before => Ok(new),
        _ => Err(lost()),
    }
}

/// Whether an expression is the same of the same values for ever.
pub fn is_constant_of(e: &Expr) -> bool {
    let of_time = |t: TypeId| matches!(t.def().category, Category::DateTime);
    let mut depends = false;
    walk_expr(e, 0, &mut |e, _| {
        match &e.kind {
            ExprKind::Call { func, args } => {
                let Some(def) = ondol_types::func::find(*func) else { return true };
                // What is put beside a text is cast to one, which no setting has to do with but for times.
                let is_cast =
                    matches!(def.name, "textanycat" | "anytextcat") && !args.iter().any(|a| of_time(a.ty.id));
                depends |= def.volatility >= Volatility::Stable && !is_cast
            }
            ExprKind::Scalar(q) => depends |= q.calls(Volatility::Stable),
            // What the zone and the style of dates decide.
            ExprKind::Cast { arg, .. } => {
                let (from, to) = (arg.ty.id, e.ty.id);
                let zoned = from == TypeId::TIMESTAMPTZ || to == TypeId::TIMESTAMPTZ || to == TypeId::TIMETZ;
                depends |= of_time(from) != of_time(to) || zoned && from != to
            }
            _ => {}
        }
        true
    });
    !depends
}

/// The number of the first check that is false of a row, or NULL, as an expression over parameters: the
/// row's columns that are given as well, in order. `None` where the table has no checks.
pub fn failed_check(catalog: &Catalog, table: &Table) -> SqlResult<Option<(Expr, Vec<u16>)>> {
    let mut columns: Vec<u16> = Vec::new();
    let mut whens = Vec::new();
    for RowCheck { number, mut condition } in row_checks(catalog, table, None)? {
        if number & COMPUTED != 0 {
            continue;
        }
        over_params(&mut condition, &mut columns);
        let test = ExprKind::BoolTest { arg: Box::new(condition), want: Some(false), negated: false };
        let test = Expr { kind: test, ty: Type::BOOL, at: u32::MAX };
        whens.push((test, super::constant(Value::Int4(i32::from(number)), Type::INT4, u32::MAX)));
    }
    if whens.is_empty() {
        return Ok(None);
    }
    let kind = ExprKind::Case { whens, otherwise: None };
    Ok(Some((Expr { kind, ty: Type::INT4, at: u32::MAX }, columns)))
}

impl<'a> Binder<'a> {
    /// The expression of a generated column over the columns of its row, of the column's type.
    fn generation(
        &mut self,
        table: &Name,
        columns: &[ColumnDef],
        column: &ColumnDef,
        node: &'a Node,
    ) -> SqlResult<Expr> {
        let what = "column generation expression";
        let e = self.row_expr(table, columns, Clause::Generated, what, node, |_, e| Ok(e))?;
        if !super::coerce::can_coerce(e.ty.id, column.ty.id, ondol_types::cast::CastContext::Assignment) {
            let message = format!(
                "column \"{}\" is of type {} but default expression is of type {}",
                column.name,
                super::name_of(column.ty.id),
                super::name_of(e.ty.id)
            );
            let error = SqlError::new(sqlstate::DATATYPE_MISMATCH, message);
            return Err(error.hint("You will need to rewrite or cast the expression."));
        }
        self.cast(e, column.ty, false)
    }

    /// The text of a new generated column's expression, whose table has these columns.
    pub(super) fn new_generation(
        &mut self,
        table: &Name,
        columns: &[ColumnDef],
        n: usize,
        node: &'a Node,
    ) -> SqlResult<String> {
        let value = self.generation(table, columns, &columns[n], node)?;
        let named = columns_of(&value);
        if let Some((c, place)) = named.iter().find(|(c, _)| columns[usize::from(*c)].computed().is_some()) {
            let name = &columns[usize::from(*c)].name;
            let message = format!("cannot use generated column \"{name}\" in column generation expression");
            return Err(at_expr(SqlError::new("42P17", message), *place)
                .detail("A generated column cannot reference another generated column."));
        }
        if !is_constant_of(&value) {
            return Err(SqlError::new("42P17", "generation expression is not immutable"));
        }
        let column = &columns[n];
        let written =
            self.kept_text(node, &|b, node| b.generation(table, columns, column, node).map(drop))?;
        let own = |c: u16| columns[usize::from(c)].name.clone();
        let text = with_names(self.catalog, table, columns, &written, &own)?;
        match text {
            Some(text) => Ok(text),
            None if named.is_empty() => Ok(written),
            None => Err(SqlError::unsupported(format_args!("the generation expression {written}"))),
        }
    }

    /// A condition over the columns of a row.
    fn row_condition(&mut self, table: &Name, columns: &[ColumnDef], node: &'a Node) -> SqlResult<Expr> {
        self.row_expr(table, columns, Clause::Check, "check constraint", node, |b, e| b.condition(e, "CHECK"))
    }

    /// An expression of an index, or its predicate.
    pub(super) fn over_row(
        &mut self,
        table: &Name,
        columns: &[ColumnDef],
        over: Over,
        node: &'a Node,
    ) -> SqlResult<Expr> {
        let clause = match over {
            Over::IndexExpression => Clause::IndexExpression,
            Over::Predicate => Clause::IndexPredicate,
        };
        self.row_expr(table, columns, clause, over.what(), node, |b, e| match over {
            Over::IndexExpression => b.settle(e),
            Over::Predicate => b.condition(e, "WHERE"),
        })
    }

    /// What USING says of a column's new values, over the columns of a row.
    pub(super) fn transform(&mut self, def: &TableDef, node: &'a Node) -> SqlResult<Expr> {
        // A literal gets its type from the column.
        let what = "transform expression";
        self.row_expr(&def.full_name(), &def.columns, Clause::Transform, what, node, |_, e| Ok(e))
    }

    fn row_expr(
        &mut self,
        table: &Name,
        columns: &[ColumnDef],
        clause: Clause,
        what: &str,
        node: &'a Node,
        then: impl FnOnce(&mut Self, Expr) -> SqlResult<Expr>,
    ) -> SqlResult<Expr> {
        let open = std::mem::replace(&mut self.open_params, false);
        let bound = self.nested(clause, |b| {
            let level = b.level();
            level.rels = vec![RelEntry {
                rel: Rel::Values(Vec::new()),
                alias: table.name.clone(),
                columns: columns.iter().map(|c| (c.name.clone(), c.ty)).collect(),
            }];
            level.items = vec![Item {
                name: table.name.clone(),
                own: Some(table.clone()),
                columns: ItemColumns::Rel(0),
                by_name: true,
                by_column: true,
            }];
            let e = b.expr(node)?;
            then(b, e)
        });
        self.open_params = open;
        let (e, _) = bound?;
        match super::dml::subquery_in(&e) {
            Some(here) => {
                let message = format!("cannot use subquery in {what}");
                Err(at_expr(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message), here))
            }
            None => Ok(e),
        }
    }

    /// A new check of a table that has, or gets, these columns. `others`: the table as it is by now.
    pub(super) fn new_check(&mut self, others: &TableDef, k: &'a Constraint) -> SqlResult<CheckDef> {
        let here = k.location;
        refuse_at(k.deferrable || k.initdeferred, "a DEFERRABLE constraint", here)?;
        refuse_at(!k.is_enforced, "NOT ENFORCED", here)?;
        let node = need(&k.raw_expr)?;
        let table = others.full_name();
        let condition = self.row_condition(&table, &others.columns, node)?;
        let mut named: Vec<u16> = columns_of(&condition).into_iter().map(|c| c.0).collect();
        named.sort_unstable();
        named.dedup();
        let written =
            self.kept_text(node, &|b, node| b.row_condition(&table, &others.columns, node).map(drop))?;
        let own = |c: u16| others.columns[usize::from(c)].name.clone();
        let text = with_names(self.catalog, &table, &others.columns, &written, &own)?;
        let same = |text: &String| {
            let columns = |t: &str| columns_in(self.catalog, &table, &others.columns, t);
            columns(text).is_ok_and(|now| columns(&written).is_ok_and(|before| now == before))
        };
        // Nothing stands where it cannot be found, but what names no column.
        let text = match text.filter(same) {
            Some(text) => text,
            None if named.is_empty() => written,
            None => return Err(at(SqlError::unsupported(format_args!("the check {written}")), here)),
        };
        let name = match k.conname.as_str() {
            "" => {
                let of = match named[..] {
                    [one] => own(one),
                    _ => String::new(),
                };
                self.check_name(others, &of)
            }
            given if others.is_constraint(given) => {
                let message =
                    format!("constraint \"{given}\" for relation \"{}\" already exists", others.name);
                return Err(SqlError::new(sqlstate::DUPLICATE_OBJECT, message));
            }
            given => given.to_string(),
        };
        Ok(CheckDef { name, text, validated: !k.skip_validation, no_inherit: k.is_no_inherit })
    }

    /// A name like `t_a_check` that no constraint has.
    fn check_name(&self, others: &TableDef, column: &str) -> String {
        let is_elsewhere = |name: &str| {
            let of = self.catalog.table(others.full_name()).map_or(0, |t| t.def.id);
            self.catalog.relations.is_constraint(&Name::new(others.schema, name), of)
        };
        let domains = self
            .catalog
            .types
            .values()
            .filter_map(|t| super::domain::domain_of(*t).filter(|d| d.schema == others.schema));
        let keys = others.indexes.iter().filter(|i| i.constraint).map(|i| i.name.as_str());
        let taken: BTreeSet<&str> = (keys.chain(others.checks.iter().map(|c| c.name.as_str())))
            .chain(domains.flat_map(|d| d.parts.iter().map(|p| p.name.as_str())))
            .collect();
        let label = |n: u32| if n == 0 { "check".to_string() } else { format!("check{n}") };
        let mut names = (0..).map(|n| super::ddl::object_name(&others.name, column, &label(n)));
        names.find(|n| !taken.contains(n.as_str()) && !is_elsewhere(n)).unwrap_or_default()
    }
}
