//! PostgreSQL itself on the ring: the whole cluster is killed under load, and whatever the ring alone still
//! holds is spoiled in the segments, as if power had failed before the kernel wrote it. After recovery every
//! acknowledged commit is there.
//!
//! A heavier test, run by name: `cargo test -p ondol-pgwal --test kill -- --ignored --nocapture`.
//! `ONDOL_ROUNDS` says how many rounds (12). It needs PostgreSQL's programs (`ONDOL_PGBIN`, else Debian's
//! folder of version 15) and, for root, a user `postgres`. Where these are missing it fails.
#[path = "../../preload/tests/common/built.rs"]
mod built;

use ondol_ring::file::{Mapping, OWNED, Owner};
use ondol_ring::{Entry, Ring};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const CLIENTS: usize = 4;

struct Place {
    folder: tempfile::TempDir,
    programs: PathBuf,
    user: Option<(u32, u32)>,
}

fn user() -> Option<(u32, u32)> {
    if std::fs::metadata("/proc/self").map(|m| std::os::unix::fs::MetadataExt::uid(&m)).ok() != Some(0) {
        return None;
    }
    let all = std::fs::read_to_string("/etc/passwd").expect("users");
    let line =
        all.lines().find(|l| l.starts_with("postgres:")).expect("as root, this test needs a user postgres");
    let number = |i| line.split(':').nth(i).and_then(|n| n.parse().ok()).expect("a number");
    Some((number(2), number(3)))
}

