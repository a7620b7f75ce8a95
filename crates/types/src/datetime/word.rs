//! The words of dates and times, but for the zones' ([`super::zone`]).
//!
//! Source: PostgreSQL 15's documentation, appendix B.

/// What a number behind a label is: the fields of an old form (`y2001m02d04h10mm15s20`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Label {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    /// None of a date.
    Other,
}

/// The meaning of a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    Ignore,
    Month(i64),
    Weekday,
    Am,
    Pm,
    Ad,
    Bc,
    Now,
    /// Days from today.
    Day(i64),
    /// Midnight at Greenwich.
    Midnight,
    Epoch,
    Infinity,
    NegInfinity,
    /// The T of ISO 8601: a time follows.
    TimeMark,
    /// J: a Julian day follows.
    Julian,
    SummerTime,
    /// What the number that follows is.
    Label(Label),
}

/// What a word in lower case means in a date; `None` for others.
pub fn word(name: &str) -> Option<Word> {
    Some(match name {
        "at" | "on" => Word::Ignore,
        "jan" | "january" => Word::Month(1),
        "feb" | "february" => Word::Month(2),
        "mar" | "march" => Word::Month(3),
        "apr" | "april" => Word::Month(4),
        "may" => Word::Month(5),
        "jun" | "june" => Word::Month(6),
        "jul" | "july" => Word::Month(7),
        "aug" | "august" => Word::Month(8),
        "sep" | "sept" | "september" => Word::Month(9),
        "oct" | "october" => Word::Month(10),
        "nov" | "november" => Word::Month(11),
        "dec" | "december" => Word::Month(12),
        "mon" | "monday" | "tue" | "tues" | "tuesday" | "wed" | "weds" | "wednesday" | "thu" | "thur"
        | "thurs" | "thursday" | "fri" | "friday" | "sat" | "saturday" | "sun" | "sunday" => Word::Weekday,
        "am" => Word::Am,
        "pm" => Word::Pm,
        "ad" => Word::Ad,
        "bc" => Word::Bc,
        "now" => Word::Now,
        "yesterday" => Word::Day(-1),
        "today" => Word::Day(0),
        "tomorrow" => Word::Day(1),
        "allballs" => Word::Midnight,
        "epoch" => Word::Epoch,
        "infinity" => Word::Infinity,
        "-infinity" => Word::NegInfinity,
        "t" => Word::TimeMark,
        "j" | "jd" | "julian" => Word::Julian,
        "dst" => Word::SummerTime,
        "y" => Word::Label(Label::Year),
        "m" => Word::Label(Label::Month),
        "d" => Word::Label(Label::Day),
        "h" => Word::Label(Label::Hour),
        "mm" => Word::Label(Label::Minute),
        "s" => Word::Label(Label::Second),
        "dow" | "doy" | "isodow" | "isoyear" => Word::Label(Label::Other),
        _ => return None,
    })
}
