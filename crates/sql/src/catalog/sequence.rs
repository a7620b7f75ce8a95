//! Sequences: pg_sequence, pg_sequences, and in pg_depend the columns that they go with.

use super::name::named;
use super::rows::{Char, Each, Name, Oid, Wanted, row};
use super::sight::{Object, Sight, oid_of, schema_oid};
use ondol_engine::Sequence;
use ondol_types::{SqlResult, TypeId};

/// The number of pg_class.
const PG_CLASS: u32 = 1259;

pub fn sequences(sight: &Sight<'_>, wanted: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    match wanted.number("seqrelid") {
        Some(oid) => match sight.relation(oid) {
            Some(Object::Sequence(s)) => sequence(&s, each),
            _ => Ok(()),
        },
        None => sight.catalog.sequences().try_for_each(|s| sequence(s, each)),
    }
}

fn sequence(s: &Sequence, each: Each<'_>) -> SqlResult<()> {
    let o = &s.def.options;
    each(&row![
        Oid(oid_of(s.def.id)),
        Oid(o.ty.oid()),
        o.start,
        o.bounds.increment,
        o.bounds.max,
        o.bounds.min,
        o.cache,
        o.bounds.cycle,
    ])
}

pub fn shown(sight: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    sight.catalog.sequences().try_for_each(|s| {
        let o = &s.def.options;
        let (last, _, is_called) = s.state();
        each(&row![
            Name(sight.schema_name(schema_oid(s.def.schema)).unwrap_or_default()),
            Name(&s.def.name),
            Name(sight.user),
            named(sight, TypeId::REGTYPE, o.ty.oid()),
            o.start,
            o.bounds.min,
            o.bounds.max,
            o.bounds.increment,
            o.bounds.cycle,
            o.cache,
            is_called.then_some(last),
        ])
    })
}

/// A sequence goes with the column that owns it (a), or whose identity it is (i).
pub fn dependencies(sight: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    for t in sight.tables() {
        for (n, c) in t.def.columns.iter().enumerate() {
            for id in c.sequences() {
                let kind = if c.identity() == Some(id) { b'i' } else { b'a' };
                each(&row![
                    Oid(PG_CLASS),
                    Oid(oid_of(id)),
                    0,
                    Oid(PG_CLASS),
                    Oid(oid_of(t.def.id)),
                    n as i32 + 1,
                    Char(kind),
                ])?;
            }
        }
    }
    Ok(())
}
