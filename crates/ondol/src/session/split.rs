//! Cutting a text of SQL into statements as it arrives.
//!
//! A [`Splitter`] is fed pieces of text (a line, a file) and gives each statement as soon as its semicolon is
//! there, so that a script on a pipe runs statement by statement, and an interactive shell knows whether to
//! ask for another line. The lexer tells a semicolon or a backslash that ends something from one inside
//! something:
//!
//! - **S1** Strings and comments hide everything inside them (lexer/L1).
//! - **S2** A semicolon inside parentheses does not end a statement, nor does one in the body of a routine,
//!   between BEGIN ATOMIC and its END.
//! - **S3** A statement's text is given as it was written, from its first character that is neither white
//!   space nor comment to its semicolon, so that error positions count from what the user sees.
//! - **S4** A text of white space and comments alone is no statement.
//! - **S5** A text gives the same statements in whatever pieces it comes (lexer/L3).

use ondol_sql::parse::lexer::{Token, TokenKind, Tokens, Unfinished};

/// What was cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A statement with its semicolon.
    Statement(String),
    /// The rest of a line from a backslash on, the backslash left out, and the statement begun before it, if
    /// any (which the splitter has let go).
    Backslash { line: String, pending: String },
}

/// Cuts statements off a growing text.
#[derive(Clone, Debug)]
pub struct Splitter {
    text: String,
    /// Where the statement at hand starts; what is before was given.
    from: usize,
    /// Scanned up to here, in the middle of what is open.
    at: usize,
    open: Option<Unfinished>,
    parens: u32,
    /// The statement's first words, which tell whether it makes a routine.
    words: Vec<String>,
    makes_routine: bool,
    /// BEGINs and CASEs of a routine's body whose END is still to come.
    bodies: u32,
    /// Where the first thing other than white space and comments stands.
    begun: Option<usize>,
    backslashes: bool,
}

impl Splitter {
    /// `backslashes`: whether a backslash outside of strings starts a shell command.
    pub fn new(backslashes: bool) -> Splitter {
        Splitter {
            text: String::new(),
            from: 0,
            at: 0,
            open: None,
            parens: 0,
            words: Vec::new(),
            makes_routine: false,
            bodies: 0,
            begun: None,
            backslashes,
        }
    }

    pub fn push(&mut self, text: &str) {
        self.text.push_str(text)
    }

    /// Whether nothing waits for more text.
    pub fn is_empty(&self) -> bool {
        self.begun.is_none() && matches!(self.open, None | Some(Unfinished::LineComment))
    }

    /// What an interactive prompt shows: the kind of thing that is open.
    pub fn open(&self) -> char {
        match self.open {
            Some(Unfinished::String { .. }) => '\'',
            Some(Unfinished::Identifier) => '"',
            Some(Unfinished::DollarString(_)) => '$',
            Some(Unfinished::Comment { .. }) => '*',
            None | Some(Unfinished::LineComment) if self.parens > 0 => '(',
            None | Some(Unfinished::LineComment) if self.begun.is_some() => '-',
            None | Some(Unfinished::LineComment) => '=',
        }
    }

    /// Forgets what was pushed and not yet given.
    pub fn clear(&mut self) {
        *self = Splitter::new(self.backslashes)
    }

    /// Takes all text not yet scanned, which belongs to something else (COPY data after its statement).
    pub fn take_rest(&mut self) -> String {
        self.text.split_off(self.at)
    }

    /// The statement at the end of all input, which needs no semicolon.
    pub fn finish(&mut self) -> Option<String> {
        let from = self.begun.or_else(|| match &self.open {
            // The last token waited for more.
            None | Some(Unfinished::LineComment) => {
                Tokens::resume(&self.text, self.at, self.open.clone()).next().map(|t| t.start)
            }
            Some(_) => Some(self.from),
        });
        let text = from.map(|f| self.text[f..].trim().to_string());
        self.clear();
        text
    }

    /// Gives the statement that ends at `end` of the text, if one was begun; scanning goes on at `next`.
    fn give(&mut self, text: &str, end: usize, next: usize) -> Option<String> {
        let statement = self.begun.map(|b| text[b..end].trim().to_string());
        (self.from, self.at) = (next, next);
        self.open = None;
        self.parens = 0;
        self.words.clear();
        self.makes_routine = false;
        self.bodies = 0;
        self.begun = None;
        statement
    }

