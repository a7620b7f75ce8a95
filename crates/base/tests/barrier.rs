//! The protocols that rest on `base::barrier` (protocol/V1 to protocol/V3), each as programs of a few steps,
//! in all interleavings on processors with store buffers: as they are nothing bad is found, and each
//! known-wrong variant is found out.
//!
//! The machine: a store goes into its processor's buffer and from there to memory at any later time; a load
//! looks into the own buffer first. Buffers keep the order of stores, or, in the weaker machine, only that of
//! stores to one word and of a releasing store behind everything before it. Loads are done in order, which
//! acquiring ones ask for. Counting (an atomic addition) and a full fence wait until the own buffer is empty.
//! The heavy side of a barrier empties every other processor's buffer, each at a time of its own between the
//! call and the return.
use Op::*;
use std::collections::HashSet;

/// What a program does next.
enum Op {
    /// Register := word.
    Load(usize, usize),
    /// Word := value.
    Store(usize, u8),
    /// The same, behind all stores before it.
    Release(usize, u8),
    /// Word += 1, and register := the word before, at once.
    Count(usize, usize),
    Pass(Fence),
    /// Goes to that step.
    Go(usize),
    /// What must not be has come to be.
    Wrong,
    End,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Fence {
    Full,
    /// Nothing to the processor.
    Light,
    Heavy,
}

type Registers = [u8; 4];
/// From the step and the registers to what is done.
type Program<'a> = &'a dyn Fn(usize, &Registers) -> Op;
type Memory = [u8; 6];

#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct Processor {
    at: usize,
    registers: Registers,
    /// Word, value, releasing.
    buffer: Vec<(usize, u8, bool)>,
    /// Passing the heavy side: whose buffers are still to be emptied, as bits.
    waits: u8,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    memory: Memory,
    processors: Vec<Processor>,
}

struct Machine<'a> {
    programs: &'a [Program<'a>],
    in_order: bool,
    seen: HashSet<State>,
    ended: usize,
}

impl Machine<'_> {
    /// Whether what must not be can come to be, from here.
    fn goes_wrong(&mut self, s: State) -> bool {
        if !self.seen.insert(s.clone()) {
            return false;
        }
        let mut next = Vec::new();
        for p in 0..s.processors.len() {
            self.drains(&s, p, &mut next);
            if self.steps(&s, p, &mut next) {
                return true;
            }
        }
        self.ended += next.is_empty() as usize;
        next.into_iter().any(|n| self.goes_wrong(n))
    }

    /// A store leaves the buffer.
    fn drains(&self, s: &State, p: usize, next: &mut Vec<State>) {
        let buffer = &s.processors[p].buffer;
        for (i, &(word, value, release)) in buffer.iter().enumerate() {
            let behind = self.in_order || release || buffer[..i].iter().any(|b| b.0 == word);
            if i == 0 || !behind {
                let mut n = s.clone();
                n.processors[p].buffer.remove(i);
                n.memory[word] = value;
                next.push(n);
            }
        }
    }

    /// The program goes on; true if to what must not be.
    fn steps(&self, s: &State, p: usize, next: &mut Vec<State>) -> bool {
        let mut n = s.clone();
        let me = &mut n.processors[p];
        let is_empty = me.buffer.is_empty();
        let op = self.programs[p](me.at, &me.registers);
        me.at += 1;
        match op {
            Load(to, word) => {
                let own = me.buffer.iter().rev().find(|b| b.0 == word);
                me.registers[to] = own.map_or(s.memory[word], |b| b.1)
            }
            Store(word, value) => me.buffer.push((word, value, false)),
            Release(word, value) => me.buffer.push((word, value, true)),
            Count(..) | Pass(Fence::Full | Fence::Heavy) if !is_empty => return false,
            Count(to, word) => {
                me.registers[to] = n.memory[word];
                n.memory[word] += 1;
            }
            Pass(Fence::Full | Fence::Light) => {}
            Pass(Fence::Heavy) if me.waits == 0 => {
                me.at -= 1;
                // The own bit says that the call has begun.
                me.waits = (1 << s.processors.len()) - 1;
            }
            Pass(Fence::Heavy) if me.waits == 1 << p => me.waits = 0,
            Pass(Fence::Heavy) => {
                let waits = me.waits;
                for other in (0..s.processors.len()).filter(|o| *o != p && waits >> o & 1 != 0) {
                    let mut n = s.clone();
                    for (word, value, _) in std::mem::take(&mut n.processors[other].buffer) {
                        n.memory[word] = value
                    }
                    n.processors[p].waits &= !(1 << other);
                    next.push(n);
                }
                return false;
            }
            Go(to) => me.at = to,
            Wrong => return true,
            End => return false,
        }
        next.push(n);
        false
    }
}

