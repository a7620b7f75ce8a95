//! The pages of a database while it is recovered: images into memory, and the proof of what came of them
//! (protocol/P6).
//!
//! The rules recovery/V2 and recovery/V3 are kept here. What is known of a page is 8 bytes in one place,
//! since differences come in any order and each asks for it.
use crate::CommitTs;
use crate::error::RecoveryError;
use crate::image::{self, Chunk, ImageReader};
use crate::page::{Format, PAGE_SIZE, PAGES_PER_SEGMENT, PageId, SegmentId};
use crate::recovery::Target;
use crate::scan::Tables;
use ondol_base::crc::raw;
use ondol_base::pool;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A page.
pub(crate) struct Known {
    /// raw(image) XOR contributions (recovery/V3).
    pub crc: AtomicU32,
    pub format: Format,
}

/// All pages of all segments.
pub(crate) struct Pages {
    /// By segment id: its place among `segments`, or [`NONE`].
    index: Vec<u32>,
    segments: Vec<(SegmentId, CommitTs)>,
    pages: Vec<Known>,
    loaded: Vec<AtomicU64>,
    changed: Vec<AtomicU64>,
    pub dropped: BTreeSet<SegmentId>,
}
const NONE: u32 = u32::MAX;

/// Sets the bit; true if it was set before.
#[inline]
fn mark(bits: &[AtomicU64], i: usize) -> bool {
    let bit = 1 << (i % 64);
    // Most pages are hit often: look before writing.
    bits[i / 64].load(Ordering::Relaxed) & bit != 0
        || bits[i / 64].fetch_or(bit, Ordering::Relaxed) & bit != 0
}

impl Pages {
    pub fn new(tables: &Tables) -> Pages {
        let largest = tables.segments.keys().next_back().map_or(0, |id| id.0 as usize);
        let mut index = vec![NONE; largest + 1];
        let mut pages = Vec::with_capacity(tables.segments.len() * PAGES_PER_SEGMENT);
        let mut segments = vec![];
        for (id, s) in &tables.segments {
            index[id.0 as usize] = segments.len() as u32;
            segments.push((*id, s.created));
            let known = |f: &Format| Known { crc: AtomicU32::new(0), format: *f };
            pages.extend(s.segment.formats.iter().map(known));
        }
        let bits = || (0..pages.len() / 64).map(|_| AtomicU64::new(0)).collect();
        let (loaded, changed) = (bits(), bits());
        let dropped = tables.dropped.keys().copied().collect();
        Pages { index, segments, pages, loaded, changed, dropped }
    }
    /// The page's place among all.
    #[inline]
    pub fn place(&self, page: PageId) -> Option<usize> {
        let segment = *self.index.get(page.segment().0 as usize)?;
        (segment != NONE).then_some(segment as usize * PAGES_PER_SEGMENT + page.index())
    }
    #[inline]
    pub fn at(&self, place: usize) -> &Known {
        &self.pages[place]
    }
    /// Differences were applied to the page.
    #[inline]
    pub fn change(&self, place: usize) {
        mark(&self.changed, place);
    }
    pub fn changed(&self) -> Vec<PageId> {
        let mut all = vec![];
        for (i, word) in self.changed.iter().enumerate() {
            let mut word = word.load(Ordering::Relaxed);
            while word != 0 {
                let place = i * 64 + word.trailing_zeros() as usize;
                word &= word - 1;
                all.push(self.segments[place / PAGES_PER_SEGMENT].0.page(place % PAGES_PER_SEGMENT));
            }
        }
        all
    }
}

/// Loads the images of one file into pages that no newer file had (recovery/V2).
pub(crate) fn load<T: Target + ?Sized + 'static>(
    reader: Arc<ImageReader>,
    pages: &Arc<Pages>,
    target: &Arc<T>,
    threads: usize,
) -> Result<(), RecoveryError> {
    let (pages, target) = (pages.clone(), target.clone());
    pool::each_with(threads, reader.chunks.len(), move |buffer: &mut Vec<u8>, i| {
        let Chunk::Images(payload) = reader.chunk(i, buffer)? else { return Ok(()) };
        let offset = reader.chunks[i].0;
        let mut content = [0u8; PAGE_SIZE];
        for item in image::images(payload) {
            let bad = |expected: String, found: String| RecoveryError::Image {
                file: reader.name.clone(),
                offset,
                expected,
                found,
            };
            let (page, crc, packed) =
                item.map_err(|at| bad("whole images".into(), format!("a cut one {at} bytes in")))?;
            let Some(place) = pages.place(page) else { continue }; // dropped since
            let created = pages.segments[place / PAGES_PER_SEGMENT].1;
            if created > reader.at || mark(&pages.loaded, place) {
                continue; // of the segment's former life (image/I4), or older
            }
            let known = pages.at(place);
            content.fill(0);
            if !image::unpack(known.format, packed, &mut content) {
                let found = format!("{} bytes", packed.len());
                return Err(bad(format!("row bytes of {:?} for page {}", known.format, page.0), found));
            }
            let found = raw(&content);
            if found != crc {
                return Err(bad(format!("page {} of checksum {crc:08x}", page.0), format!("{found:08x}")));
            }
            known.crc.store(crc, Ordering::Relaxed);
            let words = target.words(page);
            for range in known.format.rows() {
                let (words, bytes) = (&words[range.start / 8..range.end / 8], &content[range]);
                for (w, b) in words.iter().zip(bytes.as_chunks::<8>().0) {
                    w.store(u64::from_ne_bytes(*b), Ordering::Relaxed);
                }
            }
        }
        Ok(())
    })
}

/// Checks every changed page against its equation (recovery/V3).
pub(crate) fn prove<T: Target + ?Sized + 'static>(
    changed: Vec<PageId>,
    pages: &Arc<Pages>,
    target: &Arc<T>,
    threads: usize,
) -> Result<(), RecoveryError> {
    const RUN: usize = 256;
    let (pages, target) = (pages.clone(), target.clone());
    pool::each(threads, changed.len().div_ceil(RUN), move |i| {
        let mut content = [0u8; PAGE_SIZE];
        let mut format = Format::Unformatted;
        for page in &changed[i * RUN..changed.len().min((i + 1) * RUN)] {
            let Some(place) = pages.place(*page) else { continue };
            let known = pages.at(place);
            if known.format != format {
                // Rows overwrite what the page before left; what is not a row stays zero.
                format = known.format;
                content.fill(0);
            }
            let words = target.words(*page);
            for range in format.rows() {
                let words = &words[range.start / 8..range.end / 8];
                for (w, b) in words.iter().zip(content[range].as_chunks_mut::<8>().0) {
                    *b = w.load(Ordering::Relaxed).to_ne_bytes();
                }
            }
            let (expected, found) = (known.crc.load(Ordering::Relaxed), raw(&content));
            if expected != found {
                return Err(RecoveryError::PageProof {
                    file: "memory".into(),
                    page: page.0,
                    expected,
                    found,
                });
            }
        }
        Ok(())
    })
}
