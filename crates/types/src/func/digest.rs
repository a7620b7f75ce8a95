//! MD5 (RFC 1321) and SHA-2 (FIPS 180-4), for the functions of these names.
use md5::Md5;
use sha2::Digest;
pub use sha2::{Sha224, Sha256, Sha384, Sha512};

/// Lower-case hexadecimal digits.
pub fn hex(b: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    b.iter()
        .flat_map(|b| [DIGITS[usize::from(b >> 4)] as char, DIGITS[usize::from(b & 15)] as char])
        .collect()
}

/// MD5's digest as hexadecimal digits.
pub fn md5(message: &[u8]) -> String {
    hex(&Md5::digest(message))
}

/// The digest of one of SHA-2's functions.
pub fn sha2<D: Digest>(message: &[u8]) -> Vec<u8> {
    D::digest(message).to_vec()
}
