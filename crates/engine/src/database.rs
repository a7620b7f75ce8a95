//! An open database.
use crate::advisory::Advisory;
use crate::catalog::{Catalog, TableDef};
use crate::charge::Charge;
use crate::connection::Connection;
use crate::definers::Definers;
use crate::dictionary::{self, Dictionary, FIRST_OBJECT, OBJECTS};
use crate::error;
use crate::fill::{self, fill};
use crate::memory::{Memory, MemoryKind, MemoryPart};
use crate::name::{INFORMATION_SCHEMA, Name, PG_CATALOG, PUBLIC, TEMPORARY};
use crate::table::Table;
use crate::table_lock::Guards;
use crate::temporary;
use ondol_base::media::{Storage, disk::Disk};
use ondol_base::sync::{Mutex, RwLock};
use ondol_base::{clock, thread};
use ondol_durability::Given;
use ondol_durability::files::{Config, Place};
use ondol_durability::mark;
use ondol_durability::page::SEGMENT_SIZE;
use ondol_durability::record::System;
use ondol_durability::recovery::{Progress, Recovered};
use ondol_durability::ring_file::{Given as Ring, Promise};
use ondol_durability::sequence::{Bounds, Counter, Refused};
use ondol_kernel::kernel::{LastCheckpoint, OpenError};
use ondol_kernel::transaction::Session;
use ondol_kernel::{Kernel, KernelConfig};
use ondol_types::data::{Data, DataVersions};
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What the dictionary and one small table need.
const LEAST_MEMORY: usize = 16 << 20;

#[derive(Clone, Debug)]
pub struct Options {
    /// Make the database when the folder has none.
    pub create: bool,
    /// Names of what may lie in the folder already when it is made there.
    pub beside: Vec<String>,
    /// Bytes that segments, indexes, versions and buffers may take together.
    pub memory_limit: usize,
    /// Log bytes after which a checkpoint starts by itself.
    pub checkpoint_log_bytes: u64,
    /// Seconds after which a checkpoint starts by itself, when anything was written.
    pub checkpoint_interval_s: u64,
    /// Further log folders: each is a stream of its own.
    pub log_folders: Vec<String>,
    /// Full size of a log file.
    pub log_file_size: u64,
    /// Bytes of each of a stream's two buffers.
    pub log_buffer_size: usize,
    /// Address space; 0: enough.
    pub reserved: usize,
    /// Collection and checkpoints by themselves.
    pub background: bool,
    /// The ring that makes commits durable before the log's files are synced.
    pub log_ring: Option<LogRing>,
    /// Open without what a ring holds, or held, where that stands in the way.
    pub lose_acknowledged_commits: bool,
    /// The versions of data that this program is taken to compute with: those that it has, but in tests.
    pub data: DataVersions,
}

/// A ring for the log, in persistent memory or, by its name, in memory that a power failure empties.
#[derive(Clone, Debug)]
pub struct LogRing {
    /// Its file, made when it is not there.
    pub path: PathBuf,
    /// Bytes, of a new ring; one that is there must have them. `None`: 64 MiB, and whatever one has that is
    /// there.
    pub size: Option<u64>,
    /// What commits are to survive. `None`: a power failure, and whatever the ring that is there promises.
    pub promise: Option<Promise>,
}
impl LogRing {
    pub fn at(path: impl Into<PathBuf>) -> LogRing {
        LogRing { path: path.into(), size: None, promise: None }
    }
    /// The ring as durability takes it: its folder, which must be there, and its name.
    pub fn given(&self) -> SqlResult<Ring> {
        let what = format!("log ring \"{}\"", self.path.display());
        let named = std::path::absolute(&self.path).map_err(|e| error::io(&what, e))?;
        let (folder, name) = (named.parent(), named.file_name().and_then(|n| n.to_str()));
        let (Some(folder), Some(name)) = (folder, name.filter(|_| !ends_in_slash(&self.path))) else {
            return Err(SqlError::new(
                sqlstate::INVALID_PARAMETER_VALUE,
                format!("{what}: expected the name of a file, in UTF-8"),
            ));
        };
        let storage = Arc::new(Disk::open(folder).map_err(|e| error::io(&what, e))?);
        let (size, promise, wait) = (self.size, self.promise, Ring::USUAL_WAIT);
        Ok(Ring { storage, name: name.to_string(), size, promise, wait })
    }
}
fn ends_in_slash(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

impl Default for Options {
    fn default() -> Self {
        let memory = physical_memory();
        Options {
            create: true,
            beside: vec![],
            memory_limit: memory / 4 * 3,
            checkpoint_log_bytes: 1 << 30,
            checkpoint_interval_s: 300,
            log_folders: vec![],
            log_file_size: 64 << 20,
            log_buffer_size: 4 << 20,
            reserved: 0,
            background: true,
            log_ring: None,
            lose_acknowledged_commits: false,
            data: Data::versions(),
        }
    }
}

/// The machine's memory, or what its control group leaves.
fn physical_memory() -> usize {
    ondol_base::reserve::physical_memory().unwrap_or(8 << 30)
}

/// What opening found and took.
#[derive(Clone, Debug, Default)]
pub struct Opened {
    pub recovered: Recovered,
    pub index_entries: u64,
    pub index_seconds: f64,
    pub seconds: f64,
}

/// How far opening is.
#[derive(Clone, Copy, Debug)]
pub enum Opening {
    Recovery(Progress),
    Indexes { done: u64, total: u64 },
}

pub struct Database {
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) dictionary: Dictionary,
    catalog: RwLock<Arc<Catalog>>,
    version: AtomicU64,
    versions: AtomicU64,
    pub(crate) objects: Counter,
    /// The next number of a temporary object (temporary/E2).
    temporary: AtomicU64,
    /// How many sessions have temporary views that rest on what has the number (temporary/E7).
    pub(crate) rested: Mutex<BTreeMap<u32, u32>>,
    pub(crate) definers: Arc<Definers>,
    pub(crate) guards: Guards,
    pub(crate) advisory: Arc<Advisory>,
    /// Held by who changes the catalog.
    publishing: Mutex<()>,
    opened: Opened,
    location: String,
    closed: Mutex<bool>,
}

