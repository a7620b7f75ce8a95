//! A table's definition: its columns as SQL has them, and its clustered index's fields as records have them.
//!
//! Definitions come from the file itself ([`crate::sdi`]), from the `.frm` beside it ([`crate::frm`]) or from
//! SQL text; all end here.
use crate::charset::Charset;
use crate::record::{Field, Length};

/// A column's type: what its bytes mean.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// Big-endian, with the sign bit flipped unless unsigned; 1, 2, 3, 4 or 8 bytes.
    Int {
        bytes: u8,
        unsigned: bool,
        zerofill: Option<u8>,
    },
    /// Little-endian IEEE 754. `decimals`, where FLOAT(m,d) was said, is how many are shown; `zerofill`, how
    /// wide it is at least, with zeros before it.
    Float {
        decimals: Option<u8>,
        zerofill: Option<u8>,
    },
    Double {
        decimals: Option<u8>,
        zerofill: Option<u8>,
    },
    Decimal {
        precision: u8,
        scale: u8,
        zerofill: Option<u8>,
    },
    Date,
    /// Microseconds have `fsp` digits, 0 to 6.
    Time {
        fsp: u8,
    },
    DateTime {
        fsp: u8,
    },
    /// Seconds since 1970 in UTC.
    Timestamp {
        fsp: u8,
    },
    /// The forms of servers before 5.6.4: HHMMSS as a number, and YYYYMMDDHHMMSS as one.
    OldTime,
    OldDateTime,
    /// Years since 1900, or 0; shown with 2 digits or 4.
    Year {
        digits: u8,
    },
    /// 1 to 64 bits, big-endian in as few bytes as hold them.
    Bit {
        bits: u8,
    },
    /// CHAR(n): `chars` characters; trailing spaces do not count.
    Char {
        chars: u32,
        charset: Charset,
    },
    /// VARCHAR of so many bytes at most, or the TEXT family.
    Text {
        charset: Charset,
        varchar: Option<u32>,
    },
    /// BINARY(n).
    Binary {
        bytes: u32,
    },
    /// VARBINARY of so many bytes at most, or the BLOB family.
    Bytes {
        varchar: Option<u32>,
    },
    /// The number of the element, from 1; 0 is the empty string of what was invalid.
    Enum {
        charset: Charset,
        elements: Vec<String>,
        raw: Vec<Vec<u8>>,
    },
    /// A bit for each element.
    Set {
        charset: Charset,
        elements: Vec<String>,
        raw: Vec<Vec<u8>>,
    },
    /// MySQL's binary JSON. (MariaDB's JSON is a text.)
    Json,
    /// An SRID of 4 bytes, little-endian, then WKB.
    Geometry,
    /// MariaDB: 16 bytes with the halves swapped so that time sorts.
    Uuid,
    Inet4,
    Inet6,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub name: String,
    pub ty: Type,
    pub nullable: bool,
    /// A virtual generated column is in no record.
    pub stored: bool,
    /// Declared INVISIBLE: `SELECT *` leaves it out.
    pub invisible: bool,
    /// How the type is written in SQL, for people.
    pub sql: String,
    /// COMMENT, or nothing.
    pub comment: String,
}

/// How records lie, which decides how columns of variable characters do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFormat {
    Redundant,
    Compact,
    Dynamic,
    Compressed,
}

/// The name of the column by which FULLTEXT keys know rows; where a table with one has no such column,
/// records have a hidden one.
pub(crate) const DOCUMENT: &str = "FTS_DOC_ID";

/// A unique key beside the clustered one: its columns, each with the bytes or characters that a prefix takes,
/// or 0 for all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unique {
    pub name: String,
    pub columns: Vec<(usize, u32)>,
}

/// System versioning (MariaDB): the columns, by their places, that say since when and until when a row was
/// current. What was deleted or changed stays in the table, with the end of its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    pub start: usize,
    pub end: usize,
}

impl Period {
    /// Whether the stored form of a row's end is the one of rows that are current: the last moment or
    /// transaction that there is.
    pub fn is_current(end: &[u8]) -> bool {
        // A timestamp of 32 bits, signed or (from MariaDB 11.5 on) not, and its microseconds; or a
        // transaction's number.
        let [seconds @ .., _, _, _] = end else { return false };
        match end.len() {
            7 => {
                (seconds == [0x7f, 0xff, 0xff, 0xff] || seconds == [0xff; 4])
                    && end[4..] == 999_999u32.to_be_bytes()[1..]
            }
            _ => end == [0xff; 8],
        }
    }
}

#[derive(Clone, Debug)]
pub struct TableSchema {
    pub name: String,
    /// COMMENT, or nothing.
    pub comment: String,
    /// In the order of `SELECT *`.
    pub columns: Vec<Column>,
    /// The primary key's columns (places in `columns`), each with the number of characters or bytes that a
    /// prefix takes, or 0 for all of it. Empty: rows have a hidden number.
    pub key: Vec<(usize, u32)>,
    pub unique: Vec<Unique>,
    pub row_format: RowFormat,
    pub period: Option<Period>,
    /// Records end with a hidden number of 8 bytes, by which FULLTEXT keys know them.
    pub has_document: bool,
    /// The clustered index's root, where the definition tells it.
    pub root: Option<u32>,
    /// The clustered index's number, where the definition tells it.
    pub index: Option<u64>,
}

