//! A database as SQL: the way between formats and versions.
//!
//! ```text
//! BEGIN;                                  the dump restores whole or not at all
//! CREATE ROLE ...;                        roles, which all that follows may name
//! CREATE SCHEMA ...;                      schemas first; all names are written with them
//! CREATE TYPE ...;                        types before what has them
//! CREATE SEQUENCE ...;                    sequences before defaults that name them
//! CREATE TABLE ...;                       each table, its columns alone, with defaults that call no function
//! COPY ... FROM stdin; data \.            its rows
//! ALTER SEQUENCE ... OWNED BY ...; SELECT setval(...);   what goes with a column, and how far each has come
//! CREATE INDEX ...; ALTER TABLE ... ADD ...;   then indexes and constraints, so that they are built at once
//! SET LOCAL check_function_bodies = off;  then registered queries: a body may name what comes later, or is no more
//! CREATE FUNCTION ...;
//! CREATE TABLE ...; ...                   with all of the above, tables with columns that are computed by such
//! CREATE FUNCTION ...;                    those that take or give rows of these, or of views, behind them
//! ALTER DOMAIN ... ADD, SET DEFAULT; ALTER TABLE ... SET DEFAULT ...;   what calls them
//! CREATE VIEW ...;                        each behind those that it is over
//! ALTER TABLE ... ADD CONSTRAINT ... CHECK ...;   then the checks of tables, which may call them, too
//! COPY ...;                               the rows of tables with columns of regclass and its like
//! ALTER TABLE ... ADD CONSTRAINT ... FOREIGN KEY ...;   then the foreign keys, whose rows are all there
//! REFRESH MATERIALIZED VIEW ...; CREATE INDEX ...;   what is made of all that, in the views' order
//! ALTER ... OWNER TO; GRANT ...;          last whose it is, and to whom what was given
//! COMMIT;
//! ```
//! - **D1** The dump is one snapshot: types, tables, rows, indexes and functions as they were at one moment.
//!   All tables are in use before the snapshot is taken, so that no definition changes which rows it finds.
//!   Sequences have none: each is written after the rows, as far as it has come by then, which is at least as
//!   far as the rows need.
//! - **D2** Restored into an empty database, it gives the same types, tables, rows, indexes, constraints and
//!   functions (IDs and the order in which rows are stored may differ).
use crate::session::Session;
use crate::session::system;
use crate::transfer::rights;
use ondol_engine::dictionary::action_word;
use ondol_engine::name::{PUBLIC, TEMPORARY, USUAL_PATH};
use ondol_engine::table_lock::TableLock;
use ondol_engine::temporary::is_temporary;
use ondol_engine::view::{Slot, slots};
use ondol_engine::{
    Catalog, CheckDef, ColumnDef, CommentKind, Commented, ForeignDef, FunctionDef, Generated, IndexDef,
    Isolation, KeyAction, Name, Path, Returns, Sequence, SequenceOptions, Table, TableDef, ViewCheck,
    ViewDef, schema_id,
};
use ondol_sql::deparse;
use ondol_types::catalog::registered;
pub use ondol_types::name::quote;
use ondol_types::user::{Part, UserDef, composite, domain, in_order};
use ondol_types::{SqlError, SqlResult, Type};
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;

/// A column's type with its modifier, as SQL takes it.
pub fn column_type(catalog: &Catalog, path: &Path, column: &ColumnDef) -> String {
    catalog.shown_type(path, column.domain.map_or(column.ty, Type::new))
}

/// What a registered query gives back, as CREATE FUNCTION says it.
pub fn returns(catalog: &Catalog, path: &Path, of: &ondol_engine::Returns) -> String {
    system::returns(catalog, path, of)
}

/// A registered query's arguments, as CREATE FUNCTION says them.
pub fn arguments(catalog: &Catalog, path: &Path, f: &FunctionDef) -> String {
    system::arguments(catalog, path, f)
}

