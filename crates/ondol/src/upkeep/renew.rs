//! Indexes whose keys were computed with other versions of data than this program has, when a database is
//! opened.
//!
//! - **W1** *Before anybody asks.* They are rebuilt before the first session is there: their hidden columns
//!   are computed anew, as the table is copied, and its indexes are filled from the copy. So nobody finds a
//!   row by a key that its expression does not give.
//! - **W2** *Whole or not at all.* The rebuilding of a table is one transaction, with the record of the
//!   versions in it. After a crash in its midst the old record is there, and the next opening does it again.
//! - **W3** *The database opens all the same.* What cannot be rebuilt is told: rows that have one key now, an
//!   expression that is an error now, no room. That index is left as it is, and no query goes by it
//!   (sql/bind/index/H5); pg_index says that it is not valid. Writers hold rows to be unique by the keys that
//!   these have. REINDEX rebuilds it once the reason is gone, and so does the next opening.
//! - **W4** *No version twice.* Rows that are changed from then on get keys of this program's versions beside
//!   those that are there. So before a session can change one, the record says that there are several, which
//!   is the version of no program.
//! - **W5** A database that is looked at on top of its files is not changed in memory either: what is
//!   outdated is told, and not gone by.
//!
//! Not here: values of stored generated columns, and what checks have let in. They are data, which stay as
//! they were written; as in PostgreSQL.
use crate::database::Database;
use crate::session::Session;
use crate::session::output::Notice;
use ondol_base::sim::mutated;
use ondol_engine::{Catalog, Name};
use ondol_sql::bind::index::{self, OtherVersion};
use ondol_types::SqlResult;

/// An index that is outdated, of which table, and by which data.
struct Outdated {
    table: Name,
    name: String,
    others: Vec<OtherVersion>,
}

impl Outdated {
    fn all(catalog: &Catalog) -> Vec<Outdated> {
        let mut found = Vec::new();
        for table in catalog.tables() {
            if table.def.shown().len() == table.def.columns.len() {
                continue;
            }
            for i in &table.def.indexes {
                let others = index::outdated(catalog, &table.def, i);
                if !others.is_empty() {
                    found.push(Outdated { table: table.def.full_name(), name: i.name.clone(), others })
                }
            }
        }
        found
    }
    /// Its data: each with the version of its keys, and the program's.
    fn versions(&self) -> String {
        let one =
            |o: &OtherVersion| format!("of {} {}, and this program has {}", o.data.name(), o.was, o.now);
        self.others.iter().map(one).collect::<Vec<_>>().join("; ")
    }
    fn qualified(&self, catalog: &Catalog) -> String {
        catalog.qualified(&Name::new(self.table.schema, &*self.name))
    }
    fn rebuilt(&self) -> Notice {
        let message = format!("index \"{}\" was rebuilt", self.name);
        let detail = Some(format!("Its keys were {}.", self.versions()));
        Notice { severity: "NOTICE", sqlstate: "00000", message, detail }
    }
    /// `why` it could not be rebuilt.
    fn unused(&self, why: Option<&str>) -> Notice {
        let message = format!("index \"{}\" is not used until it is rebuilt", self.name);
        let why = why.map_or(String::new(), |w| format!(" It could not be rebuilt: {w}"));
        let detail = Some(format!("Its keys are {}.{why}", self.versions()));
        Notice { severity: "WARNING", sqlstate: "01000", message, detail }
    }
}

/// What is outdated in a database that stays as it is (W5).
pub fn outdated(catalog: &Catalog) -> Vec<Notice> {
    Outdated::all(catalog).iter().map(|o| o.unused(None)).collect()
}

