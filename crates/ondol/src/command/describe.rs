//! The shell's own commands, those that begin with a backslash.
use super::format::{Format, aligned};
use super::script::{LineSource, Runner};
use super::{Done, Failed};
use ondol::dump::{
    arguments, check_text, column_type, create_type, create_view, foreign_text, index_text, quote, returns,
};
use ondol::{Catalog, Column, FunctionDef, Name, Path, Relation, Rows, Table, Type, TypeId, ValueRef};
use ondol_engine::{CheckDef, ColumnDef, CommentKind, Commented, Generated, Reference, Sequence, ViewDef};
use ondol_sql::deparse::{self, TableText};
use ondol_types::user::{Part, UserDef};
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;

/// (name, arguments, what it does)
pub const COMMANDS: &[(&str, &str, &str)] = &[
    ("?", "", "show this list"),
    ("copy", "TABLE|(QUERY) FROM|TO FILE [OPTIONS]", "COPY with a file of this machine"),
    (
        "d",
        "[NAME]",
        "describe a table, a view, an index or a sequence; without a name, list them; \\d+ shows a view's query",
    ),
    ("df", "[NAME]", "list registered queries"),
    ("di", "[NAME]", "list indexes"),
    ("ds", "[NAME]", "list sequences"),
    ("dt", "[NAME]", "list tables"),
    ("dT", "[NAME]", "list types that users have defined"),
    ("dm", "[NAME]", "list materialized views"),
    ("dn", "[NAME]", "list schemas"),
    ("dv", "[NAME]", "list views"),
    ("echo", "[TEXT]", "write the text to standard output"),
    ("format", "table|csv|json|records", "choose how results look"),
    ("g", "", "run the statement before it (as a semicolon does); \\gx shows it expanded"),
    ("h", "", "say where SQL is described"),
    ("i", "FILE", "run a file of SQL"),
    ("memory", "", "show what takes memory"),
    ("o", "[FILE]", "send results to a file; without one, back to standard output"),
    ("p", "", "show the statement begun"),
    ("q", "", "leave"),
    ("r", "", "drop the statement begun"),
    ("restrict", "KEY", "take no backslash command but \\unrestrict with the same key"),
    ("sv", "NAME", "show the statement that makes a view"),
    ("session", "[NAME]", "go to the session of that name, made if need be; without one, list sessions"),
    ("timing", "[on|off]", "show how long each statement takes"),
    ("unrestrict", "KEY", "take backslash commands again"),
    ("x", "[on|off]", "show a line for each column"),
];

