//! A value of type jsonb that is being made.
//!
//! What is put in is kept in the order in which it comes, and brought into the stored form (json/stored) at
//! the end: from the last to the first it is found how long and how deep each is, and which pairs an object
//! has, of those with one key the last; then all is written, from the first to the last.

use super::MAX_DEPTH;
use super::lex::too_deep;
use super::parse::{Parser, Part};
use super::stored::{self, ARRAY, FALSE, NULL, NUMBER, Node, OBJECT, STRING, Step, TRUE, Walk, key_order};
use crate::limits::Limits;
use crate::{Numeric, SqlError, SqlResult, Value, sqlstate};

/// A key, before its value.
const KEY: u8 = 100;
/// A whole node.
const WHOLE: u8 = 101;
/// The most bytes of a string, and of what is within an array or an object.
const MOST: usize = 0x0fff_ffff;
/// After so many entries it is asked whether to go on.
const TURN: usize = 4096;

#[derive(Clone, Copy, Debug)]
struct Entry {
    tag: u8,
    depth: u16,
    /// Where its bytes are in the pool; of an object, in the end, where its pairs are in the list of those.
    start: usize,
    /// How many there are.
    len: usize,
    /// Behind the last that is within it.
    next: usize,
    /// Its bytes in the stored form.
    size: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Builder {
    entries: Vec<Entry>,
    pool: Vec<u8>,
    open: Vec<usize>,
}

fn too_long(what: &str) -> SqlError {
    let message = format!("total size of jsonb {what} elements exceeds the maximum of {MOST} bytes");
    SqlError::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, message)
}

impl Builder {
    pub fn new() -> Builder {
        Builder { entries: Vec::new(), pool: Vec::new(), open: Vec::new() }
    }

    /// The memory that is taken.
    pub fn bytes(&self) -> usize {
        self.pool.len() + self.entries.len() * size_of::<Entry>()
    }

    fn push(&mut self, tag: u8, bytes: &[u8]) {
        let (start, next) = (self.pool.len(), self.entries.len() + 1);
        self.pool.extend_from_slice(bytes);
        self.entries.push(Entry { tag, depth: 0, start, len: bytes.len(), next, size: 0 })
    }

    fn start(&mut self, tag: u8) -> SqlResult<()> {
        if self.open.len() >= MAX_DEPTH {
            return Err(too_deep());
        }
        self.open.push(self.entries.len());
        self.push(tag, &[]);
        Ok(())
    }
    pub fn array_start(&mut self) -> SqlResult<()> {
        self.start(ARRAY)
    }
    pub fn object_start(&mut self) -> SqlResult<()> {
        self.start(OBJECT)
    }
    /// Ends what was started last.
    pub fn end(&mut self) {
        if let Some(open) = self.open.pop() {
            self.entries[open].next = self.entries.len()
        }
    }
    /// A key; the value follows.
    pub fn key(&mut self, key: &str) -> SqlResult<()> {
        let key = checked(key)?;
        self.push(KEY, key);
        Ok(())
    }
    pub fn string(&mut self, s: &str) -> SqlResult<()> {
        let s = checked(s)?;
        self.push(STRING, s);
        Ok(())
    }
    pub fn bool(&mut self, b: bool) {
        self.push(if b { TRUE } else { FALSE }, &[])
    }
    pub fn null(&mut self) {
        self.push(NULL, &[])
    }
    /// A number; of one that JSON has not, its text.
    pub fn number(&mut self, n: &Numeric) -> SqlResult<()> {
        if n.is_nan() || n.is_infinite() {
            return self.string(&n.to_string());
        }
        let mut bytes = Vec::new();
        n.encode(&mut bytes);
        self.push(NUMBER, &bytes);
        Ok(())
    }
    /// A node that is made already.
    pub fn node(&mut self, node: &[u8]) {
        self.push(WHOLE, node)
    }

    /// What a text of JSON has.
    pub fn text(&mut self, text: &str, limits: &Limits<'_>) -> SqlResult<()> {
        let mut parser = Parser::new(text, true);
        let before = self.open.len();
        while let Some(part) = parser.next()? {
            if part.is_start() && before + parser.depth() > MAX_DEPTH {
                return Err(too_deep());
            }
            self.part(part)?;
            self.turn(limits)?;
        }
        Ok(())
    }

