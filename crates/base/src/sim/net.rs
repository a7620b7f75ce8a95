//! The network of a world: connections by TCP between clients and the machine that the world's power and
//! disks are of, and what waits for them.
//!
//! ```text
//! a client (connect)   bytes on their way ->   the machine (bind, accept)
//!                      <- bytes on their way
//! ```
//! - **N1** Bytes arrive in their order, each write's after a time that the seed draws. A read gives bytes of
//!   several writes together, and perhaps a part of what is there; a write takes what there is room for, and
//!   perhaps less.
//! - **N2** A connection may be lost after any byte: what was written before arrives, what is written after
//!   does not, though the write succeeds. Each side finds it out in its own time.
//! - **N3** When the power fails, or the process dies, all connections are lost: of what the machine sent and
//!   has not arrived a part still does. Clients are elsewhere: they go on.
//! - **N4** A side that is closed with bytes that it has not read loses what it has sent and has not arrived,
//!   sometimes, as by TCP's reset.
//! - **N5** What a poll waits for is ready as long as it is so. Which of many ready ones it gives, and in
//!   what order, is the seed's. It may return without a reason.
//! - **N6** A connection that two ends in shared memory wake each other by stays on its machine: bytes arrive
//!   at once, so that the other end may be woken between any two steps of this one.
//!
//! What the machine sends and receives are I/O operations ([`super::IoKind`]), at which the power may fail.
use super::random::Random;
use super::world::{IoKind, Strike, World};
use super::{fiber, park, spurious, unpark_all};
use crate::net::{Interest, Ready};
use std::collections::{BTreeMap, VecDeque};
use std::io::{Error, ErrorKind, Result};
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

/// What a world's network is like. Chances are between 0 and 1.
#[derive(Clone, Debug)]
pub struct Network {
    /// Bounds of the simulated time that bytes are on their way, in microseconds.
    pub delay_us: (u64, u64),
    /// How often a read or a write is of a part only.
    pub cut: f64,
    /// Bounds of the bytes that one direction of a connection holds.
    pub room: (u64, u64),
    /// The chance that a connection is lost by itself.
    pub lost: f64,
    /// After how many bytes of one direction, at most.
    pub lost_within: u64,
    /// Bounds of the time until a side finds out that its connection is lost, in microseconds.
    pub notice_us: (u64, u64),
}

impl Default for Network {
    fn default() -> Network {
        Network {
            delay_us: (1, 50),
            cut: 0.0,
            room: (64 << 10, 64 << 10),
            lost: 0.0,
            lost_within: 4 << 10,
            notice_us: (1, 1000),
        }
    }
}

const CLIENT: usize = 0;
const MACHINE: usize = 1;

/// What a world has of its network.
pub(super) struct Net {
    r: Random,
    last: u64,
    port: u16,
    listeners: BTreeMap<u16, Weak<Listening>>,
    links: Vec<Weak<Link>>,
}

impl Net {
    pub fn new(r: Random) -> Net {
        Net { r, last: 0, port: 40_000, listeners: BTreeMap::new(), links: vec![] }
    }
    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
    fn between(&mut self, (from, to): (u64, u64)) -> u64 {
        from + self.r.below(to.saturating_sub(from) + 1)
    }
}

impl World {
    fn net(&self) -> MutexGuard<'_, Net> {
        self.net.lock().unwrap_or_else(|e| e.into_inner())
    }
    fn draw_us(&self, bounds: (u64, u64)) -> u64 {
        1000 * self.net().between(bounds)
    }
    fn cuts(&self) -> bool {
        let p = self.config().net.cut;
        self.net().r.chance(p)
    }
    /// N3
    pub(super) fn links_lost(&self) {
        let links = std::mem::take(&mut self.net().links);
        for link in links.iter().filter_map(Weak::upgrade) {
            let now = self.now_ns();
            let ahead: usize = link.state().pipes[CLIENT].on_the_way(now);
            let kept = self.net().r.below(ahead as u64 + 1) as usize;
            let notice = now + self.draw_us(self.config().net.notice_us);
            let mut state = link.state();
            let pipe = &mut state.pipes[CLIENT];
            pipe.keep(now, kept);
            pipe.end_at = None;
            pipe.is_dead = true;
            let notice = notice.max(pipe.last_at);
            state.pipes[MACHINE].is_dead = true;
            state.lost = [Some(state.lost[CLIENT].map_or(notice, |l| l.min(notice))), Some(now)];
            drop(state);
            link.wake()
        }
    }
}

