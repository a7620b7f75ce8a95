//! The names that PostgreSQL 15 has: of functions, operators, types, relations and settings.
//!
//! - **K1** What is known here and absent in this database is refused as not supported (0A000); what is
//!   unknown here does not exist, and has PostgreSQL's own error for that. There is no other list of what is
//!   missing.
//! - **K2** The lists are those of a server's catalogue, made by `scripts/postgresql-names`; what this
//!   database has is in them, too. They are read only when a name was not found, so they are plain text,
//!   searched from the start. That of the settings is read once, by whoever keeps them.

const FUNCTIONS: &str = include_str!("known/functions.txt");
const OPERATORS: &str = include_str!("known/operators.txt");
const TYPES: &str = include_str!("known/types.txt");
const RELATIONS: &str = include_str!("known/relations.txt");
const SETTINGS: &str = include_str!("known/settings.txt");

/// Types that exist in definitions of columns only, and longer spellings of types that the grammar leaves as
/// they are.
const MORE_TYPES: &[&str] = &[
    "bigserial",
    "bit varying",
    "real",
    "serial",
    "serial2",
    "serial4",
    "serial8",
    "smallserial",
    "time with time zone",
    "time without time zone",
];

/// Columns that each table of PostgreSQL's has besides its own.
const SYSTEM_COLUMNS: &[&str] = &["cmax", "cmin", "ctid", "tableoid", "xmax", "xmin"];

/// The schemas whose relations PostgreSQL makes itself.
const SCHEMAS: &[&str] = &["information_schema", "pg_catalog", "pg_toast"];

fn has(list: &str, name: &str) -> bool {
    list.lines().any(|l| l == name)
}

/// Whether PostgreSQL has a function, aggregate or window function of this name.
pub fn is_function(name: &str) -> bool {
    has(FUNCTIONS, name)
}

/// Whether PostgreSQL has an operator of this name, before its operand or between two.
pub fn is_operator(name: &str, prefix: bool) -> bool {
    let place = if prefix { "prefix " } else { "binary " };
    OPERATORS.lines().any(|l| l.strip_prefix(place) == Some(name))
}

/// Whether PostgreSQL has a type of this name. An array of it is meant by the same name with `_` before it.
pub fn is_type(name: &str) -> bool {
    has(TYPES, name) || MORE_TYPES.contains(&name)
}

/// Whether PostgreSQL has a table or view of its own of this name, in a schema or (if that is empty) found
/// without.
pub fn is_relation(schema: &str, name: &str) -> bool {
    let schema = if schema.is_empty() { "pg_catalog" } else { schema };
    RELATIONS.lines().any(|l| l.split_once('.') == Some((schema, name)))
}

/// Whether PostgreSQL itself has a schema of this name, besides `public`.
pub fn is_schema(name: &str) -> bool {
    SCHEMAS.contains(&name)
}

/// Whether PostgreSQL's tables have a column of this name without its being defined.
pub fn is_system_column(name: &str) -> bool {
    SYSTEM_COLUMNS.contains(&name)
}

/// When a setting can be changed, as PostgreSQL's view `pg_settings` has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SettingContext {
    /// Never.
    Internal,
    /// When the server starts.
    Postmaster,
    /// When the server reads its configuration.
    Sighup,
    /// When a session begins.
    Backend,
    /// At any time.
    User,
}

/// The kind of a setting's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SettingKind {
    Bool,
    Integer,
    Real,
    Text,
    /// One of several words.
    Choice,
}

impl SettingKind {
    /// As `pg_settings` calls it.
    pub fn name(self) -> &'static str {
        match self {
            SettingKind::Bool => "bool",
            SettingKind::Integer => "integer",
            SettingKind::Real => "real",
            SettingKind::Text => "string",
            SettingKind::Choice => "enum",
        }
    }
}

/// A setting that PostgreSQL has; texts that it has not are empty.
#[derive(Clone, Copy, Debug)]
pub struct KnownSetting {
    pub name: &'static str,
    pub kind: SettingKind,
    /// Of a number without one: `ms`, `8kB`.
    pub unit: &'static str,
    pub context: SettingContext,
    /// The context's name, which tells more.
    pub context_name: &'static str,
    /// Empty for those that only SHOW knows.
    pub category: &'static str,
    pub least: &'static str,
    pub most: &'static str,
    /// The words of a choice, with commas between them.
    pub choices: &'static str,
    pub default: &'static str,
    pub about: &'static str,
    pub more: &'static str,
}

