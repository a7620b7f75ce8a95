//! Sessions that wait for rows: each gets its row, in the order in which they came, or is told why not,
//! whatever ends the waits of others (wait/W1, wait/W4, wait/W5, wait/W6, wait/W10).
//!
//! Locks are taken and given back and nothing is changed, so that the model need not know of it.
use super::{Workers, nap};
use crate::connection::{Access, Connection, Isolation, LockStrength, Locked, STALE, Scan, Wait};
use crate::{Database, Oid};
use ondol_base::cancel::Cancel;
use ondol_base::sim::Random;
use ondol_base::sync::{Mutex, yield_point};
use ondol_base::{clock, thread};
use ondol_kernel::wait::OVERTAKINGS;
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// An error as a scene tells it: the code says whether it is one of those that may come.
fn told(e: SqlError) -> String {
    format!("{} {e}", e.sqlstate())
}

/// Nothing here takes so long, unless it waits for nothing.
pub const PATIENCE: Duration = Duration::from_secs(20);

type Outcome = Result<(), String>;

const KEY_SHARE: LockStrength = LockStrength::KeyShare;
const SHARE: LockStrength = LockStrength::Share;
const NO_KEY_UPDATE: LockStrength = LockStrength::NoKeyUpdate;
const UPDATE: LockStrength = LockStrength::Update;

/// Which two locks of one row are never held at once (transaction/lock/L1).
pub fn exclude(a: LockStrength, b: LockStrength) -> bool {
    [
        (KEY_SHARE, UPDATE),
        (SHARE, NO_KEY_UPDATE),
        (SHARE, UPDATE),
        (NO_KEY_UPDATE, NO_KEY_UPDATE),
        (NO_KEY_UPDATE, UPDATE),
        (UPDATE, UPDATE),
    ]
    .iter()
    .any(|pair| *pair == (a, b) || *pair == (b, a))
}

/// A lock that one at most has, with this chance, or else one that many may have.
fn strength(r: &mut Random, owns: f64) -> LockStrength {
    let keys = r.chance(0.4);
    match (r.chance(owns), keys) {
        (true, false) => UPDATE,
        (true, true) => NO_KEY_UPDATE,
        (false, false) => SHARE,
        (false, true) => KEY_SHARE,
    }
}

/// A table's rows, where sessions meet.
#[derive(Clone)]
pub struct Meeting {
    pub db: Arc<Database>,
    pub table: String,
    pub rows: Vec<Oid>,
}

/// A session in a transaction.
struct Locker {
    c: Connection,
    at: Meeting,
    cancel: Arc<Cancel>,
}

impl Meeting {
    /// Those of the table that are there now.
    pub fn of(db: &Arc<Database>, table: &str) -> Option<Meeting> {
        let mut c = db.connect();
        let t = c.catalog().table(table).cloned()?;
        c.start_statement(c.catalog_version(), std::slice::from_ref(&t), false).ok()?;
        let (mut scan, mut bytes, mut rows) = (Scan::default(), vec![0; t.layout.row_size], vec![]);
        scan.start(&c, &t);
        while let Ok(Some(oid)) = scan.next(&c, &mut bytes) {
            rows.push(oid)
        }
        c.end_statement().ok()?;
        let mut met = Meeting { db: db.clone(), table: table.to_string(), rows };
        let mut locker = met.locker();
        // Deleted by a commit that nobody is shown, since the log failed before it was durable.
        met.rows
            .retain(|oid| !matches!(locker.lock(*oid, LockStrength::Update, Wait::NoWait), Ok(Locked::Gone)));
        Some(met)
    }
    fn locker(&self) -> Locker {
        let mut c = self.db.connect();
        c.set_lock_timeout(Some(PATIENCE));
        let cancel = Arc::new(Cancel::new());
        c.set_cancel(cancel.clone());
        let mut locker = Locker { c, at: self.clone(), cancel };
        locker.begin();
        locker
    }
    /// Plays each of the scenes, whose sessions those workers run.
    pub fn play(&self, workers: &Workers, r: &mut Random) -> Outcome {
        if !self.rows.is_empty() {
            self.order(workers, r).map_err(|e| format!("in order: {e}"))?;
            self.overtaken(workers, r).map_err(|e| format!("overtaken: {e}"))?;
            self.upgrades(workers, r).map_err(|e| format!("sharers that would own: {e}"))?;
            self.pairs(r).map_err(|e| format!("two locks: {e}"))?;
            self.stronger(workers, r).map_err(|e| format!("an owner that would have the keys: {e}"))?;
            self.refused(workers, r).map_err(|e| format!("one that does not wait: {e}"))?;
        }
        if self.rows.len() >= 2 {
            self.cycle(workers, r).map_err(|e| format!("a cycle: {e}"))?;
            self.soup(workers, r).map_err(|e| format!("several rows: {e}"))?;
        }
        Ok(())
    }

