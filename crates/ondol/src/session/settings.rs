//! A session's settings: what SET and SHOW know.
//!
//! - **T1** All settings of PostgreSQL's are known ([`table`]). One that a session may change is obeyed, or
//!   takes no other value than what is done anyway (0A000); the others have a value, and PostgreSQL's error
//!   for whoever would change them. Those that no answer depends on, since they are about how PostgreSQL goes
//!   about it (`table::WITHOUT_EFFECT`), are known, and nothing more. Names with a dot are the users' own:
//!   they hold a text.
//! - **T2** SET is transactional as in PostgreSQL: rolling back restores what was set, SET LOCAL lasts to the
//!   end of the transaction. Values are shared copy-on-write, so that remembering them at BEGIN costs one
//!   reference. A name with a dot that was made in a transaction stays when that is rolled back, and is
//!   empty.
//! - **T3** The mode of the running transaction lies beside them: a transaction that sets nothing leaves the
//!   same values, and nothing that follows from them is made again.
use ondol_sql::level::IsolationLevel;
use ondol_types::style::{IntervalStyle, Styles};
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::borrow::Cow;
use std::sync::{Arc, LazyLock};
use table::Setting;

mod number;
mod table;

/// The values that are not the defaults.
#[derive(Clone, Default)]
struct Values {
    /// By the places of settings.
    known: Vec<(usize, Cow<'static, str>)>,
    /// Those with a dot, by their names as they were first given.
    custom: Vec<(Arc<str>, String)>,
}

impl Values {
    fn of(&self, place: usize) -> Option<&str> {
        self.known.iter().find(|v| v.0 == place).map(|v| &*v.1)
    }
    fn put(&mut self, place: usize, value: Option<Cow<'static, str>>) {
        self.known.retain(|v| v.0 != place);
        self.known.extend(value.map(|v| (place, v)))
    }
    fn custom(&self, name: &str) -> Option<&(Arc<str>, String)> {
        self.custom.iter().find(|v| v.0.eq_ignore_ascii_case(name))
    }
    fn put_custom(&mut self, name: &str, value: String) {
        match self.custom.iter_mut().find(|v| v.0.eq_ignore_ascii_case(name)) {
            Some(v) => v.1 = value,
            None => self.custom.push((name.into(), value)),
        }
    }
}

/// The settings that are the running transaction's.
#[derive(Clone, Copy)]
struct Mode {
    isolation: IsolationLevel,
    read_only: bool,
    deferrable: bool,
}

/// What a transaction is that says nothing else.
const USUAL_MODE: Mode =
    Mode { isolation: IsolationLevel::ReadCommitted, read_only: false, deferrable: false };

/// Where the settings are that a transaction or a statement looks at.
struct Places {
    path: usize,
    isolation: usize,
    read_only: usize,
    deferrable: usize,
    role: usize,
    authorization: usize,
}
static PLACES: LazyLock<Places> = LazyLock::new(|| {
    let of = |name| table::place(name).unwrap_or(usize::MAX);
    Places {
        path: of("search_path"),
        isolation: of("transaction_isolation"),
        read_only: of("transaction_read_only"),
        deferrable: of("transaction_deferrable"),
        role: of("role"),
        authorization: of("session_authorization"),
    }
});

/// A copy, which shares the values, is a place to come back to.
#[derive(Clone)]
pub(crate) struct Settings {
    mode: Mode,
    /// What a session begins with, where that is not PostgreSQL's default: what its database tells.
    base: Arc<Values>,
    now: Arc<Values>,
    /// As they are once the transaction is over (without SET LOCAL).
    lasting: Arc<Values>,
    /// They are those of a server.
    has_client: bool,
    /// Where what a session begins with was said, by the places of settings; by default nowhere.
    sources: Arc<Vec<(usize, &'static str)>>,
}

/// A setting as the view `pg_settings` has it, beside what is the same for all: nothing comes from a file,
/// and nothing waits for a restart.
#[allow(dead_code)] // not all of it is shown yet
pub(crate) struct SettingRow<'a> {
    pub name: &'static str,
    /// In the setting's own unit.
    pub setting: &'a str,
    pub unit: Option<&'static str>,
    pub category: &'static str,
    pub short_desc: &'static str,
    pub extra_desc: Option<&'static str>,
    pub context: &'static str,
    pub vartype: &'static str,
    pub source: &'static str,
    pub min_val: Option<&'static str>,
    pub max_val: Option<&'static str>,
    pub enumvals: Option<Vec<&'static str>>,
    pub boot_val: &'a str,
    pub reset_val: &'a str,
    /// As SHOW gives it.
    pub shown: String,
    /// A session can give it another value.
    pub changes: bool,
}

fn missing(name: &str) -> SqlError {
    SqlError::new(sqlstate::UNDEFINED_OBJECT, format!("unrecognized configuration parameter \"{name}\""))
}

fn word(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// Whether a name with a dot can be a setting's.
fn check_custom(name: &str) -> SqlResult<()> {
    let starts = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
    let word =
        |w: &str| w.starts_with(starts) && w.chars().all(|c| starts(c) || c.is_ascii_digit() || c == '$');
    match name.split('.').all(word) {
        true => Ok(()),
        false => Err(SqlError::new("42602", format!("invalid configuration parameter name \"{name}\""))
            .detail("Custom parameter names must be two or more simple identifiers separated by dots.")),
    }
}

impl Settings {
    /// `log_ring`: what is the same for all sessions of the database.
    pub fn new(log_ring: String) -> Settings {
        let mut base = Values::default();
        if let Some(place) = table::place("log_ring") {
            base.put(place, Some(log_ring.into()))
        }
        let none: Arc<Values> = Arc::default();
        Settings {
            mode: USUAL_MODE,
            base: Arc::new(base),
            now: none.clone(),
            lasting: none,
            has_client: false,
            sources: Arc::default(),
        }
    }

    /// Sets everything as it was when the session began, except the mode of the running transaction. Names
    /// with a dot become empty.
    pub fn reset(&mut self) {
        let mut new = Values::default();
        // Who the session is stays.
        for place in [PLACES.authorization, PLACES.role] {
            new.put(place, self.now.of(place).map(|v| Cow::Owned(v.to_string())))
        }
        new.custom.extend(self.now.custom.iter().map(|v| (v.0.clone(), String::new())));
        let new = Arc::new(new);
        *self = Settings { now: new.clone(), lasting: new, ..self.clone() }
    }

    /// The numbers of the roles that SET SESSION AUTHORIZATION and SET ROLE have set.
    pub fn roles(&self) -> (Option<u32>, Option<u32>) {
        let number = |place| self.value(place).split_once(':').and_then(|v| v.0.parse().ok());
        (number(PLACES.authorization), number(PLACES.role))
    }

    /// Sets the session's role, or else the one that it runs statements as; each is a number and a name. The
    /// former sets the latter back.
    pub fn set_role(&mut self, name: &str, value: Option<String>, local: bool) {
        let is_role = name == "role";
        let place = if is_role { PLACES.role } else { PLACES.authorization };
        for values in self.changing(local) {
            let values = Arc::make_mut(values);
            values.put(place, value.clone().map(Cow::Owned));
            if !is_role {
                values.put(PLACES.role, None)
            }
        }
    }

    /// The session was opened as that role.
    pub fn set_authenticated(&mut self, role: u32, name: &str) {
        let mut base = (*self.base).clone();
        base.put(PLACES.authorization, Some(format!("{role}:{name}").into()));
        self.base = Arc::new(base)
    }

    /// Goes back to a place that was remembered. Whether values are others now.
    pub fn go_back(&mut self, mark: &Settings) -> bool {
        let before = std::mem::replace(self, mark.clone());
        for (name, _) in before.now.custom.iter() {
            for values in [&mut self.now, &mut self.lasting] {
                if values.custom(name).is_none() {
                    Arc::make_mut(values).put_custom(name, String::new())
                }
            }
        }
        !Arc::ptr_eq(&self.now, &before.now)
    }

    fn at(&self, place: usize) -> &str {
        match place {
            _ if place == PLACES.isolation => self.mode.isolation.name(),
            _ if place == PLACES.read_only => word(self.mode.read_only),
            _ if place == PLACES.deferrable => word(self.mode.deferrable),
            // The number before the name is nobody's business (identity/I1).
            _ if place == PLACES.role || place == PLACES.authorization => {
                let value = self.value(place);
                value.split_once(':').map_or(value, |v| v.1)
            }
            _ => self.value(place),
        }
    }
    fn value(&self, place: usize) -> &str {
        self.now.of(place).unwrap_or_else(|| self.first(place))
    }
    /// What the session began with.
    fn first(&self, place: usize) -> &str {
        self.base.of(place).unwrap_or(&table::all()[place].default)
    }
    fn shown_first(&self, place: usize) -> &str {
        let value = self.first(place);
        match place == PLACES.authorization {
            true => value.split_once(':').map_or(value, |v| v.1),
            false => value,
        }
    }

    /// The value as stored: times in milliseconds, booleans as on and off. For names in the table, in lower
    /// case.
    pub fn get(&self, name: &'static str) -> &str {
        table::place(name).map_or("", |place| self.at(place))
    }
    /// The setting that each statement is planned by.
    #[inline]
    pub fn search_path(&self) -> &str {
        self.value(PLACES.path)
    }
    pub fn is_on(&self, name: &'static str) -> bool {
        self.get(name) == "on"
    }
    pub fn ms(&self, name: &'static str) -> Option<std::time::Duration> {
        self.get(name).parse().ok().filter(|&n: &u64| n > 0).map(std::time::Duration::from_millis)
    }

    /// A number, in the setting's own unit.
    #[cfg(any(feature = "scan", feature = "server", test))]
    pub fn number(&self, name: &'static str) -> usize {
        self.get(name).parse().unwrap_or(0)
    }

    /// How values are read and shown.
    pub fn styles(&self) -> Styles {
        let mut styles = Styles::USUAL;
        // What is set was looked at then.
        let _ = styles.set_date_style(self.get("datestyle"));
        styles.interval = IntervalStyle::of_word(self.get("intervalstyle")).unwrap_or(styles.interval);
        styles.zone = table::zone(self.get("timezone"));
        styles.float_digits = self.get("extra_float_digits").parse().unwrap_or(1).min(1);
        styles.escape_bytes = self.get("bytea_output") == "escape";
        styles
    }

    /// The value as SHOW gives it, with the setting's own spelling of its name.
    pub fn show(&self, name: &str) -> SqlResult<(String, String)> {
        if let Some(place) = table::place(&name.to_ascii_lowercase()) {
            let setting = &table::all()[place];
            return Ok((setting.known.name.to_string(), setting.shown(self.at(place))));
        }
        let (name, value) = self.now.custom(name).ok_or_else(|| missing(name))?;
        Ok((name.to_string(), value.clone()))
    }

    /// All that are to be seen, in the order of SHOW ALL.
    pub fn all(&self) -> impl Iterator<Item = SettingRow<'_>> {
        let shown = table::all().iter().enumerate().filter(|(_, s)| !s.is_hidden());
        shown.map(|(place, s)| self.row(place, s))
    }

    fn row(&self, place: usize, s: &'static Setting) -> SettingRow<'_> {
        let some = |text: &'static str| (!text.is_empty()).then_some(text);
        let setting = self.at(place);
        let source = match self.now.of(place) {
            _ if s.key.starts_with("transaction_") => "override",
            Some(_) => "session",
            None => self.sources.iter().find(|s| s.0 == place).map_or("default", |s| s.1),
        };
        let choices = s.choices();
        SettingRow {
            name: s.known.name,
            setting,
            unit: some(s.known.unit),
            category: s.known.category,
            short_desc: s.known.about,
            extra_desc: some(s.known.more),
            context: s.known.context_name,
            vartype: s.known.kind.name(),
            source,
            min_val: some(s.known.least),
            max_val: some(s.known.most),
            enumvals: (!choices.is_empty()).then_some(choices),
            boot_val: &s.default,
            reset_val: self.shown_first(place),
            shown: s.shown(setting),
            changes: s.changes(),
        }
    }

    /// Sets, or resets to what the session began with (`None`). `local`: until the end of the transaction.
    pub fn set(&mut self, name: &str, value: Option<&str>, local: bool) -> SqlResult<()> {
        if name.eq_ignore_ascii_case("all") && value.is_none() {
            self.reset();
            return Ok(());
        }
        let Some(place) = table::place(&name.to_ascii_lowercase()) else {
            if self.now.custom(name).is_none() {
                if !name.contains('.') {
                    return Err(missing(name));
                }
                check_custom(name)?;
            }
            let value = value.unwrap_or_default();
            for values in self.changing(local) {
                Arc::make_mut(values).put_custom(name, value.to_string())
            }
            return Ok(());
        };
        let setting = &table::all()[place];
        setting.may_change(name)?;
        let value = value.map(|v| self.taken(place, name, v)).transpose()?;
        for values in self.changing(local) {
            Arc::make_mut(values).put(place, value.clone().map(Cow::Owned))
        }
        Ok(())
    }

    #[cfg(feature = "server")]
    fn note_source(&mut self, place: usize, source: &'static str) {
        let sources = Arc::make_mut(&mut self.sources);
        sources.retain(|s| s.0 != place);
        sources.push((place, source))
    }
    /// Gives a setting the value that the session begins with, to which RESET comes back. `source` is where
    /// that was said.
    #[cfg(feature = "server")]
    pub fn begin_with(&mut self, name: &str, value: &str, source: &'static str) -> SqlResult<()> {
        let Some(place) = table::place(&name.to_ascii_lowercase()) else {
            return self.set(name, Some(value), false);
        };
        let setting = &table::all()[place];
        setting.may_change(name)?;
        let value = self.taken(place, name, value)?;
        Arc::make_mut(&mut self.base).put(place, Some(value.into()));
        self.note_source(place, source);
        Ok(())
    }
    /// The name, as it is spelt, of a setting that sessions are to begin with, if it can have the value.
    pub fn keepable(&self, name: &str, value: Option<&str>) -> SqlResult<String> {
        let Some(place) = table::place(&name.to_ascii_lowercase()) else {
            if !name.contains('.') {
                return Err(missing(name));
            }
            check_custom(name)?;
            return Ok(name.to_string());
        };
        let setting = &table::all()[place];
        setting.may_change(name)?;
        if let Some(value) = value {
            if setting.is_of_session() {
                return Err(SqlError::unsupported(format_args!("{name} as a setting to begin with")));
            }
            if setting.value(name, value, self.at(place))? != self.first(place) && setting.is_served() {
                return Err(setting.unsupported(value, self.first(place)));
            }
        }
        Ok(setting.known.name.to_string())
    }
    /// Gives a setting the value that all sessions of a server begin with.
    #[cfg(feature = "server")]
    pub fn serve_with(&mut self, name: &str, value: &str, source: &'static str) -> SqlResult<()> {
        let Some(place) = table::place(&name.to_ascii_lowercase()) else {
            if !name.contains('.') {
                return Err(missing(name));
            }
            check_custom(name)?;
            Arc::make_mut(&mut self.now).put_custom(name, value.to_string());
            self.lasting = self.now.clone();
            return Ok(());
        };
        let setting = &table::all()[place];
        if setting.known.context == ondol_types::known::SettingContext::Internal {
            setting.may_change(name)?
        }
        if setting.is_of_session() {
            return Err(SqlError::new("55P02", format!("parameter \"{name}\" cannot be changed")));
        }
        let value = setting.value(name, value, self.at(place))?;
        Arc::make_mut(&mut self.base).put(place, Some(value.into()));
        self.note_source(place, source);
        self.has_client = true;
        Ok(())
    }
    /// Whether a setting is one of these, which a server is told when it starts; and its value.
    #[cfg(feature = "server")]
    pub fn at_start(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = table::all().iter().enumerate();
        let at_start = all.filter(|(_, s)| s.known.context == ondol_types::known::SettingContext::Postmaster);
        at_start.map(|(place, s)| (s.known.name, self.first(place)))
    }
    /// The names of all of PostgreSQL's settings and our own.
    #[cfg(feature = "server")]
    pub fn names() -> impl Iterator<Item = &'static str> {
        table::all().iter().map(|s| s.known.name)
    }
    /// Whether no value was set since the other was remembered.
    #[cfg(feature = "server")]
    pub fn are_as(&self, before: &Settings) -> bool {
        Arc::ptr_eq(&self.now, &before.now)
    }

    /// A value as the setting would have it.
    pub fn checked<'a>(&'a self, name: &str, value: Option<&str>) -> SqlResult<Cow<'a, str>> {
        let place = table::place(name).ok_or_else(|| missing(name))?;
        let setting = &table::all()[place];
        setting.may_change(name)?;
        match value {
            Some(v) => self.taken(place, name, v).map(Cow::Owned),
            None => Ok(Cow::Borrowed(self.first(place))),
        }
    }

    /// The value that a session's setting has when it is given this one.
    fn taken(&self, place: usize, name: &str, given: &str) -> SqlResult<String> {
        let setting = &table::all()[place];
        let value = setting.value(name, given, self.at(place))?;
        let is_fixed = setting.is_served() || setting.needs_client() && !self.has_client;
        match is_fixed && value != self.at(place) {
            true => Err(setting.unsupported(given, self.first(place))),
            false => Ok(value),
        }
    }
    fn changing(&mut self, local: bool) -> impl Iterator<Item = &mut Arc<Values>> {
        let lasting = (!local).then_some(&mut self.lasting);
        [&mut self.now].into_iter().chain(lasting)
    }

    /// Tells the level of the running transaction.
    /// Of the running transaction.
    pub fn isolation(&self) -> IsolationLevel {
        self.mode.isolation
    }
    pub fn is_read_only(&self) -> bool {
        self.mode.read_only
    }
    pub fn is_deferrable(&self) -> bool {
        self.mode.deferrable
    }
    pub fn set_isolation(&mut self, level: IsolationLevel) {
        self.mode.isolation = level
    }
    pub fn set_read_only(&mut self, read_only: bool) {
        self.mode.read_only = read_only
    }
    pub fn set_deferrable(&mut self, deferrable: bool) {
        self.mode.deferrable = deferrable
    }

    /// The transaction was committed: what was LOCAL ends. A name with a dot that came with it stays.
    /// Whether values are others now.
    pub fn end_transaction(&mut self) -> bool {
        self.mode = USUAL_MODE;
        if Arc::ptr_eq(&self.now, &self.lasting) {
            return false;
        }
        let local = std::mem::replace(&mut self.now, self.lasting.clone());
        if local.custom.len() > self.lasting.custom.len() {
            let lasting = Arc::make_mut(&mut self.lasting);
            for (name, _) in &local.custom {
                if lasting.custom(name).is_none() {
                    lasting.put_custom(name, String::new())
                }
            }
            self.now = self.lasting.clone();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondol_types::known::SettingContext;

    #[test]
    fn values_are_checked_and_shown_as_postgresql_does() {
        let mut s = Settings::new("off".into());
        s.set("lock_timeout", Some("2000"), false).unwrap();
        assert_eq!(s.show("LOCK_TIMEOUT").unwrap(), ("lock_timeout".into(), "2s".into()));
        assert_eq!(s.ms("lock_timeout"), Some(std::time::Duration::from_secs(2)));
        s.set("synchronous_commit", Some("false"), false).unwrap();
        assert_eq!(s.get("synchronous_commit"), "off");
        for (name, value, state) in [
            ("nonesuch", "1", "42704"),
            ("lock_timeout", "x", "22023"),
            ("lock_timeout", "-1", "22023"),
            ("server_version", "x", "55P02"),
            ("shared_buffers", "1", "55P02"),
            ("timezone", "Europe/Nowhere", "22023"),
            ("work_mem", "5XB", "22023"),
            ("work_mem", "63kB", "22023"),
            ("enable_seqscan", "maybe", "22023"),
            ("session_replication_role", "replica", "0A000"),
            ("a b.c", "1", "42602"),
            ("role", "nobody", "22023"),
        ] {
            assert_eq!(s.set(name, Some(value), false).unwrap_err().sqlstate(), state, "{name} = {value}");
        }
        s.set("work_mem", Some("5 MB"), false).unwrap();
        assert_eq!(s.show("work_mem").unwrap().1, "5MB");
        s.set("enable_seqscan", Some("0"), false).unwrap();
        assert_eq!(s.get("enable_seqscan"), "off");
        s.set("timezone", Some("utc"), false).unwrap();
        s.set("lock_timeout", None, false).unwrap();
        assert_eq!(s.show("lock_timeout").unwrap().1, "0");
        let size = "min_parallel_table_scan_size";
        assert_eq!((s.show(size).unwrap().1, s.number(size)), ("8MB".into(), 1024));
        let threads = "max_parallel_workers_per_gather";
        let usual = s.number(threads);
        assert_ne!(usual, 1);
        s.set(threads, Some("3"), false).unwrap();
        assert_eq!((s.show(threads).unwrap().1, s.number(threads)), ("3".into(), 3));
        for bad in ["-1", "1025", "x"] {
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
        s.set("my.own", Some("c"), true).unwrap();
        assert_eq!((s.get("application_name"), s.show("MY.OWN").unwrap().1), ("b", "c".into()));
        s.end_transaction();
        assert_eq!((s.get("application_name"), s.show("my.own").unwrap().1), ("a", String::new()));
        s.set("my.other", Some("d"), false).unwrap();
        s.go_back(&begin);
        assert_eq!((s.get("application_name"), s.show("my.other").unwrap().1), ("", String::new()));
    }

    #[test]
    fn each_setting_takes_its_own_value() {
        let mut s = Settings::new("off".into());
        let all: Vec<(&str, String)> = s.all().map(|r| (r.name, r.shown.clone())).collect();
        assert!(all.is_sorted_by_key(|r| r.0.to_ascii_lowercase()) && all.len() > 350);
        for (name, shown) in all {
            let setting = &table::all()[table::place(&name.to_ascii_lowercase()).unwrap()];
            if setting.known.context == SettingContext::User {
                s.set(name, Some(&shown), false).unwrap_or_else(|e| panic!("{name} = {shown}: {e}"));
            }
            assert_eq!(s.show(name).unwrap().1, shown, "{name}");
        }
    }
}
