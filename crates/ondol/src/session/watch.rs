//! statement_timeout: a thread that breaks off a session's statement when its time is up.
//!
//! The thread exists only in sessions that set the timeout. It cancels as anyone else does.
use super::runtime::Canceller;
use ondol_base::sync::{Condvar, Mutex};
use ondol_base::{clock, thread};
use std::sync::Arc;
use std::time::Duration;

#[derive(Default)]
struct State {
    deadline: Option<Duration>,
    fired: bool,
    over: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

pub(crate) struct Watch {
    canceller: Canceller,
    shared: Option<Arc<Shared>>,
}

impl Watch {
    pub fn new(canceller: Canceller) -> Watch {
        Watch { canceller, shared: None }
    }

    /// A statement begins that may take this long.
    pub fn arm(&mut self, limit: Duration) -> std::io::Result<()> {
        let shared = match &self.shared {
            Some(s) => s.clone(),
            None => {
                let shared = Arc::new(Shared::default());
                let (theirs, canceller) = (shared.clone(), self.canceller.clone());
                thread::spawn("ondol-timeout", move || keep_watch(&theirs, &canceller))?;
                self.shared = Some(shared.clone());
                shared
            }
        };
        let mut state = shared.state.lock();
        state.deadline = Some(clock::now() + limit);
        state.fired = false;
        shared.changed.notify_one();
        Ok(())
    }

    /// The statement ended; true when that was the watch's doing.
    pub fn disarm(&mut self) -> bool {
        let Some(shared) = &self.shared else { return false };
        let mut state = shared.state.lock();
        state.deadline = None;
        std::mem::take(&mut state.fired)
    }
}

fn keep_watch(shared: &Shared, canceller: &Canceller) {
    let mut state = shared.state.lock();
    while !state.over {
        state = match state.deadline {
            None => shared.changed.wait(state),
            Some(d) => {
                let now = clock::now();
                if now >= d {
                    state.deadline = None;
                    state.fired = true;
                    canceller.cancel();
                    state
                } else {
                    shared.changed.wait_timeout(state, d - now).0
                }
            }
        };
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.state.lock().over = true;
            shared.changed.notify_one();
        }
    }
}
