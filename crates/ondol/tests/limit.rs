//! Queries with limits below filters, DISTINCT, set operations, joins and subqueries, made at random: each
//! gives what a model of SQL says, on a table with indexes for its orders as on one without.
//!
//! A limit always stands on an order of all columns, or of a key, so that there is one answer.
use ondol::{Database, Session, TempFolder};
use std::fmt::Write;

type Value = Option<i64>;
/// Every query here gives two columns, `id` and `v`.
type Pair = [Value; 2];

/// A small generator of numbers, the same for every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }
    fn one_in(&mut self, n: u64) -> bool {
        self.roll(n) == 0
    }
}

enum Source {
    Table,
    Query(Box<Query>),
    /// UNION, INTERSECT, EXCEPT; whether ALL.
    Set(&'static str, bool, Box<Query>, Box<Query>),
    /// On equal `v`; whether a LEFT join. Gives the left `id` and the right `v`.
    Join(bool, Box<Query>, Box<Query>),
}

enum Condition {
    Compare(usize, &'static str, i64),
    In(usize, bool, Box<Query>),
    Exists(bool, Box<Query>),
}

struct Query {
    source: Source,
    filter: Vec<Condition>,
    distinct: bool,
    /// `v` stands in both columns.
    narrow: bool,
    /// Columns, and whether the order falls.
    order: Vec<(usize, bool)>,
    limit: Option<usize>,
    offset: Option<usize>,
}

const NAMES: [&str; 2] = ["id", "v"];

fn below(q: &Query, out: &mut String, names: &mut u32) {
    out.push('(');
    q.write(out, names);
    out.push(')');
}

fn set(operation: &str, all: bool, left: &Query, right: &Query, out: &mut String, names: &mut u32) {
    below(left, out, names);
    write!(out, " {operation}{} ", if all { " ALL" } else { "" }).unwrap();
    below(right, out, names);
}

impl Query {
    fn random(dice: &mut Dice, depth: u32) -> Query {
        let deeper = |dice: &mut Dice| Box::new(Query::random(dice, depth - 1));
        let source = match dice.roll(if depth == 0 { 1 } else { 8 }) {
            0 | 1 => Source::Table,
            2..=5 => Source::Query(deeper(dice)),
            6 => {
                let operation = ["UNION", "INTERSECT", "EXCEPT"][dice.roll(3) as usize];
                Source::Set(operation, dice.one_in(2), deeper(dice), deeper(dice))
            }
            _ => Source::Join(dice.one_in(2), deeper(dice), deeper(dice)),
        };
        let mut filter = vec![];
        while dice.one_in(2) {
            filter.push(match dice.roll(if depth == 0 { 4 } else { 6 }) {
                0..=3 => {
                    let comparison = ["=", "<>", "<", ">", ">="][dice.roll(5) as usize];
                    Condition::Compare(dice.roll(2) as usize, comparison, dice.roll(10) as i64)
                }
                4 => Condition::In(dice.roll(2) as usize, dice.one_in(3), deeper(dice)),
                _ => Condition::Exists(dice.one_in(3), deeper(dice)),
            })
        }
        let narrow = dice.one_in(4);
        let limit = (!dice.one_in(3)).then(|| dice.roll(6) as usize);
        let offset = dice.one_in(4).then(|| dice.roll(4) as usize);
        let mut order = vec![];
        if limit.is_some() || offset.is_some() {
            let falls = dice.one_in(2);
            let by_key = matches!(source, Source::Table) && !narrow;
            order = match dice.roll(3) {
                0 | 1 if by_key => vec![(0, falls)],
                0 | 1 => vec![(0, falls), (1, dice.one_in(2))],
                _ => vec![(1, falls), (0, falls)],
            };
        }
        Query { source, filter, distinct: dice.one_in(4), narrow, order, limit, offset }
    }

