//! COPY to and from Parquet: every value comes back as it was, by one thread and by several, and what cannot
//! is an error that says where.
use arrow_array::{
    ArrayRef, Float32Array, Int8Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray,
    TimestampNanosecondArray, UInt64Array,
};
use arrow_schema::Schema;
use ondol::{Database, OpenOptions, Session, TempFolder};
use std::path::{Path, PathBuf};
use std::sync::Arc;

struct Place {
    folder: TempFolder,
    db: Database,
}
impl Place {
    fn new() -> Place {
        let folder = TempFolder::new().unwrap();
        let db = Database::open(folder.path().join("db")).unwrap();
        Place { folder, db }
    }
    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
    fn session(&self, workers: usize) -> Session {
        let mut s = self.db.session();
        s.execute(&format!(
            "SET max_parallel_workers_per_gather = {workers}; SET min_parallel_table_scan_size = 0"
        ))
        .unwrap();
        s
    }
}
fn to(s: &mut Session, what: &str, file: &Path, more: &str) -> Result<String, String> {
    done(s, &format!("COPY {what} TO '{}' (FORMAT parquet{more})", file.display()))
}
fn from(s: &mut Session, what: &str, file: &Path) -> Result<String, String> {
    done(s, &format!("COPY {what} FROM '{}' (FORMAT parquet)", file.display()))
}
/// The command's tag, or the error with its context.
fn done(s: &mut Session, sql: &str) -> Result<String, String> {
    match s.execute(sql) {
        Ok(all) => Ok(all.last().unwrap().tag.clone()),
        Err(e) => {
            let context = e.0.context.clone().map_or(String::new(), |c| format!(" [{c}]"));
            Err(format!("{} {e}{context}", e.sqlstate()))
        }
    }
}
fn text(s: &mut Session, what: &str) -> String {
    let mut out = Vec::new();
    s.copy_out(&format!("COPY {what} TO STDOUT"), &mut out, |_| {}).unwrap();
    String::from_utf8(out).unwrap()
}
fn refused(found: Result<String, String>, state: &str, says: &[&str]) {
    let e = found.unwrap_err();
    assert!(e.starts_with(state) && says.iter().all(|w| e.contains(w)), "{e:?} instead of {state} {says:?}");
}

const COLUMNS: &str = "id integer NOT NULL, yes boolean, small smallint, big bigint, f double precision, money numeric(12, 2), whole numeric(5), long numeric(38, 10),
    longest numeric(76, 30), name text, short varchar(7), code char(5), raw bytea, day date, at timestamp, tenths timestamp(1), tz timestamptz";

fn fill(s: &mut Session) {
    s.execute(&format!(
        "CREATE TABLE t ({COLUMNS});
         INSERT INTO t SELECT i, i % 2 = 0, i % 30000, i * 5000000000, i / 7.0, (i * 37 % 100000)::numeric / 100, i % 99999, i::numeric / 1024, i::numeric * 1e30 / 1024,
             repeat('text \u{e9}\u{20ac}', i % 40), 'v' || i % 1000, 'c' || i % 100, decode('00ff', 'hex') , date '1969-12-31' + i, timestamp '1969-12-31 23:59:59.999999',
             timestamp '2024-02-29 12:00:00.5', timestamptz '2000-01-01 00:00:00Z'
             FROM generate_series(1, 30000) AS g (i);
         INSERT INTO t (id) VALUES (-1);
         INSERT INTO t VALUES (-2, true, -32768, -9223372036854775808, '-0', -9999999999.99, -99999, -9999999999999999999999999999.9999999999,
             -9999999999999999999999999999999999999999999999.999999999999999999999999999999, '', '', '', '', date '4713-01-01 BC', timestamp '4713-01-01 00:00:00 BC',
             timestamp '0001-01-01 00:00:00', timestamptz '4713-01-01 00:00:00Z BC');
         INSERT INTO t VALUES (-3, false, 32767, 9223372036854775807, 'NaN', 9999999999.99, 99999, 9999999999999999999999999999.9999999999,
             9999999999999999999999999999999999999999999999.999999999999999999999999999999, E'a\\tb\\n\\\\', 'seven77', 'fives', decode('deadbeef', 'hex'), date '5874897-12-31',
             timestamp '290000-12-31 23:59:59.999999', timestamp '1970-01-01 00:00:00', timestamptz '290000-12-31 23:59:59.999999Z');
         INSERT INTO t (id, f) VALUES (-4, 'Infinity'), (-5, '-Infinity'), (-6, 5e-324), (-7, 1.7976931348623157e308)"
    ))
    .unwrap();
}

