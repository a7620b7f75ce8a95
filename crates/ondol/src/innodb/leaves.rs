//! Rows of the engine's made of a leaf of InnoDB's.
//!
//! - **B1** Values are those of `innodb_scan` (innodb/I1), however they are read: column by column where the
//!   decoder does that for Arrow, and value by value the columns that become another type here. What is
//!   wrong, or does not lie as usual, on a leaf makes it be read again row by row, so errors are those of the
//!   careful way, and of the first row that has one.
use crate::innodb::{InnodbTable, ValueReader, failed};
use ondol_engine::RowBatch;
use ondol_innodb::scan::Leaf;
use ondol_types::{SqlResult, ValueRef};
use std::ops::Range;

/// Makes rows, in one thread.
pub(crate) struct Maker {
    reader: ValueReader,
    held: Held,
    #[cfg(feature = "columnar")]
    columns: Option<by_column::Columns>,
    /// Dates that became NULL.
    nulled: u64,
}

/// A row's values on their way, their bytes in one place.
#[derive(Default)]
struct Held {
    values: Vec<(ValueRef<'static>, Range<usize>)>,
    bytes: Vec<u8>,
}
impl Held {
    fn clear(&mut self) {
        self.values.clear();
        self.bytes.clear();
    }
    fn push(&mut self, value: ValueRef<'_>) {
        let from = self.bytes.len();
        let kind = match value {
            ValueRef::Text(t) => {
                self.bytes.extend_from_slice(t.as_bytes());
                ValueRef::Text("")
            }
            ValueRef::Bytea(b) => {
                self.bytes.extend_from_slice(b);
                ValueRef::Bytea(&[])
            }
            ValueRef::Numeric(b) => {
                self.bytes.extend_from_slice(b);
                ValueRef::Numeric(&[])
            }
            ValueRef::Opaque(ty, b) => {
                self.bytes.extend_from_slice(b);
                ValueRef::Opaque(ty, &[])
            }
            ValueRef::Packed(p) => ValueRef::Packed(p),
            ValueRef::Null => ValueRef::Null,
            ValueRef::Bool(v) => ValueRef::Bool(v),
            ValueRef::Int2(v) => ValueRef::Int2(v),
            ValueRef::Int4(v) => ValueRef::Int4(v),
            ValueRef::Int8(v) => ValueRef::Int8(v),
            ValueRef::Float8(v) => ValueRef::Float8(v),
            ValueRef::Date(v) => ValueRef::Date(v),
            ValueRef::Timestamp(v) => ValueRef::Timestamp(v),
            ValueRef::Timestamptz(v) => ValueRef::Timestamptz(v),
        };
        self.values.push((kind, from..self.bytes.len()));
    }
    fn values(&self) -> impl Iterator<Item = ValueRef<'_>> {
        self.values.iter().map(|(kind, range)| {
            let bytes = &self.bytes[range.clone()];
            match kind {
                // They were a text's before.
                ValueRef::Text(_) => ValueRef::Text(std::str::from_utf8(bytes).unwrap_or_default()),
                ValueRef::Bytea(_) => ValueRef::Bytea(bytes),
                ValueRef::Numeric(_) => ValueRef::Numeric(bytes),
                ValueRef::Opaque(ty, _) => ValueRef::Opaque(*ty, bytes),
                other => *other,
            }
        })
    }
}

