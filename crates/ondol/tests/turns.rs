//! Neighbours on a worker of the server: who has much to do, or does not take what was made, keeps no others
//! waiting, nor more than a bounded part of an answer in memory.
#![cfg(feature = "server")]
use ondol::server::{ServeOptions, Server};
use ondol::{OpenOptions, TempFolder};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A server, whose workers have all some of its clients where there are twice as many as threads.
struct Served {
    server: Option<Server>,
    port: u16,
    _folder: TempFolder,
}

fn serve(memory: usize) -> Served {
    let folder = TempFolder::new().unwrap();
    let database = OpenOptions::new().memory_limit(memory).open(folder.path().join("db")).unwrap();
    let options =
        ServeOptions { listen: vec!["127.0.0.1:0".into()], trust_loopback: true, ..ServeOptions::default() };
    let server = Server::start(&database, &options).unwrap();
    let port = server.addresses()[0].port();
    Served { server: Some(server), port, _folder: folder }
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

struct Client {
    stream: TcpStream,
    key: Vec<u8>,
    port: u16,
}

fn packed(kind: &[u8], body: &[u8]) -> Vec<u8> {
    [kind, &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}
fn query(text: &str) -> Vec<u8> {
    packed(b"Q", format!("{text}\0").as_bytes())
}
fn parse(name: &str, text: &str) -> Vec<u8> {
    packed(b"P", format!("{name}\0{text}\0\0\0").as_bytes())
}
/// Of a prepared statement, with one parameter at most.
fn run(name: &str, value: Option<&str>) -> Vec<u8> {
    let mut body = format!("\0{name}\0\0\0").into_bytes();
    body.extend((value.is_some() as u16).to_be_bytes());
    if let Some(v) = value {
        body.extend((v.len() as u32).to_be_bytes());
        body.extend(v.as_bytes())
    }
    body.extend([0, 0]);
    [packed(b"B", &body), packed(b"E", b"\0\0\0\0\0")].concat()
}
fn sync() -> Vec<u8> {
    packed(b"S", b"")
}

/// A client that is ready.
fn connect(port: u16) -> Client {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut c = Client { stream, key: vec![], port };
    c.send(&packed(b"", b"\0\x03\0\0user\0postgres\0\0"));
    loop {
        match c.message() {
            (b'K', key) => c.key = key,
            (b'Z', _) => return c,
            (b'E', e) => panic!("{}", String::from_utf8_lossy(&e)),
            _ => {}
        }
    }
}

impl Served {
    fn client(&self) -> Client {
        connect(self.port)
    }
    fn clients(&self, n: usize) -> Vec<Client> {
        (0..n).map(|_| self.client()).collect()
    }
}

impl Client {
    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap()
    }
    fn message(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head).unwrap();
        let mut body = vec![0; u32::from_be_bytes(head[1..].try_into().unwrap()) as usize - 4];
        self.stream.read_exact(&mut body).unwrap();
        (head[0], body)
    }
    /// How many rows and lines came, and the tag or the error.
    fn until_ready(&mut self) -> (u64, String) {
        let (mut rows, mut end) = (0, String::new());
        loop {
            match self.message() {
                (b'D' | b'd', _) => rows += 1,
                (b'C', tag) => end = String::from_utf8_lossy(&tag[..tag.len() - 1]).to_string(),
                (b'E', fields) => {
                    let of = |code| fields.split(|b| *b == 0).find(|f| f.first() == Some(&code));
                    end = String::from_utf8_lossy(&of(b'C').unwrap()[1..]).to_string()
                }
                (b'Z', _) => return (rows, end),
                _ => {}
            }
        }
    }
    fn query(&mut self, text: &str) -> (u64, String) {
        self.send(&query(text));
        self.until_ready()
    }
    fn cancel(&self) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(&packed(b"", &[&80877102u32.to_be_bytes()[..], &self.key].concat())).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    }
}

/// Rows of some 200 bytes.
fn fill(c: &mut Client, rows: usize) {
    c.query("CREATE TABLE t (a integer PRIMARY KEY, b text)");
    let (_, tag) =
        c.query(&format!("INSERT INTO t SELECT a, repeat('x', 200) FROM generate_series(1, {rows}) AS g(a)"));
    assert_eq!(tag, format!("INSERT 0 {rows}"))
}

