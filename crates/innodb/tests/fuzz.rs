//! Random damage whose checksums fit, so that it reaches what decodes: tablespaces, trees, records, columns
//! off the page, definitions, values.
//!
//! - **F1** No case panics, and none takes a minute.
//! - **F2** Damage under checksums that do not fit is an error, or leaves every row as it was.
//! - **F3** Under checksums that fit, the rows are as many as the pages' headers count, and every one can be
//!   shown; else there is an error.
//! - **F4** Lines that are made column by column are those that are made value by value, and errors where
//!   these are.
//!
//! A run is told by its seed and its number of cases; each case by its own number, which a failure prints:
//!
//! ```sh
//! cargo test -p ondol-innodb --test fuzz                                                          # seconds
//! ONDOL_INNODB_CASES=10000000 cargo test -p ondol-innodb --profile quick --test fuzz -- --ignored  # an hour
//! ONDOL_INNODB_CASE=1234 cargo test -p ondol-innodb --test fuzz -- one_case --ignored              # one again
//! ```
use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags as flag};
use ondol_innodb::definition::Definition;
use ondol_innodb::error::{Error, Result};
use ondol_innodb::page::{Page, kind};
use ondol_innodb::record::History;
use ondol_innodb::scan::{Buffers, Scan, Stored};
use ondol_innodb::space::{Format, Space};
use ondol_innodb::{export, frm, json, sdi, text};
use ondol_scan::csv::{Dialect, Lines};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

mod fixture;
use fixture::{Random, SERVERS, seal, stored, tables, unpacked};

/// One fixture, ready to be damaged and made whole again.
struct Subject {
    name: String,
    _folder: tempfile::TempDir,
    path: PathBuf,
    file: File,
    whole: Vec<u8>,
    /// Bytes of a page in the file.
    size: usize,
    format: Format,
    definition: Definition,
    /// The definition as it is kept: JSON, or a `.frm`.
    written: Vec<u8>,
    expected: Vec<u8>,
}

impl Subject {
    fn new(server: &str, table: &str) -> Subject {
        let (folder, path) = unpacked(server, table);
        let scan = Scan::open(&path).unwrap_or_else(|e| panic!("{e}"));
        let format = scan.space().format();
        let written = if format.has_sdi {
            sdi::text(scan.space()).unwrap_or_else(|e| panic!("{e}")).into_bytes()
        } else {
            stored(server, &format!("{table}.frm")).expect("a definition")
        };
        let expected = Scan::open(&path).and_then(rows).unwrap_or_else(|e| panic!("{e}"));
        Subject {
            name: format!("{server} {table}"),
            file: File::options().read(true).write(true).open(&path).expect("a file"),
            whole: std::fs::read(&path).expect("a file"),
            size: format.physical_size,
            format,
            definition: scan.definition().clone(),
            written,
            expected,
            path,
            _folder: folder,
        }
    }
    fn pages(&self) -> usize {
        self.whole.len() / self.size
    }
    fn page(&self, number: usize) -> &[u8] {
        &self.whole[number * self.size..][..self.size]
    }
}

/// All rows, as text: value by value, and as they are exported, which is column by column.
fn rows(scan: Scan) -> Result<Vec<u8>> {
    let scan = Arc::new(scan);
    let alone = one_by_one(&scan);
    let options = export::Options {
        format: export::Format::Text(Dialect::Rfc4180),
        columns: export::columns(&scan, None)?,
        limit: None,
        workers: 1,
        ordered: true,
    };
    let mut together = Vec::new();
    let done = export::export(scan.clone(), &options, &mut together, Path::new("memory"), |_| {});
    match (&alone, &done) {
        (Ok(alone), Ok(_)) => {
            let mut header = Lines::new(Dialect::Rfc4180, 256);
            options.columns.iter().for_each(|c| header.text(scan.columns()[*c].name.as_bytes()));
            header.end_line();
            let header = header.into_bytes();
            assert!(
                together[..header.len()] == header && together[header.len()..] == alone[..],
                "F4: other text"
            );
        }
        (Err(_), Err(_)) => {}
        _ => panic!("F4: value by value {:?}, column by column {:?}", alone.as_ref().err(), done.err()),
    }
    alone
}
fn one_by_one(scan: &Scan) -> Result<Vec<u8>> {
    let columns = export::columns(scan, None)?;
    let mut buffers = Buffers::default();
    let mut lines = Lines::new(Dialect::Rfc4180, 1 << 16);
    for part in 0..scan.parts() {
        let (mut shown, mut counted) = (0, 0);
        let left_out = scan.read(part, &mut buffers, |leaf| {
            counted += Page(leaf.page).record_count() as usize;
            for row in 0..leaf.rows.len() {
                for &c in &columns {
                    match leaf.stored(c, leaf.rows.place(row, c))? {
                        Stored::Null => lines.null(),
                        Stored::Bytes(bytes) => text::push(&mut lines, &scan.columns()[c], &bytes)
                            .map_err(|why| leaf.unfit(&why))?,
                    }
                }
                lines.end_line();
                shown += 1;
            }
            Ok(())
        })?;
        let besides = left_out.deleted + left_out.history;
        // One record may describe an instant ALTER TABLE of MariaDB.
        let described = matches!(scan.definition().layout.history, History::Counted { .. }) && part == 0;
        assert!(
            shown + besides == counted || described && shown + besides + 1 == counted,
            "F3: {shown} rows and {besides} records besides, the pages' headers count {counted}"
        );
    }
    Ok(lines.into_bytes())
}

