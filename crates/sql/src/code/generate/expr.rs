//! Expressions: values into registers, conditions into jumps.
use super::super::op::Op;
use super::super::operand::*;
use super::{Gen, Source, Stored, internal};
use crate::bound::CTID;
use crate::code::program::PARAM_REGISTERS;
use crate::plan::classify::{self, Arithmetic, Kind, arithmetic, comparison};
use crate::plan::logical::{Expr, ExprKind, has_query};
use ondol_engine::Storage;
use ondol_types::func::FuncId;
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, sqlstate};

/// Whether values of the type have blanks that do not count where they are compared.
pub fn has_blanks(ty: Type) -> bool {
    ty.id == TypeId::BPCHAR && ty.char_len().is_none()
}

/// Whether a cast changes the type's name alone.
fn stays(from: Type, to: Type) -> bool {
    let loses_blanks = has_blanks(from) && to.id != from.id;
    to.typmod == -1 && (from.id == to.id || from.id.is_string() && to.id.is_string() && !loses_blanks)
}

impl<'a> Gen<'a> {
    /// The register that holds the value: a new one, or where the value is anyway.
    pub fn expr(&mut self, e: &'a Expr) -> SqlResult<u16> {
        self.limits.go_on()?;
        match &e.kind {
            ExprKind::Const(v) => Ok(self.constant(v)),
            ExprKind::Param(n) => {
                if (*n as usize) < self.params.len().min(PARAM_REGISTERS) {
                    Ok(*n)
                } else if (*n as usize) < self.params.len() {
                    let dst = self.register();
                    self.op(Op::LoadParam { dst: Out(dst), param: Param(*n) });
                    Ok(dst)
                } else {
                    Err(SqlError::new(
                        sqlstate::UNDEFINED_PARAMETER,
                        format!("there is no parameter ${}", n + 1),
                    ))
                }
            }
            ExprKind::Column { rel, column, .. } => {
                if let Some(r) = self.standing(*rel, *column) {
                    return Ok(r);
                }
                let dst = self.register();
                self.value(e, dst)?;
                Ok(dst)
            }
            _ => {
                let dst = self.register();
                self.value(e, dst)?;
                Ok(dst)
            }
        }
    }

    /// The value, in that very register.
    pub fn expr_into(&mut self, e: &'a Expr, dst: u16) -> SqlResult<()> {
        self.limits.go_on()?;
        match &e.kind {
            ExprKind::Const(_) | ExprKind::Param(_) => {
                let r = self.expr(e)?;
                self.op(Op::Move { dst: Out(dst), a: Reg(r) });
                Ok(())
            }
            _ => self.value(e, dst),
        }
    }

    /// The values side by side.
    pub fn span(&mut self, list: impl ExactSizeIterator<Item = &'a Expr>) -> SqlResult<Span> {
        let n = list.len();
        let list: Vec<&'a Expr> = list.collect();
        if let [one] = list[..] {
            return Ok(Span::new(self.expr(one)?, 1));
        }
        // Parameters in order stand side by side already.
        if let Some(ExprKind::Param(first)) = list.first().map(|e| &e.kind) {
            let first = *first;
            let in_order = list
                .iter()
                .enumerate()
                .all(|(i, e)| matches!(e.kind, ExprKind::Param(p) if p as usize == first as usize + i));
            if in_order && first as usize + n <= self.params.len().min(PARAM_REGISTERS) {
                return Ok(Span::new(first, n));
            }
        }
        // So may the columns of a relation.
        let standing = |e: &Expr| match e.kind {
            ExprKind::Column { rel, column, .. } => self.standing(rel, column),
            _ => None,
        };
        if let Some(first) = list.first().and_then(|e| standing(e))
            && list.iter().enumerate().all(|(i, e)| standing(e) == first.checked_add(i as u16))
        {
            return Ok(Span::new(first, n));
        }
        let first = self.registers(n);
        for (i, e) in list.into_iter().enumerate() {
            self.expr_into(e, first + i as u16)?;
        }
        Ok(Span::new(first, n))
    }

    /// The register where a column is anyway.
    pub fn standing(&self, rel: u16, column: u16) -> Option<u16> {
        let place = self.places.get(rel as usize)?;
        if place.null.is_some() {
            return None;
        }
        match &place.source {
            Source::Registers { .. } if column == CTID => place.tid,
            Source::Registers { first } => Some(first + column),
            Source::Changed { columns, .. } => columns.iter().find(|(c, _)| *c == column).map(|(_, r)| *r),
            _ => None,
        }
    }

