//! `ondol backup`: a copy of a database that may be in use.
use super::{Done, Log, say};
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Args {
    /// The database's folder; another process may have it open
    path: PathBuf,
    /// The folder to copy it to, empty or not there yet; further log folders are copied to log-1, log-2, ...
    /// in it
    to: PathBuf,
    #[command(flatten)]
    log: Log,
}

pub fn run(args: Args) -> Done {
    let copied = ondol::backup::backup(&args.path, &args.log.folders, args.log.ring.as_deref(), &args.to)?;
    say(&format!(
        "copied {} files, {} bytes; verified: {} page images and {} commits, up to {}\n",
        copied.files,
        copied.bytes,
        copied.report.images,
        copied.report.commits,
        copied.report.clock.saturating_sub(1)
    ))
}
