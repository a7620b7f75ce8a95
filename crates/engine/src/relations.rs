//! The relations of a dictionary: by their names, and what else they are looked for by.
use crate::catalog::{ColumnDef, Relation};
use crate::name::Name;
use crate::sequence::Sequence;
use crate::shared::SharedMap;
use crate::table::Table;
use std::ops::Deref;
use std::sync::Arc;

/// Relations by their names, as [`SharedMap`] has them to be read.
#[derive(Clone, Default)]
pub struct Relations {
    by_name: SharedMap<Name, Relation>,
    /// The names of tables and sequences by their numbers.
    numbers: SharedMap<u32, Name>,
    /// The names of tables by the numbers of their indexes, and of the sequences that go with their columns.
    parts: SharedMap<u32, Name>,
    sequences: SharedMap<Name, Arc<Sequence>>,
    /// The tables that have a constraint of the name, by their numbers.
    constraints: SharedMap<(Name, u32), ()>,
}

impl Deref for Relations {
    type Target = SharedMap<Name, Relation>;
    fn deref(&self) -> &Self::Target {
        &self.by_name
    }
}

/// The numbers of what goes with a table.
fn parts(t: &Table) -> impl Iterator<Item = u32> {
    t.def.indexes.iter().map(|i| i.id).chain(t.def.columns.iter().flat_map(ColumnDef::sequences))
}
/// The names of its constraints.
fn constraints(t: &Table) -> impl Iterator<Item = (Name, u32)> {
    let indexes = t.def.indexes.iter().filter(|i| i.constraint).map(|i| &i.name);
    let checks = t.def.checks.iter().map(|c| &c.name);
    let all = indexes.chain(checks).chain(t.def.foreign.iter().map(|f| &f.name));
    all.map(|name| (Name::new(t.def.schema, &**name), t.def.id))
}

impl Relations {
    /// Gives what had the name.
    pub fn insert(&mut self, name: Name, relation: Relation) -> Option<Relation> {
        let old = self.remove(&name);
        match &relation {
            Relation::Table(t) => {
                self.numbers.insert(t.def.id, name.clone());
                parts(t).for_each(|n| drop(self.parts.insert(n, name.clone())));
                self.constraints.extend(constraints(t).map(|c| (c, ())))
            }
            Relation::Sequence(s) => {
                self.numbers.insert(s.def.id, name.clone());
                self.sequences.insert(name.clone(), s.clone());
            }
            Relation::Index { .. } | Relation::View(_) => {}
        }
        self.by_name.insert(name, relation);
        old
    }
    /// Gives what had the name.
    pub fn remove(&mut self, name: &Name) -> Option<Relation> {
        let old = self.by_name.remove(name)?;
        // What has another name now may have been put there before.
        let forget = |from: &mut SharedMap<u32, Name>, number: u32| {
            if from.get(&number) == Some(name) {
                from.remove(&number);
            }
        };
        match &old {
            Relation::Table(t) => {
                let is_elsewhere = self.numbers.get(&t.def.id).is_some_and(|n| n != name);
                forget(&mut self.numbers, t.def.id);
                parts(t).for_each(|n| forget(&mut self.parts, n));
                let moved = match is_elsewhere {
                    true => self.table_by_id(t.def.id).map_or(vec![], |t| constraints(t).collect()),
                    false => vec![],
                };
                constraints(t).filter(|c| !moved.contains(c)).for_each(|c| {
                    self.constraints.remove(&c);
                })
            }
            Relation::Sequence(s) => {
                forget(&mut self.numbers, s.def.id);
                self.sequences.remove(name);
            }
            Relation::Index { .. } | Relation::View(_) => {}
        }
        Some(old)
    }
    pub fn retain(&mut self, mut is_kept: impl FnMut(&Name, &Relation) -> bool) {
        let gone: Vec<Name> = self.iter().filter(|(n, r)| !is_kept(n, r)).map(|(n, _)| n.clone()).collect();
        gone.iter().for_each(|n| drop(self.remove(n)))
    }

    pub fn table_by_id(&self, id: u32) -> Option<&Arc<Table>> {
        self.get(self.numbers.get(&id)?)?.table().filter(|t| t.def.id == id)
    }
    pub fn sequence_by_id(&self, id: u32) -> Option<&Arc<Sequence>> {
        self.get(self.numbers.get(&id)?)?.sequence().filter(|s| s.def.id == id)
    }
    /// The table that has the index of the number, or the sequence of one of its columns.
    pub fn table_with(&self, part: u32) -> Option<&Arc<Table>> {
        self.get(self.parts.get(&part)?)?.table()
    }
    pub fn sequences(&self) -> &SharedMap<Name, Arc<Sequence>> {
        &self.sequences
    }
    /// Whether another table of the schema than that of the number has a constraint of the name.
    pub fn is_constraint(&self, name: &Name, besides: u32) -> bool {
        let of_name = self.constraints.from(&(name.clone(), 0)).take_while(|((n, _), ())| n == name);
        of_name.into_iter().any(|((_, table), ())| *table != besides)
    }
}

impl Extend<(Name, Relation)> for Relations {
    fn extend<I: IntoIterator<Item = (Name, Relation)>>(&mut self, entries: I) {
        entries.into_iter().for_each(|(n, r)| drop(self.insert(n, r)))
    }
}

impl<'a> IntoIterator for &'a Relations {
    type Item = (&'a Name, &'a Relation);
    type IntoIter = crate::shared::Iter<'a, Name, Relation>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
