//! What a sequence has given out, in the log.
//!
//! ```text
//! generation 0   steps 1, 2, 3 ... 33            one record covers many steps; the larger pair counts
//! generation 1   steps 0 | 1, 2 ...              begun by whoever sets the sequence, to whatever value
//! ```
//! - **Q1** *The larger (generation, steps) wins*, and brings its value along. So records may be read in any
//!   order, from any stream, twice, and beside a checkpoint's table: what is known at the end is the same.
//!   A maximum of the values would lose what was set backwards, what counts down, and what begins anew.
//! - **Q2** Each value that is given out is a step: one more than before, also where the value is less. A
//!   generation begins when the sequence is set, with no step if the value is yet to be given out, else with
//!   one. Two records of one pair have one value: the sequence makes them one after the other.
//! - **Q3** *Covered before it is sent.* A record says that everything up to its steps is given out, though
//!   the values are given out one by one later. A value may be sent when the record that covers it is
//!   durable. A crash loses the values that were covered and not given out; none is given out twice.
//! - **Q4** A record has a commit timestamp of its own, as if it were a commit that changes no row. So it is
//!   waited for, held and watched as commits are (round/R5), whoever commits later has made it durable, too,
//!   and recovery proves that none is missing (protocol/P6).
//! - **Q5** A dropped sequence is dropped whatever is logged of it later: its number is never used again.
//! - **Q6** Logs and images written before there were pairs have a maximum: of a sequence that only counts
//!   up by one that is generation 0, as many steps as its value.

//! - **Q7** *One word for each sequence.* A counter's state stands under a latch of its own. Only who covers
//!   further values passes the commit latch, with the counter's latch held: no one else may give out
//!   meanwhile, and that latch is never asked for under another one.
//! - **Q8** A record covers [`AHEAD`] values beyond those that are asked for, so that of so many that are
//!   sent one at a time one waits for a round. It is PostgreSQL's number: more would save a commit of its own
//!   little, since that is waited for anyway, and each crash leaves a gap of up to so many.
//! - **Q9** Who ends a database well says exactly what was given out, as a generation of its own
//!   ([`Counter::settle`]), so that only a crash leaves a gap.
//! - **Q10** A volatile counter is none of the log's: there is nothing to cover or to wait for, and it ends
//!   with the process.
use crate::CommitTs;
use crate::error::LogError;
use crate::log::{Log, StreamId};
use ondol_base::sim::mutated;
use ondol_base::sync::{Mutex, MutexGuard};

/// Values that a record covers beyond those that are asked for (Q8).
pub const AHEAD: u64 = 32;

/// How far a sequence has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Given {
    pub generation: u64,
    /// Values given out in the generation.
    pub steps: u64,
    /// The last of them; the first one, if none was.
    pub value: i64,
}

impl Given {
    /// Of a sequence that counts up by one from 1 on (Q6).
    pub fn up_to(value: i64) -> Given {
        Given { generation: 0, steps: value.max(0) as u64, value }
    }
    /// Takes over what another record tells (Q1).
    pub fn merge(&mut self, other: Given) {
        if mutated("sequence_largest_value") {
            if other.value > self.value {
                *self = other
            }
            return;
        }
        if (other.generation, other.steps) > (self.generation, self.steps) {
            *self = other
        }
    }
}

/// By what a sequence goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Not 0.
    pub increment: i64,
    pub min: i64,
    pub max: i64,
    /// Behind its end it begins again.
    pub cycle: bool,
}

impl Bounds {
    /// How many values follow this one.
    fn left(&self, value: i64) -> u64 {
        let (value, step) = (i128::from(value), i128::from(self.increment));
        let room = if step > 0 { i128::from(self.max) - value } else { value - i128::from(self.min) };
        u64::try_from(room.max(0) / step.abs().max(1)).unwrap_or(u64::MAX)
    }
    /// The value that is so many steps on, which [`Bounds::left`] allows.
    fn after(&self, value: i64, steps: u64) -> i64 {
        (i128::from(value) + i128::from(self.increment) * i128::from(steps)) as i64
    }
    fn again(&self) -> i64 {
        if self.increment > 0 { self.min } else { self.max }
    }
}

/// Values that were given out: from the first to the last, an increment apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    pub first: i64,
    pub last: i64,
    /// They may be sent when this is durable (Q3).
    pub covered: CommitTs,
}

