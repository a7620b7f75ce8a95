//! Aggregates: their catalogue, and the states that rows are folded into.
//!
//! A state is made by [`AggState::new`], fed with [`AggState::step`], one row at a time, and answers
//! [`AggState::finish`] at any point; [`AggState::merge`] adds what another state of the same aggregate has
//! seen (of `string_agg`, after what this one has seen). DISTINCT, FILTER and ORDER BY inside the call are
//! the interpreter's business: it decides what to feed, and in which order.
//!
//! Invariants:
//! 1. An [`AggId`] means the same aggregate for ever, as a function's number does.
//! 2. NULLs are not counted, summed or compared, but gathered; `count(*)` takes no argument and counts rows.
//!    No row at all gives NULL, for counts 0.
//! 3. A step allocates only where a kept value grows: sums of integers and of usual NUMERICs are kept inline.
//! 4. Integer sums are exact at any moment: only the result must fit its type (22003).
//!
//! Source: PostgreSQL 15's documentation, 9.21, and its answers; variances of doubles by Youngs and Cramer
//! (1971).

use crate::catalog::json::Gathers;
use crate::func::ANY;
use crate::resolve::{Candidate, Choice, choose, function_error, not_supported_function};
use crate::{SqlResult, TypeId, Value, ValueRef};

mod state;
pub use state::AggState;

/// The stable number of an aggregate (invariant 1).
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AggId(pub u16);

/// What an aggregate computes; with the argument's type this decides the state.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    CountRows,
    Count,
    Sum,
    Avg,
    Min,
    Max,
    BoolAnd,
    BoolOr,
    BitAnd,
    BitOr,
    BitXor,
    StringAgg,
    /// Of values, or of arrays.
    ArrayAgg {
        of_arrays: bool,
    },
    /// A value of JSON.
    Json(Gathers),
    /// Of a population or a sample; its root or not.
    Variance {
        sample: bool,
        root: bool,
    },
    /// Of a type in [`crate::catalog`].
    Own(&'static Own),
}

