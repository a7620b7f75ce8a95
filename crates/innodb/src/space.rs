//! A tablespace: one file of pages, what its flags say, and its pages, each proved when it is read.
//!
//! - **S1** No byte of a page is believed before the page's checksum and number were right. Whoever has a
//!   proved page has a whole one, inflated where it was compressed.
//! - **S2** What this program cannot read whole (MySQL's encryption, a system tablespace) is refused when the
//!   file is opened; an encrypted page without its key when it is read.
//! - **S3** Where the evidence names a moment of the server's log ([`crate::moment`]), no page that is newer
//!   is believed, whether it was read before or after that was known.

use crate::absent;
use crate::checksum::{self, Family};
use crate::crypt::{self, Crypt, Locked, Mode};
use crate::error::{Error, Kind, Result};
use crate::keys::Keys;
use crate::moment::Moment;
use crate::packed;
use crate::page::{Page, kind, u32_at};
use crate::zip;
use ondol_base::sync::Mutex;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

/// What the flags of a tablespace (page 0, offset 54) say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Bytes of a page in memory: 4096 to 65536.
    pub page_size: usize,
    /// Bytes of a page in the file: less only for ROW_FORMAT=COMPRESSED.
    pub physical_size: usize,
    pub family: Family,
    /// Long columns leave only a pointer of 20 bytes in the record (DYNAMIC, COMPRESSED), not 768 bytes
    /// before it.
    pub atomic_blobs: bool,
    /// ROW_FORMAT=COMPRESSED, whose pages may be as large in the file as in memory.
    pub is_zipped: bool,
    /// The definition is in the file (MySQL 8 and later).
    pub has_sdi: bool,
    /// The flags as they are.
    pub flags: u32,
}

/// Where a page's header ends.
const DATA: usize = 38;

const FULL_CRC32: u32 = 1 << 4;
const ZIP: u32 = 0b11110;
const ATOMIC_BLOBS: u32 = 1 << 5;
const SHARED: u32 = 1 << 11;
const ENCRYPTED: u32 = 1 << 13;
const SDI: u32 = 1 << 14;

impl Format {
    /// Bytes on page 0 of what describes extents, behind two headers of 38 and 112 bytes.
    pub fn descriptors(&self) -> usize {
        let extent = match self.page_size {
            ..=16384 => (1 << 20) / self.page_size,
            _ => 64,
        };
        self.physical_size / extent * (24 + extent.div_ceil(8) * 2)
    }
    /// Reads the flags of both families. The bit that marks full_crc32 belongs to the size of compressed
    /// pages in the old family, where sizes that set it do not exist.
    pub fn of_flags(flags: u32) -> std::result::Result<Format, String> {
        if flags & FULL_CRC32 != 0 {
            let page_size =
                size(flags & 0xf).ok_or_else(|| format!("its flags {flags:#x} name no page size"))?;
            let algorithm = flags >> 5 & 7;
            if algorithm > 6 || flags >> 8 != 0 {
                return Err(format!("its flags {flags:#x} have bits that no known server sets"));
            }
            return Ok(Format {
                page_size,
                physical_size: page_size,
                family: Family::Full,
                atomic_blobs: true,
                is_zipped: false,
                has_sdi: false,
                flags,
            });
        }
        if flags & ENCRYPTED != 0 {
            return Err("it is encrypted by MySQL, whose keyrings are not read; export the table from the server, or decrypt it there (ALTER TABLE … ENCRYPTION='N')".into());
        }
        let page_size = match flags >> 6 & 0xf {
            0 => 16384,
            n => size(n).ok_or_else(|| format!("its flags {flags:#x} name no page size"))?,
        };
        let physical_size = match (flags & ZIP) >> 1 {
            0 => page_size,
            n @ 1..=5 if 512usize << n <= page_size => 512 << n,
            _ => return Err(format!("its flags {flags:#x} name no size of compressed pages")),
        };
        Ok(Format {
            page_size,
            physical_size,
            family: Family::Old,
            atomic_blobs: flags & ATOMIC_BLOBS != 0,
            is_zipped: flags & ZIP != 0,
            has_sdi: flags & SDI != 0,
            flags,
        })
    }
}

