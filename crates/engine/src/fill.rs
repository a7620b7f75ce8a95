//! Filling new indexes from the rows of their tables, on all cores: at opening, and for CREATE INDEX.
//!
//! ```text
//! scan    parts of all tables: rows ──> keys ──> hash indexes, in batches; trees' gatherers
//! sort    parts of all trees ──> leaves
//! insert  what memory was refused to for the above: entry by entry
//! ```
//! - **X1** Snapshots may still see old versions, and collectors go about: every version that is there gets
//!   its entry. Either nobody else uses the tables, or a snapshot is filled from: then every change that was
//!   committed after it, or not at all yet, is left out, and the filler sees to those later (`online`).
//! - **X2** Of two rows with one key of a unique index, at least one is looked at again when both entries are
//!   in: the later one in a hash index, both in a tree. The question is put to the newest versions that are
//!   filled from.
//! - **X3** Gathering for a tree takes memory that its entries do not take later. Where that is refused, the
//!   tree is filled by inserts, so that what opened once opens again under the same limit.
use crate::error;
use crate::outdated::Outdated;
use crate::table::{Table, TableIndex};
use ondol_base::cancel::Cancel;
use ondol_base::epoch::Guard;
use ondol_base::fiber::yield_now;
use ondol_base::oid::Oid;
use ondol_base::sync::Mutex;
use ondol_base::{pool, thread};
use ondol_durability::page::PAGES_PER_SEGMENT;
use ondol_index::hash::{HashIndex, hash_key};
use ondol_index::load::{BulkError, Gather, Load};
use ondol_kernel::collect::Item;
use ondol_kernel::heap::{Part, Slots};
use ondol_kernel::memory::Space;
use ondol_kernel::registry::IDLE;
use ondol_kernel::table::Committed;
use ondol_kernel::{Kernel, slot};
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Rows looked at under one pin, and entries that go into a hash index together.
const BATCH: usize = 64;
/// Rows to learn the order of a tree's keys from.
const SAMPLE: usize = 8192;

/// What filling indexes did.
pub(crate) struct Filled {
    pub entries: u64,
    /// Entries that perhaps no newest version has: the changes that made them old were committed before the
    /// index was there, so nobody else will take them out.
    pub outdated: Outdated,
}

/// The versions of the rows that are filled from (X1).
#[derive(Clone, Copy, Debug)]
pub(crate) enum From {
    /// All there are, in a database that was just opened: unique keys are.
    Recovered,
    /// All there are, those of this transaction too.
    Own(u64),
    /// The newest of each row: nobody has a snapshot that is older.
    Newest,
    /// Those of a snapshot, which somebody holds and up to which all is installed, and older ones.
    Snapshot(u64),
}

/// Fills the empty indexes of each table, which nobody else uses yet. `progress` is told entries, on the
/// calling thread.
pub(crate) fn fill(
    kernel: &Arc<Kernel>,
    tables: Vec<(Arc<Table>, Vec<Arc<TableIndex>>)>,
    from: From,
    cancel: Option<Arc<Cancel>>,
    progress: &dyn Fn(u64),
) -> SqlResult<Filled> {
    let units: Vec<_> =
        tables.into_iter().map(|(table, indexes)| Unit::new(kernel, table, indexes, from)).collect();
    let job = Arc::new(Fill {
        kernel: kernel.clone(),
        units,
        from,
        cancel,
        done: AtomicU64::new(0),
        failed: AtomicBool::new(false),
        error: Mutex::new(None),
        outdated: Mutex::new(Outdated::new(&kernel.space.budget)),
    });
    let parts = Arc::new(job.parts());
    let (n, p) = (parts.len(), parts.clone());
    job.crew(n, progress, move |job, take| job.scan(&p, false, take))?;
    let runs = Arc::new(job.runs());
    job.crew(runs.len(), progress, move |job, take| job.sort(&runs, take))?;
    job.finish_trees()?;
    if job.targets().any(Target::is_refused) {
        job.crew(n, progress, move |job, take| job.scan(&parts, true, take))?
    }
    let none = Outdated::new(&kernel.space.budget);
    let outdated = std::mem::replace(&mut *job.outdated.lock(), none);
    Ok(Filled { entries: job.targets().map(|t| t.index.index.entries()).sum(), outdated })
}