/// Why no value is given out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// There is none behind the last one.
    Ended,
    Log(LogError),
}

/// A sequence that is there: what it has given out, and how far that is covered.
pub struct Counter {
    /// Its number in the log.
    pub number: u64,
    stream: StreamId,
    /// Q10
    volatile: bool,
    state: Mutex<State>,
}

/// A counter's state, as its latch guards it.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// Exactly what was given out.
    pub given: Given,
    /// Values that are covered beyond that.
    pub ahead: u64,
    /// When what is covered is durable.
    pub covered: CommitTs,
    /// Who alone may change it, as the caller counts; 0: anyone.
    pub holder: u64,
    /// It has been given up: another counter is in its place, or none.
    pub is_gone: bool,
}

impl Counter {
    /// As it was recovered, or of a sequence whose values are all yet to be given out.
    pub fn new(number: u64, given: Given) -> Counter {
        let state = State { given, ahead: 0, covered: 0, holder: 0, is_gone: false };
        Counter { number, stream: StreamId(0), volatile: false, state: Mutex::new(state) }
    }
    /// Q10
    pub fn volatile(number: u64, given: Given) -> Counter {
        Counter { volatile: true, ..Counter::new(number, given) }
    }
    pub fn is_volatile(&self) -> bool {
        self.volatile
    }
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Gives out up to `many` values, at least one; they end where the bounds do.
    pub fn take(&self, log: &Log, s: &mut State, bounds: &Bounds, many: u64) -> Result<Taken, Refused> {
        let many = many.max(1);
        let mut given = s.given;
        let is_first = given.steps == 0;
        // Values to be covered or given out, behind the one at hand.
        let logs = is_first || s.ahead < many;
        let fetch = if logs { (many - u64::from(is_first)).saturating_add(AHEAD) } else { many };
        let mut first = is_first.then_some(given.value);
        let mut fetched = 0;
        if first.is_none() && bounds.left(given.value) == 0 {
            if !bounds.cycle {
                return Err(Refused::Ended);
            }
            given.value = bounds.again();
            first = Some(given.value);
            fetched = 1;
        }
        let had = u64::from(first.is_some());
        let reached = (fetch - fetched).min(bounds.left(given.value));
        let more = reached.min(many - had);
        let first = first.unwrap_or_else(|| bounds.after(given.value, 1));
        let last = bounds.after(given.value, more);
        let ahead = if logs { reached - more } else { s.ahead - fetched - more };
        given = Given { steps: given.steps + had + more, value: last, ..given };
        if logs && !self.volatile {
            let covers = Given { steps: given.steps + ahead, value: bounds.after(last, ahead), ..given };
            s.covered = log.give(self.stream, self.number, covers).map_err(Refused::Log)?;
        }
        s.given = given;
        s.ahead = ahead;
        Ok(Taken { first, last, covered: s.covered })
    }

    /// Begins a generation: the next value, or if it `is_given` the last one, is this. Gives when that is
    /// durable.
    pub fn set(&self, log: &Log, s: &mut State, value: i64, is_given: bool) -> Result<CommitTs, LogError> {
        let generation = s.given.generation + u64::from(!mutated("sequence_same_generation"));
        let given = Given { generation, steps: u64::from(is_given), value };
        if !self.volatile {
            s.covered = log.give(self.stream, self.number, given)?;
        }
        s.given = given;
        s.ahead = 0;
        Ok(s.covered)
    }

    /// Says exactly what was given out (Q9).
    pub fn settle(&self, log: &Log) -> Result<(), LogError> {
        let mut s = self.state();
        if s.ahead == 0 || s.is_gone || self.volatile {
            return Ok(());
        }
        let (value, is_given) = (s.given.value, s.given.steps > 0);
        self.set(log, &mut s, value, is_given).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_larger_pair_wins_in_any_order() {
        let given = |generation, steps, value| Given { generation, steps, value };
        // Up, back by setval, down past zero, and around.
        let all = [given(0, 33, 33), given(0, 66, 66), given(1, 1, 5), given(1, 34, -28), given(2, 0, 9)];
        for first in 0..all.len() {
            for second in 0..all.len() {
                let mut known = all[first];
                known.merge(all[second]);
                let mut other = all[second];
                other.merge(all[first]);
                assert_eq!(known, other);
                assert_eq!(known, all[first.max(second)]);
                known.merge(all[first]);
                assert_eq!(known, other, "twice is once");
            }
        }
    }
}
