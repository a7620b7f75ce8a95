//! From a bound statement to its logical tree: names of levels become columns of relations (logical/Y1).
//!
//! A query block becomes, from below: FROM, WHERE, groups, HAVING, windows (`window`), targets, DISTINCT,
//! ORDER BY, locks, LIMIT.
//! Targets stand in a projection where DISTINCT or ORDER BY look at them, else in the output; with locks the
//! output is computed from the rows as they are when locked (sql/code/generate/lock/K1), so ORDER BY looks at
//! the expressions.
use super::logical::*;
use crate::bind::{MAX_LEVELS, MAX_QUERIES, too_complex};
use crate::bound::{self, From, InsertColumn, Query, Rel, SetOperation, Target};
use ondol_engine::Catalog;
use ondol_types::func::Volatility;
use ondol_types::limits::Limits;
use ondol_types::{SqlError, SqlResult, Type, sqlstate};

/// The logical tree of a query, INSERT, UPDATE or DELETE (or of the one that is to be explained).
pub fn lower(bound: &bound::Bound, limits: Limits<'_>) -> SqlResult<Statement> {
    let mut l = Lower {
        relations: Vec::new(),
        queries: Vec::new(),
        with: Vec::new(),
        levels: Vec::new(),
        named: Vec::new(),
        count: 0,
        depth: 0,
        chains: Vec::new(),
        longest: 0,
        limits,
        opened: &bound.foreign,
    };
    let statement = match &bound.statement {
        bound::Statement::Explain { statement, .. } => statement,
        s => s,
    };
    let root = match statement {
        bound::Statement::Query(q) | bound::Statement::Copy(bound::Copy::To { query: q, .. }) => {
            Root::Rows(l.query(q)?)
        }
        bound::Statement::Insert(i) => l.insert(i)?,
        bound::Statement::Modify(m) => l.modify(m)?,
        _ => {
            let message = "only queries and changes of rows have a plan";
            return Err(SqlError::new(sqlstate::INTERNAL_ERROR, message));
        }
    };
    let columns = match statement {
        bound::Statement::Copy(bound::Copy::To { query, .. }) => query.columns(),
        s => s.columns(),
    };
    Ok(Statement {
        hidden: Vec::new(),
        root,
        queries: l.queries,
        with: l.with,
        relations: l.relations,
        params: bound.params.clone(),
        columns,
        catalog_version: bound.catalog_version,
    })
}

/// The hidden columns of the tables of a statement, with what they are (see [`Hidden`]).
pub fn hidden(bound: &bound::Bound, catalog: &Catalog) -> Vec<Hidden> {
    let mut all = Vec::new();
    for table in bound.tables() {
        for (column, predicate, expr) in crate::bind::index::hidden_of(catalog, &table.def) {
            let Some(expr) = alone(&expr) else { continue };
            all.push(Hidden { table: table.def.id, column, predicate, expr })
        }
    }
    all
}

/// An expression of relation 0, which is [`OWN`] then. `None` where a query stands in it.
fn alone(e: &bound::Expr) -> Option<Expr> {
    let kind = match &e.kind {
        bound::ExprKind::Column { column, .. } => ExprKind::Column { depth: 0, rel: OWN, column: *column },
        kind => {
            let no = || internal("a query in an expression of an index");
            kind.try_map(&mut |e| alone(e).ok_or_else(no), &mut |_| Err(no())).ok()?
        }
    };
    Some(Expr { kind, ty: e.ty, at: u32::MAX })
}

mod window;

/// A query level.
#[derive(Default)]
struct Level {
    /// Its relations, by their numbers in the level.
    rels: Vec<u16>,
    /// The relation of its groups, and how many columns of that are keys.
    groups: Option<(u16, u16)>,
    /// The columns of its functions over windows.
    windows: Vec<(u16, u16)>,
}

