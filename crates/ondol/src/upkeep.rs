//! The upkeep of a database as a whole: copied, verified without being changed, brought to this
//! program's versions of data, and tried in the simulator.
pub mod backup;
pub mod check;
pub(crate) mod overlay;
pub(crate) mod renew;
pub mod simulate;
