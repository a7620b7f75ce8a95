//! The mark in `PG_VERSION`, which keeps every PostgreSQL away from a cluster whose WAL may be in a ring, and
//! what must be before an entry counts (pgwal/R10 to pgwal/R12). Nothing is allocated here.
//!
//! ```text
//!   not marked --mark: KEPT, then VERSION, each durable--> marked by N --ring N empty, its words cleared, durably; unmark--> not marked
//! ```
//! - **K1** The mark is durable before the first entry.
//! - **K2** It goes when the ring that it names is empty, durably, and only for that ring.
//! - **K3** MARKED is not 0 only while the mark is there, durably.
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use ondol_ring::file::OWNERS_WORDS;
use ondol_ring::{Error, Files, Memory, Ring, Segment};

/// What `PG_VERSION` says while a ring may hold entries: with the ring's own number. One word of less than 64
/// bytes, since the server reads and quotes no more.
const MARK: [&[u8]; 2] = [b"0-WAL-is-in-ring-", b"-run-ondol-pgwal-recover\n"];
pub const MARK_LEN: usize = MARK[0].len() + 8 + MARK[1].len();
pub const VERSION: &CStr = c"PG_VERSION";
/// The server's version while the mark is there: as long as the mark, so that a base backup, which asks for
/// the size first, gets it whole.
pub const KEPT: &CStr = c"PG_VERSION.ondol";
const NEW: &CStr = c"PG_VERSION.ondol-new";

/// The ring's words that are the cluster's, each on a line of its own.
pub mod words {
    use super::OWNERS_WORDS as AT;
    /// Not 0: the mark was made, durably, since the ring was last recovered.
    pub const MARKED: usize = AT;
    /// Bytes of a segment.
    pub const SIZE: usize = AT + 64;
    /// The system's boot in which the entries were made (two words).
    pub const BOOT: [usize; 2] = [AT + 128, AT + 136];
    /// The segment whose name was last made durable: inode, log and part of its name.
    pub const NAMED: [usize; 2] = [AT + 192, AT + 200];
    /// Segments that recovery made: pairs of the inode in the entries and the new one.
    pub const MADE: usize = AT + 256;
    pub const MOST_MADE: usize = 8;
    /// The server's first process, as [`ondol_ring::Files::myself`] says it, from when it recovered the ring.
    pub const SERVER: usize = MADE + 16 * MOST_MADE;
}

/// Sets some words, durably.
pub fn set_words<M: Memory>(memory: &M, values: &[(usize, u64)]) {
    for (word, value) in values {
        memory.set(*word, *value);
        memory.flush(*word);
    }
    memory.fence();
}

/// A cluster's folders, as the mark and recovery reach them: the real ones are [`crate::cluster::Cluster`]'s,
/// the model has some that forget. Errors are the system's numbers.
pub trait Folders {
    /// Reads a file of the data directory, as far as there is room; how many bytes.
    fn contents(&self, name: &CStr, to: &mut [u8]) -> Result<usize, i32>;
    /// Makes a file of the data directory with these bytes, which are durable; its name need not be.
    fn write(&self, name: &CStr, bytes: &[u8]) -> Result<(), i32>;
    /// Renames in the data directory: a crash leaves it done or not.
    fn rename(&self, from: &CStr, to: &CStr) -> Result<(), i32>;
    /// Removes a file of the data directory.
    fn remove(&self, name: &CStr) -> Result<(), i32>;
    /// Makes the names in the data directory durable.
    fn sync(&self) -> Result<(), i32>;
    /// Opens a segment for writing: `ENOENT` where there is none of its name, `ESTALE` where it has another
    /// inode.
    fn open(&self, segment: &Segment) -> Result<i32, i32>;
    /// Makes a file of `size` zeros among the segments, open for writing; with its inode. Nothing of it is
    /// durable.
    fn make(&self, name: &CStr, size: u64) -> Result<(i32, u64), i32>;
    fn write_at(&self, file: i32, bytes: &[u8], at: u64) -> Result<(), i32>;
    fn sync_file(&self, file: i32) -> Result<(), i32>;
    fn close(&self, file: i32);
    fn rename_segment(&self, from: &CStr, to: &CStr) -> Result<(), i32>;
    /// Makes the names of the segments durable.
    fn sync_segments(&self) -> Result<(), i32>;
    /// The number of the system's boot; 0 where it is not told.
    fn boot(&self) -> [u64; 2];
}

