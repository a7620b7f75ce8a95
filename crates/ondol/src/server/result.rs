//! Outcomes of statements as messages.
use super::connection::Connection;
use super::copying::{CopyIn, CopyOut};
use super::incoming::Incoming;
use crate::database::Database;
use crate::session::Session;
use crate::session::output::{CopiedRows, Encode, Notice, Output};
use crate::session::rows::{Column, Row};
use ondol_base::cancel::Cancel;
use ondol_base::park::{Parker, guards_held};
use ondol_base::sync::Mutex;
use ondol_engine::{Charge, Token};
use ondol_sql::catalog::oid_of;
use ondol_types::catalog::Form;
use ondol_types::error::Fields;
use ondol_types::limits::canceled;
use ondol_types::ty::Class;
use ondol_types::{SqlError, SqlResult, TypeId, sqlstate};
use ondol_wire::{back, field};
use std::io::{Read, Write};
use std::rc::Rc;
use std::sync::Arc;

/// Bytes of output that are sent, and waited for until the client has taken them, while a statement goes on.
pub(super) const MUCH: usize = 64 << 10;
/// Output that takes more than this, as it cannot be waited for, counts against the memory limit.
const FREE: usize = 1 << 20;

/// What there is around a session.
pub(super) struct Around {
    pub database: Database,
    /// Where the session waits for others.
    pub parker: Arc<Parker>,
    pub cancel: Arc<Cancel>,
    pub notices: Notices,
}

/// Notices of a session, which come before what is answered next.
pub(super) type Notices = Arc<Mutex<Vec<Notice>>>;

pub(super) fn tell_notices(notices: &Notices, out: &mut Vec<u8>) {
    for n in notices.lock().drain(..) {
        let fields =
            Fields { sqlstate: n.sqlstate, message: n.message, detail: n.detail, ..Fields::default() };
        back::report(out, false, n.severity, &fields, None)
    }
}

/// While more bytes than these wait to be sent, what others told has to wait.
pub(super) const NOTIFIED: usize = 1 << 20;

/// What was told on channels that the session listens on.
pub(super) fn tell_notifications(s: &Session, out: &mut Vec<u8>) {
    for n in s.notifications() {
        back::notification(out, n.process, &n.channel, &n.payload)
    }
}

/// An error, whose position is a place in `text` from `from` on.
pub(super) fn tell_error(e: &SqlError, (text, from): (&str, usize), out: &mut Vec<u8>) {
    let position = e.0.position.map(|p| {
        let end = (from + p).min(text.len());
        let end = (0..=end).rev().find(|n| text.is_char_boundary(*n)).unwrap_or(0);
        text[..end].chars().count() + 1
    });
    back::report(out, true, "ERROR", &e.0, position)
}

/// The bytes that each value of a type has; negative where they differ.
fn size_of(ty: TypeId) -> i16 {
    match ty {
        TypeId::NAME => 64,
        TypeId::UNKNOWN => -2,
        _ => match ty.class() {
            Class::Bool => 1,
            Class::Int2 => 2,
            Class::Int4 | Class::Date => 4,
            Class::Int8 | Class::Float8 | Class::Timestamp | Class::Timestamptz => 8,
            Class::None => 4,
            Class::Opaque(Form { .. }) if ondol_types::catalog::registered::kind(ty).is_some() => 4,
            Class::Opaque(Form { width: Some(width), .. }) => match ty.is_user() {
                // Enums have a number of their own in PostgreSQL.
                true => 4,
                false => (*width).into(),
            },
            _ => -1,
        },
    }
}

/// Whether the result's column `i` is wanted in binary: none said is text, one said is for all.
pub(super) fn is_binary(forms: &[bool], i: usize) -> bool {
    match forms {
        [] => false,
        [one] => *one,
        many => many.get(i).copied().unwrap_or(false),
    }
}

