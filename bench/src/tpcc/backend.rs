//! What the driver asks of a database, and rows on their way.
use super::schema::{Kind, TpccTable};
use crate::{Error, Result};
use std::fmt::Write;

/// A value; its kind is known from its place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Val<'a> {
    Null,
    Int(i64),
    Text(&'a str),
}

impl<'a> Val<'a> {
    pub fn int(self) -> Result<i64> {
        match self {
            Val::Int(n) => Ok(n),
            other => Err(format!("expected a number, found {other:?}").into()),
        }
    }
    pub fn text(self) -> Result<&'a str> {
        match self {
            Val::Text(t) => Ok(t),
            other => Err(format!("expected a text, found {other:?}").into()),
        }
    }
    pub fn is_null(self) -> bool {
        self == Val::Null
    }
}

#[derive(Clone, Copy)]
enum Cell {
    Null,
    Int(i64),
    Text(u32, u32),
}

/// Rows whose memory is used again.
#[derive(Default)]
pub struct RowSet {
    width: usize,
    cells: Vec<Cell>,
    text: String,
}

impl RowSet {
    pub fn clear(&mut self, width: usize) {
        self.width = width;
        self.cells.clear();
        self.text.clear();
    }
    pub fn len(&self) -> usize {
        self.cells.len().checked_div(self.width).unwrap_or(0)
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    pub fn null(&mut self) {
        self.cells.push(Cell::Null)
    }
    pub fn int(&mut self, n: i64) {
        self.cells.push(Cell::Int(n))
    }
    pub fn text(&mut self, t: &str) {
        let start = self.text.len() as u32;
        self.text.push_str(t);
        self.cells.push(Cell::Text(start, self.text.len() as u32));
    }
    /// A text that `f` writes.
    pub fn write(&mut self, f: impl FnOnce(&mut String)) {
        let start = self.text.len() as u32;
        f(&mut self.text);
        self.cells.push(Cell::Text(start, self.text.len() as u32));
    }
    pub fn get(&self, row: usize, column: usize) -> Val<'_> {
        match self.cells.get(row * self.width + column) {
            Some(Cell::Int(n)) => Val::Int(*n),
            Some(Cell::Text(a, b)) => Val::Text(&self.text[*a as usize..*b as usize]),
            Some(Cell::Null) | None => Val::Null,
        }
    }
    /// The values of a row.
    pub fn row(&self, row: usize) -> impl Iterator<Item = Val<'_>> {
        (0..self.width).map(move |c| self.get(row, c))
    }
}

/// Why a transaction did not come through.
#[derive(Debug)]
pub enum Failure {
    /// Another transaction was in the way: roll back and try again.
    Retry,
    Fatal(Error),
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(e: E) -> Failure {
        Failure::Fatal(e.into())
    }
}

pub type Tried<T> = std::result::Result<T, Failure>;

/// When a commit may be acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// It is (as durable as it will be by itself).
    Done,
    /// When [`Link::wait`] returned for this.
    Pending(u64),
}

