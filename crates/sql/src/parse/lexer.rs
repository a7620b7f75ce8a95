//! PostgreSQL's lexical structure: enough of it to find where tokens, statements and nesting begin and end.
//!
//! The grammar has its own scanner; this one serves what that one cannot: unfinished input, and looking at a text
//! before it is parsed. It never fails: what cannot end ends with the text, and the token says that it is open.
//!
//! 1. Tokens are in order, do not overlap, and hold all of the text but blanks and comments.
//! 2. Offsets are on character boundaries.

/// What a token is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenKind {
    /// A keyword or an unquoted identifier.
    Word,
    /// `"..."`
    Quoted,
    /// `'...'`, `E'...'`, `$$...$$` and their kin.
    String,
    Number,
    /// `$1`
    Param,
    Operator,
    /// One of `( ) [ ] , ; : .` or a character that starts nothing.
    Mark(u8),
}

/// What a text ended in the middle of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfinished {
    String,
    DollarString,
    Identifier,
    Comment,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token {
    pub kind: TokenKind,
    pub start: usize,
    pub end: usize,
}

impl Token {
    pub fn is_word(&self, sql: &str, word: &str) -> bool {
        self.kind == TokenKind::Word && sql[self.start..self.end].eq_ignore_ascii_case(word)
    }
    pub fn is_mark(&self, mark: u8) -> bool {
        self.kind == TokenKind::Mark(mark)
    }
}

/// The tokens of a text; afterwards [`Tokens::unfinished`] says how it ended.
pub struct Tokens<'a> {
    sql: &'a [u8],
    at: usize,
    pub unfinished: Option<Unfinished>,
}

fn starts_word(b: u8) -> bool {
    b.is_ascii_alphabetic() || b == b'_' || b >= 0x80
}

fn is_operator(b: u8) -> bool {
    b"~!@#^&|`?+-*/%<>=".contains(&b)
}

