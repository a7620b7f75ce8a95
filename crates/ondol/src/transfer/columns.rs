//! SQL's rows as Arrow's columns, and back: what COPY writes to Parquet, and reads from it.
//!
//! | SQL | Parquet, as Arrow sees it |
//! | --- | --- |
//! | boolean; smallint, integer, bigint; double precision | Boolean; Int16, Int32, Int64; Float64 |
//! | numeric(p, s) | Decimal128, from 39 digits on Decimal256 |
//! | text, varchar(n), char(n) (with its blanks) | Utf8 |
//! | bytea | Binary |
//! | date | Date32 |
//! | timestamp, timestamptz | microseconds, without a zone and in UTC |
//!
//! - **A1** A value is the same value there, or an error that names row and column. What has no value there
//!   (NaN and infinities of numeric, infinite and far dates; numeric without a precision, all of it) becomes
//!   NULL or text where [`Unrepresentable`] says so.
//! - **A2** A value that is read is the column's, exactly, or an error: integers must be in range, decimals
//!   and times must not lose digits, texts not characters. Texts are read as COPY reads them, into columns of
//!   any type.
use crate::session::rows::Column;
use arrow_array::builder::{ArrayBuilder, BinaryBuilder, BooleanBuilder, PrimitiveBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::i256;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use ondol_sql::bound::Unrepresentable;
use ondol_sql::interpret::rows::RowView;
use ondol_types::func::Context;
use ondol_types::{Numeric, Packed, SqlError, SqlResult, Type, TypeId, ValueRef, datetime, sqlstate, text};
use std::sync::Arc;

/// Rows of a batch at most, and roughly its bytes: few enough for a core's cache.
const ROWS: usize = 1 << 13;
const BYTES: usize = 1 << 20;

/// From 1970 to 2000: days, microseconds.
const EPOCH_DAYS: i32 = datetime::UNIX_EPOCH_DAYS;
const EPOCH_US: i64 = EPOCH_DAYS as i64 * 86_400_000_000;

// ---- writing

/// The columns that rows become.
pub(crate) struct Form {
    schema: SchemaRef,
    columns: Vec<Column>,
    unrepresentable: Unrepresentable,
}

/// A value that has none there, in the column of that place.
pub(crate) struct Gap {
    column: usize,
    what: String,
}

impl Form {
    pub fn new(columns: &[Column], unrepresentable: Unrepresentable) -> SqlResult<Form> {
        let fields: Vec<Field> = columns
            .iter()
            .map(|c| Ok(Field::new(&c.name, data_type(c, unrepresentable)?, true)))
            .collect::<SqlResult<_>>()?;
        if fields.is_empty() {
            return Err(SqlError::unsupported("COPY of rows without columns in Parquet"));
        }
        Ok(Form { schema: Arc::new(Schema::new(fields)), columns: columns.to_vec(), unrepresentable })
    }
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }
    /// The error of a gap in a row, counted from 1.
    #[cold]
    pub fn refusal(&self, gap: &Gap, row: u64) -> SqlError {
        let c = &self.columns[gap.column];
        let (state, to) = match c.ty.id {
            TypeId::NUMERIC => (sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "decimals"),
            TypeId::DATE => (sqlstate::DATETIME_FIELD_OVERFLOW, "dates"),
            _ => (sqlstate::DATETIME_FIELD_OVERFLOW, "timestamps"),
        };
        SqlError::new(
            state,
            format!("row {row}, column \"{}\": {} is not among Parquet's {to}", c.name, gap.what),
        )
        .hint("COPY ... (FORMAT parquet, UNREPRESENTABLE 'null'), or 'text', says what it shall become.")
    }
}

