//! Rows' queues in simulated worlds, and the variants of their protocol that are known to be wrong.
//! `ONDOL_SEED` and `ONDOL_SEEDS` make it another or a longer run.
mod common;
use common::run;
use ondol_base::sim::{Config, Random, World};
use ondol_base::{clock, thread};
use ondol_engine::simulate::Workers;
use ondol_engine::simulate::mutations::{Favour, MUTATIONS};
use ondol_engine::simulate::queues::Meeting;
use ondol_engine::*;
use ondol_types::{Type, ValueRef};
use std::sync::Arc;
use std::time::Duration;

fn seeds(usual: u64) -> std::ops::Range<u64> {
    let number = |variable: &str| std::env::var(variable).ok().and_then(|s| s.parse().ok());
    let from = number("ONDOL_SEED").unwrap_or(0);
    from..from + number("ONDOL_SEEDS").unwrap_or(usual)
}

/// A database with rows 0 to 3 of a table `t`, whose `id` is unique.
fn database(world: &Arc<World>) -> Arc<Database> {
    let options = Options {
        memory_limit: 256 << 20,
        reserved: 1 << 30,
        checkpoint_interval_s: 3600,
        ..Options::default()
    };
    let db = Database::open_on(world.disk("d"), vec![], None, options, &|_| {}).unwrap();
    let mut c = db.connect();
    let column = ColumnDef { not_null: true, ..ColumnDef::new("id", Type::INT8) };
    c.create_table("t", vec![column]).unwrap();
    let column = IndexColumn { column: 0, desc: false, nulls_first: false };
    c.create_index("t", "i", IndexKind::Btree, true, vec![column], false, false).unwrap();
    for id in 0..4 {
        run(&mut c, "t", |c, t| c.insert(t, &[ValueRef::Int8(id)])).unwrap();
    }
    db
}

fn scenes(seed: u64, mutation: Option<&'static str>) -> Result<(), String> {
    let world = World::new(seed, Config { mutation, ..Config::default() });
    let w = world.clone();
    let played = world.try_run(move || {
        let db = database(&w);
        let rows = Meeting::of(&db, "t").unwrap();
        let played = rows.play(&Workers::new((seed % 4) as usize), &mut Random::new(seed));
        drop(rows);
        played.and(db.close().map_err(|e| e.to_string()))
    });
    played.map_err(|f| f.to_string()).and_then(|p| p)
}
#[test]
fn who_waits_is_served_in_order() {
    for seed in seeds(400) {
        scenes(seed, None).unwrap_or_else(|e| panic!("seed {seed}: {e}"))
    }
}

#[test]
fn every_wrong_queue_is_noticed() {
    let wrong = MUTATIONS.iter().filter(|m| m.favour == Favour::Waits);
    for mutation in wrong.map(|m| m.name) {
        let noticed = (0..4000).find_map(|seed| scenes(seed, Some(mutation)).err().map(|e| (seed, e)));
        let (seed, e) = noticed.unwrap_or_else(|| panic!("{mutation} is not noticed"));
        println!("{mutation:20} seed {seed:3}: {}", e.lines().next().unwrap_or(""))
    }
}

/// Who looks on at another's insert (wait/W7) is told when it is taken back, also by a savepoint, and when
/// its place has become another row's.
#[test]
fn a_key_that_is_given_up_goes_to_one_who_waits_for_it() {
    for seed in seeds(200) {
        let world = World::new(seed, Config::default());
        let w = world.clone();
        world.run(move || {
            let db = database(&w);
            let began = clock::now();
            let mut first = db.connect();
            first.begin(Isolation::ReadCommitted, Access::ReadWrite).unwrap();
            first.savepoint("s").unwrap();
            run(&mut first, "t", |c, t| c.insert(t, &[ValueRef::Int8(9)])).unwrap();
            let others: Vec<_> = (0..4)
                .map(|i| {
                    let db = db.clone();
                    thread::spawn("other", move || {
                        let mut c = db.connect();
                        thread::sleep(Duration::from_micros(50 * i));
                        run(&mut c, "t", |c, t| c.insert(t, &[ValueRef::Int8(9)])).map(drop)
                    })
                    .unwrap()
                })
                .collect();
            thread::sleep(Duration::from_micros(seed % 400));
            first.rollback_to_savepoint("s").unwrap();
            // Its place is taken anew at once.
            run(&mut first, "t", |c, t| c.insert(t, &[ValueRef::Int8(10)])).unwrap();
            let ends: Vec<_> = others.into_iter().map(|t| t.join().unwrap()).collect();
            let refused = ends.iter().filter_map(|e| e.as_ref().err()).map(|e| e.sqlstate());
            assert_eq!(refused.collect::<Vec<_>>(), ["23505"; 3], "{seed}");
            assert!(clock::now() - began < Duration::from_secs(5), "{seed}: somebody waited for nothing");
            first.commit().unwrap();
            drop(first);
            db.close().unwrap();
        })
    }
}

