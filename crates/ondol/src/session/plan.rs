//! A compiled statement, with all that is worked out once for its runs.
//!
//! - **1** It holds what the text, its parameters' types and the dictionary say, and nothing of a session.
//!   Whatever else binding, planning or [`Plan::new`] comes to look at belongs to the key of
//!   `session::plans`.
//! - **2** A clone shares the byte code and the columns. Running it writes to neither's counter, but when a
//!   frame is loaded or a result's columns change.
use crate::session::rows::Column;
use ondol_engine::{Catalog, Charge, Path, Table};
use ondol_sql::bound::{Bound, Origin};
use ondol_sql::code::{Op, Program};
#[cfg(feature = "server")]
use ondol_sql::interpret;
use ondol_sql::interpret::{Parted, PointRead, PointUpdate};
use ondol_types::catalog::registered;
use ondol_types::{SqlResult, TypeId, func, limits};
use std::sync::Arc;

/// Bytes of a plan that is long.
const LONG: usize = 1 << 20;

/// A compiled statement.
#[derive(Clone)]
pub(crate) struct Plan {
    pub program: Arc<Program>,
    pub columns: Arc<[Column]>,
    /// It calls nothing that could ask for the time.
    pub timeless: bool,
    /// It asks the session for views, functions or settings.
    pub asks_host: bool,
    /// Its functions and conversions may ask for objects by name or number.
    pub asks_catalog: bool,
    /// Its short way, if it has one.
    pub point: Option<PointRead>,
    pub update: Option<PointUpdate>,
    /// It looks rows up by their keys and gives them ([`interpret::is_look_up`]).
    #[cfg(feature = "server")]
    pub is_look_up: bool,
    /// It is not as good for parameters as it would be for constants (literals/E3).
    pub wants_constants: bool,
    /// It is not to be kept: the statement is bound each time.
    pub once: bool,
    /// How its table is read in parts, if it can be.
    #[cfg_attr(not(feature = "scan"), expect(dead_code))]
    pub parted: Option<Parted>,
    /// About how many bytes it takes.
    pub bytes: usize,
    /// About how many rows its tables had when it was made.
    sizes: Box<[u64]>,
    /// Its bytes, if it is not short, while there is the plan or a clone.
    charge: Option<Arc<Charge>>,
}

