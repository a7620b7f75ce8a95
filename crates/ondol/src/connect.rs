//! One kind of connection to a database, whether it is in this process or a server has it.
//!
//! - **W1** A folder is opened once by a process: its connections share the database, which is closed with
//!   the last of them. Who opens one waits until another thread has opened or closed one.
//! - **W2** A folder that a server has is talked to through the server, in memory if it gives some.
//! - **W3** A process that is a copy of another, by fork, has none of its connections: it neither uses nor
//!   ends them, since the other goes on with them.
//! - **W4** Calls give the same by both ways: values are brought to parameters as by an assignment, texts are
//!   in PostgreSQL's usual styles, and rows have the columns that were described.
use crate::session::batch::Batch;
use crate::session::rows::FromValue;
use crate::session::split;
use crate::{Canceller, Column, Database, Prepared, Session};
use ondol_base::fork;
pub use ondol_client::Commit;
use ondol_client::{Address, Client, FromSent, SharedMemory, refuse_copy};
use ondol_types::{Numeric, SqlError, SqlResult, Type, TypeId, Value, ValueRef, sqlstate, text};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// W1
static OPEN: Mutex<BTreeMap<PathBuf, Weak<Shared>>> = Mutex::new(BTreeMap::new());

fn open() -> MutexGuard<'static, BTreeMap<PathBuf, Weak<Shared>>> {
    OPEN.lock().unwrap_or_else(|e| e.into_inner())
}

/// A database of this process, by its folder.
struct Shared {
    folder: PathBuf,
    database: Database,
    /// W3
    of: u32,
}

impl Shared {
    fn open(path: &Path) -> SqlResult<Arc<Shared>> {
        let io = |e: std::io::Error| SqlError::new("58030", format!("{}: {e}", path.display()));
        let mut all = open();
        // A folder that is not there yet has no name of its own before it is made.
        let known = std::fs::canonicalize(path).ok();
        if let Some(shared) = known.and_then(|folder| all.get(&folder)?.upgrade()) {
            return if shared.of == fork::copies() { Ok(shared) } else { Err(copied()) };
        }
        let database = Database::open(path)?;
        let folder = std::fs::canonicalize(path).map_err(io)?;
        let shared = Arc::new(Shared { folder: folder.clone(), database, of: fork::copies() });
        all.insert(folder, Arc::downgrade(&shared));
        Ok(shared)
    }
    /// Gives it up; the last one to do so closes it.
    fn leave(self: Arc<Shared>) -> SqlResult<()> {
        let mut all = open();
        match Arc::into_inner(self) {
            Some(last) => {
                // Not that of a folder that was made anew meanwhile.
                if all.get(&last.folder).is_some_and(|shared| shared.strong_count() == 0) {
                    all.remove(&last.folder);
                }
                last.database.close()
            }
            None => Ok(()),
        }
    }
}

enum Place {
    Own {
        session: Box<Session>,
        shared: Arc<Shared>,
        batch: Batch,
    },
    Server {
        client: Box<Client>,
        batch: ondol_client::Batch,
        /// Calls of the last that were not sent (W4).
        wrong: Vec<(usize, SqlError)>,
    },
}

enum Made {
    Own(Box<Prepared>),
    Sent(ondol_client::Statement),
}

/// A prepared statement of one connection's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Statement(usize);

impl Statement {
    /// For languages that have handles only as numbers.
    pub fn number(self) -> usize {
        self.0
    }
    /// That of such a number, if the connection has it.
    pub fn of_number(n: usize) -> Statement {
        Statement(n)
    }
}

/// Breaks off what a connection does, from another thread: that ends with error 57014, unless it was through
/// already.
#[derive(Clone)]
pub struct Cancel(Told);

#[derive(Clone)]
enum Told {
    Own(Canceller),
    Sent(ondol_client::Canceller),
    Nobody,
}