    /// A part of a text of JSON.
    pub fn part(&mut self, part: Part<'_>) -> SqlResult<()> {
        match part {
            Part::ArrayStart => self.array_start()?,
            Part::ObjectStart => self.object_start()?,
            Part::ArrayEnd | Part::ObjectEnd => self.end(),
            Part::Key(key) => self.key(&key)?,
            Part::String(s) => self.string(&s)?,
            Part::Number(n) => self.number(&Numeric::parse(n)?)?,
            Part::Bool(b) => self.bool(b),
            Part::Null => self.null(),
        }
        Ok(())
    }

    /// A step of a way through another value.
    pub fn step(&mut self, step: Step<'_>) -> SqlResult<()> {
        match step {
            Step::Array(_) => self.array_start()?,
            Step::Object(_) => self.object_start()?,
            Step::End => self.end(),
            Step::Key(key) => self.key(key)?,
            Step::Scalar(Node::String(s)) => self.string(s)?,
            Step::Scalar(Node::Number(n)) => self.push(NUMBER, n),
            Step::Scalar(Node::Bool(b)) => self.bool(b),
            Step::Scalar(_) => self.null(),
        }
        Ok(())
    }

    /// To be called now and then: charges what was put in, and asks whether to go on.
    pub fn turn(&self, limits: &Limits<'_>) -> SqlResult<()> {
        if self.entries.len().is_multiple_of(TURN) && !self.entries.is_empty() {
            limits.take(TURN * size_of::<Entry>())?;
            limits.turn(TURN)?;
        }
        Ok(())
    }

    /// The value.
    pub fn finish(mut self, limits: &Limits<'_>) -> SqlResult<Value> {
        let entries = std::mem::take(&mut self.entries);
        self.made_of(entries, limits)
    }

    /// The value so far, of which the outermost array or object may be open.
    pub fn so_far(&self, limits: &Limits<'_>) -> SqlResult<Value> {
        let mut entries = self.entries.clone();
        let next = entries.len();
        self.open.iter().for_each(|n| entries[*n].next = next);
        self.made_of(entries, limits)
    }

    fn made_of(&self, mut entries: Vec<Entry>, limits: &Limits<'_>) -> SqlResult<Value> {
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        for n in (0..entries.len()).rev() {
            if n.is_multiple_of(TURN) {
                limits.turn(n)?;
            }
            let entry = self.measured(&entries, n, &mut pairs)?;
            entries[n] = entry;
        }
        let Some(root) = entries.first() else { return Ok(stored::of_node(&[NULL])) };
        let size = 1 + root.size;
        limits.take(size)?;
        let mut out = Vec::with_capacity(size);
        out.push(stored::VERSION);
        let mut left = vec![0];
        while let Some(n) = left.pop() {
            self.write(&entries, n, &pairs, &mut left, &mut out);
        }
        Ok(Value::Opaque(crate::TypeId::JSONB, out.into()))
    }

    /// Puts what is within the outermost, open array or object of another behind what is in this one's.
    pub fn append(&mut self, other: &Builder) {
        let (entries, pool) = (self.entries.len(), self.pool.len());
        self.pool.extend_from_slice(&other.pool);
        self.entries.extend(other.entries.iter().skip(1).map(|e| Entry {
            start: e.start + pool,
            next: e.next + entries - 1,
            ..*e
        }));
    }

