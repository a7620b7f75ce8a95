//! A stream that waits.
use ondol_base::net::Interest;
use ondol_base::shm::{End, Patience, REQUEST};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The socket's name in a database's folder.
const SOCKET: &str = ".s.PGSQL.5432";
/// In which a server has to answer the wish for memory.
const TO_ANSWER: Duration = Duration::from_secs(10);

/// A connection to Ondol's server in memory that both have. Reads and writes wait as those of a socket do:
/// for some microseconds awake, if that has paid lately, then asleep.
///
/// ```no_run
/// # fn main() -> std::io::Result<()> {
/// let stream = ondol_client::MemoryStream::connect("data")?; // as `ondol serve data` has it
/// # Ok(())
/// # }
/// ```
pub struct MemoryStream {
    end: End,
    patience: Patience,
    read_limit: Option<Duration>,
    write_limit: Option<Duration>,
}

/// The socket of what is a database's folder, or a socket.
fn socket_of(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(SOCKET) } else { path.into() }
}

/// The end of a client, by a database's folder or its server's socket.
pub(crate) fn connect(path: &Path) -> Result<End> {
    let socket = socket_of(path);
    let told = |e: Error| Error::new(e.kind(), format!("{}: {e}", socket.display()));
    let mut stream = UnixStream::connect(&socket).map_err(told)?;
    stream.set_read_timeout(Some(TO_ANSWER)).map_err(told)?;
    stream.write_all(&REQUEST).map_err(told)?;
    let end = End::accept(stream).map_err(|e| match e.kind() {
        ErrorKind::WouldBlock => {
            let message = format!("{}: the server does not answer the wish for memory", socket.display());
            Error::new(ErrorKind::TimedOut, message)
        }
        ErrorKind::InvalidData => {
            let message =
                format!("{}: this server is not Ondol's, or is an older one: {e}", socket.display());
            Error::new(ErrorKind::Unsupported, message)
        }
        _ => told(e),
    })?;
    end.ok_or_else(|| {
        let message = format!("{}: the server has no memory to share", socket.display());
        Error::new(ErrorKind::OutOfMemory, message)
    })
}

impl MemoryStream {
    /// `path` is the folder of a database that a server has, or the server's Unix socket.
    ///
    /// # Errors
    /// Those of connecting the socket; `Unsupported` where a server is not Ondol's; `OutOfMemory` where it
    /// has no memory to share.
    pub fn connect(path: impl AsRef<Path>) -> Result<MemoryStream> {
        let (end, patience) = (connect(path.as_ref())?, Patience::default());
        Ok(MemoryStream { end, patience, read_limit: None, write_limit: None })
    }
    /// How long a read waits at most; by default for ever. After that it is an error, `TimedOut`.
    pub fn set_read_timeout(&mut self, limit: Option<Duration>) {
        self.read_limit = limit
    }
    /// The same of a write.
    pub fn set_write_timeout(&mut self, limit: Option<Duration>) {
        self.write_limit = limit
    }
}

impl Read for MemoryStream {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        self.end.waiting(Interest::READ, &mut self.patience, self.read_limit, |end| end.read(into))
    }
}

impl Write for MemoryStream {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let until = Interest { read: false, write: true };
        self.end.waiting(until, &mut self.patience, self.write_limit, |end| end.write(bytes))
    }
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}