impl Maker {
    /// For all columns of a table, which become those of a table here.
    pub fn new(table: &InnodbTable) -> Maker {
        let wanted: Vec<u16> = (0..table.places().len() as u16).collect();
        Maker {
            reader: table.reader(&wanted),
            held: Held::default(),
            #[cfg(feature = "columnar")]
            columns: by_column::Columns::new(table),
            nulled: 0,
        }
    }
    /// Adds a leaf's rows; `full` is asked to take rows away where they have become many.
    pub fn add(
        &mut self,
        leaf: &Leaf<'_>,
        rows: &mut RowBatch,
        mut full: impl FnMut(&mut RowBatch) -> SqlResult<()>,
    ) -> SqlResult<()> {
        #[cfg(feature = "columnar")]
        if let Some(columns) = &mut self.columns {
            let before = rows.counts();
            if let Some(nulled) = columns.add(leaf, rows) {
                self.nulled += nulled;
                return full(rows);
            }
            rows.truncate(before);
            if columns.is_in_vain() {
                self.columns = None;
            }
        }
        let mut values: Vec<ValueRef<'_>> = Vec::new();
        for row in 0..leaf.rows.len() {
            self.held.clear();
            let held = &mut self.held;
            self.reader.read(leaf, row, &mut |_, value| held.push(value))?;
            let mut memory = crate::transfer::load::reused(std::mem::take(&mut values));
            memory.extend(self.held.values());
            let is_whole = rows.push(&memory);
            memory.clear();
            values = crate::transfer::load::reused(memory);
            if !is_whole {
                return Err(failed(leaf.unfit("a row does not fit the columns of its table")));
            }
            full(rows)?;
        }
        Ok(())
    }
    /// Dates that became NULL since the last call.
    pub fn take_nulled(&mut self) -> u64 {
        std::mem::take(&mut self.nulled) + self.reader.take_nulled()
    }
}

#[cfg(feature = "columnar")]
mod by_column {
    use super::{InnodbTable, ValueReader};
    use arrow_array::cast::AsArray;
    use arrow_array::types::{
        ArrowDictionaryKeyType, ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type,
        Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, UInt8Type, UInt16Type,
        UInt32Type, UInt64Type,
    };
    use arrow_array::{Array, RecordBatch};
    use arrow_buffer::ArrowNativeType;
    use ondol_engine::RowBatch;
    use ondol_innodb::columns::{self, Form};
    use ondol_innodb::scan::Leaf;
    use ondol_innodb::table::Type as Foreign;
    use ondol_types::datetime::{UNIX_EPOCH_DAYS, USECS_PER_DAY};
    use ondol_types::{Numeric, Type, TypeId};
    use std::ops::Range;
    use std::sync::Arc;

    /// Leaves that were no use to read by column, after which it is not tried any more.
    const VAIN: u32 = 8;
    /// Bytes of a batch: each leaf is one.
    const ENOUGH: usize = 0;

    /// What reads most columns one by one.
    pub struct Columns {
        form: Arc<Form>,
        columns: columns::Columns,
        /// Of each of these its place in the rows, and its type there.
        kinds: Vec<(usize, Type)>,
        /// The others, and their places in the rows.
        others: ValueReader,
        places: Vec<usize>,
        /// Columns, by their places in the file's table, that may lie off their pages.
        long: Vec<usize>,
        scratch: Vec<u8>,
        vain: u32,
    }

    /// Whether Arrow's values of a column are those of a type of ours, but for the way in which they are
    /// written.
    fn is_same(column: &Foreign, ty: Type) -> bool {
        match column {
            Foreign::Int { .. } | Foreign::Year { .. } => ty.id != TypeId::NUMERIC,
            // In more bytes damage could be no number here.
            Foreign::Bit { bits } => *bits <= 56,
            Foreign::Decimal { precision, .. } => *precision <= 38,
            Foreign::Time { .. } | Foreign::OldTime => false,
            // Texts here have no zero byte.
            Foreign::Enum { elements, .. } => !elements.iter().any(|e| e.contains('\0')),
            _ => true,
        }
    }

