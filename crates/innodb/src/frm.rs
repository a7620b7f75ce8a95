//! The definition that MariaDB, and MySQL before 8, keep in `TABLE.frm` beside the tablespace.
//!
//! ```text
//!   0   fe 01, version, engine 12 (InnoDB)      4   length of the extra segment      6   offset of the keys
//!   38  default collation, low byte             41  its high byte                    51  server version, u32
//!   64  extra segment: (kind, length, data) …   then the offset of the form, u32
//!   form: 258 columns  268 bytes of names  270 sets of elements  274 bytes of elements  284 bytes of comments  286 bytes of expressions
//!   288 17 bytes a column, names, elements, comments, expressions
//! ```
//! Integers are little-endian. Sources: files that MariaDB 10.11 wrote for tables of every type; the MySQL
//! internals manual, ".frm files".
use crate::charset::Charset;
use crate::definition::{contents, table_name};
use crate::error::{Error, Kind, Result};
use crate::table::{Column, DOCUMENT, Period, RowFormat, TableSchema, Type, Unique};
use std::path::Path;

struct Bytes<'a>(&'a [u8]);
impl<'a> Bytes<'a> {
    fn slice(&self, at: usize, length: usize) -> std::result::Result<&'a [u8], String> {
        at.checked_add(length)
            .and_then(|end| self.0.get(at..end))
            .ok_or_else(|| format!("it ends at {}, {length} bytes at {at} were expected", self.0.len()))
    }
    fn u8(&self, at: usize) -> std::result::Result<u8, String> {
        Ok(self.slice(at, 1)?[0])
    }
    fn u16(&self, at: usize) -> std::result::Result<usize, String> {
        let b = self.slice(at, 2)?;
        Ok(u16::from_le_bytes([b[0], b[1]]) as usize)
    }
    fn u32(&self, at: usize) -> std::result::Result<usize, String> {
        let b = self.slice(at, 4)?;
        Ok(u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize)
    }
}

/// Reads a `.frm` file.
pub fn read(path: &Path) -> Result<TableSchema> {
    let bytes = contents(path)?;
    parse(&bytes, table_name(path)).map_err(|(kind, why)| Error::new(path, kind, why))
}

type Refused = (Kind, String);
fn damaged(why: String) -> Refused {
    (Kind::Damaged, why)
}

/// Kinds of the extra segment.
/// Of a system-versioned table: which columns say since when and until when a row was current.
const SYSTEM_TIME: u8 = 4;
const FIELD_FLAGS: u8 = 129;
const FIELD_TYPES: u8 = 130;
/// Bits of a column's flags.
const SIGNED: usize = 1;
const ZEROFILL: usize = 4;
const BIT_AS_CHAR: usize = 4096;
const MAYBE_NULL: usize = 32768;
/// Elements are hexadecimal, since one has a zero byte.
const HEX: usize = 4096;
/// The longest comment on a table that stands in the form itself.
const INLINE_COMMENT: usize = 180;
/// What [`FIELD_FLAGS`] say in their last two bits of a column that a UNIQUE … USING HASH has made.
const HASH: u8 = 3;
/// A key's algorithm of that kind.
const USING_HASH: u8 = 5;
/// A bit of a key's flags.
const FULLTEXT: usize = 128;
/// Digits of a DECIMAL.
const MOST_DIGITS: usize = 65;
/// What a column is checked for: compressed by the server.
const COMPRESSED_COLUMN: u8 = 24;
/// The version from which MariaDB numbers its servers.
const MARIADB: usize = 100_000;

