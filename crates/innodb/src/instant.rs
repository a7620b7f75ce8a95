//! MariaDB's instant ALTER TABLE: what columns the records of a table had, before it has those that the
//! `.frm` says.
//!
//! The clustered index's root is a page of a type of its own. It says how many fields the index had before
//! the first such change (its *core*). The first record of the first leaf is no row but describes the change:
//! its fields beyond the core hold the defaults of columns that were added. Where columns were dropped or
//! moved, it is marked as deleted and has a reference behind the key and the system's two fields; that leads
//! to a page with the fields behind these in their order, 2 bytes each, and the root's infimum and supremum
//! hold the core's number of null bytes.
//!
//! - **I1** Records hold the fields of their day in the index's order, which only grows at its end: n fields
//!   are always the first n.
//!
//! Sources: MariaDB's documentation of instant ALTER TABLE; pages of MariaDB 10.11.
use crate::definition::Definition;
use crate::error::{Error, Kind, Result};
use crate::lob;
use crate::page::{Page, kind, u16_at, u32_at};
use crate::record::{Field, History, Layout, Length, Place, Shape, Walk};
use crate::space::Space;
use crate::table::{Column, TableSchema, clustered};
use crate::tree;

/// The fields' list: a column that was dropped; one that could not be NULL; the column's place among those
/// that are stored, or the length of a dropped one.
const DROPPED: u16 = 0x8000;
const NOT_NULL: u16 = 0x4000;
const PLACE: u16 = 0x03ff;
/// A dropped column's length: variable and short, variable and long, or fixed and one less than this.
const SHORT: u16 = 0;
const LONG: u16 = 1;

const MIN_RECORD: u8 = 0x10;
const DELETED: u8 = 0x20;

/// The definition of a table whose root says that its columns were changed at once. `root_page`: the root's
/// bytes.
pub fn definition(space: &Space, table: TableSchema, root: u32, root_page: &[u8]) -> Result<Definition> {
    let on_root = |kind, why: String| Error::on_page(space.path(), root, kind, why);
    let today = clustered(&table);
    let keys = table.key.len().max(1);
    let count = table.columns.len();
    let core = (u16_at(root_page, 50).unwrap_or(0) >> 3) as usize;
    if core < keys + 2 {
        return Err(on_root(
            Kind::Damaged,
            format!("its records had {core} fields at first; the key alone has {keys}"),
        ));
    }

    // Where columns were dropped or moved, infimum and supremum are zeros but for the last byte.
    let (infimum, last) = if Page(root_page).is_compact() { (99, 119) } else { (101, 123) };
    let core_null_bytes = match root_page[infimum..infimum + 8] == [0; 8] {
        true => root_page[last] as usize,
        false => today.iter().take(core).filter(|f| f.nullable).count().div_ceil(8),
    };
    let key = Shape::of_key(&today[..keys], core_null_bytes);
    let leaf = tree::first_leaf(space, root, &key)?;
    let damaged = |why: String| Error::on_page(space.path(), leaf, Kind::Damaged, why);
    let unfit = |why: String| Error::unfit(space.path(), leaf, &why);
    let mut page = vec![0; space.format().page_size];
    space.read_page(leaf, &mut page)?;
    let mut walk = Walk::new(Page(&page)).map_err(damaged)?;
    let origin = walk.next().map_err(damaged)?;
    let origin = origin.filter(|o| walk.records.info(*o) & MIN_RECORD != 0).ok_or_else(|| {
        damaged("the record that describes the table's instant ALTER TABLE should be first on it".into())
    })?;

    // The fields in their order.
    let moved = walk.records.info(origin) & DELETED != 0;
    let fields = if moved {
        // Variable fields of the key are empty in this record, so the reference is behind its fixed ones.
        let fixed: usize = today[..keys + 2]
            .iter()
            .map(|f| if let Length::Fixed(n) = f.length { n as usize } else { 0 })
            .sum();
        let reference = page
            .get(origin + fixed..origin + fixed + lob::REFERENCE)
            .ok_or_else(|| damaged("the description of its instant ALTER TABLE ends beyond it".into()))?;
        let list = lob::whole(space, reference, lob::Family::Chain)?;
        let wrong = |why: String| Error::unfit(space.path(), leaf, &why);
        listed(&list, &table, &today[..keys + 2]).map_err(wrong)?
    } else {
        today
    };
    if core > fields.len() || core_null_bytes > 128 {
        return Err(on_root(
            Kind::Damaged,
            format!(
                "its records had {core} fields at first, with {core_null_bytes} bytes for NULLs, the definition has {}",
                fields.len()
            ),
        ));
    }

    // The record's own fields: with the reference among them, and all columns that it may have.
    let said = Layout::fields_alone(&page, origin, core);
    let described = said.checked_sub(moved as usize).filter(|n| (core..=fields.len()).contains(n));
    let described = described.ok_or_else(|| {
        unfit(format!(
            "the record that describes its instant ALTER TABLE has {said} fields, the definition {}",
            fields.len()
        ))
    })?;
    let mut alone = fields[..described].to_vec();
    let null_bytes = Shape::new(alone.clone(), count).null_bytes();
    if moved {
        let reference = Field { column: None, nullable: false, length: Length::Fixed(lob::REFERENCE as u32) };
        alone.insert(keys + 2, reference);
    }
    let places = Layout::alone(&page, origin, &Shape::new(alone, count), null_bytes).map_err(damaged)?;
    let mut defaults = vec![None; count];
    for field in &fields[core..described] {
        let Some(column) = field.column else { continue };
        defaults[column] = match places[column].bytes(&page) {
            Some((bytes, false)) => Some(bytes.to_vec()),
            Some((bytes, true)) => Some(lob::whole(space, bytes, lob::Family::Chain)?),
            None => None,
        };
        if places[column] == Place::NULL && !field.nullable {
            return Err(unfit(format!(
                "column {} has NULL as its default, which cannot be",
                table.columns[column].name
            )));
        }
    }
    let shapes = (0..=described)
        .map(|n| Shape::new(if n < core { Vec::new() } else { fields[..n].to_vec() }, count))
        .collect();
    Ok(Definition {
        layout: Layout { shapes, history: History::Counted { core, core_null_bytes } },
        key,
        defaults,
        root,
        lobs: lob::Family::Chain,
        table,
    })
}

