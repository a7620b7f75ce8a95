//! Random texts and numbers as the standard draws them (4.3.2, 2.1.6).
use super::Scale;
use crate::random::Random;

const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// C_LAST of a number from 0 to 999 (4.3.2.3).
pub fn last_name(n: i64, out: &mut String) {
    [n / 100 % 10, n / 10 % 10, n % 10].iter().for_each(|d| out.push_str(SYLLABLES[*d as usize]));
}

/// The constants of NURand: they may differ between loading and running, within limits (2.1.6.1).
#[derive(Clone, Copy, Debug)]
pub struct Constants {
    pub last: i64,
    pub customer: i64,
    pub item: i64,
}

/// For the population.
pub const LOAD: Constants = Constants { last: 157, customer: 259, item: 7911 };
/// For the run: the difference of the first ones is 80, which is within [65, 119] and neither 96 nor 112.
pub const RUN: Constants = Constants { last: 77, customer: 987, item: 5987 };

pub fn nurand(r: &mut Random, a: i64, c: i64, low: i64, high: i64) -> i64 {
    ((r.range(0, a) | r.range(low, high)) + c) % (high - low + 1) + low
}

impl Constants {
    pub fn last_name(&self, r: &mut Random, scale: &Scale) -> i64 {
        nurand(r, 255, self.last, 0, scale.last_names() - 1)
    }
    pub fn customer(&self, r: &mut Random, scale: &Scale) -> i64 {
        nurand(r, 1023, self.customer, 1, scale.customers)
    }
    pub fn item(&self, r: &mut Random, scale: &Scale) -> i64 {
        nurand(r, 8191, self.item, 1, scale.items)
    }
}

/// Letters and digits.
pub fn letters(r: &mut Random, low: i64, high: i64, out: &mut String) {
    const ALL: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let (n, mut bits) = (r.range(low, high), 0);
    for i in 0..n {
        // A number of 64 bits serves for eight letters.
        if i % 8 == 0 {
            bits = r.next_u64();
        }
        out.push(ALL[(((bits & 0xff) * 62) >> 8) as usize] as char);
        bits >>= 8;
    }
}

pub fn digits(r: &mut Random, n: i64, out: &mut String) {
    (0..n).for_each(|_| out.push((b'0' + r.below(10) as u8) as char));
}

/// S_DATA and I_DATA: one in ten holds ORIGINAL somewhere (4.3.3.1).
pub fn data(r: &mut Random, out: &mut String) {
    let start = out.len();
    letters(r, 26, 50, out);
    if r.below(10) == 0 {
        let at = start + r.below((out.len() - start - 7) as u64) as usize;
        out.replace_range(at..at + 8, "ORIGINAL");
    }
}

/// A permutation of 1 to n.
pub fn permutation(r: &mut Random, n: i64) -> Vec<i64> {
    let mut all: Vec<i64> = (1..=n).collect();
    (1..all.len()).rev().for_each(|i| all.swap(i, r.below(i as u64 + 1) as usize));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_standards() {
        let mut s = String::new();
        last_name(371, &mut s);
        assert_eq!(s, "PRICALLYOUGHT");
    }

    #[test]
    fn draws_stay_within_limits() {
        let (mut r, scale) = (Random::new(3), Scale::new(1));
        let mut original = 0;
        for _ in 0..5000 {
            assert!((1..=3000).contains(&RUN.customer(&mut r, &scale)));
            assert!((1..=100_000).contains(&RUN.item(&mut r, &scale)));
            assert!((0..=999).contains(&LOAD.last_name(&mut r, &scale)));
            let mut s = String::new();
            data(&mut r, &mut s);
            assert!((26..=50).contains(&s.len()));
            original += s.contains("ORIGINAL") as u32;
        }
        assert!((350..650).contains(&original), "{original}");
        let mut p = permutation(&mut r, 100);
        p.sort();
        assert_eq!(p, (1..=100).collect::<Vec<_>>());
        assert!(
            [LOAD.last.abs_diff(RUN.last)].iter().all(|d| (65..=119).contains(d) && *d != 96 && *d != 112)
        );
    }
}
