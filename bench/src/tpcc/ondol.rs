//! The TPC-C driver on Ondol: every statement a registered query, called by its ID; the lines of an order go
//! as batches; money is NUMERIC.
use super::backend::{Backend, Commit, CopyText, Failure, Link, RowSet, Source, Tried, Val};
use super::schema::{INDEXES, Kind, Statement, TpccTable, statements, tables};
use crate::{Error, Result, ours};
use ondol::{Batch, Database, Isolation, Numeric, QueryId, Rows, Session, Token, ValueRef};
use std::collections::VecDeque;

/// When a commit is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When it is durable: the thread waits for it.
    Durable,
    /// When it is durable: the thread goes on meanwhile.
    InFlight,
    /// At once; a round follows in the background.
    Asynchronous,
}

pub struct Ondol {
    pub db: Database,
    pub durability: Durability,
    pub isolation: Isolation,
}

/// Keys that are only looked up whole; the others are also walked in order.
const HASHED: [&str; 5] = ["warehouse", "district", "customer", "item", "stock"];

fn function(s: &Statement) -> String {
    let params: Vec<&str> = s.params.iter().map(|k| k.sql()).collect();
    let results: Vec<String> =
        s.results.iter().enumerate().map(|(i, k)| format!("r{} {}", i + 1, k.sql())).collect();
    let returns = if results.is_empty() { "void".into() } else { format!("TABLE({})", results.join(", ")) };
    format!(
        "CREATE FUNCTION tpcc_{}({}) RETURNS {returns} LANGUAGE sql AS '{}'",
        s.name,
        params.join(", "),
        s.sql.replace('\'', "''")
    )
}

impl Backend for Ondol {
    fn name(&self) -> String {
        match self.durability {
            Durability::Durable => "Ondol durable".into(),
            Durability::InFlight => "Ondol durable, in flight".into(),
            Durability::Asynchronous => "Ondol asynchronous".into(),
        }
    }
    fn settings(&self) -> Vec<(String, String)> {
        let durability = match self.durability {
            Durability::Durable => "each commit waits until it is durable",
            Durability::InFlight => "a commit counts when it is durable, the thread goes on meanwhile",
            Durability::Asynchronous => "asynchronous commit; the run ends when all is durable",
        };
        let mut all = ours::settings(durability);
        all.retain(|s| s.0 != "indexes");
        all.insert(2, ("indexes".into(), "hash where keys are only looked up whole, else B+-trees".into()));
        all.push(("isolation".into(), format!("{:?}", self.isolation)));
        all.push(("money".into(), "as NUMERIC".into()));
        all
    }

    fn create(&self) -> Result<()> {
        let mut session = self.db.session();
        for t in tables() {
            let columns: Vec<String> = t.columns.iter().map(|c| format!("{} {}", c.name, c.sql)).collect();
            session.execute(&format!("CREATE TABLE {} ({})", t.name, columns.join(", ")))?;
        }
        Ok(())
    }

    fn load(&self, table: &TpccTable, rows: Source<'_>) -> Result<u64> {
        let text = CopyText::new(table, rows);
        Ok(self.db.session().copy_in(&format!("COPY {} FROM STDIN", table.name), text, |_| {})?)
    }

    fn ready(&self) -> Result<()> {
        let mut session = self.db.session();
        for t in tables().iter().filter(|t| !t.key.is_empty()) {
            let using = if HASHED.contains(&t.name) { "hash" } else { "btree" };
            session.execute(&format!(
                "CREATE UNIQUE INDEX {0}_key ON {0} USING {using} ({1})",
                t.name,
                t.key.join(", ")
            ))?;
        }
        for (name, table, columns) in INDEXES {
            session.execute(&format!("CREATE INDEX {name} ON {table} ({columns})"))?;
        }
        for s in statements() {
            session.execute(&function(&s)).map_err(|e| format!("{}: {e}", s.name))?;
        }
        self.db.checkpoint()?;
        Ok(())
    }

    fn scan(&self, table: &TpccTable, each: &mut dyn FnMut(&RowSet) -> Result<()>) -> Result<()> {
        let mut row = RowSet::default();
        let kinds: Vec<Kind> = table.columns.iter().map(|c| c.kind).collect();
        let names: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
        let mut failed = None;
        let sql = format!("SELECT {} FROM {}", names.join(", "), table.name);
        let done = self.db.session().for_each(&sql, &[], |r| {
            row.clear(kinds.len());
            let done = take(r, &kinds, &mut row).and_then(|()| each(&row));
            done.map_err(|e| {
                let text = e.to_string();
                failed = Some(e);
                ondol::Error::new(ondol::sqlstate::DATA_CORRUPTED, text)
            })
        });
        match failed {
            Some(e) => Err(e),
            None => Ok(done?),
        }
    }

    fn connect(&self, work: &mut dyn FnMut(&mut dyn Link) -> Result<()>) -> Result<()> {
        let session = self.db.session();
        let all = statements();
        let queries = all
            .iter()
            .map(|s| Ok(session.query_id(&format!("tpcc_{}", s.name))?))
            .collect::<Result<Vec<_>>>()?;
        work(&mut Connected {
            session,
            queries,
            statements: all,
            durability: self.durability,
            isolation: self.isolation,
            rows: Rows::new(),
            batch: Batch::new(),
            numerics: vec![],
            tokens: VecDeque::new(),
            commits: 0,
        })
    }
}

