//! Which runs of a checkpoint can be shared instead of copied.
//!
//! Of the frames from `nBackfill` to `nBackfillAttempted` SQLite backfills those that hold the newest version
//! of a page of the database, among all that are committed, in ascending order of pages. All of it is known
//! before the first page is written, so a run is shared as a whole when SQLite writes its first page, and the
//! writes of the others find their work done.
//!
//! - **C1** A run's pages follow each other in the database, and its places in the WAL and in one span.
//! - **C2** This checkpoint backfills every page of a run, so no reader needs the database's older version of
//!   any of them: sharing early is as right as writing late.
//! - **C3** A run may have *gaps*, pages whose newest version stands elsewhere: what the run gives the
//!   database for them is overwritten when SQLite comes to them, in this same checkpoint. It neither begins
//!   nor ends with one.
//! - **C4** A page whose newest frame is away is in no run, not even in a gap (exchange/X5).
use crate::layout::SPAN;
use crate::wal::Entry;
use ondol_base::sim::mutated;

/// The longest gap in a run.
pub const GAP: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Waiting,
    Shared,
    /// Sharing failed: its pages are copied.
    Copied,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// First page, from 1.
    pub page: u32,
    /// First place.
    pub place: u64,
    pub pages: u32,
    /// Pages that need not be copied: a gap is written twice, so it counts against.
    pub spared: u32,
    pub state: State,
}

impl Run {
    /// Whether it has no gaps. Only such a run is exchanged: in a gap's place stands another frame.
    pub fn dense(&self) -> bool {
        self.spared == self.pages
    }
    pub fn place_of(&self, page: u32) -> Option<u64> {
        let n = page.checked_sub(self.page)?;
        (n < self.pages).then(|| self.place + u64::from(n))
    }
}

/// What a checkpoint is about to do. Frames are numbered from 0.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// It backfills these frames,
    pub from: u64,
    pub to: u64,
    /// of so many that are committed.
    pub committed: u64,
    /// Pages of the database.
    pub pages: u32,
}

/// The run that a page may be in.
pub fn run_of(runs: &[Run], page: u32) -> Option<&Run> {
    let after = runs.partition_point(|run| run.page <= page);
    after.checked_sub(1).map(|i| &runs[i])
}

/// Runs that spare at least `least` pages, ascending. `entries` are those of all committed
/// frames; `gap` is the longest gap. Page 1 is never part of a run: its bytes in the database differ from
/// those in the WAL (`care`).
pub fn runs(entries: &[Entry], work: Work, least: u32, gap: usize) -> Vec<Run> {
    let newest = newest(entries, work);
    let mut runs = Vec::new();
    let mut at = 0;
    while let Some(&(page, place)) = newest.get(at) {
        let fits = |i: usize| {
            let n = (i - at) as u64;
            newest.get(i).is_some_and(|next| u64::from(next.0) == u64::from(page) + n)
                && place % SPAN + n < SPAN
        };
        let in_place = |i: usize| newest[i].1 == place + (i - at) as u64;
        let (mut last, mut gaps, mut i) = (at, 0, at + 1);
        while fits(i) && i - last <= gap + 1 {
            if in_place(i) {
                gaps += i - last - 1;
                last = i;
            }
            i += 1;
        }
        let pages = (last + 1 - at) as u32;
        let spared = pages.saturating_sub(2 * gaps as u32);
        if spared >= least {
            runs.push(Run { page, place, pages, spared, state: State::Waiting });
            at = last;
        }
        at += 1;
    }
    runs
}

/// What SQLite backfills: page and place, ascending, without page 1.
fn newest(entries: &[Entry], work: Work) -> Vec<(u32, u64)> {
    let in_run = |page: u32| page > 1 && page <= work.pages;
    let mut all: Vec<(u32, usize)> = entries
        .iter()
        .map(Entry::page)
        .zip(0..)
        .skip(work.from as usize)
        .filter(|entry| in_run(entry.0))
        .collect();
    all.sort_unstable();
    let last_of_page = |i: usize| all.get(i + 1).is_none_or(|next| next.0 != all[i].0);
    (0..all.len())
        .filter(|i| last_of_page(*i) && (all[*i].1 as u64) < work.to)
        .filter(|i| !entries[all[*i].1].away() || mutated("exchange_again"))
        .map(|i| (all[i].0, u64::from(entries[all[i].1].place())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of frames with these pages and places.
    fn of(frames: &[(u32, u32)], least: u32) -> Vec<(u32, u64, u32)> {
        let entries: Vec<Entry> = frames.iter().map(|(page, place)| Entry::new(*page, *place)).collect();
        let all = entries.len() as u64;
        let work = Work { from: 0, to: all, committed: all, pages: u32::MAX };
        runs(&entries, work, least, GAP).iter().map(|r| (r.page, r.place, r.pages)).collect()
    }

    #[test]
    fn the_newest_versions_form_runs() {
        // Page 6 of place 12 is outdated.
        let frames = [(1, 10), (5, 11), (6, 12), (7, 13), (6, 14), (8, 15), (9, 16)];
        assert_eq!(of(&frames, 1), [(5, 11, 3), (8, 15, 2)], "page 6 is a gap");
        assert_eq!(of(&frames, 2), [(8, 15, 2)]);
        let run = Run { page: 8, place: 15, pages: 2, spared: 2, state: State::Waiting };
        assert_eq!([7, 8, 9, 10].map(|page| run.place_of(page)), [None, Some(15), Some(16), None]);
    }

    #[test]
    fn a_gap_is_shared_with_its_run_where_that_pays() {
        let mut frames: Vec<_> = (20..40).map(|page| (page, 100 + page)).collect();
        frames.extend([(23, 7), (24, 8), (20, 9)]);
        assert_eq!(of(&frames, 15), [(21, 121, 19)], "19 pages, two of them gaps");
        assert!(of(&frames, 16).is_empty());
        // Pages that this checkpoint does not backfill end a run.
        frames.retain(|(page, _)| *page != 30);
        assert_eq!(of(&frames, 5), [(21, 121, 9), (31, 131, 9)]);
        // Nor is a gap too long.
        frames.extend((32..37).map(|page| (page, page)));
        assert_eq!(of(&frames, 5), [(21, 121, 9), (32, 32, 5)]);
    }

    #[test]
    fn what_sqlite_leaves_for_later_is_in_no_run() {
        let entries: Vec<Entry> = (2..20).chain([5]).map(|page| Entry::new(page, page + 100)).collect();
        let of = |to, pages| -> Vec<_> {
            let work = Work { from: 0, to, committed: 19, pages };
            runs(&entries, work, 1, GAP).iter().map(|r| (r.page, r.pages)).collect()
        };
        assert_eq!(of(19, 100), [(2, 18)]);
        assert_eq!(of(18, 100), [(2, 3), (6, 14)], "page 5 has a later version");
        assert_eq!(of(10, 100), [(2, 3), (6, 6)]);
        assert_eq!(of(19, 8), [(2, 7)], "the database has shrunk");
    }

    #[test]
    fn a_run_ends_with_its_span() {
        let last = SPAN as u32 - 2;
        let frames = [(2, last), (3, last + 1), (4, last + 2), (5, last + 3)];
        assert_eq!(of(&frames, 2), [(2, SPAN - 2, 2), (4, SPAN, 2)]);
        assert!(of(&[(1, 0)], 1).is_empty());
    }
}