impl<'a> Tokens<'a> {
    pub fn new(sql: &'a str) -> Tokens<'a> {
        Tokens { sql: sql.as_bytes(), at: 0, unfinished: None }
    }

    /// From an offset on, which must be between tokens.
    pub fn from(sql: &'a str, at: usize) -> Tokens<'a> {
        Tokens { sql: sql.as_bytes(), at, unfinished: None }
    }

    fn byte(&self, at: usize) -> u8 {
        self.sql.get(at).copied().unwrap_or(0)
    }

    fn run_of(&self, mut at: usize, test: impl Fn(u8) -> bool) -> usize {
        while at < self.sql.len() && test(self.sql[at]) {
            at += 1;
        }
        at
    }

    /// Over blanks and comments.
    fn skip_blanks(&mut self) {
        loop {
            self.at = self.run_of(self.at, |b| b.is_ascii_whitespace() || b == 0x0b);
            match (self.byte(self.at), self.byte(self.at + 1)) {
                (b'-', b'-') => self.at = self.run_of(self.at, |b| b != b'\n' && b != b'\r'),
                (b'/', b'*') => self.skip_comment(),
                _ => return,
            }
        }
    }

    /// Comments nest.
    fn skip_comment(&mut self) {
        let (mut at, mut depth) = (self.at + 2, 1);
        while depth > 0 {
            if at >= self.sql.len() {
                self.unfinished = Some(Unfinished::Comment);
                break;
            }
            match (self.byte(at), self.byte(at + 1)) {
                (b'/', b'*') => (depth, at) = (depth + 1, at + 2),
                (b'*', b'/') => (depth, at) = (depth - 1, at + 2),
                _ => at += 1,
            }
        }
        self.at = at.min(self.sql.len());
    }

    /// The end of what the quote at `at` opens; a doubled quote stands for one.
    fn quoted(&mut self, at: usize, escapes: bool, open: Unfinished) -> usize {
        let quote = self.sql[at];
        let mut at = at + 1;
        loop {
            match self.sql.get(at) {
                None => {
                    self.unfinished = Some(open);
                    return self.sql.len();
                }
                Some(b'\\') if escapes => at += 2,
                Some(b) if *b == quote && self.byte(at + 1) == quote => at += 2,
                Some(b) if *b == quote => return at + 1,
                Some(_) => at += 1,
            }
        }
    }

    /// The end of the dollar-quoted string that starts at `at`, if one does.
    fn dollar_quoted(&mut self, at: usize) -> Option<usize> {
        let tag = match self.byte(at + 1) {
            b'$' => at + 1,
            b if starts_word(b) => self.run_of(at + 1, |b| starts_word(b) || b.is_ascii_digit()),
            _ => return None,
        };
        if self.byte(tag) != b'$' {
            return None;
        }
        let quote = &self.sql[at..=tag];
        let body = &self.sql[tag + 1..];
        Some(match body.windows(quote.len()).position(|w| w == quote) {
            Some(p) => tag + 1 + p + quote.len(),
            None => {
                self.unfinished = Some(Unfinished::DollarString);
                self.sql.len()
            }
        })
    }

    /// Operators end before a comment.
    fn operator(&self, at: usize) -> usize {
        let mut end = at + 1;
        while is_operator(self.byte(end)) {
            if matches!((self.byte(end), self.byte(end + 1)), (b'-', b'-') | (b'/', b'*')) {
                break;
            }
            end += 1;
        }
        end
    }

    fn number(&self, at: usize) -> usize {
        let word = |b: u8| starts_word(b) || b.is_ascii_digit();
        let mut end = self.run_of(at, word);
        if self.byte(end) == b'.' && self.byte(end + 1) != b'.' {
            end = self.run_of(end + 1, word);
        }
        let exponent = end > at && matches!(self.sql[end - 1], b'e' | b'E') && self.sql[at] != b'x';
        if exponent && matches!(self.byte(end), b'+' | b'-') && self.byte(end + 1).is_ascii_digit() {
            end = self.run_of(end + 1, word);
        }
        end
    }
}

impl Iterator for Tokens<'_> {
    type Item = Token;
    fn next(&mut self) -> Option<Token> {
        self.skip_blanks();
        let start = self.at;
        let first = *self.sql.get(start)?;
        let (kind, end) = match first {
            b'\'' => (TokenKind::String, self.quoted(start, false, Unfinished::String)),
            b'"' => (TokenKind::Quoted, self.quoted(start, false, Unfinished::Identifier)),
            b'$' if self.byte(start + 1).is_ascii_digit() => {
                (TokenKind::Param, self.run_of(start + 1, |b| b.is_ascii_digit()))
            }
            b'$' => match self.dollar_quoted(start) {
                Some(end) => (TokenKind::String, end),
                None => (TokenKind::Mark(b'$'), start + 1),
            },
            b'e' | b'E' if self.byte(start + 1) == b'\'' => {
                (TokenKind::String, self.quoted(start + 1, true, Unfinished::String))
            }
            b'b' | b'B' | b'x' | b'X' | b'n' | b'N' if self.byte(start + 1) == b'\'' => {
                (TokenKind::String, self.quoted(start + 1, false, Unfinished::String))
            }
            b'u' | b'U' if self.byte(start + 1) == b'&' && self.byte(start + 2) == b'\'' => {
                (TokenKind::String, self.quoted(start + 2, false, Unfinished::String))
            }
            b'u' | b'U' if self.byte(start + 1) == b'&' && self.byte(start + 2) == b'"' => {
                (TokenKind::Quoted, self.quoted(start + 2, false, Unfinished::Identifier))
            }
            b if starts_word(b) => {
                let end = self.run_of(start, |b| starts_word(b) || b.is_ascii_digit() || b == b'$');
                (TokenKind::Word, end)
            }
            b if b.is_ascii_digit() || (b == b'.' && self.byte(start + 1).is_ascii_digit()) => {
                (TokenKind::Number, self.number(start))
            }
            b if is_operator(b) => (TokenKind::Operator, self.operator(start)),
            b => (TokenKind::Mark(b), start + 1),
        };
        // An escape may have led past the end.
        let end = end.min(self.sql.len());
        self.at = end;
        Some(Token { kind, start, end })
    }
}

/// One bracket level of [`nesting`].
#[derive(Default)]
struct Level {
    /// What the level adds when it is closed.
    weight: usize,
    /// The deepest of the segments behind us.
    deepest: usize,
    /// Operators of the present segment, and its deepest brackets.
    operators: usize,
    inner: usize,
    /// Links of left-deep chains (joins, set operations), which segments do not end.
    links: usize,
}

impl Level {
    fn end_segment(&mut self) {
        self.deepest = self.deepest.max(self.inner + self.operators);
        (self.operators, self.inner) = (0, 0);
    }
    fn depth(&mut self) -> usize {
        self.end_segment();
        self.deepest + self.links + self.weight
    }
}

/// An upper bound of how deep a text's parse trees can be nested, in levels of operators or brackets. Items of a
/// list, and the operands of AND and OR, which the grammar flattens, are side by side.
pub fn nesting(sql: &str) -> usize {
    const OPERATOR_WORDS: &[&str] = &[
        "not", "is", "in", "like", "ilike", "similar", "between", "collate", "at", "escape", "isnull",
        "notnull", "any", "all", "some", "exists", "overlaps", "prepare", "explain",
    ];
    const LIST_WORDS: &[&str] =
        &["and", "or", "when", "then", "else", "from", "where", "having", "by", "set", "values"];
    const LINK_WORDS: &[&str] = &["join", "union", "intersect", "except"];
    const INNER_WORDS: &[&str] = &["select", "values", "with"];
    let mut levels = vec![Level::default()];
    let mut deepest = 0;
    let mut behind_bracket = false;
    for t in Tokens::new(sql) {
        let text = &sql[t.start..t.end];
        let is = |words: &[&str]| words.iter().any(|w| w.eq_ignore_ascii_case(text));
        let was_bracket = std::mem::replace(&mut behind_bracket, matches!(t.kind, TokenKind::Mark(b'(')));
        let opens = matches!(t.kind, TokenKind::Mark(b'(' | b'[')) || t.is_word(sql, "case");
        let closes = matches!(t.kind, TokenKind::Mark(b')' | b']')) || t.is_word(sql, "end");
        if opens {
            let weight = if t.is_word(sql, "case") { 2 } else { 1 };
            levels.push(Level { weight, ..Level::default() });
            // What is never closed still counts.
            deepest = deepest.max(levels.len());
            continue;
        }
        if closes && levels.len() > 1 {
            let depth = levels.pop().map_or(0, |mut l| l.depth());
            if let Some(l) = levels.last_mut() {
                l.inner = l.inner.max(depth);
            }
            continue;
        }
        let Some(level) = levels.last_mut() else { break };
        match t.kind {
            // Signs at the end may be operators of their own.
            TokenKind::Operator => {
                level.operators += text.len() - text.trim_end_matches(['+', '-']).len().min(text.len() - 1)
            }
            TokenKind::Mark(b':') => level.operators += 1,
            TokenKind::Mark(b',') => level.end_segment(),
            TokenKind::Mark(b';') => {
                level.end_segment();
                deepest = deepest.max(level.depth());
                (level.deepest, level.links) = (0, 0);
            }
            TokenKind::Word if was_bracket && is(INNER_WORDS) => level.weight += 3,
            TokenKind::Word if is(OPERATOR_WORDS) => level.operators += 1,
            TokenKind::Word if is(LIST_WORDS) => level.end_segment(),
            TokenKind::Word if is(LINK_WORDS) => {
                level.end_segment();
                level.links += 1;
            }
            _ => {}
        }
    }
    let mut inner = 0;
    while let Some(mut level) = levels.pop() {
        level.inner = level.inner.max(inner);
        inner = level.depth();
    }
    deepest.max(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(sql: &str) -> Vec<&str> {
        Tokens::new(sql).map(|t| &sql[t.start..t.end]).collect()
    }

    #[test]
    fn tokens_are_postgresql_s() {
        assert_eq!(texts("a.b<=1.5e-3--x\n+E'\\''"), ["a", ".", "b", "<=", "1.5e-3", "+", "E'\\''"]);
        assert_eq!(
            texts("'it''s' \"a\"\"b\" $1 $$;$$ $t$ $$ $t$"),
            ["'it''s'", "\"a\"\"b\"", "$1", "$$;$$", "$t$ $$ $t$"]
        );
        assert_eq!(texts("a/* ; /* */ */b :: é"), ["a", "b", ":", ":", "é"]);
        assert_eq!(texts("1..2 .5 x'1f' a-- end"), ["1", ".", ".2", ".5", "x'1f'", "a"]);
    }

    #[test]
    fn unfinished_text_is_told() {
        let open = |sql: &str| {
            let mut t = Tokens::new(sql);
            while t.next().is_some() {}
            t.unfinished
        };
        assert_eq!(open("select 'a"), Some(Unfinished::String));
        assert_eq!(open("select E'a\\"), Some(Unfinished::String));
        assert_eq!(open("select $x$ $$"), Some(Unfinished::DollarString));
        assert_eq!(open("select /* /* */"), Some(Unfinished::Comment));
        assert_eq!(open("select \"a"), Some(Unfinished::Identifier));
        assert_eq!(open("select 1"), None);
    }

    #[test]
    fn nesting_is_bounded_from_above() {
        assert!(nesting("select 1") <= 1);
        assert!(nesting("select a + b + c") >= 2);
        assert!(nesting("select ((1)+1+1)+1+1") >= 4);
        assert!(nesting(&format!("select {}1", "a + 1, ".repeat(100))) < 5);
        assert!(nesting("select (((((") >= 5);
    }
}
