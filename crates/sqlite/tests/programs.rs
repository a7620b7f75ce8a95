//! Debian's `sqlite3` shell and Python's `sqlite3` load the library: several processes, stock neighbours,
//! kills.
mod common;
use common::Chance;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The shared library that this test run has built.
fn library() -> PathBuf {
    let exe = std::env::current_exe().expect("a path");
    let deps = exe.parent().expect("a folder");
    let found = [deps.join("libondol_sqlite.so"), deps.with_file_name("libondol_sqlite.so")];
    found.into_iter().find(|p| p.exists()).expect("libondol_sqlite.so beside the tests").with_extension("")
}

/// The shell's output for some lines of input, errors with it.
fn shell(lines: &[String]) -> String {
    let mut child = Command::new("sqlite3")
        .arg(":memory:")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("Debian's sqlite3: scripts/setup tests installs it");
    child.stdin.take().expect("stdin").write_all(lines.join("\n").as_bytes()).expect("a shell that reads");
    let out = child.wait_with_output().expect("an end");
    let all = [out.stdout, out.stderr].concat();
    // SQLite notes each recovery in its log, of a WAL as 283, of a rollback journal as 539.
    let told = String::from_utf8_lossy(&all);
    told.lines()
        .filter(|l| !l.starts_with("(283)") && !l.starts_with("(539)"))
        .flat_map(|l| [l, "\n"])
        .collect()
}

fn ours(path: &Path, parameters: &str, lines: &[&str]) -> String {
    let mut all = vec![
        format!(".load {}", library().display()),
        ".log stderr".into(),
        format!(".open 'file:{}?vfs=ondol{parameters}'", path.display()),
    ];
    all.extend(lines.iter().map(|l| l.to_string()));
    shell(&all)
}

fn stock(path: &Path, lines: &[&str]) -> String {
    let mut all = vec![format!(".open {}", path.display())];
    all.extend(lines.iter().map(|l| l.to_string()));
    shell(&all)
}

/// A Python that may load extensions.
fn python() -> Command {
    let can = |p: &str| {
        let test = "import sqlite3; sqlite3.connect(':memory:').enable_load_extension(True)";
        Command::new(p).args(["-c", test]).output().is_ok_and(|o| o.status.success())
    };
    let name = ["/usr/bin/python3", "python3"].into_iter().find(|p| can(p));
    Command::new(name.expect("a Python whose sqlite3 can load extensions, as Debian's python3"))
}

#[test]
fn the_shell_loads_it_and_leaves_a_stock_file() {
    let folder = common::folder();
    let db = folder.path().join("a.db");
    let out = ours(
        &db,
        "&ondol=remap",
        &[
            "PRAGMA journal_mode=WAL;",
            "CREATE TABLE t(x);",
            "INSERT INTO t VALUES(7);",
            "SELECT x FROM t;",
            ".vfsname",
            "SELECT database, value FROM ondol_status WHERE name = 'mode';",
        ],
    );
    assert_eq!(out, "wal\n7\nondol/unix\nmain|remap\n");
    assert_eq!(common::versions(&db), [2, 2]);
    assert_eq!(stock(&db, &["SELECT x FROM t;"]), "7\n");
    let names: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[test]
fn what_is_not_understood_is_refused_and_said() {
    let folder = common::folder();
    let db = folder.path().join("a.db");
    for (parameters, says) in [("&ondol_run=0", "from 1"), ("&ondol=fast", "unknown")] {
        let out = ours(&db, parameters, &["SELECT 1;"]);
        assert!(out.contains(says) && out.contains("unable to open"), "{parameters}: {out}");
        assert!(!db.exists());
    }
}

/// SQLite loads libraries so that their names are seen by one another, and an extension's entry point has the
/// same name in many.
#[test]
fn another_extension_that_was_loaded_before_takes_nothing_over() {
    let folder = common::folder();
    let (source, other) = (folder.path().join("other.c"), folder.path().join("other.so"));
    std::fs::write(
        &source,
        "int sqlite3_extension_init(void *db, char **message, const void *api) { return 0; }\n",
    )
    .expect("a file");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&other, &source]).status();
    assert!(built.expect("a C compiler: scripts/setup installs it").success());
    let db = folder.path().join("a.db");
    for entry in ["", " sqlite3_ondolsqlite_init"] {
        let out = shell(&[
            format!(".load {}", other.display()),
            format!(".load {}{entry}", library().display()),
            format!(".open 'file:{}?vfs=ondol'", db.display()),
            ".vfsname".into(),
        ]);
        assert_eq!(out, "ondol/unix\n", "{entry}");
    }
}