pub(super) fn describe(columns: &[Column], forms: &[bool], out: &mut Vec<u8>) {
    let fields = columns.iter().enumerate().map(|(i, c)| {
        let ty = c.ty;
        // A literal that nothing said the type of is a text.
        let id = if ty.id == TypeId::UNKNOWN { TypeId::TEXT } else { ty.id };
        back::Field {
            name: &c.name,
            origin: c.origin.map(|o| (oid_of(o.relation), o.column as i16 + 1)),
            oid: id.oid(),
            size: size_of(id),
            modifier: ty.typmod,
            is_binary: is_binary(forms, i),
        }
    });
    back::row_description(out, fields)
}

/// Appends a row.
pub(super) fn row(row: &Row<'_>, forms: &[bool], out: &mut Vec<u8>) -> SqlResult<()> {
    let columns = row.columns();
    // Those of a result are all shown in the same.
    let styles = columns.first().map(|c| &c.styles).filter(|s| !s.is_usual());
    let message = back::Message::begin(out, back::DATA_ROW).i16(columns.len() as i16);
    let out = &mut *message.out;
    let mut failed = None;
    // One loop for each case, so that no field of many rows asks which it is.
    match forms {
        [] | [false] => row.each(columns.iter().enumerate(), |value, (i, column)| {
            field::in_text(value, column.ty, styles, out, || row.value(i));
            true
        }),
        [true] => row.each(columns.iter().enumerate(), |value, (i, column)| {
            failed = field::in_binary(value, column.ty, out, || row.value(i)).err();
            failed.is_none()
        }),
        _ => {
            row.values().zip(columns).enumerate().for_each(|(i, (value, column))| match is_binary(forms, i) {
                _ if failed.is_some() => {}
                true => failed = field::in_binary(value, column.ty, out, || value).err(),
                false => field::in_text(value, column.ty, styles, out, || value),
            })
        }
    }
    message.end();
    failed.map_or(Ok(()), Err)
}

/// Makes rows into messages, on other threads.
struct Encoder {
    forms: Box<[bool]>,
}
impl Encode for Encoder {
    fn row(&self, r: Row<'_>, out: &mut Vec<u8>) -> SqlResult<()> {
        row(&r, &self.forms, out)
    }
}

/// What of a result is told.
#[derive(Clone, Copy)]
pub(super) enum Telling<'a> {
    /// Its columns too, since nobody has described them.
    All,
    /// The rows alone; the columns are to be these.
    Rows(&'a [Column]),
}

/// Where the outcomes of one statement go: into the connection's output.
pub(super) struct Answer<'a> {
    pub connection: &'a Connection,
    pub incoming: &'a mut Incoming,
    pub around: Rc<Around>,
    pub telling: Telling<'a>,
    /// Of the result's columns, those that are wanted in binary.
    pub forms: &'a [bool],
    /// The statement's tag, once it is done.
    pub tag: Option<String>,
    /// The last commit (server/E3).
    pub token: &'a mut Option<Token>,
    /// Counts the output against the memory limit.
    pub charge: Charge,
    /// Why COPY's input ended, if it was no good end.
    pub broken_off: Option<SqlError>,
    /// Of COPY: columns, and how its rows lie.
    pub copied: (usize, CopiedRows),
    pub copies_out: bool,
}

