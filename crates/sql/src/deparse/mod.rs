//! Queries and expressions, written down: from what the binder makes of a text ([`crate::bind::written`]) to
//! a text again.
//!
//! ```text
//! what a user wrote -> bound as written -> in numbers: stored (view/V1)
//! what is stored, in today's names -> bound as written -> as PostgreSQL 15 shows it
//! ```
//! - **W1** Bound, the outcome means what the query meant. A test binds what is written and writes it again:
//!   nothing changes any more.
//! - **W2** In numbers, whatever can be renamed stands by its slot, and relations without an alias have one
//!   that no user's name can be. What is shown has the names of the catalog that it was bound to.
//! - **W3** What is shown is PostgreSQL's `pg_get_viewdef`: casts, parentheses, names and blanks are its own.
//!   `pretty` leaves out the parentheses that nothing needs.
//!
//! | file | of what |
//! | --- | --- |
//! | `query` | queries: clauses, joins, set operations |
//! | `expr` | expressions, and the parentheses around them |
//! | `name` | what relations and columns are called |
//! | `index` | what indexes are of |
//!
//! Source: PostgreSQL 15's answers.

mod expr;
pub mod index;
mod name;
mod query;
mod window;

pub use crate::bind::check::TableText;
use crate::bind::check::{self, Over};
use crate::bind::declared::{self, Declared};
pub use crate::bind::domain::DomainText;
use crate::bind::written::{Notes, Verbatim};
use crate::bound::{Expr, Query, Rel, RelEntry};
use ondol_engine::{Catalog, ColumnDef, FunctionDef, Name, Path, Table, ViewDef};
use ondol_types::SqlResult;
use ondol_types::user::UserDef;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How a text is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// In numbers (W2).
    Stored,
    Shown {
        pretty: bool,
    },
}

/// Blanks that PostgreSQL indents clauses by.
const STANDARD: i32 = 8;
const JOIN: i32 = 4;
const ITEM: i32 = 4;
/// From here on it indents by less.
const FAR: i32 = 40;

/// Writes one text.
struct Scribe<'q> {
    out: String,
    notes: &'q Notes,
    catalog: &'q Catalog,
    style: Style,
    indent: i32,
    /// The queries around what is written, innermost last.
    scopes: Vec<Scope<'q>>,
    /// The names that relations of the queries around have: those of no other query within.
    used: Vec<BTreeSet<String>>,
    /// How many relations have a name of their own (view::own_name).
    own_names: usize,
    /// The WITH queries so far, by their numbers.
    with: Vec<(u16, &'q str)>,
    /// By which path what is shown is to be read.
    path: &'q Path,
    /// Columns of the only relation there is are written without its name.
    bare: bool,
    /// What its columns are declared with, where that is all that is known of it.
    given: Vec<Declared>,
}

/// A query being written.
#[derive(Clone)]
struct Scope<'q> {
    /// `None`: a level of its own around something else.
    query: Option<&'q Query>,
    /// What each relation is called.
    names: Vec<String>,
}

impl<'q> Scribe<'q> {
    fn new(notes: &'q Notes, catalog: &'q Catalog, style: Style) -> Scribe<'q> {
        Scribe {
            out: String::new(),
            notes,
            catalog,
            style,
            indent: 0,
            scopes: Vec::new(),
            used: Vec::new(),
            own_names: 0,
            with: Vec::new(),
            path: Path::public(),
            bare: false,
            given: Vec::new(),
        }
    }

    fn is_stored(&self) -> bool {
        self.style == Style::Stored
    }

    /// Whether parentheses that nothing needs are left out.
    fn is_pretty(&self) -> bool {
        self.style == Style::Shown { pretty: true }
    }

    fn put(&mut self, text: &str) {
        self.out.push_str(text)
    }

    /// A keyword on a line of its own: indented by `more` from where the level is once it was moved by
    /// `before`.
    fn line(&mut self, word: &str, before: i32, after: i32, more: i32) {
        let kept = self.out.trim_end_matches(' ').len();
        self.out.truncate(kept);
        if self.is_stored() {
            let word = word.trim_start();
            if !self.out.is_empty() && !self.out.ends_with('(') {
                self.out.push(' ')
            }
            self.out.push_str(word);
            return;
        }
        self.indent += before;
        self.out.push('\n');
        let mut blanks = self.indent.max(0);
        if blanks >= FAR {
            blanks = (FAR + (blanks - FAR) / (STANDARD / 2)) % FAR
        }
        self.out.extend(std::iter::repeat_n(' ', (blanks + more).max(0) as usize));
        self.out.push_str(word);
        self.indent = (self.indent + after).max(0)
    }

    /// The text that `f` writes, apart.
    fn apart(&mut self, f: impl FnOnce(&mut Self)) -> String {
        let before = std::mem::take(&mut self.out);
        f(self);
        std::mem::replace(&mut self.out, before)
    }
}