/// The ring whose mark `PG_VERSION` is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marked {
    No,
    /// The ring of this number.
    By(u32),
}

fn mark_of(ring: u32) -> [u8; MARK_LEN] {
    let mut mark = [0; MARK_LEN];
    mark[..MARK[0].len()].copy_from_slice(MARK[0]);
    for i in 0..8 {
        mark[MARK[0].len() + i] = b"0123456789abcdef"[(ring >> (28 - 4 * i) & 15) as usize];
    }
    mark[MARK[0].len() + 8..].copy_from_slice(MARK[1]);
    mark
}
/// The ring whose mark this text is.
pub fn marked_by(text: &[u8]) -> Marked {
    let number = text.strip_prefix(MARK[0]).and_then(|rest| rest.strip_suffix(MARK[1]));
    let value = |digits: &[u8]| {
        let text = core::str::from_utf8(digits).ok()?;
        u32::from_str_radix(text, 16).ok()
    };
    number.and_then(value).map_or(Marked::No, Marked::By)
}

fn replace<F: Folders>(folders: &F, name: &CStr, bytes: &[u8]) -> Result<(), i32> {
    folders.write(NEW, bytes)?;
    folders.rename(NEW, name)?;
    folders.sync()
}

/// The ring whose mark the cluster has.
pub fn marked<F: Folders>(folders: &F) -> Result<Marked, i32> {
    let mut room = [0; 128];
    let n = folders.contents(VERSION, &mut room)?;
    Ok(marked_by(&room[..n]))
}

/// From here on no PostgreSQL starts here but over this ring. Called by one process at a time.
pub fn mark<F: Folders, M: Memory>(folders: &F, ring: u32, memory: &M) -> Result<(), i32> {
    let mut room = [0; 128];
    let n = folders.contents(VERSION, &mut room)?;
    let version = &room[..n];
    match marked_by(version) {
        Marked::By(by) if by != ring => return Err(libc::EBUSY),
        // Whoever made it may have died before it was durable.
        Marked::By(_) if memory.word(words::MARKED) == 0 => folders.sync()?,
        Marked::By(_) => {}
        Marked::No => {
            if version.len() > MARK_LEN || !version.first().is_some_and(u8::is_ascii_digit) {
                return Err(libc::EINVAL);
            }
            let mut kept = [b'\n'; MARK_LEN];
            kept[..version.len()].copy_from_slice(version);
            replace(folders, KEPT, &kept)?;
            replace(folders, VERSION, &mark_of(ring))?;
        }
    }
    memory.set(words::MARKED, 1);
    Ok(())
}

/// Takes a mark away, if there is one: of this ring, or of any. No server runs, or none writes meanwhile, and
/// that ring is empty or given up.
pub fn unmark<F: Folders>(folders: &F, ring: Option<u32>) -> Result<(), i32> {
    let mut room = [0; 128];
    match marked(folders)? {
        Marked::No => {
            // Whoever took the mark away, or was about to make it, may have died.
            return match folders.contents(KEPT, &mut room) {
                Ok(_) => folders.sync().and_then(|()| forget(folders)),
                Err(_) => Ok(()),
            };
        }
        Marked::By(by) if ring.is_some_and(|r| r != by) => return Err(libc::EBUSY),
        Marked::By(_) => {}
    }
    let n = folders.contents(KEPT, &mut room)?;
    let kept = &room[..n];
    let digits = kept.iter().position(|b| *b == b'\n').unwrap_or(0);
    if digits == 0 {
        return Err(libc::EINVAL);
    }
    replace(folders, VERSION, &kept[..digits + 1])?;
    forget(folders)
}
/// Removes the version that was kept: the mark is gone, durably.
fn forget<F: Folders>(folders: &F) -> Result<(), i32> {
    match folders.remove(KEPT) {
        Err(libc::ENOENT) => Ok(()),
        done => done,
    }
}

