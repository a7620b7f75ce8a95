//! A concurrent hash index: buckets of one cache line, growing one bucket at a time.
//!
//! ```text
//! hash:  1 | address: L bits | tag: 15 bits | not used          (the top bit is taken as 1)
//! bucket of a hash: its first L + 1 bits, less the zeros at their end and the one before those
//! ```
//! The table has N buckets. L = floor(log2 N), and buckets are split in the order of their address: an
//! address below N (with its leading 1) has been split in this round and takes L + 1 bits (linear hashing:
//! Litwin, VLDB 1980, here by leading bits, so that one number N says everything). Splitting address a of L
//! bits makes a0, which stays where a was, and a1, whose bucket number is N. Entries know only 15 hash bits
//! beyond their place and use one up at each split (line/T1); an entry that has spent them all goes to both
//! halves.
//!
//! - **H1** Which bucket a hash belongs to changes only while that bucket is latched; N is stored before the
//!   latch is released. So a reader that finds N as it was, after it checked the bucket's version, read the
//!   right bucket; and a writer that holds the latch and finds its bucket by N may rely on it.
//! - **H2** The version of a bucket covers its chain (chain/C1), and each insert and each split changes it.
//!   Whoever saw the bucket of a hash, at any time, sees its version changed by the first insert under that
//!   hash after that, whether the insert meets the bucket before or after a split. A split changes the
//!   versions of two buckets, and so lets the validation of readers of the first fail needlessly; there is
//!   one split for each [`FILL`] inserts into a growing table.
//! - **H3** Copies of a spent entry stand in *every* bucket below the address at which it was spent, or in
//!   none: they are taken out under the latches of all those buckets.
//! - **H4** Latches of two buckets are held only by the holder of `splitting`.
//!
//! **Equal keys.** n entries of one key hang behind one bucket as a tree by the OID's hash (see [`chain`]):
//! insert, removal and the search for the pair touch about log7(n) lines, a lookup all n entries, about 20
//! bytes each. A reader copies them before it hands them out; if writers keep changing the bucket meanwhile,
//! it takes the latch after some attempts. The split of such a bucket rewrites its n tags under its latch,
//! once for each doubling of the table. Entries of such trees do not make the table grow.
//!
//! **Memory.** A bucket for each [`FILL`] entries, and 64 bytes for each bucket that overflows: about 17
//! bytes an entry. Growth copies nothing; it is charged in steps. Refused memory stops growth, not the index:
//! chains become longer, until a bucket overflows and the insert itself is refused.
//!
//! Not here: shrinking. Buckets stay until the index goes (index/I3).
use crate::Dead;
use crate::entry_oid;
use crate::{
    Budget, Index, Moved, Moves, OutOfMemory, Seen, latch, slab::Slab, stripes::STRIPES, stripes::Stripes,
};
use chain::Overflow;
use line::{Line, OID_BITS, OID_MASK, SPENT, matches, tag};
use ondol_base::epoch::Guard;
use ondol_base::oid::Oid;
use ondol_base::sim::mutated;
use ondol_base::sync::yield_point;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

mod chain;
mod grow;
mod key;
mod line;
pub use key::{hash_key, hash_short, hash_word};

/// Entries for each bucket above which the table grows.
pub const FILL: u64 = 4;
/// Buckets of an empty table.
const FEWEST: u64 = 4;
/// The bit of a hash that is taken as 1.
const TOP: u64 = 1 << 63;
/// The known-wrong variant that leaves out a probe's second look at N (H1).
const LOOKS_ONCE: &str = "probe_looks_once";
/// Reads that may fail before a reader of a long chain takes the latch.
const PATIENCE: u32 = 16;

pub struct HashIndex {
    /// The number of buckets, N, as [`packed`].
    table: AtomicU64,
    main: Slab,
    overflow: Overflow,
    entries: Stripes,
    /// Entries in trees, which do not count for growth.
    deep: AtomicI64,
    /// Held by whoever splits.
    splitting: AtomicBool,
    /// Some entry has been spent (H3).
    spent: AtomicBool,
    budget: Arc<dyn Budget>,
}

/// Where a hash belongs while there are N buckets.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    bucket: u64,
    /// 63 less the bits of the address.
    shift: u32,
    /// The tag of a fresh entry, and what others are compared with.
    probe: u16,
}

