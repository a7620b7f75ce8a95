//! COPY to and from Parquet: row groups encoded by the workers that read the rows, and decoded by workers for
//! the session's thread to insert.
use crate::session::Session;
use crate::session::execute::{RowChecks, RowValues};
use crate::session::output::Progress;
use crate::session::plan::Plan;
use crate::transfer::columns::{Cells, Columns, Form, Gap, check};
use crate::transfer::load::Filled;
use ondol_base::sync::Mutex;
use ondol_base::thread;
use ondol_engine::error::io_state;
use ondol_engine::{Charge, RowBatch, Table, Token};
use ondol_scan::parquet::{self, Encoded, Encoder, Group, Source};
use ondol_scan::pipeline::{self, Hand, Options};
use ondol_sql::bound::{Bound, Expr, Unrepresentable};
use ondol_sql::interpret::Nowhere;
use ondol_sql::interpret::rows::RowView;
use ondol_types::func::Context;
use ondol_types::style::Styles;
use ondol_types::{SqlError, SqlResult, Type, ValueRef, sqlstate};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Pages of a table, of 4 KiB, that become a row group, unless it is full before: few enough that several
/// wait for their turn in little memory.
const GROUP: std::ops::RangeInclusive<usize> = 256..=4096;
/// Bytes that are charged to the memory limit at once.
const STEP: usize = 512 << 10;
/// Rows that are decoded, and inserted, at a time.
const BATCH: usize = 4096;

/// Where the file's bytes wait, after each row group, until they are written.
#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);
impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn not_written(e: std::io::Error) -> SqlError {
    SqlError::new(io_state(&e), format!("could not write COPY data: {e}"))
}
fn not_encoded(e: std::io::Error) -> SqlError {
    SqlError::new(sqlstate::INTERNAL_ERROR, format!("rows could not be encoded as Parquet: {e}"))
}
fn not_read(e: std::io::Error) -> SqlError {
    match e.kind() {
        ErrorKind::Other | ErrorKind::UnexpectedEof | ErrorKind::InvalidData | ErrorKind::InvalidInput => {
            SqlError::new(sqlstate::BAD_COPY_FILE_FORMAT, format!("the file cannot be read as Parquet: {e}"))
        }
        _ => SqlError::new(io_state(&e), format!("could not read COPY data: {e}")),
    }
}

/// Rows that become row groups. What they take counts against the memory limit until they are written.
struct Maker {
    columns: Columns,
    encoder: Arc<Encoder>,
    group: Option<Group>,
    /// Rows of the row group that is being made, with those that wait to be encoded.
    rows: u64,
    /// Bytes of memory of the row group, without them.
    encoded: usize,
    charge: Charge,
}

/// What is made of rows, with their number.
enum Made {
    /// Charged until it is written.
    Group(Encoded, u64, Charge),
    /// The last of them has a value that has none in Parquet.
    Gap(Gap, u64),
}

enum Pushed {
    /// There is room for more rows.
    More,
    /// A row group is to be taken.
    Full,
    Gap(Made),
}

impl Maker {
    /// `charge` is empty.
    fn new(form: Arc<Form>, encoder: Arc<Encoder>, charge: Charge) -> Maker {
        Maker { columns: Columns::new(form), encoder, group: None, rows: 0, encoded: 0, charge }
    }
    fn push(&mut self, row: &RowView<'_>) -> SqlResult<Pushed> {
        self.rows += 1;
        if let Err(gap) = self.columns.push(row) {
            return Ok(Pushed::Gap(Made::Gap(gap, self.rows)));
        }
        let is_batch = self.columns.is_full();
        if is_batch {
            self.encode()?;
        }
        let bytes = self.encoded + self.columns.bytes();
        if bytes > self.charge.bytes() {
            self.charge.resize(bytes.next_multiple_of(STEP))?;
        }
        let is_full = is_batch && self.group.as_ref().is_some_and(Group::is_full);
        Ok(if is_full { Pushed::Full } else { Pushed::More })
    }
    fn encode(&mut self) -> SqlResult<()> {
        if self.columns.rows() == 0 {
            return Ok(());
        }
        let batch = self.columns.take()?;
        let mut group = match self.group.take() {
            Some(group) => group,
            None => Group::new(self.encoder.clone()).map_err(not_encoded)?,
        };
        group.write(&batch).map_err(not_encoded)?;
        self.encoded = group.bytes();
        self.group = Some(group);
        Ok(())
    }
    /// The row group so far, if there are rows.
    fn take(&mut self) -> SqlResult<Option<Made>> {
        self.encode()?;
        let rows = std::mem::take(&mut self.rows);
        let Some(group) = self.group.take() else { return Ok(None) };
        self.encoded = 0;
        let group = group.finish().map_err(not_encoded)?;
        self.charge.resize(group.bytes())?;
        let another = self.charge.another();
        Ok(Some(Made::Group(group, rows, std::mem::replace(&mut self.charge, another))))
    }
}

