//! Tables of MySQL and MariaDB in SQL: `innodb_scan('t.ibd')`, and which type and value of the engine each of
//! theirs becomes.
//!
//! | there | here |
//! | --- | --- |
//! | integers | the signed integer that holds them all; BIGINT UNSIGNED numeric(20,0) |
//! | FLOAT, DOUBLE | double precision, every bit |
//! | DECIMAL(p,s) | numeric(p,s) |
//! | DATE, DATETIME(f), TIMESTAMP(f) | date, timestamp(f), timestamptz(f) |
//! | TIME | text, as the server shows it |
//! | YEAR; BIT(n) | smallint; bigint, from 64 bits on numeric(20,0) |
//! | CHAR(n), VARCHAR(n) | char(n), varchar(n) |
//! | TEXT, ENUM, SET, JSON, UUID, INET4, INET6 | text |
//! | BINARY, VARBINARY, BLOB, geometry (WKB, without its SRID) | bytea |
//!
//! - **I1** A value is the column's, exactly, or an error that names file, page and column. Dates that no
//!   calendar has are errors, NULL or texts, as the user says.
//! - **I2** A file is read with the evidence that `ondol innodb export` asks for, looked for when it is
//!   opened.
use ondol_engine::ColumnDef;
use ondol_innodb::error::{Error, Kind};
use ondol_innodb::evidence::{self, OpenFiles};
use ondol_innodb::keys::Keys;
use ondol_innodb::scan::{Cursor, Leaf, Scan, Stored};
use ondol_innodb::table::{Column, Type as Foreign};
use ondol_innodb::text;
use ondol_innodb::value::{self, Date, Time, ZeroBytes, ZeroDates};
use ondol_scan::pipeline::{self, Hand};
use ondol_sql::foreign::{self, Argument, ForeignRange, ForeignRows, ForeignTable, GoOn};
use ondol_types::datetime::{UNIX_EPOCH_DAYS, USECS_PER_DAY};
use ondol_types::{Numeric, SqlError, SqlResult, Type, TypeId, Value, ValueRef, sqlstate};
use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

pub(crate) mod import;
pub(crate) mod leaves;
mod partitions;
pub(crate) mod schema;

/// Bytes of the pages in which sizes are told.
const PAGE: usize = 4096;

/// The error of a file, as SQL has it.
pub(crate) fn failed(e: Error) -> SqlError {
    let state = match e.kind {
        Kind::Io if !e.file.exists() => "58P01",
        Kind::Io => sqlstate::IO_ERROR,
        Kind::Damaged => sqlstate::DATA_CORRUPTED,
        Kind::Unsupported => sqlstate::FEATURE_NOT_SUPPORTED,
        // Object not in prerequisite state.
        Kind::Mismatch => "55000",
    };
    SqlError::new(state, e.to_string())
}

/// Opens foreign tables for the statements of a session.
pub(crate) struct Files;

impl foreign::Foreign for Files {
    fn open(&self, function: &str, arguments: &[Argument]) -> SqlResult<Arc<dyn ForeignTable>> {
        let mut files = open_files(function, arguments, &OpenFiles::now())?;
        match (files.len(), files.pop()) {
            (1, Some(file)) => Ok(Arc::new(file)),
            (_, last) => Ok(Arc::new(partitions::Partitions::new(files.into_iter().chain(last).collect())?)),
        }
    }
}

