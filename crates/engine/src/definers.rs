//! Claims: what a transaction makes, changes or drops is its own until it ends, and what it rests on stays.
//!
//! ```text
//! look - claim ... wait for those who have it - look again - change the draft - commit - publish - let go
//! ```
//! Transactions that change definitions go on side by side. Where two want one thing, the later waits until
//! the earlier one's transaction has ended, and then goes by what that has left.
//!
//! - **G1** *Claim, then look.* Who makes something claims its name before it looks whether that is free. Who
//!   changes or drops something looks, claims all that this takes, and looks again, until it has claimed what
//!   it would claim by what it sees. What is claimed stays as it is in the newest dictionary, so what is
//!   found then is true until the end. What others have not committed is not there: who would change it
//!   does not wait for it.
//! - **G2** *Names.* Tables, indexes, views and types have one space of names in each schema, in which each
//!   is claimed for itself; a table that is dropped is claimed with its indexes. A function is claimed by its
//!   name and arguments, a schema by its name.
//! - **G3** *What is rested on is shared.* The role as which something is made, or to which something is
//!   given; types of columns, arguments and other types; types and functions whose names stand in the text of
//!   a default or a check; what a view's query names; a table whose rows a
//!   function returns, which must stay; the schema that something is made in, and one whose name stands in
//!   such a text. Who would change or drop that claims it alone: it waits for the sharers, and sees then what
//!   they have made of it.
//! - **G4** *Order.* Claims of one thing are given in the order in which they were asked for, but first to
//!   who shares it and would own it, since the others wait for it, too.
//! - **G5** *Letting go.* A claim is let go when the transaction's rows are installed, its draft is published
//!   or forgotten, and its marks are taken away; or when a savepoint from before the claim has been gone back
//!   to. Whoever lets go, and whoever leaves the queue, tells those that wait.
//! - **G6** *Deadlock.* Who waits for a claim has edges to those who have it, and to those who stand before
//!   it in the queue. They are followed with those of rows and of tables' users (wait/W6): who closes a cycle
//!   gets 40P01. Later edges lead to those who run only.
//! - **G7** *Claims before marks.* A table is marked, so that no statement uses it (connection/N1), by who
//!   has claimed its name: one at a time.
//!
//! Claims are the sessions', not the database's: a crash forgets them, with the transactions that had them.
use crate::catalog::Catalog;
use crate::connection::Connection;
use crate::name::{Name, TEMPORARY};
use ondol_base::sim::mutated;
use ondol_base::sync::Mutex;
use ondol_kernel::wait::SessionId;
use ondol_types::SqlResult;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

pub mod claims;

/// What can be claimed (G2).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Thing {
    /// A name of tables, indexes, views and types, with what has it.
    Name(Name),
    /// That a table stays.
    Stay(Name),
    /// A function's name and arguments, in the schema of that number.
    Function(u32, String),
    /// A name of schemas.
    SchemaName(String),
    /// A name of roles, with the role that has it.
    Role(String),
    /// That the schema of that number stays, under its name.
    Schema(u32),
}

impl Thing {
    /// Whether nobody else can want it (temporary/E3).
    fn is_temporary(&self) -> bool {
        match self {
            Thing::Name(name) | Thing::Stay(name) => name.schema == TEMPORARY,
            Thing::Schema(schema) => *schema == TEMPORARY,
            Thing::Function(..) | Thing::SchemaName(_) | Thing::Role(_) => false,
        }
    }
}

impl fmt::Display for Thing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Thing::Name(name) | Thing::Stay(name) => write!(f, "\"{}\"", name.name),
            Thing::Function(_, signature) => write!(f, "function {signature}"),
            Thing::Role(name) => write!(f, "role \"{name}\""),
            Thing::SchemaName(name) => write!(f, "schema \"{name}\""),
            Thing::Schema(number) => write!(f, "schema {number}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub thing: Thing,
    /// For this transaction alone; otherwise it is shared.
    pub alone: bool,
}

