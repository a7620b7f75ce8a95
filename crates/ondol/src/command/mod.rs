//! The command line.
mod backup;
mod beside;
mod check;
mod complete;
mod demo;
mod describe;
mod dump;
#[cfg(feature = "server")]
mod folder;
mod format;
mod holder;
mod innodb;
mod inspect;
#[cfg(feature = "server")]
mod notify;
mod record;
#[cfg(feature = "server")]
mod remote;
mod report;
mod script;
#[cfg(feature = "server")]
mod serve;
mod shell;
mod sim;
mod sqlite;
mod subscribers;
#[cfg(feature = "server")]
mod visit;
mod worker;

use clap::{Parser, Subcommand};
use holder::held_by;
use ondol::check::Held;
use ondol::{LogRing, OpenOptions};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Ondol, a main-memory transactional SQL database.
#[derive(Parser)]
#[command(name = "ondol", version, about)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run SQL on a database: interactively, from -c and -f, or from standard input
    Shell(shell::Args),
    /// Serve a database to PostgreSQL's clients
    #[cfg(feature = "server")]
    Serve(serve::Args),
    /// Run the subscriber directory: load, index, query, kill, recover, prove
    Demo(demo::Args),
    /// Verify a database's images, logs and indexes without changing anything
    Check(check::Args),
    /// Show the content of logs, checkpoints and the manifest
    Inspect(inspect::Args),
    /// Copy a database that may be in use, and verify the copy
    Backup(backup::Args),
    /// Write a database as SQL
    Dump(dump::Args),
    /// Run a dump into a database
    Restore(RestoreArgs),
    /// Run the engine in the simulator: power failures, torn writes, full disks, by seed
    Sim(sim::Args),
    /// Read tables of MySQL and MariaDB from their files
    Innodb(innodb::Args),
    /// About the SQLite extension
    Sqlite(sqlite::Args),
    /// About the ring for PostgreSQL's WAL
    Pgwal {
        /// What to do, and with what; without it, what there is
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// The updating process of the demo, which gets killed
    #[command(hide = true)]
    DemoWorker(worker::Args),
}

/// Where the log of a database is that is only looked at.
#[derive(clap::Args)]
pub struct Log {
    /// A further folder that the database logs into (may be repeated, in the order in which they are given
    /// when it is opened)
    #[arg(long = "log-folder", value_name = "DIR")]
    folders: Vec<String>,
    /// The ring that the log is on, of a database that was not closed; it stays as it is
    #[arg(long = "log-ring", value_name = "FILE")]
    ring: Option<PathBuf>,
}

/// The ring for the log of a database that is opened.
#[derive(clap::Args, Clone, Default)]
pub struct Ring {
    /// A file in persistent memory to which commits go as well, so that they need not wait for the log's
    /// files to be synced; made if it is not there
    #[arg(long, value_name = "FILE")]
    pub log_ring: Option<PathBuf>,
    /// Bytes of the ring (K, M and G multiply by 1024); 64M where it is made and nothing is said
    #[arg(long, value_name = "BYTES", requires = "log_ring", value_parser = shell::bytes)]
    log_ring_size: Option<usize>,
    /// What commits on the ring survive besides the end of the process: a power-failure (the usual), or
    /// nothing (server-crash)
    #[arg(long, value_name = "PROMISE", requires = "log_ring", value_parser = promise)]
    log_ring_promise: Option<ondol::LogRingPromise>,
}

fn promise(text: &str) -> Result<ondol::LogRingPromise, String> {
    ondol::LogRingPromise::named(text)
        .ok_or_else(|| format!("{text}: expected power-failure or server-crash"))
}

impl Ring {
    pub fn apply(&self, options: OpenOptions) -> OpenOptions {
        match &self.log_ring {
            Some(path) => options.log_ring(LogRing {
                size: self.log_ring_size.map(|n| n as u64),
                promise: self.log_ring_promise,
                ..LogRing::at(path)
            }),
            None => options,
        }
    }
    /// The same, for another process's command line.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut all = vec![];
        if let Some(path) = &self.log_ring {
            all.extend(["--log-ring".into(), path.into()]);
            all.extend(
                self.log_ring_size.iter().flat_map(|n| ["--log-ring-size".into(), n.to_string().into()]),
            );
            all.extend(
                self.log_ring_promise
                    .iter()
                    .flat_map(|p| ["--log-ring-promise".into(), p.to_string().into()]),
            )
        }
        all
    }
}

