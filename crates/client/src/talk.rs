//! A conversation with a server, message by message.
//!
//! - **L1** Who tells [`Talk::cancel`] to end has the server asked, over a connection of its own, to break
//!   off what it does. What is waited for ends when the server says so: nobody else knows what it has done.
use crate::address::Address;
use crate::carrier::Carrier;
use crate::message::{Body, Report, garbled};
use ondol_base::cancel::Cancel;
use ondol_types::SqlError;
use ondol_wire::back::Message;
use ondol_wire::scram::{MECHANISM, PLUS};
use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often somebody who waits looks whether to ask for its end (L1).
const LOOK: Duration = Duration::from_millis(100);
/// In which the server hears that.
const TO_HEAR: Duration = Duration::from_secs(2);
/// In which a server says whether it lets somebody in; PostgreSQL gives its clients as long.
const TO_LOG_IN: Duration = Duration::from_secs(60);
/// Bytes that are read at once; what is used at least, if more is there.
const ROOM: usize = 32 << 10;
/// No message of PostgreSQL's is longer.
const LONGEST: usize = 1 << 30;

/// Why there is no conversation.
pub enum Failure {
    /// The server says it.
    Refused(SqlError),
    Lost(Error),
}

impl From<Error> for Failure {
    fn from(e: Error) -> Failure {
        Failure::Lost(e)
    }
}

impl From<SqlError> for Failure {
    fn from(e: SqlError) -> Failure {
        Failure::Refused(e)
    }
}

/// A message of the server's, in the conversation's input.
pub struct Frame {
    pub kind: u8,
    pub(crate) body: Range<usize>,
}

pub struct Talk {
    address: Address,
    carrier: Carrier,
    /// What was read are the first `filled` bytes, of which `at` were given out.
    input: Vec<u8>,
    filled: usize,
    at: usize,
    output: Vec<u8>,
    /// By which a statement is broken off.
    key: Vec<u8>,
    cancel: Arc<Cancel>,
    has_asked: bool,
    is_given_up: bool,
    /// Until then something has to come.
    deadline: Option<Instant>,
}

impl Talk {
    /// Connects, and logs in. `application` is what the server calls the session; `tell` gets notices.
    pub fn connect(
        address: &Address,
        application: &str,
        tell: &mut dyn FnMut(&Report),
    ) -> std::result::Result<Talk, Failure> {
        let mut carrier = Carrier::open(address)?;
        carrier.set_timeout(Some(LOOK))?;
        let mut talk = Talk {
            address: address.clone(),
            carrier,
            input: vec![],
            filled: 0,
            at: 0,
            output: vec![],
            key: vec![],
            cancel: Arc::new(Cancel::new()),
            has_asked: false,
            is_given_up: false,
            deadline: None,
        };
        talk.log_in(application, tell)?;
        Ok(talk)
    }
    pub fn address(&self) -> &Address {
        &self.address
    }
    pub fn cancel(&self) -> &Arc<Cancel> {
        &self.cancel
    }
    /// Nothing more is sent.
    pub fn give_up(&mut self) {
        self.output.clear();
        self.is_given_up = true
    }
    /// What is asked from now on is a piece of work of its own (L1).
    pub fn begin(&mut self) {
        self.cancel.begin();
        self.has_asked = false
    }

    /// What is to be sent.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }
    /// Sends it.
    pub fn flush(&mut self) -> Result<()> {
        self.carrier.write_all(&self.output)?;
        self.output.clear();
        self.carrier.flush()
    }
    /// Sends a message.
    pub fn send(&mut self, kind: u8, body: &[u8]) -> Result<()> {
        Message::begin(&mut self.output, kind).bytes(body).end();
        self.flush()
    }
    /// Sends whole messages, where nothing else is to be sent.
    pub(crate) fn send_all(&mut self, messages: &[u8]) -> Result<()> {
        debug_assert!(self.output.is_empty());
        self.carrier.write_all(messages)?;
        self.carrier.flush()
    }

