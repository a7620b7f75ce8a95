//! Natural numbers of any length in limbs of nine decimal digits.
//!
//! Decimal limbs, because everything NUMERIC does beside multiplying is decimal: reading, writing, and
//! cutting or padding at a decimal place are linear here, where a binary big integer needs a long division
//! for each. The arithmetic is the schoolbook's; the numbers that reach it are rare.
//!
//! Invariants:
//! 1. Limbs are below 10^9, lowest first, and the highest is not zero; zero has no limbs.
//!
//! Sources: Knuth, The Art of Computer Programming, volume 2, 4.3.1 (algorithms A, S, M and D).

use crate::SqlResult;
use crate::limits::Limits;
use std::cmp::Ordering;

const BASE: u64 = 1_000_000_000;
/// Decimal digits in a limb.
const WIDTH: usize = 9;
const POW10: [u32; WIDTH] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// What becomes of the digits that are cut off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// They are dropped.
    Truncate,
    /// Half and more rounds the magnitude up.
    Round,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mag(Vec<u32>);

impl Mag {
    pub fn zero() -> Mag {
        Mag(Vec::new())
    }

    /// From limbs that may end in zeros.
    fn trimmed(mut limbs: Vec<u32>) -> Mag {
        while limbs.last() == Some(&0) {
            limbs.pop();
        }
        Mag(limbs)
    }

    /// From limbs read from outside; `None` if they break invariant 1.
    pub fn from_limbs(limbs: Vec<u32>) -> Option<Mag> {
        let good = limbs.iter().all(|l| u64::from(*l) < BASE) && limbs.last() != Some(&0);
        good.then_some(Mag(limbs))
    }

    pub fn limbs(&self) -> &[u32] {
        &self.0
    }

    pub fn from_u128(mut v: u128) -> Mag {
        let mut limbs = Vec::with_capacity(5);
        while v != 0 {
            limbs.push((v % u128::from(BASE)) as u32);
            v /= u128::from(BASE);
        }
        Mag(limbs)
    }

    pub fn to_u128(&self) -> Option<u128> {
        if self.0.len() > 5 {
            return None;
        }
        self.0
            .iter()
            .rev()
            .try_fold(0u128, |acc, l| acc.checked_mul(u128::from(BASE))?.checked_add(u128::from(*l)))
    }

    /// 10^k
    pub fn pow10(k: usize) -> Mag {
        let mut limbs = vec![0; k / WIDTH];
        limbs.push(POW10[k % WIDTH]);
        Mag(limbs)
    }

    /// From ASCII digits, highest first.
    pub fn from_digits(digits: &[u8]) -> Mag {
        let limbs = digits.rchunks(WIDTH).map(|c| c.iter().fold(0, |acc, d| acc * 10 + u32::from(d - b'0')));
        Mag::trimmed(limbs.collect())
    }

