//! The server, by its messages: what a client sends and is answered, byte for byte where that matters.
#![cfg(feature = "server")]
use ondol::server::{ServeOptions, Server};
use ondol::{Database, TempFolder};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A database that is served, to whoever comes from this machine.
struct Served {
    server: Option<Server>,
    database: Database,
    port: u16,
    _folder: TempFolder,
}

fn serve(change: impl FnOnce(&mut ServeOptions)) -> Served {
    let folder = TempFolder::new().unwrap();
    let database = Database::open(folder.path().join("db")).unwrap();
    let mut options =
        ServeOptions { listen: vec!["127.0.0.1:0".into()], trust_loopback: true, ..ServeOptions::default() };
    change(&mut options);
    let server = Server::start(&database, &options).unwrap();
    let port = server.addresses()[0].port();
    Served { server: Some(server), database, port, _folder: folder }
}

impl Served {
    fn connect(&self) -> Client {
        Client::new(self.port)
    }
    /// A client that is ready.
    fn client(&self) -> Client {
        let mut c = self.connect();
        c.start(&[("user", "postgres")]);
        c
    }
    /// The same, of a server that nobody else needs.
    fn client_of(self) -> Client {
        let mut c = self.client();
        c.served = Some(self);
        c
    }
}

/// A message of the server's.
#[derive(Clone, PartialEq, Eq)]
struct Message {
    kind: char,
    body: Vec<u8>,
}

impl Message {
    fn i16(&self, at: usize) -> i16 {
        i16::from_be_bytes(self.body[at..at + 2].try_into().unwrap())
    }
    fn i32(&self, at: usize) -> i32 {
        i32::from_be_bytes(self.body[at..at + 4].try_into().unwrap())
    }
    /// A row's values.
    fn values(&self) -> Vec<Option<Vec<u8>>> {
        assert_eq!(self.kind, 'D');
        let mut at = 2;
        let mut all = vec![];
        for _ in 0..self.i16(0) {
            let length = self.i32(at);
            at += 4;
            all.push(usize::try_from(length).ok().map(|l| {
                at += l;
                self.body[at - l..at].to_vec()
            }))
        }
        assert_eq!(at, self.body.len());
        all
    }
    fn field(&self, code: char) -> Option<String> {
        assert!(matches!(self.kind, 'E' | 'N'));
        let mut fields = self.body.split(|b| *b == 0);
        let found = fields.find(|f| f.first() == Some(&(code as u8)))?;
        Some(String::from_utf8(found[1..].to_vec()).unwrap())
    }
    /// Where a description's columns come from: OIDs of tables, numbers of columns.
    fn origins(&self) -> Vec<(i32, i16)> {
        assert_eq!(self.kind, 'T');
        let mut rest = &self.body[2..];
        let mut all = vec![];
        for _ in 0..self.i16(0) {
            let tail = &rest[rest.iter().position(|b| *b == 0).unwrap() + 1..];
            let number = |at: usize| i16::from_be_bytes(tail[at..at + 2].try_into().unwrap());
            all.push((i32::from_be_bytes(tail[..4].try_into().unwrap()), number(4)));
            rest = &tail[18..]
        }
        all
    }
    /// Names, OIDs and forms of a description's columns.
    fn columns(&self) -> Vec<(String, i32, i16)> {
        assert_eq!(self.kind, 'T');
        let mut rest = &self.body[2..];
        let mut all = vec![];
        for _ in 0..self.i16(0) {
            let end = rest.iter().position(|b| *b == 0).unwrap();
            let name = String::from_utf8(rest[..end].to_vec()).unwrap();
            let tail = &rest[end + 1..];
            let oid = i32::from_be_bytes(tail[6..10].try_into().unwrap());
            let form = i16::from_be_bytes(tail[16..18].try_into().unwrap());
            all.push((name, oid, form));
            rest = &tail[18..]
        }
        all
    }
}

/// In short, for comparing: rows by their texts, errors by SQLSTATE.
impl std::fmt::Display for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |b: &[u8]| String::from_utf8_lossy(b).trim_end_matches('\0').to_string();
        match self.kind {
            'D' => {
                let shown = |v: Option<Vec<u8>>| v.map_or("NULL".to_string(), |b| text(&b));
                write!(f, "D({})", self.values().into_iter().map(shown).collect::<Vec<_>>().join(","))
            }
            'E' | 'N' => write!(f, "{}({})", self.kind, self.field('C').unwrap()),
            'C' | 'Z' | 'd' => write!(f, "{}({})", self.kind, text(&self.body).trim_end()),
            'T' => {
                let names: Vec<String> = self.columns().into_iter().map(|c| c.0).collect();
                write!(f, "T({})", names.join(","))
            }
            kind => write!(f, "{kind}"),
        }
    }
}
impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

struct Client {
    stream: TcpStream,
    /// What BackendKeyData told.
    key: Vec<u8>,
    settings: Vec<(String, String)>,
    /// Ends with it.
    served: Option<Served>,
}

fn packed(kind: Option<u8>, body: &[u8]) -> Vec<u8> {
    let mut bytes: Vec<u8> = kind.into_iter().collect();
    bytes.extend((body.len() as u32 + 4).to_be_bytes());
    bytes.extend(body);
    bytes
}
fn query(text: &str) -> Vec<u8> {
    packed(Some(b'Q'), format!("{text}\0").as_bytes())
}
fn parse(name: &str, text: &str, types: &[u32]) -> Vec<u8> {
    let mut body = format!("{name}\0{text}\0").into_bytes();
    body.extend((types.len() as u16).to_be_bytes());
    types.iter().for_each(|t| body.extend(t.to_be_bytes()));
    packed(Some(b'P'), &body)
}
/// With forms as given: of parameters and of results.
fn bind_as(portal: &str, name: &str, forms: &[u16], values: &[Option<&[u8]>], results: &[u16]) -> Vec<u8> {
    let mut body = format!("{portal}\0{name}\0").into_bytes();
    let put = |body: &mut Vec<u8>, forms: &[u16]| {
        body.extend((forms.len() as u16).to_be_bytes());
        forms.iter().for_each(|f| body.extend(f.to_be_bytes()))
    };
    put(&mut body, forms);
    body.extend((values.len() as u16).to_be_bytes());
    for v in values {
        match v {
            None => body.extend((-1i32).to_be_bytes()),
            Some(v) => {
                body.extend((v.len() as u32).to_be_bytes());
                body.extend(*v)
            }
        }
    }
    put(&mut body, results);
    packed(Some(b'B'), &body)
}
fn bind(portal: &str, name: &str, values: &[&str]) -> Vec<u8> {
    let values: Vec<Option<&[u8]>> = values.iter().map(|v| Some(v.as_bytes())).collect();
    bind_as(portal, name, &[], &values, &[])
}
fn describe(what: char, name: &str) -> Vec<u8> {
    packed(Some(b'D'), format!("{what}{name}\0").as_bytes())
}
fn close(what: char, name: &str) -> Vec<u8> {
    packed(Some(b'C'), format!("{what}{name}\0").as_bytes())
}
fn execute(portal: &str, most: i32) -> Vec<u8> {
    let mut body = format!("{portal}\0").into_bytes();
    body.extend(most.to_be_bytes());
    packed(Some(b'E'), &body)
}
fn sync() -> Vec<u8> {
    packed(Some(b'S'), b"")
}
fn data(text: &str) -> Vec<u8> {
    packed(Some(b'd'), text.as_bytes())
}

impl Client {
    fn new(port: u16) -> Client {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, key: vec![], settings: vec![], served: None }
    }
    fn send(&mut self, messages: &[Vec<u8>]) {
        self.stream.write_all(&messages.concat()).unwrap()
    }
    fn startup(&mut self, version: u32, settings: &[(&str, &str)]) {
        let mut body = version.to_be_bytes().to_vec();
        for (name, value) in settings {
            body.extend(format!("{name}\0{value}\0").as_bytes())
        }
        body.push(0);
        self.send(&[packed(None, &body)])
    }
    /// Until it is ready.
    fn start(&mut self, settings: &[(&str, &str)]) -> Vec<Message> {
        self.startup(3 << 16, settings);
        let all = self.until_ready();
        for m in &all {
            match m.kind {
                'K' => self.key = m.body.clone(),
                'S' => self.note(m),
                _ => {}
            }
        }
        all
    }
    fn note(&mut self, m: &Message) {
        let text = String::from_utf8(m.body.clone()).unwrap();
        let mut words = text.split('\0').map(str::to_string);
        let (name, value) = (words.next().unwrap(), words.next().unwrap());
        self.settings.retain(|s| s.0 != name);
        self.settings.push((name, value))
    }
    fn setting(&self, name: &str) -> &str {
        self.settings.iter().find(|s| s.0 == name).map_or("", |s| &s.1)
    }
    /// The next message; nothing at the end.
    fn message(&mut self) -> Option<Message> {
        let mut head = [0; 5];
        let mut have = 0;
        while have < head.len() {
            match self.stream.read(&mut head[have..]) {
                Ok(0) => {
                    assert_eq!(have, 0, "a message was cut");
                    return None;
                }
                Ok(n) => have += n,
                Err(e) if e.kind() == ErrorKind::ConnectionReset => return None,
                Err(e) => panic!("no message came: {e}"),
            }
        }
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize - 4;
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).unwrap();
        Some(Message { kind: head[0] as char, body })
    }
    fn until_ready(&mut self) -> Vec<Message> {
        let mut all = vec![];
        loop {
            let m = self.message().unwrap_or_else(|| panic!("the connection ended behind {all:?}"));
            let is_last = m.kind == 'Z';
            all.push(m);
            if is_last {
                return all;
            }
        }
    }
    fn until_closed(&mut self) -> Vec<Message> {
        std::iter::from_fn(|| self.message()).collect()
    }
    fn ask(&mut self, messages: &[Vec<u8>]) -> Vec<Message> {
        self.send(messages);
        self.until_ready()
    }
    /// The answers in short.
    fn told(&mut self, messages: &[Vec<u8>]) -> String {
        let all = self.ask(messages);
        all.iter().map(|m| m.to_string()).collect::<Vec<_>>().join(" ")
    }
    fn query(&mut self, text: &str) -> String {
        self.told(&[query(text)])
    }
}

