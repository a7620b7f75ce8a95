//! How a value of type jsonb lies in bytes, and how it is read there.
//!
//! ```text
//! value   version u8, which is 1 | node
//! node    0                                      null
//!         1 | 2                                  false, true
//!         3 | characters                         a string
//!         4 | a NUMERIC, as it is stored         a number
//!         5 | depth u16 | count u32 | end u32 for each item | the items' nodes
//!         6 | depth u16 | count u32 | end u32 for each key | end u32 for each value | keys | values' nodes
//! ```
//!
//! - **J1** Ends are counted from the start of the first item, key or value on, so that any is found at once,
//!   without looking at the others. What a node takes is told by what it stands in. Numbers have their lowest
//!   byte first.
//! - **J2** The keys of an object are different, and stand in order: shorter ones first, those of one length
//!   by their bytes. So one is found by looking at few.
//! - **J3** The depth is how many arrays and objects are within each other there, and not more than
//!   [`MAX_DEPTH`]: what is written as text can be read back.
//! - **J4** A number is finite. A string has no zero byte.
//! - **J5** Whatever a damaged file holds, no function panics or recurs: reading a node looks at no more than
//!   its head, and tells of bytes that are none. What cannot tell shows null.
//!
//! The form is stored: another one gets another version, and this one stays readable.

use super::MAX_DEPTH;
use crate::{Numeric, SqlError, SqlResult, TypeId, Value, sqlstate};

pub(super) const VERSION: u8 = 1;
pub(super) const NULL: u8 = 0;
pub(super) const FALSE: u8 = 1;
pub(super) const TRUE: u8 = 2;
pub(super) const STRING: u8 = 3;
pub(super) const NUMBER: u8 = 4;
pub(super) const ARRAY: u8 = 5;
pub(super) const OBJECT: u8 = 6;

#[cold]
fn damaged() -> SqlError {
    SqlError::new(sqlstate::DATA_CORRUPTED, "a value of type jsonb is damaged")
}

/// A node, read as far as its head.
#[derive(Clone, Copy, Debug)]
pub(super) enum Node<'a> {
    Null,
    Bool(bool),
    String(&'a str),
    /// As NUMERICs are stored.
    Number(&'a [u8]),
    Array(List<'a>),
    Object(Pairs<'a>),
}

/// The items of an array.
#[derive(Clone, Copy, Debug)]
pub(super) struct List<'a> {
    depth: u16,
    ends: &'a [[u8; 4]],
    items: &'a [u8],
}

/// The keys and values of an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pairs<'a> {
    depth: u16,
    key_ends: &'a [[u8; 4]],
    ends: &'a [[u8; 4]],
    keys: &'a [u8],
    values: &'a [u8],
}

fn end(ends: &[[u8; 4]], i: usize) -> usize {
    ends.get(i).map_or(0, |e| u32::from_le_bytes(*e) as usize)
}

/// What lies between an end and the one before it.
fn within<'a>(ends: &[[u8; 4]], data: &'a [u8], i: usize) -> SqlResult<&'a [u8]> {
    let start = i.checked_sub(1).map_or(0, |before| end(ends, before));
    if i < ends.len() { data.get(start..end(ends, i)).ok_or_else(damaged) } else { Err(damaged()) }
}

fn characters(bytes: &[u8]) -> SqlResult<&str> {
    std::str::from_utf8(bytes).map_err(|_| damaged())
}