    /// The next piece, if the text holds a whole one.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<Piece> {
        // What was given is dropped when it is most of the text, so that each byte moves only a few times.
        if self.from > self.text.len() / 2 {
            self.text.drain(..self.from);
            self.at -= self.from;
            self.begun = self.begun.map(|b| b - self.from);
            self.from = 0;
        }
        let text = std::mem::take(&mut self.text);
        let piece = self.next_of(&text);
        self.text = text;
        piece
    }

    fn next_of(&mut self, text: &str) -> Option<Piece> {
        let mut tokens = Tokens::resume(text, self.at, self.open.clone());
        while let Some(t) = tokens.next() {
            if let Some((open, from)) = tokens.unfinished {
                self.begun.get_or_insert(t.start);
                (self.at, self.open) = (from, Some(open));
                return None;
            }
            if self.backslashes && t.is_mark(b'\\') {
                let end = text[t.end..].find('\n').map_or(text.len(), |n| t.end + n + 1);
                let line = text[t.end..end].trim().to_string();
                let pending = self.give(text, t.start, end).unwrap_or_default();
                return Some(Piece::Backslash { line, pending });
            }
            // One that was open is gone on with from where it was.
            let resumed = self.open.is_some() && t.start == self.at;
            if tokens.may_grow(t) {
                if !resumed {
                    (self.at, self.open) = (t.start, None);
                    // A dash and a slash may begin a comment.
                    if !matches!(&text[t.start..], "-" | "/") {
                        self.begun.get_or_insert(t.start);
                    }
                }
                return None;
            }
            (self.at, self.open) = (t.end, None);
            if t.is_mark(b';') && self.parens == 0 && self.bodies == 0 {
                match self.give(text, t.end, t.end) {
                    Some(statement) => return Some(Piece::Statement(statement)),
                    None => continue,
                }
            }
            self.begun.get_or_insert(t.start);
            self.count(text, t)
        }
        (self.open, self.at) = match tokens.unfinished {
            Some((open, from)) => (Some(open), from),
            None => (None, text.len()),
        };
        None
    }

    /// Counts what a semicolon may lie inside of (S2).
    fn count(&mut self, text: &str, token: Token) {
        match token.kind {
            TokenKind::Mark(b'(') => self.parens += 1,
            TokenKind::Mark(b')') => self.parens = self.parens.saturating_sub(1),
            TokenKind::Word => self.count_word(&text[token.start..token.end]),
            _ => {}
        }
    }

    fn count_word(&mut self, word: &str) {
        const FIRST: usize = 4;
        if self.words.len() == FIRST && !self.makes_routine {
            return;
        }
        let word = word.to_ascii_lowercase();
        if self.words.len() < FIRST {
            self.words.push(word.clone());
            let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
            self.makes_routine = matches!(
                words[..],
                ["create", "function" | "procedure", ..]
                    | ["create", "or", "replace", "function" | "procedure", ..]
            );
        }
        if self.makes_routine && self.parens == 0 {
            match word.as_str() {
                "begin" => self.bodies += 1,
                "case" if self.bodies > 0 => self.bodies += 1,
                "end" => self.bodies = self.bodies.saturating_sub(1),
                _ => {}
            }
        }
    }
}

