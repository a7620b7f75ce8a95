//! json and jsonb: rows with the names of their fields, functions that give rows, subscripts.
//!
//! A row of type `record` does not tell the names of its fields, which its JSON has; the binder knows them
//! and puts them behind the value (record/R7). The names and types of rows that are made of JSON are told by
//! a list of column definitions.

use super::array::unnested;
use super::coerce::can_coerce;
use super::row::Fields;
use super::scope::column;
use super::tree::{at, at_expr, kind, need, place, unexpected};
use super::{Binder, constant, name_of, types};
use crate::bound::{Expr, ExprKind, Query, Rel, Target};
use crate::parse::tree::{FuncCall, Node, node::Node as Kind};
use ondol_types::cast::CastContext;
use ondol_types::catalog::record;
use ondol_types::func::{self, FuncDef, FuncId, id};
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, sqlstate};

/// Functions whose rows have the columns that a list of definitions says, and those that make them: whether
/// of an array of objects, whether of an argument behind a row.
const DEFINED: &[(&str, FuncId, bool, bool)] = &[
    ("json_to_record", id::JSON_TO_RECORD, false, false),
    ("json_to_recordset", id::JSON_TO_RECORDSET, true, false),
    ("jsonb_to_record", id::JSONB_TO_RECORD, false, false),
    ("jsonb_to_recordset", id::JSONB_TO_RECORDSET, true, false),
    ("json_populate_record", id::JSON_TO_RECORD, false, true),
    ("json_populate_recordset", id::JSON_TO_RECORDSET, true, true),
    ("jsonb_populate_record", id::JSONB_TO_RECORD, false, true),
    ("jsonb_populate_recordset", id::JSONB_TO_RECORDSET, true, true),
];

/// Whether a function gives rows of columns that a list of definitions says.
pub fn is_defined(name: &str) -> bool {
    DEFINED.iter().any(|d| d.0 == name)
}

/// The name that the column of a function's rows has of its own, whatever they are called in FROM.
pub fn column_name(function: &str) -> Option<&'static str> {
    const ITEMS: [&str; 4] = [
        "json_array_elements",
        "json_array_elements_text",
        "jsonb_array_elements",
        "jsonb_array_elements_text",
    ];
    ITEMS.contains(&function).then_some("value")
}

/// Whether a function makes rows whose fields may be of domains.
pub fn populates(func: FuncId) -> bool {
    [id::JSON_POPULATE_RECORD, id::JSON_POPULATE, id::JSONB_POPULATE_RECORD].contains(&func)
}

/// The type of JSON that such a function takes.
pub fn taken_by(name: &str) -> TypeId {
    if name.starts_with("jsonb") { TypeId::JSONB } else { TypeId::JSON }
}

/// Whether a function gives a row of the type of its argument.
pub fn gives_row(name: &str) -> bool {
    matches!(name, "json_populate_record" | "jsonb_populate_record")
}

/// Whether it gives them by such a list alone.
pub fn needs_definitions(name: &str) -> bool {
    DEFINED.iter().any(|d| d.0 == name && !d.3)
}

/// Whether a function makes JSON of rows.
pub fn names_fields(func: FuncId) -> bool {
    use id::*;
    [
        TO_JSON,
        TO_JSONB,
        ROW_TO_JSON,
        ROW_TO_JSON_LINES,
        JSON_BUILD_ARRAY,
        JSON_BUILD_OBJECT,
        JSONB_BUILD_ARRAY,
        JSONB_BUILD_OBJECT,
    ]
    .contains(&func)
}

/// Refuses a value that is to be sorted, or told apart from others, and cannot be.
pub fn check_comparable(e: &Expr, ordered: bool) -> SqlResult<()> {
    if e.ty.id.is_comparable() {
        return Ok(());
    }
    let operator = if ordered { "ordering" } else { "equality" };
    let message = format!("could not identify an {operator} operator for type {}", name_of(e.ty.id));
    let error = SqlError::new(sqlstate::UNDEFINED_FUNCTION, message);
    let hint = "Use an explicit ordering operator or modify the query.";
    Err(at_expr(if ordered { error.hint(hint) } else { error }, e.at))
}

/// The same of what GREATEST and LEAST choose among.
pub fn check_greatest(args: &[Expr]) -> SqlResult<()> {
    match args.iter().find(|e| !e.ty.id.is_comparable()) {
        Some(e) => {
            let message = format!("could not identify a comparison function for type {}", name_of(e.ty.id));
            Err(SqlError::new(sqlstate::UNDEFINED_FUNCTION, message))
        }
        None => Ok(()),
    }
}

