//! `ondol sim`: the engine in the simulator, by seed. The same seed gives the same history, and a failure
//! names the command that shows it again.
use super::{Done, Failed, say, tell};
use indicatif::{ProgressBar, ProgressStyle};
use ondol::simulate::engine::mutations::{MUTATIONS, Mutation};
use ondol::simulate::engine::report::Stats;
use ondol::simulate::engine::{self, History, Settings};
use ondol::simulate::{self as sql};
#[cfg(feature = "server")]
use ondol::simulate::{server, server::MUTATIONS as OF_SERVER};
#[cfg(feature = "server")]
use ondol_base::sim::Config;
use std::fmt::Write;
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Seconds between two lines of progress.
const EVERY_S: u64 = 20;
/// Of every so many seeds one is run twice.
const SAMPLE: u64 = 64;

#[derive(clap::Args)]
pub struct Args {
    /// The first seed
    #[arg(long)]
    seed: u64,
    /// How many seeds, one after the other
    #[arg(long, default_value_t = 1)]
    count: u64,
    /// Transactions of each client in a life (default: by the seed)
    #[arg(long, default_value_t = 0)]
    steps: u64,
    /// Log streams, 1 to 3 (default: by the seed)
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=3))]
    streams: u64,
    /// Histories at a time (default: one a core)
    #[arg(long)]
    threads: Option<usize>,
    /// Print every I/O operation of the history
    #[arg(long)]
    trace: bool,
    /// Run a known-wrong variant of the protocol, which must be noticed; `list` shows them
    #[arg(long)]
    mutation: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Transfers in SQL, through sessions and plans, instead of the engine's own calls
    #[arg(long, conflicts_with_all = ["steps", "streams", "trace", "mutation"])]
    sql: bool,
    /// The whole server, with clients over a network whose connections are lost
    #[cfg(feature = "server")]
    #[arg(long, conflicts_with_all = ["steps", "streams", "trace", "sql", "flips"])]
    server: bool,
    /// Instead of histories: flip so many bytes, each in a copy of one closed database; none may change what
    /// is read
    #[arg(long, value_name = "N", conflicts_with_all = ["count", "steps", "streams", "threads", "trace", "mutation", "sql"])]
    flips: Option<u64>,
}

#[cfg(feature = "server")]
impl Args {
    fn is_of_server(&self) -> bool {
        self.server
    }
}
#[cfg(not(feature = "server"))]
const OF_SERVER: &[(&str, &str)] = &[];
#[cfg(not(feature = "server"))]
impl Args {
    fn is_of_server(&self) -> bool {
        false
    }
}

/// What the threads share.
#[derive(Default)]
struct Found {
    stats: Stats,
    done: u64,
    /// Seed, trace and whether it was compared with a second run.
    last: Option<(u64, u64)>,
    failed: Option<(u64, String)>,
    trace: Vec<String>,
    /// Lines of progress that were written, where there is no terminal for a bar.
    lines: u64,
}

