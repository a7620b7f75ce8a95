//! The catalogue of functions and operators: what each is called, what it takes, what it gives, and the code
//! that computes it.
//!
//! Each family of functions has a file here with a table in it ([`functions!`]); [`operator`] maps operator
//! symbols to functions. Names, argument types, results and volatility are those of PostgreSQL 15's `pg_proc`
//! and `pg_operator`, so that a function can be called by the name PostgreSQL knows it by (`int4pl`,
//! `texteq`).
//!
//! Invariants:
//! 1. A [`FuncId`] means the same function for ever: compiled queries are stored with it. A number is never
//!    given to another function, and a test holds the whole catalogue against a recorded list.
//! 2. A strict function never sees a NULL: [`call`] answers NULL first. Others must look for it.
//! 3. A function reads nothing but its arguments and its [`Context`]; an immutable one of that only its
//!    limits. What it looks into beside ([`FuncDef::data`]) is a part of the build.
//! 4. Arguments arrive with the types the definition names (the binder has put the casts in). Where they do
//!    not, the answer is an internal error, not a panic.
//!
//! Concurrency: the tables are constant; the index by name is made once, by code that neither waits nor
//! yields.
//!
//! The time zone of a session is UTC; it is what `date`, `timestamp` and `timestamptz` are compared and
//! converted in.
//!
//! Not here: casts ([`crate::cast`]), the choice among overloads ([`crate::resolve`]), and what is syntax
//! rather than a function (`COALESCE`, `CASE`, `IS DISTINCT FROM`, `GREATEST`).
//!
//! Source: PostgreSQL 15's catalogue and documentation, chapters 9 and 52.

use crate::data::Data;
use crate::limits::{Limits, SMALL};
use crate::numeric::Numeric;
use crate::objects::{self, Objects};
use crate::style::Styles;
use crate::{SqlError, SqlResult, TypeId, Value, ValueRef, sqlstate};
use std::sync::LazyLock;

/// One family's table: number, constant, SQL name, argument types, result, code, and what differs from
/// "strict and immutable". The constants end up in [`id`].
macro_rules! functions {
    ($($num:literal $constant:ident $name:literal ($($arg:ident),*) -> $ret:ident = $run:expr
        $(, $attr:ident)*;)*) => {
        /// This family's constants, for [`crate::func::id`].
        pub mod id {
            use crate::func::FuncId;
            $(pub const $constant: FuncId = FuncId($num);)*
        }
        pub(crate) const DEFS: &[crate::func::FuncDef] = &[
            $(crate::func::FuncDef::new($num, $name, &[$(crate::func::sig::$arg),*],
                crate::func::sig::$ret, $run)$(.$attr())*,)*
        ];
    };
}

pub(crate) use functions;

pub mod bytea;
pub mod compare;
pub mod compose;
pub mod datetime;
pub mod digest;
pub mod exact;
pub mod float;
pub(crate) mod format;
pub mod integer;
pub mod moment;
pub mod named;
pub mod number;
pub mod operator;
pub mod pattern;
pub mod regex;
pub mod sequence;
pub mod series;
pub mod session;
pub mod system;
pub mod text;

pub use operator::{OperatorDef, operators};

/// The stable number of a function (invariant 1).
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FuncId(pub u16);

/// The constants of all functions: `INT4_ADD`, `INT8_EQ`, `TEXT_LT`, ...
pub mod id {
    pub use super::bytea::id::*;
    pub use super::compare::id::*;
    pub use super::compose::id::*;
    pub use super::datetime::id::*;
    pub use super::exact::id::*;
    pub use super::float::id::*;
    pub use super::format::id::*;
    pub use super::integer::id::*;
    pub use super::moment::id::*;
    pub use super::number::id::*;
    pub use super::pattern::id::*;
    pub use super::regex::id::*;
    pub use super::sequence::id::*;
    pub use super::series::id::*;
    pub use super::session::id::*;
    pub use super::system::id::*;
    pub use super::text::id::*;
    pub use crate::array::id::*;
    pub use crate::catalog::id::*;
    pub use crate::catalog::record::id::*;
    pub use crate::coordinate::id::*;
    pub use crate::user::id::*;
}

/// In an argument list: any type (PostgreSQL's "any"). The argument is passed as it is.
pub const ANY: TypeId = TypeId::VOID;

