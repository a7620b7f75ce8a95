//! What the ring asks of its memory. The real one is [`crate::file::Mapping`]; the model has one that
//! forgets.

/// Memory that several processes share and that keeps, when power fails, what was fenced.
///
/// - A word (8 bytes, aligned) is never torn.
/// - Bytes of [`Memory::copy`], and the line of a [`Memory::flush`], are durable after the next
///   [`Memory::fence`] *of the same process*; before it, any subset of their words may be, in any order.
/// - A word that was [set](Memory::set) or [raised](Memory::raise) may become durable at any time, or never.
///
/// Offsets are in bytes and lie within the ring that the caller made sure of.
pub trait Memory {
    /// Says that these bytes are about to be written.
    fn near(&self, _at: usize, _len: usize) {}
    /// Stores past the cache; `at` and the length are multiples of 16.
    fn copy(&self, at: usize, bytes: &[u8]);
    /// Begins to write back the cache line of `at`.
    fn flush(&self, at: usize);
    fn fence(&self);
    /// Makes the words of the header durable as far as this memory can, if a fence does not. An error is the
    /// system's number for it.
    fn settle(&self) -> Result<(), i32> {
        Ok(())
    }
    /// Other processes may be writing these bytes: the caller proves what it read.
    fn read(&self, at: usize, to: &mut [u8]);
    /// Loads a word, acquiring.
    fn word(&self, at: usize) -> u64;
    /// Stores a word, releasing.
    fn set(&self, at: usize, value: u64);
    /// Stores the greater of the word and `value`.
    fn raise(&self, at: usize, value: u64);
    /// Adds to a word that only counts.
    fn count(&self, at: usize, more: u64);
    /// Stores `new` if the word is `old`; whether it did.
    fn exchange(&self, at: usize, old: u64, new: u64) -> bool;
}