#[test]
fn every_value_comes_back() {
    let p = Place::new();
    let mut s = p.session(2);
    fill(&mut s);
    let wanted = text(&mut s, "t");
    s.execute(&format!("CREATE TABLE back ({COLUMNS})")).unwrap();
    for workers in [2, 0] {
        let mut s = p.session(workers);
        let file = p.file("t.parquet");
        assert_eq!(to(&mut s, "t", &file, "").unwrap(), "COPY 30007");
        assert_eq!(from(&mut s, "back", &file).unwrap(), "COPY 30007");
        assert!(text(&mut s, "back") == wanted, "with {workers} workers");
        // A stream is the same file.
        let mut bytes = Vec::new();
        s.copy_out("COPY t TO STDOUT (FORMAT parquet)", &mut bytes, |_| {}).unwrap();
        assert_eq!(bytes.len(), std::fs::read(&file).unwrap().len());
        s.execute("TRUNCATE back").unwrap();
        // Some columns of a query; the others get their defaults.
        s.execute("CREATE TABLE part_of (money numeric(14, 3), id bigint DEFAULT 7, note text DEFAULT 'none', at timestamptz DEFAULT now())").unwrap();
        let query = "(SELECT code, id, money::numeric(13, 2) AS money FROM t WHERE small = 100 ORDER BY id)";
        let n = to(&mut s, query, &file, "").unwrap();
        refused(
            from(&mut s, "part_of", &file),
            "42703",
            &["column \"code\" of the file does not exist in table \"part_of\""],
        );
        assert_eq!(from(&mut s, "part_of (id, money)", &file).unwrap(), n);
        assert_eq!(
            text(&mut s, "(SELECT id, money, note, at IS NOT NULL FROM part_of)"),
            text(
                &mut s,
                "(SELECT id, money::numeric(14, 3), 'none', true FROM t WHERE small = 100 ORDER BY id)"
            )
        );
        refused(
            from(&mut s, "part_of (id, note)", &file),
            "42703",
            &["column \"note\" does not exist in the file"],
        );
        s.execute("DROP TABLE part_of").unwrap();
        // No rows at all.
        assert_eq!(to(&mut s, "(SELECT * FROM t WHERE id = 0)", &file, "").unwrap(), "COPY 0");
        assert_eq!(from(&mut s, "back", &file).unwrap(), "COPY 0");
    }
}

