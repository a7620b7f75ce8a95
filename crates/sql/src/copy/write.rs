//! Values as COPY data. Millions of rows pass through here: what a value is made of is looked at and appended
//! in words of fixed size, and what needs quotes or escapes is seen to behind a call.
use crate::bound::CopyOptions;
use ondol_base::ascii::short;
use ondol_base::csv::Marks;
use ondol_types::style::Styles;
use ondol_types::text::Out;
use ondol_types::{Numeric, Type, TypeId, ValueRef, datetime, text};

/// Bytes of room that something is written into at least.
const LEAST: usize = 4096;

/// Lines in memory.
pub struct CopyBuffer {
    /// What was written, and room behind it.
    bytes: Vec<u8>,
    len: usize,
}

impl CopyBuffer {
    /// With room for so many bytes.
    pub fn new(room: usize) -> CopyBuffer {
        CopyBuffer { bytes: vec![0; room], len: 0 }
    }
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
    /// Bytes of memory that it takes.
    #[inline]
    pub fn room(&self) -> usize {
        self.bytes.len()
    }
    pub fn clear(&mut self) {
        self.len = 0
    }
    /// What was written; it begins anew, with as much room as `room` says.
    pub fn take(&mut self, room: usize) -> Vec<u8> {
        let mut bytes = std::mem::replace(&mut self.bytes, vec![0; room]);
        bytes.truncate(std::mem::take(&mut self.len));
        bytes
    }
    #[inline(always)]
    fn push(&mut self, b: u8) {
        self.beginning([b], 1)
    }
    #[cold]
    #[inline(never)]
    fn put_into_more(&mut self, bytes: &[u8]) {
        self.grow(bytes.len());
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes)
    }
    #[cold]
    #[inline(never)]
    fn grow(&mut self, more: usize) {
        let room = (self.len + more).max(2 * self.bytes.len()).max(LEAST);
        self.bytes.resize(room, 0)
    }
}

impl Out for CopyBuffer {
    #[inline]
    fn text(&mut self, text: &str) {
        self.ascii(text.as_bytes())
    }
    #[inline]
    fn ascii(&mut self, bytes: &[u8]) {
        if self.bytes.len() - self.len < bytes.len() {
            self.grow(bytes.len())
        }
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len()
    }
    #[inline(always)]
    fn beginning<const N: usize>(&mut self, bytes: [u8; N], len: usize) {
        match self.bytes.get_mut(self.len..).and_then(|room| room.first_chunk_mut::<N>()) {
            Some(to) => *to = bytes,
            None => self.put_into_more(&bytes),
        }
        self.len += len
    }
}

/// Writes COPY data: a value for each field of a row, then `end_row`.
pub struct CopyWriter {
    options: CopyOptions,
    single: bool,
    /// Whether numbers, times and the like stand in the data as they are.
    plain: bool,
    /// Texts without these stand in the data as they are, but for the NULL string and the end mark; others
    /// are looked at closely.
    special: Wanted,
    styles: Styles,
    /// These are not the usual ones.
    styled: bool,
}

/// Whether a number, a time or a truth value may have this byte.
fn is_of_numbers(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"+-.: ".contains(&b)
}

impl CopyWriter {
    /// For rows of `columns` fields.
    pub fn new(options: &CopyOptions, columns: usize) -> CopyWriter {
        let o = options;
        let (plain, special) = if o.csv {
            let null = !o.null.is_empty() && o.null.bytes().all(is_of_numbers);
            let plain = !(o.force_quote_all || null || is_of_numbers(o.delimiter) || is_of_numbers(o.quote));
            (plain, Wanted::new(b'\n', 4, [o.delimiter, o.quote]))
        } else {
            (!is_of_numbers(o.delimiter), Wanted::new(8, 6, [b'\\', o.delimiter]))
        };
        let (styles, styled) = (Styles::USUAL, false);
        CopyWriter { options: options.clone(), single: columns == 1, plain, special, styles, styled }
    }

    /// Values are written in a session's styles, which may have any character in them.
    pub fn in_styles(mut self, styles: Styles) -> CopyWriter {
        self.styles = styles;
        self.styled = !styles.is_usual();
        self.plain &= !self.styled;
        self
    }

