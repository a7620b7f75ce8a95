//! Statements from text to rows, on a database of their own.
use super::*;
use crate::bound::{ExplainOptions, Modes, Statement};
use crate::code::generate::FindFunction;
use crate::plan::ways::Ways;
use ondol_engine::{Database, Options};
use ondol_types::limits::Limits;
use ondol_types::{SqlError, Value};
use std::path::PathBuf;

const OPTIONS: ExplainOptions =
    ExplainOptions { analyze: false, verbose: false, costs: false, json: false, summary: true };

struct Db {
    folder: PathBuf,
    database: Arc<Database>,
    connection: Connection,
    frame: Frame,
}

impl Drop for Db {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Compiles functions from their bodies each time.
struct Bodies(Arc<ondol_engine::Catalog>);
impl Host for Bodies {
    fn system_rows(
        &self,
        view: &str,
        _: Option<(usize, ValueRef<'_>)>,
        _: &Connection,
        each: &mut dyn FnMut(&[ValueRef<'_>]) -> SqlResult<()>,
    ) -> SqlResult<()> {
        each(&[ValueRef::Text(view)])
    }
    fn function(&self, f: &Arc<FunctionDef>) -> SqlResult<Arc<Program>> {
        let bound = crate::bind::bind_function(f, &self.0)?;
        crate::compile::compile(&self.0, &bound, &|f| self.function(f), Limits::NONE, Ways::ALL, None)
            .map(Arc::new)
    }
}

fn show(v: ValueRef<'_>) -> String {
    match v.to_owned() {
        Value::Null => "NULL".into(),
        Value::Bool(b) => if b { "t" } else { "f" }.into(),
        Value::Text(s) => s,
        other => crate::plan::show::constant(&other),
    }
}

impl Db {
    fn new(name: &str) -> Db {
        let folder = std::env::temp_dir().join(format!("ondol-exec-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let options =
            Options { create: true, memory_limit: 256 << 20, log_file_size: 1 << 20, ..Options::default() };
        let database = Database::open(&folder, options).unwrap();
        let connection = database.connect();
        Db { folder, database, connection, frame: Frame::new() }
    }

    fn bind(&self, sql: &str) -> SqlResult<crate::bound::Bound> {
        let raw = crate::parse::parse(sql)?;
        assert_eq!(raw.len(), 1, "{sql}");
        crate::bind::bind(&raw[0], sql, &self.connection.catalog(), &[])
    }

    fn program(&self, sql: &str) -> SqlResult<Arc<Program>> {
        let host = Bodies(self.connection.catalog());
        let find: FindFunction<'_> = &|f| host.function(f);
        let bound = self.bind(sql)?;
        let program = crate::compile::compile(&host.0, &bound, find, Limits::NONE, Ways::ALL, Some(OPTIONS))?;
        // What is stored comes back as it was.
        let again = Program::decode(&program.encode(), &self.connection.catalog()).unwrap();
        assert_eq!(again.ops, program.ops);
        Ok(Arc::new(program))
    }

    fn run(&mut self, sql: &str, params: &[ValueRef<'_>]) -> SqlResult<(Outcome, Vec<Vec<String>>)> {
        let program = self.program(sql)?;
        let host = Bodies(self.connection.catalog());
        let env = Env { host: &host, ..Env::EMPTY };
        let mut rows = RowBuffer::new();
        let outcome = run(&mut self.frame, &program, &mut self.connection, params, &mut rows, &env)?;
        Ok((outcome, rows.iter().map(|r| r.values().map(show).collect()).collect()))
    }

    fn rows_of(&mut self, sql: &str, params: &[ValueRef<'_>]) -> String {
        match self.run(sql, params) {
            Ok((_, rows)) => rows.iter().map(|r| r.join("|")).collect::<Vec<_>>().join("\n"),
            Err(e) => format!("ERROR {}: {}", e.sqlstate(), e),
        }
    }

    #[track_caller]
    fn check(&mut self, sql: &str, expected: &str) {
        let got = self.rows_of(sql, &[]);
        let want: Vec<&str> = expected.split(';').map(str::trim).filter(|l| !l.is_empty()).collect();
        let plan = self.plan(sql);
        assert_eq!(got.lines().collect::<Vec<_>>(), want, "{sql}\n{plan}");
    }

    fn plan(&self, sql: &str) -> String {
        match self.program(sql) {
            Ok(p) => crate::code::explain::lines(&p, OPTIONS, None, 0).join("\n"),
            Err(e) => format!("no plan: {e}"),
        }
    }

    #[track_caller]
    fn exec(&mut self, sql: &str) -> u64 {
        match self.try_exec(sql) {
            Ok(n) => n,
            Err(e) => panic!("{sql}: {} {e}\n{}", e.sqlstate(), self.plan(sql)),
        }
    }

    fn try_exec(&mut self, sql: &str) -> Result<u64, SqlError> {
        let bound = self.bind(sql)?;
        match bound.statement {
            Statement::CreateTable { name, columns, constraints, .. } => {
                self.connection.create_table(&name, columns)?;
                for (n, i) in constraints.into_iter().enumerate() {
                    let index = i.name.unwrap_or_else(|| format!("{}_key{n}", name.name));
                    self.connection.create_index(
                        &name,
                        &index,
                        i.kind,
                        i.unique,
                        i.columns,
                        i.primary,
                        i.constraint,
                    )?;
                }
                Ok(0)
            }
            Statement::CreateIndex { table, index: i, .. } => {
                let name = i.name.unwrap();
                self.connection
                    .create_index(&table, &name, i.kind, i.unique, i.columns, i.primary, i.constraint)
                    .map(|()| 0)
            }
            Statement::CreateFunction { function, replace } => {
                self.connection.create_function(*function, replace).map(|_| 0)
            }
            Statement::Begin(Modes { isolation, access, .. }) => self
                .connection
                .begin(
                    isolation.map_or(ondol_engine::Isolation::default(), |l| l.isolation()),
                    access.unwrap_or(ondol_engine::Access::ReadWrite),
                )
                .map(|()| 0),
            Statement::Commit { .. } => self.connection.commit().map(|_| 0),
            Statement::Rollback { .. } => {
                self.connection.rollback();
                Ok(0)
            }
            _ => self.run(sql, &[]).map(|(o, _)| o.rows_affected),
        }
    }
}

fn with_tables(name: &str) -> Db {
    let mut db = Db::new(name);
    db.exec(
        "create table t (id int primary key, a int, b text, c char(5), d numeric(8,2), e bigint not null)",
    );
    db.exec("create index t_a on t (a)");
    db.exec("create index t_b on t using hash (b)");
    db.exec("create table u (tid int, k int, note varchar(40))");
    for i in 1..=20 {
        let a = if i % 7 == 0 { "null".to_string() } else { (i % 5).to_string() };
        db.exec(&format!("insert into t values ({i}, {a}, 'name{}', 'c{i}', {i}.50, {})", i % 4, i * 1000));
    }
    for i in [1, 1, 2, 3, 5, 8, 99] {
        db.exec(&format!("insert into u values ({i}, {}, 'note of {i} that is longer than twelve')", i * 2));
    }
    db.exec("insert into u values (null, 0, null)");
    db
}

#[test]
fn reading_one_table() {
    let mut db = with_tables("one");
    db.check("select * from t where id = 3", "3|3|name3|c3|3.50|3000");
    db.check("select id, b || '!' from t where id = 3", "3|name3!");
    db.check("select id from t where id = 3 and a = 4", "");
    db.check("select id from t where id = 77", "");
    db.check("select id from t where id = null", "");
    db.check("select id from t where id = 3000000000", "");
    db.check("select id from t where a = 3 order by id", "3;8;13;18");
    db.check("select id from t where b = 'name2' order by 1 desc", "18;14;10;6;2");
    db.check("select id from t where a is null order by id", "7;14");
    db.check("select id from t where id in (5, 3, 3, null, 99) order by id", "3;5");
    db.check("select id from t where id not in (1,2,3) and id < 6 order by id", "4;5");
    db.check("select id from t where id > 3 and id <= 6 order by id", "4;5;6");
    db.check("select id from t where a >= 4 order by id", "4;9;19");
    db.check("select id from t order by id limit 3", "1;2;3");
    db.check("select id from t order by id desc limit 2 offset 1", "19;18");
    db.check("select id from t order by d desc limit 2", "20;19");
    db.check("select id from t limit 0", "");
    db.check("select id from t limit -1", "ERROR 2201W: LIMIT must not be negative");
    db.check("select a + 1, -a, a * 2.5, id / 2 from t where id = 9", "5|-4|10.0|4");
    db.check("select id / 0 from t where id = 9", "ERROR 22012: division by zero");
    db.check("select 2147483647 + id from t where id = 1", "ERROR 22003: integer out of range");
    db.check("select case when id < 3 then 'low' when id < 5 then 'mid' else 'high' end from t where id in (1,3,7) order by id", "low;mid;high");
    db.check(
        "select coalesce(a, -1), nullif(id, 7), greatest(a, id, 2), least(a, null, 9) from t where id = 7",
        "-1|NULL|7|9",
    );
    db.check("select a is distinct from null, a is not distinct from 2, (a > 1) is unknown from t where id in (2, 7) order by id", "t|t|f;f|f|t");
    db.check("select c, length(c), c = 'c7   ', c || 'x' from t where id = 7", "c7|2|t|c7x");
    db.check("select distinct a from t order by a", "0;1;2;3;4;NULL");
    db.check("select distinct a from t where a > 2 order by a desc nulls last", "4;3");
    db.check("select 1, 'x', null", "1|x|NULL");
    db.check("values (1, 'a'), (2, 'b')", "1|a;2|b");
    db.check("select * from generate_series(1, 7, 3)", "1;4;7");
    db.check("select count(*) from generate_series(1, 1000)", "1000");
    assert!(db.plan("select * from t where id = 3").contains("Index Scan using"));
    assert!(!db.plan("select id from t order by id limit 3").contains("Sort"));
    assert!(
        db.plan("select id from t order by id desc").contains("Backward")
            || db.plan("select id from t order by id desc").contains("Sort")
    );
}

#[test]
fn joining() {
    let mut db = with_tables("join");
    db.check("select t.id, u.k from t, u where t.id = u.tid order by 1, 2", "1|2;1|2;2|4;3|6;5|10;8|16");
    db.check("select t.id, u.k from t join u on t.id = u.tid where u.k > 5 order by 1", "3|6;5|10;8|16");
    db.check(
        "select t.id, u.note from t left join u on t.id = u.tid where t.id < 5 order by 1, 2",
        "1|note of 1 that is longer than twelve;1|note of 1 that is longer than twelve;2|note of 2 that is longer than twelve;3|note of 3 that is longer than twelve;4|NULL",
    );
    db.check(
        "select u.tid, t.b from u left join t on t.id = u.tid and t.a = 1 order by 1, 2",
        "1|name1;1|name1;2|NULL;3|NULL;5|NULL;8|NULL;99|NULL;NULL|NULL",
    );
    db.check(
        "select u.tid, t.id from u left join t on t.id = u.tid where t.id is null order by 1",
        "99|NULL;NULL|NULL",
    );
    db.check(
        "select u.tid, t.id from t right join u on t.id = u.tid and t.id > 4 order by 1, 2",
        "1|NULL;1|NULL;2|NULL;3|NULL;5|5;8|8;99|NULL;NULL|NULL",
    );
    db.check(
        "select x.id, u.tid from (select id from t where id < 4) x full join u on x.id = u.tid order by 1, 2",
        "1|1;1|1;2|2;3|3;NULL|5;NULL|8;NULL|99;NULL|NULL",
    );
    db.check("select count(*) from t full join u on false", "28");
    db.check("select count(*) from t full join u on true", "160");
    db.check("select count(*) from t cross join u", "160");
    db.check("select count(*) from u x, u y where x.k < y.k", "27");
    db.check("select count(*) from t a join t b on a.a = b.a join t c on c.id = b.id", "66");
    db.check(
        "select a.id, b.id, c.tid from t a left join t b on b.id = a.id + 10 left join u c on c.tid = b.id where a.id in (1, 15) order by 1",
        "1|11|NULL;15|NULL|NULL",
    );
    db.check(
        "select u.tid, x.n from u left join (t left join (select 3 as n) x on t.id = x.n) on t.id = u.tid order by 1, 2 limit 4",
        "1|NULL;1|NULL;2|NULL;3|3",
    );
    db.check(
        "select s.g, t.id from generate_series(19, 22) s(g) left join t on t.id = s.g order by 1",
        "19|19;20|20;21|NULL;22|NULL",
    );
}

#[test]
fn grouping_and_sets() {
    let mut db = with_tables("group");
    db.check(
        "select count(*), count(a), sum(a), min(id), max(b), avg(e) from t",
        "20|18|34|1|name3|10500.000000000000",
    );
    db.check(
        "select a, count(*), sum(d) from t group by a order by a",
        "0|4|52.00;1|4|36.00;2|3|32.50;3|4|44.00;4|3|33.50;NULL|2|22.00",
    );
    db.check("select a, count(*) from t group by a having count(*) > 3 order by 1", "0|4;1|4;3|4");
    db.check("select count(*) from t where id > 100", "0");
    db.check("select sum(id) from t where id > 100", "NULL");
    db.check("select a, count(*) from t where id > 100 group by a", "");
    db.check("select count(distinct a), count(distinct b) from t", "5|4");
    db.check("select count(*) filter (where id > 10), sum(id) filter (where a = 1) from t", "10|34");
    db.check("select a % 2 as p, max(id) from t where a is not null group by a % 2 order by p", "0|20;1|18");
    db.check("select id from t where id < 3 union select tid from u where tid < 4 order by 1", "1;2;3");
    db.check(
        "select id from t where id < 3 union all select tid from u where tid < 4 order by 1",
        "1;1;1;2;2;3",
    );
    db.check("select tid from u intersect select id from t order by 1", "1;2;3;5;8");
    db.check("select tid from u except select id from t order by 1", "99;NULL");
    db.check("select tid from u except all select 1 order by 1", "1;2;3;5;8;99;NULL");
    db.check(
        "select tid from u intersect all (select 1 union all select 1 union all select 1) order by 1",
        "1;1",
    );
    db.check("(select 3 union all select 1) union select 2 order by 1 limit 2 offset 1", "2;3");
    db.check("select x, count(*) from (select 1 as x union all select 1 union all select 2) s group by x order by x", "1|2;2|1");
    db.check(
        "select string_agg(b, ',') from (select distinct b from t order by b) s",
        "name0,name1,name2,name3",
    );
}

#[test]
fn subqueries() {
    let mut db = with_tables("sub");
    db.check(
        "select (select max(id) from t), (select b from t where id = 2), (select b from t where id = 200)",
        "20|name2|NULL",
    );
    db.check(
        "select (select id from t)",
        "ERROR 21000: more than one row returned by a subquery used as an expression",
    );
    db.check("select id from t where exists (select 1 from u where u.tid = t.id) order by 1", "1;2;3;5;8");
    db.check(
        "select id from t where not exists (select 1 from u where u.tid = t.id) and id < 7 order by 1",
        "4;6",
    );
    db.check("select id from t where id in (select tid from u) order by 1", "1;2;3;5;8");
    db.check("select id from t where id not in (select tid from u) order by 1", "");
    db.check(
        "select id from t where id not in (select tid from u where tid is not null) and id < 8 order by 1",
        "4;6;7",
    );
    db.check("select id from t where a not in (select 1 where false) and id > 18 order by 1", "19;20");
    db.check("select null in (select 1 where false), null in (select 1), 1 in (select null::int), 1 not in (select 2 union select null)", "f|NULL|NULL|NULL");
    db.check(
        "select tid, (select b from t where t.id = u.tid) from u where tid < 3 order by 1",
        "1|name1;1|name1;2|name2",
    );
    db.check(
        "select tid, (select count(*) from t where t.a = u.tid) from u where tid < 4 order by 1",
        "1|4;1|4;2|3;3|4",
    );
    db.check(
        "select id from t where id > all (select tid from u where tid < 10) and id < 12 order by 1",
        "9;10;11",
    );
    db.check("select id from t where a = any (select k from u where u.tid = t.id - 1) order by 1", "2");
    db.check("select id from t where (id, a) in (select tid, k / 2 from u) order by 1", "1;2;3");
    db.check(
        "select a, (select count(*) from u where u.k > max(t.id)) from t group by a order by a limit 1",
        "0|1",
    );
    db.check("with x as (select id, a from t where id < 4) select x.id, y.id from x join x y on x.id = y.a order by 1, 2", "1|1;2|2;3|3");
    db.check("select * from (select a, max(id) m from t group by a) s where m > 18 order by m", "4|19;0|20");
}

#[test]
fn changing_rows() {
    let mut db = with_tables("change");
    assert_eq!(
        db.exec("update t set a = a + 100, b = b || ' and something longer than twelve' where id = 3"),
        1
    );
    db.check("select a, b from t where id = 3", "103|name3 and something longer than twelve");
    db.check("select id from t where a = 103", "3");
    db.check("select id from t where a = 3 order by 1", "8;13;18");
    db.check(
        "update t set id = id + 100 where id = 3 returning id, b, c",
        "103|name3 and something longer than twelve|c3",
    );
    db.check(
        "select * from t where b like 'name3 and%'",
        "103|103|name3 and something longer than twelve|c3|3.50|3000",
    );
    db.check("select id from t where id = 3", "");
    db.check("delete from t where id = 103 returning id, a", "103|103");
    db.check("select count(*) from t", "19");
    assert_eq!(db.exec("update t set a = a + 1"), 19);
    assert_eq!(db.exec("update t set id = id + 1000 where id > 0"), 19);
    db.check("select min(id), max(id), count(*) from t", "1001|1020|19");
    assert_eq!(db.exec("insert into t (id, e) select id + 1000, e from t"), 19);
    db.check("select count(*), count(a) from t", "38|17");
    db.check("insert into t (id, e) values (1, 2), (2, 3) returning id, e, a", "1|2|NULL;2|3|NULL");
    db.check(
        "insert into t (id, e) values (1, 2)",
        "ERROR 23505: duplicate key value violates unique constraint \"t_pkey\"",
    );
    db.check(
        "insert into t (id) values (9)",
        "ERROR 23502: null value in column \"e\" of relation \"t\" violates not-null constraint",
    );
    assert_eq!(db.exec("update t set a = u.k from u where u.tid = t.id"), 2);
    db.check("select id, a from t where id < 3 order by id", "1|2;2|4");
    assert_eq!(db.exec("delete from t using u where u.tid = t.id and u.k = 4"), 1);
    assert_eq!(db.exec("delete from t where id in (1, 1, 2)"), 1);
    db.exec("begin");
    assert_eq!(db.exec("delete from t"), 38);
    db.check("select count(*) from t", "0");
    db.exec("rollback");
    db.check("select count(*) from t", "38");
    db.check("select id from t where id = 1001 for update", "1001");
    db.check(
        "select id, b from t where id > 1016 and id < 2000 order by e desc limit 1 for update",
        "1020|name0",
    );
    db.check(
        "select t.id, k from t join u on u.tid = t.id - 1000 order by k desc limit 2 for update of t",
        "1008|16;1005|10",
    );
}

#[test]
fn changed_meanwhile() {
    let mut db = with_tables("meanwhile");
    let mut other = db.database.connect();
    let slow = db.program("update t set a = a + 10 where id = 1 and a < 5").unwrap();
    let mut frame = Frame::new();
    db.exec("begin");
    run(&mut frame, &slow, &mut db.connection, &[], &mut Nowhere, &Env::EMPTY).unwrap();
    other.set_lock_timeout(Some(std::time::Duration::from_millis(30)));
    let e = run(&mut Frame::new(), &slow, &mut other, &[], &mut Nowhere, &Env::EMPTY).unwrap_err();
    assert_eq!(e.sqlstate(), ondol_types::sqlstate::LOCK_NOT_AVAILABLE);
    other.set_lock_timeout(None);
    let waiting = ondol_base::thread::spawn("waiting", move || {
        run(&mut Frame::new(), &slow, &mut other, &[], &mut Nowhere, &Env::EMPTY).unwrap().rows_affected
    })
    .unwrap();
    ondol_base::thread::sleep(std::time::Duration::from_millis(50));
    db.exec("commit");
    // The row no longer fulfils the condition once it can be locked.
    assert_eq!(waiting.join().unwrap(), 0);
    db.check("select a from t where id = 1", "11");
}

#[test]
fn registered_queries() {
    let mut db = with_tables("registered");
    db.exec("create function get_t(i int) returns setof t language sql as 'select * from t where id = i'");
    db.exec("create function one(i int) returns bigint language sql as 'select e from t where id = i'");
    db.check("select id, b from get_t(4)", "4|name0");
    db.check("select * from one(7)", "7000");
    db.check("select * from one(700)", "NULL");
}

#[test]
fn batches() {
    let mut db = with_tables("batch");
    for sql in [
        "select * from t where id = $1",
        "select id, b from t where b = 'name' || $1::text",
        "select a from t where a = $1",
    ] {
        let program = db.program(sql).unwrap();
        let env = Env::EMPTY;
        let numbers: Vec<[ValueRef<'_>; 1]> = (0..50)
            .map(|i| match program.params[0] {
                ondol_types::TypeId::TEXT => [ValueRef::Text(["0", "1", "2", "3", "4"][i % 5])],
                _ => [ValueRef::Int4(i as i32 % 25)],
            })
            .collect();
        let params: Vec<&[ValueRef<'_>]> = numbers.iter().map(|p| &p[..]).collect();
        let mut sinks: Vec<RowBuffer> = (0..50).map(|_| RowBuffer::new()).collect();
        let mut outcomes = Vec::new();
        let mut batch = Batch::new();
        run_batch(&mut batch, &program, &mut db.connection, &params, &mut sinks, &env, &mut outcomes)
            .unwrap();
        for (i, sink) in sinks.iter().enumerate() {
            let mut alone = RowBuffer::new();
            let o = run(&mut db.frame, &program, &mut db.connection, params[i], &mut alone, &env).unwrap();
            assert_eq!(&o, outcomes[i].as_ref().unwrap());
            let text = |r: &RowBuffer| {
                r.iter().map(|r| r.values().map(show).collect::<Vec<_>>()).collect::<Vec<_>>()
            };
            assert_eq!(text(sink), text(&alone), "{sql} {i}");
        }
    }
    let program = db.program("update t set e = e + 1 where id = $1").unwrap();
    let numbers: Vec<[ValueRef<'_>; 1]> = (0..30).map(|i| [ValueRef::Int4(i)]).collect();
    let params: Vec<&[ValueRef<'_>]> = numbers.iter().map(|p| &p[..]).collect();
    let mut sinks: Vec<RowBuffer> = (0..30).map(|_| RowBuffer::new()).collect();
    let mut outcomes = Vec::new();
    run_batch(
        &mut Batch::new(),
        &program,
        &mut db.connection,
        &params,
        &mut sinks,
        &Env::EMPTY,
        &mut outcomes,
    )
    .unwrap();
    let changed: u64 = outcomes.iter().map(|o| o.as_ref().unwrap().rows_affected).sum();
    assert_eq!(changed, 20);
    db.check("select sum(e) from t", "210020");
}

#[test]
fn explaining() {
    let mut db = with_tables("explain");
    let sql = "select t.b, count(*) from t left join u on u.tid = t.id where t.a = 1 group by t.b order by 1";
    let host = Bodies(db.connection.catalog());
    let bound = db.bind(sql).unwrap();
    let options = ExplainOptions { analyze: true, ..OPTIONS };
    let find: FindFunction<'_> = &|f| host.function(f);
    let program = Arc::new(
        crate::compile::compile(&host.0, &bound, find, Limits::NONE, Ways::ALL, Some(options)).unwrap(),
    );
    let (_, lines) =
        run_measured(&mut db.frame, &program, &mut db.connection, &[], &Env::EMPTY, options).unwrap();
    let text = lines.join("\n");
    for part in [
        "Sort",
        "HashAggregate",
        "Left Join",
        "Index Scan using t_a on t",
        "actual rows=4 loops=1",
        "GroupFor",
        "Execution Time",
    ] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
}

/// code/C2: a register that is to hold a row's number may hold any other; what names no row of the table
/// reads nothing, and nothing is locked.
#[test]
fn a_forged_row_number_is_no_address() {
    use crate::code::{Op, operand::Imm};
    let mut db = with_tables("forged");
    db.exec(&format!("update t set b = '{}' where id = 5", "x".repeat(20_000)));
    let program = db.program("select id, b from t where id in (1, 2, 3) order by d for update").unwrap();
    let sets = program.ops.iter().filter(|op| matches!(op, Op::SetRow { .. })).count();
    let places: Vec<usize> =
        (0..program.ops.len()).filter(|i| matches!(program.ops[*i], Op::GetRow { .. })).collect();
    assert!(sets > 0 && !places.is_empty(), "{}", db.plan("select id, b from t order by d for update"));
    let mut scan = ondol_engine::Scan::default();
    let table = db.connection.catalog().table("t").unwrap().clone();
    scan.start(&db.connection, &table);
    let first = scan.next(&db.connection, &mut vec![0; table.layout.row_size]).unwrap().unwrap().bits();
    let mut found = 0;
    for n in 0..20_000u32 {
        // Each place where a row may begin, from the page's beginning on, and numbers from all over.
        let mut forged = Program::clone(&program);
        let near = (first / 4096 * 4096) as u32 + 8 * n;
        let number = if n % 2 == 0 { near } else { n.wrapping_mul(0x9e37_79b9) } as i32;
        for place in &places {
            if let Op::GetRow { dst, .. } = program.ops[*place] {
                forged.ops[*place] = Op::Int { dst, value: Imm(number) }
            }
        }
        crate::code::verify::verify(&forged).unwrap();
        let host = Bodies(db.connection.catalog());
        let env = Env { host: &host, ..Env::EMPTY };
        let mut rows = RowBuffer::new();
        let forged = Arc::new(forged);
        let outcome = run(&mut db.frame, &forged, &mut db.connection, &[], &mut rows, &env).unwrap();
        let rows: Vec<Vec<String>> = rows.iter().map(|r| r.values().map(show).collect()).collect();
        assert_eq!(outcome.rows_affected, rows.len() as u64);
        // One of the table's, whichever.
        for row in &rows {
            let id: i32 = row[0].parse().unwrap();
            assert!((1..=20).contains(&id) && (id == 5 || row[1] == format!("name{}", id % 4)), "{row:?}")
        }
        found += usize::from(!rows.is_empty());
    }
    assert_eq!(found, 20, "each row's number was among them once");
    db.check("select count(*) from t where id <> 5 and b like 'name_'", "19")
}

/// Each rewrite by itself, all together, and none: the same rows; and each changes the plan of some
/// statement.
#[test]
fn rewrites_change_no_answer() {
    use crate::plan::rewrite::ALL;
    let mut db = with_tables("rewrites");
    db.exec("create table w (k int, x int, s text)");
    for i in 0..40 {
        let k = if i % 9 == 0 { "null".to_string() } else { (i % 8).to_string() };
        db.exec(&format!("insert into w values ({k}, {}, 's{}')", i % 6, i % 3));
    }
    let queries = [
        "select id from t where exists (select from w where w.k = t.a)",
        "select id from t where not exists (select from w where w.k = t.a and w.x > 4)",
        "select id from t where a in (select k from w where w.x = t.id % 6)",
        "select id from t where not (a in (select k from w where w.x = t.id % 6))",
        "select id from t where a not in (select k from w where w.x = t.id % 6)",
        "select id from t where not exists (select from w where w.k <> t.a)",
        "select id from t where exists (select distinct x from w where k = a order by x) and e > 4000",
        "select id from t where exists (select from w where k = a limit 1)",
        "select id from t where exists (select count(*) from w where k = a)",
        "select id from t where exists (select k from w where k = a group by k having count(*) > 2)",
        "select id from t where exists (select from w join u on u.k = w.k * 2 where w.x = t.a and u.tid < t.id)",
        "select id from t where exists (select from w left join u on u.k = w.k where w.x = t.a and u.tid is null)",
        "select id from t where exists (select from w left join u on u.k = t.a where w.x = t.a)",
        "select t.id, w.s from t left join w on w.k = t.a and exists (select from u where u.tid = t.id) where t.id < 5",
        "select id from t where exists (select from w where k = a and exists (select from u where u.k = w.x * 2))",
        "select id from t where exists (select from w where k = a and exists (select from u where u.tid = t.id))",
        "select (select count(*) from w where k = a) from t where exists (select from w where k = a)",
        "select id from t where id > (select avg(x) from w where w.k = t.a)",
        "select id from t where 0 = (select count(*) from w where w.k = t.a)",
        "select id from t where id > 2 + (select count(x) from w where w.k = t.a and w.x = t.id % 6)",
        "select id from t where e > 1000 * (select max(x) from w, u where w.k = t.a and u.k = w.x * 2)",
        "select id from t where (select sum(x) from w where w.k = t.a) is null",
        "select id from t where id > (select sum(w.x / (w.x - w.x)) from w where w.k = 100 + t.a)",
        "select id from t where id > (select sum(x) from w where w.k = t.id + 50 and 10 / (w.x - 1) > 0)",
        "select id from t where id < 0 and id > (select sum(v) from (select k, 1 / (x - x) as v from w union all \
         select 1, 1) d where d.k = t.a)",
        "select id from t where a = (select min(k) from w where w.x < t.id)",
        "select id from t where id in (select u.k from w full join u on u.k = w.x where w.k >= t.a or w.k is null \
         group by u.k)",
        "select (select count(*) from w full join u on u.k = w.x where w.k >= t.a or w.x is null) from t",
        "select x.i + 1 from (select id as i, a from t where a > 1) x where x.a < 4 order by 1",
        "select x.i, w.s from (select id as i, a + 1 as b from t) x left join w on w.k = x.b order by 1, 2",
        "select w.s, x.b from w left join (select id as i, a + 1 as b from t) x on w.k = x.i order by 1, 2",
        "select w.s, x.c from w left join (select c from (select 5 as c, id from t) y where id > 3) x on w.k = x.c",
        "select w.x, x.c from (select c from (select 5 as c, id from t) y where id > 30) x full join w on w.k = x.c",
        "select x.b, count(*) from (select a % 2 as b from (select a from t where id > 3) y) x group by x.b",
        "select * from (select id from t order by id limit 3) x join w on w.k = x.id order by 1, 2, 3, 4",
        "select i from (select id as i, 5 as c from t) x where exists (select from w where w.k = x.c and w.x = x.i)",
        "select t.id, w.s from t, w where (t.a = w.k and w.x = 1) or (t.a = w.k and w.x = 2 and t.id > 3) order by 1, 2",
        "select id from t where (a = 1) or (a = 1 and id > 100)",
        "select id, s from t left join w on w.k = t.a where w.x > 2 order by 1, 2",
        "select t.id, w.s from t join w on w.k = t.a where t.a = 3 order by 1, 2",
        "select t.id, w.s from t join w on w.k = t.a where 3 <= w.k and t.a in (3, 4, 9) order by 1, 2",
        "select t.id, w.s from t left join w on w.k = t.a where t.a in (3, 5) order by 1, 2",
        "select t.id, w.s, u.k from t, w, u where w.k = t.a and u.k = w.k and u.k < 4 order by 1, 2",
        "select t.id, w.s, u.k, v.x from t, w, u, w v where w.k = t.a and t.a = u.k and v.k = u.k and v.x = w.x",
        "select t.id, w.s from t, w, u, w v where w.k = t.a and v.k = w.k and u.k = v.x and v.x = t.id",
        "select t.id, w.s, v.s from t join w on w.k = t.a join w v on v.s = w.s and v.k = w.k where v.k = t.a",
        "select t.id, w.s, v.s from t join w on w.k = t.a and w.x = t.a join w v on v.k = w.x",
        "select t.id, u.k, w.s from t left join w on w.k = t.a join u on u.k = t.a join t v on v.a = u.k",
        "select t.id, u.k, w.s from t join u on u.k = t.a left join w on w.k = u.k left join w v on v.k = w.k and v.x = u.k",
        "select t.id, u.k from t full join w on w.k = t.a join u on u.k = t.a join w v on v.k = u.k and v.k = w.k",
        "select t.id from t, u where u.k = t.a and exists (select from w, w v where w.k = u.k and v.k = w.k and v.x = t.a)",
        "select t.id, (select count(*) from w, u, w v where w.k = u.k and u.k = v.k and v.x = t.a) from t",
        "select t.id, w.s from t, w, u, w v where w.k = t.a and v.k::bigint = w.k::bigint and u.k = w.k and v.x = u.k::bigint",
        "select id from t where not exists (select from w where w.k = t.a and w.x > 4) and t.a > 2",
        "select t.id, (select count(*) from w, u where w.k = u.k and u.k = t.a) from t where t.a > 1",
        "select t.id, w.s from t full join w on w.k = t.a where coalesce(w.k, 3) = 3 and t.a = 3 order by 1, 2",
        "select t.id, w.s from t full join w on w.k = t.a where t.id < 9 order by 1, 2",
        "select t.id, w.s from t full join w on w.k = t.a where w.x = 3 order by 1, 2",
        "select t.id, w.s from t full join w on w.k = t.a where w.x = 3 and t.id > 2 order by 1, 2",
        "select t.id, u.k, w.s from t left join (u left join w on w.x = u.k) on u.tid = t.id and w.k = t.a order by 1, 2, 3",
        "select t.id from t left join (u left join w on w.x = u.k) on u.tid = t.id where w.k = t.a or w.k is null order by 1",
        "select * from (select k, sum(x) as s from w group by k) g where k = 3 and s > 1",
        "select * from (select k + 1 as k, count(*) from w group by k + 1) g where k > 3 order by 1",
        "select k, count(*) from w group by k having k > 4 and count(*) > 2",
        "select * from (select distinct k, x from w) d where k = 2 order by 1, 2",
        "select * from (select k, x from w union select a, id from t) d where k = 2 order by 1, 2",
        "select * from (select k, 1 from w union all select a, id from t) d where k = 2 order by 1, 2",
        "select * from (select k, x from w except all select a, 1 from t) d where k < 3 order by 1, 2",
        "select * from (select k, x from w intersect select a, x from t, u as v (x, y)) d where k < 3 order by 1, 2",
        "select k from ((select k from w order by 1 offset 3) intersect select a from t) d where k <= k and k < 5",
        "select * from (select k, x from w order by x, k limit 5) d where k = 2 order by 1, 2",
        "select t.id, g.n from t left join (select k, count(*) as n from w group by k) g on g.k = t.a and g.k < 4 order by 1",
        "select t.id from t left join (select k, count(*) as n from w group by k) g on g.k = t.a order by 1",
        "select count(*) from t left join t as v on v.id = t.a left join w on w.k = v.id",
        "select max(n) from (select k, count(*) as n, sum(x) as s, min(s) as m from w group by k) g",
        "select count(*) from (select k, 10 / (k - 100) as q from w limit 30) d",
        "select 1 from w where 1 / (k - 100) = 1 having 1 < 2",
        "select count(*) from (select a, id from t union all select k, 1 / (x - 100) from w) d",
        "with c as materialized (select id, 1 / (a - 100) as q from t) select id from c order by 1",
        "with c as (select k, sum(x) as s from w group by k) select id from t where exists (select from c where c.k = t.a) \
         and id > (select max(c.s) from c where c.k = t.a)",
        "with c as materialized (select k, x from w where x > 2) select id from t where a in (select k from c where c.x = t.id % 6)",
        "select id from t where exists (with c as (select t.a as v) select from c p, c q, w where p.v = w.k and q.v = w.x)",
        "select id from t where id > (with c as materialized (select x from w where w.k = t.a) select max(p.x + q.x) from c p, c q)",
        "select id from t where (10 / a = 5 and id = 6) or (10 / a = 5 and id = 7) and a <> 0",
        "select id, case when 1 > 2 then 1 / 0 when a = 1 then 5 when 2 > 1 then a else 1 / 0 end from t",
        "select id, coalesce(null, a, 3 + 4, 1 / 0), coalesce(null::int, null), 7::bigint + 1 from t",
        "select id from t where (a > 2 or 1 > 2 or null) and (a < 7 or not null::bool) and 2 > 1",
        "select id, (null and 2 > 1) is null, (a > 1 and 1 > 2) is not true, (null or 2 > 1) is unknown from t",
        "select id from t where a = 100 and (1 / 0 = id or coalesce(null, a) is null)",
        "select id, case when a < 100 then 'x'::char(3) else 'y' end, '12'::int + a from t where 'a' || 'b' = 'ab'",
    ];
    let names: Vec<&str> = ALL.iter().map(|r| r.0).collect();
    let mut changed = vec![false; ALL.len()];
    for sql in queries {
        let mut by = |rewrites: &[(&'static str, crate::plan::rewrite::Rewrite)]| {
            let host = Bodies(db.connection.catalog());
            let find: FindFunction<'_> = &|f| host.function(f);
            let bound = db.bind(sql).unwrap();
            let program = crate::compile::compile_by(
                rewrites,
                Vec::new(),
                &bound,
                find,
                Limits::NONE,
                Ways::ALL,
                Some(OPTIONS),
            )
            .unwrap();
            let plan = crate::code::explain::lines(&program, OPTIONS, None, 0).join("\n");
            let env = Env { host: &host, ..Env::EMPTY };
            let mut rows = RowBuffer::new();
            let done = run(&mut db.frame, &Arc::new(program), &mut db.connection, &[], &mut rows, &env);
            let mut rows: Vec<String> =
                rows.iter().map(|r| r.values().map(show).collect::<Vec<_>>().join("|")).collect();
            rows.sort();
            (done.map(|_| rows).map_err(|e| e.to_string()), plan)
        };
        let (wanted, plain) = by(&[]);
        for (n, rewrite) in ALL.iter().enumerate() {
            let (found, plan) = by(&[*rewrite]);
            assert_eq!(found, wanted, "{sql}, {}\n{plan}", rewrite.0);
            changed[n] |= plan != plain;
        }
        let (found, plan) = by(ALL);
        assert_eq!(found, wanted, "{sql}\n{plan}");
    }
    // It needs an index on an expression; those are tried with the sessions that make them.
    changed[names.iter().position(|n| *n == "hidden").unwrap()] = true;
    assert!(changed.iter().all(|c| *c), "{names:?} change a plan: {changed:?}");
}
