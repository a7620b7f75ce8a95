//! A connection: a socket, what came from it and was not read yet, and what is to be sent.
use super::conversation::Client;
use super::tls::Secured;
use super::worker::Door;
use crate::session::activity::Departure;
use ondol_base::net::{Descriptor, Interest, Source, TcpStream};
use ondol_base::park::Parker;
use ondol_base::shm;
use ondol_base::sim::mutated;
use ondol_base::sync::yield_point;
use std::cell::{Cell, RefCell};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<Secured>),
    /// The socket that it came over wakes either side, and tells the end.
    Memory(Box<shm::End>),
}

impl Source for Stream {
    fn descriptor(&self) -> Descriptor<'_> {
        match self {
            Stream::Tcp(s) => s.descriptor(),
            Stream::Unix(s) => s.descriptor(),
            Stream::Tls(s) => s.socket.descriptor(),
            Stream::Memory(s) => s.descriptor(),
        }
    }
}

impl Stream {
    pub fn read(&self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Stream::Tcp(s) => (&mut &*s).read(buffer),
            Stream::Unix(s) => (&mut &*s).read(buffer),
            Stream::Tls(s) => s.read(buffer),
            Stream::Memory(s) => s.read(buffer),
        }
    }
    pub fn write(&self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Stream::Tcp(s) => (&mut &*s).write(bytes),
            Stream::Unix(s) => (&mut &*s).write(bytes),
            Stream::Tls(s) => s.write(bytes),
            Stream::Memory(s) => s.write(bytes),
        }
    }
    /// Sends what was taken and is not sent.
    fn flush(&self) -> std::io::Result<()> {
        match self {
            Stream::Tls(s) => s.flush(),
            _ => Ok(()),
        }
    }
    fn is_holding(&self) -> bool {
        matches!(self, Stream::Tls(s) if s.is_holding())
    }
    /// What it is encrypted by, if it is.
    pub fn terms(&self) -> Option<(&'static str, String)> {
        match self {
            Stream::Tls(s) => s.terms(),
            _ => None,
        }
    }
    /// What a proof is bound to, if there is something.
    pub fn end_point(&self) -> Option<&[u8]> {
        match self {
            Stream::Tls(s) => s.end_point(),
            _ => None,
        }
    }
    pub fn memory(&self) -> Option<&shm::End> {
        match self {
            Stream::Memory(s) => Some(s),
            _ => None,
        }
    }
}

/// Who is at the other end, as the system has it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Peer {
    Unix { user: u32 },
    Tcp(SocketAddr),
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Peer::Unix { .. } => f.write_str("[local]"),
            Peer::Tcp(from) => write!(f, "{}:{}", from.ip().to_canonical(), from.port()),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Its client waits for a message.
    Idle,
    /// A fiber has its client.
    Running,
    /// Answers wait until what they rest on is durable (server/E3).
    Held,
}

/// What came, and where the next message begins.
#[derive(Default)]
pub(super) struct Input {
    pub bytes: Vec<u8>,
    /// The other side sends no more.
    pub ended: bool,
}

pub(super) struct Connection {
    pub stream: Stream,
    pub key: u64,
    pub peer: Peer,
    pub state: Cell<State>,
    pub client: RefCell<Option<Box<Client>>>,
    pub input: RefCell<Input>,
    pub output: RefCell<Vec<u8>>,
    /// Bytes of the output that were sent already.
    sent: Cell<usize>,
    /// The fiber waits here, for input or until the output is taken.
    pub waits: RefCell<Option<Arc<Parker>>>,
    /// The fiber goes on only when all of the output is taken.
    pub waits_until_taken: Cell<bool>,
    /// The output may be sent while a fiber has the client: all that it rests on is durable.
    pub may_send: Cell<bool>,
    /// The number that the client knows it by; 0 before there is one.
    pub number: Cell<i32>,
    /// Where to tell the worker that something was told on a channel.
    pub door: Arc<Door>,
    /// Something was, and the client does not know yet.
    pub notified: Cell<bool>,
    /// Keys of the worker's connections for which something is to be done.
    touched: Rc<RefCell<Vec<u64>>>,
    /// Nothing can be sent or received any more.
    pub lost: Cell<bool>,
    /// To be closed once the output is sent.
    pub closing: Cell<bool>,
    /// Since when answers wait (meter/M2).
    pub held_ns: Cell<u64>,
    /// How its session ends, as far as is known.
    pub departure: Cell<Departure>,
    /// What the poll waits for.
    pub interest: Cell<Interest>,
    /// Until when it has to have proved who it is.
    pub deadline: Cell<Option<Duration>>,
    /// It has run something since its session gave its memory up.
    pub is_warm: Cell<bool>,
    /// It is in memory, and looked at each turn (worker/R4).
    pub is_watched: Cell<bool>,
    pub last_used: Cell<Duration>,
}