/// Refuses arrays whose items a function would have to compare, and cannot.
pub fn check_compared(def: &FuncDef, given: &[TypeId]) -> SqlResult<()> {
    const EQUAL: &[&str] = &[
        "array_eq",
        "array_ne",
        "array_position",
        "array_positions",
        "array_remove",
        "array_replace",
        "arraycontained",
        "arraycontains",
        "arrayoverlap",
    ];
    const ORDER: &[&str] = &["array_ge", "array_gt", "array_le", "array_lt", "btarraycmp"];
    let Some(item) = given.iter().filter_map(|t| t.element()).find(|t| !t.is_comparable()) else {
        return Ok(());
    };
    let what = match () {
        () if EQUAL.contains(&def.name) => "an equality operator",
        () if ORDER.contains(&def.name) => "a comparison function",
        () => return Ok(()),
    };
    let message = format!("could not identify {what} for type {}", name_of(item));
    Err(SqlError::new(sqlstate::UNDEFINED_FUNCTION, message))
}

/// Refuses a key of an index whose values cannot be compared.
pub fn check_key(ty: TypeId, method: &str) -> SqlResult<()> {
    if ty.is_comparable() {
        return Ok(());
    }
    let message =
        format!("data type {} has no default operator class for access method \"{method}\"", name_of(ty));
    Err(SqlError::new(sqlstate::UNDEFINED_OBJECT, message).hint(
        "You must specify an operator class for the index or define a default operator class for the data \
         type.",
    ))
}

impl<'a> Binder<'a> {
    /// A row of type `record` with the names of its fields, as far as they are known; anything else as it is.
    pub(super) fn with_names(&self, e: Expr) -> Expr {
        if e.ty.id != TypeId::RECORD || self.is_verbatim() {
            return e;
        }
        let Some(fields) = self.fields_of(&e) else { return e };
        let settled: Fields = fields.iter().map(|(n, t)| (n.clone(), t.base())).collect();
        let template = constant(record::template(e.ty.id, &settled), e.ty, u32::MAX);
        let (ty, here) = (e.ty, e.at);
        let e = match e.kind {
            // Rows within rows have names as well.
            ExprKind::Call { func, mut args } if func == id::ROW => {
                for arg in args.iter_mut().skip(1) {
                    let part = std::mem::replace(arg, super::select::null(Type::UNKNOWN));
                    *arg = self.with_names(part);
                }
                Expr { kind: ExprKind::Call { func, args }, ..e }
            }
            kind => Expr { kind, ..e },
        };
        Expr { kind: ExprKind::Call { func: id::NAMED_ROW, args: vec![template, e] }, ty, at: here }
    }

    /// What a list of column definitions says.
    pub(super) fn definitions(&mut self, nodes: &'a [Node]) -> SqlResult<Fields> {
        let mut fields: Fields = Vec::with_capacity(nodes.len());
        for node in nodes {
            let Kind::ColumnDef(c) = kind(node)? else { return Err(unexpected("a column definition")) };
            let name = c.type_name.as_ref().ok_or_else(|| unexpected("a column without a type"))?;
            let ty = types::any_type(self.names(), name)?;
            if matches!(ty.id, TypeId::UNKNOWN | TypeId::VOID | TypeId::RECORD) {
                let message = format!("column \"{}\" has pseudo-type {}", c.colname, ty.id);
                return Err(at(SqlError::new(sqlstate::INVALID_TABLE_DEFINITION, message), c.location));
            }
            if fields.iter().any(|f| f.0 == c.colname) {
                let message = format!("column name \"{}\" specified more than once", c.colname);
                return Err(at(SqlError::new(sqlstate::DUPLICATE_COLUMN, message), c.location));
            }
            fields.push((c.colname.clone(), ty));
        }
        Ok(fields)
    }

