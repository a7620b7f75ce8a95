//! Registered queries: functions in SQL, made, dropped, and their bodies bound.
//!
//! A body is one statement: a query, or an INSERT, UPDATE or DELETE. Its arguments are parameters, by number
//! or by name. The body is bound when the function is made, to check it, and again by whoever compiles it.

use super::check::{elsewhere, with_text};
use super::names::{Called, parts};
use super::scope::Clause;
use super::tree::{
    at, at_expr, kind, list, option_bool, option_text, options, refuse, refuse_at, string, strings,
    unexpected,
};
use super::types::{any_type, bind_type};
use super::written::Notes;
use super::{Binder, accepted, coerce, name_of};
use crate::bound::{Bound, Dropped, Expr, Statement, Target, walk_expr_mut};
use crate::catalog::fixed;
use crate::parse::lexer::{TokenKind, Tokens};
use crate::parse::tree::{
    self, CreateFunctionStmt, DropBehavior, DropStmt, FunctionParameter, FunctionParameterMode,
    ObjectWithArgs, TypeName, node::Node as Kind,
};
use crate::parse::{Raw, expression_text, parse};
use ondol_engine::name::TEMPORARY;
use ondol_engine::{Catalog, FunctionDef, Name, Path, Returns};
use ondol_types::cast::CastContext;
use ondol_types::func::Volatility;
use ondol_types::style::Styles;
use ondol_types::{SqlError, SqlResult, Type, TypeId, sqlstate};

/// Binds a body with its arguments as parameters, and casts what it gives to what the function returns. Its
/// literals are read in the usual styles when it is called.
pub fn bind_body(function: &FunctionDef, catalog: &Catalog, styles: Styles) -> SqlResult<Bound> {
    let raws = parse(&function.body)?;
    let raw: &Raw = match raws.as_slice() {
        [one] => one,
        [] => return Err(SqlError::unsupported("a function with an empty body")),
        _ => return Err(SqlError::unsupported("a function of several statements")),
    };
    if !matches!(
        raw.node,
        Kind::SelectStmt(_) | Kind::InsertStmt(_) | Kind::UpdateStmt(_) | Kind::DeleteStmt(_)
    ) {
        return Err(SqlError::unsupported(
            "a function of something else than SELECT, INSERT, UPDATE or DELETE",
        ));
    }
    let types: Vec<TypeId> = function.args.iter().map(|a| a.1.id).collect();
    let path = Path::of(catalog, &function.path);
    let mut binder =
        Binder::new(catalog, &function.body, &types).with_path(&path, &function.path).in_styles(styles);
    binder.open_params = false;
    binder.function = Some((&function.name, &function.args));
    let mut statement = binder.statement(&raw.node, raw)?;
    binder.return_columns(&mut statement, &function.returns)?;
    binder.finish_params(&mut statement)?;
    let needs = binder.take_needs(&statement);
    Ok(Bound {
        needs,
        statement,
        params: binder.params,
        catalog_version: catalog.version,
        notices: binder.notices,
        foreign: binder.opened,
        otherwise: binder.otherwise,
    })
}

/// What an argument of a function is where a call leaves it out.
pub fn left_out(catalog: &Catalog, f: &FunctionDef, place: usize) -> SqlResult<Expr> {
    let (mut e, _) = default_in(catalog, f, place, false)?;
    walk_expr_mut(&mut e, 0, &mut |e, _| {
        e.at = u32::MAX;
        true
    });
    Ok(e)
}

/// The functions that call another where a call of theirs leaves an argument out.
pub fn leaning_on(catalog: &Catalog, function: u32) -> Vec<u32> {
    let leans = |f: &FunctionDef| {
        let first = f.args.len().saturating_sub(f.defaults.len());
        let calls = |n| left_out(catalog, f, n).is_ok_and(|e| super::index::calls(&e, function));
        (first..f.args.len()).any(calls)
    };
    let all = catalog.functions.values().filter(|f| f.id != function && !f.defaults.is_empty());
    all.filter(|f| leans(f)).map(|f| f.id).collect()
}

