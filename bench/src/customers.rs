//! The subscriber table: row `i` is a function of `i` and the number of rows, 71 bytes raw, four rows to a
//! registration number on average.
use crate::random::mix;
use std::io::{self, Read};

/// Raw bytes of a row: 8 + 4 + 8 + 1 + 1 + 1 + 40 + 8.
pub const RAW_BYTES: u64 = 71;
/// Rows that share a registration number on average.
const SHARED: u64 = 4;
/// Rows that can be told apart by their service numbers.
pub const MOST: u64 = 1 << 30;

/// For Ondol and, with other types for the same values, for the rest.
pub const TABLE: &str = "CREATE TABLE customer (
    service_mgmt_num bigint, service_num integer, registration_num bigint, service_code char(1),
    service_type char(1), is_ttl_subscriber char(1), subscriber_name char(40), counter bigint)";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Customer {
    pub service_mgmt_num: i64,
    pub service_num: i32,
    pub registration_num: i64,
    pub codes: [u8; 3],
    pub name: [u8; 40],
    pub counter: i64,
}

/// Unique: an odd factor permutes numbers of 32 bits.
pub fn service_mgmt_num(i: u64) -> i64 {
    (4_000_000_000_000 + (i as u32).wrapping_mul(2_654_435_761) as u64) as i64
}
/// Unique: an odd factor permutes numbers of 30 bits.
pub fn service_num(i: u64) -> i32 {
    (1_000_000_000 + (i as u32).wrapping_mul(668_265_263) % (1 << 30)) as i32
}
pub fn registration_num(i: u64, rows: u64) -> i64 {
    let group = mix(i ^ 0x7e61) % rows.div_ceil(SHARED);
    (8_001_011_000_000 + group * 1_000_003) as i64
}

const FIRST: [&str; 16] = [
    "Ada",
    "Alan",
    "Barbara",
    "Donald",
    "Edsger",
    "Frances",
    "Grace",
    "Hana",
    "Jim",
    "Jisoo",
    "Katherine",
    "Leslie",
    "Min-jun",
    "Niklaus",
    "Radia",
    "Seo-yeon",
];
const LAST: [&str; 16] = [
    "Allen", "Bachman", "Bayer", "Codd", "Dijkstra", "Gray", "Hopper", "Kim", "Knuth", "Lamport", "Lee",
    "Liskov", "Park", "Perlman", "Turing", "Wirth",
];

