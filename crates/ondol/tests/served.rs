//! What `ondol serve` is told by settings, and what it tells: its log, its numbers, systemd.
#![cfg(all(feature = "server", feature = "command"))]
use ondol::TempFolder;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Process {
    child: Child,
    port: u16,
    metrics: Option<u16>,
    log: PathBuf,
}

impl Process {
    /// Its error, if it does not start.
    fn start(folder: &Path, change: impl FnOnce(&mut Command)) -> Result<Process, String> {
        let log = folder.join("log");
        let mut c = Command::new(env!("CARGO_BIN_EXE_ondol"));
        c.arg("serve").arg(folder.join("db")).args(["--listen", "127.0.0.1:0", "--trust-loopback"]);
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&log).unwrap();
        change(c.stdout(Stdio::piped()).stderr(file));
        let mut child = c.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let (mut port, mut metrics) = (None, None);
        loop {
            let mut line = String::new();
            if out.read_line(&mut line).unwrap() == 0 {
                child.wait().unwrap();
                return Err(std::fs::read_to_string(&log).unwrap());
            }
            if let Some(rest) = line.trim().strip_prefix("postgres://postgres@127.0.0.1:") {
                port = rest.strip_suffix("/postgres").and_then(|p| p.parse().ok())
            }
            if let Some(rest) = line.trim().strip_prefix("http://127.0.0.1:") {
                metrics = rest.strip_suffix("/metrics").and_then(|p| p.parse().ok())
            }
            if line.starts_with("A commit is answered") {
                break;
            }
        }
        // Nobody reads the rest, which is short.
        std::mem::forget(out);
        Ok(Process { child, port: port.unwrap(), metrics, log })
    }
    fn signal(&self, name: &str) {
        let done = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(done.success())
    }
    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
    /// Waits until the log has that.
    fn logged(&self, text: &str) {
        let until = Instant::now() + Duration::from_secs(10);
        while !self.log().contains(text) {
            assert!(Instant::now() < until, "{text} is not in the log: {}", self.log());
            std::thread::sleep(Duration::from_millis(20))
        }
    }
    fn client(&self, user: &str) -> Client {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let body = format!("\0\x03\0\0user\0{user}\0database\0postgres\0application_name\0tests\0\0");
        stream.write_all(&[&(body.len() as u32 + 4).to_be_bytes()[..], body.as_bytes()].concat()).unwrap();
        let mut client = Client { stream, last: String::new() };
        client.answer();
        client
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Client {
    stream: TcpStream,
    /// The last error.
    last: String,
}

impl Client {
    /// Values, a space between; nothing if the connection ends.
    fn answer(&mut self) -> Option<String> {
        let mut told = vec![];
        loop {
            let mut head = [0; 5];
            self.stream.read_exact(&mut head).ok()?;
            let mut body = vec![0; u32::from_be_bytes(head[1..].try_into().unwrap()) as usize - 4];
            self.stream.read_exact(&mut body).ok()?;
            match head[0] {
                b'Z' => return Some(told.join(" ")),
                b'E' => self.last = String::from_utf8_lossy(&body).replace('\0', " "),
                b'D' => {
                    let mut rest = &body[2..];
                    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
                        let length = i32::from_be_bytes(*length).max(0) as usize;
                        told.push(String::from_utf8_lossy(&behind[..length]).into_owned());
                        rest = &behind[length..]
                    }
                }
                _ => {}
            }
        }
    }
    fn query(&mut self, text: &str) -> Option<String> {
        let body = format!("{text}\0");
        let message = [b"Q", &(body.len() as u32 + 4).to_be_bytes()[..], body.as_bytes()].concat();
        self.stream.write_all(&message).ok()?;
        self.answer()
    }
    /// Prepares a statement, and executes it so many times in one go; what the last gave.
    fn pipeline(&mut self, text: &str, count: usize) -> Option<String> {
        let message =
            |kind: u8, body: &[u8]| [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat();
        let mut all = message(b'P', format!("p\0{text}\0\0\0").as_bytes());
        for _ in 0..count {
            all.extend(message(b'B', b"\0p\0\0\0\0\0\0\0"));
            all.extend(message(b'E', b"\0\0\0\0\0"))
        }
        all.extend(message(b'C', b"Sp\0"));
        all.extend(message(b'S', b""));
        self.stream.write_all(&all).ok()?;
        self.answer()
    }
    fn show(&mut self, name: &str) -> String {
        self.query(&format!("SHOW {name}")).unwrap()
    }
}

#[test]
fn settings_come_from_the_file_the_environment_and_the_command_line() {
    let folder = TempFolder::new().unwrap();
    let file = folder.path().join("db/ondol.conf");
    drop(ondol::Database::open(folder.path().join("db")).unwrap());
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write(
        "# of the tests\nstatement_timeout = 5s\nlock_timeout = '2s'\nDateStyle 'german'\nmax_connections = 50\n\
         log_min_duration_statement = 1h\n",
    );
    let server = Process::start(folder.path(), |c| {
        c.env("ONDOL_LOCK_TIMEOUT", "3s")
            .env("ONDOL_TIMEZONE", "Asia/Seoul")
            .args(["-c", "timezone=Asia/Tokyo"]);
    });
    let server = server.unwrap();
    let mut c = server.client("postgres");
    assert_eq!((c.show("statement_timeout"), c.show("lock_timeout")), ("5s".into(), "3s".into()));
    assert_eq!((c.show("timezone"), c.show("datestyle")), ("Asia/Tokyo".into(), "German, DMY".into()));
    assert_eq!(c.show("max_connections"), "50");
    assert_eq!(c.query("SET statement_timeout = 1; RESET statement_timeout").as_deref(), Some(""));
    assert_eq!(c.show("statement_timeout"), "5s");
    c.query("SET log_min_duration_statement = 1");
    assert!(c.last.contains("0A000") && c.last.contains("other than 1h is not supported"), "{}", c.last);
    // Read again, for sessions from then on.
    write("statement_timeout = 7s\nmax_connections = 60\n");
    assert_eq!(c.query("SELECT pg_reload_conf()").as_deref(), Some("t"));
    server.logged("not reloaded: \"max_connections\" cannot be changed without restarting the server");
    assert_eq!(c.show("statement_timeout"), "5s");
    assert_eq!(server.client("postgres").show("statement_timeout"), "7s");
    write("statement_timeout = 8s\nwork_mem = never\n");
    server.signal("-HUP");
    server.logged("not reloaded: invalid value for parameter \"work_mem\": \"never\"");
    assert_eq!(server.client("postgres").show("statement_timeout"), "7s");
    drop(server);
    // What is wrong is told with its line, and nothing is ignored.
    for (text, wanted) in [
        ("work_mem = never", "invalid value for parameter \"work_mem\": \"never\""),
        ("nonesuch = 1", "unrecognized configuration parameter \"nonesuch\""),
        ("shared_buffers = 1GB", "shared_buffers other than 128MB is not supported"),
        ("work_mem 1MB 2MB", "syntax error in line 2 of"),
    ] {
        write(&format!("\n{text}\n"));
        let why = Process::start(folder.path(), |_| {}).err().expect("it does not start");
        assert!(why.contains(wanted) && why.contains("line 2 of"), "{text}: {why}");
    }
}

/// What a session begins with is said in many places; and where it was said is told.
#[test]
fn sessions_begin_with_what_their_roles_are_given() {
    let folder = TempFolder::new().unwrap();
    let options = ["-c", "lock_timeout=1s", "-c", "idle_session_timeout=1h"];
    let server = Process::start(folder.path(), |c| {
        c.args(options);
    })
    .unwrap();
    let mut c = server.client("postgres");
    c.query("CREATE ROLE ann LOGIN; CREATE ROLE bob LOGIN").unwrap();
    for text in [
        "ALTER ROLE ALL SET lock_timeout = '2s'",
        "ALTER ROLE ALL SET statement_timeout = '2min'",
        "ALTER DATABASE postgres SET statement_timeout = '3min'",
        "ALTER ROLE ann SET statement_timeout = '4min'",
        "ALTER ROLE ann IN DATABASE postgres SET idle_session_timeout = '5min'",
        "ALTER ROLE ann SET application_name = 'never'",
        "ALTER ROLE ann SET DateStyle = 'German'",
    ] {
        c.query(text).unwrap();
        assert_eq!(c.last, "", "{text}");
    }
    let shown = "SELECT setting, source FROM pg_settings WHERE name IN ('lock_timeout', 'statement_timeout',
                 'idle_session_timeout', 'application_name') ORDER BY name";
    let all = |c: &mut Client| c.query(shown).unwrap();
    assert_eq!(all(&mut server.client("ann")), "tests client 300000 database user 2000 global 240000 user");
    assert_eq!(
        all(&mut server.client("bob")),
        "tests client 3600000 command line 2000 global 180000 database"
    );
    let mut ann = server.client("ann");
    ann.query("SET statement_timeout = 1000").unwrap();
    assert_eq!(ann.query("SELECT date '2000-12-31'").unwrap(), "31.12.2000");
    ann.query("SET DateStyle = 'ISO'").unwrap();
    ann.query("DISCARD ALL").unwrap();
    assert_eq!((ann.show("statement_timeout"), ann.show("datestyle")), ("4min".into(), "German, DMY".into()));
    // One that is no value any more keeps nobody out.
    c.query("CREATE ROLE old LOGIN; ALTER ROLE old SET TimeZone = 'Europe/Berlin'").unwrap();
    assert_eq!(server.client("old").show("timezone"), "Europe/Berlin");
}

