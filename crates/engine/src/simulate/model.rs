//! What a history must look like: the truth that the engine is held against.
//!
//! - **M1** A life's commits, ordered by their timestamps, turn the state that the life began with into the
//!   state of any moment. Each change names the row it found, so that a lost update shows as a change of
//!   something else.
//! - **M2** After a recovery the content is that of the commits below the recovered clock, and the clock is
//!   above everything that was promised: acknowledged as durable, or shown by a reader of durable data.
//! - **M3** What a statement read is the state at its snapshot and its transaction's own changes; what a
//!   serializable transaction read is also the state just before its own commit.
use crate::IndexKind;
use std::collections::BTreeMap;

/// A row, with its text as length and checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelRow {
    /// Names the row for good, and is never given twice.
    pub uid: i64,
    pub k: i64,
    pub g: Option<i32>,
    pub s: Option<(u32, u32)>,
    /// Index into [`CODES`].
    pub code: u8,
    pub n: i64,
}

/// Values of the char(4) column, without the padding; the last ones are longer in bytes than in characters.
pub const CODES: [&str; 6] = ["", "a", "ab", "wxyz", "äöüß", "日本語"];

/// Index shapes a table may have: (columns, unique, kind).
pub const SHAPES: [(&[usize], bool, IndexKind); 9] = [
    (&[1], true, IndexKind::Btree),
    (&[0], true, IndexKind::Hash),
    (&[2], false, IndexKind::Btree),
    (&[3], false, IndexKind::Hash),
    (&[2, 5], false, IndexKind::Btree),
    (&[4, 3], false, IndexKind::Btree),
    (&[3], true, IndexKind::Btree),
    (&[3], true, IndexKind::Hash),
    (&[2, 1], false, IndexKind::Crtree { bits: 8 }),
];

impl ModelRow {
    /// Whether two rows have the same key of a shape: NULL is equal to nothing.
    fn equal(&self, other: &ModelRow, shape: u8) -> bool {
        SHAPES[shape as usize].0.iter().all(|c| match c {
            0 => self.uid == other.uid,
            1 => self.k == other.k,
            2 => self.g.is_some() && self.g == other.g,
            3 => self.s.is_some() && self.s == other.s,
            4 => self.code == other.code,
            _ => self.n == other.n,
        })
    }
}

pub fn table_name(table: u8) -> String {
    format!("t{table}")
}
pub fn index_name(table: u8, shape: u8) -> String {
    format!("t{table}_{shape}")
}

/// The rows that a statement asked for.
#[derive(Clone, Copy, Debug)]
pub enum Asked {
    All,
    Row(i64),
    Key(i64),
    Groups(i32, i32),
}
impl Asked {
    pub fn has(self, r: &ModelRow) -> bool {
        match self {
            Asked::All => true,
            Asked::Row(uid) => r.uid == uid,
            Asked::Key(k) => r.k == k,
            Asked::Groups(low, high) => r.g.is_some_and(|g| (low..=high).contains(&g)),
        }
    }
}

/// A change of a transaction.
#[derive(Clone, Debug)]
pub enum Effect {
    Put {
        table: u8,
        uid: i64,
        old: Option<ModelRow>,
        new: Option<ModelRow>,
    },
    /// The row's number alone, whatever it was.
    Set {
        table: u8,
        uid: i64,
        n: i64,
    },
    /// With the number of its heaps, which tells the lives of a table apart.
    Create {
        table: u8,
        heaps: u32,
    },
    Truncate {
        table: u8,
        heaps: u32,
    },
    /// Its rows were copied from one heap to another.
    Copy {
        table: u8,
        from: u32,
        heaps: u32,
    },
    Drop {
        table: u8,
    },
    CreateIndex {
        table: u8,
        shape: u8,
    },
    DropIndex {
        table: u8,
        shape: u8,
    },
}
impl Effect {
    fn table(&self) -> u8 {
        match *self {
            Effect::Put { table, .. }
            | Effect::Set { table, .. }
            | Effect::Create { table, .. }
            | Effect::Truncate { table, .. }
            | Effect::Copy { table, .. }
            | Effect::Drop { table }
            | Effect::CreateIndex { table, .. }
            | Effect::DropIndex { table, .. } => table,
        }
    }
    /// Whether the engine has anything to log for it.
    pub fn changes(&self) -> bool {
        !matches!(self, Effect::Put { old, new, .. } if old == new)
    }
}

/// What a statement saw.
#[derive(Clone, Debug)]
pub struct Seen {
    pub who: usize,
    /// Its snapshot.
    pub at: u64,
    /// What its transaction had done before.
    pub own: Vec<Effect>,
    pub table: u8,
    pub heaps: u32,
    pub asked: Asked,
    pub rows: Vec<ModelRow>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    Durable,
    Asynchronous,
    /// Once its token tells so.
    Held,
    /// The commit's outcome was an error.
    None,
}

