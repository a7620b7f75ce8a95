//! The functions that tell of objects (`ondol_types::func::system`).

use super::activity;
use super::fixed;
use super::key::with_constraint;
use super::name::{self, in_schema, named, shown_type, type_name};
use super::routine::gives_set;
use super::sight::{DATABASE, Object, Sight, schema_oid};
use super::table::{bytes, index_bytes};
use crate::bind::updatable::{self, ALL_EVENTS, OF_UPDATABLE};
use crate::deparse::{self, DomainText, TableText, index as index_text};
use ondol_engine::dictionary::action_word;
use ondol_engine::name::TEMPORARY;
use ondol_engine::{CommentKind, Commented, ForeignDef, FunctionDef, KeyAction, Returns, Table, ViewCheck};
use ondol_types::catalog::{name as names, oid, registered};
use ondol_types::func::{FuncId, Volatility, id};
use ondol_types::name::quote;
use ondol_types::objects::ObjectKind;
use ondol_types::user::UserDef;
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, ValueRef, sqlstate};
use std::sync::Arc;

/// The names of PostgreSQL's encodings, in the order of their numbers.
const ENCODINGS: &str = "SQL_ASCII EUC_JP EUC_CN EUC_KR EUC_TW EUC_JIS_2004 UTF8 MULE_INTERNAL LATIN1 LATIN2 \
    LATIN3 LATIN4 LATIN5 LATIN6 LATIN7 LATIN8 LATIN9 LATIN10 WIN1256 WIN1258 WIN866 WIN874 KOI8R WIN1251 WIN1252 \
    ISO_8859_5 ISO_8859_6 ISO_8859_7 ISO_8859_8 WIN1250 WIN1253 WIN1254 WIN1255 WIN1257 KOI8U SJIS BIG5 GBK UHC \
    GB18030 JOHAB SHIFT_JIS_2004";

fn number(args: &[ValueRef<'_>], n: usize) -> u32 {
    match args.get(n) {
        Some(ValueRef::Opaque(_, b)) => b.first_chunk().map_or(0, |b| u32::from_le_bytes(*b)),
        _ => 0,
    }
}

fn text<'a>(args: &[ValueRef<'a>], n: usize) -> &'a str {
    match args.get(n) {
        Some(ValueRef::Text(s)) => s,
        Some(ValueRef::Opaque(_, b)) => std::str::from_utf8(b).unwrap_or_default(),
        _ => "",
    }
}

