//! How coordinates become codes of a few bits, one dimension at a time.
//!
//! A node has for each dimension a grid of cells 2^shift wide, the first of them number `base`, both whole
//! numbers. A code is the number of a coordinate's cell, counted from `base`.
//!
//! - **G1** The cell of x is floor(x / 2^shift). Dividing by a power of two is exact, but for what is next to
//!   zero then, and floor never turns two values round, so x <= y means that code(x) <= code(y), also where
//!   codes are cut off at the grid's ends.
//!   Entries and queries get their codes by the same function and are compared with <=: what is within a
//!   query has a code within the query's codes.
//! - **G2** A cell of a grid lies within one cell of any grid that is wider, since both are aligned to powers
//!   of two: codes go over to a wider grid exactly, without the coordinates ([`Grid::moved`]).
//! - **G3** Cells are no finer than a unit in the last place of the largest coordinate, so that numbers of
//!   cells stay below 2^53 and are exact in 64 bits, whether as integers or as floating point.

/// No finer than this: what is smaller than 2^-1000 is in the cells next to zero.
const FINEST: i32 = -1000;
/// A cell's number is cut off here (G3).
const FAR: f64 = (1u64 << 60) as f64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Grid {
    pub(crate) base: i64,
    pub(crate) shift: i32,
}

/// 2^n, of -1022 <= n <= 1023.
#[inline(always)]
fn power(n: i32) -> f64 {
    f64::from_bits(((n + 1023) as u64) << 52)
}

/// The least n with |x| < 2^n, or less than that for what is no normal number.
fn width(x: f64) -> i32 {
    (x.to_bits() >> 52 & 0x7ff) as i32 - 1022
}

impl Grid {
    /// The finest grid of at most 2^bits cells, none finer than 2^least, that has all of `low..=high`.
    pub(crate) fn over(low: f64, high: f64, bits: u32, least: i32) -> Grid {
        let most = (1i64 << bits) - 1;
        // Half of it, since all of it may be no number any more.
        let half = high * 0.5 - low * 0.5;
        let fits = width(half) + 1 - bits as i32;
        let exact = width(low.abs().max(high.abs())) - 53;
        let mut grid = Grid { base: 0, shift: fits.max(exact).max(FINEST).max(least) };
        loop {
            grid.base = grid.cell(low);
            if grid.cell(high) - grid.base <= most {
                return grid;
            }
            grid.shift += 1;
        }
    }
    /// The number of the cell that a coordinate is in (G1).
    #[inline(always)]
    pub(crate) fn cell(self, x: f64) -> i64 {
        let y = (x * power(-self.shift)).clamp(-FAR, FAR);
        // floor() is a call where the processor is not known to have it.
        let whole = y as i64;
        // What is below zero and too small to be a part of a cell is below zero all the same.
        whole - i64::from((whole as f64 > y) | ((y == 0.0) & (x < 0.0)))
    }
    /// The code of a coordinate, cut off at the grid's ends.
    #[inline(always)]
    pub(crate) fn code(self, x: f64, bits: u32) -> u64 {
        (self.cell(x) - self.base).clamp(0, (1 << bits) - 1) as u64
    }
    pub(crate) fn holds(self, low: f64, high: f64, bits: u32) -> bool {
        self.cell(low) >= self.base && self.cell(high) - self.base < 1 << bits
    }
    /// The code in `to`, whose cells are as wide or wider, of what has `code` here (G2).
    pub(crate) fn moved(self, code: u64, to: Grid) -> u64 {
        debug_assert!(to.shift >= self.shift);
        (((self.base + code as i64) >> (to.shift - self.shift).min(63)) - to.base) as u64
    }
    /// Where the cell of a code begins.
    pub(crate) fn begin(self, code: u64) -> f64 {
        ((self.base + code as i64) as f64 * power(self.shift)).max(-f64::MAX)
    }
    /// The last number in the cell of a code.
    pub(crate) fn end(self, code: u64) -> f64 {
        ((self.base + code as i64 + 1) as f64 * power(self.shift)).next_down().min(f64::MAX)
    }
}

