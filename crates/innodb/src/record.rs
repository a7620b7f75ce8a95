//! Records of the new style (COMPACT, DYNAMIC, COMPRESSED): where each field of each record on a page lies.
//!
//! A record's *origin* is where its first field begins. Before it, from the origin down: 5 bytes of header (info bits and owned count, heap number and status, the
//! next record's distance), [what an instant ALTER TABLE adds], a bit for each nullable field, and the length of each variable field that is not NULL, in 1 or 2 bytes.
//!
//! ```text
//!   lengths, last field first | null bits | version or field count | info, heap number, status, next | fields
//!                                                                                                    ^ origin
//! ```
//!
//! - **R1** A page's records are exactly those that the chain from infimum to supremum leads over, as many as the header says. Each origin and each field lies
//!   between the page's records' beginning and the heap's top, and no two have the same number in the heap. Anything else is damage, and named.
//! - **R2** A record has a *shape*, the list of its fields: all of today's, or those of the day it was written. Fields that a shape lacks have the column's default.
//!
//! Sources: MySQL internals manual, "InnoDB record structure"; MariaDB's and MySQL's documentation of instant ALTER TABLE; pages of both servers.
use crate::page::{Page, u16_at};

/// Bytes of a field's stored form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    Fixed(u32),
    /// The record says. `big`: more than 255 bytes are possible (or it is of the BLOB family), so the length may take two bytes.
    Variable {
        big: bool,
    },
}

/// A field of the clustered index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The column of the table that it holds whole; hidden fields, key prefixes and dropped columns hold none.
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
}

