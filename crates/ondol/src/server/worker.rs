//! A worker: a thread that has connections, and runs what their clients send.
//!
//! - **R1** In a turn the worker takes what came, runs every fiber that can go on, and then sends, once a
//!   connection, and hands over the tokens. So who sends several messages together is answered together.
//! - **R2** A connection's fiber is started when a whole message is there and no fiber has its client; it
//!   ends when no whole message is left.
//! - **R3** Numbers of connections come again, with another generation: what the poll tells of one that was
//!   closed meanwhile means nobody.
//! - **R4** Connections in memory are looked at without the system. Before the worker sleeps it looks for as
//!   long as that has paid lately, and says to each of their clients that it has to ring; as long as they
//!   keep it busy, the poll has its turn every [`POLLED`]. Each look and each sleep is linear in the number
//!   of those that were used lately: the others' clients were told once, and ring.
use super::connection::{Connection, OUTPUT_MOST, Peer, State, Stream};
use super::conversation::Served;
use super::{End, Shared, log};
use crate::session::held::TokenQueue;
use crate::session::meter::Meter;
use ondol_base::event::Event;
use ondol_base::fiber::{self, Bell};
use ondol_base::net::{Interest, Poll, Ready};
use ondol_base::shm::Patience;
use ondol_base::sim::mutated;
use ondol_base::sync::Mutex;
use ondol_base::{clock, thread};
use ondol_engine::Token;
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::cell::RefCell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Of address space, for each statement that runs; what is never touched takes no memory. What recurs deeply
/// is planned on the thread's stack.
const STACK: usize = 2 << 20;
/// In which a client has to take the last answers.
const TO_TAKE: Duration = Duration::from_secs(10);
/// A session that has not been used for so long gives up its memory.
const TO_COOL: Duration = Duration::from_secs(2);

/// R4
const POLLED: Duration = Duration::from_micros(50);

const TOLD: u64 = 0;
const DURABLE: u64 = 1;
/// Connections have their keys from here on.
const FIRST: u64 = 2;

/// Where a worker gets connections from.
pub(super) struct Door {
    /// With what each has sent so far.
    new: Mutex<Vec<(Stream, Peer, Vec<u8>)>>,
    count: AtomicUsize,
    /// Keys of connections that something was told on a channel.
    notified: Mutex<Vec<u64>>,
    bell: OnceLock<Bell>,
    pub meter: Arc<Meter>,
    /// Some of its sessions are to end.
    told: AtomicBool,
}

impl Door {
    /// Connections that the worker has, or will have.
    pub fn connections(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
    pub fn bring(&self, stream: Stream, peer: Peer, said: Vec<u8>) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.new.lock().push((stream, peer, said));
        self.ring()
    }
    /// Something was told to the connection of that key.
    pub fn notify(&self, key: u64) {
        self.notified.lock().push(key);
        self.ring()
    }
    /// The worker is to look for sessions that are to end.
    pub fn tell(&self) {
        self.told.store(true, Ordering::Release);
        self.ring()
    }
    pub fn ring(&self) {
        if let Some(bell) = self.bell.get() {
            bell.ring()
        }
    }
}

/// What a fiber has done with a connection.
struct Finished {
    key: u64,
    served: Served,
    /// What its answers rest on.
    token: Option<Token>,
}

pub(super) struct Worker {
    shared: Arc<Shared>,
    door: Arc<Door>,
    poll: Poll,
    fibers: fiber::Worker,
    tokens: TokenQueue,
    places: Vec<Option<Rc<Connection>>>,
    free: Vec<u32>,
    generation: u32,
    finished: Rc<RefCell<Vec<Finished>>>,
    /// Those that have output, or whose wishes may have changed, by their keys.
    touched: Rc<RefCell<Vec<u64>>>,
    /// When to look next for those who are late, and those who are idle.
    look: Duration,
    /// Those in memory, and when the poll is to have its next turn (R4).
    in_memory: Vec<Rc<Connection>>,
    patience: Patience,
    poll_at: Duration,
}