#[test]
fn alter_system_writes_a_file_that_is_read_behind_the_other() {
    let folder = TempFolder::new().unwrap();
    let (file, own) = (folder.path().join("db/ondol.conf"), folder.path().join("db/ondol.auto.conf"));
    drop(ondol::Database::open(folder.path().join("db")).unwrap());
    std::fs::write(&file, "statement_timeout = 5s\nlock_timeout = 5s\n").unwrap();
    let start = || {
        let started = Process::start(folder.path(), |c| {
            c.args(["-c", "lock_timeout=9s"]);
        });
        started.unwrap()
    };
    let server = start();
    let mut c = server.client("postgres");
    for text in [
        "ALTER SYSTEM SET statement_timeout = '6s'",
        "ALTER SYSTEM SET statement_timeout TO '7s'",
        "ALTER SYSTEM SET lock_timeout = 7000",
        "ALTER SYSTEM SET application_name = 'it''s \\ here'",
        "ALTER SYSTEM SET log_min_duration_statement = '1min'",
        "ALTER SYSTEM SET max_connections = 60",
        "ALTER SYSTEM SET work_mem = '1MB'",
        "ALTER SYSTEM RESET work_mem",
        "ALTER SYSTEM SET search_path = public, \"Odd\"",
    ] {
        c.query(text).unwrap();
        assert_eq!(c.last, "", "{text}");
    }
    let text = std::fs::read_to_string(&own).unwrap();
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(
        lines,
        [
            "statement_timeout = '7s'",
            "lock_timeout = '7000'",
            "application_name = 'it''s \\\\ here'",
            "log_min_duration_statement = '1min'",
            "max_connections = '60'",
            "search_path = 'public, \"Odd\"'"
        ]
    );
    for (text, state) in [
        ("ALTER SYSTEM SET nothing = 1", "42704"),
        ("ALTER SYSTEM RESET nothing", "42704"),
        ("ALTER SYSTEM SET work_mem = never", "22023"),
        ("ALTER SYSTEM SET application_name = E'a\\nb'", "22023"),
        ("ALTER SYSTEM SET server_version = '16'", "55P02"),
        ("ALTER SYSTEM SET role = 'postgres'", "55P02"),
        ("ALTER SYSTEM SET shared_buffers = '1GB'", "0A000"),
        ("BEGIN; ALTER SYSTEM RESET ALL", "25001"),
    ] {
        c.query(text).unwrap();
        assert!(c.last.contains(state), "{text}: {}", c.last);
    }
    c.query("ROLLBACK").unwrap();
    assert_eq!(std::fs::read_to_string(&own).unwrap(), text);
    // In effect once it is read, for sessions from then on, and behind what the command line says.
    assert_eq!(server.client("postgres").show("statement_timeout"), "5s");
    c.query("SELECT pg_reload_conf()").unwrap();
    server.logged("not reloaded: \"max_connections\" cannot be changed without restarting the server");
    let mut other = server.client("postgres");
    assert_eq!((other.show("statement_timeout"), other.show("lock_timeout")), ("7s".into(), "9s".into()));
    drop((c, other, server));
    let server = start();
    let mut c = server.client("postgres");
    assert_eq!((c.show("max_connections"), c.show("search_path")), ("60".into(), "public, \"Odd\"".into()));
    c.query("ALTER SYSTEM RESET ALL").unwrap();
    assert_eq!(std::fs::read_to_string(&own).unwrap().lines().count(), 1);
    drop((c, server));
    assert_eq!(start().client("postgres").show("statement_timeout"), "5s");
}

