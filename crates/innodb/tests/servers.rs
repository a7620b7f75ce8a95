//! Tablespaces that servers wrote (files/README.md), read and compared with what the servers themselves said.
use ondol_innodb::error::Kind;
use ondol_innodb::evidence::{self, Evidence};
use ondol_innodb::export::{self, Format, Options};
use ondol_innodb::scan::{Buffers, Cursor, Scan};
use ondol_innodb::sdi;
use ondol_innodb::table::Unique;
use ondol_scan::csv::Dialect;
use std::path::Path;
use std::sync::Arc;

mod fixture;
use fixture::{SERVERS, stored, tables, unpacked};

fn outfile(scan: Scan, workers: usize) -> Vec<u8> {
    let dialect = if scan.space().format().has_sdi { Dialect::Mysql } else { Dialect::Mariadb };
    let columns = export::columns(&scan, None).expect("columns");
    let options = Options { format: Format::Text(dialect), columns, limit: None, workers, ordered: true };
    let mut out = Vec::new();
    export::export(Arc::new(scan), &options, &mut out, Path::new("memory"), |_| {})
        .unwrap_or_else(|e| panic!("{e}"));
    out
}

/// The servers that wrote a table of this name.
fn having(table: &str) -> impl Iterator<Item = &'static str> {
    SERVERS.into_iter().filter(move |server| stored(server, &format!("{table}.ibd")).is_some())
}

#[test]
fn every_byte_is_the_servers() {
    for server in SERVERS {
        for table in tables(server) {
            let (_dir, path) = unpacked(server, &table);
            let expected = stored(server, &format!("{table}.out")).expect("what the server said");
            for workers in [1, 3] {
                let found = outfile(Scan::open(&path).unwrap_or_else(|e| panic!("{e}")), workers);
                let at = found
                    .iter()
                    .zip(&expected)
                    .position(|(a, b)| a != b)
                    .unwrap_or(found.len().min(expected.len()));
                let near = |b: &[u8]| {
                    String::from_utf8_lossy(&b[at.saturating_sub(40).min(b.len())..(at + 40).min(b.len())])
                        .into_owned()
                };
                assert!(
                    found == expected,
                    "{server} {table}, byte {at}: {:?}, the server said {:?}",
                    near(&found),
                    near(&expected)
                );
            }
        }
    }
}

/// Lines of so many values that a leaf's are not put together at once.
#[test]
fn lines_of_thousands_of_values() {
    for server in having("tree") {
        let (_dir, path) = unpacked(server, "tree");
        let lines = |times: usize| {
            let scan = Scan::open(&path).expect("a table");
            let columns = [0, 1].repeat(times);
            let format = Format::Text(Dialect::Mysql);
            let options = Options { format, columns, limit: Some(400), workers: 1, ordered: true };
            let mut out = Vec::new();
            export::export(Arc::new(scan), &options, &mut out, Path::new("memory"), |_| {}).expect("rows");
            String::from_utf8(out).expect("text")
        };
        let once = lines(1);
        assert!(once.lines().count() > 100, "{server}");
        for (line, long) in once.lines().zip(lines(1000).lines()) {
            let mut values = long.split(',');
            for (id, v) in std::iter::repeat_n(line.split_once(',').expect("two values"), 1000) {
                assert_eq!((values.next(), values.next()), (Some(id), Some(v)), "{server}");
            }
            assert_eq!(values.next(), None);
        }
        assert_eq!(once.lines().count(), lines(1000).lines().count());
    }
}

#[test]
fn rfc_4180_is_utf_8_with_a_header() {
    for server in having("everything") {
        let (_dir, path) = unpacked(server, "everything");
        let scan = Scan::open(&path).expect("a table");
        let named = ["id", "b", "g", "h", "y", "ad", "p", "q"].map(String::from);
        let columns = export::columns(&scan, Some(&named)).expect("columns");
        let options = Options {
            format: Format::Text(Dialect::Rfc4180),
            columns,
            limit: Some(3),
            workers: 2,
            ordered: false,
        };
        let mut out = Vec::new();
        let done =
            export::export(Arc::new(scan), &options, &mut out, Path::new("memory"), |_| {}).expect("rows");
        assert_eq!(done.rows, 3);
        assert_eq!(
            String::from_utf8(out).expect("UTF-8"),
            "id,b,g,h,y,ad,p,q\n-3,\"\",zé,\"\",\"\",\"\",0,0x00000000\n1,hello,x,\"p,q\",aé,žx,682,0x61620000\n2,,,,,,,\n",
            "{server}"
        );
    }
}

