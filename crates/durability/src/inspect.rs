//! Offline looks at a database: what its files hold, and whether all of it can be believed. Nothing is
//! changed, and a database that was not recovered yet can be looked at. It must not be open meanwhile.
use crate::block::Header;
use crate::delta::Pieces;
use crate::error::RecoveryError;
use crate::files::Config;
use crate::image::{self, Chunk};
use crate::manifest::Manifest;
use crate::page::{Format, PAGE_SIZE, PageId};
use crate::reader;
use crate::record::{Record, Records};
use crate::scan::{self, Scan, Tables};
use crate::{CommitTs, recovery};
use ondol_base::crc::raw;
use std::collections::BTreeSet;

/// A block of the log.
pub struct BlockView<'a> {
    pub file: &'a str,
    pub header: &'a Header,
    /// Recovery would use it.
    pub live: bool,
    payload: &'a [u8],
}
impl<'a> BlockView<'a> {
    pub fn records(&self) -> Records<'a> {
        Records::new(self.payload, self.header.base)
    }
}

fn manifest(config: &Config) -> Result<(Manifest, Vec<String>), RecoveryError> {
    let fresh = recovery::is_fresh(config)?;
    let found = Manifest::load(&*config.data, fresh)?.ok_or_else(|| RecoveryError::MissingFile {
        file: crate::manifest::NAMES[0].into(),
        why: "there is no database here".into(),
    })?;
    Ok((found.manifest, found.warnings))
}

/// The manifest that counts.
pub fn read_manifest(config: &Config) -> Result<Manifest, RecoveryError> {
    manifest(config).map(|m| m.0)
}

