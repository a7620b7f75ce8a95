//! A database that a server has, for the shell: a client of PostgreSQL's protocol that runs simple queries.
//!
//! - **N1** A statement's outcome is told as a session of our own tells it ([`Output`]), so that it looks the
//!   same. Numbers and booleans are values again, all else stays the text that the server sent.
use super::Failed;
use ondol::{Column, CopiedRows, Error, Output, Rows, Type, TypeId};
use ondol_base::cancel::Cancel;
use ondol_client::Address;
use ondol_client::message::{Body, Field, Report, garbled, lost};
use ondol_client::talk::{Failure, Frame, Talk};
use ondol_types::func::Context;
use ondol_types::ty::Category;
use ondol_types::{Value, ValueRef, text};
use std::io::{self, ErrorKind, Read};
use std::sync::Arc;

pub struct Remote {
    talk: Talk,
    /// Gets notices, as psql shows them.
    tell: fn(&str),
    pub is_lost: bool,
}

/// A notice, as psql shows it.
fn shown(report: &Report) -> String {
    let fields = &report.error.0;
    let detail = fields.detail.as_ref().map_or(String::new(), |d| format!("DETAIL:  {d}\n"));
    format!("{}:  {}\n{detail}", report.severity, fields.message)
}

impl Remote {
    pub fn connect(address: &Address, tell: fn(&str)) -> Result<Remote, Failed> {
        let talk = Talk::connect(address, "ondol shell", &mut |r| tell(&shown(r))).map_err(|e| match e {
            Failure::Refused(e) => Failed::Sql(e),
            Failure::Lost(e) => Failed::Message(format!("could not connect to {address}: {e}")),
        })?;
        Ok(Remote { talk, tell, is_lost: false })
    }
    /// What Ctrl-C tells.
    pub fn cancel(&self) -> Arc<Cancel> {
        self.talk.cancel().clone()
    }

    fn next(&mut self) -> io::Result<Frame> {
        self.talk.forget();
        self.talk.receive()
    }
    fn send(&mut self, kind: u8, body: &[u8]) -> io::Result<()> {
        self.talk.send(kind, body)
    }
    fn notice(&self, frame: &Frame) -> io::Result<()> {
        (self.tell)(&shown(&Report::read(self.talk.body(frame).0, "")?));
        Ok(())
    }

    /// Runs one statement (N1).
    pub fn run(&mut self, sql: &str, out: &mut dyn Output) -> ondol::Result<()> {
        self.talk.begin();
        let done = self.query(sql, out);
        done.unwrap_or_else(|e| {
            self.is_lost = true;
            Err(lost(e))
        })
    }

    fn query(&mut self, sql: &str, out: &mut dyn Output) -> io::Result<ondol::Result<()>> {
        self.send(b'Q', format!("{sql}\0").as_bytes())?;
        let mut columns: Arc<[Column]> = Arc::new([]);
        let mut rows = Rows::new();
        // An error of showing it is told when the server has ended.
        let mut done: ondol::Result<()> = Ok(());
        loop {
            let frame = self.next()?;
            let mut body = self.talk.body(&frame);
            match frame.kind {
                b'T' => {
                    let column = |f: Field<'_>| {
                        let id = TypeId::from_oid(f.oid).filter(|id| has_value(*id));
                        Column::new(f.name, id.map_or(Type::TEXT, Type::new))
                    };
                    columns = body.fields()?.into_iter().map(column).collect();
                    rows = Rows::of(columns.clone());
                    done = done.and_then(|()| out.columns(&columns))
                }
                b'D' if done.is_ok() => {
                    let values = values(body, &columns)?;
                    let mut scratch = vec![vec![]; values.len()];
                    let refs: Vec<ValueRef<'_>> =
                        values.iter().zip(&mut scratch).map(|(v, s)| v.as_ref(s)).collect();
                    rows.clear();
                    done = rows.push(&refs).and_then(|()| out.row(rows.row(0)))
                }
                b'C' => {
                    let tag = body.text()?;
                    done = done.and_then(|()| out.done(tag, None))
                }
                b'I' => done = done.and_then(|()| out.done("", None)),
                b'G' => {
                    let rows = if body.take(1)? == [1] { CopiedRows::Binary } else { CopiedRows::Lines };
                    out.copying(body.i16()?.max(0) as usize, rows);
                    let sent = self.copy_in(out)?;
                    done = done.and(sent)
                }
                b'H' => {
                    let rows = if body.take(1)? == [1] { CopiedRows::Binary } else { CopiedRows::Lines };
                    out.copying(body.i16()?.max(0) as usize, rows);
                    let taken = self.copy_out(out)?;
                    done = done.and(taken)
                }
                b'E' => {
                    let report = Report::read(body.0, sql)?;
                    self.is_lost |= report.is_fatal;
                    done = Err(report.error);
                    if self.is_lost {
                        return Ok(done);
                    }
                }
                b'N' => self.notice(&frame)?,
                b'Z' => return Ok(done),
                _ => {}
            }
        }
    }

    fn copy_in(&mut self, out: &mut dyn Output) -> io::Result<ondol::Result<()>> {
        let mut data = match out.copy_in() {
            Ok(data) => data,
            Err(e) => {
                self.send(b'f', format!("{e}\0").as_bytes())?;
                return Ok(Err(e));
            }
        };
        let mut room = vec![0; 64 << 10];
        loop {
            match data.read(&mut room) {
                Ok(0) => {
                    self.send(b'c', b"")?;
                    return Ok(Ok(()));
                }
                Ok(_) if self.talk.cancel().is_told() => {
                    self.send(b'f', b"canceled by user\0")?;
                    return Ok(Ok(()));
                }
                Ok(n) => self.send(b'd', &room[..n])?,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => {
                    self.send(b'f', format!("{e}\0").as_bytes())?;
                    return Ok(Ok(()));
                }
            }
        }
    }

    fn copy_out(&mut self, out: &mut dyn Output) -> io::Result<ondol::Result<()>> {
        let mut to = match out.copy_out() {
            Ok(to) => to,
            Err(e) => return Ok(Err(e)),
        };
        let mut done = Ok(());
        loop {
            let frame = self.next()?;
            match frame.kind {
                b'd' if done.is_ok() => {
                    done = to.write_all(self.talk.body(&frame).0).map_err(|e| {
                        Error::new(
                            ondol_engine::error::io_state(&e),
                            format!("could not write the output: {e}"),
                        )
                    })
                }
                b'd' => {}
                b'c' => return Ok(done),
                b'N' => self.notice(&frame)?,
                // Its error, with what follows, is for who asked.
                b'E' => {
                    return Ok(Err(Report::read(self.talk.body(&frame).0, "")?.error));
                }
                _ => return Err(garbled()),
            }
        }
    }
}

/// Whether a type's texts become values again.
fn has_value(id: TypeId) -> bool {
    let is_number =
        id.category() == Category::Numeric && ondol_types::catalog::registered::kind(id).is_none();
    is_number || id == TypeId::BOOL
}

fn values(mut body: Body<'_>, columns: &[Column]) -> io::Result<Vec<Value>> {
    let n = body.i16()?;
    if usize::try_from(n) != Ok(columns.len()) {
        return Err(garbled());
    }
    let mut all = vec![];
    for c in columns {
        let Some(sent) = body.value()? else {
            all.push(Value::Null);
            continue;
        };
        let text = std::str::from_utf8(sent).map_err(|_| garbled())?;
        all.push(text::input(text, c.ty, &Context::EMPTY).map_err(|_| garbled())?)
    }
    Ok(all)
}
