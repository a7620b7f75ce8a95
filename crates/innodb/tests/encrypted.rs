//! Tables that MariaDB's file_key_management encrypted (files/README.md), with the keys and without them:
//! rows, or an error that says what is wanted; never other rows.
use ondol_innodb::error::{Kind, Result};
use ondol_innodb::export::{self, Format, Options};
use ondol_innodb::keys::Keys;
use ondol_innodb::scan::Scan;
use ondol_innodb::space::Space;
use ondol_scan::csv::Dialect;
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod fixture;
use fixture::{Random, seal, stored, unpacked};

const FOLDERS: [&str; 3] = ["apart/aes_cbc-crc32", "apart/aes_cbc-full_crc32", "apart/aes_ctr-full_crc32"];
const TABLES: [&str; 4] = ["locked", "longkey", "lockedzip", "lockedpacked"];

fn beside(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files").join(name)
}
fn keys() -> Arc<Keys> {
    Keys::read(&beside("keys.txt"), None).expect("keys").into()
}
/// Keys that are not in files of the fixtures.
fn other_keys(text: &str) -> (tempfile::TempDir, Arc<Keys>) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("other.txt");
    std::fs::write(&file, text).expect("a file");
    let keys = Keys::read(&file, None).expect("keys");
    (folder, keys.into())
}
/// The rows as the server wrote them.
fn read(path: &Path, keys: Option<&Arc<Keys>>) -> Result<Vec<u8>> {
    let scan = Scan::open_by(path, None, keys)?;
    let columns = export::columns(&scan, None)?;
    let format = Format::Text(Dialect::Mariadb);
    let options = Options { format, columns, limit: None, workers: 1, ordered: true };
    let mut out = Vec::new();
    export::export(Arc::new(scan), &options, &mut out, Path::new("memory"), |_| {})?;
    Ok(out)
}
fn each(mut of: impl FnMut(&str, &str, &Path, Vec<u8>)) {
    for folder in FOLDERS {
        for table in TABLES {
            let (_dir, path) = unpacked(folder, table);
            let expected = stored(folder, &format!("{table}.out")).expect("what the server said");
            of(folder, table, &path, expected);
        }
    }
}

#[test]
fn encrypted_tables_are_read_with_their_keys() {
    let encrypted = Keys::read(&beside("keys.enc"), Some(&beside("keys.password"))).expect("keys").into();
    each(|folder, table, path, expected| {
        for keys in [&keys(), &encrypted] {
            let found = read(path, Some(keys)).unwrap_or_else(|e| panic!("{folder} {table}: {e}"));
            assert_eq!(
                String::from_utf8_lossy(&found),
                String::from_utf8_lossy(&expected),
                "{folder} {table}"
            );
        }
        let space = Space::open_with(path, Some(&keys())).expect("a tablespace");
        let mut page = vec![0; space.format().page_size];
        for number in 0..space.pages() {
            space.read_page(number, &mut page).unwrap_or_else(|e| panic!("{e}"));
        }
        let told = space.encryption().expect("it is encrypted");
        assert!(told.contains(if folder.contains("ctr") { "AES-CTR" } else { "AES-CBC" }), "{told}");
        assert!(told.contains(if table == "longkey" { "key 2" } else { "key 1" }), "{told}");
    });
    // Keys where none is needed change nothing.
    for (folder, table) in [(FOLDERS[0], "unlocked"), (FOLDERS[1], "unlocked"), ("mariadb-10.11", "keyless")]
    {
        let (_dir, path) = unpacked(folder, table);
        let expected = stored(folder, &format!("{table}.out")).expect("what the server said");
        assert_eq!(
            read(&path, Some(&keys())).unwrap_or_else(|e| panic!("{e}")),
            expected,
            "{folder} {table}"
        );
    }
}

#[test]
fn a_key_that_is_wanted_is_named() {
    let (_folder, few) =
        other_keys("3;000102030405060708090a0b0c0d0e0f\n77;000102030405060708090a0b0c0d0e0f");
    each(|folder, table, path, _| {
        let wanted = if table == "longkey" { "key 2 in version 1" } else { "key 1 in version 1" };
        let e = read(path, None).expect_err("no keys");
        assert!(e.kind == Kind::Unsupported && e.to_string().contains(wanted), "{folder} {table}: {e}");
        assert!(e.to_string().contains("--keys"), "{e}");
        let e = read(path, Some(&few)).expect_err("not this key");
        assert!(e.kind == Kind::Mismatch && e.to_string().contains(wanted), "{folder} {table}: {e}");
        assert!(e.to_string().contains("other.txt: it has key 3, key 77"), "{e}");
    });
}