/// What a WITH query that can be seen is.
enum Named<'b> {
    /// Its number in [`Statement::with`], and the columns that it uses of rows outside it. Of a recursion
    /// that is named once only: how many levels there are where that is in the FROM of the query behind it.
    Kept(u16, Vec<Expr>, Option<usize>),
    /// It is a recursion, within its right side: the relation that its last turn's rows are known by
    /// (logical/Y5), and its name.
    Working(u16, &'b str),
    /// It stands where it is used, as if within the so many outermost levels only.
    Inline(&'b Query, usize),
}

struct Lower<'b, 'l> {
    relations: Vec<Relation>,
    queries: Vec<Block>,
    with: Vec<(String, Block)>,
    levels: Vec<Level>,
    /// By their numbers; those of a query within stand behind.
    named: Vec<(u16, Named<'b>)>,
    /// How many queries there were, WITH queries wherever they are used, and how deep this one is.
    count: usize,
    depth: usize,
    /// For each WITH query that is kept how many stand behind each other to make its rows, itself included;
    /// and the most of those that were named since the last of them began.
    chains: Vec<usize>,
    longest: usize,
    limits: Limits<'l>,
    opened: &'b bound::Opened,
}

impl<'b> Lower<'b, '_> {
    fn relation(&mut self, alias: &str, columns: Vec<(String, Type)>) -> SqlResult<u16> {
        let number = u16::try_from(self.relations.len()).ok().filter(|n| *n < u16::MAX).ok_or_else(|| {
            SqlError::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, "the statement is too complex")
                .detail("It has more than 65,535 relations.")
        })?;
        self.relations.push(Relation { alias: alias.to_string(), columns });
        Ok(number)
    }

    fn level(&self, depth: u16) -> SqlResult<&Level> {
        let at = self.levels.len().checked_sub(1 + depth as usize);
        at.and_then(|n| self.levels.get(n)).ok_or_else(|| internal("a column of no query"))
    }

    fn expr(&mut self, e: &'b bound::Expr) -> SqlResult<Expr> {
        self.limits.go_on()?;
        let group = |l: &Self, depth: u16, index: u16, is_key: bool| -> SqlResult<ExprKind> {
            let (rel, keys) = l.level(depth)?.groups.ok_or_else(|| internal("a group before grouping"))?;
            let column = if is_key { index } else { keys + index };
            Ok(ExprKind::Column { depth: 0, rel, column })
        };
        let kind = match &e.kind {
            &bound::ExprKind::Column { depth, rel, column } => {
                let rel = self.level(depth)?.rels.get(rel as usize).copied();
                let rel = rel.ok_or_else(|| internal("a column of no relation"))?;
                ExprKind::Column { depth: 0, rel, column }
            }
            &bound::ExprKind::Group(index) => group(self, 0, index, true)?,
            &bound::ExprKind::GroupOuter { depth, index } => group(self, depth, index, true)?,
            &bound::ExprKind::Aggregate { depth, index } => group(self, depth, index, false)?,
            &bound::ExprKind::Window { depth, index } => {
                let place = self.level(depth)?.windows.get(usize::from(index)).copied();
                let (rel, column) = place.ok_or_else(|| internal("a window before it is there"))?;
                ExprKind::Column { depth: 0, rel, column }
            }
            kind => {
                let this = std::cell::RefCell::new(self);
                kind.try_map(&mut |e| this.borrow_mut().expr(e), &mut |q| this.borrow_mut().inside(q))?
            }
        };
        Ok(Expr { kind, ty: e.ty, at: e.at })
    }

    fn exprs(&mut self, list: impl IntoIterator<Item = &'b bound::Expr>) -> SqlResult<Vec<Expr>> {
        list.into_iter().map(|e| self.expr(e)).collect()
    }

    fn optional(&mut self, e: &'b Option<bound::Expr>) -> SqlResult<Option<Expr>> {
        e.as_ref().map(|e| self.expr(e)).transpose()
    }

    /// A query within an expression (logical/Y2).
    fn inside(&mut self, q: &'b Query) -> SqlResult<Inside> {
        use bound::Inner;
        let rows = self.query(q)?;
        let outer = rows.free().into_values().cloned().collect();
        let volatility = [Volatility::Volatile, Volatility::Stable].into_iter().find(|v| q.calls(*v));
        let number = u16::try_from(self.queries.len()).map_err(|_| {
            SqlError::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, "the statement is too complex")
                .detail("It has more than 65,535 subqueries.")
        })?;
        self.queries.push(rows);
        let again = q.is_call && volatility == Some(Volatility::Volatile);
        Ok(Inside { number, outer, again, volatility: volatility.unwrap_or(Volatility::Immutable) })
    }

    fn query(&mut self, q: &'b Query) -> SqlResult<Block> {
        (self.count, self.depth) = (self.count + 1, self.depth + 1);
        if self.count > MAX_QUERIES as usize || self.depth > MAX_LEVELS {
            return Err(too_complex());
        }
        let seen = self.named.len();
        let with = self.with_queries(&q.with)?;
        self.levels.push(Level::default());
        let rows = self.block(q);
        self.levels.pop();
        self.named.truncate(seen);
        self.depth -= 1;
        let Block { mut tree, output } = rows?;
        if !with.is_empty() {
            tree = Logical::With { queries: with, input: Box::new(tree) };
        }
        Ok(Block { tree, output })
    }

    /// The queries of a WITH clause can be seen from here on. Gives those whose rows change with rows outside
    /// them.
    fn with_queries(&mut self, list: &'b [bound::With]) -> SqlResult<Vec<u16>> {
        let mut dependent = Vec::new();
        for w in list.iter().filter(|w| w.uses > 0) {
            let named = if w.is_kept() {
                let before = std::mem::take(&mut self.longest);
                let block = if w.recursive { self.recursion(w)? } else { self.query(&w.query)? };
                let chain = 1 + std::mem::replace(&mut self.longest, before);
                // The code of one stands within that of those that read it.
                if chain > MAX_LEVELS {
                    return Err(too_complex());
                }
                self.chains.push(chain);
                let outer: Vec<Expr> = block.free().into_values().cloned().collect();
                // The binder numbers no more of them.
                let number = self.with.len() as u16;
                if !outer.is_empty() {
                    dependent.push(number);
                }
                self.with.push((w.name.clone(), block));
                let alone = (w.recursive && w.uses == 1).then_some(self.levels.len() + 1);
                Named::Kept(number, outer, alone)
            } else {
                Named::Inline(&w.query, self.levels.len())
            };
            self.named.push((w.number, named));
        }
        Ok(dependent)
    }

    /// A WITH query that reads itself.
    fn recursion(&mut self, w: &'b bound::With) -> SqlResult<Block> {
        let Some(set) = &w.query.set else { return Err(internal("a recursion of one query")) };
        (self.count, self.depth) = (self.count + 1, self.depth + 1);
        if self.count > MAX_QUERIES as usize || self.depth > MAX_LEVELS {
            return Err(too_complex());
        }
        let seen = self.named.len();
        let with = self.with_queries(&w.query.with)?;
        self.levels.push(Level::default());
        let left = Box::new(self.query(&set.left)?);
        let work = self.relation("", vec![(String::new(), Type::INT8)])?;
        self.named.push((w.number, Named::Working(work, &w.name)));
        let right = Box::new(self.query(&set.right)?);
        self.levels.pop();
        self.named.truncate(seen);
        self.depth -= 1;
        let columns = set.left.columns();
        let rel = self.relation("", columns.clone())?;
        let output = columns.iter().enumerate().map(|(n, c)| column(rel, n, c.1)).collect();
        let mut tree = Logical::Recursion { rel, work, all: set.all, left, right };
        if !with.is_empty() {
            tree = Logical::With { queries: with, input: Box::new(tree) };
        }
        Ok(Block { tree, output })
    }

    /// A WITH query where it is used.
    fn with(&mut self, rel: u16, number: u16) -> SqlResult<Logical> {
        let at = self.named.iter().rposition(|n| n.0 == number);
        let at = at.ok_or_else(|| internal("a WITH query that is nowhere"))?;
        match &self.named[at].1 {
            Named::Kept(number, outer, alone) => {
                self.longest = self.longest.max(self.chains.get(*number as usize).copied().unwrap_or(0));
                let streamed = *alone == Some(self.levels.len());
                let source = Source::With { number: *number, outer: outer.clone(), streamed };
                Ok(Logical::Scan { rel, source })
            }
            &Named::Working(work, name) => {
                let outer = vec![column(work, 0, Type::INT8)];
                Ok(Logical::Scan { rel, source: Source::Working { work, name: name.into(), outer } })
            }
            &Named::Inline(query, levels) => {
                let inner = self.levels.split_off(levels);
                let rows = self.query(query);
                self.levels.extend(inner);
                let Block { tree, output } = rows?;
                Ok(Logical::Project { rel, input: Box::new(tree), columns: output })
            }
        }
    }

    fn this(&mut self) -> SqlResult<&mut Level> {
        self.levels.last_mut().ok_or_else(|| internal("an expression outside any query"))
    }

    fn block(&mut self, q: &'b Query) -> SqlResult<Block> {
        let mut tree = match &q.set {
            Some(set) => {
                let (left, right) = (self.query(&set.left)?, self.query(&set.right)?);
                let rel = self.relation("", set.left.columns())?;
                self.this()?.rels.push(rel);
                let (operation, all) = (set.operation, set.all || set.operation == SetOperation::Union);
                let (left, right) = (Box::new(left), Box::new(right));
                let by = set.left.columns().iter().enumerate().map(|(n, c)| column(rel, n, c.1)).collect();
                let tree = Logical::SetOperation { rel, operation, all, left, right };
                match all == set.all {
                    true => tree,
                    // UNION is UNION ALL, each row once.
                    false => Logical::Distinct { input: Box::new(tree), by, first: false },
                }
            }
            None => self.from(q)?,
        };
        let mut conditions = Vec::new();
        if !q.locks.is_empty() {
            recheck(&tree, &mut conditions);
        }
        if q.grouped {
            tree = self.groups(q, tree)?;
        }
        if let Some(having) = &q.having {
            let mut conditions = Vec::new();
            conjuncts(self.expr(having)?, &mut conditions);
            tree = filter(tree, conditions);
        }
        if !q.window_calls.is_empty() {
            tree = self.windows(q, tree)?;
        }
        // What ORDER BY does not use of the functions that give rows is computed after it, as in PostgreSQL.
        let by_set = |k: &bound::OrderKey| bound::uses_places(&q.targets[k.target].expr, q);
        let sets_last = !q.distinct
            && q.distinct_on.is_empty()
            && !q.order_by.is_empty()
            && !q.order_by.iter().any(by_set);
        let in_order = !q.order_by.is_empty() && !q.order_by.iter().any(by_set);
        if !q.places.is_empty() && !q.distinct_on.is_empty() && in_order {
            // Which row is the first would be settled before the functions are called.
            let feature =
                "a set-returning function among the targets of DISTINCT ON that ORDER BY does not use";
            return Err(SqlError::unsupported(feature));
        }
        if !sets_last {
            tree = self.project_sets(q, tree)?;
        }
        let mut places: Vec<usize> = (0..q.targets.len()).filter(|n| !q.targets[*n].hidden).collect();
        let visible = places.len();
        let mut output;
        let mut ties = Vec::new();
        let in_order = q.distinct || !q.distinct_on.is_empty() || !q.order_by.is_empty();
        // So is what is volatile: it is called in the order of the rows, and for those that a limit leaves.
        let is_volatile = |t: &Target| t.expr.calls(Volatility::Volatile);
        let volatile_last = !q.distinct
            && q.distinct_on.is_empty()
            && q.visible().any(is_volatile)
            && !q.order_by.iter().any(|k| is_volatile(&q.targets[k.target]));
        if q.locks.is_empty() && in_order && !volatile_last && (q.places.is_empty() || !sets_last) {
            // Visible targets first, so that they stand side by side; then those for sorting alone.
            places.extend((0..q.targets.len()).filter(|n| q.targets[*n].hidden));
            (tree, output) = self.projected(tree, places.iter().map(|n| &q.targets[*n]))?;
            if q.distinct {
                let by = output[..visible].to_vec();
                tree = Logical::Distinct { input: Box::new(tree), by, first: false };
            }
            let keys: Vec<SortBy> = (q.order_by.iter())
                .map(|k| SortBy {
                    expr: output[places.iter().position(|p| *p == k.target).unwrap_or(0)].clone(),
                    desc: k.desc,
                    nulls_first: k.nulls_first,
                })
                .collect();
            if q.ties {
                ties = keys.iter().map(|k| k.expr.clone()).collect();
            }
            if !keys.is_empty() {
                tree = Logical::Sort { input: Box::new(tree), keys };
            }
            if !q.distinct_on.is_empty() {
                // The first of each comes first.
                let of = |t: &usize| output[places.iter().position(|p| p == t).unwrap_or(0)].clone();
                let by = q.distinct_on.iter().map(of).collect();
                tree = Logical::Distinct { input: Box::new(tree), by, first: true };
            }
            output.truncate(visible);
        } else {
            if !q.order_by.is_empty() {
                let mut keys = Vec::new();
                for k in &q.order_by {
                    let expr = self.expr(&q.targets[k.target].expr)?;
                    keys.push(SortBy { expr, desc: k.desc, nulls_first: k.nulls_first });
                }
                if q.ties {
                    ties = keys.iter().map(|k| k.expr.clone()).collect();
                }
                tree = Logical::Sort { input: Box::new(tree), keys };
            }
            if sets_last {
                tree = self.project_sets(q, tree)?;
            }
            output = self.exprs(q.visible().map(|t| &t.expr))?;
        }
        if !q.locks.is_empty() {
            let rels = self.this()?.rels.clone();
            let locks = (q.locks.iter())
                .map(|(of, strength, wait)| Locked {
                    rels: of.iter().map(|r| rels[*r as usize]).collect(),
                    strength: *strength,
                    wait: *wait,
                })
                .collect();
            tree = Logical::Lock { input: Box::new(tree), locks, recheck: conditions };
        }
        // A limit that is none keeps conditions above it as well.
        if q.limit.is_some() || q.offset.is_some() || q.barrier {
            let (limit, offset) = (self.optional(&q.limit)?, self.optional(&q.offset)?);
            tree = Logical::Limit { input: Box::new(tree), limit, offset, ties };
        }
        Ok(Block { tree, output })
    }

    /// The targets as columns: of a relation of their own, unless they are the only relation's already.
    fn projected(
        &mut self,
        tree: Logical,
        targets: impl Iterator<Item = &'b Target> + Clone,
    ) -> SqlResult<(Logical, Vec<Expr>)> {
        let columns = self.exprs(targets.clone().map(|t| &t.expr))?;
        let names = targets.map(|t| (t.name.clone(), t.expr.ty)).collect();
        let set = match &tree {
            Logical::Distinct { input, .. } => input,
            tree => tree,
        };
        if let Logical::SetOperation { rel: of, .. } = set
            && columns.iter().enumerate().all(|(n, c)| {
                matches!(c.kind, ExprKind::Column { rel, column, .. } if rel == *of && column as usize == n)
            })
        {
            return Ok((tree, columns));
        }
        let rel = self.relation("", names)?;
        let output = columns.iter().enumerate().map(|(n, c)| column(rel, n, c.ty)).collect();
        Ok((Logical::Project { rel, input: Box::new(tree), columns }, output))
    }

    /// The functions among the targets that give rows, the inner ones first.
    fn project_sets(&mut self, q: &'b Query, mut tree: Logical) -> SqlResult<Logical> {
        for number in &q.places {
            let Rel::Places { values, stop } = &q.rels[*number as usize].rel else {
                return Err(internal("places of no functions"));
            };
            let rel = self.this()?.rels[*number as usize];
            let (values, stop) = (self.exprs(values)?, self.expr(stop)?);
            tree = Logical::ProjectSet { rel, input: Box::new(tree), values, stop };
        }
        Ok(tree)
    }

    /// FROM and WHERE.
    fn from(&mut self, q: &'b Query) -> SqlResult<Logical> {
        for entry in &q.rels {
            let mut columns = entry.columns.clone();
            if let Rel::Table(t) = &entry.rel {
                let hidden = t.def.columns.iter().skip(columns.len());
                columns.extend(hidden.map(|c| (c.label().to_string(), c.ty)))
            }
            let rel = self.relation(&entry.alias, columns)?;
            self.this()?.rels.push(rel);
        }
        let mut tree = None;
        for f in &q.from {
            let right = self.item(q, f)?;
            tree = Some(match tree {
                None => right,
                Some(left) => Logical::Join {
                    kind: JoinKind::Inner,
                    left: Box::new(left),
                    right: Box::new(right),
                    on: Vec::new(),
                },
            });
        }
        let mut tree = tree.unwrap_or(Logical::Nothing);
        if let Some(f) = &q.filter {
            let mut conditions = Vec::new();
            conjuncts(self.expr(f)?, &mut conditions);
            tree = filter(tree, conditions);
        }
        Ok(tree)
    }

    fn item(&mut self, q: &'b Query, from: &'b From) -> SqlResult<Logical> {
        match from {
            From::Rel(r) => self.rel(*r, &q.rels[*r as usize].rel),
            From::Join { kind, left, right, on } => {
                let (left, right) = (Box::new(self.item(q, left)?), Box::new(self.item(q, right)?));
                let mut conditions = Vec::new();
                if let Some(on) = on {
                    conjuncts(self.expr(on)?, &mut conditions);
                }
                Ok(Logical::Join { kind: (*kind).into(), left, right, on: conditions })
            }
        }
    }

    fn rel(&mut self, number: u16, what: &'b Rel) -> SqlResult<Logical> {
        let rel = self.this()?.rels[number as usize];
        let source = match what {
            Rel::Query(q) => {
                let Block { tree, output } = self.query(q)?;
                return Ok(Logical::Project { rel, input: Box::new(tree), columns: output });
            }
            Rel::With(number) => return self.with(rel, *number),
            Rel::Table(t) if t.def.is_foreign() => match self.opened.tables.get(&t.def.id) {
                Some(open) => Source::Foreign(open.clone()),
                None => return Err(SqlError::unsupported("a foreign table in a function's body")),
            },
            Rel::Table(t) => Source::Table(t.clone()),
            Rel::Values(rows) => {
                Source::Values(rows.iter().map(|r| self.exprs(r)).collect::<SqlResult<_>>()?)
            }
            Rel::Function { function, args } => {
                Source::Function { function: function.clone(), args: self.exprs(args)? }
            }
            Rel::Foreign(t) => Source::Foreign(t.clone()),
            Rel::System(name) => Source::System(name),
            Rel::Sequence(id, name) => Source::Sequence(*id, name.clone()),
            Rel::Places { .. } => return Err(internal("places in FROM")),
            Rel::Series { start, stop, step, by } => Source::Series {
                start: self.expr(start)?,
                stop: self.expr(stop)?,
                step: self.expr(step)?,
                by: match by {
                    Some(by) => Some((self.expr(&by.step)?, by.add)),
                    None => None,
                },
            },
        };
        Ok(Logical::Scan { rel, source })
    }

    fn order(&mut self, keys: &'b [bound::SortKey]) -> SqlResult<Vec<bound::SortKey<Inside>>> {
        let key = |k: &'b bound::SortKey| {
            let expr = self.expr(&k.expr)?;
            Ok(bound::SortKey { expr, desc: k.desc, nulls_first: k.nulls_first })
        };
        keys.iter().map(key).collect()
    }

    fn groups(&mut self, q: &'b Query, tree: Logical) -> SqlResult<Logical> {
        let keys = self.exprs(&q.group_by)?;
        let mut aggregates = Vec::new();
        for a in &q.aggregates {
            aggregates.push(Aggregate {
                agg: a.agg,
                args: self.exprs(&a.args)?,
                distinct: a.distinct,
                order: self.order(&a.order)?,
                filter: self.optional(&a.filter)?,
                ty: a.ty,
            });
        }
        let types = keys.iter().map(|k| k.ty).chain(aggregates.iter().map(|a| a.ty));
        let rel = self.relation("", types.map(|ty| (String::new(), ty)).collect())?;
        self.this()?.groups = Some((rel, keys.len() as u16));
        Ok(Logical::Aggregate { rel, input: Box::new(tree), keys, aggregates })
    }

    fn insert(&mut self, i: &'b bound::Insert) -> SqlResult<Root> {
        self.with_queries(&i.with)?;
        let source = self.query(&i.source)?;
        let mut columns = Vec::new();
        self.levels.push(Level::default());
        for c in &i.columns {
            columns.push(match c {
                InsertColumn::Source(n) => NewColumn::Source(*n),
                InsertColumn::Value(e) => NewColumn::Value(self.expr(e)?),
            });
        }
        let def = &i.table.0.def;
        let update = i.on_conflict.as_ref().and_then(|c| c.update.as_ref());
        let alias = update.and_then(|u| u.query.rels.first()).map_or(&def.name, |r| &r.alias);
        let rel =
            self.relation(alias, def.columns.iter().map(|c| (c.label().to_string(), c.ty)).collect())?;
        self.this()?.rels.push(rel);
        let on_conflict = match &i.on_conflict {
            Some(c) => Some(OnConflict {
                arbiters: c.arbiters.clone(),
                update: c.update.as_ref().map(|u| self.conflict_update(u)).transpose()?,
            }),
            None => None,
        };
        let checks = self.checks(&i.checks)?;
        let returning = self.exprs(shown(&i.returning))?;
        self.levels.pop();
        Ok(Root::Insert { table: i.table.clone(), source, columns, checks, on_conflict, returning, rel })
    }

    /// The changed row's relation is the level's first.
    fn conflict_update(&mut self, u: &'b bound::ConflictUpdate) -> SqlResult<ConflictUpdate> {
        let entry = u.query.rels.get(1).ok_or_else(|| internal("no row that was proposed"))?;
        let excluded = self.relation(&entry.alias, entry.columns.clone())?;
        self.this()?.rels.push(excluded);
        let mut filter = Vec::new();
        if let Some(f) = &u.query.filter {
            conjuncts(self.expr(f)?, &mut filter);
        }
        let mut assign = Vec::new();
        for (column, t) in u.assign.iter().zip(&u.query.targets) {
            assign.push((*column, self.expr(&t.expr)?));
        }
        let checks = self.checks(&u.checks)?;
        Ok(ConflictUpdate { excluded, assign, filter, checks })
    }

    fn modify(&mut self, m: &'b bound::Modify) -> SqlResult<Root> {
        self.with_queries(&m.query.with)?;
        self.levels.push(Level::default());
        let input = self.from(&m.query)?;
        let mut conditions = Vec::new();
        recheck(&input, &mut conditions);
        let assign = match m.delete {
            true => None,
            false => {
                let mut list = Vec::new();
                for (column, t) in m.assign.iter().zip(&m.query.targets) {
                    list.push((*column, self.expr(&t.expr)?));
                }
                Some(list)
            }
        };
        let checks = self.checks(&m.checks)?;
        let returning = self.exprs(shown(&m.returning))?;
        let rel = self.this()?.rels.first().copied().ok_or_else(|| internal("a change of no table"))?;
        self.levels.pop();
        let (table, recheck) = (m.table.clone(), conditions);
        Ok(Root::Modify { table, rel, input, assign, checks, recheck, returning })
    }

    fn checks(&mut self, checks: &'b [bound::RowCheck]) -> SqlResult<Vec<(u16, Expr)>> {
        checks.iter().map(|c| Ok((c.number, self.expr(&c.condition)?))).collect()
    }
}

