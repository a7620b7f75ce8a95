//! TLS: as psql sees it, where it is installed; and what is wrong with a certificate or its key.
#![cfg(feature = "server")]
use ondol::server::{ServeOptions, Server, TlsFiles};
use ondol::{Database, TempFolder};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls");
const PASSWORD: &str = "pencil";

struct Served {
    folder: TempFolder,
    database: Database,
    options: ServeOptions,
    server: Option<Server>,
}

impl Served {
    fn new() -> Served {
        let folder = TempFolder::new().unwrap();
        let database = Database::open(folder.path().join("db")).unwrap();
        let files =
            TlsFiles { certificate: folder.path().join("server.crt"), key: folder.path().join("server.key") };
        let options = ServeOptions {
            listen: vec!["127.0.0.1:0".into()],
            password: Some(PASSWORD.into()),
            tls: Some(files),
            ..ServeOptions::default()
        };
        Served { folder, database, options, server: None }
    }
    /// Puts a certificate and a key in their places.
    fn put(&self, certificate: &str, key: &str) {
        let to = |name: &str| self.folder.path().join(name);
        for (from, to) in [(certificate, to("server.crt")), (key, to("server.key"))] {
            let _ = std::fs::remove_file(&to);
            if !from.is_empty() {
                std::fs::copy(Path::new(FILES).join(from), &to).unwrap();
                std::fs::set_permissions(&to, PermissionsExt::from_mode(0o600)).unwrap();
            }
        }
    }
    fn start(&mut self) -> ondol::Result<()> {
        self.server = None;
        self.server = Some(Server::start(&self.database, &self.options)?);
        Ok(())
    }
    fn port(&self) -> u16 {
        self.server.as_ref().unwrap().addresses()[0].port()
    }
    fn psql(&self, psql: &Path, terms: &str, script: &str) -> Output {
        let mut c = Command::new(psql);
        c.args(["-XAtw", "-v", "ON_ERROR_STOP=1", "-c", script]);
        c.arg(format!("host=127.0.0.1 port={} user=postgres dbname=postgres {terms}", self.port()));
        c.env("PGPASSWORD", PASSWORD).env("PGCONNECT_TIMEOUT", "10").env("LC_ALL", "C.UTF-8");
        c.output().unwrap()
    }
}

/// `None` where it is not installed, which it must be where everything is checked.
fn psql() -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/usr/lib/postgresql/15/bin"]);
    let found = folders.map(|f| Path::new(f).join("psql")).find(|p| p.is_file());
    assert!(
        found.is_some() || std::env::var_os("CI").is_none(),
        "psql is missing: scripts/setup tests installs it"
    );
    found
}
fn good(o: &Output) -> String {
    assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
    String::from_utf8(o.stdout.clone()).unwrap()
}
fn bad(o: &Output) -> String {
    assert!(!o.status.success());
    String::from_utf8_lossy(&o.stderr).into_owned()
}

#[test]
fn psql_talks_by_tls() {
    let Some(psql) = psql() else { return };
    let mut s = Served::new();
    let bound = "sslmode=require channel_binding=require";
    for name in ["server", "other", "rsa"] {
        s.put(&format!("{name}.crt"), &format!("{name}.key"));
        s.start().unwrap();
        assert_eq!(good(&s.psql(&psql, bound, "SELECT 1")), "1\n", "{name}");
    }
    s.put("ed25519.crt", "ed25519.key");
    s.start().unwrap();
    assert_eq!(good(&s.psql(&psql, "sslmode=require channel_binding=disable", "SELECT 1")), "1\n");
    let why = bad(&s.psql(&psql, bound, "SELECT 1"));
    assert!(why.contains("channel binding"), "{why}");

    s.put("server.crt", "server.key");
    s.start().unwrap();
    let root =
        format!("sslmode=verify-full sslrootcert={FILES}/server.crt {bound}").replace("sslmode=require ", "");
    let shown = good(&s.psql(&psql, &root, "\\conninfo"));
    assert!(shown.contains("SSL connection (protocol: TLSv1.3"), "{shown}");
    good(&s.psql(&psql, &format!("{root} ssl_max_protocol_version=TLSv1.2"), "SELECT 1"));
    let wrong = format!("sslmode=verify-full sslrootcert={FILES}/other.crt");
    let why = bad(&s.psql(&psql, &wrong, "SELECT 1"));
    assert!(why.contains("certificate verify failed"), "{why}");
    // Without encryption too, unless it is required.
    good(&s.psql(&psql, "sslmode=disable", "SELECT 1"));
    s.options.require_tls = true;
    s.start().unwrap();
    good(&s.psql(&psql, "sslmode=require", "SELECT 1"));
    let why = bad(&s.psql(&psql, "sslmode=disable", "SELECT 1"));
    assert!(
        why.contains("FATAL:  connection of user \"postgres\" is not encrypted: this server requires TLS"),
        "{why}"
    );
    let why = bad(&s.psql(&psql, "sslmode=require password=other", "SELECT 1"));
    assert!(why.contains("password authentication failed"), "{why}");
}