    impl Columns {
        /// `None`: no column is read so.
        pub fn new(table: &InnodbTable) -> Option<Columns> {
            let there = table.scan().columns();
            let all = || table.places().iter().zip(table.types()).enumerate();
            let same = |(place, ty): (&usize, Type)| is_same(&there[*place].ty, ty);
            let kinds: Vec<(usize, Type)> =
                all().filter(|(_, c)| same(*c)).map(|(n, (_, ty))| (n, ty)).collect();
            let places: Vec<usize> = all().filter(|(_, c)| !same(*c)).map(|(n, _)| n).collect();
            if kinds.is_empty() {
                return None;
            }
            let wanted: Vec<usize> = kinds.iter().map(|(n, _)| table.places()[*n]).collect();
            let form = Arc::new(Form::new(table.scan(), &wanted, table.zero_dates()));
            let others: Vec<u16> = places.iter().map(|n| *n as u16).collect();
            let is_long = |place: &usize| {
                matches!(
                    there[*place].ty,
                    Foreign::Text { .. } | Foreign::Bytes { .. } | Foreign::Json | Foreign::Geometry
                )
            };
            Some(Columns {
                columns: columns::Columns::new(table.scan(), form.clone(), ENOUGH),
                form,
                kinds,
                others: table.reader(&others),
                places,
                long: table.places().iter().copied().filter(is_long).collect(),
                scratch: Vec::new(),
                vain: 0,
            })
        }
        /// The table is one whose leaves have to be read row by row.
        pub fn is_in_vain(&self) -> bool {
            self.vain >= VAIN
        }
        /// Adds a leaf's rows, and gives how many dates became NULL. `None`: it has to be read row by row;
        /// what was added to the rows is nothing.
        pub fn add(&mut self, leaf: &Leaf<'_>, rows: &mut RowBatch) -> Option<u64> {
            // Long values are taken one by one, since each may be as large as a batch should be.
            if !self.long.iter().all(|column| leaf.rows.is_whole(*column)) {
                return None;
            }
            let added = self.try_add(leaf, 0..leaf.rows.len(), rows);
            match added {
                Some(_) => self.vain = 0,
                None => {
                    self.vain += 1;
                    // What it took so far is given up.
                    self.columns = columns::Columns::new(leaf.scan, self.form.clone(), ENOUGH);
                    self.others.take_nulled();
                }
            }
            added
        }
        pub(super) fn try_add(
            &mut self,
            leaf: &Leaf<'_>,
            taken: Range<usize>,
            rows: &mut RowBatch,
        ) -> Option<u64> {
            let count = taken.len();
            self.columns.add(leaf, taken.clone()).ok()?;
            let batch = self.columns.take(leaf.scan).ok()?;
            let first = rows.add_zeros(count);
            let fits = self.set_all(&batch, rows, first);
            self.columns.reuse(batch);
            fits?;
            if !self.places.is_empty() {
                for (to, row) in (first..).zip(taken) {
                    let mut fits = true;
                    let mut put = |n: usize, value: ondol_types::ValueRef<'_>| {
                        fits &= rows.set(self.places[n], to, &value)
                    };
                    self.others.read(leaf, row, &mut put).ok()?;
                    fits.then_some(())?;
                }
            }
            Some(self.columns.take_nulled() + self.others.take_nulled())
        }
        fn set_all(&mut self, batch: &RecordBatch, rows: &mut RowBatch, first: usize) -> Option<()> {
            for (array, (column, ty)) in batch.columns().iter().zip(&self.kinds) {
                set(array, *ty, *column, rows, first, &mut self.scratch)?;
                if let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) {
                    let null = (0..array.len()).filter(|row| nulls.is_null(*row));
                    for row in null {
                        rows.set_null(*column, first + row).then_some(())?;
                    }
                }
            }
            Some(())
        }
    }

    /// Sets a column to an array's values; `None`: it can not be.
    fn set(
        array: &dyn Array,
        ty: Type,
        column: usize,
        rows: &mut RowBatch,
        first: usize,
        scratch: &mut Vec<u8>,
    ) -> Option<()> {
        use arrow_schema::DataType;
        fn numbers<T: ArrowPrimitiveType, const N: usize>(
            array: &dyn Array,
            (column, first): (usize, usize),
            rows: &mut RowBatch,
            value: impl Fn(T::Native) -> [u8; N],
        ) -> bool {
            let values = array.as_primitive::<T>().values().iter().map(|v| value(*v));
            rows.set_numbers(column, first, values)
        }
        let to = (column, first);
        macro_rules! integers {
            ($kind:ty) => {
                match ty.id {
                    // The types were chosen so that all values fit.
                    TypeId::INT2 => numbers::<$kind, 2>(array, to, rows, |n| (n as i16).to_le_bytes()),
                    TypeId::INT4 => numbers::<$kind, 4>(array, to, rows, |n| (n as i32).to_le_bytes()),
                    TypeId::INT8 => numbers::<$kind, 8>(array, to, rows, |n| (n as i64).to_le_bytes()),
                    _ => false,
                }
            };
        }
        let done = match array.data_type() {
            DataType::Int8 => integers!(Int8Type),
            DataType::Int16 => integers!(Int16Type),
            DataType::Int32 => integers!(Int32Type),
            DataType::Int64 => integers!(Int64Type),
            DataType::UInt8 => integers!(UInt8Type),
            DataType::UInt16 => integers!(UInt16Type),
            DataType::UInt32 => integers!(UInt32Type),
            DataType::UInt64 => integers!(UInt64Type),
            DataType::Float32 => numbers::<Float32Type, 8>(array, to, rows, |v| f64::from(v).to_le_bytes()),
            DataType::Float64 => numbers::<Float64Type, 8>(array, to, rows, f64::to_le_bytes),
            DataType::Date32 => {
                numbers::<Date32Type, 4>(array, to, rows, |days| (days - UNIX_EPOCH_DAYS).to_le_bytes())
            }
            DataType::Timestamp(..) => numbers::<TimestampMicrosecondType, 8>(array, to, rows, |micros| {
                (micros - i64::from(UNIX_EPOCH_DAYS) * USECS_PER_DAY).to_le_bytes()
            }),
            DataType::Decimal128(_, scale) => {
                let scale = u16::try_from(*scale).ok()?;
                let values = array.as_primitive::<Decimal128Type>().values();
                scratch.clear();
                let mut ends = Vec::with_capacity(values.len());
                for value in values {
                    Numeric::from_scaled(*value, scale).encode(scratch);
                    ends.push(scratch.len());
                }
                let starts = std::iter::once(&0).chain(&ends);
                rows.set_strings(column, first, starts.zip(&ends).map(|(from, to)| &scratch[*from..*to]))
            }
            DataType::Utf8 => {
                let texts = array.as_string::<i32>();
                let offsets = texts.value_offsets();
                let values = &texts.value_data()[*offsets.first()? as usize..*offsets.last()? as usize];
                let is_long = |n: usize, text: &str| text.len() > n && text.chars().count() > n;
                // Texts here have no zero byte.
                let fine = !values.contains(&0)
                    && ty.char_len().is_none_or(|n| !texts.iter().flatten().any(|text| is_long(n, text)));
                fine && rows.set_strings(column, first, (0..texts.len()).map(|n| texts.value(n).as_bytes()))
            }
            DataType::Dictionary(key, _) => {
                fn elements<K: ArrowDictionaryKeyType>(
                    array: &dyn Array,
                    (column, first): (usize, usize),
                    rows: &mut RowBatch,
                ) -> Option<bool> {
                    let array = array.as_dictionary_opt::<K>()?;
                    let texts = array.values().as_string_opt::<i32>()?;
                    let numbers = array.keys().values().iter();
                    let texts = numbers.map(|n| texts.value(n.as_usize()).as_bytes());
                    Some(rows.set_strings(column, first, texts))
                }
                match **key {
                    DataType::UInt8 => elements::<UInt8Type>(array, to, rows)?,
                    _ => elements::<UInt16Type>(array, to, rows)?,
                }
            }
            DataType::Binary => {
                let values = array.as_binary::<i32>();
                rows.set_strings(column, first, (0..values.len()).map(|n| values.value(n)))
            }
            _ => false,
        };
        done.then_some(())
    }
}

