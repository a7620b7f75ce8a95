//! Why there is no tablespace where a table's was looked for: what its definition says.
use crate::definition::frm_beside;
use std::io::Read;
use std::path::Path;

/// Engines by the numbers that definitions have, and the endings of their files of rows.
const ENGINES: &[(u8, &str, &str)] = &[
    (6, "MEMORY", ""),
    (8, "MERGE", ".MRG"),
    (9, "MyISAM", ".MYD"),
    (16, "ARCHIVE", ".ARZ"),
    (17, "CSV", ".CSV"),
    (18, "FEDERATED", ""),
    (19, "BLACKHOLE", ""),
    (42, "Aria", ".MAD"),
];
const INNODB: u8 = 12;
const PARTITIONED: u8 = 20;

/// What the `.frm` beside a file that is not there says of it, if there is one.
pub fn reason(path: &Path) -> Option<String> {
    let frm = frm_beside(path);
    let mut head = Vec::new();
    std::fs::File::open(&frm).ok()?.take(64).read_to_end(&mut head).ok()?;
    let frm = frm.display();
    if head.starts_with(b"TYPE=VIEW") {
        return Some(format!("it is a view ({frm}): no file holds its rows"));
    }
    let engine = *head.get(3).filter(|_| head.starts_with(&[0xfe, 1]))?;
    if engine == PARTITIONED {
        let name = path.file_stem()?.to_string_lossy();
        return Some(format!(
            "its table is partitioned ({frm}): each partition has a file of its own, {name}#P#….ibd"
        ));
    }
    if engine == INNODB {
        return Some(format!(
            "its table has no file of its own ({frm} is there): its rows are in the system tablespace (innodb_file_per_table=OFF), of which no table is read. \
             In the server, SET GLOBAL innodb_file_per_table=ON and ALTER TABLE … ENGINE=InnoDB make one"
        ));
    }
    let told = ENGINES.iter().find(|(number, ..)| *number == engine);
    let (name, rows) = told
        .map_or((format!("the engine numbered {engine}"), ""), |(_, name, rows)| (name.to_string(), rows));
    let rows = match rows {
        "" => String::new(),
        rows => format!(", with its rows in {}", path.with_extension(&rows[1..]).display()),
    };
    Some(format!("its table is of {name} ({frm}){rows}; only InnoDB's tables are read"))
}
