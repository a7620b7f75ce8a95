//! What a server has to know of its own certificate (X.509, in DER): when it is good, and what binds the
//! proof of a password to it.
//!
//! Only what stands before and behind these two is stepped over: what is signed, and by whom, is the TLS
//! library's and the client's to look at.
//!
//! Sources: RFC 5280 (4.1), RFC 5929 (4), RFC 4055.
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

/// What is left of a sequence's elements.
struct Elements<'a>(&'a [u8]);

impl<'a> Elements<'a> {
    /// The next element's tag and contents.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (head, rest) = self.0.split_first_chunk::<2>()?;
        let (length, rest) = match head[1] {
            short @ 0..0x80 => (usize::from(short), rest),
            long => {
                let bytes = usize::from(long & 0x7f);
                let (length, rest) = rest.split_at_checked(bytes)?;
                if bytes > 4 {
                    return None;
                }
                (length.iter().fold(0, |l, b| l << 8 | usize::from(*b)), rest)
            }
        };
        let (contents, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((head[0], contents))
    }
    fn of(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|e| e.0 == tag).map(|e| e.1)
    }
    fn sequence(&mut self) -> Option<Elements<'a>> {
        self.of(SEQUENCE).map(Elements)
    }
}

const INTEGER: u8 = 0x02;
const OBJECT: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
/// The first of those that have no type of their own.
const FIRST: u8 = 0xa0;

/// Days from 1970-01-01.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that a leap year's day is its last.
    let year = if month > 2 { year } else { year - 1 };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year - 719_468
}

/// Seconds from 1970-01-01.
fn time((tag, text): (u8, &[u8])) -> Option<i64> {
    let digits = text.strip_suffix(b"Z")?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |d: &[u8]| d.iter().fold(0, |n, d| n * 10 + i64::from(d - b'0'));
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) => {
            let year = number(&digits[..2]);
            (if year < 50 { 2000 + year } else { 1900 + year }, &digits[2..])
        }
        (TIME, 14) => (number(&digits[..4]), &digits[4..]),
        _ => return None,
    };
    let [month, day, hour, minute, second] = std::array::from_fn(|i| number(&rest[2 * i..2 * i + 2]));
    Some(((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second)
}

/// From when and until when a certificate is good, in seconds from 1970-01-01.
pub fn validity(certificate: &[u8]) -> Option<(i64, i64)> {
    let mut signed = Elements(certificate).sequence()?.sequence()?;
    if signed.0.first() == Some(&FIRST) {
        signed.next()?;
    }
    signed.of(INTEGER)?;
    let (_algorithm, _issuer) = (signed.sequence()?, signed.sequence()?);
    let mut validity = signed.sequence()?;
    Some((time(validity.next()?)?, time(validity.next()?)?))
}

/// What `tls-server-end-point` binds to: the certificate's hash, by the function that it is signed with.
/// Nothing where this is not defined, as for Ed25519.
pub fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1];
    const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4];
    const SHA2: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2];
    let mut parts = Elements(certificate).sequence()?;
    parts.sequence()?;
    let mut algorithm = parts.sequence()?;
    let name = algorithm.of(OBJECT)?;
    let bits = match (name.strip_prefix(RSA), name.strip_prefix(ECDSA)) {
        // The two older functions are too weak: SHA-256 is in their place.
        (Some([4 | 5 | 11]), _) | (_, Some([1] | [3, 2])) => 256,
        (Some([14]), _) | (_, Some([3, 1])) => 224,
        (Some([12]), _) | (_, Some([3, 3])) => 384,
        (Some([13]), _) | (_, Some([3, 4])) => 512,
        // RSASSA-PSS names its hash function, which is SHA-1 if it does not.
        (Some([10]), _) => {
            let mut parameters = algorithm.sequence()?;
            match parameters.next() {
                Some((FIRST, hash)) => match Elements(hash).sequence()?.of(OBJECT)?.strip_prefix(SHA2) {
                    Some([1]) => 256,
                    Some([2]) => 384,
                    Some([3]) => 512,
                    Some([4]) => 224,
                    _ => return None,
                },
                _ => 256,
            }
        }
        _ => return None,
    };
    Some(match bits {
        224 => Sha224::digest(certificate).to_vec(),
        256 => Sha256::digest(certificate).to_vec(),
        384 => Sha384::digest(certificate).to_vec(),
        _ => Sha512::digest(certificate).to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let contents = parts.concat();
        let length = contents.len();
        let head = match length {
            0..0x80 => vec![tag, length as u8],
            _ => vec![tag, 0x82, (length >> 8) as u8, length as u8],
        };
        [head, contents].concat()
    }
    fn certificate(algorithm: &[u8], from: Vec<u8>, until: Vec<u8>) -> Vec<u8> {
        let algorithm = element(SEQUENCE, &[algorithm]);
        let validity = element(SEQUENCE, &[&from, &until]);
        let version = element(FIRST, &[&element(INTEGER, &[&[2]])]);
        let signed =
            [&version, &element(INTEGER, &[&[7; 20]]), &algorithm, &element(SEQUENCE, &[]), &validity];
        let signed = element(SEQUENCE, &signed.map(|s| &s[..]));
        element(SEQUENCE, &[&signed, &algorithm, &element(3, &[&[0; 200]])])
    }

    #[test]
    fn validity_is_read() {
        let made =
            certificate(&[], element(UTC_TIME, &[b"700101000000Z"]), element(TIME, &[b"20500301000001Z"]));
        assert_eq!(validity(&made), Some((0, 2_529_705_601)));
        let made =
            certificate(&[], element(UTC_TIME, &[b"261126124119Z"]), element(UTC_TIME, &[b"491231235959Z"]));
        assert_eq!(validity(&made), Some((1_795_696_879, 2_524_607_999)));
        for n in 0..made.len() {
            let _ = (validity(&made[..n]), end_point(&made[..n]));
        }
        for wrong in ["700101000000", "7001010000Z", "7o0101000000Z"] {
            let made = certificate(&[], element(UTC_TIME, &[wrong.as_bytes()]), vec![]);
            assert_eq!(validity(&made), None, "{wrong}");
        }
    }

    #[test]
    fn the_hash_is_that_of_the_signature() {
        let rsa = |n: u8| element(OBJECT, &[&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, n]]);
        let ecdsa = |n: &[u8]| element(OBJECT, &[&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4], n]);
        let sha2 = |n: u8| {
            let name = element(OBJECT, &[&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, n]]);
            let hash = element(FIRST, &[&element(SEQUENCE, &[&name])]);
            [rsa(10), element(SEQUENCE, &[&hash])].concat()
        };
        for (algorithm, bytes) in [
            (rsa(5), Some(32)),
            (rsa(11), Some(32)),
            (rsa(12), Some(48)),
            (rsa(13), Some(64)),
            (rsa(14), Some(28)),
            (ecdsa(&[1]), Some(32)),
            (ecdsa(&[3, 2]), Some(32)),
            (ecdsa(&[3, 3]), Some(48)),
            (sha2(2), Some(48)),
            ([rsa(10), element(SEQUENCE, &[])].concat(), Some(32)),
            (rsa(99), None),
            (element(OBJECT, &[&[0x2b, 0x65, 0x70]]), None),
        ] {
            let made = certificate(&algorithm, vec![], vec![]);
            assert_eq!(end_point(&made).map(|h| h.len()), bytes, "{algorithm:x?}");
        }
    }
}
