//! Computing with intervals, and with timestamps and intervals.
//!
//! Months are added to a timestamp first, then days, then microseconds, and the timestamp must be in its
//! range after each. A day that the month has not becomes the month's last. What leaves the range of its
//! number is an error (22008), also where PostgreSQL's numbers come round.

use super::{DAYS_PER_MONTH, Interval, MONTHS_PER_YEAR};
use crate::datetime::{
    EPOCH_JULIAN, USECS_PER_DAY, USECS_PER_SEC, check_timestamp, civil_from_days, days_from_civil,
    days_in_month, out_of_range, split, timestamp_is_finite, zone::Zone,
};
use crate::func::division_by_zero;
use crate::{SqlError, SqlResult, sqlstate};

const SECONDS_PER_DAY: f64 = 86_400.0;
/// The years that a timestamp may have, and some more.
const YEARS: std::ops::Range<i64> = -4800..300_000;

fn too_far() -> SqlError {
    out_of_range("interval")
}

fn overflow(message: &str) -> SqlError {
    SqlError::new(sqlstate::DATETIME_FIELD_OVERFLOW, message)
}

impl Interval {
    pub fn checked_neg(self) -> SqlResult<Interval> {
        let negated = || {
            Some(Interval {
                months: self.months.checked_neg()?,
                days: self.days.checked_neg()?,
                micros: self.micros.checked_neg()?,
            })
        };
        negated().ok_or_else(too_far)
    }

    pub fn checked_add(self, other: Interval) -> SqlResult<Interval> {
        let sum = || {
            Some(Interval {
                months: self.months.checked_add(other.months)?,
                days: self.days.checked_add(other.days)?,
                micros: self.micros.checked_add(other.micros)?,
            })
        };
        sum().ok_or_else(too_far)
    }

    pub fn checked_sub(self, other: Interval) -> SqlResult<Interval> {
        let difference = || {
            Some(Interval {
                months: self.months.checked_sub(other.months)?,
                days: self.days.checked_sub(other.days)?,
                micros: self.micros.checked_sub(other.micros)?,
            })
        };
        difference().ok_or_else(too_far)
    }

    pub fn times(self, factor: f64) -> SqlResult<Interval> {
        self.each(|n| n * factor)
    }

    pub fn divided_by(self, divisor: f64) -> SqlResult<Interval> {
        if divisor == 0.0 {
            return Err(division_by_zero());
        }
        self.each(|n| n / divisor)
    }

    /// Takes each number to another. What this leaves of a month is given to the days, what is left of a day
    /// to the microseconds.
    fn each(self, to: impl Fn(f64) -> f64) -> SqlResult<Interval> {
        let (exact_months, exact_days) = (to(self.months.into()), to(self.days.into()));
        let (months, mut days) = (whole(exact_months)?, whole(exact_days)?);
        let days_of_months = rounded((exact_months - f64::from(months)) * f64::from(DAYS_PER_MONTH));
        let part_of_day = exact_days - f64::from(days) + days_of_months - days_of_months.trunc();
        let mut seconds = rounded(part_of_day * SECONDS_PER_DAY);
        if seconds.abs() >= SECONDS_PER_DAY {
            let more = (seconds / SECONDS_PER_DAY).trunc();
            days = days.checked_add(more as i32).ok_or_else(too_far)?;
            seconds -= more * SECONDS_PER_DAY;
        }
        days = days.checked_add(days_of_months as i32).ok_or_else(too_far)?;
        let micros = (to(self.micros as f64) + seconds * USECS_PER_SEC as f64).round_ties_even();
        // NaN is in no range.
        const LIMIT: f64 = 9_223_372_036_854_775_808.0;
        if !(-LIMIT..LIMIT).contains(&micros) {
            return Err(too_far());
        }
        Ok(Interval { months, days, micros: micros as i64 })
    }

