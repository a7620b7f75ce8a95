//! Which process has a database, as the system knows it by the lock on its folder.
use super::Failed;
use ondol_types::sqlstate;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The number and the command line of the process that has locked a file; nothing where the system does not
/// say.
fn holder(lock: &Path) -> Option<(u32, String)> {
    let inode = std::fs::metadata(lock).ok()?.ino().to_string();
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    // 1: FLOCK  ADVISORY  WRITE 4242 fe:01:77 0 EOF
    let number = locks.lines().find_map(|l| {
        let words: Vec<&str> = l.split_whitespace().collect();
        let is_it = words.get(1) == Some(&"FLOCK") && words.get(5)?.rsplit(':').next() == Some(&inode);
        words.get(4)?.parse::<u32>().ok().filter(|n| is_it && *n > 0)
    })?;
    let line = std::fs::read(format!("/proc/{number}/cmdline")).ok()?;
    let line = String::from_utf8_lossy(&line).trim_end_matches('\0').replace('\0', " ");
    Some((number, line))
}

/// An error that says that a database is in use, with what has it, and what can be done.
pub fn held_by(e: ondol::Error, path: &Path) -> Failed {
    if e.sqlstate() != sqlstate::OBJECT_IN_USE {
        return Failed::Sql(e);
    }
    let holder = holder(&path.join("lock"));
    let is_server = holder.as_ref().is_some_and(|(_, line)| line.contains(" serve "));
    let e = match holder {
        Some((number, line)) => e.detail(format!("Process {number} has it: {line}")),
        None => e,
    };
    let path = path.display();
    let copy = format!(
        "\"ondol backup {path} COPY\" makes a copy meanwhile, which can be checked, dumped and opened."
    );
    Failed::Sql(e.hint(match is_server {
        true => format!("\"ondol shell {path}\" goes through the server. {copy}"),
        false => copy,
    }))
}
