//! Golden scripts of the binder: statements, and what they are bound to or the error they get.
//!
//! A script is a list of blocks. A block starts with a statement, each line behind `> `, or behind `>> ` for
//! a definition that takes effect for the statements after it; the lines up to the next block are what is
//! expected. `ONDOL_BLESS=1` in the environment writes what is found into the scripts instead.

mod show;
mod table;

use ondol_engine::{Catalog, FunctionDef, IndexDef, Name, Relation, TableDef};
use ondol_sql::bind::bind;
use ondol_sql::bound::{Bound, Dropped, ExprKind, NewIndex, Statement};
use ondol_sql::parse::parse;
use ondol_types::resolve::polymorphic::concrete;
use ondol_types::{SqlError, SqlResult, TypeId, func};
use std::fmt::Write;
use std::sync::Arc;

fn index_def(id: u32, i: &NewIndex) -> IndexDef {
    IndexDef {
        id,
        name: i.name.clone().unwrap_or_default(),
        kind: i.kind,
        unique: i.unique,
        primary: i.primary,
        constraint: i.constraint,
        columns: i.columns.clone(),
        options: i.options.clone(),
    }
}

/// Does to the catalog what a definition says.
fn apply(catalog: &mut Catalog, statement: &Statement) {
    catalog.version += 1;
    let id = catalog.version as u32;
    let change = |catalog: &mut Catalog, name: &Name, index: IndexDef| {
        let Some(old) = catalog.table(name) else { return };
        let mut def = old.def.clone();
        catalog.relations.insert(def.index_name(&index), Relation::Index { table: name.clone() });
        def.indexes.push(index);
        catalog.relations.insert(name.clone(), Relation::Table(table::test_table(def)));
    };
    match statement {
        Statement::CreateTable { name, columns, constraints, checks, .. }
            if catalog.table(name).is_none() =>
        {
            let (columns, checks) = (columns.clone(), checks.clone());
            let (schema, bare) = (name.schema, name.name.clone());
            let (indexes, foreign) = (Vec::new(), Vec::new());
            let nature = Default::default();
            let def = TableDef { id, schema, name: bare, columns, indexes, checks, foreign, nature };
            catalog.relations.insert(name.clone(), Relation::Table(table::test_table(def)));
            for i in constraints {
                change(catalog, name, index_def(id, i));
            }
        }
        Statement::CreateIndex { table, index, .. } => change(catalog, table, index_def(id, index)),
        Statement::AlterTable(a) => {
            let name = &a.def.as_ref().map_or(a.table.clone(), TableDef::full_name);
            if let Some(def) = &a.def {
                forget(catalog, &a.table);
                let index = || Relation::Index { table: name.clone() };
                catalog.relations.extend(def.indexes.iter().map(|i| (def.index_name(i), index())));
                catalog.relations.insert(name.clone(), Relation::Table(table::test_table(def.clone())));
            }
            a.keys
                .iter()
                .filter(|k| k.using.is_none())
                .for_each(|k| change(catalog, name, index_def(id, &k.index)))
        }
        Statement::DropTable { names, .. } => {
            names.iter().filter_map(Dropped::there).for_each(|name| forget(catalog, name))
        }
        Statement::CreateFunction { function, .. } => {
            let function = FunctionDef { id, ..(**function).clone() };
            catalog.functions.insert(id, Arc::new(function));
        }
        _ => {}
    }
}

/// A table and its indexes.
fn forget(catalog: &mut Catalog, name: &Name) {
    catalog.relations.remove(name);
    catalog.relations.retain(|_, r| !matches!(r, Relation::Index { table } if table == name))
}

/// bound/B1 and the like, whatever is bound.
fn check_invariants(bound: &Bound) {
    bound.walk(&mut |e, _| {
        if let ExprKind::Call { func, args } = &e.kind {
            let def = func::find(*func).expect("a known function");
            let given: Vec<TypeId> = args.iter().map(|a| a.ty.id).collect();
            let given = &given[..given.len() - usize::from(def.template)];
            let shape = concrete(def.args, TypeId::VOID, given).expect("arguments that go together");
            for (i, (a, want)) in args.iter().zip(shape.args).enumerate() {
                assert!(want == func::ANY || want == a.ty.id, "argument {i} of {def:?} is {:?}", a.ty);
            }
        }
        assert_ne!(e.ty.id, TypeId::UNKNOWN, "an expression of unknown type: {e:?}");
        true
    });
}