#[test]
fn a_connection_begins() {
    let served = serve(|_| {});
    let mut c = served.connect();
    // Encryption is not here: the client goes on without.
    for code in [80877103u32, 80877104] {
        c.send(&[packed(None, &code.to_be_bytes())]);
        let mut answer = [0];
        c.stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"N");
    }
    let all = c.start(&[
        ("user", "postgres"),
        ("database", "postgres"),
        ("application_name", "test"),
        ("options", "-c search_path=a,b -c DateStyle=german"),
    ]);
    let kinds: String = all.iter().map(|m| m.kind).collect();
    assert_eq!(kinds, format!("R{}KZ", "S".repeat(13)));
    assert_eq!((c.setting("server_encoding"), c.setting("client_encoding")), ("UTF8", "UTF8"));
    assert!(c.setting("server_version").starts_with("15"), "{}", c.setting("server_version"));
    assert_eq!((c.setting("application_name"), c.setting("DateStyle")), ("test", "German, DMY"));
    assert_eq!((c.setting("is_superuser"), c.setting("session_authorization")), ("on", "postgres"));
    assert_eq!(c.query("SHOW search_path"), "T(search_path) D(a,b) C(SHOW) Z(I)");
    // RESET comes back to what the session began with.
    assert_eq!(
        c.query("SET DateStyle = iso; RESET DateStyle; SELECT date '2000-12-31'"),
        "C(SET) C(RESET) T(date) D(31.12.2000) C(SELECT 1) Z(I)"
    );
    assert_eq!(
        c.query("SELECT current_database(), current_user"),
        "T(current_database,current_user) D(postgres,postgres) C(SELECT 1) Z(I)"
    );
}

#[test]
fn who_may_not_come_in() {
    let served = serve(|o| {
        o.trust_loopback = false;
        o.password = Some("secret".into());
    });
    let fails = |settings: &[(&str, &str)], version: u32| {
        let mut c = served.connect();
        c.startup(version, settings);
        let all = c.until_closed();
        let e = all.last().unwrap();
        assert_eq!((e.kind, e.field('S').unwrap().as_str()), ('E', "FATAL"), "{all:?}");
        e.field('C').unwrap()
    };
    assert_eq!(fails(&[], 3 << 16), "28000");
    assert_eq!(fails(&[("user", "postgres")], 2 << 16), "0A000");
    assert_eq!(fails(&[("user", "postgres"), ("replication", "database")], 3 << 16), "0A000");
    let mut c = served.connect();
    c.send(&[b"GET / HTTP/1.1\r\n\r\n".to_vec()]);
    assert_eq!(c.message().unwrap().field('C').as_deref(), Some("08P01"));
    // A wrong proof, and a name that there is not, end alike.
    for role in ["postgres", "nobody"] {
        let mut c = served.connect();
        c.startup(3 << 16, &[("user", role)]);
        let m = c.message().unwrap();
        assert_eq!((m.kind, m.i32(0), &m.body[4..]), ('R', 10, &b"SCRAM-SHA-256\0\0"[..]));
        c.send(&[packed(Some(b'p'), b"SCRAM-SHA-256\0\0\0\0\x0cn,,n=,r=abcd")]);
        let m = c.message().unwrap();
        let text = String::from_utf8(m.body[4..].to_vec()).unwrap();
        assert!(m.i32(0) == 11 && text.starts_with("r=abcd") && text.ends_with(",i=4096"), "{text}");
        let nonce = text.split(',').next().unwrap();
        let proof = format!("c=biws,{nonce},p={}=", "A".repeat(43));
        c.send(&[packed(Some(b'p'), proof.as_bytes())]);
        let m = c.message().unwrap();
        assert_eq!(m.field('C').as_deref(), Some("28P01"));
        assert_eq!(m.field('M').unwrap(), format!("password authentication failed for user \"{role}\""));
        assert!(c.message().is_none());
    }
    // Without a proof nothing else is taken.
    let mut c = served.connect();
    c.startup(3 << 16, &[("user", "postgres")]);
    c.message().unwrap();
    c.send(&[query("SELECT 1")]);
    assert_eq!(c.message().unwrap().field('C').as_deref(), Some("08P01"));
    assert!(c.message().is_none());

    let served = serve(|o| o.connections = 2);
    let two = (served.client(), served.client());
    let mut c = served.connect();
    c.startup(3 << 16, &[("user", "postgres")]);
    assert_eq!(c.until_closed().last().unwrap().field('C').as_deref(), Some("53300"));
    drop(two);
    let served = serve(|_| {});
    for (role, database, state) in [("nobody", "postgres", "28000"), ("postgres", "other", "3D000")] {
        let mut c = served.connect();
        c.startup(3 << 16, &[("user", role), ("database", database)]);
        assert_eq!(c.until_closed().last().unwrap().field('C').as_deref(), Some(state));
    }
    // A later minor version is negotiated.
    let mut c = served.connect();
    c.startup(3 << 16 | 9, &[("user", "postgres"), ("_pq_.command", "x")]);
    let m = c.message().unwrap();
    assert_eq!((m.kind, m.i32(0), m.i32(4), &m.body[8..]), ('v', 3 << 16 | 2, 1, &b"_pq_.command\0"[..]));
    assert_eq!(c.until_ready().last().unwrap().kind, 'Z');
    let mut c = served.connect();
    c.startup(3 << 16 | 1, &[("user", "postgres")]);
    let m = c.message().unwrap();
    assert_eq!((m.kind, m.i32(0), m.i32(4)), ('v', 3 << 16, 0));
    let key = |c: &mut Client| c.until_ready().into_iter().find(|m| m.kind == 'K').unwrap().body;
    assert_eq!(key(&mut c).len(), 4 + 4);
    // 3.2 has longer keys, which cancel.
    let mut c = served.connect();
    c.startup(3 << 16 | 2, &[("user", "postgres")]);
    let (key, port) = (key(&mut c), served.port);
    assert_eq!(key.len(), 4 + 32);
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(&packed(None, &[&80877102u32.to_be_bytes()[..], &key].concat())).unwrap();
    });
    assert_eq!(c.query("SELECT pg_sleep(20)"), "E(57014) Z(I)");
}

#[test]
fn simple_queries() {
    let mut c = serve(|_| {}).client_of();
    assert_eq!(c.query("SELECT 1 AS a, NULL AS b, 'x' AS c"), "T(a,b,c) D(1,NULL,x) C(SELECT 1) Z(I)");
    assert_eq!(c.query(""), "I Z(I)");
    assert_eq!(c.query(" ; -- nothing\n"), "I Z(I)");
    assert_eq!(c.query("CREATE TABLE t (a integer PRIMARY KEY, b text)"), "C(CREATE TABLE) Z(I)");
    assert_eq!(c.query("INSERT INTO t VALUES (1, 'one'), (2, NULL)"), "C(INSERT 0 2) Z(I)");
    assert_eq!(c.query("UPDATE t SET b = 'two' WHERE a = 2 RETURNING *"), "T(a,b) D(2,two) C(UPDATE 1) Z(I)");
    assert_eq!(c.query("SELECT * FROM t WHERE false"), "T(a,b) C(SELECT 0) Z(I)");
    assert_eq!(c.query("SELECT FROM t"), "T() D() D() C(SELECT 2) Z(I)");
    // Blocks.
    assert_eq!(c.query("BEGIN"), "C(BEGIN) Z(T)");
    assert_eq!(c.query("INSERT INTO t VALUES (1)"), "E(23505) Z(E)");
    assert_eq!(c.query("SELECT 1"), "E(25P02) Z(E)");
    assert_eq!(c.query("COMMIT"), "C(ROLLBACK) Z(I)");
    assert_eq!(c.query("COMMIT"), "N(25P01) C(COMMIT) Z(I)");
    // Several statements are one transaction, unless they say otherwise.
    assert_eq!(
        c.query("INSERT INTO t VALUES (3); INSERT INTO t VALUES (1); SELECT 1"),
        "C(INSERT 0 1) E(23505) Z(I)"
    );
    assert_eq!(c.query("SELECT count(*) FROM t"), "T(count) D(2) C(SELECT 1) Z(I)");
    assert_eq!(
        c.query(
            "INSERT INTO t VALUES (3); BEGIN; INSERT INTO t VALUES (4); ROLLBACK; INSERT INTO t VALUES (5)"
        ),
        "C(INSERT 0 1) C(BEGIN) C(INSERT 0 1) C(ROLLBACK) C(INSERT 0 1) Z(I)"
    );
    assert_eq!(
        c.query("INSERT INTO t VALUES (3); COMMIT; INSERT INTO t VALUES (4); INSERT INTO t VALUES (1)"),
        "C(INSERT 0 1) N(25P01) C(COMMIT) C(INSERT 0 1) E(23505) Z(I)"
    );
    assert_eq!(
        c.query("SELECT string_agg(a::text, ',' ORDER BY a) AS s FROM t"),
        "T(s) D(1,2,3,5) C(SELECT 1) Z(I)"
    );
    assert_eq!(
        c.query("SELECT 1; BEGIN; SELECT 2"),
        "T(?column?) D(1) C(SELECT 1) C(BEGIN) T(?column?) D(2) C(SELECT 1) Z(T)"
    );
    assert_eq!(c.query("ROLLBACK; SAVEPOINT s; SELECT 1"), "C(ROLLBACK) E(25P01) Z(I)");
    // A text that is wrong somewhere is not run at all.
    assert_eq!(c.query("DELETE FROM t; COMMIT; SELEC 1"), "E(42601) Z(I)");
    // Positions count characters of the whole text.
    let all = c.ask(&[query("SELECT 'é'; -- a\n SELECT nothing")]);
    let e = all.iter().find(|m| m.kind == 'E').unwrap();
    assert_eq!((e.field('C').as_deref(), e.field('P').as_deref()), (Some("42703"), Some("26")));
    assert_eq!(e.field('M').as_deref(), Some("column \"nothing\" does not exist"));
    assert_eq!((e.field('S').as_deref(), e.field('V').as_deref()), (Some("ERROR"), Some("ERROR")));
    assert_eq!(c.query("DROP TABLE IF EXISTS nothing"), "N(00000) C(DROP TABLE) Z(I)");
    // What the client is told of, when it changes.
    assert_eq!(c.query("SET TimeZone = 'Europe/Berlin'"), "C(SET) S Z(I)");
    assert_eq!(c.query("SET TimeZone = 'Europe/Berlin'"), "C(SET) Z(I)");
    assert_eq!(c.query("BEGIN; SET application_name = 'x'"), "C(BEGIN) C(SET) S Z(T)");
    assert_eq!(c.query("ROLLBACK"), "C(ROLLBACK) S Z(I)");
}

