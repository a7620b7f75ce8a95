//! Advisory locks: locks of numbers, which mean what their users take them for.
//!
//! - **A1** *Modes.* A number is had by one session alone, or by several that share it. A session that has
//!   it alone may share it as well, and one that is the only sharer may have it alone. Each taking counts,
//!   and is let go by itself.
//! - **A2** *Scopes.* What is taken for a session lasts until it is let go or the session ends, whatever its
//!   transactions come to. What is taken for a transaction ends with it, or when a savepoint from before it
//!   is gone back to, and cannot be let go otherwise. Both are of the same number.
//! - **A3** *Order.* Who finds a number taken queues, and those that come later stand behind it, unless they
//!   have the number in some way already. Whoever lets go, and whoever leaves the queue, tells those that
//!   wait.
//! - **A4** *Deadlock.* Who waits has edges to those who have the number, and to those who stand before it.
//!   They are followed with those of rows, tables and definitions (wait/W6).
//!
//! Locks are the sessions': a crash forgets them.
//!
//! Source: PostgreSQL 15's documentation, 9.27.10 and 13.3.5, and its answers.
use crate::activity::Advised;
use crate::connection::Connection;
use ondol_base::sync::Mutex;
use ondol_kernel::wait::SessionId;
use ondol_types::SqlResult;
use std::collections::{BTreeMap, VecDeque};

/// What is locked: one number, or two, which are never the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Number {
    One(i64),
    Two(i32, i32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    pub number: Number,
    /// For this session alone; otherwise it is shared.
    pub alone: bool,
}

/// All advisory locks of a database.
#[derive(Default)]
pub(crate) struct Advisory {
    numbers: Mutex<BTreeMap<Number, Taken>>,
}

#[derive(Default)]
struct Taken {
    /// How often each session has it: shared, and alone.
    holders: BTreeMap<SessionId, [u32; 2]>,
    /// Who waits, and whether it would have it alone.
    queue: VecDeque<(SessionId, bool)>,
}

impl Taken {
    /// Tells of each that `me` has to wait for (A4).
    fn before(&self, me: SessionId, alone: bool, f: &mut dyn FnMut(SessionId)) {
        let others = self.holders.iter().filter(|(s, _)| **s != me);
        others.filter(|(_, n)| alone || n[1] > 0).for_each(|(s, _)| f(*s));
        // A3
        if !self.holders.contains_key(&me) {
            let earlier = self.queue.iter().take_while(|(s, _)| *s != me);
            earlier.filter(|(_, theirs)| alone || *theirs).for_each(|(s, _)| f(*s))
        }
    }
    fn try_take(&mut self, me: SessionId, alone: bool) -> bool {
        let mut is_free = true;
        self.before(me, alone, &mut |_| is_free = false);
        if is_free {
            self.queue.retain(|(s, _)| *s != me);
            self.holders.entry(me).or_default()[usize::from(alone)] += 1;
        }
        is_free
    }
}

impl Advisory {
    /// Tells of each that is taken or waited for.
    pub fn each(&self, f: &mut dyn FnMut(Advised)) {
        for (number, taken) in &*self.numbers.lock() {
            let mut tell = |session, alone, granted| f(Advised { session, number: *number, alone, granted });
            for (session, [shared, alone]) in &taken.holders {
                if *shared > 0 {
                    tell(*session, false, true)
                }
                if *alone > 0 {
                    tell(*session, true, true)
                }
            }
            taken.queue.iter().for_each(|(session, alone)| tell(*session, *alone, false))
        }
    }
    fn with<R>(&self, number: Number, f: impl FnOnce(&mut Taken) -> R) -> R {
        let mut numbers = self.numbers.lock();
        let taken = numbers.entry(number).or_default();
        let done = f(taken);
        if taken.holders.is_empty() && taken.queue.is_empty() {
            numbers.remove(&number);
        }
        done
    }
    fn let_go(&self, me: SessionId, advice: Advice) {
        self.with(advice.number, |taken| {
            let Some(counts) = taken.holders.get_mut(&me) else { return };
            let count = &mut counts[usize::from(advice.alone)];
            *count = count.saturating_sub(1);
            if *counts == [0, 0] {
                taken.holders.remove(&me);
            }
        })
    }
}

