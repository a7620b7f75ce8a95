//! The two sides of a handshake: one comes often, the other seldom.
//!
//! Both sides store a word of their own and then look at the other's. Unless each passes a fence between the
//! two, both may miss what the other stored, since a store waits in its processor's buffer while later loads
//! go ahead. A full fence keeps the loads behind it from starting before those ahead of it are over, which
//! for a reader whose data is not in the cache is most of its time. So here the frequent side only keeps the
//! compiler from reordering, and the rare side has the system put a fence into every running thread
//! (`membarrier`).
//!
//! - **B1** [`light`] stands between the frequent side's store and its loads, [`heavy`] between the rare
//!   side's. Of a `light` and a `heavy` one comes first: either the rare side sees what was stored before the
//!   `light`, or the loads behind the `light` see what was stored before the `heavy`.
//! - **B2** Where the system refuses, `light` is a full fence, and `heavy` as well. That is decided once, in
//!   [`prepare`], before the first of either.
//! - **B3** `heavy` interrupts every processor that runs a thread of the process. No call of a user's that
//!   may come often passes one each time: those who collect are held to [`Seldom`], the others change
//!   definitions.
//!
//! Two `light`s give no order among themselves, nor do two orders of a store and a load on the frequent side
//! that are not matched by a `heavy`. `tests/barrier.rs` tries all interleavings of the protocols that rest
//! on this, with store buffers, and what becomes of them without it.
//!
//! Sources: membarrier(2); Dice, Huang, Yang, "Asymmetric Dekker synchronization" (2001).
use crate::{clock, sim, sync};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, compiler_fence, fence};
use std::time::Duration;

/// How often collectors pass a [`heavy`] at most, each kind of them.
pub const INTERVAL: Duration = Duration::from_millis(1);

/// False: both sides pass full fences. Written before anything is shared that needs them (B2).
static ASYMMETRIC: AtomicBool = AtomicBool::new(false);

/// Asks the system for its part, once a process; true if it agreed.
pub fn prepare() -> bool {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let agreed = membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0
            && membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
        ASYMMETRIC.store(agreed, Ordering::SeqCst)
    });
    ASYMMETRIC.load(Ordering::Relaxed)
}

fn membarrier(command: impl Into<libc::c_long>) -> libc::c_long {
    // SAFETY: touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command.into(), 0, 0) }
}

/// The frequent side's.
#[inline(always)]
pub fn light() {
    if ASYMMETRIC.load(Ordering::Relaxed) {
        compiler_fence(Ordering::SeqCst)
    } else {
        fence(Ordering::SeqCst)
    }
}

/// The rare side's. Includes a full fence.
#[track_caller]
pub fn heavy() {
    sync::yield_point();
    fence(Ordering::SeqCst);
    if ASYMMETRIC.load(Ordering::Relaxed) {
        let mut turn = 0;
        while membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0 {
            if std::io::Error::last_os_error().raw_os_error() != Some(libc::ENOMEM) {
                // Readers count on it, and cannot be told: memory would be freed under them.
                eprintln!("ondol: the system granted membarrier at the start and refuses it now");
                std::process::abort()
            }
            sync::spin_wait(turn);
            turn += 1;
        }
    }
    fence(Ordering::SeqCst);
    sync::yield_point();
}

/// Does something at most once each [`INTERVAL`], and for a [`SHARE`]th of the time, since what it looks at
/// may be the lines of many sessions; in a simulated world always, as there the interleavings count.
#[derive(Default)]
pub struct Seldom {
    /// Nanoseconds from which on it is due.
    next: AtomicU64,
}

/// See [`Seldom`].
pub const SHARE: u64 = 20;

impl Seldom {
    /// What `f` gives, if it is due and nobody else does it.
    pub fn run<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        if sim::any() {
            return Some(f());
        }
        let now = || clock::now().as_nanos() as u64;
        let (began, next) = (now(), self.next.load(Ordering::Relaxed));
        let after = began + INTERVAL.as_nanos() as u64;
        let taken = began >= next
            && self.next.compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        taken.then(|| {
            let done = f();
            self.next.fetch_max(began + (now() - began) * SHARE, Ordering::Relaxed);
            done
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    /// Refuses this process, and what it becomes, the system call, as a container may.
    fn refuse_membarrier() -> std::io::Result<()> {
        let op = |code: u32, k: u32, no: u8| libc::sock_filter { code: code as u16, jt: 0, jf: no, k };
        let filter = [
            // The number of the system call is the first word of what the filter is given.
            op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
            op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_membarrier as u32, 1),
            op(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0),
            op(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
        ];
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
        // SAFETY: the program outlives the calls, which copy it.
        let done = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) == 0
        };
        if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    }

    #[test]
    #[ignore = "run by the next one, in a process of its own"]
    fn without_the_system() {
        assert!(!prepare());
        heavy();
    }

    #[test]
    fn where_the_system_refuses_both_sides_pass_full_fences() {
        let mut tests = Command::new(std::env::current_exe().unwrap());
        tests.args(["--include-ignored", "without_the_system", "on_real_threads"]);
        // SAFETY: two system calls between fork and exec.
        unsafe { tests.pre_exec(refuse_membarrier) };
        let done = tests.output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success() && said.contains("3 passed"), "{said}");
    }

    #[test]
    fn seldom_is_no_more_often() {
        let (seldom, start) = (Seldom::default(), clock::now());
        let mut granted = 0;
        while clock::now() - start < 20 * INTERVAL {
            granted += seldom.run(|| ()).is_some() as u32;
        }
        let most = (clock::now() - start).as_nanos() / INTERVAL.as_nanos() + 1;
        assert!(granted >= 2 && u128::from(granted) <= most, "{granted} of {most}");
        // What takes long is done the more seldom.
        let (mut begun, start) = (vec![], clock::now());
        while clock::now() - start < 100 * INTERVAL {
            seldom.run(|| {
                let began = clock::now();
                std::thread::sleep(INTERVAL);
                begun.push((began, clock::now() - began))
            });
        }
        assert!(!begun.is_empty());
        let often = |two: &[(Duration, Duration)]| two[1].0 < two[0].0 + two[0].1 * SHARE as u32;
        assert!(!begun.windows(2).any(often), "{begun:?}");
    }
}
