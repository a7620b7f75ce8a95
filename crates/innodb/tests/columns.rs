//! Tables as Parquet and Arrow, read back by those crates' own readers, and every value compared with the CSV
//! that the same table gives, which `servers.rs` compares with what the servers said.
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Decimal256Type, DurationMicrosecondType, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, SchemaRef, TimeUnit};
use ondol_innodb::columns::ZeroDates;
use ondol_innodb::error::{Kind, Result};
use ondol_innodb::export::{self, Done, Format, Options};
use ondol_innodb::scan::Scan;
use ondol_innodb::table::{Column, Type};
use ondol_innodb::{text, value};
use ondol_scan::csv::{Dialect, Lines};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

mod fixture;
use fixture::{Random, SERVERS, seal, stored, tables, unpacked};

/// Servers with the table of all types that both have.
fn with_everything() -> impl Iterator<Item = &'static str> {
    SERVERS.into_iter().filter(|server| stored(server, "everything.ibd").is_some())
}

/// Exports with every column, and whatever else `change` says.
fn exported(
    scan: &Arc<Scan>,
    format: Format,
    change: impl FnOnce(&mut Options),
    out: &mut (dyn Write + Send),
) -> Result<Done> {
    let columns = export::columns(scan, None).expect("columns");
    let mut options = Options { format, columns, limit: None, workers: 3, ordered: true };
    change(&mut options);
    export::export(scan.clone(), &options, out, Path::new("memory"), |_| {})
}
fn bytes(scan: &Arc<Scan>, format: Format) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    exported(scan, format, |_| {}, &mut out).map(|_| out)
}

fn batches(format: Format, bytes: Vec<u8>) -> (SchemaRef, Vec<RecordBatch>) {
    let cursor = std::io::Cursor::new(bytes.clone());
    match format {
        Format::Text(_) => panic!("a text has no batches"),
        Format::Parquet(_) => {
            let file = tempfile::NamedTempFile::new().expect("a file");
            std::fs::write(file.path(), &bytes).expect("a file");
            let builder = ParquetRecordBatchReaderBuilder::try_new(file.reopen().expect("a file"));
            let builder = builder.expect("a Parquet file");
            let schema = builder.schema().clone();
            (schema, builder.build().expect("a reader").map(|b| b.expect("a batch")).collect())
        }
        Format::Arrow { is_stream: true, .. } => {
            let reader = arrow_ipc::reader::StreamReader::try_new(cursor, None).expect("a stream");
            (reader.schema(), reader.map(|b| b.expect("a batch")).collect())
        }
        Format::Arrow { is_stream: false, .. } => {
            let reader = arrow_ipc::reader::FileReader::try_new(cursor, None).expect("a file");
            (reader.schema(), reader.map(|b| b.expect("a batch")).collect())
        }
    }
}

