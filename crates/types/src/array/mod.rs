//! Arrays: of every type that can be an item, with one layout and one set of functions.
//!
//! ```text
//! item's type u16 | dimensions u8 | flags u8 | (length u32, lower bound i32) for each dimension | null bits | items
//! ```
//!
//! - **A1** The items stand in the order of their subscripts, the last counting fastest. An array without
//!   items has no dimensions; no length is zero. Numbers have their lowest byte first.
//!   Of items of a type that users define, the bytes tell its kind, and the array's type which it is.
//! - **A2** There are null bits only if a flag says so: a set bit is a NULL.
//! - **A3** Items of a type whose values have one width stand side by side, a NULL as zeros. Of other types,
//!   the ends of all items come first (u32, from the first item's start on), and then their bytes: so any
//!   item is found at once.
//! - **A4** char(n) is padded with blanks in an array, since the text of an array shows them and does not
//!   know n; so an item is a value of bpchar. [`Array::item`] gives it without its blanks, to be compared.
//! - **A5** Whatever a damaged file holds, no function panics: bytes that are no array are an empty one.
//! - **A6** Arrays are compared item by item, a NULL being equal to a NULL and greater than all else; then
//!   the one of fewer items, dimensions, shorter dimensions and lower bounds is less.
//!
//! The parts: `text` reads and writes, `subscript` finds and sets items and slices, `function` has the table
//! of functions, `aggregate` gathers rows.
//!
//! Not here: which types have arrays ([`crate::ty`]), and what the polymorphic functions take
//! ([`crate::resolve`]).
//!
//! Source: PostgreSQL 15's documentation, 8.15 and 9.19, and its answers.

mod aggregate;
mod function;
mod subscript;
mod text;

pub use subscript::MAX_SUBSCRIPTS;

use crate::cast;
use crate::catalog::{Form, Key};
use crate::func::{Context, FuncDef, internal};
use crate::style::Styles;
use crate::ty::Class;
use crate::{SqlError, SqlResult, Type, TypeId, Value, ValueRef, key, sqlstate, value};
use std::cmp::Ordering;

pub(crate) use aggregate::Gathered;
pub(crate) use function::{OPERATORS, id};
/// The functions of arrays.
pub(crate) const DEFS: &[FuncDef] = function::DEFS;

/// The most dimensions.
pub(crate) const MAX_DIMENSIONS: usize = 6;
/// The most items of an array.
const MAX_ITEMS: usize = 134_217_727;
/// The flag of null bits.
const HAS_NULLS: u8 = 1;

/// Appends an array's text in a session's styles.
pub(crate) fn write_styled(ty: TypeId, bytes: &[u8], styles: &Styles, out: &mut String) {
    text::write(&Array::of_type(ty, bytes), styles, out)
}

/// The form of every type of arrays.
pub(crate) static FORM: Form = Form {
    width: None,
    input: text::read,
    output: |ty, bytes, out| write_styled(ty, bytes, &Styles::USUAL, out),
    compare: |a, b| compare(&Array::of(a), &Array::of(b)),
    key: Key::Ended(push_key),
};

/// One dimension: how many subscripts it has, and the first of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dimension {
    pub length: i32,
    pub lower: i32,
}

impl Dimension {
    /// Subscripts from 1.
    pub(crate) fn of_length(length: usize) -> Dimension {
        Dimension { length: length as i32, lower: 1 }
    }
    /// The last subscript.
    pub fn upper(self) -> i32 {
        self.lower.wrapping_add(self.length - 1)
    }
}

/// An array, read where its bytes are.
#[derive(Clone, Copy, Debug)]
pub struct Array<'a> {
    /// The items' type.
    pub element: TypeId,
    dimensions: &'a [[u8; 8]],
    count: usize,
    nulls: &'a [u8],
    width: Option<usize>,
    items: &'a [u8],
}

