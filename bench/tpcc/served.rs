//! TPC-C over the wire: Ondol's server beside a PostgreSQL of the run's own, on the same disk.
//!
//! - **S1** Both servers are processes of their own, asked over Unix sockets, Ondol's over memory and TCP as
//!   well, by the same clients (`ondol_bench::tpcc::wire`), a thread each; CPU time is the server's alone.
//!   Both make checkpoints as they do by default, PostgreSQL with room for 4 GB of WAL.
//! - **S2** Each way to send an order's lines is a contest of its own.
//! - **S3** With `--jdbc` a program in Java does the same by pgjdbc (`bench/jdbc`), over TCP, with the lines
//!   of an order as a batch: a process for each round, which warms up for as long as it is counted.
//! - **S4** With `--c` one client in C (`bench/c/neworder.c`) makes New-Orders by registered queries, in two
//!   messages each.
//! - **S5** Ondol's server is killed under the load. After recovery the twelve conditions must hold, and
//!   every New-Order be there whole whose COMMIT was answered.
use super::{Args, Kind, check, prepare};
use ondol::Database;
use ondol_bench::cluster::{self, Cluster};
use ondol_bench::machine::children_seconds;
use ondol_bench::options::home;
use ondol_bench::process::{Process, SOCKET, free_port};
use ondol_bench::report::{Report, number};
use ondol_bench::rounds::{Bound, Contest, Sample};
use ondol_bench::tpcc::backend::Backend;
use ondol_bench::tpcc::drive::{End, Outcome, drive};
use ondol_bench::tpcc::populate::populate;
use ondol_bench::tpcc::schema::{Kind as Of, statements};
use ondol_bench::tpcc::transactions::{Ordered, TYPES};
use ondol_bench::tpcc::wire::{By, Wire};
use ondol_bench::{Error, Result, machine};
use std::cell::{Cell, RefCell};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

fn postgres_settings(args: &Args) -> [(&'static str, &'static str); 6] {
    [
        ("listen_addresses", "127.0.0.1"),
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("shared_buffers", if args.common.tiny { "32MB" } else { "2GB" }),
        ("max_wal_size", "4GB"),
        ("max_connections", "300"),
    ]
}

pub(super) fn run(args: &Args, folder: &Path) -> Result<()> {
    if let Some(n) = args.crash {
        return crashes(args, n, folder);
    }
    contest(args, folder)?;
    if args.common.tiny { crashes(args, 2, folder) } else { Ok(()) }
}

fn ours(args: &Args, socket: PathBuf, together: bool) -> Wire {
    let settings = [
        ("version", env!("CARGO_PKG_VERSION")),
        ("over a Unix socket,", "a thread for each core"),
        ("indexes", "hash where keys are only looked up whole, else B+-trees"),
        ("durability:", "each commit is synced before it is answered"),
    ];
    let mut settings = settings.map(|(k, v)| (k.to_string(), v.to_string())).to_vec();
    settings.push(("isolation".into(), args.isolation.clone()));
    let isolation = args.isolation.replace('-', " ");
    Wire { name: "Ondol".into(), settings, socket, isolation, together, by: By::Socket }
}

fn postgres(args: &Args, cluster: &Cluster, together: bool) -> Wire {
    let version = cluster::version(&args.pgbin).unwrap_or_default();
    let mut settings = vec![("version".to_string(), version), ("indexes".into(), "B-trees".into())];
    settings.extend(postgres_settings(args).map(|(k, v)| (k.to_string(), v.to_string())));
    settings.push(("isolation".into(), args.isolation.clone()));
    Wire {
        name: "PostgreSQL".into(),
        settings,
        socket: cluster.socket(),
        isolation: args.isolation.replace('-', " "),
        together,
        by: By::Socket,
    }
}

const MEMORY: &str = "Ondol, memory";
const TCP: &str = "Ondol, TCP";

/// A server, and where it listens besides its socket.
type At<T> = (T, u16);
/// A side's clients, the CPU seconds of its server so far, and its port.
type Side<'a> = (Wire, Box<dyn Fn() -> f64 + 'a>, u16);

fn sides<'a>(
    args: &Args,
    server: &'a At<Process>,
    cluster: Option<&'a At<Cluster>>,
    together: bool,
) -> Vec<Side<'a>> {
    let wire = ours(args, server.0.socket.clone(), together);
    let mut all: Vec<Side<'a>> = vec![(wire, Box::new(|| server.0.cpu_seconds()), server.1)];
    if let Some((c, port)) = cluster {
        all.push((postgres(args, c, together), Box::new(|| c.cpu_seconds()), *port))
    }
    all
}

