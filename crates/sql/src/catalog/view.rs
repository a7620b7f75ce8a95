//! Relations that are queries over the others: those of information_schema, and some of pg_catalog.
//!
//! A query gives the columns in their order, or those that are listed beside it; each is cast to its type and
//! takes its name, and those that are not listed are NULL.

use super::information;
use super::relation::{self, Relation};
use crate::bind::Binder;
use crate::bound::{Query, Statement, walk_query_mut};
use crate::parse;
use ondol_engine::Catalog;
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::collections::HashMap;
use std::sync::LazyLock;

/// A relation that is a query: its key, the columns that the query gives, all if none is listed, and its
/// text.
pub type View = (&'static str, &'static str, String);

/// What has an owner and a list of privileges: its relation, the columns of both, and which of its rows.
const OWNED: [(&str, &str, &str, &str); 4] = [
    ("pg_namespace", "nspowner", "nspacl", "true"),
    ("pg_class", "relowner", "relacl", "c.relkind NOT IN ('i', 'I', 't', 'c')"),
    ("pg_proc", "proowner", "proacl", "true"),
    (
        "pg_type",
        "typowner",
        "typacl",
        "(c.typtype IN ('b', 'd', 'e', 'm', 'r') AND c.typelem = 0
            OR c.typtype = 'c' AND c.typrelid IN (SELECT r.oid FROM pg_catalog.pg_class r WHERE r.relkind = 'c'))",
    ),
];

static VIEWS: LazyLock<HashMap<&'static str, (&'static str, String)>> = LazyLock::new(|| {
    let views = [
        (
            "pg_tables",
            "",
            "SELECT n.nspname, c.relname, pg_catalog.pg_get_userbyid(c.relowner), NULL, c.relhasindex,
                c.relhasrules, c.relhastriggers, c.relrowsecurity
             FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
             WHERE c.relkind IN ('r', 'p')"
                .to_string(),
        ),
        (
            "pg_views",
            "",
            "SELECT n.nspname, c.relname, pg_catalog.pg_get_userbyid(c.relowner), pg_catalog.pg_get_viewdef(c.oid)
             FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
             WHERE c.relkind = 'v'"
                .to_string(),
        ),
        (
            "pg_matviews",
            "",
            "SELECT n.nspname, c.relname, pg_catalog.pg_get_userbyid(c.relowner), NULL, c.relhasindex,
                c.relispopulated, pg_catalog.pg_get_viewdef(c.oid)
             FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
             WHERE c.relkind = 'm'"
                .into(),
        ),
        (
            "pg_indexes",
            "",
            "SELECT n.nspname, c.relname, i.relname, NULL, pg_catalog.pg_get_indexdef(i.oid)
             FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class c ON c.oid = x.indrelid
             JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
             LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
             WHERE c.relkind IN ('r', 'm', 'p') AND i.relkind IN ('i', 'I')"
                .to_string(),
        ),
        (
            "pg_user",
            "",
            "SELECT rolname, oid, rolcreatedb, rolsuper, rolreplication, rolbypassrls, '********',
                rolvaliduntil, rolconfig
             FROM pg_catalog.pg_roles WHERE rolcanlogin"
                .to_string(),
        ),
        (
            "pg_shadow",
            "",
            "SELECT rolname, a.oid, rolcreatedb, rolsuper, rolreplication, rolbypassrls, rolpassword,
                rolvaliduntil, setconfig
             FROM pg_catalog.pg_authid a LEFT JOIN pg_catalog.pg_db_role_setting s
                ON a.oid = s.setrole AND s.setdatabase = 0
             WHERE rolcanlogin"
                .to_string(),
        ),
        (
            "pg_shdepend",
            "",
            format!(
                "SELECT d.oid, x.class, x.object, x.part, 'pg_catalog.pg_authid'::pg_catalog.regclass::oid, x.role, x.kind
                 FROM ({owners} UNION ALL {grants}) x(class, object, part, role, kind)
                 CROSS JOIN pg_catalog.pg_database d
                 WHERE x.role <> 10 AND d.datname = pg_catalog.current_database()",
                owners = OWNED.map(|(class, owner, _, only)| format!(
                    "SELECT 'pg_catalog.{class}'::pg_catalog.regclass::oid, c.oid, 0, c.{owner}, 'o'
                     FROM pg_catalog.{class} c WHERE {only}"
                )).join(" UNION ALL "),
                grants = OWNED.map(|(class, owner, acl, only)| format!(
                    "SELECT DISTINCT 'pg_catalog.{class}'::pg_catalog.regclass::oid, c.oid, 0, r.role, 'a'
                     FROM pg_catalog.{class} c CROSS JOIN LATERAL pg_catalog.aclexplode(c.{acl}) x
                     CROSS JOIN LATERAL (VALUES (x.grantee), (x.grantor)) r(role)
                     WHERE {only} AND r.role NOT IN (0, c.{owner})"
                )).into_iter().chain([
                    "SELECT DISTINCT 'pg_catalog.pg_class'::pg_catalog.regclass::oid, c.oid, a.attnum::int4, r.role, 'a'
                     FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
                     CROSS JOIN LATERAL pg_catalog.aclexplode(a.attacl) x
                     CROSS JOIN LATERAL (VALUES (x.grantee), (x.grantor)) r(role)
                     WHERE r.role NOT IN (0, c.relowner)".to_string()
                ]).collect::<Vec<_>>().join(" UNION ALL "),
            ),
        ),
    ];
    let all = views.into_iter().chain(information::views());
    all.map(|(key, columns, text)| (key, (columns, text))).collect()
});

/// The query that a relation is, bound; `None` for one that has rows of its own.
pub fn query_of(catalog: &Catalog, r: &Relation) -> SqlResult<Option<Query>> {
    let Some((given, text)) = VIEWS.get(r.key) else { return Ok(None) };
    let all = r.columns.iter().map(|c| c.name).collect::<Vec<_>>().join(", ");
    let given = if given.is_empty() { &all } else { *given };
    let names: Vec<&str> = given.split(',').map(str::trim).collect();
    let column = |c: &relation::Column| {
        let ty = if c.ty.is_array() { "text[]" } else { c.ty.name() };
        let place = names.iter().position(|n| *n == c.name);
        let value = place.map_or("NULL".to_string(), |n| format!("c{n}"));
        format!("{value}::{ty} AS {}", ondol_types::name::quote(c.name))
    };
    let columns: Vec<String> = r.columns.iter().map(column).collect();
    let names: Vec<String> = (0..names.len()).map(|n| format!("c{n}")).collect();
    let text = format!("SELECT {} FROM ({text}) v({})", columns.join(", "), names.join(", "));
    let wrong = |e: SqlError| {
        let message = format!("the query of {} has no meaning: {e}", r.key);
        SqlError::new(sqlstate::INTERNAL_ERROR, message)
    };
    let raws = parse::parse(&text).map_err(wrong)?;
    let [raw] = &raws[..] else { return Ok(None) };
    let bound = Binder::new(catalog, &text, &[]).bind(raw).map_err(wrong)?;
    let Statement::Query(mut query) = bound.statement else { return Ok(None) };
    // Places in the text mean nothing to who reads the relation.
    walk_query_mut(&mut query, 0, &mut |e, _| {
        e.at = u32::MAX;
        true
    });
    Ok(Some(query))
}

/// The relations that are queries, for tests.
#[cfg(test)]
pub fn keys() -> impl Iterator<Item = &'static str> {
    VIEWS.keys().copied()
}
