//! The destager: a process beside a server that syncs its segments and frees the ring's entries, so that no
//! commit does.
//!
//! - **G1** It frees nothing but while the server lives that recovered the ring, with the ring's lock held:
//!   after a power failure the ring may hold what no file does (pgwal/R13).
//! - **G2** It frees nothing that was written before it could be told of an error (ring/I6): what is older,
//!   it asks the server's processes to free.
//! - **G3** It holds a descriptor on each segment from before its first write, where it comes in time:
//!   segments get their names by renames, of which the system tells it. Where it came late, the file system
//!   is synced once.
use crate::cluster::Cluster;
use crate::mark::{serves, words};
use ondol_ring::file::{self, Mapping, Who};
use ondol_ring::{Error, Files, Memory, Ring, SLOT, Segment};
use std::fs::File;
use std::io::{Error as Io, Read};
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);
/// Segments are written again and again at their ends: entries wait so long, so that these pages are synced
/// once; or until this part of the ring is live.
const WAIT: Duration = Duration::from_secs(1);
const PART: u64 = 8;
/// Segments beyond the newest that are held, if they are there.
const AHEAD: u64 = 4;
/// Nanoseconds between two looks at the writers' lock, and how many looks there are.
const MOMENT: u64 = 20_000;
const LOOKS: u32 = 100;

pub struct Destager<'a> {
    file: &'a File,
    ring: &'a Ring<Mapping>,
    cluster: &'a Cluster,
    /// No more bytes a second while the ring has room.
    rate: Option<u64>,
    /// Tells of names in `pg_wal`.
    names: File,
}

/// What a look found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Looked {
    Served,
    /// No server has recovered the ring, or it has gone.
    NoServer,
    /// The ring's file has no name any more.
    Removed,
}

