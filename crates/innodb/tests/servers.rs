//! Tablespaces that servers wrote (files/README.md), read and compared with what the servers themselves said.
use ondol_innodb::error::Kind;
use ondol_innodb::evidence::{self, Evidence};
use ondol_innodb::export::{self, Options};
use ondol_innodb::scan::{Buffers, Scan};
use ondol_scan::csv::Dialect;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SERVERS: [&str; 2] = ["mariadb-10.11", "mysql-9.7"];
const TABLES: [&str; 4] = ["everything", "keyless", "tree", "twokeys"];

fn stored(server: &str, name: &str) -> Option<Vec<u8>> {
    let path = format!("{}/tests/files/{server}/{name}.gz", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::File::open(path).ok()?;
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(file).read_to_end(&mut bytes).expect("a fixture that can be unpacked");
    Some(bytes)
}

/// A table's files in a folder of their own.
fn unpacked(server: &str, table: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a folder");
    for kind in ["ibd", "frm", "cfg"] {
        if let Some(bytes) = stored(server, &format!("{table}.{kind}")) {
            std::fs::write(dir.path().join(format!("{table}.{kind}")), bytes).expect("a file");
        }
    }
    let path = dir.path().join(format!("{table}.ibd"));
    (dir, path)
}

fn outfile(scan: Scan, workers: usize) -> Vec<u8> {
    let dialect = if scan.space().format().has_sdi { Dialect::Mysql } else { Dialect::Mariadb };
    let columns = export::columns(&scan, None).expect("columns");
    let options = Options { dialect, columns, limit: None, workers, ordered: true };
    let mut out = Vec::new();
    export::text(Arc::new(scan), &options, &mut out, Path::new("memory"), |_| {})
        .unwrap_or_else(|e| panic!("{e}"));
    out
}

#[test]
fn every_byte_is_the_servers() {
    for server in SERVERS {
        for table in TABLES {
            let (_dir, path) = unpacked(server, table);
            let expected = stored(server, &format!("{table}.out")).expect("what the server said");
            for workers in [1, 3] {
                let found = outfile(Scan::open(&path).unwrap_or_else(|e| panic!("{e}")), workers);
                let at = found
                    .iter()
                    .zip(&expected)
                    .position(|(a, b)| a != b)
                    .unwrap_or(found.len().min(expected.len()));
                let near = |b: &[u8]| {
                    String::from_utf8_lossy(&b[at.saturating_sub(40).min(b.len())..(at + 40).min(b.len())])
                        .into_owned()
                };
                assert!(
                    found == expected,
                    "{server} {table}, byte {at}: {:?}, the server said {:?}",
                    near(&found),
                    near(&expected)
                );
            }
        }
    }
}

#[test]
fn rfc_4180_is_utf_8_with_a_header() {
    for server in SERVERS {
        let (_dir, path) = unpacked(server, "everything");
        let scan = Scan::open(&path).expect("a table");
        let named = ["id", "b", "g", "h", "y", "ad", "p", "q"].map(String::from);
        let columns = export::columns(&scan, Some(&named)).expect("columns");
        let options =
            Options { dialect: Dialect::Rfc4180, columns, limit: Some(3), workers: 2, ordered: false };
        let mut out = Vec::new();
        let done =
            export::text(Arc::new(scan), &options, &mut out, Path::new("memory"), |_| {}).expect("rows");
        assert_eq!(done.rows, 3);
        assert_eq!(
            String::from_utf8(out).expect("UTF-8"),
            "id,b,g,h,y,ad,p,q\n-3,\"\",zé,\"\",\"\",\"\",0,0x00000000\n1,hello,x,\"p,q\",aé,žx,682,0x61620000\n2,,,,,,,\n",
            "{server}"
        );
    }
}

/// Each byte of a file changed in turn, with the checksums as they were: nothing is believed.
#[test]
fn a_changed_byte_is_noticed() {
    for server in SERVERS {
        let (_dir, path) = unpacked(server, "keyless");
        let whole = std::fs::read(&path).expect("a file");
        let expected = outfile(Scan::open(&path).expect("a table"), 1);
        let mut noticed = 0;
        for at in (0..whole.len()).step_by(61) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x41;
            std::fs::write(&path, &bytes).expect("a file");
            match Scan::open(&path).and_then(|s| read_all(&s)) {
                Err(_) => noticed += 1,
                // A page that the rows do not need.
                Ok(()) => assert_eq!(
                    outfile(Scan::open(&path).expect("a table"), 1),
                    expected,
                    "{server}, byte {at}"
                ),
            }
        }
        assert!(noticed > whole.len() / 61 / 8, "{server}: {noticed} noticed");
    }
}

fn read_all(scan: &Scan) -> ondol_innodb::error::Result<()> {
    let mut buffers = Buffers::default();
    (0..scan.parts()).try_for_each(|part| scan.read(part, &mut buffers, |_| Ok(())).map(|_| ()))
}

