//! Parquet: row groups encoded by the workers, each by one; the thread that gathers appends their bytes and writes the footer.
use crate::as_io;
use ::parquet::arrow::ArrowWriter;
use ::parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, ArrowWriterOptions, compute_leaves,
};
use ::parquet::basic::Compression;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use std::io::{Result, Write};
use std::sync::Arc;

/// Bytes of a row group's encoded values at most, roughly, and its rows.
const BYTES: usize = 128 << 20;
const ROWS: usize = 1 << 20;

/// A file that is being written.
pub struct Writer<W: Write + Send>(SerializedFileWriter<W>);

/// What workers need to encode row groups of one file.
pub struct Encoder {
    factory: ArrowRowGroupWriterFactory,
    schema: SchemaRef,
}

/// A row group that is being encoded.
pub struct Group {
    encoder: Arc<Encoder>,
    columns: Vec<ArrowColumnWriter>,
    rows: usize,
}

/// A row group, encoded.
pub struct Encoded {
    columns: Vec<ArrowColumnChunk>,
}

/// Begins a file, compressed with Snappy. Its footer holds Arrow's schema too, so that readers who know Arrow get back the very types.
pub fn create<W: Write + Send>(out: W, schema: SchemaRef) -> Result<(Writer<W>, Arc<Encoder>)> {
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let options = ArrowWriterOptions::new().with_properties(properties);
    let writer = ArrowWriter::try_new_with_options(out, schema.clone(), options).map_err(as_io)?;
    let (file, factory) = writer.into_serialized_writer().map_err(as_io)?;
    Ok((Writer(file), Arc::new(Encoder { factory, schema })))
}

impl Group {
    pub fn new(encoder: Arc<Encoder>) -> Result<Group> {
        let columns = encoder.factory.create_column_writers(0).map_err(as_io)?;
        Ok(Group { encoder, columns, rows: 0 })
    }
    /// Encodes a batch of the file's schema.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut columns = self.columns.iter_mut();
        for (field, array) in self.encoder.schema.fields().iter().zip(batch.columns()) {
            // None of the columns is nested: each is one leaf.
            for (leaf, column) in compute_leaves(field, array).map_err(as_io)?.iter().zip(&mut columns) {
                column.write(leaf).map_err(as_io)?;
            }
        }
        self.rows += batch.num_rows();
        Ok(())
    }
    /// It is as large as row groups should be.
    pub fn is_full(&self) -> bool {
        self.rows >= ROWS || self.columns.iter().map(ArrowColumnWriter::memory_size).sum::<usize>() >= BYTES
    }
    pub fn finish(self) -> Result<Encoded> {
        let columns = self.columns.into_iter().map(|c| c.close().map_err(as_io)).collect::<Result<_>>()?;
        Ok(Encoded { columns })
    }
}

impl<W: Write + Send> Writer<W> {
    pub fn append(&mut self, group: Encoded) -> Result<()> {
        let mut row_group = self.0.next_row_group().map_err(as_io)?;
        for column in group.columns {
            column.append_to_row_group(&mut row_group).map_err(as_io)?;
        }
        row_group.close().map_err(as_io)?;
        Ok(())
    }
    /// Bytes that were written so far.
    pub fn written(&self) -> u64 {
        self.0.bytes_written() as u64
    }
    /// Writes the footer. Without it the file is none.
    pub fn finish(&mut self) -> Result<()> {
        self.0.finish().map_err(as_io)?;
        Ok(())
    }
}
