//! Reading a database's files without changing them: manifest, images, log; up to the proof that the commits
//! are complete. Recovery builds memory from this, the offline tools report it.
//!
//! - **N1** A block counts when it is valid, names the file and offset where it stands, belongs to an
//!   incarnation of the manifest and lies within that incarnation's rounds (protocol/P5).
//! - **N2** R is the end of the unbroken run of complete rounds from the manifest's first; C the larger of
//!   what the rounds closed at and T + 1.
//! - **N3** Whole headers are witnesses: none may name a durable round beyond R (protocol/P6, protocol/P7).
//!   Reading goes on behind an invalid block only to find witnesses, of which an ended incarnation's recorded
//!   end is one; blocks behind it can never be part of a complete round beyond it.
//! - **N4** Each timestamp in (T, C) is in one record, and each fragment of those commits is there once
//!   (protocol/P6).
use crate::block::{self, Header};
use crate::checkpoint::Segment;
use crate::error::RecoveryError;
use crate::files::{self, Config};
use crate::image::{Chunk, ImageReader, StoredSegment};
use crate::log::Catalog;
use crate::manifest::{Incarnation, Manifest, OPEN_END};
use crate::page::{Format, PAGES_PER_SEGMENT, PageId, SegmentId};
use crate::reader::{self, LogReader, WINDOW};
use crate::record::{BadRecord, Record, Records, System};
use crate::sequence::Given;
use crate::{CommitTs, HeapId, TxnId};
use ondol_base::pool;
use ondol_base::sync::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

/// A live block: indexes into `Scan::files` and its `blocks`.
#[derive(Clone, Copy)]
pub(crate) struct Live {
    pub file: usize,
    pub block: usize,
}

/// Live blocks that are read at once.
pub(crate) struct Run {
    pub file: usize,
    pub blocks: Vec<usize>,
}

