//! That threads parse side by side: what they get, and that nobody's standard error is touched meanwhile
//! (sql/parse, invariant 2).
use ondol_sql::parse;
use std::io::Write;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const THREADS: usize = 4;

/// Good, bad, odd and huge ones; some that PostgreSQL warns of.
fn texts() -> Vec<String> {
    let mut texts: Vec<String> = [
        "select 1",
        "select a, b from t where id = $1 order by a desc limit 3",
        "insert into t values (1, 'é', 2.5) returning *; update t set a = a + 1; delete from t",
        "create global temporary table t (a integer primary key, b text default 'x')",
        "create local temp table t as select 1",
        r"select E'a\'b\n', 'a\b', U&'\00e9', 'a' 'b'",
        "select 'a'\n'b', $x$ 'é' $x$, \"Q\"\"q\"",
        "",
        "  ; -- nothing\n ;",
        "select /* é /* ; */ */ 1",
        "select a a a from t",
        "select ',,', 1,,2 , 3",
        "select 1; select ) ; select )",
        "select 'abc",
        "select 1 +",
        "select U&'\\00g9'",
        "select 1a",
        "select \u{1} from t",
        "create table t (a integer",
        "merge into t using s on t.a = s.a when matched then delete",
    ]
    .map(String::from)
    .into();
    let rows = "(1, -2, 'a' || 'b', 2 * 3),".repeat(500);
    texts.push(format!("insert into t values {rows}(1, 2, 3, 4)"));
    texts.push(format!("insert into t values {rows}(1, 2, 3, 4"));
    texts.push(format!("select {}1{}", "abs(".repeat(140), ")".repeat(140)));
    texts.push(format!("select {}1{}", "(".repeat(5000), ")".repeat(5000)));
    texts.push(format!("select {}1 from t", "case when a = 1 then 2 end, ".repeat(300)));
    texts.push(format!("select '{}'", "é".repeat(300_000)));
    texts.push(format!("select 1 {}", "/*".repeat(20_000)));
    texts
}

/// What a text means, as text; its error with the place.
fn meaning(text: &str) -> String {
    match parse::parse(text) {
        Ok(statements) => format!("{statements:?}"),
        Err(e) => format!("{e:?}"),
    }
}

/// Threads parse all texts, each beginning with another one.
fn side_by_side(texts: &[String], turns: usize, look: impl Fn(usize, &str) + Sync) {
    std::thread::scope(|s| {
        for mine in 0..THREADS {
            let look = &look;
            s.spawn(move || {
                for turn in 0..turns * texts.len() {
                    let i = (turn * (2 * mine + 1) + mine) % texts.len();
                    look(i, &texts[i])
                }
            });
        }
    })
}

#[test]
fn threads_get_what_one_gets() {
    let texts = texts();
    let alone: Vec<String> = texts.iter().map(|t| meaning(t)).collect();
    assert!(alone.iter().any(|m| m.contains("SelectStmt")) && alone.iter().any(|m| m.contains("42601")));
    side_by_side(&texts, 6, |i, text| assert_eq!(meaning(text), alone[i], "{}", &text[..text.len().min(60)]));
    // New threads, whose first calls meet.
    for _ in 0..20 {
        side_by_side(&texts[..3], 1, |i, text| assert_eq!(meaning(text), alone[i]))
    }
}

#[test]
fn expressions_are_written_by_threads() {
    let raws = parse::parse("select (1 + 2) * f('a''b', x.y)::numeric(10, 2)").expect("a statement");
    let parse::tree::node::Node::SelectStmt(s) = &raws[0].node else { panic!("no SELECT") };
    let Some(parse::tree::node::Node::ResTarget(t)) = &s.target_list[0].node else { panic!("no target") };
    let value = t.val.as_deref().expect("a value");
    side_by_side(&texts()[..3], 100, |_, _| {
        assert_eq!(parse::expression_text(value).expect("a text"), "(1 + 2) * f('a''b', x.y)::numeric(10, 2)")
    })
}

/// Set in the environment of the process whose standard error is looked at.
const CHILD: &str = "ONDOL_TEST_PARSES";

/// In a process of its own, since descriptor 2 is the whole process's.
#[test]
fn standard_error_is_left_alone() {
    const LINES: usize = 5_000;
    const SELF: &str = "standard_error_is_left_alone";
    if std::env::var_os(CHILD).is_some() {
        return parse_and_write(LINES);
    }
    let test = std::env::current_exe().expect("this test");
    let child = Command::new(test).args(["--exact", SELF, "--nocapture"]).env(CHILD, "1").output();
    let child = child.expect("a process of its own");
    assert!(child.status.success(), "{child:?}");
    let text = String::from_utf8(child.stderr).expect("UTF-8");
    let lines: Vec<&str> = text.lines().collect();
    let wanted: Vec<String> = (0..LINES).map(|n| format!("line {n}")).collect();
    assert!(lines == wanted, "{} lines of {LINES}, and among them {:?}", lines.len(), {
        lines.iter().find(|l| !l.starts_with("line ")).map(|l| &l[..l.len().min(200)])
    });
}

/// One thread writes to standard error, and looks where it goes, while others parse.
fn parse_and_write(lines: usize) {
    let (texts, over, parsed) = (texts(), AtomicBool::new(false), AtomicUsize::new(0));
    let place = || std::fs::read_link("/proc/self/fd/2").expect("descriptor 2");
    let before = place();
    let descriptors = || std::fs::read_dir("/proc/self/fd").expect("descriptors").count();
    let open = descriptors();
    std::thread::scope(|s| {
        for mine in 0..THREADS {
            let (texts, over, parsed) = (&texts, &over, &parsed);
            s.spawn(move || {
                for i in (0..texts.len()).cycle().skip(mine * 5).take_while(|_| !over.load(Ordering::Relaxed))
                {
                    meaning(&texts[i]);
                    parsed.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // Told to end also when an assertion fails.
        struct Over<'a>(&'a AtomicBool);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed)
            }
        }
        let _over = Over(&over);
        for n in 0..lines {
            // Past the harness, which keeps what is printed.
            writeln!(std::io::stderr(), "line {n}").expect("a line");
            assert_eq!(place(), before);
            // The C library opens one for a moment, for a thread's first memory.
            assert!((0..100).any(|_| descriptors() == open), "{} descriptors of {open}", descriptors());
        }
        while parsed.load(Ordering::Relaxed) < 2 * texts.len() {
            std::thread::yield_now()
        }
    });
}