/// Each byte of a file changed in turn, with the checksums as they were: nothing is believed.
#[test]
fn a_changed_byte_is_noticed() {
    let plain = having("keyless").map(|server| (server, "keyless"));
    let compressed = having("compressedkeyless").map(|server| (server, "compressedkeyless"));
    for (server, table) in plain.chain(compressed) {
        let (_dir, path) = unpacked(server, table);
        let whole = std::fs::read(&path).expect("a file");
        let page = Scan::open(&path).expect("a table").space().format().physical_size;
        let expected = outfile(Scan::open(&path).expect("a table"), 1);
        let mut noticed = 0;
        for at in (0..whole.len()).step_by(61) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x41;
            std::fs::write(&path, &bytes).expect("a file");
            match Scan::open(&path).and_then(|s| read_all(&s)) {
                Err(_) => noticed += 1,
                // A page that the rows do not need.
                Ok(()) => assert_eq!(
                    outfile(Scan::open(&path).expect("a table"), 1),
                    expected,
                    "{server} {table}, byte {at}"
                ),
            }
        }
        // Page 0 and the root at least, but for what a checksum leaves out.
        assert!(noticed > 2 * page / 61 - 9, "{server} {table}: {noticed} noticed");
    }
}

fn read_all(scan: &Scan) -> ondol_innodb::error::Result<()> {
    let mut buffers = Buffers::default();
    (0..scan.parts()).try_for_each(|part| scan.read(part, &mut buffers, |_| Ok(())).map(|_| ()))
}

#[test]
fn a_file_is_read_on_evidence_only() {
    for server in SERVERS {
        for table in tables(server) {
            let (_dir, path) = unpacked(server, &table);
            let scan = Scan::open(&path).expect("a table");
            let found = evidence::find(scan.space(), false);
            assert!(matches!(found, Ok(Evidence::Exported(_))), "{server} {table}: {found:?}");
        }
    }
    let (dir, path) = unpacked("mariadb-10.11", "keyless");
    let scan = Scan::open(&path).expect("a table");
    std::fs::remove_file(path.with_extension("cfg")).expect("a file");
    let e = evidence::find(scan.space(), false).expect_err("no evidence");
    assert!(e.to_string().contains("FOR EXPORT"), "{e}");
    assert_eq!(evidence::find(scan.space(), true), Ok(Evidence::Assumed(None)));
    // Another process that writes the file, or its data folder's ibdata1: nobody's word counts.
    let folder = tempfile::tempdir().expect("a folder");
    let inner = folder.path().join("shop/keyless.ibd");
    std::fs::create_dir(folder.path().join("shop")).expect("a folder");
    for name in ["ibd", "frm"] {
        std::fs::copy(path.with_extension(name), inner.with_extension(name)).expect("a copy");
    }
    let system = folder.path().join("ibdata1");
    std::fs::write(&system, b"").expect("a file");
    let inner = Scan::open(&inner).expect("a table");
    for held in [inner.space().path(), &system] {
        let open = std::fs::File::options().append(true).open(held).expect("a file");
        let mut other =
            std::process::Command::new("sleep").arg("60").stdout(open).spawn().expect("a process");
        let refused = evidence::find(inner.space(), true).expect_err("a file in use").to_string();
        other.kill().and_then(|()| other.wait()).expect("an end");
        assert!(refused.contains("(sleep)") && refused.contains("open for writing"), "{refused}");
        // Nor does an empty file make a data folder.
        assert!(matches!(evidence::find(inner.space(), true), Ok(Evidence::Assumed(Some(_)))));
    }
    for wrong in [&b"nonsense"[..], &stored("mariadb-10.11", "everything.cfg").expect("a .cfg")] {
        std::fs::write(path.with_extension("cfg"), wrong).expect("a file");
        assert_eq!(evidence::find(scan.space(), true).expect_err("a wrong .cfg").kind, Kind::Mismatch);
    }
    drop(dir);
}

