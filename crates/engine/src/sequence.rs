//! Sequences: what they are, and how connections take values from them.
//!
//! ```text
//! definition (dictionary, transactional) ──names──> counter (log, never undone)
//!     ALTER, RESTART, TRUNCATE RESTART IDENTITY: another counter takes its place, with the transaction
//!     nextval, setval: the counter goes on, or begins a generation, at once
//! ```
//! - **S1** *Two lives.* A definition is changed as tables are: by a draft, seen by others at commit. The
//!   counter under it has a number of its own (dictionary/D2), and what it gave out stays given out, whatever
//!   becomes of the transaction.
//! - **S2** *A definition that changes how values go on gets another counter*, which begins where the old one
//!   stood. From then on the old one is held: whoever else wants a value of it waits until the definer's
//!   transaction ends. With its commit the old one is gone, and who waited takes from the new one; with its
//!   rollback it goes on. So no value comes from both.
//! - **S3** *Values are covered before they are told* (durability/sequence/Q3). A connection remembers the
//!   newest timestamp that covers what it was given. A commit of its own is later, and waits, if commits do.
//!   Every other statement that shows rows waits for it at its end; with asynchronous commits, it is seen to
//!   that a round follows.
//! - **S4** *Numbers of objects come from a counter, too* (dictionary/D2). They need not be waited for: they
//!   are used by definitions, whose commit is later.
//! - **S5** What a counter's drop leaves in the log is taken out when nobody can name it: after the commit
//!   that dropped it, after the rollback that took it back, or, where a crash came between, at the next
//!   opening.
//! - **S6** The counter of a temporary sequence is volatile (durability/sequence/Q10), as the rows of
//!   temporary tables are (temporary/E2), and so is that of an unlogged one (temporary/E8).
//!
//! A crash leaves the counters where they were covered to: values are lost, none is given out twice. A
//! connection's cached values (CACHE) are its own, and are lost with it.
use crate::acl::{Privileges, SELECT, UPDATE, USAGE};
use crate::catalog::{Catalog, Relation};
use crate::connection::{Access, Connection};
use crate::database::Database;
use crate::error;
use crate::name::{Name, Path, USUAL_PATH};
use crate::rights::RightsOf;
use crate::role::BOOTSTRAP;
use crate::temporary::is_temporary;
use ondol_base::sim::mutated;
pub use ondol_durability::Given;
pub use ondol_durability::sequence::Bounds;
use ondol_durability::sequence::{Counter, Refused, Taken};
use ondol_kernel::wait::SessionId;
use ondol_types::{SqlError, SqlResult, TypeId, name, sqlstate};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A sequence as the dictionary tells of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SequenceOptions {
    /// smallint, integer or bigint: what its bounds are within.
    pub ty: TypeId,
    pub start: i64,
    pub bounds: Bounds,
    /// Values that a connection takes at once.
    pub cache: i64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SequenceDef {
    pub id: u32,
    /// The number of its schema.
    pub schema: u32,
    pub name: String,
    pub options: SequenceOptions,
    /// The counter's number.
    pub counter: u32,
    /// Where the counter begins.
    pub initial: Given,
}

impl SequenceDef {
    pub fn full_name(&self) -> Name {
        Name::new(self.schema, &*self.name)
    }
    /// temporary/E8
    pub fn is_unlogged(&self) -> bool {
        is_temporary(self.counter) && !is_temporary(self.id)
    }
}

/// Where a new counter begins: the value that comes next, or, if it is given, the last one.
pub fn begin(value: i64, is_given: bool) -> Given {
    Given { generation: 0, steps: u64::from(is_given), value }
}

/// A definition with its counter.
pub struct Sequence {
    pub def: SequenceDef,
    pub(crate) counter: Arc<Counter>,
}

impl Sequence {
    pub(crate) fn new(def: SequenceDef, recovered: Option<Given>) -> Arc<Sequence> {
        let given = recovered.unwrap_or(def.initial);
        let counter = Arc::new(match is_temporary(def.counter) {
            true => Counter::volatile(def.counter.into(), given),
            false => Counter::new(def.counter.into(), given),
        });
        Arc::new(Sequence { def, counter })
    }
    /// Another definition of the same counter.
    pub(crate) fn redefined(&self, def: SequenceDef) -> Arc<Sequence> {
        Arc::new(Sequence { def, counter: self.counter.clone() })
    }
    /// The last value, how many are covered behind it, and whether it was given out.
    pub fn state(&self) -> (i64, u64, bool) {
        let s = *self.counter.state();
        (s.given.value, s.ahead, s.given.steps > 0)
    }
}

/// What a connection remembers of the values that it was given.
#[derive(Default)]
pub(crate) struct Sequences {
    /// Of each sequence, by its number.
    last: BTreeMap<u32, Last>,
    /// The one that gave a value last.
    newest: Option<u32>,
    /// Those that were used lately, in the dictionary of that version.
    version: u64,
    known: BTreeMap<u32, Arc<Sequence>>,
    /// The setting `search_path`, by which names are looked up.
    path: Option<String>,
    /// What was given is covered when this is durable; 0: it is (S3).
    covered: u64,
}

#[derive(Clone, Copy, Default)]
struct Last {
    counter: u32,
    /// `None`: it was not asked, or only set.
    value: Option<i64>,
    /// Cached: this value and those up to the end come next.
    next: i64,
    left: u64,
}

/// The counters that a transaction has hold of, and what becomes of them at its end (S2, S5).
#[derive(Default)]
pub(crate) struct Counters {
    pub held: Vec<Arc<Counter>>,
    pub dropped: Vec<Arc<Counter>>,
    pub made: Vec<Arc<Counter>>,
    /// Made, and given up by going back to a savepoint.
    pub orphans: Vec<Arc<Counter>>,
}

impl Counters {
    /// For savepoints: held, dropped, made.
    pub fn counts(&self) -> [usize; 3] {
        [self.held.len(), self.dropped.len(), self.made.len()]
    }
}

fn no_relation(name: &str) -> SqlError {
    SqlError::new(sqlstate::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
}

/// The sequence that a text names, as `nextval` takes it: looked up by the path.
pub fn sequence_named<'a>(catalog: &'a Catalog, path: &Path, text: &str) -> SqlResult<&'a Arc<Sequence>> {
    let names = name::split(text)?;
    let found = match &names[..] {
        [name] => catalog.find(path, name).map(|f| f.1),
        [schema, name] => {
            let missing = || SqlError::new("3F000", format!("schema \"{schema}\" does not exist"));
            let schema = catalog.schema(schema).ok_or_else(missing)?;
            catalog.relations.get(&Name::new(schema.number, &**name))
        }
        _ => {
            let message = format!("improper relation name (too many dotted names): {}", names.join("."));
            return Err(SqlError::new(sqlstate::SYNTAX_ERROR, message));
        }
    };
    match found {
        Some(Relation::Sequence(s)) => Ok(s),
        Some(_) => {
            let message = format!("\"{}\" is not a sequence", names.last().map_or("", String::as_str));
            Err(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message))
        }
        None => Err(no_relation(&names.join("."))),
    }
}

