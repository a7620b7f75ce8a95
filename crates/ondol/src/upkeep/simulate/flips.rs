//! Bytes that decay: one byte of one file of a closed database is changed, and the database is checked and
//! opened.
//!
//! - **F1** What opens has the content that the database was closed with. Anything else is a wrong answer in
//!   silence.
//! - **F2** Where opening refuses, the offline check finds a problem as well, and where it warns, the check
//!   warns.
//! - **F3** A refusal or a warning names a file.
//!
//! So a flipped byte is found, or it lies in space that nobody reads. The database has been through several
//! lives: rows with short, long and very long text, indexes of both kinds, a dropped table, a full checkpoint
//! and an increment, and log behind them.
use super::{ONE, mix, open};
use crate::session::Session;
use crate::upkeep::check::{self, Held};
use ondol_base::media::Storage;
use ondol_base::sim::{Config as WorldConfig, World};
use ondol_durability::files::Config;
use ondol_engine::simulate::report::Stats;
use ondol_types::SqlResult;
use std::sync::Arc;

/// Flips `count` bytes, one after the other, each in a fresh copy of the same database. `each` is told of
/// every flip.
pub fn run(seed: u64, count: u64, each: &dyn Fn()) -> Result<Stats, String> {
    let _one = ONE.lock();
    let mut stats = Stats::default();
    let mut world = World::new(mix(seed, 1), WorldConfig::default());
    let told = |e: ondol_types::SqlError| format!("{} {e}", e.sqlstate());
    for life in 0..3 {
        let disk = world.disk("data");
        world.try_run(|| fill(disk, life)).map_err(|e| e.to_string())?.map_err(told)?;
        world = world.reboot(mix(seed, 2 + life));
    }
    let whole = read(&world, mix(seed, 9)).map_err(|e| e.to_string())?.map_err(told)?;
    let files: Vec<(String, Vec<u8>)> = {
        let disk = world.disk("data");
        let content = |f: String| disk.contents(&f).map(|c| (f, c));
        disk.files().into_iter().filter_map(content).filter(|(_, c)| !c.is_empty()).collect()
    };
    for n in 0..count {
        let r = mix(seed, 100 + n);
        let (file, bytes) = &files[(r % files.len() as u64) as usize];
        let mut offset = (mix(r, 2) % bytes.len() as u64) as usize;
        if !mix(r, 1).is_multiple_of(5) {
            // As a rule a byte that says something: blocks are mostly padding.
            let from = bytes[offset..].iter().position(|b| *b != 0).map(|n| offset + n);
            offset = from.or(bytes.iter().position(|b| *b != 0)).unwrap_or(offset);
        }
        let flip = 1 + (mix(r, 3) % 255) as u8;
        let fork = world.fork(mix(r, 4), WorldConfig::default());
        fork.disk("data").damage(file, offset as u64, &[bytes[offset] ^ flip]);
        let fate = one(&fork, &whole, mix(r, 5))
            .map_err(|e| format!("flip {n} (of seed {seed}): byte {offset} of {file} ^ {flip:#04x}: {e}"))?;
        let kind = file.trim_start_matches("log/").trim_matches(|c: char| !c.is_alphabetic());
        stats.count(&format!("{kind}: {fate}"), 1);
        stats.count(fate, 1);
        stats.count("bytes flipped", 1);
        each();
    }
    Ok(stats)
}

/// What became of a damaged database (F1 to F3).
fn one(world: &Arc<World>, whole: &[String], seed: u64) -> Result<&'static str, String> {
    let disk: Arc<dyn Storage> = world.disk("data");
    let look = || -> Result<(Vec<String>, Vec<String>), String> {
        let lock = disk.lock("lock").map_err(|e| e.to_string())?;
        let found = check::check(&Held {
            config: Config::new(disk.clone()),
            unlocked: None,
            ring: None,
            _lock: Some(lock),
        });
        Ok((found.problems, found.files.warnings))
    };
    let (problems, warnings) = world.try_run(look).map_err(|e| e.to_string())??;
    if let Some(silent) = problems.iter().chain(&warnings).find(|p| !names_a_file(p)) {
        return Err(format!("F3: no file is named: {silent}"));
    }
    match read(world, seed).map_err(|e| e.to_string())? {
        Ok(content) if content != whole => {
            let (mut gone, mut new) = (whole.to_vec(), content.clone());
            gone.retain(|l| !content.contains(l));
            new.retain(|l| !whole.contains(l));
            Err(format!("F1: opened, and wrong: gone {gone:?}, new {new:?}"))
        }
        Ok(_) if !problems.is_empty() => Ok("found by the check, content whole"),
        Ok(_) if !warnings.is_empty() => Ok("found, with a warning"),
        Ok(_) => Ok("in unused space"),
        Err(e) if problems.is_empty() => Err(format!("F2: refused, and the check finds nothing: {e}")),
        Err(e) if !names_a_file(&e.to_string()) => Err(format!("F3: no file is named: {e}")),
        Err(_) => Ok("found"),
    }
}

