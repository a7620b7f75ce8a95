//! Telling a piece of work to end, from elsewhere, and never the one after it.
//!
//! - **C1** A [`Cancel`] is one word: the number of the piece of work that its owner does, or did last; in
//!   the lowest bit whether it was told to end; in the next whether the timer told it.
//! - **C2** Its owner alone begins pieces, which counts the number and takes the bits away. Who means one
//!   piece exchanges the word only while it has that number, so that no other piece is told.
//! - **C3** Beginning a piece is no exchange: who tells whatever runs, just then, has told the piece before.
//!
//! The lowest bit is all that needs to be known of the word: the types' functions look at it without knowing
//! this module.
use std::sync::atomic::{AtomicU64, Ordering};

const TOLD: u64 = 1;
const BY_TIMER: u64 = 2;
const BITS: u64 = TOLD | BY_TIMER;

#[derive(Debug, Default)]
pub struct Cancel(AtomicU64);

impl Cancel {
    pub const fn new() -> Cancel {
        Cancel(AtomicU64::new(0))
    }
    /// Its owner begins the next piece of work.
    #[inline]
    pub fn begin(&self) {
        // Release: whoever sees the number sees that what was set for pieces before it is gone (timer/T3).
        self.0.store((self.0.load(Ordering::Relaxed) | BITS) + 1, Ordering::Release)
    }
    /// The number of the piece that is done now, or was done last. The next is one more.
    pub fn number(&self) -> u64 {
        self.0.load(Ordering::Acquire) / (BITS + 1)
    }
    /// Whether the present piece was told to end.
    #[inline]
    pub fn is_told(&self) -> bool {
        self.0.load(Ordering::Relaxed) & TOLD != 0
    }
    /// Whether it was the timer that told it.
    pub fn is_told_by_timer(&self) -> bool {
        self.0.load(Ordering::Relaxed) & BY_TIMER != 0
    }
    /// Tells the present piece. Also for a signal's handler.
    pub fn tell(&self) {
        self.0.fetch_or(TOLD, Ordering::Relaxed);
    }
    /// Tells that piece; false if another has begun, or it has not.
    pub fn tell_only(&self, number: u64) -> bool {
        self.tell_with(number, TOLD)
    }
    /// The same for the timer: false also if it was told before.
    pub(crate) fn time_is_up(&self, number: u64) -> bool {
        self.tell_with(number, TOLD | BY_TIMER)
    }
    fn tell_with(&self, number: u64, bits: u64) -> bool {
        let told = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            let is_meant = word / (BITS + 1) == number && (bits == TOLD || word & BITS == 0);
            is_meant.then_some(word | bits)
        });
        told.is_ok()
    }
    /// The word: odd once the present piece was told to end (C1).
    pub fn word(&self) -> &AtomicU64 {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_piece_is_told_by_its_number() {
        let c = Cancel::new();
        assert_eq!((c.number(), c.is_told()), (0, false));
        c.begin();
        let first = c.number();
        assert!(!c.tell_only(first + 1) && !c.tell_only(first - 1) && !c.is_told());
        assert!(c.tell_only(first) && c.is_told() && !c.is_told_by_timer());
        assert!(c.tell_only(first), "once more");
        assert!(!c.time_is_up(first), "who came first is named");
        c.begin();
        assert_eq!((c.number(), c.is_told()), (first + 1, false));
        assert!(!c.tell_only(first) && !c.is_told());
        assert!(c.time_is_up(first + 1) && c.is_told() && c.is_told_by_timer());
        assert_eq!((c.word().load(Ordering::Relaxed) & 1, c.number()), (1, first + 1));
        c.begin();
        c.tell();
        assert!(c.is_told() && !c.is_told_by_timer());
        c.begin();
        assert!(!c.is_told());
    }

    /// A piece that nobody named is never told, and one that was named knows it, unless it was over.
    #[test]
    fn the_next_piece_is_never_meant() {
        const PIECES: u64 = 100_000;
        let (c, over) = (Cancel::new(), AtomicBool::new(false));
        std::thread::scope(|s| {
            let teller = s.spawn(|| {
                let mut told = vec![];
                while !over.load(Ordering::Relaxed) {
                    let number = c.number();
                    // Late at times.
                    (0..number % 64).for_each(|_| std::hint::spin_loop());
                    if c.tell_only(number) && told.last() != Some(&number) {
                        told.push(number)
                    }
                }
                told
            });
            let mut knew = vec![];
            for _ in 0..PIECES {
                c.begin();
                let number = c.number();
                (0..number % 48).for_each(|_| std::hint::spin_loop());
                if c.is_told() {
                    knew.push(number)
                }
            }
            over.store(true, Ordering::Relaxed);
            let told = teller.join().expect("the teller");
            assert!(
                knew.iter().all(|k| told.binary_search(k).is_ok()),
                "told were {} of {}",
                told.len(),
                knew.len()
            );
        });
        c.begin();
        assert!(c.tell_only(c.number()) && c.is_told());
    }
}
