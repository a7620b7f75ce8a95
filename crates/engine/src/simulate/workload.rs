//! Clients: random transactions against tables of one shape, each noting in the journal what it did and saw.
//!
//! A client takes every answer for what it says: a commit that returned is promised, what a reader of durable
//! data was shown is promised, and an error is an error of a kind that may happen here, or a failure of the
//! run.
use super::model::{
    Asked, CODES, Commit, Effect, Journal, ModelRow, Promise, SHAPES, Seen, index_name, table_name,
};
use super::nap;
use super::portals::OpenPortal;
use super::queues::PATIENCE;
use super::sequences::Book;
use crate::connection::{Access, Connection, Isolation, LockStrength, Locked, STALE, Scan, Wait};
use crate::table::{IndexScan, Table};
use crate::{
    ColumnDef, Database, IndexColumn, IndexKind, Neighbours, Numbers, Oid, Patch, Rect, Search, Token,
    WantedNeighbours, row,
};
use ondol_base::sim::{self, Random};
use ondol_base::sync::Mutex;
use ondol_base::{crc, thread};
use ondol_kernel::Strings;
use ondol_types::{Packed, SqlError, SqlResult, Type, TypeId, ValueRef, sqlstate};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

/// What all clients of a life share.
pub struct Shared {
    pub db: Arc<Database>,
    pub journal: Mutex<Journal>,
    /// The next row's name.
    pub uids: Arc<AtomicI64>,
    pub tables: u8,
    /// Keys are drawn from this many.
    pub keys: u64,
    /// Some commits are asynchronous.
    pub asynchronous: bool,
    /// Some commits are held.
    pub holds: bool,
    /// Media may fail or be full.
    pub faulty: bool,
    /// The memory limit may be met.
    pub tight: bool,
    pub ddl: f64,
    /// Values are long.
    pub bulky: bool,
    /// No wait takes longer than the clients wait.
    pub patient: bool,
    /// Counts of what happened, by name.
    pub counts: Mutex<BTreeMap<&'static str, u64>>,
    pub sequences: Mutex<Book>,
    /// One at a time sets a sequence, or takes a value of it.
    pub sequence_turn: Mutex<()>,
}

impl Shared {
    pub fn count(&self, what: &'static str) {
        *self.counts.lock().entry(what).or_default() += 1
    }
    /// Nothing more can succeed here.
    pub fn over(&self) -> bool {
        sim::current().is_none_or(|w| w.power_is_lost())
    }
    pub fn promise_durable(&self) {
        let durable = self.db.durable_ts();
        let mut j = self.journal.lock();
        j.promised = j.promised.max(durable);
        j.newest = j.newest.max(self.db.kernel.log.clock() - 1);
    }
    /// Whether an error is one of those that may happen; the rest fails the run.
    pub fn permit(&self, e: &SqlError) -> Result<(), String> {
        let waited = e.to_string().contains("lock timeout");
        let fine = match e.sqlstate() {
            sqlstate::LOCK_NOT_AVAILABLE if self.patient && waited => false,
            sqlstate::SERIALIZATION_FAILURE
            | sqlstate::DEADLOCK_DETECTED
            | sqlstate::LOCK_NOT_AVAILABLE
            | sqlstate::OBJECT_IN_USE
            | sqlstate::UNDEFINED_TABLE
            | sqlstate::UNDEFINED_OBJECT
            | sqlstate::DUPLICATE_TABLE => true,
            // No two rows ever have one name.
            sqlstate::UNIQUE_VIOLATION => !e.to_string().contains("_1\""),
            sqlstate::OUT_OF_MEMORY => self.tight,
            sqlstate::IO_ERROR | sqlstate::DISK_FULL => self.faulty || self.over(),
            _ => false,
        };
        if fine { Ok(()) } else { Err(format!("unexpected error {}: {e}", e.sqlstate())) }
    }
}

/// The columns of every table, as [`ModelRow`] has them.
pub fn columns() -> Vec<ColumnDef> {
    let c = |name: &str, ty, not_null| ColumnDef { not_null, ..ColumnDef::new(name, ty) };
    vec![
        c("uid", Type::INT8, true),
        c("k", Type::INT8, true),
        c("g", Type::INT4, false),
        c("s", Type::TEXT, false),
        c("code", Type::with(TypeId::BPCHAR, 4 + 4), true),
        // numeric(18,2)
        c("n", Type::with(TypeId::NUMERIC, (18 << 16 | 2) + 4), true),
    ]
}

/// A row's number as its column has it: of either sign, and of few digits or many.
fn packed(n: i64) -> Packed {
    Packed::new((n - MIDDLE) * STEP, 2)
}
/// The number of which zero is made.
const MIDDLE: i64 = 500;
const STEP: i64 = 100_000_000_000_003;

/// The bytes of a text value: told by a seed and a length.
fn text(r: &mut Random, bulky: bool) -> Option<String> {
    let len = match r.below(100) {
        0..10 => return None,
        10..50 => r.below(13),
        50..85 => 13 + r.below(60),
        85..96 => 60 + r.below(600),
        96..99 => 600 + r.below(3400),
        _ => 4000 + r.below(9000),
    };
    let len = if bulky && len > 12 { len + 800 } else { len };
    let mut x = r.next();
    Some(
        (0..len)
            .map(|_| {
                x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (b'a' + ((x >> 40) % 26) as u8) as char
            })
            .collect(),
    )
}
/// One of a few texts that are the same far beyond what a row holds of a long text in itself, one the
/// beginning of another.
fn shared_text(n: u64) -> String {
    format!("as any other of these begins {n}")
}
fn digest(s: &str) -> (u32, u32) {
    (s.len() as u32, crc::crc32c(s.as_bytes()))
}