/// What a server that was killed while tables were locked for export leaves behind is no evidence.
#[test]
fn an_export_that_was_left_behind_does_not_count() {
    let (_dir, path) = unpacked("mariadb-10.11", "keyless");
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("shop")).expect("a folder");
    let inner = folder.path().join("shop/keyless.ibd");
    for name in ["ibd", "frm", "cfg"] {
        std::fs::copy(path.with_extension(name), inner.with_extension(name)).expect("a copy");
    }
    let cfg = inner.with_extension("cfg");
    let scan = Scan::open(&inner).expect("a table");
    // A folder of copies; then a server's, without the server.
    let copied = evidence::find(scan.space(), false).expect("evidence");
    assert_eq!(copied, Evidence::Exported(cfg.clone()));
    std::fs::write(folder.path().join("ibdata1"), b"").expect("a file");
    let why = evidence::find(scan.space(), false).expect_err("no server").to_string();
    assert!(why.contains("no server is seen"), "{why}");
    assert!(evidence::still(scan.space(), &copied).is_err());
    // With the server; of times that are told by hundredths of a second.
    let wait = || std::thread::sleep(std::time::Duration::from_millis(300));
    let written = |file: &Path| {
        let file = std::fs::File::options().append(true).open(file).expect("a file");
        file.set_modified(std::time::SystemTime::now()).expect("a time");
    };
    let open = std::fs::File::options().append(true).open(&inner).expect("a file");
    wait();
    let mut server = std::process::Command::new("sleep").arg("60").stdout(open).spawn().expect("a process");
    let before = evidence::find(scan.space(), false).expect_err("an old .cfg").to_string();
    wait();
    written(&cfg);
    // It is another lock than that of what was read before.
    let other = evidence::find(scan.space(), false).expect_err("another lock").to_string();
    let again = Scan::open(&inner).expect("a table");
    let locked = evidence::find(again.space(), false);
    let still = evidence::still(again.space(), &copied);
    wait();
    written(&inner);
    let mut page = vec![0; again.space().format().page_size];
    let read = again.space().read_page(0, &mut page).expect_err("it was written").to_string();
    let after = Scan::open(&inner).expect("a table");
    let after = evidence::find(after.space(), false).expect_err("a newer file").to_string();
    server.kill().and_then(|()| server.wait()).expect("an end");
    assert!(other.contains("were unlocked") && read.contains("were unlocked"), "{other}, {read}");
    assert!(before.contains("(sleep)") && before.contains("is older than"), "{before}");
    assert_eq!(locked, Ok(Evidence::Exported(cfg)));
    assert_eq!(still, Ok(()));
    assert!(after.contains("was written after it"), "{after}");
}

#[test]
fn what_is_no_table_is_refused_with_the_reason() {
    let (dir, path) = unpacked("mariadb-10.11", "keyless");
    let reason = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("a file");
        Scan::open(&path).err().expect("an error").to_string()
    };
    let whole = std::fs::read(&path).expect("a file");
    for (bytes, expected) in [
        (&b""[..], "a tablespace has four pages at least"),
        (&[0x55; 100_000][..], "does not begin as a tablespace does"),
        (&whole[..40_000], "cut short"),
    ] {
        let found = reason(bytes);
        assert!(found.contains(expected), "{found}");
    }
    std::fs::write(&path, &whole).expect("a file");
    std::fs::remove_file(path.with_extension("frm")).expect("a file");
    let e = Scan::open(&path).err().expect("an error");
    assert!(e.to_string().contains("keyless.frm"), "{e}");
    std::fs::write(path.with_extension("frm"), stored("mariadb-10.11", "twokeys.frm").expect("a definition"))
        .expect("a file");
    let outcome = Scan::open(&path).and_then(|s| read_all(&s));
    assert!(outcome.is_err(), "another table's definition was believed");
    assert!(Scan::open(dir.path()).err().expect("a folder").to_string().contains("not a file"));
}

