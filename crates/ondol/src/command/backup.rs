//! `ondol backup`: a copy of a database that may be in use.
use super::{Done, say};
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Args {
    /// The database's folder; another process may have it open
    path: PathBuf,
    /// The folder to copy it to, empty or not there yet
    to: PathBuf,
    /// A further folder that the database logs into; it is copied to TO/log-1, TO/log-2, ...
    #[arg(long = "log-folder", value_name = "DIR")]
    log_folders: Vec<String>,
}

pub fn run(args: Args) -> Done {
    let copied = ondol::backup::backup(&args.path, &args.log_folders, &args.to)?;
    say(&format!(
        "copied {} files, {} bytes; verified: {} page images and {} commits, up to {}\n",
        copied.files,
        copied.bytes,
        copied.report.images,
        copied.report.commits,
        copied.report.clock.saturating_sub(1)
    ))
}
