//! Columns that are added while there are rows: a table that got them later does what one does that had them
//! from the beginning, whatever else is done to both; and it takes no time that depends on the rows.
#[path = "common/session.rs"]
mod session;
use ondol::Session;
use session::{copied, dumped, open, open_in, rows, run};
use std::path::Path;

/// Types, defaults, and two other values; also such as lie in string slots of their own.
const TYPES: &[(&str, &str, &str, &str)] = &[
    ("boolean", "true", "false", "NULL"),
    ("smallint", "-7", "32767", "0"),
    ("integer", "2000000000", "-1", "0"),
    ("bigint", "-9000000000", "77", "1"),
    ("real", "1.5", "-2.25", "0"),
    ("double precision", "-0.0", "1e300", "0"),
    ("numeric", "1.50", "-123456789012345678901234567890.5", "NULL"),
    ("numeric(10, 2)", "7.25", "-7", "99999999.99"),
    ("numeric(30, 2)", "7.25", "-7", "9999999999999999999999.99"),
    ("text", "'a default'", "repeat('long and longer ', 100)", "''"),
    ("text", "repeat('a long default', 20)", "'short'", "NULL"),
    ("varchar(5)", "'abcde'", "'x'", "''"),
    ("char(3)", "'ab'", "'äöü'", "NULL"),
    ("char(300)", "'ab'", "'äöü'", "NULL"),
    ("bytea", "'\\x00ff'", "decode(repeat('ab', 90), 'hex')", "''"),
    ("date", "'2024-02-29'", "'1-01-01'", "NULL"),
    ("timestamp", "'2024-02-29 12:00'", "'infinity'", "NULL"),
    ("timestamptz", "'2024-02-29 12:00+01'", "'-infinity'", "NULL"),
    ("interval", "'1 month 2 days'", "'-1 s'", "NULL"),
    ("uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "'00000000-0000-0000-0000-000000000000'", "NULL"),
    ("integer[]", "'{1,2}'", "(SELECT array_agg(n) FROM generate_series(1, 60) n)", "'{}'"),
    ("text[]", "'{a,NULL}'", "'{\"b c\"}'", "NULL"),
    ("mood", "'sad'", "'fine'", "NULL"),
    ("positive", "7", "8", "9"),
    ("pair", "ROW(1, 'x')", "ROW(2, repeat('y', 100))", "NULL"),
];

const GIVEN: &str = "CREATE TYPE mood AS ENUM ('sad', 'fine'); CREATE DOMAIN positive AS int CHECK (VALUE > 0); \
                     CREATE TYPE pair AS (a int, b text)";

/// A table as it is before, and the number of rows in it.
const FORMS: [(&str, &str); 4] = [
    // Zeros are left in its rows; none are; they are long, and wide.
    ("k int PRIMARY KEY, v text", "n, 'row ' || n"),
    ("k bigint PRIMARY KEY, v int", "n, n % 7"),
    ("k int PRIMARY KEY, v text, w char(2)", "n, repeat('v', n), CASE WHEN n % 3 = 0 THEN 'äö' ELSE 'w' END"),
    ("k int PRIMARY KEY, v int UNIQUE, w numeric(9, 1)", "n, NULLIF(n, 5) + 3, n / 2.0"),
];

/// The same is asked of both tables.
fn same(s: &mut Session, what: &str, query: &str) {
    let of = |s: &mut Session, table: &str| rows(s, &query.replace("$t", table));
    let (a, b) = (of(s, "later"), of(s, "whole"));
    assert_eq!(a, b, "{what}: {query}");
}

fn look(s: &mut Session, what: &str) {
    same(s, what, "SELECT * FROM $t ORDER BY k");
    same(s, what, "SELECT added, k FROM $t WHERE added IS NULL ORDER BY k");
    same(s, what, "SELECT count(*), count(added), max(k) FROM $t");
    same(s, what, "SELECT added::text, count(*) FROM $t GROUP BY added ORDER BY 1");
    same(s, what, "SELECT * FROM $t WHERE k = 4");
    same(s, what, "SELECT a.k, b.added FROM $t a JOIN $t b ON a.added = b.added ORDER BY 1, b.k");
    same(s, what, "SELECT * FROM $t WHERE added = (SELECT added FROM $t WHERE k = 2) ORDER BY k");
}

/// Does the same to both.
fn both(s: &mut Session, text: &str) {
    for table in ["later", "whole"] {
        run(s, &text.replace("$t", table))
    }
}

#[test]
fn a_column_that_is_added_later_is_as_if_it_had_always_been_there() {
    let (folder, db) = open();
    let mut s = db.session();
    run(&mut s, GIVEN);
    let mut form = FORMS.iter().cycle();
    for (ty, default, other, third) in TYPES {
        let (columns, values) = form.next().expect("forms");
        for not_null in [false, true] {
            let what = format!("{ty} DEFAULT {default}, {columns}, {not_null}");
            let column = format!("{ty} DEFAULT {default}{}", if not_null { " NOT NULL" } else { "" });
            let null = if not_null { default } else { third };
            run(&mut s, "DROP TABLE IF EXISTS later, whole");
            run(&mut s, &format!("CREATE TABLE later ({columns})"));
            run(&mut s, &format!("CREATE TABLE whole ({columns}, added {column})"));
            both(&mut s, &format!("INSERT INTO $t SELECT {values} FROM generate_series(1, 20) n"));
            both(&mut s, "DELETE FROM $t WHERE k > 12");
            run(&mut s, &format!("ALTER TABLE later ADD COLUMN added {column}"));
            assert_eq!(missing(&mut s, "added").len(), 1, "{what}: its rows were copied");
            look(&mut s, &what);
            both(&mut s, "DELETE FROM $t WHERE k = 1");
            both(&mut s, &format!("INSERT INTO $t SELECT {values} FROM generate_series(21, 23) n"));
            both(&mut s, &format!("UPDATE $t SET added = {other} WHERE k IN (2, 3, 21)"));
            both(&mut s, &format!("UPDATE $t SET added = {null} WHERE k IN (4, 5)"));
            both(&mut s, "UPDATE $t SET v = NULL WHERE k IN (3, 6)");
            look(&mut s, &what);
            both(
                &mut s,
                &format!("BEGIN; UPDATE $t SET added = {other}; DELETE FROM $t WHERE k = 2; ROLLBACK"),
            );
            both(
                &mut s,
                &format!(
                    "BEGIN; UPDATE $t SET added = {other} WHERE k = 7; SAVEPOINT s; UPDATE $t SET added = {null}; \
                     DELETE FROM $t WHERE k < 9; ROLLBACK TO s; UPDATE $t SET added = {null} WHERE k = 8; COMMIT"
                ),
            );
            both(&mut s, &format!("UPDATE $t SET added = {default} WHERE k = 3; DELETE FROM $t WHERE k = 4"));
            look(&mut s, &what);
            if *ty != "pair" {
                both(&mut s, "CREATE INDEX ON $t (added); CREATE INDEX ON $t USING hash (added)");
                look(&mut s, &what);
                both(
                    &mut s,
                    &format!("UPDATE $t SET added = {other} WHERE k % 2 = 0; DELETE FROM $t WHERE k = 6"),
                );
                look(&mut s, &what)
            }
            // What is said of it is obeyed.
            let (of_later, of_whole) = (
                "INSERT INTO later (k, added) VALUES (99, NULL)",
                "INSERT INTO whole (k, added) VALUES (99, NULL)",
            );
            let told = |s: &mut Session, sql: &str| {
                let done = s.execute(sql).err().map(|e| (e.sqlstate().to_string(), e.to_string()));
                done.map(|(state, text)| (state, text.replace("later", "whole")))
            };
            assert_eq!(told(&mut s, of_later), told(&mut s, of_whole), "{what}");
            look(&mut s, &what);
            // Rows that are copied have it as another.
            if !not_null {
                both(&mut s, "ALTER TABLE $t ALTER k TYPE numeric");
                look(&mut s, &what)
            }
        }
    }
    drop(s);
    db.close().expect("it closes");
    is_sound(folder.path());
}

/// What the rows of `later` do not say of a column, if they need not.
fn missing(s: &mut Session, column: &str) -> Vec<String> {
    let of = format!("attrelid = 'later'::regclass AND attname = '{column}' AND atthasmissing");
    rows(s, &format!("SELECT attmissingval FROM pg_attribute WHERE {of}"))
}

fn is_sound(folder: &Path) {
    let done = std::process::Command::new(env!("CARGO_BIN_EXE_ondol"))
        .arg("check")
        .arg(folder.join("db"))
        .output()
        .expect("the command runs");
    let told = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{told}");
}

/// Columns of all kinds are added, changed and dropped; what is left is there after a restart, a crash, of a
/// checkpoint, and in what a dump makes. The answers are PostgreSQL's.
const HISTORY: &str = "
    CREATE TABLE t (k int PRIMARY KEY, v text);
    CREATE TABLE note (k int PRIMARY KEY);
    INSERT INTO t SELECT n, 'row ' || n FROM generate_series(1, 6) n;
    ALTER TABLE t ADD a int DEFAULT 7, ADD b text, ADD c text NOT NULL DEFAULT 'a default of more bytes than a head has';
    UPDATE t SET b = repeat('b', 40), a = 8 WHERE k = 1;
    UPDATE t SET b = repeat('c', 50) WHERE k = 2;
    UPDATE t SET a = NULL WHERE k = 3;
    ALTER TABLE t DROP COLUMN a;
    ALTER TABLE t ADD d int DEFAULT 9;
    UPDATE t SET d = k WHERE k IN (1, 4);
    ALTER TABLE t ALTER c SET DEFAULT 'new', ALTER d DROP DEFAULT;
    INSERT INTO t (k, v) VALUES (7, 'row 7');
    ALTER TABLE t RENAME b TO e;
    CREATE INDEX ON t (e);
    CREATE UNIQUE INDEX t_unique ON t (k, d);
    BEGIN; ALTER TABLE t ADD f int DEFAULT 1; UPDATE t SET f = 2, d = 3; ROLLBACK;
    BEGIN; SAVEPOINT s; ALTER TABLE t ADD f int DEFAULT 1; UPDATE t SET f = 2; ROLLBACK TO s;
        ALTER TABLE t ADD f text DEFAULT 'f'; UPDATE t SET f = 'g' WHERE k = 5; COMMIT;
    DELETE FROM t WHERE k = 6;
    ALTER TABLE note ADD parent int REFERENCES t DEFAULT NULL;
    INSERT INTO note VALUES (1, 2);
    ALTER TABLE note ADD since timestamptz DEFAULT now(), ADD n serial, ADD g int GENERATED ALWAYS AS (k + 1) STORED;
    CREATE VIEW shown AS SELECT k, d, f FROM t WHERE d IS NOT NULL;
    ALTER TABLE t ADD CONSTRAINT small CHECK (d < 100)";

const WANTED: [&str; 6] = [
    "1|row 1|bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb|a default of more bytes than a head has|1|f",
    "2|row 2|cccccccccccccccccccccccccccccccccccccccccccccccccc|a default of more bytes than a head has|9|f",
    "3|row 3|NULL|a default of more bytes than a head has|9|f",
    "4|row 4|NULL|a default of more bytes than a head has|4|f",
    "5|row 5|NULL|a default of more bytes than a head has|9|g",
    "7|row 7|NULL|new|NULL|f",
];

fn is_whole(s: &mut Session) {
    assert_eq!(rows(s, "SELECT * FROM t ORDER BY k"), WANTED);
    assert_eq!(rows(s, "SELECT k FROM t WHERE e = repeat('c', 50)"), ["2"]);
    assert_eq!(rows(s, "SELECT k FROM t WHERE e IS NULL ORDER BY k"), ["3", "4", "5", "7"]);
    assert_eq!(rows(s, "SELECT * FROM t WHERE k = 4"), [WANTED[3]]);
    assert_eq!(rows(s, "SELECT v FROM t WHERE k = 4 AND d = 4"), ["row 4"]);
    assert_eq!(rows(s, "SELECT * FROM shown ORDER BY k"), ["1|1|f", "2|9|f", "3|9|f", "4|4|f", "5|9|g"]);
    assert_eq!(rows(s, "SELECT k, parent, since IS NULL, n, g FROM note"), ["1|2|f|1|2"]);
    for (wrong, state) in [
        ("UPDATE t SET d = 100", "23514"),
        ("UPDATE t SET c = NULL", "23502"),
        ("UPDATE note SET parent = 6", "23503"),
        ("DELETE FROM t WHERE k = 2", "23503"),
    ] {
        assert_eq!(s.execute(wrong).expect_err(wrong).sqlstate(), state, "{wrong}");
    }
}

#[test]
fn columns_added_later_outlive_a_restart_a_crash_a_checkpoint_and_a_dump() {
    for (clean, checkpoint) in [(true, false), (false, true), (false, false)] {
        let (folder, db) = open();
        run(&mut db.session(), HISTORY);
        is_whole(&mut db.session());
        if checkpoint {
            db.checkpoint().expect("a checkpoint");
        }
        let copy = ondol::TempFolder::new().expect("a folder");
        if clean {
            db.close().expect("it closes");
            copied(folder.path(), copy.path())
        } else {
            copied(folder.path(), copy.path());
            drop(db)
        }
        is_sound(copy.path());
        let db = open_in(&copy);
        let mut s = db.session();
        is_whole(&mut s);
        let dump = dumped(&mut s);
        let (_folder, again) = session::restored(&dump);
        is_whole(&mut again.session());
        assert!(dumped(&mut again.session()) == dump, "the dump of what was restored is another");
        run(
            &mut s,
            "ALTER TABLE t DROP d CASCADE, ADD d int DEFAULT 5; UPDATE t SET e = d::text WHERE k < 3",
        );
        run(&mut s, "TRUNCATE note; ALTER TABLE note DROP g; INSERT INTO note VALUES (1, 2)");
        drop(s);
        db.close().expect("it closes");
        let db = open_in(&copy);
        let found = rows(&mut db.session(), "SELECT k, e, d FROM t ORDER BY k");
        assert_eq!(found, ["1|5|5", "2|5|5", "3|NULL|5", "4|NULL|5", "5|NULL|5", "7|NULL|5"])
    }
}

/// A transaction whose snapshot is older than the change finds the rows that it finds, with what they do not
/// say, and none of the later values.
#[test]
fn an_older_snapshot_has_the_column_but_no_later_values() {
    let (_folder, db) = open();
    let (mut s, mut old) = (db.session(), db.session());
    run(
        &mut s,
        "CREATE TABLE t (k int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1), (2, 2); CREATE TABLE u (a int)",
    );
    run(&mut old, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM u");
    run(&mut s, "ALTER TABLE t ADD a text DEFAULT 'then'");
    run(
        &mut s,
        "UPDATE t SET a = 'a value that lies in a slot of its own' WHERE k = 1; INSERT INTO t VALUES (3, 3, 'new')",
    );
    run(
        &mut s,
        "UPDATE t SET a = 'another one that lies in a slot of its own' WHERE k = 1; DELETE FROM t WHERE k = 2",
    );
    let all = "SELECT * FROM t ORDER BY k";
    for _ in 0..3 {
        assert_eq!(rows(&mut old, all), ["1|1|then", "2|2|then"]);
        let now = ["1|1|another one that lies in a slot of its own", "3|3|new"];
        assert_eq!(rows(&mut s, all), now);
        assert_eq!(rows(&mut db.session(), all), now)
    }
    run(&mut old, "COMMIT");
    // One that has read it waits for; others go on.
    run(&mut old, "BEGIN; SELECT * FROM t");
    run(&mut s, "SET lock_timeout = 100");
    assert_eq!(s.execute("ALTER TABLE t ADD b int").expect_err("it is in use").sqlstate(), "55P03");
    run(&mut old, "ROLLBACK");
    run(&mut s, "ALTER TABLE t ADD b int");
    assert_eq!(rows(&mut old, "SELECT k, b FROM t WHERE k = 3"), ["3|NULL"])
}

/// Plans and registered queries that were made before know the column, or go on without it.
#[test]
fn plans_that_were_made_before_go_on() {
    let (_folder, db) = open();
    let (mut s, mut other) = (db.session(), db.session());
    run(
        &mut s,
        "CREATE TABLE t (k int PRIMARY KEY, v int); INSERT INTO t SELECT n, n FROM generate_series(1, 50) n; \
         CREATE FUNCTION of_t(int) RETURNS SETOF t LANGUAGE sql AS 'SELECT * FROM t WHERE k = $1'; \
         CREATE FUNCTION set_t(int, int) RETURNS void LANGUAGE sql AS 'UPDATE t SET v = $2 WHERE k = $1'",
    );
    let all = |s: &mut Session| {
        run(s, "SELECT set_t(3, 30)");
        let mut told = rows(s, "SELECT * FROM of_t(3)");
        told.extend(rows(s, "SELECT * FROM t WHERE k = 4"));
        told.extend(rows(s, "SELECT k FROM t WHERE v = 5"));
        run(s, "UPDATE t SET v = 40 WHERE k = 4");
        told
    };
    assert_eq!(all(&mut s), ["3|30", "4|4", "5"]);
    assert_eq!(all(&mut other), ["3|30", "4|40", "5"]);
    run(&mut s, "ALTER TABLE t ADD a text DEFAULT 'x'");
    for s in [&mut other, &mut s] {
        assert_eq!(all(s), ["3|30|x", "4|40|x", "5"]);
    }
    run(
        &mut s,
        "UPDATE t SET a = 'of more bytes than lie in a head of a string, so elsewhere' WHERE k IN (3, 4)",
    );
    for s in [&mut other, &mut s] {
        let told = all(s);
        assert_eq!(told[0], "3|30|of more bytes than lie in a head of a string, so elsewhere");
        assert_eq!(told[2], "5")
    }
}

/// Neither pages nor the log tell how many rows there are.
#[test]
fn adding_a_column_takes_no_work_that_the_rows_count_in() {
    let mut took = vec![];
    for count in [1000, 200_000] {
        let (folder, db) = open();
        let mut s = db.session();
        run(&mut s, "CREATE TABLE later (k int, v int)");
        run(&mut s, &format!("INSERT INTO later SELECT n, n FROM generate_series(1, {count}) n"));
        db.checkpoint().expect("a checkpoint");
        let bytes = |s: &mut Session| rows(s, "SELECT bytes FROM ondol_tables WHERE name = 'later'").concat();
        let (before, log) = (bytes(&mut s), written(folder.path()));
        run(
            &mut s,
            "ALTER TABLE later ADD a int DEFAULT 7, ADD b text NOT NULL DEFAULT 'x', ADD c timestamptz DEFAULT now(); \
             ALTER TABLE later ADD d numeric(10, 2) DEFAULT 1.5; ALTER TABLE later DROP b",
        );
        assert_eq!(bytes(&mut s), before, "pages");
        assert_eq!(missing(&mut s, "a"), ["{7}"]);
        assert_eq!(
            rows(&mut s, "SELECT count(*), sum(a), sum(d) FROM later"),
            [format!("{count}|{}|{:.2}", 7 * count, 1.5 * count as f64)]
        );
        took.push(written(folder.path()) - log)
    }
    assert!(took.iter().all(|t| *t < 20_000), "bytes of the log: {took:?}");
}

/// Bytes in the log's files that are not zero.
fn written(folder: &Path) -> usize {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            bytes += written(&path)
        } else if path.file_name().is_some_and(|n| n.to_string_lossy().contains("log")) {
            bytes += std::fs::read(&path).expect("a file").iter().filter(|b| **b != 0).count()
        }
    }
    bytes
}