/// A hash, and where it belongs in the table of some moment.
#[derive(Clone, Copy, Default)]
pub struct Aim {
    hash: u64,
    /// [`HashIndex::table`] of that moment.
    table: u64,
    bucket: u64,
    probe: u16,
}

/// An aim at an index that is there, and its bucket.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    pub aim: Aim,
    head: &'a Line,
}

/// The bucket of an address, given with its leading 1.
#[inline(always)]
fn bucket_of(address: u64) -> u64 {
    address >> address.trailing_zeros() >> 1
}

/// N, and in the low six bits by how much a hash is shifted to leave its address and the leading 1.
fn packed(buckets: u64) -> u64 {
    buckets << 6 | buckets.leading_zeros() as u64
}

#[inline(always)]
fn place(table: u64, hash: u64) -> Place {
    let hash = hash | TOP;
    let mut shift = table as u32 & 63;
    shift -= (hash >> shift < table >> 6) as u32;
    let address = hash >> shift;
    // The bits that follow the address come to the top: a shift by 64 - shift.
    Place {
        bucket: bucket_of(address),
        shift,
        probe: (hash << (shift.wrapping_neg() & 63) >> OID_BITS) as u16 | 1,
    }
}

/// The bits of a hash that an entry stands for.
fn mask(level: u32, word: u64) -> u64 {
    let bits = (level + line::known(word)).min(63);
    ((1 << bits) - 1) << (63 - bits)
}

impl Place {
    fn level(&self) -> u32 {
        63 - self.shift
    }
}

impl HashIndex {
    /// An index that holds about `expected` entries before it has to grow.
    pub fn new(budget: Arc<dyn Budget>, expected: u64) -> Result<HashIndex, OutOfMemory> {
        Self::with_buckets(budget, (expected.min(1 << 40) / FILL).max(FEWEST))
    }

    /// As [`HashIndex::new`].
    pub fn with_capacity(n: u64, budget: Arc<dyn Budget>) -> Result<HashIndex, OutOfMemory> {
        Self::new(budget, n)
    }

    fn with_buckets(budget: Arc<dyn Budget>, buckets: u64) -> Result<HashIndex, OutOfMemory> {
        if !budget.charge(size_of::<HashIndex>()) {
            return Err(OutOfMemory);
        }
        let index = HashIndex {
            table: AtomicU64::new(packed(buckets)),
            main: Slab::new(6, buckets.ilog2(), budget.clone()),
            overflow: Overflow { slab: Slab::new(6, 4, budget.clone()) },
            entries: Stripes::default(),
            deep: AtomicI64::new(0),
            splitting: AtomicBool::new(false),
            spent: AtomicBool::new(false),
            budget,
        };
        index.main.ensure(buckets)?;
        Ok(index)
    }

    #[inline(always)]
    fn bucket(&self, number: u64) -> *const Line {
        self.main.line_of::<6>(number).cast()
    }

    #[inline(always)]
    fn line(&self, number: u64) -> &Line {
        // SAFETY: bucket numbers below N are backed (slab/S1) and live as long as the slab.
        unsafe { &*self.bucket(number) }
    }

    fn seen(&self, head: &Line, version: u64) -> Seen {
        Seen { node: &head.0[0], version }
    }

    #[inline(always)]
    fn look(&self, hash: u64) -> Aim {
        let table = self.table.load(Ordering::Acquire);
        let p = place(table, hash);
        Aim { hash, table, bucket: p.bucket, probe: p.probe }
    }

    /// Asks for the bucket of `hash`, so that a later [`HashIndex::probe_at`] finds it in the cache.
    #[inline(always)]
    pub fn aim(&self, hash: u64) -> Aim {
        let aim = self.look(hash);
        Line::prefetch(self.bucket(aim.bucket));
        aim
    }

    fn prefetch(&self, hash: u64) {
        self.aim(hash);
    }

    /// Calls `f` with each OID whose entry may belong to a key of this hash, until it says false. Gives the
    /// bucket looked at. An entry that is there the whole time is met once; one that goes may be met.
    #[inline(always)]
    pub fn probe(&self, guard: &Guard<'_>, hash: u64, f: &mut impl FnMut(Oid) -> bool) -> Seen {
        self.probe_at(guard, self.look(hash), f)
    }

