//! One program for all benches, so that the database is linked once.
#![deny(unsafe_code)]

mod alter;
mod boxes;
mod carriers;
mod checkpoint;
mod crtree;
mod directory;
mod encode;
mod load;
#[cfg(target_arch = "x86_64")]
mod pmem;
mod recovery;
mod ring;
mod rows;
mod scan;
mod tpcc;
mod waiters;
mod waits;
mod wire;

use clap::Parser;

/// Ondol and what users would pick instead, side by side
#[derive(Parser)]
#[command(name = "ondol-bench")]
enum Bench {
    Directory(directory::Args),
    Tpcc(tpcc::Args),
    Load(load::Args),
    Recovery(recovery::Args),
    Checkpoint(checkpoint::Args),
    Ring(ring::Args),
    Scan(scan::Args),
    Rows(rows::Args),
    Encode(encode::Args),
    #[cfg(target_arch = "x86_64")]
    Pmem(pmem::Args),
    Waiters(waiters::Args),
    Waits(waits::Args),
    Alter(alter::Args),
    Wire(wire::Args),
    Carriers(carriers::Args),
    Crtree(crtree::Args),
    Boxes(boxes::Args),
}

fn main() -> ondol_bench::Result<()> {
    match Bench::parse() {
        Bench::Directory(args) => directory::run(args),
        Bench::Tpcc(args) => tpcc::run(args),
        Bench::Load(args) => load::run(args),
        Bench::Recovery(args) => recovery::run(args),
        Bench::Checkpoint(args) => checkpoint::run(args),
        Bench::Ring(args) => ring::run(args),
        Bench::Scan(args) => scan::run(args),
        Bench::Rows(args) => rows::run(args),
        Bench::Encode(args) => encode::run(args),
        #[cfg(target_arch = "x86_64")]
        Bench::Pmem(args) => pmem::run(args),
        Bench::Waiters(args) => waiters::run(args),
        Bench::Waits(args) => waits::run(args),
        Bench::Alter(args) => alter::run(args),
        Bench::Wire(args) => wire::run(args),
        Bench::Carriers(args) => carriers::run(args),
        Bench::Crtree(args) => crtree::run(args),
        Bench::Boxes(args) => boxes::run(args),
    }
}
