//! What is around the objects: schemas, the database, the role, settings.

use super::rows::{Char, Each, Name, Null, Oid, Wanted, row};
use super::sight::{DATABASE, OWNER, Sight};
use super::table::xid;
use ondol_engine::name::{INFORMATION_SCHEMA, PG_CATALOG};
use ondol_engine::{rights, schema_id};
use ondol_types::catalog::registered;
use ondol_types::datetime::zone::{self, Zone};
use ondol_types::func::Context;
use ondol_types::{SqlResult, Type, TypeId, Value, array};

/// Where everything is: PostgreSQL's pg_default.
const TABLESPACE: u32 = 1663;
const UTF8: i32 = 6;

/// What clocks show, as so much time.
fn offset(east: i32) -> SqlResult<Value> {
    let text = format!("{east} seconds");
    ondol_types::text::input(&text, Type::new(TypeId::INTERVAL), &Context::EMPTY)
}

pub fn zone_names(sight: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    Zone::all().try_for_each(|zone| {
        let clock = zone.at(sight.session.now_us());
        each(&row![zone.name(), clock.abbreviation, offset(clock.east)?, clock.is_summer])
    })
}

pub fn zone_abbreviations(sight: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    let now = sight.session.now_us();
    zone::abbreviations().try_for_each(|(name, place)| {
        each(&row![name.to_uppercase(), offset(place.at(now))?, zone::is_summer(name, place, now)])
    })
}

pub fn namespaces(sight: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    sight.schemas().into_iter().try_for_each(|(n, name)| {
        let number = sight.catalog.schema(name).map_or(n, |s| s.number);
        let list = match number {
            PG_CATALOG | INFORMATION_SCHEMA => super::role::list_of_system(sight)?,
            _ => super::role::list_of(sight, schema_id(number))?,
        };
        each(&row![Oid(n), Name(name), Oid(sight.catalog.owner(schema_id(number))), list])
    })
}

pub fn databases(sight: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    each(&row![
        Oid(DATABASE),
        Name(sight.database),
        Oid(sight.catalog.owner(rights::DATABASE)),
        UTF8,
        Char(b'c'),
        false,
        true,
        -1,
        xid(0),
        xid(0),
        Oid(TABLESPACE),
        "C.UTF-8",
        "C.UTF-8",
        Null,
        Null,
        super::role::list_of(sight, rights::DATABASE)?,
    ])
}

pub fn tablespaces(_: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    for (oid, name) in [(TABLESPACE, "pg_default"), (1664, "pg_global")] {
        each(&row![Oid(oid), Name(name), Oid(OWNER), Null, Null])?;
    }
    Ok(())
}

pub fn cursors(sight: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    for c in sight.session.cursors() {
        let creation = Value::Timestamptz(c.creation_us);
        each(&row![c.name, c.statement, c.is_holdable, false, c.is_scrollable, creation])?;
    }
    Ok(())
}

pub fn prepared_statements(sight: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    for p in sight.session.prepared() {
        let types: Vec<Value> =
            p.types.iter().map(|t| registered::named(TypeId::REGTYPE, t.oid(), t.name())).collect();
        let types = array::of_values(TypeId::REGTYPE, &types)?;
        let since = Value::Timestamptz(p.prepared_us);
        each(&row![&*p.name, &*p.statement, since, types, p.from_sql, p.executed, 0i64])?;
    }
    Ok(())
}

pub fn settings(sight: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    for s in sight.session.settings() {
        let words = |all: Vec<&str>| {
            let all: Vec<Value> = all.into_iter().map(|w| Value::Text(w.to_string())).collect();
            array::of_values(TypeId::TEXT, &all)
        };
        each(&row![
            s.name,
            s.setting,
            s.unit,
            s.category,
            s.short_desc,
            s.extra_desc,
            s.context,
            s.vartype,
            s.source,
            s.min_val,
            s.max_val,
            s.enumvals.map(words).transpose()?,
            s.boot_val,
            s.reset_val,
            Null,
            Null,
            false,
        ])?;
    }
    Ok(())
}
