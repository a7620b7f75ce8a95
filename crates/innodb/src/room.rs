//! Memory that is appended to, and used again without being cleared.

/// Bytes of which some count; behind their end is room, so that values can be copied by whole chunks. What
/// stands there means nothing.
#[derive(Default)]
pub struct Room {
    bytes: Vec<u8>,
    end: usize,
}

impl Room {
    /// Takes memory whose content does not count.
    pub fn of(bytes: Vec<u8>) -> Room {
        Room { bytes, end: 0 }
    }
    pub fn len(&self) -> usize {
        self.end
    }
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.end]
    }
    /// The bytes that count, and what is behind them.
    pub fn all(&self) -> &[u8] {
        &self.bytes
    }
    /// The same, with room for so many more.
    pub fn with_room(&mut self, more: usize) -> &mut [u8] {
        let needed = self.end + more;
        if self.bytes.len() < needed {
            self.bytes.resize(needed, 0);
        }
        &mut self.bytes
    }
    /// So many bytes count now, of what there is.
    pub fn set_len(&mut self, end: usize) {
        self.end = end.min(self.bytes.len());
    }
    pub fn push(&mut self, bytes: &[u8]) {
        let (from, end) = (self.end, self.end + bytes.len());
        self.with_room(bytes.len())[from..end].copy_from_slice(bytes);
        self.end = end;
    }
    /// The bytes that count; it begins anew, without memory.
    pub fn take(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.truncate(self.end);
        self.end = 0;
        bytes
    }
}
