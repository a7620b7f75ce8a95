//! The demo's subscribers: row `i` of N is a function of `i` and N, so that whoever knows N can write, look
//! for and check any row. Also the worker's sequence of updates, which parent and child must agree on.
use std::io::{self, Write};

/// Raw bytes of a row: 8 + 4 + 8 + 1 + 1 + 1 + 40 + 8.
pub const RAW_BYTES: u64 = 71;
/// Rows that share a registration number on average.
pub const SHARED: u64 = 4;
/// Subscribers that can be told apart by their service numbers, which are integers.
pub const MOST: u64 = 1 << 30;

pub const TABLE: &str = "CREATE TABLE customer (
    service_mgmt_num bigint, service_num integer, registration_num bigint, service_code char(1),
    service_type char(1), is_ttl_subscriber char(1), subscriber_name char(40), counter bigint)";

/// Name, whether unique, column.
pub const INDEXES: [(&str, bool, &str); 3] = [
    ("customer_service_mgmt_num", true, "service_mgmt_num"),
    ("customer_service_num", true, "service_num"),
    ("customer_registration_num", false, "registration_num"),
];

pub const QUERIES: [&str; 4] = [
    "CREATE FUNCTION q1(integer) RETURNS SETOF customer LANGUAGE sql AS 'SELECT * FROM customer WHERE service_num = $1'",
    "CREATE FUNCTION q2(bigint) RETURNS SETOF customer LANGUAGE sql AS 'SELECT * FROM customer WHERE registration_num = $1'",
    "CREATE FUNCTION q3(bigint) RETURNS SETOF customer LANGUAGE sql AS 'SELECT * FROM customer WHERE service_mgmt_num = $1'",
    "CREATE FUNCTION q4(bigint, bigint) RETURNS void LANGUAGE sql AS 'UPDATE customer SET counter = $2 WHERE service_mgmt_num = $1'",
];

/// A mix of 64 bits (SplitMix64's finisher): every bit of the input moves every bit of the output.
pub fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// A stream of pseudo-random numbers by seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }
    pub fn below(&mut self, n: u64) -> u64 {
        ((self.next() as u128 * n as u128) >> 64) as u64
    }
}

/// Unique: odd factors permute numbers of 32 bits.
pub fn service_mgmt_num(i: u64) -> i64 {
    (4_000_000_000_000 + (i as u32).wrapping_mul(2_654_435_761) as u64) as i64
}
/// The row that has it.
pub fn row_of(service_mgmt_num: i64) -> u64 {
    // The factor's inverse modulo 2^32.
    (service_mgmt_num.wrapping_sub(4_000_000_000_000) as u32).wrapping_mul(INVERSE) as u64
}
const INVERSE: u32 = inverse(2_654_435_761);

/// Newton's iteration doubles the right bits.
const fn inverse(n: u32) -> u32 {
    let mut x = n;
    let mut round = 0;
    while round < 5 {
        x = x.wrapping_mul(2u32.wrapping_sub(n.wrapping_mul(x)));
        round += 1;
    }
    x
}

/// Unique: an odd factor permutes numbers of 30 bits.
pub fn service_num(i: u64) -> i32 {
    (1_000_000_000 + (i as u32).wrapping_mul(668_265_263) % (1 << 30)) as i32
}
pub fn registration_num(i: u64, rows: u64) -> i64 {
    let groups = rows.div_ceil(SHARED);
    (8_001_011_000_000 + mix(i % groups) % 1_000_000 * 1_000_000_000 + i % groups) as i64
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

/// The letters of the three char(1) columns, and the name's parts.
pub fn codes(i: u64) -> ([u8; 3], &'static str, &'static str) {
    let m = mix(i ^ 0x5bd1);
    let codes =
        [b'A' + (m % 20) as u8, b'0' + (m >> 8) as u8 % 10, if m >> 16 & 7 == 0 { b'Y' } else { b'N' }];
    (codes, FIRST[(m >> 24) as usize % 16], LAST[(m >> 32) as usize % 16])
}

pub fn name(i: u64, out: &mut String) {
    let (_, first, last) = codes(i);
    out.clear();
    out.push_str(first);
    out.push(' ');
    out.push_str(last);
    out.push(' ');
    push_number(i, out);
}

fn push_number(n: u64, out: &mut String) {
    let mut digits = [0u8; 20];
    let mut at = 20;
    let mut n = n;
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.extend(digits[at..].iter().map(|&d| d as char));
}

/// Writes the rows as CSV. `progress` is told how many are written.
pub fn write_csv(rows: u64, out: &mut dyn Write, mut progress: impl FnMut(u64)) -> io::Result<()> {
    let mut text = String::with_capacity(1 << 17);
    let mut name_text = String::new();
    for i in 0..rows {
        let (codes, ..) = codes(i);
        name(i, &mut name_text);
        push_number(service_mgmt_num(i) as u64, &mut text);
        text.push(',');
        push_number(service_num(i) as u64, &mut text);
        text.push(',');
        push_number(registration_num(i, rows) as u64, &mut text);
        for c in codes {
            text.push(',');
            text.push(c as char);
        }
        text.push(',');
        text.push_str(&name_text);
        text.push_str(",0\n");
        if text.len() > 1 << 16 {
            out.write_all(text.as_bytes())?;
            text.clear();
            progress(i + 1);
        }
    }
    out.write_all(text.as_bytes())?;
    progress(rows);
    out.flush()
}

/// Update number `n` (from 1) of the worker: which row it changes. The row's counter becomes the base + n.
pub fn updated_row(seed: u64, n: u64, rows: u64) -> u64 {
    // Few enough rows that many are updated again and again.
    let among = rows.min(100_000);
    ((mix(seed ^ n.wrapping_mul(0x9e37_79b9_7f4a_7c15)) as u128 * among as u128) >> 64) as u64
        * (rows / among)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn keys_are_unique_and_four_share_a_registration() {
        let n = 20_000;
        let mgmt: BTreeSet<i64> = (0..n).map(service_mgmt_num).collect();
        let service: BTreeSet<i32> = (0..n).map(service_num).collect();
        assert_eq!((mgmt.len(), service.len()), (n as usize, n as usize));
        assert!(service.iter().all(|&s| s > 0));
        let mut registrations: BTreeMap<i64, u32> = BTreeMap::new();
        (0..n).for_each(|i| *registrations.entry(registration_num(i, n)).or_default() += 1);
        assert_eq!(registrations.len() as u64, n / SHARED);
        for i in [0, 1, 77, 1_000_003, MOST - 1] {
            assert_eq!(row_of(service_mgmt_num(i)), i);
        }
    }

    #[test]
    fn a_csv_row_has_eight_fields() {
        let mut out = Vec::new();
        write_csv(3, &mut out, |_| {}).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 3);
        assert!(text.lines().all(|l| l.split(',').count() == 8));
    }

    #[test]
    fn updates_stay_within_the_rows() {
        for rows in [1, 7, 1000, 12_000_000] {
            assert!((1..1000).all(|n| updated_row(42, n, rows) < rows));
        }
    }
}