fn flag(args: &[ValueRef<'_>], n: usize) -> bool {
    matches!(args.get(n), Some(ValueRef::Bool(true)))
}

fn int4(args: &[ValueRef<'_>], n: usize) -> Option<i32> {
    match args.get(n) {
        Some(ValueRef::Int4(i)) => Some(*i),
        _ => None,
    }
}

fn told(text: Option<String>) -> SqlResult<Value> {
    Ok(text.map_or(Value::Null, Value::Text))
}

/// Whether something is found without its schema; NULL if there is no such thing.
fn visible(found: Option<bool>) -> SqlResult<Value> {
    Ok(found.map_or(Value::Null, Value::Bool))
}

/// What a function gives.
pub fn call(sight: &Sight<'_>, function: FuncId, args: &[ValueRef<'_>]) -> SqlResult<Value> {
    let oid_at = |n| number(args, n);
    match function {
        id::FORMAT_TYPE => Ok(match args.first() {
            Some(ValueRef::Opaque(..)) => Value::Text(format_type(sight, oid_at(0), int4(args, 1))),
            _ => Value::Null,
        }),
        id::PG_GET_EXPR | id::PG_GET_EXPR_PRETTY => {
            Ok(Value::Text(expression(sight, text(args, 0), oid_at(1), flag(args, 2))))
        }
        id::PG_GET_RULEDEF | id::PG_GET_RULEDEF_PRETTY => rule(sight, oid_at(0), flag(args, 1)),
        id::PG_GET_CONSTRAINTDEF | id::PG_GET_CONSTRAINTDEF_PRETTY => {
            told(with_constraint(sight, oid_at(0), |table, c| constraint(sight, table, c, flag(args, 1))))
        }
        id::PG_GET_INDEXDEF => told(index(sight, oid_at(0), 0, false)),
        id::PG_GET_INDEXDEF_COLUMN => {
            told(index(sight, oid_at(0), int4(args, 1).unwrap_or(0), flag(args, 2)))
        }
        id::PG_GET_FUNCTIONDEF => told(sight.function(oid_at(0)).map(|f| function_def(sight, f))),
        id::PG_GET_FUNCTION_ARGUMENTS => told(arguments(sight, oid_at(0), true)),
        id::PG_GET_FUNCTION_IDENTITY_ARGUMENTS => told(arguments(sight, oid_at(0), false)),
        id::PG_GET_FUNCTION_RESULT => told(result(sight, oid_at(0))),
        id::PG_GET_USERBYID => Ok(super::role::user_by_id(sight, oid_at(0))),
        id::PG_GET_FUNCTION_ARG_DEFAULT => {
            let place = int4(args, 1).and_then(|n| usize::try_from(n).ok()).and_then(|n| n.checked_sub(1));
            told(
                sight
                    .function(oid_at(0))
                    .zip(place)
                    .and_then(|(f, n)| deparse::of_argument(f, n, sight.catalog, sight.path)),
            )
        }
        // There are no such things.
        id::PG_GET_FUNCTION_SQLBODY
        | id::PG_GET_TRIGGERDEF
        | id::PG_GET_TRIGGERDEF_PRETTY
        | id::PG_GET_STATISTICSOBJDEF
        | id::PG_GET_STATISTICSOBJDEF_COLUMNS
        | id::PG_GET_PARTKEYDEF
        | id::PG_GET_PARTITION_CONSTRAINTDEF
        | id::PG_CONVERSION_IS_VISIBLE
        | id::PG_STATISTICS_OBJ_IS_VISIBLE
        | id::PG_TS_CONFIG_IS_VISIBLE
        | id::PG_TS_DICT_IS_VISIBLE
        | id::PG_TS_PARSER_IS_VISIBLE
        | id::PG_TS_TEMPLATE_IS_VISIBLE
        | id::INET_SERVER_ADDR
        | id::INET_SERVER_PORT
        | id::INET_CLIENT_ADDR
        | id::INET_CLIENT_PORT => Ok(Value::Null),
        id::PG_GET_VIEWDEF
        | id::PG_GET_VIEWDEF_PRETTY
        | id::PG_GET_VIEWDEF_WIDTH
        | id::PG_GET_VIEWDEF_NAME
        | id::PG_GET_VIEWDEF_NAME_PRETTY => view(sight, function, args),
        id::PG_TABLE_IS_VISIBLE => visible(sight.relation(oid_at(0)).map(|o| {
            sight.relation_named("", o.name()).is_some_and(|found| Sight::oid(&found) == oid_at(0))
        })),
        id::PG_TYPE_IS_VISIBLE => visible(match sight.ty(oid_at(0)) {
            Some(ty) => Some(sight.is_type_found(ty)),
            None if let Some((of, _)) = sight.rows_of(oid_at(0)) => {
                let found = sight.relation_named("", of.name());
                Some(found.is_some_and(|o| Sight::oid(&o) == Sight::oid(&of)))
            }
            None => fixed::facts(oid_at(0)).map(|_| true),
        }),
        id::PG_FUNCTION_IS_VISIBLE => visible(match sight.function(oid_at(0)) {
            Some(f) => Some(sight.is_function_found(f)),
            None => fixed::function(oid_at(0)).map(|_| true),
        }),
        id::PG_OPERATOR_IS_VISIBLE => visible(is_fixed("pg_operator", oid_at(0))),
        id::PG_COLLATION_IS_VISIBLE => visible(is_fixed("pg_collation", oid_at(0))),
        id::PG_OPCLASS_IS_VISIBLE => visible(is_fixed("pg_opclass", oid_at(0))),
        id::PG_OPFAMILY_IS_VISIBLE => visible(is_fixed("pg_opfamily", oid_at(0))),
        id::PG_ENCODING_TO_CHAR => {
            let place = int4(args, 0).and_then(|n| usize::try_from(n).ok());
            Ok(names::name(place.and_then(|n| ENCODINGS.split(' ').nth(n)).unwrap_or_default()))
        }
        id::PG_CHAR_TO_ENCODING => {
            let place = ENCODINGS.split(' ').position(|e| e.eq_ignore_ascii_case(text(args, 0)));
            Ok(Value::Int4(place.map_or(-1, |n| n as i32)))
        }
        id::GETDATABASEENCODING | id::PG_CLIENT_ENCODING => Ok(names::name("UTF8")),
        id::PG_RELATION_SIZE | id::PG_RELATION_SIZE_FORK => {
            let fork = if args.len() > 1 { text(args, 1) } else { "main" };
            if !["main", "fsm", "vm", "init"].contains(&fork) {
                let hint = "Valid fork names are \"main\", \"fsm\", \"vm\", and \"init\".";
                let error = SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, "invalid fork name");
                return Err(error.hint(hint));
            }
            let is_main = fork == "main";
            size(sight, oid_at(0), |o| if is_main { own_bytes(o) } else { 0 })
        }
        id::PG_TABLE_SIZE => size(sight, oid_at(0), own_bytes),
        id::PG_INDEXES_SIZE => size(sight, oid_at(0), bytes_of_indexes),
        id::PG_TOTAL_RELATION_SIZE => size(sight, oid_at(0), |o| own_bytes(o) + bytes_of_indexes(o)),
        id::PG_DATABASE_SIZE | id::PG_DATABASE_SIZE_NAME => {
            let is_it = match function {
                id::PG_DATABASE_SIZE => oid_at(0) == DATABASE,
                _ => text(args, 0) == sight.database,
            };
            if !is_it && function == id::PG_DATABASE_SIZE_NAME {
                let message = format!("database \"{}\" does not exist", text(args, 0));
                return Err(SqlError::new("3D000", message));
            }
            let all = sight.tables().map(|t| bytes(t) + bytes_of_indexes(&Object::Table(t.clone())));
            Ok(if is_it { Value::Int8(all.sum::<u64>() as i64) } else { Value::Null })
        }
        id::PG_TABLESPACE_SIZE | id::PG_TABLESPACE_SIZE_NAME => {
            let all = sight.tables().map(|t| bytes(t) + bytes_of_indexes(&Object::Table(t.clone())));
            Ok(Value::Int8(all.sum::<u64>() as i64))
        }
        id::PG_TABLESPACE_LOCATION => Ok(Value::Text(String::new())),
        id::PG_RELATION_FILENODE => Ok(match &sight.relation(oid_at(0)) {
            Some(Object::System(r)) if r.is_view => Value::Null,
            Some(Object::View(_)) => Value::Null,
            Some(_) => oid::oid(oid_at(0)),
            None => Value::Null,
        }),
        id::PG_RELATION_IS_PUBLISHABLE => {
            visible(sight.relation(oid_at(0)).map(|o| matches!(o, Object::Table(_))))
        }
        id::OBJ_DESCRIPTION => told(comment_in(sight, oid_at(0), text(args, 1))),
        id::OBJ_DESCRIPTION_OF_ANY => told(comment_on(sight, oid_at(0), None)),
        id::COL_DESCRIPTION => told(comment_on(sight, oid_at(0), Some(int4(args, 1).unwrap_or(0)))),
        // What all databases share has none.
        id::SHOBJ_DESCRIPTION => Ok(Value::Null),
        id::PG_RELATION_IS_UPDATABLE => Ok(Value::Int4(events(sight, oid_at(0), None))),
        id::PG_COLUMN_IS_UPDATABLE => {
            let column = match args.get(1) {
                Some(ValueRef::Int2(n)) => usize::try_from(*n).ok().and_then(|n| n.checked_sub(1)),
                _ => None,
            };
            let taken = column.map_or(0, |n| events(sight, oid_at(0), Some(n)));
            Ok(Value::Bool(taken & OF_UPDATABLE == OF_UPDATABLE))
        }
        id::VIEW_CHECK => {
            let check = match sight.relation(oid_at(0)) {
                Some(Object::View(v)) => v.check,
                _ => None,
            };
            told(Some(
                check.map_or("NONE", |c| if c == ViewCheck::Local { "LOCAL" } else { "CASCADED" }).into(),
            ))
        }
        id::PG_BACKEND_PID => Ok(Value::Int4(sight.session.process())),
        id::PG_CANCEL_BACKEND => activity::signal(sight, int4(args, 0).unwrap_or(0), false),
        id::PG_TERMINATE_BACKEND => activity::signal(sight, int4(args, 0).unwrap_or(0), true),
        id::PG_BLOCKING_PIDS => activity::blocking(sight, int4(args, 0).unwrap_or(0)),
        id::PG_POSTMASTER_START_TIME => Ok(Value::Timestamptz(sight.session.started_us().0)),
        id::PG_CONF_LOAD_TIME => Ok(Value::Timestamptz(sight.session.started_us().1)),
        id::PG_RELOAD_CONF => activity::reload(sight),
        id::PG_STAT_STATEMENTS_RESET => activity::forget_statements(sight, 0, 0, 0),
        id::PG_STAT_STATEMENTS_RESET_SOME => {
            let statement = match args.get(2) {
                Some(ValueRef::Int8(n)) => *n,
                _ => 0,
            };
            activity::forget_statements(sight, oid_at(0), oid_at(1), statement)
        }
        id::PG_IS_IN_RECOVERY | id::PG_IS_OTHER_TEMP_SCHEMA | id::PG_JIT_AVAILABLE => Ok(Value::Bool(false)),
        id::ROW_SECURITY_ACTIVE | id::ROW_SECURITY_ACTIVE_NAME => Ok(Value::Bool(false)),
        id::PG_MY_TEMP_SCHEMA => {
            let own = schema_oid(TEMPORARY);
            Ok(oid::oid(if sight.schema_name(own).is_some() { own } else { 0 }))
        }
        id::PG_TRIGGER_DEPTH => Ok(Value::Int4(0)),
        id::TO_REGCLASS => to_number(sight, TypeId::REGCLASS, text(args, 0)),
        id::TO_REGTYPE => to_number(sight, TypeId::REGTYPE, text(args, 0)),
        id::TO_REGPROC => to_number(sight, TypeId::REGPROC, text(args, 0)),
        id::TO_REGPROCEDURE => to_number(sight, TypeId::REGPROCEDURE, text(args, 0)),
        id::TO_REGOPER => to_number(sight, TypeId::REGOPER, text(args, 0)),
        id::TO_REGOPERATOR => to_number(sight, TypeId::REGOPERATOR, text(args, 0)),
        id::TO_REGNAMESPACE => to_number(sight, TypeId::REGNAMESPACE, text(args, 0)),
        id::TO_REGROLE => to_number(sight, TypeId::REGROLE, text(args, 0)),
        id::TO_REGCOLLATION => to_number(sight, TypeId::REGCOLLATION, text(args, 0)),
        // They are not counted.
        id::PG_STAT_GET_NUMSCANS => Ok(Value::Int8(0)),
        id::NAMED => Ok(match args.first() {
            Some(ValueRef::Opaque(ty, b)) => named(sight, *ty, registered::number_of(b)),
            _ => Value::Null,
        }),
        id::ACLDEFAULT => match args {
            [ValueRef::Opaque(_, letter), _] => {
                super::role::default_list(sight, letter.first().copied().unwrap_or(0), oid_at(1))
            }
            _ => Ok(Value::Null),
        },
        id::MAKEACLITEM => {
            super::role::make_item(sight, (oid_at(0), oid_at(1)), text(args, 2), flag(args, 3))
        }
        id::OPTION_NAMES | id::OPTION_VALUES => super::foreign::options(args, function == id::OPTION_NAMES),
        id::ACL_GRANTORS | id::ACL_GRANTEES | id::ACL_WORDS | id::ACL_OPTIONS => {
            super::role::exploded(sight, function, args)
        }
        other => super::role::privilege(sight, other, args),
    }
}

