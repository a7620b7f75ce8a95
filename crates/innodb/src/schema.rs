//! A table's definition as SQL text: `CREATE TABLE` in the words of MySQL and MariaDB, as `SHOW CREATE TABLE`
//! and their dumps have it.
//!
//! - **S1** What decides how records lie is read: columns with types, NULL, character sets, what is virtual;
//!   the keys; ROW_FORMAT. What does not is passed over by its own rules (defaults, comments, checks, further
//!   options), and what is neither is an error that names the line.
//! - **S2** What servers take differently, or the text leaves to a server's settings, is asked for: a
//!   character set that nothing tells, a TIMESTAMP without NULL or NOT NULL.
//!
//! Nothing here can tell whether the text is of this very table: another of the same shape reads as well.
use crate::charset::Charset;
use crate::checksum::Family;
use crate::definition::{contents, table_name};
use crate::error::{Error, Kind, Result};
use crate::space::Space;
use crate::table::{Column, DOCUMENT, Period, RowFormat, TableSchema, Type, Unique};
use std::path::Path;

/// Reads the definition of the space's table out of a file: the one of the space's name, or the only one.
pub fn read(path: &Path, space: &Space) -> Result<TableSchema> {
    let text = String::from_utf8(contents(path)?).map_err(|e| {
        Error::new(path, Kind::Mismatch, format!("it is no text in UTF-8: {}", e.utf8_error()))
    })?;
    let name = table_name(space.path());
    // MariaDB's JSON is a text; only MariaDB has these checksums.
    let json_is_text = space.format().family == Family::Full;
    parse(&text, &name, json_is_text).map_err(|(kind, why)| Error::new(path, kind, why))
}

type Refused = (Kind, String);
type Parsed<T> = std::result::Result<T, Refused>;

#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// A word or number, as it is written.
    Word(String),
    /// A name in its quotes' stead.
    Name(String),
    Text(String),
    Mark(char),
    End,
}
impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Token::Word(w) => f.write_str(w),
            Token::Name(n) => write!(f, "`{n}`"),
            Token::Text(t) => write!(f, "'{t}'"),
            Token::Mark(c) => write!(f, "{c}"),
            Token::End => f.write_str("the end"),
        }
    }
}

/// The tokens with their lines. What stands in comments for certain servers (`/*!50100 … */`) is text as any.
fn tokens(text: &str) -> Parsed<Vec<(Token, u32)>> {
    let mut out = Vec::new();
    let (mut rest, mut line) = (text, 1u32);
    let newlines = |s: &str| s.bytes().filter(|b| *b == b'\n').count() as u32;
    // Comments for servers that are open.
    let mut open = 0;
    while let Some(c) = rest.chars().next() {
        let comment = rest.starts_with('#')
            || (rest.starts_with("--") && rest[2..].chars().next().is_none_or(char::is_whitespace));
        if c.is_whitespace() {
            line += u32::from(c == '\n');
            rest = &rest[c.len_utf8()..];
        } else if comment {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
        } else if rest.starts_with("/*!") || rest.starts_with("/*M!") {
            open += 1;
            rest = rest[2..].trim_start_matches('M')[1..].trim_start_matches(|c: char| c.is_ascii_digit());
        } else if open > 0 && rest.starts_with("*/") {
            open -= 1;
            rest = &rest[2..];
        } else if rest.starts_with("/*") {
            let end = rest.find("*/").ok_or_else(|| refuse(line, "the end of a comment", &Token::End))?;
            line += newlines(&rest[..end]);
            rest = &rest[end + 2..];
        } else if matches!(c, '`' | '"' | '\'') {
            let begun = line;
            let mut value = String::new();
            let mut chars = rest[1..].char_indices();
            let end = loop {
                let Some((at, next)) = chars.next() else {
                    return Err(refuse(begun, &format!("a closing {c}"), &Token::End));
                };
                if next == c {
                    if rest[1 + at + 1..].starts_with(c) {
                        chars.next();
                        value.push(c);
                        continue;
                    }
                    break at + 2;
                }
                if next == '\\' && c != '`' {
                    match chars.next() {
                        Some((_, 'n')) => value.push('\n'),
                        Some((_, 't')) => value.push('\t'),
                        Some((_, 'r')) => value.push('\r'),
                        Some((_, '0')) => value.push('\0'),
                        Some((_, other)) => value.push(other),
                        None => {}
                    }
                    continue;
                }
                value.push(next);
            };
            line += newlines(&rest[..end]);
            rest = &rest[end..];
            // With ANSI_QUOTES a name; where a text is expected, one of those too.
            out.push((if c == '\'' { Token::Text(value) } else { Token::Name(value) }, begun));
        } else if c.is_alphanumeric() || matches!(c, '_' | '$' | '@') || !c.is_ascii() {
            let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '@') || !c.is_ascii();
            let mut end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            // A number with a fraction.
            if c.is_ascii_digit() && rest[end..].starts_with('.') {
                end +=
                    1 + rest[end + 1..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - end - 1);
            }
            out.push((Token::Word(rest[..end].into()), line));
            rest = &rest[end..];
        } else {
            out.push((Token::Mark(c), line));
            rest = &rest[c.len_utf8()..];
        }
    }
    out.push((Token::End, line));
    Ok(out)
}

fn refuse(line: u32, expected: &str, found: &Token) -> Refused {
    (Kind::Mismatch, format!("line {line}: expected {expected}, found {found}"))
}

struct Parser {
    tokens: Vec<(Token, u32)>,
    at: usize,
    json_is_text: bool,
    /// A FULLTEXT key was passed.
    has_fulltext: bool,
    versioning: Versioning,
}

/// A key as it is written: its columns' names, with the length of a prefix or 0.
struct Key {
    name: Option<String>,
    primary: bool,
    columns: Vec<(String, u32)>,
    line: u32,
}

