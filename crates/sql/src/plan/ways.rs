//! The ways to rows that may be taken.
//!
//! - **V1** One that is turned off is taken all the same where there is no other, as in PostgreSQL: it costs
//!   [`DISABLED`] more than it does. So no statement is refused, and none has another answer (plan/L1).
//! - **V2** Only what is planned for one session knows of it: the code of a function is everybody's, and is
//!   planned with all ways.

/// What a way that is turned off costs beside what it costs anyway.
pub const DISABLED: f64 = 1.0e10;

/// Those that are turned off.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Ways {
    /// Reading a table from end to end.
    pub no_full: bool,
    /// Looking up rows by an index.
    pub no_index: bool,
    /// Keeping a side of a join in a hash table.
    pub no_hash: bool,
    /// Going through a side of a join for each row of the other.
    pub no_loop: bool,
    /// Sorting what an index could give in order.
    pub no_sort: bool,
}

impl Ways {
    pub const ALL: Ways =
        Ways { no_full: false, no_index: false, no_hash: false, no_loop: false, no_sort: false };

    /// A number for each choice of ways, 0 for all.
    pub fn number(self) -> u8 {
        let bits = [self.no_full, self.no_index, self.no_hash, self.no_loop, self.no_sort];
        bits.iter().enumerate().map(|(n, off)| u8::from(*off) << n).sum()
    }

    pub fn price(is_off: bool) -> f64 {
        if is_off { DISABLED } else { 0.0 }
    }

    /// A join of which both a hash table and a loop are possible is to be a loop.
    pub fn shuns_hash(self) -> bool {
        self.no_hash && !self.no_loop
    }

    /// The other way round.
    pub fn shuns_loop(self) -> bool {
        self.no_loop && !self.no_hash
    }
}