fn world() -> Result<Arc<World>> {
    super::current().ok_or_else(|| Error::other("a simulated connection is used outside of its world"))
}

/// One direction, by who reads it.
#[derive(Default)]
struct Pipe {
    /// When each arrives.
    pieces: VecDeque<(u64, VecDeque<u8>)>,
    bytes: usize,
    room: usize,
    /// When the last arrives.
    last_at: u64,
    written: u64,
    /// The connection is lost behind so many bytes.
    lost_at: Option<u64>,
    /// What is written goes nowhere (N2).
    is_dead: bool,
    /// Its end arrives then.
    end_at: Option<u64>,
}

impl Pipe {
    fn arrived(&self, now: u64) -> usize {
        self.pieces.iter().take_while(|p| p.0 <= now).map(|p| p.1.len()).sum()
    }
    fn on_the_way(&self, now: u64) -> usize {
        self.bytes - self.arrived(now)
    }
    /// Of the bytes on their way, only so many arrive.
    fn keep(&mut self, now: u64, kept: usize) {
        let mut left = self.arrived(now) + kept;
        for piece in &mut self.pieces {
            piece.1.truncate(left);
            left -= piece.1.len()
        }
        self.pieces.retain(|p| !p.1.is_empty());
        self.bytes = self.pieces.iter().map(|p| p.1.len()).sum()
    }
    fn take(&mut self, room: &mut [u8]) {
        for b in room {
            while self.pieces.front().is_some_and(|p| p.1.is_empty()) {
                self.pieces.pop_front();
            }
            if let Some(byte) = self.pieces.front_mut().and_then(|p| p.1.pop_front()) {
                *b = byte;
                self.bytes -= 1
            }
        }
        if self.pieces.front().is_some_and(|p| p.1.is_empty()) {
            self.pieces.pop_front();
        }
    }
    fn ended(&self, now: u64) -> bool {
        self.end_at.is_some_and(|at| at <= now)
    }
}

struct Link {
    number: u64,
    state: Mutex<LinkState>,
}

struct LinkState {
    /// By who reads.
    pipes: [Pipe; 2],
    /// When each side finds out that the connection is lost.
    lost: [Option<u64>; 2],
    closed: [bool; 2],
    /// Whom to wake when something changes, by addresses.
    watchers: Vec<usize>,
    /// N6
    is_near: bool,
}

