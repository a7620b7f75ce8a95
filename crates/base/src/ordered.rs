//! Doubles that have a total order, for heaps and maps.
use std::cmp::Ordering;

/// Ordered by [`f64::total_cmp`].
#[derive(Clone, Copy, Debug)]
pub struct Ordered(pub f64);

impl Ord for Ordered {
    #[inline]
    fn cmp(&self, other: &Ordered) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}
impl PartialOrd for Ordered {
    #[inline]
    fn partial_cmp(&self, other: &Ordered) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Ordered {
    fn eq(&self, other: &Ordered) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Ordered {}
