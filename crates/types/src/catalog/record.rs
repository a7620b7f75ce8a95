//! Rows as values, of the only kind that there is: what `information_schema._pg_expandarray` gives, an item
//! of an array and its place. The bytes are the place, the lowest first, and the item's text.
//!
//! Source: PostgreSQL 15's documentation, 8.16, and its answers.

use super::{Form, Key};
use crate::func::{Call, functions};
use crate::{SqlError, SqlResult, Type, TypeId, Value, sqlstate, text};

pub(crate) static FORM: Form = Form {
    width: None,
    input: |_, _, _| {
        let message = "input of anonymous composite types is not implemented";
        Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message))
    },
    output: |_, bytes, out| {
        let (place, item) = parts(bytes);
        let is_quoted =
            item.is_empty() || item.contains(|c: char| "(),\"\\".contains(c) || c.is_whitespace());
        match is_quoted {
            true => {
                out.push_str(&format!("(\"{}\",{place})", item.replace('\\', "\\\\").replace('"', "\"\"")))
            }
            false => out.push_str(&format!("({item},{place})")),
        }
    },
    compare: |a, b| a.cmp(b),
    key: Key::Ended(|bytes, out| {
        for b in bytes {
            out.extend([1, *b])
        }
        out.push(0)
    }),
};

fn parts(bytes: &[u8]) -> (i32, String) {
    let place = bytes.first_chunk().map_or(0, |b| i32::from_le_bytes(*b));
    (place, String::from_utf8_lossy(bytes.get(4..).unwrap_or_default()).into_owned())
}

fn expanded(c: &Call<'_>) -> SqlResult<Value> {
    let mut bytes = c.int4(1)?.to_le_bytes().to_vec();
    if let Some(item) = c.args.first() {
        text::output(*item, Type::TEXT, &mut bytes)
    }
    Ok(Value::Opaque(TypeId::RECORD, bytes.into()))
}

functions! {
    1284 EXPANDED "$expanded" (Any, Int4) -> Record = |c| expanded(c), lax;
    1285 EXPANDED_ITEM "$expanded_item" (Record) -> Int2 =
        |c| text::input(&parts(c.opaque(0)?).1, Type::new(TypeId::INT2), c.ctx);
    // There are no partitions.
    1289 PARTITION_ANCESTORS "$partition_ancestors" (Regclass) -> RegclassArray =
        |_| Ok(crate::array::empty(TypeId::REGCLASS.of_arrays()));
    1286 EXPANDED_PLACE "$expanded_place" (Record) -> Int4 = |c| Ok(Value::Int4(parts(c.opaque(0)?).0));
}
