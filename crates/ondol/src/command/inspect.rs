//! `ondol inspect`: what stands in a database's files, readably.
use super::{Done, Failed, Log, hold};
use ondol_durability::delta::Pieces;
use ondol_durability::inspect;
use ondol_durability::record::Record;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

#[derive(Clone, Copy, clap::ValueEnum)]
enum What {
    /// Which checkpoint, log rounds and incarnations make up the database
    Manifest,
    /// Every block of the log with its records
    Log,
    /// Every page image of the checkpoint
    Checkpoint,
}

#[derive(clap::Args)]
pub struct Args {
    /// The database's folder
    path: PathBuf,
    /// What to show; the manifest and the log's blocks without their records if not given
    #[arg(value_enum)]
    what: Option<What>,
    /// Show bytes: differences and images in full
    #[arg(long)]
    bytes: bool,
    #[command(flatten)]
    log: Log,
}

pub fn run(args: Args) -> Done {
    let held = hold(&args.path, &args.log)?;
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout());
    let done = match args.what {
        None => manifest(&held.config, &mut out).and_then(|()| log(&held.config, false, false, &mut out)),
        Some(What::Manifest) => manifest(&held.config, &mut out),
        Some(What::Log) => log(&held.config, true, args.bytes, &mut out),
        Some(What::Checkpoint) => checkpoint(&held.config, args.bytes, &mut out),
    };
    out.flush().map_err(|e| Failed::io("could not write the output", e))?;
    done
}

fn damaged(e: ondol_durability::RecoveryError) -> Failed {
    Failed::Sql(ondol_engine::error::recovery(e))
}

fn written(done: io::Result<()>) -> Done {
    done.map_err(|e| Failed::io("could not write the output", e))
}

fn manifest(config: &ondol_durability::Config, out: &mut dyn Write) -> Done {
    let m = inspect::read_manifest(config).map_err(damaged)?;
    let clean = m.clean.map_or("no".to_string(), |r| format!("round {r}"));
    let mut text = format!(
        "manifest {}: database {:032x}\n  checkpoint at {}, log from round {}, closed in order: {clean}\n",
        m.sequence, m.database, m.at, m.first_round
    );
    for f in &m.files {
        let kind = if f.full { "full" } else { "changes" };
        text += &format!("  file {}: at {}, {} bytes, {kind}\n", f.name(), f.at, f.length);
    }
    for i in &m.incarnations {
        let last = match i.last_round {
            ondol_durability::manifest::OPEN_END => "open".to_string(),
            r => r.to_string(),
        };
        text += &format!(
            "  incarnation {}: rounds {} to {last}, first log files {:?}\n",
            i.number, i.first_round, i.files
        );
    }
    for s in &m.streams {
        text += &format!("  stream {s}\n");
    }
    written(out.write_all(text.as_bytes()))
}

fn log(config: &ondol_durability::Config, records: bool, bytes: bool, out: &mut dyn Write) -> Done {
    let mut done = Ok(());
    let mut file = String::new();
    inspect::blocks(config, &mut |block| {
        if done.is_err() {
            return;
        }
        let h = block.header;
        let mut text = String::new();
        if block.file != file {
            file = block.file.to_string();
            text += &format!("{file}\n");
        }
        text += &format!(
            "  block at {}: stream {} position {} incarnation {} round {} closed {} durable round {} payload {}{}\n",
            h.offset,
            h.stream,
            h.position,
            h.incarnation,
            h.round,
            h.closed,
            h.durable_round,
            h.payload,
            if block.live { "" } else { " (not used)" }
        );
        if records {
            for r in block.records() {
                match r {
                    Ok((_, r)) => text += &record(&r, bytes),
                    Err(e) => {
                        text += &format!("    damaged at {}: expected {}, found {}\n", e.offset, e.expected, e.found);
                        break;
                    }
                }
            }
        }
        done = out.write_all(text.as_bytes());
    })
    .map_err(damaged)?;
    written(done)
}

fn record(r: &Record<'_>, bytes: bool) -> String {
    match r {
        Record::Commit { ts, txn, fragments, changes } => {
            let of = if *fragments > 0 {
                format!(" of transaction {txn}, {fragments} fragments")
            } else {
                String::new()
            };
            format!("    commit {ts}{of}: {} bytes\n{}", changes.len(), differences(changes, bytes))
        }
        Record::Void { ts } => format!("    void {ts}\n"),
        Record::Fragment { txn, n, changes } => {
            format!(
                "    fragment {n} of transaction {txn}: {} bytes\n{}",
                changes.len(),
                differences(changes, bytes)
            )
        }
        Record::Given { ts, sequence, given } => format!(
            "    commit {ts}: sequence {sequence} gave out {} in generation {}, up to {}\n",
            given.steps, given.generation, given.value
        ),
        Record::System { clock, item } => format!("    at {clock}: {item:?}\n"),
    }
}

fn differences(changes: &[u8], bytes: bool) -> String {
    let mut text = String::new();
    for p in Pieces::new(changes) {
        match p {
            Ok((address, d)) if bytes => text += &format!("      {address:012x} xor {}\n", hex(d)),
            Ok((address, d)) => text += &format!("      {address:012x} {} bytes\n", d.len()),
            Err(e) => text += &format!("      damaged: expected {}\n", e.0),
        }
    }
    text
}

fn checkpoint(config: &ondol_durability::Config, bytes: bool, out: &mut dyn Write) -> Done {
    let mut done = Ok(());
    let mut file = String::new();
    inspect::pages(config, &mut |name, at, page, packed| {
        if done.is_err() {
            return;
        }
        let mut text = String::new();
        if name != file {
            file = name.to_string();
            text += &format!("{file} at {at}\n");
        }
        text += &format!("  page {:x} of segment {}: {} bytes\n", page.0, page.segment().0, packed.len());
        if bytes {
            for (i, line) in packed.chunks(32).enumerate() {
                text += &format!("    {:04x} {}\n", i * 32, hex(line));
            }
        }
        done = out.write_all(text.as_bytes());
    })
    .map_err(damaged)?;
    written(done)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