/// More than sockets and the library hold, both ways.
#[test]
fn much_goes_by_tls() {
    let Some(psql) = psql() else { return };
    let mut s = Served::new();
    s.put("server.crt", "server.key");
    s.start().unwrap();
    let file = s.folder.path().join("rows");
    let rows: String = (0..200_000).map(|n| format!("{n}\t{:0>90}\n", n)).collect();
    std::fs::write(&file, &rows).unwrap();
    let script = format!("\\copy t from '{}'", file.display());
    good(&s.psql(&psql, "sslmode=require", "CREATE TABLE t (a integer PRIMARY KEY, b text)"));
    good(&s.psql(&psql, "sslmode=require", &script));
    assert!(good(&s.psql(&psql, "sslmode=require", "\\copy (SELECT * FROM t ORDER BY a) to stdout")) == rows);
    let long = good(&s.psql(&psql, "sslmode=require", "SELECT repeat('0123456789', 2000000)"));
    assert!(long.len() == 20_000_001);
    let text = format!("SELECT length('{}')", "x".repeat(120_000));
    assert_eq!(good(&s.psql(&psql, "sslmode=require", &text)), "120000\n");
}

/// A certificate is replaced while the server runs; one that cannot be used changes nothing.
#[test]
fn certificates_are_read_again() {
    let Some(psql) = psql() else { return };
    let mut s = Served::new();
    s.put("server.crt", "server.key");
    s.start().unwrap();
    let by = |name: &str| format!("sslmode=verify-ca sslrootcert={FILES}/{name}.crt");
    good(&s.psql(&psql, &by("server"), "SELECT 1"));
    s.put("other.crt", "other.key");
    good(&s.psql(&psql, &by("server"), "SELECT 1"));
    s.server.as_ref().unwrap().reload().unwrap();
    good(&s.psql(&psql, &by("other"), "SELECT 1"));
    bad(&s.psql(&psql, &by("server"), "SELECT 1"));
    s.put("server.crt", "other.key");
    let e = s.server.as_ref().unwrap().reload().unwrap_err();
    assert!(e.to_string().contains("check of private key failed"), "{e}");
    good(&s.psql(&psql, &by("other"), "SELECT 1"));
}

#[test]
fn what_is_wrong_with_the_files_is_told() {
    let mut s = Served::new();
    let refused = |s: &mut Served| {
        let e = s.start().unwrap_err();
        assert_eq!(e.sqlstate(), "F0000", "{e}");
        e.to_string().replace(s.folder.path().to_str().unwrap(), "")
    };
    for (certificate, key, wanted) in [
        (
            "",
            "server.key",
            "could not load server certificate file \"/server.crt\": No such file or directory",
        ),
        ("server.crt", "", "could not access private key file \"/server.key\": No such file or directory"),
        (
            "server.key",
            "server.key",
            "could not load server certificate file \"/server.crt\": it has no certificate in PEM",
        ),
        (
            "server.crt",
            "server.crt",
            "could not load private key file \"/server.key\": it has no private key in PEM",
        ),
        (
            "server.crt",
            "other.key",
            "check of private key failed: the key in \"/server.key\" is not that of the certificate in \"/server.crt\"",
        ),
        (
            "expired.crt",
            "server.key",
            "the certificate in server certificate file \"/server.crt\" has expired, on 2021-01-01 00:00:00 UTC",
        ),
    ] {
        s.put(certificate, key);
        let told = refused(&mut s);
        assert!(told.contains(wanted), "{certificate}, {key}: {told}");
    }
    s.put("server.crt", "server.key");
    let key = s.folder.path().join("server.key");
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o644)).unwrap();
    let told = refused(&mut s);
    assert!(told.contains("private key file \"/server.key\" has group or world access"), "{told}");
    std::fs::remove_file(&key).unwrap();
    std::fs::create_dir(&key).unwrap();
    let told = refused(&mut s);
    assert!(told.contains("private key file \"/server.key\" is not a regular file"), "{told}");
}

/// What stands behind the wish for TLS unencrypted may be from somebody else.
#[test]
fn nothing_unencrypted_goes_before_tls() {
    let mut s = Served::new();
    s.put("server.crt", "server.key");
    s.start().unwrap();
    let ssl = [0, 0, 0, 8, 4, 210, 22, 47];
    let startup = b"\0\0\0\x17\0\x03\0\0user\0postgres\0\0";
    let said = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(("127.0.0.1", s.port())).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = vec![];
        let _ = stream.read_to_end(&mut answer);
        answer
    };
    assert_eq!(said(&[&ssl[..], startup].concat()), b"");
    // Nor goes on by TLS who does not speak it.
    let mut stream = TcpStream::connect(("127.0.0.1", s.port())).unwrap();
    stream.write_all(&ssl).unwrap();
    let mut yes = [0];
    stream.read_exact(&mut yes).unwrap();
    assert_eq!(&yes, b"S");
    stream.write_all(startup).unwrap();
    let mut answer = vec![];
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.contains(&b'R'), "{answer:?}");
    // The first wish only: a server without a certificate says no.
    s.options.tls = None;
    s.start().unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", s.port())).unwrap();
    stream.write_all(&ssl).unwrap();
    stream.read_exact(&mut yes).unwrap();
    assert_eq!(&yes, b"N");
}
