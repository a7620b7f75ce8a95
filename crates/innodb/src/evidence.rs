//! Why a file may be believed to be one moment of its table.
//!
//! A running server changes pages in its memory and writes them when it likes; open transactions leave rows
//! that no query sees. So a file is read only with evidence that it was at rest, or on the user's own word.
//!
//! - **E1** Of a data folder, or a prepared backup, three things are looked at: that the log has nothing left
//!   to apply ([`crate::redo`]; of a backup, what its checkpoint file says), which transactions were not
//!   finished ([`crate::undo`]), and then of each page that it is not newer, and of each row that its
//!   transaction was finished ([`crate::moment`]).
//! - **E2** Where one of these cannot be looked at, or is of a version that was never tried, the evidence is
//!   refused, with the reason.
//! - **E3** `TABLE.cfg`, which `FLUSH TABLES … FOR EXPORT` writes and UNLOCK TABLES removes, counts if it
//!   names this tablespace and the root of one of its indexes. A server that is killed leaves it behind. So
//!   beside a file that a process has open for writing, or within a data folder, it counts only if such a
//!   process is older than it, and the file was not written after it.
use crate::error::{Error, Kind, Result};
use crate::moment::Moment;
use crate::page::{Page, u32_at, u64_at};
use crate::space::Space;
use crate::{redo, undo};
use ondol_base::clock;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// `FLUSH TABLES … FOR EXPORT` left `TABLE.cfg` beside the file.
    Exported(PathBuf),
    /// The folder above is a prepared backup: what its checkpoint file says, and the position of the log to
    /// which it was prepared.
    Backup(PathBuf, u64),
    /// The folder above is the data folder of a server that was shut down cleanly: where its log ends.
    Stopped(PathBuf, u64),
    /// The user said so. There may be something that speaks against it.
    Assumed(Option<String>),
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Evidence::Exported(path) => write!(f, "exported by the server ({})", path.display()),
            Evidence::Backup(path, lsn) => {
                write!(f, "part of a prepared backup ({}, log to {lsn})", path.display())
            }
            Evidence::Stopped(folder, lsn) => {
                write!(f, "a stopped server's ({}, log to {lsn})", folder.display())
            }
            Evidence::Assumed(None) => write!(f, "assumed"),
            Evidence::Assumed(Some(but)) => write!(f, "assumed, though {but}"),
        }
    }
}

/// Looks for evidence; `assume`: the user's word will do. Where the evidence is of a moment, `space` reads
/// nothing newer from then on.
pub fn find(space: &Space, assume: bool) -> Result<Evidence> {
    find_among(space, assume, &OpenFiles::now())
}

/// The same where it was looked just now which files others have open.
pub fn find_among(space: &Space, assume: bool, others: &OpenFiles) -> Result<Evidence> {
    space.is_locked()?;
    let path = space.path();
    let cfg = path.with_extension("cfg");
    let above = above(path);
    let writer = writer(path, &above, others);
    let no_export = match exported(space, &cfg, &above, writer.as_ref())? {
        Ok(()) => {
            space.hold_to_lock(&cfg)?;
            return Ok(Evidence::Exported(cfg));
        }
        Err(why) => why.map_or(String::new(), |why| format!(" ({} does not count: {why})", cfg.display())),
    };
    if let Some(WritingProcess { file, process, .. }) = writer {
        return Err(Error::new(
            path,
            Kind::Mismatch,
            format!(
                "{process} has {} open for writing: a running server's file is no moment of its table{no_export}. Use ondol innodb snapshot, or FLUSH TABLES … FOR EXPORT and both files before UNLOCK TABLES",
                file.display()
            ),
        ));
    }
    let mut found = None;
    for folder in &above {
        if let Some((file, lsn)) = backup(folder)? {
            found = Some((folder, Some((file, lsn))));
        } else if folder.join(SYSTEM).exists() {
            found = Some((folder, None));
        }
        if found.is_some() {
            break;
        }
    }
    let refused = match found.map(|(folder, backup)| at_rest(space, folder, backup)) {
        // The user's word is also for what a moment would refuse.
        Some(Ok((evidence, moment))) if !assume => return space.hold_to(moment).map(|()| evidence),
        Some(Err(e)) => Some(e),
        _ => None,
    };
    if assume {
        return Ok(Evidence::Assumed(refused.map(|e| e.to_string())));
    }
    let expected = format!(
        "Expected {} (made by FLUSH TABLES … FOR EXPORT; copy both files before UNLOCK TABLES), or around it a prepared backup, or the data folder of a server that was shut down cleanly \
         (MariaDB from 10.8 on, MySQL from 8.0.30 on). If you know that it was at rest, --assume-consistent (in SQL assume_consistent => true) reads it on your word",
        cfg.display()
    );
    Err(match refused {
        Some(e) => Error { message: format!("{}{no_export}. {expected}", e.message), ..e },
        None => Error::new(
            path,
            Kind::Mismatch,
            format!("nothing shows that it was at rest when it was copied{no_export}. {expected}"),
        ),
    })
}