/// COPY TO: the file as it is written.
struct Target<'a> {
    form: Arc<Form>,
    writer: parquet::ParquetWriter<Buffer>,
    buffer: Buffer,
    sink: &'a mut dyn Write,
    rows: u64,
}

impl Target<'_> {
    fn write(&mut self, made: Made) -> SqlResult<()> {
        match made {
            // The charge ends when the bytes have left the buffer.
            Made::Group(group, rows, _charge) => {
                self.rows += rows;
                self.writer.append(group).map_err(not_encoded)?;
                self.pass_on()
            }
            Made::Gap(gap, row) => Err(self.form.refusal(&gap, self.rows + row)),
        }
    }
    fn pass_on(&mut self) -> SqlResult<()> {
        let bytes = std::mem::take(&mut *self.buffer.0.lock());
        self.sink.write_all(&bytes).map_err(not_written)
    }
    fn finish(mut self) -> SqlResult<()> {
        self.writer.finish().map_err(not_encoded)?;
        self.pass_on()?;
        self.sink.flush().map_err(not_written)
    }
}

impl Session {
    pub(crate) fn copy_to_parquet(
        &mut self,
        plan: &Arc<Plan>,
        unrepresentable: Unrepresentable,
        sink: &mut dyn Write,
    ) -> SqlResult<(u64, Option<Token>)> {
        let form = Arc::new(Form::new(&plan.columns, unrepresentable)?);
        let buffer = Buffer::default();
        let (writer, encoder) =
            parquet::create(buffer.clone(), form.schema().clone()).map_err(not_encoded)?;
        let mut target = Target { form: form.clone(), writer, buffer, sink, rows: 0 };
        let workers = self.workers_for_rows(plan);
        let charge = self.connection.charge();
        let done = if workers > 0 {
            // Some four row groups for each worker, so that all end at about the same time.
            let pages = plan.parted.map_or(0, |p| p.pages(&plan.program));
            let pages = (pages / (workers * 4)).clamp(*GROUP.start(), *GROUP.end());
            self.read_parts(
                plan,
                workers,
                pages,
                &[],
                &mut Nowhere,
                move |_| Maker::new(form.clone(), encoder.clone(), charge.another()),
                |maker, read, hand| {
                    let mut gap = None;
                    let gathered = read(&mut |row: &RowView<'_>| {
                        Ok(match maker.push(row)? {
                            Pushed::More => true,
                            // No more rows are wanted where nobody takes what was made of them.
                            Pushed::Full => hand.over((maker.take()?, None)).is_ok(),
                            Pushed::Gap(made) => {
                                gap = Some(made);
                                false
                            }
                        })
                    })?;
                    let last = match gap {
                        Some(gap) => Some(gap),
                        None => maker.take()?,
                    };
                    let _ = hand.over((last, Some(gathered)));
                    Ok(())
                },
                |(made, gathered), gatherer| {
                    made.map_or(Ok(()), |made| target.write(made))?;
                    gathered.map_or(Ok(()), |g| gatherer.add(g))
                },
            )?
        } else {
            let mut maker = Maker::new(form, encoder, charge);
            let done = self.run_program(plan, &[], &mut |row: &RowView<'_>| {
                match maker.push(row)? {
                    Pushed::More => {}
                    Pushed::Full => maker.take()?.map_or(Ok(()), |made| target.write(made))?,
                    Pushed::Gap(gap) => target.write(gap)?,
                }
                Ok(true)
            })?;
            maker.take()?.map_or(Ok(()), |made| target.write(made))?;
            done
        };
        target.finish()?;
        Ok(done)
    }
}

/// COPY FROM: what workers need to make rows of row groups.
struct Decoder {
    source: Source,
    table: Arc<Table>,
    /// Each column that the file has: its place there, ascending, the table's column, and its type.
    columns: Vec<(usize, u16, Type)>,
    /// The others, and what they get, where that is the same for all rows.
    filled: Option<Filled>,
    /// Whether the session looks at each row's values before it inserts them.
    checked: bool,
    names: std::sync::Arc<crate::session::identity::Names>,
    now_us: i64,
    statement_us: i64,
    styles: Styles,
    /// Empty.
    charge: Charge,
}

