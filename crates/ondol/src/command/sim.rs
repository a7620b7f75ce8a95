//! `ondol sim`: the engine in the simulator, by seed.
use super::{Done, Failed};
use indicatif::{ProgressBar, ProgressStyle};
use ondol::simulate;
use std::collections::BTreeMap;

#[derive(clap::Args)]
pub struct Args {
    /// The first seed
    #[arg(long)]
    seed: u64,
    /// How many seeds, one after the other
    #[arg(long, default_value_t = 1)]
    count: u64,
}

pub fn run(args: Args) -> Done {
    let bar = ProgressBar::new(args.count);
    if let Ok(style) = ProgressStyle::with_template("seeds {wide_bar} {human_pos}/{human_len} {eta}") {
        bar.set_style(style);
    }
    let mut phases: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut failures, mut acknowledged, mut checks) = (0, 0, 0);
    for seed in (0..args.count).map(|n| args.seed.wrapping_add(n)) {
        match simulate::run(seed) {
            Ok(s) => {
                if args.count == 1 {
                    println!("seed {seed}: trace {:016x}", s.trace);
                }
                failures += s.power_failures;
                acknowledged += s.acknowledged;
                checks += s.checks;
                for (phase, n) in s.phases {
                    *phases.entry(phase).or_default() += n;
                }
            }
            Err(broken) => {
                bar.finish_and_clear();
                println!("BROKEN: {broken}");
                return Err(Failed::Message(format!("run it again with: ondol sim --seed {seed}")));
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    println!(
        "{} seeds, {failures} power failures, {checks} checks, {acknowledged} acknowledged transactions, none lost",
        args.count
    );
    for (phase, n) in phases {
        println!("  in {phase:<12} {n}");
    }
    Ok(())
}
