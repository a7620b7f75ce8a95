//! Points in boxes through SQL: by a CR-tree, beside our own B-tree of the best column and a look at all
//! rows, PostgreSQL's GiST and B-tree of several columns, and SQLite's R*Tree.
//!
//! - **B1** Every side has the same rows, in memory or in its buffers, and is asked the same boxes by a
//!   prepared statement that gives how many rows lie within and the sum of their numbers. All give the same.
//! - **B2** PostgreSQL is asked over its Unix socket; Ondol within the process, and over its Unix socket by
//!   the same client. SQLite is within the process.
//! - **B3** SQLite's R*Tree has numbers of 32 bits, rounded outward: its rows are looked at again. It has
//!   five dimensions at most.
use ondol::{Value, ValueRef};
use ondol_bench::cluster::{self, Cluster};
use ondol_bench::options::Common;
use ondol_bench::ours;
use ondol_bench::points::{Boxes, Kind, Points, boxes};
use ondol_bench::process::{Process, free_port};
use ondol_bench::report::{Report, number};
use ondol_bench::rounds::{Bound, Contest, passes};
use ondol_bench::{Error, Result};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Points in boxes through SQL: the CR-tree beside B-trees, GiST and SQLite's R*Tree
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Where points lie: uniform, clusters, market (price, size, time); by commas
    #[arg(long, value_delimiter = ',', default_value = "uniform,market")]
    kinds: Vec<Kind>,
    /// Dimensions, by commas: 2, 3, 6
    #[arg(long, value_delimiter = ',', default_value = "2,3,6", value_parser = clap::value_parser!(u8).range(2..=6))]
    dimensions: Vec<u8>,
    /// Parts of the points that a box has, in percent, by commas
    #[arg(long, value_delimiter = ',', default_value = "0.001,0.01,0.1,1")]
    percent: Vec<f64>,
    /// Folder of PostgreSQL's programs
    #[arg(long, default_value = "/usr/lib/postgresql/15/bin")]
    pgbin: PathBuf,
}

const CRTREE: &str = "Ondol, CR-tree";
const SERVED: &str = "Ondol, CR-tree, Unix socket";
const BTREE: &str = "Ondol, B-tree of one column";
const FULL: &str = "Ondol, all rows";
const GIST: &str = "PostgreSQL, GiST";
const PG_BTREE: &str = "PostgreSQL, B-tree";
const SQLITE: &str = "SQLite, R*Tree";

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn list(names: &[&str]) -> String {
    names.join(", ")
}

/// `a BETWEEN $1 AND $2 AND ...`
fn between(names: &[&str]) -> String {
    let one = |(n, name): (usize, &&str)| format!("{name} BETWEEN ${} AND ${}", 2 * n + 1, 2 * n + 2);
    names.iter().enumerate().map(one).collect::<Vec<_>>().join(" AND ")
}

fn query(table: &str, condition: &str) -> String {
    format!("SELECT count(*)::bigint, coalesce(sum(id), 0)::bigint FROM {table} WHERE {condition}")
}

/// The ends of a box, by column.
fn ends<const D: usize>((low, high): &([f64; D], [f64; D])) -> Vec<f64> {
    low.iter().zip(high).flat_map(|(l, h)| [*l, *h]).collect()
}

type Ask<'a> = Box<dyn FnMut(&[f64]) -> Result<(i64, i64)> + 'a>;

fn csv<const D: usize>(points: &Points<D>, path: &Path) -> Result<()> {
    let mut text = String::new();
    for (n, p) in points.0.iter().enumerate() {
        write!(text, "{n}")?;
        p.iter().try_for_each(|x| write!(text, ",{x}"))?;
        text.push('\n')
    }
    Ok(std::fs::write(path, text)?)
}

fn create(names: &[&str], table: &str) -> String {
    let columns: Vec<String> = names.iter().map(|n| format!("{n} double precision NOT NULL")).collect();
    format!("CREATE TABLE {table} (id int PRIMARY KEY, {})", columns.join(", "))
}

/// A side that asks by PostgreSQL's protocol.
fn by_client<'a>(mut client: postgres::Client, sql: &str) -> Result<Ask<'a>> {
    let statement = client.prepare(sql)?;
    Ok(Box::new(move |ends| {
        let params: Vec<&(dyn postgres::types::ToSql + Sync)> = ends.iter().map(|x| x as _).collect();
        let row = client.query_one(&statement, &params)?;
        Ok((row.get(0), row.get(1)))
    }))
}

fn embedded<'a>(db: &ondol::Database, settings: &str, sql: &str) -> Result<Ask<'a>> {
    let mut session = db.session();
    session.execute(settings)?;
    let statement = session.prepare(sql)?;
    Ok(Box::new(move |ends| {
        let params: Vec<Value> = ends.iter().map(|x| Value::Float8(*x)).collect();
        let outcome = session.execute_prepared(&statement, &params)?;
        let rows = outcome.rows.as_ref().ok_or("no rows came")?;
        let numbers = rows.iter().flat_map(|row| row.values()).map(|value| match value {
            ValueRef::Int8(n) => Ok(n),
            other => Err(Error::from(format!("{other:?} came, expected a number"))),
        });
        match numbers.collect::<Result<Vec<i64>>>()?[..] {
            [count, sum] => Ok((count, sum)),
            _ => Err("other than two numbers came".into()),
        }
    }))
}

