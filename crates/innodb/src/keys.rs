//! A file of keys of MariaDB's `file_key_management`: lines `number;key in hexadecimal`, empty ones, and
//! comments (`#`); as it is, or encrypted with a password as `openssl enc` does.
//!
//! - **K1** A key is of 128, 192 or 256 bits; each has version 1, since this form of file knows no other.
//! - **K2** Encrypted: `Salted__`, 8 bytes of salt, AES-256-CBC. Key and start vector are made of the
//!   password by a digest, again and again (`-md`), of which the file does not say which; so all that the
//!   server knows are tried, and the one counts that gives a file of keys. What was made with PBKDF2 is not
//!   read.
//! - **K3** No key is ever shown.
//!
//! Sources: MariaDB's documentation of the plugin; OpenSSL's of `enc` and `EVP_BytesToKey`; files of both.
use crate::error::{Error, Kind, Result};
use aes::Aes256;
use aes::cipher::{BlockModeDecrypt, KeyIvInit, block_padding::Pkcs7};
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The version that all keys of such a file have.
pub const VERSION: u32 = 1;

/// The keys of a file, by their numbers.
pub struct Keys {
    file: PathBuf,
    keys: BTreeMap<u32, Vec<u8>>,
}

/// Without the keys (K3).
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "keys {:?} of {}", self.numbers(), self.file.display())
    }
}

/// What servers read at most of such a file, and of one with its password.
const LONGEST: u64 = 1 << 20;
const LONGEST_PASSWORD: u64 = 256;

impl Keys {
    /// Reads a file of keys; `password`: a file with the password, if it is encrypted.
    pub fn read(file: &Path, password: Option<&Path>) -> Result<Keys> {
        let bytes = contents(file, LONGEST, "a file of keys")?;
        let refuse = |why: &str| Error::new(file, Kind::Mismatch, why);
        let keys = match (bytes.strip_prefix(b"Salted__"), password) {
            (None, None) => {
                let text =
                    std::str::from_utf8(&bytes).map_err(|_| refuse("it is no file of keys: no text"))?;
                parse(text).map_err(|why| refuse(&why))?
            }
            (None, Some(_)) => {
                return Err(refuse("it is not encrypted, and a file with its password was given"));
            }
            (Some(_), None) => {
                return Err(refuse(
                    "it is encrypted: --keys-password FILE (in SQL keys_password => '…') names the file with its password, as file_key_management_filekey=FILE:… does",
                ));
            }
            (Some(salted), Some(password)) => {
                let mut secret = contents(password, LONGEST_PASSWORD, "a file with a password")?;
                while matches!(secret.last(), Some(b'\r' | b'\n')) {
                    secret.pop();
                }
                decrypted(salted, &secret).ok_or_else(|| {
                    refuse(&format!(
                        "the password in {} does not fit: neither -md sha1, sha224, sha256, sha384 nor sha512 gives keys. (A file made with PBKDF2, file_key_management_use_pbkdf2, is not read: openssl enc -d gives a plain one.)",
                        password.display()
                    ))
                })?
            }
        };
        Ok(Keys { file: file.to_path_buf(), keys })
    }
    pub fn file(&self) -> &Path {
        &self.file
    }
    /// The numbers of all keys.
    pub fn numbers(&self) -> Vec<u32> {
        self.keys.keys().copied().collect()
    }
    /// The key of this number, of [`VERSION`].
    pub fn key(&self, number: u32) -> Option<&[u8]> {
        self.keys.get(&number).map(|key| &key[..])
    }
}

fn contents(file: &Path, longest: u64, what: &str) -> Result<Vec<u8>> {
    let io = |e: std::io::Error| Error::io(file, "cannot read it", &e);
    let about = file.metadata().map_err(io)?;
    // Opening a pipe would wait for a writer.
    if !about.is_file() {
        return Err(Error::new(file, Kind::Mismatch, format!("it is not a file; {what} was expected")));
    }
    let mut bytes = Vec::new();
    // With the end of a line.
    std::fs::File::open(file).and_then(|f| f.take(longest + 3).read_to_end(&mut bytes)).map_err(io)?;
    if bytes.len() as u64 > longest + 2 {
        let why = format!("it has more than the {longest} bytes that {what} may have");
        return Err(Error::new(file, Kind::Mismatch, why));
    }
    Ok(bytes)
}

