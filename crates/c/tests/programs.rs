//! Programs in C and C++, compiled here, on a database in their process and through a server, by each way.
#[path = "../../client/tests/served/mod.rs"]
mod served;

use ondol::TempFolder;
use served::Served;
use std::path::{Path, PathBuf};
use std::process::Command;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// The folder with the library that was built with these tests.
fn library() -> PathBuf {
    let deps = std::env::current_exe().expect("a program").parent().expect("its folder").to_path_buf();
    let found = [deps.clone(), deps.parent().expect("a folder").to_path_buf()];
    found.into_iter().find(|p| p.join("libondol_c.so").exists()).expect("libondol_c.so beside the tests")
}

/// Compiles a program of this crate's.
fn compiled(source: &str, to: &Path) -> PathBuf {
    let program = to.join(Path::new(source).file_stem().expect("a name"));
    let (compiler, standard) =
        if source.ends_with(".c") { ("cc", "-std=c11") } else { ("c++", "-std=c++17") };
    let library = library();
    let out = Command::new(compiler)
        .args([standard, "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"])
        .arg(format!("{HERE}/include"))
        .arg(format!("{HERE}/{source}"))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(&library)
        .arg(format!("-Wl,-rpath,{}", library.display()))
        .arg("-londol_c")
        .output()
        .expect("a compiler");
    assert!(out.status.success(), "{source}: {}", String::from_utf8_lossy(&out.stderr));
    program
}

/// What it writes, on a new database by each way there is.
fn run(source: &str) -> Vec<String> {
    let folder = TempFolder::new().expect("a folder");
    let program = compiled(source, folder.path());
    let served = Served::new();
    let own = folder.path().join("own").display().to_string();
    let ways = [own, served.path.display().to_string()].into_iter().chain(served.ways());
    let said = ways.map(|whereto| {
        let out = Command::new(&program).arg(&whereto).output().expect("it runs");
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(out.status.success(), "{source} {whereto}: {said}{}", String::from_utf8_lossy(&out.stderr));
        said
    });
    said.collect()
}

#[test]
fn the_ledger_of_the_docs() {
    for said in run("examples/ledger.c") {
        assert_eq!(
            said,
            "account 1: Ann has 70\naccount 2: Bo has 30\naccount 3: nobody has 50\naccount 4: none\n"
        )
    }
}

#[test]
fn the_sessions_of_the_docs() {
    for said in run("examples/sessions.cpp") {
        assert_eq!(said, "23505\nb2a1 1\n77f0 1\nc0de 1\nb2a1 2\n77f0 2\n")
    }
}

#[test]
fn every_function() {
    for said in run("tests/all.c") {
        assert_eq!(said, "all right\n")
    }
}

/// What the header declares is what the library has, and the other way round.
#[test]
fn the_header_is_whole() {
    let header = std::fs::read_to_string(format!("{HERE}/include/ondol.h")).expect("the header");
    let mut declared: Vec<&str> = header
        .lines()
        .filter(|l| l.ends_with(");") && !l.starts_with([' ', '*']))
        .filter_map(|l| l.split('(').next()?.rsplit([' ', '*']).next())
        .collect();
    let out = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library().join("libondol_c.so"))
        .output()
        .expect("nm of binutils");
    let symbols = String::from_utf8(out.stdout).expect("names");
    let mut there: Vec<&str> =
        symbols.lines().filter_map(|l| l.rsplit(' ').next()).filter(|n| n.starts_with("ondol_")).collect();
    declared.sort();
    there.sort();
    assert!(declared.len() > 30);
    assert_eq!(declared, there)
}
