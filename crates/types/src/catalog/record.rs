//! Rows as values: of composite types, and of type `record`, whose fields only the value itself tells.
//!
//! ```text
//! fields u16 | (type u16, end u32) for each field | the fields' bytes
//! ```
//!
//! - **R1** Ends are counted from the first field's start on; the highest bit of one marks a NULL, which has
//!   no bytes. A field's bytes are those that it would have in an array. Numbers begin with the lowest byte.
//! - **R2** The type of a field is stored by a number that holds for ever: of a type that users define it is
//!   that of all types alike, so that a row tells how it is compared without its type, and its type how it is
//!   shown. In a value of type `record`, which is never stored, it is the number that the process has.
//! - **R3** Fields that are missing at the end are NULL: a type may get another field. So keys leave NULLs at
//!   the end out.
//! - **R4** char(n) is padded with blanks, as in an array (array/A4).
//! - **R5** Whatever a damaged file holds, no function panics: bytes that are no row are one without fields.
//! - **R6** Rows are compared field by field, a NULL being equal to a NULL and greater than all else.
//! - **R7** Behind the fields of a value of type `record` there may be their names, each behind its length
//!   (u16): what makes JSON of a row asks for them, and nothing else does.
//!
//! Source: PostgreSQL 15's documentation, 8.16 and 9.24, and its answers.

use super::{Form, Key, comparisons};
use crate::func::operator::binary;
use crate::func::{Call, Context, OperatorDef, functions, internal};
use crate::style::Styles;
use crate::ty::Class;
use crate::user::{Part, UserDef, composite};
use crate::{SqlError, SqlResult, Type, TypeId, Value, ValueRef, array, cast, key, sqlstate, text, value};
use std::borrow::Cow;
use std::cmp::Ordering;

pub(crate) static FORM: Form = Form {
    width: None,
    input: read,
    output: |ty, bytes, out| write_styled(ty, bytes, &Styles::USUAL, out),
    compare: |a, b| compare(&Record::of(a), &Record::of(b)),
    key: Key::Ended(push_key),
};

/// The most fields.
pub const MAX_FIELDS: usize = 1664;
const NULL: u32 = 1 << 31;

/// A row, read where its bytes are.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    fields: &'a [[u8; 6]],
    data: &'a [u8],
}

impl<'a> Record<'a> {
    /// A row's bytes; one without fields for bytes that are none (R5).
    pub fn of(bytes: &'a [u8]) -> Record<'a> {
        Record::read(bytes).unwrap_or(Record { fields: &[], data: &[] })
    }

    fn read(bytes: &'a [u8]) -> Option<Record<'a>> {
        let (count, rest) = bytes.split_first_chunk()?;
        let (fields, data) = rest.split_at_checked(6 * usize::from(u16::from_le_bytes(*count)))?;
        Some(Record { fields: fields.as_chunks().0, data })
    }

    pub fn len(&self) -> usize {
        self.fields.len()
    }
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    fn number(&self, i: usize) -> u16 {
        self.fields.get(i).map_or(0, |f| u16::from_le_bytes([f[0], f[1]]))
    }

    fn end(&self, i: usize) -> u32 {
        self.fields.get(i).map_or(NULL, |f| u32::from_le_bytes([f[2], f[3], f[4], f[5]]))
    }

    pub fn is_null(&self, i: usize) -> bool {
        self.end(i) & NULL != 0
    }

    fn bytes(&self, i: usize) -> &'a [u8] {
        let start = i.checked_sub(1).map_or(0, |b| self.end(b) & !NULL);
        self.data.get(start as usize..(self.end(i) & !NULL) as usize).unwrap_or(&[])
    }

    /// The type of a field as its number tells.
    pub fn ty(&self, i: usize) -> TypeId {
        of_number(self.number(i))
    }

    /// A field as a value of a type, which its own must be, or be like.
    pub fn field(&self, i: usize, ty: TypeId) -> ValueRef<'a> {
        if self.is_null(i) || number_alike(self.ty(i)) != number_alike(ty) {
            return ValueRef::Null;
        }
        array::read_stored(ty, self.bytes(i))
    }

