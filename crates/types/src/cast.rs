//! Casts: which exist, where they are applied, and what they do.
//!
//! Invariants:
//! 1. The table is PostgreSQL's `pg_cast` for the supported types, with its rule for the casts that go
//!    through text: to a string type on assignment, from one only when asked for.
//! 2. [`cast`] knows every cast that [`cast_context`] allows, and a value that does not have its type is an
//!    internal error, not a panic.
//! 3. An explicit cast cuts a string to the length of its type; an assignment cuts nothing but spaces.
//! 4. A value of char(n) is held without its trailing blanks, which its length tells. One of bpchar without
//!    a length is held with those it has. Who compares either leaves trailing blanks out, and so does a cast
//!    to another string type. Where the length gets lost, the binder has the blanks put in before.
//!
//! Sources: PostgreSQL 15's catalogue, its documentation (CREATE CAST; 8.1 to 8.5) and its answers.

use crate::catalog::{record, registered};
use crate::func::Context;
use crate::ty::Category;
use crate::{
    Numeric, Packed, SqlError, SqlResult, Type, TypeId, Value, ValueRef, array, catalog, datetime, sqlstate,
    text,
};

/// Ordered: what is allowed in one context is allowed in the later ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CastContext {
    Implicit,
    Assignment,
    Explicit,
}

/// The first context in which the cast is allowed; `None` if there is no such cast. A type casts to itself.
pub fn cast_context(from: TypeId, to: TypeId) -> Option<CastContext> {
    use CastContext::{Assignment, Explicit, Implicit};
    Some(match (from, to) {
        (TypeId::VOID, TypeId::VOID) => Implicit,
        (TypeId::VOID, _) | (_, TypeId::VOID) => return None,
        (a, b) if a == b => Implicit,
        (TypeId::UNKNOWN, _) => Implicit,
        (_, TypeId::UNKNOWN) => return None,
        (TypeId::BOOL, TypeId::INT4) | (TypeId::INT4, TypeId::BOOL) => Explicit,
        (TypeId::INT2, TypeId::INT4 | TypeId::INT8 | TypeId::FLOAT8 | TypeId::NUMERIC) => Implicit,
        (TypeId::INT4, TypeId::INT8 | TypeId::FLOAT8 | TypeId::NUMERIC) => Implicit,
        (TypeId::INT8, TypeId::FLOAT8 | TypeId::NUMERIC) => Implicit,
        (TypeId::NUMERIC, TypeId::FLOAT8) => Implicit,
        (TypeId::INT4, TypeId::INT2) | (TypeId::INT8, TypeId::INT2 | TypeId::INT4) => Assignment,
        (TypeId::FLOAT8, TypeId::INT2 | TypeId::INT4 | TypeId::INT8 | TypeId::NUMERIC)
        | (TypeId::NUMERIC, TypeId::INT2 | TypeId::INT4 | TypeId::INT8) => Assignment,
        (TypeId::DATE, TypeId::TIMESTAMP | TypeId::TIMESTAMPTZ)
        | (TypeId::TIMESTAMP, TypeId::TIMESTAMPTZ) => Implicit,
        (TypeId::TIMESTAMP | TypeId::TIMESTAMPTZ, TypeId::DATE)
        | (TypeId::TIMESTAMPTZ, TypeId::TIMESTAMP) => Assignment,
        (a, b) if let Some(own) = catalog::cast(a, b) => own.context,
        (a, b) if let Some(context) = record::cast_context(a, b) => context,
        (a, b) if a.is_string() && b.is_string() => Implicit,
        (_, b) if b.category() == Category::String => Assignment,
        (a, _) if a.category() == Category::String => Explicit,
        (a, b) if let (Some(a), Some(b)) = (a.element(), b.element()) => return cast_context(a, b),
        _ => return None,
    })
}

fn out_of_range(name: &str) -> SqlError {
    SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, format!("{name} out of range"))
}

/// A float rounded to an integer, halves to even.
fn round_float(f: f64, name: &str, bits: u32) -> SqlResult<i64> {
    let r = f.round_ties_even();
    let limit = 2f64.powi(bits as i32 - 1);
    // NaN fails both comparisons.
    if r >= -limit && r < limit { Ok(r as i64) } else { Err(out_of_range(name)) }
}

