//! A table written out: read and converted by all workers, gathered by one.
use crate::cells::{Cells, Spare};
#[cfg(feature = "columnar")]
use crate::columns::{Columns, Form, ZeroDates};
use crate::error::{Error, Kind, Result};
use crate::scan::{Buffers, Leaf, Scan};
use crate::table::Type;
#[cfg(feature = "columnar")]
use ondol_base::sync::Mutex;
use ondol_scan::csv::{Dialect, Lines};
#[cfg(feature = "columnar")]
use ondol_scan::parquet::{Encoded, Encoder, Group};
use ondol_scan::pipeline::{self, Hand};
use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// What rows become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text(Dialect),
    #[cfg(feature = "columnar")]
    Parquet(ZeroDates),
    /// Arrow IPC: a file with a footer, or a stream.
    #[cfg(feature = "columnar")]
    Arrow {
        zero_dates: ZeroDates,
        is_stream: bool,
    },
}

/// What is written, and by how many.
#[derive(Clone, Debug)]
pub struct Options {
    pub format: Format,
    /// The columns, by their places in the table.
    pub columns: Vec<usize>,
    /// Rows at most, in key order. Then one worker reads, since it has to count.
    pub limit: Option<u64>,
    pub workers: usize,
    /// Rows in key order.
    pub ordered: bool,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    pub rows: u64,
    /// Records that were marked as deleted, and left out.
    pub deleted: u64,
    /// Rows of a system-versioned table's history that were left out.
    pub history: u64,
    /// Bytes of leaves that were read.
    pub read: u64,
    /// Bytes that were written.
    pub written: u64,
    /// Dates that are no days of the calendar and became NULL, as was wished.
    pub nulled: u64,
    /// The reader of what was written wanted no more.
    pub closed: bool,
}

/// The columns that `SELECT *` shows, or those that are named. Virtual ones are in no file
/// ([`virtual_columns`]). With rows of a history come the columns that say when they were current.
pub fn columns(scan: &Scan, named: Option<&[String]>) -> Result<Vec<usize>> {
    let all = scan.columns();
    let refuse = |why: String| Error::new(scan.space().path(), Kind::Mismatch, why);
    let Some(named) = named else {
        let period = scan.definition().table.period.filter(|_| scan.has_history());
        let is_time = |i: usize| period.is_some_and(|p| i == p.start || i == p.end);
        let shown: Vec<usize> =
            (0..all.len()).filter(|i| all[*i].stored && (!all[*i].invisible || is_time(*i))).collect();
        if shown.is_empty() {
            let why =
                format!("no file holds its columns, which are virtual: {}", virtual_columns(scan).join(", "));
            return Err(Error::new(scan.space().path(), Kind::Unsupported, why));
        }
        return Ok(shown);
    };
    named
        .iter()
        .map(|name| {
            let Some(at) = all.iter().position(|c| c.name.eq_ignore_ascii_case(name)) else {
                let names: Vec<&str> = all.iter().map(|c| c.name.as_str()).collect();
                return Err(refuse(format!("it has no column {name}; it has {}", names.join(", "))));
            };
            if !all[at].stored {
                return Err(refuse(format!(
                    "column {name} is virtual: the server computes it when it is asked, no file holds it"
                )));
            }
            Ok(at)
        })
        .collect()
}

/// The names of columns that `SELECT *` shows, but no file holds: the server computes them when it is asked.
pub fn virtual_columns(scan: &Scan) -> Vec<&str> {
    scan.columns().iter().filter(|c| !c.stored && !c.invisible).map(|c| c.name.as_str()).collect()
}

/// Bytes of text that are handed over as one piece, roughly: what a part becomes, unless its rows lie mostly
/// off its pages.
const PIECE: usize = 4 << 20;
/// Bytes of an Arrow batch, roughly: it is written out of the processor's nearer memory, where it was made,
/// and where the next is made.
#[cfg(feature = "columnar")]
const BATCH: usize = 2 << 20;
/// The same of a batch that Parquet's encoder is given, which looks at each column by itself: the longer, the
/// better.
#[cfg(feature = "columnar")]
const ENCODED_BATCH: usize = 16 << 20;
/// Parts of a megabyte that are taken at once: for Arrow, enough for a few batches; for row groups at least
/// 16, so that they are no small ones, and at most 256, so that a worker's last one is not waited for.
#[cfg(feature = "columnar")]
const BATCH_PARTS: usize = 8;
#[cfg(feature = "columnar")]
const GROUP_PARTS: std::ops::RangeInclusive<usize> = 16..=256;

