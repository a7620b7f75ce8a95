//! Bound statements: what the binder hands to the planner. All names are resolved, every expression has a
//! type, every conversion is explicit.
//!
//! - **B1** Argument types of a [`ExprKind::Call`] are exactly the function's, or what its polymorphic ones
//!   are in the call (`ondol_types::resolve::polymorphic`); conversions are [`ExprKind::Cast`]s.
//! - **B2** In a grouped query, what is evaluated after grouping (targets, HAVING, ORDER BY) refers to
//!   columns of its own level only through [`ExprKind::Group`] and [`ExprKind::Aggregate`]. A subquery that
//!   is evaluated then refers to them by [`ExprKind::GroupOuter`] and an aggregate's depth.
//! - **B3** `depth` counts query levels outwards: 0 is the query the expression stands in.
pub use crate::bind::role::RoleStatement;
pub use crate::bind::sequence::{Owner, SequenceChanges};
use crate::bind::written::Written;
use crate::foreign::{Foreign, ForeignTable};
use crate::level::IsolationLevel;
use crate::needs::Need;
use ondol_engine::table_lock::TableLock;
use ondol_engine::{
    Access, CheckDef, ColumnDef, CommentKind, Commented, ForeignSource, FunctionDef, IndexColumn, IndexDef,
    IndexKind, IndexOptions, KeyAction, LockStrength, Name, Nature, OnCommit, Table, TableDef, ViewDef, Wait,
};
use ondol_types::agg::AggId;
use ondol_types::func::{FuncId, Volatility, find};
use ondol_types::user::UserDef;
use ondol_types::window::WindowId;
use ondol_types::{SqlResult, Type, TypeId, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An expression. `Q` is what stands for a query within it: in the plan another than here.
#[derive(Clone, Debug)]
pub struct Expr<Q = Query> {
    pub kind: ExprKind<Q>,
    pub ty: Type,
    /// Byte offset in the statement's text, for errors; `u32::MAX` when unknown.
    pub at: u32,
}

#[derive(Clone, Debug)]
pub enum ExprKind<Q = Query> {
    Const(Value),
    /// Counted from 0; its type is in [`Bound::params`].
    Param(u16),
    Column {
        depth: u16,
        rel: u16,
        column: u16,
    },
    /// Index into the query's `group_by`.
    Group(u16),
    /// The same of a query `depth` (1 or more) levels out, in a subquery that is evaluated after grouping.
    GroupOuter {
        depth: u16,
        index: u16,
    },
    /// Index into the query's `aggregates`.
    Aggregate {
        depth: u16,
        index: u16,
    },
    /// Index into the query's `window_calls`.
    Window {
        depth: u16,
        index: u16,
    },
    Call {
        func: FuncId,
        args: Vec<Expr<Q>>,
    },
    /// To `ty` of this expression, modifier included. `explicit` picks PostgreSQL's rules for overlong
    /// strings.
    Cast {
        arg: Box<Expr<Q>>,
        explicit: bool,
    },
    And(Vec<Expr<Q>>),
    Or(Vec<Expr<Q>>),
    Not(Box<Expr<Q>>),
    /// IS [NOT] NULL
    IsNull {
        arg: Box<Expr<Q>>,
        negated: bool,
    },
    /// IS [NOT] TRUE (`want = Some(true)`), FALSE, UNKNOWN (`None`)
    BoolTest {
        arg: Box<Expr<Q>>,
        want: Option<bool>,
        negated: bool,
    },
    /// IS [NOT] DISTINCT FROM; `eq` compares the two types.
    Distinct {
        left: Box<Expr<Q>>,
        right: Box<Expr<Q>>,
        eq: FuncId,
        negated: bool,
    },
    /// Searched CASE (a simple CASE is rewritten); without ELSE: NULL.
    Case {
        whens: Vec<(Expr<Q>, Expr<Q>)>,
        otherwise: Option<Box<Expr<Q>>>,
    },
    Coalesce(Vec<Expr<Q>>),
    /// The first, or NULL when it equals the second.
    NullIf {
        left: Box<Expr<Q>>,
        right: Box<Expr<Q>>,
        eq: FuncId,
    },
    Greatest(Vec<Expr<Q>>),
    Least(Vec<Expr<Q>>),
    /// `arg [NOT] IN (list)`, three-valued.
    InList {
        arg: Box<Expr<Q>>,
        list: Vec<Expr<Q>>,
        eq: FuncId,
        negated: bool,
    },
    /// The value of a query of one column and at most one row.
    Scalar(Box<Q>),
    Exists {
        query: Box<Q>,
        negated: bool,
    },
    /// `left op ANY/ALL (query)`; IN is `= ANY`, NOT IN is `<> ALL`. One operator for each column.
    Quantified {
        left: Vec<Expr<Q>>,
        query: Box<Q>,
        ops: Vec<FuncId>,
        all: bool,
    },
}

/// The number of `ctid` as a column of a table: where a row is, which none of its bytes tell.
pub const CTID: u16 = u16::MAX;

/// More relations than this in one query are refused.
pub const MAX_RELS: usize = 128;

/// A table, or something like one, in FROM.
#[derive(Clone)]
#[allow(clippy::large_enum_variant)] // few, and short-lived
pub enum Rel {
    Table(Arc<Table>),
    /// A subquery (or a view of the dictionary's, or a function's body): its targets are the columns.
    Query(Box<Query>),
    /// A WITH query, by its number.
    With(u16),
    /// VALUES lists.
    Values(Vec<Vec<Expr>>),
    /// A registered query called with arguments. One that returns void has one column of type void, and one
    /// row.
    Function {
        function: Arc<FunctionDef>,
        args: Vec<Expr>,
    },
    /// A table that is read from elsewhere.
    Foreign(Arc<dyn ForeignTable>),
    /// A view of the system's state, by name (see `ondol_sql::system`), materialised when read.
    System(&'static str),
    /// A sequence, by its number and name: what it has given out.
    Sequence(u32, String),
    /// generate_series(start, stop, step): over integers or bigints, or, with `by`, over what is added to by
    /// a function. Then `step` is the sign of what is added.
    Series {
        start: Expr,
        stop: Expr,
        step: Expr,
        by: Option<Box<Increment>>,
    },
    /// The places of what functions among the targets give: not in FROM, but of each row that is there before
    /// the targets. Its columns are the place, from 1 to `stop`, and `values`, of which `stop` is made.
    Places {
        values: Vec<Expr>,
        stop: Expr,
    },
}

/// What a series adds to a value to have the next, and the function that does.
#[derive(Clone, Debug)]
pub struct Increment {
    pub step: Expr,
    pub add: FuncId,
}

impl std::fmt::Debug for Rel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Rel::Table(t) => write!(f, "Table({})", t.def.name),
            Rel::Query(q) => write!(f, "Query({q:?})"),
            Rel::With(n) => write!(f, "With({n})"),
            Rel::Values(v) => write!(f, "Values({v:?})"),
            Rel::Function { function, args } => write!(f, "Function({}, {args:?})", function.name),
            Rel::Foreign(t) => write!(f, "Foreign({})", t.name()),
            Rel::System(n) => write!(f, "System({n})"),
            Rel::Sequence(_, n) => write!(f, "Sequence({n})"),
            Rel::Places { values, stop } => write!(f, "Places({values:?}, {stop:?})"),
            Rel::Series { start, stop, step, by: None } => write!(f, "Series({start:?}, {stop:?}, {step:?})"),
            Rel::Series { start, stop, by: Some(by), .. } => write!(f, "Series({start:?}, {stop:?}, {by:?})"),
        }
    }
}

