//! The definition that MySQL 8 and later keep in the tablespace itself ("serialized dictionary information"):
//! JSON, deflated, in a small tree of its own.
//!
//! The tree's root is named on page 0, behind the extents' descriptors; its leaves hold records of (type 4
//! bytes, id 8, transaction 6, roll pointer 7, inflated length 4, deflated length 4, data). Type 1 is a
//! table, type 2 a tablespace. Sources: MySQL's documentation of `ibd2sdi`; files of MySQL 9.7.

use crate::charset::Charset;
use crate::definition::Definition;
use crate::error::{Error, Kind, Result};
use crate::lob;
use crate::page::{Page, kind, u32_at};
use crate::record::{Field, History, Layout, Length, Shape, Walk};
use crate::space::Space;
use crate::table::{Column, DOCUMENT, RowFormat, TableSchema, Type, Unique};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The table's definition as JSON text.
pub fn text(space: &Space) -> Result<String> {
    find_text(space)?
        .ok_or_else(|| Error::new(space.path(), Kind::Damaged, "it holds no definition of a table"))
}

/// The same, if there is one: of a partitioned table it is in one partition's file alone.
fn find_text(space: &Space) -> Result<Option<String>> {
    let size = space.format().page_size;
    let mut page = vec![0; size];
    space.read_page(0, &mut page)?;
    // Page 0: 38 of header, 112 of the tablespace's header, the descriptors of its extents, 115 bytes for
    // encryption, then version and root of the SDI.
    let at = 38 + 112 + space.format().descriptors() + 115;
    let (version, root) = (u32_at(&page, at).unwrap_or(0), u32_at(&page, at + 4).unwrap_or(0));
    let damaged = |page: u32, why: String| Error::on_page(space.path(), page, Kind::Damaged, why);
    if version != 1 || root == 0 || root >= space.pages() {
        return Err(damaged(
            0,
            format!(
                "its definition should be found by version 1 and a page, and {version} and {root} stand there"
            ),
        ));
    }
    // The first leaf of a tree of one key: (type, id).
    let mut number = root;
    for _ in 0..20 {
        space.read_page(number, &mut page)?;
        let view = Page(&page);
        if view.kind() != kind::SDI || !view.is_compact() {
            return Err(damaged(
                number,
                format!("a page of the definition was expected, it is of type {}", view.kind()),
            ));
        }
        if view.level() == 0 {
            break;
        }
        let mut walk = Walk::new(view).map_err(|why| damaged(number, why))?;
        let first = walk.next().map_err(|why| damaged(number, why))?;
        number = first
            .and_then(|o| u32_at(&page, o + 12))
            .ok_or_else(|| damaged(number, "an inner page without records".into()))?;
    }
    // As many leaves at most as the file has pages: a damaged link may lead back.
    for _ in 0..space.pages() {
        let view = Page(&page);
        if view.kind() != kind::SDI || !view.is_compact() {
            return Err(damaged(
                number,
                "its definition continues here, and it is a page of something else".into(),
            ));
        }
        let mut walk = Walk::new(view).map_err(|why| damaged(number, why))?;
        while let Some(origin) = walk.next().map_err(|why| damaged(number, why))? {
            if page[origin - 5] & 0x20 == 0 && u32_at(&page, origin) == Some(1) {
                return record(space, &page, origin).map(Some).map_err(|why| damaged(number, why));
            }
        }
        match view.next() {
            crate::page::NONE => break,
            next => number = next,
        }
        space.read_page(number, &mut page)?;
    }
    Ok(None)
}