/// The same as it is written ([`super::written`]).
pub fn default_as_written(catalog: &Catalog, f: &FunctionDef, place: usize) -> SqlResult<(Expr, Notes)> {
    default_in(catalog, f, place, true)
}

fn default_in(catalog: &Catalog, f: &FunctionDef, place: usize, verbatim: bool) -> SqlResult<(Expr, Notes)> {
    let text = f.default_of(place).ok_or_else(|| unexpected("an argument without a default"))?;
    with_text(catalog, text, verbatim, |b, node| b.argument_default(node, f.args[place].1)).map_err(elsewhere)
}

fn mismatch(returns: &str, detail: impl Into<String>) -> SqlError {
    let message = format!("return type mismatch in function declared to return {returns}");
    SqlError::new(sqlstate::INVALID_FUNCTION_DEFINITION, message).detail(detail)
}

impl<'a> Binder<'a> {
    /// Casts a body's columns to what the function returns.
    fn return_columns(&mut self, statement: &mut Statement, returns: &Returns) -> SqlResult<()> {
        let (wanted, name): (Vec<Type>, String) = match returns {
            Returns::Void => return Ok(()),
            Returns::Scalar { ty, .. } => (vec![*ty], name_of(ty.id).to_string()),
            Returns::Rows { of, columns, .. } => (
                columns.iter().map(|c| c.1).collect(),
                of.as_ref().map_or("record".into(), |of| of.name.clone()),
            ),
        };
        let have = statement.columns();
        if let (Returns::Scalar { ty, .. }, Statement::Query(q)) = (returns, &mut *statement)
            && super::row::is_row(ty.id)
            && !(have.len() == 1 && coerce::can_coerce(have[0].1.id, ty.id, CastContext::Assignment))
            && let Some(row) = self.query_as_row(q, ty.id)?
        {
            *q = row;
            return Ok(());
        }
        if let Returns::Scalar { ty, .. } = returns
            && let Some(fields) = ondol_types::user::composite::fields(ty.id)
            && !have.is_empty()
            && !(have.len() == 1 && coerce::can_coerce(have[0].1.id, ty.id, CastContext::Assignment))
        {
            let differs = |(h, p): (&(String, Type), &ondol_types::user::Part)| {
                !coerce::can_coerce(h.1.id, p.of().id, CastContext::Assignment)
            };
            let detail = match have.iter().zip(fields).position(differs) {
                Some(i) => format!(
                    "Final statement returns {} instead of {} at column {}.",
                    name_of(have[i].1.id),
                    name_of(fields[i].of().id),
                    i + 1
                ),
                None if have.len() < fields.len() => "Final statement returns too few columns.".into(),
                None => "Final statement returns too many columns.".into(),
            };
            return Err(mismatch(&name, detail));
        }
        if have.is_empty() {
            return Err(mismatch(
                &name,
                "Function's final statement must be SELECT or INSERT/UPDATE/DELETE RETURNING.",
            ));
        }
        if have.len() != wanted.len() {
            return Err(mismatch(
                &name,
                if matches!(returns, Returns::Scalar { .. }) {
                    "Final statement must return exactly one column."
                } else if have.len() < wanted.len() {
                    "Final statement returns too few columns."
                } else {
                    "Final statement returns too many columns."
                },
            ));
        }
        let single = matches!(returns, Returns::Scalar { .. });
        let mut convert = |b: &mut Binder<'_>, i: usize, e: Expr| -> SqlResult<Expr> {
            let to = wanted[i];
            if !coerce::can_coerce(e.ty.id, to.id, CastContext::Assignment) {
                let actual = name_of(e.ty.id);
                return Err(mismatch(
                    &name,
                    if single {
                        format!("Actual return type is {actual}.")
                    } else {
                        format!(
                            "Final statement returns {actual} instead of {} at column {}.",
                            name_of(to.id),
                            i + 1
                        )
                    },
                ));
            }
            b.cast(e, to, false)
        };
        match statement {
            Statement::Query(q) => {
                let query = std::mem::take(q);
                *q = coerce::convert_targets(self, query, &mut convert)?;
            }
            Statement::Insert(i) => self.convert_returning(&mut i.returning, &mut convert)?,
            Statement::Modify(m) => self.convert_returning(&mut m.returning, &mut convert)?,
            _ => return Err(unexpected("a function's body")),
        }
        Ok(())
    }

    fn convert_returning(
        &mut self,
        targets: &mut [Target],
        convert: &mut dyn FnMut(&mut Binder<'_>, usize, Expr) -> SqlResult<Expr>,
    ) -> SqlResult<()> {
        for (i, t) in targets.iter_mut().enumerate() {
            let e = std::mem::replace(&mut t.expr, super::select::null(Type::UNKNOWN));
            t.expr = convert(self, i, e)?;
        }
        Ok(())
    }

    pub(super) fn create_function(
        &mut self,
        s: &'a CreateFunctionStmt,
        _raw: &'a Raw,
    ) -> SqlResult<Statement> {
        refuse(s.is_procedure, "CREATE PROCEDURE")?;
        let place = self.names().place_of(&s.funcname)?;
        let Parameters { args, defaults, variadic, columns } = self.parameters(&s.parameters)?;
        let returns = self.returns(s, columns)?;
        let (body, volatility, definer) = self.function_options(s)?;
        let (Name { schema, name }, path) = (place, self.listed.to_string());
        let code = Vec::new();
        let id = 0;
        let function = FunctionDef {
            id,
            schema,
            name,
            path,
            args,
            defaults,
            variadic,
            returns,
            body,
            code,
            volatility,
            definer,
        };
        let named = self.functions(Some(schema), &function.name);
        if let Some(old) = named.into_iter().find(|f| f.arg_types().eq(function.arg_types())) {
            let name = &function.name;
            if !s.replace {
                let message = format!("function \"{name}\" already exists with same argument types");
                return Err(SqlError::new(sqlstate::DUPLICATE_FUNCTION, message));
            }
            if old.returns != function.returns {
                let message = "cannot change return type of existing function";
                return Err(SqlError::new(sqlstate::INVALID_FUNCTION_DEFINITION, message)
                    .hint(format!("Use DROP FUNCTION {name}({}) first.", type_names(&function.args))));
            }
            let hint = || format!("Use DROP FUNCTION {name}({}) first.", type_names(&function.args));
            let renamed = old.args.iter().zip(&function.args).find(|(o, n)| o.0.is_some() && o.0 != n.0);
            if let Some((Some(was), _)) = renamed.map(|(o, n)| (&o.0, n)) {
                let message = format!("cannot change name of input parameter \"{was}\"");
                return Err(SqlError::new(sqlstate::INVALID_FUNCTION_DEFINITION, message).hint(hint()));
            }
            if function.defaults.len() < old.defaults.len() {
                let message = "cannot remove parameter defaults from existing function";
                return Err(SqlError::new(sqlstate::INVALID_FUNCTION_DEFINITION, message).hint(hint()));
            }
        }
        if self.check_bodies {
            let body = bind_body(&function, self.catalog, self.styles).map_err(|mut e| {
                // Its place is in the body: in the statement it is behind the opening quote.
                e.0.position =
                    e.0.position.and_then(|p| self.body_start(s, &function.body).map(|start| start + p));
                e
            })?;
            self.otherwise = body.otherwise
        }
        Ok(Statement::CreateFunction { function: Box::new(function), replace: s.replace })
    }

    /// The value of an argument that calls may leave out; nothing of a query may stand in it.
    fn argument_default(&mut self, value: &'a tree::Node, ty: Type) -> SqlResult<Expr> {
        let open = std::mem::replace(&mut self.open_params, false);
        let bound = self.nested(Clause::Default, |b| b.expr(value));
        self.open_params = open;
        let (e, _) = bound?;
        if let Some(here) = super::dml::subquery_in(&e) {
            let message = "cannot use subquery in DEFAULT expression";
            return Err(at_expr(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message), here));
        }
        if !coerce::can_coerce(e.ty.id, ty.id, CastContext::Assignment) {
            let (wanted, found) = (name_of(ty.id), name_of(e.ty.id));
            let message = format!("argument of DEFAULT must be type {wanted}, not type {found}");
            return Err(at_expr(SqlError::new(sqlstate::DATATYPE_MISMATCH, message), e.at));
        }
        self.cast(e, ty, false)
    }

    /// What stands in the parentheses behind the name.
    fn parameters(&mut self, nodes: &'a [tree::Node]) -> SqlResult<Parameters> {
        let mut found = Parameters::default();
        for node in nodes {
            let Parameters { args, defaults, variadic, columns } = &mut found;
            let Kind::FunctionParameter(p) = kind(node)? else { return Err(unexpected("a parameter")) };
            let p: &FunctionParameter = p;
            let ty = bind_type(
                self.names(),
                p.arg_type.as_ref().ok_or_else(|| unexpected("a parameter without a type"))?,
            )?;
            if ty.id.element().unwrap_or(ty.id) == TypeId::RECORD {
                let message = format!("SQL functions cannot have arguments of type {}", name_of(ty.id));
                return Err(SqlError::new(sqlstate::INVALID_FUNCTION_DEFINITION, message));
            }
            refuse_at(
                ty.id.user().is_some_and(|u| u.schema == TEMPORARY),
                "a function that takes rows of a temporary table",
                p.location,
            )?;
            match p.mode() {
                FunctionParameterMode::FuncParamIn
                | FunctionParameterMode::FuncParamDefault
                | FunctionParameterMode::FuncParamVariadic => {
                    let wrong = |message: &str| {
                        Err(SqlError::new(sqlstate::INVALID_FUNCTION_DEFINITION, message.to_string()))
                    };
                    if *variadic {
                        return wrong("VARIADIC parameter must be the last input parameter");
                    }
                    *variadic = p.mode() == FunctionParameterMode::FuncParamVariadic;
                    if *variadic && !ty.id.is_array() {
                        return wrong("VARIADIC parameter must be an array");
                    }
                    let name = (!p.name.is_empty()).then(|| p.name.clone());
                    if name.is_some() && args.iter().any(|a| a.0 == name) {
                        let message = format!("parameter name \"{}\" used more than once", p.name);
                        return Err(SqlError::new(sqlstate::INVALID_FUNCTION_DEFINITION, message));
                    }
                    // Arguments have no modifier, as in PostgreSQL.
                    let ty = Type::new(ty.id);
                    args.push((name, ty));
                    match p.defexpr.as_deref() {
                        None if defaults.is_empty() => {}
                        None => {
                            return wrong(
                                "input parameters after one with a default value must also have defaults",
                            );
                        }
                        Some(value) => {
                            self.argument_default(value, ty)?;
                            let text =
                                self.kept_text(value, &|b, value| b.argument_default(value, ty).map(drop))?;
                            defaults.push(self.with_schemas_of_sequences(&text))
                        }
                    }
                }
                FunctionParameterMode::FuncParamTable => columns.push((p.name.clone(), Type::new(ty.id))),
                FunctionParameterMode::FuncParamOut => {
                    return Err(at(SqlError::unsupported("an OUT argument"), p.location));
                }
                FunctionParameterMode::FuncParamInout => {
                    return Err(at(SqlError::unsupported("an INOUT argument"), p.location));
                }
                FunctionParameterMode::Undefined => return Err(unexpected("a parameter's mode")),
            }
        }
        Ok(found)
    }

    fn returns(&self, s: &'a CreateFunctionStmt, columns: Vec<(String, Type)>) -> SqlResult<Returns> {
        if !columns.is_empty() {
            return Ok(Returns::Rows { of: None, columns, set: true });
        }
        let Some(name) = &s.return_type else {
            let message = "function result type must be specified";
            return Err(SqlError::new(sqlstate::INVALID_FUNCTION_DEFINITION, message));
        };
        let set = name.setof;
        let single = TypeName { setof: false, ..name.clone() };
        let names = strings(&name.names)?;
        let table = match names[..] {
            [n] if Type::by_name(n, &[]).is_err() => {
                self.catalog.find(self.path, n).and_then(|f| f.1.table())
            }
            [schema, n] => {
                self.catalog.schema(schema).and_then(|s| self.catalog.table(Name::new(s.number, n)))
            }
            _ => None,
        };
        if let Some(t) = table {
            refuse_at(
                t.def.schema == TEMPORARY,
                "a function that returns rows of a temporary table",
                name.location,
            )?;
            // A dump has functions before views.
            let is_material = t.def.is_material();
            refuse_at(is_material, "a function that returns rows of a materialized view", name.location)?;
            refuse_at(!name.array_bounds.is_empty() || name.pct_type, "an array type", name.location)?;
            let columns = t.def.shown().iter().map(|c| (c.name.clone(), c.ty)).collect();
            return Ok(Returns::Rows { of: Some(t.def.full_name()), columns, set });
        }
        let ty = any_type(self.names(), &single)?;
        refuse_at(
            ty.id.element().unwrap_or(ty.id) == TypeId::RECORD,
            "a function that returns record",
            name.location,
        )?;
        refuse_at(
            ty.id.user().is_some_and(|u| u.schema == TEMPORARY),
            "a function that returns rows of a temporary table",
            name.location,
        )?;
        match ty.id {
            TypeId::VOID => {
                refuse_at(set, "RETURNS SETOF void", name.location)?;
                Ok(Returns::Void)
            }
            TypeId::UNKNOWN => bind_type(self.names(), &single).map(|ty| Returns::Scalar { ty, set }),
            _ => Ok(Returns::Scalar { ty: Type::new(ty.id), set }),
        }
    }

    /// The body, and the volatility.
    fn function_options(&mut self, s: &'a CreateFunctionStmt) -> SqlResult<(String, Volatility, bool)> {
        let mut body: Option<String> = None;
        let mut volatility = Volatility::Volatile;
        let mut language: Option<String> = None;
        let mut definer = false;
        let given = options(&s.options)?;
        for (i, o) in given.iter().enumerate() {
            let here = o.location;
            if given[..i].iter().any(|p| p.defname == o.defname) {
                let message = "conflicting or redundant options";
                return Err(at(SqlError::new(sqlstate::SYNTAX_ERROR, message), here));
            }
            match o.defname.as_str() {
                "language" => language = option_text(o)?,
                "as" => {
                    let arg = o.arg.as_deref().ok_or_else(|| unexpected("AS without a body"))?;
                    let [text] = list(arg)? else {
                        return Err(at(SqlError::unsupported("a function of an object file"), here));
                    };
                    body = Some(string(text)?.to_string());
                }
                "volatility" => {
                    volatility = option_text(o)?
                        .and_then(|word| Volatility::of_word(&word))
                        .ok_or_else(|| unexpected("a volatility"))?
                }
                "strict" => refuse_at(option_bool(o)?, "STRICT", here)?,
                "security" => definer = option_bool(o)?,
                "leakproof" => refuse_at(option_bool(o)?, "LEAKPROOF", here)?,
                "window" => refuse_at(option_bool(o)?, "a window function", here)?,
                "cost" | "rows" => self.notice(accepted::FUNCTION_COST),
                "parallel" => match option_text(o)?.as_deref() {
                    Some("safe" | "unsafe" | "restricted") => self.notice(accepted::FUNCTION_PARALLEL),
                    _ => {
                        let message = "parameter \"parallel\" must be SAFE, RESTRICTED, or UNSAFE";
                        return Err(at(SqlError::new(sqlstate::SYNTAX_ERROR, message), here));
                    }
                },
                "set" => return Err(at(SqlError::unsupported("SET for a function"), here)),
                other => {
                    let feature = format!("{} of a function", other.to_ascii_uppercase());
                    return Err(at(SqlError::unsupported(feature), here));
                }
            }
        }
        match language.as_deref().map(str::to_ascii_lowercase).as_deref() {
            Some("sql") => {}
            None if s.sql_body.is_some() => {}
            None => {
                let message = "no language specified";
                return Err(SqlError::new(sqlstate::INVALID_FUNCTION_DEFINITION, message));
            }
            Some(known @ ("plpgsql" | "c" | "internal")) => {
                return Err(SqlError::unsupported(format_args!("language \"{known}\"")));
            }
            Some(other) => {
                let message = format!("language \"{other}\" does not exist");
                return Err(SqlError::new(sqlstate::UNDEFINED_OBJECT, message));
            }
        }
        let body = match (body, s.sql_body.as_deref()) {
            (Some(_), Some(_)) => {
                let message = "duplicate function body specified";
                return Err(SqlError::new(sqlstate::INVALID_FUNCTION_DEFINITION, message));
            }
            (Some(body), None) => body,
            (None, Some(sql)) => match kind(sql)? {
                Kind::ReturnStmt(r) => {
                    let value = super::tree::need(&r.returnval)?;
                    format!("SELECT {}", expression_text(value)?)
                }
                _ => return Err(SqlError::unsupported("BEGIN ATOMIC")),
            },
            (None, None) => {
                let message = "no function body specified";
                return Err(SqlError::new(sqlstate::INVALID_FUNCTION_DEFINITION, message));
            }
        };
        if definer {
            let tells = ["current_user", "current_role", "user", "_privilege", "pg_has_role"];
            let lower = body.to_lowercase();
            let said = |word: &&&str| {
                lower.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|w| match **word {
                    "user" => w == "user",
                    part => w.contains(part),
                })
            };
            if let Some(word) = tells.iter().find(said) {
                return Err(SqlError::unsupported(format_args!("{word} in a SECURITY DEFINER function")));
            }
        }
        Ok((body, volatility, definer))
    }

    /// Where a body starts in the statement, if it stands there as it is.
    fn body_start(&self, s: &CreateFunctionStmt, body: &str) -> Option<usize> {
        let option = options(&s.options).ok()?.into_iter().find(|o| o.defname == "as")?;
        let from = usize::try_from(option.location).ok()?;
        let quoted = Tokens::from(self.text, from).nth(1).filter(|t| t.kind == TokenKind::String)?;
        let text = self.text.get(quoted.start..quoted.end)?;
        let open = match text.strip_prefix('$') {
            Some(rest) => rest.find('$')? + 2,
            None => text.find('\'')? + 1,
        };
        text.get(open..)?.starts_with(body).then_some(quoted.start + open)
    }

    pub(super) fn drop_function(&mut self, s: &'a DropStmt) -> SqlResult<Statement> {
        let mut functions = Vec::with_capacity(s.objects.len());
        for node in &s.objects {
            let Kind::ObjectWithArgs(o) = kind(node)? else { return Err(unexpected("DROP FUNCTION")) };
            functions.push(match self.function_meant(o) {
                Ok(id) => Dropped::There(id),
                Err(e) if s.missing_ok => match missing(&e, o) {
                    Some(notice) => Dropped::Missing(format!("{notice}, skipping")),
                    None => return Err(e),
                },
                Err(e) => return Err(e),
            });
        }
        let cascade = s.behavior() == DropBehavior::DropCascade;
        Ok(Statement::DropFunction { functions, if_exists: s.missing_ok, cascade })
    }

    /// The number of the one function that is meant by its name, with or without its arguments.
    pub(super) fn function_meant(&self, o: &'a ObjectWithArgs) -> SqlResult<u32> {
        let called = self.function_name(&o.objname, -1)?;
        let (named, name) = (self.functions(called.schema, called.name), called.written());
        if o.args_unspecified {
            return match named[..] {
                [one] => Ok(one.id),
                [] => Err(builtin(&called, None).unwrap_or_else(|| {
                    let message = format!("could not find a function named \"{name}\"");
                    SqlError::new(sqlstate::UNDEFINED_FUNCTION, message)
                })),
                _ => {
                    let message = format!("function name \"{name}\" is not unique");
                    Err(SqlError::new(sqlstate::AMBIGUOUS_FUNCTION, message)
                        .hint("Specify the argument list to select the function unambiguously."))
                }
            };
        }
        let mut types: Vec<TypeId> = Vec::with_capacity(o.objargs.len());
        for arg in &o.objargs {
            let Kind::TypeName(t) = kind(arg)? else { return Err(unexpected("an argument type")) };
            types.push(bind_type(self.names(), t)?.id);
        }
        if let Some(f) = named.iter().find(|f| f.arg_types().eq(types.iter().copied())) {
            return Ok(f.id);
        }
        if let Some(e) = builtin(&called, Some(&types)) {
            return Err(e);
        }
        let list = types.iter().map(|t| name_of(*t)).collect::<Vec<_>>().join(", ");
        let message = format!("function {name}({list}) does not exist");
        Err(SqlError::new(sqlstate::UNDEFINED_FUNCTION, message))
    }
}

