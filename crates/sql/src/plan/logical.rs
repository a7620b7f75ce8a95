//! The logical tree: what a statement asks for, operator by operator, without a word on how.
//!
//! ```text
//! Block                       a query: a tree of rows, and what is computed of each
//!   Limit                    LIMIT, OFFSET
//!     Lock                   FOR UPDATE
//!       Sort                 ORDER BY
//!         Distinct
//!           Project          values computed, as columns of a relation of their own
//!             Filter         HAVING
//!               Aggregate    GROUP BY
//!                 Filter     WHERE
//!                   Join     FROM
//! ```
//! - **Y1** Relations are numbered over the whole statement: tables, and whatever else gives columns
//!   (projections, groups, set operations). A column is `Column { depth: 0, rel, column }`, wherever it is
//!   used; the kinds `Group`, `GroupOuter` and `Aggregate` of the bound tree occur no more, since what groups
//!   give are columns.
//! - **Y2** A query within an expression stands in [`Statement::queries`]; the expression has its number and
//!   the columns that it uses of rows outside it, so that whoever looks at the expression sees them.
//! - **Y3** An operator's expressions refer to relations below it, or to those of rows outside the query it
//!   is in.
use crate::bound::{self, Inner, JoinKind, SetOperation};
use crate::foreign::ForeignTable;
use ondol_engine::{FunctionDef, LockStrength, Table, Wait};
use ondol_types::func::{FuncId, Volatility};
use ondol_types::{Type, TypeId};
use std::collections::BTreeMap;
use std::sync::Arc;

pub type Expr = bound::Expr<Inside>;
pub type ExprKind = bound::ExprKind<Inside>;
pub type Aggregate = bound::Aggregate<Inside>;

/// A query within an expression (Y2).
#[derive(Clone, Debug)]
pub struct Inside {
    /// In [`Statement::queries`].
    pub number: u16,
    /// The columns of rows outside it that it uses.
    pub outer: Vec<Expr>,
    /// The most volatile of the functions that it calls.
    pub volatility: Volatility,
}

impl Inner for Inside {
    fn calls(&self, volatility: Volatility) -> bool {
        bound::rank(self.volatility) >= bound::rank(volatility)
    }
}

/// The names of a relation's columns, for EXPLAIN.
#[derive(Clone, Debug)]
pub struct Relation {
    /// As the query calls it; empty for what has no name.
    pub alias: String,
    pub columns: Vec<(String, Type)>,
}

/// A query: for each row of the tree the values of `output`.
#[derive(Clone, Debug)]
pub struct Block {
    pub tree: Logical,
    pub output: Vec<Expr>,
}

#[derive(Clone, Debug)]
pub struct SortBy {
    pub expr: Expr,
    pub desc: bool,
    pub nulls_first: bool,
}

/// Rows that a query locks.
#[derive(Clone, Debug)]
pub struct Locked {
    pub rels: Vec<u16>,
    pub strength: LockStrength,
    pub wait: Wait,
}

#[derive(Clone, Debug)]
pub enum Logical {
    /// One row, without columns.
    Nothing,
    Scan {
        rel: u16,
        source: Source,
    },
    Filter {
        input: Box<Logical>,
        conditions: Vec<Expr>,
    },
    Join {
        kind: JoinKind,
        left: Box<Logical>,
        right: Box<Logical>,
        on: Vec<Expr>,
    },
    /// The columns of `rel` are these values.
    Project {
        rel: u16,
        input: Box<Logical>,
        columns: Vec<Expr>,
    },
    /// The columns of `rel` are the keys, then the aggregates.
    Aggregate {
        rel: u16,
        input: Box<Logical>,
        keys: Vec<Expr>,
        aggregates: Vec<Aggregate>,
    },
    Distinct {
        input: Box<Logical>,
        by: Vec<Expr>,
    },
    Sort {
        input: Box<Logical>,
        keys: Vec<SortBy>,
    },
    Limit {
        input: Box<Logical>,
        limit: Option<Expr>,
        offset: Option<Expr>,
    },
    Lock {
        input: Box<Logical>,
        locks: Vec<Locked>,
        /// What must hold of a row's newest version.
        recheck: Vec<Expr>,
    },
    /// The columns of `rel` are those of either side.
    SetOperation {
        rel: u16,
        operation: SetOperation,
        all: bool,
        left: Box<Block>,
        right: Box<Block>,
    },
}

