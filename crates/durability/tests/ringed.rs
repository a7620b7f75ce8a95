//! The log on a ring, over real files: what only the ring holds comes back, and what does not belong together
//! is refused. Power failures are the engine's simulation's.
mod common;
use common::*;
use ondol_base::crc::crc32c;
use ondol_base::media::{File, Identity, Lock, Open, Storage, disk::Disk};
use ondol_base::sync::Mutex;
use ondol_durability::recovery::Recovered;
use ondol_durability::ring_file::{Given, Promise, bytes_of};
use ondol_durability::*;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const SLOTS: u64 = 64;
const SLOT: u64 = ondol_ring::SLOT as u64;

struct Folder(PathBuf);
impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("ondol-ringed-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        for inner in ["db", "rings"] {
            std::fs::create_dir_all(path.join(inner)).unwrap();
        }
        Folder(path)
    }
    fn db(&self) -> PathBuf {
        self.0.join("db")
    }
    fn ring(&self, name: &str) -> PathBuf {
        self.0.join("rings").join(name)
    }
    fn config(&self, ring: Option<&str>) -> Config {
        self.config_of(&self.db(), ring)
    }
    fn config_of(&self, db: &Path, ring: Option<&str>) -> Config {
        let storage = Arc::new(Disk::open(&self.0.join("rings")).unwrap());
        let given = |name: &str| Given {
            storage,
            name: name.into(),
            size: Some(bytes_of(SLOTS)),
            promise: Some(Promise::ServerCrash),
            wait: Given::USUAL_WAIT,
        };
        let ring = ring.map(given);
        Config { log_file_size: 256 << 10, ring, ..Config::new(Arc::new(Disk::open(db).unwrap())) }
    }
    fn lose(&self, ring: Option<&str>) -> Config {
        Config { lose_acknowledged_commits: true, ..self.config(ring) }
    }
}
impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What must come back, over all lives.
#[derive(Default)]
struct History {
    truth: Truth,
    random: u64,
}
impl History {
    /// Opens, commits durably, and ends as a crash of the process does.
    fn live(&mut self, config: Config, commits: usize) -> Recovered {
        self.live_and(config, commits, |_| {})
    }
    fn live_and(&mut self, config: Config, commits: usize, end: impl FnOnce(&Db)) -> Recovered {
        self.random += 1;
        let mut random = Random(self.random);
        let (db, found) = Db::open(config, &mut self.truth).unwrap();
        if db.memory.state.lock().segments.is_empty() {
            db.create_segment(1, &mut random).unwrap();
        }
        let segment = *db.memory.state.lock().segments.keys().next().unwrap();
        let truth = Mutex::new(std::mem::take(&mut self.truth));
        for _ in 0..commits {
            let changes = db.some_changes(segment, (0, 1), &mut random);
            let ts = db.commit(StreamId(0), vec![changes], &truth).unwrap();
            db.log.wait_durable(ts).unwrap();
            truth.lock().acknowledged = ts
        }
        end(&db);
        drop(db);
        self.truth = truth.into_inner();
        found
    }
    fn close(&mut self, config: Config) -> Recovered {
        self.live_and(config, 2, |db| db.log.close().unwrap())
    }
    fn refused(&mut self, config: Config) -> RingError {
        match Db::open(config, &mut self.truth).map(drop) {
            Err(RecoveryError::Ring(e)) => e,
            other => panic!("expected a refusal for the ring, found {other:?}"),
        }
    }
}

/// The live entries of a ring's file: place of the slot, number of the log file, offset in it, length.
fn live(ring: &Path) -> Vec<(u64, u64, u64, u64)> {
    let file = std::fs::File::open(ring).unwrap();
    let word = |at: u64| {
        let mut w = [0; 8];
        file.read_exact_at(&mut w, at).unwrap();
        u64::from_le_bytes(w)
    };
    let freed = word(1152);
    let place = |s: u64| 4096 + s % SLOTS * SLOT;
    (freed..freed + SLOTS)
        .take_while(|s| word(place(*s)) == *s)
        .map(place)
        .map(|at| (at, word(at + 40) << 32 | word(at + 40) >> 32, word(at + 24), word(at + 32) & 0xffff_ffff))
        .collect()
}
/// A life that ends with `least` live entries in its ring at least, though the drain may come between.
fn crash(folder: &Folder, h: &mut History, ring: &str, least: usize) -> Vec<(u64, u64, u64, u64)> {
    for _ in 0..100 {
        h.live(folder.config(Some(ring)), 4);
        let entries = live(&folder.ring(ring));
        if entries.len() >= least {
            return entries;
        }
    }
    panic!("the ring is empty whenever a life ends")
}

