//! What the Python package `ondol` is built on: connections, statements and batches of calls, over
//! [`ondol::connect`]. Values that Python has by itself are made here; all others are texts, which the
//! package converts.
//!
//! While the database works, other threads of Python run.
use ondol::connect::{Calls, Cancel, Commit, Connection, GivenRow, Statement};
use ondol::{Error, Value};
use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyFloat, PyInt, PyList, PyString, PyTuple};
use pyo3::{PyTypeInfo, create_exception};
use std::sync::Mutex;

create_exception!(_ondol, Failure, PyException);

/// The package makes one of DB-API's exceptions of it.
fn failure(e: &Error) -> PyErr {
    Failure::new_err(parts(e))
}

/// SQLSTATE, message, detail, hint.
fn parts(e: &Error) -> (String, String, Option<String>, Option<String>) {
    let fields = &e.0;
    (e.sqlstate().to_string(), fields.message.clone(), fields.detail.clone(), fields.hint.clone())
}

fn closed() -> Error {
    Error::new("08003", "the connection is closed")
}

/// A session of a database.
#[pyclass(frozen)]
struct Session {
    connection: Mutex<Option<Connection>>,
    cancel: Cancel,
    #[pyo3(get)]
    is_remote: bool,
}

impl Session {
    /// Has `f` use the connection, while other threads of Python go on.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&mut Connection) -> ondol::Result<T> + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| {
            let mut connection = self.connection.lock().unwrap_or_else(|e| e.into_inner());
            f(connection.as_mut().ok_or_else(closed)?)
        });
        done.map_err(|e| failure(&e))
    }
}

#[pymethods]
impl Session {
    #[new]
    fn new(py: Python<'_>, whereto: String) -> PyResult<Session> {
        let connection = py.detach(|| Connection::open(&whereto)).map_err(|e| failure(&e))?;
        let (cancel, is_remote) = (connection.cancel(), connection.is_remote());
        Ok(Session { connection: Mutex::new(Some(connection)), cancel, is_remote })
    }
    /// Gives the connection up; once more does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let done = py.detach(|| {
            let connection = self.connection.lock().unwrap_or_else(|e| e.into_inner()).take();
            connection.map_or(Ok(()), Connection::close)
        });
        done.map_err(|e| failure(&e))
    }
    /// From another thread.
    fn cancel(&self) {
        self.cancel.tell()
    }
    fn is_closed(&self, py: Python<'_>) -> bool {
        self.connection.lock_py_attached(py).unwrap_or_else(|e| e.into_inner()).is_none()
    }
    fn in_transaction(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |c| Ok(c.is_in_transaction()))
    }
    /// Statements without parameters, whose rows are dropped.
    fn execute(&self, py: Python<'_>, sql: String) -> PyResult<u64> {
        self.with(py, |c| c.execute(&sql))
    }
    /// A statement's number.
    fn prepare(&self, py: Python<'_>, sql: String) -> PyResult<usize> {
        self.with(py, |c| c.prepare(&sql).map(Statement::number))
    }
    fn registered(&self, py: Python<'_>, name: String) -> PyResult<usize> {
        self.with(py, |c| c.registered(&name).map(Statement::number))
    }
    fn forget(&self, py: Python<'_>, statement: usize) -> PyResult<()> {
        self.with(py, |c| c.forget(Statement::of_number(statement)))
    }
    /// The columns of a statement's rows: name, and number of the type.
    fn columns(&self, py: Python<'_>, statement: usize) -> PyResult<Vec<(String, u32)>> {
        let found = self.with(py, |c| c.columns(Statement::of_number(statement)))?;
        Ok(found.into_iter().map(|c| (c.name, c.oid)).collect())
    }
    /// Runs calls, each a statement's number and its parameters. For each of them (rows changed or given,
    /// rows as tuples), or what Failure has.
    fn run<'py>(
        &self,
        py: Python<'py>,
        given: Vec<(usize, Bound<'py, PyAny>)>,
        together: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        let mut calls = Calls::new(if together { Commit::Together } else { Commit::Each });
        for (statement, params) in given {
            calls.begin(Statement::of_number(statement));
            for (i, param) in params.try_iter()?.enumerate() {
                calls.set(i, value_of(&param?)?)
            }
        }
        self.with(py, |c| c.run(&calls).map(|_| ()))?;
        let connection = self.connection.lock_py_attached(py).unwrap_or_else(|e| e.into_inner());
        let answers = connection.as_ref().ok_or_else(closed).and_then(Connection::answers);
        let answers = answers.map_err(|e| failure(&e))?;
        let makers = Makers::new(py)?;
        let all = PyList::empty(py);
        for call in 0..answers.len() {
            match answers.affected(call) {
                Ok(affected) => {
                    let rows = PyList::empty(py);
                    for row in 0..answers.rows(call).map_err(|e| failure(&e))? {
                        let row = answers.row(call, row).map_err(|e| failure(&e))?;
                        rows.append(makers.row(row)?)?
                    }
                    all.append((affected, rows))?
                }
                Err(e) => all.append(parts(&e))?,
            }
        }
        Ok(all)
    }
}

