//! The interpreter's loop: one flat match over the opcodes, documented in [`crate::code::op`].
//!
//! - **X1** The loop never panics on a verified program: every register, cursor and store number is in range;
//!   a value of an unexpected type is read as some value (see `datum`), an unexpected return address ends the
//!   program with an error.
//! - **X2** A wish to cancel is looked at on every loop's way, once in [`TICKS`] turns, and others of the
//!   thread have their turn (fiber/F7).
//! - **X3** Nothing here begins or ends a statement.
use super::Env;
use super::access;
use super::aggregate;
use super::datum::{Datum, Purse, Tag};
use super::far;
use super::frame::Frame;
use super::rows::{RowView, Shape, Sink, make_alone, stands_alone, tag_of};
use crate::code::Program;
use crate::code::op::Op;
use crate::code::operand::{Cond, Cur, IntTy, Span};
use ondol_base::cancel::Cancel;
use ondol_base::fiber::take_turns;
use ondol_engine::{Charge, Connection, Layout};
use ondol_types::func::Context;
use ondol_types::limits::Limits;
pub(super) use ondol_types::limits::canceled;
use ondol_types::{Packed, SqlError, SqlResult, TypeId, sqlstate};
use std::sync::Arc;

/// X2
pub(super) const TICKS: u32 = 256;

/// Runs to the end, or until no more rows are wanted; it can go on behind the last one.
pub(super) const PLAIN: u8 = 0;
/// Counts each instruction.
pub(super) const PROFILE: u8 = 1;
/// Stops before an instruction where the lanes of a batch meet.
pub(super) const LANE: u8 = 2;
/// Stops behind the start of a scan, which it leaves to the caller, and at a scan's end.
pub(super) const PART: u8 = 3;

pub(super) struct World<'a> {
    pub env: &'a Env<'a>,
    pub context: &'a Context<'a>,
    /// What functions are charged with, where there are some.
    pub purse: Option<&'a Purse>,
    /// How many registered queries call each other here.
    pub depth: u32,
}

impl<'a> World<'a> {
    /// Where no function is called that makes something or asks for the time.
    pub(super) fn plain(env: &'a Env<'a>) -> World<'a> {
        World { env, context: env.context, purse: None, depth: 0 }
    }

    /// Runs `f` where functions are charged to `purse`, of which the spare comes back, and know the
    /// transaction's time.
    pub(super) fn charged<R>(
        purse: Purse,
        connection: &mut Connection,
        env: &Env<'_>,
        f: impl FnOnce(&mut Connection, &World<'_>) -> R,
    ) -> (R, Option<Charge>) {
        let limits = Limits::new(env.cancel.map(Cancel::word), Some(&purse)).taking_turns(take_turns);
        let context = Context { now_us: connection.transaction_time_us(), limits, ..*env.context };
        let done = f(connection, &World { env, context: &context, purse: Some(&purse), depth: 0 });
        (done, purse.close())
    }
}

/// Why the loop was left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Exit {
    Done,
    /// In a batch, around a scan in parts, or behind a row after which no more are wanted: the instruction to
    /// go on with.
    At(usize),
}

/// X2
#[inline(never)]
pub(super) fn look_around(world: &World<'_>, connection: &Connection) -> SqlResult<()> {
    debug_assert!(!connection.is_pinned(), "portal/S1");
    take_turns();
    if world.env.cancel.is_some_and(|c| c.is_told()) { Err(canceled()) } else { Ok(()) }
}

#[cold]
pub(super) fn internal(message: &str) -> SqlError {
    SqlError::new(sqlstate::INTERNAL_ERROR, message)
}

#[cold]
fn out_of_range(ty: IntTy) -> SqlError {
    let name = match ty {
        IntTy::Int2 => "smallint",
        IntTy::Int4 => "integer",
        IntTy::Int8 => "bigint",
    };
    SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, format!("{name} out of range"))
}

#[inline(always)]
fn in_range(v: i64, ty: IntTy) -> bool {
    match ty {
        IntTy::Int2 => i16::try_from(v).is_ok(),
        IntTy::Int4 => i32::try_from(v).is_ok(),
        IntTy::Int8 => true,
    }
}

