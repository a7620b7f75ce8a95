//! Slot headers, and how a reader gets a whole version out of a slot without a lock (kernel/K1, kernel/K2,
//! kernel/K3).
//!
//! Word 0: a commit timestamp; 0 = free; or, with bit 63, the owner's transaction number and a substate:
//! ```text
//!   free -> FRESH (inserted) -> c                 committed insert
//!   c    -> owned            -> c                 lock given back, abort: no byte was touched
//!   c    -> owned -> INSTALLING -> c'             committed change
//!   owned <-> owned | WHOLE                       the lock is made stronger, and that is taken back
//! ```
//! Word 1: link to the version chain, with flags (see `version`).
use crate::memory::{Space, header, load};
use crate::transaction::{LockMode, Mark, TxnState};
use crate::version::{MARK, PENDING, POINTER, Version, node};
use ondol_base::epoch::Guard;
use ondol_base::oid::Oid;
use ondol_base::sync::{spin_wait, yield_point};
use ondol_durability::CommitTs;
use ondol_durability::page::{PageId, SLOT_HEADER};
use std::sync::atomic::{AtomicU64, Ordering, fence};

pub const OWNED: u64 = 1 << 63;
pub const INSTALLING: u64 = 1 << 62;
pub const FRESH: u64 = 1 << 61;
/// The owner holds the row FOR UPDATE, not only FOR NO KEY UPDATE. So does who has inserted it, without it.
pub const WHOLE: u64 = 1 << 60;
pub const ID: u64 = WHOLE - 1;
/// Bit 0 of a row's first byte.
pub const LIVE: u8 = 1;

/// What a statement sees.
#[derive(Clone, Copy, Debug, Default)]
pub struct View {
    /// Commits up to here.
    pub snapshot: u64,
    /// And, of this transaction's own (0: none) ...
    pub txn: u64,
    /// ... the changes of commands before this one.
    pub command: u32,
    /// Two rows of one unique key may be visible: one that others have deleted, or given another key, since
    /// the snapshot, and this transaction's own, which it put under the key afterwards; or two that were
    /// there before the index was.
    pub twins: bool,
}

#[inline(always)]
pub(crate) fn row(oid: Oid) -> u64 {
    oid.bits() + SLOT_HEADER as u64
}

/// Copies row bytes [0, out.len()) as `view` sees them; false when the row does not exist there. They are of
/// the row's size, a multiple of 8.
#[inline(always)]
pub fn read(space: &Space, pin: &Guard<'_>, oid: Oid, view: &View, out: &mut [u8]) -> bool {
    read_part(space, pin, oid, view, 0, out)
}

/// The same of row bytes [offset, offset + out.len()), within the row.
#[inline(always)]
pub(crate) fn read_part(
    space: &Space,
    _pin: &Guard<'_>,
    oid: Oid,
    view: &View,
    offset: usize,
    out: &mut [u8],
) -> bool {
    let (to, _) = out.as_chunks_mut::<8>();
    let (word0, words) = (space.word(oid.bits()), space.at(row(oid) + offset as u64));
    let w0 = word0.load(Ordering::Acquire);
    // The usual slot: committed, and no later than the snapshot. A free one's 0 becomes the latest of all.
    if w0.wrapping_sub(1) < view.snapshot {
        // SAFETY: from a slot on so much can be read (memory/S4).
        unsafe { load(words, to) };
        yield_point();
        fence(Ordering::Acquire);
        if word0.load(Ordering::Relaxed) == w0 {
            return offset > 0 || out[0] & LIVE != 0;
        }
    }
    read_on(space, oid, view, offset, out)
}

/// As [`read`] where that found the slot changed, or not as it usually is.
#[cold]
#[inline(never)]
fn read_on(space: &Space, oid: Oid, view: &View, offset: usize, out: &mut [u8]) -> bool {
    let mut turn = 0;
    loop {
        let w0 = space.word(oid.bits()).load(Ordering::Acquire);
        if w0 <= view.snapshot {
            if w0 == 0 {
                return false;
            }
            space.copy_out(row(oid) + offset as u64, out);
            yield_point();
            fence(Ordering::Acquire);
            if space.word(oid.bits()).load(Ordering::Relaxed) == w0 {
                return offset > 0 || out[0] & LIVE != 0;
            }
        } else if let Some(found) = read_chain(space, oid, w0, view, offset, out) {
            return found && (offset > 0 || out[0] & LIVE != 0);
        }
        spin_wait(turn);
        turn += 1;
    }
}

