//! Who may log in, and how they prove who they are.
//!
//! | comes by | proves it by |
//! | --- | --- |
//! | a Unix socket | the system's user: the owner of the database's folder may be any role, others that of their own name |
//! | TCP from this machine, if the server trusts it | nothing |
//! | TCP | a password, by SCRAM-SHA-256; with TLS it may be bound to the connection (scram/V3) |
use super::connection::{Connection, Peer, Stream};
use super::{DATABASE, Shared};
use crate::session::roles::verifier_of;
use ondol_base::sync::Mutex;
use ondol_base::{clock, net};
use ondol_engine::Catalog;
use ondol_engine::role::{BOOTSTRAP, RoleDef};
use ondol_types::{SqlError, SqlResult, sqlstate};
use ondol_wire::scram::Verifier;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const INVALID_AUTHORIZATION: &str = "28000";
const INVALID_CATALOG_NAME: &str = "3D000";
const TOO_MANY_CONNECTIONS: &str = "53300";
/// From 1970-01-01 to 2000-01-01.
pub(super) const UNIX_TO_2000_US: i64 = 946_684_800_000_000;

/// What logging in needs beside the roles of the dictionary.
pub(super) struct Roles {
    /// Of the bootstrap role, as long as it has no password in the dictionary.
    first: Option<Verifier>,
    /// What verifiers of nobody are made of.
    secret: [u8; 32],
    /// Sessions of roles whose number is limited.
    sessions: Arc<Mutex<BTreeMap<u32, usize>>>,
    /// How often somebody from there gave a wrong password lately, and when last.
    failures: Mutex<HashMap<Option<IpAddr>, (u32, Duration)>>,
}

/// A session of a role whose number of sessions is limited, until it is dropped.
pub(super) struct Seat {
    role: u32,
    sessions: Arc<Mutex<BTreeMap<u32, usize>>>,
}
impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(n) = self.sessions.lock().get_mut(&self.role) {
            *n -= 1
        }
    }
}

impl Roles {
    pub fn new(password: Option<&str>, secret: [u8; 32]) -> Roles {
        let failures = Mutex::default();
        let first = password.and_then(|p| Verifier::of_text(&verifier_of(p)));
        Roles { first, secret, sessions: Arc::default(), failures }
    }
    /// A wrong password came from there: how long the answer is held back.
    pub fn failed(&self, peer: Peer, now: Duration) -> Duration {
        /// So often one may be mistaken.
        const FREE: u32 = 3;
        const FIRST: Duration = Duration::from_millis(100);
        /// FIRST is doubled so often at most.
        const DOUBLED: u32 = 5;
        const FORGOTTEN: Duration = Duration::from_secs(60);
        let from = match peer {
            Peer::Tcp(from) => Some(from.ip()),
            Peer::Unix { .. } => None,
        };
        let mut failures = self.failures.lock();
        failures.retain(|_, f| now < f.1 + FORGOTTEN);
        let (count, last) = failures.entry(from).or_insert((0, now));
        *last = now;
        *count += 1;
        count.checked_sub(FREE + 1).map_or(Duration::ZERO, |n| FIRST * 2u32.pow(n.min(DOUBLED)))
    }
    /// What a password is looked at by: for roles without one, or with one that is good no more, it fits none
    /// (scram/V2).
    pub fn verifier(&self, role: &str, catalog: &Catalog) -> Verifier {
        let found = catalog.role_named(role).and_then(|def| match &def.password {
            _ if def.valid_until.is_some_and(|until| until < clock::wall_us() - UNIX_TO_2000_US) => None,
            Some(text) => Verifier::of_text(text),
            None if def.id == BOOTSTRAP => self.first.clone(),
            None => None,
        });
        found.unwrap_or_else(|| Verifier::of_nobody(role, &self.secret))
    }
    /// A seat for one more session, if the role has a limit.
    fn seat(&self, def: &RoleDef) -> SqlResult<Option<Seat>> {
        let Some(limit) = usize::try_from(def.connection_limit).ok().filter(|_| !def.superuser) else {
            return Ok(None);
        };
        let mut sessions = self.sessions.lock();
        let n = sessions.entry(def.id).or_default();
        if *n >= limit {
            let message = format!("too many connections for role \"{}\"", def.name);
            return Err(SqlError::new(TOO_MANY_CONNECTIONS, message));
        }
        *n += 1;
        Ok(Some(Seat { role: def.id, sessions: self.sessions.clone() }))
    }
}

/// Whether whoever connects has to prove that they are the role; an error if they cannot be.
pub(super) fn must_prove(connection: &Connection, wishes: &Wishes, shared: &Shared) -> SqlResult<bool> {
    let role = &wishes.role;
    match connection.peer {
        Peer::Unix { user } => {
            let is_owner = shared.owner == Some(user);
            match is_owner || net::user_name(user).as_deref() == Some(role) {
                true => Ok(false),
                false => Err(SqlError::new(
                    INVALID_AUTHORIZATION,
                    format!("Peer authentication failed for user \"{role}\""),
                )),
            }
        }
        Peer::Tcp(_) if shared.require_tls && !matches!(connection.stream, Stream::Tls(_)) => {
            let message = format!("connection of user \"{role}\" is not encrypted: this server requires TLS");
            Err(SqlError::new(INVALID_AUTHORIZATION, message).hint("With libpq, set sslmode to require."))
        }
        Peer::Tcp(from) => Ok(!(from.ip().to_canonical().is_loopback() && shared.trust_loopback)),
    }
}

