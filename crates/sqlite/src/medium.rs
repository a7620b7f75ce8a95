//! The files below us, as a trait: SQLite's own (`below`) while it runs, and the simulator's in tests.
use ondol_base::media::File;
use std::io;
use std::sync::Arc;

/// One file. Offsets and lengths are the file's own, not SQLite's view of it.
// The length is asked of the medium and may fail; emptiness is nobody's question.
#[allow(clippy::len_without_is_empty)]
pub trait Medium {
    /// Fills `buf` from `offset`; fewer bytes only at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `buf`, growing the file.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Makes bytes and length durable.
    fn sync(&self) -> io::Result<()>;
    fn len(&self) -> io::Result<u64>;
    fn set_len(&self, len: u64) -> io::Result<()>;
}

impl Medium for Arc<dyn File> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        (**self).write_at(buf, offset)
    }
    fn sync(&self) -> io::Result<()> {
        (**self).sync_data()
    }
    fn len(&self) -> io::Result<u64> {
        (**self).len()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        (**self).set_len(len)
    }
}