/// What MariaDB's older dates and times are with fractions is not read as what they are without.
#[test]
fn old_forms_with_fractions_are_refused() {
    let (_dir, path) = unpacked("mariadb-10.11", "olddates");
    let frm = path.with_extension("frm");
    let whole = std::fs::read(&frm).expect("a definition");
    for (kind, width, name) in [(7u8, 19u8, "timestamp(6)"), (11, 10, "time(6)"), (12, 19, "datetime(6)")] {
        let mut bytes = whole.clone();
        // A column has 17 bytes: its width in characters from the third on, its type at the thirteenth.
        let at =
            (0..bytes.len() - 17).find(|at| bytes[at + 3..at + 5] == [width, 0] && bytes[at + 13] == kind);
        bytes[at.expect("a column") + 3] = width + 7;
        std::fs::write(&frm, bytes).expect("a definition");
        let e = Scan::open(&path).err().expect("an error");
        assert!(e.kind == Kind::Unsupported && e.to_string().contains(name), "{e}");
    }
}

/// Where the key has a part of a column, a row version's positions say where that part is; a definition that
/// contradicts itself there is none.
#[test]
fn positions_of_a_keys_parts_are_judged() {
    let (_dir, path) = unpacked("mysql-9.7", "instantprefix");
    let text = sdi::text(Scan::open(&path).expect("a table").space()).expect("its definition");
    assert!(sdi::parse(&text).is_ok());
    // A part without its mark; a mark without a part.
    for (from, to) in
        [("physical_pos=163849;", "physical_pos=9;"), ("physical_pos=15;", "physical_pos=32783;")]
    {
        assert!(text.contains(from), "{from}");
        let (kind, why) = sdi::parse(&text.replace(from, to)).expect_err("a contradiction");
        assert!(kind == Kind::Damaged && why.contains("physical position"), "{why}");
    }
}

