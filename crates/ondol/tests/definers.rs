//! Sessions that change definitions side by side, in scenes; what PostgreSQL 15 does is the same, but where
//! the scene says otherwise.
//!
//! ```text
//! 1: statement                   session 1 runs it, and it succeeds
//! 2: statement -- 42P01          it fails so
//! 2: statement -- waits          it waits for another session; meanwhile the others go on
//! 1: statement -- 2 42P01        when that is over session 2's statement fails so; `ok`: it succeeds
//! 1: query == 3                  it gives one value
//! ```
use ondol::{Database, OpenOptions, Session, TempFolder};
use ondol_engine::Waiter;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

struct Actor {
    send: Sender<String>,
    receive: Receiver<String>,
    waiter: Waiter,
    waits: bool,
}

fn run(session: &mut Session, sql: &str) -> String {
    match session.execute(sql) {
        Err(e) => e.sqlstate().to_string(),
        Ok(outcomes) => match outcomes.last().and_then(|o| o.rows.as_ref()) {
            Some(rows) => {
                let mut text = String::new();
                rows.row(0).text(0, &mut text);
                format!("= {text}")
            }
            None => "ok".into(),
        },
    }
}

impl Actor {
    fn new(db: &Database) -> Actor {
        let (send, jobs) = channel::<String>();
        let (answers, receive) = channel();
        let mut session = db.session();
        session.execute("SET lock_timeout = '20s'").unwrap();
        let waiter = session.waiter();
        std::thread::spawn(move || {
            for sql in jobs {
                if answers.send(run(&mut session, &sql)).is_err() {
                    return;
                }
            }
        });
        Actor { send, receive, waiter, waits: false }
    }
    /// Its statement's end, or `None` when it waits for another session.
    fn answer(&self) -> Option<String> {
        let mut looks = 0;
        loop {
            match self.receive.recv_timeout(Duration::from_millis(20)) {
                Ok(answer) => return Some(answer),
                Err(RecvTimeoutError::Timeout) if self.waiter.is_waiting() => {
                    looks += 1;
                    if looks == 5 {
                        return None;
                    }
                }
                Err(RecvTimeoutError::Timeout) => looks = 0,
                Err(RecvTimeoutError::Disconnected) => panic!("a session has panicked"),
            }
        }
    }
}

fn play(scene: &str) {
    let folder = TempFolder::new().unwrap();
    let db = OpenOptions::new().memory_limit(64 << 20).open(folder.path()).unwrap();
    let mut actors: BTreeMap<String, Actor> = BTreeMap::new();
    for line in scene.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let (who, rest) = line.split_once(": ").unwrap_or_else(|| panic!("no session in: {line}"));
        let (sql, ends) = rest.split_once(" -- ").unwrap_or((rest, ""));
        let (sql, value) =
            sql.split_once(" == ").map_or((sql, "ok".to_string()), |(s, v)| (s, format!("= {v}")));
        let actor = actors.entry(who.into()).or_insert_with(|| Actor::new(&db));
        assert!(!actor.waits, "{line}: it waits\nin {scene}");
        actor.send.send(sql.to_string()).unwrap();
        let answer = actor.answer();
        let mut ends: Vec<&str> = ends.split(", ").filter(|e| !e.is_empty()).collect();
        let own = match ends.first() {
            Some(e) if !e.contains(' ') => ends.remove(0).to_string(),
            _ => value,
        };
        actor.waits = answer.is_none();
        assert_eq!(answer.unwrap_or("waits".into()), own, "{line}\nin {scene}");
        for end in ends {
            let (who, expected) = end.split_once(' ').unwrap();
            let other = actors.get_mut(who).unwrap();
            assert!(other.waits, "{line}: {who} does not wait\nin {scene}");
            let answer = other.answer();
            other.waits = answer.is_none();
            let answer = answer.as_deref().unwrap_or("waits");
            let answer = if answer.starts_with('=') { "ok" } else { answer };
            assert_eq!(answer, expected, "{line}: {who}\nin {scene}");
        }
        for (who, other) in actors.iter().filter(|a| a.1.waits) {
            if let Ok(answer) = other.receive.recv_timeout(Duration::ZERO) {
                panic!("{line}: {who} has ended with {answer}\nin {scene}")
            }
        }
    }
    assert!(actors.values().all(|a| !a.waits), "somebody waits still\nin {scene}");
    drop(actors);
    // A restart finds what everyone goes by.
    let known = known(&db);
    // The sessions' threads end by themselves.
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    db.close().unwrap();

    let db = loop {
        match Database::open(folder.path()) {
            Ok(db) => break db,
            Err(e) => assert!(std::time::Instant::now() < deadline, "{e}"),
        }
        std::thread::sleep(Duration::from_millis(5))
    };
    assert_eq!(self::known(&db), known, "after a restart\nin {scene}");
}

/// The dictionary.
fn known(db: &Database) -> String {
    let c = db.session().catalog();
    let tables: Vec<_> = c.tables().map(|t| (&t.def, t.heaps)).collect();
    let indexes: Vec<_> = c.indexes().collect();
    let sequences: Vec<_> = c.sequences().map(|s| (&s.def, s.state())).collect();
    let state = |(def, (value, _, is_given))| format!("{def:?} at {value} {is_given}");
    let sequences: Vec<String> = sequences.into_iter().map(state).collect();
    format!("{tables:?} {indexes:?} {:?} {:?} {:?} {sequences:?}", c.schemas, c.functions, c.types)
}

