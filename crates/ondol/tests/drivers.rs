//! psycopg and pgjdbc, as Debian has them, against the server: `scripts/drivers`, which has others as well.
//! Each does what programs do with it, in `bench/drivers`; what is known to fail is written down there.
#![cfg(all(feature = "server", feature = "command"))]
use std::path::Path;
use std::process::Command;

fn drive(driver: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/drivers");
    let mut command = Command::new("python3");
    command.arg(script).args(["--installed", "--only", driver, "--command", env!("CARGO_BIN_EXE_ondol")]);
    let out = command.output().expect("Python is there");
    let (said, wrong) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{said}{wrong}");
    let told = said.lines().rfind(|l| l.starts_with(driver)).unwrap_or_default();
    let is_there = told.contains(" 0 wrong");
    assert!(is_there || told.contains("missing"), "{said}{wrong}");
    let may_miss = std::env::var_os("CI").is_none();
    assert!(is_there || may_miss, "{told}: scripts/setup tests installs it");
}

#[test]
fn psycopg_talks_to_it() {
    drive("psycopg")
}

#[test]
fn pgjdbc_talks_to_it() {
    drive("pgjdbc")
}

/// By the socket factory that is in `clients/java`.
#[test]
fn pgjdbc_talks_to_it_by_the_unix_socket() {
    let is_there = Path::new("/usr/share/java/postgresql.jar").exists()
        && Command::new("javac").arg("-version").output().is_ok_and(|o| o.status.success());
    if !is_there {
        assert!(
            std::env::var_os("CI").is_none(),
            "a JDK or pgjdbc is missing: scripts/setup tests installs them"
        );
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/java/check");
    let out = Command::new(script).arg(env!("CARGO_BIN_EXE_ondol")).output().expect("a shell");
    let (said, wrong) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{said}{wrong}")
}
