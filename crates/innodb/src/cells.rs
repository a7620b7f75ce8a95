//! A leaf's rows as lines of text, made column by column, then put together line by line.
//!
//! Values of few bytes are written to *slots* of one width, so that none waits for where the one before it
//! ended, and are copied as whole slots; those of neighbours lie side by side. Texts that can stand in a line
//! as they are stored are copied from the page one after the other, looked at together, and copied by chunks
//! of one length too. Whatever else there is goes through [`text::push`].
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
    /// Row by row a slot for each column, and perhaps one more: `width`.
    slots: Vec<Slot>,
    width: usize,
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
    /// Texts as they are stored; where the first begins, and where each ends.
    stored: Room,
    bounds: Vec<i32>,
    /// The same of values as they stand in a line.
    lines: Lines,
    ends: Vec<usize>,
    /// Lengths of texts that are written to slots.
    lengths: Vec<u16>,
    /// Words that become values together, and their digits.
    words: Vec<u64>,
    digits: Vec<[u32; 2]>,
}
/// Where a column's values are, as [`Values`] has them.
#[derive(Clone, Copy)]
enum Kind {
    Slots,
    Middle,
    Long,
}

/// A column's values, to be put into lines, and the byte behind each.
struct Source<'a> {
    values: Values<'a>,
    behind: u8,
}
enum Values<'a> {
    /// Of so many slots for each row those of some columns. What is behind each value is in its slot.
    Slots(&'a [Slot], usize, Range<usize>),
    /// Bytes of which two slots can be copied wherever a value begins, since none is longer.
    Middle(&'a [u8], &'a [i32]),
    Long(&'a [u8], &'a [usize]),
}

impl Cells {
    pub fn new(columns: &[usize], dialect: Dialect, spare: Arc<Spare>) -> Cells {
        let cell = |n: usize| Cell {
            kind: Kind::Slots,
            behind: if n + 1 < columns.len() { b',' } else { b'\n' },
            stored: Room::default(),
            bounds: Vec::new(),
            lines: Lines::new(dialect, 0),
            ends: Vec::new(),
            lengths: Vec::new(),
            words: Vec::new(),
            digits: Vec::new(),
        };
        // A column's slots at a distance of a power of two would be in few lines of the processor's nearest
        // memory.
        let width = columns.len() | 1;
        let columns = columns.iter().enumerate().map(|(n, i)| (*i, cell(n))).collect();
        Cells { columns, slots: Vec::new(), width, dialect, bytes: Vec::new(), end: 0, spare }
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
        let step = (SLOTS / self.width).max(1);
        for from in rows.clone().step_by(step) {
            self.add_few(leaf, from..(from + step).min(rows.end))?;
        }
        Ok(())
    }
    fn add_few(&mut self, leaf: &Leaf<'_>, rows: Range<usize>) -> Result<()> {
        let (width, count) = (self.width, rows.len());
        if self.slots.len() < count * width {
            self.slots.resize(count * width, [0; SLOT]);
        }
        let slots = &mut self.slots[..count * width];
        let mut most = 0;
        for (n, (column, cell)) in self.columns.iter_mut().enumerate() {
            let place = Slots { slots, width, n, behind: cell.behind };
            cell.fill(leaf, *column, rows.clone(), place, self.dialect)?;
            most += match cell.kind {
                Kind::Slots => count * SLOT,
                Kind::Middle => cell.stored.len(),
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
            self.bytes.resize(self.end + count, b'\n');
            self.end = self.bytes.len();
            return Ok(());
        }
        let mut sources: Vec<Source<'_>> = Vec::with_capacity(self.columns.len());
        for (n, (_, cell)) in self.columns.iter().enumerate() {
            add_source(&mut sources, cell.values(slots, width, n), cell.behind);
        }
        self.end = put_together(&sources, count, &mut self.bytes, self.end);
        Ok(())
    }
}

/// Adds the next column's values; slots to those of the columns before it.
fn add_source<'a>(sources: &mut Vec<Source<'a>>, values: Values<'a>, behind: u8) {
    match (sources.last_mut(), &values) {
        (Some(Source { values: Values::Slots(.., before), .. }), Values::Slots(.., columns))
            if before.len() < NEIGHBOURS =>
        {
            before.end = columns.end;
        }
        _ => sources.push(Source { values, behind }),
    }
}

/// Slots that are filled before their lines are put together, roughly.
const SLOTS: usize = 1 << 15;
/// Columns of slots that are copied one after the other.
const NEIGHBOURS: usize = 16;

