//! The timer's thread, in a process of its own: there is none before an alarm is armed, one for any number of
//! them, and none after the last is gone.
use ondol_base::cancel::Cancel;
use ondol_base::park::Parker;
use ondol_base::timer::Alarm;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Threads of this process that are named as the timer's.
fn timers() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").expect("threads");
    let name =
        |t: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(t.ok()?.path().join("comm")).ok();
    threads.filter_map(name).filter(|n| n.trim() == "ondol-timer").count()
}

fn wait_for(timers_wanted: usize) {
    let began = Instant::now();
    while timers() != timers_wanted {
        assert!(began.elapsed() < Duration::from_secs(20), "{} timers, not {timers_wanted}", timers());
        std::thread::sleep(Duration::from_millis(1))
    }
}

#[test]
fn one_thread_for_all_alarms_and_none_without() {
    let new = || {
        let cancel = Arc::new(Cancel::new());
        (Alarm::new(cancel.clone(), Arc::new(Parker::new())), cancel)
    };
    let mut all: Vec<_> = (0..300).map(|_| new()).collect();
    assert_eq!(timers(), 0);
    for turn in 0..3 {
        for (n, (alarm, cancel)) in all.iter_mut().enumerate() {
            cancel.begin();
            alarm.arm(Duration::from_millis(n as u64 % 50)).expect("a timer");
        }
        wait_for(1);
        let began = Instant::now();
        while !all.iter().all(|(_, cancel)| cancel.is_told_by_timer()) {
            assert!(began.elapsed() < Duration::from_secs(20), "turn {turn}: some were not told");
            std::thread::sleep(Duration::from_millis(1))
        }
        all.iter().for_each(|(alarm, _)| alarm.disarm())
    }
    assert_eq!(timers(), 1);
    all.truncate(1);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(timers(), 1, "one is left");
    all.clear();
    wait_for(0);
    // It starts again.
    all.push(new());
    all[0].1.begin();
    all[0].0.arm(Duration::from_millis(1)).expect("a timer");
    wait_for(1);
    all.clear();
    wait_for(0);
}
