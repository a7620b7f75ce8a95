//! A database as SQL: the way between formats and versions.
//!
//! ```text
//! BEGIN;                                  the dump restores whole or not at all
//! CREATE TYPE ...;                        types before what has them
//! CREATE TABLE ...;                       each table, its columns alone
//! COPY ... FROM stdin; data \.            its rows
//! CREATE INDEX ...; ALTER TABLE ... ADD ...;   then indexes and constraints, so that they are built at once
//! SET LOCAL check_function_bodies = off;  then registered queries: a body may name what comes later, or is no more
//! CREATE FUNCTION ...;
//! ALTER TABLE ... ADD CONSTRAINT ... CHECK ...;   last the checks of tables, which may call them
//! COMMIT;
//! ```
//! - **D1** The dump is one snapshot: types, tables, rows, indexes and functions as they were at one moment.
//! - **D2** Restored into an empty database, it gives the same types, tables, rows, indexes, constraints and
//!   functions (IDs and the order in which rows are stored may differ).
use crate::session::Session;
use crate::session::system;
use ondol_engine::{CheckDef, ColumnDef, FunctionDef, IndexDef, Isolation, TableDef};
pub use ondol_types::name::quote;
use ondol_types::user::UserDef;
use ondol_types::{SqlError, SqlResult};
use std::io::Write;

/// A column's type with its modifier, as SQL takes it.
pub fn column_type(column: &ColumnDef) -> String {
    column.domain.map_or_else(|| column.ty.to_string(), |d| d.name().to_string())
}

/// What a registered query gives back, as CREATE FUNCTION says it.
pub fn returns(of: &ondol_engine::Returns) -> String {
    system::returns(of)
}

/// A registered query's arguments, as CREATE FUNCTION says them.
pub fn arguments(f: &FunctionDef) -> String {
    system::arguments(f)
}

/// An index as `\d` shows it: `PRIMARY KEY, btree (a)`.
pub fn index_text(table: &TableDef, index: &IndexDef) -> String {
    let what = match (index.primary, index.constraint, index.unique) {
        (true, ..) => "PRIMARY KEY, ",
        (_, true, _) => "UNIQUE CONSTRAINT, ",
        (_, _, true) => "UNIQUE, ",
        _ => "",
    };
    format!("{what}{} ({})", system::kind_name(index.kind), system::index_columns(table, index))
}

/// The statement that makes the table, without its indexes.
pub fn create_table(table: &TableDef) -> String {
    let columns: Vec<String> = table
        .columns
        .iter()
        .map(|c| {
            let default = c.default.as_ref().map_or(String::new(), |d| format!(" DEFAULT {d}"));
            let not_null = if c.not_null { " NOT NULL" } else { "" };
            format!("    {} {}{default}{not_null}", quote(&c.name), column_type(c))
        })
        .collect();
    match columns.is_empty() {
        true => format!("CREATE TABLE {} ();\n", quote(&table.name)),
        false => format!("CREATE TABLE {} (\n{}\n);\n", quote(&table.name), columns.join(",\n")),
    }
}

/// A check of a table as `\d` shows it.
pub fn check_text(check: &CheckDef) -> String {
    let (inherit, valid) =
        (if check.no_inherit { " NO INHERIT" } else { "" }, if check.validated { "" } else { " NOT VALID" });
    format!("CHECK ({}){inherit}{valid}", check.text)
}

/// The statement that adds a check.
pub fn add_check(table: &TableDef, check: &CheckDef) -> String {
    let (t, name) = (quote(&table.name), quote(&check.name));
    format!("ALTER TABLE {t} ADD CONSTRAINT {name} {};\n", check_text(check))
}

/// The statements that make an index, with the constraint that it stands for.
pub fn create_index(table: &TableDef, index: &IndexDef) -> String {
    let (t, name) = (quote(&table.name), quote(&index.name));
    let mut out = format!(
        "CREATE {}INDEX {name} ON {t} USING {} ({});\n",
        if index.unique { "UNIQUE " } else { "" },
        system::kind_name(index.kind),
        system::index_columns(table, index)
    );
    if index.primary || index.constraint {
        let what = if index.primary { "PRIMARY KEY" } else { "UNIQUE" };
        out += &format!("ALTER TABLE {t} ADD CONSTRAINT {name} {what} USING INDEX {name};\n");
    }
    out
}