impl Cancel {
    pub fn tell(&self) {
        match &self.0 {
            Told::Own(c) => c.cancel(),
            Told::Sent(c) => c.cancel(),
            Told::Nobody => {}
        }
    }
}

/// A session of a database, in this process or through a server.
///
/// ```
/// use ondol::connect::{Calls, Commit, Connection};
/// use ondol::ValueRef;
///
/// # fn main() -> ondol::Result<()> {
/// # let folder = ondol::TempFolder::new()?;
/// # let path = folder.path().join("db");
/// # let path = path.to_str().expect("a name");
/// let mut connection = Connection::open(path)?; // or "postgres://…"
/// connection.execute("CREATE TABLE t (a bigint PRIMARY KEY, b text)")?;
/// let insert = connection.prepare("INSERT INTO t VALUES ($1, $2)")?;
/// let find = connection.prepare("SELECT b FROM t WHERE a = $1")?;
/// let mut calls = Calls::new(Commit::Together);
/// calls.add(insert, &[ValueRef::Int8(7), ValueRef::Text("seven")]);
/// calls.add(find, &[ValueRef::Int8(7)]);
/// let answers = connection.run(&calls)?;
/// assert_eq!(answers.affected(0)?, 1);
/// assert_eq!(answers.row(1, 0)?.get::<&str>(0)?, "seven");
/// # Ok(())
/// # }
/// ```
pub struct Connection {
    place: Option<Place>,
    statements: Vec<Option<Made>>,
    /// W3
    of: u32,
}

/// Calls of prepared statements, which are run together, and can be run again.
pub struct Calls {
    commit: Commit,
    calls: Vec<(Statement, Range<usize>)>,
    values: Vec<Value>,
}

impl Calls {
    pub fn new(commit: Commit) -> Calls {
        Calls { commit, calls: vec![], values: vec![] }
    }
    pub fn len(&self) -> usize {
        self.calls.len()
    }
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }
    /// Forgets the calls, keeps the memory.
    pub fn clear(&mut self) {
        self.calls.clear();
        self.values.clear()
    }
    /// Adds a call of a statement of the connection's that will run it.
    pub fn add(&mut self, statement: Statement, params: &[ValueRef<'_>]) {
        let from = self.values.len();
        self.values.extend(params.iter().map(ValueRef::to_owned));
        self.calls.push((statement, from..self.values.len()))
    }
    /// Adds a call whose parameters follow, by [`Calls::set`].
    pub fn begin(&mut self, statement: Statement) {
        self.add(statement, &[])
    }
    /// Gives the call that was added last a parameter, counted from 0; those before it that were not given
    /// are NULL.
    pub fn set(&mut self, param: usize, value: Value) {
        if let Some((_, params)) = self.calls.last_mut() {
            let at = params.start + param;
            if self.values.len() <= at {
                self.values.resize(at + 1, Value::Null)
            }
            params.end = self.values.len();
            self.values[at] = value
        }
    }
}

/// What a connection's calls have given, until it does something else.
#[derive(Clone, Copy)]
pub struct Answers<'c>(Given<'c>);

#[derive(Clone, Copy)]
enum Given<'c> {
    Own(&'c Batch),
    /// With calls that were not sent.
    Sent(ondol_client::Answers<'c>, &'c [(usize, SqlError)]),
}

/// Where a call's answer is among those of calls that were sent, or why it was not.
fn sent(call: usize, wrong: &[(usize, SqlError)]) -> SqlResult<usize> {
    match wrong.binary_search_by_key(&call, |w| w.0) {
        Ok(at) => Err(wrong[at].1.clone()),
        Err(before) => Ok(call - before),
    }
}

fn missing(what: &str, of: usize, found: usize) -> SqlError {
    SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, format!("expected a {what} below {of}, found {found}"))
}

