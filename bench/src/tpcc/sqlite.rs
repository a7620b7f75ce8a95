//! The TPC-C driver on SQLite: statements prepared once for each connection, money as integers of cents,
//! which is SQLite's quickest exact form.
use super::backend::{Backend, Commit, Failure, Link, RowSet, Source, Tried, Val};
use super::schema::{INDEXES, Kind, TpccTable, statements, tables};
use crate::{Error, Result};
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, Statement};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub struct Sqlite {
    pub name: String,
    /// A path, or a URI.
    pub path: PathBuf,
    pub vfs: Option<String>,
    pub journal_mode: String,
    pub cache_kb: u32,
    /// FULL, NORMAL or OFF.
    pub synchronous: String,
    /// Further pragmas, as "name = value".
    pub pragmas: Vec<String>,
}

impl Sqlite {
    /// With a WAL and a cache that holds the whole database.
    pub fn new(path: &Path, vfs: Option<String>, synchronous: &str, pragmas: &[String]) -> Sqlite {
        Sqlite {
            name: format!("SQLite {synchronous}"),
            path: path.into(),
            vfs,
            journal_mode: "WAL".into(),
            cache_kb: 2_000_000,
            synchronous: synchronous.into(),
            pragmas: pragmas.to_vec(),
        }
    }

    fn open(&self) -> Result<Connection> {
        let flags = OpenFlags::default();
        let c = match &self.vfs {
            Some(v) => Connection::open_with_flags_and_vfs(&self.path, flags, v.as_str())?,
            None => Connection::open_with_flags(&self.path, flags)?,
        };
        c.busy_timeout(Duration::from_secs(60))?;
        let own =
            [format!("journal_mode = {}", self.journal_mode), format!("cache_size = -{}", self.cache_kb)];
        for p in own.iter().chain([&format!("synchronous = {}", self.synchronous)]).chain(&self.pragmas) {
            // Some pragmas answer with a row.
            c.prepare(&format!("PRAGMA {p}"))?.query([])?.next()?;
        }
        Ok(c)
    }
}

/// Our parameters are numbered, as PostgreSQL's are.
fn numbered(sql: &str) -> String {
    sql.replace('$', "?")
}

/// Small rows lie in the tree of their key; the large ones have trees by row number, as SQLite's manual
/// advises.
const CLUSTERED: [&str; 4] = ["district", "new_order", "orders", "order_line"];

impl Backend for Sqlite {
    fn name(&self) -> String {
        self.name.clone()
    }
    fn settings(&self) -> Vec<(String, String)> {
        vec![
            ("version".into(), rusqlite::version().into()),
            ("VFS".into(), self.vfs.clone().unwrap_or_else(|| "default".into())),
            ("journal_mode".into(), self.journal_mode.clone()),
            ("cache".into(), format!("{} MB", self.cache_kb / 1000)),
            ("money".into(), "as integers of cents".into()),
            (
                "pragmas".into(),
                if self.pragmas.is_empty() { "none further".into() } else { self.pragmas.join("; ") },
            ),
            ("durability:".into(), format!("synchronous={}", self.synchronous)),
        ]
    }

    fn create(&self) -> Result<()> {
        let c = self.open()?;
        for t in tables() {
            let columns: Vec<String> = t
                .columns
                .iter()
                .map(|c| {
                    let ty = if c.kind == Kind::Text { "TEXT" } else { "INTEGER" };
                    let null = if c.sql.ends_with("NOT NULL") { " NOT NULL" } else { "" };
                    format!("{} {ty}{null}", c.name)
                })
                .collect();
            let key = match t.key.is_empty() {
                true => String::new(),
                false => format!(", PRIMARY KEY ({})", t.key.join(", ")),
            };
            let rowid = if CLUSTERED.contains(&t.name) { " WITHOUT ROWID" } else { "" };
            c.execute_batch(&format!("CREATE TABLE {} ({}{key}){rowid}", t.name, columns.join(", ")))?;
        }
        Ok(())
    }

    fn load(&self, table: &TpccTable, rows: Source<'_>) -> Result<u64> {
        let mut c = self.open()?;
        c.execute_batch("PRAGMA synchronous = OFF")?;
        let t = c.transaction()?;
        let mut n = 0;
        {
            let marks: Vec<String> = (1..=table.columns.len()).map(|i| format!("?{i}")).collect();
            let mut insert =
                t.prepare(&format!("INSERT INTO {} VALUES ({})", table.name, marks.join(", ")))?;
            let mut row = RowSet::default();
            loop {
                row.clear(table.columns.len());
                if !rows(&mut row) {
                    break;
                }
                for (i, v) in row.row(0).enumerate() {
                    insert.raw_bind_parameter(i + 1, Bound(v))?;
                }
                insert.raw_execute()?;
                n += 1;
            }
        }
        t.commit()?;
        Ok(n)
    }

