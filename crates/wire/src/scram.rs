//! SCRAM-SHA-256: a client proves that it knows a password, and a server that it knows its verifier, without
//! either telling.
//!
//! ```text
//! client   n,,n=NAME,r=NONCE                 server   r=NONCE+OWN,s=SALT,i=ITERATIONS
//! client   c=biws,r=NONCE+OWN,p=PROOF        server   v=SIGNATURE
//! ```
//! - **V1** A [`Verifier`] does not tell the password, nor can anyone prove with it that they know it.
//! - **V2** For a name that there is not, the exchange goes on with a verifier of nothing
//!   ([`Verifier::of_nobody`]), and fails at its end as for a wrong password. The salt is the same each time
//!   that the same name is tried.
//!
//! - **V3** With TLS the exchange may be bound to the server's certificate ([`PLUS`]): then the client's
//!   proof is good for the connection that it was made for, and who stands between the two has no use of it.
//!   Who could have bound it, and believes that the server cannot, is refused: somebody has told it so.
//!
//! The name in the exchange is not looked at: the first packet of the connection has told it.
//!
//! Sources: RFC 5802, 5929 and 7677; PostgreSQL 15's documentation, 55.3, and its form of stored verifiers.
use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use ondol_types::{SqlError, SqlResult};
use sha2::{Digest, Sha256};

pub const MECHANISM: &str = "SCRAM-SHA-256";
/// The same, bound to the server's certificate (V3).
pub const PLUS: &str = "SCRAM-SHA-256-PLUS";
/// As PostgreSQL has.
const ITERATIONS: u32 = 4096;

const INVALID_AUTHORIZATION: &str = "28000";

type Key = [u8; 32];

/// What a server keeps of a password (V1).
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    iterations: u32,
    salt: Vec<u8>,
    stored: Key,
    server: Key,
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> Key {
    // A key of any length will do.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return Key::default() };
    parts.iter().for_each(|p| mac.update(p));
    mac.finalize().into_bytes().into()
}
fn hash(bytes: &[u8]) -> Key {
    Sha256::digest(bytes).into()
}
fn xor(a: &Key, b: &Key) -> Key {
    std::array::from_fn(|i| a[i] ^ b[i])
}
/// Takes as long wherever they differ.
fn are_equal(a: &Key, b: &Key) -> bool {
    let differ = a.iter().zip(b).fold(0u8, |all, (a, b)| std::hint::black_box(all | (a ^ b)));
    differ == 0
}

impl Verifier {
    #[cfg(test)]
    fn of_password(password: &str, salt: &[u8], iterations: u32) -> Verifier {
        let mut round = hmac(password.as_bytes(), &[salt, &1u32.to_be_bytes()]);
        let mut salted = round;
        for _ in 1..iterations {
            round = hmac(password.as_bytes(), &[&round]);
            salted = xor(&salted, &round)
        }
        let stored = hash(&hmac(&salted, &[b"Client Key"]));
        let server = hmac(&salted, &[b"Server Key"]);
        Verifier { iterations, salt: salt.to_vec(), stored, server }
    }
    /// One that no password fits; `secret` is the server's own (V2).
    pub fn of_nobody(name: &str, secret: &[u8]) -> Verifier {
        let salt = hmac(secret, &[name.as_bytes()])[..16].to_vec();
        let unknown = hmac(secret, &[b"nobody", name.as_bytes()]);
        Verifier { iterations: ITERATIONS, salt, stored: unknown, server: unknown }
    }
    /// As PostgreSQL stores it: `SCRAM-SHA-256$4096:SALT$STORED:SERVER`.
    pub fn text(&self) -> String {
        let [salt, stored, server] = [&self.salt[..], &self.stored, &self.server].map(|b| BASE64.encode(b));
        format!("{MECHANISM}${}:{salt}${stored}:{server}", self.iterations)
    }
    /// What [`Verifier::text`] wrote, or PostgreSQL.
    pub fn of_text(text: &str) -> Option<Verifier> {
        let (how, keys) = text.strip_prefix(MECHANISM)?.strip_prefix('$')?.split_once('$')?;
        let (iterations, salt) = how.split_once(':')?;
        let (stored, server) = keys.split_once(':')?;
        let key = |text: &str| BASE64.decode(text).ok()?.try_into().ok();
        Some(Verifier {
            iterations: iterations.parse().ok().filter(|n| *n > 0)?,
            salt: BASE64.decode(salt).ok()?,
            stored: key(stored)?,
            server: key(server)?,
        })
    }
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier").finish_non_exhaustive()
    }
}

