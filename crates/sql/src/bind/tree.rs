//! Reading parse trees: the small questions that every part of the binder asks of them.
//!
//! The trees are PostgreSQL's raw ones as protobuf messages: an absent node is `None` or a node without a
//! kind, an unknown place is -1, an absent string is empty.

use crate::parse::tree::{self, Node, node::Node as Kind};
use ondol_types::{SqlError, SqlResult, sqlstate};

/// Refuses what a statement says when it is said: `refuse(has_window, "window functions")?`.
pub fn refuse(said: bool, feature: impl std::fmt::Display) -> SqlResult<()> {
    if said { Err(SqlError::unsupported(feature)) } else { Ok(()) }
}

/// The same, with the place.
pub fn refuse_at(said: bool, feature: impl std::fmt::Display, location: i32) -> SqlResult<()> {
    if said { Err(at(SqlError::unsupported(feature), location)) } else { Ok(()) }
}

/// An error at a node's place, if that is known.
pub fn at(error: SqlError, location: i32) -> SqlError {
    match usize::try_from(location) {
        Ok(p) => error.at(p),
        Err(_) => error,
    }
}

/// An error at an expression's place.
pub fn at_expr(error: SqlError, place: u32) -> SqlError {
    if place == u32::MAX { error } else { error.at(place as usize) }
}

/// A place as bound expressions keep it.
pub fn place(location: i32) -> u32 {
    u32::try_from(location).unwrap_or(u32::MAX)
}

/// What the grammar should never give.
pub fn unexpected(what: &str) -> SqlError {
    SqlError::new(sqlstate::INTERNAL_ERROR, format!("unexpected parse tree: {what}"))
}

pub fn kind(node: &Node) -> SqlResult<&Kind> {
    node.node.as_ref().ok_or_else(|| unexpected("an empty node"))
}

/// The kind of a boxed node that must be there.
pub fn need(node: &Option<Box<Node>>) -> SqlResult<&Node> {
    node.as_deref().filter(|n| n.node.is_some()).ok_or_else(|| unexpected("a missing node"))
}

/// The string of a String node.
pub fn string(node: &Node) -> SqlResult<&str> {
    match kind(node)? {
        Kind::String(s) => Ok(&s.sval),
        other => Err(unexpected(variant(other).as_str())),
    }
}

/// The strings of a list of String nodes.
pub fn strings(nodes: &[Node]) -> SqlResult<Vec<&str>> {
    nodes.iter().map(string).collect()
}

/// The items of a List node.
pub fn list(node: &Node) -> SqlResult<&[Node]> {
    match kind(node)? {
        Kind::List(l) => Ok(&l.items),
        other => Err(unexpected(variant(other).as_str())),
    }
}

/// The name of a node's kind, for "is not supported": `CreateTrigStmt` reads "CREATE TRIG...", so statements
/// have names of their own in [`super::utility`].
pub fn variant(kind: &Kind) -> String {
    let text = format!("{kind:?}");
    text.split(['(', ' ', '{']).next().unwrap_or_default().to_string()
}

/// The text of an option's value, as `defGetString` reads it; `None` if it has none.
pub fn option_text(option: &tree::DefElem) -> SqlResult<Option<String>> {
    let Some(arg) = option.arg.as_deref() else { return Ok(None) };
    Ok(Some(match kind(arg)? {
        Kind::String(s) => s.sval.clone(),
        Kind::Integer(i) => i.ival.to_string(),
        Kind::Float(f) => f.fval.clone(),
        Kind::Boolean(b) => b.boolval.to_string(),
        Kind::AConst(c) => const_text(c)?,
        Kind::TypeName(t) => strings(&t.names)?.join("."),
        Kind::AStar(_) => "*".into(),
        _ => {
            let message = format!("invalid value of option \"{}\"", option.defname);
            return Err(at(SqlError::new(sqlstate::SYNTAX_ERROR, message), option.location));
        }
    }))
}

/// The text of a constant.
pub fn const_text(c: &tree::AConst) -> SqlResult<String> {
    use tree::a_const::Val;
    Ok(match &c.val {
        Some(Val::Ival(i)) => i.ival.to_string(),
        Some(Val::Fval(f)) => f.fval.clone(),
        Some(Val::Boolval(b)) => if b.boolval { "true" } else { "false" }.into(),
        Some(Val::Sval(s)) => s.sval.clone(),
        Some(Val::Bsval(s)) => s.bsval.clone(),
        None => return Err(unexpected("NULL as an option")),
    })
}

/// A truth value of an option, as `defGetBoolean` reads it: none means true.
pub fn option_bool(option: &tree::DefElem) -> SqlResult<bool> {
    let text = match option_text(option)? {
        None => return Ok(true),
        Some(t) => t,
    };
    match text.to_ascii_lowercase().as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err(at(
            SqlError::new(sqlstate::SYNTAX_ERROR, format!("{} requires a Boolean value", option.defname)),
            option.location,
        )),
    }
}

/// The options of a list of DefElem nodes.
pub fn options(nodes: &[Node]) -> SqlResult<Vec<&tree::DefElem>> {
    nodes
        .iter()
        .map(|n| match kind(n)? {
            Kind::DefElem(d) => Ok(d.as_ref()),
            other => Err(unexpected(&variant(other))),
        })
        .collect()
}
