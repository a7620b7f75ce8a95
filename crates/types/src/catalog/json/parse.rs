//! A text of JSON as a sequence of what is in it.
//!
//! - **P1** Nothing here recurs: a text may be nested as deeply as [`MAX_DEPTH`] says.
//! - **P2** What is told of the text is told in its order, and no more than one token ahead of it is read: so
//!   the first error is PostgreSQL's.
//!
//! PostgreSQL's errors cite the text, and a value of type json keeps the text of each part of it as it was
//! written: so there is a parser of our own, and none of a library.

use super::MAX_DEPTH;
use super::lex::{Lexer, Token, too_deep};
use crate::SqlResult;
use std::borrow::Cow;
use std::ops::Range;

/// What stands at a place of a text. Strings have their escapes undone, if the parser does that
/// (json/lex/L2), and are empty otherwise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Part<'a> {
    ArrayStart,
    ArrayEnd,
    ObjectStart,
    ObjectEnd,
    Key(Cow<'a, str>),
    String(Cow<'a, str>),
    /// As it is written.
    Number(&'a str),
    Bool(bool),
    Null,
}

impl Part<'_> {
    pub fn is_start(&self) -> bool {
        matches!(self, Part::ArrayStart | Part::ObjectStart)
    }
    pub fn is_end(&self) -> bool {
        matches!(self, Part::ArrayEnd | Part::ObjectEnd)
    }
}

#[derive(Clone, Copy, Debug)]
enum Expected {
    Value,
    /// The first item of an array, or its end.
    Item,
    /// A comma, or the end of the array.
    MoreItems,
    /// The first key of an object, or its end.
    Key,
    MorePairs,
    Nothing,
}

#[derive(Clone, Debug)]
pub(super) struct Parser<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
    /// What is open; whether it is an object.
    open: Vec<bool>,
    expected: Expected,
    /// Where the last part stands.
    place: Range<usize>,
}

impl<'a> Parser<'a> {
    /// `unescape`: whether the strings are wanted.
    pub fn new(text: &'a str, unescape: bool) -> Parser<'a> {
        let lexer = Lexer::new(text, unescape);
        Parser { text, lexer, open: Vec::new(), expected: Expected::Value, place: 0..0 }
    }

    /// Where the last part stands in the text.
    pub fn place(&self) -> Range<usize> {
        self.place.clone()
    }

    /// How many arrays and objects are open.
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// The next part; `None` behind the last.
    pub fn next(&mut self) -> SqlResult<Option<Part<'a>>> {
        let token = self.lexer.advance()?;
        let part = match self.expected {
            Expected::Nothing => {
                return if token == Token::End { Ok(None) } else { Err(self.unexpected("end of input")) };
            }
            Expected::Value => self.value(token)?,
            Expected::Item if token == Token::ArrayEnd => self.end(Part::ArrayEnd),
            Expected::Item => self.value(token)?,
            Expected::MoreItems => match token {
                Token::Comma => {
                    let token = self.lexer.advance()?;
                    self.value(token)?
                }
                Token::ArrayEnd => self.end(Part::ArrayEnd),
                _ => return Err(self.unexpected("\",\" or \"]\"")),
            },
            Expected::Key => match token {
                Token::ObjectEnd => self.end(Part::ObjectEnd),
                Token::String => return self.key().map(Some),
                _ => return Err(self.unexpected("string or \"}\"")),
            },
            Expected::MorePairs => match token {
                Token::Comma => match self.lexer.advance()? {
                    Token::String => return self.key().map(Some),
                    _ => return Err(self.unexpected("string")),
                },
                Token::ObjectEnd => self.end(Part::ObjectEnd),
                _ => return Err(self.unexpected("\",\" or \"}\"")),
            },
        };
        self.place = self.lexer.start..self.lexer.end;
        Ok(Some(part))
    }

    fn unexpected(&self, expected: &str) -> crate::SqlError {
        self.lexer.unexpected(expected)
    }

    fn key(&mut self) -> SqlResult<Part<'a>> {
        let key = std::mem::take(&mut self.lexer.string);
        self.place = self.lexer.start..self.lexer.end;
        if self.lexer.advance()? != Token::Colon {
            return Err(self.unexpected("\":\""));
        }
        self.expected = Expected::Value;
        Ok(Part::Key(key))
    }

    /// What may follow a value within what is open.
    fn behind_value(&mut self) {
        self.expected = match self.open.last() {
            None => Expected::Nothing,
            Some(true) => Expected::MorePairs,
            Some(false) => Expected::MoreItems,
        }
    }

    fn end(&mut self, part: Part<'a>) -> Part<'a> {
        self.open.pop();
        self.behind_value();
        part
    }

    fn value(&mut self, token: Token) -> SqlResult<Part<'a>> {
        let part = match token {
            Token::ObjectStart | Token::ArrayStart => {
                if self.open.len() >= MAX_DEPTH {
                    return Err(too_deep());
                }
                let is_object = token == Token::ObjectStart;
                self.open.push(is_object);
                self.expected = if is_object { Expected::Key } else { Expected::Item };
                return Ok(if is_object { Part::ObjectStart } else { Part::ArrayStart });
            }
            Token::String => Part::String(std::mem::take(&mut self.lexer.string)),
            Token::Number => Part::Number(self.text.get(self.lexer.start..self.lexer.end).unwrap_or("")),
            Token::True => Part::Bool(true),
            Token::False => Part::Bool(false),
            Token::Null => Part::Null,
            _ => return Err(self.unexpected("JSON value")),
        };
        self.behind_value();
        Ok(part)
    }

    /// Goes on to the end of what the last part begins; where all of it stands.
    pub fn rest(&mut self, part: &Part<'_>) -> SqlResult<Range<usize>> {
        let start = self.place.start;
        if part.is_start() {
            let depth = self.open.len();
            while self.open.len() >= depth {
                self.next()?;
            }
        }
        Ok(start..self.place.end)
    }

    /// Goes on to the end of the text.
    pub fn finish(&mut self) -> SqlResult<()> {
        while self.next()?.is_some() {}
        Ok(())
    }

    /// A piece of the text.
    pub fn text(&self, place: Range<usize>) -> &'a str {
        self.text.get(place).unwrap_or_default()
    }
}