/// The statement that makes a type.
pub fn create_type(catalog: &Catalog, path: &Path, user: &UserDef) -> String {
    let name = in_dump(catalog, &Name::new(user.schema, &*user.name));
    if user.is_composite() {
        let fields: Vec<String> = (user.parts.iter())
            .map(|p| format!("\n    {} {}", quote(&p.name), catalog.shown_type(path, p.of())))
            .collect();
        let end = if fields.is_empty() { "" } else { "\n" };
        return user.create(&name, &(fields.join(",") + end));
    }
    user.create(&name, &user.base.map_or(String::new(), |b| catalog.shown_type(path, b)))
}

/// A name as a dump has it: bare in schema `public`, which stands in the dump's path alone.
pub(super) fn in_dump(catalog: &Catalog, name: &Name) -> String {
    if name.schema == PUBLIC { quote(&name.name) } else { catalog.qualified(name) }
}

/// An index as `\d` shows it: `PRIMARY KEY, btree (a)`.
pub fn index_text(catalog: &Catalog, table: &TableDef, index: &IndexDef) -> String {
    if index.options.exclusion {
        return deparse::index::exclusion(catalog, table, index, true);
    }
    let what = match (index.primary, index.constraint, index.unique) {
        (true, ..) => "PRIMARY KEY, ",
        (_, true, _) => "UNIQUE CONSTRAINT, ",
        (_, _, true) => "UNIQUE, ",
        _ => "",
    };
    format!("{what}{}", deparse::index::body(catalog, table, index, true))
}

/// What a column's values come from where a statement gives none, as CREATE TABLE says it.
fn column_default(c: &ColumnDef, catalog: &Catalog) -> String {
    match (&c.generated, &c.default) {
        (Some(Generated::Identity { always, sequence }), _) => {
            let when = if *always { "ALWAYS" } else { "BY DEFAULT" };
            let options = catalog.sequence_by_id(*sequence).map_or(String::new(), |s| {
                let name = in_dump(catalog, &s.def.full_name());
                format!(" (SEQUENCE NAME {name} {})", sequence_options(&s.def.options))
            });
            format!(" GENERATED {when} AS IDENTITY{options}")
        }
        (Some(Generated::Stored(text)), _) => format!(" GENERATED ALWAYS AS ({text}) STORED"),
        (None, Some(text)) => format!(" DEFAULT {text}"),
        (None, None) => String::new(),
    }
}

/// The statement that makes the table, without its indexes.
pub fn create_table(catalog: &Catalog, table: &TableDef) -> String {
    create_table_but(catalog, table, &|_| false)
}

/// The same without defaults that are `later`'s.
fn create_table_but(catalog: &Catalog, table: &TableDef, later: &dyn Fn(&str) -> bool) -> String {
    let (name, path) = (in_dump(catalog, &table.full_name()), Path::public());
    let mut columns: Vec<String> = table
        .shown()
        .iter()
        .map(|c| {
            let default = match &c.default {
                Some(text) if c.generated.is_none() && later(text) => String::new(),
                _ => column_default(c, catalog),
            };
            let not_null = if c.not_null { " NOT NULL" } else { "" };
            let collation = c.collation.as_ref().map_or(String::new(), |c| format!(" COLLATE {}", quote(c)));
            format!("    {} {}{collation}{default}{not_null}", quote(&c.name), column_type(catalog, path, c))
        })
        .collect();
    if let Some(source) = &table.nature.source {
        let keys = table.indexes.iter().filter(|i| i.primary).map(|i| {
            let columns = i.keys().iter().map(|c| quote(&table.columns[c.column].name));
            format!(
                "    CONSTRAINT {} PRIMARY KEY ({})",
                quote(&i.name),
                columns.collect::<Vec<_>>().join(", ")
            )
        });
        columns.extend(keys);
        let options =
            source.options.iter().map(|(name, value)| format!("{} {}", quote(name), rights::literal(value)));
        return format!(
            "CREATE FOREIGN TABLE {name} (\n{}\n) SERVER {} OPTIONS ({});\n",
            columns.join(",\n"),
            quote(&source.server),
            options.collect::<Vec<_>>().join(", ")
        );
    }
    let unlogged = if table.nature.unlogged { "UNLOGGED " } else { "" };
    match columns.is_empty() {
        true => format!("CREATE {unlogged}TABLE {name} ();\n"),
        false => format!("CREATE {unlogged}TABLE {name} (\n{}\n);\n", columns.join(",\n")),
    }
}

