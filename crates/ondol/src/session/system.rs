//! The rows of the system's views (`ondol_sql::bind::system` has their columns).
use crate::session::named::CursorRow;
use crate::session::settings::Settings;
use ondol_base::pool;
use ondol_engine::{Catalog, Connection, FunctionDef, Path, Returns};
use ondol_sql::bind::index::method_name;
use ondol_sql::code::Program;
use ondol_sql::deparse;
use ondol_types::{SqlError, SqlResult, Type, ValueRef, sqlstate};

use ValueRef::{Bool, Float8, Int4, Int8, Text, Timestamptz};

/// What a function gives back, as CREATE FUNCTION says it.
pub(crate) fn returns(catalog: &Catalog, path: &Path, of: &Returns) -> String {
    let quote = crate::transfer::dump::quote;
    match of {
        Returns::Void => "void".into(),
        Returns::Scalar { ty, set } => {
            format!("{}{}", if *set { "SETOF " } else { "" }, catalog.shown_type(path, *ty))
        }
        Returns::Rows { of: Some(table), set, .. } => {
            format!("{}{}", if *set { "SETOF " } else { "" }, catalog.shown(path, table))
        }
        Returns::Rows { of: None, columns, .. } => {
            let one = |(n, t): &(String, Type)| format!("{} {}", quote(n), catalog.shown_type(path, *t));
            let columns: Vec<String> = columns.iter().map(one).collect();
            format!("TABLE({})", columns.join(", "))
        }
    }
}

pub(crate) fn arguments(catalog: &Catalog, path: &Path, f: &FunctionDef) -> String {
    let one = |(n, (name, ty)): (usize, &(Option<String>, Type))| {
        let ty = catalog.shown_type(path, *ty);
        let mode = if f.variadic && n + 1 == f.args.len() { "VARIADIC " } else { "" };
        let name = name.as_ref().map_or(String::new(), |n| crate::transfer::dump::quote(n) + " ");
        let default = deparse::of_argument(f, n, catalog, path);
        let default = default.map_or(String::new(), |text| format!(" DEFAULT {text}"));
        format!("{mode}{name}{ty}{default}")
    };
    f.args.iter().enumerate().map(one).collect::<Vec<_>>().join(", ")
}

/// The stored byte code, readable.
fn code(f: &FunctionDef, catalog: &Catalog) -> String {
    match Program::decode(&f.code, catalog) {
        Ok(p) => ondol_sql::code::explain::byte_code(&p, None).join("\n"),
        Err(ondol_sql::code::Rejected::Stale) => {
            "(of an older dictionary; compiled again when called)".into()
        }
        Err(ondol_sql::code::Rejected::Corrupt(what)) => format!("(damaged: {what})"),
    }
}

