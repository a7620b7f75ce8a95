//! Clients of servers, by one thread or two: each sends some requests, waits for all answers, and sends the
//! next. They speak PostgreSQL's protocol, or Redis's.
//!
//! - **L1** A client prepares its statement once, and sends Bind and Execute for each request, and one Sync.
//!   To Redis it sends the command that the statement stands for.
//! - **L2** Every answer is looked at: a request that did not find its row ends the run.
//! - **L3** In memory a thread looks for answers for as long as that has paid lately, and sleeps then until a
//!   server rings.
use crate::histogram::Histogram;
use crate::random::Random;
use crate::rounds::Sample;
use crate::{Error, Result};
use ondol_base::net::{Descriptor, Interest, Poll, Ready, Source};
use ondol_base::shm::{End, Patience, REQUEST};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// Whose protocol a server speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speech {
    Postgres,
    /// The same in memory that both have.
    Memory,
    Redis,
}

/// What a client is connected by; reads and writes of memory never wait.
enum Line {
    Socket(UnixStream),
    Tcp(TcpStream),
    Memory(Box<End>),
}

impl Line {
    fn connect(place: &Place, speech: Speech) -> Result<Line> {
        let socket = match place {
            Place::Socket(socket) => socket,
            Place::Port(port) => {
                let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, *port))?;
                stream.set_read_timeout(Some(LIMIT))?;
                stream.set_nodelay(true)?;
                return Ok(Line::Tcp(stream));
            }
        };
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(LIMIT))?;
        if speech != Speech::Memory {
            return Ok(Line::Socket(stream));
        }
        stream.write_all(&REQUEST)?;
        Ok(Line::Memory(Box::new(End::accept(stream)?.ok_or("the server gives no memory")?)))
    }
    fn read(&self, room: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Line::Socket(s) => (&mut &*s).read(room),
            Line::Tcp(s) => (&mut &*s).read(room),
            Line::Memory(m) => m.read(room),
        }
    }
    fn write(&self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Line::Socket(s) => (&mut &*s).write(bytes),
            Line::Tcp(s) => (&mut &*s).write(bytes),
            Line::Memory(m) => m.write(bytes),
        }
    }
    /// Waits for input, or room; a socket that does not wait itself is asked again.
    fn wait(&self, until: Interest) -> Result<()> {
        match self {
            Line::Socket(_) | Line::Tcp(_) => std::thread::yield_now(),
            Line::Memory(m) => m.wait(until, &mut Patience::default(), Some(LIMIT))?,
        }
        Ok(())
    }
    fn send(&self, bytes: &[u8]) -> Result<()> {
        let mut at = 0;
        while at < bytes.len() {
            match self.write(&bytes[at..]) {
                Ok(n) => at += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.wait(Interest { read: false, write: true })?
                }
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }
    /// Reads something; 0 at the end.
    fn receive(&self, room: &mut [u8]) -> Result<usize> {
        loop {
            match self.read(room) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.wait(Interest::READ)?,
                read => return Ok(read?),
            }
        }
    }
    fn set_nonblocking(&self) -> Result<()> {
        match self {
            Line::Socket(s) => Ok(s.set_nonblocking(true)?),
            Line::Tcp(s) => Ok(s.set_nonblocking(true)?),
            Line::Memory(_) => Ok(()),
        }
    }
    fn memory(&self) -> Option<&End> {
        match self {
            Line::Socket(_) | Line::Tcp(_) => None,
            Line::Memory(m) => Some(m),
        }
    }
}

impl Source for Line {
    fn descriptor(&self) -> Descriptor<'_> {
        match self {
            Line::Socket(s) => s.descriptor(),
            Line::Tcp(s) => s.descriptor(),
            Line::Memory(m) => m.descriptor(),
        }
    }
}

/// Bytes of a value in Redis: those of a row.
pub const VALUE: usize = 61;

/// What is asked, of a row by its key.
#[derive(Clone, Debug)]
pub struct Request {
    /// A statement with one bigint.
    pub text: String,
    /// How each answer's tag ends.
    pub tag: &'static str,
    /// Keys are below.
    pub rows: u64,
    /// It changes rows: each client those of its own.
    pub writes: bool,
    /// What is asked in its place now and then, of PostgreSQL's protocol alone.
    pub other: Option<Other>,
}

/// A statement with one bigint that changes a row of the client's own.
#[derive(Clone, Debug)]
pub struct Other {
    pub text: String,
    pub tag: &'static str,
    /// Of 1,000 requests.
    pub per_mille: u64,
}

/// Where a server is.
#[derive(Clone, Debug)]
pub enum Place {
    Socket(PathBuf),
    /// A port of this machine.
    Port(u16),
}