/// Ondol's server asked over memory and TCP, too.
fn carried<'a>(args: &Args, server: &'a At<Process>, together: bool) -> Vec<Side<'a>> {
    let side = |by: By, name: &str| -> Side<'a> {
        let wire = ours(args, server.0.socket.clone(), together);
        let wire = Wire { name: name.into(), by, ..wire };
        (wire, Box::new(|| server.0.cpu_seconds()), server.1)
    };
    vec![side(By::Memory, MEMORY), side(By::Tcp(server.1), TCP)]
}

/// A populated database of Ondol's, served. Tables are made by the embedded library, with its indexes.
fn served(args: &Args, folder: &Path) -> Result<(PathBuf, At<Process>)> {
    prepare(args, &[Kind::OndolDurable], folder)?.map(Database::close).transpose()?;
    let (place, port) = (folder.join("ondol"), free_port()?);
    let server = Process::serve(&place, port)?;
    Ok((place, (server, port)))
}

fn contest(args: &Args, folder: &Path) -> Result<()> {
    let folder = folder.join("wire");
    std::fs::create_dir_all(&folder)?;
    let scale = args.scale();
    let mut report = Report::new("tpcc-wire", "TPC-C over the wire", Some(&args.common));
    report.say(format!(
        "{} warehouses, {} clients on the same machine, no think time, all statements prepared; the \
         databases are on {}. CPU seconds are those of the server, of PostgreSQL all its processes'.",
        scale.warehouses,
        args.threads(),
        machine::file_system(&folder)
    ));
    let (_, server) = served(args, &folder)?;
    let cluster = match cluster::version(&args.pgbin) {
        Some(_) => {
            let port = free_port()?;
            let text = port.to_string();
            let settings = [&postgres_settings(args)[..], &[("port", text.as_str())]].concat();
            Some((Cluster::start(&args.pgbin, &folder, &settings)?, port))
        }
        None => {
            report.say("PostgreSQL was not there to be compared.");
            None
        }
    };
    for (wire, ..) in sides(args, &server, cluster.as_ref(), false) {
        if wire.name != "Ondol" {
            populate(&wire, &scale)?;
        }
        check(&wire, &scale, "before the run")?;
        report.settings(wire.name(), wire.settings());
    }
    let seconds = args.common.seconds(10.0);
    for (together, name) in [(false, "Each statement a round trip"), (true, "An order's lines sent together")]
    {
        let mut sides = sides(args, &server, cluster.as_ref(), together);
        sides.extend(carried(args, &server, together));
        let outcomes: Vec<RefCell<Outcome>> = sides.iter().map(|_| RefCell::default()).collect();
        let mut contest =
            Contest::new(format!("Transactions, all types: {}", name.to_lowercase()), "transactions");
        for ((wire, cpu_seconds, _), outcome) in sides.iter().zip(&outcomes) {
            contest.side(wire.name(), move |round| {
                let end = match args.transactions {
                    Some(n) => End::Transactions(n),
                    None => End::After(Duration::from_secs_f64(seconds)),
                };
                let plan = args.plan(Kind::OndolDurable, args.seed + round as u64, end);
                let cpu = cpu_seconds();
                let one = drive(wire, &plan, &|_| ())?;
                outcome.borrow_mut().add(&one);
                let mut sample = one.sample();
                sample.extra.push(("client cpu_seconds".into(), sample.cpu_s));
                sample.cpu_s = cpu_seconds() - cpu;
                Ok(sample)
            });
        }
        aims(&mut contest, cluster.is_some());
        contest.aim("memory against TCP", MEMORY, Some(TCP), Bound::RateAtLeast(1.0));
        contest.run(args.common.rounds(), &mut report)?;
        report.section(&format!("{name}: latencies, microseconds (p50 / p99)"));
        let mut head = vec!["side"];
        head.extend(TYPES.iter().map(|t| t.name()));
        head.extend(["retries", "rolled back"]);
        let rows: Vec<Vec<String>> = sides
            .iter()
            .zip(&outcomes)
            .map(|((wire, ..), o)| {
                let o = o.borrow();
                let mut row = vec![wire.name()];
                row.extend(o.percentiles());
                row.extend([number(o.retries as f64), number(o.rolled_back as f64)]);
                row
            })
            .collect();
        report.table(&head, &rows);
    }
    if let Some(jar) = &args.jdbc {
        from_java(args, jar, &folder, &sides(args, &server, cluster.as_ref(), true), &mut report)?
    }
    if let Some(library) = &args.c {
        from_c(args, library, &folder, &server, &mut report)?
    }
    let took: f64 = sides(args, &server, cluster.as_ref(), false).iter().map(|s| (s.1)()).sum();
    report.children(took);
    for (wire, ..) in sides(args, &server, cluster.as_ref(), false) {
        check(&wire, &scale, "after the run")?;
    }
    report.say("The twelve consistency conditions of clause 3.3.2 hold on both sides after the run.");
    drop((server, cluster));
    report.finish()
}