    /// Some queue for a row, one after the other; some of them are cancelled; others come when it is let go.
    fn order(&self, workers: &Workers, r: &mut Random) -> Outcome {
        let oid = *r.pick(&self.rows).unwrap_or(&self.rows[0]);
        let began = clock::now();
        let served: Served = Arc::default();
        let mut holder = self.locker();
        holder.c.savepoint("s").map_err(told)?;
        let held = strength(r, 0.8);
        holder.lock(oid, held, Wait::Block).map_err(told)?;
        let start = |n: usize, strength: LockStrength, r: &mut Random, served: &Served| {
            let mut l = self.locker();
            let (waiter, cancel, parker) = (l.c.waiter(), l.cancel.clone(), l.c.parker().clone());
            let (served, rest) = (served.clone(), Duration::from_micros(r.below(300)));
            let partly = r.chance(0.3);
            let body = move || -> Outcome {
                l.c.savepoint("s").map_err(told)?;
                match l.lock(oid, strength, Wait::Block) {
                    Ok(_) => {}
                    Err(e) if e.sqlstate() == sqlstate::QUERY_CANCELED => return Ok(()),
                    Err(e) => return Err(format!("number {n}: {} {e}", e.sqlstate())),
                }
                if [UPDATE, NO_KEY_UPDATE].contains(&strength) {
                    served.lock().push((n, strength))
                }
                nap(rest);
                if partly {
                    l.c.rollback_to_savepoint("s").map_err(told)?;
                    nap(Duration::from_millis(2));
                }
                Ok(())
            };
            (workers.spawn(n, "waiter", body), waiter, cancel, parker)
        };
        let mut fibers = vec![];
        let mut cancelled = vec![];
        let n = 2 + r.below(4) as usize;
        for i in 0..n {
            let (fiber, waiter, cancel, parker) = start(i, strength(r, 0.75), r, &served);
            let fiber = fiber.map_err(|e| e.to_string())?;
            while !waiter.is_waiting() && !fiber.is_finished() {
                thread::sleep(Duration::from_micros(20))
            }
            if r.chance(0.25) {
                cancelled.push((cancel, parker))
            }
            fibers.push(fiber)
        }
        for i in 0..1 + r.below(3) as usize {
            fibers.push(start(100 + i, strength(r, 1.0), r, &served).0.map_err(|e| e.to_string())?)
        }
        let late = r.below(60);
        let canceller = thread::spawn("canceller", move || {
            thread::sleep(Duration::from_micros(late));
            for (cancel, parker) in cancelled {
                cancel.tell();
                yield_point();
                parker.unpark()
            }
        });
        thread::sleep(Duration::from_micros(r.below(60)));
        match r.chance(0.5) {
            true => holder.c.rollback_to_savepoint("s").map_err(told)?,
            false => holder.c.rollback(),
        }
        join(fibers)?;
        canceller.map(|c| c.join().map_err(|_| "a panic")).map_err(|e| e.to_string())??;
        let served = std::mem::take(&mut *served.lock());
        // Those that came when it was let go may have overtaken the others; and so may, whoever is blocked by
        // sharers of the row's keys, one that is not.
        for mode in [UPDATE, NO_KEY_UPDATE] {
            if !served.iter().filter(|(n, m)| *n < 100 && *m == mode).is_sorted_by_key(|(n, _)| *n) {
                return Err(format!("served were {served:?}"));
            }
        }
        in_time(began)
    }

