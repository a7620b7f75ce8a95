//! Regular expressions with PostgreSQL's meaning.
//!
//! A text is taken by the match that begins first; of those, the whole expression decides whether the longest
//! or the shortest is meant, and each part takes, from left to right, as much or as little as it prefers.
//!
//! ```text
//! pattern -> lex -> words -> parse -> tree of parts, each with its language -> nfa -> machine
//! ```
//!
//! - **G1** Where a match begins and ends is found by machines of the whole, in a time that grows with the
//!   text's length (its square, at worst) and the expression's. Only for captures and back references is the
//!   tree taken apart over the match.
//! - **G2** Without back references a part's language is exactly what it matches, so taking apart never
//!   goes back over a part that was settled: ends of repetitions that lead nowhere are remembered. With back
//!   references the time may grow exponentially, as everywhere.
//! - **G3** Expressions are compiled once: [`with`] keeps the last ones that a thread used, within
//!   [`KEPT_EXPRESSIONS`] and [`KEPT_BYTES`]. They know nothing of a session.
//! - **G4** Every loop over a text asks whether to go on, and what is made of a long text is charged.
//!
//! Not here: the functions of SQL ([`crate::func::regex`]).
//!
//! Source: PostgreSQL 15's documentation, 9.7.3, its regression tests and its answers.

mod lex;
mod machine;
mod nfa;
mod parse;
mod set;
pub mod similar;

pub use machine::Subject;

use crate::limits::Limits;
use crate::{SqlError, SqlResult};
use machine::{LookMachine, Machine, World};
use nfa::Nfa;
use parse::{Kind, NO_LIMIT, Node, Parsed, REFERS, SHORTER};
use set::Colours;
use std::cell::RefCell;
use std::collections::HashSet;

/// Expressions that a thread keeps, at most.
const KEPT_EXPRESSIONS: usize = 32;
/// What those may take together.
const KEPT_BYTES: usize = 4 << 20;
/// Words that all machines of an expression may keep together, and each at least.
const KEPT_WORDS: usize = 1 << 18;
const LEAST_WORDS: usize = 1 << 10;

/// SQLSTATE 2201B.
pub const INVALID_REGULAR_EXPRESSION: &str = "2201B";

/// What is wrong with an expression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Problem {
    BadPattern,
    BadElement,
    BadClass,
    Escape,
    BackReference,
    Brackets,
    Parentheses,
    Braces,
    BadBound,
    BadRange,
    BadRepeat,
    BadArgument,
    BadOption,
    TooComplex,
}

impl Problem {
    fn words(self) -> &'static str {
        match self {
            Problem::BadPattern => "invalid regexp (reg version 0.8)",
            Problem::BadElement => "invalid collating element",
            Problem::BadClass => "invalid character class",
            Problem::Escape => "invalid escape \\ sequence",
            Problem::BackReference => "invalid backreference number",
            Problem::Brackets => "brackets [] not balanced",
            Problem::Parentheses => "parentheses () not balanced",
            Problem::Braces => "braces {} not balanced",
            Problem::BadBound => "invalid repetition count(s)",
            Problem::BadRange => "invalid character range",
            Problem::BadRepeat => "quantifier operand invalid",
            Problem::BadArgument => "invalid argument to regex function",
            Problem::BadOption => "invalid embedded option",
            Problem::TooComplex => "regular expression is too complex",
        }
    }
    fn error(self) -> SqlError {
        let message = format!("invalid regular expression: {}", self.words());
        SqlError::new(INVALID_REGULAR_EXPRESSION, message)
    }
}

/// How an expression is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flags(u16);

impl Flags {
    pub const EXTENDED: u16 = 1;
    pub const ADVANCED_FEATURES: u16 = 2;
    pub const ADVANCED: u16 = 3;
    pub const QUOTE: u16 = 4;
    pub const IGNORE_CASE: u16 = 8;
    pub const EXPANDED: u16 = 16;
    /// Newlines are not matched by `.` and `[^...]`.
    pub const LINE_STOPS: u16 = 32;
    /// `^` and `$` stand at newlines, too.
    pub const LINE_ANCHORS: u16 = 64;
    pub const NEWLINE: u16 = 96;

