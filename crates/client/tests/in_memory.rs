//! Real clients in memory, and some that are none.
mod served;

use futures_util::future::join;
use ondol::TempFolder;
use ondol_client::MemoryStream;
use served::{LIMIT, Served};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;
use tokio_postgres::{Client, Config, NoTls};

fn run<F: Future>(f: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(LIMIT, f).await.expect("it takes too long") })
}

async fn client(path: &Path) -> Client {
    let stream = ondol_client::tokio::MemoryStream::connect(path).expect("memory");
    let mut config = Config::new();
    config.user("postgres").dbname("postgres");
    let (client, connection) = config.connect_raw(stream, NoTls).await.expect("a session");
    tokio::task::spawn(connection);
    client
}

#[test]
fn a_client_of_others_works_in_memory() {
    let served = Served::new();
    run(async {
        let c = client(&served.path).await;
        c.batch_execute("CREATE TABLE t (id int PRIMARY KEY, v text)").await.expect("a table");
        let insert = c.prepare("INSERT INTO t VALUES ($1, $2)").await.expect("a statement");
        // Rows wider than the memory, and many at once.
        let wide = "x".repeat(3 * ondol_base::shm::SIZE);
        for (id, v) in [(1, "one"), (2, wide.as_str())] {
            assert_eq!(c.execute(&insert, &[&id, &v]).await.expect("a row"), 1);
        }
        let e = c.execute(&insert, &[&1, &"again"]).await.expect_err("a key twice");
        assert_eq!(e.code().map(|c| c.code()), Some("23505"));
        let rows = c.query("SELECT v FROM t ORDER BY id", &[]).await.expect("rows");
        assert_eq!(rows.iter().map(|r| r.get::<_, &str>(0).len()).collect::<Vec<_>>(), [3, wide.len()]);
        let many = c.query("SELECT g, g * 2 FROM generate_series(1, 100000) g", &[]).await.expect("rows");
        assert_eq!(many.len(), 100_000);
        assert_eq!(many[99_999].get::<_, i32>(1), 200_000);
        // Several at once on one connection, and another's notice.
        let select = c.prepare("SELECT v FROM t WHERE id = $1").await.expect("a statement");
        let (a, b) = (c.query_one(&select, &[&1]), c.query_opt(&select, &[&3]));
        let (a, b) = join(a, b).await;
        assert_eq!(a.expect("a row").get::<_, &str>(0), "one");
        assert!(b.expect("an answer").is_none());
    });
    served.has(0)
}

/// Each waits for the other's lock, asleep, and is woken.
#[test]
fn sessions_in_memory_wait_for_each_other() {
    let served = Served::new();
    run(async {
        let (a, b) = (client(&served.path).await, client(&served.path).await);
        a.batch_execute("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0)")
            .await
            .expect("a row");
        for _ in 0..20 {
            a.batch_execute("BEGIN; UPDATE t SET n = n + 1").await.expect("a lock");
            let (_, done) = join(
                async {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    a.batch_execute("COMMIT").await.expect("a commit")
                },
                b.execute("UPDATE t SET n = n + 1", &[]),
            )
            .await;
            assert_eq!(done.expect("an update"), 1);
        }
        let n: i32 = a.query_one("SELECT n FROM t", &[]).await.expect("a row").get(0);
        assert_eq!(n, 40);
    });
    served.has(0)
}

/// The startup packet, and the answer up to ReadyForQuery.
fn begin(stream: &mut MemoryStream) {
    stream.set_read_timeout(Some(LIMIT));
    let body = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";
    stream.write_all(&[&(body.len() as u32 + 4).to_be_bytes()[..], body].concat()).expect("room");
    assert!(until_ready(stream).contains(&b'K'))
}
/// The kinds of messages that come, up to ReadyForQuery.
fn until_ready(stream: &mut MemoryStream) -> Vec<u8> {
    let mut kinds = vec![];
    while kinds.last() != Some(&b'Z') {
        let mut head = [0; 5];
        stream.read_exact(&mut head).expect("a message");
        let mut body = vec![0; u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize - 4];
        stream.read_exact(&mut body).expect("its body");
        kinds.push(head[0])
    }
    kinds
}
fn query(stream: &mut MemoryStream, text: &str) -> Vec<u8> {
    let size = (text.len() as u32 + 5).to_be_bytes();
    stream.write_all(&[&b"Q"[..], &size, text.as_bytes(), b"\0"].concat()).expect("room");
    until_ready(stream)
}