/// The value as the type's text, without padding; a boolean in full, which is how casts write it.
fn to_text(v: &Value, ctx: &Context<'_>) -> String {
    if let Value::Bool(b) = v {
        return b.to_string();
    }
    let mut scratch = Vec::new();
    let mut out = String::new();
    text::styled(v.as_ref(&mut scratch), Type::TEXT, &ctx.styles, &mut out);
    out
}

/// Whether a cast, or one of arrays, looks at the session's time zone: it is no constant of a constant.
pub fn is_zoned(from: TypeId, to: TypeId) -> bool {
    let [from, to] = [from, to].map(|t| t.element().unwrap_or(t));
    (from == TypeId::TIMESTAMPTZ) != (to == TypeId::TIMESTAMPTZ) || to == TypeId::TIMETZ && from != to
}

/// Casts a value and brings it into the target's modifier. `explicit` says that the statement wrote the cast.
pub fn cast(v: Value, from: TypeId, to: Type, explicit: bool, ctx: &Context<'_>) -> SqlResult<Value> {
    if v.is_null() {
        return Ok(Value::Null);
    }
    ctx.limits.take(match (&v, to.id) {
        // Two digits a byte, nine a limb.
        (Value::Bytea(b), TypeId::TEXT | TypeId::VARCHAR | TypeId::BPCHAR) => b.len().saturating_mul(2),
        (Value::Numeric(n), TypeId::TEXT | TypeId::VARCHAR | TypeId::BPCHAR) => n.limbs() * 9,
        (Value::Text(s), TypeId::BYTEA) => s.len(),
        _ => 0,
    })?;
    let cast = match (v, to.id) {
        (v, t) if from == t => v,
        (Value::Text(mut s), TypeId::TEXT | TypeId::VARCHAR) if from == TypeId::BPCHAR => {
            s.truncate(bare(s.as_bytes()).len());
            Value::Text(s)
        }
        (Value::Text(s), TypeId::TEXT | TypeId::VARCHAR | TypeId::BPCHAR | TypeId::UNKNOWN) => Value::Text(s),
        (Value::Text(s), t) => text::input(&s, Type::new(t), ctx)?,
        (Value::Opaque(t, b), TypeId::TEXT | TypeId::VARCHAR | TypeId::BPCHAR)
            if registered::kind(t).is_some() && registered::is_bare(&b) =>
        {
            Value::Text(to_text(&registered::renamed(t, &b, ctx)?, ctx))
        }
        (v, TypeId::TEXT | TypeId::VARCHAR | TypeId::BPCHAR) => Value::Text(to_text(&v, ctx)),

        (Value::Bool(b), TypeId::INT4) => Value::Int4(i32::from(b)),
        (Value::Int4(i), TypeId::BOOL) => Value::Bool(i != 0),

        (Value::Int2(i), TypeId::INT4) => Value::Int4(i32::from(i)),
        (Value::Int2(i), TypeId::INT8) => Value::Int8(i64::from(i)),
        (Value::Int2(i), TypeId::FLOAT8) => Value::Float8(f64::from(i)),
        (Value::Int2(i), TypeId::NUMERIC) => Value::Numeric(Numeric::from(i)),

        (Value::Int4(i), TypeId::INT2) => {
            Value::Int2(i16::try_from(i).map_err(|_| out_of_range("smallint"))?)
        }
        (Value::Int4(i), TypeId::INT8) => Value::Int8(i64::from(i)),
        (Value::Int4(i), TypeId::FLOAT8) => Value::Float8(f64::from(i)),
        (Value::Int4(i), TypeId::NUMERIC) => Value::Numeric(Numeric::from(i)),

        (Value::Int8(i), TypeId::INT2) => {
            Value::Int2(i16::try_from(i).map_err(|_| out_of_range("smallint"))?)
        }
        (Value::Int8(i), TypeId::INT4) => Value::Int4(i32::try_from(i).map_err(|_| out_of_range("integer"))?),
        (Value::Int8(i), TypeId::FLOAT8) => Value::Float8(i as f64),
        (Value::Int8(i), TypeId::NUMERIC) => Value::Numeric(Numeric::from(i)),

        (Value::Float8(f), TypeId::INT2) => Value::Int2(round_float(f, "smallint", 16)? as i16),
        (Value::Float8(f), TypeId::INT4) => Value::Int4(round_float(f, "integer", 32)? as i32),
        (Value::Float8(f), TypeId::INT8) => Value::Int8(round_float(f, "bigint", 64)?),
        (Value::Float8(f), TypeId::NUMERIC) => Value::Numeric(Numeric::from_f64(f)),

        (Value::Numeric(n), TypeId::INT2) => Value::Int2(n.to_i16()?),
        (Value::Numeric(n), TypeId::INT4) => Value::Int4(n.to_i32()?),
        (Value::Numeric(n), TypeId::INT8) => Value::Int8(n.to_i64()?),
        (Value::Numeric(n), TypeId::FLOAT8) => Value::Float8(n.to_f64()?),

        (Value::Date(d), TypeId::TIMESTAMP) => Value::Timestamp(datetime::date_to_timestamp(d)?),
        (Value::Date(d), TypeId::TIMESTAMPTZ) => {
            Value::Timestamptz(ctx.styles.zone.moment(datetime::date_to_timestamp(d)?)?)
        }
        (Value::Timestamp(t), TypeId::DATE) => Value::Date(datetime::timestamp_to_date(t)?),
        (Value::Timestamptz(t), TypeId::DATE) => {
            Value::Date(datetime::timestamp_to_date(ctx.styles.zone.local(t))?)
        }
        (Value::Timestamp(t), TypeId::TIMESTAMPTZ) => Value::Timestamptz(ctx.styles.zone.moment(t)?),
        (Value::Timestamptz(t), TypeId::TIMESTAMP) => Value::Timestamp(in_range(ctx.styles.zone.local(t))?),
        (Value::Opaque(_, b), t)
            if let (Some(from), Some(to)) = (from.element(), to.element())
                && t.is_array() =>
        {
            return array::cast_items(&b, from, to, explicit, ctx);
        }
        (Value::Opaque(_, b), TypeId::RECORD) if record::is_row(from) => record::anonymous(&b, from)?,
        (Value::Opaque(_, b), t) if record::are_one(from, t) => Value::Opaque(t, b),
        (v, t) if let Some(c) = catalog::cast(from, t) => {
            return (c.run)(v.as_ref(&mut Vec::new()), to, ctx);
        }
        // Through text, as all casts from and to strings.
        (v, t) if t == TypeId::NAME || from == TypeId::NAME => {
            text::input(&to_text(&v, ctx), Type::new(t), ctx)?
        }
        (v, _) => {
            return Err(match cast_context(from, to.id) {
                None => SqlError::new(
                    sqlstate::CANNOT_COERCE,
                    format!("cannot cast type {} to {}", from.name(), to.id.name()),
                ),
                Some(_) => SqlError::new(
                    sqlstate::INTERNAL_ERROR,
                    format!("expected a value of type {}, found {v}", from.name()),
                ),
            });
        }
    };
    apply_typmod(cast, to, explicit, ctx)
}

