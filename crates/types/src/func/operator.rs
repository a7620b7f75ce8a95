//! Operator symbols and the functions behind them, as in PostgreSQL's `pg_operator`.
//!
//! `!=` is another spelling of `<>`; [`by_symbol`] knows both. The commutator `b op2 a` means what `a op b`
//! means; the negator `a op2 b` what `NOT (a op b)` means.

use super::{FuncDef, FuncId, get, id, sig};
use crate::TypeId;
use std::sync::LazyLock;

/// One operator for one pair of types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OperatorDef {
    pub name: &'static str,
    /// `None` for a prefix operator.
    pub left: Option<TypeId>,
    pub right: TypeId,
    pub func: FuncId,
    pub commutator: Option<&'static str>,
    pub negator: Option<&'static str>,
}

impl OperatorDef {
    /// The function that computes it.
    pub fn def(&self) -> &'static FuncDef {
        get(self.func)
    }
    /// The type of the result.
    pub fn ret(&self) -> TypeId {
        self.def().ret
    }
    /// The operands' types, as the function's arguments.
    pub fn args(&self) -> &'static [TypeId] {
        self.def().args
    }
}

pub(crate) const fn binary(
    name: &'static str,
    left: TypeId,
    right: TypeId,
    func: FuncId,
    commutator: &'static str,
    negator: &'static str,
) -> OperatorDef {
    const fn some(s: &'static str) -> Option<&'static str> {
        if s.is_empty() { None } else { Some(s) }
    }
    OperatorDef { name, left: Some(left), right, func, commutator: some(commutator), negator: some(negator) }
}

pub(crate) const fn prefix(name: &'static str, right: TypeId, func: FuncId) -> OperatorDef {
    OperatorDef { name, left: None, right, func, commutator: None, negator: None }
}

/// All operators, in the order of their symbols' bytes.
static ALL: LazyLock<Vec<OperatorDef>> = LazyLock::new(|| {
    let own = crate::catalog::OPERATORS.iter().copied().flatten();
    let own = own.chain(crate::user::OPERATORS.iter().copied().flatten());
    let own = own.chain(crate::catalog::RECORD_OPERATORS);
    let others = own.chain(crate::array::OPERATORS).copied().flatten();
    let mut all: Vec<OperatorDef> = OPERATORS.iter().chain(others).copied().collect();
    all.sort_by_key(|o| o.name);
    all
});

/// All operators, in the order of their symbols' bytes.
pub fn operators() -> &'static [OperatorDef] {
    &ALL
}

/// The operators of a symbol: prefix ones or binary ones.
pub fn by_symbol(name: &str, is_prefix: bool) -> impl Iterator<Item = &'static OperatorDef> {
    let name = if name == "!=" { "<>" } else { name };
    // The table is in the order of symbols' bytes.
    let all = operators();
    let from = all.partition_point(|o| o.name < name);
    let to = from + all[from..].partition_point(|o| o.name == name);
    all[from..to].iter().filter(move |o| o.left.is_none() == is_prefix)
}

/// The operator of a function, if it has one: for printing an expression.
pub fn of_function(func: FuncId) -> Option<&'static OperatorDef> {
    operators().iter().find(|o| o.func == func)
}

