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
