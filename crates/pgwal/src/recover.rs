//! Bringing a ring's entries home: into the segments, and the mark away (pgwal/R8, pgwal/R12). Nothing is
//! allocated here.
//!
//! A segment that is missing is made where nothing of it can be missing: the ring's entries begin at its
//! beginning and leave no gap. It gets its name when it is whole and synced, and before that the ring notes
//! the new file's inode, so that a recovery that begins again knows it.
use crate::mark::{Folders, Marked, marked, put_away, set_words, words};
use core::ffi::CStr;
use core::fmt;
use ondol_ring::file::Owner;
use ondol_ring::{Entry, Error, Memory, Replay, Ring, Segment};

/// Why a ring is not recovered. Nothing was changed, or what was is written again the next time.
#[derive(Debug)]
pub enum Refusal {
    /// It holds entries, but the cluster is not marked: somebody went on without the ring.
    NotMarked {
        entries: u64,
    },
    /// The cluster's WAL is in the ring of this number.
    OtherRing(u32),
    /// It promises nothing after a power failure, and the system was started since.
    OtherBoot {
        /// `None`: it cannot be told.
        entries: Option<u64>,
    },
    Ring(Error, Option<Segment>),
    /// The mark cannot be read or taken away.
    Mark(i32),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NotMarked { entries } => write!(
                f,
                "the ring holds {entries} entries, but PG_VERSION is not marked: a server went on without the ring, whose entries are \
                 older than its WAL; `discard` gives them up"
            ),
            Refusal::OtherRing(n) => write!(f, "the cluster's WAL is in another ring, of number {n:08x}"),
            Refusal::OtherBoot { entries } => {
                f.write_str("the server did not end in order before the system was started, and the ring (")?;
                match entries {
                    Some(n) => write!(f, "{n} entries")?,
                    None => f.write_str("with entries that are not whole")?,
                }
                f.write_str(
                    ") is not for power failures: if the system was shut down in order, recover with --rebooted yes; else what it holds may \
                     be older than the disk, and `discard` gives it up",
                )
            }
            Refusal::Ring(Error::Damaged(n), _) => {
                write!(f, "entry {n} was acknowledged and is damaged; nothing was changed")
            }
            Refusal::Ring(e, segment) => {
                if let Some(s) = segment {
                    let name = s.name();
                    write!(f, "segment {}: ", core::str::from_utf8(&name[..24]).unwrap_or("?"))?;
                }
                match e {
                    Error::Replay(libc::ENOENT) => {
                        f.write_str("it is missing, and the ring does not hold all of it")
                    }
                    Error::Replay(libc::ESTALE) => {
                        f.write_str("it is another file than the one that was written")
                    }
                    Error::Replay(n) | Error::Sync(n) => write!(f, "error {n} of the system"),
                    Error::Damaged(_) => Ok(()),
                }
            }
            Refusal::Mark(n) => write!(f, "PG_VERSION: error {n} of the system"),
        }
    }
}

/// Replays, empties the ring, takes the mark away. The caller holds the ring's lock alone. `rebooted`: the
/// system was shut down in order since a ring that is not for power failures was written.
pub fn recover<M: Memory, F: Folders>(
    ring: &Ring<M>,
    owner: &Owner,
    folders: &F,
    rebooted: bool,
) -> Result<Replay, Refusal> {
    let memory = ring.memory();
    let marked = marked(folders).map_err(Refusal::Mark)?;
    if let Marked::By(other) = marked
        && other != owner.id
    {
        return Err(Refusal::OtherRing(other));
    }
    let found = ring.survey(|_, _| Ok(()));
    let then = words::BOOT.map(|w| memory.word(w));
    if marked != Marked::No && !owner.power && !rebooted && then != folders.boot() {
        return Err(Refusal::OtherBoot { entries: found.ok().map(|f| f.entries) });
    }
    let Replay { entries, .. } = found.map_err(|e| Refusal::Ring(e, None))?;
    if entries != 0 && marked == Marked::No {
        return Err(Refusal::NotMarked { entries });
    }
    let home = core::cell::RefCell::new(Home {
        memory,
        folders,
        size: memory.word(words::SIZE),
        open: [const { None }; OPEN],
        blamed: None,
    });
    let done = ring.recover(|entry, data| home.borrow_mut().write(entry, data), || home.borrow_mut().sync());
    let home = home.into_inner();
    home.close();
    let done = done.map_err(|e| Refusal::Ring(e, home.blamed))?;
    put_away(folders, owner.id, memory).map_err(Refusal::Mark)?;
    Ok(done)
}