fn take(r: ondol::Row<'_>, kinds: &[Kind], out: &mut RowSet) -> Result<()> {
    for (i, kind) in kinds.iter().enumerate() {
        match (r.value(i), kind) {
            (ValueRef::Null, _) => out.null(),
            (ValueRef::Int4(n), _) => out.int(n.into()),
            (ValueRef::Int8(n), _) | (ValueRef::Timestamp(n), _) => out.int(n),
            (ValueRef::Text(t), _) => out.text(t),
            (v @ (ValueRef::Numeric(_) | ValueRef::Packed(_)), kind) => {
                let (n, scale) =
                    v.numeric().and_then(|n| n.as_scaled()).ok_or("a number is too large or none")?;
                let wanted = kind.scale();
                // Exact: the column's decimals are the kind's, or fewer.
                let n = match scale <= wanted {
                    true => n * 10i128.pow((wanted - scale).into()),
                    false => return Err(format!("a number has {scale} decimals, not {wanted}").into()),
                };
                out.int(i64::try_from(n)?);
            }
            (other, kind) => return Err(format!("expected {kind:?}, found {other:?}").into()),
        }
    }
    Ok(())
}

struct Connected {
    session: Session,
    queries: Vec<QueryId>,
    statements: Vec<Statement>,
    durability: Durability,
    isolation: Isolation,
    rows: Rows,
    batch: Batch,
    /// Encoded NUMERICs of the call at hand, one after the other.
    numerics: Vec<u8>,
    /// Commits that are not yet known to be durable, by number.
    tokens: VecDeque<(u64, Token)>,
    commits: u64,
}

fn failure(e: ondol::Error) -> Failure {
    match e.sqlstate() {
        "40001" | "40P01" | "55P03" => Failure::Retry,
        _ => Failure::Fatal(Error::from(e)),
    }
}

const MOST_PARAMS: usize = 16;

/// Where the encoded NUMERICs end, value by value.
fn encode(params: &[Val<'_>], kinds: &[Kind], numerics: &mut Vec<u8>) {
    numerics.clear();
    for (v, kind) in params.iter().zip(kinds.iter().cycle()) {
        if let (Val::Int(n), Kind::Money | Kind::Rate) = (v, kind) {
            // The length first, so that the values can be found again.
            let at = numerics.len();
            numerics.push(0);
            Numeric::from_scaled((*n).into(), kind.scale()).encode(numerics);
            numerics[at] = (numerics.len() - at - 1) as u8;
        }
    }
}

/// The values as the engine wants them; `numerics` is what [`encode`] made of them.
fn bind<'a>(v: Val<'a>, kind: Kind, numerics: &'a [u8], at: &mut usize) -> ValueRef<'a> {
    match (v, kind) {
        (Val::Null, _) => ValueRef::Null,
        (Val::Text(t), _) => ValueRef::Text(t),
        (Val::Int(n), Kind::Big) => ValueRef::Int8(n),
        (Val::Int(n), Kind::Time) => ValueRef::Timestamp(n),
        (Val::Int(_), Kind::Money | Kind::Rate) => {
            let start = *at + 1;
            *at = start + numerics[*at] as usize;
            ValueRef::Numeric(&numerics[start..*at])
        }
        (Val::Int(n), _) => ValueRef::Int4(n as i32),
    }
}

impl Link for Connected {
    fn begin(&mut self, _read_only: bool) -> Tried<()> {
        self.session.begin(self.isolation).map_err(failure)
    }
    fn call(&mut self, q: usize, params: &[Val<'_>], out: &mut RowSet) -> Tried<u64> {
        let s = &self.statements[q];
        encode(params, &s.params, &mut self.numerics);
        let mut values = [ValueRef::Null; MOST_PARAMS];
        let mut at = 0;
        for ((v, kind), to) in params.iter().zip(&s.params).zip(&mut values) {
            *to = bind(*v, *kind, &self.numerics, &mut at);
        }
        let called =
            self.session.call(self.queries[q], &values[..params.len()], &mut self.rows).map_err(failure)?;
        out.clear(s.results.len());
        for r in self.rows.iter() {
            take(r, &s.results, out)?;
        }
        Ok(called.rows)
    }
    fn call_each(&mut self, q: usize, params: &[Val<'_>], width: usize, out: &mut RowSet) -> Tried<bool> {
        let s = &self.statements[q];
        encode(params, &s.params, &mut self.numerics);
        let mut at = 0;
        let values: Vec<ValueRef<'_>> = params
            .iter()
            .zip(s.params.iter().cycle())
            .map(|(v, kind)| bind(*v, *kind, &self.numerics, &mut at))
            .collect();
        let calls: Vec<&[ValueRef<'_>]> = values.chunks(width).collect();
        self.session.call_batch(self.queries[q], &calls, &mut self.batch).map_err(failure)?;
        out.clear(s.results.len());
        let mut good = true;
        for i in 0..calls.len() {
            good &= self.batch.called(i).map_err(failure)?.rows == 1;
        }
        if !s.results.is_empty() {
            for r in self.batch.iter() {
                take(r, &s.results, out)?;
            }
        }
        Ok(good)
    }
    fn commit(&mut self) -> Tried<Commit> {
        if self.durability == Durability::Durable {
            self.session.commit().map_err(failure)?;
            return Ok(Commit::Done);
        }
        let Some(token) = self.session.commit_async().map_err(failure)? else { return Ok(Commit::Done) };
        self.commits += 1;
        self.tokens.push_back((self.commits, token));
        Ok(Commit::Pending(self.commits))
    }
    fn rollback(&mut self) {
        self.session.rollback()
    }
    fn wait(&mut self, pending: u64) -> Result<()> {
        let mut last = None;
        while let Some((_, token)) = self.tokens.front().copied().filter(|(n, _)| *n <= pending) {
            self.tokens.pop_front();
            last = Some(token);
        }
        last.map_or(Ok(()), |t| Ok(self.session.wait(t)?))
    }
}
