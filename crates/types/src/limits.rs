//! What a computation may take: memory, charged before it is taken, and time, until somebody wants an end of
//! it.
//!
//! - **1** A function charges what it makes before it makes it, if that is more than [`SMALL`]: a value that
//!   memory has no room for is refused, and not made first.
//! - **2** A loop whose length the caller's values decide looks at [`Limits::turn`].
//! - **3** What is computed ahead, while a statement is planned, is neither large nor long
//!   ([`Limits::ahead`]): it is computed when the statement runs, if it is wanted then.

use crate::{SqlError, SqlResult, sqlstate};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that are not charged: counting them would cost more than it tells.
pub const SMALL: usize = 64 << 10;

/// Turns of a loop after which it asks whether to go on.
pub const TURNS: usize = 1 << 16;

/// Digits of nine, or bytes, that something computed ahead may work on.
const BRIEF: usize = 1 << 10;

/// The account that is charged for memory.
pub trait Account {
    /// Charges so many bytes, until the call that took them is over; refused with 53200 at a limit.
    fn take(&self, bytes: usize) -> SqlResult<()>;
}

/// What a computation may take.
#[derive(Clone, Copy, Default)]
pub struct Limits<'a> {
    cancel: Option<&'a AtomicU64>,
    account: Option<&'a dyn Account>,
    /// Called where it is asked whether to go on.
    turns: Option<fn()>,
    ahead: bool,
}

/// The error of a statement that was told to end.
#[cold]
pub fn canceled() -> SqlError {
    SqlError::new(sqlstate::QUERY_CANCELED, "canceling statement due to user request")
}

#[cold]
fn later() -> SqlError {
    SqlError::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, "too much to be computed ahead")
}

impl Limits<'static> {
    pub const NONE: Limits<'static> = Limits { cancel: None, account: None, turns: None, ahead: false };
    /// Of what is computed ahead (3): what would take more is refused, and left to be computed later.
    pub const AHEAD: Limits<'static> = Limits { cancel: None, account: None, turns: None, ahead: true };
}

impl<'a> Limits<'a> {
    /// Ended once the word is odd, charged to the account.
    pub fn new(cancel: Option<&'a AtomicU64>, account: Option<&'a dyn Account>) -> Limits<'a> {
        Limits { cancel, account, turns: None, ahead: false }
    }
    /// The same, by `turns` letting others have their turn where it asks whether to go on.
    pub fn taking_turns(self, turns: fn()) -> Limits<'a> {
        Limits { turns: Some(turns), ..self }
    }

    /// Charges what is about to be made (1), and asks whether to go on.
    #[inline]
    pub fn take(&self, bytes: usize) -> SqlResult<()> {
        if bytes <= SMALL { Ok(()) } else { self.take_much(bytes) }
    }
    #[cold]
    fn take_much(&self, bytes: usize) -> SqlResult<()> {
        if self.ahead {
            return Err(later());
        }
        self.go_on()?;
        self.account.map_or(Ok(()), |a| a.take(bytes))
    }

    /// An error (57014) if somebody wants an end.
    #[inline]
    pub fn go_on(&self) -> SqlResult<()> {
        if let Some(turns) = self.turns {
            turns()
        }
        match self.cancel {
            Some(c) if c.load(Ordering::Relaxed) & 1 != 0 => Err(canceled()),
            _ => Ok(()),
        }
    }

    /// The same, at a turn of a loop that works on so much (2).
    #[inline]
    pub fn turn(&self, work: usize) -> SqlResult<()> {
        if self.ahead && work > BRIEF { Err(later()) } else { self.go_on() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    struct Purse(Cell<usize>);
    impl Account for Purse {
        fn take(&self, bytes: usize) -> SqlResult<()> {
            let left = self.0.get().checked_sub(bytes);
            self.0.set(left.ok_or_else(|| SqlError::new(sqlstate::OUT_OF_MEMORY, "out of memory"))?);
            Ok(())
        }
    }

    #[test]
    fn large_values_are_charged_and_ended() {
        let (purse, cancel) = (Purse(Cell::new(1 << 20)), AtomicU64::new(4));
        let limits = Limits::new(Some(&cancel), Some(&purse));
        limits.take(SMALL).unwrap();
        assert_eq!(purse.0.get(), 1 << 20, "small values are free");
        limits.take(1 << 19).unwrap();
        assert_eq!(purse.0.get(), 1 << 19);
        assert_eq!(limits.take(1 << 20).unwrap_err().sqlstate(), "53200");
        limits.turn(usize::MAX).unwrap();
        cancel.fetch_or(1, Ordering::Relaxed);
        assert_eq!(limits.turn(1).unwrap_err().sqlstate(), "57014");
        assert_eq!(limits.take(1 << 18).unwrap_err().sqlstate(), "57014");
        limits.take(1).unwrap();
    }

    #[test]
    fn nothing_large_is_computed_ahead() {
        assert!(Limits::AHEAD.take(SMALL + 1).is_err());
        assert!(Limits::AHEAD.turn(BRIEF + 1).is_err());
        Limits::AHEAD.take(SMALL).and_then(|()| Limits::AHEAD.turn(BRIEF)).unwrap();
        Limits::NONE.take(usize::MAX).and_then(|()| Limits::NONE.turn(usize::MAX)).unwrap();
    }
}