/// What CREATE FUNCTION says of what a function takes, and of the columns of RETURNS TABLE.
#[derive(Default)]
struct Parameters {
    args: Vec<(Option<String>, Type)>,
    /// Of the last of them.
    defaults: Vec<String>,
    variadic: bool,
    columns: Vec<(String, Type)>,
}

/// The error of a function that is PostgreSQL's own, of these types or of any.
fn builtin(called: &Called<'_>, types: Option<&[TypeId]>) -> Option<SqlError> {
    let oids: Option<Vec<u32>> = types.map(|t| t.iter().map(|t| t.oid()).collect());
    let of_types = |f: &&fixed::Function| oids.as_ref().is_none_or(|o| f.args == *o);
    let f = called.may_be_builtin().then(|| {
        let mut named = fixed::functions().iter().filter(|f| f.name == called.name).filter(of_types);
        named.clone().find(|f| f.is_here).or_else(|| named.next())
    })??;
    Some(match (f.is_here, types) {
        (true, _) => {
            SqlError::unsupported(format_args!("changing the function {} of schema pg_catalog", called.name))
        }
        (false, Some(types)) => {
            let types: Vec<&str> = types.iter().map(|t| name_of(*t)).collect();
            SqlError::unsupported(format_args!("function {}({})", called.name, types.join(", ")))
        }
        (false, None) => SqlError::unsupported(format_args!("function {}", called.name)),
    })
}