#[test]
fn schemas_are_changed_beside_others() {
    for scene in [
        // What is made in a schema, and what names it, waits for its end, and it for them.
        "1: CREATE SCHEMA s
         1: BEGIN
         1: CREATE TABLE s.t (a integer)
         2: CREATE TABLE s.u (a integer)
         2: DROP SCHEMA s -- waits
         1: COMMIT -- 2 2BP01
         2: BEGIN
         2: DROP SCHEMA s CASCADE
         1: CREATE TABLE s.v (a integer) -- waits
         2: COMMIT -- 1 3F000",
        "1: CREATE SCHEMA s
         1: BEGIN
         1: ALTER SCHEMA s RENAME TO z
         2: CREATE TYPE s.e AS ENUM ('a') -- waits
         3: CREATE SCHEMA z -- waits
         1: ROLLBACK -- 2 ok, 3 ok
         2: DROP SCHEMA s -- 2BP01",
        // One name, made twice.
        "1: BEGIN
         1: CREATE SCHEMA s
         2: CREATE SCHEMA s -- waits
         1: COMMIT -- 2 42P06
         1: CREATE TABLE t (a integer)
         1: BEGIN
         1: ALTER TABLE t SET SCHEMA s
         2: CREATE TABLE s.t (a integer) -- waits
         1: COMMIT -- 2 42P07",
        // A table that is renamed while its schema is to go.
        "1: CREATE SCHEMA s
         1: CREATE TABLE s.t (a integer)
         1: BEGIN
         1: ALTER TABLE s.t RENAME TO u
         2: DROP SCHEMA s CASCADE -- waits
         1: COMMIT -- 2 ok
         2: CREATE TABLE s.t (a integer) -- 3F000",
    ] {
        play(scene)
    }
}

#[test]
fn sequences_are_changed_beside_others() {
    for scene in [
        // Who wants a value of a sequence that is changed waits for what becomes of it.
        "1: CREATE SEQUENCE s
         1: BEGIN
         1: ALTER SEQUENCE s RESTART WITH 100
         2: SELECT nextval('s') -- waits
         1: SELECT nextval('s') == 100
         1: COMMIT -- 2 ok
         2: SELECT currval('s') == 101
         3: SELECT nextval('s') == 102",
        "1: CREATE SEQUENCE s
         1: SELECT nextval('s') == 1
         1: BEGIN
         1: ALTER SEQUENCE s RESTART WITH 100
         2: SELECT setval('s', 50) -- waits
         1: SELECT nextval('s') == 100
         1: ROLLBACK -- 2 ok
         1: SELECT nextval('s') == 51",
        "1: CREATE SEQUENCE s
         1: BEGIN
         1: SAVEPOINT a
         1: ALTER SEQUENCE s INCREMENT 10
         2: SELECT nextval('s') -- waits
         1: ROLLBACK TO a -- 2 ok
         1: SELECT nextval('s') == 2
         1: COMMIT",
        "1: CREATE SEQUENCE s
         1: BEGIN
         1: DROP SEQUENCE s
         2: SELECT nextval('s') -- waits
         1: COMMIT -- 2 42P01",
        // Two that wait for each other (PostgreSQL's nextval has such a lock, too).
        "1: CREATE SEQUENCE s
         1: CREATE SEQUENCE r
         1: BEGIN
         2: BEGIN
         1: ALTER SEQUENCE s RESTART
         2: ALTER SEQUENCE r RESTART
         1: SELECT nextval('r') -- waits
         2: SELECT nextval('s') -- 40P01, 1 ok
         2: ROLLBACK
         1: ROLLBACK",
        // Its name is one of tables and indexes, too.
        "1: BEGIN
         1: CREATE SEQUENCE s
         2: CREATE TABLE s (a integer) -- waits
         1: COMMIT -- 2 42P07",
        "1: BEGIN
         1: CREATE TABLE t (a serial)
         2: CREATE SEQUENCE t_a_seq -- waits
         1: COMMIT -- 2 42P07",
        // What a default names stays.
        "1: CREATE SEQUENCE s
         1: BEGIN
         1: CREATE TABLE t (a integer DEFAULT nextval('s'))
         2: DROP SEQUENCE s -- waits
         1: COMMIT -- 2 2BP01",
        "1: CREATE TABLE t (a serial)
         1: INSERT INTO t DEFAULT VALUES
         1: BEGIN
         1: TRUNCATE t RESTART IDENTITY
         2: SELECT nextval('t_a_seq') -- waits
         1: COMMIT -- 2 ok
         2: SELECT currval('t_a_seq') == 1",
        // Cached values are the session's own.
        "1: CREATE SEQUENCE s CACHE 10
         1: SELECT nextval('s') == 1
         2: SELECT nextval('s') == 11
         1: SELECT nextval('s') == 2
         2: ALTER SEQUENCE s INCREMENT 5
         1: SELECT nextval('s') == 25
         2: SELECT nextval('s') == 75",
    ] {
        play(scene)
    }
}