/// Writes the table to `out`, which is called `to` in errors. `progress` is told now and then. A closed pipe
/// ends it without an error.
pub fn export(
    scan: Arc<Scan>,
    options: &Options,
    out: &mut (dyn Write + Send),
    to: &Path,
    progress: impl FnMut(&Done),
) -> Result<Done> {
    let failed = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::BrokenPipe => Ended::Closed,
        _ => Ended::Wrong(Error::io(to, "cannot write", &e)),
    };
    let mut total = Done::default();
    let ended = match options.format {
        Format::Text(dialect) => text(&scan, options, dialect, out, &mut total, progress, &failed),
        #[cfg(feature = "columnar")]
        Format::Parquet(zero_dates) => {
            parquet(&scan, options, zero_dates, out, &mut total, progress, &failed)
        }
        #[cfg(feature = "columnar")]
        Format::Arrow { zero_dates, is_stream } => {
            arrow(&scan, options, (zero_dates, is_stream), out, &mut total, progress, &failed)
        }
    };
    match ended {
        Ok(()) => {}
        Err(Ended::Closed) => total.closed = true,
        Err(Ended::Wrong(e)) => return Err(e),
    }
    Ok(total)
}

/// Why a run ended before its parts did.
enum Ended {
    Closed,
    Wrong(Error),
}
impl From<std::io::Error> for Ended {
    fn from(e: std::io::Error) -> Ended {
        Ended::Wrong(Error::io(Path::new("threads"), "cannot start one", &e))
    }
}
impl From<Error> for Ended {
    fn from(e: Error) -> Ended {
        Ended::Wrong(e)
    }
}

fn text(
    scan: &Arc<Scan>,
    options: &Options,
    dialect: Dialect,
    out: &mut (dyn Write + Send),
    total: &mut Done,
    progress: impl FnMut(&Done),
    failed: &dyn Fn(std::io::Error) -> Ended,
) -> std::result::Result<(), Ended> {
    let mut written = 0;
    if dialect == Dialect::Rfc4180 {
        let mut header = Lines::new(dialect, 256);
        for &c in &options.columns {
            header.text(scan.columns()[c].name.as_bytes());
        }
        header.end_line();
        let header = header.into_bytes();
        written += header.len() as u64;
        out.write_all(&header).map_err(failed)?;
    }
    let columns = options.columns.clone();
    let spare = Arc::new(Spare::new(Vec::new()));
    let spares = spare.clone();
    let maker = move || Cells::new(&columns, dialect, spares.clone());
    run(scan, options, 1, maker, total, progress, |bytes: Vec<u8>| {
        out.write_all(&bytes).map_err(failed)?;
        written += bytes.len() as u64;
        spare.lock().push(bytes);
        Ok(written)
    })?;
    out.flush().map_err(failed)?;
    total.written = written;
    Ok(())
}

#[cfg(feature = "columnar")]
fn parquet(
    scan: &Arc<Scan>,
    options: &Options,
    zero_dates: ZeroDates,
    out: &mut (dyn Write + Send),
    total: &mut Done,
    progress: impl FnMut(&Done),
    failed: &dyn Fn(std::io::Error) -> Ended,
) -> std::result::Result<(), Ended> {
    let form = Arc::new(Form::new(scan, &options.columns, zero_dates));
    let (mut writer, encoder) = ondol_scan::parquet::create(out, form.schema().clone()).map_err(failed)?;
    let each = match options.workers {
        // Row groups end where they are as large as they should be.
        0 | 1 => scan.parts().max(1),
        // Some four row groups for each worker, so that all end at about the same time.
        n => (scan.parts() / (n * 4)).clamp(*GROUP_PARTS.start(), *GROUP_PARTS.end()),
    };
    let source = scan.clone();
    let maker = move || GroupMaker {
        scan: source.clone(),
        columns: Columns::new(&source, form.clone(), ENCODED_BATCH),
        encoder: encoder.clone(),
        group: None,
    };
    run(scan, options, each, maker, total, progress, |group: Encoded| {
        writer.append(group).map_err(failed)?;
        Ok(writer.written())
    })?;
    writer.finish().map_err(failed)?;
    total.written = writer.written();
    Ok(())
}

