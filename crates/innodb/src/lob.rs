//! Columns that do not fit their record: the pages that a reference of 20 bytes leads to.
//!
//! MariaDB and MySQL before 8: a chain of pages, each with a part's length and the next page's number; in
//! ROW_FORMAT=COMPRESSED, one deflated stream over them. MySQL 8 and later: a first page with a list of
//! entries, one a page, each with the versions that partial updates of JSON left; what counts is the newest
//! that is not above the reference's version.
use crate::error::{Error, Kind, Result};
use crate::page::{NONE, Page, kind, u16_at, u32_at};
use crate::space::Space;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Chains of BLOB pages.
    Chain,
    /// MySQL 8's, where the first page's kind says so; else a chain.
    Mysql,
}

/// Bytes of a reference.
pub const REFERENCE: usize = 20;
/// No column is longer than 4 GiB; what claims more is damaged.
const LIMIT: u64 = u32::MAX as u64;

/// A column's whole content: what the record has of it before its reference, and what the reference leads to.
pub fn whole(space: &Space, field: &[u8], family: Family) -> Result<Vec<u8>> {
    let Some(at) = field.len().checked_sub(REFERENCE) else {
        return Err(Error::new(
            space.path(),
            Kind::Damaged,
            format!("a column of {} bytes should end in a reference of {REFERENCE}", field.len()),
        ));
    };
    let (local, reference) = field.split_at(at);
    let word = |at| u32_at(reference, at).unwrap_or(0);
    let (owner, first, at, length) =
        (word(0), word(4), word(8), (word(12) as u64 & 0x1fff_ffff) << 32 | word(16) as u64);
    if reference == [0; REFERENCE] {
        return Err(Error::new(
            space.path(),
            Kind::Damaged,
            "a column's content was not written yet when the file was copied",
        ));
    }
    if length > LIMIT {
        return Err(Error::new(
            space.path(),
            Kind::Damaged,
            format!("a column on page {first} would have {length} bytes"),
        ));
    }
    if owner != space.id() {
        return Err(Error::on_page(
            space.path(),
            first,
            Kind::Damaged,
            format!("a column leads to it in tablespace {owner}, this is {}", space.id()),
        ));
    }
    let length = length as usize;
    let mut content = Vec::with_capacity(local.len() + length.min(16 << 20));
    content.extend_from_slice(local);
    let mut page = vec![0; space.format().page_size];
    space.read_page(first, &mut page)?;
    match (Page(&page).kind(), family) {
        (kind::ZBLOB | kind::SDI_ZBLOB, _) => deflated(space, first, page, length, &mut content)?,
        (kind::ZLOB_FIRST, Family::Mysql) => {
            return Err(Error::on_page(
                space.path(),
                first,
                Kind::Unsupported,
                "a column off the page of a table of ROW_FORMAT=COMPRESSED begins here, in the form of MySQL 8, which is not read yet; convert the table (ALTER TABLE … ROW_FORMAT=DYNAMIC)",
            ));
        }
        (kind::LOB_FIRST, Family::Mysql) => {
            listed(space, first, at, &page, local.len() + length, &mut content)?
        }
        _ => chained(space, first, at as usize, page, local.len() + length, &mut content)?,
    }
    if content.len() != local.len() + length {
        return Err(Error::on_page(
            space.path(),
            first,
            Kind::Damaged,
            format!(
                "the column that begins here has {} bytes, {} were expected",
                content.len() - local.len(),
                length
            ),
        ));
    }
    Ok(content)
}

fn chained(
    space: &Space,
    first: u32,
    at: usize,
    mut page: Vec<u8>,
    whole: usize,
    content: &mut Vec<u8>,
) -> Result<()> {
    let (mut number, mut at) = (first, at);
    // Each page holds one part of it, or another column's.
    for _ in 0..space.pages() {
        let refuse = |why: String| Error::on_page(space.path(), number, Kind::Damaged, why);
        let view = Page(&page);
        if !matches!(view.kind(), kind::BLOB | kind::SDI_BLOB) {
            return Err(refuse(format!("a column continues here, and it is a page of type {}", view.kind())));
        }
        let (Some(length), Some(next)) = (u32_at(&page, at), u32_at(&page, at + 4)) else {
            return Err(refuse(format!("a column continues here at {at}, beyond its end")));
        };
        let part = page
            .get(at + 8..at + 8 + length as usize)
            .filter(|p| !p.is_empty() && content.len() + p.len() <= whole);
        content.extend_from_slice(part.ok_or_else(|| {
            refuse(format!(
                "a part of a column at {at} would have {length} bytes, {} are missing",
                whole - content.len()
            ))
        })?);
        if next == NONE {
            return Ok(());
        }
        (number, at) = (next, 38);
        space.read_page(number, &mut page)?;
    }
    Err(Error::on_page(space.path(), first, Kind::Damaged, "the column that begins here never ends"))
}