/// Whether a root's columns were changed at once.
pub fn is_instant(root_page: &[u8]) -> bool {
    Page(root_page).kind() == kind::INSTANT
}

/// The index's fields by the list that the first record refers to. `first`: those of the key and the system.
fn listed(list: &[u8], table: &TableSchema, first: &[Field]) -> std::result::Result<Vec<Field>, String> {
    let count = u32_at(list, 0).unwrap_or(0) as usize;
    if list.len() != 4 + 2 * count {
        return Err(format!(
            "the list of the table's fields has {} bytes, for {count} fields that are 2 bytes each",
            list.len()
        ));
    }
    let stored: Vec<usize> = (0..table.columns.len()).filter(|i| table.columns[*i].stored).collect();
    let mut fields = first.to_vec();
    for entry in list[4..].chunks_exact(2) {
        let entry = u16::from_be_bytes([entry[0], entry[1]]);
        if entry & DROPPED != 0 {
            let length = match entry & PLACE {
                SHORT => Length::Variable { big: false },
                LONG => Length::Variable { big: true },
                n => Length::Fixed(n as u32 - 1),
            };
            fields.push(Field { column: None, nullable: entry & NOT_NULL == 0, length });
            continue;
        }
        if table.has_document && (entry & PLACE) as usize == stored.len() {
            fields.push(Field { column: None, nullable: false, length: Length::Fixed(8) });
            continue;
        }
        let column = *stored.get((entry & PLACE) as usize).ok_or_else(|| {
            format!("the list of the table's fields names column {} of {}", entry & PLACE, stored.len())
        })?;
        if fields.iter().any(|f| f.column == Some(column)) {
            return Err(format!(
                "the list of the table's fields names column {} twice",
                table.columns[column].name
            ));
        }
        let Column { nullable, ty, .. } = &table.columns[column];
        fields.push(Field { column: Some(column), nullable: *nullable, length: ty.length() });
    }
    if let Some(missing) = stored.iter().find(|c| !fields.iter().any(|f| f.column == Some(**c))) {
        return Err(format!(
            "the list of the table's fields lacks column {}: the definition is of another table, or of another day",
            table.columns[*missing].name
        ));
    }
    Ok(fields)
}
