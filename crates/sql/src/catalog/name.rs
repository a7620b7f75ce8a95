//! Names of objects in texts, as regclass and its like read and show them.

use super::fixed;
use super::sight::{Sight, oid_of};
use crate::bind::names::{Names, no_schema};
use crate::bind::types::bind_type;
use crate::parse::{self, tree::node::Node as Kind};
use ondol_engine::FunctionDef;
use ondol_types::catalog::registered;
use ondol_types::name::{quote, split as parts};
use ondol_types::objects::ObjectKind;
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, sqlstate};
use std::sync::Arc;

fn invalid() -> SqlError {
    SqlError::new("42602", "invalid name syntax")
}

/// The parts of the name that a text begins with, up to a parenthesis, and what follows.
fn leading_parts(text: &str) -> SqlResult<(Vec<String>, &str)> {
    let mut quoted = false;
    let open = text.find(|c: char| {
        quoted ^= c == '"';
        c == '(' && !quoted
    });
    let (name, rest) = text.split_at(open.unwrap_or(text.len()));
    Ok((parts(name)?, rest))
}

/// The schema, or an empty one, and the name of an object.
fn qualified(sight: &Sight<'_>, what: &str, text: &str, parts: Vec<String>) -> SqlResult<(String, String)> {
    let mut parts = parts.into_iter();
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(name), None, ..) => Ok((String::new(), name)),
        (Some(schema), Some(name), None, _) => Ok((schema, name)),
        (Some(database), Some(schema), Some(name), None) if database == sight.database => Ok((schema, name)),
        (Some(_), Some(_), Some(_), None) => {
            let text = if what == "relation" { format!("\"{text}\"") } else { text.to_string() };
            let message = format!("cross-database references are not implemented: {text}");
            Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message))
        }
        _ => {
            let message = format!("improper {what} name (too many dotted names): {text}");
            Err(SqlError::new(sqlstate::SYNTAX_ERROR, message))
        }
    }
}

/// The type that a text names, with its modifier.
pub fn type_of(sight: &Sight<'_>, text: &str) -> SqlResult<Type> {
    let cast = format!("SELECT NULL::{text}");
    let raws = parse::parse(&cast).map_err(|mut e| {
        e.0.position = None;
        e
    })?;
    let wrong = || SqlError::new(sqlstate::SYNTAX_ERROR, format!("invalid type name \"{text}\""));
    let [raw] = &raws[..] else { return Err(wrong()) };
    let Kind::SelectStmt(select) = &raw.node else { return Err(wrong()) };
    let is_plain = select.from_clause.is_empty() && select.where_clause.is_none() && select.op <= 1;
    let [target] = &select.target_list[..] else { return Err(wrong()) };
    match &target.node {
        Some(Kind::ResTarget(t)) if is_plain && t.name.is_empty() => {
            match t.val.as_deref().and_then(|v| v.node.as_ref()) {
                Some(Kind::TypeCast(c)) => {
                    let name = c.type_name.as_ref().ok_or_else(wrong)?;
                    bind_type(Names { catalog: sight.catalog, path: sight.path, found: None }, name).map_err(
                        |mut e| {
                            e.0.position = None;
                            e
                        },
                    )
                }
                _ => Err(wrong()),
            }
        }
        _ => Err(wrong()),
    }
}

