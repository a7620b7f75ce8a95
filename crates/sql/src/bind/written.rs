//! What the binder leaves for who writes a query down again ([`crate::deparse`]), and where it does.
//!
//! A binder that was asked to ([`Binder::verbatim`]) binds a query as it is written: nothing is computed
//! ahead, and what stands for something else is noted with it. What comes of it is to be read, not to be run.
//!
//! 1. An expression with a note has its number for a place, from [`FIRST`] on.
//! 2. What names a relation that has a number is not looked into: a view is a relation without a query.
use super::Binder;
use super::trail::Trail;
use crate::bound::{Expr, Query};
use ondol_engine::Name;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// The first number of a note (1). Places in a text are less.
pub const FIRST: u32 = 1 << 31;

/// How an expression was written.
#[derive(Clone, Debug)]
pub enum Note {
    /// A call of an operator.
    Operator(String),
    /// A call of a function of PostgreSQL's, perhaps in a syntax of its own.
    Function { name: String, syntax: bool },
    /// A function that gives rows, or a registered query that does, with its arguments.
    Rows { name: String, registered: Option<u32>, args: Vec<Expr> },
    /// CURRENT_DATE and its kin.
    Value(String),
    /// A system column of a relation of the query so many levels out, which stands for a constant.
    System { depth: u16, rel: u16, name: String },
    /// CASE with an operand: each condition compares it.
    Case(Box<Expr>),
    /// The argument of the cast that it is.
    Collate(String),
    /// A cast to a domain, or to arrays of one, that the expression's type does not tell of.
    Domain(ondol_types::Type),
    /// `left op ANY/ALL (...)`, of an array or a query.
    Quantified(String),
    /// `ARRAY(SELECT ...)`
    ArrayOfQuery,
    /// `ROW(...)`
    Row,
    /// The row of a relation; of a join by the name that it has.
    WholeRow(Option<String>),
    /// A field of a row.
    Field(String),
    /// An argument that a call gives by its name, or VARIADIC: what stands before it.
    Argument(String),
    /// A cast to the type that a domain is made of, which needs none.
    Bare,
    /// VALUE, in a condition of a domain that is made of this type.
    DomainValue(ondol_types::Type),
    /// Rows that are compared by an order.
    Rowwise { operator: String, left: Vec<Expr>, right: Vec<Expr> },
}

/// A function call in FROM.
#[derive(Clone, Debug)]
pub struct Call {
    pub name: String,
    pub registered: Option<u32>,
    pub args: Vec<Expr>,
}

/// How a relation was written.
#[derive(Clone, Debug, Default)]
pub struct WrittenRel {
    /// With an alias.
    pub alias: bool,
    /// With names for its columns.
    pub columns: bool,
    pub lateral: bool,
    /// The calls that it is, beside each other.
    pub calls: Vec<Call>,
    pub rows_from: bool,
    pub ordinality: bool,
    /// The columns that a list of definitions says.
    pub definitions: Vec<(String, ondol_types::Type)>,
    /// The view that it is.
    pub view: Option<u32>,
    /// The relation of the catalogue that it is.
    pub system: Option<Name>,
}

/// How a join was written: that of the relations from the first to the last, which no other join has.
#[derive(Clone, Debug)]
pub struct WrittenJoin {
    pub first: u16,
    pub last: u16,
    /// RIGHT: its sides were turned round.
    pub turned: bool,
    /// By USING: each of the tests that it is joined by compares two columns of one name.
    pub using: bool,
}

/// How a query was written.
#[derive(Clone, Debug, Default)]
pub struct Written {
    pub rels: BTreeMap<u16, WrittenRel>,
    pub joins: Vec<WrittenJoin>,
    /// How many of its groups GROUP BY names.
    pub groups: usize,
}

/// All notes on a query.
#[derive(Debug, Default)]
pub struct Notes {
    pub list: Vec<Note>,
    /// The names of columns that a WITH query is given, by its number.
    pub with_columns: BTreeMap<u16, Vec<String>>,
    /// The WITH queries whose clauses say RECURSIVE.
    pub recursive: BTreeSet<u16>,
    /// What stands behind WITH queries, by their numbers.
    pub trails: BTreeMap<u16, Trail>,
}

impl Notes {
    pub fn of(&self, e: &Expr) -> Option<&Note> {
        self.list.get(e.at.checked_sub(FIRST)? as usize)
    }
}

/// A query as it is written.
#[derive(Debug)]
pub struct Verbatim {
    pub query: Query,
    pub notes: Notes,
}

impl<'a> Binder<'a> {
    /// Binds as it is written.
    pub fn verbatim(mut self) -> Binder<'a> {
        self.notes = Some(RefCell::default());
        self
    }

    pub(super) fn is_verbatim(&self) -> bool {
        self.notes.is_some()
    }

    /// An expression with a note; the expression alone where none are wanted.
    pub(super) fn noted(&self, e: Expr, note: impl FnOnce() -> Note) -> Expr {
        let Some(notes) = &self.notes else { return e };
        let mut notes = notes.borrow_mut();
        notes.list.push(note());
        let n = notes.list.len() as u32 - 1;
        Expr { at: FIRST.saturating_add(n).min(u32::MAX - 1), ..e }
    }

    /// Whether the expression's place is the number of a note, which is to stay.
    pub(super) fn has_note(&self, e: &Expr) -> bool {
        self.is_verbatim() && e.at != u32::MAX && e.at >= FIRST
    }

    /// The same expression at another place, unless it has a note.
    pub(super) fn placed(&self, e: Expr, at: u32) -> Expr {
        if self.has_note(&e) { e } else { Expr { at, ..e } }
    }

    pub(super) fn into_notes(self) -> Notes {
        self.notes.map(RefCell::into_inner).unwrap_or_default()
    }
}
