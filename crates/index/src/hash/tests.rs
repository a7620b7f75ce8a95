//! Tests that look inside: growth from almost nothing, spent entries, trees of equal keys.
use super::*;
use ondol_base::epoch::Epochs;
use std::collections::{BTreeMap, BTreeSet};

/// A limit that counts what is charged, as the kernel's does.
pub(crate) struct Limit {
    limit: i64,
    used: AtomicI64,
}
impl Limit {
    pub(crate) fn new(limit: i64) -> Arc<Limit> {
        Arc::new(Limit { limit, used: AtomicI64::new(0) })
    }
    pub(crate) fn used(&self) -> i64 {
        self.used.load(Ordering::Relaxed)
    }
}
impl Budget for Limit {
    fn charge(&self, bytes: usize) -> bool {
        let fits = self.used.fetch_add(bytes as i64, Ordering::Relaxed) + bytes as i64 <= self.limit;
        if !fits {
            self.release(bytes)
        }
        fits
    }
    fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes as i64, Ordering::Relaxed);
    }
}

/// An OID that nobody follows.
fn oid_of(bits: u64) -> Oid {
    // SAFETY: as above.
    unsafe { Oid::from_bits(bits) }
}

fn oids(index: &HashIndex, guard: &Guard<'_>, hash: u64) -> Vec<u64> {
    let mut out = Vec::new();
    index.probe(guard, hash, &mut |o| {
        out.push(o.bits());
        true
    });
    match index.glance(guard, index.aim(hash)) {
        Some(Oid::NONE) => assert!(out.is_empty(), "a glance finds nothing, a probe {out:?}"),
        Some(oid) => assert!(out.contains(&oid.bits()), "a glance finds {oid:?}, a probe {out:?}"),
        None => {}
    }
    out
}

#[test]
fn places_follow_splits() {
    for n in 2u64..600 {
        let mut hit = BTreeSet::new();
        for i in 0..4096u64 {
            let h = hash_word(i);
            let (p, q) = (place(packed(n), h), place(packed(n + 1), h));
            assert!(p.bucket < n);
            hit.insert(p.bucket);
            // A split moves hashes from one bucket to the new one only.
            assert!(q == p || (p.bucket == bucket_of(n) && (q.bucket == p.bucket || q.bucket == n)));
        }
        assert!(n > 256 || hit.len() as u64 == n, "{n}: {}", hit.len());
    }
}

/// From two buckets, far enough that the first entries spend all their bits and are copied.
#[test]
fn spent_entries_are_found_and_removed_everywhere() {
    let budget = Limit::new(i64::MAX / 2);
    let epochs = Epochs::new();
    let me = epochs.join(0);
    let guard = me.pin();
    let index = HashIndex::with_buckets(budget.clone(), 2).unwrap();
    let n = 1u64 << 19;
    for i in 1..=n {
        assert!(index.insert_hash(&guard, hash_word(i), oid_of(i * 8), None).unwrap());
    }
    assert!(index.spent.load(Ordering::Relaxed), "{} buckets", index.buckets());
    let mut met = BTreeMap::new();
    index
        .verify_bits(&mut |hash, mask, oid| {
            assert_eq!(hash, hash_word(oid.bits() / 8) & mask, "{oid}");
            *met.entry(oid.bits()).or_insert(0) += 1;
        })
        .unwrap();
    assert!(met.len() as u64 == n && met.values().all(|&c| c == 1));
    assert_eq!(index.entries(), n);
    for i in 1..=n {
        assert!(oids(&index, &guard, hash_word(i)).contains(&(i * 8)), "{i}");
        assert!(!index.insert_hash(&guard, hash_word(i), oid_of(i * 8), None).unwrap(), "{i}");
    }
    // A live entry stays, whatever it shares.
    assert!(!index.remove_hash(&guard, hash_word(1), oid_of(8), &mut |_| false, None));
    let mut widest = u64::MAX;
    for i in 1..=n {
        let h = hash_word(i);
        let gone = index.remove_hash(
            &guard,
            h,
            oid_of(i * 8),
            &mut |mask| {
                widest = widest.min(mask);
                true
            },
            None,
        );
        assert!(gone, "{i}");
        if i % 4096 == 1 {
            assert!(!index.remove_hash(&guard, h, oid_of(i * 8), &mut |_| true, None));
        }
    }
    assert_eq!(index.entries(), 0);
    index.verify_bits(&mut |_, _, oid| panic!("{oid} is left")).unwrap();
    drop(index);
    assert_eq!(budget.used(), 0);
}

