//! Functions over windows beside what they are by definition: of random frames each row's is gone through
//! here, row by row. And what they take: memory that is charged and given back, time that can be broken off.
use ondol::{Database, OpenOptions, Session, TempFolder};

/// A small generator of numbers, the same for every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }
    fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.roll(list.len() as u64) as usize]
    }
}

/// A row: its partition, the key of the order, a value.
#[derive(Clone, Copy)]
struct Item {
    partition: i64,
    key: i64,
    value: Option<i64>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Unit {
    Rows,
    Range,
    Groups,
}

/// From where on a frame goes, and to where: so far behind the row; nothing: with the partition.
type Ends = (Option<i64>, Option<i64>);

const EXCLUDED: [&str; 4] = ["NO OTHERS", "CURRENT ROW", "GROUP", "TIES"];

fn end(at: Option<i64>, unbounded: &str) -> String {
    match at {
        None => format!("UNBOUNDED {unbounded}"),
        Some(0) => "CURRENT ROW".to_string(),
        Some(n) if n < 0 => format!("{} PRECEDING", -n),
        Some(n) => format!("{n} FOLLOWING"),
    }
}

/// The rows of a partition, in its order, that row `n` sees.
fn frame(rows: &[Item], n: usize, unit: Unit, (from, to): Ends, excluded: &str) -> Vec<Item> {
    let groups: Vec<i64> = rows
        .iter()
        .scan((i64::MIN, -1), |(last, group), r| {
            *group += i64::from(r.key != *last);
            *last = r.key;
            Some(*group)
        })
        .collect();
    let is_in = |m: usize| {
        let distance = match unit {
            Unit::Rows => m as i64 - n as i64,
            Unit::Range => rows[m].key - rows[n].key,
            Unit::Groups => groups[m] - groups[n],
        };
        let is_peer = rows[m].key == rows[n].key;
        let out = match excluded {
            "CURRENT ROW" => m == n,
            "GROUP" => is_peer,
            "TIES" => is_peer && m != n,
            _ => false,
        };
        !out && from.is_none_or(|f| f <= distance) && to.is_none_or(|t| distance <= t)
    };
    (0..rows.len()).filter(|m| is_in(*m)).map(|m| rows[m]).collect()
}

fn session() -> (TempFolder, Database) {
    let folder = TempFolder::new().expect("a temporary folder");
    let db = Database::open(folder.path()).expect("a database in it");
    (folder, db)
}

#[test]
fn frames_are_what_they_are_by_definition() {
    let (_folder, db) = session();
    let mut s = db.session();
    let mut dice = Dice(0x5eed_0f57);
    for round in 0..40 {
        let count = dice.one_of(&[1, 5, 40, 300, 700]);
        let (partitions, keys) = (dice.one_of(&[1, 1, 3]), dice.one_of(&[4, 60, 100_000]));
        let row = |dice: &mut Dice| Item {
            partition: dice.roll(partitions) as i64,
            key: dice.roll(keys) as i64,
            value: (dice.roll(9) > 0).then(|| dice.roll(1000) as i64 - 500),
        };
        let mut rows: Vec<Item> = (0..count).map(|_| row(&mut dice)).collect();
        s.execute("DROP TABLE IF EXISTS t; CREATE TABLE t (id integer, p integer, k integer, v integer)")
            .unwrap();
        // In the order of ids, peers come as they stand here.
        rows.sort_by_key(|r| (r.partition, r.key));
        let text = |(n, r): (usize, &Item)| {
            let value = r.value.map_or("NULL".to_string(), |v| v.to_string());
            format!("({n}, {}, {}, {value})", r.partition, r.key)
        };
        let values: Vec<String> = rows.iter().enumerate().map(text).collect();
        s.execute(&format!("INSERT INTO t VALUES {}", values.join(", "))).unwrap();
        for _ in 0..6 {
            let unit = dice.one_of(&[Unit::Rows, Unit::Range, Unit::Groups]);
            let far = [0, 0, 1, 2, 5, 40, 350];
            let one = |dice: &mut Dice| dice.one_of(&far) * dice.one_of(&[-1, 1]);
            let from = (dice.roll(3) > 0).then(|| one(&mut dice));
            let to = (dice.roll(3) > 0).then(|| one(&mut dice));
            let (from, to) = match (from, to) {
                (Some(a), Some(b)) => (Some(a.min(b)), Some(a.max(b))),
                ends => ends,
            };
            let excluded = dice.one_of(&EXCLUDED);
            // By rows, the order is one of all rows; peers are those of the keys then.
            let (order, excluded) = match unit {
                Unit::Rows if excluded == "NO OTHERS" || excluded == "CURRENT ROW" => ("k, id", excluded),
                Unit::Rows => ("k, id", "NO OTHERS"),
                _ => ("k", excluded),
            };
            let unit_name = format!("{unit:?}").to_uppercase();
            let (start, stop) = (end(from, "PRECEDING"), end(to, "FOLLOWING"));
            let sql = format!(
                "SELECT id, count(*) OVER w, sum(v) OVER w, min(v) OVER w, max(v) FILTER (WHERE v < 100) OVER w,
                     (sum(v::double precision) OVER w)::bigint, (sum(v::numeric) OVER w)::bigint
                 FROM t WINDOW w AS (PARTITION BY p ORDER BY {order} {unit_name} BETWEEN {start} AND {stop}
                     EXCLUDE {excluded}) ORDER BY id"
            );
            let found = s.query(&sql, &[]).unwrap_or_else(|e| panic!("{sql}: {e}"));
            for n in 0..rows.len() {
                let first = rows.iter().position(|r| r.partition == rows[n].partition).unwrap();
                let last = rows.iter().rposition(|r| r.partition == rows[n].partition).unwrap();
                let seen = frame(&rows[first..=last], n - first, unit, (from, to), excluded);
                let values: Vec<i64> = seen.iter().filter_map(|r| r.value).collect();
                let sum = (!values.is_empty()).then(|| values.iter().sum::<i64>());
                let below = values.iter().copied().filter(|v| *v < 100).max();
                let minimum = values.iter().min().copied();
                let expected = [Some(seen.len() as i64), sum, minimum, below, sum, sum];
                let row = found.row(n);
                let number = |c: usize| row.get::<Option<i64>>(c).unwrap();
                let small = |c: usize| row.get::<Option<i32>>(c).unwrap().map(i64::from);
                let got = [number(1), number(2), small(3), small(4), number(5), number(6)];
                assert_eq!(got, expected, "round {round}, row {n} of {count}: {sql}");
            }
        }
    }
}

fn code(s: &mut Session, sql: &str) -> String {
    s.execute(sql).map_or_else(|e| e.sqlstate().to_string(), |_| String::new())
}

#[test]
fn partitions_are_charged_and_given_back() {
    const MIB: usize = 1 << 20;
    let folder = TempFolder::new().unwrap();
    let db = OpenOptions::new().memory_limit(48 * MIB).open(folder.path()).unwrap();
    let mut s = db.session();
    s.execute(
        "CREATE TABLE t (a integer PRIMARY KEY); INSERT INTO t SELECT * FROM generate_series(1, 80000)",
    )
    .unwrap();
    let text = "repeat('x', 1000)";
    let of = |window: &str| {
        format!("SELECT count(x) FROM (SELECT first_value({text}) OVER ({window}) AS x FROM t) s")
    };
    // One partition of all rows is refused; one after the other takes the room of the largest.
    assert_eq!(code(&mut s, &of("ORDER BY a")), "53200");
    assert_eq!(code(&mut s, &of("PARTITION BY a")), "");
    // What an aggregate keeps of one frame is given back before the next.
    let gathered = "SELECT max(length(x)) FROM (SELECT string_agg('some text', '') OVER (ORDER BY a ROWS 400 PRECEDING) AS x FROM t) s";
    assert_eq!(code(&mut s, gathered), "");
}

#[test]
fn long_partitions_can_be_broken_off() {
    let (_folder, db) = session();
    let mut s = db.session();
    s.execute("SET statement_timeout = 50").unwrap();
    let frame = "ROWS BETWEEN 60000 PRECEDING AND CURRENT ROW";
    for function in ["sum(n::double precision)", "array_agg(n)"] {
        let sql = format!("SELECT {function} OVER (ORDER BY n {frame}) FROM generate_series(1, 120000) n");
        assert_eq!(code(&mut s, &sql), "57014", "{sql}");
    }
    s.execute("SET statement_timeout = 0").unwrap();
    // A moving sum that can be put together is not quadratic.
    let sql = format!(
        "SELECT max(x) FROM (SELECT sum(n) OVER (ORDER BY n {frame}) AS x FROM generate_series(1, 120000) n) s"
    );
    assert_eq!(s.query(&sql, &[]).unwrap().row(0).get::<i64>(0).unwrap(), (60_000..=120_000).sum::<i64>());
}
