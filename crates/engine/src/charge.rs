//! Memory held above the engine (a statement's intermediate rows) that counts against the database's limit.
use crate::error;
use ondol_kernel::memory::Budget;
use ondol_types::SqlResult;
use std::sync::Arc;

/// Bytes charged to a database's memory limit; given back when this is dropped.
#[derive(Debug)]
pub struct Charge {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Charge {
    pub(crate) fn new(budget: Arc<Budget>) -> Charge {
        Charge { budget, bytes: 0 }
    }
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    /// Charges more; refused with 53200 at the limit. Takes an atomic operation on what all sessions share:
    /// large steps are better than small ones.
    pub fn grow(&mut self, bytes: usize) -> SqlResult<()> {
        self.budget.try_charge(bytes).map_err(error::kernel)?;
        self.bytes += bytes;
        Ok(())
    }
    /// Another, empty, against the same limit.
    pub fn another(&self) -> Charge {
        Charge::new(self.budget.clone())
    }
    /// Charges what is missing to so many bytes, as [`Charge::grow`], or gives back what is more.
    pub fn resize(&mut self, bytes: usize) -> SqlResult<()> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.grow(more),
            None => {
                self.budget.give_back(self.bytes - bytes);
                self.bytes = bytes;
                Ok(())
            }
        }
    }
    /// Takes over what another charged of the same budget.
    pub(crate) fn append(&mut self, other: &mut Charge) {
        self.bytes += std::mem::take(&mut other.bytes)
    }
    pub fn clear(&mut self) {
        self.budget.give_back(std::mem::take(&mut self.bytes))
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.clear()
    }
}
