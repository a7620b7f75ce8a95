//! What hangs behind a full bucket: one leaf of seven entries, and, where many entries share a hash, a tree.
//!
//! ```text
//! head: v e e e e e e L ──> leaf: 0 e e e e e e e          up to 13 entries
//! head: v e e e e e e L ──> inner: 1 L L L L L L L ──> leaves or inner lines, by digits of the OID's hash
//! ```
//! The digits are to base 7. So an insert into, or a removal from, n entries of one key looks at about
//! log7(n) lines, and its search for the pair at no more. Where OIDs agree in all digits looked at (one OID
//! under many keys), leaves are chained by their last slot.
//!
//! - **C1** The head's latch covers the whole chain; its version is the chain's version.
//! - **C2** A link is a number that the slab has handed out, at all times, and lines of the overflow slab are
//!   never anything else: a reader follows a link only after it checked the head's version, and interprets
//!   what it finds there only after it checked again.
//! - **C3** Slot 7 of the head is the only link of a head. With a link there, slots 1 to 6 hold entries.
//! - **C4** Entries under an inner root are *deep*; every change says by how many their number changed.
use super::line::{Line, OID_MASK, is_entry, is_link, matches};
use crate::OutOfMemory;
use crate::latch;
use crate::slab::Slab;

const LINK: usize = 7;
const LEAF: u64 = 0;
const INNER: u64 = 1;
/// Levels of inner lines; below them leaves are chained.
const DEEPEST: u32 = 12;

/// The version changed while a reader walked.
pub(crate) struct Changed;

/// The overflow lines of an index.
pub(crate) struct Overflow {
    pub(crate) slab: Slab,
}

/// The stream of digits of an OID.
#[derive(Clone, Copy)]
struct Digits(u64);
impl Digits {
    fn of(word: u64) -> Digits {
        let x = (word & OID_MASK).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Digits((x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9))
    }
    fn next(&mut self) -> usize {
        let p = self.0 as u128 * 7;
        self.0 = p as u64;
        (p >> 64) as usize
    }
    fn skip(mut self, digits: u32) -> Digits {
        for _ in 0..digits {
            self.next();
        }
        self
    }
}

impl Overflow {
    #[inline]
    fn at(&self, link: u64) -> &Line {
        debug_assert!(is_link(link));
        // SAFETY: C2, and by slab/S1 the line lives as long as the slab.
        unsafe { &*self.slab.line_of::<6>(link - 1).cast::<Line>() }
    }
    /// A link to an empty leaf.
    fn alloc(&self) -> Result<u64, OutOfMemory> {
        let link = self.slab.alloc()? + 1;
        let line = self.at(link);
        for i in 0..8 {
            line.set(i, 0)
        }
        Ok(link)
    }
    fn free(&self, link: u64) {
        self.slab.free(link - 1)
    }

    /// Puts an entry into a latched chain. Refused, the chain holds what it held. `deep` is counted up (C4).
    pub(crate) fn put(&self, head: &Line, word: u64, deep: &mut i64) -> Result<(), OutOfMemory> {
        debug_assert!(is_entry(word));
        if let Some(i) = (1..8).find(|&i| head.get(i) == 0) {
            head.set(i, word);
            return Ok(());
        }
        let root = head.get(LINK);
        if !is_link(root) {
            let link = self.alloc()?;
            let leaf = self.at(link);
            leaf.set(1, root);
            leaf.set(2, word);
            head.set(LINK, link);
            return Ok(());
        }
        self.put_under(root, word, deep)
    }

    fn put_under(&self, root: u64, word: u64, deep: &mut i64) -> Result<(), OutOfMemory> {
        let mut digits = Digits::of(word);
        let mut depth = 0;
        let mut node = self.at(root);
        let mut under_inner = node.get(0) == INNER;
        loop {
            if node.get(0) == INNER {
                let slot = 1 + digits.next();
                depth += 1;
                if node.get(slot) == 0 {
                    let link = self.alloc()?;
                    self.at(link).set(1, word);
                    node.set(slot, link);
                    break;
                }
                node = self.at(node.get(slot));
                continue;
            }
            if let Some(i) = (1..8).find(|&i| node.get(i) == 0) {
                node.set(i, word);
                break;
            }
            if depth < DEEPEST {
                self.widen(node, depth)?;
                if !under_inner {
                    under_inner = true;
                    *deep += 7;
                }
            } else if is_link(node.get(LINK)) {
                node = self.at(node.get(LINK));
            } else {
                let link = self.alloc()?;
                self.at(link).set(1, node.get(LINK));
                self.at(link).set(2, word);
                node.set(LINK, link);
                break;
            }
        }
        *deep += under_inner as i64;
        Ok(())
    }