/// A column before its character set is known.
struct Made {
    column: Column,
    /// CHAR, VARCHAR, TEXT, ENUM, SET: what they become with a character set.
    text: Option<TextType>,
    charset: Option<Charset>,
    is_timestamp: bool,
    nullable: Option<bool>,
    line: u32,
}
enum TextType {
    Char(u32),
    Varchar(u32),
    Text,
    Enum(Vec<String>),
    Set(Vec<String>),
}

/// The table named `name`, or the only one, of a text.
pub fn parse(text: &str, name: &str, json_is_text: bool) -> Parsed<TableSchema> {
    let mut parser = Parser {
        tokens: tokens(text)?,
        at: 0,
        json_is_text,
        has_fulltext: false,
        versioning: Versioning::default(),
    };
    let mut names = Vec::new();
    let mut places = Vec::new();
    while *parser.peek() != Token::End {
        let shown = parser.at > 0 && parser.is_at(parser.at - 1, "SHOW");
        if parser.word("CREATE") && !shown {
            if parser.word("OR") {
                parser.expect("REPLACE")?;
            }
            parser.word("TEMPORARY");
            if parser.word("TABLE") {
                if parser.word("IF") {
                    parser.expect("NOT")?;
                    parser.expect("EXISTS")?;
                }
                names.push(parser.qualified()?);
                places.push(parser.at);
            }
            continue;
        }
        parser.at += 1;
    }
    let chosen = match names.iter().position(|n| n.eq_ignore_ascii_case(name)) {
        Some(n) => n,
        None if names.len() == 1 => 0,
        None if names.is_empty() => {
            return Err((Kind::Mismatch, "expected CREATE TABLE, it has none".into()));
        }
        None => {
            let all = names.join(", ");
            return Err((Kind::Mismatch, format!("it has no CREATE TABLE {name}; it has {all}")));
        }
    };
    parser.at = places[chosen];
    parser.table(names.swap_remove(chosen))
}

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].0
    }
    fn line(&self) -> u32 {
        self.tokens[self.at].1
    }
    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }
    fn refuse<T>(&self, expected: &str) -> Parsed<T> {
        Err(refuse(self.line(), expected, self.peek()))
    }
    fn is_at(&self, at: usize, word: &str) -> bool {
        matches!(&self.tokens[at].0, Token::Word(w) if w.eq_ignore_ascii_case(word))
    }
    fn is(&self, word: &str) -> bool {
        self.is_at(self.at, word)
    }
    /// Passes a word, if it is this one.
    fn word(&mut self, word: &str) -> bool {
        let is = self.is(word);
        self.at += usize::from(is);
        is
    }
    fn any(&mut self, words: &[&str]) -> bool {
        words.iter().any(|w| self.word(w))
    }
    fn expect(&mut self, word: &str) -> Parsed<()> {
        if self.word(word) { Ok(()) } else { self.refuse(word) }
    }
    fn mark(&mut self, mark: char) -> bool {
        let is = *self.peek() == Token::Mark(mark);
        self.at += usize::from(is);
        is
    }
    fn expect_mark(&mut self, mark: char) -> Parsed<()> {
        if self.mark(mark) { Ok(()) } else { self.refuse(&mark.to_string()) }
    }
    fn name(&mut self) -> Parsed<String> {
        match self.peek() {
            Token::Word(_) | Token::Name(_) => match self.next() {
                Token::Word(name) | Token::Name(name) => Ok(name),
                _ => self.refuse("a name"),
            },
            _ => self.refuse("a name"),
        }
    }
    /// The last of names with points between them.
    fn qualified(&mut self) -> Parsed<String> {
        let mut name = self.name()?;
        while self.mark('.') {
            name = self.name()?;
        }
        Ok(name)
    }
    fn number(&mut self) -> Parsed<u32> {
        match self.peek() {
            Token::Word(w) => match w.parse() {
                Ok(n) => {
                    self.at += 1;
                    Ok(n)
                }
                Err(_) => self.refuse("a number"),
            },
            _ => self.refuse("a number"),
        }
    }
    fn text(&mut self) -> Parsed<String> {
        match self.peek() {
            Token::Text(_) | Token::Name(_) => match self.next() {
                Token::Text(t) | Token::Name(t) => Ok(t),
                _ => self.refuse("a text"),
            },
            _ => self.refuse("a text"),
        }
    }
    /// Whether ZEROFILL is among the words about signs that are next.
    fn is_filled(&self) -> bool {
        let mut at = self.at;
        while self.is_at(at, "UNSIGNED") || self.is_at(at, "SIGNED") {
            at += 1;
        }
        self.is_at(at, "ZEROFILL")
    }
    /// `(n)`, if it is there.
    fn length(&mut self) -> Parsed<Option<u32>> {
        if !self.mark('(') {
            return Ok(None);
        }
        let n = self.number()?;
        self.expect_mark(')')?;
        Ok(Some(n))
    }
    /// `(n, m)` or `(n)`, if it is there.
    fn lengths(&mut self) -> Parsed<Option<(u32, Option<u32>)>> {
        if !self.mark('(') {
            return Ok(None);
        }
        let n = self.number()?;
        let m = if self.mark(',') { Some(self.number()?) } else { None };
        self.expect_mark(')')?;
        Ok(Some((n, m)))
    }
    /// Passes what is between parentheses, these included.
    fn parentheses(&mut self) -> Parsed<()> {
        self.expect_mark('(')?;
        let mut depth = 1;
        while depth > 0 {
            match self.peek() {
                Token::Mark('(') => depth += 1,
                Token::Mark(')') => depth -= 1,
                Token::End => return self.refuse(")"),
                _ => {}
            }
            self.at += 1;
        }
        Ok(())
    }

    fn table(&mut self, name: String) -> Parsed<TableSchema> {
        if self.any(&["LIKE", "AS", "SELECT"]) {
            self.at -= 1;
            return self.refuse("( and the columns");
        }
        self.expect_mark('(')?;
        let (mut made, mut keys): (Vec<Made>, Vec<Key>) = (Vec::new(), Vec::new());
        loop {
            if !self.key(&mut keys)? {
                let column = self.column(&mut keys)?;
                if made.iter().any(|m| m.column.name.eq_ignore_ascii_case(&column.column.name)) {
                    let why = format!("line {}: a second column {}", column.line, column.column.name);
                    return Err((Kind::Mismatch, why));
                }
                made.push(column);
            }
            if self.mark(')') {
                break;
            }
            if !self.mark(',') {
                return self.refuse("an attribute of a column or key, or , or )");
            }
        }
        let (charset, row_format) = self.options()?;
        let versioning = std::mem::take(&mut self.versioning);
        let mut table = finish(name, made, keys, charset, row_format, versioning)?;
        table.has_document = self.has_fulltext && table.columns.iter().all(|c| c.name != DOCUMENT);
        Ok(table)
    }

    /// Passes a key or check, if one is here; keys that a clustered index could be are kept.
    fn key(&mut self, keys: &mut Vec<Key>) -> Parsed<bool> {
        let begin = self.at;
        // A column may have such a name, quoted.
        let mut name = None;
        let constraint = self.word("CONSTRAINT");
        if constraint && !["PRIMARY", "UNIQUE", "FOREIGN", "CHECK"].iter().any(|w| self.is(w)) {
            name = Some(self.name()?);
        }
        let line = self.line();
        if self.word("PRIMARY") {
            self.expect("KEY")?;
            let columns = self.key_columns()?;
            keys.extend(columns.map(|columns| Key { name: None, primary: true, columns, line }));
        } else if self.word("UNIQUE") {
            self.any(&["KEY", "INDEX"]);
            if *self.peek() != Token::Mark('(') && !self.is("USING") {
                name = Some(self.name()?);
            }
            let columns = self.key_columns()?;
            keys.extend(columns.map(|columns| Key { name, primary: false, columns, line }));
        } else if self.any(&["KEY", "INDEX", "FULLTEXT", "SPATIAL", "VECTOR"]) {
            self.has_fulltext |= self.is_at(self.at - 1, "FULLTEXT");
            self.any(&["KEY", "INDEX"]);
            if *self.peek() != Token::Mark('(') && !self.is("USING") {
                self.name()?;
            }
            self.key_columns()?;
        } else if self.word("FOREIGN") {
            self.expect("KEY")?;
            self.word("IF");
            if *self.peek() != Token::Mark('(') {
                self.name()?;
            }
            self.parentheses()?;
            self.references()?;
        } else if self.word("CHECK") {
            self.parentheses()?;
            self.enforced();
        } else if self.is("PERIOD") && self.is_at(self.at + 1, "FOR") {
            if !self.is_at(self.at + 2, "SYSTEM_TIME") {
                return Err((
                    Kind::Unsupported,
                    format!(
                        "line {line}: tables with periods of their own are not read by their text: their keys have a further column"
                    ),
                ));
            }
            // Its columns are told by themselves.
            self.at += 3;
            self.parentheses()?;
        } else if constraint {
            return self.refuse("PRIMARY, UNIQUE, FOREIGN or CHECK");
        } else {
            self.at = begin;
            return Ok(false);
        }
        Ok(true)
    }
    fn enforced(&mut self) {
        self.word("NOT");
        self.word("ENFORCED");
    }
    fn references(&mut self) -> Parsed<()> {
        self.expect("REFERENCES")?;
        self.qualified()?;
        if *self.peek() == Token::Mark('(') {
            self.parentheses()?;
        }
        loop {
            if self.word("MATCH") {
                self.name()?;
            } else if self.word("ON") {
                if !self.any(&["DELETE", "UPDATE"]) {
                    return self.refuse("DELETE or UPDATE");
                }
                if self.word("SET") {
                    self.name()?;
                } else if self.word("NO") {
                    self.expect("ACTION")?;
                } else {
                    self.name()?;
                }
            } else {
                return Ok(());
            }
        }
    }
    /// A key's columns and options. `None`: it has an expression among them.
    fn key_columns(&mut self) -> Parsed<Option<Vec<(String, u32)>>> {
        if self.word("USING") {
            self.name()?;
        }
        self.expect_mark('(')?;
        let mut columns = Some(Vec::new());
        loop {
            if *self.peek() == Token::Mark('(') {
                self.parentheses()?;
                columns = None;
            } else {
                let name = self.name()?;
                let prefix = self.length()?.unwrap_or(0);
                if let Some(columns) = &mut columns {
                    columns.push((name, prefix));
                }
            }
            self.any(&["ASC", "DESC"]);
            if self.mark(')') {
                break;
            }
            if !self.mark(',') {
                return self.refuse(", or )");
            }
        }
        loop {
            if self.any(&[
                "USING",
                "COMMENT",
                "KEY_BLOCK_SIZE",
                "WITH",
                "ENGINE_ATTRIBUTE",
                "SECONDARY_ENGINE_ATTRIBUTE",
            ]) {
                self.mark('=');
                self.word("PARSER");
                self.next();
            } else if !self.any(&["VISIBLE", "INVISIBLE", "IGNORED", "NOT"]) {
                return Ok(columns);
            }
        }
    }

    fn column(&mut self, keys: &mut Vec<Key>) -> Parsed<Made> {
        let line = self.line();
        let name = self.name()?;
        let mut made = self.column_type(name, line)?;
        let mut is_generated = false;
        loop {
            if self.word("UNSIGNED") || self.word("SIGNED") {
                let is_unsigned = self.is_at(self.at - 1, "UNSIGNED");
                if let Type::Int { unsigned, .. } = &mut made.column.ty {
                    *unsigned |= is_unsigned;
                }
                if is_unsigned {
                    made.column.sql += " unsigned";
                }
            } else if self.word("ZEROFILL") {
                if let Type::Int { bytes, unsigned, zerofill } = &mut made.column.ty {
                    // The widths that servers give them.
                    let width = [4, 6, 9, 11, 0, 0, 0, 20][*bytes as usize - 1] - u8::from(*bytes < 8);
                    *unsigned = true;
                    zerofill.get_or_insert(width);
                }
            } else if self.any(&["CHARSET", "CHARACTER"]) {
                self.word("SET");
                made.charset = Some(self.charset()?);
            } else if self.word("COLLATE") {
                let given = self.collation()?;
                made.charset = made.charset.or(given);
            } else if self.word("ASCII") {
                made.charset = Charset::named("latin1");
            } else if self.word("UNICODE") {
                made.charset = Charset::named("ucs2");
            } else if self.word("NOT") {
                self.expect("NULL")?;
                made.nullable = Some(false);
            } else if self.word("NULL") {
                made.nullable = Some(true);
            } else if self.word("DEFAULT") {
                self.value()?;
            } else if self.word("ON") {
                self.expect("UPDATE")?;
                self.value()?;
            } else if self.word("PRIMARY") || self.is("KEY") {
                self.word("KEY");
                let columns = vec![(made.column.name.clone(), 0)];
                keys.push(Key { name: None, primary: true, columns, line });
            } else if self.word("UNIQUE") {
                self.word("KEY");
                let columns = vec![(made.column.name.clone(), 0)];
                keys.push(Key { name: None, primary: false, columns, line });
            } else if self.word("GENERATED") {
                self.expect("ALWAYS")?;
                if !self.is("AS") {
                    return self.refuse("AS");
                }
            } else if self.is("AS") && self.is_at(self.at + 1, "ROW") {
                self.at += 2;
                let is_start = self.is("START");
                if !self.any(&["START", "END"]) {
                    return self.refuse("START or END");
                }
                let name = Some((made.column.name.clone(), line));
                *if is_start { &mut self.versioning.start } else { &mut self.versioning.end } = name;
                made.nullable = Some(false);
            } else if self.any(&["WITH", "WITHOUT"]) {
                self.expect("SYSTEM")?;
                self.expect("VERSIONING")?;
            } else if self.word("AS") {
                self.parentheses()?;
                made.column.stored = false;
                is_generated = true;
            } else if is_generated && self.any(&["STORED", "PERSISTENT"]) {
                made.column.stored = true;
            } else if is_generated && self.word("VIRTUAL") {
                made.column.stored = false;
            } else if self.word("INVISIBLE") {
                made.column.invisible = true;
            } else if self.word("CHECK") {
                self.parentheses()?;
                self.enforced();
            } else if self.is("REFERENCES") {
                self.references()?;
            } else if self.word("CONSTRAINT") {
                if !self.is("CHECK") {
                    self.name()?;
                }
            } else if self.word("COMMENT") {
                made.column.comment = self.text()?;
            } else if self.any(&["COLUMN_FORMAT", "STORAGE", "SRID", "REF_SYSTEM_ID", "ENGINE_ATTRIBUTE"]) {
                self.mark('=');
                self.next();
            } else if self.is("COMPRESSED") {
                let why = format!(
                    "line {}: column {} is COMPRESSED, which is not read yet",
                    self.line(),
                    made.column.name
                );
                return Err((Kind::Unsupported, why));
            } else if !self.any(&["AUTO_INCREMENT", "VISIBLE", "BINARY"]) {
                return Ok(made);
            }
        }
    }

    /// Passes a default: a literal, a call, or an expression in parentheses.
    fn value(&mut self) -> Parsed<()> {
        if *self.peek() == Token::Mark('(') {
            return self.parentheses();
        }
        let _ = self.mark('-') || self.mark('+');
        match self.next() {
            // A character set or a form, then a text.
            Token::Word(_) => {
                if matches!(self.peek(), Token::Text(_)) {
                    self.next();
                } else if *self.peek() == Token::Mark('(') {
                    self.parentheses()?;
                }
                Ok(())
            }
            Token::Text(_) | Token::Name(_) => Ok(()),
            _ => {
                self.at -= 1;
                self.refuse("a value")
            }
        }
    }

    fn charset(&mut self) -> Parsed<Charset> {
        let line = self.line();
        let name = match self.peek() {
            Token::Text(_) => self.text()?,
            _ => self.name()?,
        };
        Charset::named(&name)
            .ok_or_else(|| (Kind::Unsupported, format!("line {line}: the character set {name} is not known")))
    }
    /// The character set of a collation; `None` for one that goes with several.
    fn collation(&mut self) -> Parsed<Option<Charset>> {
        let line = self.line();
        let name = match self.peek() {
            Token::Text(_) => self.text()?,
            _ => self.name()?,
        };
        let set = name.split('_').next().unwrap_or_default();
        match Charset::named(set) {
            None if set.eq_ignore_ascii_case("uca1400") => Ok(None),
            None => Err((Kind::Unsupported, format!("line {line}: the collation {name} is not known"))),
            found => Ok(found),
        }
    }

    fn column_type(&mut self, name: String, line: u32) -> Parsed<Made> {
        let here = self.line();
        let Token::Word(word) = self.peek().clone() else { return self.refuse("a type") };
        self.at += 1;
        let word = word.to_ascii_uppercase();
        let (mut text, mut charset, mut nullable, mut is_timestamp) = (None, None, None, false);
        let mut sql = word.to_ascii_lowercase();
        let int = |bytes, zerofill: Option<u32>| Type::Int {
            bytes,
            unsigned: false,
            zerofill: zerofill.map(|n| n.min(255) as u8),
        };
        let fsp = |length: Option<u32>| length.unwrap_or(0).min(255) as u8;
        // What stands in for a text until its character set is known.
        let unknown = Type::Bytes { varchar: None };
        let ty = match word.as_str() {
            "BOOL" | "BOOLEAN" => int(1, None),
            "TINYINT" | "INT1" | "SMALLINT" | "INT2" | "MEDIUMINT" | "MIDDLEINT" | "INT3" | "INT"
            | "INTEGER" | "INT4" | "BIGINT" | "INT8" => {
                let bytes = match word.as_str() {
                    "TINYINT" | "INT1" => 1,
                    "SMALLINT" | "INT2" => 2,
                    "MEDIUMINT" | "MIDDLEINT" | "INT3" => 3,
                    "BIGINT" | "INT8" => 8,
                    _ => 4,
                };
                let width = self.length()?;
                // The width matters to ZEROFILL only.
                int(bytes, width.filter(|_| self.is_filled()))
            }
            "SERIAL" => {
                nullable = Some(false);
                Type::Int { bytes: 8, unsigned: true, zerofill: None }
            }
            "FLOAT" | "FLOAT4" | "DOUBLE" | "FLOAT8" | "REAL" => {
                self.word("PRECISION");
                let (width, decimals) = match self.lengths()? {
                    Some((width, Some(decimals))) => (Some(width), Some(decimals.min(255) as u8)),
                    Some((precision, None)) if precision <= 24 => (None, None),
                    Some(_) => (Some(22), None),
                    None => (None, None),
                };
                let is_float =
                    word.starts_with("FLOAT") && word != "FLOAT8" && (decimals.is_some() || width.is_none());
                // The widths that servers give them.
                let width = width.unwrap_or(if is_float { 12 } else { 22 });
                let zerofill = self.is_filled().then_some(width.min(255) as u8);
                match is_float {
                    true => Type::Float { decimals, zerofill },
                    false => Type::Double { decimals, zerofill },
                }
            }
            "DECIMAL" | "NUMERIC" | "DEC" | "FIXED" => {
                let (p, s) = self.lengths()?.unwrap_or((10, None));
                let s = s.unwrap_or(0);
                sql = format!("decimal({p},{s})");
                let width = p.saturating_add(u32::from(s > 0)).min(255) as u8;
                let zerofill = self.is_filled().then_some(width);
                Type::Decimal { precision: p.min(255) as u8, scale: s.min(255) as u8, zerofill }
            }
            "DATE" => Type::Date,
            "TIME" => Type::Time { fsp: fsp(self.length()?) },
            "DATETIME" => Type::DateTime { fsp: fsp(self.length()?) },
            "TIMESTAMP" => {
                is_timestamp = true;
                Type::Timestamp { fsp: fsp(self.length()?) }
            }
            "YEAR" => {
                let digits = if self.length()? == Some(2) { 2 } else { 4 };
                Type::Year { digits }
            }
            "BIT" => {
                let bits = self.length()?.unwrap_or(1);
                sql = format!("bit({bits})");
                Type::Bit { bits: bits.min(255) as u8 }
            }
            "NATIONAL" | "NCHAR" | "NVARCHAR" | "CHAR" | "CHARACTER" | "VARCHAR" | "VARCHARACTER" => {
                let national = word.starts_with('N');
                if word == "NATIONAL" && !self.any(&["CHAR", "CHARACTER", "VARCHAR"]) {
                    return self.refuse("CHAR or VARCHAR");
                }
                let varying =
                    word.contains("VARCHAR") || self.is_at(self.at - 1, "VARCHAR") || self.word("VARYING");
                if national {
                    charset = Charset::named("utf8mb3");
                }
                let n = self.length()?;
                if varying {
                    let Some(n) = n else { return self.refuse("( and a length") };
                    sql = format!("varchar({n})");
                    text = Some(TextType::Varchar(n));
                } else {
                    sql = format!("char({})", n.unwrap_or(1));
                    text = Some(TextType::Char(n.unwrap_or(1)));
                }
                if self.word("BYTE") {
                    charset = Charset::named("binary");
                }
                unknown
            }
            "BINARY" => {
                let n = self.length()?.unwrap_or(1);
                sql = format!("binary({n})");
                Type::Binary { bytes: n }
            }
            "VARBINARY" => {
                let Some(n) = self.length()? else { return self.refuse("( and a length") };
                sql = format!("varbinary({n})");
                Type::Bytes { varchar: Some(n) }
            }
            "TINYBLOB" | "BLOB" | "MEDIUMBLOB" | "LONGBLOB" => {
                self.length()?;
                Type::Bytes { varchar: None }
            }
            "TINYTEXT" | "TEXT" | "MEDIUMTEXT" | "LONGTEXT" => {
                self.length()?;
                text = Some(TextType::Text);
                unknown
            }
            "ENUM" | "SET" => {
                self.expect_mark('(')?;
                let mut elements = Vec::new();
                loop {
                    elements.push(self.text()?);
                    if self.mark(')') {
                        break;
                    }
                    if !self.mark(',') {
                        return self.refuse(", or )");
                    }
                }
                text = Some(if word == "ENUM" { TextType::Enum(elements) } else { TextType::Set(elements) });
                unknown
            }
            "JSON" if self.json_is_text => {
                text = Some(TextType::Text);
                charset = Charset::named("utf8mb4");
                unknown
            }
            "JSON" => Type::Json,
            "GEOMETRY" | "POINT" | "LINESTRING" | "POLYGON" | "MULTIPOINT" | "MULTILINESTRING"
            | "MULTIPOLYGON" | "GEOMETRYCOLLECTION" | "GEOMCOLLECTION" => Type::Geometry,
            "UUID" => Type::Uuid,
            "INET4" => Type::Inet4,
            "INET6" => Type::Inet6,
            _ => {
                return Err((
                    Kind::Unsupported,
                    format!("line {here}: expected a type that is known, found {word}"),
                ));
            }
        };
        match &ty {
            Type::Time { fsp } | Type::DateTime { fsp } | Type::Timestamp { fsp } if *fsp > 0 => {
                sql = format!("{sql}({fsp})")
            }
            _ => {}
        }
        let column =
            Column { name, ty, nullable: true, stored: true, invisible: false, sql, comment: String::new() };
        Ok(Made { column, text, charset, is_timestamp, nullable, line })
    }

    /// What follows the columns, up to the statement's end: the character set and the row format.
    fn options(&mut self) -> Parsed<(Option<Charset>, RowFormat)> {
        let (mut charset, mut row_format) = (None, RowFormat::Dynamic);
        loop {
            if matches!(self.peek(), Token::End | Token::Mark(';')) || self.is("CREATE") {
                return Ok((charset, row_format));
            }
            if self.word("CHARSET") || (self.is("CHARACTER") && self.is_at(self.at + 1, "SET")) {
                let _ = self.word("CHARACTER") && self.word("SET");
                self.mark('=');
                charset = Some(self.charset()?);
            } else if self.word("COLLATE") {
                self.mark('=');
                charset = self.collation()?.or(charset);
            } else if self.word("ROW_FORMAT") {
                self.mark('=');
                row_format = match self.name()?.to_ascii_uppercase().as_str() {
                    "REDUNDANT" => RowFormat::Redundant,
                    "COMPACT" => RowFormat::Compact,
                    "COMPRESSED" => RowFormat::Compressed,
                    "DYNAMIC" | "DEFAULT" => RowFormat::Dynamic,
                    _ => {
                        self.at -= 1;
                        return self.refuse("REDUNDANT, COMPACT, DYNAMIC, COMPRESSED or DEFAULT");
                    }
                };
            } else if self.word("ENGINE") {
                self.mark('=');
                let line = self.line();
                let engine = self.name()?;
                if !engine.eq_ignore_ascii_case("InnoDB") {
                    return Err(refuse(line, "InnoDB", &Token::Word(engine)));
                }
            } else if self.word("WITH") && self.is("SYSTEM") {
                self.at += 1;
                self.expect("VERSIONING")?;
                self.versioning.is_on = true;
            } else if self.mark('(') {
                self.at -= 1;
                self.parentheses()?;
            } else {
                self.at += 1;
            }
        }
    }
}

