//! The command `ondol`: one module for each thing it does, in `command/`.
//!
//! Exit status 0 when all went well, 1 when something failed (it is told on standard error), 2 for a command
//! line that makes no sense.
#![forbid(unsafe_code)]

mod command;

fn main() -> std::process::ExitCode {
    command::main()
}