    pub fn column(&mut self, rel: u16, column: u16, dst: u16) -> SqlResult<()> {
        let place = self.place(rel)?;
        let (null, tid, source) = (place.null, place.tid, place.source.clone());
        let end = match null {
            Some(flag) => {
                let (isnt, end) = (self.label(), self.label());
                self.op(Op::IfNot { a: Reg(flag), to: isnt });
                self.op(Op::Null { dst: Out(dst) });
                self.jump(end);
                self.here(isnt);
                Some(end)
            }
            None => None,
        };
        match source {
            Source::None => return Err(internal(&format!("column {column} of rel {rel} is not bound here"))),
            Source::Registers { .. } if column == CTID => {
                let a = tid.ok_or_else(|| internal("a row in registers that is nowhere"))?;
                self.op(Op::Move { dst: Out(dst), a: Reg(a) })
            }
            Source::Registers { first } => self.op(Op::Move { dst: Out(dst), a: Reg(first + column) }),
            Source::Table { cursor } => self.table_column(cursor, column, dst)?,
            Source::Changed { cursor, columns } => match columns.iter().find(|(c, _)| *c == column) {
                Some((_, r)) => self.op(Op::Move { dst: Out(dst), a: Reg(*r) }),
                None => self.table_column(cursor, column, dst)?,
            },
            Source::Stored { store, at, .. } => {
                let Some((_, position)) = at.iter().find(|(c, _)| *c == column) else {
                    return Err(internal(&format!("column {column} of rel {rel} was not kept")));
                };
                self.stored_column(store, *position, dst)
            }
        }
        if let Some(end) = end {
            self.here(end)
        }
        Ok(())
    }

    pub fn stored_column(&mut self, store: Stored, position: u16, dst: u16) {
        let (dst, column) = (Out(dst), Col(position));
        self.op(match store {
            Stored::Hash(hash) => Op::HashCol { dst, hash, column },
            Stored::Mat(mat) => Op::MatCol { dst, mat, column },
            Stored::Sort(sort) => Op::SortCol { dst, sort, column },
            Stored::Window(window) => Op::WindowCol { dst, window, column },
        })
    }

    fn table_column(&mut self, cursor: u16, column: u16, dst: u16) -> SqlResult<()> {
        if column == CTID {
            self.op(Op::RowTid { dst: Out(dst), cursor: Cur(cursor) });
            return Ok(());
        }
        let row_at = self.row_at(cursor);
        let table = self.cursor_table(cursor);
        let Some(c) = table.layout.columns.get(column as usize) else {
            return Err(internal(&format!("no column {column} in {}", table.def.name)));
        };
        let (dst, at) = (Out(dst), At(row_at + u32::from(c.offset)));
        let null = NullAt::new(row_at, c.null_bit);
        let op = match c.storage {
            Storage::Bool => Op::ColBool { dst, at, null },
            Storage::Int2 => Op::ColInt2 { dst, at, null },
            Storage::Int4 => Op::ColInt4 { dst, at, null },
            Storage::Int8 => Op::ColInt8 { dst, at, null },
            Storage::Float8 => Op::ColFloat8 { dst, at, null },
            Storage::Date => Op::ColDate { dst, at, null },
            Storage::Timestamp => Op::ColTimestamp { dst, at, null },
            Storage::Timestamptz => Op::ColTimestamptz { dst, at, null },
            Storage::Char { .. } => Op::ColChar { dst, cursor: Cur(cursor), column: Col(column) },
            Storage::Later { .. } => Op::ColLater { dst, cursor: Cur(cursor), column: Col(column) },
            Storage::Text => Op::ColText { dst, at, null },
            Storage::Bytea => Op::ColBytea { dst, at, null },
            Storage::Numeric => Op::ColNumeric { dst, at, null },
            Storage::Packed { scale } => Op::ColPacked { dst, at, null, scale: Scale(scale) },
            Storage::Fixed { ty, .. } | Storage::Opaque { ty } => Op::ColOpaque { dst, at, null, ty },
        };
        self.op(op);
        Ok(())
    }

