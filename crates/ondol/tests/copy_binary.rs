//! COPY in PostgreSQL's binary format. The bytes and the errors are PostgreSQL 15's.
#![cfg(feature = "server")]
use ondol::{Database, Session, TempFolder};

/// Two rows of [`COLUMNS`], the second of NULLs.
const EVERY: &str = "\
    5047434f50590aff0d0a000000000000000000001700000002000100000004fffffffe00000008000000000000000300\
    0000043fc0000000000008c0040000000000000000000c0002000000000002000c0dac0000000568c3a9c3a900000002\
    6162000000037820200000000200ff00000001010000000400002279000000080000000a8be626080000000c0000000a\
    0eebb000ffffe3e0000000080002b0d5d4eb2078000000080002b0d5d4e940000000001000000000002dc6c000000002\
    000000010000001000112233445566778899aabbccddeeff000000280000000100000001000000170000000300000001\
    0000000400000001ffffffff000000040000000300000030000000020000000000000019000000020000000100000002\
    000000010000000161000000016200000001630000000164000000026f6b0000001b0000000200000017000000040000\
    00070000001900000003782079000000040000002a0017ffffffffffffffffffffffffffffffffffffffffffffffffff\
    ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff\
    ffffffffffffffffffffffffffffffffffffffffff\
    ";
const COLUMNS: &str = "i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, n numeric(6,2), t text, \
    v varchar(3), c char(3), b bytea, o bool, d date, ti time, tz timetz, ts timestamp(3), tt timestamptz, \
    iv interval, u uuid, ai int[], at text[], e mood, p pair, s small";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap()).collect()
}

fn one(s: &mut Session, sql: &str) -> String {
    s.query(sql, &[]).unwrap().iter().next().unwrap().get::<String>(0).unwrap()
}

fn session(f: impl FnOnce(&mut Session)) {
    let folder = TempFolder::new().unwrap();
    let db = Database::open(folder.path()).unwrap();
    f(&mut db.session())
}

#[test]
fn values_of_every_type_lie_as_postgresqls_do() {
    session(|s| {
        s.execute("CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TYPE pair AS (a int, b text)").unwrap();
        s.execute("CREATE DOMAIN small AS int CHECK (value < 100)").unwrap();
        s.execute(&format!("CREATE TABLE every ({COLUMNS})")).unwrap();
        let every = bytes(EVERY);
        assert_eq!(s.copy_in("COPY every FROM STDIN (FORMAT binary)", &every[..], |_| {}).unwrap(), 2);
        let shown = [
            r#"(1,-2,3,1.5,-2.5,12.35,héé,ab,"x  ","\\x00ff",t,2024-02-29,12:34:56.789,12:00:00+02,"#,
            r#""2024-01-01 00:00:00.123","2024-01-01 00:00:00+00","1 mon 2 days 00:00:03","#,
            r#"00112233-4455-6677-8899-aabbccddeeff,"{1,NULL,3}","{{a,b},{c,d}}",ok,"(7,""x y"")",42)"#,
        ];
        assert_eq!(one(s, "SELECT every::text FROM every WHERE i2 = 1"), shown.concat());
        let mut out = Vec::new();
        assert_eq!(s.copy_out("COPY every TO STDOUT (FORMAT binary)", &mut out, |_| {}).unwrap(), 2);
        assert_eq!(out, every);
        // What a domain does not have.
        s.execute("DROP TABLE every; CREATE TABLE every (s small)").unwrap();
        let row = [&ondol_sql::copy::binary::HEAD[..], &[0, 1, 0, 0, 0, 4, 0, 0, 0, 100, 255, 255]].concat();
        let e = s.copy_in("COPY every FROM STDIN BINARY", &row[..], |_| {}).unwrap_err();
        assert_eq!((e.sqlstate(), e.0.context.as_deref()), ("23514", Some("COPY every, line 1, column s")));
    });
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    const HEAD: &str = "5047434f50590aff0d0a00 00000000 00000000";
    session(|s| {
        s.execute("CREATE TABLE t (a int, b text)").unwrap();
        let cases = [
            ("", "22P04", "COPY file signature not recognized", None),
            ("5047434f50590aff0d0a01 00000000 00000000", "22P04", "COPY file signature not recognized", None),
            ("5047434f50590aff0d0a00 0000", "22P04", "invalid COPY file header (missing flags)", None),
            (
                "5047434f50590aff0d0a00 00010000 00000000",
                "22P04",
                "invalid COPY file header (WITH OIDS)",
                None,
            ),
            (
                "5047434f50590aff0d0a00 00020000 00000000",
                "22P04",
                "unrecognized critical flags in COPY file header",
                None,
            ),
            (
                "5047434f50590aff0d0a00 00000000 0000",
                "22P04",
                "invalid COPY file header (missing length)",
                None,
            ),
            (
                "5047434f50590aff0d0a00 00000000 ffffffff",
                "22P04",
                "invalid COPY file header (missing length)",
                None,
            ),
            (
                "5047434f50590aff0d0a00 00000000 00000004 0000",
                "22P04",
                "invalid COPY file header (wrong length)",
                None,
            ),
            ("+0001 00000004 00000001", "22P04", "row field count is 1, expected 2", Some("line 1")),
            ("+0003", "22P04", "row field count is 3, expected 2", Some("line 1")),
            ("+fffe", "22P04", "row field count is -2, expected 2", Some("line 1")),
            ("+0002 0000", "22P04", "unexpected EOF in COPY data", Some("line 1, column a")),
            ("+0002 00000004 000000", "22P04", "unexpected EOF in COPY data", Some("line 1, column a")),
            ("+0002 00000004 00000001", "22P04", "unexpected EOF in COPY data", Some("line 1, column b")),
            ("+0002 fffffffe", "22P04", "invalid field size", Some("line 1, column a")),
            (
                "+0002 00000002 0001 ffffffff",
                "08P01",
                "insufficient data left in message",
                Some("line 1, column a"),
            ),
            (
                "+0002 ffffffff ffffffff 0002 00000005 0000000100 ffffffff",
                "22P03",
                "incorrect binary data format",
                Some("line 2, column a"),
            ),
            (
                "+0002 ffffffff 00000001 ff",
                "22021",
                "invalid byte sequence for encoding \"UTF8\": 0xff",
                Some("line 1, column b"),
            ),
            (
                "+0002 ffffffff ffffffff ffff 00",
                "22P04",
                "received copy data after EOF marker",
                Some("line 2"),
            ),
        ];
        for (data, state, message, place) in cases {
            let data = bytes(&data.replace('+', HEAD));
            // In pieces, too: the head and the rows may come in any.
            for piece in [usize::MAX, 1] {
                let input = Pieces { rest: &data, piece };
                let e = s.copy_in("COPY t FROM STDIN (FORMAT binary)", input, |_| {}).unwrap_err();
                let place = place.map(|p| format!("COPY t, {p}"));
                assert_eq!(
                    (e.sqlstate(), &e.0.message[..], &e.0.context),
                    (state, message, &place),
                    "{data:?}"
                );
            }
        }
        // The end need not be marked, and one byte more is none.
        for (data, rows) in
            [("+", 0), ("+ffff", 0), ("+0002 ffffffff ffffffff", 1), ("+0002 ffffffff ffffffff 00", 1)]
        {
            let data = bytes(&data.replace('+', HEAD));
            assert_eq!(s.copy_in("COPY t FROM STDIN (FORMAT binary)", &data[..], |_| {}).unwrap(), rows);
        }
        // What the head may say more.
        let more =
            bytes("5047434f50590aff0d0a00 00000001 00000003 abcdef 0002 00000004 00000009 00000001 78 ffff");
        assert_eq!(s.copy_in("COPY t FROM STDIN (FORMAT binary)", &more[..], |_| {}).unwrap(), 1);
        assert_eq!(one(s, "SELECT b FROM t WHERE a = 9"), "x");
    });
}