/// A wait that is cancelled ends at once, without being looked at now and then, and so does one whose
/// deadline comes.
#[test]
fn a_wait_ends_when_it_is_told_to() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { memory_limit: 256 << 20, reserved: 1 << 30, ..Options::default() };
    let db = Database::open(dir.path(), options).unwrap();
    let mut c = db.connect();
    let column = ColumnDef { not_null: true, ..ColumnDef::new("id", Type::INT8) };
    c.create_table("t", vec![column]).unwrap();
    let oid = run(&mut c, "t", |c, t| c.insert(t, &[ValueRef::Int8(1)])).unwrap();
    c.begin(Isolation::ReadCommitted, Access::ReadWrite).unwrap();
    let lock = move |c: &mut Connection| {
        run(c, "t", |c, t| c.lock(t, oid, LockStrength::Update, Wait::Block)).map(drop)
    };
    lock(&mut c).unwrap();
    let mut other = db.connect();
    other.set_lock_timeout(Some(Duration::from_millis(100)));
    let began = clock::now();
    assert_eq!(lock(&mut other).unwrap_err().sqlstate(), "55P03");
    assert!((100..400).contains(&(clock::now() - began).as_millis()));
    other.set_lock_timeout(None);
    let cancel = Arc::new(ondol_base::cancel::Cancel::new());
    other.set_cancel(cancel.clone());
    let (parker, waiter) = (other.parker().clone(), other.waiter());
    let t = thread::spawn("waits", move || {
        let ended = lock(&mut other);
        (ended.unwrap_err().sqlstate().to_string(), clock::now())
    });
    while !waiter.is_waiting() {
        thread::sleep(Duration::from_millis(1))
    }
    cancel.tell();
    let told = clock::now();
    parker.unpark();
    let (code, ended) = t.unwrap().join().unwrap();
    assert_eq!(code, "57014");
    assert!(ended - told < Duration::from_millis(40), "{:?}", ended - told);
    c.rollback();
}

/// How long a held commit takes to become durable when nobody waits for it, `pause` after the commit before:
/// a second, if it takes longer than that.
fn held_for(mutation: Option<&'static str>, pause: Duration) -> Duration {
    let world = World::new(1, Config { mutation, ..Config::default() });
    let w = world.clone();
    world.run(move || {
        let db = database(&w);
        let mut c = db.connect();
        run(&mut c, "t", |c, t| c.insert(t, &[ValueRef::Int8(8)])).unwrap();
        thread::sleep(pause);
        c.defer();
        run(&mut c, "t", |c, t| c.insert(t, &[ValueRef::Int8(9)])).unwrap();
        c.hold();
        let began = clock::now();
        let token = c.held_token().unwrap();
        while !db.poll_durable(token).unwrap() && clock::now() - began < Duration::from_secs(1) {
            thread::sleep(Duration::from_micros(100))
        }
        let took = clock::now() - began;
        drop(c);
        db.close().unwrap();
        took
    })
}

/// round/R5: the flush interval is 2 ms, and a sync takes 0.2 ms at most. The round that records the horizon
/// comes after 20 ms, and only if a commit was durable before.
#[test]
fn what_is_held_is_durable_within_the_flush_interval() {
    for pause in [1, 200].map(Duration::from_millis) {
        let took = held_for(None, pause);
        assert!(took < Duration::from_millis(4), "{took:?} after {pause:?}");
        let took = held_for(Some("held_unkicked"), pause);
        assert!(took > Duration::from_millis(4), "{took:?} after {pause:?}");
    }
}