/// A word whose order is that of the coordinates.
#[inline(always)]
pub(crate) fn to_word(x: f64) -> u64 {
    let bits = x.to_bits();
    bits ^ ((bits as i64 >> 63) as u64 | 1 << 63)
}
#[inline(always)]
pub(crate) fn from_word(word: u64) -> f64 {
    f64::from_bits(word ^ ((!word as i64 >> 63) as u64 | 1 << 63))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of every kind, in order.
    fn numbers() -> Vec<f64> {
        let mut all = vec![0.0, f64::MAX, f64::MIN_POSITIVE, 5e-324, 1e300, 1e17, 1e17 + 16.0];
        all.extend((0..4000).map(|n| f64::from(n) * 0.37));
        all.extend((0..60).map(|n| 2f64.powi(n * 17 - 500)));
        all.extend((0..200).map(|n| 1.7e18 + 256.0 * f64::from(n)));
        let mirrored: Vec<f64> = all.iter().map(|x| -x).collect();
        all.extend(mirrored);
        all.iter_mut().for_each(|x| *x += 0.0);
        all.sort_by(f64::total_cmp);
        all.dedup();
        all
    }

    #[test]
    fn codes_have_the_order_of_numbers() {
        let all = numbers();
        for bits in [8, 16] {
            for (from, to) in [(0, all.len() - 1), (all.len() / 2, all.len() / 2 + 3), (3, 5), (100, 4000)] {
                let grid = Grid::over(all[from], all[to], bits, i32::MIN);
                assert!(grid.holds(all[from], all[to], bits));
                let codes: Vec<u64> = all.iter().map(|x| grid.code(*x, bits)).collect();
                assert!(codes.is_sorted());
                for x in &all[from..=to] {
                    let code = grid.code(*x, bits);
                    assert!(grid.begin(code) <= *x && *x <= grid.end(code), "{x} in {grid:?}");
                    assert_eq!(grid.code(grid.begin(code), bits), code, "{x} in {grid:?}");
                    assert_eq!(grid.code(grid.end(code), bits), code, "{x} in {grid:?}");
                }
            }
        }
    }

    #[test]
    fn grids_are_fine_where_numbers_are_close() {
        for (low, high) in [(0.0, 1.0), (1e9, 1e9 + 3.0), (-5.0, 1e-9), (1.7e18, 1.7e18 + 65536.0)] {
            let grid = Grid::over(low, high, 8, i32::MIN);
            assert!((127..256).contains(&(grid.cell(high) - grid.base)), "{low} to {high}: {grid:?}");
        }
        let one = Grid::over(1e17, 1e17, 8, i32::MIN);
        assert_ne!(one.cell(1e17), one.cell(1e17 + 16.0));
        assert_eq!(Grid::over(0.0, 0.0, 8, i32::MIN).code(0.0, 8), 0);
    }

    #[test]
    fn codes_go_over_to_wider_grids_exactly() {
        let all = numbers();
        for window in [&all[..], &all[4000..4300], &all[all.len() - 300..]] {
            for (n, low) in window.iter().enumerate().step_by(37) {
                for high in window[n..].iter().step_by(41) {
                    let grid = Grid::over(*low, *high, 8, i32::MIN);
                    let wide = Grid::over(window[0], window[window.len() - 1], 8, grid.shift);
                    let inside = window.iter().filter(|x| **x >= *low && **x <= *high);
                    for x in inside {
                        assert_eq!(grid.moved(grid.code(*x, 8), wide), wide.code(*x, 8), "{x}");
                    }
                }
            }
        }
    }

    #[test]
    fn words_have_the_order_of_numbers() {
        let all = numbers();
        assert!(all.iter().map(|x| to_word(*x)).is_sorted());
        assert!(all.iter().all(|x| from_word(to_word(*x)).to_bits() == x.to_bits()));
    }
}
