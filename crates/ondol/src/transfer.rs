//! COPY: between a table or query and a stream of text. What COPY FROM does with it is in
//! [`crate::transfer::load`].
use crate::session::Session;
use crate::session::output::{CopiedRows, Output};
use crate::session::plan::Plan;
use load::Into;
use ondol_engine::error::io_state;
use ondol_engine::{Charge, Token};
use ondol_sql::bound::{Bound, Copy, CopyEnd, CopyFormat, CopyOptions, Query, Statement};
use ondol_sql::copy::{CopyBuffer, CopyWriter, binary};
#[cfg(feature = "scan")]
use ondol_sql::interpret::Nowhere;
use ondol_sql::interpret::rows::RowView;
use ondol_types::style::Styles;
use ondol_types::text::Out;
use ondol_types::{SqlError, SqlResult, Type, sqlstate};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use unfinished::Unfinished;

pub(crate) mod binary_form;
#[cfg(feature = "columnar")]
pub(crate) mod columnar;
#[cfg(feature = "columnar")]
pub(crate) mod columns;
pub mod dump;
pub(crate) mod load;
mod rights;
pub(crate) mod unfinished;

/// Bytes gathered before they are written.
const BLOCK: usize = 1 << 18;
/// Room for them: so little that it counts as none of a statement's memory.
const ROOM: usize = BLOCK + 4096;
/// Bytes of a part's text that a worker hands over in one piece.
#[cfg(feature = "scan")]
const PIECE: usize = 4 << 20;

fn file_error(path: &str, what: &str, e: std::io::Error) -> SqlError {
    let state = if e.kind() == std::io::ErrorKind::NotFound { "58P01" } else { io_state(&e) };
    SqlError::new(state, format!("could not {what} file \"{path}\": {e}"))
}

/// A file to be read, with its size, if it has one.
fn open(path: &str) -> SqlResult<(File, Option<u64>)> {
    let file = File::open(Path::new(path)).map_err(|e| file_error(path, "open", e))?;
    let about = file.metadata().map_err(|e| file_error(path, "read", e))?;
    if about.is_dir() {
        return Err(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, format!("\"{path}\" is a directory")));
    }
    Ok((file, about.is_file().then_some(about.len())))
}

/// Whether what is there is written to (a pipe, a device, whatever a link leads to) and not replaced by a
/// file when that is whole.
fn is_in_place(to: &Path) -> bool {
    to.file_name().is_none() || to.symlink_metadata().is_ok_and(|m| !m.is_file())
}

#[cfg(not(feature = "columnar"))]
fn not_built() -> SqlError {
    SqlError::unsupported("COPY in Parquet").detail("This build is without cargo's feature \"columnar\".")
}

/// Whether values' binary forms are known.
const BINARY: bool = cfg!(feature = "server");

fn no_binary() -> SqlError {
    let error = SqlError::unsupported("COPY in binary format");
    error.detail("This build is without cargo's feature \"server\".")
}

/// How rows lie in what is copied.
fn rows_of(format: &CopyFormat) -> CopiedRows {
    match format {
        CopyFormat::Text(o) if o.binary => CopiedRows::Binary,
        CopyFormat::Text(o) if o.csv => CopiedRows::Quoted(o.quote),
        _ => CopiedRows::Lines,
    }
}

/// An error of COPY with the file's name, where it was the medium's and not the data's.
fn in_file(path: &str, e: SqlError) -> SqlError {
    match e.sqlstate() {
        sqlstate::DISK_FULL | sqlstate::IO_ERROR if e.0.detail.is_none() => {
            e.detail(format!("File \"{path}\"."))
        }
        _ => e,
    }
}

