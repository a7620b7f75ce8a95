//! A partition's rows, and what functions over windows give of them.
//!
//! - **W1** Rows are those of one partition, in the window's order. What they took of the allowance is given
//!   back when the partition is forgotten.
//! - **W2** From one row to the next neither end of a frame moves back. What EXCLUDE leaves out is cut out of
//!   the frame afterwards: up to three pieces remain.
//! - **W3** An aggregate goes on from what it had for the row before while its frame only grows. Else it is
//!   put together of states of blocks of rows (a tree of blocks), where merged states are exact; where they
//!   are not (sums of doubles, which PostgreSQL adds up anew as well) or where its result is as long as its
//!   rows (string_agg, array_agg), all rows of the frame are gone through for each row: the time is quadratic
//!   then.
//! - **W4** Whatever goes through many rows looks for a wish to cancel, and lets others of the thread have
//!   their turn.
use super::datum::{Allowance, Datum, Tag, compare};
use super::exec::{TICKS, World, internal};
use super::far::go_on;
use super::frame::Frame;
use super::store::Store;
use crate::bound::{Computed, Exclude, FrameUnit};
use crate::code::operand::{Col, Label, Out, Span, Win};
use crate::code::program::SortKey;
use crate::code::window::{CallDef, End, WindowDef};
use ondol_types::agg::AggState;
use ondol_types::catalog::in_range::{Side, in_range};
use ondol_types::window::{self, Kind};
use ondol_types::{SqlError, SqlResult, Value, ValueRef, sqlstate};
use std::cmp::Ordering;
use std::ops::Range;

/// A window while it runs.
#[derive(Default)]
pub struct Window {
    def: Option<WindowDef>,
    store: Store,
    /// What the partition took of the allowance (W1).
    taken: usize,
    /// How far the frame's start and its end are from the row, as far as they have such distances.
    distances: Vec<Value>,
    /// The current row, once there is one.
    row: usize,
    /// How many rows were given.
    given: usize,
    /// Where each group of peers begins, and which one the current row is in.
    groups: Vec<usize>,
    group: usize,
    frame: Range<usize>,
    calls: Vec<Call>,
}

/// What a function knows from row to row.
enum Call {
    /// Only what it is.
    Function(Kind),
    Ntile(Option<Buckets>),
    Aggregate(Running),
}

/// ntile: how many rows are in a bucket, of those how many were given, and how many buckets have one more.
struct Buckets {
    bucket: i32,
    given: i64,
    size: i64,
    larger: i64,
}

/// An aggregate over the rows of `over`, and over blocks of rows (W3).
struct Running {
    state: AggState,
    over: Range<usize>,
    /// What the state took of the allowance.
    taken: usize,
    tree: Vec<Vec<AggState>>,
}

/// Rows in a block, and blocks in a block of the next level.
const BLOCK: usize = 16;

/// What the steps of a loop ask (W4).
struct Ticks<'w> {
    world: &'w World<'w>,
    left: u32,
}

impl Ticks<'_> {
    #[inline]
    fn tick(&mut self) -> SqlResult<()> {
        self.left -= 1;
        if self.left == 0 {
            self.left = TICKS;
            go_on(self.world)?
        }
        Ok(())
    }
}

fn ticks<'w>(world: &'w World<'w>) -> Ticks<'w> {
    Ticks { world, left: TICKS }
}

fn is_same(columns: &[u16], a: &[Datum], b: &[Datum], bytes: &[u8], other: &[u8]) -> bool {
    columns.iter().all(|c| match (a.get(*c as usize), b.get(*c as usize)) {
        (Some(a), Some(b)) => compare(*a, bytes, *b, other) == Ordering::Equal,
        _ => false,
    })
}

impl Window {
    /// Turns to another program's window.
    pub(super) fn load(&mut self, def: &WindowDef, keep: usize) {
        if self.store.bytes.capacity() > keep {
            self.store = Store::default()
        }
        self.store.width = def.width as usize;
        self.store.clear();
        self.calls = Vec::new();
        self.def = Some(def.clone());
    }

