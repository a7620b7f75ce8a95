//! Reading a database's files without changing them: manifest, images, log; up to the proof that the commits are
//! complete. Recovery builds memory from this, the offline tools report it.
//!
//! - **N1** A block counts when it is valid, names the file and offset where it stands, belongs to an incarnation of the
//!   manifest and lies within that incarnation's rounds (P5).
//! - **N2** R is the end of the unbroken run of complete rounds from the manifest's first; C the larger of what the
//!   rounds closed at and T + 1.
//! - **N3** Whole headers are witnesses: none may name a durable round beyond R (P6, P7). Reading goes on behind an
//!   invalid block only to find witnesses, of which an ended incarnation's recorded end is one; blocks behind it can never be part of a complete round beyond it.
//! - **N4** Each timestamp in (T, C) is in one record, and each fragment of those commits is there once (P6).
use crate::block::{self, Found, Header};
use crate::checkpoint::Segment;
use crate::error::RecoveryError;
use crate::files::{self, Config, Place};
use crate::image::{Chunk, ImageReader, StoredSegment};
use crate::log::Catalog;
use crate::manifest::{Manifest, OPEN_END};
use crate::page::{Format, PAGES_PER_SEGMENT, SegmentId};
use crate::parallel;
use crate::record::{BadRecord, Record, Records, System};
use crate::{CommitTs, HeapId, TxnId};
use ondol_base::media::Open;
use ondol_base::sync::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A log file as read.
pub(crate) struct FileScan {
    pub stream: u16,
    pub number: u64,
    pub name: String,
    pub bytes: Vec<u8>,
    pub blocks: Vec<Header>,
    /// Whole headers whose payload is not.
    pub torn: Vec<Header>,
    /// Blocks that name another place: what the file held before it was recycled.
    pub stale: u64,
}

/// A live block: indexes into `Scan::files` and its `blocks`.
#[derive(Clone, Copy)]
pub(crate) struct Live {
    pub file: usize,
    pub block: usize,
}

pub(crate) struct Scan {
    pub manifest: Manifest,
    pub files: Vec<FileScan>,
    pub live: Vec<Live>,
    /// R.
    pub round: u64,
    /// C.
    pub clock: CommitTs,
    /// The newest round that a later block, or the closing mark, names as durable.
    pub witnessed: u64,
    pub discarded: u64,
    pub bytes: u64,
}

fn io(file: &str) -> impl Fn(io::Error) -> RecoveryError + '_ {
    move |error| RecoveryError::Io { file: file.into(), error }
}

/// Reads one log file and finds its blocks.
pub(crate) fn scan_file(
    place: &Place,
    stream: u16,
    number: u64,
    database: u128,
) -> Result<FileScan, RecoveryError> {
    let name = place.path(number);
    let file = place.storage.open(&name, Open::Read).map_err(io(&name))?;
    let len = file.len().map_err(io(&name))?;
    let mut bytes = vec![0u8; len as usize];
    file.read_exact_at(&mut bytes, 0).map_err(io(&name))?;
    let (mut blocks, mut torn, mut stale) = (vec![], vec![], 0);
    let mut at = 0;
    while at + block::ALIGN <= bytes.len() {
        let mut step = block::ALIGN;
        match block::parse(&bytes[at..]) {
            Found::OtherFormat(found) => {
                return Err(RecoveryError::WrongFormat { file: name, expected: block::FORMAT, found });
            }
            Found::Block(h) | Found::BadPayload(h) if h.file != number || h.offset != at as u64 => {
                // Stale (L2), or a copy of a block within a row. Neither says anything of this file; yet a block
                // of another database, where nobody of ours could have left it, must be told.
                if h.database != database && at == 0 {
                    return Err(RecoveryError::OtherDatabase {
                        file: name,
                        offset: at as u64,
                        expected: database,
                        found: h.database,
                    });
                }
                stale += 1;
            }
            found @ (Found::Block(_) | Found::BadPayload(_)) => {
                let whole = matches!(found, Found::Block(_));
                let (Found::Block(h) | Found::BadPayload(h)) = found else { continue };
                let offset = at as u64;
                if h.database != database {
                    let found = h.database;
                    return Err(RecoveryError::OtherDatabase {
                        file: name,
                        offset,
                        expected: database,
                        found,
                    });
                }
                if h.stream != stream {
                    let found = h.stream;
                    return Err(RecoveryError::OtherStream { file: name, offset, expected: stream, found });
                }
                if whole {
                    step = h.block_len();
                    blocks.push(*h)
                } else {
                    torn.push(*h)
                }
            }
            Found::Nothing | Found::BadHeader => {}
        }
        at += step;
    }
    Ok(FileScan { stream, number, name, bytes, blocks, torn, stale })
}