#[test]
fn what_parquet_has_no_value_for_is_told() {
    let p = Place::new();
    let file = p.file("odd.parquet");
    for workers in [0, 2] {
        let mut s = p.session(workers);
        s.execute(
            "CREATE TABLE odd (id integer, n numeric(8, 2), d date, at timestamp);
             INSERT INTO odd SELECT i, 1, '2000-01-01', '2000-01-01' FROM generate_series(1, 20000) AS g (i)",
        )
        .unwrap();
        for (column, value, shown) in [
            ("n", "'NaN'", "NaN is not among Parquet's decimals"),
            ("d", "'infinity'", "infinity is not among Parquet's dates"),
            ("at", "'-infinity'", "-infinity is not among Parquet's timestamps"),
            ("at", "'294270-01-01'", "294270-01-01 00:00:00 is not among Parquet's timestamps"),
        ] {
            s.execute(&format!("INSERT INTO odd (id, {column}) VALUES (77, {value}); INSERT INTO odd (id, {column}) VALUES (78, {value})")).unwrap();
            let state = if column == "n" { "22003" } else { "22008" };
            refused(
                to(&mut s, "odd", &file, ""),
                state,
                &[&format!("row 20001, column \"{column}\": {shown}")],
            );
            assert_eq!(to(&mut s, "odd", &file, ", UNREPRESENTABLE 'null'").unwrap(), "COPY 20002");
            s.execute("CREATE TABLE back (id integer, n numeric(8, 2), d date, at timestamp)").unwrap();
            assert_eq!(from(&mut s, "back", &file).unwrap(), "COPY 20002");
            let count = format!("(SELECT count(*), count({column}) FROM back WHERE id > 76 AND n IS NULL)");
            assert_eq!(text(&mut s, &count), "2\t0\n");
            assert_eq!(to(&mut s, "odd", &file, ", UNREPRESENTABLE 'text'").unwrap(), "COPY 20002");
            s.execute("TRUNCATE back").unwrap();
            assert_eq!(from(&mut s, "back", &file).unwrap(), "COPY 20002");
            assert!(text(&mut s, "back") == text(&mut s, "odd"), "{shown}");
            s.execute("DELETE FROM odd WHERE n IS NULL OR n = 'NaN'; DROP TABLE back").unwrap();
        }
        refused(
            to(&mut s, "(SELECT n * 2 AS twice FROM odd)", &file, ""),
            "0A000",
            &["column \"twice\" is of type numeric"],
        );
        assert_eq!(
            to(&mut s, "(SELECT n * 2 AS twice FROM odd)", &file, ", UNREPRESENTABLE 'text'").unwrap(),
            "COPY 20000"
        );
        s.execute("DROP TABLE odd").unwrap();
    }
}