fn size(exponent: u32) -> Option<usize> {
    (3..=7).contains(&exponent).then(|| 512usize << exponent)
}

/// The files of all tablespaces that this process has open, by device and inode.
static READ: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());

/// Whether this process has a tablespace open whose file this is, by whatever name.
pub fn is_read(path: &Path) -> bool {
    path.metadata().is_ok_and(|about| READ.lock().contains(&(about.dev(), about.ino())))
}

/// An open tablespace file. Reading takes `&self`: any number of threads may.
pub struct Space {
    file: File,
    path: PathBuf,
    /// Its place among [`READ`].
    identity: (u64, u64),
    format: Format,
    /// The tablespace's number.
    id: u32,
    /// Pages that the file holds.
    pages: u32,
    /// What the file is believed to show, where that is a moment of the log.
    moment: OnceLock<Moment>,
    /// Its first page says that it is, or was, encrypted (MariaDB).
    crypt: Option<Crypt>,
    /// What it was opened with.
    keys: Option<Arc<Keys>>,
    /// What showed that tables are locked, where that is why the file is believed.
    lock: OnceLock<Lock>,
    /// The log's position when the newest page was changed, of those that were read before the moment was
    /// known.
    newest: AtomicU64,
}

/// What there is to be seen of a lock (`FLUSH TABLES … FOR EXPORT`): its `.cfg`, and when both files were
/// written.
#[derive(PartialEq, Eq)]
struct Lock {
    cfg: PathBuf,
    about: (u64, u64),
    written: (SystemTime, SystemTime),
}

impl Lock {
    fn of(cfg: &Path, file: &Path) -> std::io::Result<Lock> {
        let (about, file) = (cfg.metadata()?, file.metadata()?);
        let written = (about.modified()?, file.modified()?);
        Ok(Lock { cfg: cfg.to_path_buf(), about: (about.dev(), about.ino()), written })
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let mut read = READ.lock();
        if let Some(at) = read.iter().position(|file| *file == self.identity) {
            read.swap_remove(at);
        }
    }
}

