//! The physical tree: how a statement's rows are come by. Code is generated for it (`code::generate`), and
//! EXPLAIN shows it.
//!
//! - **T1** Every condition of WHERE and of the inner joins' ON stands in the tree exactly once or more, at a
//!   place where all it refers to is bound; an index's conditions are checked again on the rows found, unless
//!   the look-up itself proves them.
//! - **T2** In a join, `on` decides whether rows match (of a LEFT or FULL join: whether a row is extended by
//!   NULLs); a node's `filter` is applied to what comes out of it.
use super::logical::{
    Aggregate, Expr, Inside, JoinKind, Locked, NewColumn, OnConflict, Relation, SortBy, Source, Window,
    WindowCall, each_column,
};
use crate::bound::{SetOperation, TableRef};
use ondol_types::{Type, TypeId};
use std::collections::BTreeSet;

/// A value that a key column is to have.
#[derive(Clone, Copy, Debug)]
pub enum KeyValue<'a> {
    One(&'a Expr),
    /// One of these, each looked up once.
    List(&'a [Expr]),
    /// One of an array's items, each looked up once.
    Items(&'a Expr),
}

impl<'a> KeyValue<'a> {
    /// Whether there may be several values.
    pub fn is_many(&self) -> bool {
        !matches!(self, KeyValue::One(_))
    }
    /// What it is made of.
    pub fn each(&self, f: &mut dyn FnMut(&'a Expr)) {
        match self {
            KeyValue::One(e) | KeyValue::Items(e) => f(e),
            KeyValue::List(l) => l.iter().for_each(f),
        }
    }
}

/// An end of a range.
#[derive(Clone, Debug)]
pub enum End<'a> {
    Value(&'a Expr),
    /// A text that what a pattern is true of stands before, or behind ([`super::prefix`]).
    Text(String),
}

impl<'a> End<'a> {
    pub fn value(&self) -> Option<&'a Expr> {
        match self {
            End::Value(e) => Some(e),
            End::Text(_) => None,
        }
    }
}

/// A range of a B+-tree: values for the first columns, then bounds (value, inclusive) of the next.
#[derive(Clone, Debug)]
pub struct KeyRange<'a> {
    pub prefix: Vec<&'a Expr>,
    pub low: Option<(End<'a>, bool)>,
    pub high: Option<(End<'a>, bool)>,
}

impl<'a> KeyRange<'a> {
    pub fn each(&self, f: &mut dyn FnMut(&'a Expr)) {
        self.prefix.iter().for_each(|e| f(e));
        self.low.iter().chain(&self.high).filter_map(|b| b.0.value()).for_each(f);
    }
}

/// What a box is in one dimension: from the first value to the second, and whether they are in it; open where
/// there is none. Or there are several boxes, one for each value of a list.
#[derive(Clone, Debug, Default)]
pub struct Side<'a> {
    pub low: Option<(&'a Expr, bool)>,
    pub high: Option<(&'a Expr, bool)>,
    /// Then it has no ends.
    pub list: Option<KeyValue<'a>>,
}

impl<'a> Side<'a> {
    pub fn each(&self, f: &mut dyn FnMut(&'a Expr)) {
        self.low.iter().chain(&self.high).for_each(|(e, _)| f(e));
        self.list.iter().for_each(|list| list.each(f))
    }
    pub fn is_open(&self) -> bool {
        self.low.is_none() && self.high.is_none() && self.list.is_none()
    }
    /// It is one value.
    pub fn one(&self) -> Option<&'a Expr> {
        let (low, high) = (self.low?.0, self.high?.0);
        std::ptr::eq(low, high).then_some(low)
    }
}

/// Which way into a table.
#[derive(Clone, Debug)]
pub enum Access<'a> {
    Full,
    /// By `ctid`, as the condition says.
    Tid {
        tids: KeyValue<'a>,
        by: &'a Expr,
    },
    /// All columns of an index, by position in the table's indexes.
    Lookup {
        index: usize,
        keys: Vec<KeyValue<'a>>,
        unique: bool,
        /// Of a look-up by several values: that very condition.
        member: Option<&'a Expr>,
        /// Where many rows have the keys, only those of a box are looked at.
        within: Option<Within<'a>>,
    },
    /// Boxes of a CR-tree that may overlap: for each column of the index its ends, where it has any. Each of
    /// their rows once, and some that lie outside.
    Box {
        index: usize,
        boxes: Vec<Vec<Side<'a>>>,
    },
    /// The nearest of a CR-tree's rows first, of those in a box.
    Nearest {
        index: usize,
        /// One box, as of [`Access::Box`], without lists.
        sides: Vec<Side<'a>>,
        /// The point, for each column of the index that counts.
        to: Vec<Option<&'a Expr>>,
        /// The distance.
        by: &'a Expr,
    },
    /// A range of a B+-tree, or several that may overlap: each of their rows once, in the index's order.
    Range {
        index: usize,
        ranges: Vec<KeyRange<'a>>,
        backward: bool,
    },
}

/// A box of a CR-tree, as of [`Access::Box`], without lists.
#[derive(Clone, Debug)]
pub struct Within<'a> {
    pub index: usize,
    pub sides: Vec<Side<'a>>,
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
pub enum Operator<'a> {
    /// One row without columns.
    Nothing,
    /// No row of these relations: one of the filter's conditions says so, and nothing is read.
    Empty {
        rels: Vec<u16>,
    },
    Scan {
        rel: u16,
        source: &'a Source,
        access: Access<'a>,
        /// The index's conditions that a row found must be checked for.
        recheck: Vec<&'a Expr>,
        /// Those that the look-up proves.
        proven: Vec<&'a Expr>,
    },
    Join {
        kind: JoinKind,
        method: Method<'a>,
        outer: Box<Node<'a>>,
        inner: Box<Node<'a>>,
        on: Vec<&'a Expr>,
    },
    Project {
        rel: u16,
        input: Box<Node<'a>>,
        columns: &'a [Expr],
    },
    /// Each row as often as `stop` says, which is made of `values`.
    ProjectSet {
        rel: u16,
        input: Box<Node<'a>>,
        values: &'a [Expr],
        stop: &'a Expr,
    },
    Aggregate {
        rel: u16,
        input: Box<Node<'a>>,
        keys: &'a [Expr],
        aggregates: &'a [Aggregate],
    },
    /// The input comes in the window's order, and the rows go out in it.
    Window {
        rel: u16,
        input: Box<Node<'a>>,
        window: &'a Window,
        calls: &'a [WindowCall],
    },
    Distinct {
        input: Box<Node<'a>>,
        by: &'a [Expr],
    },
    Sort {
        input: Box<Node<'a>>,
        keys: &'a [SortBy],
        /// Only as many rows are kept as the limit right above asks for.
        bounded: bool,
        /// Tables' rows are kept by their identity and read again afterwards, for the locks right above
        /// (sql/code/generate/lock/K1).
        by_identity: bool,
    },
    Limit {
        input: Box<Node<'a>>,
        limit: Option<&'a Expr>,
        offset: Option<&'a Expr>,
        ties: &'a [Expr],
    },
    Lock {
        input: Box<Node<'a>>,
        locks: &'a [Locked],
        recheck: &'a [Expr],
    },
    /// Before each run these WITH queries forget their rows.
    With {
        queries: &'a [u16],
        input: Box<Node<'a>>,
    },
    SetOperation {
        rel: u16,
        operation: SetOperation,
        all: bool,
        left: Box<Subplan<'a>>,
        right: Box<Subplan<'a>>,
    },
    /// The left side's rows, then what the right side makes of those of the turn before, which `work` stands
    /// for.
    Recursion {
        rel: u16,
        work: u16,
        all: bool,
        left: Box<Subplan<'a>>,
        right: Box<Subplan<'a>>,
    },
}

#[derive(Clone, Debug)]
pub struct Node<'a> {
    pub operator: Operator<'a>,
    pub filter: Vec<&'a Expr>,
    /// How many rows come out, by a guess.
    pub rows: f64,
    /// What it costs until the first row is there, and until the last is: as PostgreSQL's units, a page read
    /// in sequence being 1.
    pub cost: (f64, f64),
    /// In the statement, for EXPLAIN ANALYZE's counters.
    pub number: u32,
}

impl Node<'_> {
    /// Whether its rows are come by in a CR-tree.
    pub fn is_by_box(&self) -> bool {
        let Operator::Scan { access, .. } = &self.operator else { return false };
        matches!(access, Access::Box { .. } | Access::Nearest { .. } | Access::Lookup { within: Some(_), .. })
    }
}

/// A query: for each row of the node the values of `output`.
#[derive(Clone, Debug)]
pub struct Subplan<'a> {
    pub node: Node<'a>,
    pub output: Vec<&'a Expr>,
}

