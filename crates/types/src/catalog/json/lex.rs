//! The tokens of a text of JSON, and what is wrong with a text that is none, in PostgreSQL's words.
//!
//! - **L1** A token ends where its error is told to be: the excerpt of the text in an error's context ends
//!   there, and what the error cites is the token from its start to there.
//! - **L2** Escapes are undone only where somebody wants the strings: a text of type json is kept as it is,
//!   and may have `\u0000` and halves of surrogate pairs in it.

use super::MAX_DEPTH;
use crate::{SqlError, SqlResult, sqlstate};
use std::borrow::Cow;

const UNTRANSLATABLE_CHARACTER: &str = "22P05";
const STACK_DEPTH: &str = "54001";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Token {
    ObjectStart,
    ObjectEnd,
    ArrayStart,
    ArrayEnd,
    Comma,
    Colon,
    String,
    Number,
    True,
    False,
    Null,
    End,
}

#[derive(Clone, Debug)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    /// Where the token starts and ends (L1).
    pub start: usize,
    pub end: usize,
    line: usize,
    line_start: usize,
    unescape: bool,
    /// That of the token before, while one is read.
    pub token: Option<Token>,
    /// The string that the token is, if escapes are undone (L2).
    pub string: Cow<'a, str>,
}

/// What may be in a word or behind a number, so that it is one token.
fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80
}

