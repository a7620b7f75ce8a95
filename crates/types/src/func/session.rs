//! What a session knows of itself, and what fits no other family. `current_user`, `session_user` and their
//! like are keywords in the grammar; the binder calls these by their constants.

use super::Call;
use crate::{SqlError, SqlResult, TypeId, Value, ValueRef, sqlstate};

/// How many arguments are NULL, or are not.
pub(super) fn count_nulls(args: &[ValueRef<'_>], wanted: bool) -> SqlResult<Value> {
    let n = args.iter().filter(|a| a.is_null() == wanted).count();
    i32::try_from(n).map(Value::Int4).map_err(|_| super::out_of_range("integer"))
}

/// `current_setting`; a setting that is not there is NULL where that is asked for.
fn current_setting(c: &Call<'_>, missing_ok: bool) -> SqlResult<Value> {
    let name = c.text(0)?;
    match c.ctx.caller.setting(name)? {
        Some(value) => Ok(Value::Text(value)),
        None if missing_ok => Ok(Value::Null),
        None => Err(SqlError::new(
            sqlstate::UNDEFINED_OBJECT,
            format!("unrecognized configuration parameter \"{name}\""),
        )),
    }
}

/// A value that is NULL resets the setting.
fn set_config(c: &Call<'_>) -> SqlResult<Value> {
    if c.is_null(0) {
        return Err(SqlError::new("22004", "SET requires parameter name"));
    }
    let value = if c.is_null(1) { None } else { Some(c.text(1)?) };
    let local = !c.is_null(2) && c.bool(2)?;
    c.ctx.caller.set(c.text(0)?, value, local).map(Value::Text)
}

/// No channel is as an empty one, which there is not.
fn notify(c: &Call<'_>) -> SqlResult<Value> {
    let text = |n| if c.is_null(n) { Ok("") } else { c.text(n) };
    c.ctx.caller.notify(text(0)?, text(1)?)?;
    Ok(Value::Text(String::new()))
}

fn listens(c: &Call<'_>) -> SqlResult<Value> {
    let all = c.ctx.caller.listens().into_iter().map(Value::Text);
    crate::array::of_values(TypeId::TEXT, &all.collect::<Vec<_>>())
}

/// A size is told in bytes below this.
const FEW_BYTES: i128 = 10 * 1024;

/// A size in the unit in which it is a number below 10,240, rounded.
fn size_pretty(bytes: i128) -> String {
    if bytes.abs() < FEW_BYTES {
        return format!("{bytes} bytes");
    }
    // Twice the size in the unit, for the rounding.
    let mut twice = bytes / 512;
    let mut units = ["kB", "MB", "GB", "TB", "PB"].iter().peekable();
    while let Some(unit) = units.next() {
        if twice.abs() < 20 * 1024 - 1 || units.peek().is_none() {
            return format!("{} {unit}", (twice + twice.signum()) / 2);
        }
        twice /= 1024;
    }
    String::new()
}

/// The functions of advisory locks, and those that sleep, are run by whoever has the connection that waits.
fn elsewhere() -> SqlResult<Value> {
    Err(super::internal("a function that waits was called where there is no connection"))
}

functions! {
    740 VERSION "version" () -> Text = |c| Ok(Value::Text(c.ctx.version.into())), stable;
    741 CURRENT_DATABASE "current_database" () -> Text = |c| Ok(Value::Text(c.ctx.database.into())), stable;
    742 CURRENT_USER "current_user" () -> Text = |c| Ok(Value::Text(c.ctx.user.into())), stable;
    743 SESSION_USER "session_user" () -> Text = |c| Ok(Value::Text(c.ctx.session_user.into())), stable;
    744 NUM_NULLS "num_nulls" (Any) -> Int4 = |c| count_nulls(c.args, true), variadic, lax;
    1266 PG_SIZE_PRETTY "pg_size_pretty" (Int8) -> Text =
        |c| Ok(Value::Text(size_pretty(c.int8(0)?.into())));
    1267 PG_SIZE_PRETTY_NUMERIC "pg_size_pretty" (Numeric) -> Text = |c| {
        let n = c.numeric(0)?;
        let written = n.to_string();
        let whole = written.split('.').next().and_then(|w| w.parse::<i128>().ok());
        Ok(Value::Text(match whole {
            Some(n) if n.unsigned_abs() >= FEW_BYTES.unsigned_abs() => size_pretty(n),
            _ => format!("{written} bytes"),
        }))
    };
    745 NUM_NONNULLS "num_nonnulls" (Any) -> Int4 = |c| count_nulls(c.args, false), variadic, lax;
    1300 CURRENT_SETTING "current_setting" (Text) -> Text = |c| current_setting(c, false), stable, asks;
    1301 CURRENT_SETTING_OR_NULL "current_setting" (Text, Bool) -> Text
        = |c| current_setting(c, c.bool(1)?), stable, asks;
    1302 SET_CONFIG "set_config" (Text, Text, Bool) -> Text = |c| set_config(c), volatile, lax, asks;
    1310 PG_ADVISORY_LOCK "pg_advisory_lock" (Int8) -> Any = |_| elsewhere(), volatile, asks;
    1311 PG_ADVISORY_LOCK_OF_TWO "pg_advisory_lock" (Int4, Int4) -> Any = |_| elsewhere(), volatile, asks;
    1312 PG_ADVISORY_LOCK_SHARED "pg_advisory_lock_shared" (Int8) -> Any = |_| elsewhere(), volatile, asks;
    1313 PG_ADVISORY_LOCK_SHARED_OF_TWO "pg_advisory_lock_shared" (Int4, Int4) -> Any = |_| elsewhere(), volatile, asks;
    1314 PG_ADVISORY_XACT_LOCK "pg_advisory_xact_lock" (Int8) -> Any = |_| elsewhere(), volatile, asks;
    1315 PG_ADVISORY_XACT_LOCK_OF_TWO "pg_advisory_xact_lock" (Int4, Int4) -> Any = |_| elsewhere(), volatile, asks;
    1316 PG_ADVISORY_XACT_LOCK_SHARED "pg_advisory_xact_lock_shared" (Int8) -> Any = |_| elsewhere(), volatile, asks;
    1317 PG_ADVISORY_XACT_LOCK_SHARED_OF_TWO "pg_advisory_xact_lock_shared" (Int4, Int4) -> Any = |_| elsewhere(), volatile, asks;
    1318 PG_TRY_ADVISORY_LOCK "pg_try_advisory_lock" (Int8) -> Bool = |_| elsewhere(), volatile, asks;
    1319 PG_TRY_ADVISORY_LOCK_OF_TWO "pg_try_advisory_lock" (Int4, Int4) -> Bool = |_| elsewhere(), volatile, asks;
    1320 PG_TRY_ADVISORY_LOCK_SHARED "pg_try_advisory_lock_shared" (Int8) -> Bool = |_| elsewhere(), volatile, asks;
    1321 PG_TRY_ADVISORY_LOCK_SHARED_OF_TWO "pg_try_advisory_lock_shared" (Int4, Int4) -> Bool = |_| elsewhere(), volatile, asks;
    1322 PG_TRY_ADVISORY_XACT_LOCK "pg_try_advisory_xact_lock" (Int8) -> Bool = |_| elsewhere(), volatile, asks;
    1323 PG_TRY_ADVISORY_XACT_LOCK_OF_TWO "pg_try_advisory_xact_lock" (Int4, Int4) -> Bool = |_| elsewhere(), volatile, asks;
    1324 PG_TRY_ADVISORY_XACT_LOCK_SHARED "pg_try_advisory_xact_lock_shared" (Int8) -> Bool = |_| elsewhere(), volatile, asks;
    1325 PG_TRY_ADVISORY_XACT_LOCK_SHARED_OF_TWO "pg_try_advisory_xact_lock_shared" (Int4, Int4) -> Bool = |_| elsewhere(), volatile, asks;
    1326 PG_ADVISORY_UNLOCK "pg_advisory_unlock" (Int8) -> Bool = |_| elsewhere(), volatile, asks;
    1327 PG_ADVISORY_UNLOCK_OF_TWO "pg_advisory_unlock" (Int4, Int4) -> Bool = |_| elsewhere(), volatile, asks;
    1328 PG_ADVISORY_UNLOCK_SHARED "pg_advisory_unlock_shared" (Int8) -> Bool = |_| elsewhere(), volatile, asks;
    1329 PG_ADVISORY_UNLOCK_SHARED_OF_TWO "pg_advisory_unlock_shared" (Int4, Int4) -> Bool = |_| elsewhere(), volatile, asks;
    1330 PG_ADVISORY_UNLOCK_ALL "pg_advisory_unlock_all" () -> Any = |_| elsewhere(), volatile, asks;
    1331 PG_SLEEP "pg_sleep" (Float8) -> Any = |_| elsewhere(), volatile, asks;
    1850 PG_NOTIFY "pg_notify" (Text, Text) -> Any = |c| notify(c), volatile, lax, asks;
    1851 PG_LISTENING "$pg_listening_channels" () -> TextArray = |c| listens(c), volatile, asks;
    1852 PG_NOTIFICATION_QUEUE_USAGE "pg_notification_queue_usage" () -> Float8
        = |c| Ok(Value::Float8(c.ctx.caller.queue_usage())), volatile, asks;
}