/// The tablespaces of a table: one, or those of its partitions.
pub(crate) fn open_files(
    function: &str,
    arguments: &[Argument],
    others: &OpenFiles,
) -> SqlResult<Vec<InnodbTable>> {
    let (mut path, mut schema, mut assume, mut history) = (None, None, false, false);
    let (mut keys, mut keys_password) = (None, None);
    let (mut zero_dates, mut zero_bytes) = (ZeroDates::Refuse, ZeroBytes::Refuse);
    for (n, a) in arguments.iter().enumerate() {
        let name = a.name.as_deref();
        let wrong = |expected: &str| {
            let found = a.value.as_deref().unwrap_or("NULL");
            let what = name.unwrap_or("its argument");
            let message = format!("{function}: {what} is {found}, expected {expected}");
            SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, message)
        };
        let value = a.value.as_deref();
        match name {
            None if n == 0 => path = Some(value.ok_or_else(|| wrong("the path of a file TABLE.ibd"))?),
            Some("schema") => {
                schema = Some(value.ok_or_else(|| wrong("the path of a file of CREATE TABLE"))?)
            }
            Some("keys") => keys = Some(value.ok_or_else(|| wrong("the path of a file of keys"))?),
            Some("keys_password") => {
                keys_password = Some(value.ok_or_else(|| wrong("the path of a file with a password"))?)
            }
            Some(name @ ("assume_consistent" | "history")) => {
                let given = match value {
                    Some("true") => true,
                    Some("false") => false,
                    _ => return Err(wrong("true or false")),
                };
                *if name == "history" { &mut history } else { &mut assume } = given;
            }
            Some("zero_bytes") => {
                zero_bytes = match value {
                    Some("refuse") => ZeroBytes::Refuse,
                    Some("remove") => ZeroBytes::Remove,
                    Some("replace") => ZeroBytes::Replace,
                    _ => return Err(wrong("'refuse', 'remove' or 'replace'")),
                }
            }
            Some("zero_dates") => {
                zero_dates = match value {
                    Some("refuse") => ZeroDates::Refuse,
                    Some("null") => ZeroDates::Null,
                    Some("text") => ZeroDates::Text,
                    _ => return Err(wrong("'refuse', 'null' or 'text'")),
                }
            }
            _ => {
                let what = name.map_or("a second path".into(), |n| format!("the argument \"{n}\""));
                let message = format!("function {function} does not have {what}");
                return Err(SqlError::new(sqlstate::UNDEFINED_FUNCTION, message).hint(
                        "It has a path, assume_consistent, history, keys, keys_password, schema, zero_bytes and zero_dates.",
                    ));
            }
        }
    }
    let path = path.ok_or_else(|| {
        SqlError::new(sqlstate::UNDEFINED_FUNCTION, format!("function {function}() does not exist"))
            .hint("It needs the path of a file TABLE.ibd.")
    })?;
    if keys.is_none() && keys_password.is_some() {
        let message = format!("{function}: keys_password needs keys, the path of a file of keys");
        return Err(SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, message));
    }
    let keys = keys.map(|keys| Keys::read(Path::new(keys), keys_password.map(Path::new)));
    let keys = keys.transpose().map_err(failed)?.map(Arc::new);
    let open = |path: &Path| {
        let mut scan = Scan::open_by(path, schema.map(Path::new), keys.as_ref()).map_err(failed)?;
        if history {
            scan.with_history().map_err(failed)?;
        }
        evidence::find_among(scan.space(), assume, others).map_err(failed)?;
        InnodbTable::new(scan, zero_dates, zero_bytes)
    };
    let files = ondol_innodb::folder::files_of(Path::new(path)).map_err(failed)?;
    files.iter().map(|file| open(file)).collect()
}

/// A tablespace's table, with the columns that `SELECT *` shows there.
pub(crate) struct InnodbTable {
    scan: Arc<Scan>,
    zero_dates: ZeroDates,
    zero_bytes: ZeroBytes,
    /// Of each column here its place there.
    places: Vec<usize>,
    columns: Vec<(String, Type)>,
    rows: f64,
    key: Option<u16>,
}