fn names_a_file(text: &str) -> bool {
    ["manifest-", "checkpoint-", ".log", "log:"].iter().any(|name| text.contains(name))
}

/// The content as lines of text, sorted by table and row; in a copy, so that the world stays as it is.
fn read(world: &Arc<World>, seed: u64) -> Result<SqlResult<Vec<String>>, ondol_base::sim::Failure> {
    let copy = world.fork(seed, WorldConfig::default());
    let disk = copy.disk("data");
    copy.try_run(|| {
        let db = open(disk)?;
        let mut s = db.session();
        let mut lines = vec![];
        for table in db.engine.catalog().tables() {
            let mut rows = rows(&mut s, &table.def.name)?;
            rows.sort();
            lines.append(&mut rows);
            lines.extend(table.indexes.iter().map(|i| format!("{} on {}", i.def.name, table.def.name)));
        }
        drop(s);
        db.close()?;
        Ok(lines)
    })
}

fn rows(s: &mut Session, table: &str) -> SqlResult<Vec<String>> {
    let rows = s.query(&format!("SELECT * FROM {table}"), &[])?;
    let line = |r: crate::Row<'_>| {
        let mut line = table.to_string();
        for i in 0..r.len() {
            line.push('|');
            if !r.text(i, &mut line) {
                line += "NULL"
            }
        }
        line
    };
    Ok(rows.iter().map(line).collect())
}

/// One life of the database.
fn fill(disk: Arc<dyn Storage>, life: u64) -> SqlResult<()> {
    let db = open(disk)?;
    let mut s = db.session();
    let (from, to) = (life * 40, life * 40 + 40);
    if life == 0 {
        s.execute(
            "CREATE TABLE person (id integer PRIMARY KEY, name text, code char(4), born date, note text);
             CREATE UNIQUE INDEX person_name ON person USING hash (name);
             CREATE INDEX person_code ON person (code, born DESC);
             CREATE TABLE amount (id bigint, what numeric, at timestamptz, UNIQUE (id));
             CREATE TABLE gone (a integer PRIMARY KEY, b text)",
        )?;
    }
    for i in from..to {
        let (name, note) =
            (format!("person {i}"), "a note ".repeat((i * i % 97) as usize * (i % 3) as usize));
        let note = if i == 7 { "long ".repeat(3000) } else { note };
        let code = ["a", "bc", "def", "ghij"][(i % 4) as usize];
        s.query(
            "INSERT INTO person VALUES ($1, $2, $3, date '1970-01-01' + $1, $4)",
            &crate::params![i as i32, name.as_str(), code, note.as_str()],
        )?;
        s.query(
            "INSERT INTO amount VALUES ($1, $1 * 1.25, timestamptz '2024-02-29 12:00:00+00')",
            &crate::params![i as i64],
        )?;
    }
    match life {
        0 => {
            s.execute("INSERT INTO gone VALUES (1, 'x')")?;
            db.checkpoint()?;
            s.execute("UPDATE amount SET what = what + 1; DELETE FROM person WHERE id % 5 = 1")?;
        }
        1 => {
            s.execute("DROP TABLE gone")?;
            db.checkpoint()?;
            s.execute("UPDATE person SET note = note || '!' WHERE id % 3 = 0")?;
        }
        _ => s.execute("CREATE TABLE late (a integer); INSERT INTO late VALUES (1), (2)").map(drop)?,
    }
    drop(s);
    db.close()
}
