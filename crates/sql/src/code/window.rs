//! What a program knows of a window: where in a stored row its keys and its functions' arguments are, and how
//! its frames go. Its stored form and its checks are here.
//!
//! - **D1** A row holds what is kept of the input, then keys, filters and arguments that are none of that.
//!   All that is said of a row is said by the numbers of its columns.
//! - **D2** Distances of frames are computed once in a run; a definition tells only that there are some.
use super::operand::CodeReader;
use super::program::SortKey;
use crate::bound::{Computed, Exclude, FrameUnit};
use ondol_types::agg::{self, AggId};
use ondol_types::window::{self, WindowId};

/// Where a frame begins or ends; how far before or behind the row, the run knows (D2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Unbounded,
    CurrentRow,
    Preceding,
    Following,
}

impl End {
    pub fn has_distance(self) -> bool {
        matches!(self, End::Preceding | End::Following)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallDef {
    pub what: Computed,
    pub args: Vec<u16>,
    /// The column that is true in rows that an aggregate takes.
    pub filter: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowDef {
    pub width: u16,
    /// Rows that are equal in these are a partition.
    pub partition: Vec<u16>,
    /// Rows of a partition that are equal in these are peers.
    pub order: Vec<u16>,
    pub unit: FrameUnit,
    pub start: End,
    pub end: End,
    pub exclude: Exclude,
    /// What distances by RANGE are of.
    pub range: Option<SortKey>,
    pub calls: Vec<CallDef>,
}

fn put_columns(out: &mut Vec<u8>, list: &[u16]) {
    out.extend_from_slice(&(list.len() as u32).to_le_bytes());
    list.iter().for_each(|c| out.extend_from_slice(&c.to_le_bytes()));
}

fn columns(r: &mut CodeReader<'_>) -> Option<Vec<u16>> {
    (0..r.count()?).map(|_| r.u16()).collect()
}

/// Stands for no column.
const NONE: u16 = u16::MAX;

impl WindowDef {
    /// How many distances a run computes.
    pub fn distances(&self) -> usize {
        usize::from(self.start.has_distance()) + usize::from(self.end.has_distance())
    }

    pub fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.width.to_le_bytes());
        put_columns(out, &self.partition);
        put_columns(out, &self.order);
        out.extend([self.unit as u8, self.start as u8, self.end as u8, self.exclude as u8]);
        let (column, flags) = match self.range {
            Some(k) => (k.column, k.desc as u8 | (k.nulls_first as u8) << 1),
            None => (NONE, 0),
        };
        out.extend_from_slice(&column.to_le_bytes());
        out.push(flags);
        out.extend_from_slice(&(self.calls.len() as u32).to_le_bytes());
        for c in &self.calls {
            let (kind, number) = match c.what {
                Computed::Function(id) => (0, id.0),
                Computed::Aggregate(id) => (1, id.0),
            };
            out.push(kind);
            out.extend_from_slice(&number.to_le_bytes());
            put_columns(out, &c.args);
            out.extend_from_slice(&c.filter.unwrap_or(NONE).to_le_bytes());
        }
    }

    /// `None`: bytes are missing, or have no meaning.
    pub fn get(r: &mut CodeReader<'_>) -> Option<WindowDef> {
        let end = |n: u8| {
            [End::Unbounded, End::CurrentRow, End::Preceding, End::Following].get(usize::from(n)).copied()
        };
        let width = r.u16()?;
        let (partition, order) = (columns(r)?, columns(r)?);
        let units = [FrameUnit::Rows, FrameUnit::Range, FrameUnit::Groups];
        let unit = *units.get(usize::from(r.u8()?))?;
        let (start, end) = (end(r.u8()?)?, end(r.u8()?)?);
        let words = [Exclude::NoOthers, Exclude::CurrentRow, Exclude::Group, Exclude::Ties];
        let exclude = *words.get(usize::from(r.u8()?))?;
        let (column, flags) = (r.u16()?, r.u8().filter(|f| *f < 4)?);
        let key = SortKey { column, desc: flags & 1 != 0, nulls_first: flags & 2 != 0 };
        let range = (column != NONE).then_some(key);
        let mut calls = Vec::new();
        for _ in 0..r.count()? {
            let what = match r.u8()? {
                0 => Computed::Function(WindowId(r.u16()?)),
                1 => Computed::Aggregate(AggId(r.u16()?)),
                _ => return None,
            };
            let args = columns(r)?;
            let filter = Some(r.u16()?).filter(|f| *f != NONE);
            calls.push(CallDef { what, args, filter });
        }
        Some(WindowDef { width, partition, order, unit, start, end, exclude, range, calls })
    }

    /// Says what is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        let of_calls = self.calls.iter().flat_map(|c| c.args.iter().chain(&c.filter));
        let range = self.range.iter().map(|k| &k.column);
        let mut all = self.partition.iter().chain(&self.order).chain(of_calls).chain(range);
        if let Some(beyond) = all.find(|c| **c >= self.width) {
            return Err(format!("column {beyond} of {}", self.width));
        }
        if self.unit == FrameUnit::Range && self.distances() > 0 && self.range.is_none() {
            return Err("a distance of nothing".to_string());
        }
        self.calls.iter().try_for_each(|c| {
            let (takes, number) = match c.what {
                Computed::Function(id) => (window::find(id).map(|d| d.args.len()), id.0),
                Computed::Aggregate(id) => (agg::find(id).map(|d| d.fed()), id.0),
            };
            match takes {
                Some(n) if n == c.args.len() => Ok(()),
                _ => Err(format!("no function {number} of {} arguments", c.args.len())),
            }
        })
    }
}
