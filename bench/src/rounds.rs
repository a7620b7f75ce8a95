//! Alternating rounds of several sides, and what may be concluded from them.
//!
//! - **R1** In each round every side runs once, in an order by chance that is the same in each run: none
//!   always comes first, or behind the same other one.
//! - **R2** Sides that read the same keys must find the same checksum in each round, or the bench fails.
//! - **R3** A ratio is formed within a round, then its median and quartiles over the rounds. An aim is
//!   reached or missed only when both quartiles agree; otherwise it is undecided.
use crate::chart::{Bar, Chart};
use crate::machine::cpu_seconds;
use crate::random::Random;
use crate::report::{Report, number};
use crate::{Error, Result};
use std::time::Instant;

/// What one side did in one round.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    pub operations: u64,
    pub seconds: f64,
    pub cpu_s: f64,
    /// Sum over all that was read, to be compared with the other sides'.
    pub checksum: Option<u64>,
    /// Further figures for the CSV.
    pub extra: Vec<(String, f64)>,
}

impl Sample {
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.seconds.max(1e-9)
    }
    pub fn per_core(&self) -> f64 {
        self.operations as f64 / self.cpu_s.max(1e-9)
    }
}

/// Times what `work` does; it gives the number of operations.
pub fn timed(work: impl FnOnce() -> Result<u64>) -> Result<Sample> {
    let (cpu, start) = (cpu_seconds(), Instant::now());
    let operations = work()?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(Sample { operations, seconds, cpu_s: cpu_seconds() - cpu, ..Sample::default() })
}