/// Schema, table, column, data type and constraint, for programs: `-` where an error has none.
#[test]
fn errors_name_what_they_are_about() {
    let mut c = serve(|_| {}).client_of();
    c.query(
        "CREATE SCHEMA s;
         CREATE TABLE s.p (a integer PRIMARY KEY, b text NOT NULL, c integer CONSTRAINT pos CHECK (c > 0),
             EXCLUDE (c WITH =));
         CREATE TABLE s.f (x integer CONSTRAINT points REFERENCES s.p, y integer);
         CREATE DOMAIN s.d AS integer NOT NULL CONSTRAINT ten CHECK (VALUE < 10);
         CREATE TABLE s.e (d s.d);
         INSERT INTO s.p VALUES (1, 'x', 1); INSERT INTO s.f VALUES (1, NULL); INSERT INTO s.e VALUES (7)",
    );
    for (text, wanted) in [
        ("INSERT INTO s.p VALUES (1, 'x', 2)", "23505 s p - - p_pkey"),
        ("INSERT INTO s.p VALUES (2, NULL, 2)", "23502 s p b - -"),
        ("INSERT INTO s.p VALUES (2, 'x', 0)", "23514 s p - - pos"),
        ("INSERT INTO s.p VALUES (2, 'x', 1)", "23P01 s p - - p_c_excl"),
        ("INSERT INTO s.f VALUES (9)", "23503 s f - - points"),
        ("DELETE FROM s.p", "23503 s f - - points"),
        ("SELECT 11::s.d", "23514 s - - d ten"),
        ("INSERT INTO s.e VALUES (NULL)", "23502 s - - d -"),
        ("ALTER TABLE s.f ADD CONSTRAINT five CHECK (x > 5)", "23514 s f - - five"),
        ("ALTER TABLE s.f ALTER y SET NOT NULL", "23502 s f y - -"),
        ("INSERT INTO s.f VALUES (1); CREATE UNIQUE INDEX one ON s.f (x)", "23505 s f - - one"),
        ("ALTER DOMAIN s.d ADD CONSTRAINT five CHECK (VALUE < 5)", "23514 s e d - -"),
        ("SELECT 1/0", "22012 - - - - -"),
    ] {
        let all = c.ask(&[query(text)]);
        let e = all.iter().find(|m| m.kind == 'E').unwrap_or_else(|| panic!("{text}: {all:?}"));
        let fields = ['C', 's', 't', 'c', 'd', 'n'].map(|code| e.field(code).unwrap_or("-".into()));
        assert_eq!(fields.join(" "), wanted, "{text}");
    }
}

/// A result's columns that are a table's or a view's say which.
#[test]
fn columns_say_where_they_come_from() {
    let mut c = serve(|_| {}).client_of();
    c.query("CREATE TABLE t (a integer, b text, c integer); CREATE VIEW v AS SELECT c, b FROM t");
    let mut oid = |name: &str| {
        let all = c.ask(&[query(&format!("SELECT '{name}'::regclass::oid"))]);
        let value = all.iter().find(|m| m.kind == 'D').unwrap().values()[0].clone().unwrap();
        String::from_utf8(value).unwrap().parse::<i32>().unwrap()
    };
    let (t, v) = (oid("t"), oid("v"));
    let none = (0, 0);
    for (text, wanted) in [
        ("SELECT b, a, a + 1, 'x' FROM t", &[(t, 2), (t, 1), none, none][..]),
        ("SELECT * FROM (SELECT c, a FROM t ORDER BY b) x", &[(t, 3), (t, 1)]),
        ("WITH w AS (SELECT c FROM t) SELECT c, count(*) FROM w GROUP BY c", &[(t, 3), none]),
        ("SELECT x.b, y.a FROM t x LEFT JOIN t y USING (a)", &[(t, 2), (t, 1)]),
        ("SELECT b, c FROM v", &[(v, 2), (v, 1)]),
        ("SELECT a FROM t UNION SELECT a FROM t", &[none]),
        ("INSERT INTO t VALUES (1) RETURNING b, a, 3", &[(t, 2), (t, 1), none]),
        ("UPDATE t SET a = 2 RETURNING c", &[(t, 3)]),
        ("WITH w AS (SELECT 1) DELETE FROM t RETURNING t.b", &[(t, 2)]),
    ] {
        let all = c.ask(&[query(text)]);
        let described = all.iter().find(|m| m.kind == 'T').unwrap_or_else(|| panic!("{text}: {all:?}"));
        assert_eq!(described.origins(), wanted, "{text}");
        let all = c.ask(&[parse("", text, &[]), describe('S', ""), sync()]);
        assert_eq!(all.iter().find(|m| m.kind == 'T').unwrap().origins(), wanted, "{text}");
    }
}

/// LISTEN and NOTIFY (session/notify): who is told what, when, and in which order.
#[test]
fn notifications() {
    let served = serve(|_| {});
    let (mut a, mut b) = (served.client(), served.client());
    let told = |m: &Message| {
        let text = String::from_utf8_lossy(&m.body[4..]).into_owned();
        text.trim_end_matches('\0').replace('\0', " ")
    };
    let next = |c: &mut Client| {
        let m = c.message().unwrap();
        assert_eq!(m.kind, 'A', "{m}");
        told(&m)
    };
    assert_eq!(a.query("LISTEN one"), "C(LISTEN) Z(I)");
    // An idle client is told at once.
    assert_eq!(b.query("NOTIFY one, 'x'"), "C(NOTIFY) Z(I)");
    assert_eq!(next(&mut a), "one x");
    assert_eq!(
        b.query("SELECT pg_notify('one', 'y'), pg_notify('two', 'y')"),
        "T(pg_notify,pg_notify) D(,) C(SELECT 1) Z(I)"
    );
    assert_eq!(next(&mut a), "one y");
    // Of a transaction all at its end, each once, and nothing of what was rolled back.
    b.query("BEGIN; NOTIFY one, 'p'; NOTIFY one, 'q'; SAVEPOINT s; NOTIFY one, 'r'; ROLLBACK TO s; NOTIFY one, 'p'; NOTIFY one");
    assert_eq!(a.query("SELECT 1"), "T(?column?) D(1) C(SELECT 1) Z(I)");
    b.query("COMMIT");
    assert_eq!([next(&mut a), next(&mut a), next(&mut a)], ["one p", "one q", "one"]);
    b.query("BEGIN; NOTIFY one, 'lost'; ROLLBACK");
    assert_eq!(b.query("BEGIN; NOTIFY one, 'lost'; SELECT 1/0"), "C(BEGIN) C(NOTIFY) E(22012) Z(E)");
    b.query("COMMIT");
    // In a transaction a client is told at its end.
    a.query("BEGIN");
    b.query("NOTIFY one, 'late'");
    assert_eq!(a.query("SELECT 1"), "T(?column?) D(1) C(SELECT 1) Z(T)");
    assert_eq!(a.query("COMMIT"), "C(COMMIT) A Z(I)");
    // What the transaction says of listening is done at its end, in its order; its own notes reach it.
    assert_eq!(
        a.query("BEGIN; LISTEN two; NOTIFY two, 'me'; UNLISTEN one; COMMIT"),
        "C(BEGIN) C(LISTEN) C(NOTIFY) C(UNLISTEN) C(COMMIT) A Z(I)"
    );
    assert_eq!(a.query("BEGIN; LISTEN three; ROLLBACK"), "C(BEGIN) C(LISTEN) C(ROLLBACK) Z(I)");
    assert_eq!(a.query("SELECT pg_listening_channels()"), "T(pg_listening_channels) D(two) C(SELECT 1) Z(I)");
    assert_eq!(a.query("SELECT * FROM pg_listening_channels() AS c"), "T(c) D(two) C(SELECT 1) Z(I)");
    b.query("NOTIFY one, 'nobody'; NOTIFY three, 'nobody'");
    assert_eq!(
        a.query("SELECT pg_notification_queue_usage()"),
        "T(pg_notification_queue_usage) D(0) C(SELECT 1) Z(I)"
    );
    assert_eq!(a.query("DISCARD ALL"), "C(DISCARD ALL) Z(I)");
    assert_eq!(a.query("SELECT pg_listening_channels()"), "T(pg_listening_channels) C(SELECT 0) Z(I)");
    // What cannot be told.
    assert_eq!(a.query("SELECT pg_notify('', 'x')"), "E(22023) Z(I)");
    assert_eq!(a.query("SELECT pg_notify(NULL, 'x')"), "E(22023) Z(I)");
    assert_eq!(a.query("SELECT pg_notify(repeat('c', 64), 'x')"), "E(22023) Z(I)");
    assert_eq!(a.query("SELECT pg_notify('c', repeat('x', 8000))"), "E(22023) Z(I)");
    // Behind what their transactions wrote, which is durable then, and in their order.
    b.query("CREATE TABLE n (a integer)");
    a.query("LISTEN four");
    for i in 0..200 {
        b.query(&format!("BEGIN; INSERT INTO n VALUES ({i}); NOTIFY four, '{i}'; COMMIT"));
    }
    for i in 0..200 {
        assert_eq!(next(&mut a), format!("four {i}"))
    }
    assert_eq!(a.query("SELECT count(*) FROM n"), "T(count) D(200) C(SELECT 1) Z(I)");
}

/// Clients' portals and cursors of statements are the same, by their names.
#[test]
fn portals_are_cursors() {
    let mut c = serve(|_| {}).client_of();
    c.query("BEGIN");
    let series = parse("", "SELECT generate_series(1, 9) AS g", &[]);
    assert_eq!(
        c.told(&[series.clone(), bind("p", "", &[]), execute("p", 2), sync()]),
        "1 2 D(1) D(2) s Z(T)"
    );
    assert_eq!(c.query("MOVE FORWARD 3 p"), "C(MOVE 3) Z(T)");
    assert_eq!(c.query("FETCH 1 FROM p"), "T(g) D(6) C(FETCH 1) Z(T)");
    assert_eq!(c.told(&[execute("p", 0), sync()]), "D(7) D(8) D(9) C(SELECT 3) Z(T)");
    assert_eq!(c.told(&[execute("p", 0), sync()]), "C(SELECT 0) Z(T)");
    assert_eq!(c.told(&[series.clone(), bind("p", "", &[]), sync()]), "1 E(42P03) Z(E)");
    c.query("ROLLBACK; BEGIN");
    // One that was declared is described, read and closed as a portal.
    c.query("DECLARE d CURSOR FOR SELECT generate_series(1, 5) AS g");
    assert_eq!(c.told(&[describe('P', "d"), execute("d", 2), sync()]), "T(g) D(1) D(2) s Z(T)");
    assert_eq!(c.told(&[execute("d", 0), close('P', "d"), sync()]), "D(3) D(4) D(5) C(SELECT 3) 3 Z(T)");
    assert_eq!(c.query("FETCH d"), "E(34000) Z(E)");
    c.query("ROLLBACK; BEGIN");
    c.told(&[series.clone(), bind("q", "", &[]), sync()]);
    assert_eq!(c.query("SELECT name FROM pg_cursors"), "T(name) D(q) C(SELECT 1) Z(T)");
    assert_eq!(c.query("CLOSE q"), "C(CLOSE CURSOR) Z(T)");
    assert_eq!(c.told(&[series, bind("q", "", &[]), execute("q", 1), sync()]), "1 2 D(1) s Z(T)");
    assert_eq!(c.query("CLOSE q"), "C(CLOSE CURSOR) Z(T)");
    assert_eq!(c.told(&[execute("q", 1), sync()]), "E(34000) Z(E)");
}