/// The options of a sequence, all of them.
pub fn sequence_options(o: &SequenceOptions) -> String {
    let b = &o.bounds;
    let cycle = if b.cycle { " CYCLE" } else { "" };
    format!(
        "START WITH {} INCREMENT BY {} MINVALUE {} MAXVALUE {} CACHE {}{cycle}",
        o.start, b.increment, b.min, b.max, o.cache
    )
}

/// The statement that makes the sequence, which has given out nothing.
pub fn create_sequence(catalog: &Catalog, s: &Sequence) -> String {
    let o = &s.def.options;
    let name = in_dump(catalog, &s.def.full_name());
    let unlogged = if s.def.is_unlogged() { "UNLOGGED " } else { "" };
    format!("CREATE {unlogged}SEQUENCE {name} AS {} {};\n", o.ty, sequence_options(o))
}

/// The statements after which the sequence goes with its column, and has come as far as it has.
fn sequence_state(s: &Sequence, catalog: &Catalog) -> String {
    let name = in_dump(catalog, &s.def.full_name());
    let mut out = String::new();
    if let Some((table, n)) = catalog.owner_of(s.def.id)
        && table.def.columns[n].owns.contains(&s.def.id)
    {
        let column = quote(&table.def.columns[n].name);
        let table = in_dump(catalog, &table.def.full_name());
        out += &format!("ALTER SEQUENCE {name} OWNED BY {table}.{column};\n");
    }
    let (value, _, is_given) = s.state();
    out + &format!("SELECT setval('{}', {value}, {is_given});\n", name.replace('\'', "''"))
}

/// A check of a table as `\d` shows it.
pub fn check_text(check: &CheckDef) -> String {
    let (inherit, valid) =
        (if check.no_inherit { " NO INHERIT" } else { "" }, if check.validated { "" } else { " NOT VALID" });
    format!("CHECK ({}){inherit}{valid}", check.text)
}

/// The statement that adds a check.
pub fn add_check(catalog: &Catalog, table: &TableDef, check: &CheckDef) -> String {
    let (t, name) = (in_dump(catalog, &table.full_name()), quote(&check.name));
    format!("ALTER TABLE {t} ADD CONSTRAINT {name} {};\n", check_text(check))
}

/// A foreign key of a table as `\d` shows it; `shown` gives tables' names.
pub fn foreign_text(
    catalog: &Catalog,
    shown: &dyn Fn(&Name) -> String,
    table: &TableDef,
    key: &ForeignDef,
) -> String {
    let names = |def: &TableDef, columns: &[usize]| -> String {
        let names: Vec<String> = columns.iter().map(|c| quote(&def.columns[*c].name)).collect();
        names.join(", ")
    };
    let parent = catalog.table_by_id(key.table).map(|t| &t.def);
    let index = parent.and_then(|p| p.indexes.iter().find(|i| i.id == key.index));
    let referenced: Vec<usize> =
        index.map_or(Vec::new(), |i| key.parts.iter().map(|p| i.columns[*p].column).collect());
    let mut out = format!("FOREIGN KEY ({}) REFERENCES ", names(table, &key.columns));
    if let Some(parent) = parent {
        out += &format!("{}({})", shown(&parent.full_name()), names(parent, &referenced))
    }
    if key.full {
        out += " MATCH FULL"
    }
    for (what, action) in [("UPDATE", key.on_update), ("DELETE", key.on_delete)] {
        if action != KeyAction::NoAction {
            out += &format!(" ON {what} {}", action_word(action).to_uppercase())
        }
    }
    if !key.set.is_empty() {
        out += &format!(" ({})", names(table, &key.set))
    }
    for (yes, words) in [
        (key.deferrable, " DEFERRABLE"),
        (key.deferred, " INITIALLY DEFERRED"),
        (!key.validated, " NOT VALID"),
    ] {
        out += if yes { words } else { "" }
    }
    out
}

/// The statement that adds a foreign key.
pub fn add_foreign(catalog: &Catalog, table: &TableDef, key: &ForeignDef) -> String {
    let shown = |name: &Name| in_dump(catalog, name);
    let (t, name) = (shown(&table.full_name()), quote(&key.name));
    format!("ALTER TABLE {t} ADD CONSTRAINT {name} {};\n", foreign_text(catalog, &shown, table, key))
}

