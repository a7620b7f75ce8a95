//! Pages of ROW_FORMAT=COMPRESSED: from a page's bytes in the file to the page that they stand for.
//!
//! ```text
//!   header, 94 bytes | deflated: fields' lengths, then records | log of changes, 0 | … | references | per record: system's columns | directory
//! ```
//! The directory, from the end: 2 bytes for each record in key order, then for each free one. Records are
//! numbered by their places; in the deflated stream they stand in that order, each with what is before its
//! header and its data, but for what is kept uncompressed before the directory: on leaves of the clustered
//! index 13 bytes of the transaction and the roll pointer, and the references of columns off the page, on
//! inner pages the child's number. The log holds whole records anew, in the order of their changes.
//!
//! - **Z1** Every byte of every record comes from the stream or the log; a record that neither has is damage.
//!
//! Sources: MySQL's documentation of compressed tables; pages of MariaDB 10.11 and MySQL 9.7.
use crate::page::{NONE, Page, kind, u16_at};
use crate::record::Length;
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags as flag};

/// Where the header ends, and where a page's records begin.
const DATA: usize = 94;
const START: usize = 120;
const HEADER: usize = 5;
const INFIMUM: usize = 99;
const SUPREMUM: usize = 112;
/// Bits of the directory's entries.
const PLACE: usize = 0x3fff;
const DELETED: usize = 0x8000;
/// Kept uncompressed: transaction and roll pointer; a column's reference; a child's number.
const SYSTEM: usize = 13;
const REFERENCE: usize = 20;
const CHILD: usize = 4;

const NODE_POINTER: u16 = 1;
const INFO_MIN: u8 = 0x10;
const INFO_DELETED: u8 = 0x20;

/// Inflates a whole zlib stream into exactly `into`. Bytes behind the stream do not count.
pub fn inflate(deflated: &[u8], into: &mut [u8]) -> Result<(), String> {
    let flags = flag::TINFL_FLAG_PARSE_ZLIB_HEADER | flag::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
    match decompress(&mut DecompressorOxide::new(), deflated, into, 0, flags) {
        (TINFLStatus::Done, _, n) if n == into.len() => Ok(()),
        (status, _, n) => Err(format!("it inflates to {n} bytes ({status:?}), {} were expected", into.len())),
    }
}

/// Whether a page of a compressed tablespace is compressed itself; others stand in the file as they are.
pub fn is_compressed(zip: &[u8]) -> bool {
    matches!(Page(zip).kind(), kind::INDEX | kind::SDI)
}

/// What the stream says of the fields.
struct Fields {
    fields: Vec<(Length, bool)>,
    null_bytes: usize,
    /// The field that begins with the transaction, on leaves of a clustered index.
    system: Option<usize>,
    is_leaf: bool,
}

/// A record's parts.
struct Parts {
    /// Bytes before its header.
    before: usize,
    /// Bytes of its data.
    data: usize,
    /// What is kept elsewhere: offsets in its data, in order, and lengths.
    holes: Vec<(usize, usize)>,
}

impl Fields {
    fn parse(info: &[u8], is_leaf: bool) -> Result<Fields, String> {
        let mut numbers = Vec::new();
        let mut bytes = info.iter();
        while let Some(&b) = bytes.next() {
            numbers.push(match b {
                0x80.. => {
                    let low = *bytes.next().ok_or("the list of its fields ends too early")?;
                    ((b & 0x7f) as usize) << 8 | low as usize | 1 << 20
                }
                _ => b as usize,
            });
        }
        let last = numbers.pop().ok_or("it has no list of its fields")? & 0xfffff;
        let fields: Vec<(Length, bool)> = numbers
            .iter()
            .map(|&n| {
                let length = match n {
                    0 | 1 => Length::Variable { big: false },
                    126 | 127 => Length::Variable { big: true },
                    _ => Length::Fixed((n as u32 & 0xfffff) >> 1),
                };
                (length, n & 1 == 0)
            })
            .collect();
        // On inner pages the rows' nullable fields are counted, which are not among the key's.
        let nullable = if is_leaf { fields.iter().filter(|f| f.1).count() } else { last };
        let system = if is_leaf { Some(last).filter(|n| *n != 0) } else { None };
        if system.is_some_and(|n| n >= fields.len()) || nullable > 1023 || fields.len() > 1023 {
            return Err(format!("the list of its {} fields ends in {last}", fields.len()));
        }
        Ok(Fields { fields, null_bytes: nullable.div_ceil(8), system, is_leaf })
    }