    /// The header line, if the options want one.
    pub fn header<'a>(&mut self, names: impl ExactSizeIterator<Item = &'a str>, out: &mut CopyBuffer) {
        if self.options.header {
            let columns = names.len();
            for name in names {
                self.text(name.as_bytes(), false, out);
                out.push(self.options.delimiter)
            }
            self.end_row(columns, out)
        }
    }

    /// The next field, of a column of that type, with a delimiter behind it. `again` gives the value once
    /// more: one that is handed on as a whole would always be put together in memory, so that is left to
    /// those of less usual kinds.
    #[inline(always)]
    pub fn value<'v>(
        &self,
        value: ValueRef<'v>,
        ty: Type,
        out: &mut CopyBuffer,
        again: impl FnOnce() -> ValueRef<'v>,
    ) {
        let from = out.len;
        let plain = match value {
            ValueRef::Null => {
                out.text(&self.options.null);
                true
            }
            ValueRef::Int4(i) => self.integer(i.into(), out),
            ValueRef::Int8(i) => self.integer(i, out),
            ValueRef::Numeric(b) => {
                Numeric::write_encoded(b, out);
                self.plain
            }
            ValueRef::Packed(p) => {
                p.write(out);
                self.plain
            }
            ValueRef::Date(d) if !self.styled => {
                datetime::write_date(d, out);
                self.plain
            }
            ValueRef::Text(text) if ty.id != TypeId::BPCHAR => {
                self.text(text.as_bytes(), self.options.force_quote_all, out);
                true
            }
            _ => self.other(again(), ty, out),
        };
        if !plain {
            self.check(from, out)
        }
        out.push(self.options.delimiter)
    }

    #[inline(never)]
    fn other(&self, value: ValueRef<'_>, ty: Type, out: &mut CopyBuffer) -> bool {
        text::styled(value, ty, &self.styles, out);
        self.plain && !matches!(value, ValueRef::Text(_) | ValueRef::Bytea(_) | ValueRef::Opaque(..))
    }

    #[inline(always)]
    fn integer(&self, i: i64, out: &mut CopyBuffer) -> bool {
        text::write_i64(i, out);
        self.plain
    }

    /// Whatever was written from there on is a field's text, to be quoted or escaped as that needs.
    #[inline(never)]
    fn check(&self, from: usize, out: &mut CopyBuffer) {
        let text = out.bytes[from..out.len].to_vec();
        out.len = from;
        self.text(&text, self.options.force_quote_all, out)
    }

    #[inline]
    fn text(&self, text: &[u8], force: bool, out: &mut CopyBuffer) {
        let o = &self.options;
        let quote = o.csv && (force || text == o.null.as_bytes() || self.single && text == b"\\.");
        if quote || !self.special.write_without(text, out) {
            self.special_text(text, quote, out)
        }
    }

    #[inline(never)]
    fn special_text(&self, text: &[u8], quote: bool, out: &mut CopyBuffer) {
        let o = &self.options;
        if !o.csv {
            return escape(text, o.delimiter, out);
        }
        let marks = Marks { delimiter: o.delimiter, quote: o.quote, escape: o.escape };
        match quote || marks.is_special(text) {
            true => marks.quote(text, &mut |piece| out.ascii(piece)),
            false => out.ascii(text),
        }
    }

    /// Ends a row of so many fields.
    #[inline(always)]
    pub fn end_row(&self, fields: usize, out: &mut CopyBuffer) {
        // In place of the delimiter behind the last one.
        out.len -= (fields > 0) as usize;
        out.push(b'\n')
    }
}

/// The text format's escapes.
fn escape(text: &[u8], delimiter: u8, out: &mut CopyBuffer) {
    for &b in text {
        let letter = match b {
            b'\\' => b'\\',
            8 => b'b',
            12 => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            11 => b'v',
            b if b == delimiter => b,
            b => {
                out.push(b);
                continue;
            }
        };
        out.push(b'\\');
        out.push(letter);
    }
}

/// Bytes to be looked for in texts: those from one on, so many, and two more. All are ASCII.
struct Wanted {
    from: u8,
    count: u8,
    others: [u8; 2],
    /// What makes a byte of seven bits reach 128 from the first on, and from the first behind the last.
    reaching: u64,
    passing: u64,
    words: [u64; 2],
}