#[derive(Clone, Debug)]
pub struct RelEntry {
    pub rel: Rel,
    /// The name it goes by in the query (alias or table name), for EXPLAIN.
    pub alias: String,
    pub columns: Vec<(String, Type)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    Inner,
    /// RIGHT is turned round by the binder.
    Left,
    Full,
}

#[derive(Clone, Debug)]
pub enum From {
    Rel(u16),
    Join { kind: JoinKind, left: Box<From>, right: Box<From>, on: Option<Expr> },
}

#[derive(Clone, Debug)]
pub struct Aggregate<Q = Query> {
    pub agg: AggId,
    pub args: Vec<Expr<Q>>,
    pub distinct: bool,
    /// The order in which it takes rows.
    pub order: Vec<SortKey<Q>>,
    pub filter: Option<Expr<Q>>,
    pub ty: Type,
}

#[derive(Clone, Debug)]
pub struct Target {
    pub expr: Expr,
    pub name: String,
    /// Only for ORDER BY; not part of the result.
    pub hidden: bool,
}

/// A key of ORDER BY in an aggregate.
#[derive(Clone, Debug)]
pub struct SortKey<Q = Query> {
    pub expr: Expr<Q>,
    pub desc: bool,
    pub nulls_first: bool,
}

impl<Q> Aggregate<Q> {
    /// What is computed of each row for it.
    pub fn exprs(&self) -> impl Iterator<Item = &Expr<Q>> {
        self.args.iter().chain(&self.filter).chain(self.order.iter().map(|k| &k.expr))
    }
    pub fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr<Q>> {
        self.args.iter_mut().chain(&mut self.filter).chain(self.order.iter_mut().map(|k| &mut k.expr))
    }
}

/// A window: which rows a function sees of those that are there, and in which order.
#[derive(Clone, Debug)]
pub struct Window<Q = Query> {
    /// What WINDOW calls it; none of one that OVER describes.
    pub name: Option<String>,
    /// The window that it refines: it has that one's partitions, and its order if it has none of its own.
    pub refines: Option<String>,
    pub partition: Vec<Expr<Q>>,
    pub order: Vec<SortKey<Q>>,
    /// The order is that of the window that it refines.
    pub order_is_copied: bool,
    pub frame: Frame<Q>,
}