impl Answer<'_> {
    fn tell_notices(&self) {
        if !self.around.notices.lock().is_empty() {
            tell_notices(&self.around.notices, &mut self.connection.output.borrow_mut())
        }
    }
    /// Sends what there is of a long answer, and waits until the client has taken it (server/E6). Where no
    /// wait may be, since it would be one with a guard, the answer grows within the memory limit.
    pub fn much(&mut self) -> SqlResult<()> {
        if self.token.is_none() {
            self.connection.send()
        }
        if self.connection.unsent() == 0 {
            return Ok(());
        }
        if guards_held() == 0 {
            return self.wait_until_taken();
        }
        let bytes = self.connection.output.borrow().len();
        if bytes > FREE && self.charge.bytes() < bytes {
            self.charge.resize(bytes.next_multiple_of(FREE))?
        }
        Ok(())
    }
    fn wait_until_taken(&mut self) -> SqlResult<()> {
        self.wait_for_token();
        loop {
            self.connection.park_until_taken(&self.around.parker);
            if self.connection.lost.get() {
                return Err(SqlError::new(sqlstate::CONNECTION_FAILURE, "connection to client lost"));
            }
            if self.connection.unsent() == 0 {
                self.charge.clear();
                return Ok(());
            }
            if self.around.cancel.is_told() {
                return Err(canceled());
            }
        }
    }
    fn begin_copy(&self, is_in: bool) {
        let (columns, rows) = self.copied;
        let out = &mut self.connection.output.borrow_mut();
        back::copy_response(out, is_in, columns, rows == CopiedRows::Binary)
    }
    /// Waits until more has come from the client, which gets first what it may be waiting for.
    pub fn wait_for_input(&mut self) {
        self.wait_for_token();
        self.connection.park_until_input(&self.around.parker)
    }
    /// server/E3
    fn wait_for_token(&mut self) {
        if let Some(token) = self.token.take() {
            self.wait_durable(token)
        }
    }
    /// server/E3, in the midst of a turn. If the log fails, that is told at its end.
    fn wait_durable(&self, token: Token) {
        let parker = self.around.parker.clone();
        self.around.database.when_durable(token, move |_| parker.unpark());
        while matches!(self.around.database.poll(token), Ok(false)) {
            self.around.parker.park(None);
        }
    }
}

impl Output for Answer<'_> {
    fn columns(&mut self, columns: &Arc<[Column]>) -> SqlResult<()> {
        self.tell_notices();
        match self.telling {
            Telling::All => describe(columns, self.forms, &mut self.connection.output.borrow_mut()),
            Telling::Rows(described) if described != &columns[..] => {
                return Err(SqlError::changed_result());
            }
            Telling::Rows(_) => {}
        }
        Ok(())
    }
    fn row(&mut self, r: Row<'_>) -> SqlResult<()> {
        let mut out = self.connection.output.borrow_mut();
        let before = out.len();
        if let Err(e) = row(&r, self.forms, &mut out) {
            out.truncate(before);
            return Err(e);
        }
        let is_much = out.len() >= MUCH;
        drop(out);
        if is_much { self.much() } else { Ok(()) }
    }
    fn encoder(&mut self, _: &Arc<[Column]>) -> Option<Arc<dyn Encode>> {
        Some(Arc::new(Encoder { forms: self.forms.into() }))
    }
    fn encoded(&mut self, rows: Vec<u8>) -> SqlResult<()> {
        let mut out = self.connection.output.borrow_mut();
        if out.is_empty() {
            *out = rows
        } else {
            out.extend_from_slice(&rows)
        }
        let is_much = out.len() >= MUCH;
        drop(out);
        if is_much { self.much() } else { Ok(()) }
    }
    fn done(&mut self, tag: &str, token: Option<Token>) -> SqlResult<()> {
        self.tell_notices();
        if std::mem::take(&mut self.copies_out) {
            back::empty(&mut self.connection.output.borrow_mut(), back::COPY_DONE)
        }
        *self.token = (*self.token).max(token);
        self.tag = Some(tag.to_string());
        Ok(())
    }
    fn copying(&mut self, columns: usize, rows: CopiedRows) {
        self.copied = (columns, rows)
    }
    fn copy_in(&mut self) -> SqlResult<Box<dyn Read + '_>> {
        self.tell_notices();
        self.begin_copy(true);
        Ok(Box::new(CopyIn::new(self)))
    }
    fn copy_out(&mut self) -> SqlResult<Box<dyn Write + '_>> {
        self.tell_notices();
        self.begin_copy(false);
        self.copies_out = true;
        Ok(Box::new(CopyOut::new(self)))
    }
}