impl From {
    /// The newest commit whose versions are filled from.
    fn until(self) -> u64 {
        match self {
            From::Snapshot(s) => s,
            _ => slot::ID,
        }
    }
    /// Copies a row that has one version, which is to be filled from, and stays if its transaction does: what
    /// nearly all rows are.
    fn read_alone(self, space: &Space, oid: Oid, row: &mut [u8]) -> bool {
        slot::read_quiet(space, oid, self.until(), row)
            || matches!(self, From::Own(own) if slot::read_inserted(space, oid, own, row))
    }
    /// Whether duplicates are looked for.
    fn is_checked(self) -> bool {
        !matches!(self, From::Recovered)
    }
}

struct Fill {
    kernel: Arc<Kernel>,
    units: Vec<Unit>,
    from: From,
    /// Set to make the statement stop.
    cancel: Option<Arc<Cancel>>,
    /// Entries.
    done: AtomicU64,
    failed: AtomicBool,
    error: Mutex<Option<SqlError>>,
    outdated: Mutex<Outdated>,
}

/// A table.
struct Unit {
    table: Arc<Table>,
    targets: Vec<Target>,
    /// Its rows' segments. What others add later has nothing that is filled from.
    segments: Vec<Part>,
}

/// An index to fill.
struct Target {
    index: Arc<TableIndex>,
    /// Of a tree, while it is filled in bulk.
    load: Mutex<Option<Arc<dyn Load>>>,
    /// X3.
    refused: AtomicBool,
}

/// Where a thread puts the keys of an index.
enum Sink {
    Hash(Vec<(u64, Oid)>),
    Gather(Box<dyn Gather>),
    Insert,
    Nothing,
}

/// What a thread has at hand while it scans a table.
struct Worker {
    unit: usize,
    sinks: Vec<Sink>,
    row: Vec<u8>,
    key: Vec<u8>,
    /// To be looked at again (X2): by target.
    suspects: Vec<(usize, Oid)>,
}

impl Target {
    fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Acquire)
    }
    fn refuse(&self) {
        self.refused.store(true, Ordering::Release);
        *self.load.lock() = None
    }
    fn sink(&self, inserting: bool) -> Sink {
        if inserting {
            return if self.is_refused() { Sink::Insert } else { Sink::Nothing };
        }
        match &*self.load.lock() {
            Some(load) => Sink::Gather(load.clone().gatherer()),
            None if self.is_refused() => Sink::Nothing,
            None if self.hash().is_some() => Sink::Hash(Vec::with_capacity(BATCH)),
            None => Sink::Insert,
        }
    }
    fn hash(&self) -> Option<&HashIndex> {
        self.index.index.as_hash()
    }
}

impl Unit {
    fn new(kernel: &Kernel, table: Arc<Table>, indexes: Vec<Arc<TableIndex>>, from: From) -> Unit {
        let trees = indexes.iter().any(|i| i.index.as_hash().is_none());
        let expected = if trees { table.count_rows() } else { 0 };
        let mut samples = vec![vec![]; indexes.len()];
        if expected as usize > 4 * SAMPLE {
            sample(kernel, &table, &indexes, from, &mut samples)
        }
        let targets = indexes.into_iter().zip(samples).map(|(index, sample)| {
            let load = Mutex::new(index.index.load(index.def.unique, expected, &sample));
            Target { index, load, refused: AtomicBool::new(false) }
        });
        Unit { targets: targets.collect(), segments: table.store.rows.segment_parts(), table }
    }
}

