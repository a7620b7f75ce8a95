//! SIMILAR TO: SQL's regular expressions, rewritten into PostgreSQL's.
//!
//! All of a text must match, so the pattern becomes `^(?:...)$`; two marks (the escape and a double quote)
//! divide it into three parts, of which the middle is what SUBSTRING gives:
//! `^(?:...){1,1}?(...){1,1}(?:...)$`.

use crate::func::state;
use crate::{SqlError, SqlResult};

/// SQLSTATE 2200C.
const INVALID_USE_OF_ESCAPE: &str = "2200C";

/// The expression of a pattern, with its escape (the backslash, unless another text of one character or none
/// is given).
pub fn to_regex(pattern: &str, escape: Option<&str>) -> SqlResult<String> {
    let escape = match escape {
        None => Some('\\'),
        Some(text) => {
            let mut chars = text.chars();
            let first = chars.next();
            if chars.next().is_some() {
                return Err(SqlError::new(state::INVALID_ESCAPE_SEQUENCE, "invalid escape string")
                    .hint("Escape string must be empty or one character."));
            }
            first
        }
    };
    let mut out = String::with_capacity(pattern.len() + 16);
    out.push_str("^(?:");
    let (mut escaped, mut in_class, mut quotes) = (false, false, 0);
    for c in pattern.chars() {
        if escaped {
            match (c, in_class, quotes) {
                ('"', false, 0) => out.push_str("){1,1}?("),
                ('"', false, 1) => out.push_str("){1,1}(?:"),
                ('"', false, _) => {
                    let message = "SQL regular expression may not contain more than two \
                                   escape-double-quote separators";
                    return Err(SqlError::new(INVALID_USE_OF_ESCAPE, message));
                }
                _ => out.extend(['\\', c]),
            }
            quotes += i32::from(c == '"' && !in_class);
            escaped = false;
        } else if escape == Some(c) {
            escaped = true;
        } else if in_class {
            if c == '\\' {
                out.push('\\');
            }
            out.push(c);
            in_class = c != ']';
        } else {
            match c {
                '[' => {
                    out.push(c);
                    in_class = true;
                }
                '%' => out.push_str(".*"),
                '_' => out.push('.'),
                '(' => out.push_str("(?:"),
                '\\' | '.' | '^' | '$' => out.extend(['\\', c]),
                _ => out.push(c),
            }
        }
    }
    out.push_str(")$");
    Ok(out)
}
