//! The settings that there are, as data: PostgreSQL's (`ondol_types::known`) and the one of our own, each
//! with what is done about it.
use super::number::{self, Unit};
use ondol_types::catalog::interval;
use ondol_types::datetime::zone::Zone;
use ondol_types::known::{self, KnownSetting, SettingContext, SettingKind};
use ondol_types::style::Styles;
use ondol_types::{SqlError, SqlResult, name, sqlstate};
use std::borrow::Cow;
use std::sync::LazyLock;

/// Threads at most.
const MOST_THREADS: i64 = 1024;

/// What is done about the value that a setting is given, once it is one of its kind's.
#[derive(Clone, Copy)]
enum Rule {
    /// It is obeyed.
    Obeyed,
    /// Only what is done anyway can be asked for.
    Fixed,
    /// It is obeyed if it is the server that is told it; in sessions it is [`Rule::Fixed`].
    Served,
    /// It is about the client, and obeyed in sessions that have one; in others it is [`Rule::Fixed`].
    Client,
    /// It is made the setting's value, by what that is so far, or refused.
    Own(fn(&Setting, &str, &str) -> SqlResult<String>),
}

/// What is done about those that a session may change; of all others it is nothing ([`Rule::Fixed`]).
const RULES: &[(&str, Rule)] = &[
    ("application_name", Rule::Obeyed),
    ("authentication_timeout", Rule::Served),
    ("bytea_output", Rule::Obeyed),
    ("check_function_bodies", Rule::Obeyed),
    ("client_encoding", Rule::Own(encoding)),
    ("client_min_messages", Rule::Obeyed),
    ("datestyle", Rule::Own(date_style)),
    ("default_transaction_deferrable", Rule::Obeyed),
    ("default_transaction_isolation", Rule::Obeyed),
    ("default_transaction_read_only", Rule::Obeyed),
    // Strings that are not escaped have no escapes to warn of.
    ("enable_hashjoin", Rule::Obeyed),
    ("enable_indexscan", Rule::Obeyed),
    ("enable_nestloop", Rule::Obeyed),
    ("enable_seqscan", Rule::Obeyed),
    ("enable_sort", Rule::Obeyed),
    ("escape_string_warning", Rule::Obeyed),
    ("extra_float_digits", Rule::Obeyed),
    ("idle_in_transaction_session_timeout", Rule::Client),
    ("idle_session_timeout", Rule::Client),
    ("intervalstyle", Rule::Obeyed),
    ("lock_timeout", Rule::Obeyed),
    ("log_connections", Rule::Served),
    ("log_destination", Rule::Own(log_destination)),
    ("log_disconnections", Rule::Served),
    ("log_min_duration_statement", Rule::Served),
    ("log_min_error_statement", Rule::Served),
    ("log_min_messages", Rule::Own(log_messages)),
    ("max_connections", Rule::Served),
    ("max_parallel_workers_per_gather", Rule::Own(threads_given)),
    ("min_parallel_table_scan_size", Rule::Obeyed),
    ("role", Rule::Own(role)),
    // There are no policies that it could switch off.
    ("row_security", Rule::Obeyed),
    ("search_path", Rule::Own(search_path)),
    ("session_authorization", Rule::Own(role)),
    ("statement_timeout", Rule::Obeyed),
    ("superuser_reserved_connections", Rule::Served),
    ("synchronous_commit", Rule::Obeyed),
    ("timezone", Rule::Own(time_zone)),
    ("transaction_deferrable", Rule::Obeyed),
    ("transaction_isolation", Rule::Obeyed),
    ("transaction_read_only", Rule::Obeyed),
];

/// Ways of planning and running that are not there: whether they may be taken or not, they are not. And two
/// that are the only ones: turned off they are taken all the same, as in PostgreSQL.
const NOT_THERE: &[&str] = &[
    "enable_async_append",
    "enable_bitmapscan",
    "enable_gathermerge",
    "enable_hashagg",
    "enable_incremental_sort",
    "enable_indexonlyscan",
    "enable_material",
    "enable_memoize",
    "enable_mergejoin",
    "enable_parallel_append",
    "enable_parallel_hash",
    "enable_partition_pruning",
    "enable_partitionwise_aggregate",
    "enable_partitionwise_join",
    "enable_tidscan",
    "geqo",
    "jit",
    "synchronize_seqscans",
];