/// What says which sequence is meant: its number, or a name that is looked up when it is used.
#[derive(Clone, Copy, Debug)]
pub enum Which<'a> {
    Number(u32),
    Named(&'a str),
    /// A number that was computed: it is looked at whether the role may use it.
    Asked(u32),
}

fn yet_undefined(what: &str) -> SqlError {
    SqlError::new("55000", format!("{what} is not yet defined in this session"))
}

impl Connection {
    /// Runs `f` with the sequence that is meant. One that is known is found without touching what other
    /// sessions read, too.
    fn with_sequence<R>(
        &mut self,
        which: Which<'_>,
        privileges: Privileges,
        f: impl FnOnce(&mut Connection, &Arc<Sequence>) -> SqlResult<R>,
    ) -> SqlResult<R> {
        let version = self.catalog_version();
        if self.sequences.version != version {
            self.sequences.known.clear();
            self.sequences.version = version
        }
        let (number, asks) = match which {
            Which::Number(number) => (number, false),
            Which::Asked(number) => (number, true),
            Which::Named(text) => {
                let catalog = self.catalog();
                let path = match &self.sequences.path {
                    Some(listed) => Path::of(&catalog, listed),
                    None => Path::of(&catalog, USUAL_PATH),
                };
                (sequence_named(&catalog, &path, text)?.def.id, true)
            }
        };
        if asks && self.role != BOOTSTRAP {
            self.may_use(number, privileges)?
        }
        let sequence = match self.sequences.known.remove(&number) {
            Some(known) => known,
            None => self.catalog().sequence_by_id(number).cloned().ok_or_else(|| {
                let message = format!("could not open relation with OID {number}");
                SqlError::new(sqlstate::UNDEFINED_TABLE, message)
            })?,
        };
        let done = f(self, &sequence);
        if self.sequences.version == version {
            self.sequences.known.insert(number, sequence);
        }
        done
    }
    /// Whether the connection's role may do one of these with a sequence that a plan did not know.
    #[cold]
    fn may_use(&self, number: u32, privileges: Privileges) -> SqlResult<()> {
        let catalog = self.catalog();
        let Some(sequence) = catalog.sequence_by_id(number) else { return Ok(()) };
        match catalog.privileges(self.role, RightsOf::Sequence, number, privileges) {
            0 => {
                let message = format!("permission denied for sequence {}", sequence.def.name);
                Err(SqlError::new(sqlstate::INSUFFICIENT_PRIVILEGE, message))
            }
            _ => Ok(()),
        }
    }
    /// The setting `search_path`, by which names of sequences are looked up that are computed.
    pub fn set_search_path(&mut self, listed: &str) {
        self.sequences.path = Some(listed.to_string())
    }

