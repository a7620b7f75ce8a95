//! PostgreSQL's rules for choosing: which function a name and argument types mean, which operator, which type
//! a CASE or UNION has, which type a name means.
//!
//! 1. An exact match of all types wins. For a binary operator with one unknown literal, the literal is first
//!    taken to have the other side's type.
//! 2. Otherwise those remain whose arguments the given types reach by implicit casts; an unknown literal
//!    reaches every type.
//! 3. Of several, those with the most exact matches; then those that take the preferred type of the
//!    argument's category in the most places; then unknown literals get the category that the candidates
//!    agree on (text, if any takes it), and its preferred type; at last, unknowns are taken to have the one
//!    type that the known arguments have.
//! 4. One must remain, or the call is not unique.
//!
//! Polymorphic arguments take every type at first; whether those given go together, and what they make of the
//! result, is told by [`polymorphic`].
//!
//! PostgreSQL has functions and operators on types that are not supported here. A name or symbol that only
//! they have is refused as not supported (0A000); a call with nothing but unknown literals that is ambiguous
//! there only because of them is refused as ambiguous here too.
//!
//! Source: PostgreSQL 15's documentation, chapter 10 (type conversion), and its answers.

use crate::cast::{CastContext, cast_context};
use crate::func::{self, ANY, FuncDef, OperatorDef};
use crate::ty::Category;
use crate::{SqlError, SqlResult, Type, TypeId, known, sqlstate};

pub mod polymorphic;

/// Whether a value of one type may stand where another is wanted, without the user writing a cast.
pub fn can_coerce(from: TypeId, to: TypeId) -> bool {
    from == to
        || to == ANY
        || to.is_polymorphic()
        || from == TypeId::UNKNOWN
        || cast_context(from, to) == Some(CastContext::Implicit)
}

/// One overload: its declared arguments, of which the last may repeat.
#[derive(Clone, Copy)]
pub(crate) struct Candidate<T> {
    pub args: &'static [TypeId],
    pub variadic: bool,
    pub what: T,
}

impl<T> Candidate<T> {
    fn arg(&self, i: usize) -> TypeId {
        self.args[i.min(self.args.len() - 1)]
    }
    fn takes(&self, n: usize) -> bool {
        self.args.len() == n || (self.variadic && n > self.args.len())
    }
    /// Whether the types given may stand where its arguments are wanted, all of them together.
    fn fits(&self, given: &[TypeId]) -> bool {
        given.iter().enumerate().all(|(i, g)| can_coerce(*g, self.arg(i)))
            && polymorphic::agree(self.args, given)
    }
}

pub(crate) enum Choice<T> {
    One(T),
    None,
    Many,
}

/// Keeps the candidates with the highest score.
fn keep_best<T>(candidates: &mut Vec<Candidate<T>>, score: impl Fn(&Candidate<T>) -> usize) {
    if let Some(best) = candidates.iter().map(&score).max() {
        candidates.retain(|c| score(c) == best);
    }
}

/// Rules 1 to 4.
pub(crate) fn choose<T: Copy>(all: impl Iterator<Item = Candidate<T>>, given: &[TypeId]) -> Choice<T> {
    let mut left: Vec<Candidate<T>> = all.filter(|c| c.takes(given.len())).collect();
    if let Some(exact) = left.iter().find(|c| c.args == given) {
        return Choice::One(exact.what);
    }
    left.retain(|c| c.fits(given));
    if left.is_empty() {
        return Choice::None;
    }
    let known = |i: usize| given[i] != TypeId::UNKNOWN;
    let positions = 0..given.len();
    let one = |left: &[Candidate<T>]| match left {
        [only] => Some(Choice::One(only.what)),
        _ => None,
    };
    if let Some(choice) = one(&left) {
        return choice;
    }
    keep_best(&mut left, |c| positions.clone().filter(|i| known(*i) && c.arg(*i) == given[*i]).count());
    if let Some(choice) = one(&left) {
        return choice;
    }
    keep_best(&mut left, |c| {
        let fits = |i: &usize| {
            let (arg, given) = (c.arg(*i), given[*i]);
            arg == given || (arg.is_preferred() && arg.category() == given.category())
        };
        positions.clone().filter(|i| known(*i) && fits(i)).count()
    });
    if let Some(choice) = one(&left) {
        return choice;
    }
    if positions.clone().all(known) {
        return Choice::Many;
    }
    if let Some(slots) = unknown_slots(&left, given) {
        let narrowed: Vec<_> = left
            .iter()
            .filter(|c| {
                slots.iter().all(|(i, wanted, preferred)| {
                    let arg = c.arg(*i);
                    arg.category() == *wanted && (!preferred || arg.is_preferred())
                })
            })
            .copied()
            .collect();
        if !narrowed.is_empty() {
            left = narrowed;
        }
        if let Some(choice) = one(&left) {
            return choice;
        }
    }
    let mut types = given.iter().filter(|t| **t != TypeId::UNKNOWN);
    if let Some(first) = types.next()
        && types.all(|t| t == first)
    {
        left.retain(|c| c.fits(&vec![*first; given.len()]));
        if let Some(choice) = one(&left) {
            return choice;
        }
    }
    Choice::Many
}