/// How much is asked.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub clients: usize,
    /// Requests that a client sends together.
    pub depth: usize,
    pub seconds: f64,
}

/// What came of it.
#[derive(Default)]
pub struct Outcome {
    pub answers: u64,
    pub seconds: f64,
    /// From sending to the last answer of those that were sent together.
    pub waits: Histogram,
}

impl Outcome {
    /// As a contest counts it, with the CPU seconds that the server took.
    pub fn sample(self, cpu_s: f64) -> Sample {
        let extra = [("p50_us", 0.5), ("p99_us", 0.99)];
        let extra = extra.map(|(name, p)| (name.to_string(), self.waits.percentile_us(p))).to_vec();
        Sample { operations: self.answers, seconds: self.seconds, cpu_s, checksum: None, extra }
    }
}

/// Without an answer for so long, something is wrong.
const LIMIT: Duration = Duration::from_secs(60);

fn message(kind: &[u8], body: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(kind);
    out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(body)
}

pub struct Client {
    line: Line,
    speech: Speech,
    input: Vec<u8>,
    output: Vec<u8>,
    random: Random,
    number: u64,
    /// Answers that are to come before it is ready.
    awaited: u64,
    sent: Instant,
}

impl Client {
    pub fn connect(socket: &Path, speech: Speech, number: u64) -> Result<Client> {
        Client::connect_to(&Place::Socket(socket.into()), speech, number)
    }
    pub fn connect_to(place: &Place, speech: Speech, number: u64) -> Result<Client> {
        let line = Line::connect(place, speech)?;
        let (input, output, random) = (vec![], vec![], Random::new(number));
        let sent = Instant::now();
        let mut client = Client { line, speech, input, output, random, number, awaited: 0, sent };
        if speech == Speech::Redis {
            return Ok(client);
        }
        message(b"", b"\0\x03\0\0user\0postgres\0database\0postgres\0\0", &mut client.output);
        client.said()?;
        Ok(client)
    }
    /// Sends what is to be sent, and reads up to the next ReadyForQuery.
    fn said(&mut self) -> Result<()> {
        self.line.send(&self.output)?;
        self.output.clear();
        let mut room = [0; 4096];
        while !self.take(None)? {
            let n = self.line.receive(&mut room)?;
            if n == 0 {
                return Err("the server has closed the connection".into());
            }
            self.input.extend_from_slice(&room[..n])
        }
        Ok(())
    }
    /// Runs a text.
    pub fn execute(&mut self, text: &str) -> Result<()> {
        message(b"Q", format!("{text}\0").as_bytes(), &mut self.output);
        self.said()
    }
    /// L1
    pub fn prepare(&mut self, request: &Request) -> Result<()> {
        if self.speech == Speech::Redis {
            return Ok(());
        }
        let parse = |name: &str, text: &str| format!("{name}\0{text}\0\0\x01\0\0\0\x14");
        message(b"P", parse("s", &request.text).as_bytes(), &mut self.output);
        if let Some(other) = &request.other {
            message(b"P", parse("t", &other.text).as_bytes(), &mut self.output)
        }
        message(b"S", b"", &mut self.output);
        self.said()
    }
    /// Gives keys of Redis values, so many from the first on.
    pub fn fill(&mut self, from: u64, count: u64) -> Result<()> {
        self.output.clear();
        for key in from..from + count {
            command(key, true, &mut self.output)
        }
        self.awaited = count;
        self.line.send(&self.output)?;
        let mut room = vec![0; 64 << 10];
        while !self.hear(&[], &mut room)? {}
        Ok(())
    }
    /// Reads whole replies of Redis's; whether all are there.
    fn take_replies(&mut self) -> Result<bool> {
        let mut at = 0;
        while let Some(line) = self.input[at..].windows(2).position(|w| w == b"\r\n") {
            let head = &self.input[at..at + line];
            let mut size = line + 2;
            match head.first() {
                Some(b'+') => {}
                Some(b'$') if head[1..] == *VALUE.to_string().as_bytes() => size += VALUE + 2,
                _ => return Err(format!("found {}", String::from_utf8_lossy(head)).into()),
            }
            if self.input.len() < at + size {
                break;
            }
            at += size;
            self.awaited = self.awaited.saturating_sub(1)
        }
        self.input.drain(..at);
        Ok(self.awaited == 0)
    }
    /// Reads whole messages; whether the last was ReadyForQuery. `tags`: how those of what was asked end.
    fn take(&mut self, tags: Option<&[&str]>) -> Result<bool> {
        let (mut at, mut ready) = (0, false);
        while let Some(head) = self.input.get(at..at + 5) {
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            let kind = head[0];
            let Some(body) = self.input.get(at + 5..at + 1 + length) else { break };
            match (kind, tags) {
                (b'E', _) => return Err(String::from_utf8_lossy(body).replace('\0', " ").into()),
                (b'C', Some(tags)) => {
                    let found = body.strip_suffix(b"\0").unwrap_or(body);
                    if !tags.iter().any(|t| found.ends_with(t.as_bytes())) {
                        return Err(format!("found {}", String::from_utf8_lossy(found)).into());
                    }
                    self.awaited = self.awaited.saturating_sub(1)
                }
                (b'Z', _) => ready = true,
                _ => {}
            }
            at += 1 + length
        }
        self.input.drain(..at);
        Ok(ready)
    }
    fn ask(&mut self, request: &Request, plan: &Plan) -> Result<()> {
        self.output.clear();
        for _ in 0..plan.depth {
            let own = request.rows / plan.clients as u64;
            let other = (request.other.as_ref()).is_some_and(|o| self.random.below(1000) < o.per_mille);
            let key = match request.writes || other {
                true => self.number % plan.clients as u64 * own + self.random.below(own),
                false => self.random.below(request.rows),
            };
            if self.speech == Speech::Redis {
                command(key, request.writes, &mut self.output);
                continue;
            }
            let mut bind = *b"\0s\0\0\x01\0\x01\0\x01\0\0\0\x08________\0\x01\0\x01";
            bind[1] = if other { b't' } else { b's' };
            bind[13..21].copy_from_slice(&key.to_be_bytes());
            message(b"B", &bind, &mut self.output);
            message(b"E", b"\0\0\0\0\0", &mut self.output)
        }
        if self.speech != Speech::Redis {
            message(b"S", b"", &mut self.output)
        }
        self.awaited = plan.depth as u64;
        self.sent = Instant::now();
        self.line.send(&self.output)
    }
    /// Reads what has come; whether all answers are there.
    fn hear(&mut self, tags: &[&str], room: &mut [u8]) -> Result<bool> {
        let n = match self.line.read(room) {
            Ok(0) => return Err("the server has closed the connection".into()),
            Ok(n) => n,
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(e) => return Err(e.into()),
        };
        self.input.extend_from_slice(&room[..n]);
        if self.speech == Speech::Redis {
            return self.take_replies();
        }
        let ready = self.take(Some(tags))?;
        match (ready, self.awaited) {
            (true, 0) => Ok(true),
            (true, n) => Err(format!("{n} answers are missing").into()),
            _ => Ok(false),
        }
    }
}