/// All claims of a database.
#[derive(Default)]
pub(crate) struct Definers {
    things: Mutex<BTreeMap<Thing, Claimed>>,
}

#[derive(Default)]
struct Claimed {
    owner: Option<SessionId>,
    sharers: Vec<SessionId>,
    /// Who waits, and whether it would own it.
    queue: VecDeque<(SessionId, bool)>,
}

enum Entered {
    Had,
    Taken,
    Queued,
}

impl Claimed {
    fn has(&self, me: SessionId, alone: bool) -> bool {
        self.owner == Some(me) || !alone && self.sharers.contains(&me)
    }
    /// Tells of each that `me` has to wait for (G6).
    fn before(&self, me: SessionId, alone: bool, f: &mut dyn FnMut(SessionId)) {
        let mut tell = |s: SessionId| {
            if s != me {
                f(s)
            }
        };
        self.owner.into_iter().for_each(&mut tell);
        if alone {
            self.sharers.iter().copied().for_each(&mut tell)
        }
        // G4
        if !self.sharers.contains(&me) {
            let earlier = self.queue.iter().take_while(|(s, _)| *s != me);
            earlier.filter(|(_, theirs)| alone || *theirs).for_each(|(s, _)| tell(*s))
        }
    }
    fn try_take(&mut self, me: SessionId, thing: &Thing, alone: bool) -> bool {
        let mut is_free = true;
        self.before(me, alone, &mut |_| is_free = false);
        // A table that two change at a time has its heaps given up under others, which ends the process.
        let is_table = matches!(thing, Thing::Name(_) | Thing::Stay(_));
        if is_free || !is_table && mutated("claims_not_waited_for") {
            self.queue.retain(|(s, _)| *s != me);
            match alone {
                true => self.owner = Some(me),
                false => self.sharers.push(me),
            }
            return true;
        }
        false
    }
    fn is_idle(&self) -> bool {
        self.owner.is_none() && self.sharers.is_empty() && self.queue.is_empty()
    }
}

impl Definers {
    fn enter(&self, me: SessionId, claim: &Claim) -> Entered {
        let mut things = self.things.lock();
        let claimed = things.entry(claim.thing.clone()).or_default();
        if claimed.has(me, claim.alone) {
            return Entered::Had;
        }
        if claimed.try_take(me, &claim.thing, claim.alone) {
            return Entered::Taken;
        }
        match claimed.sharers.contains(&me) {
            true => claimed.queue.push_front((me, claim.alone)),
            false => claimed.queue.push_back((me, claim.alone)),
        }
        Entered::Queued
    }
    fn try_take(&self, me: SessionId, claim: &Claim) -> bool {
        self.things.lock().get_mut(&claim.thing).is_some_and(|c| c.try_take(me, &claim.thing, claim.alone))
    }
    fn before(&self, me: SessionId, claim: &Claim, f: &mut dyn FnMut(SessionId)) {
        let mut met = vec![];
        if let Some(claimed) = self.things.lock().get(&claim.thing) {
            claimed.before(me, claim.alone, &mut |s| met.push(s))
        }
        met.into_iter().for_each(f)
    }
    fn leave(&self, me: SessionId, claim: &Claim) {
        self.drop_from(claim, |claimed| claimed.queue.retain(|(s, _)| *s != me))
    }
    fn let_go(&self, me: SessionId, claim: &Claim) {
        self.drop_from(claim, |claimed| match claim.alone {
            true => claimed.owner = claimed.owner.filter(|s| *s != me),
            false => claimed.sharers.retain(|s| *s != me),
        })
    }
    fn drop_from(&self, claim: &Claim, f: impl FnOnce(&mut Claimed)) {
        let mut things = self.things.lock();
        let Some(claimed) = things.get_mut(&claim.thing) else { return };
        f(claimed);
        if claimed.is_idle() {
            things.remove(&claim.thing);
        }
    }
}

