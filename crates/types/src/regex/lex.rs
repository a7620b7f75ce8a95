//! The words of a regular expression: PostgreSQL's advanced expressions (ARE), extended (ERE) and basic ones
//! (BRE), and literal texts, with the prefixes that choose among them.
//!
//! The reader of words is one word ahead of the parser, as PostgreSQL's: so the first mistake of several is
//! the same.
//!
//! Source: PostgreSQL 15's documentation, 9.7.3, and its answers.

use super::set::{Class, MAX};
use super::{Flags, Problem};

/// A word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Token {
    /// Nothing was read yet.
    Start,
    End,
    Char(u32),
    /// `(`; whether it captures.
    Open(bool),
    Close,
    Or,
    /// `*`, `+`, `?`, and whether they take as much as they can.
    Star(bool),
    Plus(bool),
    Maybe(bool),
    /// The braces of a bound; the same.
    BoundOpen,
    BoundClose(bool),
    Digit(u32),
    Comma,
    /// `[`; whether it is not `[^`.
    Bracket(bool),
    BracketClose,
    /// `-` between the ends of a range.
    Range,
    /// `[.`, `[=`, `[:`, and the end of each.
    Element,
    Equivalence,
    ClassName,
    NameEnd,
    /// An escape for a class; whether it is all the others.
    Class(Class, bool),
    Dot,
    Caret,
    Dollar,
    TextStart,
    TextEnd,
    WordStart,
    WordEnd,
    WordEdge,
    NoWordEdge,
    BackReference(u32),
    /// A constraint: ahead or behind, and whether it is wanted.
    Look {
        ahead: bool,
        positive: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Extended,
    Basic,
    Literal,
    ExtendedBound,
    BasicBound,
    Bracket,
    Element,
    Equivalence,
    Class,
}

pub struct Lexer<'a> {
    text: &'a [char],
    at: usize,
    place: Place,
    last: Token,
    pub next: Token,
    pub flags: Flags,
    /// Captures begun so far: an escape of several digits is a reference only to one of them.
    pub captures: u32,
}

type Lexed<T> = Result<T, Problem>;

impl<'a> Lexer<'a> {
    /// Reads the prefixes and the first word.
    pub fn new(text: &'a [char], flags: Flags) -> Lexed<Lexer<'a>> {
        let (place, next) = (Place::Extended, Token::Start);
        let mut lexer = Lexer { text, at: 0, place, last: next, next, flags, captures: 0 };
        lexer.prefixes()?;
        lexer.place = match lexer.flags {
            f if f.has(Flags::QUOTE) => Place::Literal,
            f if f.has(Flags::EXTENDED) => Place::Extended,
            _ => Place::Basic,
        };
        lexer.advance()?;
        Ok(lexer)
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.text.get(self.at + ahead).copied()
    }
    fn eat(&mut self, c: char) -> bool {
        let is = self.peek(0) == Some(c);
        self.at += usize::from(is);
        is
    }
    fn take(&mut self) -> Option<char> {
        let c = self.peek(0);
        self.at += usize::from(c.is_some());
        c
    }
    pub fn place(&self) -> usize {
        self.at
    }
    pub fn between(&self, from: usize, to: usize) -> &'a [char] {
        &self.text[from..to.max(from)]
    }