impl Worker {
    pub fn start(number: usize, shared: Arc<Shared>) -> io::Result<(Arc<Door>, thread::JoinHandle<()>)> {
        let door = Arc::new(Door {
            new: Mutex::default(),
            count: AtomicUsize::new(0),
            notified: Mutex::default(),
            bell: OnceLock::new(),
            meter: Arc::new(Meter::new()),
            told: AtomicBool::new(false),
        });
        shared.database.board.add_meter(door.meter.clone());
        let its = door.clone();
        let poll = Poll::new()?;
        let event = Event::new()?;
        poll.add(&event, TOLD, Interest::READ)?;
        let tokens = shared.database.token_queue().map_err(|e| io::Error::other(e.to_string()))?;
        poll.add(&tokens, DURABLE, Interest::READ)?;
        let handle = thread::spawn(&format!("ondol-server-{number}"), move || {
            let fibers = fiber::Worker::with_event(STACK, event);
            its.bell.get_or_init(|| fibers.bell());
            let mut worker = Worker {
                shared,
                door: its,
                poll,
                fibers,
                tokens,
                places: vec![],
                free: vec![],
                generation: 0,
                finished: Rc::default(),
                touched: Rc::default(),
                look: Duration::ZERO,
                in_memory: vec![],
                patience: Patience::default(),
                poll_at: Duration::ZERO,
            };
            worker.work()
        })?;
        Ok((door, handle))
    }

    fn work(&mut self) {
        let mut room = Box::new([0; 32 << 10]);
        let (mut ready, mut told) = (vec![], vec![]);
        loop {
            let arrived = std::mem::take(&mut *self.door.new.lock());
            for (stream, peer, said) in arrived {
                self.admit(stream, peer, said)
            }
            let notified = std::mem::take(&mut *self.door.notified.lock());
            for key in notified {
                if let Some(connection) = self.of(key) {
                    connection.notified.set(true);
                    connection.touch()
                }
            }
            if self.door.told.swap(false, Ordering::Acquire) {
                self.end_told()
            }
            let end = self.shared.end();
            if end > End::NotYet && self.end_some(end) {
                return;
            }
            self.settle_all();
            // Without memory for a stack, tasks wait: others' may come free.
            if self.fibers.run_ready().is_err() {
                thread::sleep(Duration::from_millis(1))
            }
            self.finish();
            self.settle_all();
            self.look_around();
            self.wait(end, &mut ready);
            // meter/M2
            self.door.meter.look();
            for connection in &self.in_memory {
                if connection.has_news() {
                    connection.receive(&mut room);
                    connection.touch()
                }
            }
            if self.now() >= self.look {
                self.door.meter.set()
            }
            for r in &ready {
                match r.key {
                    TOLD => {
                        if let Some(e) = self.fibers.event() {
                            e.clear()
                        }
                    }
                    DURABLE => {
                        self.tokens.take(&mut told);
                        told.drain(..).for_each(|(key, fate)| self.release(key, fate))
                    }
                    _ => self.take(*r, &mut room),
                }
            }
        }
    }

    /// Waits until there is something to do; what the poll tells comes into `ready`.
    fn wait(&mut self, end: End, ready: &mut Vec<Ready>) {
        ready.clear();
        let mut limit = self.time_to_sleep(end);
        if !self.in_memory.is_empty() {
            let some = || self.in_memory.iter().any(|c| c.has_news());
            let is_busy = limit.is_some_and(|l| l.is_zero());
            if is_busy || self.patience.spin(some) {
                if self.now() < self.poll_at {
                    self.fibers.is_awake();
                    return;
                }
                limit = Some(Duration::ZERO)
            } else if !self.in_memory.iter().all(|c| c.go_to_sleep()) {
                limit = Some(Duration::ZERO)
            }
        }
        if self.poll.wait(ready, limit).is_err() {
            thread::sleep(Duration::from_millis(10))
        }
        self.fibers.is_awake();
        if !self.in_memory.is_empty() {
            self.in_memory.iter().filter_map(|c| c.stream.memory()).for_each(|m| m.is_awake());
            self.poll_at = clock::now() + POLLED
        }
    }

