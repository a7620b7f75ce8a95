//! What a client and its server say: from the first packet to the last message.
//!
//! ```text
//! Opening  --startup-->  Proving  --password-->  Talking        (or at once, where nothing has to be proved)
//! ```
use super::connection::{Connection, Peer};
use super::incoming::{Incoming, MESSAGE_LIMIT};
use super::log::{self, Subject};
use super::login::{self, Seat, Wishes};
use super::result::{self, Notices};
use super::talk::Talk;
use super::{Shared, io};
use crate::session::Session;
use crate::session::activity::{Departure, Seen, Who};
use ondol_base::park::Parker;
use ondol_base::{clock, random};
use ondol_engine::Token;
use ondol_types::{SqlError, SqlResult, sqlstate};
use ondol_wire::back;
use ondol_wire::front::{self, Broken, Message, Opening, PROTOCOL_VIOLATION};
use ondol_wire::scram::{Binding, Exchange, MECHANISM, PLUS, Proof};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Bytes of a message before a client has proved who it is.
const PROOF_LIMIT: usize = 10_000;
/// The protocol's newest minor version that is spoken: 3.2 has longer keys for cancelling.
const NEWEST: u16 = 2;
/// How a fiber leaves a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Served {
    /// It waits for messages.
    Waits,
    /// It is to be closed when what was answered is sent.
    Over,
}

enum Phase {
    Opening,
    Proving(Box<Proving>),
    Talking(Box<Talking>),
    Over,
}

struct Proving {
    wishes: Wishes,
    exchange: Option<Exchange>,
}

struct Talking {
    session: Session,
    talk: Talk,
    _seat: Option<Seat>,
}

pub(super) struct Client {
    phase: Phase,
}

/// Writes an error that ends the connection.
pub(super) fn fatal(connection: &Connection, e: &SqlError) {
    connection.departure.set(match e.sqlstate() {
        sqlstate::ADMIN_SHUTDOWN => Departure::Killed,
        _ => Departure::Failed,
    });
    back::report(&mut connection.output.borrow_mut(), true, "FATAL", &e.0, None)
}
pub(super) fn broken(b: Broken) -> SqlError {
    SqlError::new(PROTOCOL_VIOLATION, b.0)
}

impl Client {
    pub fn new() -> Client {
        Client { phase: Phase::Opening }
    }
    pub fn in_transaction(&self) -> bool {
        matches!(&self.phase, Phase::Talking(t) if t.session.in_transaction())
    }
    /// How long it may do nothing, and what it is told then.
    pub fn idle_limit(&self) -> Option<(Duration, SqlError)> {
        let Phase::Talking(t) = &self.phase else { return None };
        let in_transaction = t.session.in_transaction();
        let limit = t.talk.idle_limit(in_transaction)?;
        let (state, why) = match in_transaction {
            true => ("25P03", "idle-in-transaction"),
            false => ("57P05", "idle-session"),
        };
        let message = format!("terminating connection due to {why} timeout");
        Some((limit, SqlError::new(state, message)))
    }
    pub fn shrink(&mut self) {
        if let Phase::Talking(t) = &mut self.phase {
            t.session.shrink();
            t.talk.shrink()
        }
    }
    /// Tells an idle client what others told it. In a transaction it has to wait for the end, and as long as
    /// it does not take what it was told before.
    pub fn tell_notifications(&mut self, connection: &Connection) {
        let Phase::Talking(t) = &mut self.phase else { return };
        if t.session.in_transaction() || connection.unsent() > result::NOTIFIED {
            return;
        }
        connection.notified.set(false);
        result::tell_notifications(&t.session, &mut connection.output.borrow_mut())
    }
    /// Tells the client why its connection ends, if it can be told by now.
    pub fn fatal(&self, connection: &Connection, e: &SqlError) {
        if !matches!(self.phase, Phase::Opening) {
            fatal(connection, e)
        }
    }
    /// The statement has panicked: the report of that is on standard error.
    pub fn lost_its_head(&mut self, connection: &Connection) {
        let e = SqlError::new(sqlstate::INTERNAL_ERROR, "the statement ended by a fault of the server")
            .hint("The server's standard error tells where. Please report it.");
        self.fatal(connection, &e);
        self.phase = Phase::Over
    }

    /// Whether a message is whole, or wrong.
    pub fn has_work(&self, connection: &Connection) -> bool {
        let input = connection.input.borrow();
        match &self.phase {
            Phase::Opening => !matches!(front::opening(&input.bytes), Ok(None)),
            Phase::Proving(_) => !matches!(front::frame(&input.bytes, PROOF_LIMIT), Ok(None)),
            Phase::Talking(_) => match front::frame(&input.bytes, MESSAGE_LIMIT) {
                Ok(None) => false,
                // talk/T1
                Ok(Some(f)) => f.kind != b'E' || input.bytes.len() > f.size(),
                Err(_) => true,
            },
            Phase::Over => false,
        }
    }