    fn prefixes(&mut self) -> Lexed<()> {
        if self.flags.has(Flags::QUOTE) {
            return Ok(());
        }
        if let [a, b, c, next, ..] = self.text
            && [a, b, c] == [&'*', &'*', &'*']
        {
            match next {
                '?' => return Err(Problem::BadPattern),
                '=' => {
                    self.flags.set(Flags::QUOTE);
                    self.flags.clear(Flags::ADVANCED | Flags::EXPANDED | Flags::NEWLINE);
                    self.at = 4;
                    return Ok(());
                }
                ':' => {
                    self.flags.set(Flags::ADVANCED);
                    self.at = 4;
                }
                _ => return Err(Problem::BadRepeat),
            }
        }
        if !self.flags.has(Flags::ADVANCED) {
            return Ok(());
        }
        if let (Some('('), Some('?'), Some(letter)) = (self.peek(0), self.peek(1), self.peek(2))
            && letter.is_ascii_alphabetic()
        {
            self.at += 2;
            while let Some(c) = self.peek(0).filter(char::is_ascii_alphabetic) {
                self.at += 1;
                self.flags.embedded(c).ok_or(Problem::BadOption)?;
            }
            if !self.eat(')') {
                return Err(Problem::BadOption);
            }
            if self.flags.has(Flags::QUOTE) {
                self.flags.clear(Flags::EXPANDED | Flags::NEWLINE);
            }
        }
        Ok(())
    }

    /// Blanks and comments of expanded syntax.
    fn skip(&mut self) {
        loop {
            while self.peek(0).is_some_and(|c| c.is_ascii_whitespace() || c == '\u{b}') {
                self.at += 1;
            }
            if self.peek(0) != Some('#') {
                return;
            }
            while self.peek(0).is_some_and(|c| c != '\n') {
                self.at += 1;
            }
        }
    }

    /// Goes on to the next word.
    pub fn advance(&mut self) -> Lexed<()> {
        self.last = self.next;
        self.next = self.word()?;
        Ok(())
    }

    /// Takes the next word if it is this one.
    pub fn take_word(&mut self, word: Token) -> Lexed<bool> {
        let is = self.next == word;
        if is {
            self.advance()?;
        }
        Ok(is)
    }

    fn word(&mut self) -> Lexed<Token> {
        loop {
            let outside = matches!(
                self.place,
                Place::Extended | Place::Basic | Place::ExtendedBound | Place::BasicBound
            );
            if self.flags.has(Flags::EXPANDED) && outside {
                self.skip();
            }
            let Some(c) = self.take() else {
                return match self.place {
                    Place::Extended | Place::Basic | Place::Literal => Ok(Token::End),
                    Place::ExtendedBound | Place::BasicBound => Err(Problem::Braces),
                    _ => Err(Problem::Brackets),
                };
            };
            let word = match self.place {
                Place::Basic => self.basic(c)?,
                Place::Literal => Token::Char(c as u32),
                Place::ExtendedBound | Place::BasicBound => self.bound(c)?,
                Place::Bracket => self.bracketed(c)?,
                Place::Element => self.named(c, '.'),
                Place::Equivalence => self.named(c, '='),
                Place::Class => self.named(c, ':'),
                Place::Extended => match self.extended(c)? {
                    Some(word) => word,
                    // A comment.
                    None => continue,
                },
            };
            return Ok(word);
        }
    }

    fn bound(&mut self, c: char) -> Lexed<Token> {
        match (c, self.place) {
            ('0'..='9', _) => Ok(Token::Digit(c as u32 - '0' as u32)),
            (',', _) => Ok(Token::Comma),
            ('}', Place::ExtendedBound) => {
                self.place = Place::Extended;
                Ok(Token::BoundClose(!self.lazy()))
            }
            ('\\', Place::BasicBound) if self.eat('}') => {
                self.place = Place::Basic;
                Ok(Token::BoundClose(true))
            }
            _ => Err(Problem::BadBound),
        }
    }

    /// Whether the `?` of a quantifier that takes as little as it can comes next.
    fn lazy(&mut self) -> bool {
        self.flags.has(Flags::ADVANCED_FEATURES) && self.eat('?')
    }