/// The statements that make an index, with the constraint that it stands for.
pub fn create_index(catalog: &Catalog, table: &TableDef, index: &IndexDef) -> String {
    let (t, name) = (in_dump(catalog, &table.full_name()), quote(&index.name));
    if index.options.exclusion {
        let what = deparse::index::exclusion(catalog, table, index, false);
        return format!("ALTER TABLE {t} ADD CONSTRAINT {name} {what};\n");
    }
    let mut out = format!(
        "CREATE {}INDEX {name} ON {t} USING {};\n",
        if index.unique { "UNIQUE " } else { "" },
        deparse::index::body(catalog, table, index, false)
    );
    if index.primary || index.constraint {
        let what = if index.primary { "PRIMARY KEY" } else { "UNIQUE" };
        out += &format!("ALTER TABLE {t} ADD CONSTRAINT {name} {what} USING INDEX {name};\n");
    }
    out
}

/// The statement that registers the query, for whoever goes by its path.
pub fn create_function(catalog: &Catalog, f: &FunctionDef) -> String {
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
    let definer = if f.definer { " SECURITY DEFINER" } else { "" };
    let path = Path::of(catalog, &f.path);
    let name = Name::new(f.schema, &*f.name);
    let is_bare = f.schema == PUBLIC && path.makes_in == Some(PUBLIC);
    format!(
        "CREATE FUNCTION {}({}) RETURNS {} LANGUAGE sql {volatility}{definer} AS {tag}{body}{tag};\n",
        if is_bare { quote(&f.name) } else { catalog.qualified(&name) },
        system::arguments(catalog, &path, f),
        system::returns(catalog, &path, &f.returns),
    )
}

/// The tables and views whose rows a function takes or gives as values.
fn rows_named(catalog: &Catalog, f: &FunctionDef) -> BTreeSet<u32> {
    let mut types: Vec<Type> = f.args.iter().map(|a| a.1).collect();
    let mut named = BTreeSet::new();
    match &f.returns {
        Returns::Rows { of: Some(of), .. } => {
            named.extend(catalog.table(of).map(|t| t.def.id).or_else(|| catalog.view(of).map(|v| v.id)))
        }
        Returns::Rows { columns, .. } => types.extend(columns.iter().map(|c| c.1)),
        Returns::Scalar { ty, .. } => types.push(*ty),
        Returns::Void => {}
    }
    let of_rows = |ty: Type| Some(composite::table_of(ty.id.user()?.number)?.0);
    named.extend(types.into_iter().filter_map(of_rows));
    named
}

/// Whether rows of a table name objects, which must be there when they are read.
fn names_objects(table: &TableDef) -> bool {
    table.shown().iter().any(|c| registered::kind(c.ty.id).is_some())
}

/// The statements that make the schemas; nothing where there are those only that are always there.
fn create_schemas(catalog: &Catalog) -> String {
    let mut out = String::new();
    match catalog.schema_name(PUBLIC) {
        "public" => {}
        "" => out += "\nDROP SCHEMA public;\n",
        name => out += &format!("\nALTER SCHEMA public RENAME TO {};\n", quote(name)),
    }
    let made = catalog.schemas.iter().filter(|(_, s)| !s.is_system() && s.number != PUBLIC);
    for (name, _) in made {
        out += &format!("\nCREATE SCHEMA {};\n", quote(name))
    }
    out
}

/// The statement that makes a view: of a dump, or, with a path, to be read.
pub fn create_view(view: &ViewDef, catalog: &Catalog, path: Option<&Path>) -> SqlResult<String> {
    let query = ondol_sql::deparse::view(view, catalog, path.unwrap_or(Path::public()), path.is_some())?;
    let query = query.trim_end_matches(';');
    if catalog.materials.contains_key(&view.id) {
        let name = in_dump(catalog, &view.full_name());
        return Ok(format!("CREATE MATERIALIZED VIEW {name} AS\n{query}\n WITH NO DATA;\n"));
    }
    let name = match path {
        Some(_) => catalog.qualified(&view.full_name()),
        None => in_dump(catalog, &view.full_name()),
    };
    let check = match view.check {
        None => "",
        Some(ViewCheck::Local) => "\n WITH LOCAL CHECK OPTION",
        Some(ViewCheck::Cascaded) => "\n WITH CASCADED CHECK OPTION",
    };
    let others = view.options.iter().filter(|(name, _)| name != "check_option");
    let others: Vec<String> = others.map(|(name, value)| format!("{name}='{value}'")).collect();
    let options = match others.is_empty() {
        true => String::new(),
        false => format!(" WITH ({})", others.join(", ")),
    };
    Ok(format!("CREATE VIEW {name}{options} AS\n{query}{check};\n"))
}