impl InnodbTable {
    pub fn new(scan: Scan, zero_dates: ZeroDates, zero_bytes: ZeroBytes) -> SqlResult<InnodbTable> {
        let places = ondol_innodb::export::columns(&scan, None).map_err(failed)?;
        let column = |i: &usize| {
            let column = &scan.columns()[*i];
            (column.name.clone(), type_of(column, zero_dates))
        };
        let columns = places.iter().map(column).collect();
        let rows = scan.estimate_rows().map_err(failed)? as f64;
        let key = range_key(&scan, zero_dates, &places).map_err(failed)?;
        Ok(InnodbTable { scan: Arc::new(scan), zero_dates, zero_bytes, places, columns, rows, key })
    }
    pub fn scan(&self) -> &Scan {
        &self.scan
    }
    #[cfg(feature = "columnar")]
    pub fn zero_dates(&self) -> ZeroDates {
        self.zero_dates
    }
    /// Of each column here its place there.
    pub fn places(&self) -> &[usize] {
        &self.places
    }
    #[cfg(feature = "columnar")]
    pub fn types(&self) -> impl Iterator<Item = Type> {
        self.columns.iter().map(|(_, ty)| *ty)
    }
    /// The place here of a column there.
    pub fn place(&self, there: usize) -> Option<usize> {
        self.places.iter().position(|p| *p == there)
    }
    /// The columns for CREATE TABLE.
    pub fn definitions(&self) -> Vec<ColumnDef> {
        let column = |((name, ty), place): (&(String, Type), &usize)| {
            let column = &self.scan.columns()[*place];
            let is_nulled = column.ty.is_date() && self.zero_dates == ZeroDates::Null;
            let not_null = !column.nullable && !is_nulled;
            ColumnDef { not_null, ..ColumnDef::new(name, *ty) }
        };
        self.columns.iter().zip(&self.places).map(column).collect()
    }
    /// What reads some of the columns.
    pub fn reader(&self, columns: &[u16]) -> ValueReader {
        let column = |c: &u16| (self.places[*c as usize], self.columns[*c as usize].1);
        ValueReader {
            columns: columns.iter().map(column).collect(),
            zero_dates: self.zero_dates,
            zero_bytes: self.zero_bytes,
            scratch: Vec::new(),
            nulled: 0,
        }
    }
}

impl ForeignTable for InnodbTable {
    fn name(&self) -> String {
        self.scan.space().path().display().to_string()
    }
    fn notice(&self) -> Option<String> {
        let left_out = ondol_innodb::export::virtual_columns(&self.scan).join(", ");
        let why = "left out, since they are virtual and no file holds them";
        (!left_out.is_empty()).then(|| format!("{}: {why}: {left_out}", self.name()))
    }
    fn columns(&self) -> &[(String, Type)] {
        &self.columns
    }
    fn estimate_rows(&self) -> f64 {
        self.rows
    }
    fn key(&self) -> Option<u16> {
        self.key
    }
    fn primary(&self) -> Vec<&str> {
        let key = &self.scan.definition().table.key;
        // Of rows that are current the end of their time tells nothing apart.
        let end = self.scan.hides_history().map(|period| period.end);
        // Values that are other ones here may be equal, or NULL.
        let is_changed = |c: usize| {
            let ty = &self.scan.columns()[c].ty;
            self.zero_dates == ZeroDates::Null && ty.is_date()
                || self.zero_bytes != ZeroBytes::Refuse
                    && matches!(ty, Foreign::Char { .. } | Foreign::Text { .. })
        };
        let columns = key.iter().filter(|(c, _)| Some(*c) != end).map(|(c, prefix)| {
            let place = self.place(*c).filter(|_| *prefix == 0 && !is_changed(*c))?;
            Some(self.columns[place].0.as_str())
        });
        columns.collect::<Option<Vec<_>>>().unwrap_or_default()
    }
    fn pages(&self) -> usize {
        let scan = &self.scan;
        (0..scan.parts()).map(|part| scan.part_bytes(part)).sum::<u64>() as usize / PAGE
    }
    fn range(
        &self,
        columns: &[u16],
        low: &Value,
        high: &Value,
        parts: usize,
    ) -> SqlResult<Arc<dyn ForeignRange>> {
        let mut scan = Scan::clone(&self.scan);
        let mut is_empty = false;
        if let Some(key) = self.key() {
            let ty = &scan.columns()[self.places[key as usize]].ty;
            match (bound(ty, low), bound(ty, high)) {
                (Bound::Above, _) | (_, Bound::Below) => is_empty = true,
                (low, high) => {
                    let (low, high) = (low.text(), high.text());
                    if low.is_some() || high.is_some() {
                        scan.within(low.as_deref(), high.as_deref()).map_err(failed)?;
                    }
                }
            }
        }
        scan.cut(parts);
        Ok(Arc::new(Wanted { scan: Arc::new(scan), reader: self.reader(columns), is_empty }))
    }
}

