//! The floor that alone touches the outside world: media (files, mapped memory), clock, randomness,
//! threads and parking, latches and epochs. Everything above goes through here, so that the
//! simulator ([`sim`]) can own all of it.
//!
//! What is deliberately absent: no SQL, no records, no pages, no log format.
#![allow(unsafe_code)] // Mapped memory, non-temporal stores, epoch reclamation, plain text: each block names its invariant.

pub mod ascii;
pub mod barrier;
pub mod clock;
pub mod crc;
pub mod epoch;
pub mod interrupt;
pub mod media;
pub mod oid;
pub mod random;
pub mod reserve;
pub mod sim;
pub mod sync;
pub mod thread;