#[test]
fn a_stream_that_waits_works() {
    let served = Served::new();
    let mut stream = MemoryStream::connect(served.path.join(".s.PGSQL.5432")).expect("memory");
    begin(&mut stream);
    assert_eq!(query(&mut stream, "SELECT 1"), b"TDCZ");
    // Longer than the memory: written while the server takes it.
    let text = format!("SELECT length('{}')", "y".repeat(5 * ondol_base::shm::SIZE));
    assert_eq!(query(&mut stream, &text), b"TDCZ");
    assert_eq!(query(&mut stream, "SELECT 1 / 0"), b"EZ");
    assert_eq!(served.sessions(), 1);
    drop(stream);
    served.has(0)
}

#[test]
fn who_is_gone_is_noticed() {
    let served = Served::new();
    let mut holder = MemoryStream::connect(&served.path).expect("memory");
    begin(&mut holder);
    query(&mut holder, "CREATE TABLE t (n int); INSERT INTO t VALUES (1)");
    query(&mut holder, "BEGIN; UPDATE t SET n = 2");
    // In the middle of a statement, of a message, and of an answer that it does not take.
    let mut busy = MemoryStream::connect(&served.path).expect("memory");
    begin(&mut busy);
    busy.write_all(b"Q\0\0\0\x19SELECT pg_sleep(600)\0").expect("room");
    let mut cut = MemoryStream::connect(&served.path).expect("memory");
    begin(&mut cut);
    cut.write_all(b"Q\0\0\x01\0SELE").expect("room");
    let mut deaf = MemoryStream::connect(&served.path).expect("memory");
    begin(&mut deaf);
    let text = "SELECT repeat('x', 1000) FROM generate_series(1, 100000000)\0";
    deaf.write_all(&[&b"Q"[..], &(text.len() as u32 + 4).to_be_bytes(), text.as_bytes()].concat())
        .expect("room");
    let silent = MemoryStream::connect(&served.path).expect("memory");
    std::thread::sleep(Duration::from_millis(50));
    served.has(4);
    drop((holder, busy, cut, deaf, silent));
    served.has(0);
    // Its lock is gone, and its change.
    let mut next = MemoryStream::connect(&served.path).expect("memory");
    begin(&mut next);
    assert_eq!(query(&mut next, "UPDATE t SET n = n + 10 WHERE n = 1"), b"CZ");
    let found = served.db.session().query("SELECT n FROM t", &[]).expect("a row");
    assert_eq!(found.row(0).get::<i32>(0).expect("a number"), 11)
}

#[test]
fn a_server_that_ends_is_noticed() {
    let mut served = Served::new();
    let mut stream = MemoryStream::connect(&served.path).expect("memory");
    begin(&mut stream);
    served.server.take().expect("a server").stop().expect("it ends");
    let mut said = vec![];
    stream.read_to_end(&mut said).expect("the end");
    assert!(said.starts_with(b"E") && String::from_utf8_lossy(&said).contains("57P01"), "{said:?}");
    assert_eq!(stream.write_all(b"Q").expect_err("nobody is there").kind(), ErrorKind::BrokenPipe);
}

/// What is wrong in the memory ends that session, and no other.
#[test]
fn garbage_ends_its_session_alone() {
    let served = Served::new();
    let mut good = MemoryStream::connect(&served.path).expect("memory");
    begin(&mut good);
    for garbage in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0xff; 100],
        b"\0\0\0\x08\x04\xd2\x16\x2f",
        &ondol_base::shm::REQUEST,
    ] {
        let mut bad = MemoryStream::connect(&served.path).expect("memory");
        bad.set_read_timeout(Some(LIMIT));
        bad.write_all(garbage).expect("room");
        let mut said = vec![];
        bad.read_to_end(&mut said).expect("the end");
        assert_eq!(query(&mut good, "SELECT 1"), b"TDCZ");
    }
    served.has(1)
}

#[test]
fn others_servers_are_told_apart() {
    let folder = TempFolder::new().expect("a folder");
    let nothing = MemoryStream::connect(folder.path()).map(|_| ()).expect_err("nobody is there");
    assert_eq!(nothing.kind(), ErrorKind::NotFound);
    let socket = folder.path().join("other");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let answer = |said: &'static [u8]| {
        let listener = listener.try_clone().expect("the socket");
        std::thread::spawn(move || {
            let (mut stream, _): (UnixStream, _) = listener.accept().expect("a client");
            stream.read_exact(&mut [0; 8]).expect("a wish");
            stream.write_all(said).expect("an answer")
        })
    };
    for (said, kind) in [
        (&b"EFATAL"[..], ErrorKind::Unsupported),
        (b"N", ErrorKind::OutOfMemory),
        // Without the memory.
        (b"M", ErrorKind::Unsupported),
        (b"", ErrorKind::UnexpectedEof),
    ] {
        let other = answer(said);
        let e = MemoryStream::connect(&socket).map(|_| ()).expect_err("no memory");
        assert_eq!(e.kind(), kind, "{e}");
        assert!(e.to_string().contains("other: "), "{e}");
        other.join().expect("no panic")
    }
}