    /// The same by an aim, which need not be fresh nor even this index's.
    #[inline(always)]
    pub fn probe_at(&self, guard: &Guard<'_>, aim: Aim, f: &mut impl FnMut(Oid) -> bool) -> Seen {
        let Aim { hash, table, bucket, probe } = aim;
        // A table of as many buckets has this one, and it is the hash's (H1).
        if self.table.load(Ordering::Acquire) != table {
            return self.probe_on(guard, hash, 0, f);
        }
        let head = self.line(bucket);
        let version = head.0[0].load(Ordering::Acquire);
        let found = head.find(probe);
        let last = head.get(7);
        // The usual bucket: no latch, and at most one match.
        if (version & 1) as u32 | (found & found.wrapping_sub(1)) == 0 {
            let word = head.get(found.trailing_zeros() as usize & 7);
            if latch::check(&head.0[0], version)
                && (self.table.load(Ordering::Relaxed) == table || mutated(LOOKS_ONCE))
            {
                let more = found == 0 || f(entry_oid(word & OID_MASK));
                if !more || !line::is_link(last) {
                    return self.seen(head, version);
                }
                let given = if found == 0 { 0 } else { word & OID_MASK };
                return self.probe_behind(guard, hash, head, version, last, probe, given, f);
            }
        }
        self.probe_on(guard, hash, 0, f)
    }