/// For each unknown argument: its place, the category the candidates give it, and whether one takes the
/// category's preferred type. `None` if they do not agree on some category.
fn unknown_slots<T>(left: &[Candidate<T>], given: &[TypeId]) -> Option<Vec<(usize, Category, bool)>> {
    let mut slots = Vec::new();
    for (i, _) in given.iter().enumerate().filter(|(_, t)| **t == TypeId::UNKNOWN) {
        let takes = |wanted: Category| left.iter().map(|c| c.arg(i)).filter(move |t| t.category() == wanted);
        let wanted = match left.first() {
            _ if takes(Category::String).next().is_some() => Category::String,
            Some(first) => first.arg(i).category(),
            None => return None,
        };
        if wanted != Category::String && takes(wanted).count() != left.len() {
            return None;
        }
        slots.push((i, wanted, takes(wanted).any(TypeId::is_preferred)));
    }
    Some(slots)
}

/// "integer, text": types as messages list them.
fn type_list(types: &[TypeId]) -> String {
    types.iter().map(|t| t.name()).collect::<Vec<_>>().join(", ")
}

/// Overloads of PostgreSQL's that are not here, of functions that are: by name, and how many arguments they
/// take, where none that is here takes as many.
const OVERLOADS: &[(&str, usize)] = &[("timestamptz", 2), ("width_bucket", 2)];

/// The error for a name that only PostgreSQL has: of a function, or of a type that would be cast to.
pub fn not_supported_function(name: &str, given: &[TypeId]) -> Option<SqlError> {
    // The name of a type that is here calls a cast; PostgreSQL's functions of that name are those casts.
    let is_known = || known::is_function(name) || given.len() == 1 && known::is_type(name);
    let is_here = || TypeId::from_function_name(name).is_some() || !func::by_name(name).is_empty();
    (is_known() && !is_here()).then(|| unsupported_call(name, given))
}

fn unsupported_call(name: &str, given: &[TypeId]) -> SqlError {
    SqlError::unsupported(format_args!("function {name}({})", type_list(given)))
}

/// Whether PostgreSQL finds no single best candidate for a call, because of overloads on types that are not
/// supported here (bit strings, MAC addresses, ranges, transaction numbers).
fn ambiguous(name: &str, given: &[TypeId]) -> bool {
    matches!(
        (name, given),
        ("age" | "bit_count" | "trunc", [TypeId::UNKNOWN])
            | ("@>" | "<@" | "&&", [TypeId::UNKNOWN, TypeId::UNKNOWN])
            | ("get_bit", [TypeId::UNKNOWN, TypeId::UNKNOWN | TypeId::INT2 | TypeId::INT4])
            | ("set_bit", [TypeId::UNKNOWN, TypeId::UNKNOWN | TypeId::INT2 | TypeId::INT4, _])
    )
}

/// The error of a call that no function matches, or too many do.
pub(crate) fn function_error<T>(name: &str, given: &[TypeId], choice: &Choice<T>) -> SqlError {
    let call = format!("function {name}({})", type_list(given));
    match choice {
        Choice::Many => SqlError::new(sqlstate::AMBIGUOUS_FUNCTION, format!("{call} is not unique"))
            .hint("Could not choose a best candidate function. You might need to add explicit type casts."),
        _ => SqlError::new(sqlstate::UNDEFINED_FUNCTION, format!("{call} does not exist")).hint(
            "No function matches the given name and argument types. \
             You might need to add explicit type casts.",
        ),
    }
}