struct World {
    subjects: Vec<Subject>,
}

/// Says which case it was, when it panics.
struct Told<'a>(u64, &'a str);
impl Drop for Told<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("case {} ({})", self.0, self.1);
        }
    }
}

impl World {
    fn new() -> World {
        let subjects =
            SERVERS.iter().flat_map(|s| tables(s).into_iter().map(|t| Subject::new(s, &t))).collect();
        World { subjects }
    }

    /// One case. Whether it was refused.
    fn case(&self, number: u64) -> bool {
        let mut random = Random(number.wrapping_mul(0xd134_2543_de82_ef95));
        let subject = random.pick(&self.subjects);
        let _told = Told(number, &subject.name);
        let started = Instant::now();
        let refused = match random.below(20) {
            0..3 => self.written(subject, &mut random),
            3 => self.value(subject, &mut random),
            4 => self.cut(subject, &mut random),
            5 => self.unsealed(subject, &mut random),
            _ => self.sealed(subject, &mut random),
        };
        let took = started.elapsed();
        assert!(took < Duration::from_secs(60), "F1: it took {took:?}");
        refused
    }

    /// Bytes of a page changed, or taken from elsewhere.
    fn damage(&self, page: &mut [u8], random: &mut Random) {
        for _ in 0..1 + random.below(4) {
            let size = page.len();
            // Near the header, near a record's header, near the end (where ROW_FORMAT=COMPRESSED has
            // directory, references and log), or anywhere.
            let at = match random.below(5) {
                4 => size - 1 - random.below(size / 4),
                0 => 8 + random.below(130),
                1 | 2 if Page(page).is_index() => {
                    let mut at = 99usize;
                    for _ in 0..random.below(1 + Page(page).record_count() as usize) {
                        let distance = u16::from_be_bytes([page[at - 2], page[at - 1]]);
                        at = (at as u16).wrapping_add(distance) as usize;
                        if at < 99 || at >= size {
                            at = 99;
                        }
                    }
                    at.saturating_sub(20).max(8) + random.below(60)
                }
                _ => 8 + random.below(size - 24),
            }
            .min(size - 2);
            match random.below(6) {
                0 | 1 => page[at] ^= 1 << random.below(8),
                2 => page[at] = *random.pick(&[0, 1, 0x7f, 0x80, 0xff, 0xc0]),
                3 => page[at] = random.next() as u8,
                4 => page[at..at + 2].copy_from_slice(&(random.next() as u16).to_be_bytes()),
                _ => {
                    let from = random.pick(&self.subjects);
                    let from = &from.whole[random.below(from.whole.len() - 300)..];
                    let length = (1 + random.below(200)).min(size - at);
                    page[at..at + length].copy_from_slice(&from[..length]);
                }
            }
        }
    }

    /// Some pages, damaged, swapped or replaced; with their numbers.
    fn pages(&self, subject: &Subject, random: &mut Random) -> Vec<(usize, Vec<u8>)> {
        // The pages in use, for most of the time; empty ones make no difference.
        let number = |random: &mut Random| {
            (0..8)
                .map(|_| random.below(subject.pages()))
                .find(|n| Page(subject.page(*n)).kind() != 0)
                .unwrap_or(0)
        };
        let mut pages = Vec::new();
        if random.below(12) == 0 {
            let (a, b) = (number(random), number(random));
            for (to, from) in [(a, b), (b, a)] {
                let mut page = subject.page(from).to_vec();
                // In their new places' name, or not.
                if random.below(4) != 0 {
                    page[4..8].copy_from_slice(&(to as u32).to_be_bytes());
                }
                if random.below(4) != 0 {
                    page[8..16].copy_from_slice(&subject.page(to)[8..16]);
                }
                pages.push((to, page));
            }
        } else {
            for _ in 0..1 + random.below(2) {
                let n = number(random);
                let mut page = subject.page(n).to_vec();
                self.damage(&mut page, random);
                pages.push((n, page));
            }
        }
        pages
    }