/// Each of the others is answered, each several times.
fn others_go_on(others: &mut [Client]) -> Duration {
    let mut longest = Duration::ZERO;
    for n in 0..20 {
        for c in &mut *others {
            let began = Instant::now();
            assert_eq!(c.query(&format!("SELECT b FROM t WHERE a = {}", n + 1)), (1, "SELECT 1".to_string()));
            longest = longest.max(began.elapsed())
        }
    }
    longest
}

/// Answers of 120 MB each for which there is no memory, and clients that take nothing of them for a while.
#[test]
fn an_answer_is_made_as_it_is_taken() {
    const ROWS: u64 = 600 * 500;
    let mut served = serve(64 << 20);
    let mut hogs = served.clients(5);
    let mut others = served.clients(2 * threads());
    fill(&mut others[0], 600);
    let rows = "SELECT x.b, y.b FROM t AS x, t AS y WHERE y.a <= 500";
    others[0].query("CREATE ROLE waits");
    hogs[0].send(&query(rows));
    hogs[1].send(&query(&format!("COPY ({rows}) TO STDOUT")));
    hogs[2].send(&[parse("", rows), run("", None), sync()].concat());
    hogs[3].send(&query(&format!("BEGIN; LOCK TABLE t IN SHARE MODE; {rows}")));
    hogs[4].send(&query("BEGIN; SELECT 1"));
    assert_eq!(hogs[4].until_ready().1, "SELECT 1");
    hogs[4].send(&query(&format!("ALTER ROLE waits CREATEDB; {rows}")));
    std::thread::sleep(Duration::from_millis(300));
    // A lost client's transaction ends with it, and a statement that waits for its client can be cancelled.
    drop(hogs.remove(3));
    others_go_on(&mut others);
    assert_eq!(others[0].query("UPDATE t SET b = b WHERE a = 600").1, "UPDATE 1");
    hogs[3].cancel();
    let (given, end) = hogs[3].until_ready();
    assert!(given < ROWS && end == "57014", "{given} {end}");
    assert_eq!(hogs[3].query("ROLLBACK").1, "ROLLBACK");
    for (n, c) in hogs[..3].iter_mut().enumerate() {
        let (rows, end) = c.until_ready();
        let tag = if n == 1 { "COPY" } else { "SELECT" };
        assert_eq!((rows, end), (ROWS, format!("{tag} {ROWS}")));
        assert_eq!(c.query("SELECT 1"), (1, "SELECT 1".to_string()))
    }
    others_go_on(&mut others);
    // One who has more messages than answers are taken of.
    let c = &mut hogs[0];
    let many: Vec<u8> = (0..2000).flat_map(|_| query("SELECT b FROM t LIMIT 10")).collect();
    c.send(&many);
    std::thread::sleep(Duration::from_millis(100));
    others_go_on(&mut others);
    for _ in 0..2000 {
        assert_eq!(hogs[0].until_ready(), (10, "SELECT 10".to_string()))
    }
    // A server ends though nobody takes the rest.
    hogs[1].send(&query(rows));
    std::thread::sleep(Duration::from_millis(50));
    served.server.take().unwrap().stop().unwrap()
}

