//! The TPC-C driver on any PostgreSQL server, through its protocol with prepared statements.
use super::backend::{Backend, Commit, CopyText, Failure, Link, RowSet, Source, Tried, Val};
use super::schema::{INDEXES, Kind, TpccTable, statements, tables};
use crate::{Error, Result};
use postgres::fallible_iterator::FallibleIterator;
use postgres::types::private::BytesMut;
use postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use postgres::{Client, NoTls, Statement};

pub struct Postgres {
    /// As libpq's connection strings: "host=/run/postgresql user=postgres dbname=bench".
    pub connection: String,
    /// Value of synchronous_commit.
    pub synchronous_commit: String,
    /// As SQL names it.
    pub isolation: String,
}

impl Postgres {
    fn open(&self) -> Result<Client> {
        let mut c = Client::connect(&self.connection, NoTls)?;
        c.batch_execute(&format!("SET synchronous_commit = {}", self.synchronous_commit))?;
        Ok(c)
    }
}

pub(super) fn oid(kind: Kind) -> Type {
    match kind {
        Kind::Int => Type::INT4,
        Kind::Big => Type::INT8,
        Kind::Money | Kind::Rate => Type::NUMERIC,
        Kind::Text => Type::TEXT,
        Kind::Time => Type::TIMESTAMP,
    }
}

/// A value on its way to the server, in the binary form of its kind.
#[derive(Debug)]
struct Out<'a>(Val<'a>, Kind);

/// NUMERIC's binary form: digits to the base of 10,000, weight, sign, scale.
fn put_numeric(n: i64, scale: u16, out: &mut BytesMut) {
    // With four decimals the fraction is one digit.
    let value = n.unsigned_abs() as u128 * 10u128.pow(4 - u32::from(scale.min(4)));
    let mut digits: Vec<u16> = vec![];
    let mut rest = value;
    while rest > 0 {
        digits.push((rest % 10_000) as u16);
        rest /= 10_000;
    }
    digits.reverse();
    let weight = digits.len() as i16 - 2;
    let sign: u16 = if n < 0 { 0x4000 } else { 0 };
    for word in [digits.len() as u16, weight as u16, sign, scale].into_iter().chain(digits) {
        out.extend_from_slice(&word.to_be_bytes());
    }
}

fn take_numeric(raw: &[u8], scale: u16) -> Result<i64> {
    let words: Vec<i64> = raw.chunks_exact(2).map(|b| u16::from_be_bytes([b[0], b[1]]).into()).collect();
    let [n, weight, sign, _, digits @ ..] = words.as_slice() else {
        return Err("a NUMERIC is cut short".into());
    };
    if digits.len() as i64 != *n || !matches!(sign, 0 | 0x4000) {
        return Err("a NUMERIC is not finite, or malformed".into());
    }
    let mut value = 0i128;
    for (i, d) in digits.iter().enumerate() {
        // The exponent to the base of 10,000; those below -1 would have more than four decimals.
        let exponent = *weight as i16 as i64 - i as i64 + 1;
        match u32::try_from(exponent) {
            Ok(e) => value += *d as i128 * 10_000i128.pow(e),
            Err(_) if *d == 0 => {}
            Err(_) => return Err("a NUMERIC has more than four decimals".into()),
        }
    }
    let unit = 10i128.pow(4 - u32::from(scale.min(4)));
    if value % unit != 0 {
        return Err(format!("a NUMERIC has more than {scale} decimals").into());
    }
    let value = i64::try_from(value / unit)?;
    Ok(if *sign == 0 { value } else { -value })
}

/// Writes the binary form of a value; whether it is one (false: NULL).
pub(super) fn put_value(value: Val<'_>, kind: Kind, out: &mut BytesMut) -> Result<bool> {
    match (value, kind) {
        (Val::Null, _) => return Ok(false),
        (Val::Text(t), _) => out.extend_from_slice(t.as_bytes()),
        (Val::Int(n), Kind::Int) => out.extend_from_slice(&i32::try_from(n)?.to_be_bytes()),
        (Val::Int(n), Kind::Big | Kind::Time) => out.extend_from_slice(&n.to_be_bytes()),
        (Val::Int(n), kind) => put_numeric(n, kind.scale(), out),
    }
    Ok(true)
}

