//! The README's tour, its programs and its psql do what it says they do, word for word.
use std::path::Path;
use std::process::Command;

const README: &str = include_str!("../../../README.md");

/// The blocks of a language, in order.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    README.split(&fence).skip(1).filter_map(|b| b.split_once("\n```").map(|(text, _)| text)).collect()
}

/// Runs a line as a shell does, `target/release/ondol` being the one under test; what it wrote, and whether
/// it succeeded.
fn sh(folder: &Path, line: &str, input: &str) -> (String, bool) {
    let line = line.replace("target/release/ondol", env!("CARGO_BIN_EXE_ondol"));
    std::fs::write(folder.join("input"), input).unwrap();
    let done = Command::new("sh")
        .args(["-c", &format!("{{ {line}\n}} <input 2>&1")])
        .current_dir(folder)
        .output()
        .unwrap();
    (String::from_utf8(done.stdout).unwrap(), done.status.success())
}

#[test]
fn the_readme_does_what_it_says() {
    let folder = ondol::TempFolder::new().unwrap();
    // The tour, as a script that goes on after its error.
    let [console] = blocks("console")[..] else { panic!("one tour") };
    let mut lines = console.lines();
    let start = lines.next().unwrap().strip_prefix("$ ").unwrap();
    assert_eq!(lines.next().unwrap(), format!("ondol {}. \\? helps, \\q leaves.", env!("CARGO_PKG_VERSION")));
    let (typed, shown): (Vec<&str>, Vec<&str>) = lines.partition(|l| l.starts_with("ondol=> "));
    let input: String = typed.iter().map(|l| format!("{}\n", &l[8..])).collect();
    let (output, _) = sh(folder.path(), &format!("{start} --keep-going"), &input);
    assert_eq!(output, shown.iter().map(|l| format!("{l}\n")).collect::<String>());

    // The programs.
    let here: Vec<Vec<&str>> = (include_str!("readme.rs").split("    // README\n").skip(1))
        .map(|p| p.split_once("    // end\n").unwrap().0)
        .map(|p| p.lines().map(|l| l.strip_prefix("    ").unwrap_or(l)).collect())
        .collect();
    let programs: Vec<Vec<&str>> = blocks("rust").iter().map(|p| p.lines().collect()).collect();
    assert_eq!(programs, here);
    std::env::set_current_dir(folder.path()).unwrap();
    ten_lines().unwrap();
    in_your_program().unwrap();

    psql(folder.path());

    // The scripts.
    let tour = blocks("sh").into_iter().find(|b| b.contains("--format csv")).unwrap();
    for line in tour.lines() {
        // What takes its time is run elsewhere.
        let less =
            [("--count 100", "--count 1"), ("--flips 10000", "--flips 10"), ("--kills 200", "--kills 2")];
        let line = less.iter().fold(line.to_string(), |l, (much, little)| l.replace(much, little));
        let (output, done) =
            sh(folder.path(), &line.replace("--rows 20000 --seconds 0.3", "--rows 500 --seconds 0.02"), "");
        assert!(done, "{line}\n{output}");
        if line.contains("--format csv") {
            assert_eq!(output, "id,owner,balance\n1,Ann,70.00\n2,Bob,0.00\n");
        }
    }
    let (output, done) = sh(folder.path(), "target/release/ondol restore other bank.sql", "");
    assert!(done, "{output}");
}

/// The lines of psql, on what those of Rust have left; where psql is not installed, nothing.
fn psql(folder: &Path) {
    let [page] = blocks("psql")[..] else { panic!("psql once") };
    let mut lines = page.lines();
    let serve = lines.next().unwrap().strip_prefix("$ ").unwrap();
    let start = lines.next().unwrap().strip_prefix("$ psql ").unwrap();
    let is_there = Command::new("psql").arg("--version").output().is_ok_and(|o| o.status.success());
    if !is_there {
        assert!(std::env::var_os("CI").is_none(), "psql is missing: scripts/setup tests installs it");
        return;
    }
    // Its socket only: another server may have the port.
    let serve = serve.replace(" &", " --socket hello >served 2>&1 & echo $! >number");
    assert!(sh(folder, &serve, "").1);
    for _ in 0..500 {
        if folder.join("hello/.s.PGSQL.5432").exists() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let (typed, shown): (Vec<&str>, Vec<&str>) = lines.partition(|l| l.starts_with("postgres=# "));
    let input: String = typed.iter().map(|l| format!("{}\n", &l[11..])).collect();
    let (output, done) = sh(folder, &format!("psql -X {start}"), &input);
    let end = "kill $(cat number); for i in $(seq 400); do grep -q ended. served && break; sleep 0.05; done";
    assert!(sh(folder, end, "").1);
    let said = std::fs::read_to_string(folder.join("served")).unwrap();
    assert!(said.contains("The server has ended."), "{said}");
    assert!(done, "{output}");
    assert_eq!(output.trim_end(), shown.join("\n"));
}

fn ten_lines() -> ondol::Result<()> {
    // README
    use ondol::{Database, params};

    let db = Database::open("hello")?; // a folder, made if it is not there
    let mut session = db.session();
    session.execute("CREATE TABLE greeting (id bigint PRIMARY KEY, word text NOT NULL)")?;
    session.query("INSERT INTO greeting VALUES ($1, $2)", &params![1i64, "annyeong"])?; // on disk by now
    let found = session.query("SELECT word FROM greeting WHERE id = $1", &params![1i64])?;
    for row in &found {
        println!("{}", row.get::<&str>(0)?);
    }
    // end
    Ok(())
}

fn in_your_program() -> ondol::Result<()> {
    // README
    use ondol::{Batch, Database, Rows, ValueRef, params};

    let db = Database::open("bank")?;
    let mut session = db.session();

    // Rows, their number, the command tag and the commit's token come together.
    let found = session.query("SELECT owner, balance FROM account WHERE id = $1", &params![1i64])?;
    for row in &found {
        println!("{} has {}; {}", row.get::<&str>(0)?, row.get::<String>(1)?, found.tag);
    }

    // A registered query by its ID: no parsing, no planning, no allocation.
    let find = session.query_id("find")?;
    let mut rows = Rows::new();
    session.call(find, &[ValueRef::Int8(1)], &mut rows)?;

    // Many at once.
    let mut batch = Batch::new();
    session.call_batch(find, &[&[ValueRef::Int8(1)], &[ValueRef::Int8(2)]], &mut batch)?;

    // Not waiting for the disk: a token stands for the durability to come.
    let mut transaction = session.transaction()?; // dropped, it rolls back
    transaction.query("UPDATE account SET balance = 0 WHERE id = $1", &params![2i64])?;
    if let Some(token) = transaction.commit_async()? {
        db.wait(token)?;
    }
    // end
    Ok(())
}
