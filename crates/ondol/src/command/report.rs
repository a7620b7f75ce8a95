//! How errors and notices are told: as psql does, with the SQLSTATE on a line of its own.
//!
//! ```text
//! ERROR:  relation "nothing" does not exist
//! LINE 1: SELECT * FROM nothing
//!                       ^
//! SQLSTATE: 42P01
//! ```
use ondol::Error;
use unicode_width::UnicodeWidthChar;

/// Columns of a statement's line that are shown around an error, and those of them that stay right of it.
const SHOWN: usize = 60;
const RIGHT: usize = 10;

/// The error, with the place in `sql` that it points at.
pub fn error(e: &Error, sql: &str) -> String {
    let f = &e.0;
    let mut out = format!("ERROR:  {}\n", f.message);
    if let Some((line, caret)) = f.position.and_then(|p| place(sql, p)) {
        out += &format!("{line}\n{caret}\n");
    }
    if let Some(d) = &f.detail {
        out += &format!("DETAIL:  {d}\n");
    }
    if let Some(h) = &f.hint {
        out += &format!("HINT:  {h}\n");
    }
    if let Some(c) = &f.context {
        out += &format!("CONTEXT:  {c}\n");
    }
    out + &format!("SQLSTATE: {}\n", f.sqlstate)
}

/// The line of the statement that holds the byte `position`, cut to a readable length, and a line with a
/// caret under the place.
fn place(sql: &str, position: usize) -> Option<(String, String)> {
    if sql.is_empty() {
        return None;
    }
    let mut at = position.min(sql.len());
    while !sql.is_char_boundary(at) {
        at -= 1;
    }
    let start = sql[..at].rfind('\n').map_or(0, |n| n + 1);
    let end = sql[at..].find('\n').map_or(sql.len(), |n| at + n);
    let number = sql[..start].matches('\n').count() + 1;
    // Tabs would put the caret elsewhere.
    let line: Vec<char> =
        sql[start..end].trim_end_matches('\r').chars().map(|c| if c == '\t' { ' ' } else { c }).collect();
    let place = sql[start..at].chars().count().min(line.len());
    let width = |of: &[char]| of.iter().map(|c| c.width().unwrap_or(0)).sum::<usize>();
    // As psql cuts: at the right if that is enough, else at both sides, the place staying in sight.
    let (mut from, mut to) = (0, line.len());
    if width(&line) > SHOWN {
        if SHOWN >= width(&line[..place]) + RIGHT {
            while width(&line[from..to]) > SHOWN {
                to -= 1;
            }
        } else {
            while to > place && width(&line[place..to]) > RIGHT {
                to -= 1;
            }
            while width(&line[from..to]) > SHOWN {
                from += 1;
            }
        }
    }
    let mut shown = format!("LINE {number}: ");
    if from > 0 {
        shown += "...";
    }
    let indent = shown.len() + width(&line[from..place]);
    shown.extend(&line[from..to]);
    if to < line.len() {
        shown += "...";
    }
    Some((shown.trim_end().to_string(), format!("{}^", " ".repeat(indent))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_the_place() {
        let e = Error::new("42P01", "relation \"t\" does not exist").at(14);
        assert_eq!(
            error(&e, "SELECT *\nFROM t\nWHERE a"),
            "ERROR:  relation \"t\" does not exist\nLINE 2: FROM t\n             ^\nSQLSTATE: 42P01\n"
        );
        let e = Error::new("42601", "syntax error at end of input").at(6).hint("Write more.");
        assert_eq!(
            error(&e, "SELECT"),
            "ERROR:  syntax error at end of input\nLINE 1: SELECT\n              ^\nHINT:  Write more.\nSQLSTATE: 42601\n"
        );
    }

    #[test]
    fn long_lines_are_cut_and_wide_characters_counted() {
        let sql = format!("SELECT {} nothing", "x, ".repeat(100));
        let at = sql.find("nothing").unwrap();
        let (line, caret) = place(&sql, at).unwrap();
        assert!(line.starts_with("LINE 1: ...") && line.len() < 90);
        assert_eq!(&line[caret.len() - 1..caret.len() + 6], "nothing");
        let (_, caret) = place("SELECT '日本' x", "SELECT '日本' ".len()).unwrap();
        assert_eq!(caret.len(), "LINE 1: SELECT 'xxxx' x".len());
        assert_eq!(place("", 3), None);
    }
}
