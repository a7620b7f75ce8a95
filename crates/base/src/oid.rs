//! Object identifiers: offsets into a database's reserved address range.

/// A 48-bit byte offset from the base of a database's reserved address range. Zero names nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Oid(pub u64);

impl Oid {
    pub const NONE: Oid = Oid(0);
    /// Bits that an OID may use.
    pub const MASK: u64 = (1 << 48) - 1;
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