impl Space {
    /// Opens a table's file, reads its flags, and proves page 0.
    pub fn open(path: &Path) -> Result<Space> {
        Space::open_with(path, None)
    }
    /// The same with the keys of MariaDB's encryption.
    pub fn open_with(path: &Path, keys: Option<&Arc<Keys>>) -> Result<Space> {
        let space = Space::open_any(path, keys)?;
        let refuse = |why| Err(Error::on_page(path, 0, Kind::Unsupported, why));
        if space.id == 0 {
            return refuse("it is the system tablespace; only files of one table are read");
        }
        if space.format.family == Family::Old && space.format.flags & SHARED != 0 {
            return refuse(
                "it is a general tablespace, which holds many tables; only files of one table are read",
            );
        }
        Ok(space)
    }
    /// The same of any tablespace.
    pub fn open_any(path: &Path, keys: Option<&Arc<Keys>>) -> Result<Space> {
        // Before it is opened: opening a pipe would wait for a writer.
        let length = path.metadata().map_err(|e| match absent::reason(path) {
            Some(why) => Error::new(path, Kind::Unsupported, why),
            None => Error::io(path, "cannot open it", &e),
        })?;
        if path.extension().is_some_and(|kind| kind == "frm") {
            let why = "it is a table's definition; its tablespace, TABLE.ibd, was expected";
            return Err(Error::new(path, Kind::Mismatch, why));
        }
        if !length.is_file() {
            return Err(Error::new(
                path,
                Kind::Mismatch,
                "it is not a file; a tablespace was expected (TABLE.ibd)",
            ));
        }
        let file = File::open(path).map_err(|e| Error::io(path, "cannot open it", &e))?;
        let about = file.metadata().map_err(|e| Error::io(path, "cannot ask for its length", &e))?;
        let (length, identity) = (about.len(), (about.dev(), about.ino()));
        let mut head = [0u8; 64];
        file.read_exact_at(&mut head, 0).map_err(|_| {
            Error::new(
                path,
                Kind::Damaged,
                format!("it has {length} bytes; a tablespace has four pages at least"),
            )
        })?;
        let flags = u32_at(&head, 54).unwrap_or(0);
        let id = u32_at(&head, 38).unwrap_or(0);
        let page = Page(&head);
        // Of a tablespace at least one of the two is left, if it was damaged.
        let kind = match page.kind() != kind::FSP_HEADER && page.number() != 0 {
            true => Kind::Mismatch,
            false => Kind::Damaged,
        };
        let not_a_space = |why: String| Error::on_page(path, 0, kind, why);
        if page.kind() != kind::FSP_HEADER || page.number() != 0 {
            return Err(not_a_space(format!(
                "it does not begin as a tablespace does: page type {} (expected {}), page number {} (expected 0)",
                page.kind(),
                kind::FSP_HEADER,
                page.number()
            )));
        }
        let format =
            Format::of_flags(flags).map_err(|why| Error::on_page(path, 0, Kind::Unsupported, why))?;
        let pages = u32::try_from(length / format.physical_size as u64).map_err(|_| {
            Error::new(path, Kind::Damaged, format!("{length} bytes are more pages than can be numbered"))
        })?;
        // MariaDB's files end with whole blocks of 4096 bytes; smaller pages at the end may be missing until
        // one of them is written.
        let declared = u32_at(&head, 46).unwrap_or(0);
        if declared as u64 * format.physical_size as u64 >= length + 4096 && declared > pages {
            return Err(not_a_space(format!(
                "it is cut short: {declared} pages are declared, the file has {pages}"
            )));
        }
        let (moment, newest) = (OnceLock::new(), AtomicU64::new(0));
        READ.lock().push(identity);
        let (path, keys) = (path.to_path_buf(), keys.cloned());
        let crypt = None;
        let lock = OnceLock::new();
        let mut space = Space { file, path, identity, format, id, pages, moment, crypt, keys, lock, newest };
        let mut first = vec![0; format.page_size];
        space.read_page(0, &mut first)?;
        if !format.has_sdi {
            let refuse = |why| Error::on_page(&space.path, 0, Kind::Unsupported, why);
            let at = 38 + 150 + format.descriptors();
            space.crypt = Crypt::of(&first, at, space.keys.as_ref()).map_err(refuse)?;
        }
        Ok(space)
    }
    pub fn path(&self) -> &Path {
        &self.path
    }
    pub fn format(&self) -> Format {
        self.format
    }
    pub fn id(&self) -> u32 {
        self.id
    }
    pub fn pages(&self) -> u32 {
        self.pages
    }
    /// How its pages are encrypted, if they are or were.
    pub fn encryption(&self) -> Option<String> {
        self.crypt.as_ref().map(Crypt::to_string)
    }
    /// The keys that it was opened with.
    pub fn keys(&self) -> Option<&Arc<Keys>> {
        self.keys.as_ref()
    }
    pub fn bytes(&self) -> u64 {
        self.pages as u64 * self.format.physical_size as u64
    }

