//! What is told about a connection's database: `PRAGMA ondol_status` and the table of that name.
use super::Database;
use super::checkpoint::{LEAST_BLOCKS, REFUSALS};
use crate::care;
use crate::ground;
use crate::layout::VERSION;
use crate::measure;
use crate::settings::Mode;
use crate::sharing::{self, Counts};
use crate::status::Facts;
use crate::verdict::Verdict;
use crate::window::Window;
use ondol_base::media::Promise;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

impl Database {
    /// What `PRAGMA ondol_status` and the table of that name show.
    pub fn status(&self) -> Facts {
        // SAFETY: database/D1.
        let wal = unsafe { self.wal.as_ref() };
        let layout = match wal {
            None => "unopened",
            Some(wal) if wal.layout.is_some() => "ondol",
            Some(_) => "sqlite",
        };
        let mode = match self.settings.mode {
            Mode::Copy => "copy",
            Mode::Remap => "remap",
            Mode::Auto => "auto",
            Mode::Pmem => "pmem",
        };
        let Counts { checkpoints, runs_shared, pages_shared, pages_copied } = &self.target.counts;
        let [checkpoints, runs, shared, copied] =
            [checkpoints, runs_shared, pages_shared, pages_copied].map(|n| n.load(Relaxed));
        let page = care::header(&self.below).map_or(0, |h| h.page);
        let how = self.mechanism(wal.filter(|wal| wal.layout.is_some()).map_or(VERSION, |wal| wal.version));
        let sharing = match (self.target.refusal().map(str::to_string).or(self.target.crowded()), runs) {
            (Some(why), _) => why,
            (None, 0) => "not tried yet".to_string(),
            (None, _) => "works".to_string(),
        };
        let mut facts: Facts = vec![
            ("version", env!("CARGO_PKG_VERSION").into()),
            ("database", self.path.to_string_lossy().into_owned().into()),
            ("mode", mode.into()),
            ("wal_layout", layout.into()),
            ("mechanism", how.name().into()),
            ("sharing", sharing.into()),
            ("decision", self.decision().into()),
            ("least_blocks", u64::from(self.least_blocks()).into()),
            ("checkpoints", checkpoints.into()),
            ("runs_shared", runs.into()),
            ("pages_shared", shared.into()),
            ("pages_copied", copied.into()),
            ("bytes_shared", (shared * page).into()),
            ("bytes_copied", (copied * page).into()),
            ("mean_run_pages", if runs == 0 { 0.0 } else { shared as f64 / runs as f64 }.into()),
        ];
        if let Some(costs) = measure::known(sharing::folder(&self.path), how) {
            facts.extend(costs.named().map(|(name, us)| (name, us.into())));
        }
        let observed = self.target.choice.observed.lock().unwrap_or_else(PoisonError::into_inner);
        facts.extend(observed.rates().into_iter().filter_map(|(name, us)| Some((name, us?.into()))));
        drop(observed);
        self.mapping_facts(&mut facts);
        facts
    }

    /// What is mapped, and what that promises.
    fn mapping_facts(&self, facts: &mut Facts) {
        if self.settings.mode != Mode::Pmem {
            facts.push(("promise", "what SQLite promises on files".into()));
            return;
        }
        // SAFETY: database/D1.
        let wal = unsafe { self.wal.as_ref() }.and_then(|wal| wal.window.as_ref());
        let windows: Vec<&Window> =
            self.window.iter().chain(self.journal.iter().chain(wal).map(|named| &named.window)).collect();
        let medium = match (self.window.as_ref(), self.window.as_ref().and_then(Window::promise)) {
            (None, _) => match self.target.crowded() {
                Some(why) => format!("nothing is mapped: {why}"),
                None => "nothing is mapped: the database is read-only".to_string(),
            },
            (_, Some(Promise::Fence)) => "persistent memory: mapped with MAP_SYNC".to_string(),
            (_, Some(Promise::Sync)) => "mapped page cache: MAP_SYNC is refused here".to_string(),
            (Some(window), None) => match window.refusal() {
                Some(why) => format!("nothing is mapped: {why}"),
                None => "nothing is mapped yet".to_string(),
            },
        };
        let promise = match self.window.as_ref().and_then(Window::promise) {
            Some(Promise::Fence) => {
                "what SQLite promises on files: a sync is a fence if only this connection wrote; otherwise fdatasync as well"
            }
            _ => "what SQLite promises on files: every sync is the kernel's",
        };
        let mapped = [
            ("database", self.window.as_ref()),
            ("journal", self.journal.as_ref().map(|named| &named.window)),
            ("wal", wal.map(|named| &named.window)),
        ]
        .into_iter()
        .filter(|(_, window)| window.is_some_and(|window| window.promise().is_some()))
        .map(|(name, _)| name)
        .collect::<Vec<_>>()
        .join(", ");
        let mut counts = self.past;
        windows.iter().for_each(|window| counts += window.counts);
        facts.extend([
            ("medium", medium.into()),
            ("mapped", mapped.into()),
            ("stores", ground::stores().into()),
            ("bytes_stored", counts.bytes_stored.into()),
            ("bytes_written", counts.bytes_written.into()),
            ("fences", counts.fences.into()),
            ("kernel_syncs", counts.kernel_syncs.into()),
            ("promise", promise.into()),
        ]);
    }

    fn verdict(&self) -> Option<Verdict> {
        *self.target.choice.verdict.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The shortest run that is shared as things are; 0 where none is.
    fn least_blocks(&self) -> u32 {
        match self.settings.mode {
            Mode::Copy | Mode::Pmem => 0,
            Mode::Remap => self.settings.least_blocks.unwrap_or(LEAST_BLOCKS),
            Mode::Auto => self.verdict().and_then(|v| v.least_blocks).unwrap_or(0),
        }
    }

    /// What is done, and why.
    fn decision(&self) -> String {
        match (self.settings.mode, self.target.refusal(), self.verdict()) {
            (Mode::Copy | Mode::Pmem, ..) => "copy: as asked".into(),
            (_, Some(_), _) => "copy: nothing can be shared".into(),
            _ if self.target.crowded().is_some() => "copy: there is no descriptor for the database".into(),
            (Mode::Remap, ..) => "share: as asked".into(),
            (Mode::Auto, _, None) => {
                "copy: there was little to share so far, or no time yet to measure what it costs".into()
            }
            (Mode::Auto, _, Some(Verdict { least_blocks, saved_us, lost_us })) => {
                let what = if least_blocks.is_some() { "share" } else { "copy" };
                let more = if self.target.choice.refused.load(Relaxed) >= REFUSALS {
                    "; others have the database open so its WAL stays SQLite's"
                } else {
                    ""
                };
                format!(
                    "{what}: sharing saves a checkpoint {saved_us:.0} µs and costs its commits {lost_us:.0} µs{more}"
                )
            }
        }
    }
}
