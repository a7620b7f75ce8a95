//! Series of numbers by their places: how many there are, and which one stands at a place (from 1).

use super::Call;
use crate::{SqlError, SqlResult, Value, sqlstate};

/// How many numbers a series has; none if it leads away from its end.
fn count(start: i64, stop: i64, step: i64) -> SqlResult<i64> {
    let (start, stop, step) = (i128::from(start), i128::from(stop), i128::from(step));
    if step == 0 {
        return Err(SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, "step size cannot equal zero"));
    }
    let steps = if (stop - start).signum() == -step.signum() { -1 } else { (stop - start) / step };
    Ok(i64::try_from(steps + 1).unwrap_or(i64::MAX))
}

/// The one at a place; `None` if there is none.
fn item(start: i64, stop: i64, step: i64, place: i64) -> SqlResult<Option<i64>> {
    if place < 1 || place > count(start, stop, step)? {
        return Ok(None);
    }
    Ok(i64::try_from(i128::from(start) + i128::from(step) * i128::from(place - 1)).ok())
}

fn int4s(c: &Call<'_>) -> SqlResult<[i64; 3]> {
    Ok([c.int4(0)?.into(), c.int4(1)?.into(), c.int4(2)?.into()])
}

fn int8s(c: &Call<'_>) -> SqlResult<[i64; 3]> {
    Ok([c.int8(0)?, c.int8(1)?, c.int8(2)?])
}

functions! {
    1073 SERIES_COUNT4 "$series_count" (Int4, Int4, Int4) -> Int8 = |c| {
        let [start, stop, step] = int4s(c)?;
        count(start, stop, step).map(Value::Int8)
    };
    1074 SERIES_COUNT8 "$series_count" (Int8, Int8, Int8) -> Int8 = |c| {
        let [start, stop, step] = int8s(c)?;
        count(start, stop, step).map(Value::Int8)
    };
    1075 SERIES_ITEM4 "$series_item" (Int4, Int4, Int4, Int8) -> Int4 = |c| {
        let [start, stop, step] = int4s(c)?;
        Ok(item(start, stop, step, c.int8(3)?)?.map_or(Value::Null, |n| Value::Int4(n as i32)))
    };
    1076 SERIES_ITEM8 "$series_item" (Int8, Int8, Int8, Int8) -> Int8 = |c| {
        let [start, stop, step] = int8s(c)?;
        Ok(item(start, stop, step, c.int8(3)?)?.map_or(Value::Null, Value::Int8))
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_have_as_many_numbers_as_they_say() {
        for (start, stop, step, all) in [
            (1, 3, 1, &[1, 2, 3][..]),
            (1, 4, 2, &[1, 3]),
            (3, 1, -1, &[3, 2, 1]),
            (3, 1, 1, &[]),
            (1, 3, -1, &[]),
            (5, 5, -7, &[5]),
            (i64::MAX - 1, i64::MAX, 1, &[i64::MAX - 1, i64::MAX]),
            (i64::MIN, i64::MAX, i64::MAX, &[i64::MIN, -1, i64::MAX - 1]),
        ] {
            assert_eq!(count(start, stop, step), Ok(all.len() as i64), "{start} {stop} {step}");
            for (n, wanted) in all.iter().enumerate() {
                assert_eq!(item(start, stop, step, n as i64 + 1), Ok(Some(*wanted)));
            }
            assert_eq!(item(start, stop, step, all.len() as i64 + 1), Ok(None));
        }
        assert_eq!(count(i64::MIN, i64::MAX, 1), Ok(i64::MAX));
        assert_eq!(count(1, 2, 0).unwrap_err().sqlstate(), "22023");
    }
}
