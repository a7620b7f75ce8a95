//! Code for locking rows: FOR UPDATE and FOR SHARE, and the rows that UPDATE and DELETE change.
//!
//! - **K1** Rows that FOR UPDATE names are locked when they are about to go out. After a sort they are read
//!   again by what identifies them, so that what goes out is computed from the row that was locked.
//! - **K2** A row that another transaction changed since the statement's snapshot (READ COMMITTED) is read in
//!   its newest version, and the query's conditions are evaluated again; the other rels keep their rows.
use super::super::op::Op;
use super::super::operand::*;
use super::{Gen, Source, Stored};
use crate::bound::*;
use crate::plan::refs::{RelSet, conjuncts};
use ondol_engine::{LockStrength, Wait};
use ondol_types::{SqlError, SqlResult, sqlstate};

impl<'a> Gen<'a> {
    /// What is carried through a sort so that rows can be locked and computed after it (K1).
    pub(super) fn carried(&mut self, q: &'a Query) -> SqlResult<Vec<(u16, Carried)>> {
        let mut out = Vec::new();
        for (rel, entry) in q.rels.iter().enumerate() {
            let rel = rel as u16;
            match entry.rel {
                Rel::Table(_) => out.push((rel, Carried::Row)),
                _ => out.extend(self.scope()?.used[rel as usize].iter().map(|c| (rel, Carried::Column(*c)))),
            }
        }
        Ok(out)
    }

    /// Brings back the rows that a sorted row was made of.
    pub(super) fn reread(
        &mut self,
        q: &'a Query,
        sort: Sort,
        first: u16,
        carried: &[(u16, Carried)],
        next: Label,
    ) -> SqlResult<()> {
        for (rel, entry) in q.rels.iter().enumerate() {
            let places = || carried.iter().enumerate().filter(move |(_, (r, _))| *r as usize == rel);
            if let Rel::Table(t) = &entry.rel {
                let Some((at, _)) = places().next() else { continue };
                let cursor = self.cursor(t, None);
                let (id, flag, there) = (self.register(), self.register(), self.label());
                self.op(Op::SortCol { dst: Out(id), sort, column: Col(first + at as u16) });
                self.op(Op::IsNull { dst: Out(flag), a: Reg(id) });
                self.op(Op::IfNull { a: Reg(id), to: there });
                self.op(Op::SetRow { cursor, a: Reg(id), to: next });
                self.here(there);
                let scope = self.scope()?;
                scope.sources[rel] = Source::Table { cursor: cursor.0 };
                scope.nulls[rel] = Some(flag);
            } else {
                let at = places()
                    .filter_map(|(n, (_, c))| match c {
                        Carried::Column(c) => Some((*c, first + n as u16)),
                        Carried::Row => None,
                    })
                    .collect();
                let scope = self.scope()?;
                scope.sources[rel] = Source::Stored { store: Stored::Sort(sort), at, row_id: None };
                scope.nulls[rel] = None;
            }
        }
        Ok(())
    }

    /// Locks the rows that FOR UPDATE or FOR SHARE names; what was changed meanwhile is checked again.
    pub(super) fn lock_rows(&mut self, q: &'a Query, next: Label) -> SqlResult<()> {
        let nullable = nullable_rels(q);
        for (rels, strength, wait) in &q.locks {
            for rel in rels {
                let Rel::Table(table) = &q.rels[*rel as usize].rel else { continue };
                if nullable.has(*rel) {
                    let what = match strength {
                        LockStrength::Update => "FOR UPDATE",
                        LockStrength::Share => "FOR SHARE",
                    };
                    return Err(SqlError::new(
                        sqlstate::FEATURE_NOT_SUPPORTED,
                        format!("{what} cannot be applied to the nullable side of an outer join"),
                    ));
                }
                // After a sort the flag only says that the row is there.
                let scope = self.scope()?;
                scope.nulls[*rel as usize] = None;
                let cursor = self.in_cursor(*rel, table, next)?;
                let how = match (strength, wait) {
                    (LockStrength::Update, Wait::Block) => How::UpdateBlock,
                    (LockStrength::Update, Wait::NoWait) => How::UpdateNoWait,
                    (LockStrength::Update, Wait::SkipLocked) => How::UpdateSkip,
                    (LockStrength::Share, Wait::Block) => How::ShareBlock,
                    (LockStrength::Share, Wait::NoWait) => How::ShareNoWait,
                    (LockStrength::Share, Wait::SkipLocked) => How::ShareSkip,
                };
                self.lock(q, cursor, how, next)?;
            }
        }
        Ok(())
    }

    /// Makes sure that the rel's row is in a cursor of its own.
    pub fn in_cursor(
        &mut self,
        rel: u16,
        table: &'a std::sync::Arc<ondol_engine::Table>,
        next: Label,
    ) -> SqlResult<Cur> {
        let source = self.scope()?.sources[rel as usize].clone();
        if let Source::Table { cursor } = source {
            return Ok(Cur(cursor));
        }
        let id = self.register();
        self.row_id(rel, id)?;
        let cursor = self.cursor(table, None);
        self.op(Op::SetRow { cursor, a: Reg(id), to: next });
        self.scope()?.sources[rel as usize] = Source::Table { cursor: cursor.0 };
        Ok(cursor)
    }

    /// Locks the cursor's row and, if it had been changed, checks the query's conditions on its newest
    /// version.
    pub fn lock(&mut self, q: &'a Query, cursor: Cur, how: How, next: Label) -> SqlResult<()> {
        self.write();
        let (changed, ok) = (self.register(), self.label());
        self.op(Op::Lock { changed: Out(changed), cursor, how, gone: next });
        let mut list = Vec::new();
        if let Some(f) = &q.filter {
            conjuncts(f, &mut list);
        }
        for f in &q.from {
            inner_conditions(f, &mut list);
        }
        if !list.is_empty() {
            self.op(Op::IfNot { a: Reg(changed), to: ok });
            self.all_or(&list, next)?;
            self.here(ok);
        } else {
            self.here(ok);
        }
        Ok(())
    }
}

/// What is carried of a rel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carried {
    Row,
    Column(u16),
}

pub(super) fn lock_rels(q: &Query) -> RelSet {
    q.locks.iter().flat_map(|(rels, ..)| rels).fold(RelSet::EMPTY, |s, r| s.with(RelSet::one(*r)))
}

/// The conditions of inner joins that are not below an outer one's nullable side.
fn inner_conditions<'a>(f: &'a From, out: &mut Vec<&'a Expr>) {
    if let From::Join { kind, left, right, on } = f {
        match kind {
            JoinKind::Inner => {
                inner_conditions(left, out);
                inner_conditions(right, out);
                if let Some(on) = on {
                    conjuncts(on, out)
                }
            }
            JoinKind::Left => inner_conditions(left, out),
            JoinKind::Full => {}
        }
    }
}

/// The rels that may stand for NULLs.
fn nullable_rels(q: &Query) -> RelSet {
    fn walk(f: &From, nullable: bool, out: &mut RelSet) {
        match f {
            From::Rel(r) => {
                if nullable {
                    *out = out.with(RelSet::one(*r))
                }
            }
            From::Join { kind, left, right, .. } => {
                walk(left, nullable || *kind == JoinKind::Full, out);
                walk(right, nullable || *kind != JoinKind::Inner, out);
            }
        }
    }
    let mut out = RelSet::EMPTY;
    q.from.iter().for_each(|f| walk(f, false, &mut out));
    out
}
