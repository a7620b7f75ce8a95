//! `ondol check`: is all of it there, and can it be believed?
use super::{Done, Failed};
use ondol::check;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Args {
    /// The database's folder
    path: PathBuf,
    /// A further folder that the database logs into (may be repeated, in the order in which they are given when it is opened)
    #[arg(long = "log-folder", value_name = "DIR")]
    log_folders: Vec<String>,
}

pub fn run(args: Args) -> Done {
    let held = check::hold(&args.path, &args.log_folders)?;
    let found = check::check(&held);
    let f = &found.files;
    if f.database == 0 {
        // Not even a manifest could be read.
        return problems(&found.problems);
    }
    println!("database    {:032x}", f.database);
    println!("checkpoint  at {}, {} page images", f.checkpoint, f.images);
    println!(
        "log         {} commits behind it in {} blocks of {} rounds, up to {}",
        f.commits,
        f.live_blocks,
        f.rounds,
        f.clock.saturating_sub(1)
    );
    if f.discarded_blocks + f.stale_blocks > 0 {
        println!(
            "            {} blocks not acknowledged, {} of former uses of recycled files",
            f.discarded_blocks, f.stale_blocks
        );
    }
    println!("closed      {}", if f.clean { "in order" } else { "not: it will be recovered when opened" });
    for i in found.indexes.iter().flatten() {
        println!("index       {} on {}: {} entries for {} rows", i.index, i.table, i.entries, i.rows);
    }
    for w in &f.warnings {
        println!("warning     {w}");
    }
    if found.problems.is_empty() {
        println!("sound");
        return Ok(());
    }
    problems(&found.problems)
}

fn problems(all: &[String]) -> Done {
    for p in all {
        eprintln!("ERROR:  {p}");
    }
    match all.len() {
        1 => eprintln!("1 problem"),
        n => eprintln!("{n} problems"),
    }
    Err(Failed::Told)
}