/// Row versions of a table that had columns added by a server before there were row versions.
#[test]
fn both_kinds_of_instant_columns_are_refused() {
    let (_dir, path) = unpacked("mysql-9.7", "instant");
    let text = sdi::text(Scan::open(&path).expect("a table").space()).expect("its definition");
    let (from, to) =
        (r#""se_private_data":"","engine_attr"#, r#""se_private_data":"instant_col=6;","engine_attr"#);
    assert!(text.contains(from) && sdi::parse(&text).is_ok());
    let (kind, why) = sdi::parse(&text.replacen(from, to, 1)).expect_err("both");
    assert!(kind == Kind::Unsupported && why.contains("8.0.28"), "{why}");
}

/// A range of the key gives the lines that the server gave whose first column is in it.
#[test]
fn a_range_of_the_key_is_its_rows() {
    for (table, server) in ["tree", "everything", "compressedtree", "instanttree"]
        .iter()
        .flat_map(|t| having(t).map(move |s| (*t, s)))
    {
        let (_dir, path) = unpacked(server, table);
        let out = stored(server, &format!("{table}.out")).expect("what the server said");
        let place = if table == "instanttree" { 1 } else { 0 };
        // Values of several lines are only in `everything`, whose lines go on where they do not begin with a
        // key.
        let mut lines: Vec<(i64, Vec<u8>)> = Vec::new();
        for line in out.split_inclusive(|b| *b == b'\n') {
            let text = String::from_utf8_lossy(line);
            let key = text.split(',').nth(place).and_then(|k| k.parse().ok());
            match (key, lines.last_mut()) {
                (Some(key), _) => lines.push((key, line.to_vec())),
                (None, Some(last)) => last.1.extend_from_slice(line),
                (None, None) => panic!("{table} begins with no key"),
            }
        }
        for (from, to) in [
            (None, None),
            (Some(100), Some(400)),
            (Some(i32::MIN as i64), Some(1)),
            (Some(7), Some(7)),
            (Some(2), None),
            (None, Some(-4)),
            (Some(899), Some(300)),
            (Some(100_000), None),
        ] {
            let mut scan = Scan::open(&path).expect("a table");
            let text = |n: Option<i64>| n.map(|n| n.to_string());
            scan.within(text(from).as_deref(), text(to).as_deref()).unwrap_or_else(|e| panic!("{e}"));
            let expected: Vec<u8> = lines
                .iter()
                .filter(|(key, _)| from.is_none_or(|f| *key >= f) && to.is_none_or(|t| *key <= t))
                .flat_map(|(_, line)| line.clone())
                .collect();
            assert!(outfile(scan, 2) == expected, "{server} {table}, {from:?} to {to:?}");
        }
    }
    for (table, expected) in
        [("keyless", "no primary key"), ("twokeys", "a part of a column"), ("keytree", "begins with k")]
    {
        let (_dir, path) = unpacked("mysql-9.7", table);
        let refused = Scan::open(&path).expect("a table").within(Some("1"), None);
        assert!(refused.expect_err("a range").to_string().contains(expected), "{table}");
    }
}

/// Rows in falling order are read, and no range of them, which would be another one.
#[test]
fn a_falling_key_has_no_range() {
    let (_dir, path) = unpacked("mariadb-10.11", "falls");
    let mut scan = Scan::open(&path).expect("a table");
    assert_eq!(scan.key_falls(), Ok(true));
    let refused = scan.within(Some("5"), Some("7")).expect_err("a range");
    assert!(refused.to_string().contains("its key falls (id DESC)"), "{refused}");
    let (_dir, path) = unpacked("mariadb-10.11", "tree");
    assert_eq!(Scan::open(&path).expect("a table").key_falls(), Ok(false));
}

/// Keys beside the clustered one, from both kinds of definition and in words.
#[test]
fn unique_keys_are_known() {
    let (_dir, path) = unpacked("mariadb-10.11", "keyed");
    let scan = Scan::open(&path).expect("a table");
    let table = &scan.definition().table;
    assert_eq!(table.key, [(0, 0)]);
    let unique: Vec<(&str, &[(usize, u32)])> =
        table.unique.iter().map(|u| (u.name.as_str(), &u.columns[..])).collect();
    assert_eq!(unique, [("mail", &[(1, 0)][..]), ("part", &[(1, 5), (0, 0)]), ("two", &[(2, 0), (3, 0)])]);
    // No key of a part of a column is clustered but a primary one.
    let (_dir, path) = unpacked("mariadb-10.11", "prefixed");
    let scan = Scan::open(&path).expect("a table");
    assert_eq!((&scan.definition().table.key[..], scan.definition().table.unique.len()), (&[][..], 1));
}

/// The text that made a fixture's table, with the character set that the server had by default.
fn schema(table: &str) -> Option<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files");
    for file in ["tables.sql", "formats.sql", "mariadb.sql", "odd.sql", "mariadb-odd.sql"] {
        let all = std::fs::read_to_string(folder.join(file)).expect("a script");
        let begin = format!("create table {table} (");
        if let Some(line) = all.lines().find(|l| l.starts_with(&begin)) {
            return Some(line.to_string());
        }
    }
    None
}

#[test]
fn create_table_is_as_good_as_the_definition() {
    let mut seen = 0;
    for server in SERVERS {
        for table in [
            "everything",
            "keyless",
            "twokeys",
            "tree",
            "redundanttree",
            "redundantkeyless",
            "compressedlong",
            "compressedtree",
            "keytree",
            "own",
            "keyed",
            "falls",
            "prefixed",
            "deep",
            "labels",
            "wide",
            "filled",
            "years",
            "shown",
            "bytelabels",
            "searched",
            "versioned",
            "versionedshown",
            "versionedbyid",
        ] {
            let is_other = [("own", "mysql-9.7"), ("deep", "mysql-9.7")].contains(&(table, server));
            if stored(server, &format!("{table}.ibd")).is_none() || is_other {
                continue;
            }
            let (dir, path) = unpacked(server, table);
            let by_file = Scan::open(&path).unwrap_or_else(|e| panic!("{e}"));
            // What the servers had by default.
            let charset = if server.starts_with("mysql") { "utf8mb4" } else { "latin1" };
            let text = schema(table).unwrap_or_else(|| panic!("no text of {table}"));
            let text = text.trim_end_matches(';').to_string() + &format!(" default charset={charset};\n");
            let sql = dir.path().join("schema.sql");
            std::fs::write(&sql, &text).expect("a file");
            let _ = std::fs::remove_file(path.with_extension("frm"));
            let by_text = Scan::open_by(&path, Some(&sql), None).unwrap_or_else(|e| panic!("{server} {e}"));
            let (a, b) = (&by_file.definition().table, &by_text.definition().table);
            // Servers put keys whose columns cannot be NULL before others.
            let unique = |of: &[Unique]| {
                let mut all = of.to_vec();
                all.sort_by(|a, b| a.name.cmp(&b.name));
                all
            };
            assert_eq!((&a.key, unique(&a.unique)), (&b.key, unique(&b.unique)), "{server} {table}");
            assert_eq!(a.period, b.period, "{server} {table}");
            for (a, b) in a.columns.iter().zip(&b.columns) {
                let same = (&a.name, &a.ty, a.nullable, a.stored, a.invisible)
                    == (&b.name, &b.ty, b.nullable, b.stored, b.invisible);
                assert!(same, "{server} {table}: {a:?}, by its text {b:?}");
            }
            assert_eq!(a.columns.len(), b.columns.len());
            assert!(
                outfile(by_text, 2) == stored(server, &format!("{table}.out")).expect("what the server said"),
                "{server} {table}"
            );
            seen += 1;
        }
    }
    assert!(seen > 15, "{seen} tables");
}