impl Scan {
    /// Reads the log that belongs to the manifest.
    pub fn read(config: &Config, manifest: Manifest, threads: usize) -> Result<Scan, RecoveryError> {
        if config.streams.len() < manifest.streams.len() || config.streams.len() > block::MAX_STREAMS {
            return Err(RecoveryError::StreamsMissing {
                expected: manifest.streams.len().min(block::MAX_STREAMS),
                found: config.streams.len(),
            });
        }
        let mut names = vec![];
        for (k, place) in config.streams.iter().enumerate() {
            let numbers = files::list(place).map_err(io(&place.describe()))?;
            for i in &manifest.incarnations {
                if let Some(first) = i.files.get(k)
                    && !numbers.contains(first)
                {
                    let why = format!("incarnation {} of the database begins there", i.number);
                    return Err(RecoveryError::MissingFile { file: place.path(*first), why });
                }
            }
            names.extend(numbers.into_iter().map(|n| (k, n)));
        }
        let found: Arc<Mutex<Vec<FileScan>>> = Arc::default();
        let (sink, places, database) = (found.clone(), config.streams.clone(), manifest.database);
        let list = names.clone();
        parallel::each(threads, names.len(), move |i| {
            let (k, number) = list[i];
            let scan = scan_file(&places[k], k as u16, number, database)?;
            sink.lock().push(scan);
            Ok(())
        })?;
        let mut files = std::mem::take(&mut *found.lock());
        files.sort_by_key(|f| (f.stream, f.number));
        let bytes = files.iter().flat_map(|f| &f.blocks).map(|h| h.block_len() as u64).sum();
        let mut scan =
            Scan { manifest, files, live: vec![], round: 0, clock: 0, witnessed: 0, discarded: 0, bytes };
        scan.find_end()?;
        scan.check_files(config)?;
        Ok(scan)
    }

    pub fn header(&self, l: Live) -> &Header {
        &self.files[l.file].blocks[l.block]
    }
    pub fn payload(&self, l: Live) -> &[u8] {
        let h = self.header(l);
        let start = h.offset as usize + h.len();
        &self.files[l.file].bytes[start..start + h.payload as usize]
    }

