//! A database that a server has, for the shell: a client of PostgreSQL's protocol that runs simple queries.
//!
//! - **N1** A statement's outcome is told as a session of our own tells it ([`Output`]), so that it looks the
//!   same. Numbers and booleans are values again, all else stays the text that the server sent.
//! - **N2** Ctrl-C asks the server, over a connection of its own, to break off what it does; the statement
//!   ends when the server says so.
//! - **N3** A password is proved, never sent, and bound to the server's certificate where that can be: so
//!   that `sslmode=require`, which does not look at who has signed the certificate, still finds out somebody
//!   who stands between.
use super::Failed;
use ondol::server::{DATABASE, PORT};
use ondol::{Column, CopiedRows, Error, Output, Rows, Type, TypeId, USER};
use ondol_base::cancel::Cancel;
use ondol_types::func::Context;
use ondol_types::ty::Category;
use ondol_types::{Value, ValueRef, text};
use ondol_wire::certificate;
use ondol_wire::scram::{MECHANISM, PLUS};
use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    StreamOwned,
};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Whether the connection is encrypted, as libpq's sslmode says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Encryption {
    Disable,
    /// If the server can.
    Prefer,
    Require,
    /// The certificate is signed by one of `sslrootcert`, and the host's own.
    VerifyFull,
}

/// Where a server is, and as whom to go there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    /// A folder with its socket, if it begins with a slash.
    host: String,
    port: u16,
    user: String,
    password: Option<String>,
    database: String,
    encryption: Encryption,
    roots: Option<PathBuf>,
}

fn wrong(message: impl Into<String>) -> Failed {
    Failed::Message(message.into())
}