fn record(space: &Space, page: &[u8], origin: usize) -> std::result::Result<String, String> {
    let word = |at: usize| u32_at(page, at).ok_or("the definition's record ends beyond the page");
    let (inflated, deflated) = (word(origin + 25)? as usize, word(origin + 29)? as usize);
    if inflated > 256 << 20 {
        return Err(format!("the definition would have {inflated} bytes"));
    }
    let low = page[origin - 6] as usize;
    let (length, elsewhere) = if low & 0x80 != 0 {
        ((low & 0x3f) << 8 | page[origin - 7] as usize, low & 0x40 != 0)
    } else {
        (low, false)
    };
    let data = page.get(origin + 33..origin + 33 + length).ok_or("the definition ends beyond the page")?;
    let whole;
    let data = if elsewhere {
        whole = crate::lob::whole(space, data, crate::lob::Family::Mysql).map_err(|e| e.to_string())?;
        &whole[..]
    } else {
        data
    };
    if data.len() != deflated {
        return Err(format!("the definition has {} bytes, {deflated} were expected", data.len()));
    }
    let mut text = String::new();
    flate2::read::ZlibDecoder::new(data)
        .take(inflated as u64 + 1)
        .read_to_string(&mut text)
        .map_err(|e| format!("the definition cannot be inflated: {e}"))?;
    if text.len() != inflated {
        return Err(format!("the definition inflates to {} bytes, {inflated} were expected", text.len()));
    }
    Ok(text)
}

/// Reads the definition: in the file, or for a partition in the file of one beside it.
pub fn read(space: &Space) -> Result<Definition> {
    let parse = |text: &str, path: &Path| {
        parse_of(text, Some(space.id())).map_err(|(kind, why)| Error::new(path, kind, why))
    };
    if let Some(text) = find_text(space)? {
        return parse(&text, space.path());
    }
    for path in partitions(space.path()) {
        let other = Space::open_with(&path, space.keys())?;
        if other.format().has_sdi
            && let Some(text) = find_text(&other)?
        {
            return parse(&text, &path);
        }
    }
    let why = "it holds no definition of a table; of a partitioned one it is in the first partition's file, which was expected beside it, or its CREATE TABLE (--schema, in SQL schema => '…')";
    Err(Error::new(space.path(), Kind::Mismatch, why))
}

/// Where in a file's name a partition's begins.
const PARTITION: &str = "#p#";

/// The files of the other partitions of a partition's table, by their names.
fn partitions(path: &Path) -> Vec<PathBuf> {
    let name = |path: &Path| {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        Some((name.find(PARTITION)?, name))
    };
    let Some((at, own)) = name(path) else { return Vec::new() };
    let folder = path.parent().filter(|f| !f.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_other = |other: &PathBuf| {
        name(other).is_some_and(|(n, name)| n == at && name != own && name[..n] == own[..n])
            && other.extension().is_some_and(|kind| kind == "ibd")
    };
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path());
    let mut files: Vec<PathBuf> = files.filter(is_other).collect();
    files.sort();
    files
}

/// What is wrong, before it is known of which file.
type Refused = (Kind, String);

#[derive(Clone, Copy)]
struct Object<'a>(&'a Value, &'a str);
impl<'a> Object<'a> {
    fn number(&self, name: &str) -> std::result::Result<u64, Refused> {
        self.0[name].as_u64().ok_or_else(|| self.wrong(name, "a number"))
    }
    fn flag(&self, name: &str) -> bool {
        self.0[name].as_bool().unwrap_or(false)
    }
    fn text(&self, name: &str) -> std::result::Result<&'a str, Refused> {
        self.0[name].as_str().ok_or_else(|| self.wrong(name, "a text"))
    }
    fn list(&self, name: &str) -> std::result::Result<&'a Vec<Value>, Refused> {
        self.0[name].as_array().ok_or_else(|| self.wrong(name, "a list"))
    }
    fn wrong(&self, name: &str, expected: &str) -> Refused {
        (Kind::Damaged, format!("the definition's {} should have {expected} named {name}", self.1))
    }
    /// A number out of "key=value;key=value".
    fn private(&self, key: &str) -> Option<u64> {
        self.private_text(key)?.parse().ok()
    }
    fn private_text(&self, key: &str) -> Option<&'a str> {
        self.0["se_private_data"]
            .as_str()?
            .split(';')
            .find_map(|pair| pair.split_once('=').filter(|(k, _)| *k == key).map(|(_, v)| v))
    }
}

/// Hidden by the storage engine: DB_TRX_ID, DB_ROLL_PTR, DB_ROW_ID, and dropped columns.
const HIDDEN_BY_ENGINE: u64 = 2;
const HIDDEN_BY_SQL: u64 = 3;
const HIDDEN_BY_USER: u64 = 4;

/// The definition out of its JSON text, of a table that is in one tablespace.
pub fn parse(text: &str) -> std::result::Result<Definition, Refused> {
    parse_of(text, None)
}

