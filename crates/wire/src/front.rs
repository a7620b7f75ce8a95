//! What a client sends.
//!
//! ```text
//! first packets   length i32 | code i32 | ...      startup, cancel, SSL, GSSAPI
//! messages        kind u8 | length i32 | ...       the length counts itself
//! ```
//! - **M1** Where a message ends is known from its first bytes. If these are wrong, nothing behind them means
//!   anything ([`Broken`]): the connection is over. A message that is wrong inside is an error, and the
//!   messages behind it are as they were.
use ondol_types::{SqlError, SqlResult};

/// SQLSTATE of a message that is not as it should be.
pub const PROTOCOL_VIOLATION: &str = "08P01";
const CHARACTER_NOT_IN_REPERTOIRE: &str = "22021";

/// Bytes of a first packet.
const STARTUP_LIMIT: usize = 10_000;
/// Bytes of a message that holds names and numbers only.
const SMALL_LIMIT: usize = 10_000;

/// The stream of messages cannot be followed any more (M1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken(pub String);

/// The first packet of a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Opening<'a> {
    Startup {
        major: u16,
        minor: u16,
        /// Names and values.
        settings: Vec<(&'a str, &'a str)>,
    },
    /// Of another connection's statement, by what its server told.
    Cancel { process: i32, key: &'a [u8] },
    /// Asks for TLS.
    Ssl,
    /// Asks for encryption by GSSAPI.
    Gss,
    /// Asks for memory in which the rest is said (base/shm). No other server knows it.
    Memory,
}

const CANCEL: u32 = 1234 << 16 | 5678;
const SSL: u32 = 1234 << 16 | 5679;
const GSS: u32 = 1234 << 16 | 5680;
/// As `base/shm` has it.
const MEMORY: u32 = 0x4f6e << 16 | 1;

/// The first packet in `input`, with its length; nothing while it is not whole.
pub fn opening(input: &[u8]) -> Result<Option<(Opening<'_>, usize)>, Broken> {
    let Some(length) = input.first_chunk().map(|b| u32::from_be_bytes(*b) as usize) else { return Ok(None) };
    if !(8..=STARTUP_LIMIT).contains(&length) {
        return Err(Broken(format!(
            "invalid length of startup packet: expected 8 to {STARTUP_LIMIT} bytes, found {length}"
        )));
    }
    if input.len() < length {
        return Ok(None);
    }
    let body = &input[8..length];
    let code = u32::from_be_bytes([input[4], input[5], input[6], input[7]]);
    let opening = match code {
        SSL => Opening::Ssl,
        GSS => Opening::Gss,
        MEMORY => Opening::Memory,
        CANCEL => match body.split_first_chunk() {
            Some((process, key)) if !key.is_empty() => {
                Opening::Cancel { process: i32::from_be_bytes(*process), key }
            }
            _ => return Err(Broken("invalid length of cancel request".into())),
        },
        _ => {
            let (major, minor) = ((code >> 16) as u16, code as u16);
            // What other versions have behind it is not known.
            let settings = if major == 3 { settings(body)? } else { vec![] };
            Opening::Startup { major, minor, settings }
        }
    };
    Ok(Some((opening, length)))
}

fn settings(body: &[u8]) -> Result<Vec<(&str, &str)>, Broken> {
    let layout = || Broken("invalid startup packet layout: expected terminator as last byte".to_string());
    let body = body.strip_suffix(b"\0").ok_or_else(layout)?;
    let text = std::str::from_utf8(body).map_err(|_| Broken("invalid startup packet: not UTF-8".into()))?;
    let Some(text) = text.strip_suffix('\0') else {
        return if text.is_empty() { Ok(vec![]) } else { Err(layout()) };
    };
    let mut words = text.split('\0');
    let mut all = vec![];
    while let Some(name) = words.next() {
        let value = words.next().ok_or_else(layout)?;
        all.push((name, value))
    }
    Ok(all)
}

