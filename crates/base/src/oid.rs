//! Object identifiers: offsets into a database's reserved address range.
//!
//! - **O1** An OID other than [`Oid::NONE`] names a slot of the space that it came from, and is used with
//!   that space only, as long as what it was found by (a pin, a statement, a lock) keeps the slot. Whoever
//!   follows one looks at no bound: so only those make one who know the slot (a heap, a walk over its pages),
//!   and an index gives back those that were put into it. A number from elsewhere is first looked up
//!   (`kernel`'s `Space::locate`).
//! - **O2** [`Oid::NONE`] names no slot, but a place in the range that is never given out and reads as zero.

/// A 48-bit byte offset from the base of a database's reserved address range. Zero names nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Oid(u64);

impl Oid {
    pub const NONE: Oid = Oid(0);
    /// Bits that an OID may use.
    pub const MASK: u64 = (1 << 48) - 1;
    /// The OID of these bits.
    ///
    /// # Safety
    /// They are zero, or of a slot of the space that the OID will be used with (O1).
    #[inline(always)]
    pub const unsafe fn from_bits(bits: u64) -> Oid {
        Oid(bits)
    }
    #[inline(always)]
    pub const fn bits(self) -> u64 {
        self.0
    }
    #[inline]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl std::fmt::Debug for Oid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "oid:{:x}", self.0)
    }
}
impl std::fmt::Display for Oid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}", self.0)
    }
}