/// Writes a file as another program would.
fn write(file: &Path, columns: Vec<(&str, ArrayRef)>) {
    let fields: Vec<_> =
        (columns.iter()).map(|(n, a)| arrow_schema::Field::new(*n, a.data_type().clone(), true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema.clone(), columns.into_iter().map(|c| c.1).collect()).unwrap();
    let (mut writer, encoder) =
        ondol_scan::parquet::create(std::fs::File::create(file).unwrap(), schema).unwrap();
    let mut group = ondol_scan::parquet::Group::new(encoder).unwrap();
    group.write(&batch).unwrap();
    writer.append(group.finish().unwrap()).unwrap();
    writer.finish().unwrap();
}

#[test]
fn what_others_wrote_is_read_or_refused() {
    let p = Place::new();
    let mut s = p.session(2);
    let file = p.file("others.parquet");
    s.execute("CREATE TABLE t (a integer PRIMARY KEY, f double precision, n numeric(4, 1), b bigint, t timestamp, u timestamp(3), d date, name varchar(3))").unwrap();
    write(
        &file,
        vec![
            ("A", Arc::new(Int8Array::from(vec![1, 2, 3]))),
            ("f", Arc::new(Float32Array::from(vec![0.5, -1.0, f32::MAX]))),
            ("n", Arc::new(StringArray::from(vec![Some("1.5"), None, Some("NaN")]))),
            ("b", Arc::new(UInt64Array::from(vec![0, 7, i64::MAX as u64]))),
            ("t", Arc::new(TimestampMillisecondArray::from(vec![0, -1, 86_400_000]))),
            ("u", Arc::new(TimestampNanosecondArray::from(vec![1_000_000, 0, -5_000_000]))),
            ("d", Arc::new(StringArray::from(vec!["2024-02-29", "infinity", "epoch"]))),
        ],
    );
    assert_eq!(from(&mut s, "t", &file).unwrap(), "COPY 3");
    assert_eq!(
        text(&mut s, "t"),
        "1\t0.5\t1.5\t0\t1970-01-01 00:00:00\t1970-01-01 00:00:00.001\t2024-02-29\t\\N\n\
         2\t-1\t\\N\t7\t1969-12-31 23:59:59.999\t1970-01-01 00:00:00\tinfinity\t\\N\n\
         3\t3.4028234663852886e+38\tNaN\t9223372036854775807\t1970-01-02 00:00:00\t1969-12-31 23:59:59.995\t1970-01-01\t\\N\n"
    );
    // Whatever is wrong leaves nothing behind.
    refused(from(&mut s, "t", &file), "23505", &["[COPY t, row 1]"]);
    let many = |bad: i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values((10..6000).chain([bad]))) };
    write(&file, vec![("a", many(1 << 31))]);
    refused(
        from(&mut s, "t", &file),
        "22003",
        &["\"2147483648\" is out of range for type integer", "[COPY t, row 5991, column a]"],
    );
    write(&file, vec![("a", many(7000)), ("a", many(7000))]);
    refused(from(&mut s, "t", &file), "42702", &["the file has 2 columns that are called \"a\""]);
    for (column, array, state, says) in [
        (
            "f",
            Arc::new(Int8Array::from(vec![1])) as ArrayRef,
            "42804",
            "is of type double precision: expected Float32, Float64 or Utf8 in the file, found Int8",
        ),
        ("n", Arc::new(StringArray::from(vec!["1234.5"])), "22003", "numeric field overflow"),
        ("n", Arc::new(Float32Array::from(vec![1.5])), "42804", "found Float32"),
        ("b", Arc::new(UInt64Array::from(vec![1 << 63])), "22003", "is out of range for type bigint"),
        (
            "u",
            Arc::new(TimestampNanosecondArray::from(vec![10_000])),
            "22008",
            "more decimal places than type timestamp(3)",
        ),
        ("t", Arc::new(TimestampNanosecondArray::from(vec![1])), "22008", "no whole microseconds"),
        (
            "t",
            Arc::new(TimestampMillisecondArray::from(vec![0]).with_timezone("UTC")),
            "42804",
            "expected a timestamp without a zone",
        ),
        ("name", Arc::new(StringArray::from(vec!["four"])), "22001", "value too long"),
        ("d", Arc::new(StringArray::from(vec!["never"])), "22007", "never"),
    ] {
        write(&file, vec![("a", Arc::new(Int8Array::from(vec![100]))), (column, array)]);
        refused(from(&mut s, "t", &file), state, &[says]);
    }
    write(&file, vec![("a", Arc::new(Int8Array::from(vec![Some(100), None])))]);
    refused(from(&mut s, "t", &file), "23502", &["null value in column \"a\"", "[COPY t, row 2]"]);
    // With a default that is computed for each row, rows are inserted one by one.
    s.execute("CREATE TABLE u (a integer PRIMARY KEY, r double precision DEFAULT random())").unwrap();
    refused(from(&mut s, "u", &file), "23502", &["[COPY u, row 2]"]);
    write(&file, vec![("a", many(9000))]);
    assert_eq!(from(&mut s, "u", &file).unwrap(), "COPY 5991");
    assert_eq!(text(&mut s, "(SELECT count(*), count(DISTINCT r) > 5900 FROM u)"), "5991\tt\n");
    // No file, another file, and every place at which a file may be cut or changed.
    refused(from(&mut s, "t", &p.file("nothing")), "58P01", &["could not open"]);
    std::fs::write(&file, "a,b\n1,2\n").unwrap();
    refused(from(&mut s, "t", &file), "22P04", &["cannot be read as Parquet"]);
    refused(done(&mut s, "COPY t FROM STDIN (FORMAT parquet)"), "0A000", &["COPY FROM STDIN in Parquet"]);
    write(&file, vec![("a", Arc::new(Int64Array::from_iter_values(100..400)))]);
    let whole = std::fs::read(&file).unwrap();
    for n in (0..whole.len()).step_by(7) {
        std::fs::write(&file, &whole[..n]).unwrap();
        refused(from(&mut s, "t", &file), "22P04", &[]);
    }
    for n in (0..whole.len()).step_by(5) {
        let mut changed = whole.clone();
        changed[n] ^= 0x5a;
        std::fs::write(&file, &changed).unwrap();
        // A changed value may be a value; nothing may hang or end the process.
        let _ = from(&mut s, "t", &file);
        s.execute("DELETE FROM t WHERE a > 3 OR a < 1").unwrap();
    }
    assert_eq!(text(&mut s, "(SELECT count(*) FROM t)"), "3\n");
}