/// One column's slots, and the byte behind each value.
struct Slots<'a> {
    slots: &'a mut [Slot],
    width: usize,
    n: usize,
    behind: u8,
}
impl Slots<'_> {
    /// Fills the slot of each of some rows; `put` returns how many bytes count.
    #[inline(always)]
    fn fill<T>(&mut self, rows: impl Iterator<Item = T>, mut put: impl FnMut(T, &mut Slot) -> usize) {
        let mut n = self.n;
        for row in rows {
            let slot = &mut self.slots[n];
            let length = put(row, slot);
            text::end_slot(slot, length, self.behind);
            n += self.width;
        }
    }
    /// Writes NULL where one is, by the lengths of the values.
    fn put_nulls(&mut self, lengths: &[u16], dialect: Dialect) {
        let (null, rows) = (dialect.null(), self.slots[self.n..].iter_mut().step_by(self.width));
        for (slot, _) in rows.zip(lengths).filter(|(_, length)| **length == Span::NULL) {
            slot[..null.len()].copy_from_slice(null);
            text::end_slot(slot, null.len(), self.behind);
        }
    }
}

/// Functions that write values of which the digits are known to their slots.
macro_rules! put_eights {
    ($($name:ident: $put:path),*) => { $(
        ondol_base::widest! {
            fn $name(slots: &mut Slots<'_>, digits: &[[u32; 2]]) {
                let mut n = slots.n;
                for digits in digits {
                    let slot = &mut slots.slots[n];
                    let length = $put(slot, 0, text::joined(*digits));
                    text::end_slot(slot, length, slots.behind);
                    n += slots.width;
                }
            }
        }
    )* };
}
put_eights!(put_numbers: text::put_number, put_hundredths: text::put_hundredths, put_days: text::put_day);

/// Writes each value to its slot, from N bytes. False if `write` finds one that is none.
#[inline(always)]
fn write<const N: usize>(
    window: Window<'_>,
    span: &Span<'_>,
    slots: &mut Slots<'_>,
    dialect: Dialect,
    write: impl Fn([u8; N], &mut Slot) -> Option<usize>,
) -> bool {
    let lengths = match span.lengths {
        Lengths::Even(_) => &[],
        Lengths::Each(lengths) => lengths,
    };
    let (mut row, mut wrong) = (0, false);
    slots.fill(span.at.iter(), |at, slot| {
        let written = write(*span.field(window, *at), slot);
        // Bytes where a NULL would be need be no value.
        wrong |= written.is_none() && lengths.get(row) != Some(&Span::NULL);
        row += 1;
        written.unwrap_or(0)
    });
    slots.put_nulls(lengths, dialect);
    !wrong
}

/// The longest text that is written to a slot: its last byte and one behind the text are needed.
const SHORT: usize = SLOT - 2;

/// Functions that copy texts of up to [`SHORT`] bytes to their slots; what is written for a NULL means
/// nothing. They give the shortest one's length; `None` if a text has one of the `special` bytes, or one with
/// the bit `high`. Of texts of up to so many bytes blanks at the end do not count; with none, they do.
macro_rules! put_texts {
    ($($name:ident: $longest:literal),*) => { $(
        ondol_base::widest! {
            fn $name(
                window: Window<'_>,
                span: &Span<'_>,
                lengths: &[u16],
                slots: &mut Slots<'_>,
                special: [u8; 4],
                high: u8,
            ) -> Option<usize> {
                let [a, b, c, d] = special;
                let (mut found, mut shortest, mut n) = ([0; SLOT], SHORT, slots.n);
                for (at, length) in span.at.iter().zip(lengths) {
                    let slot = &mut slots.slots[n];
                    let kept = if *length == Span::NULL { 0 } else { *length as usize };
                    let text = span.field::<SLOT>(window, *at);
                    let keep = chunk::<SLOT>(&KEEP, SLOT - kept.min(SLOT));
                    let mut padded = [0; SLOT];
                    for i in 0..SLOT {
                        padded[i] = (text[i] & keep[i]) | (b' ' & !keep[i]);
                        let x = padded[i];
                        let is_special = (x == a) | (x == b) | (x == c) | (x == d);
                        found[i] |= if is_special { 0xff } else { x & high };
                    }
                    *slot = padded;
                    // Of the page's bytes: a slot's were written too shortly before.
                    let at = at.wrapping_add(span.distance);
                    let counts = match $longest {
                        0 => kept,
                        _ => text::length_trimmed::<$longest>(window, at, kept as u16) as usize,
                    };
                    shortest = shortest.min(if *length == Span::NULL { SHORT } else { counts });
                    text::end_slot(slot, counts, slots.behind);
                    n += slots.width;
                }
                (found == [0; SLOT]).then_some(shortest)
            }
        }
    )* };
}
put_texts!(put_varchars: 0, put_short_chars: 8, put_chars: 32);

