//! COPY's formats, text, csv and binary, in both directions, with PostgreSQL's rules (those of text differ
//! from RFC 4180 and from TSV in what NULL is, where quotes may stand, and what ends the data).
//!
//! - **C1** A [`CopyReader`] takes its input in large blocks and gives rows that borrow from its buffer;
//!   nothing is copied but fields with quotes or escapes.
//! - **C2** A record's end is found before its fields are looked at by the caller, so that a row is either
//!   whole or an error, never a prefix. A record may be of any length: the buffer grows to hold it.
//! - **C3** Fields are valid UTF-8 by the time a caller sees them; of the binary format they are bytes.
//! - **C4** The NULL string is compared with the field as it stands in the file, before escapes are undone;
//!   in csv a quoted field is never NULL.
//! - **C5** What a [`CopyWriter`] writes, a `CopyReader` with the same options reads back as the same fields.
//! - **C6** The input can be cut into [`Block`]s, each of whole records, which several threads parse;
//!   together they give what the reader itself would.
//!
//! Deliberately absent: types. A field is text, bytes or NULL here; only a [`CopyWriter`] makes texts of
//! values. The head of binary data, and how its records lie, is [`binary`]'s.
//!
//! Source: PostgreSQL's manual, "COPY", "File Formats".
use crate::bound::CopyOptions;
use ondol_engine::Charge;
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::io::Read;

pub mod binary;
mod write;
pub use write::{CopyBuffer, CopyWriter};

/// How much is asked of the input at once.
const BLOCK: usize = 1 << 20;
/// How much of it a [`Block`] has, unless a record is longer: what a core's cache holds along with the rows
/// made of it.
const CUT: usize = 256 << 10;
/// How much of a bad line an error shows.
const SHOWN: usize = 100;

impl Default for CopyOptions {
    /// FORMAT text with its defaults.
    fn default() -> Self {
        CopyOptions {
            binary: false,
            csv: false,
            header: false,
            delimiter: b'\t',
            null: "\\N".into(),
            quote: b'"',
            escape: b'"',
            force_quote_all: false,
        }
    }
}

impl CopyOptions {
    /// FORMAT csv with its defaults.
    pub fn csv() -> Self {
        CopyOptions { csv: true, delimiter: b',', null: String::new(), ..CopyOptions::default() }
    }
}

/// Which characters end a line; the first line decides, and later lines must agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Eol {
    Unknown,
    Nl,
    Cr,
    CrNl,
}

/// Where a field's text is.
#[derive(Clone, Copy, Debug)]
enum Span {
    Null,
    /// In the record, as it stands.
    Plain(u32, u32),
    /// In the scratch buffer, quotes and escapes undone.
    Undone(u32, u32),
}

/// Streaming parser of COPY data.
pub struct CopyReader<R> {
    input: R,
    options: CopyOptions,
    /// Bytes that end or change a run of plain field text.
    special: [bool; 256],
    buf: Vec<u8>,
    /// The unread part of `buf`.
    start: usize,
    end: usize,
    /// Bytes of input before `buf[0]`.
    before: u64,
    eof: bool,
    done: bool,
    eol: Eol,
    /// Line on which the current record starts, and the next one; counted from 1.
    line: u64,
    next_line: u64,
    skip_header: bool,
    spans: Vec<Span>,
    undone: Vec<u8>,
    /// Of the binary format: how many fields a record is to have, whether the head was read, and which field
    /// an error was found in.
    columns: usize,
    headed: bool,
    wrong: Option<usize>,
    /// What a record longer than a block takes.
    charge: Option<Charge>,
}

/// Whole records, as they stand in the input.
pub struct Block {
    bytes: Vec<u8>,
    options: CopyOptions,
    eol: Eol,
    columns: usize,
}

impl Block {
    /// Reads the block's records; `line` is that of the first.
    pub fn read(self, line: u64) -> CopyReader<std::io::Empty> {
        let mut r = CopyReader::new(std::io::empty(), &self.options);
        r.end = self.bytes.len();
        r.buf = self.bytes;
        r.eof = true;
        r.eol = self.eol;
        r.columns = self.columns;
        r.headed = true;
        r.next_line = line;
        r
    }
}

impl CopyReader<std::io::Empty> {
    /// The block again, from its start.
    pub fn into_block(self) -> Block {
        Block { bytes: self.buf, options: self.options, eol: self.eol, columns: self.columns }
    }
}

/// A record's fields.
#[derive(Clone, Copy)]
pub struct CopyRow<'a> {
    /// The record of the binary format.
    bytes: &'a [u8],
    text: &'a str,
    undone: &'a str,
    spans: &'a [Span],
    line: u64,
}

