//! The clustered index as a tree of pages: from its root to the list of its leaves, in key order.
//!
//! - **T1** Each page of a level links to its neighbours on it, as the level above orders them; all are of
//!   one index. A leaf list is complete: whoever reads all its pages, each proved against its neighbours
//!   ([`prove_leaf`]), has read every row once.

use crate::error::{Error, Kind, Result};
use crate::page::{NONE, Page};
use crate::record::{Layout, Shape, Walk};
use crate::space::Space;

/// The leaves of a clustered index, in key order.
#[derive(Clone, Debug)]
pub struct Leaves {
    pub pages: Vec<u32>,
    /// The index's number.
    pub index: u64,
    /// Levels above the leaves.
    pub height: u16,
    /// Inner pages that were read.
    pub inner: usize,
    /// Records are of the new style.
    pub is_compact: bool,
}

/// Finds the leaves of the tree whose root is page `root`. `key`: what its inner records hold before the
/// child's number.
pub fn leaves(space: &Space, root: u32, key: &Shape) -> Result<Leaves> {
    let damaged = |page: u32, why: String| Error::on_page(space.path(), page, Kind::Damaged, why);
    let mut buffer = vec![0; space.format().page_size];
    space.read_page(root, &mut buffer)?;
    let page = Page(&buffer);
    if !page.is_index() {
        return Err(damaged(
            root,
            format!("it should be the root of the table's rows, and is a page of type {}", page.kind()),
        ));
    }
    if page.previous() != NONE || page.next() != NONE {
        return Err(damaged(root, "it should be a root, and has neighbours".into()));
    }
    let (index, height, is_compact) = (page.index(), page.level(), page.is_compact());
    if height > 20 {
        return Err(damaged(root, format!("its tree would have {height} levels")));
    }
    let mut level = vec![root];
    let mut inner = 0;
    for height in (1..=height).rev() {
        let mut below = Vec::new();
        for (i, &number) in level.iter().enumerate() {
            space.read_page(number, &mut buffer)?;
            let page = Page(&buffer);
            prove(page, height, (index, is_compact), &level, i).map_err(|why| damaged(number, why))?;
            children(page, key, space.pages(), &mut below).map_err(|why| match Walk::is_whole(page) {
                true => Error::unfit(space.path(), number, &why),
                false => damaged(number, why),
            })?;
            inner += 1;
        }
        if below.is_empty() || below.len() > space.pages() as usize {
            return Err(damaged(
                level[0],
                format!("level {height} of its tree leads to {} pages, of {}", below.len(), space.pages()),
            ));
        }
        level = below;
    }
    Ok(Leaves { pages: level, index, height, inner, is_compact })
}

/// Whether a page is the `i`th of the pages of its level.
fn prove(
    page: Page<'_>,
    level: u16,
    (index, is_compact): (u64, bool),
    pages: &[u32],
    i: usize,
) -> std::result::Result<(), String> {
    if !page.is_index() || page.index() != index {
        return Err(format!(
            "a page of index {index} was expected, it is of type {} and index {}",
            page.kind(),
            page.index()
        ));
    }
    if page.is_compact() != is_compact {
        return Err("its records are of another style than the root's".into());
    }
    if page.level() != level {
        return Err(format!("level {level} of the tree leads to it, it says level {}", page.level()));
    }
    let before = if i == 0 { NONE } else { pages[i - 1] };
    let after = pages.get(i + 1).copied().unwrap_or(NONE);
    if page.previous() != before || page.next() != after {
        return Err(format!(
            "its neighbours are {} and {}, the tree's order says {} and {}; the file was copied while it changed?",
            name(page.previous()),
            name(page.next()),
            name(before),
            name(after)
        ));
    }
    Ok(())
}

/// Whether a page is the `i`th leaf.
pub fn prove_leaf(page: Page<'_>, leaves: &Leaves, i: usize) -> std::result::Result<(), String> {
    prove(page, 0, (leaves.index, leaves.is_compact), &leaves.pages, i)
}

fn name(page: u32) -> String {
    if page == NONE { "none".into() } else { page.to_string() }
}

/// Appends the pages that an inner page leads to, in a file of so many.
fn children(page: Page<'_>, key: &Shape, pages: u32, into: &mut Vec<u32>) -> std::result::Result<(), String> {
    let mut walk = Walk::new(page)?;
    while let Some(origin) = walk.next()? {
        let child = Layout::child(&walk, origin, key)?;
        if child >= pages {
            return Err(format!(
                "the record at {origin} leads to page {child}, and the file has {pages} pages"
            ));
        }
        into.push(child);
    }
    Ok(())
}

/// The first leaf below a root.
pub fn first_leaf(space: &Space, root: u32, key: &Shape) -> Result<u32> {
    let mut page = vec![0; space.format().page_size];
    let mut number = root;
    loop {
        space.read_page(number, &mut page)?;
        let view = Page(&page);
        let level = view.level();
        if level == 0 {
            return Ok(number);
        }
        let damaged = |why: String| Error::on_page(space.path(), number, Kind::Damaged, why);
        let mut walk = Walk::new(view).map_err(damaged)?;
        let first = walk.next().map_err(damaged)?;
        let first = first.ok_or_else(|| damaged("an inner page without records".into()))?;
        let child = Layout::child(&walk, first, key).map_err(damaged)?;
        space.read_page(child, &mut page)?;
        // Down by one each time, so that this ends.
        if !Page(&page).is_index() || Page(&page).level() + 1 != level {
            return Err(damaged(format!("it leads to page {child}, which is not of the level below")));
        }
        number = child;
    }
}
