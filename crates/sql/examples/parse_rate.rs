//! How long a short statement takes to parse, and how many times the rate of one thread two have.
use std::hint::black_box;
use std::time::{Duration, Instant};

const TEXT: &str = "SELECT a, b FROM t WHERE id = $1";
const ROUNDS: usize = 9;
const SPAN: Duration = Duration::from_millis(400);

/// Texts parsed while the span lasts, by so many threads, a second.
fn rate(threads: usize) -> f64 {
    let count = || {
        let (began, mut n) = (Instant::now(), 0u64);
        while began.elapsed() < SPAN {
            for _ in 0..20 {
                black_box(ondol_sql::parse::parse(black_box(TEXT))).expect("a statement");
            }
            n += 20
        }
        n as f64 / began.elapsed().as_secs_f64()
    };
    std::thread::scope(|s| {
        let all: Vec<_> = (0..threads).map(|_| s.spawn(count)).collect();
        all.into_iter().map(|t| t.join().expect("a count")).sum()
    })
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn main() {
    let rounds: Vec<(f64, f64)> = (0..ROUNDS).map(|_| (rate(1), rate(2))).collect();
    let one = median(rounds.iter().map(|r| r.0).collect());
    let ratio = median(rounds.iter().map(|r| r.1 / r.0).collect());
    println!("{TEXT}");
    println!(
        "one thread: {:.2} µs a text; two threads: {ratio:.2} times its rate (medians of {ROUNDS})",
        1e6 / one
    );
}
