//! A leaf's rows as lines of text, made column by column, then put together line by line.
//!
//! Values of few bytes are written to *slots* of one width, so that none waits for where the one before it ended, and are copied as whole slots. Texts that can stand in a line as they
//! are stored are copied from the page one after the other, looked at together, and copied by chunks of one length too. Whatever else there is goes through [`text::push`].
use crate::error::Result;
use crate::page::{Window, chunk_at, chunk_at_mut};
use crate::record::{Length, Lengths, Span};
use crate::room::Room;
use crate::scan::{Leaf, Stored};
use crate::table::Type;
use crate::text::{self, SLOT, Slot};
use crate::value::{self, Digits};
use ondol_base::sync::Mutex;
use ondol_scan::csv::{Dialect, Lines};
use std::ops::Range;
use std::sync::Arc;

/// Lines that are made of leaves' rows.
pub struct Cells {
    /// The columns, by their places in the table.
    columns: Vec<(usize, Cell)>,
    dialect: Dialect,
    /// Room, of which the lines so far take `end` bytes.
    bytes: Vec<u8>,
    end: usize,
    spare: Arc<Spare>,
}

/// Room of lines that were written, to be used again: fresh memory costs as much as filling it does.
pub type Spare = Mutex<Vec<Vec<u8>>>;

/// One column's values in some rows, each with a byte behind it for what separates it from the next.
struct Cell {
    kind: Kind,
    /// What is behind each value.
    behind: u8,
    /// A slot for each row; its last byte says how many of the others count.
    slots: Vec<Slot>,
    /// Texts as they are stored; where the first begins, and where each ends.
    stored: Room,
    bounds: Vec<i32>,
    /// The same of values as they stand in a line.
    lines: Lines,
    ends: Vec<usize>,
    /// Words that become values together, and their digits.
    words: Vec<u64>,
    digits: Vec<[u32; 2]>,
}
/// Where a column's values are, as [`Values`] has them.
#[derive(Clone, Copy)]
enum Kind {
    Slots,
    Short,
    Middle,
    Long,
}

/// A column's values, to be put into lines, and the byte behind each.
struct Source<'a> {
    values: Values<'a>,
    behind: u8,
}
enum Values<'a> {
    /// What is behind each value is in its slot.
    Slots(&'a [Slot]),
    /// Bytes of which a slot, or two, can be copied wherever a value begins, since none is longer.
    Short(&'a [u8], &'a [i32]),
    Middle(&'a [u8], &'a [i32]),
    Long(&'a [u8], &'a [usize]),
}

impl Cells {
    pub fn new(columns: &[usize], dialect: Dialect, spare: Arc<Spare>) -> Cells {
        let cell = |n: usize| Cell {
            kind: Kind::Slots,
            behind: if n + 1 < columns.len() { b',' } else { b'\n' },
            slots: Vec::new(),
            stored: Room::default(),
            bounds: Vec::new(),
            lines: Lines::new(dialect, 0),
            ends: Vec::new(),
            words: Vec::new(),
            digits: Vec::new(),
        };
        let columns = columns.iter().enumerate().map(|(n, i)| (*i, cell(n))).collect();
        Cells { columns, dialect, bytes: Vec::new(), end: 0, spare }
    }
    /// Bytes of the lines so far.
    pub fn len(&self) -> usize {
        self.end
    }
    pub fn is_empty(&self) -> bool {
        self.end == 0
    }
    /// The lines so far; it begins anew.
    pub fn take(&mut self) -> Vec<u8> {
        let spare = self.spare.lock().pop().unwrap_or_default();
        let mut bytes = std::mem::replace(&mut self.bytes, spare);
        bytes.truncate(self.end);
        self.end = 0;
        bytes
    }

    /// Adds a line for each of some rows.
    pub fn add(&mut self, leaf: &Leaf<'_>, rows: Range<usize>) -> Result<()> {
        let mut most = 0;
        for (column, cell) in &mut self.columns {
            cell.fill(leaf, *column, rows.clone(), self.dialect)?;
            most += match cell.kind {
                Kind::Slots => cell.slots.len() * SLOT,
                Kind::Short | Kind::Middle => cell.stored.len(),
                Kind::Long => cell.lines.len(),
            };
        }
        let room = self.end + most + LINE;
        if self.bytes.len() < room {
            self.bytes.resize(room, 0);
        }
        if self.columns.is_empty() {
            // Lines without values.
            self.bytes.resize(self.end, 0);
            self.bytes.resize(self.end + rows.len(), b'\n');
            self.end = self.bytes.len();
            return Ok(());
        }
        let sources: Vec<Source<'_>> = (self.columns.iter())
            .map(|(_, cell)| Source { values: cell.values(), behind: cell.behind })
            .collect();
        self.end = put_together(&sources, rows.len(), &mut self.bytes, self.end);
        Ok(())
    }
}