#[derive(Debug)]
pub enum Root<'a> {
    Rows(Subplan<'a>),
    Insert {
        table: &'a TableRef,
        source: Subplan<'a>,
        columns: &'a [NewColumn],
        checks: &'a [(u16, Expr)],
        on_conflict: Option<&'a OnConflict>,
        returning: &'a [Expr],
        rel: u16,
        number: u32,
    },
    Modify {
        table: &'a TableRef,
        rel: u16,
        input: Node<'a>,
        assign: Option<&'a [(u16, Expr)]>,
        checks: &'a [(u16, Expr)],
        recheck: &'a [Expr],
        returning: &'a [Expr],
        number: u32,
    },
}

#[derive(Debug)]
pub struct Statement<'a> {
    pub root: Root<'a>,
    pub queries: Vec<Subplan<'a>>,
    /// The WITH queries whose rows are kept, by name.
    pub with: Vec<(&'a str, Subplan<'a>)>,
    pub relations: &'a [Relation],
    pub params: &'a [TypeId],
    pub columns: &'a [(String, Type)],
    pub catalog_version: u64,
    /// How many nodes have a number.
    pub nodes: u32,
}

impl<'a> Statement<'a> {
    /// The query within an expression.
    pub fn inside(&self, q: &Inside) -> Option<&Subplan<'a>> {
        self.queries.get(q.number as usize)
    }
}