#[derive(Clone, Debug)]
pub struct Commit {
    pub who: usize,
    pub ts: u64,
    pub effects: Vec<Effect>,
    /// What it saw, where it was serializable.
    pub seen: Vec<Seen>,
    pub promise: Promise,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelTable {
    pub heaps: u32,
    pub rows: BTreeMap<i64, ModelRow>,
    pub shapes: Vec<u8>,
}

/// Which heaps were copied from which.
type Copies = BTreeMap<u32, u32>;

/// The heaps that these were copied from in the end.
fn first(mut heaps: u32, copies: &Copies) -> u32 {
    while let Some(from) = copies.get(&heaps) {
        heaps = *from
    }
    heaps
}

/// All tables.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    pub tables: BTreeMap<u8, ModelTable>,
}

impl State {
    fn apply(&mut self, e: &Effect) -> Result<(), String> {
        let t = e.table();
        match e {
            Effect::Create { heaps, .. } => {
                let made = ModelTable { heaps: *heaps, ..ModelTable::default() };
                if self.tables.insert(t, made).is_some() {
                    return Err(format!("table {t} is created and was there"));
                }
                return Ok(());
            }
            Effect::Drop { .. } => {
                return self
                    .tables
                    .remove(&t)
                    .map(drop)
                    .ok_or(format!("table {t} is dropped and was not there"));
            }
            _ => {}
        }
        let Some(table) = self.tables.get_mut(&t) else {
            return Err(format!("{e:?} of a table that is not there"));
        };
        match *e {
            Effect::Put { uid, old, new, .. } => {
                let found = match new {
                    Some(r) => table.rows.insert(uid, r),
                    None => table.rows.remove(&uid),
                };
                if found != old {
                    return Err(format!(
                        "a change of row {uid} of table {t} found {old:?} where {found:?} was"
                    ));
                }
            }
            Effect::Set { uid, n, .. } => match table.rows.get_mut(&uid) {
                Some(row) => row.n = n,
                None => return Err(format!("row {uid} of table {t} was set to {n} and is not there")),
            },
            Effect::Truncate { heaps, .. } => {
                table.rows.clear();
                table.heaps = heaps
            }
            Effect::Copy { from, heaps, .. } => {
                if table.heaps != from {
                    return Err(format!(
                        "table {t} was copied from {from}, and its heaps are {}",
                        table.heaps
                    ));
                }
                table.heaps = heaps
            }
            Effect::CreateIndex { shape, .. } => {
                if table.shapes.contains(&shape) {
                    return Err(format!("index {shape} of table {t} is created and was there"));
                }
                table.shapes.push(shape);
                table.shapes.sort_unstable()
            }
            Effect::DropIndex { shape, .. } => {
                if !table.shapes.contains(&shape) {
                    return Err(format!("index {shape} of table {t} is dropped and was not there"));
                }
                table.shapes.retain(|s| *s != shape)
            }
            Effect::Create { .. } | Effect::Drop { .. } => {}
        }
        Ok(())
    }

    /// One commit, and that it left unique keys unique.
    fn commit(&mut self, c: &Commit) -> Result<(), String> {
        let told = |e: String| format!("commit {} of client {}: {e}", c.ts, c.who);
        for e in &c.effects {
            self.apply(e).map_err(told)?
        }
        for e in &c.effects {
            let Effect::Put { table, new: Some(new), .. } = e else { continue };
            let Some(t) = self.tables.get(table) else { continue };
            if t.rows.get(&new.uid) != Some(new) {
                continue;
            }
            for shape in t.shapes.iter().filter(|s| SHAPES[**s as usize].1) {
                let same: Vec<_> = t.rows.values().filter(|r| r.equal(new, *shape)).collect();
                if same.len() > 1 {
                    return Err(told(format!("the unique key {shape} of table {table} is not: {same:?}")));
                }
            }
        }
        Ok(())
    }

    /// What a statement that asked so must see. `copies`: which heaps were copied from which.
    fn expected(&self, seen: &Seen, copies: &Copies) -> Result<Vec<ModelRow>, String> {
        let mut own = State::default();
        let table = match self.tables.get(&seen.table) {
            Some(t) => t.clone(),
            None => ModelTable::default(),
        };
        own.tables.insert(seen.table, table);
        for e in seen.own.iter().filter(|e| e.table() == seen.table) {
            match e {
                // The state stands for another life of the table: only the present one counts.
                Effect::Create { heaps, .. } => {
                    own.tables.insert(seen.table, ModelTable { heaps: *heaps, ..ModelTable::default() });
                }
                Effect::Drop { .. } => drop(own.tables.insert(seen.table, ModelTable::default())),
                Effect::Put { uid, new, .. } => {
                    let Some(t) = own.tables.get_mut(&seen.table) else { continue };
                    // A row of the table's present life, written while the snapshot is of a former one.
                    let is_former = first(t.heaps, copies) != first(seen.heaps, copies);
                    if is_former && seen.own_heaps().is_none_or(|h| h == seen.heaps) {
                        *t = ModelTable { heaps: seen.heaps, ..ModelTable::default() }
                    }
                    match new {
                        Some(r) => t.rows.insert(*uid, *r),
                        None => t.rows.remove(uid),
                    };
                }
                Effect::CreateIndex { .. } | Effect::DropIndex { .. } => {}
                e => own.apply(e)?,
            }
        }
        let t = &own.tables[&seen.table];
        // Definitions are not part of a snapshot: who reads a table that was truncated or made anew since
        // reads the new, of which the snapshot shows nothing. A copy shows all, or is refused (beside/B4).
        if t.heaps != seen.heaps && first(t.heaps, copies) != first(seen.heaps, copies) {
            return Ok(vec![]);
        }
        Ok(t.rows.values().filter(|r| seen.asked.has(r)).copied().collect())
    }
}

