//! What a server says, taken apart.
use ondol_types::SqlError;
use std::collections::BTreeSet;
use std::io::{Error, ErrorKind, Result};
use std::sync::Mutex;

/// What is left of a message's body.
#[derive(Clone, Copy)]
pub struct Body<'a>(pub &'a [u8]);

impl<'a> Body<'a> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(garbled)?;
        self.0 = rest;
        Ok(*taken)
    }
    pub fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n).ok_or_else(garbled)?;
        self.0 = rest;
        Ok(taken)
    }
    pub fn byte(&mut self) -> Result<u8> {
        self.bytes().map(u8::from_be_bytes)
    }
    pub fn i16(&mut self) -> Result<i16> {
        self.bytes().map(i16::from_be_bytes)
    }
    pub fn i32(&mut self) -> Result<i32> {
        self.bytes().map(i32::from_be_bytes)
    }
    /// Up to a zero.
    pub fn text(&mut self) -> Result<&'a str> {
        let end = self.0.iter().position(|b| *b == 0).ok_or_else(garbled)?;
        let text = std::str::from_utf8(&self.0[..end]).map_err(|_| garbled())?;
        self.0 = &self.0[end + 1..];
        Ok(text)
    }
    /// A value of a row; `None` is NULL.
    #[inline]
    pub fn value(&mut self) -> Result<Option<&'a [u8]>> {
        match usize::try_from(self.i32()?) {
            Ok(n) => self.take(n).map(Some),
            Err(_) => Ok(None),
        }
    }
}

/// A column of rows, as it is described.
pub struct Field<'a> {
    pub name: &'a str,
    /// PostgreSQL's, or the server's own, number of its type.
    pub oid: u32,
    pub modifier: i32,
}

impl<'a> Body<'a> {
    /// What RowDescription has.
    pub fn fields(mut self) -> Result<Vec<Field<'a>>> {
        let n = self.i16()?;
        let mut all = vec![];
        for _ in 0..n {
            let name = self.text()?;
            // The table and the column that it is of.
            self.take(6)?;
            let oid = self.i32()? as u32;
            self.i16()?;
            let modifier = self.i32()?;
            self.i16()?;
            all.push(Field { name, oid, modifier })
        }
        Ok(all)
    }
}

/// What a conversation that broke off is for who waits for an answer.
pub fn lost(e: Error) -> SqlError {
    SqlError::new("08006", format!("the connection to the server is lost: {e}"))
}

#[cold]
pub fn garbled() -> Error {
    Error::new(ErrorKind::InvalidData, "the server sent a message that is none of PostgreSQL's protocol")
}

/// A SQLSTATE that a server sent. There are few, and each is kept once; what is none is not.
fn sqlstate(text: &str) -> &'static str {
    const MOST: usize = 1000;
    let is_one = text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase());
    static KNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut known = KNOWN.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(found) = known.get(text) {
        return found;
    }
    if !is_one || known.len() >= MOST {
        return "XX000";
    }
    let kept: &'static str = Box::leak(text.to_string().into_boxed_str());
    known.insert(kept);
    kept
}

/// An error or a notice.
pub struct Report {
    /// As the server says it, in its language.
    pub severity: String,
    /// The session is over.
    pub is_fatal: bool,
    pub error: SqlError,
}

impl Report {
    /// `sql` is what it is about, of which positions are told.
    pub fn read(body: &[u8], sql: &str) -> Result<Report> {
        let mut body = Body(body);
        let mut found =
            Report { severity: String::new(), is_fatal: false, error: SqlError::new("XX000", "") };
        loop {
            let code = body.byte()?;
            if code == 0 {
                return Ok(found);
            }
            let text = body.text()?;
            let own = || Some(text.to_string());
            let fields = &mut found.error.0;
            match code {
                b'S' => found.severity = text.to_string(),
                b'V' => found.is_fatal = matches!(text, "FATAL" | "PANIC"),
                b'C' => fields.sqlstate = sqlstate(text),
                b'M' => fields.message = text.to_string(),
                b'D' => fields.detail = own(),
                b'H' => fields.hint = own(),
                b'W' => fields.context = own(),
                b's' => fields.about.schema = own(),
                b't' => fields.about.table = own(),
                b'c' => fields.about.column = own(),
                b'd' => fields.about.data_type = own(),
                b'n' => fields.about.constraint = own(),
                b'P' => {
                    let at = text.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
                    fields.position = at.map(|n| sql.char_indices().nth(n).map_or(sql.len(), |c| c.0))
                }
                _ => {}
            }
        }
    }
}
