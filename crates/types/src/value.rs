//! Values, owned and borrowed.

use crate::catalog::{Key, record};
use crate::{Numeric, Packed, Type, TypeId, text};
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// A value of a supported type. char(n) values keep no trailing spaces (they are padded at output);
/// timestamps are microseconds from 2000-01-01 UTC, dates days from 2000-01-01, with `MIN`/`MAX` for
/// -infinity/infinity.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Int2(i16),
    Int4(i32),
    Int8(i64),
    Float8(f64),
    Numeric(Numeric),
    /// text, varchar, char(n) and unknown
    Text(String),
    Bytea(Vec<u8>),
    Date(i32),
    Timestamp(i64),
    Timestamptz(i64),
    /// Of a type in [`crate::catalog`].
    Opaque(TypeId, Box<[u8]>),
}

/// The same, borrowed. A NUMERIC is its encoding ([`Numeric::encode`]), or the word of a column of few
/// digits: so that a row's bytes serve as they are.
#[derive(Clone, Copy, Debug)]
pub enum ValueRef<'a> {
    Null,
    Bool(bool),
    Int2(i16),
    Int4(i32),
    Int8(i64),
    Float8(f64),
    Numeric(&'a [u8]),
    Text(&'a str),
    Bytea(&'a [u8]),
    Date(i32),
    Timestamp(i64),
    Timestamptz(i64),
    Opaque(TypeId, &'a [u8]),
    /// A NUMERIC as well.
    Packed(Packed),
}

impl ValueRef<'_> {
    /// The bytes of a string, a bytea, a numeric or an opaque value; none of anything else.
    #[inline]
    pub fn byte_len(&self) -> usize {
        match self {
            ValueRef::Text(s) => s.len(),
            ValueRef::Bytea(b) | ValueRef::Numeric(b) | ValueRef::Opaque(_, b) => b.len(),
            ValueRef::Packed(_) => size_of::<i64>(),
            _ => 0,
        }
    }
    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self, ValueRef::Null)
    }
    /// A NUMERIC, in whichever form; nothing of anything else.
    #[inline]
    pub fn numeric(&self) -> Option<Numeric> {
        match self {
            ValueRef::Numeric(b) => Some(Numeric::decode(b)),
            ValueRef::Packed(p) => Some(p.numeric()),
            _ => None,
        }
    }
}

impl Value {
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }
    /// Whether it is the same value, not merely an equal one: NaN is itself, zeros of different signs and
    /// numerics of different scales are different.
    pub fn is_same(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Float8(x), Value::Float8(y)) => x.to_bits() == y.to_bits(),
            (Value::Numeric(x), Value::Numeric(y)) => x == y && x.scale() == y.scale(),
            _ => self == other,
        }
    }
    /// The natural type of the value; `None` for NULL.
    pub fn type_id(&self) -> Option<TypeId> {
        Some(match self {
            Value::Null => return None,
            Value::Bool(_) => TypeId::BOOL,
            Value::Int2(_) => TypeId::INT2,
            Value::Int4(_) => TypeId::INT4,
            Value::Int8(_) => TypeId::INT8,
            Value::Float8(_) => TypeId::FLOAT8,
            Value::Numeric(_) => TypeId::NUMERIC,
            Value::Text(_) => TypeId::TEXT,
            Value::Bytea(_) => TypeId::BYTEA,
            Value::Date(_) => TypeId::DATE,
            Value::Timestamp(_) => TypeId::TIMESTAMP,
            Value::Timestamptz(_) => TypeId::TIMESTAMPTZ,
            Value::Opaque(ty, _) => *ty,
        })
    }
}

impl Value {
    /// Borrows the value; a NUMERIC is encoded into `scratch`, which is cleared first.
    #[inline]
    pub fn as_ref<'a>(&'a self, scratch: &'a mut Vec<u8>) -> ValueRef<'a> {
        match self {
            Value::Null => ValueRef::Null,
            Value::Bool(v) => ValueRef::Bool(*v),
            Value::Int2(v) => ValueRef::Int2(*v),
            Value::Int4(v) => ValueRef::Int4(*v),
            Value::Int8(v) => ValueRef::Int8(*v),
            Value::Float8(v) => ValueRef::Float8(*v),
            Value::Numeric(n) => {
                scratch.clear();
                n.encode(scratch);
                ValueRef::Numeric(scratch)
            }
            Value::Text(s) => ValueRef::Text(s),
            Value::Bytea(b) => ValueRef::Bytea(b),
            Value::Date(v) => ValueRef::Date(*v),
            Value::Timestamp(v) => ValueRef::Timestamp(*v),
            Value::Timestamptz(v) => ValueRef::Timestamptz(*v),
            Value::Opaque(ty, b) => ValueRef::Opaque(*ty, b),
        }
    }
}

