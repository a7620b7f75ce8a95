//! A table's rows, read by any number of threads: parts of up to 1 MB of leaves, each read whole, proved, and handed over page by page.
use crate::definition::Definition;
use crate::error::{Error, Kind, Result};
use crate::lob;
use crate::page::Page;
use crate::record::{Place, Rows};
use crate::space::Space;
use crate::table::Column;
use crate::tree::{self, Leaves};
use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

/// Bytes that one part reads at most.
const PART: usize = 1 << 20;

/// A table that is open for reading. Reading takes `&self`.
pub struct Scan {
    space: Space,
    definition: Definition,
    leaves: Leaves,
    parts: Vec<Range<usize>>,
}

/// What a thread keeps from part to part.
#[derive(Default)]
pub struct Buffers {
    pages: Vec<u8>,
    rows: Rows,
}

/// One leaf with its rows.
pub struct Leaf<'a> {
    pub scan: &'a Scan,
    pub number: u32,
    pub page: &'a [u8],
    pub rows: &'a Rows,
}

/// A column's bytes in one row.
pub enum Stored<'a> {
    Null,
    Bytes(Cow<'a, [u8]>),
}

impl Scan {
    /// Opens a tablespace, finds its table's definition, and lists its leaves.
    pub fn open(path: &Path) -> Result<Scan> {
        let space = Space::open(path)?;
        let definition = Definition::find(&space)?;
        Scan::new(space, definition)
    }
    pub fn new(space: Space, definition: Definition) -> Result<Scan> {
        let leaves = tree::leaves(&space, definition.root, &definition.key)?;
        if let Some(index) = definition.table.index.filter(|index| *index != leaves.index) {
            return Err(Error::on_page(
                space.path(),
                definition.root,
                Kind::Mismatch,
                format!(
                    "it is of index {}, the definition's is {index}: the definition is of another table",
                    leaves.index
                ),
            ));
        }
        let each = (PART / space.format().page_size).max(1);
        let parts = (0..leaves.pages.len())
            .step_by(each)
            .map(|from| from..(from + each).min(leaves.pages.len()))
            .collect();
        Ok(Scan { space, definition, leaves, parts })
    }
    pub fn space(&self) -> &Space {
        &self.space
    }
    pub fn definition(&self) -> &Definition {
        &self.definition
    }
    pub fn columns(&self) -> &[Column] {
        &self.definition.table.columns
    }
    pub fn leaves(&self) -> &Leaves {
        &self.leaves
    }
    /// How many parts there are, in key order.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }
    /// Bytes of the leaves in one part.
    pub fn part_bytes(&self, part: usize) -> u64 {
        self.parts[part].len() as u64 * self.space.format().page_size as u64
    }

    /// Reads one part, and calls `each` for its leaves in key order. Returns the number of delete-marked records.
    pub fn read(
        &self,
        part: usize,
        buffers: &mut Buffers,
        mut each: impl FnMut(Leaf<'_>) -> Result<()>,
    ) -> Result<usize> {
        let size = self.space.format().page_size;
        let range = self.parts[part].clone();
        buffers.pages.resize(range.len() * size, 0);
        let pages = &self.leaves.pages[range.clone()];
        // Neighbours in the tree that are neighbours in the file are read at once.
        let mut at = 0;
        while at < pages.len() {
            let run = pages[at..].windows(2).take_while(|w| w[0].checked_add(1) == Some(w[1])).count() + 1;
            self.space.read_pages(pages[at], &mut buffers.pages[at * size..(at + run) * size])?;
            at += run;
        }
        let mut deleted = 0;
        for (i, page) in buffers.pages.chunks_exact(size).enumerate() {
            let number = pages[i];
            let damaged = |why: String| Error::on_page(self.space.path(), number, Kind::Damaged, why);
            tree::prove_leaf(Page(page), &self.leaves, range.start + i).map_err(damaged)?;
            deleted += self.definition.layout.rows(page, &mut buffers.rows).map_err(damaged)?;
            each(Leaf { scan: self, number, page, rows: &buffers.rows })?;
        }
        Ok(deleted)
    }
}

impl<'a> Leaf<'a> {
    /// A column's bytes, whole, wherever they are.
    #[inline]
    pub fn stored(&self, column: usize, place: Place) -> Result<Stored<'a>> {
        match place.bytes(self.page) {
            Some((bytes, false)) => Ok(Stored::Bytes(Cow::Borrowed(bytes))),
            Some((bytes, true)) => {
                Ok(Stored::Bytes(Cow::Owned(lob::whole(&self.scan.space, bytes, self.scan.definition.lobs)?)))
            }
            None if place.is_default() => Ok(match &self.scan.definition.defaults[column] {
                Some(bytes) => Stored::Bytes(Cow::Borrowed(bytes)),
                None => Stored::Null,
            }),
            None => Ok(Stored::Null),
        }
    }
    /// An error about this page's content.
    pub fn damaged(&self, why: String) -> Error {
        Error::on_page(self.scan.space.path(), self.number, Kind::Damaged, why)
    }
}
