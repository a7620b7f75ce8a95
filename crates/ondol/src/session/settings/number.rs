//! Numbers of settings, with PostgreSQL's units: read from what SET is given, and shown by SHOW.
use ondol_types::text;

/// What a setting counts, and how much one of it is: bytes, or microseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Unit {
    None,
    Memory(f64),
    Time(f64),
}

/// From the greatest to the least.
const MEMORY: &[(&str, f64)] =
    &[("TB", 1_099_511_627_776.0), ("GB", 1_073_741_824.0), ("MB", 1_048_576.0), ("kB", 1024.0), ("B", 1.0)];
const TIME: &[(&str, f64)] = &[
    ("d", 86_400_000_000.0),
    ("h", 3_600_000_000.0),
    ("min", 60_000_000.0),
    ("s", 1_000_000.0),
    ("ms", 1000.0),
    ("us", 1.0),
];

impl Unit {
    /// Of the unit's name in `pg_settings`, which may have a number before it: `8kB`.
    pub fn of(name: &str) -> Unit {
        let digits = name.bytes().take_while(u8::is_ascii_digit).count();
        let (count, word) = name.split_at(digits);
        let count: f64 = count.parse().unwrap_or(1.0);
        let find = |of: &[(&str, f64)]| of.iter().find(|u| u.0 == word).map(|u| count * u.1);
        match (find(MEMORY), find(TIME)) {
            (Some(bytes), _) => Unit::Memory(bytes),
            (_, Some(micros)) => Unit::Time(micros),
            _ => Unit::None,
        }
    }

    /// The units that a number may have, and what is one of the setting's.
    fn all(self) -> (&'static [(&'static str, f64)], f64) {
        match self {
            Unit::None => (&[], 1.0),
            Unit::Memory(one) => (MEMORY, one),
            Unit::Time(one) => (TIME, one),
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Unit::Time(_) => {
                "Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\"."
            }
            _ => "Valid units for this parameter are \"B\", \"kB\", \"MB\", \"GB\", and \"TB\".",
        }
    }
}

/// A number as the C library reads it at the start of a text, and how long it is.
fn leading(value: &str) -> Option<(f64, usize)> {
    let unsigned = value.strip_prefix(['+', '-']).unwrap_or(value);
    let sign = value.len() - unsigned.len();
    let run = |from: usize, good: fn(&u8) -> bool| {
        unsigned.as_bytes().get(from..).unwrap_or_default().iter().take_while(|b| good(b)).count()
    };
    let negative = |n: f64| if value.starts_with('-') { -n } else { n };
    if unsigned.starts_with("0x") || unsigned.starts_with("0X") {
        let digits = run(2, u8::is_ascii_hexdigit);
        if digits > 0 {
            let n = u64::from_str_radix(&unsigned[2..2 + digits], 16).map_or(f64::MAX, |n| n as f64);
            return Some((negative(n), sign + 2 + digits));
        }
    }
    let whole = run(0, u8::is_ascii_digit);
    let mut end = whole;
    if unsigned.as_bytes().get(end) == Some(&b'.') {
        let fraction = run(end + 1, u8::is_ascii_digit);
        if whole + fraction > 0 {
            end += 1 + fraction
        }
    }
    if end == 0 {
        return None;
    }
    if matches!(unsigned.as_bytes().get(end), Some(b'e' | b'E')) {
        let mark = usize::from(matches!(unsigned.as_bytes().get(end + 1), Some(b'+' | b'-')));
        let digits = run(end + 1 + mark, u8::is_ascii_digit);
        if digits > 0 {
            end += 1 + mark + digits
        }
    }
    // A whole number that begins with a zero is octal.
    if end == whole && whole > 1 && unsigned.starts_with('0') {
        let digits = run(0, |b| matches!(b, b'0'..=b'7'));
        let n = u64::from_str_radix(&unsigned[..digits], 8).map_or(f64::MAX, |n| n as f64);
        return Some((negative(n), sign + digits));
    }
    Some((negative(unsigned[..end].parse().ok()?), sign + end))
}

