//! What a database's WALs and checkpoints really took, as far as this process saw: it corrects what is
//! measured on probe files (`measure`).
//!
//! A *cycle* is a WAL's syncs since the last checkpoint, and a checkpoint up to the sync of the database. Of
//! the last few cycles that copied, the time of a block replaces the probe's, which is too short to see a
//! device that is quick only at first. And where sharing has taken longer, for each frame, than copying did,
//! it is left for a while, each time for longer.
//!
//! Sharing's gain is in its checkpoint, its loss in the commits behind it. So a cycle tells of sharing when
//! the checkpoint before it shared too, and of copying when neither did. The first checkpoint that shares
//! after one that copied is compared at once, checkpoint with checkpoint: if it took longer there is no gain.
use crate::measure::{Costs, quartile};
use std::collections::VecDeque;

/// Cycles that are remembered of each kind.
const CYCLES: usize = 5;
/// Cycles that copying is kept at first, where sharing took longer.
const PATIENCE: u32 = 8;
const MOST_PATIENCE: u32 = 512;
/// Blocks of a checkpoint that tell what one takes.
const BLOCKS: u64 = 64;
/// Blocks that a sync writes more where it makes an allocation durable.
const ALLOCATION: f64 = 2.0;

/// A block that takes longer keeps the device busy, not the processor.
const SLOW_US: f64 = 100.0;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cycle {
    pub frames: u64,
    /// The time of all syncs of the WAL.
    pub syncs_us: f64,
    /// From the first page to the database's sync.
    pub checkpoint_us: f64,
    pub blocks_copied: u64,
    pub blocks_shared: u64,
}

/// The last few of some numbers.
#[derive(Debug, Default)]
struct Last(VecDeque<f64>);

impl Last {
    fn note(&mut self, number: f64) {
        self.0.truncate(CYCLES - 1);
        self.0.push_front(number);
    }
    fn quartile(&self, quarters: usize) -> Option<f64> {
        quartile(self.0.iter().copied(), quarters)
    }
}

#[derive(Debug, Default)]
pub struct Observed {
    block_us: Last,
    /// Microseconds for each frame, of whole cycles, and of the checkpoints alone that copied.
    copying: Last,
    sharing: Last,
    checkpoints: Last,
    /// The last checkpoint shared, so the commits behind it pay for that.
    shared: bool,
    /// The last checkpoint that had something to do.
    last_us: f64,
    /// Cycles that copying is still kept.
    wait: u32,
    patience: u32,
}

impl Observed {
    pub fn note(&mut self, cycle: Cycle) {
        if cycle.frames == 0 {
            return;
        }
        let each = (cycle.syncs_us + cycle.checkpoint_us) / cycle.frames as f64;
        let checkpoint = cycle.checkpoint_us / cycle.frames as f64;
        self.last_us = cycle.checkpoint_us;
        let shares = cycle.blocks_shared > 0;
        match (std::mem::replace(&mut self.shared, shares), shares) {
            (true, true) => self.sharing.note(each),
            (false, false) => {
                self.copying.note(each);
                self.checkpoints.note(checkpoint);
            }
            _ => (),
        }
        if !shares {
            self.wait = self.wait.saturating_sub(1);
            if cycle.blocks_copied >= BLOCKS {
                self.block_us.note(cycle.checkpoint_us / cycle.blocks_copied as f64);
            }
        }
        let longer =
            |shared: Option<f64>, copied: Option<f64>| shared.zip(copied).is_some_and(|(s, c)| s > c);
        if shares
            && (longer(self.sharing.quartile(2), self.copying.quartile(2))
                || longer(Some(checkpoint), self.checkpoints.quartile(3)))
        {
            self.patience = (self.patience * 2).clamp(PATIENCE, MOST_PATIENCE);
            self.wait = self.patience;
            // It is tried anew then, as things are then.
            self.sharing = Last::default();
        }
    }

    /// Microseconds of the last checkpoint.
    pub fn last_us(&self) -> f64 {
        self.last_us
    }

    /// Whether sharing has just shown to take longer.
    pub fn forbids(&self) -> bool {
        self.wait > 0
    }

