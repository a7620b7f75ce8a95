//! The Parquet library's encoder alone, on a table in Arrow's form: a bound for exports to Parquet.
//! `bench/innodb` asks for it in its rounds.
use ondol_bench::Result;
use ondol_bench::encoder::Batches;
use ondol_bench::rounds::timed;
use std::fs::File;
use std::path::PathBuf;

/// Arrow's file to Parquet by the library alone, on one thread: seconds without the reading
#[derive(clap::Args)]
pub struct Args {
    /// A file of Arrow's (IPC)
    file: PathBuf,
    /// The file that is written
    #[arg(long)]
    to: PathBuf,
}

pub fn run(args: Args) -> Result<()> {
    let told = |what: &PathBuf, e: ondol_bench::Error| format!("{}: {e}", what.display());
    let table = Batches::from_arrow(&args.file).map_err(|e| told(&args.file, e))?;
    let sample = timed(|| {
        table.encode(File::create(&args.to)?)?;
        Ok(table.rows())
    })
    .map_err(|e| told(&args.to, e))?;
    println!("rows {}", sample.operations);
    println!("seconds {}", sample.seconds);
    println!("cpu_seconds {}", sample.cpu_s);
    Ok(())
}