    /// The names that a value of type `record` has (R7); none if it has none.
    fn names(&self) -> Vec<&'a str> {
        let end = self.len().checked_sub(1).map_or(0, |last| self.end(last) & !NULL);
        let mut rest = self.data.get(end as usize..).unwrap_or(&[]);
        let mut names = Vec::new();
        while let Some((length, behind)) = rest.split_first_chunk() {
            let length = usize::from(u16::from_le_bytes(*length));
            let Some((name, behind)) = behind.split_at_checked(length) else { break };
            names.push(std::str::from_utf8(name).unwrap_or_default());
            rest = behind;
        }
        names
    }

    /// A field, to be compared: of a type that stands for all alike.
    fn comparable(&self, i: usize) -> (ValueRef<'a>, TypeId) {
        let ty = of_number(number_alike(self.ty(i)));
        (array::comparable(self.field(i, ty), ty), ty)
    }
}

/// The fields of a row with their names, those that the type has, the value (R7), or `f1` and so on.
pub(crate) fn named_fields(ty: TypeId, bytes: &[u8]) -> Vec<(Cow<'_, str>, ValueRef<'_>)> {
    let record = Record::of(bytes);
    if let Some(fields) = composite::fields(ty) {
        let each = |(i, p): (usize, &'static Part)| {
            (Cow::Borrowed(p.name.as_str()), record.field(i, p.of().base().id))
        };
        return fields.iter().enumerate().map(each).collect();
    }
    let names = record.names();
    let name = |i: usize| match names.get(i) {
        Some(name) => Cow::Borrowed(*name),
        None => Cow::Owned(format!("f{}", i + 1)),
    };
    (0..record.len()).map(|i| (name(i), record.field(i, record.ty(i)))).collect()
}

/// The number that stands for a type and all that are alike (R2).
fn number_alike(ty: TypeId) -> u16 {
    match ty.element() {
        Some(item) if item.is_user() => match Type::new(item).base().id {
            base if base == item => TypeId::TEXT.of_arrays().number(),
            base => number_alike(base.of_arrays()),
        },
        // What they are made of, they tell.
        Some(_) => ty.number(),
        None if ty == TypeId::UNKNOWN => TypeId::TEXT.number(),
        None => ty.item_number(),
    }
}

/// The type of such a number, or of one that the process has.
fn of_number(number: u16) -> TypeId {
    let own = TypeId::of_number(number);
    if own == TypeId::RECORD.of_arrays() {
        return own;
    }
    let known = TypeId::from_number(number).or_else(|| TypeId::from_item_number(number));
    known.or_else(|| own.user().map(|_| own)).unwrap_or(TypeId::UNKNOWN)
}

/// The fields' types of a composite type; none of another.
fn types_of(ty: TypeId) -> Vec<Type> {
    composite::fields(ty).map_or(Vec::new(), |f| f.iter().map(|p| p.of().base()).collect())
}

/// A row that is being made.
pub(crate) struct Builder {
    ty: TypeId,
    fields: Vec<u8>,
    data: Vec<u8>,
}

impl Builder {
    pub fn new(ty: TypeId) -> Builder {
        Builder { ty, fields: Vec::new(), data: Vec::new() }
    }

    /// The bytes taken so far.
    pub fn bytes(&self) -> usize {
        self.fields.len() + self.data.len()
    }

    /// Another field.
    pub fn push(&mut self, v: ValueRef<'_>, of: Type) -> SqlResult<()> {
        let null = v.is_null();
        match v {
            ValueRef::Null => {}
            ValueRef::Text(s) if of.id == TypeId::BPCHAR => {
                self.data.extend_from_slice(s.as_bytes());
                let missing = of.char_len().map_or(0, |n| n.saturating_sub(s.chars().count()));
                self.data.extend(std::iter::repeat_n(b' ', missing));
            }
            // A value keeps the number that its type had, which another change may have given another.
            ValueRef::Opaque(was, b) if number_alike(was) == number_alike(of.id) => {
                self.data.extend_from_slice(b)
            }
            v if array::write_stored(v, of.id, &mut self.data) => {}
            v => return Err(internal(format!("a field of type {} was given {v:?}", of.id))),
        }
        let number = if self.ty == TypeId::RECORD { of.id.number() } else { number_alike(of.id) };
        let end = u32::try_from(self.data.len())
            .ok()
            .filter(|e| e & NULL == 0)
            .ok_or_else(|| SqlError::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, "row is too large"))?;
        self.fields.extend_from_slice(&number.to_le_bytes());
        self.fields.extend_from_slice(&(end | if null { NULL } else { 0 }).to_le_bytes());
        Ok(())
    }

    pub fn finish(self) -> Value {
        let mut bytes = Vec::with_capacity(2 + self.fields.len() + self.data.len());
        bytes.extend_from_slice(&((self.fields.len() / 6) as u16).to_le_bytes());
        bytes.extend_from_slice(&self.fields);
        bytes.extend_from_slice(&self.data);
        Value::Opaque(self.ty, bytes.into())
    }
}