/// Damage whose checksum fits: random bytes of pages changed, and their checksums made right again. There may be wrong values, but no panic and no endless loop, and
/// what is contradictory is said.
#[test]
fn damage_with_a_right_checksum_does_no_harm() {
    let seed = std::env::var("ONDOL_INNODB_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1u64);
    let rounds = std::env::var("ONDOL_INNODB_ROUNDS").ok().and_then(|s| s.parse().ok()).unwrap_or(100u64);
    println!("seed {seed}, {rounds} rounds");
    for server in SERVERS {
        for table in TABLES {
            let (_dir, path) = unpacked(server, table);
            let whole = std::fs::read(&path).expect("a file");
            let family = ondol_innodb::space::Space::open(&path).expect("a tablespace").format().family;
            let mut refused = 0;
            for round in 0..rounds {
                let mut random = Random(seed.wrapping_mul(1000).wrapping_add(round));
                let mut bytes = whole.clone();
                for _ in 0..1 + random.below(4) {
                    let page = random.below((whole.len() / 16384) as u64) as usize * 16384;
                    // Near the page's header and directory more often than among its records.
                    let at = match random.below(3) {
                        0 => 38 + random.below(100) as usize,
                        _ => 38 + random.below(16384 - 38 - 16) as usize,
                    };
                    bytes[page + at] = random.below(256) as u8;
                    seal(&mut bytes[page..page + 16384], family);
                }
                std::fs::write(&path, &bytes).expect("a file");
                let outcome = Scan::open(&path).and_then(|scan| {
                    let columns = export::columns(&scan, None)?;
                    let options = Options {
                        dialect: Dialect::Rfc4180,
                        columns,
                        limit: None,
                        workers: 1,
                        ordered: true,
                    };
                    export::text(Arc::new(scan), &options, &mut std::io::sink(), Path::new("nowhere"), |_| {})
                });
                refused += outcome.is_err() as u32;
            }
            assert!(refused > 0, "{server} {table}: nothing was ever refused");
        }
    }
}

/// Steele, Lea and Flood's SplitMix64.
struct Random(u64);
impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

fn seal(page: &mut [u8], family: ondol_innodb::checksum::Family) {
    use ondol_base::crc::crc32c;
    let size = page.len();
    match family {
        ondol_innodb::checksum::Family::Full => {
            let sum = crc32c(&page[..size - 4]);
            page[size - 4..].copy_from_slice(&sum.to_be_bytes());
        }
        ondol_innodb::checksum::Family::Old => {
            let sum = (crc32c(&page[4..26]) ^ crc32c(&page[38..size - 8])).to_be_bytes();
            page[..4].copy_from_slice(&sum);
            page[size - 8..size - 4].copy_from_slice(&sum);
        }
    }
}

#[test]
fn a_file_is_read_on_evidence_only() {
    for server in SERVERS {
        for table in TABLES {
            let (_dir, path) = unpacked(server, table);
            let scan = Scan::open(&path).expect("a table");
            let found = evidence::find(scan.space(), false);
            assert!(matches!(found, Ok(Evidence::Exported(_))), "{server} {table}: {found:?}");
        }
    }
    let (dir, path) = unpacked("mariadb-10.11", "keyless");
    let scan = Scan::open(&path).expect("a table");
    std::fs::remove_file(path.with_extension("cfg")).expect("a file");
    let e = evidence::find(scan.space(), false).expect_err("no evidence");
    assert!(e.to_string().contains("FOR EXPORT"), "{e}");
    assert_eq!(evidence::find(scan.space(), true), Ok(Evidence::Assumed));
    std::fs::write(path.with_extension("cfg"), b"nonsense").expect("a file");
    assert_eq!(evidence::find(scan.space(), true).expect_err("a wrong .cfg").kind, Kind::Mismatch);
    drop(dir);
}

#[test]
fn what_is_no_table_is_refused_with_the_reason() {
    let (dir, path) = unpacked("mariadb-10.11", "keyless");
    let reason = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("a file");
        Scan::open(&path).err().expect("an error").to_string()
    };
    let whole = std::fs::read(&path).expect("a file");
    for (bytes, expected) in [
        (&b""[..], "a tablespace has four pages at least"),
        (&[0x55; 100_000][..], "does not begin as a tablespace does"),
        (&whole[..40_000], "cut short"),
    ] {
        let found = reason(bytes);
        assert!(found.contains(expected), "{found}");
    }
    std::fs::write(&path, &whole).expect("a file");
    std::fs::remove_file(path.with_extension("frm")).expect("a file");
    let e = Scan::open(&path).err().expect("an error");
    assert!(e.to_string().contains("keyless.frm"), "{e}");
    std::fs::write(path.with_extension("frm"), stored("mariadb-10.11", "twokeys.frm").expect("a definition"))
        .expect("a file");
    let outcome = Scan::open(&path).and_then(|s| read_all(&s));
    assert!(outcome.is_err(), "another table's definition was believed");
    assert!(Scan::open(dir.path()).err().expect("a folder").to_string().contains("not a file"));
}
