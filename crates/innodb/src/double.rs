//! Character sets of several bytes: the Encoding Standard's conversions, and where the servers convert
//! otherwise (`CONVERT(… USING utf8mb4)`).
//!
//! Each sequence of bytes that a column can hold was asked of MariaDB 10.11 and MySQL 9.7, which agree. Not
//! here are 106 characters of IBM's and NEC's in eucjpms (0x8FF3F3 to 0x8FF4FE), which mean nothing to the
//! Encoding Standard, and so are refused.
use encoding_rs as whatwg;
use std::borrow::Cow;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Double {
    Big5,
    Cp932,
    EucJpMs,
    EucKr,
    Gb18030,
    Gb2312,
    Gbk,
    ShiftJis,
    Ujis,
}

/// What the servers convert otherwise: the first sequence of bytes as a number, the first character, how many
/// of both follow one another. U+FFFD: it means nothing.
type Others = &'static [(u32, u32, u32)];

const BIG5: Others = &[
    (0xa145, 0x2022, 1),
    (0xa14e, 0xff64, 1),
    (0xa15a, 0xfffd, 1),
    (0xa1c2, 0x203e, 1),
    (0xa1c3, 0xfffd, 1),
    (0xa1c5, 0xfffd, 1),
    (0xa1e3, 0x223c, 1),
    (0xa1f2, 0x2641, 1),
    (0xa1f3, 0x2609, 1),
    (0xa1fe, 0xfffd, 1),
    (0xa240, 0xfffd, 1),
    (0xa241, 0xff0f, 1),
    (0xa242, 0xff3c, 1),
    (0xa244, 0xa5, 1),
    (0xa246, 0xa2, 2),
    (0xa2cc, 0xfffd, 1),
    (0xa2ce, 0xfffd, 1),
    (0xc6a1, 0x30fe, 1),
    (0xc6a2, 0x309d, 2),
    (0xc6a4, 0x3005, 1),
    (0xc6a5, 0x3041, 83),
    (0xc6f8, 0x30a1, 7),
    (0xc740, 0x30a8, 63),
    (0xc7a1, 0x30e7, 16),
    (0xc7b1, 0x414, 2),
    (0xc7b3, 0x401, 1),
    (0xc7b4, 0x416, 7),
    (0xc7bb, 0x423, 19),
    (0xc7ce, 0x451, 1),
    (0xc7cf, 0x436, 26),
    (0xc7e9, 0x2460, 10),
    (0xc7f3, 0x2474, 10),
];
const SHIFT_JIS: Others = &[
    (0x815f, 0x5c, 1),
    (0x8160, 0x301c, 1),
    (0x8161, 0x2016, 1),
    (0x817c, 0x2212, 1),
    (0x8191, 0xa2, 2),
    (0x81ca, 0xac, 1),
];
const UJIS: Others = &[
    (0xa1c0, 0x5c, 1),
    (0xa1c1, 0x301c, 1),
    (0xa1c2, 0x2016, 1),
    (0xa1dd, 0x2212, 1),
    (0xa1f1, 0xa2, 2),
    (0xa2cc, 0xac, 1),
    (0x8fa2b7, 0x7e, 1),
];
const EUC_JP_MS: Others = &[(0x8fa2c3, 0xffe4, 1)];
const GB2312: Others = &[(0xa1a4, 0x30fb, 1), (0xa1aa, 0x2015, 1)];
const GB18030: Others = &[
    (0xa3a0, 0xe5e5, 1),
    (0xa6d9, 0xe78d, 7),
    (0xa6ec, 0xe794, 2),
    (0xa6f3, 0xe796, 1),
    (0xfe59, 0xe81e, 1),
    (0xfe61, 0xe826, 1),
    (0xfe66, 0xe82b, 2),
    (0xfe6d, 0xe832, 1),
    (0xfe7e, 0xe843, 1),
    (0xfe90, 0xe854, 1),
    (0xfea0, 0xe864, 1),
];

impl Double {
    fn others(self) -> Others {
        match self {
            Double::Big5 => BIG5,
            Double::EucJpMs => EUC_JP_MS,
            Double::Gb18030 => GB18030,
            Double::Gb2312 => GB2312,
            Double::ShiftJis => SHIFT_JIS,
            Double::Ujis => UJIS,
            Double::Cp932 | Double::EucKr | Double::Gbk => &[],
        }
    }

