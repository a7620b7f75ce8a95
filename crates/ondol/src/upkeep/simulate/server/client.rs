//! A client of the protocol in a simulated world: what it sends, and what it hears.
use ondol_base::net::{Interest, TcpStream};
use ondol_base::random::next_u64;
use ondol_base::shm::{self, Bell, End, Patience};
use ondol_base::{clock, sim};
use ondol_wire::back;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

/// Where the world's server listens.
pub(super) const ADDRESS: &str = "127.0.0.1:5432";
/// In which every statement of a history has been answered, whatever it waits for.
const PATIENCE: Duration = Duration::from_secs(120);

/// Why a client goes no further.
#[derive(Debug)]
pub(super) enum Stop {
    /// The connection is gone, or was ended by the server.
    Lost,
    /// A statement was broken off, and the client has not asked for it.
    BrokenOff,
    /// The server has done what it must not.
    Wrong(String),
}

pub(super) type Heard<T> = Result<T, Stop>;

pub(super) fn wrong<T>(what: impl Into<String>) -> Heard<T> {
    Err(Stop::Wrong(what.into()))
}

/// Whether the power that the world's server had is lost, which explains every error.
pub(super) fn power_is_lost() -> bool {
    sim::current().is_some_and(|w| w.power_is_lost())
}

/// What was told on a channel.
#[derive(Debug)]
pub(super) struct Told {
    pub payload: String,
}

/// What came up to a ReadyForQuery, or until the server waits for COPY's data.
#[derive(Debug, Default)]
pub(super) struct Reply {
    /// The kinds of its messages, rows counted once, without those that may come at any time.
    pub kinds: Vec<u8>,
    pub tags: Vec<String>,
    pub rows: Vec<Vec<Option<String>>>,
    /// SQLSTATE and message.
    pub error: Option<(String, String)>,
    /// Of ReadyForQuery; 0 where data is waited for.
    pub status: u8,
}

impl Reply {
    /// The value of the first row's column `i`.
    pub fn number(&self, i: usize) -> Heard<i64> {
        let value = self.rows.first().and_then(|r| r.get(i)?.as_ref()?.parse().ok());
        value.map_or_else(|| wrong(format!("a number was to come: {self:?}")), Ok)
    }
    pub fn state(&self) -> Option<&str> {
        self.error.as_ref().map(|e| e.0.as_str())
    }
}

/// What a client is connected by.
enum Line {
    Tcp(TcpStream),
    Memory(Box<End>),
}

impl Line {
    /// By TCP, or in memory; in which some clients are killed between two steps.
    fn connect() -> Heard<Line> {
        let stream = TcpStream::connect(ADDRESS).map_err(|_| Stop::Lost)?;
        if !next_u64().is_multiple_of(3) {
            return Ok(Line::Tcp(stream));
        }
        stream.set_read_timeout(Some(PATIENCE)).map_err(|_| Stop::Lost)?;
        (&mut &stream).write_all(&shm::REQUEST).map_err(|_| Stop::Lost)?;
        match End::accept(Bell::World(stream)) {
            Ok(Some(end)) => {
                if next_u64().is_multiple_of(8) {
                    end.kill_after((next_u64() % 300) as u32)
                }
                Ok(Line::Memory(Box::new(end)))
            }
            Ok(None) => wrong("the server gives no memory"),
            Err(e) if e.kind() == ErrorKind::WouldBlock && !power_is_lost() => {
                wrong(format!("no memory within {PATIENCE:?}"))
            }
            Err(e) if matches!(e.kind(), ErrorKind::InvalidData | ErrorKind::NotFound) => {
                wrong(e.to_string())
            }
            Err(_) => Err(Stop::Lost),
        }
    }
    fn send(&self, bytes: &[u8]) -> std::io::Result<()> {
        let end = match self {
            Line::Tcp(s) => return (&mut &*s).write_all(bytes),
            Line::Memory(end) => end,
        };
        let room = Interest { read: false, write: true };
        let mut rest = bytes;
        while !rest.is_empty() {
            let n = end.waiting(room, &mut Patience::default(), None, |end| end.write(rest))?;
            rest = &rest[n..]
        }
        Ok(())
    }
    /// What comes within the time, which an error of the kind `WouldBlock` says it did not.
    fn receive(&self, room: &mut [u8], within: Duration) -> std::io::Result<usize> {
        let end = match self {
            Line::Tcp(s) => {
                s.set_read_timeout(Some(within))?;
                return (&mut &*s).read(room);
            }
            Line::Memory(end) => end,
        };
        match end.read(room) {
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            read => return read,
        }
        match end.wait(Interest::READ, &mut Patience::default(), Some(within)) {
            Err(e) if e.kind() == ErrorKind::TimedOut => Err(ErrorKind::WouldBlock.into()),
            Err(e) => Err(e),
            Ok(()) => end.read(room),
        }
    }
}