/// The keys of some rows, from all over the table, for each index.
fn sample(
    kernel: &Kernel,
    table: &Table,
    indexes: &[Arc<TableIndex>],
    from: From,
    samples: &mut [Vec<(Vec<u8>, Oid)>],
) {
    let space = &kernel.space;
    let mut slots = Slots::default();
    slots.start(&table.store.rows);
    let step = table.store.rows.segment_count() * PAGES_PER_SEGMENT / SAMPLE;
    let mut row = vec![0; table.layout.row_size];
    let participant = kernel.epochs.join(IDLE);
    while let Some(oid) = slots.next(space) {
        // Writers may take versions off the chains meanwhile.
        let pin = participant.pin();
        if from.read_alone(space, oid, &mut row) {
            for (i, sample) in indexes.iter().zip(&mut *samples) {
                let mut key = vec![];
                i.store.key.key(&row, &Committed(space, &pin), &mut key);
                if i.takes(&key) {
                    sample.push((key, oid))
                }
            }
            slots.skip(space, step)
        }
    }
}

impl Fill {
    fn targets(&self) -> impl Iterator<Item = &Target> {
        self.units.iter().flat_map(|u| &u.targets)
    }
    /// (unit, segment), in order of the units.
    fn parts(&self) -> Vec<(usize, Part)> {
        let units = self.units.iter().enumerate().filter(|(_, u)| !u.targets.is_empty());
        units.flat_map(|(n, u)| u.segments.iter().map(move |s| (n, s.clone()))).collect()
    }
    /// (unit, target, part) of the trees.
    fn runs(&self) -> Vec<(usize, usize, usize)> {
        let mut all = vec![];
        for (u, unit) in self.units.iter().enumerate() {
            for (t, target) in unit.targets.iter().enumerate() {
                let n = target.load.lock().as_ref().map_or(0, |l| l.parts());
                all.extend((0..n).map(|p| (u, t, p)))
            }
        }
        all
    }

    /// Lets all cores `work` at `n` pieces; one core takes each piece.
    fn crew(
        self: &Arc<Self>,
        n: usize,
        progress: &dyn Fn(u64),
        work: impl Fn(&Fill, &mut dyn FnMut() -> Option<usize>) -> SqlResult<()> + Clone + Send + 'static,
    ) -> SqlResult<()> {
        let next = Arc::new(AtomicUsize::new(0));
        let job = self.clone();
        let run = move |report: &dyn Fn(u64)| {
            let mut take = || {
                yield_now();
                report(job.done.load(Ordering::Relaxed));
                let i = next.fetch_add(1, Ordering::Relaxed);
                if job.cancel.as_ref().is_some_and(|c| c.is_told()) {
                    job.error.lock().get_or_insert_with(|| error::kernel(ondol_kernel::Error::Canceled));
                    job.failed.store(true, Ordering::Relaxed)
                }
                (i < n && !job.failed.load(Ordering::Relaxed)).then_some(i)
            };
            if let Err(e) = work(&job, &mut take) {
                job.error.lock().get_or_insert(e);
                job.failed.store(true, Ordering::Relaxed)
            }
        };
        let helpers: Vec<_> = (1..thread::parallelism().min(n))
            .filter_map(|_| {
                let run = run.clone();
                pool::spawn("ondol-index", move || run(&|_| {})).ok()
            })
            .collect();
        run(progress);
        for h in helpers {
            if let Some(Err(panic)) = h.join() {
                std::panic::resume_unwind(panic)
            }
        }
        self.error.lock().take().map_or(Ok(()), Err)
    }

    fn full(&self) -> SqlError {
        error::kernel(ondol_kernel::Error::OutOfMemory { limit: self.kernel.space.budget.limit() })
    }

    // ---- scanning

