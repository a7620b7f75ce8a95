//! Random numbers: seeded by the operating system, or the simulated world's.
use crate::sim;
use std::cell::RefCell;
use std::hash::{BuildHasher, Hasher};

thread_local! {
    /// Outside of worlds only: each thread has its generator, so that drawing shares nothing.
    static GENERATOR: RefCell<sim::Random> = RefCell::new(seeded());
}

/// The standard library takes the keys of its hash maps from the operating system, and varies them at each
/// use; time and an address tell processes apart where it has no entropy to give.
fn seeded() -> sim::Random {
    let mut h = std::collections::hash_map::RandomState::new().build_hasher();
    h.write_i64(crate::clock::wall_us());
    h.write_u32(std::process::id());
    h.write_usize(std::ptr::from_ref(&h) as usize);
    sim::Random::new(h.finish())
}

/// Not for cryptography.
pub fn next_u64() -> u64 {
    if let Some(world) = sim::current() {
        return world.random();
    }
    // A thread that is ending has lost its generator.
    GENERATOR.try_with(|g| g.borrow_mut().next()).unwrap_or_else(|_| seeded().next())
}

/// Bytes that nobody can guess, from the system's generator: for keys and nonces. A world's are its own.
pub fn secret<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    if let Some(world) = sim::current() {
        bytes.fill_with(|| world.random() as u8);
        return Ok(bytes);
    }
    let mut have = 0;
    while have < N {
        // SAFETY: so many bytes to write.
        let n = unsafe { libc::getrandom(bytes[have..].as_mut_ptr().cast(), N - have, 0) };
        match usize::try_from(n) {
            Ok(n) => have += n,
            Err(_) => {
                let e = std::io::Error::last_os_error();
                if e.kind() != std::io::ErrorKind::Interrupted {
                    return Err(e);
                }
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_differ_within_and_between_threads() {
        let draw = || (0..1000).map(|_| super::next_u64()).collect::<Vec<_>>();
        let others: Vec<_> = (0..4).map(|_| std::thread::spawn(draw)).collect();
        let mut all = draw();
        for o in others {
            all.extend(o.join().unwrap())
        }
        let ones: u32 = all.iter().map(|n| n.count_ones()).sum();
        assert!((158_000..162_000).contains(&ones), "{ones} of 320,000 bits");
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 5000);
    }
}
