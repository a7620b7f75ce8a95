//! What the planner and the code generator know of functions: which compare, and how their arguments compare
//! in a register.
use ondol_types::TypeId;
use ondol_types::func::{self, FuncId};
use std::collections::HashMap;
use std::sync::LazyLock;

/// A comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Cond {
    Eq = 0,
    Ne = 1,
    Lt = 2,
    Le = 3,
    Gt = 4,
    Ge = 5,
}

impl Cond {
    #[inline(always)]
    pub fn holds(self, o: std::cmp::Ordering) -> bool {
        match self {
            Cond::Eq => o.is_eq(),
            Cond::Ne => o.is_ne(),
            Cond::Lt => o.is_lt(),
            Cond::Le => o.is_le(),
            Cond::Gt => o.is_gt(),
            Cond::Ge => o.is_ge(),
        }
    }
    /// The same comparison with its sides exchanged.
    pub fn turned(self) -> Cond {
        match self {
            Cond::Lt => Cond::Gt,
            Cond::Le => Cond::Ge,
            Cond::Gt => Cond::Lt,
            Cond::Ge => Cond::Le,
            c => c,
        }
    }
}

/// How two values are compared by an instruction of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// As 64-bit integers: integers of any widths, booleans, dates, timestamps of one kind.
    Int,
    Float,
    /// By bytes.
    Text,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Comparison {
    pub cond: Cond,
    /// None: only the function itself can compare.
    pub kind: Option<Kind>,
    pub left: TypeId,
    pub right: TypeId,
}

static COMPARISONS: LazyLock<HashMap<u16, Comparison>> = LazyLock::new(|| {
    let mut out = HashMap::new();
    for op in func::operators() {
        let Some(left) = op.left else { continue };
        let cond = match op.name {
            "=" => Cond::Eq,
            "<>" => Cond::Ne,
            "<" => Cond::Lt,
            "<=" => Cond::Le,
            ">" => Cond::Gt,
            ">=" => Cond::Ge,
            _ => continue,
        };
        out.insert(op.func.0, Comparison { cond, kind: kind(left, op.right), left, right: op.right });
    }
    out
});

pub fn is_int(t: TypeId) -> bool {
    matches!(t, TypeId::INT2 | TypeId::INT4 | TypeId::INT8)
}

fn kind(a: TypeId, b: TypeId) -> Option<Kind> {
    match (a, b) {
        _ if is_int(a) && is_int(b) => Some(Kind::Int),
        (TypeId::BOOL, TypeId::BOOL)
        | (TypeId::DATE, TypeId::DATE)
        | (TypeId::TIMESTAMP, TypeId::TIMESTAMP)
        | (TypeId::TIMESTAMPTZ, TypeId::TIMESTAMPTZ) => Some(Kind::Int),
        (TypeId::FLOAT8, TypeId::FLOAT8) => Some(Kind::Float),
        (TypeId::TEXT, TypeId::TEXT) | (TypeId::BYTEA, TypeId::BYTEA) => Some(Kind::Text),
        // Values of char(n) keep no trailing spaces, but a padded one may come out of a function: only the
        // function itself looks past the padding.
        _ => None,
    }
}

/// The comparison that a function of two arguments makes.
pub fn comparison(f: FuncId) -> Option<Comparison> {
    COMPARISONS.get(&f.0).copied()
}

/// Whether values of these types that are equal are also equal as stored datums, so that a hash table may
/// join them.
pub fn hashable(c: &Comparison) -> bool {
    c.cond == Cond::Eq && (c.left == c.right || (is_int(c.left) && is_int(c.right)))
}

/// Arithmetic that has an instruction of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arithmetic {
    Add,
    Sub,
    Mul,
}

pub fn arithmetic(f: FuncId) -> Option<(Arithmetic, TypeId)> {
    use func::id::*;
    Some(match f {
        INT2_ADD => (Arithmetic::Add, TypeId::INT2),
        INT4_ADD | INT24_ADD | INT42_ADD => (Arithmetic::Add, TypeId::INT4),
        INT8_ADD | INT28_ADD | INT48_ADD | INT82_ADD | INT84_ADD => (Arithmetic::Add, TypeId::INT8),
        FLOAT8_ADD => (Arithmetic::Add, TypeId::FLOAT8),
        INT2_SUB => (Arithmetic::Sub, TypeId::INT2),
        INT4_SUB | INT24_SUB | INT42_SUB => (Arithmetic::Sub, TypeId::INT4),
        INT8_SUB | INT28_SUB | INT48_SUB | INT82_SUB | INT84_SUB => (Arithmetic::Sub, TypeId::INT8),
        FLOAT8_SUB => (Arithmetic::Sub, TypeId::FLOAT8),
        INT2_MUL => (Arithmetic::Mul, TypeId::INT2),
        INT4_MUL | INT24_MUL | INT42_MUL => (Arithmetic::Mul, TypeId::INT4),
        INT8_MUL | INT28_MUL | INT48_MUL | INT82_MUL | INT84_MUL => (Arithmetic::Mul, TypeId::INT8),
        FLOAT8_MUL => (Arithmetic::Mul, TypeId::FLOAT8),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_different_widths_compare_in_registers() {
        let c = comparison(func::id::INT48_LT).unwrap();
        assert_eq!((c.cond, c.kind), (Cond::Lt, Some(Kind::Int)));
        assert!(hashable(&comparison(func::id::INT48_EQ).unwrap()));
        assert!(!hashable(&c));
        assert!(comparison(func::id::INT4_ADD).is_none());
    }
}