/// One value as RFC 4180 has it. The Arrow type decides how it is read, the column how it is shown.
fn push(lines: &mut Lines, column: &Column, array: &dyn Array, row: usize) {
    if array.is_null(row) {
        return lines.null();
    }
    let fsp = match column.ty {
        Type::Time { fsp } | Type::DateTime { fsp } | Type::Timestamp { fsp } => fsp as usize,
        _ => 0,
    };
    let fraction = |micros: i64| match fsp {
        0 => String::new(),
        _ => format!(".{}", &format!("{micros:06}")[..fsp]),
    };
    macro_rules! number {
        ($ty:ty) => {
            array.as_primitive::<$ty>().value(row).to_string()
        };
    }
    let shown = match array.data_type() {
        DataType::Int8 => number!(Int8Type),
        DataType::Int16 => number!(Int16Type),
        DataType::Int32 => number!(Int32Type),
        DataType::Int64 => number!(Int64Type),
        DataType::UInt8 => number!(UInt8Type),
        DataType::UInt16 => number!(UInt16Type),
        DataType::UInt32 => number!(UInt32Type),
        DataType::UInt64 => number!(UInt64Type),
        DataType::Float32 | DataType::Float64 => {
            let (n, is_float) = match array.data_type() {
                DataType::Float32 => (array.as_primitive::<Float32Type>().value(row) as f64, true),
                _ => (array.as_primitive::<Float64Type>().value(row), false),
            };
            let decimals = match column.ty {
                Type::Float { decimals, .. } | Type::Double { decimals, .. } => decimals,
                _ => panic!("{} is a float", column.name),
            };
            let mut shown = Vec::new();
            value::push_float(&mut shown, n, is_float, decimals, usize::MAX);
            String::from_utf8(shown).expect("digits")
        }
        DataType::Decimal128(..) => array.as_primitive::<Decimal128Type>().value_as_string(row),
        DataType::Decimal256(..) => array.as_primitive::<Decimal256Type>().value_as_string(row),
        DataType::Date32 => {
            let days = array.as_primitive::<Date32Type>().value(row) as i64;
            let (d, _) = value::civil(days * 86_400);
            format!("{:04}-{:02}-{:02}", d.year, d.month, d.day)
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let is_utc = matches!(column.ty, Type::Timestamp { .. });
            assert_eq!(zone.as_deref(), is_utc.then_some("UTC"), "{}", column.name);
            let n = array.as_primitive::<TimestampMicrosecondType>().value(row);
            let (d, t) = value::civil(n.div_euclid(1_000_000));
            let clock = format!("{:02}:{:02}:{:02}", t.hour, t.minute, t.second);
            format!("{:04}-{:02}-{:02} {clock}{}", d.year, d.month, d.day, fraction(n.rem_euclid(1_000_000)))
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            let n = array.as_primitive::<DurationMicrosecondType>().value(row);
            let (sign, n) = (if n < 0 { "-" } else { "" }, n.abs());
            let s = n / 1_000_000;
            format!("{sign}{:02}:{:02}:{:02}{}", s / 3600, s / 60 % 60, s % 60, fraction(n % 1_000_000))
        }
        DataType::Utf8 => return lines.text(array.as_string::<i32>().value(row).as_bytes()),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let key = dictionary.normalized_keys()[row];
            return lines.text(dictionary.values().as_string::<i32>().value(key).as_bytes());
        }
        DataType::Binary => text::hex(array.as_binary::<i32>().value(row)),
        other => panic!("{} came as {other}", column.name),
    };
    let shown = match column.ty {
        Type::Int { zerofill: Some(width), .. } => format!("{shown:0>width$}", width = width as usize),
        Type::Float { zerofill: Some(width), .. }
        | Type::Double { zerofill: Some(width), .. }
        | Type::Decimal { zerofill: Some(width), .. } => format!("{shown:0>width$}", width = width as usize),
        Type::Year { digits: 2 } => format!("{shown:0>4}")[2..].to_string(),
        Type::Year { .. } => format!("{shown:0>4}"),
        _ => shown,
    };
    lines.plain(|b| b.extend_from_slice(shown.as_bytes()));
}

fn csv(scan: &Scan, schema: &SchemaRef, batches: &[RecordBatch]) -> String {
    let mut lines = Lines::new(Dialect::Rfc4180, 0);
    schema.fields().iter().for_each(|f| lines.text(f.name().as_bytes()));
    lines.end_line();
    let columns: Vec<&Column> = (schema.fields().iter())
        .map(|f| scan.columns().iter().find(|c| c.name == *f.name()).expect("a column of the table"))
        .collect();
    for batch in batches {
        for row in 0..batch.num_rows() {
            for (column, array) in columns.iter().zip(batch.columns()) {
                push(&mut lines, column, array, row);
            }
            lines.end_line();
        }
    }
    String::from_utf8(lines.into_bytes()).expect("UTF-8")
}