    /// One session takes a row again and again, another waits for it.
    fn overtaken(&self, workers: &Workers, r: &mut Random) -> Outcome {
        let began = clock::now();
        let oid = *r.pick(&self.rows).unwrap_or(&self.rows[0]);
        let (held, strength) = excluding(r);
        let served = Arc::new(AtomicUsize::new(0));
        let (mut holder, mut l) = (self.locker(), self.locker());
        let (theirs, waiter) = (served.clone(), l.c.waiter());
        holder.lock(oid, held, Wait::Block).map_err(told)?;
        let again = workers.spawn(0, "taker", move || -> Outcome {
            while !waiter.is_waiting() {
                nap(Duration::from_micros(20))
            }
            let mut overtakings = 0;
            while theirs.load(Ordering::SeqCst) == 0 {
                holder.c.rollback();
                holder.begin();
                holder.lock(oid, held, Wait::Block).map_err(told)?;
                overtakings += 1;
                // The last time it had to wait.
                if overtakings > OVERTAKINGS + 1 {
                    return Err(format!("{overtakings} times"));
                }
            }
            Ok(())
        });
        let waits = workers.spawn(0, "waiter", move || -> Outcome {
            l.lock(oid, strength, Wait::Block).map_err(told)?;
            served.store(1, Ordering::SeqCst);
            Ok(())
        });
        join(vec![again.map_err(|e| e.to_string())?, waits.map_err(|e| e.to_string())?])?;
        in_time(began)
    }

    /// Each holds a row and wants the next one's.
    fn cycle(&self, workers: &Workers, r: &mut Random) -> Outcome {
        let began = clock::now();
        let n = 2 + r.below(self.rows.len() as u64 - 1).min(3) as usize;
        let arrived = Arc::new(AtomicUsize::new(0));
        let deadlocks = Arc::new(AtomicUsize::new(0));
        // Others may stand in the queues.
        let more = r.below(3) as usize;
        let fibers = (0..n + more).map(|i| {
            let (mut l, late) = (self.locker(), Duration::from_micros(r.below(100)));
            let (arrived, deadlocks) = (arrived.clone(), deadlocks.clone());
            let (held, strength) = excluding(r);
            let strength = if i >= n || exclude(strength, NO_KEY_UPDATE) { strength } else { UPDATE };
            workers.spawn(i, "member", move || -> Outcome {
                if i < n {
                    let oid = l.at.rows[i];
                    l.arrive(oid, held, &arrived)?
                }
                while arrived.load(Ordering::SeqCst) < n {
                    nap(Duration::from_micros(50))
                }
                nap(late);
                match l.lock(l.at.rows[(i + 1) % n], strength, Wait::Block) {
                    Ok(_) => Ok(()),
                    Err(e) if e.sqlstate() == sqlstate::DEADLOCK_DETECTED && i < n => {
                        deadlocks.fetch_add(1, Ordering::SeqCst);
                        Ok(())
                    }
                    Err(e) => Err(format!("member {i} of {n}: {} {e}", e.sqlstate())),
                }
            })
        });
        let fibers: Vec<_> = fibers.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
        join(fibers)?;
        let n = deadlocks.load(Ordering::SeqCst);
        if n != 1 {
            return Err(format!("{n} gave up"));
        }
        in_time(began)
    }