/// A parameter. The package has made texts of what is none of these.
fn value_of(given: &Bound<'_, PyAny>) -> PyResult<Value> {
    if given.is_none() {
        return Ok(Value::Null);
    }
    // A bool is an int in Python, so it comes first.
    if given.is_instance_of::<PyBool>() {
        return Ok(Value::Bool(given.extract()?));
    }
    if given.is_instance_of::<PyInt>() {
        return Ok(match given.extract::<i64>() {
            Ok(n) => Value::Int8(n),
            Err(_) => Value::Text(given.str()?.to_string()),
        });
    }
    if given.is_instance_of::<PyFloat>() {
        return Ok(Value::Float8(given.extract()?));
    }
    if given.is_instance_of::<PyString>() {
        return Ok(Value::Text(given.extract()?));
    }
    if let Ok(bytes) = given.cast::<PyBytes>() {
        return Ok(Value::Bytea(bytes.as_bytes().to_vec()));
    }
    if let Ok(bytes) = given.cast::<PyByteArray>() {
        return Ok(Value::Bytea(bytes.to_vec()));
    }
    let name = given.get_type().name()?;
    Err(PyTypeError::new_err(format!("a value of the type {name} cannot be a parameter")))
}

/// What makes values of types that are not built in.
struct Makers<'py> {
    py: Python<'py>,
    decimal: Bound<'py, PyAny>,
    date: Bound<'py, PyAny>,
    moment: Bound<'py, PyAny>,
    utc: Bound<'py, PyAny>,
}

/// Days from the first of January of the year 1, which is 1, to that of 2000.
const ORDINAL_OF_2000: i64 = 730_120;
/// The last day of the year 9999, which is the last that Python has.
const LAST_ORDINAL: i64 = 3_652_059;
const DAY: i64 = 86_400_000_000;

impl<'py> Makers<'py> {
    fn new(py: Python<'py>) -> PyResult<Makers<'py>> {
        let datetime = py.import("datetime")?;
        Ok(Makers {
            py,
            decimal: py.import("decimal")?.getattr("Decimal")?,
            date: datetime.getattr("date")?.getattr("fromordinal")?,
            moment: datetime.getattr("datetime")?,
            utc: datetime.getattr("timezone")?.getattr("utc")?,
        })
    }
    fn row(&self, row: GivenRow<'_>) -> PyResult<Bound<'py, PyTuple>> {
        let values: Vec<Bound<'py, PyAny>> =
            (0..row.len()).map(|i| self.value(&row, i)).collect::<PyResult<_>>()?;
        PyTuple::new(self.py, values)
    }
    fn value(&self, row: &GivenRow<'_>, i: usize) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        let value = row.get::<Value>(i).map_err(|e| failure(&e))?;
        Ok(match value {
            Value::Null => py.None().into_bound(py),
            Value::Bool(v) => PyBool::new(py, v).to_owned().into_any(),
            Value::Int2(v) => v.into_pyobject(py)?.into_any(),
            Value::Int4(v) => v.into_pyobject(py)?.into_any(),
            Value::Int8(v) => v.into_pyobject(py)?.into_any(),
            Value::Float8(v) => PyFloat::new(py, v).into_any(),
            // One of char(n) is padded in its text.
            Value::Text(_) => PyString::new(py, &text(row, i)?).into_any(),
            Value::Bytea(v) => PyBytes::new(py, &v).into_any(),
            Value::Numeric(_) => self.decimal.call1((text(row, i)?,))?,
            Value::Date(days) => match ORDINAL_OF_2000 + i64::from(days) {
                ordinal @ 1..=LAST_ORDINAL => self.date.call1((ordinal,))?,
                // Python has no such date.
                _ => PyString::new(py, &text(row, i)?).into_any(),
            },
            Value::Timestamp(micros) => self.moment_of(row, i, micros, None)?,
            Value::Timestamptz(micros) => self.moment_of(row, i, micros, Some(&self.utc))?,
            Value::Opaque(..) => PyString::new(py, &text(row, i)?).into_any(),
        })
    }
    fn moment_of(
        &self,
        row: &GivenRow<'_>,
        i: usize,
        micros: i64,
        zone: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let ordinal = ORDINAL_OF_2000 + micros.div_euclid(DAY);
        if !(1..=LAST_ORDINAL).contains(&ordinal) {
            return Ok(PyString::new(self.py, &text(row, i)?).into_any());
        }
        let date = self.date.call1((ordinal,))?;
        let part = |name| date.getattr(name)?.extract::<i32>();
        let (seconds, micros) = (micros.rem_euclid(DAY) / 1_000_000, micros.rem_euclid(1_000_000));
        let day = (part("year")?, part("month")?, part("day")?);
        self.moment.call1((
            day.0,
            day.1,
            day.2,
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60,
            micros,
            zone,
        ))
    }
}

fn text(row: &GivenRow<'_>, i: usize) -> PyResult<String> {
    let mut shown = String::new();
    row.text(i, &mut shown).map_err(|e| failure(&e))?;
    Ok(shown)
}

#[pymodule]
fn _ondol(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Session>()?;
    module.add("Failure", Failure::type_object(module.py()))?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
