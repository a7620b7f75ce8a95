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

/// A type as it is written there; text for one that is not here, and an array of it for what is an array of
/// whatever type.
fn type_named(name: &str) -> TypeId {
    let name = if name == "anyarray" { "text[]" } else { name };
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

/// Views that PostgreSQL has as part of an extension, and that are simply there; its catalogue of relations
/// does not list them.
const OF_EXTENSIONS: &str = "\
pg_catalog.pg_stat_statements v 16000 userid:oid,dbid:oid,toplevel:boolean,queryid:bigint,query:text,\
plans:bigint,total_plan_time:double precision,min_plan_time:double precision,\
max_plan_time:double precision,mean_plan_time:double precision,stddev_plan_time:double precision,\
calls:bigint,total_exec_time:double precision,min_exec_time:double precision,\
max_exec_time:double precision,mean_exec_time:double precision,stddev_exec_time:double precision,\
rows:bigint,shared_blks_hit:bigint,shared_blks_read:bigint,shared_blks_dirtied:bigint,\
shared_blks_written:bigint,local_blks_hit:bigint,local_blks_read:bigint,local_blks_dirtied:bigint,\
local_blks_written:bigint,temp_blks_read:bigint,temp_blks_written:bigint,\
blk_read_time:double precision,blk_write_time:double precision,temp_blk_read_time:double precision,\
temp_blk_write_time:double precision,wal_records:bigint,wal_fpi:bigint,wal_bytes:numeric,\
jit_functions:bigint,jit_generation_time:double precision,jit_inlining_count:bigint,\
jit_inlining_time:double precision,jit_optimization_count:bigint,\
jit_optimization_time:double precision,jit_emission_count:bigint,jit_emission_time:double precision";

/// Functions of PostgreSQL's that give the same rows whenever they are called, as relations.
const FUNCTIONS: &str = "\
pg_catalog.pg_get_keywords() r 0 word:text,catcode:\"char\",barelabel:boolean,catdesc:text,baredesc:text";

static OF_FUNCTIONS: LazyLock<Vec<Relation>> = LazyLock::new(|| FUNCTIONS.lines().filter_map(read).collect());

/// The relation that a function without arguments gives.
pub fn function_relation(name: &str, arguments: usize) -> Option<&'static Relation> {
    OF_FUNCTIONS.iter().find(|r| arguments == 0 && r.name.strip_suffix("()") == Some(name))
}

static EXTENDING: LazyLock<Vec<Relation>> =
    LazyLock::new(|| OF_EXTENSIONS.lines().filter_map(read).collect());
static RELATIONS: LazyLock<Vec<Relation>> = LazyLock::new(|| LIST.lines().filter_map(read).collect());
static BY_KEY: LazyLock<HashMap<&'static str, &'static Relation>> = LazyLock::new(|| {
    RELATIONS.iter().chain(EXTENDING.iter()).chain(OF_FUNCTIONS.iter()).map(|r| (r.key, r)).collect()
});

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
