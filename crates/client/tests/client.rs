//! The client, by each way there is to a server.
mod served;

use ondol_client::{Address, Batch, Client, Commit, SharedMemory, TypeId, Value, ValueRef};
use served::{LIMIT, Served};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn connect(whereto: &str) -> Client {
    Client::connect(whereto).unwrap_or_else(|e| panic!("{whereto}: {e}"))
}
fn one<'c, T: ondol_client::FromSent<'c>>(of: &ondol_client::Answers<'c>) -> T {
    of.rows(0).expect("rows").row(0).get(0).expect("a value")
}

#[test]
fn statements_and_batches() {
    let served = Served::new();
    for whereto in served.ways() {
        let mut c = connect(&whereto);
        c.execute("CREATE TABLE t (id bigint PRIMARY KEY, v text)").expect("a table");
        let insert = c.prepare("INSERT INTO t VALUES ($1, $2)").expect("a statement");
        let find = c.prepare("SELECT v, id FROM t WHERE id = $1").expect("a statement");
        assert_eq!(insert.params(), [Some(TypeId::INT8), Some(TypeId::TEXT)]);
        assert_eq!(find.columns().iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["v", "id"]);
        // So many that they go in several chunks; the widths make the answers more than is on its way.
        let mut batch = Batch::new(Commit::Each);
        for id in 0..3000i32 {
            let v = format!("{id}{}", "-".repeat(id as usize % 200));
            batch.add(&insert, &[ValueRef::Int4(id), ValueRef::Text(&v)]).expect("a call")
        }
        let answers = c.run(&batch).expect("answers");
        assert!((0..3000).all(|i| answers.affected(i).expect("an insert") == 1));
        assert!(answers.rows(3000).is_err());
        let mut reads = Batch::new(Commit::Each);
        for id in (0..6000).rev() {
            reads.add(&find, &[ValueRef::Int8(id)]).expect("a call")
        }
        for _ in 0..3 {
            let answers = c.run(&reads).expect("answers");
            for (i, id) in (0..6000i64).rev().enumerate() {
                let rows = answers.rows(i).expect("rows");
                assert_eq!(rows.len(), usize::from(id < 3000));
                for row in rows {
                    assert!(row.get::<&str>(0).expect("a text").starts_with(&id.to_string()));
                    assert_eq!(row.get::<i64>(1).expect("a number"), id)
                }
            }
        }
        // Of a batch that commits each by itself, an error is one call's.
        let mut mixed = Batch::new(Commit::Each);
        for id in [5000, 1, 5001] {
            mixed.add(&insert, &[ValueRef::Int8(id), ValueRef::Null]).expect("a call")
        }
        mixed.add(&find, &[ValueRef::Int8(5001)]).expect("a call");
        let answers = c.run(&mixed).expect("answers");
        assert_eq!(answers.affected(0).expect("an insert"), 1);
        assert_eq!(answers.rows(1).map(|_| ()).expect_err("a key twice").sqlstate(), "23505");
        assert_eq!(answers.affected(2).expect("an insert"), 1);
        let row = answers.rows(3).expect("rows").row(0);
        assert_eq!(row.get::<Option<&str>>(0).expect("NULL"), None);
        assert_eq!(row.get::<&str>(0).expect_err("NULL").sqlstate(), "42804");
        // Of one that commits together, it is the end of all: wherever it is.
        for bad in [0, 700, 1999] {
            let mut batch = Batch::new(Commit::Together);
            let wide = "w".repeat(100);
            for i in 0..2000 {
                let id = if i == bad { 1 } else { 10_000 + i };
                batch.add(&insert, &[ValueRef::Int8(id), ValueRef::Text(&wide)]).expect("a call")
            }
            let e = c.run(&batch).map(|_| ()).expect_err("a key twice");
            assert_eq!(e.sqlstate(), "23505");
            let count = c.prepare("SELECT count(*) FROM t").expect("a statement");
            assert_eq!(one::<i64>(&c.query(&count, &[]).expect("a row")), 3002);
            c.close(count).expect("closed");
        }
        let mut batch = Batch::new(Commit::Together);
        for i in 0..2000 {
            batch.add(&insert, &[ValueRef::Int8(20_000 + i), ValueRef::Text("x")]).expect("a call")
        }
        assert_eq!(c.run(&batch).expect("answers").len(), 2000);
        assert_eq!(c.execute("DELETE FROM t WHERE id >= 20000").expect("a tag"), 2000);
        assert!(c.run(&Batch::new(Commit::Together)).expect("nothing").is_empty());
        // A parameter that is longer than all that can be on its way.
        let wide = "y".repeat(3 << 20);
        c.query(&insert, &[ValueRef::Int2(-1), ValueRef::Text(&wide)]).expect("an insert");
        assert_eq!(one::<&str>(&c.query(&find, &[ValueRef::Int8(-1)]).expect("a row")), wide);
        c.execute("DROP TABLE t").expect("no table");
    }
    served.has(0)
}

