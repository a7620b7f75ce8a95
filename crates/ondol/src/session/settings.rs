//! A session's settings: what SET and SHOW know.
//!
//! - **T1** A setting is in [`TABLE`] or it is an error; there is none that is accepted and does nothing.
//!   Those with one possible value (`Kind::Fixed`) accept every spelling of that value and refuse the others.
//! - **T2** SET is transactional as in PostgreSQL: rolling back restores what was set, SET LOCAL lasts to the
//!   end of the transaction. Values are shared copy-on-write, so that remembering them at BEGIN costs one
//!   reference.
use ondol_types::datetime::zone;
use ondol_types::known::{self, SettingContext};
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::borrow::Cow;
use std::sync::Arc;

enum Kind {
    Bool,
    /// A time; milliseconds without a unit.
    Ms,
    /// A size of memory: kilobytes; blocks of 8 kB without a unit.
    Size,
    /// A number of threads.
    Threads,
    Choice(&'static [&'static str]),
    /// Any text.
    Text,
    /// Spellings (lower case) of the only value, which is the default; and whether PostgreSQL takes another.
    Fixed(&'static [&'static str], Elsewhere),
    ReadOnly,
}

/// Checks a value that is not supported: an error if PostgreSQL refuses it, too.
type Elsewhere = fn(&Setting, &str) -> SqlResult<()>;

struct Setting {
    name: &'static str,
    kind: Kind,
    default: &'static str,
    about: &'static str,
}

const ISOLATION: &[&str] = &["serializable", "repeatable read", "read committed", "read uncommitted"];

impl Setting {
    fn default(&self) -> Cow<'static, str> {
        match self.kind {
            Kind::Threads => threads().into(),
            _ => Cow::Borrowed(self.default),
        }
    }
}