/// What must hold of a row that was changed before it was locked: WHERE, and the conditions of inner joins
/// that are not below an outer one's nullable side.
fn recheck(tree: &Logical, out: &mut Vec<Expr>) {
    match tree {
        Logical::Filter { input, conditions } => {
            out.extend(conditions.iter().cloned());
            recheck(input, out);
        }
        Logical::Join { kind: JoinKind::Inner, left, right, on } => {
            recheck(left, out);
            recheck(right, out);
            out.extend(on.iter().cloned());
        }
        Logical::Join { kind: JoinKind::Left, left, .. } => recheck(left, out),
        _ => {}
    }
}

fn shown(targets: &[Target]) -> impl Iterator<Item = &bound::Expr> {
    targets.iter().filter(|t| !t.hidden).map(|t| &t.expr)
}

/// Rows for which all conditions hold.
pub fn filter(input: Logical, conditions: Vec<Expr>) -> Logical {
    match conditions.is_empty() {
        true => input,
        false => Logical::Filter { input: Box::new(input), conditions },
    }
}

/// Splits a condition into those that must all hold.
pub fn conjuncts(e: Expr, out: &mut Vec<Expr>) {
    match e.kind {
        ExprKind::And(list) => list.into_iter().for_each(|e| conjuncts(e, out)),
        _ => out.push(e),
    }
}

#[cold]
fn internal(message: &str) -> SqlError {
    SqlError::new(sqlstate::INTERNAL_ERROR, message)
}
