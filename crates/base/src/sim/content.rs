//! The bytes of one simulated file: what a process sees, what is durable, and every write in between.
//!
//! - **S1** `now` is what a process reads; `durable` is what survives for certain. They differ only in chunks
//!   that are listed in `dirty`, and by the entries of `lens`.
//! - **S2** A chunk's `pending` holds its writes that no sync has covered, in order of `seq`. Applying all of
//!   them to `durable` gives `now`, unless the chunk is `lost`.
//! - **S3** What a sync (a fence) that began at `seq` covers becomes durable whole; nothing else does before
//!   a power failure, which settles each sector, or each word of mapped memory, by itself: it ends as after
//!   some number of the writes it was touched by, in order.
//! - **S4** Bytes beyond the length are zero.
//! - **S5** After a sync that failed and lost its bytes, a chunk is `lost`: readers still see the bytes,
//!   later syncs report success, and only what is written anew can become durable.
//!
//! Chunks are sparse and shared by reference count, so that preallocating a log with zeros, keeping a copy
//! and reopening after a failure cost what was touched, not what is there.
use super::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(super) const CHUNK: usize = 4096;
const SECTOR: usize = 512;
const LINE: usize = 64;
const WORD: usize = 8;

/// `None` is all zeros.
type Page = Option<Arc<[u8; CHUNK]>>;
static ZEROS: [u8; CHUNK] = [0; CHUNK];

fn bytes_of(page: &Page) -> &[u8; CHUNK] {
    page.as_deref().unwrap_or(&ZEROS)
}
fn bytes_mut(page: &mut Page) -> &mut [u8; CHUNK] {
    Arc::make_mut(page.get_or_insert_with(|| Arc::new(ZEROS)))
}

/// How bytes came to the file, which says what makes them durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// A write call: by a sync.
    Write,
    /// A copy to mapped memory by this fiber: by its fence, or a sync.
    Line(usize),
}

#[derive(Clone, Debug)]
enum Bytes {
    Zero,
    Page(Arc<[u8; CHUNK]>),
    Part(Box<[u8]>),
}

#[derive(Clone, Debug)]
struct Piece {
    seq: u64,
    by: By,
    start: usize,
    end: usize,
    bytes: Bytes,
}