pub(super) fn wrong_password(role: &str) -> SqlError {
    SqlError::new("28P01", format!("password authentication failed for user \"{role}\""))
}

/// What is looked at once they have proved it.
pub(super) fn admit(role: &str, database: &str, shared: &Shared) -> SqlResult<Option<Seat>> {
    let catalog = shared.database.engine.catalog();
    let refused = |message: String| Err(SqlError::new(INVALID_AUTHORIZATION, message));
    let Some(def) = catalog.role_named(role) else {
        return refused(format!("role \"{role}\" does not exist"));
    };
    if !def.login {
        return refused(format!("role \"{role}\" is not permitted to log in"));
    }
    if database != DATABASE {
        let message = format!("database \"{database}\" does not exist");
        return Err(SqlError::new(INVALID_CATALOG_NAME, message));
    }
    if !def.superuser && shared.open.load(Ordering::Relaxed) > shared.most.saturating_sub(shared.reserved) {
        let message = "remaining connection slots are reserved for non-replication superuser connections";
        return Err(SqlError::new(TOO_MANY_CONNECTIONS, message));
    }
    shared.roles.seat(def)
}

/// What a client's startup packet asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Wishes {
    /// The minor version of the protocol that is spoken.
    pub minor: u16,
    pub role: String,
    pub database: String,
    pub settings: Vec<(String, String)>,
    /// Options of the protocol, of which none is known.
    pub unknown: Vec<String>,
}

impl Wishes {
    pub fn application(&self) -> String {
        let found = self.settings.iter().find(|s| s.0.eq_ignore_ascii_case("application_name"));
        found.map_or(String::new(), |s| s.1.clone())
    }
    pub fn of(packet: &[(&str, &str)]) -> SqlResult<Wishes> {
        let mut wishes = Wishes::default();
        for (name, value) in packet {
            match *name {
                "user" => wishes.role = value.to_string(),
                "database" => wishes.database = value.to_string(),
                "options" => wishes.settings.extend(options(value)?),
                "replication" => match *value {
                    "false" | "off" | "no" | "0" => {}
                    _ => return Err(SqlError::unsupported("a connection for replication")),
                },
                _ if name.starts_with("_pq_.") => wishes.unknown.push(name.to_string()),
                _ => wishes.settings.push((name.to_string(), value.to_string())),
            }
        }
        if wishes.role.is_empty() {
            let message = "no PostgreSQL user name specified in startup packet";
            return Err(SqlError::new(INVALID_AUTHORIZATION, message));
        }
        if wishes.database.is_empty() {
            wishes.database = wishes.role.clone()
        }
        Ok(wishes)
    }
}

/// Settings as a command line of PostgreSQL's server has them: `-c name=value`, `--name=value`.
fn options(line: &str) -> SqlResult<Vec<(String, String)>> {
    let mut words = vec![];
    let (mut word, mut begun) = (String::new(), false);
    let mut letters = line.chars();
    while let Some(c) = letters.next() {
        match c {
            // A backslash takes what follows as it is.
            '\\' => {
                word.extend(letters.next());
                begun = true
            }
            c if c.is_ascii_whitespace() => {
                if begun {
                    words.push(std::mem::take(&mut word));
                    begun = false
                }
            }
            c => {
                word.push(c);
                begun = true
            }
        }
    }
    if begun {
        words.push(word)
    }
    let mut words = words.into_iter();
    let mut all = vec![];
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix("--") {
            Some(s) => Some(s.replace('-', "_")).map(|s| match s.split_once('=') {
                // Dashes stand for underscores in the name alone.
                Some((name, _)) => format!("{name}={}", word.split_once('=').map_or("", |w| w.1)),
                None => s,
            }),
            None => match word.strip_prefix("-c") {
                Some("") => words.next(),
                other => other.map(str::to_string),
            },
        };
        match setting.as_deref().and_then(|s| s.split_once('=')) {
            Some((name, value)) => all.push((name.trim().to_string(), value.to_string())),
            None => {
                let message = format!("invalid command-line argument for server process: {word}");
                return Err(SqlError::new(sqlstate::SYNTAX_ERROR, message));
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_startup_packet_tells_wishes() {
        let found = Wishes::of(&[("user", "ann"), ("options", "-c a=b\\ c -cd.e=f --g-h=i-j"), ("x", "y")]);
        let found = found.unwrap();
        assert_eq!((found.role.as_str(), found.database.as_str()), ("ann", "ann"));
        let wanted = [("a", "b c"), ("d.e", "f"), ("g_h", "i-j"), ("x", "y")];
        assert_eq!(found.settings, wanted.map(|(n, v)| (n.to_string(), v.to_string())));
        assert_eq!(Wishes::of(&[("database", "x")]).unwrap_err().sqlstate(), "28000");
        assert_eq!(Wishes::of(&[("user", "a"), ("options", "-x")]).unwrap_err().sqlstate(), "42601");
        assert_eq!(Wishes::of(&[("user", "a"), ("replication", "true")]).unwrap_err().sqlstate(), "0A000");
        assert_eq!(Wishes::of(&[("user", "a"), ("_pq_.x", "1")]).unwrap().unknown, ["_pq_.x"]);
    }
}
