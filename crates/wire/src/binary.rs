//! Values in their binary forms: as PostgreSQL's send and receive functions write and read them.
//!
//! - **B1** What [`write`] writes, [`read`] reads back to an equal value, but for those of anonymous rows.
//! - **B2** Values that are read are whole values of their type: of bytes that are none, the error is
//!   PostgreSQL's.
//!
//! Source: PostgreSQL 15's answers.
use crate::front::{PROTOCOL_VIOLATION, utf8};
use ondol_types::array::{Array, Builder, Dimension};
use ondol_types::cast;
use ondol_types::catalog::record::Record;
use ondol_types::catalog::{record, vector};
use ondol_types::func::Context;
use ondol_types::ty::Class;
use ondol_types::{Numeric, SqlError, SqlResult, Type, TypeId, Value, ValueRef, text};

const INVALID_BINARY: &str = "22P03";

/// How the values of an opaque type are sent.
enum Sent {
    /// Its bytes are what is sent.
    AsTheyAre,
    /// Four bytes, of which the lowest comes first.
    Four,
    Text,
    Array,
    Vector(TypeId),
    Record,
    /// Its text, behind the version of the form.
    Json,
    No,
}

/// The version of jsonb's binary form.
const JSON_VERSION: u8 = 1;

fn sent(ty: TypeId) -> Sent {
    match ty {
        TypeId::UUID | TypeId::INTERVAL | TypeId::TIME | TypeId::TIMETZ | TypeId::TID => Sent::AsTheyAre,
        TypeId::QUOTED_CHAR => Sent::AsTheyAre,
        TypeId::FLOAT4 | TypeId::OID | TypeId::XID => Sent::Four,
        TypeId::NAME | TypeId::JSON | TypeId::PG_NODE_TREE => Sent::Text,
        TypeId::JSONB => Sent::Json,
        TypeId::INT2VECTOR => Sent::Vector(TypeId::INT2),
        TypeId::OIDVECTOR => Sent::Vector(TypeId::OID),
        TypeId::ACLITEM => Sent::No,
        _ if ty.is_array() => Sent::Array,
        _ if ondol_types::catalog::registered::kind(ty).is_some() => Sent::Four,
        _ if record::is_row(ty) => Sent::Record,
        // Those of an enum are sent by their labels.
        _ => Sent::Text,
    }
}

/// Appends a value, which is not NULL, of a type.
pub fn write(v: ValueRef<'_>, ty: Type, out: &mut Vec<u8>) -> SqlResult<()> {
    match v {
        ValueRef::Null => {}
        ValueRef::Bool(b) => out.push(b.into()),
        ValueRef::Int2(n) => out.extend_from_slice(&n.to_be_bytes()),
        ValueRef::Int4(n) | ValueRef::Date(n) => out.extend_from_slice(&n.to_be_bytes()),
        ValueRef::Int8(n) | ValueRef::Timestamp(n) | ValueRef::Timestamptz(n) => {
            out.extend_from_slice(&n.to_be_bytes())
        }
        ValueRef::Float8(f) => out.extend_from_slice(&f.to_bits().to_be_bytes()),
        ValueRef::Numeric(_) | ValueRef::Packed(_) => write_numeric(v, out),
        ValueRef::Text(_) => text::output(v, ty, out),
        ValueRef::Bytea(b) => out.extend_from_slice(b),
        ValueRef::Opaque(ty, b) => match sent(ty) {
            Sent::AsTheyAre => out.extend_from_slice(b),
            Sent::Four => {
                let four: [u8; 4] = b.first_chunk().copied().unwrap_or_default();
                out.extend(four.iter().rev())
            }
            Sent::Text => text::output(v, Type::new(ty), out),
            Sent::Array => write_array(&Array::of_type(ty, b), ty.element().unwrap_or(TypeId::TEXT), out)?,
            Sent::Vector(item) => {
                let array = vector::array_of(ty).unwrap_or(ty);
                write_array(&Array::of_type(array, b), item, out)?
            }
            Sent::Record => write_record(ty, b, out)?,
            Sent::Json => {
                out.push(JSON_VERSION);
                text::output(v, Type::new(ty), out)
            }
            Sent::No => {
                let message = format!("no binary output function available for type {ty}");
                return Err(SqlError::new("42883", message));
            }
        },
    }
    Ok(())
}