    /// Code that puts the value into `dst`.
    fn value(&mut self, e: &'a Expr, dst: u16) -> SqlResult<()> {
        let out = Out(dst);
        match &e.kind {
            ExprKind::Const(_) | ExprKind::Param(_) => self.expr_into(e, dst)?,
            // They are columns in a plan (sql/plan/logical/Y1).
            ExprKind::Group(_)
            | ExprKind::GroupOuter { .. }
            | ExprKind::Aggregate { .. }
            | ExprKind::Window { .. } => {
                return Err(internal("a group that is no column"));
            }
            ExprKind::Column { rel, column, .. } => self.column(*rel, *column, dst)?,
            ExprKind::Call { func, args } => self.call(*func, args, dst)?,
            ExprKind::Cast { arg, explicit } => self.cast(e, arg, *explicit, dst)?,
            ExprKind::And(list) => self.and_or(list, true, dst)?,
            ExprKind::Or(list) => self.and_or(list, false, dst)?,
            ExprKind::Not(arg) => {
                let a = self.expr(arg)?;
                self.op(Op::Not { dst: out, a: Reg(a) })
            }
            ExprKind::IsNull { arg, negated } => {
                let a = Reg(self.expr(arg)?);
                self.op(if *negated { Op::IsNotNull { dst: out, a } } else { Op::IsNull { dst: out, a } })
            }
            ExprKind::BoolTest { arg, want, negated } => {
                let a = Reg(self.expr(arg)?);
                let (yes, no, end) = (self.label(), self.label(), self.label());
                match want {
                    Some(true) => self.op(Op::If { a, to: yes }),
                    Some(false) => self.op(Op::IfFalse { a, to: yes }),
                    None => self.op(Op::IfNull { a, to: yes }),
                }
                self.here(no);
                self.op(Op::Bool { dst: out, value: Flag(*negated) });
                self.jump(end);
                self.here(yes);
                self.op(Op::Bool { dst: out, value: Flag(!*negated) });
                self.here(end);
            }
            ExprKind::Distinct { left, right, eq, negated } => {
                let (l, r) = (self.expr(left)?, self.expr(right)?);
                self.distinct(l, r, *eq, *negated, dst)?
            }
            ExprKind::Case { whens, otherwise } => {
                let end = self.label();
                for (when, then) in whens {
                    let next = self.label();
                    self.in_passing([when, then], |g| {
                        g.jump_unless(when, next)?;
                        g.expr_into(then, dst)
                    })?;
                    self.jump(end);
                    self.here(next);
                }
                match otherwise {
                    Some(o) => self.expr_into(o, dst)?,
                    None => self.op(Op::Null { dst: out }),
                }
                self.here(end);
            }
            ExprKind::Coalesce(list) => {
                let end = self.label();
                for (n, a) in list.iter().enumerate() {
                    self.in_passing([a], |g| g.expr_into(a, dst))?;
                    if n + 1 < list.len() {
                        self.op(Op::IfNotNull { a: Reg(dst), to: end });
                    }
                }
                self.here(end);
            }
            ExprKind::NullIf { left, right, eq } => {
                self.expr_into(left, dst)?;
                let r = self.expr(right)?;
                let (c, end) = (self.register(), self.label());
                self.compare(*eq, dst, r, c)?;
                self.op(Op::IfNot { a: Reg(c), to: end });
                self.op(Op::Null { dst: out });
                self.here(end);
            }
            ExprKind::Greatest(list) => self.extreme(list, Cond::Gt, dst)?,
            ExprKind::Least(list) => self.extreme(list, Cond::Lt, dst)?,
            ExprKind::InList { arg, list, eq, negated } => self.in_list(arg, list, *eq, *negated, dst)?,
            ExprKind::Scalar(q) => self.scalar(q, e.ty.id, dst)?,
            ExprKind::Exists { query, negated } => self.exists(query, *negated, dst)?,
            ExprKind::Quantified { left, query, ops, all } => self.quantified(left, query, ops, *all, dst)?,
        }
        Ok(())
    }

    fn and_or(&mut self, list: &'a [Expr], and: bool, dst: u16) -> SqlResult<()> {
        let out = Out(dst);
        let end = self.label();
        let Some((first, rest)) = list.split_first() else {
            self.op(Op::Bool { dst: out, value: Flag(and) });
            return Ok(());
        };
        self.expr_into(first, dst)?;
        for e in rest {
            let a = Reg(dst);
            self.op(if and { Op::IfFalse { a, to: end } } else { Op::If { a, to: end } });
            self.in_passing([e], |g| {
                let b = Reg(g.expr(e)?);
                g.op(if and { Op::And { dst: out, a, b } } else { Op::Or { dst: out, a, b } });
                Ok(())
            })?;
        }
        self.here(end);
        Ok(())
    }

    /// `dst := l IS DISTINCT FROM r` (negated: NOT DISTINCT).
    pub fn distinct(&mut self, l: u16, r: u16, eq: FuncId, negated: bool, dst: u16) -> SqlResult<()> {
        let out = Out(dst);
        let (some, equal, differ, end) = (self.label(), self.label(), self.label(), self.label());
        self.op(Op::IfNotNull { a: Reg(l), to: some });
        self.op(Op::IfNull { a: Reg(r), to: equal });
        self.jump(differ);
        self.here(some);
        let c = self.register();
        self.compare(eq, l, r, c)?;
        self.op(Op::If { a: Reg(c), to: equal });
        self.here(differ);
        self.op(Op::Bool { dst: out, value: Flag(!negated) });
        self.jump(end);
        self.here(equal);
        self.op(Op::Bool { dst: out, value: Flag(negated) });
        self.here(end);
        Ok(())
    }