/// Cuts a whole text into its statements, their semicolons left out.
pub fn split(text: &str) -> Vec<String> {
    let mut s = Splitter::new(false);
    s.push(text);
    let mut all = Vec::new();
    while let Some(Piece::Statement(mut t)) = s.next() {
        t.pop();
        all.push(t.trim_end().to_string())
    }
    all.extend(s.finish());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semicolons_inside_things_do_not_count() {
        let text = "select ';', \"a;b\", E'\\';' ; -- c;\n /* ; /* ; */ ; */ select $x$;$$;$x$ || 'it''s;'; (a;b); $1;last";
        assert_eq!(
            split(text),
            ["select ';', \"a;b\", E'\\';'", "select $x$;$$;$x$ || 'it''s;'", "(a;b)", "$1", "last"]
        );
    }

    #[test]
    fn empty_statements_and_comments_are_nothing() {
        assert_eq!(split(" ; ;; -- x\n ; /* y */"), Vec::<String>::new());
        assert_eq!(split("namee'x;y'"), ["namee'x;y'"]);
        // A dollar inside a name starts no string, nor does a parameter.
        assert_eq!(split("a$b$;c;$1$;"), ["a$b$", "c", "$1$"]);
    }

    #[test]
    fn bodies_of_routines_are_whole() {
        let body =
            "create or replace function f() returns int begin atomic select case when true then 1 end; end";
        assert_eq!(split(&format!("{body}; x")), [body, "x"]);
        assert_eq!(split("begin; select 1; end"), ["begin", "select 1", "end"]);
        assert_eq!(
            split("create function begin$a() as 'begin;'; x"),
            ["create function begin$a() as 'begin;'", "x"]
        );
    }

    #[test]
    fn a_doubled_quote_does_not_end_an_escape_string() {
        assert_eq!(split("select E'a''\\';b', 'c''\\';d"), ["select E'a''\\';b', 'c''\\'", "d"]);
        assert_eq!(split("E'''\\';';\"a\"\";\";x"), ["E'''\\';'", "\"a\"\";\"", "x"]);
    }

    /// S5, cut twice at each place, and into characters.
    #[test]
    fn piece_by_piece_gives_the_same() {
        for text in [
            "a -- ;'\n; /* ;' /* ; */ ; */ select $x$;$$;$x$ || 'it''s;'; (a;b); $1;$é$;$é$-1/2;last",
            "E'a''\\';b', 'c''\\';d--x;\r;-;/;u&'\\';U&\"a;\";1e-5--;\n;\"a\"\";\";x$a$;$a$;$a$;b",
            "create function f() begin atomic case x when 1 then 2 end; end; begin; end -- ;",
            " ; ;; -- x\n ; /* y */",
            "/* open ;",
        ] {
            let whole = split(text);
            let cut = |at: &[usize]| {
                let mut s = Splitter::new(false);
                let mut all = vec![];
                for (n, from) in at.iter().enumerate() {
                    s.push(&text[*from..at.get(n + 1).copied().unwrap_or(text.len())]);
                    while let Some(Piece::Statement(mut t)) = s.next() {
                        assert_eq!(t.pop(), Some(';'));
                        all.push(t.trim_end().to_string())
                    }
                }
                all.extend(s.finish());
                assert_eq!(all, whole, "{text:?} at {at:?}")
            };
            let places: Vec<usize> = text.char_indices().map(|(i, _)| i).collect();
            cut(&places);
            for (n, one) in places.iter().enumerate().skip(1) {
                cut(&[0, *one]);
                places[n + 1..].iter().for_each(|two| cut(&[0, *one, *two]))
            }
        }
    }

    /// S1 to S4 must not depend on how the text is cut into pushes (of lines, as the shell does).
    #[test]
    fn line_by_line_gives_the_same() {
        let text = "create table t (\n a int, -- the ;\n b text);\ninsert into t values (1, 'x\n;y');\nselect $$\n;\n$$;\ncreate function f() begin atomic\nselect 1;\nend;\nselect 1";
        let mut s = Splitter::new(true);
        let mut all = Vec::new();
        for line in text.split_inclusive('\n') {
            s.push(line);
            while let Some(Piece::Statement(t)) = s.next() {
                all.push(t.trim_end_matches(';').to_string())
            }
        }
        all.extend(s.finish());
        assert_eq!(all, split(text));
    }

    #[test]
    fn backslash_commands() {
        let mut s = Splitter::new(true);
        s.push("\\d t\nselect 1 \\g\nselect '\\n';");
        assert_eq!(s.next(), Some(Piece::Backslash { line: "d t".into(), pending: "".into() }));
        assert_eq!(s.next(), Some(Piece::Backslash { line: "g".into(), pending: "select 1".into() }));
        assert_eq!(s.next(), Some(Piece::Statement("select '\\n';".into())));
        assert_eq!(s.next(), None);
        assert!(s.is_empty());
        s.push("select (");
        assert_eq!((s.next(), s.open()), (None, '('));
        s.push("'");
        assert_eq!((s.next(), s.open()), (None, '\''));
    }

    #[test]
    fn what_follows_a_statement_can_be_taken() {
        let mut s = Splitter::new(true);
        s.push("copy t from stdin;\n1\t\\N\n\\.\nselect 2;");
        assert_eq!(s.next(), Some(Piece::Statement("copy t from stdin;".into())));
        assert_eq!(s.take_rest(), "\n1\t\\N\n\\.\nselect 2;");
        assert!(s.is_empty());
    }
}
