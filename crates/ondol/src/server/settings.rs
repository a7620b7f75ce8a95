//! What a server is told by settings: by a file, the environment, and its command line, each of which goes
//! before the one that is named first.
//!
//! ```text
//! # a comment
//! statement_timeout = 5s          a line as in postgresql.conf: a name, a value, which may stand in quotes
//! log_min_duration_statement = 250ms
//! ```
//! - **F1** Every line is obeyed, or the server does not start, and says which line it is. One that is wrong
//!   when the file is read again changes nothing.
//! - **F2** What is read at the start only keeps its value until the next; whoever reloads is told.
//! - **F3** What ALTER SYSTEM says stands in a file of its own, which is read behind the other. It is written
//!   anew as a whole, and durable before the statement is answered.
use super::ServeOptions;
use crate::session::activity::Board;
use crate::session::settings::Settings;
use ondol_sql::bound::SettingChange;
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

const CONFIG_FILE_ERROR: &str = "F0000";

/// A setting, and where it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingGiven {
    name: String,
    value: String,
    place: String,
    /// As `pg_settings` calls it.
    source: &'static str,
}

impl SettingGiven {
    /// `place` is for errors.
    pub fn new(name: &str, value: &str, place: &str) -> SettingGiven {
        SettingGiven { name: name.into(), value: value.into(), place: place.into(), source: "command line" }
    }
}

/// Settings that variables name whose names begin so: `ONDOL_STATEMENT_TIMEOUT=5s`. Others that begin so mean
/// something else.
pub fn environment(variables: impl Iterator<Item = (String, String)>) -> Vec<SettingGiven> {
    let given = |(name, value): (String, String)| {
        let key = name.strip_prefix("ONDOL_")?;
        let known = Settings::names().find(|n| n.eq_ignore_ascii_case(key))?;
        let given = SettingGiven::new(known, &value, &format!("the environment's {name}"));
        Some(SettingGiven { source: "environment variable", ..given })
    };
    variables.filter_map(given).collect()
}