/// A wish to end a statement is none to end what follows it.
#[test]
fn a_cancel_ends_no_later_message() {
    let served = serve(|_| {});
    let mut c = served.client();
    for _ in 0..5 {
        let key = c.key.clone();
        let port = served.port;
        let teller = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.write_all(&packed(None, &[&80877102u32.to_be_bytes()[..], &key].concat())).unwrap();
        });
        assert_eq!(c.query("SELECT pg_sleep(20)"), "E(57014) Z(I)");
        teller.join().unwrap();
        assert_eq!(
            c.query("SELECT 1; SELECT 2"),
            "T(?column?) D(1) C(SELECT 1) T(?column?) D(2) C(SELECT 1) Z(I)"
        );
        // Its conversion of an argument and its planning look at the wish.
        let numbers = format!("{{{}}}", vec!["1"; 1000].join(","));
        let all = [
            parse("", "SELECT cardinality($1::integer[])", &[]),
            bind("", "", &[&numbers]),
            execute("", 0),
            sync(),
        ];
        assert_eq!(c.told(&all), "1 2 D(1000) C(SELECT 1) Z(I)");
    }
}

#[test]
fn extended_queries() {
    let mut c = serve(|_| {}).client_of();
    c.query("CREATE TABLE t (a integer PRIMARY KEY, b text)");
    // Everything at once, as drivers do.
    let insert = parse("", "INSERT INTO t VALUES ($1, $2)", &[]);
    assert_eq!(
        c.told(&[insert, bind("", "", &["1", "one"]), describe('P', ""), execute("", 0), sync()]),
        "1 2 n C(INSERT 0 1) Z(I)"
    );
    // A named statement, described.
    let all = c.ask(&[parse("s", "SELECT b, a FROM t WHERE a = $1", &[]), describe('S', "s"), sync()]);
    assert_eq!(all.iter().map(|m| m.kind).collect::<String>(), "1tTZ");
    assert_eq!((all[1].i16(0), all[1].i32(2)), (1, 23));
    assert_eq!(all[2].columns(), [("b".to_string(), 25, 0), ("a".to_string(), 23, 0)]);
    assert_eq!(c.told(&[bind("", "s", &["1"]), execute("", 0), sync()]), "2 D(one,1) C(SELECT 1) Z(I)");
    // In binary: one form for all, one each.
    let one = 1i32.to_be_bytes();
    let binary = bind_as("", "s", &[1], &[Some(&one)], &[0, 1]);
    let all = c.ask(&[binary, describe('P', ""), execute("", 0), sync()]);
    assert_eq!(all[1].columns(), [("b".to_string(), 25, 0), ("a".to_string(), 23, 1)]);
    assert_eq!(all[2].values(), [Some(b"one".to_vec()), Some(one.to_vec())]);
    // Types that are given.
    let all = c.ask(&[parse("", "SELECT $1, $2", &[20, 0]), describe('S', ""), sync()]);
    assert_eq!((all[1].i32(2), all[1].i32(6)), (20, 25));
    // Statements without columns, those with columns but no plan, and none.
    assert_eq!(c.told(&[parse("", "SHOW TimeZone", &[]), describe('S', ""), sync()]), "1 t T(TimeZone) Z(I)");
    assert_eq!(c.told(&[bind("", "", &[]), execute("", 0), sync()]), "2 D(UTC) C(SHOW) Z(I)");
    assert_eq!(c.told(&[parse("", "BEGIN", &[]), describe('S', ""), sync()]), "1 t n Z(I)");
    assert_eq!(c.told(&[parse("", "", &[]), bind("", "", &[]), execute("", 0), sync()]), "1 2 I Z(I)");
    // Errors skip to Sync.
    assert_eq!(
        c.told(&[parse("", "SELEC", &[]), bind("", "", &[]), execute("", 0), sync()]),
        "E(42601) Z(I)"
    );
    assert_eq!(c.told(&[bind("", "none", &[]), describe('S', "s"), sync()]), "E(26000) Z(I)");
    assert_eq!(c.told(&[execute("none", 0), query("SELECT 1"), sync()]), "E(34000) Z(I)");
    assert_eq!(c.told(&[describe('P', "none"), sync()]), "E(34000) Z(I)");
    assert_eq!(c.told(&[bind("", "s", &[]), sync()]), "E(08P01) Z(I)");
    assert_eq!(c.told(&[bind("", "s", &["x"]), execute("", 0), sync()]), "E(22P02) Z(I)");
    assert_eq!(c.told(&[bind_as("", "s", &[1], &[Some(b"abc")], &[]), sync()]), "E(08P01) Z(I)");
    assert_eq!(c.told(&[bind_as("", "s", &[1], &[Some(b"abcde")], &[]), sync()]), "E(22P03) Z(I)");
    assert_eq!(c.told(&[bind_as("", "s", &[2], &[Some(b"1")], &[]), sync()]), "E(22023) Z(I)");
    assert_eq!(c.told(&[bind_as("", "s", &[], &[Some(b"1")], &[0, 0, 0]), sync()]), "E(08P01) Z(I)");
    assert_eq!(c.told(&[bind_as("", "s", &[0, 0], &[Some(b"1")], &[]), sync()]), "E(08P01) Z(I)");
    assert_eq!(c.told(&[parse("s", "SELECT 1", &[]), sync()]), "E(42P05) Z(I)");
    assert_eq!(c.told(&[parse("", "SELECT 1; SELECT 2", &[]), sync()]), "E(42601) Z(I)");
    assert_eq!(c.told(&[parse("", "SELECT $1", &[99999]), sync()]), "E(42704) Z(I)");
    let text = "  SELECT $1::integer + nothing";
    let all = c.ask(&[parse("", text, &[]), sync()]);
    assert_eq!(all[0].field('P').as_deref(), Some("24"));
    // Names are the session's.
    assert_eq!(c.query("EXECUTE s(1)"), "T(b,a) D(one,1) C(SELECT 1) Z(I)");
    assert_eq!(
        c.query("SELECT name, from_sql, statement FROM pg_prepared_statements"),
        "T(name,from_sql,statement) D(s,f,SELECT b, a FROM t WHERE a = $1) C(SELECT 1) Z(I)"
    );
    assert_eq!(c.query("DEALLOCATE s"), "C(DEALLOCATE) Z(I)");
    assert_eq!(c.told(&[bind("", "s", &["1"]), sync()]), "E(26000) Z(I)");
    assert_eq!(c.query("PREPARE s(int) AS SELECT a FROM t WHERE a = $1"), "C(PREPARE) Z(I)");
    assert_eq!(c.told(&[bind("", "s", &["1"]), execute("", 0), sync()]), "2 D(1) C(SELECT 1) Z(I)");
    assert_eq!(c.query("DISCARD ALL"), "C(DISCARD ALL) Z(I)");
    assert_eq!(
        c.told(&[parse("s", "SELECT $1 + 1", &[]), bind("", "s", &["1"]), execute("", 0), sync()]),
        "1 2 D(2) C(SELECT 1) Z(I)"
    );
    assert_eq!(c.told(&[parse("", "SELECT FROM t", &[]), describe('S', ""), sync()]), "1 t T() Z(I)");
    // Closing what there is not is none.
    assert_eq!(c.told(&[close('S', "s"), close('P', "x"), sync()]), "3 3 Z(I)");
    assert_eq!(c.told(&[bind("", "s", &["1"]), sync()]), "E(26000) Z(I)");
    assert_eq!(c.told(&[sync(), sync()]), "Z(I)");
    assert_eq!(c.until_ready().len(), 1);
    // A message that is wrong inside; one of a kind that is not here.
    assert_eq!(c.told(&[packed(Some(b'D'), b"Z"), sync()]), "E(08P01) Z(I)");
    assert_eq!(c.told(&[packed(Some(b'F'), b"\0\0\0\0")]), "E(0A000) Z(I)");
    assert_eq!(c.told(&[packed(Some(b'Q'), b"SELECT '\xff'\0")]), "E(22021) Z(I)");
}

