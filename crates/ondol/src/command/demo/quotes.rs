//! `ondol demo --scenario quotes`: a market's quotes by price, size and time, found by boxes and by
//! neighbours.
//!
//! ```text
//! COPY quotes in > for each way (all rows, B-trees, the CR-tree): build it, look for the same boxes
//!     > neighbours > durable updates > close, check, recover > the same boxes again
//! ```
//! - **Q1** All ways find the same rows in the same boxes, and so do the CR-tree and a look at all rows after
//!   the updates and after recovery; or the demo fails.
use super::super::subscribers::Random;
use super::super::{Done, Failed, say, tell_opened};
use super::{Args, Findings, Show, number, took};
use indicatif::ProgressBar;
use ondol::{Database, MemoryKind, Numeric, OpenOptions, Prepared, Session, Value, ValueRef};
use ondol_base::clock;
use std::io::Read;
use std::path::Path;

const TABLE: &str = "CREATE TABLE quotes (id int PRIMARY KEY, price numeric(10,2), size int, at timestamp)";
const BOX: &str = "SELECT count(*), coalesce(sum(id), 0)::bigint FROM quotes
    WHERE price BETWEEN $1 AND $2 AND size BETWEEN $3 AND $4 AND at BETWEEN $5 AND $6";
const NEAR: &str = "SELECT id FROM quotes ORDER BY crtree_distance(price, size, $1, $2) LIMIT 10";
const UPDATE: &str = "UPDATE quotes SET price = $2, size = $3, at = $4 WHERE id = $1";

/// A way to the rows: its name, what is built for it, the keys of its findings.
const WAYS: [(&str, &str, [&str; 3]); 4] = [
    ("all rows", "", ["scan_boxes_per_second", "", ""]),
    (
        "B-tree (price)",
        "CREATE INDEX way ON quotes (price)",
        ["btree_boxes_per_second", "btree_entries_per_second", "btree_bytes_per_entry"],
    ),
    (
        "B-tree (price, size, at)",
        "CREATE INDEX way ON quotes (price, size, at)",
        ["btree3_boxes_per_second", "btree3_entries_per_second", "btree3_bytes_per_entry"],
    ),
    (
        "CR-tree (price, size, at)",
        "CREATE INDEX way ON quotes USING crtree (price, size, at)",
        ["crtree_boxes_per_second", "crtree_entries_per_second", "crtree_bytes_per_entry"],
    ),
];

/// 2026-01-02 09:00, in microseconds since 2000.
const OPENS: i64 = (9497 * 86_400 + 9 * 3600) * 1_000_000;

#[derive(Clone, Copy)]
struct Quote {
    cents: i64,
    size: i64,
    at: i64,
}

/// A price that walks, sizes of which few are large, times that grow.
struct Market {
    random: Random,
    cents: i64,
    at: i64,
}

impl Market {
    fn new(seed: u64) -> Market {
        Market { random: Random(seed), cents: 10_000, at: OPENS }
    }
    fn next(&mut self) -> Quote {
        let r = &mut self.random;
        self.cents = (self.cents + r.below(7) as i64 - 3).clamp(100, 9_000_000);
        self.at += 1 + r.below(40_000) as i64;
        let size = (1 << r.below(12)) * (1 + r.below(9) as i64);
        Quote { cents: self.cents + r.below(41) as i64 - 20, size, at: self.at }
    }
}

/// The quotes as CSV.
struct Text {
    market: Market,
    next: u64,
    rows: u64,
    text: Vec<u8>,
    at: usize,
}