fn data_type(column: &Column, unrepresentable: Unrepresentable) -> SqlResult<DataType> {
    let as_text = unrepresentable == Unrepresentable::Text;
    Ok(match column.ty.id {
        TypeId::NUMERIC | TypeId::DATE | TypeId::TIMESTAMP | TypeId::TIMESTAMPTZ if as_text => DataType::Utf8,
        TypeId::BOOL => DataType::Boolean,
        TypeId::INT2 => DataType::Int16,
        TypeId::INT4 => DataType::Int32,
        TypeId::INT8 => DataType::Int64,
        TypeId::FLOAT8 => DataType::Float64,
        TypeId::NUMERIC => match column.ty.numeric_mod() {
            Some((p @ 1..=38, s)) if (0..=p as i32).contains(&s) => DataType::Decimal128(p as u8, s as i8),
            Some((p @ 1..=76, s)) if (0..=p as i32).contains(&s) => DataType::Decimal256(p as u8, s as i8),
            _ => {
                let message = format!(
                    "column \"{}\" is of type {}, which Parquet has no decimals for",
                    column.name, column.ty
                );
                return Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message)
                    .detail("Its decimals have up to 76 digits, of which a fixed number, from none to all, stand behind the point.")
                    .hint("Cast it, as to numeric(18, 4), or COPY ... (FORMAT parquet, UNREPRESENTABLE 'text')."));
            }
        },
        TypeId::TEXT | TypeId::VARCHAR | TypeId::BPCHAR | TypeId::UNKNOWN => DataType::Utf8,
        TypeId::BYTEA => DataType::Binary,
        TypeId::DATE => DataType::Date32,
        TypeId::TIMESTAMP => DataType::Timestamp(TimeUnit::Microsecond, None),
        TypeId::TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        // As text: the formats have no type for them.
        ty if ty.form().is_some() => DataType::Utf8,
        other => {
            return Err(SqlError::unsupported(format!(
                "COPY of column \"{}\", of type {other}",
                column.name
            )));
        }
    })
}

/// Values of one column.
enum Builder {
    Bool(BooleanBuilder),
    Int2(PrimitiveBuilder<Int16Type>),
    Int4(PrimitiveBuilder<Int32Type>),
    Int8(PrimitiveBuilder<Int64Type>),
    Float8(PrimitiveBuilder<Float64Type>),
    Decimal(PrimitiveBuilder<Decimal128Type>, u16),
    LongDecimal(PrimitiveBuilder<Decimal256Type>, u16),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
    Date(PrimitiveBuilder<Date32Type>),
    Timestamp(PrimitiveBuilder<TimestampMicrosecondType>),
}