/// Registered queries are prepared statements that nobody has prepared.
#[test]
fn registered_queries_need_no_parse() {
    let served = serve(|_| {});
    let mut c = served.client();
    c.query(
        "CREATE TABLE t (id bigint PRIMARY KEY, v text); INSERT INTO t VALUES (7, 'seven'), (8, 'eight');
         CREATE FUNCTION find(bigint) RETURNS SETOF t LANGUAGE sql AS 'SELECT * FROM t WHERE id = $1';
         CREATE FUNCTION put(bigint, text) RETURNS void LANGUAGE sql AS 'INSERT INTO t VALUES ($1, $2)';
         CREATE FUNCTION every() RETURNS SETOF bigint LANGUAGE sql AS 'SELECT id FROM t ORDER BY id';
         CREATE FUNCTION two(int) RETURNS text LANGUAGE sql AS $$ SELECT 'int' $$;
         CREATE FUNCTION two(text, int4) RETURNS text LANGUAGE sql AS $$ SELECT 'both' $$;
         CREATE SCHEMA s; CREATE FUNCTION s.\"Odd (\"(int) RETURNS int LANGUAGE sql AS 'SELECT $1 + 1'",
    );
    let run = |name: &str, values: &[&str]| [bind("", name, values), execute("", 0)].concat();
    let all = c.ask(&[describe('S', "ondol.find"), sync()]);
    assert_eq!((all[0].kind, all[0].i16(0), all[0].i32(2)), ('t', 1, 20));
    assert_eq!(all[1].columns(), [("id".to_string(), 20, 0), ("v".to_string(), 25, 0)]);
    let one = "2 D(7,seven) C(SELECT 1) Z(I)";
    assert_eq!(c.told(&[run("ondol.find", &["7"]), sync()]), one);
    assert_eq!(c.told(&[describe('S', "ondol.put"), sync()]), "t n Z(I)");
    assert_eq!(c.told(&[run("ondol.put", &["9", "nine"]), sync()]), "2 C(INSERT 0 1) Z(I)");
    assert_eq!(c.told(&[run("ondol.put", &["9", "nine"]), sync()]), "2 E(23505) Z(I)");
    let seven = 7i64.to_be_bytes();
    let all = c.ask(&[bind_as("", "ondol.find", &[1], &[Some(&seven)], &[1]), execute("", 0), sync()]);
    assert_eq!(all[1].values(), [Some(seven.to_vec()), Some(b"seven".to_vec())]);
    // Several in a pipeline, and one that is none between them.
    let pipeline = [run("ondol.find", &["7"]), run("ondol.find", &["8"]), run("ondol.every", &[])];
    let told = "2 D(7,seven) C(SELECT 1) 2 D(8,eight) C(SELECT 1) 2 D(7) D(8) D(9) C(SELECT 3) Z(I)";
    assert_eq!(c.told(&[pipeline.concat(), sync()]), told);
    c.send(&[
        run("ondol.find", &["7"]),
        sync(),
        run("ondol.find", &["x"]),
        sync(),
        run("ondol.find", &[]),
        sync(),
    ]);
    let told: Vec<String> = (0..3).flat_map(|_| c.until_ready()).map(|m| m.to_string()).collect();
    assert_eq!(told.join(" "), format!("{one} E(22P02) Z(I) E(08P01) Z(I)"));
    // In pieces: as an unnamed portal, and as a named one, which is a cursor.
    let pieces = [bind("", "ondol.every", &[]), execute("", 2), execute("", 2), execute("", 2), sync()];
    assert_eq!(c.told(&pieces), "2 D(7) D(8) s D(9) C(SELECT 1) C(SELECT 0) Z(I)");
    assert_eq!(c.query("BEGIN"), "C(BEGIN) Z(T)");
    assert_eq!(c.told(&[bind("p", "ondol.every", &[]), execute("p", 1), sync()]), "2 D(7) s Z(T)");
    assert_eq!(c.query("FETCH p"), "T(id) D(8) C(FETCH 1) Z(T)");
    assert_eq!(
        c.told(&[bind("q", "ondol.put", &["1", "x"]), execute("q", 0), sync()]),
        "2 C(INSERT 0 1) Z(T)"
    );
    assert_eq!(c.told(&[bind("", "ondol.none", &[]), sync()]), "E(26000) Z(E)");
    assert_eq!(c.told(&[bind("", "ondol.every", &[]), sync()]), "E(25P02) Z(E)");
    assert_eq!(c.told(&[bind("", "ondol.two(int)", &["1"]), sync()]), "E(25P02) Z(E)");
    assert_eq!(c.query("ROLLBACK"), "C(ROLLBACK) Z(I)");
    // Names: as SQL reads them, with types where several have one.
    for (name, values, wanted) in [
        ("ondol.two(integer)", &["1"][..], "2 D(int) C(SELECT 1) Z(I)"),
        ("ondol.Two( text , int4 )", &["1", "2"], "2 D(both) C(SELECT 1) Z(I)"),
        ("ondol.public.find(bigint)", &["7"], one),
        ("ondol.s.\"Odd (\"", &["7"], "2 D(8) C(SELECT 1) Z(I)"),
        ("ondol.two", &["1"], "E(42725) Z(I)"),
        ("ondol.two(bigint)", &["1"], "E(26000) Z(I)"),
        ("ondol.two(nothing)", &["1"], "E(42704) Z(I)"),
        ("ondol.s.find", &["1"], "E(26000) Z(I)"),
        ("ondol.lower", &["1"], "E(26000) Z(I)"),
        ("ondol.", &[], "E(26000) Z(I)"),
        ("ondol.find x", &["7"], "E(26000) Z(I)"),
        ("find", &["7"], "E(26000) Z(I)"),
    ] {
        assert_eq!(c.told(&[run(name, values), sync()]), wanted, "{name}")
    }
    // Nobody drops them; a statement of the client's own hides one of the same name until it goes.
    for text in ["DISCARD ALL", "DEALLOCATE ALL"] {
        assert_eq!(c.query(text), format!("C({text}) Z(I)"));
        assert_eq!(
            c.told(&[close('S', "ondol.find"), run("ondol.find", &["7"]), sync()]),
            format!("3 {one}")
        );
    }
    assert_eq!(c.query("DEALLOCATE \"ondol.find\""), "E(26000) Z(I)");
    let own = parse("ondol.find", "SELECT 'own'", &[]);
    assert_eq!(c.told(&[own, run("ondol.find", &[]), sync()]), "1 2 D(own) C(SELECT 1) Z(I)");
    assert_eq!(c.told(&[close('S', "ondol.find"), run("ondol.find", &["7"]), sync()]), format!("3 {one}"));
    // What others define, and what an own transaction does.
    let mut other = served.client();
    other.query(
        "DROP FUNCTION put; CREATE OR REPLACE FUNCTION find(bigint) RETURNS SETOF t LANGUAGE sql
                 AS 'SELECT * FROM t WHERE id = $1 + 1'",
    );
    assert_eq!(c.told(&[run("ondol.find", &["6"]), sync()]), one);
    assert_eq!(c.told(&[run("ondol.put", &["6", ""]), sync()]), "E(26000) Z(I)");
    c.query("BEGIN; CREATE FUNCTION fresh() RETURNS int LANGUAGE sql AS 'SELECT 5'");
    assert_eq!(c.told(&[run("ondol.fresh", &[]), sync()]), "2 D(5) C(SELECT 1) Z(T)");
    assert_eq!(other.told(&[run("ondol.fresh", &[]), sync()]), "E(26000) Z(I)");
    c.query("ROLLBACK; SET search_path = s");
    assert_eq!(c.told(&[run("ondol.fresh", &[]), sync()]), "E(26000) Z(I)");
    assert_eq!(c.told(&[run("ondol.find", &["6"]), sync()]), "E(26000) Z(I)");
    assert_eq!(c.told(&[run("ondol.\"Odd (\"", &["6"]), sync()]), "2 D(7) C(SELECT 1) Z(I)");
    // Whoever holds EXECUTE of a query, and nothing else, runs it with its owner's rights.
    other.query(
        "CREATE ROLE ann LOGIN; REVOKE EXECUTE ON FUNCTION find, every FROM PUBLIC;
                 GRANT EXECUTE ON FUNCTION find TO ann",
    );
    let mut ann = served.connect();
    ann.start(&[("user", "ann"), ("database", "postgres")]);
    assert_eq!(ann.query("SELECT * FROM t"), "E(42501) Z(I)");
    let found = "2 D(7,seven) C(SELECT 1)";
    assert_eq!(ann.told(&[run("ondol.find", &["6"]), sync()]), format!("{found} Z(I)"));
    let both = [run("ondol.find", &["6"]), run("ondol.find", &["6"]), sync()];
    assert_eq!(ann.told(&both), format!("{found} {found} Z(I)"));
    assert_eq!(ann.told(&[describe('S', "ondol.every"), sync()]), "E(42501) Z(I)");
    assert_eq!(ann.told(&[run("ondol.s.\"Odd (\"", &["6"]), sync()]), "E(42501) Z(I)");
    other.query("REVOKE EXECUTE ON FUNCTION find FROM ann");
    assert_eq!(ann.told(&[run("ondol.find", &["6"]), sync()]), "E(42501) Z(I)");
    assert_eq!(c.query("SET search_path = public; SET ROLE ann"), "C(SET) C(SET) Z(I)");
    assert_eq!(c.told(&[run("ondol.find", &["6"]), sync()]), "E(42501) Z(I)");
    assert_eq!(c.query("RESET ROLE"), "C(RESET) Z(I)");
    assert_eq!(c.told(&[run("ondol.find", &["6"]), sync()]), one);
}

#[test]
fn pipelines_are_transactions() {
    let served = serve(|_| {});
    let mut c = served.client();
    c.query("CREATE TABLE t (a integer PRIMARY KEY)");
    let insert = |v: &str| [bind("", "i", &[v]), execute("", 0)].concat();
    c.told(&[parse("i", "INSERT INTO t VALUES ($1)", &[]), sync()]);
    // All of them, or none.
    assert_eq!(c.told(&[insert("1"), insert("2"), sync()]), "2 C(INSERT 0 1) 2 C(INSERT 0 1) Z(I)");
    assert_eq!(c.told(&[insert("3"), insert("1"), insert("4"), sync()]), "2 C(INSERT 0 1) 2 E(23505) Z(I)");
    assert_eq!(c.query("SELECT count(*) FROM t"), "T(count) D(2) C(SELECT 1) Z(I)");
    // Each by itself where a Sync is between.
    c.send(&[insert("3"), sync(), insert("1"), sync(), insert("4"), sync()]);
    let told: Vec<String> = (0..3).flat_map(|_| c.until_ready()).map(|m| m.to_string()).collect();
    assert_eq!(told.join(" "), "2 C(INSERT 0 1) Z(I) 2 E(23505) Z(I) 2 C(INSERT 0 1) Z(I)");
    // In a block the error waits for its end.
    let begin = [parse("", "BEGIN", &[]), bind("", "", &[]), execute("", 0)].concat();
    assert_eq!(c.told(&[begin, insert("1"), sync()]), "1 2 C(BEGIN) 2 E(23505) Z(E)");
    assert_eq!(c.told(&[insert("9"), sync()]), "E(25P02) Z(E)");
    let rollback = [parse("", "ROLLBACK", &[]), bind("", "", &[]), execute("", 0)].concat();
    assert_eq!(c.told(&[rollback, sync()]), "1 2 C(ROLLBACK) Z(I)");
    // A message that arrives in pieces, and a Sync that comes late.
    let all = [insert("10"), sync()].concat();
    for byte in &all[..all.len() - 5] {
        c.stream.write_all(&[*byte]).unwrap();
    }
    std::thread::sleep(Duration::from_millis(30));
    assert_eq!(c.told(&[all[all.len() - 5..].to_vec()]), "2 C(INSERT 0 1) Z(I)");
    assert_eq!(c.query("SELECT max(a) FROM t"), "T(max) D(10) C(SELECT 1) Z(I)");
}

#[test]
fn portals_give_rows_in_pieces() {
    let mut c = serve(|_| {}).client_of();
    let series = parse("", "SELECT n FROM generate_series(1, $1) AS g(n)", &[23]);
    assert_eq!(
        c.told(&[
            series.clone(),
            bind("p", "", &["5"]),
            execute("p", 2),
            execute("p", 2),
            execute("p", 2),
            execute("p", 2),
            sync()
        ]),
        "1 2 D(1) D(2) s D(3) D(4) s D(5) C(SELECT 1) C(SELECT 0) Z(I)"
    );
    // It ends with its transaction.
    assert_eq!(c.told(&[execute("p", 2), sync()]), "E(34000) Z(I)");
    c.query("BEGIN");
    assert_eq!(c.told(&[series, bind("p", "", &["3"]), execute("p", 2), sync()]), "1 2 D(1) D(2) s Z(T)");
    assert_eq!(c.told(&[bind("p", "", &["3"]), sync()]), "E(42P03) Z(E)");
    c.query("ROLLBACK; BEGIN");
    assert_eq!(c.told(&[execute("p", 0), sync()]), "E(34000) Z(E)");
    c.query("ROLLBACK");
    // Of a result that is made as a whole.
    assert_eq!(
        c.told(&[
            parse("", "EXPLAIN SELECT 1", &[]),
            bind("", "", &[]),
            describe('P', ""),
            execute("", 1),
            sync()
        ])
        .split(' ')
        .next()
        .unwrap(),
        "1"
    );
    c.query("CREATE TABLE t (a integer)");
    let insert = parse("", "INSERT INTO t VALUES (1), (2), (3) RETURNING a", &[]);
    assert_eq!(
        c.told(&[insert, bind("", "", &[]), execute("", 2), execute("", 2), sync()]),
        "1 2 D(1) D(2) s D(3) C(INSERT 0 3) Z(I)"
    );
    assert_eq!(c.query("SELECT count(*) FROM t"), "T(count) D(3) C(SELECT 1) Z(I)");
    // A statement that is done is not run again.
    let insert = parse("", "INSERT INTO t VALUES (4)", &[]);
    assert_eq!(
        c.told(&[insert, bind("", "", &[]), execute("", 0), execute("", 0), sync()]),
        "1 2 C(INSERT 0 1) E(55000) Z(I)"
    );
    assert_eq!(c.query("SELECT count(*) FROM t"), "T(count) D(3) C(SELECT 1) Z(I)");
}

