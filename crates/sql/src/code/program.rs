//! A program: instructions and the definitions they refer to by number.
//!
//! ```text
//! registers:   parameters | constants | working registers          (the first of each; further ones are
//! loaded when they are needed) row memory:  row of cursor 0 | row of cursor 1 | ...        (then constants'
//! strings, parameters' strings, temporaries)
//! ```
use super::op::Op;
use super::operand::Cur;
use super::window::WindowDef;
use crate::foreign::ForeignTable;
use crate::needs::Need;
use crate::plan::explain::Shown;
use ondol_engine::{FunctionDef, Generated, IndexKind, Table, TableIndex, Uses};
use ondol_types::agg::AggId;
use ondol_types::{Type, TypeId, Value};
use std::sync::Arc;

/// A table cursor: one table, perhaps one of its indexes, and where its row lies in the row area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorDef {
    /// In [`Program::tables`].
    pub table: u16,
    /// Position in the table's indexes.
    pub index: Option<u16>,
    pub row_at: u32,
}

/// What the number of a sequence stands behind in the name of a view that shows the sequence.
pub const SEQUENCE_VIEW: &str = "sequence ";

/// A hash table of rows; the first `keys` columns are the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashDef {
    pub width: u16,
    pub keys: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortKey {
    pub column: u16,
    pub desc: bool,
    pub nulls_first: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortDef {
    pub width: u16,
    pub keys: Vec<SortKey>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDef {
    pub keys: u16,
    /// Each aggregate with the number of its arguments.
    pub aggs: Vec<(AggId, u16)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CastDef {
    pub from: TypeId,
    pub to: Type,
    pub explicit: bool,
}

/// A foreign table, and the columns that are wanted of it.
#[derive(Clone)]
pub struct ForeignDef {
    pub table: Arc<dyn ForeignTable>,
    pub columns: Vec<u16>,
}

/// The command's tag, without the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    Select = 0,
    Insert = 1,
    Update = 2,
    Delete = 3,
}

impl Tag {
    /// What a statement that writes is called in messages.
    pub fn of_writing(self) -> &'static str {
        match self {
            // Locking rows is writing.
            Tag::Select => "SELECT FOR UPDATE",
            Tag::Insert => "INSERT",
            Tag::Update => "UPDATE",
            Tag::Delete => "DELETE",
        }
    }
    /// As told to a client: `INSERT 0 3`.
    pub fn text(self, rows: u64) -> String {
        let before = match self {
            Tag::Select => "SELECT ",
            Tag::Insert => "INSERT 0 ",
            Tag::Update => "UPDATE ",
            Tag::Delete => "DELETE ",
        };
        // Most are of one digit; formatting is slow beside what such a statement takes.
        let mut text = String::with_capacity(before.len() + 20);
        text.push_str(before);
        match u8::try_from(rows) {
            Ok(digit @ 0..10) => text.push((b'0' + digit).into()),
            _ => text.push_str(&rows.to_string()),
        }
        text
    }
}

#[derive(Clone)]
pub struct Program {
    pub ops: Vec<Op>,
    pub params: Vec<TypeId>,
    /// The constants that registers hold.
    pub consts: Vec<Value>,
    /// Those that none holds: lists, and what is beyond the first constants of a statement of many.
    pub pool: Vec<Value>,
    pub registers: u16,
    pub row_area: u32,
    /// Every table the statement touches, those of the functions it calls included: they are announced
    /// together.
    pub tables: Vec<Arc<Table>>,
    pub cursors: Vec<CursorDef>,
    pub hashes: Vec<HashDef>,
    /// Widths.
    pub mats: Vec<u16>,
    pub sorts: Vec<SortDef>,
    pub groups: Vec<GroupDef>,
    pub windows: Vec<WindowDef>,
    pub casts: Vec<CastDef>,
    pub lists: Vec<Vec<u16>>,
    pub names: Vec<String>,
    pub functions: Vec<Arc<FunctionDef>>,
    /// None in stored code.
    pub foreigns: Vec<ForeignDef>,
    pub tallies: u16,
    /// Of the result; empty for statements without one.
    pub columns: Vec<(String, Type)>,
    pub tag: Tag,
    /// It changes or locks rows.
    pub writes: bool,
    /// Of which tables.
    pub uses: Uses,
    /// The dictionary that it was made for.
    pub catalog_version: u64,
    /// What whoever runs it has to be allowed.
    pub needs: Vec<Need>,
    /// Of a statement that is to be explained.
    pub plan: Option<Arc<Shown>>,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program")
            .field("ops", &self.ops)
            .field("registers", &self.registers)
            .finish_non_exhaustive()
    }
}

impl Program {
    /// About how many bytes it takes: those of its instructions and constants, of which there may be many.
    pub fn bytes(&self) -> usize {
        let values = self.consts.iter().chain(&self.pool);
        let strings: usize = values
            .map(|v| match v {
                Value::Text(s) => s.len(),
                Value::Bytea(b) => b.len(),
                _ => 0,
            })
            .sum();
        strings
            + size_of_val(&self.ops[..])
            + size_of_val(&self.consts[..])
            + size_of_val(&self.pool[..])
            + size_of_val(&self.params[..])
    }
}

/// Why stored code is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// Another format, or a table, index or function is not as it was: compile again.
    Stale,
    /// The bytes are not a program; what is wrong with them.
    Corrupt(String),
}

/// What operands are checked against.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    pub ops: usize,
    pub registers: usize,
    pub fixed_registers: usize,
    pub params: usize,
    pub pool: usize,
    pub row_area: usize,
    pub cursors: usize,
    pub hashes: usize,
    pub mats: usize,
    pub sorts: usize,
    pub groups: usize,
    pub windows: usize,
    pub casts: usize,
    pub lists: usize,
    pub tables: usize,
    pub names: usize,
    pub functions: usize,
    pub foreigns: usize,
    pub tallies: usize,
}