impl<'a> CopyRow<'a> {
    pub fn len(&self) -> usize {
        self.spans.len()
    }
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }
    /// The field's text, or `None` for NULL (and for fields that are not there).
    #[inline]
    pub fn get(&self, i: usize) -> Option<&'a str> {
        match *self.spans.get(i)? {
            Span::Null => None,
            Span::Plain(a, b) => self.text.get(a as usize..b as usize),
            Span::Undone(a, b) => self.undone.get(a as usize..b as usize),
        }
    }
    /// The field's bytes in the binary format, or `None` for NULL.
    #[inline]
    pub fn get_bytes(&self, i: usize) -> Option<&'a [u8]> {
        match *self.spans.get(i)? {
            Span::Plain(a, b) => self.bytes.get(a as usize..b as usize),
            Span::Null | Span::Undone(..) => None,
        }
    }
    /// The line on which the record starts, counted from 1; in the binary format the record's number.
    pub fn line(&self) -> u64 {
        self.line
    }
    /// The record as it stands in the input, cut short, for errors.
    pub fn shown(&self) -> String {
        shorten(self.text)
    }
}

/// What looking for a record's end found.
enum Record {
    /// The record is `start..at`; the next one starts at `next`, `lines` lines on.
    Found { at: usize, next: usize, lines: u64 },
    /// More input is needed to tell.
    Short,
    /// `\.` on a line of its own.
    EndMark,
}

impl<R: Read> CopyReader<R> {
    pub fn new(input: R, options: &CopyOptions) -> CopyReader<R> {
        let mut special = [false; 256];
        for b in [b'\n', b'\r', options.delimiter, if options.csv { options.quote } else { b'\\' }] {
            special[b as usize] = true;
        }
        CopyReader {
            input,
            options: options.clone(),
            special,
            buf: Vec::new(),
            start: 0,
            end: 0,
            before: 0,
            eof: false,
            done: false,
            eol: if options.binary { Eol::Nl } else { Eol::Unknown },
            line: 0,
            next_line: 1,
            skip_header: options.header,
            spans: Vec::new(),
            undone: Vec::new(),
            columns: 0,
            headed: !options.binary,
            wrong: None,
            charge: None,
        }
    }

    /// A record of the binary format is to have so many fields.
    pub fn of_columns(mut self, columns: usize) -> CopyReader<R> {
        self.columns = columns;
        self
    }

    /// Long records count against a memory limit.
    pub fn charged(mut self, charge: Charge) -> CopyReader<R> {
        self.charge = Some(charge);
        self
    }

    /// The next records in one block; `None` at the end of the input. Whatever is wrong with them is found by
    /// whoever reads the block.
    pub fn block(&mut self) -> SqlResult<Option<Block>> {
        loop {
            if !self.headed {
                self.head()?;
            }
            if self.start == self.end && self.eof || self.done {
                return Ok(None);
            }
            let have = self.end - self.start;
            // The first record says what ends lines.
            if have > 0
                && self.eol == Eol::Unknown
                && !self.eof
                && let Ok(Record::Short) = self.parse()
            {
                self.fill()?;
                continue;
            }
            if have >= CUT || self.eof {
                let near = (self.start + CUT).min(self.end);
                let at = match self.last_end(near).or_else(|| self.last_end(self.end)) {
                    Some(at) if near < self.end || !self.eof => Some(at),
                    _ => self.eof.then_some(self.end),
                };
                if let Some(at) = at {
                    let bytes = self.buf[self.start..at].to_vec();
                    self.start = at;
                    let mut options = self.options.clone();
                    options.header = std::mem::take(&mut self.skip_header);
                    return Ok(Some(Block { bytes, options, eol: self.eol, columns: self.columns }));
                }
            }
            self.fill()?
        }
    }

