//! Children of one parent, inserted by several threads at a time, each in a transaction; beside that,
//! the same without the foreign key, and with a parent for each thread:
//! `cargo run --release -p ondol --example children -- [seconds]`.
use ondol::{Database, TempFolder};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn main() -> ondol::Result<()> {
    let seconds: f64 = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(2.0);
    let folder = TempFolder::new()?;
    let db = Database::open(folder.path())?;
    db.session().execute(
        "CREATE TABLE parent (id integer PRIMARY KEY); INSERT INTO parent SELECT generate_series(0, 63); \
         CREATE TABLE child (parent integer REFERENCES parent, n bigint); \
         CREATE TABLE orphan (parent integer, n bigint)",
    )?;
    println!("threads  no foreign key  parents apart  one parent   (transactions a second)");
    for threads in [1, 2, 4, 8, 16] {
        let mut line = format!("{threads:7}");
        for (table, apart) in [("orphan", false), ("child", true), ("child", false)] {
            let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
            let began = Instant::now();
            std::thread::scope(|scope| {
                for n in 0..threads {
                    let (db, stop, done) = (&db, &stop, &done);
                    scope.spawn(move || {
                        let mut s = db.session();
                        let insert = format!("INSERT INTO {table} VALUES ($1, $2)");
                        s.execute("SET synchronous_commit = off").expect("a setting");
                        let parent = if apart { n } else { 0 };
                        let mut i = 0i64;
                        while !stop.load(Ordering::Relaxed) {
                            s.query(&insert, &ondol::params![parent, i]).expect("a child");
                            i += 1;
                        }
                        done.fetch_add(i as u64, Ordering::Relaxed);
                    });
                }
                std::thread::sleep(Duration::from_secs_f64(seconds));
                stop.store(true, Ordering::Relaxed)
            });
            let rate = done.into_inner() as f64 / began.elapsed().as_secs_f64();
            line += &format!("  {rate:14.0}");
        }
        println!("{line}")
    }
    Ok(())
}
