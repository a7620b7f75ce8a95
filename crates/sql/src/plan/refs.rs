//! What expressions refer to, among the inputs of a join.
use super::logical::{Expr, Logical, each_column};
use std::collections::HashMap;

/// A set of a join's inputs, by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RelSet(pub u128);

impl RelSet {
    pub const EMPTY: RelSet = RelSet(0);
    pub fn one(rel: u16) -> RelSet {
        RelSet(1 << (rel as u32 % 128))
    }
    pub fn with(self, o: RelSet) -> RelSet {
        RelSet(self.0 | o.0)
    }
    pub fn without(self, o: RelSet) -> RelSet {
        RelSet(self.0 & !o.0)
    }
    pub fn within(self, o: RelSet) -> bool {
        self.0 & !o.0 == 0
    }
    pub fn meets(self, o: RelSet) -> bool {
        self.0 & o.0 != 0
    }
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    pub fn has(self, rel: u16) -> bool {
        self.meets(RelSet::one(rel))
    }
    pub fn iter(self) -> impl Iterator<Item = u16> {
        (0..128u16).filter(move |r| self.has(*r))
    }
}

/// Which input of a join gives a relation's columns. Relations that none gives are those of rows outside the
/// query: they are there always.
#[derive(Debug, Default)]
pub struct Inputs {
    of: HashMap<u16, u16>,
}

impl Inputs {
    pub fn add(&mut self, input: u16, rels: Vec<u16>) {
        self.of.extend(rels.into_iter().map(|r| (r, input)))
    }

    fn one(&self, rel: u16) -> RelSet {
        self.of.get(&rel).map_or(RelSet::EMPTY, |n| RelSet::one(*n))
    }

    /// The inputs that an expression refers to, also from within its subqueries.
    pub fn refs(&self, e: &Expr) -> RelSet {
        let mut set = RelSet::EMPTY;
        each_column(e, &mut |rel, _, _| set = set.with(self.one(rel)));
        set
    }

    /// The inputs that a tree refers to without being one: those that must be bound before it (LATERAL).
    pub fn needs(&self, tree: &Logical) -> RelSet {
        tree.free().into_keys().fold(RelSet::EMPTY, |s, (rel, _)| s.with(self.one(rel)))
    }
}