    /// Gives its memory back.
    pub(super) fn release(&mut self) {
        let def = self.def.take();
        let width = self.store.width;
        *self = Window { def, ..Window::default() };
        self.store.width = width;
    }

    fn forget(&mut self, allow: &mut Allowance) {
        self.store.clear();
        self.groups.clear();
        self.calls.clear();
        (self.row, self.given, self.group) = (0, 0, 0);
        self.frame = 0..0;
        allow.give_back(std::mem::take(&mut self.taken));
    }

    fn take(&mut self, bytes: usize, allow: &mut Allowance) -> SqlResult<()> {
        allow.take(bytes)?;
        self.taken += bytes;
        Ok(())
    }

    fn value(&self, row: usize, column: u16) -> ValueRef<'_> {
        let datum = self.store.row(row).get(column as usize).copied();
        datum.unwrap_or(Datum::NULL).value(&self.store.bytes)
    }

    fn datum(&self, row: usize, column: u16) -> Datum {
        self.store.row(row).get(column as usize).copied().unwrap_or(Datum::NULL)
    }

    // ----
    // frames ------------------------------------------------------------------------------------------

    /// Finds the groups of peers, and begins the functions.
    fn run(&mut self, allow: &mut Allowance, world: &World<'_>) -> SqlResult<()> {
        let Some(def) = &self.def else { return Ok(()) };
        let mut ticks = ticks(world);
        let bytes = &self.store.bytes;
        for n in 0..self.store.rows {
            ticks.tick()?;
            if n == 0 || !is_same(&def.order, self.store.row(n - 1), self.store.row(n), bytes, bytes) {
                self.groups.push(n)
            }
        }
        let call = |c: &CallDef| match c.what {
            Computed::Function(id) => match window::find(id).map(|d| d.kind) {
                None => Err(internal("a window function that is not there")),
                Some(Kind::Ntile) => Ok(Call::Ntile(None)),
                Some(kind) => Ok(Call::Function(kind)),
            },
            Computed::Aggregate(id) => {
                let state = AggState::new(id);
                Ok(Call::Aggregate(Running { state, over: 0..0, taken: 0, tree: Vec::new() }))
            }
        };
        self.calls = def.calls.iter().map(call).collect::<SqlResult<_>>()?;
        self.take(size_of_val(&self.groups[..]), allow)
    }

    /// Where the group behind a group begins.
    fn end_of_group(&self, group: usize) -> usize {
        self.groups.get(group + 1).copied().unwrap_or(self.store.rows)
    }

    /// The next row, and its frame (W2).
    fn step(&mut self, world: &World<'_>) -> SqlResult<bool> {
        if self.given == self.store.rows {
            return Ok(false);
        }
        self.row = self.given;
        self.given += 1;
        if self.row >= self.end_of_group(self.group) {
            self.group += 1
        }
        let Some(def) = &self.def else { return Ok(false) };
        let (unit, start, end, range) = (def.unit, def.start, def.end, def.range);
        let is_framed = |c: &Call| {
            matches!(
                c,
                Call::Aggregate(_) | Call::Function(Kind::FirstValue | Kind::LastValue | Kind::NthValue)
            )
        };
        // What is wrong with a distance by RANGE is told whoever asks.
        let is_told = unit == FrameUnit::Range && def.distances() > 0;
        if !is_told && !self.calls.iter().any(is_framed) {
            return Ok(true);
        }
        let rows = self.store.rows;
        let end_distance = usize::from(start.has_distance());
        let (row, group) = (self.row, self.group);
        let head = match (start, unit) {
            (End::Unbounded, _) => 0,
            (End::CurrentRow, FrameUnit::Rows) => row,
            (End::CurrentRow, _) => self.groups[group],
            (_, FrameUnit::Rows) => self.moved(row, start, 0, 0).min(rows),
            (_, FrameUnit::Groups) => {
                self.groups.get(self.moved(group, start, 0, 0)).copied().unwrap_or(rows)
            }
            (_, FrameUnit::Range) => self.range_end(start, range, 0, true, world)?,
        };
        let tail = match (end, unit) {
            (End::Unbounded, _) => rows,
            (End::CurrentRow, FrameUnit::Rows) => row + 1,
            (End::CurrentRow, _) => self.end_of_group(group),
            (_, FrameUnit::Rows) => self.moved(row, end, end_distance, 1).min(rows),
            (_, FrameUnit::Groups) => {
                self.groups.get(self.moved(group, end, end_distance, 1)).copied().unwrap_or(rows)
            }
            (_, FrameUnit::Range) => self.range_end(end, range, end_distance, false, world)?,
        };
        self.frame = head..tail;
        Ok(true)
    }

    /// A place so far from another, plus `more`, not below 0.
    fn moved(&self, from: usize, end: End, distance: usize, more: i64) -> usize {
        let Some(&Value::Int8(by)) = self.distances.get(distance) else { return from };
        let from = from as i64;
        let to = match end {
            End::Preceding => from.saturating_sub(by),
            _ => from.saturating_add(by),
        };
        usize::try_from(to.saturating_add(more)).unwrap_or(0)
    }

    /// Where a frame by RANGE begins or ends: as far on from where the last one did as it has to.
    fn range_end(
        &self,
        end: End,
        key: Option<SortKey>,
        distance: usize,
        is_start: bool,
        world: &World<'_>,
    ) -> SqlResult<usize> {
        let Some(key) = key else { return Err(internal("a distance of nothing")) };
        let mut scratch = Vec::new();
        let Some(by) = self.distances.get(distance) else {
            return Err(internal("a frame without its distance"));
        };
        let by = by.as_ref(&mut scratch);
        let base = self.value(self.row, key.column);
        let side = Side { before: (end == End::Preceding) != key.desc, at_most: is_start == key.desc };
        let mut at = if is_start { self.frame.start } else { self.frame.end };
        let mut ticks = ticks(world);
        while at < self.store.rows {
            ticks.tick()?;
            let value = self.value(at, key.column);
            // NULLs are peers of each other, before all values or behind them.
            let is_there = match (value.is_null(), base.is_null()) {
                (false, false) => {
                    let within = in_range(value, base, by, side, world.context.styles.zone)?;
                    within == is_start
                }
                (null, base) if is_start && key.nulls_first => !null || base,
                (null, base) if is_start => null || !base,
                (null, base) if key.nulls_first => !null && base,
                (null, base) => null && !base,
            };
            if is_there {
                break;
            }
            at += 1;
        }
        Ok(at)
    }

    /// What of the frame is seen, in order (W2).
    fn pieces(&self) -> [Range<usize>; 3] {
        let Range { start, end } = self.frame;
        let exclude = self.def.as_ref().map_or(Exclude::NoOthers, |d| d.exclude);
        let peers = || (self.groups[self.group], self.end_of_group(self.group));
        let own = match (start..end).contains(&self.row) {
            true => self.row..self.row + 1,
            false => 0..0,
        };
        let (from, to, own) = match exclude {
            Exclude::NoOthers => return [start..end, 0..0, 0..0],
            Exclude::CurrentRow => (self.row, self.row + 1, 0..0),
            Exclude::Group => (peers().0, peers().1, 0..0),
            Exclude::Ties => (peers().0, peers().1, own),
        };
        [start..end.min(from), own, start.max(to)..end]
    }

    // ----
    // values ------------------------------------------------------------------------------------------

    /// The row that a function of a frame's rows is asked for, counted from 0.
    fn nth(&self, mut n: usize) -> Option<usize> {
        for piece in self.pieces() {
            if n < piece.len() {
                return Some(piece.start + n);
            }
            n -= piece.len()
        }
        None
    }

    fn last(&self) -> Option<usize> {
        self.pieces().into_iter().rev().find(|p| !p.is_empty()).map(|p| p.end - 1)
    }

    /// An integer argument in the current row.
    fn integer(&self, column: u16) -> Option<i64> {
        let d = self.datum(self.row, column);
        (!d.is_null()).then(|| d.as_int())
    }

    /// Where the value of a function is that gives one of a row's: the row and the column; `None`: NULL.
    fn found(&self, kind: Kind, args: &[u16]) -> SqlResult<Option<(usize, u16)>> {
        let Some(value) = args.first().copied() else { return Err(internal("a function of nothing")) };
        let row = match kind {
            Kind::FirstValue => self.nth(0),
            Kind::LastValue => self.last(),
            Kind::NthValue => {
                let Some(n) = args.get(1).and_then(|c| self.integer(*c)) else { return Ok(None) };
                if n <= 0 {
                    let message = "argument of nth_value must be greater than zero";
                    return Err(SqlError::new("22016", message));
                }
                self.nth(n as usize - 1)
            }
            _ => {
                let by = match args.get(1) {
                    None => 1,
                    Some(c) => match self.integer(*c) {
                        Some(by) => by,
                        None => return Ok(None),
                    },
                };
                let at = self.row as i64 + if kind == Kind::Lead { by } else { -by };
                match usize::try_from(at).ok().filter(|at| *at < self.store.rows) {
                    // What is given where there is no such row.
                    None => return Ok(args.get(2).map(|c| (self.row, *c))),
                    row => row,
                }
            }
        };
        Ok(row.map(|r| (r, value)))
    }

    /// The value of a function that counts rows.
    fn counted(&self, kind: Kind) -> Datum {
        let (rows, rank) = (self.store.rows, self.groups.get(self.group).map_or(0, |g| g + 1));
        match kind {
            Kind::RowNumber => Datum::int(self.row as i64 + 1),
            Kind::Rank => Datum::int(rank as i64),
            Kind::DenseRank => Datum::int(self.group as i64 + 1),
            Kind::PercentRank if rows <= 1 => Datum::float(0.0),
            Kind::PercentRank => Datum::float((rank - 1) as f64 / (rows - 1) as f64),
            _ => Datum::float(self.end_of_group(self.group) as f64 / rows as f64),
        }
    }

    fn ntile(&mut self, call: usize, args: &[u16]) -> SqlResult<Datum> {
        let buckets = args.first().and_then(|c| self.integer(*c));
        let rows = self.store.rows as i64;
        let Some(Call::Ntile(known)) = self.calls.get_mut(call) else {
            return Err(internal("a function that was not begun"));
        };
        let b = match known {
            Some(b) => b,
            None => {
                // It is asked for until it is not NULL, and then no more.
                let Some(buckets) = buckets else { return Ok(Datum::NULL) };
                if buckets <= 0 {
                    return Err(SqlError::new("22014", "argument of ntile must be greater than zero"));
                }
                let (size, larger) = match rows / buckets {
                    0 => (1, 0),
                    size => (size, rows % buckets),
                };
                known.insert(Buckets { bucket: 1, given: 0, size, larger })
            }
        };
        if b.given == b.size + i64::from(b.larger > 0) {
            (b.bucket, b.given, b.larger) = (b.bucket + 1, 0, (b.larger - 1).max(0));
        }
        b.given += 1;
        Ok(Datum::number(Tag::Int4, b.bucket.into()))
    }

    fn aggregate(
        &mut self,
        call: usize,
        def: &CallDef,
        allow: &mut Allowance,
        world: &World<'_>,
    ) -> SqlResult<Value> {
        let pieces = self.pieces();
        let Some(Call::Aggregate(running)) = self.calls.get_mut(call) else {
            return Err(internal("an aggregate that was not begun"));
        };
        let rows = Feed { store: &self.store, def };
        let mut ticks = ticks(world);
        let mut some = pieces.iter().filter(|p| !p.is_empty());
        let (first, more) = (some.next().cloned().unwrap_or(0..0), some.next().is_some());
        let before = allow.used;
        let copied;
        let value = if !more && first.start == running.over.start && first.end >= running.over.end {
            for n in running.over.end..first.end {
                ticks.tick()?;
                let more = rows.step(&mut running.state, n)?;
                running.taken += more;
                allow.take(more)?
            }
            running.over = first;
            // What is kept is copied (interpret/far).
            copied = running.state.kept_bytes();
            allow.take(copied)?;
            running.state.finish()
        } else {
            let mut state = AggState::new(running.state.def().id);
            let mut taken = 0;
            let is_long = pieces.iter().map(Range::len).sum::<usize>() > 2 * BLOCK;
            if is_long && state.def().merges_exactly() {
                if running.tree.is_empty() {
                    running.tree = rows.tree(allow, &mut ticks)?;
                }
                for p in pieces {
                    rows.put_together(&running.tree, 0, p, &mut state)?
                }
            } else {
                for n in pieces.into_iter().flatten() {
                    ticks.tick()?;
                    let more = rows.step(&mut state, n)?;
                    taken += more;
                    allow.take(more)?
                }
            }
            copied = state.kept_bytes();
            allow.take(copied)?;
            let value = state.finish();
            if !more {
                std::mem::swap(&mut taken, &mut running.taken);
                (running.state, running.over) = (state, first);
            }
            allow.give_back(taken);
            value
        };
        allow.give_back(copied);
        self.taken = (self.taken + allow.used).saturating_sub(before);
        value
    }
}