    /// An ARE.
    pub const fn new() -> Flags {
        Flags(Self::ADVANCED)
    }
    pub const fn ignoring_case() -> Flags {
        Flags(Self::ADVANCED | Self::IGNORE_CASE)
    }
    /// All bits.
    pub fn has(self, bits: u16) -> bool {
        self.0 & bits == bits
    }
    /// One of the bits.
    pub fn has_any(self, bits: u16) -> bool {
        self.0 & bits != 0
    }
    pub fn set(&mut self, bits: u16) {
        self.0 |= bits;
    }
    pub fn clear(&mut self, bits: u16) {
        self.0 &= !bits;
    }
    /// An option at the start of an ARE.
    fn embedded(&mut self, option: char) -> Option<()> {
        match option {
            'b' => self.clear(Self::ADVANCED | Self::QUOTE),
            'e' => {
                self.set(Self::EXTENDED);
                self.clear(Self::ADVANCED_FEATURES | Self::QUOTE);
            }
            'q' => {
                self.set(Self::QUOTE);
                self.clear(Self::ADVANCED);
            }
            other => return self.common(other),
        }
        Some(())
    }
    fn common(&mut self, option: char) -> Option<()> {
        match option {
            'c' => self.clear(Self::IGNORE_CASE),
            'i' => self.set(Self::IGNORE_CASE),
            'm' | 'n' => self.set(Self::NEWLINE),
            'p' => {
                self.set(Self::LINE_STOPS);
                self.clear(Self::LINE_ANCHORS);
            }
            's' => self.clear(Self::NEWLINE),
            't' => self.clear(Self::EXPANDED),
            'w' => {
                self.clear(Self::LINE_STOPS);
                self.set(Self::LINE_ANCHORS);
            }
            'x' => self.set(Self::EXPANDED),
            _ => return None,
        }
        Some(())
    }
    /// An option that a function is given.
    pub fn option(&mut self, option: char) -> Option<()> {
        match option {
            // PostgreSQL means an ERE by `e`, and makes a BRE of it.
            'b' | 'e' => self.clear(Self::ADVANCED | Self::QUOTE),
            'q' => {
                self.set(Self::QUOTE);
                self.clear(Self::ADVANCED);
            }
            other => return self.common(other),
        }
        Some(())
    }
}

impl Default for Flags {
    fn default() -> Flags {
        Flags::new()
    }
}

/// Where a match or a capture lies, in characters.
pub type Span = (usize, usize);

/// A compiled expression, with what its machines have learned of texts.
#[derive(Debug)]
pub struct Regex {
    parsed: Parsed,
    colours: Colours,
    /// Finds out whether there is a match.
    search: Machine,
    /// Of each node of the tree, once it is wanted.
    machines: Vec<Option<Machine>>,
    looks: Vec<LookMachine>,
    most_words: usize,
    /// Without its machines.
    bytes: usize,
}

impl Regex {
    pub fn new(pattern: &str, flags: Flags, limits: &Limits<'_>) -> SqlResult<Regex> {
        if flags.has(Flags::QUOTE) && flags.has_any(Flags::ADVANCED | Flags::EXPANDED | Flags::NEWLINE) {
            return Err(Problem::BadArgument.error());
        }
        limits.take(pattern.len().saturating_mul(64))?;
        let chars: Vec<char> = pattern.chars().collect();
        let parsed = parse::parse(&chars, flags).map_err(Problem::error)?;
        let colours =
            Colours::new(&parsed.sets, parsed.newline.map(usize::from), parsed.word.map(usize::from));
        let language = parsed.nodes[parsed.root as usize].language;
        let nfa = Nfa::new(&parsed.languages, language).map_err(Problem::error)?;
        let bytes = pattern.len() * 64 + colours.bytes();
        let most_words = (KEPT_WORDS / (parsed.nodes.len() + parsed.looks.len() + 1)).max(LEAST_WORDS);
        let mut looks = vec![];
        for look in &parsed.looks {
            let nfa = Nfa::new(&parsed.languages, look.language).map_err(Problem::error)?;
            limits.take(2 * nfa.bytes())?;
            looks.push(LookMachine::new(*look, nfa, &colours, most_words));
        }
        limits.take(bytes + 2 * nfa.bytes() + KEPT_WORDS * size_of::<u32>())?;
        let search = Machine::new(nfa, true, &colours, most_words);
        let machines = parsed.nodes.iter().map(|_| None).collect();
        Ok(Regex { parsed, colours, search, machines, looks, most_words, bytes })
    }

