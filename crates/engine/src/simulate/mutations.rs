//! Known-wrong variants of the protocol, which the simulation must catch. A variant exists only inside a simulated world
//! that was configured for it; see [`ondol_base::sim::mutated`].
use ondol_base::sim::Config;

/// A wrong variant.
#[derive(Clone, Copy, Debug)]
pub struct Mutation {
    pub name: &'static str,
    /// What it does.
    pub what: &'static str,
    apply: fn(&mut Config),
    /// It shows only with several log streams.
    pub streams: bool,
}

macro_rules! engine {
    ($name:literal, $what:literal) => {
        engine!($name, $what, false)
    };
    ($name:literal, $what:literal, $streams:literal) => {
        Mutation { name: $name, what: $what, apply: |c| c.mutation = Some($name), streams: $streams }
    };
}

pub const MUTATIONS: &[Mutation] = &[
    Mutation {
        name: "ignore_sync_data",
        what: "the medium does not sync files",
        apply: |c| c.ignore_sync_data = true,
        streams: false,
    },
    Mutation {
        name: "ignore_sync_dir",
        what: "the medium does not sync folders",
        apply: |c| c.ignore_sync_dir = true,
        streams: false,
    },
    engine!("acknowledge_before_sync", "a round counts as durable before it is written"),
    engine!("acknowledge_own_block", "a round counts as durable when its first block is", true),
    engine!("rounds_ignored", "recovery takes blocks of incomplete rounds", true),
    engine!("incarnation_ends_missing", "recovery does not record where the last incarnation ended"),
    engine!("t_is_clock", "a checkpoint is as of the clock, without waiting for durability"),
    engine!("images_newest", "a checkpoint's images hold the newest bytes"),
    engine!("dirty_cleared_late", "a page counts as clean when its image was made, whatever came meanwhile"),
    engine!("fragments_ignored", "truncation forgets the fragments of open transactions"),
    engine!("sync_retried", "a failed sync is tried again and believed"),
    engine!("tail_not_settled", "recovery believes what it read, synced or not"),
    engine!("segment_reused_early", "a dropped segment is reused before a checkpoint past the drop"),
    engine!("truncate_early", "log files are given up before the manifest is published"),
    engine!("readers_see_unflushed", "readers see commits that nobody acknowledged"),
    engine!("serializable_unchecked", "a serializable commit does not check what was read"),
];

impl Mutation {
    pub fn named(name: &str) -> Option<&'static Mutation> {
        MUTATIONS.iter().find(|m| m.name == name)
    }
    pub fn apply(&self, config: &mut Config) {
        (self.apply)(config)
    }
}
