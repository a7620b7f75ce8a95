//! Space in the log that is not there yet: fibers that want some leave their thread to others.
mod common;
use common::*;
use ondol_base::fiber::Worker;
use ondol_base::media::disk::Disk;
use ondol_durability::delta::Changes;
use ondol_durability::log::{Log, StreamId};
use ondol_durability::record::Kind;
use ondol_durability::*;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

#[test]
fn fibers_park_until_there_is_space() {
    const FIBERS: u64 = 8;
    const RECORDS: u64 = 16;
    let folder = std::env::temp_dir().join(format!("ondol-space-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    // Two records fill a buffer, three a file.
    let disk = Arc::new(Disk::open(&folder).unwrap());
    let config = Config { log_file_size: 256 << 10, buffer_size: 1, ..Config::new(disk) };
    let (db, _) = Db::open(config, &mut Truth::default()).unwrap();
    let db = Rc::new(db);
    let (asking, met, last) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let mut worker = Worker::new(1 << 18);
    for fiber in 1..=FIBERS {
        let (db, asking, met, last) = (db.clone(), asking.clone(), met.clone(), last.clone());
        worker.start(move || {
            let mut changes = Changes::default();
            changes.push(ondol_base::oid::Oid::default(), 0, &vec![1; Log::MAX_RECORD - 64]);
            for _ in 0..RECORDS {
                // Others that ask meanwhile have parked.
                met.set(met.get() + asking.get());
                asking.set(asking.get() + 1);
                let reserved = db.log.reserve(StreamId(0), changes.len(), Kind::Commit, fiber, 0, |_| {});
                asking.set(asking.get() - 1);
                let reserved = reserved.unwrap();
                last.set(reserved.ts().max(last.get()));
                reserved.commit(&changes);
            }
        })
    }
    worker.run().unwrap();
    db.log.wait_durable(last.get()).unwrap();
    assert!(met.get() > 0, "whoever waited for space kept the thread");
    drop(db);
    std::fs::remove_dir_all(&folder).unwrap();
}