/// Input that is not read yet: so much, then the client has to wait.
const INPUT_MOST: usize = 256 << 10;
/// Bytes that are taken from a socket in one go.
const PIECE: usize = 32 << 10;
/// A buffer that is larger is given back when it is empty and nothing runs.
const KEPT: usize = 8 << 10;
/// Bytes of answers with which a client that does not take them has no more of its messages run.
pub(super) const OUTPUT_MOST: usize = 256 << 10;

/// A known-wrong variant, for the simulator: what has come of a message is taken as all of it.
#[cold]
fn pad(bytes: &mut Vec<u8>) {
    let mut at = 0;
    while let Some(head) = bytes.get(at..).and_then(|rest| rest.first_chunk::<5>()) {
        at += 1 + u32::from_be_bytes([head[1], head[2], head[3], head[4]]).min(1 << 16) as usize
    }
    if at > bytes.len() {
        bytes.resize(at, 0)
    }
}

impl Connection {
    pub fn new(
        stream: Stream,
        key: u64,
        peer: Peer,
        deadline: Duration,
        touched: Rc<RefCell<Vec<u64>>>,
        door: Arc<Door>,
    ) -> Connection {
        Connection {
            stream,
            key,
            peer,
            state: Cell::new(State::Idle),
            client: RefCell::new(Some(Box::new(Client::new()))),
            input: RefCell::default(),
            output: RefCell::default(),
            sent: Cell::new(0),
            waits: RefCell::new(None),
            waits_until_taken: Cell::new(false),
            may_send: Cell::new(false),
            number: Cell::new(0),
            door,
            notified: Cell::new(false),
            touched,
            lost: Cell::new(false),
            closing: Cell::new(false),
            held_ns: Cell::new(0),
            departure: Cell::new(Departure::Abandoned),
            interest: Cell::new(Interest::READ),
            deadline: Cell::new(Some(deadline)),
            is_warm: Cell::new(false),
            is_watched: Cell::new(false),
            last_used: Cell::new(Duration::ZERO),
        }
    }