    /// `bytes` as UTF-8; `None` if they mean nothing in this character set.
    pub fn to_utf8(self, bytes: &[u8]) -> Option<Cow<'_, str>> {
        if self.others().is_empty() || bytes.is_ascii() {
            return self.standard(bytes);
        }
        let mut text = String::with_capacity(bytes.len() * 3 / 2);
        // What is as the Encoding Standard has it waits for what is not.
        let (mut from, mut at) = (0, 0);
        while at < bytes.len() {
            let end = at + self.character(&bytes[at..]);
            if let Some(c) = self.other(&bytes[at..end]) {
                text.push_str(&self.standard(&bytes[from..at])?);
                text.push(Some(c).filter(|c| *c != char::REPLACEMENT_CHARACTER)?);
                from = end;
            }
            at = end;
        }
        text.push_str(&self.standard(&bytes[from..])?);
        Some(Cow::Owned(text))
    }

    /// Bytes of the character that `bytes` begin with; 1 where it is none of several.
    pub fn character(self, bytes: &[u8]) -> usize {
        let n = match (self, bytes) {
            (Double::EucJpMs | Double::Ujis, [0x8f, 0xa1..=0xfe, 0xa1..=0xfe, ..]) => 3,
            (Double::EucJpMs | Double::Ujis, [0x8e | 0xa1..=0xfe, 0xa1..=0xfe, ..]) => 2,
            // No byte of a longer character of euckr is one that matters.
            (
                Double::ShiftJis | Double::Cp932,
                [0x81..=0x9f | 0xe0..=0xfc, 0x40..=0x7e | 0x80..=0xfc, ..],
            ) => 2,
            (Double::Gb18030, [0x81..=0xfe, 0x30..=0x39, ..]) => 4,
            (
                Double::Big5 | Double::Gbk | Double::Gb2312 | Double::Gb18030,
                [0x81..=0xfe, 0x40..=0x7e | 0x80..=0xfe, ..],
            ) => 2,
            _ => 1,
        };
        if n <= bytes.len() { n } else { 1 }
    }

    /// What the servers make of a character, if it is not what the Encoding Standard says.
    fn other(self, character: &[u8]) -> Option<char> {
        if matches!(self, Double::EucJpMs | Double::Ujis) {
            // Ten rows for private use, and ten more of three bytes.
            let (rows, row, cell) = match *character {
                [row @ 0xf5..=0xfe, cell] => (0, row, cell),
                [0x8f, row @ 0xf5..=0xfe, cell] => (10, row, cell),
                _ => (0, 0, 0),
            };
            if row > 0 {
                return char::from_u32(0xe000 + 94 * (rows + row as u32 - 0xf5) + cell as u32 - 0xa1);
            }
        }
        let code = character.iter().fold(0, |code, b| code << 8 | *b as u32);
        let (first, to, _) =
            self.others().iter().find(|(first, _, n)| (*first..first + n).contains(&code))?;
        char::from_u32(to + if *to == 0xfffd { 0 } else { code - first })
    }

    fn standard(self, bytes: &[u8]) -> Option<Cow<'_, str>> {
        let encoding = match self {
            Double::Big5 => whatwg::BIG5,
            Double::EucJpMs | Double::Ujis => whatwg::EUC_JP,
            Double::ShiftJis | Double::Cp932 => whatwg::SHIFT_JIS,
            Double::EucKr => whatwg::EUC_KR,
            Double::Gbk | Double::Gb2312 => whatwg::GBK,
            Double::Gb18030 => whatwg::GB18030,
        };
        encoding.decode_without_bom_handling_and_without_replacement(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers of both servers.
    #[test]
    fn characters_are_the_servers() {
        for (set, bytes, expected) in [
            (Double::ShiftJis, &b"a\x81\x60\x83\x5c\x5c"[..], Some("a\u{301c}ソ\\")),
            (Double::Cp932, b"a\x81\x60\x83\x5c\x5c", Some("a\u{ff5e}ソ\\")),
            (
                Double::Ujis,
                b"\xa4\xa2\xa1\xc1\xf9\xa1\x8f\xfe\xfe\x8f\xa2\xb7",
                Some("あ\u{301c}\u{e178}\u{e757}~"),
            ),
            (Double::EucJpMs, b"\xa1\xc1\xf5\xa1\x8f\xa2\xc3", Some("\u{ff5e}\u{e000}\u{ffe4}")),
            (Double::EucJpMs, b"\x8f\xf3\xf3", None),
            (Double::Big5, b"\xa4\xa4\xc6\xa1\xc6\xf7\xc7\xfc\xb3\x5c", Some("中\u{30fe}\u{3093}\u{247d}許")),
            (Double::Big5, b"a\xa2\xcc", None),
            (Double::Gb2312, b"\xd6\xd0\xa1\xa4\xa1\xaa", Some("中\u{30fb}\u{2015}")),
            (Double::Gbk, b"\xd6\xd0\xa1\xa4\xa1\xaa\xd5\x5c", Some("中\u{b7}\u{2014}誠")),
            (Double::Gb18030, b"\xa6\xd9\x84\x31\x82\x36\xfe\xa0a", Some("\u{e78d}\u{fe10}\u{e864}a")),
            (Double::EucKr, b"\xb0\xa1\xa1", None),
            (Double::Ujis, b"\xf5", None),
        ] {
            assert_eq!(set.to_utf8(bytes).as_deref(), expected, "{set:?} {bytes:x?}");
        }
    }
}
