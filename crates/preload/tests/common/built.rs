//! The library as it is preloaded. Nothing links it, so a test does not build it.
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the library in a profile's folder, where the test itself was built; where it is.
pub fn library(folder: &Path) -> PathBuf {
    let profile = folder.file_name().and_then(|p| p.to_str()).expect("a profile's folder");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--offline", "-p", "ondol-preload", "--profile"])
        .arg(if profile == "debug" { "dev" } else { profile })
        .arg("--target-dir")
        .arg(folder.parent().expect("a target folder"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(built.expect("cargo runs").success());
    folder.join("libondol_pgwal.so")
}