impl<'a> Destager<'a> {
    pub fn new(
        file: &'a File,
        ring: &'a Ring<Mapping>,
        cluster: &'a Cluster,
        rate: Option<u64>,
    ) -> Result<Destager<'a>, Io> {
        // SAFETY: no memory is passed; the descriptor is ours.
        let names = unsafe {
            let fd = libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK);
            if fd < 0 {
                return Err(Io::last_os_error());
            }
            File::from_raw_fd(fd)
        };
        let folder = format!("/proc/self/fd/{}\0", cluster.wal);
        // SAFETY: the path ends with a zero.
        let watched = unsafe {
            libc::inotify_add_watch(
                names.as_raw_fd(),
                folder.as_ptr().cast(),
                libc::IN_MOVED_TO | libc::IN_DELETE,
            )
        };
        if watched < 0 {
            return Err(Io::last_os_error());
        }
        // Until it is known what came later. Of older errors that nobody was told it is told now.
        cluster.since.store(u64::MAX, Relaxed);
        let _ = file::sync_file_system(cluster.wal);
        let destager = Destager { file, ring, cluster, rate, names };
        destager.arrive();
        destager.hold_present();
        Ok(destager)
    }
    /// Until there is something to look at.
    pub fn rest(&self) {
        let mut poll = libc::pollfd { fd: self.names.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure, writable.
        unsafe { libc::poll(&mut poll, 1, LOOK.as_millis() as i32) };
    }
    /// Frees what waited long enough.
    pub fn look(&self) -> Result<Looked, Error> {
        if file::is_removed(self.file.as_raw_fd()) == Ok(true) {
            self.ring.retire();
            return Ok(Looked::Removed);
        }
        self.arrive();
        self.hold();
        let s = self.ring.status();
        let waited = Duration::from_nanos(self.cluster.now().abs_diff(s.drained_at)) >= WAIT;
        let mut left = if s.live < s.slots / PART && !waited { 0 } else { s.live };
        loop {
            let began = Instant::now();
            let before = self.ring.status().live;
            // The lock for one piece: a recovery waits no longer (G1).
            if file::lock(self.file.as_raw_fd(), Who::Server) != Ok(true) {
                return Ok(Looked::NoServer);
            }
            let serves = serves(self.cluster, self.ring.memory());
            if serves {
                self.ring.destages(self.cluster)
            }
            let done = if serves && left != 0 { self.ring.drain_some(self.cluster) } else { Ok(false) };
            file::unlock(self.file.as_raw_fd());
            match (serves, done?) {
                (false, _) => return Ok(Looked::NoServer),
                (true, false) => return Ok(Looked::Served),
                (true, true) => {}
            }
            let freed = before.saturating_sub(self.ring.status().live).max(1);
            left = left.saturating_sub(freed);
            if let Some(rate) = self.rate {
                let fair = Duration::from_secs_f64((freed * SLOT as u64) as f64 / rate as f64);
                std::thread::sleep(fair.saturating_sub(began.elapsed()))
            }
            self.hold()
        }
    }

    /// From when on everything was written after this process opened its folders; what is older, others are
    /// to free (G2).
    fn arrive(&self) {
        if self.cluster.since.load(Relaxed) == u64::MAX
            && let Some(now) = self.stamp()
        {
            self.cluster.since.store(now, Relaxed);
            if self.ring.status().live != 0 {
                self.ring.ask(now)
            }
        }
    }
    fn stamp(&self) -> Option<u64> {
        (0..LOOKS).find_map(|_| {
            let stamp = self.ring.stamp();
            if stamp.is_none() {
                self.cluster.wait(MOMENT)
            }
            stamp
        })
    }
    /// The segment of the newest entry, if the ring ever had one.
    fn newest(&self) -> Option<Segment> {
        self.ring.newest().filter(|s| s.inode != 0)
    }
    /// Holds segments that came to be, those that come next, and lets removed ones go.
    fn hold(&self) {
        let removed = |fd: i32, _: u64| file::is_removed(fd) == Ok(true);
        let mut events = [0u8; 4096];
        let mut names = &self.names;
        while let Ok(n @ 1..) = names.read(&mut events) {
            self.cluster.holds.let_go(removed, file::close);
            for name in names_of(&events[..n]) {
                if let Some(segment) = Segment::named(name, 0) {
                    self.keep(&segment)
                }
            }
        }
        let size = self.ring.memory().word(words::SIZE);
        if let Some(mut segment) = self.newest().filter(|_| size != 0) {
            let each = (1u64 << 32) / size;
            for _ in 0..=AHEAD {
                self.keep(&segment);
                let next = u64::from(segment.log) * each + u64::from(segment.part) + 1;
                (segment.log, segment.part) = ((next / each) as u32, (next % each) as u32);
            }
        }
    }
    /// Holds the segment that was written last, and those behind it.
    fn hold_present(&self) {
        let folder = format!("/proc/self/fd/{}", self.cluster.wal);
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut there: Vec<_> = entries
            .filter_map(|e| {
                let written = e.metadata().and_then(|m| m.modified()).ok()?;
                Some((Segment::named(e.file_name().as_encoded_bytes(), 0)?, written))
            })
            .collect();
        there.sort_by_key(|(s, _)| (s.timeline, s.log, s.part));
        let last = there.iter().enumerate().max_by_key(|(_, (_, written))| *written).map_or(0, |(i, _)| i);
        for (segment, _) in there.iter().skip(last) {
            if self.cluster.holds.is_full() {
                break;
            }
            self.keep(segment)
        }
    }
    /// Holds the segment of this name, if there is one.
    fn keep(&self, segment: &Segment) {
        let holds = &self.cluster.holds;
        // Without a descriptor it is synced with its file system, which tells what is wrong.
        let Ok((fd, inode)) = self.cluster.named(segment) else {
            return;
        };
        if holds.has(inode) {
            return file::close(fd);
        }
        if holds.is_full() {
            let live = self.newest();
            let needed = |inode: u64| live.is_some_and(|s| s.inode == inode) || self.ring.holds_of(inode);
            holds.let_oldest_go(needed, file::close)
        }
        // After it was opened.
        let kept = self.stamp().is_some_and(|since| holds.keep(inode, fd, since));
        if !kept {
            file::close(fd)
        }
    }
}

impl Drop for Destager<'_> {
    fn drop(&mut self) {
        self.cluster.holds.let_go(|_, _| true, file::close)
    }
}

/// The names in what inotify tells.
fn names_of(mut events: &[u8]) -> impl Iterator<Item = &[u8]> {
    const HEAD: usize = size_of::<libc::inotify_event>();
    std::iter::from_fn(move || {
        let len = u32::from_ne_bytes(*events.get(HEAD - 4..)?.first_chunk()?) as usize;
        let name = events.get(HEAD..HEAD + len)?;
        events = &events[HEAD + len..];
        Some(name.split(|b| *b == 0).next().unwrap_or(name))
    })
}
