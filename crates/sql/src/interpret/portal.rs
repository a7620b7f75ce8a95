//! Execution that stops after some rows and goes on later: the inside of a cursor (interpret/N4).
//!
//! ```text
//! open:  the statement is begun, its view kept by a portal, and ended; the frame is made ready
//! run:   the loop, by that view, from where it was left behind an Emit   ... again ...   to its end
//! ```
//! - **S1** Between two runs nothing is held but the frame, the portal's snapshot, and the tables that the
//!   transaction has named: the loop pins and latches nothing between its instructions.
//! - **S2** Programs that change rows cannot be left ([`Suspended::can_be_left`]): what they do is one
//!   command's. Those that lock rows can: each run locks by a command of its own (engine/portal/P5).
//! - **S3** What it saw stays readable until all rows were given, or until it is closed, if that was asked
//!   for: then it can begin anew and gives the same rows, and the slots of the rows that it gave are not
//!   taken by others.
use super::exec::{Exit, PLAIN, exec};
use super::frame::Frame;
use super::rows::{RowView, Sink};
use super::{Env, begin};
use crate::code::{Op, Program};
use ondol_engine::{Connection, Portal};
use ondol_types::{SqlResult, ValueRef};
use std::sync::Arc;

/// A program that was begun, and how far it came.
pub struct Suspended {
    frame: Box<Frame>,
    program: Arc<Program>,
    portal: Portal,
    /// Where to go on; `None`: at the end.
    at: Option<usize>,
    /// S3: until it is closed.
    stays: bool,
}

/// Takes so many rows.
struct Few<'a> {
    sink: &'a mut dyn Sink,
    taken: u64,
    most: u64,
}

impl Sink for Few<'_> {
    fn row(&mut self, row: &RowView<'_>) -> SqlResult<bool> {
        let more = self.sink.row(row)?;
        self.taken += 1;
        Ok(more && self.taken < self.most)
    }
}

impl Suspended {
    /// Begins a program in the explicit transaction, without running any of it. A stale program is refused as
    /// by [`super::run`].
    pub fn open(
        program: &Arc<Program>,
        connection: &mut Connection,
        params: &[ValueRef<'_>],
        env: &Env<'_>,
    ) -> SqlResult<Suspended> {
        debug_assert!(Self::can_be_left(program), "S2");
        let mut frame = Box::<Frame>::default();
        begin(&mut frame, program, connection, params, env)?;
        match connection.open_portal(&program.tables) {
            Ok(portal) => {
                connection.end_statement()?;
                Ok(Suspended { frame, program: program.clone(), portal, at: Some(0), stays: false })
            }
            Err(e) => {
                connection.abort_statement();
                Err(e)
            }
        }
    }
    /// Whether the program changes no rows, also not by the functions that it calls.
    pub fn can_be_left(program: &Program) -> bool {
        let changes = |op: &Op| {
            matches!(
                op,
                Op::Insert { .. }
                    | Op::InsertNew { .. }
                    | Op::InsertOrLock { .. }
                    | Op::Update { .. }
                    | Op::PointUpdate { .. }
                    | Op::Delete { .. }
            )
        };
        !program.writes || program.functions.is_empty() && !program.ops.iter().any(changes)
    }
    /// What it saw is kept until it is closed (S3).
    pub fn stay(&mut self) {
        self.stays = true
    }
    /// Begins anew (S3); `params` are those that it was opened with.
    pub fn restart(
        &mut self,
        connection: &Connection,
        params: &[ValueRef<'_>],
        env: &Env<'_>,
    ) -> SqlResult<()> {
        self.frame.finish();
        *self.frame = Default::default();
        self.frame.start(&self.program, params, env.memory_limit, connection)?;
        self.at = Some(0);
        Ok(())
    }
    /// Whether the program can be left behind each of its rows. One that gives the rows of a key by a single
    /// instruction can not; of one that asks the session, what it is told is of the moment when it is run.
    /// Such a program is to be run to its end when it was opened.
    pub fn can_pause(program: &Program) -> bool {
        !program
            .ops
            .iter()
            .any(|op| matches!(op, Op::PointRow { .. } | Op::SystemRows { .. } | Op::SystemRowsOf { .. }))
    }
    /// Whether all rows were given.
    pub fn is_done(&self) -> bool {
        self.at.is_none()
    }
    pub fn portal(&self) -> &Portal {
        &self.portal
    }
    /// Gives up to `most` further rows; how many there were. After an error it is not to be run again, and
    /// its transaction has failed.
    pub fn run(
        &mut self,
        connection: &mut Connection,
        most: u64,
        sink: &mut dyn Sink,
        env: &Env<'_>,
    ) -> SqlResult<u64> {
        let Some(start) = self.at.filter(|_| most > 0) else { return Ok(0) };
        let (frame, program) = (&mut self.frame, &self.program);
        let mut few = Few { sink, taken: 0, most };
        let left = connection.read_portal(&self.portal, program.writes, |connection| {
            frame.surround(connection, env, |frame, connection, world| {
                exec::<PLAIN>(frame, program, connection, &mut few, world, start)
            })
        })?;
        self.at = match left {
            Exit::At(at) => Some(at),
            Exit::Done => None,
        };
        if self.is_done() {
            self.stop()
        }
        Ok(few.taken)
    }
    /// Nothing more is read: what it held is given back, but for what is to stay. The portal stays open.
    pub fn stop(&mut self) {
        self.at = None;
        self.frame.finish();
        *self.frame = Default::default();
        if !self.stays {
            self.portal.read_out()
        }
    }
    /// Its portal alone.
    pub fn into_portal(self) -> Portal {
        self.portal
    }
}
