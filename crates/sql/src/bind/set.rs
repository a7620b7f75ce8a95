//! Functions that give rows: among a query's targets, and in FROM where several stand beside each other or
//! their rows are numbered.
//!
//! - **S1** All of them that stand beside each other give as many rows as the one of most; the others give
//!   NULLs then. What is within another's arguments gives its rows first. Both are PostgreSQL's rules.
//! - **S2** A function is what it is made of, computed once for each row that is there before the targets
//!   (values of [`Rel::Places`]), how many rows that makes, and what stands at a place among them.
//! - **S3** The same call of nothing volatile, written twice, is one.

use super::scope::{Clause, Level, Sets, column};
use super::tree::{at, place, unexpected};
use super::written::Note;
use super::{Binder, array, coerce, constant, group, name_of, row};
use crate::bound::{Expr, ExprKind, MAX_RELS, Query, Rel, RelEntry, Target, walk_expr, walk_expr_mut};
use crate::parse::tree::FuncCall;
use ondol_engine::FunctionDef;
use ondol_types::func::{FuncId, Volatility, id};
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, sqlstate};
use std::sync::Arc;

/// What a function is made of (S2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The items of an array.
    Items,
    /// The rows of an array of two dimensions.
    Rows,
    /// Start, stop and step.
    Series,
    /// A value that is there once.
    One,
}

/// Functions of SQL that give rows, and those that give them as one array.
const ARRAYS: &[(&str, &str, Kind)] = &[
    ("json_array_elements", "$json_array_elements", Kind::Items),
    ("json_array_elements_text", "$json_array_elements_text", Kind::Items),
    ("json_object_keys", "$json_object_keys", Kind::Items),
    ("json_populate_recordset", "$json_populate_recordset", Kind::Items),
    ("jsonb_array_elements", "$jsonb_array_elements", Kind::Items),
    ("jsonb_array_elements_text", "$jsonb_array_elements_text", Kind::Items),
    ("jsonb_object_keys", "$jsonb_object_keys", Kind::Items),
    ("jsonb_populate_recordset", "$jsonb_populate_recordset", Kind::Items),
    ("pg_listening_channels", "$pg_listening_channels", Kind::Items),
    ("pg_partition_ancestors", "$partition_ancestors", Kind::Items),
    ("regexp_matches", "$regexp_matches", Kind::Rows),
    ("regexp_split_to_table", "$regexp_split_to_table", Kind::Items),
    ("string_to_table", "string_to_array", Kind::Items),
];

/// Functions whose rows have several columns: these, and the functions that give each as an array.
type Columns = &'static [(&'static str, &'static str)];
const SEVERAL: &[(&str, Columns)] = &[
    (
        "aclexplode",
        &[
            ("grantor", "$acl_grantors"),
            ("grantee", "$acl_grantees"),
            ("privilege_type", "$acl_words"),
            ("is_grantable", "$acl_options"),
        ],
    ),
    ("pg_options_to_table", &[("option_name", "$option_names"), ("option_value", "$option_values")]),
    ("json_each", &[("key", "$json_each_key"), ("value", "$json_each_value")]),
    ("json_each_text", &[("key", "$json_each_key"), ("value", "$json_each_text")]),
    ("jsonb_each", &[("key", "$jsonb_each_key"), ("value", "$jsonb_each_value")]),
    ("jsonb_each_text", &[("key", "$jsonb_each_text_key"), ("value", "$jsonb_each_text")]),
];

/// The columns of a function whose rows have several, and the functions that give each as an array.
pub fn several(name: &str) -> Option<Columns> {
    SEVERAL.iter().find(|f| f.0 == name).map(|f| f.1)
}

/// Whether a function of PostgreSQL's gives rows.
pub fn gives_rows(name: &str) -> bool {
    is_array_of_rows(name)
        || several(name).is_some()
        || matches!(name, "generate_series" | "unnest" | "generate_subscripts")
}

/// Whether it gives those of an array that another function makes.
pub fn is_array_of_rows(name: &str) -> bool {
    ARRAYS.iter().any(|a| a.0 == name)
}

/// Whether the array of such a function is made by that one.
pub fn is_made_by(name: &str, function: &str) -> bool {
    ARRAYS.iter().any(|a| a.0 == name && a.1 == function)
}

fn not_allowed(clause: &str, location: i32) -> SqlError {
    let message = format!("set-returning functions are not allowed in {clause}");
    at(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message), location)
}

/// What the binder calls `information_schema._pg_expandarray`.
pub const EXPAND: &str = "$pg_expandarray";