/// The table out of a `.frm` file's bytes. `name`: the file's, without its ending.
pub fn parse(all: &[u8], name: String) -> std::result::Result<TableSchema, Refused> {
    let bytes = Bytes(all);
    let head = bytes.slice(0, 64).map_err(damaged)?;
    if head.starts_with(b"TYPE=VIEW") {
        return Err((Kind::Mismatch, "it defines a view".into()));
    }
    if head[0] != 0xfe || head[1] != 1 || !(9..=12).contains(&head[2]) {
        return Err((
            Kind::Mismatch,
            format!(
                "it does not begin as a table's definition does: {:02x} {:02x} {:02x}, expected fe 01 and 9 to 12",
                head[0], head[1], head[2]
            ),
        ));
    }
    // A partitioned table's own engine is number 20, and its partitions' is told elsewhere.
    let engine = if head[3] == 20 { head[61] } else { head[3] };
    if engine != 12 {
        return Err((
            Kind::Unsupported,
            format!("its table is of the engine numbered {engine}; InnoDB is 12"),
        ));
    }
    let version = bytes.u32(51).map_err(damaged)?;
    let extra = bytes.u16(4).map_err(damaged)?;
    let (mut visibility, mut named, mut system_time) = (Vec::new(), Vec::new(), None);
    let mut at = 64;
    while at + 2 <= 64 + extra && version >= MARIADB {
        let kind = bytes.u8(at).map_err(damaged)?;
        let (length, start) = match bytes.u8(at + 1).map_err(damaged)? {
            0 => (bytes.u16(at + 2).map_err(damaged)?, at + 4),
            n => (n as usize, at + 2),
        };
        let data = bytes.slice(start, length).map_err(damaged)?;
        match kind {
            FIELD_FLAGS => visibility = data.iter().map(|f| f & 3).collect(),
            SYSTEM_TIME => {
                let [start, end] = data.as_chunks::<2>().0 else {
                    return Err(damaged("it names no two columns of its system time".into()));
                };
                let [start, end] = [start, end].map(|place| u16::from_le_bytes(*place) as usize);
                system_time = Some(Period { start, end });
            }
            FIELD_TYPES => {
                let mut rest = data;
                while let [field, length, tail @ ..] = rest {
                    let (name, more) = tail
                        .split_at_checked(*length as usize)
                        .ok_or_else(|| damaged("its types' names end too early".into()))?;
                    named.push((*field as usize, String::from_utf8_lossy(name).into_owned()));
                    rest = more;
                }
            }
            _ => {}
        }
        at = start + length;
    }
    let form = bytes.u32(64 + extra).map_err(damaged)?;
    let here = |offset: usize| form.saturating_add(offset);
    let half = |offset: usize| bytes.u16(here(offset)).map_err(damaged);
    let (count, screens, names_length) = (half(258)?, half(260)?, half(268)?);
    let (sets, elements_length, comments_length, expressions_length) =
        (half(270)?, half(274)?, half(284)?, half(286)?);
    let fields = here(288 + screens);
    let names_at = fields.saturating_add(17 * count);
    let names = bytes.slice(names_at, names_length).map_err(damaged)?;
    let elements_at = names_at + names_length;
    let elements = element_sets(bytes.slice(elements_at, elements_length).map_err(damaged)?);
    if elements.len() < sets {
        return Err(damaged(format!("it has {} sets of elements, {sets} were expected", elements.len())));
    }
    let comments = bytes.slice(elements_at + elements_length, comments_length).map_err(damaged)?;
    let mut comment_at = 0;
    let comment_length = bytes.slice(here(46), 1).map_err(damaged)?[0] as usize;
    let comment = match comment_length {
        0..=INLINE_COMMENT => bytes.slice(here(47), comment_length).map_err(damaged)?,
        // One that is not found is of no table's rows.
        _ => long_comment(&bytes).unwrap_or_default(),
    };
    let comment = String::from_utf8_lossy(comment).into_owned();
    // Names are separated by 255 and follow one.
    let names: Vec<&[u8]> = names.split(|b| *b == 255).skip(1).collect();
    let virtuals = virtual_columns(
        bytes.slice(elements_at + elements_length + comments_length, expressions_length).map_err(damaged)?,
        version,
    );
    let mut columns = Vec::new();
    for i in 0..count {
        let record = bytes.slice(fields + 17 * i, 17).map_err(damaged)?;
        let name = names
            .get(i)
            .ok_or_else(|| damaged(format!("it has {} columns and no name for column {i}", count)))?;
        let name = String::from_utf8_lossy(name).into_owned();
        let flags = u16::from_le_bytes([record[8], record[9]]) as usize;
        let length = u16::from_le_bytes([record[3], record[4]]) as usize;
        let set = (record[12] as usize).checked_sub(1).and_then(|n| elements.get(n));
        let special = named.iter().find(|(f, _)| *f == i).map(|(_, n)| n.as_str());
        if record[10] == COMPRESSED_COLUMN {
            return Err((Kind::Unsupported, format!("column {name} is COMPRESSED, which is not read yet")));
        }
        if record[10] & 128 != 0 {
            return Err((
                Kind::Unsupported,
                format!("column {name} is generated in the way of MySQL 5.7, which is not read yet"),
            ));
        }
        let source = Source {
            name: &name,
            kind: record[13],
            flags,
            length,
            collation: record[14] as u32 | (record[11] as u32) << 8,
            set,
            special,
        };
        let (ty, sql) = source.column_type()?;
        ty.check().map_err(damaged)?;
        let comment_length = u16::from_le_bytes([record[15], record[16]]) as usize;
        let comment = comments.get(comment_at..comment_at + comment_length).unwrap_or_default();
        let comment = String::from_utf8_lossy(comment).into_owned();
        comment_at += comment_length;
        columns.push(Column {
            comment,
            name,
            ty,
            nullable: flags & MAYBE_NULL != 0,
            stored: !virtuals.contains(&i),
            invisible: visibility.get(i).is_some_and(|v| *v != 0),
            sql,
        });
    }
    let keys = keys(&bytes, &columns).map_err(damaged)?;
    // What a key's hashes are is computed, and known to the server alone.
    while visibility.get(columns.len().wrapping_sub(1)) == Some(&HASH) {
        columns.pop();
    }
    let has_document = keys.fulltext && columns.iter().all(|c| c.name != DOCUMENT);
    for at in system_time.iter().flat_map(|p| [p.start, p.end]) {
        let can = columns.get(at).is_some_and(|c| {
            c.stored
                && matches!(c.ty, Type::Timestamp { fsp: 6 } | Type::Int { bytes: 8, unsigned: true, .. })
        });
        if !can {
            return Err(damaged(format!("column {at} cannot be one of its system time")));
        }
    }
    let row_format = match head[40] {
        3 => RowFormat::Redundant,
        4 => RowFormat::Compact,
        // 2: compressed; 5, 0 and 1: dynamic, or the server's default. The tablespace's flags and pages tell
        // for certain.
        2 => RowFormat::Compressed,
        _ => RowFormat::Dynamic,
    };
    Ok(TableSchema {
        name,
        comment,
        columns,
        key: keys.clustered,
        unique: keys.unique,
        row_format,
        period: system_time,
        has_document,
        root: None,
        index: None,
    })
}

