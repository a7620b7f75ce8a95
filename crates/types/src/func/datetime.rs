//! Dates and times: the catalogue's entries; the calendar itself is [`crate::datetime`]'s.

use super::Call;
use crate::datetime::{self as dt, zone::Zone};
use crate::{Numeric, SqlResult, Value};

fn date(d: i32) -> SqlResult<Value> {
    Ok(Value::Date(d))
}

fn timestamp(t: i64) -> SqlResult<Value> {
    Ok(Value::Timestamp(t))
}

fn timestamptz(t: i64) -> SqlResult<Value> {
    Ok(Value::Timestamptz(t))
}

/// EXTRACT of a field that an infinite value does not have is NULL.
fn extracted(n: Option<Numeric>) -> SqlResult<Value> {
    Ok(n.map_or(Value::Null, Value::Numeric))
}

fn part(f: Option<f64>) -> SqlResult<Value> {
    Ok(f.map_or(Value::Null, Value::Float8))
}

fn finite_date(d: i32) -> SqlResult<Value> {
    Ok(Value::Bool(d != dt::DATE_INFINITY && d != dt::DATE_NEG_INFINITY))
}

fn finite_timestamp(t: i64) -> SqlResult<Value> {
    Ok(Value::Bool(t != dt::TIMESTAMP_INFINITY && t != dt::TIMESTAMP_NEG_INFINITY))
}

/// The session's.
fn zone(c: &Call<'_>) -> Zone {
    c.ctx.styles.zone
}

/// What its clocks show.
fn local_now(c: &Call<'_>) -> i64 {
    zone(c).local(c.ctx.now_us)
}

functions! {
    660 DATE_PLUS_INT4 "date_pli" (Date, Int4) -> Date = |c| date(dt::date_plus(c.date(0)?, c.int4(1)?)?);
    661 INT4_PLUS_DATE "integer_pl_date" (Int4, Date) -> Date = |c| date(dt::date_plus(c.date(1)?, c.int4(0)?)?);
    662 DATE_MINUS_INT4 "date_mii" (Date, Int4) -> Date = |c| date(dt::date_minus(c.date(0)?, c.int4(1)?)?);
    663 DATE_MINUS_DATE "date_mi" (Date, Date) -> Int4 =
        |c| Ok(Value::Int4(dt::date_difference(c.date(0)?, c.date(1)?)?));
    664 NOW "now" () -> Timestamptz = |c| timestamptz(c.ctx.now_us), stable;
    665 TRANSACTION_TIMESTAMP "transaction_timestamp" () -> Timestamptz = |c| timestamptz(c.ctx.now_us), stable;
    666 STATEMENT_TIMESTAMP "statement_timestamp" () -> Timestamptz =
        |c| timestamptz(c.ctx.statement_us), stable;
    667 CLOCK_TIMESTAMP "clock_timestamp" () -> Timestamptz = |c| timestamptz((c.ctx.clock)()), volatile;
    668 CURRENT_DATE "$current_date" () -> Date = |c| date(dt::timestamp_to_date(local_now(c))?), stable;
    669 LOCALTIMESTAMP "$localtimestamp" () -> Timestamp = |c| timestamp(local_now(c)), stable;
    670 DATE_TRUNC "date_trunc" (Text, Timestamp) -> Timestamp =
        |c| timestamp(dt::date_trunc_timestamp(c.text(0)?, c.timestamp(1)?)?);
    671 DATE_TRUNC_TZ "date_trunc" (Text, Timestamptz) -> Timestamptz =
        |c| timestamptz(dt::date_trunc_timestamptz(c.text(0)?, c.timestamptz(1)?, zone(c).into())?), stable;
    672 DATE_PART "date_part" (Text, Timestamp) -> Float8 =
        |c| part(dt::date_part_timestamp(c.text(0)?, c.timestamp(1)?)?);
    673 DATE_PART_TZ "date_part" (Text, Timestamptz) -> Float8 =
        |c| part(dt::date_part_timestamptz(c.text(0)?, c.timestamptz(1)?, zone(c))?), stable;
    674 DATE_PART_DATE "date_part" (Text, Date) -> Float8 =
        |c| part(dt::date_part_timestamp(c.text(0)?, dt::date_to_timestamp(c.date(1)?)?)?);
    675 EXTRACT_DATE "extract" (Text, Date) -> Numeric =
        |c| extracted(dt::extract_date(c.text(0)?, c.date(1)?)?);
    676 EXTRACT_TIMESTAMP "extract" (Text, Timestamp) -> Numeric =
        |c| extracted(dt::extract_timestamp(c.text(0)?, c.timestamp(1)?)?);
    677 EXTRACT_TIMESTAMPTZ "extract" (Text, Timestamptz) -> Numeric =
        |c| extracted(dt::extract_timestamptz(c.text(0)?, c.timestamptz(1)?, zone(c))?), stable;
    678 MAKE_DATE "make_date" (Int4, Int4, Int4) -> Date =
        |c| date(dt::make_date(c.int4(0)?, c.int4(1)?, c.int4(2)?)?);
    679 MAKE_TIMESTAMP "make_timestamp" (Int4, Int4, Int4, Int4, Int4, Float8) -> Timestamp = |c| {
        timestamp(dt::make_timestamp(
            c.int4(0)?, c.int4(1)?, c.int4(2)?, c.int4(3)?, c.int4(4)?, c.float8(5)?,
        )?)
    };
    680 MAKE_TIMESTAMPTZ "make_timestamptz" (Int4, Int4, Int4, Int4, Int4, Float8) -> Timestamptz = |c| {
        timestamptz(zone(c).moment(dt::make_timestamp(
            c.int4(0)?, c.int4(1)?, c.int4(2)?, c.int4(3)?, c.int4(4)?, c.float8(5)?,
        )?)?)
    }, stable;
    681 TO_TIMESTAMP "to_timestamp" (Float8) -> Timestamptz = |c| timestamptz(dt::to_timestamp(c.float8(0)?)?);
    682 ISFINITE_DATE "isfinite" (Date) -> Bool = |c| finite_date(c.date(0)?);
    683 ISFINITE_TIMESTAMP "isfinite" (Timestamp) -> Bool = |c| finite_timestamp(c.timestamp(0)?);
    684 ISFINITE_TIMESTAMPTZ "isfinite" (Timestamptz) -> Bool = |c| finite_timestamp(c.timestamptz(0)?);
}