    /// The end of the last record that surely ends in `start..to`, its line end included.
    fn last_end(&self, to: usize) -> Option<usize> {
        let buf = &self.buf[self.start..to];
        if self.options.binary {
            return binary::last_end(buf, self.columns).map(|n| self.start + n);
        }
        let eol = if self.eol == Eol::Cr { b'\r' } else { b'\n' };
        let (quote, escape) = (self.options.quote, self.options.escape);
        if !self.options.csv {
            let mut to = buf.len();
            while let Some(at) = buf[..to].iter().rposition(|b| *b == eol) {
                let escapes = buf[..at].iter().rev().take_while(|b| **b == b'\\').count();
                if escapes % 2 == 0 {
                    return Some(self.start + at + 1);
                }
                to = at
            }
            return None;
        }
        if !buf.contains(&quote) {
            return buf.iter().rposition(|b| *b == eol).map(|at| self.start + at + 1);
        }
        let (mut end, mut i) = (None, 0);
        while i < buf.len() {
            // Outside of quotes.
            let open = buf[i..].iter().position(|b| *b == quote).map_or(buf.len(), |n| i + n);
            if let Some(at) = buf[i..open].iter().rposition(|b| *b == eol) {
                end = Some(self.start + i + at + 1)
            }
            i = open + 1;
            // Inside.
            while i < buf.len() {
                let b = buf[i];
                if b == escape && buf.get(i + 1).is_some_and(|n| *n == quote || *n == escape) {
                    i += 2
                } else {
                    i += 1;
                    if b == quote {
                        break;
                    }
                }
            }
        }
        end
    }

    /// The head of binary data.
    fn head(&mut self) -> SqlResult<()> {
        loop {
            match binary::head(&self.buf[self.start..self.end], self.eof)? {
                Some(n) => {
                    self.start += n;
                    self.headed = true;
                    return Ok(());
                }
                None => self.fill()?,
            }
        }
    }

    /// The field in which an error was found, of the record behind the one read last.
    pub fn wrong_field(&self) -> Option<usize> {
        self.wrong
    }

    /// Whether the data was ended by a mark before the end of the input.
    pub fn ended(&self) -> bool {
        self.done && self.start < self.end
    }
    /// Bytes that are here and not read yet.
    pub fn unread(&self) -> usize {
        self.end - self.start
    }
    /// The line of the next record.
    pub fn next_line(&self) -> u64 {
        self.next_line
    }
    /// The line on which the record read last starts, counted from 1.
    pub fn line(&self) -> u64 {
        self.line
    }
    /// Bytes of input taken by the records read so far.
    pub fn consumed(&self) -> u64 {
        self.before + self.start as u64
    }
    /// The input, after the end of data was read.
    pub fn into_inner(self) -> R {
        self.input
    }

