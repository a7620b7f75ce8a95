//! Plain text, known quickly: the standard library's check for UTF-8 begins with single bytes unless a text
//! happens to lie on a word's boundary.

/// The bits that no byte of ASCII has.
const HIGH: u64 = 0x8080_8080_8080_8080;

/// A word of blanks.
const BLANKS: u64 = 0x2020_2020_2020_2020;

/// The bytes as text if all of them are ASCII.
#[inline(always)]
pub fn text(b: &[u8]) -> Option<&str> {
    let bits = match b.last_chunk::<8>() {
        // The last word overlaps those before.
        Some(last) => {
            let words = b.as_chunks::<8>().0.iter();
            words.fold(u64::from_ne_bytes(*last), |bits, w| bits | u64::from_ne_bytes(*w))
        }
        None => short(b),
    };
    // SAFETY: ASCII is UTF-8.
    (bits & HIGH == 0).then(|| unsafe { std::str::from_utf8_unchecked(b) })
}

/// The bytes without the blanks at their end.
#[inline(always)]
pub fn trimmed(b: &[u8]) -> &[u8] {
    let mut b = b;
    while let Some((before, last)) = b.split_last_chunk::<8>() {
        let others = u64::from_le_bytes(*last) ^ BLANKS;
        if others != 0 {
            return &b[..b.len() - others.leading_zeros() as usize / 8];
        }
        b = before
    }
    while let [before @ .., b' '] = b {
        b = before
    }
    b
}

/// Up to 7 bytes as a number, the first the lowest.
#[inline(always)]
pub fn short(text: &[u8]) -> u64 {
    let n = text.len();
    match (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        // The two overlap.
        (Some(first), Some(last)) => {
            u32::from_le_bytes(*first) as u64 | (u32::from_le_bytes(*last) as u64) << (8 * (n - 4))
        }
        _ if n == 0 => 0,
        // Up to three: the first, the middle one and the last.
        _ => {
            let at = |i: usize| (text.get(i).copied().unwrap_or(0) as u64) << (8 * i);
            at(0) | at(n / 2) | at(n - 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_at_the_end_go() {
        for len in 0..40 {
            for kept in 0..=len {
                let mut b = vec![b' '; len];
                b[..kept].fill(b'!');
                assert_eq!(trimmed(&b), &vec![b'!'; kept][..]);
                b[..kept].fill(b' ');
                if let Some(last) = b[..kept].last_mut() {
                    *last = 0xa0
                }
                assert_eq!(trimmed(&b).len(), kept);
            }
        }
    }

    #[test]
    fn any_byte_that_is_not_plain_is_found() {
        let mut b = [b'x'; 40];
        for len in 0..=b.len() {
            assert_eq!(text(&b[..len]), std::str::from_utf8(&b[..len]).ok());
            for at in 0..len {
                for bad in [0x80, 0xc3, 0xff] {
                    b[at] = bad;
                    assert_eq!(text(&b[..len]), None);
                }
                b[at] = 0x7f;
                assert!(text(&b[..len]).is_some());
            }
        }
    }
}
