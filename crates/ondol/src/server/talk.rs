//! What a client says that has proved who it is, and what its session answers.
//!
//! - **T1** Statements of one text, and those between two Syncs, are one transaction unless a statement
//!   begins or ends one (control/X4). An Execute that a Sync follows, with nothing before it, commits by
//!   itself: so an Execute is not looked at before what follows it is there, which has to come.
//! - **T2** After an error, messages of the extended protocol are skipped up to a Sync.
//! - **T3** A portal lives as long as the transaction that it was bound in.
//! - **T4** Names of prepared statements are the session's, for PREPARE, EXECUTE and DEALLOCATE as well. The
//!   handle that is kept here is good while the name means the same text.
use super::connection::{Connection, OUTPUT_MOST};
use super::conversation::{Served, broken, fatal};
use super::incoming::{Incoming, MESSAGE_LIMIT};
use super::log;
use super::result::{self, Answer, Around, Notices, Telling};
use crate::session::Session;
use crate::session::activity::{self, Departure};
use crate::session::control::ends_failed;
use crate::session::cursor::{Cursor, cannot_be_run};
use crate::session::output::{CopiedRows, Output};
use crate::session::params::with_refs;
use crate::session::planned::transaction_failed;
use crate::session::prepared::Prepared;
use crate::session::rows::{Column, Row, Rows};
use crate::session::settings::Settings;
use crate::session::split::split;
use crate::session::statements::{Fingerprint, Took};
use ondol_base::fiber::{on_thread_stack, take_turns};
use ondol_base::sim::mutated;
use ondol_engine::{Catalog, Charge, Token};
use ondol_sql::parse;
use ondol_sql::parse::lexer::Tokens;
use ondol_types::{SqlError, SqlResult, TypeId, Value, sqlstate};
use ondol_wire::front::{self, Bind, Broken, Message, PROTOCOL_VIOLATION, Target};
use ondol_wire::{back, binary};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

mod reads;

/// Settings of which clients are told the values, at first and whenever they change.
const REPORTED: [&str; 13] = [
    "application_name",
    "client_encoding",
    "DateStyle",
    "default_transaction_read_only",
    "in_hot_standby",
    "integer_datetimes",
    "IntervalStyle",
    "is_superuser",
    "server_encoding",
    "server_version",
    "session_authorization",
    "standard_conforming_strings",
    "TimeZone",
];
/// Messages after which what was answered is sent.
const TURN: usize = 1000;
/// Messages after which others may have their turn.
const FEW: usize = 16;

struct Statement {
    prepared: Prepared,
    /// What the client sent, and where the statement begins in it: for errors' positions.
    text: String,
    from: usize,
    fingerprint: Fingerprint,
}

struct Portal {
    statement: Rc<Statement>,
    params: Vec<Value>,
    forms: Vec<bool>,
    progress: Progress,
    /// Nanoseconds that it took so far, and rows that it gave.
    spent: (u64, u64),
}

/// How things stand before a statement, for finding out which transactions it ends.
#[derive(Clone, Copy)]
struct Before {
    in_transaction: bool,
    transactions: u64,
}

impl Before {
    fn of(s: &Session) -> Before {
        Before { in_transaction: s.in_transaction(), transactions: s.transactions }
    }
    /// The statement has ended, with that tag or in an error: counts the transaction that has ended with it.
    fn count(self, s: &Session, tag: Option<&str>) {
        let Some(seen) = &s.seen else { return };
        let goes_on = s.in_transaction() && (!self.in_transaction || self.transactions == s.transactions);
        if goes_on {
            return;
        }
        match tag {
            Some(tag) if tag != "ROLLBACK" => seen.meter.commits.add(1),
            _ => seen.meter.rollbacks.add(1),
        }
    }
}

enum Progress {
    /// It was not executed yet.
    Bound,
    Reading(Cursor),
    /// It is a cursor of the session's, by the same name.
    Named,
    /// A result that was made as a whole: how many rows of it were given, and the statement's tag.
    Kept {
        rows: Rows,
        given: usize,
        tag: String,
    },
    Done,
}

/// What an Execute came to.
enum Executed {
    Done(String),
    Empty,
    Suspended,
}

impl Executed {
    fn of(tag: Option<String>) -> Executed {
        tag.map_or(Executed::Suspended, Executed::Done)
    }
}

