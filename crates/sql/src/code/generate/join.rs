//! Code for joins.
//!
//! - **N1** A LEFT join's consumer is emitted once; for a row without a match the rels of the right side are
//!   marked as NULL (a register each) and the same code is entered once more.
//! - **N2** A FULL join's consumer is a subroutine, called for matches, for left rows without one, and for
//!   right rows without one.
//! - **N3** A side that is kept (list or hash table) is gathered once in an execution, unless it or its keys
//!   in a hash table use columns of rows outside it, or the join counts its rows' matches (N2): then each
//!   time that it is come to.
//! - **N4** A semi or anti join leaves its inner side at the first match, out of whatever loops that has.
use super::super::op::Op;
use super::super::operand::*;
use super::{Consume, Gen, Source, Stored, internal};
use crate::plan::logical::{Expr, JoinKind};
use crate::plan::physical::{Method, Node, Operator};
use ondol_types::SqlResult;

impl<'a> Gen<'a> {
    pub fn join(&mut self, node: &'a Node<'a>, consume: Consume<'_, 'a>) -> SqlResult<()> {
        let Operator::Join { kind, method, outer, inner, on } = &node.operator else {
            return Err(internal("no join"));
        };
        if *kind == JoinKind::Full {
            return self.full_join(node, method, outer, inner, on, consume);
        }
        let rels = inner.rels();
        self.tally_start(node.number);
        match method {
            Method::Loop => self.produce(outer, &mut |g, _next| {
                g.matches(*kind, &rels, on, node, consume, &mut |g, each| g.produce(inner, each))
            }),
            Method::Kept => {
                let (mat, at) = self.keep(inner)?;
                self.produce(outer, &mut |g, _next| {
                    let at = at.clone();
                    g.matches(*kind, &rels, on, node, consume, &mut |g, each| {
                        let (again, end) = (g.label(), g.label());
                        g.op(Op::MatRewind { mat });
                        let mark = g.mark();
                        g.here(again);
                        let reset = g.reset(mark);
                        g.op(Op::MatNext { mat, to: end });
                        g.stored(&at, Stored::Mat(mat))?;
                        each(g, again)?;
                        g.jump(again);
                        g.here(end);
                        g.end_turns(mark, reset);
                        Ok(())
                    })
                })
            }
            Method::Hash(keys) => {
                let inner_keys: Vec<&'a Expr> = keys.iter().map(|k| k.1).collect();
                let (hash, at) = self.build(inner, &inner_keys, false)?;
                self.produce(outer, &mut |g, _next| {
                    let at = at.clone();
                    g.matches(*kind, &rels, on, node, consume, &mut |g, each| g.probe(hash, keys, &at, each))
                })
            }
        }
    }