/// The names the tables write types with.
#[allow(non_upper_case_globals)]
pub(crate) mod sig {
    use crate::TypeId;
    pub use crate::catalog::sig::*;
    pub const Any: TypeId = super::ANY;
    pub const Bool: TypeId = TypeId::BOOL;
    pub const Int2: TypeId = TypeId::INT2;
    pub const Int4: TypeId = TypeId::INT4;
    pub const Int8: TypeId = TypeId::INT8;
    pub const Float8: TypeId = TypeId::FLOAT8;
    pub const Numeric: TypeId = TypeId::NUMERIC;
    pub const Bpchar: TypeId = TypeId::BPCHAR;
    pub const Text: TypeId = TypeId::TEXT;
    pub const Bytea: TypeId = TypeId::BYTEA;
    pub const Date: TypeId = TypeId::DATE;
    pub const Timestamp: TypeId = TypeId::TIMESTAMP;
    pub const Timestamptz: TypeId = TypeId::TIMESTAMPTZ;
    pub const Int4Array: TypeId = TypeId::INT4.of_arrays();
    pub const TextArray: TypeId = TypeId::TEXT.of_arrays();
    pub const AnyElement: TypeId = TypeId::ANYELEMENT;
    pub const AnyArray: TypeId = TypeId::ANYARRAY;
    pub const AnyNonArray: TypeId = TypeId::ANYNONARRAY;
    pub const AnyEnum: TypeId = TypeId::ANYENUM;
    pub const Record: TypeId = TypeId::RECORD;
    pub const RecordArray: TypeId = TypeId::RECORD.of_arrays();
    pub const JsonArray: TypeId = TypeId::JSON.of_arrays();
    pub const JsonbArray: TypeId = TypeId::JSONB.of_arrays();
    pub const OidArray: TypeId = TypeId::OID.of_arrays();
    pub const BoolArray: TypeId = TypeId::BOOL.of_arrays();
    pub const AclitemArray: TypeId = TypeId::ACLITEM.of_arrays();
    pub const RegclassArray: TypeId = TypeId::REGCLASS.of_arrays();
    pub const AnyCompatible: TypeId = TypeId::ANYCOMPATIBLE;
    pub const AnyCompatibleArray: TypeId = TypeId::ANYCOMPATIBLEARRAY;
}

/// How far a result may be reused; ordered, the more volatile the greater.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Volatility {
    /// The same arguments give the same result for ever.
    Immutable,
    /// The same within one statement.
    Stable,
    /// Anything may change it.
    Volatile,
}

impl Volatility {
    const WORDS: [(Volatility, &'static str); 3] = [
        (Volatility::Immutable, "immutable"),
        (Volatility::Stable, "stable"),
        (Volatility::Volatile, "volatile"),
    ];
    /// As SQL writes it, in lower case.
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize].1
    }
    /// Of SQL's word, in lower case.
    pub fn of_word(word: &str) -> Option<Volatility> {
        Self::WORDS.iter().find(|(_, w)| *w == word).map(|(v, _)| *v)
    }
}

/// What the functions may know of the world (invariant 3). Times are microseconds from 2000-01-01 UTC.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// When the transaction began: `now()`.
    pub now_us: i64,
    /// When the statement began.
    pub statement_us: i64,
    /// The time of this moment.
    pub clock: &'a dyn Fn() -> i64,
    /// Sixty-four random bits.
    pub random: &'a dyn Fn() -> u64,
    pub user: &'a str,
    pub session_user: &'a str,
    pub database: &'a str,
    /// The answer of `version()`.
    pub version: &'a str,
    /// What the function may take.
    pub limits: Limits<'a>,
    /// The session that calls.
    pub caller: &'a dyn Caller,
    /// The objects of the database.
    pub objects: &'a dyn Objects,
    /// How it reads and shows values.
    pub styles: Styles,
}

