//! Records of both styles: where each field of each record on a page lies.
//!
//! *The new style* (COMPACT, DYNAMIC, COMPRESSED). A record's *origin* is where its first field begins.
//! Before it, from the origin down: 5 bytes of header (info bits and owned count, heap number and status, the
//! next record's distance), [what an instant ALTER TABLE adds], a bit for each nullable field, and the length
//! of each variable field that is not NULL, in 1 or 2 bytes.
//!
//! ```text
//!   lengths, last field first | null bits | version or field count | info, heap number, status, next | fields
//!                                                                                                    ^ origin
//! ```
//!
//! *The old style* (REDUNDANT): 6 bytes of header (info bits and owned count, heap number, number of fields
//! and the width of their ends, the next record's place), [a version], and each field's end, counted from the
//! origin, in 1 or 2 bytes with a bit for NULL and one for what continues elsewhere.
//!
//! ```text
//!   ends, last field first | version | info, heap number, fields, width, next | fields
//!                                                                             ^ origin
//! ```
//!
//! - **R1** A page's records are exactly those that the chain from infimum to supremum leads over, as many as
//!   the header says. Each origin and each field lies between the page's records' beginning and the heap's
//!   top, and no two have the same number in the heap. Anything else is damage, and named.
//! - **R2** A record has a *shape*, the list of its fields: all of today's, or those of the day it was
//!   written. Fields that a shape lacks have the column's default.
//!
//! Sources: MySQL internals manual, "InnoDB record structure"; MariaDB's and MySQL's documentation of instant
//! ALTER TABLE; pages of both servers.
use crate::page::{Page, Window, chunk_at, u16_at};
use std::ops::Range;

/// Bytes of a field's stored form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    Fixed(u32),
    /// The record says. `big`: more than 255 bytes are possible (or it is of the BLOB family), so the length
    /// may take two bytes.
    Variable {
        big: bool,
    },
}

/// A field of the clustered index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The column of the table that it holds whole; hidden fields, key prefixes and dropped columns hold
    /// none.
    pub column: Option<usize>,
    pub nullable: bool,
    pub length: Length,
}

/// The fields that one kind of record has, in their order.
#[derive(Clone, Debug)]
pub struct Shape {
    pub fields: Vec<Field>,
    /// Bytes of null bits.
    null_bytes: usize,
    /// Columns of the table that no field holds, which have their defaults.
    absent: Vec<usize>,
    columns: usize,
    /// For pages on which all rows have this shape: where none has a NULL, and where some may.
    plans: [Option<Plan>; 2],
}

impl Shape {
    /// `columns`: how many the table has.
    pub fn new(fields: Vec<Field>, columns: usize) -> Shape {
        let nullable = fields.iter().filter(|f| f.nullable).count();
        let absent = (0..columns).filter(|c| !fields.iter().any(|f| f.column == Some(*c))).collect();
        let plans = [false, true].map(|nulls| Plan::new(&fields, columns, nulls));
        Shape { fields, null_bytes: nullable.div_ceil(8), absent, columns, plans }
    }
    /// Appends the places of a row whose shape is not known yet; gives where they begin.
    #[inline]
    fn begin(&self, places: &mut Vec<Place>) -> usize {
        let row = places.len();
        places.resize(row + self.columns, Place::NULL);
        for &column in &self.absent {
            places[row + column] = Place::DEFAULT;
        }
        row
    }
    /// What an inner record holds before its child's number: the key's fields, of which no column is asked
    /// for, with as many null bits as a row has that was written before any instant ALTER TABLE, though no
    /// field of a key is NULL.
    pub fn of_key(fields: &[Field], null_bytes: usize) -> Shape {
        let fields = fields.iter().map(|f| Field { column: None, nullable: false, ..*f }).collect();
        Shape { null_bytes, ..Shape::new(fields, 0) }
    }
    /// Bytes of null bits.
    pub fn null_bytes(&self) -> usize {
        self.null_bytes
    }
}

/// How the fields of one shape lie in the new style. A field is *loose* if its length is its own, or if it
/// may be NULL; between two loose fields everything is at the same distance from the first one's end, in each
/// record.
#[derive(Clone, Debug)]
struct Plan {
    loose: Vec<Loose>,
    /// Bytes behind the last one.
    tail: u16,
    /// By the table's columns.
    lies: Vec<Lie>,
    /// For each eight of the loose, if none can be NULL: the bits of their lengths' first bytes, the first
    /// field's highest, that say that another byte follows.
    long: Vec<u64>,
}
#[derive(Clone, Copy, Debug)]
struct Loose {
    /// Bytes between the loose field before it, or the origin, and this one.
    distance: u16,
    /// Its number among those that may be NULL.
    null: Option<usize>,
    length: Length,
}
/// Where a column lies in the rows of a page: list number `base` of [`PageRows::bases`] says from where
/// `distance` counts. List 0 is the origins.
#[derive(Clone, Copy, Debug)]
enum Lie {
    /// The same in all rows: NULL or the default.
    Nowhere(Place),
    Even {
        base: usize,
        distance: u16,
        length: u16,
    },
    /// List number `lengths` of [`PageRows::lengths`] has a [`Place`]'s length for each row.
    Loose {
        base: usize,
        distance: u16,
        lengths: usize,
    },
}

impl Plan {
    /// `None` if a record of such fields would be longer than one can be.
    fn new(fields: &[Field], columns: usize, nulls: bool) -> Option<Plan> {
        let lies = vec![Lie::Nowhere(Place::NULL); columns];
        let mut plan = Plan { loose: Vec::new(), tail: 0, lies, long: Vec::new() };
        for column in 0..columns {
            if !fields.iter().any(|f| f.column == Some(column)) {
                plan.lies[column] = Lie::Nowhere(Place::DEFAULT);
            }
        }
        let mut nullable = 0..;
        for field in fields {
            let null = if field.nullable { nullable.next().filter(|_| nulls) } else { None };
            let (base, distance) = (plan.loose.len(), plan.tail);
            let lie = match (field.length, null) {
                (Length::Fixed(n), None) => {
                    let tail = n.checked_add(distance.into()).and_then(|n| u16::try_from(n).ok());
                    plan.tail = tail.filter(|n| *n <= Place::LONGEST)?;
                    Lie::Even { base, distance, length: n as u16 }
                }
                (Length::Fixed(n), Some(_)) if n > Place::LONGEST as u32 => return None,
                (length, null) => {
                    plan.loose.push(Loose { distance, null, length });
                    plan.tail = 0;
                    Lie::Loose { base, distance, lengths: base }
                }
            };
            if let Some(column) = field.column {
                plan.lies[column] = lie;
            }
        }
        if !nulls {
            let bit = |loose: &Loose| (loose.length == Length::Variable { big: true }) as u64 * 0x80;
            let word = |eight: &[Loose]| {
                (0..).zip(eight).fold(0, |word, (n, loose)| word | bit(loose) << (56 - 8 * n))
            };
            plan.long = plan.loose.chunks(8).map(word).collect();
        }
        Some(plan)
    }
}

