//! Views that are kept: what a statement saw, for reading it again after other statements of its session.
//!
//! - **V1** A snapshot that its session moves on from is published in a line of its own while it is kept. It
//!   is taken there first (registry/R1), and only then becomes the session's: a snapshot handed over from one
//!   line to another could be missed by a collector in both.
//! - **V2** A transaction's changes before and after must not be merged into one while a view of it is kept
//!   (merge/M2): the caller says so by [`Session::may_roll_back_to`].
use super::Session;
use crate::registry::{IDLE, SNAPSHOT};
use crate::slot::View;
use ondol_base::barrier;
use ondol_base::epoch::Participant;
use std::sync::atomic::Ordering;

/// A view that stays readable while this lives.
pub struct KeptView {
    view: View,
    /// V1
    line: Option<Participant>,
}

impl KeptView {
    pub fn view(&self) -> View {
        self.view
    }
}

impl Drop for KeptView {
    fn drop(&mut self) {
        if let Some(line) = &self.line {
            line.line().words[SNAPSHOT].store(IDLE, Ordering::Release)
        }
    }
}

impl Session {
    /// Keeps what the statement that has just begun sees. Where the session's snapshot moves on with each
    /// statement (`moves_on`), the statement's becomes one taken now; otherwise the session's own line keeps
    /// it published.
    pub fn keep_view(&mut self, moves_on: bool) -> KeptView {
        let line = moves_on.then(|| self.kernel.epochs.join(IDLE));
        if let Some(line) = &line {
            loop {
                match self.is_open() {
                    true => self.snapshot_newest(),
                    false => self.snapshot_visible(),
                }
                if ondol_base::sim::mutated("portal_unpublished") {
                    break;
                }
                line.line().words[SNAPSHOT].store(self.view.snapshot, Ordering::Relaxed);
                barrier::light();
                if self.is_taken() {
                    break;
                }
            }
        }
        KeptView { view: self.view, line }
    }
    /// Reads by another view from now on; gives the one before.
    pub fn look_by(&mut self, view: View) -> View {
        std::mem::replace(&mut self.view, view)
    }
}
