//! Foreign tables: pg_foreign_data_wrapper, pg_foreign_server, pg_foreign_table. Their servers are built in,
//! each with a wrapper of its name.

use super::rows::{Each, Name, Null, Oid, Wanted, row};
use super::sight::{OWNER, Sight, oid_of};
use crate::foreign::SERVERS;
use ondol_types::array;
use ondol_types::{SqlResult, TypeId, Value, ValueRef};

/// The number of the first wrapper, and of the first server; PostgreSQL has none with these.
const WRAPPERS: u32 = 15_000;
const SERVER_NUMBERS: u32 = 15_100;

pub fn wrappers(_: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    (WRAPPERS..).zip(SERVERS).try_for_each(|(oid, (name, _))| {
        each(&row![Oid(oid), Name(name), Oid(OWNER), Oid(0), Oid(0), Null, Null])
    })
}

pub fn servers(_: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    (0..).zip(SERVERS).try_for_each(|(n, (name, _))| {
        let (oid, of) = (Oid(SERVER_NUMBERS + n), Oid(WRAPPERS + n));
        each(&row![oid, Name(name), Oid(OWNER), of, Null, Null, Null, Null])
    })
}

pub fn tables(sight: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    for t in sight.tables() {
        let Some(source) = &t.def.nature.source else { continue };
        let server =
            SERVERS.iter().position(|s| s.0 == source.server).map_or(0, |n| SERVER_NUMBERS + n as u32);
        let options = source.options.iter().map(|(name, value)| Value::Text(format!("{name}={value}")));
        let options = array::of_values(TypeId::TEXT, &options.collect::<Vec<_>>())?;
        each(&row![Oid(oid_of(t.def.id)), Oid(server), options])?
    }
    Ok(())
}

/// What `pg_options_to_table` gives of options (`name=value`), a column of it: the names or the values.
pub fn options(args: &[ValueRef<'_>], are_names: bool) -> SqlResult<Value> {
    let Some(ValueRef::Opaque(ty, bytes)) = args.first() else { return Ok(Value::Null) };
    let mut items = Vec::new();
    for v in array::Array::of_type(*ty, bytes).items() {
        let ValueRef::Text(option) = v else { continue };
        let (name, value) = option.split_once('=').map_or((option, None), |(n, v)| (n, Some(v)));
        items.push(match are_names {
            true => Value::Text(name.into()),
            false => value.map_or(Value::Null, |v| Value::Text(v.into())),
        })
    }
    array::of_values(TypeId::TEXT, &items)
}