#[test]
fn who_is_idle_for_long_is_sent_away() {
    let folder = TempFolder::new().unwrap();
    let server = Process::start(folder.path(), |c| {
        c.args(["-c", "idle_in_transaction_session_timeout=200ms"]);
    });
    let server = server.unwrap();
    let (mut idle, mut busy) = (server.client("postgres"), server.client("postgres"));
    busy.query("CREATE TABLE t (a integer)").unwrap();
    busy.query("BEGIN; INSERT INTO t VALUES (1)").unwrap();
    assert_eq!(busy.answer(), None);
    assert!(busy.last.contains("FATAL") && busy.last.contains("25P03"), "{}", busy.last);
    assert_eq!(idle.query("SELECT count(*) FROM t").as_deref(), Some("0"));
    idle.query("SET idle_session_timeout = 100").unwrap();
    assert_eq!(idle.answer(), None);
    assert!(idle.last.contains("terminating connection due to idle-session timeout"), "{}", idle.last);
}

#[test]
fn some_connections_are_kept_for_superusers() {
    let folder = TempFolder::new().unwrap();
    let options = ["-c", "max_connections=3", "-c", "superuser_reserved_connections=1"];
    let server = Process::start(folder.path(), |c| {
        c.args(options);
    })
    .unwrap();
    server.client("postgres").query("CREATE ROLE ann LOGIN").unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let _two = (server.client("ann"), server.client("ann"));
    let refused = server.client("ann");
    assert!(refused.last.contains("53300") && refused.last.contains("reserved"), "{}", refused.last);
    drop(refused);
    std::thread::sleep(Duration::from_millis(200));
    let mut last = server.client("postgres");
    assert_eq!(last.query("SELECT 1").as_deref(), Some("1"));
    assert!(server.client("postgres").last.contains("sorry, too many clients already"));
}