#[test]
fn what_only_the_ring_holds_comes_back() {
    let folder = Folder::new("home");
    let mut h = History::default();
    for _ in 0..20 {
        let entries = crash(&folder, &mut h, "ring", 2);
        // As if the power had failed before any of it was synced.
        for (_, number, offset, len) in &entries {
            let path = folder.db().join(format!("log/{number:012}.log"));
            let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            file.write_all_at(&vec![0; *len as usize], *offset).unwrap();
        }
        let found = h.live(folder.config(Some("ring")), 0);
        assert_eq!(found.ring.unwrap().entries, entries.len() as u64);
    }
    // Closed in order, it needs the ring no more.
    h.close(folder.config(Some("ring")));
    assert_eq!(live(&folder.ring("ring")), []);
    assert!(!folder.db().join("log-ring").exists());
    assert_eq!(h.live(folder.config(None), 1).ring, None);
    assert_eq!(h.live(folder.config(Some("ring")), 1).ring.unwrap().entries, 0);
}

#[test]
fn a_database_without_its_ring_is_refused() {
    let folder = Folder::new("without");
    let mut h = History::default();
    h.close(folder.config(Some("former")));
    crash(&folder, &mut h, "ring", 1);
    assert!(
        matches!(h.refused(folder.config(None)), RingError::NotGiven { ring } if ring.ends_with("/rings/ring"))
    );
    assert!(matches!(h.refused(folder.config(Some("nowhere"))), RingError::Missing { .. }));
    assert!(!folder.ring("nowhere").exists());
    assert!(matches!(h.refused(folder.config(Some("former"))), RingError::Another { .. }));
    // Of the other size, promise or kind.
    let given = |change: &dyn Fn(&mut Given)| {
        let mut config = folder.config(Some("ring"));
        config.ring.iter_mut().for_each(change);
        config
    };
    let unfit = |e: RingError| matches!(e, RingError::Unfit { .. });
    assert!(unfit(h.refused(given(&|g| g.size = Some(bytes_of(SLOTS + 1))))));
    assert!(unfit(h.refused(given(&|g| g.promise = Some(Promise::PowerFailure)))));
    std::fs::write(folder.ring("text"), "no ring").unwrap();
    assert!(unfit(h.refused(folder.config(Some("text")))));
    assert_eq!(std::fs::read(folder.ring("text")).unwrap(), b"no ring");

    // Neither does who does not know the mark open it: the manifest's format is another one.
    let format = || std::fs::read(folder.db().join("manifest-0")).unwrap()[8];
    assert_eq!(format(), 2);
    h.close(given(&|g| (g.size, g.promise) = (None, None)));
    assert_eq!(format(), 1);
    h.close(folder.config(None));
}

#[test]
fn a_ring_is_not_for_power_failures_where_memory_is_not() {
    let folder = Folder::new("promise");
    let mut config = folder.config(Some("ring"));
    config.ring.iter_mut().for_each(|g| g.promise = None);
    let mut h = History::default();
    // Where the tests run on persistent memory, there is nothing to refuse.
    let persistent = Disk::open(&folder.db()).unwrap();
    let file = persistent.open("probe", ondol_base::media::Open::Create).unwrap();
    file.write_at(&[0; 4096], 0).unwrap();
    let fenced = file.map(4096).unwrap().promise() == ondol_base::media::Promise::Fence;
    persistent.remove("probe").unwrap();
    if !fenced {
        assert!(matches!(h.refused(config), RingError::NotPersistent { .. }));
        assert_eq!(std::fs::read_dir(folder.db()).unwrap().count(), 2, "a lock and the log's folder");
        assert!(!folder.ring("ring").exists() && !folder.ring("ring.new").exists());
    }
}