    /// A session's own sequences go on in any transaction.
    fn refuse_reading(&self, sequence: &Sequence, what: &str) -> SqlResult<()> {
        match self.transaction_access() {
            Some(Access::ReadOnly) if !is_temporary(sequence.def.id) => Err(SqlError::new(
                sqlstate::READ_ONLY_SQL_TRANSACTION,
                format!("cannot execute {what}() in a read-only transaction"),
            )),
            _ => Ok(()),
        }
    }

    /// nextval
    pub fn next_value(&mut self, which: Which<'_>) -> SqlResult<i64> {
        self.with_sequence(which, USAGE | UPDATE, |me, sequence| {
            me.refuse_reading(sequence, "nextval")?;
            me.next_of(sequence)
        })
    }
    fn next_of(&mut self, sequence: &Arc<Sequence>) -> SqlResult<i64> {
        let id = sequence.def.id;
        let increment = sequence.def.options.bounds.increment;
        let last = self.sequences.last.entry(id).or_default();
        let value = if last.counter == sequence.def.counter && last.left > 0 {
            last.left -= 1;
            let value = last.next;
            if last.left > 0 {
                last.next += increment
            }
            value
        } else {
            let (taken, counter, increment) = self.take(sequence)?;
            self.sequences.covered = self.sequences.covered.max(taken.covered);
            let steps = (i128::from(taken.last) - i128::from(taken.first)) / i128::from(increment);
            let left = u64::try_from(steps).unwrap_or(0);
            let next = if left > 0 { taken.first + increment } else { taken.first };
            self.sequences.last.insert(id, Last { counter, value: None, next, left });
            taken.first
        };
        if let Some(last) = self.sequences.last.get_mut(&id) {
            last.value = Some(value)
        }
        self.sequences.newest = Some(id);
        Ok(value)
    }
    /// Takes as many values from the counter as a connection caches; gives the counter's number and its
    /// increment with them.
    fn take(&mut self, sequence: &Arc<Sequence>) -> SqlResult<(Taken, u32, i64)> {
        self.with_counter(sequence, |me, sequence, s| {
            let options = &sequence.def.options;
            let many = u64::try_from(options.cache).unwrap_or(1);
            let taken = sequence.counter.take(&me.db.kernel.log, s, &options.bounds, many);
            let taken = taken.map_err(|e| match e {
                Refused::Log(e) => error::log(e),
                Refused::Ended => {
                    let (what, end) = match options.bounds.increment > 0 {
                        true => ("maximum", options.bounds.max),
                        false => ("minimum", options.bounds.min),
                    };
                    let name = &sequence.def.name;
                    let message = format!("nextval: reached {what} value of sequence \"{name}\" ({end})");
                    SqlError::new("2200H", message)
                }
            })?;
            Ok((taken, sequence.def.counter, options.bounds.increment))
        })
    }
    /// Runs `f` on the counter's state, when nobody else has hold of it (S2).
    fn with_counter<R>(
        &mut self,
        sequence: &Arc<Sequence>,
        f: impl FnOnce(&mut Connection, &Sequence, &mut ondol_durability::sequence::State) -> SqlResult<R>,
    ) -> SqlResult<R> {
        let me = self.session.id();
        let mut newer: Option<Arc<Sequence>> = None;
        loop {
            let current = newer.as_ref().unwrap_or(sequence);
            let counter = current.counter.clone();
            let mut s = counter.state();
            if s.is_gone {
                drop(s);
                let id = sequence.def.id;
                let found = self.catalog().sequence_by_id(id).cloned();
                let found = found.ok_or_else(|| no_relation(&sequence.def.name))?;
                if found.def.counter == current.def.counter {
                    // Its transaction has yet to say what is in its place.
                    return Err(no_relation(&sequence.def.name));
                }
                newer = Some(found);
                continue;
            }
            if s.holder == 0 || s.holder == me {
                return f(self, current, &mut s);
            }
            drop(s);
            let theirs = counter.clone();
            let blockers = move |f: &mut dyn FnMut(SessionId)| match theirs.state().holder {
                0 => {}
                holder => f(holder),
            };
            let over = || {
                let s = counter.state();
                s.is_gone || s.holder == 0 || s.holder == me
            };
            self.wait_for_definition(Box::new(blockers), None, over)?;
        }
    }