    /// What it takes now.
    fn bytes(&self) -> usize {
        let machines = self.machines.iter().flatten().map(Machine::bytes).sum::<usize>();
        let looks = self.looks.iter().map(LookMachine::bytes).sum::<usize>();
        self.bytes + self.search.bytes() + machines + looks
    }

    /// Captures in the expression.
    pub fn captures(&self) -> usize {
        self.parsed.captures as usize
    }

    /// Whether there is a match.
    pub fn is_match(&mut self, text: &Subject<'_>, limits: &Limits<'_>) -> SqlResult<bool> {
        if self.parsed.refers {
            return self.find(text, 0, 1, limits).map(|found| found.is_some());
        }
        let mut world = self.begin(text, limits);
        let Regex { search, colours, looks, .. } = self;
        search.shortest(0, 0, text.len(), colours, &mut world, looks).map(|found| found.is_some())
    }

    fn begin<'a>(&mut self, text: &'a Subject<'a>, limits: &'a Limits<'a>) -> World<'a> {
        self.looks.iter_mut().for_each(LookMachine::reset);
        World::new(text, limits)
    }

    /// The first match that begins at `from` or behind it: its place, and those of its captures as far as
    /// they are `wanted` (the match itself is one).
    pub fn find(
        &mut self,
        text: &Subject<'_>,
        from: usize,
        wanted: usize,
        limits: &Limits<'_>,
    ) -> SqlResult<Option<Vec<Option<Span>>>> {
        if from > text.len() {
            return Ok(None);
        }
        let world = self.begin(text, limits);
        let groups = vec![None; self.captures() + 1];
        let mut run = Run { regex: self, world, groups };
        let found = if run.regex.parsed.refers { run.find_referring(from)? } else { run.find_plain(from)? };
        let Some((begin, end)) = found else { return Ok(None) };
        if wanted > 1 && !run.regex.parsed.refers {
            let root = run.regex.parsed.root;
            run.take_apart(root, begin, end)?;
        }
        let mut groups = run.groups;
        groups[0] = Some((begin, end));
        groups.truncate(wanted.max(1));
        Ok(Some(groups))
    }

    /// Compiles the machine of a node, if it was not yet.
    fn machine(&mut self, node: u32, limits: &Limits<'_>) -> SqlResult<()> {
        let machine = &mut self.machines[node as usize];
        if machine.is_none() {
            let language = self.parsed.nodes[node as usize].language;
            let nfa = Nfa::new(&self.parsed.languages, language).map_err(Problem::error)?;
            limits.take(2 * nfa.bytes())?;
            *machine = Some(Machine::new(nfa, false, &self.colours, self.most_words));
        }
        Ok(())
    }
}

/// One search in one text.
struct Run<'r, 'a> {
    regex: &'r mut Regex,
    world: World<'a>,
    groups: Vec<Option<Span>>,
}