/// Whether values of a type have a binary form.
pub fn check_sent(ty: TypeId) -> SqlResult<()> {
    match sent(ty.element().unwrap_or(ty)) {
        Sent::No => {
            let message = format!("no binary output function available for type {ty}");
            Err(SqlError::new("42883", message))
        }
        _ => Ok(()),
    }
}

/// Whether they are read from one.
pub fn check_read(ty: TypeId) -> SqlResult<()> {
    match sent(ty.element().unwrap_or(ty)) {
        Sent::No => {
            let message = format!("no binary input function available for type {ty}");
            Err(SqlError::new("42883", message))
        }
        _ => Ok(()),
    }
}

/// Appends a value behind its length, which for NULL is -1.
pub fn write_item(v: ValueRef<'_>, ty: Type, out: &mut Vec<u8>) -> SqlResult<()> {
    if v.is_null() {
        out.extend_from_slice(&(-1i32).to_be_bytes());
        return Ok(());
    }
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(v, ty, out)?;
    let length = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

fn write_array(array: &Array<'_>, item: TypeId, out: &mut Vec<u8>) -> SqlResult<()> {
    let has_nulls = array.items().any(|v| v.is_null());
    for n in [array.dimensions().len() as u32, has_nulls.into(), item.oid()] {
        out.extend_from_slice(&n.to_be_bytes())
    }
    for d in array.dimensions() {
        out.extend_from_slice(&d.length.to_be_bytes());
        out.extend_from_slice(&d.lower.to_be_bytes())
    }
    array.items().try_for_each(|v| write_item(v, Type::new(item), out))
}

fn write_record(ty: TypeId, b: &[u8], out: &mut Vec<u8>) -> SqlResult<()> {
    let row = Record::of(b);
    out.extend_from_slice(&(row.len() as u32).to_be_bytes());
    let fields = ondol_types::user::composite::fields(ty);
    for i in 0..row.len() {
        // What the type says is more than what the bytes tell, where users have defined it.
        let ty = fields.and_then(|f| f.get(i)).map_or_else(|| row.ty(i), |f| f.of().id);
        out.extend_from_slice(&ty.oid().to_be_bytes());
        write_item(row.field(i, ty), Type::new(ty), out)?
    }
    Ok(())
}

const POSITIVE: u16 = 0;
const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xc000;
const INFINITY: u16 = 0xd000;
const MINUS_INFINITY: u16 = 0xf000;

/// In digits of ten thousands, of which the first stands for `weight` of them.
fn write_numeric(v: ValueRef<'_>, out: &mut Vec<u8>) {
    let scaled = match v {
        ValueRef::Packed(p) => p.units().map(|units| (i128::from(units), p.scale())),
        ValueRef::Numeric(b) => Numeric::scaled(b),
        _ => None,
    };
    if let Some((mantissa, scale)) = scaled
        && let Some(sent) = Digits::of(mantissa, scale)
    {
        return out.extend_from_slice(sent.bytes());
    }
    write_long_numeric(v, out)
}

/// A numeric's binary form, made from its end on.
struct Digits {
    bytes: [u8; Digits::MOST],
    start: usize,
}

impl Digits {
    const MOST: usize = 48;
    /// The value `mantissa / 10^scale`; `None` if it is too long.
    fn of(mantissa: i128, scale: u16) -> Option<Digits> {
        // So many groups of four digits stand behind the point.
        let behind = scale.div_ceil(4);
        let missing = behind * 4 - scale;
        let all = mantissa.unsigned_abs().checked_mul(10u128.pow(missing.into()))?;
        let mut made = Digits { bytes: [0; Digits::MOST], start: Digits::MOST };
        let mut groups = 0;
        // Most have so few that one word divides.
        let mut put = |group: u16| {
            // Zeros at the end are not sent.
            if group > 0 || made.start < Digits::MOST {
                made.start -= 2;
                made.bytes[made.start..made.start + 2].copy_from_slice(&group.to_be_bytes())
            }
            groups += 1
        };
        let mut wide = all;
        while wide > u128::from(u64::MAX) {
            put((wide % 10_000) as u16);
            wide /= 10_000
        }
        let mut rest = wide as u64;
        while rest > 0 {
            put((rest % 10_000) as u16);
            rest /= 10_000
        }
        let count = (Digits::MOST - made.start) / 2;
        // Of a fraction the groups of zeros behind the point count, and are not sent.
        let weight = if count == 0 { 0 } else { groups - 1 - behind as i16 };
        let sign = if mantissa < 0 { NEGATIVE } else { POSITIVE };
        let head = made.start.checked_sub(8)?;
        let words = [count as u16, weight as u16, sign, scale];
        words
            .iter()
            .zip(made.bytes[head..].chunks_mut(2))
            .for_each(|(w, to)| to.copy_from_slice(&w.to_be_bytes()));
        made.start = head;
        Some(made)
    }
    fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

/// The same by its digits.
fn write_long_numeric(v: ValueRef<'_>, out: &mut Vec<u8>) {
    let mut shown = Vec::with_capacity(40);
    text::output(v, Type::new(TypeId::NUMERIC), &mut shown);
    let mut head = |count: usize, weight: i16, sign: u16, scale: usize| {
        for n in [count as u16, weight as u16, sign, scale as u16] {
            out.extend_from_slice(&n.to_be_bytes())
        }
    };
    match &shown[..] {
        b"NaN" => return head(0, 0, NAN, 0),
        b"Infinity" => return head(0, 0, INFINITY, 0x20),
        b"-Infinity" => return head(0, 0, MINUS_INFINITY, 0x20),
        _ => {}
    }
    let (sign, digits) = match shown.strip_prefix(b"-") {
        Some(d) => (NEGATIVE, d),
        None => (POSITIVE, &shown[..]),
    };
    let point = digits.iter().position(|b| *b == b'.').unwrap_or(digits.len());
    let (whole, part) = (&digits[..point], digits.get(point + 1..).unwrap_or_default());
    // Groups of four, from the point on to both sides.
    let digit = |b: &u8| u16::from(b - b'0');
    let mut groups: Vec<u16> = vec![];
    let first = whole.len() % 4;
    if first > 0 {
        groups.push(whole[..first].iter().fold(0, |n, b| n * 10 + digit(b)))
    }
    groups.extend(whole[first..].chunks(4).map(|c| c.iter().fold(0, |n, b| n * 10 + digit(b))));
    let mut weight = groups.len() as i16 - 1;
    groups.extend(part.chunks(4).map(|c| {
        let n = c.iter().fold(0, |n, b| n * 10 + digit(b));
        n * 10u16.pow(4 - c.len() as u32)
    }));
    let zeros = groups.iter().take_while(|g| **g == 0).count();
    let end = groups.iter().rposition(|g| *g != 0).map_or(zeros, |n| n + 1);
    weight -= zeros as i16;
    if zeros == end {
        weight = 0
    }
    head(end - zeros, weight, sign, part.len());
    groups[zeros..end].iter().for_each(|g| out.extend_from_slice(&g.to_be_bytes()))
}

/// Bytes that are taken one after the other.
struct Bytes<'a>(&'a [u8]);

fn too_short() -> SqlError {
    SqlError::new(PROTOCOL_VIOLATION, "insufficient data left in message")
}
/// The length of a value within another is more than there is.
fn short_item() -> SqlError {
    invalid("insufficient data left in message")
}
/// Whether the number of a type is another than wanted. Of types that are not PostgreSQL's own, and of
/// numbers that are none of theirs, it is not asked.
fn is_other(oid: u32, wanted: u32) -> bool {
    const OWN: u32 = 10_000;
    oid != wanted && oid < OWN && wanted < OWN
}
fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(INVALID_BINARY, message)
}

