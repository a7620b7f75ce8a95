//! Cutting a text of SQL into statements as it arrives.
//!
//! A [`Splitter`] is fed pieces of text (a line, a file) and gives each statement as soon as its semicolon is
//! there, so that a script on a pipe runs statement by statement, and an interactive shell knows whether to
//! ask for another line. It knows just enough of PostgreSQL's lexical rules to tell a semicolon or a backslash
//! that ends something from one inside something:
//!
//! - **S1** Strings ('...', E'...' with backslash escapes, "...", $tag$...$tag$) and comments (-- to the end of
//!   the line, /* nested */) hide everything inside them.
//! - **S2** A semicolon inside parentheses does not end a statement, nor does one in the body of a routine, between
//!   BEGIN ATOMIC and its END.
//! - **S3** A statement's text is given as it was written, from its first character that is neither white space nor
//!   comment to its semicolon, so that error positions count from what the user sees.
//! - **S4** A text of white space and comments alone is no statement.
//!
//! Source: PostgreSQL's manual, "Lexical Structure".

/// Where in the lexical structure a text stands.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Plain,
    /// '...'; with backslash escapes or not.
    Quote {
        escapes: bool,
    },
    /// "..."
    Name,
    /// $tag$; the tag with its dollars.
    Dollar(String),
    LineComment,
    BlockComment(u32),
}

/// What was cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A statement with its semicolon.
    Statement(String),
    /// The rest of a line from a backslash on, the backslash left out, and the statement begun before it, if any
    /// (which the splitter has let go).
    Backslash { line: String, pending: String },
}

/// Cuts statements off a growing text.
#[derive(Clone, Debug)]
pub struct Splitter {
    text: String,
    /// Where the statement at hand starts; what is before was given.
    from: usize,
    /// Scanned up to here.
    at: usize,
    state: State,
    parens: u32,
    /// Where the word at hand begins.
    word: Option<usize>,
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
            state: State::Plain,
            parens: 0,
            word: None,
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
        self.begun.is_none() && matches!(self.state, State::Plain | State::LineComment)
    }

    /// What an interactive prompt shows: the kind of thing that is open.
    pub fn open(&self) -> char {
        match self.state {
            State::Quote { .. } => '\'',
            State::Name => '"',
            State::Dollar(_) => '$',
            State::BlockComment(_) => '*',
            State::Plain | State::LineComment if self.parens > 0 => '(',
            State::Plain | State::LineComment if self.begun.is_some() => '-',
            State::Plain | State::LineComment => '=',
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
        let open = !matches!(self.state, State::Plain | State::LineComment);
        let from = self.begun.or(open.then_some(self.from));
        let text = from.map(|f| self.text[f..].trim().to_string());
        self.clear();
        text
    }

    /// Gives the statement that ends at `end`, if one was begun; scanning goes on at `next`.
    fn give(&mut self, end: usize, next: usize) -> Option<String> {
        let text = self.begun.map(|b| self.text[b..end].trim().to_string());
        (self.from, self.at) = (next, next);
        self.state = State::Plain;
        self.parens = 0;
        self.word = None;
        self.words.clear();
        self.makes_routine = false;
        self.bodies = 0;
        self.begun = None;
        text
    }

    /// The next piece, if the text holds a whole one.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<Piece> {
        // What was given is dropped when it is most of the text, so that each byte moves only a few times.
        if self.from > self.text.len() / 2 {
            self.text.drain(..self.from);
            self.at -= self.from;
            self.begun = self.begun.map(|b| b - self.from);
            self.word = self.word.map(|w| w - self.from);
            self.from = 0;
        }
        while self.at < self.text.len() {
            let bytes = self.text.as_bytes();
            let (i, c) = (self.at, bytes[self.at]);
            let next = bytes.get(i + 1).copied();
            match &mut self.state {
                State::LineComment => {
                    if c == b'\n' {
                        self.state = State::Plain
                    }
                    self.at += 1;
                }
                State::BlockComment(depth) => {
                    self.at += 1;
                    if c == b'*' && next == Some(b'/') {
                        self.at += 1;
                        *depth -= 1;
                        if *depth == 0 {
                            self.state = State::Plain
                        }
                    } else if c == b'/' && next == Some(b'*') {
                        self.at += 1;
                        *depth += 1;
                    }
                }
                State::Quote { escapes } => {
                    self.at += 1;
                    if c == b'\\' && *escapes {
                        // A character that is not there yet is skipped when it comes, unless it ends the text.
                        if next.is_none() {
                            self.at -= 1;
                            return None;
                        }
                        self.at += 1;
                    } else if c == b'\'' {
                        self.state = State::Plain
                    }
                }
                State::Name => {
                    self.at += 1;
                    if c == b'"' {
                        self.state = State::Plain
                    }
                }
                State::Dollar(tag) => {
                    if c == b'$' && self.text[i..].starts_with(tag.as_str()) {
                        self.at += tag.len();
                        self.state = State::Plain;
                    } else {
                        self.at += 1;
                    }
                }
                State::Plain => {
                    if let Some(piece) = self.plain(i, c, next) {
                        return Some(piece);
                    }
                }
            }
        }
        None
    }

    /// A word outside of quotes is whole.
    fn word_ended(&mut self, word: std::ops::Range<usize>) {
        const FIRST: usize = 4;
        if self.words.len() == FIRST && !self.makes_routine {
            return;
        }
        let word = self.text[word].to_ascii_lowercase();
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

    fn plain(&mut self, i: usize, c: u8, next: Option<u8>) -> Option<Piece> {
        match self.word {
            None if is_name_byte(c) && c != b'$' => self.word = Some(i),
            Some(start) if !is_name_byte(c) => {
                self.word = None;
                self.word_ended(start..i)
            }
            _ => {}
        }
        let bytes = self.text.as_bytes();
        self.at += 1;
        match c {
            b'-' if next == Some(b'-') => {
                self.state = State::LineComment;
                return None;
            }
            b'/' if next == Some(b'*') => {
                self.at += 1;
                self.state = State::BlockComment(1);
                return None;
            }
            b';' if self.parens == 0 && self.bodies == 0 => {
                return self.give(i + 1, i + 1).map(Piece::Statement);
            }
            b'\\' if self.backslashes => {
                let end = self.text[i..].find('\n').map_or(self.text.len(), |n| i + n + 1);
                let line = self.text[i + 1..end].trim().to_string();
                let pending = self.give(i, end).unwrap_or_default();
                return Some(Piece::Backslash { line, pending });
            }
            c if c.is_ascii_whitespace() => return None,
            b'\'' => {
                let prefix = (i > self.from).then(|| bytes[i - 1]);
                let alone = i < self.from + 2 || !is_name_byte(bytes[i - 2]);
                self.state = State::Quote { escapes: matches!(prefix, Some(b'e' | b'E')) && alone };
            }
            b'"' => self.state = State::Name,
            b'(' => self.parens += 1,
            b')' => self.parens = self.parens.saturating_sub(1),
            b'$' if i == self.from || !is_name_byte(bytes[i - 1]) => {
                let tag = self.text[i + 1..].bytes().take_while(|&b| is_name_byte(b) && b != b'$').count();
                let digit = next.is_some_and(|b| b.is_ascii_digit());
                if !digit && bytes.get(i + 1 + tag) == Some(&b'$') {
                    self.at = i + tag + 2;
                    self.state = State::Dollar(self.text[i..i + tag + 2].to_string());
                }
            }
            _ => {}
        }
        self.begun.get_or_insert(i);
        None
    }
}

fn is_name_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'$' || b >= 0x80
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