/// The name of a function or operator, and the types in parentheses behind it.
fn signature(sight: &Sight<'_>, text: &str, operator: bool) -> SqlResult<(Vec<String>, Vec<Option<Type>>)> {
    let missing = |what: &str| SqlError::new(sqlstate::INVALID_TEXT_REPRESENTATION, what.to_string());
    let open = text.find('(').ok_or_else(|| missing("expected a left parenthesis"))?;
    let name = if operator { operator_parts(&text[..open])? } else { parts(&text[..open])? };
    let inside = text[open + 1..].trim_end();
    let inside = inside.strip_suffix(')').ok_or_else(|| missing("expected a right parenthesis"))?;
    let mut types = Vec::new();
    if inside.trim().is_empty() {
        return Ok((name, types));
    }
    // Commas within a type's own parentheses or quotes part nothing.
    let (mut depth, mut quoted, mut from) = (0, false, 0);
    let mut pieces = Vec::new();
    for (at, c) in inside.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                pieces.push(&inside[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(&inside[from..]);
    for piece in pieces {
        let piece = piece.trim();
        types.push(if operator && piece.eq_ignore_ascii_case("none") {
            None
        } else {
            Some(argument_type(sight, piece)?)
        });
    }
    Ok((name, types))
}

/// A type of an argument, which may be one that only functions are declared with.
fn argument_type(sight: &Sight<'_>, text: &str) -> SqlResult<Type> {
    let pseudo = fixed::rows("pg_type").iter().find_map(|row| {
        let name = row.get(1)?.to_string();
        (name == text.trim_matches('"')).then(|| row.first().cloned())?
    });
    match (type_of(sight, text), pseudo) {
        (Ok(ty), _) => Ok(ty),
        (Err(e), Some(Value::Opaque(_, b))) => {
            let oid = b.first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
            fixed::type_of(oid).map(Type::new).ok_or(e)
        }
        (Err(e), _) => Err(e),
    }
}

fn operator_parts(text: &str) -> SqlResult<Vec<String>> {
    let text = text.trim();
    match text.rsplit_once('.') {
        Some((schema, name)) => {
            let mut all = parts(schema)?;
            all.push(name.to_string());
            Ok(all)
        }
        None => Ok(vec![text.to_string()]),
    }
}

/// One of several numbers, or an error that there are several.
fn only(mut found: Vec<u32>, what: &str, text: &str) -> SqlResult<Option<u32>> {
    let first = found.pop();
    if found.is_empty() {
        return Ok(first);
    }
    let message = format!("more than one {what} named {text}");
    Err(SqlError::new(sqlstate::AMBIGUOUS_FUNCTION, message))
}

/// The fixed operators: their numbers, names, operands.
fn operators() -> impl Iterator<Item = (u32, String, u32, u32)> {
    fixed::rows("pg_operator").iter().map(|row| {
        let number = |n: usize| match row.get(n) {
            Some(Value::Opaque(_, b)) => b.first_chunk().map_or(0, |b| u32::from_le_bytes(*b)),
            _ => 0,
        };
        (number(0), row.get(1).map(Value::to_string).unwrap_or_default(), number(7), number(8))
    })
}

/// The object that a text names. A schema in it that is not there is an error.
pub fn find(sight: &Sight<'_>, kind: ObjectKind, text: &str) -> SqlResult<Option<u32>> {
    let found = meant(sight, kind, text)?;
    let names = match kind {
        ObjectKind::Schema | ObjectKind::Role | ObjectKind::Type => return Ok(found),
        ObjectKind::Procedure => leading_parts(text)?.0,
        ObjectKind::Operator | ObjectKind::TypedOperator => {
            operator_parts(text.split('(').next().unwrap_or_default())?
        }
        _ => parts(text)?,
    };
    match &names[..] {
        [.., schema, _] if found.is_none() && !sight.schemas().iter().any(|s| s.1 == schema) => {
            Err(no_schema(schema))
        }
        _ => Ok(found),
    }
}

fn meant(sight: &Sight<'_>, kind: ObjectKind, text: &str) -> SqlResult<Option<u32>> {
    match kind {
        ObjectKind::Relation => {
            let (schema, name) = qualified(sight, "relation", text, parts(text)?)?;
            Ok(sight.relation_named(&schema, &name).map(|o| Sight::oid(&o)))
        }
        ObjectKind::Type => match type_of(sight, text) {
            Ok(ty) => Ok(Some(ty.id.oid())),
            Err(e) if e.sqlstate() == sqlstate::UNDEFINED_OBJECT => Ok(None),
            Err(e) => Err(e),
        },
        ObjectKind::Function => {
            let (schema, name) = qualified(sight, "qualified", text, parts(text)?)?;
            let mut found = Vec::new();
            if matches!(schema.as_str(), "" | "pg_catalog") {
                let all = fixed::functions().iter().filter(|f| f.is_here && f.name == name);
                found.extend(all.map(|f| f.oid));
            }
            found.extend(functions(sight, &schema, &name).iter().map(|f| oid_of(f.id)));
            only(found, "function", &format!("\"{text}\""))
        }
        ObjectKind::Procedure => {
            let (name, types) = signature(sight, text, false)?;
            let (schema, name) = qualified(sight, "qualified", text, name)?;
            let types: Vec<u32> = types.iter().flatten().map(|t| t.id.oid()).collect();
            let own = fixed::functions().iter().filter(|f| f.is_here && f.name == name && f.args == types);
            let own = own.map(|f| f.oid).next().filter(|_| matches!(schema.as_str(), "" | "pg_catalog"));
            let is_it =
                |f: &&&Arc<FunctionDef>| f.args.iter().map(|a| a.1.id.oid()).eq(types.iter().copied());
            let users = || functions(sight, &schema, &name).iter().find(is_it).map(|f| oid_of(f.id));
            Ok(own.or_else(users))
        }
        ObjectKind::Operator => {
            let (_, name) = qualified(sight, "qualified", text, operator_parts(text)?)?;
            only(operators().filter(|o| o.1 == name).map(|o| o.0).collect(), "operator", text)
        }
        ObjectKind::TypedOperator => {
            let (name, types) = signature(sight, text, true)?;
            let (_, name) = qualified(sight, "qualified", text, name)?;
            let types: Vec<u32> = types.iter().map(|t| t.map_or(0, |t| t.id.oid())).collect();
            let [left, right] = types[..] else {
                let message = "missing argument";
                let error = SqlError::new("42P02", message);
                return Err(error.hint("Use NONE to denote the missing argument of a unary operator."));
            };
            Ok(operators().find(|o| o.1 == name && (o.2, o.3) == (left, right)).map(|o| o.0))
        }
        ObjectKind::Schema => match &parts(text)?[..] {
            [name] => Ok(sight.schemas().into_iter().find(|s| s.1 == name).map(|s| s.0)),
            _ => Err(invalid()),
        },
        ObjectKind::Role => match &parts(text)?[..] {
            [name] => Ok(sight.catalog.role_named(name).map(|r| r.id)),
            _ => Err(invalid()),
        },
        ObjectKind::Collation => {
            let (_, name) = qualified(sight, "qualified", text, parts(text)?)?;
            Ok(collations().find(|c| c.1 == name).map(|c| c.0))
        }
        ObjectKind::TextSearchConfiguration | ObjectKind::TextSearchDictionary => {
            parts(text)?;
            Ok(None)
        }
    }
}

/// The users' functions that a name means, found without a schema or with.
fn functions<'a>(sight: &Sight<'a>, schema: &str, name: &str) -> Vec<&'a Arc<FunctionDef>> {
    if schema.is_empty() {
        return sight.catalog.find_functions(sight.path, name);
    }
    let number = sight.catalog.schema(schema).map(|s| s.number);
    let all = sight.catalog.functions.values();
    all.filter(|f| f.name == name && Some(f.schema) == number).collect()
}

