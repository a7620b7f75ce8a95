//! What a folder of a server's has: databases, and of each its tables, by the files that are there.
//!
//! - A table that is partitioned has a file for each partition, `TABLE#P#PARTITION.ibd`; they are one table.
//! - What belongs to a table but is none (a full-text key's own tables), or was left behind by an ALTER TABLE
//!   that did not end (`#sql-…`), is not listed, the latter with its reason.
use crate::absent;
use crate::definition::table_name;
use crate::error::{Error, Kind, Result};
use crate::sdi;
use crate::space::Space;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A table of InnoDB's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFiles {
    pub name: String,
    /// `TABLE.ibd`; of a partitioned table this file is not there.
    pub file: PathBuf,
}

impl TableFiles {
    /// [`files_of`] it.
    pub fn files(&self) -> Result<Vec<PathBuf>> {
        files_of(&self.file)
    }
}

/// What has no rows that can be read, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent {
    pub name: String,
    pub file: PathBuf,
    pub reason: String,
}

/// A database: a folder with tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    pub name: String,
    pub folder: PathBuf,
    pub tables: Vec<TableFiles>,
    pub absent: Vec<Absent>,
}

/// Files by which MySQL and MariaDB keep rows of other engines.
const OTHERS: &[(&str, &str)] =
    &[("MYD", "MyISAM"), ("MAD", "Aria"), ("CSV", "CSV"), ("ARZ", "ARCHIVE"), ("MRG", "MERGE")];

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |e: &std::io::Error| Error::io(folder, "cannot read the folder", e);
    let list = std::fs::read_dir(folder).map_err(|e| failed(&e))?;
    let mut all = Vec::new();
    for entry in list {
        all.push(entry.map_err(|e| failed(&e))?.path())
    }
    all.sort();
    Ok(all)
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}
fn ending(path: &Path) -> &str {
    path.extension().and_then(|e| e.to_str()).unwrap_or_default()
}

/// Where in a file's name that of a partition begins.
fn partition_at(stem: &str) -> Option<usize> {
    stem.to_ascii_lowercase().find("#p#")
}

/// Whether it is one of a full-text key's own tables.
fn is_of_a_key(stem: &str) -> bool {
    let lower = stem.to_ascii_lowercase();
    let number =
        lower.strip_prefix("fts_").map(|rest| rest.bytes().take_while(u8::is_ascii_hexdigit).count());
    number == Some(16)
}

/// The files of a table: `TABLE.ibd`, or those of its partitions, if these are all of them.
///
/// # Errors
/// Partitions that are missing, or are none of the table's: its rows would be too few, or come twice.
pub fn files_of(file: &Path) -> Result<Vec<PathBuf>> {
    if file.exists() {
        return Ok(vec![file.to_path_buf()]);
    }
    let found = partitions(file).unwrap_or_default();
    if found.is_empty() {
        // What there is instead is told by opening it.
        return Ok(vec![file.to_path_buf()]);
    }
    let wrong = |why: String| Err(Error::new(file, Kind::Mismatch, why));
    let par = file.with_extension("par");
    if par.exists() {
        let bytes = std::fs::read(&par).map_err(|e| Error::io(&par, "cannot be read", &e))?;
        let Some(names) = partition_names(&bytes) else {
            return Err(Error::new(&par, Kind::Damaged, "it is not a list of partitions"));
        };
        let own: Vec<String> = found.iter().map(|p| stem(p)).collect();
        let name_of = |own: &String| partition_at(own).map_or(String::new(), |at| own[at + 3..].to_string());
        let own: Vec<String> = own.iter().map(name_of).collect();
        if let Some(missing) = names.iter().find(|n| !own.contains(n)) {
            return wrong(format!("its partition {missing} is missing, which {} names", par.display()));
        }
        if let Some(other) = own.iter().find(|n| !names.contains(n)) {
            return wrong(format!(
                "{} does not name the partition {other}, of which there is a file",
                par.display()
            ));
        }
        // In the order in which they were made.
        let at = |path: &PathBuf| names.iter().position(|n| *n == name_of(&stem(path)));
        let mut found = found;
        found.sort_by_key(at);
        return Ok(found);
    }
    let mut spaces = Vec::with_capacity(found.len());
    let mut wanted = None;
    for path in &found {
        let space = Space::open(path)?;
        if wanted.is_none() && space.format().has_sdi {
            wanted = sdi::partition_spaces(&space)?
        }
        spaces.push(space.id())
    }
    let Some(mut wanted) = wanted else {
        return wrong(format!(
            "which partitions it has is not known: expected {}, which lists them; each can be read by its own file",
            par.display()
        ));
    };
    wanted.sort_unstable();
    spaces.sort_unstable();
    if wanted != spaces {
        let numbers = |list: &[u32]| list.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        return wrong(format!(
            "it has partitions in the tablespaces {}, and there are files of {}",
            numbers(&wanted),
            numbers(&spaces)
        ));
    }
    Ok(found)
}