    /// The same for a glance soon.
    #[inline(always)]
    pub fn target(&self, hash: u64) -> Target<'_> {
        let aim = self.look(hash);
        let head = self.line(aim.bucket);
        Line::prefetch(head);
        Target { aim, head }
    }

    /// The first glance of a probe: the one OID that may be there ([`Oid::NONE`]: there is nothing); `None`
    /// where a probe has to tell. If the OID is not what was looked for, a probe has to tell as well.
    #[inline(always)]
    pub fn glance(&self, guard: &Guard<'_>, aim: Aim) -> Option<Oid> {
        // A table of as many buckets has this one, even if the aim is another index's.
        if self.table.load(Ordering::Acquire) != aim.table {
            return None;
        }
        self.glance_at(guard, Target { aim, head: self.line(aim.bucket) })
    }

    /// The same at a target of this index.
    #[inline(always)]
    pub fn glance_at(&self, _guard: &Guard<'_>, Target { aim, head }: Target<'_>) -> Option<Oid> {
        let version = head.0[0].load(Ordering::Acquire);
        let found = head.find(aim.probe);
        let word = head.get(if found == 0 { 7 } else { found.trailing_zeros() as usize & 7 });
        let is_usual = (version & 1) as u32 | (found & found.wrapping_sub(1)) == 0;
        let is_last = found != 0 || !line::is_link(word);
        yield_point();
        // H1, as in a probe: N never comes back to what it was.
        let holds = is_usual && is_last && latch::check(&head.0[0], version);
        if !holds || self.table.load(Ordering::Relaxed) != aim.table && !mutated(LOOKS_ONCE) {
            return None;
        }
        Some(if found == 0 { Oid::NONE } else { entry_oid(word & OID_MASK) })
    }

    /// Continues past a bucket head whose entries (at most one) were already returned.
    #[expect(clippy::too_many_arguments, reason = "the state of a probe, in registers")]
    #[inline(never)]
    fn probe_behind(
        &self,
        guard: &Guard<'_>,
        hash: u64,
        head: &Line,
        version: u64,
        root: u64,
        probe: u16,
        given: u64,
        f: &mut impl FnMut(Oid) -> bool,
    ) -> Seen {
        // Usually one leaf.
        if let Some((mut found, words)) = self.overflow.leaf(head, version, root, probe) {
            while found != 0 {
                let oid = words[found.trailing_zeros() as usize & 7] & OID_MASK;
                found &= found - 1;
                if oid != given && !f(entry_oid(oid)) {
                    break;
                }
            }
            return self.seen(head, version);
        }
        self.probe_on(guard, hash, given, f)
    }

    /// As [`HashIndex::probe`] where there is more than one match, a long chain, or a writer.
    #[inline(never)]
    fn probe_on(&self, _guard: &Guard<'_>, hash: u64, known: u64, f: &mut impl FnMut(Oid) -> bool) -> Seen {
        // What was handed out from the head already, for when the chain has to be read again.
        let mut given = [known, 0, 0, 0, 0, 0, 0];
        let mut count = (known != 0) as usize;
        let mut attempts = 0;
        let mut rest = Few::default();
        loop {
            let n = self.table.load(Ordering::Acquire);
            let p = place(n, hash);
            let head = self.line(p.bucket);
            let version = latch::read(&head.0[0]);
            let words = head.copy();
            yield_point();
            let moved = || place(self.table.load(Ordering::Acquire), hash) != p && !mutated(LOOKS_ONCE);
            if !latch::check(&head.0[0], version) || moved() {
                continue;
            }
            let root = words[7];
            let head_entries = if line::is_link(root) { 7 } else { 8 };
            for &w in words[1..head_entries].iter().filter(|&&w| matches(w, p.probe)) {
                let oid = w & OID_MASK;
                if given[..count].contains(&oid) {
                    continue;
                }
                if count < given.len() {
                    given[count] = oid;
                    count += 1;
                }
                if !f(entry_oid(oid)) {
                    return self.seen(head, version);
                }
            }
            if !line::is_link(root) {
                return self.seen(head, version);
            }
            rest.clear();
            attempts += 1;
            let seen = if attempts <= PATIENCE {
                match self.overflow.gather(head, version, root, p.probe, &mut |o| rest.push(o)) {
                    Ok(()) => version,
                    Err(chain::Changed) => continue,
                }
            } else {
                // Nothing is changed, so that other readers are not disturbed.
                let version = latch::latch(&head.0[0]);
                let right = place(self.table.load(Ordering::Acquire), hash) == p;
                if right {
                    self.overflow.each(head, &mut |w| {
                        if matches(w, p.probe) {
                            rest.push(w & OID_MASK)
                        }
                    });
                }
                latch::release(&head.0[0], version);
                if !right {
                    continue;
                }
                version
            };
            rest.each(|oid| given[..count].contains(&oid) || f(entry_oid(oid)));
            return self.seen(head, seen);
        }
    }

    /// Latches the bucket of `hash`.
    fn latch(&self, hash: u64) -> (&Line, u64, Place) {
        loop {
            let p = place(self.table.load(Ordering::Acquire), hash);
            let head = self.line(p.bucket);
            let version = latch::latch(&head.0[0]);
            if place(self.table.load(Ordering::Acquire), hash) == p {
                return (head, version, p);
            }
            latch::release(&head.0[0], version);
        }
    }

    /// [`Index::insert`] by hash.
    pub fn insert_hash(
        &self,
        _guard: &Guard<'_>,
        hash: u64,
        oid: Oid,
        moves: Moves<'_>,
    ) -> Result<bool, OutOfMemory> {
        let (head, version, p) = self.latch(hash);
        if self.overflow.find(head, p.probe, oid.bits() & OID_MASK).is_some() {
            self.unlatch_changed(head, version, moves);
            return Ok(false);
        }
        self.put_latched(head, version, p, oid, moves)?;
        Ok(true)
    }

    /// Ends a change of a bucket that was latched at `version`, and tells who made it.
    fn unlatch_changed(&self, head: &Line, version: u64, moves: Moves<'_>) {
        latch::unlatch(&head.0[0], version);
        if let Some(moves) = moves {
            moves.push(Moved { from: self.seen(head, version), to: self.seen(head, version + 2), also: None })
        }
    }

    /// Puts an entry that is not there into a bucket that was latched at `version`, and ends the latching.
    fn put_latched(
        &self,
        head: &Line,
        version: u64,
        p: Place,
        oid: Oid,
        moves: Moves<'_>,
    ) -> Result<(), OutOfMemory> {
        let oid = oid.bits() & OID_MASK;
        yield_point();
        let mut deep = 0;
        let done = self.overflow.put(head, (p.probe as u64) << OID_BITS | oid, &mut deep);
        // A refused insert may have widened a leaf, so the version changes in any case.
        self.unlatch_changed(head, version, moves);
        if deep != 0 {
            self.deep.fetch_add(deep, Ordering::Relaxed);
        }
        done?;
        self.grow_if_full(self.entries.add(oid, 1));
        Ok(())
    }

    /// Inserts pairs of which the caller knows that none is there, as when an index is first built: saves the
    /// search for them, and asks for all their buckets before it looks at the first. Several threads may
    /// build at once. `alike` is told each OID that came to a bucket where another entry may be of the same
    /// key; of two equal keys that is one at least.
    pub fn build(
        &self,
        _guard: &Guard<'_>,
        pairs: &[(u64, Oid)],
        alike: &mut dyn FnMut(Oid),
    ) -> Result<(), OutOfMemory> {
        pairs.iter().for_each(|p| self.prefetch(p.0));
        let (mut count, mut deep) = (0, 0);
        let done = pairs.iter().try_for_each(|&(hash, oid)| {
            let (head, version, p) = self.latch(hash);
            let alone = head.find(p.probe) == 0 && !line::is_link(head.get(7));
            let done =
                self.overflow.put(head, (p.probe as u64) << OID_BITS | oid.bits() & OID_MASK, &mut deep);
            latch::unlatch(&head.0[0], version);
            done?;
            count += 1;
            if !alone {
                alike(oid)
            }
            Ok(())
        });
        if deep != 0 {
            self.deep.fetch_add(deep, Ordering::Relaxed);
        }
        if let Some((_, oid)) = pairs.first() {
            let stripe = self.entries.add(oid.bits(), count);
            // A call makes room for some twenty.
            (0..pairs.len().div_ceil(16)).for_each(|_| self.grow_if_full(stripe))
        }
        done
    }

    /// [`Index::remove_dead`] by hash: `dead` is given the bits of the hash that the entry stands for. It
    /// stands for every key of this OID whose hash agrees in those bits.
    pub fn remove_hash(
        &self,
        _guard: &Guard<'_>,
        hash: u64,
        oid: Oid,
        dead: &mut dyn FnMut(u64) -> bool,
        moves: Moves<'_>,
    ) -> bool {
        let oid = oid.bits() & OID_MASK;
        let (head, version, p) = self.latch(hash);
        let Some(word) = self.overflow.find(head, p.probe, oid) else {
            latch::release(&head.0[0], version);
            return false;
        };
        if tag(word) == SPENT && self.spent.load(Ordering::Acquire) {
            latch::release(&head.0[0], version);
            return self.remove_spent(hash, oid, dead, moves);
        }
        if !dead(mask(p.level(), word)) {
            latch::release(&head.0[0], version);
            return false;
        }
        yield_point();
        let mut deep = 0;
        let gone = self.overflow.take(head, word, &mut deep);
        self.unlatch_changed(head, version, moves);
        if deep != 0 {
            self.deep.fetch_add(deep, Ordering::Relaxed);
        }
        self.entries.add(oid, -(gone as i64));
        gone
    }

    /// Starts growth if the table is fuller than it should be. `stripe` is the count of one stripe.
    #[inline]
    fn grow_if_full(&self, stripe: i64) {
        let n = self.table.load(Ordering::Relaxed) >> 6;
        let many = if n < 1024 { self.entries.sum() } else { stripe * STRIPES as i64 };
        if many > (n * FILL) as i64 {
            self.grow()
        }
    }

    /// The number of buckets.
    pub fn buckets(&self) -> u64 {
        self.table.load(Ordering::Acquire) >> 6
    }

    /// As [`Index::verify`], with the known bits of each entry's hash and the mask that says which those are.
    pub fn verify_bits(&self, each: &mut dyn FnMut(u64, u64, Oid)) -> Result<(), String> {
        let (mut count, mut deep, mut lines) = (0i64, 0i64, 0u64);
        for (address, level) in self.addresses() {
            let number = bucket_of(address);
            let head = self.line(number);
            let at = |e: String| format!("bucket {number} of {}: {e}", self.buckets());
            let version = head.0[0].load(Ordering::Acquire);
            if version & 1 != 0 {
                return Err(at(format!("latched at version {version}, expected an index at rest")));
            }
            self.overflow.verify(head, &mut lines).map_err(at)?;
            let mut words = Vec::new();
            self.overflow.each(head, &mut |w| words.push(w));
            if self.overflow.is_deep(head) {
                deep += words.len() as i64 - 6;
            }
            for &w in &words {
                let (address, level) = match tag(w) {
                    SPENT => match self.spent_at(address, level, w) {
                        Some(above) => above,
                        None => continue,
                    },
                    _ => (address, level),
                };
                count += 1;
                // The address without its leading 1, then the known bits of the tag.
                let shown = address << (63 - level) | (tag(w) as u64) << OID_BITS >> (level + 1);
                let m = mask(level, w);
                each(shown & m, m, entry_oid(w & OID_MASK));
            }
            words.sort_unstable();
            if let Some(w) = words.windows(2).find(|w| w[0] == w[1]) {
                return Err(at(format!("the entry {:x} stands twice", w[0])));
            }
        }
        let (said, said_deep) = (self.entries.sum(), self.deep.load(Ordering::Relaxed));
        if said != count || said_deep != deep {
            return Err(format!(
                "hash index counts {said} entries, {said_deep} of them deep; found {count} and {deep}"
            ));
        }
        let used = self.overflow.slab.in_use();
        if used != lines {
            return Err(format!("{used} overflow lines are in use, {lines} hang behind buckets"));
        }
        Ok(())
    }
}

