//! Known-wrong variants of the protocol, which the simulation must catch. A variant exists only inside a
//! simulated world that was configured for it; see [`ondol_base::sim::mutated`].
use ondol_base::sim::Config;

/// A wrong variant.
#[derive(Clone, Copy, Debug)]
pub struct Mutation {
    pub name: &'static str,
    /// What it does.
    pub what: &'static str,
    apply: fn(&mut Config),
    pub favour: Favour,
}

/// What histories have more of, so that a variant shows sooner. Nothing else about them differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Favour {
    Usual,
    /// Several log streams.
    Streams,
    /// Many commits beside each other, and a power failure among them.
    Rounds,
    FailedSyncs,
    /// Deaths of the process, and power failures right after.
    Deaths,
    /// Checkpoints among transactions that spill.
    Checkpoints,
    /// The same, with log files that are soon full.
    Recycling,
    /// Disks that have no room for a log file when the database is opened.
    FullDisks,
    /// Tables that come and go, beside checkpoints.
    Segments,
    /// Indexes built beside writers, in lives that end well.
    Indexes,
    /// Sessions that wait for rows, in lives that end well.
    Waits,
    /// Sessions with foreign keys.
    Keys,
    /// Portals beside the collector, in lives that end well.
    Portals,
    /// Definitions beside definitions, in lives that end well.
    Definers,
    /// The same by many, of few names.
    Crowds,
    /// Many values of sequences, and power failures.
    Sequences,
}

macro_rules! engine {
    ($name:literal, $what:literal) => {
        engine!($name, $what, Favour::Usual)
    };
    ($name:literal, $what:literal, $favour:expr) => {
        Mutation { name: $name, what: $what, apply: |c| c.mutation = Some($name), favour: $favour }
    };
}

