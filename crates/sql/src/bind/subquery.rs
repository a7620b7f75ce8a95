//! Subqueries in expressions: EXISTS, IN, ANY, ALL, and those that stand for a value.

use super::scope::Clause;
use super::tree::{at, at_expr, kind, need, place, strings, unexpected};
use super::{Binder, coerce};
use crate::bound::{Expr, ExprKind, Query};
use crate::parse::tree::{Node, SelectStmt, SubLink, SubLinkType, node::Node as Kind};
use ondol_types::func::FuncId;
use ondol_types::{SqlError, SqlResult, Type, TypeId, resolve, sqlstate};

use super::expr::{negate, truth};

impl<'a> Binder<'a> {
    fn subselect(&self, s: &'a SubLink) -> SqlResult<&'a SelectStmt> {
        match kind(need(&s.subselect)?)? {
            Kind::SelectStmt(q) => Ok(q),
            _ => Err(unexpected("a subquery")),
        }
    }

    pub(super) fn sublink(&mut self, s: &'a SubLink) -> SqlResult<Expr> {
        match s.sub_link_type() {
            SubLinkType::ExistsSublink => {
                let mut query = self.select(self.subselect(s)?)?;
                coerce::settle_targets(self, &mut query)?;
                Ok(truth(ExprKind::Exists { query: Box::new(query), negated: false }, s.location))
            }
            SubLinkType::ExprSublink => {
                let mut query = self.select(self.subselect(s)?)?;
                coerce::settle_targets(self, &mut query)?;
                let types: Vec<Type> = query.visible().map(|t| t.expr.ty).collect();
                let [ty] = types[..] else {
                    let message = "subquery must return only one column";
                    return Err(at(SqlError::new(sqlstate::SYNTAX_ERROR, message), s.location));
                };
                Ok(Expr { kind: ExprKind::Scalar(Box::new(query)), ty, at: place(s.location) })
            }
            SubLinkType::AnySublink if s.oper_name.is_empty() => self.quantified(s, "=", false),
            SubLinkType::AnySublink | SubLinkType::AllSublink => {
                let name = match strings(&s.oper_name)?[..] {
                    [name] | ["pg_catalog", name] => name,
                    _ => return Err(at(SqlError::unsupported("an operator of another schema"), s.location)),
                };
                self.quantified(s, name, s.sub_link_type() == SubLinkType::AllSublink)
            }
            SubLinkType::ArraySublink => self.array_of_query(self.subselect(s)?, s.location),
            _ => Err(at(SqlError::unsupported("this kind of subquery"), s.location)),
        }
    }

    /// `left op ANY/ALL (query)`. Of several columns only equality can be asked; its negation turns round.
    pub(super) fn quantified(&mut self, s: &'a SubLink, name: &str, all: bool) -> SqlResult<Expr> {
        // NOT IN: the message speaks of what is negated.
        let asked = if s.oper_name.is_empty() { "=" } else { name };
        let test = need(&s.testexpr)?;
        let lefts: Vec<&'a Node> = match kind(test)? {
            Kind::RowExpr(row) => row.args.iter().collect(),
            _ => vec![test],
        };
        let several = lefts.len() > 1;
        let (name, all, negated) = match name {
            "<>" | "!=" if several => ("=", !all, true),
            "=" => ("=", all, false),
            _ if several => {
                return Err(at(SqlError::unsupported("comparing rows of a subquery by order"), s.location));
            }
            "!=" => ("<>", all, false),
            other => (other, all, false),
        };
        let mut left = Vec::with_capacity(lefts.len());
        for l in lefts {
            left.push(self.expr(l)?);
        }
        let query = self.settled_select(self.subselect(s)?)?;
        let e = self.compared(left, query, (asked, name, all), s.location)?;
        Ok(if negated { negate(e, s.location) } else { e })
    }

    /// `left op ANY/ALL (query)` of what is bound; `asked` is how the operator is called.
    pub(super) fn compared(
        &mut self,
        left: Vec<Expr>,
        query: Query,
        (asked, name, all): (&str, &str, bool),
        location: i32,
    ) -> SqlResult<Expr> {
        let width = query.visible().count();
        if width != left.len() {
            let message = if width < left.len() {
                "subquery has too few columns"
            } else {
                "subquery has too many columns"
            };
            return Err(at(SqlError::new(sqlstate::SYNTAX_ERROR, message), location));
        }
        let mut ops: Vec<FuncId> = Vec::with_capacity(width);
        let mut right_types: Vec<TypeId> = Vec::with_capacity(width);
        let mut cast_left = Vec::with_capacity(width);
        let types: Vec<TypeId> = query.visible().map(|t| t.expr.ty.id).collect();
        for (l, right) in left.into_iter().zip(types) {
            if asked != name {
                resolve::resolve_operator(asked, Some(l.ty.id), right).map_err(|e| at(e, location))?;
            }
            let op = resolve::resolve_operator(name, Some(l.ty.id), right).map_err(|e| at(e, location))?;
            if op.def().ret != TypeId::BOOL {
                let message = format!(
                    "operator {name} must return type boolean, not type {}",
                    super::name_of(op.ret())
                );
                return Err(at(SqlError::new(sqlstate::DATATYPE_MISMATCH, message), location));
            }
            let [want_left, want_right] = Self::operand_types(op, l.ty.id, right)?;
            cast_left.push(self.operand_of(l, want_left)?);
            right_types.push(want_right);
            ops.push(op.func);
        }
        let query = coerce::convert_targets(self, query, &mut |b, i, e| b.operand_of(e, right_types[i]))?;
        let kind = ExprKind::Quantified { left: cast_left, query: Box::new(query), ops, all };
        let e = truth(kind, location);
        Ok(self.noted(e, || super::written::Note::Quantified(name.to_string())))
    }

    /// A subquery in FROM or WITH: its columns have types.
    pub(super) fn settled_select(&mut self, s: &'a SelectStmt) -> SqlResult<Query> {
        let mut query = self.select(s)?;
        coerce::settle_targets(self, &mut query)?;
        Ok(query)
    }

    /// An integer for LIMIT or OFFSET.
    pub(super) fn count(&mut self, node: &'a Node, clause: Clause, name: &str) -> SqlResult<Expr> {
        let e = self.within(clause, |b| b.expr(node))?;
        let e = self.of_type(e, Type::INT8, name)?;
        without_columns(e, name)
    }
}

/// What a construct asks once for all rows of the query: without columns of it.
pub(super) fn without_columns(e: Expr, name: &str) -> SqlResult<Expr> {
    let mut uses_columns = None;
    crate::bound::walk_expr(&e, 0, &mut |e, level| {
        if let ExprKind::Column { depth, .. } = e.kind
            && depth == level
        {
            uses_columns.get_or_insert(e.at);
        }
        true
    });
    if let Some(here) = uses_columns {
        let message = format!("argument of {name} must not contain variables");
        return Err(at_expr(SqlError::new(sqlstate::INVALID_COLUMN_REFERENCE, message), here));
    }
    Ok(e)
}
