//! What the ring can bring to a cluster here, measured, and what is set wrong: `ondol pgwal doctor`.
//!
//! It writes a file to `pg_wal` and one beside the ring (or to `pg_wal` again), which are gone when it ends.
use crate::command::{at, system};
use ondol_ring::file::{self, Mapping};
use ondol_ring::{Files, Ring, Segment};
use std::fmt::Write;
use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const PAGE: usize = 8192;
/// Of the file that is written to.
const LEN: u64 = 4 << 20;
/// Each way of writing is tried so often, or so long.
const TIMES: usize = 400;
const LONG: Duration = Duration::from_millis(700);

/// Before Linux 5.8, syncfs does not tell of writes that failed: what the ring frees after a process died
/// rests on it.
pub fn kernel_tells_of_failed_writes() -> Result<(), String> {
    let path = Path::new("/proc/sys/kernel/osrelease");
    let text = std::fs::read_to_string(path).map_err(at(path))?;
    let mut numbers = text.split(['.', '-']).map_while(|n| n.trim().parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < (5, 8) {
        return Err(format!("Linux 5.8 or newer is needed, this is {}", text.trim()));
    }
    Ok(())
}

struct Report {
    findings: String,
    advice: Vec<String>,
}
impl Report {
    fn find(&mut self, name: &str, found: impl std::fmt::Display) {
        let _ = writeln!(self.findings, "{name:<30} {found}");
    }
}

/// Examines a data directory, and the ring or the place for one.
pub fn examine(data: &Path, ring: Option<&Path>) -> Result<String, String> {
    let mut r = Report { findings: String::new(), advice: vec![] };
    let wal = data.join("pg_wal");
    let wal = wal.canonicalize().map_err(at(&wal))?;
    r.find("data directory", data.display());
    r.find("pg_wal", format!("{}, on {}", wal.display(), file_system(&wal)));
    if let Err(why) = kernel_tells_of_failed_writes() {
        r.advice.push(format!("{why}."))
    }
    if !cfg!(target_arch = "x86_64") {
        r.advice.push(
            "Only on x86-64 are lines written back from user space: no ring for power failures here.".into(),
        )
    }
    born(&mut r, data)?;
    let best = methods(&mut r, &wal)?;
    let place = match ring {
        None => None,
        Some(p) if p.is_dir() => Some(p.to_path_buf()),
        Some(p) => std::path::absolute(p).map_err(at(p))?.parent().map(Path::to_path_buf),
    };
    if let Some(place) = place {
        let with = medium(&mut r, &place, &wal)?;
        r.advice.push(format!(
            "A commit alone waits {:.0} us for its WAL now, by the quickest method of those above, and would wait {:.1} us.",
            best, with
        ));
    } else {
        r.advice.push("With --ring PATH (a folder will do) the medium there is looked at, too.".into())
    }
    settings(&mut r, data);
    let mut text = r.findings;
    text.push('\n');
    for line in r.advice {
        let _ = writeln!(text, "{line}");
    }
    Ok(text)
}

/// The mounted file system of a folder: its type and its device.
fn file_system(folder: &Path) -> String {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let found = mounts.lines().filter_map(|l| {
        let mut fields = l.split(' ');
        let (device, place, kind, options) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        folder.starts_with(place).then_some((place.len(), device, kind, options))
    });
    match found.max_by_key(|f| f.0) {
        Some((_, device, kind, options)) => {
            let dax = if options.split(',').any(|o| o.starts_with("dax")) { ", dax" } else { "" };
            format!("{kind} ({device}{dax})")
        }
        None => "an unknown file system".into(),
    }
}

fn born(r: &mut Report, data: &Path) -> Result<(), String> {
    let folder = File::open(data).map_err(at(data))?;
    match file::identity(folder.as_raw_fd(), true) {
        Ok(_) => r.find("birth times", "kept"),
        Err(libc::ENOTSUP) => {
            r.find("birth times", "not kept");
            r.advice.push("This file system keeps no birth times, so that no ring can be made: a copy could pass for the original.".into())
        }
        Err(n) => return Err(at(data)(system(n))),
    }
    Ok(())
}

/// A file that is gone when it is dropped.
struct Scratch(File, PathBuf);
impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_file(&self.1).ok();
    }
}
fn scratch(folder: &Path, flags: i32, len: u64) -> Result<Scratch, String> {
    let path = folder.join(format!("ondol-doctor.{}", std::process::id()));
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true).mode(0o600);
    let made = options.open(&path).map_err(at(&path))?;
    let scratch = Scratch(made, path);
    let path = &scratch.1;
    scratch
        .0
        .write_all_at(&vec![0; len as usize], 0)
        .and_then(|()| scratch.0.sync_all())
        .map_err(at(path))?;
    if flags == 0 {
        return Ok(scratch);
    }
    let again = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).map_err(at(path))?;
    let path = path.clone();
    std::mem::forget(scratch);
    Ok(Scratch(again, path))
}
/// Median and 99th percentile of what `once` takes, in microseconds.
fn measured(mut once: impl FnMut(u64) -> Result<(), String>) -> Result<(f64, f64), String> {
    let began = Instant::now();
    let mut took = vec![];
    while took.len() < TIMES && (began.elapsed() < LONG || took.len() < 10) {
        let start = Instant::now();
        once((took.len() * PAGE) as u64 % LEN)?;
        took.push(start.elapsed().as_secs_f64() * 1e6);
    }
    took.sort_by(f64::total_cmp);
    Ok((took[took.len() / 2], took[took.len() * 99 / 100]))
}

