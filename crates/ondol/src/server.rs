//! A database served to PostgreSQL's clients.
//!
//! ```text
//! the acceptor    takes connections, hears cancels, and gives each that wants a session to the worker that
//!                 has the fewest
//! a worker        drains what came -> runs statements, each client's on a fiber -> hands over tokens
//!                 -> sends once a connection -> sleeps until something comes
//! ```
//! - **E1** A connection stays with its worker, a thread, and its session with it. Nothing of either is
//!   touched from elsewhere but its [`Canceller`](crate::Canceller).
//! - **E2** A client's statements run on a fiber, which has all of the client while it does. Where they wait
//!   for others, it gives way. A connection without a fiber has no stack, and no buffer that holds anything
//!   but a part of a message.
//! - **E3** No answer leaves before what it rests on is durable: commits are held (session/held/H2), and the
//!   answers of a turn wait for the token of all of them. If the log fails, no answer of the turn is sent but
//!   the error.
//! - **E4** An error ends the statement, a broken message the connection, and a lost connection its
//!   transaction.
//! - **E5** Nothing that a client sends before it has proved who it is makes a session or more than 10,000
//!   bytes.
//! - **E6** What a client does not take is not made: a statement puts a bounded part of its result into the
//!   output, and parks until that is taken; nor are further messages run while much of it is left.
//!
//! Not here: function calls (a message that PostgreSQL's documentation advises
//! against).
//!
//! Source: PostgreSQL 15's documentation, chapter 55, and its answers.
use crate::database::Database;
use connection::{Peer, Stream};
use keys::Keys;
use login::Roles;
use ondol_base::event::Event;
use ondol_base::net::{Descriptor, Interest, Poll, Source, TcpListener};
use ondol_base::shm::{self, Bell};
use ondol_base::sync::Mutex;
use ondol_base::{clock, interrupt, pool, random, thread};
use ondol_types::{SqlError, SqlResult, sqlstate};
use ondol_wire::front::{self, Opening};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tls::Tls;
use worker::{Door, Worker};

mod connection;
mod conversation;
mod copying;
mod incoming;
mod keys;
pub(crate) mod log;
mod login;
mod metrics;
mod result;
mod settings;
mod talk;
mod tls;
mod worker;
use metrics::Metrics;
use settings::Told;
pub use settings::{SettingGiven, environment};
pub use tls::TlsFiles;

/// The port of PostgreSQL.
pub const PORT: u16 = 5432;
/// The one database that a server has.
pub const DATABASE: &str = "postgres";

/// How a database is served.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Hosts and ports.
    pub listen: Vec<String>,
    /// Unix sockets, by their whole paths.
    pub sockets: Vec<PathBuf>,
    /// Connections at most.
    pub connections: usize,
    /// Those who come from this machine need no password.
    pub trust_loopback: bool,
    /// The password of the role `postgres`. Without it, TCP takes nobody who has to prove anything.
    pub password: Option<String>,
    /// The user of the system, by number, who may be any role over a Unix socket.
    pub owner: Option<u32>,
    /// Clients by TCP may encrypt what they send and get.
    pub tls: Option<TlsFiles>,
    /// Clients by TCP must.
    pub require_tls: bool,
    /// A file of settings, read again by [`Server::reload`]; it need not be there.
    pub settings_file: Option<PathBuf>,
    /// The file that ALTER SYSTEM writes, and that is read behind the former.
    pub system_file: Option<PathBuf>,
    /// Settings that go before those of the files.
    pub settings: Vec<SettingGiven>,
    /// Host and port for Prometheus.
    pub metrics: Option<String>,
}

impl Default for ServeOptions {
    fn default() -> ServeOptions {
        ServeOptions {
            listen: vec![format!("127.0.0.1:{PORT}")],
            sockets: vec![],
            connections: 10_000,
            trust_loopback: false,
            password: None,
            owner: None,
            tls: None,
            require_tls: false,
            settings_file: None,
            system_file: None,
            settings: vec![],
            metrics: None,
        }
    }
}

/// How a server is, for whoever looks after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    Serves,
    Reloads,
    Ends,
}

