//! CRC-32C without the standard library: the processor's instruction where there is one, else a table.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_give_the_standard_checksum() {
        assert_eq!(crc32c(&[b"1234", b"56789"]), 0xE306_9283);
        assert_eq!(!by_table(!0, b"123456789"), 0xE306_9283);
    }
}
