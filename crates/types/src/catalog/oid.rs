//! oid: PostgreSQL's numbers of objects, 32 bits without a sign, in 4 bytes, the lowest first.
//!
//! Source: PostgreSQL 15's documentation, 8.19, its catalogue and its answers.

use super::{Cast, Form, Key, compares, comparisons};
use crate::agg::AggDef;
use crate::cast::CastContext::{self, Assignment, Implicit};
use crate::func::{Context, OperatorDef, functions};
use crate::ty::{Category, TypeDef};
use crate::{SqlError, SqlResult, Type, TypeId, Value, ValueRef, sqlstate, text};

pub(super) const TYPE: TypeDef =
    TypeDef::opaque(26, "oid", "oid", Category::Numeric, &FORM).array(1028).preferred();

static FORM: Form = Form {
    width: Some(4),
    input: |text, _, _| read(text),
    output: |_, bytes, out| out.push_str(&number(bytes).to_string()),
    compare: |a, b| number(a).cmp(&number(b)),
    key: KEY,
};

/// Keys of numbers without a sign, of 32 bits, the lowest first.
pub(super) const KEY: Key = Key::Fixed {
    width: 4,
    make: |bytes| {
        let mut key = [0; 16];
        key[..4].copy_from_slice(&number(bytes).to_be_bytes());
        key
    },
};

pub(super) fn number(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |b| u32::from_le_bytes(*b))
}

/// A value of the type.
pub fn oid(number: u32) -> Value {
    Value::Opaque(TypeId::OID, Box::new(number.to_le_bytes()))
}

/// A number with blanks around it. As C's strtoul reads it, a minus turns it over.
pub(super) fn read(written: &str) -> SqlResult<Value> {
    let trimmed = written.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
    let (minus, digits) = match trimmed.as_bytes() {
        [b'-', ..] => (true, &trimmed[1..]),
        [b'+', ..] => (false, &trimmed[1..]),
        _ => (false, trimmed),
    };
    if digits.is_empty() || !digits.bytes().all(|d| d.is_ascii_digit()) {
        return Err(text::invalid_syntax("oid", written));
    }
    let outside = || {
        let message = format!("value \"{written}\" is out of range for type oid");
        SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, message)
    };
    let size = digits.parse::<u64>().map_err(|_| outside())?;
    let turned = if minus { size.wrapping_neg() } else { size };
    // What fits either 32 bits or, with its sign, 32 bits of a signed number.
    match (u32::try_from(turned), i32::try_from(turned as i64)) {
        (Ok(n), _) => Ok(oid(n)),
        (_, Ok(n)) => Ok(oid(n as u32)),
        _ => Err(outside()),
    }
}

pub(super) fn of_integer(v: ValueRef<'_>, _: Type, _: &Context<'_>) -> SqlResult<Value> {
    Ok(match v {
        ValueRef::Int2(i) => oid(i32::from(i) as u32),
        ValueRef::Int4(i) => oid(i as u32),
        ValueRef::Int8(i) => oid(u32::try_from(i)
            .map_err(|_| SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "OID out of range"))?),
        other => other.to_owned(),
    })
}

fn to_integer(v: ValueRef<'_>, to: Type, _: &Context<'_>) -> SqlResult<Value> {
    Ok(match v {
        ValueRef::Opaque(_, b) if to.id == TypeId::INT4 => Value::Int4(number(b) as i32),
        ValueRef::Opaque(_, b) => Value::Int8(number(b).into()),
        other => other.to_owned(),
    })
}

functions! {
    976 OID_LT "oidlt" (Oid, Oid) -> Bool = compares!(is_lt);
    977 OID_LE "oidle" (Oid, Oid) -> Bool = compares!(is_le);
    978 OID_EQ "oideq" (Oid, Oid) -> Bool = compares!(is_eq);
    979 OID_NE "oidne" (Oid, Oid) -> Bool = compares!(is_ne);
    980 OID_GE "oidge" (Oid, Oid) -> Bool = compares!(is_ge);
    981 OID_GT "oidgt" (Oid, Oid) -> Bool = compares!(is_gt);
}

pub(super) const OPERATORS: &[&[OperatorDef]] = &[&comparisons(
    (TypeId::OID, TypeId::OID),
    [id::OID_LT, id::OID_LE, id::OID_EQ, id::OID_NE, id::OID_GE, id::OID_GT],
)];

const fn cast_from(from: TypeId, context: CastContext) -> Cast {
    Cast { from, to: TypeId::OID, context, run: of_integer }
}
const fn cast_to(to: TypeId, context: CastContext) -> Cast {
    Cast { from: TypeId::OID, to, context, run: to_integer }
}

pub(super) const CASTS: &[Cast] = &[
    cast_from(TypeId::INT2, Implicit),
    cast_from(TypeId::INT4, Implicit),
    cast_from(TypeId::INT8, Implicit),
    cast_to(TypeId::INT4, Assignment),
    cast_to(TypeId::INT8, Assignment),
];

mod aggregates {
    use crate::agg::{Kind, aggregates};

    aggregates! {
        120 MIN_OID "min" (Oid) -> Oid = Kind::Min;
        121 MAX_OID "max" (Oid) -> Oid = Kind::Max;
    }
}
pub(super) const AGGREGATES: &[AggDef] = aggregates::DEFS;

#[cfg(test)]
pub(super) const SAMPLES: &[&[&str]] =
    &[&["0", " 0 ", "-0"], &["1", "01", "+1"], &["2147483648", "-2147483648"], &["4294967295", "-1"]];

#[cfg(test)]
mod tests {
    use crate::TypeId;
    use crate::catalog::tests::is_refused;

    #[test]
    fn what_is_no_oid_is_refused() {
        for wrong in ["", " ", "-", "x", "1 2", "0x1", "1.0"] {
            is_refused(
                TypeId::OID,
                wrong,
                "22P02",
                &format!("invalid input syntax for type oid: \"{wrong}\""),
            );
        }
        for far in ["4294967296", "-2147483649", "99999999999999999999"] {
            is_refused(TypeId::OID, far, "22003", &format!("value \"{far}\" is out of range for type oid"));
        }
    }
}