impl<'a> Bytes<'a> {
    fn next<const N: usize>(&mut self) -> SqlResult<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(too_short)?;
        self.0 = rest;
        Ok(*taken)
    }
    fn i32(&mut self) -> SqlResult<i32> {
        Ok(i32::from_be_bytes(self.next()?))
    }
    fn u16(&mut self) -> SqlResult<u16> {
        Ok(u16::from_be_bytes(self.next()?))
    }
    /// A length and so many bytes; none for NULL.
    fn item(&mut self) -> SqlResult<Option<&'a [u8]>> {
        let length = self.i32()?;
        if length == -1 {
            return Ok(None);
        }
        let length = usize::try_from(length).map_err(|_| short_item())?;
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(short_item)?;
        self.0 = rest;
        Ok(Some(taken))
    }
}

/// A value of a type from its binary form. One of a type whose values are sent as texts may come as a text,
/// and the number of an object as an oid: whoever takes it has to convert these.
pub fn read(bytes: &[u8], ty: TypeId) -> SqlResult<Value> {
    let mut b = Bytes(bytes);
    let value = match ty.class() {
        Class::Bool => Value::Bool(b.next()? != [0]),
        Class::Int2 => Value::Int2(i16::from_be_bytes(b.next()?)),
        Class::Int4 => Value::Int4(b.i32()?),
        Class::Int8 => Value::Int8(i64::from_be_bytes(b.next()?)),
        Class::Float8 => Value::Float8(f64::from_bits(u64::from_be_bytes(b.next()?))),
        Class::Numeric => Value::Numeric(read_numeric(&mut b)?),
        Class::Text => return Ok(Value::Text(utf8(bytes)?.to_string())),
        Class::Bytea => return Ok(Value::Bytea(bytes.to_vec())),
        Class::Date => Value::Date(in_range(
            i64::from(b.i32()?),
            DAYS,
            i64::from(i32::MIN)..=i64::from(i32::MAX),
            "date",
        )? as i32),
        Class::Timestamp => Value::Timestamp(moment(&mut b)?),
        Class::Timestamptz => Value::Timestamptz(moment(&mut b)?),
        Class::None => return Err(SqlError::unsupported(format!("a value of type {ty} in binary"))),
        Class::Opaque(_) => match sent(ty) {
            Sent::AsTheyAre => read_as_is(&mut b, ty)?,
            Sent::Four => {
                let mut four: [u8; 4] = b.next()?;
                four.reverse();
                let ty = if matches!(ty, TypeId::FLOAT4 | TypeId::XID) { ty } else { TypeId::OID };
                Value::Opaque(ty, four.into())
            }
            Sent::Text if ty == TypeId::JSON => return json(bytes, ty),
            Sent::Text => return Ok(Value::Text(utf8(bytes)?.to_string())),
            Sent::Json => match bytes {
                [JSON_VERSION, text @ ..] => return json(text, ty),
                [] => return Err(too_short()),
                [version, ..] => {
                    let message = format!("unsupported jsonb version number {version}");
                    return Err(SqlError::new("XX000", message));
                }
            },
            Sent::Array => read_array(&mut b, ty)?,
            Sent::Record => read_record(&mut b, ty)?,
            Sent::Vector(_) | Sent::No => {
                return Err(SqlError::unsupported(format!("a parameter of type {ty} in binary"))
                    .hint("Send it as a text."));
            }
        },
    };
    match b.0 {
        [] => Ok(value),
        _ => Err(invalid("incorrect binary data format")),
    }
}

