//! What a client sent, as the fiber that has the client reads it.
//!
//! - **I1** The fiber takes the connection's input as a whole, reads messages off it, and puts back what is
//!   left. Meanwhile the worker gathers more, which is taken when nothing whole is left.
use super::connection::Connection;
use ondol_wire::front::{self, Broken, Frame, Opening};

/// Bytes of a message at most; PostgreSQL takes four times as many.
pub(super) const MESSAGE_LIMIT: usize = 256 << 20;

#[derive(Default)]
pub(super) struct Incoming {
    bytes: Vec<u8>,
    at: usize,
}

impl Incoming {
    /// Takes what has come meanwhile; whether that was something.
    pub fn refill(&mut self, from: &Connection) -> bool {
        let mut input = from.input.borrow_mut();
        if input.bytes.is_empty() {
            return false;
        }
        if self.at == self.bytes.len() {
            self.bytes.clear();
            self.at = 0;
            std::mem::swap(&mut self.bytes, &mut input.bytes)
        } else {
            self.bytes.drain(..self.at);
            self.at = 0;
            self.bytes.append(&mut input.bytes)
        }
        true
    }
    /// Gives back what was not read.
    pub fn put_back(mut self, to: &Connection) {
        let mut input = to.input.borrow_mut();
        if self.at < self.bytes.len() {
            self.bytes.drain(..self.at);
            self.bytes.append(&mut input.bytes);
            input.bytes = self.bytes
        } else if input.bytes.is_empty() && input.bytes.capacity() == 0 && self.bytes.capacity() <= 8 << 10 {
            self.bytes.clear();
            input.bytes = self.bytes
        }
    }
    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }
    /// Reads no further: the connection is over.
    pub fn drop_rest(&mut self) {
        self.at = self.bytes.len()
    }
    /// The first packet, if it is whole.
    pub fn opening(&mut self) -> Result<Option<Opening<'_>>, Broken> {
        let at = self.at;
        match front::opening(&self.bytes[at..])? {
            Some((opening, size)) => {
                self.at += size;
                Ok(Some(opening))
            }
            None => Ok(None),
        }
    }
    /// The next message, if it is whole; it stays until [`Incoming::skip`].
    pub fn next(&self, limit: usize) -> Result<Option<Frame<'_>>, Broken> {
        front::frame(self.rest(), limit)
    }
    pub fn skip(&mut self, size: usize) {
        self.at += size
    }
}