/// Whether what was found still counts, when the file was read: the lock of an export may be gone meanwhile.
pub fn still(space: &Space, evidence: &Evidence) -> Result<()> {
    let Evidence::Exported(cfg) = evidence else { return Ok(()) };
    let above = above(space.path());
    let why = match exported(space, cfg, &above, writer(space.path(), &above, &OpenFiles::now()).as_ref())? {
        Ok(()) => return Ok(()),
        Err(why) => why.unwrap_or_else(|| "it is gone".into()),
    };
    Err(Error::new(
        cfg,
        Kind::Mismatch,
        format!(
            "while the table was read the tables were unlocked: {why}; what was read may be of several moments"
        ),
    ))
}

/// Whether a `.cfg` is there and counts (E3); if it does not, why. An error if it is not this table's.
fn exported(
    space: &Space,
    cfg: &Path,
    above: &[PathBuf],
    writer: Option<&WritingProcess>,
) -> Result<std::result::Result<(), Option<String>>> {
    let Ok(about) = std::fs::metadata(cfg) else { return Ok(Err(None)) };
    let no_export = || Error::new(cfg, Kind::Mismatch, "it is not what FLUSH TABLES … FOR EXPORT writes");
    if !about.is_file() {
        return Err(no_export());
    }
    let bytes = std::fs::read(cfg).map_err(|e| Error::io(cfg, "cannot be read", &e))?;
    let (table, size) = head(&bytes).ok_or_else(no_export)?;
    let (path, expected) = (space.path(), space.format().page_size);
    if size as usize != expected {
        let why = format!(
            "it is of a table with pages of {size} bytes, {} has pages of {expected}",
            path.display()
        );
        return Err(Error::new(cfg, Kind::Mismatch, why));
    }
    if !names_root(space, &bytes) {
        let why = format!(
            "it is of another table, {table}, or of another time: it names no index that is in {}, tablespace {}",
            path.display(),
            space.id()
        );
        return Err(Error::new(cfg, Kind::Mismatch, why));
    }
    let is_data = above.iter().any(|f| f.join(SYSTEM).exists() && !matches!(backup(f), Ok(Some(_))));
    let Some(WritingProcess { process, began, .. }) = writer else {
        let why = "it is in a server's data folder, and no server is seen that has it open (another user's is not): one that was killed leaves it behind";
        return Ok(if is_data { Err(Some(why.into())) } else { Ok(()) });
    };
    let written = |about: std::io::Result<std::fs::Metadata>| about.and_then(|about| about.modified());
    let (Ok(cfg), Ok(file)) = (written(Ok(about)), written(std::fs::metadata(path))) else {
        return Ok(Err(Some("when it was written is not known".into())));
    };
    Ok(match began {
        Some(began) if *began <= cfg && file <= cfg => Ok(()),
        Some(began) if *began <= cfg => Err(Some("the file was written after it".into())),
        Some(_) => {
            Err(Some(format!("it is older than {process}; a server that was killed leaves it behind")))
        }
        None => Err(Some(format!("since when {process} runs is not known"))),
    })
}

/// Whether a `.cfg` has an index of this tablespace: its number, the tablespace's, and its root page's, as
/// that page has them.
fn names_root(space: &Space, cfg: &[u8]) -> bool {
    let mut page = vec![0; space.format().page_size];
    for at in 8..cfg.len().saturating_sub(7) {
        if u32_at(cfg, at) != Some(space.id()) {
            continue;
        }
        let (Some(index), Some(root)) = (u64_at(cfg, at - 8), u32_at(cfg, at + 4)) else { continue };
        if (1..space.pages()).contains(&root) {
            // A place that only looks like one may name a page that is damaged; the table's own root was
            // proved before.
            let is_whole = space.read_page(root, &mut page).is_ok();
            if is_whole && Page(&page).is_index() && Page(&page).index() == index {
                return true;
            }
        }
    }
    false
}