/// The keys of a text; an error tells the line, and nothing that it holds.
fn parse(text: &str) -> std::result::Result<BTreeMap<u32, Vec<u8>>, String> {
    let mut keys = BTreeMap::new();
    for (n, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |expected: &str| format!("line {}: {expected} was expected", n + 1);
        let (number, rest) =
            line.split_once(';').ok_or_else(|| wrong("NUMBER;KEY, the key in hexadecimal,"))?;
        let number: u32 = number
            .parse()
            .ok()
            .filter(|n| *n > 0)
            .ok_or_else(|| wrong("a key's number, from 1 to 4294967295,"))?;
        // What is behind a key, the server passes over.
        let digits = rest.split(|c: char| !c.is_ascii_hexdigit()).next().unwrap_or_default();
        if ![32, 48, 64].contains(&digits.len()) {
            return Err(wrong("a key of 32, 48 or 64 hexadecimal digits"));
        }
        let nibble = |digit: u8| (digit as char).to_digit(16).unwrap_or(0) as u8;
        let key = digits.as_bytes().chunks_exact(2).map(|pair| nibble(pair[0]) << 4 | nibble(pair[1]));
        keys.insert(number, key.collect());
    }
    if keys.is_empty() { Err("it has no keys: lines NUMBER;KEY were expected".into()) } else { Ok(keys) }
}

/// What is behind `Salted__`, decrypted: `None` if no digest of the password gives keys (K2).
fn decrypted(salted: &[u8], password: &[u8]) -> Option<BTreeMap<u32, Vec<u8>>> {
    let (salt, body) = salted.split_first_chunk::<8>()?;
    let digests = [
        stretched::<Sha1>,
        stretched::<Sha224>,
        stretched::<Sha256>,
        stretched::<Sha384>,
        stretched::<Sha512>,
    ];
    digests.into_iter().find_map(|stretched| {
        let bytes = stretched(password, salt);
        let (key, iv) = bytes.split_first_chunk::<32>()?;
        let iv: &[u8; 16] = iv.first_chunk()?;
        let mut body = body.to_vec();
        let plain = cbc::Decryptor::<Aes256>::new(key.into(), iv.into()).decrypt_padded::<Pkcs7>(&mut body);
        parse(std::str::from_utf8(plain.ok()?).ok()?).ok()
    })
}

