//! Batches of rows in Arrow's own form, as a file or a stream (Arrow IPC).
//!
//! Workers make the batches; what is left is to write their buffers as they lie in memory, which one thread
//! does. Nothing is compressed.
use crate::{Counted, as_io};
use arrow_array::RecordBatch;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::Schema;
use std::io::{BufWriter, Result, Write};

/// Bytes that are gathered before they are written; longer buffers are written as they are.
const BLOCK: usize = 1 << 14;

enum Form<W: Write> {
    /// With a footer, so that batches can be reached in any order.
    File(FileWriter<BufWriter<Counted<W>>>),
    /// To be read as it comes.
    Stream(StreamWriter<BufWriter<Counted<W>>>),
}

/// A file or stream that is being written.
pub struct ArrowWriter<W: Write>(Form<W>);

impl<W: Write> ArrowWriter<W> {
    pub fn new(out: W, schema: &Schema, is_stream: bool) -> Result<ArrowWriter<W>> {
        let out = BufWriter::with_capacity(BLOCK, Counted { inner: out, written: 0 });
        Ok(ArrowWriter(if is_stream {
            Form::Stream(StreamWriter::try_new(out, schema).map_err(as_io)?)
        } else {
            Form::File(FileWriter::try_new(out, schema).map_err(as_io)?)
        }))
    }
    /// Writes a batch. A column in a dictionary's form must have the same dictionary in each.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match &mut self.0 {
            Form::File(w) => w.write(batch),
            Form::Stream(w) => w.write(batch),
        }
        .map_err(as_io)
    }
    /// Bytes that were written so far.
    pub fn written(&self) -> u64 {
        match &self.0 {
            Form::File(w) => w.get_ref(),
            Form::Stream(w) => w.get_ref(),
        }
        .get_ref()
        .written
    }
    /// Writes what ends it. Without that it is no whole file or stream.
    pub fn finish(&mut self) -> Result<()> {
        match &mut self.0 {
            Form::File(w) => w.finish(),
            Form::Stream(w) => w.finish(),
        }
        .map_err(as_io)
    }
}
