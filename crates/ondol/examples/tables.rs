//! Many tables: what one costs to make, by how many there are, in time and memory; then the opening of a
//! database that has them, a look at all of them in pg_class, and DROP SCHEMA CASCADE:
//! `cargo run --release -p ondol --example tables -- [tables] [one|each|sync]`, in one transaction, in one
//! each that is not waited for, or in one each that is.
use ondol::{Database, TempFolder};
use std::time::Instant;

/// The process's resident memory, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap_or_default().to_string();
    line.trim().trim_end_matches(" kB").parse().unwrap_or_default()
}

fn main() -> ondol::Result<()> {
    let mut args = std::env::args().skip(1);
    let tables: u64 = args.next().and_then(|a| a.parse().ok()).unwrap_or(100_000);
    let mode = args.next().unwrap_or_else(|| "each".into());
    let folder = TempFolder::new()?;
    let db = Database::open(folder.path())?;
    let mut s = db.session();
    if mode != "sync" {
        s.execute("SET synchronous_commit = off")?;
    }
    s.execute("CREATE SCHEMA many")?;
    let (began, empty) = (Instant::now(), resident());
    let mut last = began;
    if mode == "one" {
        s.execute("BEGIN")?;
    }
    for i in 0..tables {
        s.execute(&format!("CREATE TABLE many.t_{i} (id int PRIMARY KEY, a text)"))?;
        if (i + 1) % (tables / 10).max(1) == 0 {
            let each = last.elapsed().as_secs_f64() * 1e6 / (tables / 10).max(1) as f64;
            println!("{:8} tables: {each:6.0} us each, {} KiB", i + 1, resident() - empty);
            last = Instant::now()
        }
    }
    if mode == "one" {
        s.execute("COMMIT")?;
    }
    let (seconds, kept) = (began.elapsed().as_secs_f64(), resident() - empty);
    println!("{tables} tables made in {seconds:.1} s; {:.1} KiB each", kept as f64 / tables as f64);
    let mut timed = |what: &str, sql: &str| -> ondol::Result<()> {
        let began = Instant::now();
        s.execute(sql)?;
        println!("{what}: {:.3} s", began.elapsed().as_secs_f64());
        Ok(())
    };
    timed("one more", "CREATE TABLE one_more (id int PRIMARY KEY, a text)")?;
    timed("a column more", "ALTER TABLE many.t_7 ADD COLUMN b int")?;
    timed("one dropped", "DROP TABLE many.t_8")?;
    timed("a checkpoint", "CHECKPOINT")?;
    timed("pg_class", "SELECT count(*), sum(relnatts) FROM pg_class")?;
    timed("pg_attribute", "SELECT count(*) FROM pg_attribute")?;
    timed("one of pg_class", "SELECT oid FROM pg_class WHERE relname = 't_9'")?;
    drop(s);
    db.close()?;
    let began = Instant::now();
    let db = Database::open(folder.path())?;
    println!("opened: {:.3} s", began.elapsed().as_secs_f64());
    let mut s = db.session();
    let began = Instant::now();
    s.execute("DROP SCHEMA many CASCADE")?;
    println!("dropped: {:.3} s", began.elapsed().as_secs_f64());
    drop(s);
    db.close()
}
