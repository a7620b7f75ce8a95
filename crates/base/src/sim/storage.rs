//! A simulated disk as a [`Storage`].
//!
//! Every operation is a scheduling point, is counted and traced, may be struck by a power failure (before it
//! or in its midst) and may fail by the configured chances. What survives is decided in `content` and
//! `names`.
//!
//! - **V1** A sync covers what was done before it began. It takes simulated time, in which other fibers write
//!   on.
//! - **V2** After the power failed every operation fails, and nothing that is done any more changes the disk.
//! - **V3** An operation struck in its midst has taken effect as far as unsynced effects go, and fails.
//!
//! Locking: a disk's lock may be held when the world's is taken, never the other way round.
use super::content::{By, Content};
use super::names::{Names, Node, parent};
use super::random::Random;
use super::world::{IoKind, Strike, World};
use crate::media::{File, Identity, Lock, Mapped, Open, Promise, Storage, relative};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Weak};

/// The state that outlives a world: [`World::reboot`] hands it on.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    names: Names,
    files: BTreeMap<u64, Content>,
    next_file: u64,
    seq: u64,
    used: u64,
    locks: BTreeSet<String>,
}

impl Disk {
    fn tick(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }
    /// Forgets files that no name and no handle leads to.
    fn sweep(&mut self) {
        let named = self.names.files();
        self.files.retain(|id, c| c.handles > 0 || named.contains(id));
        self.used = self.files.values().map(Content::len).sum();
    }
    pub fn power_failure(&mut self, r: &mut Random) {
        self.names.power_failure(r);
        for c in self.files.values_mut() {
            let survive = *r.pick(&[0.0, 0.1, 0.5, 0.9, 1.0]).unwrap_or(&0.5);
            c.power_failure(r, survive);
        }
        self.locks.clear();
        self.sweep();
    }
    /// The process is gone, the machine is not: no handle and no lock is left.
    pub fn processes_gone(&mut self) {
        self.files.values_mut().for_each(|c| c.handles = 0);
        self.locks.clear();
        self.sweep();
    }
}

/// One disk of a world.
pub struct SimStorage {
    name: String,
    world: Weak<World>,
    disk: std::sync::Mutex<Disk>,
    me: Weak<SimStorage>,
}

fn refuse(kind: io::ErrorKind, tried: &str, path: &str, why: &str) -> io::Error {
    io::Error::new(kind, format!("cannot {tried} \"{path}\": {why}"))
}

impl SimStorage {
    pub(super) fn new(name: &str, world: Weak<World>, disk: Disk) -> Arc<SimStorage> {
        let disk = std::sync::Mutex::new(disk);
        Arc::new_cyclic(|me| SimStorage { name: name.to_string(), world, disk, me: me.clone() })
    }
    pub(super) fn disk(&self) -> std::sync::MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(|e| e.into_inner())
    }
    /// Runs one operation: a scheduling point, its effect on the disk, and what befalls it.
    fn operate<T>(
        &self,
        kind: IoKind,
        path: &str,
        detail: u64,
        effect: impl FnOnce(&mut Disk, &World) -> io::Result<T>,
    ) -> io::Result<T> {
        let world = self.world.upgrade().ok_or_else(|| io::Error::other("the simulated world has ended"))?;
        let strike = world.begin_io(kind, &self.name, path, detail)?;
        let result = effect(&mut self.disk(), &world);
        if strike == Strike::Midst {
            world.power_failure();
        }
        let result = if world.power_is_lost() { Err(World::power_lost()) } else { result };
        world.end_io(kind, &result);
        result
    }
    fn path(&self, path: &str) -> String {
        format!("{}:{path}", self.name)
    }
    /// The bytes of a file as a process would read them now. Not an operation of the simulation.
    pub fn contents(&self, path: &str) -> Option<Vec<u8>> {
        let disk = self.disk();
        let Some(Node::File(id)) = disk.names.get(path) else { return None };
        let content = disk.files.get(&id)?;
        let mut bytes = vec![0; content.len() as usize];
        content.read(&mut bytes, 0);
        Some(bytes)
    }
    /// The bytes of a file that are certain to survive; `None` when its name is not. Not an operation.
    pub fn durable(&self, path: &str) -> Option<Vec<u8>> {
        let disk = self.disk();
        let Some(Node::File(id)) = disk.names.durable(path) else { return None };
        disk.files.get(&id).map(Content::durable)
    }
    /// Overwrites bytes of a file beneath everyone's feet, as a decaying medium does; beyond its end nothing
    /// happens. False when there is no such file. Not an operation of the simulation.
    pub fn damage(&self, path: &str, offset: u64, bytes: &[u8]) -> bool {
        let mut disk = self.disk();
        let Some(Node::File(id)) = disk.names.get(path) else { return false };
        disk.files.get_mut(&id).map(|c| c.damage(offset, bytes)).is_some()
    }
    /// The paths of all files, sorted. Not an operation of the simulation.
    pub fn files(&self) -> Vec<String> {
        let all = self.disk().names.below("");
        all.into_iter().filter(|(_, n)| *n != Node::Folder).map(|(p, _)| p).collect()
    }
    /// Bytes in files, as counted against the disk's size.
    pub fn used(&self) -> u64 {
        self.disk().used
    }
    fn handle(&self, disk: &mut Disk, id: u64, path: &str, writable: bool) -> Arc<dyn File> {
        if let Some(c) = disk.files.get_mut(&id) {
            c.handles += 1
        }
        let opened = disk.tick();
        Arc::new(SimFile {
            of: Handle { storage: self.me.clone(), id, path: path.to_string() },
            opened,
            writable,
        })
    }
}