/// What DROP ... IF EXISTS says of a function that is not there.
fn missing(e: &SqlError, o: &ObjectWithArgs) -> Option<String> {
    match e.sqlstate() {
        "3F000" | sqlstate::UNDEFINED_OBJECT => Some(e.0.message.clone()),
        sqlstate::UNDEFINED_FUNCTION if o.args_unspecified => {
            let (schema, name) = parts(&o.objname).ok()?;
            let name = schema.map_or(name.to_string(), |s| format!("{s}.{name}"));
            Some(format!("function {name}() does not exist"))
        }
        sqlstate::UNDEFINED_FUNCTION => {
            let (schema, name) = parts(&o.objname).ok()?;
            let name = schema.map_or(name.to_string(), |s| format!("{s}.{name}"));
            // As the grammar has them.
            let of = |n: &tree::Node| match kind(n) {
                Ok(Kind::TypeName(t)) => {
                    let array = if t.array_bounds.is_empty() { "" } else { "[]" };
                    Some(format!("{}{array}", strings(&t.names).ok()?.join(".")))
                }
                _ => None,
            };
            let args: Vec<String> = o.objargs.iter().filter_map(of).collect();
            Some(format!("function {name}({}) does not exist", args.join(",")))
        }
        _ => None,
    }
}

fn type_names(args: &[(Option<String>, Type)]) -> String {
    args.iter().map(|a| name_of(a.1.id)).collect::<Vec<_>>().join(",")
}