/// Percent signs and two digits are a byte.
fn decoded(text: &str) -> Result<String, Failed> {
    let bad = || wrong(format!("\"{text}\": expected two hexadecimal digits after each %, and UTF-8"));
    let mut bytes = vec![];
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        bytes.push(match first {
            b'%' => {
                let (digits, behind) = rest.split_first_chunk::<2>().ok_or_else(bad)?;
                rest = behind;
                let digits = std::str::from_utf8(digits).map_err(|_| bad())?;
                u8::from_str_radix(digits, 16).map_err(|_| bad())?
            }
            b => *b,
        })
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

impl Address {
    /// `postgres://USER:PASSWORD@HOST:PORT/DATABASE?NAME=VALUE&...`; nothing if it is a path.
    pub fn parse(text: &str) -> Result<Option<Address>, Failed> {
        let Some(rest) = text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"))
        else {
            return Ok(None);
        };
        let (rest, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (who, place) = place.rsplit_once('@').unwrap_or(("", place));
        let (user, password) = match who.split_once(':') {
            Some((user, password)) => (user, Some(decoded(password)?)),
            None => (who, None),
        };
        let (host, port) = match place.strip_prefix('[').and_then(|p| p.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':').unwrap_or_default()),
            None => place.rsplit_once(':').unwrap_or((place, "")),
        };
        let mut found = Address {
            host: decoded(host)?,
            port: PORT,
            user: decoded(user)?,
            password,
            database: decoded(database)?,
            encryption: Encryption::Prefer,
            roots: None,
        };
        let number =
            |port: &str| port.parse().map_err(|_| wrong(format!("\"{port}\" is no number of a port")));
        if !port.is_empty() {
            found.port = number(port)?
        }
        for parameter in parameters.split('&').filter(|p| !p.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let value = decoded(value)?;
            match name {
                "host" => found.host = value,
                "port" => found.port = number(&value)?,
                "user" => found.user = value,
                "password" => found.password = Some(value),
                "dbname" => found.database = value,
                "sslrootcert" => found.roots = Some(value.into()),
                "sslmode" => {
                    found.encryption = match value.as_str() {
                        "disable" => Encryption::Disable,
                        "prefer" => Encryption::Prefer,
                        "require" => Encryption::Require,
                        "verify-full" => Encryption::VerifyFull,
                        other => {
                            return Err(wrong(format!(
                                "sslmode \"{other}\": expected disable, prefer, require or verify-full"
                            )));
                        }
                    }
                }
                other => {
                    return Err(wrong(format!(
                        "\"{other}\" in a connection's address: expected dbname, host, password, port, \
                         sslmode, sslrootcert or user"
                    )));
                }
            }
        }
        let or = |text: &mut String, other: &str| {
            if text.is_empty() {
                *text = other.to_string()
            }
        };
        or(&mut found.host, "127.0.0.1");
        or(&mut found.user, USER);
        or(&mut found.database, DATABASE);
        if found.encryption == Encryption::VerifyFull && found.roots.is_none() {
            return Err(wrong("sslmode=verify-full needs sslrootcert, a file of certificates that may sign"));
        }
        Ok(Some(found))
    }

    /// By a socket in a database's folder, if a server listens there.
    pub fn in_folder(folder: &Path) -> Option<Address> {
        let folder = std::path::absolute(folder).ok()?;
        let names = std::fs::read_dir(&folder).ok()?.filter_map(|e| e.ok()?.file_name().into_string().ok());
        let ports = names.filter_map(|n| n.strip_prefix(".s.PGSQL.")?.parse::<u16>().ok());
        let found = ports.map(|port| Address {
            host: folder.to_string_lossy().into_owned(),
            port,
            user: USER.into(),
            password: None,
            database: DATABASE.into(),
            encryption: Encryption::Disable,
            roots: None,
        });
        found.into_iter().find(|a| a.dial().is_ok())
    }
    /// A socket's whole name.
    fn socket(&self) -> Option<PathBuf> {
        self.host.starts_with('/').then(|| Path::new(&self.host).join(format!(".s.PGSQL.{}", self.port)))
    }
    fn dial(&self) -> io::Result<Wire> {
        Ok(match self.socket() {
            Some(path) => Wire::Unix(UnixStream::connect(path)?),
            None => {
                let stream = TcpStream::connect((self.host.as_str(), self.port))?;
                stream.set_nodelay(true)?;
                Wire::Tcp(stream)
            }
        })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.socket() {
            Some(path) => f.write_str(&path.display().to_string()),
            None => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

enum Wire {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Wire {
    fn patient(&self, time: Duration) -> io::Result<()> {
        match self {
            Wire::Unix(s) => s.set_read_timeout(Some(time)),
            Wire::Tcp(s) => s.set_read_timeout(Some(time)),
            Wire::Tls(s) => s.sock.set_read_timeout(Some(time)),
        }
    }
}

impl Read for Wire {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Unix(s) => s.read(room),
            Wire::Tcp(s) => s.read(room),
            Wire::Tls(s) => s.read(room),
        }
    }
}
impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Wire::Unix(s) => s.write(bytes),
            Wire::Tcp(s) => s.write(bytes),
            Wire::Tls(s) => s.write(bytes),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Wire::Unix(s) => s.flush(),
            Wire::Tcp(s) => s.flush(),
            Wire::Tls(s) => s.flush(),
        }
    }
}

/// Whether the server has its certificate's key, and whom the certificate is from if there are roots (N3).
#[derive(Debug)]
struct Verifier {
    algorithms: WebPkiSupportedAlgorithms,
    roots: Option<Roots>,
}

/// Take a certificate that one of them has signed, or that is one of them: also such as is an authority of
/// its own, which rustls takes for nobody's (N3).
#[derive(Debug)]
struct Roots {
    roots: Vec<CertificateDer<'static>>,
    usual: Arc<WebPkiServerVerifier>,
}

impl Roots {
    fn verify(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let done = self.usual.verify_server_cert(own, between, name, stapled, now);
        let is_other = matches!(&done, Err(rustls::Error::InvalidCertificate(CertificateError::Other(_))));
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let is_good =
            || certificate::validity(own).is_some_and(|(from, until)| (from..=until).contains(&seconds));
        if !is_other || !self.roots.contains(own) || !is_good() {
            return done;
        }
        verify_server_name(&ParsedCertificate::try_from(own)?, name)?;
        Ok(ServerCertVerified::assertion())
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match &self.roots {
            Some(roots) => roots.verify(own, between, name, stapled, now),
            None => Ok(ServerCertVerified::assertion()),
        }
    }
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn encrypted(address: &Address, socket: TcpStream) -> io::Result<Wire> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let roots = match &address.roots {
        Some(path) if address.encryption == Encryption::VerifyFull => {
            let named = |e: &dyn std::fmt::Debug| io::Error::other(format!("{}: {e:?}", path.display()));
            let read = CertificateDer::pem_file_iter(path).map_err(|e| named(&e))?;
            let roots: Vec<CertificateDer<'static>> =
                read.collect::<Result<_, _>>().map_err(|e| named(&e))?;
            let mut store = RootCertStore::empty();
            for root in &roots {
                store.add(root.clone()).map_err(io::Error::other)?
            }
            let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider.clone());
            Some(Roots { roots, usual: usual.build().map_err(io::Error::other)? })
        }
        _ => None,
    };
    let verifier = Arc::new(Verifier { algorithms: provider.signature_verification_algorithms, roots });
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    let name = ServerName::try_from(address.host.clone()).map_err(io::Error::other)?;
    let connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    Ok(Wire::Tls(Box::new(StreamOwned::new(connection, socket))))
}

