//! Two streams of bytes between two processes of a machine, in memory that both have: what one writes, the
//! other takes without the system's help.
//!
//! ```text
//! 0      the client's line: bytes it has written, bytes it has taken, what it waits for
//! 128    the server's
//! 4096   the client's bytes, going round          4096 + SIZE   the server's
//! ```
//! - **H1** Each end keeps to itself how many bytes it has written and taken, and only shows it to the other:
//!   whatever the other writes over that changes nothing.
//! - **H2** What the other end shows is believed within bounds: it has written at most [`SIZE`] bytes more
//!   than were taken, and taken what was written, but for at most [`SIZE`] bytes. Anything else is an error,
//!   and the end of both streams.
//! - **H3** Bytes are copied out before anybody looks at them: the other end may change them at any time.
//! - **H4** Who is about to sleep says for what, and then looks once more; who has written or taken bytes
//!   shows it, and then looks whether the other said so. Between the two steps each has a fence, so that one
//!   of them sees the other.
//! - **H5** The bell is the socket over which the memory came: a byte wakes the other end, whatever it is,
//!   and its closing, which the system does for whoever is killed, is the end. What was written before that
//!   can still be taken.
//! - **H6** The memory's size is sealed: nobody can cut it under the other, whose access would be an error of
//!   the bus. A page that was never touched, or that a client gave back to the system, is made when it is:
//!   only a system that counts every page it promised and has none left ends a process for that.
//!
//! A client can do to its own streams whatever it likes; all that it can do to the server is to ring.
//!
//! In a simulated world the memory is the world's, and the socket a connection by TCP. Between any two steps
//! others have their turn, and an end may be killed ([`End::kill_after`]).
use crate::net::{Descriptor, Interest, Poll, Source, TcpStream};
use crate::sim::mutated;
use crate::sync::yield_point;
use crate::{clock, sim};
use std::cell::{Cell, UnsafeCell};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

/// Bytes of each stream that can be on their way; a power of two.
pub const SIZE: usize = 128 << 10;
const HEAD: usize = 4096;
const WHOLE: usize = HEAD + 2 * SIZE;

/// What a client sends first over the socket, in the place of a startup packet: a length, and a code far from
/// the versions of PostgreSQL's protocol and the codes that it has or may get.
pub const REQUEST: [u8; 8] = [0, 0, 0, 8, 0x4f, 0x6e, 0, 1];

/// What the server answers to a wish for such memory: it comes with this byte, or there is none.
pub const GIVEN: u8 = b'M';
pub const REFUSED: u8 = b'N';

/// Whose end it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    Client,
    Server,
}

/// What an end shows.
#[repr(C, align(128))]
struct Line {
    written: AtomicU64,
    taken: AtomicU64,
    waits: AtomicU32,
}

const FOR_INPUT: u32 = 1;
const FOR_ROOM: u32 = 2;

/// What the ends talk by before they have memory, and wake each other by afterwards.
pub enum Bell {
    System(UnixStream),
    /// Of a simulated world.
    World(TcpStream),
}

