//! The package's own tests, with Debian's Python, on a database in the process and through a server.
#[path = "../../client/tests/served/mod.rs"]
mod served;

use ondol::TempFolder;
use served::Served;
use std::path::{Path, PathBuf};
use std::process::Command;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// The library that was built with these tests.
fn library() -> PathBuf {
    let deps = std::env::current_exe().expect("a program").parent().expect("its folder").to_path_buf();
    let found = [deps.join("lib_ondol.so"), deps.with_file_name("lib_ondol.so")];
    found.into_iter().find(|p| p.exists()).expect("lib_ondol.so beside the tests")
}

/// The package as a wheel would have it.
fn package(into: &Path) {
    let package = into.join("ondol");
    std::fs::create_dir(&package).expect("a folder");
    for file in std::fs::read_dir(format!("{HERE}/python/ondol")).expect("the package") {
        let file = file.expect("a file").path();
        if file.is_file() {
            std::fs::copy(&file, package.join(file.file_name().expect("a name"))).expect("a copy");
        }
    }
    std::fs::copy(library(), package.join("_ondol.abi3.so")).expect("a copy");
}

#[test]
fn the_package_works() {
    let folder = TempFolder::new().expect("a folder");
    package(folder.path());
    let served = Served::new();
    let own = folder.path().join("own").display().to_string();
    let places: Vec<String> =
        [own, served.path.display().to_string()].into_iter().chain(served.ways()).collect();
    let out = Command::new("/usr/bin/python3")
        .arg(format!("{HERE}/tests/test_ondol.py"))
        .env("PYTHONPATH", folder.path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("ONDOL_PLACES", places.join(";"))
        .output()
        .expect("Debian's python3");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr))
}