/// A line's name and value; nothing if it has none, an error if it is wrong.
fn line(text: &str) -> Result<Option<(String, String)>, ()> {
    let text = text.trim();
    if text.is_empty() || text.starts_with('#') {
        return Ok(None);
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
    let end = text.find(|c| !is_name(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let spaced = rest.trim_start();
    let rest = spaced.strip_prefix('=').unwrap_or(spaced).trim_start();
    // Without an equals sign there is a space between.
    if name.is_empty() || spaced.len() == text[end..].len() && !spaced.starts_with('=') {
        return Err(());
    }
    let (value, behind) = match rest.strip_prefix('\'') {
        Some(quoted) => {
            let mut value = String::new();
            let mut letters = quoted.char_indices().peekable();
            loop {
                match letters.next() {
                    Some((_, '\'')) if letters.next_if(|l| l.1 == '\'').is_some() => value.push('\''),
                    Some((at, '\'')) => break (value, &quoted[at + 1..]),
                    Some((_, '\\')) => value.extend(letters.next().map(|l| l.1)),
                    Some((_, c)) => value.push(c),
                    None => return Err(()),
                }
            }
        }
        None => {
            let end = rest.find(|c: char| c.is_whitespace() || c == '#').unwrap_or(rest.len());
            (rest[..end].to_string(), &rest[end..])
        }
    };
    let behind = behind.trim();
    match behind.is_empty() || behind.starts_with('#') {
        true => Ok(Some((name.to_string(), value))),
        false => Err(()),
    }
}

fn of_file(path: &Path) -> SqlResult<Vec<SettingGiven>> {
    let file = path.display();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(vec![]),
        Err(e) => {
            return Err(SqlError::new(
                CONFIG_FILE_ERROR,
                format!("could not read the settings in \"{file}\": {e}"),
            ));
        }
    };
    let mut all = vec![];
    for (n, text) in text.lines().enumerate() {
        let place = format!("line {} of \"{file}\"", n + 1);
        match line(text) {
            Ok(None) => {}
            Ok(Some((name, value))) => {
                all.push(SettingGiven { name, value, place, source: "configuration file" })
            }
            Err(()) => {
                let message =
                    format!("syntax error in {place}: expected NAME = VALUE, found \"{}\"", text.trim());
                return Err(SqlError::new(CONFIG_FILE_ERROR, message));
            }
        }
    }
    Ok(all)
}

/// Writes what ALTER SYSTEM says to its file (F3). `now`: by what the values are looked at.
pub(super) fn alter_system(path: &Path, now: &Settings, change: &SettingChange) -> SqlResult<()> {
    let failed = |e: std::io::Error| super::io(format!("could not write \"{}\"", path.display()), &e);
    let mut all = match change {
        // Also where a line of it is wrong.
        SettingChange::ResetAll => vec![],
        _ => of_file(path)?,
    };
    match change {
        SettingChange::Set { name, value } => {
            if value.contains(['\n', '\r', '\0']) {
                let message = "parameter value for ALTER SYSTEM must not contain a newline";
                return Err(SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, message));
            }
            now.clone().serve_with(name, value, "configuration file")?;
            all.retain(|s| !s.name.eq_ignore_ascii_case(name));
            all.push(SettingGiven::new(name, value, ""))
        }
        SettingChange::Reset(name) => {
            if !name.contains('.') && !Settings::names().any(|n| n.eq_ignore_ascii_case(name)) {
                let message = format!("unrecognized configuration parameter \"{name}\"");
                return Err(SqlError::new(sqlstate::UNDEFINED_OBJECT, message));
            }
            all.retain(|s| !s.name.eq_ignore_ascii_case(name))
        }
        SettingChange::ResetAll => {}
    }
    let mut text =
        "# ALTER SYSTEM writes this file anew: what is changed here by hand is lost.\n".to_string();
    for s in &all {
        text += &format!("{} = '{}'\n", s.name, s.value.replace('\\', "\\\\").replace('\'', "''"))
    }
    let new = path.with_extension("conf.new");
    let mut file = std::fs::File::create(&new).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    std::fs::rename(&new, path).map_err(failed)?;
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::File::open(folder).and_then(|f| f.sync_all()).map_err(failed)
}

/// What the server goes by.
pub(super) struct Told {
    /// The database's own.
    pub initial: Settings,
    /// What sessions begin with.
    pub settings: Settings,
    pub to_prove: Duration,
    pub log_connections: bool,
    pub log_disconnections: bool,
}

impl Told {
    pub fn read(initial: &Settings, options: &ServeOptions) -> SqlResult<Told> {
        let mut settings = initial.clone();
        let most = options.connections.to_string();
        let own = SettingGiven::new("max_connections", &most, "the server's options");
        let own = SettingGiven { source: "override", ..own };
        let file = options.settings_file.as_deref().map_or(Ok(vec![]), of_file)?;
        let system = options.system_file.as_deref().map_or(Ok(vec![]), of_file)?;
        for given in [own].iter().chain(&file).chain(&system).chain(&options.settings) {
            let done = settings.serve_with(&given.name, &given.value, given.source);
            done.map_err(|e| e.context(format!("Setting \"{}\" in {}", given.name, given.place)))?
        }
        let seconds = settings.number("authentication_timeout") as u64;
        Ok(Told {
            to_prove: Duration::from_secs(seconds),
            log_connections: settings.is_on("log_connections"),
            log_disconnections: settings.is_on("log_disconnections"),
            initial: initial.clone(),
            settings,
        })
    }
    /// For what all sessions look at.
    pub fn take_effect(&self, board: &Board) {
        let slow: i64 = self.settings.get("log_min_duration_statement").parse().unwrap_or(-1);
        board.slow_us.store(slow.saturating_mul(1000).max(-1), Ordering::Relaxed);
        // What is as grave as these and graver.
        let is_below = |name, graver: &[&str]| !graver.contains(&self.settings.get(name));
        let errors = is_below("log_min_messages", &["log", "fatal", "panic"]);
        let statements = is_below("log_min_error_statement", &["log", "fatal", "panic"]);
        board.errors.store(errors, Ordering::Relaxed);
        board.failed_statements.store(statements, Ordering::Relaxed);
        board.is_json.store(self.settings.get("log_destination") == "jsonlog", Ordering::Relaxed)
    }
    /// F2
    pub fn changed_late(&self, before: &Told) -> Option<SqlError> {
        let pairs = self.settings.at_start().zip(before.settings.at_start());
        let changed: Vec<&str> = pairs.filter(|(now, was)| now != was).map(|(now, _)| now.0).collect();
        (!changed.is_empty()).then(|| {
            let names: Vec<String> = changed.iter().map(|n| format!("\"{n}\"")).collect();
            let message = format!("{} cannot be changed without restarting the server", names.join(", "));
            SqlError::new("55P02", message).detail("All other settings are those of the file.")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_postgresql() {
        let good = |text: &str, name: &str, value: &str| {
            assert_eq!(line(text), Ok(Some((name.to_string(), value.to_string()))), "{text}")
        };
        good("a = b", "a", "b");
        good("  a b  # c", "a", "b");
        good("a=b#c", "a", "b");
        good("a = 'it''s # here'  ", "a", "it's # here");
        good("a = ''", "a", "");
        good("my.own = 1", "my.own", "1");
        good("a 'b'", "a", "b");
        for blank in ["", "  ", "# a = b"] {
            assert_eq!(line(blank), Ok(None), "{blank}");
        }
        for wrong in ["= b", "a = 'b", "a = b c", "a = 'b' c", "a:b"] {
            assert_eq!(line(wrong), Err(()), "{wrong}");
        }
    }

    #[test]
    fn the_environment_names_settings() {
        let all = [("ONDOL_STATEMENT_TIMEOUT", "5s"), ("ONDOL_BLESS", "1"), ("PATH", "/bin")];
        let found = environment(all.iter().map(|(n, v)| (n.to_string(), v.to_string())));
        let place = "the environment's ONDOL_STATEMENT_TIMEOUT";
        let given = SettingGiven::new("statement_timeout", "5s", place);
        assert_eq!(found, [SettingGiven { source: "environment variable", ..given }]);
    }
}