/// What a session that talks has beside the session.
pub(super) struct Talk {
    around: Rc<Around>,
    statements: HashMap<String, Rc<Statement>>,
    portals: HashMap<String, Portal>,
    /// T2
    skips: bool,
    /// The values that were reported, and the settings then.
    reported: Vec<String>,
    settings: Option<Settings>,
    /// How long the client may do nothing: in a transaction, and outside.
    idle: [Option<Duration>; 2],
    /// The last commit of the turn, which is not known to be durable.
    token: Option<Token>,
    /// What reads that were executed together leave for the next.
    room: Option<Box<reads::Room>>,
}

/// The statements of a text, and where each begins in it.
fn pieces(text: &str) -> Vec<(usize, String)> {
    let mut from = 0;
    let all = split(text);
    let mut found = Vec::with_capacity(all.len());
    for piece in all {
        let mut tokens = Tokens::new(&text[from..]);
        // A semicolon that ends nothing is none of the statement's.
        let start = tokens.find(|t| &text[from + t.start..from + t.end] != ";").map_or(0, |t| t.start);
        found.push((from + start, piece));
        from = (from + start + found.last().map_or(0, |f| f.1.len())).min(text.len());
        while !text.is_char_boundary(from) {
            from -= 1
        }
    }
    found
}

fn type_of(oid: u32, catalog: &Catalog) -> SqlResult<TypeId> {
    if oid == 0 {
        return Ok(TypeId::UNKNOWN);
    }
    let own = || {
        let ids = catalog.types.values().copied();
        ids.flat_map(|t| [Some(t), t.array()]).flatten().find(|t| t.oid() == oid)
    };
    TypeId::from_oid(oid).or_else(own).ok_or_else(|| {
        SqlError::new(sqlstate::UNDEFINED_OBJECT, format!("type with OID {oid} does not exist"))
    })
}

/// Keeps a result that is given in pieces.
#[derive(Default)]
struct Keeping {
    rows: Rows,
    tag: Option<String>,
    token: Option<Token>,
    charge: Option<Charge>,
}

impl Output for Keeping {
    fn columns(&mut self, columns: &Arc<[Column]>) -> SqlResult<()> {
        self.rows = Rows::of(columns.clone());
        Ok(())
    }
    fn row(&mut self, row: Row<'_>) -> SqlResult<()> {
        const STEP: usize = 1 << 20;
        self.rows.append(row)?;
        let bytes = self.rows.bytes();
        match &mut self.charge {
            Some(c) if bytes > STEP && c.bytes() < bytes => c.resize(bytes.next_multiple_of(STEP)),
            _ => Ok(()),
        }
    }
    fn done(&mut self, tag: &str, token: Option<Token>) -> SqlResult<()> {
        self.tag = Some(tag.to_string());
        self.token = token;
        Ok(())
    }
}

impl Talk {
    pub fn new(s: &Session, notices: Notices) -> Talk {
        let around = Around {
            database: s.database.clone(),
            parker: s.connection.parker().clone(),
            cancel: s.cancel.clone(),
            notices,
        };
        Talk {
            around: Rc::new(around),
            statements: HashMap::new(),
            portals: HashMap::new(),
            skips: false,
            reported: vec![],
            settings: None,
            idle: [None; 2],
            token: None,
            room: None,
        }
    }

    /// Gives up memory that an idle connection does not need.
    pub fn shrink(&mut self) {
        self.room = None;
        self.portals.shrink_to_fit()
    }

    /// Tells the values of settings that are others than the client knows.
    pub fn report(&mut self, s: &Session, out: &mut Vec<u8>) {
        if self.settings.as_ref().is_some_and(|before| s.settings.are_as(before)) {
            return;
        }
        self.settings = Some(s.settings.clone());
        self.idle = ["idle_in_transaction_session_timeout", "idle_session_timeout"].map(|n| s.settings.ms(n));
        let is_new = self.reported.is_empty();
        for (i, name) in REPORTED.iter().enumerate() {
            let value = s.settings.show(name).map_or_else(|_| String::new(), |found| found.1);
            if let Some(seen) = s.seen.as_ref().filter(|_| i == 0) {
                seen.is_called(&value)
            }
            if is_new {
                back::parameter_status(out, name, &value);
                self.reported.push(value)
            } else if self.reported[i] != value {
                back::parameter_status(out, name, &value);
                self.reported[i] = value
            }
        }
    }