/// Settings that are known and have no effect: what PostgreSQL's planner takes something to cost, how far it
/// looks for plans, how much memory an operator may take before it goes to a disk (none does here), how its
/// workers, its vacuum and its compiler go about it. No answer depends on any of them, in PostgreSQL neither.
const WITHOUT_EFFECT: &[&str] = &[
    "backend_flush_after",
    "constraint_exclusion",
    "cpu_index_tuple_cost",
    "cpu_operator_cost",
    "cpu_tuple_cost",
    "cursor_tuple_fraction",
    "default_statistics_target",
    "effective_cache_size",
    "effective_io_concurrency",
    "force_parallel_mode",
    "from_collapse_limit",
    "geqo_effort",
    "geqo_generations",
    "geqo_pool_size",
    "geqo_seed",
    "geqo_selection_bias",
    "geqo_threshold",
    "gin_pending_list_limit",
    "hash_mem_multiplier",
    "jit_above_cost",
    "jit_expressions",
    "jit_inline_above_cost",
    "jit_optimize_above_cost",
    "jit_tuple_deforming",
    "join_collapse_limit",
    "maintenance_io_concurrency",
    "maintenance_work_mem",
    "max_parallel_maintenance_workers",
    "min_parallel_index_scan_size",
    "parallel_leader_participation",
    "parallel_setup_cost",
    "parallel_tuple_cost",
    "plan_cache_mode",
    "random_page_cost",
    "recursive_worktable_factor",
    "seq_page_cost",
    "temp_buffers",
    "vacuum_cost_delay",
    "vacuum_cost_limit",
    "vacuum_cost_page_dirty",
    "vacuum_cost_page_hit",
    "vacuum_cost_page_miss",
    "work_mem",
];

/// What a session finds where PostgreSQL's server would say something else.
const DEFAULTS: &[(&str, &str)] = &[
    ("server_version", concat!("15.0 (Ondol ", env!("CARGO_PKG_VERSION"), ")")),
    ("server_version_num", "150000"),
    ("session_authorization", ondol_engine::name::USER),
    // Nobody connects over the network, and nothing runs besides.
    ("autovacuum", "off"),
    // Errors, which may have values in them, are logged where that is asked for.
    ("log_min_messages", "fatal"),
    // Nor is any value of a parameter written to the log.
    ("log_parameter_max_length", "0"),
    ("log_parameter_max_length_on_error", "0"),
    ("max_parallel_workers", "1024"),
    ("sort_mem", "4096"),
    ("vacuum_mem", "65536"),
];

/// Settings that PostgreSQL has not.
const OWN: &[KnownSetting] = &[KnownSetting {
    name: "log_ring",
    kind: SettingKind::Text,
    unit: "",
    context: SettingContext::Internal,
    context_name: "internal",
    category: "Preset Options",
    least: "",
    most: "",
    choices: "",
    default: "off",
    about: "Shows the ring that the log is on, and what its commits survive.",
    more: "",
}];

pub(super) struct Setting {
    pub known: KnownSetting,
    /// The name in lower case, by which it is found.
    pub key: String,
    pub default: Cow<'static, str>,
    pub unit: Unit,
    rule: Rule,
}

/// In the order of their names without regard to case, as PostgreSQL sorts SHOW ALL.
static TABLE: LazyLock<Vec<Setting>> = LazyLock::new(|| {
    let mut table: Vec<Setting> = known::settings().chain(OWN.iter().copied()).map(Setting::new).collect();
    table.sort_by(|a, b| a.key.cmp(&b.key));
    table
});

pub(super) fn all() -> &'static [Setting] {
    &TABLE
}

/// The place of a setting, by its name in lower case.
pub(super) fn place(key: &str) -> Option<usize> {
    TABLE.binary_search_by(|s| s.key.as_str().cmp(key)).ok()
}

impl Setting {
    fn new(known: KnownSetting) -> Setting {
        let key = known.name.to_ascii_lowercase();
        let rule = match NOT_THERE.contains(&&*key) || WITHOUT_EFFECT.contains(&&*key) {
            true => Rule::Obeyed,
            false => RULES.iter().find(|r| r.0 == key).map_or(Rule::Fixed, |r| r.1),
        };
        let default = match key.as_str() {
            "max_parallel_workers_per_gather" => threads().into(),
            _ => DEFAULTS.iter().find(|d| d.0 == key).map_or(known.default, |d| d.1).into(),
        };
        Setting { unit: Unit::of(known.unit), known, key, default, rule }
    }

    /// Not for SHOW ALL.
    pub fn is_hidden(&self) -> bool {
        self.known.category.is_empty()
    }

    /// Whether a session can give it another value.
    pub fn changes(&self) -> bool {
        self.known.context == SettingContext::User
            && !self.is_served()
            && !matches!(self.rule, Rule::Fixed | Rule::Client)
    }

