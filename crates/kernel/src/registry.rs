//! Who reads what: each session publishes its snapshot in its own cache line.
//!
//! - **R1** A snapshot is published, and the light side of a barrier passed, before it is used; then the
//!   visible timestamp must still be at most the snapshot. A collector passes the heavy side between the
//!   visible timestamp and the snapshots. So one that missed a snapshot computed a horizon at or below it. A
//!   horizon stays true as time goes on: it only keeps more than is needed.
//! - **R2** A committer publishes its timestamp while it takes it, under the commit latch, until its rows are
//!   installed: whoever learns of a later timestamp sees it.
//! - **R3** A checkpoint takes a snapshot before it knows its own timestamp T, which will be below what is
//!   visible by then. Until T is published in the snapshot's place, `HOLDING` keeps collection from folding
//!   anything later than the first snapshot; it is read before the snapshot, so that one of the two is met.
use ondol_base::barrier;
use ondol_base::epoch::{Epochs, Line, Participant};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The word's value when there is nothing to publish.
pub const IDLE: u64 = u64::MAX;
/// Words of a line.
pub const SNAPSHOT: usize = 0;
pub const COMMITTING: usize = 1;
/// Nothing later than this may be folded or dropped (R3).
pub const HOLDING: usize = 2;
/// In the low half the number of tables that the transaction uses; above [`TABLES`] it uses any. In the high
/// half a bit for each of those that are named, from [`CHANGES`] on where it changes rows, and from [`LOCKS`]
/// on where it locks some; the bit behind these is for all others.
pub const TABLE_COUNT: usize = 3;
pub const CHANGES: u32 = 32;
pub const LOCKS: u32 = 48;
pub const FIRST_TABLE: usize = 4;
pub const TABLES: usize = ondol_base::epoch::WORDS - FIRST_TABLE;

/// What collection must keep, as of one moment.
#[derive(Clone, Debug, Default)]
pub struct Horizon {
    /// Every live snapshot, and every one to come, is at or past this.
    pub oldest: u64,
    /// The visible timestamp before the snapshots were read: later snapshots are at or past it.
    pub visible: u64,
    /// Live snapshots below `visible`, ascending.
    pub snapshots: Vec<u64>,
}

pub fn horizon(epochs: &Arc<Epochs>, visible: impl Fn() -> u64) -> Horizon {
    let mut visible = visible();
    barrier::heavy();
    let mut snapshots = vec![];
    epochs.for_each(|l| {
        visible = visible.min(l.words[HOLDING].load(Ordering::Acquire));
        ondol_base::sync::yield_point();
        let s = l.words[SNAPSHOT].load(Ordering::Acquire);
        // Thousands that wait may have the same.
        if s < visible && snapshots.last() != Some(&s) {
            snapshots.push(s)
        }
        // A serializable committer asks whether something changed before its own timestamp.
        visible = visible.min(l.words[COMMITTING].load(Ordering::Acquire));
    });
    snapshots.sort_unstable();
    snapshots.dedup();
    let oldest = snapshots.first().map_or(visible, |s| visible.min(*s));
    Horizon { oldest, visible, snapshots }
}

/// Whoever waits for others must be stepped over by nobody meanwhile: no pin, no commit that is under way
/// (park/P4).
///
/// # Panics
/// Otherwise.
pub fn assert_parkable(participant: &Participant) {
    assert!(!participant.is_pinned(), "a wait begins while an epoch is pinned");
    let committing = participant.line().words[COMMITTING].load(Ordering::Relaxed);
    assert!(committing == IDLE, "a wait begins while commit {committing} is being installed");
}

/// Waits until no commit at or below `ts` is between its timestamp and its installation.
pub fn wait_installed(epochs: &Arc<Epochs>, ts: u64, but: Option<&AtomicU64>) {
    let mut turn = 0;
    loop {
        let mut busy = false;
        epochs.for_each(|l| {
            let w = &l.words[COMMITTING];
            if w.load(Ordering::Acquire) <= ts && !but.is_some_and(|b| std::ptr::eq(b, w)) {
                busy = true
            }
        });
        if !busy {
            return;
        }
        ondol_base::sync::spin_wait(turn);
        turn += 1;
    }
}

/// A table as lines name it: its number, and the generation of its definition that the transaction goes by.
#[inline]
pub fn table_name(id: u32, generation: u32) -> u64 {
    (generation as u64) << 32 | id as u64
}
/// Whether two names are of one table.
pub fn same_table(a: u64, b: u64) -> bool {
    a as u32 == b as u32
}

/// Whether a line's transaction uses a table under a name that `which` holds of. One that uses more tables
/// than it can name may use any.
pub fn uses(line: &Line, which: impl Fn(u64) -> bool) -> bool {
    match line.words[TABLE_COUNT].load(Ordering::Acquire) {
        IDLE => false,
        n => match n as u32 as usize {
            n if n > TABLES => true,
            n => line.words[FIRST_TABLE..FIRST_TABLE + n].iter().any(|w| which(w.load(Ordering::Acquire))),
        },
    }
}

/// Whether a line's transaction changes rows of a table under a name that `which` holds of, or with `locks`
/// locks some. One that does so to tables that it cannot name may do so to any.
pub fn changes(line: &Line, locks: bool, which: impl Fn(u64) -> bool) -> bool {
    let word = line.words[TABLE_COUNT].load(Ordering::Acquire);
    if word == IDLE {
        return false;
    }
    let marks = word >> CHANGES | if locks { word >> LOCKS } else { 0 };
    let n = (word as u32 as usize).min(TABLES);
    let named = line.words[FIRST_TABLE..FIRST_TABLE + n].iter().enumerate();
    marks >> TABLES & 1 != 0
        || named.filter(|(i, _)| marks >> i & 1 != 0).any(|(_, w)| which(w.load(Ordering::Acquire)))
}