/// PostgreSQL's settings, by name without regard to case.
pub fn settings() -> impl Iterator<Item = KnownSetting> {
    SETTINGS.lines().filter_map(|line| {
        let mut fields = line.split('\t');
        let mut next = || fields.next();
        let (name, kind, unit, context_name) = (next()?, next()?, next()?, next()?);
        let kind = match kind {
            "bool" => SettingKind::Bool,
            "integer" => SettingKind::Integer,
            "real" => SettingKind::Real,
            "enum" => SettingKind::Choice,
            _ => SettingKind::Text,
        };
        let context = match context_name {
            "internal" => SettingContext::Internal,
            "postmaster" => SettingContext::Postmaster,
            "sighup" => SettingContext::Sighup,
            "backend" | "superuser-backend" => SettingContext::Backend,
            _ => SettingContext::User,
        };
        let (category, least, most, choices) = (next()?, next()?, next()?, next()?);
        let (default, about, more) = (next()?, next()?, next()?);
        Some(KnownSetting {
            name,
            kind,
            unit,
            context,
            context_name,
            category,
            least,
            most,
            choices,
            default,
            about,
            more,
        })
    })
}

/// What PostgreSQL has and this database has not, for documentation. Types of rows and of arrays are left
/// out: each is there with its relation or the type of its items.
pub fn absent() -> [(&'static str, Vec<&'static str>); 2] {
    let here =
        |o: &(bool, &str)| crate::func::operators().iter().any(|d| d.name == o.1 && d.left.is_none() == o.0);
    let mut operators: Vec<&str> = (OPERATORS.lines().filter_map(|l| l.split_once(' ')))
        .map(|(place, name)| (place == "prefix", name))
        .filter(|o| !here(o))
        .map(|o| o.1)
        .collect();
    operators.sort_unstable();
    operators.dedup();
    let missing = |t: &&str| crate::Type::by_name(t, &[]).is_err();
    let types = TYPES.lines().chain(MORE_TYPES.iter().copied());
    let mut types: Vec<&str> =
        types.filter(|t| !t.starts_with('_') && !t.starts_with("pg_")).filter(missing).collect();
    types.sort_unstable();
    [("Operators", operators), ("Types", types)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_whole_and_in_order() {
        for (list, least, some) in [
            (FUNCTIONS, 2600, "pg_size_pretty"),
            (OPERATORS, 80, "binary ->>"),
            (TYPES, 400, "jsonb"),
            (RELATIONS, 200, "information_schema.tables"),
        ] {
            assert!(list.lines().is_sorted_by(|a, b| a < b), "{some}");
            assert!(list.lines().count() >= least, "{some}");
            assert!(has(list, some), "{some}");
        }
        let settings: Vec<KnownSetting> = settings().collect();
        assert_eq!(settings.len(), SETTINGS.lines().count());
        assert!(settings.len() >= 350);
        assert!(settings.is_sorted_by_key(|s| s.name.to_ascii_lowercase()));
        let of = |name| settings.iter().find(|s| s.name == name);
        let zone = of("TimeZone").unwrap();
        assert_eq!((zone.kind, zone.context, zone.default), (SettingKind::Text, SettingContext::User, "UTC"));
        let block = of("block_size").unwrap();
        assert_eq!((block.kind, block.context), (SettingKind::Integer, SettingContext::Internal));
        assert_eq!(of("statement_timeout").unwrap().unit, "ms");
        assert!(is_relation("", "pg_class") && is_relation("pg_catalog", "pg_class"));
        assert!(is_relation("information_schema", "tables") && !is_relation("", "tables"));
    }

    /// What is here under a name that PostgreSQL has not would be an extension, or a gap in the lists.
    #[test]
    fn the_lists_hold_what_this_database_has() {
        // Of an extension that comes with PostgreSQL.
        const EXTENDING: [&str; 1] = ["pg_stat_statements_reset"];
        // Of the index that PostgreSQL has not.
        const OWN: [&str; 1] = ["crtree_distance"];
        // Those with a mark in their names cannot be written in SQL.
        for f in crate::func::all().filter(|f| !f.name.starts_with('$')) {
            let is_meant = EXTENDING.contains(&f.name) || OWN.contains(&f.name);
            assert!(is_function(f.name) || is_meant, "{}", f.name);
        }
        for a in crate::agg::all() {
            assert!(is_function(a.name), "{}", a.name);
        }
        for w in crate::window::all() {
            assert!(is_function(w.name), "{}", w.name);
        }
        for o in crate::func::operators() {
            assert!(is_operator(o.name, o.left.is_none()), "{}", o.name);
        }
    }
}
