//! Code for joins.
//!
//! - **N1** A LEFT join's consumer is emitted once; for a row without a match the rels of the right side are
//!   marked as NULL (a register each) and the same code is entered once more.
//! - **N2** A FULL join's consumer is a subroutine, called for matches, for left rows without one, and for
//!   right rows without one.
//! - **N3** A side that is kept (list or hash table) is gathered once in an execution, unless the query
//!   depends on rows outside it: then once for each of those.
use super::super::op::Op;
use super::super::operand::*;
use super::scan::Consume;
use super::{Gen, Source, Stored};
use crate::bound::*;
use crate::plan::node::{Method, Node};
use crate::plan::refs::RelSet;
use crate::plan::show;
use ondol_types::SqlResult;

impl<'a> Gen<'a> {
    /// All rows of a plan.
    pub fn produce(&mut self, node: &Node<'a>, parent: usize, consume: Consume<'_, 'a>) -> SqlResult<()> {
        match node {
            Node::Nothing { filter } => {
                let n = self.node(Some(parent), "Result");
                self.filter_detail(n, filter);
                self.tally_start(n);
                let end = self.label();
                self.all_or(filter, end)?;
                self.tally_row(n);
                consume(self, end)?;
                self.here(end);
                Ok(())
            }
            Node::Scan { rel, access, filter, .. } => self.scan(*rel, access, filter, parent, consume),
            Node::Join { kind: JoinKind::Full, method, outer, inner, on, filter } => {
                self.full_join(method, outer, inner, on, filter, parent, consume)
            }
            Node::Join { kind, method, outer, inner, on, filter } => {
                let left = *kind == JoinKind::Left;
                let name = match (method, left) {
                    (Method::Hash(_), false) => "Hash Join",
                    (Method::Hash(_), true) => "Hash Left Join",
                    (_, false) => "Nested Loop",
                    (_, true) => "Nested Loop Left Join",
                };
                let n = self.node(Some(parent), name);
                self.join_details(n, method, on, filter);
                self.tally_start(n);
                match method {
                    Method::Loop => self.produce(outer, n, &mut |g, _next| {
                        g.matches(left, inner.rels(), on, filter, n, consume, &mut |g, each| {
                            g.produce(inner, n, each)
                        })
                    }),
                    Method::Kept => {
                        let (mat, at) = self.keep(inner, n)?;
                        self.produce(outer, n, &mut |g, _next| {
                            let at = at.clone();
                            g.matches(left, inner.rels(), on, filter, n, consume, &mut |g, each| {
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
                        })?;
                        self.last_child_first(n);
                        Ok(())
                    }
                    Method::Hash(keys) => {
                        let inner_keys: Vec<&'a Expr> = keys.iter().map(|k| k.1).collect();
                        let (hash, at) = self.build(inner, &inner_keys, false, n)?;
                        self.produce(outer, n, &mut |g, _next| {
                            let at = at.clone();
                            g.matches(left, inner.rels(), on, filter, n, consume, &mut |g, each| {
                                g.probe(hash, keys, &at, each)
                            })
                        })?;
                        self.last_child_first(n);
                        Ok(())
                    }
                }
            }
        }
    }

    fn join_details(&mut self, n: usize, method: &Method<'a>, on: &[&Expr], filter: &[&Expr]) {
        let names = self.names();
        if let Method::Hash(keys) = method
            && !keys.is_empty()
        {
            let text: Vec<String> = keys
                .iter()
                .map(|(a, b)| format!("({} = {})", show::expr(a, &names), show::expr(b, &names)))
                .collect();
            self.detail(n, format!("Hash Cond: {}", text.join(" AND ")));
        }
        if !on.is_empty() {
            self.detail(n, format!("Join Filter: {}", show::conjunction(on, &names)));
        }
        self.filter_detail(n, filter);
    }

    /// For one outer row: the matches that `inner` gives, and for a LEFT join the row of NULLs without one.
    #[allow(clippy::too_many_arguments)]
    fn matches(
        &mut self,
        left: bool,
        rels: RelSet,
        on: &[&'a Expr],
        filter: &[&'a Expr],
        node: usize,
        consume: Consume<'_, 'a>,
        inner: &mut dyn FnMut(&mut Gen<'a>, Consume<'_, 'a>) -> SqlResult<()>,
    ) -> SqlResult<()> {
        if !left {
            return inner(self, &mut |g, again| {
                g.all_or(on, again)?;
                g.all_or(filter, again)?;
                g.tally_row(node);
                consume(g, again)
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
            for rel in rels.iter() {
                let slot = &mut g.scope()?.nulls[rel as usize];
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
            g.all_or(filter, cont)?;
            g.tally_row(node);
            consume(g, cont)?;
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
        for rel in rels.iter() {
            let slot = &mut self.scope()?.nulls[rel as usize];
            if *slot == Some(flag) {
                *slot = None
            }
        }
        Ok(())
    }

    /// The columns of the rels that are kept, in the order of their places.
    fn kept_columns(&mut self, rels: RelSet) -> SqlResult<Vec<(u16, Kept)>> {
        let scope = self.scope()?;
        let mut list = Vec::new();
        for rel in rels.iter() {
            for c in &scope.used[rel as usize] {
                list.push((rel, Kept::Column(*c)));
            }
            if scope.keep_row.has(rel) {
                list.push((rel, Kept::Row));
            }
        }
        Ok(list)
    }

    /// Code that puts the kept columns into registers from `first` on.
    fn load_kept(&mut self, list: &[(u16, Kept)], first: u16) -> SqlResult<()> {
        for (n, (rel, what)) in list.iter().enumerate() {
            let dst = first + n as u16;
            match what {
                Kept::Column(c) => self.column(0, *rel, *c, dst)?,
                Kept::Row => self.row_id(*rel, dst)?,
            }
        }
        Ok(())
    }

    /// `dst` := the identity of a rel's row; NULL for a row of NULLs.
    pub fn row_id(&mut self, rel: u16, dst: u16) -> SqlResult<()> {
        let scope = self.scope()?;
        let null = scope.nulls[rel as usize];
        let source = scope.sources[rel as usize].clone();
        let end = self.label();
        if let Some(flag) = null {
            self.op(Op::Null { dst: Out(dst) });
            self.op(Op::If { a: Reg(flag), to: end });
        }
        match source {
            Source::Table { cursor } | Source::Changed { cursor, .. } => {
                self.op(Op::GetRow { dst: Out(dst), cursor: Cur(cursor) })
            }
            Source::Stored { store, row_id: Some(at), .. } => self.stored_column(store, at, dst),
            _ => self.op(Op::Null { dst: Out(dst) }),
        }
        self.here(end);
        Ok(())
    }

    /// From here on the rels are read from the store.
    fn stored(&mut self, list: &Places, store: Stored) -> SqlResult<()> {
        for (rel, at, row_id) in list {
            let scope = self.scope()?;
            scope.sources[*rel as usize] = Source::Stored { store, at: at.clone(), row_id: *row_id };
            scope.nulls[*rel as usize] = None;
        }
        Ok(())
    }

    /// N3: code that is run once, where that is right.
    fn gather(&mut self, code: &mut dyn FnMut(&mut Gen<'a>) -> SqlResult<()>) -> SqlResult<()> {
        if self.scopes.iter().any(|s| s.correlated) { code(self) } else { self.once(code) }
    }

    /// Keeps a plan's rows as a list.
    fn keep(&mut self, inner: &Node<'a>, parent: usize) -> SqlResult<(Mat, Places)> {
        let list = self.kept_columns(inner.rels())?;
        let mat = self.mat(list.len());
        let n = self.node(Some(parent), "Materialize");
        self.gather(&mut |g| {
            g.tally_start(n);
            g.op(Op::MatClear { mat });
            g.produce(inner, n, &mut |g, _next| {
                let first = g.registers(list.len());
                g.load_kept(&list, first)?;
                g.tally_row(n);
                g.op(Op::MatPut { mat, row: Span::new(first, list.len()) });
                Ok(())
            })
        })?;
        Ok((mat, places(inner.rels(), &list, 0)))
    }

    /// Keeps a plan's rows in a hash table. With `nulls`, rows with a NULL in the key are kept as well.
    fn build(
        &mut self,
        inner: &Node<'a>,
        keys: &[&'a Expr],
        nulls: bool,
        parent: usize,
    ) -> SqlResult<(Hash, Places)> {
        let list = self.kept_columns(inner.rels())?;
        let k = keys.len();
        let hash = self.hash(k, k + list.len());
        let n = self.node(Some(parent), "Hash");
        self.gather(&mut |g| {
            g.tally_start(n);
            g.op(Op::HashClear { hash });
            g.produce(inner, n, &mut |g, next| {
                let first = g.registers(k + list.len());
                for (i, e) in keys.iter().enumerate() {
                    let r = first + i as u16;
                    g.expr_into(e, r)?;
                    if !nulls {
                        g.op(Op::IfNull { a: Reg(r), to: next });
                    }
                }
                g.load_kept(&list, first + k as u16)?;
                g.tally_row(n);
                g.op(Op::HashPut { hash, row: Span::new(first, k + list.len()) });
                Ok(())
            })
        })?;
        Ok((hash, places(inner.rels(), &list, k as u16)))
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
            self.expr_into(e, r)?;
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
        method: &Method<'a>,
        outer: &Node<'a>,
        inner: &Node<'a>,
        on: &[&'a Expr],
        filter: &[&'a Expr],
        parent: usize,
        consume: Consume<'_, 'a>,
    ) -> SqlResult<()> {
        let keys = match method {
            Method::Hash(k) => &k[..],
            _ => &[],
        };
        let n = self.node(Some(parent), "Hash Full Join");
        self.join_details(n, method, on, filter);
        self.tally_start(n);
        let inner_keys: Vec<&'a Expr> = keys.iter().map(|k| k.1).collect();
        let (hash, at) = self.build(inner, &inner_keys, true, n)?;
        // Both sides are handed to the consumer in registers, since it is one piece of code for rows of
        // either.
        let (left_list, right_list) = (self.kept_columns(outer.rels())?, self.kept_columns(inner.rels())?);
        let (left_first, right_first) = (self.registers(left_list.len()), self.registers(right_list.len()));
        let (left_flag, right_flag) = (self.register(), self.register());
        let (ret, sub, over) = (self.register(), self.label(), self.label());

        self.jump(over);
        self.here(sub);
        let back = self.label();
        let saved: Vec<(u16, Source, Option<u16>)> = {
            let scope = self.scope()?;
            outer
                .rels()
                .with(inner.rels())
                .iter()
                .map(|r| (r, scope.sources[r as usize].clone(), scope.nulls[r as usize]))
                .collect()
        };
        for (list, first, flag) in
            [(&left_list, left_first, left_flag), (&right_list, right_first, right_flag)]
        {
            self.in_registers(list, first, flag)?;
        }
        self.all_or(filter, back)?;
        self.tally_row(n);
        consume(self, back)?;
        self.here(back);
        self.op(Op::Return { ret: Reg(ret) });
        self.here(over);
        for (r, source, null) in saved {
            let scope = self.scope()?;
            scope.sources[r as usize] = source;
            scope.nulls[r as usize] = null;
        }

        self.produce(outer, n, &mut |g, _next| {
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
        self.last_child_first(n);

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

    /// The rels of a side are in registers, and NULL where the flag says so.
    fn in_registers(&mut self, list: &[(u16, Kept)], first: u16, flag: u16) -> SqlResult<()> {
        for (n, (rel, what)) in list.iter().enumerate() {
            let scope = self.scope()?;
            let slot = &mut scope.sources[*rel as usize];
            let r = first + n as u16;
            if let Kept::Column(c) = what {
                match slot {
                    Source::Changed { cursor: u16::MAX, columns } => columns.push((*c, r)),
                    _ => *slot = Source::Changed { cursor: u16::MAX, columns: vec![(*c, r)] },
                }
            }
            scope.nulls[*rel as usize] = Some(flag);
        }
        Ok(())
    }
}

/// What is kept of a rel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    Column(u16),
    /// Which row it is.
    Row,
}

/// For each rel: the places of its columns in the stored row, and of its row's identity.
type Places = Vec<(u16, Vec<(u16, u16)>, Option<u16>)>;

fn places(rels: RelSet, list: &[(u16, Kept)], first: u16) -> Places {
    rels.iter()
        .map(|rel| {
            let mut columns = Vec::new();
            let mut row = None;
            for (n, (r, what)) in list.iter().enumerate() {
                let at = first + n as u16;
                match what {
                    _ if *r != rel => {}
                    Kept::Column(c) => columns.push((*c, at)),
                    Kept::Row => row = Some(at),
                }
            }
            (rel, columns, row)
        })
        .collect()
}