/// Where an expression, seen from `depth` levels further in, uses rows that functions of the level give.
pub fn place_in(level: &Level, e: &Expr, depth: u16) -> Option<u32> {
    let mut found = None;
    walk_expr(e, 0, &mut |e, inner| {
        let mut is_set = false;
        crate::bound::children(e, &mut |c| {
            is_set |= matches!(c.kind, ExprKind::Column { depth: d, rel, column: 0 }
                if d == inner + depth && level.sets.iter().any(|s| s.rel == rel));
        });
        if is_set {
            found.get_or_insert(e.at);
        }
        found.is_none()
    });
    found
}

/// Whether it uses such.
pub fn is_in(level: &Level, e: &Expr, depth: u16) -> bool {
    place_in(level, e, depth).is_some()
}

/// Refuses such expressions in a clause.
pub fn none_in(level: &Level, list: &[Expr], clause: &str) -> SqlResult<()> {
    match list.iter().find(|e| is_in(level, e, 0)) {
        Some(e) => {
            let feature = format!("a set-returning function in {clause}");
            Err(super::tree::at_expr(SqlError::unsupported(feature), e.at))
        }
        None => Ok(()),
    }
}

fn call(func: FuncId, args: Vec<Expr>, ty: Type) -> Expr {
    Expr { kind: ExprKind::Call { func, args }, ty, at: u32::MAX }
}

fn one() -> Expr {
    constant(Value::Int8(1), Type::INT8, u32::MAX)
}

impl Kind {
    fn values(self) -> usize {
        if self == Kind::Series { 3 } else { 1 }
    }

    /// How many rows the values make.
    fn count(self, values: &[Expr]) -> Expr {
        let big = Type::INT8;
        match self {
            Kind::Items => call(id::LONGEST_ARRAY, values.to_vec(), big),
            Kind::Rows => {
                let first = constant(Value::Int4(1), Type::INT4, u32::MAX);
                let rows = call(id::ARRAY_LENGTH, vec![values[0].clone(), first], Type::INT4);
                let kind = ExprKind::Cast { arg: Box::new(rows), explicit: false };
                Expr { kind, ty: big, at: u32::MAX }
            }
            Kind::Series => {
                let is_big = values[0].ty.id == TypeId::INT8;
                call(if is_big { id::SERIES_COUNT8 } else { id::SERIES_COUNT4 }, values.to_vec(), big)
            }
            Kind::One => one(),
        }
    }

    /// What stands at a place.
    fn item(self, values: &[Expr], place: Expr) -> Expr {
        let ty = values[0].ty;
        let mut args = values.to_vec();
        match self {
            Kind::Items => {
                let item = ty.element().unwrap_or(Type::TEXT);
                args.push(place);
                coerce::of_length(call(id::ARRAY_ITEM, args, Type::new(item.id)), item)
            }
            Kind::Rows => {
                args.push(place);
                call(id::ARRAY_ROW, args, ty)
            }
            Kind::Series => {
                args.push(place);
                call(if ty.id == TypeId::INT8 { id::SERIES_ITEM8 } else { id::SERIES_ITEM4 }, args, ty)
            }
            Kind::One => {
                let first = call(id::INT8_EQ, vec![place, one()], Type::BOOL);
                let kind = ExprKind::Case { whens: vec![(first, values[0].clone())], otherwise: None };
                Expr { kind, ty, at: u32::MAX }
            }
        }
    }
}

impl Level {
    /// Ends the relations of functions that give rows; their numbers.
    pub fn end_sets(&mut self) -> Vec<u16> {
        let mut rels = Vec::with_capacity(self.sets.len());
        for Sets { rel, list, values, mut names } in std::mem::take(&mut self.sets) {
            let columns: Vec<Expr> =
                values.iter().enumerate().map(|(i, v)| column(rel, i + 1, v.ty)).collect();
            let mut counts: Vec<Expr> =
                list.iter().map(|(kind, at)| kind.count(&columns[*at..*at + kind.values()])).collect();
            let stop = match (counts.pop(), counts.is_empty()) {
                (Some(only), true) => only,
                (Some(last), false) => {
                    counts.push(last);
                    Expr { kind: ExprKind::Greatest(counts), ty: Type::INT8, at: u32::MAX }
                }
                (None, _) => one(),
            };
            let entry = &mut self.rels[usize::from(rel)];
            names.resize(values.len(), String::new());
            entry.columns.extend(names.into_iter().zip(values.iter().map(|v| v.ty)));
            entry.rel = Rel::Places { values, stop };
            rels.push(rel);
        }
        rels
    }
}