#[test]
fn a_wrong_key_is_noticed() {
    // Keys of other lengths, of one other bit, and those of the file exchanged.
    for wrong in [
        "1;000102030405060708090a0b0c0d0e0e\n2;101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2e",
        "1;101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f\n2;000102030405060708090a0b0c0d0e0f",
        "1;000102030405060708090a0b0c0d0e0f0001020304050607\n2;101112131415161718191a1b1c1d1e1f",
    ] {
        let (_folder, keys) = other_keys(wrong);
        each(|folder, table, path, _| {
            let e = read(path, Some(&keys)).expect_err("a wrong key");
            assert_eq!(e.kind, Kind::Mismatch, "{folder} {table}: {e}");
            assert!(e.to_string().contains("is not the key that it was encrypted by"), "{e}");
            assert!(e.to_string().contains("other.txt"), "{e}");
        });
    }
}

/// A page whose key is of a version that such a file does not have (another plugin's).
#[test]
fn other_versions_of_a_key_are_named() {
    each(|folder, table, path, _| {
        let format = Space::open(path).expect("a tablespace").format();
        let mut bytes = std::fs::read(path).expect("a file");
        let is_full = format.family == ondol_innodb::checksum::Family::Full;
        let size = format.physical_size;
        let page = &mut bytes[3 * size..4 * size];
        let at = if is_full { 0 } else { 26 };
        page[at..at + 4].copy_from_slice(&7u32.to_be_bytes());
        if is_full {
            seal(page, format);
        }
        std::fs::write(path, bytes).expect("a file");
        let e = read(path, Some(&keys())).expect_err("another version");
        assert!(e.kind == Kind::Mismatch && e.to_string().contains("in version 7"), "{folder} {table}: {e}");
    });
}

/// Damage without a right checksum: an error or all rows, and with the right keys no word of a wrong one,
/// where a checksum of what is encrypted tells them apart.
#[test]
fn a_damaged_page_is_damaged() {
    let mut random = Random(7);
    each(|folder, table, path, expected| {
        let whole = std::fs::read(path).expect("a file");
        let size = Space::open(path).expect("a tablespace").format().physical_size;
        let packed_apart = folder.ends_with("-crc32") && !folder.contains("full") && table == "lockedpacked";
        let mut refused = 0;
        for _ in 0..200 {
            let mut bytes = whole.clone();
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
            std::fs::write(path, &bytes).expect("a file");
            match read(path, Some(&keys())) {
                Ok(found) => assert!(found == expected, "{folder} {table}: byte {at}"),
                Err(e) => {
                    refused += 1;
                    let may = at < size || packed_apart || e.kind == Kind::Damaged;
                    assert!(may, "{folder} {table}, byte {at}: {e}");
                }
            }
        }
        assert!(refused > 10, "{folder} {table}: {refused}");
    });
}

/// Damage under a checksum of what is encrypted that fits: rows or an error, no panic.
#[test]
fn damage_under_right_checksums_becomes_rows_or_errors() {
    let (mut random, mut refused) = (Random(9), 0);
    let keys = keys();
    each(|_, table, path, _| {
        let whole = std::fs::read(path).expect("a file");
        let format = Space::open(path).expect("a tablespace").format();
        let size = format.physical_size;
        for _ in 0..300 {
            let mut bytes = whole.clone();
            let page = random.below(whole.len() / size) * size;
            let page = &mut bytes[page..page + size];
            for _ in 0..1 + random.below(4) {
                let reach = if random.below(2) == 0 { 60 } else { size };
                page[random.below(reach)] = *random.pick(&[0, 1, 2, 0x45, 0xbf, 0x80, 0xff]);
            }
            if format.is_zipped || format.family == ondol_innodb::checksum::Family::Old {
                let sum = locked_sum(page, format.is_zipped);
                page[30..34].copy_from_slice(&sum.to_be_bytes());
            } else {
                seal(page, format);
            }
            std::fs::write(path, &bytes).expect("a file");
            refused += read(path, Some(&keys)).is_err() as u32;
        }
        assert!(refused > 10, "{table}");
    });
}