impl Read for Text {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.text.len() {
            self.text.clear();
            self.at = 0;
            while self.next < self.rows && self.text.len() < 1 << 16 {
                let q = self.market.next();
                let line = format!("{},{},{},{}\n", self.next, decimal(q.cents), q.size, time(q.at));
                self.text.extend_from_slice(line.as_bytes());
                self.next += 1
            }
        }
        let n = out.len().min(self.text.len() - self.at);
        out[..n].copy_from_slice(&self.text[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

fn decimal(cents: i64) -> Value {
    // Two digits behind the point are a number.
    Numeric::parse(&format!("{}.{:02}", cents / 100, cents % 100)).map_or(Value::Null, Value::Numeric)
}

fn time(at: i64) -> String {
    Value::Timestamp(at).to_string()
}

/// A box around a quote: a percent of the price, half and twice the size, some hours.
fn around(q: Quote) -> Vec<Value> {
    let wide = (q.cents / 200).max(1);
    let hours = 4 * 3600 * 1_000_000;
    let price = |cents: i64| decimal(cents.max(0));
    let ends = [price(q.cents - wide), price(q.cents + wide)];
    let sizes = [Value::Int4((q.size / 2) as i32), Value::Int4((q.size * 2) as i32)];
    let times = [Value::Timestamp(q.at - hours), Value::Timestamp(q.at + hours)];
    ends.into_iter().chain(sizes).chain(times).collect()
}

/// How many rows lie in a box, and the sum of their numbers.
fn ask(session: &mut Session, query: &Prepared, within: &[Value]) -> Result<(i64, i64), Failed> {
    let outcome = session.execute_prepared(query, within)?;
    let values: Vec<i64> = (outcome.rows.iter().flat_map(|rows| rows.iter()))
        .flat_map(|row| row.values())
        .filter_map(|v| if let ValueRef::Int8(n) = v { Some(n) } else { None })
        .collect();
    match values[..] {
        [count, sum] => Ok((count, sum)),
        _ => Err(Failed::Message("a box gave other than two numbers".into())),
    }
}

/// Runs `one` again and again for some seconds: times a second.
fn rate(seconds: f64, mut one: impl FnMut(usize) -> Done) -> Result<f64, Failed> {
    let (start, mut done) = (clock::now(), 0);
    loop {
        one(done)?;
        done += 1;
        if took(start) >= seconds {
            return Ok(done as f64 / took(start));
        }
    }
}

pub(super) fn demonstrate(args: &Args, folder: &Path) -> Done {
    let path = folder.join("quotes");
    if path.exists() {
        return Err(Failed::Message(format!("{} is there already; name another --dir", path.display())));
    }
    let mut found = Findings::default();
    let database = args.ring.apply(OpenOptions::new()).open(&path)?;
    tell_opened(&database);
    let mut session = database.session();
    session.execute(TABLE)?;
    Show.step("load the quotes with COPY");
    let bar = Show.bar("load", args.rows);
    let text = Text { market: Market::new(1), next: 0, rows: args.rows, text: vec![], at: 0 };
    let t = clock::now();
    session.copy_in("COPY quotes FROM STDIN (FORMAT csv)", text, |p| bar.set_position(p.rows))?;
    found.add("load_rows_per_second", "bulk load from CSV", args.rows as f64 / took(t), "rows/s");
    bar.finish_and_clear();

    // Some of the quotes that are there.
    let mut market = Market::new(1);
    let every = (args.rows / 500).max(1);
    let some: Vec<Quote> =
        (0..args.rows).map(|_| market.next()).step_by(usize::try_from(every).unwrap_or(1)).collect();
    let boxes: Vec<Vec<Value>> = some.iter().map(|q| around(*q)).collect();
    let mut wanted: Option<Vec<(i64, i64)>> = None;
    for (name, build, [boxes_key, entries_key, bytes_key]) in WAYS {
        Show.step(&format!("look for boxes by {name}"));
        session.execute("DROP INDEX IF EXISTS way")?;
        if !build.is_empty() {
            let bar = ProgressBar::new_spinner().with_message(format!("build the {name}"));
            bar.enable_steady_tick(std::time::Duration::from_millis(100));
            let t = clock::now();
            session.execute(build)?;
            let seconds = took(t);
            bar.finish_and_clear();
            found.add(entries_key, format!("{name}, built"), args.rows as f64 / seconds, "entries/s");
            let memory = database.memory();
            let bytes: u64 = memory.of(MemoryKind::Index).filter(|p| p.name == "way").map(|p| p.bytes).sum();
            found.add(bytes_key, "  an entry", bytes as f64 / args.rows as f64, "bytes");
        }
        let is_scan = build.is_empty();
        session.execute(if is_scan { "SET enable_indexscan = off" } else { "SET enable_seqscan = off" })?;
        let query = session.prepare(BOX)?;
        // Q1
        let counts = boxes[..boxes.len().min(20)]
            .iter()
            .map(|within| ask(&mut session, &query, within))
            .collect::<Result<Vec<_>, _>>()?;
        check(name, &counts, wanted.get_or_insert_with(|| counts.clone()))?;
        let per_second =
            rate(args.seconds, |n| ask(&mut session, &query, &boxes[n % boxes.len()]).map(drop))?;
        found.add(boxes_key, format!("boxes by {name}"), per_second, "boxes/s");
        session.execute("RESET enable_indexscan; RESET enable_seqscan")?;
    }
    let rows = wanted.iter().flatten().map(|c| c.0).sum::<i64>() as f64 / 20.0f64.min(boxes.len() as f64);
    found.add("rows_per_box", "  rows in a box", rows, "rows");

    Show.step("look for neighbours");
    let query = session.prepare(NEAR)?;
    let near = |q: Quote| [decimal(q.cents), Value::Int4(q.size as i32)];
    let per_second = rate(args.seconds, |n| {
        Ok(session.execute_prepared(&query, &near(some[n % some.len()])).map(drop)?)
    })?;
    found.add("neighbours_per_second", "10 nearest by price and size", per_second, "searches/s");

    Show.step("update quotes, each durable before the next");
    let update = session.prepare(UPDATE)?;
    let mut random = Random(7);
    let per_second = rate(args.seconds, |_| {
        let (id, q) = (random.below(args.rows), market.next());
        let params =
            [Value::Int4(id as i32), decimal(q.cents), Value::Int4(q.size as i32), Value::Timestamp(q.at)];
        Ok(session.execute_prepared(&update, &params).map(drop)?)
    })?;
    found.add("updates_per_second", "durable updates, one at a time", per_second, "updates/s");
    let now = both(&mut session, &boxes)?;
    if let Some(file) = &args.picture {
        Show.step(&format!("draw {}", file.display()));
        let (level, count) = picture(&mut session, file)?;
        found.add("boxes_drawn", format!("boxes of level {level} in {}", file.display()), count as f64, "");
    }
    drop(session);
    database.close()?;

    Show.step("check");
    let problems =
        ondol::check::check(&ondol::check::hold(&path, &[], args.ring.log_ring.as_deref())?).problems;
    if !problems.is_empty() {
        return Err(Failed::Message(problems.join("; ")));
    }
    Show.step("recover");
    let t = clock::now();
    let database: Database = args.ring.apply(OpenOptions::new().create(false)).open(&path)?;
    found.add("recovery_seconds", "recovery", took(t), "s");
    found.add("recovery_index_seconds", "  indexes built in", database.opened().index_seconds, "s");
    let after = both(&mut database.session(), &boxes)?;
    check("the recovered database", &after, &now)?;
    database.close()?;
    if args.json {
        return say(&found.json("quotes", args));
    }
    say(&format!(
        "\nQuotes, {} rows, {} threads:\n\n{}",
        number(args.rows as f64),
        ondol_base::thread::parallelism(),
        found.table()
    ))
}

fn check(who: &str, counts: &[(i64, i64)], wanted: &[(i64, i64)]) -> Done {
    match counts.iter().zip(wanted).position(|(a, b)| a != b) {
        None => Ok(()),
        Some(n) => {
            let ((found, _), (rows, _)) = (counts[n], wanted[n]);
            Err(Failed::Message(format!("WRONG: {who} finds {found} rows in box {}, expected {rows}", n + 1)))
        }
    }
}

/// What some boxes have by the CR-tree, which a look at all rows has too (Q1).
fn both(session: &mut Session, boxes: &[Vec<Value>]) -> Result<Vec<(i64, i64)>, Failed> {
    let mut counts = vec![];
    for setting in ["SET enable_indexscan = off", "SET enable_seqscan = off"] {
        session.execute(setting)?;
        let query = session.prepare(BOX)?;
        let some = &boxes[..boxes.len().min(20)];
        let found: Result<Vec<_>, _> = some.iter().map(|within| ask(session, &query, within)).collect();
        counts.push(found?);
        session.execute("RESET enable_indexscan; RESET enable_seqscan")?;
    }
    check("the CR-tree", &counts[1], &counts[0])?;
    Ok(counts.swap_remove(0))
}

/// The lowest level whose boxes can be told apart in a picture, drawn by time and price. Gives the level and
/// how many boxes it has.
fn picture(session: &mut Session, file: &Path) -> Result<(i64, usize), Failed> {
    const MOST: i64 = 2000;
    const WIDE: f64 = 1200.0;
    const HIGH: f64 = 700.0;
    let levels = format!(
        "SELECT min(level)::bigint FROM (SELECT level FROM ondol_crtree_boxes WHERE dimension = 1
        GROUP BY level HAVING count(*) <= {MOST}) AS l"
    );
    let mut level = 0;
    session.for_each(&levels, &[], |row| {
        level = row.get::<i64>(0)?;
        Ok(())
    })?;
    let sql = format!(
        "SELECT t.low, t.high, p.low, p.high FROM ondol_crtree_boxes AS t JOIN ondol_crtree_boxes AS p USING (node)
        WHERE t.level = {level} AND p.level = {level} AND t.dimension = 3 AND p.dimension = 1"
    );
    let mut boxes: Vec<[f64; 4]> = vec![];
    session.for_each(&sql, &[], |row| {
        boxes.push([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?]);
        Ok(())
    })?;
    let end = |n: usize, of: fn(f64, f64) -> f64| boxes.iter().map(|b| b[n]).reduce(of).unwrap_or(0.0);
    let (left, right) = (end(0, f64::min), end(1, f64::max));
    let (least, most) = (end(2, f64::min), end(3, f64::max));
    let x = |t: f64| (t - left) / (right - left).max(1.0) * WIDE;
    let y = |p: f64| HIGH - (p - least) / (most - least).max(0.01) * HIGH;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-10 -10 {} {}\" font-family=\"sans-serif\">\n\
         <title>Boxes of level {level}: time from left to right, price from {least} to {most}</title>\n\
         <rect x=\"-10\" y=\"-10\" width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <g fill=\"#4060c0\" fill-opacity=\"0.08\" stroke=\"#203080\" stroke-width=\"0.6\">\n",
        WIDE + 20.0,
        HIGH + 40.0
    );
    for [from, to, low, high] in &boxes {
        out += &format!(
            "<rect x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{:.2}\"/>\n",
            x(*from),
            y(*high),
            (x(*to) - x(*from)).max(0.3),
            (y(*low) - y(*high)).max(0.3)
        )
    }
    out += &format!(
        "</g>\n<text x=\"0\" y=\"{}\" font-size=\"16\">{} boxes of level {level} of a CR-tree on (price, size, at): \
         time from left to right, price from {least} to {most}</text>\n</svg>\n",
        HIGH + 22.0,
        boxes.len()
    );
    std::fs::write(file, out).map_err(|e| Failed::io(file.display(), e))?;
    Ok((level, boxes.len()))
}