/// Values of every type that has a binary form, and of some that have none, there and back.
#[test]
fn values_of_every_type() {
    let served = Served::new();
    for whereto in served.ways() {
        let mut c = connect(&whereto);
        c.execute("DROP TYPE IF EXISTS mood; CREATE TYPE mood AS ENUM ('glad', 'sad')").expect("a type");
        for (ty, text) in [
            ("bool", "t"),
            ("int2", "-7"),
            ("int4", "2147483647"),
            ("int8", "-9223372036854775808"),
            ("oid", "4294967295"),
            ("float4", "1.5"),
            ("float8", "-0.1"),
            ("numeric", "123456789012345678901234567890.5"),
            ("numeric(8,2)", "1.50"),
            ("text", "o'brien \u{1f600}"),
            ("varchar(9)", "nine"),
            ("char(5)", "pad  "),
            ("name", "a_name"),
            ("bytea", "\\x00ff10"),
            ("date", "2024-02-29"),
            ("time", "23:59:59.123456"),
            ("timetz", "01:02:03+05:30"),
            ("timestamp", "1999-12-31 23:59:59.999999"),
            ("timestamptz", "2024-02-29 12:00:00+00"),
            ("interval", "1 year 2 mons 3 days 04:05:06.7"),
            ("uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
            ("json", "{\"a\":  1}"),
            ("jsonb", "{\"a\": [1, null]}"),
            ("int4[]", "{1,NULL,3}"),
            ("text[]", "{a,\"b c\",NULL}"),
            ("numeric[]", "{1.10,2}"),
            ("regclass", "pg_class"),
            ("mood", "sad"),
            ("mood[]", "{glad,sad}"),
            ("int2vector", "1 2 3"),
        ] {
            let s = c.prepare(&format!("SELECT $1::{ty}, NULL::{ty}, $1::{ty}::text")).expect(ty);
            // As a text, which each type takes.
            let answers = c.query(&s, &[ValueRef::Text(text)]).unwrap_or_else(|e| panic!("{ty}: {e}"));
            let row = answers.rows(0).expect("a row").row(0);
            let mut shown = String::new();
            assert!(row.text(0, &mut shown).expect("a value"), "{ty}");
            let servers: String = row.get(2).expect("a text");
            // A cast of char(n) to text drops its blanks, and one of a bool is a word.
            match ty {
                "bool" => assert_eq!((shown.as_str(), servers.as_str()), ("t", "true")),
                "char(5)" => assert_eq!((shown.as_str(), servers.as_str()), ("pad  ", "pad")),
                _ => assert_eq!(shown, servers, "{ty}"),
            }
            assert_eq!(row.get::<Option<Value>>(1).expect("NULL"), None, "{ty}");
            // And as what came back.
            let value: Value = row.get(0).expect("a value");
            let again = c.query(&s, &[value.as_ref(&mut vec![])]).unwrap_or_else(|e| panic!("{ty}: {e}"));
            let back: Value = again.rows(0).expect("a row").row(0).get(0).expect("a value");
            assert!(back.is_same(&value), "{ty}: {back:?} {value:?}")
        }
    }
}

#[test]
fn rust_types() {
    let served = Served::new();
    let mut c = connect(&served.path.display().to_string());
    let s = c
        .prepare("SELECT 1::int2, 2, 3::int8, 0.5::float8, true, 'x'::text, '\\x01'::bytea, 1.5, date '2000-01-02'")
        .expect("a statement");
    let answers = c.query(&s, &[]).expect("a row");
    let row = answers.rows(0).expect("a row").row(0);
    assert_eq!(row.get::<i64>(0).expect("widened") + i64::from(row.get::<i32>(0).expect("widened")), 2);
    assert_eq!(row.get::<f64>(1).expect("widened"), 2.0);
    assert_eq!(row.get::<i64>(2).expect("the same"), 3);
    assert_eq!(row.get::<f64>(3).expect("the same"), 0.5);
    assert!(row.get::<bool>(4).expect("the same"));
    assert_eq!(row.get::<&str>(5).expect("the same"), "x");
    assert_eq!(row.get::<&[u8]>(6).expect("the same"), [1]);
    assert_eq!(row.get::<String>(7).expect("a text"), "1.5");
    assert_eq!(row.get::<i32>(8).expect("days"), 1);
    for (column, wrong) in [
        (2, row.get::<i32>(2).map(|_| ()).expect_err("not narrowed")),
        (5, row.get::<i64>(5).map(|_| ()).expect_err("no number")),
        (1, row.get::<&str>(1).map(|_| ()).expect_err("no text")),
    ] {
        assert_eq!(wrong.sqlstate(), "42804", "{column}")
    }
    let e = row.get::<i64>(9).expect_err("no column");
    assert_eq!(e.to_string(), "the rows have 9 columns; column 9 was asked for (counted from 0)");
    let mut seen = 0;
    row.each(|_| {
        seen += 1;
        Ok(())
    })
    .expect("values");
    assert_eq!(seen, 9)
}

#[test]
fn registered_queries() {
    let served = Served::new();
    for whereto in served.ways() {
        let mut c = connect(&whereto);
        c.execute(
            "CREATE OR REPLACE FUNCTION twice(bigint) RETURNS SETOF bigint LANGUAGE sql AS 'SELECT $1 * 2'",
        )
        .expect("a query");
        let twice = c.registered("twice").expect("a query");
        assert_eq!(one::<i64>(&c.query(&twice, &[ValueRef::Int8(21)]).expect("a row")), 42);
        assert_eq!(c.registered("thrice").expect_err("none").sqlstate(), "26000");
        assert_eq!(one::<i64>(&c.query(&twice, &[ValueRef::Int8(4)]).expect("a row")), 8)
    }
}

#[test]
fn what_cannot_be_is_told() {
    let served = Served::new();
    for whereto in served.ways() {
        let mut c = connect(&whereto);
        let s = c.prepare("SELECT $1::int4 / $2::int4").expect("a statement");
        let e = c.query(&s, &[ValueRef::Int4(1)]).map(|_| ()).expect_err("one is missing");
        assert_eq!(
            (e.sqlstate(), e.to_string().as_str()),
            ("08P01", "expected 2 parameters, found 1, in a call of: SELECT $1::int4 / $2::int4")
        );
        let e = c.query(&s, &[ValueRef::Int4(1), ValueRef::Int4(0)]).map(|_| ()).expect_err("by zero");
        assert_eq!(e.sqlstate(), "22012");
        let e = c.query(&s, &[ValueRef::Text("x"), ValueRef::Int4(0)]).map(|_| ()).expect_err("a text");
        assert_eq!(e.sqlstate(), "22P02");
        // What does not fit goes as a text, which fails there, as an assignment would.
        let e = c.query(&s, &[ValueRef::Int8(1 << 40), ValueRef::Int4(1)]).map(|_| ()).expect_err("wide");
        assert_eq!(e.sqlstate(), "22003");
        let e = c.prepare("SELECT nothing FROM nowhere").expect_err("no table");
        assert_eq!((e.sqlstate(), e.0.position), ("42P01", Some(20)));
        assert_eq!(c.prepare("COPY (SELECT 1) TO STDOUT").expect_err("no copy").sqlstate(), "0A000");
        c.execute("CREATE TABLE IF NOT EXISTS copied (n int)").expect("a table");
        for copy in ["COPY copied FROM STDIN", "COPY (SELECT 1) TO STDOUT", "SELECT 1; COPY copied TO STDOUT"]
        {
            assert_eq!(c.execute(copy).expect_err("no copy").sqlstate(), "0A000", "{copy}")
        }
        c.execute("BEGIN").expect("begun");
        assert!(c.is_in_transaction());
        c.query(&s, &[ValueRef::Int4(1), ValueRef::Int4(0)]).map(|_| ()).expect_err("by zero");
        let e = c.query(&s, &[ValueRef::Int4(1), ValueRef::Int4(1)]).map(|_| ()).expect_err("failed");
        assert_eq!(e.sqlstate(), "25P02");
        c.execute("ROLLBACK").expect("ended");
        assert!(!c.is_in_transaction());
        assert_eq!(one::<i32>(&c.query(&s, &[ValueRef::Int4(7), ValueRef::Int4(1)]).expect("a row")), 7)
    }
    let folder = ondol::TempFolder::new().expect("a folder");
    let nobody = folder.path().display().to_string();
    let e = Client::connect(&nobody).map(|_| ()).expect_err("nobody");
    assert_eq!(e.sqlstate(), "08001");
    assert!(e.to_string().contains("expected postgres://…, or a database's folder"), "{e}");
    let port = served.server.as_ref().expect("a server").addresses()[0].port();
    for (whereto, state) in [
        (format!("postgres://127.0.0.1:{port}"), "28P01"),
        (format!("postgres://postgres:no@127.0.0.1:{port}"), "28P01"),
        (format!("postgres://127.0.0.1:{port}/?sslmode=require"), "08001"),
        (format!("postgres:///?host={nobody}"), "08001"),
        (format!("postgres:///?host={nobody}&memory=require"), "08001"),
        (format!("postgres:///other?host={}", served.path.display()), "3D000"),
    ] {
        let e = Client::connect(&whereto).map(|_| ()).expect_err("no session");
        assert_eq!(e.sqlstate(), state, "{whereto}: {e}")
    }
}

/// What is refused since the connection is lost is not sent later.
#[test]
fn nothing_is_sent_when_it_is_lost() {
    let served = Served::new();
    for whereto in served.ways() {
        let mut c = connect(&whereto);
        c.execute("DROP TABLE IF EXISTS t; CREATE TABLE t (n int)").expect("a table");
        let s = c.prepare("SELECT 1").expect("a statement");
        // It is lost on purpose: with a closure's panic nobody knows how much was taken.
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            c.for_each(&s, &[], |_| panic!("on purpose"))
        }));
        assert!(panicked.is_err() && c.is_lost());
        assert_eq!(c.execute("INSERT INTO t VALUES (1)").expect_err("lost").sqlstate(), "08003");
        assert_eq!(c.prepare("SELECT 1").map(|_| ()).expect_err("lost").sqlstate(), "08003");
        drop(c);
        served.has(0);
        let mut d = connect(&whereto);
        assert_eq!(d.execute("SELECT * FROM t").expect("no row"), 0)
    }
}