    /// Some share a row; each of them would then own it, which one of them can.
    fn upgrades(&self, workers: &Workers, r: &mut Random) -> Outcome {
        let began = clock::now();
        let oid = *r.pick(&self.rows).unwrap_or(&self.rows[0]);
        let (n, arrived) = (2 + r.below(3) as usize, Arc::new(AtomicUsize::new(0)));
        let keys = r.chance(0.3);
        let deadlocks = Arc::new(AtomicUsize::new(0));
        let fibers = (0..n + 1).map(|i| {
            let mut l = self.locker();
            let (arrived, deadlocks) = (arrived.clone(), deadlocks.clone());
            let late = Duration::from_micros(r.below(100));
            let shared = if keys { KEY_SHARE } else { strength(r, 0.0) };
            workers.spawn(i, "sharer", move || -> Outcome {
                if i < n {
                    l.arrive(oid, shared, &arrived)?
                }
                while arrived.load(Ordering::SeqCst) < n {
                    nap(Duration::from_micros(50))
                }
                nap(late);
                match l.lock(oid, LockStrength::Update, Wait::Block) {
                    Ok(_) => Ok(()),
                    Err(e) if e.sqlstate() == sqlstate::DEADLOCK_DETECTED && i < n => {
                        deadlocks.fetch_add(1, Ordering::SeqCst);
                        Ok(())
                    }
                    Err(e) => Err(format!("sharer {i} of {n}: {} {e}", e.sqlstate())),
                }
            })
        });
        let fibers: Vec<_> = fibers.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
        join(fibers)?;
        let gave_up = deadlocks.load(Ordering::SeqCst);
        // Those that come when another has given up find nobody in their way.
        if gave_up >= n {
            return Err(format!("{gave_up} of {n} gave up"));
        }
        in_time(began)
    }

    /// One holds a row, and another asks whether it may.
    fn pairs(&self, r: &mut Random) -> Outcome {
        let oid = *r.pick(&self.rows).unwrap_or(&self.rows[0]);
        let (a, b) = (strength(r, 0.5), strength(r, 0.5));
        let (mut first, mut second) = (self.locker(), self.locker());
        first.lock(oid, a, Wait::Block).map_err(told)?;
        let refused = match second.lock(oid, b, Wait::NoWait) {
            Ok(_) => false,
            Err(e) if e.sqlstate() == sqlstate::LOCK_NOT_AVAILABLE => true,
            Err(e) => return Err(told(e)),
        };
        match refused == exclude(a, b) {
            true => Ok(()),
            false => Err(format!("{b:?} beside {a:?}: {}", if refused { "refused" } else { "given" })),
        }
    }

    /// Some share a row's keys; its owner would have them for itself, and has to wait for those.
    fn stronger(&self, workers: &Workers, r: &mut Random) -> Outcome {
        let began = clock::now();
        let oid = *r.pick(&self.rows).unwrap_or(&self.rows[0]);
        let (n, arrived) = (1 + r.below(3) as usize, Arc::new(AtomicUsize::new(0)));
        let sharing = Arc::new(AtomicUsize::new(n));
        let fibers = (0..n + 1).map(|i| {
            let mut l = self.locker();
            let (arrived, sharing) = (arrived.clone(), sharing.clone());
            let (late, partly) = (Duration::from_micros(r.below(100)), r.chance(0.5));
            workers.spawn(i, "sharer", move || -> Outcome {
                let first = if i < n { KEY_SHARE } else { NO_KEY_UPDATE };
                l.c.savepoint("s").map_err(told)?;
                l.arrive(oid, first, &arrived)?;
                while arrived.load(Ordering::SeqCst) < n + 1 {
                    nap(Duration::from_micros(50))
                }
                nap(late);
                if i < n {
                    sharing.fetch_sub(1, Ordering::SeqCst);
                    if partly {
                        l.c.rollback_to_savepoint("s").map_err(told)?;
                        nap(Duration::from_millis(2))
                    }
                    return Ok(());
                }
                l.c.savepoint("t").map_err(told)?;
                l.lock(oid, UPDATE, Wait::Block).map_err(told)?;
                match sharing.load(Ordering::SeqCst) {
                    0 => {}
                    n => return Err(format!("{n} share it still")),
                }
                if partly {
                    // Others may share the keys again.
                    l.c.rollback_to_savepoint("t").map_err(told)?;
                    let mut other = l.at.locker();
                    other.lock(oid, KEY_SHARE, Wait::NoWait).map_err(told)?;
                }
                Ok(())
            })
        });
        let fibers: Vec<_> = fibers.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
        join(fibers)?;
        in_time(began)
    }

