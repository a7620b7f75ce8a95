//! Time zone abbreviations, and zones that are written out.
//!
//! Those of PostgreSQL's default set that stand for a fixed offset; the ones whose offset depends on the
//! date, and names such as Europe/Paris, need the time zone database and are not known here.
//!
//! Sources: PostgreSQL 15's time zone abbreviation set "Default"; POSIX.1, Base Definitions 8.3, variable TZ.

use crate::known;

/// Names in order, and seconds east of Greenwich.
const ABBREVIATIONS: &[(&str, i32)] = &[
    ("acdt", 37800),
    ("acsst", 37800),
    ("acst", 34200),
    ("act", -18000),
    ("acwst", 31500),
    ("adt", -10800),
    ("aedt", 39600),
    ("aesst", 39600),
    ("aest", 36000),
    ("aft", 16200),
    ("akdt", -28800),
    ("akst", -32400),
    ("almst", 25200),
    ("almt", 21600),
    ("amt", -14400),
    ("ast", -14400),
    ("awsst", 32400),
    ("awst", 28800),
    ("azost", 0),
    ("azot", -3600),
    ("bdst", 7200),
    ("bdt", 21600),
    ("bnt", 28800),
    ("bort", 28800),
    ("bot", -14400),
    ("bra", -10800),
    ("brst", -7200),
    ("brt", -10800),
    ("bst", 3600),
    ("btt", 21600),
    ("cadt", 37800),
    ("cast", 34200),
    ("cct", 28800),
    ("cdt", -18000),
    ("cest", 7200),
    ("cet", 3600),
    ("cetdst", 7200),
    ("chadt", 49500),
    ("chast", 45900),
    ("chut", 36000),
    ("clst", -10800),
    ("cot", -18000),
    ("cst", -21600),
    ("cxt", 25200),
    ("ddut", 36000),
    ("eat", 10800),
    ("edt", -14400),
    ("eest", 10800),
    ("eet", 7200),
    ("eetdst", 10800),
    ("egst", 0),
    ("egt", -3600),
    ("est", -18000),
    ("fet", 10800),
    ("fjst", 46800),
    ("fjt", 43200),
    ("fnst", -3600),
    ("fnt", -7200),
    ("galt", -21600),
    ("gamt", -32400),
    ("gft", -10800),
    ("gilt", 43200),
    ("gmt", 0),
    ("hkt", 28800),
    ("hst", -36000),
    ("ict", 25200),
    ("idt", 10800),
    ("irt", 12600),
    ("ist", 7200),
    ("jayt", 32400),
    ("jst", 32400),
    ("kdt", 36000),
    ("kgst", 21600),
    ("kst", 32400),
    ("lhst", 37800),
    ("ligt", 36000),
    ("mart", -34200),
    ("mdt", -21600),
    ("mest", 7200),
    ("mesz", 7200),
    ("met", 3600),
    ("metdst", 7200),
    ("mez", 3600),
    ("mht", 43200),
    ("mmt", 23400),
    ("mpt", 36000),
    ("msd", 14400),
    ("mst", -25200),
    ("must", 18000),
    ("mut", 14400),
    ("mvt", 18000),
    ("myt", 28800),
    ("ndt", -9000),
    ("nft", -12600),
    ("npt", 20700),
    ("nst", -12600),
    ("nzdt", 46800),
    ("nzst", 43200),
    ("nzt", 43200),
    ("pdt", -25200),
    ("pet", -18000),
    ("pgt", 36000),
    ("pht", 28800),
    ("pkst", 21600),
    ("pkt", 18000),
    ("pmdt", -7200),
    ("pmst", -10800),
    ("pont", 39600),
    ("pst", -28800),
    ("pwt", 32400),
    ("pyst", -10800),
    ("ret", 14400),
    ("sadt", 37800),
    ("sast", 7200),
    ("sct", 14400),
    ("taht", -36000),
    ("tft", 18000),
    ("tjt", 18000),
    ("tot", 46800),
    ("trut", 36000),
    ("tvt", 43200),
    ("uct", 0),
    ("ulast", 32400),
    ("ut", 0),
    ("utc", 0),
    ("uyst", -7200),
    ("uyt", -10800),
    ("uzst", 21600),
    ("uzt", 18000),
    ("vut", 39600),
    ("wadt", 28800),
    ("wakt", 43200),
    ("wast", 25200),
    ("wat", 3600),
    ("wdt", 32400),
    ("wet", 0),
    ("wetdst", 3600),
    ("wft", 43200),
    ("wgst", -7200),
    ("wgt", -10800),
    ("xjt", 21600),
    ("yapt", 36000),
    ("yekst", 21600),
    ("z", 0),
    ("zulu", 0),
];