/// A row of a composite type, of values that are of its fields' types.
pub fn of_values(ty: TypeId, values: &[Value]) -> SqlResult<Value> {
    let mut out = Builder::new(ty);
    let mut scratch = Vec::new();
    for (v, of) in values.iter().zip(types_of(ty)) {
        out.push(v.as_ref(&mut scratch), of)?;
    }
    Ok(out.finish())
}

/// What tells a function the type of the rows to make: of `record`, with the names and types of the fields.
pub fn template(ty: TypeId, fields: &[(String, Type)]) -> Value {
    let mut out = Builder::new(ty);
    if ty == TypeId::RECORD {
        for (name, ty) in fields {
            out.data.extend_from_slice(name.as_bytes());
            out.fields.extend_from_slice(&ty.id.number().to_le_bytes());
            out.fields.extend_from_slice(&(out.data.len() as u32).to_le_bytes());
        }
    }
    out.finish()
}

/// The names and types that a template was made with.
pub fn template_fields(ty: TypeId, bytes: &[u8]) -> Vec<(String, Type)> {
    if let Some(fields) = composite::fields(ty) {
        return fields.iter().map(|p| (p.name.clone(), p.of().base())).collect();
    }
    let record = Record::of(bytes);
    let name = |i: usize| String::from_utf8_lossy(record.bytes(i)).into_owned();
    (0..record.len()).map(|i| (name(i), Type::new(record.ty(i)))).collect()
}

/// The order of rows (R3, R6).
fn compare(a: &Record<'_>, b: &Record<'_>) -> Ordering {
    let one = |i: usize| value::compare(a.comparable(i).0, b.comparable(i).0);
    (0..a.len().max(b.len())).map(one).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
}

const KEY_FIELD: u8 = 1;
const KEY_NULL: u8 = 2;
/// All that might follow is NULL, so it is greater than one that something follows.
const KEY_END: u8 = 3;

/// The fields up to the last that is not NULL, each behind a byte that says that it follows or is NULL; an
/// end.
fn push_key(bytes: &[u8], out: &mut Vec<u8>) {
    let record = Record::of(bytes);
    let count = (0..record.len()).rev().find(|i| !record.is_null(*i)).map_or(0, |last| last + 1);
    for i in 0..count {
        let (v, ty) = record.comparable(i);
        if v.is_null() {
            out.push(KEY_NULL);
        } else {
            out.push(KEY_FIELD);
            key::encode(v, ty, false, false, true, out);
        }
    }
    out.push(KEY_END);
}

// ---- text -------------------------------------------------------------------------------------------------

/// Appends a row's text in a session's styles.
pub(crate) fn write_styled(ty: TypeId, bytes: &[u8], styles: &Styles, out: &mut String) {
    let record = Record::of(bytes);
    let mut types = types_of(ty);
    if composite::fields(ty).is_none() {
        types = (0..record.len()).map(|i| Type::new(record.ty(i))).collect();
    }
    out.push('(');
    let mut field = String::new();
    for (i, ty) in types.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        let v = record.field(i, ty.id);
        if v.is_null() {
            continue;
        }
        field.clear();
        text::styled(v, *ty, styles, &mut field);
        let special = |c: u8| matches!(c, b'"' | b'\\' | b'(' | b')' | b',') || text::is_space(c);
        if !field.is_empty() && !field.bytes().any(special) {
            out.push_str(&field);
            continue;
        }
        out.push('"');
        for c in field.chars() {
            if matches!(c, '"' | '\\') {
                out.push(c);
            }
            out.push(c);
        }
        out.push('"');
    }
    out.push(')');
}

/// Whether the text of a type's values depends on the session's styles.
pub(crate) fn is_styled(ty: TypeId) -> bool {
    ty == TypeId::RECORD || types_of(ty).iter().any(|t| text::is_styled(t.id))
}