#[cfg(feature = "columnar")]
fn arrow(
    scan: &Arc<Scan>,
    options: &Options,
    (zero_dates, is_stream): (ZeroDates, bool),
    out: &mut (dyn Write + Send),
    total: &mut Done,
    progress: impl FnMut(&Done),
    failed: &dyn Fn(std::io::Error) -> Ended,
) -> std::result::Result<(), Ended> {
    let form = Arc::new(Form::new(scan, &options.columns, zero_dates));
    let mut writer = ondol_scan::arrow::ArrowWriter::new(out, form.schema(), is_stream).map_err(failed)?;
    let source = scan.clone();
    let spare = Arc::new(Mutex::new(Vec::new()));
    let spares = spare.clone();
    let maker = move || BatchMaker {
        scan: source.clone(),
        columns: Columns::new(&source, form.clone(), BATCH),
        spare: spares.clone(),
    };
    run(scan, options, BATCH_PARTS, maker, total, progress, |batch| {
        writer.write(&batch).map_err(failed)?;
        spare.lock().push(batch);
        Ok(writer.written())
    })?;
    writer.finish().map_err(failed)?;
    total.written = writer.written();
    Ok(())
}

/// Makes pieces of rows, in one worker.
trait Maker: Sized + 'static {
    type Piece: Send + 'static;
    fn add(&mut self, leaf: &Leaf<'_>, rows: Range<usize>) -> Result<()>;
    /// What was added is enough for a piece.
    fn is_full(&self) -> bool;
    /// What was added, if anything was; and how many dates became NULL in it.
    fn take(&mut self) -> Result<Option<(Self::Piece, u64)>>;
}

struct Piece<T> {
    made: Option<T>,
    done: Done,
}

/// Reads the table, `each` parts at a time, and calls `write` for what the makers made of them; it returns
/// how much was written in all.
fn run<M: Maker>(
    scan: &Arc<Scan>,
    options: &Options,
    each: usize,
    maker: impl Fn() -> M + Send + Sync + 'static,
    total: &mut Done,
    mut progress: impl FnMut(&Done),
    mut write: impl FnMut(M::Piece) -> std::result::Result<u64, Ended>,
) -> std::result::Result<(), Ended> {
    let ordered = options.ordered || options.limit.is_some();
    let workers = if options.limit.is_some() { 1 } else { options.workers.max(1) };
    // Where a piece is all of a part there is little to wait for, so the order of parts of uneven lengths
    // should not hold workers up.
    let ahead = if each == 1 { workers * 4 } else { workers + 2 };
    let limit = options.limit.unwrap_or(u64::MAX);
    let state = move || (Buffers::default(), maker(), limit);
    let source = scan.clone();
    // Columns that may lie off their pages: rows of such pages are taken one by one, since each may be long.
    let long: Vec<usize> = (options.columns.iter().copied())
        .filter(|i| {
            matches!(
                scan.columns()[*i].ty,
                Type::Text { .. } | Type::Bytes { .. } | Type::Json | Type::Geometry
            )
        })
        .collect();
    let work = move |(buffers, maker, left): &mut (Buffers, M, u64),
                     n: usize,
                     hand: &Hand<'_, Piece<M::Piece>, Ended>| {
        let mut done = Done::default();
        for part in n * each..((n + 1) * each).min(source.parts()) {
            if *left == 0 {
                break;
            }
            let left_out = source.read(part, buffers, |leaf| {
                let rows = leaf.rows.len().min((*left).try_into().unwrap_or(usize::MAX));
                let step = if long.iter().all(|i| leaf.rows.is_whole(*i)) { rows.max(1) } else { 1 };
                for from in (0..rows).step_by(step) {
                    let taken = from..(from + step).min(rows);
                    done.rows += taken.len() as u64;
                    *left -= taken.len() as u64;
                    maker.add(&leaf, taken)?;
                    if maker.is_full() {
                        give(maker, &mut done, hand, &source)?;
                    }
                }
                Ok(())
            })?;
            done.deleted += left_out.deleted as u64;
            done.history += left_out.history as u64;
            done.read += source.part_bytes(part);
        }
        Ok(give(maker, &mut done, hand, &source)?)
    };
    let parts = scan.parts().div_ceil(each);
    let run = pipeline::Options { workers, ordered, ahead };
    pipeline::run(parts, run, state, work, |_, piece: Piece<M::Piece>| {
        if let Some(made) = piece.made {
            total.written = write(made)?;
        }
        total.rows += piece.done.rows;
        total.deleted += piece.done.deleted;
        total.history += piece.done.history;
        total.read += piece.done.read;
        total.nulled += piece.done.nulled;
        progress(total);
        Ok(())
    })
}