/// What functions ask of the session that calls them ([`FuncDef::asks`]).
pub trait Caller {
    /// A setting, as SHOW gives it; `None` if there is none of that name.
    fn setting(&self, name: &str) -> SqlResult<Option<String>>;
    /// Sets it, or resets it (`None`), and gives it as SHOW does then.
    fn set(&self, name: &str, value: Option<&str>, local: bool) -> SqlResult<String>;
    /// Tells the user something, once the statement has succeeded.
    fn warn(&self, sqlstate: &'static str, message: String);
    /// The bits of the `ctid` of the row on which a cursor stands, of a table by its name and number; `None`
    /// where it has none of that table.
    fn current_row(&self, cursor: &str, table: (&str, i32)) -> SqlResult<Option<u64>>;
    /// Tells other sessions something, if the transaction commits.
    fn notify(&self, channel: &str, payload: &str) -> SqlResult<()>;
    /// The channels that the session listens on.
    fn listens(&self) -> Vec<String>;
    /// How much of what may wait to be told is waiting.
    fn queue_usage(&self) -> f64;
}

/// Nobody: a function that asks is not called here.
#[derive(Debug)]
pub struct NoCaller;

impl Caller for NoCaller {
    fn setting(&self, _: &str) -> SqlResult<Option<String>> {
        Err(internal("a function asked for a session where there is none"))
    }
    fn set(&self, name: &str, _: Option<&str>, _: bool) -> SqlResult<String> {
        self.setting(name).map(Option::unwrap_or_default)
    }
    fn warn(&self, _: &'static str, _: String) {}
    fn current_row(&self, cursor: &str, _: (&str, i32)) -> SqlResult<Option<u64>> {
        self.setting(cursor).map(|_| None)
    }
    fn notify(&self, channel: &str, _: &str) -> SqlResult<()> {
        self.setting(channel).map(drop)
    }
    fn listens(&self) -> Vec<String> {
        Vec::new()
    }
    fn queue_usage(&self) -> f64 {
        0.0
    }
}

impl Context<'static> {
    /// A context in which nothing is known, and nothing limited.
    pub const EMPTY: Context<'static> = Context {
        now_us: 0,
        statement_us: 0,
        clock: &|| 0,
        random: &|| 0,
        user: "",
        session_user: "",
        database: "",
        version: "",
        limits: Limits::NONE,
        caller: &NoCaller,
        objects: &objects::Nothing,
        styles: Styles::USUAL,
    };
    /// The same, for what is computed ahead: immutable functions of constants.
    pub const AHEAD: Context<'static> =
        Context { limits: Limits::AHEAD, objects: &objects::Unknown, ..Context::EMPTY };
}

/// One call: the arguments and the world.
pub struct Call<'a> {
    pub args: &'a [ValueRef<'a>],
    pub ctx: &'a Context<'a>,
}

/// The code of a function.
pub type Run = fn(&mut Call<'_>) -> SqlResult<Value>;

/// One function of the catalogue.
#[derive(Clone, Copy)]
pub struct FuncDef {
    pub id: FuncId,
    pub name: &'static str,
    /// [`ANY`] among them stands for any type.
    pub args: &'static [TypeId],
    /// The last argument may be repeated.
    pub variadic: bool,
    pub ret: TypeId,
    /// An empty array of the type that the call gives is passed behind the arguments, which may all be NULL.
    pub template: bool,
    /// NULL in, NULL out.
    pub strict: bool,
    pub volatility: Volatility,
    /// It asks the session that calls it ([`Caller`]).
    pub asks: bool,
    /// What it looks into, so that another build may answer otherwise.
    pub data: Option<Data>,
    pub run: Run,
}

impl FuncDef {
    pub(crate) const fn new(
        num: u16,
        name: &'static str,
        args: &'static [TypeId],
        ret: TypeId,
        run: Run,
    ) -> FuncDef {
        let (strict, volatility) = (true, Volatility::Immutable);
        FuncDef {
            id: FuncId(num),
            name,
            args,
            variadic: false,
            ret,
            template: false,
            strict,
            volatility,
            asks: false,
            data: None,
            run,
        }
    }
    pub(crate) const fn stable(mut self) -> FuncDef {
        self.volatility = Volatility::Stable;
        self
    }
    pub(crate) const fn volatile(mut self) -> FuncDef {
        self.volatility = Volatility::Volatile;
        self
    }
    /// Not strict.
    pub(crate) const fn lax(mut self) -> FuncDef {
        self.strict = false;
        self
    }
    pub(crate) const fn asks(mut self) -> FuncDef {
        self.asks = true;
        self
    }
    /// It asks what Unicode says of characters.
    pub(crate) const fn unicode(mut self) -> FuncDef {
        self.data = Some(Data::Unicode);
        self
    }
    /// It asks what clocks show in a zone by its name.
    pub(crate) const fn zones(mut self) -> FuncDef {
        self.data = Some(Data::TimeZones);
        self
    }
    pub(crate) const fn variadic(mut self) -> FuncDef {
        self.variadic = true;
        self
    }
    /// Whether it is called with so many arguments, the template among them.
    pub fn takes(&self, n: usize) -> bool {
        let least = self.args.len() + usize::from(self.template);
        if self.variadic { n >= least } else { n == least }
    }
    pub(crate) const fn template(mut self) -> FuncDef {
        self.template = true;
        self
    }
}

impl std::fmt::Debug for FuncDef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}#{}{:?}->{:?}", self.name, self.id.0, self.args, self.ret)
    }
}