impl<'c> Answers<'c> {
    /// The number of calls.
    pub fn len(&self) -> usize {
        match self.0 {
            Given::Own(batch) => batch.len(),
            Given::Sent(answers, wrong) => answers.len() + wrong.len(),
        }
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// How many rows a call, counted from 0, has changed, or given.
    ///
    /// # Errors
    /// The call's own; 22023, if there is none of that number.
    pub fn affected(&self, call: usize) -> SqlResult<u64> {
        match self.0 {
            Given::Own(batch) if call < batch.len() => batch.called(call).map(|c| c.rows),
            Given::Own(batch) => Err(missing("call", batch.len(), call)),
            Given::Sent(answers, wrong) => answers.affected(sent(call, wrong)?),
        }
    }
    /// How many rows a call has given.
    ///
    /// # Errors
    /// As [`Answers::affected`].
    pub fn rows(&self, call: usize) -> SqlResult<usize> {
        self.affected(call)?;
        match self.0 {
            Given::Own(batch) => batch.rows(call).map(|r| r.len()),
            Given::Sent(answers, wrong) => answers.rows(sent(call, wrong)?).map(|r| r.len()),
        }
    }
    /// A row of a call, both counted from 0.
    ///
    /// # Errors
    /// As [`Answers::affected`]; 22023, if there is no row of that number.
    pub fn row(&self, call: usize, row: usize) -> SqlResult<GivenRow<'c>> {
        let n = self.rows(call)?;
        if row >= n {
            return Err(missing("row", n, row));
        }
        Ok(match self.0 {
            Given::Own(batch) => GivenRow::Own(batch.rows(call)?.row(row)),
            Given::Sent(answers, wrong) => GivenRow::Sent(answers.rows(sent(call, wrong)?)?.row(row)),
        })
    }
}

