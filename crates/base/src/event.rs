//! A descriptor that is readable while an event stands (eventfd): for loops that wait for many at once.
use std::io::{Error, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

pub struct Event(OwnedFd);

impl Event {
    pub fn new() -> Result<Event> {
        // SAFETY: takes no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: a descriptor that was just made, and is nobody else's.
        Ok(Event(unsafe { OwnedFd::from_raw_fd(fd) }))
    }
    /// The event stands until it is cleared.
    pub fn set(&self) {
        let one = 1u64;
        // SAFETY: eight bytes to read. It fails only where the count is full: then the event stands.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }
    pub fn clear(&self) {
        let mut count = 0u64;
        // SAFETY: eight bytes to write. It fails only where no event stands.
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) };
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