/// The error of a value that is nested too deeply.
#[cold]
pub(super) fn too_deep() -> SqlError {
    SqlError::new(STACK_DEPTH, "stack depth limit exceeded")
        .hint(format!("A value of JSON may be nested {MAX_DEPTH} levels deep."))
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str, unescape: bool) -> Lexer<'a> {
        let string = Cow::Borrowed("");
        Lexer { text, start: 0, end: 0, line: 1, line_start: 0, unescape, token: None, string }
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    /// Behind the character at a place, or the text's end.
    fn behind(&self, at: usize) -> usize {
        let len = self.text.get(at..).and_then(|t| t.chars().next()).map_or(0, char::len_utf8);
        at + len
    }

    /// Goes to the next token.
    pub fn advance(&mut self) -> SqlResult<Token> {
        let mut at = self.end;
        while let Some(b @ (b' ' | b'\t' | b'\n' | b'\r')) = self.byte(at) {
            at += 1;
            if b == b'\n' {
                self.line += 1;
                self.line_start = at;
            }
        }
        self.start = at;
        let one = |t: Token| Some((t, at + 1));
        let found = match self.byte(at) {
            None => Some((Token::End, at)),
            Some(b'{') => one(Token::ObjectStart),
            Some(b'}') => one(Token::ObjectEnd),
            Some(b'[') => one(Token::ArrayStart),
            Some(b']') => one(Token::ArrayEnd),
            Some(b',') => one(Token::Comma),
            Some(b':') => one(Token::Colon),
            Some(b'"') => Some((Token::String, self.string_from(at)?)),
            Some(b'-' | b'0'..=b'9') => {
                let (end, is_number) = self.number_from(at);
                self.end = end;
                is_number.then_some((Token::Number, end))
            }
            Some(_) => {
                let bytes = &self.text.as_bytes()[at..];
                let len = bytes.iter().take_while(|b| is_word(**b)).count();
                self.end = at + len.max(1);
                match &bytes[..len] {
                    b"true" => Some((Token::True, self.end)),
                    b"false" => Some((Token::False, self.end)),
                    b"null" => Some((Token::Null, self.end)),
                    _ => None,
                }
            }
        };
        let Some((token, end)) = found else { return Err(self.invalid_token()) };
        self.end = end;
        self.token = Some(token);
        Ok(token)
    }

    /// The end of a number with all that would be taken for a part of it, and whether it is one.
    fn number_from(&self, start: usize) -> (usize, bool) {
        let mut at = start + usize::from(self.byte(start) == Some(b'-'));
        let digits = |at: &mut usize| {
            let from = *at;
            while self.byte(*at).is_some_and(|b| b.is_ascii_digit()) {
                *at += 1;
            }
            *at > from
        };
        let mut good = match self.byte(at) {
            Some(b'0') => {
                at += 1;
                true
            }
            _ => digits(&mut at),
        };
        if self.byte(at) == Some(b'.') {
            at += 1;
            good &= digits(&mut at);
        }
        if let Some(b'e' | b'E') = self.byte(at) {
            at += 1;
            if let Some(b'+' | b'-') = self.byte(at) {
                at += 1;
            }
            good &= digits(&mut at);
        }
        let end = at + self.text.as_bytes()[at..].iter().take_while(|b| is_word(**b)).count();
        (end, good && end == at)
    }

    /// The end of a string; its characters, if they are wanted.
    fn string_from(&mut self, start: usize) -> SqlResult<usize> {
        let mut at = start + 1;
        let mut made: Option<String> = None;
        let mut high: Option<u32> = None;
        loop {
            // All up to what is special at once.
            let plain = at;
            while self.byte(at).is_some_and(|b| b >= b' ' && b != b'"' && b != b'\\') {
                at += 1;
            }
            if at > plain {
                if high.is_some() && self.unescape {
                    return Err(self.surrogate("low", "a high", self.behind(plain)));
                }
                if let Some(made) = &mut made {
                    made.push_str(&self.text[plain..at]);
                }
            }
            match self.byte(at) {
                None => {
                    self.end = at;
                    return Err(self.invalid_token());
                }
                Some(b'"') => break,
                Some(b'\\') => {
                    if self.unescape && made.is_none() {
                        made = Some(self.text[start + 1..at].to_string());
                    }
                    at = self.escape(at + 1, &mut made, &mut high)?;
                }
                Some(b) => {
                    self.end = at;
                    return Err(self.invalid(format!("Character with value 0x{b:02x} must be escaped.")));
                }
            }
        }
        if high.is_some() && self.unescape {
            return Err(self.surrogate("low", "a high", at + 1));
        }
        if self.unescape {
            self.string = match made {
                Some(made) => Cow::Owned(made),
                None => Cow::Borrowed(&self.text[start + 1..at]),
            };
        }
        Ok(at + 1)
    }

    /// What follows a backslash; behind it.
    fn escape(&mut self, at: usize, made: &mut Option<String>, high: &mut Option<u32>) -> SqlResult<usize> {
        let Some(b) = self.byte(at) else {
            self.end = at;
            return Err(self.invalid_token());
        };
        let plain = match b {
            b'"' | b'\\' | b'/' => char::from(b),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(at + 1, made, high),
            _ => {
                self.start = at;
                self.end = self.behind(at);
                let written = &self.text[at..self.end];
                return Err(self.invalid(format!("Escape sequence \"\\{written}\" is invalid.")));
            }
        };
        if let Some(made) = made {
            if high.is_some() {
                return Err(self.surrogate("low", "a high", at + 1));
            }
            made.push(plain);
        }
        Ok(at + 1)
    }

    /// The four digits behind `\u`.
    fn unicode(&mut self, at: usize, made: &mut Option<String>, high: &mut Option<u32>) -> SqlResult<usize> {
        let mut code = 0;
        for at in at..at + 4 {
            let Some(b) = self.byte(at) else {
                self.end = at;
                return Err(self.invalid_token());
            };
            let Some(digit) = char::from(b).to_digit(16) else {
                self.end = self.behind(at);
                return Err(self.invalid("\"\\u\" must be followed by four hexadecimal digits.".into()));
            };
            code = code << 4 | digit;
        }
        let end = at + 4;
        let Some(made) = made else { return Ok(end) };
        match (code, *high) {
            (0xd800..=0xdbff, Some(_)) => return Err(self.surrogate("high", "not", end)),
            (0xd800..=0xdbff, None) => *high = Some(code),
            (0xdc00..=0xdfff, Some(first)) => {
                *high = None;
                let code = 0x1_0000 + ((first & 0x3ff) << 10) + (code & 0x3ff);
                made.extend(char::from_u32(code));
            }
            (0xdc00..=0xdfff, None) | (_, Some(_)) => return Err(self.surrogate("low", "a high", end)),
            (0, None) => {
                self.end = end;
                let message = "unsupported Unicode escape sequence";
                let error = SqlError::new(UNTRANSLATABLE_CHARACTER, message);
                return Err(error.detail("\\u0000 cannot be converted to text.").context(self.context()));
            }
            (code, None) => made.extend(char::from_u32(code)),
        }
        Ok(end)
    }

    #[cold]
    fn surrogate(&mut self, which: &str, follows: &str, end: usize) -> SqlError {
        self.end = end;
        self.invalid(match follows {
            "not" => format!("Unicode {which} surrogate must not follow a high surrogate."),
            after => format!("Unicode {which} surrogate must follow {after} surrogate."),
        })
    }

    #[cold]
    fn invalid_token(&self) -> SqlError {
        self.invalid(format!("Token \"{}\" is invalid.", self.cited()))
    }

    fn cited(&self) -> &'a str {
        self.text.get(self.start..self.end).unwrap_or_default()
    }

    #[cold]
    fn invalid(&self, detail: String) -> SqlError {
        SqlError::new(sqlstate::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json")
            .detail(detail)
            .context(self.context())
    }

    /// The error of a token where others were expected.
    #[cold]
    pub fn unexpected(&self, expected: &str) -> SqlError {
        match self.token {
            Some(Token::End) | None => self.invalid("The input string ended unexpectedly.".into()),
            _ => self.invalid(format!("Expected {expected}, but found \"{}\".", self.cited())),
        }
    }

    /// The line up to the token's end, or the last fifty bytes of that.
    fn context(&self) -> String {
        const MOST: usize = 50;
        /// So many bytes are not worth leaving out.
        const FEW: usize = 3;
        let (end, line_start) = (self.end, self.line_start.min(self.end));
        let mut start = line_start;
        while end - start >= MOST {
            start = self.behind(start);
        }
        if start - line_start <= FEW {
            start = line_start;
        }
        let before = if start > line_start { "..." } else { "" };
        let goes_on =
            self.token != Some(Token::End) && self.byte(end).is_some_and(|b| b != b'\n' && b != b'\r');
        let after = if goes_on { "..." } else { "" };
        let shown = self.text.get(start..end).unwrap_or_default();
        format!("JSON data, line {}: {before}{shown}{after}", self.line)
    }
}
