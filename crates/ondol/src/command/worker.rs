//! The process that the demo kills: it updates durably, several commits in flight, and tells each one that
//! was acknowledged.
//!
//! Each line on standard output is the number of the newest update that is durable; since one session commits
//! its updates in order, so are all before it. The parent reads that and knows, by the seed, which rows they
//! changed to what.
use super::subscribers::{service_mgmt_num, updated_row};
use super::{Done, Failed, Ring};
use ondol::{OpenOptions, Rows, Token, ValueRef};
use ondol_base::thread;
use std::collections::VecDeque;
use std::io::Write;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Args {
    path: PathBuf,
    #[arg(long)]
    rows: u64,
    #[arg(long)]
    seed: u64,
    /// The counter of the first update, less one
    #[arg(long)]
    base: i64,
    /// Commits in flight
    #[arg(long, default_value_t = 64)]
    in_flight: usize,
    /// Take one checkpoint after another meanwhile
    #[arg(long)]
    checkpoints: bool,
    #[command(flatten)]
    ring: Ring,
}

pub fn run(args: Args) -> Done {
    let database = args.ring.apply(OpenOptions::new().create(false)).open(&args.path)?;
    let mut session = database.session();
    if args.checkpoints {
        let database = database.clone();
        let endless = move || while database.checkpoint().is_ok() {};
        thread::spawn("checkpoints", endless).map_err(|e| Failed::io("a thread for checkpoints", e))?;
    }
    let q4 = session.query_id("q4")?;
    let mut waiting: VecDeque<(u64, Token)> = VecDeque::new();
    let mut out = std::io::stdout();
    let mut rows = Rows::new();
    let mut told = |n: u64| {
        // The parent counts only whole lines.
        out.write_all(format!("{n}\n").as_bytes())
            .and_then(|()| out.flush())
            .map_err(|e| Failed::io("the pipe", e))
    };
    told(0)?;
    for n in 1u64.. {
        let key = service_mgmt_num(updated_row(args.seed, n, args.rows));
        let called = session.call_async(
            q4,
            &[ValueRef::Int8(key), ValueRef::Int8(args.base + n as i64)],
            &mut rows,
        )?;
        let Some(token) = called.token.filter(|_| called.rows == 1) else {
            return Err(Failed::Message(format!("update {n} of {key} changed {} rows", called.rows)));
        };
        waiting.push_back((n, token));
        if waiting.len() >= args.in_flight {
            // The oldest half: the others go on being in flight meanwhile.
            let half = waiting.len() / 2;
            if let Some(&(n, token)) = waiting.get(half) {
                session.wait(token)?;
                waiting.drain(..=half);
                told(n)?;
            }
        }
    }
    Ok(())
}