    /// From here on only pages of this moment are read; an error if one that was read is newer (S3).
    pub fn hold_to(&self, moment: Moment) -> Result<()> {
        let refuse = |why| Error::new(&self.path, Kind::Mismatch, why);
        let lsn = moment.lsn;
        if self.moment.get_or_init(|| moment.clone()) != &moment {
            return Err(refuse(format!(
                "its data folder changed: it showed position {lsn} of the log now, and another before"
            )));
        }
        moment.admits_page(self.newest.load(Ordering::Relaxed)).map_err(refuse)
    }
    /// From here on what is read is believed only while the lock holds that `cfg` shows: if it is gone, or
    /// the file was written since, what was just read is refused.
    pub(crate) fn hold_to_lock(&self, cfg: &Path) -> Result<()> {
        let lock = Lock::of(cfg, &self.path);
        let lock = lock.map_err(|e| Error::io(cfg, "cannot be looked at", &e))?;
        self.lock.get_or_init(|| lock);
        self.is_locked()
    }
    /// An error if it was, and is no longer, by the same lock.
    pub(crate) fn is_locked(&self) -> Result<()> {
        let Some(lock) = self.lock.get() else { return Ok(()) };
        if Lock::of(&lock.cfg, &self.path).is_ok_and(|now| now == *lock) {
            return Ok(());
        }
        let why =
            "while the table was read the tables were unlocked: what was read may be of several moments";
        Err(Error::new(&lock.cfg, Kind::Mismatch, why))
    }
    pub fn moment(&self) -> Option<&Moment> {
        self.moment.get()
    }

    /// Reads and proves one page into `into`, which has `page_size` bytes.
    pub fn read_page(&self, number: u32, into: &mut [u8]) -> Result<()> {
        self.load(number, into)?;
        self.prove(number, into)
    }

    /// Reads as many successive pages as `into` holds, from page `first` on. Each is to be proved, once,
    /// before anything is believed of it ([`Space::prove`]).
    pub fn load(&self, first: u32, into: &mut [u8]) -> Result<()> {
        let size = self.format.page_size;
        let count = (into.len() / size) as u32;
        if first.checked_add(count).is_none_or(|end| end > self.pages) {
            let what = if count == 1 {
                format!("page {first} is")
            } else {
                format!("pages {first} to {} are", first as u64 + count as u64 - 1)
            };
            return Err(Error::new(
                &self.path,
                Kind::Damaged,
                format!("{what} referred to, and the file has {} pages", self.pages),
            ));
        }
        let read_at = |into: &mut [u8]| {
            self.file
                .read_exact_at(into, first as u64 * self.format.physical_size as u64)
                .map_err(|e| Error::io(&self.path, &format!("cannot read page {first}"), &e))
        };
        if self.format.is_zipped {
            let physical = self.format.physical_size;
            let mut zipped = vec![0; count as usize * physical];
            read_at(&mut zipped)?;
            let pages = into.chunks_exact_mut(size).zip(zipped.chunks_exact_mut(physical));
            for (number, (page, zip)) in (first..).zip(pages) {
                self.unzip(number, zip, page)?;
            }
            return self.is_locked();
        }
        read_at(into)?;
        self.is_locked()
    }

    /// Proves a page of ROW_FORMAT=COMPRESSED, and makes of it what it stands for. Pages that are not of an
    /// index are as they are, with zeros behind them.
    fn unzip(&self, number: u32, zip: &mut [u8], page: &mut [u8]) -> Result<()> {
        let damaged = |why: String| Error::on_page(&self.path, number, Kind::Damaged, why);
        self.refuse_encrypted(number, Page(zip))?;
        let prove = |zip: &mut [u8]| checksum::verify_zip(zip).map_err(packed::Refused::Damaged);
        self.unlock(number, zip, self.old_locked(number, zip), prove)?;
        if zip::is_compressed(zip) {
            zip::unzip(zip, page).map_err(damaged)?;
        } else {
            page[..zip.len()].copy_from_slice(zip);
            page[zip.len()..].fill(0);
        }
        self.prove_place(number, page)
    }