/// What comes into a column of a domain, or of arrays of one, is looked at, each row.
#[test]
fn values_of_domains_are_looked_at() {
    let p = Place::new();
    for workers in [2, 0] {
        let mut s = p.session(workers);
        s.execute(
            "CREATE DOMAIN pos AS int CHECK (VALUE > 0); CREATE DOMAIN code AS varchar(3) NOT NULL;
             CREATE TABLE plain (i int, n int, c text); CREATE TABLE strict (i int DEFAULT 9, n pos, c code)",
        )
        .unwrap();
        let file = p.file("domains.parquet");
        let given = |s: &mut Session, rows: &str| {
            s.execute(&format!("TRUNCATE plain; INSERT INTO plain {rows}")).unwrap();
            to(s, "plain", &file, "").unwrap();
            from(s, "strict", &file)
        };
        let fine = "SELECT x, x, 'c' || x % 10 FROM generate_series(1, 3000) x";
        assert_eq!(given(&mut s, fine), Ok("COPY 3000".into()));
        assert_eq!(given(&mut s, "VALUES (1, NULL, 'a')"), Ok("COPY 1".into()));
        assert_eq!(text(&mut s, "(SELECT count(*), sum(n), max(c) FROM strict)"), "3001\t4501500\tc9\n");
        let wrong = "SELECT x, 2990 - x, 'c' FROM generate_series(1, 3000) x";
        refused(
            given(&mut s, wrong),
            "23514",
            &[
                "value for domain pos violates check constraint \"pos_check\"",
                "COPY strict, row 2990, column n",
            ],
        );
        refused(
            given(&mut s, "VALUES (1, 1, NULL)"),
            "23502",
            &["domain code does not allow null values", "COPY strict, row 1, column c"],
        );
        refused(given(&mut s, "VALUES (1, 1, 'long')"), "22001", &["value too long", "row 1, column c"]);
        assert_eq!(from(&mut s, "strict (n, c)", &file).unwrap_err().get(..5), Some("22001"));
        assert_eq!(text(&mut s, "(SELECT count(*) FROM strict)"), "3001\n");
        s.execute("DROP TABLE plain; DROP TABLE strict; DROP DOMAIN pos; DROP DOMAIN code").unwrap();
    }
}

/// A table's checks look at each row, the defaults of columns that the file lacks among its values.
#[test]
fn rows_are_held_to_checks() {
    let p = Place::new();
    for workers in [2, 0] {
        let mut s = p.session(workers);
        s.execute(
            "CREATE TABLE plain (i int, n int);
             CREATE TABLE strict (i int, n int, k int DEFAULT 5, CONSTRAINT most CHECK (i + n < k * 1000))",
        )
        .unwrap();
        let file = p.file("checks.parquet");
        let given = |s: &mut Session, rows: &str| {
            s.execute(&format!("TRUNCATE plain; INSERT INTO plain {rows}")).unwrap();
            to(s, "plain", &file, "").unwrap();
            from(s, "strict (i, n)", &file)
        };
        let rows = "SELECT x, x FROM generate_series(1, 2499) x";
        assert_eq!(given(&mut s, rows), Ok("COPY 2499".into()));
        refused(
            given(&mut s, "SELECT x, x FROM generate_series(1, 3000) x"),
            "23514",
            &["relation \"strict\" violates check constraint \"most\"", "COPY strict, row 2500"],
        );
        assert_eq!(given(&mut s, "VALUES (NULL, 1)"), Ok("COPY 1".into()));
        assert_eq!(text(&mut s, "(SELECT count(*), sum(k) FROM strict)"), "2500\t12500\n");
        s.execute("DROP TABLE plain; DROP TABLE strict").unwrap();
    }
}