#[test]
fn equal_keys_make_a_tree_and_leave_nothing() {
    let budget = Limit::new(i64::MAX / 2);
    let epochs = Epochs::new();
    let me = epochs.join(0);
    let guard = me.pin();
    let index = HashIndex::new(budget.clone(), 0).unwrap();
    let n = 100_000u64;
    for i in 1..=n {
        assert!(index.insert_hash(&guard, hash_word(42), oid_of(i * 16), None).unwrap());
        if i % 3 == 0 {
            index.insert_hash(&guard, hash_word(i), oid_of(i * 16 + 8), None).unwrap();
        }
    }
    let all = n + n / 3;
    let per_entry = index.memory_bytes() as f64 / all as f64;
    println!("{all} entries, three of four under one key: {per_entry:.1} bytes each");
    assert!(per_entry < 40.0);
    for i in 1..=n {
        assert!(!index.insert_hash(&guard, hash_word(42), oid_of(i * 16), None).unwrap());
    }
    let mut found = oids(&index, &guard, hash_word(42));
    found.sort_unstable();
    found.dedup();
    assert!((1..=n).all(|i| found.binary_search(&(i * 16)).is_ok()));
    index.verify_bits(&mut |_, _, _| ()).unwrap();
    for i in 1..=n {
        assert!(index.remove_hash(&guard, hash_word(42), oid_of(i * 16), &mut |_| true, None), "{i}");
        if i % 10_000 == 0 {
            index.verify_bits(&mut |_, _, _| ()).unwrap();
        }
    }
    assert_eq!(index.entries(), n / 3);
}

/// One OID under very many keys in one bucket: digits cannot part them, leaves are chained.
#[test]
fn one_oid_under_many_keys() {
    let epochs = Epochs::new();
    let me = epochs.join(0);
    let guard = me.pin();
    let index = HashIndex::new(Limit::new(i64::MAX / 2), 0).unwrap();
    let n = 3000u64;
    let mut new = 0;
    for k in 0..n {
        new += index.insert_hash(&guard, hash_word(k), oid_of(4096), None).unwrap() as u64;
        assert!(!index.insert_hash(&guard, hash_word(k), oid_of(4096), None).unwrap());
    }
    // Keys whose hash bits agree share an entry.
    assert!(new > n - 20 && new == index.entries());
    index.verify_bits(&mut |_, _, _| ()).unwrap();
    // Every key but those whose hash the entry shares can go, and every other stays findable.
    let mut removed = 0;
    for k in 0..n {
        removed += index.remove_hash(
            &guard,
            hash_word(k),
            oid_of(4096),
            &mut |mask| (k + 1..n).all(|other| (hash_word(other) ^ hash_word(k)) & mask != 0),
            None,
        ) as u64;
        assert!((k + 1..n).all(|other| k % 97 != 0 || !oids(&index, &guard, hash_word(other)).is_empty()));
    }
    assert_eq!(removed, new);
    index.verify_bits(&mut |_, _, _| ()).unwrap();
}

#[test]
fn what_is_alone_is_put_in_at_once() {
    let epochs = Epochs::new();
    let me = epochs.join(0);
    let guard = me.pin();
    let index = HashIndex::new(Limit::new(i64::MAX / 2), 20_000).unwrap();
    let mut refused = 0;
    for k in 0..20_000u64 {
        let key = k.to_be_bytes();
        if !index.insert_alone(&guard, &key, oid_of(8 * k + 8), None).unwrap() {
            refused += 1;
            assert!(index.insert(&guard, &key, oid_of(8 * k + 8), None).unwrap());
        }
        assert!(!index.insert_alone(&guard, &key, oid_of(8), None).unwrap());
        assert!(oids(&index, &guard, hash_key(&key)).contains(&(8 * k + 8)));
    }
    assert_eq!(index.entries(), 20_000);
    assert!(refused < 2000, "{refused} of 20,000 had to be looked up first");
    index.verify_bits(&mut |_, _, _| ()).unwrap();
}

