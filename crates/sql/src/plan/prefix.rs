//! Conditions that say what a text begins with: LIKE, `~` and `^@` with constants. Texts are ordered by their
//! bytes, so that those which begin alike stand side by side in a B+-tree.
use super::logical::{Expr, ExprKind};
use ondol_types::Value;
use ondol_types::func::id;

/// What the texts are between that a condition can be true of.
#[derive(Debug, PartialEq, Eq)]
pub struct Prefix {
    pub low: String,
    /// With whether it is one of them. `None`: all from `low` on.
    pub high: Option<(String, bool)>,
}

impl Prefix {
    fn of(text: String, whole: bool) -> Option<Prefix> {
        let high = if whole { Some((text.clone(), true)) } else { behind(&text).map(|t| (t, false)) };
        (whole || !text.is_empty()).then_some(Prefix { low: text, high })
    }
}

/// The value that a condition is about, and what it begins with.
pub fn of(e: &Expr) -> Option<(&Expr, Prefix)> {
    let ExprKind::Call { func, args } = &e.kind else { return None };
    let [value, Expr { kind: ExprKind::Const(Value::Text(text)), .. }] = &args[..] else { return None };
    let (begin, whole) = match *func {
        id::TEXT_LIKE => of_pattern(text),
        id::TEXT_REGEX => of_regex(text)?,
        id::STARTS_WITH => (text.clone(), false),
        _ => return None,
    };
    Some((value, Prefix::of(begin, whole)?))
}

/// What a pattern of LIKE begins with, and whether it is nothing else.
fn of_pattern(pattern: &str) -> (String, bool) {
    let (mut begin, mut rest) = (String::new(), pattern.chars());
    while let Some(c) = rest.next() {
        match c {
            '%' | '_' => return (begin, false),
            '\\' => match rest.next() {
                Some(literal) => begin.push(literal),
                None => return (begin, false),
            },
            literal => begin.push(literal),
        }
    }
    (begin, true)
}

/// The same of a regular expression that is bound to the start; the plainest of them.
fn of_regex(regex: &str) -> Option<(String, bool)> {
    let rest = regex.strip_prefix('^').filter(|r| !r.contains('|'))?;
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '_' | '-' | '/' | ':' | ',' | '@');
    let end = rest.find(|c| !is_plain(c)).unwrap_or(rest.len());
    let mut begin = rest[..end].to_string();
    match &rest[end..] {
        "$" => return Some((begin, true)),
        // It may be left out, or there is more to be known of how often it is there.
        more if more.starts_with(['*', '?', '{']) => {
            begin.pop();
        }
        _ => {}
    }
    Some((begin, false))
}

/// The first text behind all that begin with this one.
fn behind(text: &str) -> Option<String> {
    let mut text = text.to_string();
    while let Some(last) = text.pop() {
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            c => char::from_u32(u32::from(c) + 1),
        };
        if let Some(next) = next {
            text.push(next);
            return Some(text);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Option<Prefix> {
        let (begin, whole) = of_pattern(text);
        Prefix::of(begin, whole)
    }
    fn between(low: &str, high: &str, inclusive: bool) -> Option<Prefix> {
        Some(Prefix { low: low.into(), high: Some((high.into(), inclusive)) })
    }

    #[test]
    fn a_pattern_tells_what_texts_begin_with() {
        assert_eq!(pattern("abc%"), between("abc", "abd", false));
        assert_eq!(pattern("a_c"), between("a", "b", false));
        assert_eq!(pattern("abc"), between("abc", "abc", true));
        assert_eq!(pattern(r"a\%b%"), between("a%b", "a%c", false));
        assert_eq!(pattern(""), between("", "", true));
        assert_eq!(pattern("%a"), None);
        assert_eq!(pattern("\\"), None);
        assert_eq!(pattern("a\u{10ffff}%"), between("a\u{10ffff}", "b", false));
        assert_eq!(pattern("\u{d7ff}%"), between("\u{d7ff}", "\u{e000}", false));
        assert_eq!(pattern("\u{10ffff}%"), Some(Prefix { low: "\u{10ffff}".into(), high: None }));
    }

    #[test]
    fn a_regular_expression_does_so_where_it_is_plain() {
        let regex = |r: &str| of_regex(r).and_then(|(begin, whole)| Prefix::of(begin, whole));
        assert_eq!(regex("^abc"), between("abc", "abd", false));
        assert_eq!(regex("^abc$"), between("abc", "abc", true));
        assert_eq!(regex("^abc*"), between("ab", "ac", false));
        assert_eq!(regex("^abc+d"), between("abc", "abd", false));
        assert_eq!(regex("^ab{0,3}"), between("a", "b", false));
        assert_eq!(regex("^ab.*c$"), between("ab", "ac", false));
        for none in ["abc", "^ab|c", "^(ab)", "^a*", "^[ab]", "^", r"^\w", "^*a"] {
            assert_eq!(regex(none), None, "{none}");
        }
    }
}