/// Which changes a relation takes, or one of its columns.
fn events(sight: &Sight<'_>, oid: u32, column: Option<usize>) -> i32 {
    match sight.relation(oid) {
        Some(Object::Table(t)) if t.def.is_material() || t.def.is_foreign() => 0,
        Some(Object::Table(t)) if column.is_none_or(|n| n < t.def.columns.len()) => ALL_EVENTS,
        Some(Object::System(r)) if !r.is_view && column.is_none_or(|n| n < r.columns.len()) => ALL_EVENTS,
        Some(Object::View(v)) => updatable::events(sight.catalog, &v, column),
        _ => 0,
    }
}

/// The comment on an object that a relation of the catalogue lists: a constraint and its index have the same
/// number.
fn comment_in(sight: &Sight<'_>, oid: u32, relation: &str) -> Option<String> {
    let kind = match relation {
        "pg_class" => CommentKind::Relation,
        "pg_proc" => CommentKind::Function,
        "pg_type" => CommentKind::Type,
        "pg_constraint" | "pg_namespace" => return super::depend::other_comment(sight, oid),
        _ => return None,
    };
    let id = oid.checked_sub(super::sight::oid_of(0))?;
    sight.catalog.comment(&Commented::whole(kind, id)).map(str::to_string)
}

/// The comment on an object of the dictionary, or on a column of a relation.
fn comment_on(sight: &Sight<'_>, oid: u32, column: Option<i32>) -> Option<String> {
    let Some(id) = oid.checked_sub(super::sight::oid_of(0)) else {
        return super::depend::other_comment(sight, oid).filter(|_| column.is_none());
    };
    let Some(column) = column else {
        let kinds = [CommentKind::Relation, CommentKind::Function, CommentKind::Type];
        let found = kinds.into_iter().find_map(|k| sight.catalog.comment(&Commented::whole(k, id)));
        return found.map(str::to_string).or_else(|| super::depend::other_comment(sight, oid));
    };
    let place = usize::try_from(column).ok()?.checked_sub(1)?;
    let name = match sight.relation(oid)? {
        Object::Table(t) => t.def.columns.get(place)?.name.clone(),
        Object::View(v) => v.columns.get(place)?.name.clone(),
        _ => return None,
    };
    sight.catalog.comment(&Commented::part(CommentKind::Column, id, &name)).map(str::to_string)
}