fn aims(contest: &mut Contest<'_>, is_compared: bool) {
    let over = Some("PostgreSQL").filter(|_| is_compared);
    if over.is_some() {
        contest.aim("rate against PostgreSQL", "Ondol", over, Bound::RateAtLeast(2.5));
        contest.aim("server CPU of PostgreSQL's", "Ondol", over, Bound::CpuAtMost(0.25));
    }
}

/// The statements as the program in Java reads them: JDBC's parameters have no numbers.
fn for_java() -> String {
    let kinds = |all: &[Of]| -> String {
        let letter = |k: &Of| match k {
            Of::Int => 'i',
            Of::Big => 'n',
            Of::Money | Of::Rate => 'm',
            Of::Text => 't',
            Of::Time => 'd',
        };
        all.iter().map(letter).collect()
    };
    let mut out = String::new();
    for s in statements() {
        let (mut text, mut order) = (String::new(), vec![]);
        for (i, piece) in s.sql.split('$').enumerate() {
            let digits = piece.len() - piece.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            if i > 0 {
                text.push('?');
                order.push(&piece[..digits]);
            }
            text.push_str(if i > 0 { &piece[digits..] } else { piece });
        }
        let order = order.join(",");
        out += &format!("{}\t{text}\t{order}\t{}\t{}\n", s.name, kinds(&s.params), kinds(&s.results));
    }
    out
}

/// S3
fn from_java(args: &Args, jar: &Path, folder: &Path, sides: &[Side<'_>], report: &mut Report) -> Result<()> {
    let (classes, texts) = (folder.join("java"), folder.join("statements"));
    std::fs::create_dir_all(&classes)?;
    std::fs::write(&texts, for_java())?;
    let theirs = children_seconds();
    let compiled =
        Command::new("javac").arg("-d").arg(&classes).arg(home().join("jdbc/Tpcc.java")).status()?;
    if !compiled.success() {
        return Err("javac failed".into());
    }
    let (scale, seconds) = (args.scale(), args.common.seconds(10.0).max(0.2));
    let isolation = match args.isolation.as_str() {
        "read-committed" => 2,
        "serializable" => 8,
        _ => 4,
    };
    let path = std::env::join_paths([jar, &classes])?;
    let run = |side: &Side<'_>, round: usize| -> Result<Sample> {
        let url = format!("jdbc:postgresql://127.0.0.1:{}/postgres?user=postgres&prepareThreshold=1", side.2);
        let mut command = Command::new("java");
        command.arg("-cp").arg(&path).args(["Tpcc", &url, &args.threads().to_string()]);
        command.args([seconds, seconds].map(|s| s.to_string()));
        command.args([scale.warehouses, scale.items, scale.customers].map(|n| n.to_string()));
        command.args([(args.seed + round as u64).to_string(), isolation.to_string()]).arg(&texts);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let out = child.stdout.take().ok_or("the program in Java has no output")?;
        let (mut cpu, mut told) = ((0.0, 0.0), vec![]);
        for line in BufReader::new(out).lines() {
            match line?.as_str() {
                "begin" => cpu.0 = (side.1)(),
                "end" => cpu.1 = (side.1)(),
                line => told.extend(line.split_once(' ').map(|(k, v)| (k.to_string(), v.parse::<f64>()))),
            }
        }
        if !child.wait()?.success() {
            return Err("the program in Java failed".into());
        }
        let extra = told.into_iter().map(|(k, v)| Ok((k, v?))).collect::<Result<Vec<(String, f64)>>>()?;
        let figure = |name: &str| {
            let found = extra.iter().find(|e| e.0 == name).map(|e| e.1);
            found.ok_or_else(|| Error::from(format!("the program in Java does not tell {name}")))
        };
        let (operations, seconds) = (figure("transactions")? as u64, figure("seconds")?);
        Ok(Sample { operations, seconds, cpu_s: cpu.1 - cpu.0, checksum: None, extra })
    };
    let took = Cell::new(children_seconds() - theirs);
    let mut contest = Contest::new("Transactions, all types: from Java by pgjdbc", "transactions");
    for side in sides {
        let (run, took) = (&run, &took);
        contest.side(side.0.name(), move |round| {
            let theirs = children_seconds();
            let sample = run(side, round)?;
            took.set(took.get() + children_seconds() - theirs);
            Ok(sample)
        })
    }
    aims(&mut contest, sides.len() > 1);
    contest.run(args.common.rounds(), report)?;
    report.children(took.get());
    Ok(())
}

