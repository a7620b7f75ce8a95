//! Every bench is run with next to nothing, so that none of them rots. What they check (checksums that must
//! agree, consistency conditions, acknowledged orders after a SIGKILL, equal content on two databases) is
//! checked here too.
use std::process::Command;

fn tiny(bench: &str, further: &[&str], says: &[&str]) {
    let folder = ondol::TempFolder::new().expect("a folder");
    let out = Command::new(env!("CARGO_BIN_EXE_ondol-bench"))
        .args([bench, "--tiny", "--out"])
        .arg(folder.path())
        .args(further)
        .output()
        .expect("the bench runs");
    let (stdout, stderr) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{stdout}\n{stderr}");
    for s in says {
        assert!(stdout.contains(s), "{s:?} is missing in:\n{stdout}");
    }
    let mut written: Vec<String> = std::fs::read_dir(folder.path())
        .expect("results")
        .filter_map(|e| Some(e.ok()?.path().extension()?.to_string_lossy().into_owned()))
        .collect();
    written.sort();
    assert_eq!(written, ["csv", "md", "svg"]);
}

#[test]
fn directory() {
    tiny("directory", &[], &["Q1: point reads", "Q3: point reads", "Q4: durable", "bytes an update"]);
}

#[test]
fn tpcc() {
    let says = [
        "conditions of clause 3.3.2 hold",
        "left the same content on both sides",
        "Ondol durable: killed after",
        "SQLite FULL: killed after",
    ];
    tiny("tpcc", &["--threads", "2"], &says);
}

#[test]
fn tpcc_wire() {
    let says = [
        "Transactions, all types: each statement a round trip",
        "Transactions, all types: an order's lines sent together",
        "conditions of clause 3.3.2 hold",
        "Ondol's server: killed after",
    ];
    tiny("tpcc", &["--wire"], &says);
    // From Java too, where it is.
    let jar = "/usr/share/java/postgresql.jar";
    if std::path::Path::new(jar).exists() && Command::new("javac").arg("-version").output().is_ok() {
        let says = ["Transactions, all types: from Java by pgjdbc"];
        tiny("tpcc", &["--wire", "--jdbc", jar, "--rounds", "1"], &says);
    }
}

#[test]
fn carriers() {
    let says = [
        "1 client, 1 a message",
        "8 clients, 50 a message",
        "memory against TCP",
        "on the server's processors",
    ];
    tiny("carriers", &["--rounds", "1"], &says);
}

#[test]
fn rows() {
    let says = ["To a client that discards, text", "To a client that discards, binary", "most memory"];
    tiny("rows", &["--rounds", "1"], &says);
}

#[test]
fn load() {
    tiny("load", &[], &["Ondol COPY"]);
}

#[test]
fn alter() {
    let says = ["ADD COLUMN with a default", "ALTER TYPE int to bigint", "longest update"];
    tiny("alter", &["--sessions", "2"], &says);
}

#[test]
fn recovery() {
    tiny("recovery", &[], &["whole restart", "building the indexes on the live database"]);
}

#[test]
fn checkpoint() {
    tiny("checkpoint", &[], &["p99 with against without", "A long reader under updates"]);
}

#[test]
fn ring() {
    let says = [
        "Commits of 1 session",
        "Commits of 16 sessions",
        "promise server-crash (emulated",
        "Latency of a commit",
    ];
    let folder = ondol::TempFolder::new().expect("a folder");
    tiny("ring", &["--memory", folder.path().to_str().expect("a plain path")], &says);
}