/// Words of another shape are refused by the records.
#[test]
fn create_table_of_another_shape_is_refused() {
    let (dir, path) = unpacked("mariadb-10.11", "everything");
    let text = schema("everything").expect("a text") + " charset latin1";
    let sql = dir.path().join("schema.sql");
    for (from, to) in [
        ("id int primary key", "id bigint primary key"),
        ("c decimal(10,2) not null", "c decimal(10,2)"),
        ("d date, ", ""),
        ("e datetime(3)", "e datetime(6)"),
        ("v smallint", "v smallint, extra varchar(9)"),
        ("q binary(4)", "q binary(5)"),
        ("id int primary key", "id int"),
    ] {
        assert!(text.contains(from), "{from}");
        std::fs::write(&sql, text.replacen(from, to, 1).replace("; charset", " charset")).expect("a file");
        let outcome = Scan::open_by(&path, Some(&sql), None).and_then(|s| {
            let columns = export::columns(&s, None)?;
            let format = Format::Text(Dialect::Rfc4180);
            let options = Options { format, columns, limit: None, workers: 1, ordered: true };
            export::export(Arc::new(s), &options, &mut Vec::new(), Path::new("memory"), |_| {})
        });
        assert!(outcome.is_err(), "{from} as {to} was believed");
    }
}

/// Of a system-versioned table only rows that are current are rows, unless its history is wanted.
#[test]
fn history_is_read_where_it_is_wanted() {
    for (table, current, all) in [("versioned", 2, 4), ("versionedshown", 2, 4), ("versionedbyid", 2, 4)] {
        let (_dir, path) = unpacked("mariadb-10.11", table);
        let rows = |scan: &Scan| {
            let mut buffers = Buffers::default();
            let (mut rows, mut history) = (0, 0);
            for part in 0..scan.parts() {
                let left_out = scan.read(part, &mut buffers, |leaf| {
                    rows += leaf.rows.len();
                    Ok(())
                });
                history += left_out.expect("rows").history;
            }
            (rows, history)
        };
        let mut scan = Scan::open(&path).expect("a table");
        assert_eq!(rows(&scan), (current, all - current), "{table}");
        let go_on = || Ok::<_, ondol_innodb::error::Error>(());
        let count = |scan: &Scan| Cursor::new(Arc::new(scan.clone()), 0..scan.parts()).count(&go_on);
        assert_eq!(count(&scan), Ok(current as u64), "{table}");
        scan.with_history().expect("a history");
        assert_eq!(rows(&scan), (all, 0), "{table}");
        assert_eq!(count(&scan), Ok(all as u64), "{table}");
        // What says when they were current comes with them, shown by the server or not.
        assert_eq!(export::columns(&scan, None).expect("columns"), [0, 1, 2, 3], "{table}");
        if table == "versionedshown" {
            let lines = |bytes: &[u8]| {
                let mut lines: Vec<String> =
                    String::from_utf8_lossy(bytes).lines().map(str::to_string).collect();
                lines.sort();
                lines
            };
            let expected = stored("mariadb-10.11", "versionedshown.history").expect("what the server said");
            assert_eq!(lines(&outfile(scan, 2)), lines(&expected));
        }
    }
    let (_dir, path) = unpacked("mariadb-10.11", "keyless");
    let refused = Scan::open(&path).expect("a table").with_history().expect_err("no history");
    assert!(refused.to_string().contains("not system-versioned"), "{refused}");
}