#[test]
fn options_are_parquets_own() {
    let p = Place::new();
    let mut s = p.session(0);
    s.execute("CREATE TABLE t (a integer)").unwrap();
    let mut copy = |what: &str| done(&mut s, &format!("COPY t {what}"));
    for (what, says) in [
        ("TO '/dev/null' (FORMAT parquet, HEADER)", "COPY header is not available in Parquet"),
        ("TO '/dev/null' (FORMAT parquet, DELIMITER ';')", "COPY delimiter is not available in Parquet"),
        ("FROM '/dev/null' (FORMAT parquet, NULL 'x')", "COPY null is not available in Parquet"),
        ("TO '/dev/null' (FORMAT csv, UNREPRESENTABLE 'null')", "available only in Parquet"),
    ] {
        refused(copy(what), "0A000", &[says]);
    }
    refused(copy("TO '/dev/null' (FORMAT parquet, UNREPRESENTABLE maybe)"), "22023", &["not recognized"]);
    refused(
        copy("FROM '/dev/null' (FORMAT parquet, UNREPRESENTABLE 'null')"),
        "22023",
        &["only available using COPY TO"],
    );
}

fn used(s: &mut Session) -> u64 {
    let rows = s.query("SELECT bytes FROM ondol_memory WHERE name = 'used'", &[]).unwrap();
    rows.row(0).get::<i64>(0).unwrap() as u64
}