fn sqlite(points: usize, names: &[&str], file: &Path) -> Result<(rusqlite::Connection, f64)> {
    let db = rusqlite::Connection::open_in_memory()?;
    db.execute_batch(&create(names, "p"))?;
    let columns: Vec<String> = names.iter().map(|n| format!("{n}0, {n}1")).collect();
    db.execute_batch(&format!("CREATE VIRTUAL TABLE r USING rtree (id, {})", columns.join(", ")))?;
    db.execute_batch("BEGIN")?;
    {
        let marks: Vec<String> = (1..=names.len() + 1).map(|n| format!("?{n}")).collect();
        let mut insert = db.prepare(&format!("INSERT INTO p VALUES ({})", marks.join(", ")))?;
        for line in std::fs::read_to_string(file)?.lines() {
            let values: Vec<f64> = line
                .split(',')
                .map(|x| x.parse().map_err(|_| Error::from("no number")))
                .collect::<Result<_>>()?;
            insert.execute(rusqlite::params_from_iter(values))?;
        }
    }
    let began = Instant::now();
    let twice: Vec<String> = names.iter().map(|n| format!("{n}, {n}")).collect();
    db.execute_batch(&format!("INSERT INTO r SELECT id, {} FROM p; COMMIT", twice.join(", ")))?;
    Ok((db, points as f64 / began.elapsed().as_secs_f64()))
}

