//! The protocol as a small executable model, and the known-wrong variants that it must catch.
//!
//! Several lives of a database of a few pages. Transactions lock slots, change them, spill fragments, commit
//! (taking `c` at once, their record landing a little later), or abort; some timestamps are void. Rounds,
//! syncs of single streams (which may fail for good), checkpoints in small steps, drops of pages and their
//! reuse are interleaved at random. At a crash any unsynced block may be lost. Checked after each: nothing
//! acknowledged is lost, nothing that a reader saw is undone, and the state is exactly that of a prefix of
//! the commit order.
//!
//! Each [`Mutation`] leaves one rule out; the run must then show a wrong state or a refusal.
mod common;
use common::Random;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mutation {
    /// Recovery takes every block it finds.
    RoundsIgnored,
    /// A round seals one stream only.
    OneStream,
    /// A round closes while a commit below `closed` has no record yet: the latch is absent.
    LatchAbsent,
    /// A commit is acknowledged when its own block is synced.
    AckOwnBlock,
    /// T is the clock, whatever is not yet installed.
    TIsClock,
    /// The dirty flag is cleared after copying.
    DirtyLate,
    /// Images hold the newest bytes, not those of T.
    NewestBytes,
    /// Truncation looks at commits only.
    FragmentsIgnored,
    /// Blocks beyond an incarnation's end are taken.
    EndsMissing,
    /// The manifest is published before its rounds are durable.
    NoWait,
    /// A dropped page is reused before a T at or past its drop is published.
    ReusedEarly,
    /// An image of a page's former life is loaded.
    OldImages,
    /// Truncation forgets rounds of system records that the tables lack.
    TablesForgotten,
    /// A void timestamp is not logged.
    VoidNotLogged,
    /// A failed sync is tried again and believed.
    SyncRetried,
    /// Readers see all commits, not the durable ones.
    ReadAtClock,
    /// Recovery believes blocks that may be in the system's cache only, without writing them again.
    TailNotRewritten,
    /// Without the certificate (protocol/P6), to see what a mutation would do silently.
    NoCertificate,
}
use Mutation::*;

const PAGES: usize = 4;
const SLOTS: usize = 4;
type Page = [u32; SLOTS];
type Writes = Vec<(usize, usize, u32)>;

#[derive(Clone)]
enum Item {
    Commit { c: u64, txn: u64, deltas: Writes, fragments: usize },
    Void { c: u64 },
    Fragment { txn: u64, deltas: Writes },
    Create { page: usize, clock: u64 },
    Drop { page: usize, clock: u64 },
}
#[derive(Clone)]
struct Block {
    incarnation: u64,
    round: u64,
    items: Vec<Item>,
    mask: Vec<(usize, u64)>,
    closed: u64,
    durable: u64,
}
#[derive(Clone)]
enum Effect {
    Write(usize, usize, u32),
    Drop(usize),
}
#[derive(Clone, Default)]
struct Txn {
    pending: BTreeMap<(usize, usize), u32>,
    total: BTreeMap<(usize, usize), u32>,
    fragments: usize,
    stream: usize,
}
struct Scan {
    t: u64,
    todo: Vec<usize>,
    all: Vec<usize>,
    images: Vec<(usize, Page)>,
    table: Option<(Vec<(bool, u64)>, u64)>,
    round: Option<u64>,
}
#[derive(Default, Debug)]
struct Outcome {
    wrong: Option<&'static str>,
    refused: Option<&'static str>,
    acknowledged: usize,
    checkpoints: usize,
    drops: usize,
}

fn pick<T: Copy>(random: &mut Random, from: &[T]) -> T {
    from[random.below(from.len())]
}

struct World {
    history: BTreeMap<u64, Vec<Effect>>,
}
impl World {
    fn state(&self, upto: u64) -> [Page; PAGES] {
        let mut s = [[0; SLOTS]; PAGES];
        for effect in self.history.range(..upto).flat_map(|(_, e)| e) {
            match effect {
                Effect::Write(p, i, v) => s[*p][*i] = *v,
                Effect::Drop(p) => s[*p] = [0; SLOTS],
            }
        }
        s
    }
}