    /// Whole days of the microseconds become days; then both have one sign.
    pub fn justify_hours(mut self) -> SqlResult<Interval> {
        self.carry_micros()?;
        self.same_sign_below_days();
        Ok(self)
    }

    /// Each thirty days become a month; then both have one sign.
    pub fn justify_days(mut self) -> SqlResult<Interval> {
        self.carry_days()?;
        if self.months > 0 && self.days < 0 {
            self.months -= 1;
            self.days += DAYS_PER_MONTH;
        } else if self.months < 0 && self.days > 0 {
            self.months += 1;
            self.days -= DAYS_PER_MONTH;
        }
        Ok(self)
    }

    /// Both, with one sign in all.
    pub fn justify(mut self) -> SqlResult<Interval> {
        // Days that would grow are carried before, lest they leave their range in between.
        if self.days > 0 && self.micros > 0 || self.days < 0 && self.micros < 0 {
            self.carry_days()?;
        }
        self.carry_micros()?;
        self.carry_days()?;
        if self.months > 0 && (self.days < 0 || self.days == 0 && self.micros < 0) {
            self.months -= 1;
            self.days += DAYS_PER_MONTH;
        } else if self.months < 0 && (self.days > 0 || self.days == 0 && self.micros > 0) {
            self.months += 1;
            self.days -= DAYS_PER_MONTH;
        }
        self.same_sign_below_days();
        Ok(self)
    }

    fn carry_micros(&mut self) -> SqlResult<()> {
        let days = (self.micros / USECS_PER_DAY) as i32;
        self.micros %= USECS_PER_DAY;
        self.days = self.days.checked_add(days).ok_or_else(too_far)?;
        Ok(())
    }

    fn carry_days(&mut self) -> SqlResult<()> {
        let months = self.days / DAYS_PER_MONTH;
        self.days %= DAYS_PER_MONTH;
        self.months = self.months.checked_add(months).ok_or_else(too_far)?;
        Ok(())
    }

    fn same_sign_below_days(&mut self) {
        if self.days > 0 && self.micros < 0 {
            self.days -= 1;
            self.micros += USECS_PER_DAY;
        } else if self.days < 0 && self.micros > 0 {
            self.days += 1;
            self.micros -= USECS_PER_DAY;
        }
    }

    /// An interval of so many years, months, weeks, days, hours and minutes, and seconds.
    pub fn make([years, months, weeks, days, hours, minutes]: [i32; 6], seconds: f64) -> SqlResult<Interval> {
        let micros = (seconds * USECS_PER_SEC as f64).round_ties_even();
        let made = || {
            if micros.is_nan() || micros.abs() >= 9.3e18 {
                return None;
            }
            let minutes = i64::from(hours) * 60 + i64::from(minutes);
            Some(Interval {
                months: years.checked_mul(MONTHS_PER_YEAR)?.checked_add(months)?,
                days: weeks.checked_mul(7)?.checked_add(days)?,
                micros: (minutes * 60 * USECS_PER_SEC).checked_add(micros as i64)?,
            })
        };
        made().ok_or_else(too_far)
    }
}

/// The whole part of a number, if it is in range; NaN is not.
fn whole(f: f64) -> SqlResult<i32> {
    if f >= f64::from(i32::MIN) && f <= f64::from(i32::MAX) { Ok(f as i32) } else { Err(too_far()) }
}

/// To six decimals.
fn rounded(f: f64) -> f64 {
    (f * 1e6).round_ties_even() / 1e6
}

/// A timestamp some time later. Of a timestamptz, months and days are those of a zone's calendar.
pub fn timestamp_plus(t: i64, i: Interval, zone: Zone) -> SqlResult<i64> {
    moved(t, i.months.into(), i.days.into(), i.micros.into(), zone)
}

/// A timestamp some time earlier, as [`timestamp_plus`] is later.
pub fn timestamp_minus(t: i64, i: Interval, zone: Zone) -> SqlResult<i64> {
    moved(t, -i64::from(i.months), -i64::from(i.days), -i128::from(i.micros), zone)
}

