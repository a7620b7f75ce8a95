//! The mark that keeps stock SQLite away: byte 19 of a database's header, its read version.
//!
//! 3 says: this database is in our care, its WAL is in the file `-owal`, in our layout, and every connection
//! to it is ours. A stock SQLite refuses version 3 ("file is not a database"). Our connections see 2, as
//! SQLite wrote it; a 3 that is not our mark ([`parse`]) they see as it is, so SQLite refuses it.
//!
//! - **K1** The mark changes only under SQLite's EXCLUSIVE lock on the database. A connection in WAL mode
//!   holds SHARED for as long as its WAL is open, so no stock connection is there when the mark is set, none
//!   can join while it stands, and a connection's layout never changes under it.
//! - **K2** Before the mark is set, `-owal` is durably empty, of our version (wal/T1), and `-wal` is durably
//!   absent or without a header, so that it has no frames. (A stock SQLite takes page 1 from a `-wal` that
//!   has it, so a hot `-wal` would hide the mark.)
//! - **K3** Before the mark is removed, the database holds everything, durably. `-owal` goes after it:
//!   without the mark it is never read.
//! - **K4** Hence a database without the mark is stock with its `-wal`; one with the mark is complete with
//!   its `-owal`, and with no other WAL: without that file it is refused.
use crate::layout::Layout;
use crate::medium::Medium;
use crate::wal;
use ondol_base::sim::mutated;
use std::io;

pub const MARK_AT: u64 = 19;
/// The read version that SQLite gives a database in WAL mode.
const STOCK: u8 = 2;
const OURS: u8 = 3;

/// What a database's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub marked: bool,
    /// Of SQLite's format, and in WAL mode as we know it.
    pub wal: bool,
    pub page: u64,
}

pub fn header(db: &dyn Medium) -> io::Result<Header> {
    let mut head = [0; 20];
    let n = db.read_at(&mut head, 0)?;
    Ok(parse(&head[..n]))
}

/// What the first bytes of a database say.
pub fn parse(head: &[u8]) -> Header {
    let Some(head) = head.first_chunk::<20>() else {
        return Header { marked: false, wal: false, page: 0 };
    };
    let sqlite = head[..16] == *b"SQLite format 3\0" && head[18] == STOCK;
    let page = match u64::from(u16::from_be_bytes([head[16], head[17]])) {
        1 => 65536,
        bytes => bytes,
    };
    let version = head[MARK_AT as usize];
    // We leave the write version as it is, and mark no database with pages that have no place in our layout.
    let marked = sqlite && version == OURS && Layout::new(page).is_some();
    Header { marked, wal: marked || (sqlite && version == STOCK), page }
}

/// Where the mark stands in the bytes of the database from `offset` on.
fn place(len: usize, offset: u64) -> Option<usize> {
    let at = usize::try_from(MARK_AT.checked_sub(offset)?).ok()?;
    (at < len).then_some(at)
}

/// What was read of a database, as SQLite wrote it.
pub fn hide(db: &dyn Medium, read: &mut [u8], offset: u64) {
    if let Some(at) = place(read.len(), offset)
        && read[at] == OURS
    {
        // What cannot be read is shown as it is: SQLite refuses it.
        let head = if offset == 0 { Ok(parse(read)) } else { header(db) };
        if head.is_ok_and(|head| head.marked) {
            read[at] = STOCK;
        }
    }
}

/// What is to be written to a database in our care, with its mark; None where it is as it should be.
pub fn keep(written: &[u8], offset: u64) -> Option<Vec<u8>> {
    let at = place(written.len(), offset)?;
    (written[at] == STOCK).then(|| {
        let mut marked = written.to_vec();
        marked[at] = OURS;
        marked
    })
}

/// Takes a database into our care: the caller holds EXCLUSIVE (K1), and `stock_wal`, where there is one,
/// holds no frame that the database needs.
pub fn take(
    db: &dyn Medium,
    stock_wal: Option<&dyn Medium>,
    our_wal: &dyn Medium,
    sync_folder: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    if let Some(stock) = stock_wal {
        // With synchronous=OFF nothing of what was backfilled may be durable yet.
        db.sync()?;
        wal::disown(stock, 0)?;
        stock.set_len(0)?;
    }
    our_wal.set_len(0)?;
    wal::prepare(our_wal)?;
    if !mutated("care_wal_unsynced") {
        our_wal.sync()?;
    }
    // A `-wal` that was deleted must not come back, nor our own vanish.
    if !mutated("care_folder_unsynced") {
        sync_folder()?;
    }
    db.write_at(&[OURS], MARK_AT)?;
    if mutated("care_mark_unsynced") { Ok(()) } else { db.sync() }
}

/// Lets a database go: the caller holds EXCLUSIVE (K1), and every frame was backfilled.
pub fn release(db: &dyn Medium) -> io::Result<()> {
    db.sync()?;
    db.write_at(&[STOCK], MARK_AT)?;
    if mutated("care_release_unsynced") { Ok(()) } else { db.sync() }
}
