//! `ondol check`: is all of it there, and can it be believed?
use super::{Done, Failed, Log, hold, say, tell};
use ondol::check;
use std::fmt::Write;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Args {
    /// The database's folder
    path: PathBuf,
    #[command(flatten)]
    log: Log,
}

pub fn run(args: Args) -> Done {
    let held = hold(&args.path, &args.log)?;
    let found = check::check(&held);
    let f = &found.files;
    if f.database == 0 {
        // Not even a manifest could be read.
        return problems(&found.problems);
    }
    let mut out = String::new();
    let _ = writeln!(out, "database    {:032x}", f.database);
    let _ = writeln!(out, "checkpoint  at {}, {} page images", f.checkpoint, f.images);
    let _ = writeln!(
        out,
        "log         {} commits behind it in {} blocks of {} rounds, up to {}",
        f.commits,
        f.live_blocks,
        f.rounds,
        f.clock.saturating_sub(1)
    );
    if f.discarded_blocks + f.stale_blocks > 0 {
        let _ = writeln!(
            out,
            "            {} blocks not acknowledged, {} of former uses of recycled files",
            f.discarded_blocks, f.stale_blocks
        );
    }
    let _ = writeln!(
        out,
        "closed      {}",
        if f.clean { "in order" } else { "not: it will be recovered when opened" }
    );
    if let Some(ring) = &held.ring {
        let _ = writeln!(
            out,
            "ring        {} ({}), {} blocks laid over the log's files",
            ring.path, ring.promise, ring.entries
        );
    }
    for i in found.indexes.iter().flatten() {
        let _ = writeln!(
            out,
            "index       {} on {}: {} entries for {} rows",
            i.index, i.table, i.entries, i.rows
        );
    }
    for o in &found.outdated {
        let _ = writeln!(out, "outdated    {}. {}", o.message, o.detail.as_deref().unwrap_or_default());
    }
    for w in &f.warnings {
        let _ = writeln!(out, "warning     {w}");
    }
    if found.problems.is_empty() {
        out += "sound\n";
        return say(&out);
    }
    // The problems count, whoever reads the rest.
    let _ = say(&out);
    problems(&found.problems)
}

fn problems(all: &[String]) -> Done {
    for p in all {
        tell(&format!("ERROR:  {p}\n"));
    }
    match all.len() {
        1 => tell("1 problem\n"),
        n => tell(&format!("{n} problems\n")),
    }
    Err(Failed::Told)
}