    /// GREATEST and LEAST: NULLs are passed over.
    fn extreme(&mut self, list: &'a [Expr], cond: Cond, dst: u16) -> SqlResult<()> {
        self.op(Op::Null { dst: Out(dst) });
        let zero = self.constant(&Value::Int8(0));
        let o = self.register();
        for e in list {
            self.in_passing([e], |g| {
                let v = g.comparable_expr(e)?;
                let (take, keep) = (g.label(), g.label());
                g.op(Op::IfNull { a: Reg(v), to: keep });
                g.op(Op::IfNull { a: Reg(dst), to: take });
                g.op(Op::Order { dst: Out(o), a: Reg(v), b: Reg(dst) });
                g.op(Op::UnlessInt { a: Reg(o), b: Reg(zero), cond, to: keep });
                g.here(take);
                g.op(Op::Move { dst: Out(dst), a: Reg(v) });
                g.here(keep);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// `dst := f(l, r)` for a comparison; any function of two arguments will do.
    pub fn compare(&mut self, f: FuncId, l: u16, r: u16, dst: u16) -> SqlResult<()> {
        let (out, a, b) = (Out(dst), Reg(l), Reg(r));
        if let Some(classify::Comparison { cond, kind: Some(kind), .. }) = comparison(f) {
            self.op(match kind {
                Kind::Int => Op::CmpInt { dst: out, a, b, cond },
                Kind::Float => Op::CmpFloat { dst: out, a, b, cond },
                Kind::Text => Op::CmpText { dst: out, a, b, cond },
            });
            return Ok(());
        }
        let first = self.registers(2);
        self.op(Op::Move { dst: Out(first), a });
        self.op(Op::Move { dst: Out(first + 1), a: b });
        self.op(Op::Call { dst: out, func: f, args: Span::new(first, 2) });
        Ok(())
    }

    fn call(&mut self, func: FuncId, args: &'a [Expr], dst: u16) -> SqlResult<()> {
        let out = Out(dst);
        if let [left, right] = args {
            if let Some((op, ty)) = arithmetic(func) {
                let (a, b) = (Reg(self.expr(left)?), Reg(self.expr(right)?));
                let int = match ty {
                    TypeId::INT2 => Some(IntTy::Int2),
                    TypeId::INT4 => Some(IntTy::Int4),
                    TypeId::INT8 => Some(IntTy::Int8),
                    _ => None,
                };
                self.op(match (op, int) {
                    (Arithmetic::Add, Some(ty)) => Op::AddInt { dst: out, a, b, ty },
                    (Arithmetic::Sub, Some(ty)) => Op::SubInt { dst: out, a, b, ty },
                    (Arithmetic::Mul, Some(ty)) => Op::MulInt { dst: out, a, b, ty },
                    (Arithmetic::Add, None) => Op::AddFloat { dst: out, a, b, func },
                    (Arithmetic::Sub, None) => Op::SubFloat { dst: out, a, b, func },
                    (Arithmetic::Mul, None) => Op::MulFloat { dst: out, a, b, func },
                });
                return Ok(());
            }
            if comparison(func).is_some_and(|c| c.kind.is_some()) {
                let (a, b) = (self.expr(left)?, self.expr(right)?);
                return self.compare(func, a, b, dst);
            }
        }
        let args = self.span(args.iter())?;
        self.op(match ondol_types::func::sequence::is_connections(func) {
            true => Op::CallConnection { dst: out, func, args },
            false => Op::Call { dst: out, func, args },
        });
        Ok(())
    }

    fn cast(&mut self, e: &'a Expr, arg: &'a Expr, explicit: bool, dst: u16) -> SqlResult<()> {
        let (from, to) = (arg.ty.id, e.ty);
        let out = Out(dst);
        let a = Reg(self.expr(arg)?);
        if classify::is_int(from) && classify::is_int(to.id) && from.number() <= to.id.number() {
            self.op(Op::Retag { dst: out, a, ty: to.id });
        } else if matches!(from, TypeId::INT2 | TypeId::INT4 | TypeId::INT8) && to.id == TypeId::FLOAT8 {
            self.op(Op::IntToFloat { dst: out, a });
        } else if stays(arg.ty, to) {
            self.op(Op::Move { dst: out, a });
        } else {
            let how = self.cast_of(from, to, explicit);
            self.op(Op::Cast { dst: out, a, how });
        }
        Ok(())
    }

    /// Marks a value that a hash table or a sort compares: of bpchar without a length trailing blanks do not
    /// count, though they are there. Those of other types are what they are.
    pub fn comparable(&mut self, ty: Type, r: u16) {
        if has_blanks(ty) {
            self.op(Op::Retag { dst: Out(r), a: Reg(r), ty: ty.id });
        }
    }

    /// The value, as hash tables and sorts compare it.
    pub fn comparable_expr(&mut self, e: &'a Expr) -> SqlResult<u16> {
        if !has_blanks(e.ty) {
            return self.expr(e);
        }
        let r = self.register();
        self.comparable_into(e, r)?;
        Ok(r)
    }

    /// The same, in that very register.
    pub fn comparable_into(&mut self, e: &'a Expr, dst: u16) -> SqlResult<()> {
        self.expr_into(e, dst)?;
        self.comparable(e.ty, dst);
        Ok(())
    }

    /// Values side by side, as hash tables and sorts compare them.
    pub fn comparable_span(&mut self, list: impl ExactSizeIterator<Item = &'a Expr>) -> SqlResult<Span> {
        let list: Vec<&'a Expr> = list.collect();
        if !list.iter().any(|e| has_blanks(e.ty)) {
            return self.span(list.into_iter());
        }
        let first = self.registers(list.len());
        for (i, e) in list.iter().enumerate() {
            self.comparable_into(e, first + i as u16)?;
        }
        Ok(Span::new(first, list.len()))
    }

    /// Values that stand side by side already, as hash tables and sorts compare them.
    pub fn comparable_registers(&mut self, first: u16, types: impl ExactSizeIterator<Item = Type>) -> Span {
        let types: Vec<Type> = types.collect();
        if !types.iter().any(|t| has_blanks(*t)) {
            return Span::new(first, types.len());
        }
        let copy = self.registers(types.len());
        for (i, ty) in (0..).zip(&types) {
            self.op(Op::Move { dst: Out(copy + i), a: Reg(first + i) });
            self.comparable(*ty, copy + i);
        }
        Span::new(copy, types.len())
    }

    /// Jumps unless the condition is true.
    pub fn jump_unless(&mut self, e: &'a Expr, to: Label) -> SqlResult<()> {
        self.in_passing([e], |g| g.unless(e, to))
    }

    fn unless(&mut self, e: &'a Expr, to: Label) -> SqlResult<()> {
        match &e.kind {
            ExprKind::And(list) => list.iter().try_for_each(|e| self.jump_unless(e, to)),
            ExprKind::Or(list) if !list.is_empty() => {
                let yes = self.label();
                for e in &list[..list.len() - 1] {
                    let no = self.label();
                    self.jump_unless(e, no)?;
                    self.jump(yes);
                    self.here(no);
                }
                self.jump_unless(&list[list.len() - 1], to)?;
                self.here(yes);
                Ok(())
            }
            ExprKind::IsNull { arg, negated } => {
                let a = Reg(self.expr(arg)?);
                self.op(if *negated { Op::IfNull { a, to } } else { Op::IfNotNull { a, to } });
                Ok(())
            }
            ExprKind::Const(Value::Bool(true)) => Ok(()),
            ExprKind::Call { func, args } if args.len() == 2 => {
                if let Some(classify::Comparison { cond, kind: Some(kind), .. }) = comparison(*func) {
                    let (a, b) = (Reg(self.expr(&args[0])?), Reg(self.expr(&args[1])?));
                    self.op(match kind {
                        Kind::Int => Op::UnlessInt { a, b, cond, to },
                        Kind::Float => Op::UnlessFloat { a, b, cond, to },
                        Kind::Text => Op::UnlessText { a, b, cond, to },
                    });
                    return Ok(());
                }
                let a = Reg(self.expr(e)?);
                self.op(Op::IfNot { a, to });
                Ok(())
            }
            _ => {
                let a = Reg(self.expr(e)?);
                self.op(Op::IfNot { a, to });
                Ok(())
            }
        }
    }

    /// Jumps unless all conditions are true; those that run a query come last.
    pub fn all_or(&mut self, list: &[&'a Expr], to: Label) -> SqlResult<()> {
        let (last, first): (Vec<&'a Expr>, Vec<&'a Expr>) = list.iter().copied().partition(|e| has_query(e));
        first.into_iter().chain(last).try_for_each(|e| self.jump_unless(e, to))
    }
}
