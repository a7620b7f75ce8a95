//! Sessions on fibers: many of them wait on one thread, for rows and for the disk.
use ondol::{Database, Isolation, TempFolder, Value};
use ondol_base::fiber::{Turn, Worker};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// Of address space; what is never touched takes no memory.
const STACK: usize = 1 << 20;

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}
fn add(s: &mut ondol::Session, id: i32) -> Result<(), String> {
    let done = s.query("UPDATE t SET n = n + 1 WHERE id = $1", &[Value::Int4(id)]);
    done.map(drop).map_err(|e| e.sqlstate().to_string())
}
fn three_rows(db: &Database) -> ondol::Result<ondol::Session> {
    let mut s = db.session();
    s.execute("CREATE TABLE t (id integer PRIMARY KEY, n bigint)")?;
    s.execute("INSERT INTO t VALUES (1, 0), (2, 0), (3, 0)")?;
    Ok(s)
}
/// Until each task waits for what comes from outside.
fn settle(worker: &mut Worker) {
    while worker.turn(Some(Duration::from_millis(50))).unwrap() != Turn::Idle {}
}

#[test]
fn sessions_wait_for_one_row_on_one_thread() -> ondol::Result<()> {
    const MANY: usize = 500;
    let folder = TempFolder::new()?;
    let db = Rc::new(Database::open(folder.path().join("db"))?);
    let mut holder = three_rows(&db)?;
    holder.begin(Isolation::ReadCommitted)?;
    add(&mut holder, 1).unwrap();
    let before = threads();
    let mut worker = Worker::new(STACK);
    let served = Rc::new(RefCell::new(vec![]));
    for i in 0..MANY {
        let (db, served) = (db.clone(), served.clone());
        worker.start(move || {
            let mut s = db.session();
            s.begin(Isolation::ReadCommitted).unwrap();
            add(&mut s, 1).unwrap();
            served.borrow_mut().push(i);
            s.commit().unwrap();
        })
    }
    settle(&mut worker);
    assert_eq!((worker.tasks(), served.borrow().len()), (MANY, 0));
    assert!(threads() <= before, "threads were started for those who wait");
    holder.commit()?;
    worker.run().unwrap();
    // First come, first served.
    assert_eq!(*served.borrow(), (0..MANY).collect::<Vec<_>>());
    let n = holder.query("SELECT n::text FROM t WHERE id = 1", &[])?;
    assert!(format!("{n:?}").contains("501"), "{n:?}");
    Ok(())
}

#[test]
fn deadlocks_and_timeouts_reach_fibers() -> ondol::Result<()> {
    let folder = TempFolder::new()?;
    let db = Rc::new(Database::open(folder.path().join("db"))?);
    let mut holder = three_rows(&db)?;
    holder.begin(Isolation::ReadCommitted)?;
    add(&mut holder, 3).unwrap();
    let mut worker = Worker::new(STACK);
    let told = Rc::new(RefCell::new(vec![]));
    // Both queue for row 3. The first that has it wants the other's.
    for (own, others) in [(1, 2), (2, 1)] {
        let (db, told) = (db.clone(), told.clone());
        worker.start(move || {
            let mut s = db.session();
            s.begin(Isolation::ReadCommitted).unwrap();
            add(&mut s, own).unwrap();
            let done = add(&mut s, 3).and_then(|()| add(&mut s, others));
            told.borrow_mut().push(done.clone());
            match done {
                Ok(()) => assert!(s.commit().is_ok()),
                Err(_) => s.rollback(),
            }
        })
    }
    let (late, over) = (db.clone(), told.clone());
    worker.start(move || {
        let mut s = late.session();
        s.execute("SET lock_timeout = '20ms'").unwrap();
        over.borrow_mut().push(add(&mut s, 3))
    });
    settle(&mut worker);
    assert_eq!(*told.borrow(), [Err("55P03".to_string())]);
    holder.rollback();
    worker.run().unwrap();
    // Whichever is told first (kernel wait/W11).
    let mut told = told.borrow()[1..].to_vec();
    told.sort();
    assert_eq!(told, [Ok(()), Err("40P01".to_string())]);
    Ok(())
}

#[test]
fn commits_of_fibers_are_durable() -> ondol::Result<()> {
    const WORKERS: i32 = 2;
    const EACH: i32 = 100;
    let folder = TempFolder::new()?;
    let path = folder.path().join("db");
    {
        let db = Database::open(&path)?;
        db.session().execute("CREATE TABLE t (id integer PRIMARY KEY)")?;
        std::thread::scope(|scope| {
            for w in 0..WORKERS {
                let db = &db;
                scope.spawn(move || {
                    let mut worker = Worker::new(STACK);
                    let acknowledged = Rc::new(Cell::new(0));
                    for i in 0..EACH {
                        let (mut s, acknowledged) = (db.session(), acknowledged.clone());
                        worker.start(move || {
                            s.query("INSERT INTO t VALUES ($1)", &[Value::Int4(w * EACH + i)]).unwrap();
                            acknowledged.set(acknowledged.get() + 1)
                        })
                    }
                    worker.run().unwrap();
                    assert_eq!(acknowledged.get(), EACH)
                });
            }
            // A thread beside them leads rounds as ever.
            let mut s = db.session();
            for i in 0..EACH {
                s.query("INSERT INTO t VALUES ($1)", &[Value::Int4(-1 - i)]).unwrap();
            }
        });
    }
    let db = Database::open(&path)?;
    let n = db.session().query("SELECT count(*)::text FROM t", &[])?;
    assert!(format!("{n:?}").contains("300"), "{n:?}");
    Ok(())
}

#[test]
fn deep_statements_are_planned_on_the_threads_stack() -> ondol::Result<()> {
    const LEVELS: usize = 40;
    let deep = format!("SELECT {}1{} AS n", "CASE WHEN true THEN 1 + ".repeat(LEVELS), " END".repeat(LEVELS));
    let planned = std::thread::Builder::new().stack_size(16 << 20).spawn(move || {
        let folder = TempFolder::new().unwrap();
        let db = Rc::new(Database::open(folder.path().join("db")).unwrap());
        let mut worker = Worker::new(128 << 10);
        let (d, done) = (db.clone(), Rc::new(Cell::new(false)));
        let end = done.clone();
        worker.start(move || {
            let n = d.session().query(&deep, &[]).unwrap();
            assert!(format!("{n:?}").contains("41"), "{n:?}");
            end.set(true)
        });
        worker.run().unwrap();
        done.get()
    });
    assert!(planned.unwrap().join().unwrap());
    Ok(())
}
