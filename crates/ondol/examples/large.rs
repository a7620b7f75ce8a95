//! A value of the largest size: stored, changed, read, recovered, checkpointed, read again; the time that
//! each takes, and the most memory that the process has had by then, as a multiple of the value:
//! `cargo run --release -p ondol --example large -- [bytes]`.
use ondol::{Database, TempFolder};
use std::time::Instant;

/// The most resident memory so far, in bytes.
fn most() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap_or_default().to_string();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or_default() * 1024.0
}

fn main() -> ondol::Result<()> {
    let bytes: usize = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(1_073_741_819);
    let folder = TempFolder::new()?;
    let mut began = Instant::now();
    let mut told = |what: &str| {
        println!(
            "{what:10} {:7.2} s, {:5.2} times the value",
            began.elapsed().as_secs_f64(),
            most() / bytes as f64
        );
        began = Instant::now()
    };
    let shape = "SELECT concat_ws(' ', length(a), right(a, 10)) FROM t";
    let check = |db: &Database, last: &str| -> ondol::Result<()> {
        let rows = db.session().query(shape, &[])?;
        assert_eq!(rows.row(0).get::<String>(0)?, format!("{bytes} {last}"));
        Ok(())
    };
    let db = Database::open(folder.path())?;
    let mut s = db.session();
    s.execute("CREATE TABLE t (id int PRIMARY KEY, a text)")?;
    s.execute(&format!("INSERT INTO t VALUES (1, repeat('x', {bytes}))"))?;
    told("stored");
    check(&db, "xxxxxxxxxx")?;
    told("read");
    s.execute("UPDATE t SET a = left(a, -1) || 'y'")?;
    told("changed");
    drop(s);
    db.close()?;
    told("closed");
    let db = Database::open(folder.path())?;
    told("recovered");
    check(&db, "xxxxxxxxxy")?;
    told("read");
    db.checkpoint()?;
    told("checkpoint");
    db.close()?;
    let db = Database::open(folder.path())?;
    told("opened");
    check(&db, "xxxxxxxxxy")?;
    told("read");
    db.session().execute("DELETE FROM t")?;
    told("deleted");
    db.close()
}