fn malformed(written: &str, detail: &str) -> SqlError {
    let message = format!("malformed record literal: \"{written}\"");
    SqlError::new(sqlstate::INVALID_TEXT_REPRESENTATION, message).detail(detail)
}

/// Reads a row of a composite type.
fn read(written: &str, ty: Type, ctx: &Context<'_>) -> SqlResult<Value> {
    let Some(fields) = composite::fields(ty.id) else {
        let message = "input of anonymous composite types is not implemented";
        return Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message));
    };
    let bad = |detail: &str| malformed(written, detail);
    let all = written.as_bytes();
    let mut at = all.len() - text::skip_space(all).len();
    let peek = |at: usize| all.get(at).copied();
    if peek(at) != Some(b'(') {
        return Err(bad("Missing left parenthesis."));
    }
    at += 1;
    let mut out = Builder::new(ty.id);
    for (i, field) in fields.iter().enumerate() {
        ctx.limits.turn(i)?;
        if i > 0 {
            if peek(at) != Some(b',') {
                return Err(bad("Too few columns."));
            }
            at += 1;
        }
        let of = field.of().base();
        if matches!(peek(at), Some(b',' | b')')) {
            out.push(ValueRef::Null, of)?;
            continue;
        }
        let (mut item, mut quoted) = (Vec::new(), false);
        while quoted || !matches!(peek(at), Some(b',' | b')')) {
            let Some(c) = peek(at) else { return Err(bad("Unexpected end of input.")) };
            at += 1;
            match c {
                b'\\' => {
                    let Some(c) = peek(at) else { return Err(bad("Unexpected end of input.")) };
                    item.push(c);
                    at += 1;
                }
                b'"' if !quoted => quoted = true,
                b'"' if peek(at) == Some(b'"') => {
                    item.push(b'"');
                    at += 1;
                }
                b'"' => quoted = false,
                c => item.push(c),
            }
        }
        // Only ASCII was taken away.
        let item = String::from_utf8(item).unwrap_or_default();
        out.push(text::input(&item, of, ctx)?.as_ref(&mut Vec::new()), of)?;
    }
    if peek(at) != Some(b')') {
        return Err(bad("Too many columns."));
    }
    if !text::skip_space(&all[at + 1..]).is_empty() {
        return Err(bad("Junk after right parenthesis."));
    }
    Ok(out.finish())
}

// ---- casts ------------------------------------------------------------------------------------------------

/// Whether it is a type of rows.
pub fn is_row(ty: TypeId) -> bool {
    ty == TypeId::RECORD || composite::fields(ty).is_some()
}

/// Whether bytes that come from outside are a row of a type.
pub(crate) fn is_whole(ty: TypeId, bytes: &[u8]) -> bool {
    let Some(record) = Record::read(bytes) else { return false };
    let types = types_of(ty);
    let of = |i: usize| if ty == TypeId::RECORD { Some(record.ty(i)) } else { types.get(i).map(|t| t.id) };
    let fits = |i: usize| {
        let Some(of) = of(i).filter(|t| number_alike(*t) == number_alike(record.ty(i))) else { return false };
        let bytes = record.bytes(i);
        record.is_null(i)
            || match of.class() {
                Class::Text => std::str::from_utf8(bytes).is_ok_and(|s| !s.contains('\0')),
                Class::Opaque(_) => of.admits(bytes),
                _ => true,
            }
    };
    let ends = |i: usize| record.end(i) & !NULL;
    let last = record.len().checked_sub(1).map_or(0, ends);
    last as usize == record.data.len()
        && (1..record.len()).all(|i| ends(i - 1) <= ends(i))
        && (0..record.len()).all(fits)
}

/// A row of a composite type as one of `record`.
pub(crate) fn anonymous(bytes: &[u8], from: TypeId) -> SqlResult<Value> {
    let record = Record::of(bytes);
    let mut out = Builder::new(TypeId::RECORD);
    for (i, of) in types_of(from).iter().enumerate() {
        out.push(record.field(i, of.id), *of)?;
    }
    Ok(out.finish())
}