#[test]
fn tables_are_altered_beside_others() {
    for scene in [
        // Rows that others have not committed are looked at when they have.
        "1: CREATE TABLE t (a integer)
         1: BEGIN
         1: INSERT INTO t VALUES (-1)
         2: ALTER TABLE t ADD CHECK (a > 0) -- waits
         1: COMMIT -- 2 23514
         2: DELETE FROM t
         2: ALTER TABLE t ADD CHECK (a > 0)
         1: INSERT INTO t VALUES (-1) -- 23514",
        // What its check and default call stays (there is no wait for it in PostgreSQL, nor a dependency).
        "1: CREATE TABLE t (a integer)
         1: CREATE FUNCTION g(integer) RETURNS boolean LANGUAGE sql AS 'SELECT $1 > 0'
         1: CREATE FUNCTION h() RETURNS integer STABLE LANGUAGE sql AS 'SELECT 7'
         1: BEGIN
         1: ALTER TABLE t ADD CHECK (g(a)), ADD COLUMN z integer DEFAULT h()
         2: DROP FUNCTION g(integer) -- waits
         3: DROP FUNCTION h() -- waits
         1: COMMIT -- 2 2BP01, 3 2BP01
         1: INSERT INTO t VALUES (1)
         1: SELECT z FROM t == 7",
        "1: CREATE TABLE t (a integer)
         1: CREATE FUNCTION g(integer) RETURNS boolean LANGUAGE sql AS 'SELECT $1 > 0'
         1: BEGIN
         1: DROP FUNCTION g(integer)
         2: ALTER TABLE t ADD CHECK (g(a)) -- waits
         1: COMMIT -- 2 42883
         2: INSERT INTO t VALUES (1)",
        // What was waited for changes nothing of what a transaction has begun.
        "1: CREATE TABLE other (x integer)
         1: INSERT INTO other VALUES (9)
         1: CREATE TABLE t (a integer)
         1: INSERT INTO t VALUES (1)
         1: CREATE FUNCTION h() RETURNS integer STABLE LANGUAGE sql AS 'SELECT max(x) FROM other'
         3: BEGIN
         3: ALTER TABLE other ADD COLUMN y integer
         2: BEGIN
         2: ALTER TABLE t ADD COLUMN r double precision DEFAULT random(), ADD COLUMN z integer DEFAULT h() -- waits
         3: ROLLBACK -- 2 ok
         2: COMMIT
         1: SELECT (a, r < 2, z) = (1, true, 9) FROM t == t
         1: INSERT INTO t VALUES (1, 2, 3)
         1: INSERT INTO t VALUES (1, 2, 3, 4) -- 42601",
        // A table that is empty when it is looked at, and is not when it is waited for.
        "1: CREATE TABLE t (a integer)
         1: BEGIN
         1: SELECT count(*) FROM t == 0
         2: BEGIN
         2: ALTER TABLE t ADD COLUMN c timestamptz DEFAULT now() -- waits
         1: INSERT INTO t VALUES (1)
         1: COMMIT -- 2 ok
         2: COMMIT
         1: SELECT count(c) FROM t == 1",
        // Who comes later is held to the check.
        "1: CREATE TABLE t (a integer)
         1: PREPARE q AS INSERT INTO t VALUES (-2)
         2: PREPARE q AS INSERT INTO t VALUES (-2)
         2: EXECUTE q
         2: DELETE FROM t
         1: BEGIN
         1: ALTER TABLE t ADD CHECK (a > 0)
         2: EXECUTE q -- waits
         3: INSERT INTO t VALUES (1) -- waits
         1: COMMIT -- 2 23514, 3 ok",
        "1: CREATE TABLE t (a integer)
         1: BEGIN
         1: ALTER TABLE t RENAME TO u
         2: ALTER TABLE t RENAME TO v -- waits
         3: CREATE TABLE u (b integer) -- waits
         1: COMMIT -- 2 42P01, 3 42P07",
        "1: CREATE TABLE t (a integer)
         1: CREATE INDEX i ON t (a)
         1: BEGIN
         1: ALTER INDEX i RENAME TO j
         2: CREATE INDEX j ON t (a) -- waits
         3: DROP INDEX i -- waits
         1: ROLLBACK -- 2 ok, 3 ok
         1: ALTER TABLE t RENAME TO i",
        // A function that returns a table's rows needs it to stay as it is.
        "1: CREATE TABLE t (a integer)
         1: BEGIN
         1: ALTER TABLE t RENAME a TO b
         2: CREATE FUNCTION f() RETURNS SETOF t LANGUAGE sql AS 'SELECT * FROM t' -- waits
         1: COMMIT -- 2 ok
         1: INSERT INTO t VALUES (5)
         2: SELECT b FROM f() == 5
         1: ALTER TABLE t RENAME TO u
         2: SELECT b FROM f() -- 42P01",
        "1: CREATE TABLE t (a integer)
         1: INSERT INTO t VALUES (1)
         1: BEGIN
         1: ALTER TABLE t ADD b integer DEFAULT 2
         2: SELECT count(*) FROM t -- waits
         3: UPDATE t SET a = 3 -- waits
         1: COMMIT -- 2 ok, 3 ok
         1: SELECT a + b FROM t == 5",
        // Rows that are copied are none of an older snapshot's.
        "1: CREATE TABLE t (a integer)
         1: CREATE TABLE u (a integer)
         1: INSERT INTO t VALUES (1)
         2: BEGIN ISOLATION LEVEL REPEATABLE READ
         2: SELECT count(*) FROM u == 0
         1: ALTER TABLE t ALTER a TYPE bigint
         2: SELECT count(*) FROM t -- 40001
         2: ROLLBACK
         2: SELECT sum(a) FROM t == 1",
        // Those that stay as they are it finds.
        "1: CREATE TABLE t (a integer)
         1: CREATE TABLE u (a integer)
         1: INSERT INTO t VALUES (1)
         2: BEGIN ISOLATION LEVEL REPEATABLE READ
         2: SELECT count(*) FROM u == 0
         1: ALTER TABLE t ADD b integer DEFAULT 2
         1: UPDATE t SET b = 3
         2: SELECT sum(b) FROM t == 2
         2: COMMIT
         2: SELECT sum(b) FROM t == 3",
        // A type whose name stands in a check stays.
        "1: CREATE DOMAIN d AS integer CHECK (VALUE < 10)
         1: CREATE TABLE t (a integer)
         1: BEGIN
         1: ALTER TABLE t ADD CONSTRAINT c CHECK (a::d > 0)
         2: DROP DOMAIN d -- waits
         1: COMMIT -- 2 2BP01
         1: ALTER TABLE t DROP CONSTRAINT c
         2: DROP DOMAIN d",
        // PostgreSQL looks at rows that the transaction does not see.
        "1: CREATE TABLE t (a integer)
         1: BEGIN ISOLATION LEVEL REPEATABLE READ
         1: ALTER TABLE t ADD CHECK (a > 0) -- 0A000
         1: ROLLBACK
         1: ALTER TABLE t ADD CHECK (a > 0)",
    ] {
        play(scene)
    }
}

