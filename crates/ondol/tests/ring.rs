//! The log on a ring, as the command has it: what it tells, what it refuses, and what a killed process
//! leaves.
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const ONDOL: &str = env!("CARGO_BIN_EXE_ondol");

struct Place(ondol::TempFolder);
impl Place {
    fn new() -> Place {
        Place(ondol::TempFolder::new().expect("a temporary folder"))
    }
    fn at(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("a plain path").to_string()
    }
    /// A shell on the database, with its ring.
    fn shell(&self, sql: &str) -> Ran {
        let (db, ring) = (self.at("db"), self.at("ring"));
        ran(&[
            "shell",
            &db,
            "--log-ring",
            &ring,
            "--log-ring-size",
            "1MB",
            "--log-ring-promise",
            "server-crash",
            "-c",
            sql,
        ])
    }
    /// A process that commits row after row until it is killed; gives how many it said were there.
    fn killed(&self, rows: std::ops::Range<u32>) -> u32 {
        let args = ["--log-ring", &self.at("ring"), "--log-ring-promise", "server-crash", "--format", "csv"];
        let mut child = Killed(
            Command::new(ONDOL)
                .args(["shell", &self.at("db")])
                .args(args)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .expect("ondol starts"),
        );
        let mut input = child.0.stdin.take().expect("a pipe");
        let mut told = BufReader::new(child.0.stdout.take().expect("a pipe")).lines();
        let mut last = 0;
        for n in rows {
            writeln!(input, "INSERT INTO t VALUES ({n});").expect("it lives");
            let tag = told.next().expect("an answer").expect("text");
            assert_eq!(tag, "INSERT 0 1");
            last = n
        }
        child.0.kill().expect("a process");
        child.0.wait().expect("its end");
        last
    }
}

struct Killed(Child);
impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[derive(Debug)]
struct Ran {
    out: String,
    err: String,
    code: Option<i32>,
}
fn ran(args: &[&str]) -> Ran {
    let Output { status, stdout, stderr } =
        Command::new(ONDOL).args(args).stdin(Stdio::null()).output().expect("ondol runs");
    let text = |b: Vec<u8>| String::from_utf8(b).expect("text");
    Ran { out: text(stdout), err: text(stderr), code: status.code() }
}
#[track_caller]
fn refused(r: Ran, state: &str, what: &str) {
    assert_eq!(r.code, Some(1), "{r:?}");
    assert!(
        r.err.contains(what) && r.err.contains(&format!("SQLSTATE: {state}")),
        "expected {state} {what}: {r:?}"
    );
}
#[track_caller]
fn done(r: Ran) -> Ran {
    assert_eq!(r.code, Some(0), "{r:?}");
    r
}

/// Where blocks stand of which the log's files need not know: each live entry's log file, offset and length.
fn live(ring: &Path) -> Vec<(u64, u64, u64)> {
    const SLOT: u64 = 8256;
    let file = std::fs::File::open(ring).expect("the ring");
    let slots = (file.metadata().expect("its length").len() - 4096) / SLOT;
    let word = |at: u64| {
        let mut w = [0; 8];
        file.read_exact_at(&mut w, at).expect("a word");
        u64::from_le_bytes(w)
    };
    let freed = word(1152);
    let place = |s: u64| 4096 + s % slots * SLOT;
    let of =
        |at: u64| (word(at + 40) << 32 | word(at + 40) >> 32, word(at + 24), word(at + 32) & 0xffff_ffff);
    (freed..freed + slots).take_while(|s| word(place(*s)) == *s).map(|s| of(place(s))).collect()
}
/// What a power failure may take: bytes that were never synced.
fn forget(db: &Path, entries: &[(u64, u64, u64)]) {
    for (number, offset, len) in entries {
        let path = db.join(format!("log/{number:012}.log"));
        let file = std::fs::OpenOptions::new().write(true).open(path).expect("a log file");
        file.write_all_at(&vec![0; *len as usize], *offset).expect("written");
    }
}