impl Bell {
    /// Reads what has come, without waiting.
    fn take(&self, room: &mut [u8]) -> Result<usize> {
        match self {
            Bell::System(s) => {
                let (fd, place) = (s.as_raw_fd(), room.as_mut_ptr().cast());
                // SAFETY: as many bytes to write as are told.
                let n = unsafe { libc::recv(fd, place, room.len(), libc::MSG_DONTWAIT) };
                usize::try_from(n).map_err(|_| Error::last_os_error())
            }
            Bell::World(s) => {
                s.set_nonblocking(true)?;
                (&mut &*s).read(room)
            }
        }
    }
    /// Whether the other end will wake: also where so many bytes are on their way that there is no room.
    fn ring(&self) -> bool {
        let rung = match self {
            Bell::System(s) => {
                let (byte, how) = (0u8, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
                // SAFETY: a byte to read.
                match unsafe { libc::send(s.as_raw_fd(), (&raw const byte).cast(), 1, how) } {
                    1 => Ok(1),
                    _ => Err(Error::last_os_error()),
                }
            }
            Bell::World(s) => s.set_nonblocking(true).and_then(|()| (&mut &*s).write(&[0])),
        };
        rung.map_or_else(|e| e.kind() == ErrorKind::WouldBlock, |_| true)
    }
    /// Waits until something has come, or it is over, or for so long; sometimes less.
    fn wait(&self, limit: Option<Duration>) -> Result<()> {
        let Bell::System(s) = self else {
            let (poll, mut ready) = (Poll::new()?, vec![]);
            poll.add(self, 0, Interest::READ)?;
            return poll.wait(&mut ready, limit);
        };
        let ms = limit
            .map_or(-1, |l| libc::c_int::try_from(l.as_micros().div_ceil(1000)).unwrap_or(libc::c_int::MAX));
        let mut bell = libc::pollfd { fd: s.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor to look at.
        match unsafe { libc::poll(&mut bell, 1, ms) } {
            0.. => Ok(()),
            _ => match Error::last_os_error() {
                e if e.kind() == ErrorKind::Interrupted => Ok(()),
                e => Err(e),
            },
        }
    }
}

impl Source for Bell {
    fn descriptor(&self) -> Descriptor<'_> {
        match self {
            Bell::System(s) => s.descriptor(),
            Bell::World(s) => s.descriptor(),
        }
    }
}

impl From<UnixStream> for Bell {
    fn from(socket: UnixStream) -> Bell {
        Bell::System(socket)
    }
}

/// A part of a world's memory, aligned as the system's is; only where it is counts.
#[repr(align(4096))]
struct Part(#[expect(dead_code)] UnsafeCell<[u8; 4096]>);

/// The memory of two streams in a simulated world.
pub(crate) struct Block(Box<[Part]>);
// SAFETY: as of `Memory`, which alone looks into it.
unsafe impl Sync for Block {}

impl Block {
    fn new() -> Arc<Block> {
        let part = || Part(UnsafeCell::new([0; 4096]));
        Arc::new(Block((0..WHOLE / size_of::<Part>()).map(|_| part()).collect()))
    }
}

/// The memory, from its making to its drop.
struct Memory {
    at: *mut u8,
    /// Whose it is; if nobody's, it is mapped.
    world: Option<Arc<Block>>,
}
// SAFETY: it is accessed through atomics, and by copies of ranges that only one end writes at a time (H2).
unsafe impl Send for Memory {}

impl Memory {
    fn map(fd: BorrowedFd<'_>) -> Result<Memory> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (fd, share) = (fd.as_raw_fd(), libc::MAP_SHARED);
        // SAFETY: a fresh mapping at an address that the kernel chooses; the descriptor is only borrowed.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), WHOLE, access, share, fd, 0) };
        if at == libc::MAP_FAILED {
            Err(Error::last_os_error())
        } else {
            Ok(Memory { at: at.cast(), world: None })
        }
    }
    fn of_world(block: Arc<Block>) -> Memory {
        Memory { at: block.0.as_ptr().cast_mut().cast(), world: Some(block) }
    }
    fn line(&self, side: Side) -> &Line {
        // SAFETY: both lie in the memory, aligned, and consist of atomics, for which any bytes are good.
        unsafe { &*self.at.add(if side == Side::Client { 0 } else { size_of::<Line>() }).cast() }
    }
    /// Where the bytes that this side writes begin.
    fn bytes(&self, side: Side) -> *mut u8 {
        // SAFETY: within the memory.
        unsafe { self.at.add(if side == Side::Client { HEAD } else { HEAD + SIZE }) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.world.is_none() {
            // SAFETY: mapped by `map`, and unmapped once.
            unsafe { libc::munmap(self.at.cast(), WHOLE) };
        }
    }
}

/// The memory of two streams, sealed (H6).
fn make() -> Result<OwnedFd> {
    // SAFETY: the name ends with a zero.
    let fd =
        unsafe { libc::memfd_create(c"ondol-streams".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if fd < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: a descriptor that was just made, and is nobody else's.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: these take no pointers.
    let failed = unsafe {
        libc::ftruncate(fd.as_raw_fd(), WHOLE as libc::off_t) != 0
            || libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) != 0
    };
    if failed { Err(Error::last_os_error()) } else { Ok(fd) }
}

/// Room for one descriptor beside a message, aligned as the system wants it.
#[repr(align(8))]
struct Beside([u8; 32]);

/// Bytes of one descriptor beside a message.
const DESCRIPTOR: u32 = size_of::<libc::c_int>() as u32;

/// Has `f` send or receive a message of one byte, with so much room beside it.
fn with_message<R>(byte: &mut [u8; 1], room: u32, f: impl FnOnce(&mut libc::msghdr) -> R) -> R {
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let mut beside = Beside([0; 32]);
    debug_assert!(room as usize <= beside.0.len());
    // SAFETY: an all-zero value is one.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    message.msg_control = beside.0.as_mut_ptr().cast();
    message.msg_controllen = room as _;
    f(&mut message)
}

/// A message of one byte, and with it the memory.
fn hand_over(socket: &UnixStream, memory: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: arithmetic.
    let room = unsafe { libc::CMSG_SPACE(DESCRIPTOR) };
    // SAFETY: room for a head and a descriptor is there, and all that the message points to lives until the
    // call is over.
    let sent = with_message(&mut [GIVEN], room, |message| unsafe {
        let head = libc::CMSG_FIRSTHDR(message);
        (*head).cmsg_level = libc::SOL_SOCKET;
        (*head).cmsg_type = libc::SCM_RIGHTS;
        (*head).cmsg_len = libc::CMSG_LEN(DESCRIPTOR) as _;
        libc::CMSG_DATA(head).cast::<libc::c_int>().write_unaligned(memory.as_raw_fd());
        libc::sendmsg(socket.as_raw_fd(), message, libc::MSG_NOSIGNAL)
    });
    if sent == 1 { Ok(()) } else { Err(Error::last_os_error()) }
}

/// Takes what [`hand_over`] sends; `None` where the other end refused.
fn take_over(socket: &UnixStream) -> Result<Option<OwnedFd>> {
    let mut byte = [0u8];
    // Room for one descriptor: the system drops whatever else comes.
    // SAFETY: arithmetic.
    let whole = unsafe { libc::CMSG_LEN(DESCRIPTOR) };
    let found = with_message(&mut byte, whole, |message| {
        loop {
            // SAFETY: all that the message points to lives until the call is over.
            match unsafe { libc::recvmsg(socket.as_raw_fd(), message, libc::MSG_CMSG_CLOEXEC) } {
                1 => break,
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                _ => match Error::last_os_error() {
                    e if e.kind() == ErrorKind::Interrupted => {}
                    e => return Err(e),
                },
            }
        }
        // SAFETY: what the system wrote into the room that it was given.
        Ok(unsafe {
            let head = libc::CMSG_FIRSTHDR(message);
            let is_there = !head.is_null()
                && (*head).cmsg_level == libc::SOL_SOCKET
                && (*head).cmsg_type == libc::SCM_RIGHTS
                && (*head).cmsg_len as usize == whole as usize;
            // A descriptor that was made for this process just now.
            is_there
                .then(|| OwnedFd::from_raw_fd(libc::CMSG_DATA(head).cast::<libc::c_int>().read_unaligned()))
        })
    })?;
    match (byte[0], found) {
        (GIVEN, Some(fd)) => Ok(Some(fd)),
        (REFUSED, _) => Ok(None),
        (other, _) => Err(Error::new(
            ErrorKind::InvalidData,
            format!("expected memory from the server (M) or a refusal (N), found byte {other}"),
        )),
    }
}

/// Whether the memory is as the server makes it (H6): else an access could be an error.
fn check(memory: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: an all-zero value is one; the call writes to it, and the other takes no pointers.
    let (size, seals) = unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        let size = match libc::fstat(memory.as_raw_fd(), &mut found) {
            0 => found.st_size as usize,
            _ => 0,
        };
        (size, libc::fcntl(memory.as_raw_fd(), libc::F_GET_SEALS))
    };
    if size == WHOLE && seals >= 0 && seals & libc::F_SEAL_SHRINK != 0 {
        return Ok(());
    }
    let message = format!("expected sealed memory of {WHOLE} bytes, found {size} bytes, seals {seals:#x}");
    Err(Error::new(ErrorKind::InvalidData, message))
}

/// One end of both streams.
pub struct End {
    memory: Memory,
    side: Side,
    bell: Bell,
    /// H1
    written: Cell<u64>,
    taken: Cell<u64>,
    /// The other end is gone (H5).
    is_alone: Cell<bool>,
    /// Of a simulated world: how many steps more it goes.
    steps: Cell<u32>,
}

impl End {
    /// The server's: makes the memory, and hands it over the socket, which is the bell from then on.
    pub fn offer(socket: impl Into<Bell>) -> std::result::Result<End, (Bell, Error)> {
        let socket = socket.into();
        let made = match &socket {
            Bell::System(s) => make()
                .and_then(|fd| Ok((Memory::map(fd.as_fd())?, hand_over(s, fd.as_fd())?)))
                .map(|made| made.0),
            Bell::World(s) => sim::lend(s, Block::new()).map(Memory::of_world),
        };
        match made {
            Ok(memory) => Ok(End::new(memory, Side::Server, socket)),
            Err(e) => Err((socket, e)),
        }
    }
    /// The client's: takes the memory that comes over the socket; `None` where the server gives none. Waits
    /// for the answer as the socket's reads do.
    pub fn accept(socket: impl Into<Bell>) -> Result<Option<End>> {
        let socket = socket.into();
        let memory = match &socket {
            Bell::System(s) => {
                let Some(fd) = take_over(s)? else { return Ok(None) };
                check(fd.as_fd())?;
                Memory::map(fd.as_fd())?
            }
            Bell::World(s) => match sim::borrow(s)? {
                Some(block) => Memory::of_world(block),
                None => return Ok(None),
            },
        };
        Ok(Some(End::new(memory, Side::Client, socket)))
    }
    fn new(memory: Memory, side: Side, bell: Bell) -> End {
        let (written, taken, is_alone, steps) =
            (Cell::new(0), Cell::new(0), Cell::new(false), Cell::new(u32::MAX));
        End { memory, side, bell, written, taken, is_alone, steps }
    }
    pub fn bell(&self) -> &Bell {
        &self.bell
    }
    /// In a simulated world: the end goes so many steps more. Then it does nothing to the memory, nor rings,
    /// and each call is an error, as if its process had been killed; that it is dropped closes the bell.
    pub fn kill_after(&self, steps: u32) {
        self.steps.set(steps)
    }
    /// Between two things that are done to the memory.
    #[inline]
    fn step(&self) -> Result<()> {
        if sim::any() { self.step_in_world() } else { Ok(()) }
    }
    #[cold]
    fn step_in_world(&self) -> Result<()> {
        yield_point();
        match self.steps.get() {
            u32::MAX => Ok(()),
            0 => Err(Error::new(ErrorKind::BrokenPipe, "this end was killed")),
            n => {
                self.steps.set(n - 1);
                Ok(())
            }
        }
    }

    fn other(&self) -> Side {
        if self.side == Side::Client { Side::Server } else { Side::Client }
    }
    fn theirs(&self) -> &Line {
        self.memory.line(self.other())
    }
    fn own(&self) -> &Line {
        self.memory.line(self.side)
    }
    /// Bytes that can be taken.
    ///
    /// # Errors
    /// If the other end shows what cannot be (H2).
    #[inline]
    pub fn input(&self) -> Result<usize> {
        let there = self.theirs().written.load(Ordering::Acquire).wrapping_sub(self.taken.get());
        if there <= SIZE as u64 { Ok(there as usize) } else { Err(self.nonsense()) }
    }
    /// Bytes that can be written.
    ///
    /// # Errors
    /// If the other end shows what cannot be (H2).
    #[inline]
    pub fn room(&self) -> Result<usize> {
        let on_way = self.written.get().wrapping_sub(self.theirs().taken.load(Ordering::Acquire));
        if on_way <= self.written.get().min(SIZE as u64) {
            Ok(SIZE - on_way as usize)
        } else {
            Err(self.nonsense())
        }
    }
    #[cold]
    fn nonsense(&self) -> Error {
        self.is_alone.set(true);
        let (written, taken) =
            (self.theirs().written.load(Ordering::Relaxed), self.theirs().taken.load(Ordering::Relaxed));
        let (ours, at) = (self.written.get(), self.taken.get());
        let message = format!(
            "the other end of the memory shows {written} bytes written and {taken} taken, where {at} were taken and {ours} written"
        );
        Error::new(ErrorKind::InvalidData, message)
    }

    /// Takes bytes, as many as there are; 0 at the end.
    ///
    /// # Errors
    /// `WouldBlock` where none are there; `InvalidData` as [`End::input`].
    pub fn read(&self, into: &mut [u8]) -> Result<usize> {
        let n = match self.input()?.min(into.len()) {
            0 if into.is_empty() || self.is_alone.get() => return Ok(0),
            0 => return Err(ErrorKind::WouldBlock.into()),
            n => n,
        };
        let (from, at) = (self.memory.bytes(self.other()), self.taken.get() as usize & (SIZE - 1));
        let first = n.min(SIZE - at);
        self.step()?;
        // SAFETY: both parts lie within the other's bytes, and `into` is ours. That the other end may write
        // to them meanwhile is H3.
        unsafe {
            std::ptr::copy_nonoverlapping(from.add(at), into.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(from, into.as_mut_ptr().add(first), n - first);
        }
        self.step()?;
        self.taken.set(self.taken.get() + n as u64);
        self.own().taken.store(self.taken.get(), Ordering::Release);
        self.tell(FOR_ROOM)?;
        Ok(n)
    }
    /// Writes bytes, as many as there is room for.
    ///
    /// # Errors
    /// `WouldBlock` where there is none; `BrokenPipe` where the other end is gone; `InvalidData` as
    /// [`End::room`].
    pub fn write(&self, bytes: &[u8]) -> Result<usize> {
        if self.is_alone.get() {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let n = match self.room()?.min(bytes.len()) {
            0 if bytes.is_empty() => return Ok(0),
            0 => return Err(ErrorKind::WouldBlock.into()),
            n => n,
        };
        let (to, at) = (self.memory.bytes(self.side), self.written.get() as usize & (SIZE - 1));
        let first = n.min(SIZE - at);
        if mutated("shown_early") {
            self.own().written.store(self.written.get() + n as u64, Ordering::Release)
        }
        self.step()?;
        // SAFETY: both parts lie within our bytes, and the other end has said that it took what was there.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.add(at), first);
            std::ptr::copy_nonoverlapping(bytes.as_ptr().add(first), to, n - first);
        }
        self.step()?;
        self.written.set(self.written.get() + n as u64);
        self.own().written.store(self.written.get(), Ordering::Release);
        self.tell(FOR_INPUT)?;
        Ok(n)
    }
    /// Rings, if the other end sleeps for that (H4).
    #[inline]
    fn tell(&self, what: u32) -> Result<()> {
        fence(Ordering::SeqCst);
        self.step()?;
        let waits = &self.theirs().waits;
        if waits.load(Ordering::Relaxed) & what != 0 && waits.swap(0, Ordering::Relaxed) != 0 {
            self.step()?;
            // Else it is gone, or would sleep for ever.
            if !self.bell.ring() {
                self.is_alone.set(true)
            }
        }
        Ok(())
    }

    /// Says that this end is about to sleep until there is input, or room. False: it is not to, since there
    /// is, or the streams are over. [`End::is_awake`] follows the sleep.
    pub fn go_to_sleep(&self, until: Interest) -> bool {
        let bit = |is: bool, bit| if is { bit } else { 0 };
        let what = bit(until.read, FOR_INPUT) | bit(until.write, FOR_ROOM);
        if mutated("looks_before_it_says") {
            if self.has_news(until) {
                return false;
            }
            yield_point();
            self.own().waits.store(what, Ordering::Relaxed);
            return true;
        }
        if self.step().is_err() {
            return false;
        }
        self.own().waits.store(what, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.step().is_err() {
            return false;
        }
        if self.has_news(until) {
            self.is_awake();
            return false;
        }
        true
    }
    /// Whether there is something of that to be done, or the end to be noticed by it.
    #[inline]
    pub fn has_news(&self, of: Interest) -> bool {
        let is_there = |found: Result<usize>| self.is_alone.get() || found.map_or(true, |n| n > 0);
        of.read && is_there(self.input()) || of.write && is_there(self.room())
    }
    /// Whether the other end is known to be gone (H5), or to be broken (H2).
    pub fn is_alone(&self) -> bool {
        self.is_alone.get()
    }
    pub fn is_awake(&self) {
        self.own().waits.store(0, Ordering::Relaxed)
    }
    /// Takes the rings that have come, and notes it if the other end is gone.
    pub fn hear(&self) {
        let mut rings = [0u8; 64];
        // So many and no more in one go, from whoever rings without need.
        for _ in 0..4 {
            match self.bell.take(&mut rings) {
                Ok(0) if mutated("end_unheard") => return,
                Ok(0) => return self.is_alone.set(true),
                Ok(n) if n == rings.len() => {}
                Ok(_) => return,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.is_alone.set(true),
            }
        }
    }
    /// Does `work` as soon as it no longer says `WouldBlock`: there is input, or room, or the end.
    ///
    /// # Errors
    /// Those of `work`; `TimedOut`, where it says so for longer than `limit`.
    pub fn waiting<T>(
        &self,
        until: Interest,
        patience: &mut Patience,
        limit: Option<Duration>,
        mut work: impl FnMut(&End) -> Result<T>,
    ) -> Result<T> {
        loop {
            match work(self) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.wait(until, patience, limit)?,
                done => return done,
            }
        }
    }
    /// Sleeps until there is input, or room, or the end.
    ///
    /// # Errors
    /// `TimedOut`, after `limit`.
    pub fn wait(&self, until: Interest, patience: &mut Patience, limit: Option<Duration>) -> Result<()> {
        if patience.spin(|| self.has_news(until)) {
            return Ok(());
        }
        let deadline = limit.and_then(|l| clock::now().checked_add(l));
        loop {
            self.step()?;
            if !self.go_to_sleep(until) {
                return Ok(());
            }
            let left = deadline.map(|d| d.saturating_sub(clock::now()));
            self.bell.wait(left)?;
            self.is_awake();
            self.hear();
            if !self.has_news(until) && deadline.is_some_and(|d| clock::now() >= d) {
                return Err(ErrorKind::TimedOut.into());
            }
        }
    }
}

impl Source for End {
    fn descriptor(&self) -> Descriptor<'_> {
        self.bell.descriptor()
    }
}

/// Whether it pays to look again and again before sleeping, as far as the past tells: where both ends share a
/// processor it never does, and while the other end sleeps it seldom does.
#[derive(Debug)]
pub struct Patience {
    /// Looks in a row that came to nothing.
    failures: u32,
    /// Sleeps without a look before, and after how many it is tried anew.
    sleeps: u32,
    every: u32,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience { failures: 0, sleeps: 0, every: Patience::SOON }
    }
}

impl Patience {
    /// Longer than it takes to wake the other end.
    const LIMIT: Duration = Duration::from_micros(50);
    /// Nobody looks after so many failures.
    const MOST: u32 = 8;
    const SOON: u32 = 64;
    const LATE: u32 = 4096;

    /// Looks until it is so, or for as long as it may pay; whether it is.
    pub fn spin(&mut self, is_so: impl Fn() -> bool) -> bool {
        if is_so() {
            return true;
        }
        // In a simulated world time passes for others only when they have their turn.
        if sim::current().is_some() {
            return false;
        }
        if self.failures >= Patience::MOST {
            self.sleeps += 1;
            if self.sleeps < self.every {
                return false;
            }
            (self.sleeps, self.every) = (0, (self.every * 2).min(Patience::LATE))
        }
        let start = clock::now();
        loop {
            for _ in 0..8 {
                std::hint::spin_loop()
            }
            if is_so() {
                *self = Patience::default();
                return true;
            }
            if clock::now() - start > Patience::LIMIT {
                self.failures += 1;
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The client's end, and the server's.
    fn pair() -> (End, End) {
        let (a, b) = UnixStream::pair().expect("a pair of sockets");
        let server = End::offer(b).map_err(|e| e.1).expect("memory");
        (End::accept(a).expect("an answer").expect("memory"), server)
    }
    fn kind(of: Result<usize>) -> ErrorKind {
        of.expect_err("an error").kind()
    }

    #[test]
    fn bytes_arrive_in_order_also_round_the_end() {
        let (client, server) = pair();
        let (mut sent, mut got) = (0u64, 0u64);
        let mut room = vec![0; 7 * 1021];
        for step in 0..2000usize {
            let n = step * 379 % 9001;
            let bytes: Vec<u8> = (0..n as u64).map(|i| ((sent + i) % 251) as u8).collect();
            match client.write(&bytes) {
                Ok(n) => sent += n as u64,
                Err(e) => assert!(n == 0 || e.kind() == ErrorKind::WouldBlock && sent - got == SIZE as u64),
            }
            if step % 3 != 0 {
                match server.read(&mut room) {
                    Ok(n) => {
                        assert!(
                            room[..n].iter().enumerate().all(|(i, b)| *b == ((got + i as u64) % 251) as u8)
                        );
                        got += n as u64
                    }
                    Err(e) => assert!(e.kind() == ErrorKind::WouldBlock && sent == got),
                }
            }
        }
        assert!(sent > 40 * SIZE as u64);
        assert_eq!(server.input().expect("bytes") as u64, sent - got);
    }

    #[test]
    fn the_size_is_sealed() {
        let fd = make().expect("memory");
        check(fd.as_fd()).expect("it is as it should be");
        for size in [0, WHOLE as libc::off_t * 2] {
            // SAFETY: takes no pointers.
            assert_eq!(unsafe { libc::ftruncate(fd.as_raw_fd(), size) }, -1);
        }
        let other = tempfile::tempfile().expect("a file");
        other.set_len(WHOLE as u64).expect("its length");
        assert!(check(other.as_fd()).expect_err("not sealed").to_string().contains("expected sealed memory"));
    }

    #[test]
    fn nonsense_is_the_end() {
        let (client, server) = pair();
        client.write(b"abc").expect("room");
        for written in [SIZE as u64 + 1, u64::MAX] {
            client.own().written.store(written, Ordering::Release);
            assert_eq!(kind(server.read(&mut [0; 8])), ErrorKind::InvalidData);
        }
        assert_eq!(kind(server.write(b"x")), ErrorKind::BrokenPipe);
        let (client, server) = pair();
        server.write(b"abc").expect("room");
        client.own().taken.store(4, Ordering::Release);
        assert_eq!(kind(server.write(b"x")), ErrorKind::InvalidData);
        // What the other end writes over our words changes nothing of ours.
        let (client, server) = pair();
        client.write(b"abc").expect("room");
        client.theirs().taken.store(77, Ordering::Release);
        assert_eq!(server.read(&mut [0; 8]).expect("bytes"), 3);
    }

    #[test]
    fn what_was_written_before_the_end_is_taken() {
        let (client, server) = pair();
        client.write(b"abc").expect("room");
        drop(client);
        let mut room = [0; 8];
        assert_eq!(server.read(&mut room).expect("bytes"), 3);
        assert_eq!(kind(server.read(&mut room)), ErrorKind::WouldBlock, "nobody has looked yet");
        server.hear();
        assert_eq!(server.read(&mut room).expect("the end"), 0);
        assert_eq!(kind(server.write(b"x")), ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_server_may_refuse() {
        let (a, b) = UnixStream::pair().expect("a pair of sockets");
        std::io::Write::write_all(&mut &b, &[REFUSED]).expect("a byte");
        assert!(End::accept(a).expect("an answer").is_none());
        let (a, b) = UnixStream::pair().expect("a pair of sockets");
        std::io::Write::write_all(&mut &b, b"E").expect("a byte");
        let e = End::accept(a).map(|_| ()).expect_err("no answer");
        assert!(e.to_string().contains("found byte 69"), "{e}");
    }

    /// Each end sleeps as often as it can, on one processor or on two; no wake is lost.
    #[test]
    fn sleepers_are_woken() {
        const MESSAGES: u64 = 20_000;
        let (client, server) = pair();
        let echo = std::thread::spawn(move || {
            let mut patience = Patience::default();
            let mut room = vec![0; 4096];
            loop {
                match server.read(&mut room) {
                    Ok(0) => return,
                    Ok(n) => {
                        let mut rest = &room[..n];
                        while !rest.is_empty() {
                            match server.write(rest) {
                                Ok(n) => rest = &rest[n..],
                                Err(e) if e.kind() == ErrorKind::WouldBlock => server
                                    .wait(Interest { read: false, write: true }, &mut patience, None)
                                    .expect("room"),
                                Err(e) => panic!("{e}"),
                            }
                        }
                    }
                    Err(e) if e.kind() == ErrorKind::WouldBlock => {
                        server.wait(Interest::READ, &mut patience, None).expect("input")
                    }
                    Err(e) => panic!("{e}"),
                }
            }
        });
        let mut patience = Patience::default();
        for n in 0..MESSAGES {
            client.write(&n.to_le_bytes()).expect("room");
            let (mut room, mut at) = ([0; 8], 0);
            while at < 8 {
                match client.read(&mut room[at..]) {
                    Ok(n) => at += n,
                    Err(e) if e.kind() == ErrorKind::WouldBlock => client
                        .wait(Interest::READ, &mut patience, Some(Duration::from_secs(20)))
                        .expect("an answer"),
                    Err(e) => panic!("{e}"),
                }
            }
            assert_eq!(u64::from_le_bytes(room), n);
        }
        drop(client);
        echo.join().expect("no panic")
    }

    const WRITE: Interest = Interest { read: false, write: true };
    /// Reads or writes as soon as that can be done, or a simulated minute is over.
    fn waiting(end: &End, until: Interest, work: impl FnMut(&End) -> Result<usize>) -> Result<usize> {
        end.waiting(until, &mut Patience::default(), Some(Duration::from_secs(60)), work)
    }
    fn write_all(end: &End, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let n = waiting(end, WRITE, |end| end.write(bytes))?;
            bytes = &bytes[n..]
        }
        Ok(())
    }
    fn fill(end: &End, into: &mut [u8]) -> Result<()> {
        let mut at = 0;
        while at < into.len() {
            let n = waiting(end, Interest::READ, |end| end.read(&mut into[at..]))?;
            if n == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            at += n
        }
        Ok(())
    }

    /// A message and its echo, some of them wider than the memory, in a world.
    fn echoes(seed: u64, mutation: Option<&'static str>) -> Result<()> {
        let config = sim::Config { mutation, spurious_wakes: 0.0, ..sim::Config::default() };
        sim::World::new(seed, config).run(|| {
            let listener = crate::net::TcpListener::bind("127.0.0.1:7")?;
            let sizes = [1, 100, SIZE + 5, 1, 1, 2 * SIZE, 3];
            let server = crate::thread::spawn("server", move || -> Result<()> {
                // A world's listeners do not wait.
                let socket = loop {
                    match listener.accept() {
                        Err(e) if e.kind() == ErrorKind::WouldBlock => {
                            crate::thread::sleep(Duration::from_micros(10))
                        }
                        accepted => break accepted?.0,
                    }
                };
                let end = End::offer(Bell::World(socket)).map_err(|e| e.1)?;
                for size in sizes {
                    let mut bytes = vec![0; size];
                    fill(&end, &mut bytes)?;
                    write_all(&end, &bytes)?
                }
                // The client goes first: what is not read yet would be lost with its end.
                let last = waiting(&end, Interest::READ, |end| end.read(&mut [0]));
                last.map(|n| assert_eq!(n, 0))
            })?;
            let client = || -> Result<()> {
                let socket = TcpStream::connect("127.0.0.1:7")?;
                let end = End::accept(Bell::World(socket))?.ok_or(ErrorKind::OutOfMemory)?;
                for (n, size) in sizes.into_iter().enumerate() {
                    let bytes: Vec<u8> = (0..size).map(|i| (i * 7 + n) as u8).collect();
                    let mut heard = vec![0; size];
                    // The server reads all before it answers.
                    write_all(&end, &bytes)?;
                    fill(&end, &mut heard)?;
                    if heard != bytes {
                        return Err(Error::other("other bytes"));
                    }
                }
                Ok(())
            };
            let began = clock::now();
            let done = client().map_err(|e| Error::other(format!("the client: {e}")));
            let served = server.join().map_err(|_| Error::other("the server has panicked"))?;
            done.and(served)?;
            // Who was not woken has slept for a minute.
            match clock::now() - began < Duration::from_secs(30) {
                true => Ok(()),
                false => Err(Error::other("somebody was not woken")),
            }
        })
    }

    #[test]
    fn no_wake_is_lost_in_any_order() {
        for seed in 0..200 {
            echoes(seed, None).unwrap_or_else(|e| panic!("seed {seed}: {e}"))
        }
    }

    #[test]
    fn wrong_ends_are_caught() {
        for mutation in ["shown_early", "looks_before_it_says", "end_unheard"] {
            // A world that hangs panics.
            let is_caught = |seed| {
                std::panic::catch_unwind(|| echoes(seed, Some(mutation))).map_or(true, |done| done.is_err())
            };
            assert!((0..200).any(is_caught), "{mutation} goes unseen")
        }
    }

    #[test]
    fn patience_ends_where_it_does_not_pay() {
        let mut patience = Patience::default();
        // Who does not spin looks once.
        let looks = Cell::new(0);
        let spins = |patience: &mut Patience, succeeds: bool| {
            looks.set(0);
            patience.spin(|| looks.replace(looks.get() + 1) > 1 && succeeds);
            looks.get() > 1
        };
        assert!((0..Patience::MOST).all(|_| spins(&mut patience, false)));
        assert!((1..Patience::SOON).all(|_| !spins(&mut patience, false)));
        assert!(spins(&mut patience, false), "it is tried anew");
        assert!((1..2 * Patience::SOON).all(|_| !spins(&mut patience, false)));
        assert!(spins(&mut patience, true) && spins(&mut patience, false), "and pays again")
    }
}
