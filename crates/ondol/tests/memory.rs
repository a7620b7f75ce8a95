//! The memory limit: whatever a session makes grow is refused with 53200 at the limit, and given back at its
//! end.
use ondol::{Database, OpenOptions, Session, TempFolder};

const MIB: u64 = 1 << 20;

fn open(limit: u64) -> (TempFolder, Database) {
    let folder = TempFolder::new().unwrap();
    let db = OpenOptions::new().memory_limit(limit as usize).open(folder.path()).unwrap();
    (folder, db)
}
fn code(s: &mut Session, sql: &str) -> String {
    s.execute(sql).map_or_else(|e| e.sqlstate().to_string(), |_| String::new())
}
fn used(s: &mut Session) -> u64 {
    let rows = s.query("SELECT bytes FROM ondol_memory WHERE name = 'used'", &[]).unwrap();
    rows.row(0).get::<i64>(0).unwrap() as u64
}

#[test]
fn intermediate_rows_are_charged() {
    let (_folder, db) = open(48 * MIB);
    let mut s = db.session();
    s.execute(
        "CREATE TABLE t (a integer); INSERT INTO t VALUES (1);
         CREATE FUNCTION f() RETURNS SETOF integer LANGUAGE sql AS 'SELECT n FROM generate_series(1, 3000000) n ORDER BY n DESC'",
    )
    .unwrap();
    let before = used(&mut s);
    let many = "generate_series(1, 3000000)";
    for sql in [
        format!("SELECT count(*) FROM (SELECT n FROM {many} n ORDER BY -n OFFSET 1) s"),
        format!("SELECT count(*) FROM (SELECT DISTINCT n FROM {many} n) s"),
        format!("SELECT count(*) FROM (SELECT n, count(*) FROM {many} n GROUP BY n) s"),
        format!("SELECT count(*) FROM t JOIN {many} n ON t.a = n JOIN {many} m ON m = n + t.a - 1"),
        format!("SELECT count(DISTINCT n) FROM {many} n"),
        format!("SELECT length(string_agg('some text of twenty', ',')) FROM {many} n"),
        format!("SELECT a FROM t WHERE a NOT IN (SELECT n + 1 FROM {many} n)"),
        "SELECT count(*) FROM f()".to_string(),
        "SELECT length(repeat('x', 50000000))".to_string(),
    ] {
        assert_eq!(code(&mut s, &sql), "53200", "{sql}");
        assert!(used(&mut s) <= before + MIB, "{sql}: {} of {before} are left", used(&mut s));
    }
    let half = "SELECT count(n) FROM (SELECT n FROM generate_series(1, 600000) n ORDER BY -n OFFSET 1) s";
    assert_eq!(code(&mut s, half), "");
    // What others hold counts.
    let mut other = db.session();
    other.execute("CREATE TABLE u (b text); BEGIN").unwrap();
    while used(&mut s) < before.max(28 * MIB) {
        other.execute("INSERT INTO u SELECT 'a text of forty bytes, more or less, or so' FROM generate_series(1, 1000)").unwrap();
    }
    assert_eq!(code(&mut s, half), "53200");
    other.execute("ROLLBACK").unwrap();
}

/// Locks and reads take memory of their own, beside the rows.
#[test]
fn locks_and_reads_are_charged() {
    let (_folder, db) = open(40 * MIB);
    let mut s = db.session();
    s.execute(
        "CREATE TABLE t (a integer PRIMARY KEY); INSERT INTO t SELECT n FROM generate_series(1, 150000) n",
    )
    .unwrap();
    let before = used(&mut s);
    assert!(before < 24 * MIB, "{before}");
    s.execute("BEGIN").unwrap();
    assert_eq!(code(&mut s, "SELECT a FROM t FOR SHARE"), "53200");
    s.execute("ROLLBACK; BEGIN; SELECT a FROM t WHERE a < 20000 FOR SHARE").unwrap();
    assert!(used(&mut s) >= before + 3 * MIB, "{} after {before}", used(&mut s));
    s.execute("ROLLBACK").unwrap();
    assert!(used(&mut s) <= before + MIB, "{} after {before}", used(&mut s));
    s.execute("BEGIN ISOLATION LEVEL SERIALIZABLE").unwrap();
    let refused = (0..100).find_map(|_| s.execute("SELECT count(a) FROM t WHERE a > 0").err());
    assert_eq!(refused.unwrap().sqlstate(), "53200");
    s.execute("ROLLBACK").unwrap();
    assert!(used(&mut s) <= before + MIB, "{} after {before}", used(&mut s));
    assert_eq!(code(&mut s, "UPDATE t SET a = a WHERE a = 7"), "");
}