impl Piece {
    fn touches(&self, start: usize, end: usize) -> bool {
        self.start < end && start < self.end
    }
    /// Applies the part of it that lies in `start..end`.
    fn put(&self, page: &mut Page, start: usize, end: usize) {
        let (start, end) = (start.max(self.start), end.min(self.end));
        if start >= end {
            return;
        }
        if end - start == CHUNK {
            *page = match &self.bytes {
                Bytes::Zero => None,
                Bytes::Page(p) => Some(p.clone()),
                Bytes::Part(p) => {
                    bytes_mut(page).copy_from_slice(p);
                    return;
                }
            };
            return;
        }
        match &self.bytes {
            Bytes::Zero if page.is_none() => {}
            Bytes::Zero => bytes_mut(page)[start..end].fill(0),
            Bytes::Page(p) => bytes_mut(page)[start..end].copy_from_slice(&p[start..end]),
            Bytes::Part(p) => {
                bytes_mut(page)[start..end].copy_from_slice(&p[start - self.start..end - self.start])
            }
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Chunk {
    now: Page,
    durable: Page,
    pending: Vec<Piece>,
    lost: bool,
}

impl Chunk {
    /// Makes the chosen pending pieces durable; older ones that they overlap go along, lest they come later
    /// and bring old bytes back.
    fn make_durable(&mut self, chosen: impl Fn(&Piece) -> bool) {
        let mut go: Vec<bool> = self.pending.iter().map(chosen).collect();
        if !self.lost && go.iter().all(|g| *g) {
            self.durable = self.now.clone();
            self.pending.clear();
            return;
        }
        for i in (0..go.len()).rev() {
            if go[i] {
                let (start, end) = (self.pending[i].start, self.pending[i].end);
                (0..i).for_each(|j| go[j] |= self.pending[j].touches(start, end));
            }
        }
        let mut at = 0;
        let durable = &mut self.durable;
        self.pending.retain(|p| {
            let go = go[at];
            at += 1;
            if go {
                p.put(durable, 0, CHUNK)
            }
            !go
        });
    }
    /// Decides what of the pending pieces up to `upto` survives, and forgets them.
    fn settle(&mut self, upto: u64, r: &mut Random, survive: f64) {
        let covered = self.pending.iter().take_while(|p| p.seq <= upto).count();
        let pieces: Vec<Piece> = self.pending.drain(..covered).collect();
        let mut settle = |unit: usize, lines: bool, r: &mut Random| {
            for start in (0..CHUNK).step_by(unit) {
                let end = start + unit;
                let of: Vec<&Piece> =
                    pieces.iter().filter(|p| (p.by != By::Write) == lines && p.touches(start, end)).collect();
                if of.is_empty() {
                    continue;
                }
                if r.chance(survive) {
                    of.iter().for_each(|p| p.put(&mut self.durable, start, end));
                } else if !lines {
                    // The sector as it was after some of its writes, often none.
                    let n = if of.len() == 1 { 0 } else { r.below(of.len() as u64) as usize };
                    of[..n].iter().for_each(|p| p.put(&mut self.durable, start, end));
                } else if survive > 0.0 && r.chance(0.5) {
                    // A line on its way: each word by itself.
                    for word in (start..end).step_by(WORD) {
                        let n = r.below(of.len() as u64 + 1) as usize;
                        of[..n].iter().for_each(|p| p.put(&mut self.durable, word, word + WORD));
                    }
                }
            }
        };
        if pieces.iter().any(|p| p.by == By::Write) {
            settle(SECTOR, false, r)
        }
        if pieces.iter().any(|p| p.by != By::Write) {
            settle(LINE, true, r)
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    chunks: BTreeMap<u64, Chunk>,
    dirty: BTreeSet<u64>,
    len: u64,
    durable_len: u64,
    /// Lengths since the durable one.
    lens: Vec<(u64, u64)>,
    /// Open files and mappings.
    pub handles: u32,
}

impl Content {
    pub fn len(&self) -> u64 {
        self.len
    }
    pub fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        let n = self.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        let buf = &mut buf[..n];
        let mut done = 0;
        while done < n {
            let at = offset + done as u64;
            let (chunk, start) = (at / CHUNK as u64, at as usize % CHUNK);
            let part = (CHUNK - start).min(n - done);
            match self.chunks.get(&chunk) {
                Some(c) => buf[done..done + part].copy_from_slice(&bytes_of(&c.now)[start..start + part]),
                None => buf[done..done + part].fill(0),
            }
            done += part;
        }
        n
    }
    pub fn write(&mut self, seq: u64, by: By, offset: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let (chunk, start) = (at / CHUNK as u64, at as usize % CHUNK);
            let part = (CHUNK - start).min(bytes.len() - done);
            self.write_part(seq, by, chunk, start, &bytes[done..done + part]);
            done += part;
        }
        let end = offset + bytes.len() as u64;
        if end > self.len && !bytes.is_empty() {
            self.len = end;
            self.lens.push((seq, end));
        }
    }
    fn write_part(&mut self, seq: u64, by: By, at: u64, start: usize, bytes: &[u8]) {
        let end = start + bytes.len();
        let zero = *bytes == ZEROS[..bytes.len()];
        let chunk = match self.chunks.get_mut(&at) {
            Some(c) => c,
            // Zeros upon zeros: whether they survive cannot be told.
            None if zero => return,
            None => self.chunks.entry(at).or_default(),
        };
        if zero && chunk.now.is_none() && chunk.durable.is_none() && chunk.pending.is_empty() {
            return;
        }
        let bytes = match <&[u8; CHUNK]>::try_from(bytes) {
            _ if zero => Bytes::Zero,
            Ok(whole) => Bytes::Page(Arc::new(*whole)),
            Err(_) => Bytes::Part(bytes.into()),
        };
        let piece = Piece { seq, by, start, end, bytes };
        piece.put(&mut chunk.now, 0, CHUNK);
        chunk.pending.push(piece);
        self.dirty.insert(at);
    }
    pub fn set_len(&mut self, seq: u64, len: u64) {
        if len < self.len {
            let first = len / CHUNK as u64;
            let beyond: Vec<u64> = self.chunks.range(first..).map(|(at, _)| *at).collect();
            for at in beyond {
                let start = if at == first { len as usize % CHUNK } else { 0 };
                self.write_part(seq, By::Write, at, start, &ZEROS[start..]);
            }
        }
        if len != self.len {
            self.len = len;
            self.lens.push((seq, len));
        }
    }
    /// A sync that covers what was written up to `upto`.
    pub fn sync(&mut self, from: u64, upto: u64) {
        self.make_durable(|p| (from..=upto).contains(&p.seq));
        let covered = self.lens.iter().take_while(|l| l.0 <= upto).count();
        if let Some((_, len)) = self.lens.drain(..covered).next_back() {
            self.durable_len = len
        }
    }
    /// A fence by a fiber, or by everyone.
    pub fn fence(&mut self, fiber: Option<usize>) {
        self.make_durable(|p| match p.by {
            By::Write => false,
            By::Line(f) => fiber.is_none_or(|x| x == f),
        })
    }
    fn make_durable(&mut self, chosen: impl Fn(&Piece) -> bool) {
        let chunks = &mut self.chunks;
        self.dirty.retain(|at| match chunks.get_mut(at) {
            Some(c) => {
                c.make_durable(&chosen);
                c.lost || !c.pending.is_empty()
            }
            None => false,
        });
    }
    /// A sync that failed: some bytes up to `upto` reached the medium, and the rest counts as clean from now
    /// on without being durable (S5).
    pub fn lose(&mut self, upto: u64, r: &mut Random) {
        for at in &self.dirty {
            if let Some(c) = self.chunks.get_mut(at) {
                c.settle(upto, r, 0.5);
                c.lost = true;
            }
        }
        self.settle_len(upto, r, 0.5);
    }
    fn settle_len(&mut self, upto: u64, r: &mut Random, survive: f64) {
        let covered = self.lens.iter().take_while(|l| l.0 <= upto).count();
        let lens: Vec<(u64, u64)> = self.lens.drain(..covered).collect();
        let n = if r.chance(survive) { lens.len() as u64 } else { r.below(lens.len() as u64 + 1) };
        if n > 0 {
            self.durable_len = lens[n as usize - 1].1
        }
    }
    /// The power failed: what is durable is settled, and is all that is left.
    pub fn power_failure(&mut self, r: &mut Random, survive: f64) {
        for at in std::mem::take(&mut self.dirty) {
            if let Some(c) = self.chunks.get_mut(&at) {
                c.settle(u64::MAX, r, survive);
                c.now = c.durable.clone();
                c.lost = false;
            }
        }
        self.settle_len(u64::MAX, r, survive);
        self.len = self.durable_len;
        // S4 again, for sectors that survived beyond a length that did not.
        let first = self.len / CHUNK as u64;
        let start = self.len as usize % CHUNK;
        drop(self.chunks.split_off(&(first + 1)));
        if let Some(c) = self.chunks.get_mut(&first)
            && c.now.is_some()
        {
            bytes_mut(&mut c.now)[start..].fill(0);
            c.durable = c.now.clone();
        }
        self.handles = 0;
    }
    /// Changes bytes beneath everyone's feet, as a failing medium does.
    pub fn damage(&mut self, offset: u64, bytes: &[u8]) {
        for (i, b) in bytes.iter().enumerate() {
            let at = offset + i as u64;
            if at < self.len {
                let c = self.chunks.entry(at / CHUNK as u64).or_default();
                bytes_mut(&mut c.now)[at as usize % CHUNK] = *b;
                bytes_mut(&mut c.durable)[at as usize % CHUNK] = *b;
            }
        }
    }
    /// What would be left if nothing pending survived.
    pub fn durable(&self) -> Vec<u8> {
        let mut all = vec![0; self.durable_len as usize];
        for (at, c) in &self.chunks {
            let start = *at as usize * CHUNK;
            if start < all.len() {
                let end = (start + CHUNK).min(all.len());
                all[start..end].copy_from_slice(&bytes_of(&c.durable)[..end - start]);
            }
        }
        all
    }
    #[cfg(test)]
    pub fn is_clean(&self) -> bool {
        self.dirty.is_empty() && self.lens.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(c: &Content) -> Vec<u8> {
        let mut v = vec![0; c.len() as usize];
        c.read(&mut v, 0);
        v
    }

    /// Against a plain model: reads see every write, a sync makes exactly what it covers durable, and a
    /// failure leaves each sector at one of its states since then.
    #[test]
    fn random_histories() {
        for seed in 0..300 {
            let mut r = Random::new(seed);
            let mut c = Content::default();
            let mut model: Vec<u8> = vec![];
            let mut states: Vec<Vec<u8>> = vec![vec![]];
            let (mut seq, mut shrunk) = (0, false);
            for _ in 0..40 {
                seq += 1;
                match r.below(10) {
                    0 => {
                        let len = r.below(20_000);
                        shrunk |= (len as usize) < model.len();
                        c.set_len(seq, len);
                        model.resize(len as usize, 0);
                    }
                    1 => {
                        c.sync(0, seq);
                        assert!(c.is_clean());
                        assert_eq!(c.durable(), model);
                        states.clear();
                        shrunk = false;
                    }
                    _ => {
                        let at = r.below(16_000) as usize;
                        let len = if r.chance(0.3) { 4096 } else { 1 + r.below(3000) as usize };
                        let byte = if r.chance(0.2) { 0 } else { r.next() as u8 };
                        model.resize(model.len().max(at + len), 0);
                        model[at..at + len].fill(byte);
                        c.write(seq, By::Write, at as u64, &vec![byte; len]);
                    }
                }
                assert_eq!(all(&c), model);
                states.push(model.clone());
            }
            c.power_failure(&mut r, [0.0, 0.5, 1.0][seed as usize % 3]);
            let left = all(&c);
            assert_eq!(left, c.durable());
            assert!(states.iter().any(|s| s.len() == left.len()), "a length that never was");
            let sector = |s: &[u8], i: usize| {
                let mut b = [0; 512];
                let part = &s[(i * 512).min(s.len())..((i + 1) * 512).min(s.len())];
                b[..part.len()].copy_from_slice(part);
                b
            };
            for i in 0..left.len() / 512 {
                let is = sector(&left, i);
                // Sectors in the history of a truncation may mix, as truncation and writing are apart.
                assert!(shrunk || states.iter().any(|s| sector(s, i) == is), "seed {seed}: torn sector {i}");
            }
            if seed % 3 == 2 && !shrunk {
                assert_eq!(left, model, "survival is certain here");
            }
        }
    }

    #[test]
    fn a_late_sync_does_not_cover_later_writes() {
        let mut c = Content::default();
        c.write(1, By::Write, 0, &[1; 1024]);
        c.write(2, By::Write, 512, &[2; 1024]);
        c.sync(0, 1);
        let mut expected = vec![1; 1024];
        assert_eq!(c.durable(), expected);
        c.power_failure(&mut Random::new(0), 0.0);
        // The length survives by itself, or not; the sector of the second write does not.
        expected.resize(c.len() as usize, 0);
        assert_eq!(all(&c), expected);
    }

    #[test]
    fn lines_settle_by_words_and_fences_are_per_fiber() {
        let (mut torn, mut none, mut whole) = (0, 0, 0);
        for seed in 0..200 {
            let mut c = Content::default();
            c.set_len(1, 8192);
            c.sync(0, 1);
            c.write(2, By::Line(1), 128, &[7; 64]);
            c.write(3, By::Line(2), 4096, &[9; 64]);
            c.fence(Some(2));
            c.power_failure(&mut Random::new(seed), 0.4);
            let v = all(&c);
            assert_eq!(v[4096..4160], [9; 64], "fenced");
            let words: Vec<&[u8]> = v[128..192].chunks(8).collect();
            assert!(words.iter().all(|w| *w == [7; 8] || *w == [0; 8]), "torn word");
            match words.iter().filter(|w| w[0] == 7).count() {
                0 => none += 1,
                8 => whole += 1,
                _ => torn += 1,
            }
        }
        assert!(torn > 10 && none > 10 && whole > 10, "{torn} {none} {whole}");
    }

    #[test]
    fn lost_bytes_stay_lost() {
        let mut lost = 0;
        for seed in 0..100 {
            let mut r = Random::new(seed);
            let mut c = Content::default();
            c.write(1, By::Write, 0, &[1; 512]);
            c.sync(0, 1);
            c.write(2, By::Write, 0, &[2; 512]);
            c.lose(2, &mut r);
            c.write(3, By::Write, 1024, &[3; 512]);
            c.sync(0, 3);
            assert_eq!(all(&c)[..512], [2; 512], "readers still see the bytes");
            c.power_failure(&mut r, 1.0);
            assert_eq!(all(&c)[1024..], [3; 512]);
            lost += (all(&c)[0] == 1) as u32;
        }
        assert!((20..80).contains(&lost), "{lost}");
    }
}
