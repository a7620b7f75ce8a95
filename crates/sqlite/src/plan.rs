//! Which runs of a checkpoint can be shared instead of copied.
//!
//! SQLite backfills the newest version, among the frames `from..to`, of each page, in ascending order of pages. All
//! of it is known before the first page is written, so a run is shared as a whole when SQLite writes its first page,
//! and the writes of the others find their work done.
//!
//! - **C1** A run's pages follow each other in the database, and its frames in the WAL and in one span.
//! - **C2** Every (page, frame) pair of a run is one that this checkpoint backfills, so no reader needs the
//!   database's older version of any of its pages: sharing early is as right as writing late.
use crate::layout::SPAN;

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
    /// First frame, from 0.
    pub frame: u64,
    pub pages: u32,
    pub state: State,
}

impl Run {
    pub fn frame_of(&self, page: u32) -> Option<u64> {
        let n = page.checked_sub(self.page)?;
        (n < self.pages).then(|| self.frame + u64::from(n))
    }
}

/// Runs of at least `least` pages, ascending. `numbers` are the pages of the frames from `first` on. Page 1 is never
/// part of a run: its bytes in the database differ from those in the WAL (`care`).
pub fn runs(numbers: &[u32], first: u64, least: u32) -> Vec<Run> {
    let mut newest: Vec<(u32, u64)> =
        numbers.iter().zip(first..).map(|(page, frame)| (*page, frame)).collect();
    newest.sort_unstable();
    let last_of_page = |i: usize| newest.get(i + 1).is_none_or(|next| next.0 != newest[i].0);
    let mut runs: Vec<Run> = Vec::new();
    for i in (0..newest.len()).filter(|i| last_of_page(*i)) {
        let (page, frame) = newest[i];
        if page <= 1 {
            continue;
        }
        match runs.last_mut() {
            Some(run)
                if run.page + run.pages == page
                    && run.frame + u64::from(run.pages) == frame
                    && !frame.is_multiple_of(SPAN) =>
            {
                run.pages += 1
            }
            _ => runs.push(Run { page, frame, pages: 1, state: State::Waiting }),
        }
    }
    runs.retain(|run| run.pages >= least);
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_versions_form_runs() {
        // Frames 10.. hold pages 1, 5, 6, 7, 6, 8, 9: page 6 of frame 12 is outdated.
        let found = runs(&[1, 5, 6, 7, 6, 8, 9], 10, 1);
        let short: Vec<_> = found.iter().map(|r| (r.page, r.frame, r.pages)).collect();
        assert_eq!(short, [(5, 11, 1), (6, 14, 1), (7, 13, 1), (8, 15, 2)]);
        assert_eq!(runs(&[1, 5, 6, 7, 6, 8, 9], 10, 2).len(), 1);
        assert_eq!(found[3].frame_of(9), Some(16));
        assert_eq!(found[3].frame_of(10), None);
        assert_eq!(found[3].frame_of(7), None);
    }

    #[test]
    fn a_run_ends_with_its_span() {
        let found = runs(&[2, 3, 4, 5], SPAN - 2, 1);
        let short: Vec<_> = found.iter().map(|r| (r.page, r.frame, r.pages)).collect();
        assert_eq!(short, [(2, SPAN - 2, 2), (4, SPAN, 2)]);
        assert!(runs(&[1], 0, 1).is_empty());
    }
}