#[test]
fn copying() {
    let mut c = serve(|_| {}).client_of();
    c.query("CREATE TABLE t (a integer PRIMARY KEY, b text)");
    let done = packed(Some(b'c'), b"");
    let copy = query("COPY t FROM STDIN");
    // The client waits to be asked.
    c.send(std::slice::from_ref(&copy));
    let m = c.message().unwrap();
    assert_eq!((m.kind, &m.body[..]), ('G', &b"\0\0\x02\0\0\0\0"[..]));
    assert_eq!(c.told(&[data("1\ton"), data("e\n2\t\\N\n"), done.clone()]), "C(COPY 2) Z(I)");
    // Or not; and its data are cut anywhere.
    assert_eq!(
        c.told(&[copy.clone(), data("3\t"), data(""), data("x"), data("\n"), done.clone()]),
        "G C(COPY 1) Z(I)"
    );
    assert_eq!(c.query("COPY t TO STDOUT"), "H d(1\tone) d(2\t\\N) d(3\tx) c C(COPY 3) Z(I)");
    assert_eq!(
        c.query("COPY (SELECT E'a\\nb' AS q) TO STDOUT (FORMAT csv, HEADER)"),
        "H d(q) d(\"a\nb\") c C(COPY 1) Z(I)"
    );
    // Errors, after which what the client still sends is nothing.
    assert_eq!(
        c.told(&[copy.clone(), data("x\ty\n"), data("5\ta\n"), done.clone(), query("SELECT 1")]),
        "G E(22P02) Z(I)"
    );
    assert_eq!(c.until_ready().len(), 4);
    assert_eq!(c.told(&[copy.clone(), data("5\ta\n"), packed(Some(b'f'), b"no more\0")]), "G E(57014) Z(I)");
    assert_eq!(c.told(&[copy.clone(), data("5\ta\n"), query("SELECT 1")]), "G E(08P01) Z(I)");
    assert_eq!(c.query("SELECT count(*) FROM t"), "T(count) D(3) C(SELECT 1) Z(I)");
    // By the extended protocol; a Sync that comes before the data is none.
    let all = [parse("", "COPY t FROM STDIN (FORMAT csv)", &[]), bind("", "", &[]), execute("", 0), sync()];
    assert_eq!(c.told(&[all.concat(), data("6,six\n"), done.clone(), sync()]), "1 2 G C(COPY 1) Z(I)");
    assert_eq!(c.told(&[all.concat(), data("6,six\n"), done.clone(), sync()]), "1 2 G E(23505) Z(I)");
    // In one text with others.
    assert_eq!(
        c.told(&[query("COPY t FROM STDIN; SELECT count(*) FROM t"), data("7\t\n"), done]),
        "G C(COPY 1) T(count) D(5) C(SELECT 1) Z(I)"
    );
    // Out of the middle of it the connection is lost.
    c.send(&[copy, data("8\t\n")]);
    assert_eq!(c.message().unwrap().kind, 'G');
    drop(c)
}

#[test]
fn a_large_result_and_a_large_message() {
    let mut c = serve(|_| {}).client_of();
    let all = c.ask(&[query("SELECT repeat('x', 1000) FROM generate_series(1, 20000)")]);
    assert_eq!(all.len(), 20_003);
    let long = "y".repeat(5_000_000);
    let all = c.ask(&[parse("", "SELECT length($1)", &[25]), bind("", "", &[&long]), execute("", 0), sync()]);
    assert_eq!(all[2].values(), [Some(b"5000000".to_vec())]);
    // One that is longer than any may be.
    let mut head = vec![b'Q'];
    head.extend(0x7fff_ffffu32.to_be_bytes());
    c.send(&[head]);
    let all = c.until_closed();
    assert_eq!((all[0].field('S').as_deref(), all[0].field('C').as_deref()), (Some("FATAL"), Some("08P01")));
    assert!(all[0].field('M').unwrap().contains("expected 4 to"), "{:?}", all[0].field('M'));
}

/// Rows that the scan's workers make into messages are those that the session's thread makes.
#[test]
fn rows_from_workers() {
    let served = serve(|_| {});
    let mut c = served.client();
    c.query(
        "CREATE TABLE t (id integer PRIMARY KEY, small smallint, big bigint, f double precision, r real, exact numeric, money numeric(12, 2), name text, code char(5),
             raw bytea, day date, at timestamp, tz timestamptz, yes boolean, span interval, ids integer[], doc jsonb);
         INSERT INTO t SELECT i, i % 100, i * 3000000000, i / 7.0, i / 3.0, (i * i)::numeric / 1000 - 7, (i % 977)::numeric / 100, CASE i % 5 WHEN 0 THEN NULL ELSE 'né' || i END,
             'c' || i % 1000, decode('00ff', 'hex'), date '1990-01-01' + i % 9999, timestamp '2001-02-03 04:05:06' + i * interval '1 hour', now(), i % 3 = 0,
             i % 50 * interval '1 day', ARRAY[i, NULL], jsonb_build_object('n', i) FROM generate_series(1, 9000) AS g (i)",
    );
    let queries = [
        "SELECT * FROM t",
        "SELECT id, upper(name), money * 2, day FROM t WHERE small < 40",
        "SELECT tz FROM t WHERE big < 0",
    ];
    let set = |c: &mut Client, workers: u32| {
        c.query(&format!(
            "SET max_parallel_workers_per_gather = {workers}; SET min_parallel_table_scan_size = 0"
        ));
    };
    let all = |c: &mut Client, workers: u32| {
        set(c, workers);
        let mut told = vec![];
        for text in queries {
            told.push(c.ask(&[query(text)]));
            for forms in [&[][..], &[0], &[1]] {
                let bind = bind_as("", "", &[], &[], forms);
                told.push(c.ask(&[parse("", text, &[]), bind, describe('P', ""), execute("", 0), sync()]))
            }
        }
        c.query("SET datestyle = 'German'; SET bytea_output = 'escape'; SET extra_float_digits = 0");
        told.push(c.ask(&[query(queries[0])]));
        c.query("RESET ALL");
        told
    };
    let alone = all(&mut c, 0);
    assert!(alone[0].len() > 9000);
    for workers in [1, 3] {
        assert!(all(&mut c, workers) == alone, "{workers} workers");
    }
    // An error in the midst: what it is, and that the session goes on.
    let failing =
        [parse("", "SELECT 1 / (id - 8000) FROM t", &[]), bind("", "", &[]), execute("", 0), sync()];
    let found = c.ask(&failing);
    let e = found.iter().find(|m| m.kind == 'E').expect("an error");
    assert_eq!(e.field('C').as_deref(), Some("22012"));
    assert!(found.iter().any(|m| m.kind == 'D'));
    assert!(c.query("SELECT 1").contains('1'));
}