#[test]
fn names_are_waited_for() {
    for scene in [
        "1: BEGIN
         1: CREATE TABLE t (a integer)
         2: CREATE TABLE t (b integer) -- waits
         1: COMMIT -- 2 42P07",
        "1: BEGIN
         1: CREATE TABLE t (a integer)
         2: CREATE TABLE t (b integer) -- waits
         3: CREATE TABLE t (c integer) -- waits
         1: ROLLBACK -- 2 ok, 3 42P07
         1: INSERT INTO t (b) VALUES (1)",
        // PostgreSQL: 23505, as for all names that another's commit has taken.
        "1: BEGIN
         1: CREATE TABLE t (a integer)
         2: CREATE TABLE IF NOT EXISTS t (b integer) -- waits
         1: COMMIT -- 2 ok
         2: SELECT count(a) FROM t == 0",
        // What is not committed is not there.
        "1: BEGIN
         1: CREATE TABLE t (a integer)
         2: DROP TABLE t -- 42P01
         2: SELECT 1 FROM t -- 42P01
         2: CREATE INDEX ON t (a) -- 42P01
         2: TRUNCATE t -- 42P01
         1: COMMIT
         2: DROP TABLE t",
        "1: CREATE TABLE t (a integer)
         1: BEGIN
         1: DROP TABLE t
         2: DROP TABLE t -- waits
         3: DROP TABLE IF EXISTS t -- waits
         1: COMMIT -- 2 42P01, 3 ok",
        // It is there until that is committed.
        "1: CREATE TABLE t (a integer)
         1: BEGIN
         1: DROP TABLE t
         2: CREATE TABLE t (b integer) -- 42P07
         1: COMMIT
         2: CREATE TABLE t (b integer)",
        "1: CREATE TABLE t (a integer)
         1: CREATE TABLE u (a integer)
         1: BEGIN
         1: CREATE INDEX i ON t (a)
         2: CREATE INDEX i ON u (a) -- waits
         3: CREATE TABLE i (a integer) -- waits
         1: COMMIT -- 2 42P07, 3 42P07",
        // An index without a name gets another.
        "1: CREATE TABLE t (a_b integer)
         1: CREATE TABLE t_a (b integer)
         1: BEGIN
         1: CREATE INDEX ON t (a_b)
         2: CREATE INDEX ON t_a (b) -- waits
         1: COMMIT -- 2 ok
         1: DROP INDEX t_a_b_idx
         1: DROP INDEX t_a_b_idx1",
        "1: BEGIN
         1: CREATE FUNCTION f(integer) RETURNS integer LANGUAGE sql AS 'SELECT 1'
         2: CREATE FUNCTION f(text) RETURNS integer LANGUAGE sql AS 'SELECT 2'
         2: CREATE FUNCTION f(integer) RETURNS integer LANGUAGE sql AS 'SELECT 3' -- waits
         3: CREATE OR REPLACE FUNCTION f(integer) RETURNS integer LANGUAGE sql AS 'SELECT 4' -- waits
         1: COMMIT -- 2 42723, 3 ok
         1: SELECT f(0) == 4",
        "1: BEGIN
         1: CREATE FUNCTION f(integer) RETURNS integer LANGUAGE sql AS 'SELECT 1'
         2: DROP FUNCTION f(integer) -- 42883
         1: COMMIT",
        "1: BEGIN
         1: CREATE TYPE m AS ENUM ('a')
         2: CREATE TYPE m AS ENUM ('b') -- waits
         3: CREATE DOMAIN m AS integer -- waits
         1: ROLLBACK -- 2 ok, 3 42710",
    ] {
        play(scene)
    }
}

