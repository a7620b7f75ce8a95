//! What a session says, and what is made of its database: for tests of what outlives a session.
#![allow(dead_code, reason = "each file of tests takes some of it")]
use ondol::{Database, Session, TempFolder};
use std::path::Path;

/// A database in a folder of its own.
pub fn open() -> (TempFolder, Database) {
    let folder = TempFolder::new().expect("a folder");
    let db = open_in(&folder);
    (folder, db)
}

/// The database in a folder.
pub fn open_in(folder: &TempFolder) -> Database {
    Database::open(folder.path().join("db")).expect("a database")
}

/// The rows, a text each.
pub fn rows(s: &mut Session, sql: &str) -> Vec<String> {
    let found = s.query(sql, &[]).unwrap_or_else(|e| panic!("{sql}: {e}"));
    found.iter().map(|r| r.values().map(|v| v.to_string()).collect::<Vec<_>>().join("|")).collect()
}

pub fn run(s: &mut Session, sql: &str) {
    s.execute(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
}

pub fn dumped(s: &mut Session) -> String {
    let mut text = Vec::new();
    s.dump(&mut text, |_, _| {}).expect("a dump");
    String::from_utf8(text).expect("UTF-8")
}

/// The database that a dump makes, by the command.
#[cfg(feature = "command")]
pub fn restored(dump: &str) -> (TempFolder, Database) {
    let folder = TempFolder::new().expect("a folder");
    let (script, there) = (folder.path().join("dump.sql"), folder.path().join("there"));
    std::fs::write(&script, dump).expect("a file");
    let done = std::process::Command::new(env!("CARGO_BIN_EXE_ondol"))
        .args(["restore".as_ref(), there.as_os_str(), script.as_os_str()])
        .output()
        .expect("the command runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let db = Database::open(there).expect("the copy");
    (folder, db)
}

/// The files of a folder, as they are now.
pub fn copied(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        let there = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copied(&entry.path(), &there),
            false => drop(std::fs::copy(entry.path(), there).expect("a copy")),
        }
    }
}