impl Session {
    pub(crate) fn copy(&mut self, copy: &Copy, bound: &Bound, out: &mut dyn Output) -> SqlResult<()> {
        let (rows, token) = match copy {
            Copy::From { table, columns, defaults, end, format } => {
                let input = match end {
                    CopyEnd::Client => None,
                    CopyEnd::File(path) => Some((path, open(path)?)),
                };
                match (format, input) {
                    (CopyFormat::Text(options), _) if options.binary && !BINARY => return Err(no_binary()),
                    (CopyFormat::Text(options), None) => {
                        let into = Into { table: &table.0, columns, defaults, options };
                        // The input borrows the output, which progress is told to as well: so none is told
                        // here unless the input is counted by its owner.
                        out.copying(columns.len(), rows_of(format));
                        let input = out.copy_in()?;
                        let done = self.copy_from(&into, input, bound, &mut |_| {}, None);
                        // Whoever gives the input may have ended it because of the same wish.
                        done.map_err(|e| match e.sqlstate() {
                            sqlstate::IO_ERROR => self.check_cancel().err().unwrap_or(e),
                            _ => e,
                        })?
                    }
                    (CopyFormat::Text(options), Some((path, (file, size)))) => {
                        let into = Into { table: &table.0, columns, defaults, options };
                        self.copy_from(&into, file, bound, &mut |p| out.progress(p), size)
                            .map_err(|e| in_file(path, e))?
                    }
                    (CopyFormat::Parquet(_), None) => {
                        return Err(SqlError::unsupported("COPY FROM STDIN in Parquet")
                            .detail("It is read from its end, so it has to be a file."));
                    }
                    #[cfg(feature = "columnar")]
                    (CopyFormat::Parquet(_), Some((path, (file, _)))) => {
                        let listed = !defaults.iter().any(|(c, _)| columns.contains(c));
                        self.copy_from_parquet(&table.0, (columns, listed), defaults, file, bound, &mut |p| {
                            out.progress(p)
                        })
                        .map_err(|e| in_file(path, e))?
                    }
                    #[cfg(not(feature = "columnar"))]
                    (CopyFormat::Parquet(_), Some(_)) => return Err(not_built()),
                }
            }
            Copy::To { query, end, format } => match (self.copied(query, bound)?, end) {
                (plan, CopyEnd::Client) => {
                    out.copying(plan.columns.len(), rows_of(format));
                    let mut sink = out.copy_out()?;
                    self.copy_to(&plan, format, &mut *sink)?
                }
                (plan, CopyEnd::File(path)) => {
                    let to = Path::new(path);
                    let create = |e| file_error(path, "create", e);
                    #[cfg(feature = "innodb")]
                    if ondol_innodb::space::is_read(to) {
                        let why = format!("\"{path}\" is a tablespace that is being read");
                        return Err(SqlError::new(sqlstate::OBJECT_IN_USE, why)
                            .hint("COPY does not replace what its query, or a prepared one, reads."));
                    }
                    if is_in_place(to) {
                        let mut file = File::create(to).map_err(create)?;
                        let done = self.copy_to(&plan, format, &mut file).map_err(|e| in_file(path, e))?;
                        // What is no file of a disk has nothing to sync.
                        if file.metadata().is_ok_and(|m| m.is_file()) {
                            file.sync_all().map_err(|e| file_error(path, "write", e))?;
                        }
                        done
                    } else {
                        let unfinished = Unfinished::create(to).map_err(create)?;
                        let done = self
                            .copy_to(&plan, format, &mut &unfinished.file)
                            .map_err(|e| in_file(path, e))?;
                        unfinished.finish().map_err(|e| file_error(path, "write", e))?;
                        done
                    }
                }
            },
        };
        out.done(&format!("COPY {rows}"), token)
    }

    /// The plan of a query whose rows are copied.
    fn copied(&self, query: &Query, bound: &Bound) -> SqlResult<Arc<Plan>> {
        let inner = Bound {
            foreign: bound.foreign.clone(),
            ..Bound::of(Statement::Query(query.clone()), bound.params.clone(), bound.catalog_version)
        };
        Ok(Arc::new(Plan::new(self.compile(&inner)?)))
    }

    fn copy_to(
        &mut self,
        plan: &Arc<Plan>,
        format: &CopyFormat,
        sink: &mut dyn Write,
    ) -> SqlResult<(u64, Option<Token>)> {
        match format {
            CopyFormat::Text(options) => self.copy_to_text(plan, options, sink),
            #[cfg(feature = "columnar")]
            CopyFormat::Parquet(unrepresentable) => self.copy_to_parquet(plan, *unrepresentable, sink),
            #[cfg(not(feature = "columnar"))]
            CopyFormat::Parquet(_) => Err(not_built()),
        }
    }

