//! Rows as Arrow's columns.
//!
//! | column | Arrow |
//! | --- | --- |
//! | integers, YEAR | the same width (MEDIUMINT 32 bits), signed or not |
//! | FLOAT, DOUBLE | the same |
//! | DECIMAL | Decimal128 up to 38 digits, else Decimal256 |
//! | DATE | Date32 |
//! | DATETIME, TIMESTAMP | microseconds, without a zone and in UTC |
//! | TIME | a duration in microseconds: it may be negative, and longer than a day |
//! | BIT | UInt64 |
//! | texts, SET, JSON, UUID, INET4, INET6 | Utf8 |
//! | ENUM | a dictionary of Utf8; the empty text of what was invalid comes first |
//! | BINARY, BLOB | Binary |
//! | geometry | Binary: WKB, without its SRID |
//!
//! - **C1** A value is the column's, exactly, or an error. Dates that no calendar has (`0000-00-00`) are
//!   errors, NULL or text, as [`ZeroDates`] says; NULLs that come from them are counted.
//! - **C2** The dictionary of an ENUM is the same array in all batches of one [`Form`].
//! - **C3** The first `proven` offsets of texts begin at 0 and do not fall, and what lies between two that
//!   follow each other is UTF-8, or need not be: each row's was looked at when it was added, so that arrays
//!   are made without looking again.
use crate::charset::Charset;
use crate::error::{Error, Kind, Result};
use crate::json;
use crate::page::Window;
use crate::record::{Length, Lengths, Span};
use crate::room::Room;
use crate::scan::{Leaf, Scan, Stored};
use crate::table::{Column, Type};
use crate::text::{self, hex};
pub use crate::value::ZeroDates;
use crate::value::{self, Date, Digits, Time};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, Date32Type, Decimal128Type, Decimal256Type, DurationMicrosecondType, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BinaryArray, DictionaryArray, PrimitiveArray, RecordBatch, StringArray,
};
use arrow_buffer::{ArrowNativeType, Buffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer, i256};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use std::ops::Range;
use std::sync::Arc;

/// Rows of a batch at most.
const ROWS: usize = 1 << 17;

/// The columns that a table's rows become. Shared by all who make batches.
pub struct Form {
    schema: SchemaRef,
    /// Their places in the table, and for an ENUM its dictionary.
    columns: Vec<(usize, Option<ArrayRef>)>,
    zero_dates: ZeroDates,
}