    /// Reads and answers what has come. With how it ended comes what the answers rest on.
    pub fn serve(&mut self, connection: &Connection, shared: &Arc<Shared>) -> (Served, Option<Token>) {
        let mut incoming = Incoming::default();
        incoming.refill(connection);
        let (mut served, mut token) = (Served::Waits, None);
        loop {
            let step = match &mut self.phase {
                Phase::Opening => self.open(connection, shared, &mut incoming),
                Phase::Proving(_) => self.prove(connection, shared, &mut incoming),
                Phase::Talking(t) => {
                    let Talking { session, talk, .. } = &mut **t;
                    let (done, held) = session.held(|s| Ok(talk.serve(s, connection, &mut incoming)));
                    (served, token) = (done.unwrap_or(Served::Over), held);
                    break;
                }
                Phase::Over => Err(None),
            };
            match step {
                Ok(true) => {}
                Ok(false) if incoming.refill(connection) => {}
                Ok(false) => break,
                Err(e) => {
                    if let Some(e) = e {
                        self.tell_refused(connection, shared, &e);
                        fatal(connection, &e)
                    }
                    self.phase = Phase::Over;
                    served = Served::Over;
                    break;
                }
            }
        }
        match served {
            Served::Waits => incoming.put_back(connection),
            Served::Over => incoming.drop_rest(),
        }
        (served, token)
    }