impl<'a> Node<'a> {
    pub fn new(operator: Operator<'a>, rows: f64) -> Node<'a> {
        Node { operator, filter: Vec::new(), rows, cost: (0.0, 0.0), number: 0 }
    }

    /// The nodes right below, the sides of a set operation among them.
    pub fn inputs<'s>(&'s self) -> Vec<&'s Node<'a>> {
        match &self.operator {
            Operator::Nothing | Operator::Empty { .. } | Operator::Scan { .. } => Vec::new(),
            Operator::Join { outer, inner, .. } => vec![outer, inner],
            Operator::SetOperation { left, right, .. } | Operator::Recursion { left, right, .. } => {
                vec![&left.node, &right.node]
            }
            Operator::Project { input, .. }
            | Operator::ProjectSet { input, .. }
            | Operator::Aggregate { input, .. }
            | Operator::Window { input, .. }
            | Operator::Distinct { input, .. }
            | Operator::Sort { input, .. }
            | Operator::Limit { input, .. }
            | Operator::Lock { input, .. }
            | Operator::With { input, .. } => vec![input],
        }
    }

    pub fn inputs_mut(&mut self) -> Vec<&mut Node<'a>> {
        match &mut self.operator {
            Operator::Nothing | Operator::Empty { .. } | Operator::Scan { .. } => Vec::new(),
            Operator::Join { outer, inner, .. } => vec![outer, inner],
            Operator::SetOperation { left, right, .. } | Operator::Recursion { left, right, .. } => {
                vec![&mut left.node, &mut right.node]
            }
            Operator::Project { input, .. }
            | Operator::ProjectSet { input, .. }
            | Operator::Aggregate { input, .. }
            | Operator::Window { input, .. }
            | Operator::Distinct { input, .. }
            | Operator::Sort { input, .. }
            | Operator::Limit { input, .. }
            | Operator::Lock { input, .. }
            | Operator::With { input, .. } => vec![input],
        }
    }

    /// The relation that the node itself gives columns of.
    fn own_relation(&self) -> Option<u16> {
        match &self.operator {
            Operator::Scan { rel, .. }
            | Operator::Project { rel, .. }
            | Operator::ProjectSet { rel, .. }
            | Operator::Aggregate { rel, .. }
            | Operator::Window { rel, .. }
            | Operator::SetOperation { rel, .. }
            | Operator::Recursion { rel, .. } => Some(*rel),
            _ => None,
        }
    }

    /// The relations whose columns can be used above the node.
    pub fn rels(&self) -> Vec<u16> {
        if let Operator::ProjectSet { rel, input, .. } | Operator::Window { rel, input, .. } = &self.operator
        {
            let mut rels = input.rels();
            rels.push(*rel);
            return rels;
        }
        if let Some(rel) = self.own_relation() {
            return vec![rel];
        }
        match &self.operator {
            Operator::Empty { rels } => rels.clone(),
            Operator::Join { kind, outer, .. } if kind.gives_left_only() => outer.rels(),
            _ => self.inputs().into_iter().flat_map(Node::rels).collect(),
        }
    }

    /// Gives the node's own expressions, the outputs of a set operation's sides among them.
    pub fn own_exprs(&self, f: &mut dyn FnMut(&'a Expr)) {
        self.filter.iter().for_each(|e| f(e));
        match &self.operator {
            Operator::Nothing | Operator::Empty { .. } | Operator::With { .. } => {}
            Operator::Scan { source, access, recheck, .. } => {
                match source {
                    Source::Table(_) | Source::Foreign(_) | Source::System(_) | Source::Sequence(..) => {}
                    Source::Values(rows) => rows.iter().flatten().for_each(&mut *f),
                    Source::With { outer, .. } | Source::Working { outer, .. } => {
                        outer.iter().for_each(&mut *f)
                    }
                    Source::Function { args, .. } => args.iter().for_each(&mut *f),
                    Source::Series { start, stop, step, by } => {
                        [start, stop, step].into_iter().chain(by.as_ref().map(|b| &b.0)).for_each(&mut *f)
                    }
                }
                recheck.iter().for_each(|e| f(e));
                match access {
                    Access::Full => {}
                    Access::Tid { tids, by } => {
                        tids.each(f);
                        f(by)
                    }
                    Access::Lookup { keys, member, within, .. } => {
                        keys.iter().for_each(|k| k.each(f));
                        member.iter().for_each(|e| f(e));
                        within.iter().flat_map(|w| &w.sides).for_each(|s| s.each(f));
                    }
                    Access::Box { boxes, .. } => boxes.iter().flatten().for_each(|s| s.each(f)),
                    Access::Nearest { sides, to, .. } => {
                        sides.iter().for_each(|s| s.each(f));
                        to.iter().flatten().for_each(|e| f(e))
                    }
                    Access::Range { ranges, .. } => ranges.iter().for_each(|r| r.each(f)),
                }
            }
            Operator::Join { method, on, .. } => {
                on.iter().for_each(|e| f(e));
                if let Method::Hash(keys) = method {
                    for (a, b) in keys {
                        f(a);
                        f(b);
                    }
                }
            }
            Operator::Project { columns, .. } => columns.iter().for_each(f),
            Operator::ProjectSet { values, stop, .. } => values.iter().chain([*stop]).for_each(f),
            Operator::Aggregate { keys, aggregates, .. } => {
                keys.iter().for_each(&mut *f);
                for a in *aggregates {
                    a.exprs().for_each(&mut *f);
                }
            }
            Operator::Window { window, calls, .. } => {
                window.exprs().chain(calls.iter().flat_map(|c| c.exprs())).for_each(f)
            }
            Operator::Distinct { by, .. } => by.iter().for_each(f),
            Operator::Sort { keys, .. } => keys.iter().for_each(|k| f(&k.expr)),
            Operator::Limit { limit, offset, ties, .. } => {
                limit.iter().chain(offset).for_each(|e| f(e));
                ties.iter().for_each(f)
            }
            Operator::Lock { recheck, .. } => recheck.iter().for_each(f),
            Operator::SetOperation { left, right, .. } | Operator::Recursion { left, right, .. } => {
                left.output.iter().chain(&right.output).for_each(|e| f(e))
            }
        }
    }

    /// Whether it uses columns of rows outside it.
    pub fn is_dependent(&self) -> bool {
        self.is_dependent_with(&[])
    }

    /// The same of the node and of what is computed for each of its rows.
    pub fn is_dependent_with(&self, exprs: &[&Expr]) -> bool {
        let mut own = BTreeSet::new();
        let mut used = BTreeSet::new();
        self.each(&mut |n| {
            own.extend(n.own_relation());
            match &n.operator {
                Operator::Empty { rels } => own.extend(rels.iter().copied()),
                Operator::Recursion { work, .. } => {
                    own.insert(*work);
                }
                _ => {}
            }
            n.own_exprs(&mut |e| {
                each_column(e, &mut |rel, _, _| {
                    used.insert(rel);
                })
            });
        });
        for e in exprs {
            each_column(e, &mut |rel, _, _| {
                used.insert(rel);
            });
        }
        !used.is_subset(&own)
    }

    /// Gives the node and all below it.
    pub fn each<'s>(&'s self, f: &mut dyn FnMut(&'s Node<'a>)) {
        f(self);
        self.inputs().into_iter().for_each(|n| n.each(f));
    }
}