/// Asks, while pieces of COPY's text are written, what they are charged: at least their own bytes.
struct Asking {
    session: Session,
    before: u64,
    pieces: usize,
}
impl std::io::Write for Asking {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let used = used(&mut self.session);
        assert!(
            used >= self.before + bytes.len() as u64,
            "{used} after {}, for {}",
            self.before,
            bytes.len()
        );
        self.pieces += 1;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Text that workers made waits to be written; what one thread makes is written at once, and counts where a
/// row is long.
#[test]
fn text_that_is_copied_is_charged() {
    let (_folder, db) = open(256 * MIB);
    let mut s = db.session();
    s.execute(
        "SET max_parallel_workers_per_gather = 2; SET min_parallel_table_scan_size = 0;
         CREATE TABLE t (a integer, b text);
         INSERT INTO t SELECT n, repeat('x', 2000) FROM generate_series(1, 20000) n",
    )
    .unwrap();
    let before = used(&mut s);
    let mut asking = Asking { session: db.session(), before, pieces: 0 };
    s.copy_out("COPY t TO STDOUT (FORMAT csv)", &mut asking, |_| {}).unwrap();
    assert!(asking.pieces > 1, "{}", asking.pieces);
    let long = "COPY (SELECT repeat('x', 20000000)) TO STDOUT (FORMAT csv)";
    asking.pieces = 0;
    s.copy_out(long, &mut asking, |_| {}).unwrap();
    assert_eq!(asking.pieces, 1);
    assert!(used(&mut s) <= before + MIB, "{} after {before}", used(&mut s));
    // What is left is enough for the row itself, which is twice there while it is made, and not for its text
    // too, which is twice as long.
    let left = 256 * MIB - used(&mut s) - 50 * MIB;
    let filler =
        format!("INSERT INTO t SELECT 0, repeat('y', 4000) FROM generate_series(1, {})", left / 4096);
    s.execute(&filler).unwrap();
    s.query("SELECT repeat('\"', 20000000) = ''", &[]).unwrap();
    let e = s.copy_out("COPY (SELECT repeat('\"', 20000000)) TO STDOUT (FORMAT csv)", Vec::new(), |_| {});
    assert_eq!(e.unwrap_err().sqlstate(), "53200");
}

/// A deletion goes beyond the limit if it must: what is there can be removed, all at once.
#[test]
fn a_full_table_can_be_emptied_at_once() {
    for setup in [
        "CREATE TABLE t (a integer, b text)",
        "CREATE TABLE t (a integer PRIMARY KEY, b text); CREATE INDEX ON t USING hash (b)",
    ] {
        let (_folder, db) = open(48 * MIB);
        let mut s = db.session();
        s.execute(setup).unwrap();
        let before = used(&mut s);
        let mut n = 0;
        let more = |n: i64| {
            format!(
                "INSERT INTO t SELECT n, 'some text ' || n FROM generate_series({}, {}) n",
                n + 1,
                n + 2000
            )
        };
        while code(&mut s, &more(n)).is_empty() {
            n += 2000
        }
        assert_eq!(code(&mut s, &more(n)), "53200");
        let deleted = s.execute("DELETE FROM t").unwrap();
        assert_eq!(deleted[0].tag, format!("DELETE {n}"), "{setup}");
        // The memory comes back, for all uses.
        let start = std::time::Instant::now();
        while !code(&mut s, &more(n)).is_empty() {
            assert!(start.elapsed() < std::time::Duration::from_secs(60), "{} of {before}", used(&mut s));
            std::thread::sleep(std::time::Duration::from_millis(20))
        }
        assert_eq!(code(&mut s, "BEGIN; DELETE FROM t; ROLLBACK"), "");
        assert_eq!(s.query("SELECT count(*) FROM t", &[]).unwrap().row(0).get::<i64>(0).unwrap(), 2000);
    }
}

/// Who is told that it is idle keeps its transaction, its cursors and what it prepared, and little memory.
#[test]
fn an_idle_session_gives_its_memory_up() {
    let (_folder, db) = open(64 * MIB);
    let (mut s, mut look) = (db.session(), db.session());
    s.execute("CREATE TABLE t (a integer PRIMARY KEY, b text); INSERT INTO t SELECT g, 'b' FROM generate_series(1, 1000) g").unwrap();
    s.execute(
        "PREPARE p AS SELECT b FROM t WHERE a = $1; EXECUTE p(1);
         BEGIN; UPDATE t SET b = 'c' WHERE a = 1; SAVEPOINT s; UPDATE t SET b = 'd' WHERE a = 1;
         DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a; FETCH 10 FROM c",
    )
    .unwrap();
    let prepared = s.prepare("SELECT count(*) FROM t WHERE b = 'd'").unwrap();
    s.shrink();
    assert_eq!(s.execute("FETCH 10 FROM c").unwrap()[0].row(0).get::<i32>(0).unwrap(), 11);
    s.shrink();
    assert_eq!(s.query("SELECT b FROM t WHERE a = 1", &[]).unwrap().row(0).get::<&str>(0).unwrap(), "d");
    s.shrink();
    s.execute("ROLLBACK TO s").unwrap();
    s.shrink();
    assert_eq!(s.execute("EXECUTE p(1)").unwrap()[0].row(0).get::<&str>(0).unwrap(), "c");
    assert_eq!(s.execute_prepared(&prepared, &[]).unwrap().row(0).get::<i64>(0).unwrap(), 0);
    s.execute("COMMIT").unwrap();
    s.shrink();
    // A row's change is charged ahead in steps; of an idle session nothing is.
    let mut many: Vec<Session> = (0..50).map(|_| db.session()).collect();
    for (i, s) in many.iter_mut().enumerate() {
        s.execute(&format!("UPDATE t SET b = 'e' WHERE a = {}", i + 1)).unwrap();
    }
    let now = used(&mut look);
    many.iter_mut().for_each(Session::shrink);
    let then = used(&mut look);
    assert!(then + 50 * (32 << 10) < now, "{now} bytes were used, and {then} are");
}
