//! Names as SQL writes them, and the schemas that are always there.
use crate::{SqlError, SqlResult};

/// The number of schema `pg_catalog`, in which everything is that is built in.
pub const PG_CATALOG: u32 = 11;
/// The number of schema `information_schema`.
pub const INFORMATION_SCHEMA: u32 = 12;
/// The number of schema `pg_temp`, in which each session has tables of its own.
pub const TEMPORARY: u32 = 13;
/// The number of schema `public`.
pub const PUBLIC: u32 = 2200;

/// The words that cannot stand as a name everywhere without quotes: PostgreSQL's reserved words, and those
/// that may not name a column, a function or a type. In alphabetical order.
const KEYWORDS: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "authorization",
    "between",
    "bigint",
    "binary",
    "bit",
    "boolean",
    "both",
    "case",
    "cast",
    "char",
    "character",
    "check",
    "coalesce",
    "collate",
    "collation",
    "column",
    "concurrently",
    "constraint",
    "create",
    "cross",
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "dec",
    "decimal",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "exists",
    "extract",
    "false",
    "fetch",
    "float",
    "for",
    "foreign",
    "freeze",
    "from",
    "full",
    "grant",
    "greatest",
    "group",
    "grouping",
    "having",
    "ilike",
    "in",
    "initially",
    "inner",
    "inout",
    "int",
    "integer",
    "intersect",
    "interval",
    "into",
    "is",
    "isnull",
    "join",
    "lateral",
    "leading",
    "least",
    "left",
    "like",
    "limit",
    "localtime",
    "localtimestamp",
    "national",
    "natural",
    "nchar",
    "none",
    "normalize",
    "not",
    "notnull",
    "null",
    "nullif",
    "numeric",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "out",
    "outer",
    "overlaps",
    "overlay",
    "placing",
    "position",
    "precision",
    "primary",
    "real",
    "references",
    "returning",
    "right",
    "row",
    "select",
    "session_user",
    "setof",
    "similar",
    "smallint",
    "some",
    "substring",
    "symmetric",
    "table",
    "tablesample",
    "then",
    "time",
    "timestamp",
    "to",
    "trailing",
    "treat",
    "trim",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "values",
    "varchar",
    "variadic",
    "verbose",
    "when",
    "where",
    "window",
    "with",
    "xmlattributes",
    "xmlconcat",
    "xmlelement",
    "xmlexists",
    "xmlforest",
    "xmlnamespaces",
    "xmlparse",
    "xmlpi",
    "xmlroot",
    "xmlserialize",
    "xmltable",
];

/// Whether it is a keyword that is no name of a column or table without quotes, in whatever case.
pub fn is_keyword(word: &str) -> bool {
    KEYWORDS.binary_search(&&*word.to_ascii_lowercase()).is_ok()
}

/// A name as SQL needs it: in quotes unless it is plain.
pub fn quote(s: &str) -> String {
    let plain = s.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && s.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && KEYWORDS.binary_search(&s).is_err();
    if plain {
        return s.to_string();
    }
    let mut quoted = String::with_capacity(s.len() + s.matches('"').count() + 2);
    quoted.push('"');
    for (n, part) in s.split('"').enumerate() {
        quoted.push_str(if n > 0 { "\"\"" } else { "" });
        quoted.push_str(part);
    }
    quoted.push('"');
    quoted
}

/// A name with its schema's.
pub fn qualified(schema: &str, name: &str) -> String {
    format!("{}.{}", quote(schema), quote(name))
}

/// The names in a list like `a, "B", c`, as a setting is given one: each folded to lower case unless it is in
/// quotes. `None`: it is not such a list.
pub fn list(text: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = text.trim_start();
    if rest.is_empty() {
        return Some(names);
    }
    loop {
        let name = if let Some(quoted) = rest.strip_prefix('"') {
            let (mut name, mut chars) = (String::new(), quoted.char_indices());
            let end = loop {
                match chars.next()? {
                    (i, '"') if quoted[i + 1..].starts_with('"') => {
                        chars.next();
                        name.push('"')
                    }
                    (i, '"') => break i + 1,
                    (_, c) => name.push(c),
                }
            };
            rest = &quoted[end..];
            name
        } else {
            let end = rest.find(|c: char| c == ',' || c.is_whitespace()).unwrap_or(rest.len());
            let name = rest[..end].to_ascii_lowercase();
            rest = &rest[end..];
            Some(name).filter(|n| !n.is_empty())?
        };
        names.push(name);
        rest = rest.trim_start();
        match rest.strip_prefix(',') {
            Some(more) => rest = more.trim_start(),
            None if rest.is_empty() => return Some(names),
            None => return None,
        }
    }
}

/// The names of a text like `schema.name`, as functions take the names of relations: without quotes any
/// characters but dots and blanks, in lower case, within them as they are.
pub fn split(text: &str) -> SqlResult<Vec<String>> {
    let wrong = || SqlError::new("42602", "invalid name syntax");
    let mut names = Vec::new();
    let mut rest = text.trim_start();
    loop {
        let mut name = String::new();
        if let Some(mut quoted) = rest.strip_prefix('"') {
            loop {
                let (part, behind) = quoted.split_once('"').ok_or_else(wrong)?;
                name.push_str(part);
                match behind.strip_prefix('"') {
                    Some(more) => {
                        name.push('"');
                        quoted = more
                    }
                    None => {
                        rest = behind;
                        break;
                    }
                }
            }
        } else {
            let end = rest.find(|c: char| c == '.' || c.is_whitespace()).unwrap_or(rest.len());
            name = rest[..end].to_ascii_lowercase();
            rest = &rest[end..];
        }
        if name.is_empty() {
            return Err(wrong());
        }
        names.push(name);
        rest = rest.trim_start();
        match rest.strip_prefix('.') {
            Some(more) => rest = more.trim_start(),
            None if rest.is_empty() => return Ok(names),
            None => return Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_texts_are_split() {
        let names = |text| split(text).map_err(|e| e.sqlstate());
        for (text, found) in [
            ("a", &["a"][..]),
            ("  A . b ", &["a", "b"]),
            ("\"A\".\"b\"\"c.\"", &["A", "b\"c."]),
            ("Ä1.x\"-*", &["Ä1", "x\"-*"]),
        ] {
            assert_eq!(names(text).unwrap(), found);
        }
        for text in ["", " ", "a.", ".a", "a b", "\"a", "\"\"", "\"a\"b"] {
            assert_eq!(names(text), Err("42602"), "{text}");
        }
    }

    #[test]
    fn names_are_quoted_when_they_must_be() {
        assert!(KEYWORDS.is_sorted());
        for (name, quoted) in [
            ("a_1", "a_1"),
            ("A", "\"A\""),
            ("select", "\"select\""),
            ("a\"b", "\"a\"\"b\""),
            ("1a", "\"1a\""),
            ("", "\"\""),
        ] {
            assert_eq!(quote(name), quoted);
        }
    }

    #[test]
    fn lists_of_names_are_taken_apart() {
        for (text, names) in [
            ("", Some(&[][..])),
            ("public", Some(&["public"][..])),
            (" \"$user\" ,Public,\"A \"\"b\" ", Some(&["$user", "public", "A \"b"][..])),
            ("a b", None),
            ("a,", None),
            (",a", None),
            ("\"a", None),
        ] {
            let found = list(text);
            assert_eq!(found.as_ref().map(|f| f.iter().map(|s| &s[..]).collect()), names.map(<[_]>::to_vec));
        }
    }
}
