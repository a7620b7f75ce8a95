//! `ondol innodb export` from outside: what lies there afterwards, and what is said.
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A table that a server wrote, in a folder of its own.
fn unpacked_of(server: &str, table: &str) -> (ondol::TempFolder, PathBuf) {
    let folder = ondol::TempFolder::new().expect("a temporary folder");
    for kind in ["ibd", "frm", "cfg"] {
        let files = format!("{}/../innodb/tests/files", env!("CARGO_MANIFEST_DIR"));
        let Ok(file) = std::fs::File::open(format!("{files}/{server}/{table}.{kind}.gz")) else { continue };
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(file).read_to_end(&mut bytes).expect("a fixture");
        std::fs::write(folder.path().join(format!("{table}.{kind}")), bytes).expect("a file");
    }
    let path = folder.path().join(format!("{table}.ibd"));
    (folder, path)
}
/// `tree` of MySQL, 772 rows.
fn unpacked() -> (ondol::TempFolder, PathBuf) {
    unpacked_of("mysql-9.7", "tree")
}

fn export(table: &Path, args: &[&str], out: Stdio) -> (Vec<u8>, String, Option<i32>) {
    let ran = Command::new(env!("CARGO_BIN_EXE_ondol"))
        .args(["innodb", "export"])
        .arg(table)
        .args(args)
        .stdout(out)
        .output()
        .expect("ondol runs");
    (ran.stdout, String::from_utf8(ran.stderr).expect("text"), ran.status.code())
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = (std::fs::read_dir(folder).expect("a folder"))
        .map(|e| e.expect("an entry").file_name().into_string().expect("a plain name"))
        .collect();
    names.sort();
    names
}

#[test]
fn a_file_is_there_when_it_is_whole() {
    let (folder, table) = unpacked();
    for (name, begin, end) in
        [("t.csv", "id,v\n", "\n"), ("t.parquet", "PAR1", "PAR1"), ("t.arrow", "ARROW1", "ARROW1")]
    {
        let to = folder.path().join(name);
        let to = to.to_str().expect("a plain path");
        let (_, said, code) = export(&table, &["--to", to], Stdio::piped());
        assert_eq!(code, Some(0), "{said}");
        assert!(said.starts_with("772 rows"), "{said}");
        let bytes = std::fs::read(to).expect("a file");
        assert!(bytes.starts_with(begin.as_bytes()) && bytes.ends_with(end.as_bytes()), "{name}");
        let (_, said, code) = export(&table, &["--to", to], Stdio::piped());
        assert_eq!(code, Some(1));
        assert!(said.contains("it is there already; --overwrite replaces it"), "{said}");
        let (_, _, code) = export(&table, &["--to", to, "--overwrite", "--limit", "5"], Stdio::piped());
        assert_eq!(code, Some(0));
        assert!(std::fs::read(to).expect("a file").len() < bytes.len());
    }
    // A page that is damaged: the failed export leaves nothing, and what was there as it was.
    let mut bytes = std::fs::read(&table).expect("a table");
    let last = bytes.len() / 16384 - 1;
    let leaf = (4..last).find(|n| bytes[n * 16384 + 24..][..2] == [0x45, 0xbf]).expect("a leaf");
    bytes[leaf * 16384 + 8000] ^= 1;
    std::fs::write(&table, bytes).expect("a file");
    let before = names(folder.path());
    for name in ["t.csv", "t.parquet", "t.arrow"] {
        let to = folder.path().join(name);
        let old = std::fs::read(&to).expect("a file");
        let to = to.to_str().expect("a plain path");
        let (_, said, code) = export(&table, &["--to", to, "--overwrite"], Stdio::piped());
        assert_eq!(code, Some(1), "{name}: {said}");
        assert!(said.contains(&format!("page {leaf}")), "{said}");
        assert_eq!(std::fs::read(to).expect("a file"), old);
    }
    assert_eq!(names(folder.path()), before);
}