/// Which rows of a row's partition a function sees.
#[derive(Clone, Debug)]
pub struct Frame<Q = Query> {
    pub unit: FrameUnit,
    pub start: FrameEnd<Q>,
    pub end: FrameEnd<Q>,
    pub exclude: Exclude,
    /// It is written, not the one that is meant where none is; and with BETWEEN.
    pub is_written: bool,
    pub is_between: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameUnit {
    Rows,
    Range,
    Groups,
}

/// Where a frame begins or ends.
#[derive(Clone, Debug)]
pub enum FrameEnd<Q = Query> {
    /// With the partition.
    Unbounded,
    CurrentRow,
    Preceding(Box<Expr<Q>>),
    Following(Box<Expr<Q>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclude {
    NoOthers,
    CurrentRow,
    Group,
    Ties,
}

/// What is computed over a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Computed {
    Function(WindowId),
    Aggregate(AggId),
}

/// A function over a window.
#[derive(Clone, Debug)]
pub struct WindowCall<Q = Query> {
    /// Index into the query's `windows`.
    pub window: u16,
    pub what: Computed,
    pub args: Vec<Expr<Q>>,
    pub filter: Option<Expr<Q>>,
    pub ty: Type,
}

impl<Q> WindowCall<Q> {
    /// What is computed of each row for it.
    pub fn exprs(&self) -> impl Iterator<Item = &Expr<Q>> {
        self.args.iter().chain(&self.filter)
    }
    pub fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr<Q>> {
        self.args.iter_mut().chain(&mut self.filter)
    }
}

impl<Q> FrameEnd<Q> {
    pub fn offset(&self) -> Option<&Expr<Q>> {
        match self {
            FrameEnd::Preceding(e) | FrameEnd::Following(e) => Some(e),
            _ => None,
        }
    }
    pub fn offset_mut(&mut self) -> Option<&mut Expr<Q>> {
        match self {
            FrameEnd::Preceding(e) | FrameEnd::Following(e) => Some(e),
            _ => None,
        }
    }
}

impl<Q> Window<Q> {
    pub fn exprs(&self) -> impl Iterator<Item = &Expr<Q>> {
        let offsets = self.frame.start.offset().into_iter().chain(self.frame.end.offset());
        self.partition.iter().chain(self.order.iter().map(|k| &k.expr)).chain(offsets)
    }
    pub fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr<Q>> {
        let offsets = self.frame.start.offset_mut().into_iter().chain(self.frame.end.offset_mut());
        self.partition.iter_mut().chain(self.order.iter_mut().map(|k| &mut k.expr)).chain(offsets)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderKey {
    /// Index into `targets`.
    pub target: usize,
    pub desc: bool,
    pub nulls_first: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOperation {
    Union,
    Intersect,
    Except,
}

/// A column of a table or a view, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    pub relation: u32,
    pub column: u16,
}

/// What view a query is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Viewed {
    /// By its number.
    View(u32),
    /// One of the catalogue's.
    System(&'static str),
}

#[derive(Clone, Debug, Default)]
pub struct Query {
    pub rels: Vec<RelEntry>,
    /// The items of FROM, joined by comma.
    pub from: Vec<From>,
    /// Relations of kind [`Rel::Places`]: each sees those before it.
    pub places: Vec<u16>,
    pub filter: Option<Expr>,
    /// GROUP BY or an aggregate is present.
    pub grouped: bool,
    pub group_by: Vec<Expr>,
    pub aggregates: Vec<Aggregate>,
    pub having: Option<Expr>,
    /// Those of WINDOW, in the order in which they stand there, then those that OVER describes.
    pub windows: Vec<Window>,
    pub window_calls: Vec<WindowCall>,
    pub targets: Vec<Target>,
    pub distinct: bool,
    /// DISTINCT ON: of rows that have the same values of these targets the first, in the order of ORDER BY.
    pub distinct_on: Vec<usize>,
    /// UNION and its kin: the rows are those of the two queries (each one level further in, by B3) instead of
    /// `from`; `rels` is empty; targets (all `Column {rel: 0}`), distinct,
    /// order_by, limit and offset apply to the outcome, whose columns are as the left's.
    pub set: Option<Box<SetQuery>>,
    pub order_by: Vec<OrderKey>,
    pub limit: Option<Expr>,
    pub offset: Option<Expr>,
    /// WITH TIES: rows that ORDER BY cannot tell from the last one come, too.
    pub ties: bool,
    /// FOR UPDATE / FOR SHARE: (rels, how, wait)
    pub locks: Vec<(Vec<u16>, LockStrength, Wait)>,
    pub with: Vec<With>,
    /// No condition of the queries around is asked below it.
    pub barrier: bool,
    /// It is what a view shows.
    pub of_view: Option<Viewed>,
    /// It stands for a call that is not written as a subquery: what is volatile in it is called whenever its
    /// value is needed.
    pub is_call: bool,
    /// How it was written, if that was asked for ([`crate::bind::written`]).
    pub written: Option<Box<Written>>,
}

/// A query of a WITH clause, to be seen by the queries behind it and by the one that it stands before. By B3
/// it is where that one is: it sees what is outside of that.
#[derive(Clone, Debug)]
pub struct With {
    /// What [`Rel::With`] has, each its own in the statement.
    pub number: u16,
    pub name: String,
    pub query: Query,
    /// How often it is named, by itself not counted.
    pub uses: u32,
    /// It reads itself: the query is a UNION, of which the right side has one [`Rel::With`] of this number,
    /// which stands for the rows that were new in the turn before.
    pub recursive: bool,
    /// AS [NOT] MATERIALIZED
    pub materialized: Option<bool>,
}

/// Whether an expression of a query uses what functions that give rows give.
pub fn uses_places(e: &Expr, q: &Query) -> bool {
    let mut found = false;
    walk_expr(e, 0, &mut |e, level| {
        if let ExprKind::Column { depth, rel, .. } = e.kind {
            found |= depth == level && q.places.contains(&rel);
        }
        !found
    });
    found
}

impl With {
    /// Whether its rows are made once and kept, as PostgreSQL has it: else it stands where it is used.
    pub fn is_kept(&self) -> bool {
        if self.recursive {
            return true;
        }
        let few = self.materialized == Some(false) || self.materialized.is_none() && self.uses == 1;
        let mut locks = false;
        each_query(&self.query, &mut |q| locks |= !q.locks.is_empty());
        !few || locks || self.query.calls(Volatility::Volatile)
    }
}

#[derive(Clone, Debug)]
pub struct SetQuery {
    pub operation: SetOperation,
    pub all: bool,
    pub left: Query,
    /// Types equal to the left's.
    pub right: Query,
}

/// INSERT. `columns[i]` says where table column i comes from.
#[derive(Clone, Debug)]
pub struct Insert {
    pub table: TableRef,
    /// VALUES or a query; its visible targets are the source columns, cast to the columns' types already.
    /// DEFAULT VALUES is VALUES of one row without columns.
    pub source: Query,
    pub columns: Vec<InsertColumn>,
    pub on_conflict: Option<OnConflict>,
    /// Over rel 0, the new row.
    pub checks: Vec<RowCheck>,
    /// Likewise.
    pub returning: Vec<Target>,
    pub with: Vec<With>,
    /// The view right over the table, if one is named in its place.
    pub through: Option<u32>,
}

/// What becomes of a row that is not inserted, since another has one of its keys.
#[derive(Clone, Debug)]
pub struct OnConflict {
    /// The unique indexes that are looked at, by their places among the table's; none: all of them.
    pub arbiters: Vec<u16>,
    /// `None`: nothing.
    pub update: Option<Box<ConflictUpdate>>,
}

/// The row that has the key is changed.
#[derive(Clone, Debug)]
pub struct ConflictUpdate {
    /// Rel 0 is that row, rel 1 the one that was proposed; the targets are the assigned values, of the
    /// columns' types. Nothing is in FROM.
    pub query: Query,
    /// Column i of `assign` gets target i.
    pub assign: Vec<u16>,
    /// Over rel 0, as it becomes.
    pub checks: Vec<RowCheck>,
}

/// What is looked at of a new row: first the values of generated columns are computed, then the checks of
/// the table must not be false.
#[derive(Clone, Debug)]
pub struct RowCheck {
    /// Among the table's checks; or [`COMPUTED`] and the column whose value the expression is.
    pub number: u16,
    pub condition: Expr,
}

/// Marks the number of a column among those of checks. A table has fewer columns, and fewer checks.
pub const COMPUTED: u16 = 1 << 15;

/// What is computed of a new row, apart from what it is held to.
pub fn computed_first<E>(checks: &[(u16, E)]) -> (&[(u16, E)], &[(u16, E)]) {
    checks.split_at(checks.iter().take_while(|(n, _)| n & COMPUTED != 0).count())
}

#[derive(Clone, Debug)]
pub enum InsertColumn {
    Source(usize),
    /// The default, or NULL; of the column's type.
    Value(Expr),
}

/// A table by reference, printable.
#[derive(Clone)]
pub struct TableRef(pub Arc<Table>);
impl std::fmt::Debug for TableRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0.def.name)
    }
}

/// UPDATE and DELETE: the target is rel 0 of `query`, whose FROM (and USING) and filter choose the rows; the
/// query's targets are the assigned values (UPDATE; of the columns' types), then nothing else.
#[derive(Clone, Debug)]
pub struct Modify {
    pub table: TableRef,
    pub query: Query,
    /// UPDATE: column i of `assign` gets target i. DELETE: empty.
    pub assign: Vec<u16>,
    /// Over rel 0, the new row.
    pub checks: Vec<RowCheck>,
    pub delete: bool,
    /// Over the query's rels, rel 0 being the new row (DELETE: the old one).
    pub returning: Vec<Target>,
    /// The view right over the table, if one is named in its place.
    pub through: Option<u32>,
}

#[derive(Clone, Debug)]
pub struct CopyOptions {
    /// FORMAT binary, of which the others say nothing.
    pub binary: bool,
    pub csv: bool,
    pub header: bool,
    pub delimiter: u8,
    pub null: String,
    pub quote: u8,
    pub escape: u8,
    pub force_quote_all: bool,
}

/// What becomes of a value that Parquet has none for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unrepresentable {
    Error,
    Null,
    /// Columns of types with such values become texts, all of their values.
    Text,
}

#[derive(Clone, Debug)]
pub enum CopyFormat {
    /// Text, CSV or binary.
    Text(CopyOptions),
    Parquet(Unrepresentable),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyEnd {
    /// STDIN or STDOUT
    Client,
    File(String),
}

#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // one a statement
pub enum Copy {
    From {
        table: TableRef,
        columns: Vec<u16>,
        /// Of the columns that the data lacks; of Parquet, without a list of columns, of all that it may
        /// lack.
        defaults: Vec<(u16, Expr)>,
        end: CopyEnd,
        format: CopyFormat,
    },
    To {
        query: Query,
        end: CopyEnd,
        format: CopyFormat,
    },
}

/// Something that DROP names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dropped<T = Name> {
    There(T),
    /// It is not there and need not be: the notice that says so.
    Missing(String),
}

impl<T> Dropped<T> {
    pub fn there(&self) -> Option<&T> {
        match self {
            Dropped::There(t) => Some(t),
            Dropped::Missing(_) => None,
        }
    }
}

/// What is done to a setting that sessions or a server begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingChange {
    Set { name: String, value: String },
    Reset(String),
    ResetAll,
}

/// Of which tables IMPORT FOREIGN SCHEMA makes some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportLimit {
    All,
    To(Vec<String>),
    Except(Vec<String>),
}

