//! Rows that do not come from tables: system views, and registered queries called inside a statement.
//!
//! A registered query runs in a frame of its own, within the statement that calls it: it sees what the
//! statement sees, and its tables were announced with the statement's.
use super::datum::{Allowance, Datum, with_values};
use super::exec::{World, nested};
use super::frame::Frame;
use super::rows::{RowView, Sink};
use super::store::List;
use crate::code::Program;
use crate::code::operand::{Fun, Mat, Span};
use crate::code::program::SEQUENCE_VIEW;
use ondol_engine::sequence::Which;
use ondol_engine::{Connection, Returns};
use ondol_types::func::{FuncId, Volatility, id};
use ondol_types::{SqlError, SqlResult, Value, ValueRef, sqlstate};

/// How deep registered queries may call each other.
const MAX_DEPTH: u32 = 64;

/// What a function gives that the connection computes. All are strict.
pub(super) fn of_connection(
    func: FuncId,
    args: &[ValueRef<'_>],
    connection: &mut Connection,
) -> SqlResult<Value> {
    if args.iter().any(|a| a.is_null()) {
        return Ok(Value::Null);
    }
    let which = match args.first() {
        Some(ValueRef::Text(name)) => Which::Named(name),
        Some(ValueRef::Int4(number)) => Which::Number(*number as u32),
        // regclass
        Some(ValueRef::Opaque(_, bytes)) => {
            let oid = bytes.first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
            Which::Asked(oid.wrapping_sub(crate::catalog::FIRST_OID))
        }
        _ => Which::Number(0),
    };
    // By whatever way the sequence is meant.
    let func = ondol_types::func::sequence::by_number(func).unwrap_or(func);
    match (func, args) {
        (id::NEXTVAL_OF, [_]) => connection.next_value(which).map(Value::Int8),
        (id::CURRVAL_OF, [_]) => connection.current_value(which).map(Value::Int8),
        (id::PG_SEQUENCE_LAST_VALUE, [_]) => {
            Ok(connection.last_value_of(which)?.map_or(Value::Null, Value::Int8))
        }
        (id::LASTVAL, []) => connection.last_value().map(Value::Int8),
        (id::SETVAL_OF, [_, ValueRef::Int8(value)]) => {
            connection.set_value(which, *value, true).map(Value::Int8)
        }
        (id::SETVAL_CALLED_OF, [_, ValueRef::Int8(value), ValueRef::Bool(is_given)]) => {
            connection.set_value(which, *value, *is_given).map(Value::Int8)
        }
        (id::PG_GET_SERIAL_SEQUENCE, [ValueRef::Text(table), ValueRef::Text(column)]) => {
            let found = connection.serial_sequence(table, column)?;
            Ok(found.map_or(Value::Null, Value::Text))
        }
        _ => Err(SqlError::new(sqlstate::INTERNAL_ERROR, "a function of sequences without its arguments")),
    }
}

fn put(list: &mut List, values: &[ValueRef<'_>], allow: &mut Allowance) -> SqlResult<()> {
    if values.len() != list.store.width {
        return Err(SqlError::new(
            sqlstate::INTERNAL_ERROR,
            format!("a row of {} values came where {} were expected", values.len(), list.store.width),
        ));
    }
    let mut memory = Vec::new();
    let row: Vec<Datum> = values.iter().map(|v| Datum::of(*v, &mut memory)).collect();
    list.store.push(&row, &memory, allow).map(|_| ())
}

pub(super) fn system_rows(
    list: &mut List,
    view: &str,
    key: Option<(usize, ValueRef<'_>)>,
    connection: &mut Connection,
    world: &World<'_>,
    allow: &mut Allowance,
) -> SqlResult<()> {
    list.clear();
    if let Some(id) = view.strip_prefix(SEQUENCE_VIEW).and_then(|id| id.parse().ok()) {
        let (value, ahead, is_given) = connection.show_sequence(id)?;
        return put(list, &[ValueRef::Int8(value), ValueRef::Int8(ahead), ValueRef::Bool(is_given)], allow);
    }
    world.env.host.system_rows(view, key, connection, &mut |values| put(list, values, allow))
}

/// Gathers a function's rows; of one that gives a single row, the first.
struct Gather<'a> {
    list: &'a mut List,
    allow: &'a mut Allowance,
    one: bool,
}

impl Sink for Gather<'_> {
    fn row(&mut self, row: &RowView<'_>) -> SqlResult<bool> {
        let values: Vec<ValueRef<'_>> = row.values().collect();
        put(self.list, &values, self.allow)?;
        Ok(!self.one)
    }
}

pub(super) fn function_rows(
    f: &mut Frame,
    program: &Program,
    mat: Mat,
    function: Fun,
    args: Span,
    connection: &mut Connection,
    world: &World<'_>,
) -> SqlResult<()> {
    if world.depth >= MAX_DEPTH {
        return Err(SqlError::new("54001", "stack depth limit exceeded")
            .detail(format!("Registered queries call each other more than {MAX_DEPTH} deep.")));
    }
    let def = &program.functions[function.0 as usize];
    let callee = world.env.host.function(def)?;
    if callee.writes && def.volatility != Volatility::Volatile {
        // It would change what the statement that calls it has read, as a part of that.
        let message = format!("{} is not allowed in a non-volatile function", callee.tag.of_writing());
        return Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message));
    }
    let one = match &def.returns {
        Returns::Void => true,
        Returns::Scalar { set, .. } | Returns::Rows { set, .. } => !set,
    };
    let mut child = f.children.pop().unwrap_or_default();
    let limit = f.allow.limit.saturating_sub(f.allow.used);
    let started =
        with_values(&f.regs[args.range()], &f.memory, |v| child.start(&callee, v, limit, connection));
    let (list, allow) = (&mut f.mats[mat.0 as usize], &mut f.allow);
    list.clear();
    let world = World { depth: world.depth + 1, ..*world };
    let mut run = |connection: &mut Connection| {
        if matches!(def.returns, Returns::Void) {
            nested(&mut child, &callee, connection, &mut super::rows::Nowhere, &world)
        } else {
            nested(&mut child, &callee, connection, &mut Gather { list, allow, one }, &world)
        }
    };
    // A volatile function sees what the statement that calls it has changed so far; another sees what that
    // statement sees.
    let outcome = started.and_then(|()| match def.volatility {
        Volatility::Volatile => connection.nested_command(run),
        Volatility::Stable | Volatility::Immutable => run(connection),
    });
    child.finish();
    f.children.push(child);
    outcome?;
    let list = &mut f.mats[mat.0 as usize];
    if one && list.store.rows == 0 {
        let nulls = vec![ValueRef::Null; list.store.width];
        put(list, &nulls, &mut f.allow)?;
    }
    Ok(())
}