    /// How long the client may do nothing.
    pub fn idle_limit(&self, in_transaction: bool) -> Option<Duration> {
        self.idle[usize::from(!in_transaction)]
    }

    /// Statements are over, one or so many look-ups together: what took long is logged.
    fn tell_duration(&self, s: &Session, count: usize) {
        if let Some(seen) = &s.seen
            && let Some((ms, text)) = seen.took(&s.database.board)
        {
            let message = match count {
                1 => format!("duration: {ms:.3} ms  statement: {text}"),
                n => format!("duration: {ms:.3} ms  {n} look-ups, the first: {text}"),
            };
            let fields = [("duration_ms", format!("{ms:.3}")), ("statement", text)];
            log::tell(s.database.board.form(), "LOG", Some(&seen.subject()), &message, &fields)
        }
    }

    fn ready(&mut self, s: &Session, connection: &Connection) {
        self.tell_duration(s, 1);
        let mut out = connection.output.borrow_mut();
        result::tell_notices(&self.around.notices, &mut out);
        self.report(s, &mut out);
        if !s.in_transaction() {
            result::tell_notifications(s, &mut out)
        }
        let state = match (s.in_transaction(), s.is_failed()) {
            (_, true) => b'E',
            (true, _) => b'T',
            _ => b'I',
        };
        if let Some(seen) = &s.seen {
            seen.rests(state)
        }
        back::ready(&mut out, state)
    }

    /// An error that a statement ended with, in a text from there on.
    fn tell_error(&mut self, s: &mut Session, e: &SqlError, of: (&str, usize), connection: &Connection) {
        if let Some(seen) = s.seen.as_ref().filter(|_| e.sqlstate() == sqlstate::DEADLOCK_DETECTED) {
            seen.meter.deadlocks.add(1)
        }
        // The session has failed its transaction; one that is no block is over.
        if s.implicit {
            s.drop_transaction()
        }
        self.log_error(s, e, of.0);
        let mut out = connection.output.borrow_mut();
        result::tell_notices(&self.around.notices, &mut out);
        result::tell_error(e, of, &mut out)
    }

    /// The log has the error, and the statement's text, if these were asked for.
    fn log_error(&self, s: &Session, e: &SqlError, text: &str) {
        let board = &s.database.board;
        let Some(seen) = s.seen.as_ref().filter(|_| board.logs_errors()) else { return };
        let state = e.sqlstate();
        let mut message = format!("{state}: {}", e.0.message);
        let mut fields = vec![("sqlstate", state.to_string())];
        let text = activity::cut(text.trim());
        if board.logs_failed_statements() && !text.is_empty() {
            message += &format!("  statement: {text}");
            fields.push(("statement", text.to_string()))
        }
        log::tell(board.form(), "ERROR", Some(&seen.subject()), &message, &fields)
    }

    /// An error that no statement of the session has ended with.
    fn refuse(&mut self, s: &mut Session, e: SqlError, of: (&str, usize), connection: &Connection) {
        // session/N2
        if let Err(e) = s.ended::<()>(Err(e)) {
            self.tell_error(s, &e, of, connection)
        }
    }

