//! The scan pipeline: a table is cut into parts, workers read and convert each part whole, and one thread
//! gathers what they made.
//!
//! It knows no source: InnoDB's files, for one, give parts and read them; an *output* ([`csv`], `arrow`,
//! `parquet`) says what rows become.

#[cfg(feature = "columnar")]
pub mod arrow;
pub mod csv;
#[cfg(feature = "columnar")]
pub mod parquet;
pub mod pipeline;

/// An error of a library's, with the kind of the medium's error that it wraps, if it does.
#[cfg(feature = "columnar")]
fn as_io(e: impl std::error::Error + Send + Sync + 'static) -> std::io::Error {
    let mut kind = std::io::ErrorKind::Other;
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&e);
    while let Some(found) = cause {
        if let Some(io) = found.downcast_ref::<std::io::Error>() {
            kind = io.kind();
            return std::io::Error::new(kind, io.to_string());
        }
        cause = found.source();
    }
    std::io::Error::new(kind, e.to_string())
}

/// Counts what passes through it.
#[cfg(feature = "columnar")]
struct Counted<W> {
    inner: W,
    /// Bytes.
    written: u64,
}
#[cfg(feature = "columnar")]
impl<W: std::io::Write> std::io::Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let n = self.inner.write(bytes)?;
        self.written += n as u64;
        Ok(n)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}