impl Place {
    fn new() -> Place {
        let programs = std::env::var_os("ONDOL_PGBIN")
            .map_or_else(|| PathBuf::from("/usr/lib/postgresql/15/bin"), PathBuf::from);
        assert!(
            programs.join("postgres").exists(),
            "no PostgreSQL in {}: set ONDOL_PGBIN",
            programs.display()
        );
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("permissions");
        let place = Place { folder, programs, user: user() };
        if let Some((u, g)) = place.user {
            chown(place.folder.path(), Some(u), Some(g)).expect("chown")
        }
        // Where the server's user can read them.
        let command = Path::new(env!("CARGO_BIN_EXE_ondol-pgwal"));
        let library = built::library(command.parent().expect("a folder"));
        for from in [command, &library] {
            std::fs::copy(from, place.path(from.file_name().expect("a name").to_str().expect("UTF-8")))
                .expect("copy");
        }
        place
    }
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
    fn command(&self, program: &Path) -> Command {
        let mut c = Command::new(program);
        c.current_dir(self.folder.path());
        if let Some((u, g)) = self.user {
            c.uid(u).gid(g);
        }
        c
    }
    fn ours(&self) -> Command {
        self.command(&self.path("ondol-pgwal"))
    }
    fn theirs(&self, program: &str) -> Command {
        self.command(&self.programs.join(program))
    }
    fn sql(&self, text: &str) -> Option<String> {
        let out = self
            .theirs("psql")
            .args(["-h", self.folder.path().to_str().expect("UTF-8"), "-XAtq", "-d", "postgres", "-c", text])
            .output()
            .expect("psql runs");
        out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_string())
    }
    fn start(&self, method: &str) -> Child {
        let log = OpenOptions::new().append(true).create(true).open(self.path("log")).expect("a log");
        let mut child = self
            .ours()
            .args(["run", "--ring", "ring", "--"])
            .arg(self.programs.join("postgres"))
            .args(["-D", "data", "-c", "listen_addresses=", "-c", "shared_buffers=16MB", "-k"])
            .arg(self.folder.path())
            .args(["-c", "min_wal_size=2MB", "-c", "max_wal_size=6MB", "-c"])
            .arg(format!("wal_sync_method={method}"))
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn()
            .expect("the command runs");
        let end = Instant::now() + Duration::from_secs(60);
        while self.sql("select 1").is_none() {
            let log = || std::fs::read_to_string(self.path("log")).unwrap_or_default();
            assert!(child.try_wait().expect("a child").is_none(), "the server ended:\n{}", log());
            assert!(Instant::now() < end, "the server does not come up:\n{}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
        child
    }
    fn postmaster(&self) -> i32 {
        let text = std::fs::read_to_string(self.path("data/postmaster.pid")).expect("a running server");
        text.lines().next().and_then(|l| l.parse().ok()).expect("a number")
    }
    /// What the ring holds that may be in no durable file.
    fn live(&self) -> Vec<Entry> {
        let file = OpenOptions::new().read(true).write(true).open(self.path("ring")).expect("the ring");
        let mut header = [0; OWNED];
        file.read_exact_at(&mut header, 0).expect("a header");
        let len = Owner::decode(&header).expect("a header").len as usize;
        let ring =
            Ring::new(Mapping::new(file.as_raw_fd(), len).expect("a mapping"), len).expect("long enough");
        let mut live = Vec::new();
        let surveyed = ring.survey(|e, _| {
            live.push(*e);
            Ok(())
        });
        surveyed.expect("whole");
        live
    }
}

fn signal(process: i32, signal: i32) {
    // SAFETY: a process that this test started.
    #[allow(unsafe_code)]
    unsafe {
        libc::kill(process, signal)
    };
}
fn kill(process: i32) {
    signal(process, libc::SIGKILL)
}

fn children(of: i32) -> Vec<i32> {
    let path = format!("/proc/{of}/task/{of}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|n| n.parse().ok()).collect()
}

fn gone(process: i32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    state.is_empty() || state.contains(") Z ")
}

/// A client that inserts 0, 1, 2, ... and counts what was acknowledged.
fn client(place: &Place, number: usize, from: u64, told: Arc<AtomicU64>) -> Child {
    let mut child = place
        .command(Path::new("stdbuf"))
        .arg("-oL")
        .arg(place.programs.join("psql"))
        .args(["-h", place.folder.path().to_str().expect("UTF-8"), "-XAt", "-d", "postgres"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("psql runs");
    let mut to = child.stdin.take().expect("a pipe");
    let lines = BufReader::new(child.stdout.take().expect("a pipe"));
    std::thread::spawn(move || {
        for n in from.. {
            if writeln!(to, "insert into t values ({number}, {n}, repeat('x', {}));", n % 700).is_err() {
                return;
            }
        }
    });
    std::thread::spawn(move || {
        for line in lines.lines() {
            if line.is_ok_and(|l| l == "INSERT 0 1") {
                told.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    child
}

#[test]
#[ignore = "heavier: needs PostgreSQL 15, and some seconds a round"]
fn no_acknowledged_commit_is_lost() {
    let place = Place::new();
    let initdb = place.theirs("initdb").args(["-D", "data", "-A", "trust", "--wal-segsize=1", "-N"]).output();
    assert!(initdb.expect("initdb runs").status.success());
    let rounds: u32 = std::env::var("ONDOL_ROUNDS").map_or(12, |n| n.parse().expect("a number"));
    let init = ["init", "--ring", "ring", "--size", "3MB", "--pgdata", "data", "--promise", "server-crash"];
    assert!(place.ours().args(init).status().expect("the command runs").success());
    let mut counts = [0u64; CLIENTS];
    let (mut replayed, mut commits) = (0, 0);
    for round in 0..=rounds {
        // The last one shows that without recovery there would be something to see.
        let control = round == rounds;
        let mut run = place.start(["fdatasync", "open_datasync", "fsync", "open_sync"][round as usize % 4]);
        if round == 0 {
            place.sql("create table t (client int, n bigint, filler text)").expect("a table");
        }
        let told: Vec<_> = (0..CLIENTS).map(|_| Arc::new(AtomicU64::new(0))).collect();
        let mut clients: Vec<Child> =
            (0..CLIENTS).map(|k| client(&place, k, counts[k], told[k].clone())).collect();
        // The server before ended in order: until somebody commits there is nothing in the ring, and no mark.
        let end = Instant::now() + Duration::from_secs(60);
        while told.iter().all(|t| t.load(Ordering::SeqCst) == 0) {
            assert!(Instant::now() < end, "nobody commits");
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(400 + u64::from(round) * 97 % 900));
        if round % 3 == 1 {
            place.sql("checkpoint");
        }
        // Without its destager the server goes on; the ring fills.
        run.kill().expect("a child");
        run.wait().expect("a child");
        std::thread::sleep(Duration::from_millis(if control { 200 } else { u64::from(round) * 71 % 300 }));
        let postmaster = place.postmaster();
        if round % 4 == 3 && !control {
            // One process is killed: the server restarts over the kernel's files.
            let mut backends = children(postmaster);
            backends.sort_unstable();
            kill(*backends.last().expect("backends"));
            std::thread::sleep(Duration::from_millis(600));
        }
        // It must see none of them die, nor they it.
        signal(postmaster, libc::SIGSTOP);
        let all = children(postmaster);
        all.iter().chain([&postmaster]).for_each(|p| kill(*p));
        let end = Instant::now() + Duration::from_secs(20);
        while !all.iter().chain([&postmaster]).all(|p| gone(*p)) {
            assert!(Instant::now() < end, "killed processes do not go");
            std::thread::sleep(Duration::from_millis(5));
        }
        for c in &mut clients {
            c.kill().ok();
            c.wait().expect("a child");
        }
        std::thread::sleep(Duration::from_millis(50)); // The readers of what they said.

        // Where nobody reaps orphans, the dead postmaster still has its number; after a power failure it has
        // not.
        for file in ["data/postmaster.pid", ".s.PGSQL.5432.lock"] {
            std::fs::remove_file(place.path(file)).expect("a killed server's file")
        }

        // Power: what only the ring holds durably is spoiled in the files.
        let live = place.live();
        for e in &live {
            let name = e.segment.name();
            let name = std::str::from_utf8(&name[..24]).expect("digits");
            let file =
                File::options().write(true).open(place.path("data/pg_wal").join(name)).expect("a segment");
            file.write_all_at(&vec![0xA5; e.len as usize], e.offset).expect("spoiled");
        }
        // An unmodified server does not start over it.
        let stock = place
            .theirs("postgres")
            .args(["--single", "-D", "data", "postgres"])
            .stdin(Stdio::null())
            .output()
            .expect("postgres runs");
        let said = String::from_utf8_lossy(&stock.stderr);
        assert!(!stock.status.success() && said.contains("run-ondol-pgwal-recover"), "{said}");

        if control {
            assert!(!live.is_empty());
            std::fs::copy(place.path("data/PG_VERSION.ondol"), place.path("data/PG_VERSION"))
                .expect("unmarked");
            let mut stock = place
                .theirs("postgres")
                .args(["-D", "data", "-c", "listen_addresses=", "-k"])
                .arg(place.folder.path())
                .stderr(Stdio::null())
                .spawn()
                .expect("postgres runs");
            let end = Instant::now() + Duration::from_secs(20);
            let mut found = None;
            while found.is_none() && stock.try_wait().expect("a child").is_none() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(100));
                found = place.sql("select count(*) from t");
            }
            signal(stock.id() as i32, libc::SIGQUIT);
            stock.wait().expect("a child");
            let told: u64 =
                counts.iter().sum::<u64>() + told.iter().map(|t| t.load(Ordering::SeqCst)).sum::<u64>();
            let found = found.map_or(0, |n| n.parse::<u64>().expect("a number"));
            eprintln!("control: {told} were acknowledged, {found} are there without the ring");
            assert!(found < told, "nothing was lost without the ring: this test sees nothing");
            break;
        }
        if round % 2 == 0 {
            let out = place.ours().args(["recover", "--ring", "ring"]).output().expect("the command runs");
            assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
            let version = std::fs::read_to_string(place.path("data/PG_VERSION")).expect("a version");
            assert!(version.trim().parse::<u32>().is_ok(), "{version}");
        }
        let mut run = place.start("fdatasync");
        for (k, told) in told.iter().enumerate() {
            let told = told.load(Ordering::SeqCst);
            let found = place
                .sql(&format!("select count(*), count(distinct n), max(n) + 1 from t where client = {k}"));
            let found = found.expect("an answer");
            let numbers: Vec<u64> = found.split('|').map(|n| n.parse().unwrap_or(0)).collect();
            assert!(
                numbers[0] >= counts[k] + told && numbers.iter().all(|n| *n == numbers[0]),
                "round {round}, client {k}: {} and {told} more were acknowledged, {found} are there",
                counts[k]
            );
            counts[k] = numbers[0];
            commits += told;
        }
        replayed += live.len();
        eprintln!("round {round}: {} entries replayed, {commits} commits acknowledged so far", live.len());
        // In order: what `run` hands on is a fast shutdown; the mark goes.
        signal(run.id() as i32, libc::SIGINT);
        assert!(run.wait().expect("a child").success());
        assert!(place.live().is_empty());
    }
    assert!(commits > 0 && replayed > 0, "{commits} commits, {replayed} entries: nothing was tried");
}
