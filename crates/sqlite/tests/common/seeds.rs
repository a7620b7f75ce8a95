//! Worlds by their seeds: `ONDOL_SQLITE_SEED` is the first, `ONDOL_SQLITE_WORLDS` how many.

fn env(key: &str, default: u64) -> u64 {
    std::env::var(key).map_or(default, |v| v.parse().expect("a number"))
}

/// Runs each world; one that fails is named, so that it can be run alone.
pub fn each(worlds: u64, world: impl Fn(u64) + std::panic::RefUnwindSafe) {
    let first = env("ONDOL_SQLITE_SEED", 1);
    for seed in first..first + env("ONDOL_SQLITE_WORLDS", worlds) {
        if let Err(panic) = std::panic::catch_unwind(|| world(seed)) {
            eprintln!("ONDOL_SQLITE_SEED={seed} ONDOL_SQLITE_WORLDS=1");
            std::panic::resume_unwind(panic);
        }
    }
}