/// Where one field of one record lies: 16 bits of place and 16 of length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    at: u16,
    length: u16,
}
impl Place {
    pub const NULL: Place = Place { at: 0, length: u16::MAX };
    /// The record is older than the column.
    pub const DEFAULT: Place = Place { at: 0, length: u16::MAX - 1 };
    const EXTERN: u16 = 0x8000;
    /// A length has 14 bits; no record is longer.
    const LONGEST: u16 = 0x3fff;

    /// The bytes in the record, and whether more of them are on other pages (then the last 20 lead there).
    /// `None`: NULL or default.
    #[inline]
    pub fn bytes(self, page: &[u8]) -> Option<(&[u8], bool)> {
        if self.length >= Self::DEFAULT.length {
            return None;
        }
        // Checked when the place was made; an empty answer is for a page that is not the one.
        let length = (self.length & !Self::EXTERN) as usize;
        Some((
            page.get(self.at as usize..self.at as usize + length).unwrap_or(&[]),
            self.length & Self::EXTERN != 0,
        ))
    }
    #[inline]
    pub fn is_default(self) -> bool {
        self == Self::DEFAULT
    }
}

/// How the records of a table are told apart.
#[derive(Clone, Debug)]
pub enum History {
    /// No instant ALTER TABLE ever: one shape.
    None,
    /// MariaDB: by the number of fields; `core` were there at first. A table's `shapes[n]` has n fields.
    Counted { core: usize, core_null_bytes: usize },
    /// MySQL 8.0.29 and later: by the version in the record. `shapes[v]` is version v's.
    Versioned,
    /// MySQL 8.0.12 to 28: by the number of fields, `core` where the record does not say.
    Appended { core: usize },
}

/// What a page's style decides.
#[derive(Clone, Copy)]
struct Style {
    /// The origins of the two records that every page has.
    infimum: usize,
    supremum: usize,
    /// Bytes before an origin that every record has.
    header: usize,
    /// Below this there are no records.
    bottom: usize,
}
const NEW: Style = Style { infimum: 99, supremum: 112, header: 5, bottom: 120 };
const OLD: Style = Style { infimum: 101, supremum: 116, header: 6, bottom: 125 };

const DELETED: u8 = 0x20;
const VERSIONED: u8 = 0x40;
const COUNTED: u8 = 0x80;
const MIN_RECORD: u8 = 0x10;
const ORDINARY: u16 = 0;
const NODE_POINTER: u16 = 1;
const INSTANT: u16 = 4;

/// All live rows of one page, and where each column lies in each. Reused from page to page.
#[derive(Default)]
pub struct PageRows {
    /// Each row's.
    origins: Vec<u16>,
    /// Lists of a place for each row, from 1 on, and of a length for each row, from 0 on: what each [`Lie`]
    /// is about.
    bases: Vec<u16>,
    lengths: Vec<u16>,
    lies: Vec<Lie>,
    /// The rows that are wanted.
    wanted: Range<usize>,
    /// Where the next field's length is, while lengths are read.
    heads: Vec<u16>,
    /// Eight bytes of lengths of each row.
    words: Vec<u64>,
    places: Vec<Place>,
}

/// A column of some rows: the value of row n begins `at[n] + distance` bytes from the page's beginning.
pub struct Span<'a> {
    pub at: &'a [u16],
    pub distance: u16,
    pub lengths: Lengths<'a>,
}
pub enum Lengths<'a> {
    /// Of all values; none is NULL.
    Even(u16),
    /// Of each, as a [`Place`] has it: [`Span::NULL`], or longer than [`Span::LONGEST`] if it is not a value
    /// that lies whole on the page.
    Each(&'a [u16]),
}
impl Span<'_> {
    pub const NULL: u16 = Place::NULL.length;
    pub const LONGEST: u16 = Place::LONGEST;

    /// Whether each value has so many bytes, or is NULL.
    #[inline]
    pub fn has_width(&self, width: usize) -> bool {
        match self.lengths {
            Lengths::Even(length) => length as usize == width,
            Lengths::Each(lengths) => lengths.iter().all(|n| *n == Self::NULL || *n as usize == width),
        }
    }
    /// N bytes from where a value begins.
    #[inline(always)]
    pub fn field<'a, const N: usize>(&self, window: Window<'a>, at: u16) -> &'a [u8; N] {
        window.chunk(at.wrapping_add(self.distance))
    }
}

