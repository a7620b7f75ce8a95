//! The rows that are PostgreSQL's own: those of a new database, as far as what they describe is here.
//!
//! Made by `scripts/postgresql-catalog`. They are read once, when somebody wants them.

use super::relation::{self, Relation};
use ondol_types::cast::cast_context;
use ondol_types::catalog::{oid, registered};
use ondol_types::func::Context;
use ondol_types::{Type, TypeId, Value, agg, func, text, window};
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// The access method of CR-trees. PostgreSQL gives numbers from 8,000 to 9,999 to what is not part of it yet.
pub const CRTREE: u32 = 8405;
/// Rows that PostgreSQL does not have.
const OWN: &[(&str, &str)] = &[("pg_am", "8405\tcrtree\t0\ti")];
const TEXTS: &[(&str, &str)] = &[
    ("pg_aggregate", include_str!("fixed/pg_aggregate.txt")),
    ("pg_am", include_str!("fixed/pg_am.txt")),
    ("pg_amop", include_str!("fixed/pg_amop.txt")),
    ("pg_amproc", include_str!("fixed/pg_amproc.txt")),
    ("pg_cast", CAST),
    ("pg_collation", include_str!("fixed/pg_collation.txt")),
    ("pg_get_keywords()", include_str!("fixed/pg_get_keywords.txt")),
    ("pg_language", include_str!("fixed/pg_language.txt")),
    ("pg_opclass", include_str!("fixed/pg_opclass.txt")),
    ("pg_operator", include_str!("fixed/pg_operator.txt")),
    ("pg_opfamily", include_str!("fixed/pg_opfamily.txt")),
    ("pg_proc", PROC),
    ("pg_type", TYPE),
];

const CAST: &str = include_str!("fixed/pg_cast.txt");
const PROC: &str = include_str!("fixed/pg_proc.txt");
const TYPE: &str = include_str!("fixed/pg_type.txt");

/// A function of PostgreSQL's.
pub struct Function {
    pub oid: u32,
    pub name: &'static str,
    pub args: Vec<u32>,
    pub ret: u32,
    /// How regproc shows it.
    pub shown: String,
    /// Whether it can be called here.
    pub is_here: bool,
    /// Its fields as they are written.
    pub fields: Vec<&'static str>,
}

/// What stands in pg_type of a type, for those who describe columns.
#[derive(Clone, Copy)]
pub struct TypeFacts {
    pub name: &'static str,
    pub length: i16,
    pub by_value: bool,
    pub align: u8,
    pub storage: u8,
    pub collation: u32,
}

fn fields(line: &'static str) -> Vec<&'static str> {
    line.split('\t').collect()
}

fn number(field: Option<&&str>) -> u32 {
    field.and_then(|f| f.parse().ok()).unwrap_or(0)
}

/// Functions that are made by the binder, which the catalogue of functions has not by these names.
const BOUND: &[&str] = &[
    "aclexplode",
    "generate_series",
    "generate_subscripts",
    "pg_options_to_table",
    "unnest",
    "string_to_table",
    "json_array_elements",
    "json_array_elements_text",
    "json_each",
    "json_each_text",
    "json_extract_path",
    "json_extract_path_text",
    "json_object_keys",
    "json_populate_recordset",
    "json_to_record",
    "json_to_recordset",
    "jsonb_array_elements",
    "jsonb_array_elements_text",
    "jsonb_delete",
    "jsonb_each",
    "jsonb_each_text",
    "jsonb_extract_path",
    "jsonb_extract_path_text",
    "jsonb_object_keys",
    "jsonb_populate_recordset",
    "jsonb_to_record",
    "jsonb_to_recordset",
    "regexp_matches",
    "regexp_split_to_table",
    "current_schema",
    "current_schemas",
];

static FUNCTIONS: LazyLock<Vec<Function>> = LazyLock::new(|| {
    let place = |name| relation::by_key("pg_proc").and_then(|r| r.column(name)).unwrap_or(0);
    let (args_at, ret_at) = (place("proargtypes"), place("prorettype"));
    let mut names: HashMap<&str, u32> = HashMap::new();
    for line in PROC.lines() {
        *names.entry(line.split('\t').nth(1).unwrap_or_default()).or_default() += 1;
    }
    // How types are read and written is here with them.
    let mut used = HashSet::new();
    for line in TYPE.lines() {
        let fields = fields(line);
        if TypeId::from_oid(number(fields.first())).is_some() {
            used.extend(fields.iter().skip(15).take(7).filter_map(|f| f.parse::<u32>().ok()));
        }
    }
    // And what casts call.
    for line in CAST.lines() {
        let fields = fields(line);
        let ty = |n: usize| TypeId::from_oid(number(fields.get(n)));
        if let (Some(from), Some(to)) = (ty(1), ty(2))
            && cast_context(from, to).is_some()
        {
            used.insert(number(fields.get(3)));
        }
    }
    let read = |line: &'static str| {
        let fields = fields(line);
        let name = fields.get(1).copied().unwrap_or_default();
        let args: Vec<u32> = (fields.get(args_at).copied().unwrap_or_default().split(' '))
            .filter_map(|n| n.parse().ok())
            .collect();
        let oid = number(fields.first());
        let types = args.iter().map(|oid| type_of(*oid)).collect::<Option<Vec<_>>>();
        let is = |given: &[TypeId]| types.as_deref() == Some(given);
        let is_here = used.contains(&oid)
            || func::by_name(name).iter().any(|f| is(f.args))
            || agg::all().any(|a| a.name == name && is(a.args))
            || agg::is_aggregate(name) && name == "count" && args.is_empty()
            || window::all().any(|w| w.name == name && is(w.args))
            || BOUND.contains(&name) && types.is_some();
        let quoted = ondol_types::name::quote(name);
        let shown = if names.get(name) == Some(&1) { quoted } else { format!("pg_catalog.{quoted}") };
        Function { oid, name, args, ret: number(fields.get(ret_at)), shown, is_here, fields }
    };
    PROC.lines().map(read).collect()
});