#[derive(Clone, Debug)]
pub enum Statement {
    Query(Query),
    Insert(Insert),
    Modify(Modify),
    Copy(Copy),
    CreateTable {
        name: Name,
        columns: Vec<ColumnDef>,
        constraints: Vec<NewIndex>,
        checks: Vec<CheckDef>,
        sequences: Vec<NewSequence>,
        foreign: Vec<NewForeign>,
        /// On columns and checks, by their names: what LIKE takes along.
        comments: Vec<(CommentKind, String, String)>,
        on_commit: OnCommit,
        if_not_exists: bool,
        unlogged: bool,
        /// Of a foreign table.
        source: Option<ForeignSource>,
    },
    /// Foreign tables are made of all that there are in a place, or of some.
    ImportForeignSchema {
        /// The place there.
        remote: String,
        source: ForeignSource,
        /// The schema here.
        into: u32,
        limit: ImportLimit,
    },
    /// The columns are the query's, by whatever names. Without data the query is not run.
    CreateTableAs {
        name: Name,
        columns: Vec<ColumnDef>,
        query: Query,
        with_data: bool,
        on_commit: OnCommit,
        if_not_exists: bool,
        /// Whether it is a materialised view, or unlogged.
        nature: Nature,
    },
    /// A materialised view gets the rows that its query gives now; without, it gets none.
    Refresh {
        name: Name,
        /// What takes the old ones away, and what gives the new ones.
        rows: Option<Box<(Modify, Query)>>,
        concurrently: bool,
    },
    /// With `replace`, in the place of one of its name.
    CreateView {
        def: ViewDef,
        replace: bool,
    },
    /// The view of the name becomes what the definition says.
    AlterView {
        name: Name,
        def: ViewDef,
        tag: &'static str,
    },
    DropView {
        names: Vec<Dropped>,
        if_exists: bool,
        cascade: bool,
        /// They are materialised views.
        material: bool,
    },
    /// Without a text it is taken away.
    Comment {
        on: Commented,
        /// The name of the relation or type that is commented, or that has the part; none of a function.
        name: Option<Name>,
        text: Option<String>,
    },
    DropTable {
        names: Vec<Dropped>,
        if_exists: bool,
        /// Functions that return the table's rows go with it.
        cascade: bool,
        /// They are foreign tables.
        foreign: bool,
    },
    Truncate {
        names: Vec<Name>,
        /// RESTART IDENTITY
        restart: bool,
        /// Tables whose foreign keys refer to them, too.
        cascade: bool,
    },
    CreateSequence {
        name: Name,
        changes: SequenceChanges,
        owner: Option<Owner>,
        unlogged: bool,
    },
    /// SET LOGGED and SET UNLOGGED.
    LogSequence {
        name: Name,
        unlogged: bool,
        tag: &'static str,
    },
    AlterSequence {
        name: Name,
        changes: SequenceChanges,
        owner: Option<Owner>,
    },
    RenameSequence {
        name: Name,
        to: Name,
        tag: &'static str,
    },
    DropSequence {
        names: Vec<Dropped>,
        if_exists: bool,
        /// Defaults that take their values of it go.
        cascade: bool,
    },
    CreateIndex {
        table: Name,
        index: NewIndex,
        /// What becomes of the table before: it gets hidden columns.
        alter: Option<Box<AlterTable>>,
        if_not_exists: bool,
        /// Not in a transaction block; outside one it changes nothing.
        concurrently: bool,
    },
    DropIndex {
        names: Vec<Dropped>,
        if_exists: bool,
        cascade: bool,
        concurrently: bool,
    },
    /// Indexes are made anew: those of a table, or one of them.
    Reindex {
        tables: Vec<(Name, Option<String>)>,
        /// What it is called where it may not run in a transaction block.
        alone: Option<&'static str>,
    },
    AlterTable(AlterTable),
    /// Its number and its code are given when the statement runs.
    CreateFunction {
        function: Box<FunctionDef>,
        replace: bool,
    },
    DropFunction {
        functions: Vec<Dropped<u32>>,
        if_exists: bool,
        cascade: bool,
    },
    /// A function gets into the schema of that number.
    MoveFunction {
        function: u32,
        schema: u32,
    },
    /// The elements are statements, which are bound when the schema is there.
    CreateSchema {
        name: String,
        if_not_exists: bool,
        elements: Vec<String>,
        /// AUTHORIZATION
        owner: Option<u32>,
    },
    RenameSchema {
        name: String,
        to: String,
    },
    DropSchema {
        names: Vec<Dropped<String>>,
        cascade: bool,
    },
    /// Its numbers are given when the statement runs.
    CreateType {
        def: UserDef,
        tag: &'static str,
    },
    /// The type of the name becomes what the definition says, which has its numbers.
    AlterType {
        name: Name,
        def: UserDef,
        tag: &'static str,
    },
    DropType {
        names: Vec<Dropped>,
        if_exists: bool,
        cascade: bool,
        /// What is dropped: `type` or `domain`.
        what: &'static str,
        tag: &'static str,
    },
    Begin(Modes),
    SetTransaction {
        modes: Modes,
        session: bool,
    },
    /// `chain`: another of the same mode follows.
    Commit {
        chain: bool,
    },
    Rollback {
        chain: bool,
    },
    /// `None`: ALL.
    SetConstraints {
        names: Option<Vec<String>>,
        deferred: bool,
    },
    Savepoint(String),
    Release(String),
    RollbackTo(String),
    Set {
        name: String,
        value: Option<String>,
        local: bool,
    },
    Show(String),
    /// The parameter types given; the statement is bound anew when executed.
    Prepare {
        name: String,
        types: Vec<TypeId>,
        text: String,
    },
    /// EXECUTE: of a prepared statement or of a registered query. The arguments are as written, literals
    /// without a type: `bind::argument` casts each to its parameter's type.
    Execute {
        name: String,
        args: Vec<Expr>,
    },
    Deallocate(Option<String>),
    Declare(Declare),
    /// FETCH or MOVE.
    Fetch(Fetch),
    /// CLOSE: of all cursors, if it names none.
    Close(Option<String>),
    Explain {
        options: ExplainOptions,
        statement: Box<Statement>,
        text: String,
    },
    Checkpoint,
    Listen(String),
    /// UNLISTEN: of all channels, if it names none.
    Unlisten(Option<String>),
    Notify {
        channel: String,
        payload: String,
    },
    DiscardSequences,
    /// DISCARD ALL, or else DISCARD PLANS.
    Discard {
        all: bool,
    },
    /// The session's temporary tables go.
    DiscardTemporary,
    /// LOCK TABLE: the tables in the order in which they are locked; `now`: without waiting.
    LockTables {
        names: Vec<Name>,
        mode: TableLock,
        now: bool,
    },
    /// What is about roles, owners and privileges.
    Role(Box<RoleStatement>),
    /// ALTER SYSTEM
    AlterSystem(SettingChange),
    /// Accepted because it means nothing in memory; the text says so.
    Nothing {
        tag: &'static str,
        notice: String,
    },
}