    /// N1 to N3.
    fn find_end(&mut self) -> Result<(), RecoveryError> {
        let m = &self.manifest;
        let newest = m.incarnations.last().map_or(0, |i| i.number);
        let mut rounds: BTreeMap<u64, Vec<Live>> = BTreeMap::new();
        let ended =
            m.incarnations.iter().filter(|i| i.last_round != OPEN_END && i.last_round >= m.first_round);
        let mut top: Option<(u64, String, u64)> =
            ended.map(|i| i.last_round).max().map(|end| (end, crate::manifest::NAMES[0].to_string(), 0));
        let mut discarded = 0;
        for (f, file) in self.files.iter().enumerate() {
            let whole = file.blocks.iter().enumerate().map(|(b, h)| (Some(b), h));
            for (b, h) in whole.chain(file.torn.iter().map(|h| (None, h))) {
                if h.incarnation > newest {
                    return Err(RecoveryError::Block {
                        file: file.name.clone(),
                        offset: h.offset,
                        expected: format!("an incarnation up to {newest}, as the manifest says"),
                        found: format!("{}", h.incarnation),
                    });
                }
                let known = m.incarnations.iter().find(|i| i.number == h.incarnation);
                if !known.is_some_and(|i| (i.first_round..=i.last_round).contains(&h.round)) {
                    discarded += 1;
                    continue;
                }
                if top.as_ref().is_none_or(|t| t.0 < h.durable_round) {
                    top = Some((h.durable_round, file.name.clone(), h.offset));
                }
                if let Some(block) = b
                    && h.round >= m.first_round
                {
                    rounds.entry(h.round).or_default().push(Live { file: f, block });
                }
            }
        }
        let mut r = m.first_round.saturating_sub(1);
        let mut clock = m.at + 1;
        let mut live = vec![];
        let mut positions: BTreeMap<(u64, u16), u64> = BTreeMap::new();
        while let Some(blocks) = rounds.get(&(r + 1)) {
            let first = self.header(blocks[0]);
            let bad = |l: &Live, expected: String, found: String| RecoveryError::Block {
                file: self.files[l.file].name.clone(),
                offset: self.header(*l).offset,
                expected,
                found,
            };
            for l in blocks {
                let h = self.header(*l);
                if (h.participants, h.closed, h.incarnation)
                    != (first.participants, first.closed, first.incarnation)
                    || !h.participants.as_slice().contains(&(h.stream, h.position))
                {
                    let found = format!("participants {:?}, closed {}", h.participants.as_slice(), h.closed);
                    return Err(bad(
                        l,
                        format!("all blocks of round {} to agree, and to name each", r + 1),
                        found,
                    ));
                }
            }
            let has = |s: u16| blocks.iter().filter(|l| self.header(**l).stream == s).count();
            if first.participants.as_slice().iter().any(|(s, _)| has(*s) == 0) {
                break;
            }
            if let Some(l) = blocks.iter().find(|l| has(self.header(**l).stream) > 1) {
                return Err(bad(l, format!("round {} once a stream", r + 1), "it twice".into()));
            }
            for l in blocks {
                let h = self.header(*l);
                let before = positions.insert((h.incarnation, h.stream), h.position);
                if before.is_some_and(|p| p + 1 != h.position) {
                    return Err(bad(
                        l,
                        "positions without a gap".into(),
                        format!("{} after {before:?}", h.position),
                    ));
                }
            }
            clock = clock.max(first.closed);
            live.extend_from_slice(blocks);
            r += 1;
        }
        discarded += rounds.range(r + 1..).map(|(_, b)| b.len() as u64).sum::<u64>();
        self.witnessed = top.as_ref().map_or(0, |t| t.0).max(m.clean.unwrap_or(0));
        let m = &self.manifest;
        if let Some((durable, file, offset)) = top
            && durable > r
        {
            return Err(RecoveryError::RoundLost { file, offset, durable, complete: r });
        }
        if let Some(expected) = m.clean
            && expected != r
        {
            let file = self.files.last().map_or("log", |f| &f.name).to_string();
            return Err(RecoveryError::ClosedElsewhere { file, expected, found: r });
        }
        (self.round, self.clock, self.live, self.discarded) = (r, clock, live, discarded);
        Ok(())
    }

    /// A live block of the last life names the file that was prepared behind its own: that must still be there.
    fn check_files(&self, config: &Config) -> Result<(), RecoveryError> {
        let Some(current) = self.manifest.incarnations.last().filter(|i| i.last_round == OPEN_END) else {
            return Ok(());
        };
        for l in &self.live {
            let h = self.header(*l);
            if h.incarnation == current.number
                && h.next_file != 0
                && !self.files.iter().any(|f| f.stream == h.stream && f.number == h.next_file)
            {
                let file = config.streams[h.stream as usize].path(h.next_file);
                let why = format!("{} at {} names it as the next", self.files[l.file].name, h.offset);
                return Err(RecoveryError::MissingFile { file, why });
            }
        }
        Ok(())
    }

    pub fn bad_record(&self, l: Live, e: BadRecord) -> RecoveryError {
        let h = self.header(l);
        RecoveryError::Block {
            file: self.files[l.file].name.clone(),
            offset: h.offset + (h.len() + e.offset) as u64,
            expected: e.expected.into(),
            found: format!("{:#x}", e.found),
        }
    }

    /// Whether the file holds anything that recovery needs, and its last such round.
    pub fn last_round(&self, file: usize) -> Option<u64> {
        self.live.iter().filter(|l| l.file == file).map(|l| self.header(*l).round).max()
    }
}