/// What all workers share.
struct Shared {
    database: Database,
    roles: Roles,
    keys: Keys,
    /// Connections that there are, those among them that have not proved anything included.
    open: AtomicUsize,
    most: usize,
    /// Of these, for superusers alone.
    reserved: usize,
    told: Mutex<Arc<Told>>,
    trust_loopback: bool,
    owner: Option<u32>,
    tls: Option<Tls>,
    require_tls: bool,
    /// How the server ends: see [`End`].
    end: AtomicUsize,
    doors: OnceLock<Arc<[Arc<Door>]>>,
}

/// How a server ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum End {
    NotYet = 0,
    /// Transactions go on, and their sessions end with them.
    Drain = 1,
    /// Sessions end with their statements, which are cancelled.
    Now = 2,
}

impl Shared {
    /// What the server was told by its settings.
    fn told(&self) -> Arc<Told> {
        self.told.lock().clone()
    }
    fn end(&self) -> End {
        match self.end.load(Ordering::Acquire) {
            0 => End::NotYet,
            1 => End::Drain,
            _ => End::Now,
        }
    }
}

enum Listener {
    Tcp(TcpListener),
    /// The socket's file, which goes with the listener.
    Unix(UnixListener, PathBuf),
}

impl Listener {
    fn accept(&self) -> std::io::Result<(Stream, Peer)> {
        match self {
            Listener::Tcp(l) => {
                let (stream, from) = l.accept()?;
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                // One that is gone without a word is not to hold what others wait for.
                stream.set_keepalive(true)?;
                Ok((Stream::Tcp(stream), Peer::Tcp(from)))
            }
            Listener::Unix(l, _) => {
                let (stream, _) = l.accept()?;
                stream.set_nonblocking(true)?;
                let user = ondol_base::net::peer(&stream)?;
                Ok((Stream::Unix(stream), Peer::Unix { user }))
            }
        }
    }
}

