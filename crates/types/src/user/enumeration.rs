//! Enums: values that are labels, in the order of the definition.
//!
//! A part of the definition is a label with its key; a value's bytes are the key, highest byte first and the
//! sign turned over, so that they are the normalised key as well.
//!
//! - **G1** A label keeps its key for ever (user/U3): a new one gets a key between its neighbours'.
//! - **G2** Keys leave room: [`END`] apart at the ends; between two labels, [`WITHIN`] above the lower one,
//!   or half way where less is left. So tens of thousands of labels can come one behind another at one place,
//!   or all before the last; only after thirty that come each right behind the same label is there no room.
//! - **G3** A label that was added to an enum is not given as a value before the transaction that has added
//!   it has committed ([`super::Fresh`]), as in PostgreSQL, in whose indexes values would outlive a rollback.
//! - **G4** The number that the catalogue shows of a label is PostgreSQL's. It is the label's text where its
//!   key does not tell it: of labels that came between others.
//!
//! Source: PostgreSQL 15's documentation, 8.7 and 9.10, CREATE TYPE and ALTER TYPE, and its answers.

use super::{Items, Kind, Part, Shape, UserDef};
use crate::array::empty;
use crate::catalog::{Form, Key, compares, comparisons};
use crate::func::{Call, OperatorDef, functions, internal};
use crate::ty::{Category, Class, Modifier};
use crate::{SqlError, SqlResult, Type, TypeId, Value, ValueRef, array, sqlstate};
use std::sync::atomic::Ordering;

/// The kind's code.
pub const CODE: &str = "enum";
/// The bytes of a label.
const LONGEST: usize = 63;
/// Between the keys of labels that are put at an end.
const END: i64 = 1 << 46;
/// Between the key of a label that is put between two others and the lower one's.
const WITHIN: i64 = 1 << 31;

pub(super) const KIND: Kind = Kind {
    code: CODE,
    shape: |_| Shape { category: Category::Enum, class: Class::Opaque(&FORM), modifier: Modifier::None },
    items: Items::Alike(TypeId::ANYENUM),
    create,
};

/// The form of every enum.
pub(crate) static FORM: Form = Form {
    width: Some(8),
    input: |text, ty, _| read(text, ty),
    output: write,
    compare: |a, b| a.cmp(b),
    key: Key::Fixed {
        width: 8,
        make: |b| {
            let mut key = [0; 16];
            key.iter_mut().zip(b.iter().take(8)).for_each(|(k, b)| *k = *b);
            key
        },
    },
};

fn value(ty: TypeId, key: i64) -> Value {
    Value::Opaque(ty, Box::new((key as u64 ^ 1 << 63).to_be_bytes()))
}

fn key_of(bytes: &[u8]) -> Option<i64> {
    bytes.first_chunk().map(|b| (u64::from_be_bytes(*b) ^ 1 << 63) as i64)
}

fn labels(ty: TypeId) -> &'static [Part] {
    ty.user().map_or(&[], |u| &u.parts)
}

fn read(text: &str, ty: Type) -> SqlResult<Value> {
    match labels(ty.id).iter().find(|l| l.name == text) {
        Some(label) => used(ty.id, label),
        None => {
            let message = format!("invalid input value for enum {}: \"{text}\"", ty.id);
            Err(SqlError::new(sqlstate::INVALID_TEXT_REPRESENTATION, message))
        }
    }
}

/// The value of a label, if it may be used (G3).
fn used(ty: TypeId, label: &Part) -> SqlResult<Value> {
    let fresh = ty.user().and_then(|u| u.fresh.as_ref());
    if fresh.is_some_and(|f| f.keys.contains(&label.key) && f.open.load(Ordering::Relaxed)) {
        let message = format!("unsafe use of new value \"{}\" of enum type {ty}", label.name);
        return Err(SqlError::new(sqlstate::UNSAFE_NEW_ENUM_VALUE, message)
            .hint("New enum values must be committed before they can be used."));
    }
    Ok(value(ty, label.key))
}