#[test]
fn what_is_unrelated_is_not_waited_for() {
    for scene in [
        "1: CREATE TABLE t (a integer)
         1: CREATE TABLE u (a integer)
         1: BEGIN
         1: ALTER TABLE t ADD PRIMARY KEY (a)
         1: CREATE TABLE v (a integer PRIMARY KEY)
         2: CREATE INDEX ON u (a)
         2: BEGIN
         2: CREATE TABLE w (a integer PRIMARY KEY)
         2: DROP TABLE u
         2: CREATE TYPE m AS ENUM ('a')
         2: CREATE FUNCTION f() RETURNS integer LANGUAGE sql AS 'SELECT 1'
         2: INSERT INTO w VALUES (1)
         1: INSERT INTO v VALUES (1)
         1: INSERT INTO u VALUES (1) -- waits
         2: COMMIT -- 1 42P01
         1: ROLLBACK
         2: SELECT count(*) FROM w == 1
         2: SELECT count(*) FROM v -- 42P01
         2: INSERT INTO t VALUES (NULL)",
        // Each sees what the other has committed, at its next statement.
        "1: BEGIN
         1: CREATE TABLE t (a integer)
         2: BEGIN
         2: CREATE TABLE u (a integer)
         1: SELECT count(*) FROM u -- 42P01
         1: ROLLBACK
         1: BEGIN
         1: CREATE TABLE t (a integer)
         2: COMMIT
         1: SELECT count(*) FROM u == 0
         1: CREATE INDEX ON u (a)
         1: COMMIT
         2: SELECT count(*) FROM t == 0",
        // A table is made of a query, while others change definitions.
        "1: CREATE TABLE t AS SELECT 1 AS a
         1: BEGIN
         1: CREATE TABLE u (a integer)
         2: BEGIN
         2: CREATE TABLE v AS SELECT a FROM t
         1: COMMIT
         2: CREATE TABLE w AS SELECT a FROM v
         2: COMMIT
         1: SELECT a FROM w == 1",
    ] {
        play(scene)
    }
}

#[test]
fn what_is_rested_on_stays() {
    for scene in [
        "1: CREATE TYPE m AS ENUM ('a')
         1: BEGIN
         1: CREATE TABLE t (m m)
         2: DROP TYPE m -- waits
         1: COMMIT -- 2 2BP01",
        "1: CREATE TYPE m AS ENUM ('a')
         1: BEGIN
         1: CREATE TABLE t (m m)
         2: DROP TYPE m -- waits
         1: ROLLBACK -- 2 ok",
        // Several may rest on one.
        "1: CREATE TYPE m AS ENUM ('a')
         1: BEGIN
         1: CREATE TABLE t (m m)
         2: BEGIN
         2: CREATE TABLE u (m m)
         2: COMMIT
         1: COMMIT",
        "1: CREATE TYPE m AS ENUM ('a')
         1: BEGIN
         1: DROP TYPE m
         2: CREATE TABLE t (m m) -- waits
         3: CREATE FUNCTION f(m) RETURNS integer LANGUAGE sql AS 'SELECT 1' -- waits
         4: CREATE DOMAIN d AS m -- waits
         1: COMMIT -- 2 42704, 3 42704, 4 42704",
        // PostgreSQL goes by the type's number and does not wait.
        "1: CREATE TYPE m AS ENUM ('a')
         1: BEGIN
         1: ALTER TYPE m RENAME VALUE 'a' TO 'b'
         2: CREATE TABLE t (m m DEFAULT 'a') -- waits
         1: COMMIT -- 2 22P02",
        "1: CREATE TYPE m AS ENUM ('a')
         1: BEGIN
         1: CREATE TABLE t (b boolean DEFAULT ('a'::m IS NULL))
         2: ALTER TYPE m RENAME VALUE 'a' TO 'b' -- waits
         1: COMMIT -- 2 0A000",
        "1: CREATE TABLE t (a integer)
         1: BEGIN
         1: DROP TABLE t
         2: CREATE FUNCTION f() RETURNS SETOF t LANGUAGE sql AS 'SELECT 1' -- waits
         1: COMMIT -- 2 42704",
        "1: CREATE TABLE t (a integer)
         1: BEGIN
         1: CREATE FUNCTION f() RETURNS SETOF t LANGUAGE sql AS 'SELECT 1'
         2: CREATE INDEX ON t (a)
         2: DROP TABLE t -- waits
         1: COMMIT -- 2 2BP01",
    ] {
        play(scene)
    }
}

#[test]
fn savepoints_and_errors_let_go() {
    for scene in [
        "1: CREATE TABLE t (a integer)
         1: BEGIN
         1: CREATE TABLE u (a integer)
         1: SAVEPOINT s
         1: DROP TABLE t
         1: CREATE TABLE v (a integer)
         2: SELECT count(*) FROM t -- waits
         3: CREATE TABLE v (b integer) -- waits
         4: CREATE TABLE u (b integer) -- waits
         1: ROLLBACK TO s -- 2 ok, 3 ok
         1: SELECT count(b) FROM v == 0
         1: INSERT INTO t VALUES (1)
         1: COMMIT -- 4 42P07
         2: SELECT count(*) FROM t == 1",
        "1: BEGIN
         1: CREATE TABLE t (a integer)
         2: CREATE TABLE t (b integer) -- waits
         1: SELECT 1 / 0 -- 22012, 2 ok
         1: ROLLBACK",
        "1: CREATE TABLE t (a integer)
         1: BEGIN
         1: CREATE INDEX ON t (a)
         2: TRUNCATE t -- waits
         1: COMMIT -- 2 ok",
    ] {
        play(scene)
    }
}