#[test]
fn a_copy_of_an_open_database_is_refused() {
    let folder = Folder::new("copy");
    let mut h = History::default();
    crash(&folder, &mut h, "ring", 1);
    let copy = folder.0.join("copy");
    let status = std::process::Command::new("cp").arg("-a").args([folder.db(), copy.clone()]).status();
    assert!(status.unwrap().success());
    for ring in [None, Some("other")] {
        assert!(matches!(h.refused(folder.config_of(&copy, ring)), RingError::Copied { .. }));
    }
    assert!(matches!(h.refused(folder.config_of(&copy, Some("ring"))), RingError::Foreign { .. }));
    let lose = |ring| Config { lose_acknowledged_commits: true, ..folder.config_of(&copy, ring) };
    assert!(matches!(h.refused(lose(Some("ring"))), RingError::Foreign { .. }));
    // No power failed: the copy's files hold everything.
    let found = h.live(lose(None), 0);
    assert!(found.warnings.iter().any(|w| w.contains("given up")), "{:?}", found.warnings);
    h.live(folder.config_of(&copy, None), 0);
    h.live(folder.config(Some("ring")), 0);
}

#[test]
fn entries_that_were_left_behind_are_not_replayed() {
    let folder = Folder::new("behind");
    let mut h = History::default();
    crash(&folder, &mut h, "ring", 1);
    let mark = std::fs::read(folder.db().join("log-ring")).unwrap();
    h.live(folder.lose(None), 3);
    assert!(!folder.db().join("log-ring").exists());
    assert!(matches!(h.refused(folder.config(Some("ring"))), RingError::Unmarked { entries: 1.., .. }));
    // Nor when somebody puts the mark back.
    std::fs::write(folder.db().join("log-ring"), mark).unwrap();
    assert!(matches!(h.refused(folder.config(Some("ring"))), RingError::OtherLife { .. }));
    h.live(folder.lose(Some("ring")), 3);
    h.live(folder.config(Some("ring")), 1);
    std::fs::remove_file(folder.db().join("log-ring")).unwrap();
    for ring in [None, Some("ring")] {
        assert_eq!(h.refused(folder.config(ring)), RingError::MarkGone);
    }
    h.live(folder.lose(None), 1);
}

#[test]
fn further_log_folders_keep_their_order() {
    let folder = Folder::new("order");
    let place = |name: &str| {
        std::fs::create_dir_all(folder.0.join(name)).unwrap();
        Place { storage: Arc::new(Disk::open(&folder.0.join(name)).unwrap()), folder: String::new() }
    };
    let config = |names: &[&str]| {
        let mut c = folder.config(Some("ring"));
        c.streams.extend(names.iter().map(|n| place(n)));
        c
    };
    let mut h = History::default();
    h.live(config(&["a", "b"]), 3);
    assert!(matches!(h.refused(config(&["b", "a"])), RingError::OtherFolders { .. }));
    assert!(matches!(h.refused(config(&["a"])), RingError::OtherFolders { .. }));
    h.live(config(&["a", "b", "c"]), 3);
    h.close(config(&["a", "b", "c"]));
}

#[test]
fn after_another_start_of_the_system_a_ring_that_does_not_outlive_it_is_refused() {
    let folder = Folder::new("boot");
    let mut h = History::default();
    crash(&folder, &mut h, "ring", 1);
    let path = folder.db().join("log-ring");
    let text = std::fs::read_to_string(&path).unwrap();
    let boot = text.lines().find(|l| l.starts_with("boot ")).unwrap();
    let other = text.replace(boot, &format!("boot {:032x}", 7));
    let (before, _) = other.rsplit_once("crc ").unwrap();
    std::fs::write(&path, &other).unwrap();
    assert!(matches!(h.refused(folder.config(Some("ring"))), RingError::Mark { .. }), "its checksum");
    std::fs::write(&path, format!("{before}crc {:08x}\n", crc32c(before.as_bytes()))).unwrap();
    assert!(matches!(h.refused(folder.config(Some("ring"))), RingError::Rebooted { .. }));
    h.live(folder.lose(Some("ring")), 1);
    h.live(folder.config(Some("ring")), 1);
}