/// Asks, while row groups are written, what they are charged: at least their own bytes.
struct Asking {
    session: Session,
    before: u64,
    groups: usize,
}
impl std::io::Write for Asking {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // Not the file's beginning and its footer.
        if bytes.len() > 600 << 10 {
            let used = used(&mut self.session);
            assert!(
                used >= self.before + bytes.len() as u64 - 1024,
                "{} after {}, for {}",
                used,
                self.before,
                bytes.len()
            );
            self.groups += 1;
        }
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Row groups count against the memory limit while they are made and until they are written; what is refused
/// leaves no file, and the one before as it was.
#[test]
fn row_groups_are_charged() {
    const MIB: u64 = 1 << 20;
    for workers in [0, 2] {
        let folder = TempFolder::new().unwrap();
        let db = OpenOptions::new().memory_limit(96 << 20).open(folder.path().join("db")).unwrap();
        let p = Place { folder, db };
        let mut s = p.session(workers);
        s.execute(
            "CREATE TABLE t (a double precision, b double precision, c double precision, d text);
             INSERT INTO t SELECT random(), random(), random(), 'row ' || n FROM generate_series(1, 400000) n;
             CREATE TABLE filler (b text)",
        )
        .unwrap();
        let file = p.file("t.parquet");
        assert_eq!(to(&mut s, "t", &file, "").unwrap(), "COPY 400000");
        let whole = std::fs::read(&file).unwrap();
        let before = used(&mut s);
        let mut asking = Asking { session: p.db.session(), before, groups: 0 };
        s.copy_out("COPY t TO STDOUT (FORMAT parquet)", &mut asking, |_| {}).unwrap();
        assert!(asking.groups > 0);
        assert!(used(&mut s) <= before + MIB / 4, "{} after {before}", used(&mut s));
        // Hardly anything is left.
        let more = "INSERT INTO filler SELECT 'a text of forty bytes, more or less, or so' FROM generate_series(1, 5000)";
        while done(&mut s, more).is_ok() {}
        let full = used(&mut s);
        refused(to(&mut s, "t", &file, ""), "53200", &["out of memory"]);
        refused(to(&mut s, "t", &p.file("new.parquet"), ""), "53200", &["out of memory"]);
        // Rows that wait to be encoded count too: 8 MB of them, which become next to nothing.
        let alike = "(SELECT repeat('x', 1000) AS x FROM generate_series(1, 7500) n)";
        assert_eq!(text(&mut s, alike).len(), 7500 * 1001);
        refused(to(&mut s, alike, &p.file("new.parquet"), ""), "53200", &["out of memory"]);
        assert!(used(&mut s) <= full + MIB / 4, "{} after {full}", used(&mut s));
        assert!(std::fs::read(&file).unwrap() == whole, "with {workers} workers");
        let mut names: Vec<_> =
            std::fs::read_dir(p.folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["db", "t.parquet"], "with {workers} workers");
    }
    // Rows that no table holds.
    let many = "(SELECT random() AS a, random() AS b, random() AS c FROM generate_series(1, 1200000) n)";
    let mut p = Place::new();
    assert_eq!(to(&mut p.session(2), many, &p.file("new.parquet"), "").unwrap(), "COPY 1200000");
    p.db = OpenOptions::new().memory_limit(24 << 20).open(p.file("small")).unwrap();
    let mut s = p.session(2);
    let before = used(&mut s);
    refused(to(&mut s, many, &p.file("new.parquet"), ""), "53200", &["out of memory"]);
    assert!(used(&mut s) <= before + MIB / 4, "{} after {before}", used(&mut s));
}

/// So do batches that were read until their rows are inserted.
#[test]
fn batches_are_charged() {
    let mut p = Place::new();
    let mut s = p.session(0);
    let rows = "(SELECT n, repeat('x', 10000) AS x FROM generate_series(1, 4000) n)";
    to(&mut s, rows, &p.file("t.parquet"), "").unwrap();
    // Its rows alone have room in the smaller one, as is seen in the larger.
    for (limit, enough) in [(80, false), (400, true)] {
        p.db = OpenOptions::new().memory_limit(limit << 20).open(p.file(&format!("limit{limit}"))).unwrap();
        let mut s = p.session(0);
        s.execute("CREATE TABLE t (n bigint, x text); CREATE TABLE u (n bigint, x text, now timestamptz DEFAULT clock_timestamp())").unwrap();
        for table in ["t", "u"] {
            let before = used(&mut s);
            let done = from(&mut s, table, &p.file("t.parquet"));
            if enough {
                assert_eq!(done.unwrap(), "COPY 4000");
                assert!(used(&mut s) < before + (60 << 20), "{} after {before}", used(&mut s));
            } else {
                refused(done, "53200", &["out of memory"]);
                // Of the other table rows were inserted before, which keeps its segments.
                let left = used(&mut s);
                assert!(table == "u" || left <= before + (1 << 20), "{left} after {before}");
            }
        }
    }
}

/// A file is replaced when the new one is whole, with its permissions; what is no file, and what a link leads
/// to, is written to.
#[test]
fn a_file_is_replaced_when_it_is_whole() {
    use std::os::unix::fs::PermissionsExt;
    let p = Place::new();
    let mut s = p.session(0);
    s.execute("CREATE TABLE t (a integer); INSERT INTO t VALUES (1), (0)").unwrap();
    let (file, link) = (p.file("t"), p.file("link"));
    std::fs::write(&file, "before").unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    for options in ["", " (FORMAT csv)", " (FORMAT parquet)"] {
        let sql = format!("COPY (SELECT 1 / a FROM t) TO '{}'{options}", file.display());
        refused(done(&mut s, &sql), "22012", &[]);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "before");
    }
    let mut copy = |what: &str, file: &Path| done(&mut s, &format!("COPY {what} TO '{}'", file.display()));
    assert_eq!(copy("t", &file).unwrap(), "COPY 2");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "1\n0\n");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(copy("(SELECT a + 1 FROM t)", &link).unwrap(), "COPY 2");
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "2\n1\n");
    refused(copy("t", p.folder.path()), "58030", &["could not create"]);
    refused(copy("t", &p.file("no/where")), "58P01", &["could not create", "no/where"]);
    assert_eq!(std::fs::read_dir(p.folder.path()).unwrap().count(), 3, "database, file and link");
}
