//! The relations of the catalogue, and their columns (catalog/Y1).

use ondol_types::{Type, TypeId};
use std::collections::HashMap;
use std::sync::LazyLock;

/// A column.
#[derive(Debug)]
pub struct Column {
    pub name: &'static str,
    pub ty: TypeId,
    pub not_null: bool,
}

/// A relation.
#[derive(Debug)]
pub struct Relation {
    /// Its name, behind that of its schema unless this is pg_catalog.
    pub key: &'static str,
    pub schema: &'static str,
    pub name: &'static str,
    /// Whether PostgreSQL has it as a view.
    pub is_view: bool,
    pub oid: u32,
    pub columns: Vec<Column>,
}

impl Relation {
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name == name)
    }
}

/// Made by `scripts/postgresql-catalog`.
const LIST: &str = include_str!("fixed/relations.txt");

/// A type as it is written there; text for one that is not here.
fn type_named(name: &str) -> TypeId {
    let (item, is_array) = name.strip_suffix("[]").map_or((name, false), |n| (n, true));
    let id = match item {
        "\"char\"" => TypeId::QUOTED_CHAR,
        _ => Type::by_name(item, &[]).map_or(TypeId::TEXT, |t| t.id),
    };
    if is_array { id.array().unwrap_or(id) } else { id }
}

fn read(line: &'static str) -> Option<Relation> {
    let mut words = line.splitn(4, ' ');
    let full = words.next()?;
    let (schema, name) = full.split_once('.')?;
    let is_view = words.next()? == "v";
    let oid = words.next()?.parse().ok()?;
    let column = |written: &'static str| {
        let (name, ty) = written.split_once(':')?;
        let (ty, not_null) = ty.strip_suffix('!').map_or((ty, false), |t| (t, true));
        Some(Column { name, ty: type_named(ty), not_null })
    };
    let columns = words.next()?.split(',').filter_map(column).collect();
    let key = if schema == "pg_catalog" { name } else { full };
    Some(Relation { key, schema, name, is_view, oid, columns })
}

/// Functions of PostgreSQL's that give the same rows whenever they are called, as relations.
const FUNCTIONS: &str = "\
pg_catalog.pg_get_keywords() r 0 word:text,catcode:\"char\",barelabel:boolean,catdesc:text,baredesc:text";

static OF_FUNCTIONS: LazyLock<Vec<Relation>> = LazyLock::new(|| FUNCTIONS.lines().filter_map(read).collect());

/// The relation that a function without arguments gives.
pub fn function_relation(name: &str, arguments: usize) -> Option<&'static Relation> {
    OF_FUNCTIONS.iter().find(|r| arguments == 0 && r.name.strip_suffix("()") == Some(name))
}

static RELATIONS: LazyLock<Vec<Relation>> = LazyLock::new(|| LIST.lines().filter_map(read).collect());
static BY_KEY: LazyLock<HashMap<&'static str, &'static Relation>> =
    LazyLock::new(|| RELATIONS.iter().chain(OF_FUNCTIONS.iter()).map(|r| (r.key, r)).collect());

/// All of them.
pub fn all() -> &'static [Relation] {
    &RELATIONS
}

/// The relation of a key.
pub fn by_key(key: &str) -> Option<&'static Relation> {
    BY_KEY.get(key).copied()
}

/// The relation of a name, found without a schema or with one.
pub fn relation(schema: &str, name: &str) -> Option<&'static Relation> {
    match schema {
        "" | "pg_catalog" => by_key(name).filter(|r| r.schema == "pg_catalog" && r.oid != 0),
        "information_schema" => by_key(&format!("{schema}.{name}")),
        _ => None,
    }
}