/// What is done to a table in turn, without its rows being copied; and what it is as another would be made.
const CHANGES: [(&str, &str); 11] = [
    (
        "DROP COLUMN b",
        "a int NOT NULL, c char(4), d numeric(8, 2) NOT NULL, e bigint, f text NOT NULL, g text",
    ),
    (
        "ALTER e SET NOT NULL",
        "a int NOT NULL, c char(4), d numeric(8, 2) NOT NULL, e bigint NOT NULL, f text NOT NULL, g text",
    ),
    ("DROP f", "a int NOT NULL, c char(4), d numeric(8, 2) NOT NULL, e bigint NOT NULL, g text"),
    (
        "ADD h text DEFAULT 'h'",
        "a int NOT NULL, c char(4), d numeric(8, 2) NOT NULL, e bigint NOT NULL, g text, h text DEFAULT 'h'",
    ),
    (
        "RENAME g TO i",
        "a int NOT NULL, c char(4), d numeric(8, 2) NOT NULL, e bigint NOT NULL, i text, h text DEFAULT 'h'",
    ),
    (
        "ALTER e DROP NOT NULL",
        "a int NOT NULL, c char(4), d numeric(8, 2) NOT NULL, e bigint, i text, h text DEFAULT 'h'",
    ),
    (
        "ALTER h SET NOT NULL, DROP d",
        "a int NOT NULL, c char(4), e bigint, i text, h text DEFAULT 'h' NOT NULL",
    ),
    (
        "ADD PRIMARY KEY (a, e)",
        "a int NOT NULL, c char(4), e bigint NOT NULL, i text, h text DEFAULT 'h' NOT NULL, PRIMARY KEY (a, e)",
    ),
    ("DROP c", "a int NOT NULL, e bigint NOT NULL, i text, h text DEFAULT 'h' NOT NULL, PRIMARY KEY (a, e)"),
    (
        "ADD c char(4), DROP i",
        "a int NOT NULL, e bigint NOT NULL, h text DEFAULT 'h' NOT NULL, c char(4), PRIMARY KEY (a, e)",
    ),
    ("DROP a", "e bigint NOT NULL, h text DEFAULT 'h' NOT NULL, c char(4)"),
];