/// The bytes of every value of a type, if they are as many.
fn width_of(ty: TypeId) -> Option<usize> {
    match ty.class() {
        Class::Bool => Some(1),
        Class::Int2 => Some(2),
        Class::Int4 | Class::Date => Some(4),
        Class::Int8 | Class::Float8 | Class::Timestamp | Class::Timestamptz => Some(8),
        Class::Opaque(form) => form.width.map(usize::from),
        Class::None | Class::Numeric | Class::Text | Class::Bytea => None,
    }
}

/// The bytes of a number, zeros where some are missing (A5).
fn word<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or([0; N])
}

impl<'a> Array<'a> {
    /// An array's bytes; an empty one for bytes that are none (A5).
    pub fn of(bytes: &'a [u8]) -> Array<'a> {
        let none = Array {
            element: TypeId::UNKNOWN,
            dimensions: &[],
            count: 0,
            nulls: &[],
            width: None,
            items: &[],
        };
        Array::read(bytes).unwrap_or(none)
    }

    /// The same, of a type of arrays: of bytes that are of another, an empty array of the type.
    pub fn of_type(ty: TypeId, bytes: &'a [u8]) -> Array<'a> {
        let array = Array::of(bytes);
        let element = ty.element().unwrap_or(array.element);
        if array.element.item_number() == element.item_number() {
            Array { element, ..array }
        } else {
            Array { element, ..Array::of(&[]) }
        }
    }

    fn read(bytes: &'a [u8]) -> Option<Array<'a>> {
        let ([low, high, dimensions, flags], rest) = bytes.split_first_chunk()?;
        let element = TypeId::from_item_number(u16::from_le_bytes([*low, *high]))?;
        let dimensions = Some(usize::from(*dimensions)).filter(|n| *n <= MAX_DIMENSIONS)?;
        let (dimensions, rest) = rest.split_at_checked(8 * dimensions)?;
        let (dimensions, _) = dimensions.as_chunks();
        let mut count = usize::from(!dimensions.is_empty());
        for d in dimensions {
            count = count.checked_mul(u32::from_le_bytes(word(d)) as usize)?;
            if count == 0 || count > MAX_ITEMS {
                return None;
            }
        }
        let null_bytes = if flags & HAS_NULLS != 0 { count.div_ceil(8) } else { 0 };
        let (nulls, items) = rest.split_at_checked(null_bytes)?;
        let width = width_of(element);
        if items.len() < count * width.unwrap_or(4) {
            return None;
        }
        Some(Array { element, dimensions, count, nulls, width, items })
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.count
    }
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The dimensions, the outermost first.
    pub fn dimensions(&self) -> impl ExactSizeIterator<Item = Dimension> + Clone + use<'a> {
        self.dimensions.iter().map(|d| Dimension {
            length: i32::from_le_bytes(word(d)),
            lower: i32::from_le_bytes(word(&d[4..])),
        })
    }

    pub(crate) fn is_null(&self, i: usize) -> bool {
        self.nulls.get(i / 8).is_some_and(|b| b >> (i % 8) & 1 != 0)
    }
    pub(crate) fn has_nulls(&self) -> bool {
        (0..self.count).any(|i| self.is_null(i))
    }

    fn bytes(&self, i: usize) -> &'a [u8] {
        let within = |all: &'a [u8], from: usize, to: usize| all.get(from..to).unwrap_or(&[]);
        match self.width {
            Some(w) => within(self.items, i * w, (i + 1) * w),
            None => {
                let end = |i: usize| u32::from_le_bytes(word(within(self.items, 4 * i, 4 * i + 4))) as usize;
                let data = within(self.items, 4 * self.count, self.items.len());
                within(data, if i == 0 { 0 } else { end(i - 1) }, end(i))
            }
        }
    }

    /// An item by its place from 0, as it is stored: char(n) with its blanks.
    pub(crate) fn stored(&self, i: usize) -> ValueRef<'a> {
        if i >= self.count || self.is_null(i) {
            return ValueRef::Null;
        }
        read_stored(self.element, self.bytes(i))
    }

    /// An item by its place from 0, for comparisons (A4); NULL beyond the last.
    pub fn item(&self, i: usize) -> ValueRef<'a> {
        comparable(self.stored(i), self.element)
    }

    /// The items in order.
    pub fn items(&self) -> impl Iterator<Item = ValueRef<'a>> + use<'a> {
        let array = *self;
        (0..self.count).map(move |i| array.item(i))
    }
}

