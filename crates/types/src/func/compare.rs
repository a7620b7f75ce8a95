//! The comparison operators' functions, all six for each pair of types that PostgreSQL compares without a
//! cast.
//!
//! Text is compared by its bytes, which in UTF-8 is the order of code points (the collation C.UTF-8); char(n)
//! without its trailing spaces. NaN equals itself and is greater than every other number. A date against a
//! timestamp counts as its midnight; the sum cannot overflow here, so that a date beyond the last timestamp
//! is greater than all of them but infinity. Either against a timestamptz is what the session's clocks show.
//!
//! These have no state and cannot fail on well-typed arguments; hot loops compare in place instead of
//! calling.

use super::Call;
use crate::datetime::timestamp_is_finite;
use crate::edge::{instant, midnight};
use crate::{SqlResult, Value};
use std::cmp::Ordering;

macro_rules! by {
    ($order:ident, $test:ident) => {
        |c| Ok(Value::Bool($order(c)?.$test()))
    };
}

macro_rules! int_orders {
    ($($fun:ident $left:ident $right:ident $common:ty;)*) => {
        $(#[inline]
        fn $fun(c: &Call<'_>) -> SqlResult<Ordering> {
            Ok(<$common>::from(c.$left(0)?).cmp(&<$common>::from(c.$right(1)?)))
        })*
    };
}
int_orders! {
    int2_order int2 int2 i16;
    int24_order int2 int4 i32;
    int28_order int2 int8 i64;
    int42_order int4 int2 i32;
    int4_order int4 int4 i32;
    int48_order int4 int8 i64;
    int82_order int8 int2 i64;
    int84_order int8 int4 i64;
    int8_order int8 int8 i64;
    bool_order bool bool bool;
    date_order date date i32;
    timestamp_order timestamp timestamp i64;
    timestamptz_order timestamptz timestamptz i64;
}