/// Rebuilds what is outdated, and says so. An error where it cannot be kept from being believed (W4).
pub(crate) fn renew(database: &Database) -> SqlResult<Vec<Notice>> {
    let before = Outdated::all(&database.engine.catalog());
    if before.is_empty() {
        return Ok(Vec::new());
    }
    let mut s = database.session();
    let mut failures: Vec<(Name, String, String)> = Vec::new();
    let mut tables: Vec<&Name> = before.iter().map(|o| &o.table).collect();
    tables.dedup();
    for table in tables {
        if reindex(&mut s, "TABLE", &database.engine.catalog().qualified(table)).is_ok() {
            continue;
        }
        // One of them may be what stands in the way of the others.
        for o in before.iter().filter(|o| o.table == *table) {
            let still = || Outdated::all(&database.engine.catalog());
            if !still().iter().any(|s| s.table == o.table && s.name == o.name) {
                continue;
            }
            if let Err(e) = reindex(&mut s, "INDEX", &o.qualified(&database.engine.catalog())) {
                let detail = e.0.detail.as_ref().map_or(String::new(), |d| format!(" {d}"));
                failures.push((o.table.clone(), o.name.clone(), format!("{}.{detail}", e.0.message)))
            }
        }
        if !mutated("mixture_unnoted") {
            s.note_mixture(table)?
        }
    }
    let failure = |o: &Outdated| failures.iter().find(|f| f.0 == o.table && f.1 == o.name);
    let after = Outdated::all(&database.engine.catalog());
    let is_left = |o: &Outdated| after.iter().any(|a| a.table == o.table && a.name == o.name);
    let tell = |o: &Outdated| match is_left(o) {
        true => o.unused(failure(o).map(|f| f.2.as_str())),
        false => o.rebuilt(),
    };
    Ok(before.iter().map(tell).collect())
}