/// A message.
#[derive(Debug)]
pub enum Message<'a> {
    Query(&'a str),
    Parse {
        name: &'a str,
        text: &'a str,
        types: Types<'a>,
    },
    Bind(Bind<'a>),
    Describe(Target<'a>),
    Execute {
        portal: &'a str,
        most: u32,
    },
    Close(Target<'a>),
    Flush,
    Sync,
    CopyData(&'a [u8]),
    CopyDone,
    CopyFail(&'a str),
    /// A password, or a part of SASL's exchange: which it is follows from what was asked.
    Password(&'a [u8]),
    Terminate,
    FunctionCall,
}

/// A prepared statement or a portal, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    Statement(&'a str),
    Portal(&'a str),
}

/// The types of parameters, by their OIDs.
#[derive(Debug, Clone, Copy)]
pub struct Types<'a>(&'a [u8]);
impl Types<'_> {
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u32> {
        self.0.as_chunks().0.iter().map(|b| u32::from_be_bytes(*b))
    }
}

/// The forms of values: none is text for all, one is for all.
#[derive(Debug, Clone, Copy, Default)]
pub struct Forms<'a>(&'a [u8]);
impl Forms<'_> {
    pub fn len(&self) -> usize {
        self.0.len() / 2
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    pub fn is_binary(&self, i: usize) -> bool {
        let i = if self.len() == 1 { 0 } else { i };
        self.0.get(2 * i + 1).is_some_and(|b| *b == 1)
    }
    /// One for each, in the order of what they are of.
    pub fn iter(&self) -> impl Iterator<Item = bool> {
        (0..self.len()).map(|i| self.is_binary(i))
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Bind<'a> {
    pub portal: &'a str,
    pub statement: &'a str,
    pub forms: Forms<'a>,
    count: usize,
    values: &'a [u8],
    pub result_forms: Forms<'a>,
}

impl<'a> Bind<'a> {
    /// The number of values.
    pub fn len(&self) -> usize {
        self.count
    }
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
    /// The values, `None` being NULL; their lengths were looked at.
    pub fn values(&self) -> impl Iterator<Item = Option<&'a [u8]>> + use<'a> {
        let mut rest = self.values;
        (0..self.count).map(move |_| {
            let (length, behind) = rest.split_first_chunk()?;
            rest = behind;
            let length = usize::try_from(i32::from_be_bytes(*length)).ok()?;
            let (value, behind) = rest.split_at_checked(length)?;
            rest = behind;
            Some(value)
        })
    }
}

/// A message whose end is known, and nothing else of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    pub kind: u8,
    body: &'a [u8],
}

impl Frame<'_> {
    /// Bytes that it has in the input.
    pub fn size(&self) -> usize {
        5 + self.body.len()
    }
}

/// The first message in `input`, of at most `limit` bytes; nothing while it is not whole.
pub fn frame(input: &[u8], limit: usize) -> Result<Option<Frame<'_>>, Broken> {
    let Some((kind, rest)) = input.split_first() else { return Ok(None) };
    let limit = match kind {
        b'Q' | b'P' | b'B' | b'd' | b'F' => limit,
        b'D' | b'E' | b'C' | b'H' | b'S' | b'c' | b'f' | b'p' | b'X' => SMALL_LIMIT,
        _ => return Err(Broken(format!("invalid frontend message type {kind}"))),
    };
    let Some((length, rest)) = rest.split_first_chunk() else { return Ok(None) };
    let length = i32::from_be_bytes(*length);
    match usize::try_from(length).ok().and_then(|l| l.checked_sub(4)) {
        Some(l) if l <= limit => Ok(rest.get(..l).map(|body| Frame { kind: *kind, body })),
        _ => Err(Broken(format!(
            "invalid message length: expected 4 to {} bytes, found {length}, in a message of type \"{}\"",
            limit + 4,
            *kind as char
        ))),
    }
}

/// What is left of a message's bytes.
struct Body<'a>(&'a [u8]);

#[cold]
fn missing() -> SqlError {
    SqlError::new(PROTOCOL_VIOLATION, "insufficient data left in message")
}