impl Builder {
    /// With room for so many values, and for those of variable length with so many bytes.
    fn new(ty: &DataType, rows: usize, bytes: usize) -> Builder {
        fn of<T: ArrowPrimitiveType>(ty: &DataType, rows: usize) -> PrimitiveBuilder<T> {
            PrimitiveBuilder::with_capacity(rows).with_data_type(ty.clone())
        }
        match ty {
            DataType::Boolean => Builder::Bool(BooleanBuilder::with_capacity(rows)),
            DataType::Int16 => Builder::Int2(of(ty, rows)),
            DataType::Int32 => Builder::Int4(of(ty, rows)),
            DataType::Int64 => Builder::Int8(of(ty, rows)),
            DataType::Float64 => Builder::Float8(of(ty, rows)),
            DataType::Decimal128(_, s) => Builder::Decimal(of(ty, rows), *s as u16),
            DataType::Decimal256(_, s) => Builder::LongDecimal(of(ty, rows), *s as u16),
            DataType::Binary => Builder::Bytes(BinaryBuilder::with_capacity(rows, bytes)),
            DataType::Date32 => Builder::Date(of(ty, rows)),
            DataType::Timestamp(..) => Builder::Timestamp(of(ty, rows)),
            _ => Builder::Text(StringBuilder::with_capacity(rows, bytes)),
        }
    }
    /// The values so far; it begins anew, with room for as many.
    fn take(&mut self, ty: &DataType) -> ArrayRef {
        let bytes = match self {
            Builder::Text(b) => b.values_slice().len(),
            Builder::Bytes(b) => b.values_slice().len(),
            _ => 0,
        };
        let another = Builder::new(ty, self.builder().len(), bytes);
        std::mem::replace(self, another).builder().finish()
    }
    fn builder(&mut self) -> &mut dyn ArrayBuilder {
        match self {
            Builder::Bool(b) => b,
            Builder::Int2(b) => b,
            Builder::Int4(b) => b,
            Builder::Int8(b) => b,
            Builder::Float8(b) => b,
            Builder::Decimal(b, _) => b,
            Builder::LongDecimal(b, _) => b,
            Builder::Text(b) => b,
            Builder::Bytes(b) => b,
            Builder::Date(b) => b,
            Builder::Timestamp(b) => b,
        }
    }
    fn null(&mut self) {
        match self {
            Builder::Bool(b) => b.append_null(),
            Builder::Int2(b) => b.append_null(),
            Builder::Int4(b) => b.append_null(),
            Builder::Int8(b) => b.append_null(),
            Builder::Float8(b) => b.append_null(),
            Builder::Decimal(b, _) => b.append_null(),
            Builder::LongDecimal(b, _) => b.append_null(),
            Builder::Text(b) => b.append_null(),
            Builder::Bytes(b) => b.append_null(),
            Builder::Date(b) => b.append_null(),
            Builder::Timestamp(b) => b.append_null(),
        }
    }
    /// Adds a value that is kept as it is, or nearly so; false if that is not so of this one. Gives the bytes
    /// that it takes beyond its width to `bytes`.
    #[inline(always)]
    fn push(&mut self, v: ValueRef<'_>, ty: Type, bytes: &mut usize) -> bool {
        match (self, v) {
            (b, ValueRef::Null) => b.null(),
            (Builder::Bool(b), ValueRef::Bool(v)) => b.append_value(v),
            (Builder::Int2(b), ValueRef::Int2(v)) => b.append_value(v),
            (Builder::Int4(b), ValueRef::Int4(v)) => b.append_value(v),
            (Builder::Int8(b), ValueRef::Int8(v)) => b.append_value(v),
            (Builder::Float8(b), ValueRef::Float8(v)) => b.append_value(v),
            (Builder::Decimal(b, scale), ValueRef::Numeric(n)) => match scaled(n, *scale) {
                Some(v) => b.append_value(v),
                None => return false,
            },
            (Builder::Decimal(b, scale), ValueRef::Packed(p)) => match packed(p, *scale) {
                Some(v) => b.append_value(v),
                None => return false,
            },
            (Builder::Bytes(b), ValueRef::Bytea(v)) => {
                *bytes += v.len();
                b.append_value(v)
            }
            (Builder::Date(b), ValueRef::Date(v)) => match v.checked_add(EPOCH_DAYS) {
                Some(days) if datetime::date_is_finite(v) => b.append_value(days),
                _ => return false,
            },
            (Builder::Timestamp(b), ValueRef::Timestamp(v) | ValueRef::Timestamptz(v)) => {
                match v.checked_add(EPOCH_US) {
                    Some(us) if datetime::timestamp_is_finite(v) => b.append_value(us),
                    _ => return false,
                }
            }
            (Builder::Text(b), ValueRef::Text(v)) if ty.id != TypeId::BPCHAR => {
                *bytes += v.len();
                b.append_value(v)
            }
            _ => return false,
        }
        true
    }
    /// Adds any other value; false if there is none for it.
    #[inline(never)]
    fn push_other(&mut self, v: ValueRef<'_>, ty: Type, cell: &mut String, bytes: &mut usize) -> bool {
        match (self, v) {
            (Builder::LongDecimal(b, scale), ValueRef::Numeric(n)) => match long_scaled(n, *scale, cell) {
                Some(v) => b.append_value(v),
                None => return false,
            },
            (Builder::LongDecimal(b, scale), ValueRef::Packed(p)) => match packed(p, *scale) {
                Some(v) => b.append_value(i256::from_i128(v)),
                None => return false,
            },
            (Builder::Text(b), v) => {
                cell.clear();
                text::output(v, ty, cell);
                *bytes += cell.len();
                b.append_value(&*cell)
            }
            // The column's type made the builder.
            _ => return false,
        }
        true
    }
}