impl PageRows {
    pub fn len(&self) -> usize {
        self.wanted.len()
    }
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }
    /// Leaves only the rows of which `wanted` is true. Rows are in key order and a range is wanted: where the
    /// first and the last are, all are.
    pub fn keep(&mut self, wanted: impl Fn(&PageRows, usize) -> bool) {
        let count = self.len();
        if count == 0 || wanted(self, 0) && wanted(self, count - 1) {
            return;
        }
        let from = (0..count).find(|row| wanted(self, *row)).unwrap_or(count);
        let to = (from..count).find(|row| !wanted(self, *row)).unwrap_or(count);
        self.wanted = self.wanted.start + from..self.wanted.start + to;
    }
    /// Leaves only the rows of which `wanted` is true, wherever they are; before [`PageRows::keep`]. How many
    /// are left out.
    pub fn retain(&mut self, wanted: impl Fn(&PageRows, usize) -> bool) -> usize {
        let count = self.origins.len();
        let kept: Vec<bool> = (0..count).map(|row| wanted(self, row)).collect();
        let left_out = kept.iter().filter(|kept| !**kept).count();
        if left_out > 0 {
            // Each list has an entry for each row.
            for list in [&mut self.origins, &mut self.bases, &mut self.lengths] {
                let mut row = 0;
                list.retain(|_| {
                    row += 1;
                    kept[(row - 1) % count]
                });
            }
            self.wanted = 0..count - left_out;
        }
        left_out
    }
    /// The list of places that a lie counts from.
    #[inline]
    fn base(&self, base: usize) -> &[u16] {
        let count = self.origins.len();
        match base.checked_sub(1) {
            None => &self.origins,
            Some(n) => &self.bases[n * count..][..count],
        }
    }
    /// Where a column's value is in one row.
    #[inline]
    pub fn place(&self, row: usize, column: usize) -> Place {
        let row = self.wanted.start + row;
        match self.lies[column] {
            Lie::Nowhere(place) => place,
            Lie::Even { base, distance, length } => {
                Place { at: self.base(base)[row].wrapping_add(distance), length }
            }
            Lie::Loose { base, distance, lengths } => Place {
                at: self.base(base)[row].wrapping_add(distance),
                length: self.lengths[lengths * self.origins.len() + row],
            },
        }
    }
    /// Where a column's values are in some rows. `None`: in none of them; each is NULL, or the default.
    #[inline]
    pub fn span(&self, column: usize, rows: Range<usize>) -> Option<Span<'_>> {
        let rows = self.wanted.start + rows.start..self.wanted.start + rows.end;
        match self.lies[column] {
            Lie::Nowhere(_) => None,
            Lie::Even { base, distance, length } => {
                Some(Span { at: &self.base(base)[rows], distance, lengths: Lengths::Even(length) })
            }
            Lie::Loose { base, distance, lengths } => {
                let lengths = &self.lengths[lengths * self.origins.len()..][rows.clone()];
                Some(Span { at: &self.base(base)[rows], distance, lengths: Lengths::Each(lengths) })
            }
        }
    }
    /// Whether a column has no value of which a part is on other pages.
    pub fn is_whole(&self, column: usize) -> bool {
        match self.span(column, 0..self.len()) {
            Some(Span { lengths: Lengths::Each(each), .. }) => {
                each.iter().all(|n| *n < Place::EXTERN || *n >= Place::DEFAULT.length)
            }
            _ => true,
        }
    }

    /// Finds the fields of rows that all have one shape, column by column. Whether all lie where R1 wants
    /// them; if not, nothing is found.
    fn locate(&mut self, page: &[u8], window: Window<'_>, plan: &Plan, kind: Kind, top: usize) -> bool {
        let count = self.origins.len();
        let nulls_above = NEW.header + kind.between;
        let first = nulls_above + kind.null_bytes;
        let (top, mut wrong) = (top as u32, false);
        self.bases.resize(plan.loose.len() * count, 0);
        self.lengths.resize(plan.loose.len() * count, 0);
        self.lies.clear();
        self.lies.extend_from_slice(&plan.lies);
        if self.locate_short(window, plan, first, top) {
            return true;
        }
        self.heads.clear();
        self.heads.extend(self.origins.iter().map(|origin| origin.wrapping_sub(first as u16)));
        wrong |= self.origins.iter().any(|origin| (*origin as usize) < first + NEW.bottom);
        for (n, loose) in plan.loose.iter().enumerate() {
            let (done, next) = self.bases.split_at_mut(n * count);
            let base = if n == 0 { &self.origins[..] } else { &done[(n - 1) * count..] };
            let lists = (base.iter().zip(&mut next[..count]))
                .zip(self.lengths[n * count..].iter_mut().zip(&mut self.heads));
            let distance = loose.distance as u32;
            // What a length is, by the byte before `head`, which moves on: the length to be noted, and the
            // bytes in the record.
            macro_rules! each {
                (|$head:ident| $length:expr) => {
                    for ((base, next), (length, $head)) in lists {
                        let (noted, bytes) = $length;
                        let end = *base as u32 + distance + bytes as u32;
                        wrong |= end > top || (*$head as usize) < NEW.bottom;
                        *next = end as u16;
                        *length = noted;
                    }
                };
            }
            let byte = |at: u16| page.get(at as usize).copied().unwrap_or(0);
            let variable = |head: &mut u16, big: bool| {
                *head = head.wrapping_sub(1);
                let first = byte(*head) as u16;
                if !big || first & 0x80 == 0 {
                    return (first, first);
                }
                *head = head.wrapping_sub(1);
                let bytes = (first & 0x3f) << 8 | byte(*head) as u16;
                (bytes | if first & 0x40 != 0 { Place::EXTERN } else { 0 }, bytes)
            };
            match (loose.null, loose.length) {
                (None, Length::Fixed(n)) => each!(|head| (n as u16, n as u16)),
                (None, Length::Variable { big: false }) => each!(|head| variable(head, false)),
                (None, Length::Variable { big: true }) => each!(|head| variable(head, true)),
                (Some(null), length) => {
                    let (below, bit) = (nulls_above + 1 + null / 8, null % 8);
                    let mut origins = self.origins.iter();
                    each!(|head| {
                        let origin = origins.next().map_or(0, |o| *o as usize);
                        match length {
                            _ if byte(origin.wrapping_sub(below) as u16) >> bit & 1 != 0 => {
                                (Place::NULL.length, 0)
                            }
                            Length::Fixed(n) => (n as u16, n as u16),
                            Length::Variable { big } => variable(head, big),
                        }
                    });
                }
            }
        }
        let last = self.base(plan.loose.len());
        wrong |= last.iter().any(|base| *base as u32 + plan.tail as u32 > top);
        !wrong
    }
    /// The same where no field can be NULL and all lengths have one byte, so that those of eight fields are a
    /// word. False if it is not so, or if not all lie where they should.
    fn locate_short(&mut self, window: Window<'_>, plan: &Plan, first: usize, top: u32) -> bool {
        let (count, fields) = (self.origins.len(), plan.loose.len());
        let least = self.origins.iter().fold(u16::MAX, |least, origin| least.min(*origin));
        if plan.long.len() * 8 < fields || (least as usize) < NEW.bottom + first + fields {
            return false;
        }
        let mut wrong = false;
        for (eight, (loose, long)) in plan.loose.chunks(8).zip(&plan.long).enumerate() {
            let below = (first + 8 * (eight + 1)) as u16;
            let word = move |origin: &u16| u64::from_le_bytes(*window.chunk(origin.wrapping_sub(below)));
            self.words.clear();
            self.words.extend(self.origins.iter().map(word));
            if self.words.iter().fold(0, |all, word| all | word) & long != 0 {
                return false;
            }
            for (i, loose) in loose.iter().enumerate() {
                let (n, shift, distance) = (8 * eight + i, 56 - 8 * i, loose.distance);
                let (done, next) = self.bases.split_at_mut(n * count);
                let base = if n == 0 { &self.origins[..] } else { &done[(n - 1) * count..] };
                let lengths = &mut self.lengths[n * count..][..count];
                wrong |= !add_lengths(base, distance, &self.words, shift, &mut next[..count], lengths);
            }
        }
        let most = self.base(fields).iter().fold(0, |most, base| most.max(*base));
        !wrong && most as u32 + plan.tail as u32 <= top
    }
}

