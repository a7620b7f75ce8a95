//! Golden scripts: each `tests/sql/NAME.sql` is run by the shell on a database of its own, and what it
//! writes, to both streams, must be `NAME.out`. Errors are part of it: the scripts go on after them.
//!
//! The expected files were compared with PostgreSQL 15's psql on the same scripts; what differs on purpose is
//! that here the SQLSTATE stands on a line of its own, and that a few things are refused.
//!
//! `ONDOL_BLESS=1 cargo test -p ondol --test golden` writes them anew, for being looked at.
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

fn run(script: &Path) -> String {
    let folder = ondol::TempFolder::new().expect("a temporary folder");
    let written = folder.path().join("out");
    let out = File::create(&written).expect("a file in it");
    let status = Command::new(env!("CARGO_BIN_EXE_ondol"))
        .arg("shell")
        .arg(folder.path().join("db"))
        .args(["--echo", "--keep-going", "-f"])
        .arg(script.file_name().expect("a name"))
        .current_dir(script.parent().expect("a folder"))
        .stdin(Stdio::null())
        .stdout(out.try_clone().expect("a second handle"))
        .stderr(out)
        .status()
        .expect("the shell runs");
    let text = fs::read_to_string(&written).expect("what it wrote");
    format!("{text}-- exit status {}\n", status.code().map_or("none".into(), |c| c.to_string()))
}

/// The first line that differs, with what was expected there.
fn difference(wanted: &str, found: &str) -> String {
    let mut lines = wanted.lines();
    for (n, line) in found.lines().enumerate() {
        let other = lines.next();
        if other != Some(line) {
            return format!("line {}: found {line:?}, expected {other:?}", n + 1);
        }
    }
    format!("expected further: {:?}", lines.next())
}

#[test]
fn scripts_write_what_they_should() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sql");
    let mut scripts: Vec<_> = fs::read_dir(&folder)
        .expect("the scripts")
        .map(|e| e.expect("an entry").path())
        .filter(|p| p.extension().is_some_and(|e| e == "sql"))
        .collect();
    scripts.sort();
    assert!(scripts.len() >= 10, "only {} scripts", scripts.len());
    let mut wrong = Vec::new();
    for script in &scripts {
        let found = run(script);
        let expected = script.with_extension("out");
        if std::env::var_os("ONDOL_BLESS").is_some() {
            fs::write(&expected, &found).expect("the expected output is written");
            continue;
        }
        let wanted = fs::read_to_string(&expected).unwrap_or_default();
        if wanted != found {
            wrong.push(format!("{}: {}", script.display(), difference(&wanted, &found)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
