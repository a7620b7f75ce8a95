//! The parser, the stored form and what is made of both, with texts drawn at random and bytes that are
//! damaged.

use super::stored::{self, Node, Walk};
use super::*;
use crate::func::{self, id};
use crate::{Type, cast, text};
use std::cmp::Ordering;

fn read(ty: TypeId, json: &str) -> SqlResult<Value> {
    text::input(json, Type::new(ty), &Context::EMPTY)
}

fn value(json: &str) -> Value {
    read(TypeId::JSONB, json).unwrap_or_else(|e| panic!("{json}: {e} {:?}", e.0.detail))
}

fn bytes(v: &Value) -> &[u8] {
    match v {
        Value::Opaque(_, b) => b,
        other => panic!("{other:?}"),
    }
}

/// Numbers without a pattern that matters.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }

    /// A text of JSON.
    fn json(&mut self, depth: u32, out: &mut String) {
        const SCALARS: [&str; 12] = [
            "null",
            "true",
            "false",
            "0",
            "-1.50",
            "1e3",
            "\"\"",
            "\"a\"",
            "\"\\u00e9\\n\"",
            "\"\\ud83d\\ude00\"",
            "12345678901234567890.5",
            "\"b c\"",
        ];
        let blank = [" ", "", "\n", ""][self.below(4) as usize];
        match self.below(if depth == 0 { 5 } else { 10 }) {
            n @ 5.. => {
                let (is_array, count) = (n < 8, self.below(4));
                out.push(if is_array { '[' } else { '{' });
                for n in 0..count {
                    out.push_str(if n > 0 { "," } else { "" });
                    out.push_str(blank);
                    if !is_array {
                        out.push_str(["\"a\":", "\"b\" :", "\"bb\":", "\"\":"][self.below(4) as usize]);
                    }
                    self.json(depth - 1, out);
                }
                out.push_str(blank);
                out.push(if is_array { ']' } else { '}' });
            }
            _ => out.push_str(SCALARS[self.below(SCALARS.len() as u64) as usize]),
        }
    }
}

#[test]
fn what_is_written_is_read_back() {
    let mut dice = Dice(7);
    let mut others: Vec<Value> = Vec::new();
    for _ in 0..2_000 {
        let mut json = String::new();
        dice.json(5, &mut json);
        let v = value(&json);
        assert!(is_whole(bytes(&v)), "{json}");
        assert_eq!(value(&v.to_string()), v, "{json}");
        assert_eq!(read(TypeId::JSON, &json).expect("json").to_string(), json);
        let pretty = func::call(id::JSONB_PRETTY, &[v.as_ref(&mut Vec::new())], &Context::EMPTY);
        assert_eq!(value(&pretty.expect("a text").to_string()), v);
        // The order is that of the keys, and one of its own.
        let key = |v: &Value| {
            let mut key = Vec::new();
            order::push_key(bytes(v), &mut key);
            key
        };
        for other in &others {
            let order = order::compare(bytes(&v), bytes(other));
            assert_eq!(order, key(&v).cmp(&key(other)), "{v} and {other}");
            assert_eq!(order, order::compare(bytes(other), bytes(&v)).reverse(), "{v} and {other}");
        }
        // Whatever contains a value contains itself.
        assert_eq!(change::contains(bytes(&v), bytes(&v), &Limits::NONE), Ok(true), "{v}");
        if others.len() < 60 {
            others.push(v);
        }
    }
}

#[test]
fn texts_that_are_none_are_refused_wherever_they_break() {
    let mut dice = Dice(11);
    const ODD: &[&str] =
        &["", "x", "\"", "\\", "{", "}", "[", "]", ",", ":", "1", "-", "\\u12", "é", "\u{1}", "\0"];
    for _ in 0..3_000 {
        let mut json = String::new();
        dice.json(4, &mut json);
        let places: Vec<usize> = (0..=json.len()).filter(|n| json.is_char_boundary(*n)).collect();
        let at = places[dice.below(places.len() as u64) as usize];
        let odd = ODD[dice.below(ODD.len() as u64) as usize];
        let end = *places.iter().find(|n| **n >= at + dice.below(3) as usize).unwrap_or(&json.len());
        json.replace_range(at..end, odd);
        let (plain, binary) = (read(TypeId::JSON, &json), read(TypeId::JSONB, &json));
        match (&plain, &binary) {
            (Ok(_), Ok(v)) => assert!(is_whole(bytes(v)), "{json}"),
            // Halves of surrogates are what json may have alone.
            (Ok(_), Err(e)) => assert!(json.contains("\\u"), "{json}: {e}"),
            (Err(a), Err(b)) => assert!(a == b || json.contains("\\u"), "{json}: {a} {b}"),
            (Err(e), Ok(_)) => panic!("{json}: {e}"),
        }
        for e in [plain.err(), binary.err()].into_iter().flatten() {
            assert!(matches!(e.sqlstate(), "22P02" | "22P05"), "{json}: {e}");
            assert!(e.0.detail.is_some() && e.0.context.is_some(), "{json}: {e}");
        }
    }
}

