//! Strings that are longer than a segment.
//!
//! - **L1** A string of more than [`PIECE`] bytes, which its row tells by the length, is in pieces: strings
//!   of so many bytes, but for the last. The slot that the row names has a list of theirs, 8 bytes each.
//!   Pieces and list are strings like others, and made and dropped together, so that whoever sees the list
//!   sees what it names.
use crate::heap::PIECE;
use ondol_base::sim::mutated;

/// PostgreSQL's limit of a value.
pub const LONGEST: usize = 0x3fff_ffff - 4;

/// The pieces that a list names: their slots and lengths.
pub(crate) fn pieces(list: &[u8], len: usize) -> impl Iterator<Item = (u64, usize)> {
    let slots = list.as_chunks().0.iter().map(|slot| u64::from_le_bytes(*slot));
    // The last one is shorter.
    let most = if mutated("piece_read_short") { len % PIECE } else { PIECE };
    slots.enumerate().map(move |(n, slot)| (slot, len.saturating_sub(n * PIECE).min(most)))
}

/// Appends the bytes of a string in pieces, of which `read` appends one, or says that it is not there; then
/// nothing is appended.
pub(crate) fn read_pieces(
    slot: u64,
    len: usize,
    out: &mut Vec<u8>,
    read: &mut dyn FnMut(u64, usize, &mut Vec<u8>) -> bool,
) -> bool {
    let mut list = vec![];
    if len > LONGEST || !read(slot, 8 * len.div_ceil(PIECE), &mut list) {
        return false;
    }
    let start = out.len();
    out.reserve_exact(len + 16);
    for (slot, len) in pieces(&list, len) {
        if !read(slot, len, out) {
            out.truncate(start);
            return false;
        }
    }
    true
}
