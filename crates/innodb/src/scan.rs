//! A table's rows, read by any number of threads: parts of up to 1 MB of leaves, each read whole, proved, and
//! handed over page by page.
//!
//! A range of the key's first column ([`Scan::within`]) leaves out parts by a search among the leaves, and
//! rows on the leaves at its ends. Stored keys compare as bytes.
use crate::definition::Definition;
use crate::error::{Error, Kind, Result};
use crate::keys::Keys;
use crate::lob;
use crate::page::{Page, Window, chunk_at_mut};
use crate::record::{Lengths, PageRows, Place, Span, Walk};
use crate::room::Room;
use crate::space::Space;
use crate::table::{Column, Period};
use crate::text;
use crate::tree::{self, Leaves};
use crate::value;
use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Bytes that one part reads at most.
const PART: usize = 1 << 20;

/// A table that is open for reading. Reading takes `&self`; a clone shares all but the range.
#[derive(Clone)]
pub struct Scan {
    space: Arc<Space>,
    definition: Arc<Definition>,
    leaves: Arc<Leaves>,
    parts: Vec<Range<usize>>,
    bounds: Option<Bounds>,
    /// Rows of a system-versioned table that are current no more are read, too.
    history: bool,
}

/// Records of a part that are no rows of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Those that are marked as deleted.
    pub deleted: usize,
    /// Those that are a system-versioned table's history.
    pub history: usize,
}

/// A range of the key's first column, both ends in it: its place in the table, and stored bytes.
#[derive(Clone)]
struct Bounds {
    column: usize,
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
}

/// What a thread keeps from part to part.
#[derive(Default)]
pub struct Buffers {
    /// Pages, and the last one's [`Window`].
    pages: Vec<u8>,
    rows: PageRows,
}

/// One leaf with its rows.
pub struct Leaf<'a> {
    pub scan: &'a Scan,
    pub number: u32,
    pub page: &'a [u8],
    pub window: Window<'a>,
    pub rows: &'a PageRows,
}

/// A column's bytes in one row.
pub enum Stored<'a> {
    Null,
    Bytes(Cow<'a, [u8]>),
}

impl Scan {
    /// Opens a tablespace, finds its table's definition, and lists its leaves.
    pub fn open(path: &Path) -> Result<Scan> {
        Scan::open_by(path, None, None)
    }
    /// The same by a definition as `CREATE TABLE` has it, if a file of that is given, and with the keys of
    /// MariaDB's encryption.
    pub fn open_by(path: &Path, schema: Option<&Path>, keys: Option<&Arc<Keys>>) -> Result<Scan> {
        let space = Space::open_with(path, keys)?;
        let definition = Definition::find(&space, schema)?;
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
        let parts = cut(0..leaves.pages.len(), space.format().page_size, 1);
        let (space, definition, leaves) = (Arc::new(space), Arc::new(definition), Arc::new(leaves));
        Ok(Scan { space, definition, leaves, parts, bounds: None, history: false })
    }
    /// From here on rows of a system-versioned table are read that were deleted or changed, with those that
    /// are current, which are read otherwise.
    pub fn with_history(&mut self) -> Result<()> {
        if self.definition.table.period.is_none() {
            let why = "it has no history: it is not system-versioned";
            return Err(Error::new(self.space.path(), Kind::Mismatch, why));
        }
        self.history = true;
        Ok(())
    }
    pub fn has_history(&self) -> bool {
        self.history
    }

    /// Only rows whose primary key begins with a value from `from` to `to`, both included; as SQL writes
    /// them. For keys that begin with a whole number, DATE or DATETIME.
    pub fn within(&mut self, from: Option<&str>, to: Option<&str>) -> Result<()> {
        let refuse = |why: String| Error::new(self.space.path(), Kind::Mismatch, why);
        let column = match self.definition.table.key.first() {
            Some(&(column, 0)) => column,
            Some(_) => {
                return Err(refuse(
                    "its key begins with a part of a column, of which no range is read".into(),
                ));
            }
            None => return Err(refuse("it has no primary key, of which a range could be read".into())),
        };
        let Column { name, ty, sql, .. } = &self.columns()[column];
        let stored = |text: Option<&str>| match text {
            None => Ok(None),
            Some(text) => match value::stored_key(ty, text) {
                Some(Some(bytes)) => Ok(Some(bytes)),
                Some(None) => {
                    Err(refuse(format!("{text} is no value of its key's first column, {name} {sql}")))
                }
                None => Err(refuse(format!(
                    "its key begins with {name} {sql}; a range is read of whole numbers, DATE and DATETIME only"
                ))),
            },
        };
        let bounds = Bounds { column, from: stored(from)?, to: stored(to)? };
        if self.key_falls()? {
            return Err(refuse(format!("its key falls ({name} DESC), of which no range is read")));
        }
        let mut buffers = Buffers::default();
        let start = match &bounds.from {
            // Rows with this value may begin on the leaf before the first that begins with it.
            Some(from) => self.leaves_before(&mut buffers, column, |key| key < &from[..])?.saturating_sub(1),
            None => 0,
        };
        let end = match &bounds.to {
            Some(to) => self.leaves_before(&mut buffers, column, |key| key <= &to[..])?,
            None => self.leaves.pages.len(),
        };
        self.parts = cut(start..end.max(start), self.space.format().page_size, 1);
        self.bounds = Some(bounds);
        Ok(())
    }

