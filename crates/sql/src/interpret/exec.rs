//! The interpreter's loop: one flat match over the opcodes, documented in [`crate::code::op`].
//!
//! - **X1** The loop never panics on a verified program: every register, cursor and store number is in range; a value of
//!   an unexpected type is read as some value (see `datum`), an unexpected return address ends the program with an error.
//! - **X2** A wish to cancel is looked at on every loop's way, once in [`TICKS`] turns.
//! - **X3** Nothing here begins or ends a statement.
use super::access;
use super::datum::{Datum, Tag, compare, order_floats, with_values};
use super::frame::{Frame, Groups};
use super::rows::{Row, Shape, Sink, make_alone, stands_alone, tag_of};
use super::{Env, functions};
use crate::code::Program;
use crate::code::op::Op;
use crate::code::operand::{Cond, Fault, How, IntTy};
use ondol_engine::{Connection, Layout, LockStrength, Locked, Oid, Wait};
use ondol_types::agg::AggState;
use ondol_types::func::{Context, FuncId};
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// X2
const TICKS: u32 = 256;

/// Runs to the end.
pub(super) const PLAIN: u8 = 0;
/// Counts each instruction.
pub(super) const PROFILE: u8 = 1;
/// Stops before an instruction where the lanes of a batch meet.
pub(super) const LANE: u8 = 2;

pub(super) struct World<'a> {
    pub env: &'a Env<'a>,
    pub context: Context<'a>,
    /// How many registered queries call each other here.
    pub depth: u32,
}

/// Why the loop was left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Exit {
    Done,
    /// In a batch: the instruction to go on with.
    At(usize),
}

#[cold]
fn internal(message: &str) -> SqlError {
    SqlError::new(sqlstate::INTERNAL_ERROR, message)
}