/// A range of the key of rows that are current.
#[test]
fn a_range_of_current_rows() {
    let (_dir, path) = unpacked("mariadb-10.11", "versioned");
    for (from, to, expected) in [("1", "1", "1,ONE\n"), ("2", "2", ""), ("2", "3", "3,three\n")] {
        let mut scan = Scan::open(&path).expect("a table");
        scan.within(Some(from), Some(to)).expect("a range");
        assert_eq!(String::from_utf8_lossy(&outfile(scan, 1)), expected);
    }
}

/// Columns that no file holds are left out, and can be named by those who tell of it.
#[test]
fn virtual_columns_are_known() {
    for server in ["apart/mariadb-10.11", "apart/mysql-9.7"] {
        let (_dir, path) = unpacked(server, "computed");
        let scan = Scan::open(&path).expect("a table");
        assert_eq!(export::virtual_columns(&scan), ["c", "e"], "{server}");
        assert_eq!(export::columns(&scan, None).expect("columns"), [0, 1, 3], "{server}");
        let named = export::columns(&scan, Some(&["e".into()])).expect_err("a virtual column");
        assert!(named.to_string().contains("column e is virtual"), "{named}");
        assert_eq!(outfile(scan, 1), b"1,x,3\n2,\\N,5\n", "{server}");
        let (_dir, path) = unpacked(server, "computedalone");
        let scan = Scan::open(&path).expect("a table");
        let refused = export::columns(&scan, None).expect_err("no columns");
        assert_eq!(refused.kind, Kind::Unsupported, "{server}");
        assert!(refused.to_string().contains("which are virtual: a, b"), "{refused}");
    }
}

/// Of MySQL's partitions one has the definition, for all of them.
#[test]
fn partitions_find_their_definition() {
    const PARTITIONS: [&str; 4] =
        ["parted#p#p0#sp#p0sp0", "parted#p#p0#sp#p0sp1", "parted#p#p1#sp#p1sp0", "parted#p#p1#sp#p1sp1"];
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(format!("{name}.ibd"));
    for name in PARTITIONS {
        let bytes = stored("apart/mysql-9.7", &format!("{name}.ibd")).expect("a partition");
        std::fs::write(path(name), bytes).expect("a file");
    }
    let roots = PARTITIONS.map(|name| {
        let scan = Scan::open(&path(name)).unwrap_or_else(|e| panic!("{e}"));
        let expected = stored("apart/mysql-9.7", &format!("{name}.out")).unwrap_or_default();
        let index = scan.definition().table.index;
        assert_eq!(String::from_utf8_lossy(&outfile(scan, 1)), String::from_utf8_lossy(&expected), "{name}");
        index.expect("the index's number")
    });
    assert!(roots.windows(2).all(|w| w[0] < w[1]), "{roots:?}");
    // Without the first one's file nothing is known of the others; with another table's neither.
    std::fs::remove_file(path(PARTITIONS[0])).expect("a file");
    let refused = Scan::open(&path(PARTITIONS[1])).err().expect("no definition");
    assert!(refused.kind == Kind::Mismatch && refused.to_string().contains("--schema"), "{refused}");
}

/// A table whose definition has another table's columns: its pages are whole, so nothing is said to be
/// damaged.
#[test]
fn a_definition_that_does_not_fit_is_no_damage() {
    for (table, of) in [("tree", "everything"), ("redundanttree", "everything"), ("keytree", "twokeys")] {
        let (_dir, path) = unpacked("mariadb-10.11", table);
        std::fs::write(
            path.with_extension("frm"),
            stored("mariadb-10.11", &format!("{of}.frm")).expect("a definition"),
        )
        .expect("a file");
        let read = Scan::open(&path).and_then(|scan| {
            let columns = export::columns(&scan, None)?;
            let format = Format::Text(Dialect::Rfc4180);
            let options = Options { format, columns, limit: None, workers: 1, ordered: true };
            export::export(Arc::new(scan), &options, &mut Vec::new(), Path::new("memory"), |_| {})
        });
        let Err(refused) = read else { panic!("{table} was read as {of}") };
        assert_eq!(refused.kind, Kind::Mismatch, "{table} as {of}: {refused}");
        assert!(refused.to_string().contains("--schema"), "{refused}");
    }
}

