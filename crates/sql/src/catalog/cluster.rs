//! What is around the objects: schemas, the database, the role, settings.

use super::rows::{Char, Each, Name, Null, Oid, Wanted, row};
use super::sight::{DATABASE, OWNER, Sight};
use super::table::xid;
use ondol_types::{SqlResult, TypeId, Value, array};

/// Where everything is: PostgreSQL's pg_default.
const TABLESPACE: u32 = 1663;
const UTF8: i32 = 6;

/// Of a relation that has rows in PostgreSQL alone.
pub fn nothing(_: &Sight<'_>, _: &Wanted<'_>, _: Each<'_>) -> SqlResult<()> {
    Ok(())
}

pub fn namespaces(sight: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    sight.schemas().into_iter().try_for_each(|(n, name)| each(&row![Oid(n), Name(name), Oid(OWNER), Null]))
}

pub fn databases(sight: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    each(&row![
        Oid(DATABASE),
        Name(sight.database),
        Oid(OWNER),
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
        Null,
    ])
}

pub fn authid(sight: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    each(&row![Oid(OWNER), Name(sight.user), true, true, true, true, true, true, true, -1, Null, Null,])
}

pub fn roles(sight: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    each(&row![
        Name(sight.user),
        true,
        true,
        true,
        true,
        true,
        true,
        -1,
        "********",
        Null,
        true,
        Null,
        Oid(OWNER),
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