    fn bracketed(&mut self, c: char) -> Lexed<Token> {
        let first = matches!(self.last_read(), Token::Bracket(_));
        match c {
            ']' if first => Ok(Token::Char(c as u32)),
            ']' => {
                self.place = if self.flags.has(Flags::EXTENDED) { Place::Extended } else { Place::Basic };
                Ok(Token::BracketClose)
            }
            '\\' if self.flags.has(Flags::ADVANCED_FEATURES) => {
                if self.peek(0).is_none() {
                    return Err(Problem::Escape);
                }
                match self.escape()? {
                    word @ (Token::Char(_) | Token::Class(..)) => Ok(word),
                    _ => Err(Problem::Escape),
                }
            }
            '-' if first || self.peek(0) == Some(']') => Ok(Token::Char(c as u32)),
            '-' => Ok(Token::Range),
            '[' => {
                let (place, word) = match self.peek(0) {
                    None => return Err(Problem::Brackets),
                    Some('.') => (Place::Element, Token::Element),
                    Some('=') => (Place::Equivalence, Token::Equivalence),
                    Some(':') => (Place::Class, Token::ClassName),
                    Some(_) => return Ok(Token::Char(c as u32)),
                };
                self.at += 1;
                self.place = place;
                Ok(word)
            }
            _ => Ok(Token::Char(c as u32)),
        }
    }

    /// The word before the one being read.
    fn last_read(&self) -> Token {
        self.last
    }

    fn named(&mut self, c: char, end: char) -> Token {
        if c == end && self.eat(']') {
            self.place = Place::Bracket;
            return Token::NameEnd;
        }
        Token::Char(c as u32)
    }

    /// `[`, `[^`, `[[:<:]]` or `[[:>:]]`, behind the first bracket.
    fn open_bracket(&mut self) -> Token {
        let edge = |text: &str| self.text[self.at..].iter().take(6).copied().eq(text.chars());
        let word = match (edge("[:<:]]"), edge("[:>:]]")) {
            (true, _) => Token::WordStart,
            (_, true) => Token::WordEnd,
            _ => {
                self.place = Place::Bracket;
                return Token::Bracket(!self.eat('^'));
            }
        };
        self.at += 6;
        word
    }

    fn extended(&mut self, c: char) -> Lexed<Option<Token>> {
        let word = match c {
            '|' => Token::Or,
            '*' => Token::Star(!self.lazy()),
            '+' => Token::Plus(!self.lazy()),
            '?' => Token::Maybe(!self.lazy()),
            '{' => {
                if self.flags.has(Flags::EXPANDED) {
                    self.skip();
                }
                if self.peek(0).is_some_and(|c| c.is_ascii_digit()) {
                    self.place = Place::ExtendedBound;
                    Token::BoundOpen
                } else {
                    Token::Char(c as u32)
                }
            }
            '(' if self.flags.has(Flags::ADVANCED_FEATURES) && self.eat('?') => match self.take() {
                Some(':') => Token::Open(false),
                Some('#') => {
                    while self.take().is_some_and(|c| c != ')') {}
                    return Ok(None);
                }
                Some('=') => Token::Look { ahead: true, positive: true },
                Some('!') => Token::Look { ahead: true, positive: false },
                Some('<') => match self.take() {
                    Some('=') => Token::Look { ahead: false, positive: true },
                    Some('!') => Token::Look { ahead: false, positive: false },
                    _ => return Err(Problem::BadRepeat),
                },
                _ => return Err(Problem::BadRepeat),
            },
            '(' => Token::Open(true),
            ')' => Token::Close,
            '[' => self.open_bracket(),
            '.' => Token::Dot,
            '^' => Token::Caret,
            '$' => Token::Dollar,
            '\\' => match self.peek(0) {
                None => return Err(Problem::Escape),
                Some(c) if !self.flags.has(Flags::ADVANCED_FEATURES) => {
                    self.at += 1;
                    Token::Char(c as u32)
                }
                Some(_) => self.escape()?,
            },
            _ => Token::Char(c as u32),
        };
        Ok(Some(word))
    }

