//! Numbers for Prometheus, over HTTP on a port of their own: `GET /metrics`, one request a connection.
//!
//! - **P1** They are made when they are asked for. Nobody has to prove who they are: what is told are
//!   numbers, and names of nothing that users have made.
//! - **P2** One client is served at a time, and has two seconds.
use super::{Shared, io};
use crate::session::meter::{BOUNDS, Histogram};
use ondol_base::event::Event;
use ondol_base::net::{Interest, Poll};
use ondol_base::thread;
use ondol_types::SqlResult;
use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Bytes of a request that are read.
const REQUEST: usize = 8 << 10;
/// P2
const PATIENCE: Duration = Duration::from_secs(2);

/// Ends when it is dropped.
pub(super) struct Metrics {
    pub address: SocketAddr,
    ending: Arc<Event>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Metrics {
    pub fn start(address: &str, shared: Arc<Shared>) -> SqlResult<Metrics> {
        let refused = |e: &std::io::Error| io(format!("could not listen on \"{address}\" for metrics"), e);
        let listener = TcpListener::bind(address).map_err(|e| refused(&e))?;
        listener.set_nonblocking(true).map_err(|e| refused(&e))?;
        let ending = Arc::new(Event::new().map_err(|e| refused(&e))?);
        let poll = Poll::new().map_err(|e| refused(&e))?;
        poll.add(&listener, 0, Interest::READ).map_err(|e| refused(&e))?;
        poll.add(&*ending, 1, Interest::READ).map_err(|e| refused(&e))?;
        let address = listener.local_addr().map_err(|e| refused(&e))?;
        let serve = move || {
            let mut ready = vec![];
            loop {
                if poll.wait(&mut ready, None).is_err() {
                    thread::sleep(Duration::from_millis(10))
                }
                if ready.iter().any(|r| r.key == 1) {
                    return;
                }
                while let Ok((stream, _)) = listener.accept() {
                    // Who goes away, or is late, has to ask again.
                    let _ = answer(stream, &shared);
                }
            }
        };
        let thread = Some(thread::spawn("ondol-metrics", serve).map_err(|e| refused(&e))?);
        Ok(Metrics { address, ending, thread })
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.ending.set();
        // Who has panicked has told it.
        let _ = self.thread.take().map(|t| t.join());
    }
}

fn answer(mut stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = vec![];
    let mut room = [0; 1024];
    while !request.windows(4).any(|w| w == b"\r\n\r\n") {
        let n = stream.read(&mut room)?;
        request.extend_from_slice(&room[..n]);
        if n == 0 || request.len() > REQUEST {
            return Err(ErrorKind::InvalidData.into());
        }
    }
    let line = request.split(|b| *b == b'\r').next().unwrap_or_default();
    let mut words = line.split(|b| *b == b' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (status, body) = match (method, path) {
        (b"GET", b"/metrics") => ("200 OK", text(shared)),
        (b"GET", _) => ("404 Not Found", "The metrics are at /metrics.\n".to_string()),
        _ => ("405 Method Not Allowed", String::new()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// A histogram of all threads together.
#[derive(Default)]
struct Buckets {
    counts: [u64; BOUNDS.len() + 1],
    sum_ns: u64,
}

impl Buckets {
    fn add(&mut self, histogram: &Histogram) {
        histogram.add_to(&mut self.counts, &mut self.sum_ns)
    }
    /// Each with what stands behind the name; a bucket counts those before it as well.
    fn values(&self) -> Vec<(String, f64)> {
        let mut values = vec![];
        let mut count = 0;
        let bounds = BOUNDS.iter().map(|b| (*b as f64 / 1e9).to_string()).chain(["+Inf".to_string()]);
        for (bound, n) in bounds.zip(self.counts) {
            count += n;
            values.push((format!("_bucket{{le=\"{bound}\"}}"), count as f64))
        }
        values.extend([("_sum".to_string(), self.sum_ns as f64 / 1e9), ("_count".to_string(), count as f64)]);
        values
    }
}

fn text(shared: &Shared) -> String {
    let mut out = String::new();
    let mut put = |name: &str, kind: &str, about: &str, values: &[(String, f64)]| {
        let _ = writeln!(out, "# HELP ondol_{name} {about}\n# TYPE ondol_{name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(out, "ondol_{name}{labels} {value}");
        }
    };
    let one = |value: f64| [(String::new(), value)];
    let engine = &shared.database.engine;
    let backends = shared.database.board.backends();
    let states = ["active", "idle", "idle in transaction", "idle in transaction (aborted)"];
    let counted: Vec<(String, f64)> = states
        .iter()
        .map(|s| (format!("{{state=\"{s}\"}}"), backends.iter().filter(|b| b.state == *s).count() as f64))
        .collect();
    put("sessions", "gauge", "Sessions, by what they do.", &counted);
    let open = shared.open.load(Ordering::Relaxed) as f64;
    put("connections", "gauge", "Connections, those included that have not logged in.", &one(open));
    put("connections_limit", "gauge", "Connections at most.", &one(shared.most as f64));
    put("waiting_sessions", "gauge", "Sessions that wait for another.", &one(engine.waiting().len() as f64));
    let (started, loaded) = shared.database.board.started_us();
    let unix = |us: i64| (us + super::login::UNIX_TO_2000_US) as f64 / 1e6;
    put("start_time_seconds", "gauge", "When the database was opened.", &one(unix(started)));
    put("settings_load_time_seconds", "gauge", "When settings were read last.", &one(unix(loaded)));
    let memory = engine.memory();
    put("memory_used_bytes", "gauge", "Memory that the database takes.", &one(memory.used as f64));
    put("memory_limit_bytes", "gauge", "Memory that it may take.", &one(memory.limit as f64));
    let mut kinds: Vec<(String, f64)> = vec![];
    for p in &memory.parts {
        let label = format!("{{kind=\"{}\"}}", p.kind.name());
        match kinds.iter_mut().find(|k| k.0 == label) {
            Some(k) => k.1 += p.bytes as f64,
            None => kinds.push((label, p.bytes as f64)),
        }
    }
    put("memory_bytes", "gauge", "Memory by what it is for.", &kinds);
    let durable = engine.durable_ts() as f64;
    put("durable_timestamp", "counter", "The newest commit timestamp that is durable.", &one(durable));
    let checkpoint = engine.last_checkpoint();
    put("checkpoints_total", "counter", "Checkpoints since the start.", &one(checkpoint.count as f64));
    put("checkpoint_seconds", "gauge", "How long the last one took.", &one(checkpoint.seconds));
    let failed = if checkpoint.error.is_some() { 1.0 } else { 0.0 };
    put("checkpoint_failed", "gauge", "Whether the last one failed.", &one(failed));
    let board = &shared.database.board;
    let (mut took, mut waited) = (Buckets::default(), Buckets::default());
    let (mut commits, mut rollbacks, mut deadlocks) = (0, 0, 0);
    board.each_meter(|m| {
        took.add(&m.took);
        waited.add(&m.waited);
        commits += m.commits.get();
        rollbacks += m.rollbacks.get();
        deadlocks += m.deadlocks.get()
    });
    let about = "How long statements took; those executed together have an equal part each.";
    put("statement_seconds", "histogram", about, &took.values());
    let about = "How long answers waited for the commits that they rest on to be durable.";
    put("commit_wait_seconds", "histogram", about, &waited.values());
    let outcomes = [("committed", commits), ("rolled back", rollbacks)];
    let outcomes = outcomes.map(|(o, n)| (format!("{{outcome=\"{o}\"}}"), n as f64));
    put("transactions_total", "counter", "Transactions of sessions, by how they ended.", &outcomes);
    put(
        "deadlocks_total",
        "counter",
        "Statements that ended as victims of deadlocks.",
        &one(deadlocks as f64),
    );
    put("streams", "gauge", "Streams of the log.", &one(engine.streams() as f64));
    out
}