impl<'a> Statement<'a> {
    /// Gives all expressions of the statement, those of its queries included.
    pub fn each_expr(&self, f: &mut dyn FnMut(&'a Expr)) {
        let rows = |r: &Subplan<'a>, f: &mut dyn FnMut(&'a Expr)| {
            r.node.each(&mut |n| n.own_exprs(f));
            r.output.iter().for_each(|e| f(e));
        };
        match &self.root {
            Root::Rows(r) => rows(r, f),
            Root::Insert { source, columns, checks, on_conflict, returning, .. } => {
                rows(source, f);
                checks.iter().for_each(|(_, e)| f(e));
                for c in *columns {
                    if let NewColumn::Value(e) = c {
                        f(e);
                    }
                }
                on_conflict.iter().flat_map(|c| c.exprs()).for_each(&mut *f);
                returning.iter().for_each(&mut *f);
            }
            Root::Modify { input, assign, checks, recheck, returning, .. } => {
                checks.iter().for_each(|(_, e)| f(e));
                input.each(&mut |n| n.own_exprs(f));
                assign.iter().flat_map(|l| l.iter()).for_each(|(_, e)| f(e));
                recheck.iter().chain(*returning).for_each(&mut *f);
            }
        }
        for q in self.queries.iter().chain(self.with.iter().map(|w| &w.1)) {
            rows(q, f);
        }
    }

    /// The columns of each relation that anything uses.
    pub fn used_columns(&self) -> Vec<BTreeSet<u16>> {
        let mut used = vec![BTreeSet::new(); self.relations.len()];
        self.each_expr(&mut |e| {
            each_column(e, &mut |rel, column, _| {
                if let Some(set) = used.get_mut(rel as usize) {
                    set.insert(column);
                }
            })
        });
        used
    }

    /// Gives all nodes of the statement, those of its queries included.
    pub fn each_node<'s>(&'s self, f: &mut dyn FnMut(&'s Node<'a>)) {
        match &self.root {
            Root::Rows(rows) | Root::Insert { source: rows, .. } => rows.node.each(f),
            Root::Modify { input, .. } => input.each(f),
        }
        self.queries.iter().chain(self.with.iter().map(|w| &w.1)).for_each(|q| q.node.each(f));
    }
}
