//! `ondol shell` with a server: statements, and those backslash commands that need no session of our own.
use super::format::{Format, write};
use super::remote::Remote;
use super::script::{LineSource, Show, Showing, outcome};
use super::{Done, Failed, report, tell};
use ondol::split::{Piece, Splitter};
use ondol_base::cancel::Cancel;
use ondol_client::Address;
use std::io::{self, Write};
use std::sync::Arc;

const HELP: &str = "\
  \\conninfo         say which server it is
  \\echo [TEXT]      write the text to standard output
  \\format table|csv|json|records
                    choose how results look
  \\g                run the statement before it (as a semicolon does)
  \\i FILE           run a file of SQL
  \\q                leave
  \\r                drop the statement begun
  \\timing           show how long each statement takes, or not
  \\x                show a line for each column, or not
psql has others: it talks to the same server.
";

pub struct Visit {
    remote: Remote,
    address: Address,
    pub format: Format,
    expanded: bool,
    timing: bool,
    pub echo: bool,
    pub keep_going: bool,
    pub interactive: bool,
    pub failed: bool,
    pub quit: bool,
    out: io::BufWriter<io::Stdout>,
    depth: u32,
}

impl Visit {
    pub fn new(address: &Address, format: Format, interactive: bool) -> Result<Visit, Failed> {
        Ok(Visit {
            remote: Remote::connect(address, tell)?,
            address: address.clone(),
            format,
            expanded: false,
            timing: false,
            echo: false,
            keep_going: false,
            interactive,
            failed: false,
            quit: false,
            out: io::BufWriter::with_capacity(1 << 16, io::stdout()),
            depth: 0,
        })
    }
    /// What Ctrl-C tells.
    pub fn cancel(&self) -> Arc<Cancel> {
        self.remote.cancel()
    }

    /// Runs all that comes from `lines`.
    pub fn run(&mut self, lines: &mut dyn LineSource) -> Done {
        let mut splitter = Splitter::new(true);
        let (mut line, mut number, mut started) = (Vec::new(), 0u64, 1u64);
        while !self.quit {
            while let Some(piece) = splitter.next() {
                lines.complete();
                let done = match piece {
                    Piece::Statement(sql) => self.statement(&sql, lines),
                    Piece::Backslash { line, pending } => self.backslash(&line, &pending, lines),
                };
                self.judge(done, lines, started)?;
                if self.quit {
                    return self.flush();
                }
                started = number
            }
            if splitter.is_empty() {
                started = number + 1
            }
            line.clear();
            match lines.next(splitter.open(), &mut line) {
                Ok(true) => {}
                Ok(false) => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted && self.interactive => {
                    splitter.clear();
                    continue;
                }
                Err(e) => return Err(Failed::io(lines.name().unwrap_or("standard input"), e)),
            }
            number += 1;
            match std::str::from_utf8(&line) {
                Ok(text) => {
                    splitter.push(if number == 1 { text.trim_start_matches('\u{feff}') } else { text })
                }
                Err(_) => {
                    let e = ondol::Error::new("22021", "invalid byte sequence for encoding \"UTF8\"");
                    self.judge(Err(Failed::Sql(e)), lines, number)?
                }
            }
        }
        if let Some(sql) = splitter.finish().filter(|_| !self.interactive) {
            let done = self.statement(&sql, lines);
            self.judge(done, lines, started)?
        }
        self.flush()
    }

    fn flush(&mut self) -> Done {
        self.out.flush().map_err(|e| Failed::io("could not write the output", e))
    }

    fn judge(&mut self, done: Done, lines: &dyn LineSource, line: u64) -> Done {
        let Err(failed) = done else { return Ok(()) };
        let _ = self.out.flush();
        match failed {
            Failed::Told => {}
            Failed::Sql(e) => tell(&report::error(&e, "")),
            Failed::Message(m) => tell(&format!("{m}\n")),
        }
        if self.remote.is_lost {
            return Err(Failed::Told);
        }
        if self.interactive {
            return Ok(());
        }
        if let Some(name) = lines.name() {
            tell(&format!("SCRIPT: {name}, line {line}\n"))
        }
        self.failed = true;
        if self.keep_going { Ok(()) } else { Err(Failed::Told) }
    }

    fn statement(&mut self, sql: &str, lines: &mut dyn LineSource) -> Done {
        if self.echo {
            write(&mut self.out, format!("{sql}\n").as_bytes())?;
            self.flush()?
        }
        let before = ondol_base::clock::now();
        let showing = Showing { name: "main", format: self.format, expanded: self.expanded };
        let cancel = self.remote.cancel();
        let remote = &mut self.remote;
        let run = |show: &mut Show<'_>| remote.run(sql, show);
        if let Err(e) = outcome(showing, &mut self.out, lines, run, || cancel.is_told()) {
            let _ = self.out.flush();
            if self.format != Format::Records {
                tell(&report::error(&e, sql))
            }
            return Err(Failed::Told);
        }
        if self.timing {
            let ms = (ondol_base::clock::now() - before).as_secs_f64() * 1000.0;
            write(&mut self.out, format!("Time: {ms:.3} ms\n").as_bytes())?
        }
        self.flush()
    }

    fn backslash(&mut self, line: &str, pending: &str, lines: &mut dyn LineSource) -> Done {
        let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let argument = argument.trim();
        let wrong = |what: String| Err(Failed::Message(what));
        match name {
            "g" if !pending.is_empty() => return self.statement(pending, lines),
            "r" | "g" => return Ok(()),
            "q" => {
                self.quit = true;
                return Ok(());
            }
            _ if !pending.is_empty() => {
                return wrong(format!("\\{name}: the statement before it was not finished, and is dropped"));
            }
            _ => {}
        }
        match name {
            "?" => write(&mut self.out, HELP.as_bytes())?,
            "conninfo" => write(&mut self.out, format!("The server is at {}.\n", self.address).as_bytes())?,
            "echo" => write(&mut self.out, format!("{argument}\n").as_bytes())?,
            "format" => {
                self.format = <Format as clap::ValueEnum>::from_str(argument, false).map_err(|_| {
                    Failed::Message(format!("\\format: {argument:?} is none of table, csv, json, records"))
                })?
            }
            "i" => return self.include(argument),
            "timing" => self.timing = !self.timing,
            "x" => self.expanded = !self.expanded,
            other => {
                return wrong(format!(
                    "\\{other} is not there for a database that a server has; psql may have it"
                ));
            }
        }
        self.flush()
    }

    fn include(&mut self, path: &str) -> Done {
        const DEEPEST: u32 = 32;
        if self.depth >= DEEPEST {
            return Err(Failed::Message(format!("{path}: scripts include each other too deeply")));
        }
        let file = std::fs::File::open(path).map_err(|e| Failed::io(path, e))?;
        let reader = io::BufReader::with_capacity(1 << 16, file);
        let was = std::mem::replace(&mut self.interactive, false);
        self.depth += 1;
        let done = self.run(&mut super::script::Stream { reader, name: Some(path.to_string()) });
        self.depth -= 1;
        self.interactive = was;
        done
    }
}
