//! Which sessions a server has, and what they do, for other sessions to see.
//!
//! - **A1** What a session does is written by its own thread, under a mutex that hardly anybody else takes:
//!   when a statement comes, and when the client is told that it may send the next. Both are at the time when
//!   the thread last looked at the clock (meter/M2).
//! - **A2** Who would end a session, or what it does, tells whoever serves it; nothing of a session is
//!   touched from elsewhere.
#![cfg_attr(not(feature = "server"), allow(dead_code))]
#[cfg(feature = "server")]
use crate::server::log::{Form, Subject};
use crate::session::meter::Meter;
use crate::session::statements::Statements;
use ondol_base::sync::Mutex;
use ondol_engine::activity::Known;
use ondol_sql::bound::SettingChange;
use ondol_sql::catalog::{Backend, StatementRow, Totals};
use ondol_types::{SqlError, SqlResult};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

/// Bytes of a statement's text that are shown, as in PostgreSQL.
const TEXT: usize = 1023;
/// From 1970-01-01 to 2000-01-01.
const UNIX_TO_2000_US: i64 = 946_684_800_000_000;

/// As much of a text as is shown.
pub(crate) fn cut(text: &str) -> &str {
    let mut end = text.len().min(TEXT);
    while !text.is_char_boundary(end) {
        end -= 1
    }
    &text[..end]
}

fn now_us() -> i64 {
    ondol_base::clock::wall_us() - UNIX_TO_2000_US
}

/// What is told: break off what it does, or with `true` end the session.
type Signal = Box<dyn Fn(bool) + Send + Sync>;
type Reload = Arc<dyn Fn() + Send + Sync>;
type System = Arc<dyn Fn(&SettingChange) -> SqlResult<()> + Send + Sync>;

/// All of them.
pub(crate) struct Board {
    all: Mutex<BTreeMap<i32, Arc<Seen>>>,
    /// How many were told to end, and have not yet.
    ending: AtomicUsize,
    started_us: i64,
    loaded_us: AtomicI64,
    /// Statements that take as long are logged; negative: none is.
    pub slow_us: AtomicI64,
    /// The log is for programs.
    pub is_json: AtomicBool,
    /// It has errors of statements, and the statements.
    pub errors: AtomicBool,
    pub failed_statements: AtomicBool,
    reload: Mutex<Option<Reload>>,
    system: Mutex<Option<System>>,
    /// Of the threads of servers that the database has or had.
    meters: Mutex<Vec<Arc<Meter>>>,
    gone: Mutex<Gone>,
}

/// Sessions that have ended.
#[derive(Clone, Copy, Default)]
struct Gone {
    seconds: f64,
    /// All that there were, those included that are there.
    sessions: i64,
    abandoned: i64,
    fatal: i64,
    killed: i64,
}

/// How a session has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Departure {
    /// Its client went without a word.
    Abandoned,
    /// Its client said so.
    Asked,
    /// By an error.
    Failed,
    /// By whoever may end others' sessions, or the server's end.
    Killed,
}

impl Default for Board {
    fn default() -> Board {
        let now = now_us();
        Board {
            all: Mutex::default(),
            ending: AtomicUsize::new(0),
            started_us: now,
            loaded_us: AtomicI64::new(now),
            slow_us: AtomicI64::new(-1),
            is_json: AtomicBool::new(false),
            errors: AtomicBool::new(false),
            failed_statements: AtomicBool::new(false),
            reload: Mutex::default(),
            system: Mutex::default(),
            meters: Mutex::default(),
            gone: Mutex::default(),
        }
    }
}

