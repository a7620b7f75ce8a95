//! Time. Simulated worlds have their own.
use crate::sim;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A monotonic instant, for measuring and for deadlines.
#[inline]
pub fn now() -> Duration {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    if let Some(world) = sim::current() {
        return Duration::from_nanos(world.look_at_clock());
    }
    START.get_or_init(Instant::now).elapsed()
}
/// Wall-clock time in microseconds since 1970-01-01 UTC.
pub fn wall_us() -> i64 {
    if let Some(world) = sim::current() {
        return world.wall_us();
    }
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as i64)
}
/// Which start of the system this is; `None` where that is not told, and in simulated worlds.
pub fn boot() -> Option<u128> {
    if sim::current().is_some() {
        return None;
    }
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    u128::from_str_radix(&text.trim().replace('-', ""), 16).ok()
}