#[test]
fn arguments_that_make_no_sense_are_named() {
    let (folder, table) = unpacked();
    let path = |name: &str| folder.path().join(name).to_str().expect("a plain path").to_string();
    let (unknown, parquet, csv, nowhere) =
        (path("t.txt"), path("t.parquet"), path("t.csv"), path("none/t.csv"));
    let folder_path = path("");
    for (args, expected) in [
        (vec!["--to", "-"], "--to - needs --format: csv, parquet or arrow"),
        (vec!["--to", &unknown], "its name does not tell what to write"),
        (vec!["--to", &parquet, "--csv", "mysql"], "--csv is for CSV"),
        (vec!["--to", &csv, "--zero-dates", "null"], "--zero-dates is for Parquet and Arrow"),
        (vec!["--to", &nowhere], "No such file or directory"),
        (vec!["--to", "/dev/null", "--format", "csv", "--overwrite"], "it is there and no file"),
        (vec!["--to", &folder_path, "--format", "csv", "--overwrite"], "it is there and no file"),
        (vec!["--to", &parquet, "--columns", "id,w"], "it has no column w; it has id, v"),
        (vec!["--to", &parquet, "--columns", "id,v,id"], "--columns has id twice"),
        (vec!["--to", &csv, "--schema", "/dev/zero"], "it is not a file"),
    ] {
        let (_, said, code) = export(&table, &args, Stdio::piped());
        assert_eq!(code, Some(1), "{args:?}");
        assert!(said.contains(expected), "{args:?}: {said}");
    }
    assert_eq!(names(folder.path()), ["tree.cfg", "tree.ibd"]);
}

#[test]
fn create_table_in_place_of_the_definition() {
    let (folder, table) = unpacked();
    let sql = folder.path().join("tree.sql");
    std::fs::write(
        &sql,
        "CREATE TABLE tree (id bigint PRIMARY KEY, v varchar(200)) DEFAULT CHARSET=utf8mb4;",
    )
    .expect("a file");
    let sql = sql.to_str().expect("a plain path");
    let (by_file, _, _) = export(&table, &["--to", "-", "--format", "csv"], Stdio::piped());
    let (by_text, said, code) =
        export(&table, &["--to", "-", "--format", "csv", "--schema", sql], Stdio::piped());
    assert_eq!((code, by_text == by_file), (Some(0), true), "{said}");
    for what in ["info", "check"] {
        let ran = Command::new(env!("CARGO_BIN_EXE_ondol"))
            .args(["innodb", what])
            .arg(&table)
            .args(["--schema", sql])
            .output()
            .expect("ondol runs");
        let said = String::from_utf8_lossy(&ran.stdout).into_owned();
        let expected = if what == "info" { "in the words of CREATE TABLE" } else { "772 rows" };
        assert!(ran.status.success() && said.contains(expected), "{said}");
    }
    std::fs::write(sql, "CREATE TABLE tree (\n id bigint,\n v varchar(200)\n)").expect("a file");
    let (_, said, code) = export(&table, &["--to", "-", "--format", "csv", "--schema", sql], Stdio::piped());
    assert_eq!(code, Some(1));
    assert!(said.contains("tree.sql: line 3: expected a character set of column v"), "{said}");
}

