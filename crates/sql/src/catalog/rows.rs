//! Which rows the relations have. To add rows to a relation is to write a function over [`Sight`] and its
//! line in [`MADE`].

use super::relation::by_key;
use super::sight::Sight;
use super::{activity, cluster, depend, fixed, foreign, key, role, routine, sequence, table, user};
use ondol_types::catalog::{name, oid, quoted_char, real};
use ondol_types::{SqlError, SqlResult, TypeId, Value, ValueRef, sqlstate};

/// What takes the rows, each with a value for each column of the relation.
pub type Each<'a> = &'a mut dyn FnMut(&[Value]) -> SqlResult<()>;

/// What is asked for: all rows, or those of one value of a key (catalog/Y4).
#[derive(Default)]
pub struct Wanted<'a> {
    pub column: &'a str,
    pub number: Option<u32>,
    pub text: Option<&'a str>,
}

impl Wanted<'_> {
    /// The number that a column of the rows wanted has, if only such are.
    pub fn number(&self, column: &str) -> Option<u32> {
        self.number.filter(|_| self.column == column)
    }
    /// The text.
    pub fn text(&self, column: &str) -> Option<&str> {
        self.text.filter(|_| self.column == column)
    }
}

/// Gives the rows of a relation that are not fixed.
type Make = fn(&Sight<'_>, &Wanted<'_>, Each<'_>) -> SqlResult<()>;

/// The relations with rows of the dictionary, each with the columns that may be asked for.
const MADE: &[(&str, &[&str], Make)] = &[
    ("pg_attrdef", &["adrelid"], table::defaults),
    ("pg_attribute", &["attrelid"], table::attributes),
    ("pg_auth_members", &[], role::members),
    ("pg_authid", &[], role::authid),
    ("pg_db_role_setting", &[], role::settings),
    ("pg_class", &["oid", "relname"], table::classes),
    ("pg_constraint", &["conrelid", "contypid"], key::constraints),
    ("pg_cursors", &[], cluster::cursors),
    ("pg_database", &[], cluster::databases),
    ("pg_default_acl", &[], role::defaults),
    ("pg_depend", &[], depend::dependencies),
    ("pg_description", &[], depend::descriptions),
    ("pg_enum", &[], user::labels),
    ("pg_foreign_data_wrapper", &[], foreign::wrappers),
    ("pg_foreign_server", &[], foreign::servers),
    ("pg_foreign_table", &[], foreign::tables),
    ("pg_group", &[], role::groups),
    ("pg_index", &["indrelid", "indexrelid"], key::indexes),
    ("pg_locks", &[], activity::locks),
    ("pg_namespace", &[], cluster::namespaces),
    ("pg_prepared_statements", &[], cluster::prepared_statements),
    ("pg_proc", &[], routine::functions),
    ("pg_rewrite", &[], depend::rules),
    ("pg_roles", &[], role::roles),
    ("pg_sequence", &["seqrelid"], sequence::sequences),
    ("pg_sequences", &[], sequence::shown),
    ("pg_settings", &[], cluster::settings),
    ("pg_stat_activity", &[], activity::backends),
    ("pg_stat_database", &[], activity::database),
    ("pg_stat_ssl", &[], activity::encrypted),
    ("pg_stat_statements", &[], activity::statements),
    ("pg_tablespace", &[], cluster::tablespaces),
    ("pg_timezone_abbrevs", &[], cluster::zone_abbreviations),
    ("pg_timezone_names", &[], cluster::zone_names),
    ("pg_type", &[], user::types),
];

/// The numbers of the columns of a relation by one of which its rows may be asked for.
pub fn keys_of(relation: &str) -> Vec<usize> {
    let names = MADE.iter().find(|m| m.0 == relation).map_or(&[][..], |m| m.1);
    let place = |name: &&str| by_key(relation)?.column(name);
    names.iter().filter_map(place).collect()
}

/// Gives the rows of a relation to `each`: all, or at least those in which the key that is the number of a
/// column has the value.
pub fn rows(
    relation: &str,
    key: Option<(usize, ValueRef<'_>)>,
    sight: &Sight<'_>,
    each: &mut dyn FnMut(&[ValueRef<'_>]) -> SqlResult<()>,
) -> SqlResult<()> {
    let Some(r) = by_key(relation) else {
        let message = format!("there is no relation \"{relation}\" in the catalogue");
        return Err(SqlError::new(sqlstate::INTERNAL_ERROR, message));
    };
    let mut scratch: Vec<Vec<u8>> = vec![Vec::new(); r.columns.len()];
    let mut give = |row: &[Value]| {
        debug_assert!(
            row.len() == r.columns.len()
                && row.iter().zip(&r.columns).all(|(v, c)| is_of(v, c.ty) && !(c.not_null && v.is_null())),
            "a row of {relation}: {row:?}"
        );
        let refs: Vec<ValueRef<'_>> = row.iter().zip(&mut scratch).map(|(v, s)| v.as_ref(s)).collect();
        each(&refs)
    };
    for row in fixed::rows(relation) {
        give(row)?;
    }
    let Some((_, _, make)) = MADE.iter().find(|m| m.0 == relation) else { return Ok(()) };
    let mut wanted = Wanted::default();
    let column = key.and_then(|(at, v)| Some((r.columns.get(at)?.name, v)));
    if let Some((column, value)) = column {
        match value {
            // Nothing is equal to it.
            ValueRef::Null => return Ok(()),
            ValueRef::Opaque(TypeId::NAME, b) => wanted.text = std::str::from_utf8(b).ok(),
            ValueRef::Opaque(_, b) => wanted.number = b.first_chunk().map(|b| u32::from_le_bytes(*b)),
            ValueRef::Text(s) => wanted.text = Some(s),
            _ => {}
        }
        wanted.column = column;
    }
    make(sight, &wanted, &mut give)
}

/// Whether a value may stand in a column of the type.
fn is_of(v: &Value, ty: TypeId) -> bool {
    v.type_id().is_none_or(|t| t == ty || t == TypeId::TEXT && ty.is_string())
}

// ---- values of columns -----------------------------------------------------------------------------------

/// What a value of a row is made of.
pub trait Cell {
    fn value(self) -> Value;
}

macro_rules! cells {
    ($($ty:ty: $self:ident => $value:expr;)*) => {
        $(impl Cell for $ty {
            fn value($self) -> Value {
                $value
            }
        })*
    };
}

/// An oid.
pub struct Oid(pub u32);
/// A name.
pub struct Name<'a>(pub &'a str);
/// A "char"; none is the byte zero.
pub struct Char(pub u8);
/// NULL.
pub struct Null;

cells! {
    bool: self => Value::Bool(self);
    i16: self => Value::Int2(self);
    i32: self => Value::Int4(self);
    i64: self => Value::Int8(self);
    f32: self => real::real(self);
    String: self => Value::Text(self);
    &str: self => Value::Text(self.to_string());
    Oid: self => oid::oid(self.0);
    Name<'_>: self => name::name(self.0);
    Char: self => quoted_char::value(self.0);
    Null: self => Value::Null;
    Value: self => self;
}

impl<C: Cell> Cell for Option<C> {
    fn value(self) -> Value {
        self.map_or(Value::Null, Cell::value)
    }
}

/// A row: a value of each of the things listed.
macro_rules! row {
    ($($cell:expr),* $(,)?) => {
        [$(crate::catalog::rows::Cell::value($cell)),*]
    };
}
pub(super) use row;

/// The number of something that a user cannot count beyond 16 bits.
pub fn small(n: usize) -> i16 {
    i16::try_from(n).unwrap_or(i16::MAX)
}
