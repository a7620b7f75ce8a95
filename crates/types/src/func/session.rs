//! What a session knows of itself, and what fits no other family. `current_user`, `session_user` and their
//! like are keywords in the grammar; the binder calls these by their constants.

use crate::{SqlResult, Value, ValueRef};

/// How many arguments are NULL, or are not.
fn count_nulls(args: &[ValueRef<'_>], wanted: bool) -> SqlResult<Value> {
    let n = args.iter().filter(|a| a.is_null() == wanted).count();
    i32::try_from(n).map(Value::Int4).map_err(|_| super::out_of_range("integer"))
}

functions! {
    740 VERSION "version" () -> Text = |c| Ok(Value::Text(c.ctx.version.into())), stable;
    741 CURRENT_DATABASE "current_database" () -> Text = |c| Ok(Value::Text(c.ctx.database.into())), stable;
    742 CURRENT_USER "current_user" () -> Text = |c| Ok(Value::Text(c.ctx.user.into())), stable;
    743 SESSION_USER "session_user" () -> Text = |c| Ok(Value::Text(c.ctx.user.into())), stable;
    744 NUM_NULLS "num_nulls" (Any) -> Int4 = |c| count_nulls(c.args, true), variadic, lax;
    745 NUM_NONNULLS "num_nonnulls" (Any) -> Int4 = |c| count_nulls(c.args, false), variadic, lax;
}