/// Copies row bytes [0, out.len()) of the slot that these bits name, if its only commit is one up to
/// `snapshot`: whether it is live. `None` says nothing. No chain is followed, so that bits which name no slot
/// give bytes that mean nothing, and no worse (memory/S4).
#[inline]
pub(crate) fn read_settled(space: &Space, bits: u64, snapshot: u64, out: &mut [u8]) -> Option<bool> {
    if !space.is_place(bits) {
        return None;
    }
    let word0 = space.word(bits);
    let w0 = word0.load(Ordering::Acquire);
    if w0.wrapping_sub(1) >= snapshot {
        return None;
    }
    space.copy_out(bits + SLOT_HEADER as u64, out);
    yield_point();
    fence(Ordering::Acquire);
    (word0.load(Ordering::Relaxed) == w0).then(|| out[0] & LIVE != 0)
}

/// Copies row bytes [0, out.len()) of the newest version, if the row is live and nobody owns it, and gives
/// the header under which they were read. `None` says nothing.
#[inline]
pub fn read_current(space: &Space, _pin: &Guard<'_>, oid: Oid, out: &mut [u8]) -> Option<u64> {
    let w0 = space.word(oid.bits()).load(Ordering::Acquire);
    if w0 == 0 || w0 & OWNED != 0 {
        return None;
    }
    space.copy_out(row(oid), out);
    yield_point();
    fence(Ordering::Acquire);
    (space.word(oid.bits()).load(Ordering::Relaxed) == w0 && out[0] & LIVE != 0).then_some(w0)
}

/// Copies the whole row if it is live, nobody owns it and its only version is of a commit up to `until`: what
/// nearly all rows are when an index is built. False says nothing.
#[inline]
pub fn read_quiet(space: &Space, oid: Oid, until: u64, out: &mut [u8]) -> bool {
    let w0 = space.word(oid.bits()).load(Ordering::Acquire);
    let link = space.word(oid.bits() + 8).load(Ordering::Acquire);
    if w0 == 0 || w0 > until || link & POINTER != 0 {
        return false;
    }
    space.copy_out(row(oid), out);
    yield_point();
    fence(Ordering::Acquire);
    space.word(oid.bits()).load(Ordering::Relaxed) == w0 && out[0] & LIVE != 0
}

/// The same of a row that transaction `own` has inserted and done nothing else with: it is its only version,
/// too.
#[inline]
pub fn read_inserted(space: &Space, oid: Oid, own: u64, out: &mut [u8]) -> bool {
    let w0 = space.word(oid.bits()).load(Ordering::Acquire);
    let link = space.word(oid.bits() + 8).load(Ordering::Acquire);
    if w0 != OWNED | FRESH | own || link & MARK == 0 {
        return false;
    }
    space.copy_out(row(oid), out);
    yield_point();
    fence(Ordering::Acquire);
    space.word(oid.bits()).load(Ordering::Relaxed) == w0 && out[0] & LIVE != 0
}

/// Follows committed nodes down from bytes stamped `newest` to what `snapshot` sees. A pending node leads up
/// from the bytes, so it is passed by: its owner took the row after its header was read, and if it gives it
/// back unchanged, the header will be the same again.
fn walk(mut link: u64, newest: u64, snapshot: u64, offset: usize, out: &mut [u8]) -> bool {
    let mut base = newest;
    // SAFETY: links are read while pinned.
    while let Some(v) = unsafe { node(link) } {
        let ts = v.ts.load(Ordering::Acquire);
        if ts & PENDING == 0 {
            if ts <= snapshot {
                break;
            }
            v.apply(offset, out);
            base = v.prev;
        }
        link = v.next.load(Ordering::Acquire);
    }
    base != 0 && base <= snapshot
}

/// The mark that a link leads to, by way of a pending node or directly.
///
/// # Safety
/// Read while pinned.
pub(crate) unsafe fn mark_of<'a>(link: u64) -> Option<&'a Mark> {
    let p = if link & MARK != 0 {
        (link & POINTER) as *const Mark
    } else {
        // SAFETY: passed on.
        let v = unsafe { node(link) }?;
        if !v.is_pending() {
            return None;
        }
        v.mark
    };
    // SAFETY: marks are retired through epochs after their transaction's slots are stamped.
    unsafe { p.as_ref() }
}

