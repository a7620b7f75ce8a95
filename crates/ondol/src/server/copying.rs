//! COPY's data: what a client sends for COPY FROM STDIN, and what it gets of COPY TO STDOUT.
use super::incoming::MESSAGE_LIMIT;
use super::result::{Answer, MUCH};
use crate::session::output::CopiedRows;
use ondol_base::sim::mutated;
use ondol_sql::copy::binary::{self, End, Record};
use ondol_types::{SqlError, sqlstate};
use ondol_wire::back;
use ondol_wire::front::{Message, PROTOCOL_VIOLATION};
use std::io::{Error, Read, Result, Write};

/// Reads the data of CopyData messages until CopyDone. An end that is none is kept for the statement's error
/// ([`Answer::broken_off`]).
pub(super) struct CopyIn<'a, 'b> {
    answer: &'a mut Answer<'b>,
    /// Bytes of the message at hand that were not given yet, behind its head.
    left: usize,
    over: bool,
}

impl<'a, 'b> CopyIn<'a, 'b> {
    pub fn new(answer: &'a mut Answer<'b>) -> CopyIn<'a, 'b> {
        CopyIn { answer, left: 0, over: false }
    }

    fn break_off(&mut self, e: SqlError) -> Error {
        self.over = true;
        let told = Error::other(e.to_string());
        self.answer.broken_off = Some(e);
        told
    }

    /// The next message of data, whose bytes are `left` then; false at the end.
    fn next(&mut self) -> Result<bool> {
        loop {
            let seen = match self.answer.incoming.next(MESSAGE_LIMIT) {
                Ok(Some(frame)) => Ok(Some((
                    frame.size(),
                    frame.kind,
                    match frame.read() {
                        Ok(Message::CopyData(data)) => Ok(Some(data.len())),
                        Ok(Message::CopyDone) => Ok(None),
                        Ok(Message::CopyFail(_)) if mutated("broken_copy_done") => Ok(None),
                        // Sent before the client knew that its statement is a COPY.
                        Ok(Message::Flush | Message::Sync) => Ok(Some(0)),
                        Ok(Message::CopyFail(why)) => Err(SqlError::new(
                            sqlstate::QUERY_CANCELED,
                            format!("COPY from stdin failed: {why}"),
                        )),
                        Ok(_) => Err(SqlError::new(
                            PROTOCOL_VIOLATION,
                            format!("unexpected message type 0x{:02X} during COPY from stdin", frame.kind),
                        )),
                        Err(e) => Err(e),
                    },
                ))),
                Ok(None) => Ok(None),
                Err(broken) => Err(broken),
            };
            match seen {
                Ok(Some((size, kind, Ok(Some(length))))) => {
                    // The data stays where it is, to be read from there.
                    self.answer.incoming.skip(if kind == b'd' { 5 } else { size });
                    if kind == b'd' && length > 0 {
                        self.left = length;
                        return Ok(true);
                    }
                }
                Ok(Some((size, _, Ok(None)))) => {
                    self.answer.incoming.skip(size);
                    self.over = true;
                    return Ok(false);
                }
                Ok(Some((size, _, Err(e)))) => {
                    self.answer.incoming.skip(size);
                    return Err(self.break_off(e));
                }
                Ok(None) => self.wait()?,
                Err(broken) => return Err(self.break_off(SqlError::new(PROTOCOL_VIOLATION, broken.0))),
            }
        }
    }

    /// Waits for more to come.
    fn wait(&mut self) -> Result<()> {
        let connection = self.answer.connection;
        if self.answer.incoming.refill(connection) {
            return Ok(());
        }
        // What cannot be answered is lost, though its end may not have come.
        let is_lost = connection.lost.get() && !mutated("lost_goes_round");
        if connection.input.borrow().ended || is_lost {
            let why = "unexpected EOF on client connection with an open transaction";
            return Err(self.break_off(SqlError::new(sqlstate::CONNECTION_FAILURE, why)));
        }
        if self.answer.around.cancel.is_told() {
            return Err(Error::other("the statement was cancelled"));
        }
        self.answer.wait_for_input();
        Ok(())
    }
}

impl Read for CopyIn<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.left == 0 && (self.over || !self.next()?) {
            return Ok(0);
        }
        let from = self.answer.incoming.rest();
        let n = self.left.min(buffer.len()).min(from.len());
        buffer[..n].copy_from_slice(&from[..n]);
        self.answer.incoming.skip(n);
        self.left -= n;
        Ok(n)
    }
}

/// Sends each row as a message of its own.
pub(super) struct CopyOut<'a, 'b> {
    answer: &'a mut Answer<'b>,
    /// A row's beginning.
    row: Vec<u8>,
    /// Within quotes.
    quoted: bool,
    /// Of binary data: the head is written, along with the first row.
    headed: bool,
}

impl<'a, 'b> CopyOut<'a, 'b> {
    pub fn new(answer: &'a mut Answer<'b>) -> CopyOut<'a, 'b> {
        CopyOut { answer, row: vec![], quoted: false, headed: false }
    }
}

impl CopyOut<'_, '_> {
    fn waited(&mut self) -> Result<()> {
        if self.answer.connection.output.borrow().len() < MUCH {
            return Ok(());
        }
        self.answer.much().map_err(|e| {
            let told = Error::other(e.to_string());
            self.answer.broken_off = Some(e);
            told
        })
    }

    fn write_binary(&mut self, bytes: &[u8]) -> Result<()> {
        let mut row = std::mem::take(&mut self.row);
        row.extend_from_slice(bytes);
        let mut from = 0;
        loop {
            let head = if self.headed { 0 } else { binary::HEAD.len() };
            let Some(rest) = row.get(from + head..) else { break };
            let End::At(end) = Record::of(rest).end() else { break };
            let to = from + head + end;
            back::copy_data(&mut self.answer.connection.output.borrow_mut(), &row[from..to]);
            self.headed = true;
            from = to;
            self.waited()?
        }
        row.drain(..from);
        self.row = row;
        Ok(())
    }
}

impl Write for CopyOut<'_, '_> {
    /// Waits while the client has not taken what was written before (server/E6).
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let quote = match self.answer.copied.1 {
            CopiedRows::Binary => {
                self.write_binary(bytes)?;
                return Ok(bytes.len());
            }
            CopiedRows::Quoted(quote) => Some(quote),
            CopiedRows::Lines => None,
        };
        // In COPY's text a line's end is a row's; in CSV not within quotes.
        for line in bytes.split_inclusive(|b| *b == b'\n') {
            if let Some(quote) = quote {
                self.quoted ^= line.iter().filter(|b| **b == quote).count() % 2 == 1
            }
            let is_whole = line.ends_with(b"\n") && !self.quoted;
            match (is_whole, self.row.is_empty()) {
                (true, true) => back::copy_data(&mut self.answer.connection.output.borrow_mut(), line),
                (true, false) => {
                    self.row.extend_from_slice(line);
                    back::copy_data(&mut self.answer.connection.output.borrow_mut(), &self.row);
                    self.row.clear()
                }
                (false, _) => self.row.extend_from_slice(line),
            }
            self.waited()?
        }
        Ok(bytes.len())
    }
    fn flush(&mut self) -> Result<()> {
        if !self.row.is_empty() {
            back::copy_data(&mut self.answer.connection.output.borrow_mut(), &self.row);
            self.row.clear()
        }
        Ok(())
    }
}