/// Whether what must not be can come to be, on either machine.
fn goes_wrong(memory: Memory, programs: &[Program<'_>]) -> bool {
    [true, false].into_iter().any(|in_order| {
        let mut machine = Machine { programs, in_order, seen: HashSet::new(), ended: 0 };
        let processors = vec![Processor::default(); programs.len()];
        let wrong = machine.goes_wrong(State { memory, processors });
        assert!(wrong || machine.ended > 0, "no interleaving comes to its end");
        wrong
    })
}

/// What stands between store and load on the frequent and on the rare side, and whether that does.
const FENCES: [(Fence, Fence, bool); 5] = [
    (Fence::Light, Fence::Heavy, true),
    (Fence::Full, Fence::Full, true),
    (Fence::Light, Fence::Light, false),
    (Fence::Light, Fence::Full, false),
    (Fence::Full, Fence::Light, false),
];

#[test]
fn the_machine_reorders_what_processors_do_and_nothing_else() {
    // Both miss the other's store.
    for (a, b, holds) in FENCES {
        let side = |mine: usize, fence: Fence| {
            move |at: usize, r: &Registers| match at {
                0 => Store(mine, 1),
                1 => Pass(fence),
                2 => Load(0, 1 - mine),
                3 => Store(2 + mine, 1 + r[0]),
                _ => End,
            }
        };
        let judge = |at: usize, r: &Registers| match at {
            0 => Load(0, 2),
            1 => Load(1, 3),
            2 if r[0] == 1 && r[1] == 1 => Wrong,
            _ => End,
        };
        assert_eq!(goes_wrong([0; 6], &[&side(0, a), &side(1, b), &judge]), !holds, "{a:?} {b:?}");
    }
    // A message and its flag: loads are in order, stores if they are released.
    for release in [false, true] {
        let tells = |at: usize, _: &Registers| match at {
            0 => Store(0, 1),
            1 if release => Release(1, 1),
            1 => Store(1, 1),
            _ => End,
        };
        let hears = |at: usize, r: &Registers| match at {
            0 => Load(0, 1),
            1 => Load(1, 0),
            2 if r[0] == 1 && r[1] == 0 => Wrong,
            _ => End,
        };
        assert_eq!(goes_wrong([0; 6], &[&tells, &hears]), !release);
    }
}

// protocol/V1.
const EPOCH: usize = 0;
const PIN: usize = 1;
const POINTER: usize = 2;
const CELL: usize = 3;
const PASSED: usize = 4;
const FREED: u8 = 1;
const START: Memory = [1, 0, 0, 0, 1, 0];

/// Follows the pointer, which is 0 while it leads to the cell, under a pin; then once more, under another.
fn reader(light: Fence) -> impl Fn(usize, &Registers) -> Op {
    move |at, r| match at % 10 {
        _ if at >= 20 => End,
        0 => Load(0, EPOCH),
        1 => Release(PIN, r[0]),
        2 => Pass(light),
        3 => Load(1, POINTER),
        4 if r[1] != 0 => Go(at + 4),
        4 => Load(2, CELL),
        5 if r[2] == FREED => Wrong,
        6 => Load(2, CELL),
        7 if r[2] == FREED => Wrong,
        8 => Release(PIN, 0),
        _ => Go(at + 1),
    }
}

/// Unlinks the cell, ends the epoch, and frees the cell once the last scan's outcome is past that epoch:
/// scans itself, or leaves that to another.
fn writer(heavy: Fence, scans: bool, ends_epoch_first: bool) -> impl Fn(usize, &Registers) -> Op {
    move |at, r| match at {
        0 if ends_epoch_first => Count(0, EPOCH),
        0 => Store(POINTER, 1),
        1 if ends_epoch_first => Store(POINTER, 1),
        1 => Count(0, EPOCH),
        2..=6 if scans => scan(heavy, at - 2, r),
        2 => Go(7),
        7 => Load(1, PASSED),
        8 if r[0] < r[1] => Store(CELL, FREED),
        _ => End,
    }
}

/// Leaves register 0 as it is.
fn scan(heavy: Fence, at: usize, r: &Registers) -> Op {
    match at {
        0 => Load(1, EPOCH),
        1 => Pass(heavy),
        2 => Load(2, PIN),
        3 if r[2] != 0 && r[2] < r[1] => Release(PASSED, r[2]),
        3 => Release(PASSED, r[1]),
        4 => Go(7),
        _ => End,
    }
}

#[test]
fn epochs_free_nothing_under_a_reader() {
    for (light, heavy, holds) in FENCES {
        // The writer counts before it looks, which is a full fence.
        let holds = holds || light == Fence::Full;
        let found = goes_wrong(START, &[&reader(light), &writer(heavy, true, false)]);
        assert_eq!(found, !holds, "one's own scan, {light:?} {heavy:?}");
        let scanner = |at: usize, r: &Registers| scan(heavy, at, r);
        let found = goes_wrong(START, &[&reader(light), &writer(heavy, false, false), &scanner]);
        assert_eq!(found, !holds, "another's scan, {light:?} {heavy:?}");
    }
    // The epoch ends before the unlinking: a reader of the next one finds the pointer.
    assert!(goes_wrong(START, &[&reader(Fence::Light), &writer(Fence::Heavy, true, true)]));
    // The cell counts as retired in the epoch at hand after it, though the scan did not look at that one.
    let hasty = |at: usize, r: &Registers| match at {
        0..=4 => scan(Fence::Heavy, at, r),
        7 => Store(POINTER, 1),
        8 => Count(0, EPOCH),
        9 => Store(CELL, FREED),
        _ => End,
    };
    assert!(goes_wrong(START, &[&reader(Fence::Light), &hasty]));
}

#[test]
fn a_horizon_is_at_or_below_every_snapshot() {
    const VISIBLE: usize = 0;
    const SNAPSHOT: usize = 1;
    /// Versions that end before this are gone.
    const GONE: usize = 2;
    const IDLE: u8 = u8::MAX;
    let commits = |at: usize, _: &Registers| match at {
        0 | 1 => Release(VISIBLE, 2 + at as u8),
        _ => End,
    };
    for (light, heavy, holds) in FENCES {
        // The collector stores nothing before it looks.
        let holds = holds || light == Fence::Full;
        for looks_again in [true, false] {
            let reads = move |at: usize, r: &Registers| match at {
                0 => Load(0, VISIBLE),
                1 => Store(SNAPSHOT, r[0]),
                2 => Pass(light),
                3 if !looks_again => Go(5),
                3 => Load(1, VISIBLE),
                4 if r[1] > r[0] => Go(0),
                5 => Load(2, GONE),
                6 if r[2] > r[0] => Wrong,
                7 => Release(SNAPSHOT, IDLE),
                8 => End,
                _ => Go(at + 1),
            };
            let collects = move |at: usize, r: &Registers| match at {
                0 => Load(0, VISIBLE),
                1 => Pass(heavy),
                2 => Load(1, SNAPSHOT),
                3 => Store(GONE, r[0].min(r[1])),
                _ => End,
            };
            let found = goes_wrong([1, IDLE, 0, 0, 0, 0], &[&reads, &collects, &commits]);
            assert_eq!(found, !(holds && looks_again), "{light:?} {heavy:?} {looks_again}");
        }
    }
}

#[test]
fn who_changes_a_definition_and_who_uses_it_meet() {
    const USES: usize = 0;
    const MARK: usize = 1;
    const VERSION: usize = 2;
    const CONTENT: usize = 3;
    for (light, heavy, holds) in FENCES {
        let uses = move |at: usize, r: &Registers| match at {
            0 => Release(USES, 1),
            1 => Pass(light),
            2 => Load(0, MARK),
            3 if r[0] != 0 => End,
            3 => Load(1, VERSION),
            // Its plan is of the first version.
            4 if r[1] != 0 => End,
            4 => Load(2, CONTENT),
            5 if r[2] != 0 => Wrong,
            5 => Release(USES, 0),
            _ => End,
        };
        let changes = move |at: usize, r: &Registers| match at {
            0 => Store(MARK, 1),
            1 => Pass(heavy),
            2 => Load(0, USES),
            3 if r[0] != 0 => Go(2),
            3 => Store(CONTENT, 1),
            4 => Release(VERSION, 1),
            5 => Release(MARK, 0),
            _ => End,
        };
        assert_eq!(goes_wrong([0; 6], &[&uses, &changes]), !holds, "{light:?} {heavy:?}");
    }
}