/// From place [`SLOT`] - n on there are n bytes that keep what they are joined with.
static KEEP: [u8; 2 * SLOT] = {
    let mut bytes = [0; 2 * SLOT];
    let mut i = 0;
    while i < SLOT {
        bytes[i] = 0xff;
        i += 1;
    }
    bytes
};

/// Sources whose short values, of two slots at most, or a slot for each of some neighbours, a place of 16
/// bits can count.
const TOGETHER: usize = 120;
const _: () = assert!(TOGETHER * NEIGHBOURS * SLOT <= 1 << 16 && TOGETHER * 2 * SLOT <= 1 << 16);
/// Bytes that a place of 16 bits, and two slots from there on, can reach. So many are behind where a line is
/// put together, so that no place need be compared with an end.
const LINE: usize = (1 << 16) + 2 * SLOT;

ondol_base::widest! {
    /// Puts lines together from their values, from `end` on; gives where the last ends. There is room for
    /// them and [`LINE`] bytes more.
    fn put_together(sources: &[Source<'_>], rows: usize, bytes: &mut [u8], end: usize) -> usize {
        let mut end = end;
        for row in 0..rows {
            for sources in sources.chunks(TOGETHER) {
                let mut line = room(bytes, end);
                let mut at = 0u16;
                for source in sources {
                    match &source.values {
                        Values::Slots(slots, width, columns) => {
                            for slot in &slots[row * width..(row + 1) * width][columns.clone()] {
                                copy(slot, line, at);
                                at += slot[SLOT - 1] as u16;
                            }
                            continue;
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
    /// The values that were filled in, of column number `n`.
    fn values<'a>(&'a self, slots: &'a [Slot], width: usize, n: usize) -> Values<'a> {
        match self.kind {
            Kind::Slots => Values::Slots(slots, width, n..n + 1),
            Kind::Middle => Values::Middle(self.stored.all(), &self.bounds),
            Kind::Long => Values::Long(self.lines.bytes(), &self.ends),
        }
    }
    fn begin_lines(&mut self) {
        self.lines.clear();
        self.ends.clear();
        self.ends.push(0);
    }
    fn fill(
        &mut self,
        leaf: &Leaf<'_>,
        column: usize,
        rows: Range<usize>,
        slots: Slots<'_>,
        dialect: Dialect,
    ) -> Result<()> {
        let ty = &leaf.scan.columns()[column].ty;
        if self.fill_slots(leaf, column, rows.clone(), slots, ty, dialect) {
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
                    .map_err(|why| leaf.unfit(&why))?,
            }
            self.ends.push(self.lines.len());
        }
        Ok(())
    }

    /// False if one of them is no value, lies elsewhere, or is of a type that is not written to slots, or too
    /// long.
    fn fill_slots(
        &mut self,
        leaf: &Leaf<'_>,
        column: usize,
        rows: Range<usize>,
        mut slots: Slots<'_>,
        ty: &Type,
        dialect: Dialect,
    ) -> bool {
        let Some(span) = leaf.rows.span(column, rows) else { return false };
        if let Type::Char { charset, .. } | Type::Text { charset, .. } = ty {
            let trims = matches!(ty, Type::Char { .. });
            return charset.has_ascii()
                && !charset.hides_ascii()
                && self.write_texts(leaf.window, &span, slots, trims, dialect);
        }
        let width = match ty.length() {
            Length::Fixed(width) if span.has_width(width as usize) => width as usize,
            _ => return false,
        };
        // N bytes are read at once, of which the first `width` are the value's.
        macro_rules! slots {
            ($n:literal, $write:expr) => {
                write::<$n>(leaf.window, &span, &mut slots, dialect, $write)
            };
        }
        // Values of one width, and no NULL, are made of words all at once.
        let is_even = matches!(span.lengths, Lengths::Even(_));
        match *ty {
            Type::Int { unsigned, zerofill: None, .. } => {
                let put = |n: u64, slot: &mut Slot| match unsigned {
                    true => text::put_u64(slot, 0, n),
                    false => text::put_i64(slot, 0, n as i64),
                };
                let integers = value::Integers::new(width, unsigned);
                if !is_even {
                    return slots!(8, |b, slot| Some(put(integers.of(u64::from_be_bytes(b)), slot)));
                }
                self.read_words(leaf.window, &span);
                integers.of_all(&mut self.words);
                // A negative number is one of more than eight digits here.
                if !self.write_eights(&mut slots, put_numbers) {
                    slots.fill(self.words.iter(), |n, slot| put(*n, slot));
                }
                true
            }
            Type::Decimal { precision, scale, zerofill: None } => match Digits::known(precision, scale) {
                Some(digits) if scale == 2 && is_even => {
                    self.read_words(leaf.window, &span);
                    if !digits.scale_all(&mut self.words) {
                        return false;
                    }
                    if !self.write_eights(&mut slots, put_hundredths) {
                        slots.fill(self.words.iter(), |word, slot| text::put_cents(slot, *word as i64));
                    }
                    true
                }
                Some(digits) => {
                    slots!(8, |b, slot| Some(text::put_parts(slot, digits.parts(b)?, scale as usize)))
                }
                None => false,
            },
            Type::Date => {
                is_even && {
                    self.read_words(leaf.window, &span);
                    value::dates_all(&mut self.words);
                    self.write_eights(&mut slots, put_days)
                } || slots!(3, |b, slot| Some(text::put_date(slot, 0, value::date(&b)?)))
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
    /// Reads a big-endian word from where each value begins.
    fn read_words(&mut self, window: Window<'_>, span: &Span<'_>) {
        self.words.clear();
        self.words.extend(span.at.iter().map(|at| u64::from_be_bytes(*span.field(window, *at))));
    }
    /// Writes words that are numbers of up to eight digits to their slots. False if one has more.
    fn write_eights(&mut self, slots: &mut Slots<'_>, put: fn(&mut Slots<'_>, &[[u32; 2]])) -> bool {
        let are_eights = text::eights(&self.words, &mut self.digits);
        if are_eights {
            put(slots, &self.digits);
        }
        are_eights
    }
    /// Writes texts that stand in a line as they are stored. False if one is too long, or does not.
    fn write_texts(
        &mut self,
        window: Window<'_>,
        span: &Span<'_>,
        mut slots: Slots<'_>,
        trims: bool,
        dialect: Dialect,
    ) -> bool {
        let lengths = &mut self.lengths;
        lengths.clear();
        match span.lengths {
            Lengths::Even(length) => lengths.resize(span.at.len(), length),
            Lengths::Each(each) => lengths.extend_from_slice(each),
        }
        // A NULL's length is -1, below which is what does not lie whole on the page.
        let of = |(least, most): (i16, i16), n: &u16| (least.min(*n as i16), most.max(*n as i16));
        let (least, most) = lengths.iter().fold((0, -1), of);
        if least < -1 || most > SHORT as i16 {
            return false;
        }
        // Of texts that are told as UTF-8 only those of ASCII are known to be that.
        let high = if dialect.is_outfile() { 0 } else { 0x80 };
        let put = match (trims, most) {
            (true, ..=8) => put_short_chars,
            (true, _) => put_chars,
            (false, _) => put_varchars,
        };
        let shortest = put(window, span, lengths, &mut slots, self.lines.special(), high);
        if least < 0 {
            slots.put_nulls(lengths, dialect);
        }
        // An empty text is no NULL.
        shortest.is_some_and(|n| n > 0 || dialect.is_outfile())
    }

    /// Texts, as they are stored or as they have to stand in a line. `None` if they are to be looked at one
    /// by one.
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
        // OUTFILE has texts in their own character sets. With a space behind each, texts together are UTF-8
        // if each is.
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
        let mut special = match (self.lines.first_special(texts), longest) {
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
            special = self.lines.first_special(&texts[end..]).map_or(usize::MAX, |at| end + at);
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
            let mut columns: Vec<(u64, Vec<u8>, Vec<i32>)> = Vec::new();
            let mut expected = vec![String::new(); rows];
            let width = count | 1;
            let mut slots = vec![[b'!'; SLOT]; width * rows];
            let behind = |n: usize| if n + 1 < count { b',' } else { b'\n' };
            for n in 0..count {
                let kind = random.below(5);
                let longest = [26, SHORT as u64, 2 * SLOT as u64 - 1, 300, 300][kind as usize];
                let (mut values, mut bounds) = (Vec::new(), vec![0]);
                for (row, line) in expected.iter_mut().enumerate() {
                    let length = random.below(longest + 1) as usize;
                    let value: String =
                        (0..length).map(|_| (b'a' + random.below(26) as u8) as char).collect();
                    *line += &value;
                    line.push(behind(n) as char);
                    let slot = &mut slots[row * width + n];
                    let counts = length.min(SHORT);
                    slot[..counts].copy_from_slice(&value.as_bytes()[..counts]);
                    text::end_slot(slot, counts, behind(n));
                    values.extend_from_slice(value.as_bytes());
                    values.push(b' ');
                    bounds.push(values.len() as i32);
                }
                columns.push((kind, values, bounds));
            }
            let ends: Vec<Vec<usize>> =
                columns.iter().map(|c| c.2.iter().map(|end| *end as usize).collect()).collect();
            // Of all but some long ones there are two slots more in memory than there are values.
            columns.iter_mut().filter(|c| c.0 < 4).for_each(|c| c.1.extend([b'?'; 2 * SLOT]));
            let mut sources = Vec::new();
            for (n, ((kind, values, bounds), ends)) in columns.iter().zip(&ends).enumerate() {
                let values = match kind {
                    0 | 1 => Values::Slots(&slots, width, n..n + 1),
                    2 => Values::Middle(values, bounds),
                    _ => Values::Long(values, ends),
                };
                add_source(&mut sources, values, behind(n));
            }
            let expected = expected.concat();
            let mut bytes = vec![b'!'; 7 + expected.len() + LINE];
            let end = put_together(&sources, rows, &mut bytes, 7);
            assert_eq!(std::str::from_utf8(&bytes[7..end]).unwrap(), expected, "case {case}");
            assert_eq!(&bytes[..7], b"!!!!!!!");
        }
    }

    /// Texts of every length with every byte at its end: written, and told where they do not stand in a line.
    #[test]
    fn short_texts_are_written_or_told() {
        let mut random = Random::new(6);
        for dialect in [Dialect::Rfc4180, Dialect::Mysql] {
            let special = Lines::new(dialect, 0).special();
            let high = if dialect.is_outfile() { 0 } else { 0x80 };
            for length in 0..=SHORT {
                for last in 0..=255u8 {
                    // What stands before and behind the texts is special.
                    let mut page = vec![special[0]; Window::BYTES];
                    let mut text = vec![b'x'; length];
                    text.iter_mut().last().into_iter().for_each(|b| *b = last);
                    let own = random.below(3) as usize;
                    let at: Vec<u16> = (0..3).map(|row| 100 + 50 * row).collect();
                    for row in 0..3 {
                        let bytes = if row == own { &text[..] } else { b"ab " };
                        let at = at[row] as usize + 7;
                        page[at..at + bytes.len()].copy_from_slice(bytes);
                    }
                    let mut lengths = vec![3; 3];
                    lengths[own] = length as u16;
                    let window = Window::new(&page).unwrap();
                    let span = Span { at: &at, distance: 7, lengths: Lengths::Each(&lengths) };
                    let stands = length == 0 || !special.contains(&last) && last & high == 0;
                    for (longest, trims) in [(0, false), (SLOT, true), (8, true)] {
                        if longest == 8 && length > 8 {
                            continue;
                        }
                        let mut memory = vec![[b'!'; SLOT]; 6];
                        let mut slots = Slots { slots: &mut memory, width: 2, n: 1, behind: b';' };
                        let put = match longest {
                            0 => put_varchars,
                            8 => put_short_chars,
                            _ => put_chars,
                        };
                        let shortest = put(window, &span, &lengths, &mut slots, special, high);
                        let counts = length - (trims && length > 0 && last == b' ') as usize;
                        let others = if trims { 2 } else { 3 };
                        assert_eq!(shortest, stands.then_some(counts.min(others)), "{length} {last}");
                        let slot = memory[2 * own + 1];
                        assert_eq!((&slot[..counts], slot[counts]), (&text[..counts], b';'));
                        assert_eq!(slot[SLOT - 1] as usize, counts + 1);
                        let other = &memory[2 * ((own + 1) % 3) + 1];
                        assert_eq!(&other[..others + 1], if trims { &b"ab;"[..] } else { b"ab ;" });
                        assert!(memory.iter().step_by(2).all(|slot| *slot == [b'!'; SLOT]));
                    }
                }
            }
        }
    }
}
