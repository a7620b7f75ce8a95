//! pgbench's own transaction, which is TPC-B's, on both servers: three updates, a select and an insert,
//! durable.
//!
//! - **B1** pgbench makes its tables with 10 branches, and runs with two threads, by Unix sockets, in each of
//!   its three ways to send statements. All of them, of both servers, alternate in one contest.
//! - **B2** CPU seconds are the server's alone.
use super::{Args, Side};
use ondol_bench::machine::children_seconds;
use ondol_bench::report::Report;
use ondol_bench::rounds::{Bound, Contest, Quartiles, Sample, verdict};
use ondol_bench::{Error, Result};
use std::cell::Cell;
use std::path::Path;
use std::process::Command;

/// How pgbench sends statements: as texts, prepared each time, prepared once.
const MODES: [&str; 3] = ["simple", "extended", "prepared"];
/// (clients, aim over PostgreSQL)
const CASES: [(u64, f64); 2] = [(8, 2.0), (32, 3.0)];

fn pgbench(args: &Args, side: &Side<'_>, words: &[&str]) -> Result<String> {
    let folder = side.socket.parent().unwrap_or(Path::new("/"));
    let mut command = Command::new(args.pgbin.join("pgbench"));
    command.args(["-h".as_ref(), folder.as_os_str()]).args(["-U", "postgres"]).args(words).arg("postgres");
    let out = command.output()?;
    let (said, wrong) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    match out.status.success() && !wrong.contains("ERROR") {
        true => Ok(said.into_owned()),
        false => Err(format!("pgbench {}: {said}{wrong}", words.join(" ")).into()),
    }
}

/// The number behind `head`, which begins a line.
fn figure(said: &str, head: &str) -> Result<f64> {
    let line = said.lines().find_map(|l| l.strip_prefix(head)).unwrap_or_default();
    let digits =
        line.trim_start().split(|c: char| c != '.' && !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().map_err(|_| Error::from(format!("pgbench does not tell {head:?}: {said}")))
}

fn sample(args: &Args, side: &Side<'_>, mode: &str, clients: u64, round: usize) -> Result<Sample> {
    let (clients, seed) = (clients.to_string(), format!("--random-seed={round}"));
    let length = match args.common.tiny {
        true => ["-t", "3"].map(str::to_string),
        false => ["-T".into(), format!("{:.0}", args.common.seconds(5.0).max(1.0).ceil())],
    };
    let words = ["-n", "-M", mode, "-c", &clients, "-j", "2", &length[0], &length[1], &seed];
    let cpu = (side.cpu_seconds)();
    let said = pgbench(args, side, &words)?;
    let operations = figure(&said, "number of transactions actually processed:")?;
    if figure(&said, "number of failed transactions:")? != 0.0 {
        return Err(format!("transactions failed: {said}").into());
    }
    let seconds = operations / figure(&said, "tps =")?;
    let extra = vec![("latency average ms".to_string(), figure(&said, "latency average =")?)];
    let cpu_s = (side.cpu_seconds)() - cpu;
    Ok(Sample { operations: operations as u64, seconds, cpu_s, checksum: None, extra })
}

pub(super) const NAME: &str = "pgbench's TPC-B";

pub(super) fn contests(args: &Args, sides: &[Side<'_>], report: &mut Report) -> Result<()> {
    let sides: Vec<&Side<'_>> = sides.iter().filter(|s| ["Ondol", "PostgreSQL"].contains(&s.name)).collect();
    if !args.pgbin.join("pgbench").exists() {
        report.say("pgbench was not there.");
        return Ok(());
    }
    let scale = if args.common.tiny { "1" } else { "10" };
    let theirs = children_seconds();
    for side in &sides {
        pgbench(args, side, &["-i", "-q", "-s", scale])?;
    }
    report.children(children_seconds() - theirs);
    for (clients, wanted) in CASES {
        let name = |side: &str, mode: &str| format!("{side}, {mode}");
        let took = Cell::new(0.0);
        let mut contest = Contest::new(format!("{NAME}, {clients} clients"), "transactions");
        for (side, mode) in sides.iter().flat_map(|s| MODES.map(|m| (s, m))) {
            let took = &took;
            contest.side(name(side.name, mode), move |round| {
                let theirs = children_seconds();
                let sample = sample(args, side, mode, clients, round)?;
                took.set(took.get() + children_seconds() - theirs);
                Ok(sample)
            })
        }
        let is_compared = sides.len() == 2;
        for mode in MODES.iter().filter(|_| is_compared) {
            let over = name("PostgreSQL", mode);
            let text = format!("{mode}, against PostgreSQL");
            contest.aim(text, &name("Ondol", mode), Some(over.as_str()), Bound::RateAtLeast(wanted))
        }
        let samples = contest.run(args.common.rounds(), report)?;
        report.children(took.get());
        if !is_compared {
            continue;
        }
        // By side and mode: the sides' modes follow each other.
        let kept = |side: usize, round: usize| {
            let rate = |mode: usize| samples[side * MODES.len() + mode][round].rate();
            rate(0) / rate(1)
        };
        let rounds = 0..args.common.rounds();
        let kept = Quartiles::of(rounds.map(|r| kept(0, r) / kept(1, r)));
        let line =
            ["simple by extended, of PostgreSQL's", "at least 1", &kept.text(), verdict(kept, 1.0, true)];
        report
            .table(&["aim", "wanted", "found (quartiles)", "verdict"], &[line.map(str::to_string).to_vec()]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pgbench_is_understood() {
        let said = "number of transactions actually processed: 24/24\nnumber of failed transactions: 0 (0.000%)\n\
                    latency average = 1.250 ms\ntps = 1599.467 (without initial connection time)\n";
        assert_eq!(figure(said, "number of transactions actually processed:").unwrap(), 24.0);
        assert_eq!(figure(said, "number of failed transactions:").unwrap(), 0.0);
        assert_eq!(figure(said, "latency average =").unwrap(), 1.25);
        assert_eq!(figure(said, "tps =").unwrap(), 1599.467);
        assert!(figure(said, "initial connection time =").is_err());
    }
}
