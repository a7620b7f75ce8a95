//! Reads that stand side by side in the input: look-ups by unique keys, executed as a batch, so that their
//! waits for memory overlap.
//!
//! - **G1** Taken together are Binds and Executes of the unnamed portal, with what may stand between them and
//!   behind (Describe, Sync), as far as all of them are there. Whatever is out of the ordinary, a value that
//!   has to be converted, say, ends the batch before it and goes the usual way.
//! - **G2** The reads of a batch are all in one transaction, or each in one of its own (talk/T1).
//! - **G3** They are answered in their order. What was read behind one that failed is forgotten, and read
//!   anew where it is to be answered.
//! - **G4** Others see the first of them, and its time is that of all.
use super::super::connection::Connection;
use super::super::result;
use super::{Before, MESSAGE_LIMIT, Portal, Progress, Statement, Talk, look, looked};
use crate::session::Session;
use crate::session::batch::Batch;
use crate::session::rows::Rows;
use crate::session::statements::Took;
use ondol_types::ty::Class;
use ondol_types::{SqlError, SqlResult, TypeId, ValueRef};
use ondol_wire::front::{self, Bind, Forms, Message};
use ondol_wire::{back, binary};
use std::rc::Rc;

/// Reads of a batch at most.
const MOST: usize = 64;
/// Bytes of rows that are kept for the next batch.
const KEPT: usize = 256 << 10;

struct Read<'a> {
    statement: Rc<Statement>,
    /// Where its values begin among those of all.
    from: usize,
    forms: Forms<'a>,
    is_described: bool,
    /// A Sync follows it.
    is_synced: bool,
    /// Where what follows begins in the input.
    end: usize,
}

/// Memory for batches.
#[derive(Default)]
pub(super) struct Room {
    batch: Batch,
    /// Of one read alone.
    rows: Rows,
    forms: Vec<bool>,
}

/// A value that can be taken as it came.
fn value<'a>(bytes: &'a [u8], is_binary: bool, ty: TypeId) -> Option<ValueRef<'a>> {
    if is_binary {
        return binary::borrow(bytes, ty);
    }
    let class = ty.class();
    if let Class::Text = class {
        return front::utf8(bytes).ok().map(ValueRef::Text);
    }
    // Digits alone, no more than surely fit.
    let (is_negative, digits) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, bytes),
    };
    if digits.is_empty() || digits.len() > 18 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let n = digits.iter().fold(0i64, |n, d| n * 10 + i64::from(d - b'0'));
    let n = if is_negative { -n } else { n };
    match class {
        Class::Int2 => n.try_into().ok().map(ValueRef::Int2),
        Class::Int4 => n.try_into().ok().map(ValueRef::Int4),
        Class::Int8 => Some(ValueRef::Int8(n)),
        _ => None,
    }
}

/// Appends the values of a Bind, if each can be taken as it came and nothing else is wrong with it.
fn take_values<'a>(bind: &Bind<'a>, statement: &Statement, values: &mut Vec<ValueRef<'a>>) -> Option<()> {
    let (wanted, columns) = (statement.prepared.params(), statement.prepared.columns().len());
    let fits = |forms: usize, of: usize| forms <= 1 || forms == of;
    let is_usual = bind.len() == wanted.len()
        && fits(bind.forms.len(), bind.len())
        && fits(bind.result_forms.len(), columns);
    if !is_usual {
        return None;
    }
    for (i, (bytes, ty)) in bind.values().zip(wanted).enumerate() {
        values.push(match bytes {
            None => ValueRef::Null,
            Some(bytes) => value(bytes, bind.forms.is_binary(i), *ty)?,
        })
    }
    Some(())
}

/// The Bind that stands there, if one does that is whole, and where what follows begins.
fn next_bind(input: &[u8], at: usize) -> Option<(Bind<'_>, usize)> {
    if input.get(at) != Some(&b'B') {
        return None;
    }
    let frame = front::frame(&input[at..], MESSAGE_LIMIT).ok().flatten()?;
    match frame.read() {
        Ok(Message::Bind(bind)) => Some((bind, at + frame.size())),
        _ => None,
    }
}

/// The messages that may follow a Bind of the unnamed portal (G1), each of which is always the same bytes.
const DESCRIBE: &[u8] = b"D\0\0\0\x06P\0";
const EXECUTE: &[u8] = b"E\0\0\0\x09\0\0\0\0\0";
const SYNC: &[u8] = b"S\0\0\0\x04";

/// What follows the Bind of a read, whose end is `at`: whether it is described and synced, and the end.
fn behind(input: &[u8], at: usize) -> Option<(bool, bool, usize)> {
    let rest = &input[at..];
    let described = rest.strip_prefix(DESCRIBE);
    let rest = described.unwrap_or(rest).strip_prefix(EXECUTE)?;
    // talk/T1: what follows has to be there.
    let (is_synced, rest) = match rest.first()? {
        b'S' => (true, rest.strip_prefix(SYNC)?),
        _ => (false, rest),
    };
    Some((described.is_some(), is_synced, input.len() - rest.len()))
}

impl Read<'_> {
    /// Appends its answer; after an error what stands before that is told.
    fn tell(&self, rows: SqlResult<&Rows>, forms: &mut Vec<bool>, out: &mut Vec<u8>) -> SqlResult<()> {
        let columns = self.statement.prepared.columns();
        forms.clear();
        forms.extend(self.forms.iter());
        back::empty(out, back::BIND_COMPLETE);
        if self.is_described {
            result::describe(columns, forms, out)
        }
        let rows = rows?;
        if !std::ptr::eq(rows.columns(), columns) && rows.columns() != columns {
            return Err(SqlError::changed_result());
        }
        for row in rows {
            let before = out.len();
            result::row(&row, forms, out).inspect_err(|_| out.truncate(before))?
        }
        match rows.len() {
            0 => back::complete(out, "SELECT 0"),
            1 => back::complete(out, "SELECT 1"),
            n => back::complete(out, &format!("SELECT {n}")),
        }
        Ok(())
    }
}

