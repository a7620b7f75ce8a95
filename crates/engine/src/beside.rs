//! A table's rows copied to heaps of another layout beside those who use the table: what a change of its
//! definition does where it is a transaction by itself.
//!
//! ```text
//! copy       the rows of a snapshot            to heaps that nobody else knows of
//! follow     what was committed since          from a newer snapshot, if the table is large
//! fill       the indexes, from the copy        all cores, in bulk
//! follow     what was committed since          from a newer snapshot, again and again, until that is little
//! rename     the table in everyone's lines     nobody waits but the copier: for those who began before
//! mark       the table                         nobody uses it from here on (connection/N1)
//! follow     what was committed since          once more
//! publish    the dictionary's records          durable, and the mark is taken away
//! ```
//! The argument. Pass n has a snapshot S(n); the first pass copies, the later ones follow.
//! - **B1** *What a slot holds, not what became of it.* S(n) is published while pass n goes on, and all that
//!   it sees is installed. After the pass the copy has, for each slot of the table, the row that S(n) sees
//!   there, and none where it sees none. A map leads from slots to their rows in the copy. Whether a slot's
//!   row is the one that was there at S(n-1), or another that came when that one had been collected, makes no
//!   difference: what is compared are the slot's versions, and these have commit timestamps that come once
//!   (kernel/K1). Nobody has seen the copy, so a row there may become any other.
//! - **B2** *What is looked at.* A commit marks the pages of its rows with its timestamp before it installs
//!   them. So the slots of a page whose mark is S(n-1) or older hold what they held then. On the other pages
//!   so does a slot whose version at S(n) is as old. What is left is put in the copy's place as S(n) sees it.
//!   The slots to be looked at are those that are taken, and those that the map knows on the page: a row that
//!   was deleted may have been collected with its slot. A row that S(n) sees is not, while S(n) is published.
//! - **B3** *Short transactions.* The copies are made by a session of their own, some rows a transaction. So
//!   neither the log nor whoever waits for earlier commits waits for one that is as large as the table; and
//!   the definition's own commit has records of the dictionary alone. It has a later timestamp than all of
//!   them: where it is durable, so are they. After a crash before that, or a failure, the heaps are in no
//!   dictionary: the next opening drops them, or the end of the transaction does.
//! - **B4** *Older snapshots.* Rows of the copy have the timestamps of B3, so a snapshot that is older than
//!   the last of them would see some of the rows. Who has such a one (above READ COMMITTED) and comes to the
//!   table only when its definition has changed is refused with 40001. PostgreSQL shows an empty table there.
//!   All other readers are newer: who has the new definition learnt of it when its commit was durable. Where
//!   the log fails before that, nobody does, and everyone goes on with the table as it was.
//! - **B5** *Keys.* In the midst of a pass the copy is as of two snapshots, and two rows may have one key.
//!   So keys are entered unasked. Where an index is unique, and its key is not made of the columns that an
//!   index of the table has kept apart already, a key is noted when another row's entry stands under it; at
//!   the end of the pass, when the copy is what S(n) sees, its rows are counted. The fill asks for itself:
//!   it comes when a pass is over, and enters the newest versions alone, since no snapshot that is older may
//!   see the copy (B4).
//! - **B6** *Errors.* That a value cannot be converted, that a NULL is where none may be, that two rows have
//!   one key: each is told as S(n) has it, at once, though the row might be gone at the end. So the statement
//!   fails as it would have if it had been alone at S(n), and nothing had been changed since.
//! - **B7** *The end.* The table is marked, and nobody uses it: whoever changed it has committed, and is
//!   installed up to the last pass's snapshot, which is taken after that. From the mark to the commit the
//!   others wait: for the transactions that use the table, for a look at the mark of each page, for the rows
//!   of this pass, for one sync of the log. So that they do not wait for a transaction that began long ago,
//!   those that did are waited for before, while all others go on: they know the table by another generation
//!   (as in online/O3).
//! - **B8** *Only alone.* A table that the transaction has changed, or marked, before, has rows that no
//!   snapshot sees; a transaction block would keep others waiting until its end; a temporary table has no
//!   users. There the rows are copied under the mark ([`crate::rebuild`]).
//! - **B9** *Keeping up.* Others may change rows faster than one thread follows. So from the end of a large
//!   table's copying on their statements are slowed down (table_lock/L6), and more each time that a pass is
//!   not much shorter than the one before. So the passes get short, and what is left for the end is little.
//!   While a large table is copied most of its rows may change. They are followed before there are indexes:
//!   changing a key there costs far more than filling in bulk.
//!
//! What it costs: the memory of both copies, and of the map, eight bytes a slot and some 40 a page. It is
//! charged, and where the limit is reached the statement fails. Old versions stay for as long as the longest
//! pass takes, as under any long reader. Writers pay nothing. Who waits at the end, and for whom, is as for
//! any mark. The table is claimed all the while (`definers`).
use crate::catalog::TableDef;
use crate::charge::Charge;
use crate::connection::Connection;
use crate::database::Database;
use crate::dictionary as d;
use crate::error;
use crate::fill::{From, duplicate};
use crate::name::TEMPORARY;
use crate::rebuild::{Conversion, Origin};
use crate::row;
use crate::table::{Table, TableIndex};
use ondol_base::oid::Oid;
use ondol_base::sim::{self, mutated};
use ondol_durability::page::PageId;
use ondol_kernel::heap::{PIECE, Slots};
use ondol_kernel::transaction::Newest;
use ondol_kernel::{
    CommitTs, IndexStore, Isolation, LockMode, Locked, Session, TableStore, Wait, registry, slot,
};
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Rows of one of the copying transactions (B3), and bytes.
const ROWS: usize = 512;
const BYTES: usize = 96 << 10;
/// So many transactions may be on their way to the log's medium, so that a round stays short.
const ON_THE_WAY: usize = 32;
/// A pass that changed no more rows was short.
const FEW: usize = 500;
/// A table of more rows is one of which others change many while it is copied.
const MANY: usize = 100_000;
/// How long others wait where a pass is not shorter (B9), and so many times as long where the next is not,
/// up to the last.
const BRAKE: Duration = Duration::from_micros(500);
const HARDER: u32 = 4;
const HARDEST: Duration = Duration::from_millis(8);
/// Bytes of the map that are charged at once.
const STEP: usize = 256 << 10;

