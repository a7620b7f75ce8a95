//! A stream: a buffer that is filled while its twin is written, and the writer that turns a sealed buffer
//! into a block.
//!
//! - **S1** Space in a buffer is given out under the commit latch, and filled outside by whoever got it.
//!   `copied` counts the words filled; a sealed buffer is whole when `copied` equals the words given out.
//! - **S2** A buffer is sealed only when its twin is free: rounds of one log do not overlap.
//! - **S3** Words are atomics, stored relaxed and published by the release addition to `copied`; the writer
//!   reads them after an acquire load of it.
use crate::block::{self, Header, Participants};
use crate::files::LogFile;
use crate::{CommitTs, error::LogError};
use ondol_base::sync::{Condvar, Mutex, spin_wait};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

const CHUNK: usize = 8 << 10; // words

/// A buffer of words whose memory comes when it is first used.
pub(crate) struct Buffer {
    chunks: Vec<OnceLock<Box<[AtomicU64]>>>,
    copied: AtomicU64,
}

impl Buffer {
    pub fn new(bytes: usize) -> Buffer {
        Buffer {
            chunks: (0..bytes.div_ceil(8 * CHUNK)).map(|_| OnceLock::new()).collect(),
            copied: AtomicU64::new(0),
        }
    }
    fn chunk(&self, i: usize) -> &[AtomicU64] {
        self.chunks[i].get_or_init(|| (0..CHUNK).map(|_| AtomicU64::new(0)).collect())
    }

    /// Fills `total` words from `at` on: `head`, then `body`, then zeros (S1).
    #[inline]
    pub fn put(&self, at: usize, head: &[u64], body: &[u8], total: usize) {
        let mut words = body.chunks_exact(8);
        let mut tail = [0u8; 8];
        tail[..words.remainder().len()].copy_from_slice(words.remainder());
        let mut tail = (!words.remainder().is_empty()).then_some(u64::from_le_bytes(tail));
        let mut head = head.iter();
        let mut next = || match head.next() {
            Some(w) => *w,
            None => match words.next() {
                Some(w) => w.try_into().map_or(0, u64::from_le_bytes),
                None => tail.take().unwrap_or(0),
            },
        };
        let mut i = at;
        let end = at + total;
        while i < end {
            let chunk = self.chunk(i / CHUNK);
            let from = i % CHUNK;
            let n = (end - i).min(CHUNK - from);
            for w in &chunk[from..from + n] {
                w.store(next(), Ordering::Relaxed);
            }
            i += n;
        }
        self.copied.fetch_add(total as u64, Ordering::Release);
    }

    /// Waits until all `used` words are filled.
    pub fn wait(&self, used: usize) {
        let mut n = 0;
        while self.copied.load(Ordering::Acquire) != used as u64 {
            spin_wait(n);
            n = n.saturating_add(1);
        }
    }
    /// The buffer was written and is free.
    pub fn recycle(&self) {
        self.copied.store(0, Ordering::Relaxed);
    }
    fn read(&self, out: &mut [u8]) {
        for (i, part) in out.chunks_mut(8 * CHUNK).enumerate() {
            for (w, b) in self.chunk(i).iter().zip(part.chunks_exact_mut(8)) {
                b.copy_from_slice(&w.load(Ordering::Relaxed).to_le_bytes());
            }
        }
    }
}

/// What a participant of a round writes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Job {
    pub stream: u16,
    pub buffer: usize,
    /// Words.
    pub used: usize,
    pub base: CommitTs,
    pub position: u64,
    /// The block goes to the next file.
    pub rotate: bool,
    pub round: u64,
    pub closed: CommitTs,
    pub durable_round: u64,
    pub participants: Participants,
}

/// A file that is no longer written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OldFile {
    pub number: u64,
    pub size: u64,
    /// No block in it is of a later round.
    pub last_round: u64,
}

