//! Commits that are not waited for, and visible to others when they are durable (held/H1 to held/H5).
use ondol::{Batch, Database, Rows, Session, TempFolder, Token, Value, ValueRef};
use std::os::fd::AsFd;
use std::sync::mpsc::channel;
use std::time::Duration;

fn open() -> (TempFolder, Database, Session) {
    let folder = TempFolder::new().unwrap();
    let db = Database::open(folder.path().join("db")).unwrap();
    let mut s = db.session();
    s.execute(
        "CREATE TABLE t (a bigint PRIMARY KEY, b bigint);
         CREATE FUNCTION find(bigint) RETURNS SETOF t LANGUAGE sql AS 'SELECT * FROM t WHERE a = $1';
         CREATE FUNCTION put(bigint) RETURNS void LANGUAGE sql AS 'INSERT INTO t VALUES ($1, 0)'",
    )
    .unwrap();
    (folder, db, s)
}
fn insert(s: &mut Session, a: i64) -> Option<Token> {
    let (done, token) = s.held(|s| s.query("INSERT INTO t VALUES ($1, 0)", &[Value::Int8(a)]));
    assert_eq!(done.unwrap().tag, "INSERT 0 1");
    token
}
fn count(s: &mut Session) -> i64 {
    s.query("SELECT count(*) FROM t", &[]).unwrap().row(0).get(0).unwrap()
}

#[test]
fn a_session_goes_on_upon_what_it_holds() {
    let (_folder, db, mut s) = open();
    let mut other = db.session();
    for a in 0..200 {
        let token = insert(&mut s, a);
        // It sees its own, and the token of that covers what was held before.
        let (n, again) = s.held(|s| Ok(count(s)));
        assert_eq!(n.unwrap(), a + 1);
        assert!(again <= token, "{again:?} after {token:?}");
        // Others see what is durable, at least.
        let durable = token.is_none_or(|t| db.poll(t).unwrap());
        let seen = count(&mut other);
        assert!(seen == a + 1 || seen <= a && !durable, "{seen} of {}", a + 1);
        if a % 3 == 0 {
            // Outside, a statement waits for what was held, also a call that takes the short way.
            if a % 2 == 0 {
                count(&mut s);
            } else {
                let find = s.query_id("find").unwrap();
                let mut rows = Rows::new();
                for _ in 0..2 {
                    assert_eq!(s.call(find, &[ValueRef::Int8(a)], &mut rows).unwrap().rows, 1);
                }
            }
            assert!(token.is_none_or(|t| db.is_durable(t)));
            assert_eq!(count(&mut other), a + 1);
        }
    }
}

#[test]
fn each_way_of_asking_tells() {
    let (_folder, db, mut s) = open();
    let queue = db.token_queue().unwrap();
    let (tell, told) = channel();
    let mut asked = 0;
    for a in 0..100 {
        let Some(token) = insert(&mut s, a) else { continue };
        queue.add(token, a as u64);
        let tell = tell.clone();
        db.when_durable(token, move |fate| tell.send((token, fate)).unwrap());
        asked += 1;
        if a % 10 == 0 {
            db.wait(token).unwrap();
            assert!(db.poll(token).unwrap());
        }
    }
    assert!(asked > 0);
    for _ in 0..asked {
        let (token, fate) = told.recv_timeout(Duration::from_secs(60)).unwrap();
        fate.unwrap();
        assert!(db.is_durable(token));
    }
    let mut tags = vec![];
    let event = std::fs::File::from(queue.as_fd().try_clone_to_owned().unwrap());
    let is_set = || std::io::Read::read(&mut &event, &mut [0; 8]).is_ok();
    while queue.waiting() > 0 {
        queue.take(&mut tags);
    }
    tags.sort_by_key(|t| t.0);
    tags.dedup_by_key(|t| t.0);
    assert_eq!((tags.len(), tags.iter().all(|t| t.1.is_ok())), (asked, true));
    assert!(!is_set(), "nothing is left to take");
    // Of what is durable already it tells at once.
    queue.add(s.query("INSERT INTO t VALUES (-1, 0)", &[]).unwrap().token.unwrap(), 7);
    assert!(is_set());
    queue.take(&mut tags);
    assert_eq!(tags.last().unwrap().0, 7);
}

#[test]
fn all_kinds_of_commits_can_be_held() {
    let (folder, db, mut s) = open();
    let put = s.query_id("put").unwrap();
    let mut last = None;
    let mut batch = Batch::new();
    let (done, token) =
        s.held(|s| s.call_batch(put, &[&[ValueRef::Int8(1)], &[ValueRef::Int8(2)]], &mut batch));
    done.unwrap();
    assert!(batch.called(1).is_ok());
    last = last.max(token);
    let mut transaction = s.transaction().unwrap();
    transaction.execute("INSERT INTO t VALUES (3, 0)").unwrap();
    let (done, token) = transaction.held(|s| s.commit());
    assert!(token.is_none_or(|t| done.as_ref().unwrap().is_some_and(|d| d <= t)));
    done.unwrap();
    drop(transaction);
    last = last.max(token);
    // One in another changes nothing; after an error what was committed before is held as well.
    let (done, token) = s.held(|s| {
        let (done, inner) = s.held(|s| s.execute("INSERT INTO t VALUES (4, 0)"));
        done?;
        let (n, outer) = s.held(|s| Ok(count(s)));
        assert_eq!(n?, 4);
        assert!(outer <= inner);
        s.execute("INSERT INTO t VALUES (5, 0); INSERT INTO t VALUES (5, 0)")
    });
    assert_eq!(done.unwrap_err().sqlstate(), "23505");
    assert!(token >= last || token.is_none());
    // A panic does not leave it held.
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = s.held(|s| -> ondol::Result<()> {
            s.execute("INSERT INTO t VALUES (6, 0)")?;
            panic!("in a held call")
        });
    }));
    assert!(caught.is_err());
    let token = s.query("INSERT INTO t VALUES (7, 0)", &[]).unwrap().token.unwrap();
    assert!(db.is_durable(token));
    // Definitions are waited for.
    let (done, _) = s.held(|s| s.execute("CREATE TABLE u (a integer)"));
    assert!(db.is_durable(done.unwrap()[0].token.unwrap_or(token)));
    // Nobody asks for this one, which a close makes durable.
    insert(&mut s, 8);
    drop(s);
    db.close().unwrap();
    let db = Database::open(folder.path().join("db")).unwrap();
    assert_eq!(count(&mut db.session()), 8);
}

#[test]
fn nobody_has_to_ask() {
    let (_folder, db, mut s) = open();
    let token = insert(&mut s, 1);
    let mut other = db.session();
    for _ in 0..6000 {
        if count(&mut other) == 1 {
            assert!(token.is_none_or(|t| db.is_durable(t)));
            return;
        }
        std::thread::sleep(Duration::from_millis(10))
    }
    panic!("a held commit did not become durable by itself");
}
