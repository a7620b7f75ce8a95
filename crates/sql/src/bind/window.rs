//! Windows: what OVER and WINDOW say, and the functions that are computed over them.
//!
//! - **W1** The windows of WINDOW stand first among a query's, in their order: one can refine those before
//!   it. Of OVER, descriptions that say the same are one window.
//! - **W2** A function over a window belongs to the query that it stands in, and is computed after that one's
//!   groups and before its DISTINCT, ORDER BY and functions that give rows.

use super::scope::Clause;
use super::tree::{at, at_expr, kind, unexpected};
use super::{Binder, coerce, group, name_of};
use crate::bound::{
    Computed, Exclude, Expr, ExprKind, Frame, FrameEnd, FrameUnit, SortKey, Window, WindowCall, walk_expr,
};
use crate::parse::tree::{FuncCall, Node, WindowDef, node::Node as Kind};
use ondol_types::catalog::in_range;
use ondol_types::func::ANY;
use ondol_types::resolve::{can_coerce, polymorphic::concrete};
use ondol_types::window::{self, is_window_function};
use ondol_types::{SqlError, SqlResult, Type, TypeId, agg, sqlstate};

/// The grammar's marks of a frame.
mod mark {
    pub const WRITTEN: i32 = 0x1;
    pub const ROWS: i32 = 0x4;
    pub const GROUPS: i32 = 0x8;
    pub const BETWEEN: i32 = 0x10;
    pub const START_CURRENT: i32 = 0x200;
    pub const END_CURRENT: i32 = 0x400;
    pub const START_PRECEDING: i32 = 0x800;
    pub const END_PRECEDING: i32 = 0x1000;
    pub const START_FOLLOWING: i32 = 0x2000;
    pub const END_FOLLOWING: i32 = 0x4000;
    pub const EXCLUDE_CURRENT: i32 = 0x8000;
    pub const EXCLUDE_GROUP: i32 = 0x1_0000;
    pub const EXCLUDE_TIES: i32 = 0x2_0000;
}

fn error(message: impl Into<String>, location: i32) -> SqlError {
    at(SqlError::new(sqlstate::WINDOWING_ERROR, message), location)
}

impl Clause {
    /// How PostgreSQL's messages call the clause where functions over windows may not stand.
    fn refuses_windows(self) -> Option<&'static str> {
        match self {
            Clause::Having => Some("HAVING"),
            Clause::Window | Clause::FrameRows | Clause::FrameRange | Clause::FrameGroups => {
                Some("window definitions")
            }
            other => other.refuses_aggregates(),
        }
    }
}

/// Where an expression has a function over a window of the query that it stands in.
pub fn place_in(e: &Expr) -> Option<u32> {
    let mut found = None;
    walk_expr(e, 0, &mut |e, level| {
        if matches!(e.kind, ExprKind::Window { depth, .. } if depth == level) {
            found.get_or_insert(e.at);
        }
        found.is_none()
    });
    found
}

impl<'a> Binder<'a> {
    /// WINDOW (W1).
    pub(super) fn window_clause(&mut self, nodes: &'a [Node]) -> SqlResult<()> {
        for node in nodes {
            let Kind::WindowDef(w) = kind(node)? else { return Err(unexpected("WINDOW")) };
            if self.level().windows.iter().any(|o| o.name.as_ref() == Some(&w.name)) {
                return Err(error(format!("window \"{}\" is already defined", w.name), w.location));
            }
            let window = self.window(w)?;
            self.level().windows.push(window);
        }
        Ok(())
    }

    fn named_window(&mut self, name: &str, location: i32) -> SqlResult<usize> {
        let found = self.level().windows.iter().position(|w| w.name.as_deref() == Some(name));
        found.ok_or_else(|| {
            let message = format!("window \"{name}\" does not exist");
            at(SqlError::new(sqlstate::UNDEFINED_OBJECT, message), location)
        })
    }

    /// The number of the window that OVER names or describes.
    fn window_of(&mut self, w: &'a WindowDef) -> SqlResult<u16> {
        let n = if !w.name.is_empty() {
            self.named_window(&w.name, w.location)?
        } else {
            let window = self.window(w)?;
            let all = &mut self.level().windows;
            all.iter().position(|o| o.name.is_none() && is_same(o, &window)).unwrap_or_else(|| {
                all.push(window);
                all.len() - 1
            })
        };
        u16::try_from(n).map_err(|_| too_many())
    }