/// Bytes of a damaged file may be no label's.
fn write(ty: TypeId, bytes: &[u8], out: &mut String) {
    let labels = labels(ty);
    let place = key_of(bytes).and_then(|key| labels.binary_search_by_key(&key, |l| l.key).ok());
    out.push_str(place.map_or("", |i| &labels[i].name));
}

fn create(def: &UserDef, called: &str, _: &str) -> String {
    let labels: Vec<String> = def.parts.iter().map(|l| format!("'{}'", l.name.replace('\'', "''"))).collect();
    format!("CREATE TYPE {called} AS ENUM ({});", labels.join(", "))
}

// ---- making and changing ----------------------------------------------------------------------------------

fn is_label(label: &str) -> SqlResult<()> {
    if label.len() <= LONGEST {
        return Ok(());
    }
    let error = SqlError::new("42602", format!("invalid enum label \"{label}\""));
    Err(error.detail(format!("Labels must be {LONGEST} bytes or less.")))
}

fn no_room(what: &str) -> SqlError {
    SqlError::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, format!("no room is left for a label {what}"))
        .hint("Create another type with all the labels, and cast by way of text.")
}

fn is_there(label: &str) -> SqlError {
    SqlError::new(sqlstate::DUPLICATE_OBJECT, format!("enum label \"{label}\" already exists"))
}

fn not_there(label: &str) -> SqlError {
    let message = format!("\"{label}\" is not an existing enum label");
    SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}

/// The definition of a new enum in the schema of that number, its own numbers not given yet.
pub fn define(schema: u32, name: &str, labels: &[&str]) -> SqlResult<UserDef> {
    let mut parts: Vec<Part> = Vec::with_capacity(labels.len());
    let mut names = std::collections::HashSet::new();
    for label in labels {
        is_label(label)?;
        if !names.insert(*label) {
            let message = format!("enum label \"{label}\" used more than once");
            return Err(SqlError::new(sqlstate::DUPLICATE_OBJECT, message));
        }
        let key = (parts.len() as i64).checked_mul(END).ok_or_else(|| no_room("behind the others"))?;
        parts.push(Part { key, name: label.to_string(), text: None, ty: None });
    }
    let (number, array, base, not_null, default) = (0, 0, None, false, None);
    let (name, fresh) = (name.to_string(), None);
    Ok(UserDef { number, array, schema, name, kind: CODE, base, not_null, default, parts, fresh })
}

