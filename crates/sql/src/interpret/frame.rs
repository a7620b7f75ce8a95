//! A frame: all that one execution needs, kept for the next one.
//!
//! ```text
//! memory:  rows of the cursors | constants' strings | parameters' strings | temporaries
//!          ^ 0                 ^ row area           ^ base                ^ floor
//! ```
//! - **F1** Executing the same program again allocates nothing once the frame has grown: registers, cursors,
//!   stores and memory stay; only what lies above `base` is given back.
//! - **F2** Memory below `floor` is not given back during an execution, whatever the code asks for.
//! - **F3** Behind the row area lie [`PAD`] further bytes, so that a fixed-width read at any place of it
//!   stays inside.
//! - **F4** Registers keep what the last execution left in them: generated code writes before it reads, but
//!   for what `Once` remembers, which is forgotten at each start.
use super::Env;
use super::batch::{Ahead, heads};
use super::datum::{Allowance, Datum, Purse, Tag};
use super::exec::World;
use super::point::PointRead;
use super::rows::{has_strings, tag_of};
use super::store::{HashTable, List, Sorter};
use super::update::PointUpdate;
use super::window::Window;
use crate::code::Op;
use crate::code::Program;
use crate::code::program::{GroupDef, PARAM_REGISTERS};
use crate::foreign::ForeignRows;
use ondol_engine::{Aim, Charge, Connection, IndexScan, Neighbours, Oid, Scan, Search, Table, TableIndex};
use ondol_types::agg::AggState;
use ondol_types::{SqlError, SqlResult, TypeId, Value, ValueRef, sqlstate};
use std::collections::HashSet;
use std::sync::Arc;

/// F3
pub const PAD: usize = 16;

/// Temporaries and parameters that are not charged.
const SMALL: usize = 64 << 10;

/// Memory that grew beyond this is given back when an execution ends, and stores when a frame turns to
/// another program.
const KEEP: usize = 256 << 10;

/// When so much is given back, the system gets it.
const MUCH: usize = 32 << 20;

/// Where a range begins or ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum End {
    #[default]
    Open,
    /// The first key that is not below the bytes.
    At,
}

#[derive(Default)]
pub struct TableCursor {
    pub table: Option<Arc<Table>>,
    pub index: Option<Arc<TableIndex>>,
    pub oid: Oid,
    /// Gathered rows, and how many of them were given.
    pub oids: Vec<Oid>,
    pub at: usize,
    pub key: Vec<u8>,
    pub aim: Aim,
    pub low: Vec<u8>,
    pub high: Vec<u8>,
    pub low_end: End,
    pub high_end: End,
    /// Ranges that are to be read yet, the next one last: from a key on, and up to one; none: open.
    pub ranges: Vec<[Vec<u8>; 2]>,
    pub backward: bool,
    /// The row's place in the frame's memory.
    pub from: usize,
    pub to: usize,
    /// The table has columns whose values may lie in other slots.
    pub has_strings: bool,
    pub scan: Scan,
    pub range: IndexScan,
    pub search: Search,
    /// Few cursors have some, and cursors are made anew often.
    pub neighbours: Option<Box<Neighbours>>,
    /// Nodes of a CR-tree that were looked at and not counted yet.
    pub nodes: u64,
    /// How many gathered rows there were when they were last made to be there once each.
    pub distinct: usize,
    /// Bytes that gathered rows take, as far as the statement is allowed them.
    pub gathered: usize,
    pub touched: HashSet<u64>,
}

/// Groups: a hash table of keys and, beside it, the aggregates' states.
#[derive(Default)]
pub struct Groups {
    pub table: HashTable,
    pub states: Vec<AggState>,
    pub def: Option<GroupDef>,
}