#[inline(always)]
fn int_tag(ty: IntTy) -> Tag {
    match ty {
        IntTy::Int2 => Tag::Int2,
        IntTy::Int4 => Tag::Int4,
        IntTy::Int8 => Tag::Int8,
    }
}

#[inline(always)]
fn arithmetic(a: Datum, b: Datum, ty: IntTy, f: impl FnOnce(i64, i64) -> Option<i64>) -> SqlResult<Datum> {
    if a.is_null() || b.is_null() {
        return Ok(Datum::NULL);
    }
    match f(a.as_int(), b.as_int()) {
        Some(v) if in_range(v, ty) => Ok(Datum::number(int_tag(ty), v)),
        _ => Err(out_of_range(ty)),
    }
}

#[inline(always)]
fn integers_hold(a: Datum, b: Datum, cond: Cond) -> bool {
    let (x, y) = (a.as_int(), b.as_int());
    match cond {
        Cond::Eq => x == y,
        Cond::Ne => x != y,
        Cond::Lt => x < y,
        Cond::Le => x <= y,
        Cond::Gt => x > y,
        Cond::Ge => x >= y,
    }
}

/// Where the lanes of a batch wait for each other.
pub(super) fn is_meeting(op: &Op) -> bool {
    matches!(
        op,
        Op::KeyProbe { .. }
            | Op::RowNext { .. }
            | Op::Point { .. }
            | Op::PointRow { .. }
            | Op::PointUpdate { .. }
    )
}