impl ValueRef<'_> {
    /// The value on its own.
    #[inline]
    pub fn to_owned(&self) -> Value {
        match *self {
            ValueRef::Null => Value::Null,
            ValueRef::Bool(v) => Value::Bool(v),
            ValueRef::Int2(v) => Value::Int2(v),
            ValueRef::Int4(v) => Value::Int4(v),
            ValueRef::Int8(v) => Value::Int8(v),
            ValueRef::Float8(v) => Value::Float8(v),
            ValueRef::Numeric(b) => Value::Numeric(Numeric::decode(b)),
            ValueRef::Packed(p) => Value::Numeric(p.numeric()),
            ValueRef::Text(s) => Value::Text(s.to_string()),
            ValueRef::Bytea(b) => Value::Bytea(b.to_vec()),
            ValueRef::Date(v) => Value::Date(v),
            ValueRef::Timestamp(v) => Value::Timestamp(v),
            ValueRef::Timestamptz(v) => Value::Timestamptz(v),
            ValueRef::Opaque(ty, b) => Value::Opaque(ty, b.into()),
        }
    }

    /// Where the kind of value stands when values of different kinds are compared, which no query does.
    fn rank(&self) -> u8 {
        match self {
            ValueRef::Bool(_) => 0,
            ValueRef::Int2(_) => 1,
            ValueRef::Int4(_) => 2,
            ValueRef::Int8(_) => 3,
            ValueRef::Float8(_) => 4,
            ValueRef::Numeric(_) | ValueRef::Packed(_) => 5,
            ValueRef::Text(_) => 6,
            ValueRef::Bytea(_) => 7,
            ValueRef::Date(_) => 8,
            ValueRef::Timestamp(_) => 9,
            ValueRef::Timestamptz(_) => 10,
            ValueRef::Opaque(..) => 11,
            ValueRef::Null => 12,
        }
    }
}