    /// One waits for a sharer who goes. Meanwhile another tries the row, which a second sharer keeps from it,
    /// and does not wait (wait/W5).
    fn refused(&self, workers: &Workers, r: &mut Random) -> Outcome {
        let began = clock::now();
        let oid = *r.pick(&self.rows).unwrap_or(&self.rows[0]);
        let (mut stays, mut goes) = (self.locker(), self.locker());
        stays.lock(oid, KEY_SHARE, Wait::Block).map_err(told)?;
        goes.lock(oid, SHARE, Wait::Block).map_err(told)?;
        let (mut l, mut tries) = (self.locker(), self.locker());
        let (waiter, gone) = (l.c.waiter(), Arc::new(AtomicUsize::new(0)));
        let theirs = gone.clone();
        let (late, rest) = (Duration::from_micros(r.below(100)), Duration::from_micros(r.below(5)));
        let waits = workers.spawn(0, "waiter", move || -> Outcome {
            l.lock(oid, NO_KEY_UPDATE, Wait::Block).map(drop).map_err(told)
        });
        let sharer = workers.spawn(1, "sharer", move || -> Outcome {
            while !waiter.is_waiting() {
                nap(Duration::from_micros(20))
            }
            nap(late);
            goes.c.rollback();
            gone.store(1, Ordering::SeqCst);
            Ok(())
        });
        let tried = workers.spawn(2, "trier", move || -> Outcome {
            while theirs.load(Ordering::SeqCst) == 0 {
                match tries.lock(oid, UPDATE, Wait::SkipLocked) {
                    Ok(Locked::Skipped) => {}
                    Ok(other) => return Err(format!("{other:?} beside a sharer")),
                    Err(e) => return Err(told(e)),
                }
                nap(rest)
            }
            Ok(())
        });
        let fibers: Result<Vec<_>, _> = [waits, sharer, tried].into_iter().collect();
        join(fibers.map_err(|e| e.to_string())?)?;
        in_time(began)
    }

