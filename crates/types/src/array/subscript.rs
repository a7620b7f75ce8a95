//! Items and slices of arrays by their subscripts: reading them, and arrays with one of them set.

use super::{Array, Builder, Dimension, MAX_DIMENSIONS, count_items, empty};
use crate::func::{Call, internal, state};
use crate::{SqlError, SqlResult, Value, ValueRef, sqlstate};

/// The most subscripts that an expression may have.
pub const MAX_SUBSCRIPTS: usize = MAX_DIMENSIONS;

/// The place from 0 of the item that the subscripts name; `None` if there is none.
fn place(dimensions: &[Dimension], subscripts: &[i32]) -> Option<usize> {
    if dimensions.len() != subscripts.len() || dimensions.is_empty() {
        return None;
    }
    let mut place = 0;
    for (d, s) in dimensions.iter().zip(subscripts) {
        let at = s.checked_sub(d.lower).filter(|at| (0..d.length).contains(at))?;
        place = place * d.length as usize + at as usize;
    }
    Some(place)
}

fn subscripts(c: &Call<'_>, from: usize) -> SqlResult<Vec<i32>> {
    (from..c.args.len()).map(|i| c.int4(i)).collect()
}

/// `array[i][j]`: NULL where no item is.
pub(super) fn element(c: &Call<'_>) -> SqlResult<Value> {
    let array = c.array(0)?;
    // Of the usual arrays nothing needs to be gathered.
    if let (Ok(d), [ValueRef::Int4(s)]) = (array.only_dimension(), &c.args[1..]) {
        let at = i64::from(*s) - i64::from(d.lower);
        return Ok(usize::try_from(at).map_or(Value::Null, |at| array.stored(at).to_owned()));
    }
    let dimensions: Vec<Dimension> = array.dimensions().collect();
    Ok(match place(&dimensions, &subscripts(c, 1)?) {
        Some(i) => array.stored(i).to_owned(),
        None => Value::Null,
    })
}

impl Array<'_> {
    /// The dimension of an array that has one; of any other, how many it has.
    pub(super) fn only_dimension(&self) -> Result<Dimension, usize> {
        let mut all = self.dimensions();
        match (all.next(), all.len()) {
            (Some(d), 0) => Ok(d),
            (None, _) => Err(0),
            (Some(_), more) => Err(more + 1),
        }
    }
}

/// `array[i:j][k:l]`: the part within the bounds, with subscripts from 1. The argument behind the array has a
/// bit for each bound that is given, in the order in which they follow; the others are those of the array.
pub(super) fn slice(c: &Call<'_>) -> SqlResult<Value> {
    let array = c.array(0)?;
    let (given, bounds) = (c.int4(1)?, subscripts(c, 2)?);
    let (wanted, _) = bounds.as_chunks::<2>();
    let bound = |n: usize, other: i32| if given >> n & 1 != 0 { bounds[n] } else { other };
    part(&array, wanted.len(), |i, d| (bound(2 * i, d.lower), bound(2 * i + 1, d.upper())))
}

/// The part of an array within bounds for its first dimensions.
pub(super) fn part(
    array: &Array<'_>,
    bounded: usize,
    bounds: impl Fn(usize, Dimension) -> (i32, i32),
) -> SqlResult<Value> {
    let dimensions: Vec<Dimension> = array.dimensions().collect();
    let ty = array.element.array().ok_or_else(|| internal("an array of no type"))?;
    if dimensions.len() < bounded {
        return Ok(empty(ty));
    }
    // For each dimension the first place that is taken, and how many are.
    let mut taken = Vec::with_capacity(dimensions.len());
    for (i, d) in dimensions.iter().enumerate() {
        let (from, to) = if i < bounded { bounds(i, *d) } else { (d.lower, d.upper()) };
        let (from, to) = (from.max(d.lower), to.min(d.upper()));
        if from > to {
            return Ok(empty(ty));
        }
        taken.push(((from - d.lower) as usize, (to - from + 1) as usize));
    }
    let mut out = Builder::new(array.element);
    let mut at = vec![0; taken.len()];
    let count = taken.iter().map(|t| t.1).product::<usize>();
    for _ in 0..count {
        let place = dimensions
            .iter()
            .zip(&taken)
            .zip(&at)
            .fold(0, |place, ((d, (first, _)), at)| place * d.length as usize + first + at);
        out.push(array.stored(place))?;
        // The next place, the last dimension counting fastest.
        for (at, (_, length)) in at.iter_mut().zip(&taken).rev() {
            *at += 1;
            if *at < *length {
                break;
            }
            *at = 0;
        }
    }
    out.finish(&taken.iter().map(|t| Dimension::of_length(t.1)).collect::<Vec<_>>())
}

