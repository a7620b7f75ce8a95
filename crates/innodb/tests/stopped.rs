//! Data folders of servers that were shut down cleanly (files/README.md): what is read on that evidence, and
//! what speaks against it. `scripts/innodb-servers` tries the same with running servers.
use ondol_base::crc::crc32c;
use ondol_innodb::error::{Kind, Result};
use ondol_innodb::evidence::{self, Evidence};
use ondol_innodb::export::{self, Format, Options};
use ondol_innodb::page::{u16_at, u64_at};
use ondol_innodb::scan::{Cursor, Scan};
use ondol_innodb::space::Space;
use ondol_scan::csv::Dialect;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod fixture;
use fixture::{files, seal, stored};

const MARIADB: &str = "mariadb-10.11-stopped";
const MYSQL: &str = "mysql-9.7-stopped";
const BOTH: [&str; 2] = [MARIADB, MYSQL];

/// A data folder as a server left it: table `a` is at rest, of `b` a prepared transaction changed rows.
struct Folder {
    server: &'static str,
    dir: tempfile::TempDir,
}
impl Folder {
    fn new(server: &'static str) -> Folder {
        let dir = tempfile::tempdir().expect("a folder");
        for name in files(server).iter().filter(|n| !n.contains("killed") && !n.ends_with(".out")) {
            put(&dir.path().join(name), &stored(server, name).expect("a fixture"));
        }
        Folder { server, dir }
    }
    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
    fn find(&self, table: &str) -> Result<Evidence> {
        let scan = Scan::open(&self.file(&format!("t/{table}.ibd")))?;
        evidence::find(scan.space(), false)
    }
    /// What the export of a table gives on the evidence that there is.
    fn export(&self, table: &str) -> Result<Vec<u8>> {
        let scan = Scan::open(&self.file(&format!("t/{table}.ibd")))?;
        let evidence = evidence::find(scan.space(), false)?;
        assert!(matches!(evidence, Evidence::Stopped(..) | Evidence::Backup(..)), "{evidence}");
        let dialect = if self.server == MYSQL { Dialect::Mysql } else { Dialect::Mariadb };
        let columns = export::columns(&scan, None)?;
        let options =
            Options { format: Format::Text(dialect), columns, limit: None, workers: 2, ordered: true };
        let mut out = Vec::new();
        export::export(Arc::new(scan), &options, &mut out, Path::new("memory"), |_| {})?;
        Ok(out)
    }
    fn expect(&self, table: &str) {
        let found = self.export(table).unwrap_or_else(|e| panic!("{} {table}: {e}", self.server));
        let said = stored(self.server, &format!("{table}.out")).expect("what the server said");
        assert!(found == said, "{} {table}", self.server);
    }
    fn refused(&self, table: &str, reason: &str) {
        let e = self.export(table).expect_err(reason).to_string();
        assert!(e.contains(reason), "{} {table}: {e}; expected: {reason}", self.server);
    }
    /// The file of the log that its last checkpoint is in.
    fn log(&self) -> PathBuf {
        let found =
            files(self.server).into_iter().find(|n| n.contains("ib_logfile0") || n.contains("#ib_redo"));
        self.file(&found.expect("a log"))
    }
    /// Changes bytes of a log file's block of `size` bytes, and makes its checksum right again.
    fn change_log(&self, block: u64, size: usize, change: impl FnOnce(&mut [u8])) {
        let file = fs::File::options().read(true).write(true).open(self.log()).expect("a log");
        let mut bytes = vec![0; size];
        file.read_exact_at(&mut bytes, block).expect("a block");
        change(&mut bytes);
        let end = size - 4;
        let sum = crc32c(&bytes[..end]);
        bytes[end..].copy_from_slice(&sum.to_be_bytes());
        file.write_all_at(&bytes, block).expect("a block");
    }
    /// Changes a page of a tablespace, and makes its checksum right again.
    fn change_page(&self, name: &str, number: u32, change: impl FnOnce(&mut [u8])) {
        let path = self.file(name);
        let format = Space::open_any(&path, None).expect("a tablespace").format();
        let file = fs::File::options().read(true).write(true).open(path).expect("a tablespace");
        let mut page = vec![0; format.page_size];
        let at = number as u64 * format.page_size as u64;
        file.read_exact_at(&mut page, at).expect("a page");
        change(&mut page);
        seal(&mut page, format);
        file.write_all_at(&page, at).expect("a page");
    }
    /// Places of undo logs' first pages whose state is `state`.
    fn undo_logs(&self, state: u16) -> Vec<(String, u32)> {
        let mut found = Vec::new();
        for name in ["ibdata1", "undo_001", "undo_002"] {
            let Ok(space) = Space::open_any(&self.file(name), None) else { continue };
            let mut page = vec![0; space.format().page_size];
            for number in 0..space.pages() {
                // The system tablespace has copies of pages for torn writes, which stand in no place of their
                // own.
                if space.read_page(number, &mut page).is_err() {
                    continue;
                }
                if u16_at(&page, 24) == Some(2) && u16_at(&page, 56) == Some(state) {
                    found.push((name.to_string(), number));
                }
            }
        }
        found
    }
    fn set_state(&self, from: u16, to: u16) {
        let logs = self.undo_logs(from);
        assert!(!logs.is_empty());
        for (name, number) in logs {
            self.change_page(&name, number, |page| page[56..58].copy_from_slice(&to.to_be_bytes()));
        }
    }
    /// The state that the server gave the prepared transaction's undo logs.
    fn prepared(&self) -> u16 {
        (5..=7).find(|state| !self.undo_logs(*state).is_empty()).expect("a prepared transaction")
    }
}
/// Writes a file, with holes where there are zeros.
fn put(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    let file = fs::File::create(path).expect("a file");
    file.set_len(bytes.len() as u64).expect("a file");
    for (n, piece) in bytes.chunks(4096).enumerate().filter(|(_, p)| p.iter().any(|b| *b != 0)) {
        file.write_all_at(piece, n as u64 * 4096).expect("a file");
    }
}