    /// currval
    pub fn current_value(&mut self, which: Which<'_>) -> SqlResult<i64> {
        self.with_sequence(which, USAGE | SELECT, |me, sequence| {
            let known = me.sequences.last.get(&sequence.def.id).and_then(|l| l.value);
            known.ok_or_else(|| {
                let name = &sequence.def.name;
                yet_undefined(&format!("currval of sequence \"{name}\""))
            })
        })
    }
    /// pg_sequence_last_value: the last value that the sequence gave to anybody, if it gave one.
    pub fn last_value_of(&mut self, which: Which<'_>) -> SqlResult<Option<i64>> {
        self.with_sequence(which, USAGE | SELECT, |_, sequence| {
            let (last, _, is_called) = sequence.state();
            Ok(is_called.then_some(last))
        })
    }
    /// lastval
    pub fn last_value(&mut self) -> SqlResult<i64> {
        let missing = || yet_undefined("lastval");
        let id = self.sequences.newest.ok_or_else(missing)?;
        self.catalog().sequence_by_id(id).ok_or_else(missing)?;
        if self.role != BOOTSTRAP {
            self.may_use(id, USAGE | SELECT)?
        }
        self.sequences.last.get(&id).and_then(|l| l.value).ok_or_else(missing)
    }
    /// setval
    pub fn set_value(&mut self, which: Which<'_>, value: i64, is_given: bool) -> SqlResult<i64> {
        self.with_sequence(which, UPDATE, |me, sequence| {
            me.refuse_reading(sequence, "setval")?;
            let (covered, counter) = me.with_counter(sequence, |me, sequence, s| {
                let bounds = &sequence.def.options.bounds;
                if value < bounds.min || value > bounds.max {
                    let message = format!(
                        "setval: value {value} is out of bounds for sequence \"{}\" ({}..{})",
                        sequence.def.name, bounds.min, bounds.max
                    );
                    return Err(SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, message));
                }
                let covered = sequence.counter.set(&me.db.kernel.log, s, value, is_given);
                Ok((covered.map_err(error::log)?, sequence.def.counter))
            })?;
            let mine = &mut me.sequences;
            mine.covered = mine.covered.max(covered);
            let last = mine.last.entry(sequence.def.id).or_default();
            let known = if is_given { Some(value) } else { last.value };
            *last = Last { counter, value: known, next: 0, left: 0 };
            Ok(value)
        })
    }
    /// What `SELECT * FROM sequence` shows: the last value, how many are covered, whether it was given out.
    pub fn sequence_state(&self, id: u32) -> SqlResult<(i64, i64, bool)> {
        let catalog = self.catalog();
        let sequence = catalog.sequence_by_id(id).ok_or_else(|| {
            SqlError::new(sqlstate::UNDEFINED_TABLE, format!("there is no sequence of number {id}"))
        })?;
        let (value, ahead, is_given) = sequence.state();
        Ok((value, ahead as i64, is_given))
    }
    /// Whoever shows what the sequence has given out shows what others' commits cover.
    pub fn show_sequence(&mut self, id: u32) -> SqlResult<(i64, i64, bool)> {
        let catalog = self.catalog();
        if let Some(sequence) = catalog.sequence_by_id(id) {
            let covered = sequence.counter.state().covered;
            self.sequences.covered = self.sequences.covered.max(covered)
        }
        self.sequence_state(id)
    }
    /// pg_get_serial_sequence: the name of the sequence that goes with the column, as `nextval` takes it.
    pub fn serial_sequence(&self, table: &str, column: &str) -> SqlResult<Option<String>> {
        let catalog = self.catalog();
        let names = name::split(table)?;
        let bare = names.last().map_or("", String::as_str);
        let listed = self.sequences.path.as_deref().unwrap_or(USUAL_PATH);
        let relation = match &names[..] {
            [schema, name] => {
                let number = catalog.schema(schema).map(|s| s.number);
                number.and_then(|n| catalog.relations.get(&Name::new(n, &**name)))
            }
            _ => catalog.find(&Path::of(&catalog, listed), bare).map(|f| f.1),
        };
        let found = relation.and_then(Relation::table).ok_or_else(|| no_relation(&names.join(".")))?;
        let Some(at) = found.def.column(column) else {
            let message = format!("column \"{column}\" of relation \"{bare}\" does not exist");
            return Err(SqlError::new(sqlstate::UNDEFINED_COLUMN, message));
        };
        let mut owned = found.def.columns[at].sequences();
        let sequence = owned.next().and_then(|id| catalog.sequence_by_id(id));
        Ok(sequence.map(|s| catalog.qualified(&s.def.full_name())))
    }
    /// DISCARD SEQUENCES
    pub fn forget_sequences(&mut self) {
        self.sequences.last.clear();
        self.sequences.newest = None
    }

    /// What the connection was given may be told after this (S3).
    pub fn cover(&mut self) -> SqlResult<()> {
        match self.sequences.covered {
            0 => Ok(()),
            _ => self.cover_given(),
        }
    }
    #[cold]
    fn cover_given(&mut self) -> SqlResult<()> {
        let covered = std::mem::take(&mut self.sequences.covered);
        if mutated("sequence_uncovered") || self.db.durable_ts() >= covered {
            return Ok(());
        }
        // Where it fails it stays to be waited for: there may be cached values.
        let done = self.wait_or_hold(covered);
        if done.is_err() {
            self.sequences.covered = covered
        }
        done
    }
    /// A commit of the connection's has covered what it was given.
    #[inline]
    pub(crate) fn covered_by_commit(&mut self) {
        self.sequences.covered = 0
    }

    /// Nobody else takes from the counter until the transaction ends (S2). Its name is claimed. Gives what
    /// it has given out.
    pub(crate) fn hold_counter(&mut self, counter: &Arc<Counter>) -> Given {
        let mut s = counter.state();
        if s.holder == 0 {
            s.holder = self.session.id();
            self.counters.held.push(counter.clone())
        }
        s.given
    }
    /// Goes back to what was done about counters then; the caller tells.
    pub(crate) fn restore_counters(&mut self, [held, dropped, made]: [usize; 3]) {
        let counters = &mut self.counters;
        counters.orphans.extend(counters.made.drain(made..));
        counters.dropped.truncate(dropped);
        self.let_go_of_counters(held)
    }
    /// Lets go of the counters that were held when so many were, and later; the caller tells.
    pub(crate) fn let_go_of_counters(&mut self, from: usize) {
        self.counters.held.drain(from..).for_each(|c| c.state().holder = 0)
    }
    /// The transaction ends: counters that nobody names any more are gone (S5). Before they are let go of.
    pub(crate) fn end_counters(&mut self, committed: bool) {
        let counters = &mut self.counters;
        let mut gone = std::mem::take(if committed { &mut counters.dropped } else { &mut counters.made });
        gone.append(&mut counters.orphans);
        counters.dropped.clear();
        counters.made.clear();
        for counter in gone {
            counter.state().is_gone = true;
            if counter.is_volatile() {
                continue;
            }
            // What is not logged, for want of a log that takes it, is taken out at the next opening.
            let _ = self.db.kernel.log.system(ondol_durability::System::SequenceDrop { id: counter.number });
        }
    }
}

impl Database {
    /// Says of each sequence exactly what it has given out (durability/sequence/Q9).
    pub(crate) fn settle_sequences(&self) {
        let catalog = self.catalog();
        let log = &self.kernel.log;
        for counter in catalog.sequences().map(|s| &*s.counter).chain([&self.objects]) {
            if counter.settle(log).is_err() {
                return;
            }
        }
    }
}