    /// A window as it is described, whether it has a name or not.
    fn window(&mut self, w: &'a WindowDef) -> SqlResult<Window> {
        let refined = match w.refname.is_empty() {
            true => None,
            false => Some(self.named_window(&w.refname, w.location)?),
        };
        let (mut order, mut partition) = self.within(Clause::Window, |b| {
            let mut order: Vec<SortKey> = b.order_keys(&w.order_clause)?;
            let mut n = 0;
            while n < order.len() {
                match order[..n].iter().any(|k| group::same(&k.expr, &order[n].expr)) {
                    true => drop(order.remove(n)),
                    false => n += 1,
                }
            }
            let mut partition: Vec<Expr> = Vec::new();
            for node in &w.partition_clause {
                let e = b.expr(node)?;
                let e = b.settle(e)?;
                if !partition.iter().any(|p| group::same(p, &e)) {
                    partition.push(e);
                }
            }
            Ok((order, partition))
        })?;
        super::select::check_targets(order.len() + partition.len())?;
        let is_written = w.frame_options & mark::WRITTEN != 0;
        let mut order_is_copied = false;
        if let Some(n) = refined {
            let (name, refined) = (&w.refname, self.level().windows[n].clone());
            if !partition.is_empty() {
                let message = format!("cannot override PARTITION BY clause of window \"{name}\"");
                return Err(error(message, w.location));
            }
            if !order.is_empty() && !refined.order.is_empty() {
                let message = format!("cannot override ORDER BY clause of window \"{name}\"");
                return Err(error(message, w.location));
            }
            if refined.frame.is_written {
                let message = format!("cannot copy window \"{name}\" because it has a frame clause");
                let bare = w.name.is_empty() && order.is_empty() && !is_written;
                let error = error(message, w.location);
                return Err(match bare {
                    true => error.hint("Omit the parentheses in this OVER clause."),
                    false => error,
                });
            }
            partition = refined.partition;
            if order.is_empty() {
                (order, order_is_copied) = (refined.order, true);
            }
        }
        let frame = self.frame(w, &order)?;
        let some = |name: &str| (!name.is_empty()).then(|| name.to_string());
        Ok(Window {
            name: some(&w.name),
            refines: some(&w.refname),
            partition,
            order,
            order_is_copied,
            frame,
        })
    }

