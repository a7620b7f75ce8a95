//! From words to a tree of what must be told apart, each node with the language of its part of the text.
//!
//! - **P1** A part of an expression is one leaf as long as nothing in it must be told apart: captures, back
//!   references, and preferences (for long or short matches) that differ.
//! - **P2** A branch with something to be told apart becomes: what stands before it, it, and the rest of the
//!   branch, in two concatenations of two. Each has the preference that its first part has, or else the
//!   second's; an alternation prefers long ones.
//! - **P3** The language of a node with back references is a superset of what it matches: a back reference
//!   stands there for all that its capture can be, without constraints.
//!
//! Source: PostgreSQL 15's documentation, 9.7.3.5, and its answers.

use super::lex::{Lexer, Token};
use super::set::{Class, Set};
use super::{Flags, Problem};
use std::collections::HashMap;

/// The most repetitions that a bound may ask for, and what stands for no limit.
const MOST: u32 = 255;
pub const NO_LIMIT: u16 = 256;
/// How deep parentheses and parts of branches may be nested: the code here recurs on a fiber's stack.
const MAX_DEPTH: usize = 400;

/// What a node prefers, and what is in it.
pub type Traits = u8;
pub const LONGER: Traits = 1;
pub const SHORTER: Traits = 2;
/// Preferences differ within.
const MIXED: Traits = 4;
pub const CAPTURES: Traits = 8;
pub const REFERS: Traits = 16;
const PREFERENCE: Traits = LONGER | SHORTER;

fn is_messy(t: Traits) -> bool {
    t & (MIXED | CAPTURES | REFERS) != 0
}
/// What a node has of one below it.
fn up(t: Traits) -> Traits {
    let mixed = if t & PREFERENCE == PREFERENCE { MIXED } else { 0 };
    t & !PREFERENCE | mixed
}
/// What a node has of two below it, of which the first decides on the preference, if it has one.
fn combine(a: Traits, b: Traits) -> Traits {
    let first = if a & PREFERENCE != 0 { a } else { b };
    up(a | b) | first & PREFERENCE
}

/// A constraint on a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Assertion {
    TextStart,
    TextEnd,
    LineStart,
    LineEnd,
    WordStart,
    WordEnd,
    WordEdge,
    NoWordEdge,
}

/// A language; others are named by their places in [`Parsed::languages`].
#[derive(Clone, Debug)]
pub enum Language {
    /// One character of a set.
    Set(u16),
    Assertion(Assertion),
    /// A constraint of [`Parsed::looks`].
    Look(u16),
    /// One after the other; none is the empty text.
    All(Box<[u32]>),
    Any(Box<[u32]>),
    Repeat(u32, u16, u16),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Leaf,
    Reference {
        capture: u32,
        least: u16,
        most: u16,
    },
    Concatenation,
    Alternation,
    Iteration {
        least: u16,
        most: u16,
    },
    /// One below it, for a second capture of the same.
    Wrapper,
}

/// A node of the tree.
#[derive(Clone, Debug)]
pub struct Node {
    pub kind: Kind,
    pub traits: Traits,
    /// The number of the capture that it is, or 0.
    pub capture: u32,
    pub language: u32,
    pub below: Vec<u32>,
}

/// A lookahead or lookbehind.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub ahead: bool,
    pub positive: bool,
    pub language: u32,
}

/// A whole expression.
#[derive(Debug)]
pub struct Parsed {
    pub languages: Vec<Language>,
    pub nodes: Vec<Node>,
    pub root: u32,
    /// Each refers to earlier ones only.
    pub looks: Vec<Look>,
    pub sets: Vec<Set>,
    pub newline: Option<u16>,
    pub word: Option<u16>,
    pub captures: u32,
    pub refers: bool,
    pub flags: Flags,
}

