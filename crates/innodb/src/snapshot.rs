//! Copies of tables from a running server, at rest: `FLUSH TABLES … FOR EXPORT` in a session of the server's
//! own client program, the files copied from its data folder, `UNLOCK TABLES`.
//!
//! - **N1** The tables are locked from before the first byte is copied until after the last: the same
//!   connection answers before and behind the copying, and a lost one is not made anew. No transaction is
//!   prepared meanwhile (XA PREPARE): once its session has ended, it holds no lock that the server waits for.
//! - **N2** What cannot be finished leaves no copy behind.
//! - **N3** The server writes `TABLE.cfg` while it holds the lock; the copy of it is what [`crate::evidence`]
//!   accepts. So it comes last, when all others are whole and durable and the lock was there all the while;
//!   and one that was there before the lock, as a killed server leaves it, is none.
use crate::error::{Error, Kind, Result};
use ondol_base::clock;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, SystemTime};

/// What is copied, and how the server is reached.
pub struct Options {
    /// The client program and its arguments: `mariadb --socket=…`.
    pub client: Vec<OsString>,
    pub database: String,
    pub tables: Vec<String>,
    /// The folder for the copies; it is made if it is not there.
    pub to: PathBuf,
    /// The server's data folder, if it is not where the server says.
    pub data: Option<PathBuf>,
    /// How long to wait for transactions that use the tables, seconds.
    pub wait: u32,
}

/// What was done.
#[derive(Debug)]
pub struct Taken {
    /// The copies, tablespaces and what belongs to them.
    pub files: Vec<PathBuf>,
    pub bytes: u64,
    /// How long the tables were locked.
    pub locked: Duration,
}

/// What the server is asked to say behind the transactions that are prepared.
const NONE_PREPARED: &str = "none is prepared";

/// Copies the tables.
pub fn take(options: &Options) -> Result<Taken> {
    let mut session = Session::start(options)?;
    let told = session.ask("SELECT @@hostname; SELECT @@datadir; SELECT CONNECTION_ID()", 3)?;
    let data = match &options.data {
        Some(data) => data.clone(),
        None => {
            let here = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
            if here.trim() != told[0] {
                return Err(session.error(format!(
                    "the server runs on {}, this is {}; its files can only be copied where they are (or say where they are to be seen here)",
                    told[0],
                    here.trim()
                )));
            }
            PathBuf::from(&told[1])
        }
    };
    let folder = data.join(file_name(&options.database).map_err(|why| session.error(why))?);
    let mut stems = Vec::new();
    for table in &options.tables {
        stems.push(file_name(table).map_err(|why| session.error(why))?);
    }
    let is_new = !options.to.exists();
    std::fs::create_dir_all(&options.to).map_err(|e| Error::io(&options.to, "cannot make the folder", &e))?;
    let mut copies = Copies::default();
    copies.made = is_new.then(|| options.to.clone());
    let quoted: Vec<String> = options
        .tables
        .iter()
        .map(|t| format!("`{}`.`{}`", options.database.replace('`', "``"), t.replace('`', "``")))
        .collect();
    session.ask(&format!("SET SESSION lock_wait_timeout = {}; SELECT 1", options.wait), 1)?;
    let mut before = Vec::new();
    for stem in &stems {
        let cfgs = files(&folder, stem)?.into_iter().filter(|(_, kind)| *kind == "cfg");
        before.extend(cfgs.map(|(name, _)| folder.join(name)).map(|cfg| (identity(&cfg), cfg)));
    }
    let started = clock::now();
    session.ask(&format!("FLUSH TABLES {} FOR EXPORT; SELECT 1", quoted.join(", ")), 1)?;
    if session.ask(&format!("XA RECOVER; SELECT '{NONE_PREPARED}'"), 1)?[0] != NONE_PREPARED {
        let why = "a transaction is prepared (XA RECOVER names it): its rows may be in the tables' files, where they look like \
                   committed ones. Expected none: commit it or roll it back (XA COMMIT, XA ROLLBACK)";
        return Err(session.error(why.into()));
    }

    if let Some((_, cfg)) = before.iter().find(|(then, cfg)| then.is_some() && identity(cfg) == *then) {
        let why = "it was there before the tables were locked, and is the same now: this is not the folder of the server that locked them";
        return Err(Error::new(cfg, Kind::Mismatch, why));
    }
    for stem in &stems {
        copies.take(&folder, stem, &options.to)?;
    }
    let still = session.ask("SELECT CONNECTION_ID()", 1)?;
    if still[0] != told[2] {
        return Err(session.error("the connection was lost while the files were copied".into()));
    }
    session.ask("UNLOCK TABLES; SELECT 1", 1)?;
    let locked = clock::now() - started;
    session.end()?;
    copies.sync()?;
    copies.prove()?;
    copies.sync()?;
    copies.is_whole = true;
    Ok(Taken { files: std::mem::take(&mut copies.files), bytes: copies.bytes, locked })
}

