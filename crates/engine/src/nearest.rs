//! Rows by their distance from a point, out of a CR-tree: the nearest first.
//!
//! - **E1** A row is given once all that may be nearer was met: its distance is that of the version which the
//!   statement sees, and is not above the distance up to which the tree has given everything.
//! - **E2** Nobody stays pinned between two rows: the tree is searched for a few more than are wanted now,
//!   and from its root again for four times as many when these were given. A row that was met is not read
//!   again.
//! - **E3** A row without a distance, one of its columns being NULL, comes at the end. Those of which all the
//!   index's columns are NULL have no entry, and the table is looked through for them.
use crate::connection::{Connection, Scan};
use crate::error;
use crate::row;
use crate::table::{Table, TableIndex};
use ondol_base::oid::Oid;
use ondol_base::ordered::Ordered;
use ondol_base::sim::mutated;
use ondol_index::Seen;
use ondol_index::crtree::{MOST, Near, Nearest, Rect};
use ondol_kernel::transaction::Newest;
use ondol_types::coordinate::{coordinate, distance};
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::collections::{BinaryHeap, HashSet};
use std::sync::Arc;

/// How many rows the first search is for.
const FIRST: usize = 16;
/// No search is for more, unless as many are as near.
const MOST_AT_ONCE: usize = 1 << 20;

/// What is looked for: the rows in a box of an index's columns, by the distance in some of these.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// By column of the index; those that do not count are not looked at.
    pub to: [f64; MOST],
    /// The columns that count, a bit for each; none where the distance is NULL.
    pub counted: u32,
    pub within: Rect,
    /// The box has a side: no row of which all columns are NULL is in it.
    pub is_bounded: bool,
}

#[derive(Default)]
enum Phase {
    #[default]
    Over,
    /// Those with a distance.
    Near,
    /// Those without, met in the index, up to the next to be given.
    Met(usize),
    /// Those that are not in the index.
    Others(Box<Scan>),
}

/// The rows of one search, and memory for the next.
#[derive(Default)]
pub struct Neighbours {
    wanted: Option<Wanted>,
    phase: Phase,
    search: Nearest,
    /// Rows with their distances, the nearest last, those that were given not among them.
    ready: Vec<(f64, Oid)>,
    /// Everything up to this distance was met (E1).
    reached: f64,
    batch: usize,
    met: HashSet<u64>,
    without: Vec<Oid>,
    nodes: u64,
}

impl Neighbours {
    pub fn start(&mut self, wanted: Wanted) {
        self.wanted = Some(wanted);
        self.phase = Phase::Near;
        self.ready.clear();
        self.met.clear();
        self.without.clear();
        (self.reached, self.batch, self.nodes) = (f64::NEG_INFINITY, FIRST, 0)
    }
    /// Nodes of the tree that were looked at since this was asked last, those looked at again included.
    pub fn take_nodes(&mut self) -> u64 {
        std::mem::take(&mut self.nodes)
    }
    /// Of the heap, for what was met.
    pub fn memory_bytes(&self) -> usize {
        self.ready.capacity() * size_of::<(f64, Oid)>()
            + self.met.capacity() * (size_of::<u64>() + 1)
            + self.without.capacity() * size_of::<Oid>()
    }

    /// Copies the next row into `row` (of the layout's row size).
    pub fn next(
        &mut self,
        connection: &Connection,
        table: &Arc<Table>,
        index: &TableIndex,
        row: &mut [u8],
    ) -> SqlResult<Option<Oid>> {
        let Some(wanted) = self.wanted else { return Ok(None) };
        loop {
            match &mut self.phase {
                Phase::Over => return Ok(None),
                Phase::Near => match self.ready.last() {
                    Some((distance, oid)) if *distance <= self.reached => {
                        let oid = *oid;
                        self.ready.pop();
                        if connection.read(table, oid, row) {
                            return Ok(Some(oid));
                        }
                    }
                    _ if self.reached < f64::INFINITY => self.meet(&wanted, connection, table, index, row)?,
                    _ => self.phase = Phase::Met(0),
                },
                Phase::Met(at) => match self.without.get(*at) {
                    Some(oid) => {
                        *at += 1;
                        if connection.read(table, *oid, row) {
                            return Ok(Some(*oid));
                        }
                    }
                    None if wanted.is_bounded => self.phase = Phase::Over,
                    None => {
                        let mut scan = Scan::default();
                        scan.start(connection, table);
                        self.phase = Phase::Others(Box::new(scan))
                    }
                },
                Phase::Others(scan) => {
                    let Some(oid) = scan.next(connection, row)? else {
                        self.phase = Phase::Over;
                        continue;
                    };
                    // E3
                    if index.key.parts.iter().all(|part| table.layout.is_null(row, part.0)) {
                        return Ok(Some(oid));
                    }
                }
            }
        }
    }