/// The column whose range `Scan::within` reads, by its place among `places`.
fn range_key(scan: &Scan, zero_dates: ZeroDates, places: &[usize]) -> Result<Option<u16>, Error> {
    let Some(&(first, 0)) = scan.definition().table.key.first() else { return Ok(None) };
    let ty = &scan.columns()[first].ty;
    // Dates as texts have another order at their ends.
    let can = match ty {
        Foreign::Int { .. } => true,
        Foreign::Date | Foreign::DateTime { .. } => zero_dates != ZeroDates::Text,
        _ => false,
    };
    match places.iter().position(|p| *p == first).filter(|_| can) {
        Some(place) if !scan.key_falls()? => Ok(Some(place as u16)),
        _ => Ok(None),
    }
}

/// Where a bound lies among the values of the key's type.
enum Bound {
    None,
    Below,
    Above,
    At(String),
}
impl Bound {
    fn text(self) -> Option<String> {
        if let Bound::At(text) = self { Some(text) } else { None }
    }
}

/// What a bound means for a key; rounded down where the key has no such value, since all values up to it are
/// up to what it is rounded to, and no value between the two is left out (foreign/F2).
fn bound(ty: &Foreign, value: &Value) -> Bound {
    match ty {
        Foreign::Int { bytes, unsigned, .. } => {
            let n = match value {
                Value::Int2(n) => i128::from(*n),
                Value::Int4(n) => i128::from(*n),
                Value::Int8(n) => i128::from(*n),
                Value::Numeric(n) => match n.as_scaled() {
                    Some((n, 0)) => n,
                    _ => return Bound::None,
                },
                _ => return Bound::None,
            };
            let bits = 8 * u32::from(*bytes);
            let (least, most) = match unsigned {
                true => (0, (1i128 << bits) - 1),
                false => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
            };
            match n {
                n if n < least => Bound::Below,
                n if n > most => Bound::Above,
                n => Bound::At(n.to_string()),
            }
        }
        Foreign::Date | Foreign::DateTime { .. } => {
            let micros = match value {
                Value::Date(d) => i64::from(*d).checked_mul(USECS_PER_DAY),
                Value::Timestamp(t) => Some(*t),
                _ => return Bound::None,
            };
            let Some(micros) = micros.and_then(|m| m.checked_add(i64::from(UNIX_EPOCH_DAYS) * USECS_PER_DAY))
            else {
                return Bound::None;
            };
            let (date, time) = value::civil(micros.div_euclid(1_000_000));
            // Days before the year 1 and after 9999 are no keys; where those lie is not worth a search.
            if !(-62_135_596_800_000_000..253_402_300_800_000_000).contains(&micros) {
                return Bound::None;
            }
            let day = format!("{:04}-{:02}-{:02}", date.year, date.month, date.day);
            match ty {
                Foreign::DateTime { fsp } => {
                    let fraction = format!("{:06}", micros.rem_euclid(1_000_000));
                    let fraction = &fraction[..(*fsp).min(6) as usize];
                    let point = if fraction.is_empty() { "" } else { "." };
                    let (h, m, s) = (time.hour, time.minute, time.second);
                    Bound::At(format!("{day} {h:02}:{m:02}:{s:02}{point}{fraction}"))
                }
                _ => Bound::At(day),
            }
        }
        _ => Bound::None,
    }
}

/// What is to be read of a table.
pub(crate) struct Wanted {
    scan: Arc<Scan>,
    reader: ValueReader,
    is_empty: bool,
}
impl ForeignRange for Wanted {
    fn parts(&self) -> usize {
        if self.is_empty { 0 } else { self.scan.parts() }
    }
    fn rows(&self, parts: Range<usize>) -> Box<dyn ForeignRows> {
        let end = parts.end.min(self.parts());
        let cursor = Cursor::new(self.scan.clone(), parts.start.min(end)..end);
        Box::new(Reading { cursor, reader: self.reader.another() })
    }
}

/// A foreign table while it is read.
struct Reading {
    cursor: Cursor,
    reader: ValueReader,
}

/// An error of either side, between them.
pub(crate) struct Either(pub SqlError);
impl From<Error> for Either {
    fn from(e: Error) -> Either {
        Either(failed(e))
    }
}

impl From<std::io::Error> for Either {
    fn from(e: std::io::Error) -> Either {
        Either(SqlError::new(sqlstate::IO_ERROR, format!("cannot start a thread: {e}")))
    }
}