impl Wanted {
    /// # Panics
    /// If one is not ASCII.
    fn new(from: u8, count: u8, others: [u8; 2]) -> Wanted {
        assert!(from as usize + count as usize <= 128 && others.is_ascii(), "{from} {count} {others:?}");
        let each = |b: u8| ONES * u64::from(b);
        let (reaching, passing) = (each(128 - from), each(128 - (from + count)));
        Wanted { from, count, others, reaching, passing, words: others.map(each) }
    }
    /// Without a branch, so that the compiler looks at all of them at once.
    #[inline(always)]
    fn is_among(&self, bytes: &[u8; 16]) -> bool {
        let [a, b] = self.others;
        let found = |x: u8| (x.wrapping_sub(self.from) < self.count) as u8 | (x == a) as u8 | (x == b) as u8;
        bytes.iter().fold(0, |all, x| all | found(*x)) != 0
    }
    /// The same of a word's eight, in a register, out of which compilers take bytes one by one.
    #[inline(always)]
    fn is_among_eight(&self, word: u64) -> bool {
        let low = word & !(ONES << 7);
        let between = (low + self.reaching) & !(low + self.passing) & !word;
        let [a, b] = self.words;
        let (a, b) = (word ^ a, word ^ b);
        (between | a.wrapping_sub(ONES) & !a | b.wrapping_sub(ONES) & !b) & (ONES << 7) != 0
    }
    /// Writes a text, unless one of the bytes is in it.
    #[inline(always)]
    fn write_without(&self, text: &[u8], out: &mut CopyBuffer) -> bool {
        let len = text.len();
        if let (Some(first), Some(last)) = (text.first_chunk::<8>(), text.last_chunk::<8>()) {
            if len > 16 {
                return self.write_long(text, out);
            }
            // The two overlap.
            let is_free = !self.is_among_eight(u64::from_le_bytes(*first))
                && !self.is_among_eight(u64::from_le_bytes(*last));
            if is_free {
                out.beginning(*first, len - 8);
                out.beginning(*last, 8);
            }
            return is_free;
        }
        let word = short(text);
        // The zeros behind it are none of them; if they were, the text would be looked at closely for
        // nothing.
        let is_free = !self.is_among_eight(word);
        if is_free {
            out.beginning(word.to_le_bytes(), len)
        }
        is_free
    }
    #[inline(never)]
    fn write_long(&self, text: &[u8], out: &mut CopyBuffer) -> bool {
        let (Some(first), Some(last)) = (text.first_chunk::<16>(), text.last_chunk::<16>()) else {
            return false;
        };
        if text.as_chunks::<16>().0.iter().any(|c| self.is_among(c)) || self.is_among(last) {
            return false;
        }
        match text.len() {
            ..=32 => {
                out.beginning(*first, text.len() - 16);
                out.beginning(*last, 16)
            }
            _ => out.ascii(text),
        }
        true
    }
}

/// 1 in each byte of a word.
const ONES: u64 = 0x0101_0101_0101_0101;

#[cfg(test)]
mod tests {
    use super::*;
    use ondol_base::sim::Random;

    #[test]
    fn wanted_bytes_are_found_at_every_place() {
        let wanted = Wanted::new(10, 4, [b',', b'"']);
        let mut out = CopyBuffer::new(0);
        for len in 0..50 {
            let mut text: Vec<u8> = (0..len as u8).map(|n| b'a' + n % 26).collect();
            for at in 0..len {
                for b in (0..=255).filter(|b| *b < 32 || *b > 0x7d || b",\" x+!-".contains(b)) {
                    let before = std::mem::replace(&mut text[at], b);
                    let found = (10..14).contains(&b) || b",\"".contains(&b);
                    out.clear();
                    out.text("before");
                    assert_eq!(wanted.write_without(&text, &mut out), !found, "{text:?}");
                    let all = [&b"before"[..], &text].concat();
                    assert_eq!(out.bytes(), if found { &all[..6] } else { &all[..] });
                    text[at] = before;
                }
            }
        }
        assert!(wanted.write_without(b"", &mut out));
    }