    pub fn choices(&self) -> Vec<&'static str> {
        self.known.choices.split(',').filter(|c| !c.is_empty()).collect()
    }

    /// A value as SHOW gives it.
    pub fn shown(&self, value: &str) -> String {
        match self.known.kind {
            SettingKind::Integer => {
                value.parse().map_or_else(|_| value.into(), |n| number::show_integer(n, self.unit))
            }
            SettingKind::Real => {
                value.parse().map_or_else(|_| value.into(), |n| number::show_real(n, self.unit))
            }
            _ => value.to_string(),
        }
    }

    /// Whether a session may change it; `name` is what the statement calls it.
    pub fn may_change(&self, name: &str) -> SqlResult<()> {
        let when = match self.known.context {
            SettingContext::Internal => "cannot be changed",
            SettingContext::Postmaster => "cannot be changed without restarting the server",
            SettingContext::Sighup => "cannot be changed now",
            SettingContext::Backend => "cannot be set after connection start",
            SettingContext::User => return Ok(()),
        };
        Err(SqlError::new("55P02", format!("parameter \"{name}\" {when}")))
    }

    /// The value that a text is, where the setting has the value `now`; `name` is what the statement calls
    /// it.
    pub fn value(&self, name: &str, given: &str, now: &str) -> SqlResult<String> {
        let invalid = || invalid(name, given);
        let value = match self.known.kind {
            SettingKind::Bool => {
                let on = boolean(given).ok_or_else(|| {
                    let message = format!("parameter \"{name}\" requires a Boolean value");
                    SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, message)
                })?;
                if on { "on" } else { "off" }.to_string()
            }
            SettingKind::Integer => {
                let n = number::integer(given, self.unit).map_err(|hint| hinted(invalid(), hint))?;
                let (least, most) = self.range();
                if n < least as i64 || n > most as i64 {
                    return Err(self.outside(name, &n.to_string()));
                }
                n.to_string()
            }
            SettingKind::Real => {
                let n = number::real(given, self.unit).map_err(|hint| hinted(invalid(), hint))?;
                let (least, most) = self.range();
                if !(least..=most).contains(&n) {
                    return Err(self.outside(name, &number::show(n)));
                }
                number::show(n)
            }
            SettingKind::Choice => self
                .choice(given)
                .ok_or_else(|| invalid().hint(format!("Available values: {}.", self.choices().join(", "))))?,
            SettingKind::Text => given.to_string(),
        };
        match self.rule {
            Rule::Obeyed | Rule::Served | Rule::Client => Ok(value),
            Rule::Own(rule) => rule(self, &value, now),
            Rule::Fixed if value == self.default => Ok(value),
            Rule::Fixed => Err(self.unsupported(given, &self.default)),
        }
    }

    fn choice(&self, given: &str) -> Option<String> {
        let lower = given.to_ascii_lowercase();
        let choices = self.choices();
        let word = match lower.as_str() {
            "true" | "yes" | "1" if choices.contains(&"on") => "on",
            "false" | "no" | "0" if choices.contains(&"off") => "off",
            "debug" if choices.contains(&"debug2") => "debug2",
            word => choices.into_iter().find(|c| *c == word)?,
        };
        Some(word.to_string())
    }

    fn range(&self) -> (f64, f64) {
        if self.key == "max_parallel_workers_per_gather" {
            return (0.0, MOST_THREADS as f64);
        }
        (self.known.least.parse().unwrap_or(f64::MIN), self.known.most.parse().unwrap_or(f64::MAX))
    }

    fn outside(&self, name: &str, n: &str) -> SqlError {
        let unit = if self.known.unit.is_empty() { String::new() } else { format!(" {}", self.known.unit) };
        let (least, most) = match self.key.as_str() {
            "max_parallel_workers_per_gather" => ("0".into(), MOST_THREADS.to_string()),
            _ => (self.known.least.to_string(), self.known.most.to_string()),
        };
        SqlError::new(
            sqlstate::INVALID_PARAMETER_VALUE,
            format!("{n}{unit} is outside the valid range for parameter \"{name}\" ({least} .. {most})"),
        )
    }

    /// Whether sessions cannot give it another value.
    pub fn is_served(&self) -> bool {
        matches!(self.rule, Rule::Served) || self.key == "log_min_messages" || self.key == "log_destination"
    }
    /// Whether it has no effect on a session without a client.
    pub fn needs_client(&self) -> bool {
        matches!(self.rule, Rule::Client)
    }
    /// It is one session's, and nothing that others begin with.
    pub fn is_of_session(&self) -> bool {
        matches!(self.key.as_str(), "role" | "session_authorization") || self.key.starts_with("transaction_")
    }
    /// The error of another value than the one that it has.
    pub fn unsupported(&self, given: &str, has: &str) -> SqlError {
        SqlError::unsupported(match has.is_empty() {
            true => format!("a value of {}", self.known.name),
            false => format!("{} other than {}", self.known.name, self.shown(has)),
        })
        .detail(format!("\"{given}\" was asked for."))
    }

    /// An error of a value that the setting itself finds wrong.
    fn invalid(&self, given: &str) -> SqlError {
        invalid(self.known.name, given)
    }
}

