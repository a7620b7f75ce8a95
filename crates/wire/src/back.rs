//! What a server answers: messages, appended to a buffer.
//!
//! - **A1** A text that a message holds ends with a zero, so one within it ends it too: what is behind is
//!   left out.
use ondol_types::error::Fields;

/// A message that is being written. Its length is filled in by [`Message::end`].
pub struct Message<'o> {
    pub out: &'o mut Vec<u8>,
    start: usize,
}

impl<'o> Message<'o> {
    pub fn begin(out: &'o mut Vec<u8>, kind: u8) -> Message<'o> {
        out.extend_from_slice(&[kind, 0, 0, 0, 0]);
        let start = out.len() - 4;
        Message { out, start }
    }
    pub fn end(self) {
        let length = (self.out.len() - self.start) as u32;
        self.out[self.start..self.start + 4].copy_from_slice(&length.to_be_bytes())
    }
    pub fn byte(self, b: u8) -> Self {
        self.out.push(b);
        self
    }
    pub fn i16(self, n: i16) -> Self {
        self.out.extend_from_slice(&n.to_be_bytes());
        self
    }
    pub fn i32(self, n: i32) -> Self {
        self.out.extend_from_slice(&n.to_be_bytes());
        self
    }
    pub fn u32(self, n: u32) -> Self {
        self.i32(n as i32)
    }
    pub fn bytes(self, b: &[u8]) -> Self {
        self.out.extend_from_slice(b);
        self
    }
    /// A text, with the zero that ends it (A1).
    pub fn text(self, t: &str) -> Self {
        let end = t.bytes().position(|b| b == 0).unwrap_or(t.len());
        self.out.extend_from_slice(&t.as_bytes()[..end]);
        self.byte(0)
    }
}

/// A value within a message: its length, and what `write` appends.
#[inline]
pub fn value<E>(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out)?;
    let length = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}
/// NULL within a message.
#[inline]
pub fn null(out: &mut Vec<u8>) {
    out.extend_from_slice(&(-1i32).to_be_bytes())
}

/// A message without anything in it.
pub fn empty(out: &mut Vec<u8>, kind: u8) {
    Message::begin(out, kind).end()
}

pub const PARSE_COMPLETE: u8 = b'1';
pub const BIND_COMPLETE: u8 = b'2';
pub const CLOSE_COMPLETE: u8 = b'3';
pub const NO_DATA: u8 = b'n';
pub const EMPTY_QUERY: u8 = b'I';
pub const PORTAL_SUSPENDED: u8 = b's';
pub const COPY_DONE: u8 = b'c';
pub const DATA_ROW: u8 = b'D';

pub fn authentication_ok(out: &mut Vec<u8>) {
    Message::begin(out, b'R').i32(0).end()
}
/// Asks for SASL, by one of these mechanisms.
pub fn authentication_sasl(out: &mut Vec<u8>, mechanisms: &[&str]) {
    let m = mechanisms.iter().fold(Message::begin(out, b'R').i32(10), |m, name| m.text(name));
    m.byte(0).end()
}
pub fn authentication_sasl_continue(out: &mut Vec<u8>, said: &str) {
    Message::begin(out, b'R').i32(11).bytes(said.as_bytes()).end()
}
pub fn authentication_sasl_final(out: &mut Vec<u8>, said: &str) {
    Message::begin(out, b'R').i32(12).bytes(said.as_bytes()).end()
}
pub fn key_data(out: &mut Vec<u8>, process: i32, key: &[u8]) {
    Message::begin(out, b'K').i32(process).bytes(key).end()
}
/// The server speaks version 3 of the protocol up to `minor` only, and knows not these options.
pub fn negotiate(out: &mut Vec<u8>, minor: u16, unknown: &[&str]) {
    let m = Message::begin(out, b'v').u32(3 << 16 | u32::from(minor)).i32(unknown.len() as i32);
    unknown.iter().fold(m, |m, name| m.text(name)).end()
}
pub fn parameter_status(out: &mut Vec<u8>, name: &str, value: &str) {
    Message::begin(out, b'S').text(name).text(value).end()
}
/// `state`: I outside a transaction, T in one, E in one that failed.
pub fn ready(out: &mut Vec<u8>, state: u8) {
    Message::begin(out, b'Z').byte(state).end()
}
/// What a session told those that listen.
pub fn notification(out: &mut Vec<u8>, process: i32, channel: &str, payload: &str) {
    Message::begin(out, b'A').i32(process).text(channel).text(payload).end()
}
pub fn complete(out: &mut Vec<u8>, tag: &str) {
    Message::begin(out, b'C').text(tag).end()
}

/// A column as a result's description has it.
pub struct Field<'a> {
    pub name: &'a str,
    /// The table's OID and the column's number, where its values are a column's.
    pub origin: Option<(u32, i16)>,
    /// The type's OID, the bytes of its values (negative: they differ), and its modifier.
    pub oid: u32,
    pub size: i16,
    pub modifier: i32,
    pub is_binary: bool,
}