    /// A field as PostgreSQL's manual describes it, byte by byte.
    fn described(text: &str, single: bool, o: &CopyOptions) -> Vec<u8> {
        let text = text.as_bytes();
        let mut out = vec![];
        if !o.csv {
            for b in text {
                match b"\x08\x0c\n\r\t\x0b\\".iter().position(|e| e == b) {
                    Some(n) => out.extend([b'\\', b"bfnrtv\\"[n]]),
                    None if *b == o.delimiter => out.extend([b'\\', *b]),
                    None => out.push(*b),
                }
            }
            return out;
        }
        let needs = [o.delimiter, o.quote, b'\n', b'\r'];
        let quote = text.iter().any(|b| needs.contains(b))
            || text == o.null.as_bytes()
            || o.force_quote_all
            || single && text == b"\\.";
        if quote {
            out.push(o.quote);
            for b in text {
                if *b == o.quote || *b == o.escape {
                    out.push(o.escape)
                }
                out.push(*b)
            }
            out.push(o.quote);
            return out;
        }
        text.to_vec()
    }

    /// Values of every kind with options of every kind, also such as make quotes of digits.
    #[test]
    fn fields_are_as_described() {
        let mut seeded = Random::new(1);
        let mut random = |n: usize| seeded.below(n as u64) as usize;
        let characters: Vec<char> = "aZ09.-+:, \"'\\\n\r\t\u{8}\u{b}\u{c}\0é\u{1f642}N".chars().collect();
        for round in 0..60_000 {
            let csv = round % 2 == 0;
            let marks = b",;|\t 1-.NaZ:'\"\\";
            let mut o = if csv { CopyOptions::csv() } else { CopyOptions::default() };
            if random(2) == 0 {
                o.delimiter = marks[random(marks.len())];
                o.quote = marks[random(marks.len())];
                o.escape = marks[random(marks.len())];
                o.force_quote_all = random(4) == 0;
                o.null = ["", "\\N", "NaN", "0", "t", "-1", "2000-01-01", "a"][random(8)].into();
                if o.quote == o.delimiter {
                    o.quote = b'#'
                }
            }
            let text: String = (0..random(40)).map(|_| characters[random(characters.len())]).collect();
            let text = ["", "\\.", "0", &text[..], &text[..]][random(5)];
            let number = (random(1 << 31) as i64 - (1 << 30)) >> random(40);
            let mut numeric = vec![];
            Numeric::from_scaled(i128::from(number), random(12) as u16).encode(&mut numeric);
            let (value, id) = match random(12) {
                0 => (ValueRef::Null, TypeId::INT4),
                1 => (ValueRef::Bool(number > 0), TypeId::BOOL),
                2 => (ValueRef::Int2(number as i16), TypeId::INT2),
                3 => (ValueRef::Int4(number as i32), TypeId::INT4),
                4 => (ValueRef::Int8(number << random(30)), TypeId::INT8),
                5 => (ValueRef::Float8(number as f64 / 7.0), TypeId::FLOAT8),
                6 => (ValueRef::Numeric(&numeric), TypeId::NUMERIC),
                7 => (ValueRef::Date(number as i32), TypeId::DATE),
                8 => (ValueRef::Timestamp(number << 20), TypeId::TIMESTAMP),
                9 => (ValueRef::Bytea(text.as_bytes()), TypeId::BYTEA),
                10 => (ValueRef::Text(text), TypeId::BPCHAR),
                _ => (ValueRef::Text(text), TypeId::TEXT),
            };
            let ty = if id == TypeId::BPCHAR { Type::with(id, 4 + random(9) as i32) } else { Type::new(id) };
            let columns = 1 + random(3);
            let (w, mut out) = (CopyWriter::new(&o, columns), CopyBuffer::new(random(64)));
            let mut expected = vec![];
            for column in 0..columns {
                w.value(value, ty, &mut out, || value);
                if column > 0 {
                    expected.push(o.delimiter)
                }
                match value {
                    ValueRef::Null => expected.extend_from_slice(o.null.as_bytes()),
                    value => {
                        let mut shown = String::new();
                        text::output(value, ty, &mut shown);
                        expected.extend(described(&shown, columns == 1, &o))
                    }
                }
            }
            w.end_row(columns, &mut out);
            expected.push(b'\n');
            let shown = String::from_utf8_lossy(&expected);
            assert!(
                out.bytes() == expected,
                "{:?}, not {shown:?}: {value:?} {ty:?} {o:?}",
                String::from_utf8_lossy(out.bytes())
            );
        }
    }
}
