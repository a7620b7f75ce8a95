//! What arrays promise, with items of every type; their texts and functions against PostgreSQL's answers, of
//! which `cases.txt` holds more (`crate::func`).

use super::*;
use crate::catalog::SAMPLES;
use crate::catalog::tests::{is_refused, keeps_promises};
use crate::text;

fn read(ty: TypeId, text: &str) -> Value {
    text::input(text, Type::new(ty), &Context::EMPTY).unwrap_or_else(|e| panic!("{ty} {text:?}: {e}"))
}

fn write(v: &Value) -> String {
    let mut out = String::new();
    text::output(v.as_ref(&mut Vec::new()), Type::TEXT, &mut out);
    out
}

/// Two values of each type, the lesser first.
fn two(ty: TypeId) -> (&'static str, &'static str) {
    match ty {
        TypeId::BOOL => ("false", "true"),
        TypeId::BYTEA => ("\\\\x00", "\\\\x0100"),
        TypeId::JSON | TypeId::JSONB => ("1", "2"),
        TypeId::DATE => ("2000-01-01", "infinity"),
        TypeId::TIMESTAMP | TypeId::TIMESTAMPTZ => ("2000-01-01 00:00:00", "2001-01-01 12:30:00.5"),
        TypeId::TEXT | TypeId::VARCHAR | TypeId::BPCHAR => ("\"a, b\"", "\"a,b \\\\ c\""),
        other => match SAMPLES.iter().find(|(t, _)| *t == other) {
            Some((_, texts)) => (texts[0][0], texts[1][0]),
            None => ("-12", "5"),
        },
    }
}

#[test]
fn arrays_of_every_type_keep_promises() {
    // Those of privileges are not read.
    for ty in TypeId::arrays().filter(|t| t.element() != Some(TypeId::ACLITEM)) {
        // What is empty or has blanks stands in quotes.
        let quoted = |s: &str| {
            if s.is_empty() || s.contains([' ', ',']) && !s.starts_with('"') {
                format!("\"{s}\"")
            } else {
                s.into()
            }
        };
        let (a, b) = two(ty.element().expect("an array's"));
        let (a, b): (String, String) = (quoted(a), quoted(b));
        let groups: Vec<Vec<String>> = vec![
            vec!["{}".into(), " { } ".into()],
            vec![format!("{{{a}}}"), format!("[1:1]={{ {a} }}")],
            vec![format!("[5:5]={{{a}}}")],
            vec![format!("{{{{{a}}}}}")],
            vec![format!("{{{a},{a}}}")],
            vec![format!("{{{a},{b}}}")],
            vec![format!("{{{{{a}}},{{{b}}}}}")],
            vec![format!("{{{{{a},{b}}}}}")],
            vec![format!("{{{a},{b},{a}}}")],
            vec![format!("{{{a},NULL}}"), format!("{{{a},null}}")],
            vec![format!("{{{b}}}")],
            vec!["{NULL}".into()],
            vec!["{NULL,NULL}".into()],
        ];
        // What stands in the order of items, then of lengths, then of shapes.
        let order = [0, 1, 2, 3, 4, 5, 7, 6, 8, 9, 10, 11, 12];
        let texts: Vec<Vec<&str>> =
            order.iter().map(|i| groups[*i].iter().map(String::as_str).collect()).collect();
        let texts: Vec<&[&str]> = texts.iter().map(Vec::as_slice).collect();
        keeps_promises(ty, &texts);
        for text in texts.iter().copied().flatten() {
            let Value::Opaque(_, bytes) = read(ty, text) else { panic!("an array is opaque") };
            assert!(ty.admits(&bytes), "{text}");
            for end in 0..bytes.len() {
                // A beginning may be whole only where what is missing are bytes of the last items' own.
                let _ = (ty.admits(&bytes[..end]), write(&Value::Opaque(ty, bytes[..end].into())));
            }
        }
    }
}