/// The transaction that owns a slot, if it can be told right now; it stays there while the pin is held.
pub fn owner<'a>(space: &Space, _pin: &'a Guard<'_>, oid: Oid, w0: u64) -> Option<&'a TxnState> {
    let link = space.word(oid.bits() + 8).load(Ordering::Acquire);
    // SAFETY: the caller is pinned, and what is retired meanwhile stays until the pin is given back.
    let state = unsafe { mark_of(link)?.state() };
    (state.id == w0 & ID).then_some(state)
}

#[derive(PartialEq)]
enum Take {
    Mine,
    All,
    Nothing,
}

/// Whether a chain begins where it did. Asked of owned slots, since an owner's header comes again: it may
/// have given the lock back, another have changed the row, and the owner have come back. Its node does not
/// come again while we are pinned.
fn leads_on(word1: &AtomicU64, link: u64) -> bool {
    (word1.load(Ordering::Relaxed) ^ link) & (POINTER | MARK) == 0
}

/// The slow path: the slot is owned, or newer than the snapshot. `None`: look again.
#[cold]
fn read_chain(space: &Space, oid: Oid, w0: u64, view: &View, offset: usize, out: &mut [u8]) -> Option<bool> {
    yield_point();
    let (word0, word1) = (space.word(oid.bits()), space.word(oid.bits() + 8));
    let link = word1.load(Ordering::Acquire);
    let unchanged = || {
        fence(Ordering::Acquire);
        word0.load(Ordering::Relaxed) == w0 && (w0 & OWNED == 0 || leads_on(word1, link))
    };
    yield_point();
    if w0 & OWNED == 0 {
        space.copy_out(row(oid) + offset as u64, out);
        let found = walk(link, w0, view.snapshot, offset, out);
        return unchanged().then_some(found);
    }
    if w0 & INSTALLING != 0 {
        return None;
    }
    // SAFETY: pinned.
    let state = unsafe { mark_of(link)?.state() };
    if state.id != w0 & ID {
        return None;
    }
    let take = if state.id == view.txn {
        Take::Mine
    } else {
        match state.get() {
            Status::Committed(c) if c <= view.snapshot => Take::All,
            Status::Preparing(c) if c <= view.snapshot => return None,
            _ => Take::Nothing,
        }
    };
    space.copy_out(row(oid) + offset as u64, out);
    let mut next = link;
    let mut base = 0;
    let mut changed = false;
    // SAFETY: pinned.
    while let Some(v) = unsafe { node(next) } {
        if !v.is_pending() {
            break;
        }
        // SAFETY: a pending node's mark is alive while we are pinned.
        let ours = take == Take::Mine && unsafe { (*v.mark).command() } < view.command;
        if (take == Take::All || ours) && !v.is_empty() {
            v.apply(offset, out);
            changed = true;
        }
        base = v.prev;
        next = v.next.load(Ordering::Acquire);
    }
    let found = if w0 & FRESH != 0 {
        match take {
            Take::All => true,
            Take::Nothing => false,
            // SAFETY: the end of a fresh slot's chain is its mark.
            Take::Mine => (unsafe { mark_of(next)?.command() }) < view.command,
        }
    } else if take == Take::All || changed || base <= view.snapshot {
        true
    } else {
        walk(next, base, view.snapshot, offset, out)
    };
    unchanged().then_some(found)
}

/// The mode in which an owned slot is, by its header.
#[inline]
pub fn owner_mode(w0: u64) -> LockMode {
    if w0 & (WHOLE | FRESH) != 0 { LockMode::Update } else { LockMode::NoKeyUpdate }
}

/// A slot's header as it is now.
pub fn header_of(space: &Space, oid: Oid) -> u64 {
    space.word(oid.bits()).load(Ordering::Acquire)
}

/// Whether the slot's bytes as they are now are a row.
pub fn is_live(space: &Space, oid: Oid) -> bool {
    space.word(row(oid)).load(Ordering::Acquire) & LIVE as u64 != 0
}

/// The last commit that changed the slot's page.
pub fn last_commit(space: &Space, oid: Oid) -> CommitTs {
    space.header(PageId::of(oid), header::LAST_COMMIT).load(Ordering::Acquire)
}

/// How far a transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Active,
    /// Has its timestamp, and validates its reads.
    Preparing(u64),
    Committed(u64),
    Aborted,
}