    pub fn serve(&mut self, s: &mut Session, connection: &Connection, incoming: &mut Incoming) -> Served {
        self.token = None;
        for n in 1..=TURN {
            if n % FEW == 0 {
                take_turns()
            }
            // server/E6
            if connection.lost.get() {
                return Served::Over;
            }
            if connection.unsent() > OUTPUT_MOST {
                return Served::Waits;
            }
            if matches!(incoming.next(MESSAGE_LIMIT), Ok(None)) && !incoming.refill(connection) {
                return Served::Waits;
            }
            let frame = match incoming.next(MESSAGE_LIMIT) {
                Ok(Some(f)) => f,
                Ok(None) => continue,
                Err(b) => {
                    fatal(connection, &broken(b));
                    return Served::Over;
                }
            };
            let (kind, size) = (frame.kind, frame.size());
            // T1
            if kind == b'E' && !self.skips && incoming.rest().len() == size {
                match incoming.refill(connection) {
                    true => continue,
                    false => return Served::Waits,
                }
            }
            if self.skips && !matches!(kind, b'S' | b'X') && !mutated("unskipped") {
                incoming.skip(size);
                continue;
            }
            match frame.read() {
                Ok(Message::Query(text)) => {
                    let text = text.to_string();
                    incoming.skip(size);
                    if let Some(seen) = &s.seen {
                        seen.runs(&text)
                    }
                    self.query(s, &text, connection, incoming);
                    self.ready(s, connection)
                }
                Ok(Message::Execute { portal, most }) => {
                    let portal = portal.to_string();
                    incoming.skip(size);
                    self.execute(s, portal, most, connection, incoming)
                }
                Ok(Message::Parse { name, text, types }) => {
                    let types: Vec<u32> = types.iter().collect();
                    let (from, done) = self.parse(s, name, text, &types);
                    match done {
                        Ok(()) => {
                            let mut out = connection.output.borrow_mut();
                            result::tell_notices(&self.around.notices, &mut out);
                            back::empty(&mut out, back::PARSE_COMPLETE)
                        }
                        Err(e) => {
                            let before = Before::of(s);
                            self.refuse(s, e, (text, from), connection);
                            before.count(s, None);
                            self.skips = true
                        }
                    }
                    incoming.skip(size)
                }
                Ok(Message::Bind(bind)) => {
                    let read = self.read(s, (&bind, size), incoming.rest(), connection);
                    if read > 0 {
                        incoming.skip(read);
                        continue;
                    }
                    let done = self.bind(s, &bind);
                    incoming.skip(size);
                    self.or_skip(s, done, connection, |out| back::empty(out, back::BIND_COMPLETE))
                }
                Ok(Message::Describe(target)) => {
                    let done = self.describe(s, target, connection);
                    incoming.skip(size);
                    self.or_skip(s, done, connection, |_| {})
                }
                Ok(Message::Close(target)) => {
                    match target {
                        Target::Statement(name) => {
                            self.statements.remove(name);
                            if !name.is_empty() {
                                s.forget_prepared(name)
                            }
                        }
                        Target::Portal(name) => {
                            self.portals.remove(name);
                            // Nothing is said of one that is not there.
                            let _ = s.close_named(Some(name));
                        }
                    }
                    back::empty(&mut connection.output.borrow_mut(), back::CLOSE_COMPLETE);
                    incoming.skip(size)
                }
                // All is sent at the end of the turn.
                Ok(Message::Flush) => incoming.skip(size),
                Ok(Message::Sync) => {
                    incoming.skip(size);
                    self.sync(s, connection)
                }
                // They come from a client that does not know yet of its COPY's error.
                Ok(Message::CopyData(_) | Message::CopyDone | Message::CopyFail(_)) => incoming.skip(size),
                Ok(Message::Terminate) => {
                    connection.departure.set(Departure::Asked);
                    return Served::Over;
                }
                Ok(Message::FunctionCall) => {
                    incoming.skip(size);
                    self.refuse(s, SqlError::unsupported("a function call message"), ("", 0), connection);
                    self.ready(s, connection)
                }
                Ok(Message::Password(_)) => {
                    fatal(connection, &broken(Broken(format!("invalid frontend message type {kind}"))));
                    return Served::Over;
                }
                Err(e) => {
                    incoming.skip(size);
                    self.refuse(s, e, ("", 0), connection);
                    match kind {
                        b'Q' => self.ready(s, connection),
                        b'S' => self.sync(s, connection),
                        _ => self.skips = true,
                    }
                }
            }
        }
        Served::Waits
    }

    /// Answers a message of the extended protocol that no statement runs for.
    fn or_skip(
        &mut self,
        s: &mut Session,
        done: SqlResult<()>,
        connection: &Connection,
        answer: impl FnOnce(&mut Vec<u8>),
    ) {
        match done {
            Ok(()) => answer(&mut connection.output.borrow_mut()),
            Err(e) => {
                let before = Before::of(s);
                self.refuse(s, e, ("", 0), connection);
                before.count(s, None);
                self.skips = true
            }
        }
    }

