//! Frames for several programs, so that turning from one program to another makes nothing anew.
//!
//! - **F1** There are at most [`MOST`]; one more program takes the frame of another, in turn.
//! - **F2** A frame holds its program, so no other program has the address by which it is found. What it
//!   keeps beside that is small: what an execution was charged for goes with its end.
use super::frame::Frame;
use crate::code::Program;
use std::sync::Arc;

/// F1
const MOST: usize = 32;

#[derive(Default)]
pub struct Frames {
    frames: Vec<Frame>,
    /// Of each frame, the address of its program (F2).
    programs: Vec<usize>,
    /// The next one to be given away.
    next: usize,
}

impl Frames {
    pub fn new() -> Frames {
        Frames::default()
    }

    /// The frame of the program, or one that is to become it.
    #[inline]
    pub fn of(&mut self, program: &Arc<Program>) -> &mut Frame {
        let address = Arc::as_ptr(program).addr();
        let at = match self.programs.iter().position(|p| *p == address) {
            Some(at) => at,
            None => self.give(program, address),
        };
        &mut self.frames[at]
    }
    #[cold]
    fn give(&mut self, program: &Arc<Program>, address: usize) -> usize {
        if self.frames.len() < MOST {
            // Sessions of one program are many: room for one is made exactly.
            if self.frames.len() == self.frames.capacity() {
                self.frames.reserve_exact(self.frames.len().max(1))
            }
            self.frames.push(Frame::new());
            self.programs.push(0);
            self.next = self.frames.len() - 1;
        }
        let at = self.next;
        self.next = (at + 1) % MOST;
        self.frames[at].load(program);
        self.programs[at] = address;
        at
    }
    /// Lets go of all programs.
    pub fn clear(&mut self) {
        *self = Frames::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::verify::tests::sample;

    #[test]
    fn each_program_finds_its_own_frame_again() {
        let programs: Vec<_> = (0..MOST + 3).map(|_| Arc::new(sample())).collect();
        let mut frames = Frames::new();
        for p in &programs[..MOST] {
            assert!(frames.of(p).runs(p));
            frames.of(p).tick = 7;
        }
        assert!(programs[..MOST].iter().all(|p| frames.of(p).tick == 7));
        for p in &programs[MOST..] {
            assert!(frames.of(p).runs(p));
        }
        assert_eq!(frames.frames.len(), MOST);
        // The first three gave theirs away, the fourth did not.
        assert!(
            programs[..4]
                .iter()
                .map(|p| frames.programs.contains(&Arc::as_ptr(p).addr()))
                .eq([false, false, false, true])
        );
        assert!(frames.of(&programs[0]).runs(&programs[0]));
    }
}