/// Executes from `pc` on.
pub(super) fn exec<const MODE: u8>(
    f: &mut Frame,
    program: &Program,
    connection: &mut Connection,
    sink: &mut dyn Sink,
    world: &World<'_>,
    start: usize,
) -> SqlResult<Exit> {
    let ops = &program.ops[..];
    let mut pc = start;

    macro_rules! reg {
        ($r:expr) => {
            f.regs[$r.0 as usize]
        };
    }
    macro_rules! set {
        ($r:expr, $v:expr) => {{
            let v = $v;
            f.regs[$r.0 as usize] = v;
        }};
    }
    macro_rules! jump {
        ($to:expr) => {{
            pc = $to.0 as usize;
            continue;
        }};
    }
    macro_rules! tick {
        () => {
            f.tick = f.tick.wrapping_add(1);
            if f.tick % TICKS == 0 {
                look_around(world, connection)?
            }
        };
    }
    macro_rules! column {
        ($dst:expr, $null:expr, $value:expr) => {
            set!($dst, if $null.is_null(&f.memory) { Datum::NULL } else { $value })
        };
    }
    macro_rules! bytes_at {
        ($at:expr) => {
            super::rows::fixed(&f.memory, $at.0 as usize)
        };
    }
    macro_rules! row {
        ($span:expr) => {
            &f.regs[$span.range()]
        };
    }

    loop {
        let Some(op) = ops.get(pc) else {
            return Err(internal("execution left the program"));
        };
        if MODE == PROFILE {
            f.executed[pc] += 1;
        }
        if MODE == LANE && pc != start && is_meeting(op) {
            return Ok(Exit::At(pc));
        }
        match *op {
            Op::Halt {} => return Ok(Exit::Done),
            Op::Jump { to } => {
                tick!();
                jump!(to)
            }
            Op::Gosub { ret, to } => {
                set!(ret, Datum::int(pc as i64 + 1));
                jump!(to)
            }
            Op::Return { ret } => {
                tick!();
                pc = reg!(ret).bits as usize;
                continue;
            }
            Op::If { a, to } => {
                if reg!(a).is_true() {
                    jump!(to)
                }
            }
            Op::IfNot { a, to } => {
                if !reg!(a).is_true() {
                    jump!(to)
                }
            }
            Op::IfFalse { a, to } => {
                if reg!(a).is_false() {
                    jump!(to)
                }
            }
            Op::IfNull { a, to } => {
                if reg!(a).is_null() {
                    jump!(to)
                }
            }
            Op::IfNotNull { a, to } => {
                if !reg!(a).is_null() {
                    jump!(to)
                }
            }
            Op::Once { done, to } => {
                let r = &mut f.regs[done.0.first as usize];
                if r.is_true() {
                    jump!(to)
                }
                *r = Datum::TRUE;
            }
            Op::Mark { dst } => set!(dst, Datum::int(f.memory.len() as i64)),
            Op::Reset { mark } => {
                let to = (reg!(mark).bits as usize).max(f.floor);
                f.memory.truncate(to);
            }
            Op::Tally { slot } => {
                if let Some(t) = f.tallies.get_mut(slot.0 as usize) {
                    *t += 1
                }
            }
            Op::Null { dst } => set!(dst, Datum::NULL),
            Op::Bool { dst, value } => set!(dst, Datum::bool(value.0)),
            Op::Int { dst, value } => set!(dst, Datum::int(value.0.into())),
            Op::Move { dst, a } => set!(dst, reg!(a)),
            Op::IsNull { dst, a } => set!(dst, Datum::bool(reg!(a).is_null())),
            Op::IsNotNull { dst, a } => set!(dst, Datum::bool(!reg!(a).is_null())),
            Op::Not { dst, a } => {
                let d = reg!(a);
                set!(dst, if d.is_null() { Datum::NULL } else { Datum::bool(d.bits == 0) })
            }
            Op::And { dst, a, b } => {
                let (x, y) = (reg!(a), reg!(b));
                set!(
                    dst,
                    if x.is_false() || y.is_false() {
                        Datum::bool(false)
                    } else if x.is_null() || y.is_null() {
                        Datum::NULL
                    } else {
                        Datum::TRUE
                    }
                )
            }
            Op::Or { dst, a, b } => {
                let (x, y) = (reg!(a), reg!(b));
                set!(
                    dst,
                    if x.is_true() || y.is_true() {
                        Datum::TRUE
                    } else if x.is_null() || y.is_null() {
                        Datum::NULL
                    } else {
                        Datum::bool(false)
                    }
                )
            }
            Op::AddInt { dst, a, b, ty } => set!(dst, arithmetic(reg!(a), reg!(b), ty, i64::checked_add)?),
            Op::SubInt { dst, a, b, ty } => set!(dst, arithmetic(reg!(a), reg!(b), ty, i64::checked_sub)?),
            Op::MulInt { dst, a, b, ty } => set!(dst, arithmetic(reg!(a), reg!(b), ty, i64::checked_mul)?),
            Op::CmpInt { dst, a, b, cond } => {
                let (x, y) = (reg!(a), reg!(b));
                set!(
                    dst,
                    if x.is_null() || y.is_null() {
                        Datum::NULL
                    } else {
                        Datum::bool(integers_hold(x, y, cond))
                    }
                )
            }
            Op::CmpText { dst, a, b, cond } => {
                let (x, y) = (reg!(a), reg!(b));
                set!(
                    dst,
                    if x.is_null() || y.is_null() {
                        Datum::NULL
                    } else {
                        Datum::bool(cond.holds(x.bytes(&f.memory).cmp(y.bytes(&f.memory))))
                    }
                )
            }
            Op::UnlessInt { a, b, cond, to } => {
                let (x, y) = (reg!(a), reg!(b));
                if x.is_null() || y.is_null() || !integers_hold(x, y, cond) {
                    jump!(to)
                }
            }
            Op::UnlessText { a, b, cond, to } => {
                let (x, y) = (reg!(a), reg!(b));
                if x.is_null() || y.is_null() || !cond.holds(x.bytes(&f.memory).cmp(y.bytes(&f.memory))) {
                    jump!(to)
                }
            }
            Op::Retag { dst, a, ty } => {
                let mut d = reg!(a);
                if let (false, Some(tag)) = (d.is_null(), tag_of(ty)) {
                    d = d.with_tag(tag);
                    if ty == TypeId::BPCHAR {
                        d = d.with_type(ty)
                    }
                }
                set!(dst, d)
            }
            Op::Narrow { dst, a, ty, to } => {
                let mut d = reg!(a);
                if !d.is_null() {
                    if !in_range(d.as_int(), ty) {
                        jump!(to)
                    }
                    d = d.with_tag(int_tag(ty));
                }
                set!(dst, d)
            }
            Op::ColBool { dst, at, null } => column!(dst, null, Datum::bool(f.memory[at.0 as usize] != 0)),
            Op::ColInt2 { dst, at, null } => {
                column!(dst, null, Datum::number(Tag::Int2, i16::from_le_bytes(bytes_at!(at)).into()))
            }
            Op::ColInt4 { dst, at, null } => {
                column!(dst, null, Datum::number(Tag::Int4, i32::from_le_bytes(bytes_at!(at)).into()))
            }
            Op::ColInt8 { dst, at, null } => {
                column!(dst, null, Datum::number(Tag::Int8, i64::from_le_bytes(bytes_at!(at))))
            }
            Op::ColFloat8 { dst, at, null } => {
                column!(dst, null, Datum::float(f64::from_le_bytes(bytes_at!(at))))
            }
            Op::ColDate { dst, at, null } => {
                column!(dst, null, Datum::number(Tag::Date, i32::from_le_bytes(bytes_at!(at)).into()))
            }
            Op::ColTimestamp { dst, at, null } => {
                column!(dst, null, Datum::number(Tag::Timestamp, i64::from_le_bytes(bytes_at!(at))))
            }
            Op::ColTimestamptz { dst, at, null } => {
                column!(dst, null, Datum::number(Tag::Timestamptz, i64::from_le_bytes(bytes_at!(at))))
            }
            Op::ColText { dst, at, null } => {
                column!(dst, null, access::string_value(connection, &mut f.memory, at.0 as usize, Tag::Text))
            }
            Op::ColNumeric { dst, at, null } => {
                column!(
                    dst,
                    null,
                    access::string_value(connection, &mut f.memory, at.0 as usize, Tag::Numeric)
                )
            }
            Op::ColPacked { dst, at, null, scale } => {
                column!(dst, null, Datum::packed(Packed::new(i64::from_le_bytes(bytes_at!(at)), scale.0)))
            }
            Op::ScanStart { .. } if MODE == PART => return Ok(Exit::At(pc + 1)),
            Op::ScanStart { cursor } => {
                f.cursors[cursor.0 as usize].scan.start(connection, program.table_of(cursor.0))
            }
            Op::ScanNext { cursor, to } => {
                tick!();
                let c = &mut f.cursors[cursor.0 as usize];
                match c.scan.next(connection, &mut f.memory[c.from..c.to])? {
                    Some(oid) => c.oid = oid,
                    None if MODE == PART => return Ok(Exit::At(to.0 as usize)),
                    None => jump!(to),
                }
            }
            Op::Point { cursor, values, to } => {
                let ahead = std::mem::take(&mut f.ahead);
                let c = &mut f.cursors[cursor.0 as usize];
                if !access::point(connection, c, &f.regs[values.range()], &mut f.memory, ahead)? {
                    jump!(to)
                }
            }
            Op::KeyPut { cursor, values, to } => {
                if !access::key_put(&mut f.cursors[cursor.0 as usize], &f.regs[values.range()], &f.memory) {
                    jump!(to)
                }
            }
            Op::KeyPrefetch { cursor } => access::key_prefetch(&mut f.cursors[cursor.0 as usize]),
            Op::KeyProbe { cursor } => access::key_probe(connection, &mut f.cursors[cursor.0 as usize])?,
            Op::RowPrefetch { cursor } => {
                // Alone, the row is read at once anyway.
                if MODE == LANE {
                    access::row_prefetch(connection, &f.cursors[cursor.0 as usize])
                }
            }
            Op::RowNext { cursor, to } => {
                tick!();
                let c = &mut f.cursors[cursor.0 as usize];
                let Some(table) = &c.table else { return Err(internal("a cursor without a table")) };
                let found = loop {
                    let Some(oid) = c.oids.get(c.at).copied() else { break false };
                    access::row_ahead(connection, c, c.at + access::AHEAD);
                    c.at += 1;
                    if connection.read(table, oid, &mut f.memory[c.from..c.to]) {
                        c.oid = oid;
                        break true;
                    }
                };
                if !found {
                    jump!(to)
                }
            }
            Op::Twin { cursor, to } => {
                if access::twin(connection, &mut f.cursors[cursor.0 as usize], &mut f.memory)? {
                    jump!(to)
                }
            }
            Op::Affected {} => f.affected += 1,
            Op::Emit { row: span } => {
                f.emitted += 1;
                if !sink.row(&RowView(Shape::Values { values: row!(span), memory: &f.memory }))? {
                    return Ok(if MODE == PLAIN { Exit::At(pc + 1) } else { Exit::Done });
                }
            }
            Op::EmitRow { cursor } => {
                if !emit_row(f, program, cursor, connection, sink)? {
                    return Ok(if MODE == PLAIN { Exit::At(pc + 1) } else { Exit::Done });
                }
            }
            Op::PointRow { cursor, values } => point_row(f, program, connection, sink, cursor, values)?,
            Op::GroupFor { group, key } => aggregate::choose(f, group, key)?,
            Op::AggStep { group, agg, args } => aggregate::feed(f, group, agg, args)?,
            // Everything else is a call away, so that this loop stays small enough for the processor's
            // registers.
            _ => {
                if MODE == PART && matches!(op, Op::ForeignStart { .. }) {
                    return Ok(Exit::At(pc + 1));
                }
                if let Some(to) = far::exec(f, program, connection, world, op)? {
                    if MODE == PART && matches!(op, Op::ForeignNext { .. }) {
                        return Ok(Exit::At(to.0 as usize));
                    }
                    jump!(to)
                }
            }
        }
        pc += 1;
    }
}