/// Every valid block of every stream, file by file.
pub fn blocks(config: &Config, visit: &mut dyn FnMut(BlockView<'_>)) -> Result<(), RecoveryError> {
    let (m, _) = manifest(config)?;
    // A log that recovery would refuse is looked at all the same, without saying what is live.
    let scan = Scan::read(config, m.clone(), 1).ok();
    let place = |s: &Scan, l: &scan::Live| {
        let f = &s.files[l.file];
        (f.stream, f.number, s.header(*l).offset)
    };
    let live: BTreeSet<(u16, u64, u64)> =
        scan.iter().flat_map(|s| s.live.iter().map(|l| place(s, l)).collect::<Vec<_>>()).collect();
    let mut buffer = vec![];
    for (k, place) in config.streams.iter().enumerate() {
        let list =
            crate::files::list(place).map_err(|error| RecoveryError::Io { file: place.describe(), error })?;
        for number in list {
            let file = place.path(number);
            reader::scan_file(place, k as u16, number, m.database, &mut buffer, &mut |header, payload| {
                let live = live.contains(&(k as u16, number, header.offset));
                visit(BlockView { file: &file, header, live, payload });
            })?;
        }
    }
    Ok(())
}

/// Every image of the checkpoint's files, oldest file first: the file, its T, the page, the packed row bytes.
pub fn pages(
    config: &Config,
    visit: &mut dyn FnMut(&str, CommitTs, PageId, &[u8]),
) -> Result<(), RecoveryError> {
    let (m, _) = manifest(config)?;
    let mut buffer = vec![];
    for reader in scan::open_images(config, &m)? {
        for i in 0..reader.chunks.len() {
            let Chunk::Images(payload) = reader.chunk(i, &mut buffer)? else { continue };
            for (page, _, packed) in image::images(payload).flatten() {
                visit(&reader.name, reader.at, page, packed);
            }
        }
    }
    Ok(())
}

/// What [`verify`] found.
#[derive(Default, Debug)]
pub struct Report {
    pub database: u128,
    /// T of the checkpoint, and the next commit timestamp that recovery would give.
    pub checkpoint: CommitTs,
    pub clock: CommitTs,
    pub rounds: u64,
    pub commits: u64,
    pub live_blocks: u64,
    pub discarded_blocks: u64,
    /// Left in recycled files by their former use.
    pub stale_blocks: u64,
    pub images: u64,
    /// Closed in order.
    pub clean: bool,
    pub warnings: Vec<String>,
    /// Empty when the database is sound.
    pub problems: Vec<RecoveryError>,
}

/// Checks manifest, images and log as recovery would, without memory to recover into and without changing
/// anything. Goes on behind a problem where it can.
pub fn verify(config: &Config) -> Report {
    let mut report = Report::default();
    let (m, warnings) = match manifest(config) {
        Ok(m) => m,
        Err(e) => {
            report.problems.push(e);
            return report;
        }
    };
    (report.database, report.checkpoint, report.clean) = (m.database, m.at, m.clean.is_some());
    report.warnings = warnings;
    let threads = ondol_base::thread::parallelism();
    let log = Scan::read(config, m.clone(), threads);
    let images = scan::open_images(config, &m);
    let mut tables = None;
    match log {
        Err(e) => report.problems.push(e),
        Ok(mut scan) => {
            (report.clock, report.discarded_blocks) = (scan.clock, scan.discarded);
            report.rounds = (scan.round + 1).saturating_sub(m.first_round);
            report.live_blocks = scan.live.len() as u64;
            report.stale_blocks = scan.files.iter().map(|f| f.stale).sum();
            match scan::gather(&mut scan) {
                Err(e) => report.problems.push(e),
                Ok(gathered) => {
                    report.commits = gathered.commits;
                    if let Ok(images) = &images {
                        match Tables::build(&scan, images, &gathered) {
                            Ok(t) => tables = Some(t),
                            Err(e) => report.problems.push(e),
                        }
                    }
                    if let Some(t) = &tables {
                        check_changes(&scan, t, &mut report);
                    }
                }
            }
        }
    }
    match images {
        Err(e) => report.problems.push(e),
        Ok(images) => {
            for reader in &images {
                if let Err(e) = check_images(reader, tables.as_ref(), &mut report.images) {
                    report.problems.push(e)
                }
            }
        }
    }
    report
}

/// Whether every difference falls on row bytes of a page that is there.
fn check_changes(scan: &Scan, tables: &Tables, report: &mut Report) {
    let mut buffer = vec![];
    for run in scan.runs() {
        match scan.read_run(&run, &mut buffer) {
            Ok(blocks) => {
                blocks.iter().for_each(|(l, payload)| check_block(scan, *l, payload, tables, report))
            }
            Err(e) => report.problems.push(e),
        }
    }
}

fn check_block(scan: &Scan, l: scan::Live, payload: &[u8], tables: &Tables, report: &mut Report) {
    let h = scan.header(l);
    for record in Records::new(&payload[..h.payload as usize], h.base) {
        let changes = match record {
            Ok((_, Record::Commit { ts, changes, .. })) if ts > scan.manifest.at => changes,
            Ok(_) => continue,
            Err(e) => {
                report.problems.push(scan.bad_record(l, e));
                break;
            }
        };
        for piece in Pieces::new(changes) {
            let place = |expected: &str, found: String| RecoveryError::Block {
                file: scan.files[l.file].name.clone(),
                offset: h.offset,
                expected: expected.into(),
                found,
            };
            let (address, bytes) = match piece {
                Ok(p) => p,
                Err(m) => {
                    report.problems.push(place(m.0, "what cannot be decoded".into()));
                    break;
                }
            };
            for (page, offset, part) in crate::delta::by_page(address, bytes) {
                let format = match tables.segments.get(&page.segment()) {
                    Some(s) => s.segment.formats[page.index()],
                    None if tables.dropped.contains_key(&page.segment()) => continue,
                    None => Format::Unformatted,
                };
                if !format.is_row(offset, part.len()) {
                    report
                        .problems
                        .push(place("row bytes of one slot", format!("address {address:x} on {format:?}")));
                }
            }
        }
    }
}

fn check_images(
    reader: &image::ImageReader,
    tables: Option<&Tables>,
    count: &mut u64,
) -> Result<(), RecoveryError> {
    let mut content = vec![0u8; PAGE_SIZE];
    let mut buffer = vec![];
    for i in 0..reader.chunks.len() {
        let Chunk::Images(payload) = reader.chunk(i, &mut buffer)? else { continue };
        let bad = |expected: String, found: String| RecoveryError::Image {
            file: reader.name.clone(),
            offset: reader.chunks[i].0,
            expected,
            found,
        };
        for item in image::images(payload) {
            let (page, crc, packed) =
                item.map_err(|at| bad("whole images".into(), format!("a cut one {at} bytes in")))?;
            *count += 1;
            // Without the tables the formats are not known; the chunk's checksum stands all the same.
            let Some(s) = tables.and_then(|t| t.segments.get(&page.segment())) else { continue };
            if s.created > reader.at {
                continue;
            }
            content.fill(0);
            let fits = image::unpack(s.segment.formats[page.index()], packed, &mut content);
            let found = raw(&content);
            if !fits || found != crc {
                return Err(bad(format!("page {} of checksum {crc:08x}", page.0), format!("{found:08x}")));
            }
        }
    }
    Ok(())
}
