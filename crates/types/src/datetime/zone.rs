//! Time zones: those of the time zone database, those that are written out, and abbreviations.
//!
//! - **Z1** A [`Zone`] is one of the database's (`Europe/Paris`) or one that is written out: a name, the time
//!   west of Greenwich, and perhaps another name, for a summer time (`est5edt`, with the rules of the United
//!   States unless others are told). An abbreviation alone is none, but stands for an offset in a text.
//! - **Z2** A clock that is set forward leaves out times, and one that is set back shows times twice. What
//!   was left out is read as if the clock had not been set yet, what comes twice as if it had.
//! - **Z3** Most abbreviations are fixed offsets. Those of [`MOVING`] are what a zone meant by them: when
//!   they were last in use there, or, before that, first; one that the database has not there is that zone's
//!   time.
//! - **Z4** A zone is compared by its address: each is there once, and stays until the process ends. So there
//!   are not more than [`MOST`] that are written out.
//!
//! Sources: PostgreSQL 15's time zone abbreviation set "Default" and its answers; POSIX.1, Base Definitions
//! 8.3, variable TZ; IANA's time zone database, by the crate `tzdb_data`.

use super::{UNIX_EPOCH_DAYS, USECS_PER_SEC, check_timestamp, out_of_range, timestamp_is_finite};
use crate::{SqlError, SqlResult};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{LazyLock, Mutex, PoisonError};
use tz::timezone::TransitionRule;
use tz::{LocalTimeType, TimeZone, TimeZoneRef};

/// Which version of the time zone database is in use: `2025b`.
pub const VERSION: &str = tzdb_data::VERSION;
/// How many zones may be written out in a process.
const MOST: usize = 10_000;

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

/// Those of a summer time, in order.
const SUMMER: &[&str] = &[
    "acdt", "acsst", "adt", "aedt", "aesst", "akdt", "almst", "awsst", "azost", "bdst", "brst", "bst",
    "cadt", "cdt", "cest", "cetdst", "chadt", "clst", "edt", "eest", "eetdst", "egst", "fjst", "fnst", "idt",
    "kdt", "kgst", "mdt", "mest", "mesz", "metdst", "msd", "must", "ndt", "nzdt", "pdt", "pkst", "pmdt",
    "pyst", "sadt", "ulast", "uyst", "uzst", "wadt", "wdt", "wetdst", "wgst", "yekst",
];

/// Abbreviations whose offset depends on the moment, in order, and the zones that say so (Z3).
pub const MOVING: &[(&str, &str)] = &[
    ("amst", "Asia/Yerevan"),
    ("anast", "Asia/Anadyr"),
    ("anat", "Asia/Anadyr"),
    ("arst", "America/Argentina/Buenos_Aires"),
    ("art", "America/Argentina/Buenos_Aires"),
    ("azst", "Asia/Baku"),
    ("azt", "Asia/Baku"),
    ("ckt", "Pacific/Rarotonga"),
    ("clt", "America/Santiago"),
    ("davt", "Antarctica/Davis"),
    ("easst", "Pacific/Easter"),
    ("east", "Pacific/Easter"),
    ("fkst", "Atlantic/Stanley"),
    ("fkt", "Atlantic/Stanley"),
    ("gest", "Asia/Tbilisi"),
    ("get", "Asia/Tbilisi"),
    ("gyt", "America/Guyana"),
    ("iot", "Indian/Chagos"),
    ("irkst", "Asia/Irkutsk"),
    ("irkt", "Asia/Irkutsk"),
    ("kgt", "Asia/Bishkek"),
    ("kost", "Pacific/Kosrae"),
    ("krast", "Asia/Krasnoyarsk"),
    ("krat", "Asia/Krasnoyarsk"),
    ("lhdt", "Australia/Lord_Howe"),
    ("lint", "Pacific/Kiritimati"),
    ("lkt", "Asia/Colombo"),
    ("magst", "Asia/Magadan"),
    ("magt", "Asia/Magadan"),
    ("mawt", "Antarctica/Mawson"),
    ("msk", "Europe/Moscow"),
    ("novst", "Asia/Novosibirsk"),
    ("novt", "Asia/Novosibirsk"),
    ("nut", "Pacific/Niue"),
    ("omsst", "Asia/Omsk"),
    ("omst", "Asia/Omsk"),
    ("petst", "Asia/Kamchatka"),
    ("pett", "Asia/Kamchatka"),
    ("pyt", "America/Asuncion"),
    ("sgt", "Asia/Singapore"),
    ("tkt", "Pacific/Fakaofo"),
    ("tmt", "Asia/Ashgabat"),
    ("ulat", "Asia/Ulaanbaatar"),
    ("vet", "America/Caracas"),
    ("vlast", "Asia/Vladivostok"),
    ("vlat", "Asia/Vladivostok"),
    ("volt", "Europe/Volgograd"),
    ("yakst", "Asia/Yakutsk"),
    ("yakt", "Asia/Yakutsk"),
    ("yekt", "Asia/Yekaterinburg"),
];