#[test]
fn damaged_values_are_told_of() {
    let whole = value(r#"{"a": [1, 2.5, {"bb": null, "c": "x"}], "ab": true, "b": {"d": [[], {}]}}"#);
    let other = value(r#"{"a": [1], "b": {}}"#);
    let keys = crate::array::of_values(TypeId::TEXT, &[Value::Text("a".into()), Value::Text("2".into())]);
    let keys = keys.expect("an array");
    let mut told = 0;
    let mut dice = Dice(3);
    for n in 0..4_000 {
        let mut damaged = bytes(&whole).to_vec();
        if n % 2 == 0 {
            damaged.truncate(dice.below(damaged.len() as u64) as usize);
        } else {
            for _ in 0..=dice.below(3) {
                let at = dice.below(damaged.len() as u64) as usize;
                damaged[at] = [0, 1, 5, 6, 0x7f, 0xff, dice.below(256) as u8][dice.below(7) as usize];
            }
        }
        told += usize::from(!is_whole(&damaged));
        // No function panics, whether it is asked for all or for a part.
        let v = ValueRef::Opaque(TypeId::JSONB, &damaged);
        let _ = v.to_owned().to_string();
        order::push_key(&damaged, &mut Vec::new());
        let _ = order::compare(&damaged, bytes(&whole));
        let scratch = &mut [Vec::new(), Vec::new()];
        let [s, t] = scratch;
        let (o, k) = (other.as_ref(s), keys.as_ref(t));
        let text = ValueRef::Text("a");
        for (id, args) in [
            (id::JSONB_PRETTY, &[v][..]),
            (id::JSONB_STRIP_NULLS, &[v]),
            (id::JSONB_KEYS, &[v]),
            (id::JSONB_EACH_VALUE, &[v]),
            (id::JSONB_FIELD, &[v, text]),
            (id::JSONB_TEXT_AT, &[v, k]),
            (id::JSONB_CONTAINS, &[v, o]),
            (id::JSONB_CONTAINED, &[v, o]),
            (id::JSONB_CONCAT, &[v, o]),
            (id::JSONB_DELETE_PATH, &[v, k]),
            (id::JSONB_SET_OR_CREATE, &[v, k, o]),
            (id::TO_JSON, &[v]),
        ] {
            if let Err(e) = func::call(id, args, &Context::EMPTY) {
                assert!(matches!(e.sqlstate(), "XX001" | "22023" | "22P02" | "54001"), "{e}");
            }
        }
    }
    assert!(told > 3_000, "{told}");
}

#[test]
fn depth_has_a_bound() {
    let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    let deep = value(&nested(MAX_DEPTH));
    assert_eq!(deep.to_string(), nested(MAX_DEPTH));
    assert!(is_whole(bytes(&deep)));
    assert_eq!(change::contains(bytes(&deep), bytes(&deep), &Limits::NONE), Ok(true));
    for ty in [TypeId::JSON, TypeId::JSONB] {
        assert_eq!(read(ty, &nested(MAX_DEPTH + 1)).expect_err("it is too deep").sqlstate(), "54001");
    }
    // Nor is one made that could not be read back.
    let made = func::call(id::JSONB_BUILD_ARRAY, &[deep.as_ref(&mut Vec::new())], &Context::EMPTY);
    assert_eq!(made.expect_err("it is too deep").sqlstate(), "54001");
}

#[test]
fn a_key_is_found_without_looking_at_the_others() {
    let mut json = String::from("{");
    for n in 0..1000 {
        json.push_str(&format!("{}\"k{n}\": [{n}]", if n > 0 { "," } else { "" }));
    }
    json.push('}');
    let v = value(&json);
    let Ok(Node::Object(pairs)) = Node::of(bytes(&v)) else { panic!("no object") };
    for n in 0..1000 {
        let i = pairs.find(&format!("k{n}")).expect("a whole value").expect("the key");
        assert_eq!(stored::of_node(pairs.raw(i).expect("its value")).to_string(), format!("[{n}]"));
    }
    assert_eq!(pairs.find("k1000"), Ok(None));
    assert_eq!(pairs.find(""), Ok(None));
}

#[test]
fn long_work_is_charged_and_ended() {
    use crate::limits::{Account, Limits};
    use crate::{SqlError, sqlstate};
    use std::cell::Cell;
    use std::sync::atomic::AtomicU64;
    struct Purse(Cell<usize>);
    impl Account for Purse {
        fn take(&self, bytes: usize) -> SqlResult<()> {
            let left = self.0.get().checked_sub(bytes);
            self.0.set(left.ok_or_else(|| SqlError::new(sqlstate::OUT_OF_MEMORY, "out of memory"))?);
            Ok(())
        }
    }
    let long = format!("[{}1]", "1,".repeat(100_000));
    let (purse, going, told) = (Purse(Cell::new(1 << 20)), AtomicU64::new(0), AtomicU64::new(1));
    let poor = Context { limits: Limits::new(Some(&going), Some(&purse)), ..Context::EMPTY };
    let e = text::input(&long, Type::new(TypeId::JSONB), &poor).expect_err("it takes too much");
    assert_eq!(e.sqlstate(), "53200");
    let ended = Context { limits: Limits::new(Some(&told), None), ..Context::EMPTY };
    for ty in [TypeId::JSON, TypeId::JSONB] {
        let e = text::input(&long, Type::new(ty), &ended).expect_err("it was told to end");
        assert_eq!(e.sqlstate(), "57014");
    }
    let gap = [value("[]"), value("1"), Value::Text("100000000".into())];
    let mut scratch = [Vec::new(), Vec::new(), Vec::new()];
    let args: Vec<ValueRef<'_>> = gap.iter().zip(&mut scratch).map(|(v, s)| v.as_ref(s)).collect();
    let purse = Purse(Cell::new(1 << 20));
    let poor = Context { limits: Limits::new(Some(&going), Some(&purse)), ..Context::EMPTY };
    assert_eq!(func::call(id::JSONB_ASSIGN, &args, &poor).expect_err("a long gap").sqlstate(), "53200");
}

#[test]
fn the_order_is_postgresqls() {
    let ascending = [
        "[]",
        "null",
        "\"\"",
        "\"b\"",
        "-1",
        "10",
        "false",
        "true",
        "[1]",
        "[[]]",
        "[1,2]",
        "{}",
        "{\"b\":0}",
    ];
    for (n, a) in ascending.iter().enumerate() {
        for (m, b) in ascending.iter().enumerate() {
            assert_eq!(order::compare(bytes(&value(a)), bytes(&value(b))), n.cmp(&m), "{a} {b}");
        }
    }
    // Within another value an empty array is an array.
    let order = order::compare(bytes(&value("[[]]")), bytes(&value("[null]")));
    assert_eq!(order, Ordering::Greater);
}

#[test]
fn a_walk_meets_everything_once() {
    let v = value(r#"{"a": [1, {"b": []}], "c": "x"}"#);
    let mut walk = Walk::of(bytes(&v)).expect("a value");
    let mut met = String::new();
    while let Some(step) = walk.next().expect("a whole value") {
        met.push_str(&match step {
            stored::Step::Array(n) => format!("[{n} "),
            stored::Step::Object(n) => format!("{{{n} "),
            stored::Step::End => "end ".into(),
            stored::Step::Key(k) => format!("{k}: "),
            stored::Step::Scalar(node) => format!("{} ", node.kind()),
        });
    }
    assert_eq!(met, "{2 a: [2 number {1 b: [0 end end end c: string end ");
    let json = cast::cast(v, TypeId::JSONB, Type::new(TypeId::JSON), false, &Context::EMPTY);
    assert_eq!(json.expect("a text").to_string(), r#"{"a": [1, {"b": []}], "c": "x"}"#);
}
