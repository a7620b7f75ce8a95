//! An index built beside its table's users: what CREATE INDEX does outside a transaction block.
//!
//! ```text
//! fill       all cores, in bulk, from a snapshot        the index is the builder's alone; writers know nothing of it
//! announce   a catalog in which writers note what of    nobody waits but the builder: for those who began before
//!            its keys grows old
//! register   a catalog in which they enter keys, too    nobody waits but the builder: for those who began before
//! catch up   rows committed since the snapshot          entry by entry, as any writer enters keys
//! publish    the dictionary's record, durable           plans use it from now on
//! ```
//! The argument. S is the builder's snapshot; *old* writers have the table without the index, *noting* ones
//! note the keys that their changes make old, *new* ones enter keys as well.
//! - **O1** S is taken first, and all that it sees installed. It stays published to the end, so until then
//!   every row keeps the version that S sees, and no entry or slot of a change later than S is collected:
//!   what a row's chain says is what there is to enter, and what has been entered is not outlived by its
//!   entry unnoticed.
//! - **O2** The fill enters what S sees and what older snapshots may, of each row; not one version that is
//!   later than S, for such a one may be folded away before anybody notes that its entry has to go.
//! - **O3** Then the index is announced, and when that is over, registered: each time a table with more of
//!   the index takes the old one's place in everyone's catalog, under another name in their lines. A
//!   statement that announced the old name finds its catalog stale behind its side of the barrier, or is seen
//!   by the builder behind his, and waited for (connection/N1, protocol/V3). Nobody waits for the builder,
//!   who holds no lock that a user of the table could want; a cycle through a claim is found as any other
//!   (wait/W6, definers/G6).
//! - **O4** When the last user of the earlier tables has gone, every change whose keys were not entered is
//!   committed later than S, and installed, or taken back. A commit marks its page with its timestamp: rows
//!   of unmarked pages are as the fill had them. Of the other rows each committed version later than S is
//!   entered. A pending version belongs to a new writer, which enters it itself and takes it out again if it
//!   is undone. So the index has every version that any snapshot may see, older ones too: every session that
//!   has a catalog with the index may use it, at any snapshot.
//! - **O5** Nobody else would take out keys that old writers' changes made old, or that only older snapshots
//!   see: both passes note them, and the commit hands them to the collector. A note too many is harmless
//!   (collect/C4). The key of a version that is folded away before the second pass sees it was never entered,
//!   or the writer that made it old noted it: a session that enters keys never meets an old writer. The
//!   announcement is for that.
//! - **O6** Of two rows with one key, both as S saw them, the fill finds the second. Otherwise one of them
//!   got the key later, and the writer or builder that enters it then looks for the other under the key's
//!   latch (key_latch/U1): the builder, too, waits for an owner that has not ended. A row whose header is
//!   still the one under which its key was read, after another's newest version was found to have that key,
//!   had it at the same time: the build fails. If the header changed, or its owner has committed and is still
//!   installing its rows, the row is looked at anew. New writers are bound by the index before it is
//!   published, so one of them may be refused a key that another row has, and the build fail later all the
//!   same; as in PostgreSQL.
//! - **O7** The only durable trace is the dictionary's record, committed at the end. A failure before takes
//!   the index out of everyone's catalog again; writers that still have it keep it up for nobody.
//!
//! What it costs: old versions and dead rows stay for as long as the building takes, as under any long
//! reader. Writers pay nothing during the fill, and from the registration on what the index will always cost
//! them. The builder waits for everyone who used the table when it registered the index, readers too, since
//! lines do not tell them apart. The table and the index's name are claimed all the while (`definers`). A
//! transaction of more tables than its line can name counts as a user of the old table.
use crate::catalog::Relation;
use crate::connection::Connection;
use crate::fill::{duplicate, outdated};
use crate::table::{Stage, Table, TableIndex};
use ondol_base::oid::Oid;
use ondol_base::sim::mutated;
use ondol_base::sync::spin_wait;
use ondol_kernel::heap::Slots;
use ondol_kernel::table::Committed;
use ondol_kernel::{registry, slot};
use ondol_types::SqlResult;
use std::sync::Arc;

/// A row as the second pass finds it.
struct Changed {
    /// The header under which it was read.
    header: u64,
    /// Its newest committed version, and that one's key if it lives, with whether a part of it is null.
    row: Vec<u8>,
    newest: Option<(Vec<u8>, bool)>,
    /// The key that the fill entered, if it entered one.
    entered: Option<Vec<u8>>,
    /// Those of versions later than that, but the newest's.
    between: Vec<Vec<u8>>,
}

impl Connection {
    /// The statement's snapshot, up to which everything is installed (O1).
    pub(crate) fn installed_snapshot(&mut self) -> u64 {
        let s = self.session.view.snapshot;
        if !mutated("index_uninstalled") {
            registry::wait_installed(&self.db.kernel.epochs, s, None)
        }
        if mutated("index_snapshot_dropped") {
            self.session.unpublish()
        }
        s
    }