/// A table's or database's name as the server writes it in files.
fn file_name(name: &str) -> std::result::Result<String, String> {
    let mut file = String::new();
    for c in name.chars() {
        match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => file.push(c),
            ' '..='~' => file += &format!("@{:04x}", c as u32),
            _ => {
                return Err(format!(
                    "the name {name:?} has a character beyond ASCII, whose form in files is not known here"
                ));
            }
        }
    }
    if file.is_empty() { Err("a table has no name".into()) } else { Ok(file) }
}

/// A file as it was: its number, its length, and when it was written.
fn identity(file: &Path) -> Option<(u64, u64, SystemTime)> {
    let about = file.metadata().ok()?;
    Some((about.ino(), about.len(), about.modified().ok()?))
}

/// The names and kinds of all files of a table: `t.ibd`, `t.cfg`, `t.frm`, and those of partitions,
/// `t#P#….ibd`.
fn files(folder: &Path, stem: &str) -> Result<Vec<(OsString, &'static str)>> {
    let unread = |e: std::io::Error| Error::io(folder, "cannot list it", &e);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unread)? {
        let name = entry.map_err(unread)?.file_name();
        let Some(rest) = name.to_str().and_then(|n| n.strip_prefix(stem)) else { continue };
        let is_part = rest.get(..3).is_some_and(|p| p.eq_ignore_ascii_case("#p#"));
        let kinds = ["ibd", "cfg", "frm"];
        let Some(kind) = kinds.into_iter().find(|kind| rest.rsplit('.').next() == Some(kind)) else {
            continue;
        };
        if is_part || rest == format!(".{kind}") {
            files.push((name, kind));
        }
    }
    Ok(files)
}

/// The copies made so far; removed when they are not whole.
#[derive(Default)]
struct Copies {
    files: Vec<PathBuf>,
    /// What will be in the last ones.
    evidence: Vec<(PathBuf, Vec<u8>)>,
    bytes: u64,
    is_whole: bool,
    /// The folder, if it was not there before.
    made: Option<PathBuf>,
}
impl Copies {
    /// Copies all files of a table, but its `.cfg`, which is only read yet.
    fn take(&mut self, folder: &Path, stem: &str, to: &Path) -> Result<()> {
        let mut found = [0, 0];
        for (name, kind) in files(folder, stem)? {
            found[0] += (kind == "ibd") as u32;
            found[1] += (kind == "cfg") as u32;
            let (from, copy) = (folder.join(&name), to.join(&name));
            if copy.exists() {
                return Err(Error::new(
                    &copy,
                    Kind::Mismatch,
                    "it is there already; a snapshot replaces nothing",
                ));
            }
            let uncopied = |e: std::io::Error| Error::io(&from, "cannot be copied", &e);
            if kind == "cfg" {
                let bytes = std::fs::read(&from).map_err(uncopied)?;
                self.bytes += bytes.len() as u64;
                self.evidence.push((copy, bytes));
                continue;
            }
            // Where the file system can, the kernel shares the blocks.
            self.files.push(copy.clone());
            self.bytes += std::fs::copy(&from, &copy).map_err(uncopied)?;
        }
        if found[0] == 0 || found[0] != found[1] {
            return Err(Error::new(
                &folder.join(stem),
                Kind::Mismatch,
                format!(
                    "{} tablespaces (.ibd) and {} .cfg files of it are there, one or more of each were expected: not InnoDB's table, or not this server's folder",
                    found[0], found[1]
                ),
            ));
        }
        Ok(())
    }
    fn sync(&self) -> Result<()> {
        for copy in &self.files {
            let file = std::fs::File::open(copy).and_then(|f| f.sync_all());
            file.map_err(|e| Error::io(copy, "cannot be made durable", &e))?;
        }
        Ok(())
    }
    /// Writes what lets the copies be believed.
    fn prove(&mut self) -> Result<()> {
        for (copy, bytes) in std::mem::take(&mut self.evidence) {
            self.files.push(copy.clone());
            std::fs::write(&copy, bytes).map_err(|e| Error::io(&copy, "cannot be written", &e))?;
        }
        Ok(())
    }
}
impl Drop for Copies {
    fn drop(&mut self) {
        if !self.is_whole {
            // Nothing else can be done about one that cannot be removed; the error that led here is told.
            self.files.iter().rev().for_each(|f| drop(std::fs::remove_file(f)));
            self.made.iter().for_each(|folder| drop(std::fs::remove_dir(folder)));
        }
    }
}