static OPERATORS: &[OperatorDef] = &[
    binary("!~", sig::Text, sig::Text, id::TEXT_NOT_REGEX, "", "~"),
    binary("!~", sig::Bpchar, sig::Text, id::BPCHAR_NOT_REGEX, "", "~"),
    binary("!~*", sig::Text, sig::Text, id::TEXT_NOT_IREGEX, "", "~*"),
    binary("!~*", sig::Bpchar, sig::Text, id::BPCHAR_NOT_IREGEX, "", "~*"),
    binary("~", sig::Text, sig::Text, id::TEXT_REGEX, "", "!~"),
    binary("~", sig::Bpchar, sig::Text, id::BPCHAR_REGEX, "", "!~"),
    binary("~*", sig::Text, sig::Text, id::TEXT_IREGEX, "", "!~*"),
    binary("~*", sig::Bpchar, sig::Text, id::BPCHAR_IREGEX, "", "!~*"),
    binary("!~~", sig::Bytea, sig::Bytea, id::BYTEA_NOT_LIKE, "", "~~"),
    binary("!~~", sig::Text, sig::Text, id::TEXT_NOT_LIKE, "", "~~"),
    binary("!~~", sig::Bpchar, sig::Text, id::BPCHAR_NOT_LIKE, "", "~~"),
    binary("!~~*", sig::Text, sig::Text, id::TEXT_NOT_ILIKE, "", "~~*"),
    binary("!~~*", sig::Bpchar, sig::Text, id::BPCHAR_NOT_ILIKE, "", "~~*"),
    binary("#", sig::Int8, sig::Int8, id::INT8_XOR, "#", ""),
    binary("#", sig::Int2, sig::Int2, id::INT2_XOR, "#", ""),
    binary("#", sig::Int4, sig::Int4, id::INT4_XOR, "#", ""),
    binary("%", sig::Int8, sig::Int8, id::INT8_REM, "", ""),
    binary("%", sig::Int2, sig::Int2, id::INT2_REM, "", ""),
    binary("%", sig::Int4, sig::Int4, id::INT4_REM, "", ""),
    binary("%", sig::Numeric, sig::Numeric, id::NUMERIC_REM, "", ""),
    binary("&", sig::Int8, sig::Int8, id::INT8_AND, "&", ""),
    binary("&", sig::Int2, sig::Int2, id::INT2_AND, "&", ""),
    binary("&", sig::Int4, sig::Int4, id::INT4_AND, "&", ""),
    binary("*", sig::Int8, sig::Int8, id::INT8_MUL, "*", ""),
    binary("*", sig::Int8, sig::Int2, id::INT82_MUL, "*", ""),
    binary("*", sig::Int8, sig::Int4, id::INT84_MUL, "*", ""),
    binary("*", sig::Int2, sig::Int8, id::INT28_MUL, "*", ""),
    binary("*", sig::Int2, sig::Int2, id::INT2_MUL, "*", ""),
    binary("*", sig::Int2, sig::Int4, id::INT24_MUL, "*", ""),
    binary("*", sig::Int4, sig::Int8, id::INT48_MUL, "*", ""),
    binary("*", sig::Int4, sig::Int2, id::INT42_MUL, "*", ""),
    binary("*", sig::Int4, sig::Int4, id::INT4_MUL, "*", ""),
    binary("*", sig::Float8, sig::Float8, id::FLOAT8_MUL, "*", ""),
    binary("*", sig::Numeric, sig::Numeric, id::NUMERIC_MUL, "*", ""),
    prefix("+", sig::Int8, id::INT8_PLUS),
    prefix("+", sig::Int2, id::INT2_PLUS),
    prefix("+", sig::Int4, id::INT4_PLUS),
    prefix("+", sig::Float8, id::FLOAT8_PLUS),
    prefix("+", sig::Numeric, id::NUMERIC_PLUS),
    binary("+", sig::Int8, sig::Int8, id::INT8_ADD, "+", ""),
    binary("+", sig::Int8, sig::Int2, id::INT82_ADD, "+", ""),
    binary("+", sig::Int8, sig::Int4, id::INT84_ADD, "+", ""),
    binary("+", sig::Int2, sig::Int8, id::INT28_ADD, "+", ""),
    binary("+", sig::Int2, sig::Int2, id::INT2_ADD, "+", ""),
    binary("+", sig::Int2, sig::Int4, id::INT24_ADD, "+", ""),
    binary("+", sig::Int4, sig::Int8, id::INT48_ADD, "+", ""),
    binary("+", sig::Int4, sig::Int2, id::INT42_ADD, "+", ""),
    binary("+", sig::Int4, sig::Int4, id::INT4_ADD, "+", ""),
    binary("+", sig::Int4, sig::Date, id::INT4_PLUS_DATE, "+", ""),
    binary("+", sig::Float8, sig::Float8, id::FLOAT8_ADD, "+", ""),
    binary("+", sig::Date, sig::Int4, id::DATE_PLUS_INT4, "+", ""),
    binary("+", sig::Numeric, sig::Numeric, id::NUMERIC_ADD, "+", ""),
    prefix("-", sig::Int8, id::INT8_NEG),
    prefix("-", sig::Int2, id::INT2_NEG),
    prefix("-", sig::Int4, id::INT4_NEG),
    prefix("-", sig::Float8, id::FLOAT8_NEG),
    prefix("-", sig::Numeric, id::NUMERIC_NEG),
    binary("-", sig::Int8, sig::Int8, id::INT8_SUB, "", ""),
    binary("-", sig::Int8, sig::Int2, id::INT82_SUB, "", ""),
    binary("-", sig::Int8, sig::Int4, id::INT84_SUB, "", ""),
    binary("-", sig::Int2, sig::Int8, id::INT28_SUB, "", ""),
    binary("-", sig::Int2, sig::Int2, id::INT2_SUB, "", ""),
    binary("-", sig::Int2, sig::Int4, id::INT24_SUB, "", ""),
    binary("-", sig::Int4, sig::Int8, id::INT48_SUB, "", ""),
    binary("-", sig::Int4, sig::Int2, id::INT42_SUB, "", ""),
    binary("-", sig::Int4, sig::Int4, id::INT4_SUB, "", ""),
    binary("-", sig::Float8, sig::Float8, id::FLOAT8_SUB, "", ""),
    binary("-", sig::Date, sig::Int4, id::DATE_MINUS_INT4, "", ""),
    binary("-", sig::Date, sig::Date, id::DATE_MINUS_DATE, "", ""),
    binary("-", sig::Numeric, sig::Numeric, id::NUMERIC_SUB, "", ""),
    binary("/", sig::Int8, sig::Int8, id::INT8_DIV, "", ""),
    binary("/", sig::Int8, sig::Int2, id::INT82_DIV, "", ""),
    binary("/", sig::Int8, sig::Int4, id::INT84_DIV, "", ""),
    binary("/", sig::Int2, sig::Int8, id::INT28_DIV, "", ""),
    binary("/", sig::Int2, sig::Int2, id::INT2_DIV, "", ""),
    binary("/", sig::Int2, sig::Int4, id::INT24_DIV, "", ""),
    binary("/", sig::Int4, sig::Int8, id::INT48_DIV, "", ""),
    binary("/", sig::Int4, sig::Int2, id::INT42_DIV, "", ""),
    binary("/", sig::Int4, sig::Int4, id::INT4_DIV, "", ""),
    binary("/", sig::Float8, sig::Float8, id::FLOAT8_DIV, "", ""),
    binary("/", sig::Numeric, sig::Numeric, id::NUMERIC_DIV, "", ""),
    binary("<", sig::Bool, sig::Bool, id::BOOL_LT, ">", ">="),
    binary("<", sig::Bytea, sig::Bytea, id::BYTEA_LT, ">", ">="),
    binary("<", sig::Int8, sig::Int8, id::INT8_LT, ">", ">="),
    binary("<", sig::Int8, sig::Int2, id::INT82_LT, ">", ">="),
    binary("<", sig::Int8, sig::Int4, id::INT84_LT, ">", ">="),
    binary("<", sig::Int2, sig::Int8, id::INT28_LT, ">", ">="),
    binary("<", sig::Int2, sig::Int2, id::INT2_LT, ">", ">="),
    binary("<", sig::Int2, sig::Int4, id::INT24_LT, ">", ">="),
    binary("<", sig::Int4, sig::Int8, id::INT48_LT, ">", ">="),
    binary("<", sig::Int4, sig::Int2, id::INT42_LT, ">", ">="),
    binary("<", sig::Int4, sig::Int4, id::INT4_LT, ">", ">="),
    binary("<", sig::Text, sig::Text, id::TEXT_LT, ">", ">="),
    binary("<", sig::Float8, sig::Float8, id::FLOAT8_LT, ">", ">="),
    binary("<", sig::Bpchar, sig::Bpchar, id::BPCHAR_LT, ">", ">="),
    binary("<", sig::Date, sig::Date, id::DATE_LT, ">", ">="),
    binary("<", sig::Date, sig::Timestamp, id::DATE_LT_TIMESTAMP, ">", ">="),
    binary("<", sig::Date, sig::Timestamptz, id::DATE_LT_TIMESTAMPTZ, ">", ">="),
    binary("<", sig::Timestamp, sig::Date, id::TIMESTAMP_LT_DATE, ">", ">="),
    binary("<", sig::Timestamp, sig::Timestamp, id::TIMESTAMP_LT, ">", ">="),
    binary("<", sig::Timestamp, sig::Timestamptz, id::TIMESTAMP_LT_TIMESTAMPTZ, ">", ">="),
    binary("<", sig::Timestamptz, sig::Date, id::TIMESTAMPTZ_LT_DATE, ">", ">="),
    binary("<", sig::Timestamptz, sig::Timestamp, id::TIMESTAMPTZ_LT_TIMESTAMP, ">", ">="),
    binary("<", sig::Timestamptz, sig::Timestamptz, id::TIMESTAMPTZ_LT, ">", ">="),
    binary("<", sig::Numeric, sig::Numeric, id::NUMERIC_LT, ">", ">="),
    binary("<<", sig::Int8, sig::Int4, id::INT8_SHL, "", ""),
    binary("<<", sig::Int2, sig::Int4, id::INT2_SHL, "", ""),
    binary("<<", sig::Int4, sig::Int4, id::INT4_SHL, "", ""),
    binary("<=", sig::Bool, sig::Bool, id::BOOL_LE, ">=", ">"),
    binary("<=", sig::Bytea, sig::Bytea, id::BYTEA_LE, ">=", ">"),
    binary("<=", sig::Int8, sig::Int8, id::INT8_LE, ">=", ">"),
    binary("<=", sig::Int8, sig::Int2, id::INT82_LE, ">=", ">"),
    binary("<=", sig::Int8, sig::Int4, id::INT84_LE, ">=", ">"),
    binary("<=", sig::Int2, sig::Int8, id::INT28_LE, ">=", ">"),
    binary("<=", sig::Int2, sig::Int2, id::INT2_LE, ">=", ">"),
    binary("<=", sig::Int2, sig::Int4, id::INT24_LE, ">=", ">"),
    binary("<=", sig::Int4, sig::Int8, id::INT48_LE, ">=", ">"),
    binary("<=", sig::Int4, sig::Int2, id::INT42_LE, ">=", ">"),
    binary("<=", sig::Int4, sig::Int4, id::INT4_LE, ">=", ">"),
    binary("<=", sig::Text, sig::Text, id::TEXT_LE, ">=", ">"),
    binary("<=", sig::Float8, sig::Float8, id::FLOAT8_LE, ">=", ">"),
    binary("<=", sig::Bpchar, sig::Bpchar, id::BPCHAR_LE, ">=", ">"),
    binary("<=", sig::Date, sig::Date, id::DATE_LE, ">=", ">"),
    binary("<=", sig::Date, sig::Timestamp, id::DATE_LE_TIMESTAMP, ">=", ">"),
    binary("<=", sig::Date, sig::Timestamptz, id::DATE_LE_TIMESTAMPTZ, ">=", ">"),
    binary("<=", sig::Timestamp, sig::Date, id::TIMESTAMP_LE_DATE, ">=", ">"),
    binary("<=", sig::Timestamp, sig::Timestamp, id::TIMESTAMP_LE, ">=", ">"),
    binary("<=", sig::Timestamp, sig::Timestamptz, id::TIMESTAMP_LE_TIMESTAMPTZ, ">=", ">"),
    binary("<=", sig::Timestamptz, sig::Date, id::TIMESTAMPTZ_LE_DATE, ">=", ">"),
    binary("<=", sig::Timestamptz, sig::Timestamp, id::TIMESTAMPTZ_LE_TIMESTAMP, ">=", ">"),
    binary("<=", sig::Timestamptz, sig::Timestamptz, id::TIMESTAMPTZ_LE, ">=", ">"),
    binary("<=", sig::Numeric, sig::Numeric, id::NUMERIC_LE, ">=", ">"),
    binary("<>", sig::Bool, sig::Bool, id::BOOL_NE, "<>", "="),
    binary("<>", sig::Bytea, sig::Bytea, id::BYTEA_NE, "<>", "="),
    binary("<>", sig::Int8, sig::Int8, id::INT8_NE, "<>", "="),
    binary("<>", sig::Int8, sig::Int2, id::INT82_NE, "<>", "="),
    binary("<>", sig::Int8, sig::Int4, id::INT84_NE, "<>", "="),
    binary("<>", sig::Int2, sig::Int8, id::INT28_NE, "<>", "="),
    binary("<>", sig::Int2, sig::Int2, id::INT2_NE, "<>", "="),
    binary("<>", sig::Int2, sig::Int4, id::INT24_NE, "<>", "="),
    binary("<>", sig::Int4, sig::Int8, id::INT48_NE, "<>", "="),
    binary("<>", sig::Int4, sig::Int2, id::INT42_NE, "<>", "="),
    binary("<>", sig::Int4, sig::Int4, id::INT4_NE, "<>", "="),
    binary("<>", sig::Text, sig::Text, id::TEXT_NE, "<>", "="),
    binary("<>", sig::Float8, sig::Float8, id::FLOAT8_NE, "<>", "="),
    binary("<>", sig::Bpchar, sig::Bpchar, id::BPCHAR_NE, "<>", "="),
    binary("<>", sig::Date, sig::Date, id::DATE_NE, "<>", "="),
    binary("<>", sig::Date, sig::Timestamp, id::DATE_NE_TIMESTAMP, "<>", "="),
    binary("<>", sig::Date, sig::Timestamptz, id::DATE_NE_TIMESTAMPTZ, "<>", "="),
    binary("<>", sig::Timestamp, sig::Date, id::TIMESTAMP_NE_DATE, "<>", "="),
    binary("<>", sig::Timestamp, sig::Timestamp, id::TIMESTAMP_NE, "<>", "="),
    binary("<>", sig::Timestamp, sig::Timestamptz, id::TIMESTAMP_NE_TIMESTAMPTZ, "<>", "="),
    binary("<>", sig::Timestamptz, sig::Date, id::TIMESTAMPTZ_NE_DATE, "<>", "="),
    binary("<>", sig::Timestamptz, sig::Timestamp, id::TIMESTAMPTZ_NE_TIMESTAMP, "<>", "="),
    binary("<>", sig::Timestamptz, sig::Timestamptz, id::TIMESTAMPTZ_NE, "<>", "="),
    binary("<>", sig::Numeric, sig::Numeric, id::NUMERIC_NE, "<>", "="),
    binary("=", sig::Bool, sig::Bool, id::BOOL_EQ, "=", "<>"),
    binary("=", sig::Bytea, sig::Bytea, id::BYTEA_EQ, "=", "<>"),
    binary("=", sig::Int8, sig::Int8, id::INT8_EQ, "=", "<>"),
    binary("=", sig::Int8, sig::Int2, id::INT82_EQ, "=", "<>"),
    binary("=", sig::Int8, sig::Int4, id::INT84_EQ, "=", "<>"),
    binary("=", sig::Int2, sig::Int8, id::INT28_EQ, "=", "<>"),
    binary("=", sig::Int2, sig::Int2, id::INT2_EQ, "=", "<>"),
    binary("=", sig::Int2, sig::Int4, id::INT24_EQ, "=", "<>"),
    binary("=", sig::Int4, sig::Int8, id::INT48_EQ, "=", "<>"),
    binary("=", sig::Int4, sig::Int2, id::INT42_EQ, "=", "<>"),
    binary("=", sig::Int4, sig::Int4, id::INT4_EQ, "=", "<>"),
    binary("=", sig::Text, sig::Text, id::TEXT_EQ, "=", "<>"),
    binary("=", sig::Float8, sig::Float8, id::FLOAT8_EQ, "=", "<>"),
    binary("=", sig::Bpchar, sig::Bpchar, id::BPCHAR_EQ, "=", "<>"),
    binary("=", sig::Date, sig::Date, id::DATE_EQ, "=", "<>"),
    binary("=", sig::Date, sig::Timestamp, id::DATE_EQ_TIMESTAMP, "=", "<>"),
    binary("=", sig::Date, sig::Timestamptz, id::DATE_EQ_TIMESTAMPTZ, "=", "<>"),
    binary("=", sig::Timestamp, sig::Date, id::TIMESTAMP_EQ_DATE, "=", "<>"),
    binary("=", sig::Timestamp, sig::Timestamp, id::TIMESTAMP_EQ, "=", "<>"),
    binary("=", sig::Timestamp, sig::Timestamptz, id::TIMESTAMP_EQ_TIMESTAMPTZ, "=", "<>"),
    binary("=", sig::Timestamptz, sig::Date, id::TIMESTAMPTZ_EQ_DATE, "=", "<>"),
    binary("=", sig::Timestamptz, sig::Timestamp, id::TIMESTAMPTZ_EQ_TIMESTAMP, "=", "<>"),
    binary("=", sig::Timestamptz, sig::Timestamptz, id::TIMESTAMPTZ_EQ, "=", "<>"),
    binary("=", sig::Numeric, sig::Numeric, id::NUMERIC_EQ, "=", "<>"),
    binary(">", sig::Bool, sig::Bool, id::BOOL_GT, "<", "<="),
    binary(">", sig::Bytea, sig::Bytea, id::BYTEA_GT, "<", "<="),
    binary(">", sig::Int8, sig::Int8, id::INT8_GT, "<", "<="),
    binary(">", sig::Int8, sig::Int2, id::INT82_GT, "<", "<="),
    binary(">", sig::Int8, sig::Int4, id::INT84_GT, "<", "<="),
    binary(">", sig::Int2, sig::Int8, id::INT28_GT, "<", "<="),
    binary(">", sig::Int2, sig::Int2, id::INT2_GT, "<", "<="),
    binary(">", sig::Int2, sig::Int4, id::INT24_GT, "<", "<="),
    binary(">", sig::Int4, sig::Int8, id::INT48_GT, "<", "<="),
    binary(">", sig::Int4, sig::Int2, id::INT42_GT, "<", "<="),
    binary(">", sig::Int4, sig::Int4, id::INT4_GT, "<", "<="),
    binary(">", sig::Text, sig::Text, id::TEXT_GT, "<", "<="),
    binary(">", sig::Float8, sig::Float8, id::FLOAT8_GT, "<", "<="),
    binary(">", sig::Bpchar, sig::Bpchar, id::BPCHAR_GT, "<", "<="),
    binary(">", sig::Date, sig::Date, id::DATE_GT, "<", "<="),
    binary(">", sig::Date, sig::Timestamp, id::DATE_GT_TIMESTAMP, "<", "<="),
    binary(">", sig::Date, sig::Timestamptz, id::DATE_GT_TIMESTAMPTZ, "<", "<="),
    binary(">", sig::Timestamp, sig::Date, id::TIMESTAMP_GT_DATE, "<", "<="),
    binary(">", sig::Timestamp, sig::Timestamp, id::TIMESTAMP_GT, "<", "<="),
    binary(">", sig::Timestamp, sig::Timestamptz, id::TIMESTAMP_GT_TIMESTAMPTZ, "<", "<="),
    binary(">", sig::Timestamptz, sig::Date, id::TIMESTAMPTZ_GT_DATE, "<", "<="),
    binary(">", sig::Timestamptz, sig::Timestamp, id::TIMESTAMPTZ_GT_TIMESTAMP, "<", "<="),
    binary(">", sig::Timestamptz, sig::Timestamptz, id::TIMESTAMPTZ_GT, "<", "<="),
    binary(">", sig::Numeric, sig::Numeric, id::NUMERIC_GT, "<", "<="),
    binary(">=", sig::Bool, sig::Bool, id::BOOL_GE, "<=", "<"),
    binary(">=", sig::Bytea, sig::Bytea, id::BYTEA_GE, "<=", "<"),
    binary(">=", sig::Int8, sig::Int8, id::INT8_GE, "<=", "<"),
    binary(">=", sig::Int8, sig::Int2, id::INT82_GE, "<=", "<"),
    binary(">=", sig::Int8, sig::Int4, id::INT84_GE, "<=", "<"),
    binary(">=", sig::Int2, sig::Int8, id::INT28_GE, "<=", "<"),
    binary(">=", sig::Int2, sig::Int2, id::INT2_GE, "<=", "<"),
    binary(">=", sig::Int2, sig::Int4, id::INT24_GE, "<=", "<"),
    binary(">=", sig::Int4, sig::Int8, id::INT48_GE, "<=", "<"),
    binary(">=", sig::Int4, sig::Int2, id::INT42_GE, "<=", "<"),
    binary(">=", sig::Int4, sig::Int4, id::INT4_GE, "<=", "<"),
    binary(">=", sig::Text, sig::Text, id::TEXT_GE, "<=", "<"),
    binary(">=", sig::Float8, sig::Float8, id::FLOAT8_GE, "<=", "<"),
    binary(">=", sig::Bpchar, sig::Bpchar, id::BPCHAR_GE, "<=", "<"),
    binary(">=", sig::Date, sig::Date, id::DATE_GE, "<=", "<"),
    binary(">=", sig::Date, sig::Timestamp, id::DATE_GE_TIMESTAMP, "<=", "<"),
    binary(">=", sig::Date, sig::Timestamptz, id::DATE_GE_TIMESTAMPTZ, "<=", "<"),
    binary(">=", sig::Timestamp, sig::Date, id::TIMESTAMP_GE_DATE, "<=", "<"),
    binary(">=", sig::Timestamp, sig::Timestamp, id::TIMESTAMP_GE, "<=", "<"),
    binary(">=", sig::Timestamp, sig::Timestamptz, id::TIMESTAMP_GE_TIMESTAMPTZ, "<=", "<"),
    binary(">=", sig::Timestamptz, sig::Date, id::TIMESTAMPTZ_GE_DATE, "<=", "<"),
    binary(">=", sig::Timestamptz, sig::Timestamp, id::TIMESTAMPTZ_GE_TIMESTAMP, "<=", "<"),
    binary(">=", sig::Timestamptz, sig::Timestamptz, id::TIMESTAMPTZ_GE, "<=", "<"),
    binary(">=", sig::Numeric, sig::Numeric, id::NUMERIC_GE, "<=", "<"),
    binary(">>", sig::Int8, sig::Int4, id::INT8_SHR, "", ""),
    binary(">>", sig::Int2, sig::Int4, id::INT2_SHR, "", ""),
    binary(">>", sig::Int4, sig::Int4, id::INT4_SHR, "", ""),
    prefix("@", sig::Int8, id::INT8_ABS_OP),
    prefix("@", sig::Int2, id::INT2_ABS_OP),
    prefix("@", sig::Int4, id::INT4_ABS_OP),
    prefix("@", sig::Float8, id::FLOAT8_ABS_OP),
    prefix("@", sig::Numeric, id::NUMERIC_ABS_OP),
    binary("^", sig::Float8, sig::Float8, id::FLOAT8_POW_OP, "", ""),
    binary("^", sig::Numeric, sig::Numeric, id::NUMERIC_POW_OP, "", ""),
    binary("^@", sig::Text, sig::Text, id::STARTS_WITH, "", ""),
    binary("|", sig::Int8, sig::Int8, id::INT8_OR, "|", ""),
    binary("|", sig::Int2, sig::Int2, id::INT2_OR, "|", ""),
    binary("|", sig::Int4, sig::Int4, id::INT4_OR, "|", ""),
    prefix("|/", sig::Float8, id::FLOAT8_SQRT_OP),
    binary("||", sig::Bytea, sig::Bytea, id::BYTEA_CAT, "", ""),
    binary("||", sig::Text, sig::Text, id::TEXT_CAT, "", ""),
    binary("||", sig::Text, sig::AnyNonArray, id::TEXT_ANY_CAT, "", ""),
    binary("||", sig::AnyNonArray, sig::Text, id::ANY_TEXT_CAT, "", ""),
    prefix("||/", sig::Float8, id::FLOAT8_CBRT_OP),
    prefix("~", sig::Int8, id::INT8_NOT),
    prefix("~", sig::Int2, id::INT2_NOT),
    prefix("~", sig::Int4, id::INT4_NOT),
    binary("~~", sig::Bytea, sig::Bytea, id::BYTEA_LIKE, "", "!~~"),
    binary("~~", sig::Text, sig::Text, id::TEXT_LIKE, "", "!~~"),
    binary("~~", sig::Bpchar, sig::Text, id::BPCHAR_LIKE, "", "!~~"),
    binary("~~*", sig::Text, sig::Text, id::TEXT_ILIKE, "", "!~~*"),
    binary("~~*", sig::Bpchar, sig::Text, id::BPCHAR_ILIKE, "", "!~~*"),
];