/// How records lie in a table's clustered index.
#[derive(Clone, Debug)]
pub struct Layout {
    pub shapes: Vec<Shape>,
    pub history: History,
}

impl Layout {
    /// Finds the rows of a leaf, with its window. Delete-marked records are no rows, nor is the one that
    /// describes an instant ALTER TABLE of MariaDB. Returns how many were delete-marked.
    pub fn rows(&self, page: &[u8], window: Window<'_>, rows: &mut PageRows) -> Result<usize, String> {
        let view = Page(page);
        rows.wanted = 0..0;
        rows.origins.clear();
        rows.origins.resize(view.record_count() as usize, 0);
        let mut walk = Walk::new(view)?;
        let records = walk.records;
        if matches!(self.history, History::None) && records.is_compact() {
            let plain = Kind { shape: 0, between: 0, null_bytes: self.shapes[0].null_bytes };
            if let Some(count) = records.follow(window, &mut rows.origins) {
                let deleted = rows.origins.len() - count;
                rows.origins.truncate(count);
                if self.locate_all(page, window, rows, plain, records.top) {
                    rows.wanted = 0..count;
                    return Ok(deleted);
                }
            }
        }
        rows.origins.clear();
        let mut deleted = 0;
        let mut is_first = view.previous() == crate::page::NONE;
        let mut kind = None;
        let mut is_one_kind = records.is_compact();
        while let Some(origin) = walk.next()? {
            let info = records.info(origin);
            match self.is_row(origin, info, std::mem::take(&mut is_first))? {
                Some(true) => {}
                Some(false) => {
                    deleted += 1;
                    continue;
                }
                None => continue,
            }
            if records.is_compact() {
                let found = self.kind(page, origin, info)?;
                is_one_kind &= *kind.get_or_insert(found) == found;
            }
            rows.origins.push(origin as u16);
        }
        if !is_one_kind || !kind.is_some_and(|kind| self.locate_all(page, window, rows, kind, records.top)) {
            self.locate_each(records, rows)?;
        }
        rows.wanted = 0..rows.origins.len();
        Ok(deleted)
    }

    /// Finds the fields of rows that are all of one kind. If not all lie where they should,
    /// [`Layout::locate_each`] says which does not.
    fn locate_all(
        &self,
        page: &[u8],
        window: Window<'_>,
        rows: &mut PageRows,
        kind: Kind,
        top: usize,
    ) -> bool {
        let below = NEW.header + kind.between;
        let nulls = |origin: &u16| {
            let from = (*origin as usize).saturating_sub(below + kind.null_bytes);
            page.get(from..from + kind.null_bytes).is_none_or(|bits| bits.iter().any(|b| *b != 0))
        };
        let has_nulls = kind.null_bytes > 0 && rows.origins.iter().any(nulls);
        let plan = &self.shapes[kind.shape].plans[has_nulls as usize];
        plan.as_ref().is_some_and(|plan| rows.locate(page, window, plan, kind, top))
    }
    /// Finds the fields of rows of any kind, one by one.
    fn locate_each(&self, records: Records<'_>, rows: &mut PageRows) -> Result<(), String> {
        let (page, columns, count) = (records.page.0, self.columns(), rows.origins.len());
        rows.lies.clear();
        rows.lies.extend((0..columns).map(|n| Lie::Loose { base: n + 1, distance: 0, lengths: n }));
        rows.bases.resize(columns * count, 0);
        rows.lengths.resize(columns * count, 0);
        for (row, origin) in rows.origins.iter().enumerate() {
            let origin = *origin as usize;
            let info = records.info(origin);
            rows.places.clear();
            if records.is_compact() {
                let Kind { shape, between, null_bytes } = self.kind(page, origin, info)?;
                let below = origin - NEW.header - between;
                locate(page, origin, &self.shapes[shape], below, null_bytes, records.top, &mut rows.places)?;
            } else {
                let (shape, below) = self.old_shape(page, origin, info)?;
                locate_old(page, origin, shape, below, records.top, &mut rows.places)?;
            }
            for (column, place) in rows.places.iter().enumerate() {
                rows.bases[column * count + row] = place.at;
                rows.lengths[column * count + row] = place.length;
            }
        }
        Ok(())
    }