/// Whether a cast surely leaves a string or a numeric as it is, to be told of its bytes (a numeric's stored
/// form) without making anything. Of other types, and in doubt, it is false.
#[inline]
pub fn stays(bytes: &[u8], from: TypeId, to: Type) -> bool {
    // No string has more characters than bytes.
    let is_short = || to.char_len().is_none_or(|n| bytes.len() <= n);
    let is_bare = || bytes.last() != Some(&b' ');
    match to.id {
        TypeId::TEXT => from.is_string() && (from != TypeId::BPCHAR || is_bare()),
        TypeId::VARCHAR => from.is_string() && is_short() && (from != TypeId::BPCHAR || is_bare()),
        TypeId::BPCHAR => from.is_string() && (to.char_len().is_none() || is_short() && is_bare()),
        TypeId::NUMERIC if from == TypeId::NUMERIC => match to.numeric_mod() {
            Some((precision, scale)) => crate::numeric::is_within(bytes, precision, scale),
            None => true,
        },
        _ => false,
    }
}

/// The same of a packed numeric.
#[inline]
pub fn packed_stays(p: Packed, to: Type) -> bool {
    to.id == TypeId::NUMERIC && p.stays(to)
}

/// A timestamp that may be a day past the last.
fn in_range(t: i64) -> SqlResult<i64> {
    match datetime::timestamp_is_finite(t) {
        true => datetime::check_timestamp(t).ok_or_else(|| datetime::out_of_range("timestamp")),
        false => Ok(t),
    }
}

