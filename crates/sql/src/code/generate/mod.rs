//! Code generation: from a physical tree to a program.
//!
//! A plan node *produces* rows by calling back for the code that *consumes* one (Neumann, VLDB 2011): so
//! nested plan nodes become nested loops, and values stay in registers between them.
//!
//! - **G1** A consumer's code is emitted once, inside its producer's loop; `next` is where it goes to drop
//!   the row, and falling through means the same.
//! - **G2** A loop gives back the temporary memory of its last turn at each turn's start. What has to outlive
//!   a turn lives in a store, or in a register that needs no memory.
//! - **G3** Registers are handed out once and never reused, so that what is kept over turns needs no care.
//!   Long lists and chains of conditions take theirs from a scratch area, which is used again
//!   ([`Gen::in_passing`]).
//! - **G4** Relations are numbered over the statement (sql/plan/logical/Y1): where a relation's columns are
//!   at a point of the code, in whatever form (row buffer, registers, stored row), is written under its
//!   number by the operator that gives them.
mod aggregate;
mod expr;
mod join;
mod list;
mod lock;
mod modify;
mod recursion;
mod rows;
mod scan;
mod set;
mod sort;
mod subquery;
mod window;
mod with;

use super::op::Op;
use super::operand::*;
use super::program::*;
use super::stored::put_value;
use super::verify::MAX_REGISTERS;
use super::window::WindowDef;
use crate::plan::logical::{self, Expr, has_query};
use crate::plan::physical::{self, Node, Operator, Root, Subplan};
use ondol_engine::{FunctionDef, Table, Uses};
use ondol_types::limits::Limits;
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, sqlstate};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Finds the program of a registered query, so that its tables are announced with the statement's.
pub type FindFunction<'a> = &'a dyn Fn(&Arc<FunctionDef>) -> SqlResult<Arc<Program>>;

/// The form a rel's columns have at a point of the code.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// Not bound here.
    None,
    Table {
        cursor: u16,
    },
    /// Column c is at position `columns[c]` of the current row of a store.
    Stored {
        store: Stored,
        at: Vec<(u16, u16)>,
        row_id: Option<u16>,
    },
    /// Column c is in register `first + c`.
    Registers {
        first: u16,
    },
    /// A table's row with some columns changed: (column, register).
    Changed {
        cursor: u16,
        columns: Vec<(u16, u16)>,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Stored {
    Hash(Hash),
    Mat(Mat),
    Sort(Sort),
    Window(Win),
}

/// Where a relation is.
pub(super) struct Place<'a> {
    pub source: Source,
    /// A register that is true while the relation stands for a row of NULLs.
    pub null: Option<u16>,
    /// The register that has the `ctid` of a row whose columns are in registers.
    pub tid: Option<u16>,
    /// Columns to keep when it is stored.
    pub used: BTreeSet<u16>,
    /// Its row's identity must be kept as well.
    pub keep_row: bool,
    /// Of a table.
    pub table: Option<&'a Arc<Table>>,
}

/// A WITH query whose rows are kept.
pub(super) struct With<'a> {
    pub rows: &'a Subplan<'a>,
    list: Option<with::Kept>,
}

/// The code for one row: `next` is where to go to drop it.
pub(super) type Consume<'c, 'a> = &'c mut dyn FnMut(&mut Gen<'a>, Label) -> SqlResult<()>;

pub(super) struct Gen<'a> {
    pub ops: Vec<Op>,
    /// Instructions that turned out not to be needed.
    dead: Vec<bool>,
    labels: Vec<u32>,
    params: Vec<TypeId>,
    consts: Vec<Value>,
    /// The constants with registers, by their stored form.
    const_numbers: HashMap<Vec<u8>, u16>,
    pool: Vec<Value>,
    next_register: u16,
    /// Of the scratch area: the next, and the most that were handed out at a time.
    next_scratch: u16,
    scratch: u16,
    /// How many pieces of code in passing this is within.
    passing: u32,
    row_area: u32,
    tables: Vec<Arc<Table>>,
    cursors: Vec<CursorDef>,
    hashes: Vec<HashDef>,
    mats: Vec<u16>,
    sorts: Vec<SortDef>,
    groups: Vec<GroupDef>,
    windows: Vec<WindowDef>,
    casts: Vec<CastDef>,
    lists: Vec<Vec<u16>>,
    names: Vec<String>,
    functions: Vec<Arc<FunctionDef>>,
    foreigns: Vec<ForeignDef>,
    /// By the relation's number.
    places: Vec<Place<'a>>,
    relations: &'a [logical::Relation],
    queries: &'a [Subplan<'a>],
    /// By the numbers of WITH queries.
    with: Vec<With<'a>>,
    /// By the relations that their rows are known by: where the last turns of recursions have these.
    working: HashMap<u16, recursion::Working>,
    /// For a sort right below a limit: the rows left to give and to skip.
    limit: Option<(u16, Option<u16>)>,
    find_function: FindFunction<'a>,
    /// Looked at with each expression and each value of a list.
    pub limits: Limits<'a>,
    measure: bool,
    writes: bool,
    /// What functions do to rows of the tables.
    uses: Uses,
}