impl Type {
    /// Bytes of the stored form: fixed, or variable and at most so many.
    pub fn length(&self) -> Length {
        use Length::{Fixed, Variable};
        match self {
            Type::Int { bytes, .. } => Fixed(*bytes as u32),
            Type::Float { .. } => Fixed(4),
            Type::Double { .. } => Fixed(8),
            Type::Decimal { precision, scale, .. } => Fixed(decimal_bytes(*precision, *scale) as u32),
            Type::Date => Fixed(3),
            Type::Time { fsp } => Fixed(3 + (*fsp as u32).div_ceil(2)),
            Type::DateTime { fsp } => Fixed(5 + (*fsp as u32).div_ceil(2)),
            Type::Timestamp { fsp } => Fixed(4 + (*fsp as u32).div_ceil(2)),
            Type::OldTime => Fixed(3),
            Type::OldDateTime => Fixed(8),
            Type::Year { .. } => Fixed(1),
            Type::Bit { bits } => Fixed((*bits as u32).div_ceil(8)),
            Type::Char { chars, charset } if charset.min == charset.max => Fixed(chars * charset.max as u32),
            Type::Char { chars, charset } => Variable { big: chars * charset.max as u32 > 255 },
            Type::Binary { bytes } => Fixed(*bytes),
            Type::Text { varchar, .. } | Type::Bytes { varchar } => {
                Variable { big: varchar.is_none_or(|n| n > 255) }
            }
            Type::Json | Type::Geometry => Variable { big: true },
            Type::Enum { elements, .. } => Fixed(if elements.len() < 256 { 1 } else { 2 }),
            Type::Set { elements, .. } => Fixed(set_bytes(elements.len())),
            Type::Uuid | Type::Inet6 => Fixed(16),
            Type::Inet4 => Fixed(4),
        }
    }
}

impl Type {
    /// Whether its values are days, of which some are in no calendar.
    pub fn is_date(&self) -> bool {
        matches!(self, Type::Date | Type::DateTime { .. } | Type::Timestamp { .. } | Type::OldDateTime)
    }
    /// Whether a server could have made a column of it; if not, what is wrong.
    pub fn check(&self) -> Result<(), String> {
        let wrong = match self {
            Type::Decimal { precision, scale, .. } => {
                !(1..=65).contains(precision) || scale > precision || *scale > 38
            }
            Type::Time { fsp } | Type::DateTime { fsp } | Type::Timestamp { fsp } => *fsp > 6,
            Type::Bit { bits } => !(1..=64).contains(bits),
            Type::Char { chars, .. } => *chars > 255,
            Type::Binary { bytes } => *bytes > 255,
            Type::Text { varchar: Some(n), .. } | Type::Bytes { varchar: Some(n) } => *n > 65535,
            Type::Enum { elements, .. } => elements.len() > 65535,
            Type::Set { elements, .. } => elements.len() > 64,
            Type::Float { decimals, .. } | Type::Double { decimals, .. } => decimals.is_some_and(|d| d > 30),
            _ => false,
        };
        match self {
            _ if !wrong => Ok(()),
            Type::Set { elements, .. } | Type::Enum { elements, .. } => {
                Err(format!("a column cannot be of {} elements; a SET has 64 at most", elements.len()))
            }
            other => Err(format!("a column cannot have the type {other:?}")),
        }
    }
}

/// Bytes of a SET of so many elements: 1, 2, 3, 4 or 8.
fn set_bytes(elements: usize) -> u32 {
    match elements.div_ceil(8) {
        n @ 0..=4 => n.max(1) as u32,
        _ => 8,
    }
}

/// Bytes that so many digits take, of up to 9 to a word of 4.
pub(crate) const DIGIT_BYTES: [u8; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];
pub(crate) fn decimal_bytes(precision: u8, scale: u8) -> usize {
    let part = |digits: u8| digits as usize / 9 * 4 + DIGIT_BYTES[digits as usize % 9] as usize;
    part(precision - scale) + part(scale)
}

/// The fields of a clustered index for a definition without history: key, the two hidden system fields (three
/// where there is no key), then the other stored columns in their order. A key column of which only a prefix
/// is in the key is stored again whole.
pub fn clustered(table: &TableSchema) -> Vec<Field> {
    let mut fields = Vec::new();
    for &(column, prefix) in &table.key {
        let ty = &table.columns[column].ty;
        let length = if prefix == 0 { ty.length() } else { prefix_length(ty, prefix) };
        fields.push(Field { column: (prefix == 0).then_some(column), nullable: false, length });
    }
    let hidden = |bytes| Field { column: None, nullable: false, length: Length::Fixed(bytes) };
    if table.key.is_empty() {
        fields.push(hidden(6));
    }
    fields.push(hidden(6));
    fields.push(hidden(7));
    for (i, column) in table.columns.iter().enumerate() {
        if column.stored && !table.key.contains(&(i, 0)) {
            fields.push(Field { column: Some(i), nullable: column.nullable, length: column.ty.length() });
        }
    }
    if table.has_document {
        fields.push(hidden(8));
    }
    fields
}

/// The length of a key's first `prefix` bytes of a column: fixed if the column is. What decides whether a
/// length takes two bytes is the column, not the prefix.
pub(crate) fn prefix_length(ty: &Type, prefix: u32) -> Length {
    match ty.length() {
        Length::Fixed(n) => Length::Fixed(n.min(prefix)),
        whole => whole,
    }
}
