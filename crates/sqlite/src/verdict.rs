//! Whether sharing pays, by what is measured (`measure`) and what a checkpoint has to do.
//!
//! Sharing spares a checkpoint the copying of pages. It costs a call for each run, and later, when the WAL is
//! overwritten: each block that was shared is written to a new place, and each commit that is synced must
//! make that durable too. What is measured on probe files is not all of it, so sharing must promise a part of
//! the whole time from one checkpoint to the next.
use crate::measure::Costs;

/// What sharing must save beyond what it costs, as a part of the time from one checkpoint to the next: less
/// could not be seen, nor be told from an error of what was measured.
const MARGIN: f64 = 0.2;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// The shortest run that is shared, in blocks of 4 KiB; none pays where there is none.
    pub least_blocks: Option<u32>,
    /// Microseconds that sharing all such runs saves in one checkpoint.
    pub saved_us: f64,
    /// Microseconds that it costs the commits of one WAL.
    pub lost_us: f64,
}

impl Verdict {
    pub fn share(&self) -> bool {
        self.least_blocks.is_some()
    }
}

/// The verdict on runs that each spare so many blocks, in a WAL that was synced `syncs` times in the
/// `cycle_us` since the last checkpoint. Runs shorter than `at_least` are out of the question.
pub fn verdict(
    costs: &Costs,
    spared_blocks: impl Iterator<Item = u32>,
    syncs: u64,
    at_least: u32,
    cycle_us: f64,
) -> Verdict {
    let block = costs.copy_block_us - costs.shared_block_us;
    let lost_us = syncs as f64 * (costs.sync_shared_us - costs.sync_us).max(0.0);
    if block <= 0.0 {
        return Verdict { least_blocks: None, saved_us: 0.0, lost_us };
    }
    let least = ((costs.share_us / block).ceil().min(f64::from(u32::MAX)) as u32).max(at_least).max(1);
    let saved_us = spared_blocks
        .filter(|blocks| *blocks >= least)
        .fold(0.0, |saved, blocks| saved + f64::from(blocks) * block - costs.share_us);
    let pays = saved_us - lost_us > cycle_us * MARGIN;
    Verdict { least_blocks: pays.then_some(least), saved_us, lost_us }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(costs: Costs, runs: &[u32], syncs: u64) -> Option<u32> {
        let cycle_us = syncs as f64 * costs.sync_us + 1500.0 * costs.copy_block_us;
        verdict(&costs, runs.iter().copied(), syncs, 1, cycle_us).least_blocks
    }

    #[test]
    fn sharing_pays_where_it_saves_more_than_it_costs() {
        // As measured on XFS over a quick disk.
        let quick = Costs {
            sync_us: 190.0,
            sync_shared_us: 350.0,
            copy_block_us: 6.0,
            shared_block_us: 2.0,
            share_us: 80.0,
            rounds: 5,
        };
        assert_eq!(of(quick, &[128; 4], 1), None, "NORMAL: saves something, but too little of the whole");
        let bare = Costs { shared_block_us: 0.0, share_us: 20.0, ..quick };
        assert_eq!(of(bare, &[128; 4], 1), Some(4), "NORMAL: no sync for a commit");
        assert_eq!(of(quick, &[128; 4], 240), None, "FULL: each commit's sync is dearer");
        assert_eq!(of(quick, &[19; 40], 0), None, "short runs");
        assert_eq!(of(quick, &[], 0), None, "nothing to share");
        let slow = Costs { copy_block_us: 400.0, sync_us: 900.0, sync_shared_us: 1300.0, ..quick };
        assert_eq!(of(slow, &[128; 4], 1), Some(1), "a device whose writes are slow");
        assert_eq!(of(slow, &[128; 4], 240), None, "and FULL: half of it is lost again");
        let dear = Costs { shared_block_us: 7.0, ..quick };
        assert_eq!(of(dear, &[4000], 0), None, "overwriting costs more than copying saves");
        assert_eq!(verdict(&quick, [128].into_iter(), 0, 64, 0.0).least_blocks, Some(64));
    }
}
