//! LISTEN, NOTIFY and UNLISTEN: what the sessions of a database tell each other, with PostgreSQL's rules.
//!
//! - **O1** What a transaction says (LISTEN, UNLISTEN, NOTIFY, pg_notify) is done in its order when it
//!   commits. A rollback takes it back, one to a savepoint what was said since. The same payload for the same
//!   channel is told once a transaction.
//! - **O2** Notifications leave once others may see what their transaction wrote: no earlier than all that
//!   the session held before is durable (held/H2), and never if the log fails.
//! - **O3** They leave in the order of commits. Whoever commits says so before ([`Coming`]), and those that
//!   committed meanwhile wait for its place in that order. A statement that is a transaction of its own is in
//!   order with all that was told before it began.
//! - **O4** What a session was told waits in its mailbox until it is taken. All mailboxes together hold so
//!   much ([`MOST`]); then whoever would tell more is refused (54000).
//!
//! Nothing of it outlives the process, as in PostgreSQL.
//!
//! Source: PostgreSQL 15's documentation of these statements, and its answers.
use crate::database::Database;
use crate::session::Session;
use ondol_base::sim::mutated;
use ondol_base::sync::Mutex;
use ondol_base::{random, thread};
use ondol_engine::Token;
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Bytes that wait to be taken, at most (O4).
const MOST: usize = 64 << 20;
/// What a notification takes beside its texts.
const HEAD: usize = 64;
/// A payload has fewer bytes.
const PAYLOAD: usize = 8000;
/// A channel's name has fewer bytes.
const NAME: usize = 64;

/// What one session told those that listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The number of the session that told it, as `pg_backend_pid()` gives it there.
    pub process: i32,
    pub channel: String,
    pub payload: String,
}

impl Notification {
    /// About what it takes of memory.
    fn bytes(&self) -> usize {
        self.channel.len() + self.payload.len() + HEAD
    }
}

pub(crate) type Wake = Arc<dyn Fn() + Send + Sync>;

/// Where a session finds what it was told.
struct Mailbox {
    told: Mutex<VecDeque<Arc<Notification>>>,
    wake: Mutex<Option<Wake>>,
}

/// What the sessions of a database tell each other.
#[derive(Default)]
pub(crate) struct Channels(Mutex<State>);

#[derive(Default)]
struct State {
    listeners: HashMap<String, Vec<Arc<Mailbox>>>,
    /// O3: numbers of those that are about to commit.
    coming: BTreeSet<u64>,
    last: u64,
    waiting: Vec<Waiting>,
    /// In mailboxes, and waiting.
    bytes: usize,
}

/// What a transaction told, that has not left.
struct Waiting {
    number: u64,
    /// Its commit, or the latest of those that were told before it, if it has written nothing.
    order: Option<Token>,
    /// Those that are coming up to this number may have committed before it.
    after: u64,
    /// Others may see what it wrote.
    is_visible: bool,
    told: Vec<Arc<Notification>>,
}

/// A place in the order of commits, which is not known yet (O3).
pub(crate) struct Coming {
    channels: Arc<Channels>,
    number: u64,
}

impl Drop for Coming {
    fn drop(&mut self) {
        let mut state = self.channels.0.lock();
        state.coming.remove(&self.number);
        let wakes = state.leave();
        drop(state);
        wakes.iter().for_each(|w| w())
    }
}

impl State {
    /// Puts what may leave into mailboxes; whom to wake then.
    fn leave(&mut self) -> Vec<Wake> {
        let mut wakes = vec![];
        self.waiting.sort_by_key(|w| (w.order, w.number));
        let may = |w: &Waiting| {
            let is_next = self.coming.range(..=w.after).next().is_none();
            w.is_visible && (is_next || mutated("notified_in_any_order"))
        };
        let count = self.waiting.iter().position(|w| !may(w)).unwrap_or(self.waiting.len());
        for w in self.waiting.drain(..count) {
            for n in w.told {
                self.bytes -= n.bytes();
                for m in self.listeners.get(&n.channel).into_iter().flatten() {
                    self.bytes += n.bytes();
                    let mut told = m.told.lock();
                    told.push_back(n.clone());
                    if told.len() == 1 {
                        wakes.extend(m.wake.lock().clone())
                    }
                }
            }
        }
        wakes
    }
}

impl Channels {
    fn come(self: &Arc<Channels>) -> Coming {
        let mut state = self.0.lock();
        state.last += 1;
        let number = state.last;
        state.coming.insert(number);
        drop(state);
        Coming { channels: self.clone(), number }
    }