/// Whether rows of the first type are rows of the second, which it has become by getting more fields.
pub fn are_one(from: TypeId, to: TypeId) -> bool {
    let composite = |t: TypeId| t.user().filter(|u: &&UserDef| u.is_composite() && !t.is_array());
    let is_kept = |(a, b): (&Part, &Part)| a.key == b.key && a.ty == b.ty;
    composite(from).zip(composite(to)).is_some_and(|(a, b)| {
        a.is_same_type(b) && a.parts.len() <= b.parts.len() && a.parts.iter().zip(&b.parts).all(is_kept)
    })
}

// ---- functions --------------------------------------------------------------------------------------------

functions! {
    // An item of an array and its place, as `information_schema._pg_expandarray` gives them.
    1284 EXPANDED "$expanded" (Any, Int4) -> Record = |c| expanded(c), lax;
    1285 EXPANDED_ITEM "$expanded_item" (Record) -> Int2 =
        |c| Ok(Record::of(row(c, 0)?).field(0, TypeId::INT2).to_owned());
    // There are no partitions.
    1289 PARTITION_ANCESTORS "$partition_ancestors" (Regclass) -> RegclassArray =
        |_| Ok(crate::array::empty(TypeId::REGCLASS.of_arrays()));
    1286 EXPANDED_PLACE "$expanded_place" (Record) -> Int4 =
        |c| Ok(Record::of(row(c, 0)?).field(1, TypeId::INT4).to_owned());
    // (the template, the fields)
    1420 ROW "$row" (Any) -> AnyElement = |c| of_fields(c), lax, variadic;
    // (the template, the row): the row with the names of its fields (R7)
    1575 NAMED_ROW "$named_row" (Any, Record) -> Record = |c| with_names(c);
    // (the row, the field's place)
    1421 FIELD "$field" (Any, Int4) -> AnyElement = |c| field(c);
    // (the template, the row, the field's place, the value)
    1422 WITH_FIELD "$with_field" (Any, Any, Int4, Any) -> AnyElement = |c| with_field(c), lax;
    1423 ALL_NULL "$all_null" (Any) -> Bool = |c| all(c, true), lax;
    1424 NONE_NULL "$none_null" (Any) -> Bool = |c| all(c, false), lax;
    1425 RECORD_EQ "record_eq" (Record, Record) -> Bool = |c| is_equal(c).map(Value::Bool);
    1426 RECORD_NE "record_ne" (Record, Record) -> Bool = |c| is_equal(c).map(|e| Value::Bool(!e));
    1427 RECORD_LT "record_lt" (Record, Record) -> Bool = |c| order(c).map(|o| Value::Bool(o.is_lt()));
    1428 RECORD_LE "record_le" (Record, Record) -> Bool = |c| order(c).map(|o| Value::Bool(o.is_le()));
    1429 RECORD_GE "record_ge" (Record, Record) -> Bool = |c| order(c).map(|o| Value::Bool(o.is_ge()));
    1430 RECORD_GT "record_gt" (Record, Record) -> Bool = |c| order(c).map(|o| Value::Bool(o.is_gt()));
    1431 RECORD_ORDER "btrecordcmp" (Record, Record) -> Int4 = |c| order(c).map(|o| Value::Int4(o as i32));
    1432 RECORD_IMAGE_EQ "record_image_eq" (Record, Record) -> Bool =
        |c| image_order(c).map(|o| Value::Bool(o.is_eq()));
    1433 RECORD_IMAGE_NE "record_image_ne" (Record, Record) -> Bool =
        |c| image_order(c).map(|o| Value::Bool(o.is_ne()));
    1804 RECORD_IMAGE_LT "record_image_lt" (Record, Record) -> Bool =
        |c| image_order(c).map(|o| Value::Bool(o.is_lt()));
    1805 RECORD_IMAGE_LE "record_image_le" (Record, Record) -> Bool =
        |c| image_order(c).map(|o| Value::Bool(o.is_le()));
    1806 RECORD_IMAGE_GE "record_image_ge" (Record, Record) -> Bool =
        |c| image_order(c).map(|o| Value::Bool(o.is_ge()));
    1807 RECORD_IMAGE_GT "record_image_gt" (Record, Record) -> Bool =
        |c| image_order(c).map(|o| Value::Bool(o.is_gt()));
    1808 RECORD_IMAGE_ORDER "btrecordimagecmp" (Record, Record) -> Int4 =
        |c| image_order(c).map(|o| Value::Int4(o as i32));
}