/// Where a table has no tablespace, its definition says why.
#[test]
fn what_has_no_tablespace_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let (frm, ibd) = (folder.path().join("t.frm"), folder.path().join("t.ibd"));
    let table = stored("mariadb-10.11", "keyless.frm").expect("a definition");
    let of_engine = |engine: u8| {
        let mut bytes = table.clone();
        bytes[3] = engine;
        bytes
    };
    for (bytes, expected) in [
        (b"TYPE=VIEW\nquery=select 1 AS `1`\n".to_vec(), "it is a view"),
        (of_engine(9), "its table is of MyISAM"),
        (of_engine(42), "its table is of Aria"),
        (of_engine(77), "the engine numbered 77"),
        (of_engine(20), "t#P#….ibd"),
        (of_engine(12), "in the system tablespace (innodb_file_per_table=OFF)"),
    ] {
        std::fs::write(&frm, &bytes).expect("a file");
        let refused = Scan::open(&ibd).err().expect("no file");
        assert!(refused.kind == Kind::Unsupported && refused.to_string().contains(expected), "{refused}");
        // The definition in the tablespace's stead.
        let refused = Scan::open(&frm).err().expect("no tablespace");
        assert!(refused.kind == Kind::Mismatch, "{refused}");
    }
    std::fs::remove_file(&frm).expect("a file");
    let refused = Scan::open(&ibd).err().expect("no file");
    assert_eq!(refused.kind, Kind::Io, "{refused}");
}

/// Encrypted pages are said to be encrypted, in each family of checksums and each form of pages; those that
/// are not are read.
#[test]
fn encrypted_pages_are_said_to_be_encrypted() {
    for server in ["apart/aes_cbc-crc32", "apart/aes_cbc-full_crc32", "apart/aes_ctr-full_crc32"] {
        for table in ["locked", "longkey", "lockedzip", "lockedpacked"] {
            let (_dir, path) = unpacked(server, table);
            let refused = Scan::open(&path).and_then(|s| read_all(&s)).expect_err("an encrypted table");
            assert_eq!(refused.kind, Kind::Unsupported, "{server} {table}: {refused}");
            assert!(refused.to_string().contains("it is encrypted"), "{refused}");
        }
        let (_dir, path) = unpacked(server, "unlocked");
        let expected = stored(server, "unlocked.out").expect("what the server said");
        assert_eq!(outfile(Scan::open(&path).unwrap_or_else(|e| panic!("{e}")), 1), expected, "{server}");
        // What is damaged is that, nevertheless.
        let mut bytes = std::fs::read(&path).expect("a file");
        bytes[3 * 4096 + 200] ^= 1;
        std::fs::write(&path, bytes).expect("a file");
        let refused = Scan::open(&path).and_then(|s| read_all(&s)).expect_err("a damaged table");
        assert_eq!(refused.kind, Kind::Damaged, "{server}: {refused}");
    }
}

/// Another process that reads the file and writes others, by the same number again and again, is no server
/// that has it open for writing.
#[test]
fn a_descriptor_that_was_used_again_is_no_servers() {
    let (_dir, path) = unpacked("mariadb-10.11", "keyless");
    let scan = Scan::open(&path).expect("a table");
    let mut other = std::process::Command::new("sh")
        .args(["-c", "while :; do exec 3<\"$0\"; exec 3>/dev/null; done"])
        .arg(&path)
        .spawn()
        .expect("a shell");
    let found: Vec<_> =
        (0..3000).map(|_| evidence::find(scan.space(), false)).filter(|found| found.is_err()).collect();
    other.kill().and_then(|()| other.wait()).expect("an end");
    assert!(found.is_empty(), "{} times, {:?}", found.len(), found.first());
}