/// The private words about the clustered index of the partition that is in tablespace number `space`, among
/// partitions and theirs.
fn partition<'a>(of: &'a Value, space: u64) -> Option<Object<'a>> {
    of.as_array()?.iter().find_map(|one| {
        let clustered = Object(&one["indexes"][0], "partition's index");
        if clustered.private("space_id") == Some(space) {
            return Some(clustered);
        }
        partition(&one["subpartitions"], space)
    })
}

/// The tablespaces of a partitioned table, by their numbers; `None` if it is not partitioned.
pub fn partition_spaces(space: &Space) -> Result<Option<Vec<u32>>> {
    fn leaves(of: &Value, all: &mut Vec<u32>) {
        for one in of.as_array().into_iter().flatten() {
            match one["subpartitions"].as_array() {
                Some(below) if !below.is_empty() => leaves(&one["subpartitions"], all),
                _ => {
                    let clustered = Object(&one["indexes"][0], "partition's index");
                    all.extend(clustered.private("space_id").map(|n| n as u32))
                }
            }
        }
    }
    let mut found = find_text(space)?;
    if found.is_none() {
        for path in partitions(space.path()) {
            found = find_text(&Space::open_with(&path, space.keys())?)?;
            if found.is_some() {
                break;
            }
        }
    }
    let Some(text) = found else { return Ok(None) };
    let json: Value = serde_json::from_str(&text)
        .map_err(|e| Error::new(space.path(), Kind::Damaged, format!("the definition is not JSON: {e}")))?;
    let mut all = Vec::new();
    leaves(&json["dd_object"]["partitions"], &mut all);
    Ok((!all.is_empty()).then_some(all))
}