/// The statements that put comments on what there is, in an order that no number of an object decides: a
/// database that was restored has others.
fn comments(catalog: &Catalog) -> Vec<String> {
    let lasting = catalog.comments.iter().filter(|(on, _)| !is_temporary(on.id));
    let all = lasting.filter_map(|(on, text)| comment(catalog, on, text));
    let mut all: Vec<String> = all.collect();
    all.sort();
    all
}

/// The statement that puts a comment on something.
fn comment(catalog: &Catalog, on: &Commented, text: &str) -> Option<String> {
    let (table, view) = (catalog.table_by_id(on.id), catalog.view_by_id(on.id));
    let name = table.map(|t| t.def.full_name()).or_else(|| view.map(|v| v.full_name()));
    let relation = || name.as_ref().map(|n| in_dump(catalog, n));
    let part = quote(&on.part);
    let user = || catalog.types.values().filter_map(|t| t.user()).find(|u| u.number == on.id);
    let what = match on.kind {
        CommentKind::Relation if table.is_some_and(|t| t.def.is_material()) => {
            format!("MATERIALIZED VIEW {}", relation()?)
        }
        CommentKind::Relation if table.is_some_and(|t| t.def.is_foreign()) => {
            format!("FOREIGN TABLE {}", relation()?)
        }
        CommentKind::Relation if table.is_some() => format!("TABLE {}", relation()?),
        CommentKind::Relation if view.is_some() => format!("VIEW {}", relation()?),
        CommentKind::Relation if catalog.sequence_by_id(on.id).is_some() => {
            let sequence = catalog.sequence_by_id(on.id)?;
            format!("SEQUENCE {}", in_dump(catalog, &sequence.def.full_name()))
        }
        CommentKind::Relation => {
            let mut indexes = catalog.tables().flat_map(|t| t.def.indexes.iter().map(move |i| (t, i)));
            let (table, index) = indexes.find(|(_, i)| i.id == on.id)?;
            format!("INDEX {}", in_dump(catalog, &table.def.index_name(index)))
        }
        CommentKind::Column => format!("COLUMN {}.{part}", relation()?),
        CommentKind::Constraint => format!("CONSTRAINT {part} ON {}", relation()?),
        CommentKind::Function => {
            let f = catalog.functions.get(&on.id)?;
            let types: Vec<String> = f.args.iter().map(|a| catalog.shown_type(Path::public(), a.1)).collect();
            let name = in_dump(catalog, &Name::new(f.schema, &*f.name));
            format!("FUNCTION {name}({})", types.join(", "))
        }
        CommentKind::Type => {
            let user = user()?;
            let word = if user.kind == ondol_types::user::domain::CODE { "DOMAIN" } else { "TYPE" };
            format!("{word} {}", in_dump(catalog, &Name::new(user.schema, &*user.name)))
        }
        CommentKind::Schema => {
            let (name, _) = catalog.schemas.iter().find(|(_, s)| schema_id(s.number) == on.id)?;
            format!("SCHEMA {}", quote(name))
        }
        CommentKind::TypeConstraint => {
            let user = user()?;
            let domain = in_dump(catalog, &Name::new(user.schema, &*user.name));
            format!("CONSTRAINT {part} ON DOMAIN {domain}")
        }
    };
    // Without escapes a backslash is one.
    Some(format!("COMMENT ON {what} IS '{}';\n", text.replace('\'', "''")))
}