impl<'a> Body<'a> {
    fn take(&mut self, n: usize) -> SqlResult<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n).ok_or_else(missing)?;
        self.0 = rest;
        Ok(taken)
    }
    fn bytes<const N: usize>(&mut self) -> SqlResult<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(missing)?;
        self.0 = rest;
        Ok(*taken)
    }
    fn count(&mut self) -> SqlResult<usize> {
        Ok(u16::from_be_bytes(self.bytes()?).into())
    }
    /// A text that ends with a zero.
    fn text(&mut self) -> SqlResult<&'a str> {
        let end = (self.0.iter().position(|b| *b == 0))
            .ok_or_else(|| SqlError::new(PROTOCOL_VIOLATION, "invalid string in message"))?;
        let bytes = &self.0[..end];
        let text = std::str::from_utf8(bytes).or_else(|_| utf8(bytes))?;
        self.0 = &self.0[end + 1..];
        Ok(text)
    }
    fn target(&mut self) -> SqlResult<Target<'a>> {
        match self.bytes()? {
            [b'S'] => Ok(Target::Statement(self.text()?)),
            [b'P'] => Ok(Target::Portal(self.text()?)),
            [other] => Err(SqlError::new(
                PROTOCOL_VIOLATION,
                format!("invalid subtype {other} of a message: expected S or P"),
            )),
        }
    }
    fn forms(&mut self) -> SqlResult<Forms<'a>> {
        let forms = Forms(self.count().and_then(|n| self.take(2 * n))?);
        match forms.0.as_chunks().0.iter().find(|f| !matches!(f, [0, 0 | 1])) {
            Some(f) => {
                Err(SqlError::new("22023", format!("unsupported format code: {}", i16::from_be_bytes(*f))))
            }
            None => Ok(forms),
        }
    }
    fn end(&self) -> SqlResult<()> {
        match self.0 {
            [] => Ok(()),
            _ => Err(SqlError::new(PROTOCOL_VIOLATION, "invalid message format")
                .detail(format!("The message has {} bytes more than it should.", self.0.len()))),
        }
    }
}

/// Bytes as a text, or PostgreSQL's error for those that are none.
pub fn utf8(bytes: &[u8]) -> SqlResult<&str> {
    let refused = |bytes: &[u8]| {
        let shown: Vec<String> = bytes.iter().map(|b| format!("0x{b:02x}")).collect();
        let shown = shown.join(" ");
        let message = format!("invalid byte sequence for encoding \"UTF8\": {shown}");
        SqlError::new(CHARACTER_NOT_IN_REPERTOIRE, message)
    };
    match std::str::from_utf8(bytes) {
        Ok(_) if bytes.contains(&0) => Err(refused(&[0])),
        Ok(text) => Ok(text),
        Err(e) => {
            let from = e.valid_up_to();
            // As many bytes as the first says that there are, of those that are there.
            let wanted = match bytes[from] {
                0xc0..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf7 => 4,
                _ => 1,
            };
            Err(refused(&bytes[from..bytes.len().min(from + wanted)]))
        }
    }
}

impl<'a> Frame<'a> {
    /// What the message says.
    pub fn read(self) -> SqlResult<Message<'a>> {
        let mut body = Body(self.body);
        let message = match self.kind {
            b'Q' => Message::Query(body.text()?),
            b'P' => Message::Parse {
                name: body.text()?,
                text: body.text()?,
                types: Types(body.count().and_then(|n| body.take(4 * n))?),
            },
            b'B' => {
                let (portal, statement, forms) = (body.text()?, body.text()?, body.forms()?);
                let count = body.count()?;
                let from = body.0;
                for _ in 0..count {
                    let length = i32::from_be_bytes(body.bytes()?);
                    if length >= 0 {
                        body.take(length as usize)?;
                    } else if length != -1 {
                        return Err(missing());
                    }
                }
                let values = &from[..from.len() - body.0.len()];
                Message::Bind(Bind { portal, statement, forms, count, values, result_forms: body.forms()? })
            }
            b'D' => Message::Describe(body.target()?),
            b'C' => Message::Close(body.target()?),
            b'E' => Message::Execute {
                portal: body.text()?,
                // Fewer than one are all.
                most: i32::from_be_bytes(body.bytes()?).try_into().unwrap_or(0),
            },
            b'H' => Message::Flush,
            b'S' => Message::Sync,
            b'd' => Message::CopyData(std::mem::take(&mut body.0)),
            b'c' => Message::CopyDone,
            b'f' => Message::CopyFail(body.text()?),
            b'p' => Message::Password(std::mem::take(&mut body.0)),
            b'X' => Message::Terminate,
            _ => {
                body.0 = &[];
                Message::FunctionCall
            }
        };
        body.end()?;
        Ok(message)
    }
}