const R: TypeId = TypeId::RECORD;

/// The operators of rows.
pub(crate) const OPERATORS: &[&[OperatorDef]] = &[
    &comparisons(
        (R, R),
        [id::RECORD_LT, id::RECORD_LE, id::RECORD_EQ, id::RECORD_NE, id::RECORD_GE, id::RECORD_GT],
    ),
    &[
        binary("*=", R, R, id::RECORD_IMAGE_EQ, "*=", "*<>"),
        binary("*<>", R, R, id::RECORD_IMAGE_NE, "*<>", "*="),
        binary("*<", R, R, id::RECORD_IMAGE_LT, "*>", "*>="),
        binary("*<=", R, R, id::RECORD_IMAGE_LE, "*>=", "*>"),
        binary("*>=", R, R, id::RECORD_IMAGE_GE, "*<=", "*<"),
        binary("*>", R, R, id::RECORD_IMAGE_GT, "*<", "*<="),
    ],
];

/// An argument that is a row of any type: a composite one stands where `record` is declared as it is.
fn row<'a>(c: &Call<'a>, i: usize) -> SqlResult<&'a [u8]> {
    typed_row(c, i).map(|r| r.1)
}

fn typed_row<'a>(c: &Call<'a>, i: usize) -> SqlResult<(TypeId, &'a [u8])> {
    match c.args.get(i) {
        Some(ValueRef::Opaque(ty, b)) if is_row(*ty) => Ok((*ty, b)),
        other => Err(internal(format!("a function of rows was given {other:?}"))),
    }
}

fn expanded(c: &Call<'_>) -> SqlResult<Value> {
    let mut out = Builder::new(TypeId::RECORD);
    let item = c.args.first().copied().unwrap_or(ValueRef::Null);
    out.push(item, Type::new(item.to_owned().type_id().unwrap_or(TypeId::TEXT)))?;
    out.push(ValueRef::Int4(c.int4(1)?), Type::INT4)?;
    Ok(out.finish())
}

fn of_fields(c: &Call<'_>) -> SqlResult<Value> {
    let (ty, template) = typed_row(c, 0)?;
    let mut out = Builder::new(ty);
    let types = types_of(ty);
    let template = Record::of(template);
    for (i, v) in c.args[1..].iter().enumerate() {
        let of = match ty {
            TypeId::RECORD => Type::new(template.ty(i)),
            _ => types.get(i).copied().ok_or_else(|| internal("a row was given too many fields"))?,
        };
        out.push(*v, of)?;
    }
    c.ctx.limits.take(out.data.len())?;
    Ok(out.finish())
}

fn with_names(c: &Call<'_>) -> SqlResult<Value> {
    let ((ty, template), (of, row)) = (typed_row(c, 0)?, typed_row(c, 1)?);
    let mut bytes = row.to_vec();
    if of == TypeId::RECORD && Record::of(row).names().is_empty() {
        for (name, _) in template_fields(ty, template) {
            bytes.extend_from_slice(&(name.len() as u16).to_le_bytes());
            bytes.extend_from_slice(name.as_bytes());
        }
    }
    Ok(Value::Opaque(of, bytes.into()))
}

/// The type of a field of a value.
fn field_type(ty: TypeId, record: &Record<'_>, i: usize) -> TypeId {
    match composite::fields(ty) {
        Some(fields) => fields.get(i).map_or(TypeId::UNKNOWN, |p| p.of().base().id),
        None => record.ty(i),
    }
}

fn place(c: &Call<'_>, i: usize) -> SqlResult<usize> {
    c.int4(i).map(|n| usize::try_from(n).unwrap_or(usize::MAX))
}

fn field(c: &Call<'_>) -> SqlResult<Value> {
    let ((ty, bytes), i) = (typed_row(c, 0)?, place(c, 1)?);
    let record = Record::of(bytes);
    Ok(record.field(i, field_type(ty, &record, i)).to_owned())
}

fn with_field(c: &Call<'_>) -> SqlResult<Value> {
    let ((ty, _), n) = (typed_row(c, 0)?, place(c, 2)?);
    let bytes = if c.args[1].is_null() { &[] } else { row(c, 1)? };
    let record = Record::of(bytes);
    let mut out = Builder::new(ty);
    for (i, of) in types_of(ty).iter().enumerate() {
        out.push(if i == n { c.args[3] } else { record.field(i, of.id) }, *of)?;
    }
    Ok(out.finish())
}