    fn write(&self, out: &mut String, names: &mut u32) {
        if let (Source::Set(operation, all, left, right), false, false, []) =
            (&self.source, self.distinct, self.narrow, &self.filter[..])
        {
            set(operation, *all, left, right, out, names);
            return self.write_limit(out);
        }
        *names += 1;
        let name = format!("x{names}");
        let distinct = if self.distinct { "DISTINCT " } else { "" };
        let (id, v) = match &self.source {
            Source::Join(..) => (format!("{name}a.id"), format!("{name}b.v")),
            _ => (format!("{name}.id"), format!("{name}.v")),
        };
        let columns = [id, v];
        let first = &columns[usize::from(self.narrow)];
        write!(out, "SELECT {distinct}{first} AS id, {} AS v FROM ", columns[1]).unwrap();
        match &self.source {
            Source::Table => write!(out, "TABLE {name}").unwrap(),
            Source::Query(q) => {
                below(q, out, names);
                write!(out, " {name}").unwrap()
            }
            Source::Set(operation, all, left, right) => {
                out.push('(');
                set(operation, *all, left, right, out, names);
                write!(out, ") {name}").unwrap()
            }
            Source::Join(left, a, b) => {
                below(a, out, names);
                write!(out, " {name}a {} ", if *left { "LEFT JOIN" } else { "JOIN" }).unwrap();
                below(b, out, names);
                write!(out, " {name}b ON {name}a.v = {name}b.v").unwrap()
            }
        }
        for (n, c) in self.filter.iter().enumerate() {
            out.push_str(if n == 0 { " WHERE " } else { " AND " });
            match c {
                Condition::Compare(column, comparison, value) => {
                    write!(out, "{} {comparison} {value}", columns[*column]).unwrap()
                }
                Condition::In(column, negated, q) => {
                    let not = if *negated { "NOT " } else { "" };
                    *names += 1;
                    write!(out, "{} {not}IN (SELECT x{names}.v FROM (", columns[*column]).unwrap();
                    let name = format!("x{names}");
                    q.write(out, names);
                    write!(out, ") {name})").unwrap()
                }
                Condition::Exists(negated, q) => {
                    out.push_str(if *negated { "NOT EXISTS " } else { "EXISTS " });
                    below(q, out, names)
                }
            }
        }
        self.write_limit(out)
    }

    fn write_limit(&self, out: &mut String) {
        for (n, (column, falls)) in self.order.iter().enumerate() {
            out.push_str(if n == 0 { " ORDER BY " } else { ", " });
            out.push_str(NAMES[*column]);
            out.push_str(if *falls { " DESC" } else { "" });
        }
        if let Some(n) = self.limit {
            write!(out, " LIMIT {n}").unwrap()
        }
        if let Some(n) = self.offset {
            write!(out, " OFFSET {n}").unwrap()
        }
    }

