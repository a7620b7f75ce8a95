//! The Parquet library's encoder alone: what writing a table's batches takes one thread where nothing has to
//! be read or converted first. It is the bound for what exports to Parquet, with the settings that Ondol
//! gives the library.
use crate::Result;
use arrow_array::RecordBatch;
use arrow_ipc::reader::FileReader;
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;

/// Rows of the batches that it is given, where the reader has a choice: more do not make it quicker, many
/// fewer make it slower.
const ROWS: usize = 1 << 17;

/// A table in memory.
pub struct Batches {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Batches {
    /// Reads a file of Arrow's (IPC). Its batches are put together.
    pub fn from_arrow(path: &Path) -> Result<Batches> {
        let reader = FileReader::try_new(BufReader::new(File::open(path)?), None)?;
        let schema = reader.schema();
        let (mut batches, mut some, mut rows) = (Vec::new(), Vec::new(), 0);
        for batch in reader {
            let batch = batch?;
            rows += batch.num_rows();
            some.push(batch);
            if rows >= ROWS {
                batches.push(concat_batches(&schema, &std::mem::take(&mut some))?);
                rows = 0;
            }
        }
        batches.push(concat_batches(&schema, &some)?);
        Ok(Batches { schema, batches })
    }
    pub fn from_parquet(path: &Path) -> Result<Batches> {
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?;
        let schema = reader.schema().clone();
        let batches = reader.with_batch_size(ROWS).build()?.collect::<std::result::Result<_, _>>()?;
        Ok(Batches { schema, batches })
    }
    pub fn rows(&self) -> u64 {
        self.batches.iter().map(|b| b.num_rows() as u64).sum()
    }
    /// Encodes and writes all of it, compressed with Snappy.
    pub fn encode(&self, out: impl Write + Send) -> Result<()> {
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let mut writer = ArrowWriter::try_new(out, self.schema.clone(), Some(properties))?;
        for batch in &self.batches {
            writer.write(batch)?;
        }
        writer.close()?;
        Ok(())
    }
}