impl Storage for SimStorage {
    fn open(&self, path: &str, how: Open) -> io::Result<Arc<dyn File>> {
        let path = relative(path)?;
        self.operate(IoKind::Open, path, how as u64, |d, _| {
            let refuse = |kind, why| refuse(kind, "open", &self.path(path), why);
            match (d.names.get(path), how) {
                (Some(Node::Folder), _) => Err(refuse(io::ErrorKind::IsADirectory, "is a folder")),
                (Some(Node::File(_)), Open::Create) => {
                    Err(refuse(io::ErrorKind::AlreadyExists, "exists already"))
                }
                (Some(Node::File(id)), _) => Ok(self.handle(d, id, path, how != Open::Read)),
                (None, Open::Read | Open::Write) => {
                    Err(refuse(io::ErrorKind::NotFound, "there is no such file"))
                }
                (None, _) if d.names.get(parent(path)) != Some(Node::Folder) => {
                    Err(refuse(io::ErrorKind::NotFound, "there is no such folder"))
                }
                (None, _) => {
                    let (seq, id) = (d.tick(), d.next_file);
                    d.next_file += 1;
                    d.files.insert(id, Content::default());
                    d.names.change(seq, vec![(path.to_string(), Some(Node::File(id)))]);
                    Ok(self.handle(d, id, path, true))
                }
            }
        })
    }
    fn exists(&self, path: &str) -> io::Result<bool> {
        let path = relative(path)?;
        self.operate(IoKind::List, path, 0, |d, _| Ok(d.names.get(path).is_some()))
    }
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let folder = relative(folder)?;
        self.operate(IoKind::List, folder, 1, |d, _| {
            if d.names.get(folder) != Some(Node::Folder) {
                let path = self.path(folder);
                return Err(refuse(io::ErrorKind::NotFound, "list", &path, "there is no such folder"));
            }
            let all = d.names.below(folder).into_iter();
            let mut names: Vec<String> = all
                .filter(|(p, _)| parent(p) == folder)
                .map(|(p, _)| p[p.rfind('/').map_or(0, |i| i + 1)..].into())
                .collect();
            names.sort_unstable();
            Ok(names)
        })
    }
    fn create_dir(&self, folder: &str) -> io::Result<()> {
        let folder = relative(folder)?;
        self.operate(IoKind::Name, folder, 0, |d, _| {
            let ends = folder.match_indices('/').map(|(i, _)| i).chain([folder.len()]);
            for path in ends.map(|i| &folder[..i]) {
                match d.names.get(path) {
                    Some(Node::Folder) => {}
                    Some(Node::File(_)) => {
                        let kind = io::ErrorKind::AlreadyExists;
                        return Err(refuse(kind, "create the folder", &self.path(path), "is a file"));
                    }
                    None => {
                        let seq = d.tick();
                        d.names.change(seq, vec![(path.to_string(), Some(Node::Folder))]);
                    }
                }
            }
            Ok(())
        })
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (relative(from)?, relative(to)?);
        let detail = crate::crc::raw(to.as_bytes()) as u64;
        self.operate(IoKind::Name, from, detail, |d, _| {
            let refuse = |kind, why| Err(refuse(kind, "rename", &self.path(from), why));
            let Some(node) = d.names.get(from) else {
                return refuse(io::ErrorKind::NotFound, "there is no such file");
            };
            if from == to {
                return Ok(());
            }
            if d.names.get(parent(to)) != Some(Node::Folder) {
                return refuse(io::ErrorKind::NotFound, "there is no folder for the new name");
            }
            match (node, d.names.get(to)) {
                (_, None) | (Node::File(_), Some(Node::File(_))) => {}
                (Node::File(_), Some(Node::Folder)) => {
                    return refuse(io::ErrorKind::IsADirectory, "the new name is a folder's");
                }
                (Node::Folder, Some(Node::File(_))) => {
                    return refuse(io::ErrorKind::NotADirectory, "the new name is a file's");
                }
                (Node::Folder, Some(Node::Folder)) if d.names.below(to).is_empty() => {}
                (Node::Folder, Some(Node::Folder)) => {
                    return refuse(
                        io::ErrorKind::DirectoryNotEmpty,
                        "the folder of the new name is not empty",
                    );
                }
            }
            let mut assigns = vec![(from.to_string(), None), (to.to_string(), Some(node))];
            if node == Node::Folder {
                if to.starts_with(&format!("{from}/")) {
                    return refuse(io::ErrorKind::InvalidInput, "a folder cannot move into itself");
                }
                for (path, node) in d.names.below(from) {
                    assigns.push((format!("{to}{}", &path[from.len()..]), Some(node)));
                    assigns.push((path, None));
                }
            }
            let seq = d.tick();
            d.names.change(seq, assigns);
            d.sweep();
            Ok(())
        })
    }
    fn remove(&self, path: &str) -> io::Result<()> {
        let path = relative(path)?;
        self.operate(IoKind::Name, path, 1, |d, _| {
            let refuse = |kind, why| Err(refuse(kind, "remove", &self.path(path), why));
            match d.names.get(path) {
                None => return refuse(io::ErrorKind::NotFound, "there is no such file"),
                Some(_) if path.is_empty() => {
                    return refuse(io::ErrorKind::ResourceBusy, "it is the root");
                }
                Some(Node::Folder) if !d.names.below(path).is_empty() => {
                    return refuse(io::ErrorKind::DirectoryNotEmpty, "the folder is not empty");
                }
                Some(_) => {}
            }
            let seq = d.tick();
            d.names.change(seq, vec![(path.to_string(), None)]);
            d.sweep();
            Ok(())
        })
    }
    fn sync_dir(&self, folder: &str) -> io::Result<()> {
        let folder = relative(folder)?;
        let upto = self.operate(IoKind::SyncDir, folder, 0, |d, _| match d.names.get(folder) {
            Some(Node::Folder) => Ok(d.seq),
            _ => {
                let path = self.path(folder);
                Err(refuse(io::ErrorKind::NotFound, "sync the folder", &path, "there is no such folder"))
            }
        })?;
        let world = self.take_time()?;
        let result = if world.fault(|c| c.sync_error) {
            Err(World::injected("sync the folder", &self.path(folder)))
        } else {
            if !world.config().ignore_sync_dir {
                let mut d = self.disk();
                d.names.sync(folder, upto);
                d.sweep();
            }
            Ok(())
        };
        world.end_io(IoKind::SyncDir, &result);
        result
    }
    fn lock(&self, path: &str) -> io::Result<Box<dyn Lock>> {
        let file = self.open(path, Open::OpenOrCreate)?;
        let path = relative(path)?;
        // The closure runs under the disk's lock, where the last handle of a file must not be dropped.
        self.operate(IoKind::Open, path, 99, |d, _| {
            if !d.locks.insert(path.to_string()) {
                let why = "someone else holds the lock";
                return Err(refuse(io::ErrorKind::WouldBlock, "lock", &self.path(path), why));
            }
            Ok(Box::new(SimLock { storage: self.me.clone(), path: path.to_string(), _file: file.clone() })
                as _)
        })
    }
    fn describe(&self) -> String {
        format!("simulated disk {}", self.name)
    }
    fn identity(&self) -> io::Result<Identity> {
        Ok(Identity { inode: crate::crc::raw(self.name.as_bytes()).into(), birth: (0, 0) })
    }
}

