//! Runs a machine of states over a text: sets of states are made when they are reached, and kept.
//!
//! - **R1** A step looks at the character before a place and at the one behind it, and so decides on
//!   assertions exactly: whether a match ends at a place is known with the character behind it, also where a
//!   match may not go on.
//! - **R2** What is kept is bounded: where it grows beyond what the machine may keep, all is thrown away. A
//!   number of a set means nothing after that.
//! - **R3** Lookaheads and lookbehinds depend on the place, so steps of a machine that has some are not kept.

use super::nfa::{Nfa, State};
use super::parse::{Assertion, Look};
use super::set::{Colours, kind};
use crate::SqlResult;
use crate::limits::{Limits, TURNS};
use std::collections::HashMap;

/// A step that is not known yet.
const UNKNOWN: u32 = u32::MAX;
/// The set without states.
const DEAD: u32 = 0;
/// Bit of a key: what stands before.
const BEFORE: u32 = 1 << 31;

/// The characters of a text.
pub enum Subject<'a> {
    Ascii(&'a [u8]),
    Wide(Vec<char>),
}

impl<'a> Subject<'a> {
    pub fn new(text: &'a str, limits: &Limits<'_>) -> SqlResult<Subject<'a>> {
        if text.is_ascii() {
            return Ok(Subject::Ascii(text.as_bytes()));
        }
        limits.take(text.len().saturating_mul(size_of::<char>()))?;
        Ok(Subject::Wide(text.chars().collect()))
    }
    pub fn len(&self) -> usize {
        match self {
            Subject::Ascii(b) => b.len(),
            Subject::Wide(c) => c.len(),
        }
    }
    pub fn char(&self, i: usize) -> char {
        match self {
            Subject::Ascii(b) => char::from(b[i]),
            Subject::Wide(c) => c[i],
        }
    }
    /// Appends the characters of a range.
    pub fn push_to(&self, from: usize, to: usize, out: &mut String) {
        match self {
            Subject::Ascii(b) => out.extend(b[from..to].iter().map(|b| char::from(*b))),
            Subject::Wide(c) => out.extend(&c[from..to]),
        }
    }
}

/// What a run sees, and what it may take.
pub struct World<'a> {
    pub text: &'a Subject<'a>,
    pub limits: &'a Limits<'a>,
    work: usize,
}

impl<'a> World<'a> {
    pub fn new(text: &'a Subject<'a>, limits: &'a Limits<'a>) -> World<'a> {
        World { text, limits, work: 0 }
    }
    /// Tells of steps that were made.
    pub fn worked(&mut self, steps: usize) -> SqlResult<()> {
        let before = self.work;
        self.work = before.saturating_add(steps);
        // Small texts are looked at without asking, but not for ever.
        if before / TURNS != self.work / TURNS || self.work > 1024 && before <= 1024 {
            self.limits.turn(self.work)?;
        }
        Ok(())
    }
    pub fn work(&self) -> usize {
        self.work
    }
    #[inline]
    fn colour(&self, colours: &Colours, at: usize) -> Option<u16> {
        match self.text {
            Subject::Ascii(b) => b.get(at).map(|b| colours.of_ascii(*b)),
            Subject::Wide(c) => c.get(at).map(|c| colours.of(*c)),
        }
    }
}

#[derive(Debug)]
pub struct Machine {
    nfa: Nfa,
    /// A match may begin at every place.
    searches: bool,
    /// Steps of a set: one for each colour, and one for the end.
    stride: usize,
    /// The states of each set, before those that they lead to without a character.
    sets: Vec<Box<[u32]>>,
    known: HashMap<Box<[u32]>, u32>,
    steps: Vec<u32>,
    words: usize,
    most_words: usize,
    /// How often all was thrown away.
    thrown: u32,
    marks: Vec<u32>,
    mark: u32,
    stack: Vec<u32>,
    made: Vec<u32>,
}