/// A row that a call has given.
#[derive(Clone, Copy)]
pub enum GivenRow<'c> {
    /// Of a database in this process.
    Own(crate::Row<'c>),
    /// As a server has sent it.
    Sent(ondol_client::SentRow<'c>),
}

/// Rust types that a value can be read as, wherever it comes from (W4). Integers and reals widen; moments are
/// read as an `i64` of microseconds since 2000, dates as days since then. NULL needs an `Option`.
pub trait FromRow<'c>: FromSent<'c> {
    /// # Errors
    /// 42804, if the value is of another type, or NULL.
    fn from_own(value: ValueRef<'c>, column: &Column) -> SqlResult<Self>;
}

macro_rules! as_usual {
    ($($ty:ty),*) => {
        $(impl<'c> FromRow<'c> for $ty {
            fn from_own(value: ValueRef<'c>, column: &Column) -> SqlResult<Self> {
                <$ty as FromValue<'c>>::from_value(value, column)
            }
        })*
    };
}
as_usual!(bool, i16, i32, &'c str, Value, Numeric);

impl<'c> FromRow<'c> for i64 {
    fn from_own(value: ValueRef<'c>, column: &Column) -> SqlResult<i64> {
        match value {
            ValueRef::Date(days) => Ok(days.into()),
            ValueRef::Opaque(TypeId::OID, b) => {
                Ok(b.first_chunk().map_or(0, |b| u32::from_le_bytes(*b)).into())
            }
            value => FromValue::from_value(value, column),
        }
    }
}
impl<'c> FromRow<'c> for f64 {
    fn from_own(value: ValueRef<'c>, column: &Column) -> SqlResult<f64> {
        match value {
            ValueRef::Opaque(TypeId::FLOAT4, b) => {
                Ok(b.first_chunk().map_or(0.0, |b| f32::from_le_bytes(*b)).into())
            }
            value => FromValue::from_value(value, column),
        }
    }
}
impl<'c> FromRow<'c> for &'c [u8] {
    fn from_own(value: ValueRef<'c>, column: &Column) -> SqlResult<&'c [u8]> {
        match value {
            // In a form that is the database's own.
            ValueRef::Opaque(..) => FromValue::from_value(ValueRef::Bool(false), column),
            value => FromValue::from_value(value, column),
        }
    }
}
impl<'c, T: FromRow<'c>> FromRow<'c> for Option<T> {
    fn from_own(value: ValueRef<'c>, column: &Column) -> SqlResult<Option<T>> {
        if value.is_null() { Ok(None) } else { T::from_own(value, column).map(Some) }
    }
}

impl<'c> GivenRow<'c> {
    /// The number of values.
    pub fn len(&self) -> usize {
        match self {
            GivenRow::Own(row) => row.len(),
            GivenRow::Sent(row) => row.columns().len(),
        }
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// A column's name and type.
    pub fn column(&self, i: usize) -> Option<(&'c str, Type)> {
        match self {
            GivenRow::Own(row) => row.columns().get(i).map(|c| (c.name.as_str(), c.ty)),
            GivenRow::Sent(row) => row.columns().get(i).map(|c| (c.name.as_str(), c.ty)),
        }
    }
    /// The value in column `i` (from 0) as a Rust type. NULL needs an `Option`.
    ///
    /// # Errors
    /// 42804, if it is of another type; 22023, if there is no such column.
    pub fn get<T: FromRow<'c>>(&self, i: usize) -> SqlResult<T> {
        match self {
            GivenRow::Own(row) => match row.columns().get(i) {
                Some(column) => T::from_own(row.value(i), column),
                None => Err(missing("column", row.len(), i)),
            },
            GivenRow::Sent(row) => row.get(i),
        }
    }
    /// Appends the value in column `i` as PostgreSQL writes it in its usual styles, moments with a zone in
    /// UTC, whatever the session's settings are; false (and nothing written) for NULL.
    ///
    /// # Errors
    /// 22023, if there is no such column.
    pub fn text(&self, i: usize, out: &mut String) -> SqlResult<bool> {
        match self {
            GivenRow::Own(row) => {
                let column = row.columns().get(i).ok_or_else(|| missing("column", row.len(), i))?;
                let value = row.value(i);
                if !value.is_null() {
                    text::output(value, column.ty, out)
                }
                Ok(!value.is_null())
            }
            GivenRow::Sent(row) => row.text(i, out),
        }
    }
}

/// What a column of a statement's rows is.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    pub name: String,
    /// Its type; that of texts, where only the server knows it.
    pub ty: Type,
    /// PostgreSQL's, or the database's own, number of its type.
    pub oid: u32,
}

fn closed() -> SqlError {
    SqlError::new("08003", "the connection is closed")
}
fn copied() -> SqlError {
    SqlError::new("08003", "the connection is of the process that this one is a copy of")
        .hint("Open the database after fork, or in a process that is started anew.")
}

impl Connection {
    /// Opens `whereto`: a server by an address as [`Address::parse`] has it, or a database's folder. A folder
    /// that a server has is talked to through it; one that is nobody's is opened in this process, and made if
    /// it is not there, or empty.
    ///
    /// # Errors
    /// 08001, if no server is at the address; what the server says to the role and its password; those of
    /// [`Database::open`].
    pub fn open(whereto: &str) -> SqlResult<Connection> {
        let place = match Address::parse(whereto)? {
            Some(address) => Connection::served(&address)?,
            None => Connection::place_of(Path::new(whereto))?,
        };
        Ok(Connection { place: Some(place), statements: vec![], of: fork::copies() })
    }
    fn place_of(folder: &Path) -> SqlResult<Place> {
        match Shared::open(folder) {
            Ok(shared) => {
                let session = Box::new(shared.database.session());
                Ok(Place::Own { session, shared, batch: Batch::new() })
            }
            Err(e) if e.sqlstate() == sqlstate::OBJECT_IN_USE => {
                let address = Address::in_folder(folder).ok_or(e)?.with_memory(SharedMemory::Prefer);
                Connection::served(&address)
            }
            Err(e) => Err(e),
        }
    }
    fn served(address: &Address) -> SqlResult<Place> {
        let client = Box::new(Client::connect_to(address, "ondol", |_| {})?);
        Ok(Place::Server { client, batch: ondol_client::Batch::new(Commit::Each), wrong: vec![] })
    }
    /// Whether a server has the database.
    pub fn is_remote(&self) -> bool {
        matches!(self.place, Some(Place::Server { .. }))
    }
    /// Closes it: an open transaction is rolled back. The last connection to a database of this process
    /// closes the database.
    ///
    /// # Errors
    /// If what was acknowledged asynchronously cannot be made durable.
    pub fn close(mut self) -> SqlResult<()> {
        self.leave()
    }
    fn place(&mut self) -> SqlResult<&mut Place> {
        if self.of != fork::copies() {
            return Err(copied());
        }
        self.place.as_mut().ok_or_else(closed)
    }
    fn leave(&mut self) -> SqlResult<()> {
        if self.of != fork::copies() {
            std::mem::forget((self.place.take(), std::mem::take(&mut self.statements)));
            return Ok(());
        }
        self.statements.clear();
        match self.place.take() {
            Some(Place::Own { session, shared, .. }) => {
                drop(session);
                shared.leave()
            }
            _ => Ok(()),
        }
    }
    pub fn cancel(&self) -> Cancel {
        Cancel(match &self.place {
            Some(Place::Own { session, .. }) => Told::Own(session.canceller()),
            Some(Place::Server { client, .. }) => Told::Sent(client.canceller()),
            None => Told::Nobody,
        })
    }
    /// A transaction is open.
    pub fn is_in_transaction(&self) -> bool {
        match &self.place {
            Some(Place::Own { session, .. }) => session.in_transaction(),
            Some(Place::Server { client, .. }) => client.is_in_transaction(),
            None => false,
        }
    }

    /// Runs statements without parameters, separated by semicolons, one after the other; their rows are
    /// dropped. The number of rows that the last of them has changed, or given.
    ///
    /// # Errors
    /// The first of a statement, behind which none is run; those before it stay done.
    pub fn execute(&mut self, sql: &str) -> SqlResult<u64> {
        match self.place()? {
            Place::Own { session, batch, .. } => {
                batch.clear();
                Ok(session.execute(sql)?.last().map_or(0, |o| o.count))
            }
            Place::Server { client, wrong, .. } => {
                wrong.clear();
                split::split(sql).iter().try_fold(0, |_, statement| client.execute(statement))
            }
        }
    }
    /// Prepares a statement, with `$1` and so on for its parameters.
    ///
    /// # Errors
    /// Those of what it says; 0A000 for COPY.
    pub fn prepare(&mut self, sql: &str) -> SqlResult<Statement> {
        let made = match self.place()? {
            Place::Own { session, batch, .. } => {
                refuse_copy(sql)?;
                batch.clear();
                Made::Own(Box::new(session.prepare(sql)?))
            }
            Place::Server { client, wrong, .. } => {
                wrong.clear();
                Made::Sent(client.prepare(sql)?)
            }
        };
        Ok(self.keep(made))
    }
    /// A registered query, which is prepared for everybody.
    ///
    /// # Errors
    /// 26000, if there is none of that name that may be called.
    pub fn registered(&mut self, name: &str) -> SqlResult<Statement> {
        let made = match self.place()? {
            Place::Own { session, batch, .. } => {
                batch.clear();
                Made::Own(Box::new(session.prepare_by_name(&format!("ondol.{name}"))?))
            }
            Place::Server { client, wrong, .. } => {
                wrong.clear();
                Made::Sent(client.registered(name)?)
            }
        };
        Ok(self.keep(made))
    }
    fn keep(&mut self, made: Made) -> Statement {
        self.statements.push(Some(made));
        Statement(self.statements.len() - 1)
    }
    fn made(&self, statement: Statement) -> SqlResult<&Made> {
        made(&self.statements, statement)
    }
    /// Forgets a statement.
    ///
    /// # Errors
    /// 26000, if the connection has it no more.
    pub fn forget(&mut self, statement: Statement) -> SqlResult<()> {
        self.made(statement)?;
        match (self.statements[statement.0].take(), &mut self.place) {
            (Some(Made::Sent(made)), Some(Place::Server { client, wrong, .. })) => {
                wrong.clear();
                client.close(made)
            }
            (_, Some(Place::Own { batch, .. })) => {
                batch.clear();
                Ok(())
            }
            _ => Ok(()),
        }
    }
    /// The types of a statement's parameters; `None` where only the server knows it.
    ///
    /// # Errors
    /// 26000, if the connection has it no more.
    pub fn params(&self, statement: Statement) -> SqlResult<Vec<Option<TypeId>>> {
        Ok(match self.made(statement)? {
            Made::Own(made) => made.params().iter().map(|ty| Some(*ty)).collect(),
            Made::Sent(made) => made.params().to_vec(),
        })
    }
    /// The columns of a statement's rows; none, if it gives none.
    ///
    /// # Errors
    /// 26000, if the connection has it no more.
    pub fn columns(&self, statement: Statement) -> SqlResult<Vec<Described>> {
        let own = |c: &Column| Described { name: c.name.clone(), ty: c.ty, oid: c.ty.id.oid() };
        let sent = |c: &ondol_client::Column| Described { name: c.name.clone(), ty: c.ty, oid: c.oid };
        Ok(match self.made(statement)? {
            Made::Own(made) => made.columns().iter().map(own).collect(),
            Made::Sent(made) => made.columns().iter().map(sent).collect(),
        })
    }

    /// Runs calls, in their order, and keeps what they give until the next. Neighbouring reads by a key wait
    /// for the memory together; calls that write wait for the disk together.
    ///
    /// # Errors
    /// Of calls that commit together, that of the first call that failed. Of others, what keeps any of them
    /// from being run: a statement that is not there, or a connection that is lost.
    pub fn run(&mut self, calls: &Calls) -> SqlResult<Answers<'_>> {
        if self.of != fork::copies() {
            return Err(copied());
        }
        match self.place.as_mut().ok_or_else(closed)? {
            Place::Own { session, batch, .. } => {
                let done = run_own(session, &self.statements, calls, batch);
                done.inspect_err(|_| batch.clear())?
            }
            Place::Server { client, batch, wrong } => {
                let done = run_sent(client, batch, &self.statements, calls, wrong);
                done.inspect_err(|_| {
                    batch.clear();
                    wrong.clear()
                })?
            }
        }
        self.answers()
    }
    /// Once more what was given last, if it did not fail and nothing was done since.
    ///
    /// # Errors
    /// 08003, if the connection is closed.
    pub fn answers(&self) -> SqlResult<Answers<'_>> {
        Ok(Answers(match self.place.as_ref().ok_or_else(closed)? {
            Place::Own { batch, .. } => Given::Own(batch),
            Place::Server { client, batch, wrong } => Given::Sent(client.answers(batch), wrong),
        }))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Who wants to know of an error closes it.
        let _ = self.leave();
    }
}

