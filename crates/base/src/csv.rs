//! How a value stands in a line of CSV: the one place that quotes, for all who write such lines.
//!
//! Which texts are quoted beyond those that need it (empty ones, what reads as NULL) is for the writer to
//! say.

/// The three bytes that have a meaning, beside line ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    pub delimiter: u8,
    pub quote: u8,
    /// Stands before a quote, or before another of its kind, within quotes.
    pub escape: u8,
}

/// RFC 4180: commas, double quotes, doubled within.
pub const RFC_4180: Marks = Marks { delimiter: b',', quote: b'"', escape: b'"' };

impl Marks {
    /// The bytes with which a text does not stand in a line as it is.
    pub fn special(self) -> [u8; 4] {
        [self.delimiter, self.quote, b'\n', b'\r']
    }
    /// Whether a text cannot stand in a line as it is.
    pub fn is_special(self, text: &[u8]) -> bool {
        let special = self.special();
        text.iter().any(|b| special.contains(b))
    }
    /// Gives the text in quotes, piece by piece.
    pub fn quote(self, text: &[u8], put: &mut impl FnMut(&[u8])) {
        put(&[self.quote]);
        let mut rest = text;
        // The first byte of what is left has had its escape.
        let mut from = 0;
        while let Some(n) = rest[from..].iter().position(|b| *b == self.quote || *b == self.escape) {
            let (before, after) = rest.split_at(from + n);
            put(before);
            put(&[self.escape]);
            (rest, from) = (after, 1)
        }
        put(rest);
        put(&[self.quote]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_escapes_are_escaped() {
        let quoted = |marks: Marks, text: &str| {
            let mut out = vec![];
            marks.quote(text.as_bytes(), &mut |piece| out.extend_from_slice(piece));
            String::from_utf8(out).unwrap()
        };
        assert_eq!(quoted(RFC_4180, ""), "\"\"");
        assert_eq!(quoted(RFC_4180, "a,b"), "\"a,b\"");
        assert_eq!(quoted(RFC_4180, "\"\"a\"b\""), "\"\"\"\"\"a\"\"b\"\"\"");
        let other = Marks { delimiter: b';', quote: b'\'', escape: b'\\' };
        assert_eq!(quoted(other, "a'b\\\"'"), "'a\\'b\\\\\"\\''");
        for (text, special) in
            [("", false), ("a,b", false), ("a;b", true), ("a'", true), ("a\\", false), ("\n", true)]
        {
            assert_eq!(other.is_special(text.as_bytes()), special, "{text:?}");
        }
    }
}