impl Seen {
    fn own_heaps(&self) -> Option<u32> {
        self.own.iter().rev().find_map(|e| match *e {
            Effect::Create { table, heaps } | Effect::Truncate { table, heaps } if table == self.table => {
                Some(heaps)
            }
            _ => None,
        })
    }

    fn check(&self, state: &State, copies: &Copies, when: &str) -> Result<(), String> {
        let mut rows = self.rows.clone();
        rows.sort_by_key(|r| r.uid);
        let expected = state.expected(self, copies)?;
        if rows == expected {
            return Ok(());
        }
        let missing: Vec<_> = expected.iter().filter(|r| !rows.contains(r)).collect();
        let wrong: Vec<_> = rows.iter().filter(|r| !expected.contains(r)).collect();
        Err(format!(
            "client {} asked table {} (heaps {}) for {:?} at snapshot {} and saw {} rows where {when} has {}; missing {missing:?}, \
             wrong {wrong:?}, its own changes {:?}",
            self.who,
            self.table,
            self.heaps,
            self.asked,
            self.at,
            rows.len(),
            expected.len(),
            self.own
        ))
    }
}

/// What happened in one life.
#[derive(Default)]
pub struct Journal {
    pub commits: Vec<Commit>,
    pub seen: Vec<Seen>,
    /// Commits up to here were promised.
    pub promised: u64,
    /// The newest asynchronously acknowledged commit.
    pub asynchronous: u64,
    /// The newest timestamp that the life gave out.
    pub newest: u64,
}

/// What became of a life's commits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fate {
    pub recovered: u64,
    pub lost: u64,
    pub lost_asynchronous: u64,
    pub seen: u64,
}

impl Journal {
    /// Checks all that was seen and done (M1, M3); gives the state of the whole life.
    pub fn replay(&mut self, from: &State) -> Result<State, String> {
        self.commits.sort_by_key(|c| c.ts);
        if let Some(w) = self.commits.windows(2).find(|w| w[0].ts == w[1].ts) {
            return Err(format!("clients {} and {} both have commit {}", w[0].who, w[1].who, w[0].ts));
        }
        let mut due: Vec<(u64, &Seen, bool)> = self.seen.iter().map(|s| (s.at, s, false)).collect();
        for c in &self.commits {
            due.extend(c.seen.iter().map(|s| (c.ts - 1, s, true)))
        }
        due.sort_by_key(|d| d.0);
        let mut due = due.into_iter().peekable();
        let mut state = from.clone();
        let copy = |e: &Effect| match *e {
            Effect::Copy { from, heaps, .. } => Some((heaps, from)),
            _ => None,
        };
        let copies: Copies = self.commits.iter().flat_map(|c| &c.effects).filter_map(copy).collect();
        let check = |state: &State, d: (u64, &Seen, bool)| {
            let (at, seen, commit) = d;
            let when = match commit {
                true => format!("the state before its serializable commit {}", at + 1),
                false => "its snapshot".to_string(),
            };
            seen.check(state, &copies, &when)
        };
        for c in &self.commits {
            while let Some(d) = due.next_if(|d| d.0 < c.ts) {
                check(&state, d)?
            }
            state.commit(c)?
        }
        for d in due {
            check(&state, d)?
        }
        Ok(state)
    }

    /// The state that recovery to `clock` must have brought back (M2).
    pub fn recovered(&self, from: &State, clock: u64) -> Result<(State, Fate), String> {
        if clock <= self.promised {
            return Err(format!(
                "recovered up to commit {}, but commits up to {} were acknowledged",
                clock - 1,
                self.promised
            ));
        }
        if clock > self.newest + 1 {
            return Err(format!("recovered up to commit {}, but only {} were made", clock - 1, self.newest));
        }
        let mut state = from.clone();
        let mut fate = Fate { seen: self.seen.len() as u64, ..Fate::default() };
        for c in &self.commits {
            if c.ts < clock {
                state.commit(c)?;
                fate.recovered += 1
            } else {
                fate.lost += 1;
                fate.lost_asynchronous += (c.promise == Promise::Asynchronous) as u64
            }
        }
        Ok((state, fate))
    }
}