fn made(statements: &[Option<Made>], statement: Statement) -> SqlResult<&Made> {
    statements.get(statement.0).and_then(Option::as_ref).ok_or_else(|| {
        let message = format!("the connection has no prepared statement {}", statement.0);
        SqlError::new(sqlstate::INVALID_SQL_STATEMENT_NAME, message)
    })
}

fn run_own(
    session: &mut Session,
    statements: &[Option<Made>],
    calls: &Calls,
    batch: &mut Batch,
) -> SqlResult<()> {
    batch.clear();
    let mut all = Vec::with_capacity(calls.len());
    for (statement, range) in &calls.calls {
        let Made::Own(made) = made(statements, *statement)? else { return Err(closed()) };
        let (given, wanted) = (&calls.values[range.clone()], made.params());
        if given.len() != wanted.len() {
            let message = format!("expected {} parameters, found {}", wanted.len(), given.len());
            return Err(SqlError::new("08P01", message));
        }
        all.push((&**made, given))
    }
    if calls.commit == Commit::Each || session.in_transaction() || calls.is_empty() {
        return run_calls(session, &all, calls.commit, batch);
    }
    session.execute("BEGIN")?;
    match run_calls(session, &all, calls.commit, batch) {
        Ok(()) => session.commit().map(|_| ()),
        Err(e) => {
            session.rollback();
            Err(e)
        }
    }
}

