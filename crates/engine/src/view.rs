//! Views: queries under a name, in a form that means the same whatever becomes of the names in them.
//!
//! ```text
//! SELECT "%u0"."%c105.1" AS b FROM "%t105" "%u0" WHERE ("%f117"("%u0"."%c105.0") = 'x'::"%y120")
//! ```
//! - **V1** The query is stored as SQL in which what may be renamed stands by its number, in a *slot*: a
//!   quoted name that begins with a percent sign. A name of the query's own that begins so has a second one
//!   before it. Strings are in single quotes, without escapes; there are no comments.
//!   What is no object's number has no slot but is a name that no user's can be: of a relation without an
//!   alias, and of a join that was written with USING. Joins have no other aliases.
//! - **V2** A column's number is its place in its relation. Who takes columns out of a table puts the new
//!   numbers into the views over it, in the same transaction (definers/G1).
//! - **V3** What a view rests on is what its slots name; it is claimed as such (definers/G3), and is not
//!   dropped while the view is there.
//! - **V4** A materialised view is a table that has such a query as well ([`crate::catalog::Material`]). V1
//!   to V3 hold for it. Who reads it reads a table. To be refreshed, its rows are deleted and the query's
//!   inserted by one transaction, so that others see those that were there until it commits.
use crate::catalog::{Catalog, ColumnDef, TableDef};
use crate::name::Name;
use ondol_types::name::quote;
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::collections::BTreeMap;

/// WITH CHECK OPTION: what rows a view's inserts and updates may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewCheck {
    /// Those that the view shows.
    Local,
    /// Those that the views below it show as well.
    Cascaded,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ViewDef {
    pub id: u32,
    /// The number of its schema.
    pub schema: u32,
    pub name: String,
    /// What it shows, with defaults for what is inserted into it.
    pub columns: Vec<ColumnDef>,
    /// V1
    pub query: String,
    pub check: Option<ViewCheck>,
    /// What WITH said of it, in that order: names and values, `check_option` among them.
    pub options: Vec<(String, String)>,
}

/// Whether an option's value says yes; `None`: it says neither.
pub fn option_is_on(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" | "1" | "t" | "y" => Some(true),
        "false" | "off" | "no" | "0" | "f" | "n" => Some(false),
        _ => None,
    }
}

impl ViewDef {
    /// Whether conditions of who reads it are asked of its rows alone, and of nothing below.
    pub fn is_barrier(&self) -> bool {
        let said = self.options.iter().find(|(name, _)| name == "security_barrier");
        said.is_some_and(|(_, value)| option_is_on(value) == Some(true))
    }
    /// Whether it reads with the rights of whoever reads it, and not with its owner's.
    pub fn is_invoker(&self) -> bool {
        let said = self.options.iter().find(|(name, _)| name == "security_invoker");
        said.is_some_and(|(_, value)| option_is_on(value) == Some(true))
    }
    /// What a materialised view shows; `None`: the table is none.
    pub fn of_material(def: &TableDef) -> Option<ViewDef> {
        let query = def.nature.material.as_ref()?.query.clone();
        let (name, columns) = (def.name.clone(), def.shown().to_vec());
        let (check, options) = (None, Vec::new());
        Some(ViewDef { id: def.id, schema: def.schema, name, columns, query, check, options })
    }
    pub fn full_name(&self) -> Name {
        Name::new(self.schema, &*self.name)
    }
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name == name)
    }
}

/// What a slot stands for (V1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Slot {
    /// `%t105`: a table or a view.
    Relation(u32),
    /// `%c105.3`
    Column { relation: u32, column: u32 },
    /// `%f117`
    Function(u32),
    /// `%y120`
    Type(u32),
}

impl std::fmt::Display for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Slot::Relation(n) => write!(f, "\"%t{n}\""),
            Slot::Column { relation, column } => write!(f, "\"%c{relation}.{column}\""),
            Slot::Function(n) => write!(f, "\"%f{n}\""),
            Slot::Type(n) => write!(f, "\"%y{n}\""),
        }
    }
}

/// The name that a relation without an alias has in the query: it ends in its number there. Once the slots
/// are filled in it begins with [`OWN_NAME`].
pub fn own_name(n: usize) -> String {
    format!("\"%u{n}\"")
}