/// PostgreSQL's total order of doubles: -0 equals 0, NaN equals NaN and is greater than all else.
#[inline]
pub fn float8_cmp(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

fn float8_order(c: &Call<'_>) -> SqlResult<Ordering> {
    Ok(float8_cmp(c.float8(0)?, c.float8(1)?))
}

fn numeric_order(c: &Call<'_>) -> SqlResult<Ordering> {
    Ok(crate::value::compare(c.stored_numeric(0)?, c.stored_numeric(1)?))
}

fn text_order(c: &Call<'_>) -> SqlResult<Ordering> {
    Ok(c.text(0)?.as_bytes().cmp(c.text(1)?.as_bytes()))
}

fn bpchar_order(c: &Call<'_>) -> SqlResult<Ordering> {
    Ok(c.bpchar(0)?.as_bytes().cmp(c.bpchar(1)?.as_bytes()))
}

fn bytea_order(c: &Call<'_>) -> SqlResult<Ordering> {
    Ok(c.bytea(0)?.cmp(c.bytea(1)?))
}

macro_rules! date_orders {
    ($($fun:ident $left:ident $ls:ident $right:ident $rs:ident;)*) => {
        $(fn $fun(c: &Call<'_>) -> SqlResult<Ordering> {
            Ok($ls(c.$left(0)?).cmp(&$rs(c.$right(1)?)))
        })*
    };
}
date_orders! {
    date_timestamp_order date midnight timestamp instant;
    timestamp_date_order timestamp instant date midnight;
}

/// What a clock of the session's zone shows, against a moment: on a scale where neither overflows.
fn shown_order(c: &Call<'_>, local: i128, moment: i64) -> Ordering {
    let is_shown = i64::try_from(local).is_ok_and(timestamp_is_finite);
    let east = if is_shown { c.ctx.styles.zone.of_local(local as i64).east } else { 0 };
    (local - i128::from(east) * 1_000_000).cmp(&instant(moment))
}

fn date_timestamptz_order(c: &Call<'_>) -> SqlResult<Ordering> {
    Ok(shown_order(c, midnight(c.date(0)?), c.timestamptz(1)?))
}

fn timestamptz_date_order(c: &Call<'_>) -> SqlResult<Ordering> {
    Ok(shown_order(c, midnight(c.date(1)?), c.timestamptz(0)?).reverse())
}

fn timestamp_timestamptz_order(c: &Call<'_>) -> SqlResult<Ordering> {
    Ok(shown_order(c, instant(c.timestamp(0)?), c.timestamptz(1)?))
}

fn timestamptz_timestamp_order(c: &Call<'_>) -> SqlResult<Ordering> {
    Ok(shown_order(c, instant(c.timestamp(1)?), c.timestamptz(0)?).reverse())
}

functions! {
    1 INT2_EQ "int2eq" (Int2, Int2) -> Bool = by!(int2_order, is_eq);
    2 INT2_NE "int2ne" (Int2, Int2) -> Bool = by!(int2_order, is_ne);
    3 INT2_LT "int2lt" (Int2, Int2) -> Bool = by!(int2_order, is_lt);
    4 INT2_LE "int2le" (Int2, Int2) -> Bool = by!(int2_order, is_le);
    5 INT2_GT "int2gt" (Int2, Int2) -> Bool = by!(int2_order, is_gt);
    6 INT2_GE "int2ge" (Int2, Int2) -> Bool = by!(int2_order, is_ge);
    7 INT24_EQ "int24eq" (Int2, Int4) -> Bool = by!(int24_order, is_eq);
    8 INT24_NE "int24ne" (Int2, Int4) -> Bool = by!(int24_order, is_ne);
    9 INT24_LT "int24lt" (Int2, Int4) -> Bool = by!(int24_order, is_lt);
    10 INT24_LE "int24le" (Int2, Int4) -> Bool = by!(int24_order, is_le);
    11 INT24_GT "int24gt" (Int2, Int4) -> Bool = by!(int24_order, is_gt);
    12 INT24_GE "int24ge" (Int2, Int4) -> Bool = by!(int24_order, is_ge);
    13 INT28_EQ "int28eq" (Int2, Int8) -> Bool = by!(int28_order, is_eq);
    14 INT28_NE "int28ne" (Int2, Int8) -> Bool = by!(int28_order, is_ne);
    15 INT28_LT "int28lt" (Int2, Int8) -> Bool = by!(int28_order, is_lt);
    16 INT28_LE "int28le" (Int2, Int8) -> Bool = by!(int28_order, is_le);
    17 INT28_GT "int28gt" (Int2, Int8) -> Bool = by!(int28_order, is_gt);
    18 INT28_GE "int28ge" (Int2, Int8) -> Bool = by!(int28_order, is_ge);
    19 INT42_EQ "int42eq" (Int4, Int2) -> Bool = by!(int42_order, is_eq);
    20 INT42_NE "int42ne" (Int4, Int2) -> Bool = by!(int42_order, is_ne);
    21 INT42_LT "int42lt" (Int4, Int2) -> Bool = by!(int42_order, is_lt);
    22 INT42_LE "int42le" (Int4, Int2) -> Bool = by!(int42_order, is_le);
    23 INT42_GT "int42gt" (Int4, Int2) -> Bool = by!(int42_order, is_gt);
    24 INT42_GE "int42ge" (Int4, Int2) -> Bool = by!(int42_order, is_ge);
    25 INT4_EQ "int4eq" (Int4, Int4) -> Bool = by!(int4_order, is_eq);
    26 INT4_NE "int4ne" (Int4, Int4) -> Bool = by!(int4_order, is_ne);
    27 INT4_LT "int4lt" (Int4, Int4) -> Bool = by!(int4_order, is_lt);
    28 INT4_LE "int4le" (Int4, Int4) -> Bool = by!(int4_order, is_le);
    29 INT4_GT "int4gt" (Int4, Int4) -> Bool = by!(int4_order, is_gt);
    30 INT4_GE "int4ge" (Int4, Int4) -> Bool = by!(int4_order, is_ge);
    31 INT48_EQ "int48eq" (Int4, Int8) -> Bool = by!(int48_order, is_eq);
    32 INT48_NE "int48ne" (Int4, Int8) -> Bool = by!(int48_order, is_ne);
    33 INT48_LT "int48lt" (Int4, Int8) -> Bool = by!(int48_order, is_lt);
    34 INT48_LE "int48le" (Int4, Int8) -> Bool = by!(int48_order, is_le);
    35 INT48_GT "int48gt" (Int4, Int8) -> Bool = by!(int48_order, is_gt);
    36 INT48_GE "int48ge" (Int4, Int8) -> Bool = by!(int48_order, is_ge);
    37 INT82_EQ "int82eq" (Int8, Int2) -> Bool = by!(int82_order, is_eq);
    38 INT82_NE "int82ne" (Int8, Int2) -> Bool = by!(int82_order, is_ne);
    39 INT82_LT "int82lt" (Int8, Int2) -> Bool = by!(int82_order, is_lt);
    40 INT82_LE "int82le" (Int8, Int2) -> Bool = by!(int82_order, is_le);
    41 INT82_GT "int82gt" (Int8, Int2) -> Bool = by!(int82_order, is_gt);
    42 INT82_GE "int82ge" (Int8, Int2) -> Bool = by!(int82_order, is_ge);
    43 INT84_EQ "int84eq" (Int8, Int4) -> Bool = by!(int84_order, is_eq);
    44 INT84_NE "int84ne" (Int8, Int4) -> Bool = by!(int84_order, is_ne);
    45 INT84_LT "int84lt" (Int8, Int4) -> Bool = by!(int84_order, is_lt);
    46 INT84_LE "int84le" (Int8, Int4) -> Bool = by!(int84_order, is_le);
    47 INT84_GT "int84gt" (Int8, Int4) -> Bool = by!(int84_order, is_gt);
    48 INT84_GE "int84ge" (Int8, Int4) -> Bool = by!(int84_order, is_ge);
    49 INT8_EQ "int8eq" (Int8, Int8) -> Bool = by!(int8_order, is_eq);
    50 INT8_NE "int8ne" (Int8, Int8) -> Bool = by!(int8_order, is_ne);
    51 INT8_LT "int8lt" (Int8, Int8) -> Bool = by!(int8_order, is_lt);
    52 INT8_LE "int8le" (Int8, Int8) -> Bool = by!(int8_order, is_le);
    53 INT8_GT "int8gt" (Int8, Int8) -> Bool = by!(int8_order, is_gt);
    54 INT8_GE "int8ge" (Int8, Int8) -> Bool = by!(int8_order, is_ge);
    55 BOOL_EQ "booleq" (Bool, Bool) -> Bool = by!(bool_order, is_eq);
    56 BOOL_NE "boolne" (Bool, Bool) -> Bool = by!(bool_order, is_ne);
    57 BOOL_LT "boollt" (Bool, Bool) -> Bool = by!(bool_order, is_lt);
    58 BOOL_LE "boolle" (Bool, Bool) -> Bool = by!(bool_order, is_le);
    59 BOOL_GT "boolgt" (Bool, Bool) -> Bool = by!(bool_order, is_gt);
    60 BOOL_GE "boolge" (Bool, Bool) -> Bool = by!(bool_order, is_ge);
    61 FLOAT8_EQ "float8eq" (Float8, Float8) -> Bool = by!(float8_order, is_eq);
    62 FLOAT8_NE "float8ne" (Float8, Float8) -> Bool = by!(float8_order, is_ne);
    63 FLOAT8_LT "float8lt" (Float8, Float8) -> Bool = by!(float8_order, is_lt);
    64 FLOAT8_LE "float8le" (Float8, Float8) -> Bool = by!(float8_order, is_le);
    65 FLOAT8_GT "float8gt" (Float8, Float8) -> Bool = by!(float8_order, is_gt);
    66 FLOAT8_GE "float8ge" (Float8, Float8) -> Bool = by!(float8_order, is_ge);
    67 NUMERIC_EQ "numeric_eq" (Numeric, Numeric) -> Bool = by!(numeric_order, is_eq);
    68 NUMERIC_NE "numeric_ne" (Numeric, Numeric) -> Bool = by!(numeric_order, is_ne);
    69 NUMERIC_LT "numeric_lt" (Numeric, Numeric) -> Bool = by!(numeric_order, is_lt);
    70 NUMERIC_LE "numeric_le" (Numeric, Numeric) -> Bool = by!(numeric_order, is_le);
    71 NUMERIC_GT "numeric_gt" (Numeric, Numeric) -> Bool = by!(numeric_order, is_gt);
    72 NUMERIC_GE "numeric_ge" (Numeric, Numeric) -> Bool = by!(numeric_order, is_ge);
    73 TEXT_EQ "texteq" (Text, Text) -> Bool = by!(text_order, is_eq);
    74 TEXT_NE "textne" (Text, Text) -> Bool = by!(text_order, is_ne);
    75 TEXT_LT "text_lt" (Text, Text) -> Bool = by!(text_order, is_lt);
    76 TEXT_LE "text_le" (Text, Text) -> Bool = by!(text_order, is_le);
    77 TEXT_GT "text_gt" (Text, Text) -> Bool = by!(text_order, is_gt);
    78 TEXT_GE "text_ge" (Text, Text) -> Bool = by!(text_order, is_ge);
    79 BPCHAR_EQ "bpchareq" (Bpchar, Bpchar) -> Bool = by!(bpchar_order, is_eq);
    80 BPCHAR_NE "bpcharne" (Bpchar, Bpchar) -> Bool = by!(bpchar_order, is_ne);
    81 BPCHAR_LT "bpcharlt" (Bpchar, Bpchar) -> Bool = by!(bpchar_order, is_lt);
    82 BPCHAR_LE "bpcharle" (Bpchar, Bpchar) -> Bool = by!(bpchar_order, is_le);
    83 BPCHAR_GT "bpchargt" (Bpchar, Bpchar) -> Bool = by!(bpchar_order, is_gt);
    84 BPCHAR_GE "bpcharge" (Bpchar, Bpchar) -> Bool = by!(bpchar_order, is_ge);
    85 BYTEA_EQ "byteaeq" (Bytea, Bytea) -> Bool = by!(bytea_order, is_eq);
    86 BYTEA_NE "byteane" (Bytea, Bytea) -> Bool = by!(bytea_order, is_ne);
    87 BYTEA_LT "bytealt" (Bytea, Bytea) -> Bool = by!(bytea_order, is_lt);
    88 BYTEA_LE "byteale" (Bytea, Bytea) -> Bool = by!(bytea_order, is_le);
    89 BYTEA_GT "byteagt" (Bytea, Bytea) -> Bool = by!(bytea_order, is_gt);
    90 BYTEA_GE "byteage" (Bytea, Bytea) -> Bool = by!(bytea_order, is_ge);
    91 DATE_EQ "date_eq" (Date, Date) -> Bool = by!(date_order, is_eq);
    92 DATE_NE "date_ne" (Date, Date) -> Bool = by!(date_order, is_ne);
    93 DATE_LT "date_lt" (Date, Date) -> Bool = by!(date_order, is_lt);
    94 DATE_LE "date_le" (Date, Date) -> Bool = by!(date_order, is_le);
    95 DATE_GT "date_gt" (Date, Date) -> Bool = by!(date_order, is_gt);
    96 DATE_GE "date_ge" (Date, Date) -> Bool = by!(date_order, is_ge);
    97 DATE_EQ_TIMESTAMP "date_eq_timestamp" (Date, Timestamp) -> Bool = by!(date_timestamp_order, is_eq);
    98 DATE_NE_TIMESTAMP "date_ne_timestamp" (Date, Timestamp) -> Bool = by!(date_timestamp_order, is_ne);
    99 DATE_LT_TIMESTAMP "date_lt_timestamp" (Date, Timestamp) -> Bool = by!(date_timestamp_order, is_lt);
    100 DATE_LE_TIMESTAMP "date_le_timestamp" (Date, Timestamp) -> Bool = by!(date_timestamp_order, is_le);
    101 DATE_GT_TIMESTAMP "date_gt_timestamp" (Date, Timestamp) -> Bool = by!(date_timestamp_order, is_gt);
    102 DATE_GE_TIMESTAMP "date_ge_timestamp" (Date, Timestamp) -> Bool = by!(date_timestamp_order, is_ge);
    103 DATE_EQ_TIMESTAMPTZ "date_eq_timestamptz" (Date, Timestamptz) -> Bool = by!(date_timestamptz_order, is_eq), stable;
    104 DATE_NE_TIMESTAMPTZ "date_ne_timestamptz" (Date, Timestamptz) -> Bool = by!(date_timestamptz_order, is_ne), stable;
    105 DATE_LT_TIMESTAMPTZ "date_lt_timestamptz" (Date, Timestamptz) -> Bool = by!(date_timestamptz_order, is_lt), stable;
    106 DATE_LE_TIMESTAMPTZ "date_le_timestamptz" (Date, Timestamptz) -> Bool = by!(date_timestamptz_order, is_le), stable;
    107 DATE_GT_TIMESTAMPTZ "date_gt_timestamptz" (Date, Timestamptz) -> Bool = by!(date_timestamptz_order, is_gt), stable;
    108 DATE_GE_TIMESTAMPTZ "date_ge_timestamptz" (Date, Timestamptz) -> Bool = by!(date_timestamptz_order, is_ge), stable;
    109 TIMESTAMP_EQ_DATE "timestamp_eq_date" (Timestamp, Date) -> Bool = by!(timestamp_date_order, is_eq);
    110 TIMESTAMP_NE_DATE "timestamp_ne_date" (Timestamp, Date) -> Bool = by!(timestamp_date_order, is_ne);
    111 TIMESTAMP_LT_DATE "timestamp_lt_date" (Timestamp, Date) -> Bool = by!(timestamp_date_order, is_lt);
    112 TIMESTAMP_LE_DATE "timestamp_le_date" (Timestamp, Date) -> Bool = by!(timestamp_date_order, is_le);
    113 TIMESTAMP_GT_DATE "timestamp_gt_date" (Timestamp, Date) -> Bool = by!(timestamp_date_order, is_gt);
    114 TIMESTAMP_GE_DATE "timestamp_ge_date" (Timestamp, Date) -> Bool = by!(timestamp_date_order, is_ge);
    115 TIMESTAMP_EQ "timestamp_eq" (Timestamp, Timestamp) -> Bool = by!(timestamp_order, is_eq);
    116 TIMESTAMP_NE "timestamp_ne" (Timestamp, Timestamp) -> Bool = by!(timestamp_order, is_ne);
    117 TIMESTAMP_LT "timestamp_lt" (Timestamp, Timestamp) -> Bool = by!(timestamp_order, is_lt);
    118 TIMESTAMP_LE "timestamp_le" (Timestamp, Timestamp) -> Bool = by!(timestamp_order, is_le);
    119 TIMESTAMP_GT "timestamp_gt" (Timestamp, Timestamp) -> Bool = by!(timestamp_order, is_gt);
    120 TIMESTAMP_GE "timestamp_ge" (Timestamp, Timestamp) -> Bool = by!(timestamp_order, is_ge);
    121 TIMESTAMP_EQ_TIMESTAMPTZ "timestamp_eq_timestamptz" (Timestamp, Timestamptz) -> Bool = by!(timestamp_timestamptz_order, is_eq), stable;
    122 TIMESTAMP_NE_TIMESTAMPTZ "timestamp_ne_timestamptz" (Timestamp, Timestamptz) -> Bool = by!(timestamp_timestamptz_order, is_ne), stable;
    123 TIMESTAMP_LT_TIMESTAMPTZ "timestamp_lt_timestamptz" (Timestamp, Timestamptz) -> Bool = by!(timestamp_timestamptz_order, is_lt), stable;
    124 TIMESTAMP_LE_TIMESTAMPTZ "timestamp_le_timestamptz" (Timestamp, Timestamptz) -> Bool = by!(timestamp_timestamptz_order, is_le), stable;
    125 TIMESTAMP_GT_TIMESTAMPTZ "timestamp_gt_timestamptz" (Timestamp, Timestamptz) -> Bool = by!(timestamp_timestamptz_order, is_gt), stable;
    126 TIMESTAMP_GE_TIMESTAMPTZ "timestamp_ge_timestamptz" (Timestamp, Timestamptz) -> Bool = by!(timestamp_timestamptz_order, is_ge), stable;
    127 TIMESTAMPTZ_EQ_DATE "timestamptz_eq_date" (Timestamptz, Date) -> Bool = by!(timestamptz_date_order, is_eq), stable;
    128 TIMESTAMPTZ_NE_DATE "timestamptz_ne_date" (Timestamptz, Date) -> Bool = by!(timestamptz_date_order, is_ne), stable;
    129 TIMESTAMPTZ_LT_DATE "timestamptz_lt_date" (Timestamptz, Date) -> Bool = by!(timestamptz_date_order, is_lt), stable;
    130 TIMESTAMPTZ_LE_DATE "timestamptz_le_date" (Timestamptz, Date) -> Bool = by!(timestamptz_date_order, is_le), stable;
    131 TIMESTAMPTZ_GT_DATE "timestamptz_gt_date" (Timestamptz, Date) -> Bool = by!(timestamptz_date_order, is_gt), stable;
    132 TIMESTAMPTZ_GE_DATE "timestamptz_ge_date" (Timestamptz, Date) -> Bool = by!(timestamptz_date_order, is_ge), stable;
    133 TIMESTAMPTZ_EQ_TIMESTAMP "timestamptz_eq_timestamp" (Timestamptz, Timestamp) -> Bool = by!(timestamptz_timestamp_order, is_eq), stable;
    134 TIMESTAMPTZ_NE_TIMESTAMP "timestamptz_ne_timestamp" (Timestamptz, Timestamp) -> Bool = by!(timestamptz_timestamp_order, is_ne), stable;
    135 TIMESTAMPTZ_LT_TIMESTAMP "timestamptz_lt_timestamp" (Timestamptz, Timestamp) -> Bool = by!(timestamptz_timestamp_order, is_lt), stable;
    136 TIMESTAMPTZ_LE_TIMESTAMP "timestamptz_le_timestamp" (Timestamptz, Timestamp) -> Bool = by!(timestamptz_timestamp_order, is_le), stable;
    137 TIMESTAMPTZ_GT_TIMESTAMP "timestamptz_gt_timestamp" (Timestamptz, Timestamp) -> Bool = by!(timestamptz_timestamp_order, is_gt), stable;
    138 TIMESTAMPTZ_GE_TIMESTAMP "timestamptz_ge_timestamp" (Timestamptz, Timestamp) -> Bool = by!(timestamptz_timestamp_order, is_ge), stable;
    139 TIMESTAMPTZ_EQ "timestamptz_eq" (Timestamptz, Timestamptz) -> Bool = by!(timestamptz_order, is_eq);
    140 TIMESTAMPTZ_NE "timestamptz_ne" (Timestamptz, Timestamptz) -> Bool = by!(timestamptz_order, is_ne);
    141 TIMESTAMPTZ_LT "timestamptz_lt" (Timestamptz, Timestamptz) -> Bool = by!(timestamptz_order, is_lt);
    142 TIMESTAMPTZ_LE "timestamptz_le" (Timestamptz, Timestamptz) -> Bool = by!(timestamptz_order, is_le);
    143 TIMESTAMPTZ_GT "timestamptz_gt" (Timestamptz, Timestamptz) -> Bool = by!(timestamptz_order, is_gt);
    144 TIMESTAMPTZ_GE "timestamptz_ge" (Timestamptz, Timestamptz) -> Bool = by!(timestamptz_order, is_ge);
}