    fn frame(&mut self, w: &'a WindowDef, order: &[SortKey]) -> SqlResult<Frame> {
        let has = |bit: i32| w.frame_options & bit != 0;
        let unit = match (has(mark::ROWS), has(mark::GROUPS)) {
            (true, _) => FrameUnit::Rows,
            (_, true) => FrameUnit::Groups,
            _ => FrameUnit::Range,
        };
        let by_offset =
            mark::START_PRECEDING | mark::START_FOLLOWING | mark::END_PRECEDING | mark::END_FOLLOWING;
        if unit == FrameUnit::Range && has(by_offset) && order.len() != 1 {
            let message = "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column";
            return Err(error(message, w.location));
        }
        if unit == FrameUnit::Groups && order.is_empty() {
            return Err(error("GROUPS mode requires an ORDER BY clause", w.location));
        }
        let mut end = |node: Option<&'a Node>, current, preceding, following| -> SqlResult<FrameEnd> {
            let (before, behind) = (has(preceding), has(following));
            if has(current) {
                return Ok(FrameEnd::CurrentRow);
            }
            if !before && !behind {
                return Ok(FrameEnd::Unbounded);
            }
            let node = node.ok_or_else(|| unexpected("a frame without a distance"))?;
            let distance = Box::new(self.distance(node, unit, order)?);
            Ok(if before { FrameEnd::Preceding(distance) } else { FrameEnd::Following(distance) })
        };
        let start = end(
            w.start_offset.as_deref(),
            mark::START_CURRENT,
            mark::START_PRECEDING,
            mark::START_FOLLOWING,
        )?;
        let end = end(w.end_offset.as_deref(), mark::END_CURRENT, mark::END_PRECEDING, mark::END_FOLLOWING)?;
        let words = [
            (mark::EXCLUDE_CURRENT, Exclude::CurrentRow),
            (mark::EXCLUDE_GROUP, Exclude::Group),
            (mark::EXCLUDE_TIES, Exclude::Ties),
        ];
        let exclude = words.iter().find(|e| has(e.0)).map_or(Exclude::NoOthers, |e| e.1);
        let (is_written, is_between) = (has(mark::WRITTEN), has(mark::BETWEEN));
        Ok(Frame { unit, start, end, exclude, is_written, is_between })
    }

    /// How far a frame goes.
    fn distance(&mut self, node: &'a Node, unit: FrameUnit, order: &[SortKey]) -> SqlResult<Expr> {
        match unit {
            FrameUnit::Rows => self.count(node, Clause::FrameRows, "ROWS"),
            FrameUnit::Groups => self.count(node, Clause::FrameGroups, "GROUPS"),
            FrameUnit::Range => {
                let e = self.within(Clause::FrameRange, |b| b.expr(node))?;
                let Some(key) = order.first() else { return Err(unexpected("RANGE without an order")) };
                let ty = distance_type(key.expr.ty.base().id, e.ty.base().id)
                    .map_err(|error| at_expr(error, e.at))?;
                let e = self.of_type(e, Type::new(ty), "RANGE")?;
                super::subquery::without_columns(e, "RANGE")
            }
        }
    }

    /// A call with OVER.
    pub(super) fn over(
        &mut self,
        name: &'a str,
        may_be_builtin: bool,
        c: &'a FuncCall,
        w: &'a WindowDef,
    ) -> SqlResult<Expr> {
        let location = c.location;
        let refused =
            |feature: &str| Err(at(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, feature), location));
        let (what, args, filter, ty) = if agg::is_aggregate(name) && may_be_builtin {
            let a = self.aggregate_call(name, c)?;
            if a.distinct {
                return refused("DISTINCT is not implemented for window functions");
            }
            if !a.order.is_empty() {
                return refused("aggregate ORDER BY is not implemented for window functions");
            }
            (Computed::Aggregate(a.agg), a.args, a.filter, a.ty)
        } else {
            let args = self.operands(&c.args)?;
            let types: Vec<TypeId> = args.iter().map(|a| a.ty.id).collect();
            if !is_window_function(name) || !may_be_builtin {
                if may_be_builtin && !super::set::gives_rows(name) {
                    ondol_types::resolve::resolve_function(name, &types).map_err(|e| at(e, location))?;
                }
                let message =
                    format!("OVER specified, but {name} is not a window function nor an aggregate function");
                return Err(at(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message), location));
            }
            let def = resolved(name, &types).map_err(|e| at(e, location))?;
            let shape = concrete(def.args, def.ret, &types)?;
            if c.agg_distinct {
                return refused("DISTINCT is not implemented for window functions");
            }
            if !c.agg_order.is_empty() {
                return refused("aggregate ORDER BY is not implemented for window functions");
            }
            if c.agg_filter.is_some() {
                return refused("FILTER is not implemented for non-aggregate window functions");
            }
            let mut cast = Vec::with_capacity(args.len());
            for (arg, want) in args.into_iter().zip(shape.args) {
                cast.push(if want == ANY { self.settle(arg)? } else { self.operand_of(arg, want)? });
            }
            let mut ty = Type::new(shape.ret);
            if shape.ret == TypeId::BPCHAR {
                // Values of one length of char(n) are padded as such.
                let mut types = cast.iter().map(|a| a.ty).filter(|t| t.id == TypeId::BPCHAR);
                let first = types.next().unwrap_or(ty);
                match types.all(|t| t == first) {
                    true => ty = first,
                    false => cast = cast.into_iter().map(coerce::shown).collect(),
                }
            }
            (Computed::Function(def.id), cast, None, ty)
        };
        let mut call = WindowCall { window: 0, what, args, filter, ty };
        self.check_window_call(&call, location)?;
        call.window = self.window_of(w)?;
        let calls = &mut self.level().window_calls;
        let found = calls.iter().position(|o| is_same_call(o, &call)).unwrap_or_else(|| {
            calls.push(call);
            calls.len() - 1
        });
        let index = u16::try_from(found).map_err(|_| too_many())?;
        Ok(Expr { kind: ExprKind::Window { depth: 0, index }, ty, at: super::tree::place(location) })
    }

    /// Whether it may stand where it stands, and has nothing in it that it may not have.
    fn check_window_call(&mut self, call: &WindowCall, location: i32) -> SqlResult<()> {
        for e in call.exprs() {
            if let Some(here) = super::set::place_in(self.level(), e, 0) {
                let message = "window function calls cannot contain set-returning function calls";
                let hint = "You might be able to move the set-returning function into a LATERAL FROM item.";
                return Err(at_expr(
                    SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message).hint(hint),
                    here,
                ));
            }
        }
        if let Some(here) = call.exprs().find_map(place_in) {
            let message = "window function calls cannot be nested";
            return Err(at_expr(SqlError::new(sqlstate::WINDOWING_ERROR, message), here));
        }
        match self.level().clause.refuses_windows() {
            Some(clause) => Err(error(format!("window functions are not allowed in {clause}"), location)),
            None => Ok(()),
        }
    }
}