impl Shape {
    /// `columns`: how many the table has.
    pub fn new(fields: Vec<Field>, columns: usize) -> Shape {
        let nullable = fields.iter().filter(|f| f.nullable).count();
        let absent = (0..columns).filter(|c| !fields.iter().any(|f| f.column == Some(*c))).collect();
        Shape { fields, null_bytes: nullable.div_ceil(8), absent, columns }
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

    /// The bytes in the record, and whether more of them are on other pages (then the last 20 lead there). `None`: NULL or default.
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
    pub fn is_null(self) -> bool {
        self == Self::NULL
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

const INFIMUM: usize = 99;
const SUPREMUM: usize = 112;
const DELETED: u8 = 0x20;
const VERSIONED: u8 = 0x40;
const COUNTED: u8 = 0x80;
const MIN_RECORD: u8 = 0x10;
const ORDINARY: u16 = 0;
const NODE_POINTER: u16 = 1;
const INSTANT: u16 = 4;

/// All live rows of one page: for each row, a [`Place`] for each of the table's columns. Reused from page to page.
#[derive(Default)]
pub struct Rows {
    places: Vec<Place>,
    columns: usize,
    count: usize,
}
impl Rows {
    pub fn len(&self) -> usize {
        self.count
    }
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
    #[inline]
    pub fn row(&self, row: usize) -> &[Place] {
        &self.places[row * self.columns..][..self.columns]
    }
}

/// How records lie in a table's clustered index.
#[derive(Clone, Debug)]
pub struct Layout {
    pub shapes: Vec<Shape>,
    pub history: History,
}

impl Layout {
    /// Finds the rows of a leaf. Delete-marked records are no rows. Returns how many records there were besides.
    pub fn rows(&self, page: &[u8], rows: &mut Rows) -> Result<usize, String> {
        let view = Page(page);
        let columns = self.shapes[0].columns;
        rows.places.clear();
        rows.columns = columns;
        rows.count = 0;
        let mut deleted = 0;
        let mut walk = Walk::new(view)?;
        while let Some(origin) = walk.next()? {
            let info = page[origin - 5];
            if info & DELETED != 0 {
                deleted += 1;
                continue;
            }
            let status = u16_at(page, origin - 4).unwrap_or(0) & 7;
            if status != ORDINARY && status != INSTANT {
                return Err(format!("the record at {origin} has status {status} on a leaf"));
            }
            if info & MIN_RECORD != 0 {
                return Err(format!(
                    "the record at {origin} is marked as the smallest of a level above the leaves"
                ));
            }
            let (shape, below, null_bytes) = self.shape(page, origin, info, status)?;
            locate(page, origin, shape, below, null_bytes, walk.top, &mut rows.places)?;
            rows.count += 1;
        }
        Ok(deleted)
    }

    /// A record's shape; where its null bits end (their first byte is just below); and how many bytes of them there are.
    fn shape(
        &self,
        page: &[u8],
        origin: usize,
        info: u8,
        status: u16,
    ) -> Result<(&Shape, usize, usize), String> {
        let here = origin - 5;
        let shape = |n: usize, what: &str| {
            self.shapes.get(n).filter(|s| !s.fields.is_empty()).ok_or_else(|| {
                format!("the record at {origin} has {n} {what}, which the definition does not know")
            })
        };
        match self.history {
            History::None if status == INSTANT || info & (VERSIONED | COUNTED) != 0 => Err(format!(
                "the record at {origin} was written after an instant ALTER TABLE that the definition does not know"
            )),
            History::None => Ok((&self.shapes[0], here, self.shapes[0].null_bytes)),
            History::Versioned => {
                let (version, below) =
                    if info & VERSIONED != 0 { (page[here - 1] as usize, here - 1) } else { (0, here) };
                let shape = shape(version, "as its version")?;
                Ok((shape, below, shape.null_bytes))
            }
            History::Appended { core } => {
                let (count, below) = if info & COUNTED != 0 { count(page, here) } else { (core, here) };
                let shape = shape(count, "fields")?;
                Ok((shape, below, shape.null_bytes))
            }
            History::Counted { core, core_null_bytes } => {
                if status == ORDINARY {
                    return Ok((shape(core, "fields")?, here, core_null_bytes));
                }
                let (more, below) = count(page, here);
                let shape = shape(core + 1 + more, "fields")?;
                Ok((shape, below, shape.null_bytes))
            }
        }
    }

    /// The page that a record of an inner page leads to, and whether its key's fields could be passed. `key`: the key's fields.
    pub fn child(page: &[u8], origin: usize, key: &[Field], top: usize) -> Result<u32, String> {
        let status = u16_at(page, origin - 4).unwrap_or(0) & 7;
        if status != NODE_POINTER {
            return Err(format!("the record at {origin} has status {status} on an inner page"));
        }
        let shape = Shape::new(key.iter().map(|f| Field { column: None, ..*f }).collect(), 0);
        let end = locate(page, origin, &shape, origin - 5, 0, top, &mut Vec::new())?;
        crate::page::u32_at(page, end).ok_or_else(|| format!("the record at {origin} ends beyond the page"))
    }
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
    let row = places.len();
    places.resize(row + shape.columns, Place::NULL);
    for &column in &shape.absent {
        places[row + column] = Place::DEFAULT;
    }
    let too_far = |what: &str| format!("the record at {origin} has {what} beyond the page's records");
    // Below this there are no records.
    const BOTTOM: usize = SUPREMUM + 8;
    let mut lengths = nulls_above
        .checked_sub(null_bytes)
        .filter(|&n| n >= BOTTOM)
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
        // A place's length has 14 bits; no record is longer.
        if length > 0x3fff {
            return Err(too_far("a field"));
        }
        at += length;
        if at > top || lengths < BOTTOM {
            return Err(too_far("a field"));
        }
    }
    Ok(at)
}

/// The walk over a page's records, in key order.
pub struct Walk<'a> {
    page: Page<'a>,
    at: usize,
    /// Where the heap ends.
    pub top: usize,
    left: usize,
    /// A bit for each number in the heap that was met.
    met: [u64; HEAP / 64],
}
/// Numbers in the heap have 13 bits.
const HEAP: usize = 1 << 13;
impl<'a> Walk<'a> {
    pub fn new(page: Page<'a>) -> Result<Walk<'a>, String> {
        if !page.is_compact() {
            return Err(
                "its records are of the old style (ROW_FORMAT=REDUNDANT), the definition's are not".into()
            );
        }
        let top = page.heap_top() as usize;
        // A heap of 64 KiB pages that is full has its end at 0 in 16 bits; there is always a trailer, so it never is.
        if top < SUPREMUM + 8 || top > page.0.len() - 8 {
            return Err(format!("its heap ends at {top}, in a page of {} bytes", page.0.len()));
        }
        Ok(Walk { page, at: INFIMUM, top, left: page.record_count() as usize, met: [0; HEAP / 64] })
    }
    /// The next record's origin; `None` at the end.
    #[expect(clippy::should_implement_trait, reason = "it can fail, and borrows nothing")]
    pub fn next(&mut self) -> Result<Option<usize>, String> {
        let distance = u16_at(self.page.0, self.at - 2).unwrap_or(0);
        let next = (self.at as u16).wrapping_add(distance) as usize;
        if next == SUPREMUM {
            if self.left != 0 {
                return Err(format!(
                    "its records end {} short of the {} that its header counts",
                    self.left,
                    self.page.record_count()
                ));
            }
            return Ok(None);
        }
        if next < SUPREMUM + 13 || next > self.top {
            return Err(format!("the record at {} leads to {next}, outside of the records", self.at));
        }
        if self.left == 0 {
            return Err(format!(
                "it has more records than the {} that its header counts",
                self.page.record_count()
            ));
        }
        self.left -= 1;
        let number = u16_at(self.page.0, next - 4).unwrap_or(0) as usize >> 3;
        if number < 2 || number >= self.page.heap_count() || self.met[number / 64] >> (number % 64) & 1 != 0 {
            return Err(format!(
                "the record at {next} has number {number} in a heap of {}, or shares it with another",
                self.page.heap_count()
            ));
        }
        self.met[number / 64] |= 1 << (number % 64);
        self.at = next;
        Ok(Some(next))
    }
}