/// With a file of keys, plain or under a password; without one, and with another, it is told what is wanted.
#[test]
fn encrypted_tables_need_their_keys() {
    let (folder, table) = unpacked_of("apart/aes_ctr-full_crc32", "longkey");
    let beside = |name: &str| format!("{}/../innodb/tests/files/{name}", env!("CARGO_MANIFEST_DIR"));
    let (plain, encrypted, password) = (beside("keys.txt"), beside("keys.enc"), beside("keys.password"));
    let rows = ["--to", "-", "--format", "csv"];
    for keys in [vec!["--keys", &plain], vec!["--keys", &encrypted, "--keys-password", &password]] {
        let (out, said, code) = export(&table, &[&rows[..], &keys].concat(), Stdio::piped());
        assert_eq!((code, &out[..]), (Some(0), &b"id,v\n1,two\n2,\n"[..]), "{said}");
        for (what, expected) in [("info", "MariaDB's, key 2, AES-CTR"), ("check", "2 rows")] {
            let mut ran = Command::new(env!("CARGO_BIN_EXE_ondol"));
            let ran = ran.args(["innodb", what]).arg(&table).args(&keys).output().expect("ondol runs");
            let said = String::from_utf8_lossy(&ran.stdout).into_owned();
            assert!(ran.status.success() && said.contains(expected), "{said}");
        }
    }
    let few = folder.path().join("few.txt");
    std::fs::write(&few, "1;000102030405060708090a0b0c0d0e0f\n").expect("a file");
    let few = few.to_str().expect("a plain path");
    let before = std::fs::read(&plain).expect("keys");
    for (args, expected) in [
        (vec![], "it is encrypted by key 2 in version 1: --keys FILE"),
        (vec!["--keys", few], "key 2 in version 1, which is not in"),
        (vec!["--keys", &encrypted], "it is encrypted: --keys-password FILE"),
        (vec!["--keys", &encrypted, "--keys-password", few], "does not fit"),
        (vec!["--keys", "/dev/zero"], "it is not a file"),
        (vec!["--keys", &plain, "--to", &plain, "--overwrite"], "is not replaced"),
    ] {
        let to = if args.contains(&"--to") { &rows[2..] } else { &rows };
        let (out, said, code) = export(&table, &[to, &args].concat(), Stdio::piped());
        assert_eq!((code, out.len()), (Some(1), 0), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
    }
    assert_eq!(std::fs::read(&plain).expect("keys"), before);
}

#[test]
fn a_table_is_imported() {
    let (folder, table) = unpacked();
    let db = folder.path().join("db");
    let import = |args: &[&str]| {
        let ran = Command::new(env!("CARGO_BIN_EXE_ondol"))
            .args(["innodb", "import"])
            .arg(&table)
            .arg("--into")
            .arg(&db)
            .args(args)
            .output()
            .expect("ondol runs");
        (String::from_utf8(ran.stderr).expect("text"), ran.status.code())
    };
    let (said, code) = import(&[]);
    assert!(code == Some(0) && said.starts_with("tree: 772 rows, in "), "{said}");
    let (said, code) = import(&[]);
    assert!(code == Some(1) && said.contains("relation \"tree\" already exists"), "{said}");
    let (said, code) = import(&["--table", "again", "--threads", "1"]);
    assert!(code == Some(0) && said.starts_with("again: 772 rows, in "), "{said}");
    std::fs::remove_file(table.with_extension("cfg")).expect("a file");
    let (said, code) = import(&["--table", "third"]);
    assert!(code == Some(1) && said.contains("nothing shows that it was at rest"), "{said}");
    let (said, code) = import(&["--table", "third", "--assume-consistent"]);
    assert!(code == Some(0) && said.ends_with("the file was assumed\n"), "{said}");
    let database = ondol::Database::open(&db).expect("a database");
    let sql = "SELECT count(*), sum(t.id) = sum(a.id) FROM tree t JOIN again a USING (id) JOIN third USING (id) WHERE t.v = a.v";
    let rows = database.session().query(sql, &[]).expect("rows");
    assert_eq!(
        (rows.row(0).get::<i64>(0).expect("a count"), rows.row(0).get::<bool>(1).expect("a sum")),
        (772, true)
    );
}

/// By its own name or another one, and from SQL.
#[test]
fn what_is_read_is_not_replaced() {
    let (folder, table) = unpacked();
    let path = |name: &str| folder.path().join(name).to_str().expect("a plain path").to_string();
    let (ibd, cfg, link, other) = (path("tree.ibd"), path("tree.cfg"), path("link.ibd"), path("other.csv"));
    std::os::unix::fs::symlink(&ibd, &link).expect("a link");
    std::fs::hard_link(&ibd, &other).expect("a second name");
    let before = [&ibd, &cfg].map(|file| std::fs::read(file).expect("a file"));
    for to in [&ibd, &cfg, &link, &other] {
        let (_, said, code) = export(&table, &["--to", to, "--format", "csv", "--overwrite"], Stdio::piped());
        assert_eq!(code, Some(1), "{to}: {said}");
        assert!(said.contains("it is one of the files that are read"), "{said}");
    }
    let database = ondol::Database::open(folder.path().join("db")).expect("a database");
    let mut session = database.session();
    for (to, format) in [(&ibd, "csv"), (&link, "csv"), (&other, "parquet")] {
        let copy = format!("COPY (SELECT * FROM innodb_scan('{ibd}')) TO '{to}' (FORMAT {format})");
        let e = session.execute(&copy).expect_err("it is read");
        assert_eq!(e.sqlstate(), "55006", "{e}");
    }
    drop(session);
    database.close().expect("an end");
    assert_eq!([&ibd, &cfg].map(|file| std::fs::read(file).expect("a file")), before);
}

#[test]
fn standard_output_that_is_full_or_closed() {
    let (_folder, table) = unpacked();
    // What `check` finds, too.
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device");
    let checked = Command::new(env!("CARGO_BIN_EXE_ondol"))
        .args(["innodb", "check"])
        .arg(&table)
        .stdout(full)
        .output()
        .expect("ondol runs");
    assert_eq!(checked.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&checked.stderr).contains("standard output: No space left"));
    for format in ["csv", "parquet", "arrow"] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device");
        let (_, said, code) = export(&table, &["--to", "-", "--format", format], full.into());
        assert_eq!(code, Some(1), "{format}");
        assert!(said.contains("standard output: cannot write"), "{said}");
        // The other end of the pipe is closed before anything is read.
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let (_, said, code) = export(&table, &["--to", "-", "--format", format], writer.into());
        assert_eq!((said.as_str(), code), ("", Some(0)), "{format}");
    }
    let (stream, _, _) = export(&table, &["--to", "-", "--format", "arrow"], Stdio::piped());
    // Of Arrow's stream, which has no magic word: a continuation, at the end with nothing behind it.
    assert!(stream.starts_with(&[0xff; 4]) && stream.ends_with(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]));
}