    /// Tells what a transaction said that has committed, as what; `rests` covers all that it rests on.
    fn tell(
        self: &Arc<Channels>,
        told: Vec<Arc<Notification>>,
        commit: Option<Token>,
        rests: Option<Token>,
        database: &Database,
    ) {
        if told.is_empty() {
            return;
        }
        let mut state = self.0.lock();
        state.last += 1;
        let number = state.last;
        state.bytes += told.iter().map(|n| n.bytes()).sum::<usize>();
        let is_visible = rests.is_none() || mutated("notified_early");
        let order = commit.or_else(|| state.waiting.iter().filter_map(|w| w.order).max());
        state.waiting.push(Waiting { number, order, after: number, is_visible, told });
        let wakes = state.leave();
        drop(state);
        wakes.iter().for_each(|w| w());
        if let Some(token) = rests {
            let channels = self.clone();
            database.when_durable(token, move |fate| channels.settle(number, fate.is_ok()))
        }
    }
    /// What was told under that number may be seen by others, or never will (O2).
    fn settle(&self, number: u64, is_visible: bool) {
        let mut state = self.0.lock();
        match is_visible {
            true => state.waiting.iter_mut().filter(|w| w.number == number).for_each(|w| w.is_visible = true),
            false => {
                let lost: Vec<Waiting> = state.waiting.extract_if(.., |w| w.number == number).collect();
                state.bytes -= lost.iter().flat_map(|w| &w.told).map(|n| n.bytes()).sum::<usize>()
            }
        }
        let wakes = state.leave();
        drop(state);
        wakes.iter().for_each(|w| w())
    }

    fn listen(&self, channel: &str, mailbox: &Arc<Mailbox>) {
        self.0.lock().listeners.entry(channel.to_string()).or_default().push(mailbox.clone())
    }
    fn unlisten(&self, channel: &str, mailbox: &Arc<Mailbox>) {
        let mut state = self.0.lock();
        if let Some(all) = state.listeners.get_mut(channel) {
            all.retain(|m| !Arc::ptr_eq(m, mailbox));
            if all.is_empty() {
                state.listeners.remove(channel);
            }
        }
    }
    /// How many bytes may be told still.
    pub fn room(&self) -> usize {
        MOST.saturating_sub(self.0.lock().bytes)
    }
    /// How much of what may wait is waiting.
    pub fn usage(&self) -> f64 {
        self.0.lock().bytes as f64 / MOST as f64
    }
}

/// What a transaction says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Said {
    Listen(String),
    /// `None`: of all channels.
    Unlisten(Option<String>),
    Notify {
        channel: String,
        payload: String,
    },
}

impl Said {
    /// About what it takes of memory, once it is told.
    pub fn bytes(&self) -> usize {
        match self {
            Said::Notify { channel, payload } => channel.len() + payload.len() + HEAD,
            Said::Listen(_) | Said::Unlisten(_) => 0,
        }
    }
}

/// A session's part in it, once it has one.
pub(crate) struct Notes {
    channels: Arc<Channels>,
    mailbox: Arc<Mailbox>,
    listens: BTreeSet<String>,
    /// O1: what its transaction said, and that once more for being found.
    said: Vec<Said>,
    notified: HashSet<Said>,
    bytes: usize,
}

impl Notes {
    fn new(channels: &Arc<Channels>, wake: Option<Wake>) -> Notes {
        Notes {
            channels: channels.clone(),
            mailbox: Arc::new(Mailbox { told: Mutex::default(), wake: Mutex::new(wake) }),
            listens: BTreeSet::new(),
            said: vec![],
            notified: HashSet::new(),
            bytes: 0,
        }
    }
    fn unlisten(&mut self, channel: Option<&str>) {
        let gone: Vec<String> =
            self.listens.iter().filter(|l| channel.is_none_or(|c| c == *l)).cloned().collect();
        for channel in gone {
            self.channels.unlisten(&channel, &self.mailbox);
            self.listens.remove(&channel);
        }
    }
    fn take(&self) -> Vec<Notification> {
        let taken = std::mem::take(&mut *self.mailbox.told.lock());
        if !taken.is_empty() {
            self.channels.0.lock().bytes -= taken.iter().map(|n| n.bytes()).sum::<usize>()
        }
        taken.into_iter().map(Arc::unwrap_or_clone).collect()
    }
}

impl Drop for Notes {
    fn drop(&mut self) {
        self.unlisten(None);
        self.take();
    }
}

fn invalid(message: &str) -> SqlError {
    SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}

pub(crate) fn full() -> SqlError {
    SqlError::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, "too many notifications in the NOTIFY queue")
}

/// Whether a notification may be told at all.
pub(crate) fn check(channel: &str, payload: &str) -> SqlResult<()> {
    match () {
        () if channel.is_empty() => Err(invalid("channel name cannot be empty")),
        () if channel.len() >= NAME => Err(invalid("channel name too long")),
        () if payload.len() >= PAYLOAD => Err(invalid("payload string too long")),
        () => Ok(()),
    }
}