fn error(message: &str) -> SqlError {
    SqlError::new(state::ARRAY_SUBSCRIPT_ERROR, message)
}

/// The subscripts of an assignment.
fn assigned(c: &Call<'_>, from: usize) -> SqlResult<Vec<i32>> {
    if (from..c.args.len()).any(|i| c.is_null(i)) {
        let message = "array subscript in assignment must not be null";
        return Err(SqlError::new(sqlstate::NULL_VALUE_NOT_ALLOWED, message));
    }
    subscripts(c, from)
}

/// The array with a slice set: of (an empty array of the type, the array or NULL, an array of items, the
/// bounds as for [`slice`]). The items are taken in their order, whatever shape they have. An array of one
/// dimension grows.
pub(super) fn assign_slice(c: &Call<'_>) -> SqlResult<Value> {
    let array = c.array(usize::from(!c.is_null(1)))?;
    let (given, bounds) = (c.int4(3)?, assigned(c, 4)?);
    let (pairs, _) = bounds.as_chunks::<2>();
    if c.is_null(2) {
        return Ok(c.args[usize::from(!c.is_null(1))].to_owned());
    }
    let source = c.array(2)?;
    let before: Vec<Dimension> = array.dimensions().collect();
    let mut dimensions = before.clone();
    if before.is_empty() {
        if given != (1 << bounds.len()) - 1 {
            return Err(error("array slice subscript must provide both boundaries").detail(
                "When assigning to a slice of an empty array value, slice boundaries must be fully specified.",
            ));
        }
        for [from, to] in pairs {
            let length =
                to.checked_sub(*from).and_then(|n| n.checked_add(1)).ok_or_else(super::too_many_items)?;
            dimensions.push(Dimension { length, lower: *from });
        }
    } else if before.len() < pairs.len() {
        return Err(error("wrong number of array subscripts"));
    }
    // The first and last subscript that is set, of each dimension.
    let mut set = Vec::with_capacity(dimensions.len());
    for (i, d) in dimensions.iter_mut().enumerate() {
        let bound = |n: usize, other: i32| if given >> n & 1 != 0 { bounds[n] } else { other };
        let (from, to) = if i < pairs.len() {
            (bound(2 * i, d.lower), bound(2 * i + 1, d.upper()))
        } else {
            (d.lower, d.upper())
        };
        set.push((from, to));
        if before.is_empty() {
            continue;
        }
        if from > to {
            return Err(error("upper bound cannot be less than lower bound"));
        }
        if before.len() == 1 {
            let (lower, upper) = (d.lower.min(from), d.upper().max(to));
            let length = i64::from(upper) - i64::from(lower) + 1;
            *d = Dimension { length: i32::try_from(length).map_err(|_| super::too_many_items())?, lower };
        } else if from < d.lower || to > d.upper() {
            return Err(error("array subscript out of range"));
        }
    }
    let count = count_items(&dimensions)?;
    let wanted =
        set.iter().map(|(from, to)| (i64::from(*to) - i64::from(*from) + 1) as usize).product::<usize>();
    if wanted > source.len() {
        return Err(error("source array too small"));
    }
    let mut out = Builder::new(array.element);
    let mut taken = 0;
    let mut at: Vec<i32> = dimensions.iter().map(|d| d.lower).collect();
    for _ in 0..count {
        if at.iter().zip(&set).all(|(s, (from, to))| (from..=to).contains(&s)) {
            out.push(source.stored(taken))?;
            taken += 1;
        } else {
            out.push(place(&before, &at).map_or(ValueRef::Null, |i| array.stored(i)))?;
        }
        for (s, d) in at.iter_mut().zip(&dimensions).rev() {
            if *s < d.upper() {
                *s += 1;
                break;
            }
            *s = d.lower;
        }
    }
    out.finish(&dimensions)
}

