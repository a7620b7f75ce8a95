//! Types: their identities, their modifiers, and what is known of each ([`TypeDef`]).
//!
//! An array type is not listed: each type that can be an array's item has one, whose number is its own with
//! the highest bit set, and whose descriptor follows from its own.
//!
//! A type that users define has its descriptor from [`crate::user`]; its number holds for the process alone.
//!
//! What the stages must know of a type without computing with its values stands in its descriptor, and in no
//! other list: names, category, the class of its values, which modifiers it takes. [`TypeId::def`] finds it.

use crate::catalog::{self, Form, record};
use crate::user::{self, UserDef};
use crate::{SqlError, SqlResult, array, known, sqlstate};
use std::sync::LazyLock;

/// The number of a type. Numbers are stored, in dictionaries and in compiled queries: one is never given to
/// another type. The number that clients know a type by is its OID ([`TypeDef::oid`]). Those of types that
/// users define are not stored (user/U1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TypeId(u16);

/// The constants of [`TypeId`], and the descriptors, of the types that have a class of their own.
macro_rules! types {
    ($($(#[$doc:meta])* $number:literal $constant:ident = $def:expr;)*) => {
        impl TypeId {
            $($(#[$doc])* pub const $constant: TypeId = TypeId($number);)*
        }
        const OWN: &[TypeDef] = &[$(TypeDef { id: TypeId::$constant, ..$def },)*];
    };
}

types! {
    /// An untyped literal (or NULL) before its type is resolved.
    0 UNKNOWN = TypeDef::new(705, "unknown", "unknown", Category::Unknown, Class::Text);
    1 BOOL = TypeDef::new(16, "bool", "boolean", Category::Boolean, Class::Bool).array(1000).preferred();
    2 INT2 = TypeDef::new(21, "int2", "smallint", Category::Numeric, Class::Int2).array(1005);
    3 INT4 = TypeDef::new(23, "int4", "integer", Category::Numeric, Class::Int4).array(1007).also(&["int"]);
    4 INT8 = TypeDef::new(20, "int8", "bigint", Category::Numeric, Class::Int8).array(1016);
    5 FLOAT8 = TypeDef::new(701, "float8", "double precision", Category::Numeric, Class::Float8).array(1022).preferred();
    6 NUMERIC = TypeDef::new(1700, "numeric", "numeric", Category::Numeric, Class::Numeric).array(1231)
        .also(&["decimal", "dec"])
        .modified(Modifier::PrecisionAndScale);
    /// char(n)
    7 BPCHAR = TypeDef::new(1042, "bpchar", "character", Category::String, Class::Text).array(1014)
        .also(&["char", "nchar", "national character"])
        .modified(Modifier::Length { word: "char" });
    8 VARCHAR = TypeDef::new(1043, "varchar", "character varying", Category::String, Class::Text).array(1015)
        .also(&["char varying"])
        .modified(Modifier::Length { word: "varchar" });
    9 TEXT = TypeDef::new(25, "text", "text", Category::String, Class::Text).array(1009).preferred();
    10 BYTEA = TypeDef::new(17, "bytea", "bytea", Category::User, Class::Bytea).array(1001);
    11 DATE = TypeDef::new(1082, "date", "date", Category::DateTime, Class::Date).array(1182);
    12 TIMESTAMP = TypeDef::new(1114, "timestamp", "timestamp without time zone", Category::DateTime, Class::Timestamp).array(1115)
        .modified(Modifier::Seconds { word: "TIMESTAMP", zone: "" });
    13 TIMESTAMPTZ = TypeDef::new(1184, "timestamptz", "timestamp with time zone", Category::DateTime, Class::Timestamptz).array(1185)
        .preferred()
        .modified(Modifier::Seconds { word: "TIMESTAMP", zone: " WITH TIME ZONE" });
    /// What a function without a result returns.
    14 VOID = TypeDef::new(2278, "void", "void", Category::Pseudo, Class::None);
}

/// Every type, in the order of their numbers: those above, and then those of [`crate::catalog`].
static TYPES: [TypeDef; OWN.len() + catalog::TYPES.len()] = {
    let mut all = [OWN[0]; OWN.len() + catalog::TYPES.len()];
    let mut n = 0;
    while n < all.len() {
        all[n] = if n < OWN.len() { OWN[n] } else { catalog::TYPES[n - OWN.len()] };
        assert!(all[n].id.0 as usize == n, "types stand in the order of their numbers, without a gap");
        n += 1;
    }
    all
};

/// What the number of an array type has beside that of its items' type.
const ARRAY: u16 = 1 << 15;

/// The numbers of types that users define.
pub(crate) const USER: std::ops::Range<u16> = 0x1000..POLYMORPHIC;

/// The descriptors of array types, at the places of their items' types; that of a type without arrays is not
/// one.
static ARRAYS: LazyLock<Vec<Option<TypeDef>>> =
    LazyLock::new(|| TYPES.iter().map(|item| (item.array_oid != 0).then(|| item.of_array())).collect());

/// The types that only functions are declared with: what they are in a call follows from the arguments that
/// are given ([`crate::resolve`]). They have no names in SQL. Those with a class have values where bytes
/// alone are at hand, which do not tell their type of several alike; no other numbers are stored.
macro_rules! polymorphic {
    ($($(#[$doc:meta])* $number:literal $constant:ident = $oid:literal $name:literal $class:expr;)*) => {
        impl TypeId {
            $($(#[$doc])* pub const $constant: TypeId = TypeId(POLYMORPHIC + $number);)*
        }
        static POLYMORPHIC_TYPES: &[TypeDef] = &[$(TypeDef {
            id: TypeId::$constant,
            // Of these, only rows have arrays.
            array_oid: if POLYMORPHIC + $number == TypeId::RECORD.0 { 2287 } else { 0 },
            ..TypeDef::new($oid, $name, $name, Category::Pseudo, $class)
        }),*];
    };
}

const POLYMORPHIC: u16 = 0x7f00;

polymorphic! {
    /// Any type, the same wherever it stands.
    0 ANYELEMENT = 2283 "anyelement" Class::None;
    /// An array of it.
    1 ANYARRAY = 2277 "anyarray" Class::None;
    /// The same as anyelement, and no array.
    2 ANYNONARRAY = 2776 "anynonarray" Class::None;
    /// The common type of all that are given for it.
    3 ANYCOMPATIBLE = 5077 "anycompatible" Class::None;
    /// An array of that.
    4 ANYCOMPATIBLEARRAY = 5078 "anycompatiblearray" Class::None;
    /// The same as anyelement, and an enum.
    5 ANYENUM = 3500 "anyenum" Class::Opaque(&user::enumeration::FORM);
    /// A row.
    6 RECORD = 2249 "record" Class::Opaque(&catalog::record::FORM);
}

/// The descriptor of arrays of rows.
static ROWS: LazyLock<TypeDef> = LazyLock::new(|| TypeId::RECORD.def().of_array());

/// The kinds of types within which a choice may be made by preference, as PostgreSQL has them.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Category {
    Boolean,
    Numeric,
    String,
    DateTime,
    /// Spans of time: interval.
    Timespan,
    Array,
    Composite,
    Enum,
    /// Types without another category: bytea.
    User,
    /// Types of PostgreSQL's catalogue.
    Internal,
    Unknown,
    Pseudo,
}

/// How the values of a type are held: the variant of [`crate::Value`]. Several types may share one.
#[derive(Copy, Clone, Debug)]
pub enum Class {
    /// The type has no values.
    None,
    Bool,
    Int2,
    Int4,
    Int8,
    Float8,
    Numeric,
    Text,
    Bytea,
    Date,
    Timestamp,
    Timestamptz,
    /// Bytes that only the type's own functions understand.
    Opaque(&'static Form),
}

/// What may stand in parentheses behind a type's name.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Modifier {
    None,
    /// A number of characters; `word` is the type's name in messages.
    Length {
        word: &'static str,
    },
    PrecisionAndScale,
    /// Digits of a second's fraction; `word` and `zone` are the type's name in messages.
    Seconds {
        word: &'static str,
        zone: &'static str,
    },
    /// Of a type in [`crate::catalog`].
    Own(&'static OwnModifier),
}

/// A modifier that only its type understands. The type's cast to itself brings values into it.
#[derive(Debug)]
pub struct OwnModifier {
    /// The coded modifier, not negative unless it means none, of the numbers that the grammar gives.
    pub code: fn(&[i32]) -> SqlResult<i32>,
    /// How it is written behind the type's name, for documentation: `(n)`.
    pub written: &'static str,
    /// What stands behind the type's name for a coded modifier.
    pub show: fn(i32) -> String,
    /// Whether the text of a literal may mean something else with the modifier than without.
    pub is_read_with: bool,
}

/// It is one static each.
impl PartialEq for OwnModifier {
    fn eq(&self, other: &OwnModifier) -> bool {
        std::ptr::eq(self, other)
    }
}
impl Eq for OwnModifier {}

/// What is known of a type.
#[derive(Clone, Copy, Debug)]
pub struct TypeDef {
    pub id: TypeId,
    /// The type's number in PostgreSQL's `pg_type`.
    pub oid: u32,
    /// That of the arrays of it; 0 if there are none.
    pub array_oid: u32,
    /// Its name there, which functions and operator classes are named after: `int4`.
    pub catalog_name: &'static str,
    /// The name that PostgreSQL shows: `integer`.
    pub name: &'static str,
    /// Further names that SQL has for it.
    pub also: &'static [&'static str],
    pub category: Category,
    /// Whether it is the preferred type of its category.
    pub is_preferred: bool,
    pub class: Class,
    pub modifier: Modifier,
    /// The definition of a type that users define, also of the arrays of it.
    pub user: Option<&'static UserDef>,
}

impl TypeDef {
    const fn new(
        oid: u32,
        catalog_name: &'static str,
        name: &'static str,
        category: Category,
        class: Class,
    ) -> TypeDef {
        let (also, modifier): (&[&str], _) = (&[], Modifier::None);
        TypeDef {
            id: TypeId::UNKNOWN,
            oid,
            array_oid: 0,
            catalog_name,
            name,
            also,
            category,
            is_preferred: false,
            class,
            modifier,
            user: None,
        }
    }
    /// Of a type in [`crate::catalog`].
    pub(crate) const fn opaque(
        oid: u32,
        catalog_name: &'static str,
        name: &'static str,
        category: Category,
        form: &'static Form,
    ) -> TypeDef {
        TypeDef::new(oid, catalog_name, name, category, Class::Opaque(form))
    }
    pub(crate) const fn preferred(mut self) -> TypeDef {
        self.is_preferred = true;
        self
    }
    pub(crate) const fn array(mut self, oid: u32) -> TypeDef {
        self.array_oid = oid;
        self
    }
    const fn also(mut self, names: &'static [&'static str]) -> TypeDef {
        self.also = names;
        self
    }
    pub(crate) const fn modified(mut self, modifier: Modifier) -> TypeDef {
        self.modifier = modifier;
        self
    }

    /// The descriptor of the arrays of this type.
    fn of_array(&self) -> TypeDef {
        // There is one for each type of the program, for ever.
        let catalog_name = String::leak(format!("_{}", self.catalog_name));
        let name = String::leak(format!("{}[]", self.name));
        let class = Class::Opaque(&array::FORM);
        let def = TypeDef::new(self.array_oid, catalog_name, name, Category::Array, class);
        TypeDef { id: TypeId(self.id.0 | ARRAY), user: self.user, ..def }
    }

    /// Of a type that users define, and of the arrays of it.
    pub(crate) fn of_user(
        slot: u16,
        oids: (u32, u32),
        names: (&'static str, &'static str),
        shape: user::Shape,
        user: &'static UserDef,
    ) -> (TypeDef, Option<TypeDef>) {
        let id = TypeId(USER.start + slot);
        let def = TypeDef::new(oids.0, names.0, names.1, shape.category, shape.class);
        let def = TypeDef { id, modifier: shape.modifier, array_oid: oids.1, user: Some(user), ..def };
        (def, (oids.1 != 0).then(|| def.of_array()))
    }
}

impl TypeId {
    /// The type whose [`TypeId::number`] this is.
    #[inline(always)]
    pub const fn of_number(number: u16) -> TypeId {
        TypeId(number)
    }

    /// How the bytes of an opaque type's values are computed with; `None` of any other type.
    #[inline]
    pub fn form(self) -> Option<&'static Form> {
        match self.class() {
            Class::Opaque(form) => Some(form),
            _ => None,
        }
    }

    /// Every type but those of arrays, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = TypeId> {
        TYPES.iter().map(|t| t.id)
    }

    /// The types of arrays.
    pub fn arrays() -> impl Iterator<Item = TypeId> {
        ARRAYS.iter().flatten().map(|t| t.id)
    }

    /// What is known of the type.
    #[inline]
    pub fn def(self) -> &'static TypeDef {
        match TYPES.get(usize::from(self.0)) {
            Some(def) => def,
            None => self.unlisted(),
        }
    }

    fn unlisted(self) -> &'static TypeDef {
        if let Some(slot) = self.user_slot() {
            return user::def_of(slot, self.is_array()).unwrap_or(&TYPES[0]);
        }
        if self == TypeId::RECORD.of_arrays() {
            return &ROWS;
        }
        let of_array = ARRAYS.get(usize::from(self.0 & !ARRAY)).and_then(Option::as_ref);
        let polymorphic = || POLYMORPHIC_TYPES.get(usize::from(self.0.wrapping_sub(POLYMORPHIC)));
        // No other numbers are made.
        of_array.filter(|_| self.is_array()).or_else(polymorphic).unwrap_or(&TYPES[0])
    }

    /// The place of a type that users define, or of the arrays of it, among those.
    const fn user_slot(self) -> Option<u16> {
        let item = self.0 & !ARRAY;
        if item >= USER.start && item < USER.end { Some(item - USER.start) } else { None }
    }

    /// Whether users have defined it, or its items' type.
    #[inline]
    pub const fn is_user(self) -> bool {
        self.user_slot().is_some()
    }

    /// Its definition, or its items' type's, if users have defined that.
    pub fn user(self) -> Option<&'static UserDef> {
        if self.is_user() { self.def().user } else { None }
    }

    /// Whether it is a type of arrays.
    #[inline]
    pub const fn is_array(self) -> bool {
        self.0 & ARRAY != 0
    }

    /// The type of an array's items; `None` of any other type.
    #[inline]
    pub const fn element(self) -> Option<TypeId> {
        if self.is_array() { Some(TypeId(self.0 & !ARRAY)) } else { None }
    }

    /// The type of the arrays of a type that has them.
    pub(crate) const fn of_arrays(self) -> TypeId {
        TypeId(self.0 | ARRAY)
    }

    /// The type of the arrays of this type, if it can have some.
    pub fn array(self) -> Option<TypeId> {
        (self.def().array_oid != 0).then_some(TypeId(self.0 | ARRAY))
    }

    /// Whether what it is in a call follows from the call's arguments.
    pub const fn is_polymorphic(self) -> bool {
        self.0 & ARRAY == 0 && self.0 >= POLYMORPHIC && self.0 < TypeId::RECORD.0
    }

    /// Whether bytes that come from outside may be a value's, if the type is opaque.
    pub fn admits(self, bytes: &[u8]) -> bool {
        match (self.element(), self.form()) {
            (Some(element), _) => array::is_whole(element, bytes),
            (None, Some(_)) if record::is_row(self) => record::is_whole(self, bytes),
            (None, Some(_)) if self == TypeId::JSON => catalog::json::is_text(bytes),
            (None, Some(_)) if self == TypeId::JSONB => catalog::json::is_whole(bytes),
            (None, Some(form)) => form.width.is_none_or(|w| bytes.len() == usize::from(w)),
            (None, None) => false,
        }
    }

    /// Whether two values of the type can be compared: not those of json, nor what is made of them.
    pub fn is_comparable(self) -> bool {
        match self.element() {
            Some(item) => item.is_comparable(),
            None if self == TypeId::JSON => false,
            None => match user::composite::fields(self) {
                Some(fields) => fields.iter().all(|p| p.of().base().id.is_comparable()),
                None => Type::new(self).base().id != TypeId::JSON,
            },
        }
    }

    /// The number, to be stored; not of a type that users define.
    #[inline(always)]
    pub const fn number(self) -> u16 {
        self.0
    }

    /// The type of a stored number; `None` for a number that is none.
    pub fn from_number(number: u16) -> Option<TypeId> {
        let listed = TYPES.get(usize::from(number & !ARRAY)).map(|t| t.id);
        if number & ARRAY == 0 { listed } else { listed?.array() }
    }

    /// The number that tells the items' type in an array's bytes: of a type that users define that of all
    /// types alike.
    pub(crate) fn item_number(self) -> u16 {
        match self.user().map(UserDef::items) {
            Some(user::Items::Alike(alike)) => alike.0,
            Some(user::Items::OfBase) => Type::new(self).base().id.item_number(),
            None => self.0,
        }
    }

    /// The type of an item's number.
    pub(crate) fn from_item_number(number: u16) -> Option<TypeId> {
        let alike = || POLYMORPHIC_TYPES.iter().find(|t| t.id.0 == number && t.id.form().is_some());
        TypeId::from_number(number).filter(|t| t.array().is_some()).or_else(|| alike().map(|t| t.id))
    }

    /// The name that PostgreSQL shows: `integer`, `timestamp without time zone`.
    pub fn name(self) -> &'static str {
        self.def().name
    }

    /// How its values are held.
    #[inline]
    pub fn class(self) -> Class {
        self.def().class
    }

    pub fn category(self) -> Category {
        self.def().category
    }

    /// Whether it is the preferred type of its category.
    pub fn is_preferred(self) -> bool {
        self.def().is_preferred
    }

    /// Whether it is text, varchar or char(n).
    pub fn is_string(self) -> bool {
        self.category() == Category::String && matches!(self.class(), Class::Text)
    }

    /// Whether it is one of them, or a literal's that may become one.
    pub fn is_string_or_unknown(self) -> bool {
        self.is_string() || self == TypeId::UNKNOWN
    }

    /// By any of the type's names, in lower case.
    pub fn from_name(name: &str) -> Option<TypeId> {
        let named = |t: &&TypeDef| t.catalog_name == name || t.name == name || t.also.contains(&name);
        TYPES.iter().chain(ARRAYS.iter().flatten()).find(named).map(|t| t.id)
    }

    /// By the name that functions are named after: a call `int4(x)` is a cast.
    pub fn from_function_name(name: &str) -> Option<TypeId> {
        let castable = |t: &&TypeDef| {
            t.catalog_name == name && !matches!(t.category, Category::Unknown | Category::Pseudo)
        };
        TYPES.iter().find(castable).map(|t| t.id)
    }

    /// The type's number in PostgreSQL's catalogue, which clients know it by.
    pub fn oid(self) -> u32 {
        self.def().oid
    }

    /// The type of a number in PostgreSQL's catalogue.
    pub fn from_oid(oid: u32) -> Option<TypeId> {
        TYPES.iter().chain(ARRAYS.iter().flatten()).find(|t| t.oid == oid).map(|t| t.id)
    }
}