pub fn run(args: Args) -> Done {
    if let Some(flips) = args.flips {
        return flip_bytes(&args, flips);
    }
    let unknown = |name: &str| {
        Failed::Message(format!("there is no mutation \"{name}\"; `--mutation list` shows which there are"))
    };
    let variants: Vec<(&'static str, &'static str)> = match args.is_of_server() {
        true => OF_SERVER.to_vec(),
        false => MUTATIONS.iter().map(|m| (m.name, m.what)).collect(),
    };
    let variant = match args.mutation.as_deref() {
        None => None,
        Some("list") => {
            return say(&variants.iter().map(|(n, what)| format!("{n:26} {what}\n")).collect::<String>());
        }
        Some(name) => Some(variants.iter().map(|v| v.0).find(|v| *v == name).ok_or_else(|| unknown(name))?),
    };
    // Of the engine.
    let mutation = variant.filter(|_| !args.is_of_server()).and_then(Mutation::named);
    let threads = args
        .threads
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()))
        .clamp(1, args.count.clamp(1, 1024) as usize);
    let settings = Settings {
        transactions: args.steps,
        streams: args.streams as usize,
        trace: args.trace,
        mutation,
        favour: None,
    };
    let begun = Instant::now();
    let bar = ProgressBar::new(args.count);
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {human_pos}/{human_len} {eta}") {
        bar.set_style(style);
    }
    let found = Mutex::new(Found::default());
    let ended = |h: History| {
        let mut f = found.lock().unwrap_or_else(PoisonError::into_inner);
        f.stats.add(&h.stats);
        f.done += 1;
        f.last = Some((h.seed, h.hash));
        bar.set_message(format!("{} power failures,", f.stats.get("power failures")));
        bar.inc(1);
        if bar.is_hidden() && begun.elapsed().as_secs() / EVERY_S > f.lines {
            f.lines = begun.elapsed().as_secs() / EVERY_S;
            tell(&format!(
                "{} of {} seeds, {} power failures\n",
                f.done,
                args.count,
                f.stats.get("power failures")
            ));
        }
        if args.trace {
            f.trace.extend(h.trace)
        }
        match h.outcome {
            Ok(()) => f.failed.is_none(),
            Err(e) => {
                f.failed.get_or_insert((h.seed, e));
                false
            }
        }
    };
    if args.sql {
        histories_in_sql(&args, threads, &ended, &|seed| sql::run(seed).map(|s| (s, Stats::default())))
    } else if args.is_of_server() {
        #[cfg(feature = "server")]
        {
            let kind = Config { mutation: variant, ..Config::default() };
            histories_in_sql(&args, threads, &ended, &|seed| server::run_in(seed, &kind))
        }
    } else {
        engine::histories(args.seed, args.count, threads, &settings, &|h| {
            let mut h = h;
            if h.outcome.is_ok() && h.seed.is_multiple_of(SAMPLE) {
                let again = engine::history(h.seed, &settings);
                h.stats.count("histories run twice with the same trace", (again.hash == h.hash) as u64);
                if again.hash != h.hash {
                    h.outcome =
                        Err(format!("two runs differ: traces {:016x} and {:016x}", h.hash, again.hash))
                }
            }
            ended(h)
        })
    }
    bar.finish_and_clear();
    let mut f = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut out = String::new();
    for line in &f.trace {
        out += line;
        out.push('\n');
    }
    let seconds = begun.elapsed();
    let command = |seed: u64| {
        let mut line = format!("ondol sim --seed {seed}");
        for (name, is_given) in [("sql", args.sql), ("server", args.is_of_server())] {
            if is_given {
                let _ = write!(line, " --{name}");
            }
        }
        for (name, n) in [("steps", args.steps), ("streams", args.streams)] {
            if n > 0 {
                let _ = write!(line, " --{name} {n}");
            }
        }
        if let Some(name) = variant {
            let _ = write!(line, " --mutation {name}");
        }
        line
    };
    if args.json {
        out += &json(&f, seconds.as_secs_f64(), f.failed.as_ref().map(|(s, _)| command(*s)));
    } else {
        let _ = match f.last {
            Some((seed, hash)) if args.count == 1 => writeln!(out, "seed {seed}: trace {hash:016x}"),
            _ => writeln!(out, "{} seeds in {:.1} s", f.done, seconds.as_secs_f64()),
        };
        let _ = write!(out, "{}", f.stats);
    }
    // Whoever closed the pipe has seen enough.
    let _ = std::io::stdout().write_all(out.as_bytes());
    match (f.failed.take(), variant) {
        (Some((seed, e)), None) => {
            tell(&format!("seed {seed}: {e}\n"));
            Err(Failed::Message(format!("run it again with: {}", command(seed))))
        }
        (Some((seed, e)), Some(name)) => {
            tell(&format!("{name} is noticed by seed {seed}: {e}\n"));
            Ok(())
        }
        (None, Some(name)) => Err(Failed::Message(format!("{name} is not noticed within {} seeds", f.done))),
        (None, None) => {
            let missed = f.stats.phases_missed();
            // A small run need not meet all of them.
            if !args.sql && !args.is_of_server() && args.count >= 1000 && !missed.is_empty() {
                return Err(Failed::Message(format!("no power failure in: {}", missed.join(", "))));
            }
            Ok(())
        }
    }
}

