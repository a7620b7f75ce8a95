//! CRC-32C without the standard library: the processor's instruction where there is one, else a table.
//!
//! Each instruction waits for the one before it. So longer data is summed in four lanes, whose instructions
//! overlap.

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut c = i as u32;
        let mut bit = 0;
        while bit < 8 {
            c = if c & 1 != 0 { (c >> 1) ^ 0x82F6_3B78 } else { c >> 1 };
            bit += 1;
        }
        table[i] = c;
        i += 1;
    }
    table
};

fn by_table(mut state: u32, bytes: &[u8]) -> u32 {
    for b in bytes {
        state = TABLE[((state ^ u32::from(*b)) & 0xFF) as usize] ^ (state >> 8);
    }
    state
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn by_instruction(state: u32, bytes: &[u8]) -> u32 {
    use core::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u64};
    let (words, rest) = bytes.as_chunks::<8>();
    let mut wide = u64::from(state);
    for w in words {
        wide = _mm_crc32_u64(wide, u64::from_le_bytes(*w));
    }
    rest.iter().fold(wide as u32, |state, b| _mm_crc32_u8(state, *b))
}

#[cfg(target_arch = "x86_64")]
fn has_instruction() -> bool {
    use core::sync::atomic::{AtomicU8, Ordering};
    static KNOWN: AtomicU8 = AtomicU8::new(0);
    match KNOWN.load(Ordering::Relaxed) {
        0 => {
            let has = core::arch::x86_64::__cpuid(1).ecx & (1 << 20) != 0;
            KNOWN.store(1 + u8::from(has), Ordering::Relaxed);
            has
        }
        known => known == 2,
    }
}

/// The checksum of `parts`, one after the other.
pub fn crc32c(parts: &[&[u8]]) -> u32 {
    !parts.iter().fold(!0, |state, part| {
        #[cfg(target_arch = "x86_64")]
        if has_instruction() {
            // SAFETY: the processor was asked.
            return unsafe { by_instruction(state, part) };
        }
        by_table(state, part)
    })
}

/// Groups of four words.
type Groups<'a> = &'a [[u8; 32]];

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn lanes_by_instruction(groups: Groups<'_>) -> [u32; 4] {
    use core::arch::x86_64::_mm_crc32_u64;
    let [mut a, mut b, mut c, mut d] = [u64::from(!0u32); 4];
    for g in groups {
        // Written out: what is called here is not inlined, since it is not compiled for the instruction.
        if let [p, q, r, s] = g.as_chunks::<8>().0 {
            a = _mm_crc32_u64(a, u64::from_le_bytes(*p));
            b = _mm_crc32_u64(b, u64::from_le_bytes(*q));
            c = _mm_crc32_u64(c, u64::from_le_bytes(*r));
            d = _mm_crc32_u64(d, u64::from_le_bytes(*s));
        }
    }
    [a as u32, b as u32, c as u32, d as u32]
}

fn lanes_by_table(groups: Groups<'_>) -> [u32; 4] {
    let mut lanes = [!0; 4];
    for g in groups {
        for (lane, word) in lanes.iter_mut().zip(g.as_chunks::<8>().0) {
            *lane = by_table(*lane, word)
        }
    }
    lanes
}

/// The checksum of `head` and `data`: the CRC-32C of the head, of four lanes' CRC-32C (word `i` of the data,
/// 8 bytes, is in lane `i mod 4`, up to the last whole group of four) and of the rest of the data.
pub(crate) fn checksum(head: &[u8], data: &[u8]) -> u32 {
    let (groups, rest) = data.as_chunks::<32>();
    let lanes = || {
        #[cfg(target_arch = "x86_64")]
        if has_instruction() {
            // SAFETY: the processor was asked.
            return unsafe { lanes_by_instruction(groups) };
        }
        lanes_by_table(groups)
    };
    let [a, b, c, d] = lanes().map(u32::to_le_bytes);
    crc32c(&[head, &a, &b, &c, &d, rest])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_give_the_standard_checksum() {
        assert_eq!(crc32c(&[b"1234", b"56789"]), 0xE306_9283);
        assert_eq!(!by_table(!0, b"123456789"), 0xE306_9283);
    }

    #[test]
    fn lanes_are_the_checksums_of_every_fourth_word() {
        let data: [u8; 203] = core::array::from_fn(|i| (i * 7) as u8);
        let (groups, rest) = data.as_chunks::<32>();
        let mut lanes = [0u32; 4];
        for (k, lane) in lanes.iter_mut().enumerate() {
            *lane = groups.iter().fold(!0, |state, g| by_table(state, &g[k * 8..][..8]));
        }
        assert_eq!(lanes_by_table(groups), lanes);
        #[cfg(target_arch = "x86_64")]
        if has_instruction() {
            // SAFETY: the processor was asked.
            assert_eq!(unsafe { lanes_by_instruction(groups) }, lanes);
        }
        let [a, b, c, d] = lanes.map(u32::to_le_bytes);
        assert_eq!(checksum(b"head", &data), crc32c(&[b"head", &a, &b, &c, &d, rest]));
    }
}