    fn scan(
        &self,
        parts: &[(usize, Part)],
        inserting: bool,
        take: &mut dyn FnMut() -> Option<usize>,
    ) -> SqlResult<()> {
        let participant = self.kernel.epochs.join(IDLE);
        let mut slots = Slots::default();
        let mut oids = Vec::with_capacity(BATCH);
        let mut worker: Option<Worker> = None;
        while let Some(i) = take() {
            let (u, ref segment) = parts[i];
            let unit = &self.units[u];
            let mut w = worker.take().filter(|w| w.unit == u).unwrap_or_else(|| Worker {
                unit: u,
                sinks: unit.targets.iter().map(|t| t.sink(inserting)).collect(),
                row: vec![0; unit.table.layout.row_size],
                key: vec![],
                suspects: vec![],
            });
            slots.start_part(segment);
            let mut rows = 0;
            loop {
                oids.clear();
                oids.extend(std::iter::from_fn(|| slots.next(&self.kernel.space)).take(BATCH));
                if oids.is_empty() {
                    break;
                }
                rows += oids.len();
                self.batch(unit, &mut w, &participant.pin(), &oids)?;
            }
            let filled = w.sinks.iter().filter(|s| matches!(s, Sink::Hash(_) | Sink::Insert)).count();
            self.done.fetch_add((rows * filled) as u64, Ordering::Relaxed);
            worker = Some(w)
        }
        Ok(())
    }

    fn batch(&self, unit: &Unit, w: &mut Worker, guard: &Guard<'_>, oids: &[Oid]) -> SqlResult<()> {
        let space = &self.kernel.space;
        let strings = Committed(space, guard);
        oids.iter().for_each(|o| space.prefetch(*o));
        for &oid in oids {
            let quiet = self.from.read_alone(space, oid, &mut w.row);
            for (n, target) in unit.targets.iter().enumerate() {
                if quiet {
                    w.key.clear();
                    target.index.store.key.key(&w.row, &strings, &mut w.key);
                    if target.index.takes(&w.key) {
                        self.put(target, n, w, guard, oid)?
                    }
                } else {
                    self.versions(unit, n, w, guard, oid)?
                }
            }
        }
        for (n, (target, sink)) in unit.targets.iter().zip(&mut w.sinks).enumerate() {
            if let (Sink::Hash(pairs), Some(hash)) = (sink, target.hash()) {
                let suspects = &mut w.suspects;
                hash.build(guard, pairs, &mut |oid| suspects.push((n, oid))).map_err(|_| self.full())?;
                pairs.clear()
            }
        }
        for (n, oid) in std::mem::take(&mut w.suspects) {
            self.check(unit, &unit.targets[n], w, guard, oid)?
        }
        Ok(())
    }

    /// Puts the worker's key in, the only one of its row.
    #[inline]
    fn put(&self, target: &Target, n: usize, w: &mut Worker, guard: &Guard<'_>, oid: Oid) -> SqlResult<()> {
        match &mut w.sinks[n] {
            Sink::Hash(pairs) => pairs.push((hash_key(&w.key), oid)),
            Sink::Gather(gatherer) => {
                if target.is_refused() || gatherer.push(&w.key, oid).is_err() {
                    target.refuse();
                    w.sinks[n] = Sink::Nothing
                }
            }
            Sink::Insert => {
                target.index.index.insert(guard, &w.key, oid, None).map_err(|_| self.full())?;
                w.suspects.push((n, oid))
            }
            Sink::Nothing => {}
        }
        Ok(())
    }

