//! What `workers` does in a build without cargo's feature "scan": each statement is its session's thread's
//! alone.
use crate::session::Session;
use crate::session::plan::Plan;
use crate::session::planned::Telling;
use ondol_engine::{Table, Token};
use ondol_sql::bound::{Bound, Query};
use ondol_sql::code::Program;
use ondol_types::{SqlResult, ValueRef};
use std::sync::Arc;

impl Session {
    pub(crate) fn workers_for(&self, _: &Plan) -> usize {
        0
    }
    pub(crate) fn workers_that_count(&self, _: &Program) -> usize {
        0
    }
    pub(crate) fn workers_for_rows(&self, _: &Plan) -> usize {
        0
    }
    pub(crate) fn tell_parted(
        &mut self,
        plan: &Plan,
        _: usize,
        params: &[ValueRef<'_>],
        telling: &mut Telling<'_>,
    ) -> SqlResult<(u64, Option<Token>)> {
        self.run_program(plan, params, telling)
    }
    pub(crate) fn fill_parted(
        &mut self,
        _: &Arc<Table>,
        _: &Query,
        _: &Bound,
        _: u64,
    ) -> SqlResult<Option<u64>> {
        Ok(None)
    }
}