#[test]
fn cycles_are_deadlocks() {
    for scene in [
        "1: CREATE TABLE t (a integer)
         1: CREATE TABLE u (a integer)
         1: BEGIN
         2: BEGIN
         1: DROP TABLE t
         2: DROP TABLE u
         1: DROP TABLE u -- waits
         2: DROP TABLE t -- 40P01, 1 ok",
        // A name against a row.
        "1: CREATE TABLE t (a integer)
         1: INSERT INTO t VALUES (1)
         1: BEGIN
         2: BEGIN
         1: UPDATE t SET a = 2
         2: CREATE TABLE n (a integer)
         1: CREATE TABLE n (a integer) -- waits
         2: UPDATE t SET a = 3 -- 40P01, 1 ok",
        // Both rest on a type, and would change it.
        "1: CREATE TYPE m AS ENUM ('a')
         1: BEGIN
         2: BEGIN
         1: CREATE TABLE t (m m)
         2: CREATE TABLE u (m m)
         1: ALTER TYPE m ADD VALUE 'b' -- waits
         2: ALTER TYPE m ADD VALUE 'c' -- 40P01, 1 ok",
        // Through one who stands before in the queue.
        "1: CREATE TYPE m AS ENUM ('a')
         1: BEGIN
         1: CREATE TABLE t (m m)
         2: BEGIN
         2: CREATE TABLE n (a integer)
         2: DROP TYPE m -- waits
         3: BEGIN
         3: CREATE TABLE o (a integer)
         3: CREATE TABLE u (m m) -- waits
         1: CREATE TABLE o (a integer) -- 40P01, 2 ok, 3 waits
         2: ROLLBACK -- 3 ok",
    ] {
        play(scene)
    }
}

/// Whoever gives up, for its time is over or it is told to, lets those behind it go on.
#[test]
fn waits_end_and_the_next_go_on() {
    for is_canceled in [false, true] {
        let folder = TempFolder::new().unwrap();
        let db = OpenOptions::new().memory_limit(64 << 20).open(folder.path()).unwrap();
        let mut open = db.session();
        open.execute("CREATE TYPE m AS ENUM ('a'); BEGIN; CREATE TABLE t (m m)").unwrap();
        let start = |limit: &str, sql: &'static str| {
            let mut session = db.session();
            session.execute(&format!("SET lock_timeout = '{limit}'; BEGIN")).unwrap();
            let (waiter, canceller) = (session.waiter(), session.canceller());
            let thread = std::thread::spawn(move || run(&mut session, sql));
            while !waiter.is_waiting() {
                assert!(!thread.is_finished(), "{sql}");
                std::thread::sleep(Duration::from_millis(1))
            }
            (thread, canceller)
        };
        let (first, canceller) = start(if is_canceled { "20s" } else { "400ms" }, "DROP TYPE m");
        let (second, _) = start("20s", "CREATE TABLE u (m m)");
        if is_canceled {
            canceller.cancel();
        }
        assert_eq!(first.join().unwrap(), if is_canceled { "57014" } else { "55P03" });
        assert_eq!(second.join().unwrap(), "ok");
        assert!(open.in_transaction());
    }
}

#[test]
fn advisory_locks_are_waited_for() {
    play(
        "1: select 1, pg_advisory_lock(1) == 1
         2: select pg_try_advisory_lock(1) == f
         2: select pg_try_advisory_lock_shared(1) == f
         2: select 1, pg_advisory_lock(1) -- waits
         1: select pg_advisory_unlock(1) == t -- 2 ok
         2: select pg_advisory_unlock(1) == t
         1: begin
         1: select 1, pg_advisory_xact_lock(1, 2) == 1
         2: select pg_try_advisory_lock(1, 2) == f
         2: select pg_try_advisory_lock(1, 3) == t
         2: select 1, pg_advisory_lock_shared(1, 2) -- waits
         1: commit -- 2 ok
         1: select pg_try_advisory_lock_shared(1, 2) == t
         1: set lock_timeout = 100
         1: select 1, pg_advisory_lock(1, 2) -- 55P03
         1: set lock_timeout = '20s'",
    );
    // A savepoint gives back what was taken for the transaction, not for the session.
    play(
        "1: begin
         1: savepoint s
         1: select 1, pg_advisory_xact_lock(1) == 1
         1: select 1, pg_advisory_lock(2) == 1
         1: rollback to s
         2: select pg_try_advisory_lock(1) == t
         2: select pg_try_advisory_lock(2) == f
         1: rollback
         2: select pg_try_advisory_lock(2) == f
         1: discard all
         2: select pg_try_advisory_lock(2) == t",
    );
    // Cycles of advisory locks, and with rows.
    play(
        "1: create table t (id int primary key, v int)
         1: insert into t values (1, 1)
         1: select 1, pg_advisory_lock(1) == 1
         2: select 1, pg_advisory_lock(2) == 1
         1: select 1, pg_advisory_lock(2) -- waits
         2: select 1, pg_advisory_lock(1) -- 40P01
         2: select pg_advisory_unlock(2) == t -- 1 ok
         1: discard all
         1: begin
         1: update t set v = 2 where id = 1
         2: begin
         2: select 1, pg_advisory_xact_lock(7) == 1
         2: update t set v = 3 where id = 1 -- waits
         1: select 1, pg_advisory_xact_lock(7) -- 40P01, 2 ok
         1: rollback
         2: commit",
    );
}