/// Who somebody is.
pub(crate) struct Who {
    pub process: i32,
    pub known: Known,
    pub role: u32,
    pub role_name: String,
    pub address: Option<(String, u16)>,
    pub encrypted: Option<(&'static str, String)>,
}

/// A session.
pub(crate) struct Seen {
    who: Who,
    begun_us: i64,
    signal: Signal,
    now: Mutex<Now>,
    /// Of the thread that serves it.
    pub meter: Arc<Meter>,
}

struct Now {
    application: String,
    transaction_us: Option<i64>,
    query_us: Option<i64>,
    changed_us: i64,
    changed_ns: u64,
    state: &'static str,
    query: String,
    /// When the statement began whose end was not looked at yet, in nanoseconds.
    since_ns: Option<u64>,
    ends: bool,
}

impl Seen {
    pub fn new(who: Who, signal: Signal, meter: Arc<Meter>) -> Arc<Seen> {
        let begun_ns = meter.looked();
        let begun_us = meter.day_us(begun_ns);
        let now = Now {
            application: String::new(),
            transaction_us: None,
            query_us: None,
            changed_us: begun_us,
            changed_ns: begun_ns,
            state: "idle",
            query: String::new(),
            since_ns: None,
            ends: false,
        };
        Arc::new(Seen { who, begun_us, signal, now: Mutex::new(now), meter })
    }
    /// How long it has been there.
    pub fn seconds(&self) -> f64 {
        (now_us() - self.begun_us) as f64 / 1e6
    }
    /// A statement begins (A1).
    pub fn runs(&self, text: &str) {
        let since = self.meter.looked();
        let at = self.meter.day_us(since);
        let mut now = self.now.lock();
        self.spent(&now, since);
        now.state = "active";
        now.changed_ns = since;
        now.query.clear();
        now.query.push_str(cut(text));
        now.query_us = Some(at);
        now.since_ns = Some(since);
        now.changed_us = at;
        now.transaction_us.get_or_insert(at);
    }
    /// The client may send the next; `state` as the message says that tells it so.
    pub fn rests(&self, state: u8) {
        let since = self.meter.looked();
        let at = self.meter.day_us(since);
        let mut now = self.now.lock();
        self.spent(&now, since);
        now.changed_us = at;
        now.changed_ns = since;
        now.state = match state {
            b'T' => "idle in transaction",
            b'E' => "idle in transaction (aborted)",
            _ => "idle",
        };
        if state == b'I' {
            now.transaction_us = None
        }
    }
    /// It has another state from then on.
    fn spent(&self, now: &Now, since: u64) {
        let spent = since.saturating_sub(now.changed_ns);
        match now.state {
            "active" => self.meter.active_ns.add(spent),
            "idle" => {}
            _ => self.meter.idle_in_transaction_ns.add(spent),
        }
    }
    /// How many milliseconds a statement took that is over, and its text, if that is to be logged.
    pub fn took(&self, board: &Board) -> Option<(f64, String)> {
        let slow = board.slow_us.load(Ordering::Relaxed);
        if slow < 0 {
            return None;
        }
        let mut now = self.now.lock();
        let took = self.meter.looked().saturating_sub(now.since_ns.take()?);
        ((took / 1000) as i64 >= slow).then(|| (took as f64 / 1e6, now.query.clone()))
    }
    pub fn is_called(&self, application: &str) {
        self.now.lock().application = application.to_string()
    }

    /// How the log names it.
    #[cfg(feature = "server")]
    pub fn subject(&self) -> Subject {
        Subject {
            process: self.who.process,
            role: self.who.role_name.clone(),
            application: self.now.lock().application.clone(),
            from: (self.who.address.as_ref())
                .map_or("[local]".into(), |(host, port)| format!("{host}:{port}")),
        }
    }
    fn backend(&self) -> Backend {
        let now = self.now.lock();
        Backend {
            process: self.who.process,
            known: self.who.known,
            role: self.who.role,
            application: now.application.clone(),
            address: self.who.address.clone(),
            begun_us: self.begun_us,
            transaction_us: now.transaction_us,
            query_us: now.query_us,
            changed_us: now.changed_us,
            state: now.state,
            query: now.query.clone(),
            encrypted: self.who.encrypted.clone(),
        }
    }
}

impl Board {
    pub fn enter(&self, seen: Arc<Seen>) {
        self.gone.lock().sessions += 1;
        self.all.lock().insert(seen.who.process, seen);
    }
    pub fn leave(&self, process: i32) -> Option<Arc<Seen>> {
        let left = self.all.lock().remove(&process);
        if left.as_ref().is_some_and(|s| s.now.lock().ends) {
            self.ending.fetch_sub(1, Ordering::Relaxed);
        }
        left
    }
    /// A session has left.
    pub fn departed(&self, seen: &Seen, how: Departure) {
        let mut gone = self.gone.lock();
        gone.seconds += seen.seconds();
        match how {
            Departure::Abandoned => gone.abandoned += 1,
            Departure::Asked => {}
            Departure::Failed => gone.fatal += 1,
            Departure::Killed => gone.killed += 1,
        }
    }
    pub fn add_meter(&self, meter: Arc<Meter>) {
        self.meters.lock().push(meter)
    }
    fn meters(&self) -> Vec<Arc<Meter>> {
        self.meters.lock().clone()
    }
    /// Where there is or was a server: what its sessions did, all together.
    pub fn totals(&self) -> Option<Totals> {
        let meters = self.meters();
        if meters.is_empty() {
            return None;
        }
        let gone = *self.gone.lock();
        let there: f64 = self.all.lock().values().map(|s| s.seconds()).sum();
        let sum = |f: &dyn Fn(&Meter) -> u64| meters.iter().map(|m| f(m)).sum::<u64>();
        Some(Totals {
            commits: sum(&|m| m.commits.get()) as i64,
            rollbacks: sum(&|m| m.rollbacks.get()) as i64,
            deadlocks: sum(&|m| m.deadlocks.get()) as i64,
            session_ms: (gone.seconds + there) * 1e3,
            active_ms: sum(&|m| m.active_ns.get()) as f64 / 1e6,
            idle_in_transaction_ms: sum(&|m| m.idle_in_transaction_ns.get()) as f64 / 1e6,
            sessions: gone.sessions,
            abandoned: gone.abandoned,
            fatal: gone.fatal,
            killed: gone.killed,
        })
    }
    pub fn statements(&self) -> Vec<StatementRow> {
        let meters = self.meters();
        Statements::rows(meters.iter().map(|m| m.statements.lock()))
    }
    pub fn forget_statements(&self, role: u32, id: i64) {
        self.meters().iter().for_each(|m| m.statements.lock().forget(role, id))
    }
    pub fn backends(&self) -> Vec<Backend> {
        let all: Vec<Arc<Seen>> = self.all.lock().values().cloned().collect();
        all.iter().map(|s| s.backend()).collect()
    }
    /// A2; false if there is none of that number.
    pub fn signal(&self, process: i32, ends: bool) -> bool {
        let Some(seen) = self.all.lock().get(&process).cloned() else { return false };
        if ends && !std::mem::replace(&mut seen.now.lock().ends, true) {
            self.ending.fetch_add(1, Ordering::Relaxed);
        }
        (seen.signal)(ends);
        true
    }
    /// Whether some are to end.
    pub fn some_end(&self) -> bool {
        self.ending.load(Ordering::Relaxed) > 0
    }
    pub fn is_to_end(&self, process: i32) -> bool {
        self.all.lock().get(&process).is_some_and(|s| s.now.lock().ends)
    }

