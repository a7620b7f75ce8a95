//! `ondol innodb`: tables of MySQL and MariaDB, read from their files.
use super::{Done, Failed, tell};
use clap::{Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use ondol::{Session, Unfinished};
use ondol_base::cancel::Cancel;
use ondol_innodb::evidence;
use ondol_innodb::export::{self, Options};
use ondol_innodb::folder::{self, Absent, Database, TableFiles};
use ondol_innodb::keys::Keys;
use ondol_innodb::scan::{Buffers, LeftOut, Scan};
use ondol_innodb::value;
use ondol_scan::csv::Dialect;
use ondol_types::name::quote;
use std::io::{IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Write a table's rows as text, Parquet or Arrow
    Export(Export),
    /// Copy tables from a running server on this machine, locked while they are copied
    Snapshot(Snapshot),
    /// Show what a tablespace is, and its table's definition
    Info {
        /// TABLE.ibd
        file: PathBuf,
        #[command(flatten)]
        definition: Definition,
    },
    /// Load a table into a database of Ondol's, as a new table
    Import(Import),
    /// Verify all that a table's rows need: checksums, tree, records
    Check {
        /// TABLE.ibd
        file: PathBuf,
        #[command(flatten)]
        definition: Definition,
    },
}

#[derive(clap::Args, Clone)]
pub struct Export {
    /// TABLE.ibd; MariaDB's and older MySQL's definition is expected beside it in TABLE.frm
    #[arg(required_unless_present = "datadir")]
    pub file: Option<PathBuf>,
    /// All tables of a folder: a stopped server's data folder, a prepared backup or a folder of snapshots.
    /// Each is written to TO/DATABASE/TABLE.FORMAT
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["file", "columns", "key_from", "key_to", "limit", "schema"], requires = "format")]
    pub datadir: Option<PathBuf>,
    /// Of --datadir these databases only
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "datadir")]
    pub databases: Option<Vec<String>>,
    /// The file to write, or - for standard output; of --datadir a folder
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
    /// What to write; by default what the file's name ends in
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// How values stand in a line of CSV; by default rfc4180
    #[arg(long, value_enum)]
    csv: Option<Csv>,
    /// What dates that are no days of the calendar (0000-00-00) become in Parquet and Arrow; by default they
    /// are refused
    #[arg(long, value_enum, value_name = "WHAT")]
    zero_dates: Option<ZeroDates>,
    /// With the rows of a system-versioned table that were deleted or changed, and the columns that say when
    /// rows were current
    #[arg(long)]
    history: bool,
    /// The columns to write, in this order
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// Only rows whose primary key begins with this value or a greater one (whole numbers, DATE, DATETIME)
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    key_from: Option<String>,
    /// Only rows whose primary key begins with this value or a smaller one
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    key_to: Option<String>,
    /// Rows to write at most; one thread counts them
    #[arg(long, value_name = "ROWS")]
    limit: Option<u64>,
    /// Threads that read and convert; by default one for each processor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Rows in any order, as they are ready
    #[arg(long)]
    unordered: bool,
    /// Write over a file that is there
    #[arg(long)]
    overwrite: bool,
    /// Read the file although nothing shows that it was at rest, or something speaks against it
    #[arg(long)]
    assume_consistent: bool,
    #[command(flatten)]
    definition: Definition,
}

