//! Parquet: row groups encoded by the workers, each by one; the thread that gathers appends their bytes and
//! writes the footer. And files read, a row group at a time.
use crate::as_io;
use ::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use ::parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, ArrowWriterOptions, compute_leaves,
};
use ::parquet::arrow::{ArrowWriter, ProjectionMask};
use ::parquet::basic::Compression;
use ::parquet::errors::{self, ParquetError};
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::reader::{ChunkReader, Length};
use ::parquet::file::writer::SerializedFileWriter;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use std::fs::File;
use std::io::{BufReader, Read, Result, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Bytes of a row group's encoded values at most, roughly, and its rows.
const BYTES: usize = 128 << 20;
const ROWS: usize = 1 << 20;

/// A file that is being written.
pub struct ParquetWriter<W: Write + Send>(SerializedFileWriter<W>);

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

/// Begins a file, compressed with Snappy. Its footer holds Arrow's schema too, so that readers who know Arrow
/// get back the very types.
pub fn create<W: Write + Send>(out: W, schema: SchemaRef) -> Result<(ParquetWriter<W>, Arc<Encoder>)> {
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let options = ArrowWriterOptions::new().with_properties(properties);
    let writer = ArrowWriter::try_new_with_options(out, schema.clone(), options).map_err(as_io)?;
    let (file, factory) = writer.into_serialized_writer().map_err(as_io)?;
    Ok((ParquetWriter(file), Arc::new(Encoder { factory, schema })))
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
    /// Bytes of memory that it takes, as the encoder estimates them.
    pub fn bytes(&self) -> usize {
        self.columns.iter().map(ArrowColumnWriter::memory_size).sum()
    }
    /// It is as large as row groups should be.
    pub fn is_full(&self) -> bool {
        self.rows >= ROWS || self.bytes() >= BYTES
    }
    pub fn finish(self) -> Result<Encoded> {
        let columns = self.columns.into_iter().map(|c| c.close().map_err(as_io)).collect::<Result<_>>()?;
        Ok(Encoded { columns })
    }
}

impl Encoded {
    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.columns.iter().map(|c| usize::try_from(c.close().bytes_written).unwrap_or(usize::MAX)).sum()
    }
}

impl<W: Write + Send> ParquetWriter<W> {
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

/// A file that is read, by several threads at once.
pub struct Source {
    file: Positioned,
    metadata: ArrowReaderMetadata,
}

impl Source {
    /// Reads what the file says of itself. Types are Parquet's own, whatever Arrow's schema beside them says.
    pub fn open(file: File) -> Result<Source> {
        let length = file.metadata()?.len();
        let file = Positioned { file: Arc::new(file), length };
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let metadata = ArrowReaderMetadata::load(&file, options).map_err(as_io)?;
        Ok(Source { file, metadata })
    }
    pub fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }
    /// Bytes.
    pub fn length(&self) -> u64 {
        self.file.length
    }
    /// Row groups, each with its rows.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = u64> {
        let groups = self.metadata.metadata().row_groups();
        groups.iter().map(|g| g.num_rows().max(0) as u64)
    }
    /// The rows of a row group, in batches of at most `rows` rows, of the columns with these places, in the
    /// file's order.
    pub fn read(
        &self,
        group: usize,
        columns: &[usize],
        rows: usize,
    ) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<>> {
        let columns = ProjectionMask::roots(self.metadata.parquet_schema(), columns.iter().copied());
        let reader =
            ParquetRecordBatchReaderBuilder::new_with_metadata(self.file.clone(), self.metadata.clone())
                .with_row_groups(vec![group])
                .with_projection(columns)
                .with_batch_size(rows)
                .build()
                .map_err(as_io)?;
        Ok(reader.map(|batch| batch.map_err(as_io)))
    }
}

/// A file read at places, since threads that share it have one position in it.
#[derive(Clone)]
struct Positioned {
    file: Arc<File>,
    length: u64,
}

/// Reads on from a place.
struct Onward {
    file: Arc<File>,
    at: u64,
}

impl Read for Onward {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        let n = self.file.read_at(out, self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

impl Length for Positioned {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for Positioned {
    type T = BufReader<Onward>;

    fn get_read(&self, start: u64) -> errors::Result<Self::T> {
        Ok(BufReader::new(Onward { file: self.file.clone(), at: start }))
    }
    fn get_bytes(&self, start: u64, length: usize) -> errors::Result<Bytes> {
        // A length from a damaged footer is no reason to ask for so much memory.
        if start.checked_add(length as u64).is_none_or(|end| end > self.length) {
            return Err(ParquetError::EOF(format!(
                "{length} bytes at {start} in a file of {} bytes",
                self.length
            )));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}
