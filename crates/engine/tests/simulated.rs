//! The everyday run of the simulation: some hundred histories, in which nothing may be wrong.
use ondol_engine::simulate::{Settings, histories};
use std::sync::Mutex;

#[test]
fn histories_hold() {
    let first: u64 = std::env::var("ONDOL_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let count: u64 = std::env::var("ONDOL_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(100);
    let stats = Mutex::new(ondol_engine::simulate::report::Stats::default());
    let failed = Mutex::new(vec![]);
    histories(first, count, 2, &Settings::default(), &|h| {
        stats.lock().unwrap().add(&h.stats);
        if let Err(e) = h.outcome {
            failed.lock().unwrap().push(format!("seed {}: {e}", h.seed));
        }
        true
    });
    println!("{}", stats.lock().unwrap());
    let failed = failed.lock().unwrap();
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}
