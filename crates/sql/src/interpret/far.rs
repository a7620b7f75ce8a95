//! The instructions that are not part of the interpreter's innermost loop: stores, sorts, groups, functions,
//! changes of rows.
//!
//! Each is a call away from the loop, which costs little beside what they do, and keeps the loop itself
//! small. The answer is where to jump, or nothing: then the next instruction follows. exec/X1 to exec/X3 hold
//! here too.
use super::advisory::{self, is_advisory};
use super::aggregate::state_of;
use super::datum::{Allowance, Datum, Tag, compare, order_floats, with_values};
use super::exec::{TICKS, World, canceled, internal, look_around};
use super::frame::Frame;
use super::store::HashTable;
use super::{access, functions, window};
use crate::code::Program;
use crate::code::op::Op;
use crate::code::operand::{Fault, How, Label, Pool};
use crate::code::program::{PARAM_REGISTERS, Tag as ProgramTag};
use ondol_base::fiber::take_turns;
use ondol_engine::{Connection, KEYS_SHARED, LockStrength, Locked, Oid, Wait};
use ondol_types::catalog::tid;
use ondol_types::edge;
use ondol_types::func::{Context, FuncId};
use ondol_types::{SqlError, SqlResult, TypeId, Value, ValueRef, sqlstate};

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

/// Where an UPDATE goes on that has given a row back for the sake of those who share its keys: at the lock,
/// as of one that it has not locked yet, once it has it FOR UPDATE.
#[cold]
fn await_sharers(
    program: &Program,
    connection: &mut Connection,
    oid: Oid,
    update: &Op,
    e: SqlError,
) -> SqlResult<Label> {
    if e.sqlstate() != KEYS_SHARED {
        return Err(e);
    }
    let Op::Update { cursor: updated, .. } = update else { return Err(e) };
    let before = program.ops.iter().take_while(|op| *op != update).enumerate();
    let locks = before.filter_map(|(at, op)| match op {
        Op::Lock { cursor, gone, .. } if cursor == updated => Some((at, *gone)),
        _ => None,
    });
    let (at, gone) = locks.last().ok_or_else(|| internal("an UPDATE that locks no row"))?;
    let table = program.table_of(updated.0);
    match connection.lock(table, oid, LockStrength::Update, Wait::Block)? {
        Locked::Same | Locked::Changed => Ok(Label(at as u32)),
        Locked::Gone | Locked::Skipped => Ok(gone),
    }
}

fn lock_words(how: How) -> (LockStrength, Wait) {
    match how {
        How::UpdateBlock => (LockStrength::Update, Wait::Block),
        How::UpdateNoWait => (LockStrength::Update, Wait::NoWait),
        How::UpdateSkip => (LockStrength::Update, Wait::SkipLocked),
        How::NoKeyBlock => (LockStrength::NoKeyUpdate, Wait::Block),
        How::NoKeyNoWait => (LockStrength::NoKeyUpdate, Wait::NoWait),
        How::NoKeySkip => (LockStrength::NoKeyUpdate, Wait::SkipLocked),
        How::KeyBlock => (LockStrength::KeyShare, Wait::Block),
        How::KeyNoWait => (LockStrength::KeyShare, Wait::NoWait),
        How::KeySkip => (LockStrength::KeyShare, Wait::SkipLocked),
        How::ShareBlock => (LockStrength::Share, Wait::Block),
        How::ShareNoWait => (LockStrength::Share, Wait::NoWait),
        How::ShareSkip => (LockStrength::Share, Wait::SkipLocked),
    }
}

/// exec/X2
pub(super) fn go_on(world: &World<'_>) -> SqlResult<()> {
    take_turns();
    if world.env.cancel.is_some_and(|c| c.is_told()) { Err(canceled()) } else { Ok(()) }
}

fn pooled(pool: &[Datum], from: Pool, count: u32) -> &[Datum] {
    &pool[from.0 as usize..][..count as usize]
}

/// Puts in what is not there yet.
fn put_pool(
    table: &mut HashTable,
    values: &[Datum],
    memory: &[u8],
    allow: &mut Allowance,
    world: &World<'_>,
) -> SqlResult<()> {
    for (n, d) in values.iter().enumerate() {
        if n % TICKS as usize == 0 {
            go_on(world)?
        }
        table.put_new(std::slice::from_ref(d), memory, allow)?;
    }
    Ok(())
}