    /// Refuses what is encrypted in a way that is not read.
    fn refuse_encrypted(&self, number: u32, view: Page<'_>) -> Result<()> {
        let is_encrypted = match view.kind() {
            kind::ENCRYPTED | kind::COMPRESSED_AND_ENCRYPTED | kind::ENCRYPTED_RTREE => true,
            _ if self.crypt.is_some() => false,
            kind::PAGE_COMPRESSED_ENCRYPTED => true,
            _ => {
                self.format.family == Family::Full
                    && u32_at(view.0, 0) != Some(0)
                    && !checksum::is_zero(view.0)
            }
        };
        if is_encrypted { Err(self.encrypted(number)) } else { Ok(()) }
    }
    #[cold]
    fn encrypted(&self, number: u32) -> Error {
        let why = "it is encrypted in a way that is not read: its tablespace names no key of MariaDB's; export the table from the server, or decrypt it there";
        Error::on_page(&self.path, number, Kind::Unsupported, why)
    }

    /// What is encrypted of a page of the old family. One that was damaged need not be encrypted at all.
    fn old_locked(&self, number: u32, page: &[u8]) -> Option<Locked> {
        self.crypt.as_ref().filter(|_| number > 0)?;
        let locked = crypt::old_locked(page)?;
        let is_packed = Page(page).kind() == kind::PAGE_COMPRESSED_ENCRYPTED;
        (is_packed || checksum::is_locked(page, self.format.is_zipped)).then_some(locked)
    }

    /// Decrypts a page, if something of it is `locked`, and proves what it is then.
    fn unlock(
        &self,
        number: u32,
        page: &mut [u8],
        locked: Option<Locked>,
        prove: impl Fn(&mut [u8]) -> std::result::Result<(), packed::Refused>,
    ) -> Result<()> {
        let refuse = |kind, why: String| Error::on_page(&self.path, number, kind, why);
        let told = |refused| match refused {
            packed::Refused::Damaged(why) => refuse(Kind::Damaged, why),
            packed::Refused::Unsupported(why) => refuse(Kind::Unsupported, why),
        };
        let (Some(crypt), Some(Locked { version, bytes })) = (&self.crypt, locked) else {
            return prove(page).map_err(told);
        };
        let own = crypt.own(version).map_err(|(kind, why)| refuse(kind, why))?;
        let start = crypt::start(self.id, page);
        let opened = |mode: Mode, page: &mut [u8]| {
            crypt::decrypt(own, mode, start, &mut page[bytes.clone()]);
            // Where the version of the key was, nothing else looks.
            let version = if self.format.family == Family::Full { 0..4 } else { 26..34 };
            page[version].fill(0);
            prove(page)
        };
        if let Some(mode) = crypt.mode() {
            return opened(mode, page).map_err(|refused| match refused {
                packed::Refused::Damaged(why) => {
                    refuse(Kind::Damaged, format!("decrypted as the pages before it: {why}"))
                }
                refused => told(refused),
            });
        }
        let (mut reasons, mut fitting) = (Vec::new(), Vec::new());
        for mode in [Mode::Cbc, Mode::Ctr] {
            let mut copy = page.to_vec();
            match opened(mode, &mut copy) {
                Ok(()) => fitting.push((mode, copy)),
                Err(packed::Refused::Damaged(why)) => reasons.push(why),
                Err(refused) => return Err(told(refused)),
            }
        }
        // Another thread may have settled it meanwhile.
        let settled = match &fitting[..] {
            [] => None,
            [(mode, _)] => Some(crypt.settle(*mode)),
            _ if Page(page).kind() == kind::INDEX => None,
            _ => self.settled_by_an_index(number),
        };
        if let Some(mode) = settled {
            let fits = fitting.iter().find(|(fits, _)| *fits == mode);
            let (_, copy) = fits
                .ok_or_else(|| refuse(Kind::Damaged, "other pages were encrypted in another mode".into()))?;
            page.copy_from_slice(copy);
            return Ok(());
        }
        if !fitting.is_empty() {
            let why = "whether it is encrypted by AES-CBC or by AES-CTR cannot be seen: no encrypted page of an index is in its tablespace";
            return Err(refuse(Kind::Unsupported, why.into()));
        }
        let (cbc, ctr) = (&reasons[0], &reasons[1]);
        let or =
            match self.format.family == Family::Old && Page(page).kind() == kind::PAGE_COMPRESSED_ENCRYPTED {
                true => ", or the page is damaged",
                false => "",
            };
        Err(refuse(
            Kind::Mismatch,
            format!(
                "{} is not the key that it was encrypted by{or}. By AES-CBC: {cbc}. By AES-CTR: {ctr}",
                crypt.told()
            ),
        ))
    }