impl Link {
    fn state(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
    fn wake(&self) {
        let watchers = self.state().watchers.clone();
        watchers.into_iter().chain([self.address()]).for_each(unpark_all)
    }
}

impl LinkState {
    fn is_lost(&self, side: usize, now: u64) -> bool {
        self.lost[side].is_some_and(|at| at <= now)
    }
    fn is_readable(&self, side: usize, now: u64) -> bool {
        self.pipes[side].arrived(now) > 0 || self.pipes[side].ended(now) || self.is_lost(side, now)
    }
    fn is_writable(&self, side: usize, now: u64) -> bool {
        let pipe = &self.pipes[1 - side];
        pipe.bytes < pipe.room || self.is_lost(side, now)
    }
    /// When something may become so that is not.
    fn next(&self, side: usize, now: u64) -> u64 {
        let pipe = &self.pipes[side];
        let piece = pipe.pieces.iter().map(|p| p.0).find(|at| *at > now);
        let times = [piece, pipe.end_at, self.lost[side]];
        times.into_iter().flatten().filter(|at| *at > now).min().unwrap_or(u64::MAX)
    }
    /// The connection is lost, and each side finds it out then.
    fn lose(&mut self, at: [u64; 2]) {
        for side in [CLIENT, MACHINE] {
            self.pipes[side].is_dead = true;
            self.lost[side] = Some(self.lost[side].map_or(at[side], |l| l.min(at[side])))
        }
    }
}

/// A side of a connection.
pub(crate) struct Stream {
    link: Arc<Link>,
    side: usize,
    is_nonblocking: AtomicBool,
    read_limit: Mutex<Option<Duration>>,
}

impl Stream {
    fn of(link: &Arc<Link>, side: usize) -> Stream {
        let (is_nonblocking, read_limit) = (AtomicBool::new(false), Mutex::new(None));
        Stream { link: link.clone(), side, is_nonblocking, read_limit }
    }
    pub fn connect(to: SocketAddr) -> Result<Stream> {
        let world = world()?;
        super::yield_now("a connection", Location::caller());
        let refused = || Error::from(ErrorKind::ConnectionRefused);
        if world.power_is_lost() {
            return Err(refused());
        }
        let config = &world.config().net;
        let mut net = world.net();
        let listener = net.listeners.get(&to.port()).and_then(Weak::upgrade).ok_or_else(refused)?;
        let (number, at) = (net.number(), world.now_ns() + 1000 * net.between(config.delay_us));
        let mut pipes: [Pipe; 2] = Default::default();
        for pipe in &mut pipes {
            pipe.room = net.between(config.room).max(1) as usize
        }
        if net.r.chance(config.lost) {
            // Connections are short: early bytes are lost as often as all others together.
            let most = net.r.below(config.lost_within) + 1;
            pipes[net.r.below(2) as usize].lost_at = Some(net.r.below(most))
        }
        net.port = if net.port == u16::MAX { 40_000 } else { net.port + 1 };
        let from = SocketAddr::from((Ipv4Addr::LOCALHOST, net.port));
        let state =
            LinkState { pipes, lost: [None; 2], closed: [false; 2], watchers: vec![], is_near: false };
        let link = Arc::new(Link { number, state: Mutex::new(state) });
        net.links.retain(|l| l.strong_count() > 0);
        net.links.push(Arc::downgrade(&link));
        drop(net);
        world.inner().note(number | 4 << 32, || format!("connection {number}"));
        listener.state().0.push_back((at, link.clone(), from));
        listener.wake();
        Ok(Stream::of(&link, CLIENT))
    }
    pub fn set_nonblocking(&self, on: bool) {
        self.is_nonblocking.store(on, Ordering::Relaxed)
    }
    pub fn set_read_timeout(&self, limit: Option<Duration>) {
        *self.read_limit.lock().unwrap_or_else(|e| e.into_inner()) = limit
    }
    pub fn watched(&self) -> Watched {
        Watched(Of::Link(self.link.clone(), self.side))
    }

    /// An operation begins: of the machine's, perhaps the power fails.
    #[track_caller]
    fn begin(&self, kind: IoKind, bytes: usize) -> Result<(Arc<World>, Strike)> {
        let world = world()?;
        let strike = match self.side {
            MACHINE => world.begin_io(kind, "net", "", self.link.number << 32 | bytes as u64)?,
            _ => {
                super::yield_now("a network operation", Location::caller());
                Strike::None
            }
        };
        Ok((world, strike))
    }
    fn end(&self, world: &World, kind: IoKind, result: &Result<usize>, bytes: &[u8]) {
        if self.side == MACHINE {
            world.end_io(kind, result)
        }
        let n = *result.as_ref().unwrap_or(&0);
        let code = u64::from(crate::crc::raw(&bytes[..n])) << 20 | n as u64;
        let (side, number) = (self.side, self.link.number);
        world.inner().note(code, || format!("  {kind:?} of {number}, side {side}: {n} bytes {code:x}"))
    }