/// The name that PostgreSQL shows.
impl std::fmt::Debug for TypeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::fmt::Display for TypeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
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
    /// The type that the text of a literal is read as: without the modifier, which a cast applies afterwards,
    /// unless the text's meaning depends on it.
    pub fn of_literal(self) -> Type {
        match self.id.def().modifier {
            Modifier::Own(m) if m.is_read_with => self,
            _ => Type::new(self.id),
        }
    }
    pub const BOOL: Type = Type::new(TypeId::BOOL);
    pub const INT4: Type = Type::new(TypeId::INT4);
    pub const INT8: Type = Type::new(TypeId::INT8);
    pub const TEXT: Type = Type::new(TypeId::TEXT);
    pub const UNKNOWN: Type = Type::new(TypeId::UNKNOWN);
    /// The type of an array's items, which have its modifier.
    pub fn element(self) -> Option<Type> {
        self.id.element().map(|id| Type::with(id, self.typmod))
    }
    /// The type of arrays of it, whose items have its modifier.
    pub fn array(self) -> Option<Type> {
        self.id.array().map(|id| Type::with(id, self.typmod))
    }
    /// The type whose values it has: itself, unless it is a domain, or arrays of one.
    pub fn base(self) -> Type {
        let Some(made_of) = self.id.user().and_then(|u| u.base) else { return self };
        let base = made_of.base();
        if self.id.is_array() { base.array().unwrap_or(self) } else { base }
    }
    /// The n of char(n) or varchar(n).
    pub fn char_len(self) -> Option<usize> {
        matches!(self.id.def().modifier, Modifier::Length { .. })
            .then_some(self.typmod)
            .filter(|m| *m >= 4)
            .map(|m| (m - 4) as usize)
    }
    /// (precision, scale) of numeric(p, s).
    pub fn numeric_mod(self) -> Option<(u32, i32)> {
        (self.id == TypeId::NUMERIC && self.typmod >= 4).then(|| {
            let m = self.typmod - 4;
            let s = m & 0x7ff;
            ((m >> 16) as u32 & 0xffff, (s ^ 1024) - 1024)
        })
    }
}