pub fn row_description<'a>(out: &mut Vec<u8>, fields: impl ExactSizeIterator<Item = Field<'a>>) {
    let m = Message::begin(out, b'T').i16(fields.len() as i16);
    let field = |m: Message<'_>, f: Field<'_>| {
        let (table, column) = f.origin.unwrap_or((0, 0));
        m.text(f.name).u32(table).i16(column).u32(f.oid).i16(f.size).i32(f.modifier).i16(f.is_binary.into());
    };
    let Message { out, start } = m;
    for f in fields {
        field(Message { out: &mut *out, start }, f)
    }
    Message { out, start }.end()
}
pub fn parameter_description(out: &mut Vec<u8>, oids: impl ExactSizeIterator<Item = u32>) {
    let m = Message::begin(out, b't').i16(oids.len() as i16);
    oids.fold(m, |m, oid| m.u32(oid)).end()
}

/// COPY begins, of rows with so many columns; `is_in`: the client sends them.
pub fn copy_response(out: &mut Vec<u8>, is_in: bool, columns: usize, is_binary: bool) {
    let kind = if is_in { b'G' } else { b'H' };
    let m = Message::begin(out, kind).byte(is_binary.into()).i16(columns as i16);
    (0..columns).fold(m, |m, _| m.i16(is_binary.into())).end()
}
pub fn copy_data(out: &mut Vec<u8>, data: &[u8]) {
    Message::begin(out, b'd').bytes(data).end()
}

/// An error or a notice. `position` counts characters from 1.
pub fn report(out: &mut Vec<u8>, is_error: bool, severity: &str, fields: &Fields, position: Option<usize>) {
    let m = Message::begin(out, if is_error { b'E' } else { b'N' });
    let m = m.byte(b'S').text(severity).byte(b'V').text(severity).byte(b'C').text(fields.sqlstate);
    let mut m = m.byte(b'M').text(&fields.message);
    let further = [(b'D', &fields.detail), (b'H', &fields.hint), (b'W', &fields.context)];
    for (code, text) in further {
        if let Some(text) = text {
            m = m.byte(code).text(text)
        }
    }
    if let Some(p) = position {
        m = m.byte(b'P').text(&p.to_string())
    }
    let about = &fields.about;
    let names = [
        (b's', &about.schema),
        (b't', &about.table),
        (b'c', &about.column),
        (b'd', &about.data_type),
        (b'n', &about.constraint),
    ];
    for (code, name) in names {
        if let Some(name) = name {
            m = m.byte(code).text(name)
        }
    }
    if let Some(routine) = about.routine {
        m = m.byte(b'R').text(routine)
    }
    m.byte(0).end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_count_themselves_and_what_follows() {
        let mut out = vec![];
        ready(&mut out, b'I');
        assert_eq!(out, b"Z\0\0\0\x05I");
        out.clear();
        empty(&mut out, PARSE_COMPLETE);
        complete(&mut out, "SELECT 1");
        assert_eq!(out, b"1\0\0\0\x04C\0\0\0\x0dSELECT 1\0");
        out.clear();
        let m = Message::begin(&mut out, DATA_ROW).i16(2);
        null(m.out);
        value(m.out, |o| {
            o.push(b'x');
            Ok::<_, ()>(())
        })
        .unwrap();
        m.end();
        assert_eq!(out, b"D\0\0\0\x0f\0\x02\xff\xff\xff\xff\0\0\0\x01x");
        out.clear();
        let fields = Fields {
            sqlstate: "42601",
            message: "bad\0 text".into(),
            hint: Some("h".into()),
            ..Fields::default()
        };
        report(&mut out, true, "ERROR", &fields, Some(8));
        assert_eq!(&out[5..], b"SERROR\0VERROR\0C42601\0Mbad\0Hh\0P8\0\0");
        out.clear();
        row_description(
            &mut out,
            [Field { name: "a", origin: None, oid: 23, size: 4, modifier: -1, is_binary: true }].into_iter(),
        );
        assert_eq!(out, b"T\0\0\0\x1a\0\x01a\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\x01");
        out.clear();
        parameter_description(&mut out, [23, 25].into_iter());
        assert_eq!(out, b"t\0\0\0\x0e\0\x02\0\0\0\x17\0\0\0\x19");
        out.clear();
        authentication_sasl(&mut out, &["A", "B"]);
        assert_eq!(out, b"R\0\0\0\x0d\0\0\0\x0aA\0B\0\0");
        out.clear();
        copy_response(&mut out, true, 2, false);
        assert_eq!(out, b"G\0\0\0\x0b\0\0\x02\0\0\0\0");
        out.clear();
        copy_response(&mut out, false, 1, true);
        assert_eq!(out, b"H\0\0\0\x09\x01\0\x01\0\x01");
    }
}
