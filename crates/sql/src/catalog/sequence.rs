//! Sequences: pg_sequence, pg_sequences.

use super::name::named;
use super::rows::{Each, Name, Oid, Wanted, row};
use super::sight::{Object, Sight, oid_of, schema_oid};
use ondol_engine::Sequence;
use ondol_types::{SqlResult, TypeId};

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