#[test]
fn items_are_found_and_shown() {
    let int4 = TypeId::INT4.of_arrays();
    for (text, shown) in [
        ("{1,2,3}", "{1,2,3}"),
        ("[2:3]={ 1 , 2 }", "[2:3]={1,2}"),
        ("{{1,2},{3,NULL}}", "{{1,2},{3,NULL}}"),
        ("[1:1][-2:-1][3:4]={{{1,2},{3,4}}}", "[1:1][-2:-1][3:4]={{{1,2},{3,4}}}"),
    ] {
        assert_eq!(write(&read(int4, text)), shown);
    }
    let texts = TypeId::TEXT.of_arrays();
    let all = r#"{a," b ","c\"d","",NULL,"null",e\,f,"{g}","h\\i"}"#;
    let v = read(texts, all);
    assert_eq!(write(&v), r#"{a," b ","c\"d","",NULL,"null","e,f","{g}","h\\i"}"#);
    let Value::Opaque(_, bytes) = &v else { panic!("an array is opaque") };
    let array = Array::of(bytes);
    assert_eq!(array.item(2).to_owned(), Value::Text("c\"d".into()));
    assert!(array.item(4).is_null() && array.item(9).is_null());
    assert_eq!(array.dimensions().collect::<Vec<_>>(), [Dimension { length: 9, lower: 1 }]);
}

/// array/A4
#[test]
fn chars_are_padded_in_arrays_alone() {
    let ty = Type::with(TypeId::BPCHAR, 3 + 4).array().expect("arrays of char(n)");
    let v = text::input("{a,\"b \",abc}", ty, &Context::EMPTY).expect("an array");
    assert_eq!(write(&v), "{\"a  \",\"b  \",abc}");
    let Value::Opaque(_, bytes) = &v else { panic!("an array is opaque") };
    assert_eq!(Array::of(bytes).item(1).to_owned(), Value::Text("b".into()));
    let e = text::input("{abcd}", ty, &Context::EMPTY).expect_err("too long");
    assert_eq!(e.to_string(), "value too long for type character(3)");
}

#[test]
fn what_is_no_array_is_refused() {
    let ty = TypeId::INT4.of_arrays();
    for (text, detail) in [
        ("", "Array value must start with \"{\" or dimension information."),
        ("1", "Array value must start with \"{\" or dimension information."),
        ("{", "Unexpected end of input."),
        ("{1", "Unexpected end of input."),
        ("{1}}", "Junk after closing right brace."),
        ("{1,}", "Unexpected \"}\" character."),
        ("{,1}", "Unexpected \",\" character."),
        ("{{1},2}", "Unexpected array element."),
        ("{1,{2}}", "Unexpected \"{\" character."),
        ("{{1,2},{3}}", "Multidimensional arrays must have sub-arrays with matching dimensions."),
        ("{\"1\"2}", "Unexpected array element."),
        ("[1:2]={1}", "Specified array dimensions do not match array contents."),
        ("[1:2{1,2}", "Missing \"]\" after array dimensions."),
        ("[1:2]{1,2}", "Missing \"=\" after array dimensions."),
        ("[]={1}", "\"[\" must introduce explicitly-specified array dimensions."),
        ("[1:]={1}", "Missing array dimension value."),
        ("[1:1]=1", "Array contents must start with \"{\"."),
    ] {
        let e = text::input(text, Type::new(ty), &Context::EMPTY).expect_err(text);
        assert_eq!(e.to_string(), format!("malformed array literal: \"{text}\""));
        assert_eq!((e.sqlstate(), e.0.detail.as_deref()), ("22P02", Some(detail)), "{text}");
    }
    is_refused(ty, "{1,x}", "22P02", "invalid input syntax for type integer: \"x\"");
    is_refused(ty, "[2:1]={1}", "2202E", "upper bound cannot be less than lower bound");
    let deep = "{{{{{{{1}}}}}}}";
    is_refused(ty, deep, "54000", "number of array dimensions (7) exceeds the maximum allowed (6)");
}