#[test]
fn columns_are_dropped_and_must_not_be_null_in_rows_that_stay_as_they_are() {
    let (folder, db) = open();
    let mut s = db.session();
    run(
        &mut s,
        "CREATE TABLE later (a int NOT NULL, b text, c char(4), d numeric(8, 2) NOT NULL, e bigint, f text NOT NULL, g text);
         INSERT INTO later SELECT n, repeat('b', n), CASE n % 5 WHEN 0 THEN 'äöüß' WHEN 1 THEN NULL ELSE 'c' || n END,
             n / 4.0, n * 1000, repeat('f', 2 * n), CASE WHEN n % 3 > 0 THEN repeat('g', n) END
         FROM generate_series(1, 40) n;
         ALTER TABLE later ADD mark int DEFAULT 1",
    );
    let mut counter = 100;
    for (change, made) in CHANGES {
        run(&mut s, &format!("ALTER TABLE later {change}"));
        assert_eq!(missing(&mut s, "mark"), ["{1}"], "{change}: the rows were copied");
        // The same rows in a table that was made so.
        let columns = "SELECT string_agg(attname, ', ' ORDER BY attnum) FROM pg_attribute \
                       WHERE attrelid = 'later'::regclass AND attnum > 0 AND attname <> 'mark'";
        let columns = rows(&mut s, columns).concat();
        run(&mut s, "DROP TABLE IF EXISTS whole");
        run(&mut s, &format!("CREATE TABLE whole ({made})"));
        run(&mut s, &format!("INSERT INTO whole ({columns}) SELECT {columns} FROM later"));
        for n in 0..6 {
            counter += 1;
            let e = counter;
            for table in ["later", "whole"] {
                let has = |c: &str| columns.split(", ").any(|name| name == c);
                let set = |c: &str, value: String| has(c).then(|| (c.to_string(), value));
                let all: Vec<(String, String)> = [
                    set("a", format!("{counter}")),
                    set("c", if n % 2 == 0 { "'ö'".into() } else { "NULL".into() }),
                    set("d", "7.5".into()),
                    set("e", format!("{e}")),
                    set("f", format!("repeat('F', {})", 10 * n)),
                    set("g", "'new'".into()),
                    set("i", "repeat('i', 50)".into()),
                ]
                .into_iter()
                .flatten()
                .collect();
                let names: Vec<&str> = all.iter().map(|c| c.0.as_str()).collect();
                let values: Vec<&str> = all.iter().map(|c| c.1.as_str()).collect();
                run(
                    &mut s,
                    &format!("INSERT INTO {table} ({}) VALUES ({})", names.join(", "), values.join(", ")),
                );
                let (c, value) = &all[n % all.len()];
                run(&mut s, &format!("UPDATE {table} SET {c} = {value} WHERE e = {}", 1000 * (n + 1)));
                run(&mut s, &format!("DELETE FROM {table} WHERE e = {}", counter - 3))
            }
        }
        let asked = format!("SELECT {columns} FROM $t ORDER BY e, {columns}");
        same(&mut s, change, &asked);
        let wrong = |s: &mut Session, table: &str| {
            let null = |c: &str| {
                s.execute(&format!("UPDATE {table} SET {c} = NULL")).err().map(|e| e.sqlstate().to_string())
            };
            columns.split(", ").map(null).collect::<Vec<_>>()
        };
        let before = rows(&mut s, &format!("SELECT {columns} FROM later ORDER BY e, {columns}"));
        let told = wrong(&mut s, "later");
        assert_eq!(told, wrong(&mut s, "whole"), "{change}");
        // Those that were allowed are the same in both now, and NULL.
        same(&mut s, change, &asked);
        run(&mut s, "DELETE FROM later");
        for row in before {
            let quoted = |v: &str| if v == "NULL" { "NULL".to_string() } else { format!("'{v}'") };
            let values: Vec<String> = row.split('|').map(quoted).collect();
            run(&mut s, &format!("INSERT INTO later ({columns}) VALUES ({})", values.join(", ")))
        }
    }
    let all = "SELECT * FROM later ORDER BY e";
    let before = rows(&mut s, all);
    assert!(before.len() > 20);
    drop(s);
    db.checkpoint().expect("a checkpoint");
    drop(db);
    let db = open_in(&folder);
    let mut s = db.session();
    assert_eq!(rows(&mut s, all), before);
    let mut text = Vec::new();
    s.copy_out("COPY later TO STDOUT", &mut text, |_| {}).expect("a copy");
    run(&mut s, "DELETE FROM later");
    s.copy_in("COPY later FROM STDIN", &text[..], |_| {}).expect("a copy");
    assert_eq!(rows(&mut s, all), before);
    assert_eq!(missing(&mut s, "mark"), ["{1}"]);
    run(&mut s, "ALTER TABLE later ALTER e TYPE numeric");
    assert_eq!(rows(&mut s, all), before);
    assert!(missing(&mut s, "mark").is_empty());
    let dump = dumped(&mut s);
    let (_folder, again) = session::restored(&dump);
    assert_eq!(rows(&mut again.session(), all), before);
    drop(s);
    db.close().expect("it closes");
    is_sound(folder.path())
}

