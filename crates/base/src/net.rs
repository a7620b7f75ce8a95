//! Sockets: TCP, which of many descriptors are ready (epoll), and who is at the other end of a Unix socket.
//!
//! In a simulated world TCP and what is waited for are the world's ([`sim::net`]). Unix sockets are the
//! system's everywhere: a world has none.
use crate::sim;
use std::ffi::CStr;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

/// What a [`Poll`] can wait for.
pub trait Source {
    fn descriptor(&self) -> Descriptor<'_>;
}

/// What a source is known by to who waits for it.
pub enum Descriptor<'a> {
    System(BorrowedFd<'a>),
    World(sim::net::Watched),
}

macro_rules! system_sources {
    ($($ty:ty),*) => {
        $(impl Source for $ty {
            fn descriptor(&self) -> Descriptor<'_> {
                Descriptor::System(self.as_fd())
            }
        })*
    };
}
system_sources!(std::net::TcpStream, std::net::TcpListener, UnixStream, UnixListener);

/// A connection by TCP.
pub struct TcpStream(Tcp<std::net::TcpStream, sim::net::Stream>);
/// Takes connections by TCP.
pub struct TcpListener(Tcp<std::net::TcpListener, sim::net::Listener>);

enum Tcp<S, W> {
    System(S),
    World(W),
}

fn addresses(of: impl ToSocketAddrs) -> Result<SocketAddr> {
    of.to_socket_addrs()?.next().ok_or_else(|| Error::new(ErrorKind::InvalidInput, "no address is named"))
}

fn set_option<T: Copy>(socket: &impl AsFd, option: libc::c_int, value: T) -> Result<()> {
    let (fd, place, size) = (socket.as_fd().as_raw_fd(), (&raw const value).cast(), size_of::<T>());
    // SAFETY: as many bytes to read as are told.
    match unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, option, place, size as libc::socklen_t) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

impl TcpStream {
    pub fn connect(to: impl ToSocketAddrs) -> Result<TcpStream> {
        if sim::current().is_some() {
            return Ok(TcpStream(Tcp::World(sim::net::Stream::connect(addresses(to)?)?)));
        }
        std::net::TcpStream::connect(to).map(|s| TcpStream(Tcp::System(s)))
    }
    /// It is of a simulated world, where it serves as a Unix socket does elsewhere.
    pub fn is_of_world(&self) -> bool {
        matches!(self.0, Tcp::World(_))
    }
    /// A world's serves as the bell of shared memory (sim/net/N6).
    pub(crate) fn stay_near(&self) {
        if let Tcp::World(s) = &self.0 {
            s.stay_near()
        }
    }
    pub fn set_nonblocking(&self, on: bool) -> Result<()> {
        match &self.0 {
            Tcp::System(s) => s.set_nonblocking(on),
            Tcp::World(s) => {
                s.set_nonblocking(on);
                Ok(())
            }
        }
    }
    /// What is written is sent at once. A world's always is, as far as the seed lets it.
    pub fn set_nodelay(&self, on: bool) -> Result<()> {
        match &self.0 {
            Tcp::System(s) => s.set_nodelay(on),
            Tcp::World(_) => Ok(()),
        }
    }
    /// The system asks now and then whether an idle connection's other end is there. A world's sides find out
    /// by themselves.
    pub fn set_keepalive(&self, on: bool) -> Result<()> {
        match &self.0 {
            Tcp::System(s) => set_option(s, libc::SO_KEEPALIVE, libc::c_int::from(on)),
            Tcp::World(_) => Ok(()),
        }
    }
    /// How long a read waits at most, unless it does not wait at all.
    pub fn set_read_timeout(&self, limit: Option<Duration>) -> Result<()> {
        match &self.0 {
            Tcp::System(s) => s.set_read_timeout(limit),
            Tcp::World(s) => {
                s.set_read_timeout(limit);
                Ok(())
            }
        }
    }
    /// No more is written, or read.
    pub fn shutdown(&self, how: Shutdown) -> Result<()> {
        match &self.0 {
            Tcp::System(s) => s.shutdown(how),
            Tcp::World(s) => s.shutdown(how),
        }
    }
    /// Closes it so that the other side meets an error, and what is on its way is lost.
    pub fn reset(self) -> Result<()> {
        match &self.0 {
            Tcp::System(s) => set_option(s, libc::SO_LINGER, libc::linger { l_onoff: 1, l_linger: 0 }),
            Tcp::World(s) => s.reset(),
        }
    }
}

impl Read for &TcpStream {
    fn read(&mut self, room: &mut [u8]) -> Result<usize> {
        match &self.0 {
            Tcp::System(s) => (&mut &*s).read(room),
            Tcp::World(s) => s.read(room),
        }
    }
}
impl Write for &TcpStream {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        match &self.0 {
            Tcp::System(s) => (&mut &*s).write(bytes),
            Tcp::World(s) => s.write(bytes),
        }
    }
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}
impl Source for TcpStream {
    fn descriptor(&self) -> Descriptor<'_> {
        match &self.0 {
            Tcp::System(s) => Descriptor::System(s.as_fd()),
            Tcp::World(s) => Descriptor::World(s.watched()),
        }
    }
}

