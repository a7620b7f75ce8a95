//! The house's floors (ARCHITECTURE.md): dependencies go down only. And its rules: each that a text cites is
//! there (CONTRIBUTING.md).
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// From the ground up; crates on one floor do not know each other.
const FLOORS: [&[&str]; 7] = [
    &["ondol-base", "ondol-types", "ondol-ring"],
    &["ondol-index", "ondol-durability", "ondol-sqlite", "ondol-pgwal", "ondol-scan", "ondol-wire"],
    &["ondol-kernel", "ondol-preload", "ondol-innodb", "ondol-client"],
    &["ondol-engine"],
    &["ondol-sql"],
    &["ondol"],
    &["ondol-c", "ondol-python"],
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

/// Every package of the build, those of tests and benches too, has a licence that deny.toml allows and comes
/// from the registry; `cargo deny check` looks at more, but is not everywhere.
#[test]
fn licences_are_permissive() {
    let deny = std::fs::read_to_string(format!("{ROOT}/deny.toml")).expect("deny.toml");
    let line = deny.lines().find_map(|l| l.strip_prefix("allow = ")).expect("a line of what is allowed");
    let allowed: BTreeSet<&str> = line.split('"').skip(1).step_by(2).collect();
    assert!(allowed.contains("MIT"), "{line}");
    const PLATFORM: &str = "x86_64-unknown-linux-gnu";
    let metadata = metadata(&["--filter-platform", PLATFORM]);
    // The metadata has also what features bring in on other platforms; the tree has what is built on this
    // one.
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
        "ondol-scan",
        "ondol-sql",
        "ondol-types",
    ];
    assert_eq!(ours, BTreeSet::from(needed));
    // What the features bring, and nothing else does.
    for (features, brought, not) in [
        ("scan", &[] as &[&str], &["ondol-innodb", "parquet", "arrow-array"][..]),
        ("columnar", &["parquet", "arrow-array"], &["ondol-innodb", "encoding_rs"]),
        ("innodb", &["ondol-innodb", "encoding_rs", "flate2"], &["parquet", "arrow-array", "clap"]),
        ("server", &["ondol-wire", "hmac", "rustls"], &["ondol-innodb", "parquet", "clap"]),
        ("connect", &["ondol-client", "ondol-wire", "rustls"], &["ondol-innodb", "parquet", "clap"]),
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

/// Within `sql`: a statement goes through the stages in this order, and a stage knows those before it only.
#[test]
fn stages_know_those_before_them_only() {
    const STAGES: [&str; 5] = ["parse", "bind", "plan", "code", "interpret"];
    let src = format!("{ROOT}/crates/sql/src");
    let mut seen = 0;
    for (n, stage) in STAGES.iter().enumerate() {
        let mut files = Vec::new();
        let mut stack = vec![std::path::PathBuf::from(format!("{src}/{stage}"))];
        while let Some(dir) = stack.pop() {
            for entry in std::fs::read_dir(&dir).expect("a source folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() { stack.push(path) } else { files.push(path) }
            }
        }
        let own = std::path::PathBuf::from(format!("{src}/{stage}.rs"));
        files.extend(own.exists().then_some(own));
        for path in files {
            if path.file_name().is_some_and(|n| n == "tests.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("UTF-8");
            for (at, line) in text.lines().enumerate() {
                let code = line.split("//").next().unwrap_or("");
                for later in &STAGES[n + 1..] {
                    let there = format!("{}:{}: {line}", path.display(), at + 1);
                    assert!(!code.contains(&format!("crate::{later}")), "{stage} knows {later} at {there}");
                }
                seen += usize::from(STAGES[..n].iter().any(|s| code.contains(&format!("crate::{s}"))));
            }
        }
    }
    assert!(seen > 20, "only {seen} uses of earlier stages: the test looks in the wrong place");
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
        ("client", false, true),
        ("c", true, false),
        ("python", false, true),
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

/// The lines of a page's prose that are longer than 110 columns, by number. Tables, code, headings and what a
/// bench printed are as long as they are, and so is a line that has no place to break.
fn too_wide(page: &str) -> Vec<usize> {
    let mut wide = vec![];
    let (mut code, mut printed) = (false, false);
    for (n, line) in page.lines().enumerate() {
        let text = line.trim_start();
        if text.starts_with("```") {
            code = !code;
        }
        if text.starts_with("<!-- ") {
            printed = text.ends_with(": latest run -->");
        }
        if code || printed || text.starts_with(['|', '#']) || line.chars().count() <= 110 {
            continue;
        }
        let words = text.trim_start_matches("- ");
        // Pieces of code are not parted.
        if words.split('`').step_by(2).any(|between| between.contains(' ')) {
            wide.push(n + 1);
        }
    }
    wide
}

/// A Rust text's comments as a page of prose, in the columns that they have: code and comments' marks are
/// blank.
fn page_of(rust: &str) -> String {
    let prose = |line: &str| {
        let start = line.find("//").unwrap_or(line.len());
        let (mark, text) = line[start..].split_at(line[start..].find(|c| !"/!".contains(c)).unwrap_or(0));
        format!("{}{text}\n", " ".repeat(line[..start].chars().count() + mark.len()))
    };
    comments(rust).lines().map(prose).collect()
}

/// Prose ends at column 110, in comments too, so that a line is read whole, also in a difference.
#[test]
fn prose_is_wrapped() {
    let (mut pages, mut sources, mut wrong) = (0, 0, vec![]);
    let mut stack = vec![std::path::PathBuf::from(ROOT)];
    while let Some(dir) = stack.pop() {
        for entry in std::fs::read_dir(&dir).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|n| n.to_str()).expect("UTF-8");
            if path.is_dir() {
                if !name.starts_with('.') && !["target", "results"].contains(&name) {
                    stack.push(path);
                }
            } else if name.ends_with(".md") {
                pages += 1;
                let text = std::fs::read_to_string(&path).expect("UTF-8");
                wrong.extend(too_wide(&text).iter().map(|n| format!("{}:{n}", path.display())));
            } else if name.ends_with(".rs") {
                sources += 1;
                let text = std::fs::read_to_string(&path).expect("UTF-8");
                wrong.extend(too_wide(&page_of(&text)).iter().map(|n| format!("{}:{n}", path.display())));
            }
        }
    }
    assert!(pages >= 12 && sources >= 400, "{pages} pages, {sources} sources");
    assert!(wrong.is_empty(), "longer than 110 columns:\n{}", wrong.join("\n"));
}

/// The test above finds what it is for, and lets pass what cannot be wrapped.
#[test]
fn a_wide_line_is_found() {
    let words = "word ".repeat(23);
    let code = format!("`{words}`");
    for (page, found) in [
        (format!("# Page\n\n{words}\n"), vec![3]),
        (format!("- {words}\n  {words}\n"), vec![1, 2]),
        (format!("```sh\n{words}\n```\n{words}\n"), vec![4]),
        (format!("# {words}\n| {words} |\n"), vec![]),
        (format!("<!-- x: latest run -->\n{words}\n<!-- x: end -->\n{words}\n"), vec![4]),
        (format!("- [{0}]({0})\n{code}\n", "long".repeat(30)), vec![]),
        (format!("{code} and {words}\n"), vec![1]),
    ] {
        assert_eq!(too_wide(&page), found, "{page}");
    }
    let wide = "word ".repeat(21);
    for (rust, found) in [
        (format!("//! {wide}\n    //! {wide}\n"), vec![2]),
        (format!("fn f() {{}} // {wide}\n"), vec![1]),
        (format!("/// ```\n    /// {wide}\n/// ```\n    /// {wide}\n"), vec![4]),
        (format!("const S: &str = \"// {wide}\";\n//! | {wide}{wide}|\n"), vec![]),
    ] {
        assert_eq!(too_wide(&page_of(&rust)), found, "{rust}");
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

/// Names that many things could bear, and the file of the one that does.
const ONE_EACH: [(&str, &str); 6] = [
    ("Lines", "crates/scan/src/csv.rs"),
    ("Reader", "crates/engine/src/loan.rs"),
    ("Row", "crates/ondol/src/session/rows.rs"),
    ("Rows", "crates/ondol/src/session/rows.rs"),
    ("Table", "crates/engine/src/table.rs"),
    ("Writer", "crates/durability/src/stream.rs"),
];

/// A plain name means the same type in all files; what is like it has a name of its own.
#[test]
fn a_plain_name_means_one_type() {
    let mut found: BTreeSet<(&str, String)> = BTreeSet::new();
    let mut stack = vec!["bench".to_string(), "crates".to_string()];
    while let Some(dir) = stack.pop() {
        for entry in std::fs::read_dir(format!("{ROOT}/{dir}")).expect("a folder") {
            let entry = entry.expect("an entry");
            let path = format!("{dir}/{}", entry.file_name().to_str().expect("UTF-8"));
            if entry.path().is_dir() {
                stack.push(path);
            } else if path.ends_with(".rs") {
                let text = std::fs::read_to_string(entry.path()).expect("UTF-8");
                let words: Vec<&str> = (text.lines().map(|l| l.split("//").next().unwrap_or("")))
                    .flat_map(|l| l.split(|c: char| !c.is_alphanumeric() && c != '_'))
                    .filter(|w| !w.is_empty())
                    .collect();
                for pair in words.windows(2) {
                    if let ["struct" | "enum" | "union" | "trait" | "type", name] = pair
                        && let Some((name, _)) = ONE_EACH.iter().find(|(n, _)| n == name)
                    {
                        found.insert((name, path.clone()));
                    }
                }
            }
        }
    }
    assert_eq!(found, ONE_EACH.map(|(name, path)| (name, path.to_string())).into());
}

/// What looks like a rule's label and is none: the words, where they stand, and what they are.
const NO_LABELS: [(&[&str], &[&str], &str); 5] = [
    (&["Q1", "Q2", "Q3", "Q4"], &["bench/README.md", "bench/directory.rs"], "the directory's queries"),
    (&["Q1", "Q4"], &["crates/ondol/src/command/demo.rs"], "the demo's queries"),
    (&["MD5"], &["crates/types/src/func/digest.rs"], "a digest"),
    (&["LZ4"], &["docs/sql.md"], "a compression"),
    (&["SE2"], &["crates/innodb/src/charset.rs"], "a character set of ISO 646"),
];

/// One or two capital letters and a number of one or two digits.
fn label(word: &str) -> Option<(&str, u32)> {
    let digits = word.find(|c: char| c.is_ascii_digit())?;
    let (letters, number) = word.split_at(digits);
    let formed = (1..=2).contains(&letters.len())
        && (1..=2).contains(&number.len())
        && letters.bytes().all(|b| b.is_ascii_uppercase());
    Some((letters, number.parse().ok().filter(|_| formed)?))
}

/// A Rust text with its comments only: all else but line ends is blank.
fn comments(rust: &str) -> String {
    let mut out = String::new();
    let mut rest = rust;
    // What is skipped is as long as it was in lines.
    let blank = |out: &mut String, text: &str| {
        out.extend(text.chars().map(|c| if c == '\n' { c } else { ' ' }));
    };
    let mut before = ' ';
    while let Some(c) = rest.chars().next() {
        let name = before.is_alphanumeric() || before == '_';
        let hashes = rest.trim_start_matches('r').bytes().take_while(|b| *b == b'#').count();
        let raw = c == 'r' && !(name && before != 'b') && rest[1 + hashes..].starts_with('"');
        let (len, comment) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), true)
        } else if rest.starts_with("/*") {
            (rest.find("*/").map_or(rest.len(), |end| end + 2), true)
        } else if raw {
            let end = format!("\"{}", "#".repeat(hashes));
            let start = 2 + hashes;
            (rest[start..].find(&end).map_or(rest.len(), |at| start + at + end.len()), false)
        } else if c == '"' {
            let mut escaped = false;
            let end = rest[1..].find(|c: char| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            (end.map_or(rest.len(), |at| at + 2), false)
        } else if let Some(quoted) = rest.strip_prefix("'\\") {
            let first = quoted.chars().next().map_or(0, char::len_utf8);
            (quoted[first..].find('\'').map_or(rest.len(), |at| 2 + first + at + 1), false)
        } else if c == '\'' && rest.chars().nth(2) == Some('\'') {
            (rest.chars().take(3).map(char::len_utf8).sum(), false)
        } else {
            (c.len_utf8(), false)
        };
        let (text, further) = rest.split_at(len);
        if comment {
            out.push_str(text);
        } else {
            blank(&mut out, text);
        }
        before = text.chars().next_back().unwrap_or(' ');
        rest = further;
    }
    out
}

/// The module that a file is: `durability/mark` for `crates/durability/src/mark.rs`, `protocol` for
/// `docs/protocol.md`.
fn module(file: &str) -> String {
    let path = file.trim_end_matches(".rs").trim_end_matches(".md");
    let mut parts: Vec<&str> = path.split('/').filter(|p| !["crates", "src", "docs"].contains(p)).collect();
    if parts.last().is_some_and(|p| ["lib", "mod", "main"].contains(p)) {
        parts.pop();
    }
    parts.join("/")
}

/// The label that a line defines, and where the line goes on. In a Rust file that is a bold word at the
/// beginning of a line, or of a point of a list, in the module's header; in a page it is such a word, or the
/// first one of a heading.
fn defined(file: &str, line: &str) -> Option<(String, usize)> {
    let start = if file.ends_with(".rs") {
        line.strip_prefix("//!")?.trim_start().trim_start_matches("- ").strip_prefix("**")?
    } else {
        let heading = line.trim_start_matches('#');
        let heading = heading.strip_prefix(' ').filter(|_| heading.len() < line.len());
        heading.or_else(|| line.trim_start_matches("- ").strip_prefix("**"))?
    };
    let word = start.split(['*', ' ']).next()?;
    label(word)?;
    Some((word.to_string(), line.len() - start.len() + word.len()))
}

/// Follows every citation of a rule in these files, by path and text; tells how many there are and what is
/// wrong.
fn follow(files: &BTreeMap<String, String>) -> (usize, Vec<String>) {
    let mut wrong = Vec::new();
    let mut texts = Vec::new();
    // By label: the modules that define it.
    let mut rules: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for (file, text) in files {
        let text = if file.ends_with(".rs") { comments(text) } else { text.clone() };
        let mut last: BTreeMap<String, u32> = BTreeMap::new();
        for (n, line) in text.lines().enumerate() {
            let Some((rule, _)) = defined(file, line) else { continue };
            let (letters, number) = label(&rule).expect("a label");
            let before = last.insert(letters.to_string(), number);
            if before.map_or(number > 1, |b| number != b + 1) {
                let expected = before.map_or(1, |b| b + 1);
                wrong.push(format!("{file}:{}: {rule} is defined, {letters}{expected} was expected", n + 1));
            }
            rules.entry(rule).or_default().push((file.clone(), module(file)));
        }
        texts.push((file, text));
    }
    let mut cited = 0;
    for (file, text) in texts {
        for (n, line) in text.lines().enumerate() {
            let from = defined(file, line).map_or(0, |(_, end)| end);
            for word in line[from..].split(|c: char| !c.is_alphanumeric() && c != '_' && c != '/') {
                let word = word.trim_matches('/');
                let (path, rule) = word.rsplit_once('/').unwrap_or(("", word));
                if label(rule).is_none() {
                    continue;
                }
                let file_has = |places: &[&str]| places.contains(&file.as_str());
                if NO_LABELS.iter().any(|(words, places, _)| words.contains(&word) && file_has(places)) {
                    continue;
                }
                cited += 1;
                let names = |among: &[&(String, String)]| {
                    let names: Vec<String> = among.iter().map(|(_, m)| format!("{m}/{rule}")).collect();
                    if names.is_empty() { "none".to_string() } else { names.join(", ") }
                };
                let all: Vec<_> = rules.get(rule).into_iter().flatten().collect();
                let found: Vec<_> = (all.iter().copied())
                    .filter(|(f, m)| match path {
                        "" => f == file,
                        path => m.strip_suffix(path).is_some_and(|m| m.is_empty() || m.ends_with('/')),
                    })
                    .collect();
                let problem = match (path, found.len()) {
                    (_, 1) => continue,
                    ("", 0) => {
                        format!(
                            "this file's header defines no {rule}; with their paths there are {}",
                            names(&all)
                        )
                    }
                    (_, 0) => format!("no module of that path defines {rule}; there are {}", names(&all)),
                    _ => format!("one definition was expected, not {}", names(&found)),
                };
                wrong.push(format!("{file}:{}: {word} is cited: {problem}", n + 1));
            }
        }
    }
    (cited, wrong)
}

/// A rule is cited as CONTRIBUTING.md says: by its label where it is defined, with its module's path
/// elsewhere.
#[test]
fn rules_that_are_cited_are_there() {
    let mut files = BTreeMap::new();
    let mut stack: Vec<String> = ["crates", "bench", "docs", "."].map(String::from).into();
    while let Some(dir) = stack.pop() {
        for entry in std::fs::read_dir(format!("{ROOT}/{dir}")).expect("a folder") {
            let entry = entry.expect("an entry");
            let name = entry.file_name().into_string().expect("UTF-8");
            let path = if dir == "." { name.clone() } else { format!("{dir}/{name}") };
            if entry.path().is_dir() {
                if dir != "." && !name.starts_with('.') && !["target", "results"].contains(&name.as_str()) {
                    stack.push(path);
                }
            } else if name.ends_with(".rs") || name.ends_with(".md") {
                files.insert(path, std::fs::read_to_string(entry.path()).expect("UTF-8"));
            }
        }
    }
    let (cited, wrong) = follow(&files);
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(cited > 600, "{cited} citations");
    for (words, places, what) in NO_LABELS {
        for place in places {
            let text = files.get(*place).map_or("", String::as_str);
            assert!(words.iter().any(|w| text.contains(w)), "NO_LABELS: {what}: not in {place} any more");
        }
    }
}

/// The test above over a small house: right citations pass, each kind of a wrong one is told with its place.
#[test]
fn a_wrong_citation_is_found() {
    let house = |further: &[(&str, &str)]| {
        let files = [
            ("crates/a/src/mark.rs", "//! - **K1** One.\n//! - **K2** Two, as K1.\nfn f() {} // K2\n"),
            ("crates/b/src/mark.rs", "//! - **K1** Another.\n"),
            ("crates/b/src/sub/mod.rs", "//! - **Z1** A third (b/mark/K1).\n"),
            ("docs/page.md", "### P1 First\nAs sub/Z1 says.\n**P2 Second.** As P1.\n"),
        ];
        let files = files.iter().chain(further).map(|(p, t)| (p.to_string(), t.to_string()));
        follow(&files.collect())
    };
    let good = "// a/mark/K1, a/mark/K2, mark/K2; b/sub/Z1; page/P2 (\"\n\
                const S: &str = \"// K7\"; const R: &str = r#\"\" // K8\"#; const C: [char; 2] = ['\"', '\\''];\n\
                /* page/P1 */ fn f<'a>() {} // page/P2\n";
    assert_eq!(house(&[("crates/c/src/x.rs", good)]), (12, vec![]));
    for (file, text, expected) in [
        ("crates/c/src/x.rs", "\n// As K1.\n", "crates/c/src/x.rs:2: K1 is cited: this file's header"),
        ("crates/c/src/x.rs", "// mark/K1", "x.rs:1: mark/K1 is cited: one definition was expected"),
        ("crates/c/src/x.rs", "// c/mark/K2", "x.rs:1: c/mark/K2 is cited: no module of that path"),
        ("crates/c/src/x.rs", "// ark/K2", "x.rs:1: ark/K2 is cited: no module of that path"),
        ("crates/c/src/x.rs", "const Q: char = '\"'; // mark/K3", "x.rs:1: mark/K3 is cited: no module"),
        ("crates/c/src/x.rs", "/// - **X1** Not in a header.", "x.rs:1: X1 is cited: this file's header"),
        ("crates/c/src/x.rs", "//! - **X1** A.\n//! - **X1** B.", "x.rs:2: X1 is defined, X2 was expected"),
        ("crates/c/src/x.rs", "//! - **X2** A.\n//! - **X1** B.", "x.rs:1: X2 is defined, X1 was expected"),
        ("README.md", "See P1.", "README.md:1: P1 is cited: this file's header"),
    ] {
        let (_, wrong) = house(&[(file, text)]);
        assert!(wrong.iter().any(|w| w.contains(expected)), "{text:?} gives {wrong:?}");
    }
}