fn reindex(s: &mut Session, what: &str, name: &str) -> SqlResult<()> {
    s.query(&format!("REINDEX {what} {name}"), &[]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenOptions;
    use crate::upkeep::check::RowStrings;
    use ondol_base::media::Storage;
    use ondol_base::sim::{Config, World};
    use ondol_engine::{LockStrength, Scan, Wait};
    use ondol_types::data::{Data, DataVersions};
    use ondol_types::{Value, sqlstate};
    use std::sync::Arc;

    const NOW: (&str, &str) = ("17.0.0", "2026b");
    const OLD: (&str, &str) = ("15.0.0", "2026b");

    /// A program that computes with these versions.
    fn open(disk: Arc<dyn Storage>, (unicode, zones): (&str, &str)) -> SqlResult<Database> {
        let data = [(Data::Unicode, unicode), (Data::TimeZones, zones)];
        let data: DataVersions = data.into_iter().map(|(d, v)| (d, v.to_string())).collect();
        let options = OpenOptions::new().memory_limit(96 << 20).small_log_files();
        options.computing_with(data).open_on(disk)
    }

    /// Has the index as another version would have made it: gives its first column another value in all rows
    /// where that is `was`.
    fn spoil(db: &Database, table: &str, index: &str, was: &Value, to: &Value) {
        let catalog = db.engine.catalog();
        let table = catalog.table(table).expect("the table").clone();
        let of = table.def.indexes.iter().find(|i| i.name == index).expect("the index");
        let column = of.columns[0].column;
        let mut c = db.engine.connect();
        c.start_statement(catalog.version, std::slice::from_ref(&table), true).expect("a statement");
        let mut scan = Scan::default();
        scan.start(&c, &table);
        let (mut row, mut count) = (vec![0; table.layout.row_size], 0);
        while let Some(oid) = scan.next(&c, &mut row).expect("a row") {
            let mut scratch = Vec::new();
            let is = ondol_engine::row::column(&table.layout, &row, column, &RowStrings(&c), &mut scratch);
            if is.to_owned() == *was {
                c.lock(&table, oid, LockStrength::Update, Wait::Block).expect("a lock");
                let mut room = Vec::new();
                c.update(&table, oid, &row, &[(column, to.as_ref(&mut room))]).expect("a change");
                count += 1;
            }
        }
        c.end_statement().expect("the end");
        assert!(count > 0, "no row had {was:?}");
    }

    fn rows(s: &mut Session, sql: &str) -> Vec<String> {
        let found = s.query(sql, &[]).unwrap_or_else(|e| panic!("{sql}: {e}"));
        found.iter().map(|r| r.values().map(|v| v.to_string()).collect::<Vec<_>>().join("|")).collect()
    }

    /// What a query finds by an index, and what all rows say.
    fn found(s: &mut Session, condition: &str) -> (Vec<String>, Vec<String>) {
        let sql = format!("SELECT id FROM word WHERE {condition} ORDER BY id");
        s.execute("SET enable_seqscan = off").expect("a setting");
        let by_index = rows(s, &sql);
        s.execute("SET enable_seqscan = on; SET enable_indexscan = off").expect("settings");
        let all = rows(s, &sql);
        s.execute("RESET enable_indexscan").expect("a setting");
        (by_index, all)
    }

    fn text(s: &str) -> Value {
        Value::Text(s.into())
    }

    const WORDS: &str = "CREATE TABLE word (id integer PRIMARY KEY, w text, at timestamptz);
        INSERT INTO word SELECT n, 'w' || n, timestamptz '2026-01-01 12:00+00' + n * interval '1 day'
            FROM generate_series(1, 200) n;
        CREATE INDEX word_upper ON word (upper(w));
        CREATE INDEX word_local ON word ((at AT TIME ZONE 'Europe/Berlin'));
        CREATE INDEX word_some ON word (id) WHERE w ~ '^w1';
        CREATE INDEX word_next ON word ((id + 1));";

    const UPPER: &str = "upper(w) = 'W7'";

    fn told(db: &Database) -> Vec<String> {
        db.notices().iter().map(Notice::shown).collect()
    }
    fn invalid(s: &mut Session) -> Vec<String> {
        rows(s, "SELECT indexrelid::regclass FROM pg_index WHERE NOT indisvalid ORDER BY 1")
    }

    /// Words with indexes of older versions, of which each has something that this program's would not have.
    fn older(disk: Arc<dyn Storage>) -> SqlResult<()> {
        let db = open(disk, ("15.0.0", "2020a"))?;
        db.session().execute(WORDS)?;
        spoil(&db, "word", "word_upper", &text("W7"), &text("w7"));
        let local = |day: i64| Value::Timestamp(((9497 + day) * 86_400 + 13 * 3600) * 1_000_000);
        spoil(&db, "word", "word_local", &local(3), &local(777));
        let mut s = db.session();
        assert_eq!(found(&mut s, UPPER).0, [""; 0], "the index has another key");
        drop(s);
        db.close()
    }

    #[test]
    fn indexes_of_other_versions_are_rebuilt_before_they_are_asked() {
        let world = World::new(1, Config::default());
        let disk = world.disk("data") as Arc<dyn Storage>;
        world.run(|| {
            older(disk.clone()).expect("an older program's database");
            let local = "at AT TIME ZONE 'Europe/Berlin' = '2026-01-04 13:00'";
            let db = open(disk.clone(), NOW).expect("it opens");
            assert_eq!(
                told(&db),
                [
                    "NOTICE:  index \"word_upper\" was rebuilt\nDETAIL:  Its keys were of Unicode 15.0.0, \
                     and this program has 17.0.0.\n",
                    "NOTICE:  index \"word_local\" was rebuilt\nDETAIL:  Its keys were of time zone database \
                     2020a, and this program has 2026b.\n",
                    "NOTICE:  index \"word_some\" was rebuilt\nDETAIL:  Its keys were of Unicode 15.0.0, and \
                     this program has 17.0.0.\n",
                ]
            );
            let mut s = db.session();
            assert_eq!(found(&mut s, UPPER), (vec!["7".into()], vec!["7".into()]));
            assert_eq!(found(&mut s, local), (vec!["3".into()], vec!["3".into()]));
            assert_eq!(invalid(&mut s), [""; 0]);
            assert_eq!(rows(&mut s, "SELECT count(*) FROM word WHERE w ~ '^w1' AND id > 0"), ["111"]);
            drop(s);
            db.checkpoint().expect("a checkpoint");
            db.close().expect("it closes");
            // It is done once.
            let db = open(disk.clone(), NOW).expect("it opens");
            assert_eq!(told(&db), [""; 0]);
            db.close().expect("it closes");
            // What depends on no zone is left alone when a zone changes.
            let db = open(disk, ("17.0.0", "2027a")).expect("it opens");
            assert_eq!(told(&db).len(), 1);
            db.close().expect("it closes");
        });
    }

    /// W2
    #[test]
    fn a_power_failure_at_any_write_leaves_the_old_record_or_the_new_index() {
        let world = World::new(2, Config::default());
        let disk = world.disk("data") as Arc<dyn Storage>;
        world.run(|| older(disk).expect("an older program's database"));
        let (mut failures, mut again) = (0, 0);
        for after in 0.. {
            let struck = world.fork(after, Config::default());
            struck.arm_power_failure(after);
            let disk = struck.disk("data") as Arc<dyn Storage>;
            let _ = struck.run(|| open(disk, NOW).and_then(Database::close));
            let ended = !struck.power_is_lost();
            failures += u64::from(!ended);
            let next = struck.reboot_with(after, Config::default());
            let disk = next.disk("data") as Arc<dyn Storage>;
            next.run(|| {
                let db = open(disk, NOW).unwrap_or_else(|e| panic!("after {after} operations: {e}"));
                again += u64::from(!db.notices().is_empty());
                let mut s = db.session();
                for condition in [UPPER, "at AT TIME ZONE 'Europe/Berlin' = '2026-01-04 13:00'"] {
                    let (by_index, all) = found(&mut s, condition);
                    assert_eq!(by_index, all, "after {after} operations");
                    assert_eq!(all.len(), 1);
                }
                assert_eq!(rows(&mut s, "SELECT count(*), sum(id) FROM word"), ["200|20100"]);
                assert_eq!(invalid(&mut s), [""; 0]);
                drop(s);
                db.close().expect("it closes");
            });
            if ended {
                break;
            }
        }
        assert!(failures > 10 && again > 5 && again <= failures, "{failures} failures, {again} times again");
    }

    const UNIQUE: &str = "CREATE TABLE word (id integer, w text);
        CREATE UNIQUE INDEX word_upper ON word (upper(w));
        CREATE INDEX word_lower ON word (lower(w));
        INSERT INTO word SELECT n, 'w' || n FROM generate_series(1, 50) n";

    /// Whether a program of the old version believes an index in which another left keys of its own.
    fn is_believed_later(mutation: Option<&'static str>) -> bool {
        let world = World::new(3, Config { mutation, ..Config::default() });
        let disk = world.disk("data") as Arc<dyn Storage>;
        world.run(|| {
            let db = open(disk.clone(), OLD).expect("a database");
            db.session().execute(UNIQUE).expect("a table");
            spoil(&db, "word", "word_upper", &text("W7"), &text("w7"));
            db.session().execute("INSERT INTO word VALUES (51, 'W7')").expect("no key is there twice yet");
            db.close().expect("it closes");

            let db = open(disk.clone(), NOW).expect("a database opens whatever its indexes are");
            let notices = told(&db);
            assert_eq!(notices.len(), 2, "{notices:?}");
            assert_eq!(
                notices[0],
                "WARNING:  index \"word_upper\" is not used until it is rebuilt\nDETAIL:  Its keys are of \
                 Unicode 15.0.0, and this program has 17.0.0. It could not be rebuilt: could not create unique \
                 index \"word_upper\". Key (upper(w))=(W7) is duplicated.\n"
            );
            assert!(notices[1].starts_with("NOTICE:  index \"word_lower\" was rebuilt"), "{}", notices[1]);
            let mut s = db.session();
            assert_eq!(invalid(&mut s), ["word_upper"]);
            assert_eq!(found(&mut s, UPPER), (vec!["7".into(), "51".into()], vec!["7".into(), "51".into()]));
            // Writers are held to it; no ON CONFLICT names it.
            let e = s.query("INSERT INTO word VALUES (52, 'w9')", &[]).expect_err("the key is there");
            assert_eq!(e.sqlstate(), sqlstate::UNIQUE_VIOLATION);
            let e = s.query("INSERT INTO word VALUES (52, 'x') ON CONFLICT (upper(w)) DO NOTHING", &[]);
            assert_eq!(e.expect_err("no index is valid").sqlstate(), sqlstate::INVALID_COLUMN_REFERENCE);
            s.query("INSERT INTO word VALUES (53, 'x')", &[]).expect("a row with a key of this version");
            drop(s);
            db.close().expect("it closes");

            let db = open(disk.clone(), OLD).expect("the older program");
            let believed = !told(&db).iter().any(|n| n.contains("word_upper"));
            db.close().expect("it closes");

            // REINDEX mends it once the reason is gone, and so does an opening.
            let db = open(disk.clone(), NOW).expect("it opens");
            let mut s = db.session();
            if !believed {
                let e = s.query("REINDEX INDEX word_upper", &[]).expect_err("two rows have the key");
                assert_eq!(e.to_string(), "could not create unique index \"word_upper\"");
                s.execute("BEGIN; DELETE FROM word WHERE id = 51; REINDEX INDEX word_upper; COMMIT")
                    .expect("it is mended");
                assert_eq!(invalid(&mut s), [""; 0]);
                assert_eq!(found(&mut s, UPPER), (vec!["7".into()], vec!["7".into()]));
            }
            drop(s);
            db.close().expect("it closes");
            believed
        })
    }

    /// W3, W4
    #[test]
    fn an_index_with_keys_of_two_versions_is_believed_by_neither() {
        assert!(!is_believed_later(None));
        assert!(is_believed_later(Some("mixture_unnoted")));
    }

    /// What comes to have the same expression, or to be made anew, has this program's versions.
    #[test]
    fn a_new_index_on_an_outdated_expression_computes_it_anew() {
        let world = World::new(4, Config::default());
        let disk = world.disk("data") as Arc<dyn Storage>;
        world.run(|| {
            let db = open(disk.clone(), OLD).expect("a database");
            db.session().execute(UNIQUE).expect("a table");
            spoil(&db, "word", "word_upper", &text("W7"), &text("w7"));
            db.session().execute("INSERT INTO word VALUES (51, 'W7')").expect("no key is there twice yet");
            db.close().expect("it closes");
            let db = open(disk.clone(), NOW).expect("it opens");
            let mut s = db.session();
            s.execute("ALTER TABLE word ADD n integer DEFAULT 3").expect("rows stay as they are");
            s.execute("ALTER TABLE word RENAME w TO v; ALTER TABLE word RENAME v TO w").expect("other names");
            assert_eq!(invalid(&mut s), ["word_upper"]);
            s.execute(
                "CREATE TABLE other (LIKE word INCLUDING ALL); INSERT INTO other SELECT * FROM word LIMIT 9",
            )
            .expect("a table like it");
            assert_eq!(invalid(&mut s), ["word_upper"]);
            s.execute("DELETE FROM word WHERE id = 51; CREATE INDEX again ON word (upper(w))")
                .expect("another");
            assert_eq!(invalid(&mut s), [""; 0]);
            assert_eq!(found(&mut s, UPPER), (vec!["7".into()], vec!["7".into()]));
            drop(s);
            db.close().expect("it closes");
            let db = open(disk, NOW).expect("it opens");
            assert_eq!(told(&db), [""; 0]);
            db.close().expect("it closes");
        });
    }

    /// Of a folder that was written before versions were recorded, they are known: it stays what it is while
    /// they are the program's.
    #[test]
    fn versions_that_were_not_recorded_are_those_of_their_time() {
        let world = World::new(5, Config::default());
        let disk = world.disk("data") as Arc<dyn Storage>;
        world.run(|| {
            let options = || OpenOptions::new().memory_limit(96 << 20).small_log_files();
            let before = || options().computing_with(DataVersions::new()).open_on(disk.clone());
            let usual = (Data::Unicode.unrecorded(), Data::TimeZones.unrecorded());
            let db = before().expect("a database");
            db.session().execute(WORDS).expect("a table");
            spoil(&db, "word", "word_upper", &text("W7"), &text("w7"));
            db.close().expect("it closes");
            let db = open(disk.clone(), usual).expect("it opens");
            assert_eq!(told(&db), [""; 0]);
            db.close().expect("it closes");
            let db = open(disk.clone(), ("18.0.0", usual.1)).expect("it opens");
            let notices = told(&db);
            assert_eq!(notices.len(), 2, "{notices:?}");
            assert!(notices[0].contains("Its keys were of Unicode 17.0.0, and this program has 18.0.0."));
            assert_eq!(found(&mut db.session(), UPPER), (vec!["7".into()], vec!["7".into()]));
            db.close().expect("it closes");
            assert_eq!(Data::Unicode.version().split('.').count(), 3);
        });
    }
}