    /// Finds the size and the depth of an entry, of which all that is within it has them already.
    fn measured(&self, entries: &[Entry], n: usize, pairs: &mut Vec<(usize, usize)>) -> SqlResult<Entry> {
        let entry = entries[n];
        let (mut depth, mut size, mut start, mut len) = (0, 0, entry.start, entry.len);
        match entry.tag {
            ARRAY => {
                (len, size) = (0, 7);
                let mut at = n + 1;
                while at < entry.next {
                    let item = &entries[at];
                    (size, depth, len) = (size + 4 + item.size, depth.max(item.depth), len + 1);
                    at = item.next;
                }
                depth += 1;
                if size > MOST {
                    return Err(too_long("array"));
                }
            }
            OBJECT => {
                start = pairs.len();
                let mut at = n + 1;
                while at + 1 < entry.next {
                    pairs.push((at, at + 1));
                    at = entries[at + 1].next;
                }
                let key = |p: &(usize, usize)| {
                    let key = &entries[p.0];
                    &self.pool[key.start..key.start + key.len]
                };
                // Of those with one key the last is first, and stays.
                pairs[start..].sort_by(|a, b| key_order(key(a), key(b)).then(b.0.cmp(&a.0)));
                let mut kept = start;
                for i in start..pairs.len() {
                    if kept == start || key(&pairs[kept - 1]) != key(&pairs[i]) {
                        pairs[kept] = pairs[i];
                        kept += 1;
                    }
                }
                pairs.truncate(kept);
                (len, size) = (kept - start, 7);
                for (key, value) in &pairs[start..] {
                    let value = &entries[*value];
                    (size, depth) = (size + 8 + entries[*key].len + value.size, depth.max(value.depth));
                }
                depth += 1;
                if size > MOST {
                    return Err(too_long("object"));
                }
            }
            WHOLE => {
                let node = Node::read(&self.pool[entry.start..entry.start + entry.len])?;
                (size, depth) = (entry.len, node.depth() as u16);
            }
            KEY => {}
            _ => size = 1 + entry.len,
        }
        if usize::from(depth) > MAX_DEPTH {
            return Err(too_deep());
        }
        Ok(Entry { depth, size, start, len, ..entry })
    }

    /// Appends an entry as far as it does not lie in others; these are put on the list of what is to be
    /// written next.
    fn write(
        &self,
        entries: &[Entry],
        n: usize,
        pairs: &[(usize, usize)],
        left: &mut Vec<usize>,
        out: &mut Vec<u8>,
    ) {
        let entry = &entries[n];
        let head = |out: &mut Vec<u8>| {
            out.push(entry.tag);
            out.extend_from_slice(&entry.depth.to_le_bytes());
            out.extend_from_slice(&(entry.len as u32).to_le_bytes());
        };
        let put_end = |end: &mut u32, size: usize, out: &mut Vec<u8>| {
            *end += size as u32;
            out.extend_from_slice(&end.to_le_bytes());
        };
        match entry.tag {
            ARRAY => {
                head(out);
                let (mut at, mut end, first) = (n + 1, 0, left.len());
                while at < entry.next {
                    put_end(&mut end, entries[at].size, out);
                    left.push(at);
                    at = entries[at].next;
                }
                left[first..].reverse();
            }
            OBJECT => {
                head(out);
                let pairs = &pairs[entry.start..entry.start + entry.len];
                let mut end = 0;
                pairs.iter().for_each(|(key, _)| put_end(&mut end, entries[*key].len, out));
                end = 0;
                pairs.iter().for_each(|(_, value)| put_end(&mut end, entries[*value].size, out));
                for (key, _) in pairs {
                    let key = &entries[*key];
                    out.extend_from_slice(&self.pool[key.start..key.start + key.len]);
                }
                left.extend(pairs.iter().rev().map(|(_, value)| *value));
            }
            tag => {
                if tag != WHOLE {
                    out.push(tag);
                }
                out.extend_from_slice(&self.pool[entry.start..entry.start + entry.len]);
            }
        }
    }
}

/// The bytes of a string, if it is not too long.
fn checked(s: &str) -> SqlResult<&[u8]> {
    if s.len() > MOST {
        let message = "string too long to represent as jsonb string";
        let detail =
            format!("Due to an implementation restriction, jsonb strings cannot exceed {MOST} bytes.");
        return Err(SqlError::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, message).detail(detail));
    }
    Ok(s.as_bytes())
}

/// The value that a text of JSON is.
pub(super) fn of_text(text: &str, limits: &Limits<'_>) -> SqlResult<Value> {
    let mut out = Builder::new();
    out.text(text, limits)?;
    out.finish(limits)
}

/// Another value made of one, by what is done with each step of the way through it.
pub(super) fn of_steps<'a>(
    value: &'a [u8],
    limits: &Limits<'_>,
    mut each: impl FnMut(&mut Builder, Step<'a>) -> SqlResult<()>,
) -> SqlResult<Value> {
    let (mut walk, mut out) = (Walk::of(value)?, Builder::new());
    while let Some(step) = walk.next()? {
        each(&mut out, step)?;
        out.turn(limits)?;
    }
    out.finish(limits)
}
