//! What the columns of a query are declared with, where a relation is made of it: domains, and collations,
//! of which the types of expressions do not tell.
//!
//! An expression is of a domain as in PostgreSQL: a column of one, a cast to one, and what chooses among
//! values of the same. Whatever computes with it is of the type that the domain is made of.
use super::written::{Note, Notes, Verbatim};
use crate::bound::{Expr, ExprKind, Query, Rel};
use ondol_engine::{Catalog, ColumnDef, Returns};
use ondol_types::user::composite;
use ondol_types::{Type, TypeId};

/// What a column is declared with beside its type.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Declared {
    pub domain: Option<TypeId>,
    pub collation: Option<String>,
}

/// What each column of the query is declared with.
pub fn columns(catalog: &Catalog, of: &Verbatim) -> Vec<Declared> {
    let reader = Declarations { catalog, notes: &of.notes, given: &[] };
    (0..of.query.columns().len()).map(|n| reader.target(&of.query, n, &[])).collect()
}

/// Looks at expressions that are bound as written. Scopes are the queries around one, innermost last; `None`:
/// a level of its own around something else.
pub struct Declarations<'q> {
    pub catalog: &'q Catalog,
    pub notes: &'q Notes,
    /// Of the columns of a relation of which nothing else is known.
    pub given: &'q [Declared],
}

/// What all of them are.
fn same(mut all: impl Iterator<Item = Declared>) -> Declared {
    let Some(first) = all.next() else { return Declared::default() };
    let of = |a: Declared, b: Declared| Declared {
        domain: a.domain.filter(|d| b.domain == Some(*d)),
        collation: a.collation.filter(|c| b.collation.as_ref() == Some(c)),
    };
    all.fold(first, of)
}

/// What a column of a table or a view is declared with.
pub fn of_column(c: &ColumnDef) -> Declared {
    Declared { domain: c.domain, collation: c.collation.clone() }
}

fn of_type(ty: Type) -> Declared {
    Declared { domain: (ty.base() != ty).then_some(ty.id), collation: None }
}

impl<'q> Declarations<'q> {
    /// A column of what the query gives; `outer`: the queries around.
    pub fn target(&self, query: &'q Query, n: usize, outer: &[Option<&'q Query>]) -> Declared {
        let scopes: Vec<Option<&Query>> = outer.iter().copied().chain([Some(query)]).collect();
        if let Some(set) = &query.set {
            return same([&set.left, &set.right].into_iter().map(|q| self.target(q, n, &scopes)));
        }
        let mut shown = query.targets.iter().filter(|t| !t.hidden);
        shown.nth(n).map_or(Declared::default(), |t| self.expr(&t.expr, &scopes))
    }

    pub fn expr(&self, e: &'q Expr, scopes: &[Option<&'q Query>]) -> Declared {
        let all = |list: &'q [Expr]| same(list.iter().map(|e| self.expr(e, scopes)));
        match (self.notes.of(e), &e.kind) {
            (Some(Note::Domain(ty) | Note::DomainValue(ty)), _) => of_type(*ty),
            (Some(Note::Collate(name)), ExprKind::Cast { arg, .. }) => {
                Declared { collation: Some(name.clone()), ..self.expr(arg, scopes) }
            }
            (Some(Note::Field(name)), ExprKind::Call { args, .. }) => {
                let fields = args.first().and_then(|row| composite::fields(row.ty.id));
                let field = fields.and_then(|f| f.iter().find(|p| p.name == *name));
                field.map_or(Declared::default(), |p| of_type(p.of()))
            }
            (_, &ExprKind::Column { depth, rel, column }) => {
                let Some(at) = scopes.len().checked_sub(1 + usize::from(depth)) else {
                    return Declared::default();
                };
                self.column(&scopes[..=at], usize::from(rel), usize::from(column))
            }
            (_, &ExprKind::Group(n)) => self.group(scopes, 0, n),
            (_, &ExprKind::GroupOuter { depth, index }) => self.group(scopes, usize::from(depth), index),
            (_, ExprKind::Case { whens, otherwise: Some(otherwise) }) => {
                let all = whens.iter().map(|w| &w.1).chain([&**otherwise]);
                same(all.map(|e| self.expr(e, scopes)))
            }
            (_, ExprKind::Coalesce(list) | ExprKind::Greatest(list) | ExprKind::Least(list)) => all(list),
            (_, ExprKind::Scalar(q)) => match &q.rels[..] {
                [entry] if q.is_call => match &entry.rel {
                    Rel::Function { function, .. } => returned(&function.returns, 0),
                    _ => Declared::default(),
                },
                _ => self.target(q, 0, scopes),
            },
            _ => Declared::default(),
        }
    }

    fn group(&self, scopes: &[Option<&'q Query>], depth: usize, n: u16) -> Declared {
        let Some(at) = scopes.len().checked_sub(1 + depth) else { return Declared::default() };
        let key = scopes[at].and_then(|q| q.group_by.get(usize::from(n)));
        key.map_or(Declared::default(), |e| self.expr(e, &scopes[..=at]))
    }

    /// A column of a relation of the innermost of the queries.
    fn column(&self, scopes: &[Option<&'q Query>], rel: usize, column: usize) -> Declared {
        let Some(Some(query)) = scopes.last() else { return Declared::default() };
        let view = query.written.as_ref().and_then(|w| w.rels.get(&(rel as u16))?.view);
        if let Some(view) = view {
            let def = self.catalog.view_by_id(view).and_then(|v| v.columns.get(column));
            return def.map_or(Declared::default(), of_column);
        }
        match query.rels.get(rel).map(|r| &r.rel) {
            Some(Rel::Table(t)) => t.def.columns.get(column).map_or(Declared::default(), of_column),
            Some(Rel::Query(q)) => self.target(q, column, scopes),
            Some(Rel::Function { function, .. }) => returned(&function.returns, column),
            Some(Rel::Values(rows)) if rows.is_empty() => self.given.get(column).cloned().unwrap_or_default(),
            Some(Rel::Values(rows)) => {
                same(rows.iter().filter_map(|r| r.get(column)).map(|e| self.expr(e, scopes)))
            }
            Some(Rel::With(n)) => {
                let found = scopes.iter().enumerate().rev().find_map(|(at, q)| {
                    let with = (*q)?.with.iter().find(|w| w.number == *n)?;
                    let outer = &scopes[..at];
                    Some(match &with.query.set {
                        // Its right side reads it again.
                        Some(set) if with.recursive => {
                            let scopes: Vec<Option<&Query>> =
                                outer.iter().copied().chain([Some(&with.query)]).collect();
                            self.target(&set.left, column, &scopes)
                        }
                        _ => self.target(&with.query, column, outer),
                    })
                });
                found.unwrap_or_default()
            }
            _ => Declared::default(),
        }
    }
}

/// What a function gives in a column.
fn returned(of: &Returns, column: usize) -> Declared {
    match of {
        Returns::Void => Declared::default(),
        Returns::Scalar { ty, .. } => of_type(*ty),
        Returns::Rows { columns, .. } => columns.get(column).map_or(Declared::default(), |c| of_type(c.1)),
    }
}