/// Runs a backslash command.
pub fn command(r: &mut Runner, line: &str) -> Done {
    let (name, rest) = match line.find(char::is_whitespace) {
        Some(n) => (&line[..n], line[n..].trim()),
        None => (line, ""),
    };
    // A semicolon out of habit.
    let argument = rest.trim_end_matches(';').trim();
    match name {
        "?" => help(r),
        "copy" => copy(r, rest.trim_end_matches(';')),
        "d" | "d+" if argument.is_empty() => list(
            r,
            &Wanted::of(""),
            &["table", "view", "materialized view", "index", "sequence"],
            name == "d+",
        ),
        "d" | "d+" => describe(r, &Wanted::of(argument), name == "d+"),
        "ds" | "ds+" => list(r, &Wanted::of(argument), &["sequence"], name == "ds+"),
        "dt" | "dt+" => list(r, &Wanted::of(argument), &["table"], name == "dt+"),
        "dm" | "dm+" => list(r, &Wanted::of(argument), &["materialized view"], name == "dm+"),
        "dv" | "dv+" => list(r, &Wanted::of(argument), &["view"], name == "dv+"),
        "sv" => show_view(r, &Wanted::of(argument)),
        "dT" | "dT+" => types(r, &Wanted::of(argument)),
        "di" | "di+" => list(r, &Wanted::of(argument), &["index"], name == "di+"),
        "df" | "df+" => functions(r, &Wanted::of(argument)),
        "dn" | "dn+" => schemas(r, &identifier(argument)),
        "echo" => say(r, &format!("{rest}\n")),
        "format" => {
            r.format = match argument {
                "table" => Format::Table,
                "csv" => Format::Csv,
                "json" => Format::Json,
                "records" => Format::Records,
                other => {
                    return Err(wrong(format!("\\format: {other:?} is none of table, csv, json, records")));
                }
            };
            Ok(())
        }
        "g" | "gx" | "r" => Ok(()),
        "p" => say(r, "Nothing is begun.\n"),
        "h" => say(
            r,
            "The SQL is PostgreSQL's: https://www.postgresql.org/docs/15/sql-commands.html\nWhat is missing says so: SQLSTATE 0A000 and its name.\n",
        ),
        "i" if argument.is_empty() => Err(wrong("\\i: a file is missing")),
        "i" => r.include(&unquoted(argument)),
        "memory" => sql(r, "SELECT kind, name, rows, bytes FROM ondol_memory"),
        "o" => {
            r.out.flush().map_err(|e| Failed::io("could not write the output", e))?;
            r.out = match argument {
                "" => Box::new(io::BufWriter::with_capacity(1 << 16, io::stdout())),
                path => {
                    let path = unquoted(path);
                    let file = File::create(&path).map_err(|e| Failed::io(&path, e))?;
                    Box::new(io::BufWriter::with_capacity(1 << 16, file))
                }
            };
            Ok(())
        }
        "restrict" | "unrestrict" if argument.is_empty() => {
            Err(wrong(format!("\\{name}: missing required argument")))
        }
        "restrict" => {
            r.restricted = Some(argument.to_string());
            Ok(())
        }
        "unrestrict" => match r.restricted.take() {
            Some(key) if key == argument => Ok(()),
            None => Err(wrong("\\unrestrict: not currently in restricted mode")),
            key => {
                r.restricted = key;
                Err(wrong("\\unrestrict: wrong key"))
            }
        },
        "q" => {
            r.quit = true;
            Ok(())
        }
        "session" if argument.is_empty() => {
            let rows: Vec<Vec<String>> = r.states().into_iter().map(|(n, s)| vec![n, s.into()]).collect();
            show(r, Some("Sessions"), &["name", "state"], &rows, true)
        }
        "session" => r.go_to(&identifier(argument)),
        "timing" => {
            r.timing = switch(name, argument, r.timing)?;
            if r.interactive {
                say(r, &format!("Timing is {}.\n", if r.timing { "on" } else { "off" }))
            } else {
                Ok(())
            }
        }
        "x" => {
            r.expanded = switch(name, argument, r.expanded)?;
            let state = if r.expanded { "on" } else { "off" };
            if r.interactive { say(r, &format!("Expanded display is {state}.\n")) } else { Ok(()) }
        }
        other => Err(wrong(format!("invalid command \\{other}\nTry \\? for help."))),
    }
}

fn wrong(message: impl Into<String>) -> Failed {
    Failed::Message(message.into())
}

fn say(r: &mut Runner, text: &str) -> Done {
    r.out
        .write_all(text.as_bytes())
        .and_then(|()| r.out.flush())
        .map_err(|e| Failed::io("could not write the output", e))
}

fn switch(name: &str, argument: &str, now: bool) -> Result<bool, Failed> {
    match argument {
        "" => Ok(!now),
        "on" | "true" | "1" => Ok(true),
        "off" | "false" | "0" => Ok(false),
        other => Err(wrong(format!("\\{name}: {other:?} is neither on nor off"))),
    }
}

/// A name as SQL takes it: folded to lower case unless quoted.
fn identifier(text: &str) -> String {
    match text.strip_prefix('"').and_then(|t| t.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => text.to_lowercase(),
    }
}

/// What is to be shown: of a name or of all, in a schema or by the path.
struct Wanted {
    schema: Option<String>,
    /// Nothing: all.
    name: String,
}