struct Read<'a>(&'a Connection);
impl Strings for Read<'_> {
    fn string(&self, slot: u64, len: usize, out: &mut Vec<u8>) {
        self.0.read_string(slot, len, out)
    }
}

/// A row's bytes as the model has them.
pub fn decode(c: &Connection, t: &Table, bytes: &[u8]) -> ModelRow {
    let mut scratch = vec![];
    let mut int = |i: usize| match row::column(&t.layout, bytes, i, &Read(c), &mut scratch) {
        ValueRef::Int8(v) => Some(v),
        ValueRef::Int4(v) => Some(v as i64),
        ValueRef::Packed(p) => p.units().filter(|u| u % STEP == 0).map(|u| u / STEP + MIDDLE),
        _ => None,
    };
    let (uid, k, g, n) = (int(0), int(1), int(2), int(5));
    let mut scratch = vec![];
    let s = match row::column(&t.layout, bytes, 3, &Read(c), &mut scratch) {
        ValueRef::Text(s) => Some(digest(s)),
        _ => None,
    };
    let mut scratch = vec![];
    let code = match row::column(&t.layout, bytes, 4, &Read(c), &mut scratch) {
        ValueRef::Text(s) => CODES.iter().position(|c| *c == s.trim_end_matches(' ')).unwrap_or(255) as u8,
        _ => 254,
    };
    // What is not null here and read as null shows as a value that was never written.
    ModelRow {
        uid: uid.unwrap_or(-1),
        k: k.unwrap_or(-1),
        g: g.map(|g| g as i32),
        s,
        code,
        n: n.unwrap_or(-1),
    }
}

pub struct Client {
    pub who: usize,
    pub(super) shared: Arc<Shared>,
    pub(super) c: Connection,
    r: Random,
    synchronous: bool,
    /// What the open transaction has changed and seen.
    pub(super) effects: Vec<Effect>,
    pub(super) seen: Vec<Seen>,
    explicit: bool,
    read_only: bool,
    isolation: Isolation,
    /// The snapshot of the last read.
    newest: u64,
    holding: bool,
    /// Of what is held, apart from the rest.
    h: Random,
    /// Held, with what was told of them.
    held: Vec<(Token, Arc<AtomicUsize>)>,
    /// Of portals, apart from the rest.
    pub(super) p: Random,
    pub(super) portals: Vec<OpenPortal>,
}

/// What was told of a held commit.
const DURABLE: usize = 1;
const REFUSED: usize = 2;

pub(super) type Outcome<T> = Result<T, String>;

/// How a statement ended.
pub(super) enum Did<T> {
    Done(T),
    /// It failed in a way that may happen, and its effects are gone.
    Failed,
}

impl Client {
    pub fn new(who: usize, shared: Arc<Shared>, mut r: Random) -> Client {
        let mut c = shared.db.connect();
        let limit = Duration::from_millis(2 + r.below(20));
        c.set_lock_timeout(Some(if shared.patient { PATIENCE } else { limit }));
        let streams = shared.db.streams() as u64;
        c.set_stream(r.below(streams) as u16);
        let h = r.branch(0x6865_6c64);
        let p = r.branch(0x706f_7274);
        Client {
            who,
            shared,
            c,
            r,
            synchronous: true,
            effects: vec![],
            seen: vec![],
            explicit: false,
            read_only: false,
            isolation: Isolation::ReadCommitted,
            newest: 0,
            holding: false,
            h,
            held: vec![],
            p,
            portals: vec![],
        }
    }

    /// Runs transactions until enough are done or the world ends.
    pub fn work(mut self, transactions: u64) -> Outcome<()> {
        for _ in 0..transactions {
            if self.shared.over() {
                break;
            }
            if self.r.chance(0.15) {
                nap(Duration::from_micros(self.r.below(8000)))
            }
            self.transaction().map_err(|e| format!("client {}: {e}", self.who))?;
            self.look_at_held();
            self.shared.promise_durable();
        }
        self.await_held().map_err(|e| format!("client {}: {e}", self.who))
    }

    /// A transaction, after which the client goes on at once if it holds.
    fn transaction(&mut self) -> Outcome<()> {
        self.synchronous = !(self.shared.asynchronous && self.r.chance(0.4));
        self.c.set_synchronous(self.synchronous);
        self.holding = self.shared.holds && self.synchronous && self.h.chance(0.4);
        if !self.holding {
            if let Err(e) = self.c.rest() {
                return self.shared.permit(&e);
            }
            return self.one_transaction();
        }
        self.c.defer();
        let done = self.one_transaction();
        self.c.hold();
        self.holding = false;
        if let Some(token) = self.c.held_token() {
            let told = Arc::new(AtomicUsize::new(0));
            self.held.push((token, told.clone()));
            // The others are only looked at.
            if self.h.chance(0.6) {
                self.shared.db.when_durable(token, move |fate| {
                    let before = told.swap(if fate.is_ok() { DURABLE } else { REFUSED }, Ordering::SeqCst);
                    assert_eq!(before, 0, "a held commit was told twice");
                })
            }
        }
        done
    }

    /// What tokens tell is promised.
    fn look_at_held(&mut self) {
        let (db, shared) = (&self.shared.db, &self.shared);
        self.held.retain(|(token, told)| {
            let durable = match told.load(Ordering::SeqCst) {
                0 if Arc::strong_count(told) > 1 => return true,
                0 => match db.poll_durable(*token) {
                    Ok(false) => return true,
                    fate => fate.is_ok(),
                },
                told => told == DURABLE,
            };
            if durable {
                shared.count("held commits told as durable");
                let mut j = shared.journal.lock();
                j.promised = j.promised.max(token.0);
            }
            false
        })
    }