    /// Cuts what is read into so many parts at least, where there are as many leaves. Of a large table there
    /// are more anyway.
    pub fn cut(&mut self, parts: usize) {
        let leaves = self.parts.first().map_or(0, |p| p.start)..self.parts.last().map_or(0, |p| p.end);
        self.parts = cut(leaves, self.space.format().page_size, parts);
    }

    /// How many leaves begin with a key that is `before`; those before them do, too.
    fn leaves_before(
        &self,
        buffers: &mut Buffers,
        column: usize,
        before: impl Fn(&[u8]) -> bool,
    ) -> Result<usize> {
        let (mut low, mut high) = (0, self.leaves.pages.len());
        while low < high {
            let middle = (low + high) / 2;
            // A leaf may have no rows left; then the next with rows decides.
            let mut at = middle;
            let mut is_before = false;
            while at < high {
                if let Some(key) = self.key_of(at, false, buffers, column)? {
                    is_before = before(key);
                    break;
                }
                at += 1;
            }
            if is_before { low = at + 1 } else { high = middle }
        }
        Ok(low)
    }
    /// Whether rows come in the falling order of the key's first column, as what they hold tells: definitions
    /// need not say it.
    pub fn key_falls(&self) -> Result<bool> {
        let Some(&(column, _)) = self.definition.table.key.first() else { return Ok(false) };
        let mut buffers = Buffers::default();
        let mut end = |leaves: &mut dyn Iterator<Item = usize>, last: bool| -> Result<Option<Vec<u8>>> {
            for i in leaves {
                if let Some(key) = self.key_of(i, last, &mut buffers, column)? {
                    return Ok(Some(key.to_vec()));
                }
            }
            Ok(None)
        };
        let leaves = 0..self.leaves.pages.len();
        Ok(end(&mut leaves.clone(), false)? > end(&mut leaves.rev(), true)?)
    }
    /// A column of a leaf's first or last row.
    fn key_of<'b>(
        &self,
        i: usize,
        last: bool,
        buffers: &'b mut Buffers,
        column: usize,
    ) -> Result<Option<&'b [u8]>> {
        let number = self.leaves.pages[i];
        let size = self.space.format().page_size;
        buffers.pages.resize(size + Window::BYTES, 0);
        self.space.read_page(number, &mut buffers.pages[..size])?;
        let damaged = |why: String| Error::on_page(self.space.path(), number, Kind::Damaged, why);
        let page = &buffers.pages[..size];
        tree::prove_leaf(Page(page), &self.leaves, i).map_err(damaged)?;
        self.definition
            .layout
            .rows(page, window(&buffers.pages), &mut buffers.rows)
            .map_err(|why| self.wrong(number, page, why))?;
        if buffers.rows.is_empty() {
            return Ok(None);
        }
        let row = if last { buffers.rows.len() - 1 } else { 0 };
        Ok(buffers.rows.place(row, column).bytes(page).map(|(bytes, _)| bytes))
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

    /// Reads one part, and calls `each` for its leaves in key order. Returns how many records are left out.
    pub fn read(
        &self,
        part: usize,
        buffers: &mut Buffers,
        mut each: impl FnMut(Leaf<'_>) -> Result<()>,
    ) -> Result<LeftOut> {
        let mut left_out = LeftOut::default();
        for i in 0..self.load(part, buffers)? {
            let LeftOut { deleted, history } = self.find_rows(part, i, buffers)?;
            left_out.deleted += deleted;
            left_out.history += history;
            each(self.leaf(part, i, buffers))?;
        }
        Ok(left_out)
    }

    /// Reads the pages of one part, which are to be proved yet; how many there are.
    fn load(&self, part: usize, buffers: &mut Buffers) -> Result<usize> {
        let size = self.space.format().page_size;
        let range = self.parts[part].clone();
        buffers.pages.resize(range.len() * size + Window::BYTES, 0);
        let pages = &self.leaves.pages[range.clone()];
        // Neighbours in the tree that are neighbours in the file are read at once.
        let mut at = 0;
        while at < pages.len() {
            let run = pages[at..].windows(2).take_while(|w| w[0].checked_add(1) == Some(w[1])).count() + 1;
            self.space.load(pages[at], &mut buffers.pages[at * size..(at + run) * size])?;
            at += run;
        }
        Ok(range.len())
    }
    /// Finds the rows of a loaded part's leaf number `i`; how many records are left out.
    fn find_rows(&self, part: usize, i: usize, buffers: &mut Buffers) -> Result<LeftOut> {
        let number = self.prove(part, i, &mut buffers.pages)?;
        let (page, window) = self.page(i, &buffers.pages);
        let deleted = (self.definition.layout)
            .rows(page, window, &mut buffers.rows)
            .map_err(|why| self.wrong(number, page, why))?;
        let mut left_out = LeftOut { deleted, history: 0 };
        if let Some(Period { end, .. }) = self.hides_history() {
            let default = self.definition.defaults[end].as_deref();
            left_out.history = buffers.rows.retain(|rows, row| {
                let place = rows.place(row, end);
                let bytes = place.bytes(page).map(|(bytes, _)| bytes);
                let bytes = if place.is_default() { default } else { bytes };
                bytes.is_none_or(Period::is_current)
            });
        }
        if let Some(bounds) = &self.bounds {
            buffers.rows.keep(|rows, row| bounds.hold(rows.place(row, bounds.column), page));
        }
        Ok(left_out)
    }
    /// What is wrong where a page's records could not be taken apart.
    #[cold]
    fn wrong(&self, number: u32, page: &[u8], why: String) -> Error {
        match Walk::is_whole(Page(page)) {
            true => Error::unfit(self.space.path(), number, &why),
            false => Error::on_page(self.space.path(), number, Kind::Damaged, why),
        }
    }
    /// The number of a loaded part's leaf, which has to be whole, and the one that the tree says. Once for
    /// each: just before its rows are found, since it is in the processor's nearest memory then.
    fn prove(&self, part: usize, i: usize, pages: &mut [u8]) -> Result<u32> {
        let (at, size) = (self.parts[part].start + i, self.space.format().page_size);
        let (number, page) = (self.leaves.pages[at], &mut pages[i * size..(i + 1) * size]);
        self.space.prove(number, page)?;
        tree::prove_leaf(Page(page), &self.leaves, at)
            .map_err(|why| Error::on_page(self.space.path(), number, Kind::Damaged, why))?;
        if let Some(moment) = self.space.moment().filter(|moment| moment.asks_rows()) {
            let Definition { layout, key, .. } = &*self.definition;
            layout
                .writers(page, key, |transaction, undo| moment.admits_row(transaction, undo))
                .map_err(|why| Error::on_page(self.space.path(), number, Kind::Mismatch, why))?;
        }
        Ok(number)
    }
    /// A system-versioned table's period, if only current rows are read.
    pub fn hides_history(&self) -> Option<Period> {
        self.definition.table.period.filter(|_| !self.history)
    }
    fn page<'a>(&self, i: usize, pages: &'a [u8]) -> (&'a [u8], Window<'a>) {
        let (size, bytes) = (self.space.format().page_size, &pages[i * self.space.format().page_size..]);
        (&bytes[..size], window(bytes))
    }
    fn leaf<'a>(&'a self, part: usize, i: usize, buffers: &'a Buffers) -> Leaf<'a> {
        let number = self.leaves.pages[self.parts[part].start + i];
        let (page, window) = self.page(i, &buffers.pages);
        Leaf { scan: self, number, page, window, rows: &buffers.rows }
    }

    /// A guess of how many rows there are: as if all leaves had as many as the first.
    pub fn estimate_rows(&self) -> Result<u64> {
        let mut page = vec![0; self.space.format().page_size];
        self.space.read_page(self.leaves.pages[0], &mut page)?;
        Ok(Page(&page).record_count() as u64 * self.leaves.pages.len() as u64)
    }
}