/// The names in a `.par`, as they stand in those of files: words of the whole, a checksum, a number of
/// partitions, a byte for each (in whole words), the length of the names, and these, each ended by a zero.
fn partition_names(par: &[u8]) -> Option<Vec<String>> {
    let count = u32_at_le(par, 8)? as usize;
    let at = 12usize.checked_add(count.checked_next_multiple_of(4)?)?;
    let length = u32_at_le(par, at)? as usize;
    let names = par.get(at + 4..)?.get(..length)?;
    let names: Vec<String> =
        names.split(|b| *b == 0).take(count).map(|n| String::from_utf8_lossy(n).into_owned()).collect();
    (count > 0 && names.len() == count && names.iter().all(|n| !n.is_empty())).then_some(names)
}

fn u32_at_le(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|b| u32::from_le_bytes(*b))
}

/// Whether an ALTER TABLE that did not end has left it.
fn is_left(stem: &str) -> bool {
    let lower = stem.to_ascii_lowercase();
    lower.ends_with("#tmp#") || lower.ends_with("#ren#")
}

/// The files of what may be a table's partitions; none if it has none.
fn partitions(file: &Path) -> Result<Vec<PathBuf>> {
    let folder = file.parent().filter(|f| !f.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let wanted = stem(file);
    let is_one = |path: &PathBuf| {
        let stem = stem(path);
        ending(path) == "ibd"
            && !is_left(&stem)
            && partition_at(&stem).is_some_and(|at| stem[..at] == *wanted)
    };
    Ok(entries(folder)?.into_iter().filter(is_one).collect())
}

impl Database {
    /// What a folder has.
    pub fn of(folder: &Path) -> Result<Database> {
        let name = folder.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let mut tables: BTreeMap<String, TableFiles> = BTreeMap::new();
        let mut absent: BTreeMap<String, Absent> = BTreeMap::new();
        let all = entries(folder)?;
        for path in all.iter().filter(|p| ending(p) == "ibd") {
            let own = stem(path);
            if is_of_a_key(&own) {
                continue;
            }
            let part = partition_at(&own);
            let base = own[..part.unwrap_or(own.len())].to_string();
            if base.starts_with("#sql") || is_left(&own) {
                let reason = "an ALTER TABLE or a temporary table that did not end has left it".to_string();
                absent.insert(own.clone(), Absent { name: own, file: path.clone(), reason });
                continue;
            }
            let file = path.with_file_name(format!("{base}.ibd"));
            tables.entry(base).or_insert_with(|| TableFiles { name: table_name(&file), file });
        }
        for path in &all {
            let own = stem(path);
            let base = own[..partition_at(&own).unwrap_or(own.len())].to_string();
            if tables.contains_key(&base) || absent.contains_key(&base) || base.starts_with("#sql") {
                continue;
            }
            let file = path.with_file_name(format!("{base}.ibd"));
            let reason = match ending(path) {
                "frm" => absent::reason(&file),
                // Where there are no .frm, the rows' files tell.
                other if !file.with_extension("frm").exists() => {
                    let engine = OTHERS.iter().find(|o| o.0 == other);
                    engine.map(|(_, name)| format!("its table is of {name}; only InnoDB's tables are read"))
                }
                _ => None,
            };
            if let Some(reason) = reason {
                let name = table_name(&file);
                absent.insert(base, Absent { name, file: path.clone(), reason });
            }
        }
        Ok(Database {
            name: table_name(Path::new(&format!("{name}.ibd"))),
            folder: folder.to_path_buf(),
            tables: tables.into_values().collect(),
            absent: absent.into_values().collect(),
        })
    }
}

/// The databases of a data folder, a prepared backup or a folder of snapshots: the folders with tables in it;
/// the folder itself if it has tables. An error if there are none.
pub fn databases(folder: &Path) -> Result<Vec<Database>> {
    let mut found = Vec::new();
    let own = Database::of(folder)?;
    // The system tablespace's files are no tables.
    let is_of_server = ["ibdata1", "mysql.ibd"].iter().any(|f| folder.join(f).exists());
    if !is_of_server && !own.tables.is_empty() {
        found.push(own)
    }
    for path in entries(folder)?.iter().filter(|p| p.is_dir()) {
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with(['#', '.']) {
            continue;
        }
        let database = Database::of(path)?;
        if !(database.tables.is_empty() && database.absent.is_empty()) {
            found.push(database)
        }
    }
    if found.is_empty() {
        let message = "has no tables of InnoDB's; expected a data folder, with a folder for each database and TABLE.ibd in these";
        return Err(Error::new(folder, Kind::Mismatch, message));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_tables() {
        let folder = tempfile::tempdir().expect("a folder");
        let put = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("its folder");
            std::fs::write(path, bytes).expect("a file")
        };
        for name in [
            "ibdata1",
            "undo_001",
            "shop/orders.ibd",
            "shop/orders.frm",
            "shop/by@0020year#P#p0.ibd",
            "shop/by@0020year#P#p1#SP#a.ibd",
            "shop/by@0020year.frm",
            "shop/@1On@0v@2603@1j.ibd",
            "shop/by@0020year#P#p1#TMP#.ibd",
            "shop/FTS_0000000000000abc_BEING_DELETED.ibd",
            "shop/#sql-alter-12-3.ibd",
            "shop/old.MYD",
            "sh@002dop/t.ibd",
            "#innodb_temp/temp_1.ibt",
            "empty/db.opt",
        ] {
            put(name, b"")
        }
        put("shop/shown.frm", b"TYPE=VIEW\nquery=select 1\n");
        let found = databases(folder.path()).expect("the folder can be read");
        let names: Vec<&str> = found.iter().map(|d| &*d.name).collect();
        assert_eq!(names, ["sh-op", "shop"]);
        let shop = &found[1];
        let tables: Vec<&str> = shop.tables.iter().map(|t| &*t.name).collect();
        assert_eq!(tables, ["Ünï☃ß", "by year", "orders"]);
        // Its partitions are those that its list names.
        let year = &shop.tables[1];
        let whole = *b"\x08\0\0\0....\x02\0\0\0\x0c\x0c\0\0\x0d\0\0\0p1#SP#a\0p0\0\0\0\0";
        let mut par = whole.to_vec();
        put("shop/by@0020year.par", &par);
        let files = year.files().expect("all of them");
        assert_eq!(
            files.iter().map(|f| stem(f)).collect::<Vec<_>>(),
            ["by@0020year#P#p1#SP#a", "by@0020year#P#p0"]
        );
        put("shop/by@0020year#P#p2.ibd", b"");
        assert!(year.files().expect_err("one more").to_string().contains("does not name the partition p2"));
        std::fs::remove_file(folder.path().join("shop/by@0020year#P#p2.ibd")).expect("a file");
        par[29] = b'9';
        put("shop/by@0020year.par", &par);
        assert!(year.files().expect_err("another").to_string().contains("is missing"));
        for end in 0..27 {
            put("shop/by@0020year.par", &whole[..end]);
            assert!(year.files().is_err(), "{end}");
        }
        let absent: Vec<(&str, &str)> = shop.absent.iter().map(|a| (&*a.name, &*a.reason)).collect();
        assert_eq!(absent.len(), 4, "{absent:?}");
        assert!(absent.iter().any(|(n, why)| *n == "old" && why.contains("MyISAM")), "{absent:?}");
        assert!(absent.iter().any(|(n, why)| *n == "shown" && why.contains("view")), "{absent:?}");
        assert!(absent.iter().any(|(_, why)| why.contains("ALTER TABLE")), "{absent:?}");
        // A folder that is a database itself.
        let one = databases(&folder.path().join("shop")).expect("the folder can be read");
        assert_eq!(one.len(), 1);
    }
}