#[test]
fn refused_memory_changes_nothing() {
    let budget = Limit::new(40_000);
    let epochs = Epochs::new();
    let me = epochs.join(0);
    let guard = me.pin();
    let index = HashIndex::new(budget.clone(), 0).unwrap();
    let mut refused = 0;
    let mut stands = BTreeSet::new();
    for i in 1..=20_000u64 {
        match index.insert_hash(&guard, hash_word(i), oid_of(i * 8), None) {
            Ok(_) => assert!(stands.insert(i)),
            Err(OutOfMemory) => refused += 1,
        }
    }
    assert!(refused > 0 && stands.len() > 1000, "{refused} {}", stands.len());
    let mut met = BTreeSet::new();
    index.verify_bits(&mut |_, _, oid| assert!(met.insert(oid.bits() / 8))).unwrap();
    assert_eq!(met, stands);
    for &i in &stands {
        assert!(index.remove_hash(&guard, hash_word(i), oid_of(i * 8), &mut |_| true, None));
    }
    drop(index);
    assert_eq!(budget.used(), 0);
}

#[test]
fn memory_an_entry_while_growing() {
    let epochs = Epochs::new();
    let me = epochs.join(0);
    let guard = me.pin();
    let index = HashIndex::new(Limit::new(i64::MAX / 2), 0).unwrap();
    let (mut worst, mut sum, mut samples) = (0f64, 0f64, 0);
    for i in 1..=1_500_000u64 {
        index.insert_hash(&guard, hash_word(i), oid_of(i * 8), None).unwrap();
        if i > 10_000 && i % 1000 == 0 {
            let each = index.memory_bytes() as f64 / i as f64;
            worst = worst.max(each);
            sum += each;
            samples += 1;
        }
    }
    println!("bytes an entry, growing to 1.5 M: worst {worst:.1}, mean {:.1}", sum / samples as f64);
    assert!(worst < 36.0 && sum / (samples as f64) < 22.0);
    let mut second = 0u64;
    for (a, _) in index.addresses() {
        second += line::is_link(index.line(bucket_of(a)).get(7)) as u64;
    }
    println!("{} buckets, {second} with a second line", index.buckets());
    index.verify_bits(&mut |_, _, _| ()).unwrap();
}

/// Batches tell of every key that comes again, and hardly of others; counts and growth are those of single
/// inserts.
#[test]
fn building_tells_of_keys_that_were_there() {
    let epochs = Epochs::new();
    let me = epochs.join(0);
    for expected in [0u64, 40_000] {
        let budget = Limit::new(i64::MAX / 2);
        let index = HashIndex::new(budget.clone(), expected).unwrap();
        // Every tenth key comes twice, every thousandth nine times.
        let again = |n: u64| [0..n % 10 / 9, 0..n % 1000 / 999 * 7].into_iter().flatten().count() as u64;
        let mut all: Vec<(u64, Oid)> = vec![];
        for n in 0..30_000u64 {
            all.extend((0..=again(n)).map(|i| (hash_word(n), oid_of(8 * (1 + n * 16 + i)))))
        }
        let key = |o: Oid| (o.bits() / 8 - 1) / 16;
        // In another order.
        let len = all.len();
        let all: Vec<_> = (0..len).map(|i| all[i * 7919 % len]).collect();
        let mut told: BTreeMap<u64, u64> = BTreeMap::new();
        for batch in all.chunks(64) {
            index.build(&me.pin(), batch, &mut |o| *told.entry(key(o)).or_default() += 1).unwrap();
        }
        let mut found = 0;
        index.verify_bits(&mut |_, _, _| found += 1).unwrap();
        assert_eq!((found, index.entries()), (len as u64, len as u64));
        assert!((0..30_000).filter(|n| again(*n) > 0).all(|n| told.get(&n).copied() >= Some(again(n))));
        // Buckets with a chain behind them are told of too.
        assert!(told.keys().filter(|n| again(**n) == 0).count() < 30_000 / 5, "{expected}: {}", told.len());
        drop(index);
        assert_eq!(budget.used(), 0);
    }
}