    /// What is held becomes durable though nobody waits for it (round/R5).
    fn await_held(&mut self) -> Outcome<()> {
        for _ in 0..2000 {
            self.look_at_held();
            if self.held.is_empty() || self.shared.over() {
                return Ok(());
            }
            nap(Duration::from_millis(5))
        }
        Err(format!("of held commit {} nothing was told for long", self.held[0].0.0))
    }

    /// What was seen at this snapshot is covered by the token of what is held.
    fn check_covered(&mut self, snapshot: u64) -> Outcome<()> {
        let token = self.c.held_token().map_or(0, |t| t.0);
        match token.max(self.shared.db.durable_ts()) >= snapshot {
            true => Ok(()),
            false => Err(format!("what was seen of commit {snapshot} is held by the token {token}")),
        }
    }

    /// Builds indexes and drops them, and copies tables, beside whoever uses these.
    pub fn build(mut self, times: u64) -> Outcome<()> {
        let mut copies = self.r.branch(0x636f_7079);
        for _ in 0..times {
            thread::sleep(Duration::from_micros(self.r.below(3000)));
            if self.shared.over() {
                break;
            }
            let (table, shape) = (self.table(), self.r.below(SHAPES.len() as u64) as u8);
            let Some(t) = self.c.catalog().table(table_name(table)).cloned() else { continue };
            let there = t.indexes.iter().any(|i| i.def.name == index_name(table, shape));
            self.effects.clear();
            let before = self.c.last_token().0;
            let outcome = self.change_definition(table, shape, if there { 4 } else { 1 });
            let done = matches!(outcome.map_err(|e| format!("the builder: {e}"))?, Did::Done(()));
            if done && !there {
                self.shared.count("indexes built beside writers")
            }
            self.autocommitted(before, done)?;
            self.shared.promise_durable();
            if copies.chance(0.5) {
                let before = self.c.last_token().0;
                let copied = self.copy(table).map_err(|e| format!("who copies tables: {e}"))?;
                self.autocommitted(before, copied)?;
                self.shared.promise_durable()
            }
        }
        Ok(())
    }

    /// Makes a column that has no NULL one that may have, or the other way round, and computes its values
    /// anew, so that the rows are copied.
    fn copy(&mut self, table: u8) -> Outcome<bool> {
        self.effects.clear();
        let name = &crate::Name::from(&table_name(table));
        let alter = |me: &mut Self| {
            me.c.begin_alone()?;
            let catalog = me.c.claim(|c| crate::claims::change_table(c, name))?;
            let Some(t) = catalog.table(name) else { return Ok(()) };
            let mut def = t.def.clone();
            def.columns[5].not_null = !def.columns[5].not_null;
            let mut origins: Vec<_> = (0..def.columns.len()).map(crate::Origin::Column).collect();
            origins[5] = crate::Origin::Converted(5, Arc::new(Ok));
            me.c.redefine_table(name, &def, &origins)?;
            let heaps = me.c.catalog().table(name).map_or(0, |t| t.heaps);
            me.effects.push(Effect::Copy { table, from: t.heaps, heaps });
            me.c.commit().map(drop)
        };
        let before = self.c.last_token();
        let done = alter(self);
        self.c.rollback();
        let Err(e) = done else {
            self.shared.count("tables copied beside writers");
            return Ok(true);
        };
        self.shared.count(kind(&e));
        self.shared.permit(&e)?;
        if self.c.last_token() == before {
            self.effects.clear()
        }
        Ok(false)
    }

    /// Makes some of the tables that are not there, with indexes.
    pub fn set_up(&mut self) -> Outcome<()> {
        for table in 0..self.shared.tables {
            if self.c.catalog().table(table_name(table)).is_some() || self.r.chance(0.15) {
                continue;
            }
            let first = if self.r.chance(0.4) { 1 } else { self.r.below(SHAPES.len() as u64) as u8 };
            for shape in [
                None,
                (!self.r.chance(0.2)).then_some(0),
                self.r.chance(0.6).then_some(2),
                Some(first.max(1)),
            ] {
                if self.shared.over() {
                    return Ok(());
                }
                let before = self.c.last_token();
                let done = match shape {
                    None => self.c.create_table(table_name(table), columns()).map(drop),
                    Some(s) => create_index(&mut self.c, table, s),
                };
                if let Err(e) = &done {
                    self.shared.permit(e).map_err(|e| format!("making table {table}: {e}"))?
                }
                self.effects.clear();
                let heaps = self.c.catalog().table(table_name(table)).map_or(0, |t| t.heaps);
                self.effects.push(match shape {
                    None => Effect::Create { table, heaps },
                    Some(shape) => Effect::CreateIndex { table, shape },
                });
                self.autocommitted(before.0, done.is_ok())?;
                if done.is_err() {
                    break;
                }
            }
        }
        Ok(())
    }