/// What an aggregate takes of a partition.
struct Feed<'s> {
    store: &'s Store,
    def: &'s CallDef,
}

impl Feed<'_> {
    /// Feeds a row to a state. How many bytes more that keeps.
    fn step(&self, state: &mut AggState, row: usize) -> SqlResult<usize> {
        let (row, bytes) = (self.store.row(row), &self.store.bytes);
        let datum = |c: &u16| row.get(*c as usize).copied().unwrap_or(Datum::NULL);
        if self.def.filter.as_ref().is_some_and(|f| !datum(f).is_true()) {
            return Ok(0);
        }
        match &self.def.args[..] {
            [] => state.step(&[]),
            [a] => state.step(&[datum(a).value(bytes)]),
            [a, b] => state.step(&[datum(a).value(bytes), datum(b).value(bytes)]),
            many => state.step(&many.iter().map(|c| datum(c).value(bytes)).collect::<Vec<_>>()),
        }
    }

    /// States of blocks: first of rows, then of blocks, as long as there are several.
    fn tree(&self, allow: &mut Allowance, ticks: &mut Ticks<'_>) -> SqlResult<Vec<Vec<AggState>>> {
        let Computed::Aggregate(id) = self.def.what else { return Err(internal("no aggregate")) };
        let mut tree: Vec<Vec<AggState>> = Vec::new();
        loop {
            let below = tree.last().map_or(self.store.rows, Vec::len);
            if below < 2 * BLOCK {
                return Ok(tree);
            }
            // A part of a block at the end is never asked for.
            let mut level = Vec::with_capacity(below / BLOCK);
            for block in 0..below / BLOCK {
                let mut state = AggState::new(id);
                for n in block * BLOCK..(block + 1) * BLOCK {
                    ticks.tick()?;
                    self.put_one(&tree, tree.len(), n, &mut state)?
                }
                allow.take(size_of::<AggState>() + state.kept_bytes())?;
                level.push(state)
            }
            tree.push(level)
        }
    }

    /// Adds a row, at level 0, or a block of a level to a state.
    fn put_one(&self, tree: &[Vec<AggState>], level: usize, n: usize, to: &mut AggState) -> SqlResult<()> {
        match level.checked_sub(1).and_then(|l| tree.get(l)) {
            None => self.step(to, n).map(drop),
            Some(blocks) => blocks.get(n).map_or(Ok(()), |b| to.merge(b)),
        }
    }

    /// Adds rows, or blocks of a level, in their order: of those that are whole blocks of the next level
    /// these.
    fn put_together(
        &self,
        tree: &[Vec<AggState>],
        level: usize,
        range: Range<usize>,
        to: &mut AggState,
    ) -> SqlResult<()> {
        let whole = range.start.next_multiple_of(BLOCK)..range.end / BLOCK * BLOCK;
        if level == tree.len() || whole.is_empty() {
            return range.into_iter().try_for_each(|n| self.put_one(tree, level, n, to));
        }
        (range.start..whole.start).try_for_each(|n| self.put_one(tree, level, n, to))?;
        self.put_together(tree, level + 1, whole.start / BLOCK..whole.end / BLOCK, to)?;
        (whole.end..range.end).try_for_each(|n| self.put_one(tree, level, n, to))
    }
}

