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
    /// A slot for each row, and how many of its bytes count.
    slots: Vec<Slot>,
    lengths: Vec<u8>,
    /// All values, and where each ends.
    lines: Lines,
    ends: Vec<usize>,
    /// Texts as they are stored, and where each ends.
    stored: Room,
    stored_ends: Vec<i32>,
    /// Words that become values together.
    words: Vec<u64>,
}
/// Where a column's values are.
#[derive(Clone, Copy)]
enum Kind {
    Slots,
    Stored,
    Lines,
}

/// A column's values, to be put into lines, and the byte behind each.
struct Source<'a> {
    values: Values<'a>,
    behind: u8,
}
enum Values<'a> {
    Slots(&'a [Slot], &'a [u8]),
    /// Bytes of which a slot, or two, can be copied wherever a value begins, since none is longer.
    Short(&'a [u8], &'a [i32]),
    Middle(&'a [u8], &'a [i32]),
    Long(&'a [u8], &'a [i32]),
    Lines(&'a [u8], &'a [usize]),
}

impl Cells {
    pub fn new(columns: &[usize], dialect: Dialect, spare: Arc<Spare>) -> Cells {
        let cell = || Cell {
            kind: Kind::Lines,
            slots: Vec::new(),
            lengths: Vec::new(),
            lines: Lines::new(dialect, 0),
            ends: Vec::new(),
            stored: Room::default(),
            stored_ends: Vec::new(),
            words: Vec::new(),
        };
        let columns = columns.iter().map(|i| (*i, cell())).collect();
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
                Kind::Slots => cell.lengths.iter().map(|n| *n as usize).sum::<usize>(),
                Kind::Stored => cell.stored.len(),
                Kind::Lines => cell.lines.len(),
            };
        }
        // Slots and short texts are copied beyond their ends.
        let room = self.end + most + 2 * SLOT;
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
        let mut sources: Vec<Source<'_>> =
            self.columns.iter().map(|(_, cell)| Source { values: cell.values(), behind: b',' }).collect();
        if let Some(last) = sources.last_mut() {
            last.behind = b'\n';
        }
        self.end = put_together(&sources, rows.len(), &mut self.bytes, self.end);
        Ok(())
    }
}

