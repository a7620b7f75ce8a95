//! COPY FROM of more than one block: rows made by several threads, errors as if by one. (Apart from the
//! library's own tests: a world of the simulator cannot wait for the parser of a thread outside.)
use ondol::{Database, Session, TempFolder};
use ondol_types::SqlError;
use std::fmt::Write;

const ROWS: usize = 20_000;

fn copy(s: &mut Session, columns: &str, input: &str) -> Result<u64, SqlError> {
    s.copy_in(&format!("COPY t {columns} FROM STDIN (FORMAT csv)"), input.as_bytes(), |_| {})
}
fn one(s: &mut Session, sql: &str) -> String {
    s.query(sql, &[]).unwrap().iter().next().unwrap().get::<String>(0).unwrap()
}
/// Lines of four kinds: with a long string, with quotes over two lines, with NULLs, with a wide char.
fn line(i: usize) -> String {
    let long = "0123456789".repeat(4);
    match i % 4 {
        0 => format!("{i},{long} {i},abc\n"),
        1 => format!("{i},\"two\nlines {i}\",\n"),
        2 => format!("{i},,x\n"),
        _ => format!("{i},short,\u{e9}\u{20ac}\u{10348}\n"),
    }
}

#[test]
fn blocks_of_rows_are_one_statement_with_errors_in_order() {
    let folder = TempFolder::new().unwrap();
    let db = Database::open(folder.path()).unwrap();
    let mut s = db.session();
    s.execute(
        "CREATE TABLE t (id integer PRIMARY KEY, name text, code char(3), kind text DEFAULT 'a constant beyond twelve bytes' NOT NULL)",
    )
    .unwrap();
    let columns = "(id, name, code)";
    let good: Vec<String> = (0..ROWS).map(line).collect();
    let with = |at: usize, bad: &str, at2: usize, bad2: &str| {
        let mut all = String::new();
        for (i, l) in good.iter().enumerate() {
            all.push_str(if i == at {
                bad
            } else if i == at2 {
                bad2
            } else {
                l
            });
        }
        all
    };
    // Every fourth record has two lines.
    let number = |i: usize| 1 + i + (i + 2) / 4;
    let none = usize::MAX;
    for (input, state, place) in [
        (with(15_000, "15000,x\n", none, ""), "22P04", format!("line {}: \"15000,x\"", number(15_000))),
        (
            with(15_000, "15000,x,y,z\n", 16_000, "a,b,c\n"),
            "22P04",
            format!("line {}: \"15000,x,y,z\"", number(15_000)),
        ),
        (
            with(15_000, "7b,x,y\n", 100, "101,later,\n"),
            "23505",
            format!("Key (id)=(101) already exists. COPY t, line {}: \"101,\"two", number(101)),
        ),
        (
            with(9_000, "7b,x,y\n", 9_001, "1,later,\n"),
            "22P02",
            format!("line {}, column id: \"7b\"", number(9_000)),
        ),
        (
            with(9_000, "1,before,\n", 9_001, "7b,x,y\n"),
            "23505",
            format!("Key (id)=(1) already exists. COPY t, line {}: \"1,before,\"", number(9_000)),
        ),
        (with(19_999, ",x,y\n", none, ""), "23502", format!("line {}: \",x,y\"", number(19_999))),
        (with(12_000, "1,\"open\n", none, ""), "22P04", format!("line {}:", number(12_000))),
    ] {
        let e = copy(&mut s, columns, &input).unwrap_err();
        assert_eq!(e.sqlstate(), state, "{e:?}");
        let told =
            [e.0.detail.clone(), e.0.context.clone()].into_iter().flatten().collect::<Vec<_>>().join(" ");
        assert!(told.contains(&place), "{e:?} for {place}");
        assert_eq!(one(&mut s, "SELECT count(*)::text FROM t"), "0");
    }
    // The data ends at the mark, whatever follows.
    let input = good.concat() + "\\.\n1,again,\n" + &"rubbish\n".repeat(100_000);
    assert_eq!(copy(&mut s, columns, &input).unwrap(), ROWS as u64);
    let got = s.query("SELECT id::text, name, code::text, kind FROM t ORDER BY t.id", &[]).unwrap();
    let mut n = 0;
    for (i, row) in got.iter().enumerate() {
        let field = |c| row.get::<Option<String>>(c).unwrap();
        let mut want = String::new();
        let quoted = |v: Option<String>| match v {
            Some(v) if v.contains('\n') => format!("\"{v}\""),
            v => v.unwrap_or_default(),
        };
        writeln!(want, "{},{},{}", field(0).unwrap(), quoted(field(1)), quoted(field(2))).unwrap();
        assert_eq!(want.replace(" \n", "\n"), line(i).replace(" \n", "\n"), "row {i}");
        assert_eq!(field(3).unwrap(), "a constant beyond twelve bytes");
        n += 1;
    }
    assert_eq!(n, ROWS);
    // Defaults that are computed for each row.
    s.execute("CREATE TABLE u (id integer, at double precision DEFAULT random())").unwrap();
    let input: String = (0..100_000).map(|i| format!("{i}\n")).collect();
    assert_eq!(s.copy_in("COPY u (id) FROM STDIN", input.as_bytes(), |_| {}).unwrap(), 100_000);
    assert_eq!(one(&mut s, "SELECT (count(DISTINCT at) > 90000)::text FROM u"), "true");
}
