//! A descriptor that is readable while an event stands (eventfd): for loops that wait for many at once. In a
//! simulated world the event is the world's, and the descriptor of no use.
use crate::net::{Descriptor, Source};
use crate::sim;
use std::io::{Error, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

pub struct Event {
    fd: OwnedFd,
    world: Option<sim::net::Flag>,
}

impl Event {
    pub fn new() -> Result<Event> {
        // SAFETY: takes no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: a descriptor that was just made, and is nobody else's.
        Ok(Event { fd: unsafe { OwnedFd::from_raw_fd(fd) }, world: sim::net::Flag::new() })
    }
    /// The event stands until it is cleared.
    pub fn set(&self) {
        if let Some(flag) = &self.world {
            return flag.set(true);
        }
        let one = 1u64;
        // SAFETY: eight bytes to read. It fails only where the count is full: then the event stands.
        unsafe { libc::write(self.fd.as_raw_fd(), (&raw const one).cast(), 8) };
    }
    pub fn clear(&self) {
        if let Some(flag) = &self.world {
            return flag.set(false);
        }
        let mut count = 0u64;
        // SAFETY: eight bytes to write. It fails only where no event stands.
        unsafe { libc::read(self.fd.as_raw_fd(), (&raw mut count).cast(), 8) };
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Source for Event {
    fn descriptor(&self) -> Descriptor<'_> {
        match &self.world {
            Some(flag) => Descriptor::World(flag.watched()),
            None => Descriptor::System(self.fd.as_fd()),
        }
    }
}