/// Brings a value of the type into its modifier: length, precision and scale, precision of seconds.
pub fn apply_typmod(v: Value, to: Type, explicit: bool, ctx: &Context<'_>) -> SqlResult<Value> {
    Ok(match (v, to.id) {
        (Value::Text(s), TypeId::BPCHAR) if to.char_len().is_some() => {
            let mut s = fit(s, to.char_len(), "character", explicit)?;
            s.truncate(bare(s.as_bytes()).len());
            Value::Text(s)
        }
        (Value::Text(s), TypeId::VARCHAR) => {
            Value::Text(fit(s, to.char_len(), "character varying", explicit)?)
        }
        (Value::Numeric(n), TypeId::NUMERIC) => match to.numeric_mod() {
            Some((precision, scale)) => Value::Numeric(n.apply_typmod(precision, scale)?),
            None => Value::Numeric(n),
        },
        (Value::Timestamp(t), TypeId::TIMESTAMP) if to.typmod >= 0 => {
            Value::Timestamp(datetime::round_timestamp(t, to.typmod)?)
        }
        (Value::Timestamptz(t), TypeId::TIMESTAMPTZ) if to.typmod >= 0 => {
            Value::Timestamptz(datetime::round_timestamp(t, to.typmod)?)
        }
        (Value::Opaque(ty, b), _)
            if to.typmod >= 0
                && let (Some(from), Some(to)) = (ty.element(), to.element()) =>
        {
            array::cast_items(&b, from, to, explicit, ctx)?
        }
        (Value::Opaque(ty, b), _) if to.typmod >= 0 => match catalog::cast(ty, ty) {
            Some(c) => (c.run)(ValueRef::Opaque(ty, &b), to, ctx)?,
            None => Value::Opaque(ty, b),
        },
        (v, _) => v,
    })
}

/// What counts of a value of char(n) or bpchar when it is compared: all but its trailing blanks.
#[inline]
pub fn bare(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|b| *b != b' ').map_or(0, |last| last + 1);
    &bytes[..end]
}