    /// How long there is nothing to do, as far as is known.
    fn time_to_sleep(&mut self, end: End) -> Option<Duration> {
        let Some(until) = self.fibers.go_to_sleep().filter(|_| self.touched.borrow().is_empty()) else {
            return Some(Duration::ZERO);
        };
        // Who brings something, or ends the server, rings only for a thread that sleeps.
        let is_told = self.door.told.load(Ordering::Acquire) || !self.door.notified.lock().is_empty();
        if is_told || !self.door.new.lock().is_empty() || self.shared.end() != end {
            return Some(Duration::ZERO);
        }
        let is_empty = self.places.len() == self.free.len();
        if is_empty && end > End::NotYet {
            return Some(Duration::ZERO);
        }
        let look = (!is_empty).then_some(self.look);
        let until = [until, look].into_iter().flatten().min()?;
        Some(until.saturating_sub(clock::now()))
    }

    /// When the clock was last looked at.
    fn now(&self) -> Duration {
        Duration::from_nanos(self.door.meter.looked())
    }
    fn of(&self, key: u64) -> Option<&Rc<Connection>> {
        let place = usize::try_from((key & u64::from(u32::MAX)).checked_sub(FIRST)?).ok()?;
        self.places.get(place)?.as_ref().filter(|c| c.key == key)
    }