/// Segments that are open at once.
const OPEN: usize = 16;

struct Open {
    segment: Segment,
    fd: i32,
    /// Of one that recovery makes: its inode, and up to where the ring held it without a gap.
    made: Option<(u64, u64)>,
}

struct Home<'a, M, F> {
    memory: &'a M,
    folders: &'a F,
    size: u64,
    open: [Option<Open>; OPEN],
    /// The segment that an error is about.
    blamed: Option<Segment>,
}

/// The name under which a segment is made: none that a server looks at.
fn unready(segment: &Segment) -> [u8; 32] {
    let mut name = [0; 32];
    name[..24].copy_from_slice(&segment.name()[..24]);
    name[24..30].copy_from_slice(b".ondol");
    name
}

impl<M: Memory, F: Folders> Home<'_, M, F> {
    fn write(&mut self, entry: &Entry, data: &[u8]) -> Result<(), i32> {
        let s = entry.segment;
        self.blamed = Some(s);
        let known = self.open.iter().position(|o| o.as_ref().is_some_and(|o| o.segment == s));
        let at = match known {
            Some(at) => at,
            None => {
                let at = self.room()?;
                self.open[at] = Some(self.find(entry)?);
                at
            }
        };
        let Some(open) = &mut self.open[at] else {
            return Err(libc::EIO);
        };
        if let Some((_, to)) = &mut open.made {
            if entry.offset > *to {
                return Err(libc::ENOENT);
            }
            *to = (*to).max(entry.offset + data.len() as u64);
        }
        self.folders.write_at(open.fd, data, entry.offset)?;
        self.blamed = None;
        Ok(())
    }
    /// A place in `open`: a free one, else that of a segment that is synced now.
    fn room(&mut self) -> Result<usize, i32> {
        if let Some(free) = self.open.iter().position(Option::is_none) {
            return Ok(free);
        }
        let there = self.open.iter().position(|o| o.as_ref().is_some_and(|o| o.made.is_none()));
        let at = there.ok_or(libc::EMFILE)?;
        if let Some(o) = self.open[at].take() {
            let done = self.folders.sync_file(o.fd);
            self.folders.close(o.fd);
            done?
        }
        Ok(at)
    }
    fn find(&self, entry: &Entry) -> Result<Open, i32> {
        let segment = entry.segment;
        match self.folders.open(&segment) {
            Ok(fd) => {
                // Of older errors it is told now: what they are about is written again, or was synced.
                let _ = self.folders.sync_file(fd);
                Ok(Open { segment, fd, made: None })
            }
            Err(libc::ESTALE) => {
                let pair = |i: usize| [0, 8].map(|b| self.memory.word(words::MADE + i * 16 + b));
                let new = (0..words::MOST_MADE).map(pair).find(|p| p[0] == segment.inode && p[1] != 0);
                let inode = new.ok_or(libc::ESTALE)?[1];
                let fd = self.folders.open(&Segment { inode, ..segment })?;
                Ok(Open { segment, fd, made: None })
            }
            Err(libc::ENOENT) if entry.offset == 0 && self.size != 0 => {
                let name = unready(&segment);
                let name = CStr::from_bytes_until_nul(&name).map_err(|_| libc::EINVAL)?;
                let (fd, inode) = self.folders.make(name, self.size)?;
                Ok(Open { segment, fd, made: Some((inode, 0)) })
            }
            Err(e) => Err(e),
        }
    }
    fn sync(&mut self) -> Result<(), i32> {
        let mut pairs = 0;
        for o in self.open.iter().flatten() {
            self.blamed = Some(o.segment);
            self.folders.sync_file(o.fd)?;
            if let Some((inode, _)) = o.made {
                if pairs == words::MOST_MADE {
                    return Err(libc::EMFILE);
                }
                let at = words::MADE + pairs * 16;
                set_words(self.memory, &[(at, o.segment.inode), (at + 8, inode)]);
                pairs += 1;
            }
        }
        for o in self.open.iter().flatten().filter(|o| o.made.is_some()) {
            self.blamed = Some(o.segment);
            let (from, to) = (unready(&o.segment), o.segment.name());
            let names = [CStr::from_bytes_until_nul(&from), CStr::from_bytes_until_nul(&to)];
            let [Ok(from), Ok(to)] = names else {
                return Err(libc::EINVAL);
            };
            self.folders.rename_segment(from, to)?;
        }
        self.blamed = None;
        self.folders.sync_segments()
    }
    fn close(&self) {
        self.open.iter().flatten().for_each(|o| self.folders.close(o.fd))
    }
}