/// Makes a statement's program; with counters for EXPLAIN ANALYZE, if it is to be measured.
pub fn generate<'a>(
    statement: &'a physical::Statement<'a>,
    find_function: FindFunction<'a>,
    limits: Limits<'a>,
    measure: bool,
) -> SqlResult<Program> {
    let mut g = Gen {
        ops: Vec::new(),
        dead: Vec::new(),
        labels: Vec::new(),
        params: statement.params.to_vec(),
        consts: Vec::new(),
        const_numbers: HashMap::new(),
        pool: Vec::new(),
        next_register: statement.params.len().min(PARAM_REGISTERS) as u16,
        next_scratch: 0,
        scratch: 0,
        passing: 0,
        row_area: 0,
        tables: Vec::new(),
        cursors: Vec::new(),
        hashes: Vec::new(),
        mats: Vec::new(),
        sorts: Vec::new(),
        groups: Vec::new(),
        windows: Vec::new(),
        casts: Vec::new(),
        lists: Vec::new(),
        names: Vec::new(),
        functions: Vec::new(),
        foreigns: Vec::new(),
        places: places(statement),
        relations: statement.relations,
        queries: &statement.queries,
        with: statement.with.iter().map(|(_, rows)| With { rows, list: None }).collect(),
        working: HashMap::new(),
        limit: None,
        find_function,
        limits,
        measure,
        writes: false,
        uses: Uses::READS,
    };
    let tag = match &statement.root {
        Root::Rows(rows) => {
            g.statement_rows(rows)?;
            Tag::Select
        }
        Root::Insert { .. } => {
            g.insert(&statement.root)?;
            Tag::Insert
        }
        Root::Modify { assign, .. } => {
            g.modify(&statement.root)?;
            if assign.is_some() { Tag::Update } else { Tag::Delete }
        }
    };
    g.op(Op::Halt {});
    let tallies = if measure { 2 * statement.nodes as usize } else { 0 };
    g.finish(tag, statement, tallies)
}

/// What is known of the relations before any code is there.
fn places<'a>(statement: &'a physical::Statement<'a>) -> Vec<Place<'a>> {
    let mut places: Vec<Place<'a>> = (statement.used_columns().into_iter())
        .map(|used| Place { source: Source::None, null: None, tid: None, used, keep_row: false, table: None })
        .collect();
    let mut look = |n: &'a Node<'a>| {
        if let Operator::Scan { rel, source: logical::Source::Table(t), .. } = &n.operator
            && let Some(p) = places.get_mut(*rel as usize)
        {
            p.table = Some(t);
        }
    };
    statement.each_node(&mut look);
    let mut keep = |rel: u16| {
        if let Some(p) = places.get_mut(rel as usize) {
            p.keep_row = p.table.is_some();
        }
    };
    statement.each_node(&mut |n| match &n.operator {
        Operator::Lock { locks, .. } => locks.iter().flat_map(|l| &l.rels).for_each(|r| keep(*r)),
        Operator::Sort { input, by_identity: true, .. } => input.rels().into_iter().for_each(&mut keep),
        _ => {}
    });
    if let Root::Modify { rel, .. } = &statement.root {
        keep(*rel);
    }
    places
}

/// Too many are found out in `finish`.
fn slot(n: u32) -> Slot {
    Slot(u16::try_from(n).unwrap_or(u16::MAX))
}