static FUNCTIONS_BY_OID: LazyLock<HashMap<u32, &'static Function>> =
    LazyLock::new(|| FUNCTIONS.iter().map(|f| (f.oid, f)).collect());

static FACTS: LazyLock<HashMap<u32, TypeFacts>> = LazyLock::new(|| {
    let Some(r) = relation::by_key("pg_type") else { return HashMap::new() };
    let place = |name: &str| r.column(name).unwrap_or(0);
    let at = ["typname", "typlen", "typbyval", "typalign", "typstorage", "typcollation"].map(place);
    let read = |line: &'static str| {
        let fields = fields(line);
        let field = |n: usize| fields.get(at[n]).copied().unwrap_or_default();
        let byte = |n: usize| field(n).bytes().next().unwrap_or(0);
        let facts = TypeFacts {
            name: field(0),
            length: field(1).parse().unwrap_or(-1),
            by_value: field(2) == "t",
            align: byte(3),
            storage: byte(4),
            collation: field(5).parse().unwrap_or(0),
        };
        (number(fields.first()), facts)
    };
    TYPE.lines().map(read).collect()
});

/// Whether a type of PostgreSQL's has the name.
pub fn is_type(name: &str) -> bool {
    static NAMES: LazyLock<HashSet<&'static str>> =
        LazyLock::new(|| FACTS.values().map(|f| f.name).collect());
    NAMES.contains(name)
}

/// All functions of PostgreSQL's, also those that are not here.
pub fn functions() -> &'static [Function] {
    &FUNCTIONS
}

/// A function by its number.
pub fn function(oid: u32) -> Option<&'static Function> {
    FUNCTIONS_BY_OID.get(&oid).copied()
}

/// What stands in pg_type of a type of PostgreSQL's, also of one that is not here.
pub fn facts(oid: u32) -> Option<TypeFacts> {
    FACTS.get(&oid).copied()
}

/// The type of a number, one that functions are declared with among them.
pub fn type_of(oid: u32) -> Option<TypeId> {
    const POLYMORPHIC: [TypeId; 6] = [
        TypeId::ANYELEMENT,
        TypeId::ANYARRAY,
        TypeId::ANYNONARRAY,
        TypeId::ANYCOMPATIBLE,
        TypeId::ANYCOMPATIBLEARRAY,
        TypeId::ANYENUM,
    ];
    // "any" stands for itself in lists of arguments.
    const ANY: u32 = 2276;
    if oid == ANY {
        return Some(func::ANY);
    }
    TypeId::from_oid(oid).or_else(|| POLYMORPHIC.into_iter().find(|t| t.oid() == oid))
}