/// A text of JSON, which is looked at here: items of arrays are, too.
fn json(text: &[u8], ty: TypeId) -> SqlResult<Value> {
    text::input(utf8(text)?, Type::new(ty), &Context::EMPTY)
}

/// The same for types whose values need no memory of their own; `None` for others, and for bytes that are no
/// value: [`read`] tells.
pub fn borrow(bytes: &[u8], ty: TypeId) -> Option<ValueRef<'_>> {
    Some(match ty.class() {
        Class::Int2 => ValueRef::Int2(i16::from_be_bytes(bytes.try_into().ok()?)),
        Class::Int4 => ValueRef::Int4(i32::from_be_bytes(bytes.try_into().ok()?)),
        Class::Int8 => ValueRef::Int8(i64::from_be_bytes(bytes.try_into().ok()?)),
        Class::Float8 => ValueRef::Float8(f64::from_be_bytes(bytes.try_into().ok()?)),
        Class::Text => ValueRef::Text(utf8(bytes).ok()?),
        Class::Bytea => ValueRef::Bytea(bytes),
        _ => return None,
    })
}

/// Days from 2000-01-01 of the first and behind the last date, 4714-11-24 BC and 5874898-01-01.
const DAYS: std::ops::Range<i64> = -2_451_545..2_145_031_949;
/// The same in microseconds of timestamps, which end before 294277-01-01.
const MICROSECONDS: std::ops::Range<i64> = -211_813_488_000_000_000..9_223_371_331_200_000_000;