#[cfg(all(test, feature = "columnar"))]
mod tests {
    use super::*;
    use ondol_innodb::scan::{Buffers, Scan};
    use ondol_innodb::value::{ZeroBytes, ZeroDates};
    use std::io::Read;
    use std::path::Path;

    fn opened(folder: &Path, server: &str, table: &str) -> Scan {
        let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../innodb/tests/files").join(server);
        for kind in ["ibd", "frm"] {
            let Ok(file) = std::fs::File::open(files.join(format!("{table}.{kind}.gz"))) else { continue };
            let mut bytes = Vec::new();
            flate2::read::GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
            std::fs::write(folder.join(format!("{table}.{kind}")), bytes).unwrap();
        }
        Scan::open(&folder.join(format!("{table}.ibd"))).unwrap()
    }

    /// Each row of tables with all types, by column and the careful way, lies here the same; all but few can
    /// be read by column.
    #[test]
    fn rows_by_column_are_those_of_the_careful_way() {
        let folder = crate::TempFolder::new().unwrap();
        let db = crate::Database::open(folder.path().join("db")).unwrap();
        let mut s = db.session();
        let mut n = 0;
        for (server, table, not_by_column) in [
            // A character of four bytes in a char(3).
            ("mariadb-10.11", "everything", 1),
            ("mysql-9.7", "everything", 1),
            ("mariadb-10.11", "keyed", 0),
            ("mariadb-10.11", "own", 0),
            ("mysql-9.7", "own", 0),
            ("mariadb-10.11", "olddates", 0),
            ("mariadb-10.11", "instantkey", 0),
            ("mariadb-10.11", "tree", 0),
        ] {
            for zero_dates in [ZeroDates::Text, ZeroDates::Null] {
                let source =
                    InnodbTable::new(opened(folder.path(), server, table), zero_dates, ZeroBytes::Refuse)
                        .unwrap();
                n += 1;
                let names = [format!("quick{n}"), format!("careful{n}")];
                let tables = names.each_ref().map(|name| {
                    s.connection.create_table(name, source.definitions()).unwrap();
                    s.connection.catalog().table(name).unwrap().clone()
                });
                let mut made = tables.each_ref().map(|t| RowBatch::new(t.layout.clone(), 0));
                let [quick, careful] = &mut made;
                let mut by_column = by_column::Columns::new(&source).unwrap();
                let mut by_row = Maker { columns: None, ..Maker::new(&source) };
                let (mut nulled, mut missed) = (0, 0);
                for part in 0..source.scan().parts() {
                    let each = |leaf: Leaf<'_>| {
                        for row in 0..leaf.rows.len() {
                            let before = quick.counts();
                            match by_column.try_add(&leaf, row..row + 1, quick) {
                                Some(n) => nulled += n,
                                None => {
                                    quick.truncate(before);
                                    by_column = by_column::Columns::new(&source).unwrap();
                                    missed += 1;
                                }
                            }
                        }
                        by_row.add(&leaf, careful, |_| Ok(())).unwrap();
                        Ok(())
                    };
                    source.scan().read(part, &mut Buffers::default(), each).unwrap();
                }
                let what = format!("{server} {table} {zero_dates:?}");
                assert_eq!((quick.len() + missed, missed), (careful.len(), not_by_column), "{what}");
                // Those of a row that was not read by column are not among them.
                let all = by_row.take_nulled();
                assert!(if missed == 0 { nulled == all } else { nulled <= all }, "{what}: {nulled} of {all}");
                for (table, rows) in tables.iter().zip(&mut made) {
                    let version = s.connection.catalog_version();
                    s.connection.start_statement(version, std::slice::from_ref(table), true).unwrap();
                    s.connection.insert_rows(table, rows).map_err(|e| e.1).unwrap();
                    s.connection.end_statement().unwrap();
                }
                for ([one, other], count) in [([&names[0], &names[1]], 0), ([&names[1], &names[0]], missed)] {
                    let sql = format!("SELECT count(*) FROM (TABLE {one} EXCEPT ALL TABLE {other}) q");
                    let rows = s.query(&sql, &[]).unwrap();
                    assert_eq!(rows.row(0).get::<i64>(0).unwrap(), count as i64, "{what}: {sql}");
                }
            }
        }
    }

    /// The quick way is taken.
    #[test]
    fn leaves_of_servers_are_read_by_column() {
        let folder = crate::TempFolder::new().unwrap();
        for table in ["tree", "keytree", "instanttree", "redundanttree", "instantkey", "keyed"] {
            let source = InnodbTable::new(
                opened(folder.path(), "mariadb-10.11", table),
                ZeroDates::Text,
                ZeroBytes::Refuse,
            )
            .unwrap();
            let columns: Vec<_> = source.definitions().iter().map(|c| (c.ty, c.not_null)).collect();
            let mut rows = RowBatch::new(ondol_engine::Layout::new(&columns).into(), 0);
            let mut by_column = by_column::Columns::new(&source).unwrap();
            for part in 0..source.scan().parts() {
                let each = |leaf: Leaf<'_>| {
                    assert!(by_column.add(&leaf, &mut rows).is_some(), "{table}, page {}", leaf.number);
                    Ok(())
                };
                source.scan().read(part, &mut Buffers::default(), each).unwrap();
            }
        }
    }
}