/// Repeats a pass over drawn keys until the time is up. Every pass must find the same.
pub fn passes(seconds: f64, keys: usize, mut pass: impl FnMut() -> Result<u64>) -> Result<Sample> {
    let (cpu, start) = (cpu_seconds(), Instant::now());
    let mut found = None;
    let mut operations = 0;
    loop {
        let sum = pass()?;
        operations += keys as u64;
        if *found.get_or_insert(sum) != sum {
            return Err("the same keys read twice gave different checksums".into());
        }
        let elapsed = start.elapsed().as_secs_f64();
        if elapsed >= seconds {
            let cpu_s = cpu_seconds() - cpu;
            return Ok(Sample { operations, seconds: elapsed, cpu_s, checksum: found, extra: vec![] });
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quartiles {
    pub low: f64,
    pub median: f64,
    pub high: f64,
}

impl Quartiles {
    pub fn of(values: impl IntoIterator<Item = f64>) -> Quartiles {
        let mut v: Vec<f64> = values.into_iter().collect();
        v.sort_by(f64::total_cmp);
        let at = |p: f64| match v.len() {
            0 => f64::NAN,
            n => {
                let x = p * (n - 1) as f64;
                let (i, part) = (x.floor() as usize, x.fract());
                v[i] + (v[(i + 1).min(n - 1)] - v[i]) * part
            }
        };
        Quartiles { low: at(0.25), median: at(0.5), high: at(0.75) }
    }
    pub fn text(&self) -> String {
        format!("{} ({} to {})", number(self.median), number(self.low), number(self.high))
    }
}

/// What an aim compares.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// The rate of the one is at least so many times that of the other.
    RateAtLeast(f64),
    /// An operation of the one takes at most so many times as long as one of the other.
    TimeAtMost(f64),
    /// At least so many operations a second.
    Absolute(f64),
    /// At least so many operations a CPU second.
    PerCore(f64),
    /// An operation of the one takes at most so many times the CPU seconds of one of the other.
    CpuAtMost(f64),
}

struct Aim {
    text: String,
    of: String,
    over: Option<String>,
    bound: Bound,
}

pub fn verdict(q: Quartiles, aim: f64, at_least: bool) -> &'static str {
    let reached = |v: f64| if at_least { v >= aim } else { v <= aim };
    match (reached(q.low), reached(q.high)) {
        (true, true) => "reached",
        (false, false) => "missed",
        _ => "undecided",
    }
}

type Run<'a> = Box<dyn FnMut(usize) -> Result<Sample> + 'a>;

/// Sides that do the same work.
pub struct Contest<'a> {
    name: String,
    unit: &'static str,
    sides: Vec<(String, Run<'a>)>,
    aims: Vec<Aim>,
}

impl<'a> Contest<'a> {
    /// `unit` is what is counted: "reads".
    pub fn new(name: impl Into<String>, unit: &'static str) -> Contest<'a> {
        Contest { name: name.into(), unit, sides: vec![], aims: vec![] }
    }
    /// `run` is given the round, counted from 0.
    pub fn side(&mut self, name: impl Into<String>, run: impl FnMut(usize) -> Result<Sample> + 'a) {
        self.sides.push((name.into(), Box::new(run)));
    }
    pub fn aim(&mut self, text: impl Into<String>, of: &str, over: Option<&str>, bound: Bound) {
        self.aims.push(Aim { text: text.into(), of: of.into(), over: over.map(str::to_string), bound });
    }

    /// Runs the rounds; the report gets table, raw figures and chart. Gives the samples by side and round.
    pub fn run(mut self, rounds: usize, report: &mut Report) -> Result<Vec<Vec<Sample>>> {
        let n = self.sides.len();
        let mut samples: Vec<Vec<Sample>> = vec![vec![]; n];
        let (mut order, mut random): (Vec<usize>, _) = ((0..n).collect(), Random::new(1));
        for round in 0..rounds {
            eprintln!("{}: round {} of {rounds}", self.name, round + 1);
            for k in (1..n).rev() {
                order.swap(k, random.below(k as u64 + 1) as usize);
            }
            for &i in &order {
                let (name, run) = &mut self.sides[i];
                let sample = run(round).map_err(|e| Error::from(format!("{name}: {e}")))?;
                report.raw(&self.name, name, round, &sample);
                samples[i].push(sample);
            }
            let mut sums = (0..n).filter_map(|i| Some((i, samples[i][round].checksum?)));
            if let Some((first, sum)) = sums.next()
                && let Some((other, found)) = sums.find(|(_, s)| *s != sum)
            {
                return Err(format!(
                    "{}: the checksums disagree: {} read {sum:016x}, {} read {found:016x}",
                    self.name, self.sides[first].0, self.sides[other].0
                )
                .into());
            }
        }
        self.tell(&samples, report)?;
        Ok(samples)
    }

    fn tell(&self, samples: &[Vec<Sample>], report: &mut Report) -> Result<()> {
        let mut bars = vec![];
        let mut rows = vec![];
        for ((name, _), s) in self.sides.iter().zip(samples) {
            let rate = Quartiles::of(s.iter().map(Sample::rate));
            let core = Quartiles::of(s.iter().map(Sample::per_core));
            let cpu_ns = Quartiles::of(s.iter().map(|s| s.cpu_s * 1e9 / s.operations.max(1) as f64));
            rows.push(vec![name.clone(), rate.text(), number(core.median), number(cpu_ns.median)]);
            bars.push(Bar { label: name.clone(), at: rate });
        }
        report.section(&self.name);
        let rate = format!("{} a second (quartiles)", self.unit);
        let core = format!("{} a CPU second", self.unit);
        report.table(&["side", &rate, &core, "CPU ns each"], &rows);
        report.chart(Chart::bars(&self.name, &format!("{} a second", self.unit), bars));
        let of = |name: &str| {
            let found = self.sides.iter().position(|s| s.0 == name);
            found.map(|i| &samples[i]).ok_or_else(|| Error::from(format!("no side is called {name:?}")))
        };
        let mut rows = vec![];
        for a in &self.aims {
            let ours = of(&a.of)?;
            let against = a.over.as_deref().map(of).transpose()?;
            let ratio = |f: fn(f64, f64) -> f64| {
                let other = against.ok_or_else(|| Error::from("a ratio has two sides"))?;
                Ok::<_, Error>(Quartiles::of(ours.iter().zip(other).map(|(a, b)| f(a.rate(), b.rate()))))
            };
            let (found, aim, least) = match a.bound {
                Bound::RateAtLeast(x) => (ratio(|a, b| a / b)?, x, true),
                Bound::TimeAtMost(x) => (ratio(|a, b| b / a)?, x, false),
                Bound::Absolute(x) => (Quartiles::of(ours.iter().map(Sample::rate)), x, true),
                Bound::CpuAtMost(x) => {
                    let other = against.ok_or_else(|| Error::from("a ratio has two sides"))?;
                    let each = ours.iter().zip(other).map(|(a, b)| b.per_core() / a.per_core());
                    (Quartiles::of(each), x, false)
                }
                Bound::PerCore(x) => (Quartiles::of(ours.iter().map(Sample::per_core)), x, true),
            };
            let wanted = format!("{} {}", if least { "at least" } else { "at most" }, number(aim));
            rows.push(vec![a.text.clone(), wanted, found.text(), verdict(found, aim, least).to_string()]);
        }
        if !rows.is_empty() {
            report.table(&["aim", "wanted", "found (quartiles)", "verdict"], &rows);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_interpolate() {
        let q = Quartiles::of([4.0, 1.0, 3.0, 2.0, 5.0]);
        assert_eq!((q.low, q.median, q.high), (2.0, 3.0, 4.0));
        let q = Quartiles::of([1.0, 2.0]);
        assert_eq!((q.low, q.median, q.high), (1.25, 1.5, 1.75));
        assert!(Quartiles::of([]).median.is_nan());
    }

    #[test]
    fn an_aim_within_the_quartiles_is_undecided() {
        let q = Quartiles { low: 7.0, median: 9.0, high: 11.0 };
        assert_eq!(verdict(q, 8.0, true), "undecided");
        assert_eq!(verdict(q, 7.0, true), "reached");
        assert_eq!(verdict(q, 12.0, true), "missed");
        assert_eq!(verdict(q, 12.0, false), "reached");
        let none = Quartiles::of([]);
        assert_eq!(verdict(none, 1.0, true), "missed");
    }

    fn fixed(operations: u64, checksum: u64) -> Result<Sample> {
        Ok(Sample { operations, seconds: 1.0, cpu_s: 0.5, checksum: Some(checksum), extra: vec![] })
    }

    #[test]
    fn sides_that_read_different_things_are_found_out() {
        let mut report = Report::new("test", "test", None);
        let mut c = Contest::new("c", "reads");
        c.side("one", |r| fixed(100, r as u64));
        c.side("two", |r| fixed(10, if r < 2 { r as u64 } else { 77 }));
        let e = c.run(3, &mut report).unwrap_err().to_string();
        assert!(e.contains("checksums disagree"), "{e}");
    }

    #[test]
    fn aims_are_judged_by_ratios_of_rounds() {
        let mut report = Report::new("test", "test", None);
        let mut c = Contest::new("c", "reads");
        c.side("one", |_| fixed(100, 1));
        c.side("two", |_| fixed(10, 1));
        c.aim("nine times", "one", Some("two"), Bound::RateAtLeast(9.0));
        c.aim("a twentieth of the time", "one", Some("two"), Bound::TimeAtMost(0.05));
        c.aim("a core", "two", None, Bound::PerCore(20.0));
        c.aim("a tenth of the CPU", "one", Some("two"), Bound::CpuAtMost(0.1));
        c.aim("the CPU of the other", "two", Some("one"), Bound::CpuAtMost(9.0));
        c.run(2, &mut report).unwrap();
        let text = report.markdown(None);
        let line = |what: &str| text.lines().find(|l| l.contains(what)).unwrap().to_string();
        assert!(line("nine times").ends_with(" reached |"));
        assert!(line("a twentieth").ends_with(" missed |"), "{}", line("a twentieth"));
        assert!(line("a core").ends_with(" reached |"));
        assert!(line("a tenth of the CPU").ends_with(" reached |"));
        assert!(line("the CPU of the other").ends_with(" missed |"));
    }
}