/// What each `wal_sync_method` costs for a page; the least median.
fn methods(r: &mut Report, wal: &Path) -> Result<f64, String> {
    let mut best = f64::INFINITY;
    for (name, flags, call) in [
        ("fdatasync", 0, Some(file::sync_data as fn(i32) -> Result<(), i32>)),
        ("fsync", 0, Some(file::sync as _)),
        ("open_datasync", libc::O_DSYNC, None),
        ("open_sync", libc::O_SYNC, None),
    ] {
        let s = scratch(wal, flags, LEN)?;
        let failed = at(&s.1);
        let (mid, high) = measured(|place| {
            s.0.write_all_at(&[7; PAGE], place).map_err(&failed)?;
            call.map_or(Ok(()), |c| c(s.0.as_raw_fd())).map_err(|n| failed(system(n)))
        })?;
        r.find(
            &format!("wal_sync_method={name}"),
            format!("{mid:.0} us for a page (99 % within {high:.0} us)"),
        );
        best = best.min(mid);
    }
    Ok(best)
}

/// Files that are never synced: only appending is measured.
struct Unsynced;
impl Files for Unsynced {
    fn sync(&self, _: &Segment, _: Range<u64>, _: u64) -> Result<bool, i32> {
        Ok(true)
    }
    fn sync_all(&self) -> Result<(), i32> {
        Ok(())
    }
    fn myself(&self) -> u64 {
        1
    }
    fn is_dead(&self, _: u64) -> bool {
        false
    }
    fn wait(&self, _: u64) {}
    fn now(&self) -> u64 {
        0
    }
}

