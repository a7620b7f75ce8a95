//! Statements of many values, terms and rows: their time grows with their length and no faster, and none is
//! refused for being long below the limits that PostgreSQL has, too.
use ondol::{OpenOptions, Session, TempFolder, Value};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

fn with_session(test: impl FnOnce(&mut Session)) {
    let folder = TempFolder::new().unwrap();
    let db = OpenOptions::new().memory_limit(1 << 30).open(folder.path()).unwrap();
    let mut s = db.session();
    s.execute(
        "SET synchronous_commit = off;
         CREATE TABLE t (id integer PRIMARY KEY, v integer, s text);
         CREATE TABLE wide (a integer, b text);
         INSERT INTO t SELECT n, n % 1000, 'n' || n FROM generate_series(1, 2000) n",
    )
    .unwrap();
    test(&mut s)
}

/// The time for which this thread has had a processor: a busy machine's other work does not count.
fn processor_time() -> Duration {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// The first value of the answer.
fn answer(s: &mut Session, sql: &str, params: &[Value]) -> String {
    let mut out = String::new();
    let done = s.for_each(sql, params, |row| {
        if out.is_empty() {
            row.text(0, &mut out);
        }
        Ok(())
    });
    done.unwrap_or_else(|e| panic!("{}: {} {e}", &sql[..sql.len().min(100)], e.sqlstate()));
    out
}

fn joined(n: usize, each: impl Fn(usize) -> String, by: &str) -> String {
    (0..n).map(each).collect::<Vec<_>>().join(by)
}

/// Statements by their length. What they answer does not depend on it, where it is given.
type Form = (&'static str, fn(usize) -> String, Option<&'static str>);

const FORMS: &[Form] = &[
    (
        "IN of constants, by the index",
        |n| {
            format!("SELECT count(*) FROM t WHERE id IN ({})", joined(n, |i| (i * 5 + 2001).to_string(), ","))
        },
        Some("0"),
    ),
    (
        "IN of constants, without an index",
        |n| format!("SELECT count(*) FROM t WHERE v IN ({})", joined(n, |i| (i + 500).to_string(), ",")),
        None,
    ),
    (
        "NOT IN",
        |n| format!("SELECT count(*) FROM t WHERE v NOT IN ({})", joined(n, |i| (i + 1000).to_string(), ",")),
        Some("2000"),
    ),
    (
        "NOT IN with NULL",
        |n| format!("SELECT count(*) FROM t WHERE id NOT IN (NULL, {})", joined(n, |i| i.to_string(), ",")),
        Some("0"),
    ),
    (
        "= ANY (ARRAY[...])",
        |n| {
            format!(
                "SELECT count(*) FROM t WHERE v = ANY (ARRAY[{}])",
                joined(n, |i| (i + 1000).to_string(), ",")
            )
        },
        Some("0"),
    ),
    (
        "IN of texts",
        |n| format!("SELECT count(*) FROM t WHERE s IN ({})", joined(n, |i| format!("'x{i}'"), ",")),
        Some("0"),
    ),
    (
        "IN of mixed numbers",
        |n| {
            format!(
                "SELECT count(*) FROM t WHERE v IN ({})",
                joined(n, |i| format!("{i}.5, {}", i + 1000), ",")
            )
        },
        Some("0"),
    ),
    (
        "IN of expressions",
        |n| {
            format!(
                "SELECT count(*) FROM t WHERE id IN ({})",
                joined(n, |i| format!("length(current_user) + {i}000"), ",")
            )
        },
        None,
    ),
    (
        "OR of as many constants",
        |n| {
            format!(
                "SELECT count(*) FROM t WHERE id = 7 AND ({})",
                joined(n, |i| format!("v = {}", i + 8), " OR ")
            )
        },
        Some("0"),
    ),
    (
        "AND",
        |n| {
            format!(
                "SELECT count(*) FROM t WHERE id = 7 AND {}",
                joined(n, |i| format!("v <> {}", i + 8), " AND ")
            )
        },
        Some("1"),
    ),
    (
        "AND of one condition",
        |n| format!("SELECT count(*) FROM t WHERE {}", joined(n, |_| "id = 7".into(), " AND ")),
        Some("1"),
    ),
    (
        "CASE of as many branches",
        |n| {
            format!(
                "SELECT CASE v {} END FROM t WHERE id = 999",
                joined(n, |i| format!("WHEN {} THEN 1", i + 1000), " ")
            )
        },
        None,
    ),
    (
        "coalesce",
        |n| format!("SELECT coalesce({}, 5)", joined(n, |i| format!("nullif({i}, {i})"), ",")),
        Some("5"),
    ),
    (
        "VALUES",
        |n| format!("SELECT count(*) FROM (VALUES {}) x", joined(n, |i| format!("({i}, 'r{i}')"), ",")),
        None,
    ),
    (
        "VALUES of expressions",
        |n| {
            format!(
                "SELECT count(*) FROM (VALUES {}) x",
                joined(n, |i| format!("({i}, current_user || '{i}')"), ",")
            )
        },
        None,
    ),
    (
        "INSERT of rows",
        |n| format!("INSERT INTO wide VALUES {}", joined(n, |i| format!("({i}, 'r{i}')"), ",")),
        None,
    ),
    (
        "INSERT of rows with defaults",
        |n| format!("INSERT INTO wide (b, a) VALUES {}", joined(n, |i| format!("('r{i}', DEFAULT)"), ",")),
        None,
    ),
    (
        "UPDATE by a list",
        |n| {
            format!("UPDATE t SET s = 'new' WHERE id IN ({})", joined(n, |i| (i * 5 + 2001).to_string(), ","))
        },
        None,
    ),
    (
        "UNION ALL of VALUES",
        |n| {
            let rows = joined(n / 2, |i| format!("({i})"), ",");
            format!("SELECT count(*) FROM ((VALUES {rows}) UNION ALL (VALUES {rows})) x")
        },
        None,
    ),
    (
        "an IN of constants under a subquery",
        |n| {
            let list = joined(n, |i| (i + 1000).to_string(), ",");
            format!("SELECT count(*) FROM t WHERE id IN (SELECT id FROM t WHERE v IN ({list}))")
        },
        Some("0"),
    ),
];

#[test]
fn time_grows_with_the_length_and_no_faster() {
    with_session(|s| {
        const N: usize = 2000;
        const TIMES: u32 = 8;
        let mut slow = vec![];
        for (name, form, expected) in FORMS {
            let time = |s: &mut Session, n: usize| {
                let sql = form(n);
                let mut best = Duration::MAX;
                for turn in 0..3 {
                    // A text of its own each time, so that it is planned each time.
                    let sql = format!("{sql} -- {turn}");
                    let begun = processor_time();
                    let found = answer(s, &sql, &[]);
                    best = best.min(processor_time() - begun);
                    if let Some(expected) = expected {
                        assert_eq!(found, *expected, "{name} of {n}")
                    }
                }
                best
            };
            let (few, many) = (time(s, N), time(s, N * TIMES as usize));
            // Linear is eight times as long, quadratic sixty-four times.
            if many > few * TIMES * 3 {
                slow.push(format!("{name}: {few:?} for {N}, {many:?} for {}", N * TIMES as usize))
            }
        }
        assert!(slow.is_empty(), "{}", slow.join("\n"));
    })
}

#[test]
fn long_lists_are_not_refused() {
    with_session(|s| {
        let list = joined(200_000, |i| (i * 5).to_string(), ",");
        assert_eq!(answer(s, &format!("SELECT count(*) FROM t WHERE id IN ({list})"), &[]), "400");
        assert_eq!(answer(s, &format!("SELECT count(*) FROM t WHERE v NOT IN ({list})"), &[]), "1600");
        let rows = joined(100_000, |i| format!("({i}, 'r{i}')"), ",");
        s.execute(&format!("INSERT INTO wide VALUES {rows}")).unwrap();
        let check =
            "SELECT count(*) || ' ' || sum(a) || ' ' || count(DISTINCT b) FROM wide WHERE b = 'r' || a";
        assert_eq!(answer(s, check, &[]), "100000 4999950000 100000");
        s.execute("DELETE FROM wide").unwrap();
        let rows = joined(30_000, |i| format!("(length('{i}'), current_user || '{i}')"), ",");
        s.execute(&format!("INSERT INTO wide VALUES {rows}")).unwrap();
        let check = "SELECT count(*) || ' ' || count(DISTINCT b) FROM wide WHERE length(b) = a + length(current_user)";
        assert_eq!(answer(s, check, &[]), "30000 30000");
        let terms = joined(40_000, |i| format!("v = {}", i + 7), " OR ");
        assert_eq!(answer(s, &format!("SELECT count(*) FROM t WHERE id = 7 AND ({terms})"), &[]), "1");
    })
}

#[test]
fn as_many_parameters_as_postgresql_takes() {
    with_session(|s| {
        let params: Vec<Value> = (0..65_535).map(|i| Value::Int4(i * 3)).collect();
        for n in [8, 9, 8191, 8192, 8193, 32_768, 65_535] {
            let list = joined(n, |i| format!("${}", i + 1), ",");
            let expected = (n - 1).min(666).to_string();
            let sql = format!("SELECT count(*) FROM t WHERE id IN ({list})");
            assert_eq!(answer(s, &sql, &params[..n]), expected, "{n} parameters, by the index");
            let sql = format!("SELECT count(*) FROM t WHERE id + 0 IN ({list})");
            assert_eq!(answer(s, &sql, &params[..n]), expected, "{n} parameters");
            let sql = format!("SELECT count(*) FROM t WHERE id + 0 NOT IN ({list})");
            let mut with_null = params[..n].to_vec();
            assert_eq!(answer(s, &sql, &with_null), (2000 - (n - 1).min(666)).to_string());
            with_null[n - 1] = Value::Null;
            assert_eq!(answer(s, &sql, &with_null), "0", "{n} parameters, the last NULL");
            let rows = joined(n, |i| format!("(${}::int)", i + 1), ",");
            let sql = format!("SELECT sum(x) FROM (VALUES {rows}) v (x)");
            let sum: i64 = (0..n as i64).map(|i| i * 3).sum();
            assert_eq!(answer(s, &sql, &params[..n]), sum.to_string(), "{n} rows of parameters");
            let sql = format!("SELECT ${n}::int + 1");
            let types: Vec<String> = (1..n).map(|i| format!("${i}::int IS NULL")).collect();
            let sql = format!("{sql} WHERE NOT ({})", types.join(" OR "));
            assert_eq!(answer(s, &sql, &params[..n]), ((n as i64 - 1) * 3 + 1).to_string());
        }
    })
}

#[test]
fn in_is_what_its_comparisons_say() {
    with_session(|s| {
        s.execute(
            "CREATE TABLE x (id integer PRIMARY KEY, n integer, b bigint, d numeric, f double precision, s text, h integer);
             CREATE INDEX ON x (b);
             CREATE INDEX ON x USING hash (h);
             INSERT INTO x SELECT i, CASE WHEN i % 7 > 0 THEN i % 13 END, CASE WHEN i % 5 > 0 THEN i % 11 END, CASE WHEN i % 6 > 0 THEN i % 9 END,
                 CASE WHEN i % 4 > 0 THEN i % 8 END, CASE WHEN i % 3 > 0 THEN (i % 10)::text END, i % 12 FROM generate_series(1, 60) i",
        )
        .unwrap();
        let mut seed = 0x9e37_79b9_7f4a_7c15u64;
        let mut roll = |sides: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed >> 11) % sides
        };
        for turn in 0..600 {
            let column = ["id", "n", "b", "d", "f", "s", "h", "n + 0", "id - h", "b + n"][roll(10) as usize];
            let mut params = vec![];
            let items: Vec<String> = (0..1 + roll(30))
                .map(|_| {
                    let n = roll(16);
                    match (roll(12), column) {
                        (0, _) if turn % 2 == 0 => "NULL".into(),
                        (1 | 2, "s") => format!("lower('{n}')"),
                        (3, "s") => "s".into(),
                        (_, "s") => format!("'{n}'"),
                        (1..4, "id" | "n" | "n + 0" | "id - h" | "h") => {
                            params.push(Value::Int4(n as i32));
                            format!("${}::integer", params.len())
                        }
                        (4, _) => format!("{n} + h"),
                        (5, _) => format!("abs({n} - 2)"),
                        (6, "n" | "id" | "b" | "h") if turn % 3 == 0 => format!("{n}.5"),
                        (7, "n" | "id" | "h") if turn % 3 == 1 => format!("{n}00000000000"),
                        _ => n.to_string(),
                    }
                })
                .collect();
            let list = items.join(", ");
            let chain = items.iter().map(|i| format!("{column} = {i}")).collect::<Vec<_>>().join(" OR ");
            let sql =
                format!("SELECT count(*) FROM x WHERE ({column} IN ({list})) IS DISTINCT FROM ({chain})");
            assert_eq!(answer(s, &sql, &params), "0", "{sql}");
            let sql = format!(
                "SELECT count(*) FROM x WHERE ({column} NOT IN ({list})) IS DISTINCT FROM (NOT ({chain}))"
            );
            assert_eq!(answer(s, &sql, &params), "0", "{sql}");
            let expected = answer(s, &format!("SELECT count(*) FROM x WHERE {chain}"), &params);
            for not in ["", "NOT ", "NOT NOT "] {
                let sql = format!("SELECT count(*) FROM x WHERE {not}{column} IN ({list})");
                let found = answer(s, &sql, &params);
                match not {
                    "NOT " => assert_eq!(
                        found,
                        answer(s, &format!("SELECT count(*) FROM x WHERE NOT ({chain})"), &params),
                        "{sql}"
                    ),
                    _ => assert_eq!(found, expected, "{sql}"),
                }
            }
        }
    })
}

#[test]
fn a_list_longer_than_the_table_is_not_looked_up_value_by_value() {
    with_session(|s| {
        let plan = |s: &mut Session, n: usize| {
            let list = joined(n, |i| i.to_string(), ",");
            answer(s, &format!("EXPLAIN SELECT v FROM t WHERE id IN ({list})"), &[])
        };
        assert!(plan(s, 20).starts_with("Index Scan"));
        assert!(plan(s, 20_000).starts_with("Seq Scan"));
    })
}