    /// Calls `each` with the transaction that changed a record last, and the undo tablespace or rollback
    /// segment that its row pointer names, for each record of a leaf, delete-marked ones too. `key`:
    /// [`Shape::of_key`].
    pub fn writers(
        &self,
        page: &[u8],
        key: &Shape,
        mut each: impl FnMut(u64, u8) -> Result<(), String>,
    ) -> Result<(), String> {
        let view = Page(page);
        let mut walk = Walk::new(view)?;
        let records = walk.records;
        let mut is_first = view.previous() == crate::page::NONE;
        let mut places = Vec::new();
        // Where all fields of the key have one length, the records need not say it.
        let even = key.fields.iter().try_fold(0, |sum, field| match field.length {
            Length::Fixed(n) => Some(sum + n as usize),
            Length::Variable { .. } => None,
        });
        while let Some(origin) = walk.next()? {
            let info = records.info(origin);
            if self.is_row(origin, info, std::mem::take(&mut is_first))?.is_none() {
                continue;
            }
            places.clear();
            let end = if let Some(bytes) = even {
                origin + bytes
            } else if records.is_compact() {
                let Kind { between, null_bytes, .. } = self.kind(page, origin, info)?;
                let below = origin - NEW.header - between;
                locate(page, origin, key, below, null_bytes, records.top, &mut places)?
            } else {
                let (_, below) = self.old_shape(page, origin, info)?;
                locate_old(page, origin, key, below, records.top, &mut places)?
            };
            // Six bytes of transaction; then a bit for an insert, and seven of what is asked.
            let Some(system) = chunk_at::<8>(page, end).filter(|_| end + 13 <= records.top) else {
                return Err(format!("the record at {origin} ends beyond the page's records"));
            };
            let word = u64::from_be_bytes(*system);
            each(word >> 16, (word >> 8) as u8 & 0x7f)?;
        }
        Ok(())
    }

    /// How many rows [`Layout::rows`] would find: the records' headers are looked at, their fields are not.
    pub fn count(&self, page: &[u8]) -> Result<usize, String> {
        let view = Page(page);
        let mut walk = Walk::new(view)?;
        let mut is_first = view.previous() == crate::page::NONE;
        let mut count = 0;
        while let Some(origin) = walk.next()? {
            count += usize::from(
                self.is_row(origin, walk.records.info(origin), std::mem::take(&mut is_first))? == Some(true),
            );
        }
        Ok(count)
    }
    /// Whether a record is a row, or marked as deleted. `None`: it describes an instant ALTER TABLE of
    /// MariaDB.
    #[inline]
    fn is_row(&self, origin: usize, info: u8, is_first: bool) -> Result<Option<bool>, String> {
        if info & MIN_RECORD == 0 {
            return Ok(Some(info & DELETED == 0));
        }
        if is_first && matches!(self.history, History::Counted { .. }) {
            return Ok(None);
        }
        Err(format!("the record at {origin} is marked as the smallest of a level above the leaves"))
    }

    /// Bytes of null bits in a row that was written before any instant ALTER TABLE.
    pub fn first_null_bytes(&self) -> usize {
        let shape = |n: usize| self.shapes.get(n).map_or(0, |s| s.null_bytes);
        match self.history {
            History::None | History::Versioned => shape(0),
            History::Counted { core_null_bytes, .. } => core_null_bytes,
            History::Appended { core } => shape(core),
        }
    }

    /// Columns that the table has.
    fn columns(&self) -> usize {
        self.shapes.first().map_or(0, |s| s.columns)
    }

    /// The places of one record that [`Layout::rows`] passes over, by a shape of its own: what describes an
    /// instant ALTER TABLE.
    pub fn alone(page: &[u8], origin: usize, shape: &Shape, null_bytes: usize) -> Result<Vec<Place>, String> {
        let walk = Walk::new(Page(page))?;
        let mut places = Vec::new();
        if walk.records.is_compact() {
            let (_, below) = count(page, origin - 5);
            locate(page, origin, shape, below, null_bytes, walk.records.top, &mut places)?;
        } else {
            locate_old(page, origin, shape, origin - 6, walk.records.top, &mut places)?;
        }
        Ok(places)
    }
    /// How many fields such a record has, where the table had `core` at first.
    pub fn fields_alone(page: &[u8], origin: usize, core: usize) -> usize {
        match Page(page).is_compact() {
            true => core + 1 + count(page, origin - 5).0,
            false => old_fields(page, origin),
        }
    }

    fn known(&self, origin: usize, n: usize, what: &str) -> Result<&Shape, String> {
        self.shapes.get(n).filter(|s| !s.fields.is_empty()).ok_or_else(|| {
            format!("the record at {origin} has {n} {what}, which the definition does not know")
        })
    }

    /// The shape of a record of the old style, and where its fields' ends begin, downwards.
    fn old_shape(&self, page: &[u8], origin: usize, info: u8) -> Result<(&Shape, usize), String> {
        let here = origin - 6;
        let fields = old_fields(page, origin);
        let (shape, below) = match self.history {
            History::None => (self.known(origin, 0, "as its version")?, here),
            History::Versioned if info & VERSIONED != 0 => {
                (self.known(origin, page[here - 1] as usize, "as its version")?, here - 1)
            }
            History::Versioned => (self.known(origin, 0, "as its version")?, here),
            History::Counted { .. } | History::Appended { .. } => {
                (self.known(origin, fields, "fields")?, here)
            }
        };
        let has_more = matches!(self.history, History::None)
            && fields == shape.fields.len() + 1
            && ends_in_document(page, origin, below);
        if shape.fields.len() != fields && !has_more {
            return Err(format!(
                "the record at {origin} has {fields} fields, the definition has {}",
                shape.fields.len()
            ));
        }
        Ok((shape, below))
    }

    /// What a record of the new style is, by its header.
    fn kind(&self, page: &[u8], origin: usize, info: u8) -> Result<Kind, String> {
        let status = u16_at(page, origin - 4).unwrap_or(0) & 7;
        if matches!(self.history, History::None) && status == ORDINARY && info & (VERSIONED | COUNTED) == 0 {
            return Ok(Kind { shape: 0, between: 0, null_bytes: self.shapes[0].null_bytes });
        }
        let here = origin - NEW.header;
        if status != ORDINARY && status != INSTANT {
            return Err(format!("the record at {origin} has status {status} on a leaf"));
        }
        let kind = |shape: usize, below: usize, what: &str| {
            let null_bytes = self.known(origin, shape, what)?.null_bytes;
            Ok(Kind { shape, between: here - below, null_bytes })
        };
        match self.history {
            History::None => Err(format!(
                "the record at {origin} was written after an instant ALTER TABLE that the definition does not know"
            )),
            History::Versioned => {
                let (version, below) =
                    if info & VERSIONED != 0 { (page[here - 1] as usize, here - 1) } else { (0, here) };
                kind(version, below, "as its version")
            }
            History::Appended { core } => {
                let (count, below) = if info & COUNTED != 0 { count(page, here) } else { (core, here) };
                kind(count, below, "fields")
            }
            History::Counted { core, core_null_bytes } => {
                if status == ORDINARY {
                    return Ok(Kind { null_bytes: core_null_bytes, ..kind(core, here, "fields")? });
                }
                let (more, below) = count(page, here);
                kind(core + 1 + more, below, "fields")
            }
        }
    }