/// Tells what is to be known of an opening: warnings, and what commits survive on a ring.
pub fn tell_opened(database: &ondol::Database) {
    let found = &database.opened().recovered;
    for w in &found.warnings {
        tell(&format!("WARNING:  {w}\n"));
    }
    database.notices().iter().for_each(|n| tell(&n.shown()));
    if let Some(ring) = &found.ring {
        let survive = match ring.promise {
            ondol::LogRingPromise::PowerFailure => "a power failure",
            ondol::LogRingPromise::ServerCrash => "the end of this process, not a power failure",
        };
        let home = match ring.entries {
            0 => String::new(),
            n => format!("; {n} blocks of it were brought home"),
        };
        tell(&format!(
            "NOTICE:  the log is on the ring \"{}\" ({}): commits survive {survive}{home}\n",
            ring.path, ring.promise
        ));
    }
}

#[derive(clap::Args)]
struct RestoreArgs {
    /// The database's folder, made if it is not there
    path: PathBuf,
    /// What `ondol dump` wrote
    file: PathBuf,
    /// A further folder to log into (may be repeated; give the same ones, in the same order, each time)
    #[arg(long = "log-folder", value_name = "DIR")]
    log_folders: Vec<String>,
    #[command(flatten)]
    ring: Ring,
}

pub fn main() -> ExitCode {
    ondol_base::interrupt::file_limit_is_an_error();
    let done = match Line::parse().command {
        Command::Shell(a) => shell::run(a),
        #[cfg(feature = "server")]
        Command::Serve(a) => serve::run(a),
        Command::Demo(a) => demo::run(a),
        Command::Check(a) => check::run(a),
        Command::Inspect(a) => inspect::run(a),
        Command::Backup(a) => backup::run(a),
        Command::Dump(a) => dump::run(a),
        Command::Restore(a) => shell::run(shell::Args::for_file(a.path, a.file, a.log_folders, a.ring)),
        Command::Sim(a) => sim::run(a),
        Command::Innodb(a) => innodb::run(a),
        Command::Sqlite(a) => sqlite::run(a),
        Command::Pgwal { arguments } => return pgwal::command::main("ondol pgwal", arguments),
        Command::DemoWorker(a) => worker::run(a),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failed::Told) => ExitCode::FAILURE,
        Err(Failed::Sql(e)) => {
            tell(&report::error(&e, ""));
            ExitCode::FAILURE
        }
        Err(Failed::Message(m)) => {
            tell(&format!("ondol: {m}\n"));
            ExitCode::FAILURE
        }
    }
}

/// How a command failed.
pub enum Failed {
    /// It was told already.
    Told,
    Sql(ondol::Error),
    Message(String),
}

impl From<ondol::Error> for Failed {
    fn from(e: ondol::Error) -> Failed {
        Failed::Sql(e)
    }
}

impl Failed {
    /// An error of a file or a process, with what it was about.
    pub fn io(what: impl std::fmt::Display, e: std::io::Error) -> Failed {
        Failed::Message(format!("{what}: {e}"))
    }
}

pub type Done = Result<(), Failed>;

/// The files of a database to look at, locked where that can be; where it cannot, that is told.
pub fn hold(path: &Path, log: &Log) -> Result<Held, Failed> {
    let held = ondol::check::hold(path, &log.folders, log.ring.as_deref()).map_err(|e| held_by(e, path))?;
    if let Some(why) = &held.unlocked {
        tell(&format!(
            "WARNING:  {why}: nothing is locked, so what follows may be wrong if another process opens the database meanwhile\n"
        ));
    }
    Ok(held)
}

/// Writes to standard output. Its reader may have gone, or its disk may be full: that is an error, not a
/// panic.
pub fn say(text: &str) -> Done {
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|e| Failed::io("could not write the output", e))
}

/// Writes to standard error. Where that fails, nobody is left to be told.
pub fn tell(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