/// Slows down whoever changes rows of the table (B9), until it is dropped.
struct Brake<'a> {
    db: &'a Database,
    table: &'a Table,
    each: Duration,
}
impl Brake<'_> {
    /// False where it is as hard as can be.
    fn tighten(&mut self) -> bool {
        if self.each >= HARDEST {
            return false;
        }
        self.each = (self.each * HARDER).clamp(BRAKE, HARDEST);
        self.db.guards.set_brake(self.table, self.each);
        true
    }
}
impl Drop for Brake<'_> {
    fn drop(&mut self) {
        self.db.guards.set_brake(self.table, Duration::ZERO)
    }
}

/// What a slot holds at the pass's snapshot (B2).
#[derive(PartialEq)]
enum Holds {
    /// What it held at the last one.
    Same,
    /// A row of later than that.
    Row,
    Nothing,
}

impl Connection {
    /// Whether a table's rows may be copied beside its users (B8).
    pub(crate) fn may_copy_beside(&self, table: &Arc<Table>) -> bool {
        let is_everyones = || {
            let catalog = self.db.catalog();
            catalog.table(table.def.full_name()).is_some_and(|t| Arc::ptr_eq(t, table))
        };
        self.is_alone()
            && table.def.schema != TEMPORARY
            && table.locked.load(Ordering::SeqCst) != self.session.id()
            && is_everyones()
    }