/// The order of an object's keys (J2).
pub(super) fn key_order(a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

/// The node that a value is.
pub(super) fn root(value: &[u8]) -> SqlResult<&[u8]> {
    match value {
        [VERSION, node @ ..] => Ok(node),
        _ => Err(damaged()),
    }
}

/// The value that a node is.
pub(super) fn of_node(node: &[u8]) -> Value {
    let mut bytes = Vec::with_capacity(1 + node.len());
    bytes.push(VERSION);
    bytes.extend_from_slice(node);
    Value::Opaque(TypeId::JSONB, bytes.into())
}

impl<'a> Node<'a> {
    pub fn read(bytes: &'a [u8]) -> SqlResult<Node<'a>> {
        let (tag, rest) = bytes.split_first().ok_or_else(damaged)?;
        let node = match *tag {
            NULL => Node::Null,
            FALSE => Node::Bool(false),
            TRUE => Node::Bool(true),
            STRING => Node::String(characters(rest)?),
            NUMBER => Node::Number(rest),
            ARRAY | OBJECT => {
                let (head, rest) = rest.split_first_chunk::<6>().ok_or_else(damaged)?;
                let depth = u16::from_le_bytes([head[0], head[1]]);
                let count = u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize;
                let bytes = count.checked_mul(4).ok_or_else(damaged)?;
                let (first, rest) = rest.split_at_checked(bytes).ok_or_else(damaged)?;
                let first = first.as_chunks().0;
                if *tag == ARRAY {
                    Node::Array(List { depth, ends: first, items: rest })
                } else {
                    let (second, rest) = rest.split_at_checked(bytes).ok_or_else(damaged)?;
                    let keys = count.checked_sub(1).map_or(0, |last| end(first, last));
                    let (keys, values) = rest.split_at_checked(keys).ok_or_else(damaged)?;
                    Node::Object(Pairs { depth, key_ends: first, ends: second.as_chunks().0, keys, values })
                }
            }
            _ => return Err(damaged()),
        };
        Ok(node)
    }

    /// The node of a value.
    pub fn of(value: &'a [u8]) -> SqlResult<Node<'a>> {
        Node::read(root(value)?)
    }

    pub fn is_scalar(&self) -> bool {
        !matches!(self, Node::Array(_) | Node::Object(_))
    }

    /// How deeply arrays and objects are nested in it.
    pub fn depth(&self) -> usize {
        match self {
            Node::Array(List { depth, .. }) | Node::Object(Pairs { depth, .. }) => usize::from(*depth),
            _ => 0,
        }
    }

    /// As jsonb_typeof calls it.
    pub fn kind(&self) -> &'static str {
        match self {
            Node::Null => "null",
            Node::Bool(_) => "boolean",
            Node::String(_) => "string",
            Node::Number(_) => "number",
            Node::Array(_) => "array",
            Node::Object(_) => "object",
        }
    }
}

impl<'a> List<'a> {
    pub fn len(&self) -> usize {
        self.ends.len()
    }
    /// An item's bytes.
    pub fn raw(&self, i: usize) -> SqlResult<&'a [u8]> {
        within(self.ends, self.items, i)
    }
    pub fn item(&self, i: usize) -> SqlResult<Node<'a>> {
        Node::read(self.raw(i)?)
    }
    /// The place of the item that a subscript means, which counts from the end if it is negative.
    pub fn place(&self, subscript: i64) -> Option<usize> {
        place(self.len(), subscript)
    }
}

/// The place that a subscript means among so many, counting from the end if it is negative.
pub(super) fn place(count: usize, subscript: i64) -> Option<usize> {
    let from_end = if subscript < 0 { count as i64 } else { 0 };
    usize::try_from(subscript.checked_add(from_end)?).ok().filter(|n| *n < count)
}

impl<'a> Pairs<'a> {
    pub fn len(&self) -> usize {
        self.ends.len()
    }
    pub fn key(&self, i: usize) -> SqlResult<&'a str> {
        characters(within(self.key_ends, self.keys, i)?)
    }
    /// A value's bytes.
    pub fn raw(&self, i: usize) -> SqlResult<&'a [u8]> {
        within(self.ends, self.values, i)
    }
    pub fn value(&self, i: usize) -> SqlResult<Node<'a>> {
        Node::read(self.raw(i)?)
    }

    /// The place of a key (J2).
    pub fn find(&self, key: &str) -> SqlResult<Option<usize>> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match key_order(within(self.key_ends, self.keys, middle)?, key.as_bytes()) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(Some(middle)),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Ok(None)
    }
}