fn is_in(table: &mut HashTable, d: Datum, memory: &[u8]) -> Datum {
    if d.is_null() { Datum::NULL } else { Datum::bool(table.find(&[d], memory)) }
}

/// Whoever changes a row goes by the bytes that it has read of it. A function that the statement calls may
/// have changed the row since: nothing else can, as the row is locked, and met once.
fn unchanged(program: &Program, connection: &Connection, oid: Oid, what: &str) -> SqlResult<()> {
    if program.functions.is_empty() || !connection.is_of_this_command(oid) {
        return Ok(());
    }
    let message =
        format!("tuple to be {what} was already modified by an operation triggered by the current command");
    Err(SqlError::new(sqlstate::TRIGGERED_DATA_CHANGE_VIOLATION, message))
}

#[inline(never)]
pub(super) fn exec(
    f: &mut Frame,
    program: &Program,
    connection: &mut Connection,
    world: &World<'_>,
    op: &Op,
) -> SqlResult<Option<Label>> {
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
    macro_rules! row {
        ($span:expr) => {
            &f.regs[$span.range()]
        };
    }
    match *op {
        Op::Raise { what } => {
            return Err(match what {
                Fault::MoreThanOneRow => SqlError::new(
                    sqlstate::CARDINALITY_VIOLATION,
                    "more than one row returned by a subquery used as an expression",
                ),
            });
        }
        Op::Load { dst, from } => set!(dst, f.pool[from.0 as usize]),
        Op::LoadParam { dst, param } => {
            let n = param.0 as usize;
            let d = match n.checked_sub(PARAM_REGISTERS) {
                None => f.regs[n],
                Some(late) => f.late[late],
            };
            set!(dst, d)
        }
        Op::InPool { dst, a, hash, from, count } => {
            let table = &mut f.hashes[hash.0 as usize];
            if table.store.rows == 0 {
                put_pool(table, pooled(&f.pool, from, count.0), &f.memory, &mut f.allow, world)?
            }
            set!(dst, is_in(table, reg!(a), &f.memory))
        }
        Op::SetPut { hash, a, null } => {
            let d = reg!(a);
            if d.is_null() {
                set!(null, Datum::TRUE)
            } else {
                f.hashes[hash.0 as usize].put_new(&[d], &f.memory, &mut f.allow)?;
            }
        }
        Op::InSet { dst, a, hash } => set!(dst, is_in(&mut f.hashes[hash.0 as usize], reg!(a), &f.memory)),
        Op::HashPool { hash, from, count } => {
            let table = &mut f.hashes[hash.0 as usize];
            put_pool(table, pooled(&f.pool, from, count.0), &f.memory, &mut f.allow, world)?
        }
        Op::MatPool { mat, from, rows } => {
            let store = &mut f.mats[mat.0 as usize].store;
            let width = store.width.max(1);
            let values = pooled(&f.pool, from, rows.0.saturating_mul(width as u32));
            for (n, row) in values.chunks_exact(width).enumerate() {
                if n % TICKS as usize == 0 {
                    go_on(world)?
                }
                store.push(row, &f.memory, &mut f.allow)?;
            }
        }
        Op::AddFloat { dst, a, b, func } => {
            set!(dst, doubles(reg!(a), reg!(b), func, world.context, |x, y| x + y, true)?)
        }
        Op::SubFloat { dst, a, b, func } => {
            set!(dst, doubles(reg!(a), reg!(b), func, world.context, |x, y| x - y, true)?)
        }
        Op::MulFloat { dst, a, b, func } => {
            set!(dst, doubles(reg!(a), reg!(b), func, world.context, |x, y| x * y, false)?)
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
        Op::UnlessFloat { a, b, cond, to } => {
            let (x, y) = (reg!(a), reg!(b));
            if x.is_null() || y.is_null() || !cond.holds(order_floats(x.as_float(), y.as_float())) {
                return Ok(Some(to));
            }
        }
        Op::Call { dst, func, args } => {
            let v = with_values(row!(args), &f.memory, |v| match is_advisory(func) {
                false => ondol_types::func::call(func, v, world.context),
                true => advisory::call(connection, func, v, world.context),
            })?;
            set!(dst, f.put_owned(&v)?);
            if let Some(p) = world.purse {
                drop(v);
                p.settle()
            }
        }
        Op::CallConnection { dst, func, args } => {
            let v =
                with_values(row!(args), &f.memory, |v| super::functions::of_connection(func, v, connection))?;
            set!(dst, f.put_owned(&v)?);
        }
        Op::Cast { dst, a, how } => {
            let d = reg!(a);
            if d.is_null() {
                set!(dst, Datum::NULL)
            } else {
                let c = &program.casts[how.0 as usize];
                let stays = match d.tag() {
                    Tag::Packed => ondol_types::cast::packed_stays(d.as_packed(), c.to),
                    tag => tag.in_memory() && ondol_types::cast::stays(d.bytes(&f.memory), c.from, c.to),
                };
                if stays {
                    set!(dst, d);
                    return Ok(None);
                }
                world.context.limits.take(d.bytes(&f.memory).len())?;
                let v = d.value(&f.memory).to_owned();
                let v = ondol_types::cast::cast(v, c.from, c.to, c.explicit, world.context)?;
                set!(dst, f.put_owned(&v)?);
                if let Some(p) = world.purse {
                    drop(v);
                    p.settle()
                }
            }
        }
        Op::IntToFloat { dst, a } => {
            let d = reg!(a);
            set!(dst, if d.is_null() { d } else { Datum::float(d.as_int() as f64) })
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
        Op::ColBytea { dst, at, null } => {
            column!(dst, null, access::string_value(connection, &mut f.memory, at.0 as usize, Tag::Bytea))
        }
        Op::ColOpaque { dst, at, null, ty } => {
            column!(dst, null, access::opaque_value(connection, &mut f.memory, at.0 as usize, ty))
        }
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
        Op::ColLater { dst, cursor, column } => {
            let layout = &program.table_of(cursor.0).layout;
            let c = &f.cursors[cursor.0 as usize];
            let (range, n) = (c.from..c.to, column.0 as usize);
            let d = access::later_value(connection, layout, &mut f.memory, range, n, &mut f.scratch);
            set!(dst, d)
        }
        Op::RangeLow { cursor, values, edge } => {
            if let Some(index) = program.index_of(cursor.0) {
                access::range_low(&mut f.cursors[cursor.0 as usize], index, row!(values), &f.memory, edge)
            }
        }
        Op::RangeHigh { cursor, values, edge } => {
            if let Some(index) = program.index_of(cursor.0) {
                access::range_high(&mut f.cursors[cursor.0 as usize], index, row!(values), &f.memory, edge)
            }
        }
        Op::RangeEnd { dst, a, ty, lower } => {
            let given = reg!(a).value(&f.memory);
            let zone = world.context.styles.zone;
            let v = match given {
                ValueRef::Null => Value::Null,
                given => edge::end(given, ty, lower.0, zone)
                    .ok_or_else(|| internal("a value that is no end of the range"))?,
            };
            set!(dst, f.put_owned(&v)?)
        }
        Op::RangeStart { cursor, backward } => {
            if let Some(index) = program.index_of(cursor.0) {
                access::range_start(connection, &mut f.cursors[cursor.0 as usize], index, backward.0)?
            }
        }
        Op::BoxProbe { cursor, values } => {
            let c = &mut f.cursors[cursor.0 as usize];
            access::box_probe(connection, c, &f.regs[values.range()], &f.memory, &mut f.allow)?
        }
        Op::Within { cursor, other, values } => {
            let pair = f.cursors.get_disjoint_mut([cursor.0 as usize, other.0 as usize]);
            let [cursor, other] = pair.map_err(|_| internal("a cursor within its own box"))?;
            let values = &f.regs[values.range()];
            access::within(connection, cursor, other, values, &f.memory, &mut f.allow)?
        }
        Op::BoxesNew { cursor } => access::boxes_new(&mut f.cursors[cursor.0 as usize]),
        Op::BoxesEnd { cursor } => access::boxes_end(connection, &mut f.cursors[cursor.0 as usize]),
        Op::TallyNodes { cursor, slot } => {
            let nodes = std::mem::take(&mut f.cursors[cursor.0 as usize].nodes);
            if let Some(t) = f.tallies.get_mut(slot.0 as usize) {
                *t += nodes
            }
        }
        Op::NearStart { cursor, values, counted } => {
            let c = &mut f.cursors[cursor.0 as usize];
            access::near_start(c, &f.regs[values.range()], counted.0, &f.memory)?
        }
        Op::NearNext { cursor, to } => {
            tick!();
            let c = &mut f.cursors[cursor.0 as usize];
            if !access::near_next(connection, c, &mut f.memory, &mut f.allow)? {
                return Ok(Some(to));
            }
        }
        Op::RangesNew { cursor } => f.cursors[cursor.0 as usize].ranges.clear(),
        Op::RangeKeep { cursor } => access::range_keep(&mut f.cursors[cursor.0 as usize]),
        Op::RangesStart { cursor, backward } => {
            if let Some(index) = program.index_of(cursor.0) {
                access::ranges_start(connection, &mut f.cursors[cursor.0 as usize], index, backward.0)?
            }
        }
        Op::RangeNext { cursor, to } => {
            tick!();
            let mut scratch = std::mem::take(&mut f.scratch);
            let found = access::range_next(connection, f, program, cursor.0 as usize, &mut scratch);
            f.scratch = scratch;
            if !found? {
                return Ok(Some(to));
            }
        }
        Op::GetRow { dst, cursor } => set!(dst, Datum::int(f.cursors[cursor.0 as usize].oid.bits() as i64)),
        Op::SetRow { cursor, a, to } => {
            let (number, table) = (reg!(a), program.table_of(cursor.0));
            // code/C2: the register may hold any number, which is an address only if it is a row's of the
            // table.
            let row = Some(number.bits).filter(|_| number.tag() == Tag::Int8);
            let Some(oid) = row.and_then(|bits| connection.row_at(table, bits)) else { return Ok(Some(to)) };
            let c = &mut f.cursors[cursor.0 as usize];
            c.oid = oid;
            if !connection.read(table, oid, &mut f.memory[c.from..c.to]) {
                return Ok(Some(to));
            }
        }
        Op::RowTid { dst, cursor } => {
            let bits = f.cursors[cursor.0 as usize].oid.bits();
            set!(dst, tid_datum(bits, &mut f.memory))
        }
        Op::NewTid { dst } => set!(dst, tid_datum(connection.inserted().bits(), &mut f.memory)),
        Op::TidRow { cursor, a, to } => {
            let (tid, table) = (reg!(a), program.table_of(cursor.0));
            if tid.is_null() {
                return Ok(Some(to));
            }
            let bits = tid::bits(tid.bytes(&f.memory));
            let c = &mut f.cursors[cursor.0 as usize];
            match connection.read_at(table, bits, &mut f.memory[c.from..c.to])? {
                Some(oid) => c.oid = oid,
                None => return Ok(Some(to)),
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
                        return Ok(Some(gone));
                    }
                    was_changed = true
                }
                Locked::Gone | Locked::Skipped => return Ok(Some(gone)),
            }
            set!(changed, Datum::bool(was_changed))
        }
        Op::Touch { cursor, to } => {
            let c = &mut f.cursors[cursor.0 as usize];
            f.allow.take(16)?;
            if !c.touched.insert(c.oid.bits()) {
                return Ok(Some(to));
            }
        }
        Op::Update { cursor, values, columns } => {
            let c = &f.cursors[cursor.0 as usize];
            let (oid, range) = (c.oid, c.from..c.to);
            let list = &program.lists[columns.0 as usize];
            let table = program.table_of(cursor.0);
            unchanged(program, connection, oid, "updated")?;
            let lets_go = program.tag == ProgramTag::Update;
            let done = access::with_changes(list, row!(values), &f.memory, |changes| {
                connection.update_or_let_go(table, oid, &f.memory[range], changes, lets_go)
            });
            if let Err(e) = done {
                f.cursors[cursor.0 as usize].touched.remove(&oid.bits());
                return await_sharers(program, connection, oid, op, e).map(Some);
            }
        }
        Op::PointUpdate { cursor, key, values, columns } => {
            let ahead = std::mem::take(&mut f.ahead);
            let n = cursor.0 as usize;
            let mut found =
                access::point(connection, &mut f.cursors[n], &f.regs[key.range()], &mut f.memory, ahead)?;
            while found {
                let c = &f.cursors[n];
                let (oid, range) = (c.oid, c.from..c.to);
                let table = program.table_of(cursor.0);
                let (strength, wait) = lock_words(How::NoKeyBlock);
                let ours = match connection.lock(table, oid, strength, wait)? {
                    Locked::Same => true,
                    Locked::Changed => {
                        let point = c.index.as_ref().and_then(|i| i.point.as_ref());
                        let key = row!(key);
                        connection.read_newest(table, oid, &mut f.memory[range.clone()])
                            && point.is_some_and(|p| {
                                p.has(&f.memory[range.clone()], |i| key.get(i).map_or(0, |d| d.as_int()))
                            })
                    }
                    Locked::Gone | Locked::Skipped => false,
                };
                if ours {
                    let list = &program.lists[columns.0 as usize];
                    access::with_changes(list, row!(values), &f.memory, |changes| {
                        connection.update(table, oid, &f.memory[range], changes)
                    })?;
                    f.affected += 1
                }
                found = access::twin(connection, &mut f.cursors[n], &mut f.memory)?
            }
        }
        Op::Delete { cursor } => {
            let c = &f.cursors[cursor.0 as usize];
            unchanged(program, connection, c.oid, "deleted")?;
            connection.delete(program.table_of(cursor.0), c.oid, &f.memory[c.from..c.to])?
        }
        Op::Insert { table, values } => {
            let table = &program.tables[table.0 as usize];
            with_values(row!(values), &f.memory, |v| connection.insert(table, v))?;
        }
        Op::InsertNew { table, values, arbiters, to } => {
            let table = &program.tables[table.0 as usize];
            let arbiters = &program.lists[arbiters.0 as usize];
            let met = with_values(row!(values), &f.memory, |v| {
                connection.insert_unless(table, v, arbiters, false)
            })?;
            if met.is_some() {
                return Ok(Some(to));
            }
        }
        Op::InsertOrLock { cursor, values, arbiters, to } => {
            let table = program.table_of(cursor.0);
            let arbiters = &program.lists[arbiters.0 as usize];
            let met =
                with_values(row!(values), &f.memory, |v| connection.insert_unless(table, v, arbiters, true))?;
            if let Some(oid) = met {
                let c = &mut f.cursors[cursor.0 as usize];
                c.oid = oid;
                let row = &mut f.memory[c.from..c.to];
                if !connection.read_met(oid, row) {
                    return Err(internal("a row that is locked is not there"));
                }
                return Ok(Some(to));
            }
        }
        Op::Violated { table, values, check } => {
            let table = &program.tables[table.0 as usize];
            let check = usize::from(check.0);
            return Err(with_values(row!(values), &f.memory, |v| connection.violates(table, check, v)));
        }
        Op::OutOfView { table, values, view } => {
            let table = &program.tables[table.0 as usize];
            let name = super::datum::text(reg!(view).bytes(&f.memory)).to_string();
            return Err(with_values(row!(values), &f.memory, |v| connection.out_of_view(table, &name, v)));
        }
        Op::HashClear { hash } => f.hashes[hash.0 as usize].clear(),
        Op::HashPut { hash, row: span } => {
            f.hashes[hash.0 as usize].put(row!(span), &f.memory, &mut f.allow)?
        }
        Op::HashPutNew { hash, row: span, to } => {
            if !f.hashes[hash.0 as usize].put_new(row!(span), &f.memory, &mut f.allow)? {
                return Ok(Some(to));
            }
        }
        Op::HashFind { hash, key, to } => {
            if !f.hashes[hash.0 as usize].find(row!(key), &f.memory) {
                return Ok(Some(to));
            }
        }
        Op::HashFindNext { hash, to } => {
            tick!();
            if !f.hashes[hash.0 as usize].find_next() {
                return Ok(Some(to));
            }
        }
        Op::HashCol { dst, hash, column } => {
            set!(dst, f.hashes[hash.0 as usize].get(column.0 as usize, &mut f.memory));
            f.charge_memory()?
        }
        Op::HashAdd { hash, by } => f.hashes[hash.0 as usize].add(by.0.into()),
        Op::HashCount { dst, hash } => set!(dst, Datum::int(f.hashes[hash.0 as usize].count())),
        Op::HashRewind { hash } => f.hashes[hash.0 as usize].rewind(),
        Op::HashNext { hash, to } => {
            tick!();
            if !f.hashes[hash.0 as usize].step() {
                return Ok(Some(to));
            }
        }
        Op::HashSize { dst, hash } => set!(dst, Datum::int(f.hashes[hash.0 as usize].store.rows as i64)),
        Op::MatClear { mat } => f.mats[mat.0 as usize].clear(),
        Op::MatPut { mat, row: span } => {
            f.mats[mat.0 as usize].store.push(row!(span), &f.memory, &mut f.allow)?;
        }
        Op::MatRewind { mat } => f.mats[mat.0 as usize].rewind(),
        Op::MatNext { mat, to } => {
            tick!();
            if !f.mats[mat.0 as usize].step() {
                return Ok(Some(to));
            }
        }
        Op::MatRead { mat, at, to } => {
            tick!();
            let r = &mut f.regs[at.0.first as usize];
            let row = if r.is_null() { 0 } else { r.bits as usize };
            *r = Datum::int((row as i64).wrapping_add(1));
            if !f.mats[mat.0 as usize].go_to(row) {
                return Ok(Some(to));
            }
        }
        Op::MatCol { dst, mat, column } => {
            set!(dst, f.mats[mat.0 as usize].get(column.0 as usize, &mut f.memory));
            f.charge_memory()?
        }
        Op::MatSwap { a, b } => f.mats.swap(a.0 as usize, b.0 as usize),
        Op::MatSize { dst, mat } => set!(dst, Datum::int(f.mats[mat.0 as usize].store.rows as i64)),
        Op::SystemRows { mat, view } => {
            let list = &mut f.mats[mat.0 as usize];
            let view = &program.names[view.0 as usize];
            functions::system_rows(list, view, None, connection, world, &mut f.allow)?
        }
        Op::SystemRowsOf { mat, view, column, key } => {
            let key = f.regs[key.0 as usize].value(&f.memory).to_owned();
            let mut scratch = Vec::new();
            let key = Some((column.0 as usize, key.as_ref(&mut scratch)));
            let (list, view) = (&mut f.mats[mat.0 as usize], &program.names[view.0 as usize]);
            functions::system_rows(list, view, key, connection, world, &mut f.allow)?
        }
        Op::ForeignStart { from, bounds } => {
            let def = &program.foreigns[from.0 as usize];
            let bound = |n: usize| f.regs[bounds.first as usize + n].value(&f.memory).to_owned();
            /// Parts for each worker at least.
            const TURNS: usize = 8;
            let parts = (world.env.workers * TURNS).max(1);
            let range = def.table.range(&def.columns, &bound(0), &bound(1), parts)?;
            f.foreigns[from.0 as usize] = Some(range.rows(0..range.parts()));
        }
        Op::ForeignNext { from, row, to } => {
            tick!();
            let (columns, first) = (&program.foreigns[from.0 as usize].columns, row.0.first as usize);
            let (regs, memory) = (&mut f.regs, &mut f.memory);
            let found = match &mut f.foreigns[from.0 as usize] {
                Some(rows) => rows.next(&|| go_on(world), &mut |n, value| {
                    if let Some(column) = columns.get(n) {
                        regs[first + *column as usize] = Datum::of(value, memory)
                    }
                })?,
                None => false,
            };
            if !found {
                f.foreigns[from.0 as usize] = None;
                return Ok(Some(to));
            }
            f.charge_memory()?
        }
        Op::ForeignCount { dst, from } => {
            let n = match &mut f.foreigns[from.0 as usize] {
                Some(rows) => rows.count(world.env.workers, &|| go_on(world))?,
                None => 0,
            };
            set!(dst, Datum::int(i64::try_from(n).unwrap_or(i64::MAX)))
        }
        Op::FunctionRows { mat, function, args } => {
            functions::function_rows(f, program, mat, function, args, connection, world)?
        }
        Op::SortClear { sort } => f.sorters[sort.0 as usize].clear(),
        Op::SortLimit { sort, a } => {
            let d = reg!(a);
            f.sorters[sort.0 as usize].limit((!d.is_null()).then(|| usize::try_from(d.as_int()).unwrap_or(0)))
        }
        Op::SortPut { sort, row: span } => {
            f.sorters[sort.0 as usize].put(row!(span), &f.memory, &mut f.allow, world.env.cancel)?
        }
        Op::SortRun { sort } => f.sorters[sort.0 as usize].run(world.env.cancel)?,
        Op::SortNext { sort, to } => {
            tick!();
            if !f.sorters[sort.0 as usize].step() {
                return Ok(Some(to));
            }
        }
        Op::SortCol { dst, sort, column } => {
            set!(dst, f.sorters[sort.0 as usize].get(column.0 as usize, &mut f.memory));
            f.charge_memory()?
        }
        Op::GroupClear { group } => {
            let g = &mut f.groups[group.0 as usize];
            g.table.clear();
            g.states.clear();
        }
        Op::GroupIndex { dst, group } => {
            set!(dst, Datum::int(f.groups[group.0 as usize].table.current() as i64))
        }
        Op::GroupRewind { group } => f.groups[group.0 as usize].table.rewind(),
        Op::GroupNext { group, to } => {
            tick!();
            if !f.groups[group.0 as usize].table.step() {
                return Ok(Some(to));
            }
        }
        Op::GroupCol { dst, group, column } => {
            set!(dst, f.groups[group.0 as usize].table.get(column.0 as usize, &mut f.memory));
            f.charge_memory()?
        }
        Op::AggValue { dst, group, agg } => {
            let Some(state) = state_of(&mut f.groups[group.0 as usize], agg.0) else {
                return Err(internal("an aggregate is asked before its group is chosen"));
            };
            // What is kept is copied, and the copy put into memory.
            let copy = state.kept_bytes();
            f.allow.take(copy)?;
            let v = state.finish()?;
            set!(dst, f.put_owned(&v)?);
            f.allow.give_back(copy)
        }
        Op::WindowStart { window, distances } => window::start(f, window, distances)?,
        Op::WindowPut { window, row, to } => return window::put(f, window, row, to),
        Op::WindowRun { window } => window::run(f, window, world)?,
        Op::WindowNext { window, to } => {
            tick!();
            return window::next(f, window, to, world);
        }
        Op::WindowCol { dst, window, column } => window::column(f, dst, window, column)?,
        Op::WindowValue { dst, window, call } => window::value(f, dst, window, call, world)?,
        Op::SeriesStart { state } => {
            let s = &f.regs[state.0.range()];
            if !s[2].is_null() && s[2].as_int() == 0 {
                return Err(SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, "step size cannot equal zero"));
            }
        }
        Op::SeriesNext { state, to } => {
            tick!();
            let s = &mut f.regs[state.0.range()];
            let (next, step) = (s[0], s[2]);
            if is_past(s) {
                return Ok(Some(to));
            }
            s[3] = next;
            s[0] = match next.as_int().checked_add(step.as_int()) {
                Some(v) => Datum::number(next.tag(), v),
                None => Datum::NULL,
            };
        }
        Op::SeriesAdd { state, add, to } => {
            tick!();
            let s = &f.regs[state.0.range()];
            if is_past(s) {
                return Ok(Some(to));
            }
            let operands = [s[0], s[4]];
            let after =
                with_values(&operands, &f.memory, |v| ondol_types::func::call(add, v, world.context))?;
            let after = f.put_owned(&after)?;
            let s = &mut f.regs[state.0.range()];
            s[3] = s[0];
            s[0] = after;
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
                return Ok(Some(to));
            }
        }
        Op::CountDown { left, to } => {
            let r = &mut f.regs[left.0.first as usize];
            if !r.is_null() {
                *r = Datum::int(r.as_int().saturating_sub(1));
                if r.as_int() <= 0 {
                    return Ok(Some(to));
                }
            }
        }
        Op::IfZero { a, to } => {
            let d = reg!(a);
            if !d.is_null() && d.bits == 0 {
                return Ok(Some(to));
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
        _ => return Err(internal("an instruction of the inner loop came out of it")),
    }
    Ok(None)
}

/// A `ctid` of these bits.
fn tid_datum(bits: u64, memory: &mut Vec<u8>) -> Datum {
    Datum::of(ValueRef::Opaque(TypeId::TID, &tid::bytes(bits)), memory)
}

/// Whether a series (next, stop, the step or its sign) is at its end. A NULL is the end.
fn is_past(series: &[Datum]) -> bool {
    let [next, stop, step, ..] = *series else { return true };
    let is_after = |a: Datum, b: Datum| a.as_int() > b.as_int();
    next.is_null()
        || stop.is_null()
        || step.is_null()
        || if step.as_int() > 0 { is_after(next, stop) } else { is_after(stop, next) }
}