/// One of the database's zones, or one that is written out.
#[derive(Clone, Copy)]
pub struct Zone(&'static Def);

struct Def {
    name: &'static str,
    rules: Rules,
}

enum Rules {
    /// Seconds east, and what the time is called.
    Fixed(i32, &'static str),
    Ruled(TimeZoneRef<'static>),
}

/// How a zone's clocks go at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clock {
    /// Seconds east of Greenwich.
    pub east: i32,
    pub is_summer: bool,
    pub abbreviation: &'static str,
}

static UTC: Def = Def { name: "UTC", rules: Rules::Fixed(0, "UTC") };

/// The database's, in order of their names without case.
static ZONES: LazyLock<Box<[Def]>> = LazyLock::new(|| {
    let zones = tzdb_data::TZ_NAMES.iter().copied().filter(|name| *name != UTC.name);
    let rules = |name: &str| tzdb_data::find_tz(name.as_bytes()).map(|z| Rules::Ruled(*z));
    let mut zones: Vec<Def> = zones.filter_map(|name| rules(name).map(|rules| Def { name, rules })).collect();
    zones.sort_by(|a, b| in_order(a.name, b.name));
    zones.into()
});

/// Those that were written out so far (Z4).
static WRITTEN: Mutex<Vec<&'static Def>> = Mutex::new(Vec::new());

fn in_order(a: &str, b: &str) -> std::cmp::Ordering {
    let lower = |b: u8| b.to_ascii_lowercase();
    a.bytes().map(lower).cmp(b.bytes().map(lower))
}

impl PartialEq for Zone {
    #[inline]
    fn eq(&self, other: &Zone) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}
impl Eq for Zone {}

impl Hash for Zone {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state)
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

/// Seconds from 1970-01-01 of a timestamp.
fn unix_seconds(t: i64) -> i64 {
    t.div_euclid(USECS_PER_SEC) + i64::from(UNIX_EPOCH_DAYS) * 86_400
}

impl Clock {
    fn of(kind: &'static LocalTimeType) -> Clock {
        Clock { east: kind.ut_offset(), is_summer: kind.is_dst(), abbreviation: kind.time_zone_designation() }
    }
}

/// What holds at a moment, in seconds from 1970-01-01.
fn rule_at(zone: &TimeZoneRef<'static>, seconds: i64) -> Clock {
    let types = zone.local_time_types();
    match zone.find_local_time_type(seconds) {
        Ok(kind) => Clock::of(kind),
        // After the last change, of a zone without rules for the future.
        Err(_) => {
            let last = zone.transitions().last().map_or(0, |t| t.local_time_type_index());
            Clock::of(&types[last.min(types.len() - 1)])
        }
    }
}

impl Zone {
    pub const UTC: Zone = Zone(&UTC);

    /// One of the database's, by its name in any case.
    pub fn named(name: &str) -> Option<Zone> {
        if name.eq_ignore_ascii_case(UTC.name) {
            return Some(Zone::UTC);
        }
        let at = ZONES.binary_search_by(|z| in_order(z.name, name)).ok()?;
        Some(Zone(&ZONES[at]))
    }

    /// All of the database's, in order of their names.
    pub fn all() -> impl Iterator<Item = Zone> {
        std::iter::once(Zone::UTC).chain(ZONES.iter().map(Zone))
    }

    /// What a session's zone may be: one of the database's, or written out (Z1). An error where too many were
    /// written out before.
    pub fn of_name(name: &str) -> SqlResult<Option<Zone>> {
        match Zone::named(name) {
            Some(zone) => Ok(Some(zone)),
            None => Zone::written_out(&name.to_ascii_uppercase()),
        }
    }

    /// One so many seconds east of Greenwich, by the name that PostgreSQL gives it: `<+05>-05`.
    pub fn of_offset(east: i32) -> SqlResult<Option<Zone>> {
        let (hours, rest) = (east.abs() / 3600, east.abs() % 3600);
        let mut digits = format!("{hours:02}");
        if rest != 0 {
            digits += &format!(":{:02}", rest / 60);
            if rest % 60 != 0 {
                digits += &format!(":{:02}", rest % 60)
            }
        }
        let (sign, turned) = if east < 0 { ('-', '+') } else { ('+', '-') };
        Zone::written_out(&format!("<{sign}{digits}>{turned}{digits}"))
    }

    fn written_out(name: &str) -> SqlResult<Option<Zone>> {
        let Some((shown, west, rest)) = written_out(name) else { return Ok(None) };
        let mut written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&def) = written.iter().find(|d| d.name == name) {
            return Ok(Some(Zone(def)));
        }
        if written.len() >= MOST {
            let message = format!("more than {MOST} time zones were written out");
            return Err(SqlError::new("54000", message).hint("Use the names of the time zone database."));
        }
        let keep = |text: &str| -> &'static str { Box::leak(text.into()) };
        let rules = match rest {
            "" => Rules::Fixed(-west, keep(shown)),
            _ => match with_summer(name) {
                Some(zone) => Rules::Ruled(zone),
                None => return Ok(None),
            },
        };
        let def: &'static Def = Box::leak(Box::new(Def { name: keep(name), rules }));
        written.push(def);
        Ok(Some(Zone(def)))
    }

    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Whether its clocks are never set.
    pub fn is_fixed(self) -> bool {
        matches!(self.0.rules, Rules::Fixed(..))
    }

    /// How its clocks go at a moment.
    pub fn at(self, t: i64) -> Clock {
        match &self.0.rules {
            Rules::Fixed(east, abbreviation) => Clock { east: *east, is_summer: false, abbreviation },
            Rules::Ruled(zone) => rule_at(zone, unix_seconds(t)),
        }
    }

    /// How its clocks go when they show a time (Z2).
    pub fn of_local(self, local: i64) -> Clock {
        let zone = match &self.0.rules {
            Rules::Fixed(..) => return self.at(local),
            Rules::Ruled(zone) => zone,
        };
        let shown = unix_seconds(local);
        let (before, after) = (rule_at(zone, shown - 86_400), rule_at(zone, shown + 86_400));
        let holds = |c: Clock| rule_at(zone, shown - i64::from(c.east)).east == c.east;
        match (holds(before), holds(after)) {
            _ if before.east == after.east => rule_at(zone, shown - i64::from(before.east)),
            (true, false) => before,
            (false, true) => after,
            _ if before.east < after.east => before,
            _ => after,
        }
    }

    /// What its clocks show at a moment; an infinite one stays. It may be a day past the last timestamp.
    #[inline]
    pub fn local(self, t: i64) -> i64 {
        if self == Zone::UTC || !timestamp_is_finite(t) {
            return t;
        }
        t + i64::from(self.at(t).east) * USECS_PER_SEC
    }

    /// The moment at which its clocks show a time; an infinite one stays.
    #[inline]
    pub fn moment(self, local: i64) -> SqlResult<i64> {
        if self == Zone::UTC || !timestamp_is_finite(local) {
            return Ok(local);
        }
        earlier(local, self.of_local(local).east)
    }
}

/// A timestamp so many seconds earlier.
pub(crate) fn earlier(t: i64, seconds: i32) -> SqlResult<i64> {
    let t = t.checked_sub(i64::from(seconds) * USECS_PER_SEC).and_then(check_timestamp);
    t.ok_or_else(|| out_of_range("timestamp"))
}

/// What a zone that stands in a text means.
#[derive(Clone, Copy)]
pub enum Place {
    /// Seconds east of Greenwich.
    Offset(i32),
    Zone(Zone),
    /// An abbreviation of a zone (Z3).
    Moving(&'static str, Zone),
}

impl From<Zone> for Place {
    fn from(zone: Zone) -> Place {
        Place::Zone(zone)
    }
}

impl Place {
    /// By an abbreviation, or by a zone's name, in lower case. A zone with a summer time that is written out
    /// may be refused, where too many were.
    pub fn of(name: &str) -> SqlResult<Option<Place>> {
        if let Ok(i) = ABBREVIATIONS.binary_search_by(|a| a.0.cmp(name)) {
            return Ok(Some(Place::Offset(ABBREVIATIONS[i].1)));
        }
        if let Ok(i) = MOVING.binary_search_by(|a| a.0.cmp(name)) {
            return Ok(Zone::named(MOVING[i].1).map(|zone| Place::Moving(MOVING[i].0, zone)));
        }
        if let Some(zone) = Zone::named(name) {
            return Ok(Some(Place::Zone(zone)));
        }
        match written_out(name) {
            Some((_, west, "")) => Ok(Some(Place::Offset(-west))),
            _ => Ok(Zone::written_out(&name.to_ascii_uppercase())?.map(Place::Zone)),
        }
    }

    /// Seconds east of Greenwich at a moment.
    pub fn at(self, t: i64) -> i32 {
        match self {
            Place::Offset(east) => east,
            Place::Zone(zone) => zone.at(t).east,
            Place::Moving(abbreviation, zone) => moving_at(abbreviation, zone, t),
        }
    }

    /// The same when the clocks there show a time.
    pub fn of_local(self, local: i64) -> i32 {
        match self {
            Place::Offset(east) => east,
            Place::Zone(zone) => zone.of_local(local).east,
            Place::Moving(abbreviation, zone) => {
                let east = zone.of_local(local).east;
                moving_at(abbreviation, zone, local.saturating_sub(i64::from(east) * USECS_PER_SEC))
            }
        }
    }

    /// The moment at which the clocks there show a time; an infinite one stays.
    pub fn moment(self, local: i64) -> SqlResult<i64> {
        if timestamp_is_finite(local) { earlier(local, self.of_local(local)) } else { Ok(local) }
    }

    /// What the clocks there show at a moment; an infinite one stays.
    pub fn local(self, t: i64) -> SqlResult<i64> {
        if timestamp_is_finite(t) { earlier(t, -self.at(t)) } else { Ok(t) }
    }
}

/// Z3
fn moving_at(abbreviation: &str, zone: Zone, t: i64) -> i32 {
    let Rules::Ruled(rules) = &zone.0.rules else { return zone.at(t).east };
    let is_it = |c: &Clock| c.abbreviation.eq_ignore_ascii_case(abbreviation);
    let now = zone.at(t);
    if is_it(&now) {
        return now.east;
    }
    let seconds = unix_seconds(t);
    let types = rules.local_time_types();
    let of = |index: usize| types.get(index).map(Clock::of).filter(is_it);
    let mut used = rules.transitions().iter().map(|c| (c.unix_leap_time(), of(c.local_time_type_index())));
    let first = std::iter::once((i64::MIN, of(0)));
    let mut last = None;
    for (since, clock) in first.chain(used.by_ref()) {
        match clock {
            Some(clock) if since <= seconds => last = Some(clock),
            Some(clock) if last.is_none() => return clock.east,
            _ => {}
        }
    }
    if last.is_none()
        && let Some(TransitionRule::Alternate(rule)) = rules.extra_rule()
    {
        last = [rule.std(), rule.dst()].into_iter().map(Clock::of).find(is_it)
    }
    last.unwrap_or(now).east
}

/// A zone that is written out, with a summer time.
fn with_summer(name: &str) -> Option<TimeZoneRef<'static>> {
    /// As in the United States.
    const RULES: &str = ",M3.2.0,M11.1.0";
    let no_files = tz::timezone::TimeZoneSettings::new(&[], |_| Err("".into()));
    let rules = if name.contains(',') { "" } else { RULES };
    let zone: TimeZone = no_files.parse_posix_tz(&format!("{name}{rules}")).ok()?;
    Some(Box::leak(Box::new(zone)).as_ref())
}

/// The start of a zone that is written out: its name, seconds west of Greenwich, and what follows.
fn written_out(zone: &str) -> Option<(&str, i32, &str)> {
    /// A week, less an hour.
    const MAX_HOURS: i32 = 167;
    let (name, rest) = match zone.strip_prefix('<') {
        Some(quoted) => quoted.split_once('>')?,
        None => {
            let at = zone.find(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | ','))?;
            // Without a name it is written out, too: `+02:00` is west of Greenwich.
            zone.split_at(at)
        }
    };
    let (sign, rest) = match rest.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, rest.strip_prefix('+').unwrap_or(rest)),
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
    Some((name, sign * seconds, rest))
}

