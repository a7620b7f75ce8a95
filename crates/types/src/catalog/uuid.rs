//! uuid: 16 bytes, in the order of their text.
//!
//! Source: PostgreSQL 15's documentation, 8.12 and 9.14, and its answers.

use super::{Cast, Form, Key, compares, comparisons};
use crate::agg::AggDef;
use crate::func::{OperatorDef, functions};
use crate::ty::{Category, TypeDef};
use crate::{SqlResult, TypeId, Value, text};

pub(super) const TYPE: TypeDef = TypeDef::opaque(2950, "uuid", "uuid", Category::User, &FORM).array(2951);

static FORM: Form = Form {
    width: Some(16),
    input: |text, _, _| read(text),
    output: |_, bytes, out| write(bytes, out),
    compare: |a, b| a.cmp(b),
    key: Key::Fixed { width: 16, make: |b| *b.first_chunk().unwrap_or(&[0; 16]) },
};

/// 32 hexadecimal digits, in any case; a hyphen may stand behind every four of them, and braces around all.
fn read(written: &str) -> SqlResult<Value> {
    parse(written.as_bytes())
        .map(|bytes| Value::Opaque(TypeId::UUID, Box::new(bytes)))
        .ok_or_else(|| text::invalid_syntax("uuid", written))
}

fn parse(written: &[u8]) -> Option<[u8; 16]> {
    let mut rest = match written {
        [b'{', inner @ .., b'}'] => inner,
        [b'{', ..] => return None,
        plain => plain,
    };
    let mut bytes = [0; 16];
    for (i, byte) in bytes.iter_mut().enumerate() {
        if let [b'-', behind @ ..] = rest
            && i % 2 == 0
            && i > 0
        {
            rest = behind;
        }
        let [high, low, behind @ ..] = rest else { return None };
        let digit = |d: u8| char::from(d).to_digit(16);
        *byte = (digit(*high)? << 4 | digit(*low)?) as u8;
        rest = behind;
    }
    rest.is_empty().then_some(bytes)
}

fn write(bytes: &[u8], out: &mut String) {
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        for digit in [byte >> 4, byte & 15] {
            out.extend(char::from_digit(digit.into(), 16));
        }
    }
}

/// A random UUID, version 4 of RFC 9562.
fn random(bits: [u64; 2]) -> Value {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&bits[0].to_be_bytes());
    bytes[8..].copy_from_slice(&bits[1].to_be_bytes());
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Value::Opaque(TypeId::UUID, Box::new(bytes))
}

functions! {
    800 UUID_LT "uuid_lt" (Uuid, Uuid) -> Bool = compares!(is_lt);
    801 UUID_LE "uuid_le" (Uuid, Uuid) -> Bool = compares!(is_le);
    802 UUID_EQ "uuid_eq" (Uuid, Uuid) -> Bool = compares!(is_eq);
    803 UUID_NE "uuid_ne" (Uuid, Uuid) -> Bool = compares!(is_ne);
    804 UUID_GE "uuid_ge" (Uuid, Uuid) -> Bool = compares!(is_ge);
    805 UUID_GT "uuid_gt" (Uuid, Uuid) -> Bool = compares!(is_gt);
    806 GEN_RANDOM_UUID "gen_random_uuid" () -> Uuid = |c| Ok(random([(c.ctx.random)(), (c.ctx.random)()])), volatile;
}

pub(super) const OPERATORS: &[&[OperatorDef]] = &[&comparisons(
    (TypeId::UUID, TypeId::UUID),
    [id::UUID_LT, id::UUID_LE, id::UUID_EQ, id::UUID_NE, id::UUID_GE, id::UUID_GT],
)];
pub(super) const CASTS: &[Cast] = &[];
pub(super) const AGGREGATES: &[AggDef] = &[];

#[cfg(test)]
pub(super) const SAMPLES: &[&[&str]] = &[
    &["00000000-0000-0000-0000-000000000000"],
    &[
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
        "{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}",
        "a0eebc999c0b4ef8bb6d6bb9bd380a11",
        "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
    ],
    &["ffffffff-ffff-ffff-ffff-ffffffffffff"],
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::tests::is_refused;

    #[test]
    fn what_is_no_uuid_is_refused() {
        for wrong in [
            "",
            "11111111-1111-1111-1111-11111111111",
            "{11111111-1111-1111-1111-111111111111",
            "11111111-1111-1111-1111-111111111111-",
            "111-11111-1111-1111-1111-111111111111",
            "g1111111-1111-1111-1111-111111111111",
            " 11111111-1111-1111-1111-111111111111",
        ] {
            is_refused(
                TypeId::UUID,
                wrong,
                "22P02",
                &format!("invalid input syntax for type uuid: \"{wrong}\""),
            );
        }
    }

    #[test]
    fn random_ones_say_their_version() {
        for bits in [[0, 0], [u64::MAX; 2]] {
            let Value::Opaque(_, bytes) = random(bits) else { panic!("a uuid is opaque") };
            let mut text = String::new();
            write(&bytes, &mut text);
            assert!(text[14..].starts_with('4') && "89ab".contains(&text[19..20]), "{text}");
        }
    }
}
