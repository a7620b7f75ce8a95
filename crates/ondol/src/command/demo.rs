//! `ondol demo`: the subscriber directory of P*TIME on this machine, from an empty folder
//! to a proven recovery.
//!
//! ```text
//! generate a text file > COPY it in > build three hash indexes > register Q1 to Q4 > run each, alone and in batches
//!     > checkpoint > a child process updates durably, is killed in mid-flight > recover > prove
//! ```
//! The proof (all of it, or the demo fails):
//! - **V1** The recovered state is exactly that after the first m of the child's updates, for one m: every
//!   row's counter is what update m and those before it make of it.
//! - **V2** m is at least the newest update that the child was told to be durable.
//! - **V3** Nothing else changed: every other column of every row is what was loaded, and each row is there
//!   once.
//! - **V4** `ondol check` finds the files that the killed process left sound, and every index.
//!
//! With `--kills` the child is killed so many times, each time a little sooner or later, half of the times
//! while it takes one checkpoint after another, and each kill is followed by the whole proof.
//!
//! `--scenario quotes` is another demo ([`quotes`]).
use super::script::bar_of_bytes;
use super::subscribers as sub;
use super::{Done, Failed, Ring, say, tell, tell_opened};
use indicatif::{ProgressBar, ProgressStyle};
use ondol::{
    Batch, Database, MemoryKind, OpenOptions, Opening, QueryId, Rows, Session, TempFolder, ValueRef,
};
use ondol_base::cancel::Cancel;
use ondol_base::clock;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

mod quotes;

#[derive(clap::Args)]
pub struct Args {
    /// What is shown: subscribers, found by their numbers and updated until the process is killed; or a
    /// market's quotes, found by price, size and time at once and by their nearness
    #[arg(long, value_name = "WHAT", default_value = "subscribers")]
    scenario: Scenario,
    /// Subscribers, or quotes
    #[arg(long, allow_negative_numbers = true, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=sub::MOST))]
    rows: u64,
    /// Where the database is made and kept; without it, a temporary folder that is removed
    #[arg(long, value_name = "D")]
    dir: Option<PathBuf>,
    /// Seconds for each measurement
    #[arg(long, allow_negative_numbers = true, default_value_t = 2.0, value_parser = seconds)]
    seconds: f64,
    /// How often the updating process is killed, after at most the seconds of a measurement, and all is
    /// proved
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    kills: u64,
    /// A picture of the CR-tree's boxes of one level, as SVG; of quotes
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Write the outcome as one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    ring: Ring,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Scenario {
    Subscribers,
    Quotes,
}

impl Args {
    /// That nothing is asked of a scenario that it has not.
    fn check(&self) -> Done {
        let wrong = |what: &str, of: &str| Err(Failed::Message(format!("{what} is of --scenario {of}")));
        match self.scenario {
            Scenario::Subscribers if self.picture.is_some() => wrong("--picture", "quotes"),
            Scenario::Quotes if self.kills != 1 => wrong("--kills", "subscribers"),
            Scenario::Quotes if self.rows > i32::MAX as u64 => {
                let message = format!("--rows {} is too many: quotes are numbered by integers", self.rows);
                Err(Failed::Message(message))
            }
            _ => Ok(()),
        }
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if s > 0.0 && s <= 86_400.0 => Ok(s),
        _ => Err("expected seconds, more than 0".into()),
    }
}

/// What the demo found, in the order in which it is shown.
#[derive(Default)]
struct Findings {
    lines: Vec<Finding>,
}

struct Finding {
    key: &'static str,
    label: String,
    value: f64,
    unit: &'static str,
}

impl Findings {
    fn add(&mut self, key: &'static str, label: impl Into<String>, value: f64, unit: &'static str) {
        self.lines.push(Finding { key, label: label.into(), value, unit });
    }

    fn table(&self) -> String {
        let width = self.lines.iter().map(|l| l.label.chars().count()).max().unwrap_or(0);
        let mut out = String::new();
        for l in &self.lines {
            let pad = width - l.label.chars().count();
            out += &format!("{}{}  {:>14} {}\n", l.label, " ".repeat(pad), number(l.value), l.unit);
        }
        out
    }