    /// The next record; `None` at the end of the data.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> SqlResult<Option<CopyRow<'_>>> {
        loop {
            if self.done {
                return Ok(None);
            }
            if !self.headed {
                self.head()?;
            }
            match self.parse()? {
                Record::Found { at, next, lines } => {
                    let from = self.start;
                    self.start = next;
                    self.line = self.next_line;
                    self.next_line += lines;
                    if std::mem::take(&mut self.skip_header) {
                        continue;
                    }
                    if self.options.binary {
                        let (bytes, line) = (&self.buf[from..at], self.line);
                        return Ok(Some(CopyRow { bytes, text: "", undone: "", spans: &self.spans, line }));
                    }
                    let text = utf8(&self.buf[from..at], self.line)?;
                    let undone = utf8(&self.undone, self.line)?;
                    return Ok(Some(CopyRow {
                        bytes: &[],
                        text,
                        undone,
                        spans: &self.spans,
                        line: self.line,
                    }));
                }
                Record::EndMark => self.done = true,
                Record::Short if self.eof => self.done = true,
                Record::Short => self.fill()?,
            }
        }
    }

    /// Reads more input behind what is unread.
    fn fill(&mut self) -> SqlResult<()> {
        if self.start > 0 {
            self.buf.copy_within(self.start..self.end, 0);
            self.before += self.start as u64;
            self.end -= self.start;
            self.start = 0;
        }
        if self.buf.len() - self.end < BLOCK / 2 {
            // Doubling keeps a record that grows block by block linear, though it is parsed from its start
            // again.
            let want = (self.buf.len() * 2).max(BLOCK);
            if want > BLOCK
                && let Some(c) = &mut self.charge
            {
                // Here, in its block, and in the row that is made of it.
                const TIMES: usize = 3;
                c.resize(want.saturating_mul(TIMES))?
            }
            self.buf.reserve_exact(want - self.buf.len());
            self.buf.resize(want, 0);
        }
        // Of a long record as much as there is room for, so that it is not looked at again for each small
        // piece.
        let is_long = self.end > BLOCK;
        loop {
            match self.input.read(&mut self.buf[self.end..]) {
                Ok(0) => {
                    self.eof = true;
                    return Ok(());
                }
                Ok(n) => {
                    self.end += n;
                    if !is_long || self.end == self.buf.len() {
                        return Ok(());
                    }
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => {
                    return Err(SqlError::new(sqlstate::IO_ERROR, format!("could not read COPY data: {e}")));
                }
            }
        }
    }

    fn fail(&self, message: &str) -> SqlError {
        let rest = &self.buf[self.start..self.end];
        let line = rest.split(|b| matches!(b, b'\n' | b'\r')).next().unwrap_or_default();
        let shown = shorten(&String::from_utf8_lossy(&line[..line.len().min(4 * SHOWN)]));
        SqlError::new(sqlstate::BAD_COPY_FILE_FORMAT, message)
            .context(format!("line {}: \"{shown}\"", self.next_line))
    }

    /// A line end inside plain text, at `i`: (where the record's text ends, where the next starts).
    fn line_end(&mut self, i: usize) -> SqlResult<Option<(usize, usize)>> {
        let csv = self.options.csv;
        if self.buf[i] == b'\n' {
            return match self.eol {
                Eol::Unknown | Eol::Nl => {
                    self.eol = Eol::Nl;
                    Ok(Some((i, i + 1)))
                }
                Eol::Cr | Eol::CrNl => Err(if csv {
                    self.fail("unquoted newline found in data")
                        .hint("Use quoted CSV field to represent newline.")
                } else {
                    self.fail("literal newline found in data").hint("Use \"\\n\" to represent newline.")
                }),
            };
        }
        let next = if i + 1 < self.end { Some(self.buf[i + 1]) } else { None };
        if next.is_none() && !self.eof {
            return Ok(None);
        }
        let pair = next == Some(b'\n');
        match (self.eol, pair) {
            (Eol::Unknown | Eol::CrNl, true) => {
                self.eol = Eol::CrNl;
                Ok(Some((i, i + 2)))
            }
            (Eol::Unknown, false) | (Eol::Cr, _) => {
                self.eol = Eol::Cr;
                Ok(Some((i, i + 1)))
            }
            (Eol::Nl, _) | (Eol::CrNl, false) => Err(if csv {
                self.fail("unquoted carriage return found in data")
                    .hint("Use quoted CSV field to represent carriage return.")
            } else {
                self.fail("literal carriage return found in data")
                    .hint("Use \"\\r\" to represent carriage return.")
            }),
        }
    }

    /// Parses the record at `start` into `spans` and `undone`.
    fn parse(&mut self) -> SqlResult<Record> {
        self.spans.clear();
        self.undone.clear();
        if self.start == self.end {
            return Ok(Record::Short);
        }
        match (self.options.binary, self.options.csv) {
            (true, _) => self.parse_binary(),
            (_, true) => self.parse_csv(),
            _ => self.parse_text(),
        }
    }

    /// A record of the binary format; what is wrong with it is told without its place.
    fn parse_binary(&mut self) -> SqlResult<Record> {
        use binary::Part;
        self.wrong = None;
        let record = binary::Record::of(&self.buf[self.start..self.end]);
        match record.count() {
            None => return Ok(Record::Short),
            Some(binary::END) if record.len() > 2 => {
                return Err(binary::bad("received copy data after EOF marker"));
            }
            Some(binary::END) if !self.eof => return Ok(Record::Short),
            Some(binary::END) => {
                self.start = self.end;
                return Ok(Record::EndMark);
            }
            Some(count) if usize::try_from(count) != Ok(self.columns) => {
                let expected = self.columns;
                return Err(binary::bad(&format!("row field count is {count}, expected {expected}")));
            }
            Some(_) => {}
        }
        let mut at = 2;
        for i in 0..self.columns {
            match record.field(at) {
                Part::Null => {
                    self.spans.push(Span::Null);
                    at += 4;
                }
                Part::Bytes(length) => {
                    let end = at + 4 + length;
                    self.spans.push(Span::Plain((at + 4) as u32, end as u32));
                    at = end;
                }
                Part::Short if !self.eof => return Ok(Record::Short),
                Part::Short => {
                    self.wrong = Some(i);
                    return Err(binary::bad("unexpected EOF in COPY data"));
                }
                Part::Bad => {
                    self.wrong = Some(i);
                    return Err(binary::bad("invalid field size"));
                }
            }
        }
        let end = self.start + at;
        Ok(Record::Found { at: end, next: end, lines: 1 })
    }

    /// Whether the line `start..at` is the end mark.
    fn is_end_mark(&self, at: usize) -> bool {
        &self.buf[self.start..at] == b"\\."
    }

    /// The next special byte at or after `i`.
    #[inline]
    fn skip_plain(&self, mut i: usize) -> usize {
        let buf = &self.buf[..self.end];
        while i < buf.len() && !self.special[buf[i] as usize] {
            i += 1;
        }
        i
    }

    fn plain(&mut self, from: usize, to: usize) {
        let raw = &self.buf[from..to];
        self.spans.push(if raw == self.options.null.as_bytes() {
            Span::Null
        } else {
            Span::Plain((from - self.start) as u32, (to - self.start) as u32)
        });
    }

    /// Whether a line ends behind `\.`, as it must, and as the lines before it did; false when that is not
    /// read yet.
    fn is_mark_end(&mut self, after: usize) -> SqlResult<bool> {
        if after == self.end && !self.eof {
            return Ok(false);
        }
        let end = if after < self.end { self.buf[after] } else { 0 };
        let matches = match (self.eol, end) {
            (_, b'\n') => matches!(self.eol, Eol::Unknown | Eol::Nl),
            (_, b'\r') => self.eol != Eol::Nl,
            _ => return Err(self.fail("end-of-copy marker corrupt")),
        };
        if !matches {
            return Err(self.fail("end-of-copy marker does not match previous newline style"));
        }
        Ok(self.line_end(after)?.is_some())
    }

    /// A field of the text format, as it stands or undone.
    fn field(&mut self, from: usize, to: usize, escaped: bool) {
        if escaped && self.buf[from..to] != *self.options.null.as_bytes() {
            let a = self.undone.len();
            unescape(&self.buf[from..to], &mut self.undone);
            self.spans.push(Span::Undone(a as u32, self.undone.len() as u32));
        } else {
            self.plain(from, to);
        }
    }

    fn parse_text(&mut self) -> SqlResult<Record> {
        let mut i = self.start;
        let mut from = i;
        let mut escaped = false;
        let mut lines = 1;
        loop {
            i = self.skip_plain(i);
            let at_end = i == self.end;
            if at_end && !self.eof {
                return Ok(Record::Short);
            }
            if !at_end && self.buf[i] == b'\\' {
                // What follows a backslash is never special: skip it with it.
                if i + 1 == self.end {
                    if !self.eof {
                        return Ok(Record::Short);
                    }
                    i += 1;
                } else {
                    if self.buf[i + 1] == b'.' {
                        if !self.is_mark_end(i + 2)? {
                            return Ok(Record::Short);
                        }
                        if i > self.start {
                            return Err(self.fail("end-of-copy marker is not alone on its line"));
                        }
                        return Ok(Record::EndMark);
                    }
                    lines += (self.buf[i + 1] == b'\n') as u64;
                    i += 2;
                }
                escaped = true;
                continue;
            }
            let ends = if at_end {
                Some((i, i))
            } else if self.buf[i] == self.options.delimiter {
                None
            } else {
                match self.line_end(i)? {
                    Some(e) => Some(e),
                    None => return Ok(Record::Short),
                }
            };
            self.field(from, i, escaped);
            match ends {
                Some((at, next)) => return Ok(Record::Found { at, next, lines }),
                None => {
                    i += 1;
                    from = i;
                    escaped = false;
                }
            }
        }
    }

    fn parse_csv(&mut self) -> SqlResult<Record> {
        let mut i = self.start;
        let mut from = i;
        // Where the undone form of a field with quotes starts, and how far the raw text was taken into it.
        let mut quoted: Option<(usize, usize)> = None;
        let mut lines = 1;
        loop {
            i = self.skip_plain(i);
            let at_end = i == self.end;
            if at_end && !self.eof {
                return Ok(Record::Short);
            }
            if !at_end && self.buf[i] == self.options.quote && self.buf[i] != self.options.delimiter {
                let (a, taken) = quoted.unwrap_or((self.undone.len(), from));
                self.undone.extend_from_slice(&self.buf[taken..i]);
                match self.quoted_part(i + 1, &mut lines)? {
                    Some(next) => i = next,
                    None => return Ok(Record::Short),
                }
                quoted = Some((a, i));
                continue;
            }
            let ends = if at_end {
                Some((i, i))
            } else if self.buf[i] == self.options.delimiter {
                None
            } else {
                match self.line_end(i)? {
                    Some(e) => Some(e),
                    None => return Ok(Record::Short),
                }
            };
            match quoted.take() {
                Some((a, taken)) => {
                    self.undone.extend_from_slice(&self.buf[taken..i]);
                    self.spans.push(Span::Undone(a as u32, self.undone.len() as u32));
                }
                None => {
                    if ends.is_some() && self.spans.is_empty() && self.is_end_mark(i) {
                        return Ok(Record::EndMark);
                    }
                    self.plain(from, i);
                }
            }
            match ends {
                Some((at, next)) => return Ok(Record::Found { at, next, lines }),
                None => {
                    i += 1;
                    from = i;
                }
            }
        }
    }

    /// Takes the part of a field that follows an opening quote, up to behind the closing one; `None` when the
    /// input read so far does not hold it.
    fn quoted_part(&mut self, mut i: usize, lines: &mut u64) -> SqlResult<Option<usize>> {
        let (quote, escape) = (self.options.quote, self.options.escape);
        let mut from = i;
        loop {
            let rest = &self.buf[i..self.end];
            let Some(n) = rest.iter().position(|&b| b == quote || b == escape || b == b'\n') else {
                if self.eof {
                    return Err(self.fail("unterminated CSV quoted field"));
                }
                return Ok(None);
            };
            i += n;
            let c = self.buf[i];
            if c == b'\n' && c != quote && c != escape {
                *lines += 1;
                i += 1;
                continue;
            }
            if c == escape {
                // An escape counts only before a quote or another escape.
                if i + 1 == self.end && !self.eof {
                    return Ok(None);
                }
                let next = if i + 1 < self.end { Some(self.buf[i + 1]) } else { None };
                if next.is_some_and(|n| n == quote || n == escape) {
                    self.undone.extend_from_slice(&self.buf[from..i]);
                    from = i + 1;
                    i += 2;
                    continue;
                }
            }
            if c == quote {
                self.undone.extend_from_slice(&self.buf[from..i]);
                return Ok(Some(i + 1));
            }
            i += 1;
        }
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_string(),
    }
}