/// Runs a program from its beginning to its end.
#[inline]
pub(super) fn execute(
    f: &mut Frame,
    program: &Program,
    connection: &mut Connection,
    sink: &mut dyn Sink,
    world: &World<'_>,
) -> SqlResult<()> {
    // Where one instruction is all, no loop is begun.
    if let Some(Op::PointRow { cursor, values }) = program.ops.first() {
        return point_row(f, program, connection, sink, *cursor, *values);
    }
    exec::<PLAIN>(f, program, connection, sink, world, 0).map(|_| ())
}

/// See [`Op::PointRow`].
#[inline]
pub(super) fn point_row(
    f: &mut Frame,
    program: &Program,
    connection: &Connection,
    sink: &mut dyn Sink,
    cursor: Cur,
    values: Span,
) -> SqlResult<()> {
    let ahead = std::mem::take(&mut f.ahead);
    let n = cursor.0 as usize;
    let mut found =
        access::point(connection, &mut f.cursors[n], &f.regs[values.range()], &mut f.memory, ahead)?;
    while found && emit_row(f, program, cursor, connection, sink)? {
        found = access::twin(connection, &mut f.cursors[n], &mut f.memory)?
    }
    Ok(())
}

/// Gives out the cursor's row; false when no more rows are wanted.
#[inline]
fn emit_row(
    f: &mut Frame,
    program: &Program,
    cursor: Cur,
    connection: &Connection,
    sink: &mut dyn Sink,
) -> SqlResult<bool> {
    f.emitted += 1;
    let c = &f.cursors[cursor.0 as usize];
    let bytes = &f.memory[c.from..c.to];
    let simple = !c.has_strings && !Layout::is_wide(bytes);
    match &c.table {
        Some(table) if simple => sink.row(&RowView(Shape::Raw { table, bytes })),
        _ => emit_strings(f, program, cursor, connection, sink),
    }
}

/// Gives out a row whose strings may lie in other slots.
#[inline(never)]
fn emit_strings(
    f: &mut Frame,
    program: &Program,
    cursor: Cur,
    connection: &Connection,
    sink: &mut dyn Sink,
) -> SqlResult<bool> {
    let table = program.table_of(cursor.0);
    let c = &f.cursors[cursor.0 as usize];
    let range = c.from..c.to;
    if stands_alone(&table.layout, &f.memory[range.clone()]) {
        return sink.row(&RowView(Shape::Raw { table, bytes: &f.memory[range] }));
    }
    let at = f.memory.len();
    f.memory.extend_from_within(range);
    make_alone(connection, &table.layout, at, &mut f.memory);
    let more = sink.row(&RowView(Shape::Raw { table, bytes: &f.memory[at..] }))?;
    f.memory.truncate(at);
    Ok(more)
}

/// Shares a program with a frame that is to run it inside another.
pub(super) fn nested(
    frame: &mut Frame,
    program: &Arc<Program>,
    connection: &mut Connection,
    sink: &mut dyn Sink,
    world: &World<'_>,
) -> SqlResult<()> {
    execute(frame, program, connection, sink, world)
}
