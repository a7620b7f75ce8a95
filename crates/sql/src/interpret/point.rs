//! The short way of a program that is one point lookup by its parameters and gives out the whole row: the row
//! is copied from its slot into the caller's buffer, and no frame is touched.
//!
//! - **P1** What is out of the ordinary (a parameter that is NULL or of another type, a dictionary that
//!   changes, a buffer of rows of another shape) is left to the long way, before anything is done: `None`.
use super::datum::Tag;
use super::rows::{RowBuffer, has_strings, stand, tag_of};
use crate::code::{Op, Program};
use ondol_engine::{Aim, Connection, Guard, Oid, PointIndex, Table};
use ondol_types::ValueRef;
use std::sync::Arc;

/// What such a program needs.
#[derive(Clone)]
pub struct PointRead {
    catalog_version: u64,
    table: Arc<Table>,
    index: PointIndex,
    /// The first parameter's type, and those of the others.
    first: Tag,
    more: Box<[Tag]>,
    has_strings: bool,
}

/// A parameter as a number; of what is none, 0.
#[inline]
pub(super) fn number(v: &ValueRef<'_>) -> i64 {
    match v {
        ValueRef::Int8(v) | ValueRef::Timestamp(v) | ValueRef::Timestamptz(v) => *v,
        ValueRef::Int4(v) | ValueRef::Date(v) => (*v).into(),
        ValueRef::Int2(v) => (*v).into(),
        _ => 0,
    }
}

/// The same; `None` if it is not of the type.
#[inline(always)]
fn number_of(v: &ValueRef<'_>, tag: Tag) -> Option<i64> {
    match (v, tag) {
        (ValueRef::Int8(v), Tag::Int8)
        | (ValueRef::Timestamp(v), Tag::Timestamp)
        | (ValueRef::Timestamptz(v), Tag::Timestamptz) => Some(*v),
        (ValueRef::Int4(v), Tag::Int4) | (ValueRef::Date(v), Tag::Date) => Some((*v).into()),
        (ValueRef::Int2(v), Tag::Int2) => Some((*v).into()),
        _ => None,
    }
}

impl PointRead {
    /// `None` for any other program.
    pub fn of(program: &Program) -> Option<PointRead> {
        let Some(Op::PointRow { cursor, values }) = program.ops.first() else { return None };
        let table = program.table_of(cursor.0);
        let index = program.index_of(cursor.0)?.point.clone()?;
        let (first, more) = program.params.split_first()?;
        let more = more.iter().map(|t| tag_of(*t)).collect::<Option<Box<[Tag]>>>()?;
        let params = program.params.len();
        let whole = values.range() == (0..params) && index.columns() == params && program.tables.len() == 1;
        Some(PointRead {
            catalog_version: program.catalog_version,
            table: table.clone(),
            index,
            first: tag_of(*first).filter(|_| whole)?,
            more,
            has_strings: has_strings(&table.layout),
        })
    }

    /// The key that the parameters make.
    #[inline(always)]
    pub(super) fn key<'a>(
        &self,
        params: &'a [ValueRef<'a>],
    ) -> Option<impl Fn(usize) -> i64 + Copy + use<'a>> {
        let (first, more) = params.split_first()?;
        let first = number_of(first, self.first)?;
        let are_of = || more.iter().zip(&self.more).all(|(v, tag)| number_of(v, *tag).is_some());
        if more.len() != self.more.len() || !more.is_empty() && !are_of() {
            return None;
        }
        Some(move |i: usize| if i == 0 { first } else { more.get(i - 1).map_or(0, number) })
    }

    /// One call as a statement of its own, outside a transaction, its row in place of all those in `rows`:
    /// whether there is one.
    #[inline(never)]
    pub fn call(
        &self,
        connection: &mut Connection,
        params: &[ValueRef<'_>],
        rows: &mut RowBuffer,
    ) -> Option<bool> {
        let key = self.key(params)?;
        // On its way while the statement begins.
        let target = self.index.target(key);
        let size = self.index.row_size();
        let raw = rows.fresh(&self.table, size);
        let end = connection.glance(self.catalog_version, &self.table, |connection, pin| {
            let row = &mut raw[..size];
            let found = connection.find_at(pin, &self.index, target, key, row);
            if found.unwrap_or_else(|| self.read_among(connection, pin, params, row)) {
                stand(connection, &self.table, raw, 0..size, self.has_strings)
            } else {
                0
            }
        })?;
        if end == 0 {
            return Some(false);
        }
        rows.keep(end);
        Some(true)
    }

    /// The rest of a call whose first look did not tell.
    #[cold]
    #[inline(never)]
    fn read_among(
        &self,
        connection: &Connection,
        pin: &Guard<'_>,
        params: &[ValueRef<'_>],
        row: &mut [u8],
    ) -> bool {
        let Some(key) = self.key(params) else { return false };
        connection.find(pin, &self.index, self.index.aim(key), Oid::NONE, key, row).is_some()
    }

    /// The same within a statement that is no serializable transaction's, appending. `aim` and `ahead` as for
    /// [`Connection::find`].
    #[inline]
    pub(super) fn read(
        &self,
        connection: &Connection,
        pin: &Guard<'_>,
        aim: Aim,
        ahead: Oid,
        key: impl Fn(usize) -> i64 + Copy,
        rows: &mut RowBuffer,
    ) -> Option<bool> {
        let size = self.index.row_size();
        let (raw, from) = rows.room(&self.table, size)?;
        let found = connection.find(pin, &self.index, aim, ahead, key, &mut raw[from..from + size]).is_some();
        if found {
            let end = stand(connection, &self.table, raw, from..from + size, self.has_strings);
            rows.keep(end)
        }
        Some(found)
    }
}