/// The whole number that a decimal of this scale is kept as.
#[inline]
fn scaled(stored: &[u8], scale: u16) -> Option<i128> {
    let (mantissa, own) = Numeric::scaled(stored)?;
    rescaled(mantissa, own, scale)
}

/// The same of a packed one.
#[inline]
fn packed(p: Packed, scale: u16) -> Option<i128> {
    rescaled(p.units()?.into(), p.scale(), scale)
}

#[inline]
fn rescaled(mantissa: i128, own: u16, scale: u16) -> Option<i128> {
    if own == scale {
        return Some(mantissa);
    }
    mantissa.checked_mul(10i128.checked_pow(u32::from(scale.checked_sub(own)?))?)
}

fn long_scaled(stored: &[u8], scale: u16, cell: &mut String) -> Option<i256> {
    if let Some(v) = scaled(stored, scale) {
        return Some(i256::from_i128(v));
    }
    let n = Numeric::decode(stored);
    let own = n.scale().filter(|own| *own <= scale)?;
    cell.clear();
    n.write_to(cell);
    cell.retain(|c| c != '.');
    cell.extend(std::iter::repeat_n('0', usize::from(scale - own)));
    i256::from_string(cell)
}

/// Rows that become a batch.
pub(crate) struct Columns {
    form: Arc<Form>,
    builders: Vec<Builder>,
    rows: usize,
    bytes: usize,
    /// Bytes of a row's values without those of variable length.
    width: usize,
    cell: String,
}

impl Columns {
    pub fn new(form: Arc<Form>) -> Columns {
        let types = form.schema.fields().iter().map(|f| f.data_type());
        let builders = types.clone().map(|t| Builder::new(t, 0, 0)).collect();
        // Of a text or bytes its end.
        let width = types.map(|t| t.primitive_width().unwrap_or(size_of::<i32>())).sum();
        Columns { form, builders, rows: 0, bytes: 0, width, cell: String::new() }
    }
    pub fn push(&mut self, row: &RowView<'_>) -> Result<(), Gap> {
        let form = &*self.form;
        let (cell, bytes, mut gap, mut column) = (&mut self.cell, &mut self.bytes, None, 0);
        row.each(form.columns.iter().zip(&mut self.builders), |v, (c, b)| {
            // The value is looked up again, since one that is handed on as a whole would always be put
            // together in memory.
            if !b.push(v, c.ty, bytes) && !b.push_other(row.get(column), c.ty, cell, bytes) {
                if form.unrepresentable != Unrepresentable::Null {
                    gap = Some(column);
                    return false;
                }
                b.null()
            }
            column += 1;
            true
        });
        self.rows += 1;
        self.bytes += self.width;
        let Some(column) = gap else { return Ok(()) };
        let mut what = String::new();
        text::output(row.get(column), form.columns[column].ty, &mut what);
        Err(Gap { column, what })
    }
    /// Bytes that the rows take, roughly.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    pub fn rows(&self) -> usize {
        self.rows
    }
    /// It is as large as a batch should be.
    pub fn is_full(&self) -> bool {
        self.rows >= ROWS || self.bytes >= BYTES
    }
    /// The rows so far, as a batch; it begins anew.
    pub fn take(&mut self) -> SqlResult<RecordBatch> {
        (self.rows, self.bytes) = (0, 0);
        let fields = self.form.schema.fields().iter();
        let arrays = self.builders.iter_mut().zip(fields).map(|(b, f)| b.take(f.data_type())).collect();
        RecordBatch::try_new(self.form.schema.clone(), arrays)
            .map_err(|e| SqlError::new(sqlstate::INTERNAL_ERROR, e.to_string()))
    }
}