/// The users' function that a text names; with the types of its arguments in parentheses it is one of several
/// by the name. None: there is no such function, or the text is no name.
pub fn users_function<'a>(sight: &Sight<'a>, text: &str) -> SqlResult<Option<&'a Arc<FunctionDef>>> {
    let Ok((name, rest)) = leading_parts(text) else { return Ok(None) };
    let Ok((schema, name)) = qualified(sight, "qualified", text, name) else { return Ok(None) };
    let found = functions(sight, &schema, &name);
    if rest.starts_with('(') && !found.is_empty() {
        let (_, types) = signature(sight, text, false)?;
        let types: Vec<u32> = types.iter().flatten().map(|t| t.id.oid()).collect();
        let is_it = |f: &&Arc<FunctionDef>| f.arg_types().map(|t| t.oid()).eq(types.iter().copied());
        return Ok(found.into_iter().find(is_it));
    }
    match found[..] {
        [only] if rest.is_empty() => Ok(Some(only)),
        [_, ..] if rest.is_empty() => {
            let message = format!("function name \"{text}\" is not unique");
            let error = SqlError::new(sqlstate::AMBIGUOUS_FUNCTION, message);
            Err(error.hint("Name the types of its arguments as well, as in f(integer, text)."))
        }
        _ => Ok(None),
    }
}

fn collations() -> impl Iterator<Item = (u32, String)> {
    fixed::rows("pg_collation").iter().map(|row| {
        let number = match row.first() {
            Some(Value::Opaque(_, b)) => b.first_chunk().map_or(0, |b| u32::from_le_bytes(*b)),
            _ => 0,
        };
        (number, row.get(1).map(Value::to_string).unwrap_or_default())
    })
}

