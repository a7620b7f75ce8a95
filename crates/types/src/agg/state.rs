//! The states of aggregates.

use super::{AggDef, AggId, Kind, Own, get};
use crate::array::Gathered;
use crate::catalog::{self, Cast, json};
use crate::func::Context;
use crate::func::compare::float8_cmp;
use crate::func::{internal, out_of_range};
use crate::limits::{Limits, SMALL};
use crate::numeric::LONGEST_PACKED;
use crate::value::compare;
use crate::{Numeric, SqlError, SqlResult, Type, TypeId, Value, ValueRef, cast, sqlstate};
use std::cmp::Ordering;

/// What one group of rows has been folded into.
#[derive(Clone, Debug)]
pub struct AggState {
    def: &'static AggDef,
    /// What the argument goes through before it is taken in ([`AggDef::folded`]).
    cast: Option<&'static Cast>,
    fold: Fold,
}

#[derive(Clone, Debug)]
enum Fold {
    /// count
    Count(i64),
    /// sum and avg of integers: exact, since 2^63 rows of 64 bits fit 128.
    Ints { sum: i128, rows: i64 },
    /// sum and avg of numeric
    Exact { sum: Numeric, rows: i64 },
    /// sum of doubles
    Floats { sum: f64, rows: i64 },
    /// avg and the variances of doubles: the sum, and the sum of the squares of distances from the mean
    Moments { rows: f64, sum: f64, squares: f64 },
    /// the variances of integers and numeric
    ExactMoments { sum: Numeric, squares: Numeric, rows: i64 },
    /// min and max
    Extreme(Option<Kept>),
    /// bool_and, bool_or
    Truth(Option<bool>),
    /// bit_and, bit_or, bit_xor
    Bits(Option<i64>),
    /// string_agg: what is joined so far, and how many bytes of it are the first row's separator, which is
    /// left out of the result but wanted by a merge
    Joined { bytes: Vec<u8>, first_separator: usize, rows: i64 },
    /// array_agg
    Array(Option<Box<Gathered>>),
    /// json_agg and its like
    Json(Option<Box<json::Gathered>>),
    /// Those of types of their own
    Own(&'static Own, Value),
}

/// The least or greatest value so far.
#[derive(Clone, Debug)]
enum Kept {
    Int(i64),
    Float(f64),
    /// Text and stored NUMERICs; the buffer is used again when a better value comes.
    Bytes(Vec<u8>),
    Opaque(TypeId, Vec<u8>),
}

fn too_many_rows() -> SqlError {
    out_of_range("bigint")
}

/// Any integer's value.
#[inline]
fn integer(v: &ValueRef<'_>) -> Option<i64> {
    match *v {
        ValueRef::Int2(n) => Some(n.into()),
        ValueRef::Int4(n) => Some(n.into()),
        ValueRef::Int8(n) => Some(n),
        _ => None,
    }
}

fn wrong_argument(def: &AggDef, found: &ValueRef<'_>) -> SqlError {
    internal(format!("aggregate {}({:?}) was fed {found:?}", def.name, def.args))
}

fn float_overflow() -> SqlError {
    SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow")
}

fn add_floats(a: f64, b: f64) -> SqlResult<f64> {
    let sum = a + b;
    if sum.is_infinite() && !a.is_infinite() && !b.is_infinite() {
        return Err(float_overflow());
    }
    Ok(sum)
}

impl AggState {
    /// Bytes that the state keeps beyond its own size, where they grow with the rows.
    #[inline]
    pub fn kept_bytes(&self) -> usize {
        match &self.fold {
            Fold::Joined { bytes, .. } => bytes.len(),
            Fold::Extreme(Some(Kept::Bytes(bytes) | Kept::Opaque(_, bytes))) => bytes.len(),
            Fold::Array(Some(items)) => items.bytes(),
            Fold::Json(Some(gathered)) => gathered.bytes(),
            _ => 0,
        }
    }
    /// The state of no rows.
    ///
    /// # Panics
    /// If the number is not in the catalogue; numbers read from disk go through [`super::find`] first.
    pub fn new(id: AggId) -> AggState {
        let def = get(id);
        let of = def.folded.or(def.args.first().copied());
        let fold = match (def.kind, of) {
            (Kind::CountRows | Kind::Count, _) => Fold::Count(0),
            (Kind::Sum, Some(TypeId::FLOAT8)) => Fold::Floats { sum: 0.0, rows: 0 },
            (Kind::Avg | Kind::Variance { .. }, Some(TypeId::FLOAT8)) => {
                Fold::Moments { rows: 0.0, sum: 0.0, squares: 0.0 }
            }
            (Kind::Sum | Kind::Avg, Some(TypeId::NUMERIC)) => Fold::Exact { sum: Numeric::ZERO, rows: 0 },
            (Kind::Sum | Kind::Avg, _) => Fold::Ints { sum: 0, rows: 0 },
            (Kind::Variance { .. }, _) => {
                Fold::ExactMoments { sum: Numeric::ZERO, squares: Numeric::ZERO, rows: 0 }
            }
            (Kind::Min | Kind::Max, _) => Fold::Extreme(None),
            (Kind::BoolAnd | Kind::BoolOr, _) => Fold::Truth(None),
            (Kind::BitAnd | Kind::BitOr | Kind::BitXor, _) => Fold::Bits(None),
            (Kind::Own(own), _) => Fold::Own(own, Value::Null),
            (Kind::ArrayAgg { .. }, _) => Fold::Array(None),
            (Kind::Json(_), _) => Fold::Json(None),
            (Kind::StringAgg, _) => Fold::Joined { bytes: Vec::new(), first_separator: 0, rows: 0 },
        };
        let cast = def.args.first().zip(def.folded).and_then(|(from, to)| catalog::cast(*from, to));
        AggState { def, cast, fold }
    }