/// A running client program.
struct Session {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    name: PathBuf,
}
impl Session {
    fn start(options: &Options) -> Result<Session> {
        let (program, arguments) = options
            .client
            .split_first()
            .ok_or_else(|| Error::new(&options.to, Kind::Mismatch, "no client program is named"))?;
        let name = PathBuf::from(program);
        let mut child = Command::new(program)
            .args(arguments)
            .args(["--batch", "--raw", "--skip-column-names", "--unbuffered", "--skip-reconnect"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| Error::io(&name, "cannot start the server's client", &e))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::new(&name, Kind::Io, "its input and output are not there"));
        };
        Ok(Session { child, input: Some(input), output: BufReader::new(output), name })
    }
    fn error(&self, why: String) -> Error {
        Error::new(&self.name, Kind::Mismatch, why)
    }
    /// Sends statements, and waits for so many lines.
    fn ask(&mut self, statements: &str, lines: usize) -> Result<Vec<String>> {
        let sent = self.input.as_mut().map(|i| writeln!(i, "{statements};").and_then(|()| i.flush()));
        let mut answers = Vec::new();
        while answers.len() < lines && matches!(sent, Some(Ok(()))) {
            let mut line = String::new();
            match self.output.read_line(&mut line) {
                Ok(n) if n > 0 => answers.push(line.trim_end_matches('\n').to_string()),
                _ => break,
            }
        }
        if answers.len() == lines { Ok(answers) } else { Err(self.ended()) }
    }
    /// Why the client ended: what it said last.
    fn ended(&mut self) -> Error {
        self.input = None;
        let mut said = String::new();
        if let Some(errors) = self.child.stderr.as_mut() {
            let _ = errors.take(1 << 16).read_to_string(&mut said);
        }
        let said = said.trim();
        let said = if said.is_empty() { "it ended without a word" } else { said };
        self.error(format!("the server's client gave no answer: {said}"))
    }
    fn end(&mut self) -> Result<()> {
        self.input = None;
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(_) => Err(self.ended()),
            Err(e) => Err(Error::io(&self.name, "cannot wait for the server's client", &e)),
        }
    }
}
impl Drop for Session {
    fn drop(&mut self) {
        // With its input closed the client ends, and the server unlocks the tables.
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A client that answers as the script says, and a data folder with one table.
    fn with_client(script: &str, then: impl FnOnce(&Path, Result<Taken>)) {
        let dir = tempfile::tempdir().expect("a folder");
        let data = dir.path().join("data/shop");
        std::fs::create_dir_all(&data).expect("a folder");
        for name in ["t.ibd", "t.cfg", "t.frm", "t2.ibd", "t.isl"] {
            std::fs::write(data.join(name), name).expect("a file");
        }
        let client = dir.path().join("client");
        let script = script.replace("DATA", &data.display().to_string());
        std::fs::write(&client, format!("#!/bin/sh\n{script}\n")).expect("a file");
        std::fs::set_permissions(&client, std::fs::Permissions::from_mode(0o755)).expect("a script");
        let to = dir.path().join("copies");
        let options = Options {
            client: vec![client.into()],
            database: "shop".into(),
            tables: vec!["t".into()],
            to: to.clone(),
            data: Some(dir.path().join("data")),
            wait: 5,
        };
        then(&to, take(&options));
    }
    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .expect("a folder")
            .map(|f| f.expect("a file").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
    const ANSWERS: &str = "read a; echo host; echo /nowhere; echo 7; read a; echo 1; read flush; touch -d 2001-01-01 DATA/t.cfg; echo 1; read xa; echo none is prepared; read a; echo ID; read unlock; echo 1; cat >/dev/null";

    #[test]
    fn a_table_is_copied_whole() {
        with_client(&ANSWERS.replace("ID", "7"), |to, taken| {
            let taken = taken.unwrap_or_else(|e| panic!("{e}"));
            assert_eq!((taken.files.len(), taken.bytes), (3, 15));
            assert_eq!(names(to), ["t.cfg", "t.frm", "t.ibd"]);
        });
    }
    #[test]
    fn another_connection_behind_the_copying_leaves_nothing() {
        with_client(&ANSWERS.replace("ID", "8"), |to, taken| {
            assert!(taken.expect_err("an error").to_string().contains("connection was lost"));
            assert!(!to.exists(), "the folder was made for the copies");
        });
    }
    #[test]
    fn evidence_that_was_there_before_is_none() {
        let stale = ANSWERS.replace("touch -d 2001-01-01", "true").replace("ID", "7");
        with_client(&stale, |to, taken| {
            assert!(taken.expect_err("an error").to_string().contains("before the tables were locked"));
            assert!(!to.exists());
        });
    }
    #[test]
    fn a_prepared_transaction_leaves_nothing() {
        let prepared = ANSWERS.replace("echo none is", "echo 1 3 0 abc; echo none is").replace("ID", "7");
        with_client(&prepared, |to, taken| {
            assert!(taken.expect_err("an error").to_string().contains("a transaction is prepared"));
            assert!(!to.exists());
        });
    }
    #[test]
    fn what_the_client_says_is_told() {
        with_client(
            "read a; echo host; echo /nowhere; echo 7; read a; echo 1; echo no such table >&2",
            |to, taken| {
                assert!(taken.expect_err("an error").to_string().contains("no such table"));
                assert!(!to.exists());
            },
        );
    }
    #[test]
    fn names_in_files() {
        assert_eq!(file_name("a_b-c d").as_deref(), Ok("a_b@002dc@0020d"));
        assert!(file_name("ü").is_err());
    }
}