/// Infinite, or within what PostgreSQL has.
fn in_range(
    n: i64,
    range: std::ops::Range<i64>,
    ends: std::ops::RangeInclusive<i64>,
    what: &str,
) -> SqlResult<i64> {
    match n == *ends.start() || n == *ends.end() || range.contains(&n) {
        true => Ok(n),
        false => Err(SqlError::new("22008", format!("{what} out of range"))),
    }
}
fn moment(b: &mut Bytes<'_>) -> SqlResult<i64> {
    in_range(i64::from_be_bytes(b.next()?), MICROSECONDS, i64::MIN..=i64::MAX, "timestamp")
}

fn read_as_is(b: &mut Bytes<'_>, ty: TypeId) -> SqlResult<Value> {
    const DAY: i64 = 86_400_000_000;
    let time_of = |bytes: &[u8]| {
        let micros = bytes.first_chunk().map_or(-1, |b| i64::from_be_bytes(*b));
        match (0..=DAY).contains(&micros) {
            true => Ok(()),
            false => Err(SqlError::new("22008", "time out of range")),
        }
    };
    let bytes: Box<[u8]> = match ty {
        TypeId::UUID | TypeId::INTERVAL => b.next::<16>()?.into(),
        TypeId::TIME => {
            let bytes = b.next::<8>()?;
            time_of(&bytes)?;
            bytes.into()
        }
        TypeId::TIMETZ => {
            let bytes = b.next::<12>()?;
            time_of(&bytes)?;
            let west = i32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
            // Less than 16 hours.
            if west.unsigned_abs() >= 16 * 3600 {
                return Err(SqlError::new("22009", "time zone displacement out of range"));
            }
            bytes.into()
        }
        TypeId::TID => b.next::<6>()?.into(),
        _ => b.next::<1>()?.into(),
    };
    Ok(Value::Opaque(ty, bytes))
}

fn read_array(b: &mut Bytes<'_>, ty: TypeId) -> SqlResult<Value> {
    const MOST: usize = 6;
    let (dimensions, flags, oid) = (b.i32()?, b.i32()?, b.i32()? as u32);
    let item = ty.element().unwrap_or(TypeId::TEXT);
    let count = usize::try_from(dimensions).ok().filter(|n| *n <= MOST).ok_or_else(|| {
        SqlError::new(
            "54000",
            format!("number of array dimensions ({dimensions}) exceeds the maximum allowed (6)"),
        )
    })?;
    if !matches!(flags, 0 | 1) {
        return Err(invalid("invalid array flags"));
    }
    if is_other(oid, item.oid()) {
        return Err(SqlError::new("42804", "binary data has array element type that does not match")
            .detail(format!("Expected type {} ({item}), found {oid}.", item.oid())));
    }
    let mut lengths = vec![];
    let mut items = 1usize;
    for _ in 0..count {
        let (length, lower) = (b.i32()?, b.i32()?);
        if length < 0 || lower.checked_add(length).is_none() {
            return Err(SqlError::new("54000", "array size exceeds the maximum allowed (134217727)"));
        }
        items = items.saturating_mul(length as usize);
        lengths.push(Dimension { length, lower })
    }
    if count == 0 || items == 0 {
        return Ok(ondol_types::array::empty(ty));
    }
    let mut builder = Builder::new(item);
    let mut scratch = vec![];
    // As many as the bytes have, however many they say that there are.
    for _ in 0..items {
        let value = b.item()?.map_or(Ok(Value::Null), |bytes| read_whole(bytes, Type::new(item)))?;
        builder.push(value.as_ref(&mut scratch))?
    }
    builder.finish(&lengths)
}

