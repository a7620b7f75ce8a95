//! `innodb_scan` in SQL and import, over files that servers wrote (`crates/innodb/tests/files`): what it
//! gives is what `ondol innodb export` writes, whatever SQL is above it.
use ondol::{Database, Import, Session, TempFolder, ZeroBytes, ZeroDates};
use ondol_innodb::evidence::Evidence;
use ondol_innodb::export::{self, Format, Options};
use ondol_innodb::scan::Scan;
use ondol_innodb::table::Type as Foreign;
use ondol_scan::csv::Dialect;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn files() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../innodb/tests/files")
}

/// Unpacks a table's files into a folder; the path of its tablespace.
fn unpack(server: &str, table: &str, folder: &Path) -> PathBuf {
    for kind in ["ibd", "frm", "cfg"] {
        let Ok(file) = std::fs::File::open(files().join(server).join(format!("{table}.{kind}.gz"))) else {
            continue;
        };
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(file).read_to_end(&mut bytes).expect("a fixture");
        std::fs::write(folder.join(format!("{table}.{kind}")), bytes).expect("a file");
    }
    folder.join(format!("{table}.ibd"))
}

/// Every table of every server.
fn tables() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for server in std::fs::read_dir(files()).expect("the fixtures").flatten().filter(|f| f.path().is_dir()) {
        let server = server.file_name().into_string().expect("a plain name");
        for file in std::fs::read_dir(files().join(&server)).expect("the fixtures").flatten() {
            let name = file.file_name().into_string().expect("a plain name");
            if let Some(table) = name.strip_suffix(".ibd.gz") {
                all.push((server.clone(), table.to_string()));
            }
        }
    }
    all.sort();
    assert!(all.len() > 50, "{} tables", all.len());
    all
}

struct Given {
    folder: TempFolder,
    _db: Database,
    session: Session,
}

fn given() -> Given {
    let folder = TempFolder::new().expect("a temporary folder");
    let db = Database::open(folder.path().join("db")).expect("a database");
    let session = db.session();
    Given { folder, _db: db, session }
}

impl Given {
    fn file(&self, server: &str, table: &str) -> String {
        unpack(server, table, self.folder.path()).display().to_string()
    }
    /// A query's rows, their values divided by `|`.
    fn rows(&mut self, sql: &str) -> Vec<String> {
        let rows = self.session.query(sql, &[]).unwrap_or_else(|e| panic!("{sql}: {e}"));
        let width = rows.columns().len();
        rows.iter()
            .map(|row| {
                let mut line = String::new();
                for i in 0..width {
                    if i > 0 {
                        line.push('|');
                    }
                    if !row.text(i, &mut line) {
                        line += "NULL";
                    }
                }
                line
            })
            .collect()
    }
    fn refused(&mut self, sql: &str) -> (String, String) {
        let e = self.session.query(sql, &[]).map(|_| ()).expect_err(sql);
        (e.sqlstate().to_string(), format!("{e}{}", e.0.hint.as_deref().unwrap_or_default()))
    }
}

/// The rows of CSV, `None` being NULL.
fn parsed(csv: &[u8]) -> Vec<Vec<Option<String>>> {
    let text = std::str::from_utf8(csv).expect("UTF-8");
    let (mut rows, mut row, mut field, mut quoted, mut was_quoted) =
        (vec![], vec![], String::new(), false, false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"')
            }
            '"' => {
                quoted = !quoted;
                was_quoted = true
            }
            ',' | '\n' if !quoted => {
                let value = std::mem::take(&mut field);
                row.push((was_quoted || !value.is_empty()).then_some(value));
                was_quoted = false;
                if c == '\n' {
                    rows.push(std::mem::take(&mut row));
                }
            }
            c => field.push(c),
        }
    }
    rows
}

fn exported(path: &Path) -> Vec<Vec<Option<String>>> {
    let scan = Arc::new(Scan::open(path).expect("a table"));
    let columns = export::columns(&scan, None).expect("columns");
    let options =
        Options { format: Format::Text(Dialect::Rfc4180), columns, limit: None, workers: 2, ordered: true };
    let mut out = Vec::new();
    export::export(scan, &options, &mut out, Path::new("memory"), |_| {}).expect("an export");
    let mut rows = parsed(&out);
    rows.remove(0);
    rows
}

#[test]
fn every_value_of_every_server_is_what_export_writes() {
    let mut g = given();
    let mut values = 0;
    for (server, table) in tables() {
        let folder = TempFolder::new().expect("a temporary folder");
        let path = unpack(&server, &table, folder.path());
        let types: Vec<Foreign> = {
            let scan = Scan::open(&path).expect("a table");
            let columns = export::columns(&scan, None).expect("columns");
            columns.iter().map(|i| scan.columns()[*i].ty.clone()).collect()
        };
        let expected = exported(&path);
        let mut csv = Vec::new();
        let from =
            format!("innodb_scan('{}', zero_dates => 'text', zero_bytes => 'replace')", path.display());
        let sql = format!("COPY (SELECT * FROM {from}) TO STDOUT (FORMAT csv)");
        g.session.copy_out(&sql, &mut csv, |_| {}).unwrap_or_else(|e| panic!("{server} {table}: {e}"));
        let found = parsed(&csv);
        assert_eq!(found.len(), expected.len(), "{server} {table}");
        assert_eq!(g.rows(&format!("SELECT count(*) FROM {from}")), [expected.len().to_string()]);
        for (f, e) in found.iter().zip(&expected) {
            assert_eq!(f.len(), e.len(), "{server} {table}");
            for ((f, e), ty) in f.iter().zip(e).zip(&types) {
                values += 1;
                let same = match (f, e, ty) {
                    (None, None, _) => true,
                    (Some(f), Some(e), Foreign::Float { .. } | Foreign::Double { .. }) => {
                        let (f, e): (f64, f64) = (f.parse().expect("a number"), e.parse().expect("a number"));
                        // Export shows six digits of a FLOAT, or as many as were declared.
                        f == e || (f - e).abs() <= f.abs() * 1e-5 || (f - e).abs() < 0.0006
                    }
                    (Some(f), Some(e), Foreign::Int { zerofill: Some(_), .. }) => {
                        f.parse::<u64>().expect("a number") == e.parse::<u64>().expect("a number")
                    }
                    (Some(f), Some(e), Foreign::Year { digits: 4 }) => {
                        f.parse::<u16>().expect("a number") == e.parse::<u16>().expect("a number")
                    }
                    // Export shows two digits of these.
                    (Some(f), Some(e), Foreign::Year { .. }) => {
                        format!("{f:0>4}").ends_with(e.as_str()) && e.len() == 2
                    }
                    (Some(f), Some(e), Foreign::Decimal { zerofill: Some(_), .. }) => {
                        f.trim_start_matches('0') == e.trim_start_matches('0')
                    }
                    (
                        Some(f),
                        Some(e),
                        Foreign::Binary { .. } | Foreign::Bytes { .. } | Foreign::Geometry,
                    ) => f.strip_prefix("\\x") == e.strip_prefix("0x"),
                    // Padding is shown here, and not there.
                    (Some(f), Some(e), Foreign::Char { .. }) => f.trim_end_matches(' ') == e,
                    // Texts have no zero byte here.
                    (Some(f), Some(e), _) => *f == e.replace('\0', "\u{fffd}"),
                    (f, e, _) => f == e,
                };
                assert!(same, "{server} {table} {ty:?}: {f:?}, expected {e:?}");
            }
        }
    }
    assert!(values > 20_000, "{values} values");
}