const fn setting(name: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Setting {
    Setting { name, kind, default, about }
}

/// Settings that there are.
const COUNT: usize = 23;

/// By name, as PostgreSQL sorts SHOW ALL.
static TABLE: [Setting; COUNT] = [
    setting(
        "application_name",
        Kind::Text,
        "",
        "Sets the application name to be reported in statistics and logs.",
    ),
    setting(
        "bytea_output",
        Kind::Fixed(&["hex"], bytes_elsewhere),
        "hex",
        "Sets the output format for bytea.",
    ),
    setting("check_function_bodies", Kind::Bool, "on", "Check routine bodies during CREATE FUNCTION."),
    setting(
        "client_encoding",
        Kind::Fixed(&["utf8", "utf-8", "unicode"], encoding_elsewhere),
        "UTF8",
        "Sets the client's character set encoding.",
    ),
    setting(
        "client_min_messages",
        Kind::Choice(&[
            "debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error",
        ]),
        "notice",
        "Sets the message levels that are sent to the client.",
    ),
    setting(
        "DateStyle",
        Kind::Fixed(&["iso", "iso, mdy", "iso,mdy", "mdy", "mdy, iso", "mdy,iso"], style_elsewhere),
        "ISO, MDY",
        "Sets the display format for date and time values.",
    ),
    setting(
        "default_transaction_isolation",
        Kind::Choice(ISOLATION),
        "read committed",
        "Sets the transaction isolation level of each new transaction.",
    ),
    setting(
        "default_transaction_read_only",
        Kind::Bool,
        "off",
        "Sets the default read-only status of new transactions.",
    ),
    setting(
        "extra_float_digits",
        Kind::Fixed(&["1", "2", "3"], digits_elsewhere),
        "1",
        "Sets the number of digits displayed for floating-point values.",
    ),
    setting("lock_timeout", Kind::Ms, "0", "Sets the maximum allowed duration of any wait for a lock."),
    setting(
        "log_ring",
        Kind::ReadOnly,
        "off",
        "Shows the ring that the log is on, and what its commits survive.",
    ),
    setting(
        "max_parallel_workers_per_gather",
        Kind::Threads,
        "",
        "Sets the maximum number of parallel processes per executor node.",
    ),
    setting(
        "min_parallel_table_scan_size",
        Kind::Size,
        "8192",
        "Sets the minimum amount of table data for a parallel scan.",
    ),
    setting(
        "search_path",
        Kind::Fixed(&["public", "\"$user\", public", "\"$user\",public"], |_, _| Ok(())),
        "public",
        "Sets the schema search order for names that are not schema-qualified.",
    ),
    setting("server_encoding", Kind::ReadOnly, "UTF8", "Shows the server (database) character set encoding."),
    setting(
        "server_version",
        Kind::ReadOnly,
        concat!("15.0 (Ondol ", env!("CARGO_PKG_VERSION"), ")"),
        "Shows the server version.",
    ),
    setting("server_version_num", Kind::ReadOnly, "150000", "Shows the server version as an integer."),
    setting(
        "standard_conforming_strings",
        Kind::Fixed(&["on", "true", "yes", "1"], boolean_elsewhere),
        "on",
        "Causes '...' strings to treat backslashes literally.",
    ),
    setting("statement_timeout", Kind::Ms, "0", "Sets the maximum allowed duration of any statement."),
    setting(
        "synchronous_commit",
        Kind::Choice(&["local", "remote_write", "remote_apply", "on", "off"]),
        "on",
        "Sets the current transaction's synchronization level.",
    ),
    setting(
        "TimeZone",
        Kind::Fixed(&["utc", "etc/utc", "gmt", "z", "zulu", "0"], zone_elsewhere),
        "UTC",
        "Sets the time zone for displaying and interpreting time stamps.",
    ),
    setting(
        "transaction_isolation",
        Kind::Choice(ISOLATION),
        "read committed",
        "Sets the current transaction's isolation level.",
    ),
    setting("transaction_read_only", Kind::Bool, "off", "Sets the current transaction's read-only status."),
];

/// Those of the table's own texts are borrowed from it: few are ever others, and each transaction copies them
/// once.
type Values = Arc<[Cow<'static, str>; COUNT]>;

/// A copy, which shares the values, is a place to come back to.
#[derive(Clone)]
pub(crate) struct Settings {
    now: Values,
    /// As they are once the transaction is over (without SET LOCAL).
    lasting: Values,
}

/// The place of a setting; `change` if it is to be changed.
fn find(name: &str, change: bool) -> SqlResult<usize> {
    TABLE
        .iter()
        .position(|s| s.name.eq_ignore_ascii_case(name))
        .ok_or_else(|| if change { unchangeable(name) } else { missing(name) })
}

/// The error of a setting that is not here.
fn missing(name: &str) -> SqlError {
    match known::setting(name) {
        Some(_) => SqlError::unsupported(format_args!("setting \"{name}\"")),
        None => SqlError::new(
            sqlstate::UNDEFINED_OBJECT,
            format!("unrecognized configuration parameter \"{name}\""),
        ),
    }
}

/// The same, of one that is to be changed: PostgreSQL's settings cannot all be, and take names with a dot
/// besides.
fn unchangeable(name: &str) -> SqlError {
    let when = match known::setting(name) {
        Some(SettingContext::Internal) => "cannot be changed",
        Some(SettingContext::Postmaster) => "cannot be changed without restarting the server",
        Some(SettingContext::Sighup) => "cannot be changed now",
        Some(SettingContext::Backend) => "cannot be set after connection start",
        None if name.contains('.') => {
            let starts = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
            let word = |w: &str| {
                w.starts_with(starts) && w.chars().all(|c| starts(c) || c.is_ascii_digit() || c == '$')
            };
            return match name.split('.').all(word) {
                true => SqlError::unsupported(format_args!("custom setting \"{name}\"")),
                false => SqlError::new("42602", format!("invalid configuration parameter name \"{name}\""))
                    .detail(
                        "Custom parameter names must be two or more simple identifiers separated by dots.",
                    ),
            };
        }
        Some(SettingContext::User) | None => return missing(name),
    };
    SqlError::new("55P02", format!("parameter \"{name}\" {when}"))
}

fn bytes_elsewhere(s: &Setting, value: &str) -> SqlResult<()> {
    match value.eq_ignore_ascii_case("escape") {
        true => Ok(()),
        false => Err(invalid(s, value).hint("Available values: escape, hex.")),
    }
}

/// PostgreSQL compares names of encodings by their letters and digits.
fn encoding_elsewhere(s: &Setting, value: &str) -> SqlResult<()> {
    const FAMILIES: &[&str] = &[
        "alt", "big5", "euc", "gb18030", "gbk", "iso8859", "johab", "koi8", "latin", "mskanji", "mule",
        "shiftjis", "sjis", "sqlascii", "tcvn", "uhc", "vscii", "win", "abc",
    ];
    let name: String =
        value.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    match FAMILIES.iter().any(|f| name.starts_with(f)) {
        true => Ok(()),
        false => Err(invalid(s, value)),
    }
}

fn style_elsewhere(s: &Setting, value: &str) -> SqlResult<()> {
    for word in value.split(',').map(|w| w.trim().to_ascii_lowercase()) {
        let known = matches!(&*word, "iso" | "sql" | "ymd" | "dmy" | "mdy" | "us" | "default")
            || ["postgres", "german", "euro", "noneuro"].iter().any(|w| word.starts_with(w));
        if !known {
            return Err(invalid(s, value).detail(format!("Unrecognized key word: \"{word}\".")));
        }
    }
    Ok(())
}

fn digits_elsewhere(s: &Setting, value: &str) -> SqlResult<()> {
    match value.trim().parse::<i64>() {
        Ok(-15..=3) => Ok(()),
        Ok(n) => Err(SqlError::new(
            sqlstate::INVALID_PARAMETER_VALUE,
            format!("{n} is outside the valid range for parameter \"{}\" (-15 .. 3)", s.name),
        )),
        Err(_) => Err(invalid(s, value)),
    }
}

fn boolean_elsewhere(s: &Setting, value: &str) -> SqlResult<()> {
    boolean(value).map(|_| ()).ok_or_else(|| not_boolean(s))
}

fn not_boolean(s: &Setting) -> SqlError {
    SqlError::new(
        sqlstate::INVALID_PARAMETER_VALUE,
        format!("parameter \"{}\" requires a Boolean value", s.name),
    )
}

/// A zone may be a number of hours as well.
fn zone_elsewhere(s: &Setting, value: &str) -> SqlResult<()> {
    let name = value.to_ascii_lowercase();
    let hours = value.trim().starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+');
    match hours || zone::is_known(&name) || zone::offset(&name).is_some() {
        true => Ok(()),
        false => Err(invalid(s, value)),
    }
}

fn invalid(s: &Setting, value: &str) -> SqlError {
    SqlError::new(
        sqlstate::INVALID_PARAMETER_VALUE,
        format!("invalid value for parameter \"{}\": \"{value}\"", s.name),
    )
}

/// PostgreSQL's spellings of booleans in settings.
fn boolean(value: &str) -> Option<bool> {
    let v = value.to_ascii_lowercase();
    let prefix = |of: &str, least: usize| v.len() >= least && of.starts_with(&v);
    if v == "1" || prefix("true", 1) || prefix("yes", 1) || prefix("on", 2) {
        Some(true)
    } else if v == "0" || prefix("false", 1) || prefix("no", 1) || prefix("off", 2) {
        Some(false)
    } else {
        None
    }
}

/// Milliseconds of `10`, `10ms`, `2 s`, `1min`, `1h`, `1d`, `500us`.
fn milliseconds(value: &str) -> Option<u64> {
    let v = value.trim();
    let digits = v.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(v.len());
    let n: f64 = v[..digits].parse().ok()?;
    let unit = match v[digits..].trim() {
        "us" => 0.001,
        "ms" | "" => 1.0,
        "s" => 1000.0,
        "min" => 60_000.0,
        "h" => 3_600_000.0,
        "d" => 86_400_000.0,
        _ => return None,
    };
    let ms = (n * unit).round();
    (ms <= i32::MAX as f64).then_some(ms as u64)
}

/// Threads at most.
const MOST_THREADS: i64 = 1024;

/// The default: the cores, if there are several.
fn threads() -> String {
    let cores = ondol_base::thread::parallelism();
    if cores > 1 && cfg!(feature = "scan") { cores.min(MOST_THREADS as usize) } else { 0 }.to_string()
}

/// Kilobytes of `1024` (blocks), `512kB`, `8 MB`, `1GB`, `1TB`, `8192B`; in whole blocks.
fn kilobytes(value: &str) -> Option<u64> {
    let v = value.trim();
    let digits = v.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(v.len());
    let n: f64 = v[..digits].parse().ok()?;
    let blocks = match v[digits..].trim() {
        "" => n,
        "B" => n / 8192.0,
        "kB" => n / 8.0,
        "MB" => n * 128.0,
        "GB" => n * 131_072.0,
        "TB" => n * 134_217_728.0,
        _ => return None,
    }
    .round();
    (blocks <= 715_827_882.0).then_some(blocks as u64 * 8)
}

/// As PostgreSQL shows a size: in the largest unit that divides it.
fn show_kilobytes(kb: u64) -> String {
    for (unit, n) in [("TB", 1 << 30), ("GB", 1 << 20), ("MB", 1 << 10)] {
        if kb > 0 && kb.is_multiple_of(n) {
            return format!("{}{unit}", kb / n);
        }
    }
    if kb == 0 { "0".into() } else { format!("{kb}kB") }
}

/// As PostgreSQL shows a time: in the largest unit that divides it.
fn show_milliseconds(ms: u64) -> String {
    for (unit, n) in [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)] {
        if ms > 0 && ms.is_multiple_of(n) {
            return format!("{}{unit}", ms / n);
        }
    }
    if ms == 0 { "0".into() } else { format!("{ms}ms") }
}

impl Settings {
    /// `log_ring`: what is the same for all sessions of the database.
    pub fn new(log_ring: String) -> Settings {
        let mut log_ring = Some(log_ring);
        let values: Values = Arc::new(std::array::from_fn(|i| match TABLE[i].name {
            "log_ring" => log_ring.take().unwrap_or_default().into(),
            _ => TABLE[i].default(),
        }));
        Settings { now: values.clone(), lasting: values }
    }
    /// Sets everything as it was when the session began, except the mode of the running transaction.
    pub fn reset(&mut self) {
        let mut new = Settings::new(self.get("log_ring").to_string());
        for name in ["transaction_isolation", "transaction_read_only"] {
            new.set_for_transaction(name, self.get(name).to_string());
        }
        *self = new
    }

    /// The value as stored: times in milliseconds, booleans as on and off. For names in the table.
    pub fn get(&self, name: &'static str) -> &str {
        TABLE.iter().position(|s| s.name == name).map_or("", |i| &self.now[i])
    }
    pub fn is_on(&self, name: &'static str) -> bool {
        self.get(name) == "on"
    }
    pub fn ms(&self, name: &'static str) -> Option<std::time::Duration> {
        self.get(name).parse().ok().filter(|&n: &u64| n > 0).map(std::time::Duration::from_millis)
    }

    /// A number of threads, or of kilobytes.
    #[cfg(any(feature = "scan", test))]
    pub fn number(&self, name: &'static str) -> usize {
        self.get(name).parse().unwrap_or(0)
    }

    /// The value as SHOW gives it, with the setting's own spelling of its name.
    pub fn show(&self, name: &str) -> SqlResult<(&'static str, String)> {
        let i = find(name, false)?;
        Ok((TABLE[i].name, self.shown(i)))
    }
    fn shown(&self, i: usize) -> String {
        match TABLE[i].kind {
            Kind::Ms => show_milliseconds(self.now[i].parse().unwrap_or(0)),
            Kind::Size => show_kilobytes(self.now[i].parse().unwrap_or(0)),
            _ => self.now[i].to_string(),
        }
    }
    /// (name, value, description) of all settings.
    pub fn all(&self) -> Vec<(&'static str, String, &'static str)> {
        TABLE.iter().enumerate().map(|(i, s)| (s.name, self.shown(i), s.about)).collect()
    }

    /// Sets, or resets to the default (`None`); gives the setting's own name. `local`: until the end of
    /// the transaction.
    pub fn set(&mut self, name: &str, value: Option<&str>, local: bool) -> SqlResult<&'static str> {
        if name.eq_ignore_ascii_case("all") && value.is_none() {
            self.reset();
            return Ok("all");
        }
        let i = find(name, true)?;
        let s = &TABLE[i];
        let value = match (value, &s.kind) {
            (_, Kind::ReadOnly) => {
                return Err(SqlError::new("55P02", format!("parameter \"{}\" cannot be changed", s.name)));
            }
            (None, _) => s.default().into_owned(),
            (Some(v), Kind::Text) => v.to_string(),
            (Some(v), Kind::Bool) => match boolean(v) {
                Some(on) => if on { "on" } else { "off" }.to_string(),
                None => return Err(not_boolean(s)),
            },
            (Some(v), Kind::Ms) => milliseconds(v)
                .ok_or_else(|| match v.trim_start().starts_with(|c: char| c.is_ascii_digit()) {
                    true => invalid(s, v)
                        .hint("Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\"."),
                    false => invalid(s, v),
                })?
                .to_string(),
            (Some(v), Kind::Size) => kilobytes(v)
                .ok_or_else(|| {
                    invalid(s, v).hint(
                        "Valid units for this parameter are \"B\", \"kB\", \"MB\", \"GB\", and \"TB\".",
                    )
                })?
                .to_string(),
            (Some(v), Kind::Threads) => match v.trim().parse::<i64>() {
                Ok(n) if cfg!(not(feature = "scan")) && (1..=MOST_THREADS).contains(&n) => {
                    return Err(SqlError::unsupported(format!("{} = {n}", s.name))
                        .detail("This build is without cargo's feature \"scan\"."));
                }
                Ok(n) if (0..=MOST_THREADS).contains(&n) => n.to_string(),
                Ok(n) => {
                    return Err(SqlError::new(
                        sqlstate::INVALID_PARAMETER_VALUE,
                        format!("{n} is outside the valid range for parameter \"{}\" (0 .. {MOST_THREADS})", s.name),
                    ));
                }
                Err(_) => return Err(invalid(s, v)),
            },
            (Some(v), Kind::Choice(of)) => {
                let lower = v.to_ascii_lowercase();
                let given = match boolean(v) {
                    Some(b) if of.contains(&"on") => if b { "on" } else { "off" }.to_string(),
                    _ => lower,
                };
                if !of.contains(&given.as_str()) {
                    return Err(invalid(s, v).hint(format!("Available values: {}.", of.join(", "))));
                }
                given
            }
            (Some(v), Kind::Fixed(spellings, elsewhere)) => {
                if !spellings.contains(&v.to_ascii_lowercase().as_str()) {
                    elsewhere(s, v)?;
                    return Err(SqlError::unsupported(format_args!("{} other than {}", s.name, s.default))
                        .detail(format!("\"{v}\" was asked for.")));
                }
                s.default.to_string()
            }
        };
        if !local {
            Arc::make_mut(&mut self.lasting)[i] = value.clone().into();
        }
        Arc::make_mut(&mut self.now)[i] = value.into();
        Ok(s.name)
    }

    /// Sets for the running transaction what is not a user's SET (its isolation level, say).
    pub fn set_for_transaction(&mut self, name: &'static str, value: impl Into<Cow<'static, str>>) {
        let value = value.into();
        if let Some(i) = TABLE.iter().position(|s| s.name == name).filter(|&i| self.now[i] != value) {
            Arc::make_mut(&mut self.now)[i] = value;
        }
    }

    /// The transaction was committed: what was LOCAL ends.
    pub fn end_transaction(&mut self) {
        self.now = self.lasting.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_and_shown_as_postgresql_does() {
        let mut s = Settings::new("off".into());
        s.set("lock_timeout", Some("2000"), false).unwrap();
        assert_eq!(s.show("LOCK_TIMEOUT").unwrap(), ("lock_timeout", "2s".into()));
        assert_eq!(s.ms("lock_timeout"), Some(std::time::Duration::from_secs(2)));
        s.set("lock_timeout", Some("1500"), false).unwrap();
        assert_eq!(s.show("lock_timeout").unwrap().1, "1500ms");
        s.set("synchronous_commit", Some("false"), false).unwrap();
        assert_eq!(s.get("synchronous_commit"), "off");
        assert_eq!(s.set("nonesuch", Some("1"), false).unwrap_err().sqlstate(), "42704");
        assert_eq!(s.set("lock_timeout", Some("x"), false).unwrap_err().sqlstate(), "22023");
        assert_eq!(s.set("server_version", Some("x"), false).unwrap_err().sqlstate(), "55P02");
        assert_eq!(s.set("timezone", Some("Europe/Paris"), false).unwrap_err().sqlstate(), "0A000");
        assert_eq!(s.set("timezone", Some("utc"), false).unwrap(), "TimeZone");
        s.set("lock_timeout", None, false).unwrap();
        assert_eq!(s.show("lock_timeout").unwrap().1, "0");
        let size = "min_parallel_table_scan_size";
        assert_eq!((s.show(size).unwrap().1, s.number(size)), ("8MB".into(), 8192));
        for (given, shown) in
            [("0", "0"), ("1", "8kB"), ("1.5 MB", "1536kB"), ("2GB", "2GB"), ("9000B", "8kB")]
        {
            s.set(size, Some(given), false).unwrap();
            assert_eq!(s.show(size).unwrap().1, shown, "{given}");
        }
        assert_eq!(s.set(size, Some("1mb"), false).unwrap_err().sqlstate(), "22023");
        let threads = "max_parallel_workers_per_gather";
        let usual = s.number(threads);
        assert_ne!(usual, 1);
        s.set(threads, Some("3"), false).unwrap();
        assert_eq!((s.show(threads).unwrap().1, s.number(threads)), ("3".into(), 3));
        for bad in ["-1", "1025", "x", "1.5"] {
            assert_eq!(s.set(threads, Some(bad), false).unwrap_err().sqlstate(), "22023", "{bad}");
        }
        s.set(threads, None, false).unwrap();
        assert_eq!(s.number(threads), usual);
    }

    #[test]
    fn local_settings_and_rollback() {
        let mut s = Settings::new("off".into());
        let begin = s.clone();
        s.set("application_name", Some("a"), false).unwrap();
        s.set("application_name", Some("b"), true).unwrap();
        assert_eq!(s.get("application_name"), "b");
        s.end_transaction();
        assert_eq!(s.get("application_name"), "a");
        s = begin;
        assert_eq!(s.get("application_name"), "");
    }
}