/// A value within another, which is of its very type.
fn read_whole(bytes: &[u8], ty: Type) -> SqlResult<Value> {
    let ctx = Context::EMPTY;
    match read(bytes, ty.id)? {
        Value::Text(t) if !matches!(ty.id.class(), Class::Text) => text::input(&t, ty, &ctx),
        Value::Opaque(TypeId::OID, b) if ty.id != TypeId::OID => {
            cast::cast(Value::Opaque(TypeId::OID, b), TypeId::OID, ty, false, &ctx)
        }
        value => cast::apply_typmod(value, ty, false, &ctx),
    }
}

fn read_record(b: &mut Bytes<'_>, ty: TypeId) -> SqlResult<Value> {
    let Some(fields) = ondol_types::user::composite::fields(ty) else {
        let message = "input of anonymous composite types is not implemented";
        return Err(SqlError::new("0A000", message));
    };
    let count = b.i32()?;
    if usize::try_from(count) != Ok(fields.len()) {
        let message = format!("wrong number of columns: {count}, expected {}", fields.len());
        return Err(SqlError::new("42804", message));
    }
    let mut values = Vec::with_capacity(fields.len());
    for (i, field) in fields.iter().enumerate() {
        let (oid, of) = (b.i32()? as u32, field.of());
        if is_other(oid, of.id.oid()) {
            let found = TypeId::from_oid(oid).map_or("???".to_string(), |t| t.to_string());
            let message = format!(
                "binary data has type {oid} ({found}) instead of expected {} ({}) in record column {}",
                of.id.oid(),
                of.id,
                i + 1
            );
            return Err(SqlError::new("42804", message));
        }
        values.push(match b.item()? {
            None => Value::Null,
            Some(bytes) => read_whole(bytes, of.base()).map_err(|e| match &e.0.message[..] {
                "incorrect binary data format" => {
                    invalid(format!("improper binary format in record column {}", i + 1))
                }
                _ => e,
            })?,
        });
    }
    record::of_values(ty, &values)
}

