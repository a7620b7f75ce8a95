//! Code for locking rows: FOR UPDATE and FOR SHARE, and the rows that UPDATE and DELETE change.
//!
//! - **K1** Rows that FOR UPDATE names are locked when they are about to go out. After a sort they are read
//!   again by what identifies them, so that what goes out is computed from the row that was locked.
//! - **K2** A row that another transaction changed since the statement's snapshot (READ COMMITTED) is read in
//!   its newest version, and the query's conditions are evaluated again; the other rels keep their rows.
use super::super::op::Op;
use super::super::operand::*;
use super::join::Kept;
use super::{Gen, Source, Stored};
use crate::plan::logical::{Expr, Locked};
use ondol_engine::{LockStrength, Table, Wait};
use ondol_types::SqlResult;
use std::sync::Arc;

impl<'a> Gen<'a> {
    /// What is carried of relations through a sort so that rows can be locked and computed after it (K1).
    pub(super) fn identities(&mut self, rels: &[u16]) -> SqlResult<Vec<(u16, Kept)>> {
        let mut out = Vec::new();
        for rel in rels {
            let place = self.place(*rel)?;
            match place.table {
                Some(_) => out.push((*rel, Kept::Row)),
                None => out.extend(place.used.iter().map(|c| (*rel, Kept::Column(*c)))),
            }
        }
        Ok(out)
    }

    /// Brings back the rows that a sorted row was made of.
    pub(super) fn reread(
        &mut self,
        rels: &[u16],
        sort: Sort,
        carried: &[(u16, Kept)],
        next: Label,
    ) -> SqlResult<()> {
        for rel in rels {
            let places = || carried.iter().enumerate().filter(move |(_, (r, _))| r == rel);
            if let Some(t) = self.place(*rel)?.table {
                let Some((at, _)) = places().next() else { continue };
                let cursor = self.cursor(t, None);
                let (id, flag, there) = (self.register(), self.register(), self.label());
                self.op(Op::SortCol { dst: Out(id), sort, column: Col(at as u16) });
                self.op(Op::IsNull { dst: Out(flag), a: Reg(id) });
                self.op(Op::IfNull { a: Reg(id), to: there });
                self.op(Op::SetRow { cursor, a: Reg(id), to: next });
                self.here(there);
                let place = self.place(*rel)?;
                place.source = Source::Table { cursor: cursor.0 };
                place.null = Some(flag);
            } else {
                let at = places()
                    .filter_map(|(n, (_, c))| match c {
                        Kept::Column(c) => Some((*c, n as u16)),
                        Kept::Row => None,
                    })
                    .collect();
                let place = self.place(*rel)?;
                place.source = Source::Stored { store: Stored::Sort(sort), at, row_id: None };
                place.null = None;
            }
        }
        Ok(())
    }

    /// Locks the rows that FOR UPDATE or FOR SHARE names; what was changed meanwhile is checked again.
    pub(super) fn lock_rows(
        &mut self,
        locks: &'a [Locked],
        recheck: &'a [Expr],
        next: Label,
    ) -> SqlResult<()> {
        for lock in locks {
            for rel in &lock.rels {
                let place = self.place(*rel)?;
                let Some(table) = place.table else { continue };
                // After a sort the flag only says that the row is there; the nullable sides of outer joins
                // are not locked.
                place.null = None;
                let cursor = self.in_cursor(*rel, table, next)?;
                let how = match (lock.strength, lock.wait) {
                    (LockStrength::Update, Wait::Block) => How::UpdateBlock,
                    (LockStrength::Update, Wait::NoWait) => How::UpdateNoWait,
                    (LockStrength::Update, Wait::SkipLocked) => How::UpdateSkip,
                    (LockStrength::NoKeyUpdate, Wait::Block) => How::NoKeyBlock,
                    (LockStrength::NoKeyUpdate, Wait::NoWait) => How::NoKeyNoWait,
                    (LockStrength::NoKeyUpdate, Wait::SkipLocked) => How::NoKeySkip,
                    (LockStrength::KeyShare, Wait::Block) => How::KeyBlock,
                    (LockStrength::KeyShare, Wait::NoWait) => How::KeyNoWait,
                    (LockStrength::KeyShare, Wait::SkipLocked) => How::KeySkip,
                    (LockStrength::Share, Wait::Block) => How::ShareBlock,
                    (LockStrength::Share, Wait::NoWait) => How::ShareNoWait,
                    (LockStrength::Share, Wait::SkipLocked) => How::ShareSkip,
                };
                self.lock(recheck, cursor, how, next)?;
            }
        }
        Ok(())
    }

    /// Makes sure that the relation's row is in a cursor of its own.
    pub fn in_cursor(&mut self, rel: u16, table: &'a Arc<Table>, next: Label) -> SqlResult<Cur> {
        if let Source::Table { cursor } = self.place(rel)?.source {
            return Ok(Cur(cursor));
        }
        let id = self.register();
        self.row_id(rel, id)?;
        let cursor = self.cursor(table, None);
        self.op(Op::SetRow { cursor, a: Reg(id), to: next });
        self.put(rel, Source::Table { cursor: cursor.0 })?;
        Ok(cursor)
    }

    /// Locks the cursor's row and, if it had been changed, checks the query's conditions on its newest
    /// version.
    pub fn lock(&mut self, recheck: &'a [Expr], cursor: Cur, how: How, next: Label) -> SqlResult<()> {
        self.write();
        let (changed, ok) = (self.register(), self.label());
        self.op(Op::Lock { changed: Out(changed), cursor, how, gone: next });
        if !recheck.is_empty() {
            self.op(Op::IfNot { a: Reg(changed), to: ok });
            let list: Vec<&'a Expr> = recheck.iter().collect();
            self.all_or(&list, next)?;
        }
        self.here(ok);
        Ok(())
    }
}
