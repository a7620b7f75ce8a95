//! `ondol serve` as a process: with psql and pgbench, where these are installed; told to end, and killed.
#![cfg(all(feature = "server", feature = "command"))]
use ondol::{Database, TempFolder};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

struct Process {
    child: Child,
    out: BufReader<ChildStdout>,
    /// What it said before it was ready.
    greeting: String,
    port: u16,
}

impl Process {
    fn start(args: &[&str]) -> Process {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ondol"))
            .arg("serve")
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut greeting = String::new();
        let mut port = 0;
        while port == 0 {
            let mut line = String::new();
            assert!(out.read_line(&mut line).unwrap() > 0, "it ended: {greeting}");
            if let Some(rest) = line.trim().strip_prefix("postgres://postgres@127.0.0.1:") {
                port = rest.strip_suffix("/postgres").unwrap().parse().unwrap()
            }
            greeting += &line
        }
        Process { child, out, greeting, port }
    }
    fn in_folder(folder: &Path, more: &[&str]) -> Process {
        let path = folder.to_str().unwrap();
        let socket = folder.parent().unwrap().to_str().unwrap();
        Process::start(&[&[path, "--listen", "127.0.0.1:0", "--socket", socket], more].concat())
    }
    fn signal(&self, name: &str) {
        let done = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(done.success())
    }
    /// Waits for its end; gives what it said last.
    fn end(mut self) -> (bool, String) {
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().success(), rest)
    }
    fn client(&self) -> Client {
        Client::new(self.port)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Knows no more than simple queries.
struct Client(TcpStream);

impl Client {
    fn new(port: u16) -> Client {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        let body = b"\0\x03\0\0user\0postgres\0\0";
        stream.write_all(&[&(body.len() as u32 + 4).to_be_bytes()[..], body].concat()).unwrap();
        let mut client = Client(stream);
        client.answer().expect("it is let in");
        client
    }
    /// Tags and errors up to the next readiness; nothing if the connection ends.
    fn answer(&mut self) -> Option<String> {
        let mut told = String::new();
        loop {
            let mut head = [0; 5];
            self.0.read_exact(&mut head).ok()?;
            let mut body = vec![0; u32::from_be_bytes(head[1..].try_into().unwrap()) as usize - 4];
            self.0.read_exact(&mut body).ok()?;
            match head[0] {
                b'Z' => return Some(told),
                b'C' | b'E' => told += &String::from_utf8_lossy(&body).replace('\0', " "),
                _ => {}
            }
        }
    }
    fn query(&mut self, text: &str) -> Option<String> {
        let body = format!("{text}\0");
        let message = [b"Q", &(body.len() as u32 + 4).to_be_bytes()[..], body.as_bytes()].concat();
        self.0.write_all(&message).ok()?;
        self.answer()
    }
}

/// `None` where it is not installed, which it must be where everything is checked.
fn found(program: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = ["/usr/lib/postgresql/15/bin"].into_iter().chain(path.split(':'));
    // Debian has wrappers, which may not find their programs.
    let is_it = |p: &PathBuf| Command::new(p).arg("--version").output().is_ok_and(|o| o.status.success());
    let found = folders.map(|f| Path::new(f).join(program)).find(|p| p.is_file() && is_it(p));
    let may_miss = std::env::var_os("CI").is_none();
    assert!(found.is_some() || may_miss, "{program} is missing: scripts/setup tests installs it");
    found
}

fn psql() -> Option<PathBuf> {
    found("psql")
}

#[test]
fn psql_talks_to_it() {
    let Some(psql) = psql() else { return };
    let folder = TempFolder::new().unwrap();
    let path = folder.path().join("db");
    let server = Process::in_folder(&path, &[]);
    let password = path.join("initial-password");
    assert_eq!(password.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let secret = std::fs::read_to_string(&password).unwrap();
    let socket = folder.path().to_str().unwrap();
    let run = |change: &dyn Fn(&mut Command), script: &str| -> Output {
        let mut c = Command::new(&psql);
        c.args(["-X", "-U", "postgres", "-d", "postgres", "-v", "ON_ERROR_STOP=1", "-c", script]);
        c.env("PGCONNECT_TIMEOUT", "10").env_remove("PGPASSWORD").env("LC_ALL", "C.UTF-8");
        change(&mut c);
        c.output().unwrap()
    };
    let unix = |c: &mut Command| {
        c.args(["-h", socket, "-p", "5432"]);
    };
    let tcp = |c: &mut Command| {
        c.args(["-h", "127.0.0.1", "-w", "-p", &server.port.to_string()]);
    };
    let text = |o: &Output| {
        assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
        String::from_utf8(o.stdout.clone()).unwrap()
    };
    text(&run(&unix, "CREATE TABLE t (a integer PRIMARY KEY, b text DEFAULT 'x')"));
    let shown = text(&run(&unix, "\\d t"));
    assert!(shown.contains("\"t_pkey\" PRIMARY KEY, btree (a)"), "{shown}");
    text(&run(
        &unix,
        "CREATE TABLE f (x integer REFERENCES t, y integer); CREATE INDEX ON f (y) WHERE x > 1",
    ));
    let shown = text(&run(&unix, "\\d f"));
    assert!(shown.contains("\"f_x_fkey\" FOREIGN KEY (x) REFERENCES t(a)"), "{shown}");
    let shown = text(&run(&unix, "\\d f_y_idx"));
    assert!(shown.contains("predicate (x > 1)"), "{shown}");
    text(&run(&unix, "DROP TABLE f"));
    assert!(text(&run(&unix, "\\conninfo")).contains("user \"postgres\""));
    // By TCP with the password, and not without, nor with another.
    let with = |secret: &str| {
        let secret = secret.trim().to_string();
        move |c: &mut Command| {
            c.env("PGPASSWORD", &secret);
        }
    };
    let both = |c: &mut Command| {
        tcp(c);
        with(&secret)(c)
    };
    assert!(text(&run(&both, "INSERT INTO t SELECT generate_series(1, 3)")).contains("INSERT 0 3"));
    let failed = run(&tcp, "SELECT 1");
    assert!(!failed.status.success());
    let failed = run(
        &|c| {
            tcp(c);
            with("wrong")(c)
        },
        "SELECT 1",
    );
    let why = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(why.contains("password authentication failed for user \"postgres\""), "{why}");
    let failed = run(
        &|c| {
            unix(c);
            c.args(["-d", "other"]);
        },
        "SELECT 1",
    );
    assert!(String::from_utf8_lossy(&failed.stderr).contains("database \"other\" does not exist"));
    // COPY from and to psql, and an error's place.
    let file = folder.path().join("rows");
    std::fs::write(&file, "4\tfour\n5\tfive\n").unwrap();
    text(&run(&unix, &format!("\\copy t from '{}'", file.display())));
    assert_eq!(
        text(&run(&unix, "\\copy (select b from t where a > 3 order by a) to stdout")),
        "four\nfive\n"
    );
    let failed = run(&unix, "SELECT nothing FROM t");
    let why = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(
        why,
        "ERROR:  column \"nothing\" does not exist\nLINE 1: SELECT nothing FROM t\n               ^\n"
    );
    // Another process has no way to the folder meanwhile, and says which has it.
    for words in [&["dump"][..], &["check"]] {
        let failed = ondol(&[words, &[path.to_str().unwrap()]].concat(), "");
        let why = String::from_utf8_lossy(&failed.stderr).into_owned();
        assert!(!failed.status.success() && why.contains("SQLSTATE: 55006"), "{why}");
        let holder = format!("DETAIL:  Process {} has it: ", server.child.id());
        assert!(why.contains(&holder) && why.contains("\"ondol backup "), "{why}");
    }
    server.signal("-TERM");
    let (good, last) = server.end();
    assert!(good && last.ends_with("The server has ended.\n"), "{last}");
    assert!(!folder.path().join(".s.PGSQL.5432").exists());
    let db = Database::open(&path).unwrap();
    assert_eq!(db.session().query("SELECT * FROM t", &[]).unwrap().len(), 5);
}

fn ondol(args: &[&str], input: &str) -> Output {
    let mut c = Command::new(env!("CARGO_BIN_EXE_ondol"));
    c.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = c.env_remove("PGPASSWORD").spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}
fn texts(o: &Output) -> (String, String) {
    (String::from_utf8(o.stdout.clone()).unwrap(), String::from_utf8(o.stderr.clone()).unwrap())
}

/// The shell shows what a server says as what a session of its own says.
#[test]
fn the_shell_talks_to_a_server() {
    let folder = TempFolder::new().unwrap();
    let path = folder.path().join("db");
    let alone = folder.path().join("alone");
    let at = path.to_str().unwrap();
    let server = Process::start(&[at, "--listen", "127.0.0.1:0", "--socket", at]);
    let script = "CREATE TABLE t (a integer PRIMARY KEY, b text, c numeric, d boolean, e date, f real);
        INSERT INTO t VALUES (1, 'x', 1.50, true, '2020-02-29', 0.1), (2, NULL, -3, false, NULL, 2);
        SELECT * FROM t; COPY t (a, b) FROM STDIN;\n7\tseven\n8\t\\N\n\\.\nSELECT a, b FROM t ORDER BY a;
        COPY t TO STDOUT; UPDATE t SET b = 'y' WHERE a > 6 RETURNING a; DROP TABLE IF EXISTS none;
        SELECT 1 AS \"é\", array[1, 2], interval '1 day';\n";
    for format in ["table", "csv", "json"] {
        let own = texts(&ondol(&["shell", alone.to_str().unwrap(), "--format", format], script));
        let (out, told) = texts(&ondol(&["shell", at, "--format", format], script));
        let notice = told.lines().next().unwrap_or_default();
        assert!(notice.starts_with("NOTICE:  a server has the database: this goes through "), "{told}");
        assert_eq!((out, told[notice.len() + 1..].to_string()), own, "{format}");
        ondol(&["shell", alone.to_str().unwrap(), "-c", "DROP TABLE t"], "");
        ondol(&["shell", at, "-c", "DROP TABLE t"], "");
    }
    // Errors have their places, and end a script.
    for script in
        ["SELECT 1;\nSELECT x\n  FROM nothing;\nSELECT 2;\n", "COPY t FROM STDIN;\n1\n\\.\nSELECT 2;\n"]
    {
        let own = ondol(&["shell", alone.to_str().unwrap()], script);
        let through = ondol(&["shell", at], script);
        let (out, told) = texts(&through);
        assert!(!own.status.success() && !through.status.success());
        assert_eq!((out, told.split_once('\n').unwrap().1.to_string()), texts(&own));
    }
    // By TCP with the password.
    let secret = std::fs::read_to_string(path.join("initial-password")).unwrap();
    let url =
        |secret: &str| format!("postgres://postgres:{}@127.0.0.1:{}/postgres", secret.trim(), server.port);
    let (out, told) = texts(&ondol(&["shell", &url(&secret), "--format", "csv", "-c", "SELECT 1 AS a"], ""));
    assert_eq!((out.as_str(), told.as_str()), ("a\n1\n", ""));
    let (_, told) = texts(&ondol(&["shell", &url("wrong"), "-c", "SELECT 1"], ""));
    assert!(told.contains("password authentication failed for user \"postgres\""), "{told}");
    let bare = format!("postgres://127.0.0.1:{}", server.port);
    let (_, told) = texts(&ondol(&["shell", &bare, "-c", "SELECT 1"], ""));
    assert!(told.contains("a password is needed for user \"postgres\""), "{told}");
    let (_, told) = texts(&ondol(&["shell", &format!("{bare}/?sslmode=require"), "-c", "SELECT 1"], ""));
    assert!(told.contains("the server does not support TLS, but sslmode requires it"), "{told}");
    server.signal("-KILL");
    drop(server);
    // The socket's file is left, and nobody answers: the shell opens the database itself.
    let (out, told) = texts(&ondol(&["shell", at, "--format", "csv", "-c", "SELECT 1 AS a"], ""));
    assert_eq!((out.as_str(), told.as_str()), ("a\n1\n", ""));
}

/// With TLS, the proof is bound to the certificate.
#[test]
fn the_shell_talks_by_tls() {
    let folder = TempFolder::new().unwrap();
    let path = folder.path().join("db");
    let files = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls");
    assert!(ondol(&["shell", path.to_str().unwrap(), "-c", "SELECT 1"], "").status.success());
    for name in ["server.crt", "server.key"] {
        std::fs::copy(Path::new(files).join(name), path.join(name)).unwrap();
        std::fs::set_permissions(path.join(name), PermissionsExt::from_mode(0o600)).unwrap();
    }
    let server = Process::in_folder(&path, &["--require-tls"]);
    let secret = std::fs::read_to_string(path.join("initial-password")).unwrap();
    let say = |mode: &str| {
        let url = format!("postgres://postgres:{}@localhost:{}/?{mode}", secret.trim(), server.port);
        texts(&ondol(&["shell", &url, "--format", "csv", "-c", "SELECT 1 AS a"], ""))
    };
    for mode in ["", "sslmode=require"] {
        assert_eq!(say(mode), ("a\n1\n".to_string(), String::new()), "{mode}");
    }
    let (_, told) = say("sslmode=disable");
    assert!(told.contains("this server requires TLS"), "{told}");
    let (_, told) = say(&format!("sslmode=verify-full&sslrootcert={files}/other.crt"));
    assert!(told.contains("UnknownIssuer") || told.contains("invalid peer certificate"), "{told}");
    // One that is an authority of its own, as `openssl req -x509` makes it, by its name alone.
    let full = format!("sslmode=verify-full&sslrootcert={files}/server.crt");
    assert_eq!(say(&full), ("a\n1\n".to_string(), String::new()));
    // The certificate is replaced; one that cannot be used is told of, and changes nothing.
    std::fs::copy(Path::new(files).join("rsa.crt"), path.join("server.crt")).unwrap();
    server.signal("-HUP");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(say("").0, "a\n1\n");
    std::fs::copy(Path::new(files).join("rsa.key"), path.join("server.key")).unwrap();
    std::fs::set_permissions(path.join("server.key"), PermissionsExt::from_mode(0o600)).unwrap();
    server.signal("-HUP");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(say("").0, "a\n1\n");
    // That one names nobody.
    let (_, told) = say(&format!("sslmode=verify-full&sslrootcert={files}/rsa.crt"));
    assert!(told.contains("not valid for name"), "{told}");
}

/// A database is made beside what the server is told by.
#[test]
fn a_folder_may_have_the_servers_files_already() {
    let folder = TempFolder::new().unwrap();
    let path = folder.path().join("db");
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls");
    std::fs::create_dir(&path).unwrap();
    for name in ["server.crt", "server.key"] {
        std::fs::copy(files.join(name), path.join(name)).unwrap();
        std::fs::set_permissions(path.join(name), PermissionsExt::from_mode(0o600)).unwrap();
    }
    std::fs::write(path.join("ondol.conf"), "lock_timeout = 7s\n").unwrap();
    std::fs::write(path.join("initial-password"), "chosen\n").unwrap();
    let server = Process::in_folder(&path, &["--require-tls"]);
    let url = format!("postgres://postgres:chosen@localhost:{}/", server.port);
    let told = texts(&ondol(&["shell", &url, "--format", "csv", "-c", "SHOW lock_timeout"], ""));
    assert_eq!(told, ("lock_timeout\n7s\n".to_string(), String::new()));
    drop(server);
    let other = folder.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("server.crt.old"), "").unwrap();
    let refused = ondol(&["serve", other.to_str().unwrap(), "--listen", "127.0.0.1:0"], "");
    assert!(texts(&refused).1.contains("found \"server.crt.old\" in"), "{:?}", texts(&refused));
}

/// What a killed one leaves goes when the next begins; and each may begin as a copy of a database.
#[test]
fn temporary_servers_leave_nothing() {
    let folder = TempFolder::new().unwrap();
    let template = folder.path().join("template");
    let made = ondol(&["shell", template.to_str().unwrap(), "-c", "CREATE TABLE t AS SELECT 42 AS a"], "");
    assert!(made.status.success());
    let of = [
        "--temporary",
        "--template",
        template.to_str().unwrap(),
        "--listen",
        "127.0.0.1:0",
        "--trust-loopback",
    ];
    let folders = || -> Vec<PathBuf> {
        let all = std::fs::read_dir("/dev/shm").unwrap().map(|f| f.unwrap().path());
        all.filter(|f| f.to_string_lossy().contains("/ondol-temporary-")).collect()
    };
    let killed = Process::start(&of);
    let other = Process::start(&of);
    for server in [&killed, &other] {
        let mut c = server.client();
        assert_eq!(c.query("UPDATE t SET a = 43 WHERE a = 42").as_deref(), Some("UPDATE 1 "));
    }
    let place = |server: &Process| -> PathBuf {
        let number = format!("/proc/{}/fd", server.child.id());
        let open =
            std::fs::read_dir(number).unwrap().flatten().filter_map(|f| std::fs::read_link(f.path()).ok());
        let held = open.into_iter().find(|p| p.ends_with("held")).expect("it has locked its folder");
        held.parent().unwrap().to_path_buf()
    };
    let (left, kept) = (place(&killed), place(&other));
    killed.signal("-KILL");
    drop(killed);
    assert!(left.is_dir());
    let next = Process::start(&of);
    assert!(!left.exists() && kept.is_dir(), "{:?}", folders());
    for server in [other, next] {
        let own = place(&server);
        server.signal("-TERM");
        assert!(server.end().0);
        assert!(!own.exists());
    }
}

/// Roles of the dictionary: who may log in, with what, and what they may do then.
#[test]
fn roles_log_in() {
    let Some(psql) = psql() else { return };
    let folder = TempFolder::new().unwrap();
    let path = folder.path().join("db");
    let server = Process::in_folder(&path, &[]);
    let first = std::fs::read_to_string(path.join("initial-password")).unwrap();
    let run = |role: &str, password: &str, script: &str| -> String {
        let mut c = Command::new(&psql);
        c.args(["-XAtw", "-h", "127.0.0.1", "-p", &server.port.to_string(), "-U", role, "-d", "postgres"]);
        c.args(["-c", script]).env("PGPASSWORD", password.trim()).env("PGCONNECT_TIMEOUT", "10");
        let o = c.output().unwrap();
        String::from_utf8_lossy(if o.status.success() { &o.stdout } else { &o.stderr }).trim().to_string()
    };
    let made = run(
        "postgres",
        &first,
        "CREATE ROLE ann LOGIN PASSWORD 'one'; CREATE ROLE bob PASSWORD 'two';
         CREATE ROLE old LOGIN PASSWORD 'three' VALID UNTIL '2001-01-01';
         CREATE ROLE few LOGIN PASSWORD 'four' CONNECTION LIMIT 0; CREATE TABLE t (a integer)",
    );
    assert!(made.ends_with("CREATE TABLE"), "{made}");
    assert_eq!(run("ann", "one", "SELECT current_user, session_user"), "ann|ann");
    assert_eq!(run("ann", "one", "SELECT * FROM t"), "ERROR:  permission denied for table t");
    for (role, password, wanted) in [
        ("ann", "two", "password authentication failed for user \"ann\""),
        ("nobody", "one", "password authentication failed for user \"nobody\""),
        ("old", "three", "password authentication failed for user \"old\""),
        ("bob", "two", "role \"bob\" is not permitted to log in"),
        ("few", "four", "too many connections for role \"few\""),
    ] {
        let said = run(role, password, "SELECT 1");
        assert!(said.ends_with(&format!("FATAL:  {wanted}")), "{said}");
    }
    // The first password is good until the role has one of its own.
    assert_eq!(run("postgres", &first, "ALTER ROLE postgres PASSWORD 'mine'"), "ALTER ROLE");
    assert!(run("postgres", &first, "SELECT 1").contains("password authentication failed"));
    assert_eq!(run("postgres", "mine", "SELECT 1"), "1");
}

#[test]
fn pgbench_runs() {
    let Some(pgbench) = found("pgbench") else { return };
    let server = Process::start(&["--temporary", "--listen", "127.0.0.1:0", "--trust-loopback"]);
    assert!(server.greeting.contains("Nothing of it is kept"), "{}", server.greeting);
    let run = |args: &[&str]| {
        let mut c = Command::new(&pgbench);
        c.args(["-h", "127.0.0.1", "-U", "postgres", "-p", &server.port.to_string()])
            .args(args)
            .arg("postgres");
        let o = c.output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&o.stdout), String::from_utf8_lossy(&o.stderr));
        assert!(o.status.success() && !err.contains("ERROR"), "{args:?}: {out}{err}");
        out.into_owned()
    };
    run(&["-i", "-s", "10", "-q"]);
    for mode in ["simple", "extended", "prepared"] {
        for more in [&["-N"][..], &["-S"], &[]] {
            let out = run(&[&["-n", "-M", mode, "-c", "4", "-t", "50"], more].concat());
            assert!(out.contains("number of transactions actually processed: 200/200"), "{out}");
            assert!(!out.contains("number of failed transactions: 1"), "{out}");
        }
    }
    // Each transaction that writes has left a row.
    let mut c = server.client();
    assert_eq!(c.query("SELECT FROM pgbench_history").as_deref(), Some("SELECT 1200 "));
}

