//! Values of type jsonb made of others: joined, with something set, put in or left out; and whether one
//! contains another.

use super::build::{Builder, of_steps};
use super::find::place_of;
use super::order;
use super::stored::{self, List, Node, Pairs, Step};
use crate::func::state;
use crate::limits::Limits;
use crate::{SqlError, SqlResult, Value, sqlstate};

pub(super) fn wrong(message: impl Into<String>) -> SqlError {
    SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}

/// What is done at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change<'a> {
    /// Sets what is there already, or what is not there as well.
    Set {
        new: &'a [u8],
        create: bool,
    },
    Insert {
        new: &'a [u8],
        after: bool,
    },
    Delete,
    /// Sets it, and makes all that is missing on the way.
    Assign {
        new: &'a [u8],
    },
}

impl<'a> Change<'a> {
    /// What is put where nothing is.
    fn created(self) -> Option<&'a [u8]> {
        match self {
            Change::Set { new, create: true } | Change::Insert { new, .. } | Change::Assign { new } => {
                Some(new)
            }
            _ => None,
        }
    }
    fn fills_gaps(self) -> Option<&'a [u8]> {
        match self {
            Change::Assign { new } => Some(new),
            _ => None,
        }
    }
}

/// A path, whose steps may be NULL.
pub(super) type Path<'a> = [Option<&'a str>];

/// What is still to be put in behind what was changed.
enum Rest<'a> {
    Pairs,
    Items(List<'a>, usize),
}

/// A node with a change at the end of a path, which has a step at least.
pub(super) fn at_path(
    root: &[u8],
    path: &Path<'_>,
    change: Change<'_>,
    limits: &Limits<'_>,
) -> SqlResult<Value> {
    let mut out = Builder::new();
    let mut rests: Vec<Rest<'_>> = Vec::new();
    let mut node = root;
    for level in 0..path.len() {
        limits.turn(level)?;
        let Some(step) = path[level] else { return Err(null_step(level)) };
        let is_last = level + 1 == path.len();
        let next = match Node::read(node)? {
            Node::Object(pairs) => {
                out.object_start()?;
                rests.push(Rest::Pairs);
                in_object(&mut out, &pairs, step, is_last, change, limits)?.map_or_else(
                    || fill(&mut out, path, level, change, limits).map(|()| None),
                    |n| Ok(Some(n)),
                )?
            }
            Node::Array(list) => {
                out.array_start()?;
                let (next, rest) = in_array(&mut out, &list, path, level, change, limits)?;
                rests.push(Rest::Items(list, rest));
                next
            }
            _ if change.fills_gaps().is_some() => return Err(no_composite()),
            _ => {
                out.node(node);
                None
            }
        };
        match next {
            Some(next) => node = next,
            None => break,
        }
    }
    while let Some(rest) = rests.pop() {
        if let Rest::Items(list, from) = rest {
            for i in from..list.len() {
                out.node(list.raw(i)?);
                out.turn(limits)?;
            }
        }
        out.end();
    }
    out.finish(limits)
}

fn null_step(level: usize) -> SqlError {
    let message = format!("path element at position {} is null", level + 1);
    SqlError::new(sqlstate::NULL_VALUE_NOT_ALLOWED, message)
}

fn no_composite() -> SqlError {
    wrong("cannot replace existing key")
        .detail("The path assumes key is a composite object, but it is a scalar value.")
}

/// The other pairs of an object, and what becomes of the one of the key: the value to go on with, or nothing.
fn in_object<'a>(
    out: &mut Builder,
    pairs: &Pairs<'a>,
    step: &str,
    is_last: bool,
    change: Change<'_>,
    limits: &Limits<'_>,
) -> SqlResult<Option<&'a [u8]>> {
    let found = pairs.find(step)?;
    for i in (0..pairs.len()).filter(|i| Some(*i) != found) {
        out.key(pairs.key(i)?)?;
        out.node(pairs.raw(i)?);
        out.turn(limits)?;
    }
    match (found, is_last) {
        (Some(i), false) => {
            out.key(step)?;
            return pairs.raw(i).map(Some);
        }
        (Some(_), true) => match change {
            Change::Insert { .. } => {
                return Err(wrong("cannot replace existing key")
                    .hint("Try using the function jsonb_set to replace key value."));
            }
            Change::Set { new, .. } | Change::Assign { new } => {
                out.key(step)?;
                out.node(new);
            }
            Change::Delete => {}
        },
        (None, true) => {
            if let Some(new) = change.created() {
                out.key(step)?;
                out.node(new);
            }
        }
        (None, false) => {
            if change.fills_gaps().is_some() {
                out.key(step)?;
            }
        }
    }
    // What is missing on the way is made by the caller, if it is: nothing is open for it otherwise.
    Ok(None)
}