pub(crate) struct Scan {
    pub manifest: Manifest,
    pub files: Vec<LogReader>,
    /// For each file, one for each of its blocks.
    summaries: Vec<Vec<Summary>>,
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

/// Whether a block counts, as far as its incarnation goes (N1).
fn counts(life: &Incarnation, h: &Header) -> bool {
    life.number == h.incarnation && (life.first_round..=life.last_round).contains(&h.round)
}

/// What the first walk over a block's records finds, in case the block turns out to be live.
#[derive(Default)]
pub(crate) struct Summary {
    /// A bit for each timestamp beyond T: the first stands for the block's base, or for T + 1 where that is
    /// later.
    commits: Vec<u64>,
    /// What few blocks have.
    rest: Option<Box<Rest>>,
}
#[derive(Default)]
struct Rest {
    commits: Vec<(TxnId, CommitTs, u32)>,
    fragments: Vec<(TxnId, u32)>,
    system: Vec<(usize, CommitTs, System)>,
    given: Vec<(u64, Given)>,
    problem: Option<Problem>,
}
enum Problem {
    Record(BadRecord),
    Double(usize, CommitTs),
}

/// The timestamp of a summary's first bit.
fn first_bit(h: &Header, at: CommitTs) -> CommitTs {
    h.base.max(at + 1)
}

fn summarize(h: &Header, payload: &[u8], at: CommitTs) -> Summary {
    let from = first_bit(h, at);
    let mut all = Summary::default();
    // A block of one stream's own commits needs no more; the check above makes `closed` a bound.
    all.commits
        .reserve_exact((payload.len() as u64 / 8).min(h.closed.saturating_sub(from)).div_ceil(64) as usize);
    for record in Records::new(payload, h.base) {
        let rest = &mut all.rest;
        let mut problem = |p| rest.get_or_insert_default().problem = Some(p);
        match record {
            Ok((offset, record)) if record.timestamp().is_some_and(|ts| ts >= h.closed) => {
                let ts = record.timestamp().unwrap_or(0);
                let expected = "a timestamp below the round's closed";
                problem(Problem::Record(BadRecord { offset, expected, found: ts }));
                break;
            }
            Ok((offset, record)) if record.timestamp().is_some_and(|ts| ts > at) => {
                let ts = record.timestamp().unwrap_or(0);
                let bit = ts - from;
                let word = (bit / 64) as usize;
                if word >= all.commits.len() {
                    all.commits.resize(word + 1, 0);
                }
                if all.commits[word] & 1 << (bit % 64) != 0 {
                    problem(Problem::Double(offset, ts));
                    break;
                }
                all.commits[word] |= 1 << (bit % 64);
                match record {
                    Record::Commit { txn, fragments, .. } if fragments > 0 => {
                        rest.get_or_insert_default().commits.push((txn, ts, fragments))
                    }
                    Record::Given { sequence, given, .. } => {
                        rest.get_or_insert_default().given.push((sequence, given))
                    }
                    _ => {}
                }
            }
            // What a sequence gave out by then is in the checkpoint's table.
            Ok((_, Record::Commit { .. } | Record::Void { .. } | Record::Given { .. })) => {}
            Ok((_, Record::Fragment { txn, n, .. })) => rest.get_or_insert_default().fragments.push((txn, n)),
            Ok((offset, Record::System { clock, item })) => {
                rest.get_or_insert_default().system.push((offset, clock, item))
            }
            Err(e) => {
                problem(Problem::Record(e));
                break;
            }
        }
    }
    all
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
        type Found = Vec<(LogReader, Vec<Summary>)>;
        let found: Arc<Mutex<Found>> = Arc::default();
        let (sink, places) = (found.clone(), config.streams.clone());
        let (at, first, database) = (manifest.at, manifest.first_round, manifest.database);
        let lives = manifest.incarnations.clone();
        // The longest first, so that no thread is left with one at the end.
        names.reverse();
        pool::each_with(threads, names.len(), move |buffer: &mut Vec<u8>, i| {
            let (k, number) = names[i];
            let mut summaries = vec![];
            let mut visit = |h: &Header, payload: &[u8]| {
                let may_live = h.round >= first && lives.iter().any(|l| counts(l, h));
                summaries.push(if may_live { summarize(h, payload, at) } else { Summary::default() })
            };
            let file = reader::scan_file(&places[k], k as u16, number, database, buffer, &mut visit)?;
            sink.lock().push((file, summaries));
            Ok::<(), RecoveryError>(())
        })?;
        let mut found = std::mem::take(&mut *found.lock());
        found.sort_by_key(|(f, _)| (f.stream, f.number));
        let (files, summaries): (Vec<LogReader>, Vec<Vec<Summary>>) = found.into_iter().unzip();
        let mut scan = Scan {
            manifest,
            files,
            summaries,
            live: vec![],
            round: 0,
            clock: 0,
            witnessed: 0,
            discarded: 0,
            bytes: 0,
        };
        scan.find_end()?;
        scan.check_files(config)?;
        scan.bytes = scan.live.iter().map(|l| scan.header(*l).block_len() as u64).sum();
        Ok(scan)
    }