    fn with_pages<T>(
        &self,
        subject: &Subject,
        pages: &[(usize, Vec<u8>)],
        then: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let write = |n: usize, page: &[u8]| {
            subject.file.write_all_at(page, (n * subject.size) as u64).expect("a page");
        };
        pages.iter().for_each(|(n, page)| write(*n, page));
        let outcome = then();
        pages.iter().for_each(|(n, _)| write(*n, subject.page(*n)));
        outcome
    }

    fn sealed(&self, subject: &Subject, random: &mut Random) -> bool {
        let mut pages = self.pages(subject, random);
        for (_, page) in &mut pages {
            if random.below(2) == 0 {
                self.deflated_anew(page, subject, random);
            }
            seal(page, subject.format);
        }
        // The definition read anew where that is cheap, or where it is in the file and may be damaged.
        let anew = random.below(8) == 0;
        self.with_pages(subject, &pages, || {
            if anew {
                return rows(Scan::open(&subject.path)?);
            }
            rows(Scan::new(Space::open(&subject.path)?, subject.definition.clone())?)
        })
        .is_err()
    }

    /// What a compressed page holds, damaged before it is deflated: behind the right checksum of a stream.
    fn deflated_anew(&self, page: &mut [u8], subject: &Subject, random: &mut Random) {
        let is_packed = match Page(page).kind() {
            kind::COMPRESSED if page[27] == 1 => true,
            kind::INDEX if subject.format.is_zipped => false,
            _ => return,
        };
        let at = if is_packed { 38 } else { 94 };
        // The first block of ROW_FORMAT=COMPRESSED is a list of fields, which has to stay a block of its own.
        let mut inflated = vec![0; 1 << 16];
        let mut state = DecompressorOxide::new();
        let flags = flag::TINFL_FLAG_PARSE_ZLIB_HEADER | flag::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
        let stop = flags | flag::TINFL_FLAG_STOP_ON_BLOCK_BOUNDARY;
        let first = if is_packed { flags } else { stop };
        let (_, taken, block) = decompress(&mut state, &page[at..], &mut inflated, 0, first);
        let (rest, more) = match is_packed {
            true => (0, 0),
            false => {
                let (_, rest, more) =
                    decompress(&mut state, &page[at + taken..], &mut inflated, block, flags);
                (rest, more)
            }
        };
        inflated.truncate(block + more);
        if inflated.is_empty() {
            return;
        }
        for _ in 0..1 + random.below(3) {
            let here = random.below(inflated.len());
            // The list of fields is short, and would seldom be met.
            let here = if random.below(3) == 0 { here % block.max(1) } else { here };
            inflated[here] = match random.below(3) {
                0 => inflated[here] ^ 1 << random.below(8),
                1 => *random.pick(&[0, 1, 0x7f, 0x80, 0xff, 0xc0]),
                _ => random.next() as u8,
            };
        }
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(6));
        let (list, records) = inflated.split_at(block);
        encoder.write_all(list).expect("memory");
        if !is_packed {
            encoder.flush().expect("memory");
            encoder.write_all(records).expect("memory");
        }
        let mut anew = encoder.finish().expect("memory");
        let deflated = anew.len();
        // The log of changes follows at once.
        anew.extend_from_slice(&page[at + taken + rest..]);
        let room = page.len() - at;
        anew.resize(room, 0);
        if is_packed {
            page[32..34].copy_from_slice(&(deflated as u16).to_be_bytes());
            page[at..].copy_from_slice(&anew);
        } else {
            // Directory and references stay where they are.
            let dense = Page(page).heap_count().saturating_sub(2);
            let stays = room.saturating_sub(2 * dense + 13 * dense + 200).max(deflated.min(room));
            page[at..at + stays].copy_from_slice(&anew[..stays]);
        }
    }

    fn unsealed(&self, subject: &Subject, random: &mut Random) -> bool {
        let pages = self.pages(subject, random);
        let outcome = self.with_pages(subject, &pages, || {
            rows(Scan::new(Space::open(&subject.path)?, subject.definition.clone())?)
        });
        if let Ok(found) = &outcome {
            assert!(*found == subject.expected, "F2: rows changed in silence");
        }
        outcome.is_err()
    }

    /// The file cut short, with the size that it declares set to fit or not.
    fn cut(&self, subject: &Subject, random: &mut Random) -> bool {
        let length = random.below(subject.whole.len());
        let mut first = subject.page(0).to_vec();
        let declared = random.below(2) == 0;
        if declared {
            first[46..50].copy_from_slice(&((length / subject.size) as u32).to_be_bytes());
            seal(&mut first, subject.format);
        }
        let outcome = self.with_pages(subject, &[(0, first)], || {
            subject.file.set_len(length as u64).expect("a length");
            rows(Scan::new(Space::open(&subject.path)?, subject.definition.clone())?)
        });
        subject.file.write_all_at(&subject.whole, 0).expect("a file");
        if let Ok(found) = &outcome {
            assert!(*found == subject.expected, "F2: rows lost in silence");
        }
        outcome.is_err()
    }

    /// A damaged definition, or another table's, and the rows by it.
    fn written(&self, subject: &Subject, random: &mut Random) -> bool {
        let mut written = subject.written.clone();
        let is_json = written.first() == Some(&b'{');
        for _ in 0..1 + random.below(3) {
            let at = random.below(written.len());
            match random.below(5) {
                // A number in the place of a number.
                0 | 1 if is_json => {
                    let Some(from) = written[at..].iter().position(|b| b.is_ascii_digit()).map(|n| n + at)
                    else {
                        continue;
                    };
                    let to = written[from..]
                        .iter()
                        .position(|b| !b.is_ascii_digit())
                        .map_or(written.len(), |n| n + from);
                    let other =
                        *random.pick(&[0, 1, 2, 7, 64, 255, 256, 4096, 65535, 1 << 31, u64::MAX >> 1]);
                    let other = if random.below(2) == 0 { other } else { random.below(40) as u64 };
                    written.splice(from..to, other.to_string().into_bytes());
                }
                0 => written[at] ^= 1 << random.below(8),
                1 => written[at] = *random.pick(&[0, 1, 0x7f, 0x80, 0xff]),
                2 => written[at] = random.next() as u8,
                3 => written.truncate(at.max(1)),
                _ => {
                    let from = &random.pick(&self.subjects).written;
                    let here = random.below(from.len());
                    let length = (1 + random.below(60)).min(from.len() - here).min(written.len() - at);
                    written[at..at + length].copy_from_slice(&from[here..here + length]);
                }
            }
        }
        let definition = Space::open(&subject.path).and_then(|space| {
            let refused = |(kind, why): (_, String)| Error::new(&subject.path, kind, why);
            let definition = if is_json {
                sdi::parse(&String::from_utf8_lossy(&written)).map_err(refused)?
            } else {
                Definition::of_table(&space, frm::parse(&written, "t".into()).map_err(refused)?)?
            };
            rows(Scan::new(space, definition)?)
        });
        definition.is_err()
    }

    /// A value of each column's type out of any bytes.
    fn value(&self, subject: &Subject, random: &mut Random) -> bool {
        let mut refused = false;
        let dialect = *random.pick(&[Dialect::Rfc4180, Dialect::Mysql, Dialect::Mariadb]);
        let mut lines = Lines::new(dialect, 256);
        let from = random.pick(&self.subjects);
        for column in &subject.definition.table.columns {
            let at = random.below(from.whole.len() - 64);
            let bytes: Vec<u8> = match random.below(3) {
                0 => from.whole[at..at + random.below(64)].to_vec(),
                _ => (0..random.below(24)).map(|_| random.next() as u8).collect(),
            };
            refused |= text::push(&mut lines, column, &bytes).is_err();
            // JSON: objects and arrays, small and large, whose counts and offsets are small numbers.
            let small: Vec<u8> = std::iter::once(random.below(16) as u8)
                .chain((0..random.below(40)).map(|_| random.below(24) as u8))
                .collect();
            refused |= json::text(&small).is_none();
        }
        refused
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|s| s.parse().expect("a number"))
}

fn run(cases: u64) {
    let seed = setting("ONDOL_INNODB_SEED").unwrap_or(1);
    let world = World::new();
    let started = Instant::now();
    let (mut refused, first) = (0u64, seed * 1_000_000_000);
    for case in first..first + cases {
        refused += world.case(case) as u64;
        if (case - first + 1).is_multiple_of(1_000_000) {
            println!("{} cases, {refused} refused, {:?}", case - first + 1, started.elapsed());
        }
    }
    println!("seed {seed}: {cases} cases from {first}, {refused} refused, {:?}", started.elapsed());
    assert!(refused > cases / 10, "only {refused} of {cases} were refused");
    assert!(refused < cases, "none reached what decodes");
}

#[test]
fn damage_is_refused_or_does_no_harm() {
    run(10_000);
}

#[test]
#[ignore = "long: ONDOL_INNODB_CASES, by default ten million"]
fn damage_for_an_hour() {
    run(setting("ONDOL_INNODB_CASES").unwrap_or(10_000_000));
}

#[test]
#[ignore = "needs ONDOL_INNODB_CASE"]
fn one_case() {
    World::new().case(setting("ONDOL_INNODB_CASE").expect("ONDOL_INNODB_CASE"));
}