/// Makes what is missing in an object behind a step that is not the last.
fn fill(
    out: &mut Builder,
    path: &Path<'_>,
    level: usize,
    change: Change<'_>,
    limits: &Limits<'_>,
) -> SqlResult<()> {
    match change.fills_gaps() {
        Some(new) if level + 1 < path.len() => chain(out, path, level + 1, new, limits),
        _ => Ok(()),
    }
}

/// An object or an array for each step from a level on, and the new value in the last.
fn chain(out: &mut Builder, path: &Path<'_>, level: usize, new: &[u8], limits: &Limits<'_>) -> SqlResult<()> {
    let mut open = 0;
    for step in path[level..].iter().map_while(|s| *s) {
        match place_of(step) {
            Some(n) => {
                out.array_start()?;
                nulls(out, n.into(), limits)?;
            }
            None => {
                out.object_start()?;
                out.key(step)?;
            }
        }
        open += 1;
    }
    out.node(new);
    (0..open).for_each(|_| out.end());
    Ok(())
}

fn nulls(out: &mut Builder, count: i64, limits: &Limits<'_>) -> SqlResult<()> {
    for _ in 0..count {
        out.null();
        out.turn(limits)?;
    }
    Ok(())
}

/// The items of an array before the changed one, and that: the item to go on with, and the place from which
/// on the others follow.
fn in_array<'a>(
    out: &mut Builder,
    list: &List<'a>,
    path: &Path<'_>,
    level: usize,
    change: Change<'_>,
    limits: &Limits<'_>,
) -> SqlResult<(Option<&'a [u8]>, usize)> {
    let (count, is_last) = (list.len() as i64, level + 1 == path.len());
    let step = path[level].unwrap_or_default();
    let Some(written) = place_of(step).map(i64::from) else {
        let message = format!("path element at position {} is not an integer: \"{step}\"", level + 1);
        return Err(SqlError::new(sqlstate::INVALID_TEXT_REPRESENTATION, message));
    };
    let place = match written {
        n if n < -count && change.fills_gaps().is_some() => {
            let message = format!("path element at position {} is out of range: {n}", level + 1);
            return Err(wrong(message));
        }
        // Before the first.
        n if n < -count => -1,
        n if n < 0 => count + n,
        n if change.fills_gaps().is_some() => n,
        n => n.min(count),
    };
    if (place < 0 || count == 0)
        && let Some(new) = change.created().filter(|_| is_last)
    {
        if change.fills_gaps().is_some() {
            nulls(out, place, limits)?;
        }
        out.node(new);
        return Ok((None, 0));
    }
    let before = usize::try_from(place).unwrap_or(usize::MAX).min(list.len());
    for i in 0..before {
        out.node(list.raw(i)?);
        out.turn(limits)?;
    }
    if before == list.len() || place < 0 {
        // There is none at the place.
        let gap = if change.fills_gaps().is_some() { (place - count).max(0) } else { 0 };
        if let Some(new) = change.created().filter(|_| is_last) {
            nulls(out, gap, limits)?;
            out.node(new);
        } else if let Some(new) = change.fills_gaps() {
            nulls(out, gap, limits)?;
            chain(out, path, level + 1, new, limits)?;
        }
        return Ok((None, before));
    }
    let item = list.raw(before)?;
    if !is_last {
        return Ok((Some(item), before + 1));
    }
    match change {
        Change::Set { new, .. } | Change::Assign { new } => out.node(new),
        Change::Insert { new, after } => {
            let [first, second] = if after { [item, new] } else { [new, item] };
            out.node(first);
            out.node(second);
        }
        Change::Delete => {}
    }
    Ok((None, before + 1))
}