#[derive(Default)]
pub struct Frame {
    pub(super) program: Option<Arc<Program>>,
    pub(super) regs: Vec<Datum>,
    pub(super) memory: Vec<u8>,
    /// The registers of `Once` (F4).
    once: Vec<u16>,
    /// Functions are called, which may ask for the time.
    pub(super) uses_time: bool,
    /// Cursors gather rows, which count for one execution.
    gathers: bool,
    pub(super) ahead_of_calls: Ahead,
    /// See [`heads`].
    pub(super) heads: Vec<u16>,
    /// The program's short way, if it has one.
    pub(super) point: Option<PointRead>,
    pub(super) update: Option<PointUpdate>,
    /// The parameters' types and tags.
    params: Vec<(TypeId, Tag)>,
    /// Parameters that have no register.
    pub(super) late: Vec<Datum>,
    /// The program's pool of constants.
    pub(super) pool: Vec<Datum>,
    pub(super) base: usize,
    pub(super) floor: usize,
    /// How long the memory may be before what is beyond is charged.
    covered: usize,
    pub(super) cursors: Vec<TableCursor>,
    /// What the next `Point` is to look at first: what a batch found ahead.
    pub(super) ahead: Oid,
    pub(super) mats: Vec<List>,
    pub(super) hashes: Vec<HashTable>,
    pub(super) sorters: Vec<Sorter>,
    /// Of each foreign table, its rows while they are read.
    pub(super) foreigns: Vec<Option<Box<dyn ForeignRows>>>,
    pub(super) groups: Vec<Groups>,
    pub(super) windows: Vec<Window>,
    pub(super) affected: u64,
    pub(super) emitted: u64,
    pub(super) tick: u32,
    pub(super) allow: Allowance,
    /// What functions are charged with, while none runs.
    pub(super) spare: Option<Charge>,
    pub(super) scratch: Vec<u8>,
    pub(super) tallies: Vec<u64>,
    pub(super) executed: Vec<u64>,
    pub(super) children: Vec<Frame>,
}

impl Frame {
    pub fn new() -> Frame {
        Frame::default()
    }

    /// Whether the program is the one that the frame is made for.
    #[inline]
    pub(super) fn runs(&self, program: &Program) -> bool {
        self.program.as_ref().is_some_and(|p| std::ptr::eq(&**p, program))
    }

