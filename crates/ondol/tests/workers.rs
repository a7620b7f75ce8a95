//! The workers that all statements of a process share.
use ondol::{Database, Session, TempFolder};
use std::io::Write;
use std::time::Duration;

fn one(s: &mut Session, sql: &str) -> String {
    s.query(sql, &[]).unwrap().row(0).get::<&str>(0).unwrap().to_string()
}

/// Takes nothing until it is told to.
struct Gate(std::sync::mpsc::Receiver<()>);
impl Write for Gate {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // Open once nobody can tell any more.
        let _ = self.0.recv();
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_statement_whose_rows_nobody_takes_holds_no_worker() {
    const MANY: usize = 8;
    let folder = TempFolder::new().unwrap();
    let db = Database::open(folder.path()).unwrap();
    let on = || {
        let mut s = db.session();
        s.execute("SET max_parallel_workers_per_gather = 3; SET min_parallel_table_scan_size = 0").unwrap();
        s
    };
    let mut s = on();
    s.execute("CREATE TABLE t (id integer, name text)").unwrap();
    s.execute("INSERT INTO t SELECT i, repeat('x', i % 300) FROM generate_series(1, 20000) AS g (i)")
        .unwrap();
    let sum = "SELECT concat(count(*), ' ', sum(id)) FROM t";
    let threads = || std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    let before = threads();
    let (gates, copies): (Vec<_>, Vec<_>) = (0..MANY)
        .map(|_| {
            let (open, gate) = std::sync::mpsc::channel();
            let mut s = on();
            let copy =
                std::thread::spawn(move || s.copy_out("COPY t TO STDOUT", &mut Gate(gate), |_| {}).unwrap());
            (open, copy)
        })
        .unzip();
    // Three jobs each, that are all on workers, and wait.
    let jobs =
        |s: &mut Session| one(s, "SELECT sum(jobs)::text FROM ondol_workers").parse::<usize>().unwrap();
    while jobs(&mut s) < 3 * MANY {
        std::thread::sleep(Duration::from_millis(1))
    }
    assert!(threads() <= before + MANY + ondol::workers(), "{} threads, {before} before", threads());
    let ended = |s: &mut Session| one(s, "SELECT sum(jobs_ended)::text FROM ondol_workers");
    let before = ended(&mut s);
    assert_eq!(one(&mut s, sum), "20000 200010000");
    assert_ne!(ended(&mut s), before, "it was not done by workers");
    let of =
        one(&mut s, "SELECT concat(count(*), ' ', min(worker), ' ', max(worker) + 1) FROM ondol_workers");
    assert_eq!(of, format!("{0} 0 {0}", ondol::workers()));
    drop(gates);
    let copied: Vec<_> = copies.into_iter().map(|c| c.join().unwrap()).collect();
    assert!(copied.windows(2).all(|w| w[0] == w[1]) && copied[0] == 20000, "{copied:?}");
}