/// The numbers of objects.
const NUMBERS: Bounds = Bounds { increment: 1, min: 1, max: i32::MAX as i64, cycle: false };

/// Where numbers of objects go on: behind those that were given, and those that are used.
fn objects_from(given: Option<Given>, used: u32) -> Counter {
    let least = i64::from(used).max(i64::from(FIRST_OBJECT) - 1) + 1;
    let given = match given {
        Some(g) if g.value + i64::from(g.steps > 0) >= least => g,
        Some(g) => Given { generation: g.generation + 1, steps: 0, value: least },
        None => Given { generation: 0, steps: 0, value: least },
    };
    Counter::new(OBJECTS, given)
}

/// In a folder with a file of this name a backup was begun, and is not complete.
pub const UNFINISHED: &str = "backup-unfinished";

/// Whether a name in a database's folders may be the database's: what is left when its making did not come
/// far.
fn is_own(name: &str) -> bool {
    let log =
        name.strip_suffix(".log").is_some_and(|n| n.len() == 12 && n.bytes().all(|b| b.is_ascii_digit()));
    log || name == "lock"
        || name == "log-lock"
        || mark::is_mark(name)
        || name.starts_with("manifest-")
        || name.starts_with("checkpoint-")
}

impl Database {
    /// Opens the database in a folder, made on first use where the options say so.
    pub fn open(path: &Path, options: Options) -> SqlResult<Arc<Database>> {
        Self::open_reporting(path, options, &|_| {})
    }
    pub fn open_reporting(
        path: &Path,
        options: Options,
        progress: &dyn Fn(Opening),
    ) -> SqlResult<Arc<Database>> {
        let what = format!("database \"{}\"", path.display());
        let disk = match Disk::open(path) {
            Ok(d) => d.settle_name().map(|_| d).map_err(|e| error::io(&what, e))?,
            Err(e) if e.kind() == io::ErrorKind::NotFound && options.create => {
                Disk::create(path).map_err(|e| error::io(&what, e))?
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Err(SqlError::new("3D000", format!("{what} does not exist")));
            }
            Err(e) => return Err(error::io(&what, e)),
        };
        let mut streams = vec![];
        for folder in &options.log_folders {
            let d = Disk::create(Path::new(folder))
                .map_err(|e| error::io(&format!("log folder \"{folder}\""), e))?;
            streams.push(Place { storage: Arc::new(d), folder: String::new() })
        }
        let ring = options.log_ring.as_ref().map(LogRing::given).transpose()?;
        Self::open_on(Arc::new(disk), streams, ring, options, progress)
    }
    /// Opens on any storage; `streams` are further log folders, `ring` is in the place of the options'.
    pub fn open_on(
        storage: Arc<dyn Storage>,
        streams: Vec<Place>,
        ring: Option<Ring>,
        options: Options,
        progress: &dyn Fn(Opening),
    ) -> SqlResult<Arc<Database>> {
        let begun = clock::now();
        if options.memory_limit < LEAST_MEMORY {
            return Err(SqlError::new(
                sqlstate::INVALID_PARAMETER_VALUE,
                format!(
                    "a memory limit of {} bytes is too small: a database takes at least {LEAST_MEMORY}",
                    options.memory_limit
                ),
            ));
        }
        let location = storage.describe();
        let names = storage.list("").map_err(|e| error::io(&location, e))?;
        if names.iter().any(|n| n == UNFINISHED) {
            return Err(SqlError::new("55000", format!("\"{location}\" is a backup that was not completed"))
                .hint("Make the backup again: it may go over this folder."));
        }
        if !names.iter().any(|n| n.starts_with("manifest")) {
            if !options.create {
                return Err(SqlError::new("3D000", format!("there is no database in \"{location}\"")));
            }
            let foreign =
                |n: &&String| !is_own(n) && *n != "log" && *n != "lost+found" && !options.beside.contains(n);
            let mut found = names.iter().find(foreign).map(|n| (location.clone(), n.clone()));
            let log = Place { storage: storage.clone(), folder: "log".into() };
            for place in std::iter::once(&log).chain(&streams) {
                let folder = format!("{}/{}", place.storage.describe(), place.folder);
                match place.storage.list(&place.folder) {
                    Ok(names) => {
                        let foreign = names.into_iter().find(|n| !is_own(n) && n != "lost+found");
                        found = found.or(foreign.map(|n| (folder, n)))
                    }
                    Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                    Err(e) => return Err(error::io(&folder, e)),
                }
            }
            if let Some((folder, name)) = found {
                return Err(SqlError::new(
                    sqlstate::INVALID_PARAMETER_VALUE,
                    format!("expected a database or an empty folder, found \"{name}\" in \"{folder}\""),
                )
                .hint("A database is made in a folder of its own."));
            }
        }
        let mut durability = Config::new(storage);
        durability.streams.extend(streams);
        durability.log_file_size = options.log_file_size;
        durability.buffer_size = options.log_buffer_size;
        durability.ring = ring;
        durability.lose_acknowledged_commits = options.lose_acknowledged_commits;
        let reserved = match options.reserved {
            0 => (options.memory_limit.saturating_mul(4)).clamp(64 << 30, 1 << 44),
            n => n,
        };
        let config = KernelConfig {
            durability,
            memory_limit: options.memory_limit,
            reserved: reserved.next_multiple_of(SEGMENT_SIZE),
            checkpoint_log_bytes: options.checkpoint_log_bytes,
            checkpoint_interval: Duration::from_secs(options.checkpoint_interval_s),
            background: options.background,
        };
        let (kernel, recovered) =
            Kernel::open(config, &|p| progress(Opening::Recovery(p))).map_err(|e| match e {
                OpenError::Recovery(e) => error::recovery(e),
                OpenError::Memory(e) => SqlError::new(
                    sqlstate::OUT_OF_MEMORY,
                    format!("could not reserve {reserved} bytes of address space: {e}"),
                ),
            })?;
        match Self::load(kernel.clone(), location, options.data, (recovered, begun), progress) {
            Ok(db) => Ok(db),
            Err(e) => {
                let _ = kernel.close();
                Err(e)
            }
        }
    }

