//! Where a server is.
use crate::carrier::Carrier;
use ondol_types::{SqlError, SqlResult};
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a server listens on, if it is not told otherwise.
const PORT: u16 = 5432;
/// In which an address takes a connection.
pub(crate) const TO_CONNECT: Duration = Duration::from_secs(20);
/// The role, and the database, that each server of Ondol's has.
const USUAL: &str = "postgres";

/// Whether the connection is encrypted, as libpq's sslmode says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Encryption {
    Disable,
    /// If the server can.
    Prefer,
    Require,
    /// The certificate is signed by one of `sslrootcert`, and the host's own.
    VerifyFull,
}

/// Whether what is said goes through memory that both processes have, if the server has a Unix socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SharedMemory {
    Disable,
    /// If the server gives some.
    Prefer,
    Require,
}

/// Where a server is, and as whom to go there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    /// A folder with its socket, if it begins with a slash.
    pub(crate) host: String,
    port: u16,
    pub(crate) user: String,
    pub(crate) password: Option<String>,
    pub(crate) database: String,
    pub(crate) encryption: Encryption,
    pub(crate) roots: Option<PathBuf>,
    pub(crate) memory: SharedMemory,
}

/// An address that cannot be meant.
fn wrong(message: impl Into<String>) -> SqlError {
    SqlError::new("08001", message)
}

/// Percent signs and two digits are a byte.
fn decoded(text: &str) -> SqlResult<String> {
    let bad = || {
        wrong(format!("\"{text}\": expected two hexadecimal digits after each %, and UTF-8 without zeros"))
    };
    let mut bytes = vec![];
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        bytes.push(match first {
            b'%' => {
                let (digits, behind) = rest.split_first_chunk::<2>().ok_or_else(bad)?;
                rest = behind;
                let digits = std::str::from_utf8(digits).map_err(|_| bad())?;
                u8::from_str_radix(digits, 16).map_err(|_| bad())?
            }
            b => *b,
        })
    }
    // A zero would be the text's end.
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0')).ok_or_else(bad)
}