#[test]
fn a_stopped_servers_folder_is_evidence() {
    for server in BOTH {
        let folder = Folder::new(server);
        folder.expect("a");
        let Ok(Evidence::Stopped(at, lsn)) = folder.find("a") else { panic!("{:?}", folder.find("a")) };
        assert_eq!(at, folder.dir.path());
        let mut page = vec![0; 16384];
        let space = Space::open(&folder.file("t/a.ibd")).expect("a table");
        space.read_page(0, &mut page).expect("a page");
        assert!(u64_at(&page, 16).is_some_and(|n| n > 0 && n <= lsn));
        // Rows that a prepared transaction changed, in a table and counted.
        folder.refused("b", "neither committed nor rolled back");
        let scan = Scan::open(&folder.file("t/b.ibd")).expect("a table");
        evidence::find(scan.space(), false).expect("evidence");
        let parts = 0..scan.parts();
        let counted = Cursor::new(scan.into(), parts).count::<ondol_innodb::error::Error>(&|| Ok(()));
        assert!(counted.expect_err("a count").to_string().contains("neither committed"));
    }
}

#[test]
fn a_log_that_goes_on_is_refused() {
    for server in BOTH {
        let folder = Folder::new(server);
        let killed = files(server).into_iter().filter(|n| n.contains("killed"));
        let mut seen = 0;
        for name in killed {
            // As a server left it that was killed, or shut down with innodb_fast_shutdown=2.
            fs::remove_file(folder.log()).or_else(|e| if seen > 0 { Ok(()) } else { Err(e) }).expect("a log");
            let plain = name.split_once('/').expect("a folder").1;
            let to = folder.file(plain);
            put(&to, &stored(server, &name).expect("a fixture"));
            seen += 1;
            folder.refused("a", "not shut down cleanly");
            fs::remove_file(to).expect("a log");
        }
        assert!(seen > 0);
    }
}

#[test]
fn what_speaks_against_a_clean_shutdown() {
    for server in BOTH {
        let folder = Folder::new(server);
        fs::write(folder.file("ibtmp1"), b"").expect("a file");
        folder.refused("a", "was killed");
        fs::remove_file(folder.file("ibtmp1")).expect("a file");
        folder.expect("a");
        // Nobody vouches for formats that were not tried, nor for damage.
        folder.change_log(0, 512, |b| b[3] ^= 1);
        folder.refused("a", "cannot be judged");
        folder.change_log(0, 512, |b| b[3] ^= 1);
        folder.expect("a");
        let log = fs::File::options().read(true).write(true).open(folder.log()).expect("a log");
        let mut byte = [0];
        log.read_exact_at(&mut byte, 20).expect("a byte");
        log.write_all_at(&[byte[0] ^ 1], 20).expect("a byte");
        folder.refused("a", "header");
        log.write_all_at(&byte, 20).expect("a byte");
        folder.expect("a");
        // The user's word counts, and what is against it is told.
        fs::remove_file(folder.log()).expect("a log");
        folder.refused("a", "the server's log");
        let scan = Scan::open(&folder.file("t/a.ibd")).expect("a table");
        let assumed = evidence::find(scan.space(), true).expect("a word").to_string();
        assert!(assumed.starts_with("assumed, though ") && assumed.contains("the server's log"), "{assumed}");
        // Another server's table.
        let other = Folder::new(if server == MYSQL { MARIADB } else { MYSQL });
        fs::copy(folder.file("ibdata1"), other.file("ibdata1")).expect("a file");
        other.refused("a", "of another server");
    }
}