    /// Transactions that lock some rows in any order and strength, and are cancelled at times.
    fn soup(&self, workers: &Workers, r: &mut Random) -> Outcome {
        let began = clock::now();
        // What they have, while none is told of a failure, which gives up locks at once: session, step, row,
        // lock.
        let held: Arc<Mutex<Vec<(u64, u64, Oid, LockStrength)>>> = Arc::default();
        let trying: Arc<Mutex<[bool; 5]>> = Arc::default();
        let fibers = (0..5u64).map(|i| {
            let (mut l, mut r) = (self.locker(), r.branch(i));
            let few = self.rows.len().min(3) as u64;
            let (held, trying) = (held.clone(), trying.clone());
            workers.spawn(i as usize, "session", move || -> Outcome {
                for _ in 0..4 {
                    let (cancel, parker) = (l.cancel.clone(), l.c.parker().clone());
                    let canceller = r.chance(0.3).then(|| r.below(200)).and_then(|late| {
                        let cancel = move || {
                            thread::sleep(Duration::from_micros(late));
                            cancel.tell();
                            parker.unpark()
                        };
                        thread::spawn("canceller", cancel).ok()
                    });
                    for step in 0..1 + r.below(3) {
                        if step == 1 {
                            l.c.savepoint("s").map_err(told)?
                        }
                        let oid = l.at.rows[r.below(few) as usize];
                        let strength = strength(&mut r, 0.6);
                        let wait = if r.chance(0.1) { Wait::SkipLocked } else { Wait::Block };
                        trying.lock()[i as usize] = true;
                        match l.lock(oid, strength, wait) {
                            Ok(Locked::Gone) => return Err("a row is gone".into()),
                            Ok(Locked::Skipped) => trying.lock()[i as usize] = false,
                            Ok(_) => {
                                let mut trying = trying.lock();
                                trying[i as usize] = false;
                                let mut held = held.lock();
                                let others = held.iter().filter(|(s, ..)| *s != i && !trying[*s as usize]);
                                let others = others.filter(|(_, _, at, _)| *at == oid);
                                if let Some(other) = others.clone().find(|(.., m)| exclude(*m, strength)) {
                                    return Err(format!("{strength:?} beside {:?}", other.3));
                                }
                                held.push((i, step, oid, strength))
                            }
                            Err(e)
                                if [sqlstate::DEADLOCK_DETECTED, sqlstate::QUERY_CANCELED]
                                    .contains(&e.sqlstate()) =>
                            {
                                break;
                            }
                            Err(e) => return Err(format!("session {i}: {} {e}", e.sqlstate())),
                        }
                        if step == 1 && r.chance(0.3) {
                            held.lock().retain(|(s, at, ..)| *s != i || *at == 0);
                            l.c.rollback_to_savepoint("s").map_err(told)?
                        }
                        nap(Duration::from_micros(r.below(60)))
                    }
                    held.lock().retain(|(s, ..)| *s != i);
                    trying.lock()[i as usize] = false;
                    l.c.rollback();
                    if let Some(c) = canceller {
                        c.join().map_err(|_| "a canceller panicked")?
                    }
                    l.cancel.begin();
                    l.begin()
                }
                Ok(())
            })
        });
        let fibers: Vec<_> = fibers.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
        join(fibers)?;
        in_time(began)
    }
}

/// Of those who waited, number and lock, in the order in which they were served.
type Served = Arc<Mutex<Vec<(usize, LockStrength)>>>;

/// A lock that an owner has, and one that excludes.
fn excluding(r: &mut Random) -> (LockStrength, LockStrength) {
    let (held, wanted) = (strength(r, 1.0), strength(r, 0.8));
    if exclude(held, wanted) { (held, wanted) } else { (UPDATE, wanted) }
}

fn join(fibers: Vec<thread::JoinHandle<Outcome>>) -> Outcome {
    let mut done = Ok(());
    for f in fibers {
        done = done.and(f.join().unwrap_or_else(|_| Err("a panic".into())))
    }
    done
}

fn in_time(began: Duration) -> Outcome {
    let took = clock::now() - began;
    if took < PATIENCE / 2 { Ok(()) } else { Err(format!("it took {took:?}")) }
}

/// More than ever come: nobody waits for one who has failed.
const FAILED: usize = 1 << 16;

impl Locker {
    /// Locks a row, and tells those who wait for all to have theirs.
    fn arrive(&mut self, oid: Oid, strength: LockStrength, arrived: &AtomicUsize) -> Outcome {
        let locked = self.lock(oid, strength, Wait::Block).map_err(told);
        arrived.fetch_add(if locked.is_ok() { 1 } else { FAILED }, Ordering::SeqCst);
        locked.map(drop)
    }
    fn begin(&mut self) {
        // It fails only inside a transaction.
        let _ = self.c.begin(Isolation::ReadCommitted, Access::ReadWrite);
    }
    fn lock(&mut self, oid: Oid, strength: LockStrength, wait: Wait) -> SqlResult<Locked> {
        loop {
            let catalog = self.c.catalog();
            let Some(t) = catalog.table(&self.at.table) else { return Ok(Locked::Gone) };
            match self.c.start_statement(catalog.version, std::slice::from_ref(t), true) {
                Err(e) if e.sqlstate() == STALE => continue,
                other => other?,
            }
            let locked = self.c.lock(t, oid, strength, wait);
            match locked {
                Ok(_) => drop(self.c.end_statement()?),
                Err(_) => self.c.abort_statement(),
            }
            return locked;
        }
    }
}