fn formats(zero_dates: ZeroDates) -> [Format; 3] {
    [
        Format::Parquet(zero_dates),
        Format::Arrow { zero_dates, is_stream: false },
        Format::Arrow { zero_dates, is_stream: true },
    ]
}

#[test]
fn every_value_is_the_csvs() {
    for server in SERVERS {
        for table in tables(server) {
            let (_dir, path) = unpacked(server, &table);
            let scan = Arc::new(Scan::open(&path).expect("a table"));
            let expected = bytes(&scan, Format::Text(Dialect::Rfc4180)).expect("CSV");
            let expected = String::from_utf8(expected).expect("UTF-8");
            for format in formats(ZeroDates::Text) {
                let (schema, found) = batches(format, bytes(&scan, format).expect("rows"));
                assert_eq!(csv(&scan, &schema, &found), expected, "{server} {table} {format:?}");
            }
        }
    }
}

#[test]
fn dates_that_are_none_are_never_null_in_silence() {
    for server in with_everything() {
        let (_dir, path) = unpacked(server, "everything");
        let scan = Arc::new(Scan::open(&path).expect("a table"));
        let named = ["id", "d", "e", "aa", "n", "ab"].map(String::from);
        let columns = export::columns(&scan, Some(&named)).expect("columns");
        let dates = |options: &mut Options| options.columns = columns.clone();
        for format in formats(ZeroDates::Refuse) {
            let e = exported(&scan, format, dates, &mut std::io::sink()).expect_err("a date that is none");
            assert_eq!(e.kind, Kind::Mismatch, "{e}");
            assert!(e.to_string().contains("column d (date) holds 0000-00-00"), "{e}");
            assert!(e.to_string().contains("--zero-dates"), "{e}");
            let id = |options: &mut Options| options.columns = vec![0];
            let done = exported(&scan, format, id, &mut std::io::sink()).expect("a column without dates");
            assert_eq!((done.rows, done.nulled), (4, 0));
        }
        let mut expected = Vec::new();
        exported(&scan, Format::Text(Dialect::Rfc4180), dates, &mut expected).expect("CSV");
        let expected = String::from_utf8(expected).expect("UTF-8");
        // The three in this table.
        let none = ["0000-00-00", "2024-00-00 00:00:00", "0000-00-00 00:00:00"];
        let mut count = 0;
        let expected: String = (expected.lines())
            .map(|line| {
                let kept = |cell| if none.contains(&cell) { "" } else { cell };
                count += line.split(',').filter(|c| none.contains(c)).count() as u64;
                line.split(',').map(kept).collect::<Vec<_>>().join(",") + "\n"
            })
            .collect();
        assert!(count >= 2, "{server}: {count}");
        for format in formats(ZeroDates::Null) {
            let mut out = Vec::new();
            let done = exported(&scan, format, dates, &mut out).expect("rows");
            assert_eq!(done.nulled, count, "{server} {format:?}");
            let (schema, found) = batches(format, out);
            assert_eq!(csv(&scan, &schema, &found), expected, "{server} {format:?}");
        }
    }
}

/// Damage under checksums that fit: whatever the bytes are, there are batches or an error.
#[test]
fn damage_with_a_right_checksum_becomes_values_or_errors() {
    for server in with_everything() {
        let (_dir, path) = unpacked(server, "everything");
        let whole = std::fs::read(&path).expect("a file");
        let kind = ondol_innodb::space::Space::open(&path).expect("a tablespace").format();
        let size = kind.page_size;
        let mut random = Random(1);
        let (mut refused, mut taken) = (0, 0);
        for _ in 0..300 {
            let mut bytes = whole.clone();
            // Among the rows, of which there are few: near the beginning of a page.
            let page = random.below(whole.len() / size) * size;
            for _ in 0..1 + random.below(4) {
                bytes[page + 38 + random.below(1500)] = random.below(256) as u8;
            }
            seal(&mut bytes[page..page + size], kind);
            std::fs::write(&path, &bytes).expect("a file");
            let zero_dates = *random.pick(&[ZeroDates::Null, ZeroDates::Text]);
            for format in [Format::Parquet(zero_dates), Format::Arrow { zero_dates, is_stream: true }] {
                let outcome = Scan::open(&path).and_then(|scan| {
                    let columns = export::columns(&scan, None)?;
                    let options = Options { format, columns, limit: None, workers: 1, ordered: true };
                    export::export(
                        Arc::new(scan),
                        &options,
                        &mut std::io::sink(),
                        Path::new("nowhere"),
                        |_| {},
                    )
                });
                match outcome {
                    Ok(_) => taken += 1,
                    Err(_) => refused += 1,
                }
            }
        }
        assert!(refused > 10 && taken > 10, "{server}: {refused} refused, {taken} taken");
    }
}

