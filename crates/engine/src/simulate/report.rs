//! What happened in many histories, counted.
use std::collections::BTreeMap;

/// Counts by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats(BTreeMap<String, u64>);

/// The phases in which power failures must have been met.
pub const PHASES: [&str; 6] = ["commit", "flush", "checkpoint", "recycling", "ddl", "recovery"];

impl Stats {
    pub fn count(&mut self, what: &str, n: u64) {
        match self.0.get_mut(what) {
            Some(c) => *c += n,
            None => drop(self.0.insert(what.to_string(), n)),
        }
    }
    pub fn add(&mut self, other: &Stats) {
        for (k, n) in &other.0 {
            self.count(k, *n)
        }
    }
    pub fn get(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(k, n)| (k.as_str(), *n))
    }
    /// The phases that no power failure met.
    pub fn phases_missed(&self) -> Vec<&'static str> {
        PHASES.into_iter().filter(|p| self.get(&format!("power failures in {p}")) == 0).collect()
    }
}

impl std::fmt::Display for Stats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let width = self.0.keys().map(String::len).max().unwrap_or(0);
        for (k, n) in &self.0 {
            writeln!(f, "{k:width$}  {n:>12}")?
        }
        Ok(())
    }
}