/// The file being written and the one prepared behind it.
pub(crate) struct Writer {
    pub current: LogFile,
    pub offset: u64,
    pub next: Option<LogFile>,
    pub old: Vec<OldFile>,
    pub last_round: u64,
    block: Vec<u8>,
}

impl Writer {
    pub fn new(current: LogFile, last_round: u64) -> Writer {
        Writer {
            current,
            offset: 0,
            next: None,
            old: vec![],
            last_round,
            block: Vec::with_capacity(64 << 10),
        }
    }

    /// Writes and syncs one block. An error is final for the stream (protocol/P7).
    pub fn write(
        &mut self,
        job: &Job,
        buffer: &Buffer,
        database: u128,
        incarnation: u64,
    ) -> Result<(), LogError> {
        let failed = |file: u64, why: String| LogError::Failed {
            stream: job.stream,
            file: crate::files::file_name(file),
            why,
        };
        if job.rotate {
            let Some(next) = self.next.take() else {
                return Err(failed(self.current.number, "no file was prepared for the next block".into()));
            };
            self.old.push(OldFile {
                number: self.current.number,
                size: self.current.size,
                last_round: self.last_round,
            });
            self.current = next;
            self.offset = 0;
        }
        let header = Header {
            database,
            incarnation,
            file: self.current.number,
            offset: self.offset,
            stream: job.stream,
            position: job.position,
            round: job.round,
            closed: job.closed,
            durable_round: job.durable_round,
            base: job.base,
            payload: job.used as u64 * 8,
            next_file: self.next.as_ref().map_or(0, |f| f.number),
            participants: job.participants,
        };
        let len = header.block_len();
        if self.block.len() < len {
            self.block.resize(len, 0);
        }
        let block = &mut self.block[..len];
        let start = header.len();
        let end = start + job.used * 8;
        buffer.read(&mut block[start..end]);
        block[end..].fill(0);
        header.seal(block);
        debug_assert!(len.is_multiple_of(block::ALIGN) && self.offset + len as u64 <= self.current.size);
        let file = &self.current.file;
        file.write_at(block, self.offset).map_err(|e| failed(self.current.number, format!("write: {e}")))?;
        ondol_base::sync::yield_point();
        let synced = match file.sync_data() {
            Err(_) if ondol_base::sim::mutated("sync_retried") => file.sync_data(),
            synced => synced,
        };
        synced.map_err(|e| failed(self.current.number, format!("sync: {e}")))?;
        self.offset += len as u64;
        self.last_round = job.round;
        Ok(())
    }
}

/// A persistent thread's mailbox, for the streams beyond the leader's own.
#[derive(Default)]
pub(crate) struct Helper {
    state: Mutex<Mail>,
    bell: Condvar,
}
#[derive(Default)]
enum Mail {
    #[default]
    Empty,
    Job(Box<Job>),
    Done(Result<(), LogError>),
    Stop,
}
impl Helper {
    pub fn start(&self, job: Job) {
        *self.state.lock() = Mail::Job(Box::new(job));
        self.bell.notify_all();
    }
    pub fn finish(&self) -> Result<(), LogError> {
        let mut state = self.state.lock();
        loop {
            if let Mail::Done(result) = &*state {
                let result = result.clone();
                *state = Mail::Empty;
                return result;
            }
            state = self.bell.wait(state);
        }
    }
    pub fn stop(&self) {
        *self.state.lock() = Mail::Stop;
        self.bell.notify_all();
    }
    /// The helper's thread.
    pub fn serve(&self, write: impl Fn(&Job) -> Result<(), LogError>) {
        let mut state = self.state.lock();
        loop {
            match std::mem::take(&mut *state) {
                Mail::Stop => return,
                Mail::Job(job) => {
                    drop(state);
                    let result = write(&job);
                    state = self.state.lock();
                    if !matches!(&*state, Mail::Stop) {
                        *state = Mail::Done(result);
                    }
                    self.bell.notify_all();
                }
                other => {
                    *state = other;
                    state = self.bell.wait(state);
                }
            }
        }
    }
}