/// A long comment on a table, in the segment behind the keys and the row of defaults: the connection's words
/// and the engine's name (each behind a length of 16 bits), the partitions (32 bits, and a byte behind), one
/// byte, and then the comment.
fn long_comment<'a>(bytes: &Bytes<'a>) -> std::result::Result<&'a [u8], String> {
    let keys = match bytes.u16(14)? {
        0xffff => bytes.u32(47)?,
        length => length,
    };
    let mut at = bytes.u16(6)?.saturating_add(keys).saturating_add(bytes.u16(16)?);
    for _ in 0..2 {
        at = at.saturating_add(2 + bytes.u16(at)?);
    }
    at = at.saturating_add(bytes.u32(at)?).saturating_add(5 + 1);
    let length = bytes.u16(at)?;
    bytes.slice(at.saturating_add(2), length)
}

/// Sets of elements: 255, elements each followed by 255, then 0.
fn element_sets(mut bytes: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let mut sets = Vec::new();
    while let Some((&separator, rest)) = bytes.split_first() {
        let mut set = Vec::new();
        bytes = rest;
        while let Some(end) = bytes.iter().position(|b| *b == separator) {
            set.push(bytes[..end].to_vec());
            bytes = &bytes[end + 1..];
            if bytes.first() == Some(&0) {
                bytes = &bytes[1..];
                break;
            }
        }
        sets.push(set);
    }
    sets
}