/// What a ring in this folder is, and what a write with it costs, in microseconds.
fn medium(r: &mut Report, place: &Path, wal: &Path) -> Result<f64, String> {
    const RING: u64 = 2 << 20;
    r.find("the ring's folder", format!("{}, on {}", place.display(), file_system(place)));
    let s = scratch(place, 0, RING)?;
    let memory = Mapping::new(s.0.as_raw_fd(), RING as usize).map_err(|n| at(&s.1)(system(n)))?;
    if memory.power {
        r.find("MAP_SYNC", "granted: a fence makes a write durable, also for a power failure");
    } else {
        r.find("MAP_SYNC", "refused: an emulation, for the end of processes alone");
        r.advice.push(
            "The ring's folder is not on persistent memory: only --promise server-crash is had there, and a power failure may then cost the cluster."
                .into(),
        );
    }
    let regions = std::fs::read_dir("/sys/bus/nd/devices").map(|d| d.flatten().collect()).unwrap_or(vec![]);
    let one = |path: PathBuf| std::fs::read_to_string(path).map(|t| t.trim().to_string()).ok();
    for region in &regions {
        let name = region.file_name().to_string_lossy().into_owned();
        if let Some(domain) = one(region.path().join("persistence_domain")) {
            r.find(&format!("{name}: persistence domain"), &domain);
            if !["memory_controller", "cpu_cache"].contains(&domain.as_str()) {
                r.advice.push(format!("{name} names no persistence domain that is enough: its fences may be worth nothing at a power failure."))
            }
        }
        if one(region.path().join("provider")).as_deref() == Some("e820") {
            r.advice.push(format!("{name} is memory that the kernel was told is persistent (memmap=, or an old NVDIMM): see that it is."))
        }
    }
    let ring = Ring::new(memory, RING as usize).ok_or("the ring is too small")?;
    ring.format();
    let target = scratch(wal, 0, LEN)?;
    let segment = Segment { timeline: 1, log: 0, part: 1, inode: 1 };
    let (mid, high) = measured(|place| {
        let held = ring.enter(&Unsynced).map_err(|e| format!("{e:?}"))?;
        target.0.write_all_at(&[7; PAGE], place).map_err(at(&target.1))?;
        held.append(segment, place, PAGE, |_, to| to.fill(7)).map_err(|e| format!("{e:?}"))
    })?;
    r.find("a page to the file and a ring", format!("{mid:.1} us (99 % within {high:.1} us)"));
    Ok(mid)
}

/// What the server says that is set, as it would start; and whether one that runs has the library.
fn settings(r: &mut Report, data: &Path) {
    let Some(options) = std::fs::read_to_string(data.join("postmaster.opts")).ok() else {
        r.advice.push(
            "The settings were not looked at: no server was started here yet (there is no postmaster.opts)."
                .into(),
        );
        return;
    };
    let mut words = options.split_whitespace().map(|w| w.trim_matches('"').to_string());
    let Some(program) = words.next() else {
        return;
    };
    let rest: Vec<String> = words.collect();
    let owner = std::fs::metadata(data).map(|m| (m.uid(), m.gid()));
    let ask = |name: &str| {
        let mut c = std::process::Command::new(&program);
        c.args(&rest).args(["-C", name]).env_remove("LD_PRELOAD").env_remove("ONDOL_PGWAL_RING");
        // The server does not run for root.
        if let Ok((user, group)) = owner
            && file_owner() == 0
        {
            c.uid(user).gid(group);
        }
        let out = c.output().ok().filter(|o| o.status.success())?;
        Some(String::from_utf8_lossy(&out.stdout).trim().to_string())
    };
    for (name, wanted, why) in [
        ("fsync", "on", "without it, nothing that the ring makes durable helps the tables' files"),
        ("full_page_writes", "on", "the ring protects the WAL, not pages that a power failure tears"),
        (
            "wal_init_zero",
            "on",
            "else the first sync of each part of a segment allocates: commits do not wait for it, but the ring is freed more slowly",
        ),
        ("wal_recycle", "on", "else segments are made anew, with syncs of their own"),
        ("synchronous_commit", "on", "the ring brings nothing to commits that do not wait"),
    ] {
        match ask(name) {
            Some(is) => {
                r.find(name, &is);
                let fine = is == wanted || name == "synchronous_commit" && is != "off";
                if !fine {
                    r.advice.push(format!("{name} is {is}; it should be {wanted}: {why}."))
                }
            }
            None => r.find(name, "not told (a marked cluster's programs refuse to start)"),
        }
    }
    let pid = std::fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    if let Some(pid) = pid.lines().next() {
        match std::fs::read_to_string(format!("/proc/{pid}/maps")) {
            Ok(maps) => {
                let has = maps.contains("libondol_pgwal.so");
                r.find(
                    "the running server",
                    if has { "has the library" } else { "does not have the library" },
                );
            }
            Err(_) => r.find("the running server", "cannot be looked at"),
        }
    }
}
fn file_owner() -> u32 {
    std::fs::metadata("/proc/self").map(|m| m.uid()).unwrap_or(1)
}