    /// What stands behind a backslash in an ARE.
    fn escape(&mut self) -> Lexed<Token> {
        let c = self.take().ok_or(Problem::Escape)?;
        if !c.is_ascii_alphanumeric() {
            return Ok(Token::Char(c as u32));
        }
        let plain = |c: u32| Ok(Token::Char(c));
        match c {
            'a' => plain(7),
            'A' => Ok(Token::TextStart),
            'b' => plain(8),
            'B' => plain('\\' as u32),
            'c' => plain(self.take().ok_or(Problem::Escape)? as u32 & 0o37),
            'd' => Ok(Token::Class(Class::Digit, false)),
            'D' => Ok(Token::Class(Class::Digit, true)),
            'e' => plain(0o33),
            'f' => plain(0xc),
            'm' => Ok(Token::WordStart),
            'M' => Ok(Token::WordEnd),
            'n' => plain(0xa),
            'r' => plain(0xd),
            's' => Ok(Token::Class(Class::Space, false)),
            'S' => Ok(Token::Class(Class::Space, true)),
            't' => plain(9),
            'u' => self.number(16, 4, 4).and_then(in_range),
            'U' => self.number(16, 8, 8).and_then(in_range),
            'v' => plain(0xb),
            'w' => Ok(Token::Class(Class::Word, false)),
            'W' => Ok(Token::Class(Class::Word, true)),
            'x' => self.number(16, 1, 255).and_then(in_range),
            'y' => Ok(Token::WordEdge),
            'Y' => Ok(Token::NoWordEdge),
            'Z' => Ok(Token::TextEnd),
            '0'..='9' => {
                let behind = self.at;
                self.at -= 1;
                if c != '0' {
                    let n = self.number(10, 1, 255)?;
                    // One digit is a reference; several are if there is such a capture.
                    if self.at == behind || (1..=self.captures).contains(&n) {
                        return Ok(Token::BackReference(n));
                    }
                    self.at = behind - 1;
                }
                let mut n = self.number(8, 1, 3)?;
                if n > 0xff {
                    self.at -= 1;
                    n >>= 3;
                }
                plain(n)
            }
            _ => Err(Problem::Escape),
        }
    }

    /// A number of so many digits; one that is too large wraps around.
    fn number(&mut self, base: u32, least: usize, most: usize) -> Lexed<u32> {
        let (mut n, mut digits) = (0u32, 0);
        while digits < most
            && let Some(digit) = self.peek(0).and_then(|c| c.to_digit(base))
        {
            n = n.wrapping_mul(base).wrapping_add(digit);
            self.at += 1;
            digits += 1;
        }
        if digits < least { Err(Problem::Escape) } else { Ok(n) }
    }

    fn basic(&mut self, c: char) -> Lexed<Token> {
        let last = self.last_read();
        Ok(match c {
            '*' if matches!(last, Token::Start | Token::Open(_) | Token::Caret) => Token::Char(c as u32),
            '*' => Token::Star(true),
            '[' => self.open_bracket(),
            '.' => Token::Dot,
            '^' if matches!(last, Token::Start | Token::Open(_)) => Token::Caret,
            '$' => {
                if self.flags.has(Flags::EXPANDED) {
                    self.skip();
                }
                let ends = match self.peek(0) {
                    None => true,
                    Some(c) => c == '\\' && self.peek(1) == Some(')'),
                };
                if ends { Token::Dollar } else { Token::Char(c as u32) }
            }
            '\\' => match self.take().ok_or(Problem::Escape)? {
                '{' => {
                    self.place = Place::BasicBound;
                    Token::BoundOpen
                }
                '(' => Token::Open(true),
                ')' => Token::Close,
                '<' => Token::WordStart,
                '>' => Token::WordEnd,
                c @ '1'..='9' => Token::BackReference(c as u32 - '0' as u32),
                c => Token::Char(c as u32),
            },
            _ => Token::Char(c as u32),
        })
    }
}

fn in_range(c: u32) -> Lexed<Token> {
    if c <= MAX { Ok(Token::Char(c)) } else { Err(Problem::Escape) }
}