/// Whether an abbreviation is of a summer time, at a moment.
pub fn is_summer(abbreviation: &str, place: Place, t: i64) -> bool {
    match place {
        Place::Moving(_, zone) => zone.at(t).is_summer,
        _ => SUMMER.binary_search(&abbreviation).is_ok(),
    }
}

/// All abbreviations in order, with the zones that say what the moving ones are.
pub fn abbreviations() -> impl Iterator<Item = (&'static str, Place)> {
    let fixed = ABBREVIATIONS.iter().map(|(name, east)| (*name, Place::Offset(*east)));
    let moving = MOVING
        .iter()
        .filter_map(|(name, zone)| Zone::named(zone).map(|zone| (*name, Place::Moving(name, zone))));
    fixed.chain(moving)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datetime::{parse_timestamp, word};
    use crate::func::Context;

    fn at(text: &str) -> i64 {
        parse_timestamp(text, &Context::EMPTY).unwrap()
    }

    fn place(name: &str) -> Option<Place> {
        Place::of(name).unwrap()
    }

    #[test]
    fn the_tables_are_in_order() {
        assert!(ABBREVIATIONS.is_sorted_by(|a, b| a.0 < b.0));
        assert!(MOVING.is_sorted_by(|a, b| a.0 < b.0));
        assert!(SUMMER.is_sorted_by(|a, b| a < b));
        for (name, _) in abbreviations() {
            assert_eq!(word::word(name), None, "{name}");
        }
        assert!(MOVING.iter().all(|m| Zone::named(m.1).is_some()));
        assert!(Zone::all().count() > 550);
        for zone in Zone::all() {
            assert_eq!(Zone::named(&zone.name().to_lowercase()), Some(zone));
        }
    }

    #[test]
    fn zones_are_written_out() {
        for (zone, east) in [
            ("a5", -5 * 3600),
            ("abc-3:30", 12600),
            ("a/b+1:0:60", -3660),
            ("e154", -154 * 3600),
            ("<+05>-05", 5 * 3600),
            ("5", -5 * 3600),
            ("-05:30", 19800),
        ] {
            let Some(Place::Offset(found)) = place(zone) else { panic!("{zone}") };
            assert_eq!(found, east, "{zone}");
            let session = Zone::of_name(zone).unwrap().unwrap();
            assert_eq!((session.at(0).east, session.name()), (east, &*zone.to_uppercase()));
            assert_eq!(Zone::of_name(zone).unwrap(), Some(session));
        }
        for zone in
            ["a168", "abc1:60", "abc1:2:61", "abc1:", "a+-5", "168", "5:", "nowhere", "foo+", "+", ",", ""]
        {
            assert!(place(zone).is_none(), "{zone}");
        }
        assert!(Zone::of_name("est").unwrap().is_some() && Zone::of_name("msk").unwrap().is_none());
        let summer = Zone::of_name("abc3def").unwrap().unwrap();
        assert_eq!((summer.at(at("2020-01-15")).east, summer.at(at("2020-07-15")).east), (-10800, -7200));
        assert_eq!(Zone::of_offset(-30600).unwrap().unwrap().name(), "<-08:30>+08:30");
        assert_eq!(Zone::of_offset(200 * 3600).unwrap(), None);
    }

    /// PostgreSQL 15's answers (Z2).
    #[test]
    fn clocks_that_are_set_are_read_as_in_postgresql() {
        for (zone, shown, moment) in [
            ("Europe/Paris", "2024-03-31 02:30:00", "2024-03-31 01:30:00"),
            ("Europe/Paris", "2024-10-27 02:30:00", "2024-10-27 01:30:00"),
            ("Europe/Paris", "2024-10-27 01:59:59", "2024-10-26 23:59:59"),
            ("America/New_York", "2024-03-10 02:30:00", "2024-03-10 07:30:00"),
            ("America/New_York", "2024-11-03 01:30:00", "2024-11-03 06:30:00"),
            ("Europe/Moscow", "2014-10-26 01:30:00", "2014-10-25 22:30:00"),
            ("Europe/Moscow", "2011-03-27 02:00:00", "2011-03-26 23:00:00"),
            ("Australia/Lord_Howe", "2024-04-07 01:45:00", "2024-04-06 15:15:00"),
            ("Europe/Paris", "1800-01-01 00:00:00", "1799-12-31 23:50:39"),
            ("Europe/Paris", "9999-07-01 12:00:00", "9999-07-01 10:00:00"),
            ("Asia/Kolkata", "2500-07-01 12:00:00", "2500-07-01 06:30:00"),
        ] {
            let z = Zone::named(zone).unwrap();
            assert_eq!(z.moment(at(shown)), Ok(at(moment)), "{zone} {shown}");
        }
    }

    /// What a zone's clocks show for a moment is read as that moment, but where they show it twice.
    #[test]
    fn what_clocks_show_is_what_they_are_read_as() {
        for zone in Zone::all() {
            for week in -40_000..12_000 {
                let t = week * 7 * 86_400 * USECS_PER_SEC / 4;
                let back = zone.moment(zone.local(t)).unwrap();
                assert!(back == t || zone.local(back) == zone.local(t), "{zone:?} {t}");
            }
        }
    }

    /// PostgreSQL 15's answers (Z3).
    #[test]
    fn abbreviations_move() {
        for (name, moment, east) in [
            ("msk", "2010-07-01", 3 * 3600),
            ("msk", "2012-07-01", 4 * 3600),
            ("msk", "2015-07-01", 3 * 3600),
        ] {
            assert_eq!(place(name).unwrap().at(at(moment)), east, "{name} {moment}");
        }
    }
}