fn run(
    seed: u64,
    streams: usize,
    lives: usize,
    mutations: &[Mutation],
    damage: Option<fn(&mut Random, &mut Vec<BTreeMap<u64, Block>>, u64)>,
) -> Outcome {
    let m = |x: Mutation| mutations.contains(&x);
    let mut r = Random(seed);
    let mut out = Outcome::default();
    // What is durable: images with their T, the manifest, the streams' blocks.
    let mut image = [([0u32; SLOTS], 0u64); PAGES];
    let (mut man_t, mut first) = (0u64, 1u64);
    let mut ends: BTreeMap<u64, u64> = BTreeMap::new();
    let mut table = vec![(true, 0u64); PAGES]; // alive, created
    let mut disk: Vec<BTreeMap<u64, Block>> = vec![BTreeMap::new(); streams];
    let mut next_position = vec![1u64; streams];
    // Across lives.
    let mut world = World { history: BTreeMap::new() };
    let (mut clock, mut round, mut txns) = (1u64, 0u64, 0u64);
    let mut alive = vec![(true, 0u64); PAGES];
    let mut waiting: BTreeMap<usize, u64> = BTreeMap::new();
    // Blocks that are in the system's cache and not on the medium, after a process died and the machine did
    // not; true for those that a failed sync lost.
    let mut cached: Vec<BTreeMap<u64, bool>> = vec![BTreeMap::new(); streams];

    for incarnation in 1..=lives as u64 {
        let mut value = world.state(clock);
        let mut versions: BTreeMap<(usize, usize), Vec<(u64, u32)>> = BTreeMap::new();
        let mut last = [0u64; PAGES];
        for (c, effects) in &world.history {
            for e in effects {
                match e {
                    Effect::Write(p, i, v) => {
                        versions.entry((*p, *i)).or_default().push((*c, *v));
                        last[*p] = *c;
                    }
                    Effect::Drop(p) => {
                        (0..SLOTS).for_each(|i| versions.entry((*p, i)).or_default().push((*c, 0)));
                        last[*p] = *c;
                    }
                }
            }
        }
        let mut flag: Vec<bool> = last.iter().map(|l| *l > man_t).collect();
        let mut buffer: Vec<Vec<Item>> = vec![vec![]; streams];
        let mut tail = next_position.clone();
        let mut unsynced: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); streams];
        let mut lost: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); streams];
        let mut failed = false;
        let mut rounds: BTreeMap<u64, Vec<(usize, u64)>> = BTreeMap::new();
        let mut durable = round;
        let mut durable_ts = clock - 1;
        let mut closed_of: BTreeMap<u64, u64> = BTreeMap::new();
        let mut active: BTreeMap<u64, Txn> = BTreeMap::new();
        let mut prepared: Vec<(u64, u64, Txn)> = vec![];
        let mut locks: BTreeMap<(usize, usize), u64> = BTreeMap::new();
        let mut acks: BTreeSet<u64> = BTreeSet::new();
        let mut seen = 0u64;
        let mut commit_of: BTreeMap<u64, u64> = BTreeMap::new();
        let mut to_ack: Vec<(u64, u64, usize, u64)> = vec![];
        let mut scan: Option<Scan> = None;

        macro_rules! seal {
            () => {{
                let mut part: Vec<usize> = (0..streams).filter(|k| !buffer[*k].is_empty()).collect();
                if (prepared.is_empty() || m(LatchAbsent)) && !part.is_empty() {
                    if m(OneStream) {
                        part = vec![pick(&mut r, &part)];
                    }
                    round += 1;
                    let mask: Vec<_> = part.iter().map(|k| (*k, tail[*k])).collect();
                    for k in part {
                        let items = std::mem::take(&mut buffer[k]);
                        for item in &items {
                            if let Item::Commit { c, .. } | Item::Void { c } = item {
                                to_ack.push((*c, round, k, tail[k]));
                            }
                        }
                        let block =
                            Block { incarnation, round, items, mask: mask.clone(), closed: clock, durable };
                        disk[k].insert(tail[k], block);
                        unsynced[k].insert(tail[k]);
                        tail[k] += 1;
                    }
                    closed_of.insert(round, clock);
                    rounds.insert(round, mask);
                }
            }};
        }
        macro_rules! finish {
            ($i:expr) => {{
                let (c, txn, x) = prepared.swap_remove($i);
                let deltas =
                    x.pending.iter().filter(|(_, d)| **d != 0).map(|((p, i), d)| (*p, *i, *d)).collect();
                buffer[x.stream].push(Item::Commit { c, txn, deltas, fragments: x.fragments });
                let effects = world.history.entry(c).or_default();
                for ((p, i), d) in x.total.iter().filter(|(_, d)| **d != 0) {
                    value[*p][*i] ^= d;
                    versions.entry((*p, *i)).or_default().push((c, value[*p][*i]));
                    effects.push(Effect::Write(*p, *i, value[*p][*i]));
                    flag[*p] = true;
                    last[*p] = last[*p].max(c);
                }
                locks.retain(|_, t| *t != txn);
            }};
        }

        for _ in 0..260 {
            let a = r.below(1000);
            if a < 90 {
                seal!();
            } else if a < 200 {
                let k = r.below(streams);
                if !failed && r.below(150) == 0 && !unsynced[k].is_empty() {
                    // The sync fails: of what it was to write, some is gone for good.
                    for q in unsynced[k].clone() {
                        if r.chance(70) {
                            lost[k].insert(q);
                        }
                    }
                    failed = true;
                } else if !failed || m(SyncRetried) {
                    unsynced[k].clear();
                }
                if !failed || m(SyncRetried) {
                    while let Some(mask) = rounds.get(&(durable + 1))
                        && mask.iter().all(|(j, q)| !unsynced[*j].contains(q))
                    {
                        durable += 1;
                        durable_ts = closed_of[&durable] - 1;
                    }
                    to_ack.retain(|(c, round, k, q)| {
                        let done = if m(AckOwnBlock) { !unsynced[*k].contains(q) } else { *round <= durable };
                        if done {
                            acks.insert(*c);
                        }
                        !done
                    });
                }
            } else if a < 230 {
                seen = seen.max(if m(ReadAtClock) { clock - 1 } else { durable_ts });
            } else if a < 280 && scan.is_none() {
                let mut t = clock - 1;
                if !m(TIsClock) {
                    t = prepared.iter().map(|p| p.0 - 1).min().unwrap_or(t);
                }
                let all: Vec<usize> = (0..PAGES).filter(|p| flag[*p]).collect();
                if !m(DirtyLate) {
                    all.iter().for_each(|p| flag[*p] = last[*p] > t);
                }
                scan = Some(Scan { t, todo: all.clone(), all, images: vec![], table: None, round: None });
            } else if a < 400 && scan.as_ref().is_some_and(|s| s.table.is_none()) {
                let s = scan.as_mut().unwrap();
                if s.todo.is_empty() {
                    if m(DirtyLate) {
                        s.all.iter().for_each(|p| flag[*p] = false);
                    }
                    s.table = Some((alive.clone(), round + 1));
                } else {
                    let i = r.below(s.todo.len());
                    let p = s.todo.swap_remove(i);
                    let mut page = value[p];
                    if !m(NewestBytes) {
                        for (i, v) in page.iter_mut().enumerate() {
                            let of = versions.get(&(p, i)).into_iter().flatten().filter(|(c, _)| *c <= s.t);
                            *v = of.max_by_key(|(c, _)| *c).map_or(0, |(_, v)| *v);
                        }
                    }
                    s.images.push((p, page));
                }
            } else if a < 460 && scan.as_ref().is_some_and(|s| s.table.is_some()) {
                // All rounds up to the reading of the tables first.
                if scan.as_ref().is_some_and(|s| s.round.is_none()) && prepared.is_empty() {
                    while buffer.iter().any(|b| !b.is_empty()) {
                        seal!();
                        if m(OneStream) {
                            break;
                        }
                    }
                    scan.as_mut().unwrap().round = Some(round);
                }
                if scan.as_ref().unwrap().round.is_some_and(|r| durable >= r || m(NoWait)) {
                    let s = scan.take().unwrap();
                    man_t = s.t;
                    let (tables, tables_from) = s.table.unwrap();
                    for (p, page) in s.images {
                        // A page that the tables no longer know keeps the image of its former life.
                        if tables[p].0 {
                            image[p] = (page, s.t);
                        }
                    }
                    table = tables;
                    out.checkpoints += 1;
                    let mut need = round + 1;
                    for b in disk.iter().flat_map(|d| d.values()) {
                        if ends.get(&b.incarnation).is_some_and(|end| b.round > *end) {
                            continue;
                        }
                        for item in &b.items {
                            let keep = match item {
                                Item::Commit { c, .. } | Item::Void { c } => *c > man_t,
                                Item::Fragment { txn, .. } if !m(FragmentsIgnored) => {
                                    commit_of.get(txn).map_or(active.contains_key(txn), |c| *c > man_t)
                                }
                                Item::Fragment { .. } => false,
                                Item::Create { .. } | Item::Drop { .. } => {
                                    !m(TablesForgotten) && b.round >= tables_from
                                }
                            };
                            if keep {
                                need = need.min(b.round);
                            }
                        }
                    }
                    first = need;
                    disk.iter_mut().for_each(|d| d.retain(|_, b| b.round >= need));
                    waiting.retain(|_, dropped| *dropped > man_t);
                }
            } else if a < 520 && !prepared.is_empty() {
                finish!(r.below(prepared.len()));
            } else if a < 535 {
                // A timestamp that changes nothing.
                let c = clock;
                clock += 1;
                world.history.insert(c, vec![]);
                if !m(VoidNotLogged) {
                    buffer[r.below(streams)].push(Item::Void { c });
                }
            } else if a < 545 {
                let p = r.below(PAGES);
                if alive[p].0 && !locks.keys().any(|(q, _)| *q == p) {
                    let c = clock;
                    clock += 1;
                    txns += 1;
                    buffer[r.below(streams)].push(Item::Commit {
                        c,
                        txn: txns,
                        deltas: vec![],
                        fragments: 0,
                    });
                    buffer[0].push(Item::Drop { page: p, clock });
                    world.history.insert(c, vec![Effect::Drop(p)]);
                    (0..SLOTS).for_each(|i| versions.entry((p, i)).or_default().push((c, 0)));
                    value[p] = [0; SLOTS];
                    flag[p] = true;
                    last[p] = c;
                    alive[p].0 = false;
                    waiting.insert(p, c);
                    out.drops += 1;
                }
            } else if a < 575 {
                let p = r.below(PAGES);
                if !alive[p].0 && (!waiting.contains_key(&p) || m(ReusedEarly)) {
                    waiting.remove(&p);
                    alive[p] = (true, clock);
                    buffer[0].push(Item::Create { page: p, clock });
                    // A new life has no versions of the former one.
                    flag[p] = false;
                    last[p] = 0;
                }
            } else if a < 650 {
                txns += 1;
                active.insert(txns, Txn { stream: r.below(streams), ..Txn::default() });
            } else if !active.is_empty() {
                let t = pick(&mut r, &active.keys().copied().collect::<Vec<_>>());
                let b = r.below(100);
                if b < 60 {
                    let (p, i) = (r.below(PAGES), r.below(SLOTS));
                    if !alive[p].0 || locks.get(&(p, i)).is_some_and(|o| *o != t) {
                        continue;
                    }
                    locks.insert((p, i), t);
                    let x = active.get_mut(&t).unwrap();
                    let now = value[p][i] ^ x.total.get(&(p, i)).copied().unwrap_or(0);
                    let new = if now != 0 && r.chance(40) { 0 } else { r.below(1 << 16) as u32 };
                    *x.pending.entry((p, i)).or_default() ^= now ^ new;
                    *x.total.entry((p, i)).or_default() ^= now ^ new;
                } else if b < 68 {
                    let x = active.get_mut(&t).unwrap();
                    if !x.pending.is_empty() {
                        let deltas =
                            std::mem::take(&mut x.pending).into_iter().map(|((p, i), d)| (p, i, d)).collect();
                        x.fragments += 1;
                        buffer[x.stream].push(Item::Fragment { txn: t, deltas });
                    }
                } else if b < 76 {
                    active.remove(&t);
                    locks.retain(|_, o| *o != t);
                } else if !active[&t].total.is_empty() {
                    let x = active.remove(&t).unwrap();
                    let c = clock;
                    clock += 1;
                    commit_of.insert(t, c);
                    prepared.push((c, t, x));
                    if r.chance(70) {
                        finish!(prepared.len() - 1);
                    }
                }
            }
        }

        // Crash: of what is not synced anything may be left; what a failed sync lost is gone. Unless only the
        // process dies: then all of it is still in the system's cache.
        for k in 0..streams {
            cached[k].extend(unsynced[k].iter().map(|q| (*q, false)));
            cached[k].extend(lost[k].iter().map(|q| (*q, true)));
        }
        if !r.chance(25) {
            for k in 0..streams {
                for (q, lost) in std::mem::take(&mut cached[k]) {
                    if lost || r.chance(50) {
                        disk[k].remove(&q);
                    }
                }
            }
        }
        if let Some(damage) = damage {
            damage(&mut r, &mut disk, durable);
        }

        // Recovery.
        let mut found: BTreeMap<u64, Vec<(usize, u64)>> = BTreeMap::new();
        // A recorded end is a witness, too.
        let mut top = ends.values().copied().max().unwrap_or(0);
        for (k, d) in disk.iter().enumerate() {
            for (q, b) in d {
                if !m(EndsMissing) && ends.get(&b.incarnation).is_some_and(|end| b.round > *end) {
                    continue;
                }
                let place = found.entry(b.round).or_default();
                place.retain(|(j, _)| *j != k); // without ends, a later life's block may collide
                place.push((k, *q));
                top = top.max(b.durable);
            }
        }
        let mut end = first - 1;
        if m(RoundsIgnored) {
            end = end.max(found.keys().next_back().copied().unwrap_or(0));
        } else {
            while let Some(blocks) = found.get(&(end + 1)) {
                let mask = &disk[blocks[0].0][&blocks[0].1].mask;
                if !mask.iter().all(|(k, _)| blocks.iter().any(|(j, _)| j == k)) {
                    break;
                }
                end += 1;
            }
        }
        if end < top && !m(NoCertificate) {
            out.refused = Some("acknowledged round lost");
            return out;
        }
        let blocks: Vec<&Block> =
            found.range(..=end).flat_map(|(_, b)| b.iter().map(|(k, q)| &disk[*k][q])).collect();
        let recovered = blocks.iter().map(|b| b.closed).max().unwrap_or(0).max(man_t + 1);
        let mut commits = vec![];
        let mut fragments: BTreeMap<u64, Vec<&Writes>> = BTreeMap::new();
        let mut after = table.clone();
        let mut dropped_in_log = BTreeMap::new();
        for item in blocks.iter().flat_map(|b| &b.items) {
            match item {
                Item::Commit { c, txn, deltas, fragments } if *c > man_t => {
                    commits.push((*c, Some((*txn, deltas, *fragments))))
                }
                Item::Void { c } if *c > man_t => commits.push((*c, None)),
                Item::Fragment { txn, deltas } => fragments.entry(*txn).or_default().push(deltas),
                Item::Create { page, clock } if *clock > man_t => {
                    if !after[*page].0 {
                        after[*page] = (true, *clock);
                    }
                    dropped_in_log.remove(page);
                }
                Item::Drop { page, clock } if *clock > man_t => {
                    after[*page].0 = false;
                    dropped_in_log.insert(*page, recovered - 1);
                }
                _ => {}
            }
        }
        let mut all: Vec<u64> = commits.iter().map(|c| c.0).collect();
        all.sort_unstable();
        if !m(NoCertificate) && !all.iter().copied().eq(man_t + 1..recovered) {
            out.refused = Some("commit timestamps not contiguous");
            return out;
        }
        let mut state = [[0u32; SLOTS]; PAGES];
        for p in 0..PAGES {
            if after[p].0 && (image[p].1 >= after[p].1 || m(OldImages)) {
                state[p] = image[p].0;
            }
        }
        for (_, (txn, deltas, count)) in commits.iter().filter_map(|c| c.1.map(|x| (c.0, x))) {
            let none = vec![];
            let spilled = fragments.get(&txn).unwrap_or(&none);
            if spilled.len() != count && !m(NoCertificate) {
                out.refused = Some("fragment missing");
                return out;
            }
            for (p, i, d) in std::iter::once(deltas).chain(spilled.iter().copied()).flatten() {
                if after[*p].0 {
                    state[*p][*i] ^= d;
                }
            }
        }
        if acks.iter().any(|c| *c >= recovered) {
            out.wrong = Some("acknowledged commit lost");
            return out;
        }
        if seen >= recovered {
            out.wrong = Some("a reader saw what the crash undid");
            return out;
        }
        if state != world.state(recovered) {
            out.wrong = Some("state");
            return out;
        }
        out.acknowledged += acks.len();
        world.history.split_off(&recovered);
        // What counts is written again, so that it is on the medium; what does not count no longer matters.
        for k in 0..streams {
            let keep = |q: &u64| m(TailNotRewritten) && disk[k].get(q).is_some_and(|b| b.round <= end);
            cached[k].retain(|q, _| keep(q));
        }
        // Durable before the first new commit.
        ends.insert(incarnation, end);
        for k in 0..streams {
            let live = disk[k].iter().filter(|(_, b)| b.round <= end).map(|(q, _)| *q).max();
            next_position[k] = live.map_or(next_position[k], |q| q + 1);
        }
        (clock, round) = (recovered, end);
        alive = after;
        waiting = dropped_in_log;
    }
    out
}

