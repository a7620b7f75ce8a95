//! The client: statements, and batches of their calls.
use crate::address::{Address, SharedMemory};
use crate::answers::{Answer, Answers, Found, Row};
use crate::batch::{Batch, Commit};
use crate::message::{Body, Report, garbled};
use crate::statement::{Column, Statement};
use crate::talk::{Failure, Frame, Talk};
use ondol_base::cancel::Cancel;
use ondol_types::{SqlError, SqlResult, TypeId, ValueRef};
use ondol_wire::back::{self, Message};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// So many bytes go to the server before their answers are awaited: that much has room on its way, also where
/// the server does not read on before its answers are taken.
const CHUNK: usize = 64 << 10;

const NO_COPY: &str = "COPY is not among what this client does";

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
    /// Statements made so far, by which they are named.
    made: u64,
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
        Ok(Client { talk, made: 0, state: b'I', found, one, told, is_lost: false })
    }
    pub fn address(&self) -> &Address {
        self.talk.address()
    }
    /// A transaction is open. After an error in it nothing but its end is possible.
    pub fn is_in_transaction(&self) -> bool {
        self.state != b'I'
    }
    /// The connection is lost: each call is an error, 08006.
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
        self.made += 1;
        let name = format!("ondol_{}", self.made);
        if is_copy(sql) {
            return Err(SqlError::new("0A000", NO_COPY));
        }
        Message::begin(self.talk.output(), b'P').text(&name).text(sql).i16(0).end();
        self.describe(name, sql)
    }
    /// A registered query, which each session has as a prepared statement: nothing is parsed.
    ///
    /// # Errors
    /// 26000, if there is none of that name that the role may call.
    pub fn registered(&mut self, name: &str) -> SqlResult<Statement> {
        self.describe(format!("ondol.{name}"), name)
    }
    fn describe(&mut self, name: String, sql: &str) -> SqlResult<Statement> {
        Message::begin(self.talk.output(), b'D').byte(b'S').text(&name).end();
        back::empty(self.talk.output(), b'S');
        let (mut params, mut columns, mut error) = (vec![], vec![], None);
        self.talking(|c| {
            c.start()?;
            loop {
                let frame = c.talk.next()?;
                let mut body = c.talk.body(&frame);
                match frame.kind {
                    b't' => {
                        for _ in 0..body.i16()? {
                            params.push(TypeId::from_oid(body.i32()? as u32))
                        }
                    }
                    b'T' => columns = described(body)?,
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
        Message::begin(self.talk.output(), b'C').byte(b'S').text(&statement.0.name).end();
        back::empty(self.talk.output(), b'S');
        self.talking(|c| {
            c.start()?;
            loop {
                let frame = c.talk.next()?;
                match frame.kind {
                    b'Z' => return c.ready(c.talk.body(&frame).byte()?),
                    b'3' => {}
                    _ => c.other(&frame)?,
                }
            }
        })
    }

    /// Runs a batch, and waits for all its answers, which are kept until the next call.
    ///
    /// # Errors
    /// Of a batch whose calls commit together, the error of the call that failed; 08006, if the connection is
    /// lost: then nobody knows which of the calls were run.
    pub fn run<'c>(&'c mut self, batch: &'c Batch) -> SqlResult<Answers<'c>> {
        let error = self.talking(|c| c.exchange(batch))?;
        error.map_or(Ok(self.answers(batch)), Err)
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
    /// Runs a statement once, and gives its rows one by one, of which none is kept, to `f`, until that says
    /// false: then the rest is left out.
    ///
    /// # Errors
    /// The server's, and the first of `f`.
    pub fn for_each(
        &mut self,
        statement: &Statement,
        params: &[ValueRef<'_>],
        mut f: impl FnMut(Row<'_>) -> SqlResult<bool>,
    ) -> SqlResult<()> {
        statement.call(params, 0, self.talk.output())?;
        back::empty(self.talk.output(), b'S');
        let (mut told, mut wants, mut is_told) = (Ok(()), true, false);
        self.talking(|c| {
            c.start()?;
            loop {
                c.talk.forget();
                let frame = c.talk.next()?;
                let mut body = c.talk.body(&frame);
                match frame.kind {
                    b'D' if wants => {
                        body.i16()?;
                        wants = f(Row::new(&statement.0.columns, body)).unwrap_or_else(|e| {
                            told = Err(e);
                            false
                        });
                        if !wants && !is_told {
                            // What is on its way is read and dropped; the server need not go on.
                            is_told = true;
                            c.talk.cancel().tell()
                        }
                    }
                    b'E' => {
                        let e = c.error(&statement.0.sql, &frame)?;
                        let is_ours = is_told && e.0.sqlstate == "57014";
                        if told.is_ok() && !is_ours {
                            told = Err(e)
                        }
                    }
                    b'Z' => return c.ready(body.byte()?),
                    b'D' | b'2' | b'C' | b'I' => {}
                    _ => c.other(&frame)?,
                }
            }
        })?;
        told
    }
    /// Runs a text of one or more statements without parameters; rows are dropped. The number of rows that the
    /// last of them has changed, or given.
    ///
    /// # Errors
    /// The server's; 0A000 for COPY.
    pub fn execute(&mut self, sql: &str) -> SqlResult<u64> {
        Message::begin(self.talk.output(), b'Q').text(sql).end();
        let (mut affected, mut error) = (0, None);
        self.talking(|c| {
            c.start()?;
            loop {
                c.talk.forget();
                let frame = c.talk.next()?;
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

    /// Sends what is to be sent, as a piece of work of its own.
    fn start(&mut self) -> io::Result<()> {
        self.begin();
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
        f(self).map_err(|e| {
            self.is_lost = true;
            match e {
                Failure::Refused(e) => e,
                Failure::Lost(e) => {
                    SqlError::new("08006", format!("the connection to the server is lost: {e}"))
                }
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
            self.until_ready()?
        }
        Ok(end)
    }
    /// Takes the answer to one call. Its error, if it is the end of all.
    #[inline]
    fn answer(&mut self, batch: &Batch, call: usize) -> Result<Option<SqlError>, Failure> {
        let each = batch.commit == Commit::Each;
        let mut answer = Answer { first: self.found.rows.len(), ..Answer::default() };
        let fails = loop {
            let frame = self.talk.next()?;
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
            self.until_ready()?
        } else if fails.is_some() {
            return Ok(fails);
        }
        answer.error = fails;
        self.found.answers.push(answer);
        Ok(None)
    }
    #[inline]
    fn until_ready(&mut self) -> Result<(), Failure> {
        loop {
            let frame = self.talk.next()?;
            match frame.kind {
                b'Z' => {
                    let state = self.talk.body(&frame).byte()?;
                    return self.ready(state);
                }
                _ => self.other(&frame)?,
            }
        }
    }
}

fn notice(report: &Report) -> Notice {
    Notice { severity: report.severity.clone(), what: report.error.clone() }
}

/// The columns of a statement's rows.
fn described(mut body: Body<'_>) -> io::Result<Vec<Column>> {
    let n = body.i16()?;
    let mut all = vec![];
    for _ in 0..n {
        let name = body.text()?;
        body.take(6)?;
        let oid = body.i32()? as u32;
        body.i16()?;
        let modifier = body.i32()?;
        body.i16()?;
        all.push(Column::new(name, oid, modifier))
    }
    Ok(all)
}

/// The number at the end of what a statement says when it is done.
#[inline]
fn count(tag: &str) -> u64 {
    tag.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Whether the text begins with COPY, behind blanks and comments.
fn is_copy(sql: &str) -> bool {
    let mut rest = sql;
    loop {
        rest = rest.trim_start();
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once('\n').map_or("", |c| c.1)
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/").map_or("", |c| c.1)
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
        for sql in ["COPY t TO STDOUT", " copy t from stdin", "-- a\n/* b */COPY\nt FROM STDIN"] {
            assert!(is_copy(sql), "{sql}")
        }
        for sql in ["SELECT 1", "", "/*", "-- copy", "copying", "/* x */ -- y\n(SELECT 1)"] {
            assert!(!is_copy(sql), "{sql}")
        }
    }
}
