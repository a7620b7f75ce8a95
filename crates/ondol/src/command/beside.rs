//! Several sessions in one shell (`\session`), one of them at hand.
//!
//! - **B1** As long as there is one session only, its statements run in the shell's thread. Else each
//!   statement runs in a thread of its own, to which its session goes and from which it comes back.
//! - **B2** A statement that waits for another session is left waiting: the next line is read. Its outcome is
//!   shown behind that of the first statement after which it does not wait any more.
//! - **B3** A session whose statement waits takes no other one. While it is at hand a spare session stands in
//!   for it, for the commands that describe the database.
use super::format::{Format, write};
use super::record::Record;
use super::report;
use super::script::{Data, LineSource, Runner, Showing, run};
use super::{Done, Failed, tell};
use ondol::{Canceller, Session, Waiter};
use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How long a statement may take before the shell looks whether it waits.
const LOOK: Duration = Duration::from_micros(500);

/// The sessions that are not at hand.
#[derive(Default)]
pub struct Others {
    /// Free to run statements.
    free: BTreeMap<String, Session>,
    /// Those with a statement under way, the one at hand perhaps among them.
    busy: BTreeMap<String, Busy>,
    /// Stands in for the one at hand.
    spare: Option<Session>,
}

impl Others {
    /// Whether there is more than one session.
    pub fn any(&self) -> bool {
        !self.free.is_empty() || !self.busy.is_empty()
    }
}

/// A statement under way.
struct Busy {
    sql: String,
    told: Receiver<Told>,
    waiter: Waiter,
    canceller: Canceller,
}

enum Told {
    /// It wants its COPY data, whole.
    WantsData(Sender<Vec<u8>>),
    Ended(Box<Ended>),
}

struct Ended {
    session: Session,
    out: Vec<u8>,
    done: ondol::Result<()>,
}

/// COPY data that is with the shell's thread.
struct Remote {
    tell: Sender<Told>,
    data: Option<io::Cursor<Vec<u8>>>,
}

impl LineSource for Remote {
    fn next(&mut self, _: char, line: &mut Vec<u8>) -> io::Result<bool> {
        if self.data.is_none() {
            let (give, given) = channel();
            let gone = || io::Error::other("the shell ended");
            self.tell.send(Told::WantsData(give)).map_err(|_| gone())?;
            self.data = Some(io::Cursor::new(given.recv().map_err(|_| gone())?));
        }
        match &mut self.data {
            Some(data) => data.read_until(b'\n', line).map(|n| n > 0),
            None => Ok(false),
        }
    }
}

impl Busy {
    /// The statement's end, if it does not wait before; its COPY data is what is left of `lines`.
    fn follow(&self, lines: &mut dyn LineSource) -> Result<Option<Box<Ended>>, Failed> {
        loop {
            match self.told.recv_timeout(LOOK) {
                Ok(Told::Ended(ended)) => return Ok(Some(ended)),
                Ok(Told::WantsData(give)) => {
                    let (mut data, mut ended) = (vec![], false);
                    Data::new(lines, &mut ended)
                        .read_to_end(&mut data)
                        .map_err(|e| Failed::io("could not read the data of COPY", e))?;
                    // Whoever asked and is gone needs none.
                    let _ = give.send(data);
                }
                Err(RecvTimeoutError::Timeout) if self.waiter.is_waiting() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failed::Message(format!(
                        "the thread that ran this statement died: {}",
                        self.sql
                    )));
                }
            }
        }
    }
}

/// No data is left for a statement that has waited.
struct NoData;
impl LineSource for NoData {
    fn next(&mut self, _: char, _: &mut Vec<u8>) -> io::Result<bool> {
        Ok(false)
    }
}

impl Runner {
    /// Makes the session of that name the one at hand.
    pub fn go_to(&mut self, name: &str) -> Done {
        if name == self.name {
            return Ok(());
        }
        let next = match self.others.free.remove(name) {
            Some(session) => session,
            None if self.others.busy.contains_key(name) => self.spare(),
            None => self.new_session(),
        };
        let was = std::mem::replace(&mut self.session, next);
        let old = std::mem::replace(&mut self.name, name.to_string());
        if self.others.busy.contains_key(&old) {
            self.others.spare = Some(was);
        } else {
            self.others.free.insert(old, was);
        }
        self.canceller = match self.others.busy.get(name) {
            Some(busy) => busy.canceller.clone(),
            None => self.session.canceller(),
        };
        if self.interactive {
            self.canceller.cancel_on_interrupt().map_err(|e| {
                Failed::Message(format!("could not take over the terminal's interrupts: {e}"))
            })?;
        }
        Ok(())
    }

    fn new_session(&self) -> Session {
        let mut session = self.session.database().session();
        session.on_notice(|n| tell(&n.shown()));
        session
    }