    fn load(
        kernel: Arc<Kernel>,
        location: String,
        data: DataVersions,
        (recovered, begun): (Recovered, Duration),
        progress: &dyn Fn(Opening),
    ) -> SqlResult<Arc<Database>> {
        let dictionary = Dictionary::new(&kernel)?;
        let started = clock::now();
        let given: BTreeMap<u64, Given> = recovered.sequences.iter().copied().collect();
        let temporary = AtomicU64::new(temporary::FIRST.into());
        let mut catalog = {
            let mut session = Session::new(kernel.clone());
            session.snapshot_newest();
            let volatile = || temporary.fetch_add(1, Ordering::Relaxed) as u32;
            dictionary::load(&session, &dictionary, 1, &given, &volatile)?
        };
        catalog.data = Arc::new(data);
        // dictionary/D11
        let own = dictionary.all().into_iter().map(|t| (t.clone(), t.indexes.clone())).collect();
        fill(&kernel, own, fill::From::Recovered, None, &|_| {})?;
        let tables = || catalog.tables();
        let total: u64 = tables().map(|t| t.count_rows() * t.indexes.len() as u64).sum();
        let empty = tables().map(|t| (t.clone(), t.indexes.clone())).collect();
        let report = |done| progress(Opening::Indexes { done, total });
        let index_entries = fill(&kernel, empty, fill::From::Recovered, None, &report)?.entries;
        let index_seconds = (clock::now() - started).as_secs_f64();
        let mut keep: BTreeSet<u32> =
            dictionary.all().iter().flat_map(|t| [t.heaps * 2, t.heaps * 2 + 1]).collect();
        keep.extend(catalog.tables().flat_map(|t| [t.heaps * 2, t.heaps * 2 + 1]));
        kernel.drop_orphans(&keep);
        let used = catalog
            .tables()
            .flat_map(|t| [t.def.id, t.heaps].into_iter().chain(t.def.indexes.iter().map(|i| i.id)))
            .chain(catalog.functions.keys().copied())
            .chain(catalog.schemas.values().map(|s| s.number).filter(|n| !is_given(*n)))
            .chain(catalog.sequences().flat_map(|s| [s.def.id, s.def.counter]))
            .chain(catalog.views.keys().copied())
            .chain(catalog.types.values().filter_map(|t| t.user()).flat_map(|u| [u.number, u.array]))
            .filter(|n| !temporary::is_temporary(*n))
            .max()
            .unwrap_or(0);
        let objects = objects_from(given.get(&OBJECTS).copied(), used);
        // sequence/S5
        let named: BTreeSet<u64> = catalog.sequences().map(|s| s.def.counter.into()).collect();
        for id in given.keys().filter(|id| **id != OBJECTS && !named.contains(id)) {
            // Where the log has no room the next opening does it: this one needs none (protocol/P9).
            let _ = kernel.log.system(System::SequenceDrop { id: *id });
        }
        let opened =
            Opened { index_entries, index_seconds, seconds: (clock::now() - begun).as_secs_f64(), recovered };
        Ok(Arc::new(Database {
            kernel,
            dictionary,
            catalog: RwLock::new(Arc::new(catalog)),
            version: AtomicU64::new(1),
            versions: AtomicU64::new(1),
            objects,
            temporary,
            rested: Mutex::default(),
            definers: Arc::default(),
            guards: Guards::default(),
            advisory: Arc::default(),
            publishing: Mutex::default(),
            opened,
            location,
            closed: Mutex::new(false),
        }))
    }