#[test]
fn tables_are_locked_for_the_transaction() {
    play(
        "1: create table t (id int primary key, v int)
         1: begin
         1: lock table t in access exclusive mode
         2: select count(*) from t -- waits
         3: begin
         3: lock table t in access share mode nowait -- 55P03
         3: rollback
         1: insert into t values (1, 1)
         1: commit -- 2 ok
         1: begin
         1: lock table t in row exclusive mode
         2: begin
         2: lock table t in row share mode nowait
         2: lock table t in access exclusive mode nowait -- 55P03
         2: rollback
         2: insert into t values (2, 2)
         2: alter table t add column w int -- waits
         1: commit -- 2 ok",
    );
    // SHARE UPDATE EXCLUSIVE is in its own way, and in nobody's who reads or writes.
    play(
        "1: create table t (id int primary key, v int)
         1: begin
         1: lock table t in share update exclusive mode
         2: insert into t values (1, 1)
         2: begin
         2: lock table t in share update exclusive mode nowait -- 55P03
         2: rollback
         2: begin
         2: lock table t in share update exclusive mode -- waits
         1: savepoint s
         1: rollback -- 2 ok
         2: commit",
    );
    // What is read is as new as the lock.
    play(
        "1: create table t (id int primary key, v int)
         1: begin
         1: lock table t
         1: insert into t values (1, 1)
         2: begin isolation level repeatable read
         2: lock table t in access share mode -- waits
         1: commit -- 2 ok
         2: select count(*) from t == 1
         2: commit",
    );
}

/// Each mode is in the way of those that it is in the way of in PostgreSQL.
#[test]
fn modes_of_table_locks_conflict_as_they_should() {
    let modes = [
        "access share",
        "row share",
        "row exclusive",
        "share update exclusive",
        "share",
        "share row exclusive",
        "exclusive",
        "access exclusive",
    ];
    // By the mode that one has, the modes that another can have beside it.
    let beside = [7, 6, 4, 3, 3, 2, 1, 0];
    let mut scene = "1: create table t (id int)\n".to_string();
    for (had, most) in modes.iter().zip(beside) {
        scene += &format!("1: begin\n1: lock table t in {had} mode\n");
        for (n, wanted) in modes.iter().enumerate() {
            let both_share =
                *had == "share" && matches!(*wanted, "share" | "share update exclusive" | "row exclusive");
            let conflicts = if both_share { *wanted != "share" } else { n >= most };
            let end = if conflicts { " -- 55P03" } else { "" };
            scene += &format!("2: begin\n2: lock table t in {wanted} mode nowait{end}\n2: rollback\n");
        }
        scene += "1: rollback\n"
    }
    play(&scene)
}

/// Writers are kept away, readers are not, and those who write already are waited for.
#[test]
fn tables_are_locked_from_writers() {
    play(
        "1: create table t (id int primary key, v int)
         1: create table u (id int)
         1: insert into t values (1, 1), (2, 2)
         2: begin
         2: select count(*) from t == 2
         1: begin
         1: lock table t in share mode
         2: select v from t where id = 1 == 1
         2: select v from t where id = 1 for update == 1
         2: insert into u select id from t
         2: update t set v = 5 where id = 2 -- waits
         3: insert into t values (3, 3) -- waits
         4: update t set v = 4 where id = 1 -- waits
         1: commit -- 2 ok, 3 ok, 4 waits
         2: commit -- 4 ok",
    );
    play(
        "1: create table t (id int primary key, v int)
         1: insert into t values (1, 1)
         2: begin
         2: update t set v = 2
         1: begin
         1: lock table t in share row exclusive mode -- waits
         3: update t set v = 3 -- waits
         2: update t set v = 4
         2: commit -- 1 ok
         1: update t set v = v + 1
         1: commit -- 3 ok
         3: select v from t == 3",
    );
    // Both share it, and then both would write.
    play(
        "1: create table t (id int)
         1: begin
         1: lock table t in share mode
         2: begin
         2: lock table t in share mode
         1: insert into t values (1) -- waits
         2: insert into t values (2) -- 40P01, 1 ok
         2: rollback
         1: commit
         1: select count(*) from t == 1",
    );
    // EXCLUSIVE keeps those away as well who lock rows, by a foreign key too.
    play(
        "1: create table p (id int primary key)
         1: create table c (p int references p)
         1: insert into p values (1)
         1: begin
         1: lock table p in exclusive mode
         2: select count(*) from p == 1
         2: select * from p for key share -- waits
         3: insert into c values (1) -- waits
         4: delete from c
         1: savepoint a
         1: commit -- 2 ok, 3 ok
         1: begin
         1: savepoint a
         1: lock table p in share mode
         2: insert into p values (2) -- waits
         1: rollback to a -- 2 ok
         1: commit",
    );
    // A definition takes the place of the lock, and the lock is there again without it.
    play(
        "1: create table t (id int)
         1: begin
         1: lock table t in exclusive mode
         1: savepoint a
         1: alter table t add column v int
         2: select count(*) from t -- waits
         1: rollback to a -- 2 ok
         2: insert into t values (1) -- waits
         1: commit -- 2 ok",
    );
}