impl SimStorage {
    /// The time of a sync, in which others go on; fails when the power did meanwhile.
    fn take_time(&self) -> io::Result<Arc<World>> {
        let world = self.world.upgrade().ok_or_else(World::power_lost)?;
        world.sync_latency();
        if world.power_is_lost() { Err(World::power_lost()) } else { Ok(world) }
    }
}

struct SimLock {
    storage: Weak<SimStorage>,
    path: String,
    _file: Arc<dyn File>,
}
impl Lock for SimLock {}
impl Drop for SimLock {
    fn drop(&mut self) {
        if let Some(s) = self.storage.upgrade() {
            s.disk().locks.remove(&self.path);
        }
    }
}

/// One open file or mapping; the file stays while one is there.
struct Handle {
    storage: Weak<SimStorage>,
    id: u64,
    path: String,
}
impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(s) = self.storage.upgrade() {
            let mut disk = s.disk();
            let last = disk.files.get_mut(&self.id).map(|c| {
                c.handles = c.handles.saturating_sub(1);
                c.handles == 0
            });
            if last == Some(true) {
                disk.sweep()
            }
        }
    }
}
impl Handle {
    fn operate<T>(
        &self,
        kind: IoKind,
        detail: u64,
        effect: impl FnOnce(&mut Content, u64, &World) -> io::Result<T>,
    ) -> io::Result<T> {
        let s = self.storage.upgrade().ok_or_else(World::power_lost)?;
        s.operate(kind, &self.path, detail, |d, w| {
            let seq = d.tick();
            let Some(content) = d.files.get_mut(&self.id) else { return Err(World::power_lost()) };
            let before = content.len();
            let result = effect(content, seq, w);
            d.used = d.used + content.len() - before;
            result
        })
    }
    fn name(&self) -> String {
        self.storage.upgrade().map_or(self.path.clone(), |s| s.path(&self.path))
    }
}

