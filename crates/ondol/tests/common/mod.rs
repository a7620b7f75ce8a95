//! What tests share.
use ondol::{Database, OpenOptions, TempFolder};

/// A database in a folder of its own, with a memory limit in MiB.
pub fn open(limit: usize) -> (TempFolder, Database) {
    let folder = TempFolder::new().expect("a folder");
    let db = OpenOptions::new().memory_limit(limit << 20).open(folder.path()).expect("opens");
    (folder, db)
}

/// A small generator, so that a seed is a plan (the timing of threads is not in it).
pub struct Random(pub u64);
impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}
