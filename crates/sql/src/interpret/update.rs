//! The short way of a program that sets columns of one row by its key and does nothing else: no frame is
//! touched, and the statement, its transaction and its commit are one step of the connection.
//!
//! - **P1** What is out of the ordinary is left to the long way, before anything is done: `None`. That is a
//!   parameter that is NULL in the key or of another type, an open transaction, and all that
//!   [`Connection::assign`] names.
//! - **P2** The long way is the same program in the interpreter; both do the same
//!   (`crates/ondol/tests/update.rs`).
use super::Outcome;
use super::datum::{Datum, Tag};
use super::rows::tag_of;
use crate::code::program::Tag as Command;
use crate::code::{Op, Program};
use ondol_engine::{Bits, Connection, Numbers, Patch, PointIndex, Storage, Table};
use ondol_types::{Packed, SqlResult, Value, ValueRef};
use std::sync::Arc;

/// Where a number of the key, or a value, comes from.
#[derive(Clone, Copy)]
enum Source {
    /// Parameter, and what it has to be.
    Param(usize, Tag),
    Const(Bits),
}

/// What such a program needs.
#[derive(Clone)]
pub struct PointUpdate {
    catalog_version: u64,
    table: Arc<Table>,
    index: PointIndex,
    patch: Patch,
    params: usize,
    key: Box<[Source]>,
    values: Box<[Source]>,
}

/// Columns that are set at most.
const MOST: usize = 8;

impl PointUpdate {
    /// `None` for any other program.
    pub fn of(program: &Program) -> Option<PointUpdate> {
        let [moves @ .., Op::PointUpdate { cursor, key, values, columns }, Op::Halt {}] = &program.ops[..]
        else {
            return None;
        };
        let table = program.table_of(cursor.0);
        let index = program.index_of(cursor.0)?.point.clone()?;
        let list = program.lists.get(columns.0 as usize)?;
        let patch = Patch::new(table, list)?;
        if list.len() > MOST || program.tables.len() != 1 {
            return None;
        }
        let params = program.param_registers();
        let source = |register: usize, storage: Option<Storage>| {
            let mut from = register;
            for op in moves.iter().rev() {
                match op {
                    Op::Move { dst, a } if dst.0 as usize == from => from = a.0 as usize,
                    Op::Move { .. } => {}
                    _ => return None,
                }
            }
            if from < params {
                return Some(Source::Param(from, tag_of(program.params[from])?));
            }
            let constant = program.consts.get(from - params)?;
            if let (Some(Storage::Packed { scale }), Value::Numeric(n)) = (storage, constant) {
                return Some(Source::Const(Some(Packed::of(n, scale)?.word() as u64)));
            }
            // Nothing that lies in memory of its own is set here.
            let d = Datum::of_owned(constant, &mut vec![]);
            (!d.tag().in_memory()).then_some(Source::Const(bits(d)))
        };
        let key = key.range().map(|r| source(r, None)).collect::<Option<_>>()?;
        let storage = |c: &u16| table.layout.columns.get(*c as usize).map(|c| c.storage);
        let values = values.range().zip(list.iter().map(storage)).map(|(r, s)| source(r, s));
        let values = values.collect::<Option<_>>()?;
        Some(PointUpdate {
            catalog_version: program.catalog_version,
            table: table.clone(),
            index,
            patch,
            params: program.params.len(),
            key,
            values,
        })
    }

    /// One call as a statement and transaction of its own.
    #[inline]
    pub fn call(&self, connection: &mut Connection, params: &[ValueRef<'_>]) -> Option<SqlResult<Outcome>> {
        if connection.in_transaction() || params.len() != self.params {
            return None;
        }
        let mut key: Numbers = [0; _];
        for (i, s) in self.key.iter().enumerate() {
            key[i] = value(*s, params)?? as i64
        }
        let mut values: [Bits; MOST] = [None; MOST];
        for (i, s) in self.values.iter().enumerate() {
            values[i] = value(*s, params)?
        }
        let done =
            connection.assign(self.catalog_version, &self.table, &self.index, &key, &self.patch, |i| {
                values.get(i).copied().flatten()
            })?;
        Some(done.map(|token| Outcome { rows_affected: 1, tag: Command::Update, token: Some(token) }))
    }
}

fn bits(d: Datum) -> Bits {
    (!d.is_null()).then_some(d.bits)
}

/// `None` if the parameter is of another type.
#[inline(always)]
fn value(source: Source, params: &[ValueRef<'_>]) -> Option<Bits> {
    let (n, tag) = match source {
        Source::Param(n, tag) => (n, tag),
        Source::Const(bits) => return Some(bits),
    };
    Some(Some(match (&params[n], tag) {
        (ValueRef::Int8(v), Tag::Int8)
        | (ValueRef::Timestamp(v), Tag::Timestamp)
        | (ValueRef::Timestamptz(v), Tag::Timestamptz) => *v as u64,
        (ValueRef::Int4(v), Tag::Int4) | (ValueRef::Date(v), Tag::Date) => i64::from(*v) as u64,
        (ValueRef::Int2(v), Tag::Int2) => i64::from(*v) as u64,
        (ValueRef::Float8(v), Tag::Float8) => v.to_bits(),
        (ValueRef::Bool(v), Tag::Bool) => u64::from(*v),
        (ValueRef::Null, _) => return Some(None),
        _ => return None,
    }))
}