// ----
// instructions --------------------------------------------------------------------------------------------

/// See [`crate::code::Op::WindowStart`].
pub(super) fn start(f: &mut Frame, window: Win, distances: Span) -> SqlResult<()> {
    let w = &mut f.windows[window.0 as usize];
    w.forget(&mut f.allow);
    let Some(def) = &w.def else { return Err(internal("a window without a definition")) };
    let ends = [(def.start, "starting"), (def.end, "ending")];
    let given = ends.iter().filter(|e| e.0.has_distance()).map(|e| e.1);
    w.distances.clear();
    for (name, datum) in given.zip(&f.regs[distances.range()]) {
        if datum.is_null() {
            let message = format!("frame {name} offset must not be null");
            return Err(SqlError::new(sqlstate::NULL_VALUE_NOT_ALLOWED, message));
        }
        if def.unit != FrameUnit::Range && datum.as_int() < 0 {
            let message = format!("frame {name} offset must not be negative");
            return Err(SqlError::new("22013", message));
        }
        w.distances.push(datum.value(&f.memory).to_owned());
    }
    Ok(())
}

/// See [`crate::code::Op::WindowPut`].
pub(super) fn put(f: &mut Frame, window: Win, row: Span, to: Label) -> SqlResult<Option<Label>> {
    let w = &mut f.windows[window.0 as usize];
    let row = &f.regs[row.range()];
    if let (Some(last), Some(def)) = (w.store.rows.checked_sub(1), &w.def)
        && !is_same(&def.partition, w.store.row(last), row, &w.store.bytes, &f.memory)
    {
        return Ok(Some(to));
    }
    let before = f.allow.used;
    w.store.push(row, &f.memory, &mut f.allow)?;
    w.taken += f.allow.used - before;
    Ok(None)
}

