//! The transactions that were not finished, by a data folder's undo logs.
//!
//! A transaction that changed something has an undo log segment, and each segment in use has a slot in a
//! rollback segment's page; the segment's first page says whether its transaction is under way, prepared
//! (XA), or finished. Rollback segments are listed in the system tablespace (page 5), and in MySQL 8 and
//! later in each undo tablespace (page 3), too.
//!
//! MariaDB's undo tablespaces (`undo001`) are all listed by their rollback segments. MySQL's are `undo_001`,
//! `undo_002` and `*.ibu`, which may lie elsewhere (moment/M3).
//!
//! Sources: MySQL's and MariaDB's documentation of undo logs and tablespaces; Jeremy Cole, "InnoDB undo log
//! and history basics"; files of both servers.
use crate::error::{Error, Kind, Result};
use crate::moment::Moment;
use crate::page::{NONE, Page, u16_at, u32_at, u64_at};
use crate::space::Space;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

// Types of pages.
const UNDO_LOG: u16 = 2;
const SYS: u16 = 6;
const TRX_SYS: u16 = 7;
const RSEG_ARRAY: u16 = 21;

/// Rollback segments of one list.
const SEGMENTS: usize = 128;
/// The highest number of MySQL's undo tablespaces, and how many numbers there are before they come again.
const HIGHEST: u32 = 0xffff_ffef;
const NUMBERS: u32 = 127;

/// What a data folder was at position `lsn` of its log, at which it was at rest but for the transactions that
/// are given.
pub fn moment(folder: &Path, system: Space, lsn: u64) -> Result<Moment> {
    let is_mysql = system.format().has_sdi;
    let keys = system.keys().cloned();
    let (mut spaces, mut looked_at) = (BTreeMap::from([(0, system)]), 1u128);
    for path in tablespaces(folder)? {
        let space = Space::open_any(&path, keys.as_ref())?;
        // MySQL 8 gives them numbers from above, one after the other.
        if let Some(below) = HIGHEST.checked_sub(space.id()).filter(|n| is_mysql && *n < 0x1000_0000) {
            looked_at |= 1 << (below % NUMBERS + 1);
        }
        if let Some(other) = spaces.insert(space.id(), space) {
            let why = format!("another file there is tablespace {}, too", other.id());
            return Err(Error::new(other.path(), Kind::Mismatch, why));
        }
    }
    let mut moment = Moment { lsn, unfinished: Vec::new(), undo: is_mysql.then_some(looked_at) };
    for space in spaces.values() {
        space.hold_to(Moment { unfinished: Vec::new(), undo: None, ..moment })?;
    }
    for (space, page) in segments(&spaces, is_mysql)? {
        let segment = read(space, page, SYS, "a rollback segment")?;
        for slot in 0..segment.len() / 16 {
            match u32_at(&segment, 72 + 4 * slot) {
                Some(NONE) | None => {}
                Some(log) => moment.unfinished.extend(unfinished(space, log, is_mysql)?),
            }
        }
    }
    moment.unfinished.sort_unstable();
    moment.unfinished.dedup();
    Ok(moment)
}

/// The files of a data folder that may be undo tablespaces.
fn tablespaces(folder: &Path) -> Result<Vec<PathBuf>> {
    let list = |folder: &Path| -> Result<Vec<PathBuf>> {
        let unread = |e: &std::io::Error| Error::io(folder, "cannot list it", e);
        let entries = std::fs::read_dir(folder).map_err(|e| unread(&e))?;
        entries.map(|e| e.map(|e| e.path()).map_err(|e| unread(&e))).collect()
    };
    let named = |path: &Path| {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("");
        let number = name.strip_prefix("undo").map(|n| n.strip_prefix('_').unwrap_or(n));
        number.is_some_and(|n| n.len() == 3 && n.bytes().all(|b| b.is_ascii_digit()))
            || name.ends_with(".ibu")
    };
    let mut found = Vec::new();
    for path in list(folder)? {
        if path.is_dir() {
            found.extend(list(&path)?.into_iter().filter(|p| p.extension().is_some_and(|e| e == "ibu")));
        } else if named(&path) {
            found.push(path);
        }
    }
    Ok(found)
}

/// The pages of all rollback segments.
fn segments(spaces: &BTreeMap<u32, Space>, is_mysql: bool) -> Result<Vec<(&Space, u32)>> {
    let mut segments = Vec::new();
    let Some(system) = spaces.get(&0) else { return Ok(segments) };
    let list = read(system, 5, TRX_SYS, "the list of rollback segments")?;
    for n in 0..SEGMENTS {
        let (space, page) =
            (u32_at(&list, 56 + 8 * n).unwrap_or(NONE), u32_at(&list, 60 + 8 * n).unwrap_or(NONE));
        if page == NONE {
            continue;
        }
        let Some(space) = spaces.get(&space) else {
            let why = format!(
                "a rollback segment is in tablespace {space}, and no undo tablespace of this number is in the data folder (innodb_undo_directory?): whether all transactions were finished cannot be seen"
            );
            return Err(Error::on_page(system.path(), 5, Kind::Mismatch, why));
        };
        segments.push((space, page));
    }
    for space in spaces.values().filter(|space| is_mysql && space.id() > 127) {
        let list = read(space, 3, RSEG_ARRAY, "the list of rollback segments")?;
        let pages = (0..SEGMENTS).filter_map(|n| u32_at(&list, 56 + 4 * n));
        segments.extend(pages.filter(|page| *page != NONE).map(|page| (space, page)));
    }
    Ok(segments)
}

/// The number of the transaction whose undo log begins on a page, unless it was finished.
fn unfinished(space: &Space, number: u32, is_mysql: bool) -> Result<Option<u64>> {
    let page = read(space, number, UNDO_LOG, "the first page of an undo log")?;
    let refuse = |kind, why: String| Error::on_page(space.path(), number, kind, why);
    // 2: kept for the next transaction; 3, 4: kept until it is freed, or purged. 1: under way; 5 to 7:
    // prepared.
    let state = u16_at(&page, 56).unwrap_or(0);
    match state {
        2..=4 => return Ok(None),
        1 | 5..=7 => {}
        _ => {
            return Err(refuse(
                Kind::Damaged,
                format!("an undo log has state {state}, which no known server gives one"),
            ));
        }
    }
    let at = u16_at(&page, 58).unwrap_or(0) as usize;
    let (Some(transaction), Some(of_dictionary)) =
        (u64_at(&page, at).filter(|_| at >= 86), page.get(at + 21))
    else {
        return Err(refuse(Kind::Damaged, format!("its last undo log would begin at {at}")));
    };
    // Definitions bear no transaction's number that is looked at. XA takes none; what else is under way in
    // MySQL may be one.
    if *of_dictionary != 0 || is_mysql && state == 1 {
        let why = format!(
            "transaction {transaction} was neither committed nor rolled back, and may have changed definitions: start the server, let it roll back, and shut it down"
        );
        return Err(refuse(Kind::Mismatch, why));
    }
    Ok(Some(transaction))
}

fn read(space: &Space, number: u32, kind: u16, what: &str) -> Result<Vec<u8>> {
    let mut page = vec![0; space.format().page_size];
    space.read_page(number, &mut page)?;
    let found = Page(&page).kind();
    if found != kind {
        let why = format!("{what} was expected (type {kind}), it is of type {found}");
        return Err(Error::on_page(space.path(), number, Kind::Damaged, why));
    }
    Ok(page)
}