#[test]
fn the_log_tells_who_comes_and_what_takes_long() {
    let folder = TempFolder::new().unwrap();
    let options =
        ["-c", "log_connections=on", "-c", "log_disconnections=on", "-c", "log_min_duration_statement=50ms"];
    let server = Process::start(folder.path(), |c| {
        c.args(options);
    })
    .unwrap();
    let mut c = server.client("postgres");
    server.logged("LOG:  connection authorized: user=postgres database=postgres host=127.0.0.1:");
    c.query("SELECT pg_sleep(0.06) /* long */; SELECT 1").unwrap();
    server.logged("statement: SELECT pg_sleep(0.06) /* long */; SELECT 1\n");
    c.query("SELECT 'short'").unwrap();
    // Look-ups that are executed together.
    c.query("CREATE TABLE t (a integer PRIMARY KEY); INSERT INTO t VALUES (1)").unwrap();
    let mut other = server.client("postgres");
    assert_eq!(c.pipeline("SELECT a FROM t WHERE a = 1", 3).as_deref(), Some("1 1 1"));
    let seen = "SELECT query, state, query_start >= backend_start, state_change >= query_start,
                now() - query_start BETWEEN '0' AND '1 min' FROM pg_stat_activity WHERE query LIKE 'SELECT a%'";
    let told = other.query(seen);
    assert_eq!(told.as_deref(), Some("SELECT a FROM t WHERE a = 1 idle t t t"));
    drop((c, other));
    server.logged("LOG:  disconnection: session time: ");
    server.client("nobody");
    server.logged("FATAL:  role \"nobody\" does not exist, from 127.0.0.1:");
    assert!(!server.log().contains("short") && !server.log().contains("look-ups"));
    drop(server);
    let server = Process::start(folder.path(), |c| {
        c.args(["-c", "log_min_duration_statement=0"]);
    })
    .unwrap();
    server.client("postgres").pipeline("SELECT a FROM t WHERE a = 1 /* many */", 3).unwrap();
    server.logged(" ms  3 look-ups, the first: SELECT a FROM t WHERE a = 1 /* many */\n");
    server.client("postgres").pipeline("SELECT a FROM t WHERE a = 1 /* one */", 1).unwrap();
    server.logged(" ms  statement: SELECT a FROM t WHERE a = 1 /* one */\n");
    drop(server);
    let options = ["-c", "log_connections=on", "-c", "log_destination=jsonlog"];
    let server = Process::start(folder.path(), |c| {
        c.args(options);
    })
    .unwrap();
    server.client("postgres");
    server.logged(
        "\"severity\":\"LOG\",\"process\":1,\"user\":\"postgres\",\"application\":\"tests\",\"from\":\"127",
    );
    let log = server.log();
    let line = log.lines().rfind(|l| l.starts_with('{')).unwrap();
    let object: serde_json::Value = serde_json::from_str(line).unwrap();
    assert!(object["message"].as_str().unwrap().starts_with("connection authorized: "), "{line}");
}