/// As text, which a zero byte is no part of.
fn utf8(bytes: &[u8], line: u64) -> SqlResult<&str> {
    let refused = |bad: &[u8]| {
        let bad: Vec<String> = bad.iter().map(|b| format!("0x{b:02x}")).collect();
        SqlError::new("22021", format!("invalid byte sequence for encoding \"UTF8\": {}", bad.join(" ")))
            .context(format!("line {line}"))
    };
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let at = e.valid_up_to();
        refused(&bytes[at..bytes.len().min(at + 4)])
    })?;
    if bytes.contains(&0) {
        return Err(refused(&[0]));
    }
    Ok(text)
}

/// Undoes the text format's backslash escapes.
fn unescape(raw: &[u8], out: &mut Vec<u8>) {
    let mut i = 0;
    while i < raw.len() {
        let c = raw[i];
        i += 1;
        if c != b'\\' || i == raw.len() {
            out.push(c);
            continue;
        }
        let c = raw[i];
        i += 1;
        out.push(match c {
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'0'..=b'7' => {
                let mut v = (c - b'0') as u32;
                for _ in 0..2 {
                    match raw.get(i) {
                        Some(d @ b'0'..=b'7') => v = v * 8 + (d - b'0') as u32,
                        _ => break,
                    }
                    i += 1;
                }
                v as u8
            }
            b'x' => {
                let mut v = None;
                for _ in 0..2 {
                    match raw.get(i).and_then(|d| (*d as char).to_digit(16)) {
                        Some(d) => v = Some(v.unwrap_or(0) * 16 + d),
                        None => break,
                    }
                    i += 1;
                }
                v.map_or(b'x', |v| v as u8)
            }
            other => other,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondol_types::{Type, ValueRef};

    /// Gives its bytes in pieces of `1`, to cut every record at every place.
    struct Drip<'a>(&'a [u8]);
    impl Read for Drip<'_> {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let n = self.0.len().min(1).min(out.len());
            out[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    fn rows_of(input: impl Read, o: &CopyOptions) -> SqlResult<Vec<Vec<Option<String>>>> {
        let mut r = CopyReader::new(input, o);
        let mut all = Vec::new();
        while let Some(row) = r.next()? {
            all.push((0..row.len()).map(|i| row.get(i).map(str::to_string)).collect());
        }
        Ok(all)
    }

    /// Reads at once and byte by byte; both must agree.
    fn read(input: &str, o: &CopyOptions) -> SqlResult<Vec<Vec<Option<String>>>> {
        let whole = rows_of(input.as_bytes(), o);
        let dripped = rows_of(Drip(input.as_bytes()), o);
        assert_eq!(whole.as_ref().ok(), dripped.as_ref().ok());
        assert_eq!(whole.is_err(), dripped.is_err());
        whole
    }

    fn fields(row: &[&str]) -> Vec<Option<String>> {
        row.iter().map(|f| (*f != "<null>").then(|| f.to_string())).collect()
    }

    #[test]
    fn text_escapes_and_nulls() {
        let got = read("1\t\\N\ta\\tb\\\\c\\x41\\101\\q\n2\t\t\\n\n", &CopyOptions::default()).unwrap();
        assert_eq!(got, [fields(&["1", "<null>", "a\tb\\cAAq"]), fields(&["2", "", "\n"])]);
    }

    #[test]
    fn text_ends_at_mark_and_takes_escaped_newline() {
        let got = read("a\\\nb\n\\.\nrest\n", &CopyOptions::default()).unwrap();
        assert_eq!(got, [fields(&["a\nb"])]);
        assert!(read("\\.x\n", &CopyOptions::default()).is_err());
        // A doubled backslash before the period is data.
        assert_eq!(read("\\\\.\n", &CopyOptions::default()).unwrap(), [fields(&["\\."])]);
    }

    #[test]
    fn csv_quotes() {
        let o = CopyOptions::csv();
        let got = read("1,\"a,\"\"b\"\"\nc\",\n\"\",x\"y\"z,\" \"\n", &o).unwrap();
        assert_eq!(got, [fields(&["1", "a,\"b\"\nc", "<null>"]), fields(&["", "xyz", " "])]);
        let e = read("1,\"open\n", &o).unwrap_err();
        assert_eq!(e.0.message, "unterminated CSV quoted field");
        assert_eq!(e.sqlstate(), "22P04");
    }

    #[test]
    fn csv_other_escape() {
        let o = CopyOptions { escape: b'\\', ..CopyOptions::csv() };
        assert_eq!(read("\"a\\\"b\\\\c\\d\",2\n", &o).unwrap(), [fields(&["a\"b\\c\\d", "2"])]);
    }

    #[test]
    fn line_ends_must_agree() {
        let o = CopyOptions::csv();
        assert_eq!(read("1\r\n2\r\n", &o).unwrap(), [fields(&["1"]), fields(&["2"])]);
        assert_eq!(read("1\r2\r", &o).unwrap(), [fields(&["1"]), fields(&["2"])]);
        assert_eq!(read("1\n2", &o).unwrap(), [fields(&["1"]), fields(&["2"])]);
        assert!(read("1\n2\r\n", &o).is_err());
        assert!(read("1\r\n2\n", &o).is_err());
    }

    /// Blocks, at whatever record they end, give what the whole gives: fields, lines, and the first error.
    #[test]
    fn blocks_give_the_same_records() {
        let padding = "x".repeat(300);
        let record = |i: usize, o: &CopyOptions| {
            let d = o.delimiter as char;
            match (i % 7, o.csv) {
                (0, true) => format!("{i}{d}\"a \"\"line\n of\r\n {padding}\""),
                (1, true) => format!("\"{i}\n\n\"{d}x\"{padding}\ny\"z"),
                (0, false) => format!("{i}{d}a line\\\n of \\\\{padding}\\\\"),
                (1, false) => format!("{i}\\\\\\\n{d}{padding}\\N"),
                _ => format!("{i}{d}{padding}"),
            }
        };
        let all = |r: &mut dyn FnMut() -> SqlResult<Option<(Vec<Option<String>>, u64)>>| {
            let mut rows = vec![];
            loop {
                match r() {
                    Ok(Some(row)) => rows.push(row),
                    Ok(None) => return (rows, None),
                    Err(e) => return (rows, Some((e.0.message, e.0.detail))),
                }
            }
        };
        let owned =
            |row: CopyRow<'_>| ((0..row.len()).map(|i| row.get(i).map(str::to_string)).collect(), row.line());
        for o in
            [CopyOptions::default(), CopyOptions::csv(), CopyOptions { header: true, ..CopyOptions::csv() }]
        {
            for eol in ["\n", "\r\n", "\r"] {
                for end in ["", "\"open", "a\rb\r\n", "\\.", "\\.x", "\u{1}last\t"] {
                    let mut input: String = (0..4000).map(|i| record(i, &o) + eol).collect();
                    input += end;
                    if end.starts_with("\\.") {
                        input = input + eol + &(0..4000).map(|i| record(i, &o) + eol).collect::<String>()
                    }
                    let mut whole = CopyReader::new(input.as_bytes(), &o);
                    let want = all(&mut || Ok(whole.next()?.map(owned)));
                    assert!(want.0.len() > 3000 || eol == "\r" && !o.csv, "{:?}", want.1);
                    let mut cutter = CopyReader::new(input.as_bytes(), &o);
                    let (mut line, mut blocks, mut ended) = (1, 0, false);
                    let mut block: Option<CopyReader<std::io::Empty>> = None;
                    let got = all(&mut || {
                        loop {
                            if let Some(b) = &mut block {
                                if let Some(row) = b.next()? {
                                    return Ok(Some(owned(row)));
                                }
                                line = b.next_line();
                                ended = b.ended();
                            }
                            match cutter.block()? {
                                Some(b) if !ended => {
                                    blocks += 1;
                                    // Twice, as after an error.
                                    let mut first = b.read(7);
                                    while let Ok(Some(_)) = first.next() {}
                                    block = Some(first.into_block().read(line))
                                }
                                _ => return Ok(None),
                            }
                        }
                    });
                    assert!(got == want, "{eol:?} {end:?}: {:?} for {:?}", got.1, want.1);
                    assert!(blocks > 3 || want.1.is_some(), "{blocks}");
                }
            }
        }
    }

    #[test]
    fn header_is_skipped_and_lines_are_counted() {
        let o = CopyOptions { header: true, ..CopyOptions::csv() };
        let mut r = CopyReader::new("h\n\"a\nb\"\nc\n".as_bytes(), &o);
        assert_eq!(r.next().unwrap().unwrap().get(0), Some("a\nb"));
        assert_eq!(r.line(), 2);
        assert_eq!(r.next().unwrap().unwrap().get(0), Some("c"));
        assert_eq!(r.line(), 4);
        assert!(r.next().unwrap().is_none());
        assert_eq!(r.consumed(), 10);
    }

    #[test]
    fn bad_utf8_is_refused() {
        let e = rows_of(&b"ok\n\xff\xfe\n"[..], &CopyOptions::default()).unwrap_err();
        assert_eq!(e.sqlstate(), "22021");
        assert!(rows_of(&b"\\xff\n"[..], &CopyOptions::default()).is_err());
        // A zero byte: as it is, by each kind of escape, and in CSV.
        for zero in [&b"ok\na\0b\n"[..], b"ok\na\\000b\n", b"ok\na\\x00b\n"] {
            let e = rows_of(zero, &CopyOptions::default()).unwrap_err();
            assert_eq!(
                (e.sqlstate(), e.to_string().as_str()),
                ("22021", "invalid byte sequence for encoding \"UTF8\": 0x00")
            );
        }
        assert_eq!(rows_of(&b"\"a\0b\"\n"[..], &CopyOptions::csv()).unwrap_err().sqlstate(), "22021");
    }

    #[test]
    fn a_record_longer_than_the_buffer() {
        let long = "x".repeat(3 * BLOCK + 17);
        let input = format!("{long},2\n3,4\n");
        let got = rows_of(input.as_bytes(), &CopyOptions::csv()).unwrap();
        assert_eq!(got[0][0].as_deref().map(str::len), Some(long.len()));
        assert_eq!(got[1], fields(&["3", "4"]));
    }

    /// C5 over fields made of awkward characters.
    #[test]
    fn what_is_written_is_read_back() {
        let alphabet =
            ["", "\\", "\"", ",", "\t", "\n", "\r", "N", ".", "a", "é", "\u{8}", "\u{b}", "\u{c}", "'", " "];
        let mut all = Vec::new();
        for a in alphabet {
            for b in alphabet {
                all.push(vec![Some(format!("{a}{b}")), None, Some(format!("{b}{a}{b}"))]);
            }
        }
        let odd = CopyOptions {
            delimiter: b';',
            quote: b'\'',
            escape: b'\\',
            null: "N".into(),
            ..CopyOptions::csv()
        };
        let forced = CopyOptions { force_quote_all: true, ..CopyOptions::csv() };
        for o in [CopyOptions::default(), CopyOptions::csv(), odd, forced] {
            let mut out = CopyBuffer::new(0);
            let w = CopyWriter::new(&o, 3);
            for row in &all {
                for f in row {
                    let v = f.as_deref().map_or(ValueRef::Null, ValueRef::Text);
                    w.value(v, Type::TEXT, &mut out, || v)
                }
                w.end_row(row.len(), &mut out);
            }
            assert_eq!(read(std::str::from_utf8(out.bytes()).unwrap(), &o).unwrap(), all);
        }
        // One column alone: an empty line is an empty csv field, and `\.` must not end the data.
        for o in [CopyOptions::default(), CopyOptions::csv()] {
            let mut out = CopyBuffer::new(0);
            let w = CopyWriter::new(&o, 1);
            for f in ["\\.", "", "x"] {
                w.value(ValueRef::Text(f), Type::TEXT, &mut out, || ValueRef::Text(f));
                w.end_row(1, &mut out);
            }
            assert_eq!(
                read(std::str::from_utf8(out.bytes()).unwrap(), &o).unwrap(),
                [["\\."], [""], ["x"]].map(|r| fields(&r))
            );
        }
    }
}