fn describe(text: &str, bound: &Bound) -> String {
    if !matches!(bound.statement, Statement::Execute { .. }) {
        check_invariants(bound);
    }
    let mut scratch = None;
    let mut lines = show::Shower::default().statement(&bound.statement, &mut scratch);
    if !bound.params.is_empty() {
        let types: Vec<&str> = bound.params.iter().map(|t| t.name()).collect();
        lines.push(format!("params {}", types.join(", ")));
    }
    lines.extend(bound.notices.iter().map(|n| format!("NOTICE {}", n.1)));
    let _ = text;
    lines.join("\n  ")
}

fn describe_error(text: &str, e: &SqlError) -> String {
    let f = &e.0;
    let mut out = format!("ERROR {} {}", f.sqlstate, f.message);
    if let Some(p) = f.position {
        // Shown as what stands there, which a reader can check.
        let rest: String = text.get(p..).unwrap_or("<not a position>").chars().take(12).collect();
        let _ = write!(out, "\n  at {p} `{}`", rest.replace('\n', " "));
    }
    for (what, text) in [("DETAIL", &f.detail), ("HINT", &f.hint)] {
        if let Some(text) = text {
            let _ = write!(out, "\n  {what} {text}");
        }
    }
    out
}

fn run(catalog: &mut Catalog, sql: &str, takes_effect: bool) -> String {
    let attempt = |catalog: &Catalog| -> SqlResult<Vec<Bound>> {
        parse(sql)?.iter().map(|raw| bind(raw, sql, catalog, &[])).collect()
    };
    match attempt(catalog) {
        Ok(all) => {
            let shown: Vec<String> = all.iter().map(|b| describe(sql, b)).collect();
            if takes_effect {
                all.iter().for_each(|b| apply(catalog, &b.statement));
            }
            shown.join("\n")
        }
        Err(e) => describe_error(sql, &e),
    }
}

#[test]
fn golden_scripts() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bind");
    let mut scripts: Vec<_> = std::fs::read_dir(folder)
        .expect("the scripts")
        .map(|f| f.expect("a script").path())
        .filter(|p| p.extension().is_some_and(|e| e == "txt"))
        .collect();
    scripts.sort();
    assert!(!scripts.is_empty());
    let update = std::env::var_os("ONDOL_BLESS").is_some();
    let mut wrong = String::new();
    for script in scripts {
        let text = std::fs::read_to_string(&script).expect("a script");
        let mut catalog = Catalog::default();
        let mut out = String::new();
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let takes_effect = line.starts_with(">> ");
            let Some(first) = line.strip_prefix(">> ").or(line.strip_prefix("> ")) else {
                // A comment, kept.
                if line.starts_with('#') {
                    let _ = writeln!(out, "{line}");
                }
                continue;
            };
            let mut sql = first.to_string();
            while let Some(more) = lines.next_if(|l| l.starts_with("> ")) {
                let _ = write!(sql, "\n{}", &more[2..]);
            }
            let mut expected = String::new();
            while let Some(more) = lines.next_if(|l| !l.starts_with(['>', '#'])) {
                let _ = writeln!(expected, "{more}");
            }
            let found = run(&mut catalog, &sql, takes_effect);
            for (i, l) in sql.lines().enumerate() {
                let _ = writeln!(out, "{} {l}", if takes_effect && i == 0 { ">>" } else { ">" });
            }
            let _ = writeln!(out, "{found}\n");
            if expected.trim() != found.trim() && !update {
                let _ = writeln!(
                    wrong,
                    "{}: {sql}\nexpected:\n{}\nfound:\n{found}\n",
                    script.display(),
                    expected.trim()
                );
            }
        }
        if update {
            std::fs::write(&script, out).expect("the script written");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