impl Run<'_, '_> {
    fn prefers_short(&self, node: u32) -> bool {
        self.regex.parsed.nodes[node as usize].traits & SHORTER != 0
    }
    fn longest(&mut self, node: u32, from: usize, limit: usize) -> SqlResult<Option<usize>> {
        self.regex.machine(node, self.world.limits)?;
        let Regex { machines, colours, looks, .. } = &mut *self.regex;
        let Some(machine) = &mut machines[node as usize] else { return Ok(None) };
        machine.longest(from, limit, colours, &mut self.world, looks)
    }
    fn shortest(&mut self, node: u32, from: usize, least: usize, limit: usize) -> SqlResult<Option<usize>> {
        self.regex.machine(node, self.world.limits)?;
        let Regex { machines, colours, looks, .. } = &mut *self.regex;
        let Some(machine) = &mut machines[node as usize] else { return Ok(None) };
        machine.shortest(from, least, limit, colours, &mut self.world, looks)
    }
    /// The first place where a match ends, and one before which none of those begins that end there.
    fn search(&mut self, from: usize) -> SqlResult<Option<(usize, usize)>> {
        let end = self.world.text.len();
        let Regex { search, colours, looks, .. } = &mut *self.regex;
        search.first_end(from, from, end, colours, &mut self.world, looks)
    }
    /// The longest or the shortest match, as the whole prefers.
    fn match_at(&mut self, begin: usize) -> SqlResult<Option<usize>> {
        let (root, end) = (self.regex.parsed.root, self.world.text.len());
        if self.prefers_short(root) {
            self.shortest(root, begin, begin, end)
        } else {
            self.longest(root, begin, end)
        }
    }

    fn find_plain(&mut self, from: usize) -> SqlResult<Option<Span>> {
        let Some((close, open)) = self.search(from)? else { return Ok(None) };
        let enough = self.world.work() + 8 * (close - open) + 1024;
        for begin in open..=close {
            if let Some(end) = self.match_at(begin)? {
                return Ok(Some((begin, end)));
            }
            // Many beginnings that lead far, and nowhere, are better followed all at once.
            if self.world.work() > enough {
                let Regex { search, colours, looks, .. } = &mut *self.regex;
                let found = search.first_start(begin + 1, colours, &mut self.world, looks)?;
                let Some(begin) = found else { return Ok(None) };
                return Ok(self.match_at(begin)?.map(|end| (begin, end)));
            }
        }
        Ok(None)
    }

    fn find_referring(&mut self, from: usize) -> SqlResult<Option<Span>> {
        let root = self.regex.parsed.root;
        let (is_short, end_of_text) = (self.prefers_short(root), self.world.text.len());
        let mut close = from;
        loop {
            let Some((found, open)) = self.search(close)? else { return Ok(None) };
            close = found;
            for begin in open..=close {
                let (mut least, mut limit) = (begin, end_of_text);
                loop {
                    let end = if is_short {
                        self.shortest(root, begin, least, limit)?
                    } else {
                        self.longest(root, begin, limit)?
                    };
                    let Some(end) = end else { break };
                    self.groups.fill(None);
                    if self.take_apart(root, begin, end)? {
                        return Ok(Some((begin, end)));
                    }
                    if is_short {
                        if end == limit {
                            break;
                        }
                        least = end + 1;
                    } else {
                        if end == begin {
                            break;
                        }
                        limit = end - 1;
                    }
                }
            }
            // Beginnings up to here are done. What could only begin at the text's end is not looked for after
            // that, in PostgreSQL.
            close += 1;
            if close >= end_of_text {
                return Ok(None);
            }
        }
    }

    /// Forgets the captures of a part.
    fn forget(&mut self, node: u32) {
        let Run { regex, groups, .. } = self;
        let mut stack = vec![node];
        while let Some(node) = stack.pop() {
            let Node { capture, below, .. } = &regex.parsed.nodes[node as usize];
            if *capture > 0 {
                groups[*capture as usize] = None;
            }
            stack.extend(below);
        }
    }