    /// Brings an index that was filled from the snapshot `since` up to date with the table, and lets writers
    /// keep it so. Gives the table as everyone has it now.
    pub(crate) fn take_online(
        &mut self,
        old: &Arc<Table>,
        index: &Arc<TableIndex>,
        since: u64,
    ) -> SqlResult<Arc<Table>> {
        let mut table = old.clone();
        let stages = [Stage::Noted, Stage::Entered];
        for stage in stages.into_iter().skip(mutated("index_unannounced") as usize) {
            table = table.with_building(&self.db.kernel, Some((index.clone(), stage)));
            self.put_in_catalog(&table);
            self.registered = Some(table.clone());
            // O3: names of one table are in the order of its generations.
            let name = table.name();
            if !mutated("index_unwaited") {
                self.wait_for_users(&table, move |n| registry::same_table(n, name) && n < name)?
            }
        }
        if !mutated("index_not_caught_up") {
            self.catch_up(&table, index, since)?
        }
        Ok(table)
    }

    /// Takes the index that was registered out of everyone's catalog again (O7).
    pub(crate) fn withdraw(&mut self, registered: &Table) {
        let table = registered.with_building(&self.db.kernel, None);
        self.put_in_catalog(&table)
    }

    pub(crate) fn put_in_catalog(&self, table: &Arc<Table>) {
        let relation = Relation::Table(table.clone());
        self.db.publish(|c| drop(c.relations.insert(table.def.full_name(), relation)))
    }

    /// O4.
    fn catch_up(&mut self, table: &Arc<Table>, index: &Arc<TableIndex>, since: u64) -> SqlResult<()> {
        let kernel = self.db.kernel.clone();
        let mut slots = Slots::default();
        slots.start(&table.store.rows);
        while let Some(oid) = slots.next(&kernel.space) {
            if slot::last_commit(&kernel.space, oid) <= since {
                slots.skip(&kernel.space, 0)
            } else {
                self.session.patience.look_around().map_err(crate::error::kernel)?;
                self.catch_up_row(table, index, since, oid)?
            }
        }
        Ok(())
    }

    fn catch_up_row(
        &mut self,
        table: &Arc<Table>,
        index: &Arc<TableIndex>,
        since: u64,
        oid: Oid,
    ) -> SqlResult<()> {
        let kernel = self.db.kernel.clone();
        let mut turn = 0;
        loop {
            let Changed { header, row, newest, entered, between } =
                self.changed_row(table, index, since, oid);
            // O5: each time, since what is seen now may be folded away before the next.
            for key in between.into_iter().chain(entered.clone()) {
                if entered.as_ref() != Some(&key) {
                    self.session.put_entry(&index.store, &key, oid).map_err(crate::error::kernel)?
                }
                if newest.as_ref().is_none_or(|n| n.0 != key) && !mutated("index_old_keys_kept") {
                    self.outdated.note(outdated(table, index, key.into(), oid))?
                }
            }
            if let Some((key, nulls)) = newest.as_ref().filter(|(k, _)| entered.as_ref() != Some(k)) {
                // O6
                let nulls = *nulls || mutated("index_unchecked");
                if let Err(e) = self.session.enter_key(&table.store, &index.store, key, nulls, oid) {
                    let ondol_kernel::Error::UniqueViolation { .. } = e else {
                        return Err(crate::error::kernel(e));
                    };
                    let now = slot::header_of(&kernel.space, oid);
                    // Whoever has committed and is still installing may have given the other row the key
                    // already (O6).
                    let installing = header & slot::OWNED != 0 && {
                        let pin = self.session.pin();
                        slot::owner(&kernel.space, &pin, oid, header)
                            .is_none_or(|t| t.get() != slot::Status::Active)
                    };
                    if now == header && !installing || mutated("index_conflict_final") {
                        let pin = self.session.pin();
                        return Err(duplicate(&kernel, &pin, table, index, &row));
                    }
                    spin_wait(turn);
                    turn += 1;
                    continue;
                }
            }
            return Ok(());
        }
    }

    /// A row's committed versions: the one that the fill found, and later ones.
    fn changed_row(&self, table: &Table, index: &TableIndex, since: u64, oid: Oid) -> Changed {
        let space = &self.db.kernel.space;
        let pin = self.session.pin();
        let mut c = Changed { header: 0, row: vec![], newest: None, entered: None, between: vec![] };
        let mut bytes = vec![0; table.layout.row_size];
        c.header = slot::committed_versions(space, &pin, oid, &mut bytes, &mut |from, row| {
            let first = c.row.is_empty();
            if first {
                c.row = row.to_vec()
            }
            let known = from <= since;
            if row[0] & slot::LIVE != 0 {
                let mut key = vec![];
                let nulls = index.store.key.key(row, &Committed(space, &pin), &mut key);
                if known {
                    c.entered = Some(key.clone())
                }
                if first {
                    c.newest = Some((key, nulls))
                } else if !known {
                    c.between.push(key)
                }
            }
            known
        });
        c.between.sort_unstable();
        c.between.dedup();
        c
    }
}
