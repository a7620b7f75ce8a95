//! The client: statements, and batches of their calls.
use crate::address::{Address, SharedMemory};
use crate::answers::{Answer, Answers, Found, SentRow};
use crate::batch::{Batch, Commit};
use crate::message::{Report, garbled, lost};
use crate::statement::{Column, Statement};
use crate::talk::{Failure, Frame, Talk};
use ondol_base::cancel::Cancel;
use ondol_types::{SqlError, SqlResult, TypeId, ValueRef};
use ondol_wire::back::{self, Message};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// So many bytes go to the server before their answers are awaited: that much has room on its way, also where
/// the server does not read on before its answers are taken.
const CHUNK: usize = 64 << 10;

const NO_COPY: &str = "COPY is not among what this client does";

/// Rows that a server makes ahead of who takes them one by one.
const AHEAD: i32 = 500;
/// Bytes of a message that has a portal without a name executed.
const EXECUTE: usize = 10;

/// A notice of the server's.
#[derive(Clone, Debug)]
pub struct Notice {
    /// `NOTICE`, `WARNING` and so on.
    pub severity: String,
    /// Its message, with what else there is to it.
    pub what: SqlError,
}

/// Breaks off what a client does, from another thread. The statement ends with error 57014, unless it was
/// through already.
#[derive(Clone)]
pub struct Canceller(Arc<Cancel>);

impl Canceller {
    pub fn cancel(&self) {
        self.0.tell()
    }
}

/// A session of a server, by the lightest way there is: in memory that both processes have, or over a Unix
/// socket or TCP. It runs prepared statements and batches of them; no COPY, and no notifications, for which
/// there are other clients.
pub struct Client {
    talk: Talk,
    /// The state that the server told last.
    state: u8,
    found: Found,
    one: Batch,
    told: fn(&Notice),
    is_lost: bool,
}

/// Where `whereto` is: an address, or the folder of a database that a server has, which is talked to in its
/// memory, if it gives some.
fn address_of(whereto: &str) -> SqlResult<Address> {
    if let Some(address) = Address::parse(whereto)? {
        return Ok(address);
    }
    let found = Address::in_folder(Path::new(whereto)).map(|a| a.with_memory(SharedMemory::Prefer));
    found.ok_or_else(|| {
        let message =
            format!("\"{whereto}\": expected postgres://…, or a database's folder with a server's socket");
        SqlError::new("08001", message).hint(format!("A server is started by: ondol serve {whereto}"))
    })
}

impl Client {
    /// Connects by an address as [`Address::parse`] has it, or by the folder of a database that a server has.
    ///
    /// # Errors
    /// 08001, if no server is there; what the server says to the role and its password.
    pub fn connect(whereto: &str) -> SqlResult<Client> {
        Client::connect_to(&address_of(whereto)?, "ondol client", |_| {})
    }
    /// `application` is what the server calls the session; `told` gets notices.
    pub fn connect_to(address: &Address, application: &str, told: fn(&Notice)) -> SqlResult<Client> {
        let mut tell = |report: &Report| told(&notice(report));
        let talk = Talk::connect(address, application, &mut tell).map_err(|e| match e {
            Failure::Refused(e) => e,
            Failure::Lost(e) => SqlError::new("08001", format!("could not connect to {address}: {e}")),
        })?;
        let (found, one) = (Found::default(), Batch::new(Commit::Each));
        Ok(Client { talk, state: b'I', found, one, told, is_lost: false })
    }
    pub fn address(&self) -> &Address {
        self.talk.address()
    }
    /// A transaction is open. After an error in it nothing but its end is possible.
    pub fn is_in_transaction(&self) -> bool {
        self.state != b'I'
    }
    /// The connection is lost: each call is an error, 08003.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }
    pub fn canceller(&self) -> Canceller {
        Canceller(self.talk.cancel().clone())
    }