/// Whether an exchange is bound to its connection (V3).
#[derive(Debug, Clone, Copy)]
pub enum Binding<'a> {
    /// There is nothing to bind it to.
    Absent,
    /// The client has chosen not to.
    Offered,
    /// To what `tls-server-end-point` names.
    Chosen(&'a [u8]),
}

/// The server's side of one exchange, after its first answer.
#[derive(Debug)]
pub struct Exchange {
    verifier: Verifier,
    /// Both sides' nonces.
    nonce: String,
    /// The client's first message without its head, and the server's.
    said: String,
    /// What the client's last message has to repeat, in base64.
    head: String,
    is_bound: bool,
}

/// How an exchange ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Proof {
    /// The client knows the password; it is told that the server knows the verifier.
    Good(String),
    Wrong,
}

fn malformed(detail: impl Into<String>) -> SqlError {
    SqlError::new(super::front::PROTOCOL_VIOLATION, "malformed SCRAM message").detail(detail)
}
fn attribute(part: Option<&str>, name: char) -> SqlResult<&str> {
    part.and_then(|p| p.strip_prefix(name)?.strip_prefix('='))
        .ok_or_else(|| malformed(format!("Expected attribute \"{name}\".")))
}

impl Exchange {
    /// Takes the client's first message; `own` is random. With the exchange comes the answer.
    pub fn begin(
        first: &[u8],
        own: &[u8; 18],
        verifier: Verifier,
        binding: Binding<'_>,
    ) -> SqlResult<(Exchange, String)> {
        let first = super::front::utf8(first)?;
        let mut parts = first.splitn(3, ',');
        match (parts.next(), binding) {
            (Some("n"), Binding::Absent | Binding::Offered) | (Some("y"), Binding::Absent) => {}
            (Some("y"), Binding::Offered) => {
                return Err(SqlError::new(INVALID_AUTHORIZATION, "SCRAM channel binding negotiation error").detail(
                    "The client supports SCRAM channel binding but thinks the server does not.  However, this \
                     server does support channel binding.",
                ));
            }
            (Some("n" | "y"), Binding::Chosen(_)) => {
                return Err(malformed(
                    "The client selected SCRAM-SHA-256-PLUS, but the SCRAM message does not include channel \
                     binding data.",
                ));
            }
            (Some("p=tls-server-end-point"), Binding::Chosen(_)) => {}
            (Some(p), Binding::Chosen(_)) if p.starts_with("p=") => {
                let message = format!("unsupported SCRAM channel-binding type \"{}\"", &p[2..]);
                return Err(SqlError::new(super::front::PROTOCOL_VIOLATION, message));
            }
            (Some(p), _) if p.starts_with("p=") => {
                return Err(malformed(
                    "The client selected SCRAM-SHA-256 without channel binding, but the SCRAM message includes \
                     channel binding data.",
                ));
            }
            _ => return Err(malformed("Expected \"n\" or \"y\" as its first character.")),
        }
        match parts.next() {
            Some("") => {}
            Some(identity) if identity.starts_with("a=") => {
                return Err(SqlError::unsupported("an authorization identity in SCRAM"));
            }
            _ => return Err(malformed("Expected a comma.")),
        }
        let said = parts.next().ok_or_else(|| malformed("Expected attribute \"n\"."))?;
        let head = &first[..first.len() - said.len()];
        let mut parts = said.split(',');
        let name = parts.next();
        if name.is_some_and(|n| n.starts_with("m=")) {
            return Err(SqlError::unsupported("an extension of SCRAM that the client requires"));
        }
        attribute(name, 'n')?;
        let theirs = attribute(parts.next(), 'r')?;
        if theirs.is_empty() || !theirs.bytes().all(|b| matches!(b, 0x21..=0x7e) && b != b',') {
            return Err(malformed("The nonce has characters that it may not have."));
        }
        let nonce = format!("{theirs}{}", BASE64.encode(own));
        let answer = format!("r={nonce},s={},i={}", BASE64.encode(&verifier.salt), verifier.iterations);
        let (data, is_bound) = match binding {
            Binding::Chosen(data) => (data, true),
            _ => (&[][..], false),
        };
        let head = BASE64.encode([head.as_bytes(), data].concat());
        Ok((Exchange { verifier, nonce, said: format!("{said},{answer}"), head, is_bound }, answer))
    }
    /// Takes the client's last message.
    pub fn end(&self, last: &[u8]) -> SqlResult<Proof> {
        let last = super::front::utf8(last)?;
        let (without, proof) =
            last.rsplit_once(",p=").ok_or_else(|| malformed("Expected attribute \"p\"."))?;
        let mut parts = without.split(',');
        if attribute(parts.next(), 'c')? != self.head {
            if self.is_bound {
                return Err(SqlError::new(INVALID_AUTHORIZATION, "SCRAM channel binding check failed"));
            }
            return Err(malformed("The channel binding data is not what the first message said."));
        }
        if attribute(parts.next(), 'r')? != self.nonce {
            return Err(malformed("The nonce does not match."));
        }
        let proof: Key = (BASE64.decode(proof).ok())
            .and_then(|p| p.try_into().ok())
            .ok_or_else(|| malformed("The proof is not 32 bytes in base64."))?;
        let all = format!("{},{without}", self.said);
        let signature = hmac(&self.verifier.stored, &[all.as_bytes()]);
        let stored = hash(&xor(&proof, &signature));
        Ok(match are_equal(&stored, &self.verifier.stored) {
            true => {
                Proof::Good(format!("v={}", BASE64.encode(hmac(&self.verifier.server, &[all.as_bytes()]))))
            }
            false => Proof::Wrong,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The client's side, by the RFC.
    fn proof(password: &str, salt: &[u8], all: &str) -> String {
        let v = |p: &str, n: &[u8]| {
            let mut round = hmac(p.as_bytes(), &[salt, &1u32.to_be_bytes()]);
            let mut salted = round;
            for _ in 1..ITERATIONS {
                round = hmac(p.as_bytes(), &[&round]);
                salted = xor(&salted, &round)
            }
            hmac(&salted, &[n])
        };
        let client = v(password, b"Client Key");
        BASE64.encode(xor(&client, &hmac(&hash(&client), &[all.as_bytes()])))
    }

    /// RFC 7677's example, whose nonces and salt are given.
    #[test]
    fn the_example_of_the_rfc() {
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = Verifier::of_password("pencil", &salt, 4096);
        let theirs = "rOprNGfwEbeRWgbNEkqO";
        let nonce = format!("{theirs}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0");
        let said = format!("n=user,r={theirs},r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
        let exchange =
            Exchange { verifier, nonce: nonce.clone(), said, head: "biws".into(), is_bound: false };
        let last = format!("c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        let wanted = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=".to_string();
        assert_eq!(exchange.end(last.as_bytes()).unwrap(), Proof::Good(wanted));
    }

    #[test]
    fn who_knows_the_password_proves_it() {
        let verifier = Verifier::of_password("secret", b"0123456789abcdef", ITERATIONS);
        assert_eq!(Verifier::of_text(&verifier.text()).as_ref(), Some(&verifier));
        // PostgreSQL's own form, as it stores it.
        let text = verifier.text();
        assert!(text.starts_with("SCRAM-SHA-256$4096:MDEyMzQ1Njc4OWFiY2RlZg==$"), "{text}");
        for (password, is_good) in [("secret", true), ("Secret", false), ("", false)] {
            let (e, answer) =
                Exchange::begin(b"n,,n=,r=abc", &[7; 18], verifier.clone(), Binding::Offered).unwrap();
            let nonce = answer[2..].split(',').next().unwrap();
            let without = format!("c=biws,r={nonce}");
            let all = format!("n=,r=abc,{answer},{without}");
            let last = format!("{without},p={}", proof(password, b"0123456789abcdef", &all));
            assert_eq!(matches!(e.end(last.as_bytes()).unwrap(), Proof::Good(_)), is_good, "{password}");
            let other = format!("c=biws,r={nonce}x,p=");
            assert_eq!(e.end(other.as_bytes()).unwrap_err().sqlstate(), "08P01");
        }
        let nobody = Verifier::of_nobody("ann", b"key");
        assert_eq!(nobody.salt, Verifier::of_nobody("ann", b"key").salt);
        assert_ne!(nobody.salt, Verifier::of_nobody("ben", b"key").salt);
    }

    /// V3
    #[test]
    fn an_exchange_is_bound_to_its_connection() {
        let verifier = Verifier::of_password("secret", b"0123456789abcdef", ITERATIONS);
        let begin =
            |first: &str, binding| Exchange::begin(first.as_bytes(), &[7; 18], verifier.clone(), binding);
        let first = "p=tls-server-end-point,,n=,r=abc";
        for (data, is_good) in [(&b"\x01\xffown"[..], true), (b"\x01\xffother", false), (b"", false)] {
            let (e, answer) = begin(first, Binding::Chosen(b"\x01\xffown")).unwrap();
            let nonce = answer[2..].split(',').next().unwrap();
            let head = BASE64.encode([&b"p=tls-server-end-point,,"[..], data].concat());
            let without = format!("c={head},r={nonce}");
            let all = format!("n=,r=abc,{answer},{without}");
            let last = format!("{without},p={}", proof("secret", b"0123456789abcdef", &all));
            match e.end(last.as_bytes()) {
                Ok(proof) => assert!(is_good && matches!(proof, Proof::Good(_))),
                Err(e) => assert!(!is_good && e.sqlstate() == "28000", "{e}"),
            }
        }
        for (first, binding, wanted) in [
            ("y,,n=,r=abc", Binding::Offered, "28000"),
            ("n,,n=,r=abc", Binding::Chosen(b"own"), "08P01"),
            ("p=tls-unique,,n=,r=abc", Binding::Chosen(b"own"), "08P01"),
            (first, Binding::Offered, "08P01"),
            (first, Binding::Absent, "08P01"),
        ] {
            assert_eq!(begin(first, binding).unwrap_err().sqlstate(), wanted, "{first}");
        }
    }

    #[test]
    fn what_is_malformed_is_refused() {
        let verifier = Verifier::of_password("", b"salt", 1);
        for wrong in
            ["", "n", "n,,", "n,,r=a", "n,,n=,r=", "n,,n=,r=\u{e9}", "p=tls-unique,,n=,r=a", "x,,n=,r=a"]
        {
            let e =
                Exchange::begin(wrong.as_bytes(), &[0; 18], verifier.clone(), Binding::Absent).unwrap_err();
            assert_eq!(e.sqlstate(), "08P01", "{wrong}");
        }
        for other in ["n,a=me,n=,r=a", "n,,m=x,n=,r=a"] {
            let e =
                Exchange::begin(other.as_bytes(), &[0; 18], verifier.clone(), Binding::Absent).unwrap_err();
            assert_eq!(e.sqlstate(), "0A000", "{other}");
        }
        let (e, _) = Exchange::begin(b"y,,n=,r=abc", &[0; 18], verifier, Binding::Absent).unwrap();
        for wrong in ["", "p=", "c=biws,p=AAAA", "c=eSws,r=abc,p=AAAA", ",p="] {
            assert!(e.end(wrong.as_bytes()).is_err(), "{wrong}");
        }
        for wrong in ["SCRAM-SHA-256$0:AA==$AA==:AA==", "md5abc", "", "SCRAM-SHA-256$4096:AA==$AA==:AA=="] {
            assert_eq!(Verifier::of_text(wrong), None, "{wrong}");
        }
    }
}
