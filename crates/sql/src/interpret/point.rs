//! The short way of a program that is one point lookup by its parameters and gives out the whole row: the row is copied from
//! its slot into the caller's buffer, and no frame is touched.
//!
//! - **P1** What is out of the ordinary (a parameter that is NULL or of another type, a dictionary that changes, a buffer of
//!   rows of another shape) is left to the long way, before anything is done: `None`.
use super::datum::Tag;
use super::rows::{Rows, has_strings, tag_of};
use crate::code::{Op, Program};
use ondol_engine::{Aim, Connection, Guard, Numbers, Oid, PointIndex, Table};
use ondol_types::ValueRef;
use std::sync::Arc;

/// What such a program needs.
pub struct PointRead {
    catalog_version: u64,
    table: Arc<Table>,
    index: PointIndex,
    params: Box<[Tag]>,
    has_strings: bool,
}

impl PointRead {
    /// `None` for any other program.
    pub fn of(program: &Program) -> Option<PointRead> {
        let Some(Op::PointRow { cursor, values }) = program.ops.first() else { return None };
        let table = program.table_of(cursor.0);
        let index = program.index_of(cursor.0)?.point.clone()?;
        let params = program.params.iter().map(|t| tag_of(*t)).collect::<Option<Box<[Tag]>>>()?;
        let whole = values.range() == (0..params.len()) && index.columns() == params.len();
        (whole && program.tables.len() == 1).then(|| PointRead {
            catalog_version: program.catalog_version,
            table: table.clone(),
            index,
            params,
            has_strings: has_strings(&table.layout),
        })
    }

    /// The key that the parameters make.
    #[inline]
    pub(super) fn key(&self, params: &[ValueRef<'_>]) -> Option<Numbers> {
        if params.len() != self.params.len() {
            return None;
        }
        let mut key: Numbers = [0; _];
        for (i, tag) in self.params.iter().enumerate() {
            key[i] = match (&params[i], tag) {
                (ValueRef::Int8(v), Tag::Int8)
                | (ValueRef::Timestamp(v), Tag::Timestamp)
                | (ValueRef::Timestamptz(v), Tag::Timestamptz) => *v,
                (ValueRef::Int4(v), Tag::Int4) | (ValueRef::Date(v), Tag::Date) => (*v).into(),
                (ValueRef::Int2(v), Tag::Int2) => (*v).into(),
                _ => return None,
            }
        }
        Some(key)
    }

    /// One call as a statement of its own, outside a transaction: whether a row was appended to `rows`.
    #[inline]
    pub fn call(
        &self,
        connection: &mut Connection,
        params: &[ValueRef<'_>],
        rows: &mut Rows,
    ) -> Option<bool> {
        let key = self.key(params)?;
        // On its way while the statement begins.
        let aim = self.index.aim(|i| key[i]);
        connection
            .glance(self.catalog_version, &self.table, |connection, pin| {
                self.read(connection, pin, aim, Oid::NONE, &key, rows)
            })
            .flatten()
    }

    /// The same within a statement that is no serializable transaction's. `aim` and `ahead` as for [`Connection::find`].
    #[inline]
    pub(super) fn read(
        &self,
        connection: &Connection,
        pin: &Guard<'_>,
        aim: Aim,
        ahead: Oid,
        key: &Numbers,
        rows: &mut Rows,
    ) -> Option<bool> {
        let row = rows.room(&self.table)?;
        let found = connection.find(pin, &self.index, aim, ahead, |i| key[i], row).is_some();
        if found {
            rows.keep(connection, self.has_strings);
        }
        Some(found)
    }
}