/// So many parameters have a register, which every instruction can read; further ones are loaded
/// ([`Op::LoadParam`]).
pub const PARAM_REGISTERS: usize = 8192;
/// So many constants have one ([`Op::Load`]).
pub const CONST_REGISTERS: usize = 4096;

impl Program {
    /// How many parameters have a register.
    #[inline]
    pub fn param_registers(&self) -> usize {
        self.params.len().min(PARAM_REGISTERS)
    }
    pub fn limits(&self) -> Limits {
        Limits {
            ops: self.ops.len(),
            registers: self.registers as usize,
            fixed_registers: self.param_registers() + self.consts.len(),
            params: self.params.len(),
            pool: self.pool.len(),
            row_area: self.row_area as usize,
            cursors: self.cursors.len(),
            hashes: self.hashes.len(),
            mats: self.mats.len(),
            sorts: self.sorts.len(),
            groups: self.groups.len(),
            windows: self.windows.len(),
            casts: self.casts.len(),
            lists: self.lists.len(),
            tables: self.tables.len(),
            names: self.names.len(),
            functions: self.functions.len(),
            foreigns: self.foreigns.len(),
            tallies: self.tallies as usize,
        }
    }
    #[inline]
    pub fn table_of(&self, cursor: u16) -> &Arc<Table> {
        &self.tables[self.cursors[cursor as usize].table as usize]
    }
    pub fn index_of(&self, cursor: u16) -> Option<&Arc<TableIndex>> {
        let def = &self.cursors[cursor as usize];
        self.tables[def.table as usize].indexes.get(def.index? as usize)
    }
}

/// What code that writes does to rows of tables, beside what its functions do there.
pub fn uses_of(ops: &[Op], cursors: &[CursorDef]) -> Uses {
    let table = |cursor: &Cur| cursors.get(cursor.0 as usize).map_or(0, |c| c.table as usize);
    ops.iter().fold(Uses::READS, |uses, op| match op {
        Op::Insert { table, .. } | Op::InsertNew { table, .. } => uses.and(table.0 as usize, true),
        Op::Update { cursor, .. }
        | Op::Delete { cursor }
        | Op::PointUpdate { cursor, .. }
        | Op::InsertOrLock { cursor, .. } => uses.and(table(cursor), true),
        Op::Lock { cursor, .. } => uses.and(table(cursor), false),
        _ => uses,
    })
}

/// A number that changes with whatever stored code relies on in a table: layout, column types, indexes.
pub fn fingerprint(table: &Table) -> u64 {
    let mut h = Fnv(0xcbf2_9ce4_8422_2325);
    h.number(u64::from(table.def.id));
    // Another table may have its name by now.
    h.bytes(table.def.name.as_bytes());
    h.number(table.layout.row_size as u64);
    for (c, l) in table.def.columns.iter().zip(&table.layout.columns) {
        h.bytes(c.name.as_bytes());
        h.number(
            u64::from(c.ty.id.number()) | u64::from(c.ty.typmod as u32) << 16 | u64::from(c.not_null) << 48,
        );
        h.number(u64::from(l.offset) | u64::from(l.null_bit.map_or(u16::MAX, |b| b)) << 16);
        // INSERT's code has the default in it, and what a domain asks of its values.
        h.bytes(c.default.as_deref().unwrap_or_default().as_bytes());
        h.number(u64::from(c.default.is_some()) | u64::from(c.domain.is_some()) << 1);
        match &c.generated {
            None => {}
            Some(Generated::Identity { always, sequence }) => {
                h.number(u64::from(*sequence) << 8 | u64::from(*always) << 1 | 1)
            }
            Some(Generated::Stored(text)) => h.bytes(text.as_bytes()),
        }
        // Of a numeric, its type does not tell.
        match l.storage {
            ondol_engine::Storage::Packed { scale } => h.number(u64::from(scale) | 1 << 32),
            ondol_engine::Storage::Later { place } => h.number(u64::from(place) | 2 << 32),
            _ => {}
        }
    }
    for i in &table.def.indexes {
        h.number(u64::from(i.id));
        // ON CONFLICT may have named it.
        h.bytes(i.name.as_bytes());
        let kind = match i.kind {
            IndexKind::Hash => 0,
            IndexKind::Btree => 1,
            IndexKind::Crtree { bits } => 2 | u64::from(bits) << 16,
        };
        h.number(kind | u64::from(i.unique) << 8 | u64::from(i.constraint) << 9);
        for c in &i.columns {
            h.number(c.column as u64 | u64::from(c.desc) << 32 | u64::from(c.nulls_first) << 33);
        }
    }
    for c in &table.def.checks {
        h.bytes(c.name.as_bytes());
        h.bytes(c.text.as_bytes());
        h.number(u64::from(c.validated))
    }
    // What an instruction of its own changes, no foreign key is about.
    for f in &table.def.foreign {
        f.columns.iter().for_each(|c| h.number(*c as u64))
    }
    h.0
}

/// A hash of 64 bits whose values may be stored (Fowler, Noll, Vo, 1a).
pub struct Fnv(pub u64);

impl Fnv {
    pub fn bytes(&mut self, b: &[u8]) {
        for x in b {
            self.0 = (self.0 ^ u64::from(*x)).wrapping_mul(0x100_0000_01b3);
        }
        self.number(b.len() as u64)
    }
    pub fn number(&mut self, n: u64) {
        for x in n.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(x)).wrapping_mul(0x100_0000_01b3);
        }
    }
}
