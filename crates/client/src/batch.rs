//! Several calls in one message.
use crate::statement::{Prepared, Statement};
use ondol_types::{SqlResult, ValueRef};
use ondol_wire::back;
use std::sync::Arc;

/// What a batch's calls are to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Commit {
    /// Each is a transaction of its own, unless one is open: an error of one leaves the others alone.
    Each,
    /// All are one transaction, which commits once, unless one is open: an error of one is the end of all.
    Together,
}

/// Calls of prepared statements, which go to the server in one message; neighbouring reads by a key wait
/// there for the memory together. It can be run again, or cleared and filled again.
///
/// ```no_run
/// use ondol_client::{Batch, Client, Commit, ValueRef};
///
/// # fn main() -> ondol_client::Result<()> {
/// let mut client = Client::connect("data")?; // as `ondol serve data` has it
/// let find = client.prepare("SELECT name FROM subscriber WHERE id = $1")?;
/// let mut batch = Batch::new(Commit::Each);
/// for id in 1..=50 {
///     batch.add(&find, &[ValueRef::Int8(id)])?
/// }
/// let answers = client.run(&batch)?;
/// for call in 0..answers.len() {
///     for row in answers.rows(call)? {
///         println!("{}", row.get::<&str>(0)?)
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct Batch {
    pub(crate) commit: Commit,
    /// The calls' messages, and where each call's end.
    pub(crate) messages: Vec<u8>,
    pub(crate) ends: Vec<usize>,
    pub(crate) calls: Vec<Arc<Prepared>>,
}

impl Batch {
    pub fn new(commit: Commit) -> Batch {
        Batch { commit, messages: vec![], ends: vec![], calls: vec![] }
    }
    /// The number of calls.
    pub fn len(&self) -> usize {
        self.calls.len()
    }
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }
    /// Forgets the calls, keeps the memory.
    pub fn clear(&mut self) {
        self.messages.clear();
        self.ends.clear();
        self.calls.clear()
    }
    /// The same, and what is added from now on commits so.
    pub fn reset(&mut self, commit: Commit) {
        self.clear();
        self.commit = commit
    }
    /// Adds a call of a statement of the client's that will run the batch.
    ///
    /// # Errors
    /// 08P01, if there are as many parameters as it does not have. The batch stays as it was.
    pub fn add(&mut self, statement: &Statement, params: &[ValueRef<'_>]) -> SqlResult<()> {
        statement.call(params, 0, &mut self.messages)?;
        if self.commit == Commit::Each {
            back::empty(&mut self.messages, b'S')
        }
        self.ends.push(self.messages.len());
        self.calls.push(statement.0.clone());
        Ok(())
    }
}