fn moved(t: i64, months: i64, days: i64, micros: i128, zone: Zone) -> SqlResult<i64> {
    if !timestamp_is_finite(t) {
        return Ok(t);
    }
    let moved = || {
        let mut t = t;
        if months != 0 {
            let (day, of_day) = split(zone.local(t));
            let (year, month, day) = civil_from_days(day);
            let months = i64::from(year) * 12 + i64::from(month) - 1 + months;
            let (year, month) = (months.div_euclid(12), months.rem_euclid(12) as u32 + 1);
            let year = Some(year).filter(|y| YEARS.contains(y))? as i32;
            let day = days_from_civil(year, month, day.min(days_in_month(year, month)));
            t = zone.moment(on_day(day.into(), of_day)?).ok()?;
        }
        if days != 0 {
            let (day, of_day) = split(zone.local(t));
            t = zone.moment(on_day(i64::from(day) + days, of_day)?).ok()?;
        }
        i64::try_from(i128::from(t) + micros).ok().and_then(check_timestamp)
    };
    moved().ok_or_else(|| out_of_range("timestamp"))
}

fn on_day(day: i64, micros: i64) -> Option<i64> {
    day.checked_mul(USECS_PER_DAY)?.checked_add(micros).and_then(check_timestamp)
}

/// The days and microseconds from `b` to `a`.
pub fn difference(a: i64, b: i64) -> SqlResult<Interval> {
    if !timestamp_is_finite(a) || !timestamp_is_finite(b) {
        return Err(overflow("cannot subtract infinite timestamps"));
    }
    let micros = a.checked_sub(b).ok_or_else(too_far)?;
    Interval { months: 0, days: 0, micros }.justify_hours()
}

/// The years, months, days and microseconds from `b` to `a`, as the calendar has them. A month that was begun
/// has the length of the earlier timestamp's.
pub fn age(a: i64, b: i64) -> SqlResult<Interval> {
    let (later, earlier) = (a.max(b), a.min(b));
    // Infinity is a moment after the last timestamp here, as in PostgreSQL, and what is before the first is
    // none.
    if earlier < -i64::from(EPOCH_JULIAN) * USECS_PER_DAY {
        return Err(out_of_range("timestamp"));
    }
    let ((later, later_micros), (earlier, earlier_micros)) = (split(later), split(earlier));
    let ((year, month, day), (year_before, month_before, day_before)) =
        (civil_from_days(later), civil_from_days(earlier));
    let mut months = (year - year_before) * MONTHS_PER_YEAR + month as i32 - month_before as i32;
    let mut days = day as i32 - day_before as i32;
    let mut micros = later_micros - earlier_micros;
    if micros < 0 {
        micros += USECS_PER_DAY;
        days -= 1;
    }
    while days < 0 {
        days += days_in_month(year_before, month_before) as i32;
        months -= 1;
    }
    let age = Interval { months, days, micros };
    if a < b { age.checked_neg() } else { Ok(age) }
}

/// The last moment that is not after `t` and any number of strides from the origin.
pub fn date_bin(stride: Interval, t: i64, origin: i64) -> SqlResult<i64> {
    if !timestamp_is_finite(t) {
        return Ok(t);
    }
    if !timestamp_is_finite(origin) {
        return Err(overflow("origin out of range"));
    }
    if stride.months != 0 {
        let message = "timestamps cannot be binned into intervals containing months or years";
        return Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message));
    }
    let days = i64::from(stride.days).checked_mul(USECS_PER_DAY);
    let stride = days.and_then(|d| d.checked_add(stride.micros)).ok_or_else(too_far)?;
    if stride <= 0 {
        return Err(overflow("stride must be greater than zero"));
    }
    let since = t.checked_sub(origin).ok_or_else(too_far)?;
    let start = t.checked_sub(since.rem_euclid(stride)).and_then(check_timestamp);
    start.ok_or_else(|| out_of_range("timestamp"))
}