fn compare<const D: usize>(kind: Kind, args: &Args, report: &mut Report) -> Result<()> {
    let points: Points<D> = Points::make(kind, args.common.rows(1_000_000, 3_000));
    let count = points.0.len();
    let names = &NAMES[..D];
    let name = format!("{kind:?}, {D} dimensions").to_lowercase();
    report.section(&name);
    let folder = args.common.folder()?;
    let file = folder.path().join("points.csv");
    csv(&points, &file)?;

    let mut built = vec![];
    let mut build =
        |what: &str, seconds: f64| built.push(vec![what.to_string(), number(count as f64 / seconds)]);
    let ours = folder.path().join("ondol");
    let db = ours::options().open(&ours)?;
    let mut session = db.session();
    for table in ["p", "q"] {
        session.execute(&create(names, table))?;
        session.execute(&format!("COPY {table} FROM '{}' (FORMAT csv)", file.display()))?;
    }
    let began = Instant::now();
    session.execute(&format!("CREATE INDEX ON p USING crtree ({})", list(names)))?;
    build(CRTREE, began.elapsed().as_secs_f64());
    let began = Instant::now();
    session.execute(&format!("CREATE INDEX ON q ({})", names[0]))?;
    build(BTREE, began.elapsed().as_secs_f64());
    db.checkpoint()?;
    drop(session);
    db.close()?;
    let copy = folder.path().join("copy");
    ondol::backup::backup(&ours, &[], None, &copy)?;
    let db = ours::options().open(&ours)?;
    let condition = between(names);
    let mut sides: Vec<(&'static str, Ask<'_>)> = vec![
        (CRTREE, embedded(&db, "SET enable_seqscan = off", &query("p", &condition))?),
        (BTREE, embedded(&db, "SET enable_seqscan = off", &query("q", &condition))?),
        (FULL, embedded(&db, "SET enable_indexscan = off", &query("p", &condition))?),
    ];
    let server = Process::serve(&copy, free_port()?)?;
    let address = format!("host='{}' user=postgres dbname=postgres", copy.display());
    let mut client = postgres::Client::connect(&address, postgres::NoTls)?;
    client.batch_execute("SET enable_seqscan = off")?;
    sides.push((SERVED, by_client(client, &query("p", &condition))?));

    let version = cluster::version(&args.pgbin);
    let cluster = match &version {
        None => {
            report.say("PostgreSQL was not there to be compared.");
            None
        }
        Some(_) => {
            let settings = [
                ("shared_buffers", if args.common.tiny { "32MB" } else { "2GB" }),
                ("autovacuum", "off"),
                ("max_wal_size", "8GB"),
                ("jit", "off"),
                ("max_parallel_workers_per_gather", "0"),
            ];
            let cluster = Cluster::start(&args.pgbin, folder.path(), &settings)?;
            let mut client = cluster.connect()?;
            for table in ["p", "q"] {
                client.batch_execute(&create(names, table))?;
                let mut copy = client.copy_in(&format!("COPY {table} FROM STDIN (FORMAT csv)"))?;
                std::io::copy(&mut std::fs::File::open(&file)?, &mut copy)?;
                copy.finish()?;
            }
            // Points are PostgreSQL's own in two dimensions, cubes in more.
            let (value, within) = if D == 2 {
                ("point(a, b)".to_string(), "at <@ box(point($1, $3), point($2, $4))".to_string())
            } else {
                client.batch_execute("CREATE EXTENSION cube")?;
                let end =
                    |from: usize| (0..D).map(|d| format!("${}", 2 * d + from)).collect::<Vec<_>>().join(", ");
                (
                    format!("cube(ARRAY[{}])", list(names)),
                    format!("at <@ cube(ARRAY[{}]::float8[], ARRAY[{}]::float8[])", end(1), end(2)),
                )
            };
            let ty = if D == 2 { "point" } else { "cube" };
            client.batch_execute(&format!("ALTER TABLE p ADD at {ty}; UPDATE p SET at = {value}"))?;
            client.batch_execute("VACUUM FULL p")?;
            let began = Instant::now();
            client.batch_execute("CREATE INDEX ON p USING gist (at)")?;
            build(GIST, began.elapsed().as_secs_f64());
            let began = Instant::now();
            client.batch_execute(&format!("CREATE INDEX ON q ({})", list(names)))?;
            build(PG_BTREE, began.elapsed().as_secs_f64());
            for table in ["p", "q"] {
                client.batch_execute(&format!("VACUUM (FREEZE, ANALYZE) {table}"))?
            }
            let ask = |sql: &str| -> Result<Ask<'_>> {
                let mut client = cluster.connect()?;
                client.batch_execute("SET enable_seqscan = off")?;
                by_client(client, sql)
            };
            sides.push((GIST, ask(&query("p", &within))?));
            sides.push((PG_BTREE, ask(&query("q", &condition))?));
            Some(cluster)
        }
    };
    if D <= 5 {
        let (db, rate) = sqlite(count, names, &file)?;
        built.push(vec![SQLITE.to_string(), number(rate)]);
        let boxes: Vec<String> = names
            .iter()
            .enumerate()
            .map(|(n, c)| format!("{c}1 >= ?{} AND {c}0 <= ?{}", 2 * n + 1, 2 * n + 2))
            .collect();
        let again = condition.replace('$', "?");
        let sql = format!(
            "SELECT count(*), coalesce(sum(p.id), 0) FROM r CROSS JOIN p ON p.id = r.id WHERE {} AND {again}",
            boxes.join(" AND ")
        );
        let ask: Ask<'_> = Box::new(move |ends| {
            let mut statement = db.prepare_cached(&sql)?;
            Ok(statement.query_row(rusqlite::params_from_iter(ends), |row| Ok((row.get(0)?, row.get(1)?)))?)
        });
        sides.push((SQLITE, ask))
    }
    std::fs::remove_file(&file)?;
    report.table(&["index", "entries a second, built"], &built);

    for percent in &args.percent {
        let most = if args.common.tiny { 50 } else { 2000 };
        let wanted = (2e4 / (count as f64 * percent / 100.0)).clamp(20.0, most as f64) as usize;
        let asked: Boxes<D> = boxes(&points, *percent, wanted, D);
        let asked: Vec<Vec<f64>> = asked.iter().map(ends).collect();
        let mut contest = Contest::new(format!("{name}, {percent} %"), "searches");
        let mut seen: Option<(&str, (i64, i64))> = None;
        for (side, ask) in &mut sides {
            // B1
            let found = asked[..5].iter().try_fold((0, 0), |(count, sum), ends| -> Result<(i64, i64)> {
                let (c, s) = ask(ends)?;
                Ok((count + c, sum + s))
            })?;
            let (first, wanted) = *seen.get_or_insert((side, found));
            if found != wanted {
                return Err(format!("{side} finds {found:?}, {first} {wanted:?}").into());
            }
            let slow = *side == FULL || *side == BTREE;
            let some = if slow { &asked[..asked.len().min(5)] } else { &asked[..] };
            contest.side(*side, move |_| {
                let mut sample = passes(args.common.seconds(0.3), some.len(), || {
                    some.iter()
                        .try_fold(0, |all, ends| ask(ends).map(|(count, sum)| all + (count + sum) as u64))
                })?;
                if slow {
                    sample.checksum = None;
                }
                Ok(sample)
            })
        }
        if version.is_some() {
            contest.aim("against PostgreSQL's GiST", CRTREE, Some(GIST), Bound::RateAtLeast(15.0));
            contest.aim("over sockets", SERVED, Some(GIST), Bound::RateAtLeast(1.0));
        }
        contest.run(args.common.rounds(), report)?;
    }
    report.children(server.cpu_seconds() + cluster.as_ref().map_or(0.0, Cluster::cpu_seconds));
    Ok(())
}

pub fn run(args: Args) -> Result<()> {
    let mut report = Report::new("boxes", "Points in boxes, through SQL", Some(&args.common));
    report
        .settings("Ondol", [("version", env!("CARGO_PKG_VERSION")), ("durability", "reads alone are timed")]);
    if let Some(version) = cluster::version(&args.pgbin) {
        let told = [
            ("version", version.as_str()),
            ("over", "Unix socket"),
            ("shared_buffers", "2GB"),
            ("jit", "off"),
            ("its tables", "vacuumed, frozen, analysed"),
        ];
        report.settings("PostgreSQL", told)
    }
    ondol_bench::each_kind!(args, compare, &mut report);
    report.finish()
}