    /// The mode of a page of an index, which has bytes that are not zero among the first that are encrypted;
    /// see crypt/Y5.
    fn settled_by_an_index(&self, asked: u32) -> Option<Mode> {
        let mut page = vec![0; self.format.page_size];
        for number in (1..self.pages).filter(|number| *number != asked) {
            let is_index = self.load(number, &mut page).is_ok() && Page(&page).kind() == kind::INDEX;
            // One that is not encrypted, or damaged, says nothing. One of an index never asks for another.
            if is_index && u32_at(&page, 0) != Some(0) && self.prove(number, &mut page).is_ok() {
                return self.crypt.as_ref().and_then(Crypt::mode);
            }
        }
        None
    }

    /// Proves a loaded page, decrypts it, and inflates it where it was compressed.
    pub fn prove(&self, number: u32, page: &mut [u8]) -> Result<()> {
        if self.format.is_zipped {
            // It was proved to be inflated.
            return Ok(());
        }
        let refuse = |kind, why: String| Error::on_page(&self.path, number, kind, why);
        self.refuse_encrypted(number, Page(page))?;
        let (family, algorithm) = (self.format.family, self.format.flags >> 5 & 7);
        // In MariaDB's newer form the checksum is of what is in the file, in the others of the page itself.
        if family == Family::Old {
            let whole = |page: &mut [u8]| {
                packed::unpack(page, family, algorithm)?;
                checksum::verify(page, family).map_err(packed::Refused::Damaged)
            };
            self.unlock(number, page, self.old_locked(number, page), whole)?;
            return self.prove_place(number, page);
        }
        let covered = match packed::full_size(page) {
            Some(n) => page.get(..n).filter(|p| p.len() > DATA).ok_or_else(|| {
                refuse(Kind::Damaged, format!("it would have {n} bytes, compressed from {}", page.len()))
            })?,
            None => &page[..],
        };
        checksum::verify(covered, family).map_err(|why| refuse(Kind::Damaged, why))?;
        let locked =
            self.crypt.as_ref().filter(|_| number > 0).and_then(|_| crypt::locked(page, covered.len()));
        let is_locked = locked.is_some();
        let whole = |page: &mut [u8]| {
            packed::unpack(page, family, algorithm)?;
            let space = Page(page).space();
            if is_locked && space != self.id {
                let why =
                    format!("it would belong to tablespace {space}, the file is tablespace {}", self.id);
                return Err(packed::Refused::Damaged(why));
            }
            Ok(())
        };
        self.unlock(number, page, locked, whole)?;
        self.prove_place(number, page)
    }

    /// Whether a page is the one that its place says.
    fn prove_place(&self, number: u32, page: &[u8]) -> Result<()> {
        let refuse = |kind, why: String| Error::on_page(&self.path, number, kind, why);
        let view = Page(page);
        if checksum::is_zero(&page[..64]) {
            return Ok(());
        }
        if view.number() != number {
            return Err(refuse(Kind::Damaged, format!("page {} stands in its place", view.number())));
        }
        if view.space() != self.id {
            return Err(refuse(
                Kind::Damaged,
                format!("it belongs to tablespace {}, the file is tablespace {}", view.space(), self.id),
            ));
        }
        match self.moment.get() {
            Some(moment) => moment
                .admits_page(view.lsn())
                .map_err(|why| Error::on_page(&self.path, number, Kind::Mismatch, why)),
            None => {
                // Threads that read at the same time should seldom write to what they share.
                if self.newest.load(Ordering::Relaxed) < view.lsn() {
                    self.newest.fetch_max(view.lsn(), Ordering::Relaxed);
                }
                Ok(())
            }
        }
    }
}