    fn one_transaction(&mut self) -> Outcome<()> {
        self.effects.clear();
        self.seen.clear();
        self.explicit = self.r.chance(0.7);
        self.read_only = self.r.chance(0.2);
        self.isolation = match self.r.below(3) {
            0 => Isolation::ReadCommitted,
            1 => Isolation::RepeatableRead,
            _ => Isolation::Serializable,
        };
        let before = self.c.last_token().0;
        if !self.explicit {
            self.isolation = Isolation::ReadCommitted;
            if !self.read_only && self.r.chance(0.3) {
                return self.assign_some();
            }
            let outcome = self.statement()?;
            return self.autocommitted(before, matches!(outcome, Did::Done(())));
        }
        let access = if self.read_only { Access::ReadOnly } else { Access::ReadWrite };
        self.c.begin(self.isolation, access).map_err(|e| format!("BEGIN: {e}"))?;
        let mut savepoints: Vec<(String, usize)> = vec![];
        let large = !self.read_only && self.r.chance(0.06);
        let n = if large { 12 + self.r.below(30) } else { 1 + self.r.below(6) };
        for i in 0..n {
            if self.shared.over() {
                break;
            }
            if !self.read_only && self.r.chance(0.12) {
                let name = format!("s{}", self.r.below(3));
                match self.c.savepoint(&name) {
                    Ok(()) => savepoints.push((name, self.effects.len())),
                    Err(e) => return Err(format!("SAVEPOINT: {e}")),
                }
            }
            let done = if large { self.insert_many() } else { self.statement() }?;
            let failed = match done {
                Did::Done(()) => matches!(self.use_portals()?, Did::Failed),
                Did::Failed => true,
            };
            if failed || self.r.chance(0.05) {
                let keep = self.r.below(savepoints.len() as u64 + 1) as usize;
                // The newest savepoint of that name is what the name means.
                let Some((name, _)) = savepoints.get(keep).cloned() else {
                    if failed {
                        break;
                    }
                    continue;
                };
                let at = savepoints.iter().rposition(|s| s.0 == name).unwrap_or(keep);
                let effects = savepoints[at].1;
                match self.c.rollback_to_savepoint(&name) {
                    Ok(()) => {
                        self.effects.truncate(effects);
                        savepoints.truncate(at + 1);
                        self.shared.count("savepoints rolled back")
                    }
                    Err(e) => {
                        self.shared.permit(&e).map_err(|e| format!("ROLLBACK TO: {e}"))?;
                        break;
                    }
                }
            }
            if i > 0 && self.r.chance(0.05) {
                nap(Duration::from_micros(self.r.below(3000)))
            }
        }
        if !self.c.is_failed() && self.p.chance(0.6) && matches!(self.read_portals_out()?, Did::Done(())) {
            self.shared.count("portals read out at the end")
        }
        if !self.c.is_failed() && self.r.chance(0.85) {
            return self.commit(before);
        }
        self.c.rollback();
        self.close_portals()?;
        self.shared.count("transactions rolled back");
        let read = std::mem::take(&mut self.seen);
        self.note_reads(read);
        Ok(())
    }

    /// Reads that stand for themselves.
    fn note_reads(&mut self, seen: Vec<Seen>) {
        if seen.is_empty() {
            return;
        }
        self.shared.journal.lock().seen.extend(seen)
    }

    fn commit(&mut self, before: u64) -> Outcome<()> {
        let broken = self.shared.db.kernel.log.failure().is_some();
        let snapshot = self.c.session.view.snapshot;
        let started = !self.seen.is_empty() || !self.effects.is_empty();
        let result = self.c.commit();
        self.close_portals()?;
        let after = self.c.last_token().0;
        match &result {
            Ok(None) if self.effects.iter().any(Effect::changes) => {
                return Err(format!("changes were committed without a timestamp: {:?}", self.effects));
            }
            Ok(None) if started && !self.read_only && self.holding => self.check_covered(snapshot)?,
            Ok(None) if started && !self.read_only && self.synchronous => {
                // What it saw is a promise.
                let mut j = self.shared.journal.lock();
                j.promised = j.promised.max(snapshot);
            }
            Err(e) => self.shared.permit(e).map_err(|e| format!("COMMIT: {e}"))?,
            _ => {}
        }
        self.note_commit(before, after, result.is_ok(), broken)
    }

    fn autocommitted(&mut self, before: u64, done: bool) -> Outcome<()> {
        let after = self.c.last_token().0;
        if done && after == before && self.effects.iter().any(Effect::changes) {
            return Err(format!("changes were committed without a timestamp: {:?}", self.effects));
        }
        self.note_commit(before, after, done, false)
    }

    fn note_commit(&mut self, before: u64, after: u64, done: bool, broken: bool) -> Outcome<()> {
        let seen = std::mem::take(&mut self.seen);
        if after == before {
            self.note_reads(seen);
            return Ok(());
        }
        // A commit that changes definitions is always waited for.
        let defines = !self.effects.iter().all(|e| matches!(e, Effect::Put { .. } | Effect::Set { .. }));
        let promise = match done {
            true if self.synchronous && self.holding && !defines => Promise::Held,
            true if self.synchronous || defines => Promise::Durable,
            true => Promise::Asynchronous,
            false => Promise::None,
        };
        if broken && promise == Promise::Durable {
            return Err(format!("commit {after} was acknowledged after the log had failed"));
        }
        self.shared.count(match promise {
            Promise::Durable => "commits acknowledged as durable",
            Promise::Asynchronous => "commits acknowledged asynchronously",
            Promise::Held => "commits held",
            Promise::None => "commits without an answer",
        });
        let serializable = self.explicit && self.isolation == Isolation::Serializable;
        let mut j = self.shared.journal.lock();
        j.newest = j.newest.max(after);
        match promise {
            Promise::Durable => j.promised = j.promised.max(after),
            Promise::Asynchronous => j.asynchronous = j.asynchronous.max(after),
            Promise::Held | Promise::None => {}
        }
        let effects = std::mem::take(&mut self.effects);
        j.seen.extend(seen.iter().cloned());
        let seen = if serializable { seen } else { vec![] };
        j.commits.push(Commit { who: self.who, ts: after, effects, seen, promise });
        Ok(())
    }

