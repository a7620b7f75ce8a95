//! Messages that are no good, in conversations that are: clients keep statements, portals, transactions and
//! COPYs open, and send what a client may send and what none would, one after the other.
//!
//! The server must answer whatever comes: an error that is none of its own (XX000), an end of the connection,
//! or what was asked for; and it must not grow. What is looked at is what the process has allocated, once all
//! clients of a round are gone and what they have made is dropped. Half of the clients talk in shared memory.
//!
//! `ONDOL_FUZZ=10000000 cargo test --release -p ondol --test fuzz -- --nocapture` sends so many messages;
//! `ONDOL_FUZZ_SEED` has others sent. What a client had sent when something went wrong is printed.
#![cfg(feature = "server")]
#[path = "common/allocated.rs"]
mod allocated;
use ondol::server::{ServeOptions, Server, SettingGiven};
use ondol::{Database, OpenOptions, TempFolder};
use ondol_base::net::Interest;
use ondol_base::shm;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// In which every answer has come: no statement may take as long.
const PATIENCE: Duration = Duration::from_secs(60);
/// Connections that messages are sent by at a time.
const CLIENTS: u64 = 4;
/// What the process may have allocated more at the end than after the second round.
const GROWTH: usize = 24 << 20;

/// SplitMix64.
struct Random(u64);
impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
    fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }
}

const STATEMENTS: &[&str] = &[
    "",
    ";",
    "BEGIN",
    "BEGIN ISOLATION LEVEL SERIALIZABLE",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT a",
    "ROLLBACK TO a",
    "RELEASE a",
    "SELECT 1",
    "SELECT 1 / 0",
    "SELECT * FROM t",
    "SELECT n, a, b FROM t WHERE n = 3",
    "SELECT count(*), sum(n), string_agg(a, ',' ORDER BY n) FROM t GROUP BY n % 3",
    "SELECT * FROM generate_series(1, 300) AS g(i)",
    "SELECT repeat('x', 20000)",
    "SELECT * FROM t JOIN u USING (n) ORDER BY 1 DESC LIMIT 5",
    "WITH x AS (SELECT n FROM t WHERE n < 5) SELECT * FROM x, u WHERE u.n = x.n FOR UPDATE OF u",
    "INSERT INTO t VALUES (1, 'one', 1.5, now()) ON CONFLICT (n) DO UPDATE SET a = excluded.a RETURNING *",
    "INSERT INTO t SELECT i, 'a' || i, i / 3.0, NULL FROM generate_series(1, 20) AS g(i) ON CONFLICT DO NOTHING",
    "UPDATE t SET b = b + 1 WHERE n = 2",
    "DELETE FROM t WHERE n > 10",
    "TRUNCATE u",
    "COPY t FROM STDIN",
    "COPY u FROM STDIN (FORMAT csv)",
    "COPY t TO STDOUT",
    "COPY (SELECT n FROM t) TO STDOUT (FORMAT csv, HEADER)",
    "DECLARE p1 CURSOR FOR SELECT * FROM t",
    "FETCH 2 FROM p1",
    "MOVE ALL FROM p1",
    "CLOSE p1",
    "CLOSE ALL",
    "PREPARE s1 AS SELECT n FROM t WHERE n = $1",
    "EXECUTE s1 (3)",
    "DEALLOCATE s1",
    "DEALLOCATE ALL",
    "DISCARD ALL",
    "LISTEN c",
    "NOTIFY c, 'said'",
    "UNLISTEN *",
    "SELECT pg_notify('c', repeat('n', 500))",
    "SET application_name = 'a'",
    "SET DateStyle = 'German'",
    "SET TimeZone = 'Asia/Tokyo'",
    "SET LOCAL work_mem = '4MB'",
    "RESET ALL",
    "SHOW ALL",
    "CREATE TEMP TABLE v (x integer)",
    "DROP TABLE v",
    "CREATE TABLE w (x integer PRIMARY KEY, y text CHECK (length(y) < 9))",
    "DROP TABLE IF EXISTS w CASCADE",
    "ALTER TABLE w ADD z bigint DEFAULT 7",
    "CREATE INDEX ON w (y)",
    "CREATE VIEW o AS SELECT n FROM t",
    "DROP VIEW o",
    "CREATE FUNCTION f(k integer) RETURNS TABLE (a text) BEGIN ATOMIC SELECT a FROM t WHERE n = k; END",
    "SELECT * FROM f(1)",
    "DROP FUNCTION f",
    "CREATE TYPE e AS ENUM ('x', 'y')",
    "SELECT 'x'::e, ARRAY['y'::e]",
    "DROP TYPE e",
    "EXPLAIN SELECT * FROM t WHERE a = 'x'",
    "EXPLAIN ANALYZE DELETE FROM u",
    "ANALYZE t",
    "LOCK TABLE t IN SHARE MODE",
    "SELECT pg_advisory_xact_lock(1)",
    "SELECT pg_sleep(0.002)",
    "SELECT pg_cancel_backend(pg_backend_pid())",
    "SELECT '{1,2}'::int[], '2020-01-01'::date, 'a'::bytea, 'true'::bool, '1 day'::interval, ROW(1, 'x')",
    "SELECT relname FROM pg_class WHERE relname LIKE 't%'",
    "SELECT * FROM pg_stat_activity",
    "SELECT current_setting('application_name'), version(), current_user",
    "VALUES (1, 'a'), (2, 'b')",
    "SELECT (SELECT max(n) FROM t), EXISTS (SELECT 1 FROM u)",
    "REVOKE SELECT ON t FROM PUBLIC",
    "SET ROLE fuzz",
    "SELECT nextval('q')",
    "DO $$ BEGIN END $$",
];