    /// Turns a full leaf into an inner line over leaves.
    fn widen(&self, node: &Line, depth: u32) -> Result<(), OutOfMemory> {
        let words = node.copy();
        let mut links = [0u64; 8];
        for &w in &words[1..] {
            let slot = 1 + Digits::of(w).skip(depth).next();
            if links[slot] == 0 {
                match self.alloc() {
                    Ok(link) => links[slot] = link,
                    Err(e) => {
                        links.iter().filter(|&&l| l != 0).for_each(|&l| self.free(l));
                        return Err(e);
                    }
                }
            }
            let leaf = self.at(links[slot]);
            if let Some(i) = (1..8).find(|&i| leaf.get(i) == 0) {
                leaf.set(i, w)
            }
        }
        node.set(0, INNER);
        for (i, &l) in links.iter().enumerate().skip(1) {
            node.set(i, l)
        }
        Ok(())
    }

    /// An entry of a latched chain with this OID whose tag matches.
    pub(crate) fn find(&self, head: &Line, probe: u16, oid: u64) -> Option<u64> {
        let hit = |w: u64| w & OID_MASK == oid && matches(w, probe);
        if let Some(w) = (1..8).map(|i| head.get(i)).find(|&w| hit(w)) {
            return Some(w);
        }
        if !is_link(head.get(LINK)) {
            return None;
        }
        let mut node = self.at(head.get(LINK));
        let mut digits = Digits::of(oid);
        loop {
            let next = if node.get(0) == INNER {
                node.get(1 + digits.next())
            } else {
                if let Some(w) = (1..8).map(|i| node.get(i)).find(|&w| hit(w)) {
                    return Some(w);
                }
                node.get(LINK)
            };
            if !is_link(next) {
                return None;
            }
            node = self.at(next);
        }
    }

    /// Takes one entry that is exactly `word` out of a latched chain. `deep` is counted down (C4).
    pub(crate) fn take(&self, head: &Line, word: u64, deep: &mut i64) -> bool {
        if let Some(i) = (1..8).find(|&i| head.get(i) == word) {
            head.set(i, 0);
            self.pull_up(head, deep);
            return true;
        }
        let root = head.get(LINK);
        if !is_link(root) {
            return false;
        }
        let inner = self.at(root).get(0) == INNER;
        let found = self.take_under(head, LINK, Digits::of(word), word);
        if found {
            *deep -= inner as i64;
            self.pull_up(head, deep);
        }
        found
    }

    fn take_under(&self, parent: &Line, slot: usize, mut digits: Digits, word: u64) -> bool {
        let link = parent.get(slot);
        if !is_link(link) {
            return false;
        }
        let node = self.at(link);
        let found = if node.get(0) == INNER {
            let next = 1 + digits.next();
            self.take_under(node, next, digits, word)
        } else if let Some(i) = (1..8).find(|&i| node.get(i) == word) {
            node.set(i, 0);
            true
        } else {
            self.take_under(node, LINK, digits, word)
        };
        if found && (1..8).all(|i| node.get(i) == 0) {
            parent.set(slot, 0);
            self.free(link);
        }
        found
    }

    /// Fills the head's holes from what hangs behind it, so that C3 holds and short chains go away.
    pub(crate) fn pull_up(&self, head: &Line, deep: &mut i64) {
        loop {
            let root = head.get(LINK);
            if !is_link(root) {
                return;
            }
            let hole = (1..LINK).find(|&i| head.get(i) == 0);
            let node = self.at(root);
            if node.get(0) == INNER {
                let Some(hole) = hole else { return };
                // Any entry will do: the first along the leftmost path.
                let Some(word) = self.any(root) else { return };
                self.take_under(head, LINK, Digits::of(word), word);
                *deep -= 1;
                head.set(hole, word);
                continue;
            }
            let mut entries = (1..8).filter(|&i| node.get(i) != 0);
            let (first, second) = (entries.next(), entries.next());
            match (first, second, hole) {
                (None, ..) => {
                    head.set(LINK, 0);
                    self.free(root);
                }
                (Some(i), None, None) => {
                    head.set(LINK, node.get(i));
                    self.free(root);
                }
                (Some(i), _, Some(hole)) => {
                    let word = node.get(i);
                    node.set(i, 0);
                    head.set(hole, word);
                }
                (Some(_), Some(_), None) => return,
            }
        }
    }

    fn any(&self, link: u64) -> Option<u64> {
        let node = self.at(link);
        let slots = (1..8).map(|i| node.get(i));
        match slots.clone().find(|&w| is_entry(w)) {
            Some(w) => Some(w),
            None => slots.filter(|&w| is_link(w)).find_map(|l| self.any(l)),
        }
    }