    /// Puts in the keys of all versions of a row (X1).
    #[cold]
    fn versions(&self, unit: &Unit, n: usize, w: &mut Worker, guard: &Guard<'_>, oid: Oid) -> SqlResult<()> {
        let (space, target) = (&self.kernel.space, &unit.targets[n]);
        if matches!(w.sinks[n], Sink::Nothing) {
            return Ok(());
        }
        let mut keys: Vec<Box<[u8]>> = vec![];
        let mut see = |row: &[u8]| {
            let mut key = vec![];
            target.index.store.key.key(row, &Committed(space, guard), &mut key);
            keys.push(key.into());
            false
        };
        // Somebody else will not take such an entry out, if a change made it old before the index was there,
        // or is our own transaction's, pending still.
        let old;
        if let From::Snapshot(until) = self.from {
            let mut newest = None;
            slot::committed_versions(space, guard, oid, &mut w.row, &mut |from, row| {
                let live = row[0] & slot::LIVE != 0;
                if from <= until {
                    newest.get_or_insert(live);
                    if live {
                        see(row);
                    }
                }
                false
            });
            old = newest == Some(false)
        } else if matches!(self.from, From::Newest) {
            let mut key = vec![];
            if self.newest(target, guard, oid, &mut w.row, &mut key).is_some() {
                keys.push(key.into())
            }
            old = false
        } else {
            slot::any_version(space, guard, oid, &mut w.row, true, &mut |row, _| see(row));
            old = !slot::is_live(space, oid) || slot::header_of(space, oid) & slot::OWNED != 0
        }
        keys.sort_unstable();
        keys.dedup();
        // The newest may be one that the index does not take.
        let several = keys.len() > 1;
        keys.retain(|k| target.index.takes(k));
        for key in &keys {
            w.key.clear();
            w.key.extend_from_slice(key);
            if matches!(w.sinks[n], Sink::Hash(_)) {
                // Two keys of one row may be one entry, which a batch would not notice.
                target.index.index.insert(guard, key, oid, None).map_err(|_| self.full())?;
                w.suspects.push((n, oid))
            } else {
                self.put(target, n, w, guard, oid)?
            }
        }
        if several || old {
            let mut noted = self.outdated.lock();
            for key in keys {
                noted.note(outdated(&unit.table, &target.index, key, oid))?
            }
        }
        Ok(())
    }

    // ---- trees

    fn sort(&self, runs: &[(usize, usize, usize)], take: &mut dyn FnMut() -> Option<usize>) -> SqlResult<()> {
        let participant = self.kernel.epochs.join(IDLE);
        while let Some(i) = take() {
            let (u, t, part) = runs[i];
            let (unit, target) = (&self.units[u], &self.units[u].targets[t]);
            let Some(load) = target.load.lock().clone() else { continue };
            let done = if self.from.is_checked() && target.index.def.unique {
                let mut twins =
                    Twins { fill: self, unit, target, guard: participant.pin(), one: None, stop: None };
                let done = load.part(part, Some(&mut |key, oid, first| twins.see(key, oid, first)));
                if let Some(e) = twins.stop {
                    return Err(e);
                }
                done
            } else {
                load.part(part, None)
            };
            match done {
                Ok(n) => self.done.fetch_add(n, Ordering::Relaxed),
                Err(e) => {
                    self.not_loaded(target, e)?;
                    continue;
                }
            };
        }
        Ok(())
    }

    fn finish_trees(&self) -> SqlResult<()> {
        for target in self.targets() {
            let load = target.load.lock().take();
            if let Some(Err(e)) = load.map(|l| l.finish()) {
                self.not_loaded(target, e)?
            }
        }
        Ok(())
    }

    fn not_loaded(&self, target: &Target, e: BulkError) -> SqlResult<()> {
        match e {
            BulkError::OutOfMemory => {
                target.refuse();
                Ok(())
            }
            e => Err(SqlError::new(
                sqlstate::INTERNAL_ERROR,
                format!("building index \"{}\": {e:?}", target.index.def.name),
            )),
        }
    }

    // ---- duplicates

    /// The key of the row's newest version, as the transaction has it: whether it has a NULL; `None` where
    /// there is no row.
    fn newest(
        &self,
        target: &Target,
        guard: &Guard<'_>,
        oid: Oid,
        row: &mut [u8],
        key: &mut Vec<u8>,
    ) -> Option<bool> {
        let space = &self.kernel.space;
        let view = match self.from {
            From::Snapshot(s) => slot::View { snapshot: s, ..Default::default() },
            // Nobody else uses the table: what is pending is our own transaction's, and counts, deletions
            // too.
            From::Own(txn) => slot::View { snapshot: slot::ID, txn, command: u32::MAX, ..Default::default() },
            From::Newest | From::Recovered => slot::View { snapshot: slot::ID, ..Default::default() },
        };
        key.clear();
        slot::read(space, guard, oid, &view, row)
            .then(|| target.index.store.key.key(row, &Committed(space, guard), key))
    }