#[test]
fn types_are_the_nearest_here() {
    let mut g = given();
    let file = g.file("mariadb-10.11", "everything");
    let rows = g.session.query(&format!("SELECT * FROM innodb_scan('{file}') LIMIT 0"), &[]).unwrap();
    let types: Vec<String> = rows.columns().iter().map(|c| format!("{} {}", c.name, c.ty)).collect();
    assert_eq!(
        types.join(", "),
        "id integer, b character varying(20), c numeric(10,2), d date, e timestamp(3) without time zone, f text, g text, h text, i numeric(20,0), \
         j double precision, k double precision, l character(5), m text, n timestamp(0) with time zone, o smallint, p bigint, q bytea, r bytea, s bytea, \
         t smallint, u integer, v smallint, w numeric(65,30), x character varying(300), y character(3), z double precision, \
         aa timestamp(0) without time zone, ab timestamp(6) with time zone, ac text, ad character varying(20)"
    );
    assert_eq!(
        g.rows(&format!(
            "SELECT id, b, c, d, e, n, ab, w, i, o, p, q, m, h FROM innodb_scan('{file}') WHERE id = 1"
        )),
        ["1|hello|12345.67|2024-02-29|2024-02-29 12:34:56.789|2024-01-01 00:00:00+00|2024-06-01 01:02:03.000004+00|\
          -12345678901234567890123456789012345.123456789012345678901234567890|18446744073709551615|2024|682|\\x61620000|-12:34:56.78|p,q"]
            .map(|s| s.to_string())
    );
}

#[test]
fn dates_that_are_no_days() {
    let mut g = given();
    let file = g.file("mysql-9.7", "everything");
    let (state, said) = g.refused(&format!("SELECT d FROM innodb_scan('{file}')"));
    assert_eq!(state, "22008");
    assert!(
        said.contains("everything.ibd, page ") && said.contains("column d (date) holds 0000-00-00"),
        "{said}"
    );
    assert!(said.contains("zero_dates =>"), "{said}");
    // A column that is not asked for is not looked at.
    assert_eq!(g.rows(&format!("SELECT count(b) FROM innodb_scan('{file}')")), ["3"]);
    let from = format!("innodb_scan('{file}', zero_dates => 'null')");
    assert_eq!(
        g.rows(&format!("SELECT id, d FROM {from} ORDER BY id")),
        ["-3|NULL", "1|2024-02-29", "2|NULL", "4|NULL"]
    );
    let from = format!("innodb_scan('{file}', zero_dates => 'text')");
    assert_eq!(
        g.rows(&format!("SELECT id, d FROM {from} ORDER BY id")),
        ["-3|0000-00-00", "1|2024-02-29", "2|NULL", "4|0000-00-00"]
    );
}

/// Damages one byte of the leaf that holds a key of `tree`; the leaf's number.
fn damage(path: &str, key: u64) -> u32 {
    let mut bytes = std::fs::read(path).expect("a table");
    let stored = (key | 1 << 63).to_be_bytes();
    let is_leaf =
        |p: &[u8]| p[24..26] == [0x45, 0xbf] && p[64..66] == [0, 0] && p.windows(8).any(|w| w == stored);
    let number = bytes.chunks(16384).position(is_leaf).expect("the key's leaf");
    bytes[number * 16384 + 16000] ^= 1;
    std::fs::write(path, bytes).expect("a file");
    number as u32
}

#[test]
fn ranges_of_the_key_leave_pages_unread() {
    let mut g = given();
    let file = g.file("mysql-9.7", "tree");
    let from = format!("innodb_scan('{file}')");
    g.session.execute(&format!("CREATE TABLE own AS SELECT * FROM {from}")).unwrap();
    let count = g.rows("SELECT count(*), count(DISTINCT id) FROM own");
    assert_eq!(count, ["772|772"]);
    for condition in [
        "id = 100",
        "100 = id",
        "id > 100 AND id < 110",
        "id >= 100 AND id <= 110",
        "id BETWEEN 890 AND 5000",
        "id < 5 OR id > 890",
        "id <= 9223372036854775807 AND id > 880",
        "id > -9223372036854775808 AND id < 9",
        "id IN (1, 2, 899)",
        "id > 880.5",
        "id = NULL",
        "id > (SELECT max(id) - 10 FROM own)",
        "id > 100 AND id < 90",
        "v = 'short'",
    ] {
        let sql = |from: &str| format!("SELECT id, v FROM {from} t WHERE {condition} ORDER BY id");
        assert_eq!(g.rows(&sql(&from)), g.rows(&sql("own")), "{condition}");
    }
    let plan = g.rows(&format!("EXPLAIN SELECT v FROM {from} s WHERE id > 100 AND id <= 110")).join("\n");
    assert!(plan.contains(&format!("Foreign Scan on {file} s")), "{plan}");
    assert!(plan.contains("Range of the key: (id > 100) AND (id <= 110)"), "{plan}");
    assert!(plan.contains("Columns: id, v"), "{plan}");
    let plan = g.rows(&format!("EXPLAIN SELECT count(*) FROM {from}")).join("\n");
    assert!(plan.contains("ForeignCount") && plan.contains("Columns: none"), "{plan}");

    // What is read is proved: a page outside of the range is not.
    let page = damage(&file, 500);
    assert_eq!(g.rows(&format!("SELECT count(*) FROM {from} WHERE id < 100")), ["85"]);
    for sql in ["SELECT count(*)", "SELECT max(v)", "SELECT *"] {
        let (state, said) = g.refused(&format!("{sql} FROM {from}"));
        assert_eq!(state, "XX001");
        assert!(said.contains(&format!("tree.ibd, page {page}: ")), "{said}");
    }
}