    /// As [`Connection::rebuild`], beside the table's users; it is marked when this returns.
    pub(crate) fn rebuild_beside(
        &mut self,
        old: &Arc<Table>,
        def: TableDef,
        origins: &[Origin],
    ) -> SqlResult<Arc<Table>> {
        let db = self.db.clone();
        let copy = self.empty_copy(def)?;
        let (def, heaps) = (copy.def.clone(), copy.heaps);
        let was = old.clone();
        let mut copier = Copier::new(self, &was, &copy, origins);
        let mut at = self.copy_all(&mut copier)?;
        let mut brake = Brake { db: &db, table: &was, each: Duration::ZERO };
        // What was changed meanwhile is caught up with before there are indexes to be kept up (B9).
        // Simulated tables are small, and every other one is taken for large.
        let large = if sim::current().is_some() { at.is_multiple_of(2) } else { copier.changed > MANY };
        if large {
            brake.tighten();
            at = self.follow(&mut copier, at)?.0
        }
        let indexes = self.fill_copy(old, &copy, From::Newest)?;
        copier.keep_up(&indexes);
        at = self.follow_up(&mut copier, &mut brake, at)?;
        let old = &self.wait_for_early_users(old)?;
        at = self.follow_up(&mut copier, &mut brake, at)?;
        let early = mutated("beside_marked_late");
        if early {
            self.follow(&mut copier, at)?;
        }
        self.mark_table(old, "ALTER TABLE")?;
        drop(brake);
        if !early && !mutated("beside_last_pass_left_out") {
            self.follow(&mut copier, at)?;
        }
        let long = copier.long;
        drop(copier);
        if long {
            d::write_long(&mut self.session, &db.dictionary).map_err(error::kernel)?
        }
        // B4
        self.copied = true;
        if !mutated("beside_shown_in_part") {
            copy.store.rows.set_since(db.kernel.log.clock())
        }
        // What looks at the rows from here on sees those that the last pass made.
        self.session.snapshot_newest();
        self.dropped.push(old.heaps);
        d::remove_table(&mut self.session, &db.dictionary, def.id)?;
        d::add_table(&mut self.session, &db.dictionary, &def, heaps)?;
        Ok(Table::new(&db.kernel, def, heaps, indexes, Some(old)))
    }

    /// Waits for those who use the table, but not for who comes later (B7). Gives the table as everyone has
    /// it from then on.
    fn wait_for_early_users(&mut self, table: &Arc<Table>) -> SqlResult<Arc<Table>> {
        let renewed = table.with_building(&self.db.kernel, None);
        self.put_in_catalog(&renewed);
        let name = renewed.name();
        self.wait_for_users(&renewed, move |n| registry::same_table(n, name) && n < name)?;
        Ok(renewed)
    }

    /// The snapshot of a pass (B1).
    fn pass_snapshot(&mut self) -> CommitTs {
        self.session.snapshot_newest();
        let at = self.session.view.snapshot;
        if !mutated("beside_uninstalled") {
            registry::wait_installed(&self.db.kernel.epochs, at, None)
        }
        if mutated("beside_unpublished") {
            self.session.unpublish()
        }
        at
    }

    /// The first pass. Gives its snapshot.
    fn copy_all(&mut self, copier: &mut Copier<'_>) -> SqlResult<CommitTs> {
        let at = self.pass_snapshot();
        let space = self.db.kernel.space.clone();
        let mut slots = Slots::default();
        slots.start(&copier.old.store.rows);
        let mut row = vec![0; copier.old.layout.row_size];
        for turn in 1u64.. {
            let next = {
                let _pin = self.session.pin();
                std::iter::from_fn(|| slots.next(&space)).find(|oid| self.session.read(*oid, &mut row))
            };
            let Some(oid) = next else { break };
            if turn.is_multiple_of(256) {
                self.session.patience.look_around().map_err(error::kernel)?
            }
            copier.put(self, oid, &row)?
        }
        copier.end_pass()?;
        Ok(at)
    }

    /// Later passes, until one is short, or no shorter than the one before though others are slowed down.
    /// Gives the last one's snapshot.
    fn follow_up(
        &mut self,
        copier: &mut Copier<'_>,
        brake: &mut Brake<'_>,
        mut at: CommitTs,
    ) -> SqlResult<CommitTs> {
        // Simulated tables are small.
        let few = if sim::current().is_some() { 2 } else { FEW };
        let mut before = usize::MAX;
        loop {
            let (next, changed) = self.follow(copier, at)?;
            at = next;
            if changed <= few || changed >= before / 4 * 3 && !brake.tighten() {
                return Ok(at);
            }
            before = changed
        }
    }