    /// The page that a record of an inner page leads to, and whether its key's fields could be passed. `key`:
    /// [`Shape::of_key`].
    pub fn child(walk: &Walk<'_>, origin: usize, key: &Shape) -> Result<u32, String> {
        let page = walk.records.page.0;
        let end = if walk.records.is_compact() {
            let status = u16_at(page, origin - 4).unwrap_or(0) & 7;
            if status != NODE_POINTER {
                return Err(format!("the record at {origin} has status {status} on an inner page"));
            }
            locate(page, origin, key, origin - 5, key.null_bytes, walk.records.top, &mut Vec::new())?
        } else {
            let fields = old_fields(page, origin);
            if fields != key.fields.len() + 1 {
                return Err(format!(
                    "the record at {origin} of an inner page has {fields} fields, the key has {}",
                    key.fields.len()
                ));
            }
            locate_old(page, origin, key, origin - 6, walk.records.top, &mut Vec::new())?
        };
        crate::page::u32_at(page, end)
            .filter(|_| end + 4 <= walk.records.top)
            .ok_or_else(|| format!("the record at {origin} ends beyond the page's records"))
    }
}

/// What a record of the new style is: its shape, the bytes between its header and its null bits, and of
/// these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    shape: usize,
    between: usize,
    null_bytes: usize,
}

ondol_base::widest! {
    /// Where the next fields begin: so many bytes and a length behind the last ones; the lengths are a byte
    /// of each word. Whether all are at places of 16 bits.
    fn add_lengths(
        base: &[u16],
        distance: u16,
        words: &[u64],
        shift: usize,
        next: &mut [u16],
        lengths: &mut [u16],
    ) -> bool {
        let mut least = 0;
        for ((base, next), (length, word)) in base.iter().zip(next).zip(lengths.iter_mut().zip(words)) {
            *length = (word >> shift) as u8 as u16;
            // Less than 16,639 bytes are added.
            *next = base.wrapping_add(distance).wrapping_add(*length);
            least |= (*next < *base) as u16;
        }
        least == 0
    }
}

/// How many fields a record of the old style has.
fn old_fields(page: &[u8], origin: usize) -> usize {
    u16_at(page, origin - 4).unwrap_or(0) as usize >> 1 & 0x3ff
}

/// Whether a record of the old style ends with a FULLTEXT key's number: after the key was dropped it stays
/// there, and no definition has it. It has 8 bytes, of which the first is 0; a BIGINT UNSIGNED that the
/// definition lacks looks the same.
fn ends_in_document(page: &[u8], origin: usize, ends: usize) -> bool {
    let fields = old_fields(page, origin);
    let width = if page[origin - 3] & 1 != 0 { 1 } else { 2 };
    if fields < 2 || ends < OLD.bottom + width * fields {
        return false;
    }
    // With the bits that say NULL, or elsewhere.
    let end = |i: usize| match width {
        1 => (u16::from(page[ends - 1 - i] & 0x7f), page[ends - 1 - i] & 0x80 != 0),
        _ => {
            let b = u16_at(page, ends - 2 - 2 * i).unwrap_or(0);
            (b & 0x3fff, b & 0xc000 != 0)
        }
    };
    let ((from, _), (to, is_other)) = (end(fields - 2), end(fields - 1));
    !is_other && from.checked_add(8) == Some(to) && page.get(origin + from as usize) == Some(&0)
}

/// [`locate`] for a record of the old style, whose fields' ends are stored below `ends`. It has at least as
/// many fields as the shape.
fn locate_old(
    page: &[u8],
    origin: usize,
    shape: &Shape,
    ends: usize,
    top: usize,
    places: &mut Vec<Place>,
) -> Result<usize, String> {
    let row = shape.begin(places);
    let too_far = |what: &str| format!("the record at {origin} has {what} beyond the page's records");
    let width = if page[origin - 3] & 1 != 0 { 1 } else { 2 };
    if ends < OLD.bottom + width * old_fields(page, origin) {
        return Err(too_far("its fields' ends"));
    }
    let mut start = 0;
    for (i, field) in shape.fields.iter().enumerate() {
        let (end, null, elsewhere) = if width == 1 {
            let b = page[ends - 1 - i] as usize;
            (b & 0x7f, b & 0x80 != 0, 0)
        } else {
            let b = u16_at(page, ends - 2 - 2 * i).unwrap_or(0) as usize;
            (b & 0x3fff, b & 0x8000 != 0, if b & 0x4000 != 0 { Place::EXTERN } else { 0 })
        };
        if end < start || origin + end > top {
            return Err(too_far("a field"));
        }
        let (at, length) = (origin + start, end - start);
        start = end;
        if null && !field.nullable {
            return Err(format!("the record at {origin} has NULL as its field {i}, which cannot be"));
        }
        if !null && matches!(field.length, Length::Fixed(n) if n as usize != length) {
            return Err(format!(
                "the record at {origin} has {length} bytes as its field {i}, which does not fit {:?}",
                field.length
            ));
        }
        if let Some(column) = field.column.filter(|_| !null) {
            places[row + column] = Place { at: at as u16, length: length as u16 | elsewhere };
        }
    }
    Ok(origin + start)
}

/// A count of one byte, or of two where the first has its high bit set; and the place of its last byte.
fn count(page: &[u8], here: usize) -> (usize, usize) {
    let first = page[here - 1] as usize;
    if first & 0x80 == 0 {
        (first, here - 1)
    } else {
        ((first & 0x7f) | (page[here - 2] as usize) << 7, here - 2)
    }
}

