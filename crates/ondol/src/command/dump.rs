//! `ondol dump`: a database as SQL. Its files are not changed.
use super::{Done, Failed, Log, hold, tell};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Args {
    /// The database's folder
    path: PathBuf,
    /// The file to write; standard output if not given
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    log: Log,
}

pub fn run(args: Args) -> Done {
    let held = hold(&args.path, &args.log)?;
    let database = ondol::Database::open_held(&held)?;
    database.notices().iter().for_each(|n| tell(&n.shown()));
    let mut session = database.session();
    match &args.output {
        None => session.dump(&mut BufWriter::with_capacity(1 << 18, io::stdout()), |_, _| {})?,
        Some(path) => {
            let file = File::create(path).map_err(|e| Failed::io(path.display(), e))?;
            let mut out = BufWriter::with_capacity(1 << 18, file);
            session.dump(&mut out, |table, rows| tell(&format!("{table}: {rows} rows\n")))?;
            out.flush().and_then(|()| out.get_ref().sync_all()).map_err(|e| Failed::io(path.display(), e))?;
        }
    }
    drop(session);
    database.close().map_err(Failed::Sql)
}