pub(super) struct Client {
    stream: Option<Line>,
    input: Vec<u8>,
    pub process: i32,
    pub key: Vec<u8>,
    pub told: VecDeque<Told>,
    /// Cancels were sent to it: any of its statements may be broken off.
    pub is_cancelled: bool,
    /// The statement `journal` is prepared.
    pub is_prepared: bool,
    /// Its commits are not waited for.
    pub is_asynchronous: bool,
}

/// What is left of a message.
struct Body<'a>(&'a [u8]);
impl<'a> Body<'a> {
    fn bytes(&mut self, n: usize) -> Heard<&'a [u8]> {
        match self.0.split_at_checked(n) {
            Some((taken, rest)) => {
                self.0 = rest;
                Ok(taken)
            }
            None => wrong("a message ends early"),
        }
    }
    fn number(&mut self, n: usize) -> Heard<i64> {
        let negative = self.0.first().is_some_and(|b| *b > 127);
        Ok(self.bytes(n)?.iter().fold(if negative { -1 } else { 0 }, |all, b| all << 8 | i64::from(*b)))
    }
    fn text(&mut self) -> Heard<String> {
        let end = self.0.iter().position(|b| *b == 0).unwrap_or(self.0.len());
        let text = String::from_utf8_lossy(self.bytes(end)?).into_owned();
        self.bytes(1)?;
        Ok(text)
    }
}

pub(super) fn query(out: &mut Vec<u8>, sql: &str) {
    back::Message::begin(out, b'Q').text(sql).end()
}
pub(super) fn parse(out: &mut Vec<u8>, name: &str, sql: &str) {
    back::Message::begin(out, b'P').text(name).text(sql).i16(0).end()
}
/// Values are texts, and so are results.
pub(super) fn bind(out: &mut Vec<u8>, statement: &str, values: &[String]) {
    let m = back::Message::begin(out, b'B').text("").text(statement).i16(0).i16(values.len() as i16);
    values.iter().fold(m, |m, v| m.i32(v.len() as i32).bytes(v.as_bytes())).i16(0).end()
}
pub(super) fn execute(out: &mut Vec<u8>) {
    back::Message::begin(out, b'E').text("").i32(0).end()
}

impl Client {
    /// Connects, and is let in.
    pub fn connect(settings: &[(&str, &str)]) -> Heard<Client> {
        let mut client = Client {
            stream: Some(Line::connect()?),
            input: vec![],
            process: 0,
            key: vec![],
            told: VecDeque::new(),
            is_cancelled: false,
            is_prepared: false,
            is_asynchronous: false,
        };
        let mut packet =
            (3u32 << 16 | if next_u64().is_multiple_of(2) { 2 } else { 0 }).to_be_bytes().to_vec();
        for (name, value) in [("user", "postgres"), ("database", "postgres")].iter().chain(settings) {
            packet.extend([name.as_bytes(), b"\0", value.as_bytes(), b"\0"].concat())
        }
        packet.push(0);
        packet.splice(0..0, (packet.len() as u32 + 4).to_be_bytes());
        client.send(&packet)?;
        match client.reply()? {
            Reply { error: None, status: b'I', .. } if client.process != 0 => Ok(client),
            other => wrong(format!("not let in: {other:?}")),
        }
    }
    /// Asks to break off what a connection does, by its number and key, which may be wrong ones.
    pub fn cancel(process: i32, key: &[u8]) {
        let mut packet = (key.len() as u32 + 12).to_be_bytes().to_vec();
        packet.extend([&(1234u32 << 16 | 5678).to_be_bytes()[..], &process.to_be_bytes(), key].concat());
        // One that is lost does nothing.
        if let Ok(stream) = TcpStream::connect(ADDRESS) {
            let _ = (&stream).write_all(&packet);
        }
    }

