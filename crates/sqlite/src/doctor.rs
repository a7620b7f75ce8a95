//! What a folder's file system and medium can do for SQLite, measured, and what to set:
//! `ondol sqlite doctor`.
//!
//! It writes two files without names into the folder, which are gone when it ends, however it ends.
use crate::care;
use crate::database::MISSING;
use crate::measure::{self, Costs};
use crate::moving;
use crate::sharing::{Mechanism, Range};
use crate::verdict::{Verdict, verdict};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// Names and findings, and what follows from them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub findings: Vec<(&'static str, String)>,
    pub advice: Vec<String>,
}

/// Examines a database, or the folder for one. The error is a sentence for the user.
pub fn examine(path: &Path) -> Result<Report, String> {
    let meta = std::fs::metadata(path).map_err(|error| told(path, &error))?;
    let folder = match path.parent() {
        _ if meta.is_dir() => path,
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut findings = Vec::new();
    if meta.is_file() {
        findings.push(("database", database(path).map_err(|error| told(path, &error))?));
    }
    let in_folder = |error| told(folder, &error);
    findings.push(("file system", file_system(folder).map_err(in_folder)?));
    let (one, other) = measure::pair(folder).map_err(in_folder)?;
    let exchange = Mechanism::Exchange.apply(&one, &other, Range { from: 0, to: 0, len: 4096 });
    let how = if exchange.is_ok() { Mechanism::Exchange } else { Mechanism::Clone };
    let known = measure::measured(folder, how, 5..=15, Duration::from_millis(500)).map_err(in_folder)?;
    let can = |what: io::Result<()>| match what {
        Ok(()) => "works".to_string(),
        Err(error) => format!("no: {error}"),
    };
    findings.push((
        "sharing blocks (FICLONERANGE)",
        match &known {
            Ok(_) => "works".into(),
            Err(why) => format!("no: {why}"),
        },
    ));
    findings.push(("exchanging blocks (XFS_IOC_EXCHANGE_RANGE)", can(exchange)));
    findings.push(("moving blocks (F2FS_IOC_MOVE_RANGE)", moved(folder)));
    let memory = map_sync(&one);
    let persistent = memory.is_ok();
    findings.push(("persistent memory (MAP_SYNC)", can(memory)));
    let mut advice = match &known {
        Ok(costs) => {
            findings.extend(
                COSTS.iter().zip(costs.named()).map(|(name, (_, us))| (*name, format!("{us:.1} µs"))),
            );
            findings.push(("rounds measured", costs.rounds.to_string()));
            advice(costs)
        }
        Err(_) => vec!["Nothing to set: checkpoints copy here, as stock SQLite's do, in every mode.".into()],
    };
    if persistent {
        advice.push("Persistent memory: ondol=pmem maps database, journal and WAL, and most syncs are fences; best with journal_mode=WAL or PERSIST.".into());
    }
    Ok(Report { findings, advice })
}

/// What the costs are called, in the order of `Costs::named`.
const COSTS: [&str; 5] = [
    "a commit of five blocks, synced",
    "the same in our layout, on shared blocks",
    "a block copied",
    "a shared block overwritten, beyond an own one",
    "a run shared",
];

/// An error with what it is about and what to do.
fn told(path: &Path, error: &io::Error) -> String {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::NotFound => format!("{path}: there is no such file or folder"),
        io::ErrorKind::PermissionDenied => {
            format!("{path}: no permission; the doctor must read the database and write into its folder")
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            format!("{path}: its file system is mounted read-only, so nothing can be measured")
        }
        io::ErrorKind::Unsupported => {
            format!("{path}: its file system makes no files without names, so nothing can be measured")
        }
        _ => format!("{path}: {error}"),
    }
}

/// What is said of a database in care.
const CARE: &str = "a SQLite without the extension refuses it (\"file is not a database\"). To make it stock, close its last connection cleanly, or run PRAGMA wal_checkpoint(TRUNCATE); PRAGMA ondol_detach; \
    after a crash, open it once with the extension, read something, and close it";

/// Whether our WAL is not beside a database.
fn is_missing(path: &Path) -> bool {
    let mut name = path.as_os_str().to_owned();
    name.push("-owal");
    std::fs::symlink_metadata(name).is_err()
}

fn database(path: &Path) -> io::Result<String> {
    let mut head = Vec::new();
    File::open(path)?.take(100).read_to_end(&mut head)?;
    if !head.starts_with(b"SQLite format 3\0") {
        return Ok(if head.is_empty() { "empty" } else { "not a SQLite database" }.into());
    }
    let read_version = head.get(care::MARK_AT as usize).copied().unwrap_or(0);
    let head = care::parse(&head);
    let mode = match (head.wal, head.marked) {
        (false, _) if read_version > 2 => {
            return Ok(format!("of a format that SQLite refuses, and not ours: read version {read_version}"));
        }
        (false, _) => "no WAL, so no checkpoints: PRAGMA journal_mode=WAL".into(),
        (true, false) => "WAL in SQLite's layout".into(),
        (true, true) if is_missing(path) => MISSING.to_string(),
        (true, true) => format!("in the extension's care: {CARE}"),
    };
    let small = if head.page < 4096 { "; too small to be shared" } else { "" };
    Ok(format!("{mode}; pages of {} bytes{small}", head.page))
}