/// Rows one after the other, in key order, of some parts that follow each other. In memory are the pages of
/// one.
pub struct Cursor {
    scan: Arc<Scan>,
    buffers: Buffers,
    /// The part at hand, or to come, and the first that is left out.
    part: usize,
    end: usize,
    /// How many leaves it has, and the next one of these.
    leaves: usize,
    leaf: usize,
    /// The next row of the leaf before that.
    row: usize,
}

impl Cursor {
    pub fn new(scan: Arc<Scan>, parts: Range<usize>) -> Cursor {
        let end = parts.end.min(scan.parts());
        Cursor { scan, buffers: Buffers::default(), part: parts.start, end, leaves: 0, leaf: 0, row: 0 }
    }
    /// Begins anew, with other parts.
    pub fn restart(&mut self, parts: Range<usize>) {
        self.buffers.rows = PageRows::default();
        (self.part, self.end) = (parts.start, parts.end.min(self.scan.parts()));
        (self.leaves, self.leaf, self.row) = (0, 0, 0);
    }
    /// The parts; none once something was read of them.
    pub fn untouched(&self) -> Range<usize> {
        if self.leaves > 0 { self.end..self.end } else { self.part..self.end }
    }
    pub fn scan(&self) -> &Arc<Scan> {
        &self.scan
    }
    /// Goes on to the next leaf, whose rows are not found yet; `go_on` is asked before. False: there is none.
    fn step<E: From<Error>>(
        &mut self,
        go_on: &dyn Fn() -> std::result::Result<(), E>,
    ) -> std::result::Result<bool, E> {
        go_on()?;
        while self.leaf == self.leaves {
            let next = self.part + usize::from(self.leaves > 0);
            if next >= self.end {
                return Ok(false);
            }
            self.leaves = self.scan.load(next, &mut self.buffers)?;
            (self.part, self.leaf) = (next, 0);
        }
        self.leaf += 1;
        Ok(true)
    }
    /// The next row: its leaf, and its number there.
    pub fn next<E: From<Error>>(
        &mut self,
        go_on: &dyn Fn() -> std::result::Result<(), E>,
    ) -> std::result::Result<Option<(Leaf<'_>, usize)>, E> {
        while self.row >= self.buffers.rows.len() {
            if !self.step(go_on)? {
                return Ok(None);
            }
            self.scan.find_rows(self.part, self.leaf - 1, &mut self.buffers)?;
            self.row = 0;
        }
        self.row += 1;
        Ok(Some((self.scan.leaf(self.part, self.leaf - 1, &self.buffers), self.row - 1)))
    }
    /// How many rows are left. Their records are counted, their fields not looked at.
    pub fn count<E: From<Error>>(
        &mut self,
        go_on: &dyn Fn() -> std::result::Result<(), E>,
    ) -> std::result::Result<u64, E> {
        let mut count = (self.buffers.rows.len() - self.row.min(self.buffers.rows.len())) as u64;
        self.buffers.rows = PageRows::default();
        while self.step(go_on)? {
            if self.scan.bounds.is_some() || self.scan.hides_history().is_some() {
                self.scan.find_rows(self.part, self.leaf - 1, &mut self.buffers)?;
                count += std::mem::take(&mut self.buffers.rows).len() as u64;
                continue;
            }
            let number = self.scan.prove(self.part, self.leaf - 1, &mut self.buffers.pages)?;
            let (page, _) = self.scan.page(self.leaf - 1, &self.buffers.pages);
            let rows = self.scan.definition.layout.count(page);
            count += rows.map_err(|why| Error::on_page(self.scan.space.path(), number, Kind::Damaged, why))?
                as u64;
        }
        Ok(count)
    }
}