    /// Takes what has come; `room` is for the worker's use.
    pub fn receive(&self, room: &mut [u8; PIECE]) {
        let mut input = self.input.borrow_mut();
        while !input.ended && !self.closing.get() && !self.is_full(input.bytes.len()) {
            match self.stream.read(room) {
                Ok(0) => input.ended = true,
                Ok(n) => {
                    input.bytes.extend_from_slice(&room[..n]);
                    // A fuller socket has its next turn.
                    if n < room.len() || input.bytes.len() >= INPUT_MOST {
                        break;
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.lost.set(true);
                    input.ended = true
                }
            }
        }
        if mutated("cut_taken_as_whole") && self.state.get() == State::Idle {
            pad(&mut input.bytes)
        }
        drop(input);
        self.tell()
    }

    /// Whether it is in memory, and there is something to be taken, or room for what is to be sent
    /// (worker/R4).
    pub fn has_news(&self) -> bool {
        self.stream.memory().is_some_and(|m| !self.lost.get() && m.has_news(self.wishes()))
    }
    /// Says to the client of one in memory that it has to ring from now on; false if there is news.
    pub fn go_to_sleep(&self) -> bool {
        self.stream.memory().is_none_or(|m| self.lost.get() || m.go_to_sleep(self.wishes()))
    }

    /// Whether so much of the input waits that the client has to. A message of any length may be in the
    /// making while nothing runs, unless the client does not take its answers.
    fn is_full(&self, bytes: usize) -> bool {
        bytes >= INPUT_MOST && (self.state.get() != State::Idle || self.unsent() > OUTPUT_MOST)
    }

    /// The fiber that waits here may go on.
    pub fn tell(&self) {
        if let Some(parker) = &*self.waits.borrow() {
            parker.unpark()
        }
    }

    /// The worker is to look at it.
    pub fn touch(&self) {
        self.touched.borrow_mut().push(self.key)
    }
    /// What is in the output may be sent now.
    pub fn can_send(&self) -> bool {
        match self.state.get() {
            State::Idle => true,
            State::Running => self.may_send.get(),
            State::Held => false,
        }
    }

    /// Bytes that are to be sent still, one for all that are encrypted.
    pub fn unsent(&self) -> usize {
        self.output.borrow().len() - self.sent.get() + usize::from(self.stream.is_holding())
    }

    /// Sends what the system takes.
    pub fn send(&self) {
        let mut output = self.output.borrow_mut();
        while self.sent.get() < output.len() && !self.lost.get() {
            match self.stream.write(&output[self.sent.get()..]) {
                Ok(n) => self.sent.set(self.sent.get() + n),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    // A client that is never done with all of it is not to have it all kept.
                    if self.sent.get() > OUTPUT_MOST / 2 {
                        output.drain(..self.sent.take());
                    }
                    return;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.lost.set(true),
            }
        }
        if self.stream.flush().is_err_and(|e| e.kind() != ErrorKind::WouldBlock) {
            self.lost.set(true)
        }
        self.sent.set(0);
        output.clear();
        if output.capacity() > KEPT && self.state.get() != State::Running {
            *output = Vec::new()
        }
        // What is encrypted already may wait still.
        if self.waits_until_taken.get() && !self.stream.is_holding() {
            self.tell()
        }
    }
    /// Waits until all of the output is sent, or the waiting one is told something else: then it looks.
    pub fn park_until_taken(&self, parker: &Arc<Parker>) {
        self.park_for(parker, true, || self.unsent() == 0)
    }
    /// Waits until something has come, or the waiting one is told something else.
    pub fn park_until_input(&self, parker: &Arc<Parker>) {
        self.park_for(parker, false, || {
            let input = self.input.borrow();
            input.ended || !input.bytes.is_empty()
        })
    }
    /// Gives way to others of the worker, which meanwhile sends what there is: all that it rests on is
    /// durable.
    fn park_for(&self, parker: &Arc<Parker>, until_taken: bool, is_there: impl Fn() -> bool) {
        self.send();
        *self.waits.borrow_mut() = Some(parker.clone());
        self.waits_until_taken.set(until_taken);
        self.may_send.set(true);
        self.touch();
        // Who comes here again and again without a wait is to be noticed by the simulator.
        yield_point();
        if !is_there() && !self.lost.get() {
            parker.park(None);
        }
        self.may_send.set(false);
        self.waits_until_taken.set(false);
        *self.waits.borrow_mut() = None
    }

    /// Forgets what was not sent.
    pub fn unsay(&self) {
        self.output.borrow_mut().truncate(self.sent.get())
    }

    /// What the poll is to wait for now.
    pub fn wanted(&self) -> Interest {
        match self.stream {
            // Rings, and the end.
            Stream::Memory(_) => Interest::READ,
            _ => self.wishes(),
        }
    }
    /// What there is to be done with the client's stream.
    fn wishes(&self) -> Interest {
        let input = self.input.borrow();
        let is_full = self.is_full(input.bytes.len());
        Interest {
            read: !input.ended && !is_full && !self.closing.get(),
            write: self.can_send() && self.unsent() > 0,
        }
    }

    /// Gives up memory that an idle connection does not need.
    pub fn shrink(&self) {
        let mut input = self.input.borrow_mut();
        if input.bytes.is_empty() {
            input.bytes = Vec::new()
        }
        let mut output = self.output.borrow_mut();
        if output.is_empty() {
            *output = Vec::new()
        }
    }
}
