//! How a session reads and shows values of some types: what its settings DateStyle, IntervalStyle, TimeZone,
//! extra_float_digits and bytea_output say.
//!
//! - **S1** [`Styles::USUAL`] is PostgreSQL's default, and what all text that is stored, logged or moved is
//!   written and read in: [`crate::text::output`] knows no other. [`crate::text::styled`] is for what a user
//!   sees.
//! - **S2** What is written in a style is read back to an equal value in the same, but for floats that are
//!   shown with fewer digits than they have.

use crate::datetime::zone::Zone;
use std::fmt;

/// The order of year, month and day, where a date is not in ISO's form.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum DateOrder {
    #[default]
    Mdy,
    Dmy,
    Ymd,
}

/// What dates and timestamps look like.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DateStyle {
    Iso,
    Sql,
    Postgres,
    German,
}

/// What intervals look like.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IntervalStyle {
    Postgres,
    PostgresVerbose,
    SqlStandard,
    Iso,
}

impl IntervalStyle {
    /// By the setting's word.
    pub fn of_word(word: &str) -> Option<IntervalStyle> {
        Some(match word {
            "postgres" => IntervalStyle::Postgres,
            "postgres_verbose" => IntervalStyle::PostgresVerbose,
            "sql_standard" => IntervalStyle::SqlStandard,
            "iso_8601" => IntervalStyle::Iso,
            _ => return None,
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Styles {
    pub date: DateStyle,
    pub order: DateOrder,
    pub interval: IntervalStyle,
    pub zone: Zone,
    /// Digits that a float is shown with beside its type's own; above zero as many as it needs.
    pub float_digits: i8,
    /// Bytes are shown as characters, with escapes.
    pub escape_bytes: bool,
}

impl Styles {
    pub const USUAL: Styles = Styles {
        date: DateStyle::Iso,
        order: DateOrder::Mdy,
        interval: IntervalStyle::Postgres,
        zone: Zone::UTC,
        float_digits: 1,
        escape_bytes: false,
    };

    #[inline]
    pub fn is_usual(&self) -> bool {
        *self == Styles::USUAL
    }

    /// The same with all that does not change what a text is read as.
    pub fn of_reading(self) -> Styles {
        let interval = match self.interval {
            IntervalStyle::SqlStandard => IntervalStyle::SqlStandard,
            _ => IntervalStyle::Postgres,
        };
        Styles { order: self.order, interval, zone: self.zone, ..Styles::USUAL }
    }

    /// What a text of JSON depends on of them, as a text: dates are in ISO 8601's form there.
    pub(crate) fn written(&self) -> String {
        let interval = match self.interval {
            IntervalStyle::Postgres => "postgres",
            IntervalStyle::PostgresVerbose => "postgres_verbose",
            IntervalStyle::SqlStandard => "sql_standard",
            IntervalStyle::Iso => "iso_8601",
        };
        format!("{interval} {} {} {}", self.float_digits, self.escape_bytes, self.zone.name())
    }

    /// Those that such a text tells of.
    pub(crate) fn of_written(text: &str) -> Styles {
        let mut words = text.splitn(4, ' ');
        let mut next = || words.next().unwrap_or_default();
        let (interval, digits, escape, zone) = (next(), next(), next(), next());
        Styles {
            interval: IntervalStyle::of_word(interval).unwrap_or(IntervalStyle::Postgres),
            float_digits: digits.parse().unwrap_or(1),
            escape_bytes: escape == "true",
            zone: Zone::of_name(zone).ok().flatten().unwrap_or(Zone::UTC),
            ..Styles::USUAL
        }
    }

    /// Changes what a value of DateStyle says (`sql, dmy`). The error is PostgreSQL's detail.
    pub fn set_date_style(&mut self, value: &str) -> Result<(), String> {
        let (mut date, mut order) = (Told::default(), Told::default());
        for word in value.split(',').map(str::trim).filter(|_| !value.trim().is_empty()) {
            let fits = match word.to_ascii_lowercase().as_str() {
                "iso" => date.tell(DateStyle::Iso),
                "sql" => date.tell(DateStyle::Sql),
                w if w.starts_with("postgres") => date.tell(DateStyle::Postgres),
                "german" => {
                    order.suggest(DateOrder::Dmy);
                    date.tell(DateStyle::German)
                }
                "ymd" => order.tell(DateOrder::Ymd),
                w if w == "dmy" || w.starts_with("euro") => order.tell(DateOrder::Dmy),
                w if w == "mdy" || w == "us" || w.starts_with("noneuro") => order.tell(DateOrder::Mdy),
                "default" => {
                    date.suggest(DateStyle::Iso);
                    order.suggest(DateOrder::Mdy);
                    true
                }
                "" => return Err("List syntax is invalid.".into()),
                _ => return Err(format!("Unrecognized key word: \"{word}\".")),
            };
            if !fits {
                return Err("Conflicting \"datestyle\" specifications.".into());
            }
        }
        self.date = date.value.unwrap_or(self.date);
        self.order = order.value.unwrap_or(self.order);
        Ok(())
    }
}

/// One of the two parts of DateStyle, as it was told so far, or suggested.
#[derive(Clone, Copy)]
struct Told<T> {
    value: Option<T>,
    told: bool,
}

impl<T> Default for Told<T> {
    fn default() -> Self {
        Told { value: None, told: false }
    }
}

impl<T: Copy + PartialEq> Told<T> {
    /// False if another was told before.
    fn tell(&mut self, new: T) -> bool {
        let fits = !self.told || self.value == Some(new);
        *self = Told { value: Some(new), told: true };
        fits
    }
    /// Unless one was told.
    fn suggest(&mut self, new: T) {
        if !self.told {
            self.value = Some(new)
        }
    }
}

/// As SHOW gives DateStyle.
impl fmt::Display for Styles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let date = match self.date {
            DateStyle::Iso => "ISO",
            DateStyle::Sql => "SQL",
            DateStyle::Postgres => "Postgres",
            DateStyle::German => "German",
        };
        let order = match self.order {
            DateOrder::Mdy => "MDY",
            DateOrder::Dmy => "DMY",
            DateOrder::Ymd => "YMD",
        };
        write!(f, "{date}, {order}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::func::Context;
    use crate::{Type, TypeId, text};

    fn shown(written: &str, id: TypeId, styles: &Styles) -> String {
        let value = text::input(written, Type::new(id), &Context::EMPTY).expect("a value");
        let mut out = String::new();
        text::styled(value.as_ref(&mut Vec::new()), Type::new(id), styles, &mut out);
        out
    }

    #[test]
    fn date_styles_are_told_as_to_postgresql() {
        for (given, shown) in [
            ("", "ISO, MDY"),
            ("german", "German, DMY"),
            ("german, mdy", "German, MDY"),
            ("mdy, german", "German, MDY"),
            ("sql, sql, dmy", "SQL, DMY"),
            ("European", "ISO, DMY"),
            ("POSTGRESQL,ymd", "Postgres, YMD"),
            ("sql, default", "SQL, MDY"),
            ("default, sql", "SQL, MDY"),
        ] {
            let mut styles = Styles::USUAL;
            styles.set_date_style(given).unwrap();
            assert_eq!(styles.to_string(), shown, "{given}");
        }
        for given in ["iso, sql", "dmy, mdy", "germany", "foo", "iso,,mdy"] {
            assert!(Styles::USUAL.clone().set_date_style(given).is_err(), "{given}");
        }
    }

    /// PostgreSQL 15's answers.
    #[test]
    fn values_look_as_in_postgresql() {
        let of = |date, order| Styles { date, order, ..Styles::USUAL };
        use DateOrder::*;
        use DateStyle::*;
        for (styles, date, moment) in [
            (of(Iso, Dmy), "2020-02-01", "2020-02-01 03:04:05.6+00"),
            (of(Sql, Mdy), "02/01/2020", "02/01/2020 03:04:05.6 UTC"),
            (of(Sql, Dmy), "01/02/2020", "01/02/2020 03:04:05.6 UTC"),
            (of(Sql, Ymd), "02/01/2020", "02/01/2020 03:04:05.6 UTC"),
            (of(German, Dmy), "01.02.2020", "01.02.2020 03:04:05.6 UTC"),
            (of(Postgres, Mdy), "02-01-2020", "Sat Feb 01 03:04:05.6 2020 UTC"),
            (of(Postgres, Dmy), "01-02-2020", "Sat 01 Feb 03:04:05.6 2020 UTC"),
        ] {
            assert_eq!(shown("2020-02-01", TypeId::DATE, &styles), date);
            assert_eq!(shown("2020-02-01 03:04:05.6+00", TypeId::TIMESTAMPTZ, &styles), moment);
        }
        let postgres = of(Postgres, Mdy);
        assert_eq!(shown("0044-03-15 BC", TypeId::DATE, &postgres), "03-15-0044 BC");
        let bc = shown("0044-03-15 12:00 BC", TypeId::TIMESTAMP, &postgres);
        assert_eq!(bc, "Fri Mar 15 12:00:00 0044 BC");
        assert_eq!(shown("-infinity", TypeId::TIMESTAMP, &postgres), "-infinity");
        let of = |float_digits, escape_bytes| Styles { float_digits, escape_bytes, ..Styles::USUAL };
        assert_eq!(shown("0.1", TypeId::FLOAT8, &of(0, false)), "0.1");
        assert_eq!(shown("123456.789012345678", TypeId::FLOAT8, &of(-5, false)), "123456.789");
        assert_eq!(shown("1e20", TypeId::FLOAT8, &of(-5, false)), "1e+20");
        assert_eq!(shown("-0", TypeId::FLOAT8, &of(-15, false)), "-0");
        assert_eq!(shown("1234.5678", TypeId::FLOAT4, &of(-2, false)), "1235");
        assert_eq!(shown("\\x00415c7f", TypeId::BYTEA, &of(1, true)), "\\000A\\\\\\177");
        let arrays = Styles { date: Postgres, ..Styles::USUAL };
        assert_eq!(shown("{2020-02-01,NULL}", TypeId::DATE.of_arrays(), &arrays), "{02-01-2020,NULL}");
    }

    /// PostgreSQL 15's answers.
    #[test]
    fn intervals_look_as_in_postgresql() {
        use IntervalStyle::*;
        for (written, verbose, standard, iso) in [
            ("0", "@ 0", "0", "PT0S"),
            ("1 year 2 mons", "@ 1 year 2 mons", "1-2", "P1Y2M"),
            ("-1 year -2 mons", "@ 1 year 2 mons ago", "-1-2", "P-1Y-2M"),
            ("3 days 04:05:06.7", "@ 3 days 4 hours 5 mins 6.7 secs", "3 4:05:06.7", "P3DT4H5M6.7S"),
            ("-00:00:01", "@ 1 sec ago", "-0:00:01", "PT-1S"),
            ("1 mon -1 day", "@ 1 mon -1 days", "+0-1 -1 +0:00:00", "P1M-1D"),
            ("1 year 1 day 00:00:01", "@ 1 year 1 day 1 sec", "+1-0 +1 +0:00:01", "P1Y1DT1S"),
            ("-1 days +02:03:00", "@ 1 day -2 hours -3 mins ago", "+0-0 -1 +2:03:00", "P-1DT2H3M"),
        ] {
            for (interval, expected) in [(PostgresVerbose, verbose), (SqlStandard, standard), (Iso, iso)] {
                let styles = Styles { interval, ..Styles::USUAL };
                assert_eq!(shown(written, TypeId::INTERVAL, &styles), expected, "{written}");
            }
        }
    }
}