/// `to_regclass` and its like: NULL for a name that is no object's.
fn to_number(sight: &Sight<'_>, ty: TypeId, text: &str) -> SqlResult<Value> {
    let Some(kind) = registered::kind(ty) else { return Ok(Value::Null) };
    match name::find(sight, kind, text) {
        Ok(Some(n)) => Ok(named(sight, ty, n)),
        Ok(None) => Ok(Value::Null),
        // What is not supported here is not there, and several are none.
        Err(e)
            if [sqlstate::FEATURE_NOT_SUPPORTED, sqlstate::AMBIGUOUS_FUNCTION, "3F000"]
                .contains(&e.sqlstate()) =>
        {
            Ok(Value::Null)
        }
        Err(e) => Err(e),
    }
}

fn is_fixed(relation: &str, number: u32) -> Option<bool> {
    fixed::rows(relation).iter().any(|r| r.first() == Some(&oid::oid(number))).then_some(true)
}

fn own_bytes(object: &Object) -> u64 {
    match object {
        Object::Table(t) => bytes(t),
        Object::Index(t, n) => index_bytes(t, *n),
        Object::Sequence(_) | Object::View(_) | Object::Composite(_) | Object::System(_) => 0,
    }
}

fn bytes_of_indexes(object: &Object) -> u64 {
    match object {
        Object::Table(t) => (0..t.indexes.len()).map(|n| index_bytes(t, n)).sum(),
        _ => 0,
    }
}