/// An error that comes with the commit is that of the batch, and of a call.
#[test]
fn errors_of_commits() {
    let served = Served::new();
    for whereto in served.ways() {
        let mut c = connect(&whereto);
        c.execute(
            "DROP TABLE IF EXISTS part, whole; CREATE TABLE whole (id int PRIMARY KEY);
             CREATE TABLE part (id int REFERENCES whole DEFERRABLE INITIALLY DEFERRED)",
        )
        .expect("tables");
        let insert = c.prepare("INSERT INTO part VALUES ($1)").expect("a statement");
        for commit in [Commit::Together, Commit::Each] {
            let mut batch = Batch::new(commit);
            for n in 0..2 {
                batch.add(&insert, &[ValueRef::Int4(n)]).expect("a call")
            }
            let state = match c.run(&batch) {
                Ok(answers) => answers.affected(1).expect_err("no such row").sqlstate(),
                Err(e) => e.sqlstate(),
            };
            assert_eq!(state, "23503", "{commit:?}");
            assert!(!c.is_lost() && c.answers(&batch).rows(0).is_err())
        }
        assert_eq!(c.execute("SELECT * FROM part").expect("a count"), 0);
        // A statement is one client's; many parameters are one statement's.
        let mut d = connect(&whereto);
        assert_eq!(
            d.query(&insert, &[ValueRef::Int4(1)]).map(|_| ()).expect_err("not its").sqlstate(),
            "26000"
        );
        let many: Vec<String> = (1..=5_000).map(|n| format!("${n}::int4")).collect();
        let s = d.prepare(&format!("SELECT cardinality(ARRAY[{}])", many.join(", "))).expect("a statement");
        assert_eq!(one::<i32>(&d.query(&s, &vec![ValueRef::Int4(1); 5_000]).expect("a row")), 5_000);
        // A zero byte would be a text's end.
        assert_eq!(d.execute("SELECT 1 \0 nonsense").expect_err("a zero").sqlstate(), "22021")
    }
}

