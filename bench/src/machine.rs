//! The machine that a figure belongs to, and whether it was left in peace meanwhile.
//!
//! - **M1** "A core" is a CPU second of all threads of this process, as the kernel counts it.
//! - **M2** A run is called quiet only if the load average was low when it began and other processes took
//!   little CPU time while it ran; otherwise the report says that its figures are not to be quoted.
use crate::Result;
use rustix::thread::{CpuSet, sched_getaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The highest load average at the start of a quiet run.
const QUIET_LOAD: f64 = 0.5;
/// The largest share of one CPU that others may take in a quiet run.
const QUIET_OTHERS: f64 = 0.10;

/// CPU seconds that this process has used, all threads.
pub fn cpu_seconds() -> f64 {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

/// The numbers of a process's line in /proc from the CPU seconds on: its own (user, system), and those of its
/// children that ended and were waited for. With fewer it is gone.
fn ticks(process: &str) -> Vec<f64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // After the name in brackets come the state and ten numbers; a tick is a hundredth of a second on Linux.
    let after = text.rsplit_once(')').map_or("", |(_, t)| t);
    after.split_whitespace().skip(11).take(4).filter_map(|f| f.parse().ok()).map(|t: f64| t / 100.0).collect()
}

/// CPU seconds of this process's children that ended and were waited for, with theirs.
pub fn children_seconds() -> f64 {
    ticks("self").iter().skip(2).sum()
}

/// CPU seconds of a process and all that it began, whether they still run or were waited for.
pub fn family_seconds(process: u32) -> f64 {
    let below = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    let own: f64 = ticks(&process.to_string()).iter().sum();
    own + below.split_whitespace().filter_map(|p| p.parse().ok()).map(family_seconds).sum::<f64>()
}

fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|l| l.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

fn kilobytes(file: &str, name: &str) -> u64 {
    field(file, name).and_then(|v| v.split(' ').next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Bytes of memory that this process has in RAM.
pub fn resident_bytes() -> u64 {
    kilobytes("/proc/self/status", "VmRSS")
}

/// Bytes of memory that a process has in RAM.
pub fn resident_bytes_of(process: u32) -> u64 {
    kilobytes(&format!("/proc/{process}/status"), "VmRSS")
}

/// Bytes of memory that a process and all that it began have in RAM, of their own: no files', nothing shared.
fn own_bytes_of(process: u32) -> u64 {
    let below = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    let own = kilobytes(&format!("/proc/{process}/status"), "RssAnon");
    own + below.split_whitespace().filter_map(|p| p.parse().ok()).map(own_bytes_of).sum::<u64>()
}

/// Looks at a process's memory of its own, with that of all that it began.
pub struct Memory {
    over: Arc<AtomicBool>,
    before: u64,
    watcher: std::thread::JoinHandle<u64>,
}

impl Memory {
    pub fn watch(process: u32) -> Memory {
        let over = Arc::new(AtomicBool::new(false));
        let (told, before) = (over.clone(), own_bytes_of(process));
        let watcher = std::thread::spawn(move || {
            let mut most = 0;
            while !told.load(Ordering::Relaxed) {
                most = own_bytes_of(process).max(most);
                std::thread::sleep(Duration::from_millis(5))
            }
            most
        });
        Memory { over, before, watcher }
    }
    /// The most that it had, less what it had in the beginning.
    pub fn most(self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        self.watcher.join().map_or(0, |most| most.saturating_sub(self.before))
    }
}

/// Has the allocator give memory that it does not use back to the system.
#[expect(unsafe_code)]
pub fn give_back() {
    // SAFETY: it is about memory that nobody uses.
    unsafe { libc::malloc_trim(0) };
}

/// Bytes that this process has passed to `write` and its kin.
pub fn written_bytes() -> u64 {
    field("/proc/self/io", "wchar").and_then(|v| v.parse().ok()).unwrap_or(0)
}

pub fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(f64::NAN)
}

/// Type of the file system that holds a path.
pub fn file_system(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let holds = |l: &&str| l.split(' ').nth(1).is_some_and(|m| path.starts_with(m));
    let longest = mounts.lines().filter(holds).max_by_key(|l| l.split(' ').nth(1).map_or(0, str::len));
    longest.and_then(|l| l.split(' ').nth(2)).unwrap_or("unknown").to_string()
}

/// CPU seconds of the whole machine that were not idle, those stolen by its host included.
fn busy_seconds() -> f64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks: Vec<f64> =
        text.lines().next().unwrap_or("").split_whitespace().skip(1).filter_map(|n| n.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; a tick is a hundredth of a second on Linux.
    ticks.iter().take(8).enumerate().filter(|(i, _)| *i != 3 && *i != 4).map(|(_, t)| t / 100.0).sum()
}

/// Watches the machine from the start of a run.
pub struct Machine {
    load: f64,
    busy: f64,
    cpu: f64,
    start: Instant,
}

impl Machine {
    pub fn watch() -> Machine {
        Machine { load: load_average(), busy: busy_seconds(), cpu: cpu_seconds(), start: Instant::now() }
    }

    /// What it is.
    pub fn description() -> Vec<(String, String)> {
        let cpu = field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.into());
        let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let os = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let os = os
            .lines()
            .find_map(|l| l.strip_prefix("PRETTY_NAME="))
            .unwrap_or("Linux")
            .trim_matches('"')
            .to_string();
        let memory = kilobytes("/proc/meminfo", "MemTotal") as f64 / (1u64 << 30) as f64;
        vec![
            ("processor".into(), format!("{cpu}, {cpus} CPUs")),
            ("memory".into(), format!("{memory:.1} GiB")),
            ("system".into(), format!("{os}, kernel {}", kernel.trim())),
        ]
    }

    /// M2: what disturbed the run, or nothing. Child processes of the run count as others: `children_s` is
    /// what they took.
    pub fn disturbed(&self, children_s: f64) -> Option<String> {
        let seconds = self.start.elapsed().as_secs_f64().max(0.001);
        let others = (busy_seconds() - self.busy) - (cpu_seconds() - self.cpu) - children_s;
        let share = (others / seconds).max(0.0);
        let mut why = Vec::new();
        if self.load.is_nan() || self.load > QUIET_LOAD {
            why.push(format!("the load average was {:.2} at the start", self.load));
        }
        if share > QUIET_OTHERS {
            why.push(format!("other processes took {:.0} % of a CPU meanwhile", share * 100.0));
        }
        (!why.is_empty()).then(|| why.join("; "))
    }
}

/// The processors that this thread may use; those of servers; and the clients' own: the last, where there
/// are several.
pub fn shares() -> Result<(CpuSet, CpuSet, CpuSet)> {
    let whole = sched_getaffinity(None)?;
    let (mut servers, mut clients) = (whole, CpuSet::new());
    let last = (0..CpuSet::MAX_CPU).rfind(|n| servers.is_set(*n)).ok_or("no processor is ours")?;
    clients.set(last);
    if servers.count() > 1 {
        servers.unset(last)
    }
    Ok((whole, servers, clients))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loaded_machine_is_not_quiet() {
        let mut m = Machine::watch();
        m.load = 3.0;
        assert!(m.disturbed(0.0).expect("disturbed").contains("load average was 3.00"));
        m.load = f64::NAN;
        assert!(m.disturbed(0.0).is_some(), "an unknown load is no quiet one");
        m.load = 0.0;
        m.busy -= 1000.0;
        assert!(m.disturbed(0.0).expect("disturbed").contains("other processes"));
        assert!(!m.disturbed(2000.0).unwrap_or_default().contains("other processes"));
    }

    #[test]
    fn the_kernel_tells() {
        let before = cpu_seconds();
        // A family's time is told in hundredths of a second, which the first turn may not have taken.
        let began = std::time::Instant::now();
        while cpu_seconds() == before || family_seconds(std::process::id()) == 0.0 {
            assert!(began.elapsed().as_secs() < 60, "the kernel tells of no time");
            (0..20_000_000u64).for_each(|i| _ = std::hint::black_box(i));
        }
        assert!(resident_bytes() > 1 << 16);
        assert_eq!(file_system(Path::new("/proc/self/status")), "proc");
        assert_eq!(family_seconds(0), 0.0);
        // A shell that counts for a while.
        let before = children_seconds();
        let done = std::process::Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"])
            .status();
        assert!(done.is_ok_and(|s| s.success()) && children_seconds() > before);
    }
}