/// The alias of a join that was written with USING, which stands for no alias: what it is joined by is stored
/// as a condition. `None`: the names cannot be kept.
pub fn using(names: &[&str]) -> Option<String> {
    let is_odd = |n: &&str| n.contains(['"', OWN_NAME]);
    (!names.iter().any(is_odd)).then(|| format!("\"%j{}\"", names.join("\u{1}")))
}

/// Whether an alias, the slots being filled in, is that of a join that was written with USING.
pub fn is_using(alias: &str) -> bool {
    alias.strip_prefix(OWN_NAME).is_some_and(|a| a.starts_with('j'))
}

/// What the name of a relation without an alias begins with once the slots are filled in.
pub const OWN_NAME: char = '\u{1}';

/// A name as the query has it.
pub fn stored_name(name: &str) -> String {
    if name.starts_with('%') { format!("\"%{}\"", name.replace('"', "\"\"")) } else { quote(name) }
}

enum Piece<'a> {
    Text(&'a str),
    /// The quote before a name that begins with a percent sign: one of two is left out.
    Quote,
    /// What stands between the quotes, behind the percent sign.
    Slot(&'a str),
}

/// The text, cut at its slots.
fn pieces<'a>(text: &'a str, f: &mut dyn FnMut(Piece<'a>)) {
    let bytes = text.as_bytes();
    let (mut from, mut at) = (0, 0);
    while at < bytes.len() {
        let end = |quote: u8| bytes[at + 1..].iter().position(|b| *b == quote).map(|n| at + 1 + n);
        match bytes[at] {
            // Two quotes in a string are the end of one and the beginning of another.
            b'\'' => at = end(b'\'').map_or(bytes.len(), |e| e + 1),
            b'"' => {
                let close = end(b'"').unwrap_or(bytes.len());
                if bytes.get(at + 1) == Some(&b'%') && close < bytes.len() {
                    f(Piece::Text(&text[from..at]));
                    if bytes.get(at + 2) == Some(&b'%') {
                        f(Piece::Quote);
                        from = at + 2;
                    } else {
                        f(Piece::Slot(&text[at + 2..close]));
                        from = close + 1;
                    }
                }
                at = (close + 1).min(bytes.len())
            }
            _ => at += 1,
        }
    }
    f(Piece::Text(&text[from..]))
}

fn slot_of(inner: &str) -> Option<Slot> {
    let rest = inner.get(1..)?;
    Some(match inner.as_bytes().first()? {
        b't' => Slot::Relation(rest.parse().ok()?),
        b'f' => Slot::Function(rest.parse().ok()?),
        b'y' => Slot::Type(rest.parse().ok()?),
        b'c' => {
            let (relation, column) = rest.split_once('.')?;
            Slot::Column { relation: relation.parse().ok()?, column: column.parse().ok()? }
        }
        _ => return None,
    })
}

/// The slots of a query, each once.
pub fn slots(text: &str) -> Vec<Slot> {
    let mut found = Vec::new();
    pieces(text, &mut |p| {
        if let Piece::Slot(inner) = p {
            found.extend(slot_of(inner))
        }
    });
    found.sort();
    found.dedup();
    found
}

/// Whether the query rests on a table or a view.
pub fn uses_relation(text: &str, id: u32) -> bool {
    slots(text).iter().any(|s| match s {
        Slot::Relation(n) | Slot::Column { relation: n, .. } => *n == id,
        _ => false,
    })
}

/// The query once the columns of a relation have other numbers (V2). `None`: it names one that is gone.
pub fn renumbered(text: &str, of: u32, number: &dyn Fn(u32) -> Option<u32>) -> Option<String> {
    let (mut out, mut lost) = (String::with_capacity(text.len()), false);
    pieces(text, &mut |p| match p {
        Piece::Quote => out.push_str("\"%"),
        Piece::Text(t) => out.push_str(t),
        Piece::Slot(inner) => match slot_of(inner) {
            Some(Slot::Column { relation, column }) if relation == of => match number(column) {
                Some(column) => out.push_str(&Slot::Column { relation, column }.to_string()),
                None => lost = true,
            },
            _ => out.push_str(&format!("\"%{inner}\"")),
        },
    });
    (!lost).then_some(out)
}

/// The query in the names of today.
pub fn in_names(text: &str, catalog: &Catalog) -> SqlResult<String> {
    let mut names: BTreeMap<Slot, String> = slots(text).into_iter().map(|s| (s, String::new())).collect();
    let whole = |schema: u32, name: &str| format!("{}.{}", quote(catalog.schema_name(schema)), quote(name));
    let is_named = |id: u32| slots_have(&names, id);
    let mut relations: BTreeMap<u32, (String, Vec<String>)> = BTreeMap::new();
    for t in catalog.tables().filter(|t| is_named(t.def.id)) {
        let columns = t.def.shown().iter().map(|c| quote(&c.name)).collect();
        relations.insert(t.def.id, (whole(t.def.schema, &t.def.name), columns));
    }
    for v in catalog.views.values().filter(|v| is_named(v.id)) {
        let columns = v.columns.iter().map(|c| quote(&c.name)).collect();
        relations.insert(v.id, (whole(v.schema, &v.name), columns));
    }
    let missing = |slot: &Slot| {
        SqlError::new(sqlstate::INTERNAL_ERROR, format!("a view rests on what is not there: {slot}"))
    };
    for (slot, name) in &mut names {
        let found = match slot {
            Slot::Relation(n) => relations.get(n).map(|r| r.0.clone()),
            Slot::Column { relation, column } => {
                relations.get(relation).and_then(|r| r.1.get(*column as usize).cloned())
            }
            Slot::Function(n) => catalog.functions.get(n).map(|f| whole(f.schema, &f.name)),
            Slot::Type(n) => (catalog.types.values().filter_map(|t| t.user()))
                .find(|u| u.number == *n)
                .map(|u| whole(u.schema, &u.name)),
        };
        *name = found.ok_or_else(|| missing(slot))?
    }
    let mut out = String::with_capacity(text.len());
    pieces(text, &mut |p| match p {
        Piece::Text(t) => out.push_str(t),
        Piece::Quote => out.push('"'),
        Piece::Slot(inner) => match slot_of(inner).and_then(|s| names.get(&s)) {
            Some(name) => out.push_str(name),
            None => {
                out.push('"');
                out.push(OWN_NAME);
                out.push_str(inner);
                out.push('"')
            }
        },
    });
    Ok(out)
}

fn slots_have(names: &BTreeMap<Slot, String>, id: u32) -> bool {
    let first = Slot::Column { relation: id, column: 0 };
    let of_it = |s: &Slot| matches!(s, Slot::Column { relation, .. } if *relation == id);
    names.contains_key(&Slot::Relation(id)) || names.range(first..).next().is_some_and(|(s, _)| of_it(s))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        r#"SELECT "%u0"."%c105.2" AS "%%odd" FROM "%t105" "%u0" WHERE 'it''s "%c105.2"' = "a""b""#;

    #[test]
    fn slots_are_found_outside_of_strings() {
        assert_eq!(slots(TEXT), [Slot::Relation(105), Slot::Column { relation: 105, column: 2 }]);
        assert!(uses_relation(TEXT, 105) && !uses_relation(TEXT, 10));
    }

    #[test]
    fn columns_get_other_numbers() {
        let text = renumbered(TEXT, 105, &|n| n.checked_sub(1)).expect("it is there");
        assert_eq!(text, TEXT.replacen("105.2", "105.1", 1));
        assert_eq!(renumbered(TEXT, 105, &|_| None), None);
        assert_eq!(renumbered(TEXT, 7, &|_| None).as_deref(), Some(TEXT));
    }

    #[test]
    fn a_name_that_looks_like_a_slot_is_none() {
        assert_eq!(stored_name("%t1"), "\"%%t1\"");
        let mut out = String::new();
        pieces("\"%%t1\" x", &mut |p| match p {
            Piece::Text(t) => out.push_str(t),
            Piece::Quote => out.push('"'),
            Piece::Slot(_) => {}
        });
        assert_eq!(out, "\"%t1\" x");
        let missing = in_names(TEXT, &Catalog::default()).expect_err("there is no table");
        assert_eq!(missing.sqlstate(), sqlstate::INTERNAL_ERROR);
    }
}
