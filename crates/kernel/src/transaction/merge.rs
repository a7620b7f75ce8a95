//! Changes of one row by several statements of a transaction, kept as one.
//!
//! ```text
//! before  slot -> change of statement 7 -> changes of statements before -> committed ...
//! after   slot -> changes of statements up to 7                         -> committed ...
//! ```
//! Each statement that reads the row again would go through the changes of all before it: the work of n
//! updates of one row would be n squared. So the two newest are merged before another is put on top. That
//! takes:
//!
//! - **M1** Both are of statements that have ended: a command nested in the running one has not, since its
//!   caller goes on without seeing it. So whatever the transaction reads from now on contains
//!   both, and the running statement is undone without touching them.
//! - **M2** No savepoint that may be rolled back to lies between them: both are undone or neither. Nor does
//!   the beginning of a view that is kept (kept/V2): it sees both or neither.
//! - **M3** Both are in the log, or neither: then the merged difference is what rolling back, or the commit,
//!   has to log.
//! - **M4** The later one gave the row no key, and both are of one view of the table, so of the same indexes.
//!   The keys that the row had between them are those that it has after both, so commit and rollback find all
//!   index entries by the states that are left.
//!
//! Others may be reading the chain. They find it changed and look again (kernel/K1); the nodes taken off are
//! freed through epochs.
use super::{Did, Session};
use crate::version::{POINTER, UNCHANGED, Version, fold, latch, node, unlatch};
use ondol_base::oid::Oid;
use ondol_base::sim::mutated;
use ondol_base::sync::yield_point;
use std::sync::atomic::Ordering;

impl Session {
    /// Merges the two newest changes of a row that is ours, if it has two that may be. Without memory they
    /// stay as they are.
    pub(super) fn merge(&mut self, oid: Oid) {
        let command = self.outermost;
        // Behind our own versions come committed ones, which a collector may take off.
        let pin = self.participant.pin();
        let Some(t) = self.txn.as_mut() else { return };
        let word1 = self.kernel.space.word(oid.bits() + 8);
        let link = word1.load(Ordering::Acquire);
        // SAFETY: pinned. The slot is ours, so what is pending is our own, and its marks live as long as the
        // transaction.
        let ours = |link: u64| unsafe { node(link).filter(|v| v.is_pending() && !v.is_empty()) };
        let Some(late) = ours(link) else { return };
        let Some(early) = ours(late.next.load(Ordering::Acquire)) else { return };
        let (last, first) = (late.entry(), early.entry());
        let (Some(l), Some(f)) = (t.writes.get(last), t.writes.get(first)) else { return };
        debug_assert!(first < last && l.oid == oid && f.oid == oid && l.did == Did::Node);
        yield_point();
        // SAFETY: as above.
        let ended = unsafe { (*late.mark).command() < command && (*early.mark).command() < command };
        let together = first >= t.merge_from || mutated("merged_over_savepoint");
        let keyed = (l.rekeyed || l.table != f.table) && !mutated("merged_over_keys");
        if !ended || !together || l.spilled != f.spilled || keyed {
            return;
        }
        let mut words = fold(&[late, early]);
        if words.is_empty() {
            words.extend(UNCHANGED)
        }
        let Some(v) = Version::new(words.len(), early.prev, 0, late.mark) else { return };
        // SAFETY: not shared yet.
        let merged = unsafe {
            Version::fill(v, &words);
            &*v
        };
        merged.set_entry(first);
        yield_point();
        latch(word1);
        // A collector may have changed what comes after our nodes until now.
        merged.next.store(early.next.load(Ordering::Acquire), Ordering::Relaxed);
        unlatch(word1, v as u64);
        t.writes[first].node = v;
        t.writes[last].did = Did::Merged;
        t.writes[last].node = std::ptr::null_mut();
        // Neither has fewer words than the smallest node, nor both together fewer than the merged one.
        self.credit += (late.size() + early.size()).saturating_sub(merged.size());
        for gone in [late, early].map(|v| std::ptr::from_ref(v).addr() & POINTER as usize) {
            // SAFETY: unlinked above; readers are waited for by the epoch.
            unsafe { pin.retire_raw(gone, Version::free_at) }
        }
    }
}