/// Puts the places of one record's columns at the end of `places`. Returns where its last field ends.
#[inline]
fn locate(
    page: &[u8],
    origin: usize,
    shape: &Shape,
    nulls_above: usize,
    null_bytes: usize,
    top: usize,
    places: &mut Vec<Place>,
) -> Result<usize, String> {
    let row = shape.begin(places);
    let too_far = |what: &str| format!("the record at {origin} has {what} beyond the page's records");
    let mut lengths = nulls_above
        .checked_sub(null_bytes)
        .filter(|&n| n >= NEW.bottom)
        .ok_or_else(|| too_far("its null bits"))?;
    let mut at = origin;
    let (mut byte, mut mask) = (nulls_above - 1, 1u8);
    for field in &shape.fields {
        if field.nullable {
            let null = page[byte] & mask != 0;
            mask = mask.rotate_left(1);
            if mask == 1 {
                byte -= 1;
            }
            if null {
                continue;
            }
        }
        let (length, elsewhere) = match field.length {
            Length::Fixed(n) => (n as usize, 0),
            Length::Variable { big } => {
                lengths -= 1;
                let first = page[lengths] as usize;
                if big && first & 0x80 != 0 {
                    lengths -= 1;
                    (
                        (first & 0x3f) << 8 | page[lengths] as usize,
                        if first & 0x40 != 0 { Place::EXTERN } else { 0 },
                    )
                } else {
                    (first, 0)
                }
            }
        };
        if let Some(column) = field.column {
            places[row + column] = Place { at: at as u16, length: length as u16 | elsewhere };
        }
        if length > Place::LONGEST as usize {
            return Err(too_far("a field"));
        }
        at += length;
        if at > top || lengths < NEW.bottom {
            return Err(too_far("a field"));
        }
    }
    Ok(at)
}

/// A page's records, as its header tells of them.
#[derive(Clone, Copy)]
pub struct Records<'a> {
    page: Page<'a>,
    style: Style,
    /// Where the heap ends.
    pub top: usize,
    /// Numbers that records may have.
    heap: usize,
}
impl Records<'_> {
    /// Whether they are of the new style.
    #[inline]
    pub fn is_compact(self) -> bool {
        self.style.header == NEW.header
    }
    /// The info bits of a record that the walk led to.
    #[inline]
    pub fn info(self, origin: usize) -> u8 {
        self.page.0[origin - self.style.header]
    }
    /// Follows a chain of the new style to its end, and notes the origins of rows, of which there are no more
    /// than `origins` has place for; how many there are, if all others are marked as deleted. `None` if
    /// anything is odd, or was made by an instant ALTER TABLE: then [`Walk`] is to say what.
    fn follow(self, window: Window<'_>, origins: &mut [u16]) -> Option<usize> {
        let mut met = [0u64; HEAP / 64];
        let (low, places) = (NEW.bottom + NEW.header, (self.top + 1).checked_sub(NEW.bottom + NEW.header)?);
        // A header with three bytes before it, that of the origin `at`: info, heap number and status, and the
        // next one's distance.
        let header = |at: u16| u64::from_be_bytes(*window.chunk(at.wrapping_sub(8)));
        let (mut at, mut word) = (NEW.infimum as u16, header(NEW.infimum as u16));
        let (left, mut count) = (origins.len(), 0);
        for _ in 0..left {
            at = at.wrapping_add(word as u16);
            if (at as usize).wrapping_sub(low) >= places {
                return None;
            }
            word = header(at);
            let (number, info) = ((word >> 19) as usize & (HEAP - 1), (word >> 32) as u8);
            let (bits, bit) = (&mut met[number / 64], 1 << (number % 64));
            let is_odd = word >> 16 & 7 != ORDINARY as u64 || info & (MIN_RECORD | VERSIONED | COUNTED) != 0;
            if is_odd || number < 2 || number >= self.heap || *bits & bit != 0 {
                return None;
            }
            *bits |= bit;
            *origins.get_mut(count)? = at;
            count += (info & DELETED == 0) as usize;
        }
        (at.wrapping_add(word as u16) as usize == NEW.supremum).then_some(count)
    }
    /// Why the chain cannot go on from `at` to `next`, with so many left.
    #[cold]
    fn wrong(self, at: usize, next: usize, left: usize) -> String {
        let count = self.page.record_count();
        if next == self.style.supremum {
            return format!("its records end {left} short of the {count} that its header counts");
        }
        if next < self.style.bottom + self.style.header || next > self.top {
            return format!("the record at {at} leads to {next}, outside of the records");
        }
        if left == 0 {
            return format!("it has more records than the {count} that its header counts");
        }
        let number = u16_at(self.page.0, next + 1 - self.style.header).unwrap_or(0) as usize >> 3;
        format!(
            "the record at {next} has number {number} in a heap of {}, or shares it with another",
            self.heap
        )
    }
}

