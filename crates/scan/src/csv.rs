//! Rows as text: CSV by RFC 4180, and what MySQL's `SELECT … INTO OUTFILE` writes.
use ondol_base::ascii;
use ondol_base::csv::RFC_4180;

/// How values stand in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Commas; lines end in `\n`; a header; NULL is empty and an empty text `""`; quotes where a text needs
    /// them, doubled inside.
    Rfc4180,
    /// `FIELDS TERMINATED BY ','`, otherwise as the server does by default: NULL is `\N`; backslash, comma,
    /// newline and zero byte have a backslash before them.
    Mysql,
    /// The same as MariaDB writes it: bits are bytes with nothing before them.
    Mariadb,
}

impl Dialect {
    /// One of the two `SELECT … INTO OUTFILE`s, which write texts in the bytes of their own character sets.
    pub fn is_outfile(self) -> bool {
        self != Dialect::Rfc4180
    }
    pub fn null(self) -> &'static [u8] {
        if self.is_outfile() { b"\\N" } else { b"" }
    }
}

/// One line after the other, in memory. Each value has a separator behind it, the last one's becomes the
/// line's end.
pub struct Lines {
    dialect: Dialect,
    /// What cannot stand in a text as it is.
    special: [u8; 4],
    bytes: Vec<u8>,
}

impl Lines {
    pub fn new(dialect: Dialect, capacity: usize) -> Lines {
        let special = if dialect.is_outfile() { *b"\\,\n\0" } else { RFC_4180.special() };
        Lines { dialect, special, bytes: Vec::with_capacity(capacity) }
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
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    pub fn null(&mut self) {
        self.bytes.extend_from_slice(self.dialect.null());
        self.bytes.push(b',');
    }
    /// A value that holds neither separators, quotes, backslashes nor control characters: a number, a date.
    #[inline]
    pub fn plain(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.bytes.push(b',');
    }
    /// The bytes with which a text does not stand in a line as it is.
    pub fn special(&self) -> [u8; 4] {
        self.special
    }
    /// Where the first byte is with which a text does not stand in a line as it is.
    pub fn first_special(&self, texts: &[u8]) -> Option<usize> {
        ondol_base::widest!(
            fn clean(chunks: &[[u8; 64]], special: [u8; 4]) -> usize {
                let mut clean = 0;
                for chunk in chunks {
                    if has(chunk, special) {
                        break;
                    }
                    clean += 1;
                }
                clean
            }
        );
        let start = clean(texts.as_chunks().0, self.special) * 64;
        Some(start + texts[start..].iter().position(|b| self.special.contains(b))?)
    }
    /// Appends values that stand in a line as they are, each with a byte behind it.
    pub fn as_they_are(&mut self, values: &[u8]) {
        self.bytes.extend_from_slice(values);
    }
    /// Any value.
    #[inline]
    pub fn text(&mut self, text: &[u8]) {
        let length = text.len();
        if length < 16 && length > 0 {
            // Looked at and appended at once; spaces are behind it.
            let short = short(text);
            if !has(&(short | SPACES << (8 * length)).to_le_bytes(), self.special) {
                self.bytes.extend_from_slice(&(short | (b',' as u128) << (8 * length)).to_le_bytes());
                return self.bytes.truncate(self.bytes.len() - (15 - length));
            }
        } else if let Some(last) = text.last_chunk::<16>() {
            let (chunks, _) = text.as_chunks::<16>();
            if !chunks.iter().any(|chunk| has(chunk, self.special)) && !has(last, self.special) {
                self.bytes.extend_from_slice(text);
                return self.bytes.push(b',');
            }
        }
        self.characters(text, |_| 1)
    }
    /// A value of which `length` tells how many bytes the first character has: in `SELECT … INTO OUTFILE` no
    /// byte of a character of several is escaped.
    pub fn characters(&mut self, mut text: &[u8], length: impl Fn(&[u8]) -> usize) {
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
            Dialect::Rfc4180 if text.is_empty() || RFC_4180.is_special(text) => {
                RFC_4180.quote(text, &mut |piece| self.bytes.extend_from_slice(piece))
            }
            Dialect::Rfc4180 => self.bytes.extend_from_slice(text),
        }
        self.bytes.push(b',');
    }
    pub fn end_line(&mut self) {
        match self.bytes.last_mut() {
            Some(last) if *last == b',' => *last = b'\n',
            _ => self.bytes.push(b'\n'),
        }
    }
}

const SPACES: u128 = u128::from_ne_bytes([b' '; 16]);

/// Whether any byte is one of four; without a branch, so that the compiler looks at all of them at once.
#[inline(always)]
fn has<const N: usize>(bytes: &[u8; N], special: [u8; 4]) -> bool {
    let [a, b, c, d] = special;
    bytes
        .iter()
        .fold(0, |found, x| found | (*x == a) as u8 | (*x == b) as u8 | (*x == c) as u8 | (*x == d) as u8)
        != 0
}

/// 1 to 15 bytes as a number, the first the lowest: of two pieces that overlap.
#[inline(always)]
fn short(text: &[u8]) -> u128 {
    let n = text.len();
    if let (Some(first), Some(last)) = (text.first_chunk::<8>(), text.last_chunk::<8>()) {
        return u64::from_le_bytes(*first) as u128 | (u64::from_le_bytes(*last) as u128) << (8 * (n - 8));
    }
    ascii::short(text) as u128
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

    /// Texts of every length with every byte at every place, by what has to become of each byte.
    #[test]
    fn texts_of_every_length() {
        for dialect in [Dialect::Rfc4180, Dialect::Mysql] {
            let mut lines = Lines::new(dialect, 0);
            for length in 0..70 {
                for special in [b'x', b',', b'"', b'\n', b'\r', b'\\', 0, b' ', 0xc3, 0xff] {
                    for place in 0..length.max(1) {
                        let mut text: Vec<u8> = (0..length as u8).map(|n| b'a' + n % 26).collect();
                        text.iter_mut().skip(place).take(1).for_each(|b| *b = special);
                        let expected = match dialect {
                            Dialect::Rfc4180
                                if text.is_empty() || text.iter().any(|b| b",\"\n\r".contains(b)) =>
                            {
                                let inner = text
                                    .iter()
                                    .flat_map(|b| [*b, *b].into_iter().take(1 + (*b == b'"') as usize));
                                [b'"'].into_iter().chain(inner).chain([b'"']).collect()
                            }
                            Dialect::Rfc4180 => text.clone(),
                            _ => (text.iter())
                                .flat_map(|b| match b {
                                    0 => vec![b'\\', b'0'],
                                    b'\\' | b',' | b'\n' => vec![b'\\', *b],
                                    _ => vec![*b],
                                })
                                .collect::<Vec<u8>>(),
                        };
                        lines.text(&text);
                        lines.end_line();
                        assert_eq!(lines.take(), [&expected[..], b"\n"].concat(), "{dialect:?} {text:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn both_dialects() {
        assert_eq!(line(Dialect::Rfc4180), ",\"\",-1,\"a,\"\"b\"\"\\\n\0\"\n");
        assert_eq!(line(Dialect::Mysql), "\\N,,-1,a\\,\"b\"\\\\\\\n\\0\n");
    }
}
