//! The TPC-C driver on any server of PostgreSQL's protocol, by a client that costs next to nothing: what is
//! measured is the server.
//!
//! - **W1** All statements are prepared when a client connects, BEGIN, COMMIT and ROLLBACK among them; values
//!   are in binary. A statement is a message to the server and its answer, for which the client waits; BEGIN
//!   goes with the first statement of its transaction, as pgjdbc sends it.
//! - **W2** With `together`, what an order does for each of its lines is one message of as many executions,
//!   as pipelines of libpq and batches of pgjdbc are.
//! - **W3** The server is asked over its Unix socket, TCP or, if it is Ondol's, memory.
//! - **W4** Tables are made, filled and read by another client (`tpcc::postgres`).
use super::backend::{Backend, Commit, Failure, Link, RowSet, Source, Tried, Val};
use super::postgres::{Postgres, oid, put_value, take_value};
use super::schema::{Kind, TpccTable, statements};
use crate::Result;
use ondol_client::MemoryStream;
use postgres::types::private::BytesMut;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Without an answer for so long, something is wrong.
const LIMIT: Duration = Duration::from_secs(60);

pub struct Wire {
    pub name: String,
    pub settings: Vec<(String, String)>,
    pub socket: PathBuf,
    /// As SQL names it.
    pub isolation: String,
    /// W2
    pub together: bool,
    pub by: By,
}

/// W3
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    Socket,
    /// At a port of this machine.
    Tcp(u16),
    Memory,
}

/// What a client is connected by.
trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

