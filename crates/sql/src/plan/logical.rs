//! The logical tree: what a statement asks for, operator by operator, without a word on how.
//!
//! ```text
//! Block                       a query: a tree of rows, and what is computed of each
//!   Limit                    LIMIT, OFFSET
//!     Lock                   FOR UPDATE
//!       Sort                 ORDER BY
//!         Distinct
//!           Project          values computed, as columns of a relation of their own
//!            ProjectSet      functions that give rows (below Sort, where ORDER BY uses them)
//!             Window         functions over windows, those of each window by themselves
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
//! - **Y4** A WITH query that is kept stands in [`Statement::with`], behind those whose rows it reads; its
//!   rows are made when the first of them is asked for, once in an execution, or, if it uses columns of rows
//!   outside it, once in a run of the query that it stands before. Those of a recursion are made turn by
//!   turn, as far as they are asked for.
//! - **Y5** The rows that the last turn of a recursion gave are read by [`Source::Working`], in its right
//!   side alone. What reads them uses a column of the relation `work`, as if it were one of a row outside: so
//!   whatever rests on them is known to change from turn to turn. Nothing has that column.
use crate::bound::{self, Inner, SetOperation};
use crate::foreign::ForeignTable;
use ondol_engine::{FunctionDef, LockStrength, Table, Wait};
use ondol_types::func::{FuncId, Volatility};
use ondol_types::{Type, TypeId, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

pub type Expr = bound::Expr<Inside>;
pub type ExprKind = bound::ExprKind<Inside>;
pub type Aggregate = bound::Aggregate<Inside>;
pub type Frame = bound::Frame<Inside>;
pub type WindowCall = bound::WindowCall<Inside>;

/// A query within an expression (Y2).
#[derive(Clone, Debug)]
pub struct Inside {
    /// In [`Statement::queries`].
    pub number: u16,
    /// The columns of rows outside it that it uses.
    pub outer: Vec<Expr>,
    /// It stands for a call of a volatile function, and is run whenever its value is needed.
    pub again: bool,
    /// The most volatile of the functions that it calls.
    pub volatility: Volatility,
}

impl Inner for Inside {
    fn calls(&self, volatility: Volatility) -> bool {
        self.volatility >= volatility
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

/// A window: in which order its rows come, and which of them are seen from each.
#[derive(Clone, Debug)]
pub struct Window {
    /// First the keys of partitions, then those of the order within one; none twice.
    pub keys: Vec<SortBy>,
    /// How many are those of partitions.
    pub partition: usize,
    /// The key that a frame's distances are of, where it is by RANGE and has such.
    pub range: Option<SortBy>,
    pub frame: Frame,
}

impl Window {
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        let offsets = self.frame.start.offset().into_iter().chain(self.frame.end.offset());
        self.keys.iter().chain(&self.range).map(|k| &k.expr).chain(offsets)
    }
    pub fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let offsets = self.frame.start.offset_mut().into_iter().chain(self.frame.end.offset_mut());
        self.keys.iter_mut().chain(&mut self.range).map(|k| &mut k.expr).chain(offsets)
    }
}

/// Rows that a query locks.
#[derive(Clone, Debug)]
pub struct Locked {
    pub rels: Vec<u16>,
    pub strength: LockStrength,
    pub wait: Wait,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    Inner,
    Left,
    Full,
    /// The left rows that have a match, each once.
    Semi,
    /// The left rows that have none.
    Anti,
}

impl JoinKind {
    /// Whether only the left side's columns come out.
    pub fn gives_left_only(self) -> bool {
        matches!(self, JoinKind::Semi | JoinKind::Anti)
    }
}

impl From<bound::JoinKind> for JoinKind {
    fn from(kind: bound::JoinKind) -> JoinKind {
        match kind {
            bound::JoinKind::Inner => JoinKind::Inner,
            bound::JoinKind::Left => JoinKind::Left,
            bound::JoinKind::Full => JoinKind::Full,
        }
    }
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
    /// Each row as often as `stop` says. The columns of `rel` are the number of the time, from 1 on, and
    /// `values`, of which `stop` is made; those of the input can be used as well.
    ProjectSet {
        rel: u16,
        input: Box<Logical>,
        values: Vec<Expr>,
        stop: Expr,
    },
    /// The columns of `rel` are the keys, then the aggregates.
    Aggregate {
        rel: u16,
        input: Box<Logical>,
        keys: Vec<Expr>,
        aggregates: Vec<Aggregate>,
    },
    /// Each row once, in the window's order. The columns of `rel` are the calls' values; those of the input
    /// can be used as well.
    Window {
        rel: u16,
        input: Box<Logical>,
        window: Box<Window>,
        calls: Vec<WindowCall>,
    },
    Distinct {
        input: Box<Logical>,
        by: Vec<Expr>,
        /// The first row of each counts, not only whether there is one: DISTINCT ON.
        first: bool,
    },
    Sort {
        input: Box<Logical>,
        keys: Vec<SortBy>,
    },
    Limit {
        input: Box<Logical>,
        limit: Option<Expr>,
        offset: Option<Expr>,
        /// WITH TIES: in what the rows that come behind the last one are as it is.
        ties: Vec<Expr>,
    },
    Lock {
        input: Box<Logical>,
        locks: Vec<Locked>,
        /// What must hold of a row's newest version.
        recheck: Vec<Expr>,
    },
    /// Before each run of `input` these WITH queries forget their rows.
    With {
        queries: Vec<u16>,
        input: Box<Logical>,
    },
    /// The columns of `rel` are those of either side.
    SetOperation {
        rel: u16,
        operation: SetOperation,
        all: bool,
        left: Box<Block>,
        right: Box<Block>,
    },
    /// The rows of the left side, then those that the right side makes of them, then those that it makes of
    /// these, and so on until there are none; without `all` each row once. The columns of `rel` are those of
    /// either side.
    Recursion {
        rel: u16,
        /// What stands for the rows of the last turn (Y5).
        work: u16,
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
    /// The rows of a WITH query that are kept (Y4).
    With {
        /// In [`Statement::with`].
        number: u16,
        /// The columns of rows outside it that it uses.
        outer: Vec<Expr>,
        /// It is a recursion that is read here alone, and once in a run of the query that it stands before:
        /// its rows are handed on as they are made, and not kept.
        streamed: bool,
    },
    /// What the last turn of a recursion gave (Y5), by the recursion's name.
    Working {
        work: u16,
        name: String,
        /// The column of `work`.
        outer: Vec<Expr>,
    },
    Function {
        function: Arc<FunctionDef>,
        args: Vec<Expr>,
    },
    Foreign(Arc<dyn ForeignTable>),
    /// A view of the system's state, by name.
    System(&'static str),
    /// A sequence, by its number and name.
    Sequence(u32, String),
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
            Source::With { number, .. } => write!(f, "With({number})"),
            Source::Working { work, .. } => write!(f, "Working({work})"),
            Source::Function { function, args } => write!(f, "{}({args:?})", function.name),
            Source::Foreign(t) => write!(f, "{}", t.name()),
            Source::System(n) => write!(f, "{n}"),
            Source::Sequence(_, n) => write!(f, "{n}"),
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

/// What becomes of a row that is not inserted, since another has one of its keys.
#[derive(Clone, Debug)]
pub struct OnConflict {
    /// The unique indexes that are looked at, by their places among the table's; none: all of them.
    pub arbiters: Vec<u16>,
    /// `None`: nothing.
    pub update: Option<ConflictUpdate>,
}

/// The row that has the key, which is the relation of the new row until then, is changed.
#[derive(Clone, Debug)]
pub struct ConflictUpdate {
    /// The relation of the row that was proposed.
    pub excluded: u16,
    /// The columns and their new values.
    pub assign: Vec<(u16, Expr)>,
    /// What must hold for it to be changed.
    pub filter: Vec<Expr>,
    /// Of the table, by their numbers, over the row as it becomes.
    pub checks: Vec<(u16, Expr)>,
}

impl ConflictUpdate {
    fn exprs(&self) -> impl Iterator<Item = &Expr> {
        self.assign.iter().chain(&self.checks).map(|(_, e)| e).chain(&self.filter)
    }
}

impl OnConflict {
    /// All of its expressions.
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        self.update.iter().flat_map(ConflictUpdate::exprs)
    }
}

#[derive(Clone, Debug)]
pub enum Root {
    Rows(Block),
    Insert {
        table: bound::TableRef,
        source: Block,
        columns: Vec<NewColumn>,
        on_conflict: Option<OnConflict>,
        /// Of the table, by their numbers, over the relation `rel`, the new row.
        checks: Vec<(u16, Expr)>,
        /// Likewise.
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
        /// Of the table, by their numbers, `rel` being the new row.
        checks: Vec<(u16, Expr)>,
        recheck: Vec<Expr>,
        /// `rel` being the new row (DELETE: the old one).
        returning: Vec<Expr>,
    },
}

/// The relation of a hidden column's own row in its expression.
pub const OWN: u16 = u16::MAX;

/// A hidden column of a table: the expression that it keeps the value of, or the predicate of which it keeps
/// whether it is true, over the relation [`OWN`].
#[derive(Clone, Debug)]
pub struct Hidden {
    /// The table's number.
    pub table: u32,
    pub column: u16,
    pub predicate: bool,
    pub expr: Expr,
}

/// A statement as a tree.
#[derive(Clone, Debug)]
pub struct Statement {
    /// Of the tables in it.
    pub hidden: Vec<Hidden>,
    pub root: Root,
    /// The queries within expressions.
    pub queries: Vec<Block>,
    /// The WITH queries whose rows are kept, by name.
    pub with: Vec<(String, Block)>,
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
    /// The same, to be changed.
    pub fn inputs_mut(&mut self) -> Vec<&mut Logical> {
        match self {
            Logical::Nothing | Logical::Scan { .. } => Vec::new(),
            Logical::Filter { input, .. }
            | Logical::Project { input, .. }
            | Logical::ProjectSet { input, .. }
            | Logical::Aggregate { input, .. }
            | Logical::Window { input, .. }
            | Logical::Distinct { input, .. }
            | Logical::Sort { input, .. }
            | Logical::Limit { input, .. }
            | Logical::Lock { input, .. }
            | Logical::With { input, .. } => vec![input],
            Logical::Join { left, right, .. } => vec![left, right],
            Logical::SetOperation { left, right, .. } | Logical::Recursion { left, right, .. } => {
                vec![&mut left.tree, &mut right.tree]
            }
        }
    }

    /// The same as [`Self::own_exprs`], to be changed.
    pub fn own_exprs_mut(&mut self, f: &mut dyn FnMut(&mut Expr)) {
        match self {
            Logical::Nothing | Logical::With { .. } => {}
            Logical::Scan { source, .. } => match source {
                Source::Table(_) | Source::Foreign(_) | Source::System(_) | Source::Sequence(..) => {}
                Source::Values(rows) => rows.iter_mut().flatten().for_each(f),
                Source::With { outer, .. } | Source::Working { outer, .. } => outer.iter_mut().for_each(f),
                Source::Function { args, .. } => args.iter_mut().for_each(f),
                Source::Series { start, stop, step, by } => {
                    [start, stop, step].into_iter().chain(by.as_mut().map(|b| &mut b.0)).for_each(f)
                }
            },
            Logical::Filter { conditions: list, .. }
            | Logical::Join { on: list, .. }
            | Logical::Project { columns: list, .. }
            | Logical::Distinct { by: list, .. }
            | Logical::Lock { recheck: list, .. } => list.iter_mut().for_each(f),
            Logical::ProjectSet { values, stop, .. } => values.iter_mut().chain([stop]).for_each(f),
            Logical::Aggregate { keys, aggregates, .. } => {
                keys.iter_mut().for_each(&mut *f);
                for a in aggregates {
                    a.exprs_mut().for_each(&mut *f);
                }
            }
            Logical::Window { window, calls, .. } => {
                window.exprs_mut().chain(calls.iter_mut().flat_map(|c| c.exprs_mut())).for_each(f)
            }
            Logical::Sort { keys, .. } => keys.iter_mut().for_each(|k| f(&mut k.expr)),
            Logical::Limit { limit, offset, ties, .. } => {
                limit.iter_mut().chain(offset).chain(ties).for_each(f)
            }
            Logical::SetOperation { left, right, .. } | Logical::Recursion { left, right, .. } => {
                left.output.iter_mut().chain(&mut right.output).for_each(f)
            }
        }
    }

    /// Gives the expressions of the operator and of all below it, to be changed.
    pub fn each_expr_mut(&mut self, f: &mut dyn FnMut(&mut Expr)) {
        self.own_exprs_mut(f);
        for input in self.inputs_mut() {
            input.each_expr_mut(f);
        }
    }

    /// The operators right below.
    pub fn inputs(&self) -> Vec<&Logical> {
        match self {
            Logical::Nothing | Logical::Scan { .. } => Vec::new(),
            Logical::Filter { input, .. }
            | Logical::Project { input, .. }
            | Logical::ProjectSet { input, .. }
            | Logical::Aggregate { input, .. }
            | Logical::Window { input, .. }
            | Logical::Distinct { input, .. }
            | Logical::Sort { input, .. }
            | Logical::Limit { input, .. }
            | Logical::Lock { input, .. }
            | Logical::With { input, .. } => vec![input],
            Logical::Join { left, right, .. } => vec![left, right],
            Logical::SetOperation { left, right, .. } | Logical::Recursion { left, right, .. } => {
                vec![&left.tree, &right.tree]
            }
        }
    }

    /// Gives the operator's own expressions, the outputs of a set operation's sides among them.
    pub fn own_exprs<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        match self {
            Logical::Nothing | Logical::With { .. } => {}
            Logical::Scan { source, .. } => match source {
                Source::Table(_) | Source::Foreign(_) | Source::System(_) | Source::Sequence(..) => {}
                Source::Values(rows) => rows.iter().flatten().for_each(f),
                Source::With { outer, .. } | Source::Working { outer, .. } => outer.iter().for_each(f),
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
            Logical::ProjectSet { values, stop, .. } => values.iter().chain([stop]).for_each(f),
            Logical::Aggregate { keys, aggregates, .. } => {
                keys.iter().for_each(&mut *f);
                for a in aggregates {
                    a.exprs().for_each(&mut *f);
                }
            }
            Logical::Window { window, calls, .. } => {
                window.exprs().chain(calls.iter().flat_map(|c| c.exprs())).for_each(f)
            }
            Logical::Sort { keys, .. } => keys.iter().for_each(|k| f(&k.expr)),
            Logical::Limit { limit, offset, ties, .. } => limit.iter().chain(offset).chain(ties).for_each(f),
            Logical::SetOperation { left, right, .. } | Logical::Recursion { left, right, .. } => {
                left.output.iter().chain(&right.output).for_each(f)
            }
        }
    }

    /// Gives the operator and all below it.
    pub fn each<'a>(&'a self, f: &mut dyn FnMut(&'a Logical)) {
        f(self);
        self.inputs().into_iter().for_each(|l| l.each(f));
    }

    /// The relations that this operator itself gives columns of.
    pub fn own_relation(&self) -> Option<u16> {
        match self {
            Logical::Scan { rel, .. }
            | Logical::Project { rel, .. }
            | Logical::ProjectSet { rel, .. }
            | Logical::Aggregate { rel, .. }
            | Logical::Window { rel, .. }
            | Logical::SetOperation { rel, .. }
            | Logical::Recursion { rel, .. } => Some(*rel),
            _ => None,
        }
    }

    /// The relations whose columns can be used above this operator.
    pub fn gives(&self) -> Vec<u16> {
        match self {
            Logical::Nothing => Vec::new(),
            Logical::ProjectSet { rel, input, .. } | Logical::Window { rel, input, .. } => {
                let mut rels = input.gives();
                rels.push(*rel);
                rels
            }
            _ => match self.own_relation() {
                Some(rel) => vec![rel],
                None => match self {
                    Logical::Join { kind, left, .. } if kind.gives_left_only() => left.gives(),
                    _ => self.inputs().into_iter().flat_map(Logical::gives).collect(),
                },
            },
        }
    }

    /// The columns used here of relations that are none of this tree's: those of rows outside it.
    pub fn free(&self) -> BTreeMap<(u16, u16), &Expr> {
        free(self, &[])
    }
}

impl Block {
    /// In place of a query that nobody asks for any more.
    pub const EMPTY: Block = Block { tree: Logical::Nothing, output: Vec::new() };

    /// The columns used here of rows outside the query.
    pub fn free(&self) -> BTreeMap<(u16, u16), &Expr> {
        free(&self.tree, &self.output)
    }
}

fn free<'a>(tree: &'a Logical, output: &'a [Expr]) -> BTreeMap<(u16, u16), &'a Expr> {
    let mut used = BTreeMap::new();
    let mut own = std::collections::HashSet::new();
    let mut note = |e: &'a Expr| {
        each_column(e, &mut |rel, column, e| {
            used.insert((rel, column), e);
        })
    };
    tree.each(&mut |l| {
        own.extend(l.own_relation());
        if let Logical::Recursion { work, .. } = l {
            own.insert(*work);
        }
        l.own_exprs(&mut note);
    });
    output.iter().for_each(note);
    used.retain(|(rel, _), _| !own.contains(rel));
    used
}

impl Statement {
    /// Gives all expressions of the statement, to be changed.
    pub fn each_expr_mut(&mut self, f: &mut dyn FnMut(&mut Expr)) {
        let block = |b: &mut Block, f: &mut dyn FnMut(&mut Expr)| {
            b.tree.each_expr_mut(f);
            b.output.iter_mut().for_each(f);
        };
        match &mut self.root {
            Root::Rows(b) => block(b, f),
            Root::Insert { source, columns, checks, on_conflict, returning, .. } => {
                block(source, f);
                checks.iter_mut().for_each(|(_, e)| f(e));
                for c in columns {
                    if let NewColumn::Value(e) = c {
                        f(e);
                    }
                }
                if let Some(update) = on_conflict.as_mut().and_then(|c| c.update.as_mut()) {
                    let numbered = update.assign.iter_mut().chain(&mut update.checks).map(|(_, e)| e);
                    numbered.chain(&mut update.filter).for_each(&mut *f);
                }
                returning.iter_mut().for_each(&mut *f);
            }
            Root::Modify { input, assign, checks, recheck, returning, .. } => {
                input.each_expr_mut(f);
                checks.iter_mut().for_each(|(_, e)| f(e));
                assign.iter_mut().flatten().for_each(|(_, e)| f(e));
                recheck.iter_mut().chain(returning).for_each(&mut *f);
            }
        }
        for q in self.queries.iter_mut().chain(self.with.iter_mut().map(|w| &mut w.1)) {
            block(q, f);
        }
    }

    /// Gives each tree of the statement, to be changed: that of each block, and of an UPDATE or DELETE.
    pub fn each_tree_mut(&mut self, f: &mut dyn FnMut(&mut Logical)) {
        match &mut self.root {
            Root::Rows(b) | Root::Insert { source: b, .. } => f(&mut b.tree),
            Root::Modify { input, .. } => f(input),
        }
        self.queries.iter_mut().chain(self.with.iter_mut().map(|w| &mut w.1)).for_each(|q| f(&mut q.tree));
    }
}

/// Puts another expression for each column that `instead` has one for.
pub fn replace_columns(e: &mut Expr, instead: &mut dyn FnMut(u16, u16) -> Option<Expr>) {
    if let ExprKind::Column { rel, column, .. } = e.kind {
        if let Some(other) = instead(rel, column) {
            *e = other;
        }
        return;
    }
    if let Some(inside) = bound::inner_query_mut(e) {
        inside.outer.iter_mut().for_each(|e| replace_columns(e, instead));
    }
    bound::children_mut(e, &mut |e| replace_columns(e, instead));
}

/// Whether two expressions are the same, as far as that is easily seen.
pub fn same(a: &Expr, b: &Expr) -> bool {
    use bound::ExprKind as K;
    let all = |x: &[Expr], y: &[Expr]| x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y));
    a.ty == b.ty
        && match (&a.kind, &b.kind) {
            (K::Const(x), K::Const(y)) => x.is_same(y),
            (K::Param(x), K::Param(y)) => x == y,
            (K::Column { rel: r, column: c, .. }, K::Column { rel, column, .. }) => r == rel && c == column,
            (K::Call { func: f, args: x }, K::Call { func: g, args: y }) => f == g && all(x, y),
            (K::Cast { arg: x, explicit: e }, K::Cast { arg: y, explicit: f }) => e == f && same(x, y),
            (K::And(x), K::And(y)) | (K::Or(x), K::Or(y)) => all(x, y),
            (K::Not(x), K::Not(y)) => same(x, y),
            (K::IsNull { arg: x, negated: n }, K::IsNull { arg: y, negated: m }) => n == m && same(x, y),
            (
                K::InList { arg: x, list: k, eq: e, negated: n },
                K::InList { arg: y, list: l, eq: f, negated: m },
            ) => e == f && n == m && same(x, y) && all(k, l),
            _ => false,
        }
}