    pub fn connect(self: &Arc<Self>) -> Connection {
        Connection::new(self.clone())
    }
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.read().clone()
    }
    /// An empty charge against the database's memory limit.
    pub fn charge(&self) -> Charge {
        Charge::new(self.kernel.space.budget.clone())
    }
    /// The committed catalog's version.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }
    /// A version that no catalog had before.
    pub(crate) fn next_version(&self) -> u64 {
        self.versions.fetch_add(1, Ordering::Relaxed) + 1
    }
    /// Puts a change into the newest catalog (draft/D4).
    pub(crate) fn publish(&self, change: impl FnOnce(&mut Catalog)) {
        let _one = self.publishing.lock();
        let mut catalog = (*self.catalog()).clone();
        change(&mut catalog);
        catalog.version = self.next_version();
        let catalog = Arc::new(catalog);
        let mut c = self.catalog.write();
        self.version.store(catalog.version, Ordering::SeqCst);
        *c = catalog;
    }
    /// A number for a new object (dictionary/D2).
    pub(crate) fn next_object(&self) -> SqlResult<u32> {
        // Its commit, which is later, makes it durable that the number is given (sequence/S4).
        let taken = self.objects.take(&self.kernel.log, &mut self.objects.state(), &NUMBERS, 1);
        taken.map(|t| t.first as u32).map_err(|e| match e {
            Refused::Log(e) => error::log(e),
            Refused::Ended => {
                SqlError::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, "there are no more numbers for objects")
            }
        })
    }
    /// A number for something new in a schema.
    pub(crate) fn next_object_in(&self, schema: u32) -> SqlResult<u32> {
        match schema {
            TEMPORARY => Ok(self.temporary.fetch_add(1, Ordering::Relaxed) as u32),
            _ => self.next_object(),
        }
    }
    /// A number for a table's new heaps: volatile ones have that of a temporary object (temporary/E2,
    /// temporary/E8).
    pub(crate) fn next_heaps(&self, def: &TableDef) -> SqlResult<u32> {
        self.next_object_in(if def.nature.unlogged { TEMPORARY } else { def.schema })
    }
    /// A number for a new schema: none of those that are there from the beginning.
    pub(crate) fn next_schema(&self) -> SqlResult<u32> {
        loop {
            let n = self.next_object()?;
            if !is_given(n) {
                return Ok(n);
            }
        }
    }
    /// The ring that the log is on, as SHOW tells it.
    pub fn log_ring(&self) -> String {
        match &self.opened.recovered.ring {
            Some(r) => format!("{} ({} bytes, {})", r.path, r.size, r.promise),
            None => "off".into(),
        }
    }
    /// Where the database lies.
    pub fn location(&self) -> &str {
        &self.location
    }
    pub fn opened(&self) -> &Opened {
        &self.opened
    }
    pub fn last_checkpoint(&self) -> LastCheckpoint {
        self.kernel.last_checkpoint()
    }
    pub fn checkpoint(&self) -> SqlResult<()> {
        self.kernel.checkpoint(false).map(|_| ()).map_err(error::checkpoint)
    }
    /// A checkpoint that rewrites everything into one file.
    pub fn checkpoint_full(&self) -> SqlResult<()> {
        self.kernel.checkpoint(true).map(|_| ()).map_err(error::checkpoint)
    }
    /// The timestamp up to which everything is durable.
    pub fn durable_ts(&self) -> u64 {
        self.kernel.log.durable_ts()
    }
    pub fn wait_durable(&self, token: crate::Token) -> SqlResult<()> {
        self.kernel.log.wait_durable(token.0).map_err(error::log)
    }
    /// Whether the commit is durable, or why it never will be.
    pub fn poll_durable(&self, token: crate::Token) -> SqlResult<bool> {
        self.kernel.log.poll_durable(token.0).map_err(error::log)
    }
    /// Calls `tell` once the commit is durable, or cannot become so: here if that is known, else on the
    /// thread that makes it so, which must not be kept.
    pub fn when_durable(&self, token: crate::Token, tell: impl FnOnce(SqlResult<()>) + Send + 'static) {
        self.kernel.log.when_durable(token.0, Box::new(|fate| tell(fate.map_err(error::log))))
    }
    /// Number of log streams.
    pub fn streams(&self) -> usize {
        self.kernel.log.streams()
    }
    /// What takes memory.
    pub fn memory(&self) -> Memory {
        let mut parts = Vec::new();
        let mut add = |kind, name: &str, entries, bytes| {
            parts.push(MemoryPart { kind, name: name.to_string(), entries, bytes });
            bytes
        };
        let mut sum = 0;
        let catalog = self.catalog();
        let shown = |name: Name| match name.schema {
            PUBLIC => name.name,
            _ => catalog.qualified(&name),
        };
        for t in catalog.tables() {
            let bytes = (t.store.rows.bytes() + t.store.strings.bytes()) as u64;
            sum += add(MemoryKind::Table, &shown(t.def.full_name()), t.count_rows(), bytes);
            for i in t.kept_up() {
                let bytes = i.index.memory_bytes() as u64;
                sum += add(MemoryKind::Index, &shown(t.def.index_name(&i.def)), i.index.entries(), bytes);
            }
        }
        for t in self.dictionary.all() {
            let indexes: usize = t.indexes.iter().map(|i| i.index.memory_bytes()).sum();
            let bytes = (t.store.rows.bytes() + t.store.strings.bytes() + indexes) as u64;
            sum += add(MemoryKind::Dictionary, &t.def.name, t.count_rows(), bytes);
        }
        let used = self.kernel.space.budget.used() as u64;
        add(
            MemoryKind::Versions,
            "versions, transactions, intermediate rows",
            self.kernel.collector.backlog() as u64,
            used.saturating_sub(sum),
        );
        Memory { used, limit: self.kernel.space.budget.limit() as u64, parts }
    }
    /// Waits until nothing is left to collect that could be collected; for tests and measurements.
    pub fn settle(&self) {
        for _ in 0..1000 {
            if self.kernel.collector.backlog() == 0 && !self.kernel.epochs.has_left() {
                break;
            }
            thread::sleep(Duration::from_millis(5))
        }
    }

    /// Makes everything durable and stops background work. Also done when the last reference goes.
    pub fn close(&self) -> SqlResult<()> {
        let mut closed = self.closed.lock();
        if std::mem::replace(&mut *closed, true) {
            return Ok(());
        }
        self.settle_sequences();
        self.kernel.close().map_err(error::log)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

/// Whether it is the number of a schema that is there from the beginning.
fn is_given(schema: u32) -> bool {
    matches!(schema, PG_CATALOG | INFORMATION_SCHEMA | TEMPORARY | PUBLIC)
}

/// A table by name, or PostgreSQL's error.
pub fn find<'a>(catalog: &'a Catalog, name: &Name) -> SqlResult<&'a Arc<Table>> {
    catalog.table(name).ok_or_else(|| {
        SqlError::new(sqlstate::UNDEFINED_TABLE, format!("relation \"{}\" does not exist", name.name))
    })
}
