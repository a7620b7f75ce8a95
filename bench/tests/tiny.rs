//! Every bench is run with next to nothing, so that none of them rots. What they check (checksums that must
//! agree, consistency conditions, acknowledged orders after a SIGKILL, equal content on two databases) is checked here
//! too.
use std::process::Command;

fn tiny(bench: &str, further: &[&str], says: &[&str]) {
    let folder = ondol::TempFolder::new().expect("a folder");
    let out = Command::new(env!("CARGO_BIN_EXE_ondol-bench"))
        .args([bench, "--tiny", "--out"])
        .arg(folder.path())
        .args(further)
        .output()
        .expect("the bench runs");
    let (stdout, stderr) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{stdout}\n{stderr}");
    for s in says {
        assert!(stdout.contains(s), "{s:?} is missing in:\n{stdout}");
    }
    let mut written: Vec<String> = std::fs::read_dir(folder.path())
        .expect("results")
        .filter_map(|e| Some(e.ok()?.path().extension()?.to_string_lossy().into_owned()))
        .collect();
    written.sort();
    assert_eq!(written, ["csv", "md", "svg"]);
}

#[test]
fn directory() {
    tiny("directory", &[], &["Q1: point reads", "Q3: point reads", "Q4: durable", "bytes an update"]);
}

#[test]
fn tpcc() {
    let says = [
        "conditions of clause 3.3.2 hold",
        "left the same content on both sides",
        "Ondol durable: killed after",
        "SQLite FULL: killed after",
    ];
    tiny("tpcc", &["--threads", "2"], &says);
}

#[test]
fn load() {
    tiny("load", &[], &["Ondol COPY"]);
}

#[test]
fn recovery() {
    tiny("recovery", &[], &["whole restart", "building the indexes on the live database"]);
}

#[test]
fn checkpoint() {
    tiny("checkpoint", &[], &["p99 with against without", "A long reader under updates"]);
}

#[test]
fn ring() {
    let says = [
        "Commits of 1 session",
        "Commits of 16 sessions",
        "promise server-crash (emulated",
        "Latency of a commit",
    ];
    let folder = ondol::TempFolder::new().expect("a folder");
    tiny("ring", &["--memory", folder.path().to_str().expect("a plain path")], &says);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn pmem() {
    let deps = std::env::current_exe().expect("a path");
    let library = deps.with_file_name("libondol_sqlite.so");
    let library = library.to_str().expect("a name");
    let says = ["journal_mode=DELETE", "journal_mode=WAL", "against MM", "conditions of clause 3.3.2 hold"];
    tiny("pmem", &["--library", library], &says);
}
