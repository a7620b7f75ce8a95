//! A session's snapshots do not go back (kernel: transaction/T4).
mod common;
use common::{run, table};
use ondol_base::oid::Oid;
use ondol_base::sim::{Config, World};
use ondol_engine::*;
use ondol_types::{Type, ValueRef};

/// Whether a statement that only reads is shown the row.
fn sees(c: &mut Connection, oid: Oid) -> bool {
    let t = table(c, "t");
    c.start_statement(c.catalog_version(), std::slice::from_ref(&t), false).unwrap();
    let seen = c.read(&t, oid, &mut vec![0; t.layout.row_size]);
    c.end_statement().unwrap();
    seen
}

/// What a reader is shown before, in and after a transaction that ends without a commit, of a row whose
/// commit nobody has waited for; and whether the row is durable then.
fn around_a_transaction(mutation: Option<&'static str>, commits: bool, defers: bool) -> [bool; 4] {
    let world = World::new(1, Config { mutation, ..Config::default() });
    let w = world.clone();
    world.run(move || {
        let options = Options {
            memory_limit: 256 << 20,
            reserved: 1 << 30,
            checkpoint_interval_s: 3600,
            ..Options::default()
        };
        let db = Database::open_on(w.disk("d"), vec![], None, options, &|_| {}).unwrap();
        let mut writer = db.connect();
        let id = ColumnDef { not_null: true, ..ColumnDef::new("id", Type::INT8) };
        writer.create_table("t", vec![id]).unwrap();
        writer.defer();
        let oid = run(&mut writer, "t", |c, t| c.insert(t, &[ValueRef::Int8(1)])).unwrap();
        let mut c = db.connect();
        let before = sees(&mut c, oid);
        if defers {
            c.defer();
        }
        c.begin(Isolation::ReadCommitted, Access::ReadWrite).unwrap();
        let within = sees(&mut c, oid);
        match commits {
            true => assert_eq!(c.commit().unwrap(), None),
            false => c.rollback(),
        }
        let after = sees(&mut c, oid);
        // What is told then rests on the row's commit.
        let covered = db.durable_ts() >= writer.last_token().0 || c.held_token() >= Some(writer.last_token());
        drop((writer, c));
        db.close().unwrap();
        [before, within, after, covered]
    })
}

#[test]
fn what_a_transaction_was_shown_is_shown_after_it() {
    for commits in [false, true] {
        for defers in [false, true] {
            assert_eq!(around_a_transaction(None, commits, defers), [false, true, true, true]);
        }
    }
    assert_eq!(around_a_transaction(Some("shown_forgotten"), false, false), [false, true, false, false]);
}