    pub fn read(&self, room: &mut [u8]) -> Result<usize> {
        let (world, strike) = self.begin(IoKind::Receive, room.len())?;
        if strike == Strike::Midst {
            world.power_failure();
            return Err(World::power_lost());
        }
        let limit = *self.read_limit.lock().unwrap_or_else(|e| e.into_inner());
        let deadline = limit.map(|l| world.now_ns() + l.as_nanos() as u64);
        let result = loop {
            let now = world.now_ns();
            let is_cut = world.cuts();
            let mut state = self.link.state();
            let arrived = state.pipes[self.side].arrived(now);
            if arrived > 0 && !room.is_empty() {
                let mut n = arrived.min(room.len());
                if is_cut {
                    n = 1 + world.net().r.below(n as u64) as usize
                }
                state.pipes[self.side].take(&mut room[..n]);
                break Ok(n);
            }
            if state.is_lost(self.side, now) {
                // By a reset, or by an end that nobody meant.
                break if self.link.number.is_multiple_of(2) {
                    Err(ErrorKind::ConnectionReset.into())
                } else {
                    Ok(0)
                };
            }
            if state.pipes[self.side].ended(now) || room.is_empty() {
                break Ok(0);
            }
            let next = state.next(self.side, now).min(deadline.unwrap_or(u64::MAX));
            drop(state);
            if self.is_nonblocking.load(Ordering::Relaxed) || deadline.is_some_and(|d| d <= now) {
                break Err(ErrorKind::WouldBlock.into());
            }
            let limit = (next != u64::MAX).then(|| Duration::from_nanos(next - now));
            park(self.link.address(), limit, "bytes of a connection", Location::caller());
        };
        self.end(&world, IoKind::Receive, &result, room);
        self.link.wake();
        result
    }

    pub fn write(&self, bytes: &[u8]) -> Result<usize> {
        let (world, strike) = self.begin(IoKind::Send, bytes.len())?;
        let config = &world.config().net;
        let result = loop {
            let now = world.now_ns();
            let (is_cut, delay) = (world.cuts(), world.draw_us(config.delay_us));
            let notice = [0, 1].map(|_| now + world.draw_us(config.notice_us));
            let mut state = self.link.state();
            if state.is_lost(self.side, now) {
                break Err(ErrorKind::BrokenPipe.into());
            }
            if state.closed[1 - self.side] {
                // It is told so, and this side finds out.
                state.lose(notice);
                break Ok(bytes.len());
            }
            let is_near = state.is_near;
            let pipe = &mut state.pipes[1 - self.side];
            let mut n = bytes.len().min(pipe.room - pipe.bytes.min(pipe.room));
            if n > 0 && is_cut {
                n = 1 + world.net().r.below(n as u64) as usize
            }
            if n > 0 || bytes.is_empty() {
                // What arrives of it (N2).
                let left = pipe.lost_at.map_or(u64::MAX, |at| at - pipe.written.min(at));
                let kept = if pipe.is_dead { 0 } else { n.min(left as usize) };
                pipe.written += n as u64;
                if kept > 0 {
                    pipe.last_at = if is_near { now } else { pipe.last_at.max(now + delay) };
                    pipe.pieces.push_back((pipe.last_at, bytes[..kept].iter().copied().collect()));
                    pipe.bytes += kept
                }
                if kept < n && !pipe.is_dead {
                    state.lose(notice)
                }
                break Ok(n);
            }
            let next = state.lost[self.side].unwrap_or(u64::MAX);
            drop(state);
            if self.is_nonblocking.load(Ordering::Relaxed) {
                break Err(ErrorKind::WouldBlock.into());
            }
            let limit = (next != u64::MAX).then(|| Duration::from_nanos(next.saturating_sub(now)));
            park(self.link.address(), limit, "room in a connection", Location::caller());
        };
        self.end(&world, IoKind::Send, &result, bytes);
        self.link.wake();
        if strike == Strike::Midst {
            world.power_failure();
            return Err(World::power_lost());
        }
        result
    }