/// How an aggregate of a type of its own is computed. Its state is a value, NULL before the first row; NULLs
/// pass by.
#[derive(Debug)]
pub(crate) struct Own {
    /// Takes in one row's argument.
    pub step: fn(&mut Value, ValueRef<'_>) -> SqlResult<()>,
    /// Takes in another state, not NULL.
    pub merge: fn(&mut Value, ValueRef<'_>) -> SqlResult<()>,
    /// The result of a state, not NULL.
    pub finish: fn(ValueRef<'_>) -> SqlResult<Value>,
}

/// It is one static each.
impl PartialEq for Own {
    fn eq(&self, other: &Own) -> bool {
        std::ptr::eq(self, other)
    }
}
impl Eq for Own {}

/// One aggregate of the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct AggDef {
    pub id: AggId,
    pub name: &'static str,
    /// [`ANY`] among them stands for any type. None for `count(*)`.
    pub args: &'static [TypeId],
    pub ret: TypeId,
    pub(crate) kind: Kind,
    /// The argument goes through the catalog's cast to this type before it is taken in.
    pub(crate) folded: Option<TypeId>,
}

impl AggDef {
    /// Whether an empty array of the type that the call gives is passed behind the arguments, which may all
    /// be NULL.
    pub fn has_template(&self) -> bool {
        matches!(self.kind, Kind::ArrayAgg { .. })
    }
    /// Whether states of neighbouring rows, merged, are the state of all of them, and cost no more than the
    /// rows do: not of what is rounded (doubles), nor of what gathers its rows' values.
    pub fn merges_exactly(&self) -> bool {
        let is_double = self.folded.or(self.args.first().copied()) == Some(TypeId::FLOAT8);
        match self.kind {
            Kind::StringAgg | Kind::ArrayAgg { .. } | Kind::Json(_) | Kind::Own(_) => false,
            Kind::Sum | Kind::Avg | Kind::Variance { .. } => !is_double,
            _ => true,
        }
    }
    /// Whether the session's styles are, as `$styles` gives them.
    pub fn has_styles(&self) -> bool {
        matches!(self.kind, Kind::Json(_))
    }
    /// Whether its last argument is one that nobody wrote.
    pub fn has_unwritten(&self) -> bool {
        self.has_template() || self.has_styles()
    }
    /// How many arguments a step is given.
    pub fn fed(&self) -> usize {
        self.args.len() + usize::from(self.has_unwritten())
    }
    /// Whether the order in which it takes the rows in shows in the result.
    pub fn shows_order(&self) -> bool {
        matches!(self.kind, Kind::StringAgg | Kind::ArrayAgg { .. } | Kind::Json(_))
    }
}

macro_rules! aggregates {
    ($($num:literal $constant:ident $name:literal ($($arg:expr),*) -> $ret:ident = $kind:expr $(, as $folded:expr)?;)*) => {
        /// The constants of all aggregates.
        pub mod id {
            use crate::agg::AggId;
            $(pub const $constant: AggId = AggId($num);)*
        }
        pub(crate) const DEFS: &[crate::agg::AggDef] = &{
            use crate::func::sig::*;
            [$(crate::agg::AggDef { id: id::$constant, name: $name, args: &[$($arg),*], ret: $ret, kind: $kind,
                folded: crate::agg::first(&[$($folded)?]) },)*]
        };
    };
}

pub(crate) use aggregates;

pub(crate) const fn first(types: &[TypeId]) -> Option<TypeId> {
    if let [first, ..] = types { Some(*first) } else { None }
}

pub(crate) const VAR_POP: Kind = Kind::Variance { sample: false, root: false };
pub(crate) const VAR_SAMP: Kind = Kind::Variance { sample: true, root: false };
pub(crate) const STDDEV_POP: Kind = Kind::Variance { sample: false, root: true };
pub(crate) const STDDEV_SAMP: Kind = Kind::Variance { sample: true, root: true };

aggregates! {
    1 COUNT_ROWS "count" () -> Int8 = Kind::CountRows;
    2 COUNT "count" (ANY) -> Int8 = Kind::Count;
    3 SUM_INT2 "sum" (Int2) -> Int8 = Kind::Sum;
    4 SUM_INT4 "sum" (Int4) -> Int8 = Kind::Sum;
    5 SUM_INT8 "sum" (Int8) -> Numeric = Kind::Sum;
    6 SUM_FLOAT8 "sum" (Float8) -> Float8 = Kind::Sum;
    7 SUM_NUMERIC "sum" (Numeric) -> Numeric = Kind::Sum;
    8 AVG_INT2 "avg" (Int2) -> Numeric = Kind::Avg;
    9 AVG_INT4 "avg" (Int4) -> Numeric = Kind::Avg;
    10 AVG_INT8 "avg" (Int8) -> Numeric = Kind::Avg;
    11 AVG_FLOAT8 "avg" (Float8) -> Float8 = Kind::Avg;
    12 AVG_NUMERIC "avg" (Numeric) -> Numeric = Kind::Avg;
    13 MIN_INT2 "min" (Int2) -> Int2 = Kind::Min;
    14 MIN_INT4 "min" (Int4) -> Int4 = Kind::Min;
    15 MIN_INT8 "min" (Int8) -> Int8 = Kind::Min;
    16 MIN_FLOAT8 "min" (Float8) -> Float8 = Kind::Min;
    17 MIN_NUMERIC "min" (Numeric) -> Numeric = Kind::Min;
    18 MIN_BPCHAR "min" (Bpchar) -> Bpchar = Kind::Min;
    19 MIN_TEXT "min" (Text) -> Text = Kind::Min;
    20 MIN_DATE "min" (Date) -> Date = Kind::Min;
    21 MIN_TIMESTAMP "min" (Timestamp) -> Timestamp = Kind::Min;
    22 MIN_TIMESTAMPTZ "min" (Timestamptz) -> Timestamptz = Kind::Min;
    23 MAX_INT2 "max" (Int2) -> Int2 = Kind::Max;
    24 MAX_INT4 "max" (Int4) -> Int4 = Kind::Max;
    25 MAX_INT8 "max" (Int8) -> Int8 = Kind::Max;
    26 MAX_FLOAT8 "max" (Float8) -> Float8 = Kind::Max;
    27 MAX_NUMERIC "max" (Numeric) -> Numeric = Kind::Max;
    28 MAX_BPCHAR "max" (Bpchar) -> Bpchar = Kind::Max;
    29 MAX_TEXT "max" (Text) -> Text = Kind::Max;
    30 MAX_DATE "max" (Date) -> Date = Kind::Max;
    31 MAX_TIMESTAMP "max" (Timestamp) -> Timestamp = Kind::Max;
    32 MAX_TIMESTAMPTZ "max" (Timestamptz) -> Timestamptz = Kind::Max;
    33 BOOL_AND "bool_and" (Bool) -> Bool = Kind::BoolAnd;
    34 BOOL_OR "bool_or" (Bool) -> Bool = Kind::BoolOr;
    35 EVERY "every" (Bool) -> Bool = Kind::BoolAnd;
    36 BIT_AND_INT2 "bit_and" (Int2) -> Int2 = Kind::BitAnd;
    37 BIT_AND_INT4 "bit_and" (Int4) -> Int4 = Kind::BitAnd;
    38 BIT_AND_INT8 "bit_and" (Int8) -> Int8 = Kind::BitAnd;
    39 BIT_OR_INT2 "bit_or" (Int2) -> Int2 = Kind::BitOr;
    40 BIT_OR_INT4 "bit_or" (Int4) -> Int4 = Kind::BitOr;
    41 BIT_OR_INT8 "bit_or" (Int8) -> Int8 = Kind::BitOr;
    42 BIT_XOR_INT2 "bit_xor" (Int2) -> Int2 = Kind::BitXor;
    43 BIT_XOR_INT4 "bit_xor" (Int4) -> Int4 = Kind::BitXor;
    44 BIT_XOR_INT8 "bit_xor" (Int8) -> Int8 = Kind::BitXor;
    45 STRING_AGG "string_agg" (Text, Text) -> Text = Kind::StringAgg;
    46 STRING_AGG_BYTEA "string_agg" (Bytea, Bytea) -> Bytea = Kind::StringAgg;
    47 VAR_POP_INT2 "var_pop" (Int2) -> Numeric = VAR_POP;
    48 VAR_POP_INT4 "var_pop" (Int4) -> Numeric = VAR_POP;
    49 VAR_POP_INT8 "var_pop" (Int8) -> Numeric = VAR_POP;
    50 VAR_POP_FLOAT8 "var_pop" (Float8) -> Float8 = VAR_POP;
    51 VAR_POP_NUMERIC "var_pop" (Numeric) -> Numeric = VAR_POP;
    52 VAR_SAMP_INT2 "var_samp" (Int2) -> Numeric = VAR_SAMP;
    53 VAR_SAMP_INT4 "var_samp" (Int4) -> Numeric = VAR_SAMP;
    54 VAR_SAMP_INT8 "var_samp" (Int8) -> Numeric = VAR_SAMP;
    55 VAR_SAMP_FLOAT8 "var_samp" (Float8) -> Float8 = VAR_SAMP;
    56 VAR_SAMP_NUMERIC "var_samp" (Numeric) -> Numeric = VAR_SAMP;
    57 VARIANCE_INT2 "variance" (Int2) -> Numeric = VAR_SAMP;
    58 VARIANCE_INT4 "variance" (Int4) -> Numeric = VAR_SAMP;
    59 VARIANCE_INT8 "variance" (Int8) -> Numeric = VAR_SAMP;
    60 VARIANCE_FLOAT8 "variance" (Float8) -> Float8 = VAR_SAMP;
    61 VARIANCE_NUMERIC "variance" (Numeric) -> Numeric = VAR_SAMP;
    62 STDDEV_POP_INT2 "stddev_pop" (Int2) -> Numeric = STDDEV_POP;
    63 STDDEV_POP_INT4 "stddev_pop" (Int4) -> Numeric = STDDEV_POP;
    64 STDDEV_POP_INT8 "stddev_pop" (Int8) -> Numeric = STDDEV_POP;
    65 STDDEV_POP_FLOAT8 "stddev_pop" (Float8) -> Float8 = STDDEV_POP;
    66 STDDEV_POP_NUMERIC "stddev_pop" (Numeric) -> Numeric = STDDEV_POP;
    67 STDDEV_SAMP_INT2 "stddev_samp" (Int2) -> Numeric = STDDEV_SAMP;
    68 STDDEV_SAMP_INT4 "stddev_samp" (Int4) -> Numeric = STDDEV_SAMP;
    69 STDDEV_SAMP_INT8 "stddev_samp" (Int8) -> Numeric = STDDEV_SAMP;
    70 STDDEV_SAMP_FLOAT8 "stddev_samp" (Float8) -> Float8 = STDDEV_SAMP;
    71 STDDEV_SAMP_NUMERIC "stddev_samp" (Numeric) -> Numeric = STDDEV_SAMP;
    72 STDDEV_INT2 "stddev" (Int2) -> Numeric = STDDEV_SAMP;
    73 STDDEV_INT4 "stddev" (Int4) -> Numeric = STDDEV_SAMP;
    74 STDDEV_INT8 "stddev" (Int8) -> Numeric = STDDEV_SAMP;
    75 STDDEV_FLOAT8 "stddev" (Float8) -> Float8 = STDDEV_SAMP;
    76 STDDEV_NUMERIC "stddev" (Numeric) -> Numeric = STDDEV_SAMP;
    77 MIN_ARRAY "min" (AnyArray) -> AnyArray = Kind::Min;
    78 MAX_ARRAY "max" (AnyArray) -> AnyArray = Kind::Max;
    100 ARRAY_AGG "array_agg" (AnyNonArray) -> AnyArray = Kind::ArrayAgg { of_arrays: false };
    101 ARRAY_AGG_ARRAY "array_agg" (AnyArray) -> AnyArray = Kind::ArrayAgg { of_arrays: true };
    102 MIN_ENUM "min" (AnyEnum) -> AnyEnum = Kind::Min;
    103 MAX_ENUM "max" (AnyEnum) -> AnyEnum = Kind::Max;
}

/// All aggregates, in the order of their numbers.
pub fn all() -> impl Iterator<Item = &'static AggDef> {
    DEFS.iter().chain(crate::catalog::AGGREGATES.iter().copied().flatten())
}

/// The aggregate of a number that may come from outside (stored byte code).
pub fn find(id: AggId) -> Option<&'static AggDef> {
    match DEFS.binary_search_by_key(&id, |d| d.id) {
        Ok(i) => Some(&DEFS[i]),
        Err(_) => all().find(|d| d.id == id),
    }
}

/// The aggregate of a number that came from the catalogue.
///
/// # Panics
/// If there is none; use [`find`] for numbers read from disk.
pub fn get(id: AggId) -> &'static AggDef {
    find(id).expect("aggregate numbers come from the catalogue")
}

/// Whether an aggregate of this name exists.
pub fn is_aggregate(name: &str) -> bool {
    all().any(|d| d.name == name)
}

/// The aggregate that a call means; `count(*)` has no arguments. The rules are those of functions.
pub fn resolve_aggregate(name: &str, given: &[TypeId]) -> SqlResult<&'static AggDef> {
    if !is_aggregate(name)
        && let Some(e) = not_supported_function(name, given)
    {
        return Err(e);
    }
    let candidates =
        all().filter(|d| d.name == name).map(|d| Candidate { args: d.args, variadic: false, what: d });
    match choose(candidates, given) {
        Choice::One(def) => Ok(def),
        other => Err(function_error(name, given, &other)),
    }
}

#[cfg(test)]
mod tests;