    /// Visits every entry below `link` in a latched chain; what `each` gives takes the entry's place (0:
    /// gone). True if the line is left empty: it has been freed, and the caller clears its link.
    pub(crate) fn rewrite(&self, link: u64, each: &mut impl FnMut(u64) -> u64) -> bool {
        let node = self.at(link);
        let mut empty = true;
        for i in 1..8 {
            let w = node.get(i);
            let now = match w {
                0 => 0,
                w if is_entry(w) => each(w),
                link => link * !self.rewrite(link, each) as u64,
            };
            if now != w {
                node.set(i, now)
            }
            empty &= now == 0;
        }
        if empty {
            self.free(link)
        }
        empty
    }

    /// Visits every entry of a chain that is latched or at rest.
    pub(crate) fn each(&self, head: &Line, f: &mut impl FnMut(u64)) {
        for w in head.copy().into_iter().skip(1) {
            if is_entry(w) {
                f(w)
            } else if is_link(w) {
                self.each(self.at(w), f)
            }
        }
    }

    /// Frees every line behind `head`.
    pub(crate) fn clear(&self, head: &Line) {
        for i in 1..8 {
            let w = head.get(i);
            if is_link(w) {
                self.clear(self.at(w));
                self.free(w);
            }
        }
    }

    pub(crate) fn is_deep(&self, head: &Line) -> bool {
        is_link(head.get(LINK)) && self.at(head.get(LINK)).get(0) == INNER
    }

    /// The matches in a single leaf behind the head, for a reader that holds no latch: bits and words. None
    /// if there is more than a leaf, or the version changed. `root` is as in [`Overflow::gather`].
    #[inline]
    pub(crate) fn leaf(&self, head: &Line, version: u64, root: u64, probe: u16) -> Option<(u32, [u64; 8])> {
        let leaf = self.at(root);
        let found = leaf.find(probe);
        let kind = leaf.get(0);
        let words = if found == 0 { [0; 8] } else { leaf.copy() };
        // A root has depth 0, so that a link in its last slot would make it an inner line.
        (kind == LEAF && latch::check(&head.0[0], version)).then_some((found, words))
    }

    /// Gathers the OIDs that match, below `link`, for a reader that holds no latch. `link` was read at the
    /// head's version `version`, and that was checked.
    pub(crate) fn gather(
        &self,
        head: &Line,
        version: u64,
        mut link: u64,
        probe: u16,
        out: &mut impl FnMut(u64),
    ) -> Result<(), Changed> {
        loop {
            let words = self.at(link).copy();
            if !latch::check(&head.0[0], version) {
                return Err(Changed);
            }
            if words[0] == INNER {
                for &w in words[1..].iter().filter(|&&w| w != 0) {
                    Line::prefetch(self.at(w))
                }
                for &w in words[1..].iter().filter(|&&w| w != 0) {
                    self.gather(head, version, w, probe, out)?
                }
                return Ok(());
            }
            for &w in words[1..].iter().filter(|&&w| matches(w, probe)) {
                out(w & OID_MASK)
            }
            if !is_link(words[LINK]) {
                return Ok(());
            }
            link = words[LINK];
        }
    }

    /// The first fault of a chain at rest.
    pub(crate) fn verify(&self, head: &Line, lines: &mut u64) -> Result<(), String> {
        let words = head.copy();
        for (i, &w) in words.iter().enumerate().skip(1) {
            if is_link(w) && i != LINK {
                return Err(format!("slot {i} of a head holds a link, expected in slot {LINK} only"));
            }
        }
        if is_link(words[LINK]) {
            if let Some(i) = (1..LINK).find(|&i| words[i] == 0) {
                return Err(format!("slot {i} of a head with a link is empty"));
            }
            self.verify_under(words[LINK], &[], lines)?
        }
        Ok(())
    }

    fn verify_under(&self, link: u64, path: &[usize], lines: &mut u64) -> Result<(), String> {
        *lines += 1;
        let words = self.at(link).copy();
        if words[1..].iter().all(|&w| w == 0) {
            return Err(format!("overflow line {link} is empty"));
        }
        for (i, &w) in words.iter().enumerate().skip(1).filter(|&(_, &w)| w != 0) {
            match (words[0], is_link(w)) {
                (INNER, true) => self.verify_under(w, &[path, &[i]].concat(), lines)?,
                (INNER, false) => return Err(format!("inner line {link} holds the entry {w:x}")),
                (_, true) if i == LINK && path.len() as u32 >= DEEPEST => {
                    self.verify_under(w, path, lines)?
                }
                (LEAF, true) => return Err(format!("slot {i} of leaf {link} holds a link")),
                (LEAF, false) => {
                    let mut d = Digits::of(w);
                    if path.iter().any(|&p| p != 1 + d.next()) {
                        return Err(format!("entry {w:x} stands at {path:?}, where its digits do not lead"));
                    }
                }
                (kind, _) => return Err(format!("overflow line {link} has kind {kind}, expected 0 or 1")),
            }
        }
        Ok(())
    }
}