    /// Searches the tree for the next rows (E2).
    fn meet(
        &mut self,
        wanted: &Wanted,
        connection: &Connection,
        table: &Table,
        index: &TableIndex,
        row: &mut [u8],
    ) -> SqlResult<()> {
        let Some(tree) = index.index.as_crtree() else {
            let message = format!("neighbours are asked of index {}, which has no points", index.def.name);
            return Err(SqlError::new(sqlstate::INTERNAL_ERROR, message));
        };
        let serializable = connection.session.is_serializable() && !mutated("neighbours_forgotten");
        let (mut seen, mut touched): (Vec<Seen>, Vec<Oid>) = (vec![], vec![]);
        let batch = self.batch;
        // The distances of the nearest that were met, the farthest on top.
        let mut nearest: BinaryHeap<Ordered> =
            self.ready.iter().rev().take(batch).map(|(distance, _)| Ordered(*distance)).collect();
        let mut scratch = vec![];
        let Neighbours { search, ready, met, without, .. } = self;
        let limit = |nearest: &BinaryHeap<Ordered>| match nearest.peek() {
            Some(farthest) if nearest.len() >= batch => farthest.0,
            _ => f64::INFINITY,
        };
        {
            let guard = connection.session.pin();
            let near = Near { to: wanted.to, counted: wanted.counted, within: wanted.within };
            let each = &mut |_: f64, oid: Oid| {
                if !met.insert(oid.bits()) {
                    return limit(&nearest);
                }
                if serializable {
                    touched.push(oid)
                }
                if connection.read(table, oid, row) {
                    match distance_of(wanted, connection, table, index, row, &mut scratch) {
                        Some(distance) => {
                            ready.push((distance, oid));
                            nearest.push(Ordered(distance));
                            if nearest.len() > batch {
                                nearest.pop();
                            }
                        }
                        None => without.push(oid),
                    }
                }
                limit(&nearest)
            };
            self.reached = tree.nearest(&guard, &near, search, each, serializable.then_some(&mut seen));
        }
        self.nodes += self.search.nodes();
        self.batch = (batch * 4).min(MOST_AT_ONCE);
        self.ready.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
        if serializable {
            connection.session.remember_nodes(&index.store, &mut seen).map_err(error::kernel)?;
            for oid in touched {
                connection.session.remember_row(oid).map_err(error::kernel)?
            }
        }
        Ok(())
    }
}

/// The distance of a row that the statement reads; `None` where it is NULL.
fn distance_of(
    wanted: &Wanted,
    connection: &Connection,
    table: &Table,
    index: &TableIndex,
    row: &[u8],
    scratch: &mut Vec<u8>,
) -> Option<f64> {
    if wanted.counted == 0 {
        return None;
    }
    let (mut pairs, mut count) = ([(0.0, 0.0); MOST], 0);
    let strings = Newest(&connection.session);
    for (n, part) in index.key.parts.iter().enumerate().filter(|(n, _)| wanted.counted >> n & 1 == 1) {
        scratch.clear();
        // No column that has coordinates has its value in another slot.
        let value = row::column(&table.layout, row, part.0, &strings, scratch);
        pairs[count] = (coordinate(value)?, wanted.to[n]);
        count += 1
    }
    Some(distance(pairs[..count].iter().copied()))
}
