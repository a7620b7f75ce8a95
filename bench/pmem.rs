//! SQLite on persistent memory: TPC-C by the driver of `tpcc`, with rollback journal and WAL, on four ways to
//! the same memory.
//!
//! | side | files | reached |
//! | --- | --- | --- |
//! | ondol=pmem | in the folder `--memory` | mapped; non-temporal copies, a fence at a sync |
//! | MM | there, the same database | mapped; every write flushed and fenced (`ondol_bench::mapped`) |
//! | stock, tmpfs | there, the same database | system calls |
//! | vanilla | in the folder `--block` | system calls, a file system without DAX on a block device of memory |
//! | bound | none | SQLite's own VFS `memdb` and a journal in memory: pages are copied, nothing is kept; what no medium can beat |
//!
//! The sides of one folder share its database, and change its journal mode in turn; the twelve consistency
//! conditions are checked at the end.
use ondol::TempFolder;
use ondol_bench::options::Common;
use ondol_bench::report::Report;
use ondol_bench::rounds::{Bound, Contest};
use ondol_bench::tpcc::Scale;
use ondol_bench::tpcc::backend::Backend;
use ondol_bench::tpcc::check::State;
use ondol_bench::tpcc::drive::{End, Outcome, Plan, drive};
use ondol_bench::tpcc::populate::populate;
use ondol_bench::tpcc::sqlite::Sqlite;
use ondol_bench::tpcc::transactions::TYPES;
use ondol_bench::{Result, machine, mapped};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// TPC-C on SQLite on persistent memory: ondol=pmem, mapped files flushed at every write, tmpfs, a block
/// device
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// The SQLite extension, libondol_sqlite.so
    #[arg(long = "library", value_name = "LIBRARY")]
    extension: PathBuf,
    /// A folder on persistent memory (a file system with DAX), or on one that emulates it: /dev/shm
    #[arg(long, default_value = "/dev/shm")]
    memory: PathBuf,
    /// A folder on a file system without DAX, on a block device in memory; without it that side is left out
    #[arg(long)]
    block: Option<PathBuf>,
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(i64).range(1..=10_000))]
    warehouses: i64,
    /// synchronous of all sides
    #[arg(long, default_value = "FULL", value_parser = ["FULL", "NORMAL", "EXTRA"])]
    synchronous: String,
    /// Journal modes, by commas
    #[arg(long, value_delimiter = ',', default_value = "DELETE,WAL", value_parser = ["DELETE", "TRUNCATE", "PERSIST", "WAL"])]
    journal: Vec<String>,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

const SIDES: [&str; 5] = ["ondol=pmem", "MM", "stock, tmpfs", "vanilla", "bound"];
/// A database that the process's connections share, and that lives as long as one of them.
const IN_PROCESS: &str = "file:/bound?vfs=memdb";