/// A column of ROW_FORMAT=COMPRESSED: one zlib stream over a chain of pages.
fn deflated(
    space: &Space,
    first: u32,
    mut page: Vec<u8>,
    length: usize,
    content: &mut Vec<u8>,
) -> Result<()> {
    let physical = space.format().physical_size;
    let (mut number, mut stream) = (first, Vec::new());
    // Pages are not shared here.
    for _ in 0..space.pages() {
        let view = Page(&page);
        let expected = if number == first {
            [kind::ZBLOB, kind::SDI_ZBLOB].contains(&view.kind())
        } else {
            [kind::ZBLOB_NEXT, kind::SDI_ZBLOB].contains(&view.kind())
        };
        if !expected {
            return Err(Error::on_page(
                space.path(),
                number,
                Kind::Damaged,
                format!("a column continues here, and it is a page of type {}", view.kind()),
            ));
        }
        stream.extend_from_slice(&page[38..physical]);
        let next = view.next();
        if next == NONE {
            // Deflated bytes stand for 1032 at most.
            if length / 1032 > stream.len() {
                break;
            }
            let from = content.len();
            content.resize(from + length, 0);
            return crate::zip::inflate(&stream, &mut content[from..]).map_err(|why| {
                Error::on_page(
                    space.path(),
                    first,
                    Kind::Damaged,
                    format!("of the column that begins here: {why}"),
                )
            });
        }
        number = next;
        space.read_page(number, &mut page)?;
    }
    Err(Error::on_page(
        space.path(),
        first,
        Kind::Damaged,
        format!("the column that begins here does not end, or has not {length} bytes"),
    ))
}

/// MySQL 8's first page: where its own part's length, the list of entries, and the array of entries stand.
const FIRST_LENGTH: usize = 54;
const FIRST_LIST: usize = 64;
const FIRST_ENTRIES: usize = 96;
/// A further page's: its length, and its part.
const NEXT_LENGTH: usize = 39;
const NEXT_DATA: usize = 49;
/// An entry's fields.
const ENTRY: usize = 60;
/// Entries that a first page has room for, whatever its size.
const ENTRIES: usize = 10;
const ENTRY_NEXT: usize = 6;
const ENTRY_VERSIONS: usize = 12;
const ENTRY_PAGE: usize = 48;
const ENTRY_VERSION: usize = 56;

/// A place in a file: a page, and an offset in it.
type Address = Option<(u32, usize)>;
fn address(bytes: &[u8], at: usize) -> Address {
    let page = u32_at(bytes, at)?;
    (page != NONE).then_some((page, u16_at(bytes, at + 4)? as usize))
}

fn listed(
    space: &Space,
    first: u32,
    version: u32,
    page: &[u8],
    whole: usize,
    content: &mut Vec<u8>,
) -> Result<()> {
    let size = space.format().page_size;
    let damaged = |page: u32, why: String| Error::on_page(space.path(), page, Kind::Damaged, why);
    // Entries are on the first page or on index pages; these are read when an entry leads to them.
    let mut other: (u32, Vec<u8>) = (first, page.to_vec());
    let mut data = vec![0; size];
    let mut entry = |(number, at): (u32, usize)| -> Result<[u8; ENTRY]> {
        if other.0 != number {
            space.read_page(number, &mut other.1)?;
            if Page(&other.1).kind() != kind::LOB_INDEX && number != first {
                return Err(damaged(
                    number,
                    format!(
                        "a column's list continues here, and it is a page of type {}",
                        Page(&other.1).kind()
                    ),
                ));
            }
            other.0 = number;
        }
        other
            .1
            .get(at..at + ENTRY)
            .and_then(|b| b.try_into().ok())
            .ok_or_else(|| damaged(number, format!("a column's list continues at {at}, beyond its end")))
    };
    let mut next = address(page, FIRST_LIST + 4);
    let mut left = u32_at(page, FIRST_LIST).unwrap_or(0);
    // All entries, of all versions, that the file has room for.
    let mut budget = space.bytes() / ENTRY as u64;
    while let Some(at) = next {
        if left == 0 || budget == 0 {
            return Err(damaged(at.0, "a column's list is longer than it says".into()));
        }
        left -= 1;
        let head = entry(at)?;
        next = address(&head, ENTRY_NEXT);
        let mut chosen = head;
        let mut older = address(&head, ENTRY_VERSIONS + 4);
        let mut tries = u32_at(&head, ENTRY_VERSIONS).unwrap_or(0);
        budget = budget.saturating_sub(1);
        while u32_at(&chosen, ENTRY_VERSION).unwrap_or(0) > version {
            let Some(at) = older.filter(|_| tries > 0 && budget > 0) else {
                return Err(damaged(
                    at.0,
                    format!("a column's list has nothing as old as version {version}"),
                ));
            };
            (tries, budget) = (tries - 1, budget - 1);
            chosen = entry(at)?;
            older = address(&chosen, ENTRY_NEXT);
        }
        let number = u32_at(&chosen, ENTRY_PAGE).unwrap_or(NONE);
        let (bytes, length, at) = if number == first {
            (page, FIRST_LENGTH, FIRST_ENTRIES + ENTRIES * ENTRY)
        } else {
            space.read_page(number, &mut data)?;
            if Page(&data).kind() != kind::LOB_DATA {
                return Err(damaged(
                    number,
                    format!("a column continues here, and it is a page of type {}", Page(&data).kind()),
                ));
            }
            (&data[..], NEXT_LENGTH, NEXT_DATA)
        };
        let length = u32_at(bytes, length).unwrap_or(0) as usize;
        let part = bytes
            .get(at..at.saturating_add(length))
            .filter(|p| !p.is_empty() && content.len() + p.len() <= whole);
        content.extend_from_slice(part.ok_or_else(|| {
            damaged(
                number,
                format!(
                    "a part of a column would have {length} bytes, {} are missing",
                    whole - content.len()
                ),
            )
        })?);
    }
    Ok(())
}