/// A message of the server's.
struct Message {
    kind: u8,
    body: Vec<u8>,
}

/// What is left of a message.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn bytes<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(garbled)?;
        self.0 = rest;
        Ok(*taken)
    }
    fn take(&mut self, n: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n).ok_or_else(garbled)?;
        self.0 = rest;
        Ok(taken)
    }
    fn i16(&mut self) -> io::Result<i16> {
        self.bytes().map(i16::from_be_bytes)
    }
    fn i32(&mut self) -> io::Result<i32> {
        self.bytes().map(i32::from_be_bytes)
    }
    fn text(&mut self) -> io::Result<&'a str> {
        let end = self.0.iter().position(|b| *b == 0).ok_or_else(garbled)?;
        let text = std::str::from_utf8(&self.0[..end]).map_err(|_| garbled())?;
        self.0 = &self.0[end + 1..];
        Ok(text)
    }
}

fn garbled() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the server sent a message that is none of PostgreSQL's protocol")
}

/// A SQLSTATE that a server sent. There are few, and each is kept once.
fn sqlstate(text: &str) -> &'static str {
    static KNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut known = KNOWN.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(found) = known.get(text) {
        return found;
    }
    let kept: &'static str = Box::leak(text.to_string().into_boxed_str());
    known.insert(kept);
    kept
}

/// An error or a notice: with its severity.
fn report(body: &[u8], sql: &str) -> io::Result<(String, Error)> {
    let mut body = Body(body);
    let mut severity = String::new();
    let mut e = Error::new("XX000", "");
    loop {
        let [code] = body.bytes()?;
        if code == 0 {
            return Ok((severity, e));
        }
        let text = body.text()?;
        let own = || Some(text.to_string());
        match code {
            b'S' => severity = text.to_string(),
            b'C' => e.0.sqlstate = sqlstate(text),
            b'M' => e.0.message = text.to_string(),
            b'D' => e.0.detail = own(),
            b'H' => e.0.hint = own(),
            b'W' => e.0.context = own(),
            b'P' => {
                let at = text.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
                e.0.position = at.map(|n| sql.char_indices().nth(n).map_or(sql.len(), |c| c.0))
            }
            _ => {}
        }
    }
}

fn lost(e: io::Error) -> Error {
    Error::new("08006", format!("the connection to the server is lost: {e}"))
}

pub struct Remote {
    address: Address,
    wire: Wire,
    input: Vec<u8>,
    at: usize,
    /// By which a statement is broken off.
    key: Vec<u8>,
    pub cancel: Arc<Cancel>,
    has_asked: bool,
    /// Gets notices, as psql shows them.
    tell: fn(&str),
    pub is_lost: bool,
}

impl Remote {
    pub fn connect(address: &Address, tell: fn(&str)) -> Result<Remote, Failed> {
        let failed = |e: io::Error| wrong(format!("could not connect to {address}: {e}"));
        let mut wire = address.dial().map_err(failed)?;
        if let Wire::Tcp(socket) = wire {
            wire = Remote::encrypt(address, socket).map_err(failed)?
        }
        wire.patient(Duration::from_millis(100)).map_err(failed)?;
        let mut remote = Remote {
            address: address.clone(),
            wire,
            input: vec![],
            at: 0,
            key: vec![],
            cancel: Arc::new(Cancel::new()),
            has_asked: false,
            tell,
            is_lost: false,
        };
        remote.log_in().map_err(|e| match e {
            Ok(e) => Failed::Sql(e),
            Err(e) => failed(e),
        })?;
        Ok(remote)
    }

