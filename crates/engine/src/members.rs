//! A partial index: it has entries of those rows alone that its predicate is true of.
//!
//! - **M1** Its keys begin with the predicate's hidden column, which is true of these rows and NULL of all
//!   others. A key that begins with NULL is not put in, nothing is found under it, and there is nothing to
//!   take out. So writers, the collector and whoever fills it ask as of any index.
use ondol_base::epoch::Guard;
use ondol_base::oid::Oid;
use ondol_index::btree::BTree;
use ondol_index::crtree::CrTree;
use ondol_index::hash::HashIndex;
use ondol_index::load::Load;
use ondol_index::{Dead, Index, IndexRef, Moves, OutOfMemory, Seen};
use std::sync::Arc;

/// What a key begins with whose first part is not NULL (`types::key`).
const KNOWN: u8 = 1;

pub struct Members(pub IndexRef);

/// Whether an entry is made under the key (M1).
#[inline]
pub fn is_member(key: &[u8]) -> bool {
    key.first() == Some(&KNOWN)
}

impl Index for Members {
    fn insert(&self, guard: &Guard<'_>, key: &[u8], oid: Oid, moves: Moves<'_>) -> Result<bool, OutOfMemory> {
        if is_member(key) { self.0.insert(guard, key, oid, moves) } else { Ok(true) }
    }
    fn insert_alone(
        &self,
        guard: &Guard<'_>,
        key: &[u8],
        oid: Oid,
        moves: Moves<'_>,
    ) -> Result<bool, OutOfMemory> {
        if is_member(key) { self.0.insert_alone(guard, key, oid, moves) } else { Ok(true) }
    }
    fn remove_dead(
        &self,
        guard: &Guard<'_>,
        key: &[u8],
        oid: Oid,
        dead: &mut Dead<'_>,
        moves: Moves<'_>,
    ) -> bool {
        is_member(key) && self.0.remove_dead(guard, key, oid, dead, moves)
    }
    fn lookup(&self, guard: &Guard<'_>, key: &[u8], out: &mut Vec<Oid>, seen: Option<&mut Vec<Seen>>) {
        if is_member(key) {
            self.0.lookup(guard, key, out, seen)
        }
    }
    fn prefetch(&self, guard: &Guard<'_>, key: &[u8]) {
        if is_member(key) {
            self.0.prefetch(guard, key)
        }
    }
    fn entries(&self) -> u64 {
        self.0.entries()
    }
    fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
    fn verify(&self, each: &mut dyn FnMut(&[u8], Oid)) -> Result<(), String> {
        self.0.verify(each)
    }
    fn load(&self, unique: bool, expected: u64, sample: &[(Vec<u8>, Oid)]) -> Option<Arc<dyn Load>> {
        self.0.load(unique, expected, sample)
    }
    fn as_btree(&self) -> Option<&BTree> {
        self.0.as_btree()
    }
    fn as_hash(&self) -> Option<&HashIndex> {
        self.0.as_hash()
    }
    fn as_crtree(&self) -> Option<&CrTree> {
        self.0.as_crtree()
    }
}

#[cfg(test)]
mod tests {
    use super::is_member;
    use ondol_types::{TypeId, ValueRef};

    #[test]
    fn keys_tell_what_their_first_column_is() {
        for (value, member) in [(ValueRef::Bool(true), true), (ValueRef::Null, false)] {
            let mut key = vec![];
            ondol_types::key::encode(value, TypeId::BOOL, false, false, false, &mut key);
            assert_eq!(is_member(&key), member);
        }
    }
}