/// Every table of the catalogue, but those of [`crate::catalog`] and [`crate::user`].
const FAMILIES: &[&[FuncDef]] = &[
    compare::DEFS,
    compose::DEFS,
    integer::DEFS,
    moment::DEFS,
    number::DEFS,
    float::DEFS,
    exact::DEFS,
    text::DEFS,
    pattern::DEFS,
    regex::DEFS,
    sequence::DEFS,
    series::DEFS,
    bytea::DEFS,
    datetime::DEFS,
    format::DEFS,
    session::DEFS,
    system::DEFS,
    crate::array::DEFS,
    crate::coordinate::DEFS,
    crate::catalog::RECORDS,
];

/// One more than the largest number in use.
const LIMIT: usize = 1890;

/// The catalogue by number, so that [`get`] is one load.
static BY_ID: [Option<FuncDef>; LIMIT] = {
    let mut table = [const { None }; LIMIT];
    let (own, users) = (crate::catalog::FUNCTIONS, crate::user::FUNCTIONS);
    let mut f = 0;
    while f < FAMILIES.len() + own.len() + users.len() {
        let family = match f {
            _ if f < FAMILIES.len() => FAMILIES[f],
            _ if f < FAMILIES.len() + own.len() => own[f - FAMILIES.len()],
            _ => users[f - FAMILIES.len() - own.len()],
        };
        let mut i = 0;
        while i < family.len() {
            let def = family[i];
            assert!(table[def.id.0 as usize].is_none(), "a function number is used twice");
            table[def.id.0 as usize] = Some(def);
            i += 1;
        }
        f += 1;
    }
    table
};

/// The catalogue in the order of names, and of numbers within a name.
static BY_NAME: LazyLock<Vec<&'static FuncDef>> = LazyLock::new(|| {
    let mut all: Vec<_> = all().collect();
    all.sort_by_key(|d| (d.name, d.id));
    all
});

/// All functions, in the order of their numbers.
pub fn all() -> impl Iterator<Item = &'static FuncDef> {
    BY_ID.iter().flatten()
}

/// All functions of a name.
pub fn by_name(name: &str) -> &'static [&'static FuncDef] {
    let all: &'static Vec<&'static FuncDef> = &BY_NAME;
    let from = all.partition_point(|d| d.name < name);
    let to = all.partition_point(|d| d.name <= name);
    &all[from..to]
}

/// The function of a number that may come from outside (stored byte code); `None` if there is none.
pub fn find(id: FuncId) -> Option<&'static FuncDef> {
    BY_ID.get(id.0 as usize)?.as_ref()
}

/// The function of a number that came from the catalogue.
///
/// # Panics
/// If the number is in no table; use [`find`] for numbers read from disk.
pub fn get(id: FuncId) -> &'static FuncDef {
    find(id).expect("function numbers come from the catalogue")
}