/// A number in the setting's unit. The error is the hint, if there is one.
fn read(value: &str, unit: Unit) -> Result<f64, Option<&'static str>> {
    let value = value.trim_start();
    let (n, length) = leading(value).ok_or(None)?;
    let word = value[length..].trim();
    if word.is_empty() {
        return Ok(n);
    }
    let (units, one) = unit.all();
    if units.is_empty() {
        return Err(None);
    }
    let at = units.iter().position(|u| u.0 == word).ok_or(Some(unit.hint()))?;
    let n = n * units[at].1 / one;
    // A part of a unit is rounded to the next smaller one.
    Ok(match units.get(at + 1) {
        Some((_, next)) => (n * one / next).round_ties_even() * next / one,
        None => n,
    })
}

/// A whole number.
pub(super) fn integer(value: &str, unit: Unit) -> Result<i64, Option<&'static str>> {
    let n = read(value, unit)?.round_ties_even();
    match (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&n) {
        true => Ok(n as i64),
        false => Err(Some("Value exceeds integer range.")),
    }
}

pub(super) fn real(value: &str, unit: Unit) -> Result<f64, Option<&'static str>> {
    read(value, unit)
}

/// As PostgreSQL shows a real.
pub(super) fn show(n: f64) -> String {
    let mut out = String::new();
    text::write_general(n, 6, &mut out);
    out
}

/// In the greatest unit of which it is a whole number.
pub(super) fn show_integer(n: i64, unit: Unit) -> String {
    let (units, one) = unit.all();
    if n > 0 {
        for (name, of) in units {
            let many = (of / one) as i64;
            if *of <= one || n % many == 0 {
                return format!("{}{name}", (n as f64 * one / of).round_ties_even() as i64);
            }
        }
    }
    n.to_string()
}

/// The same of a real; in the least unit, where it is a whole number of none.
pub(super) fn show_real(n: f64, unit: Unit) -> String {
    let (units, one) = unit.all();
    if n <= 0.0 || units.is_empty() {
        return show(n);
    }
    let is_whole = |v: f64| v > 0.0 && (v.round_ties_even() / v - 1.0).abs() <= 1e-8;
    let found = units.iter().find(|u| is_whole(n * one / u.1)).or(units.last());
    found.map_or_else(String::new, |(name, of)| format!("{}{name}", show(n * one / of)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_shown_as_postgresql_does() {
        let kb = Unit::of("kB");
        for (given, shown) in
            [("0", "0"), ("1024", "1MB"), ("1.7MB", "1741kB"), ("30.1 GB", "30822MB"), ("0x10", "16kB")]
        {
            assert_eq!(show_integer(integer(given, kb).unwrap(), kb), shown, "{given}");
        }
        let blocks = Unit::of("8kB");
        for (given, shown) in
            [("1", "8kB"), ("128", "1MB"), ("1.5 MB", "1536kB"), ("9000B", "8kB"), ("2GB", "2GB")]
        {
            assert_eq!(show_integer(integer(given, blocks).unwrap(), blocks), shown, "{given}");
        }
        let ms = Unit::of("ms");
        for (given, shown) in [
            ("1e3", "1s"),
            ("1500", "1500ms"),
            ("1.5s", "1500ms"),
            ("-1", "-1"),
            ("1d", "1d"),
            ("010", "8ms"),
        ] {
            assert_eq!(show_integer(integer(given, ms).unwrap(), ms), shown, "{given}");
        }
        for (given, shown) in [("0.5", "500us"), ("1500us", "1500us"), ("2", "2ms"), ("0", "0")] {
            assert_eq!(show_real(real(given, ms).unwrap(), ms), shown, "{given}");
        }
        assert_eq!(show(f64::MAX), "1.79769e+308");
        assert_eq!(integer("x", ms), Err(None));
        assert_eq!(integer("1mb", kb), Err(Some(kb.hint())));
        assert_eq!(integer("10000000000", ms), Err(Some("Value exceeds integer range.")));
        assert_eq!(integer("1kB", Unit::None), Err(None));
    }
}