    /// The aggregate this is a state of.
    pub fn def(&self) -> &'static AggDef {
        self.def
    }

    /// Bytes held outside the state itself, for charging to the memory limit.
    pub fn heap_bytes(&self) -> usize {
        match &self.fold {
            Fold::Extreme(Some(Kept::Bytes(b) | Kept::Opaque(_, b))) => b.capacity(),
            Fold::Joined { bytes, .. } => bytes.capacity(),
            Fold::Array(Some(items)) => items.bytes(),
            Fold::Json(Some(gathered)) => gathered.bytes(),
            _ => 0,
        }
    }

    /// Takes in one row's arguments. How many bytes more it keeps then.
    #[inline]
    pub fn step(&mut self, args: &[ValueRef<'_>]) -> SqlResult<usize> {
        // The usual aggregates, short enough to stand in the caller's loop.
        match (&mut self.fold, args) {
            (Fold::Count(n), []) if matches!(self.def.kind, Kind::CountRows) && *n < i64::MAX => *n += 1,
            (Fold::Ints { sum, rows }, [ValueRef::Int4(n)]) => {
                *sum += i128::from(*n);
                *rows += 1;
            }
            (Fold::Ints { sum, rows }, [ValueRef::Int8(n)]) => {
                *sum += i128::from(*n);
                *rows += 1;
            }
            (Fold::Exact { sum, rows }, [ValueRef::Packed(n)]) => {
                *rows += 1;
                sum.add_packed(*n);
            }
            (Fold::Exact { sum, rows }, [ValueRef::Numeric(n)]) => {
                *rows += 1;
                sum.add_encoded(n);
            }
            (Fold::Extreme(Some(Kept::Int(kept))), [ValueRef::Date(d)]) => {
                if replaces(self.def.kind, i64::from(*d).cmp(kept)) {
                    *kept = i64::from(*d)
                }
            }
            _ => return self.step_any(args),
        }
        Ok(0)
    }

    /// [`AggState::step`] for every state.
    #[inline(never)]
    fn step_any(&mut self, args: &[ValueRef<'_>]) -> SqlResult<usize> {
        let before = self.kept_bytes();
        self.take_in(args)?;
        Ok(self.kept_bytes().saturating_sub(before))
    }

    fn take_in(&mut self, args: &[ValueRef<'_>]) -> SqlResult<()> {
        if args.len() != self.def.fed() {
            return Err(internal(format!("aggregate {} was fed {} arguments", self.def.name, args.len())));
        }
        if let (Fold::Array(items), [value, template]) = (&mut self.fold, args) {
            let items = match items {
                Some(items) => items,
                None => items.insert(Box::new(Gathered::new(self.def.kind, *template)?)),
            };
            return items.add(*value);
        }
        if let (Fold::Json(gathered), Kind::Json(gathers)) = (&mut self.fold, self.def.kind) {
            let [values @ .., styles] = args else { return Err(internal("an aggregate of nothing")) };
            let gathered = match gathered {
                Some(gathered) => gathered,
                None => gathered.insert(Box::new(json::Gathered::new(gathers, *styles)?)),
            };
            return gathered.add(values);
        }
        // Invariant 2: NULLs pass by, except that rows are counted, and that string_agg's separator may be
        // NULL.
        if args.first().is_some_and(ValueRef::is_null) {
            return Ok(());
        }
        let def = self.def;
        let value = args.first().unwrap_or(&ValueRef::Null);
        let (cast, mut scratch);
        let value = match self.cast {
            Some(c) => {
                cast = (c.run)(*value, Type::new(c.to), &Context::EMPTY)?;
                scratch = Vec::new();
                &cast.as_ref(&mut scratch)
            }
            None => value,
        };
        match (&mut self.fold, value) {
            (Fold::Count(n), _) => *n = n.checked_add(1).ok_or_else(too_many_rows)?,
            (Fold::Ints { sum, rows }, v) => {
                *sum += i128::from(integer(v).ok_or_else(|| wrong_argument(def, v))?);
                *rows += 1;
            }
            (Fold::Exact { sum, rows }, ValueRef::Numeric(n)) => {
                sum.add_encoded(n);
                *rows += 1;
            }
            (Fold::Exact { sum, rows }, ValueRef::Packed(n)) => {
                sum.add_packed(*n);
                *rows += 1;
            }
            (Fold::Floats { sum, rows }, ValueRef::Float8(f)) => {
                *sum = if *rows == 0 { *f } else { add_floats(*sum, *f)? };
                *rows += 1;
            }
            (Fold::Moments { rows, sum, squares }, ValueRef::Float8(f)) => {
                let finite_before = !sum.is_infinite() && !f.is_infinite();
                let n = *rows + 1.0;
                let s = *sum + f;
                if *rows > 0.0 {
                    let distance = f * n - s;
                    *squares += distance * distance / (n * *rows);
                    if s.is_infinite() || squares.is_infinite() {
                        if finite_before {
                            return Err(float_overflow());
                        }
                        *squares = f64::NAN;
                    }
                } else if !f.is_finite() {
                    *squares = f64::NAN;
                }
                (*rows, *sum) = (n, s);
            }
            (Fold::ExactMoments { sum, squares, rows }, v) => {
                let n = match integer(v) {
                    Some(i) => Numeric::from(i),
                    None => v.numeric().ok_or_else(|| wrong_argument(def, v))?,
                };
                *squares = squares.add_wide(&n.mul_wide(&n));
                *sum = sum.add_wide(&n);
                *rows += 1;
            }
            (Fold::Extreme(kept), v) => keep(kept, v, def)?,
            (Fold::Truth(t), ValueRef::Bool(b)) => {
                let and = def.kind == Kind::BoolAnd;
                *t = Some(t.map_or(*b, |t| if and { t && *b } else { t || *b }));
            }
            (Fold::Bits(bits), v) => {
                let n = integer(v).ok_or_else(|| wrong_argument(def, v))?;
                *bits = Some(bits.map_or(n, |b| combine_bits(def.kind, b, n)));
            }
            (Fold::Joined { bytes, first_separator, rows }, v) => {
                let separator = args.get(1).unwrap_or(&ValueRef::Null);
                let start = bytes.len();
                // Much does not grow to its double at once.
                let (more, room) = (separator.byte_len() + v.byte_len(), bytes.capacity() - start);
                if more > room && start > SMALL {
                    bytes.reserve_exact(more.max(start / 8));
                }
                for part in [separator, v] {
                    match part {
                        ValueRef::Text(s) => bytes.extend_from_slice(s.as_bytes()),
                        ValueRef::Bytea(b) => bytes.extend_from_slice(b),
                        ValueRef::Null => {}
                        other => return Err(wrong_argument(def, other)),
                    }
                    if *rows == 0 && std::ptr::eq(part, separator) {
                        *first_separator = bytes.len() - start;
                    }
                }
                *rows += 1;
            }
            (Fold::Own(own, state), v) => (own.step)(state, *v)?,
            (_, other) => return Err(wrong_argument(def, other)),
        }
        Ok(())
    }

    /// The result over the rows so far.
    pub fn finish(&self) -> SqlResult<Value> {
        match &self.fold {
            Fold::Count(n) => Ok(Value::Int8(*n)),
            Fold::Ints { rows: 0, .. }
            | Fold::Exact { rows: 0, .. }
            | Fold::Floats { rows: 0, .. }
            | Fold::Joined { rows: 0, .. } => Ok(Value::Null),
            Fold::Ints { sum, rows } => match (self.def.kind, self.def.ret) {
                (Kind::Avg, _) => Ok(Value::Numeric(Numeric::from(*sum).div(&Numeric::from(*rows))?)),
                (_, TypeId::INT8) => i64::try_from(*sum).map(Value::Int8).map_err(|_| out_of_range("bigint")),
                _ => Ok(Value::Numeric(Numeric::from(*sum))),
            },
            Fold::Exact { sum, rows } => {
                let sum = sum.clone().within_limits()?;
                let is_avg = self.def.kind == Kind::Avg;
                Ok(Value::Numeric(if is_avg { sum.div(&Numeric::from(*rows))? } else { sum }))
            }
            Fold::Floats { sum, .. } => Ok(Value::Float8(*sum)),
            Fold::Moments { rows, sum, squares } => {
                let Kind::Variance { sample, root } = self.def.kind else {
                    return Ok(if *rows > 0.0 { Value::Float8(sum / rows) } else { Value::Null });
                };
                let divisor = if sample { rows - 1.0 } else { *rows };
                if divisor <= 0.0 {
                    return Ok(Value::Null);
                }
                let variance = squares / divisor;
                Ok(Value::Float8(if root { variance.sqrt() } else { variance }))
            }
            Fold::ExactMoments { sum, squares, rows } => self.exact_variance(sum, squares, *rows),
            Fold::Extreme(kept) => self.extreme(kept.as_ref()),
            Fold::Array(items) => items.as_ref().map_or(Ok(Value::Null), |items| items.finish()),
            Fold::Json(gathered) => gathered.as_ref().map_or(Ok(Value::Null), |g| g.finish()),
            Fold::Own(_, Value::Null) => Ok(Value::Null),
            Fold::Own(own, state) => (own.finish)(state.as_ref(&mut Vec::new())),
            Fold::Truth(t) => Ok(t.map_or(Value::Null, Value::Bool)),
            Fold::Bits(None) => Ok(Value::Null),
            Fold::Bits(Some(b)) => Ok(self.of_type(*b)),
            Fold::Joined { bytes, first_separator, .. } => {
                let joined = bytes[*first_separator..].to_vec();
                if self.def.ret == TypeId::BYTEA {
                    return Ok(Value::Bytea(joined));
                }
                match String::from_utf8(joined) {
                    Ok(s) => Ok(Value::Text(s)),
                    Err(e) => Err(internal(format!("string_agg joined text into bytes that are none: {e}"))),
                }
            }
        }
    }

    /// An integer-like result as the aggregate's type.
    fn of_type(&self, n: i64) -> Value {
        match self.def.ret {
            TypeId::INT2 => Value::Int2(n as i16),
            TypeId::INT4 => Value::Int4(n as i32),
            TypeId::DATE => Value::Date(n as i32),
            TypeId::TIMESTAMP => Value::Timestamp(n),
            TypeId::TIMESTAMPTZ => Value::Timestamptz(n),
            _ => Value::Int8(n),
        }
    }

    fn extreme(&self, kept: Option<&Kept>) -> SqlResult<Value> {
        Ok(match kept {
            None => Value::Null,
            Some(Kept::Int(n)) => self.of_type(*n),
            Some(Kept::Float(f)) => Value::Float8(*f),
            Some(Kept::Opaque(ty, b)) => Value::Opaque(*ty, b[..].into()),
            Some(Kept::Bytes(b)) if self.def.ret == TypeId::NUMERIC => Value::Numeric(Numeric::decode(b)),
            Some(Kept::Bytes(b)) => match std::str::from_utf8(b) {
                Ok(s) => Value::Text(s.into()),
                Err(e) => return Err(internal(format!("min or max kept bytes that are no text: {e}"))),
            },
        })
    }

    /// `(n Σx² - (Σx)²) / (n (n - 1))`, or by n² for a population, with the scales PostgreSQL gives. The
    /// squares keep all their decimals, beyond NUMERIC's.
    fn exact_variance(&self, sum: &Numeric, squares: &Numeric, rows: i64) -> SqlResult<Value> {
        let Kind::Variance { sample, root } = self.def.kind else {
            return Err(internal(format!("aggregate {} has no variance", self.def.name)));
        };
        if rows == 0 || (sample && rows == 1) {
            return Ok(Value::Null);
        }
        if sum.is_nan() || sum.is_infinite() {
            return Ok(Value::Numeric(Numeric::NAN));
        }
        let n = i128::from(rows);
        let spread = Numeric::from(n).mul_wide(squares).add_wide(&sum.mul_wide(sum).neg());
        if spread.signum() <= 0 {
            return Ok(Value::Numeric(Numeric::ZERO));
        }
        let variance = spread.div(&Numeric::from(n * if sample { n - 1 } else { n }))?;
        Ok(Value::Numeric(if root { variance.root_at_own_scale(&Limits::NONE)? } else { variance }))
    }

    /// Adds what `other` has seen, as if its rows had come after this one's.
    pub fn merge(&mut self, other: &AggState) -> SqlResult<()> {
        if self.def.id != other.def.id {
            let (a, b) = (self.def, other.def);
            return Err(internal(format!("a state of {} cannot take in one of {}", a.name, b.name)));
        }
        let def = self.def;
        match (&mut self.fold, &other.fold) {
            (Fold::Count(a), Fold::Count(b)) => *a = a.checked_add(*b).ok_or_else(too_many_rows)?,
            (Fold::Ints { sum, rows }, Fold::Ints { sum: s, rows: r }) => {
                *sum += s;
                *rows += r;
            }
            (Fold::Exact { sum, rows }, Fold::Exact { sum: s, rows: r }) => {
                *sum = sum.add_wide(s);
                *rows += r;
            }
            (
                Fold::Floats { .. } | Fold::Joined { .. },
                Fold::Floats { rows: 0, .. } | Fold::Joined { rows: 0, .. },
            ) => {}
            (mine @ Fold::Floats { rows: 0, .. }, theirs) => *mine = theirs.clone(),
            (mine @ Fold::Joined { rows: 0, .. }, theirs) => *mine = theirs.clone(),
            (Fold::Floats { sum, rows }, Fold::Floats { sum: s, rows: r }) => {
                *sum = add_floats(*sum, *s)?;
                *rows += r;
            }
            (Fold::Moments { rows, sum, squares }, Fold::Moments { rows: r, sum: s, squares: q }) => {
                if *rows == 0.0 {
                    (*rows, *sum, *squares) = (*r, *s, *q);
                } else if *r > 0.0 {
                    let n = *rows + r;
                    let distance = *sum / *rows - s / r;
                    *squares = *squares + q + *rows * r * distance * distance / n;
                    *sum = add_floats(*sum, *s)?;
                    *rows = n;
                }
            }
            (
                Fold::ExactMoments { sum, squares, rows },
                Fold::ExactMoments { sum: s, squares: q, rows: r },
            ) => {
                *sum = sum.add_wide(s);
                *squares = squares.add_wide(q);
                *rows += r;
            }
            (Fold::Extreme(mine), Fold::Extreme(Some(theirs))) => merge_kept(mine, theirs, def),
            (Fold::Truth(mine), Fold::Truth(Some(b))) => {
                let and = def.kind == Kind::BoolAnd;
                *mine = Some(mine.map_or(*b, |t| if and { t && *b } else { t || *b }));
            }
            (Fold::Bits(mine), Fold::Bits(Some(n))) => {
                *mine = Some(mine.map_or(*n, |b| combine_bits(def.kind, b, *n)));
            }
            (Fold::Joined { bytes, rows, .. }, Fold::Joined { bytes: b, rows: r, .. }) => {
                bytes.extend_from_slice(b);
                *rows += r;
            }
            (mine @ (Fold::Array(None) | Fold::Json(None)), theirs) => *mine = theirs.clone(),
            (Fold::Json(Some(mine)), Fold::Json(Some(theirs))) => mine.merge(theirs),
            (Fold::Array(Some(mine)), Fold::Array(Some(theirs))) => mine.merge(theirs)?,
            (Fold::Own(own, mine), Fold::Own(_, theirs)) if !theirs.is_null() => {
                (own.merge)(mine, theirs.as_ref(&mut Vec::new()))?
            }
            // What is left are empty states on the other side: equal aggregates have equal folds.
            _ => {}
        }
        Ok(())
    }
}

fn combine_bits(kind: Kind, a: i64, b: i64) -> i64 {
    match kind {
        Kind::BitAnd => a & b,
        Kind::BitOr => a | b,
        _ => a ^ b,
    }
}

/// Whether a value that compares so to the kept one takes its place. One that is equal does, as in
/// PostgreSQL: that decides between 1.0 and 1.00.
fn replaces(kind: Kind, order: Ordering) -> bool {
    match kind {
        Kind::Min => order.is_le(),
        _ => order.is_ge(),
    }
}

/// The order of two values of the aggregate's type that are kept as bytes.
fn order_of_bytes(def: &AggDef, a: &[u8], b: &[u8]) -> Ordering {
    match def.ret {
        TypeId::NUMERIC => Numeric::cmp_encoded(a, b),
        TypeId::BPCHAR => cast::bare(a).cmp(cast::bare(b)),
        _ => a.cmp(b),
    }
}

/// Offers one value to min or max.
fn keep(kept: &mut Option<Kept>, v: &ValueRef<'_>, def: &AggDef) -> SqlResult<()> {
    let (kind, numeric) = (def.kind, def.ret == TypeId::NUMERIC);
    let int = match *v {
        ValueRef::Date(d) => Some(d.into()),
        ValueRef::Timestamp(t) | ValueRef::Timestamptz(t) => Some(t),
        _ => integer(v),
    };
    let mut buffer = [0; LONGEST_PACKED];
    let bytes = match *v {
        ValueRef::Text(s) => Some(s.as_bytes()),
        ValueRef::Numeric(n) if numeric => Some(n),
        ValueRef::Packed(p) if numeric => Some(p.encoded(&mut buffer)),
        _ => None,
    };
    match (kept, int, bytes, v) {
        (Some(Kept::Int(old)), Some(n), ..) => {
            if replaces(kind, n.cmp(old)) {
                *old = n;
            }
        }
        (Some(Kept::Bytes(old)), _, Some(b), _) => {
            if replaces(kind, order_of_bytes(def, b, old)) {
                old.clear();
                old.extend_from_slice(b);
            }
        }
        (Some(Kept::Float(old)), _, _, ValueRef::Float8(f)) => {
            if replaces(kind, float8_cmp(*f, *old)) {
                *old = *f;
            }
        }
        (Some(Kept::Opaque(ty, old)), _, _, ValueRef::Opaque(t, b)) => {
            if replaces(kind, compare(*v, ValueRef::Opaque(*ty, old))) {
                *ty = *t;
                old.clear();
                old.extend_from_slice(b);
            }
        }
        (kept @ None, _, _, ValueRef::Opaque(ty, b)) => *kept = Some(Kept::Opaque(*ty, b.to_vec())),
        (kept @ None, Some(n), ..) => *kept = Some(Kept::Int(n)),
        (kept @ None, _, Some(b), _) => *kept = Some(Kept::Bytes(b.to_vec())),
        (kept @ None, _, _, ValueRef::Float8(f)) => *kept = Some(Kept::Float(*f)),
        (_, _, _, other) => return Err(wrong_argument(def, other)),
    }
    Ok(())
}

fn merge_kept(mine: &mut Option<Kept>, theirs: &Kept, def: &AggDef) {
    let order = match (mine.as_ref(), theirs) {
        (Some(Kept::Int(a)), Kept::Int(b)) => b.cmp(a),
        (Some(Kept::Float(a)), Kept::Float(b)) => float8_cmp(*b, *a),
        (Some(Kept::Bytes(a)), Kept::Bytes(b)) => order_of_bytes(def, b, a),
        (Some(Kept::Opaque(s, a)), Kept::Opaque(t, b)) => {
            compare(ValueRef::Opaque(*t, b), ValueRef::Opaque(*s, a))
        }
        _ => Ordering::Equal,
    };
    if replaces(def.kind, order) {
        *mine = Some(theirs.clone());
    }
}