    /// N6, for what is written from now on.
    pub fn stay_near(&self) {
        self.link.state().is_near = true
    }
    /// The other side reads an end, then.
    pub fn shutdown(&self, how: Shutdown) -> Result<()> {
        let world = world()?;
        if how != Shutdown::Read {
            let at = world.now_ns() + world.draw_us(world.config().net.delay_us);
            let mut state = self.link.state();
            let pipe = &mut state.pipes[1 - self.side];
            if !pipe.is_dead && pipe.end_at.is_none() {
                pipe.end_at = Some(at.max(pipe.last_at))
            }
            drop(state);
            self.link.wake()
        }
        Ok(())
    }
    /// The connection is lost, and the other side finds it out in its time.
    pub fn reset(&self) -> Result<()> {
        let world = world()?;
        let now = world.now_ns();
        let notice = now + world.draw_us(world.config().net.notice_us);
        let mut at = [now; 2];
        at[1 - self.side] = notice.max(self.link.state().pipes[1 - self.side].last_at);
        self.link.state().lose(at);
        self.link.wake();
        Ok(())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let Some(world) = super::current() else { return };
        let has_unread = self.link.state().pipes[self.side].bytes > 0;
        self.link.state().closed[self.side] = true;
        // N4
        if has_unread && world.net().r.chance(0.3) {
            let now = world.now_ns();
            let mut state = self.link.state();
            state.pipes[1 - self.side].keep(now, 0);
            state.lose([now; 2]);
            drop(state);
            self.link.wake()
        } else {
            // It cannot fail: this is a world.
            let _ = self.shutdown(Shutdown::Write);
        }
    }
}

type Coming = VecDeque<(u64, Arc<Link>, SocketAddr)>;

struct Listening {
    number: u64,
    address: SocketAddr,
    /// Connections that were not taken, with when each arrives, and whom to wake.
    state: Mutex<(Coming, Vec<usize>)>,
}

impl Listening {
    fn state(&self) -> MutexGuard<'_, (Coming, Vec<usize>)> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
    fn wake(&self) {
        let watchers = self.state().1.clone();
        watchers.into_iter().for_each(unpark_all)
    }
}

pub(crate) struct Listener(Arc<Listening>);

impl Listener {
    pub fn bind(at: SocketAddr) -> Result<Listener> {
        let world = world()?;
        let mut net = world.net();
        let number = net.number();
        let port = if at.port() == 0 { 30_000 + number as u16 } else { at.port() };
        let taken = net.listeners.get(&port).is_some_and(|l| l.strong_count() > 0);
        if taken {
            return Err(ErrorKind::AddrInUse.into());
        }
        let address = SocketAddr::new(at.ip(), port);
        let listening = Arc::new(Listening { number, address, state: Mutex::default() });
        net.listeners.insert(port, Arc::downgrade(&listening));
        Ok(Listener(listening))
    }
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }
    pub fn watched(&self) -> Watched {
        Watched(Of::Listener(self.0.clone()))
    }
    /// Does not wait.
    pub fn accept(&self) -> Result<(Stream, SocketAddr)> {
        let world = world()?;
        super::yield_now("a network operation", Location::caller());
        let now = world.now_ns();
        let mut state = self.0.state();
        match state.0.front() {
            Some((at, ..)) if *at <= now => {}
            _ => return Err(ErrorKind::WouldBlock.into()),
        }
        match state.0.pop_front() {
            Some((_, link, from)) => Ok((Stream::of(&link, MACHINE), from)),
            None => Err(ErrorKind::WouldBlock.into()),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let Some(world) = super::current() else { return };
        let now = world.now_ns();
        // Nobody takes them any more.
        let coming = std::mem::take(&mut self.0.state().0);
        for (_, link, _) in coming {
            link.state().lose([now; 2]);
            link.wake()
        }
    }
}

struct Flagged {
    number: u64,
    is_set: AtomicBool,
    watchers: Mutex<Vec<usize>>,
}

/// An event of a world.
pub(crate) struct Flag(Arc<Flagged>);

impl Flag {
    /// None outside a world.
    pub fn new() -> Option<Flag> {
        let number = super::current()?.net().number();
        let (is_set, watchers) = (AtomicBool::new(false), Mutex::default());
        Some(Flag(Arc::new(Flagged { number, is_set, watchers })))
    }
    pub fn set(&self, stands: bool) {
        self.0.is_set.store(stands, Ordering::Relaxed);
        if stands {
            let watchers = self.0.watchers.lock().unwrap_or_else(|e| e.into_inner()).clone();
            watchers.into_iter().for_each(unpark_all)
        }
    }
    pub fn watched(&self) -> Watched {
        Watched(Of::Flag(self.0.clone()))
    }
}

/// What a poll waits for.
#[derive(Clone)]
pub struct Watched(Of);
#[derive(Clone)]
enum Of {
    Link(Arc<Link>, usize),
    Listener(Arc<Listening>),
    Flag(Arc<Flagged>),
}

impl Watched {
    fn number(&self) -> (u64, usize) {
        match &self.0 {
            Of::Link(l, side) => (l.number, *side),
            Of::Listener(l) => (l.number, 0),
            Of::Flag(f) => (f.number, 0),
        }
    }
    fn is_closed(&self) -> bool {
        matches!(&self.0, Of::Link(l, side) if l.state().closed[*side])
    }
    fn watch(&self, at: usize, on: bool) {
        let change = |watchers: &mut Vec<usize>| {
            watchers.retain(|w| *w != at);
            if on {
                watchers.push(at)
            }
        };
        match &self.0 {
            Of::Link(l, _) => change(&mut l.state().watchers),
            Of::Listener(l) => change(&mut l.state().1),
            Of::Flag(f) => change(&mut f.watchers.lock().unwrap_or_else(|e| e.into_inner())),
        }
    }
    /// What of it is ready, and when something else may be.
    fn look(&self, now: u64, interest: Interest) -> (Ready, u64) {
        let ready = |read, write, gone| Ready { key: 0, read, write, gone };
        match &self.0 {
            Of::Link(l, side) => {
                let state = l.state();
                let read = interest.read && state.is_readable(*side, now);
                let write = interest.write && state.is_writable(*side, now);
                (ready(read, write, state.is_lost(*side, now)), state.next(*side, now))
            }
            Of::Listener(l) => {
                let at = l.state().0.front().map_or(u64::MAX, |c| c.0);
                (ready(interest.read && at <= now, false, false), if at > now { at } else { u64::MAX })
            }
            Of::Flag(f) => {
                let read = interest.read && f.is_set.load(Ordering::Relaxed);
                (ready(read, false, false), u64::MAX)
            }
        }
    }
}

type Waited = BTreeMap<(u64, usize), (Watched, u64, Interest)>;

pub(crate) struct Poll(Box<Mutex<Waited>>);

impl Poll {
    /// None outside a world.
    pub fn new() -> Option<Poll> {
        super::current()?;
        Some(Poll(Box::default()))
    }
    fn waited(&self) -> MutexGuard<'_, Waited> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
    fn address(&self) -> usize {
        std::ptr::from_ref(&*self.0).addr()
    }
    pub fn put(&self, of: Watched, key: u64, interest: Interest, is_new: bool) -> Result<()> {
        let mut waited = self.waited();
        if waited.contains_key(&of.number()) == is_new {
            let kind = if is_new { ErrorKind::AlreadyExists } else { ErrorKind::NotFound };
            return Err(kind.into());
        }
        of.watch(self.address(), true);
        waited.insert(of.number(), (of, key, interest));
        drop(waited);
        // Its waiter may sleep.
        unpark_all(self.address());
        Ok(())
    }
    pub fn remove(&self, of: &Watched) -> Result<()> {
        of.watch(self.address(), false);
        match self.waited().remove(&of.number()) {
            Some(_) => Ok(()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }
    #[track_caller]
    pub fn wait(&self, ready: &mut Vec<Ready>, most: usize, limit: Option<Duration>) {
        super::yield_now("a poll", Location::caller());
        let Some(now) = fiber::with(|c| c.world.now_ns()) else { return };
        let deadline = limit.map(|l| now.saturating_add(l.as_nanos() as u64));
        loop {
            let Some(world) = super::current() else { return };
            let now = world.now_ns();
            let mut next = deadline.unwrap_or(u64::MAX);
            self.waited().retain(|_, (of, ..)| !of.is_closed());
            for (of, key, interest) in self.waited().values() {
                let (found, later) = of.look(now, *interest);
                next = next.min(later);
                if found.read || found.write || found.gone {
                    ready.push(Ready { key: *key, ..found })
                }
            }
            if !ready.is_empty() {
                // N5
                let mut net = world.net();
                for i in (1..ready.len()).rev() {
                    ready.swap(i, net.r.below(i as u64 + 1) as usize)
                }
                if ready.len() > 1 && net.r.chance(world.config().net.cut) {
                    let n = net.r.below(ready.len() as u64) as usize + 1;
                    ready.truncate(n)
                }
                return ready.truncate(most);
            }
            if deadline.is_some_and(|d| d <= now) || spurious() == Some(true) {
                return;
            }
            let limit = (next != u64::MAX).then(|| Duration::from_nanos(next - now));
            park(self.address(), limit, "what a poll waits for", Location::caller());
        }
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        self.waited().values().for_each(|(of, ..)| of.watch(self.address(), false))
    }
}