/// What is met on a way through a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<'a> {
    /// With the number of items, or of pairs.
    Array(usize),
    Object(usize),
    End,
    Key(&'a str),
    Scalar(Node<'a>),
}

/// A way through a value, from its start to its end, which takes memory by the value's depth alone.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    /// Where it begins.
    first: Option<&'a [u8]>,
    /// What is open, and the place that comes next in it.
    open: Vec<(Node<'a>, usize)>,
    /// The value of the key that was met last.
    value: Option<&'a [u8]>,
}

impl<'a> Walk<'a> {
    /// Through a node.
    pub fn new(node: &'a [u8]) -> Walk<'a> {
        Walk { first: Some(node), open: Vec::new(), value: None }
    }

    /// Through a value.
    pub fn of(value: &'a [u8]) -> SqlResult<Walk<'a>> {
        Ok(Walk::new(root(value)?))
    }

    pub fn next(&mut self) -> SqlResult<Option<Step<'a>>> {
        if let Some(node) = self.first.take().or_else(|| self.value.take()) {
            return self.enter(node).map(Some);
        }
        let Some((node, place)) = self.open.last_mut() else { return Ok(None) };
        let i = *place;
        *place += 1;
        match node {
            Node::Array(list) if i < list.len() => {
                let item = list.raw(i)?;
                self.enter(item).map(Some)
            }
            Node::Object(pairs) if i < pairs.len() => {
                self.value = Some(pairs.raw(i)?);
                Ok(Some(Step::Key(pairs.key(i)?)))
            }
            _ => {
                self.open.pop();
                Ok(Some(Step::End))
            }
        }
    }

    fn enter(&mut self, node: &'a [u8]) -> SqlResult<Step<'a>> {
        let node = Node::read(node)?;
        let step = match node {
            Node::Array(list) => Step::Array(list.len()),
            Node::Object(pairs) => Step::Object(pairs.len()),
            scalar => return Ok(Step::Scalar(scalar)),
        };
        self.open.push((node, 0));
        Ok(step)
    }
}

/// Whether bytes that come from outside are a value.
pub(crate) fn is_whole(value: &[u8]) -> bool {
    let ascend = |ends: &[[u8; 4]], all: usize| {
        (1..ends.len()).all(|i| end(ends, i - 1) <= end(ends, i))
            && ends.len().checked_sub(1).map_or(0, |last| end(ends, last)) == all
    };
    let text = |s: &str| !s.contains('\0');
    let mut left: Vec<(&[u8], usize)> = match root(value) {
        Ok(node) => vec![(node, MAX_DEPTH + 1)],
        Err(_) => return false,
    };
    while let Some((bytes, above)) = left.pop() {
        let Ok(node) = Node::read(bytes) else { return false };
        let depth = node.depth();
        let is_good = match node {
            Node::Null | Node::Bool(_) => bytes.len() == 1,
            Node::String(s) => text(s),
            Node::Number(n) => {
                let number = Numeric::decode(n);
                let mut again = Vec::new();
                number.encode(&mut again);
                again == n && !number.is_nan() && !number.is_infinite()
            }
            Node::Array(list) => {
                left.extend((0..list.len()).filter_map(|i| list.raw(i).ok()).map(|b| (b, depth)));
                (1..above).contains(&depth) && ascend(list.ends, list.items.len())
            }
            Node::Object(pairs) => {
                left.extend((0..pairs.len()).filter_map(|i| pairs.raw(i).ok()).map(|b| (b, depth)));
                let keys = || (0..pairs.len()).map(|i| pairs.key(i));
                (1..above).contains(&depth)
                    && ascend(pairs.key_ends, pairs.keys.len())
                    && ascend(pairs.ends, pairs.values.len())
                    && keys().all(|k| k.is_ok_and(text))
                    && keys().zip(keys().skip(1)).all(|(a, b)| match (a, b) {
                        (Ok(a), Ok(b)) => key_order(a.as_bytes(), b.as_bytes()).is_lt(),
                        _ => false,
                    })
            }
        };
        if !is_good {
            return false;
        }
    }
    true
}
