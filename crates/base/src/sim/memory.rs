//! Memory that two ends share in a simulated world (`base/shm`). What is handed over is its number, as bytes
//! of a connection by TCP: who reads it takes the memory, once.
use super::current;
use crate::net::TcpStream;
use crate::shm::{Block, GIVEN, REFUSED};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::sync::Arc;

/// Gives the memory to the other end of a connection, which does not wait.
pub(crate) fn lend(to: &TcpStream, block: Arc<Block>) -> Result<Arc<Block>> {
    let world = current().ok_or(ErrorKind::Unsupported)?;
    let number = world.lend(block.clone());
    let mut message = vec![GIVEN];
    message.extend(number.to_be_bytes());
    let mut at = 0;
    while at < message.len() {
        match (&mut &*to).write(&message[at..])? {
            0 => return Err(ErrorKind::WriteZero.into()),
            n => at += n,
        }
    }
    to.stay_near();
    Ok(block)
}

/// Takes what [`lend`] gives; `None` where the other end refused.
pub(crate) fn borrow(from: &TcpStream) -> Result<Option<Arc<Block>>> {
    let world = current().ok_or(ErrorKind::Unsupported)?;
    let mut stream = from;
    let (mut byte, mut number) = ([0], [0; 8]);
    stream.read_exact(&mut byte)?;
    match byte[0] {
        GIVEN => {
            stream.read_exact(&mut number)?;
            let block = world.borrow(u64::from_be_bytes(number));
            block.map(Some).ok_or_else(|| Error::new(ErrorKind::NotFound, "no memory of that number"))
        }
        REFUSED => Ok(None),
        other => Err(Error::new(ErrorKind::InvalidData, format!("expected M or N, found byte {other}"))),
    }
}
