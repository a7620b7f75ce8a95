//! What every type here, and every type of arrays, promises (catalog/O1 to catalog/O3), to be tried with
//! values of its own.

use super::SAMPLES;
use crate::func::Context;
use crate::value::{compare, hash_value};
use crate::{Type, TypeId, Value, cast, key, text};
use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hasher};

fn read(ty: TypeId, text: &str) -> Value {
    text::input(text, Type::new(ty), &Context::EMPTY).unwrap_or_else(|e| panic!("{ty} {text:?}: {e}"))
}

fn write(v: &Value) -> String {
    let mut out = String::new();
    text::output(v.as_ref(&mut Vec::new()), Type::TEXT, &mut out);
    out
}

#[test]
fn promises_are_kept() {
    assert_eq!(SAMPLES.len(), TypeId::all().filter(|t| t.form().is_some()).count());
    for (ty, texts) in SAMPLES {
        keeps_promises(*ty, texts);
    }
}

pub(crate) fn keeps_promises(ty: TypeId, texts: &[&[&str]]) {
    let form = ty.form().expect("a type of the catalog");
    let values: Vec<(usize, Value)> =
        texts.iter().enumerate().flat_map(|(n, group)| group.iter().map(move |t| (n, read(ty, t)))).collect();
    let mut scratch = (Vec::new(), Vec::new());
    for (n, a) in &values {
        let Value::Opaque(of, bytes) = a else { panic!("{a:?} is no value of {ty}") };
        assert_eq!(*of, ty);
        assert!(form.width.is_none_or(|w| bytes.len() == usize::from(w)), "{a}");
        let again = read(ty, &write(a));
        let order = compare(a.as_ref(&mut scratch.0), again.as_ref(&mut scratch.1));
        assert_eq!(order, Ordering::Equal, "{a} is read back as {again}");
        // NULL casts to NULL, text to the value, and the value to its text.
        let as_text = cast::cast(a.clone(), ty, Type::TEXT, true, &Context::EMPTY).expect("a cast to text");
        assert_eq!(as_text, Value::Text(write(a)));
        for (m, b) in &values {
            let (x, y) = (a.as_ref(&mut scratch.0), b.as_ref(&mut scratch.1));
            assert_eq!(compare(x, y), n.cmp(m), "{a} against {b}");
            for (desc, not_null) in [(false, true), (false, false), (true, true), (true, false)] {
                let (mut j, mut k) = (Vec::new(), Vec::new());
                key::encode(x, ty, desc, false, not_null, &mut j);
                key::encode(y, ty, desc, false, not_null, &mut k);
                let order = if desc { m.cmp(n) } else { n.cmp(m) };
                assert_eq!(j.cmp(&k), order, "the keys of {a} and {b}");
                assert!(j == k || !j.starts_with(&k), "the key of {a} begins with that of {b}");
                assert!(key::width(ty, not_null).is_none_or(|w| w == j.len()), "{a}");
            }
            if n == m {
                let hash = |v| {
                    let mut h = DefaultHasher::new();
                    hash_value(v, &mut h);
                    h.finish()
                };
                assert_eq!(hash(x), hash(y), "{a} and {b} are equal");
            }
        }
    }
    // catalog/O1: whatever a damaged file holds, nothing panics.
    for length in 0..40 {
        for fill in [0, 1, 0x7f, 0x80, 0xff] {
            let bytes = vec![fill; length];
            (form.output)(ty, &bytes, &mut String::new());
            form.key.push(&bytes, &mut Vec::new());
            let _ = (form.compare)(&bytes, &[]);
            let _ = (form.compare)(&[], &bytes);
        }
    }
}

/// A text that is none of the type's, and the message.
pub(crate) fn is_refused(ty: TypeId, text: &str, sqlstate: &str, message: &str) {
    let e = text::input(text, Type::new(ty), &Context::EMPTY).expect_err("it is refused");
    assert_eq!((e.sqlstate(), e.to_string().as_str()), (sqlstate, message));
}