const WITH_PARAMETERS: &[&str] = &[
    "SELECT $1::int + 1",
    "SELECT $1::text, $2::bytea",
    "SELECT * FROM t WHERE n = $1",
    "SELECT a FROM t WHERE n = ANY ($1::int[])",
    "INSERT INTO t VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
    "INSERT INTO u (n, note) VALUES ($1, $2) RETURNING n",
    "UPDATE t SET a = $2 WHERE n = $1",
    "DELETE FROM u WHERE n = $1",
    "SELECT $1::numeric * 2, $2::float8, $3::timestamptz, $4::interval",
    "SELECT $1::bool, $2::date, $3::uuid, $4::varchar(3)",
    "SELECT * FROM generate_series($1::int % 50, $2::int % 50)",
    "SELECT * FROM t ORDER BY n LIMIT $1 OFFSET $2",
    "SELECT n FROM t WHERE a LIKE $1",
];

const WORDS: &[&str] = &[
    "SELECT", "FROM", "t", "u", "n", "a", "(", ")", ",", ";", "'", "\"", "$1", "$99", "NULL", "1", "-1",
    "1e400", "''", "*", "WHERE", "AND", "ORDER BY", "::int", "::e", "[1]", "--", "/*", "E'\\", "é",
    "CASCADE", "DEFAULT",
];

const TYPES: [i32; 14] = [0, 16, 17, 20, 21, 23, 25, 701, 1700, 1082, 1184, 1007, 2249, 999_999];
const KINDS: &[u8] = b"QPBDECHSdcfpXF";

fn text(r: &mut Random) -> String {
    let from = if r.one_in(3) { WITH_PARAMETERS } else { STATEMENTS };
    let mut text = r.pick(from).to_string();
    if r.one_in(12) {
        // A word more, less, or another.
        let mut words: Vec<&str> = text.split(' ').collect();
        let at = r.below(words.len());
        match r.below(3) {
            0 => drop(words.remove(at)),
            1 => words.insert(at, r.pick(WORDS)),
            _ => words[at] = r.pick(WORDS),
        }
        text = words.join(" ")
    }
    text
}

/// A message in the making.
struct Out(Vec<u8>);
impl Out {
    fn new(kind: u8) -> Out {
        Out(vec![kind, 0, 0, 0, 0])
    }
    fn text(mut self, t: &str) -> Out {
        self.0.extend(t.bytes().filter(|b| *b != 0));
        self.0.push(0);
        self
    }
    fn i16(mut self, n: usize) -> Out {
        self.0.extend((n as i16).to_be_bytes());
        self
    }
    fn i32(mut self, n: i32) -> Out {
        self.0.extend(n.to_be_bytes());
        self
    }
    fn bytes(mut self, b: &[u8]) -> Out {
        self.0.extend(b);
        self
    }
    fn end(mut self) -> Vec<u8> {
        mend(&mut self.0);
        self.0
    }
}

