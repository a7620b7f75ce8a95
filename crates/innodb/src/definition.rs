//! What is known of a table before its rows are read: columns, how its records lie, where its tree begins.
use crate::error::{Error, Kind, Result};
use crate::frm;
use crate::instant;
use crate::lob;
use crate::record::{History, Layout, Shape};
use crate::schema;
use crate::sdi;
use crate::space::Space;
use crate::table::{TableSchema, clustered};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A definition, with the shapes of all versions of its records.
#[derive(Clone, Debug)]
pub struct Definition {
    pub table: TableSchema,
    pub layout: Layout,
    /// What the clustered index's inner records hold before the child's number.
    pub key: Shape,
    /// What a column had when it was added, for records that are older: its stored bytes, or `None` for NULL.
    pub defaults: Vec<Option<Vec<u8>>>,
    /// The clustered index's root.
    pub root: u32,
    pub lobs: lob::Family,
}

/// All of a file; not of a pipe or a device, which might never end.
pub fn contents(path: &Path) -> Result<Vec<u8>> {
    let about = path.metadata().map_err(|e| Error::io(path, "cannot read it", &e))?;
    if !about.is_file() {
        return Err(Error::new(path, Kind::Mismatch, "it is not a file; a table's definition was expected"));
    }
    std::fs::read(path).map_err(|e| Error::io(path, "cannot read it", &e))
}

/// Letters beside those of ASCII by the two characters that stand for them behind `@` in the names of files.
///
/// Source: what MariaDB 10.11 makes of each character (`CONVERT(… USING filename)`).
fn letters() -> &'static HashMap<&'static str, char> {
    static LETTERS: OnceLock<HashMap<&str, char>> = OnceLock::new();
    LETTERS.get_or_init(|| {
        let pairs = include_str!("letters.txt").split_whitespace();
        pairs.filter_map(|p| Some((p.get(..2)?, p.get(2..)?.chars().next()?))).collect()
    })
}

/// The table's name in a file's: up to where a partition's begins. Letters beside those of ASCII are written
/// as `@` and two characters, what is no letter or digit as `@` and four hexadecimal digits.
pub fn table_name(file: &Path) -> String {
    let name = file.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let name = name.split('#').next().unwrap_or_default();
    let mut pieces = name.split('@');
    let mut told = pieces.next().unwrap_or_default().to_string();
    for piece in pieces {
        if let Some(letter) = piece.get(..2).and_then(|code| letters().get(code)) {
            told.push(*letter);
            told += &piece[2..];
            continue;
        }
        let character = piece.get(..4).and_then(|code| u32::from_str_radix(code, 16).ok());
        match character.and_then(char::from_u32) {
            Some(c) => {
                told.push(c);
                told += &piece[4..];
            }
            // Other ways to write a character are left as they are.
            None => {
                told.push('@');
                told += piece;
            }
        }
    }
    told
}

/// The `.frm` of a tablespace: beside it, of its name; of a partition, `TABLE#P#….ibd`, that of its table.
pub fn frm_beside(path: &Path) -> PathBuf {
    let own = path.with_extension("frm");
    let name = path.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    match name.to_ascii_lowercase().find("#p#") {
        Some(at) if !own.exists() => path.with_file_name(format!("{}.frm", &name[..at])),
        _ => own,
    }
}

impl Definition {
    /// The definition in `CREATE TABLE`'s words, if there is a file of them; else the one in the space's
    /// file, or in the `.frm` beside it.
    pub fn find(space: &Space, schema: Option<&Path>) -> Result<Definition> {
        if let Some(schema) = schema {
            return Definition::of_table(space, schema::read(schema, space)?);
        }
        if space.format().has_sdi {
            return sdi::read(space);
        }
        let frm = frm_beside(space.path());
        if !frm.exists() {
            return Err(Error::new(
                space.path(),
                Kind::Mismatch,
                format!(
                    "its definition is not in it (MariaDB's and older MySQL's are not); expected it in {}, or its CREATE TABLE (--schema, in SQL schema => '…')",
                    frm.display()
                ),
            ));
        }
        Definition::of_table(space, frm::read(&frm)?)
    }

    /// The definition of a table by its columns of today. Of MySQL 8 and later there must have been no
    /// instant ALTER TABLE.
    pub fn of_table(space: &Space, table: TableSchema) -> Result<Definition> {
        // Where a file holds its own definition, that has the first tree.
        let has_sdi = space.format().has_sdi;
        let root = table.root.unwrap_or(if has_sdi { 4 } else { 3 });
        let mut page = vec![0; space.format().page_size];
        space.read_page(root, &mut page)?;
        if instant::is_instant(&page) {
            return instant::definition(space, table, root, &page);
        }
        let fields = clustered(&table);
        let keys = if table.key.is_empty() { 1 } else { table.key.len() };
        let count = table.columns.len();
        let key = fields[..keys].to_vec();
        let layout = Layout { shapes: vec![Shape::new(fields, count)], history: History::None };
        Ok(Definition {
            key: Shape::of_key(&key, layout.first_null_bytes()),
            layout,
            defaults: vec![None; count],
            root,
            lobs: if has_sdi { lob::Family::Mysql } else { lob::Family::Chain },
            table,
        })
    }
}