/// A sequence that is made with a column: its values come from it.
#[derive(Clone, Debug)]
pub struct NewSequence {
    /// The column's place.
    pub column: usize,
    /// `None`: named after the table and the column.
    pub name: Option<Name>,
    pub changes: SequenceChanges,
    pub of: SequenceOf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceOf {
    /// serial: by the column's default.
    Serial,
    /// GENERATED AS IDENTITY
    Identity { always: bool },
}

/// ALTER TABLE, ALTER INDEX: a table becomes another.
#[derive(Clone, Debug)]
pub struct AlterTable {
    pub table: Name,
    /// What it is to be, but for the keys that it gets; `None`: it gets only these.
    pub def: Option<TableDef>,
    /// Where the columns of the definition come from.
    pub columns: Vec<AlteredColumn>,
    pub keys: Vec<NewKey>,
    /// Checks that all rows must hold, by name.
    pub validate: Vec<String>,
    /// Sequences of columns that the definition has.
    pub sequences: Vec<NewSequence>,
    /// Sequences that change, by their numbers.
    pub changed_sequences: Vec<(u32, SequenceChanges)>,
    pub foreign: Vec<NewForeign>,
    /// What goes on which foreign keys may rest.
    pub gone: Vec<GoneKey>,
    /// Columns that go, by their places, and whether with what depends on them.
    pub dropped: Vec<(usize, bool)>,
    pub tag: &'static str,
}

impl AlterTable {
    /// Nothing yet.
    pub fn new(table: Name, tag: &'static str) -> AlterTable {
        AlterTable {
            table,
            def: None,
            columns: Vec::new(),
            keys: Vec::new(),
            validate: Vec::new(),
            sequences: Vec::new(),
            changed_sequences: Vec::new(),
            foreign: Vec::new(),
            gone: Vec::new(),
            dropped: Vec::new(),
            tag,
        }
    }
}

/// Indexes of a table that go with something which is dropped.
#[derive(Clone, Debug)]
pub struct GoneKey {
    /// What is dropped: `constraint k on table t`, `column a of table t`.
    pub what: String,
    /// What a foreign key rests on then: `index k`, `column a of table t`.
    pub rested_on: String,
    pub indexes: Vec<u32>,
    pub cascade: bool,
}

/// A FOREIGN KEY constraint as it is written.
#[derive(Clone, Debug)]
pub struct NewForeign {
    pub name: Option<String>,
    pub columns: Vec<String>,
    pub table: Name,
    /// None: the primary key's.
    pub referenced: Vec<String>,
    pub full: bool,
    pub on_delete: KeyAction,
    pub on_update: KeyAction,
    pub set: Vec<String>,
    pub deferrable: bool,
    pub deferred: bool,
    pub validated: bool,
}

#[derive(Clone, Debug)]
pub enum AlteredColumn {
    /// It was this column before.
    Kept(usize),
    /// It was this column, whose values are cast to the type that it has now.
    Cast(usize),
    /// In rows that are there it has this value, computed once.
    New(Box<Expr>),
    /// In rows that are there it has the value that the text has over the table's columns, row by row.
    Computed(String),
}

impl AlteredColumn {
    /// Whether all columns are those that there were, in their places and with their values.
    pub fn all_stay(columns: &[AlteredColumn]) -> bool {
        columns.iter().enumerate().all(|(n, c)| matches!(c, AlteredColumn::Kept(k) if *k == n))
    }
}

/// A PRIMARY KEY or UNIQUE constraint to be made, perhaps of an index that is there.
#[derive(Clone, Debug)]
pub struct NewKey {
    pub index: NewIndex,
    pub using: Option<String>,
}

/// DECLARE CURSOR.
#[derive(Clone, Debug)]
pub struct Declare {
    pub name: String,
    /// SCROLL was written.
    pub scroll: bool,
    /// Its rows can be fetched again.
    pub goes_back: bool,
    /// It outlives its transaction.
    pub hold: bool,
    pub query: Query,
    /// The tables, by their numbers, of which the query's last columns tell the rows that it stands on.
    pub rows: Vec<u32>,
}

/// FETCH or MOVE.
#[derive(Clone, Debug)]
pub struct Fetch {
    pub name: String,
    pub movement: Movement,
    /// MOVE: the rows are passed by.
    pub is_move: bool,
}

/// Where a cursor moves to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Movement {
    /// So many rows, or all that there are.
    Forward(Option<u64>),
    Backward(Option<u64>),
    /// The row of that number, from 1; from the end, if it is negative; before the first, if it is 0.
    Absolute(i64),
    /// The row so many behind the present one, or before it.
    Relative(i64),
}

/// What a statement says of how a transaction is to be.
#[derive(Clone, Copy, Debug, Default)]
pub struct Modes {
    pub isolation: Option<IsolationLevel>,
    pub access: Option<Access>,
    /// A serializable transaction that only reads is never refused here, whatever it says of this.
    pub deferrable: Option<bool>,
}

/// What EXPLAIN is to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExplainOptions {
    /// The statement is run, and what its nodes did is counted.
    pub analyze: bool,
    /// What each node gives.
    pub verbose: bool,
    pub costs: bool,
    pub json: bool,
    /// How long it took stands at the end, of what is run.
    pub summary: bool,
}

/// An index to be made, by CREATE INDEX or a constraint.
#[derive(Clone, Debug)]
pub struct NewIndex {
    /// `None`: named after the table and columns.
    pub name: Option<String>,
    pub kind: IndexKind,
    pub unique: bool,
    pub primary: bool,
    pub constraint: bool,
    pub columns: Vec<IndexColumn>,
    pub options: IndexOptions,
}

impl NewIndex {
    /// Its definition, under this name and without a number.
    pub fn definition(&self, name: &str) -> IndexDef {
        let NewIndex { kind, unique, primary, constraint, .. } = *self;
        let (columns, options) = (self.columns.clone(), self.options.clone());
        IndexDef { id: 0, name: name.to_string(), kind, unique, primary, constraint, columns, options }
    }
}

/// A statement with all that is known of it before it runs.
#[derive(Clone, Debug)]
pub struct Bound {
    pub statement: Statement,
    /// Types of $1, $2, ...
    pub params: Vec<TypeId>,
    /// The dictionary version that names were resolved in.
    pub catalog_version: u64,
    /// Told to the user before the outcome: (sqlstate, message).
    pub notices: Vec<(&'static str, String)>,
    /// What was opened for it that is foreign. If anything was, it is to be run once, now.
    pub foreign: Opened,
    /// A literal that means something else in the usual styles, in which what is stored is read (style/S1).
    pub otherwise: Option<String>,
    /// What whoever runs it has to be allowed.
    pub needs: Vec<Need>,
}

impl Bound {
    /// One that was put together elsewhere: nothing is to be told of it.
    pub fn of(statement: Statement, params: Vec<TypeId>, catalog_version: u64) -> Bound {
        let (notices, foreign, otherwise, needs) = (Vec::new(), Opened::default(), None, Vec::new());
        Bound { statement, params, catalog_version, notices, foreign, otherwise, needs }
    }
    /// Opens the foreign tables that it names. Whoever runs it has to be allowed to read them.
    pub fn open_foreign(&mut self, foreign: &dyn Foreign) -> SqlResult<()> {
        for (id, table) in &self.foreign.named {
            if !self.foreign.tables.contains_key(id) {
                self.foreign.tables.insert(*id, crate::foreign::open(foreign, &table.def)?);
            }
        }
        Ok(())
    }
}

/// What is foreign, and what of it is open.
#[derive(Clone, Default)]
pub struct Opened {
    /// The foreign tables of the dictionary that are named, by their numbers. They are opened once it is
    /// known that whoever asks may read them ([`Bound::open_foreign`]).
    pub named: BTreeMap<u32, Arc<Table>>,
    pub tables: BTreeMap<u32, Arc<dyn ForeignTable>>,
    /// Whether functions in FROM read what they have opened ([`Rel::Foreign`]).
    pub by_functions: bool,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.named.values().map(|t| &t.def.name)).finish()
    }
}

