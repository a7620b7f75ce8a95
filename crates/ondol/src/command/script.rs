//! Running statements for a person or a pipe: where they come from, where their outcomes go.
//!
//! - **K1** A statement's tag is written and flushed when its commit is durable, before the next statement is
//!   read, so that a process at the other end of a pipe may wait for it.
//! - **K2** Rows and tags go to standard output (or where `\o` says), all else to standard error.
//! - **K3** In a script the first error is the last thing that happens; at a terminal the next line is asked
//!   for.
//! - **K4** Data of COPY FROM STDIN is what follows the statement's line, up to a line `\.` or the end; for
//!   `-c` it is standard input.
//! - **K5** With `--format records` a statement's outcome, error or not, is one line of JSON on standard
//!   output.
use super::beside::Others;
use super::format::{Format, Printer, write};
use super::record::Record;
use super::report;
use super::{Done, Failed, tell};
use indicatif::{ProgressBar, ProgressStyle};
use ondol::split::{Piece, Splitter};
use ondol::{Canceller, Column, Output, Progress, Row, Session, Token};
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::sync::Arc;

/// Where lines come from. A line keeps its end.
pub trait LineSource {
    /// Appends the next line; false at the end. `open` tells what the text so far waits for.
    fn next(&mut self, open: char, line: &mut Vec<u8>) -> io::Result<bool>;
    /// Where COPY data comes from, when not from here.
    fn data(&mut self) -> Option<Box<dyn LineSource>> {
        None
    }
    /// Told when a statement or command is complete, for the history.
    fn complete(&mut self) {}
    /// The name of the script, for errors.
    fn name(&self) -> Option<&str> {
        None
    }
}

/// The lines of a file or of standard input.
pub struct Stream<R> {
    pub reader: R,
    pub name: Option<String>,
}

impl<R: BufRead> LineSource for Stream<R> {
    fn next(&mut self, _: char, line: &mut Vec<u8>) -> io::Result<bool> {
        self.reader.read_until(b'\n', line).map(|n| n > 0)
    }
    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

pub fn standard_input() -> Stream<io::BufReader<io::Stdin>> {
    Stream { reader: io::BufReader::with_capacity(1 << 16, io::stdin()), name: None }
}

/// The text of `-c`.
pub struct Given(pub io::Cursor<Vec<u8>>);

impl LineSource for Given {
    fn next(&mut self, _: char, line: &mut Vec<u8>) -> io::Result<bool> {
        self.0.read_until(b'\n', line).map(|n| n > 0)
    }
    fn data(&mut self) -> Option<Box<dyn LineSource>> {
        Some(Box::new(standard_input()))
    }
}

/// COPY data up to its end mark.
pub struct Data<'a> {
    lines: &'a mut dyn LineSource,
    other: Option<Box<dyn LineSource>>,
    line: Vec<u8>,
    at: usize,
    ended: &'a mut bool,
}

impl<'a> Data<'a> {
    pub fn new(lines: &'a mut dyn LineSource, ended: &'a mut bool) -> Data<'a> {
        Data { other: lines.data(), lines, line: Vec::new(), at: 0, ended }
    }
    fn fill(&mut self) -> io::Result<()> {
        self.line.clear();
        self.at = 0;
        let from: &mut dyn LineSource = match &mut self.other {
            Some(o) => &mut **o,
            None => self.lines,
        };
        // Many lines at once, so that the reader of the data works on large blocks.
        while !*self.ended && self.line.len() < 1 << 16 {
            let start = self.line.len();
            let there = from.next('>', &mut self.line)?;
            let line = self.line[start..].trim_ascii_end();
            if !there || line == b"\\." {
                self.line.truncate(start);
                *self.ended = true;
            }
        }
        Ok(())
    }
}

