//! Verifying a database that nobody has open, without changing it.
//!
//! First the files as they stand: manifest, images, every block of the log, the unbroken run of commits. Then
//! the database is recovered into memory on top of its files ([`crate::upkeep::overlay`]), with recovery's
//! own proof, and every index is held against its table: each row is found under its key, and there are no
//! entries besides.
use crate::session::output::Notice;
use crate::upkeep::overlay::Overlay;
use crate::upkeep::renew;
use ondol_base::media::disk::{self, Disk};
use ondol_base::media::{Lock, Storage};
use ondol_durability::files::{Config, Place};
use ondol_durability::inspect;
pub use ondol_durability::inspect::Report as Files;
use ondol_durability::mark::{self, OnRing};
use ondol_engine::{Connection, Database, LogRing, Oid, Options, Scan, Table};
use ondol_kernel::Strings;
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::path::Path;
use std::sync::Arc;

/// An index, and what was found of it.
#[derive(Clone, Debug)]
pub struct IndexFound {
    pub table: String,
    pub index: String,
    pub rows: u64,
    pub entries: u64,
}

/// What a check found.
pub struct Checked {
    pub files: Files,
    /// `None` when the files are not sound, so that nothing could be recovered.
    pub indexes: Option<Vec<IndexFound>>,
    /// Indexes that this program will rebuild when it opens the database, since it has other versions of data
    /// than their keys were computed with.
    pub outdated: Vec<Notice>,
    pub problems: Vec<String>,
}

/// The files of a database that is not open, held until dropped.
pub struct Held {
    pub config: Config,
    /// Why there is no lock: nothing may be written there, and no lock file is there. Nothing keeps a process
    /// that may write from opening the database meanwhile.
    pub unlocked: Option<String>,
    /// The ring that the log is on. The log's files may lack entries that it holds; these are laid over the
    /// files here.
    pub ring: Option<OnRing>,
    pub(crate) _lock: Option<Box<dyn Lock>>,
}

fn io_error(path: &Path, e: std::io::Error) -> SqlError {
    let state = match e.kind() {
        std::io::ErrorKind::NotFound => "3D000",
        _ => ondol_engine::error::io_state(&e),
    };
    SqlError::new(state, format!("database \"{}\": {e}", path.display()))
}

/// Where a database and its further log folders lie.
pub fn config(path: &Path, log_folders: &[String]) -> SqlResult<Config> {
    let mut config = Config::new(Arc::new(Disk::open(path).map_err(|e| io_error(path, e))?));
    for folder in log_folders {
        let disk = Disk::open(Path::new(folder)).map_err(|e| io_error(Path::new(folder), e))?;
        config.streams.push(Place { storage: Arc::new(disk), folder: String::new() });
    }
    Ok(config)
}

/// The same, with the lock taken: an error when somebody has the database open. Where nothing may be written,
/// a lock file that is there is locked, and none is made. `log_ring`: of a database whose log is on one, and
/// which was not closed.
pub fn hold(path: &Path, log_folders: &[String], log_ring: Option<&Path>) -> SqlResult<Held> {
    let in_use = || {
        SqlError::new(
            sqlstate::OBJECT_IN_USE,
            format!("database \"{}\" is in use; close it first", path.display()),
        )
    };
    hold_unused(path, log_folders, log_ring)?.ok_or_else(in_use)
}

/// The same; `None` when somebody has the database open.
pub(crate) fn hold_unused(
    path: &Path,
    log_folders: &[String],
    log_ring: Option<&Path>,
) -> SqlResult<Option<Held>> {
    let config = config(path, log_folders)?;
    let names = config.data.list("").map_err(|e| io_error(path, e))?;
    if !names.iter().any(|n| n.starts_with("manifest")) {
        if names.iter().any(|n| n == "lock" || n.starts_with("checkpoint")) {
            return Err(SqlError::new(
                sqlstate::DATA_CORRUPTED,
                format!("\"{}\" has files of a database, yet no manifest", path.display()),
            ));
        }
        return Err(SqlError::new("3D000", format!("there is no database in \"{}\"", path.display())));
    }
    let (lock, unlocked) = match config.data.lock("lock") {
        Ok(lock) => (Some(lock), None),
        Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => return Ok(None),
        Err(e) if disk::is_read_only(&e) => (None, Some(e.to_string())),
        Err(e) => return Err(io_error(path, e)),
    };
    let mut held = Held { config, unlocked, ring: None, _lock: lock };
    if is_ringed(&held.config, path)? || log_ring.is_some() {
        held.config = covered(&held.config);
        held.config.ring = log_ring.map(|r| LogRing::at(r).given()).transpose()?;
        held.ring = mark::over(&held.config).map_err(ondol_engine::error::recovery)?
    }
    Ok(Some(held))
}

/// Whether the end of the log may be in a ring. What else is wrong with the manifest is for others to say.
pub(crate) fn is_ringed(config: &Config, path: &Path) -> SqlResult<bool> {
    let marked = mark::is_marked(&*config.data).map_err(|e| io_error(path, e))?;
    Ok(marked || inspect::read_manifest(config).is_ok_and(|m| m.ringed))
}

