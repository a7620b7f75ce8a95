//! Type identities and modifiers.

/// A type of the supported set. `Unknown` is an untyped literal (or NULL) before it is resolved.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum TypeId {
    Unknown = 0,
    Bool = 1,
    Int2 = 2,
    Int4 = 3,
    Int8 = 4,
    Float8 = 5,
    Numeric = 6,
    /// char(n)
    Bpchar = 7,
    Varchar = 8,
    Text = 9,
    Bytea = 10,
    Date = 11,
    Timestamp = 12,
    Timestamptz = 13,
    /// What a function without a result returns.
    Void = 14,
}

/// A type with its modifier, coded as PostgreSQL codes it: -1 none; char(n)/varchar(n): n + 4;
/// numeric(p, s): ((p << 16) | (s & 0x7ff)) + 4; timestamp(p): p.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Type {
    pub id: TypeId,
    pub typmod: i32,
}

impl Type {
    pub const fn new(id: TypeId) -> Type {
        Type { id, typmod: -1 }
    }
    pub const fn with(id: TypeId, typmod: i32) -> Type {
        Type { id, typmod }
    }
    pub const BOOL: Type = Type::new(TypeId::Bool);
    pub const INT4: Type = Type::new(TypeId::Int4);
    pub const INT8: Type = Type::new(TypeId::Int8);
    pub const TEXT: Type = Type::new(TypeId::Text);
    pub const UNKNOWN: Type = Type::new(TypeId::Unknown);
    /// The n of char(n) or varchar(n).
    pub fn char_len(self) -> Option<usize> {
        matches!(self.id, TypeId::Bpchar | TypeId::Varchar)
            .then_some(self.typmod)
            .filter(|m| *m >= 4)
            .map(|m| (m - 4) as usize)
    }
    /// (precision, scale) of numeric(p, s).
    pub fn numeric_mod(self) -> Option<(u32, i32)> {
        (self.id == TypeId::Numeric && self.typmod >= 4).then(|| {
            let m = self.typmod - 4;
            let s = m & 0x7ff;
            ((m >> 16) as u32 & 0xffff, (s ^ 1024) - 1024)
        })
    }
}

/// Of each type: its number in PostgreSQL's `pg_type`, the name PostgreSQL shows, and the other names it goes by.
const NAMES: &[(TypeId, u32, &str, &[&str])] = &[
    (TypeId::Unknown, 705, "unknown", &[]),
    (TypeId::Bool, 16, "boolean", &["bool"]),
    (TypeId::Int2, 21, "smallint", &["int2"]),
    (TypeId::Int4, 23, "integer", &["int4", "int"]),
    (TypeId::Int8, 20, "bigint", &["int8"]),
    (TypeId::Float8, 701, "double precision", &["float8"]),
    (TypeId::Numeric, 1700, "numeric", &["decimal"]),
    (TypeId::Bpchar, 1042, "character", &["bpchar", "char"]),
    (TypeId::Varchar, 1043, "character varying", &["varchar"]),
    (TypeId::Text, 25, "text", &[]),
    (TypeId::Bytea, 17, "bytea", &[]),
    (TypeId::Date, 1082, "date", &[]),
    (TypeId::Timestamp, 1114, "timestamp without time zone", &["timestamp"]),
    (TypeId::Timestamptz, 1184, "timestamp with time zone", &["timestamptz"]),
    (TypeId::Void, 2278, "void", &[]),
];

impl TypeId {
    /// Every type, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = TypeId> {
        NAMES.iter().map(|n| n.0)
    }

    /// The type of a stored number; `None` for a number that is none.
    pub fn from_u8(v: u8) -> Option<TypeId> {
        NAMES.get(v as usize).map(|n| n.0)
    }

    /// The name PostgreSQL shows: `integer`, `timestamp without time zone`.
    pub fn name(self) -> &'static str {
        NAMES[self as usize].2
    }

    /// By the name PostgreSQL shows or another name of the type, in lower case.
    pub fn from_name(name: &str) -> Option<TypeId> {
        NAMES.iter().find(|n| n.2 == name || n.3.contains(&name)).map(|n| n.0)
    }

    /// The type's number in PostgreSQL's catalogue, which clients know it by.
    pub fn oid(self) -> u32 {
        NAMES[self as usize].1
    }

    /// The type of a number in PostgreSQL's catalogue.
    pub fn from_oid(oid: u32) -> Option<TypeId> {
        NAMES.iter().find(|n| n.1 == oid).map(|n| n.0)
    }
}

impl std::fmt::Display for TypeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// With its modifier, as PostgreSQL shows it: `numeric(12,2)`, `timestamp(3) without time zone`.
impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(n) = self.char_len() {
            return write!(f, "{}({n})", self.id);
        }
        if let Some((precision, scale)) = self.numeric_mod() {
            return write!(f, "numeric({precision},{scale})");
        }
        match self.id {
            TypeId::Bpchar => f.write_str("bpchar"),
            TypeId::Timestamp | TypeId::Timestamptz if self.typmod >= 0 => {
                let rest = self.id.name().trim_start_matches("timestamp");
                write!(f, "timestamp({}){rest}", self.typmod)
            }
            id => f.write_str(id.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_lead_back() {
        for (i, t) in TypeId::all().enumerate() {
            assert_eq!(t as usize, i);
            assert_eq!(TypeId::from_u8(i as u8), Some(t));
            assert_eq!(TypeId::from_name(t.name()), Some(t));
            assert_eq!(TypeId::from_oid(t.oid()), Some(t));
        }
        assert_eq!(TypeId::from_u8(15), None);
    }

    #[test]
    fn modifiers_show() {
        let numeric = |p: i32, s: i32| Type::with(TypeId::Numeric, ((p << 16) | (s & 0x7ff)) + 4);
        assert_eq!(numeric(12, 2).to_string(), "numeric(12,2)");
        assert_eq!(numeric(3, -2).to_string(), "numeric(3,-2)");
        assert_eq!(Type::with(TypeId::Varchar, 9).to_string(), "character varying(5)");
        assert_eq!(Type::with(TypeId::Timestamptz, 3).to_string(), "timestamp(3) with time zone");
        assert_eq!(Type::new(TypeId::Bpchar).to_string(), "bpchar");
        assert_eq!(Type::INT8.to_string(), "bigint");
    }
}
