//! The order of values of type jsonb, and their keys.
//!
//! null < strings < numbers < booleans < arrays < objects. Of two arrays or objects the one that has less is
//! less; then items, or pairs, are compared in turn. An array without items that is no part of another value
//! is less than all else, since PostgreSQL takes a value that is no array there for one with one item.

use super::stored::{Node, Step, Walk};
use crate::{Numeric, SqlResult, TypeId, ValueRef, key};
use std::cmp::Ordering;

const EMPTY: u8 = 1;

fn rank(node: &Node<'_>) -> u8 {
    match node {
        Node::Null => 2,
        Node::String(_) => 3,
        Node::Number(_) => 4,
        Node::Bool(_) => 5,
        Node::Array(_) => 6,
        Node::Object(_) => 7,
    }
}

pub(super) fn of_scalars(a: &Node<'_>, b: &Node<'_>) -> Ordering {
    match (a, b) {
        (Node::String(a), Node::String(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Node::Number(a), Node::Number(b)) => Numeric::cmp_encoded(a, b),
        (Node::Bool(a), Node::Bool(b)) => a.cmp(b),
        _ => rank(a).cmp(&rank(b)),
    }
}

fn is_empty_array(value: &[u8]) -> bool {
    matches!(Node::of(value), Ok(Node::Array(list)) if list.len() == 0)
}

/// The order of two values; of what is damaged, null (json/stored/J5).
pub(super) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    match (is_empty_array(a), is_empty_array(b)) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => of_ways(Walk::of(a).ok(), Walk::of(b).ok()),
    }
}

fn of_ways(mut a: Option<Walk<'_>>, mut b: Option<Walk<'_>>) -> Ordering {
    fn next<'a>(walk: &mut Option<Walk<'a>>) -> Option<Step<'a>> {
        walk.as_mut().and_then(|w| w.next().unwrap_or(Some(Step::Scalar(Node::Null))))
    }
    // Damage leads nowhere on.
    let place = |s: &Step<'_>| match s {
        Step::Scalar(node) => rank(node),
        Step::Array(_) => 6,
        Step::Object(_) => 7,
        Step::Key(_) => 1,
        Step::End => 0,
    };
    loop {
        let order = match (next(&mut a), next(&mut b)) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(x), Some(y)) => match (x, y) {
                (Step::Array(n), Step::Array(m)) | (Step::Object(n), Step::Object(m)) => n.cmp(&m),
                (Step::Key(x), Step::Key(y)) => x.as_bytes().cmp(y.as_bytes()),
                (Step::Scalar(x), Step::Scalar(y)) => of_scalars(&x, &y),
                (x, y) => place(&x).cmp(&place(&y)),
            },
        };
        if order.is_ne() {
            return order;
        }
    }
}

/// Appends the key of a value, which ends itself since it tells how much follows.
pub(super) fn push_key(value: &[u8], out: &mut Vec<u8>) {
    if is_empty_array(value) {
        return out.push(EMPTY);
    }
    let start = out.len();
    if push_steps(value, out).is_err() {
        out.truncate(start);
        out.push(rank(&Node::Null));
    }
}

fn push_steps(value: &[u8], out: &mut Vec<u8>) -> SqlResult<()> {
    let mut walk = Walk::of(value)?;
    let string =
        |s: &str, out: &mut Vec<u8>| key::encode(ValueRef::Text(s), TypeId::TEXT, false, false, true, out);
    while let Some(step) = walk.next()? {
        match step {
            Step::Array(n) | Step::Object(n) => {
                out.push(if matches!(step, Step::Array(_)) { 6 } else { 7 });
                out.extend_from_slice(&(n as u32).to_be_bytes());
            }
            Step::Key(k) => string(k, out),
            Step::End => {}
            Step::Scalar(node) => {
                out.push(rank(&node));
                match node {
                    Node::String(s) => string(s, out),
                    Node::Number(n) => {
                        key::encode(ValueRef::Numeric(n), TypeId::NUMERIC, false, false, true, out)
                    }
                    Node::Bool(b) => out.push(b.into()),
                    _ => {}
                }
            }
        }
    }
    Ok(())
}
