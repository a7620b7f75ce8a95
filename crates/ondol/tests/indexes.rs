//! Indexes on expressions, partial indexes, exclusion constraints: what becomes of them when definitions,
//! rows and the database go on.
#[path = "common/session.rs"]
mod session;
use ondol::{Database, TempFolder};
use session::{dumped, rows};

const TABLE: &str = "CREATE TABLE t (a int PRIMARY KEY, b text, c int);
    INSERT INTO t SELECT g, 'N' || g, g % 3 FROM generate_series(1, 100) g;
    CREATE FUNCTION twice(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 2'";

/// What makes indexes of table t, and what `pg_indexes` says of the table then.
const CASES: [(&str, &str); 15] = [
    ("CREATE UNIQUE INDEX i ON t (lower(b))", "i: btree (lower(b))"),
    (
        "CREATE INDEX i ON t (c, (a + c) DESC, lower(b)) INCLUDE (a)",
        "i: btree (c, ((a + c)) DESC, lower(b)) INCLUDE (a)",
    ),
    ("CREATE INDEX i ON t USING crtree (a, c) WITH (bits = 16)", "i: crtree (a, c) WITH (bits='16')"),
    ("CREATE UNIQUE INDEX i ON t (b) WHERE c = 1", "i: btree (b) WHERE (c = 1)"),
    (
        "CREATE UNIQUE INDEX i ON t USING hash (a) WHERE c > 0 AND b IS NOT NULL",
        "i: hash (a) WHERE ((c > 0) AND (b IS NOT NULL))",
    ),
    ("CREATE INDEX i ON t (twice(a)) WHERE twice(c) > 1", "i: btree (twice(a)) WHERE (twice(c) > 1)"),
    ("CREATE UNIQUE INDEX i ON t (b, c) NULLS NOT DISTINCT", "i: btree (b, c) NULLS NOT DISTINCT"),
    (
        "CREATE INDEX i ON t (b COLLATE \"C\" text_pattern_ops DESC)",
        "i: btree (b COLLATE \"C\" text_pattern_ops DESC)",
    ),
    (
        "ALTER TABLE t ADD CONSTRAINT i EXCLUDE USING btree ((a % 1000) WITH =) WHERE (c = 2)",
        "i: btree (((a % 1000))) WHERE (c = 2)",
    ),
    (
        "CREATE INDEX i ON t (lower(b)); CREATE INDEX j ON t (lower(b), a); DROP INDEX i",
        "j: btree (lower(b), a)",
    ),
    (
        "CREATE INDEX i ON t (lower(b)); DROP INDEX i; ALTER TABLE t ADD d int; CREATE INDEX i ON t ((d + 1))",
        "i: btree (((d + 1)))",
    ),
    (
        "CREATE INDEX i ON t (lower(b)); BEGIN; DROP INDEX i; CREATE INDEX i ON t (upper(b)); ROLLBACK",
        "i: btree (lower(b))",
    ),
    (
        "BEGIN; CREATE INDEX i ON t (lower(b)); SAVEPOINT s; CREATE INDEX j ON t (a) WHERE c = 1; ROLLBACK TO s; COMMIT",
        "i: btree (lower(b))",
    ),
    (
        "CREATE INDEX i ON t (lower(b)) WHERE c > 0; ALTER TABLE t RENAME b TO e; ALTER TABLE t RENAME e TO b; REINDEX TABLE t",
        "i: btree (lower(b)) WHERE (c > 0)",
    ),
    (
        "CREATE INDEX i ON t ((a + c)) WHERE c > 0; ALTER TABLE t ALTER c TYPE bigint; TRUNCATE t; INSERT INTO t VALUES (1, 'N1', 1)",
        "i: btree (((a + c))) WHERE (c > 0)",
    ),
];

const INDEXES: &str = "SELECT indexname || ': ' || split_part(indexdef, ' USING ', 2) FROM pg_indexes
    WHERE tablename = 't' AND indexname <> 't_pkey' ORDER BY 1";
const ROWS: &str = "SELECT a, b, c FROM t ORDER BY a";

fn ondol(args: &[&str], of: &str) {
    let done = std::process::Command::new(env!("CARGO_BIN_EXE_ondol")).args(args).output().expect("it runs");
    assert!(done.status.success(), "{of}: {args:?}: {}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn indexes_outlive_a_restart_a_checkpoint_and_a_dump() {
    for (made, expected) in CASES {
        let folder = TempFolder::new().expect("a folder");
        let path = folder.path().join("db");
        let open = || Database::open(&path).unwrap_or_else(|e| panic!("{made}: {e}"));
        let db = open();
        db.session().execute(TABLE).expect("a table");
        db.session().execute(made).unwrap_or_else(|e| panic!("{made}: {e}"));
        let before = rows(&mut db.session(), ROWS);
        assert_eq!(rows(&mut db.session(), INDEXES), [expected], "{made}");
        let dump = dumped(&mut db.session());
        // Once from the log alone, once from a checkpoint.
        drop(db);
        let db = open();
        assert_eq!(rows(&mut db.session(), INDEXES), [expected], "{made}: after recovery");
        db.session()
            .execute("UPDATE t SET b = b || 'x', c = c + 1; UPDATE t SET b = rtrim(b, 'x'), c = c - 1")
            .unwrap_or_else(|e| panic!("{made}: {e}"));
        db.close().expect("it closes");
        let db = open();
        assert_eq!(rows(&mut db.session(), INDEXES), [expected], "{made}: after it was closed");
        assert_eq!(rows(&mut db.session(), ROWS), before, "{made}: after it was closed");
        assert_eq!(dumped(&mut db.session()), dump, "{made}");
        drop(db);
        ondol(&["check", path.to_str().expect("a name")], made);
        let (file, again) = (folder.path().join("dump"), folder.path().join("again"));
        std::fs::write(&file, &dump).expect("a file");
        ondol(&["restore", again.to_str().expect("a name"), file.to_str().expect("a name")], made);
        let again = Database::open(again).expect("a database");
        assert_eq!(rows(&mut again.session(), INDEXES), [expected], "{made}: restored");
        assert_eq!(dumped(&mut again.session()), dump, "{made}: restored");
    }
}

/// Two sessions define and write side by side.
#[test]
fn an_index_on_an_expression_waits_for_who_writes_and_finds_all_rows() {
    let folder = TempFolder::new().expect("a folder");
    let db = Database::open(folder.path().join("db")).expect("a database");
    db.session().execute(TABLE).expect("a table");
    let mut writer = db.session();
    writer.execute("BEGIN; INSERT INTO t VALUES (200, 'Late', 1)").expect("a row");
    let definer = {
        let mut s = db.session();
        std::thread::spawn(move || s.execute("CREATE UNIQUE INDEX i ON t (lower(b)) WHERE c > 0").map(drop))
    };
    std::thread::sleep(std::time::Duration::from_millis(50));
    writer.execute("COMMIT").expect("a commit");
    definer.join().expect("it ends").expect("an index");
    let found = "SELECT a FROM t WHERE lower(b) = 'late' AND c > 0";
    assert_eq!(rows(&mut db.session(), found), ["200"]);
    let twice = db.session().execute("INSERT INTO t VALUES (201, 'LATE', 2)").err();
    assert_eq!(twice.map(|e| e.sqlstate().to_string()).as_deref(), Some("23505"));
    db.session().execute("INSERT INTO t VALUES (201, 'LATE', 0)").expect("no member");
    let moved = db.session().execute("UPDATE t SET c = 5 WHERE a = 201").err();
    assert_eq!(moved.map(|e| e.sqlstate().to_string()).as_deref(), Some("23505"));
    let entries = "SELECT entries FROM ondol_indexes WHERE name = 'i'";
    let members = rows(&mut db.session(), "SELECT count(*) FROM t WHERE c > 0");
    assert_eq!(rows(&mut db.session(), entries), members, "rows that are no members have no entries");
}

/// Keys that only an older snapshot sees go from an index that was made anew once that snapshot has gone. So
/// do those of rows that have left a partial index.
#[test]
fn an_index_made_anew_loses_old_keys() {
    let folder = TempFolder::new().unwrap();
    let db = Database::open(folder.path()).unwrap();
    let (mut s, mut old) = (db.session(), db.session());
    s.execute(
        "CREATE TABLE t (a integer PRIMARY KEY, b integer, c integer); CREATE INDEX b ON t (b);
         CREATE INDEX few ON t (a) WHERE b < 1000; CREATE TABLE other ();
         CREATE INDEX box ON t USING crtree (a, c);
         INSERT INTO t SELECT n, n, n FROM generate_series(1, 100) n",
    )
    .unwrap();
    old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM other").unwrap();
    s.execute("UPDATE t SET b = b + 1000, c = NULL WHERE a > 50; DELETE FROM t WHERE a < 10").unwrap();
    // In a session that has not committed anything since.
    db.session().execute("REINDEX TABLE t").unwrap();
    s.execute("CREATE INDEX other_few ON t (c) WHERE b < 1000").unwrap();
    s.execute("CREATE INDEX other_box ON t USING crtree (c, b)").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(old.query("SELECT count(*), sum(b) FROM t", &[]).unwrap().row(0).get::<i64>(0).unwrap(), 100);
    old.execute("COMMIT").unwrap();
    let began = std::time::Instant::now();
    loop {
        let catalog = s.catalog();
        let entries: Vec<usize> = (catalog.table("t").unwrap().indexes.iter())
            .map(|i| {
                let mut n = 0;
                i.index.verify(&mut |_, _| n += 1).unwrap();
                n
            })
            .collect();
        if entries == [91, 91, 41, 91, 41, 91] {
            break;
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(10), "{entries:?}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Drivers give bigints for ints and moments for dates: a range whose end is of another type than the column
/// is read by the index, and gives what all rows give.
#[test]
fn a_range_ends_at_a_value_of_another_type() {
    let (_folder, db) = session::open();
    let mut s = db.session();
    session::run(
        &mut s,
        "SET TimeZone = 'Europe/Berlin';
         CREATE TABLE r (two smallint, four int, day date, local timestamp, moment timestamptz);
         INSERT INTO r SELECT g % 40, g, '2024-03-20'::date + g / 10, '2024-03-20'::timestamp + g * interval '17 minutes',
             '2024-03-20'::timestamptz + g * interval '17 minutes' FROM generate_series(-600, 3000) g;
         INSERT INTO r VALUES (32767, 2147483647, 'infinity', 'infinity', 'infinity'),
             (-32768, -2147483648, '-infinity', '-infinity', '-infinity'), (NULL, NULL, NULL, NULL, NULL);
         CREATE INDEX ON r (two); CREATE INDEX ON r (four DESC); CREATE INDEX ON r (day);
         CREATE INDEX ON r (local DESC); CREATE INDEX ON r (moment)",
    );
    let numbers = [
        "0",
        "7",
        "32767",
        "-32768",
        "32768",
        "-32769",
        "2147483647",
        "2147483648",
        "-2147483649",
        "900000000000",
    ];
    // The night in which clocks are put forward, and a date that no timestamp is.
    let times = ["2024-03-31 01:59:59.5+01", "2024-03-31 02:30", "2024-03-22", "infinity", "-infinity"];
    let dates = ["2024-03-31", "2024-04-01", "300000-01-01", "infinity", "-infinity"];
    let mut ends = Vec::new();
    for n in numbers {
        ends.extend([("two", n, "bigint"), ("four", n, "bigint")]);
        if n.parse::<i32>().is_ok() {
            ends.push(("two", n, "int"))
        }
    }
    for t in times {
        ends.extend(["day", "local"].map(|c| (c, t, "timestamptz")));
        ends.extend(["day", "moment"].map(|c| (c, t, "timestamp")));
    }
    for d in dates {
        ends.extend(["local", "moment"].map(|c| (c, d, "date")));
    }
    for (column, end, ty) in ends {
        for condition in ["<", "<=", ">", ">=", "BETWEEN (SELECT min(@) FROM r) AND"] {
            let condition = condition.replace('@', column);
            let sql = format!(
                "SELECT count(*), min(four), max(four) FROM r WHERE {column} {condition} '{end}'::{ty}"
            );
            let plan = rows(&mut s, &format!("EXPLAIN {sql}")).join("\n");
            assert!(plan.contains("Index Scan"), "{sql}\n{plan}");
            let found = rows(&mut s, &sql);
            session::run(&mut s, "SET enable_indexscan = off");
            assert_eq!(found, rows(&mut s, &sql), "{sql}");
            session::run(&mut s, "RESET enable_indexscan");
        }
    }
}

/// Boxes of a CR-tree, made while rows move, have the rows that a look at all rows has in the same snapshot,
/// and so have the neighbours of a point; none is missed or comes twice afterwards.
#[test]
fn a_box_has_the_rows_that_lie_in_it_while_they_move() {
    let folder = TempFolder::new().unwrap();
    let db = Database::open(folder.path()).unwrap();
    let mut s = db.session();
    s.execute(
        "CREATE TABLE p (id int PRIMARY KEY, x float8, y numeric(9,2), z int);
        INSERT INTO p SELECT i, i % 173, (i * 7 % 1999)::numeric / 7, i * 31 % 500 FROM generate_series(1, 4000) i",
    )
    .unwrap();
    let over = std::sync::atomic::AtomicBool::new(false);
    let is_over = || over.load(std::sync::atomic::Ordering::Relaxed);
    let wants = |s: &mut ondol::Session, round: i64| {
        let (x, y, z) = (round * 37 % 150, round * 11 % 250, round * 53 % 400);
        let sql = format!(
            "SELECT count(*), count(DISTINCT id), sum(id), sum(z) FROM p
            WHERE x BETWEEN {x} AND {x} + 40 AND y >= {y} AND y < {y} + 60.5 AND z > {z}"
        );
        let near = format!(
            "SELECT count(*), count(DISTINCT id), sum(d), max(d) FROM (
                SELECT id, crtree_distance(y, x, {y}, {x}) AS d FROM p WHERE z > {z} ORDER BY d LIMIT {}) AS n",
            1 + round * round % 300
        );
        let sql = if round % 3 == 0 { near } else { sql };
        s.execute("SET enable_indexscan = on; SET enable_seqscan = off").unwrap();
        let plan = rows(s, &format!("EXPLAIN {sql}"));
        let by_box = rows(s, &sql);
        s.execute("SET enable_indexscan = off; SET enable_seqscan = on").unwrap();
        (plan.iter().any(|line| line.contains("using p_x_y_z_idx")), by_box, rows(s, &sql))
    };
    std::thread::scope(|threads| {
        for w in 0..2 {
            let (db, is_over) = (&db, &is_over);
            threads.spawn(move || {
                let mut s = db.session();
                let mut n = w;
                while !is_over() {
                    n += 2;
                    let sql = match n % 5 {
                        0 | 1 => format!("UPDATE p SET x = x + 1, y = y / 2 + 70 WHERE id % 97 = {}", n % 97),
                        2 => format!("UPDATE p SET z = (z + 77) % 500, x = 150 - x WHERE id % 89 = {}", n % 89),
                        3 => format!("DELETE FROM p WHERE id % 101 = {}", n % 101),
                        _ => format!(
                            "INSERT INTO p SELECT i, i % 160, {n} % 300, i % 480 FROM generate_series({}, 4000, 101) i
                            ON CONFLICT (id) DO UPDATE SET x = p.x - 1",
                            n % 101 + 1
                        ),
                    };
                    let end = if n % 7 == 0 { "ROLLBACK" } else { "COMMIT" };
                    // Both may want one row: then one of them gives way.
                    let _ = s.execute(&format!("BEGIN; {sql}; {end}"));
                    let _ = s.execute("ROLLBACK");
                }
            });
        }
        s.execute("CREATE INDEX ON p USING crtree (x, y, z)").unwrap();
        for round in 0..150 {
            let level = ["REPEATABLE READ", "SERIALIZABLE"][round as usize % 2];
            s.execute(&format!("BEGIN ISOLATION LEVEL {level}")).unwrap();
            let (by_index, by_box, by_all) = wants(&mut s, round);
            assert!(by_index);
            assert_eq!(by_box, by_all, "round {round}");
            let mut counts = by_box[0].split('|');
            assert_eq!(counts.next(), counts.next(), "a row came twice in round {round}");
            let _ = s.execute("ROLLBACK");
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    for round in 0..50 {
        let (_, by_box, by_all) = wants(&mut s, round);
        assert_eq!(by_box, by_all, "round {round}");
    }
    drop(s);
    db.close().unwrap();
    ondol(&["check", folder.path().to_str().expect("a name")], "boxes");
}