fn size(sight: &Sight<'_>, oid: u32, of: impl Fn(&Object) -> u64) -> SqlResult<Value> {
    Ok(sight.relation(oid).map_or(Value::Null, |o| Value::Int8(of(&o) as i64)))
}

/// The query that a view is.
fn view(sight: &Sight<'_>, function: FuncId, args: &[ValueRef<'_>]) -> SqlResult<Value> {
    let by_name = [id::PG_GET_VIEWDEF_NAME, id::PG_GET_VIEWDEF_NAME_PRETTY].contains(&function);
    let oid = match by_name {
        true => match name::find(sight, ObjectKind::Relation, text(args, 0))? {
            Some(n) => n,
            None => return Err(registered::missing(ObjectKind::Relation, text(args, 0))),
        },
        false => number(args, 0),
    };
    let pretty = flag(args, 1) || function == id::PG_GET_VIEWDEF_WIDTH;
    match sight.relation(oid) {
        Some(Object::View(v)) => deparse::view(&v, sight.catalog, sight.path, pretty).map(Value::Text),
        Some(Object::Table(t)) => match ondol_engine::ViewDef::of_material(&t.def) {
            Some(v) => deparse::view(&v, sight.catalog, sight.path, pretty).map(Value::Text),
            None => Ok(Value::Null),
        },
        _ => Ok(Value::Null),
    }
}

