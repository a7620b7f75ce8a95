//! Character sets: which one a collation's number means, how it counts in a record, and its conversion to
//! UTF-8.
//!
//! Sources: `information_schema.COLLATIONS` of MariaDB 10.11 and MySQL 9.7 (numbers), their own conversions
//! (single.rs, double.rs).
use crate::double::Double;
use crate::single;
use std::borrow::Cow;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charset {
    pub name: &'static str,
    /// Bytes of a character, at least and at most. Where they differ, CHAR(n) is stored as long as its
    /// content needs.
    pub min: u8,
    pub max: u8,
    how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// No characters at all: bytes.
    Binary,
    Ascii,
    Utf8,
    /// Two bytes each, big-endian; ucs2 has no surrogates but is read as if it had.
    Utf16,
    Utf16Le,
    Utf32,
    /// Bytes from 128 on by a table.
    Single(&'static str),
    Swe7,
    /// One to four bytes each.
    Double(Double),
}

const fn set(name: &'static str, min: u8, max: u8, how: How) -> Charset {
    Charset { name, min, max, how }
}
const fn single(name: &'static str, table: &'static str) -> Charset {
    Charset { name, min: 1, max: 1, how: How::Single(table) }
}
pub const BINARY: Charset = set("binary", 1, 1, How::Binary);
pub const UTF8: Charset = set("utf8mb4", 1, 4, How::Utf8);

const ALL: &[Charset] = &[
    BINARY,
    UTF8,
    set("utf8mb3", 1, 3, How::Utf8),
    set("ascii", 1, 1, How::Ascii),
    set("ucs2", 2, 2, How::Utf16),
    set("utf16", 2, 4, How::Utf16),
    set("utf16le", 2, 4, How::Utf16Le),
    set("utf32", 4, 4, How::Utf32),
    set("big5", 1, 2, How::Double(Double::Big5)),
    set("ujis", 1, 3, How::Double(Double::Ujis)),
    set("eucjpms", 1, 3, How::Double(Double::EucJpMs)),
    set("sjis", 1, 2, How::Double(Double::ShiftJis)),
    set("cp932", 1, 2, How::Double(Double::Cp932)),
    set("euckr", 1, 2, How::Double(Double::EucKr)),
    set("gb2312", 1, 2, How::Double(Double::Gb2312)),
    set("gbk", 1, 2, How::Double(Double::Gbk)),
    set("gb18030", 1, 4, How::Double(Double::Gb18030)),
    set("swe7", 1, 1, How::Swe7),
    single("latin1", single::LATIN1),
    single("latin2", single::LATIN2),
    single("latin5", single::LATIN5),
    single("latin7", single::LATIN7),
    single("dec8", single::DEC8),
    single("hp8", single::HP8),
    single("koi8r", single::KOI8R),
    single("koi8u", single::KOI8U),
    single("cp850", single::CP850),
    single("cp852", single::CP852),
    single("cp866", single::CP866),
    single("cp1250", single::CP1250),
    single("cp1251", single::CP1251),
    single("cp1256", single::CP1256),
    single("cp1257", single::CP1257),
    single("hebrew", single::HEBREW),
    single("greek", single::GREEK),
    single("tis620", single::TIS620),
    single("armscii8", single::ARMSCII8),
    single("geostd8", single::GEOSTD8),
    single("keybcs2", single::KEYBCS2),
    single("macce", single::MACCE),
    single("macroman", single::MACROMAN),
];

/// Ranges of collation numbers below 1024, each with its character set.
const NUMBERS: &[(u16, u16, &str)] = &[
    (1, 1, "big5"),
    (2, 2, "latin2"),
    (3, 3, "dec8"),
    (4, 4, "cp850"),
    (5, 5, "latin1"),
    (6, 6, "hp8"),
    (7, 7, "koi8r"),
    (8, 8, "latin1"),
    (9, 9, "latin2"),
    (10, 10, "swe7"),
    (11, 11, "ascii"),
    (12, 12, "ujis"),
    (13, 13, "sjis"),
    (14, 14, "cp1251"),
    (15, 15, "latin1"),
    (16, 16, "hebrew"),
    (18, 18, "tis620"),
    (19, 19, "euckr"),
    (20, 20, "latin7"),
    (21, 21, "latin2"),
    (22, 22, "koi8u"),
    (23, 23, "cp1251"),
    (24, 24, "gb2312"),
    (25, 25, "greek"),
    (26, 26, "cp1250"),
    (27, 27, "latin2"),
    (28, 28, "gbk"),
    (29, 29, "cp1257"),
    (30, 30, "latin5"),
    (31, 31, "latin1"),
    (32, 32, "armscii8"),
    (33, 33, "utf8mb3"),
    (34, 34, "cp1250"),
    (35, 35, "ucs2"),
    (36, 36, "cp866"),
    (37, 37, "keybcs2"),
    (38, 38, "macce"),
    (39, 39, "macroman"),
    (40, 40, "cp852"),
    (41, 42, "latin7"),
    (43, 43, "macce"),
    (44, 44, "cp1250"),
    (45, 46, "utf8mb4"),
    (47, 49, "latin1"),
    (50, 52, "cp1251"),
    (53, 53, "macroman"),
    (54, 55, "utf16"),
    (56, 56, "utf16le"),
    (57, 57, "cp1256"),
    (58, 59, "cp1257"),
    (60, 61, "utf32"),
    (62, 62, "utf16le"),
    (63, 63, "binary"),
    (64, 64, "armscii8"),
    (65, 65, "ascii"),
    (66, 66, "cp1250"),
    (67, 67, "cp1256"),
    (68, 68, "cp866"),
    (69, 69, "dec8"),
    (70, 70, "greek"),
    (71, 71, "hebrew"),
    (72, 72, "hp8"),
    (73, 73, "keybcs2"),
    (74, 74, "koi8r"),
    (75, 75, "koi8u"),
    (76, 76, "utf8mb3"),
    (77, 77, "latin2"),
    (78, 78, "latin5"),
    (79, 79, "latin7"),
    (80, 80, "cp850"),
    (81, 81, "cp852"),
    (82, 82, "swe7"),
    (83, 83, "utf8mb3"),
    (84, 84, "big5"),
    (85, 85, "euckr"),
    (86, 86, "gb2312"),
    (87, 87, "gbk"),
    (88, 88, "sjis"),
    (89, 89, "tis620"),
    (90, 90, "ucs2"),
    (91, 91, "ujis"),
    (92, 93, "geostd8"),
    (94, 94, "latin1"),
    (95, 96, "cp932"),
    (97, 98, "eucjpms"),
    (99, 99, "cp1250"),
    (101, 124, "utf16"),
    (128, 151, "ucs2"),
    (159, 159, "ucs2"),
    (160, 183, "utf32"),
    (192, 215, "utf8mb3"),
    (223, 223, "utf8mb3"),
    (224, 247, "utf8mb4"),
    (248, 250, "gb18030"),
    (255, 323, "utf8mb4"),
    (576, 578, "utf8mb3"),
    (608, 610, "utf8mb4"),
    (640, 642, "ucs2"),
    (672, 674, "utf16"),
    (736, 738, "utf32"),
];

impl Charset {
    /// The character set of a collation. MariaDB numbers its NOPAD collations 1024 above the others, and its
    /// UCA-14 ones from 2048 on in blocks of 256.
    pub fn of_collation(number: u32) -> Option<Charset> {
        let name = match number {
            2048..=3327 => ["utf8mb3", "utf8mb4", "ucs2", "utf16", "utf32"][(number as usize - 2048) / 256],
            _ => {
                let base = if number >= 1024 { number - 1024 } else { number };
                NUMBERS.iter().find(|(from, to, _)| (*from as u32..=*to as u32).contains(&base))?.2
            }
        };
        Charset::named(name)
    }
    /// A character set by its name; `utf8` is utf8mb3.
    pub fn named(name: &str) -> Option<Charset> {
        let name = if name.eq_ignore_ascii_case("utf8") { "utf8mb3" } else { name };
        ALL.iter().copied().find(|c| c.name.eq_ignore_ascii_case(name))
    }
    pub fn is_binary(self) -> bool {
        self.how == How::Binary
    }
    /// Bytes are UTF-8 as they are.
    pub fn is_utf8(self) -> bool {
        matches!(self.how, How::Utf8 | How::Ascii)
    }
    /// ASCII is itself in it, so that bytes below 128 are UTF-8 as they are.
    pub fn has_ascii(self) -> bool {
        matches!(self.how, How::Utf8 | How::Ascii | How::Single(_) | How::Double(_))
    }
    /// Whether a byte below 128 can be part of a longer character, so that texts written out have to be
    /// looked at character by character.
    pub fn hides_ascii(self) -> bool {
        matches!(self.how, How::Utf16 | How::Utf16Le | How::Utf32 | How::Double(_))
    }
    /// A comma, as it stands between the elements of a SET.
    pub fn comma(self) -> &'static [u8] {
        match self.how {
            How::Utf16 => b"\0,",
            How::Utf16Le => b",\0",
            How::Utf32 => b"\0\0\0,",
            _ => b",",
        }
    }
    /// Bytes of the character that `bytes` begin with, as the servers count them where they write texts out:
    /// 1 where it is none of several bytes.
    pub fn character(self, bytes: &[u8]) -> usize {
        let n = match (self.how, bytes) {
            (How::Utf16, [b, ..]) if self.max == 4 && b & 0xfc == 0xd8 => 4,
            (How::Utf16Le, [_, b, ..]) if b & 0xfc == 0xd8 => 4,
            (How::Utf16 | How::Utf16Le, _) => 2,
            (How::Utf32, _) => 4,
            (How::Double(d), _) => d.character(bytes),
            // No byte of a longer character of UTF-8 is one that matters.
            _ => 1,
        };
        if n <= bytes.len() { n } else { 1 }
    }
    /// A text's bytes in one of the wide forms of Unicode; `None` in any other character set, and for what
    /// ucs2 has not.
    pub fn of_unicode(self, text: &str) -> Option<Vec<u8>> {
        if self.max == 2 && text.chars().any(|c| c > '\u{ffff}') {
            return None;
        }
        match self.how {
            How::Utf16 => Some(text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
            How::Utf16Le => Some(text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
            How::Utf32 => Some(text.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect()),
            _ => None,
        }
    }
    /// `bytes` as UTF-8; `None` if they mean nothing in this character set.
    pub fn to_utf8(self, bytes: &[u8]) -> Option<Cow<'_, str>> {
        match self.how {
            How::Binary => None,
            How::Ascii | How::Utf8 => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
            How::Single(_) | How::Swe7 if bytes.is_ascii() && self.how != How::Swe7 => {
                std::str::from_utf8(bytes).ok().map(Cow::Borrowed)
            }
            How::Single(table) => {
                // A table's characters are of different lengths: walking is for the rare ones that are not
                // ASCII.
                let mut text = String::with_capacity(bytes.len() + 8);
                for &b in bytes {
                    text.push(if b < 128 { b as char } else { known(table.chars().nth(b as usize - 128)?)? });
                }
                Some(Cow::Owned(text))
            }
            How::Swe7 => bytes.iter().map(|&b| swe7(b)).collect::<Option<String>>().map(Cow::Owned),
            How::Utf16 => units(bytes, u16::from_be_bytes),
            How::Utf16Le => units(bytes, u16::from_le_bytes),
            How::Utf32 => {
                let (words, rest) = bytes.as_chunks::<4>();
                let text =
                    words.iter().map(|w| char::from_u32(u32::from_be_bytes(*w))).collect::<Option<String>>();
                if rest.is_empty() { text.map(Cow::Owned) } else { None }
            }
            How::Double(d) => d.to_utf8(bytes),
        }
    }
}

fn known(c: char) -> Option<char> {
    (c != char::REPLACEMENT_CHARACTER).then_some(c)
}
/// Swedish ASCII (ISO 646-SE2).
fn swe7(b: u8) -> Option<char> {
    Some(match b {
        b'@' => 'É',
        b'[' => 'Ä',
        b'\\' => 'Ö',
        b']' => 'Å',
        b'^' => 'Ü',
        b'`' => 'é',
        b'{' => 'ä',
        b'|' => 'ö',
        b'}' => 'å',
        b'~' => 'ü',
        0..127 => b as char,
        _ => return None,
    })
}
fn units(bytes: &[u8], word: fn([u8; 2]) -> u16) -> Option<Cow<'_, str>> {
    let (words, rest) = bytes.as_chunks::<2>();
    let text = char::decode_utf16(words.iter().map(|w| word(*w))).collect::<Result<String, _>>().ok()?;
    rest.is_empty().then_some(Cow::Owned(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collations_lead_to_their_character_sets() {
        for (number, name) in [
            (8, "latin1"),
            (45, "utf8mb4"),
            (255, "utf8mb4"),
            (63, "binary"),
            (1071, "latin1"),
            (2304, "utf8mb4"),
            (3072, "utf32"),
            (1270, "utf8mb4"),
        ] {
            assert_eq!(Charset::of_collation(number).unwrap().name, name, "{number}");
        }
        assert_eq!(Charset::of_collation(17), None);
        for (_, _, name) in NUMBERS {
            assert!(Charset::named(name).is_some(), "{name}");
        }
    }

    #[test]
    fn texts_become_utf8_or_nothing() {
        let text =
            |name: &str, bytes: &[u8]| Charset::named(name).unwrap().to_utf8(bytes).map(Cow::into_owned);
        assert_eq!(text("latin1", b"caf\xe9 \x80").as_deref(), Some("café €"));
        assert_eq!(text("ucs2", b"\x00a\x04\x30").as_deref(), Some("aа"));
        assert_eq!(text("utf32", b"\x00\x01\xf6\x00").as_deref(), Some("😀"));
        assert_eq!(text("sjis", b"\x83\x65").as_deref(), Some("テ"));
        assert_eq!(text("swe7", b"[]~").as_deref(), Some("ÄÅü"));
        assert_eq!(text("utf8mb4", b"\xff"), None);
        assert_eq!(text("cp1250", b"\x81"), None);
        assert_eq!(text("ucs2", b"\x00a\x04"), None);
    }
}