/// Two values joined.
pub(super) fn joined(a: &[u8], b: &[u8], limits: &Limits<'_>) -> SqlResult<Value> {
    let mut out = Builder::new();
    let sides = [a, b].map(|v| stored::root(v).and_then(|r| Ok((r, Node::read(r)?))));
    let [(x, a), (y, b)] = match sides {
        [Ok(a), Ok(b)] => [a, b],
        [Err(e), _] | [_, Err(e)] => return Err(e),
    };
    if let (Node::Object(a), Node::Object(b)) = (&a, &b) {
        out.object_start()?;
        for pairs in [a, b] {
            for i in 0..pairs.len() {
                out.key(pairs.key(i)?)?;
                out.node(pairs.raw(i)?);
                out.turn(limits)?;
            }
        }
        out.end();
        return out.finish(limits);
    }
    out.array_start()?;
    for (raw, node) in [(x, a), (y, b)] {
        match node {
            Node::Array(list) => {
                for i in 0..list.len() {
                    out.node(list.raw(i)?);
                    out.turn(limits)?;
                }
            }
            _ => out.node(raw),
        }
    }
    out.end();
    out.finish(limits)
}

/// Without the pairs of some keys, or the strings that are items.
pub(super) fn without_keys(value: &[u8], keys: &[&str], limits: &Limits<'_>) -> SqlResult<Value> {
    let mut out = Builder::new();
    match Node::of(value)? {
        Node::Object(pairs) => {
            out.object_start()?;
            for i in 0..pairs.len() {
                let key = pairs.key(i)?;
                if !keys.contains(&key) {
                    out.key(key)?;
                    out.node(pairs.raw(i)?);
                }
                limits.turn(i)?;
            }
        }
        Node::Array(list) => {
            out.array_start()?;
            for i in 0..list.len() {
                let is_one = matches!(list.item(i)?, Node::String(s) if keys.contains(&s));
                if !is_one {
                    out.node(list.raw(i)?);
                }
                limits.turn(i)?;
            }
        }
        _ => return Err(wrong("cannot delete from scalar")),
    }
    out.end();
    out.finish(limits)
}

/// Without the item at a place.
pub(super) fn without_item(value: &[u8], place: i32, limits: &Limits<'_>) -> SqlResult<Value> {
    let mut out = Builder::new();
    let list = match Node::of(value)? {
        Node::Array(list) => list,
        Node::Object(_) => return Err(wrong("cannot delete from object using integer index")),
        _ => return Err(wrong("cannot delete from scalar")),
    };
    let left_out = list.place(place.into());
    out.array_start()?;
    for i in (0..list.len()).filter(|i| Some(*i) != left_out) {
        out.node(list.raw(i)?);
        out.turn(limits)?;
    }
    out.end();
    out.finish(limits)
}

/// Without the pairs whose values are null.
pub(super) fn without_nulls(value: &[u8], limits: &Limits<'_>) -> SqlResult<Value> {
    let mut key = None;
    of_steps(value, limits, |out, step| {
        if let Step::Key(k) = step {
            key = Some(k);
            return Ok(());
        }
        if let Some(k) = key.take() {
            if let Step::Scalar(Node::Null) = step {
                return Ok(());
            }
            out.key(k)?;
        }
        out.step(step)
    })
}

/// The error of a path of more than one dimension.
pub(super) fn wrong_subscripts() -> SqlError {
    SqlError::new(state::ARRAY_SUBSCRIPT_ERROR, "wrong number of array subscripts")
}

/// A comparison that is going on: what is to be contained, and how far it was found.
enum Frame<'a> {
    Pairs {
        of: Pairs<'a>,
        wanted: Pairs<'a>,
        at: usize,
    },
    /// The item that is wanted, and the candidate for it.
    Items {
        of: List<'a>,
        wanted: List<'a>,
        at: usize,
        candidate: usize,
    },
}

