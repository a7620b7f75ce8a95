//! Plain text, known quickly: the standard library's check for UTF-8 begins with single bytes unless a text happens to lie on a
//! word's boundary.

/// The bits that no byte of ASCII has.
const HIGH: u64 = 0x8080_8080_8080_8080;

/// The bytes as text if all of them are ASCII.
#[inline(always)]
pub fn text(b: &[u8]) -> Option<&str> {
    let bits = match b.last_chunk::<8>() {
        // The last word overlaps those before.
        Some(last) => {
            let words = b.as_chunks::<8>().0.iter();
            words.fold(u64::from_ne_bytes(*last), |bits, w| bits | u64::from_ne_bytes(*w))
        }
        None => b.iter().fold(0, |bits, b| bits | *b as u64),
    };
    // SAFETY: ASCII is UTF-8.
    (bits & HIGH == 0).then(|| unsafe { std::str::from_utf8_unchecked(b) })
}

#[cfg(test)]
mod tests {
    use super::*;

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