/// GET, or SET of a value.
fn command(key: u64, sets: bool, out: &mut Vec<u8>) {
    let key = format!("{key:08}");
    out.extend(match sets {
        true => {
            format!("*3\r\n$3\r\nSET\r\n$8\r\n{key}\r\n${VALUE}\r\n{}\r\n", "x".repeat(VALUE)).into_bytes()
        }
        false => format!("*2\r\n$3\r\nGET\r\n$8\r\n{key}\r\n").into_bytes(),
    })
}

fn thread(
    (place, speech): (&Place, Speech),
    request: &Request,
    plan: &Plan,
    numbers: impl Iterator<Item = usize>,
    start: &Barrier,
) -> Result<Outcome> {
    let made: Result<Vec<Client>> = numbers
        .map(|n| {
            let mut c = Client::connect_to(place, speech, n as u64)?;
            c.prepare(request)?;
            c.line.set_nonblocking()?;
            Ok(c)
        })
        .collect();
    // Also after an error, as others wait here.
    start.wait();
    let mut clients = made?;
    let poll = Poll::new()?;
    for (n, c) in clients.iter().enumerate() {
        poll.add(&c.line, n as u64, Interest::READ)?
    }
    let mut patience = Patience::default();
    let tags: Vec<&str> = std::iter::once(request.tag).chain(request.other.as_ref().map(|o| o.tag)).collect();
    let (began, limit) = (Instant::now(), Duration::from_secs_f64(plan.seconds));
    let mut outcome = Outcome::default();
    let (mut ready, mut room, mut open) = (vec![], vec![0; 64 << 10], clients.len());
    for c in &mut clients {
        c.ask(request, plan)?
    }
    while open > 0 {
        if speech == Speech::Memory {
            wait_in_memory(&poll, &clients, &mut ready, &mut patience)?
        } else {
            poll.wait(&mut ready, Some(LIMIT))?
        }
        if ready.is_empty() {
            return Err(format!("no answer came within {LIMIT:?}").into());
        }
        for r in &ready {
            let c = &mut clients[r.key as usize];
            if !c.hear(&tags, &mut room)? {
                continue;
            }
            outcome.waits.add(c.sent.elapsed().as_nanos() as u64);
            outcome.answers += plan.depth as u64;
            match began.elapsed() < limit {
                true => c.ask(request, plan)?,
                false => open -= 1,
            }
        }
    }
    outcome.seconds = began.elapsed().as_secs_f64();
    Ok(outcome)
}