/// Reads the binary form of a value that is not NULL.
pub(super) fn take_value(raw: &[u8], kind: Kind, out: &mut RowSet) -> Result<()> {
    match kind {
        Kind::Int => out.int(i32::from_be_bytes(raw.try_into()?).into()),
        Kind::Big | Kind::Time => out.int(i64::from_be_bytes(raw.try_into()?)),
        Kind::Money | Kind::Rate => out.int(take_numeric(raw, kind.scale())?),
        // char(n) comes with its padding.
        Kind::Text => out.text(std::str::from_utf8(raw)?.trim_end_matches(' ')),
    }
    Ok(())
}

impl ToSql for Out<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull> {
        Ok(if put_value(self.0, self.1, out)? { IsNull::No } else { IsNull::Yes })
    }
    fn accepts(_: &Type) -> bool {
        true
    }
    to_sql_checked!();
}

/// The bytes of a value as the server sent them.
struct In<'a>(&'a [u8]);

impl<'a> FromSql<'a> for In<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<In<'a>> {
        Ok(In(raw))
    }
    fn accepts(_: &Type) -> bool {
        true
    }
}

fn take(r: &postgres::Row, kinds: &[Kind], out: &mut RowSet) -> Result<()> {
    for (i, kind) in kinds.iter().enumerate() {
        let Some(In(raw)) = r.try_get::<_, Option<In<'_>>>(i)? else {
            out.null();
            continue;
        };
        take_value(raw, *kind, out)?;
    }
    Ok(())
}

impl Backend for Postgres {
    fn name(&self) -> String {
        "PostgreSQL".into()
    }
    fn settings(&self) -> Vec<(String, String)> {
        let mut all = vec![];
        let ask =
            |c: &mut Client, what: &str| c.query_one(&format!("SHOW {what}"), &[]).and_then(|r| r.try_get(0));
        if let Ok(mut c) = self.open() {
            for what in
                ["server_version", "shared_buffers", "fsync", "full_page_writes", "synchronous_commit"]
            {
                let value: String = ask(&mut c, what).unwrap_or_else(|e| e.to_string());
                all.push((what.to_string(), value));
            }
        }
        all.push(("isolation".into(), self.isolation.clone()));
        all.push(("CPU seconds".into(), "of the client alone".into()));
        all.push(("durability:".into(), format!("synchronous_commit={}", self.synchronous_commit)));
        all
    }

    fn create(&self) -> Result<()> {
        let mut c = self.open()?;
        for t in tables() {
            let columns: Vec<String> = t.columns.iter().map(|c| format!("{} {}", c.name, c.sql)).collect();
            c.batch_execute(&format!(
                "DROP TABLE IF EXISTS {0}; CREATE TABLE {0} ({1})",
                t.name,
                columns.join(", ")
            ))?;
        }
        Ok(())
    }

    fn load(&self, table: &TpccTable, rows: Source<'_>) -> Result<u64> {
        let mut c = self.open()?;
        let mut w = c.copy_in(&format!("COPY {} FROM STDIN", table.name))?;
        std::io::copy(&mut CopyText::new(table, rows), &mut w)?;
        Ok(w.finish()?)
    }

    fn ready(&self) -> Result<()> {
        let mut c = self.open()?;
        for t in tables().iter().filter(|t| !t.key.is_empty()) {
            c.batch_execute(&format!("ALTER TABLE {} ADD PRIMARY KEY ({})", t.name, t.key.join(", ")))?;
        }
        for (name, table, columns) in INDEXES {
            c.batch_execute(&format!("CREATE INDEX {name} ON {table} ({columns})"))?;
        }
        c.batch_execute("VACUUM ANALYZE")?;
        Ok(())
    }

