//! The physical plan of a query's FROM and WHERE: what is generated code for, and what EXPLAIN shows.
//!
//! - **T1** Every condition of WHERE and of the inner joins' ON stands in the tree exactly once or more, at a
//!   place where all it refers to is bound; an index's conditions stand there too, since rows found through
//!   an index are rechecked.
//! - **T2** In a join, `on` decides whether rows match (of a LEFT or FULL join: whether a row is extended by
//!   NULLs); `filter` is applied to what comes out.
use super::refs::RelSet;
use crate::bound::{Expr, JoinKind};

/// A value that a key column is to have.
#[derive(Clone, Copy, Debug)]
pub enum KeyValue<'a> {
    One(&'a Expr),
    /// One of these, each looked up once.
    List(&'a [Expr]),
}

#[derive(Clone, Debug)]
pub enum Access<'a> {
    Full,
    /// All columns of an index, by position in the table's indexes.
    Lookup {
        index: usize,
        keys: Vec<KeyValue<'a>>,
        unique: bool,
    },
    /// A B+-tree: values for the first columns, then bounds (value, inclusive) of the next.
    Range {
        index: usize,
        prefix: Vec<&'a Expr>,
        low: Option<(&'a Expr, bool)>,
        high: Option<(&'a Expr, bool)>,
        backward: bool,
    },
}

#[derive(Clone, Debug)]
pub enum Method<'a> {
    /// The inner side is run for each outer row.
    Loop,
    /// The inner side's rows are kept and gone through for each outer row.
    Kept,
    /// The inner side's rows are kept in a hash table by the second of each pair.
    Hash(Vec<(&'a Expr, &'a Expr)>),
}

#[derive(Clone, Debug)]
pub enum Node<'a> {
    /// One row without columns.
    Nothing {
        filter: Vec<&'a Expr>,
    },
    Scan {
        rel: u16,
        access: Access<'a>,
        filter: Vec<&'a Expr>,
        rows: f64,
    },
    Join {
        kind: JoinKind,
        method: Method<'a>,
        outer: Box<Node<'a>>,
        inner: Box<Node<'a>>,
        on: Vec<&'a Expr>,
        filter: Vec<&'a Expr>,
    },
}

impl<'a> Node<'a> {
    pub fn rels(&self) -> RelSet {
        match self {
            Node::Nothing { .. } => RelSet::EMPTY,
            Node::Scan { rel, .. } => RelSet::one(*rel),
            Node::Join { outer, inner, .. } => outer.rels().with(inner.rels()),
        }
    }
    pub fn filter_mut(&mut self) -> &mut Vec<&'a Expr> {
        match self {
            Node::Nothing { filter } | Node::Scan { filter, .. } | Node::Join { filter, .. } => filter,
        }
    }
}
