//! `ondol shell`: SQL from a person, from the command line, from files and from pipes.
use super::complete::{Assistant, Names};
use super::format::Format;
use super::holder::held_by;
use super::script::{Given, LineSource, Runner, Stream, standard_input};
#[cfg(feature = "server")]
use super::visit::Visit;
use super::{Done, Failed, Ring, tell, tell_opened};
use ondol::OpenOptions;
use ondol_base::sync::Mutex;
#[cfg(feature = "server")]
use ondol_client::Address;
use ondol_types::sqlstate;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(clap::Args)]
pub struct Args {
    /// The database's folder, made if it is not there; or a server's address, as in
    /// postgres://USER@HOST:PORT/DATABASE
    path: PathBuf,
    /// SQL to run (may be repeated); COPY FROM STDIN reads standard input
    #[arg(short = 'c', long = "command", value_name = "SQL")]
    commands: Vec<String>,
    /// A file of SQL to run, after the -c's (may be repeated); - is standard input
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How results look
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
    /// Write each statement before its outcome
    #[arg(short = 'e', long)]
    echo: bool,
    /// Go on with a script after an error; the exit status tells of it all the same
    #[arg(long)]
    keep_going: bool,
    /// Fail if there is no database yet
    #[arg(long)]
    no_create: bool,
    /// A further folder to log into (may be repeated; give the same ones, in the same order, each time)
    #[arg(long = "log-folder", value_name = "DIR")]
    log_folders: Vec<String>,
    #[command(flatten)]
    ring: Ring,
    /// Open the database with its files alone if its ring is missing or not its own; commits that only the
    /// ring holds are lost
    #[arg(long, value_name = "yes", value_parser = ["yes"])]
    lose_acknowledged_commits: Option<String>,
    /// Bytes that the database may take in memory (K, M and G multiply by 1024)
    #[arg(long, value_parser = bytes)]
    memory_limit: Option<usize>,
}

impl Args {
    /// The shell that runs one file.
    pub fn for_file(path: PathBuf, file: PathBuf, log_folders: Vec<String>, ring: Ring) -> Args {
        Args {
            path,
            commands: Vec::new(),
            files: vec![file],
            format: Format::Table,
            echo: false,
            keep_going: false,
            no_create: false,
            log_folders,
            ring,
            lose_acknowledged_commits: None,
            memory_limit: None,
        }
    }
}

/// `512M` or `512MB`, and its kin.
pub fn bytes(text: &str) -> Result<usize, String> {
    let units = [("k", 10), ("m", 20), ("g", 30), ("kb", 10), ("mb", 20), ("gb", 30)];
    let lower = text.to_ascii_lowercase();
    let unit = units.into_iter().find_map(|(unit, shift)| Some((lower.strip_suffix(unit)?, shift)));
    let (digits, shift) = unit.unwrap_or((&lower, 0));
    let n: usize = digits.parse().map_err(|_| format!("{text}: expected a number of bytes, like 512M"))?;
    n.checked_mul(1 << shift).ok_or_else(|| format!("{text}: too large"))
}

pub fn run(args: Args) -> Done {
    // A script that is not there makes no database. Opened once: a pipe may be among them.
    let mut scripts = vec![];
    for path in &args.files {
        if path.as_os_str() == "-" {
            scripts.push(None);
            continue;
        }
        let opened = std::fs::File::open(path).and_then(|file| Ok((file.metadata()?.is_dir(), file)));
        let (is_folder, file) = opened.map_err(|e| Failed::io(path.display(), e))?;
        if is_folder {
            return Err(Failed::Message(format!(
                "{}: expected a file of SQL, found a folder",
                path.display()
            )));
        }
        let reader = io::BufReader::with_capacity(1 << 16, file);
        scripts.push(Some(Stream { reader, name: Some(path.display().to_string()) }))
    }
    let mut options = args.ring.apply(OpenOptions::new().create(!args.no_create));
    options = options.lose_acknowledged_commits(args.lose_acknowledged_commits.is_some());
    if let Some(n) = args.memory_limit {
        options = options.memory_limit(n);
    }
    for folder in &args.log_folders {
        options = options.log_folder(folder);
    }
    let scripted = !args.commands.is_empty() || !scripts.is_empty();
    let interactive = !scripted && io::stdin().is_terminal();
    #[cfg(feature = "server")]
    if let Some(address) = args.path.to_str().map_or(Ok(None), Address::parse).map_err(wrong)? {
        return visit(&address, &args, scripts, interactive);
    }
    let database = match options.open(&args.path) {
        #[cfg(feature = "server")]
        Err(e) if e.sqlstate() == sqlstate::OBJECT_IN_USE => {
            let Some(address) = Address::in_folder(&args.path) else { return Err(held_by(e, &args.path)) };
            tell(&format!("NOTICE:  a server has the database: this goes through {address}\n"));
            return visit(&address, &args, scripts, interactive);
        }
        opened => opened.map_err(|e| held_by(e, &args.path))?,
    };
    tell_opened(&database);
    let mut runner = Runner::new(database.session(), args.format, interactive);
    (runner.echo, runner.keep_going) = (args.echo, args.keep_going);
    let done = if interactive {
        talk(&mut runner)
    } else if scripted {
        run_given(|lines| runner.run(lines).map(|()| runner.quit), args.commands, scripts)
    } else {
        runner.run(&mut standard_input())
    };
    let done = done.and(if runner.failed { Err(Failed::Told) } else { Ok(()) });
    runner.end_others();
    runner.session.rollback();
    drop(runner);
    // Closing makes durable what was acknowledged asynchronously: its failure is the script's.
    let closed = database.close().map_err(Failed::Sql);
    done.and(closed)
}