/// The walk over a page's records, in key order.
pub struct Walk<'a> {
    pub records: Records<'a>,
    at: usize,
    left: usize,
    /// A bit for each number in the heap that was met.
    met: [u64; HEAP / 64],
}
/// Numbers in the heap have 13 bits.
const HEAP: usize = 1 << 13;
impl<'a> Walk<'a> {
    /// Whether a page's records are a whole chain, whatever is in them.
    pub fn is_whole(page: Page<'a>) -> bool {
        let all = || {
            let mut walk = Walk::new(page)?;
            while walk.next()?.is_some() {}
            Ok::<_, String>(())
        };
        all().is_ok()
    }
    pub fn new(page: Page<'a>) -> Result<Walk<'a>, String> {
        let style = if page.is_compact() { NEW } else { OLD };
        let top = page.heap_top() as usize;
        // A heap of 64 KiB pages that is full has its end at 0 in 16 bits; there is always a trailer, so it
        // never is.
        if top < style.bottom || top > page.0.len() - 8 {
            return Err(format!("its heap ends at {top}, in a page of {} bytes", page.0.len()));
        }
        let records = Records { page, style, top, heap: page.heap_count().min(HEAP) };
        Ok(Walk { records, at: style.infimum, left: page.record_count() as usize, met: [0; HEAP / 64] })
    }
    /// The next record's origin; `None` at the end.
    #[expect(clippy::should_implement_trait, reason = "it can fail, and borrows nothing")]
    #[inline(always)]
    pub fn next(&mut self) -> Result<Option<usize>, String> {
        let Records { page, style, top, heap } = self.records;
        let (at, left) = (self.at, self.left);
        let link = u16_at(page.0, at - 2).unwrap_or(0);
        // A distance from here, or in the old style a place.
        let next = if self.records.is_compact() { (at as u16).wrapping_add(link) } else { link } as usize;
        if next == style.supremum {
            return if left == 0 { Ok(None) } else { Err(self.records.wrong(at, next, left)) };
        }
        if next < style.bottom + style.header || next > top || left == 0 {
            return Err(self.records.wrong(at, next, left));
        }
        let number = u16_at(page.0, next + 1 - style.header).unwrap_or(0) as usize >> 3;
        if number < 2 || number >= heap || self.met[number / 64] >> (number % 64) & 1 != 0 {
            return Err(self.records.wrong(at, next, left));
        }
        self.left -= 1;
        self.met[number / 64] |= 1 << (number % 64);
        self.at = next;
        Ok(Some(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondol_base::sim::Random;

    #[test]
    fn a_damaged_definition_with_fields_longer_than_any_record_has_no_plan() {
        let field = |column, length| Field { column: Some(column), nullable: false, length };
        for longest in [u32::MAX, u32::MAX - 7, 1 << 31, 65536] {
            for fields in [
                vec![field(0, Length::Fixed(8)), field(1, Length::Fixed(longest))],
                vec![field(0, Length::Fixed(longest)), field(1, Length::Fixed(8))],
            ] {
                let shape = Shape::new(fields, 2);
                assert!(shape.plans.iter().all(Option::is_none), "{longest}");
            }
        }
    }

    /// A page of the new style with records of these fields, all of one shape.
    fn page(fields: &[Field], random: &mut Random) -> Vec<u8> {
        let size = [4096, 16384, 65536][random.below(3) as usize];
        let mut page = vec![0; size];
        let nulls = fields.iter().filter(|f| f.nullable).count();
        // Mostly none is NULL, and mostly lengths have one byte.
        let (some_null, some_long) = (random.below(3) == 0, random.below(3) == 0);
        let mut at = NEW.bottom;
        let mut before = NEW.infimum;
        let mut count = 0u16;
        for _ in 0..random.below(200) {
            let (mut bits, mut lengths, mut bytes, mut nullable) =
                (vec![0u8; nulls.div_ceil(8)], vec![], 0, 0);
            for field in fields {
                nullable += field.nullable as usize;
                if field.nullable && some_null && random.below(4) == 0 {
                    bits[(nullable - 1) / 8] |= 1 << ((nullable - 1) % 8);
                    continue;
                }
                bytes += match field.length {
                    Length::Fixed(n) => n as u64,
                    Length::Variable { big } => {
                        let n = random.below(if some_long && big { 300 } else { 40 });
                        if big && n > 127 {
                            lengths.extend([0x80 | (n >> 8) as u8, n as u8]);
                        } else {
                            lengths.push(n as u8);
                        }
                        n
                    }
                };
            }
            let origin = at + lengths.len() + bits.len() + NEW.header;
            if origin + bytes as usize > size - 200 {
                break;
            }
            let head = lengths.iter().rev().chain(bits.iter().rev());
            head.zip(&mut page[at..]).for_each(|(from, to)| *to = *from);
            page[origin - 4..origin - 2].copy_from_slice(&((count + 2) << 3).to_be_bytes());
            page[before - 2..before].copy_from_slice(&((origin - before) as u16).to_be_bytes());
            (before, at, count) = (origin, origin + bytes as usize, count + 1);
        }
        page[before - 2..before]
            .copy_from_slice(&(NEW.supremum as u16).wrapping_sub(before as u16).to_be_bytes());
        page[40..42].copy_from_slice(&(at as u16).to_be_bytes());
        page[42..44].copy_from_slice(&(0x8000 | (count + 2)).to_be_bytes());
        page[54..56].copy_from_slice(&count.to_be_bytes());
        page
    }

    /// Fields found column by column are those that are found one by one, on whole pages and damaged ones.
    #[test]
    fn fields_lie_where_they_lie() {
        let mut random = Random::new(7);
        let (mut whole, mut refused) = (0, 0);
        for case in 0..4000 {
            let few = random.below(4) > 0;
            let field = |column, random: &mut Random| Field {
                column: Some(column),
                nullable: random.below(if few { 20 } else { 3 }) == 0,
                length: match random.below(4) {
                    0 => Length::Fixed(random.below(9) as u32),
                    1 => Length::Fixed(random.below(30) as u32),
                    n => Length::Variable { big: n == 2 },
                },
            };
            let fields: Vec<Field> =
                (0..1 + random.below(25) as usize).map(|n| field(n, &mut random)).collect();
            let layout =
                Layout { shapes: vec![Shape::new(fields.clone(), fields.len())], history: History::None };
            let mut page = page(&fields, &mut random);
            for _ in 0..if case % 2 == 0 { 0 } else { 1 + random.below(6) } {
                let end = page.len().min(2000) as u64;
                page[38 + random.below(end - 38) as usize] = random.next() as u8;
            }
            if !Page(&page).is_compact() {
                continue;
            }
            let (mut rows, mut each) = (PageRows::default(), PageRows::default());
            let long = [&page[..], &[0x5a; Window::BYTES]].concat();
            let found = layout.rows(&page, Window::new(&long).unwrap(), &mut rows);
            let Ok(mut walk) = Walk::new(Page(&page)) else { continue };
            while let Ok(Some(origin)) = walk.next() {
                if walk.records.info(origin) & (DELETED | MIN_RECORD) == 0 {
                    each.origins.push(origin as u16);
                }
            }
            if found.is_err() {
                refused += 1;
                continue;
            }
            layout.locate_each(walk.records, &mut each).unwrap_or_else(|e| panic!("case {case}: {e}"));
            each.wanted = 0..each.origins.len();
            assert_eq!(rows.len(), each.len(), "case {case}");
            for (row, column) in (0..rows.len()).flat_map(|r| (0..fields.len()).map(move |c| (r, c))) {
                let (at, expected) = (rows.place(row, column), each.place(row, column));
                let (found, expected) = (at.bytes(&page), expected.bytes(&page));
                assert_eq!(found, expected, "case {case}, row {row}, column {column}");
            }
            whole += 1;
        }
        assert!(whole > 2000 && refused > 100, "{whole} whole, {refused} refused");
    }
}