/// The first answer of SASL's exchange: the mechanism that the client has chosen, and what it says.
pub fn sasl_initial(body: &[u8]) -> SqlResult<(&str, &[u8])> {
    let mut body = Body(body);
    let mechanism = body.text()?;
    let length = i32::from_be_bytes(body.bytes()?);
    let said = body.take(length.max(0) as usize)?;
    body.end()?;
    Ok((mechanism, said))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(kind: &[u8], body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u32 + 4).to_be_bytes();
        [kind, &length, body].concat()
    }
    fn read(kind: u8, body: &[u8]) -> SqlResult<Message<'static>> {
        let bytes = packet(&[kind], body).leak();
        let frame = frame(bytes, 1 << 20).unwrap().expect("it is whole");
        assert_eq!(frame.size(), bytes.len());
        frame.read()
    }
    fn state(kind: u8, body: &[u8]) -> &'static str {
        read(kind, body).expect_err("it is wrong").sqlstate()
    }

    #[test]
    fn first_packets() {
        let startup = packet(b"", b"\0\x03\0\0user\0ann\0database\0\0\0");
        for n in 0..startup.len() {
            assert_eq!(opening(&startup[..n]), Ok(None), "{n}");
        }
        let settings = vec![("user", "ann"), ("database", "")];
        let wanted = Opening::Startup { major: 3, minor: 0, settings };
        assert_eq!(opening(&startup), Ok(Some((wanted, startup.len()))));
        let cancel = packet(b"", b"\x04\xd2\x16\x2e\0\0\0\x07keys");
        assert_eq!(opening(&cancel), Ok(Some((Opening::Cancel { process: 7, key: b"keys" }, cancel.len()))));
        assert_eq!(opening(&packet(b"", b"\x04\xd2\x16\x2f")), Ok(Some((Opening::Ssl, 8))));
        assert_eq!(opening(&packet(b"", b"\x04\xd2\x16\x30")), Ok(Some((Opening::Gss, 8))));
        assert_eq!(opening(&packet(b"", b"On\0\x01")), Ok(Some((Opening::Memory, 8))));
        let old = Opening::Startup { major: 2, minor: 0, settings: vec![] };
        assert_eq!(opening(&packet(b"", b"\0\x02\0\0whatever")), Ok(Some((old, 16))));
        for wrong in [
            &b"GET / HTTP/1.1\r\n"[..],
            &[0, 0, 0, 4, 0, 0, 0, 0],
            &packet(b"", b"\0\x03\0\0user\0ann\0"),
            &packet(b"", b"\0\x03\0\0user\0\0"),
            &packet(b"", b"\0\x03\0\0us\xff\0ann\0\0"),
            &packet(b"", b"\x04\xd2\x16\x2e\0\0\0\x07"),
        ] {
            assert!(opening(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn frames() {
        assert_eq!(frame(b"", 10), Ok(None));
        assert_eq!(frame(b"S\0\0\0", 10), Ok(None));
        assert_eq!(frame(b"Q\0\0\0\x06a", 10), Ok(None));
        assert_eq!(frame(b"Q\0\0\0\x06a\0S", 10).map(|f| f.map(|f| f.size())), Ok(Some(7)));
        for wrong in [&b"Q\0\0\0\x03"[..], b"Q\0\0\0\x0f", b"Q\xff\xff\xff\xff", b"z", b"\0\0\0\0\x08"] {
            assert!(frame(wrong, 10).is_err(), "{wrong:?}");
        }
        assert!(frame(b"S\0\0\x40\0", 1 << 20).is_err(), "a long message of a short kind");
    }

    #[test]
    fn messages() {
        assert!(matches!(read(b'Q', b"select 1\0"), Ok(Message::Query("select 1"))));
        assert_eq!(state(b'Q', b"select 1"), "08P01");
        assert_eq!(state(b'Q', b"select\0 1\0"), "08P01");
        assert_eq!(state(b'Q', b"sel\xffect\0"), "22021");
        match read(b'P', b"s\0select $1\0\0\x02\0\0\0\x17\0\0\0\0").unwrap() {
            Message::Parse { name: "s", text: "select $1", types } => {
                assert_eq!(types.iter().collect::<Vec<_>>(), [23, 0])
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(state(b'P', b"s\0select $1\0\0\x02\0\0\0\x17"), "08P01");
        let bind = b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x02ab\xff\xff\xff\xff\0\x02\0\0\0\x01";
        match read(b'B', bind).unwrap() {
            Message::Bind(b) => {
                assert_eq!((b.portal, b.statement, b.len()), ("p", "s", 2));
                assert_eq!(b.values().collect::<Vec<_>>(), [Some(&b"ab"[..]), None]);
                assert!(b.forms.is_binary(0) && b.forms.is_binary(1));
                assert_eq!(b.result_forms.iter().collect::<Vec<_>>(), [false, true]);
            }
            other => panic!("{other:?}"),
        }
        // A length that is too long, a negative one, a form that there is not, too much, too little.
        assert_eq!(state(b'B', b"\0\0\0\0\0\x01\0\0\0\x09ab\0\0"), "08P01");
        assert_eq!(state(b'B', b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0"), "08P01");
        assert_eq!(state(b'B', b"\0\0\0\x01\0\x02\0\0\0\0"), "22023");
        assert_eq!(state(b'B', b"\0\0\0\0\0\0\0\0x"), "08P01");
        assert_eq!(state(b'B', b"\0\0\0\0\xff\xff"), "08P01");
        assert!(matches!(read(b'D', b"Sx\0"), Ok(Message::Describe(Target::Statement("x")))));
        assert!(matches!(read(b'C', b"P\0"), Ok(Message::Close(Target::Portal("")))));
        assert_eq!(state(b'D', b"Xx\0"), "08P01");
        assert_eq!(state(b'D', b""), "08P01");
        assert!(matches!(read(b'E', b"p\0\0\0\0\x05"), Ok(Message::Execute { portal: "p", most: 5 })));
        assert!(matches!(read(b'E', b"\0\xff\xff\xff\xff"), Ok(Message::Execute { portal: "", most: 0 })));
        assert!(matches!(read(b'S', b""), Ok(Message::Sync)));
        assert_eq!(state(b'S', b"x"), "08P01");
        assert!(matches!(read(b'd', b"a\0b"), Ok(Message::CopyData(b"a\0b"))));
        assert!(matches!(read(b'f', b"no\0"), Ok(Message::CopyFail("no"))));
        assert!(matches!(read(b'F', b"anything"), Ok(Message::FunctionCall)));
        assert_eq!(sasl_initial(b"SCRAM\0\0\0\0\x02hi").unwrap(), ("SCRAM", &b"hi"[..]));
        assert!(sasl_initial(b"SCRAM\0\0\0\0\x03hi").is_err());
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut seed = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        for _ in 0..200_000 {
            let length = (next() % 24) as usize;
            let mut body: Vec<u8> =
                (0..length).map(|_| [0, 0, 0, 1, 2, b'S', b'a', 0xff][(next() % 8) as usize]).collect();
            let kind = b"QPBDECHSdcfpXF"[(next() % 14) as usize];
            if let Ok(Message::Bind(b)) = (Frame { kind, body: &body }).read() {
                assert_eq!(b.values().count(), b.len());
                let _ = (b.forms.is_binary(9), b.result_forms.iter().count());
            }
            body.splice(0..0, [0, 0, 0, length as u8 + 4]);
            let _ = (opening(&body), sasl_initial(&body), frame(&body, 100));
        }
    }
}
