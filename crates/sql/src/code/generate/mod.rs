//! Code generation: from bound queries and their plans to a program.
//!
//! A plan node *produces* rows by calling back for the code that *consumes* one (Neumann, VLDB 2011): so nested plan nodes
//! become nested loops, and values stay in registers between them.
//!
//! - **G1** A consumer's code is emitted once, inside its producer's loop; `next` is where it goes to drop the row,
//!   and falling through means the same.
//! - **G2** A loop gives back the temporary memory of its last turn at each turn's start. What has to outlive a turn lives in a
//!   store, or in a register that needs no memory.
//! - **G3** Registers are handed out once and never reused, so that what is kept over turns needs no care. Long lists and chains of
//!   conditions take theirs from a scratch area, which is used again ([`Gen::in_passing`]).
//! - **G4** Scopes mirror query levels: `Column { depth, .. }` is looked up `depth` scopes out, in whatever form (row
//!   buffer, registers, stored row) the rel has at that point of the code.
mod expr;
mod join;
mod list;
mod lock;
mod modify;
mod query;
mod scan;
mod subquery;

use super::op::Op;
use super::operand::*;
use super::program::*;
use super::stored::put_value;
use super::verify::MAX_REGISTERS;
use crate::bound::*;
use ondol_engine::{FunctionDef, Table};
use ondol_types::limits::Limits;
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, sqlstate};
use std::collections::HashMap;
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
}

/// A query level while code for it is generated.
pub(super) struct Scope<'a> {
    pub query: Option<&'a Query>,
    pub sources: Vec<Source>,
    /// For each rel, a register that is true while the rel stands for a row of NULLs.
    pub nulls: Vec<Option<u16>>,
    /// Columns to keep when a rel is stored.
    pub used: Vec<std::collections::BTreeSet<u16>>,
    /// Rels whose row's identity must be kept as well.
    pub keep_row: super::super::plan::refs::RelSet,
    /// After grouping: first registers of the keys and of the aggregates' outcomes.
    pub groups: Option<(u16, u16)>,
    pub correlated: bool,
}

/// A node of the plan's tree as EXPLAIN shows it.
pub(super) struct TreeNode {
    text: String,
    details: Vec<String>,
    children: Vec<usize>,
    loops: Option<u16>,
    rows: Option<u16>,
}

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
    casts: Vec<CastDef>,
    lists: Vec<Vec<u16>>,
    names: Vec<String>,
    functions: Vec<Arc<FunctionDef>>,
    foreigns: Vec<ForeignDef>,
    tallies: u16,
    pub scopes: Vec<Scope<'a>>,
    find_function: FindFunction<'a>,
    /// Looked at with each expression and each value of a list.
    pub limits: Limits<'a>,
    measure: bool,
    writes: bool,
    tree: Vec<TreeNode>,
    subplans: usize,
}