/// A server that has no memory to give is talked to over the socket, unless memory is required.
#[test]
fn memory_is_not_all_there_is() {
    let served = Served::new();
    let carriers = |c: &mut Client| -> i64 {
        let s = c.prepare("SELECT count(*) FROM pg_stat_activity").expect("a statement");
        one(&c.query(&s, &[]).expect("a row"))
    };
    let mut c = Client::connect(&served.path.display().to_string()).expect("a session");
    assert_eq!(carriers(&mut c), 1);
    let other = ondol::TempFolder::new().expect("a folder");
    let socket = other.path().join(".s.PGSQL.5432");
    // It refuses memory, and hands what comes over the socket on.
    let listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let whole = served.path.join(".s.PGSQL.5432");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut near, whole) = (stream.expect("a client"), whole.clone());
            std::thread::spawn(move || {
                let mut first = [0; 8];
                std::io::Read::read_exact(&mut near, &mut first).expect("a beginning");
                if first == ondol_base::shm::REQUEST {
                    return std::io::Write::write_all(&mut near, b"N").expect("an answer");
                }
                let mut far = std::os::unix::net::UnixStream::connect(whole).expect("the server");
                std::io::Write::write_all(&mut far, &first).expect("room");
                let (mut a, mut b) = (near.try_clone().expect("it"), far.try_clone().expect("it"));
                std::thread::spawn(move || std::io::copy(&mut a, &mut b));
                let _ = std::io::copy(&mut far, &mut near);
            });
        }
    });
    let folder = other.path().display();
    let mut d = connect(&format!("postgres:///?host={folder}&memory=prefer"));
    assert_eq!(carriers(&mut d), 2);
    let e = Client::connect(&format!("postgres:///?host={folder}&memory=require")).map(|_| ());
    assert!(e.expect_err("no memory").to_string().contains("the server has no memory to share"));
    let address = Address::parse("postgres://h").expect("an address").expect("an address");
    assert_eq!(address.with_memory(SharedMemory::Prefer).to_string(), "h:5432");
    assert!(Address::in_folder(Path::new("/nowhere")).is_none())
}