#[test]
fn mariadbs_log() {
    let folder = Folder::new(MARIADB);
    let head = fs::read(folder.log()).expect("a log");
    let newest = [4096, 8192].into_iter().max_by_key(|at| u64_at(&head, *at)).expect("two");
    let (lsn, first) = (u64_at(&head, newest).expect("a position"), u64_at(&head, 8).expect("a position"));
    let at = 12288 + (lsn - first) % (head.len() as u64 - 12288);
    let log = fs::File::options().write(true).open(folder.log()).expect("a log");
    let behind = at + 16;
    assert!((behind + 64) < head.len() as u64, "the fixture's log ends elsewhere");
    // A mini-transaction behind the checkpoint: of this round of the ring, of another one, and torn.
    let mut records = vec![0x32, 1, 2, 0x40, 1];
    records.extend([7; 15]);
    let sum = crc32c(&records).to_be_bytes();
    let round = 1 - (lsn + 16 - first) / (head.len() as u64 - 12288) % 2;
    for (marker, sum, refused) in [
        (round as u8, sum, true),
        (1 - round as u8, sum, false),
        (round as u8, [sum[0] ^ 1, sum[1], sum[2], sum[3]], false),
    ] {
        log.write_all_at(&[&records[..], &[marker], &sum].concat(), behind).expect("a record");
        if refused {
            folder.refused("a", "not shut down cleanly");
        } else {
            folder.expect("a");
        }
    }
    // The checkpoint's own record.
    log.write_all_at(&[0xfb], at).expect("a byte");
    folder.refused("a", "the record of the log's last checkpoint");
    log.write_all_at(&[0xfa], at).expect("a byte");
    folder.expect("a");
    // A checkpoint that had tablespaces to name, so that there were changes.
    folder.change_log(newest as u64, 64, |b| b[15] ^= 0x40);
    folder.refused("a", if head[newest + 15] & 0x40 == 0 { "not shut down cleanly" } else { "cleanly" });
    folder.change_log(newest as u64, 64, |b| b[15] ^= 0x40);
    // One checkpoint torn: the other is older, and its record is not the last.
    log.write_all_at(&[head[newest] ^ 1], newest as u64).expect("a byte");
    assert!(folder.find("a").is_err());
    log.write_all_at(&[head[newest]], newest as u64).expect("a byte");
    folder.change_log(0, 512, |b| b[51] = 1);
    folder.refused("a", "encrypted");
    folder.change_log(0, 512, |b| b[51] = 0);
    fs::write(folder.file("ib_logfile1"), b"").expect("a file");
    folder.refused("a", "more than one file");
}

#[test]
fn mysqls_log() {
    let folder = Folder::new(MYSQL);
    let head = fs::read(folder.log()).expect("a log");
    let lsn = [520, 1544].into_iter().filter_map(|at| u64_at(&head, at)).max().expect("a checkpoint");
    let first = u64_at(&head, 8).expect("a position");
    let block = 2048 + (lsn / 512 * 512 - first);
    folder.change_log(block, 512, |b| b[5] = b[5].wrapping_add(1));
    folder.refused("a", "not shut down cleanly");
    folder.change_log(block, 512, |b| b[5] = b[5].wrapping_sub(1));
    folder.change_log(block, 512, |b| b[3] ^= 1);
    folder.refused("a", "is damaged");
    folder.change_log(block, 512, |b| b[3] ^= 1);
    folder.change_log(block, 512, |b| b[4] ^= 0x80);
    folder.refused("a", "encrypted");
    folder.change_log(block, 512, |b| b[4] ^= 0x80);
    for flag in [1, 2, 4, 16] {
        folder.change_log(0, 512, |b| b[51] ^= flag);
        folder.refused("a", "not all changes were logged");
        folder.change_log(0, 512, |b| b[51] ^= flag);
    }
    folder.expect("a");
    // What the system tablespace says ended elsewhere.
    folder.change_page("ibdata1", 0, |p| p[33] ^= 1);
    folder.refused("a", "the system tablespace says");
}

