//! What carries the messages.
use crate::MemoryStream;
use crate::address::{Address, Encryption, SharedMemory, TO_CONNECT};
use crate::message::garbled;
#[cfg(feature = "tls")]
use crate::tls;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// What a client sends first by TCP, if it would like TLS: a length, and PostgreSQL's code for that.
const WANTS_TLS: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

pub enum Carrier {
    Memory(Box<MemoryStream>),
    Unix(UnixStream),
    Tcp(TcpStream),
    #[cfg(feature = "tls")]
    Tls(Box<tls::Encrypted>),
}

impl Carrier {
    /// As the address wants it.
    pub fn open(address: &Address) -> Result<Carrier> {
        let wants = address.memory;
        if let Some(socket) = address.socket().filter(|_| wants != SharedMemory::Disable) {
            match MemoryStream::connect(&socket) {
                Ok(stream) => return Ok(Carrier::Memory(Box::new(stream))),
                // The server has no memory, or is none of ours: it talks over the socket.
                Err(e)
                    if wants == SharedMemory::Prefer
                        && matches!(e.kind(), ErrorKind::OutOfMemory | ErrorKind::Unsupported) => {}
                Err(e) => return Err(e),
            }
        }
        match address.dial(TO_CONNECT)? {
            Carrier::Tcp(socket) => Carrier::encrypt(address, socket),
            other => Ok(other),
        }
    }

    fn encrypt(address: &Address, mut socket: TcpStream) -> Result<Carrier> {
        if address.encryption == Encryption::Disable {
            return Ok(Carrier::Tcp(socket));
        }
        #[cfg(not(feature = "tls"))]
        if address.encryption == Encryption::Prefer {
            return Ok(Carrier::Tcp(socket));
        }
        socket.set_read_timeout(Some(TO_CONNECT))?;
        socket.write_all(&WANTS_TLS)?;
        let mut answer = [0];
        socket.read_exact(&mut answer)?;
        match &answer {
            #[cfg(feature = "tls")]
            b"S" => tls::encrypted(address, socket).map(Carrier::Tls),
            #[cfg(not(feature = "tls"))]
            b"S" => Err(Error::new(ErrorKind::Unsupported, "TLS is not built in (the feature \"tls\")")),
            b"N" if address.encryption == Encryption::Prefer => Ok(Carrier::Tcp(socket)),
            b"N" => Err(Error::other("the server does not support TLS, but sslmode requires it")),
            _ => Err(garbled()),
        }
    }

    /// How long a read waits: then it is an error, `WouldBlock` or `TimedOut`.
    pub fn set_timeout(&mut self, limit: Option<Duration>) -> Result<()> {
        match self {
            Carrier::Memory(s) => {
                s.set_read_timeout(limit);
                Ok(())
            }
            Carrier::Unix(s) => s.set_read_timeout(limit),
            Carrier::Tcp(s) => s.set_read_timeout(limit),
            #[cfg(feature = "tls")]
            Carrier::Tls(s) => s.sock.set_read_timeout(limit),
        }
    }
    /// What a password's proof is bound to, where it is encrypted and can be bound.
    pub fn end_point(&self) -> Option<Vec<u8>> {
        match self {
            #[cfg(feature = "tls")]
            Carrier::Tls(s) => tls::end_point(s),
            _ => None,
        }
    }
    fn stream(&mut self) -> &mut dyn Both {
        match self {
            Carrier::Memory(s) => s,
            Carrier::Unix(s) => s,
            Carrier::Tcp(s) => s,
            #[cfg(feature = "tls")]
            Carrier::Tls(s) => s,
        }
    }
}

trait Both: Read + Write {}
impl<T: Read + Write> Both for T {}

impl Read for Carrier {
    fn read(&mut self, room: &mut [u8]) -> Result<usize> {
        self.stream().read(room)
    }
}
impl Write for Carrier {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.stream().write(bytes)
    }
    fn flush(&mut self) -> Result<()> {
        self.stream().flush()
    }
}