impl Session {
    /// What other sessions, and this one, told those that listen (`LISTEN`), and was not taken yet, in the
    /// order of commits.
    ///
    /// ```
    /// # fn main() -> ondol::Result<()> {
    /// # let folder = ondol::TempFolder::new()?;
    /// # let db = ondol::Database::open(folder.path())?;
    /// let (mut session, mut other) = (db.session(), db.session());
    /// let (told, is_told) = std::sync::mpsc::channel();
    /// session.on_notification(move || drop(told.send(())));
    /// session.execute("LISTEN jobs")?;
    /// other.execute("BEGIN; NOTIFY jobs, 'first'; NOTIFY jobs, 'second'; NOTIFY jobs, 'first'; COMMIT")?;
    /// is_told.recv().unwrap();
    /// let payloads: Vec<String> = session.notifications().into_iter().map(|n| n.payload).collect();
    /// assert_eq!(payloads, ["first", "second"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn notifications(&self) -> Vec<Notification> {
        self.notes.as_ref().map_or_else(Vec::new, |n| n.take())
    }
    /// Calls `wake` when there is something to take after there was nothing, on the thread of whoever told
    /// it, or made it durable: it should be short, and must not use sessions.
    pub fn on_notification(&mut self, wake: impl Fn() + Send + Sync + 'static) {
        let wake: Wake = Arc::new(wake);
        if let Some(notes) = &self.notes {
            *notes.mailbox.wake.lock() = Some(wake.clone())
        }
        self.wake = Some(wake)
    }

    /// O1. Outside a transaction it is done at once.
    pub(crate) fn say(&mut self, said: Said) -> SqlResult<()> {
        if let Said::Notify { channel, payload } = &said {
            check(channel, payload)?;
            let own = self.notes.as_ref().map_or(0, |n| n.bytes);
            if own + said.bytes() > self.database.channels.room() {
                return Err(full());
            }
        }
        self.note(said);
        Ok(())
    }
    /// The same, once it is known that there is room.
    pub(crate) fn note(&mut self, said: Said) {
        let notes = self
            .notes
            .get_or_insert_with(|| Box::new(Notes::new(&self.database.channels, self.wake.clone())));
        if let Said::Notify { .. } = said {
            if !notes.notified.insert(said.clone()) {
                return;
            }
            notes.bytes += said.bytes()
        }
        notes.said.push(said);
        if !self.in_transaction() {
            self.tell_said(None, None)
        }
    }
    /// How much the transaction has said.
    pub(crate) fn said(&self) -> usize {
        self.notes.as_ref().map_or(0, |n| n.said.len())
    }
    /// Takes back what the transaction said since.
    pub(crate) fn unsay(&mut self, since: usize) {
        let Some(notes) = &mut self.notes else { return };
        for said in notes.said.drain(since.min(notes.said.len())..) {
            if let Said::Notify { .. } = said {
                notes.bytes -= said.bytes();
                notes.notified.remove(&said);
            }
        }
    }
    /// O3: before a commit.
    pub(crate) fn about_to_tell(&self) -> Option<Coming> {
        let notes = self.notes.as_ref().filter(|n| !n.notified.is_empty())?;
        Some(notes.channels.come())
    }
    /// The transaction has committed, as what: what it said is done.
    pub(crate) fn tell_said(&mut self, coming: Option<Coming>, commit: Option<Token>) {
        let Some(notes) = self.notes.as_mut().filter(|n| !n.said.is_empty()) else { return };
        notes.notified.clear();
        notes.bytes = 0;
        let mut told = vec![];
        for said in std::mem::take(&mut notes.said) {
            match said {
                Said::Listen(channel) => {
                    if notes.listens.insert(channel.clone()) {
                        notes.channels.listen(&channel, &notes.mailbox)
                    }
                }
                Said::Unlisten(channel) => notes.unlisten(channel.as_deref()),
                Said::Notify { channel, payload } => {
                    told.push(Arc::new(Notification { process: self.process, channel, payload }))
                }
            }
        }
        if mutated("notified_in_any_order") {
            thread::sleep(Duration::from_micros(random::next_u64() % 2000))
        }
        notes.channels.tell(told, commit, self.connection.held_token(), &self.database);
        drop(coming)
    }
    /// DISCARD ALL.
    pub(crate) fn unlisten_all(&mut self) {
        if let Some(notes) = &mut self.notes {
            notes.unlisten(None)
        }
    }
    /// The channels that it listens on.
    pub(crate) fn listens(&self) -> Vec<String> {
        self.notes.as_ref().map_or_else(Vec::new, |n| n.listens.iter().cloned().collect())
    }
}
