//! Statements of several sessions that meet, a step at a time: INSERT ... ON CONFLICT in
//! `tests/conflicts/histories.txt`, foreign keys and row locks in `tests/conflicts/foreign.txt`. Their
//! outcomes were compared with PostgreSQL 15's.
use ondol::{Database, Session, TempFolder, Waiter};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// As it stands in a history: rows joined by `;`, columns by `|`, or the command's tag, or `!` and the
/// SQLSTATE.
fn outcome(session: &mut Session, sql: &str) -> String {
    let outcomes = match session.execute(sql) {
        Err(e) => return format!("!{}", e.sqlstate()),
        Ok(outcomes) => outcomes,
    };
    let Some(o) = outcomes.last() else { return String::new() };
    let Some(rows) = &o.rows else { return o.tag.clone() };
    let lines = rows.iter().map(|r| {
        let cell = |i: usize| {
            let mut s = String::new();
            r.text(i, &mut s);
            s
        };
        (0..r.len()).map(cell).collect::<Vec<_>>().join("|")
    });
    lines.collect::<Vec<_>>().join(";")
}

struct Other {
    send: Sender<String>,
    receive: Receiver<String>,
    waiter: Waiter,
}

impl Other {
    fn new(db: &Database) -> Other {
        let (send, jobs) = channel::<String>();
        let (answers, receive) = channel();
        let mut session = db.session();
        let waiter = session.waiter();
        std::thread::spawn(move || {
            for sql in jobs {
                if answers.send(outcome(&mut session, &sql)).is_err() {
                    return;
                }
            }
        });
        Other { send, receive, waiter }
    }
    /// The outcome, or that it waits.
    fn look(&self) -> String {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            if let Ok(answer) = self.receive.recv_timeout(Duration::from_millis(2)) {
                return answer;
            }
            if self.waiter.is_waiting() {
                // It may be on its way out.
                std::thread::sleep(Duration::from_millis(10));
                if self.waiter.is_waiting() {
                    return self.receive.try_recv().unwrap_or_else(|_| "waits".into());
                }
            }
            if Instant::now() > end {
                return "nothing".into();
            }
        }
    }
}

#[test]
fn histories_end_as_they_should() {
    let setup = "create table t (id int primary key, v int, w int unique); insert into t values (1, 10, 100), (2, 20, 200)";
    histories(include_str!("conflicts/histories.txt"), setup, 20)
}

#[test]
fn histories_with_foreign_keys_end_as_they_should() {
    let setup = "create table p (a int primary key, v int); insert into p values (1, 0), (2, 0); \
         create table na (id int, p int references p); \
         create table ca (id int, p int references p on delete cascade on update cascade); \
         create table sn (id int, p int references p on delete set null); \
         create table de (id int, p int references p deferrable initially deferred)";
    histories(include_str!("conflicts/foreign.txt"), setup, 20)
}

fn histories(text: &str, setup: &str, least: usize) {
    let (mut title, mut lines, mut count) = ("", vec![], 0);
    let mut wrong = vec![];
    let ends = [("history: the end", 0)];
    let all = text.lines().zip(1..).filter(|(l, _)| !l.is_empty() && !l.starts_with('#')).chain(ends);
    for (line, number) in all {
        let (head, rest) = line.split_once(':').expect("a colon");
        if head == "history" || head == "here" {
            if !lines.is_empty() {
                wrong.extend(play(setup, &lines).into_iter().map(|w| format!("{title}: {w}")));
                count += 1
            }
            lines.clear();
            title = rest.trim();
            continue;
        }
        let (sql, wanted) = rest.split_once("->").expect("an outcome");
        lines.push((number, head.parse::<u32>().expect("a session"), sql.trim(), wanted.trim()));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(count >= least, "only {count} histories");
}

fn play(setup: &str, lines: &[(usize, u32, &str, &str)]) -> Vec<String> {
    let folder = TempFolder::new().expect("a folder");
    let db = Database::open(folder.path()).expect("a database in it");
    db.session().execute(setup).expect("it is set up");
    let mut sessions: BTreeMap<u32, Other> = BTreeMap::new();
    let mut wrong = vec![];
    for (number, n, sql, wanted) in lines {
        let other = sessions.entry(*n).or_insert_with(|| Other::new(&db));
        if !sql.is_empty() {
            other.send.send(sql.to_string()).expect("a thread");
        }
        let found = other.look();
        if found != *wanted {
            wrong.push(format!("line {number}, session {n}: {found:?}, expected {wanted:?}"));
            break;
        }
    }
    wrong
}