pub fn parse(pattern: &[char], flags: Flags) -> Result<Parsed, Problem> {
    let lexer = Lexer::new(pattern, flags)?;
    let out = Parsed {
        languages: vec![],
        nodes: vec![],
        root: 0,
        looks: vec![],
        sets: vec![],
        newline: None,
        word: None,
        captures: 0,
        refers: false,
        flags: lexer.flags,
    };
    let mut parser = Parser { lexer, out, known: HashMap::new(), captured: vec![], depth: 0 };
    if parser.out.flags.has_any(Flags::NEWLINE) {
        parser.out.newline = Some(parser.set(Set::one('\n' as u32))?);
    }
    parser.out.root = parser.alternatives(Token::End, false)?;
    Ok(parser.out)
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    out: Parsed,
    known: HashMap<Set, u16>,
    /// The node of each capture that is whole, from the first on.
    captured: Vec<Option<u32>>,
    depth: usize,
}

/// An atom before its quantifier.
struct Atom {
    language: u32,
    /// If it was in parentheses, or is a reference.
    node: Option<u32>,
    /// It is a leaf of its own whatever is in it.
    apart: bool,
    is_reference: bool,
}

/// How often, and what is preferred.
struct Quantifier {
    least: u16,
    most: u16,
    preference: Traits,
}

type Parsing<T> = Result<T, Problem>;