fn read_numeric(b: &mut Bytes<'_>) -> SqlResult<Numeric> {
    let (count, weight, sign, scale) = (b.u16()?, b.u16()? as i16, b.u16()?, b.u16()?);
    let sign = match sign {
        POSITIVE => "",
        NEGATIVE => "-",
        NAN => return Numeric::parse("NaN"),
        INFINITY => return Numeric::parse("Infinity"),
        MINUS_INFINITY => return Numeric::parse("-Infinity"),
        _ => return Err(invalid("invalid sign in external \"numeric\" value")),
    };
    if scale > 0x3fff {
        return Err(invalid("invalid scale in external \"numeric\" value"));
    }
    let mut groups = vec![];
    for _ in 0..count {
        match b.u16()? {
            n if n < 10_000 => groups.push(n),
            _ => return Err(invalid("invalid digit in external \"numeric\" value")),
        }
    }
    // Groups before the point: those that are there, and zeros.
    let before = usize::try_from(i32::from(weight) + 1).unwrap_or(0);
    let mut shown = String::from(sign);
    let group = |i: i32| usize::try_from(i).ok().and_then(|i| groups.get(i)).copied().unwrap_or(0);
    if before == 0 {
        shown.push('0')
    }
    for i in 0..before {
        shown.push_str(&format!("{:04}", group(i as i32)))
    }
    if scale > 0 {
        shown.push('.');
        let start = shown.len();
        let mut i = i32::from(weight) + 1;
        while shown.len() - start < usize::from(scale) {
            shown.push_str(&format!("{:04}", group(i)));
            i += 1
        }
        shown.truncate(start + usize::from(scale))
    }
    Numeric::parse(&shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(ty: TypeId, shown: &str) -> Value {
        text::input(shown, Type::new(ty), &Context::EMPTY).unwrap_or_else(|e| panic!("{ty} {shown}: {e}"))
    }
    fn bytes(ty: TypeId, shown: &str) -> Vec<u8> {
        let (v, mut scratch, mut out) = (value(ty, shown), vec![], vec![]);
        write(v.as_ref(&mut scratch), Type::new(ty), &mut out).unwrap();
        out
    }
    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    /// The short way of numerics gives what the long one gives.
    #[test]
    fn digits_are_the_same_both_ways() {
        let mut mantissas: Vec<i128> = (0..1000).collect();
        mantissas.extend((0..38).flat_map(|n| [10i128.pow(n), 10i128.pow(n) - 1, 7 * 10i128.pow(n) / 3]));
        mantissas.extend([u64::MAX.into(), i128::from(u64::MAX) + 1, i64::MIN.into()]);
        for mantissa in mantissas.iter().flat_map(|m| [*m, -*m]) {
            for scale in [0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 19, 20, 21, 37, 127] {
                let (mut stored, mut long) = (vec![], vec![]);
                Numeric::from_scaled(mantissa, scale).encode(&mut stored);
                write_long_numeric(ValueRef::Numeric(&stored), &mut long);
                match Digits::of(mantissa, scale) {
                    Some(short) => assert_eq!(hex(short.bytes()), hex(&long), "{mantissa} {scale}"),
                    None => assert!(mantissa.unsigned_abs() > 10u128.pow(35), "{mantissa} {scale}"),
                }
            }
        }
    }

    /// What PostgreSQL's send functions give.
    #[test]
    fn forms_are_postgresqls() {
        for (ty, shown, wanted) in [
            (TypeId::BOOL, "t", "01"),
            (TypeId::INT2, "-2", "fffe"),
            (TypeId::INT4, "258", "00000102"),
            (TypeId::INT8, "-1", "ffffffffffffffff"),
            (TypeId::FLOAT4, "1.5", "3fc00000"),
            (TypeId::FLOAT8, "-1.5", "bff8000000000000"),
            (TypeId::TEXT, "aé", "61c3a9"),
            (TypeId::BYTEA, "\\x00ff", "00ff"),
            (TypeId::DATE, "1999-12-31", "ffffffff"),
            (TypeId::TIMESTAMP, "2000-01-01 00:00:01", "00000000000f4240"),
            (TypeId::TIMESTAMPTZ, "infinity", "7fffffffffffffff"),
            (TypeId::TIME, "00:00:01", "00000000000f4240"),
            (TypeId::TIMETZ, "00:00:01+01", "00000000000f4240fffff1f0"),
            (TypeId::INTERVAL, "1 mon 2 days 00:00:01", "00000000000f42400000000200000001"),
            (TypeId::UUID, "00112233-4455-6677-8899-aabbccddeeff", "00112233445566778899aabbccddeeff"),
            (TypeId::OID, "4294967295", "ffffffff"),
            (TypeId::JSON, " [1]", "205b315d"),
            (TypeId::JSONB, " [1,2]", "015b312c20325d"),
            (TypeId::NAME, "abc", "616263"),
            (TypeId::NUMERIC, "0", "0000000000000000"),
            (TypeId::NUMERIC, "0.00", "0000000000000002"),
            (TypeId::NUMERIC, "1", "00010000000000000001"),
            (TypeId::NUMERIC, "-12345.678", "0003000140000003000109291a7c"),
            (TypeId::NUMERIC, "10000", "00010001000000000001"),
            (TypeId::NUMERIC, "0.0001", "0001ffff000000040001"),
            (TypeId::NUMERIC, "0.00000012", "0001fffe00000008000c"),
            (TypeId::NUMERIC, "NaN", "00000000c0000000"),
            (TypeId::NUMERIC, "-Infinity", "00000000f0000020"),
        ] {
            assert_eq!(hex(&bytes(ty, shown)), wanted, "{ty} {shown}");
        }
        let ints = TypeId::INT4.array().unwrap();
        assert_eq!(
            hex(&bytes(ints, "[0:1]={1,NULL}")),
            "00000001 00000001 00000017 00000002 00000000 00000004 00000001 ffffffff".replace(' ', "")
        );
        assert_eq!(hex(&bytes(ints, "{}")), "000000000000000000000017");
    }

    #[test]
    fn what_is_written_is_read_back() {
        let ints = TypeId::INT4.array().unwrap();
        let texts = TypeId::TEXT.array().unwrap();
        let numbers = TypeId::NUMERIC.array().unwrap();
        for (ty, all) in [
            (TypeId::BOOL, &["t", "f"][..]),
            (TypeId::INT2, &["-32768", "0", "32767"]),
            (TypeId::INT8, &["-9223372036854775808", "1"]),
            (TypeId::FLOAT8, &["NaN", "-Infinity", "1e300", "-0"]),
            (TypeId::FLOAT4, &["NaN", "1e30"]),
            (TypeId::DATE, &["infinity", "4714-11-24 BC", "5874897-12-31", "2024-02-29"]),
            (TypeId::TIMESTAMP, &["-infinity", "4714-11-24 00:00:00 BC", "294276-12-31 23:59:59.999999"]),
            (
                TypeId::NUMERIC,
                &[
                    "0",
                    "1",
                    "-1",
                    "0.1",
                    "9999",
                    "10000",
                    "123456789012345678901234567890.00100",
                    "0.000000000001",
                    "1e-20",
                    "1e40",
                    "100000000",
                    "0.00010000",
                    "NaN",
                    "Infinity",
                    "-0.5",
                    "12345.6",
                ],
            ),
            (TypeId::INTERVAL, &["-1 mon 2 days -00:00:00.000001"]),
            (TypeId::TIMETZ, &["23:59:59.5-07:30"]),
            (TypeId::UUID, &["00112233-4455-6677-8899-aabbccddeeff"]),
            (TypeId::TEXT, &["", "a\u{10ffff}"]),
            (TypeId::BYTEA, &["\\x", "\\x0001"]),
            (ints, &["{}", "{1,2,NULL}", "{{1,2},{3,4}}", "[-1:0]={5,6}"]),
            (texts, &["{a,NULL,\"\"}"]),
            (TypeId::JSON, &["{ \"b\": 1, \"b\": 2}"]),
            (TypeId::JSONB, &["{\"b\": [1.50, null, \"x\"], \"a\": {}}", "\"s\""]),
            (TypeId::JSONB.array().unwrap(), &["{NULL,\"[1, 2]\"}"]),
            (TypeId::JSON.array().unwrap(), &["{\"[1,2 ]\"}"]),
            (numbers, &["{1.50,NULL}"]),
        ] {
            for shown in all {
                let read = read(&bytes(ty, shown), ty).unwrap_or_else(|e| panic!("{ty} {shown}: {e}"));
                let (mut scratch, mut a, mut b) = (vec![], String::new(), String::new());
                text::output(read.as_ref(&mut scratch), Type::new(ty), &mut a);
                text::output(value(ty, shown).as_ref(&mut scratch), Type::new(ty), &mut b);
                assert_eq!(a, b, "{ty}");
            }
        }
    }

    #[test]
    fn what_is_no_value_is_refused() {
        let ints = TypeId::INT4.array().unwrap();
        for (ty, bytes, state) in [
            (TypeId::INT4, &[0, 0, 1][..], "08P01"),
            (TypeId::INT4, &[0, 0, 0, 1, 0], "22P03"),
            (TypeId::TEXT, &[b'a', 0xff], "22021"),
            (TypeId::TEXT, &[b'a', 0], "22021"),
            (TypeId::NUMERIC, &[0, 1, 0, 0, 0, 0, 0, 0, 0x27, 0x10], "22P03"),
            (TypeId::NUMERIC, &[0, 0, 0, 0, 0x12, 0, 0, 0], "22P03"),
            (TypeId::NUMERIC, &[0, 2, 0, 0, 0, 0, 0, 0, 0, 1], "08P01"),
            (TypeId::DATE, &[0x7f, 0xff, 0xff, 0xfe], "22008"),
            (TypeId::TIME, &[0xff; 8], "22008"),
            (TypeId::UUID, &[1, 2], "08P01"),
            (TypeId::JSON, b"[1", "22P02"),
            (TypeId::JSONB, b"\x01[1", "22P02"),
            (TypeId::JSONB, b"\x02[1]", "XX000"),
            (TypeId::JSONB, b"", "08P01"),
            (ints, &[0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 23], "54000"),
            (ints, &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 25, 0, 0, 0, 1, 0, 0, 0, 1], "42804"),
            (ints, &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0], "08P01"),
            (ints, &[0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 23, 0, 0, 0, 1, 0, 0, 0, 1], "22P03"),
            (TypeId::OIDVECTOR, &[], "0A000"),
        ] {
            assert_eq!(read(bytes, ty).expect_err("no value").sqlstate(), state, "{ty} {bytes:?}");
        }
    }
}