    fn spare(&mut self) -> Session {
        self.others.spare.take().unwrap_or_else(|| self.new_session())
    }

    /// Each session's name and state.
    pub fn states(&self) -> Vec<(String, &'static str)> {
        let mut all: BTreeMap<&str, &'static str> = BTreeMap::new();
        let at_hand = (&self.name, &self.session);
        for (name, s) in self.others.free.iter().chain([at_hand]) {
            let state = match (s.in_transaction(), s.is_failed()) {
                (false, _) => "idle",
                (true, false) => "in a transaction",
                (true, true) => "in a failed transaction",
            };
            all.insert(name, state);
        }
        all.extend(self.others.busy.keys().map(|name| (name.as_str(), "waiting")));
        all.into_iter().map(|(name, state)| (name.to_string(), state)).collect()
    }

    /// Runs a statement of the session at hand (B1), and shows what has become of others that waited.
    pub fn run_beside(&mut self, sql: &str, lines: &mut dyn LineSource) -> Done {
        let name = self.name.clone();
        if self.others.busy.contains_key(&name) {
            let e =
                ondol::Error::new("55000", format!("session \"{name}\" still waits with its last statement"));
            return self.refused(sql, e);
        }
        let spare = self.spare();
        let mut session = std::mem::replace(&mut self.session, spare);
        let (waiter, canceller) = (session.waiter(), session.canceller());
        let (tell_of, told) = channel();
        let (text, format, expanded) = (sql.to_string(), self.format, self.expanded);
        let thread = std::thread::Builder::new().name("ondol-session".into());
        let work = move || {
            let mut out = vec![];
            let mut remote = Remote { tell: tell_of.clone(), data: None };
            let showing = Showing { name: &name, format, expanded };
            let done = run(&mut session, &text, showing, &mut out, &mut remote);
            // A shell that is gone does not want to know.
            let _ = tell_of.send(Told::Ended(Box::new(Ended { session, out, done })));
        };
        thread.spawn(work).map_err(|e| Failed::io("could not start a thread for the statement", e))?;
        let busy = Busy { sql: sql.to_string(), told, waiter, canceller };
        let ended = busy.follow(lines)?;
        self.others.busy.insert(self.name.clone(), busy);
        let mut done = match ended {
            Some(ended) => self.ended(&self.name.clone(), *ended),
            None => self.left_waiting(),
        };
        // Each of them may be what others wait for.
        let mut names: Vec<String> = self.others.busy.keys().rev().cloned().collect();
        while let Some(at) = names.pop() {
            let Some(busy) = self.others.busy.get(&at) else { continue };
            if let Some(ended) = busy.follow(&mut NoData)? {
                if self.format != Format::Records {
                    write(&mut *self.out, format!("Session {at}, which has waited:\n").as_bytes())?;
                }
                done = self.ended(&at, *ended).and(done);
                names = self.others.busy.keys().rev().cloned().collect();
            }
        }
        done
    }

    fn refused(&mut self, sql: &str, e: ondol::Error) -> Done {
        if self.format == Format::Records {
            let mut record = Record::new(&self.name);
            record.failed(&e);
            write(&mut *self.out, &record.text())?;
        }
        self.told(sql, Err(e))
    }

    fn left_waiting(&mut self) -> Done {
        if self.format == Format::Records {
            let mut record = Record::new(&self.name);
            record.waits();
            write(&mut *self.out, &record.text())?;
        } else {
            tell(&format!("NOTICE:  session \"{}\" waits for another session\n", self.name));
        }
        Ok(())
    }

    /// Takes back the session of a statement that ended, and shows its outcome.
    fn ended(&mut self, name: &str, ended: Ended) -> Done {
        let sql = self.others.busy.remove(name).map_or(String::new(), |b| b.sql);
        if name == self.name {
            self.others.spare = Some(std::mem::replace(&mut self.session, ended.session));
        } else {
            self.others.free.insert(name.to_string(), ended.session);
        }
        write(&mut *self.out, &ended.out)?;
        self.told(&sql, ended.done)
    }

    /// At the shell's end: breaks off what waits, and rolls back.
    pub fn end_others(&mut self) {
        for (name, busy) in std::mem::take(&mut self.others.busy) {
            busy.canceller.cancel();
            while let Ok(told) = busy.told.recv() {
                if let Told::Ended(mut ended) = told {
                    if let Err(e) = &ended.done {
                        tell(&format!("Session {name}, which has waited:\n{}", report::error(e, &busy.sql)));
                    }
                    ended.session.rollback();
                    break;
                }
            }
        }
        for session in self.others.free.values_mut() {
            session.rollback()
        }
        self.others = Others::default();
    }
}