impl TcpListener {
    pub fn bind(at: impl ToSocketAddrs) -> Result<TcpListener> {
        if sim::current().is_some() {
            return Ok(TcpListener(Tcp::World(sim::net::Listener::bind(addresses(at)?)?)));
        }
        std::net::TcpListener::bind(at).map(|l| TcpListener(Tcp::System(l)))
    }
    /// A world's listeners never wait.
    pub fn set_nonblocking(&self, on: bool) -> Result<()> {
        match &self.0 {
            Tcp::System(l) => l.set_nonblocking(on),
            Tcp::World(_) if on => Ok(()),
            Tcp::World(_) => Err(ErrorKind::Unsupported.into()),
        }
    }
    pub fn local_addr(&self) -> Result<SocketAddr> {
        match &self.0 {
            Tcp::System(l) => l.local_addr(),
            Tcp::World(l) => Ok(l.address()),
        }
    }
    pub fn accept(&self) -> Result<(TcpStream, SocketAddr)> {
        match &self.0 {
            Tcp::System(l) => l.accept().map(|(s, from)| (TcpStream(Tcp::System(s)), from)),
            Tcp::World(l) => l.accept().map(|(s, from)| (TcpStream(Tcp::World(s)), from)),
        }
    }
}
impl Source for TcpListener {
    fn descriptor(&self) -> Descriptor<'_> {
        match &self.0 {
            Tcp::System(l) => Descriptor::System(l.as_fd()),
            Tcp::World(l) => Descriptor::World(l.watched()),
        }
    }
}

/// Descriptors that are waited for together.
pub struct Poll(Waiting);
enum Waiting {
    System(OwnedFd),
    World(sim::net::Poll),
}

/// What is waited for of a descriptor. That its other end is gone is told in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Interest {
    pub read: bool,
    pub write: bool,
}

impl Interest {
    pub const READ: Interest = Interest { read: true, write: false };
    fn bits(self) -> u32 {
        let mut bits = 0;
        if self.read {
            bits |= libc::EPOLLIN
        }
        if self.write {
            bits |= libc::EPOLLOUT
        }
        bits as u32
    }
}

/// A descriptor that is ready, by the key that it was added with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ready {
    pub key: u64,
    /// There is something to be read, or the end.
    pub read: bool,
    pub write: bool,
    /// The other end is gone.
    pub gone: bool,
}

impl Poll {
    pub fn new() -> Result<Poll> {
        if let Some(poll) = sim::net::Poll::new() {
            return Ok(Poll(Waiting::World(poll)));
        }
        // SAFETY: takes no pointers.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: a descriptor that was just made, and is nobody else's.
        Ok(Poll(Waiting::System(unsafe { OwnedFd::from_raw_fd(fd) })))
    }
    /// # Errors
    /// Also if one of the two is a world's, and the other is not.
    fn control(&self, what: libc::c_int, of: &impl Source, key: u64, interest: Interest) -> Result<()> {
        match (&self.0, of.descriptor()) {
            (Waiting::System(poll), Descriptor::System(fd)) => {
                let mut event = libc::epoll_event { events: interest.bits(), u64: key };
                // SAFETY: the event is there while the call lasts.
                match unsafe { libc::epoll_ctl(poll.as_raw_fd(), what, fd.as_raw_fd(), &mut event) } {
                    0 => Ok(()),
                    _ => Err(Error::last_os_error()),
                }
            }
            (Waiting::World(poll), Descriptor::World(watched)) => match what {
                libc::EPOLL_CTL_DEL => poll.remove(&watched),
                _ => poll.put(watched, key, interest, what == libc::EPOLL_CTL_ADD),
            },
            _ => Err(ErrorKind::Unsupported.into()),
        }
    }
    /// Waits for the source as well, until it is closed.
    pub fn add(&self, source: &impl Source, key: u64, interest: Interest) -> Result<()> {
        self.control(libc::EPOLL_CTL_ADD, source, key, interest)
    }
    /// Waits for something else of a source that was added.
    pub fn change(&self, source: &impl Source, key: u64, interest: Interest) -> Result<()> {
        self.control(libc::EPOLL_CTL_MOD, source, key, interest)
    }
    /// Waits for the source no more.
    pub fn remove(&self, source: &impl Source) -> Result<()> {
        self.control(libc::EPOLL_CTL_DEL, source, 0, Interest::default())
    }
    /// Puts those into `ready` that are so: at once if there are some, else when there is one, or after
    /// `limit`.
    pub fn wait(&self, ready: &mut Vec<Ready>, limit: Option<Duration>) -> Result<()> {
        const MOST: usize = 256;
        ready.clear();
        let poll = match &self.0 {
            Waiting::System(poll) => poll,
            Waiting::World(poll) => {
                poll.wait(ready, MOST, limit);
                return Ok(());
            }
        };
        // Rounded up, so that whoever waits for a time does not come early, again and again.
        let limit = limit.map_or(-1, |l| {
            let ms = l.as_millis() + u128::from(l.subsec_nanos() % 1_000_000 != 0);
            libc::c_int::try_from(ms).unwrap_or(libc::c_int::MAX)
        });
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST];
        // SAFETY: room for so many events.
        let n = unsafe { libc::epoll_wait(poll.as_raw_fd(), events.as_mut_ptr(), MOST as i32, limit) };
        let Ok(n) = usize::try_from(n) else {
            let e = Error::last_os_error();
            return if e.kind() == ErrorKind::Interrupted { Ok(()) } else { Err(e) };
        };
        ready.extend(events[..n].iter().map(|e| {
            let (bits, key) = (e.events as libc::c_int, e.u64);
            let gone = bits & (libc::EPOLLERR | libc::EPOLLHUP) != 0;
            Ready { key, read: bits & libc::EPOLLIN != 0, write: bits & libc::EPOLLOUT != 0, gone }
        }));
        Ok(())
    }
}