impl Wanted {
    /// `name`, `schema.name`, `schema.*`; a dot in quotes is part of a name.
    fn of(text: &str) -> Wanted {
        let mut quoted = false;
        let dot = text.find(|c| {
            quoted ^= c == '"';
            c == '.' && !quoted
        });
        let name = |t: &str| if t == "*" { String::new() } else { identifier(t) };
        match dot {
            Some(n) => Wanted { schema: Some(identifier(&text[..n])), name: name(&text[n + 1..]) },
            None => Wanted { schema: None, name: name(text) },
        }
    }
    /// Whether something is wanted; `found`: its name alone means it.
    fn is(&self, catalog: &Catalog, schema: u32, name: &str, found: impl FnOnce() -> bool) -> bool {
        (self.name.is_empty() || self.name == name)
            && match &self.schema {
                Some(s) => s == catalog.schema_name(schema),
                None => found(),
            }
    }
    fn is_relation(&self, catalog: &Catalog, path: &Path, name: &Name) -> bool {
        let found = || catalog.find(path, &name.name).is_some_and(|f| f.0 == *name);
        self.is(catalog, name.schema, &name.name, found)
    }
    fn shown(&self) -> String {
        match &self.schema {
            Some(s) => format!("{s}.{}", self.name),
            None => self.name.clone(),
        }
    }
}

fn unquoted(text: &str) -> String {
    match text.strip_prefix('\'').and_then(|t| t.strip_suffix('\'')) {
        Some(inner) => inner.replace("''", "'"),
        None => text.to_string(),
    }
}

/// No data follows a backslash command.
struct NoLines;
impl LineSource for NoLines {
    fn next(&mut self, _: char, _: &mut Vec<u8>) -> io::Result<bool> {
        Ok(false)
    }
}

fn sql(r: &mut Runner, text: &str) -> Done {
    r.statement(text, &mut NoLines)
}

/// `\copy`: COPY, the file being named as a shell would; since the database is in this process, the server's
/// files are ours.
fn copy(r: &mut Runner, rest: &str) -> Done {
    let lower = rest.to_ascii_lowercase();
    let mut depth = 0;
    let mut word = 0;
    let mut at = None;
    for (i, c) in lower.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            c if c.is_whitespace() => {
                if depth == 0 && matches!(lower.get(word..i), Some("from" | "to")) {
                    at = Some(i);
                    break;
                }
                word = i + 1;
            }
            _ => {}
        }
    }
    let Some(at) = at else { return Err(wrong("\\copy: expected TABLE FROM FILE or TABLE TO FILE")) };
    let (head, tail) = (&rest[..at], rest[at..].trim_start());
    let end = match tail.strip_prefix('\'') {
        Some(inner) => inner.find('\'').map_or(tail.len(), |n| n + 2),
        None => tail.find(char::is_whitespace).unwrap_or(tail.len()),
    };
    let (file, options) = (&tail[..end], &tail[end..]);
    if file.eq_ignore_ascii_case("stdin") || file.eq_ignore_ascii_case("pstdin") {
        return r.statement(&format!("COPY {head} STDIN {options}"), &mut super::script::standard_input());
    }
    if file.eq_ignore_ascii_case("stdout") || file.eq_ignore_ascii_case("pstdout") {
        return sql(r, &format!("COPY {head} STDOUT {options}"));
    }
    if file.is_empty() {
        return Err(wrong("\\copy: a file is missing"));
    }
    let file = unquoted(file).replace('\'', "''");
    sql(r, &format!("COPY {head} '{file}' {options}"))
}

fn help(r: &mut Runner) -> Done {
    let mut text = String::new();
    for (name, arguments, what) in COMMANDS {
        text += &format!("  {:<52}{what}\n", format!("\\{name} {arguments}"));
    }
    say(r, &text)
}