/// The function that a call means. The binder then casts the arguments to [`FuncDef::args`] (not those
/// declared [`ANY`]).
pub fn resolve_function(name: &str, given: &[TypeId]) -> SqlResult<&'static FuncDef> {
    let all = func::by_name(name);
    if all.is_empty()
        && let Some(e) = not_supported_function(name, given)
    {
        return Err(e);
    }
    let here = all.iter().map(|d| Candidate { args: d.args, variadic: d.variadic, what: *d });
    match choose(here, given) {
        Choice::One(_) if ambiguous(name, given) => Err(function_error(name, given, &Choice::<()>::Many)),
        Choice::One(def) => Ok(def),
        Choice::None if OVERLOADS.contains(&(name, given.len())) => Err(unsupported_call(name, given)),
        other => Err(function_error(name, given, &other)),
    }
}

/// The operator that a symbol and operand types mean; `left` is `None` for a prefix operator.
pub fn resolve_operator(name: &str, left: Option<TypeId>, right: TypeId) -> SqlResult<&'static OperatorDef> {
    let all: Vec<_> = func::operator::by_symbol(name, left.is_none()).collect();
    let given: &[TypeId] = match left {
        Some(l) => &[l, right],
        None => &[right],
    };
    if all.is_empty() && known::is_operator(name, left.is_none()) {
        let symbol = operator_text(name, left, right);
        return Err(SqlError::unsupported(format_args!("operator {symbol}")));
    }
    // Rule 1: an unknown literal has the type of the other side, if there is such an operator.
    let same = match left {
        Some(TypeId::UNKNOWN) => Some([right, right]),
        Some(l) if right == TypeId::UNKNOWN => Some([l, l]),
        _ => None,
    };
    if let Some(same) = same
        && let Some(exact) = all.iter().find(|o| o.args() == same)
    {
        return Ok(exact);
    }
    let here = all.iter().map(|o| Candidate { args: o.args(), variadic: false, what: *o });
    let (code, problem, hint) = match choose(here, given) {
        Choice::One(op) if !ambiguous(name, given) => return Ok(op),
        Choice::One(_) | Choice::Many => (
            sqlstate::AMBIGUOUS_FUNCTION,
            "operator is not unique",
            "Could not choose a best candidate operator. You might need to add explicit type casts.",
        ),
        Choice::None if left.is_none() => (
            sqlstate::UNDEFINED_FUNCTION,
            "operator does not exist",
            "No operator matches the given name and argument type. \
             You might need to add an explicit type cast.",
        ),
        Choice::None => (
            sqlstate::UNDEFINED_FUNCTION,
            "operator does not exist",
            "No operator matches the given name and argument types. \
             You might need to add explicit type casts.",
        ),
    };
    Err(SqlError::new(code, format!("{problem}: {}", operator_text(name, left, right))).hint(hint))
}

fn operator_text(name: &str, left: Option<TypeId>, right: TypeId) -> String {
    let right = right.name();
    match left {
        Some(l) => format!("{} {name} {right}", l.name()),
        None => format!("{name} {right}"),
    }
}

/// The type that several expressions have together, in a CASE, COALESCE, UNION, VALUES, IN and so on;
/// `context` is how the message names the construct. Unknown literals alone are text.
pub fn common_type(types: &[TypeId], context: &str) -> SqlResult<TypeId> {
    let mut chosen = TypeId::UNKNOWN;
    for t in types.iter().copied().filter(|t| *t != TypeId::UNKNOWN) {
        if chosen == TypeId::UNKNOWN {
            chosen = t;
        } else if t != chosen {
            if t.category() != chosen.category() {
                let (a, b) = (chosen.name(), t.name());
                let message = format!("{context} types {a} and {b} cannot be matched");
                return Err(SqlError::new(sqlstate::DATATYPE_MISMATCH, message));
            }
            if !chosen.is_preferred() && can_coerce(chosen, t) && !can_coerce(t, chosen) {
                chosen = t;
            }
        }
    }
    Ok(if chosen == TypeId::UNKNOWN { TypeId::TEXT } else { chosen })
}

/// The modifier that several expressions have together, once their common type is known: the one all share,
/// if all have that type already.
pub fn common_typmod(types: &[Type], common: TypeId) -> i32 {
    match types {
        [first, rest @ ..] if first.id == common && rest.iter().all(|t| t == first) => first.typmod,
        _ => -1,
    }
}

/// If a call `name(x)` is a cast in disguise (`date(now())`, `text(5)`), the type cast to. Asked after
/// [`resolve_function`] has found nothing.
pub fn cast_by_function_name(name: &str, from: TypeId) -> Option<TypeId> {
    let to = TypeId::from_function_name(name)?;
    (from == to || from == TypeId::UNKNOWN || cast_context(from, to).is_some()).then_some(to)
}

#[cfg(test)]
mod tests;