    fn stream(&self) -> Heard<&Line> {
        self.stream.as_ref().ok_or(Stop::Lost)
    }
    /// Sends bytes as they are, in a write or in several.
    pub fn send(&mut self, bytes: &[u8]) -> Heard<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let n = match next_u64() % 4 {
                0 => 1 + next_u64() as usize % rest.len(),
                _ => rest.len(),
            };
            self.stream()?.send(&rest[..n]).map_err(|_| Stop::Lost)?;
            rest = &rest[n..]
        }
        Ok(())
    }
    /// Goes away without a word: in order, or not.
    pub fn vanish(mut self) {
        if let Some(Line::Tcp(stream)) = self.stream.take()
            && next_u64().is_multiple_of(2)
        {
            // It is gone either way.
            let _ = stream.reset();
        }
    }
    /// Says that it goes.
    pub fn leave(mut self) {
        let mut out = vec![];
        back::empty(&mut out, b'X');
        // It is gone either way.
        let _ = self.send(&out);
    }

    /// The next message, until then; `None` if it has not come by then.
    fn message(&mut self, deadline: Duration) -> Heard<Option<(u8, Vec<u8>)>> {
        loop {
            if let Some((head, rest)) = self.input.split_first_chunk::<5>() {
                let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
                if !(4..1 << 24).contains(&length) {
                    return wrong(format!("a message of {length} bytes: {head:?}"));
                }
                if rest.len() >= length - 4 {
                    let (kind, body) = (head[0], rest[..length - 4].to_vec());
                    self.input.drain(..length + 1);
                    return Ok(Some((kind, body)));
                }
            }
            let left = deadline.saturating_sub(clock::now());
            if left.is_zero() {
                return Ok(None);
            }
            let mut room = [0; 4096];
            match self.stream()?.receive(&mut room, left) {
                Ok(0) => return Err(Stop::Lost),
                Ok(n) => self.input.extend_from_slice(&room[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return Err(Stop::Lost),
            }
        }
    }

    /// Takes a message into the reply; true where that ends it.
    fn hear(&mut self, kind: u8, body: &[u8], reply: &mut Reply) -> Heard<bool> {
        let mut body = Body(body);
        match kind {
            b'A' => {
                body.number(4)?;
                body.text()?;
                self.told.push_back(Told { payload: body.text()? });
                return Ok(false);
            }
            b'N' | b'S' | b'R' | b'v' => return Ok(false),
            b'K' => {
                self.process = body.number(4)? as i32;
                self.key = body.0.to_vec();
                return Ok(false);
            }
            b'E' => {
                let (mut severity, mut state, mut message) = (String::new(), String::new(), String::new());
                while let Some(field) = body.0.first().copied().filter(|f| *f != 0) {
                    body.bytes(1)?;
                    let text = body.text()?;
                    match field {
                        b'V' => severity = text,
                        b'C' => state = text,
                        b'M' => message = text,
                        _ => {}
                    }
                }
                if severity != "ERROR" {
                    // The server ends, or the client has taken too long.
                    return match state.as_str() {
                        "57P01" | "25P03" => Err(Stop::Lost),
                        _ if power_is_lost() => Err(Stop::Lost),
                        _ => wrong(format!("{severity} {state} {message}")),
                    };
                }
                if state == "XX000" {
                    return wrong(format!("{state} {message}"));
                }
                reply.error = Some((state, message))
            }
            b'C' => reply.tags.push(body.text()?),
            b'D' => {
                let mut row = vec![];
                for _ in 0..body.number(2)? {
                    row.push(match body.number(4)? {
                        -1 => None,
                        n => Some(String::from_utf8_lossy(body.bytes(n as usize)?).into_owned()),
                    })
                }
                reply.rows.push(row);
                if reply.kinds.last() == Some(&b'D') {
                    return Ok(false);
                }
            }
            b'Z' => {
                reply.status = body.bytes(1)?[0];
                return Ok(true);
            }
            _ => {}
        }
        reply.kinds.push(kind);
        Ok(kind == b'G')
    }
    /// What comes up to a ReadyForQuery.
    pub fn reply(&mut self) -> Heard<Reply> {
        let mut reply = Reply::default();
        let deadline = clock::now() + PATIENCE;
        loop {
            match self.message(deadline)? {
                Some((kind, body)) => {
                    if self.hear(kind, &body, &mut reply)? {
                        return Ok(reply);
                    }
                }
                None if power_is_lost() => return Err(Stop::Lost),
                None => return wrong(format!("no answer within {PATIENCE:?}, after {reply:?}")),
            }
        }
    }
    /// Whether a reply has come within so long; what has come of it is in `reply`.
    pub fn reply_within(&mut self, time: Duration, reply: &mut Reply) -> Heard<bool> {
        let deadline = clock::now() + time;
        while let Some((kind, body)) = self.message(deadline)? {
            if self.hear(kind, &body, reply)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
    pub fn ask(&mut self, sql: &str) -> Heard<Reply> {
        let mut out = vec![];
        query(&mut out, sql);
        self.send(&out)?;
        self.reply()
    }
    /// A statement that must not fail.
    pub fn run(&mut self, sql: &str) -> Heard<Reply> {
        let reply = self.ask(sql)?;
        match &reply.error {
            None => Ok(reply),
            // A cancel that came late.
            Some((state, _)) if state == "57014" && self.is_cancelled => self.run(sql),
            Some(_) if power_is_lost() => Err(Stop::Lost),
            Some((state, _)) if state == "57014" => Err(Stop::BrokenOff),
            Some(e) => wrong(format!("{sql}: {e:?}")),
        }
    }
}