/// The statement that registers the query.
pub fn create_function(f: &FunctionDef) -> String {
    // A tag that the body does not hold.
    let mut tag = "$$".to_string();
    let mut n = 0;
    while f.body.contains(&tag) {
        n += 1;
        tag = format!("$f{n}$");
    }
    // A dollar at the body's end would run into the tag.
    let body = if f.body.ends_with('$') { format!("{}\n", f.body) } else { f.body.clone() };
    let volatility = f.volatility.word().to_uppercase();
    format!(
        "CREATE FUNCTION {}({}) RETURNS {} LANGUAGE sql {volatility} AS {tag}{body}{tag};\n",
        quote(&f.name),
        system::arguments(f),
        system::returns(&f.returns),
    )
}

fn failed(e: std::io::Error) -> SqlError {
    SqlError::new(ondol_engine::error::io_state(&e), format!("could not write the dump: {e}"))
}

impl Session {
    /// Writes the whole database as SQL that `execute`, the shell and `ondol restore` take. `progress` is
    /// told the name of each table and the rows written of it, when it is done.
    pub fn dump(&mut self, out: &mut dyn Write, mut progress: impl FnMut(&str, u64)) -> SqlResult<()> {
        self.begin(Isolation::RepeatableRead)?;
        let done = self.dump_within(out, &mut progress);
        self.rollback();
        done
    }

    fn dump_within(&mut self, out: &mut dyn Write, progress: &mut dyn FnMut(&str, u64)) -> SqlResult<()> {
        // The first statement takes the snapshot; the dictionary is read after it, and no table it names can
        // be dropped or changed while a snapshot uses it.
        self.query("SELECT 1", &[])?;
        let catalog = self.catalog();
        write!(out, "-- Ondol {} dump\n\nBEGIN;\n", env!("CARGO_PKG_VERSION")).map_err(failed)?;
        let mut types: Vec<&UserDef> = catalog.types.values().filter_map(|t| t.user()).collect();
        types.sort_by_key(|u| u.number);
        for user in types {
            write!(out, "\n{}\n", user.create()).map_err(failed)?;
        }
        for table in catalog.tables.values() {
            write!(out, "\n{}", create_table(&table.def)).map_err(failed)?;
            if !table.def.columns.is_empty() {
                let columns: Vec<String> = table.def.columns.iter().map(|c| quote(&c.name)).collect();
                let of = format!("{} ({})", quote(&table.def.name), columns.join(", "));
                writeln!(out, "COPY {of} FROM stdin;").map_err(failed)?;
                let rows = self.copy_out(&format!("COPY {of} TO STDOUT"), &mut *out, |_| {})?;
                writeln!(out, "\\.").map_err(failed)?;
                progress(&table.def.name, rows);
            }
            for index in &table.def.indexes {
                write!(out, "{}", create_index(&table.def, index)).map_err(failed)?;
            }
        }
        if !catalog.functions.is_empty() {
            writeln!(out, "\nSET LOCAL check_function_bodies = off;").map_err(failed)?;
        }
        for function in catalog.functions.values() {
            write!(out, "{}", create_function(function)).map_err(failed)?;
        }
        for table in catalog.tables.values() {
            for check in &table.def.checks {
                write!(out, "{}", add_check(&table.def, check)).map_err(failed)?;
            }
        }
        write!(out, "\nCOMMIT;\n").and_then(|()| out.flush()).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondol_engine::Returns;
    use ondol_types::Type;
    use ondol_types::func::Volatility;

    #[test]
    fn a_body_never_holds_its_own_quotes() {
        let mut f = FunctionDef {
            id: 1,
            name: "f".into(),
            args: vec![(Some("a".into()), Type::INT4)],
            returns: Returns::Void,
            body: "SELECT $$x$$".into(),
            code: Vec::new(),
            volatility: Volatility::Volatile,
        };
        let text = create_function(&f);
        assert_eq!(
            text,
            "CREATE FUNCTION f(a integer) RETURNS void LANGUAGE sql VOLATILE AS $f1$SELECT $$x$$$f1$;\n"
                .replace("$$$f1$", "$$\n$f1$")
        );
        f.body = "SELECT  2".into();
        assert!(create_function(&f).contains("$$SELECT  2$$"));
    }
}