    /// Finds the captures of a part over a range that its machine matches; false if a back reference does not
    /// fit.
    fn take_apart(&mut self, node: u32, begin: usize, end: usize) -> SqlResult<bool> {
        self.world.worked(1)?;
        let Node { kind, capture, ref below, .. } = self.regex.parsed.nodes[node as usize];
        let fits = match (kind, &below[..]) {
            (Kind::Leaf, _) => true,
            (Kind::Reference { capture, least, most }, _) => self.refers(capture, least, most, begin, end)?,
            (Kind::Wrapper, [inner]) => {
                let inner = *inner;
                self.take_apart(inner, begin, end)?
            }
            (Kind::Concatenation, [a, b]) => {
                let (a, b) = (*a, *b);
                self.take_two_apart(a, b, begin, end)?
            }
            (Kind::Alternation, branches) => {
                let mut fits = false;
                let branches: Vec<u32> = branches.into();
                for branch in branches {
                    if self.longest(branch, begin, end)? == Some(end)
                        && self.take_apart(branch, begin, end)?
                    {
                        fits = true;
                        break;
                    }
                }
                fits
            }
            (Kind::Iteration { least, most }, [inner]) => {
                let inner = *inner;
                self.take_repeats_apart(inner, least, most, begin, end)?
            }
            _ => return Err(crate::func::internal("a part of a regular expression is incomplete")),
        };
        if !fits {
            self.forget(node);
        } else if capture > 0 {
            self.groups[capture as usize] = Some((begin, end));
        }
        Ok(fits)
    }

    fn take_two_apart(&mut self, a: u32, b: u32, begin: usize, end: usize) -> SqlResult<bool> {
        let is_short = self.prefers_short(a);
        let mut middle =
            if is_short { self.shortest(a, begin, begin, end)? } else { self.longest(a, begin, end)? };
        while let Some(m) = middle {
            if self.longest(b, m, end)? == Some(end) && self.take_apart(a, begin, m)? {
                if self.take_apart(b, m, end)? {
                    return Ok(true);
                }
                self.forget(a);
            }
            if m == if is_short { end } else { begin } {
                return Ok(false);
            }
            middle =
                if is_short { self.shortest(a, begin, m + 1, end)? } else { self.longest(a, begin, m - 1)? };
        }
        Ok(false)
    }

    fn refers(&mut self, n: u32, least: u16, most: u16, begin: usize, end: usize) -> SqlResult<bool> {
        let Some((from, to)) = self.groups[n as usize] else { return Ok(false) };
        let (length, all) = (to - from, end - begin);
        if length == 0 {
            return Ok(all == 0);
        }
        if all == 0 {
            return Ok(least == 0);
        }
        let times = all / length;
        let enough = times >= usize::from(least) && (most == NO_LIMIT || times <= usize::from(most));
        if all % length != 0 || !enough {
            return Ok(false);
        }
        self.world.worked(all)?;
        let text = self.world.text;
        let same = |a: char, b: char| {
            a == b
                || self.regex.parsed.flags.has(Flags::IGNORE_CASE)
                    && crate::func::text::lower_char(a) == crate::func::text::lower_char(b)
        };
        Ok((0..all).all(|i| same(text.char(from + i % length), text.char(begin + i))))
    }