    /// Prepares a statement, with `$1` and so on for its parameters.
    ///
    /// # Errors
    /// The server's; 0A000 for COPY.
    pub fn prepare(&mut self, sql: &str) -> SqlResult<Statement> {
        /// Over all clients: what one has prepared means nothing to another.
        static MADE: AtomicU64 = AtomicU64::new(0);
        refuse_copy(sql)?;
        let name = format!("ondol_{}", MADE.fetch_add(1, Ordering::Relaxed));
        self.describe(name, whole(sql)?, true)
    }
    /// A registered query, which each session has as a prepared statement: nothing is parsed.
    ///
    /// # Errors
    /// 26000, if there is none of that name that the role may call.
    pub fn registered(&mut self, name: &str) -> SqlResult<Statement> {
        self.describe(format!("ondol.{name}"), whole(name)?, false)
    }
    fn describe(&mut self, name: String, sql: &str, is_new: bool) -> SqlResult<Statement> {
        let (mut params, mut columns, mut error) = (vec![], vec![], None);
        self.talking(|c| {
            c.start(|out| {
                if is_new {
                    Message::begin(out, b'P').text(&name).text(sql).i16(0).end()
                }
                Message::begin(out, b'D').byte(b'S').text(&name).end();
                back::empty(out, b'S')
            })?;
            loop {
                let frame = c.talk.receive()?;
                let mut body = c.talk.body(&frame);
                match frame.kind {
                    b't' => {
                        for _ in 0..body.i16()? as u16 {
                            params.push(TypeId::from_oid(body.i32()? as u32))
                        }
                    }
                    b'T' => {
                        let fields = body.fields()?.into_iter();
                        columns = fields.map(|f| Column::new(f.name, f.oid, f.modifier)).collect()
                    }
                    b'E' => error = Some(c.error(sql, &frame)?),
                    b'Z' => return c.ready(body.byte()?),
                    b'1' | b'n' => {}
                    _ => c.other(&frame)?,
                }
            }
        })?;
        match error {
            Some(e) => Err(e),
            None => Ok(Statement::new(name, sql, params, columns)),
        }
    }
    /// Gives a statement back to the server; all others it keeps as long as the connection.
    pub fn close(&mut self, statement: Statement) -> SqlResult<()> {
        let error = self.talking(|c| {
            c.start(|out| {
                Message::begin(out, b'C').byte(b'S').text(&statement.0.name).end();
                back::empty(out, b'S')
            })?;
            c.until_ready()
        })?;
        error.map_or(Ok(()), Err)
    }