    fn scan(&self, table: &TpccTable, each: &mut dyn FnMut(&RowSet) -> Result<()>) -> Result<()> {
        let mut c = self.open()?;
        let kinds: Vec<Kind> = table.columns.iter().map(|c| c.kind).collect();
        let names: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
        let sql = format!("SELECT {} FROM {}", names.join(", "), table.name);
        let mut rows = c.query_raw(&sql, std::iter::empty::<&(dyn ToSql + Sync)>())?;
        let mut row = RowSet::default();
        while let Some(r) = rows.next()? {
            row.clear(kinds.len());
            take(&r, &kinds, &mut row)?;
            each(&row)?;
        }
        Ok(())
    }

    fn connect(&self, work: &mut dyn FnMut(&mut dyn Link) -> Result<()>) -> Result<()> {
        let mut client = self.open()?;
        let mut all = vec![];
        for s in statements() {
            let types: Vec<Type> = s.params.iter().map(|k| oid(*k)).collect();
            all.push((client.prepare_typed(&s.sql, &types)?, s.params, s.results));
        }
        let begin = format!("BEGIN ISOLATION LEVEL {}", self.isolation);
        let begin_read = format!("{begin} READ ONLY");
        work(&mut Connected { client, statements: all, begin, begin_read })
    }
}

struct Connected {
    client: Client,
    statements: Vec<(Statement, Vec<Kind>, Vec<Kind>)>,
    begin: String,
    begin_read: String,
}

fn failure(e: postgres::Error) -> Failure {
    match e.code().map(|c| c.code()) {
        Some("40001" | "40P01" | "55P03") => Failure::Retry,
        _ => Failure::Fatal(Error::from(e)),
    }
}

impl Connected {
    fn add(&mut self, q: usize, params: &[Val<'_>], out: &mut RowSet) -> Tried<u64> {
        let (statement, kinds, results) = &self.statements[q];
        let params = params.iter().zip(kinds).map(|(v, k)| Out(*v, *k));
        let mut rows = self.client.query_raw(statement, params).map_err(failure)?;
        let mut n = 0;
        while let Some(r) = rows.next().map_err(failure)? {
            take(&r, results, out)?;
            n += 1;
        }
        if results.is_empty() {
            n = rows.rows_affected().unwrap_or(0);
        }
        Ok(n)
    }
}

impl Link for Connected {
    fn begin(&mut self, read_only: bool) -> Tried<()> {
        let sql = if read_only { &self.begin_read } else { &self.begin };
        self.client.batch_execute(sql).map_err(failure)
    }
    fn call(&mut self, q: usize, params: &[Val<'_>], out: &mut RowSet) -> Tried<u64> {
        out.clear(self.statements[q].2.len());
        self.add(q, params, out)
    }
    fn call_each(&mut self, q: usize, params: &[Val<'_>], width: usize, out: &mut RowSet) -> Tried<bool> {
        out.clear(self.statements[q].2.len());
        let mut good = true;
        for p in params.chunks(width) {
            good &= self.add(q, p, out)? == 1;
        }
        Ok(good)
    }
    fn commit(&mut self) -> Tried<Commit> {
        self.client.batch_execute("COMMIT").map_err(failure)?;
        Ok(Commit::Done)
    }
    fn rollback(&mut self) {
        // Outside a transaction it is a warning; a broken connection shows at the next statement.
        let _ = self.client.batch_execute("ROLLBACK");
    }
    fn wait(&mut self, _: u64) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numerics_survive() {
        for scale in [2, 4] {
            for n in [0, 1, -1, 99, 100, 12_345, -9_999, 10_000, 123_456_789_012, -500_000] {
                let mut b = BytesMut::new();
                put_numeric(n, scale, &mut b);
                assert_eq!(take_numeric(&b, scale).unwrap(), n, "{n} with {scale} decimals: {b:?}");
            }
        }
        let mut b = BytesMut::new();
        put_numeric(1, 4, &mut b);
        assert!(take_numeric(&b, 2).is_err());
        assert!(take_numeric(&[0, 1], 2).is_err());
    }
}