/// Columns that the server computes are named where they are left out, and refused where its own output would
/// have them.
#[test]
fn virtual_columns_are_not_left_out_in_silence() {
    let (_folder, table) = unpacked_of("apart/mariadb-10.11", "computed");
    let (out, said, code) = export(&table, &["--to", "-", "--format", "csv"], Stdio::piped());
    assert_eq!((code, String::from_utf8_lossy(&out).into_owned()), (Some(0), "a,b,d\n1,x,3\n2,,5\n".into()));
    assert!(said.contains("left out, since they are virtual and no file holds them: c, e"), "{said}");
    let mysql = ["--to", "-", "--format", "csv", "--csv", "mysql"];
    let (out, said, code) = export(&table, &mysql, Stdio::piped());
    assert_eq!((code, out.len()), (Some(1), 0), "{said}");
    assert!(said.contains("computes the virtual columns c, e"), "{said}");
    let (out, said, code) = export(&table, &[&mysql[..], &["--columns", "d,a"]].concat(), Stdio::piped());
    assert_eq!((code, &out[..]), (Some(0), &b"3,1\n5,2\n"[..]), "{said}");
}

/// What was deleted from a system-versioned table, or changed, is told and written by wish.
#[test]
fn history_is_told() {
    let (_folder, table) = unpacked_of("mariadb-10.11", "versionedshown");
    let csv = ["--to", "-", "--format", "csv"];
    let (out, said, code) = export(&table, &csv, Stdio::piped());
    assert_eq!((code, out.split(|b| *b == b'\n').count()), (Some(0), 1 + 2 + 1), "{said}");
    assert!(said.contains("2 rows of its history were left out; --history"), "{said}");
    let (out, said, code) = export(&table, &[&csv[..], &["--history"]].concat(), Stdio::piped());
    assert_eq!((code, out.split(|b| *b == b'\n').count()), (Some(0), 1 + 4 + 1), "{said}");
    assert!(
        String::from_utf8_lossy(&out).contains("1,one,2023-11-14 22:13:20.250000,2023-11-14 22:13:21.500000")
    );
}

/// A folder of snapshots with two databases: `tree`, and `everything`, which has dates that no calendar has;
/// beside them a table of another engine, and a file that is none.
fn databases() -> ondol::TempFolder {
    let folder = ondol::TempFolder::new().expect("a temporary folder");
    for (database, server, table) in [
        ("shop", "mariadb-10.11", "tree"),
        ("shop", "mariadb-10.11", "everything"),
        ("stock", "mysql-9.7", "tree"),
    ] {
        let place = folder.path().join(database);
        std::fs::create_dir_all(&place).expect("a folder");
        let (from, _) = unpacked_of(server, table);
        for name in names(from.path()) {
            std::fs::copy(from.path().join(&name), place.join(&name)).expect("a copy");
        }
    }
    std::fs::write(folder.path().join("shop/other.MYD"), b"").expect("a file");
    std::fs::write(folder.path().join("stock/broken.ibd"), [7; 5000]).expect("a file");
    folder
}