impl Address {
    /// `postgres://USER:PASSWORD@HOST:PORT/DATABASE?NAME=VALUE&...`; nothing if it is a path. The names are
    /// those of libpq that are named below, and `memory`. What is not said is 127.0.0.1, 5432 and postgres.
    ///
    /// | name | value |
    /// | --- | --- |
    /// | `host`, `port`, `user`, `password`, `dbname` | as before the question mark; a host that begins with a slash is the folder of a Unix socket |
    /// | `sslmode` | `disable`, `prefer` (as is usual), `require`, or `verify-full` with `sslrootcert` |
    /// | `memory` | `disable` (as is usual), `prefer` or `require`: memory shared with a server that has a Unix socket |
    ///
    /// # Errors
    /// 08001, if it is neither.
    pub fn parse(text: &str) -> SqlResult<Option<Address>> {
        let Some(rest) = text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"))
        else {
            let is_other = text.split_once("://").is_some_and(|(scheme, _)| {
                !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
            });
            return match is_other {
                true => Err(wrong(format!("\"{text}\": expected postgres://…, or a database's folder"))),
                false => Ok(None),
            };
        };
        let (rest, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (who, place) = place.rsplit_once('@').unwrap_or(("", place));
        let (user, password) = match who.split_once(':') {
            Some((user, password)) => (user, Some(decoded(password)?)),
            None => (who, None),
        };
        let (host, port) = match place.strip_prefix('[').and_then(|p| p.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':').unwrap_or_default()),
            None => place.rsplit_once(':').unwrap_or((place, "")),
        };
        let mut found = Address {
            host: decoded(host)?,
            port: PORT,
            user: decoded(user)?,
            password,
            database: decoded(database)?,
            encryption: Encryption::Prefer,
            roots: None,
            memory: SharedMemory::Disable,
        };
        let number =
            |port: &str| port.parse().map_err(|_| wrong(format!("\"{port}\" is no number of a port")));
        if !port.is_empty() {
            found.port = number(port)?
        }
        for parameter in parameters.split('&').filter(|p| !p.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let value = decoded(value)?;
            match name {
                "host" => found.host = value,
                "port" => found.port = number(&value)?,
                "user" => found.user = value,
                "password" => found.password = Some(value),
                "dbname" => found.database = value,
                "sslrootcert" => found.roots = Some(value.into()),
                "sslmode" => {
                    found.encryption = match value.as_str() {
                        "disable" => Encryption::Disable,
                        "prefer" => Encryption::Prefer,
                        "require" => Encryption::Require,
                        "verify-full" => Encryption::VerifyFull,
                        other => {
                            return Err(wrong(format!(
                                "sslmode \"{other}\": expected disable, prefer, require or verify-full"
                            )));
                        }
                    }
                }
                "memory" => {
                    found.memory = match value.as_str() {
                        "disable" => SharedMemory::Disable,
                        "prefer" => SharedMemory::Prefer,
                        "require" => SharedMemory::Require,
                        other => {
                            return Err(wrong(format!(
                                "memory \"{other}\": expected disable, prefer or require"
                            )));
                        }
                    }
                }
                other => {
                    return Err(wrong(format!(
                        "\"{other}\" in a connection's address: expected dbname, host, memory, password, port, \
                         sslmode, sslrootcert or user"
                    )));
                }
            }
        }
        let or = |text: &mut String, other: &str| {
            if text.is_empty() {
                *text = other.to_string()
            }
        };
        or(&mut found.host, "127.0.0.1");
        or(&mut found.user, USUAL);
        or(&mut found.database, USUAL);
        if found.encryption == Encryption::VerifyFull && found.roots.is_none() {
            return Err(wrong("sslmode=verify-full needs sslrootcert, a file of certificates that may sign"));
        }
        if found.memory == SharedMemory::Require && found.socket().is_none() {
            let message = format!("memory=require needs a Unix socket, but the host is \"{}\"", found.host);
            return Err(wrong(message)
                .hint("Name the folder of the socket, as in postgres:///?host=/folder&memory=require."));
        }
        Ok(Some(found))
    }

    /// By a socket in a database's folder, if a server listens there.
    pub fn in_folder(folder: &Path) -> Option<Address> {
        let folder = std::path::absolute(folder).ok()?;
        let names = std::fs::read_dir(&folder).ok()?.filter_map(|e| e.ok()?.file_name().into_string().ok());
        let ports = names.filter_map(|n| n.strip_prefix(".s.PGSQL.")?.parse::<u16>().ok());
        let found = ports.map(|port| Address {
            host: folder.to_string_lossy().into_owned(),
            port,
            user: USUAL.into(),
            password: None,
            database: USUAL.into(),
            encryption: Encryption::Disable,
            roots: None,
            memory: SharedMemory::Disable,
        });
        found.into_iter().find(|a| a.dial(TO_CONNECT).is_ok())
    }
    /// The same place, with or without shared memory.
    pub fn with_memory(self, memory: SharedMemory) -> Address {
        Address { memory, ..self }
    }
    /// A socket's whole name.
    pub(crate) fn socket(&self) -> Option<PathBuf> {
        self.host.starts_with('/').then(|| Path::new(&self.host).join(format!(".s.PGSQL.{}", self.port)))
    }
    /// By the socket, or by TCP; each of the host's addresses is given so long.
    pub(crate) fn dial(&self, limit: Duration) -> io::Result<Carrier> {
        if let Some(path) = self.socket() {
            return UnixStream::connect(path).map(Carrier::Unix);
        }
        let none = || io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        let mut failed = none();
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, limit) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(Carrier::Tcp(stream));
                }
                Err(e) => failed = e,
            }
        }
        Err(failed)
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.socket() {
            Some(path) => f.write_str(&path.display().to_string()),
            None => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Address {
        match Address::parse(text) {
            Ok(Some(a)) => a,
            _ => panic!("{text}"),
        }
    }

    #[test]
    fn addresses() {
        assert!(matches!(Address::parse("bank"), Ok(None)));
        let a = parsed("postgres://");
        assert_eq!((a.host.as_str(), a.port, a.user.as_str()), ("127.0.0.1", 5432, "postgres"));
        let a = parsed("postgresql://ann:p%40ss@db.example.com:6000/x?sslmode=require");
        assert_eq!((a.host.as_str(), a.port), ("db.example.com", 6000));
        assert_eq!((a.user.as_str(), a.password.as_deref(), a.database.as_str()), ("ann", Some("p@ss"), "x"));
        assert_eq!(a.encryption, Encryption::Require);
        let a = parsed("postgres://[::1]:6001");
        assert_eq!((a.host.as_str(), a.port), ("::1", 6001));
        let a = parsed("postgres:///?host=%2Ftmp%2Fdb&port=7");
        assert_eq!(a.to_string(), "/tmp/db/.s.PGSQL.7");
        for wrong in [
            "postgres://x:y",
            "mysql://h/x",
            "postgres://h?a=b",
            "postgres://%zz",
            "postgres://h?sslmode=verify-full",
            "postgres://h?memory=require",
            "postgres:///?host=/tmp&memory=yes",
        ] {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
    }
}