/// The definition of what is in tablespace number `space`, if it matters: of a partitioned table it tells one
/// partition.
fn parse_of(text: &str, space: Option<u32>) -> std::result::Result<Definition, Refused> {
    let json: Value = serde_json::from_str(text)
        .map_err(|e| (Kind::Damaged, format!("the definition is not JSON: {e}")))?;
    let object = Object(&json["dd_object"], "table");
    let mut columns = Vec::new();
    // All the dictionary's columns, by their place there: ours, the length of their field, and what instant
    // ALTER TABLEs say.
    struct Stored {
        column: Option<usize>,
        length: Length,
        nullable: bool,
        added: u64,
        dropped: u64,
        physical: Option<u64>,
    }
    let mut stored = Vec::new();
    let mut defaults = Vec::new();
    for value in object.list("columns")? {
        let column = Object(value, "column");
        let name = column.text("name")?;
        let hidden = column.number("hidden")?;
        let sql = column.0["column_type_utf8"].as_str().unwrap_or("");
        let ty = column_type(&column, name, sql)?;
        ty.check().map_err(|why| (Kind::Damaged, why))?;
        // The system's own fields have as many bytes as characters.
        let system = hidden == HIDDEN_BY_ENGINE && matches!(name, "DB_ROW_ID" | "DB_TRX_ID" | "DB_ROLL_PTR");
        let length = if system { Length::Fixed(column.number("char_length")? as u32) } else { ty.length() };
        let is_virtual = column.flag("is_virtual");
        let nullable = column.flag("is_nullable");
        let ours = !matches!(hidden, HIDDEN_BY_ENGINE | HIDDEN_BY_SQL);
        let place = (!is_virtual).then_some(()).filter(|()| ours).map(|()| columns.len());
        if ours {
            let default = match column.private_text("default") {
                Some(hex) => Some(unhex(hex).ok_or_else(|| {
                    (Kind::Damaged, format!("the default of column {name} is not hexadecimal: {hex}"))
                })?),
                None => None,
            };
            defaults.push(default);
            columns.push(Column {
                name: name.into(),
                ty,
                nullable,
                stored: !is_virtual,
                invisible: hidden == HIDDEN_BY_USER,
                sql: sql.into(),
                comment: column.0["comment"].as_str().unwrap_or_default().into(),
            });
        }
        stored.push(Stored {
            column: place,
            length,
            nullable,
            added: column.private("version_added").unwrap_or(0),
            dropped: column.private("version_dropped").unwrap_or(u64::MAX),
            physical: column.private("physical_pos"),
        });
    }
    let indexes = object.list("indexes")?;
    let index = Object(
        indexes.first().ok_or_else(|| {
            (Kind::Unsupported, "the definition has no index; is it of another engine?".to_string())
        })?,
        "index",
    );
    let mut key = Vec::new();
    let mut table_key = Vec::new();
    // Fields in the order that the dictionary's index has, which is the physical one while nobody dropped or
    // added columns at once.
    let mut fields = Vec::new();
    for value in index.list("elements")? {
        let element = Object(value, "index element");
        let at = element.number("column_opx")? as usize;
        let column = stored.get(at).ok_or_else(|| {
            (Kind::Damaged, format!("the definition's index names column {at} of {}", stored.len()))
        })?;
        let length = element.number("length")?;
        let whole = object.list("columns")?[at]["char_length"].as_u64().unwrap_or(0);
        let is_key = !element.flag("hidden");
        let prefix = match column.column {
            Some(c) if is_key => prefix_of(&columns[c].ty, length, whole),
            _ => None,
        };
        let mut field = Field { column: column.column, nullable: column.nullable, length: column.length };
        if let Some(prefix) = prefix {
            field.column = None;
            if let Length::Fixed(n) = field.length {
                field.length = Length::Fixed(n.min(prefix));
            }
        }
        if is_key {
            if let Some(c) = column.column {
                table_key.push((c, prefix.unwrap_or(0)));
            }
            key.push(field);
        }
        fields.push((field, at));
    }
    // A table with a FULLTEXT key has a hidden column, if it has none of that name, of which the index says
    // nothing.
    for (at, value) in object.list("columns")?.iter().enumerate() {
        let column = Object(value, "column");
        let is_hidden = column.number("hidden")? == HIDDEN_BY_ENGINE && column.text("name")? == DOCUMENT;
        if is_hidden && fields.iter().all(|(_, a)| *a != at) {
            fields.push((Field { column: None, nullable: false, length: stored[at].length }, at));
        }
    }
    let mut unique = Vec::new();
    for value in &indexes[1..] {
        let index = Object(value, "index");
        // The server's own, of a hidden column.
        if index.number("type")? != UNIQUE || index.flag("hidden") {
            continue;
        }
        let mut parts = Some(Vec::new());
        for value in index.list("elements")? {
            let element = Object(value, "index element");
            let at = element.number("column_opx")? as usize;
            // What the index has beside its key is hidden; what it has of an expression is no column of ours.
            if element.flag("hidden") {
                continue;
            }
            match (stored.get(at).and_then(|s| s.column), &mut parts) {
                (Some(c), Some(parts)) => {
                    let whole = object.list("columns")?[at]["char_length"].as_u64().unwrap_or(0);
                    let prefix = prefix_of(&columns[c].ty, element.number("length")?, whole);
                    parts.push((c, prefix.unwrap_or(0)));
                }
                _ => parts = None,
            }
        }
        if let Some(columns) = parts {
            unique.push(Unique { name: index.text("name")?.into(), columns });
        }
    }
    if table_key.is_empty() {
        key = vec![Field { column: None, nullable: false, length: Length::Fixed(6) }];
    }
    let count = columns.len();
    let versions = stored
        .iter()
        .filter_map(|s| {
            [Some(s.added), (s.dropped != u64::MAX).then_some(s.dropped)].into_iter().flatten().max()
        })
        .max()
        .unwrap_or(0);
    if versions > u8::MAX as u64 {
        return Err((
            Kind::Damaged,
            format!("the definition has {versions} versions; a record's has one byte"),
        ));
    }
    let appended = object.private("instant_col");
    if versions > 0 && appended.is_some() {
        // Rows from before either change look alike, and have other fields.
        return Err((
            Kind::Unsupported,
            "it had columns added at once (ALGORITHM=INSTANT) by MySQL 8.0.12 to 8.0.28, and added or dropped by a later one, which is not read together; OPTIMIZE TABLE makes one version of it"
                .into(),
        ));
    }
    let layout = if versions > 0 {
        // Every column that ever was has its physical position; a version's records hold those that were
        // there.
        let mut all: Vec<(u64, Field, u64, u64)> = Vec::new();
        for (at, s) in stored.iter().enumerate() {
            let Some(position) = s.physical else { continue };
            // A column of whose beginning the key has a copy is stored twice: the position is then marked,
            // and the copy's stands above.
            let copy = fields.iter().find(|(f, a)| *a == at && f.column != s.column);
            if copy.is_some() != (position & COPIED != 0) {
                return Err((
                    Kind::Damaged,
                    format!(
                        "the definition gives column {at} the physical position {position:#x}, and its key has {} of it",
                        if copy.is_some() { "a part" } else { "no part" }
                    ),
                ));
            }
            let position = match copy {
                Some((field, _)) => {
                    all.push((position >> 16, *field, s.added, s.dropped));
                    position & (COPIED - 1)
                }
                None => position,
            };
            let field = Field { column: s.column, nullable: s.nullable, length: s.length };
            all.push((position, field, s.added, s.dropped));
        }
        all.sort_by_key(|f| f.0);
        let shape = |version: u64| {
            Shape::new(all.iter().filter(|f| f.2 <= version && version < f.3).map(|f| f.1).collect(), count)
        };
        Layout { shapes: (0..=versions).map(shape).collect(), history: History::Versioned }
    } else if let Some(core) = appended {
        // 8.0.12 to 8.0.28: columns were appended. `instant_col` counts the columns that users saw before the
        // first.
        let fields: Vec<Field> = fields.iter().map(|f| f.0).collect();
        let added = columns.iter().filter(|c| c.stored).count().saturating_sub(core as usize);
        let added = added.min(fields.len());
        let shapes = (0..=fields.len())
            .map(|n| {
                if n + added < fields.len() {
                    Shape::new(Vec::new(), count)
                } else {
                    Shape::new(fields[..n].to_vec(), count)
                }
            })
            .collect();
        Layout { shapes, history: History::Appended { core: fields.len() - added } }
    } else {
        Layout {
            shapes: vec![Shape::new(fields.iter().map(|f| f.0).collect(), count)],
            history: History::None,
        }
    };
    let row_format = match object.number("row_format")? {
        1 | 2 => RowFormat::Dynamic,
        3 => RowFormat::Compressed,
        4 => RowFormat::Redundant,
        5 => RowFormat::Compact,
        n => return Err((Kind::Unsupported, format!("the definition has row format {n}"))),
    };
    let partitions = &object.0["partitions"];
    let is_partitioned = partitions.as_array().is_some_and(|all| !all.is_empty());
    let clustered = match (is_partitioned, space) {
        (true, Some(space)) => partition(partitions, space.into()).ok_or_else(|| {
            let why =
                format!("the definition has no partition in tablespace {space}: it is of another table");
            (Kind::Mismatch, why)
        })?,
        _ => index,
    };
    let table = TableSchema {
        name: object.text("name")?.into(),
        comment: object.0["comment"].as_str().unwrap_or_default().into(),
        columns,
        key: table_key,
        unique,
        row_format,
        period: None,
        has_document: false,
        root: clustered.private("root").map(|n| n as u32),
        index: clustered.private("id"),
    };
    let root = table
        .root
        .ok_or_else(|| (Kind::Damaged, "the definition's clustered index has no root".to_string()))?;
    let key = Shape::of_key(&key, layout.first_null_bytes());
    Ok(Definition { table, layout, key, defaults, root, lobs: lob::Family::Mysql })
}