#[test]
fn no_page_is_newer_than_the_log() {
    for server in BOTH {
        let folder = Folder::new(server);
        let Ok(Evidence::Stopped(_, lsn)) = folder.find("a") else { panic!("no evidence") };
        let pages = Space::open(&folder.file("t/a.ibd")).expect("a table").pages();
        let mut refused = 0;
        for number in 0..pages {
            let was = fs::read(folder.file("t/a.ibd")).expect("a table");
            folder.change_page("t/a.ibd", number, |p| p[16..24].copy_from_slice(&(lsn + 1).to_be_bytes()));
            match folder.export("a") {
                Err(e) => {
                    assert!(e.kind == Kind::Mismatch && e.to_string().contains("which is after"), "{e}");
                    refused += 1;
                }
                // A page that rows do not need.
                Ok(_) => folder.expect("a"),
            }
            fs::write(folder.file("t/a.ibd"), was).expect("a table");
        }
        // Page 0, the root and the leaves, and where there is one the definition.
        assert!(refused >= 4, "{server}: {refused} of {pages}");
        folder.expect("a");
        // Nor one of the undo.
        folder.change_page("ibdata1", 5, |p| p[16..24].copy_from_slice(&(lsn + 1).to_be_bytes()));
        folder.refused("a", "which is after");
    }
}

#[test]
fn the_undo_decides_which_rows_are_committed() {
    for server in BOTH {
        let folder = Folder::new(server);
        folder.set_state(folder.prepared(), 9);
        folder.refused("a", "state 9");
        folder.set_state(9, 3);
        // Committed, as this folder now says: all is read.
        folder.expect("a");
        assert!(folder.export("b").is_ok_and(|b| String::from_utf8_lossy(&b).contains("prepared")));
        folder.set_state(3, 1);
        if server == MYSQL {
            folder.refused("a", "may have changed definitions");
        } else {
            folder.expect("a");
            folder.refused("b", "neither committed nor rolled back");
            for (name, number) in folder.undo_logs(1) {
                folder.change_page(&name, number, |p| {
                    let log = u16_at(p, 58).expect("a place") as usize;
                    p[log + 21] = 1;
                });
            }
            folder.refused("a", "may have changed definitions");
        }
    }
    // A rollback segment elsewhere.
    let folder = Folder::new(MARIADB);
    folder.change_page("ibdata1", 5, |p| p[56 + 8 * 3 + 3] = 3);
    folder.refused("a", "no undo tablespace of this number");
    // Undo tablespaces elsewhere: rows name them.
    let folder = Folder::new(MYSQL);
    for name in ["undo_001", "undo_002"] {
        fs::remove_file(folder.file(name)).expect("a file");
    }
    folder.refused("a", "which is not in the data folder");
    let folder = Folder::new(MYSQL);
    fs::copy(folder.file("undo_001"), folder.file("t/more.ibu")).expect("a file");
    folder.refused("a", "another file there is tablespace");
}

#[test]
fn a_prepared_backup_has_a_moment_too() {
    for server in BOTH {
        let folder = Folder::new(server);
        let Ok(Evidence::Stopped(_, lsn)) = folder.find("a") else { panic!("no evidence") };
        fs::remove_file(folder.log()).expect("a log");
        let say = |kind: &str, lsn: &str| {
            let text = format!("backup_type = {kind}\nfrom_lsn = 0\nto_lsn = 100\n{lsn}\n");
            fs::write(folder.file("xtrabackup_checkpoints"), text).expect("a file");
        };
        say("log-applied", &format!("last_lsn = {lsn}"));
        folder.expect("a");
        assert!(matches!(folder.find("a"), Ok(Evidence::Backup(..))));
        folder.refused("b", "neither committed nor rolled back");
        say("full-prepared", &format!("last_lsn = {lsn}"));
        folder.expect("a");
        say("full-backuped", &format!("last_lsn = {lsn}"));
        folder.refused("a", "run --prepare on it");
        say("log-applied", "last_lsn = 200");
        if server == MARIADB {
            folder.refused("a", "which is after 200");
        }
        fs::write(folder.file("xtrabackup_checkpoints"), "backup_type = log-applied\n").expect("a file");
        folder.refused("a", "does not say to_lsn");
        say("log-applied", &format!("last_lsn = {lsn}"));
        fs::remove_file(folder.file("ibdata1")).expect("a file");
        folder.refused("a", "ibdata1");
    }
}