/// Gives every row of the view to `each`.
pub(crate) fn rows(
    view: &str,
    connection: &Connection,
    settings: Option<&Settings>,
    cursors: &[CursorRow],
    each: &mut dyn FnMut(&[ValueRef<'_>]) -> SqlResult<()>,
) -> SqlResult<()> {
    let (catalog, path) = (connection.catalog(), Path::public());
    let database = connection.database();
    match view {
        "ondol_tables" => {
            for t in catalog.tables() {
                let bytes = t.store.rows.bytes() + t.store.strings.bytes();
                each(&[
                    Int4(t.def.id as i32),
                    Text(&t.def.name),
                    Int4(t.def.shown().len() as i32),
                    Int4(t.def.indexes.len() as i32),
                    Int4(t.layout.row_size as i32),
                    Int8(t.count_rows() as i64),
                    Int8(bytes as i64),
                ])?;
            }
        }
        "ondol_indexes" => {
            for t in catalog.tables() {
                for i in &t.indexes {
                    each(&[
                        Int4(i.def.id as i32),
                        Text(&t.def.name),
                        Text(&i.def.name),
                        Text(method_name(i.def.kind)),
                        Bool(i.def.unique),
                        Bool(i.def.primary),
                        Text(&deparse::index::keys(&catalog, &t.def, &i.def, false)),
                        Int8(i.index.entries() as i64),
                        Int8(i.index.memory_bytes() as i64),
                    ])?;
                }
            }
        }
        "ondol_crtree_boxes" => {
            for i in catalog.tables().flat_map(|t| &t.indexes) {
                let Some(tree) = i.index.as_crtree() else { continue };
                let mut boxes = vec![];
                tree.nodes(&connection.pin(), &mut |level, rect| boxes.push((level, *rect)));
                for (node, (level, rect)) in boxes.iter().enumerate() {
                    for d in 0..tree.dimensions() {
                        each(&[
                            Text(&i.def.name),
                            Int4(*level as i32),
                            Int8(node as i64 + 1),
                            Int4(d as i32 + 1),
                            Float8(rect.low[d]),
                            Float8(rect.high[d]),
                        ])?;
                    }
                }
            }
        }
        "ondol_functions" => {
            for f in catalog.functions.values() {
                each(&[
                    Int4(f.id as i32),
                    Text(&f.name),
                    Text(&arguments(&catalog, path, f)),
                    Text(&returns(&catalog, path, &f.returns)),
                    Text(&f.body),
                    Text(&code(f, &catalog)),
                ])?;
            }
        }
        "ondol_memory" => {
            let memory = database.memory();
            for p in &memory.parts {
                each(&[Text(p.kind.name()), Text(&p.name), Int8(p.entries as i64), Int8(p.bytes as i64)])?;
            }
            each(&[Text("total"), Text("used"), Int8(0), Int8(memory.used as i64)])?;
            each(&[Text("limit"), Text("memory_limit"), Int8(0), Int8(memory.limit as i64)])?;
        }
        "ondol_settings" => {
            for s in settings.iter().flat_map(|s| s.all()) {
                each(&[Text(s.name), Text(&s.shown), Text(s.short_desc), Bool(s.changes)])?;
            }
        }
        "ondol_cursors" => {
            for c in cursors {
                each(&[
                    Text(&c.name),
                    Text(&c.statement),
                    Bool(c.is_holdable),
                    Bool(false),
                    Bool(c.is_scrollable),
                    Timestamptz(c.creation_us),
                ])?;
            }
        }
        "ondol_status" => {
            let checkpoint = database.last_checkpoint();
            let opened = database.opened();
            let all = [
                ("version", env!("CARGO_PKG_VERSION").to_string()),
                ("location", database.location().to_string()),
                ("log_streams", database.streams().to_string()),
                ("durable_timestamp", database.durable_ts().to_string()),
                ("dictionary_version", catalog.version.to_string()),
                ("checkpoint_timestamp", checkpoint.at.to_string()),
                ("checkpoints", checkpoint.count.to_string()),
                ("checkpoint_pages", checkpoint.pages.to_string()),
                ("checkpoint_seconds", format!("{:.3}", checkpoint.seconds)),
                ("checkpoint_error", checkpoint.error.unwrap_or_default()),
                ("opened_seconds", format!("{:.3}", opened.seconds)),
                ("recovered_records", opened.recovered.records.to_string()),
                ("recovered_log_bytes", opened.recovered.log_bytes.to_string()),
                ("recovered_image_bytes", opened.recovered.image_bytes.to_string()),
            ];
            for (name, value) in &all {
                each(&[Text(name), Text(value)])?;
            }
        }
        "ondol_workers" => {
            for (n, load) in pool::loads().iter().enumerate() {
                each(&[Int4(n as i32), Int8(load.jobs as i64), Int8(load.ended as i64)])?;
            }
        }
        other => {
            return Err(SqlError::new(
                sqlstate::INTERNAL_ERROR,
                format!("there is no system view \"{other}\""),
            ));
        }
    }
    Ok(())
}