impl Talk {
    /// The reads that the input begins with, of which `bind` is the first message; none if it begins with
    /// something else.
    fn gather<'a>(
        &mut self,
        s: &mut Session,
        (bind, size): (&Bind<'a>, usize),
        input: &'a [u8],
        values: &mut Vec<ValueRef<'a>>,
    ) -> Vec<Read<'a>> {
        let mut reads: Vec<Read<'a>> = vec![];
        let (mut bind, mut at, mut name) = (*bind, size, "");
        // G2
        let in_block = s.in_transaction() && !s.implicit;
        let in_one = s.in_transaction();
        while bind.portal.is_empty() {
            let known = reads.last().filter(|_| name == bind.statement);
            let statement = match known {
                Some(last) => last.statement.clone(),
                None => match self.statement(s, bind.statement, false) {
                    Ok(statement) => statement,
                    Err(_) => break,
                },
            };
            name = bind.statement;
            if !statement.prepared.is_look_up() {
                break;
            }
            let from = values.len();
            let found = take_values(&bind, &statement, values).and_then(|()| behind(input, at));
            let Some((is_described, is_synced, end)) = found else {
                values.truncate(from);
                break;
            };
            let is_another = !in_one && reads.first().is_some_and(|f| f.is_synced && !is_synced);
            if is_another {
                values.truncate(from);
                break;
            }
            let forms = bind.result_forms;
            reads.push(Read { statement, from, forms, is_described, is_synced, end });
            // The end of a transaction of several.
            let is_last = is_synced && !in_block && (in_one || !reads[0].is_synced);
            if is_last || reads.len() == MOST {
                break;
            }
            match next_bind(input, end) {
                Some(next) => (bind, at) = next,
                None => break,
            }
        }
        reads
    }

    /// Answers the reads that the input begins with, of which `bind` is the first message, of so many bytes.
    /// How many bytes they were: 0 if it begins with something else.
    pub(super) fn read(
        &mut self,
        s: &mut Session,
        bind: (&Bind<'_>, usize),
        input: &[u8],
        connection: &Connection,
    ) -> usize {
        if s.is_failed() {
            return 0;
        }
        let mut values = vec![];
        let reads = self.gather(s, bind, input, &mut values);
        let Some((first, last)) = reads.first().zip(reads.last()) else { return 0 };
        if !s.in_transaction() && !first.is_synced && s.begin_implicit().is_err() {
            return 0;
        }
        if let Some(seen) = &s.seen {
            seen.runs(&first.statement.text)
        }
        let since = looked(s);
        let mut room = self.room.take().unwrap_or_default();
        let params = |i: usize| &values[reads[i].from..reads.get(i + 1).map_or(values.len(), |r| r.from)];
        let done = match &reads[..] {
            [read] => s.call_prepared(&read.statement.prepared, params(0), &mut room.rows).map(drop),
            _ => {
                let calls: Vec<_> =
                    reads.iter().enumerate().map(|(i, r)| (&r.statement.prepared, params(i))).collect();
                s.call_each(&calls, &mut room.batch)
            }
        };
        look(s);
        self.tell_duration(s, reads.len());
        self.portals.remove("");
        let took = looked(s).saturating_sub(since) as f64 / 1e6 / reads.len() as f64;
        if let Some(seen) = &s.seen {
            seen.meter.took.add(reads.len() as u64, (took * 1e6) as u64)
        }
        let mut bytes = 0;
        // Of the neighbours that are executions of one statement, those that were answered, and their rows.
        let (mut answered, mut given) = (0, 0);
        let tally = |s: &Session, of: &Read<'_>, answered: u64, given: u64| {
            if let Some(seen) = s.seen.as_ref().filter(|_| answered > 0) {
                let all = Took::alike(answered, took, given);
                seen.meter.statements.lock().add(s.role(), &of.statement.fingerprint, &all)
            }
        };
        for (i, read) in reads.iter().enumerate() {
            if i > 0 && !Rc::ptr_eq(&reads[i - 1].statement, &read.statement) {
                tally(s, &reads[i - 1], answered, given);
                (answered, given) = (0, 0)
            }
            let before = Before::of(s);
            let rows = match &done {
                Ok(()) if reads.len() == 1 => Ok(&room.rows),
                Ok(()) => room.batch.rows(i),
                Err(e) => Err(e.clone()),
            };
            bytes += rows.as_ref().map_or(0, |r| r.bytes());
            let count = rows.as_ref().map_or(0, |r| r.len());
            let told = read.tell(rows, &mut room.forms, &mut connection.output.borrow_mut());
            let failed = told.is_err();
            match told {
                Ok(()) => {
                    before.count(s, Some(""));
                    answered += 1;
                    given += count as u64
                }
                Err(e) => {
                    self.refuse(s, e, (&read.statement.text, read.statement.from), connection);
                    before.count(s, None);
                    self.skips = true
                }
            }
            if read.is_synced {
                self.sync(s, connection)
            }
            if failed {
                tally(s, read, answered, given);
                return read.end; // G3
            }
        }
        tally(s, last, answered, given);
        if bytes <= KEPT {
            self.room = Some(room)
        }
        if s.in_transaction() {
            let statement = last.statement.clone();
            let (params, forms) = (vec![], vec![]);
            let portal = Portal { statement, params, forms, progress: Progress::Done, spent: (0, 0) };
            self.portals.insert(String::new(), portal);
        }
        last.end
    }
}