impl Customer {
    pub fn new(i: u64, rows: u64) -> Customer {
        let m = mix(i ^ 0x5bd1);
        let mut name = [b'0'; 40];
        let (first, last) =
            (FIRST[(m >> 24) as usize % 16].as_bytes(), LAST[(m >> 32) as usize % 16].as_bytes());
        let mut at = 0;
        for part in [first, b" ", last, b" "] {
            name[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        // The rest is the row's number, so that all forty bytes are to be read.
        let mut n = i;
        for d in name[at..].iter_mut().rev() {
            *d = b'0' + (n % 10) as u8;
            n /= 10;
        }
        Customer {
            service_mgmt_num: service_mgmt_num(i),
            service_num: service_num(i),
            registration_num: registration_num(i, rows),
            codes: [
                b'A' + (m % 20) as u8,
                b'0' + (m >> 8) as u8 % 10,
                if m >> 16 & 7 == 0 { b'Y' } else { b'N' },
            ],
            name,
            counter: 0,
        }
    }

    pub fn name(&self) -> &str {
        // Letters, digits and blanks; what is none would be a mistake in `new`, and show as a wrong checksum.
        std::str::from_utf8(&self.name).unwrap_or("")
    }
    /// The text of code `i`.
    pub fn code(&self, i: usize) -> &str {
        std::str::from_utf8(&self.codes[i..i + 1]).unwrap_or("")
    }

    /// As the raw row that key-value stores hold, and what the bare table copies.
    pub fn pack(&self) -> [u8; RAW_BYTES as usize] {
        let mut b = [0; RAW_BYTES as usize];
        b[0..8].copy_from_slice(&self.service_mgmt_num.to_le_bytes());
        b[8..12].copy_from_slice(&self.service_num.to_le_bytes());
        b[12..20].copy_from_slice(&self.registration_num.to_le_bytes());
        b[20..23].copy_from_slice(&self.codes);
        b[23..63].copy_from_slice(&self.name);
        b[63..71].copy_from_slice(&self.counter.to_le_bytes());
        b
    }
    #[inline]
    pub fn unpack(b: &[u8; RAW_BYTES as usize]) -> Customer {
        let word = |at: usize| {
            let mut w = [0; 8];
            w.copy_from_slice(&b[at..at + 8]);
            i64::from_le_bytes(w)
        };
        let mut name = [0; 40];
        name.copy_from_slice(&b[23..63]);
        Customer {
            service_mgmt_num: word(0),
            service_num: i32::from_le_bytes([b[8], b[9], b[10], b[11]]),
            registration_num: word(12),
            codes: [b[20], b[21], b[22]],
            name,
            counter: word(63),
        }
    }
    /// The checksum that every side must come to.
    #[inline]
    pub fn checksum(&self) -> u64 {
        let mut sum = Checksum::new();
        sum.number(self.service_mgmt_num);
        sum.number(self.service_num.into());
        sum.number(self.registration_num);
        self.codes.iter().for_each(|c| sum.text(std::slice::from_ref(c)));
        sum.text(&self.name);
        sum.number(self.counter);
        sum.0
    }
}

/// Over the columns of one row, in order. Those of rows are added up, so the order of rows does not matter.
pub struct Checksum(pub u64);

impl Checksum {
    #[inline]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Checksum {
        Checksum(0)
    }
    #[inline]
    pub fn number(&mut self, n: i64) {
        self.0 = self.0.rotate_left(9).wrapping_add(n as u64);
    }
    #[inline]
    pub fn text(&mut self, t: &[u8]) {
        let mut words = t.chunks_exact(8);
        let mut h = t.len() as u64;
        for w in &mut words {
            let mut b = [0; 8];
            b.copy_from_slice(w);
            h = h.rotate_left(13).wrapping_add(u64::from_le_bytes(b));
        }
        for b in words.remainder() {
            h = h.rotate_left(5).wrapping_add(*b as u64);
        }
        self.number(h as i64);
    }
}

fn push_number(n: i64, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut at = 20;
    let mut n = n.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// The table as CSV without a header, made while it is read.
pub struct Csv {
    next: u64,
    rows: u64,
    text: Vec<u8>,
    at: usize,
}

impl Csv {
    pub fn new(rows: u64) -> Csv {
        Csv { next: 0, rows, text: Vec::with_capacity(1 << 17), at: 0 }
    }
    fn fill(&mut self) {
        self.text.clear();
        self.at = 0;
        while self.next < self.rows && self.text.len() < 1 << 16 {
            let c = Customer::new(self.next, self.rows);
            self.next += 1;
            let t = &mut self.text;
            for n in [c.service_mgmt_num, c.service_num.into(), c.registration_num] {
                push_number(n, t);
                t.push(b',');
            }
            c.codes.iter().for_each(|b| t.extend_from_slice(&[*b, b',']));
            t.extend_from_slice(&c.name);
            t.push(b',');
            push_number(c.counter, t);
            t.push(b'\n');
        }
    }
}

impl Read for Csv {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.at == self.text.len() {
            self.fill();
        }
        let n = buf.len().min(self.text.len() - self.at);
        buf[..n].copy_from_slice(&self.text[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_are_unique_and_four_share_a_registration() {
        let n = 20_000;
        assert_eq!((0..n).map(service_mgmt_num).collect::<BTreeSet<_>>().len(), n as usize);
        assert_eq!((0..n).map(service_num).collect::<BTreeSet<_>>().len(), n as usize);
        let registrations = (0..n).map(|i| registration_num(i, n)).collect::<BTreeSet<_>>().len() as f64;
        // Of n / 4 groups drawn at random some stay empty.
        assert!((4.0..4.2).contains(&(n as f64 / registrations)));
    }

    #[test]
    fn rows_survive_packing() {
        for i in [0, 1, 99, MOST - 1] {
            let c = Customer::new(i, MOST);
            assert_eq!(Customer::unpack(&c.pack()), c);
            assert!(c.name().len() == 40 && !c.name().ends_with(' '));
        }
    }

    #[test]
    fn every_column_counts() {
        let c = Customer::new(5, 10);
        let sum = c.checksum();
        let mut all = vec![c; 8];
        all[0].service_mgmt_num += 1;
        all[1].service_num += 1;
        all[2].registration_num += 1;
        (0..3).for_each(|i| all[3 + i].codes[i] += 1);
        all[6].name[39] ^= 1;
        all[7].counter += 1;
        assert!(all.iter().all(|c| c.checksum() != sum));
    }

    #[test]
    fn csv_has_a_line_for_each_row() {
        let mut text = String::new();
        Csv::new(3000).read_to_string(&mut text).unwrap();
        assert_eq!(text.lines().count(), 3000);
        assert!(text.lines().all(|l| l.split(',').count() == 8));
    }
}
