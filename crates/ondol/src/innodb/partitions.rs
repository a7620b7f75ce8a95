//! A partitioned table: its partitions' files, one after the other, are one table.
use crate::innodb::InnodbTable;
use ondol_sql::foreign::{ForeignRange, ForeignRows, ForeignTable, GoOn};
use ondol_types::{SqlError, SqlResult, Type, Value, ValueRef};
use std::ops::Range;
use std::sync::Arc;

pub(crate) struct Partitions {
    /// At least one; all have the same columns.
    all: Vec<InnodbTable>,
}

impl Partitions {
    pub fn new(all: Vec<InnodbTable>) -> SqlResult<Partitions> {
        check_same(&all)?;
        Ok(Partitions { all })
    }
}

/// Partitions of one table have the same columns.
pub(crate) fn check_same(all: &[InnodbTable]) -> SqlResult<()> {
    let odd = all.iter().find(|p| p.columns() != all[0].columns());
    odd.map_or(Ok(()), |odd| {
        let message = format!("{} has other columns than {}", odd.name(), all[0].name());
        Err(SqlError::new("55000", message)
            .detail("They are taken for partitions of one table by their names."))
    })
}

impl ForeignTable for Partitions {
    fn name(&self) -> String {
        format!("{} and {} further partitions", self.all[0].name(), self.all.len() - 1)
    }
    fn notice(&self) -> Option<String> {
        self.all[0].notice()
    }
    fn columns(&self) -> &[(String, Type)] {
        self.all[0].columns()
    }
    fn estimate_rows(&self) -> f64 {
        self.all.iter().map(InnodbTable::estimate_rows).sum()
    }
    fn pages(&self) -> usize {
        self.all.iter().map(InnodbTable::pages).sum()
    }
    fn key(&self) -> Option<u16> {
        let key = self.all[0].key();
        key.filter(|_| self.all.iter().all(|p| p.key() == key))
    }
    fn primary(&self) -> Vec<&str> {
        self.all[0].primary()
    }
    fn range(
        &self,
        columns: &[u16],
        low: &Value,
        high: &Value,
        parts: usize,
    ) -> SqlResult<Arc<dyn ForeignRange>> {
        let each = parts.div_ceil(self.all.len());
        let ranges = self.all.iter().map(|p| p.range(columns, low, high, each));
        Ok(Arc::new(Ranges { all: ranges.collect::<SqlResult<Arc<[_]>>>()? }))
    }
}

/// What is to be read of each.
struct Ranges {
    all: Arc<[Arc<dyn ForeignRange>]>,
}

impl ForeignRange for Ranges {
    fn parts(&self) -> usize {
        self.all.iter().map(|r| r.parts()).sum()
    }
    fn rows(&self, parts: Range<usize>) -> Box<dyn ForeignRows> {
        let (mut first, mut wanted) = (0, Vec::new());
        for (n, range) in self.all.iter().enumerate() {
            let end = first + range.parts();
            let own = parts.start.clamp(first, end) - first..parts.end.clamp(first, end) - first;
            if !own.is_empty() {
                wanted.push((n, own))
            }
            first = end
        }
        wanted.reverse();
        Box::new(Reading { all: self.all.clone(), wanted, now: None })
    }
}

/// Partitions while they are read.
struct Reading {
    all: Arc<[Arc<dyn ForeignRange>]>,
    /// Those that were not begun, the next one last, each with its parts.
    wanted: Vec<(usize, Range<usize>)>,
    now: Option<Box<dyn ForeignRows>>,
}

impl Reading {
    /// The partition that is being read, or the next one.
    fn current(&mut self) -> Option<&mut Box<dyn ForeignRows>> {
        if self.now.is_none() {
            let (n, parts) = self.wanted.pop()?;
            self.now = Some(self.all[n].rows(parts));
        }
        self.now.as_mut()
    }
}

impl ForeignRows for Reading {
    fn next(&mut self, go_on: GoOn<'_>, put: &mut dyn FnMut(usize, ValueRef<'_>)) -> SqlResult<bool> {
        while let Some(rows) = self.current() {
            if rows.next(go_on, put)? {
                return Ok(true);
            }
            self.now = None
        }
        Ok(false)
    }
    fn count(&mut self, workers: usize, go_on: GoOn<'_>) -> SqlResult<u64> {
        let mut total = 0;
        while let Some(rows) = self.current() {
            total += rows.count(workers, go_on)?;
            self.now = None
        }
        Ok(total)
    }
}
