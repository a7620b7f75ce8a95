//! TLS, by rustls: a certificate with its key, and connections that are encrypted by it.
//!
//! - **L1** What is wrong with the files is told when they are read, at the start or again: a server that
//!   goes on keeps what it has. A connection keeps what it began with.
//! - **L2** [`Secured::read`] leaves nothing decrypted behind when it gives less than there is room for, as a
//!   socket does; it needs [`ROOM`].
//! - **L3** The key is read only if nobody else can: as PostgreSQL, of which the rule is.
//!
//! Not here: certificates of clients, keys that need a passphrase.
use super::io;
use ondol_base::clock;
use ondol_base::net::TcpStream;
use ondol_base::sync::Mutex;
use ondol_types::datetime::write_timestamp;
use ondol_types::{SqlError, SqlResult};
use ondol_wire::certificate;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{InconsistentKeys, ServerConfig, ServerConnection};
use std::cell::RefCell;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const CONFIG_FILE_ERROR: &str = "F0000";

/// Where a server's certificate is, followed by those of whoever signed it, and its key; in PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// What connections are encrypted by from now on.
pub(super) struct Tls {
    files: TlsFiles,
    now: Mutex<Arc<Identity>>,
}

pub(super) struct Identity {
    config: Arc<ServerConfig>,
    /// What a proof is bound to, if it can be.
    end_point: Option<Vec<u8>>,
}

fn refused(message: String) -> SqlError {
    SqlError::new(CONFIG_FILE_ERROR, message)
}

/// L3
fn look_at_key(path: &Path) -> SqlResult<()> {
    let file = format!("private key file \"{}\"", path.display());
    let found = std::fs::metadata(path).map_err(|e| refused(format!("could not access {file}: {e}")))?;
    if !found.is_file() {
        return Err(refused(format!("{file} is not a regular file")));
    }
    let own = ondol_base::net::own_user();
    if found.uid() != own && found.uid() != 0 {
        return Err(refused(format!("{file} must be owned by the database user or root")));
    }
    let others = if found.uid() == 0 && own != 0 { 0o037 } else { 0o077 };
    if found.mode() & others != 0 {
        return Err(refused(format!("{file} has group or world access")).detail(
            "File must have permissions u=rw (0600) or less if owned by the database user, or permissions \
             u=rw,g=r (0640) or less if owned by root.",
        ));
    }
    Ok(())
}

fn unreadable(file: &str, path: &Path, e: &pem::Error, wanted: &str) -> SqlError {
    let found = match e {
        pem::Error::NoItemsFound => format!("it has no {wanted} in PEM"),
        pem::Error::Io(e) => e.to_string(),
        other => format!("{other:?}"),
    };
    refused(format!("could not load {file} file \"{}\": {found}", path.display()))
}

/// As PostgreSQL shows times in its log, in UTC.
fn shown(second: i64) -> String {
    let micros = second.saturating_mul(1_000_000).saturating_sub(super::login::UNIX_TO_2000_US);
    let mut text = String::new();
    write_timestamp(micros, &mut text);
    text + " UTC"
}

impl Identity {
    fn read(files: &TlsFiles) -> SqlResult<Identity> {
        let TlsFiles { certificate: path, key: key_path } = files;
        let bad = |e: pem::Error| unreadable("server certificate", path, &e, "certificate");
        let read = CertificateDer::pem_file_iter(path).map_err(bad)?;
        let chain: Vec<CertificateDer<'static>> = read.collect::<std::result::Result<_, _>>().map_err(bad)?;
        let own = chain.first().ok_or_else(|| bad(pem::Error::NoItemsFound))?;
        let file = format!("server certificate file \"{}\"", path.display());
        let (from, until) = certificate::validity(own).ok_or_else(|| {
            refused(format!("could not load {file}: its certificate is no X.509 certificate"))
        })?;
        let now = clock::wall_us() / 1_000_000;
        if now > until {
            let hint = "Put a new one in its place, or serve without TLS.";
            let message = format!("the certificate in {file} has expired, on {}", shown(until));
            return Err(refused(message).hint(hint));
        }
        if now < from {
            let message = format!("the certificate in {file} is good only from {} on", shown(from));
            return Err(refused(message).hint("Is this machine's clock right?"));
        }
        let end_point = certificate::end_point(own);
        look_at_key(key_path)?;
        let key = PrivateKeyDer::from_pem_file(key_path).map_err(|e| {
            let e = unreadable("private key", key_path, &e, "private key");
            e.hint("Keys that need a passphrase are not supported.")
        })?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map(|b| b.with_no_client_auth())
            .and_then(|b| b.with_single_cert(chain, key))
            .map_err(|e| {
                refused(match e {
                    rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => format!(
                        "check of private key failed: the key in \"{}\" is not that of the certificate in \"{}\"",
                        key_path.display(),
                        path.display()
                    ),
                    e => format!(
                        "could not use the certificate in \"{}\" with the key in \"{}\": {e}",
                        path.display(),
                        key_path.display()
                    ),
                })
            })?;
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Identity { config: Arc::new(config), end_point })
    }
}