/// What was said of system versioning: whether it is on, and the columns with the start and the end of a
/// row's time, each with its line.
#[derive(Default)]
struct Versioning {
    is_on: bool,
    start: Option<(String, u32)>,
    end: Option<(String, u32)>,
}

impl Versioning {
    /// The columns of the period; where none were named, hidden ones are added.
    fn period(&self, columns: &mut Vec<Column>) -> Parsed<Option<Period>> {
        let refuse = |line: u32, why: &str| Err((Kind::Mismatch, format!("line {line}: {why}")));
        let (start, end) = match (self.is_on, &self.start, &self.end) {
            (false, None, None) => return Ok(None),
            (true, None, None) => {
                for name in ["row_start", "row_end"] {
                    columns.push(Column {
                        name: name.into(),
                        ty: Type::Timestamp { fsp: 6 },
                        nullable: false,
                        stored: true,
                        invisible: true,
                        sql: "timestamp(6)".into(),
                        comment: String::new(),
                    });
                }
                return Ok(Some(Period { start: columns.len() - 2, end: columns.len() - 1 }));
            }
            (true, Some(start), Some(end)) => (start, end),
            (false, Some((_, line)), _) | (false, _, Some((_, line))) => {
                return refuse(
                    *line,
                    "a column of a system time, and the table is not WITH SYSTEM VERSIONING",
                );
            }
            (true, Some((_, line)), None) | (true, None, Some((_, line))) => {
                return refuse(*line, "a system time needs two columns: AS ROW START and AS ROW END");
            }
        };
        let place = |(name, line): &(String, u32)| {
            let found = columns.iter().position(|c| c.name == *name).filter(|at| {
                let is_number = matches!(columns[*at].ty, Type::Int { bytes: 8, unsigned: true, .. });
                columns[*at].stored && (is_number || columns[*at].ty == Type::Timestamp { fsp: 6 })
            });
            found.ok_or_else(|| {
                (Kind::Mismatch, format!("line {line}: column {name} of a system time has to be TIMESTAMP(6) or BIGINT UNSIGNED"))
            })
        };
        Ok(Some(Period { start: place(start)?, end: place(end)? }))
    }
}

