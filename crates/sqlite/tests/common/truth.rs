//! What a disk must hold at each start.
use std::fmt::Debug;

/// The states after each commit, and how many of them are acknowledged.
pub struct Truth<S> {
    pub states: Vec<S>,
    acknowledged: usize,
    /// The newest content's, also of commits that were lost: what is left of those must not look like a later
    /// commit's.
    version: u64,
}

impl<S: PartialEq + Clone + Debug> Truth<S> {
    pub fn new(first: S) -> Truth<S> {
        Truth { states: vec![first], acknowledged: 0, version: 0 }
    }
    pub fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }
    /// The state after the last commit.
    pub fn last(&self) -> S {
        self.states.last().expect("a state").clone()
    }
    /// All commits there are must stay.
    pub fn acknowledge(&mut self) {
        self.acknowledged = self.states.len() - 1;
    }
    /// What `who` finds is the last state from now on; it must be one that none that was acknowledged is
    /// missing from.
    pub fn found(&mut self, state: &S, who: &str) {
        let at = self.states.iter().rposition(|s| s == state);
        let at = at.unwrap_or_else(|| {
            panic!("{who} finds a state that never was: {state:?} after {:?}", self.states.last())
        });
        assert!(
            at >= self.acknowledged,
            "{who} finds commit {at}, but {} was acknowledged",
            self.acknowledged
        );
        self.states.truncate(at + 1);
    }
}
