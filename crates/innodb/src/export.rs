//! A table written out: read and converted by all workers, gathered by one.
use crate::error::{Error, Kind, Result};
use crate::scan::{Buffers, Scan, Stored};
use crate::text;
use ondol_scan::csv::{Dialect, Lines};
use ondol_scan::pipeline;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// What is written, and by how many.
#[derive(Clone, Debug)]
pub struct Options {
    pub dialect: Dialect,
    /// The columns, by their places in the table.
    pub columns: Vec<usize>,
    /// Rows at most, in key order.
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
    /// Bytes of leaves that were read.
    pub read: u64,
    /// Bytes that were written.
    pub written: u64,
    /// The reader of what was written wanted no more.
    pub closed: bool,
}

/// The columns that `SELECT *` shows, or those that are named. Virtual ones are in no file.
pub fn columns(scan: &Scan, named: Option<&[String]>) -> Result<Vec<usize>> {
    let all = scan.columns();
    let refuse = |why: String| Error::new(scan.space().path(), Kind::Mismatch, why);
    let Some(named) = named else {
        return Ok((0..all.len()).filter(|i| all[*i].stored && !all[*i].invisible).collect());
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

struct Chunk {
    bytes: Vec<u8>,
    /// Where each line ends, if that may be asked.
    ends: Vec<usize>,
    done: Done,
}

/// Writes the table as text to `out`. `progress` is told after each part. A closed pipe ends it without an error.
pub fn text(
    scan: Arc<Scan>,
    options: &Options,
    out: &mut dyn Write,
    to: &Path,
    mut progress: impl FnMut(&Done),
) -> Result<Done> {
    let mut total = Done::default();
    let failed = |e: std::io::Error| Error::io(to, "cannot write", &e);
    if options.dialect == Dialect::Rfc4180 {
        let mut header = Lines::new(options.dialect, 256);
        for &c in &options.columns {
            header.text(scan.columns()[c].name.as_bytes());
        }
        header.end_line();
        let header = header.into_bytes();
        total.written += header.len() as u64;
        out.write_all(&header).map_err(failed)?;
    }
    let ordered = options.ordered || options.limit.is_some();
    let workers = options.workers.max(1);
    let run = pipeline::Options { workers, ordered, ahead: workers * 4 };
    let shape = options.clone();
    let parts = scan.parts();
    let reader = scan.clone();
    let work = move |buffers: &mut Buffers, part: usize| {
        convert(&reader, &shape, buffers, part).map_err(Ended::Wrong)
    };
    let gather = |_, chunk: Chunk| {
        let mut chunk: Chunk = chunk;
        if let Some(limit) = options.limit {
            let left = limit - total.rows;
            if chunk.done.rows >= left {
                chunk.bytes.truncate(left.checked_sub(1).map_or(0, |n| chunk.ends[n as usize]));
                chunk.done.rows = left;
            }
        }
        match out.write_all(&chunk.bytes) {
            Ok(()) => {}
            Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => return Err(Ended::Closed),
            Err(e) => return Err(Ended::Wrong(failed(e))),
        }
        total.rows += chunk.done.rows;
        total.deleted += chunk.done.deleted;
        total.read += chunk.done.read;
        total.written += chunk.bytes.len() as u64;
        progress(&total);
        if options.limit.is_some_and(|l| total.rows >= l) { Err(Ended::Enough) } else { Ok(()) }
    };
    let ended = if options.limit == Some(0) {
        Ok(())
    } else {
        pipeline::run(parts, run, Buffers::default, work, gather)
    };
    match ended {
        Ok(()) | Err(Ended::Enough) => {}
        Err(Ended::Closed) => total.closed = true,
        Err(Ended::Wrong(e)) => return Err(e),
    }
    match out.flush() {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => total.closed = true,
        other => other.map_err(failed)?,
    }
    Ok(total)
}

/// Why a run ended before its parts did.
enum Ended {
    Enough,
    Closed,
    Wrong(Error),
}
impl From<std::io::Error> for Ended {
    fn from(e: std::io::Error) -> Ended {
        Ended::Wrong(Error::io(Path::new("threads"), "cannot start one", &e))
    }
}

fn convert(scan: &Scan, options: &Options, buffers: &mut Buffers, part: usize) -> Result<Chunk> {
    let mut lines = Lines::new(options.dialect, scan.part_bytes(part) as usize);
    let mut ends = Vec::new();
    let mut done = Done { read: scan.part_bytes(part), ..Done::default() };
    let columns = scan.columns();
    done.deleted = scan.read(part, buffers, |leaf| {
        for row in 0..leaf.rows.len() {
            let places = leaf.rows.row(row);
            for &i in &options.columns {
                match leaf.stored(i, places[i])? {
                    Stored::Null => lines.null(),
                    Stored::Bytes(bytes) => {
                        text::push(&mut lines, &columns[i], &bytes).map_err(|why| leaf.damaged(why))?
                    }
                }
            }
            lines.end_line();
            if options.limit.is_some() {
                ends.push(lines.len());
            }
        }
        done.rows += leaf.rows.len() as u64;
        Ok(())
    })? as u64;
    Ok(Chunk { bytes: lines.into_bytes(), ends, done })
}