// ---- reading

/// The file's types that a column takes, for an error.
fn expected(ty: Type) -> &'static str {
    match ty.id {
        TypeId::BOOL => "Boolean or Utf8",
        TypeId::INT2 | TypeId::INT4 | TypeId::INT8 => "an integer or Utf8",
        TypeId::FLOAT8 => "Float32, Float64 or Utf8",
        TypeId::NUMERIC => "a decimal, an integer or Utf8",
        TypeId::BYTEA => "Binary or Utf8",
        TypeId::DATE => "Date32 or Utf8",
        TypeId::TIMESTAMP => "a timestamp without a zone or Utf8",
        TypeId::TIMESTAMPTZ => "a timestamp in UTC or Utf8",
        _ => "Utf8",
    }
}

/// That the file's column can be read into the table's.
pub(crate) fn check(field: &Field, ty: Type) -> SqlResult<()> {
    use DataType as D;
    let found = field.data_type();
    let integer = found.is_integer();
    let decimal = matches!(found, D::Decimal128(_, s) | D::Decimal256(_, s) if *s >= 0);
    let fits = match ty.id {
        _ if matches!(found, D::Utf8 | D::Null) => true,
        TypeId::BOOL => *found == D::Boolean,
        TypeId::INT2 | TypeId::INT4 | TypeId::INT8 => integer,
        TypeId::FLOAT8 => matches!(found, D::Float32 | D::Float64),
        TypeId::NUMERIC => integer || decimal,
        TypeId::BYTEA => matches!(found, D::Binary | D::FixedSizeBinary(_)),
        TypeId::DATE => *found == D::Date32,
        TypeId::TIMESTAMP => matches!(found, D::Timestamp(_, None)),
        TypeId::TIMESTAMPTZ => matches!(found, D::Timestamp(_, Some(_))),
        _ => false,
    };
    if fits {
        return Ok(());
    }
    Err(SqlError::new(
        sqlstate::DATATYPE_MISMATCH,
        format!(
            "column \"{}\" is of type {}: expected {} in the file, found {found}",
            field.name(),
            ty,
            expected(ty)
        ),
    ))
}

/// A column of a batch, to be read into a column of the table.
pub(crate) struct Cells<'b> {
    array: &'b dyn Array,
    ty: Type,
    kind: Kind<'b>,
}