    fn ready(&self) -> Result<()> {
        let c = self.open()?;
        for (name, table, columns) in INDEXES {
            c.execute_batch(&format!("CREATE INDEX {name} ON {table} ({columns})"))?;
        }
        c.execute_batch("ANALYZE; PRAGMA wal_checkpoint(TRUNCATE)")?;
        Ok(())
    }

    fn scan(&self, table: &TpccTable, each: &mut dyn FnMut(&RowSet) -> Result<()>) -> Result<()> {
        let c = self.open()?;
        let names: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
        let mut s = c.prepare(&format!("SELECT {} FROM {}", names.join(", "), table.name))?;
        let mut rows = s.query([])?;
        let mut row = RowSet::default();
        while let Some(r) = rows.next()? {
            row.clear(names.len());
            take(r, names.len(), &mut row)?;
            each(&row)?;
        }
        Ok(())
    }

    fn connect(&self, work: &mut dyn FnMut(&mut dyn Link) -> Result<()>) -> Result<()> {
        let c = self.open()?;
        let all = statements();
        let statements = all.iter().map(|s| Ok(c.prepare(&numbered(&s.sql))?)).collect::<Result<Vec<_>>>()?;
        let widths = all.iter().map(|s| s.results.len()).collect();
        let [begin, begin_read, commit, rollback] =
            ["BEGIN IMMEDIATE", "BEGIN", "COMMIT", "ROLLBACK"].map(|s| c.prepare(s));
        work(&mut Connected {
            connection: &c,
            statements,
            widths,
            begin: begin?,
            begin_read: begin_read?,
            commit: commit?,
            rollback: rollback?,
        })
    }
}

struct Bound<'a>(Val<'a>);

impl rusqlite::ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0 {
            Val::Null => ToSqlOutput::Owned(Value::Null),
            Val::Int(n) => ToSqlOutput::Owned(Value::Integer(n)),
            Val::Text(t) => ToSqlOutput::Borrowed(ValueRef::Text(t.as_bytes())),
        })
    }
}

fn take(r: &rusqlite::Row<'_>, width: usize, out: &mut RowSet) -> Result<()> {
    for i in 0..width {
        match r.get_ref(i)? {
            ValueRef::Null => out.null(),
            ValueRef::Integer(n) => out.int(n),
            ValueRef::Text(t) => out.text(std::str::from_utf8(t)?),
            other => return Err(format!("expected a number or text, found {other:?}").into()),
        }
    }
    Ok(())
}

struct Connected<'c> {
    connection: &'c Connection,
    statements: Vec<Statement<'c>>,
    widths: Vec<usize>,
    begin: Statement<'c>,
    begin_read: Statement<'c>,
    commit: Statement<'c>,
    rollback: Statement<'c>,
}

fn failure(e: rusqlite::Error) -> Failure {
    match e.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Failure::Retry,
        _ => Failure::Fatal(Error::from(e)),
    }
}

impl Connected<'_> {
    /// Appends the rows of one call.
    fn add(&mut self, q: usize, params: &[Val<'_>], out: &mut RowSet) -> Tried<u64> {
        let (s, width) = (&mut self.statements[q], self.widths[q]);
        for (i, p) in params.iter().enumerate() {
            s.raw_bind_parameter(i + 1, Bound(*p)).map_err(failure)?;
        }
        if width == 0 {
            return Ok(s.raw_execute().map_err(failure)? as u64);
        }
        let mut n = 0;
        let mut rows = s.raw_query();
        while let Some(r) = rows.next().map_err(failure)? {
            take(r, width, out)?;
            n += 1;
        }
        Ok(n)
    }
}

impl Link for Connected<'_> {
    fn begin(&mut self, read_only: bool) -> Tried<()> {
        // A writer takes the lock at once: otherwise two that read first could only fail.
        let s = if read_only { &mut self.begin_read } else { &mut self.begin };
        s.raw_execute().map(|_| ()).map_err(failure)
    }
    fn call(&mut self, q: usize, params: &[Val<'_>], out: &mut RowSet) -> Tried<u64> {
        out.clear(self.widths[q]);
        self.add(q, params, out)
    }
    fn call_each(&mut self, q: usize, params: &[Val<'_>], width: usize, out: &mut RowSet) -> Tried<bool> {
        out.clear(self.widths[q]);
        let mut good = true;
        for p in params.chunks(width) {
            good &= self.add(q, p, out)? == 1;
        }
        Ok(good)
    }
    fn commit(&mut self) -> Tried<Commit> {
        self.commit.raw_execute().map_err(failure)?;
        Ok(Commit::Done)
    }
    fn rollback(&mut self) {
        if !self.connection.is_autocommit() {
            // After an error that ended the transaction by itself there is nothing to roll back.
            let _ = self.rollback.raw_execute();
        }
    }
    fn wait(&mut self, _: u64) -> Result<()> {
        Ok(())
    }
}