    /// A function whose rows have the columns that a list of definitions says.
    pub(super) fn defined_rows(
        &mut self,
        name: &str,
        c: &'a FuncCall,
        fields: &Fields,
        ordinality: bool,
    ) -> SqlResult<Query> {
        let Some((_, function, is_set, has_row)) = DEFINED.iter().find(|d| d.0 == name).copied() else {
            return Err(unexpected(name));
        };
        let records = TypeId::RECORD.array().unwrap_or(TypeId::RECORD);
        let (array, _) = self.nested(super::scope::Clause::FromFunction, |b| {
            let mut args = b.operands(&c.args)?;
            if has_row {
                let types: Vec<TypeId> = args.iter().map(|a| a.ty.id).collect();
                let is_null = |e: &Expr| match &e.kind {
                    ExprKind::Cast { arg, .. } => matches!(arg.kind, ExprKind::Const(Value::Null)),
                    kind => matches!(kind, ExprKind::Const(Value::Null)),
                };
                match types.first() {
                    Some(t) if *t == TypeId::RECORD && is_null(&args[0]) => drop(args.remove(0)),
                    Some(t) if *t == TypeId::RECORD => {
                        let feature = format!("{name} of a row of type record that is not NULL");
                        return Err(at(SqlError::unsupported(feature), c.location));
                    }
                    _ => {
                        let message =
                            "a column definition list is only allowed for functions returning \"record\"";
                        return Err(at(SqlError::new(sqlstate::SYNTAX_ERROR, message), c.location));
                    }
                }
                args.truncate(1);
            }
            let def = func::get(function);
            let types: Vec<TypeId> = args.iter().map(|a| a.ty.id).collect();
            let wanted = def.args.last().copied().unwrap_or(TypeId::JSON);
            let [arg] = &mut args[..] else { return Err(no_function(name, &types, c.location)) };
            if !can_coerce(arg.ty.id, wanted, CastContext::Implicit) {
                return Err(no_function(name, &types, c.location));
            }
            let arg = std::mem::replace(arg, super::select::null(Type::UNKNOWN));
            let arg = b.cast(arg, Type::new(wanted), false)?;
            let settled: Fields = fields.iter().map(|(n, t)| (n.clone(), t.base())).collect();
            let template =
                constant(record::template(TypeId::RECORD, &settled), Type::new(TypeId::RECORD), u32::MAX);
            let ty = Type::new(if is_set { records } else { TypeId::RECORD });
            let kind = ExprKind::Call { func: function, args: vec![template, arg] };
            let call = Expr { kind, ty, at: place(c.location) };
            Ok(if is_set { call } else { b.array_of_items(Type::new(records), vec![call]) })
        })?;
        let rows = unnested(vec![array], ordinality);
        let columns = rows.columns();
        let mut query = self.columns_of_row(Rel::Query(Box::new(rows)), columns, Some(fields.clone()))?;
        for (target, (_, ty)) in query.targets.iter_mut().zip(fields) {
            let value = std::mem::replace(&mut target.expr, super::select::null(Type::UNKNOWN));
            let value = Expr { ty: Type::new(value.ty.id), ..value };
            target.expr = self.cast(value, *ty, false)?;
        }
        if ordinality {
            let expr = column(0, 1, Type::INT8);
            query.targets.push(Target { expr, name: "ordinality".into(), hidden: false });
        }
        Ok(query)
    }

    /// The subscripts of a value of type jsonb, each a text.
    fn json_subscripts(&mut self, nodes: &'a [Node]) -> SqlResult<Vec<Expr>> {
        let mismatch = |message: &str| SqlError::new(sqlstate::DATATYPE_MISMATCH, message);
        let mut list = Vec::with_capacity(nodes.len());
        for node in nodes {
            let Kind::AIndices(i) = kind(node)? else {
                return Err(SqlError::unsupported("selecting a field"));
            };
            if i.is_slice {
                let bound = i.uidx.as_deref().or(i.lidx.as_deref());
                let here = bound.map_or(u32::MAX, super::dml::node_place);
                return Err(at_expr(mismatch("jsonb subscript does not support slices"), here));
            }
            let e = self.expr(need(&i.uidx)?)?;
            let whole = [TypeId::INT2, TypeId::INT4].contains(&e.ty.id);
            let is_good = whole || e.ty.id.is_string_or_unknown();
            if !is_good {
                let error = mismatch(&format!("subscript type {} is not supported", name_of(e.ty.id)))
                    .hint("jsonb subscript must be coercible to either integer or text.");
                return Err(at_expr(error, e.at));
            }
            list.push(self.cast(e, Type::TEXT, false)?);
        }
        Ok(list)
    }

    /// `value['key'][0]`
    pub(super) fn json_subscripted(&mut self, value: Expr, nodes: &'a [Node]) -> SqlResult<Expr> {
        let here = if self.is_verbatim() { u32::MAX } else { value.at };
        let mut args = vec![value];
        args.extend(self.json_subscripts(nodes)?);
        let ty = Type::new(TypeId::JSONB);
        Ok(Expr { kind: ExprKind::Call { func: id::JSONB_SUBSCRIPT, args }, ty, at: here })
    }

    /// `SET column['key'] = value`: the value that the column has afterwards.
    pub(super) fn json_assigned(
        &mut self,
        name: &str,
        before: Expr,
        nodes: &'a [Node],
        value: Expr,
        location: i32,
    ) -> SqlResult<Expr> {
        let subscripts = self.json_subscripts(nodes)?;
        let ty = Type::new(TypeId::JSONB);
        if !can_coerce(value.ty.id, ty.id, CastContext::Assignment) {
            let message = format!(
                "subscripted assignment to \"{name}\" requires type jsonb but expression is of type {}",
                name_of(value.ty.id)
            );
            let error = SqlError::new(sqlstate::DATATYPE_MISMATCH, message)
                .hint("You will need to rewrite or cast the expression.");
            return Err(at(error, location));
        }
        let mut args = vec![before, self.cast(value, ty, false)?];
        args.extend(subscripts);
        Ok(Expr { kind: ExprKind::Call { func: id::JSONB_ASSIGN, args }, ty, at: place(location) })
    }
}

fn no_function(name: &str, given: &[TypeId], location: i32) -> SqlError {
    let list = given.iter().map(|t| name_of(*t)).collect::<Vec<_>>().join(", ");
    let message = format!("function {name}({list}) does not exist");
    let error = SqlError::new(sqlstate::UNDEFINED_FUNCTION, message).hint(
        "No function matches the given name and argument types. You might need to add explicit type casts.",
    );
    at(error, location)
}
