//! INSERT ... ON CONFLICT: a row is inserted unless another has one of its keys (kernel/transaction/rival).
use super::Connection;
use crate::dictionary::put_string;
use crate::error;
use crate::row;
use crate::table::Table;
use ondol_base::oid::Oid;
use ondol_base::sim::mutated;
use ondol_kernel::transaction::Savepoint;
use ondol_kernel::{Error, IndexStore, Strings};
use ondol_types::{SqlResult, ValueRef};
use std::sync::Arc;

/// The long values of a row that is not stored yet: it names them by their numbers, from 1 on.
#[derive(Default)]
struct Unstored(Vec<Vec<u8>>);

impl Unstored {
    fn put(&mut self, bytes: &[u8]) -> u64 {
        self.0.push(bytes.to_vec());
        self.0.len() as u64
    }
}
impl Strings for Unstored {
    fn string(&self, slot: u64, _: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.get((slot as usize).wrapping_sub(1)).map_or(&[], |s| s))
    }
}

/// A row that is proposed.
struct Proposed<'v> {
    values: &'v [ValueRef<'v>],
    /// Its bytes, by which no other knows it.
    bytes: Vec<u8>,
    strings: Unstored,
    /// Its keys in the arbiters.
    keys: Vec<(Arc<IndexStore>, Vec<u8>)>,
}

impl Connection {
    /// Inserts a row (see [`Connection::insert`]) unless another has the key that it would have in one of
    /// these unique indexes, by their places among the table's; of none, in any unique index. Then it is that
    /// row that is given. If `lock` says so, it is locked; read it by [`Connection::read_met`]. Each row
    /// is met once at most by a statement that locks.
    pub fn insert_unless(
        &mut self,
        table: &Arc<Table>,
        values: &[ValueRef<'_>],
        arbiters: &[u16],
        lock: bool,
    ) -> SqlResult<Option<Oid>> {
        self.check_not_null(table, values)?;
        let mut proposed = Proposed {
            values,
            bytes: std::mem::take(&mut self.row),
            strings: Unstored::default(),
            keys: vec![],
        };
        let done = self.propose(table, &mut proposed, arbiters, lock);
        self.row = proposed.bytes;
        done
    }

    /// Copies the newest version of a row that was met and locked.
    pub fn read_met(&self, oid: Oid, row: &mut [u8]) -> bool {
        let seen = mutated("rival_of_snapshot") && self.session.read(oid, row);
        seen || self.session.read_newest(oid, row)
    }

    fn propose(
        &mut self,
        table: &Arc<Table>,
        proposed: &mut Proposed<'_>,
        arbiters: &[u16],
        lock: bool,
    ) -> SqlResult<Option<Oid>> {
        let Proposed { values, bytes, strings, keys } = proposed;
        row::encode(&table.layout, values, bytes, &mut |b| Ok(strings.put(b))).map_err(error::kernel)?;
        let is_arbiter = |n: usize| arbiters.is_empty() || arbiters.contains(&(n as u16));
        for (n, index) in table.store.entered().iter().enumerate() {
            let mut key = vec![];
            // A key of which a part is null is no other's.
            if index.unique && is_arbiter(n) && !index.key.key(bytes, &*strings, &mut key) {
                keys.push((index.clone(), key))
            }
        }
        let proposed = &*proposed;
        // What another index refused the row for.
        let mut refused = None;
        loop {
            let mut met = None;
            for (index, key) in &proposed.keys {
                met = self.session.rival(&table.store, index, key).map_err(error::kernel)?;
                if let Some(rival) = met {
                    let oid = rival.oid;
                    let stands = match lock {
                        false => self.session.leave(rival).map(|()| true),
                        true => {
                            let mut row = std::mem::take(&mut self.changes);
                            row.resize(table.layout.row_size, 0);
                            let done = self.session.lock_rival(&table.store, index, key, rival, &mut row);
                            self.changes = row;
                            done
                        }
                    };
                    if stands.map_err(error::kernel)? {
                        return Ok(Some(oid));
                    }
                    break;
                }
            }
            if met.is_some() {
                continue;
            }
            if let Some(e) = refused {
                return Err(e);
            }
            let since = self.session.here();
            match self.attempt(table, proposed, since) {
                Ok(Some(oid)) => {
                    self.inserted = oid;
                    if !table.def.foreign.is_empty() {
                        self.note_new(table, oid)?
                    }
                    return Ok(None);
                }
                Ok(None) => {}
                Err(Error::UniqueViolation { index }) => {
                    // Whoever came first may have an arbiter's key as well: that comes before the error.
                    if !proposed.keys.iter().any(|(i, _)| i.id == index) {
                        refused = Some(self.duplicate(table, index, &proposed.bytes, &proposed.strings))
                    }
                }
                Err(e) => return Err(error::kernel(e)),
            }
        }
    }

    /// Inserts the row; none if it has to be looked for others once more, nothing being left of it.
    fn attempt(
        &mut self,
        table: &Arc<Table>,
        proposed: &Proposed<'_>,
        since: Savepoint,
    ) -> ondol_kernel::Result<Option<Oid>> {
        let (session, dictionary) = (&mut self.session, &self.db.dictionary);
        if proposed.strings.0.is_empty() {
            return session.insert_if_free(&table.store, &proposed.bytes, since);
        }
        let mut bytes = std::mem::take(&mut self.changes);
        let done = row::encode(&table.layout, proposed.values, &mut bytes, &mut |b| {
            put_string(session, dictionary, &table.store, b)
        })
        .and_then(|()| session.insert_if_free(&table.store, &bytes, since));
        self.changes = bytes;
        done
    }
}