impl Drop for HashIndex {
    fn drop(&mut self) {
        self.budget.release(size_of::<HashIndex>())
    }
}

impl Index for HashIndex {
    fn insert(&self, guard: &Guard<'_>, key: &[u8], oid: Oid, moves: Moves<'_>) -> Result<bool, OutOfMemory> {
        self.insert_hash(guard, hash_key(key), oid, moves)
    }
    fn insert_alone(
        &self,
        _guard: &Guard<'_>,
        key: &[u8],
        oid: Oid,
        moves: Moves<'_>,
    ) -> Result<bool, OutOfMemory> {
        let (head, version, p) = self.latch(hash_key(key));
        if head.find(p.probe) != 0 || line::is_link(head.get(7)) {
            latch::release(&head.0[0], version);
            return Ok(false);
        }
        self.put_latched(head, version, p, oid, moves)?;
        Ok(true)
    }
    fn remove_dead(
        &self,
        guard: &Guard<'_>,
        key: &[u8],
        oid: Oid,
        dead: &mut Dead<'_>,
        moves: Moves<'_>,
    ) -> bool {
        let hash = hash_key(key);
        let dead = &mut |mask: u64| dead(&|other| (hash_key(other) ^ hash) & mask == 0);
        self.remove_hash(guard, hash, oid, dead, moves)
    }
    fn lookup(&self, guard: &Guard<'_>, key: &[u8], out: &mut Vec<Oid>, seen: Option<&mut Vec<Seen>>) {
        let at = self.probe(guard, hash_key(key), &mut |oid| {
            out.push(oid);
            true
        });
        if let Some(seen) = seen {
            seen.push(at)
        }
    }
    fn prefetch(&self, _guard: &Guard<'_>, key: &[u8]) {
        HashIndex::prefetch(self, hash_key(key))
    }
    fn entries(&self) -> u64 {
        self.entries.sum().max(0) as u64
    }
    fn memory_bytes(&self) -> usize {
        size_of::<HashIndex>() + self.main.bytes() + self.overflow.slab.bytes()
    }
    fn verify(&self, each: &mut dyn FnMut(&[u8], Oid)) -> Result<(), String> {
        self.verify_bits(&mut |hash, _, oid| each(&hash.to_be_bytes(), oid))
    }
    fn as_hash(&self) -> Option<&HashIndex> {
        Some(self)
    }
}

/// OIDs gathered from a chain: no allocation for the first few.
#[derive(Default)]
struct Few {
    first: [u64; 16],
    count: usize,
    more: Vec<u64>,
}
impl Few {
    fn push(&mut self, oid: u64) {
        match self.first.get_mut(self.count) {
            Some(place) => {
                *place = oid;
                self.count += 1
            }
            None => self.more.push(oid),
        }
    }
    fn clear(&mut self) {
        self.count = 0;
        self.more.clear()
    }
    /// Until `f` says false.
    fn each(&self, f: impl FnMut(u64) -> bool) {
        let mut f = f;
        let _ = self.first[..self.count].iter().chain(&self.more).all(|&o| f(o));
    }
}

#[cfg(test)]
mod tests;