fn flip_bytes(args: &Args, flips: u64) -> Done {
    let begun = Instant::now();
    let bar = ProgressBar::new(flips);
    let stats = sql::flips::run(args.seed, flips, &|| bar.inc(1)).map_err(Failed::Message)?;
    bar.finish_and_clear();
    if args.json {
        let f = Found { stats, done: 1, ..Found::default() };
        say(&json(&f, begun.elapsed().as_secs_f64(), None))
    } else {
        say(&stats.to_string())
    }
}

/// What a history of sessions or of the server came to, with what it counted itself.
type Outcome = Result<(sql::Survived, Stats), sql::Broken>;

/// The histories of sessions in SQL or of the server, told as the engine's are.
fn histories_in_sql(
    args: &Args,
    threads: usize,
    ended: &(dyn Fn(History) -> bool + Sync),
    run: &(dyn Fn(u64) -> Outcome + Sync),
) {
    use std::sync::atomic::{AtomicU64, Ordering};
    let next = AtomicU64::new(0);
    let work = || {
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= args.count {
                return;
            }
            let seed = args.seed.wrapping_add(n);
            let mut stats = Stats::default();
            let mut done = run(seed);
            if seed.is_multiple_of(SAMPLE)
                && let (Ok((first, _)), Ok((again, _))) = (&done, run(seed))
            {
                stats.count("histories run twice with the same trace", (again.trace == first.trace) as u64);
                if again.trace != first.trace {
                    let what =
                        format!("two runs differ: traces {:016x} and {:016x}", first.trace, again.trace);
                    done = Err(sql::Broken { seed, life: 0, what })
                }
            }
            let (hash, outcome) = match done {
                Ok((s, counted)) => {
                    stats.add(&counted);
                    stats.count("power failures", s.power_failures);
                    stats.count("checks after a recovery", s.checks);
                    if args.sql {
                        stats.count("commits acknowledged as durable", s.acknowledged)
                    }
                    for (phase, n) in s.phases {
                        stats.count(&format!("power failures in {phase}"), n)
                    }
                    (s.trace, Ok(()))
                }
                Err(broken) => (0, Err(broken.to_string())),
            };
            stats.count("histories", 1);
            if !ended(History { seed, stats, hash, outcome, trace: vec![] }) {
                next.store(args.count, Ordering::Relaxed)
            }
        }
    };
    std::thread::scope(|s| {
        for _ in 1..threads {
            s.spawn(work);
        }
        work()
    })
}

/// The whole outcome as one document.
fn json(f: &Found, seconds: f64, again: Option<String>) -> String {
    let text = |s: &str| {
        let mut out = String::from("\"");
        for c in s.chars() {
            match c {
                '"' | '\\' => out.extend(['\\', c]),
                c if (c as u32) < 32 => drop(write!(out, "\\u{:04x}", c as u32)),
                c => out.push(c),
            }
        }
        out + "\""
    };
    let counts: Vec<String> = f.stats.iter().map(|(k, n)| format!("    {}: {n}", text(k))).collect();
    let mut out = format!("{{\n  \"seeds\": {},\n  \"seconds\": {seconds:.3},\n", f.done);
    if let Some((seed, hash)) = f.last {
        let _ = writeln!(out, "  \"last\": {{\"seed\": {seed}, \"trace\": \"{hash:016x}\"}},");
    }
    if let (Some((seed, e)), Some(again)) = (&f.failed, again) {
        let _ = writeln!(
            out,
            "  \"failed\": {{\"seed\": {seed}, \"why\": {}, \"again\": {}}},",
            text(e),
            text(&again)
        );
    }
    let _ = write!(out, "  \"counts\": {{\n{}\n  }}\n}}\n", counts.join(",\n"));
    out
}