/// The ring is empty, durably: its words are cleared, and the mark goes (K2). Also where the ring is not for
/// power failures: one that came after a stop in order would bring back entries that nobody waits for.
pub fn put_away<F: Folders, M: Memory>(folders: &F, ring: u32, memory: &M) -> Result<(), i32> {
    // Durably, before the mark goes: the next server must make it anew.
    set_words(memory, &[words::MARKED, words::NAMED[0], words::NAMED[1]].map(|w| (w, 0)));
    let mut word = words::MADE;
    set_words(
        memory,
        &[(); 2 * words::MOST_MADE].map(|()| {
            word += 8;
            (word - 8, 0)
        }),
    );
    memory.settle()?;
    unmark(folders, Some(ring))
}

/// A server's first process has recovered the ring, and serves from here on.
pub fn serve<F: Folders + Files, M: Memory>(folders: &F, memory: &M) {
    let [a, b] = folders.boot();
    set_words(memory, &[(words::BOOT[0], a), (words::BOOT[1], b), (words::SERVER, folders.myself())])
}
/// Whether the server lives that recovered the ring. Whoever else frees entries does it then alone: after a
/// power failure the ring may hold what no file does, until a recovery has brought it home (pgwal/R13).
pub fn serves<F: Folders + Files, M: Memory>(folders: &F, memory: &M) -> bool {
    let boot = folders.boot();
    let server = memory.word(words::SERVER);
    boot != [0; 2] && words::BOOT.map(|w| memory.word(w)) == boot && server != 0 && !folders.is_dead(server)
}
/// The server's first process ends in order: it brings home what the ring holds, and takes the mark away,
/// before its own lock file goes (pgwal/R14). A process that is left, and writes, marks the cluster anew.
pub fn leave<F: Folders + Files, M: Memory>(folders: &F, id: u32, ring: &Ring<M>) -> Result<(), Error> {
    let memory = ring.memory();
    let held = ring.enter(folders)?;
    if memory.word(words::MARKED) != 0 {
        held.empty()?;
        put_away(folders, id, memory).map_err(Error::Replay)?
    }
    Ok(())
}

/// Before an entry of this segment, of `size` bytes, counts: the cluster is marked (pgwal/R12), and the
/// segment's name is durable (pgwal/R10). By the one who writes; `seen`: this process has seen that the
/// cluster is marked.
pub fn ready<F: Folders, M: Memory>(
    folders: &F,
    ring: u32,
    memory: &M,
    seen: &AtomicBool,
    segment: &Segment,
    size: u64,
) -> Result<(), i32> {
    // The first process may have taken the mark away as it ended, before others did.
    if !seen.load(Relaxed) || memory.word(words::MARKED) == 0 {
        let [a, b] = folders.boot();
        set_words(memory, &[(words::SIZE, size), (words::BOOT[0], a), (words::BOOT[1], b)]);
        mark(folders, ring, memory)?;
        seen.store(true, Relaxed);
    }
    let name = [segment.inode, u64::from(segment.log) << 32 | u64::from(segment.part)];
    if words::NAMED.map(|w| memory.word(w)) != name {
        // PostgreSQL writes to a segment that another process is still renaming.
        folders.sync_segments()?;
        words::NAMED.iter().zip(name).for_each(|(w, value)| memory.set(*w, value));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_names_its_ring() {
        let mark = mark_of(0x0a1b_2c3d);
        assert_eq!(&mark[..], b"0-WAL-is-in-ring-0a1b2c3d-run-ondol-pgwal-recover\n");
        assert!(mark.len() < 64);
        assert_eq!(marked_by(&mark), Marked::By(0x0a1b_2c3d));
        assert_eq!(marked_by(b"15\n"), Marked::No);
        assert_eq!(marked_by(b"0-WAL-is-in-ring-0a1b2c3z-run-ondol-pgwal-recover\n"), Marked::No);
    }
}