    fn table(&mut self) -> u8 {
        self.r.below(self.shared.tables as u64) as u8
    }

    fn statement(&mut self) -> Outcome<Did<()>> {
        if self.read_only {
            return self.select();
        }
        if self.r.chance(self.shared.ddl) {
            return self.define();
        }
        match self.r.below(100) {
            0..35 => self.insert(),
            35..65 => self.change(),
            65..78 => self.remove(),
            78..82 => self.insert_many(),
            _ => self.select(),
        }
    }

    /// Runs `f` as one statement on a table.
    pub(super) fn on<T>(
        &mut self,
        table: u8,
        writes: bool,
        mut f: impl FnMut(&mut Self, &Arc<Table>) -> SqlResult<T>,
    ) -> Outcome<Did<T>> {
        let mark = (self.effects.len(), self.seen.len());
        for _ in 0..50 {
            let catalog = self.c.catalog();
            let Some(t) = catalog.table(table_name(table)).cloned() else {
                self.c.fail();
                return Ok(Did::Failed);
            };
            match self.c.start_statement(catalog.version, std::slice::from_ref(&t), writes) {
                Ok(()) => {}
                Err(e) if e.sqlstate() == STALE => continue,
                Err(e) => {
                    self.shared.permit(&e).map_err(|e| format!("a statement's start: {e}"))?;
                    if self.explicit {
                        self.c.fail()
                    }
                    return Ok(Did::Failed);
                }
            }
            let result = f(self, &t);
            let result = match result {
                Ok(v) => self.c.end_statement().map(|_| v),
                Err(e) => {
                    self.c.abort_statement();
                    self.effects.truncate(mark.0);
                    self.seen.truncate(mark.1);
                    Err(e)
                }
            };
            return match result {
                Ok(v) => Ok(Did::Done(v)),
                Err(e) => {
                    self.shared.count(kind(&e));
                    self.shared.permit(&e).map_err(|e| format!("a statement on {}: {e}", t.def.name))?;
                    Ok(Did::Failed)
                }
            };
        }
        Err("a statement met a changed dictionary 50 times".into())
    }

    fn random_row(&mut self) -> (ModelRow, Option<String>) {
        let s = match self.r.chance(0.3) {
            true => Some(shared_text(self.r.below(self.shared.keys))),
            false => text(&mut self.r, self.shared.bulky),
        };
        let row = ModelRow {
            uid: self.shared.uids.fetch_add(1, Ordering::Relaxed),
            k: self.r.below(self.shared.keys) as i64,
            g: (!self.r.chance(0.2)).then(|| self.r.below(6) as i32),
            s: s.as_deref().map(digest),
            code: self.r.below(CODES.len() as u64) as u8,
            n: self.r.below(1000) as i64,
        };
        (row, s)
    }
    fn insert_row(&mut self, table: u8, t: &Arc<Table>) -> SqlResult<()> {
        let (row, s) = self.random_row();
        self.c.insert(t, &values(&row, s.as_deref()))?;
        self.effects.push(Effect::Put { table, uid: row.uid, old: None, new: Some(row) });
        Ok(())
    }
    fn insert(&mut self) -> Outcome<Did<()>> {
        let table = self.table();
        self.on(table, true, |me, t| me.insert_row(table, t))
    }
    fn insert_many(&mut self) -> Outcome<Did<()>> {
        let table = self.table();
        let n = 2 + self.r.below(8);
        let shared = self.r.chance(0.5);
        self.on(table, true, |me, t| match shared && t.kept_up().next().is_none() {
            true => me.insert_shared(table, t, n),
            false => (0..n).try_for_each(|_| me.insert_row(table, t)),
        })
    }
    /// Rows inserted by two threads that this client's transaction is lent to.
    fn insert_shared(&mut self, table: u8, t: &Arc<Table>, n: u64) -> SqlResult<()> {
        let made: Vec<_> = (0..2)
            .map(|_| {
                let made: Vec<_> = (0..n).map(|_| self.random_row()).collect();
                let mut rows = row::RowBatch::new(t.layout.clone(), 0);
                assert!(made.iter().all(|(row, s)| rows.push(&values(row, s.as_deref()))));
                (rows, made.into_iter().map(|m| m.0).collect::<Vec<_>>())
            })
            .collect();
        let inserted = self.c.lend_writing(|loan| {
            let threads: Vec<_> = (made.into_iter())
                .filter_map(|(mut rows, made)| {
                    let (loan, t) = (loan.clone(), t.clone());
                    let work = move || {
                        let mut inserter = loan.inserter().expect("a transaction");
                        inserter.insert_rows(&t, &mut rows).map(|()| made)
                    };
                    thread::spawn("inserter", work).ok()
                })
                .collect();
            let ended: Vec<_> = threads.into_iter().map(thread::JoinHandle::join).collect();
            ended
                .into_iter()
                .map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        })?;
        let inserted: Vec<Vec<ModelRow>> = SqlResult::from_iter::<Vec<SqlResult<_>>>(inserted)?;
        self.shared.count("inserts by threads");
        let put = |row: ModelRow| Effect::Put { table, uid: row.uid, old: None, new: Some(row) };
        self.effects.extend(inserted.into_iter().flatten().map(put));
        Ok(())
    }

