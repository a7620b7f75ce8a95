//! Completion: keywords, tables, columns, functions, and the shell's own commands.
use ondol::Catalog;
use ondol_base::sync::Mutex;
use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use std::collections::BTreeSet;
use std::sync::Arc;

const KEYWORDS: &[&str] = &[
    "ALL",
    "ALTER TABLE",
    "ANALYZE",
    "AND",
    "AS",
    "ASC",
    "AVG",
    "BEGIN",
    "BETWEEN",
    "BIGINT",
    "BOOLEAN",
    "BY",
    "BYTEA",
    "CASE",
    "CHAR",
    "CHECKPOINT",
    "CLOSE",
    "COALESCE",
    "COMMIT",
    "COPY",
    "COUNT",
    "CREATE",
    "CSV",
    "CURSOR",
    "DATE",
    "DEALLOCATE",
    "DECLARE",
    "DEFAULT",
    "DELETE FROM",
    "DESC",
    "DISTINCT",
    "DOUBLE PRECISION",
    "DROP",
    "ELSE",
    "END",
    "EXCEPT",
    "EXECUTE",
    "EXISTS",
    "EXPLAIN",
    "FALSE",
    "FETCH",
    "FOR SHARE",
    "FOR UPDATE",
    "FROM",
    "FUNCTION",
    "GROUP BY",
    "HASH",
    "HAVING",
    "IN",
    "INDEX",
    "INNER JOIN",
    "INSERT INTO",
    "INTEGER",
    "INTERSECT",
    "IS",
    "ISOLATION LEVEL",
    "JOIN",
    "LANGUAGE",
    "LEFT JOIN",
    "LIKE",
    "LIMIT",
    "MAX",
    "MIN",
    "MOVE",
    "NOT",
    "NULL",
    "NUMERIC",
    "OFFSET",
    "ON",
    "OR",
    "ORDER BY",
    "PREPARE",
    "PRIMARY KEY",
    "REPEATABLE READ",
    "RETURNING",
    "RETURNS",
    "ROLLBACK",
    "SAVEPOINT",
    "SCROLL",
    "SELECT",
    "SERIALIZABLE",
    "SET",
    "SETOF",
    "SHOW",
    "SMALLINT",
    "STDIN",
    "STDOUT",
    "SUM",
    "TABLE",
    "TEXT",
    "THEN",
    "TIMESTAMP",
    "TIMESTAMPTZ",
    "TO",
    "TRUE",
    "TRUNCATE",
    "UNION",
    "UNIQUE",
    "UPDATE",
    "USING",
    "VALUES",
    "VARCHAR",
    "WHEN",
    "WHERE",
    "WITH",
    "WITH HOLD",
];

/// The names that the dictionary offers, each without its schema.
#[derive(Default)]
pub struct Names(BTreeSet<String>);

impl Names {
    pub fn of(catalog: &Catalog) -> Names {
        let mut all = BTreeSet::new();
        all.extend(catalog.schemas.keys().cloned());
        all.extend(catalog.relations.keys().map(|n| n.name.clone()));
        for table in catalog.tables() {
            all.extend(table.def.shown().iter().map(|c| c.name.clone()));
        }
        for view in catalog.views.values() {
            all.extend(view.columns.iter().map(|c| c.name.clone()));
        }
        all.extend(catalog.functions.values().map(|f| f.name.clone()));
        Names(all)
    }

    /// What the beginning of a word may become.
    fn of_prefix(&self, word: &str) -> Vec<String> {
        if word.is_empty() {
            return Vec::new();
        }
        let mut all: Vec<String> = self.0.iter().filter(|n| n.starts_with(word)).cloned().collect();
        let upper = word.to_ascii_uppercase();
        let small = word.chars().any(|c| c.is_ascii_lowercase());
        for k in KEYWORDS.iter().filter(|k| k.starts_with(&upper)) {
            all.push(if small { k.to_ascii_lowercase() } else { k.to_string() });
        }
        all
    }
}

pub struct Assistant {
    pub names: Arc<Mutex<Names>>,
}

impl Completer for Assistant {
    type Candidate = String;
    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let before = &line[..pos];
        if before.starts_with('\\') && !before.contains(' ') {
            let all = super::describe::COMMANDS.iter().map(|c| format!("\\{}", c.0));
            return Ok((0, all.filter(|c| c.starts_with(before)).collect()));
        }
        let start = before
            .rfind(|c: char| !c.is_alphanumeric() && c != '_')
            .map_or(0, |n| n + before[n..].chars().next().map_or(1, char::len_utf8));
        Ok((start, self.names.lock().of_prefix(&before[start..])))
    }
}

impl Hinter for Assistant {
    type Hint = String;
}
impl Highlighter for Assistant {}
impl Validator for Assistant {}
impl Helper for Assistant {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_completed_in_the_case_they_were_begun() {
        let names = Names(["customer", "counter", "Odd"].iter().map(|s| s.to_string()).collect());
        assert_eq!(names.of_prefix("cu"), ["customer", "cursor"]);
        assert_eq!(names.of_prefix("sele"), ["select"]);
        assert_eq!(names.of_prefix("SELE"), ["SELECT"]);
        assert_eq!(names.of_prefix("count"), ["counter", "count"]);
        assert!(names.of_prefix("").is_empty());
    }
}
