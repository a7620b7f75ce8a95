//! Speed of the engine's own calls, below SQL:
//! `cargo run --release -p ondol-engine --example speed -- [rows]`.
use ondol_engine::*;
use ondol_types::{Type, TypeId, ValueRef};
use std::time::Instant;

fn main() {
    let rows: i64 = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(1_000_000);
    let dir = std::env::temp_dir().join(format!("ondol-speed-{}", std::process::id()));
    let options = Options { memory_limit: 12 << 30, checkpoint_log_bytes: 8 << 30, ..Options::default() };
    let db = Database::open(&dir, options).expect("opens");
    let mut c = db.connect();
    let col = |name: &str, ty| ColumnDef::new(name, ty);
    let char1 = Type::with(TypeId::BPCHAR, 5);
    c.create_table(
        "t",
        vec![
            col("a", Type::INT8),
            col("b", Type::INT4),
            col("r", Type::INT8),
            col("x", char1),
            col("y", char1),
            col("z", char1),
            col("n", Type::with(TypeId::BPCHAR, 44)),
            col("c", Type::INT8),
        ],
    )
    .expect("creates");
    let t = c.catalog().table("t").expect("made").clone();
    println!("row size {}", t.layout.row_size);
    let key = |i: i64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15u64 as i64);
    let timed = |what: &str, n: i64, f: &mut dyn FnMut()| {
        let start = Instant::now();
        f();
        let s = start.elapsed().as_secs_f64();
        println!("{what}: {:.0}/s, {:.0} ns each", n as f64 / s, s * 1e9 / n as f64);
    };
    timed("insert", rows, &mut || {
        c.start_statement(c.catalog_version(), std::slice::from_ref(&t), true).expect("starts");
        for i in 0..rows {
            let name = "a subscriber name of forty characters ..";
            c.insert(
                &t,
                &[
                    ValueRef::Int8(key(i)),
                    ValueRef::Int4(i as i32),
                    ValueRef::Int8(i / 4),
                    ValueRef::Text("a"),
                    ValueRef::Text("b"),
                    ValueRef::Text("c"),
                    ValueRef::Text(name),
                    ValueRef::Int8(0),
                ],
            )
            .expect("inserts");
        }
        c.end_statement().expect("commits");
    });
    timed("hash index", rows, &mut || {
        let col = IndexColumn { column: 0, desc: false, nulls_first: false };
        c.create_index("t", "t_a", IndexKind::Hash, true, vec![col], false, false).expect("builds")
    });
    timed("B+-tree", rows, &mut || {
        let col = IndexColumn { column: 1, desc: false, nulls_first: false };
        c.create_index("t", "t_b", IndexKind::Btree, true, vec![col], false, false).expect("builds")
    });
    let t = c.catalog().table("t").expect("made").clone();
    let n = 2_000_000i64;
    let mut row = vec![0; t.layout.row_size];
    let (mut k, mut oids) = (vec![], vec![]);
    let mut sum = 0u64;
    for which in [0, 1] {
        let index = t.indexes[which].clone();
        timed(if which == 0 { "read by hash" } else { "read by B+-tree" }, n, &mut || {
            for i in 0..n {
                let i = (i * 7919) % rows;
                c.start_statement(c.catalog_version(), std::slice::from_ref(&t), false).expect("starts");
                k.clear();
                oids.clear();
                let v = if which == 0 { ValueRef::Int8(key(i)) } else { ValueRef::Int4(i as i32) };
                index.key.encode(&[v], &mut k);
                c.lookup(&index, &k, &mut oids).expect("looks up");
                for o in &oids {
                    if c.read(&t, *o, &mut row) {
                        sum += row[9] as u64
                    }
                }
                c.end_statement().expect("ends");
            }
        });
    }
    c.set_synchronous(false);
    let index = t.indexes[0].clone();
    let m = 1_000_000i64;
    timed("update, asynchronous", m, &mut || {
        for i in 0..m {
            let i = (i * 7919) % rows;
            c.start_statement(c.catalog_version(), std::slice::from_ref(&t), true).expect("starts");
            k.clear();
            oids.clear();
            index.key.encode(&[ValueRef::Int8(key(i))], &mut k);
            c.lookup(&index, &k, &mut oids).expect("looks up");
            for o in oids.clone() {
                if c.read(&t, o, &mut row) {
                    c.lock(&t, o, LockStrength::Update, Wait::Block).expect("locks");
                    c.update(&t, o, &row, &[(7, ValueRef::Int8(i))]).expect("updates");
                }
            }
            c.end_statement().expect("ends");
        }
        let last = c.last_token();
        c.wait_durable(last).expect("durable");
    });
    c.set_synchronous(true);
    timed("update, durable one by one", 2000, &mut || {
        for i in 0..2000 {
            c.start_statement(c.catalog_version(), std::slice::from_ref(&t), true).expect("starts");
            k.clear();
            oids.clear();
            index.key.encode(&[ValueRef::Int8(key(i))], &mut k);
            c.lookup(&index, &k, &mut oids).expect("looks up");
            for o in oids.clone() {
                if c.read(&t, o, &mut row) {
                    c.lock(&t, o, LockStrength::Update, Wait::Block).expect("locks");
                    c.update(&t, o, &row, &[(7, ValueRef::Int8(-1 - i))]).expect("updates");
                }
            }
            c.end_statement().expect("ends");
        }
    });
    timed("checkpoint, pages of", rows, &mut || db.checkpoint().expect("checkpoints"));
    for m in db.memory().parts {
        println!("{m:?}")
    }
    drop((c, t, db));
    let start = Instant::now();
    let db =
        Database::open(&dir, Options { memory_limit: 12 << 30, ..Options::default() }).expect("opens again");
    println!("opened in {:.3} s: {:?}", start.elapsed().as_secs_f64(), db.opened());
    drop(db);
    std::fs::remove_dir_all(&dir).ok();
    std::hint::black_box(sum);
}