/// A result that is many times the memory limit, to a client that takes its time: what waits is bounded.
#[test]
fn rows_from_workers_wait_for_the_client() {
    let folder = TempFolder::new().unwrap();
    let database = ondol::OpenOptions::new().memory_limit(96 << 20).open(folder.path().join("db")).unwrap();
    let options =
        ServeOptions { listen: vec!["127.0.0.1:0".into()], trust_loopback: true, ..ServeOptions::default() };
    let server = Server::start(&database, &options).unwrap();
    let mut c = Client::new(server.addresses()[0].port());
    c.start(&[("user", "postgres")]);
    c.query("CREATE TABLE t (id integer, name text); INSERT INTO t SELECT i, 'n' || i FROM generate_series(1, 20000) g (i)");
    c.query("SET max_parallel_workers_per_gather = 2; SET min_parallel_table_scan_size = 0");
    c.send(&[query("SELECT id, repeat(name, 2000) FROM t")]);
    std::thread::sleep(Duration::from_millis(300));
    let (mut rows, mut bytes) = (0, 0);
    loop {
        let m = c.message().expect("a message");
        match m.kind {
            'D' => (rows, bytes) = (rows + 1, bytes + m.body.len()),
            'E' => panic!("{m:?}"),
            'Z' => break,
            _ => {}
        }
    }
    assert_eq!(rows, 20000);
    assert!(bytes > 200 << 20, "{bytes}");
    // Who breaks it off leaves no job behind.
    c.send(&[query("SELECT id, repeat(name, 2000) FROM t")]);
    c.message().expect("a message");
    drop(c);
    let mut other = Client::new(server.addresses()[0].port());
    other.start(&[("user", "postgres")]);
    for _ in 0..500 {
        if other.query("SELECT CASE sum(jobs) WHEN 0 THEN 'none' END FROM ondol_workers").contains("none") {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("jobs are left: {}", other.query("SELECT * FROM ondol_workers"));
}

#[test]
fn cancelling() {
    let served = serve(|_| {});
    let (mut c, mut other) = (served.client(), served.client());
    let cancel = |key: &[u8]| {
        let mut body = 80877102u32.to_be_bytes().to_vec();
        body.extend(key);
        let mut c = served.connect();
        c.send(&[packed(None, &body)]);
        assert!(c.message().is_none())
    };
    // When nothing runs, and with a wrong key, nothing happens.
    cancel(&c.key);
    assert_eq!(c.query("SELECT 1"), "T(?column?) D(1) C(SELECT 1) Z(I)");
    c.query("CREATE TABLE t (a integer PRIMARY KEY); INSERT INTO t VALUES (1)");
    other.query("BEGIN; UPDATE t SET a = 2");
    // A wait for a row, of which there are many on the same worker.
    c.send(&[query("UPDATE t SET a = 3")]);
    std::thread::sleep(Duration::from_millis(50));
    let mut wrong = c.key.clone();
    wrong[7] ^= 1;
    cancel(&wrong);
    std::thread::sleep(Duration::from_millis(50));
    cancel(&c.key);
    let all = c.until_ready();
    assert_eq!(all[0].field('M').as_deref(), Some("canceling statement due to user request"));
    // A long statement.
    c.send(&[query("SELECT count(*) FROM generate_series(1, 10000000000)")]);
    std::thread::sleep(Duration::from_millis(50));
    cancel(&c.key);
    assert_eq!(c.until_ready()[0].field('C').as_deref(), Some("57014"));
    // A COPY that waits for data.
    c.send(&[query("COPY t FROM STDIN")]);
    assert_eq!(c.message().unwrap().kind, 'G');
    cancel(&c.key);
    assert_eq!(c.until_ready()[0].field('C').as_deref(), Some("57014"));
    assert_eq!(other.query("COMMIT"), "C(COMMIT) Z(I)");
}

/// What sessions do, as others see it; who waits for whom; and ending what others do.
#[test]
fn sessions_see_each_other() {
    let served = serve(|_| {});
    let rows = |c: &mut Client, text: &str| -> Vec<String> {
        let all = c.ask(&[query(text)]);
        let e = all.iter().find(|m| m.kind == 'E');
        assert!(e.is_none(), "{text}: {:?}", e.map(|e| e.field('M')));
        all.iter().filter(|m| m.kind == 'D').map(|m| m.to_string()).collect()
    };
    let process = |c: &Client| i32::from_be_bytes(c.key[..4].try_into().unwrap());
    let until = |f: &mut dyn FnMut() -> bool| {
        for _ in 0..200 {
            if f() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20))
        }
        panic!("it did not come to pass")
    };
    let (mut a, mut b, mut c) = (served.client(), served.connect(), served.client());
    b.start(&[("user", "postgres"), ("application_name", "second")]);
    let (first, second) = (process(&a), process(&b));
    assert_eq!(rows(&mut a, "SELECT pg_backend_pid()"), [format!("D({first})")]);
    a.query("CREATE TABLE t (a integer PRIMARY KEY, b integer); INSERT INTO t VALUES (1, 1)");
    a.query("BEGIN; UPDATE t SET b = 2 WHERE a = 1");
    b.send(&[query("UPDATE t SET b = 3 /* waits */ WHERE a = 1")]);
    let blocking = format!("SELECT pg_blocking_pids({second}), pg_blocking_pids({first})");
    until(&mut || rows(&mut c, &blocking) == [format!("D({{{first}}},{{}})")]);
    let shown = "SELECT state, wait_event_type, wait_event, query, application_name, usename, datname, \
                 client_addr IS NOT NULL, client_port > 0, backend_start <= query_start, \
                 xact_start <= state_change, backend_type FROM pg_stat_activity WHERE pid = ";
    let told = rows(&mut c, &format!("{shown}{second}"));
    let wanted = "D(active,Lock,transactionid,UPDATE t SET b = 3 /* waits */ WHERE a = 1,second,postgres,postgres,\
                  t,t,t,t,client backend)";
    assert_eq!(told, [wanted]);
    let told = rows(&mut c, &format!("{shown}{first}"));
    let wanted = "D(idle in transaction,Client,ClientRead,BEGIN; UPDATE t SET b = 2 WHERE a = 1,,postgres,postgres,\
                  t,t,t,t,client backend)";
    assert_eq!(told, [wanted]);
    let locks = "SELECT pid, locktype, relation::regclass, mode, granted FROM pg_locks \
                 WHERE relation IS NULL OR relation = 't'::regclass ORDER BY pid, locktype, granted";
    assert_eq!(
        rows(&mut c, locks),
        [
            format!("D({first},relation,t,RowExclusiveLock,t)"),
            format!("D({first},transactionid,NULL,ExclusiveLock,t)"),
            format!("D({second},relation,t,RowExclusiveLock,t)"),
            format!("D({second},transactionid,NULL,ShareLock,f)"),
        ]
    );
    assert_eq!(rows(&mut c, &format!("SELECT pg_cancel_backend({second})")), ["D(t)"]);
    let told: Vec<String> = b.until_ready().iter().map(|m| m.to_string()).collect();
    assert_eq!(told, ["E(57014)", "Z(I)"]);
    // Advisory locks, with their numbers.
    a.query("SELECT pg_advisory_lock(4294967298), pg_advisory_lock_shared(3, 4)");
    let advised = "SELECT pid, classid, objid, objsubid, mode, granted FROM pg_locks WHERE locktype = 'advisory' \
                   ORDER BY objsubid, granted DESC";
    let mine = [format!("D({first},1,2,1,ExclusiveLock,t)"), format!("D({first},3,4,2,ShareLock,t)")];
    assert_eq!(rows(&mut c, advised), mine);
    b.send(&[query("SELECT pg_advisory_lock(4294967298)")]);
    let all = [mine[0].clone(), format!("D({second},1,2,1,ExclusiveLock,f)"), mine[1].clone()];
    until(&mut || rows(&mut c, advised) == all);
    assert_eq!(rows(&mut c, &blocking), [format!("D({{{first}}},{{}})")]);
    assert_eq!(
        rows(&mut c, &format!("SELECT wait_event FROM pg_stat_activity WHERE pid = {second}")),
        ["D(advisory)"]
    );
    // Ending those that are idle, and those that wait or sleep.
    assert_eq!(rows(&mut c, &format!("SELECT pg_terminate_backend({first})")), ["D(t)"]);
    let told = a.until_closed();
    assert_eq!(told[0].field('M').unwrap(), "terminating connection due to administrator command");
    assert_eq!(
        (told[0].field('S').unwrap().as_str(), told[0].field('C').unwrap().as_str()),
        ("FATAL", "57P01")
    );
    let told: Vec<String> = b.until_ready().iter().map(|m| m.to_string()).collect();
    assert_eq!(told, ["T(pg_advisory_lock)", "D()", "C(SELECT 1)", "Z(I)"]);
    b.send(&[query("SELECT pg_sleep(1000)")]);
    until(&mut || {
        rows(&mut c, &format!("SELECT state FROM pg_stat_activity WHERE pid = {second}")) == ["D(active)"]
    });
    assert_eq!(rows(&mut c, &format!("SELECT pg_terminate_backend({second})")), ["D(t)"]);
    let told = b.until_closed();
    assert_eq!(told.last().unwrap().field('C').unwrap(), "57P01", "{told:?}");
    until(&mut || rows(&mut c, "SELECT count(*) FROM pg_stat_activity") == ["D(1)"]);
    assert_eq!(rows(&mut c, "SELECT b FROM t"), ["D(1)"]);
    assert_eq!(
        c.query("SELECT pg_cancel_backend(999999), pg_sleep(0.01), pg_sleep(-1), pg_sleep(NULL)"),
        "T(pg_cancel_backend,pg_sleep,pg_sleep,pg_sleep) D(f,,,NULL) N(01000) C(SELECT 1) Z(I)"
    );
    assert_eq!(
        rows(
            &mut c,
            "SELECT pg_postmaster_start_time() < now(), pg_conf_load_time() < now(), pg_reload_conf()"
        ),
        ["D(t,t,f)"]
    );
    // Others see less, and may do less.
    c.query("CREATE ROLE ann LOGIN; CREATE ROLE bob LOGIN; CREATE ROLE sig LOGIN IN ROLE pg_signal_backend");
    let (mut ann, mut bob, mut sig) = (served.connect(), served.connect(), served.connect());
    for (who, name) in [(&mut ann, "ann"), (&mut bob, "bob"), (&mut sig, "sig")] {
        who.start(&[("user", name), ("database", "postgres"), ("application_name", name)]);
    }
    let other = format!(
        "SELECT usename, application_name, state, query, client_port, backend_start, backend_type \
                         FROM pg_stat_activity WHERE pid = {}",
        process(&bob)
    );
    assert_eq!(rows(&mut ann, &other), ["D(bob,bob,NULL,<insufficient privilege>,NULL,NULL,NULL)"]);
    let refused = |who: &mut Client, text: String| {
        let all = who.ask(&[query(&text)]);
        let e = all.iter().find(|m| m.kind == 'E').expect("it is refused");
        (e.field('C').unwrap(), e.field('M').unwrap())
    };
    let why = "must be a member of the role whose query is being canceled or member of pg_signal_backend";
    let text = format!("SELECT pg_cancel_backend({})", process(&bob));
    assert_eq!(refused(&mut ann, text), ("42501".into(), why.into()));
    let text = format!("SELECT pg_terminate_backend({})", process(&c));
    assert_eq!(
        refused(&mut sig, text),
        ("42501".into(), "must be a superuser to terminate superuser process".into())
    );
    assert_eq!(rows(&mut sig, &format!("SELECT pg_terminate_backend({})", process(&bob))), ["D(t)"]);
    assert_eq!(bob.until_closed().last().unwrap().field('C').unwrap(), "57P01");
}