impl<'a> Gen<'a> {
    /// A register of its own.
    pub fn register(&mut self) -> u16 {
        self.registers(1)
    }
    pub fn registers(&mut self, n: usize) -> u16 {
        let n = u16::try_from(n).unwrap_or(u16::MAX);
        // Running out is found out in `finish`.
        if self.passing > 0 {
            let first = self.next_scratch;
            self.next_scratch = first.saturating_add(n);
            self.scratch = self.scratch.max(self.next_scratch);
            return SCRATCH | first;
        }
        let first = self.next_register;
        self.next_register = first.saturating_add(n);
        first
    }
    /// A register that keeps its value, wherever the code stands.
    pub fn lasting(&mut self) -> u16 {
        let passing = std::mem::take(&mut self.passing);
        let r = self.register();
        self.passing = passing;
        r
    }
    /// Code that computes these expressions and leaves no value in a register of its own (G3). Subqueries
    /// keep some: code with one gets registers as any other.
    pub fn in_passing<'e, T>(
        &mut self,
        exprs: impl IntoIterator<Item = &'e Expr>,
        code: impl FnOnce(&mut Gen<'a>) -> SqlResult<T>,
    ) -> SqlResult<T> {
        if self.passing == 0 && exprs.into_iter().any(has_query) {
            return code(self);
        }
        let next = self.next_scratch;
        self.passing += 1;
        let done = code(self);
        self.passing -= 1;
        self.next_scratch = next;
        done
    }
    /// Runs `code` at its first turn in an execution only.
    pub fn once(&mut self, code: &mut dyn FnMut(&mut Gen<'a>) -> SqlResult<()>) -> SqlResult<()> {
        let done = self.lasting();
        let skip = self.label();
        self.op(Op::Once { done: State(Span::new(done, 1)), to: skip });
        code(self)?;
        self.here(skip);
        Ok(())
    }
    pub fn op(&mut self, op: Op) {
        self.ops.push(op);
        self.dead.push(false)
    }
    pub fn label(&mut self) -> Label {
        self.labels.push(u32::MAX);
        Label(self.labels.len() as u32 - 1)
    }
    /// The label is here.
    pub fn here(&mut self, label: Label) {
        self.labels[label.0 as usize] = self.ops.len() as u32
    }
    pub fn jump(&mut self, to: Label) {
        self.op(Op::Jump { to })
    }
    /// A register with a constant: its own, or, of a statement of very many, one that it is loaded into here.
    pub fn constant(&mut self, v: &Value) -> u16 {
        let mut form = Vec::new();
        put_value(&mut form, v);
        let n = match self.const_numbers.get(&form) {
            Some(n) => *n,
            None if self.consts.len() < CONST_REGISTERS => {
                let n = self.consts.len() as u16;
                self.const_numbers.insert(form, n);
                self.consts.push(v.clone());
                n
            }
            None => {
                let (from, dst) = (self.pooled([v.clone()]), self.register());
                self.op(Op::Load { dst: Out(dst), from });
                return dst;
            }
        };
        CONST | n
    }
    /// Puts values into the pool, side by side.
    pub fn pooled(&mut self, values: impl IntoIterator<Item = Value>) -> Pool {
        let from = Pool(self.pool.len() as u32);
        self.pool.extend(values);
        from
    }
    pub fn place(&mut self, rel: u16) -> SqlResult<&mut Place<'a>> {
        self.places.get_mut(rel as usize).ok_or_else(|| internal("a relation that is nowhere"))
    }
    /// The relation's columns are there from here on.
    pub fn put(&mut self, rel: u16, source: Source) -> SqlResult<()> {
        self.place(rel)?.source = source;
        Ok(())
    }
    pub fn table(&mut self, table: &Arc<Table>) -> u16 {
        let n = self.tables.iter().position(|t| Arc::ptr_eq(t, table)).unwrap_or_else(|| {
            self.tables.push(table.clone());
            self.tables.len() - 1
        });
        n as u16
    }
    pub fn cursor(&mut self, table: &Arc<Table>, index: Option<usize>) -> Cur {
        let t = self.table(table);
        self.cursors.push(CursorDef { table: t, index: index.map(|i| i as u16), row_at: self.row_area });
        self.row_area += table.layout.row_size as u32;
        Cur(self.cursors.len() as u16 - 1)
    }
    pub fn cursor_table(&self, cursor: u16) -> &Arc<Table> {
        &self.tables[self.cursors[cursor as usize].table as usize]
    }
    pub fn row_at(&self, cursor: u16) -> u32 {
        self.cursors[cursor as usize].row_at
    }
    pub fn hash(&mut self, keys: usize, width: usize) -> Hash {
        self.hashes.push(HashDef { width: width as u16, keys: keys as u16 });
        Hash(self.hashes.len() as u16 - 1)
    }
    pub fn mat(&mut self, width: usize) -> Mat {
        self.mats.push(width as u16);
        Mat(self.mats.len() as u16 - 1)
    }
    pub fn new_sort(&mut self, width: usize, keys: Vec<SortKey>) -> Sort {
        self.sorts.push(SortDef { width: width as u16, keys });
        Sort(self.sorts.len() as u16 - 1)
    }
    pub fn group(&mut self, def: GroupDef) -> Group {
        self.groups.push(def);
        Group(self.groups.len() as u16 - 1)
    }
    pub fn new_window(&mut self, def: WindowDef) -> Win {
        self.windows.push(def);
        Win(self.windows.len() as u16 - 1)
    }
    pub fn cast_of(&mut self, from: TypeId, to: Type, explicit: bool) -> Conv {
        let def = CastDef { from, to, explicit };
        let n = self.casts.iter().position(|c| *c == def).unwrap_or_else(|| {
            self.casts.push(def);
            self.casts.len() - 1
        });
        Conv(n as u16)
    }
    pub fn list(&mut self, list: Vec<u16>) -> List {
        self.lists.push(list);
        List(self.lists.len() as u16 - 1)
    }
    pub fn name(&mut self, name: &str) -> Name {
        self.names.push(name.to_string());
        Name(self.names.len() as u16 - 1)
    }
    /// Announces a registered query's tables along with the statement's own.
    pub fn function(&mut self, f: &Arc<FunctionDef>) -> SqlResult<Fun> {
        let program = (self.find_function)(f)?;
        for (n, t) in program.tables.iter().enumerate() {
            let (changes, locks) = program.uses.at(n);
            let n = self.table(t) as usize;
            if changes {
                self.uses = self.uses.and(n, true)
            }
            if locks {
                self.uses = self.uses.and(n, false)
            }
        }
        self.writes |= program.writes;
        self.functions.push(f.clone());
        Ok(Fun(self.functions.len() as u16 - 1))
    }
    pub fn write(&mut self) {
        self.writes = true
    }