    fn encrypt(address: &Address, mut socket: TcpStream) -> io::Result<Wire> {
        if address.encryption == Encryption::Disable {
            return Ok(Wire::Tcp(socket));
        }
        socket.write_all(&[0, 0, 0, 8, 4, 210, 22, 47])?;
        let mut answer = [0];
        socket.read_exact(&mut answer)?;
        match &answer {
            b"S" => encrypted(address, socket),
            b"N" if address.encryption == Encryption::Prefer => Ok(Wire::Tcp(socket)),
            b"N" => Err(io::Error::other("the server does not support TLS, but sslmode requires it")),
            _ => Err(garbled()),
        }
    }

    fn send(&mut self, kind: Option<u8>, body: &[u8]) -> io::Result<()> {
        let mut bytes: Vec<u8> = kind.into_iter().collect();
        bytes.extend((body.len() as u32 + 4).to_be_bytes());
        bytes.extend(body);
        self.wire.write_all(&bytes)?;
        self.wire.flush()
    }

    /// The next message, however long it takes (N2).
    fn next(&mut self) -> io::Result<Message> {
        loop {
            let rest = &self.input[self.at..];
            if let Some(head) = rest.first_chunk::<5>() {
                let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
                let length = length.checked_sub(4).ok_or_else(garbled)?;
                if let Some(body) = rest.get(5..5 + length) {
                    let found = Message { kind: head[0], body: body.to_vec() };
                    self.at += 5 + length;
                    return Ok(found);
                }
            }
            self.input.drain(..self.at);
            self.at = 0;
            let mut room = [0; 32 << 10];
            match self.wire.read(&mut room) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.input.extend_from_slice(&room[..n]),
                Err(e) => match e.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => self.ask_to_end(),
                    _ => return Err(e),
                },
            }
        }
    }
    fn ask_to_end(&mut self) {
        if !self.cancel.is_told() || std::mem::replace(&mut self.has_asked, true) {
            return;
        }
        // If it does not get there, the statement goes on, as it would have without.
        let body = [&(1234u32 << 16 | 5678).to_be_bytes()[..], &self.key].concat();
        let message = [&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat();
        let _ = self.address.dial().and_then(|mut w| w.write_all(&message));
    }

    /// The error is the server's, or one of the connection.
    fn log_in(&mut self) -> Result<(), Result<Error, io::Error>> {
        let Address { user, database, password, .. } = self.address.clone();
        let settings = [
            "user",
            &user,
            "database",
            &database,
            "application_name",
            "ondol shell",
            "client_encoding",
            "UTF8",
        ];
        let body = settings.iter().fold(vec![0, 3, 0, 0], |b, s| [&b[..], s.as_bytes(), b"\0"].concat());
        self.send(None, &[&body[..], b"\0"].concat()).map_err(Err)?;
        let mut scram: Option<ScramSha256> = None;
        loop {
            let message = self.next().map_err(Err)?;
            let mut body = Body(&message.body);
            match message.kind {
                b'R' => match body.i32().map_err(Err)? {
                    0 => {}
                    10 => {
                        let given = password.clone().or_else(|| std::env::var("PGPASSWORD").ok());
                        let given = given.ok_or_else(|| {
                            let e = Error::new("28P01", format!("a password is needed for user \"{user}\""));
                            Ok(e.hint("Give it in the address, or in the environment as PGPASSWORD."))
                        })?;
                        let mut offered = vec![];
                        while let Some(name) = body.text().ok().filter(|n| !n.is_empty()) {
                            offered.push(name)
                        }
                        let (mechanism, binding) = match (self.end_point(), offered.contains(&PLUS)) {
                            (Some(data), true) => (PLUS, ChannelBinding::tls_server_end_point(data)),
                            (Some(_), false) => (MECHANISM, ChannelBinding::unrequested()),
                            (None, _) => (MECHANISM, ChannelBinding::unsupported()),
                        };
                        let exchange = ScramSha256::new(given.as_bytes(), binding);
                        let said = exchange.message();
                        let length = (said.len() as u32).to_be_bytes();
                        let body = [mechanism.as_bytes(), b"\0", &length, said].concat();
                        self.send(Some(b'p'), &body).map_err(Err)?;
                        scram = Some(exchange)
                    }
                    11 => {
                        let exchange = scram.as_mut().ok_or_else(|| Err(garbled()))?;
                        exchange.update(body.0).map_err(Err)?;
                        let said = exchange.message().to_vec();
                        self.send(Some(b'p'), &said).map_err(Err)?
                    }
                    12 => {
                        let exchange = scram.as_mut().ok_or_else(|| Err(garbled()))?;
                        exchange.finish(body.0).map_err(Err)?
                    }
                    other => {
                        let what = format!("authentication by method {other}: expected SCRAM-SHA-256");
                        return Err(Ok(Error::new("0A000", what)));
                    }
                },
                b'K' => self.key = message.body,
                b'E' => return Err(report(&message.body, "").map(|r| r.1)),
                b'N' => self.notice(&message.body).map_err(Err)?,
                b'Z' => return Ok(()),
                _ => {}
            }
        }
    }
    /// What a proof is bound to.
    fn end_point(&self) -> Option<Vec<u8>> {
        match &self.wire {
            Wire::Tls(s) => certificate::end_point(s.conn.peer_certificates()?.first()?),
            _ => None,
        }
    }

    fn notice(&self, body: &[u8]) -> io::Result<()> {
        let (severity, e) = report(body, "")?;
        let detail = e.0.detail.as_ref().map_or(String::new(), |d| format!("DETAIL:  {d}\n"));
        (self.tell)(&format!("{severity}:  {}\n{detail}", e.0.message));
        Ok(())
    }

    /// Runs one statement (N1).
    pub fn run(&mut self, sql: &str, out: &mut dyn Output) -> ondol::Result<()> {
        self.cancel.begin();
        self.has_asked = false;
        let done = self.query(sql, out);
        done.unwrap_or_else(|e| {
            self.is_lost = true;
            Err(lost(e))
        })
    }

    fn query(&mut self, sql: &str, out: &mut dyn Output) -> io::Result<ondol::Result<()>> {
        self.send(Some(b'Q'), format!("{sql}\0").as_bytes())?;
        let mut columns: Arc<[Column]> = Arc::new([]);
        let mut rows = Rows::new();
        // An error of showing it is told when the server has ended.
        let mut done: ondol::Result<()> = Ok(());
        loop {
            let message = self.next()?;
            let mut body = Body(&message.body);
            match message.kind {
                b'T' => {
                    let n = body.i16()?;
                    let mut all = vec![];
                    for _ in 0..n {
                        let name = body.text()?;
                        body.take(6)?;
                        let id = TypeId::from_oid(body.i32()? as u32).filter(|id| has_value(*id));
                        body.take(8)?;
                        all.push(Column::new(name, id.map_or(Type::TEXT, Type::new)))
                    }
                    columns = all.into();
                    rows = Rows::of(columns.clone());
                    done = done.and_then(|()| out.columns(&columns))
                }
                b'D' if done.is_ok() => {
                    let values = values(body, &columns)?;
                    let mut scratch = vec![vec![]; values.len()];
                    let refs: Vec<ValueRef<'_>> =
                        values.iter().zip(&mut scratch).map(|(v, s)| v.as_ref(s)).collect();
                    rows.clear();
                    done = rows.push(&refs).and_then(|()| out.row(rows.row(0)))
                }
                b'C' => {
                    let tag = body.text()?;
                    done = done.and_then(|()| out.done(tag, None))
                }
                b'I' => done = done.and_then(|()| out.done("", None)),
                b'G' => {
                    let rows = if body.take(1)? == [1] { CopiedRows::Binary } else { CopiedRows::Lines };
                    out.copying(body.i16()?.max(0) as usize, rows);
                    let sent = self.copy_in(out)?;
                    done = done.and(sent)
                }
                b'H' => {
                    let rows = if body.take(1)? == [1] { CopiedRows::Binary } else { CopiedRows::Lines };
                    out.copying(body.i16()?.max(0) as usize, rows);
                    let taken = self.copy_out(out)?;
                    done = done.and(taken)
                }
                b'E' => {
                    let (severity, e) = report(&message.body, sql)?;
                    self.is_lost |= severity == "FATAL";
                    done = Err(e);
                    if self.is_lost {
                        return Ok(done);
                    }
                }
                b'N' => self.notice(&message.body)?,
                b'Z' => return Ok(done),
                _ => {}
            }
        }
    }

    fn copy_in(&mut self, out: &mut dyn Output) -> io::Result<ondol::Result<()>> {
        let mut data = match out.copy_in() {
            Ok(data) => data,
            Err(e) => {
                self.send(Some(b'f'), format!("{e}\0").as_bytes())?;
                return Ok(Err(e));
            }
        };
        let mut room = vec![0; 64 << 10];
        loop {
            match data.read(&mut room) {
                Ok(0) => {
                    self.send(Some(b'c'), b"")?;
                    return Ok(Ok(()));
                }
                Ok(_) if self.cancel.is_told() => {
                    self.send(Some(b'f'), b"canceled by user\0")?;
                    return Ok(Ok(()));
                }
                Ok(n) => self.send(Some(b'd'), &room[..n])?,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => {
                    self.send(Some(b'f'), format!("{e}\0").as_bytes())?;
                    return Ok(Ok(()));
                }
            }
        }
    }

    fn copy_out(&mut self, out: &mut dyn Output) -> io::Result<ondol::Result<()>> {
        let mut to = match out.copy_out() {
            Ok(to) => to,
            Err(e) => return Ok(Err(e)),
        };
        let mut done = Ok(());
        loop {
            let message = self.next()?;
            match message.kind {
                b'd' if done.is_ok() => {
                    done = to.write_all(&message.body).map_err(|e| {
                        Error::new(
                            ondol_engine::error::io_state(&e),
                            format!("could not write the output: {e}"),
                        )
                    })
                }
                b'd' => {}
                b'c' => return Ok(done),
                b'N' => self.notice(&message.body)?,
                // Its error, with what follows, is for who asked.
                b'E' => {
                    return Ok(Err(report(&message.body, "")?.1));
                }
                _ => return Err(garbled()),
            }
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // Who is gone already needs no farewell.
        let _ = self.send(Some(b'X'), b"");
    }
}

/// Whether a type's texts become values again.
fn has_value(id: TypeId) -> bool {
    let is_number =
        id.category() == Category::Numeric && ondol_types::catalog::registered::kind(id).is_none();
    is_number || id == TypeId::BOOL
}

fn values(mut body: Body<'_>, columns: &[Column]) -> io::Result<Vec<Value>> {
    let n = body.i16()?;
    if usize::try_from(n) != Ok(columns.len()) {
        return Err(garbled());
    }
    let mut all = vec![];
    for c in columns {
        let Ok(length) = usize::try_from(body.i32()?) else {
            all.push(Value::Null);
            continue;
        };
        let text = std::str::from_utf8(body.take(length)?).map_err(|_| garbled())?;
        all.push(text::input(text, c.ty, &Context::EMPTY).map_err(|_| garbled())?)
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Address {
        match Address::parse(text) {
            Ok(Some(a)) => a,
            _ => panic!("{text}"),
        }
    }

    #[test]
    fn addresses() {
        assert!(matches!(Address::parse("bank"), Ok(None)));
        let a = parsed("postgres://");
        assert_eq!((a.host.as_str(), a.port, a.user.as_str()), ("127.0.0.1", 5432, "postgres"));
        let a = parsed("postgresql://ann:p%40ss@db.example.com:6000/x?sslmode=require");
        assert_eq!((a.host.as_str(), a.port), ("db.example.com", 6000));
        assert_eq!((a.user.as_str(), a.password.as_deref(), a.database.as_str()), ("ann", Some("p@ss"), "x"));
        assert_eq!(a.encryption, Encryption::Require);
        let a = parsed("postgres://[::1]:6001");
        assert_eq!((a.host.as_str(), a.port), ("::1", 6001));
        let a = parsed("postgres:///?host=%2Ftmp%2Fdb&port=7");
        assert_eq!(a.to_string(), "/tmp/db/.s.PGSQL.7");
        for wrong in
            ["postgres://x:y", "postgres://h?a=b", "postgres://%zz", "postgres://h?sslmode=verify-full"]
        {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
    }
}