/// A condition of a domain, or its default.
pub fn domain_text(sight: &Sight<'_>, def: &UserDef, what: DomainText<'_>, pretty: bool) -> Option<String> {
    deparse::of_domain(def, what, sight.catalog, sight.path, pretty).ok()
}

/// What a column's values come from, or a check, by the text that the dictionary has.
fn expression(sight: &Sight<'_>, text: &str, relation: u32, pretty: bool) -> String {
    let of_index = |t: &Table| {
        let shown = |i, pretty| index_text::predicate(sight.catalog, &t.def, i, pretty);
        t.def.indexes.iter().find(|i| shown(i, false).as_deref() == Some(text)).and_then(|i| shown(i, pretty))
    };
    let shown = || {
        let Some(Object::Table(t)) = sight.relation(relation) else { return None };
        let is_it = |c: &ondol_engine::ColumnDef| c.computed().or(c.default.as_deref()) == Some(text);
        let what = match t.def.columns.iter().position(is_it) {
            Some(n) => TableText::Value(n),
            None => match t.def.checks.iter().find(|c| c.text == text) {
                Some(check) => TableText::Condition(&check.text),
                None => return of_index(&t),
            },
        };
        deparse::of_table(&t, what, sight.catalog, sight.path, pretty).ok()
    };
    shown().unwrap_or_else(|| text.to_string())
}

/// The rule that a view is.
fn rule(sight: &Sight<'_>, oid: u32, pretty: bool) -> SqlResult<Value> {
    let Some(v) = sight.catalog.queries().find(|v| super::depend::rule_oid(v.id) == oid) else {
        return Ok(Value::Null);
    };
    let query = deparse::view(v, sight.catalog, sight.path, pretty)?;
    let name = in_schema(sight, schema_oid(v.schema), &v.name, pretty && is_found(sight, v));
    Ok(Value::Text(format!("CREATE RULE \"_RETURN\" AS\n    ON SELECT TO {name} DO INSTEAD {query}")))
}

/// Whether a view is found by its name alone.
fn is_found(sight: &Sight<'_>, v: &ondol_engine::ViewDef) -> bool {
    sight.relation_named("", &v.name).is_some_and(|o| Sight::oid(&o) == super::sight::oid_of(v.id))
}

/// A type with a modifier, or (without) as it is when none is given.
fn format_type(sight: &Sight<'_>, oid: u32, modifier: Option<i32>) -> String {
    match (oid, sight.ty(oid), modifier) {
        (0, ..) => "-".into(),
        (_, Some(TypeId::BPCHAR), Some(-1)) => "bpchar".into(),
        (_, Some(ty), Some(m)) if m >= 0 => shown_type(sight, Type::with(ty, m)),
        _ => type_name(sight, oid).unwrap_or_else(|| "???".into()),
    }
}

/// The statement that makes an index, or one of its columns.
fn index(sight: &Sight<'_>, oid: u32, column: i32, pretty: bool) -> Option<String> {
    let object = sight.relation(oid)?;
    let (t, i) = object.index()?;
    if column != 0 {
        let place = usize::try_from(column - 1).ok();
        let included = |n: usize| {
            let column = i.options.include.get(n.checked_sub(i.keys().len())?)?;
            Some(quote(&t.def.columns[*column].name))
        };
        return Some(match place.and_then(|n| i.keys().get(n)) {
            Some(c) => index_text::key(sight.catalog, &t.def, c, pretty),
            None => place.and_then(included).unwrap_or_default(),
        });
    }
    let unique = if i.unique && !i.options.exclusion { "UNIQUE " } else { "" };
    let object = Object::Table(t.clone());
    let is_short = pretty
        && sight.relation_named("", &t.def.name).is_some_and(|o| Sight::oid(&o) == Sight::oid(&object));
    let table = in_schema(sight, object.schema(), &t.def.name, is_short);
    let body = index_text::body(sight.catalog, &t.def, i, pretty);
    Some(format!("CREATE {unique}INDEX {} ON {table} USING {body}", quote(&i.name)))
}

