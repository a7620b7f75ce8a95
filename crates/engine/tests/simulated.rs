//! The everyday run of the simulation: some hundred histories, in which nothing may be wrong, and every
//! known-wrong variant, each of which some history must notice. `ONDOL_SEED` and `ONDOL_SEEDS` make it
//! another or a longer run, `ONDOL_MUTATION` (a part of names) one of some variants. `ONDOL_BLESS=1` searches
//! for the first history that notices each, and writes its seed to `simulated/noticed.txt`.
use ondol_engine::simulate::mutations::{Favour, MUTATIONS};
use ondol_engine::simulate::report::Stats;
use ondol_engine::simulate::{History, Settings, histories, history};
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::Mutex;

fn number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|s| s.parse().ok()).unwrap_or(usual)
}

fn run(seed: u64, count: u64, settings: &Settings, each: impl Fn(&History) -> bool + Sync) -> Stats {
    let stats = Mutex::new(Stats::default());
    histories(seed, count, 2, settings, &|h| {
        stats.lock().unwrap().add(&h.stats);
        each(&h)
    });
    stats.into_inner().unwrap()
}

#[test]
fn histories_hold() {
    let failed = Mutex::new(vec![]);
    let stats = run(number("ONDOL_SEED", 1), number("ONDOL_SEEDS", 100), &Settings::default(), |h| {
        if let Err(e) = &h.outcome {
            failed.lock().unwrap().push(format!("seed {}: {e}", h.seed));
        }
        true
    });
    println!("{stats}");
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
    let count = number("ONDOL_SEEDS", 100);
    if count >= 100 {
        assert_eq!(stats.phases_missed(), Vec::<&str>::new(), "{stats}");
        // A log that fills up while clients work shows in longer runs only.
        let full = if count < 1000 { "openings refused by the medium" } else { "disk full" };
        let continued = "log streams that went on without room";
        let rings = ["lives on a ring", "entries brought home", "openings without their ring refused"];
        let others = ["commits lost that were never acknowledged", "checkpoints", "openings cut off"];
        for what in others.into_iter().chain(rings).chain([continued, full, "rings left behind"]) {
            assert!(stats.get(what) > 0, "{what}: {stats}");
        }
    }
}

/// What shows a wrong variant sooner is nothing wrong by itself.
#[test]
fn favoured_histories_hold() {
    let count = number("ONDOL_SEEDS", 100) / 4;
    for favour in [Favour::Keys, Favour::Crowds, Favour::Definers, Favour::Waits] {
        let settings = Settings { favour: Some(favour), ..Settings::default() };
        run(number("ONDOL_SEED", 1), count, &settings, |h| {
            assert!(h.outcome.is_ok(), "{favour:?}, seed {}: {:?}", h.seed, h.outcome);
            true
        });
    }
}

#[test]
fn a_seed_is_one_history() {
    let mut hashes = BTreeMap::new();
    for seed in 1..=6 {
        let settings = Settings::default();
        let (a, b) = (history(seed, &settings), history(seed, &settings));
        assert_eq!((a.hash, &a.stats), (b.hash, &b.stats), "seed {seed}");
        hashes.insert(a.hash, seed);
    }
    assert_eq!(hashes.len(), 6);
}

const NOTICED: &str = "tests/simulated/noticed.txt";

/// The first history that notices each wrong variant comes within so many seeds. The one that did when it was
/// last searched for is tried before that: mostly it does still. Each variant has a process of its own: one
/// that breaks memory may end it, which is to notice it.
#[test]
fn every_mutation_is_noticed() {
    if let Ok(name) = std::env::var("ONDOL_VARIANT") {
        return assert!(is_noticed(&name), "not noticed");
    }
    let (only, bless) = (std::env::var("ONDOL_MUTATION").unwrap_or_default(), number("ONDOL_BLESS", 0) != 0);
    let text = std::fs::read_to_string(NOTICED).unwrap_or_default();
    let known = text.lines().filter_map(|l| l.split_once(' '));
    let mut seeds: BTreeMap<&str, String> = known.map(|(name, seed)| (name, seed.to_string())).collect();
    let mut missed = vec![];
    for m in MUTATIONS.iter().filter(|m| m.name.contains(&only)) {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "every_mutation_is_noticed", "--nocapture"]).env("ONDOL_VARIANT", m.name);
        if let Some(seed) = seeds.get(m.name).filter(|_| !bless) {
            child.env("ONDOL_NOTICED", seed);
        }
        let out = child.stderr(Stdio::null()).output().unwrap();
        let told = String::from_utf8_lossy(&out.stdout);
        let line = told.lines().find(|l| l.starts_with(m.name)).unwrap_or_default();
        match (out.status.success(), out.status.signal()) {
            (true, _) => {
                println!("{line}");
                let seed = line.split("seed").nth(1).and_then(|l| l.split(':').next()).unwrap_or_default();
                seeds.insert(m.name, seed.trim().to_string());
            }
            (false, Some(signal)) => println!("{:26} signal {signal}", m.name),
            (false, None) => missed.push(m.name),
        }
    }
    if bless {
        let there = seeds.iter().filter(|(name, _)| MUTATIONS.iter().any(|m| m.name == **name));
        let text: String = there.map(|(name, seed)| format!("{name} {seed}\n")).collect();
        std::fs::write(NOTICED, text).unwrap();
    }
    assert!(missed.is_empty(), "not noticed: {}", missed.join(", "));
}

fn is_noticed(name: &str) -> bool {
    let m = MUTATIONS.iter().find(|m| m.name == name).unwrap();
    let settings = Settings { mutation: Some(m), ..Settings::default() };
    let caught = Mutex::new(None);
    let search = |first, count| {
        run(first, count, &settings, |h| {
            if let Err(e) = &h.outcome {
                caught.lock().unwrap().get_or_insert((h.seed, e.clone()));
            }
            h.outcome.is_ok()
        });
    };
    match number("ONDOL_NOTICED", 0) {
        0 => {}
        seed => search(seed, 1),
    }
    if caught.lock().unwrap().is_none() {
        search(number("ONDOL_SEED", 1), number("ONDOL_MUTATION_SEEDS", 12_000))
    }
    let Some((seed, e)) = caught.into_inner().unwrap() else { return false };
    let first: String = e.lines().next().unwrap_or("").chars().take(200).collect();
    println!("\n{:26} seed {seed:5}: {first}", m.name);
    true
}