/// The longest char(n) and varchar(n).
const MAX_CHAR: i32 = 10_485_760;
/// The most digits of numeric(p), and the bound of its scale.
const MAX_PRECISION: i32 = 1000;
/// The finest timestamps: microseconds.
const MAX_TIME_PRECISION: i32 = 6;

pub(crate) fn bad_modifier(message: impl Into<String>) -> SqlError {
    SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}

impl Modifier {
    /// The coded modifier of what was written in parentheses.
    fn code(self, name: &str, written: &[i32]) -> SqlResult<i32> {
        match (self, written) {
            (_, []) => Ok(-1),
            (Modifier::None, _) => {
                let message = format!("type modifier is not allowed for type \"{name}\"");
                Err(SqlError::new(sqlstate::SYNTAX_ERROR, message))
            }
            (Modifier::Length { word }, [n]) if *n < 1 => {
                Err(bad_modifier(format!("length for type {word} must be at least 1")))
            }
            (Modifier::Length { word }, [n]) if *n > MAX_CHAR => {
                Err(bad_modifier(format!("length for type {word} cannot exceed {MAX_CHAR}")))
            }
            (Modifier::Length { .. }, [n]) => Ok(n + 4),
            (Modifier::PrecisionAndScale, [p]) => precision_and_scale(*p, 0),
            (Modifier::PrecisionAndScale, [p, s]) => precision_and_scale(*p, *s),
            (Modifier::PrecisionAndScale, _) => Err(bad_modifier("invalid NUMERIC type modifier")),
            (Modifier::Seconds { word, zone }, [p]) if *p < 0 => {
                Err(bad_modifier(format!("{word}({p}){zone} precision must not be negative")))
            }
            // A finer precision than there is means the finest, as in PostgreSQL (which adds a warning).
            (Modifier::Seconds { .. }, [p]) => Ok((*p).min(MAX_TIME_PRECISION)),
            (Modifier::Own(own), _) => (own.code)(written),
            (Modifier::Length { .. } | Modifier::Seconds { .. }, _) => {
                Err(bad_modifier("invalid type modifier"))
            }
        }
    }
}