/// The system tablespace, and the temporary one, which is there while a server runs, and when it was killed.
const SYSTEM: &str = "ibdata1";
const TEMPORARY: &str = "ibtmp1";

/// The folders that may be the data folder of a table's file: two levels above it, as it is named and as it
/// is.
fn above(path: &Path) -> Vec<PathBuf> {
    let mut above = Vec::new();
    for path in [std::path::absolute(path), path.canonicalize()].into_iter().flatten() {
        if let Some(folder) = path.parent().and_then(Path::parent).map(Path::to_path_buf)
            && !above.contains(&folder)
        {
            above.push(folder);
        }
    }
    above
}

/// Looks at what a data folder, or a prepared backup, says (E1).
fn at_rest(space: &Space, folder: &Path, backup: Option<(PathBuf, u64)>) -> Result<(Evidence, Moment)> {
    let system = Space::open_any(&folder.join(SYSTEM), space.keys())?;
    let (there, here) = (system.format(), space.format());
    if (there.has_sdi, there.page_size) != (here.has_sdi, here.page_size) {
        let why = "it is of another server than the table: of another family, or with pages of another size";
        return Err(Error::new(system.path(), Kind::Mismatch, why));
    }
    let mut first = vec![0; there.page_size];
    system.read_page(0, &mut first)?;
    // MySQL's last act.
    let flushed = u64_at(&first, 26).unwrap_or(0);
    let lsn = match &backup {
        // Preparing MySQL's rolls back, which is logged and then flushed.
        Some((_, lsn)) if there.has_sdi => flushed.max(*lsn),
        Some((_, lsn)) => *lsn,
        None => redo::end(folder, there.has_sdi, flushed)?,
    };
    let temporary = folder.join(TEMPORARY);
    if backup.is_none() && temporary.exists() {
        let why = "it is there while a server runs, or after it was killed: the folder was not shut down cleanly, or was copied before that";
        return Err(Error::new(&temporary, Kind::Mismatch, why));
    }
    let moment = undo::moment(folder, system, lsn)?;
    let evidence = match backup {
        Some((file, _)) => Evidence::Backup(file, lsn),
        None => Evidence::Stopped(folder.to_path_buf(), lsn),
    };
    Ok((evidence, moment))
}

/// A process that has a file open for writing.
struct WritingProcess {
    file: PathBuf,
    /// Its number and name.
    process: String,
    began: Option<SystemTime>,
}

/// When a process began, from its own file of figures and the time since the system's start: exact to some
/// hundredths of a second.
fn began(process: &Path) -> Option<SystemTime> {
    let (about, up) =
        (std::fs::read_to_string(process.join("stat")), std::fs::read_to_string("/proc/uptime"));
    let (about, up) = (about.ok()?, up.ok()?);
    // Its name, in parentheses, may have blanks and parentheses; its start is the twentieth word behind it,
    // in hundredths of a second.
    let began: u64 = about.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    let up: f64 = up.split_whitespace().next()?.parse().ok()?;
    let age = Duration::try_from_secs_f64(up).ok()?.checked_sub(Duration::from_millis(began * 10))?;
    let now = Duration::from_micros(clock::wall_us().try_into().ok()?);
    SystemTime::UNIX_EPOCH.checked_add(now.checked_sub(age)?)
}

/// Another process that has the file, or the system tablespace of the data folder around it, open for
/// writing.
fn writer(path: &Path, above: &[PathBuf], others: &OpenFiles) -> Option<WritingProcess> {
    let files: Vec<(PathBuf, (u64, u64))> = std::iter::once(path.to_path_buf())
        .chain(above.iter().map(|folder| folder.join(SYSTEM)))
        .filter_map(|file| std::fs::metadata(&file).ok().map(|m| (file, (m.dev(), m.ino()))))
        .collect();
    for OpenFile { process, fd, id } in &others.all {
        let Some((file, _)) = files.iter().find(|(_, own)| own == id) else { continue };
        let place = PathBuf::from(format!("/proc/{process}"));
        let info = std::fs::read_to_string(place.join("fdinfo").join(fd));
        // A number that was given to another file meanwhile says nothing of this one.
        let again = std::fs::metadata(place.join("fd").join(fd)).map(|about| (about.dev(), about.ino()));
        if again.is_ok_and(|again| again == *id) && info.is_ok_and(|info| writes(&info, id.1)) {
            let comm = std::fs::read_to_string(place.join("comm")).unwrap_or_default();
            return Some(WritingProcess {
                file: file.clone(),
                process: format!("process {process} ({})", comm.trim()),
                began: began(&place),
            });
        }
    }
    None
}