/// The numbers of `statfs`, and names.
const FILE_SYSTEMS: [(i64, &str); 10] = [
    (0x5846_5342, "XFS"),
    (0x9123_683E, "Btrfs"),
    (0xEF53, "ext4"),
    (0xF2F5_2010, "F2FS"),
    (0x0102_1994, "tmpfs"),
    (0x794C_7630, "overlay"),
    (0x2FC1_2FC1, "ZFS"),
    (0xCA45_1A4E, "bcachefs"),
    (0x0102_1997, "9p"),
    (0x6969, "NFS"),
];

fn magic(folder: &Path) -> io::Result<i64> {
    let path = CString::new(folder.as_os_str().as_bytes())?;
    // SAFETY: a structure of numbers, which the call fills.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: a path that ends with a zero, and room for the answer.
    if unsafe { libc::statfs(path.as_ptr(), &mut found) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // The type of the field differs between platforms.
    #[allow(clippy::unnecessary_cast)]
    Ok(found.f_type as i64)
}

fn file_system(folder: &Path) -> io::Result<String> {
    let magic = magic(folder)?;
    let name = FILE_SYSTEMS.iter().find(|(number, _)| *number == magic);
    Ok(name.map_or_else(|| format!("unknown, number {magic:#x}"), |(_, name)| (*name).into()))
}

fn moved(folder: &Path) -> String {
    match moving::probe(folder) {
        Ok(found) => found.told().into(),
        Err(_) if !moving::is_f2fs(folder) => "no: not F2FS".into(),
        Err(error) => format!("no: {error}"),
    }
}

/// Whether a fence makes stores to a mapping durable.
fn map_sync(file: &File) -> io::Result<()> {
    // SAFETY: a fresh mapping of a file of ours, which nothing else refers to.
    unsafe {
        let at = libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC,
            file.as_raw_fd(),
            0,
        );
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        libc::munmap(at, 4096);
    }
    Ok(())
}

/// What auto would do for rows of 8 KB that come one by one, with a checkpoint every 1,000 frames.
fn advice(costs: &Costs) -> Vec<String> {
    /// Runs of a chunk of homes each.
    const RUNS: [u32; 4] = [128; 4];
    /// Those of the WAL, and those of the checkpoint.
    const BLOCKS: f64 = 1000.0 + 512.0;
    let for_syncs = |setting: &str, syncs: u64| {
        let cycle_us = syncs as f64 * costs.sync_us + BLOCKS * costs.copy_block_us;
        let Verdict { least_blocks, saved_us, lost_us } =
            verdict(costs, RUNS.into_iter(), syncs, 1, cycle_us);
        let what = match least_blocks {
            Some(blocks) => format!("share runs of {blocks} blocks and more"),
            None => "copy".into(),
        };
        format!(
            "Rows of 8 KB inserted one by one, {setting}: auto will {what}; sharing saves a checkpoint {saved_us:.0} µs and costs its commits {lost_us:.0} µs, of {cycle_us:.0} µs from one checkpoint to the next."
        )
    };
    vec![
        for_syncs("synchronous=FULL", 240),
        for_syncs("synchronous=NORMAL", 1),
        "Nothing to set for time: ondol=auto, the default, decides at each checkpoint. To write fewer bytes at any price: ondol=remap.".into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_and_a_database_are_examined() {
        let folder = tempfile::tempdir().expect("a folder");
        let report = examine(folder.path()).expect("a report");
        assert!(report.findings.iter().any(|(name, _)| *name == "file system"));
        assert!(!report.advice.is_empty());
        let db = folder.path().join("a.db");
        let mut head = [0; 100];
        head[..16].copy_from_slice(b"SQLite format 3\0");
        head[16..20].copy_from_slice(&[16, 0, 2, 3]);
        std::fs::write(&db, head).expect("a file");
        let (name, found) = examine(&db).expect("a report").findings.remove(0);
        assert!(name == "database" && found.contains("care") && found.contains("is missing"), "{found}");
        let wal = folder.path().join("a.db-owal");
        std::fs::write(&wal, "").expect("a file");
        let (_, found) = examine(&db).expect("a report").findings.remove(0);
        for says in ["care", "4096", "file is not a database", "ondol_detach"] {
            assert!(found.contains(says), "{found}");
        }
        std::fs::remove_file(&wal).expect("a file");
        head[18] = 3;
        std::fs::write(&db, head).expect("a file");
        let (_, found) = examine(&db).expect("a report").findings.remove(0);
        assert!(found.contains("not ours: read version 3"), "{found}");
        head[16..20].copy_from_slice(&[4, 0, 1, 1]);
        std::fs::write(&db, head).expect("a file");
        let (_, found) = examine(&db).expect("a report").findings.remove(0);
        assert!(found.contains("journal_mode=WAL") && found.contains("too small"), "{found}");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing is left");
    }

    #[test]
    fn what_cannot_be_examined_is_said() {
        let said = examine(Path::new("/nonexistent/a.db")).expect_err("nothing there");
        assert_eq!(said, "/nonexistent/a.db: there is no such file or folder");
        for (number, says) in
            [(libc::EACCES, "permission"), (libc::EROFS, "read-only"), (libc::EOPNOTSUPP, "without names")]
        {
            let said = told(Path::new("x"), &io::Error::from_raw_os_error(number));
            assert!(said.starts_with("x: ") && said.contains(says), "{said}");
        }
    }
}