    /// A later pass, behind the one of `since`. Gives its snapshot, and how many rows it changed.
    fn follow(&mut self, copier: &mut Copier<'_>, since: CommitTs) -> SqlResult<(CommitTs, usize)> {
        let at = self.pass_snapshot();
        let rows = copier.old.store.rows.clone();
        let space = self.db.kernel.space.clone();
        let mut slots = Slots::default();
        let (mut row, mut room) = (vec![0; copier.old.layout.row_size], vec![0; copier.old.layout.row_size]);
        let before = copier.changed;
        for (turn, page) in rows.marked(since).into_iter().enumerate() {
            if mutated("beside_page_skipped") && turn == 0 {
                continue;
            }
            if turn % 32 == 31 {
                self.session.patience.look_around().map_err(error::kernel)?
            }
            let mut stays = [false; MOST_SLOTS];
            slots.start_page(page);
            loop {
                let next = {
                    let _pin = self.session.pin();
                    slots.next(&space)
                };
                let Some(oid) = next else { break };
                let (_, n) = rows.place_of(oid);
                let mut holds = self.holds(oid, (since, at), &mut row, &mut room);
                let once = mutated("beside_copied_once") && holds == Holds::Row;
                if once && copier.there(page, n)?.is_some() {
                    holds = Holds::Same
                }
                stays[n] = holds != Holds::Nothing;
                if holds == Holds::Row {
                    copier.put(self, oid, &row)?
                }
            }
            for (n, stays) in stays.iter().enumerate().take(rows.slots_on(page)) {
                if !stays && !mutated("beside_deletions_left_out") {
                    copier.take_out(page, n)?
                }
            }
        }
        copier.end_pass()?;
        Ok((at, copier.changed - before))
    }

    /// B2; the row is copied where it is a later one.
    fn holds(&self, oid: Oid, (since, at): (CommitTs, CommitTs), row: &mut [u8], room: &mut [u8]) -> Holds {
        let space = &self.db.kernel.space;
        let pin = self.session.pin();
        let header = slot::header_of(space, oid);
        if header != 0 && header & slot::OWNED == 0 && header <= since {
            return Holds::Same;
        }
        let mut holds = Holds::Nothing;
        slot::committed_versions(space, &pin, oid, room, &mut |from, bytes| {
            if from > at {
                return false;
            }
            if from <= since {
                holds = Holds::Same
            } else if bytes[0] & slot::LIVE != 0 {
                row.copy_from_slice(bytes);
                holds = Holds::Row
            }
            true
        });
        holds
    }
}

/// Slots of a page at most.
const MOST_SLOTS: usize = 128;

/// Which row of the copy stands for what a slot of the table holds: page by page, the bits of OIDs, 0 where
/// there is none.
struct Map {
    pages: BTreeMap<PageId, Box<[u64]>>,
    /// The page that is at hand, which is not among the others.
    at: Option<(PageId, Box<[u64]>)>,
    bytes: usize,
    charge: Charge,
}

impl Map {
    fn new(charge: Charge) -> Map {
        Map { pages: BTreeMap::new(), at: None, bytes: 0, charge }
    }
    /// The slots of a page, which has so many.
    fn of(&mut self, page: PageId, slots: usize) -> SqlResult<&mut [u64]> {
        let here = match self.at.take() {
            Some(here) if here.0 == page => here,
            other => {
                self.pages.extend(other);
                match self.pages.remove(&page) {
                    Some(known) => (page, known),
                    None => (page, self.make(slots)?),
                }
            }
        };
        Ok(&mut self.at.insert(here).1)
    }
    fn make(&mut self, slots: usize) -> SqlResult<Box<[u64]>> {
        /// What a page takes beside its slots, roughly.
        const PAGE: usize = 40;
        self.bytes += slots * 8 + PAGE;
        if self.bytes > self.charge.bytes() {
            self.charge.grow(STEP)?
        }
        Ok(vec![0; slots].into_boxed_slice())
    }
}

/// Makes the copy (B3).
struct Copier<'a> {
    old: &'a Table,
    copy: &'a Table,
    conversion: Conversion<'a>,
    session: Session,
    store: Arc<TableStore>,
    map: Map,
    /// Rows and bytes of the open transaction, and transactions since the log was waited for.
    rows: usize,
    bytes: usize,
    commits: usize,
    /// Rows that were put in or taken out.
    changed: usize,
    /// A value was stored in pieces (dictionary/D15).
    long: bool,
    /// The unique indexes that no other vouches for, and the keys to be looked at when the pass is over (B5).
    asked: Vec<Arc<TableIndex>>,
    noted: Vec<(usize, Vec<u8>)>,
    charge: Charge,
    /// For whoever makes the rows' values.
    before: Vec<u8>,
    image: Vec<u8>,
    key: Vec<u8>,
    oids: Vec<Oid>,
    origins: &'a [Origin],
}