pub const MUTATIONS: &[Mutation] = &[
    Mutation {
        name: "ignore_sync_data",
        what: "the medium does not sync files",
        apply: |c| c.ignore_sync_data = true,
        favour: Favour::Usual,
    },
    Mutation {
        name: "ignore_sync_dir",
        what: "the medium does not sync folders",
        apply: |c| c.ignore_sync_dir = true,
        favour: Favour::Usual,
    },
    engine!("boxes_forgotten", "a serializable transaction does not remember the nodes of a box"),
    engine!("neighbours_forgotten", "a serializable transaction does not remember the nodes near a point"),
    engine!("packed_forgotten", "a dictionary that is read knows of no packed columns"),
    engine!(
        "missing_forgotten",
        "a dictionary that is read does not know what rows do not say of columns that were added later",
        Favour::Definers
    ),
    engine!("volatile_logged", "differences of temporary tables' rows go to the log", Favour::Definers),
    engine!("schemas_forgotten", "a dictionary that is read knows of no schemas", Favour::Definers),
    engine!("checks_forgotten", "a dictionary that is read knows of no checks", Favour::Definers),
    engine!("rights_forgotten", "a dictionary that is read knows of no owners", Favour::Definers),
    engine!(
        "memberships_forgotten",
        "a dictionary that is read knows of no members of roles",
        Favour::Definers
    ),
    engine!(
        "sequence_uncovered",
        "a value of a sequence is sent before it is durable that it is given out",
        Favour::Sequences
    ),
    engine!(
        "sequence_largest_value",
        "of what a sequence gave out the largest value counts, not the larger generation and steps",
        Favour::Sequences
    ),
    engine!("sequence_same_generation", "a sequence that is set begins no generation", Favour::Sequences),
    engine!("ring_unfenced", "a block's sync returns before the ring's copy is fenced"),
    engine!("ring_freed_before_synced", "the ring's slots are free before their file is synced"),
    engine!(
        "ring_freed_not_durable",
        "the ring's slots are used again before it is durable that they are free"
    ),
    engine!(
        "ring_renamed_undrained",
        "a log file is renamed or removed while the ring holds blocks of it",
        Favour::Recycling
    ),
    engine!(
        "ring_names_not_synced",
        "a log file goes to the ring before its name is durable",
        Favour::Recycling
    ),
    engine!("ring_not_recovered", "what the ring holds is not brought home"),
    engine!("ring_home_not_synced", "the ring is emptied before what it held is synced"),
    engine!("ring_mark_not_durable", "the log goes to the ring before the mark is durable"),
    engine!("ring_mark_gone_early", "the mark goes before the ring is empty"),
    engine!("ring_mark_ignored", "a database opens without the ring that its mark names"),
    engine!("ring_of_another_number", "a database opens on another ring than its mark names"),
    engine!(
        "ring_unmarked_replayed",
        "entries are replayed into a database that was used without their ring"
    ),
    engine!("ring_trusted_when_lost", "blocks that a lost ring vouched for are believed", Favour::Deaths),
    engine!("acknowledge_before_sync", "a round counts as durable before it is written"),
    engine!("acknowledge_own_block", "a round counts as durable when its first block is", Favour::Streams),
    engine!("leader_uncalled", "fibers that wait for a round do not have it led"),
    engine!("watchers_untold", "who watches a commit is not told when its round ends"),
    engine!("held_acknowledged", "a held commit is visible before it is durable"),
    engine!("latch_absent", "a round reads what closes it after it has taken the buffers", Favour::Rounds),
    engine!("rounds_ignored", "recovery takes blocks of incomplete rounds", Favour::Streams),
    engine!("incarnation_ends_missing", "recovery does not record where the last incarnation ended"),
    engine!(
        "t_is_clock",
        "a checkpoint is as of the clock, whether its commits are installed and durable or not"
    ),
    engine!("images_newest", "a checkpoint's images hold the newest bytes"),
    engine!("dirty_cleared_late", "a page counts as clean when its image was made, whatever came meanwhile"),
    engine!(
        "fragments_ignored",
        "truncation forgets the fragments of open transactions",
        Favour::Checkpoints
    ),
    engine!("sync_retried", "a failed sync is tried again and believed", Favour::FailedSyncs),
    engine!("tail_not_settled", "recovery believes what it read, synced or not", Favour::Deaths),
    engine!(
        "log_continued_over",
        "a life that finds no room for a log file begins on the last block of the life before, not behind it",
        Favour::FullDisks
    ),
    engine!("segment_reused_early", "a dropped segment is reused before a checkpoint past the drop"),
    engine!(
        "tables_forgotten",
        "truncation forgets system records that are later than a checkpoint's tables",
        Favour::Segments
    ),
    engine!(
        "segment_described_late",
        "a checkpoint describes a segment that may be dropped meanwhile",
        Favour::Segments
    ),
    engine!("truncate_early", "log files are given up before the manifest is published"),
    engine!("readers_see_unflushed", "readers see commits that nobody acknowledged"),
    engine!("garbage_unlisted", "what a commit leaves behind is not in the collector's list"),
    engine!("shown_forgotten", "a session that rolls back reads older snapshots afterwards"),
    engine!("one_write_unchecked", "a row that is changed in one go may have changed since it was read"),
    engine!("helpers_uncounted", "a commit does not count the fragments of those who inserted for it"),
    engine!("merged_over_savepoint", "changes of one row are merged although a savepoint lies between them"),
    engine!("merged_over_keys", "changes of one row are merged although the later one gave it a key"),
    engine!(
        "portal_unpublished",
        "the snapshot of a portal is not published after its statement",
        Favour::Portals
    ),
    engine!(
        "merged_over_portal",
        "changes of one row are merged although a portal was opened between them",
        Favour::Portals
    ),
    engine!("lent_unpublished", "a snapshot that is lent to other threads is not published meanwhile"),
    engine!("wake_up_dropped", "a transaction's end tells nobody who waits for its rows", Favour::Waits),
    engine!("parks_pinned", "who waits for a row holds a pin meanwhile", Favour::Waits),
    engine!("taker_unflagged", "who takes a row does not learn that others queue for it", Favour::Waits),
    engine!("turn_kept", "who gives up waiting when it was told keeps its turn", Favour::Waits),
    engine!(
        "stepped_back_silently",
        "who took a row and leaves it to others tells none of those who queue",
        Favour::Waits
    ),
    engine!(
        "overtaken_without_end",
        "who comes to a free row takes it, however often its queue was overtaken",
        Favour::Waits
    ),
    engine!("thread_kept", "who waits for a row keeps its worker's thread", Favour::Waits),
    engine!(
        "owner_flagged_late",
        "a row's owner learns after a look at the row that it is waited for",
        Favour::Waits
    ),
    engine!(
        "waits_anew_silently",
        "who waits anew for a row does not tell those who can go before it",
        Favour::Waits
    ),
    engine!("leaver_silent", "who ceases to share a row tells nobody", Favour::Waits),
    engine!("key_shares_ignored", "FOR KEY SHARE is in nobody's way", Favour::Waits),
    engine!("keys_always_locked", "FOR NO KEY UPDATE is taken for FOR UPDATE", Favour::Waits),
    engine!(
        "strengthened_unasked",
        "an owner makes its lock FOR UPDATE and does not look for those who share the row's keys",
        Favour::Waits
    ),
    engine!(
        "keys_of_snapshot",
        "who looks for rows that a foreign key is about goes by the statement's snapshot",
        Favour::Keys
    ),
    engine!("key_share_left_out", "the row that a foreign key names is not locked", Favour::Keys),
    engine!(
        "deferred_after_timestamp",
        "what was deferred is looked at once the commit has its timestamp",
        Favour::Keys
    ),
    engine!(
        "key_unwaited",
        "who adds a foreign key does not wait for those who do not know of it",
        Favour::Keys
    ),
    engine!(
        "key_looked_at_early",
        "rows are looked at by a foreign key as of before everyone knew of it",
        Favour::Keys
    ),
    engine!(
        "coming_key_ignored",
        "who would break a foreign key that is being added goes on without waiting",
        Favour::Keys
    ),
    engine!(
        "guards_unwaited",
        "who keeps writers from a table does not wait for those who have written to it",
        Favour::Keys
    ),
    engine!(
        "guards_unseen",
        "who writes to a table does not look whether others keep writers from it",
        Favour::Keys
    ),
    engine!("cycle_unseen", "who begins to wait does not look for a cycle", Favour::Waits),
    engine!("serializable_unchecked", "a serializable commit does not check what was read"),
    engine!(
        "pending_strings_unread",
        "a unique key's long texts are not read where another transaction has yet to commit them"
    ),
    engine!(
        "index_uninstalled",
        "an index is filled while what it is filled from is being installed",
        Favour::Indexes
    ),
    engine!("index_snapshot_dropped", "an index's builder does not hold its snapshot", Favour::Indexes),
    engine!(
        "index_unwaited",
        "an index's builder does not wait for those who write without it",
        Favour::Indexes
    ),
    engine!(
        "index_not_caught_up",
        "what was committed while an index was filled is not entered",
        Favour::Indexes
    ),
    engine!(
        "index_unchecked",
        "rows committed while a unique index was filled are entered unchecked",
        Favour::Indexes
    ),
    engine!(
        "index_old_keys_kept",
        "keys that became old while an index was filled are not taken out",
        Favour::Indexes
    ),
    engine!(
        "beside_page_skipped",
        "who copies a table does not look at a page that was marked since the pass before",
        Favour::Indexes
    ),
    engine!(
        "beside_last_pass_left_out",
        "who copies a table leaves out what was committed until it was marked",
        Favour::Indexes
    ),
    engine!("beside_marked_late", "who copies a table marks it when the last pass is over", Favour::Indexes),
    engine!(
        "beside_copied_once",
        "a slot's row that was copied is not copied again, whatever the slot holds by then",
        Favour::Indexes
    ),
    engine!(
        "beside_deletions_left_out",
        "rows deleted while a table was copied stay in the copy",
        Favour::Indexes
    ),
    engine!(
        "beside_shown_in_part",
        "a snapshot that is older than a table's copy is shown what it sees of it",
        Favour::Indexes
    ),
    engine!(
        "claims_not_waited_for",
        "functions and schemas that another has claimed are claimed all the same",
        Favour::Definers
    ),
    engine!(
        "looked_after_claims",
        "a definition looks for what it changes once more after it has claimed what was there",
        Favour::Crowds
    ),
    engine!(
        "indexes_not_renamed",
        "the indexes of a table that is renamed stand under its former name",
        Favour::Definers
    ),
    engine!(
        "columns_shifted",
        "rows that are copied get the values of the columns behind theirs",
        Favour::Definers
    ),
    engine!("claims_not_shared", "what a definition rests on is not claimed", Favour::Definers),
    engine!(
        "claims_let_go_early",
        "claims are let go before what was made of them is published",
        Favour::Definers
    ),
    engine!("claims_let_go_untold", "who waits for a claim is not told that it was let go", Favour::Definers),
    engine!(
        "definers_cycle_unseen",
        "who begins to wait for a claim does not look for a cycle",
        Favour::Definers
    ),
    engine!(
        "draft_published_whole",
        "a commit publishes the dictionary that its transaction saw",
        Favour::Definers
    ),
    engine!(
        "draft_kept",
        "definitions changed since a savepoint stay when it is gone back to",
        Favour::Definers
    ),
    engine!(
        "draft_stands_still",
        "a transaction that changes definitions does not look at what others have published since",
        Favour::Definers
    ),
];

impl Mutation {
    pub fn named(name: &str) -> Option<&'static Mutation> {
        MUTATIONS.iter().find(|m| m.name == name)
    }
    pub fn apply(&self, config: &mut Config) {
        (self.apply)(config)
    }
}