fn unhex(digits: &[u8]) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_chunks::<2>();
    let digit = |d: u8| (d as char).to_digit(16);
    let bytes = pairs.iter().map(|[high, low]| Some((digit(*high)? << 4 | digit(*low)?) as u8));
    if rest.is_empty() { bytes.collect() } else { None }
}

/// The columns that are generated and not stored: entries of (kind, column, length of the expression, length
/// of the name), behind 16 bytes.
fn virtual_columns(bytes: &[u8], version: usize) -> Vec<usize> {
    let mut found = Vec::new();
    if version < MARIADB {
        return found;
    }
    let mut rest = bytes.get(16..).unwrap_or(&[]);
    while let [kind, c0, c1, e0, e1, name, ..] = *rest {
        if kind == 0 {
            found.push(u16::from_le_bytes([c0, c1]) as usize);
        }
        let length = 6 + u16::from_le_bytes([e0, e1]) as usize + name as usize;
        rest = rest.get(length..).unwrap_or(&[]);
    }
    found
}

#[derive(Default)]
struct Keys {
    /// The columns of the clustered index, which is PRIMARY, or else the first unique key of whole columns
    /// that cannot be NULL.
    clustered: Vec<(usize, u32)>,
    /// The other unique keys.
    unique: Vec<Unique>,
    /// There is a FULLTEXT key.
    fulltext: bool,
}

fn keys(bytes: &Bytes<'_>, columns: &[Column]) -> std::result::Result<Keys, String> {
    let at = bytes.u16(6)?;
    let first = bytes.u8(at)?;
    let count = if first & 0x80 != 0 {
        (bytes.u8(at + 1)? as usize) << 7 | (first & 0x7f) as usize
    } else {
        first as usize
    };
    let mut at = at + 6;
    let (mut keys, mut found) = (Keys::default(), Vec::new());
    for _ in 0..count {
        // HA_NOSAME is stored inverted: a key is unique where its bit is zero.
        let flags = bytes.u16(at)?;
        let unique = flags & 1 == 0;
        keys.fulltext |= flags & FULLTEXT != 0;
        let parts = bytes.u8(at + 4)? as usize;
        let is_hash = bytes.u8(at + 5)? == USING_HASH;
        at += 8;
        let mut key = Vec::new();
        for _ in 0..parts {
            let column = (bytes.u16(at)? & 0x3fff).checked_sub(1).ok_or("a key names column 0")?;
            let length = bytes.u16(at + 7)? as u32;
            let whole = match &columns.get(column).ok_or("a key names a column that is not there")?.ty {
                Type::Char { chars, charset } => chars * charset.max as u32,
                Type::Binary { bytes } => *bytes,
                Type::Text { varchar, .. } | Type::Bytes { varchar } => varchar.unwrap_or(u32::MAX),
                Type::Geometry => u32::MAX,
                _ => 0,
            };
            key.push((column, if whole == 0 || length >= whole { 0 } else { length }));
            at += 9;
        }
        found.push((unique, is_hash, key));
    }
    // Their names, each after 255, in the same order; PRIMARY is the first, if there is one.
    let names = bytes.0.get(at..).unwrap_or(&[]).split(|b| *b == 255 || *b == 0).skip(1);
    for ((_, is_hash, columns_of), name) in found.into_iter().zip(names).filter(|(key, _)| key.0) {
        let is_plain = |&(c, prefix): &(usize, u32)| {
            let Column { nullable, stored, .. } = columns[c];
            prefix == 0 && !nullable && stored
        };
        let plain = !is_hash && columns_of.iter().all(is_plain);
        if keys.clustered.is_empty() && (plain || name == b"PRIMARY") {
            keys.clustered = columns_of;
        } else {
            let name = String::from_utf8_lossy(name).into_owned();
            keys.unique.push(Unique { name, columns: columns_of });
        }
    }
    Ok(keys)
}