/// A query, its columns under these names if they are given.
pub fn query(of: &Verbatim, names: Option<&[String]>, catalog: &Catalog, style: Style) -> String {
    let mut w = Scribe::new(&of.notes, catalog, style);
    w.query(&of.query, names, true);
    w.out.trim_end().to_string()
}

/// An expression over a row of a table, from its text: as PostgreSQL shows it, each column by its bare name,
/// to be read by the usual path.
pub fn over_row(
    catalog: &Catalog,
    table: &Name,
    columns: &[ColumnDef],
    over: Over,
    text: &str,
) -> SqlResult<String> {
    over_row_in(catalog, table, columns, over, text, Style::Shown { pretty: false })
}

fn over_row_in(
    catalog: &Catalog,
    table: &Name,
    columns: &[ColumnDef],
    over: Over,
    text: &str,
    style: Style,
) -> SqlResult<String> {
    let (e, notes) = check::over_row_as_written(catalog, table, columns, over, text)?;
    let given = columns.iter().map(declared::of_column).collect();
    let columns = columns.iter().map(|c| (c.name.clone(), c.ty)).collect();
    let entry = RelEntry { rel: Rel::Values(Vec::new()), alias: String::new(), columns };
    let mut w = Scribe::new(&notes, catalog, style);
    w.given = given;
    Ok(over_one(w, entry, &e))
}

/// An expression over the only relation there is.
fn over_one(w: Scribe<'_>, rel: RelEntry, e: &Expr) -> String {
    let query = Query { rels: vec![rel], ..Query::default() };
    let mut w = w;
    w.scopes.push(Scope { query: Some(&query), names: vec![String::new()] });
    w.expr(e, false);
    w.out
}

/// A view's query as PostgreSQL's `pg_get_viewdef` shows it, to be read by the path.
pub fn view(view: &ViewDef, catalog: &Catalog, path: &Path, pretty: bool) -> SqlResult<String> {
    let verbatim = crate::bind::view_as_written(catalog, view)?;
    let names: Vec<String> = view.columns.iter().map(|c| c.name.clone()).collect();
    let mut w = Scribe::new(&verbatim.notes, catalog, Style::Shown { pretty });
    w.path = path;
    w.query(&verbatim.query, Some(&names), true);
    w.put(";");
    Ok(w.out)
}

/// A check of a table, or what a column's values come from, as PostgreSQL shows it, to be read by the path.
pub fn of_table(
    table: &Arc<Table>,
    what: TableText<'_>,
    catalog: &Catalog,
    path: &Path,
    pretty: bool,
) -> SqlResult<String> {
    let (e, notes) = crate::bind::check::text_as_written(catalog, &table.def, what)?;
    let columns = table.def.columns.iter().map(|c| (c.name.clone(), c.ty)).collect();
    let rel = RelEntry { rel: Rel::Table(table.clone()), alias: table.def.name.clone(), columns };
    let mut w = Scribe::new(&notes, catalog, Style::Shown { pretty });
    w.path = path;
    w.bare = true;
    Ok(over_one(w, rel, &e))
}

/// A condition of a domain, or its default, as PostgreSQL shows it, to be read by the path.
pub fn of_domain(
    domain: &UserDef,
    what: DomainText<'_>,
    catalog: &Catalog,
    path: &Path,
    pretty: bool,
) -> SqlResult<String> {
    let (e, notes) = crate::bind::domain::text_as_written(catalog, domain, what)?;
    let rel = RelEntry { rel: Rel::Values(Vec::new()), alias: String::new(), columns: Vec::new() };
    let mut w = Scribe::new(&notes, catalog, Style::Shown { pretty });
    w.path = path;
    w.bare = true;
    Ok(over_one(w, rel, &e))
}

/// What an argument of a function is where a call leaves it out, as PostgreSQL shows it, to be read by the
/// path; as it is kept where that has no meaning any more. `None`: calls have it.
pub fn of_argument(f: &FunctionDef, place: usize, catalog: &Catalog, path: &Path) -> Option<String> {
    let text = f.default_of(place)?;
    let Ok((e, notes)) = crate::bind::routine::default_as_written(catalog, f, place) else {
        return Some(text.to_string());
    };
    let rel = RelEntry { rel: Rel::Values(Vec::new()), alias: String::new(), columns: Vec::new() };
    let mut w = Scribe::new(&notes, catalog, Style::Shown { pretty: false });
    w.path = path;
    w.bare = true;
    Some(over_one(w, rel, &e))
}

/// A view's query in numbers, written anew: the same as before as long as it means what it meant.
pub fn view_in_numbers(view: &ViewDef, catalog: &Catalog) -> SqlResult<String> {
    let verbatim = crate::bind::view_as_written(catalog, view)?;
    let names: Vec<String> = view.columns.iter().map(|c| c.name.clone()).collect();
    Ok(query(&verbatim, Some(&names), catalog, Style::Stored))
}