/// What a constraint says.
fn constraint(
    sight: &Sight<'_>,
    table: Option<&Arc<Table>>,
    c: &super::key::Constraint<'_>,
    pretty: bool,
) -> String {
    let check = || {
        let text = c.check.unwrap_or_default();
        let shown = match (table, sight.ty(c.ty).and_then(|t| t.user())) {
            (Some(t), _) => {
                deparse::of_table(t, TableText::Condition(text), sight.catalog, sight.path, pretty).ok()
            }
            (None, Some(d)) => domain_text(sight, d, DomainText::Condition(text), pretty),
            (None, None) => None,
        };
        shown.unwrap_or_else(|| if pretty { text.to_string() } else { format!("({text})") })
    };
    if let (Some(f), Some(table)) = (c.foreign, table) {
        return foreign(sight, table, f);
    }
    let list = || {
        let name = |n: &i16| {
            let place = usize::try_from(n - 1).unwrap_or(0);
            table.and_then(|t| t.def.columns.get(place)).map_or(String::new(), |c| quote(&c.name))
        };
        c.columns.iter().map(name).collect::<Vec<_>>().join(", ")
    };
    if let (b'x', Some(i), Some(t)) = (c.kind, c.key, table) {
        return index_text::exclusion(sight.catalog, &t.def, i, pretty);
    }
    let (distinct, include) = c.key.zip(table).map_or((String::new(), String::new()), |(i, t)| {
        let distinct = if i.options.nulls_not_distinct { " NULLS NOT DISTINCT" } else { "" };
        (distinct.to_string(), index_text::include(&t.def, i))
    });
    let mut written = match c.kind {
        b'p' => format!("PRIMARY KEY ({}){include}", list()),
        b'u' => format!("UNIQUE{distinct} ({}){include}", list()),
        _ => format!("CHECK ({})", check()),
    };
    if c.kind == b'c' && c.no_inherit {
        written += " NO INHERIT";
    }
    if !c.validated {
        written += " NOT VALID";
    }
    written
}

/// What a foreign key says.
fn foreign(sight: &Sight<'_>, table: &Table, f: &ForeignDef) -> String {
    let names = |t: &Table, columns: &[usize]| {
        let name = |c: &usize| t.def.columns.get(*c).map_or(String::new(), |c| quote(&c.name));
        columns.iter().map(name).collect::<Vec<_>>().join(", ")
    };
    let mut written = format!("FOREIGN KEY ({}) REFERENCES ", names(table, &f.columns));
    if let Some(parent) = sight.catalog.table_by_id(f.table) {
        let object = Object::Table(parent.clone());
        let found = sight.relation_named("", &parent.def.name);
        let is_short = found.is_some_and(|o| Sight::oid(&o) == Sight::oid(&object));
        written += &in_schema(sight, object.schema(), &parent.def.name, is_short);
        written += &format!("({})", names(parent, &super::key::referenced(sight, f)));
    }
    if f.full {
        written += " MATCH FULL";
    }
    for (what, action) in [("UPDATE", f.on_update), ("DELETE", f.on_delete)] {
        if action != KeyAction::NoAction {
            written += &format!(" ON {what} {}", action_word(action).to_uppercase());
        }
    }
    if !f.set.is_empty() {
        written += &format!(" ({})", names(table, &f.set));
    }
    for (yes, words) in
        [(f.deferrable, " DEFERRABLE"), (f.deferred, " INITIALLY DEFERRED"), (!f.validated, " NOT VALID")]
    {
        written += if yes { words } else { "" };
    }
    written
}