/// Whether all fields are NULL, or none; a row that is NULL has no others.
fn all(c: &Call<'_>, null: bool) -> SqlResult<Value> {
    if c.args[0].is_null() {
        return Ok(Value::Bool(null));
    }
    let (ty, bytes) = typed_row(c, 0)?;
    let record = Record::of(bytes);
    let count = composite::fields(ty).map_or(record.len(), <[_]>::len);
    Ok(Value::Bool((0..count).all(|i| record.is_null(i) == null)))
}

/// The two rows that are compared, and how many fields each has by its type.
fn two<'a>(c: &Call<'a>) -> SqlResult<[(TypeId, Record<'a>, usize); 2]> {
    let one = |i: usize| {
        let (ty, bytes) = typed_row(c, i)?;
        let record = Record::of(bytes);
        Ok((ty, record, composite::fields(ty).map_or(record.len(), <[_]>::len)))
    };
    Ok([one(0)?, one(1)?])
}

/// The first difference of two rows, `None` if they have none: whether fields are equal is asked first, as
/// PostgreSQL does, and whether there are as many of them at last.
fn first_difference(c: &Call<'_>, with: fn(ValueRef<'_>, ValueRef<'_>) -> Ordering) -> SqlResult<Ordering> {
    let [(s, a, n), (t, b, m)] = two(c)?;
    for i in 0..n.min(m) {
        c.ctx.limits.turn(i)?;
        let (x, y) = (field_type(s, &a, i), field_type(t, &b, i));
        let is_same = x == y || x.user().zip(y.user()).is_some_and(|(x, y)| x.is_same_type(y));
        if !is_same {
            let message =
                format!("cannot compare dissimilar column types {x} and {y} at record column {}", i + 1);
            return Err(SqlError::new(sqlstate::DATATYPE_MISMATCH, message));
        }
        let order = with(a.comparable(i).0, b.comparable(i).0);
        if order.is_ne() {
            return Ok(order);
        }
    }
    if n != m {
        let message = "cannot compare record types with different numbers of columns";
        return Err(SqlError::new(sqlstate::DATATYPE_MISMATCH, message));
    }
    Ok(Ordering::Equal)
}

fn order(c: &Call<'_>) -> SqlResult<Ordering> {
    first_difference(c, value::compare)
}

fn is_equal(c: &Call<'_>) -> SqlResult<bool> {
    order(c).map(Ordering::is_eq)
}

/// The order of fields by the bytes that PostgreSQL has of them: they are the same, not merely equal, or one
/// comes first, by no order that means anything. Of numerics, and of what has a form of its own here, the
/// bytes are others: they are in their usual order, and those that are equal in that of their texts.
fn image_order(c: &Call<'_>) -> SqlResult<Ordering> {
    /// What lies in a word, which PostgreSQL compares without sign.
    fn word(v: ValueRef<'_>) -> Option<u64> {
        Some(match v {
            ValueRef::Bool(b) => b.into(),
            ValueRef::Int2(n) => i64::from(n) as u64,
            ValueRef::Int4(n) | ValueRef::Date(n) => i64::from(n) as u64,
            ValueRef::Int8(n) | ValueRef::Timestamp(n) | ValueRef::Timestamptz(n) => n as u64,
            ValueRef::Float8(f) => f.to_bits(),
            _ => return None,
        })
    }
    first_difference(c, |a, b| match (a, b) {
        (ValueRef::Text(a), ValueRef::Text(b)) => a.cmp(b),
        (ValueRef::Bytea(a), ValueRef::Bytea(b)) => a.cmp(b),
        _ => match (word(a), word(b)) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ if a.to_owned().is_same(&b.to_owned()) => Ordering::Equal,
            _ => value::compare(a, b).then_with(|| a.to_owned().to_string().cmp(&b.to_owned().to_string())),
        },
    })
}

/// A cast between two types of rows; `None` if there is none by a value alone.
pub(crate) fn cast_context(from: TypeId, to: TypeId) -> Option<cast::CastContext> {
    let composite = |t: TypeId| composite::fields(t).is_some();
    (composite(from) && (to == TypeId::RECORD || are_one(from, to))
        || from == TypeId::RECORD && composite(to))
    .then_some(cast::CastContext::Implicit)
}

