//! What PostgreSQL 15 reads otherwise than the grammar's library, which is a later version's.
//!
//! 1. Numbers have decimal digits only, and nothing may stand right behind a number or a parameter: `1_000`,
//!    `0x1F` and `$1a` are errors.
//! 2. In an escape string `\v` is a v. The text that the library is given keeps the place of every token.
//!
//! Source: PostgreSQL 15's documentation, chapter 4.1, and its answers.

use super::lexer::{TokenKind, Tokens};
use ondol_types::{SqlError, sqlstate};
use std::borrow::Cow;

/// A token that PostgreSQL 15 refuses.
#[derive(Debug, PartialEq, Eq)]
pub struct Junk {
    pub start: usize,
    end: usize,
    behind: &'static str,
}

impl Junk {
    pub fn error(&self, sql: &str) -> SqlError {
        let token = sql.get(self.start..self.end).unwrap_or_default();
        let message = format!("trailing junk after {} at or near \"{token}\"", self.behind);
        SqlError::new(sqlstate::SYNTAX_ERROR, message).at(self.start)
    }
}

fn starts_word(b: u8) -> bool {
    b.is_ascii_alphabetic() || b == b'_' || b >= 0x80
}

fn digits(b: &[u8]) -> usize {
    b.iter().take_while(|b| b.is_ascii_digit()).count()
}

/// The length of the number that a text starts with.
fn number(b: &[u8]) -> usize {
    let mut n = digits(b);
    if b.get(n) == Some(&b'.') && b.get(n + 1) != Some(&b'.') {
        n += 1 + digits(&b[n + 1..]);
    }
    if let Some(b'e' | b'E') = b.get(n) {
        let sign = usize::from(matches!(b.get(n + 1), Some(b'+' | b'-')));
        let exponent = digits(b.get(n + 1 + sign..).unwrap_or_default());
        if exponent > 0 {
            n += 1 + sign + exponent;
        }
    }
    n
}

/// The text as the library is to read it, or the first token that is an error here and not there.
pub fn adapt(sql: &str) -> Result<Cow<'_, str>, Junk> {
    let bytes = sql.as_bytes();
    let mut adapted: Option<Vec<u8>> = None;
    for t in Tokens::new(sql) {
        let (length, behind) = match t.kind {
            TokenKind::Number => (number(&bytes[t.start..]), "numeric literal"),
            TokenKind::Param => (t.end - t.start, "parameter"),
            TokenKind::String if matches!(bytes[t.start], b'e' | b'E') => {
                let text = &bytes[t.start..t.end];
                if text.windows(2).any(|w| w == b"\\v") {
                    plain_v(text, &mut adapted.get_or_insert_with(|| bytes.to_vec())[t.start..t.end]);
                }
                continue;
            }
            _ => continue,
        };
        let from = t.start + length;
        let junk = &bytes[from..];
        if junk.first().is_some_and(|b| starts_word(*b)) {
            let word = |b: &&u8| starts_word(**b) || b.is_ascii_digit() || **b == b'$';
            let end = match junk {
                // An exponent without digits.
                [b'e' | b'E', b'+' | b'-', ..] => from + 2,
                _ => from + junk.iter().take_while(word).count(),
            };
            return Err(Junk { start: t.start, end, behind });
        }
    }
    // Whole ASCII characters were moved and put in, so it is UTF-8 still.
    Ok(match adapted.map(String::from_utf8) {
        Some(Ok(text)) => Cow::Owned(text),
        _ => Cow::Borrowed(sql),
    })
}

/// Writes an escape string with `\v` as `v`, and a blank behind it for each.
fn plain_v(from: &[u8], to: &mut [u8]) {
    let mut out = Vec::with_capacity(from.len());
    let mut i = 0;
    while i < from.len() {
        match from[i..] {
            [b'\\', b'v', ..] => {
                out.push(b'v');
                i += 2;
            }
            [b'\\', next, ..] => {
                out.extend([b'\\', next]);
                i += 2;
            }
            [b, ..] => {
                out.push(b);
                i += 1;
            }
            [] => {}
        }
    }
    out.resize(from.len(), b' ');
    to.copy_from_slice(&out);
}

/// An escape that the library calls an invalid Unicode escape: its place, whether it stands in an escape
/// string (or else in a Unicode one).
pub fn invalid_escape(sql: &str) -> Option<(usize, bool)> {
    let hex = |b: &[u8], n: usize| b.get(..n).is_some_and(|d| d.iter().all(u8::is_ascii_hexdigit));
    let bytes = sql.as_bytes();
    for t in Tokens::new(sql) {
        let text = &bytes[t.start..t.end];
        let escapes = match text {
            [b'e' | b'E', b'\'', ..] => true,
            [b'u' | b'U', b'&', ..] => false,
            _ => continue,
        };
        let mut i = 0;
        while i + 1 < text.len() {
            if text[i] != b'\\' {
                i += 1;
                continue;
            }
            let rest = &text[i + 2..];
            let valid = match (escapes, text[i + 1]) {
                (true, b'u') => hex(rest, 4),
                (true, b'U') => hex(rest, 8),
                (true, _) | (false, b'\\') => true,
                (false, b'+') => hex(rest, 6),
                (false, _) => hex(&text[i + 1..], 4),
            };
            if !valid {
                return Some((t.start + i, escapes));
            }
            i += 2;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn junk(sql: &str) -> Option<&str> {
        adapt(sql).err().map(|j| &sql[j.start..j.end])
    }

    #[test]
    fn numbers_and_parameters_end_where_fifteen_ends_them() {
        for (sql, wanted) in [
            ("1_000", "1_000"),
            ("x + 1_000.5", "1_000"),
            ("0x1F", "0x1F"),
            (".5_5", ".5_5"),
            ("1e5_0", "1e5_0"),
            ("1e+", "1e+"),
            ("$1a", "$1a"),
            ("1é$ 2", "1é$"),
        ] {
            assert_eq!(junk(sql), Some(wanted), "{sql}");
        }
        for sql in ["1 000", "a_1, \"1_0\", '1_0'", "1.5e-3, .5, 1., 1..2", "$1+a", "1::int", "5+a"] {
            assert_eq!(junk(sql), None, "{sql}");
        }
    }

    #[test]
    fn an_escaped_v_is_a_v() {
        let sql = r"select E'\v\\v\\\vé', '\v', 1";
        let adapted = adapt(sql).unwrap();
        assert_eq!(adapted, r"select E'v\\v\\vé'  , '\v', 1");
        assert_eq!(adapted.len(), sql.len());
        assert!(matches!(adapt(r"select '\v', E'v'"), Ok(Cow::Borrowed(_))));
    }
}