/// A value of a type that lies in an array or a row, from its bytes.
pub(crate) fn read_stored(ty: TypeId, b: &[u8]) -> ValueRef<'_> {
    match ty.class() {
        Class::None => ValueRef::Null,
        Class::Bool => ValueRef::Bool(b.first().is_some_and(|b| *b != 0)),
        Class::Int2 => ValueRef::Int2(i16::from_le_bytes(word(b))),
        Class::Int4 => ValueRef::Int4(i32::from_le_bytes(word(b))),
        Class::Int8 => ValueRef::Int8(i64::from_le_bytes(word(b))),
        Class::Float8 => ValueRef::Float8(f64::from_le_bytes(word(b))),
        Class::Numeric => ValueRef::Numeric(b),
        Class::Text => ValueRef::Text(std::str::from_utf8(b).unwrap_or_default()),
        Class::Bytea => ValueRef::Bytea(b),
        Class::Date => ValueRef::Date(i32::from_le_bytes(word(b))),
        Class::Timestamp => ValueRef::Timestamp(i64::from_le_bytes(word(b))),
        Class::Timestamptz => ValueRef::Timestamptz(i64::from_le_bytes(word(b))),
        Class::Opaque(_) => ValueRef::Opaque(ty, b),
    }
}

/// Appends the bytes that [`read_stored`] reads; whether the value is one of the type, and no NULL.
pub(crate) fn write_stored(v: ValueRef<'_>, ty: TypeId, data: &mut Vec<u8>) -> bool {
    match (v, ty.class()) {
        (ValueRef::Bool(b), Class::Bool) => data.push(b.into()),
        (ValueRef::Int2(n), Class::Int2) => data.extend_from_slice(&n.to_le_bytes()),
        (ValueRef::Int4(n), Class::Int4) | (ValueRef::Date(n), Class::Date) => {
            data.extend_from_slice(&n.to_le_bytes())
        }
        (ValueRef::Int8(n), Class::Int8)
        | (ValueRef::Timestamp(n), Class::Timestamp)
        | (ValueRef::Timestamptz(n), Class::Timestamptz) => data.extend_from_slice(&n.to_le_bytes()),
        (ValueRef::Float8(f), Class::Float8) => data.extend_from_slice(&f.to_le_bytes()),
        (ValueRef::Numeric(b), Class::Numeric) | (ValueRef::Bytea(b), Class::Bytea) => {
            data.extend_from_slice(b)
        }
        (ValueRef::Packed(p), Class::Numeric) => p.encode(data),
        (ValueRef::Text(s), Class::Text) => data.extend_from_slice(s.as_bytes()),
        (ValueRef::Opaque(of, b), Class::Opaque(form))
            if of == ty && form.width.is_none_or(|w| b.len() == usize::from(w)) =>
        {
            data.extend_from_slice(b)
        }
        _ => return false,
    }
    true
}

