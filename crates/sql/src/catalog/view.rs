//! Relations that are queries over the others: most of information_schema, and some of pg_catalog.
//!
//! A query gives the columns in their order, or those that are listed beside it; each is cast to its type and
//! takes its name, and those that are not listed are NULL.

use super::relation::{self, Relation};
use crate::bind::Binder;
use crate::bound::{Query, Statement, walk_query_mut};
use crate::parse;
use ondol_engine::Catalog;
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::collections::HashMap;
use std::sync::LazyLock;

/// The database's name, a column of most relations of information_schema.
const DB: &str = "pg_catalog.current_database()";

/// What information_schema says of a type of values, in SQL: `{t}` the type's row of pg_type, `{b}` that of
/// what a domain is made of, `{n}` and `{nb}` those of their schemas, `{m}` the modifier.
const DATA_TYPE: &str = "CASE WHEN {t}.typtype = 'd' THEN
        CASE WHEN {b}.typelem <> 0 AND {b}.typlen = -1 THEN 'ARRAY'
             WHEN {nb}.nspname = 'pg_catalog' THEN pg_catalog.format_type({t}.typbasetype, NULL) ELSE 'USER-DEFINED' END
        ELSE CASE WHEN {t}.typelem <> 0 AND {t}.typlen = -1 THEN 'ARRAY'
             WHEN {n}.nspname = 'pg_catalog' THEN pg_catalog.format_type({t}.oid, NULL) ELSE 'USER-DEFINED' END END";
/// The type whose values it has.
const BASE: &str = "CASE WHEN {t}.typtype = 'd' THEN {t}.typbasetype ELSE {t}.oid END";
/// The modifier of its values.
const MOD: &str = "CASE WHEN {t}.typtype = 'd' THEN {t}.typtypmod ELSE {m} END";

/// The columns from character_maximum_length on, in the order of `columns`.
fn lengths(base: &str, m: &str) -> [String; 8] {
    [
        format!("CASE WHEN {base} IN (1042, 1043) AND {m} > 0 THEN {m} - 4 END"),
        format!(
            "CASE WHEN {base} IN (25, 1042, 1043) THEN
                CASE WHEN {base} <> 25 AND {m} > 0 THEN ({m} - 4) * 4 ELSE 1073741824 END END"
        ),
        format!(
            "CASE {base} WHEN 21 THEN 16 WHEN 23 THEN 32 WHEN 20 THEN 64 WHEN 700 THEN 24 WHEN 701 THEN 53
                WHEN 1700 THEN CASE WHEN {m} >= 4 THEN (({m} - 4) >> 16) & 65535 END END"
        ),
        format!("CASE WHEN {base} IN (21, 23, 20, 700, 701) THEN 2 WHEN {base} = 1700 THEN 10 END"),
        format!(
            "CASE WHEN {base} IN (21, 23, 20) THEN 0
                WHEN {base} = 1700 AND {m} >= 4 THEN (({m} - 4) & 2047 # 1024) - 1024 END"
        ),
        format!(
            "CASE WHEN {base} = 1082 THEN 0
                WHEN {base} IN (1083, 1114, 1184, 1266) THEN CASE WHEN {m} < 0 THEN 6 ELSE {m} END
                WHEN {base} = 1186 THEN CASE WHEN {m} < 0 OR {m} & 65535 = 65535 THEN 6 ELSE {m} & 65535 END END"
        ),
        format!(
            "CASE WHEN {base} = 1186 THEN pg_catalog.upper(pg_catalog.substring(
                pg_catalog.format_type({base}, {m}), 'interval[()0-9]* (.*)')) END"
        ),
        "NULL".into(),
    ]
}

/// A text with the parts of `DATA_TYPE` and its like put in for a column of that type.
fn of(text: &str, m: &str) -> String {
    text.replace("{t}", "t")
        .replace("{b}", "bt")
        .replace("{nb}", "nbt")
        .replace("{n}", "nt")
        .replace("{m}", m)
}