/// Where a new label comes.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    Last,
    Before(&'a str),
    After(&'a str),
}

/// The enum with one more label (G1, G2).
pub fn with_label(def: &UserDef, label: &str, place: Place<'_>) -> SqlResult<UserDef> {
    is_label(label)?;
    let find = |name: &str| def.parts.iter().position(|l| l.name == name);
    if find(label).is_some() {
        return Err(is_there(label));
    }
    let at = match place {
        Place::Last => def.parts.len(),
        Place::Before(l) => find(l).ok_or_else(|| not_there(l))?,
        Place::After(l) => find(l).ok_or_else(|| not_there(l))? + 1,
    };
    let key = |i: usize| def.parts.get(i).map(|l| l.key);
    let key = match (at.checked_sub(1).and_then(key), key(at)) {
        (None, None) => Some(0),
        (Some(below), None) => below.checked_add(END),
        (None, Some(above)) => above.checked_sub(END),
        (Some(below), Some(above)) => {
            let gap = above.abs_diff(below);
            (gap > 1).then(|| below + WITHIN.min((gap / 2) as i64))
        }
    };
    let key = key.ok_or_else(|| no_room("at this place"))?;
    let mut def = def.clone();
    let order = |def: &UserDef, i: usize| def.parts.get(i).map(order_of);
    let between = |def: &UserDef| match (at.checked_sub(1).and_then(|i| order(def, i)), order(def, at)) {
        (None, None) => Some(1.0),
        (Some(below), None) => Some(below + 1.0),
        (None, Some(above)) => Some(above - 1.0),
        (Some(below), Some(above)) => {
            Some((below + above) / 2.0).filter(|middle| *middle != below && *middle != above)
        }
    };
    let number = match between(&def) {
        Some(number) => number,
        None => {
            // There is no number between these: all get others, as in PostgreSQL.
            for (n, label) in def.parts.iter_mut().enumerate() {
                label.text = Some((n + 1).to_string())
            }
            between(&def).unwrap_or_default()
        }
    };
    let mut part = Part { key, name: label.to_string(), text: None, ty: None };
    if order_of(&part) != number {
        part.text = Some(number.to_string())
    }
    def.parts.insert(at, part);
    Ok(def)
}

/// What PostgreSQL numbers a label with (`enumsortorder`): 1, 2, ... at first, one less or more at an end,
/// the middle between two others (G4).
pub fn order_of(label: &Part) -> f32 {
    let said = label.text.as_ref().and_then(|t| t.parse().ok());
    said.unwrap_or_else(|| (label.key as f64 / END as f64 + 1.0) as f32)
}

/// The enum with another name for a label.
pub fn renamed(def: &UserDef, from: &str, to: &str) -> SqlResult<UserDef> {
    is_label(to)?;
    let mut def = def.clone();
    let place = def.parts.iter().position(|l| l.name == from).ok_or_else(|| not_there(from))?;
    if def.parts.iter().any(|l| l.name == to) {
        return Err(is_there(to));
    }
    def.parts[place].name = to.to_string();
    Ok(def)
}

// ---- functions --------------------------------------------------------------------------------------------

functions! {
    960 ENUM_LT "enum_lt" (AnyEnum, AnyEnum) -> Bool = compares!(is_lt);
    961 ENUM_LE "enum_le" (AnyEnum, AnyEnum) -> Bool = compares!(is_le);
    962 ENUM_EQ "enum_eq" (AnyEnum, AnyEnum) -> Bool = compares!(is_eq);
    963 ENUM_NE "enum_ne" (AnyEnum, AnyEnum) -> Bool = compares!(is_ne);
    964 ENUM_GE "enum_ge" (AnyEnum, AnyEnum) -> Bool = compares!(is_ge);
    965 ENUM_GT "enum_gt" (AnyEnum, AnyEnum) -> Bool = compares!(is_gt);
    966 ENUM_FIRST "enum_first" (AnyEnum) -> AnyEnum = |c| end(c, <[Part]>::first), stable, lax, template;
    967 ENUM_LAST "enum_last" (AnyEnum) -> AnyEnum = |c| end(c, <[Part]>::last), stable, lax, template;
    968 ENUM_RANGE "enum_range" (AnyEnum) -> AnyArray = |c| range(c, None, None), stable, lax, template;
    969 ENUM_RANGE_BETWEEN "enum_range" (AnyEnum, AnyEnum) -> AnyArray =
        |c| range(c, bound(c, 0), bound(c, 1)), stable, lax, template;
}

const ENUM: TypeId = TypeId::ANYENUM;

pub(super) const OPERATORS: &[&[OperatorDef]] =
    &[&comparisons((ENUM, ENUM), [id::ENUM_LT, id::ENUM_LE, id::ENUM_EQ, id::ENUM_NE, id::ENUM_GE, id::ENUM_GT])];

/// The type that the call is about, which the template behind the arguments tells.
fn asked(c: &Call<'_>) -> SqlResult<(TypeId, TypeId)> {
    match c.args.last() {
        Some(ValueRef::Opaque(ty, _)) if let Some(item) = ty.element() => Ok((*ty, item)),
        other => Err(internal(format!("a function of enums was given {other:?} for a type"))),
    }
}

fn end(c: &Call<'_>, which: fn(&[Part]) -> Option<&Part>) -> SqlResult<Value> {
    let (_, ty) = asked(c)?;
    match which(labels(ty)) {
        Some(label) => used(ty, label),
        None => Err(SqlError::new("55000", format!("enum {ty} contains no values"))),
    }
}

/// A bound of a range; `None` for NULL.
fn bound(c: &Call<'_>, i: usize) -> Option<i64> {
    c.opaque(i).ok().and_then(key_of)
}

fn range(c: &Call<'_>, from: Option<i64>, to: Option<i64>) -> SqlResult<Value> {
    let (array, ty) = asked(c)?;
    let within = |l: &&Part| from.is_none_or(|f| l.key >= f) && to.is_none_or(|t| l.key <= t);
    let items = labels(ty).iter().filter(within).map(|l| used(ty, l)).collect::<SqlResult<Vec<Value>>>()?;
    if items.is_empty() { Ok(empty(array)) } else { array::of_values(ty, &items) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mood() -> UserDef {
        UserDef { number: 7, array: 8, ..define(2200, "mood", &["sad", "ok", "happy"]).expect("a definition") }
    }

    fn names(def: &UserDef) -> Vec<&str> {
        def.parts.iter().map(|l| l.name.as_str()).collect()
    }

    #[test]
    fn equal_definitions_are_one_type_and_changed_ones_another() {
        let ty = mood().type_id().expect("a type");
        assert_eq!(mood().type_id(), Ok(ty));
        assert_eq!((ty.name(), ty.oid(), ty.array().map(TypeId::name)), ("mood", 16391, Some("mood[]")));
        assert!(ty.is_user() && ty.array().is_some_and(|a| a.is_user() && a.element() == Some(ty)));
        let more = with_label(&mood(), "glad", Place::Before("happy")).expect("room");
        let changed = more.type_id().expect("a type");
        assert_ne!(changed, ty);
        assert!(more.is_same_type(ty.user().expect("a definition")));
        // What was made with the one before is shown as it was.
        let sad = read("sad", Type::new(ty)).expect("a label");
        let renamed = renamed(&more, "sad", "blue").expect("a label").type_id().expect("a type");
        assert_eq!(sad.to_string(), "sad");
        let Value::Opaque(_, bytes) = sad else { panic!("an enum is opaque") };
        assert_eq!(Value::Opaque(renamed, bytes).to_string(), "blue");
    }

    #[test]
    fn labels_keep_their_keys_and_stand_where_they_are_put() {
        let mut def = mood();
        let old = def.parts.clone();
        for (label, place) in [
            ("worst", Place::Before("sad")),
            ("best", Place::Last),
            ("glad", Place::Before("happy")),
            ("fair", Place::After("sad")),
            ("good", Place::After("ok")),
        ] {
            def = with_label(&def, label, place).expect("room");
        }
        assert_eq!(names(&def), ["worst", "sad", "fair", "ok", "good", "glad", "happy", "best"]);
        assert!(def.parts.is_sorted_by_key(|l| l.key));
        assert!(old.iter().all(|l| def.parts.contains(l)));
    }

    #[test]
    fn room_lasts_for_many_and_its_end_is_told() {
        let mut def = mood();
        for i in 0..5000 {
            let last = names(&def)[names(&def).len() - 2].to_string();
            let place = if i % 2 == 0 { Place::Before("happy") } else { Place::After(&last) };
            def = with_label(&def, &format!("l{i}"), place).expect("room");
        }
        assert!(def.parts.is_sorted_by(|a, b| a.key < b.key));
        let mut behind = 0;
        let full = loop {
            match with_label(&def, &format!("b{behind}"), Place::After("sad")) {
                Ok(more) => def = more,
                Err(e) => break e,
            }
            behind += 1;
        };
        assert!(behind > 30 && full.sqlstate() == "54000", "{behind}: {full}");
        assert!(def.parts.is_sorted_by(|a, b| a.key < b.key));
    }

    #[test]
    fn bytes_and_keys_have_the_order_of_the_labels() {
        let def = with_label(&mood(), "worst", Place::Before("sad")).expect("room");
        let ty = def.type_id().expect("a type");
        let bytes: Vec<_> = (def.parts.iter())
            .map(|l| match read(&l.name, Type::new(ty)) {
                Ok(Value::Opaque(_, b)) => b,
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(bytes.is_sorted_by(|a, b| a < b));
        // Whatever a damaged file holds, nothing panics.
        for wrong in [&[][..], &[1; 7], &[9; 8], &[255; 9]] {
            let mut out = String::new();
            write(ty, wrong, &mut out);
            FORM.key.push(wrong, &mut Vec::new());
            assert_eq!(out, "");
        }
    }
}