#[derive(clap::Args)]
pub struct Import {
    /// TABLE.ibd; MariaDB's and older MySQL's definition is expected beside it in TABLE.frm. If it is not
    /// there, the table's partitions, TABLE#P#….ibd
    #[arg(required_unless_present = "datadir")]
    file: Option<PathBuf>,
    /// All tables of a folder: a stopped server's data folder, a prepared backup or a folder of snapshots.
    /// Each database becomes a schema of its name
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["file", "table", "schema"])]
    datadir: Option<PathBuf>,
    /// Of --datadir these databases only
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "datadir")]
    databases: Option<Vec<String>>,
    /// The database's folder, made if it is not there
    #[arg(long, value_name = "DB")]
    into: PathBuf,
    /// The new table's name; by default the table's
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// What dates that are no days of the calendar (0000-00-00) become; by default they are refused
    #[arg(long, value_enum, value_name = "WHAT")]
    zero_dates: Option<ZeroDates>,
    /// What zero bytes in texts become, which texts here cannot have; by default they are refused
    #[arg(long, value_enum, value_name = "WHAT")]
    zero_bytes: Option<ZeroBytes>,
    /// With the rows of a system-versioned table that were deleted or changed, and the columns that say when
    /// rows were current
    #[arg(long)]
    history: bool,
    /// Threads that read and convert; by default one for each processor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Bytes that the database may take in memory: 512M, 4G
    #[arg(long, value_name = "BYTES", value_parser = super::shell::bytes)]
    memory_limit: Option<usize>,
    /// A further folder to log into (may be repeated; give the same ones, in the same order, each time)
    #[arg(long = "log-folder", value_name = "DIR")]
    log_folders: Vec<String>,
    #[command(flatten)]
    ring: super::Ring,
    /// Read the file although nothing shows that it was at rest, or something speaks against it
    #[arg(long)]
    assume_consistent: bool,
    #[command(flatten)]
    definition: Definition,
}

#[derive(clap::Args, Clone)]
struct Definition {
    /// The table's CREATE TABLE, in place of the definition in the file or in TABLE.frm
    #[arg(long, value_name = "FILE.sql")]
    schema: Option<PathBuf>,
    /// The keys of encrypted tables: the file that MariaDB's file_key_management_filename names
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// The password of an encrypted file of keys: what file_key_management_filekey=FILE:… names
    #[arg(long, value_name = "FILE", requires = "keys")]
    keys_password: Option<PathBuf>,
}

impl Definition {
    /// Opens a table by what was given.
    fn open(&self, file: &Path) -> Result<Scan, Failed> {
        let keys = self.keys.as_deref().map(|keys| Keys::read(keys, self.keys_password.as_deref()));
        let keys = keys.transpose().map_err(told)?.map(Arc::new);
        Scan::open_by(file, self.schema.as_deref(), keys.as_ref()).map_err(told)
    }
}