impl Connection {
    /// Claims what is wanted by what the dictionary says, for the rest of the transaction, and waits for
    /// those who have it (G1). Outside of a transaction [`Connection::rollback`] lets go. Gives the
    /// dictionary of the last look: in a later one there may be what was not there to be claimed.
    pub fn claim(&mut self, wanted: impl Fn(&Catalog) -> Vec<Claim>) -> SqlResult<Arc<Catalog>> {
        loop {
            let mut is_new = false;
            let catalog = self.catalog();
            for claim in wanted(&catalog) {
                is_new |= self.take_claim(claim)?
            }
            if !is_new {
                return Ok(catalog);
            }
        }
    }

    /// Whether the claim was not had before.
    fn take_claim(&mut self, claim: Claim) -> SqlResult<bool> {
        if claim.thing.is_temporary() {
            return Ok(false);
        }
        if !claim.alone && mutated("claims_not_shared") {
            return Ok(false);
        }
        let (me, definers) = (self.session.id(), self.db.definers.clone());
        match definers.enter(me, &claim) {
            Entered::Had => return Ok(false),
            Entered::Taken => {}
            Entered::Queued => {
                let (theirs, asked) = (definers.clone(), claim.clone());
                let blockers = Box::new(move |f: &mut dyn FnMut(SessionId)| theirs.before(me, &asked, f));
                let waited =
                    self.wait_for_definition(blockers, None, || definers.try_take(me, &claim)).map_err(|e| {
                        let thing = &claim.thing;
                        e.detail(format!(
                            "The statement waited for another transaction that changes {thing}, or rests on it."
                        ))
                    });
                if waited.is_err() {
                    definers.leave(me, &claim);
                    self.tell_definers();
                    return waited.map(|()| false);
                }
            }
        }
        self.defining = true;
        self.claims.push(claim);
        Ok(true)
    }

    /// Lets go of the claims that were made when there were so many, and later; the caller tells (G5).
    pub(crate) fn let_go_of_claims(&mut self, from: usize) {
        let me = self.session.id();
        for claim in self.claims.drain(from..) {
            self.db.definers.let_go(me, &claim)
        }
    }
    pub(crate) fn tell_definers(&self) {
        if !mutated("claims_let_go_untold") {
            self.db.kernel.waits.changed()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(alone: bool) -> Claim {
        Claim { thing: Thing::Name("t".into()), alone }
    }
    fn takes(d: &Definers, me: SessionId, alone: bool) -> bool {
        matches!(d.enter(me, &claim(alone)), Entered::Taken)
    }
    fn before(d: &Definers, me: SessionId, alone: bool) -> Vec<SessionId> {
        let mut met = vec![];
        d.before(me, &claim(alone), &mut |s| met.push(s));
        met
    }

    #[test]
    fn claims_are_given_in_order() {
        let d = Definers::default();
        assert!(takes(&d, 1, false) && takes(&d, 2, false));
        assert!(matches!(d.enter(1, &claim(false)), Entered::Had));
        assert!(!takes(&d, 3, true), "two share it");
        assert!(!takes(&d, 4, false), "one that would own it waits");
        assert_eq!(before(&d, 3, true), [1, 2]);
        assert_eq!(before(&d, 4, false), [3], "those who share it are in nobody's way who would");
        // Who shares it stands before those who wait for it.
        assert!(!takes(&d, 2, true));
        assert_eq!(before(&d, 2, true), [1]);
        assert_eq!(before(&d, 3, true), [1, 2, 2]);
        d.let_go(1, &claim(false));
        assert!(!d.try_take(3, &claim(true)) && !d.try_take(4, &claim(false)));
        assert!(d.try_take(2, &claim(true)));
        assert!(matches!(d.enter(2, &claim(false)), Entered::Had));
        d.let_go(2, &claim(true));
        assert!(!d.try_take(4, &claim(false)), "one stands before it");
        // It gives up.
        d.leave(3, &claim(true));
        assert!(d.try_take(4, &claim(false)));
        d.let_go(2, &claim(false));
        d.let_go(4, &claim(false));
        assert!(d.things.lock().is_empty());
    }
}