/// The views, materialised ones among them, each behind those that it is over.
fn views_in_order(catalog: &Catalog) -> Vec<&ViewDef> {
    let lasting = catalog.queries().filter(|v| v.schema != TEMPORARY);
    let mut left: Vec<&ViewDef> = lasting.map(|v| &**v).collect();
    left.sort_by_key(|v| v.id);
    let mut order: Vec<&ViewDef> = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let (free, rest): (Vec<_>, Vec<_>) = left.iter().partition(|v| {
            let waits = |s: &Slot| matches!(s, Slot::Relation(n) if left.iter().any(|o| o.id == *n));
            !slots(&v.query).iter().any(waits)
        });
        // None is over itself.
        if free.is_empty() {
            order.extend(rest);
            break;
        }
        order.extend(free);
        left = rest;
    }
    order
}

fn failed(e: std::io::Error) -> SqlError {
    SqlError::new(ondol_engine::error::io_state(&e), format!("could not write the dump: {e}"))
}

impl Session {
    /// Writes the whole database as SQL that `execute`, the shell and `ondol restore` take. `progress` is
    /// told the name of each table and the rows written of it, when it is done.
    pub fn dump(&mut self, out: &mut dyn Write, mut progress: impl FnMut(&str, u64)) -> SqlResult<()> {
        // Tables that are made while others are waited for are to be in use, too.
        const TRIES: u32 = 100;
        for turn in 1.. {
            self.begin(Isolation::RepeatableRead)?;
            let is_still = self.use_all_tables().inspect_err(|_| self.rollback())?;
            if is_still || turn == TRIES {
                break;
            }
            self.rollback()
        }
        // What is moved is written in the usual styles (style/S1), whatever this session's are.
        for name in ["datestyle", "intervalstyle", "extra_float_digits", "bytea_output"] {
            self.settings.set(name, None, true)?;
        }
        self.settings_changed();
        let done = self.dump_within(out, &mut progress);
        self.rollback();
        done
    }

    /// Uses all tables, then takes the transaction's snapshot. Whether the dictionary was the same all along.
    fn use_all_tables(&mut self) -> SqlResult<bool> {
        let before = self.catalog();
        for table in before.tables() {
            self.connection.lock_table(&table.def.full_name(), TableLock::AccessShare, false)?
        }
        self.query("SELECT 1", &[])?;
        Ok(self.catalog().version == before.version)
    }

    fn dump_rows(
        &mut self,
        catalog: &Catalog,
        table: &TableDef,
        out: &mut dyn Write,
        progress: &mut dyn FnMut(&str, u64),
    ) -> SqlResult<()> {
        let given = table.shown().iter().filter(|c| c.computed().is_none());
        let columns: Vec<String> = given.map(|c| quote(&c.name)).collect();
        // Of a row that gives none, there is an empty line.
        let columns = if columns.is_empty() { String::new() } else { format!(" ({})", columns.join(", ")) };
        let name = table.full_name();
        writeln!(out, "COPY {}{columns} FROM stdin;", in_dump(catalog, &name)).map_err(failed)?;
        let from = format!("COPY {}{columns} TO STDOUT", catalog.qualified(&name));
        let rows = self.copy_out(&from, &mut *out, |_| {})?;
        writeln!(out, "\\.").map_err(failed)?;
        progress(&table.name, rows);
        Ok(())
    }