/// `pg_stat_statements` and `pg_stat_database`.
#[test]
fn statements_and_transactions_are_counted() {
    let served = serve(|_| {});
    let (mut c, mut other) = (served.client(), served.client());
    let rows = |c: &mut Client, text: &str| -> Vec<String> {
        let all = c.ask(&[query(text)]);
        let e = all.iter().find(|m| m.kind == 'E');
        assert!(e.is_none(), "{text}: {:?}", e.map(|e| e.field('M')));
        all.iter().filter(|m| m.kind == 'D').map(|m| m.to_string()).collect()
    };
    c.query(
        "CREATE TABLE t (a integer PRIMARY KEY, b text); INSERT INTO t VALUES (1, 'x'), (2, 'y');
         CREATE FUNCTION find(int) RETURNS SETOF t LANGUAGE sql AS 'SELECT * FROM t WHERE a = $1'",
    );
    assert_eq!(rows(&mut c, "SELECT pg_stat_statements_reset()"), ["D()"]);
    for text in
        ["SELECT a FROM t WHERE b = 'x'", "select a from T where b = 'z'", "SELECT a FROM t WHERE a = 'x'"]
    {
        c.query(text);
    }
    c.query("INSERT INTO t VALUES (3, 'secret'), (4, 'secret')");
    c.query("UPDATE t SET b = 'q'; SELECT 1 / 0");
    // Look-ups by themselves and together, a statement of the database's, a portal in pieces.
    let all =
        [parse("p", "SELECT b FROM t WHERE a = $1", &[]), bind("", "p", &["1"]), execute("", 0)].concat();
    c.told(&[all, sync()]);
    let look_up = |name: &str, v: &str| [bind("", name, &[v]), execute("", 0)].concat();
    c.told(&[look_up("p", "1"), look_up("p", "2"), look_up("ondol.find", "7"), look_up("p", "9"), sync()]);
    let pieces = [parse("", "SELECT a FROM t ORDER BY b, a", &[]), bind("", "", &[])].concat();
    c.told(&[pieces, execute("", 1), execute("", 2), execute("", 2), execute("", 2), sync()]);
    let shown = "SELECT query, calls, rows, userid::regrole, toplevel, plans, wal_bytes FROM pg_stat_statements
                 WHERE calls > 0 AND query NOT LIKE '%pg_stat%' AND query NOT LIKE 'CREATE%' ORDER BY query COLLATE \"C\"";
    assert_eq!(
        rows(&mut other, shown),
        [
            "D(INSERT INTO t VALUES ($1, $2), ($3, $4),1,2,postgres,t,NULL,NULL)",
            "D(SELECT a FROM t ORDER BY b, a,1,4,postgres,t,NULL,NULL)",
            "D(SELECT a FROM t WHERE b = $1,2,1,postgres,t,NULL,NULL)",
            "D(SELECT b FROM t WHERE a = $1,4,3,postgres,t,NULL,NULL)",
            "D(UPDATE t SET b = $1,1,4,postgres,t,NULL,NULL)",
            "D(ondol.find,1,0,postgres,t,NULL,NULL)",
        ]
    );
    let odd = "SELECT count(*) FROM pg_stat_statements WHERE NOT (min_exec_time >= 0 AND min_exec_time <= mean_exec_time
               AND mean_exec_time <= max_exec_time AND max_exec_time <= total_exec_time AND stddev_exec_time >= 0
               AND abs(mean_exec_time * calls - total_exec_time) < 0.001)";
    assert_eq!(rows(&mut other, odd), ["D(0)"]);
    c.query("SELECT pg_sleep(0.05)");
    let slept = "SELECT max_exec_time BETWEEN 50 AND 5000 FROM pg_stat_statements WHERE query = 'SELECT pg_sleep($1)'";
    assert_eq!(rows(&mut other, slept), ["D(t)"]);
    let reset =
        "SELECT pg_stat_statements_reset(0, 0, queryid) FROM pg_stat_statements WHERE query LIKE 'UPDATE t%'";
    rows(&mut c, reset);
    assert_eq!(
        rows(&mut other, "SELECT count(*) FROM pg_stat_statements WHERE query LIKE 'UPDATE t%'"),
        ["D(0)"]
    );
    c.query("CREATE ROLE ann LOGIN");
    let mut ann = served.connect();
    ann.start(&[("user", "ann"), ("database", "postgres")]);
    assert_eq!(ann.query("SELECT pg_stat_statements_reset()"), "E(42501) Z(I)");
    ann.query("SELECT 'mine'");
    assert_eq!(
        rows(&mut ann, "SELECT DISTINCT query, queryid IS NULL FROM pg_stat_statements ORDER BY 1"),
        ["D(<insufficient privilege>,t)", "D(SELECT $1,f)"]
    );
    // Transactions: statements by themselves, in a text, a block, a pipeline; and what ends badly.
    let counts = "SELECT xact_commit, xact_rollback, deadlocks FROM pg_stat_database";
    let mut before = [0; 3];
    let mut counted = |c: &mut Client| -> [i64; 3] {
        let told = rows(c, counts);
        let now: Vec<i64> = told[0][2..told[0].len() - 1].split(',').map(|n| n.parse().unwrap()).collect();
        let now: [i64; 3] = now.try_into().unwrap();
        let since = std::array::from_fn(|i| now[i] - before[i]);
        before = now;
        since
    };
    counted(&mut other);
    // That of asking is counted once it has ended.
    assert_eq!(counted(&mut other), [1, 0, 0]);
    c.query("SELECT 1");
    c.query("SELECT 1; SELECT 2");
    c.query("SELEC");
    c.query("SELECT 1; SELECT 1 / 0");
    assert_eq!(counted(&mut other), [3, 2, 0]);
    for text in ["BEGIN", "SELECT 1", "COMMIT", "BEGIN", "SELECT 1/0", "COMMIT", "BEGIN", "ROLLBACK"] {
        c.query(text);
    }
    c.query("BEGIN; SAVEPOINT s; ROLLBACK TO s; COMMIT AND CHAIN; ROLLBACK AND CHAIN; SELECT 1; COMMIT");
    assert_eq!(counted(&mut other), [4, 3, 0]);
    c.told(&[look_up("p", "1"), look_up("p", "2"), sync()]);
    c.send(&[look_up("p", "1"), sync(), look_up("p", "2"), sync(), look_up("p", "x"), sync()]);
    (0..3).for_each(|_| drop(c.until_ready()));
    c.told(&[bind("", "p", &["1"]), execute("", 1), sync()]);
    assert_eq!(counted(&mut other), [5, 1, 0]);
    // Sessions, by how they end.
    let sessions = "SELECT sessions, sessions_abandoned, sessions_killed, sessions_fatal, numbackends,
                    session_time >= active_time, active_time > 50, idle_in_transaction_time >= 0, blks_read
                    FROM pg_stat_database";
    assert_eq!(rows(&mut other, sessions), ["D(3,0,0,0,3,t,t,t,NULL)"]);
    ann.send(&[packed(Some(b'X'), b"")]);
    ann.until_closed();
    let (mut killed, lost, mut broken) = (served.client(), served.client(), served.client());
    let number = i32::from_be_bytes(killed.key[..4].try_into().unwrap());
    rows(&mut other, &format!("SELECT pg_terminate_backend({number})"));
    killed.until_closed();
    drop(lost);
    broken.send(&[packed(Some(b'p'), b"x\0")]);
    broken.until_closed();
    for _ in 0..200 {
        if rows(&mut other, "SELECT numbackends FROM pg_stat_database") == ["D(2)"] {
            break;
        }
        std::thread::sleep(Duration::from_millis(20))
    }
    assert_eq!(rows(&mut other, sessions), ["D(6,1,1,1,2,t,t,t,NULL)"]);
    drop((c, other));
    let mut alone = served.database.session();
    let none =
        alone.query("SELECT count(*), max(calls) FROM pg_stat_statements WHERE toplevel", &[]).unwrap();
    assert!(none.row(0).get::<i64>(0).unwrap() > 0, "the board is the database's");
}

#[test]
fn lost_connections_roll_back() {
    let served = serve(|_| {});
    let (mut a, mut b, mut c) = (served.client(), served.client(), served.client());
    a.query("CREATE TABLE t (a integer PRIMARY KEY, n integer); INSERT INTO t VALUES (1, 0)");
    a.query("BEGIN; UPDATE t SET n = 1");
    // Both wait for the row.
    b.send(&[query("UPDATE t SET n = 2")]);
    std::thread::sleep(Duration::from_millis(50));
    c.send(&[query("UPDATE t SET n = n + 10")]);
    std::thread::sleep(Duration::from_millis(50));
    drop(a);
    let told: Vec<String> = c.until_ready().iter().map(|m| m.to_string()).collect();
    assert_eq!(told.join(" "), "C(UPDATE 1) Z(I)");
    // In its order after `b`, whose answer is there.
    assert_eq!(b.until_ready().len(), 2);
    assert_eq!(c.query("SELECT n FROM t"), "T(n) D(12) C(SELECT 1) Z(I)");
    // One that says good-bye in a transaction.
    b.query("BEGIN; UPDATE t SET n = 0");
    b.send(&[packed(Some(b'X'), b"")]);
    assert!(b.until_closed().is_empty());
    assert_eq!(c.query("UPDATE t SET n = n + 1 RETURNING n"), "T(n) D(13) C(UPDATE 1) Z(I)");
    // One that sends no more is answered still.
    c.send(&[query("SELECT 1"), query("SELECT 2")]);
    c.stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(c.until_closed().len(), 8);
}

/// A commit is seen by a statement that another connection begins after its answer.
#[test]
fn what_is_answered_is_there_for_others() {
    let served = serve(|_| {});
    let (mut a, mut b) = (served.client(), served.client());
    a.query("CREATE TABLE t (a integer)");
    for mode in ["on", "off"] {
        a.query(&format!("SET synchronous_commit = {mode}"));
        for n in 1..200 {
            assert_eq!(a.query("INSERT INTO t VALUES (1)"), "C(INSERT 0 1) Z(I)");
            assert_eq!(
                b.query("SELECT count(*) FROM t"),
                format!("T(count) D({n}) C(SELECT 1) Z(I)"),
                "{mode}"
            );
        }
        assert_eq!(b.query("DELETE FROM t"), "C(DELETE 199) Z(I)");
    }
}

#[test]
fn many_wait_on_few_threads() {
    const MANY: i32 = 200;
    let served = serve(|_| {});
    let mut holder = served.client();
    holder.query("CREATE TABLE t (a integer PRIMARY KEY, n integer); INSERT INTO t VALUES (1, 0)");
    holder.query("BEGIN; UPDATE t SET n = 0");
    let mut all: Vec<Client> = (0..MANY).map(|_| served.client()).collect();
    all.iter_mut().for_each(|c| c.send(&[query("UPDATE t SET n = n + 1")]));
    // Who does not wait goes on, on any worker.
    for _ in 0..4 {
        assert_eq!(served.client().query("SELECT n FROM t"), "T(n) D(0) C(SELECT 1) Z(I)");
    }
    holder.query("COMMIT");
    for c in &mut all {
        let told: Vec<String> = c.until_ready().iter().map(|m| m.to_string()).collect();
        assert_eq!(told.join(" "), "C(UPDATE 1) Z(I)");
    }
    assert_eq!(holder.query("SELECT n FROM t"), format!("T(n) D({MANY}) C(SELECT 1) Z(I)"));
}

#[test]
fn a_server_ends() {
    let mut served = serve(|_| {});
    let mut c = served.client();
    c.query("CREATE TABLE t (a integer)");
    assert_eq!(served.database.session().query("SELECT * FROM t", &[]).unwrap().len(), 0);
    c.send(&[query("SELECT count(*) FROM generate_series(1, 10000000000)")]);
    std::thread::sleep(Duration::from_millis(50));
    served.server.take().unwrap().stop().unwrap();
    let all = c.until_closed();
    assert_eq!(all.last().unwrap().field('C').as_deref(), Some("57P01"), "{all:?}");
    assert!(TcpStream::connect(("127.0.0.1", served.port)).is_err(), "nobody listens any more");
}

/// The protocol's state, told by bytes that are anything.
#[test]
fn bytes_that_are_anything_end_one_connection_at_most() {
    let served = serve(|_| {});
    let mut seed = 7u64;
    println!("seed {seed}");
    let mut next = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for _ in 0..300 {
        let mut c = if next() % 8 == 0 { served.connect() } else { served.client() };
        c.stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        for _ in 0..next() % 20 {
            let parts: [Vec<u8>; 12] = [
                query("SELECT 1"),
                query("COPY (SELECT 1) TO STDOUT"),
                parse("", "SELECT $1::int", &[]),
                bind("", "", &["1"]),
                execute("", (next() % 3) as i32),
                sync(),
                data("x\n"),
                packed(Some(b'c'), b""),
                describe('S', ""),
                query("BEGIN"),
                query("ROLLBACK"),
                parse("", "COPY (SELECT 1) TO STDOUT", &[]),
            ];
            let mut bytes = parts[(next() % 12) as usize].clone();
            if next() % 10 == 0 {
                let at = next() as usize % bytes.len();
                bytes[at] = next() as u8
            }
            if c.stream.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = c.stream.read(&mut [0; 100]);
    }
    assert_eq!(served.client().query("SELECT 1"), "T(?column?) D(1) C(SELECT 1) Z(I)");
}