/// Where a scan's rows come from.
#[derive(Clone)]
#[allow(clippy::large_enum_variant)] // few, and short-lived
pub enum Source {
    Table(Arc<Table>),
    Values(Vec<Vec<Expr>>),
    Function {
        function: Arc<FunctionDef>,
        args: Vec<Expr>,
    },
    Foreign(Arc<dyn ForeignTable>),
    /// A view of the system's state, by name.
    System(&'static str),
    /// generate_series; see [`bound::Rel::Series`].
    Series {
        start: Expr,
        stop: Expr,
        step: Expr,
        by: Option<(Expr, FuncId)>,
    },
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Table(t) => write!(f, "{}", t.def.name),
            Source::Values(v) => write!(f, "Values({v:?})"),
            Source::Function { function, args } => write!(f, "{}({args:?})", function.name),
            Source::Foreign(t) => write!(f, "{}", t.name()),
            Source::System(n) => write!(f, "{n}"),
            Source::Series { start, stop, step, by } => {
                write!(f, "Series({start:?}, {stop:?}, {step:?}, {by:?})")
            }
        }
    }
}

/// Where a new row's column comes from.
#[derive(Clone, Debug)]
pub enum NewColumn {
    /// A column of the rows to insert, by its place.
    Source(usize),
    Value(Expr),
}

#[derive(Clone, Debug)]
pub enum Root {
    Rows(Block),
    Insert {
        table: bound::TableRef,
        source: Block,
        columns: Vec<NewColumn>,
        /// Over the relation `rel`, the new row.
        returning: Vec<Expr>,
        rel: u16,
    },
    /// UPDATE, or DELETE where `assign` is `None`: of the rows of the relation `rel`.
    Modify {
        table: bound::TableRef,
        rel: u16,
        input: Logical,
        /// The columns and their new values.
        assign: Option<Vec<(u16, Expr)>>,
        recheck: Vec<Expr>,
        /// `rel` being the new row (DELETE: the old one).
        returning: Vec<Expr>,
    },
}

/// A statement as a tree.
#[derive(Clone, Debug)]
pub struct Statement {
    pub root: Root,
    /// The queries within expressions.
    pub queries: Vec<Block>,
    pub relations: Vec<Relation>,
    pub params: Vec<TypeId>,
    /// The columns of the answer.
    pub columns: Vec<(String, Type)>,
    pub catalog_version: u64,
}

/// `column` of the relation `rel`.
pub fn column(rel: u16, column: usize, ty: Type) -> Expr {
    Expr { kind: ExprKind::Column { depth: 0, rel, column: column as u16 }, ty, at: u32::MAX }
}

/// Gives the columns that an expression uses, those of queries within it (which lead outside them) included.
pub fn each_column<'a>(e: &'a Expr, f: &mut dyn FnMut(u16, u16, &'a Expr)) {
    if let ExprKind::Column { rel, column, .. } = e.kind {
        f(rel, column, e);
    }
    if let Some(inside) = bound::inner_query(e) {
        inside.outer.iter().for_each(|e| each_column(e, f));
    }
    bound::children(e, &mut |e| each_column(e, f));
}

impl Logical {
    /// The operators right below, the sides of a set operation not among them.
    pub fn inputs(&self) -> Vec<&Logical> {
        match self {
            Logical::Nothing | Logical::Scan { .. } | Logical::SetOperation { .. } => Vec::new(),
            Logical::Filter { input, .. }
            | Logical::Project { input, .. }
            | Logical::Aggregate { input, .. }
            | Logical::Distinct { input, .. }
            | Logical::Sort { input, .. }
            | Logical::Limit { input, .. }
            | Logical::Lock { input, .. } => vec![input],
            Logical::Join { left, right, .. } => vec![left, right],
        }
    }