/// Cuts a string to a number of characters (invariant 3).
fn fit(mut s: String, length: Option<usize>, name: &str, explicit: bool) -> SqlResult<String> {
    let Some(n) = length else { return Ok(s) };
    // No string has more characters than bytes.
    if s.len() <= n {
        return Ok(s);
    }
    if let Some((end, _)) = s.char_indices().nth(n) {
        if !explicit && s[end..].bytes().any(|b| b != b' ') {
            return Err(SqlError::new(
                sqlstate::STRING_DATA_RIGHT_TRUNCATION,
                format!("value too long for type {name}({n})"),
            ));
        }
        s.truncate(end);
    }
    Ok(s)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `pg_cast` of PostgreSQL 15 among the supported types, without the string types: implicit, assignment
    /// and explicit casts.
    const PG_CAST: &str = "boolean>integer e, bigint>smallint a, bigint>integer a, bigint>double precision i, \
        bigint>numeric i, smallint>bigint i, smallint>integer i, smallint>double precision i, smallint>numeric i, \
        integer>boolean e, integer>bigint i, integer>smallint a, integer>double precision i, integer>numeric i, \
        double precision>bigint a, double precision>smallint a, double precision>integer a, \
        double precision>numeric a, date>timestamp without time zone i, date>timestamp with time zone i, \
        timestamp without time zone>date a, timestamp without time zone>timestamp with time zone i, \
        timestamp with time zone>date a, timestamp with time zone>timestamp without time zone a, \
        numeric>bigint a, numeric>smallint a, numeric>integer a, numeric>double precision i, \
        smallint>real i, integer>real i, bigint>real i, numeric>real i, double precision>real a, \
        real>smallint a, real>integer a, real>bigint a, real>numeric a, real>double precision i, \
        smallint>oid i, integer>oid i, bigint>oid i, oid>integer a, oid>bigint a, \
        integer>\"char\" e, \"char\">integer e, \"char\">text i, \"char\">character varying a, \
        \"char\">character a, text>\"char\" a, character varying>\"char\" a, character>\"char\" a, \
        name>text i, name>character varying a, name>character a, text>name i, character varying>name i, \
        character>name i, pg_node_tree>text i, \
        time without time zone>interval i, time without time zone>time with time zone i, \
        time with time zone>time without time zone a, interval>time without time zone a, \
        timestamp without time zone>time without time zone a, \
        timestamp with time zone>time without time zone a, timestamp with time zone>time with time zone a, \
        json>jsonb a, jsonb>json a, jsonb>boolean e, jsonb>numeric e, jsonb>smallint e, jsonb>integer e, \
        jsonb>bigint e, jsonb>real e, jsonb>double precision e";

    #[test]
    fn what_stays_is_what_a_cast_gives_back() {
        let contexts = crate::func::Context::EMPTY;
        let strings = ["", "a", "ab", "ab ", "abc", "abcd", "äb", "äöü"].map(|s| Value::Text(s.into()));
        let numbers =
            ["0", "0.00", "1.5", "1.50", "-99.99", "99.99", "100.00", "9999", "99.995", "NaN", "1e30"];
        let numbers = numbers.map(|n| Value::Numeric(Numeric::parse(n).unwrap()));
        let types = |id, mods: &[i32]| mods.iter().map(|m| Type::with(id, *m)).collect::<Vec<_>>();
        let mut to = types(TypeId::TEXT, &[-1]);
        to.extend(types(TypeId::VARCHAR, &[-1, 6, 7]));
        to.extend(types(TypeId::BPCHAR, &[-1, 6, 7]));
        // Without a modifier, (4, 2), (2, 0), (2, -2).
        to.extend(types(TypeId::NUMERIC, &[-1, (4 << 16 | 2) + 4, (2 << 16) + 4, (2 << 16 | 0x7fe) + 4]));
        let mut stayed = 0;
        for v in strings.iter().chain(&numbers) {
            let from = if matches!(v, Value::Text(_)) { TypeId::TEXT } else { TypeId::NUMERIC };
            let mut bytes = vec![];
            match v {
                Value::Text(s) => bytes.extend_from_slice(s.as_bytes()),
                Value::Numeric(n) => n.encode(&mut bytes),
                _ => unreachable!(),
            }
            for to in &to {
                if stays(&bytes, from, *to) {
                    stayed += 1;
                    let same = cast(v.clone(), from, *to, false, &contexts).unwrap();
                    let mut scratch = vec![];
                    assert_eq!(
                        format!("{:?}", same.as_ref(&mut scratch)),
                        format!("{:?}", v.as_ref(&mut vec![])),
                        "{v:?} {to:?}"
                    );
                }
            }
        }
        assert_eq!(stayed, 57);
    }

    #[test]
    fn the_table_is_that_of_pg_cast() {
        // Each of regclass and its like has the casts of oid.
        let integers = [TypeId::OID, TypeId::INT2, TypeId::INT4, TypeId::INT8];
        let registered = |t: TypeId| catalog::registered::kind(t).is_some();
        let of_registered = |from: TypeId, to: TypeId| match (registered(from), registered(to)) {
            (false, true) if integers.contains(&from) => Some(CastContext::Implicit),
            (false, true) if from == TypeId::TEXT || from == TypeId::VARCHAR => {
                (to == TypeId::REGCLASS).then_some(CastContext::Implicit)
            }
            (true, false) => match to {
                TypeId::OID => Some(CastContext::Implicit),
                TypeId::INT4 | TypeId::INT8 => Some(CastContext::Assignment),
                _ => None,
            },
            (true, true) => [
                (TypeId::REGPROC, TypeId::REGPROCEDURE),
                (TypeId::REGPROCEDURE, TypeId::REGPROC),
                (TypeId::REGOPER, TypeId::REGOPERATOR),
                (TypeId::REGOPERATOR, TypeId::REGOPER),
            ]
            .contains(&(from, to))
            .then_some(CastContext::Implicit),
            _ => None,
        };
        let listed = |from: TypeId, to: TypeId| {
            if registered(from) || registered(to) {
                return of_registered(from, to);
            }
            let name = format!("{from}>{to} ");
            let found = PG_CAST.split(", ").find_map(|c| c.strip_prefix(&name).filter(|c| c.len() == 1));
            found.map(|c| match c {
                "i" => CastContext::Implicit,
                "a" => CastContext::Assignment,
                _ => CastContext::Explicit,
            })
        };
        let special =
            |t: TypeId| t.category() == Category::String || matches!(t, TypeId::UNKNOWN | TypeId::VOID);
        let strings = [TypeId::TEXT, TypeId::VARCHAR, TypeId::BPCHAR, TypeId::NAME];
        for from in TypeId::all().filter(|t| !special(*t)) {
            for to in TypeId::all().filter(|t| !special(*t) && *t != from) {
                assert_eq!(cast_context(from, to), listed(from, to), "{from} to {to}");
            }
            assert_eq!(cast_context(from, from), Some(CastContext::Implicit));
            for s in strings {
                let (to, back) = (listed(from, s), listed(s, from));
                assert_eq!(cast_context(from, s), to.or(Some(CastContext::Assignment)), "{from} to {s}");
                assert_eq!(cast_context(s, from), back.or(Some(CastContext::Explicit)), "{s} to {from}");
            }
        }
        for s in &strings[..3] {
            assert_eq!(cast_context(*s, TypeId::NAME), listed(*s, TypeId::NAME));
            assert_eq!(cast_context(TypeId::NAME, *s), listed(TypeId::NAME, *s));
        }
        assert_eq!(cast_context(TypeId::BPCHAR, TypeId::TEXT), Some(CastContext::Implicit));
    }

    /// Invariant 2.
    #[test]
    fn every_cast_is_known_and_none_panics() {
        let values = [
            Value::Bool(true),
            Value::Int2(1),
            Value::Int4(1),
            Value::Int8(1),
            Value::Float8(1.0),
            Value::Numeric(Numeric::ONE),
            Value::Text("1".into()),
            Value::Bytea(vec![1]),
            Value::Date(1),
            Value::Timestamp(1),
            Value::Timestamptz(1),
        ];
        for v in &values {
            for from in TypeId::all() {
                for to in TypeId::all() {
                    let r = cast(v.clone(), from, Type::new(to), true, &Context::EMPTY);
                    let own = v.type_id() == Some(from);
                    if own && cast_context(from, to).is_some() {
                        let state = r.as_ref().map_or_else(|e| e.sqlstate(), |_| "");
                        assert!(!matches!(state, "42846" | "XX000"), "{from} to {to}: {r:?}");
                    } else if own && from != TypeId::TEXT {
                        assert_eq!(r.unwrap_err().sqlstate(), "42846", "{from} to {to}");
                    }
                }
            }
        }
    }

    #[test]
    fn assignment_cuts_spaces_alone() {
        let assign =
            |v: Value, from, id, n: i32| cast(v, from, Type::with(id, n + 4), false, &Context::EMPTY);
        let text = |s: &str| Value::Text(s.to_string());
        assert_eq!(assign(text("ab   "), TypeId::TEXT, TypeId::VARCHAR, 3).unwrap(), text("ab "));
        assert_eq!(assign(text("ab   "), TypeId::TEXT, TypeId::BPCHAR, 3).unwrap(), text("ab"));
        assert_eq!(assign(text("abcd"), TypeId::TEXT, TypeId::VARCHAR, 3).unwrap_err().sqlstate(), "22001");
        assert_eq!(
            assign(Value::Int4(12345), TypeId::INT4, TypeId::BPCHAR, 3).unwrap_err().sqlstate(),
            "22001"
        );
        assert_eq!(assign(Value::Bool(true), TypeId::BOOL, TypeId::BPCHAR, 4).unwrap(), text("true"));
        let explicit =
            cast(text("abcd"), TypeId::TEXT, Type::with(TypeId::VARCHAR, 7), true, &Context::EMPTY);
        assert_eq!(explicit.unwrap(), text("abc"));
    }
}