pub fn run(args: Args) -> Result<()> {
    let scale = if args.common.tiny { Scale::tiny() } else { Scale::new(args.warehouses) };
    load(&args.extension)?;
    mapped::register()?;
    let memory = TempFolder::inside(&args.memory)?;
    let block = args.block.as_deref().map(TempFolder::inside).transpose()?;
    let database = |folder: &Path| folder.join("sqlite.db");
    let sqlite = |side: &'static str, journal: &str| -> Option<Sqlite> {
        let folder = if side == "vanilla" { block.as_ref()? } else { &memory };
        let path = database(folder.path());
        let (path, vfs) = match side {
            "bound" => (PathBuf::from(IN_PROCESS), None),
            "ondol=pmem" => (PathBuf::from(format!("file:{}?vfs=ondol&ondol=pmem", path.display())), None),
            "MM" => (path, Some("mm".to_string())),
            _ => (path, None),
        };
        let mut s = Sqlite::new(&path, vfs, &args.synchronous, &[]);
        s.name = format!("{side}, {journal}");
        s.journal_mode = if side == "bound" { "MEMORY" } else { journal }.to_string();
        s.cache_kb = 2000;
        Some(s)
    };
    let mut report = Report::new("pmem", "SQLite on persistent memory", Some(&args.common));
    report.say(format!(
        "TPC-C, {} warehouses, one thread, embedded, no think time, page cache of 2 MB, synchronous={}. Memory: {}. Block device: {}. \
         Where the first is no file system with DAX, it only emulates persistent memory: it shows the speed and survives no power failure. \
         MM writes lines back by {}.",
        scale.warehouses,
        args.synchronous,
        machine::file_system(memory.path()),
        block.as_ref().map_or("none".into(), |b| machine::file_system(b.path())),
        mapped::flush_instruction(),
    ));
    for folder in [Some(&memory), block.as_ref()].into_iter().flatten() {
        populate(&Sqlite::new(&database(folder.path()), None, "OFF", &[]), &scale)?;
    }
    let kept = rusqlite::Connection::open(IN_PROCESS)?;
    populate(
        &Sqlite { journal_mode: "MEMORY".into(), ..Sqlite::new(Path::new(IN_PROCESS), None, "OFF", &[]) },
        &scale,
    )?;
    let seconds = args.common.seconds(5.0);
    for journal in &args.journal {
        let sides: Vec<Sqlite> = SIDES.iter().filter_map(|s| sqlite(s, journal)).collect();
        let outcomes: Vec<RefCell<Outcome>> = sides.iter().map(|_| RefCell::default()).collect();
        let mut contest = Contest::new(format!("Transactions, journal_mode={journal}"), "transactions");
        for (side, outcome) in sides.iter().zip(&outcomes) {
            report.settings(side.name(), side.settings());
            contest.side(side.name(), |round| {
                let plan = Plan {
                    scale,
                    threads: 1,
                    seed: args.seed + round as u64,
                    end: End::After(Duration::from_secs_f64(seconds)),
                    depth: 1,
                    durable: true,
                };
                let one = drive(side, &plan, &|_| ())?;
                outcome.borrow_mut().add(&one);
                Ok(one.sample())
            });
        }
        let name = |side: &str| format!("{side}, {journal}");
        let ours = name(SIDES[0]);
        if block.is_some() {
            contest.aim("against vanilla", &ours, Some(&name("vanilla")), Bound::RateAtLeast(2.5));
        }
        contest.aim("against MM", &ours, Some(&name("MM")), Bound::RateAtLeast(1.4));
        contest.aim("bound against MM", &name("bound"), Some(&name("MM")), Bound::RateAtLeast(1.4));
        contest.run(args.common.rounds(), &mut report)?;
        report.section(&format!("Latencies with journal_mode={journal}, microseconds (p50 / p99)"));
        let mut head = vec!["side"];
        head.extend(TYPES.iter().map(|t| t.name()));
        let mut rows = vec![];
        for (side, outcome) in sides.iter().zip(&outcomes) {
            let mut row = vec![side.name()];
            row.extend(outcome.borrow().percentiles());
            rows.push(row);
        }
        report.table(&head, &rows);
    }
    drop(kept);
    for folder in [Some(&memory), block.as_ref()].into_iter().flatten() {
        let state = State::read(&Sqlite::new(&database(folder.path()), None, "FULL", &[]), &scale)?;
        let broken = state.broken();
        if !broken.is_empty() {
            return Err(format!("{} is inconsistent:\n{}", folder.path().display(), broken.join("\n")).into());
        }
    }
    report.say("The twelve consistency conditions of clause 3.3.2 hold on every database after the run.");
    report.finish()
}

/// Loads the extension, as a program would.
#[allow(unsafe_code)]
fn load(library: &Path) -> Result<()> {
    let c = rusqlite::Connection::open_in_memory()?;
    // SAFETY: nothing else uses the connection, and the library is SQLite's extension, as the user says.
    unsafe {
        let _allowed = rusqlite::LoadExtensionGuard::new(&c)?;
        c.load_extension(library, None::<&str>)?;
    }
    Ok(())
}