#[test]
fn all_of_select_stands_above() {
    let mut g = given();
    let file = g.file("mariadb-10.11", "tree");
    let from = format!("innodb_scan('{file}')");
    g.session
        .execute(&format!(
            "CREATE TABLE own (id bigint PRIMARY KEY, v text);
             INSERT INTO own SELECT id, v FROM {from};
             CREATE TABLE few (a bigint PRIMARY KEY, b text);
             INSERT INTO few VALUES (1, 'one'), (2, 'two'), (7, 'none'), (899, 'last')"
        ))
        .unwrap();
    for sql in [
        "SELECT few.b, left(t.v, 3) FROM few JOIN @ t ON few.a = t.id ORDER BY 1",
        "SELECT few.b, left(t.v, 3) FROM few LEFT JOIN @ t ON few.a = t.id ORDER BY 1",
        "SELECT few.b, left(t.v, 3) FROM few RIGHT JOIN @ t ON few.a = t.id ORDER BY t.id DESC LIMIT 5",
        "SELECT count(*), sum(x.id), min(y.v) FROM @ x JOIN @ y ON x.id = y.id + 1",
        "SELECT length(v), count(*), avg(id) FROM @ t GROUP BY length(v) HAVING count(*) > 2 ORDER BY 1",
        "SELECT count(*), count(*) FROM @ t HAVING count(*) > 772",
        "SELECT count(*) + 1 FROM @ t",
        "SELECT count(*) FROM @ t WHERE false",
        "SELECT a, (SELECT count(*) FROM @ t WHERE t.id < few.a) FROM few ORDER BY a",
        "SELECT a FROM few WHERE a IN (SELECT id FROM @ t) ORDER BY a",
        "SELECT a FROM few WHERE NOT EXISTS (SELECT 1 FROM @ t WHERE t.id = a)",
        "SELECT DISTINCT left(v, 1) FROM @ t ORDER BY 1",
        "SELECT id FROM @ t ORDER BY id OFFSET 700 LIMIT 3",
        "SELECT id FROM @ t WHERE id < 10 UNION SELECT a FROM few ORDER BY 1",
        "SELECT id FROM @ t EXCEPT SELECT id FROM own",
        "WITH w AS (SELECT id, v FROM @ t WHERE id > 800) SELECT count(*), max(v) FROM w",
        "SELECT n FROM @ AS t(n, m) WHERE m = 'short' AND n < 50 ORDER BY n",
        "SELECT count(*) FROM @ x, generate_series(1, 3) s WHERE x.id = s",
    ] {
        assert_eq!(g.rows(&sql.replace('@', &from)), g.rows(&sql.replace('@', "own")), "{sql}");
    }
    // It can be read where rows are changed, and is not changed itself.
    g.session.execute(&format!("UPDATE few SET b = t.v FROM {from} t WHERE t.id = a")).unwrap();
    assert_eq!(g.rows("SELECT count(*) FROM few JOIN own ON id = a AND v = b"), ["3"]);
    g.session.execute(&format!("DELETE FROM few USING {from} t WHERE t.id = a")).unwrap();
    assert_eq!(g.rows("SELECT a FROM few"), ["7"]);
    // No file stays open.
    let open = std::fs::read_dir("/proc/self/fd").expect("open files").flatten();
    let open: Vec<PathBuf> = open.filter_map(|f| std::fs::read_link(f.path()).ok()).collect();
    assert!(!open.iter().any(|p| p.starts_with(g.folder.path()) && p.ends_with("tree.ibd")), "{open:?}");
}

#[test]
fn a_prepared_statement_looks_at_the_file_each_time() {
    let mut g = given();
    let file = g.file("mysql-9.7", "tree");
    let prepared = g.session.prepare(&format!("SELECT count(*) FROM innodb_scan('{file}')")).unwrap();
    g.session.execute_prepared(&prepared, &[]).unwrap();
    g.session.execute(&format!("PREPARE p AS SELECT id FROM innodb_scan('{file}') WHERE id < 3")).unwrap();
    assert_eq!(g.rows("EXECUTE p"), ["1", "2"]);
    std::fs::remove_file(Path::new(&file).with_extension("cfg")).expect("a file");
    for done in
        [g.session.execute_prepared(&prepared, &[]).map(|_| ()), g.session.execute("EXECUTE p").map(|_| ())]
    {
        let e = done.expect_err("without evidence");
        assert_eq!(e.sqlstate(), "55000");
    }
}

#[test]
fn refusals_say_what_was_expected() {
    let mut g = given();
    let file = g.file("mysql-9.7", "tree");
    let bare = g.folder.path().join("bare.ibd").display().to_string();
    std::fs::copy(&file, &bare).expect("a copy");
    for (sql, state, expected) in [
        ("SELECT * FROM innodb_scan('/none/t.ibd')".to_string(), "58P01", "/none/t.ibd: cannot"),
        (format!("SELECT * FROM innodb_scan('{bare}')"), "55000", "assume_consistent => true"),
        (
            format!("SELECT * FROM innodb_scan('{bare}', assume_consistent => false)"),
            "55000",
            "nothing shows that it was at rest",
        ),
        (
            format!("SELECT * FROM innodb_scan('{file}', assume_consistent => 'maybe')"),
            "22023",
            "expected true or false",
        ),
        (
            format!("SELECT * FROM innodb_scan('{file}', zero_dates => 'gone')"),
            "22023",
            "expected 'refuse', 'null' or 'text'",
        ),
        (format!("SELECT * FROM innodb_scan('{file}', pages => 3)"), "42883", "the argument \"pages\""),
        (format!("SELECT * FROM innodb_scan('{file}', 'b')"), "42883", "a second path"),
        ("SELECT * FROM innodb_scan()".into(), "42883", "innodb_scan() does not exist"),
        ("SELECT * FROM innodb_scan(NULL)".into(), "22023", "expected the path"),
        ("SELECT * FROM innodb_scan('a' || 'b')".into(), "0A000", "not a constant"),
        (
            format!("SELECT * FROM innodb_scan('{file}', zero_dates => 'null', zero_dates => 'null')"),
            "42601",
            "used more than once",
        ),
        (format!("SELECT w FROM innodb_scan('{file}')"), "42703", "column \"w\" does not exist"),
        (
            format!("SELECT * FROM innodb_scan('{file}') t FOR UPDATE OF t"),
            "42809",
            "cannot be applied to a function",
        ),
        (
            format!(
                "CREATE FUNCTION f() RETURNS SETOF bigint LANGUAGE sql AS $$ SELECT id FROM innodb_scan('{file}') $$"
            ),
            "0A000",
            "innodb_scan in a function's body",
        ),
        ("SELECT innodb_scan('x')".into(), "42883", "innodb_scan"),
    ] {
        let e = g.session.execute(&sql).map(|_| ()).expect_err(&sql);
        let said = format!("{e}{}", e.0.hint.as_deref().unwrap_or_default());
        assert!(e.sqlstate() == state && said.contains(expected), "{sql}: {} {said}", e.sqlstate());
    }
    assert_eq!(
        g.rows(&format!("SELECT count(*) FROM innodb_scan('{bare}', assume_consistent => true)")),
        ["772"]
    );
}

#[test]
fn a_falling_key_loses_nothing_and_create_table_may_stand_for_the_frm() {
    let mut g = given();
    let file = g.file("mariadb-10.11", "falls");
    let of = |arguments: &str| {
        format!("SELECT count(*), min(id) FROM innodb_scan('{file}'{arguments}) WHERE id BETWEEN 5 AND 7")
    };
    assert_eq!(g.rows(&of("")), ["3|5"]);
    assert_eq!(g.rows(&format!("SELECT id FROM innodb_scan('{file}') ORDER BY id LIMIT 2")), ["1", "2"]);
    std::fs::remove_file(Path::new(&file).with_extension("frm")).expect("a file");
    let (state, said) = g.refused(&of(""));
    assert!(state == "55000" && said.contains("schema => "), "{said}");
    let sql = g.folder.path().join("falls.sql").display().to_string();
    std::fs::write(
        &sql,
        "create table falls (\n id int,\n b varchar(20),\n primary key (id desc)\n) charset=latin1",
    )
    .expect("a file");
    assert_eq!(g.rows(&of(&format!(", schema => '{sql}'"))), ["3|5"]);
    std::fs::write(&sql, "create table falls (\n id int,\n b varchar(20\n").expect("a file");
    let (_, said) = g.refused(&of(&format!(", schema => '{sql}'")));
    assert!(said.contains("falls.sql: line 4: expected ), found the end"), "{said}");
}

