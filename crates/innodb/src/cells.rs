//! A leaf's rows as lines of text, made column by column, then put together line by line.
//!
//! Values of few bytes are written to *slots* of one width, so that none waits for where the one before it ended, and are copied as whole slots. Texts that can stand in a line as they
//! are stored are copied from the page one after the other, and looked at together. Whatever else there is goes through [`text::push`].
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
    in_slots: bool,
    /// A slot for each row, and how many of its bytes count.
    slots: Vec<Slot>,
    lengths: Vec<u8>,
    /// All values, and where each ends.
    lines: Lines,
    ends: Vec<usize>,
    /// Texts as they are stored, and where each ends.
    stored: Room,
    stored_ends: Vec<i32>,
}

impl Cells {
    pub fn new(columns: &[usize], dialect: Dialect, spare: Arc<Spare>) -> Cells {
        let cell = || Cell {
            in_slots: false,
            slots: Vec::new(),
            lengths: Vec::new(),
            lines: Lines::new(dialect, 0),
            ends: Vec::new(),
            stored: Room::default(),
            stored_ends: Vec::new(),
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
            most += if cell.in_slots { rows.len() * SLOT } else { cell.lines.len() };
        }
        // Slots and short texts are copied beyond their ends.
        let room = self.end + most + 2 * SLOT;
        if self.bytes.len() < room {
            self.bytes.resize(room, 0);
        }
        let mut end = self.end;
        let Some(last) = self.columns.len().checked_sub(1) else {
            // Lines without values.
            self.bytes.resize(end, 0);
            self.bytes.resize(end + rows.len(), b'\n');
            self.end = self.bytes.len();
            return Ok(());
        };
        let bytes = &mut self.bytes[..];
        for row in 0..rows.len() {
            for (n, (_, cell)) in self.columns.iter().enumerate() {
                if cell.in_slots {
                    if let Some(to) = chunk_at_mut::<SLOT>(bytes, end) {
                        *to = cell.slots[row];
                    }
                    end += cell.lengths[row] as usize;
                } else {
                    let from = if row == 0 { 0 } else { cell.ends[row - 1] };
                    let (length, values) = (cell.ends[row] - from, cell.lines.bytes());
                    match (chunk_at::<SLOT>(values, from), chunk_at_mut::<SLOT>(bytes, end)) {
                        (Some(value), Some(to)) if length <= SLOT => *to = *value,
                        _ => match (
                            chunk_at::<{ 2 * SLOT }>(values, from),
                            chunk_at_mut::<{ 2 * SLOT }>(bytes, end),
                        ) {
                            (Some(value), Some(to)) if length <= 2 * SLOT => *to = *value,
                            _ => bytes[end..end + length].copy_from_slice(&values[from..from + length]),
                        },
                    }
                    end += length;
                }
                bytes[end - 1] = if n == last { b'\n' } else { b',' };
            }
        }
        self.end = end;
        Ok(())
    }
}

impl Cell {
    fn fill(&mut self, leaf: &Leaf<'_>, column: usize, rows: Range<usize>, dialect: Dialect) -> Result<()> {
        let ty = &leaf.scan.columns()[column].ty;
        self.in_slots = self.fill_slots(leaf, column, rows.clone(), ty, dialect);
        if self.in_slots || self.fill_texts(leaf, column, rows.clone(), ty, dialect) {
            return Ok(());
        }
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

    /// False if they are not all of ASCII.
    fn fill_texts(
        &mut self,
        leaf: &Leaf<'_>,
        column: usize,
        rows: Range<usize>,
        ty: &Type,
        dialect: Dialect,
    ) -> bool {
        let (charset, trims) = match ty {
            Type::Char { charset, .. } => (charset, true),
            Type::Text { charset, .. } => (charset, false),
            _ => return false,
        };
        let Some(span) = leaf.rows.span(column, rows.clone()) else { return false };
        if !charset.has_ascii() || charset.hides_ascii() {
            return false;
        }
        self.stored.set_len(0);
        self.stored_ends.clear();
        if !leaf.gather(column, rows, (trims, true), &mut self.stored, &mut self.stored_ends)
            || !self.stored.bytes().is_ascii()
        {
            return false;
        }
        self.lines.clear();
        self.ends.clear();
        self.ends.extend(self.stored_ends.iter().map(|end| *end as usize));
        let has_null = matches!(span.lengths, Lengths::Each(lengths) if lengths.contains(&Span::NULL));
        let has_empty = || self.ends.first() == Some(&1) || self.ends.windows(2).any(|w| w[0] + 1 == w[1]);
        let quotes_empty = dialect == Dialect::Rfc4180 && has_empty();
        if !has_null && !quotes_empty && self.lines.stand_as_they_are(self.stored.bytes()) {
            self.lines.push_all(self.stored.bytes());
            return true;
        }
        let mut from = 0;
        for (row, end) in self.ends.iter_mut().enumerate() {
            match span.lengths {
                Lengths::Each(lengths) if lengths[row] == Span::NULL => self.lines.null(),
                _ => self.lines.text(&self.stored.bytes()[from..*end - 1]),
            }
            from = std::mem::replace(end, self.lines.len());
        }
        true
    }
}