/// Sets the length to what it is.
fn mend(message: &mut [u8]) {
    let length = (message.len() as u32 - 1).to_be_bytes();
    message[1..5].copy_from_slice(&length)
}

fn value(r: &mut Random) -> Option<Vec<u8>> {
    Some(match r.below(11) {
        0 => return None,
        1 => vec![],
        2 => (r.below(40) as i32 - 5).to_be_bytes().to_vec(),
        3 => (r.next() as i64 >> r.below(64)).to_be_bytes().to_vec(),
        4 => b"{1,2,NULL}".to_vec(),
        5 => b"2024-02-29 12:00".to_vec(),
        6 => (0..r.below(30)).map(|_| r.next() as u8).collect(),
        7 => {
            [&1i32.to_be_bytes()[..], &0i32.to_be_bytes(), &23i32.to_be_bytes(), &1i32.to_be_bytes()].concat()
        }
        8 => vec![b'y'; r.below(3000)],
        _ => r.below(30).to_string().into_bytes(),
    })
}

fn forms(out: Out, r: &mut Random, count: usize) -> Out {
    let n = match r.below(4) {
        0 | 1 => 0,
        2 => 1,
        _ => count,
    };
    (0..n).fold(out.i16(n), |out, _| out.i16(r.below(2)))
}

/// What a client may send.
fn message(r: &mut Random) -> Vec<u8> {
    let statement = |r: &mut Random| r.pick(&["", "", "s1", "s2", "s3"]);
    let portal = |r: &mut Random| r.pick(&["", "", "", "p1", "p2"]);
    match r.below(100) {
        0..22 => {
            let all: Vec<String> = (0..1 + r.below(8) / 6).map(|_| text(r)).collect();
            Out::new(b'Q').text(&all.join("; ")).end()
        }
        22..38 => {
            let out = Out::new(b'P').text(statement(r)).text(&text(r));
            let n = r.below(6) / 2;
            (0..n).fold(out.i16(n), |out, _| out.i32(TYPES[r.below(TYPES.len())])).end()
        }
        38..57 => {
            let out = Out::new(b'B').text(portal(r)).text(statement(r));
            let n = r.below(5);
            let out = forms(out, r, n).i16(n);
            let out = (0..n).fold(out, |out, _| match value(r) {
                None => out.i32(-1),
                Some(v) => out.i32(v.len() as i32).bytes(&v),
            });
            let columns = r.below(4);
            forms(out, r, columns).end()
        }
        57..63 => match r.one_in(2) {
            true => Out::new(b'D').bytes(b"S").text(statement(r)).end(),
            false => Out::new(b'D').bytes(b"P").text(portal(r)).end(),
        },
        63..80 => Out::new(b'E').text(portal(r)).i32([0, 0, 0, 1, 2, 100, -1][r.below(7)]).end(),
        80..83 => match r.one_in(2) {
            true => Out::new(b'C').bytes(b"S").text(statement(r)).end(),
            false => Out::new(b'C').bytes(b"P").text(portal(r)).end(),
        },
        83..84 => Out::new(b'H').end(),
        84..93 => Out::new(b'S').end(),
        93..97 => {
            let lines = [
                "5\tfive\t5\t\\N\n",
                "6,note\n",
                "7\tx\n",
                "\\.\n",
                "8\t",
                "eight\t1\t2020-01-01\n",
                "\"",
                "\n",
            ];
            let data: String = (0..r.below(5)).map(|_| r.pick(&lines)).collect();
            Out::new(b'd').bytes(data.as_bytes()).end()
        }
        97..99 => Out::new(b'c').end(),
        _ => Out::new(b'f').text("enough").end(),
    }
}