impl Wire {
    fn stream(&self) -> Result<Box<dyn Stream>> {
        Ok(match self.by {
            By::Socket => {
                let stream = UnixStream::connect(&self.socket)?;
                stream.set_read_timeout(Some(LIMIT))?;
                Box::new(stream)
            }
            By::Tcp(port) => {
                let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
                stream.set_read_timeout(Some(LIMIT))?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
            By::Memory => {
                let mut stream = MemoryStream::connect(&self.socket)?;
                stream.set_read_timeout(Some(LIMIT));
                Box::new(stream)
            }
        })
    }
    /// W4
    fn other(&self) -> Postgres {
        let folder = self.socket.parent().map(|p| p.display().to_string()).unwrap_or_default();
        let host = folder.replace('\\', "\\\\").replace('\'', "\\'");
        // The socket's name ends with its port.
        let port = self.socket.extension().map(|p| p.to_string_lossy().into_owned()).unwrap_or_default();
        Postgres {
            connection: format!("host='{host}' port={port} user=postgres dbname=postgres"),
            synchronous_commit: "on".into(),
            isolation: self.isolation.clone(),
        }
    }
}

impl Backend for Wire {
    fn name(&self) -> String {
        self.name.clone()
    }
    fn settings(&self) -> Vec<(String, String)> {
        self.settings.clone()
    }
    fn create(&self) -> Result<()> {
        self.other().create()
    }
    fn load(&self, table: &TpccTable, rows: Source<'_>) -> Result<u64> {
        self.other().load(table, rows)
    }
    fn ready(&self) -> Result<()> {
        self.other().ready()
    }
    fn scan(&self, table: &TpccTable, each: &mut dyn FnMut(&RowSet) -> Result<()>) -> Result<()> {
        self.other().scan(table, each)
    }
    fn connect(&self, work: &mut dyn FnMut(&mut dyn Link) -> Result<()>) -> Result<()> {
        let mut client = Client {
            stream: self.stream()?,
            output: BytesMut::new(),
            input: vec![0; 64 << 10],
            from: 0,
            to: 0,
            kinds: vec![],
            begun: 0,
            together: self.together,
        };
        client.start(b"", |out| out.extend_from_slice(b"\0\x03\0\0user\0postgres\0database\0postgres\0\0"));
        client.answers(0, &[], &mut RowSet::default()).map_err(fatal)?;
        let begin = format!("BEGIN ISOLATION LEVEL {}", self.isolation);
        let own = [begin.clone(), format!("{begin} READ ONLY"), "COMMIT".into(), "ROLLBACK".into()];
        for s in statements() {
            client.prepare(&s.sql, &s.params);
            client.kinds.push((s.params, s.results));
        }
        for sql in own {
            client.prepare(&sql, &[]);
            client.kinds.push((vec![], vec![]));
        }
        client.start(b"S", |_| ());
        client.answers(0, &[], &mut RowSet::default()).map_err(fatal)?;
        work(&mut client)
    }
}

fn fatal(f: Failure) -> crate::Error {
    match f {
        Failure::Fatal(e) => e,
        Failure::Retry => "another transaction was in the way before there was one".into(),
    }
}

struct Client {
    stream: Box<dyn Stream>,
    output: BytesMut,
    /// What came, of which `from..to` was not looked at yet.
    input: Vec<u8>,
    from: usize,
    to: usize,
    /// Parameters and results of the statements, and of the four after them.
    kinds: Vec<(Vec<Kind>, Vec<Kind>)>,
    /// BEGINs that wait to be sent with a statement.
    begun: usize,
    together: bool,
}

/// Places of the client's own statements, from the last.
const BEGIN: usize = 4;
const BEGIN_READ: usize = 3;
const COMMIT: usize = 2;
const ROLLBACK: usize = 1;

impl Client {
    /// Writes a message.
    fn start(&mut self, kind: &[u8], body: impl FnOnce(&mut BytesMut)) {
        self.output.extend_from_slice(kind);
        let at = self.output.len();
        self.output.extend_from_slice(&[0; 4]);
        body(&mut self.output);
        let length = (self.output.len() - at) as u32;
        self.output[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }
    /// The next statement gets the next number as its name.
    fn prepare(&mut self, sql: &str, params: &[Kind]) {
        let name = self.kinds.len();
        self.start(b"P", |out| {
            out.extend_from_slice(format!("{name}\0{sql}\0").as_bytes());
            out.extend_from_slice(&(params.len() as u16).to_be_bytes());
            params.iter().for_each(|k| out.extend_from_slice(&oid(*k).oid().to_be_bytes()))
        })
    }
    fn bind_and_execute(&mut self, q: usize, params: &[Val<'_>]) -> Result<()> {
        let kinds = std::mem::take(&mut self.kinds[q].0);
        let mut done = Ok(());
        self.start(b"B", |out| {
            out.extend_from_slice(format!("\0{q}\0").as_bytes());
            out.extend_from_slice(&[0, 1, 0, 1]);
            out.extend_from_slice(&(params.len() as u16).to_be_bytes());
            for (v, kind) in params.iter().zip(&kinds) {
                let at = out.len();
                out.extend_from_slice(&[0xff; 4]);
                match put_value(*v, *kind, out) {
                    Ok(false) => {}
                    Ok(true) => {
                        let length = (out.len() - at - 4) as u32;
                        out[at..at + 4].copy_from_slice(&length.to_be_bytes())
                    }
                    Err(e) => done = Err(e),
                }
            }
            out.extend_from_slice(&[0, 1, 0, 1])
        });
        self.kinds[q].0 = kinds;
        self.start(b"E", |out| out.extend_from_slice(b"\0\0\0\0\0"));
        done
    }
    fn own(&mut self, which: usize) -> Tried<()> {
        Ok(self.bind_and_execute(self.kinds.len() - which, &[])?)
    }
    /// Asks for answers to all that was written, of which the last `calls` are of statements with these
    /// results. Whether each of them gave or changed one row, and how many all did.
    fn ask(&mut self, q: usize, calls: usize, out: &mut RowSet) -> Tried<(bool, u64)> {
        self.start(b"S", |_| ());
        let results = std::mem::take(&mut self.kinds[q].1);
        let skipped = std::mem::take(&mut self.begun);
        let answered = self.answers(skipped, &results, out);
        self.kinds[q].1 = results;
        let (completed, ones, rows) = answered?;
        if completed != calls {
            return Err(format!("{completed} of {calls} statements were answered").into());
        }
        Ok((ones, rows))
    }
    /// Sends what was written, and reads up to ReadyForQuery; the first `skipped` completions are not
    /// counted. (completions, each of one row, rows in all)
    fn answers(&mut self, skipped: usize, results: &[Kind], out: &mut RowSet) -> Tried<(usize, bool, u64)> {
        self.stream.write_all(&self.output)?;
        self.output.clear();
        let (mut seen, mut ones, mut rows, mut failed) = (0, true, 0, None);
        loop {
            let (kind, from, to) = self.message()?;
            let body = &self.input[from..to];
            match kind {
                b'D' => {
                    let mut at = 2;
                    for k in results {
                        let head = body.get(at..at + 4).ok_or("a row is cut short")?;
                        let length = i32::from_be_bytes([head[0], head[1], head[2], head[3]]);
                        at += 4;
                        match usize::try_from(length) {
                            Err(_) => out.null(),
                            Ok(n) => {
                                take_value(body.get(at..at + n).ok_or("a row is cut short")?, *k, out)?;
                                at += n
                            }
                        }
                    }
                }
                b'C' => {
                    seen += 1;
                    if seen > skipped {
                        let n = affected(body);
                        rows += n;
                        ones &= n == 1
                    }
                }
                b'E' if failed.is_none() => failed = Some(failure(body)),
                b'Z' => break,
                _ => {}
            }
        }
        failed.map_or(Ok((seen.saturating_sub(skipped), ones, rows)), Err)
    }
    /// The next message: its kind, and where its body lies in the input.
    fn message(&mut self) -> Result<(u8, usize, usize)> {
        loop {
            if let Some(head) = self.input[self.from..self.to].get(..5) {
                let end = self.from + 1 + u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
                if end <= self.to {
                    let (kind, from) = (head[0], self.from + 5);
                    self.from = end;
                    return Ok((kind, from, end));
                }
                if end - self.from > self.input.len() {
                    self.input.resize(end - self.from, 0)
                }
            }
            self.input.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
            match self.stream.read(&mut self.input[self.to..])? {
                0 => return Err("the server has closed the connection".into()),
                n => self.to += n,
            }
        }
    }
}

/// The number at the end of a command's tag.
fn affected(tag: &[u8]) -> u64 {
    let tag = tag.strip_suffix(b"\0").unwrap_or(tag);
    let digits = tag.iter().rposition(|b| *b == b' ').map_or(&[][..], |at| &tag[at + 1..]);
    digits.iter().fold(0, |n, d| n * 10 + u64::from(d.wrapping_sub(b'0')))
}

fn failure(body: &[u8]) -> Failure {
    let field = |code: u8| {
        let found = body.split(|b| *b == 0).find(|f| f.first() == Some(&code));
        found.map(|f| String::from_utf8_lossy(&f[1..]).into_owned()).unwrap_or_default()
    };
    match field(b'C').as_str() {
        "40001" | "40P01" | "55P03" => Failure::Retry,
        state => Failure::Fatal(format!("{} ({state})", field(b'M')).into()),
    }
}

impl Link for Client {
    fn begin(&mut self, read_only: bool) -> Tried<()> {
        self.begun = 1;
        self.own(if read_only { BEGIN_READ } else { BEGIN })
    }
    fn call(&mut self, q: usize, params: &[Val<'_>], out: &mut RowSet) -> Tried<u64> {
        out.clear(self.kinds[q].1.len());
        self.bind_and_execute(q, params)?;
        Ok(self.ask(q, 1, out)?.1)
    }
    fn call_each(&mut self, q: usize, params: &[Val<'_>], width: usize, out: &mut RowSet) -> Tried<bool> {
        out.clear(self.kinds[q].1.len());
        let mut good = true;
        for p in params.chunks(width) {
            self.bind_and_execute(q, p)?;
            if !self.together {
                good &= self.ask(q, 1, out)?.0;
            }
        }
        if self.together {
            good = self.ask(q, params.len() / width, out)?.0;
        }
        Ok(good)
    }
    fn commit(&mut self) -> Tried<Commit> {
        let q = self.kinds.len() - COMMIT;
        self.own(COMMIT)?;
        self.ask(q, 1, &mut RowSet::default())?;
        Ok(Commit::Done)
    }
    fn rollback(&mut self) {
        // What was not sent is not to be; a broken connection shows at the next statement.
        self.output.clear();
        self.begun = 0;
        let q = self.kinds.len() - ROLLBACK;
        let _ = self.own(ROLLBACK).and_then(|()| self.ask(q, 1, &mut RowSet::default()));
    }
    fn wait(&mut self, _: u64) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_end_with_their_rows() {
        assert_eq!(affected(b"INSERT 0 12\0"), 12);
        assert_eq!(affected(b"UPDATE 1\0"), 1);
        assert_eq!(affected(b"COMMIT\0"), 0);
    }

    #[test]
    fn conflicts_are_tried_again() {
        assert!(matches!(failure(b"SERROR\0C40001\0Mcould not serialize\0\0"), Failure::Retry));
        let Failure::Fatal(e) = failure(b"SERROR\0C42P01\0Mno such relation\0\0") else {
            panic!("it is no conflict")
        };
        assert_eq!(e.to_string(), "no such relation (42P01)");
    }
}