#[test]
fn a_damaged_entry_is_noticed() {
    let folder = Folder::new("damaged");
    let mut h = History::default();
    let entries = crash(&folder, &mut h, "ring", 2);
    let file = std::fs::OpenOptions::new().read(true).write(true).open(folder.ring("ring")).unwrap();
    let at = entries[0].0 + 100;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    assert!(matches!(h.refused(folder.config(Some("ring"))), RingError::Damaged { .. }));
    file.write_all_at(&byte, at).unwrap();
    h.close(folder.config(Some("ring")));
}

#[test]
fn one_database_at_a_time_has_a_ring() {
    let folder = Folder::new("one");
    let mut h = History::default();
    let other = folder.0.join("other");
    std::fs::create_dir_all(&other).unwrap();
    h.live_and(folder.config(Some("ring")), 1, |_| {
        let mut none = History::default();
        let open = Db::open(folder.config_of(&other, Some("ring")), &mut none.truth).map(drop);
        assert!(matches!(open, Err(RecoveryError::Ring(RingError::InUse { .. }))), "{open:?}");
    });
    let mut none = History::default();
    assert!(matches!(none.refused(folder.config_of(&other, Some("ring"))), RingError::Foreign { .. }));
    none.close(folder.config_of(&other, None));
    h.close(folder.config(Some("ring")));
}

/// A ring's folder that may refuse to make names durable.
struct Names {
    under: Disk,
    refuses: AtomicBool,
    /// What must not be there before names are durable.
    mark: PathBuf,
    are_durable: AtomicBool,
}
impl Storage for Names {
    fn open(&self, path: &str, how: Open) -> std::io::Result<Arc<dyn File>> {
        self.under.open(path, how)
    }
    fn exists(&self, path: &str) -> std::io::Result<bool> {
        self.under.exists(path)
    }
    fn list(&self, folder: &str) -> std::io::Result<Vec<String>> {
        self.under.list(folder)
    }
    fn create_dir(&self, folder: &str) -> std::io::Result<()> {
        self.under.create_dir(folder)
    }
    fn rename(&self, from: &str, to: &str) -> std::io::Result<()> {
        self.under.rename(from, to)
    }
    fn remove(&self, path: &str) -> std::io::Result<()> {
        self.under.remove(path)
    }
    fn sync_dir(&self, folder: &str) -> std::io::Result<()> {
        if self.refuses.load(Relaxed) {
            return Err(std::io::Error::other("refused"));
        }
        self.under.sync_dir(folder)?;
        self.are_durable.fetch_or(!self.mark.exists(), Relaxed);
        Ok(())
    }
    fn lock(&self, path: &str) -> std::io::Result<Box<dyn Lock>> {
        self.under.lock(path)
    }
    fn describe(&self) -> String {
        self.under.describe()
    }
    fn identity(&self) -> std::io::Result<Identity> {
        self.under.identity()
    }
}

/// A ring whose making was refused at its very end is there, but its name may go with the power: nothing is
/// entrusted to it before that is durable (durability/mark/K1).
#[test]
fn a_ring_that_is_found_has_a_durable_name_before_it_is_marked() {
    let (folder, mut h) = (Folder::new("name"), History::default());
    h.close(folder.config(None));
    let storage = Arc::new(Names {
        under: Disk::open(&folder.0.join("rings")).unwrap(),
        refuses: AtomicBool::new(true),
        mark: folder.db().join("log-ring"),
        are_durable: AtomicBool::new(false),
    });
    let config = || {
        let mut config = folder.config(Some("r"));
        config.ring.as_mut().unwrap().storage = storage.clone();
        config
    };
    let refused = Db::open(config(), &mut h.truth).map(drop).unwrap_err();
    assert!(refused.to_string().contains("refused"), "{refused}");
    assert!(folder.ring("r").exists() && !storage.mark.exists());
    storage.refuses.store(false, Relaxed);
    h.live(config(), 3);
    assert!(storage.mark.exists() && storage.are_durable.load(Relaxed));
}