    /// Gives the operator's own expressions.
    pub fn own_exprs<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        match self {
            Logical::Nothing | Logical::SetOperation { .. } => {}
            Logical::Scan { source, .. } => match source {
                Source::Table(_) | Source::Foreign(_) | Source::System(_) => {}
                Source::Values(rows) => rows.iter().flatten().for_each(f),
                Source::Function { args, .. } => args.iter().for_each(f),
                Source::Series { start, stop, step, by } => {
                    [start, stop, step].into_iter().chain(by.as_ref().map(|b| &b.0)).for_each(f)
                }
            },
            Logical::Filter { conditions: list, .. }
            | Logical::Join { on: list, .. }
            | Logical::Project { columns: list, .. }
            | Logical::Distinct { by: list, .. }
            | Logical::Lock { recheck: list, .. } => list.iter().for_each(f),
            Logical::Aggregate { keys, aggregates, .. } => {
                keys.iter().for_each(&mut *f);
                for a in aggregates {
                    a.args.iter().chain(&a.filter).for_each(&mut *f);
                }
            }
            Logical::Sort { keys, .. } => keys.iter().for_each(|k| f(&k.expr)),
            Logical::Limit { limit, offset, .. } => limit.iter().chain(offset).for_each(f),
        }
    }

    /// Gives the operator and all below it, the sides of set operations included; and the outputs of these.
    pub fn each<'a>(&'a self, f: &mut dyn FnMut(&'a Logical), output: &mut dyn FnMut(&'a Expr)) {
        f(self);
        if let Logical::SetOperation { left, right, .. } = self {
            for side in [left, right] {
                side.tree.each(f, output);
                side.output.iter().for_each(&mut *output);
            }
        }
        for input in self.inputs() {
            input.each(f, output);
        }
    }

    /// The relations that this operator itself gives columns of.
    fn own_relation(&self) -> Option<u16> {
        match self {
            Logical::Scan { rel, .. }
            | Logical::Project { rel, .. }
            | Logical::Aggregate { rel, .. }
            | Logical::SetOperation { rel, .. } => Some(*rel),
            _ => None,
        }
    }

    /// The relations whose columns can be used above this operator.
    pub fn gives(&self) -> Vec<u16> {
        match self {
            Logical::Nothing => Vec::new(),
            _ => match self.own_relation() {
                Some(rel) => vec![rel],
                None => self.inputs().into_iter().flat_map(Logical::gives).collect(),
            },
        }
    }

    /// The columns used here of relations that are none of this tree's: those of rows outside it.
    pub fn free(&self) -> BTreeMap<(u16, u16), &Expr> {
        free(self, &[])
    }
}

impl Block {
    /// The columns used here of rows outside the query.
    pub fn free(&self) -> BTreeMap<(u16, u16), &Expr> {
        free(&self.tree, &self.output)
    }
}

fn free<'a>(tree: &'a Logical, output: &'a [Expr]) -> BTreeMap<(u16, u16), &'a Expr> {
    let mut used = BTreeMap::new();
    let mut own = std::collections::HashSet::new();
    let mut outputs: Vec<&Expr> = output.iter().collect();
    tree.each(
        &mut |l| {
            own.extend(l.own_relation());
            l.own_exprs(&mut |e| {
                each_column(e, &mut |rel, column, e| {
                    used.insert((rel, column), e);
                })
            });
        },
        &mut |e| outputs.push(e),
    );
    for e in outputs {
        each_column(e, &mut |rel, column, e| {
            used.insert((rel, column), e);
        });
    }
    used.retain(|(rel, _), _| !own.contains(rel));
    used
}