/// Whether a row describes something that is here.
fn is_here(relation: &str, row: &[Value], r: &Relation) -> bool {
    let number = |column: &str| match r.column(column).and_then(|c| row.get(c)) {
        Some(Value::Opaque(_, b)) => b.first_chunk().map_or(0, |b| u32::from_le_bytes(*b)),
        _ => 0,
    };
    let has_type = |column: &str| number(column) == 0 || type_of(number(column)).is_some();
    let has_function = |column: &str| function(number(column)).is_some_and(|f| f.is_here);
    const PSEUDO: [u32; 4] = [2249, 2276, 2281, 2275];
    match relation {
        "pg_type" => {
            let oid = number("oid");
            PSEUDO.contains(&oid) || type_of(oid).is_some() && has_type("typelem")
        }
        "pg_proc" => has_function("oid"),
        "pg_aggregate" => has_function("aggfnoid"),
        "pg_operator" => {
            let operand = |column: &str| (number(column) != 0).then(|| type_of(number(column))).flatten();
            let name = r.column("oprname").and_then(|c| row.get(c)).map(Value::to_string);
            func::operators().iter().any(|o| {
                Some(o.name) == name.as_deref()
                    && o.left == operand("oprleft")
                    && Some(o.right) == operand("oprright")
            })
        }
        "pg_cast" => {
            let (from, to) = (type_of(number("castsource")), type_of(number("casttarget")));
            matches!((from, to), (Some(from), Some(to))
                if cast_context(from, to).is_some())
        }
        "pg_am" => [2, 403, 405, CRTREE].contains(&number("oid")),
        "pg_opclass" => [403, 405].contains(&number("opcmethod")) && has_type("opcintype"),
        "pg_opfamily" => [403, 405].contains(&number("opfmethod")),
        "pg_amop" => {
            [403, 405].contains(&number("amopmethod"))
                && has_type("amoplefttype")
                && has_type("amoprighttype")
        }
        "pg_amproc" => has_type("amproclefttype") && has_type("amprocrighttype") && has_function("amproc"),
        _ => true,
    }
}

fn value(field: &str, ty: TypeId) -> Value {
    if field == "\\N" {
        return Value::Null;
    }
    let field = field.replace("\\\\", "\\");
    if ty == TypeId::REGPROC {
        let n = field.parse().unwrap_or(0);
        return registered::named(ty, n, function(n).map_or("", |f| &f.shown));
    }
    text::input(&field, Type::new(ty), &Context::EMPTY).unwrap_or(Value::Null)
}

type FixedRows = Vec<Vec<Value>>;

static ROWS: LazyLock<HashMap<&'static str, LazyLock<FixedRows, Box<dyn FnOnce() -> FixedRows + Send>>>> =
    LazyLock::new(|| {
        let all = TEXTS.iter().map(|(name, text)| {
            let read: Box<dyn FnOnce() -> FixedRows + Send> = Box::new(move || {
                let Some(r) = relation::by_key(name) else { return Vec::new() };
                let own = OWN.iter().filter(|(of, _)| of == name).map(|(_, line)| *line);
                (text.lines().chain(own))
                    .map(|line| {
                        (r.columns.iter().zip(line.split('\t'))).map(|(c, f)| value(f, c.ty)).collect()
                    })
                    .filter(|row: &Vec<Value>| is_here(name, row, r))
                    .collect()
            });
            (*name, LazyLock::new(read))
        });
        all.collect()
    });

/// The fixed rows of a relation.
pub fn rows(relation: &str) -> &'static [Vec<Value>] {
    ROWS.get(relation).map_or(&[], |r| r)
}

/// The number of the operator class of a name that indexes of the kind have.
pub fn operator_class_named(method: u32, name: &str) -> Option<u32> {
    let text = TEXTS.iter().find(|(n, _)| *n == "pg_opclass")?.1;
    text.lines().find_map(|line| {
        let mut fields = line.split('\t');
        let (oid, of, called) = (fields.next()?, fields.next()?, fields.next()?);
        (of == method.to_string() && called == name).then(|| oid.parse().ok())?
    })
}

/// The number of the operator class that an index of the kind has for a type, if none is named.
pub fn operator_class(method: u32, ty: TypeId) -> u32 {
    use ondol_types::ty::Category;
    let input = match ty {
        TypeId::VARCHAR => TypeId::TEXT.oid(),
        t if t.is_array() => TypeId::ANYARRAY.oid(),
        t if t.category() == Category::Enum => TypeId::ANYENUM.oid(),
        t => t.oid(),
    };
    let is_it = |row: &&Vec<Value>| {
        row.get(1) == Some(&oid::oid(method))
            && row.get(6) == Some(&oid::oid(input))
            && row.get(7) == Some(&Value::Bool(true))
    };
    match rows("pg_opclass").iter().find(is_it).and_then(|r| r.first()) {
        Some(Value::Opaque(_, b)) => b.first_chunk().map_or(0, |b| u32::from_le_bytes(*b)),
        _ => 0,
    }
}