    fn admit(&mut self, stream: Stream, peer: Peer, said: Vec<u8>) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() as u32 - 1
        });
        self.generation = self.generation.wrapping_add(1);
        let key = u64::from(self.generation) << 32 | (u64::from(place) + FIRST);
        self.shared.open.fetch_add(1, Ordering::Relaxed);
        let touched = self.touched.clone();
        let connection = Connection::new(
            stream,
            key,
            peer,
            clock::now() + self.shared.told().to_prove,
            touched,
            self.door.clone(),
        );
        connection.input.borrow_mut().bytes = said;
        connection.touch();
        let added = self.poll.add(&connection.stream, key, Interest::READ);
        let connection = Rc::new(connection);
        if connection.stream.memory().is_some() {
            connection.last_used.set(self.now());
            self.watch(&connection)
        }
        self.places[place as usize] = Some(connection);
        if added.is_err() {
            self.close(key)
        }
    }

    /// It is closed when what was answered is sent, or nobody has taken it for a while.
    fn end(&self, connection: &Connection) {
        connection.closing.set(true);
        connection.deadline.set(Some(clock::now() + TO_TAKE))
    }

    fn close(&mut self, key: u64) {
        if self.of(key).is_some() {
            let place = (key & u64::from(u32::MAX)) - FIRST;
            // The client goes with it, and its transaction.
            let connection = self.places[place as usize].take();
            if connection.as_ref().is_some_and(|c| c.is_watched.get()) {
                self.in_memory.retain(|c| c.key != key)
            }
            if mutated("lost_kept") {
                std::mem::forget(connection.clone())
            }
            self.free.push(place as u32);
            self.door.count.fetch_sub(1, Ordering::Relaxed);
            self.shared.open.fetch_sub(1, Ordering::Relaxed);
            if let Some(c) = connection.filter(|c| c.number.get() != 0) {
                self.shared.keys.take_back(c.number.get());
                let board = &self.shared.database.board;
                let seen = board.leave(c.number.get());
                if let Some(seen) = &seen {
                    board.departed(seen, c.departure.get())
                }
                if c.client.borrow().as_ref().is_some_and(|c| c.in_transaction()) {
                    self.door.meter.rollbacks.add(1)
                }
                if let Some(seen) = seen.filter(|_| self.shared.told().log_disconnections) {
                    let message = format!("disconnection: session time: {:.3} s", seen.seconds());
                    let fields = [("session_s", format!("{:.3}", seen.seconds()))];
                    log::tell(board.form(), "LOG", Some(&seen.subject()), &message, &fields)
                }
            }
        }
    }

    /// Something is ready of a connection.
    fn take(&mut self, ready: Ready, room: &mut [u8; 32 << 10]) {
        let Some(connection) = self.of(ready.key).cloned() else { return };
        let memory = connection.stream.memory();
        if let Some(memory) = memory {
            memory.hear();
            self.watch(&connection)
        }
        let gone = ready.gone || memory.is_some_and(|m| m.is_alone());
        if gone && connection.state.get() != State::Idle {
            // Nobody is there to be answered: it is not to hold what others wait for.
            connection.lost.set(true);
            self.cancel(&connection);
            // It would be told again and again, until its fiber ends; and is, where it cannot be removed.
            let _ = self.poll.remove(&connection.stream);
        }
        if memory.map_or(ready.read || gone, |_| connection.has_news()) {
            connection.receive(room)
        }
        self.touched.borrow_mut().push(ready.key)
    }

    /// Breaks off what it runs, if it does.
    fn cancel(&self, connection: &Connection) {
        if connection.state.get() == State::Running
            && let Some(canceller) = self.shared.keys.of(connection.number.get())
        {
            canceller.cancel()
        }
    }
    /// Looks at one in memory each turn from now on (R4).
    fn watch(&mut self, connection: &Rc<Connection>) {
        if !connection.is_watched.replace(true) {
            self.in_memory.push(connection.clone())
        }
    }
    /// Has the clients of those ring that were not used for a while.
    fn stop_watching(&mut self) {
        let since = self.now().saturating_sub(TO_COOL / 2);
        self.in_memory.retain(|c| {
            let stays = c.last_used.get() > since || c.state.get() != State::Idle || !c.go_to_sleep();
            c.is_watched.set(stays);
            stays
        })
    }

    fn settle_all(&mut self) {
        let touched = std::mem::take(&mut *self.touched.borrow_mut());
        touched.into_iter().for_each(|key| self.settle(key))
    }

    /// Starts fibers, sends, closes: whatever is to be done for a connection now.
    fn settle(&mut self, key: u64) {
        let Some(connection) = self.of(key).cloned() else { return };
        if connection.unsent() > OUTPUT_MOST && connection.can_send() {
            connection.send()
        }
        let is_behind = connection.unsent() > OUTPUT_MOST && !connection.lost.get();
        if connection.state.get() == State::Idle && !connection.closing.get() && !is_behind {
            let whole = connection.client.borrow().as_ref().is_some_and(|c| c.has_work(&connection));
            if whole {
                return self.serve(connection);
            }
            if connection.input.borrow().ended {
                self.end(&connection)
            } else if connection.notified.get()
                && let Some(client) = &mut *connection.client.borrow_mut()
            {
                client.tell_notifications(&connection)
            }
        }
        if connection.can_send() {
            connection.send()
        }
        if connection.lost.get() {
            self.cancel(&connection);
            connection.tell()
        }
        if connection.unsent() > 0 && connection.stream.memory().is_some() {
            self.watch(&connection)
        }
        let is_idle = connection.state.get() == State::Idle;
        if is_idle && (connection.lost.get() || connection.closing.get() && connection.unsent() == 0) {
            return self.close(key);
        }
        let wanted = connection.wanted();
        if wanted != connection.interest.replace(wanted)
            && self.poll.change(&connection.stream, key, wanted).is_err()
        {
            connection.lost.set(true)
        }
    }

    /// R2
    fn serve(&mut self, connection: Rc<Connection>) {
        connection.state.set(State::Running);
        connection.is_warm.set(true);
        let (shared, finished) = (self.shared.clone(), self.finished.clone());
        self.fibers.start(move || {
            let client = connection.client.take();
            let Some(mut client) = client else { return };
            let done = catch_unwind(AssertUnwindSafe(|| client.serve(&connection, &shared)));
            let (served, token) = done.unwrap_or_else(|_| {
                connection.unsay();
                client.lost_its_head(&connection);
                (Served::Over, None)
            });
            *connection.client.borrow_mut() = Some(client);
            finished.borrow_mut().push(Finished { key: connection.key, served, token })
        })
    }

    /// What fibers have left.
    fn finish(&mut self) {
        let finished = std::mem::take(&mut *self.finished.borrow_mut());
        if !finished.is_empty() && self.shared.database.board.some_end() {
            self.door.told.store(true, Ordering::Relaxed)
        }
        for Finished { key, served, token } in finished {
            let Some(connection) = self.of(key).cloned() else { continue };
            connection.last_used.set(self.now());
            if served == Served::Over {
                self.end(&connection)
            }
            let pending = token.map(|t| self.shared.database.poll(t).map(|durable| (t, durable)));
            match pending {
                Some(Ok((token, false))) if !mutated("answered_early") => {
                    connection.state.set(State::Held);
                    connection.held_ns.set(self.door.meter.looked());
                    self.tokens.add(token, key)
                }
                Some(Err(e)) => self.release(key, Err(e)),
                _ => connection.state.set(State::Idle),
            }
            self.touched.borrow_mut().push(key)
        }
    }

    /// The fate of what a connection's answers rest on (server/E3).
    fn release(&mut self, key: u64, fate: SqlResult<()>) {
        let Some(connection) = self.of(key).cloned() else { return };
        if connection.state.get() == State::Held {
            let meter = &self.door.meter;
            meter.waited.add(1, meter.looked().saturating_sub(connection.held_ns.get()))
        }
        connection.state.set(State::Idle);
        if self.shared.database.board.some_end() {
            self.door.told.store(true, Ordering::Relaxed)
        }
        if let Err(e) = fate {
            connection.unsay();
            if let Some(client) = &*connection.client.borrow() {
                client.fatal(&connection, &e)
            }
            self.end(&connection)
        }
        self.touched.borrow_mut().push(key)
    }

    /// Those who are late, and those who are idle.
    fn look_around(&mut self) {
        let now = self.now();
        if now < self.look {
            return;
        }
        self.look = now + TO_COOL / 2;
        self.stop_watching();
        for place in 0..self.places.len() {
            let Some(connection) = &self.places[place] else { continue };
            if connection.state.get() != State::Idle {
                continue;
            }
            let idle = connection.client.borrow().as_ref().and_then(|c| c.idle_limit());
            if let Some((_, why)) = idle.filter(|i| now >= connection.last_used.get() + i.0)
                && !connection.closing.get()
            {
                if let Some(client) = &*connection.client.borrow() {
                    client.fatal(connection, &why)
                }
                self.end(connection);
                self.touched.borrow_mut().push(connection.key)
            } else if connection.deadline.get().is_some_and(|d| now >= d) {
                connection.lost.set(true);
                self.touched.borrow_mut().push(connection.key)
            } else if connection.is_warm.get() && now >= connection.last_used.get() + TO_COOL {
                connection.is_warm.set(false);
                connection.shrink();
                if let Some(client) = &mut *connection.client.borrow_mut() {
                    client.shrink()
                }
            }
        }
    }

    fn dismiss(&self, connection: &Connection) {
        if let Some(client) = &*connection.client.borrow() {
            let why = "terminating connection due to administrator command";
            client.fatal(connection, &SqlError::new(sqlstate::ADMIN_SHUTDOWN, why));
            self.end(connection);
            self.touched.borrow_mut().push(connection.key)
        }
    }
    /// Ends those that somebody has told to end (activity/A2), now or when their statements have.
    fn end_told(&mut self) {
        let board = self.shared.database.board.clone();
        for connection in self.places.iter().flatten().filter(|c| board.is_to_end(c.number.get())) {
            match connection.state.get() {
                State::Idle if !connection.closing.get() => self.dismiss(connection),
                // It may have begun another statement since.
                State::Running => self.cancel(connection),
                State::Idle | State::Held => {}
            }
        }
    }
    /// Ends the sessions that can end now; whether none is left.
    fn end_some(&mut self, end: End) -> bool {
        self.look = Duration::ZERO;
        for place in 0..self.places.len() {
            let Some(connection) = self.places[place].clone() else { continue };
            if end == End::Now {
                // It may have begun another statement since.
                self.cancel(&connection)
            }
            if connection.state.get() != State::Idle {
                continue;
            }
            if connection.closing.get() {
                if end == End::Now {
                    self.close(connection.key)
                }
                continue;
            }
            let is_busy = connection.client.borrow().as_ref().is_none_or(|c| c.in_transaction());
            if end == End::Now || !is_busy {
                self.dismiss(&connection)
            }
        }
        self.settle_all();
        self.places.len() == self.free.len() && self.door.new.lock().is_empty()
    }
}