/// A table of texts under a title.
fn show(r: &mut Runner, title: Option<&str>, names: &[&str], rows: &[Vec<String>], footer: bool) -> Done {
    let columns: Arc<[Column]> = names.iter().map(|n| Column::new(*n, Type::new(TypeId::TEXT))).collect();
    let mut all = Rows::of(columns);
    for row in rows {
        let values: Vec<ValueRef<'_>> = row.iter().map(|s| ValueRef::Text(s)).collect();
        all.push(&values)?;
    }
    let mut text = Vec::new();
    aligned(&all, title, &mut text);
    if !footer {
        // The line that counts the rows, and the empty one behind it.
        let end = text[..text.len() - 2].iter().rposition(|&b| b == b'\n').map_or(0, |n| n + 1);
        text.truncate(end);
    }
    say(r, &String::from_utf8_lossy(&text))
}

fn show_view(r: &mut Runner, wanted: &Wanted) -> Done {
    let catalog = r.session.catalog();
    let path = r.session.path(&catalog);
    let named = catalog.relations.iter().find(|(n, _)| wanted.is_relation(&catalog, &path, n));
    match named {
        Some((_, Relation::View(view))) => {
            let text = create_view(view, &catalog, Some(&path))?;
            say(r, &text.replacen("CREATE", "CREATE OR REPLACE", 1))
        }
        Some(_) => Err(wrong(format!("\"{}\" is not a view", wanted.shown()))),
        None => Err(wrong(format!("relation \"{}\" does not exist", wanted.shown()))),
    }
}

/// The columns of a table or a view, with the comments on them if more is to be shown.
fn show_columns(
    r: &mut Runner,
    catalog: &Catalog,
    (title, id): (&str, u32),
    columns: &[ColumnDef],
    value: &dyn Fn(usize) -> Option<String>,
    more: bool,
) -> Done {
    let path = r.session.path(catalog);
    let row = |(n, c): (usize, &ColumnDef)| {
        let nullable = if c.not_null { "not null" } else { "" }.to_string();
        let default = default_shown(c, value(n));
        let mut row = vec![c.name.clone(), column_type(catalog, &path, c), nullable, default];
        if more {
            let on = Commented::part(CommentKind::Column, id, &c.name);
            row.push(catalog.comment(&on).unwrap_or_default().to_string())
        }
        row
    };
    let rows: Vec<Vec<String>> = columns.iter().enumerate().map(row).collect();
    let names = ["Column", "Type", "Nullable", "Default", "Description"];
    show(r, Some(title), &names[..if more { 5 } else { 4 }], &rows, false)
}

fn describe_view(r: &mut Runner, catalog: &Catalog, path: &Path, view: &ViewDef, more: bool) -> Done {
    let title = format!("View \"{}.{}\"", catalog.schema_name(view.schema), view.name);
    show_columns(r, catalog, (&title, view.id), &view.columns, &|_| None, more)?;
    let query = match more {
        true => format!("View definition:\n{}\n", ondol_sql::deparse::view(view, catalog, path, true)?),
        false => String::new(),
    };
    say(r, &format!("{query}\n"))
}

/// The composite type of a name.
fn composite_named(catalog: &Catalog, path: &Path, wanted: &Wanted) -> Option<&'static UserDef> {
    let is_wanted = |name: &Name, ty: TypeId| {
        let found = || catalog.find_type(path, &name.name) == Some(ty);
        wanted.is(catalog, name.schema, &name.name, found)
    };
    let named = catalog.types.iter().find(|(n, ty)| is_wanted(n, **ty));
    named.and_then(|(_, ty)| ty.user()).filter(|u| u.is_composite())
}

fn describe_composite(r: &mut Runner, catalog: &Catalog, user: &UserDef) -> Done {
    let title = format!("Composite type \"{}.{}\"", catalog.schema_name(user.schema), user.name);
    let field = |p: &Part| {
        let (ty, domain) = (p.of().base(), (p.of() != p.of().base()).then_some(p.of().id));
        ColumnDef { domain, ..ColumnDef::new(p.name.clone(), ty) }
    };
    let columns: Vec<ColumnDef> = user.parts.iter().map(field).collect();
    show_columns(r, catalog, (&title, user.number), &columns, &|_| None, false)?;
    say(r, "\n")
}