    /// A record's parts. `before(n)`: its nth byte before the header, from the header on.
    fn parts(&self, before: impl Fn(usize) -> Option<u8>) -> Result<Parts, String> {
        let short = "a record's lengths end too early";
        let (mut lengths, mut data) = (self.null_bytes, 0);
        let mut nulls = 0;
        let mut holes = Vec::new();
        for (i, &(length, nullable)) in self.fields.iter().enumerate() {
            if nullable && self.is_leaf {
                let null = before(nulls / 8).ok_or(short)? >> (nulls % 8) & 1 != 0;
                nulls += 1;
                if null {
                    continue;
                }
            }
            let mut elsewhere = false;
            let length = match length {
                Length::Fixed(n) => n as usize,
                Length::Variable { big } => {
                    let first = before(lengths).ok_or(short)? as usize;
                    lengths += 1;
                    if big && first & 0x80 != 0 {
                        let second = before(lengths).ok_or(short)? as usize;
                        lengths += 1;
                        elsewhere = first & 0x40 != 0;
                        (first & 0x3f) << 8 | second
                    } else {
                        first
                    }
                }
            };
            if self.system == Some(i) {
                if length < SYSTEM || elsewhere {
                    return Err(format!("its transaction's field has {length} bytes"));
                }
                holes.push((data, SYSTEM));
            }
            data += length;
            if elsewhere {
                if length < REFERENCE || !self.is_leaf || self.system.is_none() {
                    return Err(format!("a field of {length} bytes continues elsewhere"));
                }
                holes.push((data - REFERENCE, REFERENCE));
            }
        }
        if !self.is_leaf {
            holes.push((data, CHILD));
            data += CHILD;
        }
        Ok(Parts { before: lengths, data, holes })
    }
}

impl Parts {
    /// The ranges of the data that are not kept elsewhere.
    fn filled(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let starts = std::iter::once(0).chain(self.holes.iter().map(|(at, n)| at + n));
        let ends = self.holes.iter().map(|h| h.0).chain(std::iter::once(self.data));
        starts.zip(ends)
    }
}