    /// Makes ready for an execution: binds the parameters, forgets the last one's temporaries. What is long
    /// is charged to the connection's database.
    #[inline]
    pub(super) fn start(
        &mut self,
        program: &Arc<Program>,
        params: &[ValueRef<'_>],
        limit: usize,
        connection: &Connection,
    ) -> SqlResult<()> {
        self.allow.start(limit);
        self.allow.attach(connection);
        let done = self.make_ready(program, params);
        if done.is_err() {
            self.finish()
        }
        done
    }

    #[inline]
    fn make_ready(&mut self, program: &Arc<Program>, params: &[ValueRef<'_>]) -> SqlResult<()> {
        if !self.program.as_ref().is_some_and(|p| Arc::ptr_eq(p, program)) {
            self.load(program);
        }
        if params.len() != program.params.len() {
            return Err(SqlError::new(
                sqlstate::SYNTAX_ERROR,
                format!("{} parameters were given, {} are expected", params.len(), program.params.len()),
            ));
        }
        self.memory.truncate(self.base);
        if self.base > SMALL {
            self.allow.take(self.base + size_of_val(&self.pool[..]))?
        }
        let (held, late) = params.split_at(params.len().min(PARAM_REGISTERS));
        for (n, v) in held.iter().enumerate() {
            let d = match (v, self.params[n].1) {
                (ValueRef::Int8(i), Tag::Int8) => Datum::number(Tag::Int8, *i),
                (ValueRef::Int4(i), Tag::Int4) => Datum::number(Tag::Int4, (*i).into()),
                _ => self.bind(n, *v)?,
            };
            self.regs[n] = d;
        }
        if !late.is_empty() {
            self.bind_late(late)?
        }
        // F4
        for r in &self.once {
            self.regs[*r as usize] = Datum::NULL;
        }
        if self.gathers {
            for c in &mut self.cursors {
                c.touched.clear();
                c.gathered = 0
            }
        }
        self.floor = self.memory.len();
        self.ahead = Oid::NONE;
        self.covered = self.floor + SMALL;
        self.affected = 0;
        self.emitted = 0;
        Ok(())
    }

    /// The execution is over: what its stores were charged is given back, and their memory.
    #[inline]
    pub(super) fn finish(&mut self) {
        self.foreigns.iter_mut().for_each(|f| *f = None);
        if self.allow.is_charged() || self.memory.capacity() > KEEP {
            self.release()
        }
    }
    /// Runs `f` in the surroundings of an execution: its functions are charged for what they make, and know
    /// the transaction's time.
    #[inline]
    pub(super) fn surround<R>(
        &mut self,
        connection: &mut Connection,
        env: &Env<'_>,
        f: impl FnOnce(&mut Frame, &mut Connection, &World<'_>) -> R,
    ) -> R {
        if !self.uses_time {
            return f(self, connection, &World::plain(env));
        }
        let purse = self.purse();
        let (done, spare) =
            World::charged(purse, connection, env, |connection, world| f(self, connection, world));
        self.spare = spare;
        done
    }
    /// What functions are charged with; to be closed, which gives the spare back.
    pub(super) fn purse(&mut self) -> Purse {
        Purse::new(self.spare.take().or_else(|| self.allow.another()), self.allow.limit)
    }
    /// Puts a value into memory, which is charged first where it is long.
    #[inline]
    pub(super) fn put_owned(&mut self, value: &Value) -> SqlResult<Datum> {
        self.charge_room(Datum::bytes_of(value))?;
        Ok(Datum::of_owned(value, &mut self.memory))
    }
    /// Charges so many bytes that are about to come to the memory.
    #[inline]
    pub(super) fn charge_room(&mut self, bytes: usize) -> SqlResult<()> {
        if self.memory.len() + bytes > self.covered {
            self.allow.take(self.memory.len() + bytes - self.covered)?;
            self.covered = self.memory.len() + bytes;
        }
        if bytes > self.memory.capacity() - self.memory.len() {
            self.grow(bytes)
        }
        Ok(())
    }
    /// Makes room; much memory does not grow to its double at once.
    #[cold]
    fn grow(&mut self, bytes: usize) {
        match self.memory.capacity() {
            small @ 0..KEEP => self.memory.reserve(bytes.max(small)),
            large => self.memory.reserve_exact(bytes.max(large / 8)),
        }
    }
    /// Charges temporaries that became large. Temporaries that were given back stay charged to the
    /// execution's end.
    #[inline]
    pub(super) fn charge_memory(&mut self) -> SqlResult<()> {
        self.charge_room(0)
    }
    /// The same for parameters, which stay to the end.
    #[cold]
    fn charge_param(&mut self, bytes: usize) -> SqlResult<()> {
        self.allow.take(bytes)?;
        self.memory.reserve_exact(bytes);
        Ok(())
    }
    #[cold]
    fn release(&mut self) {
        self.memory.truncate(self.base);
        self.memory.shrink_to(KEEP);
        self.mats.iter_mut().for_each(|m| m.store.release());
        self.hashes.iter_mut().for_each(|h| h.release());
        self.sorters.iter_mut().for_each(|s| s.release());
        for g in &mut self.groups {
            g.table.release();
            g.states = Vec::new();
        }
        self.windows.iter_mut().for_each(|w| w.release());
        for c in self.cursors.iter_mut().filter(|_| self.gathers) {
            (c.touched, c.oids, c.gathered) = (HashSet::new(), Vec::new(), 0);
            c.neighbours = None
        }
        let held = self.allow.clear();
        if held > MUCH {
            ondol_base::heap::give_back()
        }
    }

    /// Those behind the parameters that have registers.
    #[cold]
    fn bind_late(&mut self, params: &[ValueRef<'_>]) -> SqlResult<()> {
        self.late.clear();
        for (n, v) in params.iter().enumerate() {
            let d = self.bind(PARAM_REGISTERS + n, *v)?;
            self.late.push(d)
        }
        Ok(())
    }

    /// The datum of parameter `n`, its type checked.
    #[inline(never)]
    fn bind(&mut self, n: usize, v: ValueRef<'_>) -> SqlResult<Datum> {
        let (ty, tag) = self.params[n];
        if let ValueRef::Text(_) | ValueRef::Bytea(_) | ValueRef::Numeric(_) | ValueRef::Opaque(..) = v
            && let bytes = v.byte_len()
            && bytes > SMALL
        {
            self.charge_param(bytes)?
        }
        let d = match v {
            ValueRef::Text(s) if s.as_bytes().contains(&0) => {
                return Err(SqlError::new(
                    "22021",
                    format!("parameter ${}: invalid byte sequence for encoding \"UTF8\": 0x00", n + 1),
                ));
            }
            ValueRef::Opaque(t, b) if !t.admits(b) => {
                return Err(SqlError::new(
                    "22P03",
                    format!("parameter ${}: {} bytes are no value of type {t}", n + 1, b.len()),
                ));
            }
            v => Datum::of(v, &mut self.memory),
        };
        let is_of = tag == d.tag() || (tag, d.tag()) == (Tag::Numeric, Tag::Packed);
        if (!is_of || (tag == Tag::Opaque && d.ty() != ty)) && !d.is_null() {
            return Err(SqlError::new(
                sqlstate::DATATYPE_MISMATCH,
                format!("parameter ${} is of type {ty} and was given as {:?}", n + 1, d.tag()),
            ));
        }
        Ok(d)
    }

    /// Turns to another program.
    #[cold]
    pub(super) fn load(&mut self, program: &Arc<Program>) {
        self.regs.clear();
        self.regs.resize(program.registers as usize, Datum::NULL);
        self.memory.clear();
        self.memory.resize(program.row_area as usize + PAD, 0);
        for (n, c) in program.consts.iter().enumerate() {
            self.regs[program.param_registers() + n] = Datum::of_owned(c, &mut self.memory);
        }
        self.pool.clear();
        for c in &program.pool {
            let d = Datum::of_owned(c, &mut self.memory);
            self.pool.push(d)
        }
        self.base = self.memory.len();
        self.cursors.reserve_exact(program.cursors.len().saturating_sub(self.cursors.len()));
        self.cursors.resize_with(program.cursors.len(), TableCursor::default);
        for (c, def) in self.cursors.iter_mut().zip(&program.cursors) {
            let table = &program.tables[def.table as usize];
            c.index = def.index.and_then(|i| table.indexes.get(i as usize)).cloned();
            c.table = Some(table.clone());
            c.from = def.row_at as usize;
            c.to = c.from + table.layout.row_size;
            c.has_strings = has_strings(&table.layout);
            c.touched.clear();
            c.gathered = 0
        }
        self.params.clear();
        self.params.extend(program.params.iter().map(|t| (*t, tag_of(*t).unwrap_or_default())));
        self.once.clear();
        self.uses_time = false;
        self.gathers = false;
        self.ahead_of_calls = Ahead::of(program);
        self.heads = heads(program);
        self.point = PointRead::of(program);
        self.update = PointUpdate::of(program);
        for op in &program.ops {
            match op {
                Op::Once { done, .. } => self.once.push(done.0.first),
                Op::Call { .. } | Op::Cast { .. } | Op::FunctionRows { .. } => self.uses_time = true,
                Op::Touch { .. } | Op::BoxProbe { .. } | Op::Within { .. } | Op::NearStart { .. } => {
                    self.gathers = true
                }
                _ => {}
            }
        }
        self.mats.resize_with(program.mats.len(), List::default);
        for (m, width) in self.mats.iter_mut().zip(&program.mats) {
            if m.store.bytes.capacity() > KEEP {
                *m = List::default();
            }
            m.store.width = *width as usize;
            m.clear();
        }
        self.hashes.resize_with(program.hashes.len(), HashTable::default);
        for (h, def) in self.hashes.iter_mut().zip(&program.hashes) {
            if h.store.bytes.capacity() > KEEP {
                *h = HashTable::default();
            }
            h.store.width = def.width as usize;
            h.keys = def.keys as usize;
            h.clear();
        }
        self.sorters.resize_with(program.sorts.len(), Sorter::default);
        for (s, def) in self.sorters.iter_mut().zip(&program.sorts) {
            if s.store.bytes.capacity() > KEEP {
                *s = Sorter::default();
            }
            s.store.width = def.width as usize;
            s.keys.clone_from(&def.keys);
            s.clear();
        }
        self.foreigns.resize_with(program.foreigns.len(), || None);
        self.groups.resize_with(program.groups.len(), Groups::default);
        for (g, def) in self.groups.iter_mut().zip(&program.groups) {
            g.table.store.width = def.keys as usize;
            g.table.keys = def.keys as usize;
            g.table.clear();
            g.states.clear();
            g.def = Some(def.clone());
        }
        self.windows.resize_with(program.windows.len(), Window::default);
        for (w, def) in self.windows.iter_mut().zip(&program.windows) {
            w.load(def, KEEP)
        }
        self.program = Some(program.clone());
    }

    /// Counters of the last execution under EXPLAIN ANALYZE: of `Tally`, and of each instruction.
    pub fn measured(&self) -> (&[u64], &[u64]) {
        (&self.tallies, &self.executed)
    }
}