/// In a physical position: the key has a copy of the column's beginning, whose position is in the bits from
/// 16 on.
const COPIED: u64 = 0x8000;

/// Kinds of indexes in the dictionary.
const UNIQUE: u64 = 2;

/// The bytes of a column that a key takes, where that is not all of it.
fn prefix_of(ty: &Type, length: u64, whole: u64) -> Option<u32> {
    let can = matches!(
        ty,
        Type::Char { .. } | Type::Text { .. } | Type::Binary { .. } | Type::Bytes { .. } | Type::Geometry
    );
    (can && length < whole).then_some(length as u32)
}

fn unhex(hex: &str) -> Option<Vec<u8>> {
    if !hex.len().is_multiple_of(2) || !hex.is_ascii() {
        return None;
    }
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).ok()).collect()
}

/// A column's type, and how its field is stored. The numbers are the dictionary's `enum_column_types`.
fn column_type(column: &Object<'_>, name: &str, sql: &str) -> std::result::Result<Type, Refused> {
    let number = column.number("type")?;
    let unsigned = column.flag("is_unsigned");
    let char_length = column.0["char_length"].as_u64().unwrap_or(0) as u32;
    let scale = column.0["numeric_scale"].as_u64().unwrap_or(0) as u8;
    // Of dropped columns the dictionary keeps neither precision: they follow from how many characters a value
    // was shown with.
    let precision = match column.0["numeric_precision"].as_u64().unwrap_or(0) {
        0 => char_length.saturating_sub((scale > 0) as u32 + !unsigned as u32).min(u8::MAX as u32) as u8,
        n => n.min(u8::MAX as u64) as u8,
    };
    let fraction = |whole: u32| match column.0["datetime_precision"].as_u64().unwrap_or(0) {
        0 => char_length.saturating_sub(whole + 1).min(6) as u8,
        n => n.min(u8::MAX as u64) as u8,
    };
    let charset = || {
        let id = column.0["collation_id"].as_u64().unwrap_or(0) as u32;
        Charset::of_collation(id).ok_or_else(|| {
            (Kind::Unsupported, format!("column {name} has collation {id}, which is not known"))
        })
    };
    let zerofill = column.flag("is_zerofill").then_some(char_length.min(255) as u8);
    let int = |bytes| Type::Int { bytes, unsigned, zerofill };
    // FLOAT(m,d) says its decimals; plain FLOAT has none.
    let decimals = sql.contains(',').then_some(scale);
    let elements = || -> std::result::Result<(Charset, Vec<String>, Vec<Vec<u8>>), Refused> {
        let charset = charset()?;
        let mut texts = Vec::new();
        let mut raw = Vec::new();
        for element in column.list("elements")? {
            let text = Object(element, "element").text("name")?;
            let bytes = BASE64_STANDARD
                .decode(text)
                .map_err(|_| (Kind::Damaged, format!("an element of column {name} is not base64: {text}")))?;
            let text = if charset.is_binary() {
                String::from_utf8(bytes.clone()).ok()
            } else {
                charset.to_utf8(&bytes).map(|t| t.into_owned())
            };
            texts.push(text.ok_or_else(|| {
                (Kind::Unsupported, format!("an element of column {name} is no text of {}", charset.name))
            })?);
            raw.push(bytes);
        }
        Ok((charset, texts, raw))
    };
    let ty = match number {
        2 => int(1),
        3 => int(2),
        4 => int(4),
        5 => Type::Float { decimals, zerofill },
        6 => Type::Double { decimals, zerofill },
        9 => int(8),
        10 => int(3),
        11 => Type::Date,
        12 => Type::OldTime,
        13 => Type::OldDateTime,
        14 => Type::Year { digits: if char_length == 2 { 2 } else { 4 } },
        15 => Type::Date,
        17 => Type::Bit { bits: char_length.min(64) as u8 },
        18 => Type::Timestamp { fsp: fraction(19) },
        19 => Type::DateTime { fsp: fraction(19) },
        20 => Type::Time { fsp: fraction(10) },
        8 => Type::Timestamp { fsp: 0 },
        21 => Type::Decimal { precision, scale, zerofill },
        22 => {
            let (charset, elements, raw) = elements()?;
            Type::Enum { charset, elements, raw }
        }
        23 => {
            let (charset, elements, raw) = elements()?;
            Type::Set { charset, elements, raw }
        }
        16 | 28 => {
            let charset = charset()?;
            let varchar = Some(char_length);
            if charset.is_binary() { Type::Bytes { varchar } } else { Type::Text { charset, varchar } }
        }
        24..=27 => {
            let charset = charset()?;
            let varchar = None;
            if charset.is_binary() { Type::Bytes { varchar } } else { Type::Text { charset, varchar } }
        }
        // MySQL's VECTOR: floats, as bytes.
        32 => Type::Bytes { varchar: None },
        29 => {
            let charset = charset()?;
            if charset.is_binary() {
                Type::Binary { bytes: char_length }
            } else {
                Type::Char { chars: char_length / charset.max as u32, charset }
            }
        }
        30 => Type::Geometry,
        31 => Type::Json,
        n => {
            return Err((
                Kind::Unsupported,
                format!("column {name} has type {n} ({sql}), which is not known"),
            ));
        }
    };
    Ok(ty)
}
