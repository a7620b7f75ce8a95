//! Indexes: what they are of, as PostgreSQL's `pg_get_indexdef` shows it.
use super::{Style, over_row_in};
use crate::bind::check::Over;
use crate::bind::index::{CRTREE_BITS, is_predicate, method_name, text_of};
use crate::parse::lexer::{Token, TokenKind, Tokens};
use ondol_engine::{Catalog, ColumnDef, IndexColumn, IndexDef, IndexKind, Name, TableDef};
use ondol_types::SqlResult;
use ondol_types::name::quote;

/// Whether a text is a call, which needs no parentheses in a list of keys.
fn is_call(text: &str) -> bool {
    let tokens: Vec<Token> = Tokens::new(text).collect();
    let is_name =
        |t: Option<&Token>| t.is_some_and(|t| matches!(t.kind, TokenKind::Word | TokenKind::Quoted));
    let mut at = 0;
    while is_name(tokens.get(at)) && tokens.get(at + 1).is_some_and(|t| t.is_mark(b'.')) {
        at += 2
    }
    if !is_name(tokens.get(at)) || !tokens.get(at + 1).is_some_and(|t| t.is_mark(b'(')) {
        return false;
    }
    let mut open = 0;
    for (n, t) in tokens.iter().enumerate().skip(at + 1) {
        open += i32::from(t.is_mark(b'(')) - i32::from(t.is_mark(b')'));
        if open == 0 {
            return n + 1 == tokens.len();
        }
    }
    false
}

/// The text of a hidden column's expression, or a column's name.
fn shown(catalog: &Catalog, table: &TableDef, column: &ColumnDef, pretty: bool) -> String {
    if !column.is_hidden() {
        return quote(&column.name);
    }
    let over = if is_predicate(column) { Over::Predicate } else { Over::IndexExpression };
    let text = text_of(column);
    let written = pretty.then(|| {
        over_row_in(catalog, &table.full_name(), table.shown(), over, text, Style::Shown { pretty })
    });
    written.and_then(Result::ok).unwrap_or_else(|| text.to_string())
}

/// An expression of a key as messages have it.
pub fn label(catalog: &Catalog, table: &Name, columns: &[ColumnDef], text: &str) -> SqlResult<String> {
    let style = Style::Shown { pretty: true };
    let text = over_row_in(catalog, table, columns, Over::IndexExpression, text, style)?;
    Ok(if is_call(&text) { text } else { format!("({text})") })
}

/// A column or an expression of a key.
pub fn key(catalog: &Catalog, table: &TableDef, c: &IndexColumn, pretty: bool) -> String {
    let column = &table.columns[c.column];
    let text = shown(catalog, table, column, pretty);
    if column.is_hidden() && !is_call(&text) { format!("({text})") } else { text }
}

/// The collation and the operator class of a key that it was given.
fn form(index: &IndexDef, place: usize) -> &str {
    index.options.forms.iter().find(|(n, _)| *n == place).map_or("", |(_, form)| form)
}

fn order(c: &IndexColumn) -> &'static str {
    // NULLs come first in descending order and last in ascending, unless told otherwise.
    match (c.desc, c.nulls_first) {
        (true, true) => " DESC",
        (true, false) => " DESC NULLS LAST",
        (false, true) => " NULLS FIRST",
        (false, false) => "",
    }
}

/// The keys, with their orders.
pub fn keys(catalog: &Catalog, table: &TableDef, index: &IndexDef, pretty: bool) -> String {
    let one = |(n, c): (usize, &IndexColumn)| key(catalog, table, c, pretty) + form(index, n) + order(c);
    index.keys().iter().enumerate().map(one).collect::<Vec<_>>().join(", ")
}

/// The predicate.
pub fn predicate(catalog: &Catalog, table: &TableDef, index: &IndexDef, pretty: bool) -> Option<String> {
    Some(shown(catalog, table, &table.columns[index.predicate()?], pretty))
}

/// What stands behind the table's name in the statement that makes the index, USING left out.
pub fn body(catalog: &Catalog, table: &TableDef, index: &IndexDef, pretty: bool) -> String {
    let kind = method_name(index.kind);
    let mut text = format!("{kind} ({})", keys(catalog, table, index, pretty));
    text += &extras(table, index);
    if let IndexKind::Crtree { bits } = index.kind
        && bits != CRTREE_BITS[0]
    {
        text += &format!(" WITH (bits='{bits}')")
    }
    if let Some(predicate) = predicate(catalog, table, index, pretty) {
        text += &format!(" WHERE {predicate}")
    }
    text
}

/// An exclusion constraint as `pg_get_constraintdef` shows it.
pub fn exclusion(catalog: &Catalog, table: &TableDef, index: &IndexDef, pretty: bool) -> String {
    let kind = method_name(index.kind);
    let one = |(n, c): (usize, &IndexColumn)| {
        format!("{}{}{} WITH =", key(catalog, table, c, pretty), form(index, n), order(c))
    };
    let keys: Vec<String> = index.keys().iter().enumerate().map(one).collect();
    let mut text = format!("EXCLUDE USING {kind} ({})", keys.join(", "));
    text += &extras(table, index);
    if let Some(predicate) = predicate(catalog, table, index, pretty) {
        text += &format!(" WHERE ({predicate})")
    }
    text
}

pub fn include(table: &TableDef, index: &IndexDef) -> String {
    let names: Vec<String> = index.options.include.iter().map(|c| quote(&table.columns[*c].name)).collect();
    if names.is_empty() { String::new() } else { format!(" INCLUDE ({})", names.join(", ")) }
}

fn extras(table: &TableDef, index: &IndexDef) -> String {
    let mut text = include(table, index);
    if index.options.nulls_not_distinct {
        text += " NULLS NOT DISTINCT"
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_call() {
        for call in ["lower(a)", "public.f((a))", "\"F\"(a, (b))", "COALESCE(a, b)"] {
            assert!(is_call(call), "{call}");
        }
        for other in ["(a + 1)", "f(a) + g(b)", "a", "(lower(a))", "f(a)[1]", "CASE WHEN f(a) THEN 1 END"] {
            assert!(!is_call(other), "{other}");
        }
    }
}