/// Names of zones that are Greenwich's time.
const GREENWICH: &[&str] = &["gmt", "gmt+0", "gmt-0", "gmt0", "greenwich", "uct", "universal", "utc", "zulu"];

/// Seconds east of Greenwich of an abbreviation, of a zone whose name means Greenwich's time, or of one that
/// is written out and has no summer time (`abc3:30`: a name, then the time west of Greenwich); in lower case.
pub fn offset(name: &str) -> Option<i32> {
    match ABBREVIATIONS.binary_search_by(|a| a.0.cmp(name)) {
        Ok(i) => Some(ABBREVIATIONS[i].1),
        Err(_) if GREENWICH.contains(&name.strip_prefix("etc/").unwrap_or(name)) => Some(0),
        Err(_) => written_out(name)
            .filter(|(_, rest)| rest.is_empty() && !known::is_time_zone(name))
            .map(|(west, _)| -west),
    }
}

/// Whether PostgreSQL takes a name as a zone: one of the time zone database, an abbreviation whose offset
/// depends on the date, or a zone written out with summer time (`est5edt4`).
pub fn is_known(name: &str) -> bool {
    known::is_time_zone(name)
        || written_out(name)
            // Whatever follows, but a sign or a comma, names the summer time.
            .is_some_and(|(_, rest)| {
                !rest.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | ','))
            })
}

/// Whether PostgreSQL takes a name as the zone of a session: an abbreviation is none.
pub fn is_zone(name: &str) -> bool {
    known::is_zone(name) || written_out(name).is_some() && is_known(name)
}

/// The start of a zone that is written out: seconds west of Greenwich, and what follows.
fn written_out(zone: &str) -> Option<(i32, &str)> {
    /// A week, less an hour.
    const MAX_HOURS: i32 = 167;
    let at = zone.find(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | ',')).filter(|at| *at > 0)?;
    let (sign, rest) = match zone[at..].strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, zone[at..].strip_prefix('+').unwrap_or(&zone[at..])),
    };
    fn number(text: &str, max: i32) -> Option<(i32, &str)> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let n = text[..digits].parse().ok().filter(|n| *n <= max)?;
        Some((n, &text[digits..]))
    }
    let (hours, mut rest) = number(rest, MAX_HOURS)?;
    let mut seconds = hours * 3600;
    if let Some(after) = rest.strip_prefix(':') {
        let minutes;
        (minutes, rest) = number(after, 59)?;
        seconds += minutes * 60;
        if let Some(after) = rest.strip_prefix(':') {
            let leap;
            (leap, rest) = number(after, 60)?;
            seconds += leap;
        }
    }
    Some((sign * seconds, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        assert!(ABBREVIATIONS.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(offset("utc"), Some(0));
        assert_eq!(offset("est"), Some(-18_000));
        assert_eq!(offset("etc/greenwich"), Some(0));
        assert_eq!(offset("etc/est"), None);
        assert_eq!(offset("nowhere"), None);
        assert!(is_known("europe/paris") && is_known("msk") && is_known("foo-3") && is_known("est5edt"));
        assert!(is_known("a0:00:00.015") && is_known("x00.015"));
        assert!(!is_known("nowhere") && !is_known("foo+") && !is_known("foo5+"));
        assert_eq!(offset("est5edt"), None);
        for (zone, east) in [
            ("a5", -5 * 3600),
            ("abc-3:30", 12600),
            ("a/b+1:0:60", -3660),
            ("e154", -154 * 3600),
            ("etc/gmt0", 0),
        ] {
            assert_eq!(offset(zone), Some(east), "{zone}");
        }
        for zone in ["a168", "abc1:60", "abc1:2:61", "abc1:", "a+-5", "5", "-5", "abc3x", "abc99999999999"] {
            assert_eq!(offset(zone), None, "{zone}");
        }
    }
}