#[test]
fn who_has_much_to_do_lets_others_go_on() {
    let served = serve(1 << 30);
    let mut hog = served.client();
    let mut others = served.clients(2 * threads());
    fill(&mut others[0], 1000);
    for text in [
        "SELECT count(*) FROM generate_series(1, 1000000000000)",
        "SELECT count(*) FROM t AS x, t AS y, t AS z, t AS u WHERE x.a + y.a + z.a + u.a < 0",
        "SELECT sum(length(repeat(b, 20))) FROM t, generate_series(1, 1000000000000) AS g(n) WHERE n > 0",
        "SELECT count(*) FROM generate_series(1, 1000000) WHERE factorial(20000) = 0",
        "COPY (SELECT 1 FROM t AS x, t AS y, t AS z, t AS u WHERE x.a + y.a + z.a + u.a < 0) TO STDOUT",
        "UPDATE t SET b = '' WHERE (SELECT count(*) FROM t AS x, t AS y, t AS z WHERE x.a + y.a + z.a < 0) > 0",
        "EXPLAIN ANALYZE SELECT count(*) FROM generate_series(1, 1000000000000)",
        "CREATE TABLE u AS SELECT x.a FROM t AS x, t AS y, t AS z, t AS u WHERE x.a + y.a + z.a + u.a < 0",
    ] {
        hog.send(&query(text));
        std::thread::sleep(Duration::from_millis(50));
        let longest = others_go_on(&mut others);
        println!("{longest:?} at most beside {text}");
        hog.cancel();
        assert_eq!(hog.until_ready().1, "57014", "{text}");
    }
    // What ends by itself.
    for text in [
        "CREATE TABLE v AS SELECT n, n::text AS t FROM generate_series(1, 300000) AS g(n)",
        "CHECKPOINT",
        "SELECT count(*) FROM (SELECT n FROM v ORDER BY n % 1000, t LIMIT 1000000) AS s",
        "CREATE INDEX ON v (t)",
        "ALTER TABLE v ALTER n TYPE bigint",
        "COPY v TO '/dev/null'",
        "DELETE FROM v",
        "CHECKPOINT",
    ] {
        hog.send(&query(text));
        println!("{:?} at most beside {text}", others_go_on(&mut others));
        let end = hog.until_ready().1;
        assert!(
            text.starts_with(end.split(' ').next().unwrap()) || end.starts_with("SELECT"),
            "{text}: {end}"
        )
    }
    // COPY FROM, whose client sends as fast as it can.
    hog.send(&query("COPY v FROM STDIN"));
    assert_eq!(hog.message().0, b'G');
    let mut stream = hog.stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        for n in 0..300u32 {
            let lines: String = (0..1000).map(|i| format!("{}\tx\n", n * 1000 + i)).collect();
            stream.write_all(&packed(b"d", lines.as_bytes())).unwrap()
        }
        stream.write_all(&packed(b"c", b"")).unwrap()
    });
    println!("{:?} at most beside COPY", others_go_on(&mut others));
    sender.join().unwrap();
    assert_eq!(hog.until_ready().1, "COPY 300000")
}

/// A statement of a pipeline, as Bind, perhaps Describe, and Execute, which is given a limit that no result
/// reaches, or none.
fn step(
    name: &str,
    value: Option<&[u8]>,
    params: u16,
    forms: [u8; 2],
    described: bool,
    limit: u32,
) -> Vec<u8> {
    let mut body = format!("\0{name}\0\0\x01\0").into_bytes();
    body.push(forms[0]);
    body.extend(params.to_be_bytes());
    for _ in 0..params {
        match value {
            None => body.extend((-1i32).to_be_bytes()),
            Some(v) => {
                body.extend((v.len() as u32).to_be_bytes());
                body.extend(v)
            }
        }
    }
    body.extend([0, 1, 0, forms[1]]);
    let mut all = packed(b"B", &body);
    if described {
        all.extend(packed(b"D", b"P\0"))
    }
    all.extend(packed(b"E", &[&b"\0"[..], &limit.to_be_bytes()].concat()));
    all
}