/// Makes the page that `zip` stands for. `page` has the bytes of a page in memory.
pub fn unzip(zip: &[u8], page: &mut [u8]) -> Result<(), String> {
    page.fill(0);
    page[..DATA].copy_from_slice(&zip[..DATA]);
    let view = Page(zip);
    let is_leaf = view.level() == 0;
    if !view.is_compact() {
        return Err("a compressed page with records of the old style".into());
    }
    let size = zip.len();
    let count = view.record_count() as usize;
    let dense = view.heap_count().checked_sub(2).filter(|n| *n >= count && DATA + 2 * n < size);
    let dense =
        dense.ok_or_else(|| format!("it would have {count} records of {} in its heap", view.heap_count()))?;
    let directory = size - 2 * dense;
    let slot = |i: usize| u16_at(zip, size - 2 * (i + 1)).unwrap_or(0) as usize;
    let end_of_records = page.len() - 8;
    let mut origins: Vec<usize> = (0..dense).map(|i| slot(i) & PLACE).collect();
    origins.sort_unstable();
    let outside = |o: &usize| *o < START + HEADER || *o > end_of_records;
    if origins.iter().any(outside) || origins.windows(2).any(|w| w[0] == w[1]) {
        return Err("its directory leads outside of the records, or twice to one".into());
    }

    // The stream: the fields first, ended by a block's boundary, then what is on the page from its records'
    // beginning on.
    let flags = flag::TINFL_FLAG_PARSE_ZLIB_HEADER | flag::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
    let mut inflated = vec![0; 2 * page.len()];
    let mut state = DecompressorOxide::new();
    let deflated = &zip[DATA..directory];
    let stop = flags | flag::TINFL_FLAG_STOP_ON_BLOCK_BOUNDARY;
    let (status, taken, info) = decompress(&mut state, deflated, &mut inflated, 0, stop);
    if status != TINFLStatus::BlockBoundary {
        return Err(format!("the list of its fields cannot be inflated ({status:?})"));
    }
    let (status, rest, more) = decompress(&mut state, &deflated[taken..], &mut inflated, info, flags);
    if status != TINFLStatus::Done {
        return Err(format!("its records cannot be inflated ({status:?})"));
    }
    let fields = Fields::parse(&inflated[..info], is_leaf)?;
    let mut stream = &inflated[info..info + more];
    let mut log = &zip[DATA + taken + rest..directory];

    let status = if is_leaf { 0 } else { NODE_POINTER };
    let number = |page: &mut [u8], i: usize| set_u16(page, origins[i] - 4, (i as u16 + 2) << 3 | status);
    let beyond = "a record's data are beyond the page's end";
    let mut known = 0;
    let mut at = START;
    for &origin in &origins {
        let gap = (origin - HEADER).checked_sub(at).ok_or("two records share their place")?;
        let (here, behind) = stream.split_at(gap.min(stream.len()));
        page[at..at + here.len()].copy_from_slice(here);
        stream = behind;
        if stream.is_empty() {
            // The records behind were made since; the log has them.
            break;
        }
        let parts = fields.parts(|n| page[..origin - HEADER].iter().rev().nth(n).copied())?;
        if origin + parts.data > end_of_records {
            return Err(beyond.into());
        }
        for (from, to) in parts.filled() {
            let (here, behind) = stream.split_at_checked(to - from).ok_or("its records end within one")?;
            page[origin + from..origin + to].copy_from_slice(here);
            stream = behind;
        }
        at = origin + parts.data;
        number(page, known);
        known += 1;
    }
    // Behind the last record may be what a longer one left; it means nothing.
    if known < dense && !stream.is_empty() {
        return Err("it has more bytes of records than its directory has room for".into());
    }

    // The log. Its end is a zero.
    let short = "the log of its changes ends within one";
    let take = |log: &mut &[u8], n: usize| -> Result<Vec<u8>, String> {
        let (here, behind) = log.split_at_checked(n).ok_or(short)?;
        *log = behind;
        Ok(here.to_vec())
    };
    loop {
        let mut entry = take(&mut log, 1)?[0] as usize;
        if entry == 0 {
            break;
        }
        if entry & 0x80 != 0 {
            entry = (entry & 0x7f) << 8 | take(&mut log, 1)?[0] as usize;
        }
        let i = (entry >> 1).checked_sub(1).filter(|i| *i < dense && *i <= known);
        let i = i.ok_or_else(|| format!("the log of its changes names record {} of {known}", entry >> 1))?;
        let origin = origins[i];
        if entry & 1 != 0 {
            if i == known {
                return Err("the log of its changes clears a record that is not there".into());
            }
            let parts = fields.parts(|n| page[..origin - HEADER].iter().rev().nth(n).copied())?;
            page.get_mut(origin..origin + parts.data).ok_or(beyond)?.fill(0);
            continue;
        }
        let parts = fields.parts(|n| log.get(n).copied())?;
        let room = (origin - HEADER).checked_sub(parts.before).filter(|n| *n >= START);
        if room.is_none() || origin + parts.data > end_of_records {
            return Err(beyond.into());
        }
        for (n, byte) in take(&mut log, parts.before)?.into_iter().enumerate() {
            page[origin - HEADER - 1 - n] = byte;
        }
        for (from, to) in parts.filled() {
            page[origin + from..origin + to].copy_from_slice(&take(&mut log, to - from)?);
        }
        number(page, i);
        known = known.max(i + 1);
    }
    if known < dense {
        return Err(format!(
            "{} of its {dense} records are neither in it nor in the log of its changes",
            dense - known
        ));
    }

    // What is kept uncompressed, from the directory downwards.
    let each = match (is_leaf, fields.system) {
        (false, _) => CHILD,
        (true, Some(_)) => SYSTEM,
        (true, None) => 0,
    };
    let log_end = directory - log.len();
    let mut references = directory.checked_sub(each * dense).filter(|n| *n >= log_end);
    let missing = "what it keeps uncompressed lies in its log";
    references.ok_or(missing)?;
    let free: Vec<usize> = {
        let mut free: Vec<usize> = (count..dense).map(|i| slot(i) & PLACE).collect();
        free.sort_unstable();
        free
    };
    for (i, &origin) in origins.iter().enumerate() {
        let parts = fields.parts(|n| page[..origin - HEADER].iter().rev().nth(n).copied())?;
        if origin + parts.data > end_of_records {
            return Err(beyond.into());
        }
        for &(hole, length) in &parts.holes {
            let from = if length == REFERENCE {
                if free.binary_search(&origin).is_ok() {
                    continue;
                }
                references = references.and_then(|n| n.checked_sub(REFERENCE)).filter(|n| *n >= log_end);
                references.ok_or(missing)?
            } else {
                directory - each * (i + 1)
            };
            page[origin + hole..origin + hole + length].copy_from_slice(&zip[from..from + length]);
        }
    }

    // The chain of records, and what their headers say.
    let mut before = INFIMUM;
    let mut info = if !is_leaf && view.previous() == NONE { INFO_MIN } else { 0 };
    for i in 0..count {
        let entry = slot(i);
        let origin = entry & PLACE;
        if entry & DELETED != 0 {
            info |= INFO_DELETED;
        }
        set_u16(page, before - 2, (origin as u16).wrapping_sub(before as u16));
        page[origin - HEADER] = info;
        (before, info) = (origin, 0);
    }
    set_u16(page, before - 2, (SUPREMUM as u16).wrapping_sub(before as u16));
    Ok(())
}

fn set_u16(page: &mut [u8], at: usize, n: u16) {
    page[at..at + 2].copy_from_slice(&n.to_be_bytes());
}