impl Read for Data<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.line.len() {
            if *self.ended {
                return Ok(0);
            }
            self.fill()?;
        }
        let n = (self.line.len() - self.at).min(out.len());
        out[..n].copy_from_slice(&self.line[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// A session with its way of showing things.
pub struct Runner {
    pub session: Session,
    /// Its name, and the sessions beside it.
    pub name: String,
    pub others: Others,
    pub canceller: Canceller,
    pub format: Format,
    pub expanded: bool,
    pub timing: bool,
    pub out: Box<dyn Write>,
    /// At a terminal: errors are told and forgotten.
    pub interactive: bool,
    pub quit: bool,
    /// Write each statement before its outcome.
    pub echo: bool,
    /// K3 does not hold.
    pub keep_going: bool,
    /// There was an error in a script.
    pub failed: bool,
    /// The key without which no backslash command is taken: what a dump begins with, so that nothing in it
    /// becomes a command.
    pub restricted: Option<String>,
    /// Depth of `\i`.
    depth: u32,
}

const DEEPEST: u32 = 32;

impl Runner {
    pub fn new(mut session: Session, format: Format, interactive: bool) -> Runner {
        session.on_notice(|n| tell(&n.shown()));
        let out = Box::new(io::BufWriter::with_capacity(1 << 16, io::stdout()));
        Runner {
            canceller: session.canceller(),
            session,
            name: "main".into(),
            others: Others::default(),
            format,
            expanded: false,
            timing: false,
            out,
            interactive,
            quit: false,
            echo: false,
            keep_going: false,
            failed: false,
            restricted: None,
            depth: 0,
        }
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
                    Piece::Backslash { line, pending } => {
                        self.backslash(&line, &pending, &mut splitter, lines)
                    }
                };
                self.judge(done, lines, started)?;
                if self.interactive && self.canceller.was_cancelled() {
                    // Nor is the rest of the line wanted.
                    splitter.clear();
                    break;
                }
                if self.quit {
                    return self.flush();
                }
                started = number;
            }
            if splitter.is_empty() {
                started = number + 1;
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
                    self.judge(Err(Failed::Sql(e)), lines, number)?;
                }
            }
        }
        // A script's last statement needs no semicolon; a person who leaves in the midst of one does not mean
        // it.
        let last = splitter.finish();
        if let Some(sql) = last.filter(|_| !self.interactive) {
            lines.complete();
            let done = self.statement(&sql, lines);
            self.judge(done, lines, started)?;
        }
        self.flush()
    }

    fn flush(&mut self) -> Done {
        self.out.flush().map_err(|e| Failed::io("could not write the output", e))
    }

    /// K3.
    fn judge(&mut self, done: Done, lines: &dyn LineSource, line: u64) -> Done {
        let Err(failed) = done else { return Ok(()) };
        // What was shown before the error comes before it also where both streams are one.
        let _ = self.out.flush();
        match failed {
            Failed::Told => {}
            Failed::Sql(e) => tell(&report::error(&e, "")),
            Failed::Message(m) => tell(&format!("{m}\n")),
        }
        if self.interactive {
            return Ok(());
        }
        if let Some(name) = lines.name() {
            tell(&format!("SCRIPT: {name}, line {line}\n"));
        }
        self.failed = true;
        if self.keep_going { Ok(()) } else { Err(Failed::Told) }
    }

    /// Runs one statement; an error is told with its place.
    pub fn statement(&mut self, sql: &str, lines: &mut dyn LineSource) -> Done {
        if self.echo {
            write(&mut *self.out, format!("{sql}\n").as_bytes())?;
            self.flush()?;
        }
        let before = ondol_base::clock::now();
        if self.others.any() {
            self.run_beside(sql, lines)?;
        } else {
            let showing = Showing { name: &self.name, format: self.format, expanded: self.expanded };
            let done = run(&mut self.session, sql, showing, &mut *self.out, lines);
            self.told(sql, done)?;
        }
        if self.timing {
            let ms = (ondol_base::clock::now() - before).as_secs_f64() * 1000.0;
            writeln!(self.out, "Time: {ms:.3} ms")
                .map_err(|e| Failed::io("could not write the output", e))?;
        }
        self.flush()
    }

    /// An error of a statement is told with its place, unless it stands in its record.
    pub fn told(&mut self, sql: &str, done: ondol::Result<()>) -> Done {
        let Err(e) = done else { return Ok(()) };
        let _ = self.out.flush();
        if self.format != Format::Records {
            tell(&report::error(&e, sql));
        }
        Err(Failed::Told)
    }

    fn backslash(
        &mut self,
        line: &str,
        pending: &str,
        splitter: &mut Splitter,
        lines: &mut dyn LineSource,
    ) -> Done {
        if self.restricted.is_some() && !line.starts_with("unrestrict") {
            let taken = "backslash commands are restricted; only \\unrestrict is allowed";
            if !pending.is_empty() {
                self.resume(pending, splitter)?
            }
            return Err(Failed::Message(taken.into()));
        }
        if pending.is_empty() {
            return super::describe::command(self, line);
        }
        match line {
            "g" => self.statement(pending, lines),
            "gx" => {
                let was = std::mem::replace(&mut self.expanded, true);
                let done = self.statement(pending, lines);
                self.expanded = was;
                done
            }
            "r" => Ok(()),
            "p" => {
                println!("{pending}");
                self.resume(pending, splitter)
            }
            "q" => {
                self.quit = true;
                Ok(())
            }
            other => {
                self.resume(pending, splitter)?;
                Err(Failed::Message(format!(
                    "\\{other}: a statement is not finished; end it with ; or \\g, or drop it with \\r"
                )))
            }
        }
    }

    /// Puts an unfinished statement back before what comes next.
    fn resume(&mut self, pending: &str, splitter: &mut Splitter) -> Done {
        let rest = splitter.take_rest();
        splitter.clear();
        splitter.push(pending);
        splitter.push("\n");
        splitter.push(&rest);
        Ok(())
    }

    /// `\i FILE`
    pub fn include(&mut self, path: &str) -> Done {
        if self.depth >= DEEPEST {
            return Err(Failed::Message(format!("{path}: scripts include each other too deeply")));
        }
        let file = std::fs::File::open(path).map_err(|e| Failed::io(path, e))?;
        let reader = io::BufReader::with_capacity(1 << 16, file);
        let was = std::mem::replace(&mut self.interactive, false);
        self.depth += 1;
        let done = self.run(&mut Stream { reader, name: Some(path.to_string()) });
        self.depth -= 1;
        self.interactive = was;
        done
    }
}