    /// Runs a batch, and waits for all its answers, which are kept until the next call.
    ///
    /// # Errors
    /// Of a batch whose calls commit together, the error of the call that failed; 08006, if the connection is
    /// lost: then nobody knows which of the calls were run.
    pub fn run<'c>(&'c mut self, batch: &'c Batch) -> SqlResult<Answers<'c>> {
        match self.talking(|c| c.exchange(batch))? {
            Some(e) => {
                self.found.clear();
                Err(e)
            }
            None => Ok(self.answers(batch)),
        }
    }
    /// Once more what the batch has given that was run last, if nothing was done since.
    pub fn answers<'c>(&'c self, batch: &'c Batch) -> Answers<'c> {
        Answers { found: &self.found, input: self.talk.given(), calls: &batch.calls }
    }
    /// Runs a statement once.
    ///
    /// # Errors
    /// The server's, and those of [`Batch::add`].
    pub fn query<'c>(&'c mut self, statement: &Statement, params: &[ValueRef<'_>]) -> SqlResult<Answers<'c>> {
        self.one.clear();
        self.one.add(statement, params)?;
        let batch = std::mem::replace(&mut self.one, Batch::new(Commit::Each));
        let done = self.talking(|c| c.exchange(&batch));
        self.one = batch;
        done?;
        let answers = self.answers(&self.one);
        answers.affected(0)?;
        Ok(answers)
    }
    /// Runs a statement once, and gives its rows to `f`, of which none is kept, until that says false. The
    /// server makes rows as they are taken, some hundreds ahead.
    ///
    /// # Errors
    /// The server's, and the first of `f`.
    pub fn for_each(
        &mut self,
        statement: &Statement,
        params: &[ValueRef<'_>],
        mut f: impl FnMut(SentRow<'_>) -> SqlResult<bool>,
    ) -> SqlResult<()> {
        let mut call = vec![];
        statement.call(params, AHEAD, &mut call)?;
        // Behind Bind there is Execute alone.
        let again = call.len() - EXECUTE;
        back::empty(&mut call, b'H');
        let (mut failed, mut wants) = (None, true);
        self.talking(|c| {
            c.start(|out| out.extend_from_slice(&call))?;
            loop {
                c.talk.forget();
                let frame = c.talk.receive()?;
                let mut body = c.talk.body(&frame);
                match frame.kind {
                    b'D' if wants => {
                        body.i16()?;
                        wants = f(SentRow::new(&statement.0.columns, body)).unwrap_or_else(|e| {
                            failed = Some(e);
                            false
                        })
                    }
                    b's' if wants => c.talk.send_all(&call[again..])?,
                    // Who has said false wants no more, and leaves the rest to the server.
                    b's' | b'C' | b'I' => break,
                    b'E' => {
                        let e = c.error(&statement.0.sql, &frame)?;
                        failed = failed.take().or(Some(e));
                        break;
                    }
                    b'G' | b'H' => return Err(given_up().into()),
                    b'D' | b'2' => {}
                    _ => c.other(&frame)?,
                }
            }
            c.talk.send(b'S', b"")?;
            let at_commit = c.until_ready()?;
            failed = failed.take().or(at_commit);
            Ok(())
        })?;
        failed.map_or(Ok(()), Err)
    }
    /// Runs a text of one or more statements without parameters; rows are dropped. The number of rows that
    /// the last of them has changed, or given.
    ///
    /// # Errors
    /// The server's; 0A000 for COPY.
    pub fn execute(&mut self, sql: &str) -> SqlResult<u64> {
        let sql = whole(sql)?;
        let (mut affected, mut error) = (0, None);
        self.talking(|c| {
            c.start(|out| Message::begin(out, b'Q').text(sql).end())?;
            loop {
                c.talk.forget();
                let frame = c.talk.receive()?;
                let mut body = c.talk.body(&frame);
                match frame.kind {
                    b'C' => affected = count(body.text()?),
                    b'E' => error = error.take().or(Some(c.error(sql, &frame)?)),
                    b'G' => {
                        error = error.take().or(Some(SqlError::new("0A000", NO_COPY)));
                        c.talk.send(b'f', format!("{NO_COPY}\0").as_bytes())?
                    }
                    b'H' => error = error.take().or(Some(SqlError::new("0A000", NO_COPY))),
                    b'Z' => return c.ready(body.byte()?),
                    b'T' | b'D' | b'I' | b'd' | b'c' => {}
                    _ => c.other(&frame)?,
                }
            }
        })?;
        error.map_or(Ok(affected), Err)
    }

    /// Sends what is written, as a piece of work of its own.
    fn start(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        self.begin();
        write(self.talk.output());
        self.talk.flush()
    }
    fn begin(&mut self) {
        self.talk.begin();
        self.talk.forget();
        self.found.clear()
    }
    /// Has `f` talk; what goes wrong with the connection is its end.
    #[inline]
    fn talking<T>(&mut self, f: impl FnOnce(&mut Client) -> Result<T, Failure>) -> SqlResult<T> {
        if self.is_lost {
            return Err(SqlError::new("08003", "the connection to the server was lost before"));
        }
        // Also where `f` panics: nobody knows then what of the answers was taken.
        self.is_lost = true;
        let done = f(self);
        self.is_lost = done.is_err();
        done.map_err(|e| {
            self.talk.give_up();
            self.found.clear();
            match e {
                Failure::Refused(e) => e,
                Failure::Lost(e) => lost(e),
            }
        })
    }
    fn ready(&mut self, state: u8) -> Result<(), Failure> {
        self.state = state;
        Ok(())
    }
    /// What may come at any time.
    fn other(&mut self, frame: &Frame) -> Result<(), Failure> {
        match frame.kind {
            b'N' => {
                let report = Report::read(self.talk.body(frame).0, "")?;
                (self.told)(&notice(&report));
                Ok(())
            }
            b'A' | b'S' => Ok(()),
            _ => Err(garbled().into()),
        }
    }
    /// # Errors
    /// The error itself, if it is the session's end.
    #[cold]
    fn error(&mut self, sql: &str, frame: &Frame) -> Result<SqlError, Failure> {
        let report = Report::read(self.talk.body(frame).0, sql)?;
        if report.is_fatal { Err(report.error.into()) } else { Ok(report.error) }
    }

    /// Sends a batch's calls, in chunks of which each is answered before the next is sent, so that neither
    /// side waits for room while the other does. The error of a call that is the end of all.
    fn exchange(&mut self, batch: &Batch) -> Result<Option<SqlError>, Failure> {
        self.begin();
        let (mut at, mut call, mut end) = (0, 0, None);
        while call < batch.len() && end.is_none() {
            if self.talk.cancel().is_told() {
                // What was not sent is not run either.
                match batch.commit {
                    Commit::Each => self.leave(batch.len() - call),
                    Commit::Together => end = Some(cancelled()),
                }
                break;
            }
            let rest = &batch.ends[call..];
            let n = rest.partition_point(|e| e - at <= CHUNK).max(1);
            let (first, to) = (call, rest[n - 1]);
            self.talk.output().extend_from_slice(&batch.messages[at..to]);
            (at, call) = (to, call + n);
            if batch.commit == Commit::Together {
                let last = call == batch.len();
                back::empty(self.talk.output(), if last { b'S' } else { b'H' })
            }
            self.talk.flush()?;
            for i in first..call {
                end = self.answer(batch, i)?;
                if end.is_some() {
                    break;
                }
            }
        }
        if batch.commit == Commit::Together && !batch.is_empty() {
            if end.is_some() && call < batch.len() {
                self.talk.send(b'S', b"")?
            }
            let at_commit = self.until_ready()?;
            end = end.or(at_commit)
        }
        Ok(end)
    }
    /// The last calls, so many, were broken off before they were sent.
    #[cold]
    fn leave(&mut self, calls: usize) {
        let first = self.found.rows.len();
        let left = || Answer { first, affected: 0, error: Some(cancelled()) };
        self.found.answers.extend(std::iter::repeat_with(left).take(calls))
    }
    /// Takes the answer to one call. Its error, if it is the end of all.
    #[inline]
    fn answer(&mut self, batch: &Batch, call: usize) -> Result<Option<SqlError>, Failure> {
        let each = batch.commit == Commit::Each;
        let mut answer = Answer { first: self.found.rows.len(), ..Answer::default() };
        let mut fails = loop {
            let frame = self.talk.receive()?;
            match frame.kind {
                b'2' => {}
                // Behind the number of values, which is the statement's.
                b'D' => self.found.rows.push(frame.body.start + 2),
                b'C' => {
                    answer.affected = count(self.talk.body(&frame).text()?);
                    break None;
                }
                b'I' => break None,
                b'E' => break Some(self.error(&batch.calls[call].sql, &frame)?),
                b'G' | b'H' => {
                    return Err(
                        SqlError::new("0A000", format!("{NO_COPY}; the connection is given up")).into()
                    );
                }
                _ => self.other(&frame)?,
            }
        };
        if each {
            let at_commit = self.until_ready()?;
            fails = fails.or(at_commit)
        } else if fails.is_some() {
            return Ok(fails);
        }
        if fails.is_some() {
            // Of a call that failed nothing is given; another may be what is to be broken off now.
            self.found.rows.truncate(answer.first);
            self.talk.ask_again()
        }
        answer.error = fails;
        self.found.answers.push(answer);
        Ok(None)
    }
    /// An error that comes meanwhile, as of a commit.
    #[inline]
    fn until_ready(&mut self) -> Result<Option<SqlError>, Failure> {
        let mut error = None;
        loop {
            let frame = self.talk.receive()?;
            match frame.kind {
                b'Z' => {
                    let state = self.talk.body(&frame).byte()?;
                    self.ready(state)?;
                    return Ok(error);
                }
                b'E' => error = error.or(Some(self.error("", &frame)?)),
                b'3' => {}
                _ => self.other(&frame)?,
            }
        }
    }
}

fn cancelled() -> SqlError {
    SqlError::new("57014", "canceling statement due to user request")
}
fn given_up() -> SqlError {
    SqlError::new("0A000", format!("{NO_COPY}; the connection is given up"))
}

/// The text, if it has no zero byte, which would be its end.
fn whole(text: &str) -> SqlResult<&str> {
    match text.find('\0') {
        None => Ok(text),
        Some(at) => {
            let mut e = SqlError::new("22021", "a statement cannot have a zero byte");
            e.0.position = Some(at);
            Err(e)
        }
    }
}

fn notice(report: &Report) -> Notice {
    Notice { severity: report.severity.clone(), what: report.error.clone() }
}

/// The number at the end of what a statement says when it is done.
#[inline]
fn count(tag: &str) -> u64 {
    tag.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Nothing here takes part in a COPY, which a prepared statement cannot be told from others later.
///
/// # Errors
/// 0A000, if the statement is one.
pub fn refuse_copy(sql: &str) -> SqlResult<()> {
    if is_copy(sql) { Err(SqlError::new("0A000", NO_COPY)) } else { Ok(()) }
}

/// Whether the text begins with COPY, behind blanks and comments, which may be within each other.
fn is_copy(sql: &str) -> bool {
    let (mut rest, mut depth) = (sql, 0u32);
    loop {
        if depth > 0 {
            let Some(at) = rest.find("/*").into_iter().chain(rest.find("*/")).min() else { return false };
            depth = if rest[at..].starts_with("/*") { depth + 1 } else { depth - 1 };
            rest = &rest[at + 2..];
            continue;
        }
        rest = rest.trim_start();
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once('\n').map_or("", |c| c.1)
        } else if let Some(comment) = rest.strip_prefix("/*") {
            (rest, depth) = (comment, 1)
        } else {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            return rest[..end].eq_ignore_ascii_case("copy");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags() {
        for (tag, n) in [("SELECT 17", 17), ("INSERT 0 100", 100), ("BEGIN", 0), ("", 0)] {
            assert_eq!(count(tag), n, "{tag}")
        }
    }

    #[test]
    fn what_copies() {
        for sql in ["COPY t TO STDOUT", " copy t from stdin", "-- a\n/* b /* c */ */COPY\nt FROM STDIN"] {
            assert!(is_copy(sql), "{sql}")
        }
        for sql in ["SELECT 1", "", "/*", "-- copy", "copying", "/* x */ -- y\n(SELECT 1)"] {
            assert!(!is_copy(sql), "{sql}")
        }
    }
}