/// Where an error arose: the row, counted from 0 in its row group, and the table's column.
struct Misfit {
    row: u64,
    column: Option<u16>,
    error: SqlError,
}

/// What a worker makes of rows. It is charged until it is inserted.
enum Decoded {
    Rows(RowBatch, Charge),
    /// Rows whose other columns the session computes for each, or whose values it looks at.
    Batch(arrow_array::RecordBatch, Charge),
    Misfit(Misfit),
}

struct Failed(SqlError);
impl From<std::io::Error> for Failed {
    fn from(e: std::io::Error) -> Failed {
        Failed(SqlError::new("53000", format!("could not start a thread to decode Parquet: {e}")))
    }
}

impl Decoder {
    /// Calls `each` for the values of each row of a batch, those that the file lacks being NULL or as
    /// `filled` says.
    fn values(
        &self,
        batch: &arrow_array::RecordBatch,
        filled: &[(usize, ValueRef<'_>)],
        ctx: &Context<'_>,
        mut each: impl FnMut(&[ValueRef<'_>]) -> Result<(), (Option<u16>, SqlError)>,
    ) -> Result<(), Misfit> {
        let misfit = |row: usize, column| move |error| Misfit { row: row as u64, column, error };
        let mut cells = Vec::new();
        for (array, (_, _, ty)) in batch.columns().iter().zip(&self.columns) {
            cells.push(Cells::new(array, *ty).map_err(misfit(0, None))?);
        }
        let mut scratch: Vec<Vec<u8>> = vec![Vec::new(); cells.len()];
        for row in 0..batch.num_rows() {
            let mut values = vec![ValueRef::Null; self.table.def.columns.len()];
            filled.iter().for_each(|(column, v)| values[*column] = *v);
            for ((cells, (_, column, _)), scratch) in cells.iter().zip(&self.columns).zip(&mut scratch) {
                values[*column as usize] =
                    cells.get(row, ctx, scratch).map_err(misfit(row, Some(*column)))?;
            }
            each(&values).map_err(|(column, error)| misfit(row, column)(error))?;
        }
        Ok(())
    }

    /// Decodes a row group.
    fn decode(&self, group: usize, hand: &Hand<'_, Decoded, Failed>) -> SqlResult<()> {
        let ctx =
            crate::session::runtime::context_as_of(&self.names, self.now_us, self.statement_us, self.styles);
        let places: Vec<usize> = self.columns.iter().map(|c| c.0).collect();
        let mut before = 0;
        for batch in self.source.read(group, &places, BATCH).map_err(not_read)? {
            let batch = batch.map_err(not_read)?;
            let count = batch.num_rows() as u64;
            let mut charge = self.charge.another();
            charge.grow(batch.get_array_memory_size())?;
            let made = match self.filled.as_ref().filter(|_| !self.checked) {
                None => Decoded::Batch(batch, charge),
                Some(filled) => {
                    let mut bytes: Vec<Vec<u8>> = vec![Vec::new(); filled.len()];
                    let constants: Vec<(usize, ValueRef<'_>)> = (filled.iter().zip(&mut bytes))
                        .map(|((column, v), scratch)| (*column as usize, v.as_ref(scratch)))
                        .collect();
                    let mut rows = RowBatch::new(
                        self.table.layout.clone(),
                        batch.num_rows() * self.table.layout.row_size,
                    );
                    let done = self.values(&batch, &constants, &ctx, |values| match rows.push(values) {
                        true => Ok(()),
                        false => Err((None, self.null(values))),
                    });
                    charge.grow(rows.memory())?;
                    drop(batch);
                    charge.resize(rows.memory())?;
                    match done {
                        Ok(()) => Decoded::Rows(rows, charge),
                        Err(m) => {
                            // What comes before it is inserted first: an error there is an earlier one.
                            if hand.over(Decoded::Rows(rows, charge)).is_ok() {
                                let _ = hand.over(Decoded::Misfit(Misfit { row: before + m.row, ..m }));
                            }
                            return Ok(());
                        }
                    }
                }
            };
            before += count;
            if hand.over(made).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// The error of a row with a NULL that may not be.
    #[cold]
    fn null(&self, values: &[ValueRef<'_>]) -> SqlError {
        let def = &self.table.def;
        let name = values
            .iter()
            .zip(&def.columns)
            .find(|(v, c)| v.is_null() && c.not_null)
            .map_or("", |(_, c)| &c.name);
        SqlError::new(
            sqlstate::NOT_NULL_VIOLATION,
            format!(
                "null value in column \"{name}\" of relation \"{}\" violates not-null constraint",
                def.name
            ),
        )
        .table(def.schema, &def.name)
        .column(name)
    }
}

/// The file's column of a name: the one that is spelled so, or else the only one that is spelled so if case
/// does not count.
fn place_of(source: &Source, name: &str) -> SqlResult<Option<usize>> {
    let fields = source.schema().fields();
    let of = |same: &dyn Fn(&str) -> bool| -> Vec<usize> {
        (0..fields.len()).filter(|i| same(fields[*i].name())).collect()
    };
    let exact = of(&|n| n == name);
    let found = if exact.is_empty() { of(&|n| n.to_lowercase() == name.to_lowercase()) } else { exact };
    match found[..] {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        _ => Err(SqlError::new(
            sqlstate::AMBIGUOUS_COLUMN,
            format!("the file has {} columns that are called \"{name}\"", found.len()),
        )),
    }
}

impl Session {
    /// `listed`: only these columns are read. Otherwise all of the file's are, and the table must have them.
    pub(crate) fn copy_from_parquet(
        &mut self,
        table: &Arc<Table>,
        (columns, listed): (&[u16], bool),
        defaults: &[(u16, Expr)],
        file: File,
        bound: &Bound,
        progress: &mut dyn FnMut(Progress),
    ) -> SqlResult<(u64, Option<Token>)> {
        let source =
            catch_unwind(|| Source::open(file)).unwrap_or_else(|_| Err(damaged())).map_err(not_read)?;
        let name = |c: u16| &table.def.columns[c as usize].name;
        let mut found = Vec::new();
        for &c in columns {
            match place_of(&source, name(c))? {
                Some(at) => found.push((at, c, table.def.columns[c as usize].ty)),
                None if listed => {
                    let names: Vec<&str> =
                        source.schema().fields().iter().map(|f| f.name().as_str()).collect();
                    return Err(SqlError::new(
                        sqlstate::UNDEFINED_COLUMN,
                        format!("column \"{}\" does not exist in the file", name(c)),
                    )
                    .detail(format!("It has {}.", names.join(", "))));
                }
                None => {}
            }
        }
        found.sort_by_key(|f| f.0);
        for (at, field) in source.schema().fields().iter().enumerate() {
            match found.iter().find(|f| f.0 == at) {
                Some((_, _, ty)) => check(field, *ty)?,
                None if listed => {}
                None => {
                    return Err(SqlError::new(
                        sqlstate::UNDEFINED_COLUMN,
                        format!(
                            "column \"{}\" of the file does not exist in table \"{}\"",
                            field.name(),
                            table.def.name
                        ),
                    )
                    .hint("A list of columns says which are to be read."));
                }
            }
        }
        let defaults: Vec<(u16, &Expr)> = (defaults.iter().map(|(c, e)| (*c, e)))
            .filter(|(c, _)| !found.iter().any(|f| f.1 == *c))
            .collect();
        let defs: Vec<_> = found.iter().map(|f| &table.def.columns[f.1 as usize]).collect();
        let mut checks = self.domain_checks(&defs, bound.catalog_version)?;
        checks.iter_mut().for_each(|(place, _)| *place = usize::from(found[*place].1));
        let row_checks = self.row_checks(table, bound.catalog_version)?;
        let row_values = self.row_values(table, bound.catalog_version)?;
        let used = checks.iter().map(|c| &c.1).chain(row_checks.iter().map(|c| &c.plan));
        let used = used.chain(row_values.iter().map(|v| &v.plan));
        let (computed, filled) = self.start_copy(table, &defaults, used, bound)?;

        let groups: Vec<u64> = source.groups().collect();
        let (length, all_rows) = (source.length(), groups.iter().sum::<u64>().max(1));
        let begins: Vec<u64> = groups.iter().scan(0, |at, n| Some(std::mem::replace(at, *at + n))).collect();
        let now_us = self.connection.transaction_time_us();
        let decoder = Arc::new(Decoder {
            source,
            table: table.clone(),
            columns: found,
            filled,
            checked: !checks.is_empty() || row_checks.is_some() || row_values.is_some(),
            names: self.identity.names.clone(),
            now_us,
            statement_us: self.with_context(|ctx| ctx.statement_us),
            styles: self.quick.styles,
            charge: self.connection.charge(),
        });
        let placed = |m: Misfit, base: u64| {
            let column = m.column.map_or(String::new(), |c| format!(", column {}", name(c)));
            m.error.context(format!("COPY {}, row {}{column}", table.def.name, base + m.row + 1))
        };
        let workers = thread::parallelism().saturating_sub(1).max(1);
        let run = Options { workers, ordered: true, ahead: workers + 1 };
        let worker = decoder.clone();
        let mut rows = 0;
        pipeline::run(
            groups.len(),
            run,
            || (),
            move |(), group, hand| {
                // Decoders may not be ready for all that a damaged file can say.
                catch_unwind(AssertUnwindSafe(|| worker.decode(group, hand)))
                    .unwrap_or_else(|_| Err(not_read(damaged())))
                    .map_err(Failed)
            },
            |group, made| {
                self.check_cancel().map_err(Failed)?;
                let base = rows;
                let done = match made {
                    Decoded::Rows(mut made, _charge) => {
                        let n = made.len() as u64;
                        self.connection
                            .insert_rows(table, &mut made)
                            .map(|()| n)
                            .map_err(|(row, error)| Misfit { row: row as u64, column: None, error })
                    }
                    Decoded::Batch(batch, _charge) => {
                        let checks = (&checks[..], row_values.as_ref(), row_checks.as_ref());
                        self.insert_batch(&decoder, &batch, (&defaults, computed.as_ref()), checks)
                    }
                    Decoded::Misfit(m) => return Err(Failed(placed(m, begins[group]))),
                };
                rows = base + done.map_err(|m| Failed(placed(m, base)))?;
                progress(Progress {
                    rows,
                    bytes: (u128::from(length) * u128::from(rows) / u128::from(all_rows)) as u64,
                    all_bytes: Some(length),
                });
                Ok(())
            },
        )
        .map_err(|e| e.0)?;
        let token = self.connection.end_statement()?;
        Ok((rows, token))
    }

    /// Inserts rows, each with defaults of its own, and looked at by `checks`: (the table's column, the
    /// program).
    fn insert_batch(
        &mut self,
        decoder: &Decoder,
        batch: &arrow_array::RecordBatch,
        (defaults, computed): (&[(u16, &Expr)], Option<&Plan>),
        (checks, row_values, row_checks): (&[(usize, Plan)], Option<&RowValues>, Option<&RowChecks>),
    ) -> Result<u64, Misfit> {
        let names = self.identity.names.clone();
        let ctx = crate::session::runtime::context_as_of(
            &names,
            decoder.now_us,
            decoder.statement_us,
            decoder.styles,
        );
        let mut bytes: Vec<Vec<u8>> = vec![Vec::new(); defaults.len()];
        decoder.values(batch, &[], &ctx, |values| {
            for (column, check) in checks {
                self.run_program_within(check, &[values[*column]], &mut Nowhere)
                    .map_err(|e| (Some(*column as u16), e))?;
            }
            let others = match computed {
                Some(plan) => self.values_of(plan).map_err(|e| (None, e))?,
                None => vec![],
            };
            let mut all = values.to_vec();
            for (((column, _), v), scratch) in defaults.iter().zip(&others).zip(&mut bytes) {
                all[*column as usize] = v.as_ref(scratch);
            }
            let made = match row_values {
                Some(of) => self.computed_row(of, &all).map_err(|e| (None, e))?,
                None => vec![],
            };
            let mut made_bytes: Vec<Vec<u8>> = vec![Vec::new(); made.len()];
            let columns = row_values.map_or(&[][..], |of| &of.computed[..]);
            for ((column, v), scratch) in columns.iter().zip(&made).zip(&mut made_bytes) {
                all[usize::from(*column)] = v.as_ref(scratch);
            }
            if let Some(checks) = row_checks {
                self.hold_row(checks, &decoder.table, &all).map_err(|e| (None, e))?
            }
            self.connection.insert(&decoder.table, &all).map(|_| ()).map_err(|e| (None, e))
        })?;
        Ok(batch.num_rows() as u64)
    }
}

fn damaged() -> std::io::Error {
    std::io::Error::new(ErrorKind::InvalidData, "it is damaged")
}
