//! Entries that whoever builds an index leaves to the collector, once its transaction is committed: keys that
//! no newest version has any more, and that nobody else will take out.
//!
//! They are charged to the memory limit as they are noted, so that a building that notes too many fails while
//! it can. The commit, which cannot fail, hands them to a collector's queue, which charges them anew.
use crate::charge::Charge;
use ondol_kernel::collect::{Garbage, Item};
use ondol_kernel::kernel::Kernel;
use ondol_kernel::memory::Budget;
use ondol_types::SqlResult;
use std::sync::Arc;

/// Bytes charged at once.
const STEP: usize = 64 << 10;

pub(crate) struct Outdated {
    items: Vec<Item>,
    bytes: usize,
    charge: Charge,
}

impl Outdated {
    pub fn new(budget: &Arc<Budget>) -> Outdated {
        Outdated { items: vec![], bytes: 0, charge: Charge::new(budget.clone()) }
    }
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// Refused with 53200 at the memory limit.
    pub fn note(&mut self, item: Item) -> SqlResult<()> {
        let bytes = self.bytes + item.bytes();
        if bytes > self.charge.bytes() {
            self.charge.grow((bytes - self.charge.bytes()).max(STEP))?
        }
        self.bytes = bytes;
        self.items.push(item);
        Ok(())
    }
    /// Takes over what others noted.
    pub fn append(&mut self, mut other: Outdated) {
        self.items.append(&mut other.items);
        self.bytes += other.bytes;
        self.charge.append(&mut other.charge)
    }
    /// Hands all to the collector in a queue of their own, as of the commit `at`.
    pub fn hand_over(mut self, at: u64, kernel: &Kernel) {
        // It is charged there, item by item.
        self.charge.clear();
        let queue = Arc::new(Garbage::new(&kernel.space.budget));
        let mut fresh = queue.fresh();
        self.items.drain(..).for_each(|item| fresh.push(at, item));
        let unlisted = fresh.is_to_be_listed();
        drop(fresh);
        if unlisted {
            kernel.collector.list(&queue)
        }
    }
}