/// The window function that a call means. Some of their names are those of aggregates of PostgreSQL's as
/// well, which need WITHIN GROUP.
pub(super) fn resolved(name: &str, given: &[TypeId]) -> SqlResult<&'static window::WindowDef> {
    let is_hypothetical = matches!(name, "rank" | "dense_rank" | "percent_rank" | "cume_dist");
    if is_hypothetical && !given.is_empty() {
        let message = format!("WITHIN GROUP is required for ordered-set aggregate {name}");
        return Err(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message));
    }
    window::resolve(name, given)
}

#[cold]
fn too_many() -> SqlError {
    SqlError::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, "too many window functions in a query")
}

/// Whether two calls compute the same.
fn is_same_call(a: &WindowCall, b: &WindowCall) -> bool {
    a.window == b.window
        && a.what == b.what
        && a.args.len() == b.args.len()
        && a.args.iter().zip(&b.args).all(|(x, y)| group::same(x, y))
        && match (&a.filter, &b.filter) {
            (None, None) => true,
            (Some(x), Some(y)) => group::same(x, y),
            _ => false,
        }
}

/// Whether two windows of OVER say the same.
fn is_same(a: &Window, b: &Window) -> bool {
    let all = |x: &[Expr], y: &[Expr]| x.len() == y.len() && x.iter().zip(y).all(|(x, y)| group::same(x, y));
    let end = |x: &FrameEnd, y: &FrameEnd| match (x, y) {
        (FrameEnd::Unbounded, FrameEnd::Unbounded) | (FrameEnd::CurrentRow, FrameEnd::CurrentRow) => true,
        (FrameEnd::Preceding(x), FrameEnd::Preceding(y))
        | (FrameEnd::Following(x), FrameEnd::Following(y)) => group::same(x, y),
        _ => false,
    };
    let key = |(x, y): (&SortKey, &SortKey)| {
        x.desc == y.desc && x.nulls_first == y.nulls_first && group::same(&x.expr, &y.expr)
    };
    let (f, g) = (&a.frame, &b.frame);
    a.refines == b.refines
        && all(&a.partition, &b.partition)
        && a.order.len() == b.order.len()
        && a.order.iter().zip(&b.order).all(key)
        && (f.unit, f.exclude, f.is_written, f.is_between) == (g.unit, g.exclude, g.is_written, g.is_between)
        && end(&f.start, &g.start)
        && end(&f.end, &g.end)
}

/// The type that a distance is cast to, for values of a type.
fn distance_type(of: TypeId, given: TypeId) -> SqlResult<TypeId> {
    let of = if of.is_string() && of != TypeId::BPCHAR { TypeId::TEXT } else { of };
    let preferred = if given == TypeId::UNKNOWN { of } else { given };
    let all = in_range::distances(of);
    if all.contains(&preferred) {
        return Ok(preferred);
    }
    let refused = |problem: &str| SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, problem);
    let what = format!("for column type {}", name_of(of));
    let range = "RANGE with offset PRECEDING/FOLLOWING";
    if all.is_empty() {
        return Err(refused(&format!("{range} is not supported {what}")));
    }
    let fits: Vec<TypeId> = all.iter().copied().filter(|t| can_coerce(given, *t)).collect();
    let given = name_of(given);
    match fits[..] {
        [] => Err(refused(&format!("{range} is not supported {what} and offset type {given}"))
            .hint("Cast the offset value to an appropriate type.")),
        [one] => Ok(one),
        _ => Err(refused(&format!("{range} has multiple interpretations {what} and offset type {given}"))
            .hint("Cast the offset value to the exact intended type.")),
    }
}