/// A table of columns whose character sets are known now.
fn finish(
    name: String,
    made: Vec<Made>,
    keys: Vec<Key>,
    charset: Option<Charset>,
    row_format: RowFormat,
    versioning: Versioning,
) -> Parsed<TableSchema> {
    let at = |line: u32, why: String| (Kind::Mismatch, format!("line {line}: {why}"));
    let in_primary = |name: &str| {
        keys.iter().any(|k| k.primary && k.columns.iter().any(|(c, _)| c.eq_ignore_ascii_case(name)))
    };
    let mut columns = Vec::new();
    for m in made {
        let Made { mut column, text, charset: own, is_timestamp, nullable, line } = m;
        column.nullable = nullable.unwrap_or(true) && !in_primary(&column.name);
        if is_timestamp && nullable.is_none() && !in_primary(&column.name) {
            return Err(at(
                line,
                format!(
                    "column {} says neither NULL nor NOT NULL, which servers take differently for a TIMESTAMP; expected one of both",
                    column.name
                ),
            ));
        }
        if let Some(text) = text {
            let charset = own.or(charset).ok_or_else(|| {
                at(
                    line,
                    format!(
                        "expected a character set of column {}, or of the table (DEFAULT CHARSET=…)",
                        column.name
                    ),
                )
            })?;
            column.ty = text_type(text, charset).ok_or_else(|| {
                (
                    Kind::Unsupported,
                    format!("line {line}: elements of column {} in the character set {} are not read by their text", column.name, charset.name),
                )
            })?;
        }
        column.ty.check().map_err(|why| at(line, why))?;
        columns.push(column);
    }
    let period = versioning.period(&mut columns)?;
    let find = |key: &Key| -> Parsed<Vec<(usize, u32)>> {
        let parts = key.columns.iter().map(|(name, prefix)| {
            let place = columns.iter().position(|c| c.name.eq_ignore_ascii_case(name));
            let place = place
                .ok_or_else(|| at(key.line, format!("a key names column {name}, which is not there")))?;
            // Lengths in a key count characters; all of a column is no prefix.
            let (whole, width) = match &columns[place].ty {
                Type::Char { chars, charset } => (*chars, charset.max.into()),
                Type::Text { charset, varchar } => {
                    (varchar.map_or(u32::MAX, |n| n / u32::from(charset.max)), charset.max.into())
                }
                Type::Binary { bytes } => (*bytes, 1),
                Type::Bytes { varchar } => (varchar.unwrap_or(u32::MAX), 1),
                _ => (u32::MAX, 1),
            };
            Ok((place, if *prefix < whole { prefix * width } else { 0 }))
        });
        let mut parts: Vec<_> = parts.collect::<Parsed<_>>()?;
        // Each key tells rows of the same values by the end of their time.
        if let Some(Period { end, .. }) = period.filter(|p| parts.iter().all(|(place, _)| *place != p.end)) {
            parts.push((end, 0));
        }
        Ok(parts)
    };
    if keys.iter().filter(|k| k.primary).count() > 1 {
        return Err((Kind::Mismatch, "it has two primary keys".into()));
    }
    let (mut key, mut unique) = (None, Vec::new());
    if let Some(primary) = keys.iter().find(|k| k.primary) {
        key = Some(find(primary)?);
    }
    for k in keys.iter().filter(|k| !k.primary) {
        let parts = find(k)?;
        // Without a primary key the first unique one of whole columns that cannot be NULL is clustered.
        if key.is_none() && parts.iter().all(|(c, prefix)| *prefix == 0 && !columns[*c].nullable) {
            key = Some(parts);
        } else {
            let name = k.name.clone().unwrap_or_else(|| k.columns[0].0.clone());
            unique.push(Unique { name, columns: parts });
        }
    }
    let key = key.unwrap_or_default();
    let has_document = false;
    let comment = String::new();
    Ok(TableSchema {
        name,
        comment,
        columns,
        key,
        unique,
        row_format,
        period,
        has_document,
        root: None,
        index: None,
    })
}