    /// For one outer row: the matches that `inner` gives; for a LEFT join the row of NULLs without one; the
    /// outer row itself for a semi join with a match, and for an anti join without.
    #[allow(clippy::too_many_arguments)]
    fn matches(
        &mut self,
        kind: JoinKind,
        rels: &[u16],
        on: &[&'a Expr],
        node: &'a Node<'a>,
        consume: Consume<'_, 'a>,
        inner: &mut dyn FnMut(&mut Gen<'a>, Consume<'_, 'a>) -> SqlResult<()>,
    ) -> SqlResult<()> {
        if kind.gives_left_only() {
            // N4
            let (matched, done) = (self.label(), self.label());
            let is_semi = kind == JoinKind::Semi;
            inner(self, &mut |g, again| {
                g.all_or(on, again)?;
                g.jump(if is_semi { matched } else { done });
                Ok(())
            })?;
            if is_semi {
                self.jump(done);
            }
            self.here(matched);
            self.passed(node, done, consume)?;
            self.here(done);
            return Ok(());
        }
        if kind == JoinKind::Inner {
            return inner(self, &mut |g, again| {
                g.all_or(on, again)?;
                g.passed(node, again, consume)
            });
        }
        // The flag that the inner plan's own LEFT joins have, else one of this join.
        let flag = self.register();
        let matched = self.register();
        let mut flags = vec![flag];
        self.op(Op::Bool { dst: Out(matched), value: Flag(false) });
        self.op(Op::Bool { dst: Out(flag), value: Flag(false) });
        let (body, done) = (self.label(), self.label());
        inner(self, &mut |g, again| {
            g.all_or(on, again)?;
            g.op(Op::Bool { dst: Out(matched), value: Flag(true) });
            g.here(body);
            for rel in rels {
                let slot = &mut g.place(*rel)?.null;
                match slot {
                    Some(own) => {
                        if !flags.contains(own) {
                            flags.push(*own)
                        }
                    }
                    None => *slot = Some(flag),
                }
            }
            let cont = g.label();
            g.passed(node, cont, consume)?;
            g.here(cont);
            g.op(Op::If { a: Reg(flag), to: done });
            Ok(())
        })?;
        self.op(Op::If { a: Reg(matched), to: done });
        for f in flags {
            self.op(Op::Bool { dst: Out(f), value: Flag(true) });
        }
        self.jump(body);
        self.here(done);
        // What follows is code for other outer rows; there the flags are set anew. The rels' columns are no
        // longer read.
        for rel in rels {
            let slot = &mut self.place(*rel)?.null;
            if *slot == Some(flag) {
                *slot = None
            }
        }
        Ok(())
    }

    /// What is kept of relations, in the order of their places.
    pub(super) fn kept_columns(&mut self, rels: &[u16]) -> SqlResult<Vec<(u16, Kept)>> {
        let mut list = Vec::new();
        for rel in rels {
            let place = self.place(*rel)?;
            list.extend(place.used.iter().map(|c| (*rel, Kept::Column(*c))));
            if place.keep_row {
                list.push((*rel, Kept::Row));
            }
        }
        Ok(list)
    }

    /// The registers in which the kept columns stand side by side already.
    pub(super) fn standing_span(&self, list: &[(u16, Kept)]) -> Option<Span> {
        let mut registers = list.iter().map(|(rel, what)| match what {
            Kept::Column(c) => self.standing(*rel, *c),
            Kept::Row => None,
        });
        let first = registers.next()??;
        for (n, r) in registers.enumerate() {
            if r? != first.checked_add(n as u16 + 1)? {
                return None;
            }
        }
        Some(Span::new(first, list.len()))
    }

    /// Code that puts the kept columns into registers from `first` on.
    pub(super) fn load_kept(&mut self, list: &[(u16, Kept)], first: u16) -> SqlResult<()> {
        for (n, (rel, what)) in list.iter().enumerate() {
            let dst = first + n as u16;
            match what {
                Kept::Column(c) => self.column(*rel, *c, dst)?,
                Kept::Row => self.row_id(*rel, dst)?,
            }
        }
        Ok(())
    }

    /// `dst` := the identity of a rel's row; NULL for a row of NULLs.
    pub fn row_id(&mut self, rel: u16, dst: u16) -> SqlResult<()> {
        let place = self.place(rel)?;
        let (null, source) = (place.null, place.source.clone());
        let end = self.label();
        if let Some(flag) = null {
            self.op(Op::Null { dst: Out(dst) });
            self.op(Op::If { a: Reg(flag), to: end });
        }
        match source {
            Source::Table { cursor } | Source::Changed { cursor, .. } if cursor != u16::MAX => {
                self.op(Op::GetRow { dst: Out(dst), cursor: Cur(cursor) })
            }
            Source::Stored { store, row_id: Some(at), .. } => self.stored_column(store, at, dst),
            _ => self.op(Op::Null { dst: Out(dst) }),
        }
        self.here(end);
        Ok(())
    }

    /// From here on the relations are read from the store.
    pub(super) fn stored(&mut self, list: &Places, store: Stored) -> SqlResult<()> {
        for (rel, at, row_id) in list {
            let place = self.place(*rel)?;
            place.source = Source::Stored { store, at: at.clone(), row_id: *row_id };
            place.null = None;
        }
        Ok(())
    }

    /// N3: code that is run once, where that is right.
    fn gather(
        &mut self,
        inner: &'a Node<'a>,
        keys: &[&'a Expr],
        code: &mut dyn FnMut(&mut Gen<'a>) -> SqlResult<()>,
    ) -> SqlResult<()> {
        if inner.is_dependent_with(keys) { code(self) } else { self.once(code) }
    }

    /// Keeps a node's rows as a list.
    fn keep(&mut self, inner: &'a Node<'a>) -> SqlResult<(Mat, Places)> {
        let rels = inner.rels();
        let list = self.kept_columns(&rels)?;
        let mat = self.mat(list.len());
        self.gather(inner, &[], &mut |g| {
            g.op(Op::MatClear { mat });
            g.produce(inner, &mut |g, _next| {
                let first = g.registers(list.len());
                g.load_kept(&list, first)?;
                g.op(Op::MatPut { mat, row: Span::new(first, list.len()) });
                Ok(())
            })
        })?;
        Ok((mat, places(&rels, &list, 0)))
    }

    /// Keeps a node's rows in a hash table. Where their matches are counted, for a FULL join, rows with a
    /// NULL in the key are kept as well.
    fn build(
        &mut self,
        inner: &'a Node<'a>,
        keys: &[&'a Expr],
        is_counted: bool,
    ) -> SqlResult<(Hash, Places)> {
        let rels = inner.rels();
        let list = self.kept_columns(&rels)?;
        let k = keys.len();
        let hash = self.hash(k, k + list.len());
        let mut gather = |g: &mut Gen<'a>| {
            g.op(Op::HashClear { hash });
            g.produce(inner, &mut |g, next| {
                let first = g.registers(k + list.len());
                for (i, e) in keys.iter().enumerate() {
                    let r = first + i as u16;
                    g.comparable_into(e, r)?;
                    if !is_counted {
                        g.op(Op::IfNull { a: Reg(r), to: next });
                    }
                }
                g.load_kept(&list, first + k as u16)?;
                g.op(Op::HashPut { hash, row: Span::new(first, k + list.len()) });
                Ok(())
            })
        };
        match is_counted {
            true => gather(self)?,
            false => self.gather(inner, keys, &mut gather)?,
        }
        Ok((hash, places(&rels, &list, k as u16)))
    }

    /// The rows of the hash table that match the outer row.
    fn probe(
        &mut self,
        hash: Hash,
        keys: &[(&'a Expr, &'a Expr)],
        at: &Places,
        each: Consume<'_, 'a>,
    ) -> SqlResult<()> {
        let first = self.registers(keys.len());
        let (again, turn, end) = (self.label(), self.label(), self.label());
        for (i, (e, _)) in keys.iter().enumerate() {
            let r = first + i as u16;
            self.comparable_into(e, r)?;
            self.op(Op::IfNull { a: Reg(r), to: end });
        }
        let mark = self.mark();
        self.op(Op::HashFind { hash, key: Span::new(first, keys.len()), to: end });
        self.here(turn);
        let reset = self.reset(mark);
        self.stored(at, Stored::Hash(hash))?;
        each(self, again)?;
        self.here(again);
        self.op(Op::HashFindNext { hash, to: end });
        self.jump(turn);
        self.here(end);
        self.end_turns(mark, reset);
        Ok(())
    }

    /// N2
    #[allow(clippy::too_many_arguments)]
    fn full_join(
        &mut self,
        node: &'a Node<'a>,
        method: &'a Method<'a>,
        outer: &'a Node<'a>,
        inner: &'a Node<'a>,
        on: &[&'a Expr],
        consume: Consume<'_, 'a>,
    ) -> SqlResult<()> {
        let keys = match method {
            Method::Hash(k) => &k[..],
            _ => &[],
        };
        self.tally_start(node.number);
        let inner_keys: Vec<&'a Expr> = keys.iter().map(|k| k.1).collect();
        let (hash, at) = self.build(inner, &inner_keys, true)?;
        // Both sides are handed to the consumer in registers, since it is one piece of code for rows of
        // either.
        let (left_list, right_list) = (self.kept_columns(&outer.rels())?, self.kept_columns(&inner.rels())?);
        let (left_first, right_first) = (self.registers(left_list.len()), self.registers(right_list.len()));
        let (left_flag, right_flag) = (self.register(), self.register());
        let (ret, sub, over) = (self.register(), self.label(), self.label());

        self.jump(over);
        self.here(sub);
        let back = self.label();
        let mut saved = Vec::new();
        for rel in outer.rels().into_iter().chain(inner.rels()) {
            let place = self.place(rel)?;
            saved.push((rel, place.source.clone(), place.null));
        }
        for (list, first, flag) in
            [(&left_list, left_first, left_flag), (&right_list, right_first, right_flag)]
        {
            self.in_registers(list, first, flag)?;
        }
        self.passed(node, back, consume)?;
        self.here(back);
        self.op(Op::Return { ret: Reg(ret) });
        self.here(over);
        for (r, source, null) in saved {
            let place = self.place(r)?;
            place.source = source;
            place.null = null;
        }

        self.produce(outer, &mut |g, _next| {
            let matched = g.register();
            let end = g.label();
            g.op(Op::Bool { dst: Out(matched), value: Flag(false) });
            g.op(Op::Bool { dst: Out(left_flag), value: Flag(false) });
            g.load_kept(&left_list, left_first)?;
            g.probe(hash, keys, &at, &mut |g, again| {
                g.all_or(on, again)?;
                g.op(Op::Bool { dst: Out(matched), value: Flag(true) });
                g.op(Op::HashAdd { hash, by: Imm(1) });
                g.op(Op::Bool { dst: Out(right_flag), value: Flag(false) });
                g.load_kept(&right_list, right_first)?;
                g.op(Op::Gosub { ret: Out(ret), to: sub });
                Ok(())
            })?;
            g.op(Op::If { a: Reg(matched), to: end });
            g.op(Op::Bool { dst: Out(right_flag), value: Flag(true) });
            g.op(Op::Gosub { ret: Out(ret), to: sub });
            g.here(end);
            Ok(())
        })?;

        let (again, end) = (self.label(), self.label());
        let count = self.register();
        let zero = self.constant(&ondol_types::Value::Int8(0));
        self.op(Op::HashRewind { hash });
        let mark = self.mark();
        self.here(again);
        let reset = self.reset(mark);
        self.op(Op::HashNext { hash, to: end });
        self.op(Op::HashCount { dst: Out(count), hash });
        self.op(Op::UnlessInt { a: Reg(count), b: Reg(zero), cond: Cond::Eq, to: again });
        self.stored(&at, Stored::Hash(hash))?;
        self.load_kept(&right_list, right_first)?;
        self.op(Op::Bool { dst: Out(left_flag), value: Flag(true) });
        self.op(Op::Bool { dst: Out(right_flag), value: Flag(false) });
        self.op(Op::Gosub { ret: Out(ret), to: sub });
        self.jump(again);
        self.here(end);
        self.end_turns(mark, reset);
        Ok(())
    }

    /// The relations of a side are in registers, and NULL where the flag says so.
    fn in_registers(&mut self, list: &[(u16, Kept)], first: u16, flag: u16) -> SqlResult<()> {
        for (n, (rel, what)) in list.iter().enumerate() {
            let place = self.place(*rel)?;
            let r = first + n as u16;
            if let Kept::Column(c) = what {
                match &mut place.source {
                    Source::Changed { cursor: u16::MAX, columns } => columns.push((*c, r)),
                    slot => *slot = Source::Changed { cursor: u16::MAX, columns: vec![(*c, r)] },
                }
            }
            place.null = Some(flag);
        }
        Ok(())
    }
}

/// What is kept of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    Column(u16),
    /// Which row it is.
    Row,
}

/// For each relation: the places of its columns in the stored row, and of its row's identity.
pub(super) type Places = Vec<(u16, Vec<(u16, u16)>, Option<u16>)>;

pub(super) fn places(rels: &[u16], list: &[(u16, Kept)], first: u16) -> Places {
    rels.iter()
        .map(|rel| {
            let mut columns = Vec::new();
            let mut row = None;
            for (n, (r, what)) in list.iter().enumerate() {
                let at = first + n as u16;
                match what {
                    _ if r != rel => {}
                    Kept::Column(c) => columns.push((*c, at)),
                    Kept::Row => row = Some(at),
                }
            }
            (*rel, columns, row)
        })
        .collect()
}