/// An address that cannot be meant.
#[cfg(feature = "server")]
fn wrong(e: ondol::Error) -> Failed {
    Failed::Message(e.to_string())
}

/// With a database that a server has.
#[cfg(feature = "server")]
fn visit(
    address: &Address,
    args: &Args,
    scripts: Vec<Option<Stream<io::BufReader<std::fs::File>>>>,
    interactive: bool,
) -> Done {
    let mut visit = Visit::new(address, args.format, interactive)?;
    (visit.echo, visit.keep_going) = (args.echo, args.keep_going);
    let done = if interactive {
        println!("ondol {} with the server at {address}. \\? helps, \\q leaves.", env!("CARGO_PKG_VERSION"));
        at_terminal(None, Interrupt::Visit(visit.cancel()), |lines| visit.run(lines))
    } else if args.commands.is_empty() && scripts.is_empty() {
        visit.run(&mut standard_input())
    } else {
        run_given(|lines| visit.run(lines).map(|()| visit.quit), args.commands.clone(), scripts)
    };
    done.and(if visit.failed { Err(Failed::Told) } else { Ok(()) })
}

/// The scripts, in order; `None` is standard input. `run` tells whether that was the last.
fn run_given(
    mut run: impl FnMut(&mut dyn LineSource) -> Result<bool, Failed>,
    commands: Vec<String>,
    scripts: Vec<Option<Stream<io::BufReader<std::fs::File>>>>,
) -> Done {
    for c in commands {
        if run(&mut Given(io::Cursor::new(c.into_bytes())))? {
            return Ok(());
        }
    }
    for script in scripts {
        let is_over = match script {
            None => run(&mut standard_input())?,
            Some(mut stream) => run(&mut stream)?,
        };
        if is_over {
            break;
        }
    }
    Ok(())
}

/// At a terminal.
fn talk(runner: &mut Runner) -> Done {
    println!("ondol {}. \\? helps, \\q leaves.", env!("CARGO_PKG_VERSION"));
    let canceller = runner.session.canceller();
    let session = runner.session.database().session();
    at_terminal(Some(session), Interrupt::Session(canceller), |lines| runner.run(lines))
}

/// What breaks off a statement that takes data from the terminal.
enum Interrupt {
    Session(ondol::Canceller),
    #[cfg(feature = "server")]
    Visit(Arc<ondol_base::cancel::Cancel>),
}

impl Interrupt {
    /// From here on Ctrl-C means it.
    fn take_over(&self) -> io::Result<()> {
        match self {
            Interrupt::Session(canceller) => canceller.cancel_on_interrupt(),
            #[cfg(feature = "server")]
            Interrupt::Visit(cancel) => ondol_base::interrupt::tells(cancel.clone(), None),
        }
    }
}

fn at_terminal(
    session: Option<ondol::Session>,
    interrupt: Interrupt,
    run: impl FnOnce(&mut Terminal) -> Done,
) -> Done {
    let names = Arc::new(Mutex::new(Names::default()));
    let config = Config::builder().auto_add_history(false).build();
    let mut editor: Editor<Assistant, FileHistory> = Editor::with_config(config)
        .map_err(|e| Failed::Message(format!("could not set up the terminal: {e}")))?;
    editor.set_helper(Some(Assistant { names: names.clone() }));
    // After the editor, which has a handler of its own when it is made.
    interrupt.take_over().map_err(|e| Failed::io("could not take over the terminal's interrupts", e))?;
    let history = std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".ondol_history"));
    if let Some(h) = &history {
        // A history that is not there yet, or cannot be read, is an empty one.
        let _ = editor.load_history(h);
    }
    let mut lines = Terminal { editor, entry: String::new(), names, session, interrupt };
    let done = run(&mut lines);
    if let Some(h) = &history
        && let Err(e) = lines.editor.save_history(h)
    {
        tell(&format!("could not save the history in {}: {e}\n", h.display()));
    }
    println!();
    done
}

/// Lines from the person at the terminal.
struct Terminal {
    editor: Editor<Assistant, FileHistory>,
    /// The lines of the statement so far.
    entry: String,
    names: Arc<Mutex<Names>>,
    /// Sees what is committed, for completion; not of a server's database.
    session: Option<ondol::Session>,
    interrupt: Interrupt,
}

impl LineSource for Terminal {
    fn next(&mut self, open: char, line: &mut Vec<u8>) -> io::Result<bool> {
        let prompt = match open {
            '>' => ">> ".to_string(),
            '=' => {
                self.entry.clear();
                if let Some(session) = &self.session {
                    *self.names.lock() = Names::of(&session.catalog())
                }
                "ondol=> ".to_string()
            }
            other => format!("ondol{other}> "),
        };
        match self.editor.readline(&prompt) {
            Ok(text) => {
                if open != '>' {
                    self.entry.push_str(&text);
                    self.entry.push('\n');
                }
                line.extend_from_slice(text.as_bytes());
                line.push(b'\n');
                Ok(true)
            }
            Err(ReadlineError::Eof) => Ok(false),
            // Whoever reads COPY data would only try again.
            Err(ReadlineError::Interrupted) if open == '>' => {
                match &self.interrupt {
                    Interrupt::Session(canceller) => canceller.cancel(),
                    #[cfg(feature = "server")]
                    Interrupt::Visit(cancel) => cancel.tell(),
                }
                Err(io::Error::other("canceled by user"))
            }
            Err(ReadlineError::Interrupted) => Err(io::ErrorKind::Interrupted.into()),
            Err(e) => Err(io::Error::other(e)),
        }
    }
    fn complete(&mut self) {
        let entry = self.entry.trim_end();
        if !entry.is_empty() {
            // A full history only loses an old entry.
            let _ = self.editor.add_history_entry(entry);
            self.entry.clear();
        }
    }
}