/// One connection with its prepared statements.
pub trait Link {
    fn begin(&mut self, read_only: bool) -> Tried<()>;
    /// Runs statement `q` of [`super::schema::statements`]; its rows replace those in `out`. Gives the number
    /// of rows given or changed.
    fn call(&mut self, q: usize, params: &[Val<'_>], out: &mut RowSet) -> Tried<u64>;
    /// The same once for each set of `width` parameters; every call must give or change one row, or
    /// `Ok(false)` says that one did not. `out` has the rows in the order of the calls.
    fn call_each(&mut self, q: usize, params: &[Val<'_>], width: usize, out: &mut RowSet) -> Tried<bool>;
    fn commit(&mut self) -> Tried<Commit>;
    fn rollback(&mut self);
    /// Waits until a pending commit, and all before it on this connection, are durable.
    fn wait(&mut self, pending: u64) -> Result<()>;
}

/// Rows made one by one: gives false at the end.
pub type Source<'a> = &'a mut dyn FnMut(&mut RowSet) -> bool;

pub trait Backend: Sync {
    fn name(&self) -> String;
    fn settings(&self) -> Vec<(String, String)>;
    /// Makes the tables.
    fn create(&self) -> Result<()>;
    fn load(&self, table: &TpccTable, rows: Source<'_>) -> Result<u64>;
    /// Indexes, registered queries and whatever else is to be done after loading.
    fn ready(&self) -> Result<()>;
    /// Every row of a table, in any order.
    fn scan(&self, table: &TpccTable, each: &mut dyn FnMut(&RowSet) -> Result<()>) -> Result<()>;
    /// Runs `work` with a connection of this thread's own.
    fn connect(&self, work: &mut dyn FnMut(&mut dyn Link) -> Result<()>) -> Result<()>;
}

/// A NUMERIC's text.
pub fn decimal(n: i64, scale: u16, out: &mut String) {
    let unit = 10u64.pow(scale.into());
    let sign = if n < 0 { "-" } else { "" };
    let n = n.unsigned_abs();
    let _ = match scale {
        0 => write!(out, "{sign}{n}"),
        s => write!(out, "{sign}{}.{:0width$}", n / unit, n % unit, width = s as usize),
    };
}

/// A timestamp's text: microseconds since 2000 in the Gregorian calendar (the days-to-civil algorithm of
/// Howard Hinnant).
pub fn timestamp(us: i64, out: &mut String) {
    let (days, rest) = (us.div_euclid(86_400_000_000), us.rem_euclid(86_400_000_000));
    // Days since March 1 of year 0.
    let z = days + 10_957 + 719_468;
    let (era, day_of_era) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let m = (5 * day_of_year + 2) / 153;
    let (day, month) = (day_of_year - (153 * m + 2) / 5 + 1, if m < 10 { m + 3 } else { m - 9 });
    let year = year + era * 400 + (month <= 2) as i64;
    let s = rest / 1_000_000;
    let _ = write!(
        out,
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}.{:06}",
        s / 3600,
        s / 60 % 60,
        s % 60,
        rest % 1_000_000
    );
}

/// Makes COPY's text format of a source while it is read. Our texts hold nothing that needs escaping.
pub struct CopyText<'a> {
    kinds: Vec<Kind>,
    rows: Source<'a>,
    row: RowSet,
    text: String,
    at: usize,
}

impl<'a> CopyText<'a> {
    pub fn new(table: &TpccTable, rows: Source<'a>) -> CopyText<'a> {
        let kinds = table.columns.iter().map(|c| c.kind).collect();
        CopyText { kinds, rows, row: RowSet::default(), text: String::new(), at: 0 }
    }
}

impl std::io::Read for CopyText<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.text.len() {
            self.text.clear();
            self.at = 0;
            while self.text.len() < 1 << 16 {
                self.row.clear(self.kinds.len());
                if !(self.rows)(&mut self.row) {
                    break;
                }
                for (i, (v, kind)) in self.row.row(0).zip(&self.kinds).enumerate() {
                    if i > 0 {
                        self.text.push('\t');
                    }
                    match (v, kind) {
                        (Val::Null, _) => self.text.push_str("\\N"),
                        (Val::Text(t), _) => self.text.push_str(t),
                        (Val::Int(n), Kind::Time) => timestamp(n, &mut self.text),
                        (Val::Int(n), kind) => decimal(n, kind.scale(), &mut self.text),
                    }
                }
                self.text.push('\n');
            }
        }
        let n = buf.len().min(self.text.len() - self.at);
        buf[..n].copy_from_slice(&self.text.as_bytes()[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_postgresqls() {
        let text = |f: &dyn Fn(&mut String)| {
            let mut s = String::new();
            f(&mut s);
            s
        };
        assert_eq!(text(&|s| decimal(-1234, 2, s)), "-12.34");
        assert_eq!(text(&|s| decimal(5, 4, s)), "0.0005");
        assert_eq!(text(&|s| decimal(-7, 0, s)), "-7");
        assert_eq!(text(&|s| timestamp(0, s)), "2000-01-01 00:00:00.000000");
        assert_eq!(
            text(&|s| timestamp(59 * 86_400_000_000 + 3_661_000_001, s)),
            "2000-02-29 01:01:01.000001"
        );
        assert_eq!(text(&|s| timestamp(-1, s)), "1999-12-31 23:59:59.999999");
        assert_eq!(text(&|s| timestamp(8_766 * 86_400_000_000, s)), "2024-01-01 00:00:00.000000");
    }
}
