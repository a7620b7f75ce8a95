//! MD5 (RFC 1321) and SHA-224/256 (FIPS 180-4), for the functions of these names. They are for checksums of
//! users' data; nothing here is meant to keep a secret.

/// Lower-case hexadecimal digits.
pub fn hex(b: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    b.iter()
        .flat_map(|b| [DIGITS[usize::from(b >> 4)] as char, DIGITS[usize::from(b & 15)] as char])
        .collect()
}

/// The message in blocks of 64 bytes: a one bit and zeros behind it, and its length in bits at the end.
fn blocks(message: &[u8], length: [u8; 8]) -> impl Iterator<Item = [u8; 64]> {
    let whole = message.chunks_exact(64);
    let rest = whole.remainder();
    let mut tail = [0; 128];
    tail[..rest.len()].copy_from_slice(rest);
    tail[rest.len()] = 0x80;
    let end = if rest.len() < 56 { 64 } else { 128 };
    tail[end - 8..end].copy_from_slice(&length);
    let block = |at: usize| {
        let mut b = [0; 64];
        b.copy_from_slice(&tail[at..at + 64]);
        b
    };
    let last = [Some(block(0)), (end == 128).then(|| block(64))];
    whole
        .map(|w| {
            let mut b = [0; 64];
            b.copy_from_slice(w);
            b
        })
        .chain(last.into_iter().flatten())
}

/// MD5's rotations, four for each of its four rounds.
const MD5_ROTATE: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

pub fn md5(message: &[u8]) -> [u8; 16] {
    let mut h = [0x67452301u32, 0xefcdab89, 0x98badcfe, 0x10325476];
    // The additive constants are the integer parts of 2^32 |sin(i)|, i from 1.
    let sines: [u32; 64] = std::array::from_fn(|i| ((i as f64 + 1.0).sin().abs() * 4294967296.0) as u32);
    for block in blocks(message, ((message.len() as u64) << 3).to_le_bytes()) {
        let word = |i: usize| {
            u32::from_le_bytes([block[i * 4], block[i * 4 + 1], block[i * 4 + 2], block[i * 4 + 3]])
        };
        let [mut a, mut b, mut c, mut d] = h;
        for i in 0..64 {
            let (f, g) = match i / 16 {
                0 => (b & c | !b & d, i),
                1 => (d & b | !d & c, (5 * i + 1) % 16),
                2 => (b ^ c ^ d, (3 * i + 5) % 16),
                _ => (c ^ (b | !d), 7 * i % 16),
            };
            let sum = a.wrapping_add(f).wrapping_add(sines[i]).wrapping_add(word(g));
            (a, d, c) = (d, c, b);
            b = b.wrapping_add(sum.rotate_left(MD5_ROTATE[i / 16][i % 4]));
        }
        for (h, v) in h.iter_mut().zip([a, b, c, d]) {
            *h = h.wrapping_add(v);
        }
    }
    let mut out = [0; 16];
    for (o, h) in out.chunks_exact_mut(4).zip(h) {
        o.copy_from_slice(&h.to_le_bytes());
    }
    out
}

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
const SHA_K: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

fn sha2(message: &[u8], mut h: [u32; 8]) -> [u8; 32] {
    for block in blocks(message, ((message.len() as u64) << 3).to_be_bytes()) {
        let mut w = [0u32; 64];
        for (w, b) in w.iter_mut().zip(block.chunks_exact(4)) {
            *w = u32::from_be_bytes([b[0], b[1], b[2], b[3]]);
        }
        for i in 16..64 {
            let s0 = w[i - 15].rotate_right(7) ^ w[i - 15].rotate_right(18) ^ w[i - 15] >> 3;
            let s1 = w[i - 2].rotate_right(17) ^ w[i - 2].rotate_right(19) ^ w[i - 2] >> 10;
            w[i] = w[i - 16].wrapping_add(s0).wrapping_add(w[i - 7]).wrapping_add(s1);
        }
        let mut v = h;
        for i in 0..64 {
            let s1 = v[4].rotate_right(6) ^ v[4].rotate_right(11) ^ v[4].rotate_right(25);
            let choice = v[4] & v[5] ^ !v[4] & v[6];
            let t1 = v[7].wrapping_add(s1).wrapping_add(choice).wrapping_add(SHA_K[i]).wrapping_add(w[i]);
            let s0 = v[0].rotate_right(2) ^ v[0].rotate_right(13) ^ v[0].rotate_right(22);
            let majority = v[0] & v[1] ^ v[0] & v[2] ^ v[1] & v[2];
            v.rotate_right(1);
            v[4] = v[4].wrapping_add(t1);
            v[0] = t1.wrapping_add(s0).wrapping_add(majority);
        }
        for (h, v) in h.iter_mut().zip(v) {
            *h = h.wrapping_add(v);
        }
    }
    let mut out = [0; 32];
    for (o, h) in out.chunks_exact_mut(4).zip(h) {
        o.copy_from_slice(&h.to_be_bytes());
    }
    out
}

pub fn sha256(message: &[u8]) -> [u8; 32] {
    const START: [u32; 8] =
        [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];
    sha2(message, START)
}

pub fn sha224(message: &[u8]) -> [u8; 28] {
    const START: [u32; 8] =
        [0xc1059ed8, 0x367cd507, 0x3070dd17, 0xf70e5939, 0xffc00b31, 0x68581511, 0x64f98fa7, 0xbefa4fa4];
    let mut out = [0; 28];
    out.copy_from_slice(&sha2(message, START)[..28]);
    out
}
