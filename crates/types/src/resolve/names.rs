//! Names of types: from SQL text to a type, and back as messages and `format_type` write them.

use crate::{SqlError, SqlResult, Type, TypeId, known, sqlstate};

/// The longest char(n) and varchar(n).
const MAX_CHAR: i32 = 10_485_760;
/// The most digits of numeric(p), and the bound of its scale.
const MAX_PRECISION: i32 = 1000;
/// The finest timestamps: microseconds.
const MAX_TIME_PRECISION: i32 = 6;

fn bad_modifier(message: impl Into<String>) -> SqlError {
    SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}

/// The type that a name means, with its modifiers ("varchar", [20]). Names are lower case, without a schema.
pub fn type_by_name(name: &str, modifiers: &[i32]) -> SqlResult<Type> {
    let id = match name {
        "bool" | "boolean" => TypeId::Bool,
        "int2" | "smallint" => TypeId::Int2,
        "int" | "int4" | "integer" => TypeId::Int4,
        "int8" | "bigint" => TypeId::Int8,
        "float8" | "double precision" => TypeId::Float8,
        "float" => return float(modifiers),
        "numeric" | "decimal" | "dec" => return numeric(modifiers),
        "bpchar" => return characters(TypeId::Bpchar, "char", modifiers),
        "char" | "character" | "nchar" | "national character" if modifiers.is_empty() => {
            return characters(TypeId::Bpchar, "char", &[1]);
        }
        "char" | "character" | "nchar" | "national character" => {
            return characters(TypeId::Bpchar, "char", modifiers);
        }
        "varchar" | "character varying" | "char varying" => {
            return characters(TypeId::Varchar, "varchar", modifiers);
        }
        "text" => TypeId::Text,
        "bytea" => TypeId::Bytea,
        "date" => TypeId::Date,
        "timestamp" | "timestamp without time zone" => {
            return time(TypeId::Timestamp, "", modifiers);
        }
        "timestamptz" | "timestamp with time zone" => {
            return time(TypeId::Timestamptz, " WITH TIME ZONE", modifiers);
        }
        "unknown" => TypeId::Unknown,
        "void" => TypeId::Void,
        _ if known::is_type(name) => {
            return Err(SqlError::unsupported(format_args!("type {name}")));
        }
        _ => {
            let message = format!("type \"{name}\" does not exist");
            return Err(SqlError::new(sqlstate::UNDEFINED_OBJECT, message));
        }
    };
    if !modifiers.is_empty() {
        let message = format!("type modifier is not allowed for type \"{name}\"");
        return Err(SqlError::new(sqlstate::SYNTAX_ERROR, message));
    }
    Ok(Type::new(id))
}

fn float(modifiers: &[i32]) -> SqlResult<Type> {
    match modifiers {
        [] | [25..=53] => Ok(Type::new(TypeId::Float8)),
        [1..=24] => Err(SqlError::unsupported("type real")),
        [n] if *n < 1 => Err(bad_modifier("precision for type float must be at least 1 bit")),
        [_] => Err(bad_modifier("precision for type float must be less than 54 bits")),
        _ => Err(bad_modifier("invalid type modifier")),
    }
}

fn numeric(modifiers: &[i32]) -> SqlResult<Type> {
    let (precision, scale) = match modifiers {
        [] => return Ok(Type::new(TypeId::Numeric)),
        [p] => (*p, 0),
        [p, s] => (*p, *s),
        _ => return Err(bad_modifier("invalid NUMERIC type modifier")),
    };
    if !(1..=MAX_PRECISION).contains(&precision) {
        let message = format!("NUMERIC precision {precision} must be between 1 and {MAX_PRECISION}");
        return Err(bad_modifier(message));
    }
    if modifiers.len() == 2 && !(-MAX_PRECISION..=MAX_PRECISION).contains(&scale) {
        let message = format!("NUMERIC scale {scale} must be between -{MAX_PRECISION} and {MAX_PRECISION}");
        return Err(bad_modifier(message));
    }
    Ok(Type::with(TypeId::Numeric, (precision << 16 | scale & 0x7ff) + 4))
}

fn characters(id: TypeId, name: &str, modifiers: &[i32]) -> SqlResult<Type> {
    match modifiers {
        [] => Ok(Type::new(id)),
        [n] if *n < 1 => Err(bad_modifier(format!("length for type {name} must be at least 1"))),
        [n] if *n > MAX_CHAR => Err(bad_modifier(format!("length for type {name} cannot exceed {MAX_CHAR}"))),
        [n] => Ok(Type::with(id, n + 4)),
        _ => Err(bad_modifier("invalid type modifier")),
    }
}

fn time(id: TypeId, zone: &str, modifiers: &[i32]) -> SqlResult<Type> {
    match modifiers {
        [] => Ok(Type::new(id)),
        [p] if *p < 0 => Err(bad_modifier(format!("TIMESTAMP({p}){zone} precision must not be negative"))),
        // A finer precision than there is means the finest, as in PostgreSQL (which adds a warning).
        [p] => Ok(Type::with(id, (*p).min(MAX_TIME_PRECISION))),
        _ => Err(bad_modifier("invalid type modifier")),
    }
}

/// The type's name in messages, without a modifier.
pub fn type_id_name(t: TypeId) -> &'static str {
    match t {
        TypeId::Unknown => "unknown",
        TypeId::Bool => "boolean",
        TypeId::Int2 => "smallint",
        TypeId::Int4 => "integer",
        TypeId::Int8 => "bigint",
        TypeId::Float8 => "double precision",
        TypeId::Numeric => "numeric",
        TypeId::Bpchar => "character",
        TypeId::Varchar => "character varying",
        TypeId::Text => "text",
        TypeId::Bytea => "bytea",
        TypeId::Date => "date",
        TypeId::Timestamp => "timestamp without time zone",
        TypeId::Timestamptz => "timestamp with time zone",
        TypeId::Void => "void",
    }
}

/// A column's type as `format_type` writes it. A char without a length is "bpchar", since "character" would read
/// back as character(1).
pub fn type_name(t: Type) -> String {
    let name = type_id_name(t.id);
    if let Some(n) = t.char_len() {
        return format!("{name}({n})");
    }
    if let Some((p, s)) = t.numeric_mod() {
        return format!("{name}({p},{s})");
    }
    match t.id {
        TypeId::Timestamp if t.typmod >= 0 => format!("timestamp({}) without time zone", t.typmod),
        TypeId::Timestamptz if t.typmod >= 0 => format!("timestamp({}) with time zone", t.typmod),
        TypeId::Bpchar => "bpchar".into(),
        _ => name.into(),
    }
}