fn describe(r: &mut Runner, wanted: &Wanted, more: bool) -> Done {
    let catalog = r.session.catalog();
    let path = r.session.path(&catalog);
    let named = catalog.relations.iter().find(|(n, _)| wanted.is_relation(&catalog, &path, n));
    let (index, of) = match named {
        Some((_, Relation::Table(table))) => return describe_table(r, &catalog, &path, table, more),
        Some((_, Relation::View(view))) => return describe_view(r, &catalog, &path, view, more),
        Some((_, Relation::Sequence(sequence))) => return describe_sequence(r, &catalog, sequence),
        Some((name, Relation::Index { table })) => (name, table),
        None if let Some(user) = composite_named(&catalog, &path, wanted) => {
            return describe_composite(r, &catalog, user);
        }
        None => match ondol_sql::bind::system::view(&wanted.name) {
            Some((name, columns)) => {
                let rows: Vec<_> =
                    columns.iter().map(|(c, ty)| vec![c.to_string(), Type::new(*ty).to_string()]).collect();
                let title = format!("System view \"{name}\"");
                return show(r, Some(&title), &["Column", "Type"], &rows, false);
            }
            None => {
                return Err(wrong(format!("Did not find any relation named \"{}\".", wanted.shown())));
            }
        },
    };
    let found =
        catalog.table(of).and_then(|t| Some((t, t.def.indexes.iter().find(|i| i.name == index.name)?)));
    let Some((table, i)) = found else {
        return Err(wrong(format!("Did not find any relation named \"{}\".", wanted.shown())));
    };
    let rows: Vec<Vec<String>> = i
        .keys()
        .iter()
        .map(|c| {
            let column = &table.def.columns[c.column];
            vec![column.label().to_string(), column_type(&catalog, &path, column)]
        })
        .collect();
    let schema = catalog.schema_name(index.schema);
    show(r, Some(&format!("Index \"{schema}.{}\"", index.name)), &["Column", "Type"], &rows, false)?;
    say(r, &format!("{}, for table \"{schema}.{}\"\n\n", index_text(&catalog, &table.def, i), table.def.name))
}

fn describe_table(r: &mut Runner, catalog: &Catalog, path: &Path, table: &Arc<Table>, more: bool) -> Done {
    let def = &table.def;
    let text_of = |what: TableText<'_>| deparse::of_table(table, what, catalog, path, true).ok();
    let kind = match def.is_material() {
        true => "Materialized view",
        false if def.is_foreign() => "Foreign table",
        false if def.nature.unlogged => "Unlogged table",
        false => "Table",
    };
    let title = format!("{kind} \"{}.{}\"", catalog.schema_name(def.schema), def.name);
    show_columns(r, catalog, (&title, def.id), def.shown(), &|n| text_of(TableText::Value(n)), more)?;
    let mut text = String::new();
    if let Some(view) = ViewDef::of_material(def).filter(|_| more) {
        text += &format!("View definition:\n{}\n", ondol_sql::deparse::view(&view, catalog, path, true)?)
    }
    if !def.indexes.is_empty() {
        text += "Indexes:\n";
        let mut indexes: Vec<_> = def.indexes.iter().collect();
        indexes.sort_by_key(|i| (!i.primary, i.name.clone()));
        for i in indexes {
            text += &format!("    {} {}\n", quote_always(&i.name), index_text(catalog, def, i));
        }
    }
    if !def.checks.is_empty() {
        text += "Check constraints:\n";
        for c in &def.checks {
            let text_of = text_of(TableText::Condition(&c.text));
            let shown = CheckDef { text: text_of.unwrap_or_else(|| c.text.clone()), ..c.clone() };
            text += &format!("    {} {}\n", quote_always(&c.name), check_text(&shown));
        }
    }
    let shown = |name: &Name| catalog.shown(path, name);
    let mut keys: Vec<_> = table.foreign_keys().collect();
    if !keys.is_empty() {
        text += "Foreign-key constraints:\n";
        keys.sort_by(|a, b| a.name.cmp(&b.name));
        for key in keys {
            text += &format!("    {} {}\n", quote_always(&key.name), foreign_text(catalog, &shown, def, key));
        }
    }
    let of = |r: &Reference| {
        let child = catalog.table_of(r.table, &r.name)?;
        Some((child, child.foreign_keys().find(|f| f.id == r.key.id)?))
    };
    let mut named: Vec<_> = table.references.iter().filter_map(of).collect();
    named.sort_by(|a, b| a.1.name.cmp(&b.1.name));
    if !named.is_empty() {
        text += "Referenced by:\n";
        for (child, key) in named {
            let (of, name) = (shown_always(catalog, path, &child.def.full_name()), quote_always(&key.name));
            let text_of = foreign_text(catalog, &shown, &child.def, key);
            text += &format!("    TABLE {of} CONSTRAINT {name} {text_of}\n");
        }
    }
    text.push('\n');
    say(r, &text)
}

