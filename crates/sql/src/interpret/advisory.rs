//! The functions of advisory locks, and those that sleep, which take the connection to run.
use ondol_engine::Connection;
use ondol_engine::advisory::{Advice, Number};
use ondol_types::func::{Context, FuncId, id};
use ondol_types::{SqlError, SqlResult, Value, ValueRef, sqlstate};
use std::time::Duration;

/// Whether it is one of them, whose numbers follow each other, or waits as they do.
#[inline]
pub fn is_advisory(func: FuncId) -> bool {
    (id::PG_ADVISORY_LOCK..=id::PG_SLEEP).contains(&func)
}

/// Keeps neither a thread nor a guard meanwhile; whoever cancels it is heard at once.
fn sleep(connection: &Connection, seconds: f64, context: &Context<'_>) -> SqlResult<()> {
    // Longer than anyone waits.
    const MOST: f64 = 366.0 * 86400.0;
    if seconds > 0.0 {
        connection.sleep(Duration::from_secs_f64(seconds.min(MOST)))?
    }
    context.limits.go_on()
}

/// Of each two numbers the first takes one number, the second two.
const FORMS: u16 = 2;

/// Calls one of them.
pub fn call(
    connection: &mut Connection,
    func: FuncId,
    args: &[ValueRef<'_>],
    context: &Context<'_>,
) -> SqlResult<Value> {
    let void = || Ok(Value::Text(String::new()));
    if func == id::PG_ADVISORY_UNLOCK_ALL {
        connection.let_go_of_all_advisory();
        return void();
    }
    if func == id::PG_SLEEP {
        return match *args {
            [ValueRef::Float8(seconds)] => sleep(connection, seconds, context).and_then(|()| void()),
            _ => Ok(Value::Null),
        };
    }
    let number = match *args {
        [ValueRef::Int8(n)] => Number::One(n),
        [ValueRef::Int4(a), ValueRef::Int4(b)] => Number::Two(a, b),
        [.., ValueRef::Null] | [ValueRef::Null, ..] => return Ok(Value::Null),
        _ => {
            let message = format!("advisory lock of {args:?}");
            return Err(SqlError::new(sqlstate::INTERNAL_ERROR, message));
        }
    };
    let from = |first: FuncId| func.0.checked_sub(first.0).map(|n| n / FORMS);
    if let Some(n) = from(id::PG_ADVISORY_UNLOCK) {
        let alone = n == 0;
        let had = connection.let_go_of_advisory(Advice { number, alone });
        if !had {
            let mode = if alone { "ExclusiveLock" } else { "ShareLock" };
            context.caller.warn("01000", format!("you don't own a lock of type {mode}"))
        }
        return Ok(Value::Bool(had));
    }
    // Shared or not, then of the transaction or not, then whether it only tries.
    let n = from(id::PG_ADVISORY_LOCK).unwrap_or(0);
    let (alone, of_transaction, tries) = (n & 1 == 0, n & 2 != 0, n & 4 != 0);
    let done = connection.take_advisory(Advice { number, alone }, of_transaction, !tries)?;
    if tries { Ok(Value::Bool(done)) } else { void() }
}