/// `None`: an element that cannot be written in the character set.
fn text_type(text: TextType, charset: Charset) -> Option<Type> {
    let binary = charset.is_binary();
    // Servers keep elements without the spaces at their ends, but where those are bytes.
    let kept = |elements: Vec<String>| match binary {
        true => elements,
        false => elements.iter().map(|e| e.trim_end_matches(' ').into()).collect(),
    };
    let encoded =
        |elements: &[String]| elements.iter().map(|e| encode(e, charset)).collect::<Option<Vec<_>>>();
    Some(match text {
        TextType::Char(n) if binary => Type::Binary { bytes: n },
        TextType::Char(chars) => Type::Char { chars, charset },
        TextType::Varchar(n) if binary => Type::Bytes { varchar: Some(n) },
        TextType::Varchar(n) => Type::Text { charset, varchar: Some(n.saturating_mul(charset.max.into())) },
        TextType::Text if binary => Type::Bytes { varchar: None },
        TextType::Text => Type::Text { charset, varchar: None },
        TextType::Enum(elements) => {
            let elements = kept(elements);
            Type::Enum { charset, raw: encoded(&elements)?, elements }
        }
        TextType::Set(elements) => {
            let elements = kept(elements);
            Type::Set { charset, raw: encoded(&elements)?, elements }
        }
    })
}