    /// Looks for another row that has this one's key (X2).
    fn check(
        &self,
        unit: &Unit,
        target: &Target,
        w: &mut Worker,
        guard: &Guard<'_>,
        oid: Oid,
    ) -> SqlResult<()> {
        let unique = self.from.is_checked() && target.index.def.unique;
        if !unique || self.newest(target, guard, oid, &mut w.row, &mut w.key) != Some(false) {
            return Ok(());
        }
        let (mut oids, mut other) = (vec![], vec![]);
        target.index.index.lookup(guard, &w.key, &mut oids, None);
        for o in oids.into_iter().filter(|o| *o != oid) {
            if self.newest(target, guard, o, &mut w.row, &mut other) == Some(false) && other == w.key {
                return Err(duplicate(&self.kernel, guard, &unit.table, &target.index, &w.row));
            }
        }
        Ok(())
    }
}

/// That another row has this one's key.
pub(crate) fn duplicate(
    kernel: &Kernel,
    guard: &Guard<'_>,
    table: &Table,
    index: &TableIndex,
    row: &[u8],
) -> SqlError {
    let def = &index.def;
    let (mut names, mut values) = (vec![], vec![]);
    for c in def.keys() {
        let column = &table.def.columns[c.column];
        names.push(column.label());
        let mut scratch = vec![];
        let strings = Committed(&kernel.space, guard);
        let v = crate::row::column(&table.layout, row, c.column, &strings, &mut scratch);
        values.push(crate::connection::shown_value(v, column.ty))
    }
    let (names, values) = (names.join(", "), values.join(", "));
    if def.options.exclusion {
        let message = format!("could not create exclusion constraint \"{}\"", def.name);
        return SqlError::new(sqlstate::EXCLUSION_VIOLATION, message)
            .detail(format!("Key ({names})=({values}) conflicts with key ({names})=({values})."))
            .table(table.def.schema, &table.def.name)
            .constraint(&def.name);
    }
    SqlError::new(sqlstate::UNIQUE_VIOLATION, format!("could not create unique index \"{}\"", def.name))
        .detail(format!("Key ({names})=({values}) is duplicated."))
        .table(table.def.schema, &table.def.name)
        .constraint(&def.name)
}

/// An entry to be taken out when no version has its key any more.
pub(crate) fn outdated(table: &Table, index: &TableIndex, key: Box<[u8]>, oid: Oid) -> Item {
    Item::Entry { oid, table: table.store.clone(), index: index.store.clone(), key }
}

/// Looks at entries of equal keys, in their order.
struct Twins<'a> {
    fill: &'a Fill,
    unit: &'a Unit,
    target: &'a Target,
    guard: Guard<'a>,
    /// Whether a row that counts was met under this key.
    one: Option<bool>,
    stop: Option<SqlError>,
}

impl Twins<'_> {
    fn see(&mut self, key: &[u8], oid: Oid, first: bool) {
        if first {
            self.one = Some(false)
        }
        // Done with this key, or with all.
        let (Some(one), None) = (self.one, &self.stop) else { return };
        let (mut row, mut newest) = (vec![0; self.unit.table.layout.row_size], vec![]);
        match self.fill.newest(self.target, &self.guard, oid, &mut row, &mut newest) {
            Some(false) if newest == key && one => {
                let (kernel, table) = (&self.fill.kernel, &self.unit.table);
                self.stop = Some(duplicate(kernel, &self.guard, table, &self.target.index, &row))
            }
            Some(false) if newest == key => self.one = Some(true),
            // NULLs are equal to nothing.
            Some(true) if newest == key => self.one = None,
            _ => {}
        }
    }
}
