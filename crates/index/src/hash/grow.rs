//! Growth of the hash index, and what concerns more than one bucket (hash/H3, hash/H4).
use super::chain::Overflow;
use super::line::{Line, OID_BITS, OID_MASK, SPENT, is_entry, is_link, tag};
use super::{FILL, HashIndex, bucket_of, mask, packed, place};
use crate::{Moves, latch};
use ondol_base::sync::{spin_wait, yield_point};
use std::sync::atomic::Ordering;

/// Splits in one go, by an insert that finds the table too full.
const BURST: u32 = 4;

/// The highest bit of a tag says to which half its entry goes; a spent entry goes to both.
fn half(word: u64) -> (bool, bool) {
    let t = tag(word);
    (t <= SPENT, t >= SPENT)
}

/// The entry after a split: its first hash bit is used up.
fn shortened(word: u64) -> u64 {
    match tag(word) {
        SPENT => word,
        t => (t as u64) << (OID_BITS + 1) | word & OID_MASK,
    }
}

struct Splitting<'a>(&'a HashIndex);
impl Drop for Splitting<'_> {
    fn drop(&mut self) {
        self.0.splitting.store(false, Ordering::Release)
    }
}

impl HashIndex {
    fn try_splitting(&self) -> Option<Splitting<'_>> {
        let free = !self.splitting.load(Ordering::Relaxed) && !self.splitting.swap(true, Ordering::Acquire);
        free.then(|| Splitting(self))
    }

    /// Splits a few buckets, unless another thread does.
    #[inline(never)]
    pub(super) fn grow(&self) {
        let Some(_held) = self.try_splitting() else { return };
        let load = self.entries.sum() - self.deep.load(Ordering::Relaxed);
        for _ in 0..BURST {
            let n = self.buckets();
            if load <= (n * FILL) as i64 || !self.split(n) {
                break;
            }
        }
    }

    /// Splits the next bucket. False, with nothing changed, if memory for it is refused.
    fn split(&self, n: u64) -> bool {
        if n >= 1 << 44 || self.main.ensure(n + 1).is_err() {
            return false;
        }
        let old = self.line(bucket_of(n));
        // SAFETY: just backed. Nobody else looks at it before N is stored.
        let new = unsafe { &*self.bucket(n) };
        let version = latch::latch(&old.0[0]);
        let fresh = latch::latch(&new.0[0]);
        yield_point();
        let done = self.divide(old, new);
        if done {
            self.table.store(packed(n + 1), Ordering::Release);
            latch::unlatch(&new.0[0], fresh);
            latch::unlatch(&old.0[0], version);
        } else {
            latch::release(&new.0[0], fresh);
            latch::release(&old.0[0], version);
        }
        done
    }

    fn count_deep(&self, head: &Line) -> i64 {
        let mut count = 0;
        if self.overflow.is_deep(head) {
            self.overflow.each(head, &mut |_| count += 1);
            count -= 6;
        }
        count
    }

    /// Divides a latched chain. The tree behind it stays with the half that has more of it; the entries of
    /// the other half are put together elsewhere first, since that may be refused.
    fn divide(&self, old: &Line, new: &Line) -> bool {
        let chain: &Overflow = &self.overflow;
        let root = old.get(7);
        if !is_link(root) {
            // At most seven entries: they fit on either side.
            let words = old.copy();
            let (mut low, mut high) = (1, 1);
            for w in words.into_iter().skip(1).filter(|&w| w != 0) {
                let (to_old, to_new) = half(w);
                if to_old {
                    old.set(low, shortened(w));
                    low += 1
                }
                if to_new {
                    new.set(high, shortened(w));
                    high += 1
                }
                if to_old && to_new {
                    self.spent.store(true, Ordering::Release)
                }
            }
            (low..8).for_each(|i| old.set(i, 0));
            return true;
        }
        let deep_before = self.count_deep(old);
        let (mut stay, mut go) = (0u64, 0u64);
        chain.each(old, &mut |w| {
            stay += half(w).0 as u64;
            go += half(w).1 as u64;
        });
        // True: the tree goes over to the new bucket.
        let tree_goes = go > stay;
        let minor = Line::default();
        let (mut refused, mut spent, mut ignored) = (false, false, 0);
        chain.each(old, &mut |w| {
            let (to_old, to_new) = half(w);
            spent |= to_old && to_new;
            if (if tree_goes { to_old } else { to_new }) && !refused {
                refused = chain.put(&minor, shortened(w), &mut ignored).is_err()
            }
        });
        if refused {
            chain.clear(&minor);
            return false;
        }
        if spent {
            self.spent.store(true, Ordering::Release)
        }
        let keeps = |w: u64| if tree_goes { half(w).1 } else { half(w).0 };
        let (tree_side, other) = if tree_goes { (new, old) } else { (old, new) };
        let head = old.copy();
        let gone = chain.rewrite(root, &mut |w| if keeps(w) { shortened(w) } else { 0 });
        let mut slot = 1;
        for &w in head[1..7].iter().filter(|&&w| is_entry(w) && keeps(w)) {
            tree_side.set(slot, shortened(w));
            slot += 1
        }
        (slot..7).for_each(|i| tree_side.set(i, 0));
        tree_side.set(7, if gone { 0 } else { root });
        for i in 1..8 {
            other.set(i, minor.get(i))
        }
        chain.pull_up(tree_side, &mut ignored);
        let deep = self.count_deep(old) + self.count_deep(new) - deep_before;
        self.deep.fetch_add(deep, Ordering::Relaxed);
        true
    }

    /// Every address there is, with its leading 1, and its level. N must stay as it is.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (u64, u32)> {
        let n = self.buckets();
        let level = n.ilog2();
        (1u64 << level..2 << level).flat_map(move |a| below(n, a, level))
    }

    /// The buckets below an address of `level` bits.
    fn buckets_below(&self, address: u64, level: u32) -> impl Iterator<Item = u64> {
        let n = self.buckets();
        let full = n.ilog2().max(level);
        let first = address << (full - level);
        (first..first + (1 << (full - level))).flat_map(move |a| below(n, a, full)).map(|(a, _)| bucket_of(a))
    }

    fn holds(&self, bucket: u64, word: u64) -> bool {
        let mut found = false;
        self.overflow.each(self.line(bucket), &mut |w| found |= w == word);
        found
    }

    /// In an index at rest: the address below which every bucket has a copy of this spent entry, unless
    /// another copy has a lower address.
    pub(super) fn spent_at(&self, mut address: u64, mut level: u32, word: u64) -> Option<(u64, u32)> {
        while level > 0 && self.buckets_below(address ^ 1, level).all(|b| self.holds(b, word)) {
            if address & 1 == 1 {
                return None;
            }
            address >>= 1;
            level -= 1;
        }
        Some((address, level))
    }

    /// Removes a spent entry with all its copies (hash/H3).
    #[inline(never)]
    pub(super) fn remove_spent(
        &self,
        hash: u64,
        oid: u64,
        dead: &mut dyn FnMut(u64) -> bool,
        mut moves: Moves<'_>,
    ) -> bool {
        let mut turns = 0;
        let _held = loop {
            match self.try_splitting() {
                Some(held) => break held,
                None => spin_wait(turns),
            }
            turns += 1;
        };
        let p = place(packed(self.buckets()), hash);
        let word = (SPENT as u64) << OID_BITS | oid;
        let version = latch::latch(&self.line(p.bucket).0[0]);
        let mut latched = vec![(p.bucket, version)];
        let mut address = (hash | super::TOP) >> p.shift;
        let mut level = p.level();
        let mut gone = false;
        if self.holds(p.bucket, word) {
            // Upwards, as long as the sibling has a copy in each of its buckets.
            while level > 0 {
                let from = latched.len();
                for b in self.buckets_below(address ^ 1, level) {
                    latched.push((b, latch::latch(&self.line(b).0[0])))
                }
                if !latched[from..].iter().all(|&(b, _)| self.holds(b, word)) {
                    for (b, v) in latched.drain(from..) {
                        latch::release(&self.line(b).0[0], v)
                    }
                    break;
                }
                address >>= 1;
                level -= 1;
            }
            yield_point();
            gone = dead(mask(level, word));
        }
        let mut deep = 0;
        for (b, v) in latched {
            let head = self.line(b);
            if gone {
                self.overflow.take(head, word, &mut deep);
                self.unlatch_changed(head, v, moves.as_deref_mut())
            } else {
                latch::release(&head.0[0], v)
            }
        }
        if gone {
            self.deep.fetch_add(deep, Ordering::Relaxed);
            self.entries.add(oid, -1);
        }
        gone
    }
}

/// An address of floor(log2 n) bits, or its two halves if it has been split already.
fn below(n: u64, address: u64, level: u32) -> impl Iterator<Item = (u64, u32)> {
    let split = level == n.ilog2() && address < n;
    let two = [(address << split as u32, level + split as u32), (address << 1 | 1, level + 1)];
    two.into_iter().take(1 + split as usize)
}