/// Calls a function; NULL without running it if it is strict and an argument is NULL (invariant 2).
pub fn call(id: FuncId, args: &[ValueRef<'_>], ctx: &Context<'_>) -> SqlResult<Value> {
    let Some(def) = find(id) else {
        return Err(internal(format!("function number {} is not in the catalogue", id.0)));
    };
    if !def.takes(args.len()) {
        return Err(internal(format!("{def:?} was called with {} arguments", args.len())));
    }
    if def.strict && args.iter().any(ValueRef::is_null) {
        return Ok(Value::Null);
    }
    let given = args.iter().map(ValueRef::byte_len).sum::<usize>();
    if given > SMALL {
        // Results are about as long as the arguments, unless the function knows better.
        let is_long = matches!(
            def.ret,
            TypeId::TEXT | TypeId::BPCHAR | TypeId::BYTEA | TypeId::ANYARRAY | TypeId::ANYCOMPATIBLEARRAY
        );
        let made = if is_long { given } else { 0 };
        ctx.limits.turn(given).and_then(|()| ctx.limits.take(made))?
    }
    (def.run)(&mut Call { args, ctx })
}

/// Whether a `char(n)` argument of this function must be given with its blanks: the pattern operators and
/// functions that count or copy stored bytes look at those that values do not keep here
/// ([`crate::cast`], invariant 4). The binder wraps such an argument in [`id::BPCHAR_PAD`].
pub fn sees_padding(id: FuncId) -> bool {
    use id::*;
    const THOSE: &[FuncId] = &[
        BPCHAR_LIKE,
        BPCHAR_NOT_LIKE,
        BPCHAR_ILIKE,
        BPCHAR_NOT_ILIKE,
        BPCHAR_REGEX,
        BPCHAR_NOT_REGEX,
        BPCHAR_IREGEX,
        BPCHAR_NOT_IREGEX,
        OCTET_LENGTH_BPCHAR,
        CONCAT,
        CONCAT_WS,
        FORMAT_WITH,
        JSON_BUILD_OBJECT,
        JSON_BUILD_ARRAY,
        JSONB_BUILD_OBJECT,
        JSONB_BUILD_ARRAY,
        TO_JSON,
        TO_JSONB,
        // array/A4
        ARRAY_OF_ITEMS,
        ARRAY_APPEND,
        ARRAY_PREPEND,
        ARRAY_FILL,
        ARRAY_FILL_FROM,
        ARRAY_REPLACE,
    ];
    THOSE.contains(&id)
}

/// SQLSTATEs that only functions use.
pub(crate) mod state {
    pub const SUBSTRING_ERROR: &str = "22011";
    pub const INVALID_LOGARITHM: &str = "2201E";
    pub const INVALID_POWER: &str = "2201F";
    pub const INVALID_ESCAPE_SEQUENCE: &str = "22025";
    pub const ARRAY_SUBSCRIPT_ERROR: &str = "2202E";
    pub const CHARACTER_NOT_IN_REPERTOIRE: &str = "22021";
}

pub(crate) fn internal(message: impl Into<String>) -> SqlError {
    SqlError::new(sqlstate::INTERNAL_ERROR, message)
}

pub(crate) fn division_by_zero() -> SqlError {
    SqlError::new(sqlstate::DIVISION_BY_ZERO, "division by zero")
}

/// "integer out of range" and its like.
pub(crate) fn out_of_range(type_name: &str) -> SqlError {
    SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, format!("{type_name} out of range"))
}

macro_rules! getters {
    ($($fun:ident $variant:ident $ty:ty;)*) => {
        impl<'a> Call<'a> {
            $(#[inline]
            pub(crate) fn $fun(&self, i: usize) -> SqlResult<$ty> {
                match self.args.get(i) {
                    Some(ValueRef::$variant(v)) => Ok(*v),
                    other => Err(wrong_argument(i, stringify!($variant), other)),
                }
            })*
        }
    };
}
getters! {
    bool Bool bool;
    int2 Int2 i16;
    int4 Int4 i32;
    int8 Int8 i64;
    float8 Float8 f64;
    text Text &'a str;
    bytea Bytea &'a [u8];
    date Date i32;
    timestamp Timestamp i64;
    timestamptz Timestamptz i64;
}

#[cold]
fn wrong_argument(i: usize, expected: &str, found: Option<&ValueRef<'_>>) -> SqlError {
    internal(format!("argument {} should be {expected}, found {found:?}", i + 1))
}

impl<'a> Call<'a> {
    /// What the call may take.
    #[inline]
    pub(crate) fn limits(&self) -> &'a Limits<'a> {
        &self.ctx.limits
    }
    #[inline]
    pub(crate) fn numeric(&self, i: usize) -> SqlResult<Numeric> {
        match self.args.get(i) {
            Some(ValueRef::Numeric(b)) => Ok(Numeric::decode(b)),
            Some(ValueRef::Packed(p)) => Ok(p.numeric()),
            other => Err(wrong_argument(i, "Numeric", other)),
        }
    }
    /// The same as it is stored, for what need not decode it.
    #[inline]
    pub(crate) fn stored_numeric(&self, i: usize) -> SqlResult<ValueRef<'a>> {
        match self.args.get(i) {
            Some(v @ (ValueRef::Numeric(_) | ValueRef::Packed(_))) => Ok(*v),
            other => Err(wrong_argument(i, "Numeric", other)),
        }
    }
    /// The bytes of a char(n) argument that count: all but trailing spaces.
    #[inline]
    pub(crate) fn bpchar(&self, i: usize) -> SqlResult<&str> {
        Ok(self.text(i)?.trim_end_matches(' '))
    }
    /// The bytes of a value of a type in [`crate::catalog`].
    #[inline]
    pub(crate) fn opaque(&self, i: usize) -> SqlResult<&'a [u8]> {
        match self.args.get(i) {
            Some(ValueRef::Opaque(_, b)) => Ok(b),
            other => Err(wrong_argument(i, "opaque", other)),
        }
    }
    #[inline]
    pub(crate) fn is_null(&self, i: usize) -> bool {
        self.args.get(i).is_none_or(ValueRef::is_null)
    }
}

#[cfg(test)]
pub(crate) mod tests;