struct Source<'a> {
    name: &'a str,
    kind: u8,
    flags: usize,
    length: usize,
    collation: u32,
    set: Option<&'a Vec<Vec<u8>>>,
    special: Option<&'a str>,
}

impl Source<'_> {
    fn charset(&self) -> std::result::Result<Charset, Refused> {
        Charset::of_collation(self.collation).ok_or_else(|| {
            (
                Kind::Unsupported,
                format!("column {} has collation {}, which is not known", self.name, self.collation),
            )
        })
    }
    fn old_fractions(&self, sql: &str, fsp: u8) -> Refused {
        let why = format!(
            "column {} is a {sql}({fsp}) of MariaDB's older form (/* mariadb-5.3 */), which is not read; ALTER TABLE … FORCE, or MODIFY, makes it one of today's",
            self.name
        );
        (Kind::Unsupported, why)
    }
    fn column_type(&self) -> std::result::Result<(Type, String), Refused> {
        let unsigned = self.flags & SIGNED == 0;
        let zerofill = (self.flags & ZEROFILL != 0).then_some(self.length.min(255) as u8);
        let signs = if unsigned { " unsigned" } else { "" };
        let int = |bytes, sql: &str| (Type::Int { bytes, unsigned, zerofill }, format!("{sql}{signs}"));
        let decimals = (self.flags >> 8 & 0x1f) as u8;
        let fixed = (decimals < 31).then_some(decimals);
        // Of a DECIMAL with one bit more, which MariaDB has from 10.2 on.
        let scale = (self.flags >> 8 & 0x3f) as u8;
        let fsp = |base: usize| self.length.saturating_sub(base + 1).min(6) as u8;
        let with = |sql: &str, fsp: u8| if fsp == 0 { sql.to_string() } else { format!("{sql}({fsp})") };
        let (ty, sql) = match (self.special, self.kind) {
            (Some("uuid"), _) => (Type::Uuid, "uuid".into()),
            (Some("inet4"), _) => (Type::Inet4, "inet4".into()),
            (Some("inet6"), _) => (Type::Inet6, "inet6".into()),
            (Some(other), _) if other != "json" => {
                return Err((
                    Kind::Unsupported,
                    format!("column {} has type {other}, which is not known", self.name),
                ));
            }
            (_, 1) => int(1, "tinyint"),
            (_, 2) => int(2, "smallint"),
            (_, 3) => int(4, "int"),
            (_, 8) => int(8, "bigint"),
            (_, 9) => int(3, "mediumint"),
            (_, 4) => (Type::Float { decimals: fixed, zerofill }, "float".into()),
            (_, 5) => (Type::Double { decimals: fixed, zerofill }, "double".into()),
            (_, 246) => {
                // The length counts a sign and a point where there may be one; of expressions' values it may
                // be longer than a value can.
                let precision = self.length.saturating_sub((scale > 0) as usize + (!unsigned) as usize);
                let precision = precision.min(MOST_DIGITS);
                (
                    Type::Decimal { precision: precision as u8, scale, zerofill },
                    format!("decimal({precision},{scale}){signs}"),
                )
            }
            // With fractions these three are of forms that only MariaDB had (mysql56_temporal_format=OFF).
            (_, 7) if fsp(19) > 0 => return Err(self.old_fractions("timestamp", fsp(19))),
            (_, 11) if fsp(10) > 0 => return Err(self.old_fractions("time", fsp(10))),
            (_, 12) if fsp(19) > 0 => return Err(self.old_fractions("datetime", fsp(19))),
            (_, 7) => (Type::Timestamp { fsp: 0 }, "timestamp".into()),
            (_, 17) => (Type::Timestamp { fsp: fsp(19) }, with("timestamp", fsp(19))),
            (_, 10 | 14) => (Type::Date, "date".into()),
            (_, 11) => (Type::OldTime, "time".into()),
            (_, 19) => (Type::Time { fsp: fsp(10) }, with("time", fsp(10))),
            (_, 12) => (Type::OldDateTime, "datetime".into()),
            (_, 18) => (Type::DateTime { fsp: fsp(19) }, with("datetime", fsp(19))),
            (_, 13) => {
                let digits = if self.length == 2 { 2 } else { 4 };
                (Type::Year { digits }, if digits == 2 { "year(2)" } else { "year" }.into())
            }
            (_, 16) => {
                if self.flags & BIT_AS_CHAR == 0 && self.length > 64 {
                    return Err(damaged(format!("column {} has {} bits", self.name, self.length)));
                }
                (Type::Bit { bits: self.length.min(255) as u8 }, format!("bit({})", self.length))
            }
            (_, 15) => {
                let charset = self.charset()?;
                let varchar = Some(self.length as u32);
                let (ty, sql) = if charset.is_binary() {
                    (Type::Bytes { varchar }, "varbinary")
                } else {
                    (Type::Text { charset, varchar }, "varchar")
                };
                (ty, format!("{sql}({})", self.length / charset.max as usize))
            }
            (_, 249..=252) => {
                let charset = self.charset()?;
                let size = ["tiny", "medium", "long", ""][self.kind as usize - 249];
                let varchar = None;
                if charset.is_binary() {
                    (Type::Bytes { varchar }, format!("{size}blob"))
                } else {
                    (Type::Text { charset, varchar }, format!("{size}text"))
                }
            }
            (_, 254) => {
                let charset = self.charset()?;
                if charset.is_binary() {
                    (Type::Binary { bytes: self.length as u32 }, format!("binary({})", self.length))
                } else {
                    let chars = self.length as u32 / charset.max as u32;
                    (Type::Char { chars, charset }, format!("char({chars})"))
                }
            }
            (_, 247 | 248) => {
                let charset = self.charset()?;
                let mut raw =
                    self.set.ok_or_else(|| damaged(format!("column {} has no elements", self.name)))?.clone();
                // Where a character may have a zero byte, elements always are.
                if self.flags & HEX != 0 || charset.min > 1 {
                    raw = raw.iter().map(|e| unhex(e)).collect::<Option<_>>().ok_or_else(|| {
                        damaged(format!("an element of column {} is not hexadecimal", self.name))
                    })?;
                }
                let text = |bytes: &Vec<u8>| {
                    if charset.is_binary() {
                        String::from_utf8(bytes.clone()).ok()
                    } else {
                        charset.to_utf8(bytes).map(|t| t.into_owned())
                    }
                };
                let elements = raw.iter().map(text).collect::<Option<Vec<String>>>().ok_or_else(|| {
                    (
                        Kind::Unsupported,
                        format!("an element of column {} is no text of {}", self.name, charset.name),
                    )
                })?;
                if self.kind == 247 {
                    (Type::Enum { charset, elements, raw }, "enum".into())
                } else {
                    (Type::Set { charset, elements, raw }, "set".into())
                }
            }
            (_, 255) => (Type::Geometry, "geometry".into()),
            (_, n) => {
                return Err((
                    Kind::Unsupported,
                    format!("column {} has the type numbered {n}, which is not known", self.name),
                ));
            }
        };
        Ok((ty, sql))
    }
}