struct SimFile {
    of: Handle,
    opened: u64,
    writable: bool,
}

impl SimFile {
    /// Refuses a file opened for reading, and what would overfill the disk.
    fn room(&self, tried: &str, len: u64) -> io::Result<()> {
        if !self.writable {
            let why = "it was opened for reading";
            return Err(refuse(io::ErrorKind::PermissionDenied, tried, &self.of.name(), why));
        }
        let Some(s) = self.of.storage.upgrade() else { return Err(World::power_lost()) };
        let Some(w) = s.world.upgrade() else { return Err(World::power_lost()) };
        let disk = s.disk();
        let old = disk.files.get(&self.of.id).map_or(0, Content::len);
        if len > old && disk.used + (len - old) > w.config().disk_bytes {
            let why = format!("the disk of {} bytes is full", w.config().disk_bytes);
            return Err(refuse(io::ErrorKind::StorageFull, tried, &self.of.name(), &why));
        }
        Ok(())
    }
}

impl File for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let detail = offset ^ (buf.len() as u64) << 40;
        self.of.operate(IoKind::Read, detail, |c, _, w| {
            if w.fault(|c| c.read_error) {
                return Err(World::injected("read", &self.of.name()));
            }
            Ok(c.read(buf, offset))
        })
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let room = self.room("write", offset.saturating_add(buf.len() as u64));
        let detail = offset ^ (buf.len() as u64) << 40 ^ (crate::crc::raw(buf) as u64) << 20;
        self.of.operate(IoKind::Write, detail, |c, seq, w| {
            room?;
            if w.fault(|c| c.write_error) {
                // Some of it may have been written.
                let n = w.fault_below(buf.len() as u64 + 1) as usize;
                c.write(seq, By::Write, offset, &buf[..n]);
                return Err(World::injected("write", &self.of.name()));
            }
            c.write(seq, By::Write, offset, buf);
            Ok(())
        })
    }
    fn sync_data(&self) -> io::Result<()> {
        let upto = self.of.operate(IoKind::Sync, 0, |_, seq, _| Ok(seq))?;
        let s = self.of.storage.upgrade().ok_or_else(World::power_lost)?;
        let world = s.take_time()?;
        let failed = world.fault(|c| c.sync_error);
        let mut r = world.fault_branch();
        let result = match s.disk().files.get_mut(&self.of.id) {
            None => Err(World::power_lost()),
            Some(content) if failed => {
                if world.config().sync_error_loses {
                    content.lose(upto, &mut r);
                }
                Err(World::injected("sync", &self.of.name()))
            }
            Some(content) => {
                if !world.config().ignore_sync_data {
                    content.sync(if world.config().sync_since_open { self.opened } else { 0 }, upto);
                }
                Ok(())
            }
        };
        world.end_io(IoKind::Sync, &result);
        result
    }
    fn len(&self) -> io::Result<u64> {
        self.of.operate(IoKind::List, 2, |c, _, _| Ok(c.len()))
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        let room = self.room("set the length of", len);
        self.of.operate(IoKind::SetLen, len, |c, seq, _| {
            room?;
            c.set_len(seq, len);
            Ok(())
        })
    }
    fn map(&self, len: usize) -> io::Result<Box<dyn Mapped>> {
        self.room("map", 0)?;
        self.of.operate(IoKind::Open, len as u64, |c, _, w| {
            let refuse = |kind, why: &str| Err(refuse(kind, "map", &self.of.name(), why));
            let Some(promise) = w.config().mapped else {
                return refuse(io::ErrorKind::Unsupported, "this disk does not map files");
            };
            if len == 0 {
                return refuse(io::ErrorKind::InvalidInput, "nothing was asked for");
            }
            if c.len() < len as u64 {
                let why = format!("{len} bytes were asked for and {} are there", c.len());
                return refuse(io::ErrorKind::UnexpectedEof, &why);
            }
            c.handles += 1;
            let of = Handle { storage: self.of.storage.clone(), id: self.of.id, path: self.of.path.clone() };
            Ok(Box::new(SimMapping { of, len, promise }) as _)
        })
    }
}