/// Waits until nobody listens at the port. Another test's server may have it meanwhile.
fn refuses(port: u16) {
    let until = Instant::now() + Duration::from_secs(60);
    while TcpStream::connect(("127.0.0.1", port)).is_ok() {
        assert!(Instant::now() < until, "somebody listens at {port} still");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_server_drains() {
    let folder = TempFolder::new().unwrap();
    let path = folder.path().join("db");
    let server = Process::in_folder(&path, &["--trust-loopback"]);
    let (mut busy, mut idle) = (server.client(), server.client());
    busy.query("CREATE TABLE t (a integer)").unwrap();
    busy.query("BEGIN; INSERT INTO t VALUES (1)").unwrap();
    server.signal("-TERM");
    // Who does nothing is told, and who is in a transaction goes on until its end.
    assert!(idle.answer().is_none());
    assert_eq!(busy.query("INSERT INTO t VALUES (2)").as_deref(), Some("INSERT 0 1 "));
    refuses(server.port);
    assert_eq!(busy.query("COMMIT").as_deref(), Some("COMMIT "));
    assert!(busy.query("SELECT 1").is_none());
    assert!(server.end().0);
    // The second time nobody is waited for.
    let server = Process::in_folder(&path, &["--trust-loopback"]);
    let mut busy = server.client();
    busy.query("BEGIN; INSERT INTO t VALUES (3)").unwrap();
    server.signal("-TERM");
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(busy.query("INSERT INTO t VALUES (4)").as_deref(), Some("INSERT 0 1 "));
    server.signal("-TERM");
    // It is told so, as soon as the server has heard of it.
    assert!(busy.answer().is_none() && server.end().0);
    let db = Database::open(&path).unwrap();
    assert_eq!(db.session().query("SELECT * FROM t", &[]).unwrap().len(), 2);
}

/// What was answered outlives SIGKILL, and the next server takes the same socket.
#[test]
fn a_killed_server_loses_nothing_that_it_answered() {
    const CLIENTS: usize = 4;
    const KILLS: usize = 5;
    let folder = TempFolder::new().unwrap();
    let path = folder.path().join("db");
    let mut answered = [0u32; CLIENTS];
    for round in 0..KILLS {
        let server = Process::in_folder(&path, &["--trust-loopback"]);
        let mut c = server.client();
        c.query("CREATE TABLE IF NOT EXISTS t (client integer PRIMARY KEY, n integer)").unwrap();
        for i in 0..CLIENTS {
            c.query(&format!("INSERT INTO t VALUES ({i}, 0) ON CONFLICT DO NOTHING")).unwrap();
        }
        let port = server.port;
        let counts: Vec<u32> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|i| {
                    let mut n = answered[i];
                    scope.spawn(move || {
                        let mut c = Client::new(port);
                        // What it was told last, and it may have done one more.
                        loop {
                            let next = n + 1;
                            match c.query(&format!("UPDATE t SET n = {next} WHERE client = {i}")) {
                                Some(told) => assert_eq!(told, "UPDATE 1 "),
                                None => return n,
                            }
                            n = next
                        }
                    })
                })
                .collect();
            std::thread::sleep(Duration::from_millis(150));
            server.signal("-KILL");
            clients.into_iter().map(|c| c.join().unwrap()).collect()
        });
        drop(server);
        let db = Database::open(&path).unwrap();
        let found = db.session().query("SELECT n FROM t ORDER BY client", &[]).unwrap();
        for (i, row) in found.iter().enumerate() {
            let n = row.get::<i32>(0).unwrap() as u32;
            assert!(
                n == counts[i] || n == counts[i] + 1,
                "round {round}, client {i}: {n}, answered {}",
                counts[i]
            );
            assert!(counts[i] > answered[i], "client {i} did nothing in round {round}");
            answered[i] = n
        }
        db.close().unwrap()
    }
}