#[test]
fn scan() {
    let folder = ondol::TempFolder::new().expect("a folder");
    let (memory, tbl) = (folder.path().join("memory"), folder.path().join("lineitem.tbl"));
    std::fs::create_dir(&memory).expect("a folder");
    // 1,200 rows as TPC-H's generators write them, of which the first 1,000 are taken.
    let lines: String = (0..1200)
        .map(|i| {
            format!(
                "{i}|{}|7|1|17.00|2116{}.23|0.04|0.02|N|O|1996-0{}-13|1996-02-12|1996-03-22|DELIVER IN PERSON|TRUCK|egular courts, above|\n",
                i * 7 % 1000,
                i % 10,
                1 + i % 9
            )
        })
        .collect();
    std::fs::write(&tbl, lines).expect("written");
    let says =
        ["COPY to CSV", "COPY to Parquet", "Totals", "Groups", "the encoder alone", "Ondol, 3 workers"];
    let memory = memory.to_str().expect("a plain path");
    tiny("scan", &["--memory", memory, "--workers", "1,3"], &says);
    let tbl = ["--memory", memory, "--tbl", tbl.to_str().expect("a plain path"), "--rows", "1000"];
    tiny("scan", &tbl, &["1,000 rows of TPC-H's lineitem"]);
    assert_eq!(std::fs::read_dir(memory).expect("the folder").count(), 0, "something is left in memory");
}

/// The encoder alone: what it writes has all rows.
#[test]
fn encode() {
    use arrow_array::{Int64Array, RecordBatch};
    use std::sync::Arc;
    let folder = ondol::TempFolder::new().expect("a folder");
    let (arrow, parquet) = (folder.path().join("t.arrow"), folder.path().join("t.parquet"));
    let column = Arc::new(Int64Array::from_iter_values(0..1000));
    let batch = RecordBatch::try_from_iter([("n", column as _)]).expect("a batch");
    let file = std::fs::File::create(&arrow).expect("a file");
    let mut writer = arrow_ipc::writer::FileWriter::try_new(file, &batch.schema()).expect("a writer");
    writer.write(&batch).and_then(|()| writer.write(&batch)).and_then(|()| writer.finish()).expect("written");
    let encode = |from: &std::path::Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ondol-bench"));
        command.arg("encode").arg(from).arg("--to").arg(&parquet).output().expect("the bench runs")
    };
    let out = encode(&arrow);
    let stdout = String::from_utf8_lossy(&out.stdout);
    assert!(stdout.starts_with("rows 2000\n") && stdout.contains("\ncpu_seconds "), "{stdout} {out:?}");
    assert_eq!(ondol_bench::encoder::Batches::from_parquet(&parquet).expect("read back").rows(), 2000);
    let out = encode(&parquet);
    assert!(!out.status.success() && String::from_utf8_lossy(&out.stderr).contains("t.parquet"), "{out:?}");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn pmem() {
    let deps = std::env::current_exe().expect("a path");
    let library = deps.with_file_name("libondol_sqlite.so");
    let library = library.to_str().expect("a name");
    let says = ["journal_mode=DELETE", "journal_mode=WAL", "against MM", "conditions of clause 3.3.2 hold"];
    tiny("pmem", &["--library", library], &says);
}

#[test]
fn waiters() {
    tiny("waiters", &[], &["Waiting for a row", "Waiting for durability", "woken in vain"]);
}

#[test]
fn wire() {
    let says =
        ["Selects, 8 clients, pipelines of 50", "Durable updates", "idle connections", "beside a COPY"];
    let banks = ["pgbench's TPC-B, 8 clients", "pgbench's TPC-B, 32 clients", "Ondol, prepared"];
    let is_there = std::path::Path::new("/usr/lib/postgresql/15/bin/pgbench").exists();
    tiny("wire", &[], &[&says[..], if is_there { &banks } else { &[] }].concat());
}

#[test]
fn waits() {
    tiny("waits", &[], &["A storm of deadlocks", "what many keep", "Deadlocks a second"]);
}

#[test]
fn crtree() {
    let says = ["uniform, 2 dimensions", "market, 6 dimensions", "inserts a second", "rstar", "two threads"];
    tiny("crtree", &[], &says);
    tiny("crtree", &["--kinds", "rectangles"], &["rectangles, 4 dimensions"]);
    tiny(
        "crtree",
        &["--kinds", "uniform", "--dimensions", "3", "--bounded", "2"],
        &["uniform, 3 dimensions"],
    );
}

#[test]
fn boxes() {
    let says = ["uniform, 2 dimensions, 0.1 %", "market, 6 dimensions", "SQLite, R*Tree", "Unix socket"];
    tiny("boxes", &["--percent", "0.1,1"], &says);
}