/// PostgreSQL's order of floats: NaN equals itself and is the greatest, the zeros are equal.
#[inline]
pub fn compare_f64(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// PostgreSQL's order of two values of one type: strings by their bytes, NaN greatest, NULL greater still and
/// equal to itself. Values of char(n) are held without trailing spaces, so that their bytes compare as they
/// should.
#[inline]
pub fn compare(a: ValueRef<'_>, b: ValueRef<'_>) -> Ordering {
    use ValueRef::*;
    match (a, b) {
        (Int4(a), Int4(b)) | (Date(a), Date(b)) => a.cmp(&b),
        (Int8(a), Int8(b)) | (Timestamp(a), Timestamp(b)) | (Timestamptz(a), Timestamptz(b)) => a.cmp(&b),
        (Text(a), Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Packed(a), Packed(b)) => a.order(b),
        (Numeric(a), Numeric(b)) => crate::Numeric::cmp_encoded(a, b),
        (Packed(a), Numeric(b)) => a.order_encoded(b),
        (Numeric(a), Packed(b)) => b.order_encoded(a).reverse(),
        (Int2(a), Int2(b)) => a.cmp(&b),
        (Bool(a), Bool(b)) => a.cmp(&b),
        (Float8(a), Float8(b)) => compare_f64(a, b),
        (Bytea(a), Bytea(b)) => a.cmp(b),
        (Opaque(s, a), Opaque(t, b)) => compare_opaque(s, a, t, b),
        (a, b) => a.rank().cmp(&b.rank()),
    }
}

/// Values of different types, which no query compares, stand in the order of the types' numbers.
fn compare_opaque(s: TypeId, a: &[u8], t: TypeId, b: &[u8]) -> Ordering {
    match s.form() {
        Some(form) if s == t => (form.compare)(a, b),
        // Rows tell how they are compared.
        Some(form) if record::is_row(s) && record::is_row(t) => (form.compare)(a, b),
        _ => s.cmp(&t),
    }
}

/// Feeds a hash so that values that [`compare`] finds equal give the same.
#[inline]
pub fn hash_value(v: ValueRef<'_>, h: &mut impl Hasher) {
    match v {
        ValueRef::Null => h.write_u8(0),
        ValueRef::Bool(v) => h.write_u8(u8::from(v)),
        ValueRef::Int2(v) => h.write_i16(v),
        ValueRef::Int4(v) | ValueRef::Date(v) => h.write_i32(v),
        ValueRef::Int8(v) | ValueRef::Timestamp(v) | ValueRef::Timestamptz(v) => h.write_i64(v),
        ValueRef::Float8(v) => h.write_u64(if v.is_nan() {
            f64::NAN.to_bits()
        } else if v == 0.0 {
            0
        } else {
            v.to_bits()
        }),
        ValueRef::Numeric(b) => Numeric::decode(b).hash(h),
        ValueRef::Packed(p) => p.numeric().hash(h),
        ValueRef::Text(s) => s.hash(h),
        ValueRef::Bytea(b) => b.hash(h),
        // Equal values have equal keys, and may have different bytes.
        ValueRef::Opaque(ty, b) => match ty.form().map(|form| &form.key) {
            Some(Key::Fixed { width, make }) => h.write(&make(b)[..usize::from(*width)]),
            Some(Key::Ended(push)) => {
                let mut key = Vec::new();
                push(b, &mut key);
                h.write(&key)
            }
            None => {}
        },
    }
}

/// The value's text, for messages; `NULL` for NULL.
impl std::fmt::Display for ValueRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_null() {
            return f.write_str("NULL");
        }
        let mut out = String::new();
        text::output(*self, Type::TEXT, &mut out);
        f.write_str(&out)
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_ref(&mut Vec::new()).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::DefaultHasher;

    fn hash(v: ValueRef<'_>) -> u64 {
        let mut h = DefaultHasher::new();
        hash_value(v, &mut h);
        h.finish()
    }

    #[test]
    fn equal_values_may_not_be_the_same() {
        let number = |s: &str| Value::Numeric(Numeric::parse(s).unwrap());
        assert!(Value::Float8(f64::NAN).is_same(&Value::Float8(f64::NAN)));
        assert!(!Value::Float8(0.0).is_same(&Value::Float8(-0.0)));
        assert!(number("1.50").is_same(&number("1.50")) && number("NaN").is_same(&number("NaN")));
        assert!(!number("1.5").is_same(&number("1.50")));
        assert!(Value::Null.is_same(&Value::Null) && !Value::Int4(1).is_same(&Value::Int8(1)));
    }

    #[test]
    fn equal_values_hash_alike() {
        let numeric = |s: &str| {
            let mut b = Vec::new();
            Numeric::parse(s).unwrap().encode(&mut b);
            b
        };
        let pairs = [
            ("1.0", "1.00"),
            ("0", "0.000"),
            ("-12.5", "-12.50000000000000000000000000000000000000000"),
            ("1e40", "1e40"),
            ("NaN", "nan"),
            ("170141183460469231731687303715884105728", "170141183460469231731687303715884105728.0"),
            (
                "10000000000000000000000000000000000000",
                "10000000000000000000000000000000000000.00000000000000000000",
            ),
        ];
        for (a, b) in pairs {
            let (a, b) = (numeric(a), numeric(b));
            let (a, b) = (ValueRef::Numeric(&a), ValueRef::Numeric(&b));
            assert_eq!(compare(a, b), Ordering::Equal, "{a} {b}");
            assert_eq!(hash(a), hash(b), "{a} {b}");
        }
        let (a, b) = (ValueRef::Float8(0.0), ValueRef::Float8(-0.0));
        assert_eq!((compare(a, b), hash(a)), (Ordering::Equal, hash(b)));
        let (a, b) = (ValueRef::Float8(f64::NAN), ValueRef::Float8(-f64::NAN));
        assert_eq!((compare(a, b), hash(a)), (Ordering::Equal, hash(b)));
        assert_eq!(compare(ValueRef::Float8(f64::INFINITY), a), Ordering::Less);
    }

    #[test]
    fn values_survive_borrowing() {
        let values = [
            Value::Null,
            Value::Bool(true),
            Value::Int2(-3),
            Value::Int4(4),
            Value::Int8(i64::MIN),
            Value::Float8(1.5),
            Value::Numeric(Numeric::parse("-123456789012345678901234567890123456789012.50").unwrap()),
            Value::Text("héllo".into()),
            Value::Bytea(vec![0, 255]),
            Value::Date(8796),
            Value::Timestamp(1),
            Value::Timestamptz(-1),
        ];
        for v in values {
            assert_eq!(v.as_ref(&mut vec![9]).to_owned(), v);
        }
    }
}