    /// Microseconds for each frame, in cycles that copied and that shared.
    pub fn rates(&self) -> [(&'static str, Option<f64>); 2] {
        [("observed_copying_us", self.copying.quartile(2)), ("observed_sharing_us", self.sharing.quartile(2))]
    }

    /// The costs of the probe, as far as they were not seen to be other: twice at least.
    pub fn correct(&self, mut costs: Costs) -> Costs {
        if self.block_us.0.len() > 1
            && let (Some(least), Some(most)) = (self.block_us.quartile(1), self.block_us.quartile(3))
            // A checkpoint's own sync is in it once.
            && least - costs.sync_us / BLOCKS as f64 > costs.copy_block_us
        {
            costs.copy_block_us = least - costs.sync_us / BLOCKS as f64;
            // Where blocks are slow, so is what an allocation writes.
            costs.sync_shared_us = costs.sync_shared_us.max(costs.sync_us + ALLOCATION * most);
            if least > SLOW_US {
                // A shared block is written in any case, and one round of a probe on such a device says
                // nothing of the difference.
                costs.shared_block_us = 0.0;
            }
        }
        costs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::verdict;

    const QUICK: Costs = Costs {
        sync_us: 190.0,
        sync_shared_us: 350.0,
        copy_block_us: 6.0,
        shared_block_us: 2.0,
        share_us: 80.0,
        rounds: 5,
    };

    fn copied(block_us: f64, sync_us: f64) -> Cycle {
        Cycle {
            frames: 1000,
            syncs_us: 240.0 * sync_us,
            checkpoint_us: 500.0 * block_us,
            blocks_copied: 500,
            blocks_shared: 0,
        }
    }
    fn shared(checkpoint_us: f64, sync_us: f64) -> Cycle {
        Cycle { checkpoint_us, blocks_copied: 20, blocks_shared: 480, ..copied(0.0, sync_us) }
    }
    fn would_share(observed: &Observed, syncs: u64) -> bool {
        !observed.forbids() && verdict(&observed.correct(QUICK), [120; 4].into_iter(), syncs, 20, 0.0).share()
    }
    /// With few syncs, as in synchronous=NORMAL, and runs that do not pay by the probe's costs.
    fn shares(observed: &Observed) -> bool {
        !observed.forbids() && verdict(&observed.correct(QUICK), [19; 25].into_iter(), 1, 1, 0.0).share()
    }

    #[test]
    fn a_device_that_is_slow_later_is_shared_on() {
        let mut observed = Observed::default();
        observed.note(copied(6.0, 190.0));
        observed.note(copied(6.0, 190.0));
        assert!(!shares(&observed), "as the probe says");
        // A disk's mood: one checkpoint that takes long decides nothing.
        observed.note(copied(4000.0, 200.0));
        assert!(!shares(&observed));
        for _ in 0..4 {
            observed.note(copied(4000.0, 900.0));
        }
        assert!(shares(&observed));
        // And back, when it is quick again.
        for _ in 0..5 {
            observed.note(copied(6.0, 190.0));
        }
        assert!(!shares(&observed));
    }

    #[test]
    fn a_probe_on_a_slow_device_is_not_believed() {
        let mut observed = Observed::default();
        (0..2).for_each(|_| observed.note(copied(1000.0, 7000.0)));
        let probe = Costs { sync_us: 13_000.0, copy_block_us: 400.0, shared_block_us: 900.0, ..QUICK };
        assert!(verdict(&observed.correct(probe), [120; 4].into_iter(), 1, 1, 0.0).share());
    }

    #[test]
    fn where_blocks_are_slow_allocations_are_too() {
        let mut observed = Observed::default();
        for _ in 0..5 {
            observed.note(copied(1000.0, 7000.0));
        }
        assert!(would_share(&observed, 1));
        assert!(!would_share(&observed, 240), "480 blocks spared, and two more for each of 240 commits");
    }

    #[test]
    fn sharing_that_takes_longer_is_left_for_longer_each_time() {
        let mut observed = Observed::default();
        let mut tried = Vec::new();
        for cycle in 0..200 {
            if cycle > 4 && shares(&observed) {
                tried.push(cycle);
                observed.note(shared(10_000.0, 30_000.0));
            } else {
                observed.note(copied(4000.0, 900.0));
            }
        }
        assert!((4..=20).contains(&tried.len()), "{tried:?}");
        // Where it takes less time, nothing is left.
        let mut observed = Observed::default();
        (0..5).for_each(|_| observed.note(copied(4000.0, 900.0)));
        for _ in 0..50 {
            assert!(shares(&observed));
            observed.note(shared(10_000.0, 1500.0));
        }
    }

    #[test]
    fn one_checkpoint_that_shares_and_takes_longer_is_enough() {
        let mut observed = Observed::default();
        (0..2).for_each(|_| observed.note(copied(40.0, 200.0)));
        observed.note(shared(15_000.0, 200.0));
        assert!(!observed.forbids(), "less than the 20 ms of copying");
        observed.note(shared(15_000.0, 400.0));
        assert!(observed.forbids(), "but its commits lost more");
        let mut observed = Observed::default();
        (0..2).for_each(|_| observed.note(copied(40.0, 200.0)));
        observed.note(shared(25_000.0, 200.0));
        assert!(observed.forbids());
        // The commits behind it are slow for it, and no measure of copying.
        let rate = observed.rates()[0];
        observed.note(copied(40.0, 9000.0));
        assert_eq!(observed.rates()[0], rate);
    }
}