impl<'a> Copier<'a> {
    fn new(c: &Connection, old: &'a Table, copy: &'a Table, origins: &'a [Origin]) -> Copier<'a> {
        let mut session = Session::new(c.db.kernel.clone());
        session.stream = c.session.stream;
        session.patience.cancel = c.session.patience.cancel.clone();
        Copier {
            old,
            copy,
            conversion: Conversion::new(old, copy, origins),
            session,
            store: copy.store.clone(),
            map: Map::new(c.charge()),
            rows: 0,
            bytes: 0,
            commits: 0,
            changed: 0,
            long: false,
            asked: vec![],
            noted: vec![],
            charge: c.charge(),
            before: vec![0; copy.layout.row_size],
            image: vec![],
            key: vec![],
            oids: vec![],
            origins,
        }
    }

    /// Whether an index of the table keeps the keys of this one apart (B5).
    fn is_vouched_for(&self, index: &TableIndex) -> bool {
        let Some(was) = self.old.indexes.iter().find(|i| i.def.id == index.def.id) else { return false };
        let same = |(c, o): (&crate::catalog::IndexColumn, &crate::catalog::IndexColumn)| {
            matches!(self.origins.get(c.column), Some(Origin::Column(n)) if *n == o.column)
                && self.old.def.columns[o.column].ty.id == self.copy.def.columns[c.column].ty.id
        };
        was.def.unique
            && was.def.columns.len() == index.def.columns.len()
            && was.def.options.nulls_not_distinct == index.def.options.nulls_not_distinct
            && index.def.columns.iter().zip(&was.def.columns).all(same)
    }

    /// From here on the indexes, which have been filled, get the keys of what is put in.
    fn keep_up(&mut self, indexes: &[Arc<TableIndex>]) {
        let plain = |i: &Arc<TableIndex>| {
            let (id, index, key) = (i.store.id, i.store.index.clone(), i.store.key.clone());
            Arc::new(IndexStore { id, unique: i.def.unique && mutated("beside_asked_at_once"), index, key })
        };
        let (rows, strings) = (self.store.rows.clone(), self.store.strings.clone());
        let (row_size, entered) = (self.store.row_size, indexes.len());
        let all = indexes.iter().map(plain).collect();
        self.store = Arc::new(TableStore { rows, strings, row_size, indexes: all, entered });
        let asked = indexes.iter().filter(|i| i.def.unique && !self.is_vouched_for(i));
        self.asked = asked.filter(|_| !mutated("beside_unasked")).cloned().collect()
    }

    /// Puts what the slot holds into the copy; its bytes are of `c`'s snapshot.
    fn put(&mut self, c: &Connection, oid: Oid, bytes: &[u8]) -> SqlResult<()> {
        let (page, n) = self.old.store.rows.place_of(oid);
        let there = self.there(page, n)?;
        self.begin();
        if let Some(there) = there {
            self.own(there)?
        }
        let values = self.conversion.values(bytes, c)?;
        let (session, store, long) = (&mut self.session, &self.store, &mut self.long);
        let mut size = 0;
        let put = &mut |b: &[u8]| {
            *long |= b.len() > PIECE && !store.rows.is_volatile();
            size += b.len();
            session.put_string(store, b)
        };
        row::encode(&self.copy.layout, &values, &mut self.image, put).map_err(error::kernel)?;
        drop(values);
        let placed = match there {
            Some(there) => {
                self.session
                    .update(&self.store, there, &self.before, &self.image, true)
                    .map_err(error::kernel)?;
                self.drop_strings()?;
                there
            }
            None => {
                let placed = self.session.insert(&self.store, &self.image).map_err(error::kernel)?;
                self.slots(page)?[n] = placed.bits();
                placed
            }
        };
        self.note_keys(placed)?;
        self.count(size + self.image.len())
    }

    /// Takes out what stands for the slot, if anything does.
    fn take_out(&mut self, page: PageId, n: usize) -> SqlResult<()> {
        let Some(there) = self.there(page, n)? else { return Ok(()) };
        self.begin();
        self.own(there)?;
        self.session.delete(&self.store, there, &self.before).map_err(error::kernel)?;
        self.slots(page)?[n] = 0;
        self.drop_strings()?;
        self.count(self.before.len())
    }

    /// A page of the table in the map.
    fn slots(&mut self, page: PageId) -> SqlResult<&mut [u64]> {
        self.map.of(page, self.old.store.rows.slots_on(page))
    }
    /// What stands for a slot.
    fn there(&mut self, page: PageId, n: usize) -> SqlResult<Option<Oid>> {
        let bits = self.slots(page)?[n];
        Ok(self.copy.store.rows.slot_at(bits))
    }

    fn begin(&mut self) {
        if !self.session.is_open() {
            self.session.begin(Isolation::ReadCommitted);
            self.session.snapshot_newest();
            self.session.next_command()
        }
    }

    /// Locks a row of the copy, and reads it.
    fn own(&mut self, there: Oid) -> SqlResult<()> {
        let locked =
            self.session.lock(&self.store, there, LockMode::Update, Wait::Block).map_err(error::kernel)?;
        match locked == Locked::Same && self.session.read_newest(there, &mut self.before) {
            true => Ok(()),
            false => Err(SqlError::new(sqlstate::INTERNAL_ERROR, "a row of a table's copy is not there")),
        }
    }

    /// Gives up the strings of what was there before.
    fn drop_strings(&mut self) -> SqlResult<()> {
        let mut gone = vec![];
        let strings = Newest(&self.session);
        row::strings_of(&self.copy.layout, &self.before, &strings, |slot, len| gone.push((slot, len)));
        for (slot, len) in gone {
            self.session.drop_string(&self.store, slot, len).map_err(error::kernel)?
        }
        Ok(())
    }

    /// B5
    fn note_keys(&mut self, placed: Oid) -> SqlResult<()> {
        for (n, i) in self.asked.iter().enumerate() {
            self.key.clear();
            let nulls = i.store.key.key(&self.image, &Newest(&self.session), &mut self.key);
            if nulls || !i.takes(&self.key) {
                continue;
            }
            self.oids.clear();
            {
                let pin = self.session.pin();
                i.index.lookup(&pin, &self.key, &mut self.oids, None);
            }
            if self.oids.iter().any(|o| *o != placed) {
                self.charge.grow(self.key.len() + size_of::<(usize, Vec<u8>)>())?;
                self.noted.push((n, self.key.clone()))
            }
        }
        Ok(())
    }

    fn count(&mut self, bytes: usize) -> SqlResult<()> {
        self.rows += 1;
        self.changed += 1;
        self.bytes += bytes;
        if self.rows < ROWS && self.bytes < BYTES { Ok(()) } else { self.commit() }
    }

    fn commit(&mut self) -> SqlResult<()> {
        (self.rows, self.bytes) = (0, 0);
        let Some(at) = self.session.commit().map_err(error::kernel)? else { return Ok(()) };
        self.commits += 1;
        match self.commits % ON_THE_WAY {
            0 => self.session.wait_durable(at).map_err(error::kernel)?,
            _ => self.session.hold(at),
        }
        Ok(())
    }

    /// The copy is what the pass's snapshot sees.
    fn end_pass(&mut self) -> SqlResult<()> {
        self.commit()?;
        for (n, key) in std::mem::take(&mut self.noted) {
            let i = &self.asked[n];
            let (mut oids, mut has) = (vec![], false);
            let pin = self.session.pin();
            i.index.lookup(&pin, &key, &mut oids, None);
            oids.sort_unstable();
            oids.dedup();
            for oid in oids {
                self.key.clear();
                if !self.session.read_newest(oid, &mut self.before) {
                    continue;
                }
                i.store.key.key(&self.before, &Newest(&self.session), &mut self.key);
                if self.key == key && std::mem::replace(&mut has, true) {
                    return Err(duplicate(self.session.kernel(), &pin, self.copy, i, &self.before));
                }
            }
        }
        self.charge.clear();
        Ok(())
    }
}