impl Opened {
    pub fn is_any(&self) -> bool {
        self.by_functions || !self.named.is_empty()
    }
}

// ----
// walking ---------------------------------------------------------------------------------------------

macro_rules! walkers {
    ($expr_fn:ident, $children_fn:ident, $inner_fn:ident, $query_fn:ident, $own_fn:ident, $from_fn:ident, $iter:ident, $as_ref:ident, $deref:ident, $exprs:ident, [$($m:tt)?]) => {
        /// Visits an expression and those below it, outermost first, subqueries included: `f` gets each with
        /// the number of query levels between it and where the walk began, and says whether to go on below
        /// it.
        pub fn $expr_fn(e: & $($m)? Expr, level: u16, f: &mut dyn FnMut(& $($m)? Expr, u16) -> bool) {
            if !f(e, level) {
                return;
            }
            $children_fn(e, &mut |e| $expr_fn(e, level, f));
            if let Some(query) = $inner_fn(e) {
                $query_fn(query, level + 1, f);
            }
        }

        /// Gives the expressions right below one, not those of its subquery.
        pub fn $children_fn<'e, Q>(e: &'e $($m)? Expr<Q>, f: &mut dyn FnMut(&'e $($m)? Expr<Q>)) {
            match & $($m)? e.kind {
                ExprKind::Const(_)
                | ExprKind::Param(_)
                | ExprKind::Column { .. }
                | ExprKind::Group(_)
                | ExprKind::GroupOuter { .. }
                | ExprKind::Aggregate { .. }
                | ExprKind::Window { .. }
                | ExprKind::Scalar(_)
                | ExprKind::Exists { .. } => {}
                ExprKind::Call { args, .. }
                | ExprKind::And(args)
                | ExprKind::Or(args)
                | ExprKind::Coalesce(args)
                | ExprKind::Greatest(args)
                | ExprKind::Least(args)
                | ExprKind::Quantified { left: args, .. } => args.$iter().for_each(f),
                ExprKind::Cast { arg, .. }
                | ExprKind::Not(arg)
                | ExprKind::IsNull { arg, .. }
                | ExprKind::BoolTest { arg, .. } => f(arg),
                ExprKind::Distinct { left, right, .. } | ExprKind::NullIf { left, right, .. } => {
                    f(left);
                    f(right);
                }
                ExprKind::Case { whens, otherwise } => {
                    for (when, then) in whens.$iter() {
                        f(when);
                        f(then);
                    }
                    if let Some(e) = otherwise {
                        f(e);
                    }
                }
                ExprKind::InList { arg, list, .. } => {
                    f(arg);
                    list.$iter().for_each(f);
                }
            }
        }

        /// The subquery that an expression asks.
        pub fn $inner_fn<Q>(e: & $($m)? Expr<Q>) -> Option<& $($m)? Q> {
            match & $($m)? e.kind {
                ExprKind::Scalar(query)
                | ExprKind::Exists { query, .. }
                | ExprKind::Quantified { query, .. } => Some(query),
                _ => None,
            }
        }

        /// Visits all expressions of a query that stands at `level`, those of its subqueries included.
        pub fn $query_fn(q: & $($m)? Query, level: u16, f: &mut dyn FnMut(& $($m)? Expr, u16) -> bool) {
            for with in q.with.$iter() {
                $query_fn(& $($m)? with.query, level, f);
            }
            $own_fn(q, &mut |e| $expr_fn(e, level, f));
            for entry in q.rels.$iter() {
                if let Rel::Query(inner) = & $($m)? entry.rel {
                    $query_fn(inner, level + 1, f);
                }
            }
            if let Some(set) = q.set.$deref() {
                $query_fn(& $($m)? set.left, level + 1, f);
                $query_fn(& $($m)? set.right, level + 1, f);
            }
        }

        /// Gives the expressions that stand in the query itself, none from below them.
        pub fn $own_fn(q: & $($m)? Query, f: &mut dyn FnMut(& $($m)? Expr)) {
            for entry in q.rels.$iter() {
                match & $($m)? entry.rel {
                    Rel::Table(_)
                    | Rel::Foreign(_)
                    | Rel::System(_)
                    | Rel::Sequence(..)
                    | Rel::Query(_)
                    | Rel::With(_) => {}
                    Rel::Values(rows) => rows.$iter().flat_map(|r| r.$iter()).for_each(&mut *f),
                    Rel::Function { args, .. } => args.$iter().for_each(&mut *f),
                    Rel::Places { values, stop } => {
                        values.$iter().for_each(&mut *f);
                        f(stop);
                    }
                    Rel::Series { start, stop, step, by } => {
                        f(start);
                        f(stop);
                        f(step);
                        if let Some(by) = by {
                            f(& $($m)? by.step);
                        }
                    }
                }
            }
            for from in q.from.$iter() {
                $from_fn(from, f);
            }
            for aggregate in q.aggregates.$iter() {
                let keys = aggregate.order.$iter().map(|k| & $($m)? k.expr);
                aggregate.args.$iter().chain(aggregate.filter.$as_ref()).chain(keys).for_each(&mut *f);
            }
            q.windows.$iter().for_each(|w| w.$exprs().for_each(&mut *f));
            q.window_calls.$iter().for_each(|c| c.$exprs().for_each(&mut *f));
            (q.filter.$as_ref().into_iter())
                .chain(q.group_by.$iter())
                .chain(q.having.$as_ref())
                .chain(q.targets.$iter().map(|t| & $($m)? t.expr))
                .chain(q.limit.$as_ref())
                .chain(q.offset.$as_ref())
                .for_each(&mut *f);
        }

        fn $from_fn(from: & $($m)? From, f: &mut dyn FnMut(& $($m)? Expr)) {
            if let From::Join { left, right, on, .. } = from {
                $from_fn(left, f);
                $from_fn(right, f);
                if let Some(on) = on {
                    f(on);
                }
            }
        }
    };
}
walkers!(
    walk_expr,
    children,
    inner_query,
    walk_query,
    own_exprs,
    walk_from,
    iter,
    as_ref,
    as_deref,
    exprs,
    []
);
walkers!(walk_expr_mut, children_mut, inner_query_mut, walk_query_mut, own_exprs_mut, walk_from_mut, iter_mut, as_mut, as_deref_mut, exprs_mut, [mut]);

/// Visits a query and all queries within it, outer ones first.
pub fn each_query(q: &Query, f: &mut dyn FnMut(&Query)) {
    f(q);
    q.with.iter().for_each(|w| each_query(&w.query, f));
    for r in &q.rels {
        if let Rel::Query(inner) = &r.rel {
            each_query(inner, f);
        }
    }
    if let Some(set) = &q.set {
        each_query(&set.left, f);
        each_query(&set.right, f);
    }
    own_exprs(q, &mut |e| each_query_in(e, f));
}