#[test]
fn statements_are_broken_off() {
    let served = Served::new();
    for whereto in served.ways() {
        let mut c = connect(&whereto);
        let sleep = c.prepare("SELECT pg_sleep(600)").expect("a statement");
        let canceller = c.canceller();
        let began = Instant::now();
        let teller = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            canceller.cancel()
        });
        let e = c.query(&sleep, &[]).map(|_| ()).expect_err("broken off");
        assert_eq!(e.sqlstate(), "57014");
        teller.join().expect("no panic");
        // Many rows, of which a few are wanted; what comes next is not what is broken off.
        let many = c.prepare("SELECT g FROM generate_series(1, 1000000000) g").expect("a statement");
        for _ in 0..20 {
            let mut taken = 0;
            c.for_each(&many, &[], |row| {
                taken += 1;
                Ok(row.get::<i32>(0)? < 1000)
            })
            .expect("rows");
            assert_eq!(taken, 1000);
            let s = c.prepare("SELECT 1").expect("a statement");
            assert_eq!(one::<i32>(&c.query(&s, &[]).expect("a row")), 1)
        }
        let e = c.for_each(&many, &[], |row| row.get::<&str>(0).map(|_| true)).expect_err("no text");
        assert_eq!(e.sqlstate(), "42804");
        assert!(began.elapsed() < 3 * LIMIT)
    }
    served.has(0)
}

static NOTICES: AtomicU64 = AtomicU64::new(0);

#[test]
fn notices_are_told() {
    let served = Served::new();
    for (n, whereto) in served.ways().iter().enumerate() {
        let address = Address::parse(whereto).expect("an address").expect("an address");
        let mut c = Client::connect_to(&address, "noticing", |notice| {
            assert_eq!(notice.severity, "NOTICE");
            assert!(notice.what.to_string().contains("does not exist, skipping"));
            NOTICES.fetch_add(1, Ordering::Relaxed);
        })
        .expect("a session");
        c.execute("DROP TABLE IF EXISTS nothing").expect("a notice");
        let s = c.prepare("DROP TABLE IF EXISTS nothing").expect("a statement");
        c.query(&s, &[]).expect("a notice");
        assert_eq!(NOTICES.load(Ordering::Relaxed), 2 * (n as u64 + 1))
    }
}

#[test]
fn a_server_that_ends_is_noticed() {
    for way in 0..3 {
        let mut served = Served::new();
        let mut c = connect(&served.ways()[way]);
        let s = c.prepare("SELECT 1").expect("a statement");
        served.server.take().expect("a server").stop().expect("it ends");
        let e = c.query(&s, &[]).map(|_| ()).expect_err("nobody is there");
        assert!(["57P01", "08006"].contains(&e.sqlstate()), "{e}");
        assert!(c.is_lost());
        assert_eq!(c.query(&s, &[]).map(|_| ()).expect_err("lost").sqlstate(), "08003")
    }
}