/// Makes the program of a query, INSERT, UPDATE or DELETE.
pub fn generate(
    bound: &Bound,
    find_function: FindFunction<'_>,
    limits: Limits<'_>,
    measure: bool,
) -> SqlResult<Program> {
    let mut g = Gen {
        ops: Vec::new(),
        dead: Vec::new(),
        labels: Vec::new(),
        params: bound.params.clone(),
        consts: Vec::new(),
        const_numbers: HashMap::new(),
        pool: Vec::new(),
        next_register: bound.params.len().min(PARAM_REGISTERS) as u16,
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
        casts: Vec::new(),
        lists: Vec::new(),
        names: Vec::new(),
        functions: Vec::new(),
        foreigns: Vec::new(),
        tallies: 0,
        scopes: Vec::new(),
        find_function,
        limits,
        measure,
        writes: false,
        tree: Vec::new(),
        subplans: 0,
    };
    let statement = match &bound.statement {
        Statement::Explain { statement, .. } => statement,
        s => s,
    };
    let root = g.node(None, "Result");
    let (tag, columns) = match statement {
        Statement::Query(q) | Statement::Copy(Copy::To { query: q, .. }) => {
            g.statement_query(q, root)?;
            (Tag::Select, q.columns())
        }
        Statement::Insert(i) => {
            g.insert(i, root)?;
            (Tag::Insert, statement.columns())
        }
        Statement::Modify(m) => {
            g.modify(m, root)?;
            (if m.delete { Tag::Delete } else { Tag::Update }, statement.columns())
        }
        _ => {
            return Err(SqlError::new(
                sqlstate::INTERNAL_ERROR,
                "only queries and changes of rows have a plan",
            ));
        }
    };
    g.op(Op::Halt {});
    g.finish(root, tag, columns, bound.catalog_version)
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
    /// Code that computes these expressions and leaves no value in a register of its own (G3). Subqueries keep some: code with one
    /// gets registers as any other.
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
    pub fn scope(&mut self) -> SqlResult<&mut Scope<'a>> {
        self.scopes.last_mut().ok_or_else(|| internal("an expression outside any query"))
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
    pub fn sort(&mut self, width: usize, keys: Vec<SortKey>) -> Sort {
        self.sorts.push(SortDef { width: width as u16, keys });
        Sort(self.sorts.len() as u16 - 1)
    }
    pub fn group(&mut self, def: GroupDef) -> Group {
        self.groups.push(def);
        Group(self.groups.len() as u16 - 1)
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
        for t in &program.tables {
            self.table(t);
        }
        self.writes |= program.writes;
        self.functions.push(f.clone());
        Ok(Fun(self.functions.len() as u16 - 1))
    }
    pub fn write(&mut self) {
        self.writes = true
    }

    /// Begins the turn of a loop: what comes before is outside, what comes until [`Gen::end_turn`] may use temporaries
    /// freely (G2). `mark` was made by [`Gen::mark`] before the loop.
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

    /// A node of the tree that EXPLAIN shows.
    pub fn node(&mut self, parent: Option<usize>, text: impl Into<String>) -> usize {
        let (loops, rows) = if self.measure {
            self.tallies += 2;
            (Some(self.tallies - 2), Some(self.tallies - 1))
        } else {
            (None, None)
        };
        self.tree.push(TreeNode {
            text: text.into(),
            details: Vec::new(),
            children: Vec::new(),
            loops,
            rows,
        });
        let n = self.tree.len() - 1;
        if let Some(p) = parent {
            self.tree[p].children.push(n)
        }
        n
    }
    pub fn detail(&mut self, node: usize, text: String) {
        self.tree[node].details.push(text)
    }
    /// The child that was made last is shown first: the kept side of a join is generated before the other.
    pub fn last_child_first(&mut self, node: usize) {
        self.tree[node].children.rotate_right(1)
    }
    /// Counts a start of the node, under EXPLAIN ANALYZE.
    pub fn tally_start(&mut self, node: usize) {
        if let Some(s) = self.tree[node].loops {
            self.op(Op::Tally { slot: Slot(s) })
        }
    }
    /// Counts a row of the node, under EXPLAIN ANALYZE.
    pub fn tally_row(&mut self, node: usize) {
        if let Some(s) = self.tree[node].rows {
            self.op(Op::Tally { slot: Slot(s) })
        }
    }
    pub fn next_subplan(&mut self) -> usize {
        self.subplans += 1;
        self.subplans
    }

    fn flatten(&self, n: usize, depth: u16, out: &mut Vec<PlanLine>) {
        let node = &self.tree[n];
        out.push(PlanLine {
            depth,
            text: node.text.clone(),
            loops: node.loops,
            rows: node.rows,
            detail: false,
        });
        for d in &node.details {
            out.push(PlanLine { depth, text: d.clone(), loops: None, rows: None, detail: true });
        }
        for c in &node.children {
            self.flatten(*c, depth + 1, out)
        }
    }

    fn finish(
        mut self,
        root: usize,
        tag: Tag,
        columns: Vec<(String, Type)>,
        catalog_version: u64,
    ) -> SqlResult<Program> {
        let registers = self.next_register as usize + self.consts.len() + self.scratch as usize;
        let numbers = [
            self.tables.len(),
            self.cursors.len(),
            self.hashes.len(),
            self.mats.len(),
            self.sorts.len(),
            self.groups.len(),
            self.casts.len(),
            self.lists.len(),
            self.names.len(),
            self.functions.len(),
            self.foreigns.len(),
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
        let mut plan = Vec::new();
        // The root is only there to hang the plan on; the subqueries of expressions are shown below the topmost node.
        match self.tree[root].children[..] {
            [first, ..] => {
                let subplans = self.tree[root].children.split_off(1);
                self.tree[first].children.extend(subplans);
                self.flatten(first, 0, &mut plan)
            }
            [] => self.flatten(root, 0, &mut plan),
        }
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
            casts: self.casts,
            lists: self.lists,
            names: self.names,
            functions: self.functions,
            foreigns: self.foreigns,
            tallies: self.tallies,
            columns,
            tag,
            writes: self.writes,
            catalog_version,
            plan,
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
            | Op::Cast { .. }
            | Op::ColText { .. }
            | Op::ColBytea { .. }
            | Op::ColOpaque { .. }
            | Op::ColNumeric { .. }
            | Op::ColChar { .. }
            | Op::HashCol { .. }
            | Op::MatCol { .. }
            | Op::SortCol { .. }
            | Op::GroupCol { .. }
            | Op::AggValue { .. }
            | Op::ForeignNext { .. }
            | Op::Reset { .. }
            | Op::Gosub { .. }
    )
}

/// Whether a subquery stands in the expression.
pub(super) fn has_query(e: &Expr) -> bool {
    let mut found = false;
    each_query_in(e, &mut |_| found = true);
    found
}

#[cold]
pub(super) fn internal(message: &str) -> SqlError {
    SqlError::new(sqlstate::INTERNAL_ERROR, message)
}