    fn answer(&self, table: &[Pair]) -> Vec<Pair> {
        let mut rows = match &self.source {
            Source::Table => table.to_vec(),
            Source::Query(q) => q.answer(table),
            Source::Set(operation, all, a, b) => combined(operation, *all, a.answer(table), b.answer(table)),
            Source::Join(left, a, b) => joined(*left, &a.answer(table), &b.answer(table)),
        };
        for c in &self.filter {
            match c {
                Condition::Compare(column, comparison, value) => rows.retain(|r| {
                    r[*column].is_some_and(|x| match *comparison {
                        "=" => x == *value,
                        "<>" => x != *value,
                        "<" => x < *value,
                        ">" => x > *value,
                        _ => x >= *value,
                    })
                }),
                Condition::In(column, negated, q) => {
                    let list: Vec<Value> = q.answer(table).iter().map(|r| r[1]).collect();
                    rows.retain(|r| is_in(r[*column], &list).is_some_and(|found| found != *negated))
                }
                Condition::Exists(negated, q) => {
                    if q.answer(table).is_empty() != *negated {
                        rows.clear()
                    }
                }
            }
        }
        if self.narrow {
            rows.iter_mut().for_each(|r| r[0] = r[1])
        }
        if self.distinct {
            rows.sort_unstable();
            rows.dedup()
        }
        if self.limit.is_some() || self.offset.is_some() {
            // NULL is the largest.
            let key = |v: Value| (v.is_none(), v);
            rows.sort_by(|a, b| {
                let columns = self.order.iter().map(|(c, falls)| {
                    let order = key(a[*c]).cmp(&key(b[*c]));
                    if *falls { order.reverse() } else { order }
                });
                columns.fold(std::cmp::Ordering::Equal, |all, one| all.then(one))
            });
            rows.drain(..self.offset.unwrap_or(0).min(rows.len()));
            rows.truncate(self.limit.unwrap_or(usize::MAX))
        }
        rows
    }
}

fn is_in(x: Value, list: &[Value]) -> Option<bool> {
    match x {
        _ if list.is_empty() => Some(false),
        None => None,
        Some(_) if list.contains(&x) => Some(true),
        Some(_) if list.contains(&None) => None,
        Some(_) => Some(false),
    }
}

fn combined(operation: &str, all: bool, mut left: Vec<Pair>, mut right: Vec<Pair>) -> Vec<Pair> {
    if !all {
        for side in [&mut left, &mut right] {
            side.sort_unstable();
            side.dedup()
        }
    }
    match operation {
        "UNION" => {
            left.append(&mut right);
            if !all {
                left.sort_unstable();
                left.dedup()
            }
        }
        // Each row of the right pairs with one of the left.
        _ => left.retain(|row| {
            let pair = right.iter().position(|r| r == row);
            pair.map(|at| right.swap_remove(at));
            pair.is_some() == (operation == "INTERSECT")
        }),
    }
    left
}

fn joined(left: bool, a: &[Pair], b: &[Pair]) -> Vec<Pair> {
    let mut out = vec![];
    for x in a {
        let before = out.len();
        out.extend(b.iter().filter(|y| x[1].is_some() && x[1] == y[1]).map(|y| [x[0], y[1]]));
        if left && out.len() == before {
            out.push([x[0], None])
        }
    }
    out
}

fn rows(s: &mut Session, sql: &str) -> Vec<Pair> {
    let mut all = vec![];
    s.for_each(sql, &[], |row| {
        let value = |n| {
            let mut text = String::new();
            row.text(n, &mut text).then(|| text.parse().unwrap())
        };
        all.push([value(0), value(1)]);
        Ok(())
    })
    .unwrap_or_else(|e| panic!("{sql}: {e}"));
    all.sort_unstable();
    all
}

#[test]
fn limits_count_the_rows_of_their_own_query() {
    let folder = TempFolder::new().unwrap();
    let db = Database::open(folder.path()).unwrap();
    let mut s = db.session();
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    let table: Vec<Pair> =
        (0..12).map(|id| [Some(id), (!dice.one_in(6)).then(|| dice.roll(8) as i64)]).collect();
    s.execute(
        "CREATE TABLE plain (id integer, v integer);
         CREATE TABLE ordered (id integer PRIMARY KEY, v integer);
         CREATE INDEX ON ordered (v, id);
         CREATE TABLE hashed (id integer PRIMARY KEY, v integer);
         CREATE INDEX ON hashed USING hash (v)",
    )
    .unwrap();
    for name in ["plain", "ordered", "hashed"] {
        // Not in the order of any column.
        for n in 0..table.len() {
            let [Some(id), v] = table[n * 5 % table.len()] else { panic!("a row without an id") };
            let v = v.map_or("NULL".into(), |v| v.to_string());
            s.execute(&format!("INSERT INTO {name} VALUES ({id}, {v})")).unwrap();
        }
    }
    let mut some = 0;
    for _ in 0..1500 {
        let query = Query::random(&mut dice, 3);
        let mut text = String::new();
        query.write(&mut text, &mut 0);
        let mut expected = query.answer(&table);
        expected.sort_unstable();
        some += usize::from(!expected.is_empty());
        for name in ["plain", "ordered", "hashed"] {
            let sql = text.replace("TABLE", name);
            assert_eq!(rows(&mut s, &sql), expected, "{sql}");
        }
    }
    assert!(some > 300, "only {some} queries have rows");
}