fn invalid(name: &str, given: &str) -> SqlError {
    SqlError::new(
        sqlstate::INVALID_PARAMETER_VALUE,
        format!("invalid value for parameter \"{name}\": \"{given}\""),
    )
}

fn hinted(error: SqlError, hint: Option<&'static str>) -> SqlError {
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
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

/// The default: the cores, if there are several.
fn threads() -> String {
    let cores = ondol_base::thread::parallelism();
    if cores > 1 && cfg!(feature = "scan") { cores.min(MOST_THREADS as usize) } else { 0 }.to_string()
}

fn threads_given(s: &Setting, value: &str, _: &str) -> SqlResult<String> {
    match cfg!(not(feature = "scan")) && value != "0" {
        true => Err(SqlError::unsupported(format!("{} = {value}", s.known.name))
            .detail("This build is without cargo's feature \"scan\".")),
        false => Ok(value.to_string()),
    }
}

/// Everything goes to standard error, as text or as JSON.
fn log_destination(s: &Setting, value: &str, _: &str) -> SqlResult<String> {
    match value {
        "stderr" | "jsonlog" => Ok(value.to_string()),
        "csvlog" | "syslog" | "eventlog" => Err(s.unsupported(value, &s.default)),
        _ => Err(s.invalid(value).detail("Expected stderr or jsonlog.")),
    }
}

/// Errors of statements are logged, or are not; who was not let in always is. What is less grave than an
/// error is nobody's but the client's.
fn log_messages(s: &Setting, value: &str, now: &str) -> SqlResult<String> {
    match value {
        "error" | "fatal" => Ok(value.to_string()),
        _ => Err(s.unsupported(value, now)),
    }
}

/// PostgreSQL compares names of encodings by their letters and digits.
fn encoding(s: &Setting, value: &str, _: &str) -> SqlResult<String> {
    const FAMILIES: &[&str] = &[
        "alt", "big5", "euc", "gb18030", "gbk", "iso8859", "johab", "koi8", "latin", "mskanji", "mule",
        "shiftjis", "sjis", "sqlascii", "tcvn", "uhc", "vscii", "win", "abc",
    ];
    let name: String =
        value.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    if matches!(name.as_str(), "utf8" | "unicode") {
        return Ok(s.default.to_string());
    }
    Err(match FAMILIES.iter().any(|f| name.starts_with(f)) {
        true => s.unsupported(value, &s.default),
        false => s.invalid(value),
    })
}

/// What the value does not tell stays.
fn date_style(s: &Setting, value: &str, now: &str) -> SqlResult<String> {
    let mut styles = Styles::USUAL;
    let _ = styles.set_date_style(now);
    match styles.set_date_style(value) {
        Ok(()) => Ok(styles.to_string()),
        Err(detail) => Err(s.invalid(value).detail(detail)),
    }
}

fn search_path(s: &Setting, value: &str, _: &str) -> SqlResult<String> {
    match name::list(value) {
        Some(_) => Ok(value.to_string()),
        None => Err(s.invalid(value).detail("List syntax is invalid.")),
    }
}

/// There is one user.
fn role(s: &Setting, value: &str, _: &str) -> SqlResult<String> {
    match value == ondol_engine::name::USER || s.key == "role" && value == "none" {
        true => Ok(value.to_string()),
        false => {
            Err(SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, format!("role \"{value}\" does not exist")))
        }
    }
}

/// What a session's clocks show where the setting says so.
pub(super) fn zone(value: &str) -> Zone {
    Zone::of_name(value).ok().flatten().unwrap_or(Zone::UTC)
}

/// A zone may be a number of hours, or an interval, as well.
fn time_zone(s: &Setting, value: &str, _: &str) -> SqlResult<String> {
    let text = value.trim();
    let is_interval = text.get(..8).is_some_and(|word| word.eq_ignore_ascii_case("interval"));
    let zone = if is_interval {
        let quoted = text[8..].trim().strip_prefix('\'').and_then(|t| t.strip_suffix('\''));
        let (months, days, micros) = interval::parts(quoted.ok_or_else(|| s.invalid(value))?)?;
        if months != 0 || days != 0 {
            let unit = if months != 0 { "months" } else { "days" };
            return Err(s.invalid(value).detail(format!("Cannot specify {unit} in time zone interval.")));
        }
        Zone::of_offset((micros / 1_000_000).try_into().unwrap_or(i32::MAX))?
    } else {
        match text.parse::<f64>() {
            Ok(hours) => Zone::of_offset((hours * 3600.0) as i32)?,
            Err(_) => Zone::of_name(text)?,
        }
    };
    let far = || match text.parse::<f64>() {
        Ok(_) => s.invalid(value).detail("UTC timezone offset is out of range."),
        Err(_) => s.invalid(value),
    };
    zone.map(|zone| zone.name().to_string()).ok_or_else(far)
}