/// A type as `format_type` shows it without a modifier.
pub fn type_name(sight: &Sight<'_>, oid: u32) -> Option<String> {
    if let Some((object, is_array)) = sight.rows_of(oid) {
        let found = sight.relation_named("", object.name()).map(|o| Sight::oid(&o));
        // Types of PostgreSQL's are looked for first.
        let is_found = found == Some(Sight::oid(&object)) && !fixed::is_type(object.name());
        let name = in_schema(sight, object.schema(), object.name(), is_found);
        return Some(if is_array { name + "[]" } else { name });
    }
    if let Some(ty) = sight.ty(oid) {
        return Some(shown_type(sight, Type::new(ty)));
    }
    fixed::facts(oid).map(|f| quote(f.name))
}

/// A type with its modifier; with its schema unless it is found without.
pub fn shown_type(sight: &Sight<'_>, ty: Type) -> String {
    let bare = match (ty.id, ty.typmod) {
        (TypeId::BPCHAR, -1) => "character".into(),
        _ => ty.to_string(),
    };
    match !sight.is_type_found(ty.id) {
        true => {
            format!("{}.{bare}", quote(sight.schema_name(sight.schema_of_type(ty.id)).unwrap_or_default()))
        }
        false => bare,
    }
}

/// A name with its schema unless it is found without.
pub fn in_schema(sight: &Sight<'_>, schema: u32, name: &str, is_found: bool) -> String {
    match is_found {
        true => quote(name),
        false => format!("{}.{}", quote(sight.schema_name(schema).unwrap_or_default()), quote(name)),
    }
}

/// How an object is shown.
pub fn shown(sight: &Sight<'_>, kind: ObjectKind, oid: u32) -> Option<String> {
    match kind {
        ObjectKind::Relation => {
            let object = sight.relation(oid)?;
            let found = sight.relation_named("", object.name()).map(|o| Sight::oid(&o));
            Some(in_schema(sight, object.schema(), object.name(), found == Some(oid)))
        }
        ObjectKind::Type => type_name(sight, oid),
        ObjectKind::Function => match fixed::function(oid) {
            Some(f) => Some(f.shown.clone()),
            None => {
                let f = sight.function(oid)?;
                let is_only = find(sight, kind, &quote(&f.name)).is_ok_and(|n| n == Some(oid));
                Some(in_schema(sight, sight.schema_of_function(f), &f.name, is_only))
            }
        },
        ObjectKind::Procedure => {
            let list = |types: &mut dyn Iterator<Item = u32>| {
                types.map(|t| type_name(sight, t).unwrap_or_default()).collect::<Vec<_>>().join(",")
            };
            match fixed::function(oid) {
                Some(f) => Some(format!("{}({})", quote(f.name), list(&mut f.args.iter().copied()))),
                None => {
                    let f = sight.function(oid)?;
                    let schema = sight.schema_of_function(f);
                    let name = in_schema(sight, schema, &f.name, sight.is_function_found(f));
                    Some(format!("{name}({})", list(&mut f.args.iter().map(|a| a.1.id.oid()))))
                }
            }
        }
        ObjectKind::Operator => {
            let all: Vec<_> = operators().collect();
            let (_, name, ..) = all.iter().find(|o| o.0 == oid)?;
            let is_only = all.iter().filter(|o| o.1 == *name).count() == 1;
            Some(if is_only { name.clone() } else { format!("pg_catalog.{name}") })
        }
        ObjectKind::TypedOperator => {
            let (_, name, left, right) = operators().find(|o| o.0 == oid)?;
            let operand = |t: u32| match t {
                0 => "NONE".to_string(),
                t => type_name(sight, t).unwrap_or_default(),
            };
            Some(format!("{name}({},{})", operand(left), operand(right)))
        }
        ObjectKind::Schema => sight.schema_name(oid).map(quote),
        ObjectKind::Role => sight.catalog.role(oid).map(|r| quote(&r.name)),
        ObjectKind::Collation => collations().find(|c| c.0 == oid).map(|c| quote(&c.1)),
        ObjectKind::TextSearchConfiguration | ObjectKind::TextSearchDictionary => None,
    }
}

/// A number as a value of regclass or one of its like, to stand in a row.
pub fn named(sight: &Sight<'_>, ty: TypeId, oid: u32) -> Value {
    let name = registered::kind(ty).filter(|_| oid != 0).and_then(|kind| shown(sight, kind, oid));
    registered::named(ty, oid, name.as_deref().unwrap_or_default())
}