    fn json(&self, demo: &str, args: &Args) -> String {
        let mut out =
            format!("{{\n  \"demo\": \"{demo}\",\n  \"version\": \"{}\"", env!("CARGO_PKG_VERSION"));
        out += &format!(",\n  \"rows\": {},\n  \"seconds\": {}", args.rows, args.seconds);
        out += &format!(",\n  \"threads\": {}", ondol_base::thread::parallelism());
        for l in &self.lines {
            let value =
                if l.value.fract() == 0.0 { format!("{:.0}", l.value) } else { format!("{:.3}", l.value) };
            out += &format!(",\n  \"{}\": {value}", l.key);
        }
        out + "\n}\n"
    }
}

/// With thin spaces of thousands where it is large, decimals where it is small.
fn number(v: f64) -> String {
    if v.abs() < 100.0 && v.fract() != 0.0 {
        return format!("{v:.2}");
    }
    let digits = format!("{v:.0}");
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) && !out.ends_with('-') {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// Progress on standard error: bars at a terminal, a line for each step elsewhere.
struct Show;

impl Show {
    fn step(&self, what: &str) {
        if !std::io::stderr().is_terminal() {
            tell(&format!("{what}\n"));
        }
    }
    fn bar(&self, name: &str, all: u64) -> ProgressBar {
        let bar = ProgressBar::new(all).with_prefix(name.to_string());
        match ProgressStyle::with_template("{prefix:<12} {wide_bar} {human_pos}/{human_len} {per_sec}") {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        }
    }
}

fn took(since: Duration) -> f64 {
    (clock::now() - since).as_secs_f64().max(1e-9)
}

/// Ctrl-C ends the demo; its temporary folder is not to stay. Gives what Ctrl-C tells.
fn remove_when_interrupted(folder: PathBuf, ring: Vec<PathBuf>) -> Result<Arc<Cancel>, Failed> {
    let interrupted = Arc::new(Cancel::new());
    ondol_base::interrupt::tells(interrupted.clone(), None)
        .map_err(|e| Failed::io("could not await Ctrl-C", e))?;
    let told = interrupted.clone();
    std::thread::spawn(move || {
        while !told.is_told() {
            std::thread::sleep(Duration::from_millis(50))
        }
        // What still runs may make a file after the first round.
        for _ in 0..10 {
            if std::fs::remove_dir_all(&folder).is_ok() {
                break;
            }
        }
        remove_all(&ring);
        // As a shell says of a command that an interrupt ended.
        std::process::exit(130)
    });
    Ok(interrupted)
}

/// What a ring leaves where the demo made it, for a database that goes with the demo.
struct OwnRing(Vec<PathBuf>);
impl OwnRing {
    fn of(path: Option<&PathBuf>) -> OwnRing {
        let made = path.filter(|p| !p.exists());
        let lock = |p: &PathBuf| PathBuf::from(format!("{}.lock", p.display()));
        OwnRing(made.map_or(vec![], |p| vec![p.clone(), lock(p)]))
    }
}
impl Drop for OwnRing {
    fn drop(&mut self) {
        remove_all(&self.0)
    }
}
fn remove_all(files: &[PathBuf]) {
    // One that is not there need not be removed.
    files.iter().for_each(|f| drop(std::fs::remove_file(f)))
}

pub fn run(args: Args) -> Done {
    args.check()?;
    let (mut ring, mut interrupted) = (OwnRing(vec![]), Arc::new(Cancel::new()));
    let (_temporary, folder) = match &args.dir {
        Some(d) => {
            std::fs::create_dir_all(d).map_err(|e| Failed::io(d.display(), e))?;
            (None, d.clone())
        }
        None => {
            let t = TempFolder::new()?;
            let path = t.path().to_path_buf();
            ring = OwnRing::of(args.ring.log_ring.as_ref());
            interrupted = remove_when_interrupted(path.clone(), ring.0.clone())?;
            (Some(t), path)
        }
    };
    let done = match args.scenario {
        Scenario::Subscribers => demonstrate(&args, &folder, ring),
        Scenario::Quotes => quotes::demonstrate(&args, &folder),
    };
    // Without its folder it fails before the process has ended: that is no error of its own.
    while done.is_err() && interrupted.is_told() {
        std::thread::park()
    }
    done
}

fn demonstrate(args: &Args, folder: &Path, ring: OwnRing) -> Done {
    let path = folder.join("directory");
    if path.exists() {
        return Err(Failed::Message(format!("{} is there already; name another --dir", path.display())));
    }
    let mut found = Findings::default();
    let csv = folder.join("subscribers.csv");
    generate(args, &csv)?;

    let database = args.ring.apply(OpenOptions::new()).open(&path)?;
    tell_opened(&database);
    load(args, &database, &csv, &mut found)?;
    std::fs::remove_file(&csv).map_err(|e| Failed::io(csv.display(), e))?;
    measure(args, &database, &mut found)?;
    memory(args, &database, &mut found);
    Show.step("checkpoint");
    let t = clock::now();
    database.checkpoint()?;
    found.add("checkpoint_seconds", "checkpoint", took(t), "s");
    let before = read_all(args, &database, "before")?;
    database.close()?;

    crashes(args, &path, before, &mut found)?;
    drop(ring);
    if args.json {
        return say(&found.json("subscribers", args));
    }
    say(&format!(
        "\nThe subscriber directory, {} rows, {} threads:\n\n{}",
        number(args.rows as f64),
        ondol_base::thread::parallelism(),
        found.table()
    ))
}

fn generate(args: &Args, csv: &Path) -> Done {
    Show.step("generate the subscribers as text");
    let bar = Show.bar("generate", args.rows);
    let file = File::create(csv).map_err(|e| Failed::io(csv.display(), e))?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    sub::write_csv(args.rows, &mut out, |n| bar.set_position(n)).map_err(|e| Failed::io(csv.display(), e))?;
    bar.finish_and_clear();
    Ok(())
}

/// An output that shows COPY's progress.
struct Loading(ProgressBar);
impl ondol::Output for Loading {
    fn progress(&mut self, p: ondol::Progress) {
        self.0.set_position(p.bytes);
        self.0.set_message(format!("{} rows", p.rows));
    }
}

fn load(args: &Args, database: &Database, csv: &Path, found: &mut Findings) -> Done {
    let mut session = database.session();
    session.execute(sub::TABLE)?;
    Show.step("load them with COPY");
    let size = std::fs::metadata(csv).map_err(|e| Failed::io(csv.display(), e))?.len();
    let bar = bar_of_bytes("load", Some(size));
    let file = csv.display().to_string().replace('\'', "''");
    let t = clock::now();
    let mut loading = Loading(bar.clone());
    session.run(&format!("COPY customer FROM '{file}' (FORMAT csv)"), &[], &mut loading)?;
    let s = took(t);
    bar.finish_and_clear();
    found.add("load_rows_per_second", "bulk load from CSV", args.rows as f64 / s, "rows/s");
    found.add("load_seconds", "  in", s, "s");

    Show.step("build the indexes");
    let t = clock::now();
    for (name, unique, column) in sub::INDEXES {
        let bar = ProgressBar::new_spinner().with_message(format!("index {name}"));
        bar.enable_steady_tick(Duration::from_millis(100));
        let unique = if unique { "UNIQUE " } else { "" };
        session.execute(&format!("CREATE {unique}INDEX {name} ON customer USING hash ({column})"))?;
        bar.finish_and_clear();
    }
    let s = took(t);
    found.add("index_entries_per_second", "three hash indexes", 3.0 * args.rows as f64 / s, "entries/s");
    found.add("index_seconds", "  in", s, "s");
    for q in sub::QUERIES {
        session.execute(q)?;
    }
    Ok(())
}

/// A sum over every column of a row: reading all of it is part of the query.
fn checksum(row: ondol::Row<'_>) -> u64 {
    row.values().fold(0u64, |sum, v| {
        sum.rotate_left(7).wrapping_add(match v {
            ValueRef::Int4(n) => n as u64,
            ValueRef::Int8(n) => n as u64,
            ValueRef::Text(s) => {
                s.len() as u64
                    ^ s.as_bytes()
                        .chunks(8)
                        .fold(0, |h, c| h ^ c.iter().fold(0u64, |w, b| w << 8 | *b as u64))
            }
            _ => 0,
        })
    })
}

/// One of the four queries with its keys, drawn beforehand.
struct Asked {
    id: QueryId,
    keys: Vec<[ValueRef<'static>; 2]>,
    params: usize,
    /// Rows that each call must give or change, when that is known.
    expect: Option<u64>,
}

const DRAWN: usize = 1 << 18;

fn asked(args: &Args, session: &Session, query: usize) -> Result<Asked, Failed> {
    let mut random = sub::Random(0xd1ce + query as u64);
    let mut counter = 0;
    let keys = (0..DRAWN)
        .map(|_| {
            let i = random.below(args.rows);
            counter += 1;
            match query {
                1 => [ValueRef::Int4(sub::service_num(i)), ValueRef::Null],
                2 => [ValueRef::Int8(sub::registration_num(i, args.rows)), ValueRef::Null],
                3 => [ValueRef::Int8(sub::service_mgmt_num(i)), ValueRef::Null],
                _ => [ValueRef::Int8(sub::service_mgmt_num(i)), ValueRef::Int8(counter)],
            }
        })
        .collect();
    Ok(Asked {
        id: session.query_id(&format!("q{query}"))?,
        keys,
        params: if query == 4 { 2 } else { 1 },
        expect: (query != 2).then_some(1),
    })
}

fn wrong_count(rows: u64) -> Failed {
    Failed::Message(format!("a query for one existing subscriber gave {rows} rows"))
}

/// Runs the query for some seconds on one thread: calls a second.
fn rate(session: &mut Session, q: &Asked, batch: usize, seconds: f64, sum: &mut u64) -> Result<f64, Failed> {
    let mut rows = Rows::new();
    let mut results = Batch::new();
    let mut calls: Vec<&[ValueRef<'_>]> = Vec::with_capacity(batch);
    let (mut done, mut at) = (0u64, 0usize);
    let start = clock::now();
    loop {
        for _ in 0..if q.params == 2 { 1 } else { (64 / batch).max(1) } {
            if at + batch > q.keys.len() {
                at = 0;
            }
            if batch == 1 {
                let called = session.call(q.id, &q.keys[at][..q.params], &mut rows)?;
                if q.expect.is_some_and(|n| n != called.rows) {
                    return Err(wrong_count(called.rows));
                }
                rows.iter().for_each(|r| *sum = sum.wrapping_add(checksum(r)));
            } else {
                calls.clear();
                calls.extend(q.keys[at..at + batch].iter().map(|k| &k[..q.params]));
                session.call_batch(q.id, &calls, &mut results)?;
                for i in 0..batch {
                    let called = results.called(i)?;
                    if q.expect.is_some_and(|n| n != called.rows) {
                        return Err(wrong_count(called.rows));
                    }
                }
                results.iter().for_each(|r| *sum = sum.wrapping_add(checksum(r)));
            }
            at += batch;
            done += batch as u64;
        }
        let s = took(start);
        if s >= seconds {
            return Ok(done as f64 / s);
        }
    }
}

fn measure(args: &Args, database: &Database, found: &mut Findings) -> Done {
    const NAMES: [[&str; 3]; 4] = [
        ["q1_per_second", "q1_batch10_per_second", "q1_batch50_per_second"],
        ["q2_per_second", "q2_batch10_per_second", "q2_batch50_per_second"],
        ["q3_per_second", "q3_batch10_per_second", "q3_batch50_per_second"],
        ["q4_per_second", "q4_batch10_per_second", "q4_batch50_per_second"],
    ];
    const WHAT: [&str; 4] =
        ["by service number", "by registration number", "by management number", "update, durable"];
    let mut session = database.session();
    let mut sum = 0;
    for query in 1..=4 {
        let q = asked(args, &session, query)?;
        for (k, batch) in [1, 10, 50].into_iter().enumerate() {
            let how = if batch == 1 { "one at a time".to_string() } else { format!("batches of {batch}") };
            Show.step(&format!("Q{query}, {how}"));
            let bar = ProgressBar::new_spinner().with_message(format!("Q{query}, {how}"));
            bar.enable_steady_tick(Duration::from_millis(100));
            let per_second = rate(&mut session, &q, batch, args.seconds, &mut sum);
            bar.finish_and_clear();
            let label = match batch {
                1 => format!("Q{query} {} (one thread), {how}", WHAT[query - 1]),
                _ => format!("  {how}"),
            };
            found.add(NAMES[query - 1][k], label, per_second?, "calls/s");
        }
    }
    std::hint::black_box(sum);
    Ok(())
}

fn memory(args: &Args, database: &Database, found: &mut Findings) {
    let memory = database.memory();
    let table: u64 = memory.of(MemoryKind::Table).filter(|p| p.name == "customer").map(|p| p.bytes).sum();
    let (mut index, mut entries) = (0, 0);
    for part in memory.of(MemoryKind::Index) {
        index += part.bytes;
        entries += part.entries;
    }
    let total = memory.used;
    let rows = args.rows as f64;
    found.add("memory_bytes", "memory, all of it", total as f64, "bytes");
    found.add("table_bytes_per_row", "  a row", table as f64 / rows, "bytes");
    found.add(
        "table_times_raw",
        format!("  the table, against {} raw bytes a row", sub::RAW_BYTES),
        table as f64 / (rows * sub::RAW_BYTES as f64),
        "times",
    );
    found.add("index_bytes_per_entry", "  an index entry", index as f64 / (entries as f64).max(1.0), "bytes");
}

/// Reads and checks every row; gives the counters by row number (V3).
fn read_all(args: &Args, database: &Database, when: &str) -> Result<Vec<i64>, Failed> {
    Show.step(&format!("read every row ({when})"));
    let bar = Show.bar("check rows", args.rows);
    let mut counters = vec![i64::MIN; args.rows as usize];
    let mut seen = 0u64;
    let mut name = String::new();
    let wrong = |what: String| ondol::Error::new(ondol::sqlstate::DATA_CORRUPTED, what);
    database.session().for_each("SELECT * FROM customer", &[], |row| {
        let key: i64 = row.get(0)?;
        let i = sub::row_of(key);
        if i >= args.rows || sub::service_mgmt_num(i) != key {
            return Err(wrong(format!("there is no subscriber {key}")));
        }
        let (codes, ..) = sub::codes(i);
        sub::name(i, &mut name);
        let same = row.get::<i32>(1)? == sub::service_num(i)
            && row.get::<i64>(2)? == sub::registration_num(i, args.rows)
            && (0..3)
                .all(|c| matches!(row.value(3 + c), ValueRef::Text(t) if t.as_bytes() == &codes[c..c + 1]))
            && row.get::<&str>(6)? == name;
        if !same {
            return Err(wrong(format!("subscriber {key} is not as it was loaded")));
        }
        if std::mem::replace(&mut counters[i as usize], row.get(7)?) != i64::MIN {
            return Err(wrong(format!("subscriber {key} is there twice")));
        }
        seen += 1;
        if seen.is_multiple_of(8192) {
            bar.set_position(seen);
        }
        Ok(())
    })?;
    bar.finish_and_clear();
    if seen != args.rows {
        return Err(Failed::Message(format!("{seen} subscribers are there, {} were loaded", args.rows)));
    }
    Ok(counters)
}

/// The child's process, killed when this goes out of sight whatever happens.
struct Child(std::process::Child);
impl Drop for Child {
    fn drop(&mut self) {
        // It may be dead already, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// All the kills, each with its proof.
fn crashes(args: &Args, path: &Path, before: Vec<i64>, found: &mut Findings) -> Done {
    let mut state = before;
    let mut all = Proved::default();
    for n in 1..=args.kills {
        if args.kills > 1 {
            Show.step(&format!("kill {n} of {}", args.kills));
        }
        let mut last = Findings::default();
        let proved = crash(args, path, n, &mut state, &mut last)?;
        all.acknowledged += proved.acknowledged;
        all.recovered += proved.recovered;
        if n == args.kills {
            found.lines.append(&mut last.lines);
        }
    }
    found.add("kills", "processes killed under load", args.kills as f64, "");
    found.add("acknowledged_updates", "acknowledged updates", all.acknowledged as f64, "");
    found.add("recovered_updates", "recovered updates", all.recovered as f64, "");
    found.add("lost_updates", "acknowledged and lost", 0.0, "");
    Ok(())
}

/// Updates that the killed processes were told to be durable, and that were there after recovery.
#[derive(Default)]
struct Proved {
    acknowledged: u64,
    recovered: u64,
}

/// The `kill`th kill and its proof; `before` is what the rows hold, and becomes what they hold after it.
fn crash(
    args: &Args,
    path: &Path,
    kill: u64,
    before: &mut Vec<i64>,
    found: &mut Findings,
) -> Result<Proved, Failed> {
    let base = before.iter().copied().max().unwrap_or(0).max(0);
    let seed = ondol_base::random::next_u64() >> 1;
    // A single kill lets it work as long as each measurement took.
    let patience = match args.kills {
        1 => args.seconds,
        _ => args.seconds * (seed % 1000) as f64 / 1000.0,
    };
    Show.step("update in another process, and kill it in mid-flight");
    let program = std::env::current_exe().map_err(|e| Failed::io("this program's own file", e))?;
    let spawned = Command::new(program)
        .arg("demo-worker")
        .arg(path)
        .args(["--rows", &args.rows.to_string(), "--seed", &seed.to_string(), "--base", &base.to_string()])
        .args(kill.is_multiple_of(2).then_some("--checkpoints"))
        .args(args.ring.arguments())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = Child(spawned.map_err(|e| Failed::io("could not start the updating process", e))?);
    let pipe =
        child.0.stdout.take().ok_or_else(|| Failed::Message("the updating process has no output".into()))?;
    let mut acknowledged = None;
    let mut killed = false;
    let mut start = clock::now();
    let mut seconds = 0.0;
    let bar = ProgressBar::new_spinner().with_prefix("update");
    let mut line = Vec::new();
    let mut reader = BufReader::new(pipe);
    loop {
        line.clear();
        let n = reader.read_until(b'\n', &mut line).map_err(|e| Failed::io("the updating process", e))?;
        // What the kill cut off in the middle of a line was not told.
        let Some(text) = line.strip_suffix(b"\n") else {
            if n == 0 || killed {
                break;
            }
            continue;
        };
        let n: u64 = std::str::from_utf8(text).ok().and_then(|t| t.parse().ok()).ok_or_else(|| {
            Failed::Message(format!("the updating process said {:?}", String::from_utf8_lossy(text)))
        })?;
        if acknowledged.is_none() {
            // The first line says that the database is open.
            start = clock::now();
        }
        acknowledged = Some(n);
        bar.set_message(format!("{n} acknowledged"));
        if !killed && took(start) >= patience && n > 0 {
            seconds = took(start);
            child.0.kill().map_err(|e| Failed::io("could not kill the updating process", e))?;
            killed = true;
        }
    }
    bar.finish_and_clear();
    let status = child.0.wait().map_err(|e| Failed::io("the updating process", e))?;
    let Some(acknowledged) = acknowledged.filter(|_| killed) else {
        return Err(Failed::Message(format!("the updating process ended by itself: {status}")));
    };
    found.add(
        "updates_per_second",
        "updates of the killed process, 64 in flight",
        acknowledged as f64 / seconds,
        "updates/s",
    );

    Show.step("check");
    let problems =
        ondol::check::check(&ondol::check::hold(path, &[], args.ring.log_ring.as_deref())?).problems;
    if !problems.is_empty() {
        return Err(Failed::Message(format!("after the kill: {}", problems.join("; "))));
    }
    Show.step("recover");
    let t = clock::now();
    let bar = Show.bar("recover", 1);
    let database = args.ring.apply(OpenOptions::new().create(false)).open_reporting(path, &|p| {
        let (what, done, all) = describe(p);
        bar.set_prefix(what);
        bar.set_length(all);
        bar.set_position(done);
    })?;
    let recovery = took(t);
    bar.finish_and_clear();
    let opened = database.opened().clone();
    found.add("recovery_seconds", "recovery", recovery, "s");
    found.add("recovered_image_bytes", "  images read", opened.recovered.image_bytes as f64, "bytes");
    found.add("recovered_log_bytes", "  log read", opened.recovered.log_bytes as f64, "bytes");
    found.add("recovery_index_seconds", "  indexes built in", opened.index_seconds, "s");

    let after = read_all(args, &database, "after")?;
    let recovered = prove(args, seed, base, before, &after, acknowledged)?;
    *before = after;
    database.close()?;
    Ok(Proved { acknowledged, recovered })
}

fn describe(p: Opening) -> (&'static str, u64, u64) {
    use ondol::RecoveryProgress as P;
    match p {
        Opening::Recovery(P::ReadingLog { done, total }) => ("read log", done, total),
        Opening::Recovery(P::LoadingImages { done, total }) => ("load images", done, total),
        Opening::Recovery(P::Applying { done, total }) => ("apply log", done, total),
        Opening::Recovery(P::Proving { pages }) => ("prove", pages, pages),
        Opening::Indexes { done, total } => ("build indexes", done, total),
    }
}

/// V1 and V2; gives m.
fn prove(
    args: &Args,
    seed: u64,
    base: i64,
    before: &[i64],
    after: &[i64],
    acknowledged: u64,
) -> Result<u64, Failed> {
    let newest = after.iter().copied().max().unwrap_or(0).max(base);
    let m = (newest - base) as u64;
    if m < acknowledged {
        return Err(Failed::Message(format!(
            "LOST: {acknowledged} updates were acknowledged, {m} are there"
        )));
    }
    let mut expected = before.to_vec();
    for n in 1..=m {
        expected[sub::updated_row(seed, n, args.rows) as usize] = base + n as i64;
    }
    match expected.iter().zip(after).position(|(e, a)| e != a) {
        None => Ok(m),
        Some(i) => Err(Failed::Message(format!(
            "WRONG: the counter of subscriber {} is {}, but the first {m} updates make it {}",
            sub::service_mgmt_num(i as u64),
            after[i],
            expected[i]
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(rows: u64) -> Args {
        let scenario = Scenario::Subscribers;
        Args {
            scenario,
            rows,
            dir: None,
            seconds: 1.0,
            kills: 1,
            picture: None,
            json: false,
            ring: Ring::default(),
        }
    }

    /// The proof must see what is lost, half there, or changed besides.
    #[test]
    fn the_proof_catches_what_it_is_for() {
        let (a, seed, base) = (args(50), 9, 7);
        let before = vec![7; 50];
        let state = |m: u64| {
            let mut s = before.clone();
            (1..=m).for_each(|n| s[sub::updated_row(seed, n, 50) as usize] = base + n as i64);
            s
        };
        let check = |after: &[i64], acknowledged| prove(&a, seed, base, &before, after, acknowledged).ok();
        assert_eq!(check(&state(100), 90), Some(100));
        assert_eq!(check(&state(100), 100), Some(100));
        assert_eq!(check(&state(0), 0), Some(0));
        // An acknowledged update is gone.
        assert_eq!(check(&state(99), 100), None);
        // An update in the middle is gone.
        let mut hole = state(100);
        let row = sub::updated_row(seed, 97, 50) as usize;
        hole[row] = state(96)[row];
        assert!(hole != state(100));
        assert_eq!(check(&hole, 90), None);
        // Something else changed.
        let mut other = state(100);
        let untouched = (0..50).find(|i| other[*i] != base + 100).unwrap();
        other[untouched] += 1;
        assert_eq!(check(&other, 90), None);
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(number(1234567.0), "1,234,567");
        assert_eq!(number(123.0), "123");
        assert_eq!(number(0.25), "0.25");
        assert_eq!(number(-1234.0), "-1,234");
    }
}