impl Parser<'_> {
    fn language(&mut self, language: Language) -> u32 {
        self.out.languages.push(language);
        self.out.languages.len() as u32 - 1
    }
    fn repeat(&mut self, language: u32, least: u16, most: u16) -> u32 {
        if (least, most) == (1, 1) {
            language
        } else {
            self.language(Language::Repeat(language, least, most))
        }
    }
    fn node(&mut self, kind: Kind, traits: Traits, language: u32, below: Vec<u32>) -> u32 {
        self.out.nodes.push(Node { kind, traits, capture: 0, language, below });
        self.out.nodes.len() as u32 - 1
    }
    fn at(&mut self, node: u32) -> &mut Node {
        &mut self.out.nodes[node as usize]
    }
    fn concatenation(&mut self, traits: Traits, a: u32, b: u32) -> u32 {
        let both = [a, b].map(|n| self.at(n).language);
        let language = self.language(Language::All(both.into()));
        self.node(Kind::Concatenation, traits, language, vec![a, b])
    }
    fn set(&mut self, mut set: Set) -> Parsing<u16> {
        set.tidy();
        if let Some(known) = self.known.get(&set) {
            return Ok(*known);
        }
        let i =
            u16::try_from(self.out.sets.len()).ok().filter(|i| *i < u16::MAX).ok_or(Problem::TooComplex)?;
        self.known.insert(set.clone(), i);
        self.out.sets.push(set);
        Ok(i)
    }
    fn ignores_case(&self) -> bool {
        self.out.flags.has(Flags::IGNORE_CASE)
    }
    fn advance(&mut self) -> Parsing<()> {
        self.lexer.advance()
    }
    fn next(&self) -> Token {
        self.lexer.next
    }

    /// Branches, up to `end`.
    fn alternatives(&mut self, end: Token, in_look: bool) -> Parsing<u32> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Problem::TooComplex);
        }
        let mut branches = vec![];
        let mut traits = LONGER;
        loop {
            let branch = self.branch(end, in_look)?;
            traits |= up(traits | self.at(branch).traits);
            branches.push(branch);
            if !self.lexer.take_word(Token::Or)? {
                break;
            }
        }
        if self.next() != end {
            return Err(Problem::Parentheses);
        }
        self.depth -= 1;
        if let [only] = branches[..] {
            return Ok(only);
        }
        let languages = branches.iter().map(|b| self.out.nodes[*b as usize].language).collect();
        let language = self.language(Language::Any(languages));
        let (kind, below) =
            if is_messy(traits) { (Kind::Alternation, branches) } else { (Kind::Leaf, vec![]) };
        Ok(self.node(kind, traits, language, below))
    }

    /// One branch, or the rest of one.
    fn branch(&mut self, end: Token, in_look: bool) -> Parsing<u32> {
        let (mut before, mut traits) = (vec![], 0);
        while ![Token::Or, Token::End, end].contains(&self.next()) {
            if let Some(constraint) = self.constraint()? {
                before.push(constraint);
                continue;
            }
            let atom = self.atom(in_look)?;
            let how = self.quantifier()?;
            if how.most == 0 {
                before.push(self.language(Language::All([].into())));
                continue;
            }
            let own = atom.node.map_or(0, |n| self.at(n).traits);
            let together = traits | how.preference | own;
            if atom.apart || is_messy(up(together)) {
                return self.messy(before, traits, atom, how, end, in_look);
            }
            let repeated = self.repeat(atom.language, how.least, how.most);
            before.push(repeated);
            traits = together;
        }
        let language = self.language(Language::All(before.into()));
        Ok(self.node(Kind::Leaf, traits, language, vec![]))
    }

    /// The rest of a branch from an atom on that must be told apart (P2).
    fn messy(
        &mut self,
        before: Vec<u32>,
        traits: Traits,
        atom: Atom,
        how: Quantifier,
        end: Token,
        in_look: bool,
    ) -> Parsing<u32> {
        let node = match atom.node {
            Some(node) => node,
            None => self.node(Kind::Leaf, 0, atom.language, vec![]),
        };
        let own = self.at(node).traits;
        let Quantifier { least, most, preference } = how;
        let mut tail_traits = combine(preference, own);
        let core = if atom.is_reference {
            let language = self.repeat(atom.language, least, most);
            let n = self.at(node);
            if let Kind::Reference { capture, .. } = n.kind {
                n.kind = Kind::Reference { capture, least, most };
            }
            n.language = language;
            n.traits |= combine(preference, own);
            node
        } else if (least, most) == (1, 1)
            && (preference == 0
                || own & (PREFERENCE | MIXED) == 0
                || preference == own & (PREFERENCE | MIXED))
        {
            node
        } else if own & (CAPTURES | REFERS) == 0 {
            let language = self.repeat(atom.language, least, most);
            self.node(Kind::Leaf, combine(preference, own), language, vec![])
        } else if least > 0 && own & REFERS == 0 {
            // Only the last of the repetitions has captures that anybody can see.
            let fewer = if most == NO_LIMIT { most } else { most - 1 };
            let language = self.repeat_or_none(atom.language, least - 1, fewer);
            let traits = combine(preference, own);
            let first = self.node(Kind::Leaf, traits & PREFERENCE, language, vec![]);
            self.concatenation(traits, first, node)
        } else {
            let language = self.repeat(atom.language, least, most);
            self.node(Kind::Iteration { least, most }, combine(preference, own), language, vec![node])
        };
        let core_traits = self.at(core).traits;
        let at_end = [Token::Or, Token::End, end].contains(&self.next());
        let prefix = |parser: &mut Self| {
            let language = parser.language(Language::All(before.clone().into()));
            parser.node(Kind::Leaf, traits, language, vec![])
        };
        if at_end {
            if before.is_empty() {
                return Ok(core);
            }
            let all = traits | combine(traits, core_traits);
            let first = prefix(self);
            return Ok(self.concatenation(all, first, core));
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Problem::TooComplex);
        }
        let rest = self.branch(end, in_look)?;
        self.depth -= 1;
        let rest_traits = self.at(rest).traits;
        tail_traits |= combine(tail_traits, rest_traits);
        let all = traits | combine(traits, tail_traits);
        if before.is_empty() {
            return Ok(self.concatenation(all, core, rest));
        }
        let is_leaf = |parser: &mut Self, n: u32| {
            let n = parser.at(n);
            n.kind == Kind::Leaf && n.capture == 0
        };
        let plain = is_leaf(self, core) && is_leaf(self, rest) && !is_messy(up(core_traits | rest_traits));
        let tail = self.concatenation(tail_traits, core, rest);
        if plain {
            let n = self.at(tail);
            n.kind = Kind::Leaf;
            n.traits = combine(core_traits, rest_traits);
            n.below.clear();
        }
        let first = prefix(self);
        Ok(self.concatenation(all, first, tail))
    }

    fn repeat_or_none(&mut self, language: u32, least: u16, most: u16) -> u32 {
        if most == 0 { self.language(Language::All([].into())) } else { self.repeat(language, least, most) }
    }

    fn constraint(&mut self) -> Parsing<Option<u32>> {
        let by_line = self.out.flags.has(Flags::LINE_ANCHORS);
        let assertion = match self.next() {
            Token::Caret if by_line => Assertion::LineStart,
            Token::Caret | Token::TextStart => Assertion::TextStart,
            Token::Dollar if by_line => Assertion::LineEnd,
            Token::Dollar | Token::TextEnd => Assertion::TextEnd,
            Token::WordStart => Assertion::WordStart,
            Token::WordEnd => Assertion::WordEnd,
            Token::WordEdge => Assertion::WordEdge,
            Token::NoWordEdge => Assertion::NoWordEdge,
            Token::Look { ahead, positive } => {
                self.advance()?;
                let node = self.alternatives(Token::Close, true)?;
                self.advance()?;
                let look = Look { ahead, positive, language: self.at(node).language };
                let i = u16::try_from(self.out.looks.len()).map_err(|_| Problem::TooComplex)?;
                self.out.looks.push(look);
                return Ok(Some(self.language(Language::Look(i))));
            }
            _ => return Ok(None),
        };
        use Assertion::*;
        if matches!(assertion, WordStart | WordEnd | WordEdge | NoWordEdge) && self.out.word.is_none() {
            self.out.word = Some(self.set(Class::Word.set().clone())?);
        }
        self.advance()?;
        Ok(Some(self.language(Language::Assertion(assertion))))
    }

    fn atom(&mut self, in_look: bool) -> Parsing<Atom> {
        let set = match self.next() {
            Token::Star(_) | Token::Plus(_) | Token::Maybe(_) | Token::BoundOpen => {
                return Err(Problem::BadRepeat);
            }
            Token::Close => {
                let flags = self.out.flags;
                if !flags.has(Flags::EXTENDED) || flags.has(Flags::ADVANCED_FEATURES) {
                    return Err(Problem::Parentheses);
                }
                self.one(')' as u32)
            }
            Token::Char(c) => self.one(c),
            Token::Bracket(positive) => {
                let mut set = self.bracket()?;
                if !positive {
                    if self.out.flags.has(Flags::LINE_STOPS) {
                        set.add('\n' as u32, '\n' as u32);
                    }
                    set.tidy();
                    set = set.complement();
                }
                set
            }
            Token::Class(class, others) => {
                let set = self.class(class);
                if others { set.complement() } else { set }
            }
            Token::Dot => {
                let none = if self.out.flags.has(Flags::LINE_STOPS) {
                    Set::one('\n' as u32)
                } else {
                    Set::default()
                };
                none.complement()
            }
            Token::Open(captures) => return self.parenthesis(captures && !in_look, in_look),
            Token::BackReference(n) => {
                let captured = self.captured.get((n as usize).wrapping_sub(1)).copied().flatten();
                let captured = captured.filter(|_| !in_look).ok_or(Problem::BackReference)?;
                let language = self.at(captured).language;
                let language = self.without_constraints(language);
                let kind = Kind::Reference { capture: n, least: 1, most: 1 };
                let node = self.node(kind, REFERS, language, vec![]);
                self.out.refers = true;
                self.advance()?;
                return Ok(Atom { language, node: Some(node), apart: true, is_reference: true });
            }
            other => unreachable!("{other:?} is no atom"),
        };
        self.advance()?;
        let set = self.set(set)?;
        let language = self.language(Language::Set(set));
        Ok(Atom { language, node: None, apart: false, is_reference: false })
    }

    fn parenthesis(&mut self, captures: bool, in_look: bool) -> Parsing<Atom> {
        if captures {
            self.out.captures += 1;
            self.lexer.captures = self.out.captures;
        }
        let number = self.out.captures;
        self.advance()?;
        let mut node = self.alternatives(Token::Close, in_look)?;
        self.advance()?;
        if captures {
            if self.at(node).capture == 0 {
                let n = self.at(node);
                n.capture = number;
                n.traits |= CAPTURES;
            } else {
                let (traits, language) = (self.at(node).traits | CAPTURES, self.at(node).language);
                node = self.node(Kind::Wrapper, traits, language, vec![node]);
                self.at(node).capture = number;
            }
            self.captured.resize(self.captured.len().max(number as usize), None);
            self.captured[number as usize - 1] = Some(node);
        }
        let language = self.at(node).language;
        Ok(Atom { language, node: Some(node), apart: captures, is_reference: false })
    }

    /// The same language with no constraints (P3).
    fn without_constraints(&mut self, language: u32) -> u32 {
        let of = |parser: &mut Self, all: &[u32]| -> Box<[u32]> {
            all.iter().map(|l| parser.without_constraints(*l)).collect()
        };
        let made = match self.out.languages[language as usize].clone() {
            Language::Set(_) => return language,
            Language::Assertion(_) | Language::Look(_) => Language::All([].into()),
            Language::All(all) => Language::All(of(self, &all)),
            Language::Any(all) => Language::Any(of(self, &all)),
            Language::Repeat(one, least, most) => {
                Language::Repeat(self.without_constraints(one), least, most)
            }
        };
        self.language(made)
    }

    fn quantifier(&mut self) -> Parsing<Quantifier> {
        let preference = |long: bool| if long { LONGER } else { SHORTER };
        let (least, most, long) = match self.next() {
            Token::Star(long) => (0, NO_LIMIT, long),
            Token::Plus(long) => (1, NO_LIMIT, long),
            Token::Maybe(long) => (0, 1, long),
            Token::BoundOpen => return self.bound(),
            _ => return Ok(Quantifier { least: 1, most: 1, preference: 0 }),
        };
        self.advance()?;
        Ok(Quantifier { least, most, preference: preference(long) })
    }

    fn bound(&mut self) -> Parsing<Quantifier> {
        self.advance()?;
        let least = self.bound_number()?;
        let mut most = least;
        let mut passes_on = true;
        if self.lexer.take_word(Token::Comma)? {
            passes_on = false;
            most = if matches!(self.next(), Token::Digit(_)) { self.bound_number()? } else { NO_LIMIT };
            if least > most {
                return Err(Problem::BadBound);
            }
        }
        let Token::BoundClose(long) = self.next() else { return Err(Problem::BadBound) };
        self.advance()?;
        let preference = match (passes_on, long) {
            (true, _) => 0,
            (false, true) => LONGER,
            (false, false) => SHORTER,
        };
        Ok(Quantifier { least, most, preference })
    }

    fn bound_number(&mut self) -> Parsing<u16> {
        let mut n = 0;
        while let Token::Digit(d) = self.next()
            && n < MOST
        {
            n = n * 10 + d;
            self.advance()?;
        }
        if matches!(self.next(), Token::Digit(_)) || n > MOST { Err(Problem::BadBound) } else { Ok(n as u16) }
    }

    // ---- sets ---------------------------------------------------------------------------------------------

    fn one(&self, c: u32) -> Set {
        self.range(c, c)
    }
    fn range(&self, from: u32, to: u32) -> Set {
        let mut set = Set::range(from, to);
        if self.ignores_case() {
            set.add_cases(from, to);
            set.tidy();
        }
        set
    }
    fn class(&self, class: Class) -> Set {
        match class {
            Class::Lower | Class::Upper if self.ignores_case() => Class::Alpha.set().clone(),
            _ => class.set().clone(),
        }
    }

    /// What stands in brackets, up to the one that closes.
    fn bracket(&mut self) -> Parsing<Set> {
        self.advance()?;
        let mut set = Set::default();
        while self.next() != Token::BracketClose {
            let from = match self.next() {
                Token::Range => return Err(Problem::BadRange),
                Token::Char(c) => {
                    self.advance()?;
                    c
                }
                Token::Element => self.element()?,
                Token::Equivalence => {
                    let c = self.element()?;
                    set.add_all(&self.one(c));
                    continue;
                }
                Token::ClassName => {
                    let name = self.name()?;
                    let class = Class::by_name(&name).ok_or(Problem::BadClass)?;
                    set.add_all(&self.class(class));
                    continue;
                }
                Token::Class(class, others) => {
                    let class = self.class(class);
                    set.add_all(&if others { class.complement() } else { class });
                    self.advance()?;
                    continue;
                }
                other => unreachable!("{other:?} in brackets"),
            };
            let mut to = from;
            if self.next() == Token::Range {
                self.advance()?;
                to = match self.next() {
                    Token::Char(c) => {
                        self.advance()?;
                        c
                    }
                    Token::Range => {
                        self.advance()?;
                        '-' as u32
                    }
                    Token::Element => self.element()?,
                    _ => return Err(Problem::BadRange),
                };
            }
            if to < from {
                return Err(Problem::BadRange);
            }
            set.add_all(&self.range(from, to));
        }
        set.tidy();
        Ok(set)
    }

    /// What stands between `[.` and `.]` and the like.
    fn name(&mut self) -> Parsing<String> {
        let from = self.lexer.place();
        self.advance()?;
        let mut to = self.lexer.place();
        while let Token::Char(_) = self.next() {
            to = self.lexer.place();
            self.advance()?;
        }
        let name = self.lexer.between(from, to).iter().collect();
        self.advance()?;
        Ok(name)
    }

    fn element(&mut self) -> Parsing<u32> {
        let name = self.name()?;
        let mut chars = name.chars();
        match (chars.next(), chars.next()) {
            (Some(c), None) => Ok(c as u32),
            _ => element_by_name(&name).ok_or(Problem::BadElement),
        }
    }
}