/// A descriptor of another process, and which file it is of, by device and inode.
struct OpenFile {
    process: u32,
    fd: OsString,
    id: (u64, u64),
}

/// The files that other processes have open, as far as they may be looked into: of the same user, or all for
/// root. Who looks at many files one after the other need not look through all processes for each.
pub struct OpenFiles {
    all: Vec<OpenFile>,
    since: Duration,
}

/// So long a list may be used. Reading a table takes longer than that, and a server may be started at any
/// time of it; what shows that is what pages say (E1).
const KEPT: Duration = Duration::from_millis(200);

impl OpenFiles {
    pub fn now() -> OpenFiles {
        let since = clock::now();
        let mut all = Vec::new();
        for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let name = process.file_name();
            let Some(number) = name.to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
            if number == std::process::id() {
                continue;
            }
            let Ok(open) = std::fs::read_dir(process.path().join("fd")) else { continue };
            for fd in open.flatten() {
                let Ok(found) = std::fs::metadata(fd.path()) else { continue };
                all.push(OpenFile { process: number, fd: fd.file_name(), id: (found.dev(), found.ino()) })
            }
        }
        OpenFiles { all, since }
    }
    /// Looks anew if some time has passed.
    pub fn refresh(&mut self) {
        if clock::now().saturating_sub(self.since) >= KEPT {
            *self = OpenFiles::now()
        }
    }
}

/// Whether `/proc`'s words about a descriptor say that this file is open for writing. From Linux 5.14 on they
/// name the file.
fn writes(info: &str, inode: u64) -> bool {
    let word = |name: &str| info.lines().find_map(|l| l.strip_prefix(name)).map(str::trim);
    // The last octal digit of the flags: 0 reads, 1 writes, 2 does both.
    word("flags:").is_some_and(|flags| flags.ends_with(['1', '2']))
        && word("ino:").is_none_or(|ino| ino.parse() == Ok(inode))
}

/// The table's name and the page size in a `.cfg`: version, host, table (each text with its length), next
/// autoincrement value, page size.
fn head(cfg: &[u8]) -> Option<(String, u32)> {
    let version = u32_at(cfg, 0)?;
    if !(1..=99).contains(&version) {
        return None;
    }
    let host = u32_at(cfg, 4)? as usize;
    let table = 8usize.checked_add(host)?;
    let name = table.checked_add(4)?;
    let after = name.checked_add(u32_at(cfg, table)? as usize)?;
    let size = u32_at(cfg, after.checked_add(8)?)?;
    let name = String::from_utf8_lossy(cfg.get(name..after)?).trim_end_matches('\0').to_string();
    Some((name, size))
}

/// The checkpoint file of a backup, if there is one and it says that the backup is prepared; and to which
/// position of the log.
fn backup(folder: &Path) -> Result<Option<(PathBuf, u64)>> {
    for name in ["xtrabackup_checkpoints", "mariadb_backup_checkpoints"] {
        let file = folder.join(name);
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let value = |name: &str| {
            let mut lines = text.lines().filter_map(|l| l.split_once('='));
            lines.find_map(|(n, value)| (n.trim() == name).then_some(value.trim()))
        };
        let kind = value("backup_type");
        // mariabackup writes log-applied, xtrabackup full-prepared; or log-applied if it has not rolled back
        // yet, which the undo tells.
        if !matches!(kind, Some("full-prepared" | "log-applied")) {
            return Err(Error::new(
                &file,
                Kind::Mismatch,
                format!(
                    "the backup's type is {}; only a prepared one can be read (full-prepared, log-applied): run --prepare on it",
                    kind.unwrap_or("not said")
                ),
            ));
        }
        let lsn = ["to_lsn", "last_lsn"].iter().filter_map(|n| value(n)?.parse().ok()).max();
        return match lsn {
            Some(lsn) => Ok(Some((file, lsn))),
            None => Err(Error::new(
                &file,
                Kind::Mismatch,
                "it does not say to_lsn or last_lsn, the log's position that it was prepared to",
            )),
        };
    }
    Ok(None)
}