fn precision_and_scale(precision: i32, scale: i32) -> SqlResult<i32> {
    if !(1..=MAX_PRECISION).contains(&precision) {
        let message = format!("NUMERIC precision {precision} must be between 1 and {MAX_PRECISION}");
        return Err(bad_modifier(message));
    }
    if !(-MAX_PRECISION..=MAX_PRECISION).contains(&scale) {
        let message = format!("NUMERIC scale {scale} must be between -{MAX_PRECISION} and {MAX_PRECISION}");
        return Err(bad_modifier(message));
    }
    Ok((precision << 16 | scale & 0x7ff) + 4)
}

impl Type {
    /// The type that a name means, with what was written in parentheses ("varchar", [20]). Names are lower
    /// case, without a schema.
    pub fn by_name(name: &str, modifiers: &[i32]) -> SqlResult<Type> {
        let modifiers = match (name, modifiers) {
            ("float", _) => return float(modifiers),
            ("char" | "character" | "nchar" | "national character", []) => &[1],
            _ => modifiers,
        };
        match TypeId::from_name(name) {
            Some(id) => Ok(Type::with(id, id.def().modifier.code(name, modifiers)?)),
            None if known::is_type(name) => Err(SqlError::unsupported(format_args!("type {name}"))),
            None => {
                let message = format!("type \"{name}\" does not exist");
                Err(SqlError::new(sqlstate::UNDEFINED_OBJECT, message))
            }
        }
    }
}

