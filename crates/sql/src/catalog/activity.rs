//! What the sessions of a server do: who they are, what they run, whom they wait for.

use super::rows::{Cell, Each, Name, Null, Oid, Wanted, row};
use super::sight::{DATABASE, Sight, oid_of};
use ondol_engine::activity::{Awaited, Known, Waiting};
use ondol_engine::advisory::Number;
use ondol_engine::role::{READ_ALL_STATS, SIGNAL_BACKEND};
use ondol_types::{SqlError, SqlResult, TypeId, Value, array, sqlstate};
use std::sync::Arc;

/// A session of a server, as pg_stat_activity has it. Times are microseconds from 2000-01-01.
#[derive(Clone, Debug)]
pub struct Backend {
    pub process: i32,
    pub known: Known,
    pub role: u32,
    pub application: String,
    /// Of a client by TCP.
    pub address: Option<(String, u16)>,
    pub begun_us: i64,
    pub transaction_us: Option<i64>,
    pub query_us: Option<i64>,
    pub changed_us: i64,
    pub state: &'static str,
    pub query: String,
    /// The version of TLS, and the cipher.
    pub encrypted: Option<(&'static str, String)>,
}

/// What the sessions of a server did since it began.
#[derive(Clone, Copy, Debug)]
pub struct Totals {
    pub commits: i64,
    pub rollbacks: i64,
    pub deadlocks: i64,
    pub session_ms: f64,
    pub active_ms: f64,
    pub idle_in_transaction_ms: f64,
    pub sessions: i64,
    pub abandoned: i64,
    pub fatal: i64,
    pub killed: i64,
}

/// What a statement took, as pg_stat_statements has it.
#[derive(Clone, Debug)]
pub struct StatementRow {
    pub role: u32,
    pub id: i64,
    pub text: Arc<str>,
    pub calls: i64,
    pub total_ms: f64,
    pub least_ms: f64,
    pub most_ms: f64,
    pub mean_ms: f64,
    pub deviation_ms: f64,
    pub rows: i64,
}

impl Backend {
    fn is_active(&self) -> bool {
        self.state == "active"
    }
}

/// Whether the statement's role may see what the other's sessions do.
fn may_see(sight: &Sight<'_>, role: u32) -> bool {
    sight.catalog.has_rights_of(sight.role, READ_ALL_STATS) || sight.catalog.has_rights_of(sight.role, role)
}

fn time(us: i64) -> Value {
    Value::Timestamptz(us)
}

pub fn backends(sight: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    let waiting = sight.session.locks().waiting;
    for b in sight.session.backends() {
        let user = sight.catalog.role(b.role).map(|r| r.name.clone());
        let sees = may_see(sight, b.role);
        let waits = waiting.iter().find(|w| w.session == b.known.session);
        let event = match waits.map(|w| w.awaited) {
            Some(Awaited::Row(_) | Awaited::Key) => Some(("Lock", "transactionid")),
            Some(Awaited::Other) => Some(("Lock", other_event(sight, b.known.session))),
            None if !b.is_active() => Some(("Client", "ClientRead")),
            None => None,
        };
        let shown = |us: Option<i64>| us.filter(|_| sees).map(time);
        let address = b.address.as_ref().filter(|_| sees);
        each(&row![
            Oid(DATABASE),
            Name(sight.database),
            b.process,
            Null,
            Oid(b.role),
            user.as_deref().map(Name),
            b.application.as_str(),
            address.map(|a| a.0.as_str()),
            Null,
            match &b.address {
                Some((_, port)) if sees => Some(i32::from(*port)),
                None if sees => Some(-1),
                _ => None,
            },
            shown(Some(b.begun_us)),
            shown(b.transaction_us),
            shown(b.query_us),
            shown(Some(b.changed_us)),
            event.filter(|_| sees).map(|e| e.0),
            event.filter(|_| sees).map(|e| e.1),
            sees.then_some(b.state),
            Null,
            Null,
            Null,
            if sees { b.query.as_str() } else { "<insufficient privilege>" },
            sees.then_some("client backend"),
        ])?
    }
    Ok(())
}

/// What one waits for that waits for no row.
fn other_event(sight: &Sight<'_>, session: u64) -> &'static str {
    let is_advisory = sight.session.locks().advisory.iter().any(|a| a.session == session && !a.granted);
    if is_advisory { "advisory" } else { "relation" }
}

pub fn encrypted(sight: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    for b in sight.session.backends() {
        let found = b.encrypted.as_ref().filter(|_| may_see(sight, b.role));
        let bits = found.map(|e| if e.1.contains("128") { 128 } else { 256 });
        let (version, cipher) = (found.map(|e| e.0), found.map(|e| e.1.as_str()));
        each(&row![b.process, b.encrypted.is_some(), version, cipher, bits, Null, Null, Null])?
    }
    Ok(())
}

/// The one database. Nothing is read from a disk, and nothing spilled to one.
pub fn database(sight: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    let t = sight.session.totals();
    let backends = t.map(|_| sight.session.backends().len() as i32);
    each(&row![
        Oid(DATABASE),
        Name(sight.database),
        backends,
        t.map(|t| t.commits),
        t.map(|t| t.rollbacks),
        Null,
        Null,
        Null,
        Null,
        Null,
        Null,
        Null,
        0i64,
        0i64,
        0i64,
        t.map(|t| t.deadlocks),
        Null,
        Null,
        Null,
        Null,
        t.map(|t| Value::Float8(t.session_ms)),
        t.map(|t| Value::Float8(t.active_ms)),
        t.map(|t| Value::Float8(t.idle_in_transaction_ms)),
        t.map(|t| t.sessions),
        t.map(|t| t.abandoned),
        t.map(|t| t.fatal),
        t.map(|t| t.killed),
        Null,
    ])
}

pub fn statements(sight: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    for s in sight.session.statements() {
        let sees = may_see(sight, s.role);
        let known = [
            Oid(s.role).value(),
            Oid(DATABASE).value(),
            true.value(),
            sees.then_some(s.id).value(),
            if sees { s.text.to_string() } else { "<insufficient privilege>".to_string() }.value(),
        ];
        let plans = [const { Value::Null }; 6];
        let times = [s.total_ms, s.least_ms, s.most_ms, s.mean_ms, s.deviation_ms].map(Value::Float8);
        let rest = [const { Value::Null }; 25];
        let all = known.into_iter().chain(plans).chain([s.calls.value()]).chain(times);
        let all: Vec<Value> = all.chain([s.rows.value()]).chain(rest).collect();
        each(&all)?
    }
    Ok(())
}

/// `pg_stat_statements_reset`, of a role, a database and a statement; 0 and NULL stand for any.
pub fn forget_statements(sight: &Sight<'_>, role: u32, database: u32, id: i64) -> SqlResult<Value> {
    if !sight.catalog.is_superuser(sight.role) {
        let message = "permission denied for function pg_stat_statements_reset";
        return Err(SqlError::new(sqlstate::INSUFFICIENT_PRIVILEGE, message));
    }
    if matches!(database, 0 | DATABASE) {
        sight.session.forget_statements(role, id)
    }
    Ok(Value::Text(String::new()))
}

/// The processes that keep the one that waits from going on, each once.
fn blockers(waiting: &Waiting, all: &[Backend]) -> Vec<i32> {
    let is_one = |k: &Known| {
        k.session != waiting.session
            && (waiting.blockers.contains(&k.session) || waiting.owner == Some(k.transactions))
    };
    all.iter().filter(|b| is_one(&b.known)).map(|b| b.process).collect()
}

/// `pg_blocking_pids`
pub fn blocking(sight: &Sight<'_>, process: i32) -> SqlResult<Value> {
    let all = sight.session.backends();
    let known = all.iter().find(|b| b.process == process).map(|b| b.known);
    let waiting = sight.session.locks().waiting;
    let waits = waiting.iter().find(|w| known.is_some_and(|k| k.session == w.session));
    let found = waits.map_or(vec![], |w| blockers(w, &all));
    let found: Vec<Value> = found.into_iter().map(Value::Int4).collect();
    array::of_values(TypeId::INT4, &found)
}

/// Tables that transactions use, rows and keys that they wait for with those who have them, and advisory
/// locks.
pub fn locks(sight: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    let all = sight.session.backends();
    let locks = sight.session.locks();
    let process = |session: u64| all.iter().find(|b| b.known.session == session).map(|b| b.process);
    let mut lock =
        |kind: &str, relation: Option<u32>, advice: Option<Number>, process: i32, mode: &str, granted| {
            let database = advice.is_some() || relation.is_some();
            let (class, object, sub) = match advice {
                Some(Number::One(n)) => (Some((n >> 32) as u32), Some(n as u32), Some(1i16)),
                Some(Number::Two(a, b)) => (Some(a as u32), Some(b as u32), Some(2)),
                None => (None, None, None),
            };
            each(&row![
                kind,
                database.then_some(Oid(DATABASE)),
                relation.map(Oid),
                Null,
                Null,
                Null,
                Null,
                class.map(Oid),
                object.map(Oid),
                sub,
                Null,
                process,
                mode,
                granted,
                false,
                Null,
            ])
        };
    for t in &locks.tables {
        let Some(p) = process(t.session) else { continue };
        // Who changes rows locks them as well.
        let mode = match (t.changes, t.locks) {
            (true, _) => "RowExclusiveLock",
            (false, true) => "RowShareLock",
            (false, false) => "AccessShareLock",
        };
        lock("relation", Some(oid_of(t.table)), None, p, mode, true)?
    }
    for a in &locks.advisory {
        let Some(p) = process(a.session) else { continue };
        let mode = if a.alone { "ExclusiveLock" } else { "ShareLock" };
        lock("advisory", None, Some(a.number), p, mode, a.granted)?
    }
    for w in &locks.waiting {
        let Some(p) = process(w.session) else { continue };
        if w.awaited != Awaited::Other {
            // As PostgreSQL has it: who waits for a row waits for the transactions that have it.
            lock("transactionid", None, None, p, "ShareLock", false)?;
            for b in blockers(w, &all) {
                lock("transactionid", None, None, b, "ExclusiveLock", true)?
            }
        } else if !locks.advisory.iter().any(|a| a.session == w.session && !a.granted) {
            lock("relation", None, None, p, "AccessExclusiveLock", false)?
        }
    }
    Ok(())
}

/// `pg_cancel_backend` and `pg_terminate_backend`; NULL: there is no such process.
pub fn signal(sight: &Sight<'_>, process: i32, ends: bool) -> SqlResult<Value> {
    let all = sight.session.backends();
    let Some(b) = all.iter().find(|b| b.process == process) else { return Ok(Value::Null) };
    let refused = |message: String| Err(SqlError::new(sqlstate::INSUFFICIENT_PRIVILEGE, message));
    let (what, of) = if ends { ("terminate", "process") } else { ("cancel", "query") };
    if sight.catalog.is_superuser(b.role) && !sight.catalog.is_superuser(sight.role) {
        return refused(format!("must be a superuser to {what} superuser {of}"));
    }
    let may = |of: u32| sight.catalog.has_rights_of(sight.role, of);
    if !may(b.role) && !may(SIGNAL_BACKEND) {
        let done = if ends { "terminated" } else { "canceled" };
        return refused(format!(
            "must be a member of the role whose {of} is being {done} or member of pg_signal_backend"
        ));
    }
    Ok(match sight.session.signal(process, ends) {
        true => Value::Bool(true),
        false => Value::Null,
    })
}

/// `pg_reload_conf`
pub fn reload(sight: &Sight<'_>) -> SqlResult<Value> {
    match sight.catalog.is_superuser(sight.role) {
        true => Ok(Value::Bool(sight.session.reload())),
        false => Err(SqlError::new(
            sqlstate::INSUFFICIENT_PRIVILEGE,
            "permission denied for function pg_reload_conf",
        )),
    }
}
