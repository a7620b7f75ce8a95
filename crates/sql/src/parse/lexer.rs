//! PostgreSQL's lexical structure: enough of it to find where tokens, statements and nesting begin and end.
//!
//! The grammar has its own scanner; this one serves what that one cannot: unfinished input, text that comes
//! in pieces, and looking at a text before it is parsed. It never fails: what cannot end ends with the text,
//! and [`Tokens::unfinished`] says that it is open.
//!
//! - **L1** Tokens are in order, do not overlap, and hold all of the text but blanks and comments.
//! - **L2** Offsets are on character boundaries, but for the first token's start after [`Tokens::resume`].
//! - **L3** What was given stays as it is when the text goes on, but for the last token, of which
//!   [`Tokens::may_grow`] tells, and what is open, which is gone on with from where its end may be: a text
//!   that comes in pieces is looked at once.

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
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unfinished {
    /// `'...'`; whether a backslash takes the next character's meaning.
    String { escapes: bool },
    /// The quote that ends it, with its dollars.
    DollarString(Box<[u8]>),
    /// `"..."`
    Identifier,
    /// From two dashes to the end of the line. A whole text may end with one.
    LineComment,
    /// So many, each in the one before.
    Comment { depth: u32 },
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
    /// What is open at `at`, before the next token.
    open: Option<Unfinished>,
    /// What is open at the text's end, and the offset to resume from when there is more text.
    pub unfinished: Option<(Unfinished, usize)>,
}

fn starts_word(b: u8) -> bool {
    b.is_ascii_alphabetic() || b == b'_' || b >= 0x80
}

/// What a word goes on with, by a table: most bytes of a text are such.
const IN_WORD: [bool; 256] = {
    let mut table = [false; 256];
    let mut b = 0;
    while b < 256 {
        table[b] = b >= 0x80 || (b as u8).is_ascii_alphanumeric() || b as u8 == b'_' || b as u8 == b'$';
        b += 1;
    }
    table
};

fn is_operator(b: u8) -> bool {
    b"~!@#^&|`?+-*/%<>=".contains(&b)
}