#[cold]
fn canceled() -> SqlError {
    SqlError::new(sqlstate::QUERY_CANCELED, "canceling statement due to user request")
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

/// Ordinary results of doubles; what is not ordinary is for the function itself to judge.
#[inline(always)]
fn doubles(
    a: Datum,
    b: Datum,
    func: FuncId,
    context: &Context<'_>,
    f: impl FnOnce(f64, f64) -> f64,
    zero_is_ordinary: bool,
) -> SqlResult<Datum> {
    if a.is_null() || b.is_null() {
        return Ok(Datum::NULL);
    }
    let v = f(a.as_float(), b.as_float());
    if v.is_finite() && (zero_is_ordinary || v != 0.0) {
        return Ok(Datum::float(v));
    }
    let v = ondol_types::func::call(func, &[a.value(&[]), b.value(&[])], context)?;
    Ok(Datum::of_owned(&v, &mut Vec::new()))
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

fn lock_words(how: How) -> (LockStrength, Wait) {
    match how {
        How::UpdateBlock => (LockStrength::Update, Wait::Block),
        How::UpdateNoWait => (LockStrength::Update, Wait::NoWait),
        How::UpdateSkip => (LockStrength::Update, Wait::SkipLocked),
        How::ShareBlock => (LockStrength::Share, Wait::Block),
        How::ShareNoWait => (LockStrength::Share, Wait::NoWait),
        How::ShareSkip => (LockStrength::Share, Wait::SkipLocked),
    }
}

/// The current group becomes the key's, which is begun if it is new.
fn group_for(
    g: &mut Groups,
    key: &[Datum],
    memory: &[u8],
    allow: &mut super::datum::Allowance,
) -> SqlResult<()> {
    if g.table.put_new(key, memory, allow)? {
        if let Some(def) = &g.def {
            g.states.extend(def.aggs.iter().map(|(id, _)| AggState::new(*id)));
            allow.take(def.aggs.len() * size_of::<AggState>())?;
        }
    }
    Ok(())
}

fn state_of(g: &mut Groups, agg: u16) -> Option<&mut AggState> {
    let n = g.def.as_ref()?.aggs.len();
    g.states.get_mut(g.table.current().checked_mul(n)?.checked_add(agg as usize)?)
}

/// Where the lanes of a batch wait for each other.
pub(super) fn is_meeting(op: &Op) -> bool {
    matches!(op, Op::KeyPrefetch { .. } | Op::KeyProbe { .. } | Op::RowPrefetch { .. } | Op::RowNext { .. })
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
    let mut allow = f.allow.unwrap_or(super::datum::Allowance { used: 0, limit: usize::MAX });

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
            if f.tick % TICKS == 0 && world.env.cancel.is_some_and(|c| c.load(Ordering::Relaxed)) {
                return Err(canceled());
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
            f.allow = Some(allow);
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
            Op::Raise { what } => {
                return Err(match what {
                    Fault::MoreThanOneRow => SqlError::new(
                        sqlstate::CARDINALITY_VIOLATION,
                        "more than one row returned by a subquery used as an expression",
                    ),
                });
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
            Op::AddFloat { dst, a, b, func } => {
                set!(dst, doubles(reg!(a), reg!(b), func, &world.context, |x, y| x + y, true)?)
            }
            Op::SubFloat { dst, a, b, func } => {
                set!(dst, doubles(reg!(a), reg!(b), func, &world.context, |x, y| x - y, true)?)
            }
            Op::MulFloat { dst, a, b, func } => {
                set!(dst, doubles(reg!(a), reg!(b), func, &world.context, |x, y| x * y, false)?)
            }
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
            Op::CmpFloat { dst, a, b, cond } => {
                let (x, y) = (reg!(a), reg!(b));
                set!(
                    dst,
                    if x.is_null() || y.is_null() {
                        Datum::NULL
                    } else {
                        Datum::bool(cond.holds(order_floats(x.as_float(), y.as_float())))
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
            Op::UnlessFloat { a, b, cond, to } => {
                let (x, y) = (reg!(a), reg!(b));
                if x.is_null() || y.is_null() || !cond.holds(order_floats(x.as_float(), y.as_float())) {
                    jump!(to)
                }
            }
            Op::UnlessText { a, b, cond, to } => {
                let (x, y) = (reg!(a), reg!(b));
                if x.is_null() || y.is_null() || !cond.holds(x.bytes(&f.memory).cmp(y.bytes(&f.memory))) {
                    jump!(to)
                }
            }
            Op::Call { dst, func, args } => {
                let v =
                    with_values(row!(args), &f.memory, |v| ondol_types::func::call(func, v, &world.context))?;
                set!(dst, Datum::of_owned(&v, &mut f.memory))
            }
            Op::Cast { dst, a, how } => {
                let d = reg!(a);
                if d.is_null() {
                    set!(dst, Datum::NULL)
                } else {
                    let c = &program.casts[how.0 as usize];
                    let v = d.value(&f.memory).to_owned();
                    let v = ondol_types::cast::cast(v, c.from, c.to, c.explicit, &world.context)?;
                    set!(dst, Datum::of_owned(&v, &mut f.memory))
                }
            }
            Op::Retag { dst, a, ty } => {
                let mut d = reg!(a);
                if let (false, Some(tag)) = (d.is_null(), tag_of(ty)) {
                    d.tag = tag
                }
                set!(dst, d)
            }
            Op::IntToFloat { dst, a } => {
                let d = reg!(a);
                set!(dst, if d.is_null() { d } else { Datum::float(d.as_int() as f64) })
            }
            Op::Narrow { dst, a, ty, to } => {
                let mut d = reg!(a);
                if !d.is_null() {
                    if !in_range(d.as_int(), ty) {
                        jump!(to)
                    }
                    d.tag = int_tag(ty);
                }
                set!(dst, d)
            }
            Op::Order { dst, a, b } => {
                let (x, y) = (reg!(a), reg!(b));
                set!(
                    dst,
                    if x.is_null() || y.is_null() {
                        Datum::NULL
                    } else {
                        Datum::int(compare(x, &f.memory, y, &f.memory) as i64)
                    }
                )
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
            Op::ColBytea { dst, at, null } => {
                column!(dst, null, access::string_value(connection, &mut f.memory, at.0 as usize, Tag::Bytea))
            }
            Op::ColNumeric { dst, at, null } => column!(
                dst,
                null,
                access::string_value(connection, &mut f.memory, at.0 as usize, Tag::Numeric)
            ),
            Op::ColChar { dst, cursor, column } => {
                let layout = &program.table_of(cursor.0).layout;
                let c = &f.cursors[cursor.0 as usize];
                let range = c.from..c.to;
                let d = if layout.is_null(&f.memory[range.clone()], column.0 as usize) {
                    Datum::NULL
                } else {
                    access::char_value(connection, layout, &mut f.memory, range, column.0 as usize)
                };
                set!(dst, d)
            }

            Op::ScanStart { cursor } => {
                f.cursors[cursor.0 as usize].scan.start(connection, program.table_of(cursor.0))
            }
            Op::ScanNext { cursor, to } => {
                tick!();
                let c = &mut f.cursors[cursor.0 as usize];
                match c.scan.next(connection, &mut f.memory[c.from..c.to])? {
                    Some(oid) => c.oid = oid,
                    None => jump!(to),
                }
            }
            Op::KeyPut { cursor, values, to } => {
                let Some(index) = program.index_of(cursor.0) else { return Err(internal("no index")) };
                if !access::key_put(&mut f.cursors[cursor.0 as usize], index, row!(values), &f.memory) {
                    jump!(to)
                }
            }
            Op::KeyPrefetch { cursor } => {
                if let Some(index) = program.index_of(cursor.0) {
                    access::key_prefetch(&mut f.cursors[cursor.0 as usize], index)
                }
            }
            Op::KeyProbe { cursor } => {
                if let Some(index) = program.index_of(cursor.0) {
                    access::key_probe(connection, &mut f.cursors[cursor.0 as usize], index)?
                }
            }
            Op::RowPrefetch { cursor } => {
                // Alone, the row is read at once anyway.
                if MODE == LANE {
                    access::row_prefetch(connection, &f.cursors[cursor.0 as usize])
                }
            }
            Op::RowNext { cursor, to } => {
                tick!();
                let table = program.table_of(cursor.0);
                let c = &mut f.cursors[cursor.0 as usize];
                let found = loop {
                    let Some(oid) = c.oids.get(c.at).copied() else { break false };
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
            Op::RangeLow { cursor, values, edge } => {
                if let Some(index) = program.index_of(cursor.0) {
                    access::range_low(&mut f.cursors[cursor.0 as usize], index, row!(values), &f.memory, edge)
                }
            }
            Op::RangeHigh { cursor, values, edge } => {
                if let Some(index) = program.index_of(cursor.0) {
                    access::range_high(
                        &mut f.cursors[cursor.0 as usize],
                        index,
                        row!(values),
                        &f.memory,
                        edge,
                    )
                }
            }
            Op::RangeStart { cursor, backward } => {
                if let Some(index) = program.index_of(cursor.0) {
                    access::range_start(connection, &mut f.cursors[cursor.0 as usize], index, backward.0)?
                }
            }
            Op::RangeNext { cursor, to } => {
                tick!();
                let mut scratch = std::mem::take(&mut f.scratch);
                let found = access::range_next(connection, f, program, cursor.0 as usize, &mut scratch);
                f.scratch = scratch;
                if !found? {
                    jump!(to)
                }
            }
            Op::GetRow { dst, cursor } => set!(dst, Datum::int(f.cursors[cursor.0 as usize].oid.0 as i64)),
            Op::SetRow { cursor, a, to } => {
                let oid = reg!(a);
                let c = &mut f.cursors[cursor.0 as usize];
                c.oid = Oid(oid.bits & Oid::MASK);
                let seen = oid.tag == Tag::Int8
                    && connection.read(program.table_of(cursor.0), c.oid, &mut f.memory[c.from..c.to]);
                if !seen {
                    jump!(to)
                }
            }
            Op::Lock { changed, cursor, how, gone } => {
                let (strength, wait) = lock_words(how);
                let table = program.table_of(cursor.0);
                let c = &f.cursors[cursor.0 as usize];
                let mut was_changed = false;
                match connection.lock(table, c.oid, strength, wait)? {
                    Locked::Same => {}
                    Locked::Changed => {
                        if !connection.read_newest(table, c.oid, &mut f.memory[c.from..c.to]) {
                            jump!(gone)
                        }
                        was_changed = true
                    }
                    Locked::Gone | Locked::Skipped => jump!(gone),
                }
                set!(changed, Datum::bool(was_changed))
            }
            Op::Touch { cursor, to } => {
                let c = &mut f.cursors[cursor.0 as usize];
                allow.take(16)?;
                if !c.touched.insert(c.oid.0) {
                    jump!(to)
                }
            }
            Op::Update { cursor, values, columns } => {
                let c = &f.cursors[cursor.0 as usize];
                let (oid, range) = (c.oid, c.from..c.to);
                let list = &program.lists[columns.0 as usize];
                let table = program.table_of(cursor.0);
                access::with_changes(list, row!(values), &f.memory, |changes| {
                    connection.update(table, oid, &f.memory[range], changes)
                })?;
            }
            Op::Delete { cursor } => {
                let c = &f.cursors[cursor.0 as usize];
                connection.delete(program.table_of(cursor.0), c.oid, &f.memory[c.from..c.to])?
            }
            Op::Insert { table, values } => {
                let table = &program.tables[table.0 as usize];
                with_values(row!(values), &f.memory, |v| connection.insert(table, v))?;
            }
            Op::Affected {} => f.affected += 1,
            Op::Emit { row: span } => {
                f.emitted += 1;
                if !sink.row(&Row(Shape::Values { values: row!(span), memory: &f.memory }))? {
                    return Ok(Exit::Done);
                }
            }
            Op::EmitRow { cursor } => {
                f.emitted += 1;
                let table = program.table_of(cursor.0);
                let c = &f.cursors[cursor.0 as usize];
                let range = c.from..c.to;
                let simple = !c.has_strings && !Layout::is_wide(&f.memory[range.clone()]);
                let more = if simple || stands_alone(&table.layout, &f.memory[range.clone()]) {
                    sink.row(&Row(Shape::Raw { table, bytes: &f.memory[range] }))?
                } else {
                    let at = make_alone(connection, &table.layout, range, &mut f.memory);
                    let more = sink.row(&Row(Shape::Raw { table, bytes: &f.memory[at..] }))?;
                    f.memory.truncate(at);
                    more
                };
                if !more {
                    return Ok(Exit::Done);
                }
            }

            Op::HashClear { hash } => f.hashes[hash.0 as usize].clear(),
            Op::HashPut { hash, row: span } => {
                f.hashes[hash.0 as usize].put(row!(span), &f.memory, &mut allow)?
            }
            Op::HashPutNew { hash, row: span, to } => {
                if !f.hashes[hash.0 as usize].put_new(row!(span), &f.memory, &mut allow)? {
                    jump!(to)
                }
            }
            Op::HashFind { hash, key, to } => {
                if !f.hashes[hash.0 as usize].find(row!(key), &f.memory) {
                    jump!(to)
                }
            }
            Op::HashFindNext { hash, to } => {
                tick!();
                if !f.hashes[hash.0 as usize].find_next() {
                    jump!(to)
                }
            }
            Op::HashCol { dst, hash, column } => {
                set!(dst, f.hashes[hash.0 as usize].get(column.0 as usize, &mut f.memory))
            }
            Op::HashAdd { hash, by } => f.hashes[hash.0 as usize].add(by.0.into()),
            Op::HashCount { dst, hash } => set!(dst, Datum::int(f.hashes[hash.0 as usize].count())),
            Op::HashRewind { hash } => f.hashes[hash.0 as usize].rewind(),
            Op::HashNext { hash, to } => {
                tick!();
                if !f.hashes[hash.0 as usize].step() {
                    jump!(to)
                }
            }
            Op::HashSize { dst, hash } => set!(dst, Datum::int(f.hashes[hash.0 as usize].store.rows as i64)),

            Op::MatClear { mat } => f.mats[mat.0 as usize].clear(),
            Op::MatPut { mat, row: span } => {
                f.mats[mat.0 as usize].store.push(row!(span), &f.memory, &mut allow)?;
            }
            Op::MatRewind { mat } => f.mats[mat.0 as usize].rewind(),
            Op::MatNext { mat, to } => {
                tick!();
                if !f.mats[mat.0 as usize].step() {
                    jump!(to)
                }
            }
            Op::MatCol { dst, mat, column } => {
                set!(dst, f.mats[mat.0 as usize].get(column.0 as usize, &mut f.memory))
            }
            Op::MatSize { dst, mat } => set!(dst, Datum::int(f.mats[mat.0 as usize].store.rows as i64)),
            Op::SystemRows { mat, view } => {
                let list = &mut f.mats[mat.0 as usize];
                functions::system_rows(list, &program.names[view.0 as usize], connection, world, &mut allow)?
            }
            Op::FunctionRows { mat, function, args } => {
                functions::function_rows(f, program, mat, function, args, connection, world, &mut allow)?
            }

            Op::SortClear { sort } => f.sorters[sort.0 as usize].clear(),
            Op::SortLimit { sort, a } => {
                let d = reg!(a);
                f.sorters[sort.0 as usize]
                    .limit((!d.is_null()).then(|| usize::try_from(d.as_int()).unwrap_or(0)))
            }
            Op::SortPut { sort, row: span } => {
                f.sorters[sort.0 as usize].put(row!(span), &f.memory, &mut allow)?
            }
            Op::SortRun { sort } => f.sorters[sort.0 as usize].run(),
            Op::SortNext { sort, to } => {
                tick!();
                if !f.sorters[sort.0 as usize].step() {
                    jump!(to)
                }
            }
            Op::SortCol { dst, sort, column } => {
                set!(dst, f.sorters[sort.0 as usize].get(column.0 as usize, &mut f.memory))
            }

            Op::GroupClear { group } => {
                let g = &mut f.groups[group.0 as usize];
                g.table.clear();
                g.states.clear();
            }
            Op::GroupFor { group, key } => {
                group_for(&mut f.groups[group.0 as usize], row!(key), &f.memory, &mut allow)?
            }
            Op::AggStep { group, agg, args } => {
                let Some(state) = state_of(&mut f.groups[group.0 as usize], agg.0) else {
                    return Err(internal("an aggregate is fed before its group is chosen"));
                };
                with_values(row!(args), &f.memory, |v| state.step(v))?
            }
            Op::GroupIndex { dst, group } => {
                set!(dst, Datum::int(f.groups[group.0 as usize].table.current() as i64))
            }
            Op::GroupRewind { group } => f.groups[group.0 as usize].table.rewind(),
            Op::GroupNext { group, to } => {
                tick!();
                if !f.groups[group.0 as usize].table.step() {
                    jump!(to)
                }
            }
            Op::GroupCol { dst, group, column } => {
                set!(dst, f.groups[group.0 as usize].table.get(column.0 as usize, &mut f.memory))
            }
            Op::AggValue { dst, group, agg } => {
                let Some(state) = state_of(&mut f.groups[group.0 as usize], agg.0) else {
                    return Err(internal("an aggregate is asked before its group is chosen"));
                };
                let v = state.finish()?;
                set!(dst, Datum::of_owned(&v, &mut f.memory))
            }

            Op::SeriesStart { state } => {
                let s = &f.regs[state.0.range()];
                if !s[2].is_null() && s[2].as_int() == 0 {
                    return Err(SqlError::new(
                        sqlstate::INVALID_PARAMETER_VALUE,
                        "step size cannot equal zero",
                    ));
                }
            }
            Op::SeriesNext { state, to } => {
                tick!();
                let s = &mut f.regs[state.0.range()];
                let (next, stop, step) = (s[0], s[1], s[2]);
                let past = next.is_null()
                    || stop.is_null()
                    || step.is_null()
                    || if step.as_int() > 0 {
                        next.as_int() > stop.as_int()
                    } else {
                        next.as_int() < stop.as_int()
                    };
                if past {
                    jump!(to)
                }
                s[3] = next;
                s[0] = match next.as_int().checked_add(step.as_int()) {
                    Some(v) => Datum::number(next.tag, v),
                    None => Datum::NULL,
                };
            }
            Op::LimitOf { dst, a, offset } => {
                let d = reg!(a);
                if !d.is_null() && d.as_int() < 0 {
                    return Err(match offset.0 {
                        false => SqlError::new("2201W", "LIMIT must not be negative"),
                        true => SqlError::new("2201X", "OFFSET must not be negative"),
                    });
                }
                set!(dst, if d.is_null() { d } else { Datum::int(d.as_int()) })
            }
            Op::Skip { left, to } => {
                let r = &mut f.regs[left.0.first as usize];
                if !r.is_null() && r.as_int() > 0 {
                    *r = Datum::int(r.as_int() - 1);
                    jump!(to)
                }
            }
            Op::CountDown { left, to } => {
                let r = &mut f.regs[left.0.first as usize];
                if !r.is_null() {
                    *r = Datum::int(r.as_int().saturating_sub(1));
                    if r.as_int() <= 0 {
                        jump!(to)
                    }
                }
            }
            Op::IfZero { a, to } => {
                let d = reg!(a);
                if !d.is_null() && d.bits == 0 {
                    jump!(to)
                }
            }
            Op::LimitSum { dst, a, b } => {
                let (x, y) = (reg!(a), reg!(b));
                // A missing OFFSET counts as none; a missing LIMIT is no limit.
                set!(
                    dst,
                    match (x.is_null(), y.is_null()) {
                        (true, _) => Datum::NULL,
                        (false, true) => x,
                        (false, false) => Datum::int(x.as_int().saturating_add(y.as_int())),
                    }
                )
            }
        }
        pc += 1;
    }
}

/// Shares a program with a frame that is to run it inside another.
pub(super) fn nested(
    frame: &mut Frame,
    program: &Arc<Program>,
    connection: &mut Connection,
    sink: &mut dyn Sink,
    world: &World<'_>,
) -> SqlResult<()> {
    exec::<PLAIN>(frame, program, connection, sink, world, 0).map(|_| ())
}