#[derive(clap::Args)]
struct Snapshot {
    /// The tables
    #[arg(required = true, value_name = "TABLE")]
    tables: Vec<String>,
    /// Their database
    #[arg(long, value_name = "NAME")]
    database: String,
    /// The folder for the copies
    #[arg(long, value_name = "FOLDER")]
    to: PathBuf,
    /// The server's client program; by default mariadb, or else mysql. A password belongs in its
    /// --defaults-file
    #[arg(long, value_name = "PROGRAM")]
    client: Option<PathBuf>,
    /// A file of options for the client, read before all others
    #[arg(long, value_name = "FILE")]
    defaults_file: Option<PathBuf>,
    #[arg(long)]
    host: Option<String>,
    #[arg(long)]
    port: Option<u16>,
    #[arg(long)]
    socket: Option<PathBuf>,
    #[arg(long)]
    user: Option<String>,
    /// Where the server's data folder is to be seen here, if not where the server says
    #[arg(long, value_name = "FOLDER")]
    data_folder: Option<PathBuf>,
    /// Seconds to wait for transactions that use the tables
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    wait: u32,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Format {
    Csv,
    /// Parquet, compressed with Snappy
    Parquet,
    /// Arrow IPC: a file, or on standard output a stream
    Arrow,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum ZeroDates {
    /// An error
    Refuse,
    /// NULL, and how many is told
    Null,
    /// All dates become texts
    Text,
}

impl ZeroDates {
    fn meant(given: Option<ZeroDates>) -> value::ZeroDates {
        match given {
            None | Some(ZeroDates::Refuse) => value::ZeroDates::Refuse,
            Some(ZeroDates::Null) => value::ZeroDates::Null,
            Some(ZeroDates::Text) => value::ZeroDates::Text,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum ZeroBytes {
    /// An error
    Refuse,
    /// Left out
    Remove,
    /// U+FFFD for each
    Replace,
}

impl ZeroBytes {
    fn meant(given: Option<ZeroBytes>) -> value::ZeroBytes {
        match given {
            None | Some(ZeroBytes::Refuse) => value::ZeroBytes::Refuse,
            Some(ZeroBytes::Remove) => value::ZeroBytes::Remove,
            Some(ZeroBytes::Replace) => value::ZeroBytes::Replace,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Csv {
    /// RFC 4180 with a header, in UTF-8
    Rfc4180,
    /// What SELECT … INTO OUTFILE … FIELDS TERMINATED BY ',' writes
    Mysql,
}

pub fn run(args: Args) -> Done {
    match args.what {
        What::Export(args) if args.datadir.is_some() => export_folder(&args),
        What::Export(args) => export(args, false),
        What::Import(args) => import(args),
        What::Snapshot(args) => snapshot(args),
        What::Info { file, definition } => info(&file, &definition),
        What::Check { file, definition } => check(&file, &definition),
    }
}

fn told(e: ondol_innodb::error::Error) -> Failed {
    Failed::Message(e.to_string())
}

fn bar(bytes: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style =
        ProgressStyle::with_template("{bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left");
    ProgressBar::new(bytes).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn leaf_bytes(scan: &Scan) -> u64 {
    (0..scan.parts()).map(|part| scan.part_bytes(part)).sum()
}

/// What the arguments want written, before a file is looked at.
fn format(args: &Export) -> Result<Format, Failed> {
    let refuse = |why: String| Err(Failed::Message(why));
    let format = match (args.format, args.to.extension().and_then(|e| e.to_str())) {
        (Some(format), _) => format,
        (None, _) if args.to.as_os_str() == "-" => {
            return refuse("--to - needs --format: csv, parquet or arrow".into());
        }
        (None, Some("csv")) => Format::Csv,
        (None, Some("parquet")) => Format::Parquet,
        (None, Some("arrow")) => Format::Arrow,
        (None, _) => {
            return refuse(format!(
                "{}: its name does not tell what to write; expected FILE.csv, FILE.parquet or FILE.arrow, or --format",
                args.to.display()
            ));
        }
    };
    match format {
        Format::Csv if args.zero_dates.is_some() => {
            refuse("--zero-dates is for Parquet and Arrow; CSV has dates as they are".into())
        }
        Format::Parquet | Format::Arrow if args.csv.is_some() => refuse("--csv is for CSV".into()),
        Format::Parquet | Format::Arrow if cfg!(not(feature = "columnar")) => {
            refuse("this ondol was built without Parquet and Arrow (cargo's feature columnar)".into())
        }
        _ => Ok(format),
    }
}

/// The databases of a folder that are wanted.
fn databases(folder: &Path, wanted: Option<&[String]>) -> Result<Vec<Database>, Failed> {
    let all = folder::databases(folder).map_err(told)?;
    if let Some(none) = wanted.iter().flat_map(|w| w.iter()).find(|w| all.iter().all(|d| d.name != **w)) {
        let names: Vec<&str> = all.iter().map(|d| d.name.as_str()).collect();
        return Err(Failed::Message(format!(
            "{} has no database {none}; there are {}",
            folder.display(),
            names.join(", ")
        )));
    }
    Ok(all.into_iter().filter(|d| wanted.is_none_or(|w| w.contains(&d.name))).collect())
}

/// Tells what became of a folder: what was left out, each with the reason, and how many tables were not.
fn told_of(done: usize, what: &str, absent: &[(String, Absent)], failed: &[(String, Absent)]) -> Done {
    for (database, Absent { name, reason, .. }) in absent.iter().chain(failed) {
        tell(&format!("left out: {database}.{name}: {reason}\n"));
    }
    let (absent, count) = (absent.len(), failed.len());
    tell(&format!("{done} tables {what}; {absent} that are none of InnoDB's left out, {count} failed\n"));
    if count == 0 { Ok(()) } else { Err(Failed::Told) }
}

fn interrupted() -> Failed {
    Failed::Message("it was interrupted; the tables before are whole".into())
}

fn shown(e: &Failed) -> String {
    match e {
        Failed::Told => "it was told".into(),
        Failed::Sql(e) => e.0.message.clone(),
        Failed::Message(message) => message.clone(),
    }
}

/// Every table of a folder into a file of its own, a partitioned one into a file for each partition.
fn export_folder(args: &Export) -> Done {
    let Some(from) = &args.datadir else { return Ok(()) };
    if args.to.as_os_str() == "-" {
        return Err(Failed::Message("--datadir writes files: --to names a folder".into()));
    }
    let absolute = |path: &Path| {
        let path = path.canonicalize().or_else(|_| std::path::absolute(path));
        path.map_err(|e| Failed::io("the current folder", e))
    };
    if absolute(&args.to)?.starts_with(absolute(from)?) {
        let message = format!("{} is within {}, which is only read", args.to.display(), from.display());
        return Err(Failed::Message(message));
    }
    let ending = match format(args)? {
        Format::Csv => "csv",
        Format::Parquet => "parquet",
        Format::Arrow => "arrow",
    };
    let (mut done, mut absent, mut failed) = (0, Vec::new(), Vec::new());
    for database in databases(from, args.databases.as_deref())? {
        absent.extend(database.absent.iter().map(|a| (database.name.clone(), a.clone())));
        let place = args.to.join(database.folder.file_name().unwrap_or_default());
        std::fs::create_dir_all(&place).map_err(|e| Failed::io(place.display().to_string(), e))?;
        for table in &database.tables {
            let mut written = Vec::new();
            let files = table.files().map_err(told);
            let whole = files.and_then(|files| {
                files.into_iter().try_for_each(|file| {
                    let mut name = file.file_stem().unwrap_or_default().to_os_string();
                    name.push(format!(".{ending}"));
                    let to = place.join(name);
                    tell(&format!("{}.{}: ", database.name, table.name));
                    let (datadir, databases) = (None, None);
                    export(
                        Export { file: Some(file), datadir, databases, to: to.clone(), ..args.clone() },
                        true,
                    )?;
                    written.push(to);
                    Ok(())
                })
            });
            let Err(e) = whole else {
                done += 1;
                continue;
            };
            tell("failed\n");
            // Half a table is none.
            for file in written {
                std::fs::remove_file(&file).map_err(|e| Failed::io(file.display().to_string(), e))?
            }
            if ondol_base::interrupt::interrupts() > 0 {
                return Err(interrupted());
            }
            failed.push((database.name.clone(), out_of(table, &e)))
        }
    }
    told_of(done, "written", &absent, &failed)
}

fn out_of(table: &TableFiles, e: &Failed) -> Absent {
    Absent { name: table.name.clone(), file: table.file.clone(), reason: shown(e) }
}

/// `of_folder`: a table among others, of which some have a history.
fn export(args: Export, of_folder: bool) -> Done {
    let to_standard_output = args.to.as_os_str() == "-";
    let format = format(&args)?;
    let Some(file) = &args.file else { return Err(Failed::Message("expected a file TABLE.ibd".into())) };
    let mut scan = args.definition.open(file)?;
    if args.history && (!of_folder || scan.definition().table.period.is_some()) {
        scan.with_history().map_err(told)?;
    }
    if args.key_from.is_some() || args.key_to.is_some() {
        scan.within(args.key_from.as_deref(), args.key_to.as_deref()).map_err(told)?;
    }
    let scan = Arc::new(scan);
    let evidence = evidence::find(scan.space(), args.assume_consistent).map_err(told)?;
    #[cfg(feature = "columnar")]
    let zero_dates = ZeroDates::meant(args.zero_dates);
    let format = match format {
        #[cfg(feature = "columnar")]
        Format::Parquet => export::Format::Parquet(zero_dates),
        #[cfg(feature = "columnar")]
        Format::Arrow => export::Format::Arrow { zero_dates, is_stream: to_standard_output },
        _ => export::Format::Text(match args.csv {
            None | Some(Csv::Rfc4180) => Dialect::Rfc4180,
            Some(Csv::Mysql) if scan.space().format().has_sdi => Dialect::Mysql,
            Some(Csv::Mysql) => Dialect::Mariadb,
        }),
    };
    let options = Options {
        format,
        columns: export::columns(&scan, args.columns.as_deref()).map_err(told)?,
        limit: args.limit,
        workers: args.threads.map_or_else(ondol_base::thread::parallelism, usize::from),
        ordered: !args.unordered,
    };
    if !matches!(options.format, export::Format::Text(_))
        && let Some(n) =
            (1..options.columns.len()).find(|n| options.columns[..*n].contains(&options.columns[*n]))
    {
        let name = &scan.columns()[options.columns[n]].name;
        return Err(Failed::Message(format!(
            "--columns has {name} twice; the columns of Parquet and Arrow have names of their own"
        )));
    }
    let virtual_columns = match args.columns {
        None => export::virtual_columns(&scan).join(", "),
        Some(_) => String::new(),
    };
    if !virtual_columns.is_empty() {
        if matches!(args.csv, Some(Csv::Mysql)) {
            return Err(Failed::Message(format!(
                "{}: SELECT … INTO OUTFILE computes the virtual columns {virtual_columns}, which no file holds; --columns names those to write",
                file.display()
            )));
        }
        tell(&format!("left out, since they are virtual and no file holds them: {virtual_columns}\n"));
    }
    let bar = bar(leaf_bytes(&scan));
    let started = std::time::Instant::now();
    let done = if to_standard_output {
        let mut out = std::io::stdout();
        export::export(scan.clone(), &options, &mut out, Path::new("standard output"), |d| {
            bar.set_position(d.read)
        })
    } else {
        let frm = ondol_innodb::definition::frm_beside(file);
        let Definition { schema, keys, keys_password } = args.definition;
        let inputs = [Some(frm), Some(file.with_extension("cfg")), schema, keys, keys_password];
        let unfinished = create(&args.to, args.overwrite, &inputs)?;
        let interrupted = Arc::new(Cancel::new());
        ondol_base::interrupt::tells(interrupted.clone(), None).map_err(|e| Failed::io("interrupts", e))?;
        let mut out = Interruptible { file: &unfinished.file, interrupted };
        let done = export::export(scan.clone(), &options, &mut out, &args.to, |d| bar.set_position(d.read));
        done.and_then(|done| {
            evidence::still(scan.space(), &evidence)?;
            unfinished
                .finish()
                .map(|()| done)
                .map_err(|e| ondol_innodb::error::Error::io(&args.to, "cannot be put in its place", &e))
        })
    };
    bar.finish_and_clear();
    let done = done.map_err(told)?;
    if done.nulled > 0 {
        tell(&format!("{} dates were no days of the calendar, and are NULL\n", done.nulled));
    }
    if done.history > 0 {
        tell(&format!("{} rows of its history were left out; --history writes them, too\n", done.history));
    }
    if !to_standard_output {
        let seconds = started.elapsed().as_secs_f64().max(1e-9);
        tell(&format!(
            "{} rows, {:.1} MB, in {seconds:.2} s ({:.0} rows a second, {:.0} MB of pages a second); the file was {evidence}\n",
            done.rows,
            done.written as f64 / 1e6,
            done.rows as f64 / seconds,
            done.read as f64 / 1e6 / seconds
        ));
    }
    Ok(())
}

/// A table's files, opened, with what is known of each.
fn opened(args: &Import, files: &[PathBuf]) -> Result<(Vec<Scan>, ondol::Import), Failed> {
    let mut scans = Vec::with_capacity(files.len());
    let mut evidence = Vec::with_capacity(files.len());
    for file in files {
        let mut scan = args.definition.open(file)?;
        if args.history && (args.datadir.is_none() || scan.definition().table.period.is_some()) {
            scan.with_history().map_err(told)?;
        }
        evidence.push(evidence::find(scan.space(), args.assume_consistent).map_err(told)?);
        scans.push(scan)
    }
    let own = scans.first().map_or(String::new(), |s| s.definition().table.name.clone());
    let import = ondol::Import {
        table: args.table.clone().unwrap_or(own),
        zero_dates: ZeroDates::meant(args.zero_dates),
        zero_bytes: ZeroBytes::meant(args.zero_bytes),
        workers: args.threads.map_or_else(ondol_base::thread::parallelism, usize::from),
        evidence,
    };
    Ok((scans, import))
}

/// Loads a table, and tells what became of it.
fn load(session: &mut Session, scans: &[Scan], import: &ondol::Import) -> Done {
    let bar = bar(scans.iter().map(leaf_bytes).sum());
    let started = std::time::Instant::now();
    let done = session.import_partitions(scans, import, |done| bar.set_position(done.read));
    bar.finish_and_clear();
    let done = done?;
    for left_out in &done.left_out {
        tell(&format!("not made: {left_out}\n"));
    }
    if done.nulled > 0 {
        tell(&format!("{} dates were no days of the calendar, and are NULL\n", done.nulled));
    }
    if done.history > 0 {
        tell(&format!("{} rows of its history were left out; --history takes them, too\n", done.history));
    }
    let seconds = started.elapsed().as_secs_f64().max(1e-9);
    let evidence = import.evidence.first().map_or(String::new(), |e| format!("; the file was {e}"));
    tell(&format!(
        "{}: {} rows, in {seconds:.2} s ({:.0} rows a second, {:.0} MB of pages a second){evidence}\n",
        import.table,
        done.rows,
        done.rows as f64 / seconds,
        done.read as f64 / 1e6 / seconds
    ));
    Ok(())
}

/// Every table of a folder, each database's in a schema.
fn import_folder(session: &mut Session, args: &Import, from: &Path) -> Done {
    let (mut tables, mut absent, mut failed) = (0, Vec::new(), Vec::new());
    for database in databases(from, args.databases.as_deref())? {
        let schema = quote(&database.name);
        absent.extend(database.absent.iter().map(|a| (database.name.clone(), a.clone())));
        if let Err(e) = session.execute(&format!("CREATE SCHEMA IF NOT EXISTS {schema}")) {
            let e = Failed::Sql(e);
            failed.extend(database.tables.iter().map(|t| (database.name.clone(), out_of(t, &e))));
            continue;
        }
        session.execute(&format!("SET search_path = {schema}"))?;
        for table in &database.tables {
            let files = table.files().map_err(told);
            let done = files.and_then(|files| opened(args, &files)).and_then(|(scans, import)| {
                let import = ondol::Import { table: table.name.clone(), ..import };
                tell(&format!("{schema}."));
                load(session, &scans, &import)
            });
            // A wish that came between two statements is not to be forgotten.
            if ondol_base::interrupt::interrupts() > 0 {
                return Err(interrupted());
            }
            match done {
                Ok(()) => tables += 1,
                Err(Failed::Sql(e)) if matches!(&e.sqlstate()[..2], "57" | "53") => {
                    return Err(Failed::Sql(e));
                }
                Err(e) => {
                    tell("failed\n");
                    failed.push((database.name.clone(), out_of(table, &e)))
                }
            }
        }
    }
    told_of(tables, "made", &absent, &failed)
}

fn import(args: Import) -> Done {
    let one = match &args.file {
        None => None,
        Some(file) => Some(opened(&args, &folder::files_of(file).map_err(told)?)?),
    };
    let mut options = ondol::OpenOptions::new();
    if let Some(n) = args.memory_limit {
        options = options.memory_limit(n);
    }
    for folder in &args.log_folders {
        options = options.log_folder(folder);
    }
    let database = args.ring.apply(options).open(&args.into)?;
    super::tell_opened(&database);
    let mut session = database.session();
    session.canceller().cancel_on_interrupt().map_err(|e| Failed::io("interrupts", e))?;
    let done = match (&one, &args.datadir) {
        (Some((scans, import)), _) => load(&mut session, scans, import),
        (None, Some(from)) => import_folder(&mut session, &args, from),
        (None, None) => Err(Failed::Message("expected a file TABLE.ibd, or --datadir".into())),
    };
    drop(session);
    let closed = database.close();
    done?;
    closed?;
    Ok(())
}

/// A file that takes nothing more after an interrupt (Ctrl-C), so that what was begun is taken away.
struct Interruptible<'a> {
    file: &'a std::fs::File,
    interrupted: Arc<Cancel>,
}
impl Write for Interruptible<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.interrupted.is_told() {
            return Err(std::io::Error::other("it was interrupted"));
        }
        self.file.write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Writes a line to standard output.
fn say(what: &dyn std::fmt::Display) -> Done {
    let line = format!("{what}\n");
    std::io::stdout().write_all(line.as_bytes()).map_err(|e| Failed::io("standard output", e))
}

/// The export's file, unless there is something already that it must not replace, least of all what is read.
fn create(to: &Path, overwrite: bool, inputs: &[Option<PathBuf>]) -> Result<Unfinished, Failed> {
    let identity = |path: &Path| path.metadata().ok().map(|about| (about.dev(), about.ino()));
    let is_input = |input: &PathBuf| identity(input).is_some_and(|file| identity(to) == Some(file));
    if ondol_innodb::space::is_read(to) || inputs.iter().flatten().any(is_input) {
        return Err(Failed::Message(format!(
            "{}: it is one of the files that are read, and is not replaced",
            to.display()
        )));
    }
    // A device or pipe of that name would be replaced, not written to.
    if to.metadata().is_ok_and(|m| !m.is_file()) {
        return Err(Failed::Message(format!(
            "{}: it is there and no file; --to - writes to standard output",
            to.display()
        )));
    }
    if !overwrite && to.exists() {
        return Err(Failed::Message(format!(
            "{}: it is there already; --overwrite replaces it",
            to.display()
        )));
    }
    Unfinished::create(to).map_err(|e| Failed::io(to.display(), e))
}

fn snapshot(args: Snapshot) -> Done {
    let client = args.client.or_else(|| {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        ["mariadb", "mysql"]
            .iter()
            .flat_map(|name| std::env::split_paths(&folders).map(move |folder| folder.join(name)))
            .find(|program| program.is_file())
    });
    let client = client.ok_or_else(|| {
        Failed::Message(
            "neither mariadb nor mysql is in PATH; --client names the server's client program".into(),
        )
    })?;
    let named = |name: &str, value: Option<std::ffi::OsString>| {
        value.map(|value| {
            let mut option = std::ffi::OsString::from(format!("--{name}="));
            option.push(value);
            option
        })
    };
    // The file of options has to be the first.
    let options = [
        named("defaults-file", args.defaults_file.map(Into::into)),
        named("host", args.host.map(Into::into)),
        named("port", args.port.map(|p| p.to_string().into())),
        named("socket", args.socket.map(Into::into)),
        named("user", args.user.map(Into::into)),
    ];
    let taken = ondol_innodb::snapshot::take(&ondol_innodb::snapshot::Options {
        client: std::iter::once(client.into()).chain(options.into_iter().flatten()).collect(),
        database: args.database,
        tables: args.tables,
        to: args.to,
        data: args.data_folder,
        wait: args.wait,
    })
    .map_err(told)?;
    tell(&format!(
        "{:.1} MB; the tables were locked for {:.3} s\n",
        taken.bytes as f64 / 1e6,
        taken.locked.as_secs_f64()
    ));
    taken.files.iter().try_for_each(|file| say(&file.display()))
}

fn info(file: &Path, given: &Definition) -> Done {
    let scan = given.open(file)?;
    let (space, definition) = (scan.space(), scan.definition());
    let format = space.format();
    let mut text = format!(
        "table            {}\ntablespace       {}, {} pages of {} bytes\nchecksums        {}\nencryption       {}\ndefinition       {}\nrow format       {:?}\n",
        definition.table.name,
        space.id(),
        space.pages(),
        format.page_size,
        match format.family {
            ondol_innodb::checksum::Family::Full => "full_crc32",
            ondol_innodb::checksum::Family::Old => "crc32, innodb or none",
        },
        space.encryption().unwrap_or_else(|| "none".into()),
        match given.schema {
            Some(_) => "in the words of CREATE TABLE that were given",
            None if format.has_sdi => "in the file",
            None => "in the .frm beside it",
        },
        definition.table.row_format,
    );
    let leaves = scan.leaves();
    text += &format!(
        "clustered index  number {}, root page {}, {} leaves, {} inner pages, {} levels\nat rest          {}\n\n",
        leaves.index,
        definition.root,
        leaves.pages.len(),
        leaves.inner,
        leaves.height + 1,
        match evidence::find(space, false) {
            Ok(e) => e.to_string(),
            Err(e) => e.to_string(),
        }
    );
    let width = scan.columns().iter().map(|c| c.name.chars().count()).max().unwrap_or(0);
    for (i, c) in scan.columns().iter().enumerate() {
        let key = definition
            .table
            .key
            .iter()
            .position(|(k, _)| *k == i)
            .map_or(String::new(), |n| format!(", key part {}", n + 1));
        let null = if c.nullable { "" } else { " NOT NULL" };
        let stored = if c.stored { "" } else { ", virtual" };
        text += &format!("{:width$}  {}{null}{key}{stored}\n", c.name, c.sql);
    }
    std::io::stdout().write_all(text.as_bytes()).map_err(|e| Failed::io("standard output", e))
}

fn check(file: &Path, given: &Definition) -> Done {
    let scan = given.open(file)?;
    let space = scan.space();
    let size = space.format().page_size;
    let bar = bar(space.bytes());
    // Every page of the file, then every record of the table.
    let mut page = vec![0; size];
    let mut wrong = 0;
    for number in 0..space.pages() {
        if let Err(e) = space.read_page(number, &mut page) {
            bar.suspend(|| say(&e))?;
            wrong += 1;
        }
        bar.set_position(number as u64 * size as u64);
    }
    let (mut rows, mut left_out) = (0, LeftOut::default());
    let mut buffers = Buffers::default();
    for part in 0..scan.parts() {
        match scan.read(part, &mut buffers, |leaf| {
            rows += leaf.rows.len();
            Ok(())
        }) {
            Ok(of) => {
                left_out.deleted += of.deleted;
                left_out.history += of.history;
            }
            Err(e) => {
                bar.suspend(|| say(&e))?;
                wrong += 1;
            }
        }
    }
    bar.finish_and_clear();
    say(&format_args!(
        "{} pages, {} leaves, {rows} rows, {}{} records marked as deleted; {}",
        space.pages(),
        scan.leaves().pages.len(),
        match scan.hides_history() {
            Some(_) => format!("{} rows of its history, ", left_out.history),
            None => String::new(),
        },
        left_out.deleted,
        if wrong == 0 { "whole".to_string() } else { format!("{wrong} findings") }
    ))?;
    if wrong > 0 { Err(Failed::Told) } else { Ok(()) }
}