/// Visits all queries within an expression.
pub fn each_query_in(e: &Expr, f: &mut dyn FnMut(&Query)) {
    walk_expr(e, 0, &mut |e, _| match &e.kind {
        ExprKind::Scalar(inner) | ExprKind::Exists { query: inner, .. } => {
            each_query(inner, f);
            false
        }
        ExprKind::Quantified { left, query, .. } => {
            for e in left {
                each_query_in(e, f);
            }
            each_query(query, f);
            false
        }
        _ => true,
    });
}

/// What can stand for a query within an expression.
pub trait Inner: Sized {
    /// Whether it calls a function of at least this volatility.
    fn calls(&self, volatility: Volatility) -> bool;
}

impl Inner for Query {
    fn calls(&self, volatility: Volatility) -> bool {
        let mut found = false;
        each_query(self, &mut |q| {
            found |= q.rels.iter().any(|r| match &r.rel {
                Rel::Function { function, .. } => function.volatility >= volatility,
                _ => false,
            });
        });
        walk_query(self, 0, &mut |e, _| {
            found = found || e.is_call_of(volatility);
            !found
        });
        found
    }
}

impl<Q> Expr<Q> {
    /// Whether it is itself a call of a function of at least this volatility.
    fn is_call_of(&self, volatility: Volatility) -> bool {
        let ExprKind::Call { func, .. } = self.kind else { return false };
        find(func).is_some_and(|d| d.volatility >= volatility)
    }
    /// Without the casts that change the type's name and nothing of the value that counts in a key: varchar,
    /// char(n) and text without a length have the same. What an index is on may be under such casts.
    pub fn unrelabelled(&self) -> &Expr<Q> {
        match &self.kind {
            ExprKind::Cast { arg, .. }
                if self.ty.typmod == -1
                    && self.ty.id.is_string()
                    && arg.ty.id.is_string()
                    // Trailing blanks do not count in bpchar.
                    && (self.ty.id != TypeId::BPCHAR || arg.ty.id == TypeId::BPCHAR) =>
            {
                arg.unrelabelled()
            }
            _ => self,
        }
    }
}

impl<Q: Inner> Expr<Q> {
    /// Whether the expression itself or one below it calls a function of at least this volatility.
    pub fn calls(&self, volatility: Volatility) -> bool {
        let mut found = self.is_call_of(volatility) || inner_query(self).is_some_and(|q| q.calls(volatility));
        children(self, &mut |e| found = found || e.calls(volatility));
        found
    }
}

impl<Q> ExprKind<Q> {
    /// The same over other expressions and queries: what `expr` and `query` make of those right below.
    pub fn try_map<'e, R>(
        &'e self,
        expr: &mut dyn FnMut(&'e Expr<Q>) -> SqlResult<Expr<R>>,
        query: &mut dyn FnMut(&'e Q) -> SqlResult<R>,
    ) -> SqlResult<ExprKind<R>> {
        type List<R> = SqlResult<Vec<Expr<R>>>;
        macro_rules! one {
            ($e:expr) => {
                Box::new(expr($e)?)
            };
        }
        macro_rules! all {
            ($l:expr) => {
                $l.iter().map(&mut *expr).collect::<List<R>>()?
            };
        }
        Ok(match self {
            ExprKind::Const(v) => ExprKind::Const(v.clone()),
            ExprKind::Param(n) => ExprKind::Param(*n),
            &ExprKind::Column { depth, rel, column } => ExprKind::Column { depth, rel, column },
            ExprKind::Group(n) => ExprKind::Group(*n),
            &ExprKind::GroupOuter { depth, index } => ExprKind::GroupOuter { depth, index },
            &ExprKind::Aggregate { depth, index } => ExprKind::Aggregate { depth, index },
            &ExprKind::Window { depth, index } => ExprKind::Window { depth, index },
            ExprKind::Call { func, args } => ExprKind::Call { func: *func, args: all!(args) },
            ExprKind::Cast { arg, explicit } => ExprKind::Cast { arg: one!(arg), explicit: *explicit },
            ExprKind::And(l) => ExprKind::And(all!(l)),
            ExprKind::Or(l) => ExprKind::Or(all!(l)),
            ExprKind::Not(a) => ExprKind::Not(one!(a)),
            ExprKind::IsNull { arg, negated } => ExprKind::IsNull { arg: one!(arg), negated: *negated },
            ExprKind::BoolTest { arg, want, negated } => {
                ExprKind::BoolTest { arg: one!(arg), want: *want, negated: *negated }
            }
            ExprKind::Distinct { left, right, eq, negated } => {
                ExprKind::Distinct { left: one!(left), right: one!(right), eq: *eq, negated: *negated }
            }
            ExprKind::Case { whens, otherwise } => ExprKind::Case {
                whens: whens.iter().map(|(w, t)| Ok((expr(w)?, expr(t)?))).collect::<SqlResult<_>>()?,
                otherwise: match otherwise {
                    Some(e) => Some(one!(e)),
                    None => None,
                },
            },
            ExprKind::Coalesce(l) => ExprKind::Coalesce(all!(l)),
            ExprKind::NullIf { left, right, eq } => {
                ExprKind::NullIf { left: one!(left), right: one!(right), eq: *eq }
            }
            ExprKind::Greatest(l) => ExprKind::Greatest(all!(l)),
            ExprKind::Least(l) => ExprKind::Least(all!(l)),
            ExprKind::InList { arg, list, eq, negated } => {
                ExprKind::InList { arg: one!(arg), list: all!(list), eq: *eq, negated: *negated }
            }
            ExprKind::Scalar(q) => ExprKind::Scalar(Box::new(query(q)?)),
            ExprKind::Exists { query: q, negated } => {
                ExprKind::Exists { query: Box::new(query(q)?), negated: *negated }
            }
            ExprKind::Quantified { left, query: q, ops, all } => ExprKind::Quantified {
                left: all!(left),
                query: Box::new(query(q)?),
                ops: ops.clone(),
                all: *all,
            },
        })
    }
}

impl Query {
    /// The columns of the result.
    pub fn columns(&self) -> Vec<(String, Type)> {
        self.visible().map(|t| (t.name.clone(), t.expr.ty)).collect()
    }
    /// The column of a table or a view that the target is, and nothing else; `around` has what WITH names
    /// around the query.
    fn origin(&self, target: &Expr, around: &[&With]) -> Option<Origin> {
        let (rel, column) = match target.kind {
            ExprKind::Column { depth: 0, rel, column } => (rel, column),
            ExprKind::Group(n) => return self.origin(self.group_by.get(usize::from(n))?, around),
            _ => return None,
        };
        let inner = match &self.rels.get(usize::from(rel))?.rel {
            Rel::Table(t) if column != CTID => return Some(Origin { relation: t.def.id, column }),
            Rel::Query(q) => match q.of_view {
                Some(Viewed::View(relation)) => return Some(Origin { relation, column }),
                _ => q,
            },
            Rel::With(n) => &self.with.iter().chain(around.iter().copied()).find(|w| w.number == *n)?.query,
            _ => return None,
        };
        let around: Vec<&With> = self.with.iter().chain(around.iter().copied()).collect();
        inner.origin(&inner.visible().nth(column.into())?.expr, &around)
    }
    /// The targets that are part of the result.
    pub fn visible(&self) -> impl Iterator<Item = &Target> {
        self.targets.iter().filter(|t| !t.hidden)
    }
}

impl Statement {
    /// The columns of the rows that the statement answers with; empty when it answers with none.
    pub fn columns(&self) -> Vec<(String, Type)> {
        let targets = |t: &[Target]| t.iter().map(|t| (t.name.clone(), t.expr.ty)).collect();
        match self {
            Statement::Query(q) => q.columns(),
            Statement::Insert(i) => targets(&i.returning),
            Statement::Modify(m) => targets(&m.returning),
            Statement::Explain { .. } => vec![("QUERY PLAN".into(), Type::TEXT)],
            Statement::Show(name) if name == "all" => {
                ["name", "setting", "description"].map(|n| (n.to_string(), Type::TEXT)).to_vec()
            }
            Statement::Show(name) => vec![(name.clone(), Type::TEXT)],
            _ => Vec::new(),
        }
    }