#[test]
fn a_limit_an_order_and_no_rows() {
    let (_dir, path) = unpacked("mysql-9.7", "tree");
    let scan = Arc::new(Scan::open(&path).expect("a table"));
    let lines = |format: Format, limit: Option<u64>, ordered: bool| {
        let mut out = Vec::new();
        let change = |options: &mut Options| (options.limit, options.ordered) = (limit, ordered);
        let done = exported(&scan, format, change, &mut out).expect("rows");
        assert_eq!(done.written, out.len() as u64, "{format:?}");
        let text = match format {
            Format::Text(_) => String::from_utf8(out).expect("UTF-8"),
            _ => {
                let (schema, found) = batches(format, out);
                csv(&scan, &schema, &found)
            }
        };
        let mut lines: Vec<String> = text.lines().map(String::from).collect();
        assert_eq!(done.rows as usize, lines.len() - 1, "{format:?}");
        if !ordered {
            lines[1..].sort_by_key(|l| l.split(',').next().and_then(|id| id.parse::<i64>().ok()));
        }
        lines
    };
    let all = lines(Format::Text(Dialect::Rfc4180), None, true);
    assert_eq!(all.len(), 773);
    for format in formats(ZeroDates::Refuse).into_iter().chain([Format::Text(Dialect::Rfc4180)]) {
        assert_eq!(lines(format, None, false), all, "{format:?}");
        for limit in [0, 1, 300, 10_000] {
            let expected = &all[..(1 + limit as usize).min(all.len())];
            assert_eq!(lines(format, Some(limit), false), expected, "{format:?}, {limit} rows");
        }
    }
}

/// Takes so many bytes, then fails.
struct Full(usize, std::io::ErrorKind);
impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0 == 0 {
            return Err(self.1.into());
        }
        let n = bytes.len().min(self.0);
        self.0 -= n;
        Ok(n)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_cannot_be_written_is_said_and_a_closed_pipe_is_the_end() {
    let (_dir, path) = unpacked("mariadb-10.11", "tree");
    let scan = Arc::new(Scan::open(&path).expect("a table"));
    for format in formats(ZeroDates::Refuse).into_iter().chain([Format::Text(Dialect::Rfc4180)]) {
        let whole = bytes(&scan, format).expect("rows").len();
        // The last bytes are those of the end.
        for room in [0, 1, whole / 2, whole - 1] {
            let full = &mut Full(room, std::io::ErrorKind::StorageFull);
            let e = exported(&scan, format, |_| {}, full).expect_err("no room");
            assert_eq!(e.kind, Kind::Io);
            assert!(e.to_string().starts_with("memory: cannot write"), "{e}");
            let closed = &mut Full(room, std::io::ErrorKind::BrokenPipe);
            let done = exported(&scan, format, |_| {}, closed).expect("a closed pipe");
            assert!(done.closed, "{format:?}, {room} of {whole} bytes");
        }
        let exact = &mut Full(whole, std::io::ErrorKind::StorageFull);
        assert!(!exported(&scan, format, |_| {}, exact).expect("enough room").closed);
    }
}