/// Whether a value contains another: all of its pairs, or all of its items in any order and number; an array
/// contains a scalar that is an item.
pub(super) fn contains(value: &[u8], wanted: &[u8], limits: &Limits<'_>) -> SqlResult<bool> {
    let (value, wanted) = (stored::root(value)?, stored::root(wanted)?);
    match (Node::read(value)?, Node::read(wanted)?) {
        (Node::Array(list), node) if node.is_scalar() => return has_scalar(&list, &node),
        (a, b) if a.is_scalar() && b.is_scalar() => return Ok(order::of_scalars(&a, &b).is_eq()),
        _ => {}
    }
    let Some(first) = frame(value, wanted)? else { return Ok(false) };
    let mut frames = vec![first];
    // What the comparison that has ended last has come to.
    let mut answer: Option<bool> = None;
    let mut turns = 0;
    while let Some(top) = frames.last_mut() {
        turns += 1;
        limits.turn(turns)?;
        let next = match top {
            Frame::Pairs { of, wanted, at } => match answer.take() {
                Some(false) => Compared::Answer(false),
                Some(true) => {
                    *at += 1;
                    pair(of, wanted, *at)?
                }
                None => pair(of, wanted, *at)?,
            },
            Frame::Items { of, wanted, at, candidate } => {
                match answer.take() {
                    Some(true) => (*at, *candidate) = (*at + 1, 0),
                    Some(false) => *candidate += 1,
                    None => {}
                }
                item(of, wanted, *at, candidate)?
            }
        };
        match next {
            Compared::Answer(is_contained) => {
                // One pair, or one item, was scalar and found: it goes on in the same frame.
                frames.pop();
                answer = Some(is_contained);
            }
            Compared::Found => answer = Some(true),
            Compared::Within(frame) => frames.push(frame),
        }
    }
    Ok(answer == Some(true))
}

enum Compared<'a> {
    /// Of the whole frame.
    Answer(bool),
    /// The pair or item at hand is there.
    Found,
    /// It is there if this comes to it.
    Within(Frame<'a>),
}

/// The comparison of two nodes that are both arrays, or both objects; `None` of others.
fn frame<'a>(of: &'a [u8], wanted: &'a [u8]) -> SqlResult<Option<Frame<'a>>> {
    Ok(match (Node::read(of)?, Node::read(wanted)?) {
        (Node::Object(of), Node::Object(wanted)) => Some(Frame::Pairs { of, wanted, at: 0 }),
        (Node::Array(of), Node::Array(wanted)) => Some(Frame::Items { of, wanted, at: 0, candidate: 0 }),
        _ => None,
    })
}

fn pair<'a>(of: &Pairs<'a>, wanted: &Pairs<'a>, at: usize) -> SqlResult<Compared<'a>> {
    if at >= wanted.len() {
        return Ok(Compared::Answer(true));
    }
    let Some(i) = of.find(wanted.key(at)?)? else { return Ok(Compared::Answer(false)) };
    let (a, b) = (of.value(i)?, wanted.value(at)?);
    if a.is_scalar() && b.is_scalar() {
        let is_same = order::of_scalars(&a, &b).is_eq();
        return Ok(if is_same { Compared::Found } else { Compared::Answer(false) });
    }
    Ok(frame(of.raw(i)?, wanted.raw(at)?)?.map_or(Compared::Answer(false), Compared::Within))
}

fn item<'a>(of: &List<'a>, wanted: &List<'a>, at: usize, candidate: &mut usize) -> SqlResult<Compared<'a>> {
    if at >= wanted.len() {
        return Ok(Compared::Answer(true));
    }
    let node = wanted.item(at)?;
    if node.is_scalar() {
        return Ok(if has_scalar(of, &node)? { Compared::Found } else { Compared::Answer(false) });
    }
    while *candidate < of.len() {
        if let Some(frame) = frame(of.raw(*candidate)?, wanted.raw(at)?)? {
            return Ok(Compared::Within(frame));
        }
        *candidate += 1;
    }
    Ok(Compared::Answer(false))
}

fn has_scalar(list: &List<'_>, wanted: &Node<'_>) -> SqlResult<bool> {
    for i in 0..list.len() {
        let item = list.item(i)?;
        if item.is_scalar() && order::of_scalars(&item, wanted).is_eq() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a string is a key of an object, an item of an array, or the value itself.
pub(super) fn has_key(value: &[u8], key: &str) -> SqlResult<bool> {
    match Node::of(value)? {
        Node::Object(pairs) => Ok(pairs.find(key)?.is_some()),
        Node::Array(list) => has_scalar(&list, &Node::String(key)),
        Node::String(s) => Ok(s == key),
        _ => Ok(false),
    }
}