impl Plan {
    pub fn new(program: Program) -> Plan {
        let calls = program
            .ops
            .iter()
            .any(|op| matches!(op, Op::Call { .. } | Op::Cast { .. } | Op::SeriesAdd { .. }));
        // What foreign keys do to other rows may call functions.
        let timeless = !(calls || program.writes && program.tables.iter().any(|t| !t.references.is_empty()));
        let asks_caller = program.ops.iter().any(|op| match op {
            Op::Call { func, .. } => func::find(*func).is_some_and(|f| f.asks),
            _ => false,
        });
        let asks_host = asks_caller
            || !program.functions.is_empty()
            || (program.ops.iter()).any(|op| matches!(op, Op::SystemRows { .. } | Op::SystemRowsOf { .. }));
        let names = |t: TypeId| registered::kind(t.element().unwrap_or(t)).is_some();
        let asks_catalog = !program.functions.is_empty()
            || program.casts.iter().any(|c| names(c.to.id) || names(c.from))
            || program.ops.iter().any(|op| matches!(op, Op::Call { func, .. } if func::system::asks(*func)));
        let columns = program.columns.iter().map(|(name, ty)| Column::new(name.clone(), *ty)).collect();
        let (point, update) = (PointRead::of(&program), PointUpdate::of(&program));
        // Whoever reads a part knows nothing of the session and the catalog.
        let parted = Parted::of(&program).filter(|_| !asks_caller && !asks_catalog);
        let bytes = program.bytes();
        #[cfg(feature = "server")]
        let is_look_up = interpret::is_look_up(&program);
        let sizes = program.tables.iter().map(|t| t.estimate_rows()).collect();
        let wants_constants = may_compare_constants(&program) || converts_in_loops(&program);
        let program = Arc::new(program);
        Plan {
            program,
            columns,
            timeless,
            asks_host,
            asks_catalog,
            point,
            update,
            #[cfg(feature = "server")]
            is_look_up,
            wants_constants,
            once: false,
            parted,
            bytes,
            sizes,
            charge: None,
        }
    }
    /// Its memory is worth to be given back.
    pub fn is_long(&self) -> bool {
        self.bytes > LONG
    }
    /// The same for another dictionary, in which all names but those of tables mean the same: if its tables
    /// are there as they were, and none stands before them in the path by which it was made. What asks the
    /// session is made anew: a table may stand before a view now.
    pub fn renewed(&self, catalog: &Catalog, path: Option<&Path>) -> Option<Plan> {
        if self.charge.is_some() || !self.can_be_renewed(catalog, path) {
            return None;
        }
        let program = Program { catalog_version: catalog.version, ..(*self.program).clone() };
        let (columns, sizes) = (self.columns.clone(), self.sizes.clone());
        Some(Plan { columns, sizes, ..Plan::new(program) })
    }
    /// Without a path: what it names is settled (engine/name/A5).
    pub fn can_be_renewed(&self, catalog: &Catalog, path: Option<&Path>) -> bool {
        let is_there = |t: &Arc<Table>| {
            catalog.table(t.def.full_name()).is_some_and(|n| Arc::ptr_eq(n, t))
                && path.is_none_or(|p| catalog.is_in_sight(p, t))
        };
        !self.asks_host && self.program.tables.iter().all(is_there)
    }
    /// One of its tables is of quite another size than when it was made, so another plan may be better.
    pub fn is_outgrown(&self) -> bool {
        // Where both are few, any plan will do; the planner takes them for more.
        const FEW: u64 = 1_000;
        let tables = self.program.tables.iter().zip(&self.sizes);
        tables
            .map(|(t, then)| (t.estimate_rows().max(FEW), (*then).max(FEW)))
            .any(|(now, then)| now / then >= 8 || then / now >= 8)
    }
    /// With where its result's columns come from.
    pub fn with_origins(mut self, origins: &[Option<Origin>]) -> Plan {
        if origins.iter().any(Option::is_some) {
            let of = |(c, origin): (&Column, &Option<Origin>)| Column { origin: *origin, ..c.clone() };
            self.columns = self.columns.iter().zip(origins).map(of).collect()
        }
        self
    }
    /// Counts against the memory limit from now on.
    pub fn charged(mut self, mut charge: Charge) -> SqlResult<Plan> {
        if self.bytes > limits::SMALL {
            charge.resize(self.bytes)?;
            self.charge = Some(Arc::new(charge));
        }
        Ok(self)
    }
}

/// One of the tables has an index on an expression, or on some of the rows: which of them are of use,
/// constants decide.
fn may_compare_constants(program: &Program) -> bool {
    program.tables.iter().any(|t| {
        let columns = &t.def.columns;
        t.indexes.iter().any(|i| i.def.all_columns().any(|c| columns[c].is_hidden()))
    })
}

/// It reads many rows, and converts a parameter, for each of them perhaps: of a constant that would have been
/// done once.
fn converts_in_loops(program: &Program) -> bool {
    let (ops, params) = (&program.ops, program.params.len());
    let is_loop = |op: &Op| matches!(op, Op::ScanNext { .. } | Op::RangeNext { .. });
    let converts = |op: &Op| match op {
        Op::Cast { a, .. } | Op::IntToFloat { a, .. } => usize::from(a.0) < params,
        _ => false,
    };
    ops.iter().any(is_loop) && ops.iter().any(converts)
}

/// A statement that can be run.
pub(crate) enum Ready {
    Plan(Arc<Plan>),
    /// One that is not compiled, with its parameters' types.
    Other(Box<Bound>),
    /// Blanks and comments.
    Empty,
}

impl Ready {
    pub fn params(&self) -> &[TypeId] {
        match self {
            Ready::Plan(p) => &p.program.params,
            Ready::Other(b) => &b.params,
            Ready::Empty => &[],
        }
    }
    pub fn plan(&self) -> Option<Arc<Plan>> {
        match self {
            Ready::Plan(p) => Some(p.clone()),
            _ => None,
        }
    }
}
