//! Measures both indexes: builds them with random keys, then looks keys up, one by one and prefetched in
//! batches. For profiling: `index_speed [entries] [name...]` runs only the parts named.
#![allow(unsafe_code)] // OIDs that nobody follows.
use ondol_base::clock;
use ondol_base::epoch::Epochs;
use ondol_base::oid::Oid;
use ondol_index::btree::{BTree, Cursor, Direction, KeyShape};
use ondol_index::hash::{HashIndex, hash_word};
use ondol_index::{Budget, Index};
use std::hint::black_box;
use std::ops::Bound;
use std::sync::Arc;

fn oid_of(bits: u64) -> Oid {
    // SAFETY: nobody follows it.
    unsafe { Oid::from_bits(bits) }
}

struct NoLimit;
impl Budget for NoLimit {
    fn charge(&self, _: usize) -> bool {
        true
    }
    fn release(&self, _: usize) {}
}

fn measure(name: &str, n: u64, mut f: impl FnMut()) {
    let start = clock::now();
    f();
    let time = clock::now() - start;
    let each = time.as_nanos() as f64 / n as f64;
    println!("{name:44} {each:8.1} ns each, {:8.2} M/s", 1000.0 / each);
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let n: u64 = args.first().and_then(|a| a.parse().ok()).unwrap_or(4_000_000);
    let wanted = |part: &str| args.len() < 2 || args[1..].iter().any(|a| a == part);
    let mut x = 88172645463325252u64;
    let keys: Vec<u64> = (0..n)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x
        })
        .collect();
    // The order of lookups is another than that of the inserts.
    let order: Vec<u64> = (0..n).map(|i| keys[(i.wrapping_mul(2_654_435_761) % n) as usize]).collect();
    let epochs = Epochs::new();
    let me = epochs.join(0);
    let guard = me.pin();
    let budget: Arc<dyn Budget> = Arc::new(NoLimit);

    if wanted("hash") || wanted("hash-build") || wanted("hash-one") || wanted("hash-batch") {
        let presized = HashIndex::new(budget.clone(), n).expect("memory");
        measure("hash: build, presized", n, || {
            for batch in keys.chunks(50) {
                let pairs: Vec<_> = batch.iter().map(|&k| (hash_word(k), oid_of(k & Oid::MASK))).collect();
                presized.build(&guard, &pairs, &mut |_| {}).expect("memory");
            }
        });
        println!("hash: {:.1} bytes an entry", presized.memory_bytes() as f64 / n as f64);
        if wanted("hash") || wanted("hash-one") {
            measure("hash: lookups one by one", n, || {
                for &k in &order {
                    presized.probe(&guard, hash_word(k), &mut |oid| {
                        black_box(oid);
                        true
                    });
                }
            });
        }
        if wanted("hash") || wanted("hash-chained") {
            measure("hash: lookups, each waiting for the last", n, || {
                let mut last = 0;
                for &k in &order {
                    presized.probe(&guard, hash_word(k ^ (last & 1 << 60)), &mut |oid| {
                        last = oid.bits();
                        true
                    });
                }
                black_box(last);
            });
        }
        if wanted("hash") || wanted("hash-batch") {
            measure("hash: lookups prefetched in 50s", n, || {
                let mut aims = Vec::new();
                for batch in order.chunks(50) {
                    aims.clear();
                    aims.extend(batch.iter().map(|&k| presized.aim(hash_word(k))));
                    for &aim in &aims {
                        presized.probe_at(&guard, aim, &mut |oid| {
                            black_box(oid);
                            true
                        });
                    }
                }
            });
        }
    }
    if wanted("hash") || wanted("hash-grow") {
        let growing = HashIndex::new(budget.clone(), 0).expect("memory");
        measure("hash: inserts, growing", n, || {
            for &k in &keys {
                growing.insert_hash(&guard, hash_word(k), oid_of(k & Oid::MASK), None).expect("memory");
            }
        });
        println!("hash: {:.1} bytes an entry", growing.memory_bytes() as f64 / n as f64);
    }
    if wanted("btree") || wanted("btree-one") || wanted("btree-scan") || wanted("btree-seek") {
        let tree = BTree::new(KeyShape::Fixed(8), budget.clone()).expect("memory");
        measure("btree: random inserts", n, || {
            for &k in &keys {
                tree.insert(&guard, &k.to_be_bytes(), oid_of(k & Oid::MASK), None).expect("memory");
            }
        });
        println!(
            "btree: {:.1} bytes an entry, height {}",
            tree.memory_bytes() as f64 / n as f64,
            tree.height()
        );
        if wanted("btree") || wanted("btree-one") {
            measure("btree: lookups one by one", n, || {
                for &k in &order {
                    tree.probe(&guard, &k.to_be_bytes(), &mut |oid| {
                        black_box(oid);
                        true
                    });
                }
            });
        }
        let mut cursor = Cursor::new();
        if wanted("btree") || wanted("btree-seek") {
            measure("btree: seeks of one key by a cursor", n, || {
                for &k in &order {
                    let key = k.to_be_bytes();
                    cursor.seek(&tree, Bound::Included(&key), Bound::Included(&key), Direction::Forward);
                    black_box(cursor.next_oid(&guard, None));
                }
            });
        }
        for d in [Direction::Forward, Direction::Backward] {
            if wanted("btree") || wanted("btree-scan") {
                measure(&format!("btree: scan {d:?}"), n, || {
                    cursor.seek(&tree, Bound::Unbounded, Bound::Unbounded, d);
                    while let Some(oid) = cursor.next_oid(&guard, None) {
                        black_box(oid);
                    }
                });
            }
        }
    }
    if wanted("btree") || wanted("btree-ascending") {
        let tree = BTree::new(KeyShape::Fixed(8), budget.clone()).expect("memory");
        measure("btree: ascending inserts", n, || {
            for i in 0..n {
                tree.insert(&guard, &i.to_be_bytes(), oid_of(8), None).expect("memory");
            }
        });
        println!("btree: {:.1} bytes an entry", tree.memory_bytes() as f64 / n as f64);
    }
    if wanted("btree") || wanted("btree-bulk") {
        let mut sorted: Vec<[u8; 8]> = keys.iter().map(|k| k.to_be_bytes()).collect();
        sorted.sort_unstable();
        measure("btree: bulk", n, || {
            let tree =
                BTree::bulk(KeyShape::Fixed(8), budget.clone(), sorted.iter().map(|k| (&k[..], oid_of(8))));
            black_box(tree.is_ok());
        });
    }
}