/// A lookahead or lookbehind with its machine.
#[derive(Debug)]
pub struct LookMachine {
    look: Look,
    machine: Machine,
    /// Of a lookbehind: how far it has come, and in which set of which life.
    at: usize,
    set: u32,
    life: Option<u32>,
}

impl LookMachine {
    pub fn new(look: Look, nfa: Nfa, colours: &Colours, most_words: usize) -> LookMachine {
        let machine = Machine::new(nfa, !look.ahead, colours, most_words);
        LookMachine { look, machine, at: 0, set: 0, life: None }
    }
    pub fn bytes(&self) -> usize {
        self.machine.bytes()
    }
    /// Another text begins.
    pub fn reset(&mut self) {
        self.life = None;
    }
}

/// Whether a constraint holds at a place.
fn holds(
    looks: &mut [LookMachine],
    i: usize,
    at: usize,
    colours: &Colours,
    world: &mut World<'_>,
) -> SqlResult<bool> {
    let (inner, rest) = looks.split_at_mut(i);
    let this = &mut rest[0];
    let found = if this.look.ahead {
        this.machine.shortest(at, at, world.text.len(), colours, world, inner)?.is_some()
    } else {
        let same_life = this.life == Some(this.machine.thrown);
        if !same_life || this.at > at {
            (this.at, this.set) = (0, this.machine.start(0, colours, world));
        }
        loop {
            let step = this.machine.step(this.set, this.at, colours, world, inner)?;
            if this.at == at {
                break step & 1 == 1;
            }
            this.set = step >> 1;
            this.life = Some(this.machine.thrown);
            this.at += 1;
            world.worked(1)?;
        }
    };
    Ok(found == this.look.positive)
}

fn stands(assertion: Assertion, before: u8, behind: u8) -> bool {
    let (word, next_word) = (before & kind::WORD != 0, behind & kind::WORD != 0);
    match assertion {
        Assertion::TextStart => before & kind::EDGE != 0,
        Assertion::TextEnd => behind & kind::EDGE != 0,
        Assertion::LineStart => before & (kind::EDGE | kind::NEWLINE) != 0,
        Assertion::LineEnd => behind & (kind::EDGE | kind::NEWLINE) != 0,
        Assertion::WordStart => !word && next_word,
        Assertion::WordEnd => word && !next_word,
        Assertion::WordEdge => word != next_word,
        Assertion::NoWordEdge => word == next_word,
    }
}

impl Machine {
    /// One that may keep so many words (R2).
    pub fn new(mut nfa: Nfa, searches: bool, colours: &Colours, most_words: usize) -> Machine {
        if searches {
            // So that it can be told whether a match has begun.
            nfa.part_start();
        }
        let states = nfa.states.len();
        let mut machine = Machine {
            nfa,
            searches,
            stride: colours.count() + 1,
            sets: vec![],
            known: HashMap::new(),
            steps: vec![],
            words: 0,
            most_words,
            thrown: 0,
            marks: vec![0; states],
            mark: 0,
            stack: vec![],
            made: vec![],
        };
        machine.throw_away();
        machine
    }

    /// What it takes now.
    pub fn bytes(&self) -> usize {
        2 * self.nfa.bytes() + self.words * size_of::<u32>()
    }

    fn throw_away(&mut self) {
        self.sets.clear();
        self.known.clear();
        self.steps.clear();
        self.words = 0;
        self.sets.push([].into());
        self.steps.resize(self.stride, DEAD << 1);
    }

    /// The number of the set whose states are in `made`, in any order.
    fn number(&mut self, before: u8) -> u32 {
        if self.made.is_empty() {
            return DEAD;
        }
        self.made.sort_unstable();
        self.made.dedup();
        self.made.push(BEFORE | u32::from(before & self.nfa.kinds));
        if let Some(known) = self.known.get(&self.made[..]) {
            return *known;
        }
        self.words += 2 * self.made.len() + self.stride;
        if self.words > self.most_words && self.sets.len() > 2 {
            self.throw_away();
            self.thrown = self.thrown.wrapping_add(1);
            self.words = 2 * self.made.len() + self.stride;
        }
        let set: Box<[u32]> = self.made[..].into();
        let number = self.sets.len() as u32;
        self.known.insert(set.clone(), number);
        self.sets.push(set);
        if !self.nfa.looks {
            self.steps.resize(self.sets.len() * self.stride, UNKNOWN);
        }
        number
    }