/// S4
fn from_c(
    args: &Args,
    library: &Path,
    folder: &Path,
    server: &At<Process>,
    report: &mut Report,
) -> Result<()> {
    let (program, library) = (folder.join("neworder"), library.canonicalize()?);
    let compiled = Command::new("cc")
        .args(["-O2", "-std=c11", "-D_GNU_SOURCE", "-o"])
        .arg(&program)
        .arg(home().join("c/neworder.c"))
        .arg("-I")
        .arg(home().join("../crates/c/include"))
        .arg("-L")
        .arg(&library)
        .arg(format!("-Wl,-rpath,{}", library.display()))
        .arg("-londol_c")
        .status()?;
    if !compiled.success() {
        return Err("cc failed".into());
    }
    let (scale, seconds) = (args.scale(), args.common.seconds(10.0));
    let host = server.0.socket.parent().map(|p| p.display().to_string()).unwrap_or_default();
    let place = |memory: &str| format!("postgres:///postgres?user=postgres&host={host}&memory={memory}");
    let tcp = format!("postgres://postgres@127.0.0.1:{}/postgres", server.1);
    let ways = [(MEMORY, place("require")), ("Ondol", place("disable")), (TCP, tcp)];
    let mut contest = Contest::new("New-Orders from C, one client, two messages each", "orders");
    for (name, whereto) in &ways {
        let program = &program;
        contest.side(*name, move |round| {
            let cpu = server.0.cpu_seconds();
            let numbers = [scale.warehouses, scale.items, scale.customers];
            let out = Command::new(program)
                .arg(whereto)
                .arg(seconds.to_string())
                .args(numbers.map(|n| n.to_string()))
                .arg((args.seed + round as u64).to_string())
                .output()?;
            let said = String::from_utf8_lossy(&out.stdout).into_owned();
            let words: Vec<&str> = said.split_whitespace().collect();
            let number = |n: usize| words.get(n).and_then(|w| w.parse::<f64>().ok());
            match (out.status.success(), number(0), number(words.len().saturating_sub(2))) {
                (true, Some(orders), Some(seconds)) => Ok(Sample {
                    operations: orders as u64,
                    seconds,
                    cpu_s: server.0.cpu_seconds() - cpu,
                    ..Sample::default()
                }),
                _ => Err(format!("from C: {said}{}", String::from_utf8_lossy(&out.stderr)).into()),
            }
        })
    }
    contest.run(args.common.rounds(), report)?;
    Ok(())
}

/// S5
fn crashes(args: &Args, times: u64, folder: &Path) -> Result<()> {
    let folder = folder.join("crash-wire");
    let scale = args.scale();
    let (place, (mut server, _)) = served(args, &folder)?;
    let wire = ours(args, server.socket.clone(), false);
    let seconds = Duration::from_secs_f64(args.common.seconds(3.0).max(0.3));
    let mut acknowledged: Vec<Ordered> = vec![];
    for n in 0..times {
        let plan = args.plan(Kind::OndolDurable, args.seed + n, End::After(Duration::from_secs(86_400)));
        let told = Mutex::new(vec![]);
        let list = || told.lock().unwrap_or_else(PoisonError::into_inner);
        std::thread::scope(|s| -> Result<()> {
            let load = s.spawn(|| drive(&wire, &plan, &|o| list().push(o)));
            while list().is_empty() && !load.is_finished() {
                std::thread::sleep(Duration::from_millis(1))
            }
            std::thread::sleep(seconds);
            let is_early = load.is_finished();
            server.kill()?;
            match load.join().map_err(|_| "the clients have panicked")? {
                Err(e) if is_early => Err(format!("the load ended before the server: {e}").into()),
                Ok(_) => Err("the load ended without an error, though its server was killed".into()),
                Err(_) => Ok(()),
            }
        })?;
        let told = told.into_inner().unwrap_or_else(PoisonError::into_inner);
        let count = told.len();
        acknowledged.extend(told);
        let start = Instant::now();
        server = Process::start("--serve", &place, place.join(SOCKET))?;
        let recovered = start.elapsed().as_secs_f64();
        let missing = check(&wire, &scale, "after the crash")?.missing(&acknowledged);
        if !missing.is_empty() {
            return Err(format!("acknowledged over the wire and lost: {missing:?}").into());
        }
        println!(
            "Ondol's server: killed after {count} acknowledged New-Orders of {} clients; serves again after \
             {recovered:.2} s; all {} of this database are there, the twelve conditions hold",
            args.threads(),
            acknowledged.len()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_java_have_no_numbers() {
        let all = for_java();
        let line = all.lines().find(|l| l.starts_with("levelcount\t")).unwrap();
        let fields: Vec<&str> = line.split('\t').collect();
        assert_eq!(fields[2], "1,2,3,4,1,5");
        assert_eq!(fields[1].matches('?').count(), 6);
        assert!(!fields[1].contains('$') && fields[1].contains("s_w_id = ? AND s_i_id = ol_i_id"));
        assert_eq!((fields[3], fields[4]), ("iiiii", "n"));
    }
}