    /// The rows that were asked for, as candidates: the caller reads and rechecks them.
    fn candidates(&mut self, t: &Arc<Table>, asked: Asked) -> SqlResult<Vec<Oid>> {
        let mut oids = vec![];
        let by =
            |shape: usize| t.indexes.iter().find(|i| i.def.name.ends_with(&format!("_{shape}"))).cloned();
        match asked {
            Asked::Row(k) | Asked::Key(k) => {
                let shape = if matches!(asked, Asked::Row(_)) { 1 } else { 0 };
                if let Some(i) = by(shape).filter(|_| self.r.chance(0.8)) {
                    let mut key = vec![];
                    i.key.encode(&[ValueRef::Int8(k)], &mut key);
                    self.c.lookup(&i, &key, &mut oids)?;
                    return Ok(oids);
                }
            }
            Asked::Groups(low, high) => {
                if let Some(i) = by(8).filter(|_| self.r.chance(0.6)) {
                    let mut within = Rect { low: [f64::MIN; 6], high: [f64::MAX; 6] };
                    (within.low[0], within.high[0]) = (low.into(), high.into());
                    if self.r.chance(0.4) {
                        // All that lie in the box, the nearest to its middle first.
                        let mut to = [0.0; 6];
                        to[0] = f64::from(low) / 2.0 + f64::from(high) / 2.0;
                        let mut neighbours = Neighbours::default();
                        neighbours.start(WantedNeighbours { to, counted: 1, within, is_bounded: true });
                        let mut bytes = vec![0; t.layout.row_size];
                        while let Some(oid) = neighbours.next(&self.c, t, &i, &mut bytes)? {
                            oids.push(oid)
                        }
                        self.shared.count("neighbours searched");
                        return Ok(oids);
                    }
                    self.shared.count("boxes searched");
                    self.c.search(&i, &within, &mut Search::new(), &mut oids)?;
                    return Ok(oids);
                }
                if let Some(i) = by(2).filter(|_| self.r.chance(0.8)) {
                    let (mut a, mut b) = (vec![], vec![]);
                    i.key.encode(&[ValueRef::Int4(low)], &mut a);
                    i.key.encode(&[ValueRef::Int4(high)], &mut b);
                    let mut scan = IndexScan::default();
                    let backward = self.r.chance(0.5);
                    scan.seek(&self.c, &i, Bound::Included(&a), Bound::Included(&b), backward)?;
                    let mut bytes = vec![0; t.layout.row_size];
                    while let Some(oid) = scan.next(&self.c)? {
                        // An entry stands for the row only while the row has its key.
                        if self.c.read(t, oid, &mut bytes) {
                            let g = decode(&self.c, t, &bytes).g;
                            let mut key = vec![];
                            i.key.encode(&[g.map_or(ValueRef::Null, ValueRef::Int4)], &mut key);
                            if key == scan.key {
                                oids.push(oid)
                            }
                        }
                    }
                    return Ok(oids);
                }
            }
            Asked::All => {}
        }
        if self.r.chance(0.3) {
            return self.lent(t);
        }
        let mut scan = Scan::default();
        scan.start(&self.c, t);
        let mut bytes = vec![0; t.layout.row_size];
        while let Some(oid) = scan.next(&self.c, &mut bytes)? {
            oids.push(oid)
        }
        Ok(oids)
    }