#[derive(Default, Debug)]
struct Sum {
    wrong: usize,
    refused: usize,
    first: Option<(u64, &'static str)>,
    acknowledged: usize,
    checkpoints: usize,
    drops: usize,
}
fn many(seeds: u64, streams: usize, mutations: &[Mutation]) -> Sum {
    let mut sum = Sum::default();
    for seed in 0..seeds {
        let o = run(seed, streams, 3, mutations, None);
        sum.wrong += o.wrong.is_some() as usize;
        sum.refused += o.refused.is_some() as usize;
        sum.first = sum.first.or(o.wrong.or(o.refused).map(|why| (seed, why)));
        sum.acknowledged += o.acknowledged;
        sum.checkpoints += o.checkpoints;
        sum.drops += o.drops;
    }
    sum
}

#[test]
fn the_protocol_is_never_wrong_and_never_refuses() {
    for (streams, seeds) in [(3, 6000), (2, 1500), (1, 1500)] {
        let sum = many(seeds, streams, &[]);
        assert_eq!(
            (sum.wrong, sum.refused),
            (0, 0),
            "{streams} streams: first failure {:?} (seed, why)",
            sum.first
        );
        // The run means something: commits were acknowledged, checkpoints published, pages dropped.
        let n = seeds as usize;
        assert!(sum.acknowledged > n * 10 && sum.checkpoints > n && sum.drops > n / 2, "{sum:?}");
    }
}

#[test]
fn every_known_wrong_variant_is_caught() {
    let list = [
        RoundsIgnored,
        OneStream,
        LatchAbsent,
        AckOwnBlock,
        TIsClock,
        DirtyLate,
        NewestBytes,
        FragmentsIgnored,
        NoWait,
        ReusedEarly,
        OldImages,
        TablesForgotten,
        VoidNotLogged,
        SyncRetried,
        ReadAtClock,
        TailNotRewritten,
    ];
    let mut escaped = vec![];
    for mutation in list {
        let sum = many(1000, 3, &[mutation]);
        println!("{mutation:?}: wrong {} refused {} of 1000, first {:?}", sum.wrong, sum.refused, sum.first);
        if sum.wrong + sum.refused == 0 {
            escaped.push(mutation);
        }
    }
    // The rare one, which only a model finds.
    let sum = many(8000, 3, &[EndsMissing]);
    println!("EndsMissing: wrong {} refused {} of 8000, first {:?}", sum.wrong, sum.refused, sum.first);
    if sum.wrong + sum.refused == 0 {
        escaped.push(EndsMissing);
    }
    assert!(escaped.is_empty(), "not caught: {escaped:?}");
}

/// What the certificate (protocol/P6) is for: without it these are silently wrong.
#[test]
fn without_the_certificate_the_same_variants_are_silent() {
    for mutation in [RoundsIgnored, LatchAbsent, FragmentsIgnored, VoidNotLogged] {
        let with = many(400, 3, &[mutation]);
        let without = many(400, 3, &[mutation, NoCertificate]);
        println!("{mutation:?}: {with:?} without: {without:?}");
        assert!(with.refused > 0, "{mutation:?} {with:?}");
        assert_eq!(without.refused, 0);
    }
}

/// A lost block of a round that another block names as durable is refused, never silently wrong. (Rounds
/// overlap in the model, so the newest durable rounds may have no witness yet; the horizon block is for
/// them.)
#[test]
fn lost_blocks_are_refused() {
    let lose = |r: &mut Random, disk: &mut Vec<BTreeMap<u64, Block>>, _: u64| {
        let witness = disk.iter().flat_map(|d| d.values()).map(|b| b.durable).max().unwrap_or(0);
        let all: Vec<(usize, u64)> = disk
            .iter()
            .enumerate()
            .flat_map(|(k, d)| d.iter().filter(|(_, b)| b.round <= witness).map(move |(q, _)| (k, *q)))
            .collect();
        if !all.is_empty() {
            let (k, q) = pick(r, &all);
            disk[k].remove(&q);
        }
    };
    let mut refused = 0;
    for seed in 0..1000 {
        let o = run(seed, 3, 1, &[], Some(lose));
        assert!(o.wrong.is_none(), "seed {seed}: {o:?}");
        refused += o.refused.is_some() as usize;
    }
    assert!(refused > 500, "refused {refused}");
}
