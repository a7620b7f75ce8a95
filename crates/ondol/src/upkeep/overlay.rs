//! A storage that takes no write: what is written to it stays in memory, on top of what it covers.
//!
//! It lets a database be recovered and looked at as if opened, without a byte of it being changed.
//!
//! - **O1** Nothing below is ever opened for writing. Bytes written, lengths set, names made, moved and
//!   removed live in the overlay until it is dropped.
//! - **O2** A name is the overlay's if the overlay knows it (a tombstone included), else the one below.
use ondol_base::media::{File, Identity, Lock, Mapped, Open, Storage};
use ondol_base::sync::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

const PAGE: u64 = 4096;

#[derive(Default)]
struct Content {
    /// Pages that were written, whole.
    pages: BTreeMap<u64, Box<[u8]>>,
    len: u64,
    /// Bytes of the file below that lie beyond this were cut off once, and read as zero.
    below: u64,
}

struct Layered {
    under: Option<Arc<dyn File>>,
    content: Mutex<Content>,
}

impl Layered {
    fn new(under: Option<Arc<dyn File>>) -> io::Result<Layered> {
        let len = under.as_ref().map_or(Ok(0), |f| f.len())?;
        Ok(Layered { under, content: Mutex::new(Content { pages: BTreeMap::new(), len, below: len }) })
    }

    /// A page's bytes as the overlay sees them.
    fn page(&self, content: &Content, number: u64) -> io::Result<Box<[u8]>> {
        if let Some(p) = content.pages.get(&number) {
            return Ok(p.clone());
        }
        let mut page = vec![0; PAGE as usize].into_boxed_slice();
        let start = number * PAGE;
        if let Some(under) = &self.under
            && start < content.below
        {
            let n = (content.below - start).min(PAGE) as usize;
            under.read_at(&mut page[..n], start)?;
        }
        Ok(page)
    }
}

impl File for Layered {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let content = self.content.lock();
        let n = content.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        let mut at = 0;
        while at < n {
            let place = offset + at as u64;
            let in_page = (place % PAGE) as usize;
            // What was never written is read from below in one go.
            let next = content.pages.range(place / PAGE..).next().map_or(u64::MAX, |(p, _)| p * PAGE);
            if place < next
                && place < content.below
                && let Some(under) = &self.under
            {
                let m = (next.min(content.below) - place).min((n - at) as u64) as usize;
                under.read_exact_at(&mut buf[at..at + m], place)?;
                at += m;
                continue;
            }
            let page = self.page(&content, place / PAGE)?;
            let m = (PAGE as usize - in_page).min(n - at);
            buf[at..at + m].copy_from_slice(&page[in_page..in_page + m]);
            at += m;
        }
        Ok(n)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let mut content = self.content.lock();
        let mut at = 0;
        while at < buf.len() {
            let place = offset + at as u64;
            let in_page = (place % PAGE) as usize;
            let m = (PAGE as usize - in_page).min(buf.len() - at);
            let mut page = self.page(&content, place / PAGE)?;
            page[in_page..in_page + m].copy_from_slice(&buf[at..at + m]);
            content.pages.insert(place / PAGE, page);
            at += m;
        }
        content.len = content.len.max(offset + buf.len() as u64);
        Ok(())
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.content.lock().len)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut content = self.content.lock();
        if len < content.len {
            // What is cut off must read as zero if the file grows again.
            content.below = content.below.min(len);
            content.pages.retain(|p, _| p * PAGE < len);
            if let Some(page) = content.pages.get_mut(&(len / PAGE)) {
                page[(len % PAGE) as usize..].fill(0);
            }
        }
        content.len = len;
        Ok(())
    }
    fn map(&self, _: usize) -> io::Result<Box<dyn Mapped>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

struct NoLock;
impl Lock for NoLock {}

/// See the module.
pub(crate) struct Overlay {
    under: Arc<dyn Storage>,
    /// `None`: removed.
    names: Mutex<BTreeMap<String, Option<Arc<Layered>>>>,
    folders: Mutex<Vec<String>>,
}

impl Overlay {
    pub fn new(under: Arc<dyn Storage>) -> Overlay {
        Overlay { under, names: Mutex::new(BTreeMap::new()), folders: Mutex::new(Vec::new()) }
    }

    fn find(&self, path: &str) -> io::Result<Option<Arc<Layered>>> {
        let mut names = self.names.lock();
        if let Some(known) = names.get(path) {
            return Ok(known.clone());
        }
        if !self.under.exists(path)? {
            return Ok(None);
        }
        let file = Arc::new(Layered::new(Some(self.under.open(path, Open::Read)?))?);
        names.insert(path.to_string(), Some(file.clone()));
        Ok(Some(file))
    }
}