fn describe_sequence(r: &mut Runner, catalog: &Catalog, sequence: &Sequence) -> Done {
    let (o, b) = (&sequence.def.options, &sequence.def.options.bounds);
    let cycles = if b.cycle { "yes" } else { "no" };
    let row = [
        o.ty.to_string(),
        o.start.to_string(),
        b.min.to_string(),
        b.max.to_string(),
        b.increment.to_string(),
        cycles.to_string(),
        o.cache.to_string(),
    ];
    let names = ["Type", "Start", "Minimum", "Maximum", "Increment", "Cycles?", "Cache"];
    let kind = if sequence.def.is_unlogged() { "Unlogged sequence" } else { "Sequence" };
    let title = format!("{kind} \"{}.{}\"", catalog.schema_name(sequence.def.schema), sequence.def.name);
    show(r, Some(&title), &names, &[row.to_vec()], false)?;
    let owner = catalog.owner_of(sequence.def.id).map_or(String::new(), |(t, n)| {
        let column = &t.def.columns[n];
        let is_identity = column.identity() == Some(sequence.def.id);
        let what = if is_identity { "Sequence for identity column" } else { "Owned by" };
        format!("{what}: {}.{}.{}\n", catalog.schema_name(t.def.schema), t.def.name, column.name)
    });
    say(r, &format!("{owner}\n"))
}

/// What a column's values come from, as psql shows it; `text`: its expression as PostgreSQL has it.
fn default_shown(c: &ColumnDef, text: Option<String>) -> String {
    match (&c.generated, &c.default) {
        (Some(Generated::Identity { always: true, .. }), _) => "generated always as identity".into(),
        (Some(Generated::Identity { always: false, .. }), _) => "generated by default as identity".into(),
        (Some(Generated::Stored(written)), _) => {
            format!("generated always as ({}) stored", text.unwrap_or_else(|| written.clone()))
        }
        (None, default) => text.or(default.clone()).unwrap_or_default(),
    }
}

/// A table's name between quotes, with its schema where it is not in sight.
fn shown_always(catalog: &Catalog, path: &Path, name: &Name) -> String {
    format!("\"{}\"", catalog.shown(path, name).replace('"', ""))
}