    /// Divides a range among repetitions of a part: each as long, or as short, as it prefers, and only as
    /// many empty ones as are needed.
    fn take_repeats_apart(
        &mut self,
        inner: u32,
        least: u16,
        most: u16,
        begin: usize,
        end: usize,
    ) -> SqlResult<bool> {
        if least == 0 && begin == end {
            // No repetition is needed. One is shown if it can be there, and had not rather be short.
            if !self.prefers_short(inner) && self.longest(inner, begin, end)?.is_some() {
                self.take_apart(inner, begin, end)?;
            }
            return Ok(true);
        }
        let is_short = self.prefers_short(inner);
        let least = usize::from(least).max(1);
        let most_of_all = if most == NO_LIMIT { end - begin } else { usize::from(most).min(end - begin) };
        let most_of_all = most_of_all.max(least);
        self.world.limits.take((end - begin) * size_of::<usize>())?;
        // Where each repetition ends, from the second on; the first is where all begins.
        let mut ends = vec![begin];
        // G2: repetitions that begin there lead nowhere. How many came before matters if there is a limit.
        let exact = self.regex.parsed.nodes[inner as usize].traits & REFERS == 0;
        let mut hopeless: HashSet<(usize, usize)> = HashSet::new();
        let count = |k: usize| if most == NO_LIMIT { k.min(least) } else { k };
        let mut verified = 0;
        let mut k = 1;
        let mut limit = if is_short { begin } else { end };
        let mut fresh = true;
        'outer: while k > 0 {
            self.world.worked(1)?;
            let from = ends[k - 1];
            let hope = !(exact && fresh && hopeless.contains(&(count(k), from)));
            let found = match (hope, is_short) {
                (false, _) => None,
                (true, false) => self.longest(inner, from, limit)?,
                (true, true) => {
                    // Empty ones only where they are needed.
                    if limit == from && limit != end && (k >= least || least - k < end - limit) {
                        limit += 1;
                    }
                    // The last that is allowed must reach the end.
                    if k >= most_of_all {
                        limit = end;
                    }
                    self.shortest(inner, from, limit, end)?
                }
            };
            let go_back = match found {
                None => {
                    if exact {
                        hopeless.insert((count(k), from));
                    }
                    k -= 1;
                    true
                }
                Some(to) => {
                    ends.truncate(k);
                    ends.push(to);
                    verified = verified.min(k - 1);
                    if to != end {
                        if k >= most_of_all {
                            k -= 1;
                            true
                        } else if !is_short && to == from && (k >= least || least - k < end - to) {
                            true
                        } else {
                            k += 1;
                            limit = if is_short { to } else { end };
                            fresh = true;
                            continue 'outer;
                        }
                    } else if k < least {
                        true
                    } else {
                        let mut failed = None;
                        for i in verified + 1..=k {
                            self.forget(inner);
                            if !self.take_apart(inner, ends[i - 1], ends[i])? {
                                failed = Some(i);
                                break;
                            }
                            verified = i;
                        }
                        // What comes behind one that does not fit cannot help it.
                        match failed {
                            None => return Ok(true),
                            Some(i) => k = i,
                        }
                        true
                    }
                }
            };
            if go_back {
                loop {
                    if k == 0 {
                        return Ok(false);
                    }
                    let previous = ends[k - 1];
                    let this = ends[k];
                    if is_short && this < end {
                        limit = this + 1;
                        break;
                    }
                    if !is_short && this > previous {
                        limit = this - 1;
                        if limit > previous || (k < least && least - k >= end - previous) {
                            break;
                        }
                    }
                    if exact {
                        hopeless.insert((count(k), previous));
                    }
                    k -= 1;
                }
                fresh = false;
            }
        }
        Ok(false)
    }
}

// ---- compiled expressions that are kept -------------------------------------------------------------------

struct Kept {
    pattern: String,
    flags: Flags,
    regex: Box<Regex>,
}

thread_local! {
    /// The one that was used last comes last.
    static KEPT: RefCell<Vec<Kept>> = const { RefCell::new(Vec::new()) };
}

/// Calls a function with a compiled expression (G3). While it runs the expression is not among those that are
/// kept, so the function may do what it wants.
pub fn with<R>(
    pattern: &str,
    flags: Flags,
    limits: &Limits<'_>,
    f: impl FnOnce(&mut Regex) -> SqlResult<R>,
) -> SqlResult<R> {
    let found = KEPT.with_borrow_mut(|kept| {
        let i = kept.iter().rposition(|k| k.flags == flags && k.pattern == pattern)?;
        Some(kept.remove(i))
    });
    let mut kept = match found {
        Some(kept) => kept,
        None => {
            let regex = Box::new(Regex::new(pattern, flags, limits)?);
            Kept { pattern: pattern.into(), flags, regex }
        }
    };
    let result = f(&mut kept.regex);
    KEPT.with_borrow_mut(|all| {
        all.push(kept);
        let bytes = |all: &[Kept]| all.iter().map(|k| k.regex.bytes()).sum::<usize>();
        while all.len() > KEPT_EXPRESSIONS || !all.is_empty() && bytes(all) > KEPT_BYTES {
            all.remove(0);
        }
    });
    result
}

#[cfg(test)]
mod tests;