    /// All rows, found by threads that this client's view is lent to, which must read what the client itself
    /// reads.
    fn lent(&mut self, t: &Arc<Table>) -> SqlResult<Vec<Oid>> {
        let parts = Arc::new(Scan::parts(&self.c, t, 1));
        let next = Arc::new(AtomicUsize::new(0));
        let mut found = self.c.lend(|loan| {
            let threads: Vec<_> = (0..2)
                .filter_map(|_| {
                    let (loan, parts, next, t) = (loan.clone(), parts.clone(), next.clone(), t.clone());
                    thread::spawn("reader", move || {
                        let (mut reader, mut scan) = (loan.reader(), Scan::default());
                        let (mut bytes, mut rows) = (vec![0; t.layout.row_size], vec![]);
                        while let Some((n, part)) =
                            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|n| Some((n, parts.get(n)?)))
                        {
                            scan.start_part(Some(part));
                            let c = reader.connection();
                            while let Some(oid) = scan.next(c, &mut bytes)? {
                                rows.push((n, oid, decode(c, &t, &bytes)))
                            }
                        }
                        Ok(rows)
                    })
                    .ok()
                })
                .collect();
            let mut found = vec![];
            for t in threads {
                match t.join() {
                    Ok(rows) => found.append(&mut rows?),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            SqlResult::Ok(found)
        })?;
        self.shared.count("tables read by threads");
        found.sort_by_key(|f| f.0);
        let mut bytes = vec![0; t.layout.row_size];
        for (_, oid, row) in &found {
            if !self.c.read(t, *oid, &mut bytes) || decode(&self.c, t, &bytes) != *row {
                let what = format!("a thread read {row:?}, which the client does not see so");
                return Err(SqlError::new(sqlstate::INTERNAL_ERROR, what));
            }
        }
        Ok(found.into_iter().map(|f| f.1).collect())
    }

    fn asked(&mut self) -> Asked {
        match self.r.below(10) {
            // One of the newest, as a rule.
            0..2 => {
                Asked::Row(self.shared.uids.load(Ordering::Relaxed) - self.r.below(self.shared.keys) as i64)
            }
            2..5 => Asked::Key(self.r.below(self.shared.keys) as i64),
            5..8 => {
                let low = self.r.below(6) as i32;
                Asked::Groups(low, low + self.r.below(3) as i32)
            }
            _ => Asked::All,
        }
    }

    fn select(&mut self) -> Outcome<Did<()>> {
        let table = self.table();
        let asked = self.asked();
        let own = self.effects.clone();
        let share = !self.read_only && self.explicit && self.r.chance(0.1);
        let mut snapshot = 0;
        let outcome = self.on(table, share, |me, t| {
            let at = me.c.session.view.snapshot;
            snapshot = at;
            let oids = me.candidates(t, asked)?;
            let mut bytes = vec![0; t.layout.row_size];
            let mut rows = vec![];
            for oid in oids {
                if !me.c.read(t, oid, &mut bytes) {
                    continue;
                }
                let row = decode(&me.c, t, &bytes);
                if !asked.has(&row) {
                    continue;
                }
                if share {
                    me.c.lock(t, oid, LockStrength::Share, Wait::Block)?;
                }
                rows.push(row)
            }
            me.seen.push(Seen { who: me.who, at, own: own.clone(), table, heaps: t.heaps, asked, rows });
            Ok(())
        })?;
        if matches!(outcome, Did::Done(())) {
            self.shared.count("reads");
            self.check_order(snapshot)?;
            self.check_visible(snapshot)?
        }
        Ok(outcome)
    }

    /// A session's snapshots do not go back, unless the log has failed (kernel: transaction/T4).
    fn check_order(&mut self, snapshot: u64) -> Outcome<()> {
        let newest = std::mem::replace(&mut self.newest, snapshot);
        match snapshot < newest && self.shared.db.kernel.log.failure().is_none() {
            true => Err(format!("a session read as of {snapshot} after it had read as of {newest}")),
            false => Ok(()),
        }
    }
    /// Readers see what is durable, acknowledged asynchronously, or held by their own session.
    fn check_visible(&mut self, snapshot: u64) -> Outcome<()> {
        let durable = self.shared.db.durable_ts();
        if self.explicit && !self.read_only {
            return Ok(());
        }
        if self.holding && !self.shared.asynchronous {
            self.check_covered(snapshot)?
        }
        let mut j = self.shared.journal.lock();
        if durable >= snapshot {
            j.promised = j.promised.max(snapshot);
        } else if !self.shared.asynchronous && !self.holding {
            return Err(format!("a reader was shown commit {snapshot} when only {durable} was durable"));
        }
        Ok(())
    }

    /// Locks each row that was asked for and passes its newest version to `f`, rechecked.
    fn each_locked(
        &mut self,
        t: &Arc<Table>,
        asked: Asked,
        mut f: impl FnMut(&mut Self, Oid, &[u8], ModelRow) -> SqlResult<()>,
    ) -> SqlResult<()> {
        let oids = self.candidates(t, asked)?;
        let mut bytes = vec![0; t.layout.row_size];
        let wait = match self.r.below(10) {
            0 => Wait::NoWait,
            1 => Wait::SkipLocked,
            _ => Wait::Block,
        };
        let most = 1 + self.r.below(4);
        let mut done = 0;
        for oid in oids {
            if !self.c.read(t, oid, &mut bytes) || !asked.has(&decode(&self.c, t, &bytes)) {
                continue;
            }
            match self.c.lock(t, oid, LockStrength::Update, wait)? {
                Locked::Same => {}
                Locked::Changed => {
                    if !self.c.read_newest(t, oid, &mut bytes) {
                        continue;
                    }
                }
                Locked::Gone | Locked::Skipped => continue,
            }
            let row = decode(&self.c, t, &bytes);
            if asked.has(&row) {
                f(self, oid, &bytes, row)?;
                done += 1;
                if done == most {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Short transactions in a row, each of one change.
    fn assign_some(&mut self) -> Outcome<()> {
        for _ in 0..1 + self.r.below(10) {
            if self.shared.over() {
                break;
            }
            let before = self.c.last_token().0;
            if let Some(did) = self.assign()? {
                self.autocommitted(before, matches!(did, Did::Done(())))?
            }
            self.effects.clear()
        }
        Ok(())
    }

    /// Sets a row's number by its name in one go; `None` where that is left to the long way.
    fn assign(&mut self) -> Outcome<Option<Did<()>>> {
        let (table, n) = (self.table(), self.r.below(1000) as i64);
        // One of the first rows, so that clients meet.
        let mut uids = vec![];
        self.on(table, false, |me, t| {
            let mut scan = Scan::default();
            scan.start(&me.c, t);
            let mut bytes = vec![0; t.layout.row_size];
            while uids.len() < 2 && scan.next(&me.c, &mut bytes)?.is_some() {
                uids.push(decode(&me.c, t, &bytes).uid)
            }
            Ok(())
        })?;
        if uids.is_empty() {
            return Ok(None);
        }
        let uid = uids[self.r.below(uids.len() as u64) as usize];
        let catalog = self.c.catalog();
        let Some(t) = catalog.table(table_name(table)).cloned() else { return Ok(None) };
        let index = t.indexes.iter().find(|i| i.def.name == index_name(table, 1));
        let (Some(index), Some(patch)) = (index.and_then(|i| i.point.clone()), Patch::new(&t, &[5])) else {
            return Ok(None);
        };
        let mut key: Numbers = [0; _];
        key[0] = uid;
        let outcome =
            match self.c.assign(catalog.version, &t, &index, &key, &patch, |_| Some(packed(n).word() as u64))
            {
                None => return Ok(None),
                Some(Ok(_)) => Did::Done(()),
                Some(Err(e)) => {
                    self.shared.count(kind(&e));
                    self.shared.permit(&e).map_err(|e| format!("setting a number of {}: {e}", t.def.name))?;
                    Did::Failed
                }
            };
        self.shared.count("rows set in one go");
        self.effects.push(Effect::Set { table, uid, n });
        Ok(Some(outcome))
    }

    fn change(&mut self) -> Outcome<Did<()>> {
        let table = self.table();
        let asked = self.asked();
        self.on(table, true, |me, t| {
            me.each_locked(t, asked, |me, oid, bytes, old| {
                let mut new = old;
                let (fresh, s) = me.random_row();
                let what = 1 + me.r.below(31);
                let mut changes: Vec<(usize, ValueRef<'_>)> = vec![];
                if what & 1 != 0 {
                    new.n = old.n + 1;
                    changes.push((5, ValueRef::Packed(packed(new.n))))
                }
                if what & 6 == 6 {
                    new.k = fresh.k;
                    changes.push((1, ValueRef::Int8(new.k)))
                }
                if what & 2 != 0 {
                    new.g = fresh.g;
                    changes.push((2, new.g.map_or(ValueRef::Null, ValueRef::Int4)))
                }
                if what & 8 != 0 {
                    new.s = fresh.s;
                    changes.push((3, s.as_deref().map_or(ValueRef::Null, ValueRef::Text)))
                }
                if what & 16 != 0 {
                    new.code = fresh.code;
                    changes.push((4, ValueRef::Text(CODES[new.code as usize])))
                }
                me.c.update(t, oid, bytes, &changes)?;
                me.effects.push(Effect::Put { table, uid: old.uid, old: Some(old), new: Some(new) });
                Ok(())
            })
        })
    }
    fn remove(&mut self) -> Outcome<Did<()>> {
        let table = self.table();
        let asked = self.asked();
        self.on(table, true, |me, t| {
            me.each_locked(t, asked, |me, oid, bytes, old| {
                me.c.delete(t, oid, bytes)?;
                me.effects.push(Effect::Put { table, uid: old.uid, old: Some(old), new: None });
                Ok(())
            })
        })
    }

    fn define(&mut self) -> Outcome<Did<()>> {
        let table = self.table();
        let name = table_name(table);
        let shape = self.r.below(SHAPES.len() as u64) as u8;
        let catalog = self.c.catalog();
        let what = match catalog.table(&name) {
            None => 0,
            Some(t) if t.indexes.iter().any(|i| i.def.name == index_name(table, shape)) => {
                2 + 2 * self.r.below(3)
            }
            Some(_) => 1 + self.r.below(3),
        };
        drop(catalog);
        self.change_definition(table, shape, what)
    }
    fn change_definition(&mut self, table: u8, shape: u8, what: u64) -> Outcome<Did<()>> {
        let name = table_name(table);
        let before = self.c.last_token();
        let mut made = None;
        let done = match what {
            0 => self.c.create_table(&name, columns()).map(|heaps| made = Some(heaps)),
            1 => create_index(&mut self.c, table, shape),
            // A table may be named twice.
            2 => {
                let names = vec![crate::Name::from(&name); 1 + self.r.below(2) as usize];
                self.c.truncate(&names).map(|heaps| made = heaps.last().copied())
            }
            3 => self.c.drop_table(&name),
            _ => self.c.drop_index(index_name(table, shape)),
        };
        let failed = done.is_err();
        if let Err(e) = done {
            self.shared.count(kind(&e));
            self.shared.permit(&e).map_err(|e| format!("a change of definitions ({what}) of {name}: {e}"))?;
            // After a failure in the wait for durability the change stands in memory, and may or may not
            // last.
            if self.c.last_token() == before {
                return Ok(Did::Failed);
            }
        }
        self.shared.count("changes of definitions");
        // By now others may have changed the table again; where the log has failed, nobody does.
        let found = || self.c.catalog().table(&name).map_or(0, |t| t.heaps);
        let heaps = || made.unwrap_or_else(found);
        let effect = match what {
            0 => Effect::Create { table, heaps: heaps() },
            1 => Effect::CreateIndex { table, shape },
            2 => Effect::Truncate { table, heaps: heaps() },
            3 => Effect::Drop { table },
            _ => Effect::DropIndex { table, shape },
        };
        self.effects.push(effect);
        Ok(if failed { Did::Failed } else { Did::Done(()) })
    }
}

/// A row's values, with its text.
fn values<'v>(row: &ModelRow, s: Option<&'v str>) -> [ValueRef<'v>; 6] {
    [
        ValueRef::Int8(row.uid),
        ValueRef::Int8(row.k),
        row.g.map_or(ValueRef::Null, ValueRef::Int4),
        s.map_or(ValueRef::Null, ValueRef::Text),
        ValueRef::Text(CODES[row.code as usize]),
        ValueRef::Packed(packed(row.n)),
    ]
}

pub fn create_index(c: &mut Connection, table: u8, shape: u8) -> SqlResult<()> {
    let (columns, unique, kind) = SHAPES[shape as usize];
    let falls = |i| i > 0 && kind == IndexKind::Btree;
    let columns = columns
        .iter()
        .enumerate()
        .map(|(i, c)| IndexColumn { column: *c, desc: falls(i), nulls_first: falls(i) })
        .collect();
    c.create_index(table_name(table), &index_name(table, shape), kind, unique, columns, false, false)
}

/// How an error is counted.
pub(super) fn kind(e: &SqlError) -> &'static str {
    match e.sqlstate() {
        sqlstate::SERIALIZATION_FAILURE => "serialization failures",
        sqlstate::DEADLOCK_DETECTED => "deadlocks",
        sqlstate::LOCK_NOT_AVAILABLE => "lock timeouts",
        sqlstate::UNIQUE_VIOLATION => "unique violations",
        sqlstate::OUT_OF_MEMORY => "memory limit met",
        sqlstate::DISK_FULL => "disk full",
        sqlstate::IO_ERROR => "input/output errors",
        _ => "other errors",
    }
}
