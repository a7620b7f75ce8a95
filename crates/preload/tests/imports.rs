//! What PostgreSQL calls to change files, version by version, and what of it the library replaces. A new
//! function in a server's imports fails this test until it is sorted into one of the lists here.
//!
//! Looks at every server in Debian's place and at `ONDOL_POSTGRES` (paths with `:` between them).
#[path = "common/built.rs"]
mod built;

use std::path::PathBuf;
use std::process::Command;

/// Imported functions by which files could be written, synced, named or opened, and why those that are not
/// replaced need not be.
const LEFT: [(&str, &str); 15] = [
    ("fopen", "settings, PG_VERSION, map files; no segment"),
    ("freopen", "standard output and error"),
    ("fdopen", "pipes"),
    ("fwrite", "on what fopen gave"),
    ("ftruncate", "relations and dynamic shared memory"),
    ("truncate", "relations"),
    ("posix_fallocate", "relations and dynamic shared memory"),
    ("fallocate", "relations"),
    ("link", "a second name of a segment leaves the first, which unlink then takes"),
    ("symlink", "tablespaces"),
    ("sync_file_range", "starts writing, promises nothing"),
    ("mmap", "shared memory; segments are never mapped"),
    ("copy_file_range", "relations (file_copy_method); XLogFileCopy reads and writes"),
    ("io_uring_submit", "reads of relations"),
    ("io_uring_queue_init_mem", "reads of relations"),
];
/// Names that could do such things begin or end like this.
const LIKE: [&str; 24] = [
    "open",
    "creat",
    "write",
    "writev",
    "pwrite",
    "sync",
    "fdatasync",
    "rename",
    "unlink",
    "remove",
    "link",
    "truncate",
    "fallocate",
    "dup",
    "fcntl",
    "sendfile",
    "splice",
    "copy_file",
    "mmap",
    "io_uring_sub",
    "io_uring_queue",
    "mkostemp",
    "mkstemp",
    "fdopen",
];
/// These only look like it: directories, libraries, logs, locks, memory, other programs, what reads.
const OTHER: [&str; 22] = [
    "closedir",
    "opendir",
    "dlopen",
    "openlog",
    "popen",
    "shm_open",
    "shm_unlink",
    "sem_open",
    "sem_unlink",
    "readlink",
    "epoll_create",
    "epoll_create1",
    "fdopendir",
    "sched_setaffinity",
    "getopt",
    "munmap",
    "msync",
    "readlinkat",
    "io_uring_queue_exit",
    "io_uring_queue_init",
    "io_uring_queue_init_params",
    "strdup",
];

fn symbols(of: &std::path::Path, defined: bool) -> Vec<String> {
    let kind = if defined { "--defined-only" } else { "--undefined-only" };
    let out = Command::new("nm").args(["-D", kind]).arg(of).output().expect("nm runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    // Of the C library's functions, their versions follow.
    let c = |name: &str| {
        defined || name.contains("@GLIBC") || name.starts_with("io_uring") || !name.contains('@')
    };
    text.lines()
        .filter_map(|l| l.split_whitespace().last())
        .filter(|n| c(n))
        .map(|n| n.split('@').next().unwrap_or(n).to_string())
        .collect()
}

fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a test");
    built::library(test.parent().and_then(|d| d.parent()).expect("a profile's folder"))
}

#[test]
fn every_imported_function_is_replaced_or_explained() {
    let mut servers: Vec<PathBuf> = std::env::var("ONDOL_POSTGRES")
        .map(|p| p.split(':').map(PathBuf::from).collect())
        .unwrap_or_default();
    for version in std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten() {
        let server = version.path().join("bin/postgres");
        if server.exists() {
            servers.push(server)
        }
    }
    if servers.is_empty() || Command::new("nm").arg("--version").output().is_err() {
        eprintln!("no PostgreSQL, or no nm: not tried");
        return;
    }
    let ours = symbols(&library(), true);
    for name in
        ["open", "close", "pwrite", "pwritev", "write", "fsync", "fdatasync", "rename", "unlink", "syncfs"]
    {
        assert!(ours.iter().any(|o| o == name), "{name} is not replaced");
    }
    for server in servers {
        let theirs = symbols(&server, false);
        assert!(theirs.iter().any(|n| n == "pwrite"), "{}: no pwrite?", server.display());
        let doubtful: Vec<&String> = theirs
            .iter()
            .filter(|n| n.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'))
            .filter(|n| {
                LIKE.iter().any(|l| {
                    n.trim_start_matches('_').starts_with(l) || n.trim_end_matches("64").ends_with(l)
                })
            })
            .filter(|n| {
                !ours.contains(n) && !OTHER.contains(&n.as_str()) && !LEFT.iter().any(|(l, _)| l == *n)
            })
            .collect();
        let replaced: Vec<&String> = theirs.iter().filter(|n| ours.contains(n)).collect();
        println!("{}: replaced {replaced:?}", server.display());
        assert!(doubtful.is_empty(), "{}: neither replaced nor explained: {doubtful:?}", server.display());
    }
}