    /// The statements of a text, one after the other (T1).
    fn query(&mut self, s: &mut Session, text: &str, connection: &Connection, incoming: &mut Incoming) {
        self.statements.remove("");
        self.portals.remove("");
        let pieces = pieces(text);
        if pieces.is_empty() {
            return back::empty(&mut connection.output.borrow_mut(), back::EMPTY_QUERY);
        }
        let several = pieces.len() > 1;
        s.forget_cancel();
        if several && let Err(e) = on_thread_stack(|| parse::parse_within(text, s.limits()).map(drop)) {
            // Nothing of a text is run that is wrong somewhere.
            let before = Before::of(s);
            self.refuse(s, e, (text, 0), connection);
            return before.count(s, None);
        }
        let last = pieces.len() - 1;
        for (n, (from, piece)) in pieces.iter().enumerate() {
            let (before, since) = (Before::of(s), looked(s));
            let begun = match several && !s.in_transaction() {
                true => s.begin_implicit(),
                false => Ok(()),
            };
            let done = begun.and_then(|()| {
                let mut answer = self.answer(s, connection, incoming, Telling::All, &[]);
                let done = s.run(piece, &[], &mut answer);
                let (tag, broken_off) = (answer.tag.take(), answer.broken_off.take());
                done.map_err(|e| broken_off.unwrap_or(e))?;
                if n == last {
                    self.token = self.token.max(s.end_implicit()?)
                }
                Ok(tag)
            });
            look(s);
            match done {
                Ok(tag) => {
                    let told = tag.as_deref().unwrap_or_default();
                    before.count(s, Some(told));
                    took(s, &Fingerprint::of(piece), since, rows_of(told));
                    let mut out = connection.output.borrow_mut();
                    result::tell_notices(&self.around.notices, &mut out);
                    match tag {
                        Some(tag) => back::complete(&mut out, &tag),
                        None => back::empty(&mut out, back::EMPTY_QUERY),
                    }
                }
                Err(e) => {
                    self.tell_error(s, &e, (text, *from), connection);
                    before.count(s, None);
                    failed(s, since);
                    break;
                }
            }
        }
        if !s.in_transaction() {
            self.portals.clear()
        }
    }