/// Calls `f` with the bytes of every version that the slot has: the newest committed ones, with `history`
/// each older one, and uncommitted ones, of which it is told; stops when it returns true. Uncommitted changes
/// come last. The slot may be changed meanwhile by others; what they add later may be missed, what was there
/// is not. `buf` has the row's size.
///
/// `f` follows what the bytes name (strings), so it is given nothing before the header was found unchanged:
/// bytes of two versions mixed would lead it anywhere.
pub fn any_version(
    space: &Space,
    _pin: &Guard<'_>,
    oid: Oid,
    buf: &mut [u8],
    history: bool,
    f: &mut dyn FnMut(&[u8], bool) -> bool,
) -> bool {
    let mut chain = vec![];
    let w0 = whole(space, oid, buf, &mut chain);
    if w0 == 0 {
        return false;
    }
    if buf[0] & LIVE != 0 && f(buf, w0 & FRESH != 0) {
        return true;
    }
    // Pending nodes lead up from the bytes, committed ones down.
    let pending = chain.iter().filter(|(_, pending)| *pending);
    let newest = (history && pending.clone().next().is_some()).then(|| buf.to_vec());
    if history {
        let mut committed = chain.iter().filter(|(_, pending)| !*pending).map(|(v, _)| v).peekable();
        while let Some(v) = committed.next() {
            v.apply(0, buf);
            // Between two differences of one commit lies a state that nobody ever sees, and whose strings may
            // be gone.
            let ts = v.ts.load(Ordering::Acquire);
            let between = committed.peek().is_some_and(|older| older.ts.load(Ordering::Acquire) == ts);
            if !between && buf[0] & LIVE != 0 && f(buf, false) {
                return true;
            }
        }
    }
    if let Some(newest) = newest {
        buf.copy_from_slice(&newest)
    }
    let mut found = false;
    for (v, _) in pending.rev() {
        // A node that is filled after we looked brings its key into the index only after that.
        v.apply(0, buf);
        found |= buf[0] & LIVE != 0 && f(buf, true);
    }
    found
}

/// Calls `f` with the commit and the bytes of each committed version that the slot has, the newest first and
/// dead ones too, until it returns true. Gives the header that the slot had meanwhile. Otherwise as
/// [`any_version`].
pub fn committed_versions(
    space: &Space,
    _pin: &Guard<'_>,
    oid: Oid,
    buf: &mut [u8],
    f: &mut dyn FnMut(u64, &[u8]) -> bool,
) -> u64 {
    let mut chain = vec![];
    let mut turn = 0;
    let (w0, mut from) = loop {
        let w0 = whole(space, oid, buf, &mut chain);
        if w0 == 0 || w0 & OWNED != 0 && w0 & FRESH != 0 {
            return w0;
        }
        if w0 & OWNED == 0 {
            break (w0, w0);
        }
        // Whoever has just taken it has not put its node there yet.
        if let Some((pending, true)) = chain.first() {
            break (w0, pending.prev);
        }
        spin_wait(turn);
        turn += 1;
    };
    let mut committed = chain.iter().filter(|(_, pending)| !*pending).map(|(v, _)| v).peekable();
    loop {
        if f(from, buf) {
            return w0;
        }
        // Differences of one commit are taken back together: nobody ever sees what lies between.
        let Some(first) = committed.next() else { return w0 };
        first.apply(0, buf);
        from = first.prev;
        let ts = first.ts.load(Ordering::Acquire);
        while let Some(v) = committed.next_if(|v| v.ts.load(Ordering::Acquire) == ts) {
            v.apply(0, buf);
            from = v.prev
        }
        if from == 0 {
            return w0;
        }
    }
}

/// Copies a slot's bytes and gathers its chain, each node with whether it is pending, as of one moment in
/// which nothing is being installed; gives the header, 0 if the slot is free.
fn whole<'a>(space: &'a Space, oid: Oid, buf: &mut [u8], chain: &mut Vec<(&'a Version, bool)>) -> u64 {
    let mut turn = 0;
    loop {
        let w0 = space.word(oid.bits()).load(Ordering::Acquire);
        if w0 == 0 {
            return 0;
        }
        chain.clear();
        let word1 = space.word(oid.bits() + 8);
        let link = word1.load(Ordering::Acquire);
        let mut next = link;
        space.copy_out(row(oid), buf);
        // SAFETY: the caller is pinned.
        while let Some(v) = unsafe { node(next) } {
            chain.push((v, v.is_pending()));
            next = v.next.load(Ordering::Acquire);
        }
        yield_point();
        fence(Ordering::Acquire);
        let stands = w0 & OWNED == 0 || w0 & INSTALLING == 0 && leads_on(word1, link);
        if stands && space.word(oid.bits()).load(Ordering::Relaxed) == w0 {
            return w0;
        }
        spin_wait(turn);
        turn += 1;
    }
}
