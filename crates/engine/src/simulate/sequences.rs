//! Sequences beside the clients: their values are told, and what was told holds in all later lives.
//!
//! Two sequences, one that only counts and one that is set now and then, back and forth; of the first no
//! value is told twice, and of the second the way that it went is known (durability/sequence/Q1). Values are
//! taken alone and in transactions that roll back, which takes none back.
use super::workload::{Outcome, Shared};
use crate::connection::{Access, Connection, Isolation};
use crate::sequence::{Bounds, Given, SequenceOptions, Which, begin};
use crate::{Catalog, Database};
use ondol_base::sim::Random;
use ondol_base::thread;
use ondol_types::{SqlResult, TypeId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

const COUNTED: &str = "counted";
const SET: &str = "set";
const INCREMENT: i64 = 3;

fn options(name: &str) -> SequenceOptions {
    let (increment, cache) = if name == SET { (INCREMENT, 1) } else { (1, 2) };
    let bounds = Bounds { increment, min: -1_000_000, max: i64::MAX, cycle: false };
    SequenceOptions { ty: TypeId::INT8, start: 1, bounds, cache }
}

/// What is known of the sequences from outside, over all lives.
#[derive(Clone, Default, Debug)]
pub struct Book {
    /// Values of the first that were told.
    told: BTreeSet<i64>,
    /// How far the second one was told to have come, and where its generations began.
    sent: Given,
    began: BTreeMap<u64, (u64, i64)>,
}

impl Book {
    /// The database may be closed well, which begins a generation (durability/sequence/Q9).
    pub fn may_settle(&mut self, db: &Database) {
        if let Some(s) = db.catalog().sequence(SET) {
            let given = s.counter.state().given;
            self.began.insert(given.generation + 1, (given.steps.min(1), given.value));
        }
    }

    /// What a life found holds what was told before.
    pub fn check(&self, db: &Database) -> Result<(), String> {
        let catalog = db.catalog();
        if let Some(s) = catalog.sequence(COUNTED) {
            let (value, _, is_given) = s.state();
            if let Some(last) = self.told.last()
                && (value < *last || !is_given)
            {
                return Err(format!("value {last} of a sequence was told, which is at {value} now"));
            }
        } else if !self.told.is_empty() {
            return Err("a sequence is gone of which values were told".into());
        }
        let Some(is) = given(&catalog, SET) else {
            return match self.sent {
                Given { generation: 0, steps: 0, .. } => Ok(()),
                sent => Err(format!("a sequence is gone that had come to {sent:?}")),
            };
        };
        if (is.generation, is.steps) < (self.sent.generation, self.sent.steps) {
            return Err(format!("a sequence was told to be at {:?}, and is at {is:?}", self.sent));
        }
        let (from, value) = match is.generation {
            0 => (0, 1),
            n => *self.began.get(&n).ok_or_else(|| format!("nobody set the sequence that is at {is:?}"))?,
        };
        let steps = is.steps.max(1) - from.max(1);
        match value + INCREMENT * steps as i64 == is.value {
            true => Ok(()),
            false => Err(format!("a sequence is at {is:?}, which is not on its way from {value}")),
        }
    }
}

fn given(catalog: &Catalog, name: &str) -> Option<Given> {
    catalog.sequence(name).map(|s| s.counter.state().given)
}

/// Makes those that are not there.
pub fn set_up(shared: &Shared) -> Outcome<()> {
    let mut c = shared.db.connect();
    for name in [COUNTED, SET] {
        if shared.over() || shared.db.catalog().sequence(name).is_some() {
            continue;
        }
        if let Err(e) = c.create_sequence(&name.into(), &options(name), begin(1, false), false) {
            shared.permit(&e).map_err(|e| format!("making a sequence: {e}"))?
        }
    }
    Ok(())
}

fn number(shared: &Shared, name: &str) -> Which<'static> {
    Which::Number(shared.db.catalog().sequence(name).map_or(0, |s| s.def.id))
}

/// Takes values and tells them.
pub fn take(shared: Arc<Shared>, mut r: Random, times: u64) -> Outcome<()> {
    let mut c = shared.db.connect();
    for _ in 0..times {
        if shared.over() {
            break;
        }
        if r.chance(0.2) {
            thread::sleep(Duration::from_micros(r.below(3000)))
        }
        match one(&shared, &mut c, &mut r) {
            Ok(()) => {}
            Err(Ended::Wrong(e)) => return Err(format!("sequences: {e}")),
            Err(Ended::Sql(e)) => shared.permit(&e).map_err(|e| format!("a value of a sequence: {e}"))?,
        }
        c.rollback();
    }
    Ok(())
}

enum Ended {
    Sql(ondol_types::SqlError),
    Wrong(String),
}
impl From<ondol_types::SqlError> for Ended {
    fn from(e: ondol_types::SqlError) -> Ended {
        Ended::Sql(e)
    }
}

fn one(shared: &Shared, c: &mut Connection, r: &mut Random) -> Result<(), Ended> {
    let exists = |name| shared.db.catalog().sequence(name).is_some();
    if r.chance(0.6) && exists(COUNTED) {
        if r.chance(0.3) {
            c.begin(Isolation::ReadCommitted, Access::ReadWrite)?
        }
        let values = (0..1 + r.below(4))
            .map(|_| c.next_value(number(shared, COUNTED)))
            .collect::<SqlResult<Vec<_>>>()?;
        c.cover()?;
        let mut book = shared.sequences.lock();
        for value in values {
            shared.count("values of sequences told");
            if !book.told.insert(value) {
                return Err(Ended::Wrong(format!("value {value} was told before")));
            }
        }
        return Ok(());
    }
    if !exists(SET) {
        return Ok(());
    }
    // Nobody else changes it between the change and the look at it.
    let sequence = shared.db.catalog().sequence(SET).cloned();
    let Some(sequence) = sequence else { return Ok(()) };
    let alone = shared.sequence_turn.lock();
    if r.chance(0.3) {
        let (value, is_given) = (r.below(2000) as i64 - 1000, r.chance(0.5));
        {
            // Noted before it may be known.
            let generation = sequence.counter.state().given.generation + 1;
            shared.sequences.lock().began.insert(generation, (u64::from(is_given), value));
        }
        c.set_value(number(shared, SET), value, is_given)?;
        shared.count("sequences set")
    } else {
        c.next_value(number(shared, SET))?;
    }
    let given = sequence.counter.state().given;
    drop(alone);
    c.cover()?;
    let sent = &mut shared.sequences.lock().sent;
    if (given.generation, given.steps) > (sent.generation, sent.steps) {
        *sent = given
    }
    Ok(())
}