/// What no client would send instead. Where the message ends stays known, but for those that are fatal: true.
fn spoil(m: &mut Vec<u8>, r: &mut Random) -> bool {
    let at = 5 + r.below(m.len() - 4).min(m.len() - 5);
    let ways = if r.one_in(10) { 12 } else { 9 };
    match r.below(ways) {
        0 if at < m.len() => m[at] ^= 1 << r.below(8),
        1 => m.truncate(at),
        2 => m.extend((0..1 + r.below(9)).map(|_| 0u8)),
        3 => {
            let more: Vec<u8> = (0..1 + r.below(20)).map(|_| r.next() as u8).collect();
            m.splice(at..at, more);
        }
        4 => m[0] = KINDS[r.below(KINDS.len())],
        5 => {
            let extreme = r.pick(&[&[0xff, 0xff][..], &[0x7f, 0xff], &[0x80, 0]]);
            let end = m.len().min(at + 2);
            m[at..end].copy_from_slice(&extreme[..end - at])
        }
        6 => {
            let extreme =
                r.pick(&[&[0xff; 4][..], &[0x7f, 0xff, 0xff, 0xff], &[0x80, 0, 0, 0], &[0, 0, 0, 0]]);
            let end = m.len().min(at + 4);
            m[at..end].copy_from_slice(&extreme[..end - at])
        }
        7 => {
            let end = m.len().min(at + 1 + r.below(6));
            m.drain(at..end);
        }
        8 => {
            mend(m);
            m.extend_from_within(..);
            return false;
        }
        9 => {
            let length = [0, 3, 5, 1 << 20, i32::MAX, -1][r.below(6)];
            m[1..5].copy_from_slice(&length.to_be_bytes());
            return true;
        }
        10 => {
            m[0] = r.next() as u8;
            mend(m);
            return true;
        }
        11 => {
            mend(m);
            m.truncate(1 + r.below(m.len() - 1));
            return true;
        }
        _ => {}
    }
    mend(m);
    false
}

/// Asks for TLS.
const TLS: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// The beginning of a connection.
fn opening(r: &mut Random) -> (Vec<u8>, bool) {
    let startup = |user: &str| {
        let minor: i32 = 3 << 16;
        let body = format!("user\0{user}\0database\0postgres\0search_path\0fuzz\0\0");
        [&(body.len() as i32 + 8).to_be_bytes()[..], &minor.to_be_bytes(), body.as_bytes()].concat()
    };
    let mut packet = startup("fuzz");
    if !r.one_in(20) {
        return (packet, false);
    }
    match r.below(6) {
        0 => packet = [&TLS[..], &packet].concat(),
        1 => {
            packet = [&16i32.to_be_bytes()[..], &80_877_102i32.to_be_bytes(), &7i32.to_be_bytes(), b"keys"]
                .concat()
        }
        2 => packet = startup("nobody"),
        3 => {
            let at = r.below(packet.len());
            packet[at] ^= 1 << r.below(8)
        }
        4 => packet.truncate(r.below(packet.len())),
        _ => packet = (0..r.below(60)).map(|_| r.next() as u8).collect(),
    }
    (packet, true)
}

/// How a connection ended.
enum End {
    Closed,
    /// No answer came.
    Hangs,
    /// The server has said what it must not.
    Wrong(String),
}

/// What a client is connected by.
enum Line {
    Socket(UnixStream),
    Memory(shm::End, shm::Patience),
}

impl Line {
    /// Sends no more; in memory that is the end of all.
    fn shutdown(&self) -> std::io::Result<()> {
        match self {
            Line::Socket(s) => s.shutdown(Shutdown::Write),
            Line::Memory(m, _) => match m.bell() {
                shm::Bell::System(s) => s.shutdown(Shutdown::Write),
                shm::Bell::World(_) => Ok(()),
            },
        }
    }
}

