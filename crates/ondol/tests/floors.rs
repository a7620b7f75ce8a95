//! The house's floors (ARCHITECTURE.md): dependencies go down only.
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// From the ground up; crates on one floor do not know each other.
const FLOORS: [&[&str]; 6] = [
    &["ondol-base", "ondol-types", "ondol-ring"],
    &["ondol-index", "ondol-durability", "ondol-sqlite", "ondol-pgwal", "ondol-scan"],
    &["ondol-kernel", "ondol-preload", "ondol-innodb"],
    &["ondol-engine"],
    &["ondol-sql"],
    &["ondol"],
];

fn floor(name: &str) -> Option<usize> {
    FLOORS.iter().position(|f| f.contains(&name))
}

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn metadata(further: &[&str]) -> serde_json::Value {
    let out = Command::new(env!("CARGO"))
        .current_dir(ROOT)
        .args(["metadata", "--format-version", "1", "--offline", "--locked"])
        .args(further)
        .output()
        .expect("cargo metadata runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("JSON")
}

/// Every package of the build, those of tests and benches too, has a licence that deny.toml allows and comes from the
/// registry; `cargo deny check` looks at more, but is not everywhere.
#[test]
fn licences_are_permissive() {
    let deny = std::fs::read_to_string(format!("{ROOT}/deny.toml")).expect("deny.toml");
    let line = deny.lines().find_map(|l| l.strip_prefix("allow = ")).expect("a line of what is allowed");
    let allowed: BTreeSet<&str> = line.split('"').skip(1).step_by(2).collect();
    assert!(allowed.contains("MIT"), "{line}");
    const PLATFORM: &str = "x86_64-unknown-linux-gnu";
    let metadata = metadata(&["--filter-platform", PLATFORM]);
    // The metadata has also what features bring in on other platforms; the tree has what is built on this one.
    let tree = Command::new(env!("CARGO"))
        .current_dir(ROOT)
        .args(["tree", "--workspace", "--target", PLATFORM, "--prefix", "none", "--offline", "--locked"])
        .output()
        .expect("cargo tree runs");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout).expect("text");
    let built: BTreeSet<(&str, &str)> = (tree.lines())
        .filter_map(|l| {
            let mut words = l.split(' ');
            Some((words.next()?, words.next()?.strip_prefix('v')?))
        })
        .collect();
    let mut seen = 0;
    for p in metadata["packages"].as_array().expect("packages") {
        let id = p["id"].as_str().expect("an id");
        if !built.contains(&(p["name"].as_str().expect("a name"), p["version"].as_str().expect("a version")))
        {
            continue;
        }
        seen += 1;
        let terms = p["license"].as_str().unwrap_or_else(|| panic!("{id} names no licence"));
        let terms = spdx::Expression::parse_mode(terms, spdx::ParseMode::LAX).expect("an SPDX expression");
        assert!(
            terms.evaluate(|r| allowed.contains(r.to_string().as_str())),
            "{id}: {terms} is not among what deny.toml allows"
        );
        let source = p["source"].as_str();
        assert!(source.is_none_or(|s| s.starts_with("registry+")), "{id} comes from {source:?}");
    }
    assert_eq!(seen, built.len(), "what is built is in the metadata");
}