/// The checksum of what is encrypted.
fn locked_sum(page: &[u8], is_zip: bool) -> u32 {
    use ondol_base::crc::crc32c;
    match is_zip {
        true => crc32c(&page[4..16]) ^ crc32c(&page[24..26]) ^ crc32c(&page[34..]),
        false => crc32c(&page[4..26]) ^ crc32c(&page[38..page.len() - 8]),
    }
}

/// The system tablespace's number is 0, so its pages may begin with zeros to encrypt, which both modes make
/// zeros again: a page of an index decides then, and without one nothing is believed.
#[test]
fn zeros_of_the_system_tablespace_do_not_decide() {
    use aes::cipher::{
        BlockCipherEncrypt, BlockModeEncrypt, InnerIvInit, KeyInit, StreamCipher, StreamCipherCoreWrapper,
    };
    const SIZE: usize = 4096;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ibdata1");
    let seed = [0x5a; 16];
    let mut own = seed.into();
    aes::Aes128::new_from_slice(keys().key(1).expect("a key")).expect("a key").encrypt_block(&mut own);
    let own = aes::Aes128::new(&own);
    let written = |is_ctr: bool, with_index: bool| {
        let mut file = vec![0; 4 * SIZE];
        for (number, page) in file.chunks_exact_mut(SIZE).enumerate() {
            page[4..8].copy_from_slice(&(number as u32).to_be_bytes());
            page[23] = 100 + number as u8;
            // What begins a tablespace, two pages of a rollback segment's type, one of an index.
            let kind: u16 = [8, 6, 6, if with_index { 17855 } else { 6 }][number];
            page[24..26].copy_from_slice(&kind.to_be_bytes());
            if number == 0 {
                page[46..50].copy_from_slice(&4u32.to_be_bytes());
                page[54..58].copy_from_slice(&0x13u32.to_be_bytes());
                let at = 38
                    + 150
                    + Space::open(&unpacked(FOLDERS[1], "locked").1).expect("a table").format().descriptors();
                page[at..at + 8].copy_from_slice(b"s\x0e\x0cREt\x01\x10");
                page[at + 8..at + 24].copy_from_slice(&seed);
                page[at + 31] = 1;
            } else {
                page[3] = 1;
                if kind == 17855 {
                    page[39] = 2;
                }
                page[100..200].fill(0xab);
                let mut start = [0; 16];
                start[4] = number as u8;
                start[8] = page[23];
                let bytes = &mut page[26..SIZE - 4];
                if is_ctr {
                    let counter =
                        ctr::CtrCore::<_, ctr::flavors::Ctr128BE>::inner_iv_init(own.clone(), &start.into());
                    StreamCipherCoreWrapper::from_core(counter).apply_keystream(bytes);
                } else {
                    let (blocks, rest) = aes::cipher::Array::slice_as_chunks_mut(bytes);
                    cbc::Encryptor::inner_iv_init(own.clone(), &start.into()).encrypt_blocks(blocks);
                    let mut mask = start.into();
                    own.encrypt_block(&mut mask);
                    rest.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
                }
            }
            let format = ondol_innodb::space::Format::of_flags(0x13).expect("flags");
            seal(page, format);
        }
        file
    };
    for is_ctr in [false, true] {
        for with_index in [true, false] {
            std::fs::write(&path, written(is_ctr, with_index)).expect("a file");
            let space = Space::open_any(&path, Some(&keys())).unwrap_or_else(|e| panic!("{e}"));
            let mut page = vec![0; SIZE];
            let read = space.read_page(1, &mut page);
            if !with_index {
                let e = read.expect_err("nothing decides");
                assert!(
                    e.kind == Kind::Unsupported && e.to_string().contains("AES-CBC or by AES-CTR"),
                    "{e}"
                );
                continue;
            }
            read.unwrap_or_else(|e| panic!("{e}"));
            assert!(page[26..100].iter().all(|b| *b == 0) && page[100..200].iter().all(|b| *b == 0xab));
            assert!(page[200..SIZE - 4].iter().all(|b| *b == 0));
            let told = space.encryption().expect("it is encrypted");
            assert!(told.contains(if is_ctr { "AES-CTR" } else { "AES-CBC" }), "{told}");
        }
    }
}