/// Rows of an int4 and a text.
#[cfg(test)]
pub(crate) fn samples() -> Vec<Value> {
    use ValueRef::{Int4, Null, Text};
    let rows =
        [[Int4(-1), Text("b")], [Int4(1), Text("")], [Int4(1), Text("a")], [Int4(1), Null], [Null, Null]];
    let made = rows.map(|row| {
        let mut out = Builder::new(TypeId::RECORD);
        for (v, of) in row.into_iter().zip([Type::INT4, Type::TEXT]) {
            out.push(v, of).expect("a field");
        }
        out.finish()
    });
    made.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::user::UserDef;

    fn pair() -> TypeId {
        let fields = vec![("a".into(), Type::INT4), ("b".into(), Type::TEXT)];
        let def = composite::define(2200, "pair", fields).expect("a definition");
        UserDef { number: 90_001, array: 90_002, ..def }.type_id().expect("a type")
    }

    fn of(text: &str) -> SqlResult<Value> {
        read(text, Type::new(pair()), &Context::EMPTY)
    }

    fn bytes(text: &str) -> Box<[u8]> {
        match of(text).expect("a row") {
            Value::Opaque(_, b) => b,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn text_is_read_back() {
        for (text, shown) in [
            ("(1,x)", "(1,x)"),
            (" ( 2 ,x y) ", "(2,\"x y\")"),
            ("(,)", "(,)"),
            ("(3,\"\")", "(3,\"\")"),
            (r#"(4,"a""b\\c")"#, r#"(4,"a""b\\c")"#),
            (r"(5,a\,b)", "(5,\"a,b\")"),
            ("(6,\"x\"y)", "(6,xy)"),
        ] {
            let v = of(text).expect(text);
            assert_eq!(v.to_string(), shown, "{text}");
            assert_eq!(of(shown), Ok(v));
        }
        for (text, detail) in [
            ("1,x", "Missing left parenthesis."),
            ("(1)", "Too few columns."),
            ("(1,2,3)", "Too many columns."),
            ("(1,x", "Unexpected end of input."),
            ("(1,x)y", "Junk after right parenthesis."),
        ] {
            assert_eq!(of(text).expect_err(text).0.detail.as_deref(), Some(detail), "{text}");
        }
    }

    #[test]
    fn keys_have_the_order_of_rows() {
        let rows = ["(,)", "(1,)", "(1,a)", "(1,\"a \")", "(1,b)", "(2,a)", "(-7,)", "(,a)"];
        for a in rows {
            for b in rows {
                let (x, y) = (bytes(a), bytes(b));
                let [mut k, mut l] = [Vec::new(), Vec::new()];
                push_key(&x, &mut k);
                push_key(&y, &mut l);
                assert_eq!((FORM.compare)(&x, &y), k.cmp(&l), "{a} {b}");
            }
        }
    }

    #[test]
    fn a_field_that_came_later_is_null() {
        let def = pair().user().expect("a definition").clone();
        let more = def.with_field("c", Type::INT8).expect("a field").type_id().expect("a type");
        let old = bytes("(1,x)");
        assert_eq!(Value::Opaque(more, old.clone()).to_string(), "(1,x,)");
        let Ok(Value::Opaque(_, new)) = read("(1,x,)", Type::new(more), &Context::EMPTY) else { panic!() };
        let [mut k, mut l] = [Vec::new(), Vec::new()];
        push_key(&old, &mut k);
        push_key(&new, &mut l);
        assert_eq!(((FORM.compare)(&old, &new), k), (Ordering::Equal, l));
    }

    #[test]
    fn damaged_bytes_are_no_reason_to_panic() {
        let whole = bytes("(1,xyz)");
        for cut in 0..whole.len() {
            for flip in [0, 1, 0x80, 0xff] {
                let mut damaged = whole.to_vec();
                damaged[cut] ^= flip;
                for b in [&damaged[..], &damaged[..cut]] {
                    let mut out = String::new();
                    write_styled(pair(), b, &Styles::USUAL, &mut out);
                    push_key(b, &mut Vec::new());
                    let _ = (FORM.compare)(b, &whole);
                }
            }
        }
    }
}