/// A value as it is compared with an array's items (A4).
pub(crate) fn comparable(v: ValueRef<'_>, element: TypeId) -> ValueRef<'_> {
    match v {
        ValueRef::Text(s) if element == TypeId::BPCHAR => ValueRef::Text(s.trim_end_matches(' ')),
        v => v,
    }
}

/// Whether bytes that come from outside are an array of such items.
pub(crate) fn is_whole(element: TypeId, bytes: &[u8]) -> bool {
    let Some(array) = Array::read(bytes) else { return false };
    let fits = |i: usize| {
        let bytes = array.bytes(i);
        array.is_null(i)
            || match element.class() {
                Class::Text => std::str::from_utf8(bytes).is_ok_and(|s| !s.contains('\0')),
                Class::Opaque(_) => element.admits(bytes),
                _ => true,
            }
    };
    let ends = |i: usize| u32::from_le_bytes(word(array.items.get(4 * i..).unwrap_or(&[]))) as usize;
    let ascend = array.width.is_some()
        || array.items.len() - 4 * array.count == array.count.checked_sub(1).map_or(0, ends)
            && (1..array.count).all(|i| ends(i - 1) <= ends(i));
    array.element.item_number() == element.item_number() && ascend && (0..array.count).all(fits)
}

/// An array that is being made.
#[derive(Clone, Debug)]
pub struct Builder {
    pub element: TypeId,
    is_wide: bool,
    count: usize,
    has_nulls: bool,
    nulls: Vec<u8>,
    ends: Vec<u8>,
    data: Vec<u8>,
}

impl Builder {
    pub fn new(element: TypeId) -> Builder {
        let is_wide = width_of(element).is_none();
        let (nulls, ends, data) = (Vec::new(), Vec::new(), Vec::new());
        Builder { element, is_wide, count: 0, has_nulls: false, nulls, ends, data }
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }
    /// The bytes taken so far.
    pub fn bytes(&self) -> usize {
        self.nulls.len() + self.ends.len() + self.data.len()
    }

    /// Puts another item behind the others; a char(n) as it is given (A4).
    pub fn push(&mut self, v: ValueRef<'_>) -> SqlResult<()> {
        if self.count >= MAX_ITEMS {
            return Err(too_many_items());
        }
        if self.count.is_multiple_of(8) {
            self.nulls.push(0);
        }
        if v.is_null() {
            self.has_nulls = true;
            self.nulls[self.count / 8] |= 1 << (self.count % 8);
            let width = width_of(self.element).unwrap_or(0);
            self.data.resize(self.data.len() + width, 0)
        } else if !write_stored(v, self.element, &mut self.data) {
            return Err(internal(format!("an array of {} was given {v:?}", self.element)));
        }
        if self.is_wide {
            let end = u32::try_from(self.data.len()).map_err(|_| too_many_items())?;
            self.ends.extend_from_slice(&end.to_le_bytes());
        }
        self.count += 1;
        Ok(())
    }

    /// Puts all items of another array behind the others.
    pub fn extend(&mut self, array: &Array<'_>) -> SqlResult<()> {
        (0..array.len()).try_for_each(|i| self.push(array.stored(i)))
    }

    /// The array; the dimensions' lengths make the number of items.
    pub fn finish(&self, dimensions: &[Dimension]) -> SqlResult<Value> {
        let Some(ty) = self.element.array() else {
            return Err(internal(format!("there are no arrays of {}", self.element)));
        };
        let dimensions = if self.count == 0 { &[] } else { dimensions };
        let [low, high] = self.element.item_number().to_le_bytes();
        let mut bytes = Vec::with_capacity(
            4 + 8 * dimensions.len() + self.nulls.len() + self.ends.len() + self.data.len(),
        );
        let flags = if self.has_nulls { HAS_NULLS } else { 0 };
        bytes.extend_from_slice(&[low, high, dimensions.len() as u8, flags]);
        for d in dimensions {
            bytes.extend_from_slice(&d.length.to_le_bytes());
            bytes.extend_from_slice(&d.lower.to_le_bytes());
        }
        if self.has_nulls {
            bytes.extend_from_slice(&self.nulls);
        }
        bytes.extend_from_slice(&self.ends);
        bytes.extend_from_slice(&self.data);
        Ok(Value::Opaque(ty, bytes.into()))
    }

    /// The items as a list, with subscripts from 1.
    pub fn finish_list(&self) -> SqlResult<Value> {
        self.finish(&[Dimension::of_length(self.count)])
    }
}

/// The list of values of a type.
pub fn of_values(element: TypeId, values: &[Value]) -> SqlResult<Value> {
    let mut out = Builder::new(element);
    values.iter().try_for_each(|v| out.push(v.as_ref(&mut Vec::new())))?;
    out.finish_list()
}

/// The array without items of a type of arrays.
pub fn empty(ty: TypeId) -> Value {
    let element = ty.element().unwrap_or(TypeId::UNKNOWN);
    let [low, high] = element.item_number().to_le_bytes();
    Value::Opaque(ty, Box::new([low, high, 0, 0]))
}

/// An array with its items cast.
pub(crate) fn cast_items(
    bytes: &[u8],
    from: TypeId,
    to: Type,
    explicit: bool,
    ctx: &Context<'_>,
) -> SqlResult<Value> {
    let array = from.array().map_or(Array::of(&[]), |ty| Array::of_type(ty, bytes));
    let mut out = Builder::new(to.id);
    for i in 0..array.len() {
        ctx.limits.turn(i)?;
        let stored = array.stored(i);
        if stored.is_null() {
            out.push(ValueRef::Null)?;
            continue;
        }
        let mut item = cast::cast(stored.to_owned(), from, to, explicit, ctx)?;
        if let (Value::Text(s), Some(n), TypeId::BPCHAR) = (&mut item, to.char_len(), to.id) {
            let missing = n.saturating_sub(s.chars().count());
            s.extend(std::iter::repeat_n(' ', missing));
        }
        out.push(item.as_ref(&mut Vec::new()))?;
    }
    out.finish(&array.dimensions().collect::<Vec<_>>())
}

/// The order of arrays (A6).
fn compare(a: &Array<'_>, b: &Array<'_>) -> Ordering {
    let items = a.items().zip(b.items()).map(|(a, b)| value::compare(a, b)).find(|o| o.is_ne());
    let lengths = |a: &Array<'_>| a.dimensions().map(|d| d.length).collect::<Vec<_>>();
    let lowers = |a: &Array<'_>| a.dimensions().map(|d| d.lower).collect::<Vec<_>>();
    items.unwrap_or_else(|| {
        (a.len().cmp(&b.len()))
            .then_with(|| a.dimensions.len().cmp(&b.dimensions.len()))
            .then_with(|| lengths(a).cmp(&lengths(b)))
            .then_with(|| lowers(a).cmp(&lowers(b)))
    })
}

const KEY_END: u8 = 0;
const KEY_ITEM: u8 = 1;
const KEY_NULL: u8 = 2;

/// The items, each behind a byte that says that it follows or is NULL; an end; the dimensions.
pub(crate) fn push_key(bytes: &[u8], out: &mut Vec<u8>) {
    let array = Array::of(bytes);
    for item in array.items() {
        if item.is_null() {
            out.push(KEY_NULL);
        } else {
            out.push(KEY_ITEM);
            key::encode(item, array.element, false, false, true, out);
        }
    }
    out.push(KEY_END);
    out.push(array.dimensions.len() as u8);
    for d in array.dimensions() {
        out.extend_from_slice(&d.length.to_be_bytes());
    }
    for d in array.dimensions() {
        out.extend_from_slice(&(d.lower as u32 ^ 1 << 31).to_be_bytes());
    }
}

#[cold]
fn too_many_items() -> SqlError {
    let message = format!("array size exceeds the maximum allowed ({MAX_ITEMS})");
    SqlError::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, message)
}

#[cold]
fn too_many_dimensions(n: usize) -> SqlError {
    let message = format!("number of array dimensions ({n}) exceeds the maximum allowed ({MAX_DIMENSIONS})");
    SqlError::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, message)
}

pub(crate) fn check_depth(dimensions: usize) -> SqlResult<()> {
    if dimensions > MAX_DIMENSIONS { Err(too_many_dimensions(dimensions)) } else { Ok(()) }
}

/// The number of items of dimensions; an error if there are too many, or a subscript is beyond its range.
fn count_items(dimensions: &[Dimension]) -> SqlResult<usize> {
    let mut count = usize::from(!dimensions.is_empty());
    for d in dimensions {
        let length = usize::try_from(d.length).map_err(|_| too_many_items())?;
        count = count.checked_mul(length).filter(|n| *n <= i32::MAX as usize).ok_or_else(too_many_items)?;
    }
    if count > MAX_ITEMS {
        return Err(too_many_items());
    }
    if let Some(d) = dimensions.iter().find(|d| d.lower.checked_add(d.length).is_none()) {
        let message = format!("array lower bound is too large: {}", d.lower);
        return Err(SqlError::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, message));
    }
    Ok(count)
}

#[cfg(test)]
mod tests;