/// What a first walk over the live records gives.
#[derive(Default)]
pub(crate) struct Gathered {
    /// Transactions with fragments whose commit is later than T: by incarnation and number.
    pub spilled: BTreeMap<(u64, TxnId), (CommitTs, u32)>,
    /// In the order in which they were logged.
    pub system: Vec<(CommitTs, System)>,
    pub commits: u64,
}

/// N4.
pub(crate) fn gather(scan: &Arc<Scan>, threads: usize) -> Result<Gathered, RecoveryError> {
    let (at, clock) = (scan.manifest.at, scan.clock);
    let count = clock - at - 1;
    let missing = |ts| RecoveryError::CommitMissing { file: "log".into(), ts, from: at + 1, to: clock - 1 };
    let words: u64 = scan.live.iter().map(|l| scan.header(*l).payload / 8).sum();
    if count > words {
        return Err(missing(at + 1)); // each needs a word at least
    }
    #[derive(Default)]
    struct Lists {
        commits: Vec<(u64, TxnId, CommitTs, u32)>,
        fragments: Vec<(u64, TxnId, u32)>,
        system: Vec<(u64, usize, CommitTs, System)>,
    }
    let seen: Arc<Vec<AtomicU64>> = Arc::new((0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect());
    let lists: Arc<Mutex<Lists>> = Arc::default();
    let (s, bits, sink) = (scan.clone(), seen.clone(), lists.clone());
    parallel::each(threads, scan.live.len(), move |i| {
        let l = s.live[i];
        let h = s.header(l);
        let mut own = Lists::default();
        for record in Records::new(s.payload(l), h.base) {
            let (offset, record) = record.map_err(|e| s.bad_record(l, e))?;
            match record {
                Record::Commit { ts, .. } | Record::Void { ts } => {
                    if ts >= h.closed {
                        let (expected, found) = ("a timestamp below the round's closed", ts);
                        return Err(s.bad_record(l, BadRecord { offset, expected, found }));
                    }
                    if ts <= at {
                        continue;
                    }
                    let bit = ts - at - 1;
                    let old = bits[bit as usize / 64].fetch_or(1 << (bit % 64), Ordering::Relaxed);
                    if old & 1 << (bit % 64) != 0 {
                        let offset = h.offset + (h.len() + offset) as u64;
                        return Err(RecoveryError::CommitDouble {
                            file: s.files[l.file].name.clone(),
                            offset,
                            ts,
                        });
                    }
                    if let Record::Commit { txn, fragments, .. } = record
                        && fragments > 0
                    {
                        own.commits.push((h.incarnation, txn, ts, fragments));
                    }
                }
                Record::Fragment { txn, n, .. } => own.fragments.push((h.incarnation, txn, n)),
                Record::System { clock, item } => own.system.push((h.round, offset, clock, item)),
            }
        }
        let mut all = sink.lock();
        all.commits.append(&mut own.commits);
        all.fragments.append(&mut own.fragments);
        all.system.append(&mut own.system);
        Ok(())
    })?;
    for (i, word) in seen.iter().enumerate() {
        let word = word.load(Ordering::Relaxed);
        let want = if (i as u64 + 1) * 64 <= count { !0 } else { (1 << (count % 64)) - 1 };
        if word != want {
            return Err(missing(at + 1 + i as u64 * 64 + (!word & want).trailing_zeros() as u64));
        }
    }
    let mut lists = std::mem::take(&mut *lists.lock());
    let mut gathered = Gathered { commits: count, ..Gathered::default() };
    for (incarnation, txn, ts, n) in lists.commits {
        if let Some((first, _)) = gathered.spilled.insert((incarnation, txn), (ts, n)) {
            let (expected, found) = (n, n);
            let file = format!("log (also commit {first})");
            return Err(RecoveryError::Fragments { file, ts, txn, expected, found });
        }
    }
    let mut have: BTreeMap<(u64, TxnId), Vec<u32>> = BTreeMap::new();
    for (incarnation, txn, n) in lists.fragments {
        if gathered.spilled.contains_key(&(incarnation, txn)) {
            have.entry((incarnation, txn)).or_default().push(n);
        }
    }
    for (key, (ts, expected)) in &gathered.spilled {
        let mut n = have.remove(key).unwrap_or_default();
        n.sort_unstable();
        if !n.iter().copied().eq(0..*expected) {
            let (ts, txn, expected, found) = (*ts, key.1, *expected, n.len() as u32);
            return Err(RecoveryError::Fragments { file: "log".into(), ts, txn, expected, found });
        }
    }
    lists.system.sort_by_key(|(round, offset, ..)| (*round, *offset));
    gathered.system = lists.system.into_iter().map(|(_, _, clock, item)| (clock, item)).collect();
    Ok(gathered)
}

/// The checkpoint's files, oldest first.
pub(crate) fn open_images(config: &Config, manifest: &Manifest) -> Result<Vec<ImageReader>, RecoveryError> {
    manifest.files.iter().map(|f| ImageReader::open(&*config.data, f, manifest.database)).collect()
}

/// Segments and sequences, as of C.
#[derive(Default)]
pub(crate) struct Tables {
    pub segments: BTreeMap<SegmentId, StoredSegment>,
    /// Dropped in the log: heap and when.
    pub dropped: BTreeMap<SegmentId, (HeapId, CommitTs)>,
    pub sequences: BTreeMap<u64, i64>,
}

impl Tables {
    /// The newest file's tables, then the log's system records.
    pub fn build(scan: &Scan, images: &[ImageReader], gathered: &Gathered) -> Result<Tables, RecoveryError> {
        let mut t = Tables::default();
        if let Some(newest) = images.last() {
            // Tables stand behind the images.
            for i in (0..newest.chunks.len()).rev() {
                match newest.chunk(i)? {
                    Chunk::Segments(list) => t.segments.extend(list.into_iter().map(|s| (s.segment.id, s))),
                    Chunk::Sequences(list) => t.sequences.extend(list),
                    Chunk::Images(_) => break,
                }
            }
        }
        let at = scan.manifest.at;
        for (clock, item) in &gathered.system {
            let bad = |expected: &str, found: String| RecoveryError::Block {
                file: "log".into(),
                offset: 0,
                expected: expected.into(),
                found,
            };
            match *item {
                System::SequenceAdvance { id, value } => {
                    let v = t.sequences.entry(id).or_insert(value);
                    *v = (*v).max(value);
                }
                System::SequenceDrop { id } => {
                    t.sequences.remove(&id);
                }
                _ if *clock <= at => {} // the table knows (E2)
                System::SegmentCreate { segment, heap } => {
                    t.dropped.remove(&segment);
                    let new =
                        Segment { id: segment, heap, formats: vec![Format::Unformatted; PAGES_PER_SEGMENT] };
                    let entry = t.segments.entry(segment);
                    let old = entry.or_insert(StoredSegment { segment: new, created: *clock });
                    if old.segment.heap != heap {
                        return Err(bad(
                            &format!("segment {} of heap {}", segment.0, old.segment.heap),
                            format!("heap {heap}"),
                        ));
                    }
                }
                System::SegmentDrop { segment, heap, at } => {
                    t.segments.remove(&segment);
                    t.dropped.insert(segment, (heap, at));
                }
                System::PageFormat { page, format } => {
                    let Some(s) = t.segments.get_mut(&page.segment()) else {
                        if t.dropped.contains_key(&page.segment()) {
                            continue;
                        }
                        return Err(bad("the format of a page in a segment", format!("page {}", page.0)));
                    };
                    let old = &mut s.segment.formats[page.index()];
                    if *old != format && *old != Format::Unformatted {
                        return Err(bad(&format!("page {} as {old:?}", page.0), format!("{format:?}")));
                    }
                    *old = format;
                }
            }
        }
        Ok(t)
    }

    pub fn catalog(&self) -> Catalog {
        Catalog {
            created: self.segments.iter().map(|(id, s)| (*id, s.created)).collect(),
            dropped: self.dropped.iter().map(|(id, (_, at))| (*id, *at)).collect(),
            sequences: self.sequences.clone(),
        }
    }
}
