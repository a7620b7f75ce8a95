//! Latches on the keys of unique indexes.
//!
//! - **U1** A key of a unique index is entered under its latch, after looking under the same latch that no
//!   other row has it: of two transactions that want one key, the second finds the first, and never each the
//!   other. So only one of them waits.
//! - **U2** Nobody waits for a transaction, or takes another latch out of order, while it holds one.
use ondol_base::sync::{Mutex, MutexGuard};

/// More than there are cores, so that different keys seldom share one.
const LATCHES: usize = 256;

#[repr(align(64))]
#[derive(Default)]
struct Latch(Mutex<()>);

pub struct KeyLatches(Box<[Latch]>);

impl Default for KeyLatches {
    fn default() -> Self {
        KeyLatches((0..LATCHES).map(|_| Latch::default()).collect())
    }
}

impl KeyLatches {
    /// The number of the latch of an index's key; several are taken in ascending order, each once.
    pub fn number(&self, index: u32, key: &[u8]) -> usize {
        (ondol_index::hash::hash_key(key) as usize).wrapping_add(index as usize) % LATCHES
    }
    pub fn latch(&self, number: usize) -> MutexGuard<'_, ()> {
        self.0[number].0.lock()
    }
}