/// Puts lines together from their values, from `end` on; gives where the last ends. There is room for them and two slots.
fn put_together(sources: &[Source<'_>], rows: usize, bytes: &mut [u8], end: usize) -> usize {
    widest!(
        fn put(sources: &[Source<'_>], rows: usize, bytes: &mut [u8], end: usize) -> usize {
            let mut end = end;
            for row in 0..rows {
                for source in sources {
                    end += match source.values {
                        Values::Slots(slots, lengths) => {
                            copy::<SLOT>(slots[row].as_slice(), 0, bytes, end);
                            lengths[row] as usize
                        }
                        Values::Short(values, ends) => {
                            let (from, length) = span(ends, row);
                            copy::<SLOT>(values, from, bytes, end);
                            length
                        }
                        Values::Middle(values, ends) => {
                            let (from, length) = span(ends, row);
                            copy::<{ 2 * SLOT }>(values, from, bytes, end);
                            length
                        }
                        Values::Long(values, ends) => {
                            let (from, length) = span(ends, row);
                            bytes[end..end + length].copy_from_slice(&values[from..from + length]);
                            length
                        }
                        Values::Lines(values, ends) => {
                            let from = if row == 0 { 0 } else { ends[row - 1] };
                            let length = ends[row] - from;
                            // There is no room behind the last of them.
                            if length <= 2 * SLOT && from + 2 * SLOT <= values.len() {
                                copy::<{ 2 * SLOT }>(values, from, bytes, end);
                            } else {
                                bytes[end..end + length].copy_from_slice(&values[from..from + length]);
                            }
                            length
                        }
                    };
                    bytes[end - 1] = source.behind;
                }
            }
            end
        }
    );
    put(sources, rows, bytes, end)
}
/// Where a value begins, and how long it is.
#[inline(always)]
fn span(ends: &[i32], row: usize) -> (usize, usize) {
    let from = if row == 0 { 0 } else { ends[row - 1] as usize };
    (from, ends[row] as usize - from)
}
#[inline(always)]
fn copy<const N: usize>(from: &[u8], at: usize, to: &mut [u8], end: usize) {
    match (chunk_at::<N>(from, at), chunk_at_mut::<N>(to, end)) {
        (Some(from), Some(to)) => *to = *from,
        _ => unreachable!("there is room for chunks"),
    }
}

impl Cell {
    /// The values that were filled in.
    fn values(&self) -> Values<'_> {
        match self.kind {
            Kind::Slots => Values::Slots(&self.slots, &self.lengths),
            Kind::Lines => Values::Lines(self.lines.bytes(), &self.ends),
            Kind::Stored => {
                let (values, ends) = (self.stored.all(), &self.stored_ends[..]);
                let first = ends.first().copied().unwrap_or(0);
                let longest = ends.windows(2).fold(first, |longest, w| longest.max(w[1] - w[0])) as usize;
                match longest {
                    0..=SLOT => Values::Short(values, ends),
                    n if n <= 2 * SLOT => Values::Middle(values, ends),
                    _ => Values::Long(values, ends),
                }
            }
        }
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
        self.kind = Kind::Lines;
        self.lines.clear();
        self.ends.clear();
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
        macro_rules! signed {
            ($n:literal) => {
                slots!($n, |b, slot| Some(text::put_i64(slot, 0, value::signed(&b)?)))
            };
        }
        macro_rules! unsigned {
            ($n:literal) => {
                slots!($n, |b, slot| Some(text::put_u64(slot, 0, value::unsigned(&b)?)))
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
            Type::Date => slots!(3, |b, slot| Some(text::put_date(slot, 0, value::date(&b)?))),
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
        self.slots.resize(span.at.len(), [0; SLOT]);
        self.lengths.resize(span.at.len(), 0);
        for ((word, slot), length) in self.words.iter().zip(&mut self.slots).zip(&mut self.lengths) {
            *length = text::put_cents(slot, *word as i64) as u8 + 1;
        }
        true
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
        let count = span.at.len();
        self.slots.resize(count, [0; SLOT]);
        self.lengths.resize(count, 0);
        let mut wrong = false;
        for ((at, slot), length) in span.at.iter().zip(&mut self.slots).zip(&mut self.lengths) {
            let written = write(*span.field(window, *at), slot);
            wrong |= written.is_none();
            *length = written.unwrap_or(0) as u8 + 1;
        }
        let Lengths::Each(lengths) = span.lengths else { return !wrong };
        if lengths.contains(&Span::NULL) {
            // Bytes where a NULL would be need be no value.
            wrong = false;
            for ((at, stored), (slot, length)) in
                span.at.iter().zip(lengths).zip(self.slots.iter_mut().zip(&mut self.lengths))
            {
                if *stored == Span::NULL {
                    let null = dialect.null();
                    slot[..null.len()].copy_from_slice(null);
                    *length = null.len() as u8 + 1;
                } else {
                    wrong |= write(*span.field(window, *at), slot).is_none();
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
        self.stored_ends.clear();
        if !leaf.gather(column, rows, (trims, true), &mut self.stored, &mut self.stored_ends) {
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
        let has_null = matches!(span.lengths, Lengths::Each(lengths) if lengths.contains(&Span::NULL));
        let ends = &self.stored_ends[..];
        let has_empty = || ends.windows(2).fold(ends[0] == 1, |found, w| found | (w[0] + 1 == w[1]));
        let quotes_empty = dialect == Dialect::Rfc4180 && !ends.is_empty() && has_empty();
        if !has_null && !quotes_empty && self.lines.stand_as_they_are(texts) {
            return Some(Kind::Stored);
        }
        self.lines.clear();
        self.ends.clear();
        let mut from = 0;
        for (row, end) in ends.iter().enumerate() {
            let end = *end as usize;
            match span.lengths {
                Lengths::Each(lengths) if lengths[row] == Span::NULL => self.lines.null(),
                _ => self.lines.text(&texts[from..end - 1]),
            }
            self.ends.push(self.lines.len());
            from = end;
        }
        Some(Kind::Lines)
    }
}