/// A text's bytes in a character set, where they are those of a form of Unicode or one for each character.
fn encode(text: &str, charset: Charset) -> Option<Vec<u8>> {
    if charset.is_utf8() || charset.is_binary() {
        return Some(text.into());
    }
    if let Some(bytes) = charset.of_unicode(text) {
        return Some(bytes);
    }
    let byte = |c: char| {
        let mut utf8 = [0; 4];
        let utf8 = &*c.encode_utf8(&mut utf8);
        (0..=255u8).find(|b| charset.to_utf8(&[*b]).is_some_and(|t| t == utf8))
    };
    (charset.min == 1).then(|| text.chars().map(byte).collect())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(sql: &str) -> TableSchema {
        parse(sql, "t", false).unwrap_or_else(|(_, why)| panic!("{why}"))
    }
    fn refused(sql: &str) -> String {
        parse(sql, "t", false).map(|t| format!("{t:?}")).expect_err(sql).1
    }

    #[test]
    fn what_show_create_table_writes() {
        let t = table(
            "-- a dump\nDROP TABLE IF EXISTS `t`;\n/*!40101 SET character_set_client = utf8 */;\nCREATE TABLE `t` (\n  `id` int(10) unsigned NOT NULL AUTO_INCREMENT,\n  `b` varchar(20) CHARACTER SET latin1 COLLATE latin1_general_cs DEFAULT 'it''s, ) \\' (',\n  `c` decimal(10,2) unsigned NOT NULL DEFAULT -1.50,\n  `d` datetime(3) DEFAULT current_timestamp(3) ON UPDATE current_timestamp(3) COMMENT 'a ; b',\n  `e` enum('x','y ','zé') DEFAULT NULL,\n  `v` int(11) GENERATED ALWAYS AS (`id` + 1) VIRTUAL,\n  `p` int(11) GENERATED ALWAYS AS (concat(`id`,')')) STORED,\n  `h` int DEFAULT NULL /*!80023 INVISIBLE */,\n  `bits` bit(9) DEFAULT b'101',\n  PRIMARY KEY (`id`,`b`(5)) USING BTREE,\n  UNIQUE KEY `u` (`c`),\n  KEY `k` (`d` DESC) USING BTREE COMMENT 'x',\n  FULLTEXT KEY `ft` (`b`) /*!50100 WITH PARSER `ngram` */,\n  CONSTRAINT `f` FOREIGN KEY (`c`) REFERENCES `o` (`id`) ON DELETE SET NULL ON UPDATE NO ACTION,\n  CONSTRAINT `chk` CHECK (`id` > 0)\n) ENGINE=InnoDB AUTO_INCREMENT=5 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci ROW_FORMAT=COMPACT COMMENT='x'\n/*!50100 PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10) ENGINE = InnoDB) */;\nCREATE TABLE u (a int);",
        );
        let names: Vec<&str> = t.columns.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["id", "b", "c", "d", "e", "v", "p", "h", "bits"]);
        assert_eq!(t.key, [(0, 0), (1, 5)]);
        assert_eq!((t.unique.len(), t.unique[0].name.as_str()), (1, "u"));
        assert_eq!(t.row_format, RowFormat::Compact);
        let nullable: Vec<bool> = t.columns.iter().map(|c| c.nullable).collect();
        assert_eq!(nullable, [false, false, false, true, true, true, true, true, true]);
        assert_eq!((t.columns[5].stored, t.columns[6].stored, t.columns[7].invisible), (false, true, true));
        assert_eq!(t.columns[0].ty, Type::Int { bytes: 4, unsigned: true, zerofill: None });
        assert_eq!(
            t.columns[1].ty,
            Type::Text { charset: Charset::named("latin1").unwrap(), varchar: Some(20) }
        );
        let Type::Enum { elements, raw, .. } = &t.columns[4].ty else { panic!("{:?}", t.columns[4].ty) };
        assert_eq!((elements[1].as_str(), raw[2].as_slice()), ("y", "zé".as_bytes()));
    }

    #[test]
    fn the_clustered_key() {
        let key = |keys: &str| {
            table(&format!(
                "create table t (a int not null, b varchar(9) not null, c int, {keys}) charset latin1"
            ))
            .key
        };
        assert_eq!(key("unique (c), unique (b(3)), unique (b), unique (a)"), [(1, 0)]);
        assert_eq!(key("unique (c), unique (b(3))"), []);
        assert_eq!(key("unique (b), primary key (c)"), [(2, 0)]);
        assert_eq!(key("primary key (b(9))"), [(1, 0)]);
        assert_eq!(key("unique ((a + 1)), key (a)"), []);
        assert_eq!(table("create table x.t (a int primary key, b serial)").key, [(0, 0)]);
    }

    #[test]
    fn refusals_name_line_and_what_was_expected() {
        for (sql, expected) in [
            ("", "expected CREATE TABLE, it has none"),
            ("create table a (x int); create table b (x int)", "no CREATE TABLE t; it has a, b"),
            ("create table t (\n a int,\n b)", "line 3: expected a type, found )"),
            ("create table t (\n a intt\n)", "line 2: expected a type that is known, found INTT"),
            (
                "create table t (\n a int frob)",
                "line 2: expected an attribute of a column or key, or , or ), found frob",
            ),
            ("create table t (\n a varchar(5))", "line 2: expected a character set of column a"),
            ("create table t (a varchar)", "line 1: expected ( and a length, found )"),
            ("create table t (a char(5) character set klingon)", "the character set klingon is not known"),
            ("create table t (\n\n a timestamp)", "line 3: column a says neither NULL nor NOT NULL"),
            ("create table t (a int, primary key (b))", "a key names column b, which is not there"),
            ("create table t (a int primary key, b int, primary key (b))", "two primary keys"),
            ("create table t (a int, A int)", "a second column A"),
            ("create table t (a decimal(70,2))", "cannot have the type"),
            ("create table t (a int) engine=MyISAM", "line 1: expected InnoDB, found MyISAM"),
            (
                "create table t (a int) row_format=odd",
                "expected REDUNDANT, COMPACT, DYNAMIC, COMPRESSED or DEFAULT, found odd",
            ),
            ("create table t (a int default 'x\n)", "line 1: expected a closing ', found the end"),
            ("create table t (a int", "expected an attribute of a column or key, or , or ), found the end"),
            ("create table t like u", "expected ( and the columns, found like"),
            ("create table t (a varchar(5) compressed) charset utf8", "COMPRESSED, which is not read"),
            ("create table t (a enum('é')) charset gbk", "are not read by their text"),
            (
                "create table t (a int,\n s timestamp(6) as row start) with system versioning",
                "line 2: a system time needs two columns",
            ),
            (
                "create table t (a int, s timestamp(6) as row start,\n e timestamp(6) generated always as row end)",
                "line 1: a column of a system time, and the table is not",
            ),
            (
                "create table t (a int, s timestamp(6) as row start,\n e timestamp as row end) with system versioning",
                "line 2: column e of a system time has to be",
            ),
            ("create table t (a int, period for p(a, b))", "periods of their own"),
        ] {
            let found = refused(sql);
            assert!(found.contains(expected), "{sql}: {found}");
        }
    }

    #[test]
    fn no_text_ends_in_a_panic() {
        let whole = "create table `t` (a int(3) unsigned zerofill, b enum('a','b') character set latin1 not null, key (a), /*!50100 c json */) engine=innodb charset=utf8mb4;";
        for end in 0..whole.len() {
            let _ = parse(&whole[..end], "t", true);
            let _ = parse(&whole[end..], "t", false);
            let mut without = whole.to_string();
            without.remove(end);
            let _ = parse(&without, "t", false);
        }
    }
}
