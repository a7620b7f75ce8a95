//! How records lie in COPY's binary format.
//!
//! ```text
//! "PGCOPY\n\xff\r\n\0"  flags  length of what follows  ...        the head
//! 16 bits: fields      32 bits: length (-1: NULL)  bytes  ...   a record
//! 16 bits: -1                                                  the end
//! ```
//! All numbers have their highest byte first.
//!
//! Source: PostgreSQL's manual, "COPY", "Binary Format"; its errors are PostgreSQL 15's answers.
use ondol_types::{SqlError, SqlResult, sqlstate};

const SIGNATURE: [u8; 11] = *b"PGCOPY\n\xff\r\n\0";
/// What a count of fields is where data ends.
pub const END: i16 = -1;
/// The head that is written.
pub const HEAD: [u8; 19] = *b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

pub fn bad(message: &str) -> SqlError {
    SqlError::new(sqlstate::BAD_COPY_FILE_FORMAT, message)
}

fn word(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..)?.first_chunk().map(|b| i32::from_be_bytes(*b))
}

/// The length of the head at the beginning of `bytes`; `None` if more must be read to tell, which there is no
/// more of at the end of the file.
pub fn head(bytes: &[u8], eof: bool) -> SqlResult<Option<usize>> {
    let have = bytes.len().min(SIGNATURE.len());
    if bytes[..have] != SIGNATURE[..have] || have < SIGNATURE.len() && eof {
        return Err(bad("COPY file signature not recognized"));
    }
    let missing = |what: &str| match eof {
        true => Err(bad(&format!("invalid COPY file header ({what})"))),
        false => Ok(None),
    };
    let Some(flags) = word(bytes, 11) else { return missing("missing flags") };
    if flags & 1 << 16 != 0 {
        return Err(bad("invalid COPY file header (WITH OIDS)"));
    }
    if flags >> 16 != 0 {
        return Err(bad("unrecognized critical flags in COPY file header"));
    }
    match word(bytes, 15).map(usize::try_from) {
        None => missing("missing length"),
        Some(Err(_)) => Err(bad("invalid COPY file header (missing length)")),
        Some(Ok(more)) if bytes.len() - HEAD.len() < more => missing("wrong length"),
        Some(Ok(more)) => Ok(Some(HEAD.len() + more)),
    }
}

/// What stands where a field should.
pub enum Part {
    Null,
    /// So many bytes behind their length.
    Bytes(usize),
    /// Not all of it is here.
    Short,
    /// No length of a field.
    Bad,
}

/// Bytes that begin with a record.
pub struct Record<'a>(&'a [u8]);

impl<'a> Record<'a> {
    pub fn of(bytes: &'a [u8]) -> Record<'a> {
        Record(bytes)
    }
    pub fn len(&self) -> usize {
        self.0.len()
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// How many fields it says that it has.
    pub fn count(&self) -> Option<i16> {
        self.0.first_chunk().map(|b| i16::from_be_bytes(*b))
    }
    pub fn field(&self, at: usize) -> Part {
        match word(self.0, at) {
            None => Part::Short,
            Some(-1) => Part::Null,
            Some(length) => match usize::try_from(length) {
                Err(_) => Part::Bad,
                Ok(length) if self.0.len() - at - 4 < length => Part::Short,
                Ok(length) => Part::Bytes(length),
            },
        }
    }
}

/// Where a record ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    At(usize),
    /// Not here.
    Further,
    /// It has no end: something is wrong with it.
    Nowhere,
}

impl Record<'_> {
    pub fn end(&self) -> End {
        let mut at = 2;
        let Some(count) = self.count() else { return End::Further };
        // The end of data has no fields.
        for _ in 0..count.max(0) {
            at = match self.field(at) {
                Part::Null => at + 4,
                Part::Bytes(length) => at + 4 + length,
                Part::Short => return End::Further,
                Part::Bad => return End::Nowhere,
            }
        }
        End::At(at)
    }
}

/// Where the last record of those ends that are whole, each of so many fields. All bytes are given where
/// something is wrong, or data follows its end: whoever reads them finds it. What ends the data is whole once
/// it is known that nothing follows.
pub fn last_end(bytes: &[u8], columns: usize) -> Option<usize> {
    let mut at = 0;
    loop {
        let record = Record(&bytes[at..]);
        match record.count() {
            None => break,
            Some(END) if record.len() == 2 => break,
            Some(count) if usize::try_from(count) != Ok(columns) => return Some(bytes.len()),
            Some(_) => {}
        }
        match record.end() {
            End::At(n) => at += n,
            End::Further => break,
            End::Nowhere => return Some(bytes.len()),
        }
    }
    (at > 0).then_some(at)
}
