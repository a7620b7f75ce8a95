//! Where the first statement of a growing text ends: for a shell, which reads line by line.
//!
//! A semicolon ends a statement unless it stands in quotes, a comment, parentheses, or the body of a function
//! between BEGIN ATOMIC and its END. Whether the statement is right is the parser's business.

use super::lexer::{Tokens, Unfinished};

/// What is open where the text ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Open {
    /// Only the semicolon is missing.
    Statement,
    Parentheses,
    /// Between BEGIN ATOMIC and END.
    Body,
    String,
    DollarString,
    Identifier,
    Comment,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Split {
    /// The first statement ends here: behind its semicolon.
    End(usize),
    /// More text is needed.
    More(Open),
    /// Nothing but blanks and comments.
    Blank,
}

/// Finds the end of the first statement. A lone semicolon is a statement (an empty one).
pub fn split(sql: &str) -> Split {
    let mut tokens = Tokens::new(sql);
    let (mut parentheses, mut bodies, mut any) = (0usize, 0usize, false);
    // The first words, which tell whether a BEGIN opens a body.
    let mut words: Vec<String> = Vec::new();
    let mut makes_routine = false;
    for t in tokens.by_ref() {
        if t.is_mark(b'(') {
            parentheses += 1;
        } else if t.is_mark(b')') {
            parentheses = parentheses.saturating_sub(1);
        } else if t.is_mark(b';') && parentheses == 0 && bodies == 0 {
            return Split::End(t.end);
        }
        any = true;
        if t.kind != super::lexer::TokenKind::Word {
            continue;
        }
        if words.len() < 4 {
            words.push(sql[t.start..t.end].to_ascii_lowercase());
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            makes_routine = matches!(
                words[..],
                ["create", "function" | "procedure", ..]
                    | ["create", "or", "replace", "function" | "procedure"]
            );
        }
        if makes_routine && parentheses == 0 {
            if t.is_word(sql, "begin") || (bodies > 0 && t.is_word(sql, "case")) {
                bodies += 1;
            } else if t.is_word(sql, "end") {
                bodies = bodies.saturating_sub(1);
            }
        }
    }
    match tokens.unfinished {
        Some(Unfinished::String) => Split::More(Open::String),
        Some(Unfinished::DollarString) => Split::More(Open::DollarString),
        Some(Unfinished::Identifier) => Split::More(Open::Identifier),
        Some(Unfinished::Comment) => Split::More(Open::Comment),
        None if !any => Split::Blank,
        None if parentheses > 0 => Split::More(Open::Parentheses),
        None if bodies > 0 => Split::More(Open::Body),
        None => Split::More(Open::Statement),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_statement_ends_at_its_semicolon() {
        for (sql, end) in [
            ("select 1; select 2;", 9),
            ("select ';'; x", 11),
            ("select \";\" /* ; */ ; x", 20),
            ("select $a$ ; $a$;", 17),
            (";", 1),
            ("-- a;\n select 1;", 16),
            ("create rule r as do (a; b);", 27),
            ("begin; select 1;", 6),
        ] {
            assert_eq!(split(sql), Split::End(end), "{sql}");
        }
        let body =
            "create or replace function f() returns int begin atomic select case when true then 1 end; end";
        assert_eq!(split(body), Split::More(Open::Statement));
        assert_eq!(split(&format!("{body}; x")), Split::End(body.len() + 1));
    }

    #[test]
    fn unfinished_input_needs_more() {
        for (sql, open) in [
            ("select 1", Open::Statement),
            ("select 'a;", Open::String),
            ("select $$ ;", Open::DollarString),
            ("select \"a;", Open::Identifier),
            ("select 1 /* ;", Open::Comment),
            ("select (1;", Open::Parentheses),
            ("create function f() returns int begin atomic select 1;", Open::Body),
            ("select 1 - ", Open::Statement),
        ] {
            assert_eq!(split(sql), Split::More(open), "{sql}");
        }
        assert_eq!(split("  -- nothing;\n"), Split::Blank);
        assert_eq!(split(""), Split::Blank);
    }
}