/// See [`crate::code::Op::WindowRun`].
pub(super) fn run(f: &mut Frame, window: Win, world: &World<'_>) -> SqlResult<()> {
    f.windows[window.0 as usize].run(&mut f.allow, world)
}

/// See [`crate::code::Op::WindowNext`].
pub(super) fn next(f: &mut Frame, window: Win, to: Label, world: &World<'_>) -> SqlResult<Option<Label>> {
    let w = &mut f.windows[window.0 as usize];
    if w.step(world)? {
        return Ok(None);
    }
    w.forget(&mut f.allow);
    Ok(Some(to))
}

/// See [`crate::code::Op::WindowCol`].
pub(super) fn column(f: &mut Frame, dst: Out, window: Win, column: Col) -> SqlResult<()> {
    let w = &f.windows[window.0 as usize];
    let d = w.store.get(w.row, column.0 as usize, &mut f.memory);
    f.regs[dst.0 as usize] = d;
    f.charge_memory()
}

/// See [`crate::code::Op::WindowValue`].
pub(super) fn value(f: &mut Frame, dst: Out, window: Win, call: Col, world: &World<'_>) -> SqlResult<()> {
    let w = &mut f.windows[window.0 as usize];
    let n = call.0 as usize;
    let Some(def) = w.def.as_ref().and_then(|d| d.calls.get(n)).cloned() else {
        return Err(internal("a function of no window"));
    };
    let d = match w.calls.get(n) {
        Some(Call::Ntile(_)) => w.ntile(n, &def.args)?,
        Some(Call::Aggregate(_)) => {
            let v = w.aggregate(n, &def, &mut f.allow, world)?;
            f.put_owned(&v)?
        }
        Some(Call::Function(
            kind @ (Kind::Lag | Kind::Lead | Kind::FirstValue | Kind::LastValue | Kind::NthValue),
        )) => match w.found(*kind, &def.args)? {
            Some((row, column)) => w.store.get(row, column as usize, &mut f.memory),
            None => Datum::NULL,
        },
        Some(Call::Function(kind)) => w.counted(*kind),
        None => return Err(internal("a function that was not begun")),
    };
    f.regs[dst.0 as usize] = d;
    f.charge_memory()
}