    fn copy_to_text(
        &mut self,
        plan: &Arc<Plan>,
        options: &CopyOptions,
        sink: &mut dyn Write,
    ) -> SqlResult<(u64, Option<Token>)> {
        let failed =
            |e: std::io::Error| SqlError::new(io_state(&e), format!("could not write COPY data: {e}"));
        if options.binary && !BINARY {
            return Err(no_binary());
        }
        let styles = self.quick.styles;
        let mut text = Text::new(plan, (options, styles), self.connection.charge(), ROOM);
        text.header(plan)?;
        #[cfg(feature = "scan")]
        let workers = self.workers_for_rows(plan);
        #[cfg(feature = "scan")]
        if workers > 0 {
            sink.write_all(text.lines.bytes()).map_err(failed)?;
            let end = end_of(options);
            let (of, options, charge) = (plan.clone(), options.clone(), self.connection.charge());
            let done = self.read_parts(
                plan,
                workers,
                self.part_of(plan, workers),
                &[],
                &mut Nowhere,
                move |_| Text::new(&of, (&options, styles), charge.another(), 0),
                |text, read, hand| {
                    let gathered = read(&mut |row: &RowView<'_>| {
                        text.row(row)?;
                        // No more rows are wanted where nobody takes what was made of them.
                        Ok(text.lines.len() < PIECE || hand.over((text.take(), None)).is_ok())
                    })?;
                    let _ = hand.over((text.take(), Some(gathered)));
                    Ok(())
                },
                |(piece, gathered), gatherer| {
                    sink.write_all(&piece.bytes).map_err(failed)?;
                    gathered.map_or(Ok(()), |g| gatherer.add(g))
                },
            )?;
            sink.write_all(end).map_err(failed)?;
            sink.flush().map_err(failed)?;
            return Ok(done);
        }
        let done = self.run_program(plan, &[], &mut |row: &RowView<'_>| {
            text.row(row)?;
            if text.lines.len() >= BLOCK {
                sink.write_all(text.lines.bytes()).map_err(failed)?;
                text.lines.clear();
            }
            Ok(true)
        })?;
        sink.write_all(text.lines.bytes()).map_err(failed)?;
        sink.write_all(end_of(options)).map_err(failed)?;
        sink.flush().map_err(failed)?;
        Ok(done)
    }
}

/// What stands behind the last row.
fn end_of(options: &CopyOptions) -> &'static [u8] {
    const END: [u8; 2] = binary::END.to_be_bytes();
    if options.binary { &END } else { &[] }
}

/// Rows as COPY's text, or in binary. What they take counts against the memory limit until they are written.
struct Text {
    writer: CopyWriter,
    /// In binary: a row's bytes, put together here.
    binary: Option<Vec<u8>>,
    types: Vec<Type>,
    lines: CopyBuffer,
    charge: Charge,
    /// So many bytes are not charged.
    free: usize,
}

/// Text that waits to be written.
#[cfg(feature = "scan")]
struct Piece {
    bytes: Vec<u8>,
    _charge: Charge,
}

impl Text {
    /// `charge` is empty.
    fn new(plan: &Plan, (options, styles): (&CopyOptions, Styles), charge: Charge, free: usize) -> Text {
        Text {
            writer: CopyWriter::new(options, plan.columns.len()).in_styles(styles),
            binary: options.binary.then(Vec::new),
            types: plan.columns.iter().map(|c| c.ty).collect(),
            lines: CopyBuffer::new(ROOM),
            charge,
            free,
        }
    }
    /// The header line, if the options want one; the head of binary data.
    fn header(&mut self, plan: &Plan) -> SqlResult<()> {
        if self.binary.is_some() {
            self.types.iter().try_for_each(|ty| binary_form::is_sent(*ty))?;
            self.lines.ascii(&binary::HEAD);
            return Ok(());
        }
        self.writer.header(plan.columns.iter().map(|c| c.name.as_str()), &mut self.lines);
        Ok(())
    }
    fn row(&mut self, row: &RowView<'_>) -> SqlResult<()> {
        if let Some(bytes) = &mut self.binary {
            bytes.clear();
            bytes.extend_from_slice(&(self.types.len() as i16).to_be_bytes());
            for (column, ty) in self.types.iter().enumerate() {
                binary_form::put(row.get(column), *ty, bytes)?
            }
            self.lines.ascii(bytes);
        } else {
            let (writer, lines) = (&self.writer, &mut self.lines);
            row.each(self.types.iter().enumerate(), |v, (column, ty)| {
                writer.value(v, *ty, lines, || row.get(column));
                true
            });
            writer.end_row(self.types.len(), lines);
        }
        let charged = self.lines.room().saturating_sub(self.free);
        // It grows by doubling, so this is seldom.
        if charged != self.charge.bytes() {
            self.charge.resize(charged)?
        }
        Ok(())
    }
    /// The text so far; it begins anew, with room for as much.
    #[cfg(feature = "scan")]
    fn take(&mut self) -> Piece {
        let bytes = self.lines.take(self.lines.len());
        let another = self.charge.another();
        Piece { bytes, _charge: std::mem::replace(&mut self.charge, another) }
    }
}
