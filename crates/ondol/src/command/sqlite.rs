//! `ondol sqlite`: about the SQLite extension.
use super::{Done, Failed};
use clap::Subcommand;
use std::io::Write;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// What a file system and medium can do for SQLite, measured, and what to set
    Doctor {
        /// A database, or the folder for one
        path: PathBuf,
    },
}

pub fn run(args: Args) -> Done {
    let What::Doctor { path } = args.what;
    let report = ondol_sqlite::doctor::examine(&path).map_err(Failed::Message)?;
    let width = report.findings.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, found) in &report.findings {
        text.push_str(&format!("{name:width$}  {found}\n"));
    }
    text.push('\n');
    for line in &report.advice {
        text.push_str(&format!("{line}\n"));
    }
    std::io::stdout().write_all(text.as_bytes()).map_err(|e| Failed::io("standard output", e))
}