#[test]
fn the_log_has_errors_where_that_is_asked_for() {
    let folder = TempFolder::new().unwrap();
    let fail = |server: &Process| {
        server.client("postgres").query("SELECT 'x'::integer /* one */").unwrap();
        server.client("postgres").pipeline("SELECT 1 / 0 /* two */", 1).unwrap();
        server.client("postgres").pipeline("SELECT nothing /* three */", 1).unwrap();
    };
    let server = Process::start(folder.path(), |_| {}).unwrap();
    fail(&server);
    drop(server);
    let server = Process::start(folder.path(), |c| {
        c.args(["-c", "log_min_messages=error", "-c", "log_min_error_statement=panic"]);
    })
    .unwrap();
    assert!(!server.log().contains("ERROR"), "{}", server.log());
    fail(&server);
    server.logged("ERROR:  22P02: invalid input syntax for type integer: \"x\"\n");
    server.logged("ERROR:  22012: division by zero\n");
    server.logged("ERROR:  42703: column \"nothing\" does not exist\n");
    drop(server);
    let server = Process::start(folder.path(), |c| {
        c.args(["-c", "log_min_messages=error"]);
    })
    .unwrap();
    fail(&server);
    server.logged(
        "22P02: invalid input syntax for type integer: \"x\"  statement: SELECT 'x'::integer /* one */\n",
    );
    server.logged("22012: division by zero  statement: SELECT 1 / 0 /* two */\n");
    server.logged("42703: column \"nothing\" does not exist  statement: SELECT nothing /* three */\n");
    let mut c = server.client("postgres");
    c.query("SET log_min_messages = fatal").unwrap();
    assert!(c.last.contains("0A000"), "{}", c.last);
    drop(server);
    let why = Process::start(folder.path(), |c| {
        c.args(["-c", "log_min_messages=warning"]);
    });
    assert!(why.err().expect("it does not start").contains("log_min_messages other than fatal"));
    let server = Process::start(folder.path(), |c| {
        c.args(["-c", "log_min_messages=error", "-c", "log_destination=jsonlog"]);
    })
    .unwrap();
    fail(&server);
    server.logged("\"sqlstate\":\"22012\",\"statement\":\"SELECT 1 / 0 /* two */\"}");
}

#[test]
fn prometheus_and_systemd_are_told() {
    let folder = TempFolder::new().unwrap();
    let place = folder.path().join("notify");
    let socket = UnixDatagram::bind(&place).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let heard = || {
        let mut room = [0; 100];
        let n = socket.recv(&mut room).unwrap();
        String::from_utf8_lossy(&room[..n]).into_owned()
    };
    let server = Process::start(folder.path(), |c| {
        c.args(["--metrics", "127.0.0.1:0"]).env("NOTIFY_SOCKET", &place);
    });
    let mut server = server.unwrap();
    assert_eq!(heard(), "READY=1");
    let mut c = server.client("postgres");
    c.query("CREATE TABLE t (a integer)").unwrap();
    c.query("SELEC").unwrap();
    c.query("BEGIN; INSERT INTO t VALUES (1)").unwrap();
    let ask = |line: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", server.metrics.unwrap())).unwrap();
        stream.write_all(format!("{line} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let answer = ask("GET /metrics");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    for line in [
        "\nondol_sessions{state=\"idle in transaction\"} 1\n",
        "\nondol_sessions{state=\"active\"} 0\n",
        "\nondol_connections 1\n",
        "\nondol_connections_limit 10000\n",
        "\n# TYPE ondol_memory_used_bytes gauge\n",
        "\nondol_checkpoint_failed 0\n",
        "\n# TYPE ondol_statement_seconds histogram\n",
        "\nondol_statement_seconds_bucket{le=\"0.00001\"} ",
        "\nondol_statement_seconds_bucket{le=\"+Inf\"} 4\n",
        "\nondol_statement_seconds_count 4\n",
        "\nondol_commit_wait_seconds_count ",
        "\nondol_transactions_total{outcome=\"committed\"} 1\n",
        "\nondol_transactions_total{outcome=\"rolled back\"} 1\n",
        "\nondol_deadlocks_total 0\n",
    ] {
        assert!(answer.contains(line), "{line:?}: {answer}");
    }
    assert!(ask("GET /").starts_with("HTTP/1.1 404 ") && ask("POST /metrics").starts_with("HTTP/1.1 405 "));
    server.signal("-HUP");
    assert_eq!((heard(), heard()), ("RELOADING=1".into(), "READY=1".into()));
    drop(c);
    server.signal("-TERM");
    assert_eq!(heard(), "STOPPING=1");
    assert!(server.child.wait().unwrap().success());
}