/// The join of a type's row with its schema's, and those of what a domain is made of.
fn types(on: &str) -> String {
    format!(
        "JOIN pg_catalog.pg_type t ON t.oid = {on} JOIN pg_catalog.pg_namespace nt ON nt.oid = t.typnamespace
         LEFT JOIN pg_catalog.pg_type bt ON t.typtype = 'd' AND bt.oid = t.typbasetype
         LEFT JOIN pg_catalog.pg_namespace nbt ON nbt.oid = bt.typnamespace"
    )
}

fn yes(condition: &str) -> String {
    format!("CASE WHEN {condition} THEN 'YES' ELSE 'NO' END")
}

/// A query by the relation that it is: the columns that it gives, all if none is listed, and its text.
static VIEWS: LazyLock<HashMap<&'static str, (&'static str, String)>> = LazyLock::new(|| {
    let (data_type, base, m) = (of(DATA_TYPE, "a.atttypmod"), of(BASE, ""), of(MOD, "a.atttypmod"));
    let [max, octets, precision, radix, scale, seconds, fields, field_precision] = lengths(&base, &m);
    let domain_m = "t.typtypmod";
    let domain = lengths("t.typbasetype", domain_m);
    let constraint_kind = "CASE con.contype WHEN 'c' THEN 'CHECK' WHEN 'f' THEN 'FOREIGN KEY'
        WHEN 'p' THEN 'PRIMARY KEY' WHEN 'u' THEN 'UNIQUE' END";
    let constraint =
        "pg_catalog.pg_constraint con JOIN pg_catalog.pg_namespace nc ON nc.oid = con.connamespace";
    let table = "JOIN pg_catalog.pg_class r ON r.oid = con.conrelid
        JOIN pg_catalog.pg_namespace nr ON nr.oid = r.relnamespace";
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
            "information_schema.information_schema_catalog_name",
            "",
            format!("SELECT {DB}"),
        ),
        ("information_schema.enabled_roles", "", "SELECT rolname FROM pg_catalog.pg_authid".to_string()),
        (
            "information_schema.character_sets",
            "",
            format!("SELECT NULL, NULL, 'UTF8', 'UCS', 'UTF8', {DB}, NULL, NULL"),
        ),
        (
            "information_schema.collations",
            "",
            format!(
                "SELECT {DB}, nc.nspname, c.collname, 'NO PAD'
                 FROM pg_catalog.pg_collation c JOIN pg_catalog.pg_namespace nc ON nc.oid = c.collnamespace
                 WHERE c.collencoding IN (-1, 6)"
            ),
        ),
        (
            "information_schema.collation_character_set_applicability",
            "",
            format!(
                "SELECT {DB}, nc.nspname, c.collname, NULL, NULL, 'UTF8'
                 FROM pg_catalog.pg_collation c JOIN pg_catalog.pg_namespace nc ON nc.oid = c.collnamespace
                 WHERE c.collencoding IN (-1, 6)"
            ),
        ),
        (
            "information_schema.schemata",
            "",
            format!(
                "SELECT {DB}, n.nspname, u.rolname, NULL, NULL, NULL, NULL
                 FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_authid u ON u.oid = n.nspowner"
            ),
        ),
        (
            "information_schema.tables",
            "",
            format!(
                "SELECT {DB}, nc.nspname, c.relname,
                    CASE WHEN c.relpersistence = 't' THEN 'LOCAL TEMPORARY' WHEN c.relkind IN ('r', 'p') THEN 'BASE TABLE'
                         WHEN c.relkind = 'v' THEN 'VIEW' WHEN c.relkind = 'f' THEN 'FOREIGN' END,
                    NULL, NULL, NULL, NULL, NULL, {}, 'NO', NULL
                 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace nc ON nc.oid = c.relnamespace
                 WHERE c.relkind IN ('r', 'v', 'f', 'p')",
                yes("c.relkind IN ('r', 'p') OR c.relkind IN ('v', 'f')
                    AND pg_catalog.pg_relation_is_updatable(c.oid, false) & 8 = 8")
            ),
        ),
        (
            "information_schema.columns",
            "",
            format!(
                "SELECT {DB}, nc.nspname, c.relname, a.attname, a.attnum,
                    CASE WHEN a.attgenerated = '' THEN pg_catalog.pg_get_expr(ad.adbin, ad.adrelid) END,
                    {nullable}, {data_type}, {max}, {octets}, {precision}, {radix}, {scale}, {seconds},
                    {fields}, {field_precision}, NULL, NULL, NULL,
                    CASE WHEN nco.nspname IS NOT NULL THEN {DB} END, nco.nspname, co.collname,
                    CASE WHEN t.typtype = 'd' THEN {DB} END, CASE WHEN t.typtype = 'd' THEN nt.nspname END,
                    CASE WHEN t.typtype = 'd' THEN t.typname END,
                    {DB}, coalesce(nbt.nspname, nt.nspname), coalesce(bt.typname, t.typname),
                    NULL, NULL, NULL, NULL, a.attnum, 'NO',
                    {identity}, CASE a.attidentity WHEN 'a' THEN 'ALWAYS' WHEN 'd' THEN 'BY DEFAULT' END,
                    seq.seqstart, seq.seqincrement, seq.seqmax, seq.seqmin, {cycle},
                    CASE WHEN a.attgenerated <> '' THEN 'ALWAYS' ELSE 'NEVER' END,
                    CASE WHEN a.attgenerated <> '' THEN pg_catalog.pg_get_expr(ad.adbin, ad.adrelid) END,
                    {updatable}
                 FROM pg_catalog.pg_attribute a
                 LEFT JOIN pg_catalog.pg_attrdef ad ON a.attrelid = ad.adrelid AND a.attnum = ad.adnum
                 JOIN pg_catalog.pg_class c ON a.attrelid = c.oid
                 JOIN pg_catalog.pg_namespace nc ON c.relnamespace = nc.oid
                 {types}
                 LEFT JOIN pg_catalog.pg_collation co ON a.attcollation = co.oid AND co.collname <> 'default'
                 LEFT JOIN pg_catalog.pg_namespace nco ON co.collnamespace = nco.oid
                 LEFT JOIN pg_catalog.pg_depend dep ON a.attidentity <> '' AND dep.refobjid = c.oid
                    AND dep.refobjsubid = a.attnum AND dep.deptype = 'i'
                 LEFT JOIN pg_catalog.pg_sequence seq ON seq.seqrelid = dep.objid
                 WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'v', 'f', 'p')",
                nullable = yes("NOT (a.attnotnull OR t.typtype = 'd' AND t.typnotnull)"),
                identity = yes("a.attidentity <> ''"),
                cycle = yes("seq.seqcycle"),
                updatable = yes("c.relkind IN ('r', 'p') OR c.relkind IN ('v', 'f')
                    AND pg_catalog.pg_column_is_updatable(c.oid, a.attnum, false)"),
                types = types("a.atttypid"),
            ),
        ),
        (
            "information_schema.table_constraints",
            "",
            format!(
                "SELECT {DB}, nc.nspname, con.conname, {DB}, nr.nspname, r.relname, {constraint_kind}, {}, {},
                    'YES', CASE WHEN con.contype = 'u' THEN {} END
                 FROM {constraint} {table}
                 LEFT JOIN pg_catalog.pg_index i ON i.indexrelid = con.conindid AND con.contype = 'u'
                 WHERE con.contype NOT IN ('t', 'x') AND r.relkind IN ('r', 'p')
                 UNION ALL
                 SELECT {DB}, nr.nspname,
                    nr.oid || '_' || r.oid || '_' || a.attnum || '_not_null', {DB}, nr.nspname, r.relname,
                    'CHECK', 'NO', 'NO', 'YES', NULL
                 FROM pg_catalog.pg_namespace nr JOIN pg_catalog.pg_class r ON nr.oid = r.relnamespace
                 JOIN pg_catalog.pg_attribute a ON r.oid = a.attrelid
                 WHERE a.attnotnull AND a.attnum > 0 AND NOT a.attisdropped AND r.relkind IN ('r', 'p')",
                yes("con.condeferrable"),
                yes("con.condeferred"),
                "CASE WHEN i.indnullsnotdistinct THEN 'NO' ELSE 'YES' END",
            ),
        ),
        (
            "information_schema.key_column_usage",
            "",
            format!(
                "SELECT {DB}, nc.nspname, con.conname, {DB}, nr.nspname, r.relname, a.attname, k.n,
                    CASE WHEN con.contype = 'f' THEN pg_catalog.array_position(
                        ARRAY(SELECT u.conkey[p.m] FROM pg_catalog.generate_subscripts(u.conkey, 1) p(m)), con.confkey[k.n]) END
                 FROM {constraint} {table}
                 JOIN LATERAL pg_catalog.unnest(con.conkey) WITH ORDINALITY k(attnum, n) ON true
                 JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attnum = k.attnum
                 LEFT JOIN pg_catalog.pg_constraint u ON con.contype = 'f' AND u.conrelid = con.confrelid
                    AND u.conindid = con.conindid AND u.contype IN ('p', 'u')
                 WHERE con.contype IN ('p', 'u', 'f') AND r.relkind IN ('r', 'p')"
            ),
        ),
        (
            "information_schema.constraint_column_usage",
            "",
            format!(
                "SELECT {DB}, nr.nspname, r.relname, a.attname, {DB}, nc.nspname, con.conname
                 FROM {constraint}
                 JOIN pg_catalog.pg_class r
                    ON r.oid = CASE con.contype WHEN 'f' THEN con.confrelid ELSE con.conrelid END
                 JOIN pg_catalog.pg_namespace nr ON nr.oid = r.relnamespace
                 JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid
                    AND a.attnum = ANY (CASE con.contype WHEN 'f' THEN con.confkey ELSE con.conkey END)
                 WHERE con.contype IN ('c', 'p', 'u', 'f') AND r.relkind IN ('r', 'p')"
            ),
        ),
        (
            "information_schema.constraint_table_usage",
            "",
            format!(
                "SELECT {DB}, nr.nspname, r.relname, {DB}, nc.nspname, con.conname
                 FROM {constraint}
                 JOIN pg_catalog.pg_class r
                    ON r.oid = CASE con.contype WHEN 'f' THEN con.confrelid ELSE con.conrelid END
                 JOIN pg_catalog.pg_namespace nr ON nr.oid = r.relnamespace
                 WHERE con.contype IN ('p', 'u', 'f') AND r.relkind IN ('r', 'p')"
            ),
        ),
        (
            "information_schema.referential_constraints",
            "",
            format!(
                "SELECT {DB}, nc.nspname, con.conname,
                    CASE WHEN npk.nspname IS NOT NULL THEN {DB} END, npk.nspname, pk.conname,
                    CASE con.confmatchtype WHEN 'f' THEN 'FULL' WHEN 'p' THEN 'PARTIAL' WHEN 's' THEN 'NONE' END,
                    {}, {}
                 FROM {constraint}
                 LEFT JOIN pg_catalog.pg_constraint pk ON pk.conindid = con.conindid
                    AND pk.conrelid = con.confrelid AND pk.contype IN ('p', 'u')
                 LEFT JOIN pg_catalog.pg_namespace npk ON npk.oid = pk.connamespace
                 WHERE con.contype = 'f'",
                action("con.confupdtype"),
                action("con.confdeltype"),
            ),
        ),
        (
            "information_schema.check_constraints",
            "",
            format!(
                "SELECT {DB}, rs.nspname, con.conname, pg_catalog.substr(pg_catalog.pg_get_constraintdef(con.oid), 7)
                 FROM pg_catalog.pg_constraint con LEFT JOIN pg_catalog.pg_namespace rs ON rs.oid = con.connamespace
                 WHERE con.contype = 'c'
                 UNION ALL
                 SELECT {DB}, n.nspname, n.oid || '_' || r.oid || '_' || a.attnum || '_not_null',
                    a.attname || ' IS NOT NULL'
                 FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_class r ON n.oid = r.relnamespace
                 JOIN pg_catalog.pg_attribute a ON r.oid = a.attrelid
                 WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attnotnull AND r.relkind IN ('r', 'p')"
            ),
        ),
        (
            "information_schema.views",
            "",
            format!(
                "SELECT {DB}, nc.nspname, c.relname, pg_catalog.pg_get_viewdef(c.oid),
                    pg_catalog.\"$view_check\"(c.oid), {}, {}, 'NO', 'NO', 'NO'
                 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace nc ON nc.oid = c.relnamespace
                 WHERE c.relkind = 'v'",
                yes("pg_catalog.pg_relation_is_updatable(c.oid, false) & 20 = 20"),
                yes("pg_catalog.pg_relation_is_updatable(c.oid, false) & 8 = 8"),
            ),
        ),
        (
            "information_schema.sequences",
            "",
            format!(
                "SELECT {DB}, nc.nspname, c.relname, pg_catalog.format_type(s.seqtypid, NULL),
                    CASE s.seqtypid WHEN 21 THEN 16 WHEN 23 THEN 32 WHEN 20 THEN 64 END, 2, 0,
                    s.seqstart, s.seqmin, s.seqmax, s.seqincrement, {}
                 FROM pg_catalog.pg_sequence s JOIN pg_catalog.pg_class c ON c.oid = s.seqrelid
                 JOIN pg_catalog.pg_namespace nc ON nc.oid = c.relnamespace
                 WHERE NOT EXISTS (SELECT 1 FROM pg_catalog.pg_depend d WHERE d.objid = s.seqrelid AND d.deptype = 'i')",
                yes("s.seqcycle")
            ),
        ),
        (
            "information_schema.domains",
            "",
            format!(
                "SELECT {DB}, nt.nspname, t.typname, CASE WHEN nbt.nspname = 'pg_catalog'
                        THEN pg_catalog.format_type(t.typbasetype, NULL) ELSE 'USER-DEFINED' END,
                    {}, {}, NULL, NULL, NULL,
                    CASE WHEN nco.nspname IS NOT NULL THEN {DB} END, nco.nspname, co.collname,
                    {}, {}, {}, {}, {}, {}, t.typdefault, {DB}, nbt.nspname, bt.typname,
                    NULL, NULL, NULL, NULL, 1
                 FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace nt ON t.typnamespace = nt.oid
                 JOIN pg_catalog.pg_type bt ON bt.oid = t.typbasetype
                 JOIN pg_catalog.pg_namespace nbt ON bt.typnamespace = nbt.oid
                 LEFT JOIN pg_catalog.pg_collation co ON t.typcollation = co.oid AND co.collname <> 'default'
                 LEFT JOIN pg_catalog.pg_namespace nco ON co.collnamespace = nco.oid
                 WHERE t.typtype = 'd'",
                domain[0], domain[1], domain[2], domain[3], domain[4], domain[5], domain[6], domain[7],
            ),
        ),
        (
            "information_schema.domain_constraints",
            "",
            format!(
                "SELECT {DB}, rs.nspname, con.conname, {DB}, n.nspname, t.typname, {}, {}
                 FROM pg_catalog.pg_constraint con JOIN pg_catalog.pg_namespace rs ON rs.oid = con.connamespace
                 JOIN pg_catalog.pg_type t ON t.oid = con.contypid
                 JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
                 WHERE t.typtype = 'd'",
                yes("con.condeferrable"),
                yes("con.condeferred"),
            ),
        ),
        (
            "information_schema.column_domain_usage",
            "",
            format!(
                "SELECT {DB}, nt.nspname, t.typname, {DB}, nc.nspname, c.relname, a.attname
                 FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace nt ON nt.oid = t.typnamespace
                 JOIN pg_catalog.pg_attribute a ON a.atttypid = t.oid
                 JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
                 JOIN pg_catalog.pg_namespace nc ON nc.oid = c.relnamespace
                 WHERE t.typtype = 'd' AND c.relkind IN ('r', 'v', 'f', 'p') AND a.attnum > 0 AND NOT a.attisdropped"
            ),
        ),
        (
            "information_schema.column_udt_usage",
            "",
            format!(
                "SELECT {DB}, coalesce(nbt.nspname, nt.nspname), coalesce(bt.typname, t.typname), {DB},
                    nc.nspname, c.relname, a.attname
                 FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
                 JOIN pg_catalog.pg_namespace nc ON nc.oid = c.relnamespace {}
                 WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'v', 'f', 'p')",
                types("a.atttypid")
            ),
        ),
        (
            "information_schema.table_privileges",
            "",
            format!(
                "SELECT u.rolname, u.rolname, {DB}, nc.nspname, c.relname, p.privilege, 'YES',
                    CASE WHEN p.privilege = 'SELECT' THEN 'YES' ELSE 'NO' END
                 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace nc ON nc.oid = c.relnamespace
                 JOIN pg_catalog.pg_authid u ON u.oid = c.relowner
                 CROSS JOIN (VALUES ('INSERT'), ('SELECT'), ('UPDATE'), ('DELETE'), ('TRUNCATE'), ('REFERENCES'),
                    ('TRIGGER')) p(privilege)
                 WHERE c.relkind IN ('r', 'v', 'f', 'p')"
            ),
        ),
        (
            "information_schema.routines",
            "specific_catalog, specific_schema, specific_name, routine_catalog, routine_schema, routine_name,
             routine_type, data_type, type_udt_catalog, type_udt_schema, type_udt_name, dtd_identifier, routine_body,
             routine_definition, external_name, external_language, parameter_style, is_deterministic,
             sql_data_access, is_null_call, schema_level_routine, max_dynamic_result_sets, security_type,
             as_locator, is_udt_dependent",
            format!(
                "SELECT {DB}, n.nspname, p.proname || '_' || p.oid, {DB}, n.nspname, p.proname,
                    CASE p.prokind WHEN 'f' THEN 'FUNCTION' WHEN 'p' THEN 'PROCEDURE' END,
                    {data_type}, {DB}, nt.nspname, t.typname, 0,
                    CASE WHEN l.lanname = 'sql' THEN 'SQL' ELSE 'EXTERNAL' END, p.prosrc,
                    CASE WHEN l.lanname = 'c' THEN p.prosrc END, pg_catalog.upper(l.lanname::text), 'GENERAL',
                    {deterministic}, 'MODIFIES', CASE WHEN p.prokind <> 'p' THEN {null_call} END, 'YES', 0,
                    CASE WHEN p.prosecdef THEN 'DEFINER' ELSE 'INVOKER' END, 'NO', 'NO'
                 FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_proc p ON n.oid = p.pronamespace
                 JOIN pg_catalog.pg_language l ON p.prolang = l.oid {types}
                 WHERE p.prokind IN ('f', 'p')",
                data_type = of(DATA_TYPE, "-1"),
                deterministic = yes("p.provolatile = 'i'"),
                null_call = yes("p.proisstrict"),
                types = types("p.prorettype"),
            ),
        ),
        (
            "information_schema.parameters",
            "specific_catalog, specific_schema, specific_name, ordinal_position, parameter_mode, is_result,
             as_locator, parameter_name, data_type, udt_catalog, udt_schema, udt_name, dtd_identifier,
             parameter_default",
            format!(
                "SELECT {DB}, n.nspname, p.proname || '_' || p.oid, x.n,
                    CASE coalesce(p.proargmodes[x.n::int4], 'i') WHEN 'o' THEN 'OUT' WHEN 'b' THEN 'INOUT'
                        WHEN 't' THEN 'OUT' ELSE 'IN' END,
                    'NO', 'NO', nullif(p.proargnames[x.n::int4], ''), {data_type}, {DB}, nt.nspname, t.typname, x.n,
                    pg_catalog.pg_get_function_arg_default(p.oid, x.n::int4)
                 FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_proc p ON n.oid = p.pronamespace
                 JOIN LATERAL pg_catalog.unnest(coalesce(p.proallargtypes, p.proargtypes::oid[]))
                    WITH ORDINALITY x(ty, n) ON true {types}",
                data_type = of(DATA_TYPE, "-1"),
                types = types("x.ty"),
            ),
        ),
    ];
    views.into_iter().map(|(key, columns, text)| (key, (columns, text))).collect()
});

fn action(column: &str) -> String {
    format!(
        "CASE {column} WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' WHEN 'd' THEN 'SET DEFAULT'
            WHEN 'r' THEN 'RESTRICT' WHEN 'a' THEN 'NO ACTION' END"
    )
}

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