enum Kind<'b> {
    Null,
    Bool(&'b arrow_array::BooleanArray),
    Integer(Integers<'b>),
    Float4(&'b arrow_array::Float32Array),
    Float8(&'b arrow_array::Float64Array),
    Decimal(&'b arrow_array::Decimal128Array, u16),
    LongDecimal(&'b arrow_array::Decimal256Array),
    Text(&'b arrow_array::StringArray),
    Bytes(&'b arrow_array::BinaryArray),
    FixedBytes(&'b arrow_array::FixedSizeBinaryArray),
    Date(&'b arrow_array::Date32Array),
    /// Their values, how many microseconds one of their units has, and how many of them a microsecond has.
    Timestamp(&'b [i64], i64, i64),
}

enum Integers<'b> {
    I8(&'b [i8]),
    I16(&'b [i16]),
    I32(&'b [i32]),
    I64(&'b [i64]),
    U8(&'b [u8]),
    U16(&'b [u16]),
    U32(&'b [u32]),
    U64(&'b [u64]),
}

impl Integers<'_> {
    #[inline]
    fn get(&self, row: usize) -> i128 {
        match self {
            Integers::I8(v) => v[row].into(),
            Integers::I16(v) => v[row].into(),
            Integers::I32(v) => v[row].into(),
            Integers::I64(v) => v[row].into(),
            Integers::U8(v) => v[row].into(),
            Integers::U16(v) => v[row].into(),
            Integers::U32(v) => v[row].into(),
            Integers::U64(v) => v[row].into(),
        }
    }
}

fn primitives<T: ArrowPrimitiveType>(array: &dyn Array) -> &[T::Native] {
    array.as_primitive::<T>().values()
}

impl<'b> Cells<'b> {
    /// `array` has a type that [`check`] found fit.
    pub fn new(array: &'b ArrayRef, ty: Type) -> SqlResult<Cells<'b>> {
        use DataType as D;
        let array: &dyn Array = &**array;
        let kind = match array.data_type() {
            D::Null => Kind::Null,
            D::Boolean => Kind::Bool(array.as_boolean()),
            D::Int8 => Kind::Integer(Integers::I8(primitives::<Int8Type>(array))),
            D::Int16 => Kind::Integer(Integers::I16(primitives::<Int16Type>(array))),
            D::Int32 => Kind::Integer(Integers::I32(primitives::<Int32Type>(array))),
            D::Int64 => Kind::Integer(Integers::I64(primitives::<Int64Type>(array))),
            D::UInt8 => Kind::Integer(Integers::U8(primitives::<UInt8Type>(array))),
            D::UInt16 => Kind::Integer(Integers::U16(primitives::<UInt16Type>(array))),
            D::UInt32 => Kind::Integer(Integers::U32(primitives::<UInt32Type>(array))),
            D::UInt64 => Kind::Integer(Integers::U64(primitives::<UInt64Type>(array))),
            D::Float32 => Kind::Float4(array.as_primitive::<Float32Type>()),
            D::Float64 => Kind::Float8(array.as_primitive::<Float64Type>()),
            D::Decimal128(_, s) => Kind::Decimal(array.as_primitive::<Decimal128Type>(), *s as u16),
            D::Decimal256(..) => Kind::LongDecimal(array.as_primitive::<Decimal256Type>()),
            D::Utf8 => Kind::Text(array.as_string()),
            D::Binary => Kind::Bytes(array.as_binary()),
            D::FixedSizeBinary(_) => Kind::FixedBytes(array.as_fixed_size_binary()),
            D::Date32 => Kind::Date(array.as_primitive::<Date32Type>()),
            D::Timestamp(TimeUnit::Millisecond, _) => {
                Kind::Timestamp(primitives::<TimestampMillisecondType>(array), 1000, 1)
            }
            D::Timestamp(TimeUnit::Microsecond, _) => {
                Kind::Timestamp(primitives::<TimestampMicrosecondType>(array), 1, 1)
            }
            D::Timestamp(TimeUnit::Nanosecond, _) => {
                Kind::Timestamp(primitives::<TimestampNanosecondType>(array), 1, 1000)
            }
            other => {
                return Err(SqlError::new(
                    sqlstate::INTERNAL_ERROR,
                    format!("a column of type {other} was not refused"),
                ));
            }
        };
        Ok(Cells { array, ty, kind })
    }

    /// The value in a row.
    #[inline]
    pub fn get<'v>(&self, row: usize, ctx: &Context<'_>, scratch: &'v mut Vec<u8>) -> SqlResult<ValueRef<'v>>
    where
        'b: 'v,
    {
        if self.array.is_null(row) {
            return Ok(ValueRef::Null);
        }
        Ok(match &self.kind {
            Kind::Null => ValueRef::Null,
            Kind::Bool(a) => ValueRef::Bool(a.value(row)),
            Kind::Integer(i) => {
                let n = i.get(row);
                match self.ty.id {
                    TypeId::INT2 => ValueRef::Int2(n.try_into().map_err(|_| self.out_of_range(n))?),
                    TypeId::INT4 => ValueRef::Int4(n.try_into().map_err(|_| self.out_of_range(n))?),
                    TypeId::INT8 => ValueRef::Int8(n.try_into().map_err(|_| self.out_of_range(n))?),
                    _ => self.numeric(Numeric::from_scaled(n, 0), scratch)?,
                }
            }
            Kind::Float4(a) => ValueRef::Float8(a.value(row).into()),
            Kind::Float8(a) => ValueRef::Float8(a.value(row)),
            Kind::Decimal(a, scale) => self.numeric(Numeric::from_scaled(a.value(row), *scale), scratch)?,
            Kind::LongDecimal(a) => self.numeric(Numeric::parse(&a.value_as_string(row))?, scratch)?,
            Kind::Text(a) => {
                let text = a.value(row);
                if text.as_bytes().contains(&0) {
                    return Err(SqlError::new("22021", "invalid byte sequence for encoding \"UTF8\": 0x00"));
                }
                crate::transfer::load::convert(text, self.ty, ctx, scratch)?
            }
            Kind::Bytes(a) => ValueRef::Bytea(a.value(row)),
            Kind::FixedBytes(a) => ValueRef::Bytea(a.value(row)),
            Kind::Date(a) => match a.value(row).checked_sub(EPOCH_DAYS) {
                Some(d) if datetime::check_date(d.into()).is_some() => ValueRef::Date(d),
                _ => return Err(self.no_date(a.value(row).into(), "days")),
            },
            Kind::Timestamp(values, us, parts) => {
                let v = values[row];
                if v % parts != 0 {
                    let message = format!("{v} nanoseconds from 1970 are no whole microseconds");
                    return Err(SqlError::new(sqlstate::DATETIME_FIELD_OVERFLOW, message));
                }
                match (v / parts).checked_mul(*us).and_then(|us| us.checked_sub(EPOCH_US)) {
                    Some(t) if datetime::check_timestamp(t).is_some() => match self.ty.id {
                        TypeId::TIMESTAMP => ValueRef::Timestamp(self.in_precision(t)?),
                        _ => ValueRef::Timestamptz(self.in_precision(t)?),
                    },
                    _ => return Err(self.no_date(v, "units")),
                }
            }
        })
    }

    /// A numeric of the column's precision and scale.
    fn numeric<'v>(&self, n: Numeric, scratch: &'v mut Vec<u8>) -> SqlResult<ValueRef<'v>> {
        let fitted = match self.ty.numeric_mod() {
            None => n,
            Some((precision, scale)) => {
                let fitted = n.apply_typmod(precision, scale)?;
                if fitted != n {
                    let mut shown = String::new();
                    n.write_to(&mut shown);
                    return Err(SqlError::new(
                        sqlstate::NUMERIC_VALUE_OUT_OF_RANGE,
                        format!("{shown} has more decimal places than type {}", self.ty),
                    ));
                }
                fitted
            }
        };
        scratch.clear();
        fitted.encode(scratch);
        Ok(ValueRef::Numeric(scratch))
    }
    /// A timestamp(p) takes no more places than p.
    fn in_precision(&self, t: i64) -> SqlResult<i64> {
        if (0..6).contains(&self.ty.typmod) && t % 10i64.pow(6 - self.ty.typmod as u32) != 0 {
            return Err(SqlError::new(
                sqlstate::DATETIME_FIELD_OVERFLOW,
                format!("it has more decimal places than type {}", self.ty),
            ));
        }
        Ok(t)
    }
    #[cold]
    fn out_of_range(&self, n: i128) -> SqlError {
        let message = format!("value \"{n}\" is out of range for type {}", self.ty);
        SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, message)
    }
    #[cold]
    fn no_date(&self, n: i64, unit: &str) -> SqlError {
        let message = format!("{n} {unit} from 1970 are out of range for type {}", self.ty);
        SqlError::new(sqlstate::DATETIME_FIELD_OVERFLOW, message)
    }
}