    /// Where the result's columns come from, each by its place: what PostgreSQL tells clients of them.
    pub fn origins(&self) -> Vec<Option<Origin>> {
        let targets = |q: &Query, t: &[Target]| t.iter().map(|t| q.origin(&t.expr, &[])).collect();
        match self {
            Statement::Query(q) => q.visible().map(|t| q.origin(&t.expr, &[])).collect(),
            Statement::Modify(m) => targets(&m.query, &m.returning),
            Statement::Insert(i) => {
                let own = |t: &Target| match t.expr.kind {
                    ExprKind::Column { depth: 0, rel: 0, column } if column != CTID => {
                        Some(Origin { relation: i.table.0.def.id, column })
                    }
                    _ => None,
                };
                i.returning.iter().map(own).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The queries that stand in the statement itself.
    fn queries(&self) -> Vec<&Query> {
        match self {
            Statement::Query(q) | Statement::Copy(Copy::To { query: q, .. }) => vec![q],
            Statement::Insert(i) => {
                let update = i.on_conflict.as_ref().and_then(|c| c.update.as_ref());
                std::iter::once(&i.source).chain(update.map(|u| &u.query)).collect()
            }
            Statement::CreateTableAs { query, .. } | Statement::Declare(Declare { query, .. }) => vec![query],
            Statement::Modify(m) => vec![&m.query],
            Statement::Refresh { rows: Some(rows), .. } => vec![&rows.1],
            Statement::Explain { statement, .. } => statement.queries(),
            _ => Vec::new(),
        }
    }

    /// The expressions that stand in the statement beside its queries.
    fn exprs(&self) -> Vec<&Expr> {
        match self {
            Statement::Insert(i) => (i.columns.iter())
                .filter_map(|c| match c {
                    InsertColumn::Value(e) => Some(e),
                    InsertColumn::Source(_) => None,
                })
                .chain(i.checks.iter().map(|c| &c.condition))
                .chain(i.returning.iter().map(|t| &t.expr))
                .collect(),
            Statement::Modify(m) => {
                let checks = m.checks.iter().map(|c| &c.condition);
                checks.chain(m.returning.iter().map(|t| &t.expr)).collect()
            }
            Statement::Copy(Copy::From { defaults, .. }) => defaults.iter().map(|d| &d.1).collect(),
            Statement::Execute { args, .. } => args.iter().collect(),
            Statement::Explain { statement, .. } => statement.exprs(),
            _ => Vec::new(),
        }
    }

    /// Visits all expressions of the statement, to change them.
    pub fn walk_mut(&mut self, f: &mut dyn FnMut(&mut Expr, u16) -> bool) {
        match self {
            Statement::Query(q)
            | Statement::CreateTableAs { query: q, .. }
            | Statement::Declare(Declare { query: q, .. })
            | Statement::Copy(Copy::To { query: q, .. }) => walk_query_mut(q, 0, f),
            Statement::Refresh { rows: Some(rows), .. } => walk_query_mut(&mut rows.1, 0, f),
            Statement::Insert(i) => {
                walk_query_mut(&mut i.source, 0, f);
                for c in &mut i.columns {
                    if let InsertColumn::Value(e) = c {
                        walk_expr_mut(e, 0, f);
                    }
                }
                if let Some(update) = i.on_conflict.as_mut().and_then(|c| c.update.as_mut()) {
                    walk_query_mut(&mut update.query, 0, f);
                    update.checks.iter_mut().for_each(|c| walk_expr_mut(&mut c.condition, 0, f));
                }
                i.checks.iter_mut().for_each(|c| walk_expr_mut(&mut c.condition, 0, f));
                i.returning.iter_mut().for_each(|t| walk_expr_mut(&mut t.expr, 0, f));
            }
            Statement::Modify(m) => {
                walk_query_mut(&mut m.query, 0, f);
                m.checks.iter_mut().for_each(|c| walk_expr_mut(&mut c.condition, 0, f));
                m.returning.iter_mut().for_each(|t| walk_expr_mut(&mut t.expr, 0, f));
            }
            Statement::Copy(Copy::From { defaults, .. }) => {
                defaults.iter_mut().for_each(|d| walk_expr_mut(&mut d.1, 0, f));
            }
            Statement::Execute { args, .. } => args.iter_mut().for_each(|e| walk_expr_mut(e, 0, f)),
            Statement::Explain { statement, .. } => statement.walk_mut(f),
            _ => {}
        }
    }
}

impl Bound {
    /// The columns of the rows that the statement answers with; empty when it answers with none.
    pub fn columns(&self) -> Vec<(String, Type)> {
        self.statement.columns()
    }

    /// Visits all expressions of the statement.
    pub fn walk(&self, f: &mut dyn FnMut(&Expr, u16) -> bool) {
        for q in self.statement.queries() {
            walk_query(q, 0, f);
        }
        for e in self.statement.exprs() {
            walk_expr(e, 0, f);
        }
    }

    /// The tables that the statement reads or writes, each once. What registered queries use is theirs to
    /// tell.
    pub fn tables(&self) -> Vec<Arc<Table>> {
        let mut tables: Vec<Arc<Table>> = Vec::new();
        let mut add = |t: &Arc<Table>| {
            if !tables.iter().any(|o| Arc::ptr_eq(o, t)) {
                tables.push(t.clone());
            }
        };
        fn target(s: &Statement) -> Option<&Arc<Table>> {
            match s {
                Statement::Insert(Insert { table, .. })
                | Statement::Modify(Modify { table, .. })
                | Statement::Copy(Copy::From { table, .. }) => Some(&table.0),
                Statement::Explain { statement, .. } => target(statement),
                _ => None,
            }
        }
        if let Some(t) = target(&self.statement) {
            add(t);
        }
        let mut visit = |q: &Query| {
            for r in &q.rels {
                if let Rel::Table(t) = &r.rel {
                    add(t);
                }
            }
        };
        for q in self.statement.queries() {
            each_query(q, &mut visit);
        }
        for e in self.statement.exprs() {
            each_query_in(e, &mut visit);
        }
        tables
    }
}

/// Whether a computed value may be a constant of a plan: plans are kept, and charged to nobody, so that a
/// long value is made anew each time.
pub fn may_be_kept(v: &Value) -> bool {
    const LONGEST: usize = 4 << 10;
    match v {
        Value::Text(t) => t.len() <= LONGEST,
        Value::Bytea(b) => b.len() <= LONGEST,
        Value::Opaque(_, b) => b.len() <= LONGEST,
        _ => true,
    }
}
