//! What PostgreSQL's pg_dump writes of a schema with all that is here is restored as it is, and goes on by
//! Ondol's own dumps. `scripts/postgresql-dumps` makes the dump anew, and goes the way back as well.
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

fn ran(args: &[&str], input: &str) -> (String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ondol"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("ondol starts");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads all");
    let done = child.wait_with_output().expect("ondol ends");
    let text = |b: Vec<u8>| String::from_utf8(b).expect("text");
    (text(done.stdout), text(done.stderr))
}

#[test]
fn a_dump_of_postgresql_is_restored() {
    let dump = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/migration/pg_dump.sql");
    let dump = std::fs::read_to_string(dump).expect("the dump");
    let folder = ondol::TempFolder::new().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (first, second) = (at("first"), at("second"));
    let (_, told) = ran(&["shell", &first, "--keep-going"], &dump);
    assert_eq!(told, "");
    let (own, told) = ran(&["dump", &first], "");
    assert_eq!(told, "");
    let (_, told) = ran(&["shell", &second, "--keep-going"], &own);
    assert_eq!(told, "");
    let (again, _) = ran(&["dump", &second], "");
    assert_eq!(again, own);
}
