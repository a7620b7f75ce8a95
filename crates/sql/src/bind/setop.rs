//! UNION, INTERSECT and EXCEPT.

use super::scope::{Clause, column};
use super::tree::{at_expr, refuse, unexpected};
use super::{Binder, coerce, constant};
use crate::bound::{Expr, Query, SetOperation, SetQuery, Target};
use crate::parse::tree::{SelectStmt, SetOperation as Op};
use ondol_types::{SqlError, SqlResult, Value, sqlstate};

impl<'a> Binder<'a> {
    pub(super) fn set_operation(&mut self, s: &'a SelectStmt) -> SqlResult<Query> {
        let (operation, name) = match s.op() {
            Op::SetopUnion => (SetOperation::Union, "UNION"),
            Op::SetopIntersect => (SetOperation::Intersect, "INTERSECT"),
            Op::SetopExcept => (SetOperation::Except, "EXCEPT"),
            _ => return Err(unexpected("a set operation")),
        };
        refuse(s.into_clause.is_some(), "SELECT INTO")?;
        if !s.locking_clause.is_empty() {
            let message = "FOR UPDATE is not allowed with UNION/INTERSECT/EXCEPT";
            return Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message));
        }
        let (Some(left), Some(right)) = (s.larg.as_deref(), s.rarg.as_deref()) else {
            return Err(unexpected("a set operation of one query"));
        };
        let (query, _) = self.nested(Clause::From, |b| {
            let left = b.select(left)?;
            let right = b.select(right)?;
            b.set_of(s, (operation, name), left, right)
        })?;
        Ok(query)
    }

    /// The query of this level that is a set operation of two, whose columns get common types.
    pub(super) fn set_of(
        &mut self,
        s: &'a SelectStmt,
        (operation, name): (SetOperation, &str),
        left: Query,
        right: Query,
    ) -> SqlResult<Query> {
        let (mut types, mut names) = (Vec::new(), Vec::new());
        if left.visible().count() != right.visible().count() {
            let message = format!("each {name} query must have the same number of columns");
            let here = right.visible().next().map_or(u32::MAX, |t| t.expr.at);
            return Err(at_expr(SqlError::new(sqlstate::SYNTAX_ERROR, message), here));
        }
        for (l, r) in left.visible().zip(right.visible()) {
            names.push(l.name.clone());
            let ty = coerce::common_type(&[&l.expr, &r.expr], name)?;
            if !(s.all && operation == SetOperation::Union) {
                super::json::check_comparable(&Expr { ty, ..l.expr.clone() }, false)?;
            }
            types.push(ty);
        }
        let convert = |b: &mut Self, q| {
            coerce::convert_targets(b, q, &mut |b, i, e| {
                let mut e = b.cast_all(vec![e], types[i], name)?;
                Ok(e.pop().unwrap_or_else(|| constant(Value::Null, types[i], u32::MAX)))
            })
        };
        let left = convert(self, left)?;
        let right = convert(self, right)?;
        let mut targets: Vec<Target> = types
            .iter()
            .zip(names)
            .enumerate()
            .map(|(i, (ty, name))| Target { expr: column(0, i, *ty), name, hidden: false })
            .collect();
        let order_by = self.sort_outcome(&s.sort_clause, &mut targets)?;
        let (limit, offset, ties) = self.limits(s)?;
        let set = Some(Box::new(SetQuery { operation, all: s.all, left, right }));
        Ok(Query { set, targets, order_by, limit, offset, ties, ..Query::default() })
    }
}