#[test]
fn reading_is_broken_off() {
    let mut g = given();
    let file = g.file("mysql-9.7", "tree");
    let from = format!("innodb_scan('{file}')");
    g.session.execute("SET statement_timeout = '50ms'").unwrap();
    for sql in [
        format!(
            "SELECT count(*) FROM generate_series(1, 1000000) n WHERE (SELECT count(*) FROM {from} t WHERE t.id <> n) < 0"
        ),
        format!(
            "SELECT count(*) FROM generate_series(1, 1000000) n WHERE (SELECT count(*) + n FROM {from} t) < 0"
        ),
    ] {
        let (state, _) = g.refused(&sql);
        assert_eq!(state, "57014", "{sql}");
    }
}

/// By several threads and by one: rows, aggregates, counts, ranges, and the errors of the first page that has
/// one.
#[test]
fn several_threads_give_what_one_gives() {
    let mut g = given();
    let file = g.file("mysql-9.7", "tree");
    let from = format!("innodb_scan('{file}')");
    const ON: &str = "SET max_parallel_workers_per_gather = 3; SET min_parallel_table_scan_size = 0";
    const OFF: &str = "SET max_parallel_workers_per_gather = 0";
    let aggregates = [
        "SELECT count(*) FROM @",
        "SELECT count(*), sum(id), min(v), max(v), string_agg(left(v, 3), ',') FROM @",
        "SELECT length(v), count(*), min(id) FROM @ GROUP BY length(v)",
        "SELECT count(*) FROM @ t WHERE id > 100 AND id < 300",
        "SELECT sum(id) FROM @ t WHERE id >= 880.5",
        "SELECT count(v), sum(id) FROM @ WHERE id < 0",
        "SELECT count(*) FROM @ WHERE id BETWEEN 900 AND 100",
        "SELECT id % 10, max(v) FROM @ t WHERE id BETWEEN 50 AND 700 GROUP BY 1 HAVING count(*) > 5 ORDER BY 1 DESC LIMIT 4",
        "SELECT (SELECT count(*) FROM @ WHERE id > 500) + 1",
    ];
    let copied = [
        "@",
        "(SELECT id * 2, upper(v) FROM @ WHERE id % 3 = 1)",
        "(SELECT v, id FROM @ WHERE id > 100 AND id <= 700)",
        "(SELECT id FROM @ WHERE id < 0)",
    ];
    let all = |g: &mut Given| -> Vec<String> {
        let mut found: Vec<String> =
            aggregates.iter().map(|sql| g.rows(&sql.replace('@', &from)).join("\n")).collect();
        for what in &copied {
            let what =
                if *what == "@" { format!("(SELECT * FROM {from})") } else { what.replace('@', &from) };
            let mut csv = Vec::new();
            g.session.copy_out(&format!("COPY {what} TO STDOUT (FORMAT csv)"), &mut csv, |_| {}).unwrap();
            found.push(String::from_utf8(csv).unwrap());
        }
        found
    };
    let plan = |g: &mut Given| g.rows(&format!("EXPLAIN SELECT max(v) FROM {from} WHERE id > 3")).join("\n");
    g.session.execute(OFF).unwrap();
    let one = all(&mut g);
    assert!(!plan(&mut g).contains("Parallel"));
    g.session.execute(ON).unwrap();
    assert_eq!(all(&mut g), one);
    let said = plan(&mut g);
    assert!(said.contains("Parallel Foreign Scan on ") && said.contains("Workers Planned: 3"), "{said}");
    assert_eq!(one[0], "772");
    // Tables made of it.
    let mut rows = |sql: &str| {
        let mut rows = g.rows(sql);
        rows.sort();
        rows
    };
    for (n, what) in
        ["*", "v, id * 2 AS twice", "'x' AS x, NULL AS n, upper(v)::char(3) AS c"].into_iter().enumerate()
    {
        let made = rows(&format!("CREATE TABLE t{n} AS SELECT {what} FROM {from} WHERE id <> 17"));
        assert!(made.is_empty());
        assert_eq!(
            rows(&format!("SELECT * FROM t{n}")),
            rows(&format!("SELECT {what} FROM {from} WHERE id <> 17"))
        );
    }
    // No file stays open.
    let open = std::fs::read_dir("/proc/self/fd").expect("open files").flatten();
    let open: Vec<PathBuf> = open.filter_map(|f| std::fs::read_link(f.path()).ok()).collect();
    assert!(!open.iter().any(|p| p.starts_with(g.folder.path()) && p.ends_with("tree.ibd")), "{open:?}");
    g.session.execute("SET statement_timeout = '50ms'").unwrap();
    let (state, _) = g.refused(&format!(
        "SELECT count(*) FROM generate_series(1, 1000000) n WHERE (SELECT count(*) + n FROM {from} t) < 0"
    ));
    assert_eq!(state, "57014");
    g.session.execute("RESET statement_timeout").unwrap();
    // Of several errors that of the first page, as with one thread; what is not read is not proved.
    damage(&file, 700);
    let page = damage(&file, 300);
    for sql in [
        "SELECT count(*) FROM @",
        "SELECT max(v) FROM @",
        "SELECT sum(id) FROM @ WHERE id > 200",
        "CREATE TABLE torn AS SELECT * FROM @",
    ] {
        let (state, said) = g.refused(&sql.replace('@', &from));
        assert_eq!(state, "XX001", "{sql}: {said}");
        assert!(said.contains(&format!("tree.ibd, page {page}: ")), "{sql}: {said}");
    }
    assert_eq!(g.rows(&format!("SELECT count(*), max(id) FROM {from} WHERE id < 100")), ["85|99"]);
    assert_eq!(g.refused("SELECT * FROM torn").0, "42P01");
}

fn scan(file: &str) -> Scan {
    Scan::open(Path::new(file)).expect("a table")
}

fn import(table: &str, zero_dates: ZeroDates) -> Import {
    let (zero_bytes, evidence) = (ZeroBytes::Replace, vec![Evidence::Assumed(None)]);
    Import { table: table.into(), zero_dates, zero_bytes, workers: 3, evidence }
}

/// Zero bytes in texts, which no text has here, are refused or become what is wished.
#[test]
fn zero_bytes_become_what_is_wished() {
    let mut g = given();
    let file = g.file("mariadb-10.11", "labels");
    let select = |how: &str| format!("SELECT a, s FROM innodb_scan('{file}'{how})");
    let (state, said) = g.refused(&select(""));
    assert_eq!(state, "22021", "{said}");
    assert!(said.contains("zero_bytes => 'remove'"), "{said}");
    assert_eq!(g.rows(&select(", zero_bytes => 'remove'")), ["a,b|", "cd|a", "|a", "|z", "ÿ|a,z", "|"]);
    assert_eq!(
        g.rows(&select(", zero_bytes => 'replace'")),
        ["a,b|", "c\u{fffd}d|a", "\u{fffd}|a", "|\u{fffd}z", "ÿ|a,\u{fffd}z", "|"]
    );
    for (zero_bytes, expected) in [(ZeroBytes::Refuse, None), (ZeroBytes::Remove, Some("cd"))] {
        let wish = Import { zero_bytes, ..import("labels", ZeroDates::Refuse) };
        let done = g.session.import_innodb(&scan(&file), &wish, |_| {});
        assert_eq!(
            done.map_err(|e| e.sqlstate().to_string()).err(),
            expected.map_or(Some("22021".into()), |_| None)
        );
        if let Some(expected) = expected {
            assert_eq!(g.rows("SELECT a FROM labels WHERE s = 'a' AND a <> ''"), [expected]);
        }
    }
}