/// POSIX's names of the ASCII characters.
fn element_by_name(name: &str) -> Option<u32> {
    const CONTROLS: &str = "NUL SOH STX ETX EOT ENQ ACK BEL BS HT LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK \
                            SYN ETB CAN EM SUB ESC IS4 IS3 IS2 IS1";
    const MORE: &[(&str, u8)] = &[
        ("alert", 7),
        ("backspace", 8),
        ("tab", 9),
        ("newline", 10),
        ("vertical-tab", 11),
        ("form-feed", 12),
        ("carriage-return", 13),
        ("FS", 28),
        ("GS", 29),
        ("RS", 30),
        ("US", 31),
        ("space", b' '),
        ("exclamation-mark", b'!'),
        ("quotation-mark", b'"'),
        ("number-sign", b'#'),
        ("dollar-sign", b'$'),
        ("percent-sign", b'%'),
        ("ampersand", b'&'),
        ("apostrophe", b'\''),
        ("left-parenthesis", b'('),
        ("right-parenthesis", b')'),
        ("asterisk", b'*'),
        ("plus-sign", b'+'),
        ("comma", b','),
        ("hyphen", b'-'),
        ("hyphen-minus", b'-'),
        ("period", b'.'),
        ("full-stop", b'.'),
        ("slash", b'/'),
        ("solidus", b'/'),
        ("zero", b'0'),
        ("one", b'1'),
        ("two", b'2'),
        ("three", b'3'),
        ("four", b'4'),
        ("five", b'5'),
        ("six", b'6'),
        ("seven", b'7'),
        ("eight", b'8'),
        ("nine", b'9'),
        ("colon", b':'),
        ("semicolon", b';'),
        ("less-than-sign", b'<'),
        ("equals-sign", b'='),
        ("greater-than-sign", b'>'),
        ("question-mark", b'?'),
        ("commercial-at", b'@'),
        ("left-square-bracket", b'['),
        ("backslash", b'\\'),
        ("reverse-solidus", b'\\'),
        ("right-square-bracket", b']'),
        ("circumflex", b'^'),
        ("circumflex-accent", b'^'),
        ("underscore", b'_'),
        ("low-line", b'_'),
        ("grave-accent", b'`'),
        ("left-brace", b'{'),
        ("left-curly-bracket", b'{'),
        ("vertical-line", b'|'),
        ("right-brace", b'}'),
        ("right-curly-bracket", b'}'),
        ("tilde", b'~'),
        ("DEL", 127),
    ];
    if let Some(n) = CONTROLS.split_ascii_whitespace().position(|n| n == name) {
        return Some(n as u32);
    }
    MORE.iter().find(|(n, _)| *n == name).map(|(_, c)| u32::from(*c))
}