#[test]
fn rows_with_nulls_are_told() {
    let (_folder, db) = open();
    let mut s = db.session();
    run(
        &mut s,
        "CREATE TABLE later (k int, v text); INSERT INTO later VALUES (1, NULL), (2, 'v'); ALTER TABLE later ADD a int",
    );
    for change in
        ["ALTER v SET NOT NULL", "ADD PRIMARY KEY (v)", "ALTER a SET NOT NULL", "ADD b int NOT NULL"]
    {
        let e = s.execute(&format!("ALTER TABLE later {change}")).expect_err(change);
        let column = change.split(' ').nth(1).unwrap_or_default();
        let column = if column == "PRIMARY" { "v" } else { column };
        assert_eq!(
            (e.sqlstate(), e.to_string()),
            ("23502", format!("column \"{column}\" of relation \"later\" contains null values")),
            "{change}"
        )
    }
    run(
        &mut s,
        "UPDATE later SET v = 'w', a = k; ALTER TABLE later ALTER v SET NOT NULL, ADD PRIMARY KEY (a)",
    );
    assert_eq!(rows(&mut s, "SELECT * FROM later WHERE a = 2"), ["2|v|2"].map(|_| "2|w|2"));
    for wrong in
        ["UPDATE later SET v = NULL", "UPDATE later SET a = NULL", "INSERT INTO later VALUES (3, 'x', NULL)"]
    {
        assert_eq!(s.execute(wrong).expect_err(wrong).sqlstate(), "23502", "{wrong}")
    }
    assert_eq!(
        s.execute("INSERT INTO later VALUES (3, 'x', 1)").expect_err("it is there").sqlstate(),
        "23505"
    );
}