    pub fn logs_errors(&self) -> bool {
        self.errors.load(Ordering::Relaxed)
    }
    pub fn logs_failed_statements(&self) -> bool {
        self.failed_statements.load(Ordering::Relaxed)
    }
    /// What each of the threads of servers has counted.
    pub fn each_meter(&self, mut f: impl FnMut(&Meter)) {
        self.meters().iter().for_each(|m| f(m))
    }
    #[cfg(feature = "server")]
    pub fn form(&self) -> Form {
        if self.is_json.load(Ordering::Relaxed) { Form::Json } else { Form::Text }
    }
    /// Who reads settings again when that is asked for.
    pub fn on_reload(&self, reload: Reload) {
        *self.reload.lock() = Some(reload)
    }
    pub fn reload(&self) -> bool {
        let reload = self.reload.lock().clone();
        reload.inspect(|r| r()).is_some()
    }
    /// Who keeps what ALTER SYSTEM says.
    pub fn on_alter_system(&self, system: System) {
        *self.system.lock() = Some(system)
    }
    pub fn alter_system(&self, change: &SettingChange) -> SqlResult<()> {
        let system = self.system.lock().clone();
        match system {
            Some(system) => system(change),
            None => Err(SqlError::unsupported("ALTER SYSTEM without a server")),
        }
    }
    pub fn has_reloaded(&self) {
        self.loaded_us.store(now_us(), Ordering::Relaxed)
    }
    pub fn started_us(&self) -> (i64, i64) {
        (self.started_us, self.loaded_us.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_shows_who_is_there() {
        let board = Arc::new(Board::default());
        let told = Arc::new(AtomicUsize::new(0));
        let who = Who {
            process: 7,
            known: Known { session: 1, transactions: 2 },
            role: 10,
            role_name: "postgres".into(),
            address: None,
            encrypted: None,
        };
        let count = told.clone();
        let seen = Seen::new(
            who,
            Box::new(move |_| {
                count.fetch_add(1, Ordering::Relaxed);
            }),
            Arc::new(Meter::new()),
        );
        board.enter(seen.clone());
        seen.runs(&"é".repeat(600));
        board.slow_us.store(0, Ordering::Relaxed);
        let took = seen.took(&board).expect("it is over");
        assert!(took.0 == 0.0 && took.1.starts_with('é') && seen.took(&board).is_none());
        seen.is_called("test");
        let b = &board.backends()[0];
        assert_eq!((b.state, b.query.len(), b.application.as_str()), ("active", 1022, "test"));
        assert!(b.transaction_us.is_some());
        seen.rests(b'E');
        assert_eq!(board.backends()[0].state, "idle in transaction (aborted)");
        seen.rests(b'I');
        assert_eq!(board.backends()[0].transaction_us, None);
        assert!(!board.signal(8, true) && !board.some_end());
        assert!(board.signal(7, false) && !board.some_end());
        assert!(board.signal(7, true) && board.signal(7, true) && board.some_end() && board.is_to_end(7));
        assert_eq!(told.load(Ordering::Relaxed), 3);
        board.leave(7);
        assert!(!board.some_end() && board.backends().is_empty());
    }
}
