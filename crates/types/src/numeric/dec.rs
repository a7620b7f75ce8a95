//! Decimals of any length with a sign: what NUMERIC computes with when its inline form does not suffice, and
//! what the functions that need working precision compute with.
//!
//! The value is `mag * 10^-scale`, negative if `neg`. The scale may exceed NUMERIC's here.

use super::mag::{Cut, Mag};
use crate::SqlResult;
use crate::limits::Limits;
use std::cmp::Ordering;

#[derive(Clone, Debug)]
pub struct Dec {
    pub neg: bool,
    pub mag: Mag,
    pub scale: usize,
}

impl Dec {
    pub fn zero(scale: usize) -> Dec {
        Dec { neg: false, mag: Mag::zero(), scale }
    }

    pub fn from_i128(v: i128, scale: usize) -> Dec {
        Dec { neg: v < 0, mag: Mag::from_u128(v.unsigned_abs()), scale }
    }

    pub fn one() -> Dec {
        Dec::from_i128(1, 0)
    }

    pub fn is_zero(&self) -> bool {
        self.mag.is_zero()
    }

    pub fn negated(mut self) -> Dec {
        self.neg = !self.neg;
        self
    }

    pub fn abs(mut self) -> Dec {
        self.neg = false;
        self
    }

    /// To a scale, padding with zeros or cutting.
    pub fn rescale(&self, scale: usize, cut: Cut) -> Dec {
        let mag = if scale >= self.scale {
            self.mag.shift_up(scale - self.scale)
        } else {
            self.mag.shift_down(self.scale - scale, cut)
        };
        Dec { neg: self.neg && !mag.is_zero(), mag, scale }
    }

    /// To a scale, half away from zero.
    pub fn round(&self, scale: usize) -> Dec {
        self.rescale(scale, Cut::Round)
    }

    /// To a multiple of `10^-scale`, where the scale may be negative; the result's scale is then 0.
    pub fn cut_at(&self, scale: i32, cut: Cut) -> Dec {
        if scale >= 0 {
            return self.rescale(scale as usize, cut);
        }
        let up = scale.unsigned_abs() as usize;
        let mag = self.mag.shift_down(self.scale + up, cut).shift_up(up);
        Dec { neg: self.neg && !mag.is_zero(), mag, scale: 0 }
    }

    pub fn cmp_abs(&self, o: &Dec) -> Ordering {
        // The place of the highest digit decides most comparisons without aligning.
        let place = |d: &Dec| d.mag.digits() as i64 - d.scale as i64;
        match (self.is_zero(), o.is_zero()) {
            (true, true) => return Ordering::Equal,
            (true, false) => return Ordering::Less,
            (false, true) => return Ordering::Greater,
            (false, false) => {}
        }
        place(self).cmp(&place(o)).then_with(|| match self.scale.cmp(&o.scale) {
            Ordering::Equal => self.mag.cmp(&o.mag),
            Ordering::Less => self.mag.shift_up(o.scale - self.scale).cmp(&o.mag),
            Ordering::Greater => self.mag.cmp(&o.mag.shift_up(self.scale - o.scale)),
        })
    }

    pub fn compare(&self, o: &Dec) -> Ordering {
        let sign = |d: &Dec| {
            if d.is_zero() {
                0
            } else if d.neg {
                -1
            } else {
                1
            }
        };
        match (sign(self), sign(o)) {
            (a, b) if a != b => a.cmp(&b),
            (-1, _) => o.cmp_abs(self),
            _ => self.cmp_abs(o),
        }
    }

    /// Exact; the scale is the greater of the two.
    pub fn add(&self, o: &Dec) -> Dec {
        let scale = self.scale.max(o.scale);
        let (a, b) = (self.mag.shift_up(scale - self.scale), o.mag.shift_up(scale - o.scale));
        let (neg, mag) = if self.neg == o.neg {
            (self.neg, a.add(&b))
        } else if a >= b {
            (self.neg, a.sub(&b))
        } else {
            (o.neg, b.sub(&a))
        };
        Dec { neg: neg && !mag.is_zero(), mag, scale }
    }

    pub fn sub(&self, o: &Dec) -> Dec {
        self.add(&o.clone().negated())
    }

    /// Exact; the scale is the sum of the two.
    pub fn mul(&self, o: &Dec) -> Dec {
        let mag = self.mag.mul(&o.mag);
        Dec { neg: self.neg != o.neg && !mag.is_zero(), mag, scale: self.scale + o.scale }
    }

    /// The product, rounded if it has more decimals than `scale` (and padded if it has fewer).
    pub fn mul_round(&self, o: &Dec, scale: usize) -> Dec {
        self.mul(o).round(scale)
    }

    /// The quotient to a scale; the divisor is not zero.
    pub fn div(&self, o: &Dec, scale: usize, cut: Cut) -> Dec {
        // One digit more than wanted decides the rounding: a quotient that is cut after it rounds as the
        // exact one does, since half is decided by that digit alone.
        let more = scale + 1;
        let up = more as i64 + o.scale as i64 - self.scale as i64;
        let q = if up >= 0 {
            self.mag.shift_up(up as usize).divrem(&o.mag).0
        } else {
            self.mag.divrem(&o.mag.shift_up(up.unsigned_abs() as usize)).0
        };
        Dec { neg: self.neg != o.neg, mag: q, scale: more }.rescale(scale, cut)
    }

    /// The square root of a number that is not negative, cut off after the scale.
    pub fn sqrt(&self, scale: usize, limits: &Limits<'_>) -> SqlResult<Dec> {
        let wanted = 2 * scale;
        let mag = if wanted >= self.scale {
            self.mag.shift_up(wanted - self.scale)
        } else {
            self.mag.shift_down(self.scale - wanted, Cut::Truncate)
        };
        Ok(Dec { neg: false, mag: mag.isqrt(limits)?, scale })
    }

    /// The place of the highest group of four digits, counting groups from the decimal point as PostgreSQL
    /// stores them, and that group's value; (0, 0) for zero.
    pub fn head(&self) -> (i32, u32) {
        let n = self.mag.digits() as i64;
        if n == 0 {
            return (0, 0);
        }
        let weight = (n - 1 - self.scale as i64).div_euclid(4);
        let down = self.scale as i64 + 4 * weight;
        let group = if down >= 0 {
            self.mag.shift_down(down as usize, Cut::Truncate)
        } else {
            self.mag.shift_up(down.unsigned_abs() as usize)
        };
        (weight as i32, group.to_u128().unwrap_or(0) as u32)
    }

    /// Nearly the value; infinite or zero beyond a float's range.
    pub fn approx(&self) -> f64 {
        let (f, e) = self.mag.leading_f64();
        let f = f * 10f64.powi(e - self.scale as i32);
        if self.neg { -f } else { f }
    }
}
