//! What is accepted although it means nothing to a database in memory: the whole list. None of it can change
//! an answer; whoever says it is told so by a NOTICE. Everything else that is not obeyed is refused.

/// One thing that is accepted, and what the notice says.
#[derive(Clone, Copy, Debug)]
pub struct Accepted {
    /// How it is written.
    pub what: &'static str,
    pub notice: &'static str,
}

macro_rules! accepted {
    ($($name:ident $what:literal $notice:literal;)*) => {
        $(pub const $name: Accepted = Accepted { what: $what, notice: $notice };)*
        /// The list.
        pub const ALL: &[Accepted] = &[$($name),*];
    };
}

accepted! {
    VACUUM "VACUUM" "VACUUM has nothing to do: old row versions are reclaimed all the time";
    ANALYZE "ANALYZE" "ANALYZE has nothing to do: plans do not depend on gathered statistics";
    TABLE_STORAGE "CREATE TABLE ... WITH (fillfactor, autovacuum_*, toast_tuple_target, parallel_workers)"
        "storage parameters have no effect on tables in memory";
    INDEX_STORAGE "CREATE INDEX ... WITH (fillfactor, deduplicate_items)"
        "storage parameters have no effect on indexes in memory";
    TABLESPACE "TABLESPACE pg_default" "TABLESPACE pg_default has no effect: all tables are in memory";
    COPY_FREEZE "COPY ... FREEZE" "FREEZE has no effect: rows are never rewritten to be frozen";
    INDEX_CONCURRENTLY "CREATE INDEX CONCURRENTLY ... (expression)"
        "CONCURRENTLY has no effect: others wait while rows get what the index is on";
    REINDEX_CONCURRENTLY "REINDEX CONCURRENTLY"
        "CONCURRENTLY has no effect: others wait while indexes are made anew";
    CONCURRENTLY "DROP INDEX CONCURRENTLY" "CONCURRENTLY has no effect: the index is dropped in one short step";
    FUNCTION_COST "CREATE FUNCTION ... COST, ROWS"
        "COST and ROWS have no effect: plans do not depend on estimates of functions";
    FUNCTION_PARALLEL "CREATE FUNCTION ... PARALLEL"
        "PARALLEL has no effect: what a registered query reads may be read by several threads";
}

/// Storage parameters of tables that are accepted ([`TABLE_STORAGE`]).
pub fn is_table_storage(name: &str) -> bool {
    matches!(name, "fillfactor" | "toast_tuple_target" | "parallel_workers")
        || name.starts_with("autovacuum_")
}

/// Storage parameters of indexes that are accepted ([`INDEX_STORAGE`]).
pub fn is_index_storage(name: &str) -> bool {
    matches!(name, "fillfactor" | "deduplicate_items")
}