/// How a statement's outcome is shown, and the name of its session.
#[derive(Clone, Copy)]
pub struct Showing<'a> {
    pub name: &'a str,
    pub format: Format,
    pub expanded: bool,
}

/// Runs one statement; its outcome goes to `out`, and its COPY data comes from `lines`.
pub fn run(
    session: &mut Session,
    sql: &str,
    showing: Showing<'_>,
    out: &mut dyn Write,
    lines: &mut dyn LineSource,
) -> ondol::Result<()> {
    let canceller = session.canceller();
    outcome(showing, out, lines, |show| session.run(sql, &[], show), || canceller.was_cancelled())
}

/// Shows what a statement comes to that `run` runs.
pub fn outcome(
    showing: Showing<'_>,
    out: &mut dyn Write,
    lines: &mut dyn LineSource,
    run: impl FnOnce(&mut Show<'_>) -> ondol::Result<()>,
    was_cancelled: impl Fn() -> bool,
) -> ondol::Result<()> {
    let mut ended = false;
    let mut show = Show {
        format: showing.format,
        expanded: showing.expanded,
        out: &mut *out,
        record: (showing.format == Format::Records).then(|| Record::new(showing.name)),
        lines: &mut *lines,
        data_ended: &mut ended,
        copied: CopyKind::No,
        printer: None,
        bar: None,
    };
    let done = run(&mut show);
    if let Some(b) = show.bar.take() {
        b.finish_and_clear()
    }
    let (copied, record) = (show.copied, show.record.take());
    if done.is_err() && matches!(copied, CopyKind::In) && !ended && !was_cancelled() {
        // The rest of the data is no SQL.
        let _ = io::copy(&mut Data::new(lines, &mut ended), &mut io::sink());
    }
    if let (Some(mut record), Err(e)) = (record, &done) {
        record.failed(e);
        write(out, &record.text())?;
    }
    done
}

#[derive(Clone, Copy)]
enum CopyKind {
    No,
    In,
    Out,
}

/// Shows one statement's outcome.
pub struct Show<'a> {
    format: Format,
    expanded: bool,
    out: &'a mut dyn Write,
    /// K5; instead of a printer.
    record: Option<Record>,
    lines: &'a mut dyn LineSource,
    data_ended: &'a mut bool,
    copied: CopyKind,
    printer: Option<Printer>,
    bar: Option<ProgressBar>,
}

impl Output for Show<'_> {
    fn columns(&mut self, columns: &Arc<[Column]>) -> ondol::Result<()> {
        if let Some(record) = &mut self.record {
            record.columns(columns);
            return Ok(());
        }
        self.printer = Some(Printer::new(self.format, self.expanded, columns.clone()));
        Ok(())
    }
    fn row(&mut self, row: Row<'_>) -> ondol::Result<()> {
        if let Some(record) = &mut self.record {
            record.row(row);
            return Ok(());
        }
        match &mut self.printer {
            Some(p) => p.row(row, self.out),
            None => Ok(()),
        }
    }
    fn done(&mut self, tag: &str, _: Option<Token>) -> ondol::Result<()> {
        if let Some(b) = self.bar.take() {
            b.finish_and_clear()
        }
        if let Some(mut record) = self.record.take() {
            record.done(tag);
            return write(self.out, &record.text());
        }
        let had_result = match self.printer.take() {
            Some(p) => {
                p.finish(self.out)?;
                true
            }
            None => false,
        };
        let changes = ["INSERT", "UPDATE", "DELETE"].iter().any(|w| tag.starts_with(w));
        // As psql: a result speaks for itself, and so does data on the same stream.
        if (!had_result || changes) && !matches!(self.copied, CopyKind::Out) {
            write(self.out, format!("{tag}\n").as_bytes())?;
        }
        Ok(())
    }
    fn copy_in(&mut self) -> ondol::Result<Box<dyn Read + '_>> {
        self.copied = CopyKind::In;
        Ok(Box::new(Data::new(&mut *self.lines, self.data_ended)))
    }
    fn copy_out(&mut self) -> ondol::Result<Box<dyn Write + '_>> {
        self.copied = CopyKind::Out;
        match &mut self.record {
            Some(record) => Ok(Box::new(&mut record.copied)),
            None => Ok(Box::new(&mut *self.out)),
        }
    }
    fn progress(&mut self, p: Progress) {
        if !io::stderr().is_terminal() {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| bar_of_bytes("COPY", p.all_bytes));
        bar.set_position(p.bytes);
        bar.set_message(format!("{} rows", p.rows));
    }
}

/// A progress bar that counts bytes, on standard error; hidden when that is no terminal.
pub fn bar_of_bytes(name: &str, all: Option<u64>) -> ProgressBar {
    let (bar, template) = match all {
        Some(n) => {
            (ProgressBar::new(n), "{prefix:<12} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {msg}")
        }
        None => (ProgressBar::new_spinner(), "{prefix:<12} {bytes} {bytes_per_sec} {msg}"),
    };
    let bar = bar.with_prefix(name.to_string());
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