/// float(p) is one of two types.
fn float(modifiers: &[i32]) -> SqlResult<Type> {
    match modifiers {
        [] | [25..=53] => Ok(Type::new(TypeId::FLOAT8)),
        [1..=24] => Ok(Type::new(TypeId::FLOAT4)),
        [n] if *n < 1 => Err(bad_modifier("precision for type float must be at least 1 bit")),
        [_] => Err(bad_modifier("precision for type float must be less than 54 bits")),
        _ => Err(bad_modifier("invalid type modifier")),
    }
}

/// With its modifier, as PostgreSQL shows it (a char without a length is "bpchar", since "character" would
/// read back as character(1)): `numeric(12,2)`, `timestamp(3) without time zone`.
impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(element) = self.element() {
            return write!(f, "{element}[]");
        }
        if let Some(n) = self.char_len() {
            return write!(f, "{}({n})", self.id);
        }
        if let Some((precision, scale)) = self.numeric_mod() {
            return write!(f, "numeric({precision},{scale})");
        }
        match self.id.def().modifier {
            Modifier::Length { word: "char" } => f.write_str("bpchar"),
            Modifier::Seconds { .. } if self.typmod >= 0 => {
                // The precision stands behind the first word.
                let (first, rest) = self.id.name().split_once(' ').unwrap_or((self.id.name(), ""));
                write!(f, "{first}({}) {rest}", self.typmod)
            }
            Modifier::Own(own) if self.typmod >= 0 => write!(f, "{}{}", self.id, (own.show)(self.typmod)),
            _ => f.write_str(self.id.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_lead_back() {
        for (i, t) in TypeId::all().enumerate() {
            assert_eq!(usize::from(t.number()), i);
            assert_eq!(TypeId::from_number(i as u16), Some(t));
            assert_eq!(TypeId::from_name(t.name()), Some(t));
            assert_eq!(TypeId::from_oid(t.oid()), Some(t));
        }
        assert_eq!(TypeId::from_number(TypeId::all().count() as u16), None);
        for t in TypeId::arrays() {
            let element = t.element().expect("an array's");
            assert_eq!((TypeId::from_number(t.number()), element.array()), (Some(t), Some(t)));
            assert_eq!((TypeId::from_name(t.name()), TypeId::from_oid(t.oid())), (Some(t), Some(t)));
        }
        // There are none of unknown, void and pg_node_tree.
        assert_eq!(TypeId::arrays().count(), TypeId::all().count() - 3);
        assert_eq!((TypeId::VOID.array(), TypeId::from_number(TypeId::VOID.number() | ARRAY)), (None, None));
        assert_eq!(TypeId::from_number(TypeId::ANYARRAY.number()), None);
        assert_eq!((TypeId::ANYARRAY.name(), TypeId::ANYARRAY.is_array()), ("anyarray", false));
    }

    #[test]
    fn modifiers_show() {
        let numeric = |p: i32, s: i32| Type::with(TypeId::NUMERIC, ((p << 16) | (s & 0x7ff)) + 4);
        assert_eq!(numeric(12, 2).to_string(), "numeric(12,2)");
        assert_eq!(numeric(3, -2).to_string(), "numeric(3,-2)");
        assert_eq!(Type::with(TypeId::VARCHAR, 9).to_string(), "character varying(5)");
        assert_eq!(Type::with(TypeId::TIMESTAMPTZ, 3).to_string(), "timestamp(3) with time zone");
        assert_eq!(Type::new(TypeId::BPCHAR).to_string(), "bpchar");
        assert_eq!(Type::INT8.to_string(), "bigint");
        assert_eq!(numeric(12, 2).array().unwrap().to_string(), "numeric(12,2)[]");
    }
}