/// Whether an expression uses columns of these relations.
pub fn uses_any(e: &Expr, rels: &[u16]) -> bool {
    let mut found = false;
    each_column(e, &mut |rel, _, _| found |= rels.contains(&rel));
    found
}

/// The column that an expression is, by whatever type of the same form.
pub fn column_of(e: &Expr) -> Option<(u16, u16)> {
    match e.unrelabelled().kind {
        ExprKind::Column { rel, column, .. } => Some((rel, column)),
        _ => None,
    }
}

/// The value of a constant.
pub fn known(e: &Expr) -> Option<&Value> {
    match &e.kind {
        ExprKind::Const(v) => Some(v),
        _ => None,
    }
}

/// Whether a query stands in the expression.
pub fn has_query(e: &Expr) -> bool {
    let mut found = bound::inner_query(e).is_some();
    bound::children(e, &mut |e| found = found || has_query(e));
    found
}

impl Inside {
    /// Whether it is run once in an execution.
    pub fn is_once(&self) -> bool {
        self.outer.is_empty() && !self.again
    }
    /// Whether it is run for each row of these relations, and for nothing further out, and may as well be run
    /// otherwise: it uses columns of theirs and of no others, and calls nothing volatile.
    pub fn depends_on(&self, own: &[u16]) -> bool {
        let (mut near, mut far) = (false, false);
        for o in &self.outer {
            each_column(o, &mut |rel, _, _| if own.contains(&rel) { near = true } else { far = true });
        }
        near && !far && !self.calls(Volatility::Volatile)
    }
}