impl ForeignRows for Reading {
    fn next(&mut self, go_on: GoOn<'_>, put: &mut dyn FnMut(usize, ValueRef<'_>)) -> SqlResult<bool> {
        match self.cursor.next(&|| go_on().map_err(Either)).map_err(|e| e.0)? {
            Some((leaf, row)) => self.reader.read(&leaf, row, put).map(|()| true),
            None => Ok(false),
        }
    }
    fn count(&mut self, workers: usize, go_on: GoOn<'_>) -> SqlResult<u64> {
        let parts = self.cursor.untouched();
        if workers < 2 || parts.len() < 2 {
            return self.cursor.count(&|| go_on().map_err(Either)).map_err(|e| e.0);
        }
        let (scan, first) = (self.cursor.scan().clone(), parts.start);
        let state = move || Cursor::new(scan.clone(), 0..0);
        let work = move |cursor: &mut Cursor, n: usize, hand: &Hand<'_, u64, Either>| {
            cursor.restart(first + n..first + n + 1);
            let counted = cursor.count(&|| Ok::<_, Either>(()))?;
            // Refused, it is not wanted any more.
            let _ = hand.over(counted);
            Ok(())
        };
        let options = pipeline::Options { workers, ordered: true, ahead: workers * 2 };
        self.cursor.restart(parts.end..parts.end);
        let mut total = 0;
        pipeline::run(parts.len(), options, state, work, |_, counted| {
            total += counted;
            go_on().map_err(Either)
        })
        .map_err(|e| e.0)?;
        Ok(total)
    }
}

/// Reads values of some columns.
pub(crate) struct ValueReader {
    /// Their places in the table there, and their types here.
    columns: Vec<(usize, Type)>,
    zero_dates: ZeroDates,
    zero_bytes: ZeroBytes,
    scratch: Vec<u8>,
    /// Dates that became NULL.
    nulled: u64,
}

/// Why a value cannot be had.
enum Refused {
    /// The bytes mean nothing in the column's type.
    NoValue,
    /// It is no day of the calendar.
    NoDay,
    /// A text has a zero byte, which texts here have not.
    Zero,
}
use Refused::{NoDay, NoValue};