/// Columns that are computed by functions: a dump makes these before the tables' rows are read, and functions
/// over such tables behind them.
#[cfg(feature = "command")]
#[test]
fn a_dump_makes_functions_before_columns_that_call_them() {
    let (_folder, db) = open();
    let mut s = db.session();
    run(
        &mut s,
        "CREATE FUNCTION twice(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 2';
         CREATE TABLE plain (a int DEFAULT twice(2));
         CREATE TABLE t (a int PRIMARY KEY, n serial, b int DEFAULT twice(3), c int GENERATED ALWAYS AS (twice(a)) STORED);
         CREATE FUNCTION fourfold(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT twice(twice($1))';
         ALTER TABLE t ADD d int GENERATED ALWAYS AS (fourfold(a)) STORED;
         CREATE FUNCTION c_of(t) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT ($1).c';
         CREATE FUNCTION all_of_t() RETURNS SETOF t LANGUAGE sql AS 'SELECT * FROM t';
         CREATE INDEX i ON t (twice(b)); CREATE INDEX j ON t (c); CREATE VIEW v AS SELECT twice(c) AS x FROM t;
         CREATE TABLE u (a int REFERENCES t, b int CHECK (twice(b) > 0));
         INSERT INTO plain VALUES (1); INSERT INTO t (a) SELECT n FROM generate_series(1, 9) n; INSERT INTO u VALUES (3, 4)",
    );
    let dump = dumped(&mut s);
    let (_other, again) = session::restored(&dump);
    let mut again = again.session();
    assert_eq!(dumped(&mut again), dump);
    run(&mut again, "INSERT INTO t (a) VALUES (10)");
    assert_eq!(rows(&mut again, "SELECT a, n, b, c, d FROM t WHERE a > 8"), ["9|9|6|18|36", "10|10|6|20|40"]);
    assert_eq!(rows(&mut again, "SELECT sum(c_of(x)) FROM all_of_t() x"), ["110"]);
}