#[test]
fn a_killed_process_loses_nothing_and_needs_its_ring() {
    let place = Place::new();
    let (db, ring) = (place.at("db"), place.at("ring"));
    let made = done(place.shell("CREATE TABLE t (a integer PRIMARY KEY); SHOW log_ring"));
    let notice = format!(
        "NOTICE:  the log is on the ring \"{ring}\" (server-crash): commits survive the end of this process, not a power failure\n"
    );
    assert_eq!(made.err, notice);
    assert!(made.out.contains(&format!("{ring} (1048576 bytes, server-crash)")), "{}", made.out);
    assert!(!Path::new(&place.at("db/log-ring")).exists(), "it was closed");

    let mut last = 0;
    let entries = loop {
        last = place.killed(last + 1..last + 21);
        let entries = live(Path::new(&ring));
        if !entries.is_empty() {
            break entries;
        }
    };
    forget(Path::new(&db), &entries);

    // Whoever comes without the ring, or with another, is told of it.
    for command in ["check", "inspect", "dump"] {
        refused(ran(&[command, &db]), "55000", &format!("is in the ring \"{ring}\""));
    }
    let copy = place.at("copy");
    refused(ran(&["backup", &db, &copy]), "55000", &format!("is in the ring \"{ring}\""));
    assert!(!Path::new(&copy).exists());
    refused(ran(&["shell", &db, "-c", "SELECT 1"]), "55000", "HINT:  Give it (--log-ring)");
    let nowhere = place.at("nowhere");
    refused(ran(&["shell", &db, "--log-ring", &nowhere, "-c", "SELECT 1"]), "55000", "found no file");
    refused(ran(&["check", &db, "--log-ring", &nowhere]), "55000", "found no file");
    assert!(!Path::new(&nowhere).exists());

    // Who only looks lays the ring over the files, and leaves both as they are.
    let checked = done(ran(&["check", &db, "--log-ring", &ring]));
    let line =
        format!("ring        {ring} (server-crash), {} blocks laid over the log's files\n", entries.len());
    assert!(checked.out.contains(&line) && checked.out.ends_with("sound\n"), "{}", checked.out);
    let dump = done(ran(&["dump", &db, "--log-ring", &ring])).out;
    assert!(dump.contains(&format!("\n{last}\n")), "{dump}");
    done(ran(&["inspect", &db, "log", "--log-ring", &ring]));
    done(ran(&["backup", &db, &copy, "--log-ring", &ring]));
    assert_eq!(live(Path::new(&ring)), entries);

    // A copy of the files is not the database; the backup is one, without a ring.
    let files = place.at("files");
    assert!(Command::new("cp").args(["-a", &db, &files]).status().expect("cp runs").success());
    refused(
        ran(&["shell", &files, "-c", "SELECT 1"]),
        "55000",
        "is a copy of a database that was not closed",
    );
    refused(
        ran(&["shell", &files, "--log-ring", &ring, "-c", "SELECT 1"]),
        "55006",
        "is that of the database in",
    );
    let count = |r: Ran| done(r).out.lines().nth(2).map(|l| l.trim().to_string());
    let all = Some(last.to_string());
    assert_eq!(count(ran(&["shell", &copy, "-c", "SELECT count(*) FROM t"])), all);

    let opened = place.shell("SELECT count(*) FROM t");
    assert!(
        opened.err.contains(&format!("; {} blocks of it were brought home\n", entries.len())),
        "{}",
        opened.err
    );
    assert_eq!(count(opened), all);
    assert_eq!(count(ran(&["shell", &db, "-c", "SELECT count(*) FROM t"])), all, "closed, it needs no ring");
}

#[test]
fn a_lost_ring_is_given_up_by_name() {
    let place = Place::new();
    let (db, ring) = (place.at("db"), place.at("ring"));
    done(place.shell("CREATE TABLE t (a integer PRIMARY KEY)"));
    let last = place.killed(1..5);
    std::fs::remove_file(&ring).expect("removed");
    refused(place.shell("SELECT 1"), "55000", "HINT:  --lose-acknowledged-commits yes opens");
    // No power failed, so that the files hold everything.
    let given = |args: &[&str]| {
        ran(&[&["shell", &db, "-c", "SELECT count(*) FROM t", "--lose-acknowledged-commits"], args].concat())
    };
    assert_eq!(given(&["maybe"]).code, Some(2));
    let lost = done(given(&["yes"]));
    assert!(lost.err.starts_with("WARNING:  given up: the end of the log is in the ring"), "{}", lost.err);
    assert!(lost.out.contains(&format!("{last}\n")), "{}", lost.out);
    assert_eq!(done(ran(&["check", &db])).out.lines().last(), Some("sound"));
}

#[test]
fn what_makes_no_ring_is_refused() {
    let place = Place::new();
    let (db, ring) = (place.at("db"), place.at("ring"));
    let shell = |args: &[&str]| ran(&[&["shell", &db, "-c", "SELECT 1"], args].concat());
    assert_eq!(shell(&["--log-ring-size", "1M"]).code, Some(2), "a size of no ring");
    assert_eq!(shell(&["--log-ring", &ring, "--log-ring-promise", "peace"]).code, Some(2));
    let named = ["--log-ring", &ring, "--log-ring-promise", "server-crash"];
    refused(
        shell(&[&named[..], &["--log-ring-size", "9K"]].concat()),
        "22023",
        "a size of 70144 bytes at least",
    );
    std::fs::write(&ring, "something else").expect("written");
    refused(shell(&named), "22023", "expected the ring of a log, or no file, found something else");
    let folder = place.at("no/where");
    assert_eq!(shell(&["--log-ring", &folder, "--log-ring-promise", "server-crash"]).code, Some(1));
    std::fs::remove_file(&ring).expect("removed");
    done(shell(&named));
    refused(
        shell(&[&named[..], &["--log-ring-size", "1MB"]].concat()),
        "22023",
        "expected 1048576 bytes, found 67108864",
    );
    // The promise is the ring's: it need not be named again, and is told.
    assert!(done(shell(&["--log-ring", &ring])).err.contains("(server-crash)"));
    let other = place.at("other");
    refused(
        ran(&["shell", &other, "--log-ring", &ring, "-c", "SELECT 1"]),
        "55006",
        "is that of the database in",
    );
    assert!(done(shell(&[])).err.is_empty());
    let shown = ["shell", &db, "-c", "SHOW log_ring"];
    assert!(done(ran(&shown)).out.contains("off"));
}

#[test]
fn the_demo_goes_through_on_a_ring() {
    let place = Place::new();
    let ring = PathBuf::from(place.at("ring"));
    let args = [
        "demo",
        "--rows",
        "2000",
        "--seconds",
        "0.05",
        "--kills",
        "3",
        "--json",
        "--log-ring",
        &place.at("ring"),
    ];
    let demo =
        done(ran(&[&args[..], &["--log-ring-size", "1MB", "--log-ring-promise", "server-crash"]].concat()));
    assert!(demo.out.contains("\"lost_updates\": 0"), "{}", demo.out);
    assert!(!ring.exists(), "the database that it was for is gone");
}