impl Read for Line {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Line::Socket(s) => s.read(room),
            Line::Memory(m, p) => m.waiting(Interest::READ, p, Some(PATIENCE), |m| m.read(room)),
        }
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let room = Interest { read: false, write: true };
        match self {
            Line::Socket(s) => s.write(bytes),
            Line::Memory(m, p) => m.waiting(room, p, Some(PATIENCE), |m| m.write(bytes)),
        }
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn is_late(e: &std::io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

struct Client {
    stream: Line,
    input: Vec<u8>,
    /// All that it has sent.
    said: Vec<u8>,
    /// It has asked for TLS, of which one byte says that there is none.
    asks_for_tls: bool,
}

impl Client {
    fn connect(path: &Path, in_memory: bool) -> Client {
        let mut socket = UnixStream::connect(path).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        let stream = match in_memory {
            true => {
                socket.write_all(&shm::REQUEST).unwrap();
                let end = shm::End::accept(socket).unwrap().expect("memory");
                Line::Memory(end, shm::Patience::default())
            }
            false => Line::Socket(socket),
        };
        Client { stream, input: vec![], said: vec![], asks_for_tls: false }
    }
    fn send(&mut self, bytes: &[u8]) -> Result<(), End> {
        self.said.extend_from_slice(bytes);
        self.stream.write_all(bytes).map_err(|e| if is_late(&e) { End::Hangs } else { End::Closed })
    }
    fn message(&mut self) -> Result<(u8, Vec<u8>), End> {
        loop {
            if self.asks_for_tls && self.input.first() == Some(&b'N') {
                self.asks_for_tls = false;
                self.input.remove(0);
            }
            if let Some((head, rest)) = self.input.split_first_chunk::<5>() {
                let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
                if !(4..1 << 28).contains(&length) || !head[0].is_ascii_graphic() {
                    return Err(End::Wrong(format!("a message's head is {head:?}")));
                }
                if rest.len() >= length - 4 {
                    let found = (head[0], rest[..length - 4].to_vec());
                    self.input.drain(..length + 1);
                    if found.0 == b'E' && found.1.windows(7).any(|w| w == b"CXX000\0") {
                        return Err(End::Wrong(String::from_utf8_lossy(&found.1).into_owned()));
                    }
                    return Ok(found);
                }
            }
            let mut room = [0; 16 << 10];
            match self.stream.read(&mut room) {
                Ok(0) => return Err(End::Closed),
                Ok(n) => self.input.extend_from_slice(&room[..n]),
                Err(e) if is_late(&e) => return Err(End::Hangs),
                Err(_) => return Err(End::Closed),
            }
        }
    }
    /// Reads until the server has answered all that was sent: until it answers a question of its own.
    fn catch_up(&mut self, number: u64) -> Result<(), End> {
        let echo = format!("echo_{number}");
        let is_echo = |body: &[u8]| body.windows(echo.len()).any(|w| w == echo.as_bytes());
        // A COPY is broken off first, and what is left out ends.
        let asked = [
            Out::new(b'f').text("").end(),
            Out::new(b'S').end(),
            Out::new(b'Q').text(&format!("SELECT '{echo}'")).end(),
        ];
        self.send(&asked.concat())?;
        let (mut failed, mut again, mut heard) = (false, 0, false);
        loop {
            let (kind, body) = self.message()?;
            let is_error = |state: &[u8]| kind == b'E' && body.windows(state.len()).any(|w| w == state);
            heard |= matches!(kind, b'D' | b'E') && is_echo(&body);
            if heard && kind == b'Z' {
                return Ok(());
            }
            // In a transaction that has failed nothing is selected; of this the error has the name.
            if !failed && is_error(b"C25P02\0") {
                failed = true;
                self.send(&Out::new(b'Q').text(&format!("ROLLBACK TO SAVEPOINT {echo}")).end())?
            }
            // It may have been the question that was broken off.
            if again < 50 && is_error(b"C57014\0") {
                again += 1;
                self.send(&asked[2])?
            }
        }
    }
    /// Sends no more, and reads to the end.
    fn end(&mut self) -> End {
        // It may be closed already.
        let _ = self.stream.shutdown();
        loop {
            if let Err(end) = self.message() {
                return end;
            }
        }
    }
}

/// One connection, to its end.
fn converse(client: &mut Client, r: &mut Random, sent: &AtomicU64, most: u64) -> End {
    let (packet, is_odd) = opening(r);
    client.asks_for_tls = packet.starts_with(&TLS);
    sent.fetch_add(1, Relaxed);
    if let Err(end) = client.send(&packet) {
        return end;
    }
    if is_odd {
        return client.end();
    }
    let mut number = 0;
    while sent.load(Relaxed) < most {
        let mut batch = vec![];
        for _ in 0..1 + r.below(30) {
            let mut m = message(r);
            let is_fatal = r.one_in(6) && spoil(&mut m, r);
            batch.extend(m);
            sent.fetch_add(1, Relaxed);
            if is_fatal {
                return client.send(&batch).err().unwrap_or_else(|| client.end());
            }
        }
        number += 1;
        if let Err(end) = client.send(&batch).and_then(|()| client.catch_up(number)) {
            return end;
        }
        // A client that only ever says the same way of things goes.
        if r.one_in(100) {
            return if r.one_in(2) { End::Closed } else { client.end() };
        }
    }
    client.end()
}

/// Sends so many messages by several clients; what the process has allocated when all is over.
fn round(db: &Database, path: &Path, seed: u64, most: u64) -> (u64, usize) {
    let sent = AtomicU64::new(0);
    let connections = AtomicU64::new(0);
    std::thread::scope(|s| {
        for n in 0..CLIENTS {
            let (sent, connections) = (&sent, &connections);
            s.spawn(move || {
                let mut k = 0;
                while sent.load(Relaxed) < most {
                    k += 1;
                    let mut r = Random(seed.wrapping_mul(0x1000_0001) ^ n << 48 ^ k << 24);
                    let mut client = Client::connect(path, n % 2 == 1);
                    connections.fetch_add(1, Relaxed);
                    let what = match converse(&mut client, &mut r, sent, most) {
                        End::Closed => continue,
                        End::Hangs => format!("no answer within {PATIENCE:?}"),
                        End::Wrong(what) => what,
                    };
                    let said = client.said.len().saturating_sub(4000);
                    let said = client.said[said..].escape_ascii();
                    panic!("seed {seed}, client {n}, connection {k}: {what}\nit had said last:\n{said}")
                }
            });
        }
    });
    // Who is gone is gone soon.
    let mut s = db.session();
    let began = Instant::now();
    loop {
        let rows = s.query("SELECT count(*) FROM pg_stat_activity WHERE usename = 'fuzz'", &[]).unwrap();
        match rows.row(0).get::<i64>(0).unwrap() {
            0 => break,
            n => assert!(began.elapsed() < PATIENCE, "{n} sessions are left"),
        }
        std::thread::sleep(Duration::from_millis(5))
    }
    s.execute("DROP SCHEMA fuzz CASCADE").unwrap();
    set_up(db);
    db.checkpoint().unwrap();
    (connections.into_inner(), allocated::now())
}

fn set_up(db: &Database) {
    let sql = "CREATE SCHEMA fuzz; GRANT ALL ON SCHEMA fuzz TO fuzz; SET search_path = fuzz; SET ROLE fuzz;
        CREATE TABLE t (n integer PRIMARY KEY, a text, b numeric, at timestamptz);
        CREATE TABLE u (n integer, note varchar(20));
        CREATE INDEX ON u (n);
        CREATE SEQUENCE q;
        INSERT INTO t SELECT i, 'row ' || i, i * 1.5, now() FROM generate_series(1, 8) AS g(i)";
    db.session().execute(sql).unwrap();
}

#[test]
fn whatever_is_sent_is_answered() {
    let number = |name: &str, or: u64| std::env::var(name).map_or(or, |v| v.parse().unwrap());
    let (messages, seed) = (number("ONDOL_FUZZ", 30_000), number("ONDOL_FUZZ_SEED", 1));
    let rounds = 10.min(messages / 5000).max(3);
    let folder = TempFolder::new().unwrap();
    let db = OpenOptions::new().memory_limit(256 << 20).open(folder.path().join("db")).unwrap();
    db.session().execute("CREATE ROLE fuzz LOGIN").unwrap();
    set_up(&db);
    let path = folder.path().join("socket");
    let given = [("statement_timeout", "500ms"), ("lock_timeout", "10ms")];
    let options = ServeOptions {
        listen: vec![],
        sockets: vec![path.clone()],
        owner: Some(ondol::server::owner_of(folder.path()).unwrap()),
        settings: given.map(|(name, value)| SettingGiven::new(name, value, "here")).to_vec(),
        ..ServeOptions::default()
    };
    let server = Server::start(&db, &options).unwrap();
    let (mut connections, mut allocated) = (0, vec![]);
    let began = Instant::now();
    for n in 0..rounds {
        let (more, live) = round(&db, &path, seed.wrapping_add(n), messages / rounds);
        connections += more;
        allocated.push(live);
        println!("seed {seed}, round {n}: {} KiB, {:.0} s", live >> 10, began.elapsed().as_secs_f64())
    }
    server.stop().unwrap();
    let (last, second) = (allocated[allocated.len() - 1], allocated[1]);
    println!("{messages} messages by {connections} connections; {second} bytes, then {last}");
    assert!(last < second + GROWTH, "{second} bytes, then {last}");
    db.close().unwrap();
}