impl Form {
    pub fn new(scan: &Scan, columns: &[usize], zero_dates: ZeroDates) -> Form {
        let mut fields = Vec::new();
        let mut places = Vec::new();
        for &i in columns {
            let column = &scan.columns()[i];
            let nullable = column.nullable || (column.ty.is_date() && zero_dates == ZeroDates::Null);
            fields.push(Field::new(&column.name, data_type(&column.ty, zero_dates), nullable));
            let dictionary = match &column.ty {
                Type::Enum { elements, .. } => Some(Arc::new(StringArray::from_iter_values(
                    std::iter::once("").chain(elements.iter().map(String::as_str)),
                )) as ArrayRef),
                _ => None,
            };
            places.push((i, dictionary));
        }
        Form { schema: Arc::new(Schema::new(fields)), columns: places, zero_dates }
    }
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

fn data_type(ty: &Type, zero_dates: ZeroDates) -> DataType {
    match ty {
        _ if ty.is_date() && zero_dates == ZeroDates::Text => DataType::Utf8,
        Type::Int { bytes, unsigned, .. } => match (bytes, unsigned) {
            (1, false) => DataType::Int8,
            (2, false) => DataType::Int16,
            (3 | 4, false) => DataType::Int32,
            (_, false) => DataType::Int64,
            (1, true) => DataType::UInt8,
            (2, true) => DataType::UInt16,
            (3 | 4, true) => DataType::UInt32,
            (_, true) => DataType::UInt64,
        },
        Type::Float { .. } => DataType::Float32,
        Type::Double { .. } => DataType::Float64,
        Type::Decimal { precision, scale, .. } if *precision <= 38 => {
            DataType::Decimal128(*precision, *scale as i8)
        }
        Type::Decimal { precision, scale, .. } => DataType::Decimal256(*precision, *scale as i8),
        Type::Date => DataType::Date32,
        Type::Time { .. } | Type::OldTime => DataType::Duration(TimeUnit::Microsecond),
        Type::DateTime { .. } | Type::OldDateTime => DataType::Timestamp(TimeUnit::Microsecond, None),
        Type::Timestamp { .. } => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        Type::Year { .. } => DataType::UInt16,
        Type::Bit { .. } => DataType::UInt64,
        Type::Enum { elements, .. } => {
            let key = if elements.len() < 256 { DataType::UInt8 } else { DataType::UInt16 };
            DataType::Dictionary(Box::new(key), Box::new(DataType::Utf8))
        }
        Type::Binary { .. } | Type::Bytes { .. } | Type::Geometry => DataType::Binary,
        Type::Char { .. }
        | Type::Text { .. }
        | Type::Set { .. }
        | Type::Json
        | Type::Uuid
        | Type::Inet4
        | Type::Inet6 => DataType::Utf8,
    }
}

/// Why a value cannot be had.
enum Refused {
    /// The bytes mean nothing in the column's type.
    NoValue,
    /// It is no day of the calendar.
    NoDay,
    /// It is more than an array can hold, 2 GB.
    TooLong,
}
use Refused::{NoDay, NoValue};

/// Rows that become a batch.
pub struct Columns {
    form: Arc<Form>,
    columns: Vec<Box<dyn Values>>,
    rows: usize,
    /// Bytes that make a batch large enough, roughly.
    enough: usize,
    /// Dates that became NULL.
    nulled: u64,
}

impl Columns {
    /// `enough`: bytes of a batch, roughly, if it has not the most rows before.
    pub fn new(scan: &Scan, form: Arc<Form>, enough: usize) -> Columns {
        let columns = form
            .columns
            .iter()
            .map(|(i, dictionary)| values(&scan.columns()[*i], dictionary.as_ref(), form.zero_dates))
            .collect();
        Columns { form, columns, rows: 0, enough, nulled: 0 }
    }
    /// Takes rows of a leaf, column by column.
    pub fn add(&mut self, leaf: &Leaf<'_>, rows: Range<usize>) -> Result<()> {
        self.rows += rows.len();
        for (values, (i, _)) in self.columns.iter_mut().zip(&self.form.columns) {
            self.nulled += values.add(leaf, *i, rows.clone())?;
        }
        Ok(())
    }
    pub fn rows(&self) -> usize {
        self.rows
    }
    /// It is as large as a batch should be.
    pub fn is_full(&self) -> bool {
        self.rows >= ROWS || self.columns.iter().map(|c| c.bytes()).sum::<usize>() >= self.enough
    }
    /// Dates that became NULL since the last call.
    pub fn take_nulled(&mut self) -> u64 {
        std::mem::take(&mut self.nulled)
    }
    /// Takes the memory of a batch of this form that nobody needs any more, instead of its own. Fresh memory
    /// costs as much as filling it does.
    pub fn reuse(&mut self, batch: RecordBatch) {
        let (_, arrays, _) = batch.into_parts();
        for (values, array) in self.columns.iter_mut().zip(arrays) {
            values.reuse(array);
        }
    }
    /// What was taken, as a batch; it begins anew.
    pub fn take(&mut self, scan: &Scan) -> Result<RecordBatch> {
        self.rows = 0;
        let arrays = self.columns.iter_mut().map(|c| c.finish()).collect();
        RecordBatch::try_new(self.form.schema.clone(), arrays)
            .map_err(|e| Error::new(scan.space().path(), Kind::Damaged, e.to_string()))
    }
}

/// Values of one column.
trait Values: Send {
    /// Takes the column's values of some rows. Returns how many became NULL that are not.
    fn add(&mut self, leaf: &Leaf<'_>, column: usize, rows: Range<usize>) -> Result<u64>;
    fn bytes(&self) -> usize;
    fn finish(&mut self) -> ArrayRef;
    /// Takes the memory of an array of its own kind, before anything is added.
    fn reuse(&mut self, array: ArrayRef);
}

/// The memory of a buffer, empty, unless it is needed elsewhere.
fn emptied<T: ArrowNativeType>(buffer: Buffer) -> Vec<T> {
    let mut memory = buffer.into_vec().unwrap_or_default();
    memory.clear();
    memory
}

/// Calls `each` for the stored bytes of a column in some rows, `None` being NULL.
#[inline]
fn each(
    leaf: &Leaf<'_>,
    column: usize,
    rows: Range<usize>,
    mut each: impl FnMut(Option<&[u8]>) -> std::result::Result<(), Refused>,
) -> Result<()> {
    for row in rows {
        let place = leaf.rows.place(row, column);
        // Nearly all values lie whole on their pages.
        if let Some((bytes, false)) = place.bytes(leaf.page) {
            each(Some(bytes)).map_err(|why| refusal(leaf, column, bytes, why))?;
            continue;
        }
        match leaf.stored(column, place)? {
            Stored::Null => each(None).map_err(|why| refusal(leaf, column, b"", why))?,
            Stored::Bytes(bytes) => each(Some(&bytes)).map_err(|why| refusal(leaf, column, &bytes, why))?,
        }
    }
    Ok(())
}

#[cold]
fn refusal(leaf: &Leaf<'_>, column: usize, bytes: &[u8], why: Refused) -> Error {
    let column = &leaf.scan.columns()[column];
    match why {
        Refused::NoValue => leaf.unfit(&format!(
            "column {} ({}) holds {}, which is no value of its type",
            column.name,
            column.sql,
            hex(&bytes[..bytes.len().min(32)])
        )),
        Refused::NoDay => Error::on_page(
            leaf.scan.space().path(),
            leaf.number,
            Kind::Mismatch,
            format!(
                "column {} ({}) holds {}, which is no day of the calendar, so Arrow and Parquet have no value for it; --zero-dates null or text says what it shall become",
                column.name,
                column.sql,
                text::shown(column, bytes).unwrap_or_default()
            ),
        ),
        Refused::TooLong => Error::on_page(
            leaf.scan.space().path(),
            leaf.number,
            Kind::Unsupported,
            format!("column {} ({}) holds a value of 2 GB or more", column.name, column.sql),
        ),
    }
}

/// A field's bytes with zeros behind them.
fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut field = [0; N];
    field.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    field
}

/// Values of a fixed width, each read from its bytes by `read`, which is given N bytes; those behind the
/// width mean nothing.
struct Fixed<T: ArrowPrimitiveType, const N: usize, F> {
    values: Vec<T::Native>,
    nulls: NullBufferBuilder,
    ty: DataType,
    width: usize,
    read: F,
    /// What is no day becomes NULL.
    no_day_is_null: bool,
}
impl<T, const N: usize, F> Fixed<T, N, F>
where
    T: ArrowPrimitiveType,
    F: Fn([u8; N]) -> std::result::Result<T::Native, Refused>,
{
    fn new(ty: DataType, width: usize, no_day_is_null: bool, read: F) -> Self {
        Fixed { values: Vec::new(), nulls: NullBufferBuilder::new(0), ty, width, read, no_day_is_null }
    }
    fn take(&mut self, leaf: &Leaf<'_>, column: usize, rows: Range<usize>) -> Result<u64> {
        let before = self.values.len();
        if self.take_all(leaf, column, rows.clone()) {
            return Ok(0);
        }
        self.values.truncate(before);
        self.take_each(leaf, column, rows)
    }
    /// Takes values one by one; the first that is none is told.
    fn take_each(&mut self, leaf: &Leaf<'_>, column: usize, rows: Range<usize>) -> Result<u64> {
        let mut nulled = 0;
        each(leaf, column, rows, |bytes| {
            let value = match bytes {
                None => None,
                Some(bytes) if bytes.len() != self.width => return Err(NoValue),
                Some(bytes) => match (self.read)(padded(bytes)) {
                    Err(NoDay) if self.no_day_is_null => {
                        nulled += 1;
                        None
                    }
                    read => Some(read?),
                },
            };
            self.nulls.append(value.is_some());
            self.values.push(value.unwrap_or_default());
            Ok(())
        })?;
        Ok(nulled)
    }
    /// Takes values that all lie on their page, and are values. False if one does not or is not; then what
    /// was added to the values is nothing.
    fn take_all(&mut self, leaf: &Leaf<'_>, column: usize, rows: Range<usize>) -> bool {
        let Some(span) = leaf.rows.span(column, rows).filter(|span| span.has_width(self.width)) else {
            return false;
        };
        let (window, distance, read) = (leaf.window, span.distance, &self.read);
        let mut wrong = false;
        match span.lengths {
            Lengths::Even(_) => {
                self.values.extend(span.at.iter().map(|at| {
                    let value = read(*window.chunk(at.wrapping_add(distance)));
                    wrong |= value.is_err();
                    value.unwrap_or_default()
                }));
                self.nulls.append_n_non_nulls(if wrong { 0 } else { span.at.len() });
            }
            Lengths::Each(lengths) => {
                self.values.extend(span.at.iter().zip(lengths).map(|(at, length)| {
                    let value = read(*window.chunk(at.wrapping_add(distance)));
                    let is_null = *length == Span::NULL;
                    wrong |= value.is_err() && !is_null;
                    value.ok().filter(|_| !is_null).unwrap_or_default()
                }));
                if !wrong {
                    lengths.iter().for_each(|n| self.nulls.append(*n != Span::NULL));
                }
            }
        }
        !wrong
    }
    fn bytes(&self) -> usize {
        std::mem::size_of_val(&self.values[..])
    }
    /// What was taken; it begins anew.
    fn whole(&mut self) -> PrimitiveArray<T> {
        let values = std::mem::take(&mut self.values);
        PrimitiveArray::new(values.into(), self.nulls.finish()).with_data_type(self.ty.clone())
    }
}
impl<T, const N: usize, F> Values for Fixed<T, N, F>
where
    T: ArrowPrimitiveType,
    F: Fn([u8; N]) -> std::result::Result<T::Native, Refused> + Send,
{
    fn add(&mut self, leaf: &Leaf<'_>, column: usize, rows: Range<usize>) -> Result<u64> {
        self.take(leaf, column, rows)
    }
    fn bytes(&self) -> usize {
        Fixed::bytes(self)
    }
    fn finish(&mut self) -> ArrayRef {
        Arc::new(self.whole())
    }
    fn reuse(&mut self, array: ArrayRef) {
        let Some(own) = array.as_primitive_opt::<T>().cloned() else { return };
        drop(array);
        self.values = emptied(own.into_parts().1.into_inner());
    }
}

/// How words of stored bytes become values, all at once.
trait Convert: Send {
    type Word: Copy + Send;
    type Native;
    /// The word of zero, which stands where a NULL is.
    const NULL: Self::Word;
    fn word(window: Window<'_>, at: u16) -> Self::Word;
    /// Turns words into values' bits. False if one is no value.
    fn convert(&self, words: &mut [Self::Word]) -> bool;
    fn native(bits: Self::Word) -> Self::Native;
}
/// DECIMALs of up to 18 digits.
struct Scaled(&'static Digits);
impl Convert for Scaled {
    type Word = u64;
    type Native = i128;
    const NULL: u64 = 1 << 63;
    #[inline(always)]
    fn word(window: Window<'_>, at: u16) -> u64 {
        u64::from_be_bytes(*window.chunk(at))
    }
    fn convert(&self, words: &mut [u64]) -> bool {
        self.0.scale_all(words)
    }
    #[inline(always)]
    fn native(bits: u64) -> i128 {
        i128::from(bits as i64)
    }
}
/// DATEs.
struct Days;
impl Convert for Days {
    type Word = u32;
    type Native = i32;
    const NULL: u32 = (1 << 23 | 1970 << 9 | 1 << 5 | 1) << 8;
    #[inline(always)]
    fn word(window: Window<'_>, at: u16) -> u32 {
        u32::from_be_bytes(*window.chunk(at))
    }
    fn convert(&self, words: &mut [u32]) -> bool {
        value::days_all(words)
    }
    #[inline(always)]
    fn native(bits: u32) -> i32 {
        bits as i32
    }
}

/// Values of a fixed width that are made all at once; if one is none, one by one.
struct Bulk<T: ArrowPrimitiveType, const N: usize, F, C: Convert> {
    fixed: Fixed<T, N, F>,
    words: Vec<C::Word>,
    convert: C,
}
impl<T, const N: usize, F, C> Bulk<T, N, F, C>
where
    T: ArrowPrimitiveType,
    C: Convert<Native = T::Native>,
{
    /// As [`Fixed::take_all`].
    fn take_all(&mut self, leaf: &Leaf<'_>, column: usize, rows: Range<usize>) -> bool {
        let fixed = &mut self.fixed;
        let Some(span) = leaf.rows.span(column, rows).filter(|span| span.has_width(fixed.width)) else {
            return false;
        };
        let (window, distance) = (leaf.window, span.distance);
        self.words.clear();
        self.words.extend(span.at.iter().map(move |at| C::word(window, at.wrapping_add(distance))));
        let lengths = match span.lengths {
            Lengths::Each(lengths) if lengths.contains(&Span::NULL) => lengths,
            _ => &[],
        };
        for (word, length) in self.words.iter_mut().zip(lengths) {
            *word = if *length == Span::NULL { C::NULL } else { *word };
        }
        if !self.convert.convert(&mut self.words) {
            return false;
        }
        fixed.values.extend(self.words.iter().map(|word| C::native(*word)));
        match lengths {
            [] => fixed.nulls.append_n_non_nulls(span.at.len()),
            _ => lengths.iter().for_each(|n| fixed.nulls.append(*n != Span::NULL)),
        }
        true
    }
}
impl<T, const N: usize, F, C> Values for Bulk<T, N, F, C>
where
    T: ArrowPrimitiveType,
    F: Fn([u8; N]) -> std::result::Result<T::Native, Refused> + Send,
    C: Convert<Native = T::Native>,
{
    fn add(&mut self, leaf: &Leaf<'_>, column: usize, rows: Range<usize>) -> Result<u64> {
        if self.take_all(leaf, column, rows.clone()) {
            Ok(0)
        } else {
            self.fixed.take_each(leaf, column, rows)
        }
    }
    fn bytes(&self) -> usize {
        self.fixed.bytes()
    }
    fn finish(&mut self) -> ArrayRef {
        self.fixed.finish()
    }
    fn reuse(&mut self, array: ArrayRef) {
        self.fixed.reuse(array);
    }
}

/// An ENUM's values: places in its dictionary.
struct Elements<T: ArrowPrimitiveType, const N: usize, F> {
    keys: Fixed<T, N, F>,
    dictionary: ArrayRef,
}
impl<T, const N: usize, F> Values for Elements<T, N, F>
where
    T: ArrowDictionaryKeyType,
    F: Fn([u8; N]) -> std::result::Result<T::Native, Refused> + Send,
{
    fn add(&mut self, leaf: &Leaf<'_>, column: usize, rows: Range<usize>) -> Result<u64> {
        self.keys.take(leaf, column, rows)
    }
    fn bytes(&self) -> usize {
        self.keys.bytes()
    }
    fn finish(&mut self) -> ArrayRef {
        // Each key was compared with the number of elements when it was read.
        Arc::new(DictionaryArray::<T>::new(self.keys.whole(), self.dictionary.clone()))
    }
    fn reuse(&mut self, array: ArrayRef) {
        let Some(own) = array.as_dictionary_opt::<T>().cloned() else { return };
        drop(array);
        self.keys.reuse(Arc::new(own.into_parts().0));
    }
}

/// Bytes that an array with offsets of 32 bits takes at most.
const LONGEST: usize = i32::MAX as usize;

/// When values are taken together, as they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Together {
    Always,
    /// If all are ASCII; of others `read` knows what they mean.
    Ascii,
    Never,
}
/// Texts or bytes, one after the other; `read` appends one's bytes.
struct Texts<F> {
    bytes: Room,
    /// Where each text begins, and where the last one ends.
    offsets: Vec<i32>,
    /// How many of them are proven (C3): no fewer than all, unless something was refused.
    proven: usize,
    nulls: NullBufferBuilder,
    /// Bytes that are no text.
    is_binary: bool,
    together: Together,
    /// Spaces at the end do not count.
    trims: bool,
    read: F,
}
impl<F> Texts<F> {
    fn new(is_binary: bool, together: Together, trims: bool, read: F) -> Texts<F> {
        let nulls = NullBufferBuilder::new(0);
        Texts { bytes: Room::default(), offsets: vec![0], proven: 1, nulls, is_binary, together, trims, read }
    }
    /// Takes values that all lie on their page as they are. False if they cannot be taken so; then nothing
    /// is.
    fn take_all(&mut self, leaf: &Leaf<'_>, column: usize, rows: Range<usize>) -> bool {
        let (first, start) = (self.offsets.len(), self.bytes.len());
        let how = (self.trims, false);
        if !leaf.gather(column, rows.clone(), how, &mut self.bytes, &mut self.offsets) {
            return false;
        }
        if self.bytes.len() > LONGEST
            || self.together == Together::Ascii && !self.bytes.bytes()[start..].is_ascii()
        {
            self.bytes.set_len(start);
            self.offsets.truncate(first);
            return false;
        }
        match leaf.rows.span(column, rows.clone()) {
            Some(Span { lengths: Lengths::Each(lengths), .. }) if lengths.contains(&Span::NULL) => {
                lengths.iter().for_each(|n| self.nulls.append(*n != Span::NULL))
            }
            _ => self.nulls.append_n_non_nulls(rows.len()),
        }
        true
    }
    /// The first of the texts from number `first` on that is no UTF-8. They are looked at together, which is
    /// quicker than one by one.
    fn no_text(&self, first: usize) -> Option<usize> {
        let (start, bytes) = (self.offsets[first] as usize, self.bytes.bytes());
        if bytes[start..].is_ascii() {
            return None;
        }
        let is_text = std::str::from_utf8(&bytes[start..]).is_ok_and(|together| {
            self.offsets[first..].iter().all(|at| together.is_char_boundary(*at as usize - start))
        });
        if is_text {
            return None;
        }
        let alone = |n: &usize| &bytes[self.offsets[*n] as usize..self.offsets[n + 1] as usize];
        (first..self.offsets.len() - 1).find(|n| std::str::from_utf8(alone(n)).is_err())
    }
}
impl<F> Values for Texts<F>
where
    F: Fn(&[u8], &mut Room) -> std::result::Result<(), Refused> + Send,
{
    fn add(&mut self, leaf: &Leaf<'_>, column: usize, rows: Range<usize>) -> Result<u64> {
        let (first, from) = (self.offsets.len() - 1, rows.start);
        if self.together == Together::Never || !self.take_all(leaf, column, rows.clone()) {
            each(leaf, column, rows, |bytes| {
                match bytes {
                    None => self.nulls.append_null(),
                    Some(bytes) => {
                        if bytes.len() > LONGEST - self.bytes.len() {
                            return Err(Refused::TooLong);
                        }
                        (self.read)(bytes, &mut self.bytes)?;
                        self.nulls.append_non_null();
                    }
                }
                self.offsets.push(i32::try_from(self.bytes.len()).map_err(|_| Refused::TooLong)?);
                Ok(())
            })?;
        }
        if !self.is_binary
            && let Some(n) = self.no_text(first)
        {
            let row = from + n - first;
            return each(leaf, column, row..row + 1, |_| Err(NoValue)).map(|()| 0);
        }
        if self.proven == first + 1 {
            self.proven = self.offsets.len();
        }
        Ok(0)
    }
    fn bytes(&self) -> usize {
        self.bytes.len()
    }
    fn finish(&mut self) -> ArrayRef {
        let (bytes, nulls) = (Buffer::from_vec(self.bytes.take()), self.nulls.finish());
        let offsets = std::mem::replace(&mut self.offsets, vec![0]);
        let is_proven = std::mem::replace(&mut self.proven, 1) == offsets.len()
            && offsets.last().is_some_and(|end| *end as usize == bytes.len())
            && nulls.as_ref().is_none_or(|nulls| nulls.len() + 1 == offsets.len());
        let offsets = ScalarBuffer::from(offsets);
        if !is_proven {
            // Nothing is lost but time.
            let offsets = OffsetBuffer::new(offsets);
            return match self.is_binary {
                true => Arc::new(BinaryArray::new(offsets, bytes, nulls)),
                false => Arc::new(StringArray::new(offsets, bytes, nulls)),
            };
        }
        // SAFETY: by C3 these begin at 0 and do not fall.
        let offsets = unsafe { OffsetBuffer::new_unchecked(offsets) };
        match self.is_binary {
            // SAFETY: the last offset, which is the largest, is the length of the bytes; there are as many
            // NULL bits as values.
            true => Arc::new(unsafe { BinaryArray::new_unchecked(offsets, bytes, nulls) }),
            // SAFETY: the same; and by C3 what lies between two offsets is UTF-8.
            false => Arc::new(unsafe { StringArray::new_unchecked(offsets, bytes, nulls) }),
        }
    }
    fn reuse(&mut self, array: ArrayRef) {
        let (offsets, bytes) = match self.is_binary {
            true => match array.as_binary_opt::<i32>().cloned().map(BinaryArray::into_parts) {
                Some((offsets, bytes, _)) => (offsets, bytes),
                None => return,
            },
            false => match array.as_string_opt::<i32>().cloned().map(StringArray::into_parts) {
                Some((offsets, bytes, _)) => (offsets, bytes),
                None => return,
            },
        };
        drop(array);
        self.bytes = Room::of(bytes.into_vec().unwrap_or_default());
        self.offsets = emptied(offsets.into_inner().into_inner());
        self.offsets.push(0);
    }
}

fn fixed<T, const N: usize, F>(ty: DataType, width: usize, no_day_is_null: bool, read: F) -> Box<dyn Values>
where
    T: ArrowPrimitiveType,
    F: Fn([u8; N]) -> std::result::Result<T::Native, Refused> + Send + 'static,
{
    Box::new(Fixed::<T, N, F>::new(ty, width, no_day_is_null, read))
}
fn texts<F>(together: Together, trims: bool, read: F) -> Box<dyn Values>
where
    F: Fn(&[u8], &mut Room) -> std::result::Result<(), Refused> + Send + 'static,
{
    Box::new(Texts::new(false, together, trims, read))
}
/// The same of a text that is made anew for each value.
fn made<F>(read: F) -> Box<dyn Values>
where
    F: Fn(&[u8]) -> Option<String> + Send + 'static,
{
    texts(Together::Never, false, move |b, into| {
        into.push(read(b).ok_or(NoValue)?.as_bytes());
        Ok(())
    })
}

/// Microseconds since 1970 of a date and a time of day.
fn micros(date: Date, time: Time) -> std::result::Result<i64, Refused> {
    Ok(date.days().ok_or(NoDay)? as i64 * 86_400_000_000 + time.micros())
}

/// What takes the values of a column.
fn values(column: &Column, dictionary: Option<&ArrayRef>, zero_dates: ZeroDates) -> Box<dyn Values> {
    let ty = data_type(&column.ty, zero_dates);
    let no_day_is_null = zero_dates == ZeroDates::Null;
    let width = match column.ty.length() {
        Length::Fixed(n) => n as usize,
        Length::Variable { .. } => 0,
    };
    // N bytes are read at once, of which the first `width` are the value's.
    macro_rules! fixed {
        ($kind:ty, $n:literal, $read:expr) => {
            fixed::<$kind, $n, _>(ty, width, no_day_is_null, $read)
        };
    }
    macro_rules! signed {
        ($kind:ty, $n:literal) => {
            fixed!($kind, $n, |b| value::signed(&b).and_then(|n| n.try_into().ok()).ok_or(NoValue))
        };
    }
    macro_rules! unsigned {
        ($kind:ty, $n:literal) => {
            fixed!($kind, $n, |b| value::unsigned(&b).and_then(|n| n.try_into().ok()).ok_or(NoValue))
        };
    }
    match &column.ty {
        _ if column.ty.is_date() && zero_dates == ZeroDates::Text => {
            let column = column.clone();
            made(move |b| text::shown(&column, b))
        }
        Type::Int { bytes, unsigned: false, .. } => match bytes {
            1 => signed!(Int8Type, 1),
            2 => signed!(Int16Type, 2),
            3 => signed!(Int32Type, 3),
            4 => signed!(Int32Type, 4),
            _ => signed!(Int64Type, 8),
        },
        Type::Int { bytes, unsigned: true, .. } => match bytes {
            1 => unsigned!(UInt8Type, 1),
            2 => unsigned!(UInt16Type, 2),
            3 => unsigned!(UInt32Type, 3),
            4 => unsigned!(UInt32Type, 4),
            _ => unsigned!(UInt64Type, 8),
        },
        Type::Float { .. } => fixed!(Float32Type, 4, |b| Ok(f32::from_le_bytes(b))),
        Type::Double { .. } => fixed!(Float64Type, 8, |b| Ok(f64::from_le_bytes(b))),
        Type::Decimal { precision, scale, .. } => {
            let (p, s) = (*precision, *scale);
            match Digits::known(p, s) {
                Some(digits) => Box::new(Bulk {
                    fixed: Fixed::<Decimal128Type, 8, _>::new(ty, width, no_day_is_null, move |b| {
                        digits.scaled(b).map(i128::from).ok_or(NoValue)
                    }),
                    words: Vec::new(),
                    convert: Scaled(digits),
                }),
                None if p <= 38 => {
                    fixed!(Decimal128Type, 32, move |b| value::decimal(&b[..width], p, s).ok_or(NoValue))
                }
                None => fixed!(Decimal256Type, 32, move |b| {
                    let mut text = Vec::with_capacity(p as usize + 2);
                    value::push_decimal(&mut text, &b[..width], p, s).ok_or(NoValue)?;
                    text.retain(|c| *c != b'.');
                    std::str::from_utf8(&text).ok().and_then(i256::from_string).ok_or(NoValue)
                }),
            }
        }
        Type::Date => Box::new(Bulk {
            fixed: Fixed::<Date32Type, 3, _>::new(ty, width, no_day_is_null, |b: [u8; 3]| {
                value::date(&b).ok_or(NoValue)?.days().ok_or(NoDay)
            }),
            words: Vec::new(),
            convert: Days,
        }),
        Type::Time { fsp } => {
            let fsp = *fsp;
            fixed!(DurationMicrosecondType, 8, move |b| Ok(value::time(&b[..width], fsp)
                .ok_or(NoValue)?
                .micros()))
        }
        Type::OldTime => {
            fixed!(DurationMicrosecondType, 3, |b| Ok(value::old_time(&b).ok_or(NoValue)?.micros()))
        }
        Type::DateTime { fsp } => {
            let fsp = *fsp;
            fixed!(TimestampMicrosecondType, 8, move |b| {
                let (date, time) = value::datetime(&b[..width], fsp).ok_or(NoValue)?;
                micros(date, time)
            })
        }
        Type::OldDateTime => fixed!(TimestampMicrosecondType, 8, |b| {
            let (date, time) = value::old_datetime(&b).ok_or(NoValue)?;
            micros(date, time)
        }),
        Type::Timestamp { fsp } => {
            let fsp = *fsp;
            fixed!(TimestampMicrosecondType, 8, move |b| match value::timestamp(&b[..width], fsp)
                .ok_or(NoValue)?
            {
                (0, 0) => Err(NoDay),
                (seconds, micros) => Ok(seconds as i64 * 1_000_000 + micros as i64),
            })
        }
        Type::Year { .. } => fixed!(UInt16Type, 1, |[b]| Ok(if b == 0 { 0 } else { 1900 + b as u16 })),
        Type::Bit { .. } => {
            fixed!(UInt64Type, 8, move |b| value::unsigned(&b[..width]).ok_or(NoValue))
        }
        Type::Enum { elements, .. } => {
            let count = elements.len() as u64;
            let dictionary = dictionary.cloned().unwrap_or_else(|| Arc::new(StringArray::new_null(0)));
            macro_rules! elements {
                ($key:ty, $n:literal) => {
                    Box::new(Elements {
                        keys: Fixed::<$key, $n, _>::new(
                            <$key>::DATA_TYPE,
                            width,
                            no_day_is_null,
                            move |b: [u8; $n]| {
                                let n = value::unsigned(&b).filter(|n| *n <= count).ok_or(NoValue)?;
                                n.try_into().map_err(|_| NoValue)
                            },
                        ),
                        dictionary,
                    })
                };
            }
            if elements.len() < 256 { elements!(UInt8Type, 1) } else { elements!(UInt16Type, 2) }
        }
        Type::Char { charset, .. } | Type::Text { charset, .. } => {
            let charset: Charset = *charset;
            let is_char = matches!(column.ty, Type::Char { .. });
            if charset.is_utf8() {
                return texts(Together::Always, is_char, move |b, into| {
                    into.push(if is_char { text::trimmed(b) } else { b });
                    Ok(())
                });
            }
            let together = if charset.has_ascii() { Together::Ascii } else { Together::Never };
            texts(together, is_char, move |b, into| {
                let text = charset.to_utf8(b).ok_or(NoValue)?;
                into.push(if is_char { text::trimmed(text.as_bytes()) } else { text.as_bytes() });
                Ok(())
            })
        }
        Type::Set { elements, .. } => {
            let elements = elements.clone();
            made(move |b| {
                let text = value::set(value::unsigned(b)?, elements.iter().map(String::as_bytes), b",")?;
                String::from_utf8(text).ok()
            })
        }
        Type::Json => made(json::text),
        Type::Uuid => made(text::uuid),
        Type::Inet4 => made(|b| Some(std::net::Ipv4Addr::from(<[u8; 4]>::try_from(b).ok()?).to_string())),
        Type::Inet6 => made(|b| Some(text::inet6(b.try_into().ok()?).into_owned())),
        Type::Binary { .. } | Type::Bytes { .. } => {
            Box::new(Texts::new(true, Together::Always, false, |b: &[u8], into: &mut Room| {
                into.push(b);
                Ok(())
            }))
        }
        Type::Geometry => Box::new(Texts::new(true, Together::Never, false, |b: &[u8], into: &mut Room| {
            into.push(b.get(4..).ok_or(NoValue)?);
            Ok(())
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_a_character_are_no_texts() {
        let texts = |of: &[&'static [u8]]| {
            let mut offsets = vec![0];
            offsets.extend(of.iter().scan(0i32, |at, t: &&[u8]| {
                *at += t.len() as i32;
                Some(*at)
            }));
            let mut bytes = Room::default();
            bytes.push(&of.concat());
            Texts { bytes, offsets, ..Texts::new(false, Together::Always, false, ()) }
        };
        assert_eq!(texts(&[b"a", "é".as_bytes(), b"", b"b"]).no_text(0), None);
        // Together they are "aéb".
        assert_eq!(texts(&[b"x", b"a\xc3", b"\xa9b"]).no_text(0), Some(1));
        assert_eq!(texts(&[b"\xff", b"y", b"z\xff"]).no_text(1), Some(2));
        assert_eq!(texts(&[b"\xff"]).no_text(1), None, "nothing was added");
    }
}
