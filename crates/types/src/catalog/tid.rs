//! tid: where a row is, 48 bits in 6 bytes, the highest first: a block of 32 bits, and an offset in it of 16.
//! In a table's column `ctid` they are the row's OID.
//!
//! Source: PostgreSQL 15's documentation, 5.5 and 8.19, and its answers.

use super::{Cast, Form, Key, compares, comparisons};
use crate::agg::AggDef;
use crate::func::{Call, OperatorDef, functions};
use crate::ty::{Category, TypeDef};
use crate::{SqlResult, TypeId, Value, text};

pub(super) const TYPE: TypeDef = TypeDef::opaque(27, "tid", "tid", Category::User, &FORM).array(1010);

/// The bytes of every value.
pub const WIDTH: usize = 6;

static FORM: Form = Form {
    width: Some(WIDTH as u8),
    input: |text, _, _| read(text),
    output: |_, bytes, out| {
        let bits = bits(bytes);
        out.push_str(&format!("({},{})", bits >> 16, bits & 0xffff))
    },
    compare: |a, b| a.cmp(b),
    key: Key::Fixed {
        width: WIDTH as u8,
        make: |bytes| {
            let mut key = [0; 16];
            key[..WIDTH].copy_from_slice(bytes.first_chunk::<WIDTH>().unwrap_or(&[0; WIDTH]));
            key
        },
    },
};

/// The bits of a value.
pub fn bits(bytes: &[u8]) -> u64 {
    bytes.iter().take(WIDTH).fold(0, |bits, b| bits << 8 | u64::from(*b))
}

/// The bytes of a value of these bits.
pub fn bytes(bits: u64) -> [u8; WIDTH] {
    let mut bytes = [0; WIDTH];
    bytes.copy_from_slice(&bits.to_be_bytes()[8 - WIDTH..]);
    bytes
}

/// A value of the type.
pub fn tid(bits: u64) -> Value {
    Value::Opaque(TypeId::TID, Box::new(bytes(bits)))
}

/// Two numbers behind a parenthesis and a comma. As PostgreSQL reads it, what stands before the parenthesis
/// and behind the other one does not count, and a number is what C's strtoul makes of it.
fn read(written: &str) -> SqlResult<Value> {
    parse(written).map(tid).ok_or_else(|| text::invalid_syntax("tid", written))
}

fn parse(written: &str) -> Option<u64> {
    let (mut starts, mut found) = ([0; 2], 0);
    for (at, c) in written.bytes().enumerate() {
        if found == 2 || c == b')' {
            break;
        }
        if c == b',' || c == b'(' && found == 0 {
            starts[found] = at + 1;
            found += 1
        }
    }
    if found < 2 {
        return None;
    }
    let block = number(&written[starts[0]..], b',')?;
    // What fits either 32 bits or, with its sign, 32 bits of a signed number.
    let block = u32::try_from(block).ok().or_else(|| i32::try_from(block as i64).ok().map(|n| n as u32))?;
    let offset = u16::try_from(number(&written[starts[1]..], b')')?).ok()?;
    Some(u64::from(block) << 16 | u64::from(offset))
}

/// A number as C's strtoul reads it, with this behind it; 0 where there is nothing else.
fn number(written: &str, end: u8) -> Option<u64> {
    let trimmed = written.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
    let (minus, digits) = match trimmed.as_bytes().first() {
        Some(b'-') => (true, &trimmed[1..]),
        Some(b'+') => (false, &trimmed[1..]),
        _ => (false, trimmed),
    };
    let length = digits.bytes().take_while(u8::is_ascii_digit).count();
    if length == 0 {
        return (written.as_bytes().first() == Some(&end)).then_some(0);
    }
    let value = digits[..length].parse::<u64>().ok()?;
    (digits.as_bytes().get(length) == Some(&end)).then_some(if minus { value.wrapping_neg() } else { value })
}

/// The row on which a cursor stands, of a table by its name and number.
fn current_of(c: &Call<'_>) -> SqlResult<Value> {
    Ok(c.ctx.caller.current_row(c.text(0)?, (c.text(1)?, c.int4(2)?))?.map_or(Value::Null, tid))
}

functions! {
    1700 TID_LT "tidlt" (Tid, Tid) -> Bool = compares!(is_lt);
    1701 TID_LE "tidle" (Tid, Tid) -> Bool = compares!(is_le);
    1702 TID_EQ "tideq" (Tid, Tid) -> Bool = compares!(is_eq);
    1703 TID_NE "tidne" (Tid, Tid) -> Bool = compares!(is_ne);
    1704 TID_GE "tidge" (Tid, Tid) -> Bool = compares!(is_ge);
    1705 TID_GT "tidgt" (Tid, Tid) -> Bool = compares!(is_gt);
    1706 CURRENT_OF "$current_of" (Text, Text, Int4) -> Tid = |c| current_of(c), stable, asks;
}

pub(super) const OPERATORS: &[&[OperatorDef]] = &[&comparisons(
    (TypeId::TID, TypeId::TID),
    [id::TID_LT, id::TID_LE, id::TID_EQ, id::TID_NE, id::TID_GE, id::TID_GT],
)];
pub(super) const CASTS: &[Cast] = &[];

mod aggregates {
    use crate::agg::{Kind, aggregates};

    aggregates! {
        160 MIN_TID "min" (Tid) -> Tid = Kind::Min;
        161 MAX_TID "max" (Tid) -> Tid = Kind::Max;
    }
}
pub(super) const AGGREGATES: &[AggDef] = aggregates::DEFS;

#[cfg(test)]
pub(super) const SAMPLES: &[&[&str]] = &[
    &["(0,0)", "(,)", "x( 0,+0)y"],
    &["(0,1)", "(00,01)"],
    &["(1,0)"],
    &["(1,65535)"],
    &["(4294967295,0)", "(-1,0)"],
];

#[cfg(test)]
mod tests {
    use crate::TypeId;
    use crate::catalog::tests::is_refused;

    #[test]
    fn what_is_no_tid_is_refused() {
        for wrong in [
            "",
            "(",
            "()",
            "(1)",
            "(1,",
            "(1,1",
            "1,1",
            "(4294967296,1)",
            "(1,65536)",
            "(1,-1)",
            "(x,1)",
            "(1 ,1)",
            "( ,1)",
        ] {
            is_refused(
                TypeId::TID,
                wrong,
                "22P02",
                &format!("invalid input syntax for type tid: \"{wrong}\""),
            );
        }
    }
}