    /// Appends the digits, highest first and without leading zeros; nothing for zero.
    pub fn write_digits(&self, out: &mut Vec<u8>) {
        for (i, limb) in self.0.iter().rev().enumerate() {
            let mut buf = [b'0'; WIDTH];
            let mut rest = *limb;
            for b in buf.iter_mut().rev() {
                *b = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
            let skip = if i == 0 { buf.iter().take_while(|b| **b == b'0').count() } else { 0 };
            out.extend_from_slice(&buf[skip..]);
        }
    }

    pub fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    /// Decimal digits; 0 for zero.
    pub fn digits(&self) -> usize {
        match self.0.last() {
            None => 0,
            Some(top) => (self.0.len() - 1) * WIDTH + top.ilog10() as usize + 1,
        }
    }

    /// Zeros at the low end; 0 for zero.
    pub fn trailing_zeros(&self) -> usize {
        let Some(i) = self.0.iter().position(|l| *l != 0) else { return 0 };
        let mut n = i * WIDTH;
        let mut limb = self.0[i];
        while limb.is_multiple_of(10) {
            limb /= 10;
            n += 1;
        }
        n
    }

    /// Whether the number is odd.
    pub fn is_odd(&self) -> bool {
        self.0.first().is_some_and(|l| l % 2 == 1)
    }

    /// The remainder by a number below 2^32... 2^64, for hashing.
    pub fn mod_u64(&self, p: u64) -> u64 {
        let step = |acc: u64, l: &u32| {
            ((u128::from(acc) * u128::from(BASE) + u128::from(*l)) % u128::from(p)) as u64
        };
        self.0.iter().rev().fold(0, step)
    }

    /// The leading digits as a float and the power of ten it must be multiplied by.
    pub fn leading_f64(&self) -> (f64, i32) {
        let n = self.0.len();
        let take = n.min(3);
        let f = self.0[n - take..].iter().rev().fold(0.0, |acc, l| acc * BASE as f64 + f64::from(*l));
        (f, ((n - take) * WIDTH) as i32)
    }

    pub fn add(&self, o: &Mag) -> Mag {
        let (long, short) = if self.0.len() >= o.0.len() { (&self.0, &o.0) } else { (&o.0, &self.0) };
        let mut out = Vec::with_capacity(long.len() + 1);
        let mut carry = 0;
        for (i, l) in long.iter().enumerate() {
            let mut sum = l + short.get(i).copied().unwrap_or(0) + carry;
            carry = u32::from(u64::from(sum) >= BASE);
            if carry == 1 {
                sum -= BASE as u32;
            }
            out.push(sum);
        }
        if carry == 1 {
            out.push(1);
        }
        Mag(out)
    }

    /// `self - o`, where `self >= o`.
    pub fn sub(&self, o: &Mag) -> Mag {
        debug_assert!(*self >= *o);
        let mut out = Vec::with_capacity(self.0.len());
        let mut borrow = 0i64;
        for (i, l) in self.0.iter().enumerate() {
            let mut d = i64::from(*l) - i64::from(o.0.get(i).copied().unwrap_or(0)) - borrow;
            borrow = i64::from(d < 0);
            if d < 0 {
                d += BASE as i64;
            }
            out.push(d as u32);
        }
        Mag::trimmed(out)
    }

    fn add_one(&mut self) {
        for l in &mut self.0 {
            *l += 1;
            if u64::from(*l) < BASE {
                return;
            }
            *l = 0;
        }
        self.0.push(1);
    }

    pub fn mul_small(&self, f: u32) -> Mag {
        let mut carry = 0u64;
        let mut out = Vec::with_capacity(self.0.len() + 2);
        for l in &self.0 {
            let t = u64::from(*l) * u64::from(f) + carry;
            out.push((t % BASE) as u32);
            carry = t / BASE;
        }
        while carry != 0 {
            out.push((carry % BASE) as u32);
            carry /= BASE;
        }
        Mag::trimmed(out)
    }

    /// By columns of limbs that have the same place: their products are summed, and what is carried is taken
    /// out of the sum only where more would not fit. The longest numbers take some tenth of a second.
    pub fn mul(&self, o: &Mag) -> Mag {
        /// Products of limbs, at most (10^9 - 1)^2 each, whose sum is below 2^64.
        const FIT: usize = 16;
        let (a, b) = (&self.0, &o.0);
        if a.is_empty() || b.is_empty() {
            return Mag::zero();
        }
        let mut out = Vec::with_capacity(a.len() + b.len());
        let mut carry = 0;
        for column in 0..a.len() + b.len() - 1 {
            let (from, to) = ((column + 1).saturating_sub(b.len()), (column + 1).min(a.len()));
            let against = &b[column + 1 - to..=column - from];
            let (mut low, mut high) = (carry, 0);
            for (xs, ys) in a[from..to].chunks(FIT).zip(against.rchunks(FIT)) {
                let sum: u64 =
                    xs.iter().zip(ys.iter().rev()).map(|(x, y)| u64::from(*x) * u64::from(*y)).sum();
                low += sum % BASE;
                high += sum / BASE;
            }
            out.push((low % BASE) as u32);
            carry = high + low / BASE;
        }
        // The product has no more limbs than both together.
        out.push(carry as u32);
        Mag::trimmed(out)
    }

    /// `self * 10^k`
    pub fn shift_up(&self, k: usize) -> Mag {
        if self.is_zero() || k == 0 {
            return self.clone();
        }
        let mut limbs = vec![0; k / WIDTH];
        limbs.extend_from_slice(&self.mul_small(POW10[k % WIDTH]).0);
        Mag(limbs)
    }

    /// `self / 10^k`
    pub fn shift_down(&self, k: usize, cut: Cut) -> Mag {
        if k == 0 || self.is_zero() {
            return self.clone();
        }
        let (whole, part) = (k / WIDTH, k % WIDTH);
        if whole >= self.0.len() {
            // Everything goes, save a carry out of the highest digit when that is where the cut is.
            let up = cut == Cut::Round && k == self.digits() && self.leading_digit() >= 5;
            return if up { Mag(vec![1]) } else { Mag::zero() };
        }
        let mut out = Vec::with_capacity(self.0.len() - whole);
        let p = POW10[part];
        for i in whole..self.0.len() {
            let above = self.0.get(i + 1).copied().unwrap_or(0);
            let low = u64::from(self.0[i] / p);
            // The lowest digits of the next limb move in at the top.
            let moved = if part == 0 { 0 } else { u64::from(above % p) * (BASE / u64::from(p)) };
            out.push((low + moved) as u32);
        }
        let mut q = Mag::trimmed(out);
        if cut == Cut::Round {
            let place = k - 1;
            let digit = self.0[place / WIDTH] / POW10[place % WIDTH] % 10;
            if digit >= 5 {
                q.add_one();
            }
        }
        q
    }

    fn leading_digit(&self) -> u32 {
        self.0.last().map_or(0, |t| t / 10u32.pow(t.ilog10()))
    }

    /// Quotient and remainder by a number below 10^9, not zero.
    pub fn divrem_small(&self, d: u32) -> (Mag, u32) {
        let mut out = vec![0u32; self.0.len()];
        let mut rest = 0u64;
        for (q, l) in out.iter_mut().zip(&self.0).rev() {
            let t = rest * BASE + u64::from(*l);
            *q = (t / u64::from(d)) as u32;
            rest = t % u64::from(d);
        }
        (Mag::trimmed(out), rest as u32)
    }

    /// Quotient and remainder; the divisor is not zero. Knuth's algorithm D.
    pub fn divrem(&self, d: &Mag) -> (Mag, Mag) {
        if d.0.len() == 1 {
            let (q, r) = self.divrem_small(d.0[0]);
            return (q, Mag::from_u128(u128::from(r)));
        }
        if *self < *d {
            return (Mag::zero(), self.clone());
        }
        // Scaled so that the divisor's highest limb is at least half the base: then two limbs of the divisor
        // guess a quotient's limb to within one.
        let scale = (BASE / (u64::from(*d.0.last().expect("the divisor is not zero")) + 1)) as u32;
        let v = d.mul_small(scale).0;
        let mut u = self.mul_small(scale).0;
        u.resize(self.0.len() + 1, 0);
        let n = v.len();
        let m = u.len() - n;
        let (v1, v2) = (u64::from(v[n - 1]), u64::from(v[n - 2]));
        let mut q = vec![0u32; m];
        for j in (0..m).rev() {
            let head = u64::from(u[j + n]) * BASE + u64::from(u[j + n - 1]);
            let (mut guess, mut rest) = (head / v1, head % v1);
            while guess >= BASE || guess * v2 > rest * BASE + u64::from(u[j + n - 2]) {
                guess -= 1;
                rest += v1;
                if rest >= BASE {
                    break;
                }
            }
            let mut borrow = 0i64;
            let mut carry = 0u64;
            for (x, y) in u[j..].iter_mut().zip(&v) {
                let t = guess * u64::from(*y) + carry;
                carry = t / BASE;
                let mut diff = i64::from(*x) - (t % BASE) as i64 - borrow;
                borrow = i64::from(diff < 0);
                if diff < 0 {
                    diff += BASE as i64;
                }
                *x = diff as u32;
            }
            let top = i64::from(u[j + n]) - carry as i64 - borrow;
            if top < 0 {
                // One too many (rare): add the divisor back.
                guess -= 1;
                let mut carry = 0u32;
                for (x, y) in u[j..].iter_mut().zip(&v) {
                    let mut sum = *x + *y + carry;
                    carry = u32::from(u64::from(sum) >= BASE);
                    if carry == 1 {
                        sum -= BASE as u32;
                    }
                    *x = sum;
                }
            }
            u[j + n] = 0;
            q[j] = guess as u32;
        }
        (Mag::trimmed(q), Mag::trimmed(u).divrem_small(scale).0)
    }

    /// The integer part of the square root, by Newton's iteration from above.
    pub fn isqrt(&self, limits: &Limits<'_>) -> SqlResult<Mag> {
        if self.is_zero() {
            return Ok(Mag::zero());
        }
        limits.turn(self.0.len())?;
        // The start is at least the root: that of the leading half of the digits, which is found alike, or of
        // a few as a float.
        let n = self.digits();
        let mut x = if n > 32 {
            let cut = n / 4 * 2;
            let mut head = self.shift_down(cut, Cut::Truncate).isqrt(limits)?;
            head.add_one();
            head.shift_up(cut / 2)
        } else {
            let keep = n.min(16 - n % 2);
            let head = self.shift_down(n - keep, Cut::Truncate).to_u128().unwrap_or(0) as f64;
            Mag::from_u128(head.sqrt() as u128 + 2).shift_up((n - keep) / 2)
        };
        loop {
            limits.turn(self.0.len())?;
            let next = x.add(&self.divrem(&x).0).divrem_small(2).0;
            if next >= x {
                return Ok(x);
            }
            x = next;
        }
    }
}

impl PartialOrd for Mag {
    fn partial_cmp(&self, o: &Mag) -> Option<Ordering> {
        Some(self.cmp(o))
    }
}

impl Ord for Mag {
    fn cmp(&self, o: &Mag) -> Ordering {
        self.0.len().cmp(&o.0.len()).then_with(|| self.0.iter().rev().cmp(o.0.iter().rev()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small generator, so that a failure repeats.
    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (*state >> 11) ^ (*state << 31)
    }

    fn random_mag(state: &mut u64, limbs: usize) -> Mag {
        // Limbs at the ends of their range are what breaks long division.
        let pick = |state: &mut u64| match random(state) % 8 {
            0 => 0,
            1 => (BASE - 1) as u32,
            2 => 1,
            3 => (BASE / 2) as u32,
            _ => (random(state) % BASE) as u32,
        };
        Mag::trimmed((0..limbs).map(|_| pick(state)).collect())
    }

    #[test]
    fn small_numbers_agree_with_machine_arithmetic() {
        let mut s = 7;
        for _ in 0..20_000 {
            let a = u128::from(random(&mut s)) >> (random(&mut s) % 64);
            let b = u128::from(random(&mut s)) >> (random(&mut s) % 64);
            let (ma, mb) = (Mag::from_u128(a), Mag::from_u128(b));
            assert_eq!(ma.add(&mb).to_u128(), Some(a + b));
            assert_eq!(ma.mul(&mb).to_u128(), Some(a * b));
            assert_eq!(ma.cmp(&mb), a.cmp(&b));
            if a >= b {
                assert_eq!(ma.sub(&mb).to_u128(), Some(a - b));
            }
            if !mb.is_zero() {
                let (q, r) = ma.divrem(&mb);
                assert_eq!((q.to_u128(), r.to_u128()), (a.checked_div(b), a.checked_rem(b)));
            }
            let k = (random(&mut s) % 25) as u32;
            let p = 10u128.pow(k);
            assert_eq!(ma.shift_up(k as usize % 18).to_u128(), Some(a * 10u128.pow(k % 18)));
            assert_eq!(ma.shift_down(k as usize, Cut::Truncate).to_u128(), Some(a / p));
            assert_eq!(ma.shift_down(k as usize, Cut::Round).to_u128(), Some((a + p / 2) / p), "{a} {k}");
            let root = ma.isqrt(&Limits::NONE).unwrap().to_u128().unwrap();
            assert!(root * root <= a && (root + 1) * (root + 1) > a);
        }
    }

    #[test]
    fn long_division_undoes_multiplication() {
        let mut s = 11;
        for _ in 0..4_000 {
            let (na, nb) = (random(&mut s) as usize % 12, random(&mut s) as usize % 8);
            let (a, mut b) = (random_mag(&mut s, na), random_mag(&mut s, nb));
            if b.is_zero() {
                b = Mag::from_u128(3);
            }
            let (q, r) = a.divrem(&b);
            assert!(r < b);
            assert_eq!(q.mul(&b).add(&r), a);
            let root = a.isqrt(&Limits::NONE).unwrap();
            assert!(root.mul(&root) <= a);
            let mut next = root.clone();
            next.add_one();
            assert!(next.mul(&next) > a);
        }
    }

    #[test]
    fn digits_survive_text() {
        for text in
            ["1", "999999999", "1000000000", "123456789012345678901234567890", "100000000000000000000"]
        {
            let m = Mag::from_digits(text.as_bytes());
            let mut out = Vec::new();
            m.write_digits(&mut out);
            assert_eq!(out, text.as_bytes());
            assert_eq!(m.digits(), text.len());
            assert_eq!(m.trailing_zeros(), text.len() - text.trim_end_matches('0').len());
        }
        assert_eq!(Mag::from_digits(b"0000000000000"), Mag::zero());
    }
}