    /// Begins the turn of a loop: what comes before is outside, what comes until [`Gen::end_turn`] may use
    /// temporaries freely (G2). `mark` was made by [`Gen::mark`] before the loop.
    pub fn mark(&mut self) -> (u16, usize) {
        let r = self.register();
        self.op(Op::Mark { dst: Out(r) });
        (r, self.ops.len() - 1)
    }
    pub fn reset(&mut self, mark: (u16, usize)) -> usize {
        self.op(Op::Reset { mark: Reg(mark.0) });
        self.ops.len() - 1
    }
    /// Ends the loop whose turns begin at `reset`: without any use of temporaries, marking was for nothing.
    pub fn end_turns(&mut self, mark: (u16, usize), reset: usize) {
        let from = reset + 1;
        let uses =
            self.ops[from..].iter().zip(&self.dead[from..]).any(|(op, dead)| !dead && takes_memory(op));
        if !uses {
            self.dead[mark.1] = true;
            self.dead[reset] = true;
        }
    }

    /// Counts a start of the node, under EXPLAIN ANALYZE.
    pub fn tally_start(&mut self, node: u32) {
        self.tally(2 * node)
    }
    /// Counts a row of the node, under EXPLAIN ANALYZE.
    pub fn tally_row(&mut self, node: u32) {
        self.tally(2 * node + 1)
    }
    /// Counts the nodes that were looked at for a node's rows, under EXPLAIN ANALYZE.
    pub fn tally_nodes(&mut self, node: u32, cursor: Cur) {
        if self.measure {
            self.op(Op::TallyNodes { cursor, slot: slot(2 * node + 2) })
        }
    }
    /// Counts a row of an index, before it is looked at again, or after, under EXPLAIN ANALYZE.
    pub fn tally_met(&mut self, node: u32, is_right: bool) {
        self.tally(2 * node + if is_right { 4 } else { 3 })
    }
    fn tally(&mut self, at: u32) {
        if self.measure {
            self.op(Op::Tally { slot: slot(at) })
        }
    }

