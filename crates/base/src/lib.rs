//! The floor that alone touches the outside world: media (files, mapped memory), clock, randomness,
//! threads, fibers and parking, the pool of workers, the timer, latches and epochs. Everything above goes
//! through here, so that the simulator ([`sim`]) can own all of it.
//!
//! What is deliberately absent: no SQL, no records, no pages, no log format.
// Mapped memory, non-temporal stores, epoch reclamation, plain text: each block names its invariant.
#![allow(unsafe_code)]

pub mod ascii;
pub mod barrier;
pub mod cancel;
pub mod clock;
pub mod crc;
pub mod csv;
pub mod epoch;
pub mod event;
pub mod fiber;
pub mod fork;
pub mod heap;
pub mod interrupt;
pub mod media;
pub mod net;
pub mod oid;
pub mod ordered;
pub mod park;
pub mod pool;
pub mod random;
pub mod reserve;
pub mod shm;
pub mod sim;
pub mod sync;
pub mod thread;
pub mod timer;

/// A function that is compiled twice, once for processors with vectors of 256 bits and the instructions on
/// bits that came with them, and takes what there is.
///
/// What it calls is compiled for them where it is inlined, and closures are; but an iterator's adapter that
/// is not inlined calls them one by one. The only unsafe code is the call of the wider one behind the
/// question whether the processor has it: a crate that denies unsafe code may use this.
#[macro_export]
macro_rules! widest {
    ($(#[$note:meta])* $visible:vis fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? $body:block) => {
        $(#[$note])*
        $visible fn $name($($argument: $type),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            if ::std::arch::is_x86_feature_detected!("avx2")
                && ::std::arch::is_x86_feature_detected!("bmi1")
                && ::std::arch::is_x86_feature_detected!("bmi2")
                && ::std::arch::is_x86_feature_detected!("lzcnt")
            {
                // A name that no body calls something else by.
                #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
                fn widest_made_wide($($argument: $type),*) $(-> $result)? $body
                // SAFETY: the instructions were detected just now.
                return unsafe { widest_made_wide($($argument),*) };
            }
            $body
        }
    };
}