/// Names of the packages that the library is built with, other crates' build scripts aside.
fn built_with(features: &[&str]) -> BTreeSet<String> {
    let out = Command::new(env!("CARGO"))
        .current_dir(ROOT)
        .args(["tree", "--package", "ondol", "--target", "x86_64-unknown-linux-gnu", "--edges", "normal"])
        .args(["--prefix", "none", "--format", "{p}", "--offline", "--locked"])
        .args(features)
        .output()
        .expect("cargo tree runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).expect("text");
    text.lines().filter_map(|l| l.split(' ').next()).map(str::to_string).collect()
}

/// A program that embeds the library takes what it needs.
#[test]
fn the_library_alone_is_slim() {
    let slim = built_with(&["--no-default-features"]);
    let ours: BTreeSet<&str> = slim.iter().map(String::as_str).filter(|n| n.starts_with("ondol")).collect();
    let needed = [
        "ondol",
        "ondol-base",
        "ondol-durability",
        "ondol-engine",
        "ondol-index",
        "ondol-kernel",
        "ondol-ring",
        "ondol-sql",
        "ondol-types",
    ];
    assert_eq!(ours, BTreeSet::from(needed));
    // What the features bring, and nothing else does.
    for (features, brought, not) in [
        ("scan", &["ondol-scan"][..], &["ondol-innodb", "parquet", "arrow-array"][..]),
        ("columnar", &["ondol-scan", "parquet", "arrow-array"], &["ondol-innodb", "encoding_rs"]),
        (
            "innodb",
            &["ondol-scan", "ondol-innodb", "encoding_rs", "flate2"],
            &["parquet", "arrow-array", "clap"],
        ),
        ("command", &["ondol-sqlite", "ondol-pgwal", "clap", "rustyline"], &["parquet", "arrow-array"]),
    ] {
        let built = built_with(&["--no-default-features", "--features", features]);
        for name in brought {
            assert!(built.contains(*name) && !slim.contains(*name), "{features} brings {name}");
        }
        for name in not {
            assert!(!built.contains(*name) && !slim.contains(*name), "{features} does without {name}");
        }
    }
}

#[test]
fn dependencies_go_down_only() {
    let metadata = metadata(&["--no-deps"]);
    let mut seen = BTreeMap::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name");
        if name == "ondol-bench" {
            continue; // outside the house: it may see everything
        }
        let own = floor(name)
            .unwrap_or_else(|| panic!("{name} stands on no floor: add it to ARCHITECTURE.md and here"));
        seen.insert(name.to_string(), own);
        for d in package["dependencies"].as_array().expect("dependencies") {
            let on = d["name"].as_str().expect("a name");
            if d["kind"].as_str() == Some("dev") {
                continue;
            }
            if let Some(f) = floor(on) {
                assert!(f < own, "{name} (floor {own}) depends on {on} (floor {f})");
            } else {
                assert!(!on.starts_with("ondol"), "{on} stands on no floor");
            }
        }
    }
    assert_eq!(
        seen.len(),
        FLOORS.iter().map(|f| f.len()).sum::<usize>(),
        "every floor has its crates: {seen:?}"
    );
}

/// Only the floors that must may touch raw memory or the outside world.
#[test]
fn unsafe_code_and_the_outside_world_stay_below() {
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    for (krate, unsafe_allowed, world_allowed) in [
        ("base", true, true),
        ("ring", true, false),
        ("types", false, false),
        ("index", true, false),
        ("durability", true, false),
        ("kernel", true, false),
        ("engine", false, false),
        ("sql", false, false),
        ("scan", false, false),
        ("innodb", true, false),
        ("sqlite", true, true),
        ("pgwal", true, true),
        ("preload", true, false),
    ] {
        let mut stack = vec![root.join(krate).join("src")];
        while let Some(dir) = stack.pop() {
            for entry in std::fs::read_dir(&dir).expect("a source folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    stack.push(path);
                    continue;
                }
                if path.extension().is_none_or(|e| e != "rs") {
                    continue;
                }
                let text = std::fs::read_to_string(&path).expect("UTF-8");
                // Tests stand at the end of a file, or in files of their own.
                let tests = path.file_name().is_some_and(|n| n == "tests.rs");
                let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("");
                for (n, line) in text.lines().enumerate() {
                    let code = line.split("//").next().unwrap_or("");
                    let at = || format!("{}:{}: {line}", path.display(), n + 1);
                    assert!(unsafe_allowed || !code.contains("unsafe {"), "unsafe code at {}", at());
                    let world = ["Instant::now", "SystemTime::now", "std::thread::spawn", "std::sync::Mutex"];
                    assert!(
                        world_allowed || tests || !world.iter().any(|w| code.contains(w)),
                        "past the floor of the media at {}",
                        at()
                    );
                }
            }
        }
    }
}

/// Each row of ARCHITECTURE.md's table names functions that are in their files: "`path`: `name`, `name`".
#[test]
fn what_is_to_be_found_is_there() {
    let page = std::fs::read_to_string(format!("{ROOT}/ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let table = page.split("## Find X in Y").nth(1).and_then(|p| p.split("\n## ").next()).expect("the table");
    let mut seen = 0;
    for line in table.lines() {
        let mut text = None;
        for name in line.split('`').skip(1).step_by(2) {
            if name.ends_with(".rs") {
                let path = format!("{ROOT}/{name}");
                text = Some(std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}")));
                continue;
            }
            let text = text.as_ref().unwrap_or_else(|| panic!("no file is named before {name}: {line}"));
            let here = ["(", "<"].iter().any(|open| text.contains(&format!("fn {name}{open}")));
            assert!(here, "{name} is not where ARCHITECTURE.md says: {line}");
            seen += 1;
        }
    }
    assert!(seen >= 20, "{seen} functions");
}