#[test]
fn it_becomes_the_default_when_asked() {
    let folder = common::folder();
    let db = folder.path().join("a.db");
    let next = format!(".open {}", folder.path().join("b.db").display());
    let out = ours(&db, "&ondol_default=1", &["SELECT 1;", &next, ".vfsname"]);
    assert_eq!(out, "1\nondol/unix\n");
}

#[test]
fn stock_sqlite_refuses_a_database_in_use_and_takes_nothing_away() {
    let folder = common::folder();
    let db = folder.path().join("a.db");
    common::register();
    let c = common::open(&db, "vfs=ondol&ondol=remap").expect("a database");
    c.execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(x); INSERT INTO t VALUES(7)").expect("rows");
    assert_eq!(common::versions(&db), [2, 3]);
    let read = "SELECT sum(x) FROM t;";
    assert!(stock(&db, &[read]).contains("not a database"));
    // As after a crash, with nobody there.
    let copy = folder.path().join("b.db");
    for suffix in ["", "-owal"] {
        let name = |p: &Path| format!("{}{suffix}", p.display());
        std::fs::copy(name(&db), name(&copy)).expect("a copy");
    }
    assert!(stock(&copy, &[read]).contains("not a database"));
    assert!(stock(&copy, &["PRAGMA journal_mode=DELETE;", "VACUUM;"]).contains("not a database"));
    assert_eq!(ours(&copy, "", &[read]), "7\n", "mode copy reads it too");
    assert_eq!(stock(&copy, &[read]), "7\n", "and has let it go");
    // Other processes with the library join in.
    assert_eq!(ours(&db, "", &["INSERT INTO t VALUES(1);", read]), "8\n");
    assert_eq!(c.query_row(read, [], |r| r.get::<_, i64>(0)), Ok(8));
}

#[test]
fn a_stock_connection_keeps_its_layout() {
    let folder = common::folder();
    let db = folder.path().join("a.db");
    common::register();
    let stock = common::open(&db, "vfs=unix").expect("a database");
    stock.execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(x); INSERT INTO t VALUES(1)").expect("rows");
    // In another process, since locks of one process do not keep it from itself.
    let wrote = ours(
        &db,
        "&ondol=remap",
        &[
            "INSERT INTO t VALUES(2);",
            "PRAGMA wal_checkpoint(RESTART);",
            "INSERT INTO t VALUES(4);",
            "SELECT sum(x) FROM t;",
            "PRAGMA ondol_status;",
        ],
    );
    assert!(wrote.contains("7\n") && wrote.contains("\"wal_layout\":\"sqlite\""), "{wrote}");
    assert_eq!(common::versions(&db), [2, 2]);
    assert_eq!(stock.query_row("SELECT sum(x) FROM t", [], |r| r.get::<_, i64>(0)), Ok(7));
}

const WRITER: &str = "
import sqlite3, sys
library, path, mode, journal, who = sys.argv[1:]
loader = sqlite3.connect(':memory:')
loader.enable_load_extension(True)
loader.load_extension(library)
c = sqlite3.connect(f'file:{path}?vfs=ondol&ondol={mode}&ondol_run=1', uri=True, isolation_level=None, timeout=60)
c.execute(f'PRAGMA journal_mode={journal}')
c.execute('PRAGMA wal_autocheckpoint=7')
c.execute('CREATE TABLE IF NOT EXISTS t(a INTEGER PRIMARY KEY, who, b)')
n = 0
while True:
    c.execute('BEGIN IMMEDIATE')
    for i in range(3):
        c.execute('INSERT INTO t(who, b) VALUES(?, randomblob(6000))', (int(who),))
    c.execute('COMMIT')
    n += 3
    print(n, flush=True)
";