/// Of a value whose type is not brought to that of the parameter by an assignment.
const MISMATCH: &str = sqlstate::DATATYPE_MISMATCH;

/// Runs calls, of which some may have values that are not brought to what their statement takes (W4): then
/// those before are run first, since theirs may be the first error.
fn run_calls(
    session: &mut Session,
    calls: &[(&Prepared, &[Value])],
    commit: Commit,
    batch: &mut Batch,
) -> SqlResult<()> {
    let mut rest = calls;
    while !rest.is_empty() {
        let (mut fitted, mut wrong) = (Vec::with_capacity(rest.len()), None);
        for (made, given) in rest {
            match session.fit(given, made.params()) {
                Ok(values) => fitted.push(values),
                Err(e) => {
                    wrong = Some(e);
                    break;
                }
            }
        }
        let (run, behind) = rest.split_at(fitted.len());
        let mut scratch: Vec<Vec<Vec<u8>>> = fitted.iter().map(|v| vec![vec![]; v.len()]).collect();
        let refs: Vec<Vec<ValueRef<'_>>> = (fitted.iter().zip(&mut scratch))
            .map(|(values, room)| values.iter().zip(room).map(|(v, s)| Value::as_ref(v, s)).collect())
            .collect();
        let run: Vec<(&Prepared, &[ValueRef<'_>])> =
            run.iter().zip(&refs).map(|((made, _), refs)| (*made, refs.as_slice())).collect();
        let before = batch.len();
        session.call_more(&run, batch)?;
        batch.compare(before, &run);
        if commit == Commit::Together {
            first_error(batch)?
        }
        rest = match wrong {
            Some(e) => {
                // A value of a type that is never taken is found out by whoever sends it, too.
                let e = if e.sqlstate() == MISMATCH { Err(e) } else { session.ended::<()>(Err(e)) };
                batch.put(e.map(|()| Default::default()));
                &behind[1..]
            }
            None => behind,
        };
        if commit == Commit::Together {
            first_error(batch)?
        }
    }
    Ok(())
}

fn first_error(batch: &Batch) -> SqlResult<()> {
    (0..batch.len()).try_for_each(|i| batch.called(i).map(|_| ()))
}

fn run_sent(
    client: &mut Client,
    batch: &mut ondol_client::Batch,
    statements: &[Option<Made>],
    calls: &Calls,
    wrong: &mut Vec<(usize, SqlError)>,
) -> SqlResult<()> {
    batch.reset(calls.commit);
    wrong.clear();
    let mut scratch = vec![];
    for (i, (statement, range)) in calls.calls.iter().enumerate() {
        let Made::Sent(made) = made(statements, *statement)? else { return Err(closed()) };
        let given = &calls.values[range.clone()];
        scratch.resize_with(given.len(), Vec::new);
        let params: Vec<ValueRef<'_>> = given.iter().zip(&mut scratch).map(|(v, s)| v.as_ref(s)).collect();
        match batch.add(made, &params) {
            Err(e) if e.sqlstate() == MISMATCH && calls.commit == Commit::Each => wrong.push((i, e)),
            done => done?,
        }
    }
    client.run(batch).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TempFolder;

    fn path(folder: &TempFolder) -> String {
        folder.path().join("db").to_str().expect("UTF-8").to_string()
    }
    fn number(of: &mut Connection, sql: &str) -> i64 {
        let statement = of.prepare(sql).expect(sql);
        let mut calls = Calls::new(Commit::Each);
        calls.add(statement, &[]);
        let n = of.run(&calls).expect(sql).row(0, 0).expect(sql).get(0).expect(sql);
        of.forget(statement).expect("forgotten");
        n
    }

    #[test]
    fn connections_of_a_process_share_a_database() {
        let folder = TempFolder::new().expect("a folder");
        let path = path(&folder);
        let mut a = Connection::open(&path).expect("a connection");
        let mut b = Connection::open(&format!("{path}/../db")).expect("another");
        assert!(!a.is_remote() && !b.is_remote());
        a.execute("CREATE TABLE t (n bigint); INSERT INTO t VALUES (7)").expect("a row");
        assert_eq!(number(&mut b, "SELECT n FROM t"), 7);
        a.close().expect("closed");
        assert_eq!(number(&mut b, "SELECT n FROM t"), 7);
        assert_eq!(Database::open(&path).map(|_| ()).expect_err("open").sqlstate(), sqlstate::OBJECT_IN_USE);
        b.execute("BEGIN; INSERT INTO t VALUES (8)").expect("a row");
        drop(b);
        // It is closed, and what was not committed is gone; many open and close it at once.
        Database::open(&path).expect("closed").close().expect("closed");
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for _ in 0..20 {
                        let mut c = Connection::open(&path).expect("a connection");
                        assert_eq!(number(&mut c, "SELECT sum(n)::bigint FROM t"), 7);
                        c.close().expect("closed")
                    }
                });
            }
        })
    }

    #[test]
    fn what_commits_together() {
        let folder = TempFolder::new().expect("a folder");
        let mut c = Connection::open(&path(&folder)).expect("a connection");
        c.execute("CREATE TABLE t (n bigint PRIMARY KEY, v numeric(8, 2))").expect("a table");
        let insert = c.prepare("INSERT INTO t VALUES ($1, $2)").expect("a statement");
        for (commit, left) in [(Commit::Each, 2), (Commit::Together, 0)] {
            c.execute("DELETE FROM t").expect("empty");
            let mut calls = Calls::new(commit);
            for n in [1, 1, 2] {
                calls.add(insert, &[ValueRef::Int4(n), ValueRef::Text("1.005")])
            }
            match (commit, c.run(&calls)) {
                (Commit::Each, Ok(answers)) => {
                    assert_eq!(answers.affected(0).expect("a row"), 1);
                    assert_eq!(answers.affected(1).expect_err("twice").sqlstate(), "23505");
                    assert_eq!(answers.affected(3).expect_err("no call").sqlstate(), "22023")
                }
                (Commit::Together, Err(e)) => assert_eq!(e.sqlstate(), "23505"),
                (_, done) => panic!("{:?}", done.map(|a| a.len())),
            }
            assert!(!c.is_in_transaction());
            assert_eq!(number(&mut c, "SELECT count(*) FROM t"), left)
        }
        let mut calls = Calls::new(Commit::Each);
        for (n, v) in [(1, "1"), (2, "x"), (3, "3")] {
            calls.add(insert, &[ValueRef::Int8(n), ValueRef::Text(v)])
        }
        let answers = c.run(&calls).expect("answers");
        assert_eq!([0, 2].map(|i| answers.affected(i).expect("a row")), [1, 1]);
        assert_eq!(answers.affected(1).expect_err("no number").sqlstate(), "22P02");
        // In a transaction that is open it is that one's end.
        c.execute("BEGIN").expect("begun");
        let mut calls = Calls::new(Commit::Together);
        calls.begin(insert);
        calls.set(1, Value::Text("x".into()));
        assert_eq!(c.run(&calls).map(|_| ()).expect_err("no number").sqlstate(), "22P02");
        calls.clear();
        calls.begin(insert);
        calls.set(0, Value::Int8(9));
        assert_eq!(c.run(&calls).map(|_| ()).expect_err("one is missing").sqlstate(), "08P01");
        c.execute("ROLLBACK").expect("ended");
        assert_eq!(c.forget(Statement(99)).expect_err("none").sqlstate(), "26000")
    }
}
