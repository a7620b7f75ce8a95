//! Sets of characters, and the colours that a list of sets divides all characters into.
//!
//! Characters are numbers, since an expression may name some that no text holds. Two characters have one
//! colour if every set of an expression has both or neither: a machine then knows colours only.
//!
//! The classes are those of the locale C.UTF-8, like case ([`crate::func::text`]).

use crate::func::text::{lower_char, upper_char};
use std::collections::HashMap;
use std::sync::OnceLock;

/// The greatest number that an expression may write a character as.
pub const MAX: u32 = 0x7fff_fffe;

/// Ranges in order, with a gap between any two.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct Set(Vec<(u32, u32)>);

impl Set {
    pub fn one(c: u32) -> Set {
        Set(vec![(c, c)])
    }
    pub fn range(from: u32, to: u32) -> Set {
        Set(vec![(from, to)])
    }
    /// Adds a range; [`Set::tidy`] is called before anything is asked.
    pub fn add(&mut self, from: u32, to: u32) {
        self.0.push((from, to));
    }
    pub fn add_all(&mut self, other: &Set) {
        self.0.extend(&other.0);
    }
    pub fn tidy(&mut self) {
        self.0.sort_unstable();
        let mut kept: Vec<(u32, u32)> = Vec::with_capacity(self.0.len());
        for (from, to) in self.0.drain(..) {
            match kept.last_mut() {
                Some(last) if from <= last.1.saturating_add(1) => last.1 = last.1.max(to),
                _ => kept.push((from, to)),
            }
        }
        self.0 = kept;
    }
    pub fn complement(&self) -> Set {
        let mut out = Vec::with_capacity(self.0.len() + 1);
        let mut next = 0;
        for (from, to) in &self.0 {
            if *from > next {
                out.push((next, from - 1));
            }
            next = to + 1;
        }
        if next <= MAX {
            out.push((next, MAX));
        }
        Set(out)
    }
    fn with(&self, other: &Set) -> Set {
        let mut both = self.clone();
        both.add_all(other);
        both.tidy();
        both
    }
    fn without(&self, other: &Set) -> Set {
        self.complement().with(other).complement()
    }
    /// Adds the other cases of what is in a range.
    pub fn add_cases(&mut self, from: u32, to: u32) {
        for c in (from..=to.min(char::MAX as u32)).filter_map(char::from_u32) {
            for other in [lower_char(c), upper_char(c)] {
                if other != c {
                    self.add(other as u32, other as u32);
                }
            }
        }
    }
}

/// A character class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    Alnum,
    Alpha,
    Ascii,
    Blank,
    Cntrl,
    Digit,
    Graph,
    Lower,
    Print,
    Punct,
    Space,
    Upper,
    Xdigit,
    Word,
}

const CLASSES: [(&str, Class); 14] = [
    ("alnum", Class::Alnum),
    ("alpha", Class::Alpha),
    ("ascii", Class::Ascii),
    ("blank", Class::Blank),
    ("cntrl", Class::Cntrl),
    ("digit", Class::Digit),
    ("graph", Class::Graph),
    ("lower", Class::Lower),
    ("print", Class::Print),
    ("punct", Class::Punct),
    ("space", Class::Space),
    ("upper", Class::Upper),
    ("xdigit", Class::Xdigit),
    ("word", Class::Word),
];

/// The characters of the classes that go beyond ASCII, as `scripts/postgresql-regexes --classes` has them of
/// a server: a name, then ranges.
const LISTS: &str = include_str!("classes.txt");

fn listed(name: &str) -> Set {
    let ranges = LISTS.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' ')).unwrap_or("");
    let number = |n: &str| u32::from_str_radix(n, 16).unwrap_or(0);
    let range = |r: &str| match r.split_once('-') {
        Some((from, to)) => (number(from), number(to)),
        None => (number(r), number(r)),
    };
    Set(ranges.split(' ').map(range).collect())
}

impl Class {
    pub fn by_name(name: &str) -> Option<Class> {
        CLASSES.iter().find(|(n, _)| *n == name).map(|(_, c)| *c)
    }

    fn make(self) -> Set {
        let of = |ranges: &[(u8, u8)]| Set(ranges.iter().map(|r| (r.0.into(), r.1.into())).collect());
        let digits = (b'0', b'9');
        match self {
            Class::Alnum => listed("alnum"),
            Class::Alpha => Class::Alnum.set().without(&of(&[digits])),
            Class::Ascii => of(&[(0, 0x7f)]),
            Class::Blank => of(&[(b'\t', b'\t'), (b' ', b' ')]),
            Class::Cntrl => of(&[(0, 0x1f), (0x7f, 0x9f)]),
            Class::Digit => of(&[digits]),
            Class::Graph => listed("graph"),
            Class::Lower => listed("lower"),
            Class::Print => {
                let breaks = of(&[(b'\t', b'\r')]).with(&Set::range(0x2028, 0x2029));
                Class::Graph.set().with(&Class::Space.set().without(&breaks))
            }
            Class::Punct => Class::Graph.set().without(Class::Alnum.set()),
            Class::Space => listed("space"),
            Class::Upper => listed("upper"),
            Class::Xdigit => of(&[digits, (b'A', b'F'), (b'a', b'f')]),
            Class::Word => Class::Alnum.set().with(&Set::one('_' as u32)),
        }
    }