fn ondol(args: &[&str]) -> (String, String, Option<i32>) {
    let ran = Command::new(env!("CARGO_BIN_EXE_ondol")).args(args).output().expect("ondol runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (text(ran.stdout), text(ran.stderr), ran.status.code())
}

#[test]
fn whole_folders_are_exported_and_imported() {
    let from = databases();
    let from = from.path().to_str().expect("a plain path");
    let to = ondol::TempFolder::new().expect("a temporary folder");
    let out = to.path().join("out").display().to_string();
    let export = ["innodb", "export", "--datadir", from, "--to", &out, "--format", "parquet"];
    let (_, said, code) = ondol(&export);
    assert_eq!(code, Some(1), "{said}");
    for expected in [
        "left out: shop.other: its table is of MyISAM",
        "left out: shop.everything: ",
        "left out: stock.broken: ",
        "2 tables written; 1 that are none of InnoDB's left out, 2 failed",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert_eq!(names(&to.path().join("out/shop")), ["tree.parquet"]);
    assert_eq!(names(&to.path().join("out/stock")), ["tree.parquet"]);
    // Once more: what is there stays.
    let (_, said, code) = ondol(&export);
    assert!(code == Some(1) && said.contains("it is there already"), "{said}");
    let (_, said, code) =
        ondol(&[&export[..], &["--overwrite", "--databases", "shop", "--zero-dates", "null"]].concat());
    assert!(code == Some(0) && said.contains("2 tables written"), "{said}");
    let (_, said, code) = ondol(&[&export[..], &["--databases", "nothing"]].concat());
    assert!(code == Some(1) && said.contains("has no database nothing; there are shop, stock"), "{said}");
    let within = format!("{from}/shop/out");
    let (_, said, code) = ondol(&["innodb", "export", "--datadir", from, "--to", &within, "--format", "csv"]);
    assert!(code == Some(1) && said.contains("which is only read"), "{said}");
    assert!(!Path::new(&within).exists());

    let db = to.path().join("db").display().to_string();
    let import = ["innodb", "import", "--datadir", from, "--into", &db];
    let (_, said, code) = ondol(&import);
    assert!(
        code == Some(1) && said.contains("2 tables made; 1 that are none of InnoDB's left out, 2 failed"),
        "{said}"
    );
    let (_, said, code) = ondol(&[&import[..], &["--databases", "shop", "--zero-dates", "text"]].concat());
    assert!(code == Some(1) && said.contains("1 tables made"), "tree is there already: {said}");
    let (counts, said, code) = ondol(&[
        "shell",
        &db,
        "-c",
        "SELECT count(*) FROM shop.tree UNION ALL SELECT count(*) FROM stock.tree UNION ALL SELECT count(*) FROM shop.everything",
    ]);
    assert_eq!(code, Some(0), "{said}");
    assert!(counts.contains("772") && counts.contains('4'), "{counts}");
}

#[cfg(feature = "server")]
#[test]
fn a_folder_is_served() {
    let from = databases();
    let place = ondol::TempFolder::new().expect("a temporary folder");
    let start = |folder: &Path, more: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_ondol"))
            .args(["serve", "--socket"])
            .arg(place.path())
            .arg("--innodb")
            .arg(folder)
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a process")
    };
    let mut server = start(from.path(), &["--zero-dates", "null"]);
    let address = format!("postgres:///postgres?user=postgres&host={}", place.path().display());
    let ask = |sql: &str| ondol(&["shell", &address, "-c", sql]);
    let socket = place.path().join(".s.PGSQL.5432");
    for _ in 0..600 {
        if std::os::unix::net::UnixStream::connect(&socket).is_ok() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let (rows, said, code) = ask("SELECT count(*), max(d) FROM shop.everything");
    assert!(code == Some(0) && rows.contains('4') && rows.contains("2024-02-29"), "{rows}{said}");
    let (rows, said, _) = ask("SELECT schema, name FROM left_out ORDER BY 1, 2");
    let (other, broken) = (rows.find("other"), rows.find("broken"));
    assert!(other.is_some() && other < broken, "{rows}{said}");
    let (_, said, code) = ask("CREATE TABLE t (a int)");
    assert!(code == Some(1) && said.contains("read-only transaction"), "{said}");
    server.kill().and_then(|()| server.wait()).expect("an end");

    // A folder without anything that can be read is told, and not served.
    let empty = ondol::TempFolder::new().expect("a temporary folder");
    for (folder, expected) in [
        (empty.path().to_path_buf(), "has no tables of InnoDB's"),
        (empty.path().join("nothing"), "cannot read the folder"),
    ] {
        let out = start(&folder, &[]).wait_with_output().expect("an end");
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.code() == Some(1) && said.contains(expected), "{said}");
    }
    std::fs::create_dir(empty.path().join("shop")).expect("a folder");
    std::fs::write(empty.path().join("shop/broken.ibd"), [7; 5000]).expect("a file");
    let out = start(empty.path(), &[]).wait_with_output().expect("an end");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(1) && said.contains("has no table that can be read"), "{said}");
}