/// Operations on mapped memory cannot fail: once the power is lost they do nothing, and reads give zeros.
struct SimMapping {
    of: Handle,
    len: usize,
    promise: Promise,
}

impl SimMapping {
    #[track_caller]
    fn check(&self, offset: usize, len: usize) {
        let end = offset.checked_add(len);
        assert!(end.is_some_and(|e| e <= self.len), "{len} bytes at {offset} of a mapping of {}", self.len);
    }
}

impl Mapped for SimMapping {
    fn len(&self) -> usize {
        self.len
    }
    fn promise(&self) -> Promise {
        self.promise
    }
    fn copy(&self, offset: usize, bytes: &[u8]) {
        self.check(offset, bytes.len());
        let detail = offset as u64 ^ (bytes.len() as u64) << 40 ^ (crate::crc::raw(bytes) as u64) << 20;
        let fiber = super::fiber_id();
        let _ = self.of.operate(IoKind::Copy, detail, |c, seq, _| {
            c.write(seq, By::Line(fiber), offset as u64, bytes);
            Ok(())
        });
    }
    fn read(&self, offset: usize, buf: &mut [u8]) {
        self.check(offset, buf.len());
        buf.fill(0);
        if let Some(s) = self.of.storage.upgrade()
            && let Some(c) = s.disk().files.get(&self.of.id)
        {
            c.read(buf, offset as u64);
        }
    }
    fn flush(&self, offset: usize, len: usize) {
        self.check(offset, len);
        let detail = offset as u64 ^ (len as u64) << 40;
        // Nothing is stored to by other means here, so there is nothing to write back.
        let _ = self.of.operate(IoKind::Flush, detail, |_, _, _| Ok(()));
    }
    fn fence(&self) {
        let fiber = super::fiber_id();
        let _ = self.of.operate(IoKind::Fence, 0, |c, _, w| {
            if self.promise == Promise::Fence && !w.config().ignore_fence {
                c.fence(Some(fiber))
            }
            Ok(())
        });
    }
}
