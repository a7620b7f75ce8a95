//! The upkeep of a database as a whole: copied, verified without being changed, and tried in the simulator.
pub mod backup;
pub mod check;
pub(crate) mod overlay;
pub mod simulate;
