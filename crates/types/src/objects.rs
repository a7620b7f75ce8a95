//! What a database tells of its objects: for types whose values name some, and for functions that describe
//! them. Which objects there are is not known here.
//!
//! - **J1** Whoever computes with constants ahead knows of no object ([`Unknown`] refuses to answer): what a
//!   name or number stands for is asked when the statement runs, so that no plan keeps an answer.

use crate::func::FuncId;
use crate::{SqlError, SqlResult, Value, ValueRef, sqlstate};

/// Kinds of objects that a type of PostgreSQL's names: `regclass` and its like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectKind {
    Relation,
    Type,
    /// By its name alone.
    Function,
    /// By its name and the types of its arguments.
    Procedure,
    /// By its name alone.
    Operator,
    /// By its name and the types of its operands.
    TypedOperator,
    Schema,
    Role,
    Collation,
    TextSearchConfiguration,
    TextSearchDictionary,
}

/// The objects of a database, as the statement at hand sees them.
pub trait Objects {
    /// The number of the object that a text names, by the rules for names of its kind; `None` if there is
    /// none.
    fn find(&self, kind: ObjectKind, text: &str) -> SqlResult<Option<u32>>;
    /// How an object is shown: its name, in quotes and with its schema where that is needed. `None` for a
    /// number that is none's.
    fn name(&self, kind: ObjectKind, number: u32) -> SqlResult<Option<String>>;
    /// What a function of [`crate::func::system`] gives.
    fn call(&self, function: FuncId, args: &[ValueRef<'_>]) -> SqlResult<Value>;
}

/// A database without objects.
pub struct Nothing;

impl Objects for Nothing {
    fn find(&self, _: ObjectKind, _: &str) -> SqlResult<Option<u32>> {
        Ok(None)
    }
    fn name(&self, _: ObjectKind, _: u32) -> SqlResult<Option<String>> {
        Ok(None)
    }
    fn call(&self, function: FuncId, _: &[ValueRef<'_>]) -> SqlResult<Value> {
        let message = format!("function number {} was called without a database", function.0);
        Err(SqlError::new(sqlstate::INTERNAL_ERROR, message))
    }
}

/// Objects that are not known yet (J1).
pub struct Unknown;

fn later<T>() -> SqlResult<T> {
    Err(SqlError::new(sqlstate::INTERNAL_ERROR, "the database's objects are not known ahead"))
}

impl Objects for Unknown {
    fn find(&self, _: ObjectKind, _: &str) -> SqlResult<Option<u32>> {
        later()
    }
    fn name(&self, _: ObjectKind, _: u32) -> SqlResult<Option<String>> {
        later()
    }
    fn call(&self, _: FuncId, _: &[ValueRef<'_>]) -> SqlResult<Value> {
        later()
    }
}