/// A system-versioned table's current rows, and all of them where its history is wanted; in both its keys
/// bind.
#[test]
fn history_where_it_is_wanted() {
    let mut g = given();
    for table in ["versioned", "versionedshown", "versionedbyid"] {
        let file = g.file("mariadb-10.11", table);
        let from = format!("innodb_scan('{file}')");
        assert_eq!(g.rows(&format!("SELECT count(*), count(a) FROM {from}")), ["2|2"]);
        assert_eq!(g.rows(&format!("SELECT a FROM {from} ORDER BY a")), ["1", "3"]);
        let all = format!("innodb_scan('{file}', history => true)");
        assert_eq!(g.rows(&format!("SELECT count(*), count(a), min(a) FROM {all}")), ["4|4|1"]);
        let mut opened = scan(&file);
        let done = g.session.import_innodb(&opened, &import(table, ZeroDates::Refuse), |_| {}).unwrap();
        assert_eq!((done.rows, done.history), (2, 2), "{table}");
        assert_eq!(g.rows(&format!("SELECT a FROM {table} ORDER BY a")), ["1", "3"]);
        opened.with_history().unwrap();
        let past = format!("{table}_all");
        let done = g.session.import_innodb(&opened, &import(&past, ZeroDates::Refuse), |_| {}).unwrap();
        assert_eq!((done.rows, done.history), (4, 0), "{table}");
        assert!(done.left_out.is_empty(), "{:?}", done.left_out);
    }
    let keys = "SELECT columns FROM ondol_indexes WHERE table_name = 'versioned' ORDER BY columns";
    assert_eq!(g.rows(keys), ["a", "b"]);
    let keys = "SELECT columns FROM ondol_indexes WHERE table_name = 'versioned_all' ORDER BY columns";
    assert_eq!(g.rows(keys), ["a, row_end", "b, row_end"]);
    let file = g.file("mariadb-10.11", "keyless");
    let (state, said) = g.refused(&format!("SELECT * FROM innodb_scan('{file}', history => true)"));
    assert_eq!(state, "55000", "{said}");
}

/// What no file holds is said to be left out.
#[test]
fn virtual_columns_are_left_out_by_name() {
    let mut g = given();
    let file = g.file("apart/mariadb-10.11", "computed");
    let done = g.session.import_innodb(&scan(&file), &import("computed", ZeroDates::Refuse), |_| {}).unwrap();
    let of = |name: &str| format!("the column {name}: it is virtual, no file holds it");
    assert_eq!(done.left_out, [of("c"), of("e")]);
    // In SQL each time, once for a file.
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let told_too = told.clone();
    g.session.on_notice(move |n| told_too.lock().expect("notices").push(n.message.clone()));
    let sql = format!("SELECT count(*) FROM innodb_scan('{file}') a, innodb_scan('{file}') b");
    let expected = format!("{file}: left out, since they are virtual and no file holds them: c, e");
    for times in 1..3 {
        g.rows(&sql);
        assert_eq!(*told.lock().expect("notices"), vec![expected.clone(); times]);
    }
    let whole = g.file("mariadb-10.11", "keyless");
    g.rows(&format!("SELECT count(*) FROM innodb_scan('{whole}')"));
    assert_eq!(told.lock().expect("notices").len(), 2);
    let file = g.file("apart/mariadb-10.11", "computedalone");
    let (state, said) = g.refused(&format!("SELECT * FROM innodb_scan('{file}')"));
    assert!(state == "0A000" && said.contains("virtual: a, b"), "{said}");
}

/// The server's tables are unlocked while they are read: nothing is left of what was read.
#[test]
fn an_import_ends_with_its_evidence() {
    let mut g = given();
    let file = g.file("mariadb-10.11", "keyed");
    let opened = scan(&file);
    let evidence = ondol_innodb::evidence::find(opened.space(), false).expect("evidence");
    let Evidence::Exported(cfg) = evidence.clone() else { panic!("{evidence}") };
    let wish = Import { evidence: vec![evidence], ..import("locked", ZeroDates::Refuse) };
    let unlock = |_: &_| drop(std::fs::remove_file(&cfg));
    let e = g.session.import_innodb(&opened, &wish, unlock).unwrap_err();
    assert_eq!(e.sqlstate(), "55000", "{e}");
    let e = g.session.execute("SELECT * FROM locked").map(|_| ()).unwrap_err();
    assert_eq!(e.sqlstate(), "42P01");
}

#[test]
fn every_table_is_imported_as_it_is_scanned() {
    let mut g = given();
    for (n, (server, table)) in tables().into_iter().enumerate() {
        let folder = TempFolder::new().expect("a temporary folder");
        let path = unpack(&server, &table, folder.path()).display().to_string();
        let name = format!("t{n}");
        let done = g.session.import_innodb(&scan(&path), &import(&name, ZeroDates::Text), |_| {});
        let done = done.unwrap_or_else(|e| panic!("{server} {table}: {e}"));
        let from = format!("innodb_scan('{path}', zero_dates => 'text', zero_bytes => 'replace')");
        assert_eq!(
            g.rows(&format!("SELECT count(*) FROM {name}")),
            [done.rows.to_string()],
            "{server} {table}"
        );
        let mut sorted = |from: &str| {
            let mut rows = g.rows(&format!("SELECT * FROM {from}"));
            rows.sort();
            rows
        };
        assert!(sorted(&name) == sorted(&from), "{server} {table}");
        g.session.execute(&format!("DROP TABLE {name}")).unwrap();
    }
}

#[test]
fn an_imported_table_has_its_keys() {
    let mut g = given();
    let file = g.file("mariadb-10.11", "keyed");
    let mut told = Vec::new();
    let done = g
        .session
        .import_innodb(&scan(&file), &import("Keyed", ZeroDates::Refuse), |p| told.push(p.rows))
        .unwrap();
    assert_eq!((done.rows, told.last()), (3, Some(&3)));
    assert_eq!(done.left_out, ["the unique key part: it is of a part of a column"]);
    let keys = g.rows("SELECT name, is_primary, is_unique, columns FROM ondol_indexes WHERE table_name = 'Keyed' ORDER BY name");
    assert_eq!(keys, ["Keyed_code_n_key|f|t|code, n", "Keyed_email_key|f|t|email", "Keyed_pkey|t|t|id"]);
    let e = g
        .session
        .execute("INSERT INTO \"Keyed\" (id, email, d, ts) VALUES (3, 'x', '2024-01-01', now())")
        .map(|_| ())
        .unwrap_err();
    assert_eq!(e.sqlstate(), "23505");
    let e = g
        .session
        .execute("INSERT INTO \"Keyed\" (id, d, ts) VALUES (4, '2024-01-01', now())")
        .map(|_| ())
        .unwrap_err();
    assert_eq!(e.sqlstate(), "23502");
    // A table that is there is left alone.
    let e = g.session.import_innodb(&scan(&file), &import("Keyed", ZeroDates::Refuse), |_| {}).unwrap_err();
    assert_eq!(e.sqlstate(), "42P07");
    assert_eq!(g.rows("SELECT count(*) FROM \"Keyed\""), ["3"]);
    // It is there after a restart, too.
    let Given { folder, _db, session } = g;
    drop(session);
    _db.close().unwrap();
    let db = Database::open(folder.path().join("db")).unwrap();
    let rows = db.session().query("SELECT email FROM \"Keyed\" ORDER BY id", &[]).unwrap();
    assert_eq!(rows.row(2).get::<&str>(0).unwrap(), "C@x");
}