impl<'a> Binder<'a> {
    /// A call of a function that gives rows, among the targets.
    pub(super) fn set_call(&mut self, name: &str, args: Vec<Expr>, location: i32) -> SqlResult<Expr> {
        self.sets_are_allowed(location)?;
        let written = if self.is_verbatim() { args.clone() } else { Vec::new() };
        let item = if let Some(columns) = several(name) {
            self.columns_as_rows(name, columns, args, location)?
        } else {
            let (kind, values) = self.made_of(name, args, location)?;
            let item = self.add_set(name, kind, values, location)?;
            match name.ends_with("_populate_recordset") && !self.is_verbatim() {
                true => {
                    let ty = item.ty.id;
                    self.in_declared(item, ty)?
                }
                false => item,
            }
        };
        Ok(self.noted(item, || Note::Rows { name: name.into(), registered: None, args: written }))
    }

    /// A function whose rows have several columns, among the targets: each row is one value.
    fn columns_as_rows(
        &mut self,
        name: &str,
        columns: Columns,
        args: Vec<Expr>,
        location: i32,
    ) -> SqlResult<Expr> {
        let mut fields = Vec::with_capacity(columns.len());
        let mut values = Vec::with_capacity(columns.len());
        for ((column, _), array) in columns.iter().zip(self.column_arrays(name, columns, args, location)?) {
            let value = self.set_call("unnest", vec![array], location)?;
            fields.push((column.to_string(), Type::new(value.ty.id)));
            values.push(value)
        }
        Ok(row::row_of(TypeId::RECORD, &fields, values, place(location)))
    }

    fn column_arrays(
        &mut self,
        name: &str,
        columns: Columns,
        args: Vec<Expr>,
        location: i32,
    ) -> SqlResult<Vec<Expr>> {
        let call = |(_, function): &(&str, &str)| {
            self.builtin(function, args.clone(), location).map_err(|mut e| {
                e.0.message = e.0.message.replace(function, name);
                e
            })
        };
        columns.iter().map(call).collect()
    }

    /// The same in FROM.
    pub(super) fn columns_in_from(
        &mut self,
        columns: Columns,
        name: &str,
        c: &'a FuncCall,
        ordinality: bool,
    ) -> SqlResult<Query> {
        let (arrays, _) = self.nested(Clause::FromFunction, |b| {
            let args = b.operands(&c.args)?;
            b.column_arrays(name, columns, args, c.location)
        })?;
        let mut query = array::unnested(arrays, ordinality);
        for (target, (name, _)) in query.targets.iter_mut().zip(columns) {
            target.name = name.to_string()
        }
        Ok(query)
    }

    /// A registered query that gives rows of one value, among the targets: an array of them.
    pub(super) fn registered_set(
        &mut self,
        function: Arc<FunctionDef>,
        mut args: Vec<Expr>,
        location: i32,
    ) -> SqlResult<Expr> {
        self.sets_are_allowed(location)?;
        let written = if self.is_verbatim() { args.clone() } else { Vec::new() };
        let number = function.id;
        for e in &mut args {
            // They stand in a query within another now.
            walk_expr_mut(e, 0, &mut |e, level| {
                if let ExprKind::Column { depth, .. }
                | ExprKind::Aggregate { depth, .. }
                | ExprKind::Window { depth, .. } = &mut e.kind
                    && *depth >= level
                {
                    *depth += 2;
                }
                true
            });
        }
        let columns = super::call::function_columns(&function);
        let name = function.name.clone();
        let label = name.clone();
        let expr = self.value_of_call(&function, &columns)?;
        let ty = expr.ty;
        let query = Query {
            rels: vec![RelEntry { rel: Rel::Function { function, args }, alias: name.clone(), columns }],
            from: vec![crate::bound::From::Rel(0)],
            targets: vec![Target { expr, name, hidden: false }],
            is_call: true,
            ..Query::default()
        };
        let array = array::gathered(query, location)?;
        // An array of arrays has another dimension, not items that are arrays.
        let kind = if ty.id.is_array() { Kind::Rows } else { Kind::Items };
        if kind == Kind::Rows {
            let feature = "a function that gives rows of arrays outside of FROM";
            return Err(at(SqlError::unsupported(feature), location));
        }
        let item = self.add_set(&label, kind, vec![array], location)?;
        Ok(self.noted(item, || Note::Rows { name: label, registered: Some(number), args: written }))
    }