    /// The set at which a match begins at a place.
    fn start(&mut self, at: usize, colours: &Colours, world: &World<'_>) -> u32 {
        let before = match at {
            0 => kind::EDGE,
            _ => world.colour(colours, at - 1).map_or(0, |c| colours.kind(c)),
        };
        self.made.clear();
        self.made.push(self.nfa.start);
        self.number(before)
    }

    /// No match has begun, at a machine that searches.
    fn is_cold(&self, set: u32) -> bool {
        matches!(&self.sets[set as usize][..], [only, _] if *only == self.nfa.start)
    }

    /// The set behind the character at a place, times two; odd if a match ends before that character (R1).
    #[inline]
    fn step(
        &mut self,
        set: u32,
        at: usize,
        colours: &Colours,
        world: &mut World<'_>,
        looks: &mut [LookMachine],
    ) -> SqlResult<u32> {
        let colour = world.colour(colours, at);
        let place = set as usize * self.stride + colour.map_or(self.stride - 1, usize::from);
        match self.steps.get(place) {
            Some(step) if *step != UNKNOWN => Ok(*step),
            _ => self.make_step(set, at, colour, colours, world, looks),
        }
    }

    #[cold]
    fn make_step(
        &mut self,
        set: u32,
        at: usize,
        colour: Option<u16>,
        colours: &Colours,
        world: &mut World<'_>,
        looks: &mut [LookMachine],
    ) -> SqlResult<u32> {
        let Some((before, states)) = self.sets[set as usize].split_last() else { return Ok(DEAD << 1) };
        let before = (before & !BEFORE) as u8;
        let behind = colour.map_or(kind::EDGE, |c| colours.kind(c));
        self.mark += 1;
        self.stack.clear();
        self.stack.extend(states);
        self.made.clear();
        let mut ends = false;
        let mut steps = 1;
        while let Some(state) = self.stack.pop() {
            if std::mem::replace(&mut self.marks[state as usize], self.mark) == self.mark {
                continue;
            }
            steps += 1;
            match self.nfa.states[state as usize] {
                State::Set(s, to) => {
                    if colour.is_some_and(|c| colours.is_in(c, s)) {
                        self.made.push(to);
                    }
                }
                State::Split(a, b) => self.stack.extend([b, a]),
                State::Assertion(a, to) => {
                    if stands(a, before, behind) {
                        self.stack.push(to);
                    }
                }
                State::Look(i, to) => {
                    if holds(looks, usize::from(i), at, colours, world)? {
                        self.stack.push(to);
                    }
                }
                State::Match => ends = true,
            }
        }
        world.worked(steps)?;
        if self.searches && colour.is_some() {
            self.made.push(self.nfa.start);
        }
        let life = self.thrown;
        let next = self.number(behind);
        let step = next << 1 | u32::from(ends);
        if self.thrown == life && !self.nfa.looks {
            let place = set as usize * self.stride + colour.map_or(self.stride - 1, usize::from);
            self.steps[place] = step;
        }
        Ok(step)
    }

    /// The end of the longest match that begins at a place and ends at `limit` or before.
    pub fn longest(
        &mut self,
        from: usize,
        limit: usize,
        colours: &Colours,
        world: &mut World<'_>,
        looks: &mut [LookMachine],
    ) -> SqlResult<Option<usize>> {
        let mut set = self.start(from, colours, world);
        let (mut at, mut found, mut counted) = (from, None, from);
        loop {
            let step = self.step(set, at, colours, world, looks)?;
            if step & 1 == 1 {
                found = Some(at);
            }
            set = step >> 1;
            if at == limit || set == DEAD {
                break;
            }
            at += 1;
            if at - counted >= TURNS {
                world.worked(at - counted)?;
                counted = at;
            }
        }
        world.worked(at - counted + 1)?;
        Ok(found)
    }