/// Two processes write and are killed at any moment; what they were told is committed is there, to us and
/// then to stock.
#[test]
fn kills_lose_nothing() {
    for (round, modes) in [["remap", "copy"]; 6].into_iter().enumerate() {
        kill_writers(round, modes, "WAL");
    }
}

/// The same with mapped files, beside copying neighbours and beside each other, which shorten the files in
/// turns.
#[test]
fn kills_lose_nothing_of_mapped_files() {
    for journal in ["WAL", "DELETE", "TRUNCATE", "PERSIST"] {
        for (round, modes) in [["pmem", "copy"], ["pmem", "pmem"]].into_iter().enumerate() {
            kill_writers(round, modes, journal);
        }
    }
}

fn kill_writers(round: usize, modes: [&str; 2], journal: &str) {
    let at = format!("{modes:?}, {journal}, round {round}");
    let folder = common::folder();
    let mut chance = Chance(5 + round as u64);
    let db = folder.path().join("a.db");
    let writers = [0, 1].map(|who| {
        let mut command = python();
        command.args(["-c", WRITER]).arg(library()).arg(&db).args([modes[who], journal, &who.to_string()]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("Python");
        let lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
        (child, std::thread::spawn(move || lines.map_while(Result::ok).last()))
    });
    std::thread::sleep(std::time::Duration::from_millis(600 + chance.below(400)));
    let acknowledged = writers.map(|(mut child, lines)| {
        assert!(child.try_wait().expect("a child").is_none(), "{at}: a writer ended by itself");
        child.kill().expect("a kill");
        child.wait().expect("an end");
        let last = lines.join().expect("a reader");
        last.map_or(0, |l| l.parse::<u64>().expect("a number"))
    });
    let ask = "SELECT sum(who = 0), sum(who = 1), count(*) % 3 FROM t;";
    let check = "PRAGMA integrity_check;";
    let found = ours(&db, &format!("&ondol={}", modes[1]), &[check, ask]);
    assert_eq!(stock(&db, &[check, ask]), found, "{at}: the file is stock afterwards");
    let parts: Vec<&str> = found.trim().split(['\n', '|']).collect();
    assert_eq!((parts[0], parts[3]), ("ok", "0"), "{at}: {found}");
    for (there, told) in parts[1..3].iter().zip(&acknowledged) {
        let there: u64 = there.parse().unwrap_or(0);
        assert!(there >= *told && there <= told + 6, "{at}: {there} of {told}");
    }
    assert!(acknowledged.iter().sum::<u64>() > 0, "{at}: nothing was written");
}

const PACKAGE: &str = "
import sqlite3, sys, ondol_sqlite
loader = sqlite3.connect(':memory:')
ondol_sqlite.load(loader)
try:
    loader.load_extension('nothing')
except sqlite3.OperationalError as refused:
    assert 'not authorized' in str(refused), refused
else:
    raise AssertionError('loading stayed on')
c = sqlite3.connect(f'file:{sys.argv[1]}?vfs=ondol', uri=True)
c.execute('PRAGMA journal_mode=WAL')
c.execute('CREATE TABLE t(x)')
with c:
    c.execute('INSERT INTO t VALUES(7)')
print(c.execute('SELECT x FROM t').fetchone()[0], c.execute(\"SELECT value FROM ondol_status WHERE name = 'mode'\").fetchone()[0])
";

/// The Python package, laid out as its wheel is.
#[test]
fn the_python_package_loads_what_it_carries() {
    let folder = common::folder();
    let package = folder.path().join("ondol_sqlite");
    std::fs::create_dir(&package).expect("a folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/ondol_sqlite/__init__.py");
    std::fs::copy(source, package.join("__init__.py")).expect("a copy");
    let run = || {
        let mut command = python();
        command.args(["-c", PACKAGE]).arg(folder.path().join("a.db")).env("PYTHONPATH", folder.path());
        let out = command.output().expect("Python");
        (String::from_utf8_lossy(&out.stdout).into_owned(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let (_, told) = run();
    assert!(told.contains("FileNotFoundError") && told.contains("is missing"), "{told}");
    std::fs::copy(library().with_extension("so"), package.join("libondol_sqlite.so")).expect("a copy");
    let (out, told) = run();
    assert_eq!(out, "7 auto\n", "{told}");
}