/// 48 bytes made of a password: digests of the digest before, the password and the salt, one behind the
/// other.
fn stretched<D: Digest>(password: &[u8], salt: &[u8; 8]) -> Vec<u8> {
    let mut bytes: Vec<u8> = Vec::new();
    let mut last: Vec<u8> = Vec::new();
    while bytes.len() < 48 {
        last = D::new().chain_update(&last).chain_update(password).chain_update(salt).finalize().to_vec();
        bytes.extend(&last);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/files");

    fn expected() -> Vec<Vec<u8>> {
        let counted = |from: u8, n: u8| (from..from + n).collect::<Vec<u8>>();
        let mut third: Vec<u8> = (0..16).rev().collect();
        third.extend(0xa0..=0xa7);
        vec![counted(0, 16), counted(16, 32), third]
    }
    fn read(file: &str, password: Option<&str>) -> Result<Keys> {
        let at = |name: &str| Path::new(FILES).join(name);
        Keys::read(&at(file), password.map(at).as_deref())
    }

    #[test]
    fn keys_are_read_plain_and_encrypted() {
        for (file, password) in [("keys.txt", None), ("keys.enc", Some("keys.password"))] {
            let keys = read(file, password).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(keys.numbers(), [1, 2, 3]);
            for (number, key) in (1..).zip(expected()) {
                assert_eq!(keys.key(number), Some(&key[..]), "{file}, {number}");
            }
            assert_eq!(keys.key(4), None);
            let shown = format!("{keys:?}");
            assert!(shown.contains("[1, 2, 3]") && !shown.contains("0001"), "{shown}");
        }
    }

    #[test]
    fn what_is_no_file_of_keys_is_told() {
        for (file, password, said) in [
            ("keys.enc", None, "--keys-password"),
            ("keys.txt", Some("keys.password"), "it is not encrypted"),
            ("keys.enc", Some("README.md"), "more than the 256 bytes"),
            ("keys.enc", Some("keys.txt"), "does not fit"),
            ("encrypted.sql", None, "line 1"),
            ("apart", None, "it is not a file"),
            ("nothing", None, "cannot read it"),
        ] {
            let e = read(file, password).expect_err(file).to_string();
            let named = if said.starts_with("more") { "README.md" } else { file };
            assert!(e.contains(said) && e.contains(named), "{e}; expected: {said}");
        }
        for (text, said) in [
            ("", "no keys"),
            ("# 1;00\n\n", "no keys"),
            ("1;0001", "line 1: a key of 32"),
            ("\n0;000102030405060708090a0b0c0d0e0f", "line 2: a key's number"),
            ("4294967296;000102030405060708090a0b0c0d0e0f", "a key's number"),
            ("1,000102030405060708090a0b0c0d0e0f", "NUMBER;KEY"),
        ] {
            let e = parse(text).expect_err(text);
            assert!(e.contains(said) && !e.contains("0a0b"), "{text}: {e}");
        }
        let two = parse("7;000102030405060708090A0B0C0D0E0F # mine\r\n7;0f0e0d0c0b0a09080706050403020100")
            .expect("keys");
        assert_eq!(
            two[&7],
            (0..16).rev().collect::<Vec<u8>>(),
            "the last one of a number counts, as in the server"
        );
    }

    /// What other digests give (`openssl enc -aes-256-cbc -md … -S 0102030405060708 -k secret`), checked by
    /// what OpenSSL made of them.
    #[test]
    fn passwords_of_every_digest() {
        let salt = [1, 2, 3, 4, 5, 6, 7, 8];
        let hex = |bytes: Vec<u8>| bytes[..48].iter().map(|b| format!("{b:02X}")).collect::<String>();
        for (found, openssl) in [
            (hex(stretched::<Sha1>(b"secret", &salt)), SHA1),
            (hex(stretched::<Sha224>(b"secret", &salt)), SHA224),
            (hex(stretched::<Sha256>(b"secret", &salt)), SHA256),
            (hex(stretched::<Sha384>(b"secret", &salt)), SHA384),
            (hex(stretched::<Sha512>(b"secret", &salt)), SHA512),
        ] {
            assert_eq!(found, openssl);
        }
    }
    const SHA1: &str =
        "9471735EE978C27CD122DB2C55C4E7BD75918CD88E52C548C9E1D45AEB71A2339AFBDDD979490616B897B6510BAB48E5";
    const SHA224: &str =
        "B16BEA35CFDC4CF5FD30B5224146B3EA9A115699DC6DA6F8D26398F2E2E6A4ECF0FC4F749A729272295D5B57DD32B866";
    const SHA256: &str =
        "03B375940CB96C16F84FAA87F5EF39CC0BC7066CCD3E14456D9D74E438E35832904AEBC6E588FDB49FD15806BB4FEE6F";
    const SHA384: &str =
        "1FDAF6DD487A6D2DB8E51CDE4E949A339AB282D639E6D9A0B81FAD3094A9FA197EF5B99C72E8FA37AE11A6FE745BD0DF";
    const SHA512: &str =
        "28EF04B0C3D04F066BC716CE90300E39711E54273682B310835A676706610B56C140B6F2F330A6167EEA4D946FA1377E";
}
