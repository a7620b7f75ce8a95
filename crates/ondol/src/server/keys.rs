//! Keys by which a client breaks off a statement of another connection of its own.
//!
//! - **K1** A key is from the system's generator, and good for one connection while it is there. One that is
//!   wrong does nothing, and nobody is told.
use crate::Canceller;
use ondol_base::random;
use ondol_base::sync::Mutex;
use std::collections::BTreeMap;

/// Bytes of a key by the protocol's version 3.0, and from 3.2 on.
const SHORT: usize = 4;
const LONG: usize = 32;

#[derive(Default)]
pub(super) struct Keys(Mutex<Given>);

#[derive(Default)]
struct Given {
    last: i32,
    all: BTreeMap<i32, (Box<[u8]>, Canceller)>,
}

impl Keys {
    /// A number for a connection, which stands for a process, and its key, which may be a long one.
    pub fn give(&self, canceller: Canceller, is_long: bool) -> std::io::Result<(i32, Box<[u8]>)> {
        let key: Box<[u8]> = match is_long {
            true => Box::new(random::secret::<LONG>()?),
            false => Box::new(random::secret::<SHORT>()?),
        };
        let mut given = self.0.lock();
        loop {
            given.last = given.last.checked_add(1).unwrap_or(1);
            let number = given.last;
            if let std::collections::btree_map::Entry::Vacant(place) = given.all.entry(number) {
                place.insert((key.clone(), canceller));
                return Ok((number, key));
            }
        }
    }
    pub fn take_back(&self, number: i32) {
        self.0.lock().all.remove(&number);
    }
    pub fn cancel(&self, number: i32, key: &[u8]) {
        let found = self.0.lock().all.get(&number).filter(|(k, _)| **k == *key).map(|(_, c)| c.clone());
        if let Some(canceller) = found {
            canceller.cancel()
        }
    }
    /// For breaking off what a connection does, by its number.
    pub fn of(&self, number: i32) -> Option<Canceller> {
        self.0.lock().all.get(&number).map(|(_, c)| c.clone())
    }
    pub fn cancel_all(&self) {
        let all: Vec<Canceller> = self.0.lock().all.values().map(|(_, c)| c.clone()).collect();
        all.iter().for_each(Canceller::cancel)
    }
}