/// Foreign keys are added beside those who use the tables. PostgreSQL lets no writer to them meanwhile, so
/// that there all of those wait who go on here.
#[test]
fn foreign_keys_are_added_beside_others() {
    let made = "1: create table p (a int primary key)
         1: create table c (x int)
         1: insert into p values (1), (2)
         1: insert into c values (1)\n";
    for valid in ["", "not valid"] {
        // Who would break it waits until it is there.
        play(&format!(
            "{made}
             2: begin
             2: insert into c values (2)
             3: begin
             3: select count(*) from c == 1
             4: alter table c add foreign key (x) references p {valid} -- waits
             5: insert into c values (1)
             5: delete from c where x = 1
             6: insert into c values (9) -- waits
             2: commit -- 4 ok, 6 23503
             3: insert into c values (9) -- 23503
             3: rollback
             5: delete from p where a = 2 -- 23503"
        ));
    }
    // A row that it does not hold of, which is there before everyone knows.
    play(&format!(
        "{made}
         2: begin
         2: insert into c values (7)
         3: alter table c add foreign key (x) references p -- waits
         4: insert into c values (9) -- waits
         5: delete from p where a = 1 -- waits
         2: commit -- 3 23503, 4 ok, 5 ok
         1: select count(*) from c == 3
         1: alter table c add foreign key (x) references p not valid
         1: alter table c validate constraint c_x_fkey -- 23503
         1: insert into c values (8) -- 23503
         1: delete from c where x <> 2
         1: alter table c validate constraint c_x_fkey"
    ));
    // What it would do to rows is done when it is there.
    play(&format!(
        "{made}
         2: begin
         2: update c set x = 1
         3: alter table c add foreign key (x) references p on delete cascade -- waits
         4: delete from p where a = 1 -- waits
         5: insert into c values (2)
         2: commit -- 3 ok, 4 ok
         1: select count(*) from c == 1"
    ));
    // Who has used the tables before waits for nobody who waits for him.
    play(&format!(
        "{made}
         2: begin
         2: insert into c values (1)
         3: alter table c add foreign key (x) references p -- waits
         2: insert into c values (9) -- 40P01, 3 ok
         2: rollback"
    ));
    // In a block, until that ends, or what was done there is taken back.
    play(&format!(
        "{made}
         2: begin
         2: savepoint s
         2: alter table c add constraint k foreign key (x) references p
         3: insert into c values (9) -- waits
         2: insert into c values (8) -- 23503, 3 ok
         2: rollback to s
         2: alter table c add constraint k foreign key (x) references p -- 23503
         2: rollback to s
         3: delete from c where x = 9
         2: alter table c add constraint k foreign key (x) references p
         3: insert into c values (9) -- waits
         2: rollback -- 3 ok
         1: drop table p"
    ));
    // Above READ COMMITTED, and for a table that is new, writers wait and readers do not, as in PostgreSQL.
    play(&format!(
        "{made}
         2: begin
         2: select count(*) from p == 2
         1: begin isolation level repeatable read
         1: alter table c add foreign key (x) references p
         2: select count(*) from c == 1
         3: insert into c values (9) -- waits
         4: delete from p where a = 1 -- waits
         1: commit -- 3 23503, 4 23503
         1: begin
         1: create table d (x int references p)
         1: insert into d values (2)
         2: select count(*) from p == 2
         2: select a from p where a = 2 for key share == 2
         4: delete from p where a = 2 -- waits
         1: commit -- 4 waits
         2: commit -- 4 23503"
    ));
    // Of a table that refers to itself, of two keys, and of a deferred one.
    play(
        "1: create table t (id int primary key, up int)
         1: create table p (a int primary key)
         1: insert into t values (1, 1)
         1: insert into p values (1)
         2: begin
         2: insert into t values (2, 1)
         3: alter table t add constraint u foreign key (up) references t, add constraint v foreign key (up) references p deferrable initially deferred -- waits
         4: begin
         4: insert into t values (3, 9) -- waits
         5: begin
         5: insert into t values (5, 5)
         5: commit -- waits
         2: commit -- 3 ok, 4 23503, 5 23503
         4: rollback
         1: drop table p cascade
         1: delete from t where id = 1 -- 23503",
    );
}

/// Rows are looked at by constraints that were NOT VALID while others change them.
#[test]
fn constraints_are_validated_beside_others() {
    play(
        "1: create table p (a int primary key)
         1: create table c (x int)
         1: insert into p values (1), (2)
         1: insert into c values (1)
         1: alter table c add constraint k foreign key (x) references p not valid, add constraint z check (x > 0) not valid
         2: begin
         2: insert into c values (2)
         2: update p set a = 3 where a = 2 -- 23503
         2: rollback
         2: begin
         2: insert into c values (2)
         2: update p set a = 3 where a = 3
         3: begin
         3: alter table c validate constraint k
         3: alter table c validate constraint z
         4: insert into c values (2)
         4: delete from p where a = 1 -- 23503
         4: insert into c values (0) -- 23514
         4: begin
         4: lock table c in share update exclusive mode nowait -- 55P03
         4: rollback
         3: select count(*) from pg_constraint where not convalidated == 0
         4: select count(*) from pg_constraint where not convalidated == 2
         3: commit
         4: select count(*) from pg_constraint where not convalidated == 0
         2: commit",
    );
    // A snapshot that is older than the copy of the table that is referred to shows none of its rows.
    play(
        "1: create table p (a int primary key, b int)
         1: create table c (x int references p)
         1: insert into p values (1, 1)
         2: begin isolation level repeatable read
         2: select count(*) from c == 0
         1: alter table p alter column b type bigint
         2: insert into c values (1) -- 40001
         2: rollback
         2: insert into c values (1)",
    );
    // Who changes the table that is referred to waits for the look, and the other way round.
    play(
        "1: create table p (a int primary key)
         1: create table c (x int)
         1: insert into p values (1)
         1: insert into c values (1)
         1: alter table c add constraint k foreign key (x) references p not valid
         2: begin
         2: alter table p add column b int
         3: alter table c validate constraint k -- waits
         2: commit -- 3 ok
         1: alter table c add constraint n foreign key (x) references p not valid
         2: begin
         2: alter table c validate constraint n
         3: alter table p add column d int -- waits
         2: commit -- 3 ok",
    );
}