impl Tls {
    pub fn new(files: &TlsFiles) -> SqlResult<Tls> {
        Ok(Tls { files: files.clone(), now: Mutex::new(Arc::new(Identity::read(files)?)) })
    }
    /// Reads the files again, for connections from now on.
    pub fn reload(&self) -> SqlResult<()> {
        let read = Arc::new(Identity::read(&self.files)?);
        *self.now.lock() = read;
        Ok(())
    }
    pub fn secure(&self, socket: TcpStream) -> SqlResult<Secured> {
        let identity = self.now.lock().clone();
        let tls = ServerConnection::new(identity.config.clone())
            .map_err(|e| io("could not begin a TLS connection", &Error::other(e)))?;
        Ok(Secured { socket, tls: RefCell::new(tls), identity })
    }
}

/// A socket, and what is encrypted over it.
pub(super) struct Secured {
    pub socket: TcpStream,
    tls: RefCell<ServerConnection>,
    identity: Arc<Identity>,
}

/// Bytes that the library may have decrypted after one read of the socket.
const DECRYPTED: usize = 24 << 10;
/// Bytes of room that a read needs (L2).
pub(super) const ROOM: usize = 32 << 10;
/// Bytes that the library takes from a socket in one go.
const PIECE: usize = 4096;

impl Secured {
    /// What `tls-server-end-point` names.
    pub fn end_point(&self) -> Option<&[u8]> {
        self.identity.end_point.as_deref()
    }
    /// The version of the protocol, and the cipher.
    pub fn terms(&self) -> Option<(&'static str, String)> {
        let tls = self.tls.borrow();
        let version = match tls.protocol_version()? {
            rustls::ProtocolVersion::TLSv1_2 => "TLSv1.2",
            _ => "TLSv1.3",
        };
        let cipher = tls.negotiated_cipher_suite()?.suite().as_str()?;
        Some((version, cipher.replace("TLS13_", "TLS_")))
    }

    fn push(&self, tls: &mut ServerConnection) -> Result<()> {
        while tls.wants_write() {
            tls.write_tls(&mut &self.socket)?;
        }
        Ok(())
    }
    /// Sends what is encrypted already.
    pub fn flush(&self) -> Result<()> {
        self.push(&mut self.tls.borrow_mut())
    }
    /// Something is encrypted, and not sent.
    pub fn is_holding(&self) -> bool {
        self.tls.borrow().wants_write()
    }

    /// L2
    pub fn read(&self, room: &mut [u8]) -> Result<usize> {
        let mut tls = self.tls.borrow_mut();
        let (mut n, mut is_drained) = (0, false);
        loop {
            while n < room.len() {
                match tls.reader().read(&mut room[n..]) {
                    Ok(0) => return Ok(n),
                    Ok(more) => n += more,
                    Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                    // It ended without saying so: what is above looks at messages' ends.
                    Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Ok(n),
                    Err(e) => return Err(e),
                }
            }
            if n > 0 && (is_drained || room.len() - n < DECRYPTED) {
                return Ok(n);
            }
            match tls.read_tls(&mut &self.socket) {
                Ok(more) => is_drained = more < PIECE,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == ErrorKind::WouldBlock && n > 0 => return Ok(n),
                Err(e) => return Err(e),
            }
            let processed = tls.process_new_packets();
            match self.push(&mut tls) {
                Err(e) if e.kind() != ErrorKind::WouldBlock => return Err(e),
                _ => {}
            }
            processed.map_err(|e| Error::new(ErrorKind::InvalidData, e))?;
        }
    }
    /// Takes a part of `bytes`, if what it has taken before is sent.
    pub fn write(&self, bytes: &[u8]) -> Result<usize> {
        let mut tls = self.tls.borrow_mut();
        self.push(&mut tls)?;
        let n = tls.writer().write(bytes)?;
        match self.push(&mut tls) {
            Err(e) if e.kind() != ErrorKind::WouldBlock => Err(e),
            _ => Ok(n),
        }
    }
}

impl Drop for Secured {
    fn drop(&mut self) {
        let mut tls = self.tls.borrow_mut();
        tls.send_close_notify();
        // Who is gone already needs no farewell.
        let _ = self.push(&mut tls);
    }
}
