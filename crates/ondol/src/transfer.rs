//! COPY: between a table or query and a stream of text. What COPY FROM does with it is in [`crate::load`].
use crate::load::Into;
use crate::output::Output;
use crate::planned::Plan;
use crate::session::Session;
use ondol_engine::error::io_state;
use ondol_sql::bound::{Bound, Copy, CopyEnd, CopyOptions, Query, Statement};
use ondol_sql::copy::Writer;
use ondol_sql::interpret::rows::Row;
use ondol_types::{SqlError, SqlResult, Type, sqlstate};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// Bytes gathered before they are written.
const BLOCK: usize = 1 << 18;

fn file_error(path: &str, what: &str, e: std::io::Error) -> SqlError {
    let state = if e.kind() == std::io::ErrorKind::NotFound { "58P01" } else { io_state(&e) };
    SqlError::new(state, format!("could not {what} file \"{path}\": {e}"))
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
            Copy::From { table, columns, defaults, end, options } => {
                let into = Into { table: &table.0, columns, defaults, options };
                match end {
                    CopyEnd::Client => {
                        // The input borrows the output, which progress is told to as well: so none is told here unless
                        // the input is counted by its owner.
                        let input = out.copy_in()?;
                        let done = self.copy_from(&into, input, bound, &mut |_| {}, None);
                        // Whoever gives the input may have ended it because of the same wish.
                        done.map_err(|e| match e.sqlstate() {
                            sqlstate::IO_ERROR => self.check_cancel().err().unwrap_or(e),
                            _ => e,
                        })?
                    }
                    CopyEnd::File(path) => {
                        let file = File::open(Path::new(path)).map_err(|e| file_error(path, "open", e))?;
                        let about = file.metadata().map_err(|e| file_error(path, "read", e))?;
                        if about.is_dir() {
                            return Err(SqlError::new(
                                sqlstate::WRONG_OBJECT_TYPE,
                                format!("\"{path}\" is a directory"),
                            ));
                        }
                        let size = about.is_file().then_some(about.len());
                        self.copy_from(&into, file, bound, &mut |p| out.progress(p), size)
                            .map_err(|e| in_file(path, e))?
                    }
                }
            }
            Copy::To { query, end, options } => match end {
                CopyEnd::Client => {
                    let mut sink = out.copy_out()?;
                    self.copy_to(query, options, &mut *sink, bound)?
                }
                CopyEnd::File(path) => {
                    let mut file =
                        File::create(Path::new(path)).map_err(|e| file_error(path, "create", e))?;
                    let done =
                        self.copy_to(query, options, &mut file, bound).map_err(|e| in_file(path, e))?;
                    // What is no file of a disk (a pipe, a device) has nothing to sync.
                    if file.metadata().is_ok_and(|m| m.is_file()) {
                        file.sync_all().map_err(|e| file_error(path, "write", e))?;
                    }
                    done
                }
            },
        };
        let token = self.told(token);
        out.done(&format!("COPY {rows}"), token)
    }

    fn copy_to(
        &mut self,
        query: &Query,
        options: &CopyOptions,
        sink: &mut dyn Write,
        bound: &Bound,
    ) -> SqlResult<(u64, Option<ondol_engine::Token>)> {
        let inner = Bound {
            statement: Statement::Query(query.clone()),
            params: bound.params.clone(),
            catalog_version: bound.catalog_version,
            notices: Vec::new(),
        };
        let plan = Arc::new(Plan::new(self.compile(&inner)?));
        let mut writer = Writer::new(options, plan.columns.len());
        let mut buffer = Vec::with_capacity(BLOCK + 4096);
        let mut cell = String::new();
        writer.header(plan.columns.iter().map(|c| c.name.as_str()), &mut buffer);
        let failed =
            |e: std::io::Error| SqlError::new(io_state(&e), format!("could not write COPY data: {e}"));
        let types: Vec<Type> = plan.columns.iter().map(|c| c.ty).collect();
        let (rows, token) = self.run_program(&plan, &[], &mut |row: &Row<'_>| {
            for (v, ty) in row.values().zip(&types) {
                cell.clear();
                let there = crate::rows::write_text(v, *ty, &mut cell);
                writer.field(there.then_some(&cell), &mut buffer);
            }
            writer.end_row(&mut buffer);
            if buffer.len() >= BLOCK {
                sink.write_all(&buffer).map_err(failed)?;
                buffer.clear();
            }
            Ok(true)
        })?;
        sink.write_all(&buffer).and_then(|()| sink.flush()).map_err(failed)?;
        Ok((rows, token))
    }
}