    /// [`EXPAND`] among the targets: each item of an array with its place, as a row.
    pub(super) fn expand(&mut self, array: Expr, location: i32) -> SqlResult<Expr> {
        let item = self.set_call("unnest", vec![array], location)?;
        // The item is found by its place.
        let mut at_place = None;
        walk_expr(&item, 0, &mut |e, _| {
            if let ExprKind::Column { column: 0, .. } = e.kind {
                at_place = Some(e.clone());
            }
            true
        });
        let n = at_place.ok_or_else(|| unexpected(EXPAND))?;
        let n =
            Expr { kind: ExprKind::Cast { arg: Box::new(n), explicit: false }, ty: Type::INT4, at: item.at };
        let fields = vec![("x".to_string(), Type::new(item.ty.id)), ("n".to_string(), Type::INT4)];
        Ok(super::row::row_of(TypeId::RECORD, &fields, vec![item, n], place(location)))
    }

    fn sets_are_allowed(&mut self, location: i32) -> SqlResult<()> {
        let clause = self.level().clause;
        match clause {
            Clause::Targets | Clause::OrderBy | Clause::DistinctOn => Ok(()),
            Clause::Having => Err(not_allowed("HAVING", location)),
            Clause::FromFunction => {
                let message = "set-returning functions must appear at top level of FROM";
                Err(at(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message), location))
            }
            Clause::GroupBy => {
                Err(at(SqlError::unsupported("a set-returning function in GROUP BY"), location))
            }
            Clause::Window => {
                let feature = "a set-returning function in PARTITION BY or ORDER BY of a window";
                Err(at(SqlError::unsupported(feature), location))
            }
            Clause::FrameRows | Clause::FrameRange | Clause::FrameGroups => {
                Err(not_allowed("window definitions", location))
            }
            other => Err(not_allowed(other.refuses_aggregates().unwrap_or("this place"), location)),
        }
    }

    /// Binds something in which functions that give rows may not stand.
    pub(super) fn without_sets(
        &mut self,
        what: &str,
        f: impl FnOnce(&mut Self) -> SqlResult<Expr>,
    ) -> SqlResult<Expr> {
        let count = |b: &mut Self| b.level().sets.iter().map(|s| s.list.len()).sum::<usize>();
        let before = count(self);
        let e = f(self)?;
        if count(self) > before {
            let hint = "You might be able to move the set-returning function into a LATERAL FROM item.";
            let found = place_in(self.level(), &e, 0).unwrap_or(u32::MAX);
            return Err(super::tree::at_expr(not_allowed(what, -1).hint(hint), found));
        }
        Ok(e)
    }

    /// What a call is made of (S2).
    fn made_of(&mut self, name: &str, mut args: Vec<Expr>, location: i32) -> SqlResult<(Kind, Vec<Expr>)> {
        if let Some((_, function, kind)) = ARRAYS.iter().find(|a| a.0 == name) {
            let array = self.builtin(function, args, location).map_err(|mut e| {
                e.0.message = e.0.message.replace(function, name);
                e
            })?;
            return Ok((*kind, vec![array]));
        }
        let rel = match name {
            "unnest" => {
                if let [only] = &args[..]
                    && only.ty.id.is_array()
                {
                    return Ok((Kind::Items, args));
                }
                if args.len() > 1 && args.iter().all(|a| a.ty.id.is_array()) {
                    return Err(at(array::no_unnest(&args), location));
                }
                let wrong = args.iter().position(|a| !a.ty.id.is_array()).unwrap_or(0);
                let wrong: Vec<Expr> = args.drain(wrong..).take(1).collect();
                return Err(at(array::no_unnest(&wrong), location));
            }
            "generate_subscripts" => array::subscript_series(self, args, location)?,
            _ => super::call::series(self, args, location)?,
        };
        match rel {
            Rel::Series { start, stop, step, by: None } => Ok((Kind::Series, vec![start, stop, step])),
            Rel::Series { start, .. } => {
                let feature = format!("generate_series over {} outside of FROM", name_of(start.ty.id));
                Err(at(SqlError::unsupported(feature), location))
            }
            _ => Err(unexpected(name)),
        }
    }

    /// Puts a function beside the others of the query, and gives its value.
    fn add_set(&mut self, name: &str, kind: Kind, values: Vec<Expr>, location: i32) -> SqlResult<Expr> {
        let level = self.level();
        // S1: behind all that its arguments use.
        let behind = level.sets.iter().rposition(|s| {
            let mut uses = false;
            for v in &values {
                walk_expr(v, 0, &mut |e, inner| {
                    uses |= matches!(e.kind, ExprKind::Column { depth, rel, .. } if depth == inner && rel == s.rel);
                    !uses
                });
            }
            uses
        });
        let n = behind.map_or(0, |b| b + 1);
        if n == level.sets.len() {
            if level.rels.len() == MAX_RELS {
                let message = format!("a query of more than {MAX_RELS} tables is not possible");
                return Err(at(SqlError::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, message), location));
            }
            let rel = level.rels.len() as u16;
            let columns = vec![("place".to_string(), Type::INT8)];
            level.rels.push(RelEntry { rel: Rel::Values(vec![]), alias: String::new(), columns });
            level.sets.push(Sets { rel, list: vec![], values: vec![], names: vec![] });
        }
        let sets = &mut level.sets[n];
        let volatile = values.iter().any(|v| v.calls(Volatility::Volatile));
        let same = |(k, at): &(Kind, usize)| {
            *k == kind && values.iter().zip(&sets.values[*at..]).all(|(a, b)| group::same(a, b))
        };
        // S3
        let found = sets.list.iter().find(|s| !volatile && same(s)).map(|s| s.1);
        let first = found.unwrap_or_else(|| {
            let first = sets.values.len();
            sets.list.push((kind, first));
            sets.names.resize(first, String::new());
            sets.names.push(name.to_string());
            sets.values.extend(values);
            first
        });
        let rel = sets.rel;
        let columns: Vec<Expr> =
            (first..first + kind.values()).map(|i| column(rel, i + 1, sets.values[i].ty)).collect();
        let mut e = kind.item(&columns, column(rel, 0, Type::INT8));
        e.at = place(location);
        Ok(e)
    }

    /// Functions in FROM beside each other (S1), and the number of each row: a query without FROM. Gives for
    /// each column the name of its function.
    pub(super) fn rows_from(&mut self, calls: &[&'a FuncCall], ordinality: bool) -> SqlResult<Query> {
        let (query, _) = self.nested(Clause::Targets, |b| {
            let mut targets = Vec::new();
            for c in calls {
                let called = b.function_name(&c.funcname, c.location)?;
                let (name, builtin) = (called.name, called.may_be_builtin() && !called.registered);
                let list = if name == "unnest" && builtin && c.args.len() > 1 {
                    // Each array is a column.
                    let mut list = Vec::new();
                    for arg in b.operands(&c.args)?.into_iter().map(coerce::as_array) {
                        list.push(b.set_call(name, vec![arg], c.location)?);
                    }
                    list
                } else {
                    vec![b.func_call(c)?]
                };
                for e in list {
                    let e = b.settle(e)?;
                    let level = b.level();
                    if level.sets.len() > 1 {
                        let message = "set-returning functions must appear at top level of FROM";
                        return Err(at(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message), c.location));
                    }
                    let e = if is_in(level, &e, 0) {
                        e
                    } else {
                        b.add_set(name, Kind::One, vec![e], c.location)?
                    };
                    let fields = super::row::fields_of_type(e.ty.id).filter(|_| e.ty.base() == e.ty);
                    let written_out = || super::row::parts(&e).and_then(|_| b.fields_of(&e));
                    match fields.or_else(written_out) {
                        // Its fields are columns.
                        Some(fields) => {
                            for (i, f) in fields.iter().enumerate() {
                                let expr = b.field_at(e.clone(), i, f);
                                targets.push(Target { expr, name: f.0.clone(), hidden: false })
                            }
                        }
                        None => {
                            let name = super::json::column_name(name).filter(|_| builtin).unwrap_or(name);
                            targets.push(Target { expr: e, name: name.to_string(), hidden: false })
                        }
                    }
                }
                if !b.level().aggregates.is_empty() {
                    let message = "aggregate functions are not allowed in functions in FROM";
                    return Err(at(SqlError::new(sqlstate::GROUPING_ERROR, message), c.location));
                }
                if !b.level().window_calls.is_empty() {
                    let message = "window functions are not allowed in functions in FROM";
                    return Err(at(SqlError::new(sqlstate::WINDOWING_ERROR, message), c.location));
                }
            }
            let level = b.level();
            if ordinality && let Some(sets) = level.sets.first() {
                let expr = column(sets.rel, 0, Type::INT8);
                targets.push(Target { expr, name: "ordinality".into(), hidden: false });
            }
            let places = level.end_sets();
            let rels = std::mem::take(&mut level.rels);
            Ok(Query { rels, places, targets, ..Query::default() })
        })?;
        Ok(query)
    }
}
