//! A language as a machine of states, of which several are in force at a place of the text.

use super::Problem;
use super::parse::{Assertion, Language, NO_LIMIT};
use super::set::kind;

/// The most states of one machine.
const MOST_STATES: usize = 100_000;

#[derive(Clone, Copy, Debug)]
pub enum State {
    /// Takes one character of a set.
    Set(u16, u32),
    /// Both at once.
    Split(u32, u32),
    Assertion(Assertion, u32),
    Look(u16, u32),
    Match,
}

#[derive(Debug)]
pub struct Nfa {
    pub states: Vec<State>,
    pub start: u32,
    /// The kinds of characters, and the text's edges, that its assertions tell apart.
    pub kinds: u8,
    pub looks: bool,
}

impl Nfa {
    pub fn new(languages: &[Language], language: u32) -> Result<Nfa, Problem> {
        let mut nfa = Nfa { states: vec![State::Match], start: 0, kinds: 0, looks: false };
        nfa.start = nfa.add(languages, language, 0)?;
        Ok(nfa)
    }

    /// Gives it a first state that nothing leads back to.
    pub fn part_start(&mut self) {
        self.states.push(State::Split(self.start, self.start));
        self.start = self.states.len() as u32 - 1;
    }

    pub fn bytes(&self) -> usize {
        self.states.len() * size_of::<State>()
    }

    fn push(&mut self, state: State) -> Result<u32, Problem> {
        if self.states.len() >= MOST_STATES {
            return Err(Problem::TooComplex);
        }
        self.states.push(state);
        Ok(self.states.len() as u32 - 1)
    }

    /// Adds a language before a state, and gives the state that begins it.
    fn add(&mut self, languages: &[Language], language: u32, then: u32) -> Result<u32, Problem> {
        match &languages[language as usize] {
            Language::Set(set) => self.push(State::Set(*set, then)),
            Language::Assertion(a) => {
                self.kinds |= match a {
                    Assertion::TextStart | Assertion::TextEnd => kind::EDGE,
                    Assertion::LineStart | Assertion::LineEnd => kind::EDGE | kind::NEWLINE,
                    _ => kind::WORD,
                };
                self.push(State::Assertion(*a, then))
            }
            Language::Look(look) => {
                self.looks = true;
                self.push(State::Look(*look, then))
            }
            Language::All(all) => all.iter().rev().try_fold(then, |then, l| self.add(languages, *l, then)),
            Language::Any(any) => {
                let mut entry = None;
                for l in any.iter().rev() {
                    let branch = self.add(languages, *l, then)?;
                    entry = Some(match entry {
                        None => branch,
                        Some(others) => self.push(State::Split(branch, others))?,
                    });
                }
                Ok(entry.unwrap_or(then))
            }
            Language::Repeat(one, least, most) => {
                let mut entry = then;
                let mut required = *least;
                if *most == NO_LIMIT {
                    let split = self.push(State::Split(then, then))?;
                    let body = self.add(languages, *one, split)?;
                    self.states[split as usize] = State::Split(body, then);
                    // At least once is the loop entered at its body.
                    entry = if *least > 0 { body } else { split };
                    required = least.saturating_sub(1);
                } else {
                    for _ in *least..*most {
                        let body = self.add(languages, *one, entry)?;
                        entry = self.push(State::Split(body, then))?;
                    }
                }
                for _ in 0..required {
                    let before = self.states.len();
                    entry = self.add(languages, *one, entry)?;
                    // What is empty is the same any number of times.
                    if self.states.len() == before {
                        break;
                    }
                }
                Ok(entry)
            }
        }
    }
}