#[test]
fn a_failed_import_leaves_nothing() {
    let mut g = given();
    let before = g.rows("SELECT name FROM ondol_tables");
    // A date that is none.
    let file = g.file("mysql-9.7", "everything");
    let e = g.session.import_innodb(&scan(&file), &import("e", ZeroDates::Refuse), |_| {}).unwrap_err();
    assert!(e.sqlstate() == "22008" && e.to_string().contains("everything.ibd, page "), "{e}");
    let done = g.session.import_innodb(&scan(&file), &import("e", ZeroDates::Null), |_| {}).unwrap();
    assert_eq!((done.rows, done.nulled > 2), (4, true));
    g.session.execute("DROP TABLE e").unwrap();
    // A damaged page, behind whole ones.
    let file = g.file("mysql-9.7", "tree");
    let opened = scan(&file);
    let page = damage(&file, 500);
    let e = g.session.import_innodb(&opened, &import("t", ZeroDates::Refuse), |_| {}).unwrap_err();
    assert!(e.sqlstate() == "XX001" && e.to_string().contains(&format!("tree.ibd, page {page}: ")), "{e}");
    // Broken off, after the first piece.
    let file = g.file("mariadb-10.11", "tree");
    let canceller = g.session.canceller();
    let mut opened = scan(&file);
    let e = g.session.import_innodb(&opened, &import("t", ZeroDates::Refuse), |_| canceller.cancel());
    assert_eq!(e.unwrap_err().sqlstate(), "57014");
    opened.within(Some("1"), Some("10")).unwrap();
    assert_eq!(g.session.import_innodb(&opened, &import("part", ZeroDates::Refuse), |_| {}).unwrap().rows, 9);
    g.session.execute("DROP TABLE part").unwrap();
    for (name, state) in [("", "42602"), ("x".repeat(64).as_str(), "42602")] {
        let e = g.session.import_innodb(&opened, &import(name, ZeroDates::Refuse), |_| {}).unwrap_err();
        assert_eq!(e.sqlstate(), state);
    }
    g.session.execute("BEGIN").unwrap();
    let e = g.session.import_innodb(&opened, &import("t", ZeroDates::Refuse), |_| {}).unwrap_err();
    assert_eq!(e.sqlstate(), "25001");
    g.session.execute("ROLLBACK").unwrap();
    assert_eq!(g.rows("SELECT name FROM ondol_tables"), before);
    g.session.execute("CREATE TABLE t (a integer)").unwrap();
}

/// Where there is no memory for all of a table, there is nothing of it.
#[test]
fn an_import_meets_the_memory_limit() {
    let folder = TempFolder::new().expect("a temporary folder");
    let file = unpack("mariadb-10.11", "tree", folder.path()).display().to_string();
    let path = folder.path().join("db");
    let db = ondol::OpenOptions::new().memory_limit(32 << 20).open(&path).unwrap();
    let mut session = db.session();
    session.execute("CREATE TABLE u (a text)").unwrap();
    let many = "INSERT INTO u SELECT repeat('x', 200) FROM generate_series(1, 5000)";
    let full = (0..1000).find_map(|_| session.execute(many).err()).expect("a limit");
    assert_eq!(full.sqlstate(), "53200");
    let e = session.import_innodb(&scan(&file), &import("t", ZeroDates::Refuse), |_| {}).unwrap_err();
    assert_eq!(e.sqlstate(), "53200", "{e}");
    let count = |session: &mut Session, of: &str| {
        let rows = session.query(&format!("SELECT count(*) FROM {of}"), &[]);
        rows.map(|rows| rows.row(0).get::<i64>(0).expect("a number"))
    };
    assert_eq!(count(&mut session, "t").unwrap_err().sqlstate(), "42P01");
    session.execute("DROP TABLE u").unwrap();
    let done = session.import_innodb(&scan(&file), &import("t", ZeroDates::Refuse), |_| {}).unwrap();
    assert_eq!((done.rows, count(&mut session, "t").unwrap()), (772, 772));
}

/// Encrypted tables in SQL: with the keys their rows, without them what is wanted.
#[test]
fn encrypted_tables_are_read_with_their_keys() {
    let mut given = given();
    let path = given.file("apart/aes_cbc-crc32", "lockedpacked");
    let beside = |name: &str| files().join(name).display().to_string();
    let (plain, encrypted, password) = (beside("keys.txt"), beside("keys.enc"), beside("keys.password"));
    for keys in
        [format!("keys => '{plain}'"), format!("keys => '{encrypted}', keys_password => '{password}'")]
    {
        let sql = format!("SELECT id, length(v) FROM innodb_scan('{path}', {keys})");
        assert_eq!(given.rows(&sql), ["1|6", "2|100"]);
    }
    for (keys, state, said) in [
        (String::new(), "0A000", "keys => "),
        (format!(", keys => '{encrypted}'"), "55000", "keys_password => "),
        (format!(", keys_password => '{password}'"), "22023", "keys_password needs keys"),
        (", keys => NULL".into(), "22023", "expected the path of a file of keys"),
        (", keys => 'nowhere.txt'".into(), "58P01", "nowhere.txt"),
    ] {
        let sql = format!("SELECT * FROM innodb_scan('{path}'{keys})");
        let e = given.session.query(&sql, &[]).map(|_| ()).expect_err(&sql);
        assert!(e.to_string().contains(said), "{sql}: {e}");
        assert_eq!(e.sqlstate(), state, "{sql}: {e}");
    }
}

