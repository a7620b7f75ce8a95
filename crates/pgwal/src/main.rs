//! `ondol-pgwal`: the command `ondol pgwal` alone, for machines that have PostgreSQL and no Ondol.
fn main() -> std::process::ExitCode {
    pgwal::command::main("ondol-pgwal", std::env::args().skip(1).collect())
}