    /// The next message, however long it takes (L1). It can be looked at until [`Talk::forget`].
    #[inline]
    pub fn receive(&mut self) -> Result<Frame> {
        loop {
            let rest = &self.input[self.at..self.filled];
            if let Some(head) = rest.first_chunk::<5>() {
                let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
                if !(4..LONGEST).contains(&length) {
                    return Err(garbled());
                }
                if length < rest.len() {
                    let found = Frame { kind: head[0], body: self.at + 5..self.at + 1 + length };
                    self.at += 1 + length;
                    return Ok(found);
                }
            }
            self.fill()?
        }
    }
    pub fn body(&self, of: &Frame) -> Body<'_> {
        Body(&self.input[of.body.clone()])
    }
    /// What was given out, in which rows' places are.
    pub(crate) fn given(&self) -> &[u8] {
        &self.input[..self.at]
    }
    /// What was given out is not looked at any more.
    pub fn forget(&mut self) {
        // What is moved is no more than what was given out: else each of many short messages would move all
        // that came behind it.
        let rest = self.filled - self.at;
        if self.at >= rest {
            self.input.copy_within(self.at..self.filled, 0);
            (self.at, self.filled) = (0, rest)
        }
    }
    #[cold]
    #[inline(never)]
    fn fill(&mut self) -> Result<()> {
        if self.input.len() - self.filled < ROOM {
            let more = (self.input.len() / 2).max(2 * ROOM);
            self.input.resize(self.input.len() + more, 0)
        }
        if self.cancel.is_told() {
            self.ask_to_end()
        }
        loop {
            match self.carrier.read(&mut self.input[self.filled..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    self.filled += n;
                    return Ok(());
                }
                Err(e) => match e.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {
                        if self.deadline.is_some_and(|d| Instant::now() > d) {
                            let message = format!("the server does not answer within {TO_LOG_IN:?}");
                            return Err(Error::new(ErrorKind::TimedOut, message));
                        }
                        self.ask_to_end()
                    }
                    _ => return Err(e),
                },
            }
        }
    }
    /// The server is asked anew, if it is still to end.
    pub fn ask_again(&mut self) {
        self.has_asked = false
    }
    fn ask_to_end(&mut self) {
        if !self.cancel.is_told() || std::mem::replace(&mut self.has_asked, true) {
            return;
        }
        let body = [&(1234u32 << 16 | 5678).to_be_bytes()[..], &self.key].concat();
        let message = [&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat();
        // If it does not get there, the statement goes on, as it would have without. The server closes the
        // connection when it has heard: what it does after that is not meant.
        let _ = self.address.dial(TO_HEAR).and_then(|mut c| {
            c.set_timeout(Some(TO_HEAR))?;
            c.write_all(&message)?;
            c.read(&mut [0])
        });
    }

    fn log_in(
        &mut self,
        application: &str,
        tell: &mut dyn FnMut(&Report),
    ) -> std::result::Result<(), Failure> {
        let Address { user, database, password, .. } = self.address.clone();
        let settings = [
            "user",
            &user,
            "database",
            &database,
            "application_name",
            application,
            "client_encoding",
            "UTF8",
        ];
        let body = settings.iter().fold(vec![0, 3, 0, 0], |b, s| [&b[..], s.as_bytes(), b"\0"].concat());
        let length = (body.len() as u32 + 5).to_be_bytes();
        self.send_all(&[&length[..], &body, b"\0"].concat())?;
        let (mut scram, mut is_proved) = (None::<ScramSha256>, false);
        let until = Instant::now() + TO_LOG_IN;
        self.deadline = Some(until);
        loop {
            self.forget();
            let frame = self.receive()?;
            match frame.kind {
                b'R' => {
                    let mut body = self.body(&frame);
                    let said = match body.i32()? {
                        // Who has begun to prove that it knows the password has to go through with it.
                        0 if scram.is_some() && !is_proved => return Err(garbled().into()),
                        0 => continue,
                        10 => {
                            let given = password.clone().or_else(|| std::env::var("PGPASSWORD").ok());
                            let given = given.ok_or_else(|| {
                                let message = format!("a password is needed for user \"{user}\"");
                                SqlError::new("28P01", message)
                                    .hint("Give it in the address, or in the environment as PGPASSWORD.")
                            })?;
                            let mut offered = vec![];
                            while let Some(name) = body.text().ok().filter(|n| !n.is_empty()) {
                                offered.push(name)
                            }
                            let (mechanism, binding) =
                                match (self.carrier.end_point(), offered.contains(&PLUS)) {
                                    (Some(data), true) => (PLUS, ChannelBinding::tls_server_end_point(data)),
                                    (Some(_), false) => (MECHANISM, ChannelBinding::unrequested()),
                                    (None, _) => (MECHANISM, ChannelBinding::unsupported()),
                                };
                            let exchange = scram.insert(ScramSha256::new(given.as_bytes(), binding));
                            let said = exchange.message();
                            let length = (said.len() as u32).to_be_bytes();
                            [mechanism.as_bytes(), b"\0", &length, said].concat()
                        }
                        11 => {
                            let exchange = scram.as_mut().ok_or_else(garbled)?;
                            exchange.update(body.0)?;
                            exchange.message().to_vec()
                        }
                        12 => {
                            scram.as_mut().ok_or_else(garbled)?.finish(body.0)?;
                            is_proved = true;
                            continue;
                        }
                        other => {
                            let what = format!("authentication by method {other}: expected SCRAM-SHA-256");
                            return Err(SqlError::new("0A000", what).into());
                        }
                    };
                    self.send(b'p', &said)?
                }
                b'K' => self.key = self.body(&frame).0.to_vec(),
                b'E' => return Err(Report::read(self.body(&frame).0, "")?.error.into()),
                b'N' => tell(&Report::read(self.body(&frame).0, "")?),
                b'Z' => {
                    self.deadline = None;
                    return Ok(());
                }
                _ => {}
            }
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        // Who is gone already needs no farewell; of what was not sent nobody knows that it would be.
        self.output.clear();
        if !self.is_given_up {
            let _ = self.send(b'X', b"");
        }
    }
}