/// The arguments of a function, with their names and defaults, or as they tell it from others.
fn arguments(sight: &Sight<'_>, oid: u32, whole: bool) -> Option<String> {
    if let Some(f) = sight.function(oid) {
        let one = |(n, (name, ty)): (usize, &(Option<String>, Type))| {
            let mode = if f.variadic && n + 1 == f.args.len() { "VARIADIC " } else { "" };
            let name = name.as_ref().map_or(String::new(), |n| quote(n) + " ");
            let default = deparse::of_argument(f, n, sight.catalog, sight.path).filter(|_| whole);
            let default = default.map_or(String::new(), |text| format!(" DEFAULT {text}"));
            format!("{mode}{name}{}{default}", shown_type(sight, Type::new(ty.id)))
        };
        return Some(f.args.iter().enumerate().map(one).collect::<Vec<_>>().join(", "));
    }
    let f = fixed::function(oid)?;
    let field = |name: &str| {
        let place = super::relation::by_key("pg_proc").and_then(|r| r.column(name))?;
        f.fields.get(place).copied().filter(|s| *s != "\\N")
    };
    let inside = |s: &str| -> Vec<String> {
        s.trim_matches(['{', '}']).split(',').map(|s| s.trim_matches('"').to_string()).collect()
    };
    let names = field("proargnames").map(inside).unwrap_or_default();
    let modes = field("proargmodes").map(inside).unwrap_or_default();
    let types: Vec<u32> = match field("proallargtypes") {
        Some(all) => inside(all).iter().filter_map(|n| n.parse().ok()).collect(),
        None => f.args.clone(),
    };
    let mut written = Vec::new();
    for (n, ty) in types.iter().enumerate() {
        let mode = match modes.get(n).map(String::as_str) {
            Some("o") if whole => "OUT ",
            Some("b") => "INOUT ",
            Some("v") => "VARIADIC ",
            Some("o" | "t") => continue,
            _ => "",
        };
        let name = names.get(n).filter(|s| !s.is_empty()).map_or(String::new(), |s| quote(s) + " ");
        written.push(format!("{mode}{name}{}", type_name(sight, *ty).unwrap_or_default()));
    }
    Some(written.join(", "))
}

/// What a function gives.
fn result(sight: &Sight<'_>, oid: u32) -> Option<String> {
    if let Some(f) = sight.function(oid) {
        return Some(returns(sight, f));
    }
    let f = fixed::function(oid)?;
    let place = super::relation::by_key("pg_proc").and_then(|r| r.column("proretset"))?;
    let set = if f.fields.get(place) == Some(&"t") { "SETOF " } else { "" };
    Some(format!("{set}{}", type_name(sight, f.ret)?))
}

fn returns(sight: &Sight<'_>, f: &FunctionDef) -> String {
    let set = if gives_set(f) { "SETOF " } else { "" };
    match &f.returns {
        Returns::Void => "void".into(),
        Returns::Scalar { ty, .. } => format!("{set}{}", shown_type(sight, Type::new(ty.id))),
        Returns::Rows { of: Some(table), .. } => {
            let schema = schema_oid(table.schema);
            let found = sight.catalog.find(sight.path, &table.name).is_some_and(|f| f.0 == *table);
            format!("{set}{}", in_schema(sight, schema, &table.name, found))
        }
        Returns::Rows { of: None, columns, .. } => {
            let one =
                |(n, t): &(String, Type)| format!("{} {}", quote(n), shown_type(sight, Type::new(t.id)));
            format!("TABLE({})", columns.iter().map(one).collect::<Vec<_>>().join(", "))
        }
    }
}

/// The statement that makes a function.
fn function_def(sight: &Sight<'_>, f: &FunctionDef) -> String {
    let schema = sight.schema_of_function(f);
    let name = in_schema(sight, schema, &f.name, false);
    let oid = super::sight::oid_of(f.id);
    let arguments = arguments(sight, oid, true).unwrap_or_default();
    let volatility = match f.volatility {
        Volatility::Volatile => "",
        Volatility::Stable => " STABLE\n",
        Volatility::Immutable => " IMMUTABLE\n",
    };
    let mut tag = "function".to_string();
    while f.body.contains(&format!("${tag}$")) {
        tag.push('x');
    }
    format!(
        "CREATE OR REPLACE FUNCTION {name}({arguments})\n RETURNS {}\n LANGUAGE sql\n{volatility}AS ${tag}${}${tag}$\n",
        returns(sight, f),
        f.body,
    )
}
