//! What foreign keys do to rows at the end of a statement (engine/connection/foreign), where that takes more
//! than bytes: conversions, defaults, what domains and checks ask of the new values.
use super::{Env, Frame, RowView, run_within};
use crate::code::Program;
use ondol_engine::{Connection, NewValue};
use ondol_types::cast::cast;
use ondol_types::{SqlError, SqlResult, Value, ValueRef, sqlstate};
use std::sync::Arc;

/// The one value that a program gives.
fn value(
    program: &Arc<Program>,
    connection: &mut Connection,
    params: &[ValueRef<'_>],
    env: &Env<'_>,
) -> SqlResult<Value> {
    let mut found = None;
    let mut sink = |row: &RowView<'_>| {
        found = row.values().next().map(|v| v.to_owned());
        Ok(true)
    };
    run_within(&mut Frame::default(), program, connection, params, &mut sink, env)?;
    found.ok_or_else(|| SqlError::new(sqlstate::INTERNAL_ERROR, "a program without a value"))
}

/// Does what foreign keys ask for, until nothing is left to be looked at.
pub(super) fn settle(connection: &mut Connection, env: &Env<'_>) -> SqlResult<()> {
    while let Some(mut ask) = connection.settle_keys()? {
        let catalog = connection.catalog();
        let table = ask.table.clone();
        let mut row = connection.values_before(&ask);
        let mut set = Vec::with_capacity(ask.set.len());
        for (column, new) in &ask.set {
            let def = &table.def.columns[*column];
            let mut v = match new {
                NewValue::Null => Value::Null,
                NewValue::Value(v, from) => cast(v.clone(), from.id, def.ty, false, env.context)?,
                NewValue::Default => value(&env.host.column_default(def, &catalog)?, connection, &[], env)?,
            };
            if let Some(program) = env.host.domain_value(def, &catalog)? {
                let mut scratch = Vec::new();
                let given = v.as_ref(&mut scratch);
                v = value(&program, connection, &[given], env)?
            }
            row[*column] = v.clone();
            set.push(v)
        }
        let (computed, columns) = env.host.row_values(&table, &catalog)?;
        for (column, program) in computed {
            let mut scratch: Vec<Vec<u8>> = columns.iter().map(|_| Vec::new()).collect();
            let given = columns.iter().zip(&mut scratch);
            let params: Vec<ValueRef<'_>> = given.map(|(c, s)| row[usize::from(*c)].as_ref(s)).collect();
            let v = value(&program, connection, &params, env)?;
            row[usize::from(column)] = v.clone();
            ask.set.push((usize::from(column), NewValue::Null));
            set.push(v)
        }
        if let Some((program, columns)) = env.host.row_checks(&table, &catalog)? {
            let mut scratch: Vec<Vec<u8>> = row.iter().map(|_| Vec::new()).collect();
            let all: Vec<ValueRef<'_>> = row.iter().zip(&mut scratch).map(|(v, s)| v.as_ref(s)).collect();
            let params: Vec<ValueRef<'_>> = columns.iter().map(|c| all[usize::from(*c)]).collect();
            if let Value::Int4(n) = value(&program, connection, &params, env)? {
                return Err(connection.violates(&table, n as usize, &all));
            }
        }
        connection.act(&ask, &set)?
    }
    Ok(())
}
