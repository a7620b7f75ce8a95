//! Code for lists: IN, the keys of a lookup by one, VALUES.
//!
//! - **L1** Constants of a list stand in the program's pool, side by side: its code does not grow with them.
//! - **L2** `x IN (...)` compares with at most [`COMPARED`] constants, and as many parameters, one by one.
//!   More are put into a hash table: constants when it is first needed, to stay there; what is computed
//!   without looking at a row once in an execution. What looks at rows is always compared.
use super::super::op::Op;
use super::super::operand::*;
use super::{Gen, internal};
use crate::bound::children;
use crate::plan::classify::{comparison, hashable};
use crate::plan::logical::{Expr, ExprKind, known};
use ondol_types::func::{FuncId, Volatility, id};
use ondol_types::{SqlResult, TypeId, Value};

/// L2
const COMPARED: usize = 8;

/// Whether the value is the same throughout an execution, and costs nothing but the computing.
fn is_settled(e: &Expr) -> bool {
    let mut settled = match &e.kind {
        ExprKind::Const(_) | ExprKind::Param(_) | ExprKind::Cast { .. } => true,
        ExprKind::Call { func, .. } => {
            ondol_types::func::find(*func).is_some_and(|d| d.volatility != Volatility::Volatile)
        }
        _ => false,
    };
    children(e, &mut |e| settled = settled && is_settled(e));
    settled
}

impl<'a> Gen<'a> {
    /// `dst := arg [NOT] IN (list)`, three-valued: NULL where nothing equals and some comparison is NULL.
    pub fn in_list(
        &mut self,
        arg: &'a Expr,
        list: &'a [Expr],
        eq: FuncId,
        negated: bool,
        dst: u16,
    ) -> SqlResult<()> {
        let a = self.comparable_expr(arg)?;
        let (out, end, found) = (Out(dst), self.label(), self.label());
        let c = self.register();
        self.op(Op::Bool { dst: out, value: Flag(negated) });
        let mut compared: Vec<&'a Expr> = list.iter().collect();
        if comparison(eq).is_some_and(|c| hashable(&c)) && list.len() > COMPARED {
            let mut constants = Vec::new();
            let (mut settled, mut others) = (Vec::new(), Vec::new());
            for e in list {
                self.limits.go_on()?;
                match &e.kind {
                    ExprKind::Const(v) => constants.push((e, v)),
                    _ if is_settled(e) => settled.push(e),
                    _ => others.push(e),
                }
            }
            compared = others;
            if constants.len() > COMPARED {
                let some = constants.iter().filter(|(_, v)| !v.is_null()).count();
                let (has_null, hash) = (some < constants.len(), self.hash(1, 1));
                let from = self
                    .pooled(constants.into_iter().map(|(e, v)| bare(v, e.ty.id)).filter(|v| !v.is_null()));
                self.op(Op::InPool { dst: Out(c), a: Reg(a), hash, from, count: Count(some as u32) });
                self.one_answer(c, found, dst);
                if has_null {
                    self.op(Op::Null { dst: out });
                }
            } else {
                compared.extend(constants.into_iter().map(|(e, _)| e))
            }
            if settled.len() > COMPARED {
                let (hash, has_null) = (self.hash(1, 1), self.lasting());
                self.once(&mut |g| {
                    g.op(Op::HashClear { hash });
                    g.op(Op::Bool { dst: Out(has_null), value: Flag(false) });
                    settled.iter().try_for_each(|e| {
                        g.in_passing([*e], |g| {
                            let a = Reg(g.comparable_expr(e)?);
                            g.op(Op::SetPut { hash, a, null: Out(has_null) });
                            Ok(())
                        })
                    })
                })?;
                self.op(Op::InSet { dst: Out(c), a: Reg(a), hash });
                self.one_answer(c, found, dst);
                let none = self.label();
                self.op(Op::IfNot { a: Reg(has_null), to: none });
                self.op(Op::Null { dst: out });
                self.here(none);
            } else {
                compared.append(&mut settled)
            }
        }
        for e in compared {
            self.in_passing([e], |g| {
                let b = g.expr(e)?;
                g.compare(eq, a, b, c)?;
                g.one_answer(c, found, dst);
                Ok(())
            })?;
        }
        self.jump(end);
        self.here(found);
        self.op(Op::Bool { dst: out, value: Flag(!negated) });
        self.here(end);
        Ok(())
    }

    /// Takes one comparison into the outcome.
    fn one_answer(&mut self, c: u16, found: Label, dst: u16) {
        self.op(Op::If { a: Reg(c), to: found });
        let known = self.label();
        self.op(Op::IfNotNull { a: Reg(c), to: known });
        self.op(Op::Null { dst: Out(dst) });
        self.here(known);
    }

