//! Window functions: their catalogue. What they compute is made of rows of a partition, which the interpreter
//! has; aggregates over windows are those of [`crate::agg`].
//!
//! 1. A [`WindowId`] means the same function for ever, as a function's number does.
//!
//! Source: PostgreSQL 15's documentation, 9.22, and its answers.

use crate::resolve::{Candidate, Choice, choose, function_error};
use crate::{SqlResult, TypeId};

/// The stable number of a window function (invariant 1).
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WindowId(pub u16);

/// What a window function gives of a row.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
    Ntile,
    /// Of a row so many before, or behind; the distance and what is given where there is none are further
    /// arguments.
    Lag,
    Lead,
    FirstValue,
    LastValue,
    NthValue,
}

/// One window function of the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct WindowDef {
    pub id: WindowId,
    pub name: &'static str,
    pub args: &'static [TypeId],
    pub ret: TypeId,
    pub kind: Kind,
}

macro_rules! functions {
    ($($num:literal $name:literal ($($arg:expr),*) -> $ret:ident = $kind:ident;)*) => {
        const DEFS: &[WindowDef] = &{
            use crate::func::sig::*;
            [$(WindowDef {
                id: WindowId($num),
                name: $name,
                args: &[$($arg),*],
                ret: $ret,
                kind: Kind::$kind,
            }),*]
        };
    };
}

functions! {
    1 "row_number" () -> Int8 = RowNumber;
    2 "rank" () -> Int8 = Rank;
    3 "dense_rank" () -> Int8 = DenseRank;
    4 "percent_rank" () -> Float8 = PercentRank;
    5 "cume_dist" () -> Float8 = CumeDist;
    6 "ntile" (Int4) -> Int4 = Ntile;
    7 "lag" (AnyElement) -> AnyElement = Lag;
    8 "lag" (AnyElement, Int4) -> AnyElement = Lag;
    9 "lag" (AnyCompatible, Int4, AnyCompatible) -> AnyCompatible = Lag;
    10 "lead" (AnyElement) -> AnyElement = Lead;
    11 "lead" (AnyElement, Int4) -> AnyElement = Lead;
    12 "lead" (AnyCompatible, Int4, AnyCompatible) -> AnyCompatible = Lead;
    13 "first_value" (AnyElement) -> AnyElement = FirstValue;
    14 "last_value" (AnyElement) -> AnyElement = LastValue;
    15 "nth_value" (AnyElement, Int4) -> AnyElement = NthValue;
}

/// All window functions, in the order of their numbers.
pub fn all() -> impl Iterator<Item = &'static WindowDef> {
    DEFS.iter()
}

/// The window function of a number that may come from outside (stored byte code).
pub fn find(id: WindowId) -> Option<&'static WindowDef> {
    DEFS.binary_search_by_key(&id, |d| d.id).ok().map(|n| &DEFS[n])
}

/// Whether a window function of this name exists.
pub fn is_window_function(name: &str) -> bool {
    DEFS.iter().any(|d| d.name == name)
}

/// The window function that a call means, by the rules of functions.
pub fn resolve(name: &str, given: &[TypeId]) -> SqlResult<&'static WindowDef> {
    let named = DEFS.iter().filter(|d| d.name == name);
    match choose(named.map(|d| Candidate { args: d.args, variadic: false, what: d }), given) {
        Choice::One(def) => Ok(def),
        other => Err(function_error(name, given, &other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_ascend_and_are_found() {
        assert!(DEFS.windows(2).all(|w| w[0].id < w[1].id));
        assert!(all().all(|d| find(d.id).is_some_and(|f| f.name == d.name && f.args == d.args)));
        assert!(find(WindowId(0)).is_none());
    }

    #[test]
    fn a_call_means_the_function_of_its_arguments() {
        let args = |name, given: &[TypeId]| resolve(name, given).map(|d| d.args.len());
        assert_eq!(args("lag", &[TypeId::TEXT, TypeId::INT4]).unwrap(), 2);
        assert_eq!(args("lead", &[TypeId::NUMERIC, TypeId::INT2, TypeId::INT4]).unwrap(), 3);
        assert_eq!(args("ntile", &[TypeId::TEXT]).unwrap_err().sqlstate(), "42883");
        assert_eq!(args("rank", &[TypeId::INT4]).unwrap_err().sqlstate(), "42883");
    }
}
