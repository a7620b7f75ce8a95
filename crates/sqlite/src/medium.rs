//! The files below us, as a trait: SQLite's own (`below`) while it runs, and the simulator's in tests.
use std::io;

/// One file. Offsets and lengths are the file's own, not SQLite's view of it.
#[allow(clippy::len_without_is_empty)] // The length is asked of the medium and may fail; emptiness is nobody's question.
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

impl Medium for dyn ondol_base::media::File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        ondol_base::media::File::read_at(self, buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        ondol_base::media::File::write_at(self, buf, offset)
    }
    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
    fn len(&self) -> io::Result<u64> {
        ondol_base::media::File::len(self)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        ondol_base::media::File::set_len(self, len)
    }
}
