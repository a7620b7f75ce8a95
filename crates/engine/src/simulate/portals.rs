//! Portals in the workload: opened between a transaction's statements, and read a few rows at a time.
//!
//! What a portal gives as a whole is what one statement would have given when it was opened: it is noted as
//! one thing seen, at the snapshot and with the transaction's own changes of that moment (see
//! [`super::model`]). A portal that is closed before it was read out says nothing.
use super::model::{Asked, ModelRow, Seen, table_name};
use super::workload::{Client, Did, Outcome, decode, kind};
use crate::connection::{Connection, Scan};
use crate::portal::Portal;
use crate::table::{IndexScan, Table};
use ondol_types::{SqlResult, ValueRef};
use std::ops::Bound;
use std::sync::Arc;

/// Portals that a transaction has open at most.
const MOST: usize = 3;

pub struct OpenPortal {
    portal: Portal,
    reading: Reading,
}

/// How far a portal was read.
struct Reading {
    table: Arc<Table>,
    way: Way,
    /// What was seen so far.
    seen: Seen,
    done: bool,
}

/// How its rows are found.
enum Way {
    Heap(Scan),
    Groups(Box<IndexScan>),
}

impl Reading {
    /// The next row that was asked for.
    fn next(&mut self, c: &Connection) -> SqlResult<Option<ModelRow>> {
        let mut bytes = vec![0; self.table.layout.row_size];
        loop {
            let found = match &mut self.way {
                Way::Heap(scan) => scan.next(c, &mut bytes)?,
                Way::Groups(scan) => loop {
                    let Some(oid) = scan.next(c)? else { break None };
                    if !c.read(&self.table, oid, &mut bytes) {
                        continue;
                    }
                    // An entry stands for the row only while the row has its key.
                    let g = decode(c, &self.table, &bytes).g;
                    let mut key = vec![];
                    let index = self.table.indexes.iter().find(|i| i.def.name.ends_with("_2"));
                    let Some(index) = index else { break None };
                    index.key.encode(&[g.map_or(ValueRef::Null, ValueRef::Int4)], &mut key);
                    if key == scan.key {
                        break Some(oid);
                    }
                },
            };
            if found.is_none() {
                return Ok(None);
            }
            let row = decode(c, &self.table, &bytes);
            if self.seen.asked.has(&row) {
                return Ok(Some(row));
            }
        }
    }
}

impl Client {
    /// Opens a portal now and then, and reads on in those that are open.
    pub(super) fn use_portals(&mut self) -> Outcome<Did<()>> {
        self.portals.retain(|p| !p.portal.is_closed());
        if self.portals.len() < MOST && self.p.chance(0.2) {
            let table = self.p.below(self.shared.tables as u64) as u8;
            if self.c.catalog().table(table_name(table)).is_some()
                && let Did::Failed = self.open_portal(table)?
            {
                return Ok(Did::Failed);
            }
        }
        for i in 0..self.portals.len() {
            let rows = self.p.below(4);
            if let Did::Failed = self.read_portal(i, rows)? {
                return Ok(Did::Failed);
            }
        }
        self.drop_done();
        Ok(Did::Done(()))
    }

    /// Reads all that are open to their ends.
    pub(super) fn read_portals_out(&mut self) -> Outcome<Did<()>> {
        self.portals.retain(|p| !p.portal.is_closed());
        for i in 0..self.portals.len() {
            if let Did::Failed = self.read_portal(i, u64::MAX)? {
                return Ok(Did::Failed);
            }
        }
        self.drop_done();
        Ok(Did::Done(()))
    }

    /// The transaction is over, and has closed them.
    pub(super) fn close_portals(&mut self) -> Outcome<()> {
        match self.portals.drain(..).all(|p| p.portal.is_closed()) {
            true => Ok(()),
            false => Err("a portal is open after its transaction".into()),
        }
    }

    fn drop_done(&mut self) {
        let (done, open): (Vec<_>, Vec<_>) = self.portals.drain(..).partition(|p| p.reading.done);
        self.portals = open;
        for p in done {
            self.shared.count("portals read out");
            self.seen.push(p.reading.seen)
        }
    }

    fn open_portal(&mut self, table: u8) -> Outcome<Did<()>> {
        let own = self.effects.clone();
        let by_index = self.p.chance(0.5);
        let low = self.p.below(6) as i32;
        let opened = self.on(table, false, |me, t| {
            let portal = me.c.open_portal(std::slice::from_ref(t))?;
            let index = t.indexes.iter().find(|i| i.def.name.ends_with("_2")).filter(|_| by_index);
            let (asked, way) = match index {
                Some(i) => {
                    let (mut a, mut b) = (vec![], vec![]);
                    i.key.encode(&[ValueRef::Int4(low)], &mut a);
                    i.key.encode(&[ValueRef::Int4(low + 3)], &mut b);
                    let mut scan = IndexScan::default();
                    scan.seek(&me.c, i, Bound::Included(&a), Bound::Included(&b), false)?;
                    (Asked::Groups(low, low + 3), Way::Groups(Box::new(scan)))
                }
                None => {
                    let mut scan = Scan::default();
                    scan.start(&me.c, t);
                    (Asked::All, Way::Heap(scan))
                }
            };
            let at = me.c.session.view.snapshot;
            let seen = Seen { who: me.who, at, own: own.clone(), table, heaps: t.heaps, asked, rows: vec![] };
            let reading = Reading { table: t.clone(), way, seen, done: false };
            Ok(OpenPortal { portal, reading })
        })?;
        match opened {
            Did::Done(portal) => {
                self.shared.count("portals opened");
                self.portals.push(portal);
                Ok(Did::Done(()))
            }
            Did::Failed => Ok(Did::Failed),
        }
    }

    fn read_portal(&mut self, i: usize, rows: u64) -> Outcome<Did<()>> {
        let OpenPortal { portal, reading } = &mut self.portals[i];
        let read = self.c.read_portal(portal, false, |c| {
            for _ in 0..rows {
                match reading.next(c)? {
                    Some(row) => reading.seen.rows.push(row),
                    None => {
                        reading.done = true;
                        break;
                    }
                }
            }
            Ok(())
        });
        match read {
            Ok(()) => Ok(Did::Done(())),
            Err(e) => {
                self.shared.count(kind(&e));
                self.shared.permit(&e).map_err(|e| format!("reading on in a portal: {e}"))?;
                Ok(Did::Failed)
            }
        }
    }
}