/// Has the system allow this process so many descriptors, or as many as it may; how many it allows now.
pub fn allow_descriptors(wanted: u64) -> Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is there while the call lasts.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return Err(Error::last_os_error());
    }
    if limit.rlim_cur < wanted {
        limit.rlim_cur = wanted.min(limit.rlim_max);
        // SAFETY: as above.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } != 0 {
            return Err(Error::last_os_error());
        }
    }
    Ok(limit.rlim_cur)
}

/// The user, by the system's number, whose process is at the other end of a Unix socket.
pub fn peer(socket: impl AsFd) -> Result<u32> {
    // SAFETY: an all-zero value is one.
    let mut found: libc::ucred = unsafe { std::mem::zeroed() };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    let (fd, place) = (socket.as_fd().as_raw_fd(), (&raw mut found).cast());
    // SAFETY: as many bytes to write as are told.
    match unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, place, &mut size) } {
        0 => Ok(found.uid),
        _ => Err(Error::last_os_error()),
    }
}

/// The user, by the system's number, whose this process is.
pub fn own_user() -> u32 {
    // SAFETY: takes no pointers.
    unsafe { libc::geteuid() }
}

/// The name of a user of the system.
pub fn user_name(number: u32) -> Option<String> {
    let mut room = vec![0u8; 4096];
    // SAFETY: an all-zero value is one.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found: *mut libc::passwd = std::ptr::null_mut();
    // SAFETY: the entry, room of that size, and the place of the result are there while the call lasts.
    let failed =
        unsafe { libc::getpwuid_r(number, &mut entry, room.as_mut_ptr().cast(), room.len(), &mut found) };
    if failed != 0 || found.is_null() {
        return None;
    }
    // SAFETY: an entry was found: its name ends with a zero, and lies in the room.
    let name = unsafe { CStr::from_ptr(entry.pw_name) };
    name.to_str().ok().map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_allowed_up_to_the_limit() {
        let now = allow_descriptors(0).unwrap();
        assert_eq!(allow_descriptors(now).unwrap(), now);
        assert!(allow_descriptors(now + 10).unwrap() <= now + 10);
    }

    #[test]
    fn descriptors_are_ready_when_something_came() {
        let (mut a, mut b) = UnixStream::pair().unwrap();
        let poll = Poll::new().unwrap();
        poll.add(&a, 7, Interest::READ).unwrap();
        let mut ready = vec![];
        poll.wait(&mut ready, Some(Duration::ZERO)).unwrap();
        assert_eq!(ready, []);
        b.write_all(b"x").unwrap();
        poll.wait(&mut ready, None).unwrap();
        assert_eq!(ready, [Ready { key: 7, read: true, write: false, gone: false }]);
        a.read_exact(&mut [0]).unwrap();
        poll.change(&a, 8, Interest { read: true, write: true }).unwrap();
        poll.wait(&mut ready, None).unwrap();
        assert_eq!(ready, [Ready { key: 8, read: false, write: true, gone: false }]);
        drop(b);
        poll.wait(&mut ready, None).unwrap();
        assert!(ready[0].read && ready[0].gone, "{ready:?}");
        poll.remove(&a).unwrap();
        poll.wait(&mut ready, Some(Duration::from_millis(1))).unwrap();
        assert_eq!(ready, []);
    }

    #[test]
    fn a_peer_has_a_number_and_a_name() {
        let (a, _b) = UnixStream::pair().unwrap();
        assert_eq!(peer(&a).unwrap(), own_user());
        assert_eq!(user_name(0).as_deref(), Some("root"));
        assert_eq!(user_name(u32::MAX - 7), None);
    }
}