    fn finish(mut self, tag: Tag, statement: &physical::Statement<'_>, tallies: usize) -> SqlResult<Program> {
        let registers = self.next_register as usize + self.consts.len() + self.scratch as usize;
        let numbers = [
            self.tables.len(),
            self.cursors.len(),
            self.hashes.len(),
            self.mats.len(),
            self.sorts.len(),
            self.groups.len(),
            self.windows.len(),
            self.casts.len(),
            self.lists.len(),
            self.names.len(),
            self.functions.len(),
            self.foreigns.len(),
            tallies,
        ];
        if registers > MAX_REGISTERS as usize
            || self.next_register.max(self.scratch) >= SCRATCH - 1
            || numbers.iter().any(|n| *n > u16::MAX as usize)
        {
            return Err(SqlError::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, "the statement is too complex")
                .detail(format!("It needs more than {MAX_REGISTERS} registers.")));
        }
        // Dead instructions go, and labels move up with what follows them.
        let mut moved = Vec::with_capacity(self.ops.len() + 1);
        let mut at = 0u32;
        for d in &self.dead {
            moved.push(at);
            at += u32::from(!d);
        }
        moved.push(at);
        for l in &mut self.labels {
            *l = match moved.get(*l as usize) {
                Some(to) => *to,
                None => return Err(internal("a label that is nowhere")),
            };
        }
        let relocation = Relocation {
            labels: &self.labels,
            first_const: self.params.len().min(PARAM_REGISTERS) as u16,
            consts: self.consts.len() as u16,
            first_scratch: self.next_register + self.consts.len() as u16,
        };
        let mut ops = Vec::with_capacity(at as usize);
        for (op, dead) in self.ops.iter().zip(&self.dead) {
            if !dead {
                let mut op = *op;
                op.relocate(&relocation);
                ops.push(op);
            }
        }
        if let [
            Op::Point { cursor, values, to: Label(3) },
            Op::EmitRow { cursor: same },
            Op::Twin { .. },
            Op::Halt {},
        ] = ops[..]
            && cursor == same
        {
            ops = vec![Op::PointRow { cursor, values }, Op::Halt {}];
        }
        let fixed = relocation.first_const + relocation.consts;
        if let Some(short) = modify::point_update(&ops, &self.tables, &self.cursors, &self.lists, fixed) {
            ops = short
        }
        let uses = match self.uses.or(uses_of(&ops, &self.cursors)) {
            Uses::READS if self.writes => Uses::CHANGES,
            uses => uses,
        };
        let program = Program {
            ops,
            registers: registers as u16,
            params: self.params,
            consts: self.consts,
            pool: self.pool,
            row_area: self.row_area,
            tables: self.tables,
            cursors: self.cursors,
            hashes: self.hashes,
            mats: self.mats,
            sorts: self.sorts,
            groups: self.groups,
            windows: self.windows,
            casts: self.casts,
            lists: self.lists,
            names: self.names,
            functions: self.functions,
            foreigns: self.foreigns,
            tallies: tallies as u16,
            columns: statement.columns.to_vec(),
            tag,
            writes: self.writes,
            uses,
            catalog_version: statement.catalog_version,
            needs: Vec::new(),
            plan: None,
        };
        super::verify::verify(&program).map_err(|e| internal(&format!("generated code is wrong: {e}")))?;
        Ok(program)
    }
}

/// Whether an instruction may append to temporary memory.
fn takes_memory(op: &Op) -> bool {
    matches!(
        op,
        Op::Call { .. }
            | Op::CallConnection { .. }
            | Op::Cast { .. }
            | Op::ColText { .. }
            | Op::ColBytea { .. }
            | Op::ColOpaque { .. }
            | Op::ColNumeric { .. }
            | Op::ColChar { .. }
            | Op::RowTid { .. }
            | Op::NewTid { .. }
            | Op::ColLater { .. }
            | Op::HashCol { .. }
            | Op::MatCol { .. }
            | Op::SortCol { .. }
            | Op::GroupCol { .. }
            | Op::AggValue { .. }
            | Op::WindowCol { .. }
            | Op::WindowValue { .. }
            | Op::ForeignNext { .. }
            | Op::Reset { .. }
            | Op::Gosub { .. }
    )
}

#[cold]
pub(super) fn internal(message: &str) -> SqlError {
    SqlError::new(sqlstate::INTERNAL_ERROR, message)
}