impl<'a> Tokens<'a> {
    pub fn new(sql: &'a str) -> Tokens<'a> {
        Tokens::resume(sql, 0, None)
    }

    /// From an offset on, which must be between tokens.
    pub fn from(sql: &'a str, at: usize) -> Tokens<'a> {
        Tokens::resume(sql, at, None)
    }

    /// The same, in the middle of what was unfinished there: of that comes a token which starts at the
    /// offset.
    pub fn resume(sql: &'a str, at: usize, open: Option<Unfinished>) -> Tokens<'a> {
        Tokens { sql: sql.as_bytes(), at, open, unfinished: None }
    }

    /// Whether more text could make the token, if it is the last one, another, or the beginning of another.
    pub fn may_grow(&self, token: Token) -> bool {
        let end = match token.kind {
            TokenKind::Mark(b'(' | b')' | b'[' | b']' | b',' | b';') => return false,
            // A dollar-quoted string's, whose tag may not be whole.
            TokenKind::Mark(b'$') => self.run_of(token.end, |b| starts_word(b) || b.is_ascii_digit()),
            // What may follow are U&'...', and an exponent's digits.
            TokenKind::Word
                if token.end - token.start == 1 && matches!(self.sql[token.start], b'u' | b'U') =>
            {
                self.run_of(token.end, |b| b == b'&').min(token.end + 1)
            }
            TokenKind::Number if matches!(self.sql[token.end - 1], b'e' | b'E') => {
                self.run_of(token.end, |b| matches!(b, b'+' | b'-')).min(token.end + 1)
            }
            _ => token.end,
        };
        end == self.sql.len()
    }

    fn byte(&self, at: usize) -> u8 {
        self.sql.get(at).copied().unwrap_or(0)
    }

    #[inline]
    fn run_of(&self, at: usize, test: impl Fn(u8) -> bool) -> usize {
        let rest = self.sql.get(at..).unwrap_or_default();
        at + rest.iter().position(|b| !test(*b)).unwrap_or(rest.len())
    }

    /// Over blanks and comments.
    fn skip_blanks(&mut self) {
        loop {
            self.at = self.run_of(self.at, |b| b.is_ascii_whitespace() || b == 0x0b);
            let comment = match (self.byte(self.at), self.byte(self.at + 1)) {
                (b'-', b'-') => Unfinished::LineComment,
                (b'/', b'*') => Unfinished::Comment { depth: 1 },
                _ => return,
            };
            self.at = self.close(self.at + 2, comment)
        }
    }

    /// The end of what is open at `at`; the text's, if it ends before that.
    fn close(&mut self, at: usize, mut open: Unfinished) -> usize {
        self.end_of(at, &mut open).unwrap_or_else(|from| {
            self.unfinished = Some((open, from));
            self.sql.len()
        })
    }

    /// The same; or, as an error, from where on to look when there is more text.
    fn end_of(&self, mut at: usize, open: &mut Unfinished) -> Result<usize, usize> {
        match open {
            Unfinished::String { escapes } => self.quoted(at, b'\'', *escapes),
            Unfinished::Identifier => self.quoted(at, b'"', false),
            Unfinished::DollarString(quote) => {
                let found = self.sql[at..].windows(quote.len()).position(|w| w == &quote[..]);
                // The last bytes may be the beginning of the quote.
                let from = at.max((self.sql.len() + 1).saturating_sub(quote.len()));
                found.map(|p| at + p + quote.len()).ok_or(from)
            }
            Unfinished::LineComment => {
                at = self.run_of(at, |b| b != b'\n' && b != b'\r');
                if at < self.sql.len() { Ok(at) } else { Err(at) }
            }
            // They nest.
            Unfinished::Comment { depth } => loop {
                match (self.sql.get(at), self.sql.get(at + 1)) {
                    (None, _) | (Some(b'/' | b'*'), None) => return Err(at),
                    (Some(b'/'), Some(b'*')) => (*depth, at) = (*depth + 1, at + 2),
                    (Some(b'*'), Some(b'/')) => {
                        (*depth, at) = (*depth - 1, at + 2);
                        if *depth == 0 {
                            return Ok(at);
                        }
                    }
                    _ => at += 1,
                }
            },
        }
    }

    /// Within quotes; a doubled one stands for one.
    fn quoted(&self, mut at: usize, quote: u8, escapes: bool) -> Result<usize, usize> {
        loop {
            at += match self.sql.get(at) {
                None => return Err(at),
                Some(b'\\') if escapes && at + 1 == self.sql.len() => return Err(at),
                Some(b'\\') if escapes => 2,
                Some(b) if *b == quote && self.byte(at + 1) == quote => 2,
                Some(b) if *b == quote => return Ok(at + 1),
                Some(_) => 1,
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
        let quote = self.sql[at..=tag].into();
        Some(self.close(tag + 1, Unfinished::DollarString(quote)))
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
        if let Some(open) = self.open.take() {
            let kind = match open {
                Unfinished::LineComment | Unfinished::Comment { .. } => None,
                Unfinished::Identifier => Some(TokenKind::Quoted),
                Unfinished::String { .. } | Unfinished::DollarString(_) => Some(TokenKind::String),
            };
            let start = self.at;
            self.at = self.close(start, open);
            if let Some(kind) = kind {
                return Some(Token { kind, start, end: self.at });
            }
        }
        self.skip_blanks();
        let start = self.at;
        let first = *self.sql.get(start)?;
        let (plain, escaped) = (Unfinished::String { escapes: false }, Unfinished::String { escapes: true });
        let (kind, end) = match first {
            b'\'' => (TokenKind::String, self.close(start + 1, plain)),
            b'"' => (TokenKind::Quoted, self.close(start + 1, Unfinished::Identifier)),
            b'$' if self.byte(start + 1).is_ascii_digit() => {
                (TokenKind::Param, self.run_of(start + 1, |b| b.is_ascii_digit()))
            }
            b'$' => match self.dollar_quoted(start) {
                Some(end) => (TokenKind::String, end),
                None => (TokenKind::Mark(b'$'), start + 1),
            },
            b'e' | b'E' if self.byte(start + 1) == b'\'' => {
                (TokenKind::String, self.close(start + 2, escaped))
            }
            b'b' | b'B' | b'x' | b'X' | b'n' | b'N' if self.byte(start + 1) == b'\'' => {
                (TokenKind::String, self.close(start + 2, plain))
            }
            b'u' | b'U' if self.byte(start + 1) == b'&' && self.byte(start + 2) == b'\'' => {
                (TokenKind::String, self.close(start + 3, plain))
            }
            b'u' | b'U' if self.byte(start + 1) == b'&' && self.byte(start + 2) == b'"' => {
                (TokenKind::Quoted, self.close(start + 3, Unfinished::Identifier))
            }
            b if starts_word(b) => {
                let end = self.run_of(start, |b| IN_WORD[usize::from(b)]);
                (TokenKind::Word, end)
            }
            b if b.is_ascii_digit() || (b == b'.' && self.byte(start + 1).is_ascii_digit()) => {
                (TokenKind::Number, self.number(start))
            }
            b if is_operator(b) => (TokenKind::Operator, self.operator(start)),
            b => (TokenKind::Mark(b), start + 1),
        };
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

/// An upper bound of how deep a text's parse trees can be nested, in levels of operators or brackets. Items
/// of a list, and the operands of AND and OR, which the grammar flattens, are side by side.
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
        let string = |escapes| Unfinished::String { escapes };
        let dollars = |quote: &str| Unfinished::DollarString(quote.as_bytes().into());
        assert_eq!(open("select 'a"), Some((string(false), 9)));
        assert_eq!(open("select E'a\\"), Some((string(true), 10)));
        assert_eq!(open("select E'a''"), Some((string(true), 12)));
        assert_eq!(open("select $x$ $$"), Some((dollars("$x$"), 11)));
        assert_eq!(open("select $xyz$"), Some((dollars("$xyz$"), 12)));
        assert_eq!(open("select /* /* */ *"), Some((Unfinished::Comment { depth: 1 }, 16)));
        assert_eq!(open("select /*/"), Some((Unfinished::Comment { depth: 1 }, 9)));
        assert_eq!(open("select \"a"), Some((Unfinished::Identifier, 9)));
        assert_eq!(open("select 1 -- a"), Some((Unfinished::LineComment, 13)));
        assert_eq!(open("select 1 -- a\r"), None);
        assert_eq!(open("select 1"), None);
    }

    /// L3, at each place where the texts may be cut.
    #[test]
    fn a_text_that_goes_on_gives_the_same_tokens() {
        for sql in [
            "select 'it''s', E'a\\\\'''';' \"x\"\"y\" 1.5e-3--2\n+-/*a*/ $1 $é1$ ; $é $é1$ -.5 a$b$",
            "u&'x' U&\"é\" b'1' E'\\é' /* /* x */ ' */ (a;b) --é\r'--' $$ $a$ $$ x'1f'||n'' 1..2 $",
        ] {
            let whole = texts(sql);
            for cut in (0..=sql.len()).filter(|i| sql.is_char_boundary(*i)) {
                let (mut first, mut at, mut open) = (vec![], 0, None);
                let mut tokens = Tokens::new(&sql[..cut]);
                while let Some(t) = tokens.next() {
                    if tokens.unfinished.is_some() || tokens.may_grow(t) {
                        at = t.start;
                        break;
                    }
                    first.push(t);
                    at = t.end
                }
                if let Some((unfinished, from)) = tokens.unfinished {
                    (at, open) = (from, Some(unfinished))
                }
                let (start, behind) = (at, open.is_some());
                let mut rest: Vec<Token> = Tokens::resume(sql, at, open).collect();
                // What was open begins before.
                if behind && rest.first().is_some_and(|t| t.start == start) {
                    rest[0].start = first.last().map_or(0, |t: &Token| t.end)
                }
                let text = |t: &Token| sql[t.start..t.end].trim_start().to_string();
                let all: Vec<String> = first.iter().chain(&rest).map(text).collect();
                assert_eq!(all.len(), whole.len(), "{cut}: {all:?}");
                assert!(all.iter().zip(&whole).all(|(a, w)| a.ends_with(w)), "{cut}: {all:?}")
            }
        }
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