/// L3
fn wait_in_memory(
    poll: &Poll,
    clients: &[Client],
    ready: &mut Vec<Ready>,
    patience: &mut Patience,
) -> Result<()> {
    let ends = || clients.iter().filter_map(|c| c.line.memory());
    let some = || ends().any(|m| m.has_news(Interest::READ));
    // A ring may be an old one.
    while !patience.spin(some) && ends().all(|m| m.go_to_sleep(Interest::READ)) {
        poll.wait(ready, Some(LIMIT))?;
        if ready.is_empty() {
            return Ok(());
        }
        ready.iter().filter_map(|r| clients[r.key as usize].line.memory()).for_each(|m| m.hear())
    }
    ends().for_each(|m| m.is_awake());
    let news = |(_, m): &(usize, &End)| m.has_news(Interest::READ);
    let of = |(n, _)| Ready { key: n as u64, read: true, write: false, gone: false };
    ready.clear();
    ready.extend(ends().enumerate().filter(news).map(of));
    Ok(())
}

/// The same by one thread, and at a rate of so many requests a second in all, whatever is answered: what each
/// waits for its answer, from when it was to be sent.
pub fn run_at(socket: &Path, request: &Request, plan: &Plan, rate: f64) -> Result<Histogram> {
    /// What the system wakes a thread for in time.
    const SLEEP: Duration = Duration::from_micros(200);
    let mut clients = vec![];
    let poll = Poll::new()?;
    for n in 0..plan.clients {
        let mut c = Client::connect(socket, Speech::Postgres, n as u64)?;
        c.prepare(request)?;
        c.line.set_nonblocking()?;
        poll.add(&c.line, n as u64, Interest::READ)?;
        clients.push(c)
    }
    let plan = Plan { depth: 1, ..*plan };
    let (mut waits, mut ready, mut room) = (Histogram::default(), vec![], vec![0; 64 << 10]);
    let mut idle: Vec<usize> = (0..clients.len()).collect();
    let began = Instant::now();
    let due = |n: u64| began + Duration::from_secs_f64(n as f64 / rate);
    let (mut asked, all) = (0, (plan.seconds * rate).ceil() as u64);
    while waits.len() < all {
        while let Some(n) = idle.pop_if(|_| asked < all && due(asked) <= Instant::now()) {
            clients[n].ask(request, &plan)?;
            clients[n].sent = due(asked);
            asked += 1
        }
        let left = due(asked).saturating_duration_since(Instant::now());
        let may_sleep = asked == all || idle.is_empty();
        if !may_sleep && left > SLEEP && idle.len() == clients.len() {
            std::thread::sleep(left - SLEEP)
        }
        poll.wait(&mut ready, Some(if may_sleep { LIMIT } else { Duration::ZERO }))?;
        if may_sleep && ready.is_empty() {
            return Err(format!("no answer came within {LIMIT:?}").into());
        }
        for r in &ready {
            let c = &mut clients[r.key as usize];
            if c.hear(&[request.tag], &mut room)? {
                waits.add(c.sent.elapsed().as_nanos() as u64);
                idle.push(r.key as usize)
            }
        }
    }
    Ok(waits)
}

/// Runs the clients, of as many threads as there are clients, two at most.
pub fn run(socket: &Path, speech: Speech, request: &Request, plan: &Plan) -> Result<Outcome> {
    run_to(&Place::Socket(socket.into()), speech, request, plan)
}

pub fn run_to(place: &Place, speech: Speech, request: &Request, plan: &Plan) -> Result<Outcome> {
    let threads = plan.clients.clamp(1, 2);
    let start = Arc::new(Barrier::new(threads));
    let all: Vec<_> = (0..threads)
        .map(|t| {
            let (place, request, plan, start) = (place.clone(), request.clone(), *plan, start.clone());
            std::thread::spawn(move || {
                thread((&place, speech), &request, &plan, (t..plan.clients).step_by(threads), &start)
            })
        })
        .collect();
    let mut sum = Outcome::default();
    for t in all {
        let one = t.join().map_err(|_| Error::from("a thread of clients has panicked"))??;
        sum.answers += one.answers;
        sum.seconds = sum.seconds.max(one.seconds);
        sum.waits.merge(&one.waits)
    }
    Ok(sum)
}
