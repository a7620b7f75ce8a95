//! The hash of a key: a fixed function, the same in every process, whose bits are all good.
//!
//! Words are mixed by folded multiplication (the 128-bit product's halves, XORed), the mixer of the wyhash
//! family (Wang Yi). Not a defence against keys chosen to collide.
const A: u64 = 0x9e37_79b9_7f4a_7c15;
const B: u64 = 0xd1b5_4a32_d192_ed03;
const C: u64 = 0x8cb9_2ba7_2f3d_8dd7;

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let p = a as u128 * b as u128;
    p as u64 ^ (p >> 64) as u64
}

#[inline(always)]
fn word(key: &[u8], at: usize) -> u64 {
    let mut w = [0; 8];
    w.copy_from_slice(&key[at..at + 8]);
    u64::from_le_bytes(w)
}

#[inline(always)]
fn half(key: &[u8], at: usize) -> u64 {
    let mut w = [0; 4];
    w.copy_from_slice(&key[at..at + 4]);
    u32::from_le_bytes(w) as u64
}

/// The hash of a key of 8 bytes, equal to [`hash_key`] of its bytes; `key` is the bytes read little-endian.
#[inline(always)]
pub fn hash_word(key: u64) -> u64 {
    hash_short(key, 0, 8)
}

/// The hash of a key of at most 16 bytes, equal to [`hash_key`] of them: `low` and `high` are the first eight
/// of the `n` bytes and the others, read little-endian, zeros above them.
#[inline(always)]
pub fn hash_short(low: u64, high: u64, n: usize) -> u64 {
    debug_assert!(
        n <= 16 && (n >= 8 || low >> (8 * n) == 0) && (n == 16 || high >> (8 * n.saturating_sub(8)) == 0)
    );
    // The second product spreads what the first leaves in its high half only.
    fold(fold(low ^ A, high ^ B) ^ n as u64, C)
}

/// The hash of a key.
#[inline]
pub fn hash_key(key: &[u8]) -> u64 {
    // Loads may overlap; what comes twice comes to one place.
    match key.len() {
        8 => hash_word(word(key, 0)),
        n @ 0..=3 => hash_short(key.iter().rev().fold(0, |w, &b| w << 8 | b as u64), 0, n),
        n @ 4..=7 => hash_short(half(key, 0) | half(key, n - 4) << (8 * (n - 4)), 0, n),
        n @ 9..=16 => hash_short(word(key, 0), word(key, n - 8) >> (8 * (16 - n)), n),
        n => long(key, n),
    }
}

fn long(key: &[u8], n: usize) -> u64 {
    let mut state = B;
    let mut at = 0;
    while at + 16 < n {
        state = fold(word(key, at) ^ A, word(key, at + 8) ^ state);
        at += 16;
    }
    // The last 16 bytes, overlapping those before.
    state = fold(word(key, n - 16) ^ A, word(key, n - 8) ^ state);
    fold(state ^ n as u64, C)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_hashes_as_its_bytes() {
        for k in [0u64, 1, 77, u64::MAX, A] {
            assert_eq!(hash_word(k), hash_key(&k.to_le_bytes()));
        }
    }

    #[test]
    fn a_short_key_hashes_as_its_bytes() {
        for n in 0..=16 {
            let mut key = [0u8; 16];
            key[..n].iter_mut().enumerate().for_each(|(i, b)| *b = 0xe1 ^ (i as u8).wrapping_mul(37));
            let all = u128::from_le_bytes(key);
            assert_eq!(hash_short(all as u64, (all >> 64) as u64, n), hash_key(&key[..n]), "{n} bytes");
        }
    }

    #[test]
    fn the_function_is_fixed() {
        // Bytes on disk never depend on it, but two processes of one test must agree.
        assert_eq!(hash_key(b"ondol"), hash_key(&b"ondol"[..]));
        assert_ne!(hash_key(b""), hash_key(b"\0"));
        assert_ne!(hash_key(b"\0"), hash_key(b"\0\0"));
    }

    /// Counters, in either byte order, at every length, fill 4096 cells by any 12 bits nearly evenly.
    #[test]
    fn every_bit_is_good_for_counters() {
        for len in [4usize, 5, 8, 9, 12, 16, 17, 24, 40, 100] {
            for big in [false, true] {
                let n = 1u64 << 15;
                for shift in [0u32, 13, 26, 39, 51] {
                    let mut cells = vec![0u32; 4096];
                    for i in 0..n {
                        let mut key = vec![7u8; len];
                        let w = if big { (i as u32).to_be_bytes() } else { (i as u32).to_le_bytes() };
                        key[len - 4..].copy_from_slice(&w);
                        cells[(hash_key(&key) >> shift & 4095) as usize] += 1;
                    }
                    let mean = n as f64 / 4096.0;
                    let chi: f64 = cells.iter().map(|&c| (c as f64 - mean).powi(2) / mean).sum();
                    // 4095 degrees of freedom: the deviation is about 90.
                    assert!((3500.0..4700.0).contains(&chi), "len {len} big {big} shift {shift}: {chi}");
                }
            }
        }
    }
}