impl ValueReader {
    /// One that reads the same columns.
    fn another(&self) -> ValueReader {
        let columns = self.columns.clone();
        let ValueReader { zero_dates, zero_bytes, .. } = *self;
        ValueReader { columns, zero_dates, zero_bytes, scratch: Vec::new(), nulled: 0 }
    }
    /// Gives the values of a row to `put`, with the places of their columns in the list.
    pub fn read(
        &mut self,
        leaf: &Leaf<'_>,
        row: usize,
        put: &mut dyn FnMut(usize, ValueRef<'_>),
    ) -> SqlResult<()> {
        for (n, (i, ty)) in self.columns.iter().enumerate() {
            let bytes = match leaf.stored(*i, leaf.rows.place(row, *i)).map_err(failed)? {
                Stored::Null => {
                    put(n, ValueRef::Null);
                    continue;
                }
                Stored::Bytes(bytes) => bytes,
            };
            let column = &leaf.scan.columns()[*i];
            match read(column, *ty, &bytes, self.zero_bytes, &mut self.scratch) {
                Ok(value) => put(n, value),
                Err(NoDay) if self.zero_dates == ZeroDates::Null => {
                    self.nulled += 1;
                    put(n, ValueRef::Null)
                }
                Err(why) => return Err(refusal(leaf, column, &bytes, why)),
            }
        }
        Ok(())
    }
    /// Dates that became NULL since the last call.
    pub fn take_nulled(&mut self) -> u64 {
        std::mem::take(&mut self.nulled)
    }
}

#[cold]
fn refusal(leaf: &Leaf<'_>, column: &Column, bytes: &[u8], why: Refused) -> SqlError {
    let hex = text::hex(&bytes[..bytes.len().min(32)]);
    let (name, sql) = (&column.name, &column.sql);
    match why {
        NoValue => {
            failed(leaf.unfit(&format!("column {name} ({sql}) holds {hex}, which is no value of its type")))
        }
        NoDay => {
            let shown = text::shown(column, bytes).unwrap_or(hex);
            let e =
                leaf.refused(format!("column {name} ({sql}) holds {shown}, which is no day of the calendar"));
            SqlError::new(sqlstate::DATETIME_FIELD_OVERFLOW, e.to_string())
                .hint("zero_dates => 'null' or 'text' says what it shall become.")
        }
        Refused::Zero => {
            let e = leaf.refused(format!("column {name} ({sql}) holds {hex}, a text with a zero byte"));
            SqlError::new("22021", e.to_string())
                .hint("zero_bytes => 'remove' or 'replace' (--zero-bytes) says what it shall become.")
        }
    }
}

/// The type that a column has here.
pub(crate) fn type_of(column: &Column, zero_dates: ZeroDates) -> Type {
    let with_length = |id, n: u32| if n > 0 { Type::with(id, n as i32 + 4) } else { Type::TEXT };
    let numeric = |p: i32, s: i32| Type::with(TypeId::NUMERIC, (p << 16 | s) + 4);
    let ty = &column.ty;
    match ty {
        _ if ty.is_date() && zero_dates == ZeroDates::Text => Type::TEXT,
        Foreign::Int { bytes, unsigned, .. } => match (bytes, unsigned) {
            (1, _) | (2, false) => Type::new(TypeId::INT2),
            (2 | 3, _) | (4, false) => Type::INT4,
            (4, true) | (8, false) => Type::INT8,
            _ => numeric(20, 0),
        },
        Foreign::Float { .. } | Foreign::Double { .. } => Type::new(TypeId::FLOAT8),
        Foreign::Decimal { precision, scale, .. } => numeric((*precision).into(), (*scale).into()),
        Foreign::Date => Type::new(TypeId::DATE),
        Foreign::DateTime { fsp } => Type::with(TypeId::TIMESTAMP, (*fsp).into()),
        Foreign::OldDateTime => Type::with(TypeId::TIMESTAMP, 0),
        Foreign::Timestamp { fsp } => Type::with(TypeId::TIMESTAMPTZ, (*fsp).into()),
        Foreign::Year { .. } => Type::new(TypeId::INT2),
        Foreign::Bit { bits } if *bits < 64 => Type::INT8,
        Foreign::Bit { .. } => numeric(20, 0),
        Foreign::Char { chars, .. } => with_length(TypeId::BPCHAR, *chars),
        Foreign::Text { charset, varchar: Some(bytes) } => {
            with_length(TypeId::VARCHAR, bytes / u32::from(charset.max.max(1)))
        }
        Foreign::Binary { .. } | Foreign::Bytes { .. } | Foreign::Geometry => Type::new(TypeId::BYTEA),
        Foreign::Text { varchar: None, .. }
        | Foreign::Time { .. }
        | Foreign::OldTime
        | Foreign::Enum { .. }
        | Foreign::Set { .. }
        | Foreign::Json
        | Foreign::Uuid
        | Foreign::Inet4
        | Foreign::Inet6 => Type::TEXT,
    }
}

/// The value of a field's stored bytes; what is not as it lies there is made in `scratch`.
fn read<'v>(
    column: &Column,
    ty: Type,
    bytes: &'v [u8],
    zero_bytes: ZeroBytes,
    scratch: &'v mut Vec<u8>,
) -> Result<ValueRef<'v>, Refused> {
    let days = |date: Date| date.days().ok_or(NoDay);
    let moment =
        |date: Date, time: Time| Ok(i64::from(days(date)? - UNIX_EPOCH_DAYS) * USECS_PER_DAY + time.micros());
    let decimal = |n: i128, scale: u8, scratch: &'v mut Vec<u8>| {
        scratch.clear();
        Numeric::from_scaled(n, scale.into()).encode(scratch);
        ValueRef::Numeric(scratch)
    };
    Ok(match &column.ty {
        _ if ty.id == TypeId::TEXT && !matches!(column.ty, Foreign::Char { .. } | Foreign::Text { .. }) => {
            made(column, bytes, zero_bytes, scratch)?
        }
        Foreign::Int { unsigned: false, .. } => integer(ty, value::signed(bytes).ok_or(NoValue)?)?,
        Foreign::Int { .. } | Foreign::Bit { .. } => {
            let n = value::unsigned(bytes).ok_or(NoValue)?;
            match ty.id {
                TypeId::NUMERIC => decimal(n.into(), 0, scratch),
                _ => integer(ty, i64::try_from(n).map_err(|_| NoValue)?)?,
            }
        }
        Foreign::Float { .. } => {
            ValueRef::Float8(f32::from_le_bytes(bytes.try_into().map_err(|_| NoValue)?).into())
        }
        Foreign::Double { .. } => {
            ValueRef::Float8(f64::from_le_bytes(bytes.try_into().map_err(|_| NoValue)?))
        }
        Foreign::Decimal { precision, scale, .. } if *precision <= 38 => {
            decimal(value::decimal(bytes, *precision, *scale).ok_or(NoValue)?, *scale, scratch)
        }
        Foreign::Decimal { precision, scale, .. } => {
            let mut digits = Vec::with_capacity(*precision as usize + 2);
            value::push_decimal(&mut digits, bytes, *precision, *scale).ok_or(NoValue)?;
            let n = std::str::from_utf8(&digits).ok().and_then(|t| Numeric::parse(t).ok()).ok_or(NoValue)?;
            scratch.clear();
            n.encode(scratch);
            ValueRef::Numeric(scratch)
        }
        Foreign::Date => ValueRef::Date(days(value::date(bytes).ok_or(NoValue)?)? - UNIX_EPOCH_DAYS),
        Foreign::DateTime { fsp } => {
            let (date, time) = value::datetime(bytes, *fsp).ok_or(NoValue)?;
            ValueRef::Timestamp(moment(date, time)?)
        }
        Foreign::OldDateTime => {
            let (date, time) = value::old_datetime(bytes).ok_or(NoValue)?;
            ValueRef::Timestamp(moment(date, time)?)
        }
        Foreign::Timestamp { fsp } => match value::timestamp(bytes, *fsp).ok_or(NoValue)? {
            (0, 0) => return Err(NoDay),
            (seconds, micros) => ValueRef::Timestamptz(
                i64::from(seconds) * 1_000_000 + i64::from(micros)
                    - i64::from(UNIX_EPOCH_DAYS) * USECS_PER_DAY,
            ),
        },
        Foreign::Year { .. } => match value::unsigned(bytes).ok_or(NoValue)? {
            0 => ValueRef::Int2(0),
            n => ValueRef::Int2(i16::try_from(1900 + n).map_err(|_| NoValue)?),
        },
        Foreign::Char { charset, .. } | Foreign::Text { charset, .. } => {
            let is_char = matches!(column.ty, Foreign::Char { .. });
            let text = match without_zeros(charset.to_utf8(bytes).ok_or(NoValue)?, zero_bytes)? {
                Cow::Borrowed(text) => text,
                Cow::Owned(text) => {
                    *scratch = text.into_bytes();
                    std::str::from_utf8(scratch).map_err(|_| NoValue)?
                }
            };
            let text = if is_char { text.trim_end_matches(' ') } else { text };
            if ty.char_len().is_some_and(|n| text.len() > n && text.chars().count() > n) {
                return Err(NoValue);
            }
            ValueRef::Text(text)
        }
        Foreign::Binary { .. } | Foreign::Bytes { .. } => ValueRef::Bytea(bytes),
        Foreign::Geometry => ValueRef::Bytea(bytes.get(4..).ok_or(NoValue)?),
        // Texts that are made.
        Foreign::Time { .. }
        | Foreign::OldTime
        | Foreign::Enum { .. }
        | Foreign::Set { .. }
        | Foreign::Json
        | Foreign::Uuid
        | Foreign::Inet4
        | Foreign::Inet6 => made(column, bytes, zero_bytes, scratch)?,
    })
}

