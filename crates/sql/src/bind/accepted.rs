//! What is accepted although it means nothing to a database in memory: the whole list. None of it can change
//! an answer; whoever says it is told so by a NOTICE. Everything else that is not obeyed is refused.

use ondol_types::{SqlError, SqlResult, sqlstate};

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
    TABLE_STORAGE "CREATE TABLE ... WITH, ALTER TABLE ... SET and RESET (fillfactor, autovacuum_*, ...)"
        "storage parameters have no effect on tables in memory";
    INDEX_STORAGE "CREATE INDEX ... WITH, ALTER INDEX ... SET and RESET (fillfactor, deduplicate_items)"
        "storage parameters have no effect on indexes in memory";
    COLUMN_STORAGE "ALTER COLUMN ... SET STORAGE, SET COMPRESSION"
        "STORAGE and COMPRESSION have no effect: values are in memory as they are";
    STATISTICS "ALTER COLUMN ... SET STATISTICS"
        "STATISTICS has no effect: plans do not depend on gathered statistics";
    TABLESPACE "TABLESPACE pg_default" "TABLESPACE pg_default has no effect: all tables are in memory";
    COPY_FREEZE "COPY ... FREEZE" "FREEZE has no effect: rows are never rewritten to be frozen";
    INDEX_CONCURRENTLY "CREATE INDEX CONCURRENTLY ... (call of a registered query)"
        "CONCURRENTLY has no effect: others wait while rows get what the index is on";
    REINDEX_CONCURRENTLY "REINDEX CONCURRENTLY"
        "CONCURRENTLY has no effect: others wait while indexes are made anew";
    CONCURRENTLY "DROP INDEX CONCURRENTLY" "CONCURRENTLY has no effect: the index is dropped in one short step";
    FUNCTION_COST "CREATE FUNCTION ... COST, ROWS"
        "COST and ROWS have no effect: plans do not depend on estimates of functions";
    FUNCTION_PARALLEL "CREATE FUNCTION ... PARALLEL"
        "PARALLEL has no effect: what a registered query reads may be read by several threads";
}

/// What values a storage parameter takes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Parameter {
    Flag,
    Integer(i32, i32),
    Real(f64, f64),
    /// One of these, or a flag.
    Word(&'static [&'static str]),
}

/// Storage parameters of tables that are accepted ([`TABLE_STORAGE`]), as PostgreSQL 15 has them.
pub fn is_table_storage(name: &str) -> Option<Parameter> {
    use Parameter::*;
    Some(match name {
        "fillfactor" => Integer(10, 100),
        "toast_tuple_target" => Integer(128, 8160),
        "parallel_workers" => Integer(0, 1024),
        "autovacuum_enabled" | "vacuum_truncate" | "user_catalog_table" => Flag,
        "vacuum_index_cleanup" => Word(&["auto"]),
        "autovacuum_vacuum_threshold" | "autovacuum_analyze_threshold" => Integer(0, i32::MAX),
        "autovacuum_vacuum_insert_threshold" | "log_autovacuum_min_duration" => Integer(-1, i32::MAX),
        "autovacuum_vacuum_cost_limit" => Integer(1, 10_000),
        "autovacuum_freeze_min_age" | "autovacuum_multixact_freeze_min_age" => Integer(0, 1_000_000_000),
        "autovacuum_freeze_max_age" => Integer(100_000, 2_000_000_000),
        "autovacuum_multixact_freeze_max_age" => Integer(10_000, 2_000_000_000),
        "autovacuum_freeze_table_age" | "autovacuum_multixact_freeze_table_age" => Integer(0, 2_000_000_000),
        "autovacuum_vacuum_cost_delay"
        | "autovacuum_vacuum_scale_factor"
        | "autovacuum_vacuum_insert_scale_factor"
        | "autovacuum_analyze_scale_factor" => Real(0.0, 100.0),
        _ => return None,
    })
}

/// Storage parameters of indexes that are accepted ([`INDEX_STORAGE`]).
pub fn is_index_storage(name: &str) -> Option<Parameter> {
    match name {
        "fillfactor" => Some(Parameter::Integer(10, 100)),
        "deduplicate_items" => Some(Parameter::Flag),
        _ => None,
    }
}

impl Parameter {
    /// Whether a value is one that the parameter takes; none is `true`.
    pub fn check(self, name: &str, value: Option<&str>) -> SqlResult<()> {
        let text = value.unwrap_or("true");
        let lower = text.to_ascii_lowercase();
        let wrong = |m: String| SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, m);
        let invalid = |kind: &str| wrong(format!("invalid value for {kind} option \"{name}\": {text}"));
        let outside = || wrong(format!("value {text} out of bounds for option \"{name}\""));
        let prefix = |of: &str, least: usize| lower.len() >= least && of.starts_with(&lower);
        let is_flag = matches!(&*lower, "1" | "0")
            || prefix("true", 1)
            || prefix("false", 1)
            || prefix("yes", 1)
            || prefix("no", 1)
            || prefix("on", 2)
            || prefix("off", 2);
        match self {
            Parameter::Flag if is_flag => Ok(()),
            Parameter::Flag => Err(invalid("boolean")),
            Parameter::Word(words) if is_flag || words.contains(&&*lower) => Ok(()),
            Parameter::Word(_) => {
                Err(invalid("enum").detail("Valid values are \"on\", \"off\", and \"auto\"."))
            }
            Parameter::Integer(least, most) => match text.parse::<i64>() {
                Ok(n) if (i64::from(least)..=i64::from(most)).contains(&n) => Ok(()),
                Ok(_) => {
                    Err(outside().detail(format!("Valid values are between \"{least}\" and \"{most}\".")))
                }
                Err(_) => Err(invalid("integer")),
            },
            Parameter::Real(least, most) => {
                match text.parse::<f64>() {
                    Ok(n) if (least..=most).contains(&n) => Ok(()),
                    Ok(_) => Err(outside()
                        .detail(format!("Valid values are between \"{least:.6}\" and \"{most:.6}\"."))),
                    Err(_) => Err(invalid("floating point")),
                }
            }
        }
    }
}
