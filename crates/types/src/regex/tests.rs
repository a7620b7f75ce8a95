//! Expressions against PostgreSQL 15's answers.
//!
//! `cases.txt` was made by `scripts/postgresql-regexes`, of seed 1; ONDOL_REGEX_CASES names a file of more.
use super::*;
use crate::func::tests::{call_by_name, check_lines, written};

#[test]
fn functions_answer_as_postgresql_does() {
    let run = |fields: &[&str]| written(call_by_name(fields));
    check_lines(include_str!("cases.txt"), run);
    if let Some(file) = std::env::var_os("ONDOL_REGEX_CASES") {
        check_lines(&std::fs::read_to_string(file).expect("a file of cases"), run);
    }
}

fn found(pattern: &str, text: &str) -> String {
    let run = || -> SqlResult<String> {
        let mut regex = Regex::new(pattern, Flags::new(), &Limits::NONE)?;
        let subject = Subject::new(text, &Limits::NONE)?;
        let groups = regex.captures() + 1;
        let Some(found) = regex.find(&subject, 0, groups, &Limits::NONE)? else { return Ok("-".into()) };
        let span = |s: &Option<Span>| s.map_or("?".into(), |(a, b)| format!("{a}-{b}"));
        Ok(found.iter().map(span).collect::<Vec<_>>().join(" "))
    };
    run().unwrap_or_else(|e| format!("!{e}"))
}

#[test]
fn a_part_takes_what_it_prefers() {
    for (pattern, text, wanted) in [
        ("a", "xay", "1-2"),
        ("Y*", "XY1234Z", "0-0"),
        ("Y*([0-9]{1,3})", "XY1234Z", "1-5 2-5"),
        ("Y*?([0-9]{1,3})", "XY1234Z", "1-3 2-3"),
        ("(a*)(ab)*(b*)", "abb", "0-3 0-1 ?-? 1-3"),
        ("(week|wee)(night|knights)", "weeknights", "0-10 0-3 3-10"),
        ("(?:(a)|b)*", "ab", "0-2 ?"),
        ("(.)\\1", "abba", "1-3 1-2"),
        ("(?<=b)a", "aba", "2-3"),
        ("a(?!b)", "abac", "2-3"),
        ("\\mfoo\\M", "afoo foo", "5-8"),
        ("(", "", "!invalid regular expression: parentheses () not balanced"),
        ("a**", "", "!invalid regular expression: quantifier operand invalid"),
        ("a{1,300}", "", "!invalid regular expression: invalid repetition count(s)"),
        ("[b-a]", "", "!invalid regular expression: invalid character range"),
    ] {
        let wanted = wanted.replace("?-?", "?");
        assert_eq!(found(pattern, text), wanted, "{pattern} {text}");
    }
}

/// No expression without back references takes long.
#[test]
fn nothing_is_tried_again_and_again() {
    let text = "a".repeat(3000);
    for pattern in ["(a*)*b", "((a|aa)*)*b", "(a|a)*?b", "(?:(a)|(aa))*$", "a*a*a*a*a*b", "(x*)*?y|(a+)+$"] {
        let _ = found(pattern, &text);
    }
}

#[test]
fn nesting_has_an_end() {
    let deep = |n: usize| format!("{}a{}", "(".repeat(n), ")".repeat(n));
    assert_eq!(found(&deep(100), "a").split(' ').count(), 101);
    assert_eq!(found(&deep(5000), "a"), "!invalid regular expression: regular expression is too complex");
    assert_eq!(
        found("(((a{255}){255}){255}){255}", "a"),
        "!invalid regular expression: regular expression is too complex"
    );
    assert_eq!(
        found("((((a{0}){255}){255}){255}){255}", "a"),
        "0-0 ? ? ? ?".replace("? ? ? ?", "0-0 0-0 0-0 0-0")
    );
}

/// What is said of all characters is said of some here: letters, digits, marks, blanks of several scripts.
#[test]
fn classes_are_those_of_the_locale() {
    for (class, inside, outside) in [
        ("alpha", "aZäßЖ字\u{661}", "1_ -\u{2028}\u{b2}"),
        ("alnum", "a1\u{661}", "_\u{b2}"),
        ("digit", "09", "\u{661}a"),
        ("lower", "aä\u{1c5}", "AÄ1"),
        ("upper", "AÄ\u{1c5}", "aä1"),
        ("space", " \t\n\u{b}\u{2028}\u{3000}", "\u{a0}\u{85}_"),
        ("punct", "-_\u{a0}€", "a1 "),
        ("print", "a \u{3000}", "\n\u{378}\u{2028}"),
        ("graph", "a€", " \n\u{378}"),
        ("cntrl", "\u{1}\u{9f}", "a\u{a0}"),
        ("blank", " \t", "\n\u{2003}"),
        ("word", "a_1", "-"),
        ("xdigit", "09afAF", "gG"),
        ("ascii", "a~", "ä"),
    ] {
        for c in inside.chars() {
            assert_eq!(found(&format!("[[:{class}:]]"), &c.to_string()), "0-1", "{class} {c:?}");
        }
        for c in outside.chars() {
            assert_eq!(found(&format!("[[:{class}:]]"), &c.to_string()), "-", "{class} {c:?}");
        }
    }
}

/// A long search ends when somebody wants an end, and what is computed ahead is not long.
#[test]
fn a_long_search_can_be_ended() {
    use std::sync::atomic::AtomicU64;
    let text = "ab".repeat(200_000);
    let told = AtomicU64::new(1);
    for limits in [Limits::new(Some(&told), None), Limits::AHEAD] {
        for (pattern, groups) in
            [("x", 1), ("(a|b)*?x", 2), ("(.*)(.*)(.*)\\3x", 4), ("(?=.*x)b", 1), ("(?<=x)b", 1)]
        {
            let mut regex = Regex::new(pattern, Flags::new(), &Limits::NONE).expect("an expression");
            let subject = Subject::new(&text, &Limits::NONE).expect("a text");
            let ended = regex.find(&subject, 0, groups, &limits).expect_err("it is long");
            assert!(["57014", "54000"].contains(&ended.sqlstate()), "{pattern}: {ended}");
        }
    }
}
