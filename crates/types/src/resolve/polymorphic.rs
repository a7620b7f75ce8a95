//! What polymorphic arguments are in a call.
//!
//! 1. What is declared `anyelement`, `anyarray`, `anynonarray` and `anyenum` has one type, and arrays of it:
//!    all that are given agree, exactly.
//! 2. What is declared `anycompatible` and `anycompatiblearray` has the common type of all that are given, to
//!    which they are cast.
//! 3. Unknown literals follow the others. Where there are only such, the second family is text, and of the
//!    first nothing can be told.
//!
//! Source: PostgreSQL 15's documentation, 38.2.5, and its answers.

use super::{can_coerce, common_type};
use crate::ty::Category;
use crate::{SqlError, SqlResult, TypeId, sqlstate};

/// What a call takes and gives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Concrete {
    pub args: Vec<TypeId>,
    pub ret: TypeId,
}

/// What the types of a call's arguments make of those that a function is declared with, of which the last may
/// repeat, and of its result.
pub fn concrete(declared: &[TypeId], ret: TypeId, given: &[TypeId]) -> SqlResult<Concrete> {
    let of = |i: usize| declared[i.min(declared.len().saturating_sub(1))];
    if !ret.is_polymorphic() && !declared.iter().any(|t| t.is_polymorphic()) {
        return Ok(Concrete { args: (0..given.len()).map(of).collect(), ret });
    }
    let found = Found::of(declared, given)?;
    let args = (0..given.len()).map(|i| found.settle(of(i))).collect::<SqlResult<_>>()?;
    Ok(Concrete { args, ret: found.settle(ret)? })
}

/// Whether the types given go together. What cannot be told yet does.
pub(super) fn agree(declared: &[TypeId], given: &[TypeId]) -> bool {
    !declared.iter().any(|t| t.is_polymorphic()) || Found::of(declared, given).is_ok()
}

/// The types behind the two families, as far as the arguments tell.
struct Found {
    element: Option<TypeId>,
    compatible: Option<TypeId>,
}

fn mismatch(message: String) -> SqlError {
    SqlError::new(sqlstate::DATATYPE_MISMATCH, message)
}

/// The one type of all arguments that are declared as one of these; `None` if there are none that are known.
fn the_one(declared: &[TypeId], given: &[TypeId], those: &[TypeId], name: &str) -> SqlResult<Option<TypeId>> {
    let mut one = None;
    for given in pairs(declared, given).filter(|(d, _)| those.contains(d)).map(|p| p.1) {
        match one {
            Some(other) if other != given => {
                let error = mismatch(format!("arguments declared \"{name}\" are not all alike"));
                return Err(error.detail(format!("{other} versus {given}")));
            }
            _ => one = Some(given),
        }
    }
    Ok(one)
}

/// What is declared beside what is given, where that is known.
fn pairs(declared: &[TypeId], given: &[TypeId]) -> impl Iterator<Item = (TypeId, TypeId)> {
    let last = declared.last().copied();
    let declared = declared.iter().copied().chain(last.into_iter().cycle());
    declared.zip(given.iter().copied()).filter(|(_, g)| *g != TypeId::UNKNOWN)
}

fn no_array(declared: TypeId, given: TypeId) -> SqlError {
    mismatch(format!("argument declared {declared} is not an array but type {given}"))
}

impl Found {
    fn of(declared: &[TypeId], given: &[TypeId]) -> SqlResult<Found> {
        let plain = [TypeId::ANYELEMENT, TypeId::ANYNONARRAY, TypeId::ANYENUM];
        let mut element = the_one(declared, given, &plain, "anyelement")?;
        if let Some(array) = the_one(declared, given, &[TypeId::ANYARRAY], "anyarray")? {
            let of = array.element().ok_or_else(|| no_array(TypeId::ANYARRAY, array))?;
            if element.is_some_and(|e| e != of) {
                let message =
                    "argument declared anyarray is not consistent with argument declared anyelement";
                let detail = format!("{array} versus {}", element.unwrap_or_default());
                return Err(mismatch(message.into()).detail(detail));
            }
            element = Some(of);
        }
        if let Some(of) = element.filter(|e| e.is_array())
            && declared.contains(&TypeId::ANYNONARRAY)
        {
            return Err(mismatch(format!("type matched to anynonarray is an array type: {of}")));
        }
        if declared.contains(&TypeId::ANYENUM) && element.is_none_or(|e| e.category() != Category::Enum) {
            let found = element.map_or("unknown", TypeId::name);
            return Err(mismatch(format!("type matched to anyenum is not an enum type: {found}")));
        }
        let mut compatible = Vec::new();
        for (declared, given) in pairs(declared, given) {
            match declared {
                TypeId::ANYCOMPATIBLE => compatible.push(given),
                TypeId::ANYCOMPATIBLEARRAY => {
                    compatible.push(given.element().ok_or_else(|| no_array(declared, given))?)
                }
                _ => {}
            }
        }
        let compatible = match &compatible[..] {
            [] => None,
            all => {
                let common = common_type(all, "")
                    .ok()
                    .filter(|common| all.iter().all(|t| can_coerce(*t, *common)))
                    .ok_or_else(|| {
                        let message = "arguments of anycompatible family cannot be cast to a common type";
                        mismatch(message.into())
                    })?;
                if declared.contains(&TypeId::ANYCOMPATIBLEARRAY) {
                    array_of(common)?;
                }
                Some(common)
            }
        };
        Ok(Found { element, compatible })
    }

    /// The type behind a declared one.
    fn settle(&self, declared: TypeId) -> SqlResult<TypeId> {
        let element = || {
            self.element.ok_or_else(|| {
                let message = "could not determine polymorphic type because input has type unknown";
                mismatch(message.into())
            })
        };
        let compatible = self.compatible.unwrap_or(TypeId::TEXT);
        match declared {
            TypeId::ANYELEMENT | TypeId::ANYNONARRAY | TypeId::ANYENUM => element(),
            TypeId::ANYARRAY => array_of(element()?),
            TypeId::ANYCOMPATIBLE => Ok(compatible),
            TypeId::ANYCOMPATIBLEARRAY => array_of(compatible),
            other => Ok(other),
        }
    }
}

fn array_of(element: TypeId) -> SqlResult<TypeId> {
    element.array().ok_or_else(|| {
        let message = format!("could not find array type for data type {element}");
        SqlError::new(sqlstate::UNDEFINED_OBJECT, message)
    })
}