/// The same folders, left unchanged: writes stay in memory.
fn covered(config: &Config) -> Config {
    let over = |storage: &Arc<dyn Storage>| Arc::new(Overlay::new(storage.clone()));
    let mut covered = Config::new(over(&config.data));
    let further = config.streams[1..].iter();
    covered.streams.extend(further.map(|p| Place { storage: over(&p.storage), folder: p.folder.clone() }));
    covered
}

impl Held {
    /// Opens the database in memory, on top of its files, and changes none of them.
    pub(crate) fn open_engine(&self) -> SqlResult<Arc<Database>> {
        let Config { data, mut streams, .. } = covered(&self.config);
        streams.remove(0);
        let options = Options { create: false, background: false, ..Options::default() };
        Database::open_on(data, streams, None, options, &|_| {})
    }
}

/// Verifies everything.
pub fn check(held: &Held) -> Checked {
    let files = ondol_durability::inspect::verify(&held.config);
    let mut problems: Vec<String> = files.problems.iter().map(|p| p.to_string()).collect();
    if !problems.is_empty() {
        return Checked { files, indexes: None, outdated: Vec::new(), problems };
    }
    let mut outdated = Vec::new();
    let indexes = match held.open_engine() {
        Ok(db) => {
            outdated = renew::outdated(&db.catalog());
            let mut found = Vec::new();
            for table in db.catalog().tables() {
                if let Err(e) = check_table(&mut db.connect(), table, &mut found, &mut problems) {
                    problems.push(format!("table {}: {e}", table.def.name));
                }
            }
            if let Err(e) = db.close() {
                problems.push(e.to_string());
            }
            Some(found)
        }
        Err(e) => {
            problems.push(format!("recovery: {e}"));
            None
        }
    };
    Checked { files, indexes, outdated, problems }
}

pub(super) struct RowStrings<'a>(pub &'a Connection);
impl Strings for RowStrings<'_> {
    fn string(&self, slot: u64, len: usize, out: &mut Vec<u8>) {
        self.0.read_string(slot, len, out)
    }
}

/// How many wrong rows of one index are told.
const TOLD: usize = 10;

fn check_table(
    connection: &mut Connection,
    table: &Arc<Table>,
    found: &mut Vec<IndexFound>,
    problems: &mut Vec<String>,
) -> SqlResult<()> {
    connection.start_statement(connection.catalog_version(), std::slice::from_ref(table), false)?;
    let mut scan = Scan::default();
    scan.start(connection, table);
    let mut row = vec![0; table.layout.row_size];
    let (mut rows, mut key, mut oids) = (0u64, Vec::new(), Vec::new());
    let (mut other_row, mut other_key) = (row.clone(), Vec::new());
    let mut nulls = vec![0u64; table.indexes.len()];
    let mut missing = vec![0usize; table.indexes.len()];
    while let Some(oid) = scan.next(connection, &mut row)? {
        rows += 1;
        for (i, index) in table.indexes.iter().enumerate() {
            key.clear();
            if index.store.key.key(&row, &RowStrings(connection), &mut key) {
                nulls[i] += 1;
                continue;
            }
            oids.clear();
            connection.lookup(index, &key, &mut oids)?;
            let there = oids.contains(&oid);
            // What an index gives are candidates: only the row tells its key.
            let mut same = |other: Oid| {
                other_key.clear();
                other != oid
                    && connection.read(table, other, &mut other_row)
                    && !index.store.key.key(&other_row, &RowStrings(connection), &mut other_key)
                    && other_key == key
            };
            let twice = index.def.unique && oids.iter().any(|o| same(*o));
            if there && !twice {
                continue;
            }
            missing[i] += 1;
            if missing[i] <= TOLD {
                let what = if there { "stands beside another of the same key in" } else { "is missing in" };
                problems.push(format!(
                    "table {}: the row at {oid} {what} index {}",
                    table.def.name, index.def.name
                ));
            }
        }
    }
    connection.end_statement()?;
    for ((index, nulls), missing) in table.indexes.iter().zip(nulls).zip(missing) {
        if missing > TOLD {
            problems.push(format!("index {}: {} more rows like that", index.def.name, missing - TOLD));
        }
        let entries = index.index.entries();
        // Rows whose key has a NULL may or may not have an entry, by the kind of index.
        if entries > rows || entries + nulls < rows {
            problems.push(format!("index {} has {entries} entries for {rows} rows", index.def.name));
        }
        found.push(IndexFound {
            table: table.def.name.clone(),
            index: index.def.name.clone(),
            rows,
            entries,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With so many rows some share what a hash index knows of their keys.
    #[test]
    fn candidates_of_a_unique_hash_index_are_no_duplicates() {
        let folder = crate::TempFolder::new().unwrap();
        let path = folder.path().join("db");
        let db = crate::Database::open(&path).unwrap();
        let mut s = db.session();
        s.execute("CREATE TABLE t (a integer); INSERT INTO t VALUES (0)").unwrap();
        s.execute("CREATE UNIQUE INDEX t_a ON t USING hash (a)").unwrap();
        for k in 0..16 {
            s.execute(&format!("INSERT INTO t SELECT a + {} FROM t", 1 << k)).unwrap();
        }
        drop(s);
        db.close().unwrap();
        let found = check(&hold(&path, &[], None).unwrap());
        assert_eq!(found.problems, Vec::<String>::new());
        assert_eq!(found.indexes.unwrap()[0].rows, 1 << 16);
    }
}