    /// A hash table with each value of a list of keys once, as the column's type has it; NULLs and what the
    /// column cannot hold are left out.
    pub fn key_list(&mut self, list: &'a [Expr], column: TypeId) -> SqlResult<Hash> {
        let hash = self.hash(1, 1);
        let (mut constants, mut others) = (Vec::new(), Vec::new());
        for e in list {
            self.limits.go_on()?;
            match &e.kind {
                ExprKind::Const(v) => constants.extend(key_constant(v.clone(), column)),
                _ => others.push(e),
            }
        }
        let count = Count(constants.len() as u32);
        let from = self.pooled(constants);
        let full = self.label();
        if others.is_empty() {
            // It stays as it is.
            let size = self.register();
            let zero = self.constant(&Value::Int8(0));
            self.op(Op::HashSize { dst: Out(size), hash });
            self.op(Op::UnlessInt { a: Reg(size), b: Reg(zero), cond: Cond::Eq, to: full });
        } else {
            self.op(Op::HashClear { hash });
        }
        self.op(Op::HashPool { hash, from, count });
        for e in others {
            let skip = self.label();
            self.in_passing([e], |g| {
                let r = g.key_value(e, column, skip)?;
                g.put_key(hash, r, column, skip);
                Ok(())
            })?;
            self.here(skip);
        }
        self.here(full);
        Ok(hash)
    }

    /// Puts a key into the set unless it is there, or NULL.
    fn put_key(&mut self, hash: Hash, mut r: u16, column: TypeId, skip: Label) {
        self.op(Op::IfNull { a: Reg(r), to: skip });
        if column == TypeId::BPCHAR {
            // Values that differ in trailing blanks alone are one key.
            let bare = self.register();
            self.op(Op::Retag { dst: Out(bare), a: Reg(r), ty: column });
            r = bare;
        }
        self.op(Op::HashPutNew { hash, row: Span::new(r, 1), to: skip });
    }

    /// The items of an array as a set of keys, as [`Gen::key_list`].
    pub fn key_items(&mut self, array: &'a Expr, column: TypeId) -> SqlResult<Hash> {
        let item = array.ty.element().ok_or_else(|| internal("items of no array"))?;
        let hash = self.hash(1, 1);
        self.op(Op::HashClear { hash });
        // The array and the place of an item, and a series of the places: next, stop, step, value.
        let (call, series) = (self.registers(2), self.registers(4));
        self.expr_into(array, call)?;
        let one = self.constant(&Value::Int8(1));
        let [next, stop, step, value] = [0, 1, 2, 3].map(|n| series + n);
        self.op(Op::Move { dst: Out(next), a: Reg(one) });
        self.op(Op::Move { dst: Out(step), a: Reg(one) });
        self.op(Op::Call { dst: Out(stop), func: id::LONGEST_ARRAY, args: Span::new(call, 1) });
        let (state, again, end) = (State(Span::new(series, 4)), self.label(), self.label());
        self.op(Op::SeriesStart { state });
        let mark = self.mark();
        self.here(again);
        let reset = self.reset(mark);
        self.op(Op::SeriesNext { state, to: end });
        self.op(Op::Move { dst: Out(call + 1), a: Reg(value) });
        let key = self.register();
        self.op(Op::Call { dst: Out(key), func: id::ARRAY_ITEM, args: Span::new(call, 2) });
        let key = self.key_of(key, item.id, column, again);
        self.put_key(hash, key, column, again);
        self.jump(again);
        self.here(end);
        self.end_turns(mark, reset);
        Ok(hash)
    }

    /// Puts the rows of VALUES into a list.
    pub fn values_list(&mut self, rows: &'a [Vec<Expr>], width: usize) -> SqlResult<Mat> {
        let mat = self.mat(width);
        self.op(Op::MatClear { mat });
        let mut constant: Vec<Value> = Vec::new();
        for row in rows {
            if row.len() != width {
                return Err(internal("a row of VALUES of another width"));
            }
            self.limits.go_on()?;
            let before = constant.len();
            constant.extend(row.iter().map_while(known).cloned());
            if constant.len() == before + width {
                continue;
            }
            constant.truncate(before);
            self.constant_rows(mat, &mut constant, width);
            self.in_passing(row, |g| {
                let first = g.registers(width);
                for (n, e) in row.iter().enumerate() {
                    g.in_passing([e], |g| g.expr_into(e, first + n as u16))?;
                }
                g.op(Op::MatPut { mat, row: Span::new(first, width) });
                Ok(())
            })?;
        }
        self.constant_rows(mat, &mut constant, width);
        Ok(mat)
    }

    /// Appends rows of constants and forgets them.
    fn constant_rows(&mut self, mat: Mat, values: &mut Vec<Value>, width: usize) {
        if !values.is_empty() {
            let rows = Count((values.len() / width) as u32);
            let from = self.pooled(values.drain(..));
            self.op(Op::MatPool { mat, from, rows });
        }
    }
}

/// A constant without the blanks that do not count where it is compared as a value of the type.
fn bare(v: &Value, ty: TypeId) -> Value {
    match v {
        Value::Text(s) if ty == TypeId::BPCHAR => Value::Text(s.trim_end_matches(' ').into()),
        v => v.clone(),
    }
}

/// A constant as a key of a column of that type; `None` if no value of the column equals it.
fn key_constant(v: Value, column: TypeId) -> Option<Value> {
    let number = match v {
        Value::Null => return None,
        Value::Int2(n) => n.into(),
        Value::Int4(n) => n.into(),
        Value::Int8(n) => n,
        v => return Some(bare(&v, column)),
    };
    match column {
        TypeId::INT2 => i16::try_from(number).ok().map(Value::Int2),
        TypeId::INT4 => i32::try_from(number).ok().map(Value::Int4),
        TypeId::INT8 => Some(Value::Int8(number)),
        _ => Some(v),
    }
}