impl Source for Listener {
    fn descriptor(&self) -> Descriptor<'_> {
        match self {
            Listener::Tcp(l) => l.descriptor(),
            Listener::Unix(l, _) => l.descriptor(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            // What cannot be removed stays, and the next server takes it away.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn io(what: impl std::fmt::Display, e: &std::io::Error) -> SqlError {
    SqlError::new(sqlstate::IO_ERROR, format!("{what}: {e}"))
}

fn listen_tcp(address: &str) -> SqlResult<Vec<Listener>> {
    let refused = |e: &std::io::Error| io(format!("could not listen on \"{address}\""), e);
    let found: Vec<_> = address.to_socket_addrs().map_err(|e| refused(&e))?.collect();
    let mut all = vec![];
    for a in found {
        let l = TcpListener::bind(a).map_err(|e| refused(&e))?;
        l.set_nonblocking(true).map_err(|e| refused(&e))?;
        all.push(Listener::Tcp(l))
    }
    Ok(all)
}

/// A socket's file may be left by a server that was killed: then nobody answers there.
fn listen_unix(path: &Path) -> SqlResult<Listener> {
    let refused = |e: &std::io::Error| io(format!("could not listen on \"{}\"", path.display()), e);
    let bound = match UnixListener::bind(path) {
        Err(e) if e.kind() == std::io::ErrorKind::AddrInUse => {
            if std::os::unix::net::UnixStream::connect(path).is_ok() {
                return Err(refused(&e).hint("Another server listens there."));
            }
            std::fs::remove_file(path).and_then(|()| UnixListener::bind(path))
        }
        bound => bound,
    };
    let l = bound.map_err(|e| refused(&e))?;
    l.set_nonblocking(true).map_err(|e| refused(&e))?;
    // Anyone may knock: who it is, the system tells.
    let anyone = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(path, anyone).map_err(|e| refused(&e))?;
    Ok(Listener::Unix(l, path.to_path_buf()))
}

/// The system's user who owns a file or a folder.
pub fn owner_of(path: &Path) -> std::io::Result<u32> {
    Ok(std::fs::metadata(path)?.uid())
}

/// A password that nobody can guess.
pub fn new_password() -> SqlResult<String> {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let bytes: [u8; 24] = random::secret().map_err(|e| io("could not get random bytes", &e))?;
    Ok(bytes.iter().map(|b| LETTERS[usize::from(b % 32)] as char).collect())
}

/// A server that listens. Dropped, it ends its sessions at once.
///
/// ```
/// # fn main() -> ondol::Result<()> {
/// # let folder = ondol::TempFolder::new()?;
/// use ondol::server::{ServeOptions, Server};
/// let db = ondol::Database::open(folder.path().join("db"))?;
/// let options = ServeOptions { listen: vec!["127.0.0.1:0".into()], ..ServeOptions::default() };
/// let server = Server::start(&db, &options)?;
/// let port = server.addresses()[0].port();
/// assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
/// server.stop()?;
/// # Ok(())
/// # }
/// ```
pub struct Server {
    shared: Arc<Shared>,
    addresses: Vec<SocketAddr>,
    doors: Arc<[Arc<Door>]>,
    workers: Vec<thread::JoinHandle<()>>,
    acceptor: Option<thread::JoinHandle<()>>,
    /// Ends the acceptor.
    ending: Arc<Event>,
    options: ServeOptions,
    metrics: Option<Metrics>,
}

impl Server {
    /// Listens, and serves whoever connects, on threads of its own.
    pub fn start(database: &Database, options: &ServeOptions) -> SqlResult<Server> {
        let mut listeners = vec![];
        for address in &options.listen {
            listeners.extend(listen_tcp(address)?)
        }
        for path in &options.sockets {
            listeners.push(listen_unix(path)?)
        }
        let secret = random::secret().map_err(|e| io("could not get random bytes", &e))?;
        let told = Told::read(&database.settings, options)?;
        told.take_effect(&database.board);
        let shared = Arc::new(Shared {
            most: told.settings.number("max_connections"),
            reserved: told.settings.number("superuser_reserved_connections"),
            told: Mutex::new(Arc::new(told)),
            database: Database { name: DATABASE.into(), ..database.clone() },
            roles: Roles::new(options.password.as_deref(), secret),
            keys: Keys::default(),
            open: AtomicUsize::new(0),
            trust_loopback: options.trust_loopback,
            owner: options.owner,
            tls: options.tls.as_ref().map(Tls::new).transpose()?,
            require_tls: options.require_tls,
            end: AtomicUsize::new(End::NotYet as usize),
            doors: OnceLock::new(),
        });
        if let Some(path) = options.system_file.clone() {
            // The board is the database's, and outlives the server.
            let (server, writing) = (Arc::downgrade(&shared), Mutex::new(()));
            database.board.on_alter_system(Arc::new(move |change| {
                let gone = || SqlError::new(sqlstate::ADMIN_SHUTDOWN, "the server has ended");
                let server = server.upgrade().ok_or_else(gone)?;
                let _writing = writing.lock();
                settings::alter_system(&path, &server.told().settings, change)
            }))
        }
        let metrics = options.metrics.as_ref().map(|a| Metrics::start(a, shared.clone())).transpose()?;
        // pool/B5
        pool::stand_back();
        let (mut doors, mut workers) = (vec![], vec![]);
        for n in 0..thread::parallelism() {
            let started = Worker::start(n, shared.clone());
            let (door, worker) = started.map_err(|e| io("could not start a worker", &e))?;
            doors.push(door);
            workers.push(worker)
        }
        let doors: Arc<[Arc<Door>]> = doors.into();
        shared.doors.get_or_init(|| doors.clone());
        let ending = Event::new().map_err(|e| io("could not make an event", &e))?;
        let tcp = |l: &Listener| match l {
            Listener::Tcp(l) => l.local_addr().ok(),
            Listener::Unix(..) => None,
        };
        let addresses = listeners.iter().filter_map(tcp).collect();
        let (options, ending) = (options.clone(), Arc::new(ending));
        let mut server =
            Server { shared, addresses, doors, workers, acceptor: None, ending, options, metrics };
        let acceptor = Acceptor::new(listeners, server.doors.clone(), &server.ending, server.shared.clone());
        let started = acceptor.and_then(|a| thread::spawn("ondol-accept", move || a.accept()));
        server.acceptor = Some(started.map_err(|e| io("could not wait for connections", &e))?);
        Ok(server)
    }
    /// Where it listens by TCP.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Connections at most, by the setting max_connections.
    pub fn connections(&self) -> usize {
        self.shared.most
    }
    /// Where it answers Prometheus.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(|m| m.address)
    }

    /// Reads again what may have changed while the server runs: the settings' file, the certificate and its
    /// key. If one of them cannot be used, the server goes on with those that it has. Settings are those of
    /// sessions from then on; some are only read at the start, which is an error that changes nothing else.
    pub fn reload(&self) -> SqlResult<()> {
        let told = Told::read(&self.shared.told().initial, &self.options)?;
        let late = told.changed_late(&self.shared.told());
        self.shared.tls.as_ref().map_or(Ok(()), Tls::reload)?;
        told.take_effect(&self.shared.database.board);
        *self.shared.told.lock() = Arc::new(told);
        self.shared.database.board.has_reloaded();
        late.map_or(Ok(()), Err)
    }

    /// Whether what the log says is for programs.
    fn form(&self) -> log::Form {
        self.shared.database.board.form()
    }
    /// Serves until the process is told to end (SIGTERM, SIGINT). Then no more connections are taken, and
    /// sessions end when their transactions do; told once more, all of them end at once. SIGHUP and
    /// pg_reload_conf reload; the outcome is logged. `changed` is told how the server is.
    pub fn run(mut self, changed: impl Fn(Stage)) -> SqlResult<()> {
        let failed = |e: std::io::Error| io("could not wait for signals", &e);
        let event = interrupt::wishes_by_event().map_err(failed)?;
        let poll = Poll::new().map_err(failed)?;
        poll.add(event, 0, Interest::READ).map_err(failed)?;
        changed(Stage::Serves);
        let mut ready = vec![];
        let asked = Arc::new(AtomicUsize::new(0));
        let asks = asked.clone();
        // pg_reload_conf
        self.shared.database.board.on_reload(Arc::new(move || {
            asks.fetch_add(1, Ordering::Relaxed);
            event.set()
        }));
        let mut reloads = (interrupt::reloads(), 0);
        while interrupt::ends() == 0 {
            poll.wait(&mut ready, None).map_err(failed)?;
            event.clear();
            let now = (interrupt::reloads(), asked.load(Ordering::Relaxed));
            if std::mem::replace(&mut reloads, now) != now {
                changed(Stage::Reloads);
                match self.reload() {
                    Ok(()) => {
                        log::tell(self.form(), "LOG", None, "settings and certificates were read again", &[])
                    }
                    Err(e) => {
                        let more = [&e.0.detail, &e.0.hint, &e.0.context].map(|t| t.as_deref().unwrap_or(""));
                        let more = more
                            .iter()
                            .filter(|t| !t.is_empty())
                            .fold(e.0.message.clone(), |a, t| a + "; " + t);
                        let fields = [("sqlstate", e.sqlstate().to_string())];
                        log::tell(self.form(), "ERROR", None, &format!("not reloaded: {more}"), &fields)
                    }
                }
                changed(Stage::Serves)
            }
        }
        changed(Stage::Ends);
        self.ending.set();
        while !self.workers.iter().all(|w| w.is_finished()) {
            self.tell(if interrupt::ends() > 1 { End::Now } else { End::Drain });
            event.clear();
            poll.wait(&mut ready, Some(Duration::from_millis(50))).map_err(failed)?
        }
        self.join()
    }
    /// Ends its sessions at once.
    pub fn stop(mut self) -> SqlResult<()> {
        self.ending.set();
        self.tell(End::Now);
        self.join()
    }

    fn tell(&self, end: End) {
        self.shared.end.fetch_max(end as usize, Ordering::AcqRel);
        if end == End::Now {
            self.shared.keys.cancel_all()
        }
        self.doors.iter().for_each(|d| d.ring())
    }
    fn join(&mut self) -> SqlResult<()> {
        let panicked =
            self.workers.drain(..).chain(self.acceptor.take()).filter_map(|w| w.join().err()).count();
        match panicked {
            0 => Ok(()),
            n => Err(SqlError::new(
                sqlstate::INTERNAL_ERROR,
                format!("{n} threads of the server have panicked"),
            )),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ending.set();
        self.tell(End::Now);
        // Who has panicked has told it.
        let _ = self.join();
    }
}

/// Takes connections, reads the first packet of each, and gives those that want a session to workers. It runs
/// no statements, so that a cancel is heard whatever the workers do.
struct Acceptor {
    shared: Arc<Shared>,
    listeners: Vec<Listener>,
    doors: Arc<[Arc<Door>]>,
    poll: Poll,
    /// Those whose first packet is not whole, by their keys in the poll.
    guests: BTreeMap<u64, Guest>,
    last: u64,
}

struct Guest {
    stream: Stream,
    peer: Peer,
    bytes: Vec<u8>,
    deadline: Duration,
}

impl Guest {
    /// Takes what has come; whether there will be no more.
    fn read(&mut self, room: &mut [u8]) -> bool {
        match self.stream.read(room) {
            Ok(n) => {
                self.bytes.extend_from_slice(&room[..n]);
                n == 0
            }
            Err(e) => !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }
}

impl Acceptor {
    const ENDING: u64 = u64::MAX;
    /// Guests have their keys from here on, listeners below.
    const FIRST: u64 = 1 << 32;

    fn new(
        listeners: Vec<Listener>,
        doors: Arc<[Arc<Door>]>,
        ending: &Event,
        shared: Arc<Shared>,
    ) -> std::io::Result<Acceptor> {
        let poll = Poll::new()?;
        poll.add(ending, Acceptor::ENDING, Interest::READ)?;
        for (n, l) in listeners.iter().enumerate() {
            poll.add(l, n as u64, Interest::READ)?
        }
        let (guests, last) = (BTreeMap::new(), Acceptor::FIRST);
        Ok(Acceptor { shared, listeners, doors, poll, guests, last })
    }
    fn accept(mut self) {
        let mut ready = vec![];
        loop {
            let limit = (!self.guests.is_empty()).then_some(Duration::from_secs(1));
            if self.poll.wait(&mut ready, limit).is_err() {
                thread::sleep(Duration::from_millis(10))
            }
            for r in &ready {
                match r.key {
                    Acceptor::ENDING => return,
                    Acceptor::FIRST.. => self.hear(r.key),
                    n => self.take(n as usize),
                }
            }
            let now = clock::now();
            self.guests.retain(|_, g| now < g.deadline)
        }
    }
    fn take(&mut self, listener: usize) {
        /// So many one after the other, then those of another listener.
        const TURN: usize = 64;
        for _ in 0..TURN {
            let accepted = self.listeners.get(listener).map(Listener::accept);
            match accepted {
                Some(Ok((stream, peer))) => {
                    self.last += 1;
                    if self.poll.add(&stream, self.last, Interest::READ).is_ok() {
                        let deadline = clock::now() + self.shared.told().to_prove;
                        self.guests.insert(self.last, Guest { stream, peer, bytes: vec![], deadline });
                    }
                }
                None => return,
                Some(Err(e)) if e.kind() == ErrorKind::WouldBlock => return,
                // The connection is gone already.
                Some(Err(e)) if e.kind() == ErrorKind::ConnectionAborted => {}
                // There are no more descriptors, say: some may come free.
                Some(Err(_)) => return thread::sleep(Duration::from_millis(10)),
            }
        }
    }
    /// Something came from a guest.
    fn hear(&mut self, key: u64) {
        let Some(guest) = self.guests.get_mut(&key) else { return };
        // tls/L2
        let mut room = [0; tls::ROOM];
        if let Some(memory) = guest.stream.memory() {
            memory.is_awake();
            memory.hear()
        }
        let mut is_over = guest.read(&mut room);
        loop {
            match front::opening(&guest.bytes) {
                Ok(None) if is_over => break,
                Ok(None) => match guest.stream.memory() {
                    Some(memory) if !memory.go_to_sleep(Interest::READ) => is_over = guest.read(&mut room),
                    _ => return,
                },
                // Within TLS there is no other, nor in memory.
                Ok(Some((Opening::Ssl | Opening::Gss, _))) if matches!(guest.stream, Stream::Tls(_)) => break,
                Ok(Some((Opening::Ssl | Opening::Gss | Opening::Memory, _)))
                    if guest.stream.memory().is_some() =>
                {
                    break;
                }
                Ok(Some((Opening::Ssl, size)))
                    if matches!(guest.stream, Stream::Tcp(_)) && self.shared.tls.is_some() =>
                {
                    // What is behind it was not encrypted, and may be from somebody else.
                    if guest.bytes.len() > size {
                        break;
                    }
                    let Some(guest) = self.guests.remove(&key) else { return };
                    return self.encrypt(key, guest);
                }
                // The client goes on without, or not.
                Ok(Some((Opening::Ssl | Opening::Gss, size))) => {
                    guest.bytes.drain(..size);
                    if guest.stream.write(b"N").is_err() {
                        break;
                    }
                }
                // What follows is to come in the memory.
                Ok(Some((Opening::Memory, size))) if guest.bytes.len() > size => break,
                Ok(Some((Opening::Memory, _))) => {
                    let Some(guest) = self.guests.remove(&key) else { return };
                    return self.share(key, guest);
                }
                Ok(Some((Opening::Cancel { process, key }, _))) => {
                    self.shared.keys.cancel(process, key);
                    break;
                }
                Ok(Some((Opening::Startup { .. }, _))) | Err(_) => {
                    if let Some(guest) = self.guests.remove(&key)
                        && self.poll.remove(&guest.stream).is_ok()
                        && let Some(door) = self.doors.iter().min_by_key(|d| d.connections())
                    {
                        door.bring(guest.stream, guest.peer, guest.bytes)
                    }
                    return;
                }
            }
        }
        self.guests.remove(&key);
    }
    /// A guest that goes on in memory, if there is some.
    fn share(&mut self, key: u64, guest: Guest) {
        let Guest { stream, peer, deadline, .. } = guest;
        if self.poll.remove(&stream).is_err() {
            return;
        }
        let offered = match stream {
            Stream::Unix(socket) => shm::End::offer(socket).map_err(|e| e.0),
            Stream::Tcp(socket) if socket.is_of_world() => {
                shm::End::offer(Bell::World(socket)).map_err(|e| e.0)
            }
            other => return self.refuse_memory(key, Guest { stream: other, peer, bytes: vec![], deadline }),
        };
        match offered {
            Ok(end) => {
                let stream = Stream::Memory(Box::new(end));
                if self.poll.add(&stream, key, Interest::READ).is_ok() {
                    self.guests.insert(key, Guest { stream, peer, bytes: vec![], deadline });
                    self.hear(key)
                }
            }
            Err(bell) => {
                let stream = match bell {
                    Bell::System(socket) => Stream::Unix(socket),
                    Bell::World(socket) => Stream::Tcp(socket),
                };
                self.refuse_memory(key, Guest { stream, peer, bytes: vec![], deadline })
            }
        }
    }
    /// It goes on as it began.
    fn refuse_memory(&mut self, key: u64, guest: Guest) {
        if guest.stream.write(&[shm::REFUSED]).is_ok()
            && self.poll.add(&guest.stream, key, Interest::READ).is_ok()
        {
            self.guests.insert(key, guest);
        }
    }
    /// A guest that goes on with TLS; the handshake is done here as well.
    fn encrypt(&mut self, key: u64, guest: Guest) {
        let Guest { stream: Stream::Tcp(socket), peer, deadline, .. } = guest else { return };
        if (&mut &socket).write(b"S").is_err() {
            return;
        }
        if let Some(Ok(secured)) = self.shared.tls.as_ref().map(|t| t.secure(socket)) {
            let stream = Stream::Tls(Box::new(secured));
            self.guests.insert(key, Guest { stream, peer, bytes: vec![], deadline });
        }
    }
}
