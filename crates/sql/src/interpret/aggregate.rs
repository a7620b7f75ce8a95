//! Groups, and the aggregates that their rows are fed to: run for each row, so each is a short function of
//! its own.
use super::datum::{Allowance, Datum, with_values};
use super::exec::internal;
use super::frame::{Frame, Groups};
use crate::code::operand::{Col, Group, Span};
use ondol_types::SqlResult;
use ondol_types::agg::AggState;

/// The current group becomes the key's, which is begun if it is new.
pub(super) fn group_for(
    g: &mut Groups,
    key: &[Datum],
    memory: &[u8],
    allow: &mut Allowance,
) -> SqlResult<()> {
    if g.table.put_new(key, memory, allow)?
        && let Some(def) = &g.def
    {
        g.states.extend(def.aggs.iter().map(|(id, _)| AggState::new(*id)));
        allow.take(def.aggs.len() * size_of::<AggState>())?;
    }
    Ok(())
}

/// The state of an aggregate in the current group.
#[inline]
pub(super) fn state_of(g: &mut Groups, agg: u16) -> Option<&mut AggState> {
    let n = g.def.as_ref()?.aggs.len();
    g.states.get_mut(g.table.current().checked_mul(n)?.checked_add(agg as usize)?)
}

/// The current group becomes that of a key in registers.
#[inline(never)]
pub(super) fn choose(f: &mut Frame, group: Group, key: Span) -> SqlResult<()> {
    group_for(&mut f.groups[group.0 as usize], &f.regs[key.range()], &f.memory, &mut f.allow)
}

/// Feeds a row's arguments to an aggregate of the current group.
#[inline(never)]
pub(super) fn feed(f: &mut Frame, group: Group, agg: Col, args: Span) -> SqlResult<()> {
    let Some(state) = state_of(&mut f.groups[group.0 as usize], agg.0) else {
        return Err(internal("an aggregate is fed before its group is chosen"));
    };
    match with_values(&f.regs[args.range()], &f.memory, |v| state.step(v))? {
        0 => Ok(()),
        more => f.allow.take(more),
    }
}
