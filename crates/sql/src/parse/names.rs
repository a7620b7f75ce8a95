//! The names of relations within a parse tree, with what stands around each: as PostgreSQL looks at WITH
//! RECURSIVE before any name has a meaning.
use super::tree::{self, JoinType, Node, RangeVar, SelectStmt, SetOperation, WithClause, node::Node as Kind};

/// What stands around the name of a relation, as far as that matters to a recursion: what comes first of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Around {
    /// Nothing but joins, subqueries in FROM and UNION.
    Free,
    /// The first side of a recursion.
    FirstTerm,
    /// A subquery in an expression.
    Expression,
    /// The side of an outer join that may be missing.
    OuterJoin,
    Intersect,
    Except,
}

/// A node below another, with the kinds of which a tree has some by themselves as they are.
#[derive(Clone, Copy)]
enum Below<'a> {
    Select(&'a SelectStmt),
    Relation(&'a RangeVar),
    Other(&'a Kind),
}

/// Gives each name without a schema that no WITH within the query has, until `f` says no.
pub struct Names<'a, 'f, E> {
    /// The names that WITH clauses on the way have.
    inner: Vec<Vec<&'a str>>,
    around: Around,
    f: &'f mut dyn FnMut(&'a RangeVar, Around) -> Result<(), E>,
}

/// The names in a query that stands in this place.
pub fn in_select<'a, E>(
    s: &'a SelectStmt,
    around: Around,
    f: &mut dyn FnMut(&'a RangeVar, Around) -> Result<(), E>,
) -> Result<(), E> {
    Names { inner: Vec::new(), around, f }.walk(Below::Select(s))
}

/// The names in the queries of a WITH clause, and in any statement that is one of them.
pub fn in_with<'a, E>(
    with: &'a WithClause,
    around: Around,
    f: &mut dyn FnMut(&'a RangeVar, Around) -> Result<(), E>,
) -> Result<(), E> {
    let mut names = Names { inner: Vec::new(), around, f };
    with.ctes.iter().filter_map(query_of).try_for_each(|q| names.walk(q))
}

/// The names in a statement that is a WITH query.
pub fn in_query<'a, E>(
    query: &'a Node,
    around: Around,
    f: &mut dyn FnMut(&'a RangeVar, Around) -> Result<(), E>,
) -> Result<(), E> {
    let mut names = Names { inner: Vec::new(), around, f };
    below(query).map_or(Ok(()), |b| names.walk(b))
}

fn below(node: &Node) -> Option<Below<'_>> {
    Some(match node.node.as_ref()? {
        Kind::SelectStmt(s) => Below::Select(s),
        Kind::RangeVar(v) => Below::Relation(v),
        other => Below::Other(other),
    })
}

fn query_of(node: &Node) -> Option<Below<'_>> {
    match node.node.as_ref()? {
        Kind::CommonTableExpr(c) => below(c.ctequery.as_deref()?),
        _ => None,
    }
}

