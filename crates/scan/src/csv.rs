//! Rows as text: CSV by RFC 4180, and what MySQL's `SELECT … INTO OUTFILE` writes.

/// How values stand in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Commas; lines end in `\n`; a header; NULL is empty and an empty text `""`; quotes where a text needs them, doubled inside.
    Rfc4180,
    /// `FIELDS TERMINATED BY ','`, otherwise as the server does by default: NULL is `\N`; backslash, comma, newline and zero byte have a backslash before them.
    Mysql,
    /// The same as MariaDB writes it: bits are bytes with nothing before them.
    Mariadb,
}

impl Dialect {
    /// One of the two `SELECT … INTO OUTFILE`s, which write texts in the bytes of their own character sets.
    pub fn is_outfile(self) -> bool {
        self != Dialect::Rfc4180
    }
}

/// One line after the other, in memory.
pub struct Lines {
    dialect: Dialect,
    bytes: Vec<u8>,
    first: bool,
}

impl Lines {
    pub fn new(dialect: Dialect, capacity: usize) -> Lines {
        Lines { dialect, bytes: Vec::with_capacity(capacity), first: true }
    }
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
    /// The lines so far; it begins anew, with room for as much.
    pub fn take(&mut self) -> Vec<u8> {
        let room = self.bytes.len();
        std::mem::replace(&mut self.bytes, Vec::with_capacity(room))
    }
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    #[inline]
    fn separate(&mut self) {
        if !self.first {
            self.bytes.push(b',');
        }
        self.first = false;
    }
    pub fn null(&mut self) {
        self.separate();
        if self.dialect.is_outfile() {
            self.bytes.extend_from_slice(b"\\N");
        }
    }
    /// A value that holds neither separators, quotes, backslashes nor control characters: a number, a date.
    #[inline]
    pub fn plain(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.separate();
        write(&mut self.bytes);
    }
    /// Any value.
    pub fn text(&mut self, text: &[u8]) {
        self.characters(text, |_| 1)
    }
    /// A value of which `length` tells how many bytes the first character has: in `SELECT … INTO OUTFILE` no byte of a character of several is escaped.
    pub fn characters(&mut self, mut text: &[u8], length: impl Fn(&[u8]) -> usize) {
        self.separate();
        match self.dialect {
            Dialect::Mysql | Dialect::Mariadb => {
                while let Some(&b) = text.first() {
                    let n = length(text).clamp(1, text.len());
                    let (character, rest) = text.split_at(n);
                    match b {
                        _ if n > 1 => self.bytes.extend_from_slice(character),
                        b'\\' | b',' | b'\n' => self.bytes.extend_from_slice(&[b'\\', b]),
                        0 => self.bytes.extend_from_slice(b"\\0"),
                        _ => self.bytes.push(b),
                    }
                    text = rest;
                }
            }
            Dialect::Rfc4180
                if text.is_empty() || text.iter().any(|b| matches!(b, b',' | b'"' | b'\n' | b'\r')) =>
            {
                self.bytes.push(b'"');
                for &b in text {
                    if b == b'"' {
                        self.bytes.push(b'"');
                    }
                    self.bytes.push(b);
                }
                self.bytes.push(b'"');
            }
            Dialect::Rfc4180 => self.bytes.extend_from_slice(text),
        }
    }
    pub fn end_line(&mut self) {
        self.bytes.push(b'\n');
        self.first = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(dialect: Dialect) -> String {
        let mut lines = Lines::new(dialect, 0);
        lines.null();
        lines.text(b"");
        lines.plain(|b| b.extend_from_slice(b"-1"));
        lines.text(b"a,\"b\"\\\n\0");
        lines.end_line();
        String::from_utf8(lines.into_bytes()).unwrap()
    }

    #[test]
    fn both_dialects() {
        assert_eq!(line(Dialect::Rfc4180), ",\"\",-1,\"a,\"\"b\"\"\\\n\0\"\n");
        assert_eq!(line(Dialect::Mysql), "\\N,,-1,a\\,\"b\"\\\\\\\n\\0\n");
    }
}