    /// Its characters; read once, when it is first asked for.
    pub fn set(self) -> &'static Set {
        static SETS: [OnceLock<Set>; CLASSES.len()] = [const { OnceLock::new() }; CLASSES.len()];
        SETS[self as usize].get_or_init(|| self.make())
    }
}

/// What stands before or behind a place, as far as assertions tell it apart.
pub mod kind {
    /// The text's start or end.
    pub const EDGE: u8 = 1;
    pub const NEWLINE: u8 = 2;
    pub const WORD: u8 = 4;
}

/// The division of all characters.
#[derive(Debug)]
pub struct Colours {
    ascii: [u16; 128],
    /// Where each stretch of one colour begins, from 0 on, and its colour.
    stretches: Vec<(u32, u16)>,
    /// What each colour is to assertions.
    kinds: Vec<u8>,
    /// For each set, a bit for each colour.
    sets: Vec<Box<[u64]>>,
}

impl Colours {
    /// Of so many sets; the places of those of newlines and of letters, where they matter.
    pub fn new(sets: &[Set], newline: Option<usize>, word: Option<usize>) -> Colours {
        let mut events: Vec<(u32, u32)> = Vec::new();
        for (i, set) in sets.iter().enumerate() {
            for (from, to) in &set.0 {
                events.extend([(*from, i as u32), (to + 1, i as u32)]);
            }
        }
        events.sort_unstable();
        let mut inside = vec![0u64; sets.len().div_ceil(64)];
        let mut known: HashMap<Vec<u64>, u16> = HashMap::new();
        let mut signatures: Vec<Vec<u64>> = Vec::new();
        let mut stretches: Vec<(u32, u16)> = Vec::new();
        let (mut at, mut from) = (0, 0);
        loop {
            while at < events.len() && events[at].0 == from {
                let set = events[at].1 as usize;
                inside[set / 64] ^= 1 << (set % 64);
                at += 1;
            }
            let colour = *known.entry(inside.clone()).or_insert_with(|| {
                signatures.push(inside.clone());
                (signatures.len() - 1) as u16
            });
            if stretches.last().is_none_or(|l| l.1 != colour) {
                stretches.push((from, colour));
            }
            match events.get(at) {
                Some(event) => from = event.0,
                None => break,
            }
        }
        let has = |signature: &[u64], set: usize| signature[set / 64] >> (set % 64) & 1 == 1;
        let is =
            |colour: &Vec<u64>, set: Option<usize>, bit| set.map_or(0, |s| u8::from(has(colour, s)) * bit);
        let kinds =
            signatures.iter().map(|s| is(s, newline, kind::NEWLINE) | is(s, word, kind::WORD)).collect();
        let bits = |set: usize| {
            let mut bits = vec![0u64; signatures.len().div_ceil(64)];
            for (c, _) in signatures.iter().enumerate().filter(|(_, s)| has(s, set)) {
                bits[c / 64] |= 1 << (c % 64);
            }
            bits.into_boxed_slice()
        };
        let sets = (0..sets.len()).map(bits).collect();
        let mut colours = Colours { ascii: [0; 128], stretches, kinds, sets };
        for c in 0..128 {
            colours.ascii[c] = colours.search(c as u32);
        }
        colours
    }

    fn search(&self, c: u32) -> u16 {
        let behind = self.stretches.partition_point(|s| s.0 <= c);
        self.stretches[behind - 1].1
    }
    #[inline]
    pub fn of_ascii(&self, c: u8) -> u16 {
        self.ascii[usize::from(c & 0x7f)]
    }
    #[inline]
    pub fn of(&self, c: char) -> u16 {
        if c.is_ascii() { self.of_ascii(c as u8) } else { self.search(c as u32) }
    }
    pub fn count(&self) -> usize {
        self.kinds.len()
    }
    pub fn kind(&self, colour: u16) -> u8 {
        self.kinds[usize::from(colour)]
    }
    #[inline]
    pub fn is_in(&self, colour: u16, set: u16) -> bool {
        self.sets[usize::from(set)][usize::from(colour / 64)] >> (colour % 64) & 1 == 1
    }
    pub fn bytes(&self) -> usize {
        self.stretches.len() * 8 + self.sets.iter().map(|s| s.len() * 8).sum::<usize>() + 256
    }
}