    fn answer<'a>(
        &'a mut self,
        s: &Session,
        connection: &'a Connection,
        incoming: &'a mut Incoming,
        telling: Telling<'a>,
        forms: &'a [bool],
    ) -> Answer<'a> {
        Answer {
            connection,
            incoming,
            around: self.around.clone(),
            telling,
            forms,
            tag: None,
            token: &mut self.token,
            charge: s.connection.charge(),
            broken_off: None,
            copied: (0, CopiedRows::Lines),
            copies_out: false,
        }
    }

    fn parse(&mut self, s: &mut Session, name: &str, text: &str, types: &[u32]) -> (usize, SqlResult<()>) {
        let from = pieces(text).first().map_or(0, |p| p.0);
        if name.is_empty() {
            self.statements.remove("");
        } else if let Err(e) = s.refuse_prepared(name) {
            return (from, Err(e));
        }
        let catalog = s.connection.catalog();
        let types: SqlResult<Vec<TypeId>> = types.iter().map(|oid| type_of(*oid, &catalog)).collect();
        let prepared = types.and_then(|types| s.prepare_typed(text, &types));
        let done = prepared.and_then(|prepared| {
            if !name.is_empty() {
                s.name_prepared(name, &prepared, text)?
            }
            let fingerprint = Fingerprint::of(prepared.source().0);
            let statement = Statement { prepared, text: text.to_string(), from, fingerprint };
            self.statements.insert(name.to_string(), Rc::new(statement));
            Ok(())
        });
        (from, done)
    }

    /// The statement that the name means now (T4); `is_asked`: it is to be described.
    fn statement(&mut self, s: &mut Session, name: &str, is_asked: bool) -> SqlResult<Rc<Statement>> {
        let known = self.statements.get(name);
        if name.is_empty() {
            let message = "unnamed prepared statement does not exist";
            let none = || SqlError::new(sqlstate::INVALID_SQL_STATEMENT_NAME, message);
            return known.cloned().ok_or_else(none);
        }
        if let Some(statement) = known.filter(|k| s.is_name_of(name, &k.prepared)) {
            return Ok(statement.clone());
        }
        // A registered query is there without it (prepared/H3).
        let prepared = match s.prepare_by_name(name) {
            // A client knows what was described to it.
            Ok(new) if known.is_some_and(|k| k.prepared.columns() != new.columns()) && !is_asked => {
                return Err(SqlError::changed_result());
            }
            Ok(new) => new,
            Err(e) => {
                self.statements.remove(name);
                return Err(e);
            }
        };
        let text = prepared.source().0.to_string();
        let fingerprint = Fingerprint::of(&text);
        let statement = Rc::new(Statement { prepared, text, from: 0, fingerprint });
        self.statements.insert(name.to_string(), statement.clone());
        Ok(statement)
    }

    fn bind(&mut self, s: &mut Session, bind: &Bind<'_>) -> SqlResult<()> {
        let statement = self.statement(s, bind.statement, false)?;
        let prepared = &statement.prepared;
        let violation = |message: String| Err(SqlError::new(PROTOCOL_VIOLATION, message));
        if bind.forms.len() > 1 && bind.forms.len() != bind.len() {
            return violation(format!(
                "bind message has {} parameter formats but {} parameters",
                bind.forms.len(),
                bind.len()
            ));
        }
        let wanted = prepared.params();
        if bind.len() != wanted.len() {
            return violation(format!(
                "bind message supplies {} parameters, but prepared statement \"{}\" requires {}",
                bind.len(),
                bind.statement,
                wanted.len()
            ));
        }
        if s.is_failed() && (!ends_failed(prepared.source().0) || !wanted.is_empty()) {
            return Err(transaction_failed());
        }
        let taken = match self.portals.get(bind.portal) {
            Some(Portal { progress: Progress::Named, .. }) | None => {
                s.columns_of_cursor(bind.portal).is_some()
            }
            Some(_) => true,
        };
        if !bind.portal.is_empty() && taken {
            let message = format!("cursor \"{}\" already exists", bind.portal);
            return Err(SqlError::new(sqlstate::DUPLICATE_CURSOR, message));
        }
        let forms: Vec<bool> = bind.result_forms.iter().collect();
        let columns = prepared.columns().len();
        if forms.len() > 1 && forms.len() != columns {
            return violation(format!(
                "bind message has {} result formats but query has {columns} columns",
                forms.len()
            ));
        }
        s.forget_cancel();
        let values: SqlResult<Vec<Value>> = (bind.values().zip(wanted).enumerate())
            .map(|(i, (bytes, ty))| match bytes {
                None => Ok(Value::Null),
                Some(bytes) if bind.forms.is_binary(i) => binary::read(bytes, *ty).map_err(|mut e| {
                    if e.0.message == "incorrect binary data format" {
                        e.0.message = format!("incorrect binary data format in bind parameter {}", i + 1)
                    }
                    e
                }),
                Some(bytes) => Ok(Value::Text(front::utf8(bytes)?.to_string())),
            })
            .collect();
        let values = values?;
        let params: Vec<Value> = s.fit(&values, wanted)?.into_iter().map(|v| v.into_owned()).collect();
        let is_cursor = !bind.portal.is_empty() && prepared.is_planned() && prepared.has_result();
        let progress = match is_cursor && s.in_transaction() {
            true => {
                s.open_named(bind.portal, prepared, &params)?;
                Progress::Named
            }
            false => Progress::Bound,
        };
        let portal = Portal { statement: statement.clone(), params, forms, progress, spent: (0, 0) };
        self.portals.insert(bind.portal.to_string(), portal);
        Ok(())
    }

    fn describe(&mut self, s: &mut Session, target: Target<'_>, connection: &Connection) -> SqlResult<()> {
        let (statement, forms) = match target {
            Target::Statement(name) => (self.statement(s, name, true)?, &[][..]),
            Target::Portal(name) => {
                let Some(portal) = self.portals.get(name) else {
                    let columns = s.columns_of_cursor(name).ok_or_else(|| no_portal(name))?;
                    result::describe(&columns, &[], &mut connection.output.borrow_mut());
                    return Ok(());
                };
                (portal.statement.clone(), &portal.forms[..])
            }
        };
        let columns = statement.prepared.columns();
        if s.is_failed() && !columns.is_empty() {
            return Err(transaction_failed());
        }
        let mut out = connection.output.borrow_mut();
        if let Target::Statement(_) = target {
            let params = statement.prepared.params();
            back::parameter_description(&mut out, params.iter().map(|t| t.oid()))
        }
        match statement.prepared.has_result() {
            false => back::empty(&mut out, back::NO_DATA),
            true => result::describe(columns, forms, &mut out),
        }
        Ok(())
    }

    fn execute(
        &mut self,
        s: &mut Session,
        name: String,
        most: u32,
        connection: &Connection,
        incoming: &mut Incoming,
    ) {
        let Some(mut portal) = self.portals.remove(&name) else {
            if let Some(columns) = s.columns_of_cursor(&name) {
                let mut answer = self.answer(s, connection, incoming, Telling::Rows(&columns), &[]);
                let done = s.fetch_portal(&name, (most > 0).then_some(most.into()), &mut answer);
                return self.answered(s, done.map(Executed::of), connection, ("", 0));
            }
            self.refuse(s, no_portal(&name), ("", 0), connection);
            self.skips = true;
            return;
        };
        let (before, since) = (Before::of(s), looked(s));
        let statement = portal.statement.clone();
        let was_done = matches!(portal.progress, Progress::Done);
        let done = self.run_portal(s, &name, &mut portal, most, connection, incoming);
        look(s);
        portal.spent.0 += looked(s).saturating_sub(since);
        match &done {
            Ok(Executed::Done(tag)) if !was_done => {
                let rows = portal.spent.1 + rows_of(tag);
                took(s, &statement.fingerprint, looked(s).saturating_sub(portal.spent.0), rows)
            }
            Ok(Executed::Suspended) => portal.spent.1 += u64::from(most),
            Ok(_) => {}
            Err(_) => failed(s, looked(s).saturating_sub(portal.spent.0)),
        }
        let tag = match &done {
            Ok(Executed::Done(tag)) => Some(tag.clone()),
            Ok(Executed::Empty | Executed::Suspended) => Some(String::new()),
            Err(_) => None,
        };
        self.tell_duration(s, 1);
        if before.in_transaction && !s.in_transaction() {
            // T3
            self.portals.clear()
        } else {
            self.portals.insert(name, portal);
        }
        self.answered(s, done, connection, (&statement.text, statement.from));
        before.count(s, tag.as_deref())
    }

    fn answered(
        &mut self,
        s: &mut Session,
        done: SqlResult<Executed>,
        connection: &Connection,
        of: (&str, usize),
    ) {
        match done {
            Ok(executed) => {
                let mut out = connection.output.borrow_mut();
                result::tell_notices(&self.around.notices, &mut out);
                match executed {
                    Executed::Done(tag) => back::complete(&mut out, &tag),
                    Executed::Empty => back::empty(&mut out, back::EMPTY_QUERY),
                    Executed::Suspended => back::empty(&mut out, back::PORTAL_SUSPENDED),
                }
            }
            Err(e) => {
                self.refuse(s, e, of, connection);
                self.skips = true
            }
        }
    }

    /// Runs a portal, or goes on with it.
    fn run_portal(
        &mut self,
        s: &mut Session,
        name: &str,
        portal: &mut Portal,
        most: u32,
        connection: &Connection,
        incoming: &mut Incoming,
    ) -> SqlResult<Executed> {
        let statement = portal.statement.clone();
        if let Some(seen) = &s.seen {
            seen.runs(&statement.text)
        }
        let prepared = &statement.prepared;
        let text = prepared.source().0;
        let columns = prepared.columns();
        if text.is_empty() {
            return Ok(Executed::Empty);
        }
        let is_limited = most > 0 && prepared.has_result();
        if let Progress::Bound = portal.progress {
            let is_alone = incoming.rest().first() == Some(&b'S');
            if !s.in_transaction() && (!is_alone || is_limited) {
                s.begin_implicit()?
            }
            if !is_limited {
                portal.progress = Progress::Done;
                let forms = &portal.forms;
                let mut answer = self.answer(s, connection, incoming, Telling::Rows(columns), forms);
                let done = s.run_fitted(prepared, &portal.params, &mut answer);
                let (tag, broken_off) = (answer.tag.take(), answer.broken_off.take());
                done.map_err(|e| broken_off.unwrap_or(e))?;
                return Ok(tag.map_or(Executed::Empty, Executed::Done));
            }
            portal.progress = match prepared.is_planned() {
                true => {
                    let opened = with_refs(&portal.params, |refs| s.open_prepared(prepared, refs));
                    Progress::Reading(opened?)
                }
                false => {
                    let mut keeping = Keeping { charge: Some(s.connection.charge()), ..Keeping::default() };
                    s.run_fitted(prepared, &portal.params, &mut keeping)?;
                    self.token = self.token.max(keeping.token);
                    Progress::Kept { rows: keeping.rows, given: 0, tag: keeping.tag.unwrap_or_default() }
                }
            }
        }
        match &mut portal.progress {
            Progress::Named => {
                let forms = &portal.forms;
                let mut answer = self.answer(s, connection, incoming, Telling::Rows(columns), forms);
                s.fetch_portal(name, (most > 0).then_some(most.into()), &mut answer).map(Executed::of)
            }
            Progress::Reading(cursor) => {
                let forms = &portal.forms;
                let mut answer = self.answer(s, connection, incoming, Telling::Rows(columns), forms);
                let limit = (most > 0).then_some(most.into());
                s.fetch_into(cursor, limit, &mut answer)?;
                match answer.tag.take() {
                    Some(tag) => {
                        portal.progress = Progress::Done;
                        Ok(Executed::Done(tag))
                    }
                    None => Ok(Executed::Suspended),
                }
            }
            Progress::Kept { rows, given, tag } => {
                let left = rows.len() - *given;
                let now = if most > 0 { left.min(most as usize) } else { left };
                let forms = &portal.forms;
                let mut answer = self.answer(s, connection, incoming, Telling::Rows(columns), forms);
                for i in *given..*given + now {
                    answer.row(rows.row(i))?
                }
                *given += now;
                match most > 0 && now == most as usize {
                    true => Ok(Executed::Suspended),
                    false => Ok(Executed::Done(tag.clone())),
                }
            }
            _ if prepared.is_select() => Ok(Executed::Done("SELECT 0".to_string())),
            _ => Err(cannot_be_run(name)),
        }
    }

    fn sync(&mut self, s: &mut Session, connection: &Connection) {
        self.skips = false;
        let (commits, before) = (s.implicit, Before::of(s));
        let mut outcome = Some("");
        match s.end_implicit() {
            Ok(token) => self.token = self.token.max(token),
            Err(e) => {
                self.tell_error(s, &e, ("", 0), connection);
                outcome = None
            }
        }
        if commits {
            before.count(s, outcome);
            look(s)
        }
        if !s.in_transaction() {
            self.portals.clear()
        }
        self.ready(s, connection)
    }
}