/// Columns whose short values, of two slots at most, a place of 16 bits can count.
const TOGETHER: usize = 1000;
const _: () = assert!(TOGETHER * 2 * SLOT <= 1 << 16);
/// Bytes that a place of 16 bits, and two slots from there on, can reach. So many are behind where a line is put together, so that no place need be compared with an end.
const LINE: usize = (1 << 16) + 2 * SLOT;

/// Puts lines together from their values, from `end` on; gives where the last ends. There is room for them and [`LINE`] bytes more.
fn put_together(sources: &[Source<'_>], rows: usize, bytes: &mut [u8], end: usize) -> usize {
    widest!(
        fn put(sources: &[Source<'_>], rows: usize, bytes: &mut [u8], end: usize) -> usize {
            let mut end = end;
            for row in 0..rows {
                for sources in sources.chunks(TOGETHER) {
                    let mut line = room(bytes, end);
                    let mut at = 0u16;
                    for source in sources {
                        match source.values {
                            Values::Slots(slots) => {
                                let slot = &slots[row];
                                copy(slot, line, at);
                                at += slot[SLOT - 1] as u16;
                                continue;
                            }
                            Values::Short(values, bounds) => {
                                let (from, length) = span(bounds, row);
                                copy::<SLOT>(chunk(values, from), line, at);
                                at += length as u16;
                            }
                            Values::Middle(values, bounds) => {
                                let (from, length) = span(bounds, row);
                                copy::<{ 2 * SLOT }>(chunk(values, from), line, at);
                                at += length as u16;
                            }
                            Values::Long(values, ends) => {
                                let (from, length) = (ends[row], ends[row + 1] - ends[row]);
                                // There is no room behind the last of them.
                                if length <= 2 * SLOT && from + 2 * SLOT <= values.len() {
                                    copy::<{ 2 * SLOT }>(chunk(values, from), line, at);
                                    at += length as u16;
                                } else {
                                    end += at as usize;
                                    bytes[end..end + length].copy_from_slice(&values[from..from + length]);
                                    end += length;
                                    bytes[end - 1] = source.behind;
                                    (line, at) = (room(bytes, end), 0);
                                    continue;
                                }
                            }
                        }
                        line[at.wrapping_sub(1) as usize] = source.behind;
                    }
                    end += at as usize;
                }
            }
            end
        }
    );
    put(sources, rows, bytes, end)
}
/// Where a value begins, and how long it is with what is behind it: one byte at least.
#[inline(always)]
fn span(bounds: &[i32], row: usize) -> (usize, usize) {
    let from = bounds[row] as usize;
    (from, bounds[row + 1] as usize - from)
}
#[inline(always)]
fn room(bytes: &mut [u8], end: usize) -> &mut [u8; LINE] {
    match chunk_at_mut(bytes, end) {
        Some(line) => line,
        None => unreachable!("there is room for a line"),
    }
}
#[inline(always)]
fn chunk<const N: usize>(values: &[u8], from: usize) -> &[u8; N] {
    match chunk_at(values, from) {
        Some(chunk) => chunk,
        None => unreachable!("there is room behind values"),
    }
}
#[inline(always)]
fn copy<const N: usize>(value: &[u8; N], line: &mut [u8; LINE], at: u16) {
    const { assert!(N <= 2 * SLOT) };
    match line[at as usize..].first_chunk_mut() {
        Some(to) => *to = *value,
        None => unreachable!("{N} bytes are behind each place"),
    }
}

impl Cell {
    /// The values that were filled in.
    fn values(&self) -> Values<'_> {
        match self.kind {
            Kind::Slots => Values::Slots(&self.slots),
            Kind::Short => Values::Short(self.stored.all(), &self.bounds),
            Kind::Middle => Values::Middle(self.stored.all(), &self.bounds),
            Kind::Long => Values::Long(self.lines.bytes(), &self.ends),
        }
    }
    fn begin_lines(&mut self) {
        self.lines.clear();
        self.ends.clear();
        self.ends.push(0);
    }
    fn fill(&mut self, leaf: &Leaf<'_>, column: usize, rows: Range<usize>, dialect: Dialect) -> Result<()> {
        let ty = &leaf.scan.columns()[column].ty;
        if self.fill_slots(leaf, column, rows.clone(), ty, dialect) {
            self.kind = Kind::Slots;
            return Ok(());
        }
        if let Some(kind) = self.fill_texts(leaf, column, rows.clone(), ty, dialect) {
            self.kind = kind;
            return Ok(());
        }
        self.kind = Kind::Long;
        self.begin_lines();
        for row in rows {
            match leaf.stored(column, leaf.rows.place(row, column))? {
                Stored::Null => self.lines.null(),
                Stored::Bytes(bytes) => text::push(&mut self.lines, &leaf.scan.columns()[column], &bytes)
                    .map_err(|why| leaf.damaged(why))?,
            }
            self.ends.push(self.lines.len());
        }
        Ok(())
    }

    /// False if one of them is no value, lies elsewhere, or is of a type that is not written to slots.
    fn fill_slots(
        &mut self,
        leaf: &Leaf<'_>,
        column: usize,
        rows: Range<usize>,
        ty: &Type,
        dialect: Dialect,
    ) -> bool {
        let Length::Fixed(width) = ty.length() else { return false };
        let Some(span) = leaf.rows.span(column, rows).filter(|span| span.has_width(width as usize)) else {
            return false;
        };
        let width = width as usize;
        // N bytes are read at once, of which the first `width` are the value's.
        macro_rules! slots {
            ($n:literal, $write:expr) => {
                self.write::<$n>(leaf.window, &span, dialect, $write)
            };
        }
        // A negative number is one of more than eight digits here.
        macro_rules! signed {
            ($n:literal) => {
                self.write_eights::<$n>(leaf.window, &span, text::put_number, |b| {
                    value::signed(&b).unwrap_or(-1) as u64
                }) || slots!($n, |b, slot| Some(text::put_i64(slot, 0, value::signed(&b)?)))
            };
        }
        macro_rules! unsigned {
            ($n:literal) => {
                self.write_eights::<$n>(leaf.window, &span, text::put_number, |b| {
                    value::unsigned(&b).unwrap_or(u64::MAX)
                }) || slots!($n, |b, slot| Some(text::put_u64(slot, 0, value::unsigned(&b)?)))
            };
        }
        match *ty {
            Type::Int { bytes, unsigned: false, zerofill: None } => match bytes {
                1 => signed!(1),
                2 => signed!(2),
                3 => signed!(3),
                4 => signed!(4),
                _ => signed!(8),
            },
            Type::Int { bytes, unsigned: true, zerofill: None } => match bytes {
                1 => unsigned!(1),
                2 => unsigned!(2),
                3 => unsigned!(3),
                4 => unsigned!(4),
                _ => unsigned!(8),
            },
            Type::Decimal { precision, scale } => match Digits::known(precision, scale) {
                Some(digits) if scale == 2 && matches!(span.lengths, Lengths::Even(_)) => {
                    self.write_cents(leaf.window, &span, digits)
                }
                Some(digits) => {
                    slots!(8, |b, slot| Some(text::put_parts(slot, digits.parts(b)?, scale as usize)))
                }
                None => false,
            },
            Type::Date => {
                self.write_eights::<3>(leaf.window, &span, text::put_day, |b| match value::date(&b) {
                    Some(d) => d.year as u64 * 10_000 + d.month as u64 * 100 + d.day as u64,
                    None => u64::MAX,
                }) || slots!(3, |b, slot| Some(text::put_date(slot, 0, value::date(&b)?)))
            }
            Type::DateTime { fsp } => slots!(8, |b, slot| {
                let (date, time) = value::datetime(&b[..width], fsp)?;
                Some(text::put_datetime(slot, date, time, fsp))
            }),
            Type::Timestamp { fsp } => slots!(8, |b, slot| {
                let (date, time) = text::moment(value::timestamp(&b[..width], fsp)?);
                Some(text::put_datetime(slot, date, time, fsp))
            }),
            _ => false,
        }
    }
    /// Writes DECIMALs with two digits behind the point to their slots. False if one is no value.
    fn write_cents(&mut self, window: Window<'_>, span: &Span<'_>, digits: &Digits) -> bool {
        let distance = span.distance;
        let word = move |at: &u16| u64::from_be_bytes(*window.chunk(at.wrapping_add(distance)));
        self.words.clear();
        self.words.extend(span.at.iter().map(word));
        if !digits.scale_all(&mut self.words) {
            return false;
        }
        if text::eights(&self.words, &mut self.digits) {
            self.put_eights(text::put_hundredths);
            return true;
        }
        self.slots.resize(span.at.len(), [0; SLOT]);
        for (word, slot) in self.words.iter().zip(&mut self.slots) {
            let length = text::put_cents(slot, *word as i64);
            text::end_slot(slot, length, self.behind);
        }
        true
    }
    /// Writes values that are numbers of up to eight digits to their slots. False if one is none, or NULL.
    #[inline(always)]
    fn write_eights<const N: usize>(
        &mut self,
        window: Window<'_>,
        span: &Span<'_>,
        put: impl Fn(&mut Slot, usize, u64) -> usize,
        number: impl Fn([u8; N]) -> u64,
    ) -> bool {
        if !matches!(span.lengths, Lengths::Even(_)) {
            return false;
        }
        self.words.clear();
        self.words.extend(span.at.iter().map(|at| number(*span.field(window, *at))));
        let are_eights = text::eights(&self.words, &mut self.digits);
        if are_eights {
            self.put_eights(put);
        }
        are_eights
    }
    #[inline(always)]
    fn put_eights(&mut self, put: impl Fn(&mut Slot, usize, u64) -> usize) {
        self.slots.resize(self.digits.len(), [0; SLOT]);
        for (digits, slot) in self.digits.iter().zip(&mut self.slots) {
            let length = put(slot, 0, text::joined(*digits));
            text::end_slot(slot, length, self.behind);
        }
    }
    /// Writes each value to its slot. False if `write` finds one that is none.
    #[inline(always)]
    fn write<const N: usize>(
        &mut self,
        window: Window<'_>,
        span: &Span<'_>,
        dialect: Dialect,
        write: impl Fn([u8; N], &mut Slot) -> Option<usize>,
    ) -> bool {
        self.slots.resize(span.at.len(), [0; SLOT]);
        let (mut wrong, behind) = (false, self.behind);
        let mut put = |at: u16, slot: &mut Slot| {
            let written = write(*span.field(window, at), slot);
            wrong |= written.is_none();
            text::end_slot(slot, written.unwrap_or(0), behind);
        };
        let places = span.at.iter().zip(&mut self.slots);
        match span.lengths {
            Lengths::Even(_) => places.for_each(|(at, slot)| put(*at, slot)),
            Lengths::Each(lengths) => {
                for ((at, slot), length) in places.zip(lengths) {
                    // Bytes where a NULL would be need be no value.
                    if *length == Span::NULL {
                        let null = dialect.null();
                        slot[..null.len()].copy_from_slice(null);
                        text::end_slot(slot, null.len(), behind);
                    } else {
                        put(*at, slot);
                    }
                }
            }
        }
        !wrong
    }

    /// Texts, as they are stored or as they have to stand in a line. `None` if they are to be looked at one by one.
    fn fill_texts(
        &mut self,
        leaf: &Leaf<'_>,
        column: usize,
        rows: Range<usize>,
        ty: &Type,
        dialect: Dialect,
    ) -> Option<Kind> {
        let (charset, trims) = match ty {
            Type::Char { charset, .. } => (charset, true),
            Type::Text { charset, .. } => (charset, false),
            _ => return None,
        };
        let span = leaf.rows.span(column, rows.clone())?;
        if !charset.has_ascii() || charset.hides_ascii() {
            return None;
        }
        self.stored.set_len(0);
        self.bounds.clear();
        self.bounds.push(0);
        if !leaf.gather(column, rows, (trims, true), &mut self.stored, &mut self.bounds) {
            return None;
        }
        // OUTFILE has texts in their own character sets. With a space behind each, texts together are UTF-8 if each is.
        let texts = self.stored.bytes();
        let are_texts = dialect.is_outfile()
            || texts.is_ascii()
            || charset.is_utf8() && std::str::from_utf8(texts).is_ok();
        if !are_texts {
            return None;
        }
        self.begin_lines();
        let (texts, bounds) = (self.stored.bytes(), &self.bounds[..]);
        let has_null = matches!(span.lengths, Lengths::Each(lengths) if lengths.contains(&Span::NULL));
        let has_empty = || bounds.windows(2).fold(false, |found, w| found | (w[0] + 1 == w[1]));
        if has_null || dialect == Dialect::Rfc4180 && has_empty() {
            for (row, w) in bounds.windows(2).enumerate() {
                match span.lengths {
                    Lengths::Each(lengths) if lengths[row] == Span::NULL => self.lines.null(),
                    _ => self.lines.text(&texts[w[0] as usize..w[1] as usize - 1]),
                }
                self.ends.push(self.lines.len());
            }
            return Some(Kind::Long);
        }
        let longest = bounds.windows(2).fold(0, |longest, w| longest.max(w[1] - w[0])) as usize;
        let mut special = match (self.lines.special(texts), longest) {
            (None, ..=SLOT) => return Some(Kind::Short),
            (None, n) if n <= 2 * SLOT => return Some(Kind::Middle),
            (special, _) => special.unwrap_or(usize::MAX),
        };
        // Only the texts with such a byte are written anew; those between two of them are copied together.
        let mut row = 0;
        loop {
            let first = row;
            row += bounds[row + 1..].partition_point(|end| *end as usize <= special);
            let (from, to) = (bounds[first] as usize, bounds[row] as usize);
            let shift = self.lines.len() - from;
            self.lines.as_they_are(&texts[from..to]);
            self.ends.extend(bounds[first + 1..=row].iter().map(|end| *end as usize + shift));
            if row + 1 == bounds.len() {
                return Some(Kind::Long);
            }
            let end = bounds[row + 1] as usize;
            self.lines.text(&texts[to..end - 1]);
            self.ends.push(self.lines.len());
            row += 1;
            special = self.lines.special(&texts[end..]).map_or(usize::MAX, |at| end + at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondol_base::sim::Random;

    /// Lines of any number of columns, of values of any length, are what their values say.
    #[test]
    fn lines_are_their_values() {
        let mut random = Random::new(5);
        for case in 0..200 {
            let rows = 1 + random.below(5) as usize;
            let count = if case % 20 == 0 { 1200 } else { 1 + random.below(20) } as usize;
            let mut columns: Vec<(u64, Vec<Slot>, Vec<u8>, Vec<i32>)> = Vec::new();
            let mut expected = vec![String::new(); rows];
            for n in 0..count {
                let kind = random.below(5);
                let longest = [26, SLOT as u64 - 1, 2 * SLOT as u64 - 1, 300, 300][kind as usize];
                let (mut slots, mut values, mut bounds) = (Vec::new(), Vec::new(), vec![0]);
                for line in &mut expected {
                    let length = random.below(longest + 1) as usize;
                    let value: String =
                        (0..length).map(|_| (b'a' + random.below(26) as u8) as char).collect();
                    *line += &value;
                    *line += if n + 1 < count { "," } else { "\n" };
                    let mut slot = [0; SLOT];
                    slot[..length.min(26)].copy_from_slice(&value.as_bytes()[..length.min(26)]);
                    text::end_slot(&mut slot, length.min(26), if n + 1 < count { b',' } else { b'\n' });
                    slots.push(slot);
                    values.extend_from_slice(value.as_bytes());
                    values.push(b' ');
                    bounds.push(values.len() as i32);
                }
                columns.push((kind, slots, values, bounds));
            }
            let ends: Vec<Vec<usize>> =
                columns.iter().map(|c| c.3.iter().map(|end| *end as usize).collect()).collect();
            // Of all but some long ones there are two slots more in memory than there are values.
            columns.iter_mut().filter(|c| c.0 < 4).for_each(|c| c.2.extend([b'?'; 2 * SLOT]));
            let sources: Vec<Source<'_>> = (columns.iter().zip(&ends).enumerate())
                .map(|(n, ((kind, slots, values, bounds), ends))| Source {
                    values: match kind {
                        0 => Values::Slots(slots),
                        1 => Values::Short(values, bounds),
                        2 => Values::Middle(values, bounds),
                        _ => Values::Long(values, ends),
                    },
                    behind: if n + 1 < count { b',' } else { b'\n' },
                })
                .collect();
            let expected = expected.concat();
            let mut bytes = vec![b'!'; 7 + expected.len() + LINE];
            let end = put_together(&sources, rows, &mut bytes, 7);
            assert_eq!(std::str::from_utf8(&bytes[7..end]).unwrap(), expected, "case {case}");
            assert_eq!(&bytes[..7], b"!!!!!!!");
        }
    }
}