/// The array with one item set: of (an empty array of the type, the array or NULL, the item, subscripts). An
/// array of one dimension grows to hold it; an empty one gets as many dimensions as there are subscripts.
pub(super) fn assign(c: &Call<'_>) -> SqlResult<Value> {
    let array = c.array(usize::from(!c.is_null(1)))?;
    let (item, subscripts) = (c.args[2], assigned(c, 3)?);
    let mut dimensions: Vec<Dimension> = array.dimensions().collect();
    let mut out = Builder::new(array.element);
    if dimensions.is_empty() {
        dimensions.extend(subscripts.iter().map(|s| Dimension { length: 1, lower: *s }));
        count_items(&dimensions)?;
        out.push(item)?;
        return out.finish(&dimensions);
    }
    if dimensions.len() != subscripts.len() {
        return Err(error("wrong number of array subscripts"));
    }
    if let ([d], [s]) = (&mut dimensions[..], &subscripts[..]) {
        return grown(array, d, *s, item);
    }
    let Some(set) = place(&dimensions, &subscripts) else {
        return Err(error("array subscript out of range"));
    };
    for i in 0..array.len() {
        out.push(if i == set { item } else { array.stored(i) })?;
    }
    out.finish(&dimensions)
}

/// An array of one dimension with an item set, NULLs between it and the others.
pub(super) fn grown(
    array: Array<'_>,
    d: &mut Dimension,
    subscript: i32,
    item: ValueRef<'_>,
) -> SqlResult<Value> {
    let before = (i64::from(d.lower) - i64::from(subscript)).max(0);
    let after = (i64::from(subscript) - i64::from(d.upper())).max(0);
    let length = i64::from(d.length) + before + after;
    let lower = d.lower.min(subscript);
    *d = Dimension { length: i32::try_from(length).map_err(|_| super::too_many_items())?, lower };
    count_items(&[*d])?;
    let mut out = Builder::new(array.element);
    let set = usize::try_from(i64::from(subscript) - i64::from(lower)).unwrap_or(0);
    for i in 0..d.length as usize {
        let old = i.checked_sub(before as usize).map_or(ValueRef::Null, |i| array.stored(i));
        out.push(if i == set { item } else { old })?;
    }
    out.finish(&[*d])
}

/// The item at a place from 1, in the order in which items stand; NULL beyond the last.
pub(super) fn item(c: &Call<'_>) -> SqlResult<Value> {
    let place = usize::try_from(c.int8(1)? - 1);
    Ok(place.map_or(Value::Null, |i| c.array_or_none(0).map_or(Value::Null, |a| a.stored(i).to_owned())))
}

impl<'a> Call<'a> {
    /// An array.
    #[inline]
    pub(crate) fn array(&self, i: usize) -> SqlResult<Array<'a>> {
        match self.args.get(i) {
            Some(ValueRef::Opaque(ty, b)) if ty.is_array() => Ok(Array::of_type(*ty, b)),
            other => Err(internal(format!("argument {} should be an array, found {other:?}", i + 1))),
        }
    }

    /// An array, or `None` for NULL.
    pub(super) fn array_or_none(&self, i: usize) -> Option<Array<'a>> {
        self.array(i).ok()
    }
}