/// The window of a page that begins here, in memory that is long enough for the last page's.
fn window(bytes: &[u8]) -> Window<'_> {
    Window::new(bytes).expect("a window is behind the last page")
}

/// Leaves, cut into so many parts at least.
fn cut(leaves: Range<usize>, page_size: usize, parts: usize) -> Vec<Range<usize>> {
    let each = (PART / page_size).min(leaves.len() / parts.max(1)).max(1);
    leaves.clone().step_by(each).map(|from| from..(from + each).min(leaves.end)).collect()
}

impl Bounds {
    /// Whether a row with this key is in the range.
    fn hold(&self, key: Place, page: &[u8]) -> bool {
        let key = key.bytes(page).map_or(&[][..], |(bytes, _)| bytes);
        self.from.as_ref().is_none_or(|from| key >= &from[..])
            && self.to.as_ref().is_none_or(|to| key <= &to[..])
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
    /// Appends a column's values as they are stored, and where each ends to `ends`. False if they do not all
    /// lie whole on the page; then nothing was done. A NULL has no bytes. `how`: whether spaces at a value's
    /// end are left out, and whether each has a space behind it.
    pub fn gather(
        &self,
        column: usize,
        rows: Range<usize>,
        how: (bool, bool),
        into: &mut Room,
        ends: &mut Vec<i32>,
    ) -> bool {
        let Some(Span { at, distance, lengths }) = self.rows.span(column, rows) else { return false };
        // A NULL's length is -1, below which is what does not lie whole on the page.
        let real = |length: u16| (length as i16).max(0) as u16;
        let (lengths, longest, sum) = match lengths {
            Lengths::Even(length) => (lengths, length, length as usize * at.len()),
            Lengths::Each(lengths) => {
                let of = |(least, most): (i16, i16), n: &u16| (least.min(*n as i16), most.max(*n as i16));
                let (least, most) = lengths.iter().fold((i16::MAX, -1), of);
                if least < -1 {
                    return false;
                }
                let sum = lengths.iter().fold(0, |sum, n| sum + real(*n) as u32) as usize;
                let longest = real(most as u16);
                let lengths = if least == most { Lengths::Even(longest) } else { Lengths::Each(lengths) };
                (lengths, longest, sum)
            }
        };
        if longest > Span::LONGEST {
            return false;
        }
        let (first, start) = (ends.len(), into.len());
        ends.resize(first + at.len(), 0);
        // Values are copied by chunks, beyond their ends.
        let bytes = into.with_room(sum + at.len() + Window::CHUNK);
        let to = (bytes, start, &mut ends[first..]);
        let at = at.iter().map(move |at| at.wrapping_add(distance));
        let end = match lengths {
            Lengths::Even(length) => self.copy(at.map(move |at| (at, length)), longest, how, to),
            Lengths::Each(lengths) => {
                let places = at.zip(lengths).map(move |(at, length)| (at, real(*length)));
                self.copy(places, longest, how, to)
            }
        };
        into.set_len(end);
        true
    }
    /// Copies values from these places, of these lengths, of which `longest` is the longest, one behind the
    /// other from `end` on; gives where the last ends. There is room for them and a chunk.
    #[inline(always)]
    fn copy(
        &self,
        places: impl Iterator<Item = (u16, u16)>,
        longest: u16,
        (trims, spaced): (bool, bool),
        to: (&mut [u8], usize, &mut [i32]),
    ) -> usize {
        macro_rules! chunks {
            ($n:literal) => {
                match (trims, spaced) {
                    (false, false) => copy::<$n, false, false>(self.window, places, to),
                    (false, true) => copy::<$n, false, true>(self.window, places, to),
                    (true, false) => copy::<$n, true, false>(self.window, places, to),
                    (true, true) => copy::<$n, true, true>(self.window, places, to),
                }
            };
        }
        match longest {
            0..=8 => chunks!(8),
            9..=16 => chunks!(16),
            17..=32 => chunks!(32),
            33..=64 => chunks!(64),
            _ => {
                let (bytes, mut end, ends) = to;
                for ((at, length), to_end) in places.zip(ends) {
                    let value = self.page.get(at as usize..at as usize + length as usize).unwrap_or(&[]);
                    let value = if trims { text::trimmed(value) } else { value };
                    bytes[end..end + value.len()].copy_from_slice(value);
                    end += value.len();
                    if spaced {
                        bytes[end] = b' ';
                        end += 1;
                    }
                    *to_end = end as i32;
                }
                end
            }
        }
    }
    /// An error about this page's content, in which nothing contradicts itself.
    pub fn refused(&self, why: String) -> Error {
        Error::on_page(self.scan.space.path(), self.number, Kind::Mismatch, why)
    }
    /// One about what is no value of its column's type.
    pub fn unfit(&self, why: &str) -> Error {
        Error::unfit(self.scan.space.path(), self.number, why)
    }
}

/// The same for values of up to N bytes.
#[inline(never)]
fn copy<const N: usize, const TRIMS: bool, const SPACED: bool>(
    window: Window<'_>,
    places: impl Iterator<Item = (u16, u16)>,
    (bytes, mut end, ends): (&mut [u8], usize, &mut [i32]),
) -> usize {
    for ((at, length), to_end) in places.zip(ends) {
        let length = if TRIMS { text::length_trimmed::<N>(window, at, length) } else { length };
        // There is room for a chunk and a byte behind the last value.
        let Some(to) = chunk_at_mut::<N>(bytes, end) else { unreachable!("{N} bytes are too many") };
        *to = *window.chunk(at);
        end += length as usize;
        if SPACED {
            bytes[end] = b' ';
            end += 1;
        }
        *to_end = end as i32;
    }
    end
}