    /// The end of the shortest match that begins at a place and ends from `least` to `limit`.
    pub fn shortest(
        &mut self,
        from: usize,
        least: usize,
        limit: usize,
        colours: &Colours,
        world: &mut World<'_>,
        looks: &mut [LookMachine],
    ) -> SqlResult<Option<usize>> {
        self.first_end(from, least, limit, colours, world, looks).map(|found| found.map(|f| f.0))
    }

    /// The same, with the place before which no match of a machine that searches has begun.
    pub fn first_end(
        &mut self,
        from: usize,
        least: usize,
        limit: usize,
        colours: &Colours,
        world: &mut World<'_>,
        looks: &mut [LookMachine],
    ) -> SqlResult<Option<(usize, usize)>> {
        let mut set = self.start(from, colours, world);
        let (mut at, mut cold, mut counted) = (from, from, from);
        let found = loop {
            let step = self.step(set, at, colours, world, looks)?;
            if step & 1 == 1 && at >= least {
                break Some((at, cold));
            }
            set = step >> 1;
            if at == limit || set == DEAD {
                break None;
            }
            at += 1;
            if self.searches && self.is_cold(set) {
                cold = at;
            }
            if at - counted >= TURNS {
                world.worked(at - counted)?;
                counted = at;
            }
        };
        world.worked(at - counted + 1)?;
        Ok(found)
    }

    /// The first place from which there is a match, found in one pass: each state in force knows the first
    /// beginning that leads to it.
    pub fn first_start(
        &mut self,
        from: usize,
        colours: &Colours,
        world: &mut World<'_>,
        looks: &mut [LookMachine],
    ) -> SqlResult<Option<usize>> {
        let mut threads: Vec<(u32, usize)> = vec![];
        let mut best: Option<usize> = None;
        let mut at = from;
        loop {
            if best.is_none() {
                threads.push((self.nfa.start, at));
            }
            let before = match at {
                0 => kind::EDGE,
                _ => world.colour(colours, at - 1).map_or(0, |c| colours.kind(c)),
            };
            let colour = world.colour(colours, at);
            let behind = colour.map_or(kind::EDGE, |c| colours.kind(c));
            self.mark += 1;
            let mut next = Vec::with_capacity(threads.len());
            let mut steps = 1;
            // Threads stand in the order of their beginnings, so whoever marks a state began first.
            for (state, began) in threads.drain(..) {
                if best.is_some_and(|b| b <= began) {
                    break;
                }
                self.stack.clear();
                self.stack.push(state);
                while let Some(state) = self.stack.pop() {
                    if std::mem::replace(&mut self.marks[state as usize], self.mark) == self.mark {
                        continue;
                    }
                    steps += 1;
                    match self.nfa.states[state as usize] {
                        State::Set(s, to) => {
                            if colour.is_some_and(|c| colours.is_in(c, s)) {
                                next.push((to, began));
                            }
                        }
                        State::Split(a, b) => self.stack.extend([b, a]),
                        State::Assertion(a, to) => {
                            if stands(a, before, behind) {
                                self.stack.push(to);
                            }
                        }
                        State::Look(i, to) => {
                            if holds(looks, usize::from(i), at, colours, world)? {
                                self.stack.push(to);
                            }
                        }
                        State::Match => best = Some(best.map_or(began, |b| b.min(began))),
                    }
                }
            }
            world.worked(steps)?;
            threads = next;
            if colour.is_none() || best.is_some_and(|b| threads.first().is_none_or(|t| t.1 >= b)) {
                return Ok(best);
            }
            at += 1;
        }
    }
}
