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
//!   than were taken, and taken no more than were written. Anything else is an error, and the end of both
//!   streams.
//! - **H3** Bytes are copied out before anybody looks at them: the other end may change them at any time.
//! - **H4** Who is about to sleep says for what, and then looks once more; who has written or taken bytes
//!   shows it, and then looks whether the other said so. Between the two steps each has a fence, so that one
//!   of them sees the other.
//! - **H5** The bell is the socket over which the memory came: a byte wakes the other end, whatever it is,
//!   and its closing, which the system does for whoever is killed, is the end. What was written before that
//!   can still be taken.
//! - **H6** The memory's size is sealed: nobody can cut it under the other, whose access would be an error of
//!   the bus.
//!
//! A client can do to its own streams whatever it likes; all that it can do to the server is to ring.
use crate::net::{Descriptor, Interest, Source};
use crate::{clock, sim};
use std::cell::Cell;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
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

/// The memory, mapped; from its making to its drop.
struct Memory(*mut u8);
// SAFETY: it is accessed through atomics, and by copies of ranges that only one end writes at a time (H2).
unsafe impl Send for Memory {}

impl Memory {
    fn map(fd: BorrowedFd<'_>) -> Result<Memory> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (fd, share) = (fd.as_raw_fd(), libc::MAP_SHARED);
        // SAFETY: a fresh mapping at an address that the kernel chooses; the descriptor is only borrowed.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), WHOLE, access, share, fd, 0) };
        if at == libc::MAP_FAILED { Err(Error::last_os_error()) } else { Ok(Memory(at.cast())) }
    }
    fn line(&self, side: Side) -> &Line {
        // SAFETY: both lie in the mapping, aligned, and consist of atomics, for which any bytes are good.
        unsafe { &*self.0.add(if side == Side::Client { 0 } else { size_of::<Line>() }).cast() }
    }
    /// Where the bytes that this side writes begin.
    fn bytes(&self, side: Side) -> *mut u8 {
        // SAFETY: within the mapping.
        unsafe { self.0.add(if side == Side::Client { HEAD } else { HEAD + SIZE }) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, and unmapped once.
        unsafe { libc::munmap(self.0.cast(), WHOLE) };
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

/// A message of one byte, and with it the memory.
fn hand_over(socket: &UnixStream, memory: BorrowedFd<'_>) -> Result<()> {
    let mut byte = [GIVEN];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let mut beside = Beside([0; 32]);
    // SAFETY: an all-zero value is one.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    message.msg_control = beside.0.as_mut_ptr().cast();
    let size = size_of::<libc::c_int>() as u32;
    // SAFETY: room for a head and a descriptor is there, and all that the message points to lives until the
    // call is over.
    let sent = unsafe {
        message.msg_controllen = libc::CMSG_SPACE(size) as _;
        let head = libc::CMSG_FIRSTHDR(&message);
        (*head).cmsg_level = libc::SOL_SOCKET;
        (*head).cmsg_type = libc::SCM_RIGHTS;
        (*head).cmsg_len = libc::CMSG_LEN(size) as _;
        libc::CMSG_DATA(head).cast::<libc::c_int>().write_unaligned(memory.as_raw_fd());
        libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL)
    };
    if sent == 1 { Ok(()) } else { Err(Error::last_os_error()) }
}

/// Takes what [`hand_over`] sends; `None` where the other end refused.
fn take_over(socket: &UnixStream) -> Result<Option<OwnedFd>> {
    let mut byte = [0u8];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let mut beside = Beside([0; 32]);
    // SAFETY: an all-zero value is one.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    message.msg_control = beside.0.as_mut_ptr().cast();
    message.msg_controllen = beside.0.len() as _;
    // SAFETY: all that the message points to lives until the call is over.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC) };
    match got {
        1 => {}
        0 => return Err(ErrorKind::UnexpectedEof.into()),
        _ => return Err(Error::last_os_error()),
    }
    // SAFETY: what the system wrote into the room that it was given.
    let found = unsafe {
        let head = libc::CMSG_FIRSTHDR(&message);
        let is_there = !head.is_null()
            && (*head).cmsg_level == libc::SOL_SOCKET
            && (*head).cmsg_type == libc::SCM_RIGHTS
            && (*head).cmsg_len as usize == libc::CMSG_LEN(size_of::<libc::c_int>() as u32) as usize;
        // A descriptor that was made for this process just now.
        is_there.then(|| OwnedFd::from_raw_fd(libc::CMSG_DATA(head).cast::<libc::c_int>().read_unaligned()))
    };
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
    bell: UnixStream,
    /// H1
    written: Cell<u64>,
    taken: Cell<u64>,
    /// The other end is gone (H5).
    is_alone: Cell<bool>,
}

impl End {
    /// The server's: makes the memory, and hands it over the socket, which is the bell from then on.
    pub fn offer(socket: UnixStream) -> std::result::Result<End, (UnixStream, Error)> {
        let made = make().and_then(|fd| Ok((Memory::map(fd.as_fd())?, hand_over(&socket, fd.as_fd())?)));
        match made {
            Ok((memory, ())) => Ok(End::new(memory, Side::Server, socket)),
            Err(e) => Err((socket, e)),
        }
    }
    /// The client's: takes the memory that comes over the socket; `None` where the server gives none. Waits
    /// for the answer as the socket's reads do.
    pub fn accept(socket: UnixStream) -> Result<Option<End>> {
        let Some(fd) = take_over(&socket)? else { return Ok(None) };
        check(fd.as_fd())?;
        Ok(Some(End::new(Memory::map(fd.as_fd())?, Side::Client, socket)))
    }
    fn new(memory: Memory, side: Side, bell: UnixStream) -> End {
        End { memory, side, bell, written: Cell::new(0), taken: Cell::new(0), is_alone: Cell::new(false) }
    }
    pub fn socket(&self) -> &UnixStream {
        &self.bell
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
        if on_way <= SIZE as u64 { Ok(SIZE - on_way as usize) } else { Err(self.nonsense()) }
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
        // SAFETY: both parts lie within the other's bytes, and `into` is ours. That the other end may write
        // to them meanwhile is H3.
        unsafe {
            std::ptr::copy_nonoverlapping(from.add(at), into.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(from, into.as_mut_ptr().add(first), n - first);
        }
        self.taken.set(self.taken.get() + n as u64);
        self.own().taken.store(self.taken.get(), Ordering::Release);
        self.tell(FOR_ROOM);
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
        // SAFETY: both parts lie within our bytes, and the other end has said that it took what was there.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.add(at), first);
            std::ptr::copy_nonoverlapping(bytes.as_ptr().add(first), to, n - first);
        }
        self.written.set(self.written.get() + n as u64);
        self.own().written.store(self.written.get(), Ordering::Release);
        self.tell(FOR_INPUT);
        Ok(n)
    }
    /// Rings, if the other end sleeps for that (H4).
    #[inline]
    fn tell(&self, what: u32) {
        fence(Ordering::SeqCst);
        let waits = &self.theirs().waits;
        if waits.load(Ordering::Relaxed) & what != 0 && waits.swap(0, Ordering::Relaxed) != 0 {
            self.ring()
        }
    }
    #[cold]
    fn ring(&self) {
        let (byte, how) = (0u8, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
        // SAFETY: a byte to read. It fails where the other end is gone, or where so many bytes are on their
        // way that it will wake.
        unsafe { libc::send(self.bell.as_raw_fd(), (&raw const byte).cast(), 1, how) };
    }

    /// Says that this end is about to sleep until there is input, or room. False: it is not to, since there
    /// is, or the streams are over. [`End::is_awake`] follows the sleep.
    pub fn go_to_sleep(&self, until: Interest) -> bool {
        let bit = |is: bool, bit| if is { bit } else { 0 };
        let what = bit(until.read, FOR_INPUT) | bit(until.write, FOR_ROOM);
        self.own().waits.store(what, Ordering::Relaxed);
        fence(Ordering::SeqCst);
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
    pub fn is_awake(&self) {
        self.own().waits.store(0, Ordering::Relaxed)
    }
    /// Takes the rings that have come, and notes it if the other end is gone.
    pub fn hear(&self) {
        let mut rings = [0u8; 64];
        // So many and no more in one go, from whoever rings without need.
        for _ in 0..4 {
            let (fd, place, how) = (self.bell.as_raw_fd(), rings.as_mut_ptr().cast(), libc::MSG_DONTWAIT);
            // SAFETY: as many bytes to write as are told.
            match unsafe { libc::recv(fd, place, rings.len(), how) } {
                0 => return self.is_alone.set(true),
                n if n == rings.len() as isize => {}
                n if n > 0 => return,
                _ => match Error::last_os_error().kind() {
                    ErrorKind::WouldBlock => return,
                    ErrorKind::Interrupted => {}
                    _ => return self.is_alone.set(true),
                },
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
        let deadline = limit.map(|l| clock::now() + l);
        while self.go_to_sleep(until) {
            let ms = deadline.map_or(-1, |d| {
                let left = d.saturating_sub(clock::now());
                libc::c_int::try_from(left.as_micros().div_ceil(1000)).unwrap_or(libc::c_int::MAX)
            });
            let mut bell = libc::pollfd { fd: self.bell.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one descriptor to look at.
            let found = unsafe { libc::poll(&mut bell, 1, ms) };
            self.is_awake();
            match found {
                0 => return Err(ErrorKind::TimedOut.into()),
                1.. => self.hear(),
                _ => match Error::last_os_error() {
                    e if e.kind() == ErrorKind::Interrupted => {}
                    e => return Err(e),
                },
            }
        }
        Ok(())
    }
}

impl Source for End {
    fn descriptor(&self) -> Descriptor<'_> {
        Descriptor::System(self.bell.as_fd())
    }
}

/// How long it pays to look again and again before sleeping, as far as the past tells: where both ends share
/// a processor it never does.
#[derive(Debug)]
pub struct Patience {
    /// 0: not at all.
    limit: Duration,
    /// Sleeps without a look before.
    sleeps: u32,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience { limit: Patience::MOST, sleeps: 0 }
    }
}

impl Patience {
    const MOST: Duration = Duration::from_micros(50);
    const LEAST: Duration = Duration::from_micros(2);
    /// After so many sleeps it is tried anew.
    const TRY: u32 = 64;

    /// Looks until it is so, or for as long as it pays; whether it is.
    pub fn spin(&mut self, is_so: impl Fn() -> bool) -> bool {
        if is_so() {
            return true;
        }
        // In a simulated world time passes for others only when they have their turn.
        if sim::current().is_some() {
            return false;
        }
        if self.limit.is_zero() {
            self.sleeps += 1;
            if self.sleeps < Patience::TRY {
                return false;
            }
            (self.limit, self.sleeps) = (Patience::LEAST, 0)
        }
        let start = clock::now();
        loop {
            for _ in 0..16 {
                std::hint::spin_loop();
                if is_so() {
                    let took = clock::now() - start;
                    // A good deal more than it took, and not less than before at once.
                    self.limit = (took * 4).max(self.limit).min(Patience::MOST);
                    return true;
                }
            }
            if clock::now() - start > self.limit {
                self.limit /= 2;
                if self.limit < Patience::LEAST {
                    self.limit = Duration::ZERO
                }
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

    #[test]
    fn patience_ends_where_it_does_not_pay() {
        let mut patience = Patience::default();
        for _ in 0..8 {
            assert!(!patience.spin(|| false));
        }
        assert!(patience.limit.is_zero());
        // Who does not spin looks once.
        let looks = Cell::new(0);
        let spins = |patience: &mut Patience| {
            looks.set(0);
            patience.spin(|| looks.replace(looks.get() + 1) > 1)
        };
        assert!((0..Patience::TRY).any(|_| spins(&mut patience)) && !patience.limit.is_zero());
    }
}