/// A text with what is wished for its zero bytes.
fn without_zeros(text: Cow<'_, str>, zero_bytes: ZeroBytes) -> Result<Cow<'_, str>, Refused> {
    if !text.as_bytes().contains(&0) {
        return Ok(text);
    }
    match zero_bytes {
        ZeroBytes::Refuse => Err(Refused::Zero),
        ZeroBytes::Remove => Ok(text.replace('\0', "").into()),
        ZeroBytes::Replace => Ok(text.replace('\0', "\u{fffd}").into()),
    }
}

fn integer(ty: Type, n: i64) -> Result<ValueRef<'static>, Refused> {
    Ok(match ty.id {
        TypeId::INT2 => ValueRef::Int2(n.try_into().map_err(|_| NoValue)?),
        TypeId::INT4 => ValueRef::Int4(n.try_into().map_err(|_| NoValue)?),
        _ => ValueRef::Int8(n),
    })
}

/// A value of a type that has a text here, which it has not there.
fn made<'v>(
    column: &Column,
    bytes: &[u8],
    zero_bytes: ZeroBytes,
    scratch: &'v mut Vec<u8>,
) -> Result<ValueRef<'v>, Refused> {
    let elements = |elements: &[String], into: &mut Vec<u8>| {
        let n = value::unsigned(bytes)?;
        match &column.ty {
            Foreign::Enum { .. } if n == 0 => {}
            Foreign::Enum { .. } => into.extend_from_slice(elements.get(n as usize - 1)?.as_bytes()),
            _ => into.extend(value::set(n, elements.iter().map(String::as_bytes), b",")?),
        }
        Some(())
    };
    scratch.clear();
    match &column.ty {
        Foreign::Enum { elements: of, .. } | Foreign::Set { elements: of, .. } => {
            elements(of, scratch).ok_or(NoValue)?
        }
        Foreign::Json => {
            scratch.extend_from_slice(ondol_innodb::json::text(bytes).ok_or(NoValue)?.as_bytes())
        }
        // Numbers, points and colons alone: no quotes.
        _ => scratch.extend_from_slice(text::shown(column, bytes).ok_or(NoValue)?.as_bytes()),
    }
    if scratch.contains(&0) {
        let text = String::from_utf8(std::mem::take(scratch)).map_err(|_| NoValue)?;
        *scratch = without_zeros(text.into(), zero_bytes)?.into_owned().into_bytes();
    }
    Ok(ValueRef::Text(std::str::from_utf8(scratch).map_err(|_| NoValue)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_rounded_down_to_what_the_key_can_be() {
        let at = |ty: &Foreign, value: &Value| match bound(ty, value) {
            Bound::None => "none".to_string(),
            Bound::Below => "below".into(),
            Bound::Above => "above".into(),
            Bound::At(text) => text,
        };
        let int = |bytes, unsigned| Foreign::Int { bytes, unsigned, zerofill: None };
        for (ty, value, expected) in [
            (int(1, false), Value::Int4(127), "127"),
            (int(1, false), Value::Int4(128), "above"),
            (int(3, true), Value::Int8(-1), "below"),
            (int(8, true), Value::Numeric(Numeric::from_scaled(u64::MAX.into(), 0)), "18446744073709551615"),
            (int(8, true), Value::Numeric(Numeric::from_scaled(1 << 64, 0)), "above"),
            (int(4, false), Value::Numeric(Numeric::from_scaled(15, 1)), "none"),
            (int(4, false), Value::Null, "none"),
            (Foreign::Date, Value::Date(0), "2000-01-01"),
            (Foreign::Date, Value::Timestamp(-1), "1999-12-31"),
            (Foreign::Date, Value::Date(i32::MAX), "none"),
            (Foreign::DateTime { fsp: 0 }, Value::Timestamp(1_999_999), "2000-01-01 00:00:01"),
            (Foreign::DateTime { fsp: 3 }, Value::Timestamp(1_999_999), "2000-01-01 00:00:01.999"),
            (Foreign::DateTime { fsp: 6 }, Value::Date(366), "2001-01-01 00:00:00.000000"),
            (Foreign::DateTime { fsp: 6 }, Value::Timestamp(i64::MAX), "none"),
            (Foreign::DateTime { fsp: 6 }, Value::Timestamptz(0), "none"),
        ] {
            assert_eq!(at(&ty, &value), expected, "{ty:?} {value:?}");
            // What it says is a key's value.
            if let Bound::At(text) = bound(&ty, &value) {
                assert!(value::stored_key(&ty, &text).flatten().is_some(), "{text}");
            }
        }
    }
}