/// Every fixture as a foreign table is what `innodb_scan` reads, in the catalogue as in rows.
#[test]
fn a_folder_is_imported_as_foreign_tables() {
    for server in ["mariadb-10.11", "mysql-9.7", "apart/mysql-9.7"] {
        let mut g = given();
        let place = g.folder.path().join("shop");
        std::fs::create_dir(&place).expect("a folder");
        for file in std::fs::read_dir(files().join(server)).expect("the fixtures").flatten() {
            let name = file.file_name().into_string().expect("a plain name");
            if let Some(table) = name.strip_suffix(".ibd.gz") {
                unpack(server, table, &place);
            }
        }
        g.session.execute("CREATE SCHEMA shop").expect("a schema");
        let import = format!(
            "IMPORT FOREIGN SCHEMA \"{}\" FROM SERVER innodb INTO shop OPTIONS (zero_dates 'text', zero_bytes 'replace')",
            place.display()
        );
        g.session.execute(&import).expect("an import");
        let tables = g.rows(
            "SELECT foreign_table_name, option_value FROM information_schema.foreign_table_options
             WHERE option_name = 'path' AND foreign_table_schema = 'shop' ORDER BY 1",
        );
        assert!(tables.len() > 5 || server.starts_with("apart"), "{tables:?}");
        for line in tables {
            let (table, file) = line.split_once('|').expect("two values");
            let of = format!("shop.\"{table}\"");
            if !Path::new(file).exists() {
                // It is partitioned: its partitions, one after the other.
                let mut parts = std::fs::read_dir(&place).expect("the folder").flatten();
                assert!(parts.any(|p| {
                    p.file_name().to_string_lossy().to_lowercase().starts_with(&format!("{table}#p#"))
                }));
                let mut files = ondol_innodb::folder::files_of(Path::new(file)).expect("the folder");
                files.sort();
                let scan = |p: &PathBuf| {
                    format!(
                        "SELECT * FROM innodb_scan('{}', zero_dates => 'text', zero_bytes => 'replace')",
                        p.display()
                    )
                };
                let wanted: Vec<String> = files.iter().flat_map(|p| g.rows(&scan(p))).collect();
                assert!(files.len() > 1 && !wanted.is_empty());
                assert_eq!(g.rows(&format!("SELECT * FROM {of}")), wanted, "{server} {table}");
                g.session
                    .execute("SET max_parallel_workers_per_gather = 3; SET min_parallel_table_scan_size = 0")
                    .expect("settings");
                assert_eq!(g.rows(&format!("SELECT * FROM {of}")), wanted, "{server} {table}");
                let count = vec![wanted.len().to_string()];
                assert_eq!(g.rows(&format!("SELECT count(*) FROM {of}")), count);
                // Without one of them there is no table.
                let (one, aside) = (files[1].clone(), files[1].with_extension("aside"));
                std::fs::rename(&one, &aside).expect("a file");
                assert_eq!(g.refused(&format!("SELECT count(*) FROM {of}")).0, "55000");
                std::fs::rename(&aside, &one).expect("a file");
                g.session.execute("RESET ALL").expect("settings");
                continue;
            }
            let scan = format!("innodb_scan('{file}', zero_dates => 'text', zero_bytes => 'replace')");
            let wanted = g.rows(&format!("SELECT * FROM {scan}"));
            assert_eq!(g.rows(&format!("SELECT * FROM {of}")), wanted, "{server} {table}");
            let found = g.rows(&format!("SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = '{of}'::regclass AND attnum > 0"));
            g.session.execute(&format!("CREATE TEMP TABLE other AS SELECT * FROM {scan}")).expect("a table");
            let wanted = g.rows("SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'other'::regclass AND attnum > 0");
            assert_eq!(found, wanted, "{server} {table}");
            g.session.execute("DROP TABLE other").expect("it is there");
        }
        if server == "mariadb-10.11" {
            let told = "SELECT obj_description('shop.commented'::regclass), col_description('shop.commented'::regclass, 2), length(obj_description('shop.longcommented'::regclass)), attnotnull
                        FROM pg_attribute WHERE attrelid = 'shop.commented'::regclass AND attname = 'id'";
            assert_eq!(g.rows(told), ["what was said|what's said, é|520|t"]);
        }
        // What is left out is told: nothing of the kind is here but what the fixtures are known for.
        let folder = g.folder.path().to_path_buf();
        drop(g.session);
        let of = |s: &mut Session| s.import_innodb_folder(&place, &[("zero_dates".into(), "null".into())]);
        let db = Database::open(folder.join("other")).expect("a database");
        let schemas = of(&mut db.session()).expect("the folder has tables");
        assert_eq!(schemas.len(), 1);
        assert!(schemas[0].tables > 0 && schemas[0].name == "shop", "{schemas:?}");
    }
}

