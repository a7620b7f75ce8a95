//! Where in the WAL each frame's page stands.
//!
//! A page that is new to the database, beyond its end when the WAL was begun, has a *home*: a place beside
//! its neighbours' places, whichever transactions they come in. Its first version goes there; every other
//! version goes to the *rest*, in order of arrival. So pages that single-row inserts append form long runs,
//! which a checkpoint shares as a whole.
//!
//! ```text
//! places:  [chunk 0: rest][chunk 1: homes of pages N+1..=N+128][chunk 2: rest][chunk 3: homes of N+129..=N+256] ...
//! ```
//! - **H1** No two frames of a WAL have one place: a home is given once, the rest goes forward, and a chunk
//!   serves one of the two.
//! - **H2** A frame's place follows from the pages of the frames up to it, and the database's size when the
//!   WAL was begun. So a frame that is written again for the same page, after the same frames, keeps its
//!   place; and what frames beyond it, dead since a rollback or a crash, stood in is given anew.
//! - **H3** A place, once given, is written into the frame's entry, and readers believe the entry alone.
use crate::layout::SPAN;
use ondol_base::sim::mutated;
use std::collections::HashMap;

/// Places of a chunk; it divides a span, so a chunk's places are neighbours in the file.
pub const CHUNK: u32 = 128;
const _: () = assert!(SPAN.is_multiple_of(CHUNK as u64));

/// The homes of `CHUNK` new pages.
#[derive(Clone, Copy, Debug, Default)]
struct Homes {
    chunk: u32,
    /// A bit for each page whose home is taken.
    taken: u128,
}

/// The places of the frames of one WAL so far.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Pages of the database when the WAL was begun.
    base: u32,
    /// Homes by the number of their chunk of new pages.
    homes: HashMap<u32, Homes>,
    /// The last place of the rest.
    rest: Option<u32>,
    /// Chunks in use.
    chunks: u32,
}

impl Places {
    pub fn new(base: u32) -> Places {
        Places { base, ..Places::default() }
    }
    /// A new page's chunk of new pages, and its place in it.
    fn home(&self, page: u32) -> Option<(u32, u32)> {
        let n = page.checked_sub(self.base)?.checked_sub(1)?;
        Some((n / CHUNK, n % CHUNK))
    }
    /// Whether this version of a page goes to the page's home.
    fn goes_home(&self, page: u32) -> Option<(u32, u32)> {
        self.home(page).filter(|(of, at)| {
            self.homes.get(of).is_none_or(|h| h.taken & 1 << at == 0 || mutated("places_home_twice"))
        })
    }
    /// The place for the next frame, which is for `page`.
    pub fn next(&self, page: u32) -> u32 {
        if let Some((of, at)) = self.goes_home(page) {
            return self.homes.get(&of).map_or(self.chunks, |h| h.chunk) * CHUNK + at;
        }
        match self.rest {
            Some(last) if !(last + 1).is_multiple_of(CHUNK) => last + 1,
            _ => self.chunks * CHUNK,
        }
    }
    /// Takes note of the next frame: its page, and the place it has (H3).
    pub fn note(&mut self, page: u32, place: u32) {
        let chunk = place / CHUNK;
        if let Some((of, at)) = self.goes_home(page) {
            let homes = self.homes.entry(of).or_insert(Homes { chunk, taken: 0 });
            homes.taken |= 1 << at;
        } else {
            self.rest = Some(place);
        }
        self.chunks = self.chunks.max(chunk.saturating_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn all(base: u32, pages: &[u32]) -> Vec<u32> {
        let mut places = Places::new(base);
        let give = |page: &u32| {
            let place = places.next(*page);
            places.note(*page, place);
            place
        };
        pages.iter().map(give).collect()
    }

    #[test]
    fn new_pages_stand_beside_their_neighbours() {
        // As inserts of one row arrive: page 1, a leaf and two new pages each, the leaf in several versions.
        let got = all(10, &[1, 4, 11, 12, 1, 4, 13, 14, 1, 11, 15, 1, 17]);
        assert_eq!(got, [0, 1, 128, 129, 2, 3, 130, 131, 4, 5, 132, 6, 134]);
        // A full chunk of either kind is followed by a fresh one.
        let got = all(0, &(1..=300).flat_map(|n| [1, n]).collect::<Vec<_>>());
        let homes: Vec<u32> = (2..=300).map(|n: u32| got[2 * n as usize - 1]).collect();
        assert_eq!(homes.windows(2).filter(|w| w[0] + 1 != w[1]).count(), 2, "{homes:?}");
    }

    #[test]
    fn no_place_is_given_twice_and_each_follows_from_the_frames_before() {
        let mut seed = 7u32;
        let mut random = |n: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) % n
        };
        for base in [0, 3, 500] {
            let pages: Vec<u32> = (0..3000).map(|_| 1 + random(1200)).collect();
            let got = all(base, &pages);
            assert_eq!(got.iter().collect::<HashSet<_>>().len(), got.len(), "base {base}");
            let cut = random(3000) as usize;
            assert_eq!(all(base, &pages[..cut]), got[..cut], "base {base}");
        }
    }
}