/// Reads that stand side by side are executed together, but for those with a limit, which must be answered
/// alike, byte for byte.
#[test]
fn reads_of_a_pipeline_are_answered_as_one_by_one() {
    let (served, other) = (serve(256 << 20), serve(256 << 20));
    let (mut together, mut alone) = (served.client(), other.client());
    let statements = [
        ("whole", "SELECT * FROM t WHERE a = $1", 1),
        ("part", "SELECT b, a FROM t WHERE a = $1", 1),
        ("hashed", "SELECT a, c FROM h WHERE a = $1", 1),
        ("text", "SELECT a FROM t WHERE b = $1", 1),
        ("joined", "SELECT t.b, h.c FROM t JOIN h ON h.a = t.a WHERE t.a = $1", 1),
        ("none", "SELECT a + $1 FROM t WHERE a = $1", 1),
        ("update", "UPDATE t SET c = c + 1 WHERE a = $1", 1),
        ("insert", "INSERT INTO t VALUES ($1, $1::text, 0)", 1),
        ("begin", "BEGIN", 0),
        ("commit", "COMMIT", 0),
        ("rollback", "ROLLBACK", 0),
        ("alter", "ALTER TABLE t ADD d integer", 0),
        ("drop", "ALTER TABLE t DROP COLUMN IF EXISTS d", 0),
    ];
    for c in [&mut together, &mut alone] {
        c.query("CREATE TABLE t (a bigint PRIMARY KEY, b text UNIQUE, c integer)");
        c.query("CREATE TABLE h (a bigint NOT NULL, c text); CREATE UNIQUE INDEX ON h USING hash (a)");
        c.query("INSERT INTO t SELECT n, n::text, 0 FROM generate_series(1, 20) AS g(n)");
        c.query("INSERT INTO h SELECT n, repeat('y', n::int) FROM generate_series(1, 20) AS g(n)");
        for (name, text, _) in statements {
            c.send(&[parse(name, text), sync()].concat());
            c.until_ready();
        }
    }
    let mut seed = 20_261_126u64;
    println!("seed {seed}");
    let mut next = move |n: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % n
    };
    for _ in 0..1500 {
        let (mut one, mut many, mut syncs) = (vec![], vec![], 0);
        let reads_only = next(2) == 0;
        for _ in 0..1 + next(30) {
            let n = match next(if reads_only { 10 } else { 14 }) {
                0..=9 => next(6),
                _ => 6 + next(7),
            };
            let (name, _, params) = statements[n as usize];
            let key = next(24) as i64;
            let binary = next(3) == 0 && name != "text" && name != "insert";
            let value = match next(12) {
                0 => None,
                1 if !binary => Some(b" 7".to_vec()),
                2 => Some(b"x7".to_vec()),
                _ if binary => Some(key.to_be_bytes().to_vec()),
                _ => Some(key.to_string().into_bytes()),
            };
            let forms = [binary as u8, next(2) as u8];
            let described = next(4) == 0;
            for (out, limit) in [(&mut many, 0), (&mut one, 1_000_000)] {
                out.extend(step(name, value.as_deref(), params, forms, described, limit))
            }
            if next(3) == 0 {
                one.extend(sync());
                many.extend(sync());
                syncs += 1
            }
        }
        one.extend(sync());
        many.extend(sync());
        together.send(&many);
        alone.send(&one);
        for _ in 0..=syncs {
            loop {
                let (a, b) = (together.message(), alone.message());
                let shown = |m: &(u8, Vec<u8>)| format!("{} {}", m.0 as char, String::from_utf8_lossy(&m.1));
                assert_eq!(shown(&a), shown(&b));
                assert_eq!(a, b);
                if a.0 == b'Z' {
                    break;
                }
            }
        }
    }
}

/// Connections that have each run something, and wait: a few kilobytes each, once they have waited for a
/// while.
#[test]
fn idle_connections_take_little() {
    const MANY: usize = 800;
    let mut child = Command::new(env!("CARGO_BIN_EXE_ondol"))
        .args(["serve", "--temporary", "--trust-loopback", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let address = lines.find(|l| l.contains("postgres://")).unwrap();
    let port = address.rsplit_once(':').unwrap().1.split('/').next().unwrap().parse().unwrap();
    let resident = |process: u32| {
        let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let line = text.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap()
    };
    let idle = |n: usize| {
        let mut all: Vec<Client> = (0..n).map(|_| connect(port)).collect();
        for c in &mut all {
            assert_eq!(c.query("SELECT count(*) FROM pg_class").1, "SELECT 1");
            c.send(
                &[parse("s", "SELECT relname FROM pg_class WHERE oid = $1"), run("s", Some("1259")), sync()]
                    .concat(),
            );
            assert_eq!(c.until_ready().1, "SELECT 1")
        }
        std::thread::sleep(Duration::from_secs(4));
        all
    };
    // What the first ones make stays.
    let first = idle(50);
    let before = resident(child.id());
    let all = idle(MANY);
    let each = (resident(child.id()) - before) as f64 / MANY as f64;
    println!("{each:.1} KiB each");
    assert!(each < 16.0, "{each}");
    drop((first, all));
    child.kill().unwrap();
    child.wait().unwrap();
}