    fn dump_within(&mut self, out: &mut dyn Write, progress: &mut dyn FnMut(&str, u64)) -> SqlResult<()> {
        let catalog = self.catalog();
        let called: Vec<String> = catalog.functions.values().map(|f| f.name.to_lowercase()).collect();
        // Of a name that only stands there, too: it does no harm.
        let later = |text: &str| {
            let text = text.to_lowercase();
            called.iter().any(|name| text.contains(name))
        };
        write!(out, "-- Ondol {} dump\n\nBEGIN;\n", env!("CARGO_PKG_VERSION")).map_err(failed)?;
        let schemas = create_schemas(&catalog);
        let base = match catalog.schema_name(PUBLIC) {
            "" => "''".to_string(),
            name => quote(name),
        };
        // Those who restore it have the usual path, which a schema of their name may stand in.
        // Objects that rows name are named for who restores them.
        let own = if base == "''" { "\"\"" } else { &base };
        self.settings.set("search_path", Some(own), true)?;
        self.settings_changed();
        let is_usual = schemas.is_empty() && catalog.functions.values().all(|f| f.path == USUAL_PATH);
        let mut path = if is_usual { USUAL_PATH } else { "" }.to_string();
        let mut go_by = |out: &mut dyn Write, wanted: &str| {
            if is_usual || path == wanted {
                return Ok(());
            }
            path = wanted.to_string();
            // SET makes a list of one empty name of it.
            let said = if ["", "\"\""].contains(&wanted) { "''" } else { wanted };
            writeln!(out, "\nSET LOCAL search_path = {said};").map_err(failed)
        };
        write!(out, "{}{schemas}", rights::roles(&catalog)).map_err(failed)?;
        go_by(out, &base)?;
        let types = in_order(catalog.types.values().filter_map(|t| t.user()).collect());
        let (mut altered, mut late_indexes) = (String::new(), String::new());
        for user in types {
            let mut early = user.clone();
            if user.kind == domain::CODE {
                let name = in_dump(&catalog, &Name::new(user.schema, &*user.name));
                let is_later = |part: &Part| part.text.as_deref().is_some_and(later);
                for check in early.parts.extract_if(.., |p| is_later(p)) {
                    let (check, text) = (quote(&check.name), check.text.unwrap_or_default());
                    altered += &format!("ALTER DOMAIN {name} ADD CONSTRAINT {check} CHECK ({text});\n");
                }
                if let Some(default) = early.default.take_if(|d| later(d)) {
                    altered += &format!("ALTER DOMAIN {name} SET DEFAULT {default};\n");
                }
            }
            write!(out, "\n{}\n", create_type(&catalog, Path::public(), &early)).map_err(failed)?;
        }
        // Those of identity columns are made with their tables.
        let is_identity =
            |id: u32| catalog.owner_of(id).is_some_and(|(t, n)| t.def.columns[n].identity() == Some(id));
        let lasting = || catalog.sequences().filter(|s| !is_temporary(s.def.id));
        for sequence in lasting().filter(|s| !is_identity(s.def.id)) {
            write!(out, "\n{}", create_sequence(&catalog, sequence)).map_err(failed)?;
        }
        let is_own = |t: &&Arc<Table>| t.def.schema != TEMPORARY && !t.def.is_material();
        // What a column is computed by is called while its table's rows are read.
        let computes = |t: &&Arc<Table>| t.def.shown().iter().filter_map(|c| c.computed()).any(later);
        let (late, early): (Vec<_>, Vec<_>) = catalog.tables().filter(is_own).partition(computes);
        let is_late = |s: &Sequence| {
            let owner = catalog.owner_of(s.def.id);
            owner.is_some_and(|(t, _)| late.iter().any(|l| l.def.id == t.def.id))
        };
        // A function comes behind what it takes or gives rows of.
        let (mut there, mut functions) = (BTreeSet::new(), catalog.functions.values().collect::<Vec<_>>());
        let mut made = |relations: &[u32]| -> Vec<&Arc<FunctionDef>> {
            there.extend(relations.iter().copied());
            let (made, left) = functions.iter().partition(|f| rows_named(&catalog, f).is_subset(&there));
            functions = left;
            made
        };
        for (n, tables) in [early, late.clone()].into_iter().enumerate() {
            let is_last = n == 1;
            go_by(out, &base)?;
            for table in &tables {
                write!(out, "\n{}", create_table_but(&catalog, &table.def, &later)).map_err(failed)?;
                for c in table.def.shown() {
                    if let Some(default) = c.default.as_deref().filter(|d| later(d)) {
                        let (table, column) = (in_dump(&catalog, &table.def.full_name()), quote(&c.name));
                        altered +=
                            &format!("ALTER TABLE {table} ALTER COLUMN {column} SET DEFAULT {default};\n");
                    }
                }
                // Their rows, and what is made of them, are elsewhere.
                if table.def.is_foreign() {
                    continue;
                }
                if !names_objects(&table.def) {
                    self.dump_rows(&catalog, &table.def, out, progress)?;
                }
                for index in &table.def.indexes {
                    let made = create_index(&catalog, &table.def, index);
                    // Functions come behind tables.
                    let calls = index.columns.iter().map(|c| &table.def.columns[c.column]);
                    if calls.filter(|c| c.is_hidden()).any(|c| later(c.label())) {
                        late_indexes += &made;
                        continue;
                    }
                    write!(out, "{made}").map_err(failed)?;
                }
            }
            for (n, sequence) in lasting().filter(|s| is_late(s) == is_last).enumerate() {
                let blank = if n == 0 { "\n" } else { "" };
                write!(out, "{blank}{}", sequence_state(sequence, &catalog)).map_err(failed)?;
            }
            if !is_last && !catalog.functions.is_empty() {
                writeln!(out, "\nSET LOCAL check_function_bodies = off;").map_err(failed)?;
            }
            for function in made(&tables.iter().map(|t| t.def.id).collect::<Vec<_>>()) {
                go_by(out, &function.path)?;
                write!(out, "{}", create_function(&catalog, function)).map_err(failed)?;
            }
        }
        go_by(out, &base)?;
        write!(out, "{altered}{late_indexes}").map_err(failed)?;
        let views = views_in_order(&catalog);
        let material = |v: &ViewDef| catalog.materials.get(&v.id).and_then(|v| catalog.table(v.full_name()));
        for view in &views {
            write!(out, "\n{}", create_view(view, &catalog, None)?).map_err(failed)?;
            for function in made(&[view.id]) {
                go_by(out, &function.path)?;
                write!(out, "{}", create_function(&catalog, function)).map_err(failed)?;
            }
            go_by(out, &base)?;
            for c in view.columns.iter().filter(|_| material(view).is_none()) {
                let Some(default) = &c.default else { continue };
                let (view, column) = (in_dump(&catalog, &view.full_name()), quote(&c.name));
                writeln!(out, "ALTER VIEW {view} ALTER COLUMN {column} SET DEFAULT {default};")
                    .map_err(failed)?;
            }
        }
        for table in catalog.tables().filter(|t| t.def.schema != TEMPORARY) {
            for check in &table.def.checks {
                write!(out, "{}", add_check(&catalog, &table.def, check)).map_err(failed)?;
            }
        }
        for table in catalog.tables().filter(is_own).filter(|t| names_objects(&t.def)) {
            writeln!(out).map_err(failed)?;
            self.dump_rows(&catalog, &table.def, out, progress)?;
        }
        for table in catalog.tables().filter(|t| t.def.schema != TEMPORARY) {
            for key in table.foreign_keys() {
                write!(out, "{}", add_foreign(&catalog, &table.def, key)).map_err(failed)?;
            }
        }
        for table in views.iter().filter_map(|v| material(v)) {
            let name = in_dump(&catalog, &table.def.full_name());
            if !table.def.is_unpopulated() {
                write!(out, "\nREFRESH MATERIALIZED VIEW {name};\n").map_err(failed)?;
            }
            for index in &table.def.indexes {
                write!(out, "{}", create_index(&catalog, &table.def, index)).map_err(failed)?;
            }
        }
        for text in comments(&catalog) {
            write!(out, "\n{text}").map_err(failed)?;
        }
        for text in rights::rights(&catalog) {
            write!(out, "\n{text}").map_err(failed)?;
        }
        let defaults = rights::defaults(&catalog);
        if !defaults.is_empty() {
            write!(out, "\n{defaults}").map_err(failed)?;
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
            definer: false,
            id: 1,
            schema: PUBLIC,
            name: "f".into(),
            path: USUAL_PATH.into(),
            args: vec![(Some("a".into()), Type::INT4)],
            defaults: vec![],
            variadic: false,
            returns: Returns::Void,
            body: "SELECT $$x$$".into(),
            code: Vec::new(),
            volatility: Volatility::Volatile,
        };
        let catalog = Catalog::default();
        let text = create_function(&catalog, &f);
        assert_eq!(
            text,
            "CREATE FUNCTION f(a integer) RETURNS void LANGUAGE sql VOLATILE AS $f1$SELECT $$x$$$f1$;\n"
                .replace("$$$f1$", "$$\n$f1$")
        );
        f.body = "SELECT  2".into();
        assert!(create_function(&catalog, &f).contains("$$SELECT  2$$"));
    }
}