fn quote_always(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn list(r: &mut Runner, wanted: &Wanted, kinds: &[&str], more: bool) -> Done {
    let indexes = kinds.contains(&"index");
    let catalog = r.session.catalog();
    let path = r.session.path(&catalog);
    let mut rows = Vec::new();
    for (name, relation) in &catalog.relations {
        let row = match relation {
            Relation::Table(t) => [t.def.kind_name(), ""],
            Relation::View(_) => ["view", ""],
            Relation::Index { table } => ["index", &table.name],
            Relation::Sequence(_) => ["sequence", ""],
        };
        if kinds.contains(&row[0]) && wanted.is_relation(&catalog, &path, name) {
            let id = match relation {
                Relation::Table(t) => t.def.id,
                Relation::View(v) => v.id,
                Relation::Sequence(s) => s.def.id,
                Relation::Index { table } => {
                    let table = catalog.table(table);
                    let index = table.and_then(|t| t.def.indexes.iter().find(|i| i.name == name.name));
                    index.map_or(0, |i| i.id)
                }
            };
            let about = catalog.comment(&Commented::whole(CommentKind::Relation, id)).unwrap_or_default();
            let [kind, of] = row.map(str::to_string);
            let schema = catalog.schema_name(name.schema).to_string();
            rows.push(vec![schema, name.name.clone(), kind, of, about.to_string()]);
        }
    }
    rows.sort();
    if rows.is_empty() {
        let message = if wanted.name.is_empty() && wanted.schema.is_none() {
            "Did not find any relations.".to_string()
        } else {
            format!("Did not find any relation named \"{}\".", wanted.shown())
        };
        return Err(wrong(message));
    }
    let mut names = vec!["Schema", "Name", "Type", "Table", "Description"];
    for (n, is_shown) in [(4, more), (3, indexes)] {
        if !is_shown {
            names.remove(n);
            rows.iter_mut().for_each(|r| drop(r.remove(n)))
        }
    }
    show(r, Some("List of relations"), &names, &rows, true)
}

fn types(r: &mut Runner, wanted: &Wanted) -> Done {
    let catalog = r.session.catalog();
    let path = r.session.path(&catalog);
    let is_wanted = |name: &Name, ty: TypeId| {
        let found = || catalog.find_type(&path, &name.name) == Some(ty);
        wanted.is(&catalog, name.schema, &name.name, found)
    };
    let named = catalog.types.iter().filter(|(n, ty)| is_wanted(n, **ty));
    let rows: Vec<Vec<String>> = named
        .filter_map(|(n, ty)| {
            let definition = create_type(&catalog, &path, ty.user()?);
            // On one line.
            let definition = definition.replace("(\n    ", "(").replace(",\n    ", ", ").replace("\n)", ")");
            Some(vec![catalog.schema_name(n.schema).to_string(), quote(&n.name), definition])
        })
        .collect();
    show(r, Some("List of data types"), &["Schema", "Name", "Definition"], &rows, true)
}

fn schemas(r: &mut Runner, name: &str) -> Done {
    let catalog = r.session.catalog();
    let named = catalog.schemas.iter().filter(|(n, s)| !s.is_system() && (name.is_empty() || *n == name));
    let rows: Vec<Vec<String>> = named.map(|(n, _)| vec![n.clone(), ondol::USER.to_string()]).collect();
    show(r, Some("List of schemas"), &["Name", "Owner"], &rows, true)
}

fn functions(r: &mut Runner, wanted: &Wanted) -> Done {
    let catalog = r.session.catalog();
    let path = r.session.path(&catalog);
    let is_wanted = |f: &FunctionDef| {
        let found = || catalog.find_functions(&path, &f.name).iter().any(|o| o.id == f.id);
        wanted.is(&catalog, f.schema, &f.name, found)
    };
    let mut rows: Vec<Vec<String>> = catalog
        .functions
        .values()
        .filter(|f| is_wanted(f))
        .map(|f| {
            vec![
                f.id.to_string(),
                catalog.schema_name(f.schema).to_string(),
                quote(&f.name),
                returns(&catalog, &path, &f.returns),
                arguments(&catalog, &path, f),
                f.volatility.word().into(),
            ]
        })
        .collect();
    rows.sort_by(|a, b| (&a[1], &a[2], &a[4]).cmp(&(&b[1], &b[2], &b[4])));
    let names = ["ID", "Schema", "Name", "Result data type", "Argument data types", "Volatility"];
    show(r, Some("List of functions"), &names, &rows, true)
}