impl Connection {
    /// Takes a lock for the session, or for the rest of the transaction. With `wait` it waits for it;
    /// otherwise it says whether it was free.
    pub fn take_advisory(&mut self, advice: Advice, of_transaction: bool, wait: bool) -> SqlResult<bool> {
        let (me, locks) = (self.session.id(), self.db.advisory.clone());
        let Advice { number, alone } = advice;
        let taken = locks.with(number, |taken| {
            let done = taken.try_take(me, alone);
            if !done && wait {
                taken.queue.push_back((me, alone))
            }
            done
        });
        if !taken && !wait {
            return Ok(false);
        }
        if !taken {
            let theirs = locks.clone();
            let blockers = Box::new(move |f: &mut dyn FnMut(SessionId)| {
                let mut met = vec![];
                theirs.with(number, |taken| taken.before(me, alone, &mut |s| met.push(s)));
                met.into_iter().for_each(f)
            });
            let over = || locks.with(number, |taken| taken.try_take(me, alone));
            let waited = self.wait_for_definition(blockers, None, over);
            if let Err(e) = waited {
                locks.with(number, |taken| taken.queue.retain(|(s, _)| *s != me));
                self.tell_definers();
                return Err(e.detail("The statement waited for an advisory lock."));
            }
        }
        match of_transaction {
            true => self.advice.push(advice),
            false => self.own_advice.push(advice),
        }
        Ok(true)
    }

    /// Lets go of what was taken for the session, once; whether it had it.
    pub fn let_go_of_advisory(&mut self, advice: Advice) -> bool {
        let Some(at) = self.own_advice.iter().rposition(|a| *a == advice) else { return false };
        self.own_advice.swap_remove(at);
        self.db.advisory.let_go(self.session.id(), advice);
        self.tell_definers();
        true
    }

    /// Lets go of all that was taken for the session.
    pub fn let_go_of_all_advisory(&mut self) {
        if self.own_advice.is_empty() {
            return;
        }
        for advice in std::mem::take(&mut self.own_advice) {
            self.db.advisory.let_go(self.session.id(), advice)
        }
        self.tell_definers()
    }

    /// Lets go of what was taken for the transaction when so much was, and later.
    #[inline]
    pub(crate) fn end_advice(&mut self, from: usize) {
        if self.advice.len() > from {
            self.end_advice_from(from)
        }
    }
    #[cold]
    fn end_advice_from(&mut self, from: usize) {
        for advice in self.advice.split_off(from) {
            self.db.advisory.let_go(self.session.id(), advice)
        }
        self.tell_definers()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(l: &Advisory, me: SessionId, alone: bool) -> bool {
        l.with(Number::One(7), |t| t.try_take(me, alone))
    }
    fn queues(l: &Advisory, me: SessionId, alone: bool) {
        l.with(Number::One(7), |t| t.queue.push_back((me, alone)))
    }

    #[test]
    fn numbers_are_shared_or_had_alone() {
        let l = Advisory::default();
        assert!(takes(&l, 1, false) && takes(&l, 2, false));
        assert!(!takes(&l, 1, true), "another shares it");
        queues(&l, 3, true);
        assert!(!takes(&l, 4, false), "one that would have it alone stands before");
        assert!(takes(&l, 2, false), "it shares it already");
        let shared = Advice { number: Number::One(7), alone: false };
        l.let_go(2, shared);
        l.let_go(1, shared);
        assert!(!takes(&l, 3, true), "it was taken twice");
        l.let_go(2, shared);
        assert!(takes(&l, 3, true));
        assert!(takes(&l, 3, false) && !takes(&l, 4, false));
        l.let_go(3, Advice { alone: true, ..shared });
        assert!(takes(&l, 4, false), "it is shared now");
        assert!(l.with(Number::Two(0, 7), |t| t.try_take(5, true)), "another number");
        l.let_go(3, shared);
        l.let_go(4, shared);
        l.let_go(5, Advice { number: Number::Two(0, 7), alone: true });
        assert!(l.numbers.lock().is_empty());
    }
}