impl Storage for Overlay {
    fn open(&self, path: &str, how: Open) -> io::Result<Arc<dyn File>> {
        match (self.find(path)?, how) {
            (Some(_), Open::Create) => Err(io::ErrorKind::AlreadyExists.into()),
            (Some(f), _) => Ok(f),
            (None, Open::Read | Open::Write) => Err(io::ErrorKind::NotFound.into()),
            (None, Open::Create | Open::OpenOrCreate) => {
                let file = Arc::new(Layered::new(None)?);
                self.names.lock().insert(path.to_string(), Some(file.clone()));
                Ok(file)
            }
        }
    }
    fn exists(&self, path: &str) -> io::Result<bool> {
        match self.names.lock().get(path) {
            Some(known) => Ok(known.is_some()),
            None => Ok(self.folders.lock().iter().any(|f| f == path) || self.under.exists(path)?),
        }
    }
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let mut all = match self.under.list(folder) {
            Ok(names) => names,
            Err(e)
                if e.kind() == io::ErrorKind::NotFound && self.folders.lock().iter().any(|f| f == folder) =>
            {
                Vec::new()
            }
            Err(e) => return Err(e),
        };
        let prefix = if folder.is_empty() || folder == "." { String::new() } else { format!("{folder}/") };
        for (path, known) in self.names.lock().iter() {
            let Some(name) = path.strip_prefix(&prefix).filter(|n| !n.contains('/')) else { continue };
            all.retain(|n| n != name);
            if known.is_some() {
                all.push(name.to_string());
            }
        }
        all.sort();
        Ok(all)
    }
    fn create_dir(&self, folder: &str) -> io::Result<()> {
        if !self.under.exists(folder)? {
            self.folders.lock().push(folder.to_string());
        }
        Ok(())
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let Some(file) = self.find(from)? else { return Err(io::ErrorKind::NotFound.into()) };
        let mut names = self.names.lock();
        names.insert(from.to_string(), None);
        names.insert(to.to_string(), Some(file));
        Ok(())
    }
    fn remove(&self, path: &str) -> io::Result<()> {
        if self.find(path)?.is_none() {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.names.lock().insert(path.to_string(), None);
        Ok(())
    }
    fn sync_dir(&self, _: &str) -> io::Result<()> {
        Ok(())
    }
    fn lock(&self, _: &str) -> io::Result<Box<dyn Lock>> {
        // Whoever covers a storage holds its lock.
        Ok(Box::new(NoLock))
    }
    fn describe(&self) -> String {
        self.under.describe()
    }
    fn identity(&self) -> io::Result<Identity> {
        self.under.identity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondol_base::media::disk::Disk;

    #[test]
    fn what_lies_below_stays_as_it_is() {
        let folder = crate::TempFolder::new().unwrap();
        let disk = Disk::open(folder.path()).unwrap();
        disk.open("a", Open::Create).unwrap().write_at(&[7; 10_000], 0).unwrap();
        let over = Overlay::new(Arc::new(disk));
        let f = over.open("a", Open::Write).unwrap();
        f.write_at(&[1; 5], 4094).unwrap();
        let mut buf = [0; 9];
        f.read_exact_at(&mut buf, 4092).unwrap();
        assert_eq!(buf, [7, 7, 1, 1, 1, 1, 1, 7, 7]);
        f.set_len(4095).unwrap();
        f.set_len(9000).unwrap();
        f.read_exact_at(&mut buf, 4090).unwrap();
        assert_eq!(buf, [7, 7, 7, 7, 1, 0, 0, 0, 0]);
        assert_eq!(f.read_at(&mut buf, 8995).unwrap(), 5);
        over.open("b", Open::Create).unwrap().write_at(b"x", 0).unwrap();
        over.rename("b", "c").unwrap();
        over.remove("a").unwrap();
        assert_eq!(over.list("").unwrap(), ["c"]);
        assert!(over.open("a", Open::Read).is_err());
        let disk = Disk::open(folder.path()).unwrap();
        assert_eq!(disk.list("").unwrap(), ["a"]);
        let mut whole = vec![0; 10_000];
        disk.open("a", Open::Read).unwrap().read_exact_at(&mut whole, 0).unwrap();
        assert!(whole.iter().all(|&b| b == 7));
    }
}