    /// A first packet. False: it is not whole; an error ends the connection, and is told if there is one.
    fn open(
        &mut self,
        connection: &Connection,
        shared: &Arc<Shared>,
        incoming: &mut Incoming,
    ) -> Result<bool, Option<SqlError>> {
        let Some(opening) = incoming.opening().map_err(|b| Some(broken(b)))? else { return Ok(false) };
        match opening {
            // The acceptor has heard these.
            Opening::Ssl | Opening::Gss | Opening::Memory | Opening::Cancel { .. } => {
                return Err(None);
            }
            Opening::Startup { major: 3, minor, settings } => {
                let mut wishes = Wishes::of(&settings)?;
                if shared.open.load(Ordering::Relaxed) > shared.most {
                    return Err(Some(SqlError::new("53300", "sorry, too many clients already")));
                }
                // There was no 3.1.
                wishes.minor = if minor < NEWEST { 0 } else { NEWEST };
                if minor != wishes.minor || !wishes.unknown.is_empty() {
                    let unknown: Vec<&str> = wishes.unknown.iter().map(String::as_str).collect();
                    back::negotiate(&mut connection.output.borrow_mut(), wishes.minor, &unknown)
                }
                match login::must_prove(connection, &wishes, shared)? {
                    true => {
                        let all = [PLUS, MECHANISM];
                        let offered =
                            if connection.stream.end_point().is_some() { &all[..] } else { &all[1..] };
                        back::authentication_sasl(&mut connection.output.borrow_mut(), offered);
                        self.phase = Phase::Proving(Box::new(Proving { wishes, exchange: None }))
                    }
                    false => self.begin(wishes, connection, shared)?,
                }
            }
            Opening::Startup { major, minor, .. } => {
                let message = format!(
                    "unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.{NEWEST}"
                );
                return Err(Some(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message)));
            }
        }
        Ok(true)
    }

    /// A message of SASL's exchange.
    fn prove(
        &mut self,
        connection: &Connection,
        shared: &Arc<Shared>,
        incoming: &mut Incoming,
    ) -> Result<bool, Option<SqlError>> {
        let Phase::Proving(proving) = &mut self.phase else { return Err(None) };
        let Some(frame) = incoming.next(PROOF_LIMIT).map_err(|b| Some(broken(b)))? else { return Ok(false) };
        let size = frame.size();
        let body = match frame.read()? {
            Message::Password(body) => body,
            Message::Terminate => return Err(None),
            _ => {
                let message = format!("expected SASL response, got message type {}", frame.kind);
                return Err(Some(SqlError::new(PROTOCOL_VIOLATION, message)));
            }
        };
        match &proving.exchange {
            None => {
                let (mechanism, said) = front::sasl_initial(body)?;
                let binding = match (mechanism, connection.stream.end_point()) {
                    (PLUS, Some(data)) => Binding::Chosen(data),
                    (MECHANISM, Some(_)) => Binding::Offered,
                    (MECHANISM, None) => Binding::Absent,
                    _ => {
                        let message = "client selected an invalid SASL authentication mechanism";
                        return Err(Some(
                            SqlError::new(PROTOCOL_VIOLATION, message)
                                .detail(format!("Expected {MECHANISM}, found \"{mechanism}\".")),
                        ));
                    }
                };
                let own = random::secret().map_err(|e| io("could not get random bytes", &e))?;
                let catalog = shared.database.engine.catalog();
                let verifier = shared.roles.verifier(&proving.wishes.role, &catalog);
                let (exchange, answer) = Exchange::begin(said, &own, verifier, binding)?;
                proving.exchange = Some(exchange);
                back::authentication_sasl_continue(&mut connection.output.borrow_mut(), &answer);
                incoming.skip(size)
            }
            Some(exchange) => match exchange.end(body)? {
                Proof::Wrong => {
                    // Nobody tries many passwords quickly.
                    let wait = shared.roles.failed(connection.peer, clock::now());
                    if !wait.is_zero() {
                        Parker::new().park(Some(clock::now() + wait));
                    }
                    return Err(Some(login::wrong_password(&proving.wishes.role)));
                }
                Proof::Good(answer) => {
                    incoming.skip(size);
                    back::authentication_sasl_final(&mut connection.output.borrow_mut(), &answer);
                    let wishes = std::mem::take(&mut proving.wishes);
                    self.begin(wishes, connection, shared)?
                }
            },
        }
        Ok(true)
    }

    /// The log has who was not let in.
    fn tell_refused(&self, connection: &Connection, shared: &Shared, e: &SqlError) {
        let subject = Subject {
            role: match &self.phase {
                Phase::Proving(p) => p.wishes.role.clone(),
                _ => String::new(),
            },
            from: connection.peer.to_string(),
            ..Subject::default()
        };
        let message = format!("{}, from {}", e.0.message, subject.from);
        let fields = [("sqlstate", e.sqlstate().to_string())];
        log::tell(shared.database.board.form(), "FATAL", Some(&subject), &message, &fields)
    }

    /// Others see it from now on.
    fn enter(
        &self,
        session: &Session,
        role: &str,
        connection: &Connection,
        shared: &Arc<Shared>,
    ) -> Arc<Seen> {
        let process = connection.number.get();
        let who = Who {
            process,
            known: session.connection.known(),
            role: session.role(),
            role_name: role.to_string(),
            address: match connection.peer {
                Peer::Tcp(from) => Some((from.ip().to_canonical().to_string(), from.port())),
                Peer::Unix { .. } => None,
            },
            encrypted: connection.stream.terms(),
        };
        // The board is the database's, and outlives the server.
        let server = Arc::downgrade(shared);
        let signal = move |ends: bool| {
            let Some(server) = server.upgrade() else { return };
            if let Some(canceller) = server.keys.of(process) {
                canceller.cancel()
            }
            if ends {
                server.doors.get().into_iter().flat_map(|d| d.iter()).for_each(|d| d.tell())
            }
        };
        let seen = Seen::new(who, Box::new(signal), connection.door.meter.clone());
        shared.database.board.enter(seen.clone());
        seen
    }

    /// The client is who it says it is.
    fn begin(&mut self, wishes: Wishes, connection: &Connection, shared: &Arc<Shared>) -> SqlResult<()> {
        let seat = login::admit(&wishes.role, &wishes.database, shared)?;
        let mut session = shared.database.session();
        session.settings = shared.told().settings.clone();
        session.set_authenticated(&wishes.role)?;
        let notices = Notices::default();
        let told = notices.clone();
        session.on_notice(move |n| told.lock().push(n.clone()));
        session.begin_with_kept();
        for (name, value) in &wishes.settings {
            session.settings.begin_with(name, value, "client")?
        }
        session.settings_changed();
        let (door, key) = (connection.door.clone(), connection.key);
        session.on_notification(move || door.notify(key));
        let given = shared.keys.give(session.canceller(), wishes.minor >= NEWEST);
        let (number, key) = given.map_err(|e| io("could not get random bytes", &e))?;
        connection.number.set(number);
        session.process = number;
        connection.deadline.set(None);
        let seen = self.enter(&session, &wishes.role, connection, shared);
        if shared.told().log_connections {
            let subject = Subject { application: wishes.application(), ..seen.subject() };
            let tls =
                connection.stream.terms().map_or(String::new(), |(v, c)| format!(" TLS={v} cipher={c}"));
            let message = format!(
                "connection authorized: user={} database={} host={}{tls}",
                subject.role, wishes.database, subject.from
            );
            log::tell(shared.database.board.form(), "LOG", Some(&subject), &message, &[])
        }
        session.seen = Some(seen);
        let mut talk = Talk::new(&session, notices.clone());
        let mut out = connection.output.borrow_mut();
        back::authentication_ok(&mut out);
        talk.report(&session, &mut out);
        back::key_data(&mut out, number, &key);
        result::tell_notices(&notices, &mut out);
        back::ready(&mut out, b'I');
        drop(out);
        self.phase = Phase::Talking(Box::new(Talking { session, talk, _seat: seat }));
        Ok(())
    }
}