    pub fn header(&self, l: Live) -> &Header {
        &self.files[l.file].blocks[l.block]
    }
    /// The live blocks in runs to be read at once: of one file, one directly behind the other, about a window
    /// long.
    pub fn runs(&self) -> Vec<Run> {
        let mut sorted = self.live.clone();
        sorted.sort_unstable_by_key(|l| (l.file, l.block));
        let mut runs: Vec<Run> = vec![];
        let (mut end, mut len) = (0, 0);
        for l in sorted {
            let h = self.header(l);
            match runs.last_mut() {
                Some(run) if run.file == l.file && end == h.offset && len + h.block_len() <= WINDOW => {
                    len += h.block_len();
                    run.blocks.push(l.block)
                }
                _ => {
                    len = h.block_len();
                    runs.push(Run { file: l.file, blocks: vec![l.block] })
                }
            }
            end = h.offset + h.block_len() as u64;
        }
        runs
    }
    /// Reads a run again: each block with its payload, behind which the bytes go on.
    pub fn read_run<'b>(
        &self,
        run: &Run,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Vec<(Live, &'b [u8])>, RecoveryError> {
        let payloads = self.files[run.file].again(&run.blocks, buffer)?;
        let live = run.blocks.iter().map(|block| Live { file: run.file, block: *block });
        Ok(live.zip(payloads).collect())
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
                if !m.incarnations.iter().any(|i| counts(i, h)) {
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
            let whole = first.participants.as_slice().iter().all(|(s, _)| has(*s) != 0);
            if !whole && !ondol_base::sim::mutated("rounds_ignored") {
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

    /// A live block of the last life names the file that was prepared behind its own: that must still be
    /// there.
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
    /// What sequences gave out.
    pub given: Vec<(u64, Given)>,
    pub commits: u64,
}

/// Where in the log a second record of `ts` stands in a live block, by looking again.
fn record_of(scan: &Scan, l: Live, ts: CommitTs) -> u64 {
    let h = scan.header(l);
    let mut buffer = vec![];
    let mut offset = 0;
    let run = Run { file: l.file, blocks: vec![l.block] };
    if let Ok(blocks) = scan.read_run(&run, &mut buffer)
        && let Some((_, payload)) = blocks.first()
    {
        let is = |r: &Record<'_>| r.timestamp() == Some(ts);
        let mut records = Records::new(&payload[..h.payload as usize], h.base).flatten();
        offset = records.find(|(_, r)| is(r)).map_or(0, |(at, _)| at);
    }
    h.offset + (h.len() + offset) as u64
}

/// N4, from the summaries of the live blocks, which are given up.
pub(crate) fn gather(scan: &mut Scan) -> Result<Gathered, RecoveryError> {
    let summaries = std::mem::take(&mut scan.summaries);
    let scan = &*scan;
    let (at, clock) = (scan.manifest.at, scan.clock);
    let count = clock - at - 1;
    let missing = |ts| RecoveryError::CommitMissing { file: "log".into(), ts, from: at + 1, to: clock - 1 };
    let words: u64 = scan.live.iter().map(|l| scan.header(*l).payload / 8).sum();
    if count > words {
        return Err(missing(at + 1)); // each needs a word at least
    }
    let mut seen = vec![0u64; count.div_ceil(64) as usize];
    #[derive(Default)]
    struct Lists {
        commits: Vec<(u64, TxnId, CommitTs, u32)>,
        fragments: Vec<(u64, TxnId, u32)>,
        system: Vec<(u64, usize, CommitTs, System)>,
        given: Vec<(u64, Given)>,
    }
    let mut lists = Lists::default();
    for l in &scan.live {
        let h = scan.header(*l);
        let Some(s) = summaries.get(l.file).and_then(|f| f.get(l.block)) else { continue };
        let double = |offset, ts| {
            let file = scan.files[l.file].name.clone();
            RecoveryError::CommitDouble { file, offset, ts }
        };
        let first = first_bit(h, at) - at - 1;
        for (i, bits) in s.commits.iter().enumerate() {
            let from = first + i as u64 * 64;
            let (word, shift) = ((from / 64) as usize, from % 64);
            for (word, bits) in [(word, bits << shift), (word + 1, bits >> 1 >> (63 - shift))] {
                if bits == 0 {
                    continue;
                }
                // Each is below the block's `closed`, and so below the clock.
                let Some(seen) = seen.get_mut(word) else { return Err(missing(at + 1)) };
                if *seen & bits != 0 {
                    let ts = at + 1 + word as u64 * 64 + (*seen & bits).trailing_zeros() as u64;
                    return Err(double(record_of(scan, *l, ts), ts));
                }
                *seen |= bits;
            }
        }
        let Some(rest) = &s.rest else { continue };
        match &rest.problem {
            Some(Problem::Record(e)) => return Err(scan.bad_record(*l, e.clone())),
            Some(Problem::Double(offset, ts)) => {
                return Err(double(h.offset + (h.len() + offset) as u64, *ts));
            }
            None => {}
        }
        lists.commits.extend(rest.commits.iter().map(|(txn, ts, n)| (h.incarnation, *txn, *ts, *n)));
        lists.fragments.extend(rest.fragments.iter().map(|(txn, n)| (h.incarnation, *txn, *n)));
        lists.given.extend(&rest.given);
        lists
            .system
            .extend(rest.system.iter().map(|(offset, clock, item)| (h.round, *offset, *clock, *item)));
    }
    for (i, word) in seen.iter().copied().enumerate() {
        let want = if (i as u64 + 1) * 64 <= count { !0 } else { (1 << (count % 64)) - 1 };
        if word != want {
            return Err(missing(at + 1 + i as u64 * 64 + (!word & want).trailing_zeros() as u64));
        }
    }
    let mut gathered = Gathered { commits: count, given: lists.given, ..Gathered::default() };
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
    pub sequences: BTreeMap<u64, Given>,
}

impl Tables {
    /// The newest file's tables, then the log's system records.
    pub fn build(scan: &Scan, images: &[ImageReader], gathered: &Gathered) -> Result<Tables, RecoveryError> {
        let mut t = Tables::default();
        if let Some(newest) = images.last() {
            // Tables stand behind the images.
            let mut buffer = vec![];
            for i in (0..newest.chunks.len()).rev() {
                match newest.chunk(i, &mut buffer)? {
                    Chunk::Segments(list) => t.segments.extend(list.into_iter().map(|s| (s.segment.id, s))),
                    Chunk::Sequences(list) => t.sequences.extend(list),
                    Chunk::Images(_) => break,
                }
            }
        }
        let at = scan.manifest.at;
        let bad = |expected: &str, found: String| RecoveryError::Block {
            file: "log".into(),
            offset: 0,
            expected: expected.into(),
            found,
        };
        // Pages that were formatted in segments which neither the table nor the log has. Their drop must
        // follow: a checkpoint's tables showed it already, and of the segment's records the log keeps those
        // of the last round before the tables.
        let mut unknown: BTreeMap<SegmentId, PageId> = BTreeMap::new();
        for (id, given) in &gathered.given {
            t.sequences.entry(*id).or_insert(*given).merge(*given)
        }
        // sequence/Q5
        let mut dropped = BTreeSet::new();
        for (clock, item) in &gathered.system {
            match *item {
                System::SequenceAdvance { id, value } => {
                    let given = Given::up_to(value);
                    t.sequences.entry(id).or_insert(given).merge(given)
                }
                System::SequenceDrop { id } => {
                    dropped.insert(id);
                }
                _ if *clock <= at => {} // the table knows (record/E2)
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
                    unknown.remove(&segment);
                    t.dropped.insert(segment, (heap, at));
                }
                System::PageFormat { page, format } => {
                    let Some(s) = t.segments.get_mut(&page.segment()) else {
                        if !t.dropped.contains_key(&page.segment()) {
                            unknown.entry(page.segment()).or_insert(page);
                        }
                        continue;
                    };
                    let old = &mut s.segment.formats[page.index()];
                    if *old != format && *old != Format::Unformatted {
                        return Err(bad(&format!("page {} as {old:?}", page.0), format!("{format:?}")));
                    }
                    *old = format;
                    // page/G3: a run's tail pages are named by its head.
                    if let Format::RunHead { pages } = format {
                        let tail = page.index() + 1..page.index() + pages as usize;
                        match s.segment.formats.get_mut(tail) {
                            Some(tail) => tail.fill(Format::RunTail),
                            None => {
                                return Err(bad(
                                    "a run that ends in its segment",
                                    format!("{pages} pages from page {}", page.0),
                                ));
                            }
                        }
                    }
                }
            }
        }
        t.sequences.retain(|id, _| !dropped.contains(id));
        match unknown.values().next() {
            Some(page) => Err(bad("the format of a page in a segment", format!("page {}", page.0))),
            None => Ok(t),
        }
    }

    pub fn catalog(&self) -> Catalog {
        Catalog {
            created: self.segments.iter().map(|(id, s)| (*id, s.created)).collect(),
            dropped: self.dropped.iter().map(|(id, (_, at))| (*id, *at)).collect(),
            sequences: self.sequences.clone(),
        }
    }
}