/// Something has ended: the clock is looked at (meter/M2).
fn look(s: &Session) {
    if let Some(seen) = &s.seen {
        seen.meter.look();
    }
}

/// When it was last looked at.
fn looked(s: &Session) -> u64 {
    s.seen.as_ref().map_or(0, |seen| seen.meter.looked())
}

/// A statement has taken from then until now.
fn took(s: &Session, of: &Fingerprint, since: u64, rows: u64) {
    if let Some(seen) = &s.seen {
        let spent = seen.meter.looked().saturating_sub(since);
        seen.meter.took.add(1, spent);
        seen.meter.statements.lock().add(s.role(), of, &Took::alike(1, spent as f64 / 1e6, rows))
    }
}

/// The same of one that has ended in an error.
fn failed(s: &Session, since: u64) {
    if let Some(seen) = &s.seen {
        seen.meter.took.add(1, seen.meter.looked().saturating_sub(since))
    }
}

/// The rows that a tag tells.
fn rows_of(tag: &str) -> u64 {
    tag.rsplit_once(' ').and_then(|t| t.1.parse().ok()).unwrap_or(0)
}

fn no_portal(name: &str) -> SqlError {
    SqlError::new(sqlstate::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist"))
}

#[cfg(test)]
mod tests {
    use super::pieces;

    #[test]
    fn pieces_know_where_they_begin() {
        for (text, wanted) in [
            ("select 1", &[(0, "select 1")][..]),
            ("  -- select 1\n select 1;;  ; /* x */ select 2 ;", &[(15, "select 1"), (37, "select 2")]),
            ("select 'é;'; select 2", &[(0, "select 'é;'"), (14, "select 2")]),
            (" ; -- nothing\n", &[]),
        ] {
            let found = pieces(text);
            let found: Vec<(usize, &str)> = found.iter().map(|(n, t)| (*n, t.as_str())).collect();
            assert_eq!(found, wanted, "{text}");
        }
    }
}