/// Hands over what `maker` has, with what was done for it.
fn give<M: Maker>(
    maker: &mut M,
    done: &mut Done,
    hand: &Hand<'_, Piece<M::Piece>, Ended>,
    scan: &Scan,
) -> Result<()> {
    let (made, nulled) = match maker.take()? {
        Some((made, nulled)) => (Some(made), nulled),
        None => (None, 0),
    };
    let done = Done { nulled, ..std::mem::take(done) };
    // The one that stopped it tells why.
    hand.over(Piece { made, done })
        .map_err(|pipeline::Stopped| Error::new(scan.space().path(), Kind::Io, "the run was stopped"))
}

impl Maker for Cells {
    type Piece = Vec<u8>;
    fn add(&mut self, leaf: &Leaf<'_>, rows: Range<usize>) -> Result<()> {
        Cells::add(self, leaf, rows)
    }
    fn is_full(&self) -> bool {
        self.len() >= PIECE
    }
    fn take(&mut self) -> Result<Option<(Vec<u8>, u64)>> {
        Ok((!self.is_empty()).then(|| (Cells::take(self), 0)))
    }
}

#[cfg(feature = "columnar")]
struct BatchMaker {
    scan: Arc<Scan>,
    columns: Columns,
    /// Batches that were written, whose memory is used again.
    spare: Arc<Mutex<Vec<arrow_array::RecordBatch>>>,
}
#[cfg(feature = "columnar")]
impl Maker for BatchMaker {
    type Piece = arrow_array::RecordBatch;
    fn add(&mut self, leaf: &Leaf<'_>, rows: Range<usize>) -> Result<()> {
        self.columns.add(leaf, rows)
    }
    fn is_full(&self) -> bool {
        self.columns.is_full()
    }
    fn take(&mut self) -> Result<Option<(Self::Piece, u64)>> {
        if self.columns.rows() == 0 {
            return Ok(None);
        }
        let batch = self.columns.take(&self.scan)?;
        let spare = self.spare.lock().pop();
        if let Some(spare) = spare {
            self.columns.reuse(spare);
        }
        Ok(Some((batch, self.columns.take_nulled())))
    }
}

#[cfg(feature = "columnar")]
struct GroupMaker {
    scan: Arc<Scan>,
    columns: Columns,
    encoder: Arc<Encoder>,
    group: Option<Group>,
}
#[cfg(feature = "columnar")]
impl GroupMaker {
    fn failed(&self, e: std::io::Error) -> Error {
        Error::io(self.scan.space().path(), "its rows cannot be encoded", &e)
    }
    /// Encodes the rows that were added.
    fn encode(&mut self) -> Result<()> {
        if self.columns.rows() == 0 {
            return Ok(());
        }
        let batch = self.columns.take(&self.scan)?;
        let mut group = match self.group.take() {
            Some(group) => group,
            None => Group::new(self.encoder.clone()).map_err(|e| self.failed(e))?,
        };
        group.write(&batch).map_err(|e| self.failed(e))?;
        self.columns.reuse(batch);
        self.group = Some(group);
        Ok(())
    }
}
#[cfg(feature = "columnar")]
impl Maker for GroupMaker {
    type Piece = Encoded;
    fn add(&mut self, leaf: &Leaf<'_>, rows: Range<usize>) -> Result<()> {
        self.columns.add(leaf, rows)?;
        if self.columns.is_full() { self.encode() } else { Ok(()) }
    }
    fn is_full(&self) -> bool {
        self.group.as_ref().is_some_and(Group::is_full)
    }
    fn take(&mut self) -> Result<Option<(Encoded, u64)>> {
        self.encode()?;
        let Some(group) = self.group.take() else { return Ok(None) };
        let group = group.finish().map_err(|e| self.failed(e))?;
        Ok(Some((group, self.columns.take_nulled())))
    }
}