struct Pieces<'a> {
    rest: &'a [u8],
    piece: usize,
}
impl std::io::Read for Pieces<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let n = self.rest.len().min(self.piece).min(out.len());
        out[..n].copy_from_slice(&self.rest[..n]);
        self.rest = &self.rest[n..];
        Ok(n)
    }
}

/// More than one block, read and written by several threads; the first error is told.
#[test]
fn many_rows_are_read_and_written_in_order() {
    const ROWS: usize = 60_000;
    session(|s| {
        s.execute("CREATE TABLE t (a int PRIMARY KEY, b text, c numeric(10, 2))").unwrap();
        s.execute(&format!(
            "INSERT INTO t SELECT g, repeat('x', g % 50), g / 7.0 FROM generate_series(1, {ROWS}) g"
        ))
        .unwrap();
        let mut out = Vec::new();
        s.copy_out("COPY t TO STDOUT (FORMAT binary)", &mut out, |_| {}).unwrap();
        s.execute("CREATE TABLE u (LIKE t INCLUDING ALL)").unwrap();
        assert_eq!(s.copy_in("COPY u FROM STDIN (FORMAT binary)", &out[..], |_| {}).unwrap(), ROWS as u64);
        assert_eq!(one(s, "SELECT count(*)::text FROM t JOIN u USING (a, b, c)"), ROWS.to_string());
        // Cut within the last rows, and again with all of them.
        s.execute("TRUNCATE u").unwrap();
        let e = s.copy_in("COPY u FROM STDIN (FORMAT binary)", &out[..out.len() - 5], |_| {}).unwrap_err();
        let place = format!("COPY u, line {ROWS}, column c");
        assert_eq!((e.sqlstate(), e.0.context), ("22P04", Some(place)));
        out.truncate(out.len() - 2);
        let twice = [&out[..], &out[19..]].concat();
        let e = s.copy_in("COPY u FROM STDIN (FORMAT binary)", &twice[..], |_| {}).unwrap_err();
        let place = format!("COPY u, line {}", ROWS + 1);
        assert_eq!((e.sqlstate(), e.0.context), ("23505", Some(place)));
        assert_eq!(one(s, "SELECT count(*)::text FROM u"), "0");
    });
}

#[test]
fn options_of_texts_do_not_go_with_it() {
    session(|s| {
        s.execute("CREATE TABLE t (a int)").unwrap();
        for (options, state, message) in [
            ("FORMAT binary, DELIMITER ','", "42601", "cannot specify DELIMITER in BINARY mode"),
            ("FORMAT binary, NULL ''", "42601", "cannot specify NULL in BINARY mode"),
            ("FORMAT binary, HEADER", "0A000", "cannot specify HEADER in BINARY mode"),
            ("FORMAT binary, QUOTE 'x'", "0A000", "COPY quote available only in CSV mode"),
            ("FORMAT binary, ESCAPE 'x'", "0A000", "COPY escape available only in CSV mode"),
        ] {
            let e = s.execute(&format!("COPY t FROM '/nowhere' ({options})")).unwrap_err();
            assert_eq!((e.sqlstate(), &e.0.message[..]), (state, message));
        }
        let e = s.execute("COPY (SELECT '=r/x'::aclitem WHERE false) TO '/dev/null' BINARY");
        assert!(e.is_err());
    });
}