impl<'a, E> Names<'a, '_, E> {
    fn walk(&mut self, node: Below<'a>) -> Result<(), E> {
        match node {
            Below::Relation(v) => {
                let is_inner = self.inner.iter().flatten().any(|n| *n == v.relname);
                match v.schemaname.is_empty() && v.catalogname.is_empty() && !is_inner {
                    true => (self.f)(v, self.around),
                    false => Ok(()),
                }
            }
            Below::Select(s) => {
                let known = self.inner.len();
                let done = self.with(s.with_clause.as_ref()).and_then(|()| self.select(s));
                self.inner.truncate(known);
                done
            }
            Below::Other(Kind::JoinExpr(j)) => {
                let (left, right) = match j.jointype() {
                    JoinType::JoinLeft => (false, true),
                    JoinType::JoinRight => (true, false),
                    JoinType::JoinFull => (true, true),
                    _ => (false, false),
                };
                for (side, nullable) in [(&j.larg, left), (&j.rarg, right)] {
                    match nullable && self.around == Around::Free {
                        true => self.within(Around::OuterJoin, |n| n.one(side))?,
                        false => self.one(side)?,
                    }
                }
                self.one(&j.quals)
            }
            Below::Other(Kind::SubLink(s)) => {
                self.within(Around::Expression, |n| n.one(&s.subselect))?;
                self.one(&s.testexpr)
            }
            Below::Other(other) => self.parts(other),
        }
    }

    fn within(&mut self, around: Around, f: impl FnOnce(&mut Self) -> Result<(), E>) -> Result<(), E> {
        let before = std::mem::replace(&mut self.around, around);
        let done = f(self);
        self.around = before;
        done
    }

    /// The queries of a WITH clause; their names are known from there on.
    fn with(&mut self, with: Option<&'a WithClause>) -> Result<(), E> {
        let Some(with) = with else { return Ok(()) };
        let name = |n: &'a Node| match n.node.as_ref() {
            Some(Kind::CommonTableExpr(c)) => c.ctename.as_str(),
            _ => "",
        };
        let all = if with.recursive { with.ctes.iter().map(name).collect() } else { Vec::new() };
        self.inner.push(all);
        for node in &with.ctes {
            if let Some(query) = query_of(node) {
                self.walk(query)?;
            }
            if let Some(last) = self.inner.last_mut().filter(|_| !with.recursive) {
                last.push(name(node));
            }
        }
        Ok(())
    }

    /// A query but for its WITH clause.
    fn select(&mut self, s: &'a SelectStmt) -> Result<(), E> {
        let sides = match (s.op(), self.around) {
            (SetOperation::SetopIntersect, Around::Free) if s.all => [Around::Intersect; 2],
            (SetOperation::SetopExcept, Around::Free) if s.all => [Around::Except; 2],
            (SetOperation::SetopExcept, Around::Free) => [Around::Free, Around::Except],
            (_, around) => [around; 2],
        };
        for (side, around) in [&s.larg, &s.rarg].into_iter().zip(sides) {
            if let Some(side) = side {
                self.within(around, |n| n.walk(Below::Select(side)))?;
            }
        }
        for list in [
            &s.distinct_clause,
            &s.target_list,
            &s.from_clause,
            &s.group_clause,
            &s.window_clause,
            &s.values_lists,
            &s.sort_clause,
            &s.locking_clause,
        ] {
            self.list(list)?;
        }
        for one in [&s.where_clause, &s.having_clause, &s.limit_offset, &s.limit_count] {
            self.one(one)?;
        }
        Ok(())
    }

    fn one(&mut self, node: &'a Option<Box<Node>>) -> Result<(), E> {
        node.as_deref().and_then(below).map_or(Ok(()), |b| self.walk(b))
    }

    fn list(&mut self, nodes: &'a [Node]) -> Result<(), E> {
        nodes.iter().filter_map(below).try_for_each(|b| self.walk(b))
    }

    /// What stands below a node of any other kind.
    fn parts(&mut self, kind: &'a Kind) -> Result<(), E> {
        match kind {
            Kind::List(l) => self.list(&l.items),
            Kind::ResTarget(t) => {
                self.list(&t.indirection)?;
                self.one(&t.val)
            }
            Kind::AExpr(e) => {
                self.one(&e.lexpr)?;
                self.one(&e.rexpr)
            }
            Kind::BoolExpr(e) => self.list(&e.args),
            Kind::FuncCall(c) => {
                self.list(&c.args)?;
                self.list(&c.agg_order)?;
                self.one(&c.agg_filter)?;
                c.over.as_deref().map_or(Ok(()), |w| self.window(w))
            }
            Kind::WindowDef(w) => self.window(w),
            Kind::NamedArgExpr(a) => self.one(&a.arg),
            Kind::TypeCast(c) => self.one(&c.arg),
            Kind::CollateClause(c) => self.one(&c.arg),
            Kind::CaseExpr(c) => {
                self.one(&c.arg)?;
                self.list(&c.args)?;
                self.one(&c.defresult)
            }
            Kind::CaseWhen(w) => {
                self.one(&w.expr)?;
                self.one(&w.result)
            }
            Kind::CoalesceExpr(e) => self.list(&e.args),
            Kind::MinMaxExpr(e) => self.list(&e.args),
            Kind::RowExpr(e) => self.list(&e.args),
            Kind::AArrayExpr(e) => self.list(&e.elements),
            Kind::NullTest(e) => self.one(&e.arg),
            Kind::BooleanTest(e) => self.one(&e.arg),
            Kind::AIndirection(i) => {
                self.one(&i.arg)?;
                self.list(&i.indirection)
            }
            Kind::AIndices(i) => {
                self.one(&i.lidx)?;
                self.one(&i.uidx)
            }
            Kind::GroupingSet(g) => self.list(&g.content),
            Kind::SortBy(s) => self.one(&s.node),
            Kind::LockingClause(l) => self.list(&l.locked_rels),
            Kind::MultiAssignRef(r) => self.one(&r.source),
            Kind::RangeSubselect(r) => self.one(&r.subquery),
            Kind::RangeFunction(r) => self.list(&r.functions),
            Kind::RangeTableSample(r) => {
                self.one(&r.relation)?;
                self.list(&r.args)?;
                self.one(&r.repeatable)
            }
            Kind::InsertStmt(i) => {
                self.with(i.with_clause.as_ref())?;
                self.one(&i.select_stmt)?;
                self.inner.pop_if(|_| i.with_clause.is_some());
                Ok(())
            }
            Kind::UpdateStmt(u) => {
                self.with(u.with_clause.as_ref())?;
                self.list(&u.target_list)?;
                self.one(&u.where_clause)?;
                self.list(&u.from_clause)?;
                self.inner.pop_if(|_| u.with_clause.is_some());
                Ok(())
            }
            Kind::DeleteStmt(d) => {
                self.with(d.with_clause.as_ref())?;
                self.list(&d.using_clause)?;
                self.one(&d.where_clause)?;
                self.inner.pop_if(|_| d.with_clause.is_some());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn window(&mut self, w: &'a tree::WindowDef) -> Result<(), E> {
        self.list(&w.partition_clause)?;
        self.list(&w.order_clause)?;
        self.one(&w.start_offset)?;
        self.one(&w.end_offset)
    }
}