/// What users do with foreign tables, and what is refused of it, with the reason.
#[test]
fn foreign_tables_are_tables_to_read() {
    let mut g = given();
    let tree = g.file("mariadb-10.11", "tree");
    let paged = g.file("mariadb-10.11", "pagedtree");
    let create = |name: &str, columns: &str, path: &str| {
        format!("CREATE FOREIGN TABLE {name} ({columns}) SERVER innodb OPTIONS (path '{path}')")
    };
    g.session.execute(&create("t", "id bigint PRIMARY KEY, v varchar(200)", &tree)).expect("a table");
    g.session.execute(&create("few", "v varchar(200)", &tree)).expect("a table");
    let scan = format!("innodb_scan('{tree}')");
    let wanted = g.rows(&format!("SELECT v, id FROM {scan}"));
    assert_eq!(g.rows("SELECT v, id FROM t"), wanted);
    assert_eq!(g.rows("SELECT v FROM few"), g.rows(&format!("SELECT v FROM {scan}")));
    assert_eq!(g.rows("SELECT count(*) FROM few"), g.rows("SELECT count(*) FROM t"));
    // A range of the key leaves pages unread, rows of a key are found, and tables are joined.
    let plan = g.rows("EXPLAIN SELECT * FROM t WHERE id BETWEEN 5 AND 9").join("\n");
    assert!(plan.contains("Foreign Scan"), "{plan}");
    assert_eq!(g.rows("SELECT id FROM t WHERE id BETWEEN 5 AND 9"), ["5", "6", "8", "9"]);
    assert_eq!(
        g.rows("SELECT a.id FROM t a JOIN few b ON a.v = b.v WHERE a.id = 5 AND b.v = a.v LIMIT 1"),
        ["5"]
    );
    // Views, materialised views, prepared statements, cursors, COPY.
    g.session.execute("CREATE VIEW short AS SELECT id FROM t WHERE v = 'short'").expect("a view");
    assert_eq!(g.rows("SELECT count(*) FROM short"), g.rows("SELECT count(*) FROM t WHERE v = 'short'"));
    g.session
        .execute("CREATE MATERIALIZED VIEW kept AS SELECT * FROM t; REFRESH MATERIALIZED VIEW kept")
        .expect("a view");
    assert_eq!(g.rows("SELECT count(*) FROM kept"), g.rows("SELECT count(*) FROM t"));
    g.session.execute("PREPARE p (bigint) AS SELECT v FROM t WHERE id = $1").expect("a statement");
    assert_eq!(g.rows("EXECUTE p(11)"), ["short"]);
    assert_eq!(g.rows("EXECUTE p(12)").len(), 1);
    let mut text = Vec::new();
    g.session.copy_out("COPY t (id) TO STDOUT", &mut text, |_| {}).expect("a copy");
    assert_eq!(
        String::from_utf8(text).expect("UTF-8").lines().count().to_string(),
        g.rows("SELECT count(*) FROM t")[0]
    );
    let mut s = g._db.session();
    s.execute("BEGIN; DECLARE c CURSOR FOR SELECT id FROM t").expect("a cursor");
    assert_eq!(s.query("FETCH 3 FROM c", &[]).expect("rows").len(), 3);
    s.execute("COMMIT").expect("an end");
    // The catalogue.
    assert_eq!(g.rows("SELECT relkind, relhasindex FROM pg_class WHERE oid = 't'::regclass"), ["f|t"]);
    assert_eq!(
        g.rows("SELECT table_type FROM information_schema.tables WHERE table_name = 't'"),
        ["FOREIGN"]
    );
    assert_eq!(g.rows("SELECT srvname, ftoptions[1] FROM pg_foreign_table f JOIN pg_foreign_server s ON s.oid = f.ftserver WHERE ftrelid = 't'::regclass"), [format!("innodb|path={tree}")]);
    // What is not to be done to them.
    for (sql, state) in [
        ("INSERT INTO t VALUES (1, 'a')", "42809"),
        ("UPDATE t SET v = 'a'", "42809"),
        ("DELETE FROM t", "42809"),
        ("TRUNCATE t", "42809"),
        ("COPY t FROM '/dev/null'", "42809"),
        ("LOCK TABLE t", "42809"),
        ("SELECT * FROM t FOR UPDATE", "42809"),
        ("UPDATE short SET id = 1", "55000"),
        ("CREATE INDEX ON t (v)", "42809"),
        ("ALTER TABLE t ADD COLUMN a int", "42809"),
        ("ALTER TABLE t RENAME COLUMN v TO w", "42809"),
        ("CREATE TABLE r (id bigint REFERENCES t)", "42809"),
        ("DROP TABLE t", "42809"),
        ("DROP FOREIGN TABLE kept", "42809"),
        ("SELECT ctid FROM t", "0A000"),
        ("CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM t'", "0A000"),
        ("REINDEX TABLE t", "42809"),
        ("REINDEX INDEX t_pkey", "42809"),
        ("CREATE FOREIGN TABLE x (a int) SERVER innodb OPTIONS (path 'x', zero_dates 'bogus')", "22023"),
        ("IMPORT FOREIGN SCHEMA \"/nothing/there\" FROM SERVER innodb INTO pg_catalog", "42501"),
        ("IMPORT FOREIGN SCHEMA \"/nothing/there\" FROM SERVER innodb INTO information_schema", "42501"),
        ("CREATE FOREIGN TABLE x (a int) SERVER other OPTIONS (path 'x')", "42704"),
        ("CREATE FOREIGN TABLE x (a int) SERVER innodb", "HV00B"),
        ("CREATE FOREIGN TABLE x (a int) SERVER innodb OPTIONS (pfad 'x')", "HV00D"),
        ("CREATE FOREIGN TABLE x (a int CHECK (a > 0)) SERVER innodb OPTIONS (path 'x')", "0A000"),
        ("CREATE FOREIGN TABLE x (a int UNIQUE) SERVER innodb OPTIONS (path 'x')", "0A000"),
        ("CREATE FOREIGN TABLE x (a serial) SERVER innodb OPTIONS (path 'x')", "0A000"),
        ("IMPORT FOREIGN SCHEMA \"/nothing/there\" FROM SERVER innodb INTO public", "58P01"),
        ("IMPORT FOREIGN SCHEMA \"/nothing/there\" FROM SERVER innodb INTO nowhere", "3F000"),
    ] {
        assert_eq!(g.refused(sql).0, state, "{sql}");
    }
    // A file that is another than the table says.
    g.session.execute(&create("a", "id bigint, w text", &tree)).expect("a table");
    assert!(g.refused("SELECT * FROM a").1.contains("there is no column \"w\" there"));
    g.session.execute(&create("b", "id integer", &tree)).expect("a table");
    assert!(g.refused("SELECT * FROM b").1.contains("column \"id\" is integer, and bigint there"));
    g.session.execute(&create("c", "id bigint, v varchar(200) PRIMARY KEY", &tree)).expect("a table");
    assert!(g.refused("SELECT * FROM c").1.contains("its primary key is v, and there id"));
    g.session.execute(&create("d", "id bigint", "/nothing/there.ibd")).expect("a table");
    assert_eq!(g.refused("SELECT * FROM d").0, "58P01");
    // A view over it is made all the same; tables like it have its columns.
    g.session
        .execute(
            "CREATE VIEW gone AS SELECT id FROM d; DROP VIEW gone; CREATE TABLE copy (LIKE t INCLUDING ALL)",
        )
        .expect("a view");
    g.session.execute("INSERT INTO copy SELECT * FROM t; DROP TABLE copy; VACUUM t; ANALYZE").expect("rows");
    // It has another name, place and owner, and is there when the database is opened again.
    g.session.execute("CREATE SCHEMA s; ALTER FOREIGN TABLE few SET SCHEMA s; ALTER FOREIGN TABLE s.few RENAME TO fewer").expect("changes");
    g.session.execute("COMMENT ON FOREIGN TABLE s.fewer IS 'few'; CREATE ROLE r; ALTER FOREIGN TABLE s.fewer OWNER TO r").expect("changes");
    g.session.execute(&create("e", "id bigint PRIMARY KEY", &paged)).expect("a table");
    g.session
        .execute("DROP FOREIGN TABLE a, b, c, d; DROP FOREIGN TABLE IF EXISTS nothing")
        .expect("they go");
    let dump = |s: &mut Session| {
        let mut text = Vec::new();
        s.dump(&mut text, |_, _| {}).expect("a dump");
        String::from_utf8(text).expect("UTF-8")
    };
    let text = dump(&mut g.session);
    assert!(
        text.contains("CREATE FOREIGN TABLE t (") && text.contains("COMMENT ON FOREIGN TABLE s.fewer"),
        "{text}"
    );
    drop(s);
    drop(g.session);
    let path = g.folder.path().join("db");
    g._db.close().expect("it closes");
    let db = Database::open(&path).expect("it opens");
    let mut s = db.session();
    assert_eq!(s.query("SELECT v FROM t WHERE id = 11", &[]).expect("rows").len(), 1);
    assert_eq!(dump(&mut s), text);
    let again = Database::open(g.folder.path().join("again")).expect("a database");
    let mut other = again.session();
    other.execute(&text).expect("the dump is restored");
    assert_eq!(dump(&mut other), text);
    // Without the right to read files nobody makes one; who may read the table reads it.
    other.execute("CREATE ROLE who; GRANT ALL ON SCHEMA public TO who; SET ROLE who").expect("a role");
    let e = other.execute(&create("mine", "id bigint", &tree)).expect_err("no right");
    assert_eq!(e.sqlstate(), "42501");
    assert_eq!(other.execute("SELECT * FROM t").expect_err("no right").sqlstate(), "42501");
    // Nothing is told of files either, whatever they are.
    other.execute("RESET ROLE").expect("a role");
    other.execute(&create("gone", "id bigint", "/nothing/there.ibd")).expect("a table");
    other.execute("SET ROLE who").expect("a role");
    for sql in [
        "SELECT * FROM gone",
        "SELECT * FROM innodb_scan('/etc/passwd')",
        "SELECT x FROM innodb_scan('/nothing/there')",
    ] {
        assert_eq!(other.execute(sql).expect_err(sql).sqlstate(), "42501", "{sql}");
    }
    other.execute("RESET ROLE; GRANT SELECT ON t TO who; SET ROLE who").expect("a right");
    assert_eq!(other.query("SELECT v FROM t WHERE id = 11", &[]).expect("rows").len(), 1);
}
