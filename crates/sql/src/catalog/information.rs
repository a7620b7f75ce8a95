//! The relations of information_schema that are queries over PostgreSQL's catalogue: all that has rows.
//!
//! They show a role what it may use, as the standard says: what it owns, or has a privilege on. Texts of
//! definitions are for owners alone. Which rights count for which relation is as in PostgreSQL 15.

use super::view::View;

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

fn action(column: &str) -> String {
    format!(
        "CASE {column} WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' WHEN 'd' THEN 'SET DEFAULT'
            WHEN 'r' THEN 'RESTRICT' WHEN 'a' THEN 'NO ACTION' END"
    )
}

/// Whether the session's role has the rights of another: of an owner, mostly.
fn is(role: &str) -> String {
    format!("pg_catalog.pg_has_role({role}, 'USAGE')")
}

/// Whether the session's role may do something with the table of pg_class `c`, to say it or its columns.
fn may_use(c: &str, rights: &str, column_rights: &str) -> String {
    format!(
        "({} OR pg_catalog.has_table_privilege({c}.oid, '{rights}')
            OR pg_catalog.has_any_column_privilege({c}.oid, '{column_rights}'))",
        is(&format!("{c}.relowner"))
    )
}

/// The same of the column of pg_attribute `a`.
fn may_use_column(c: &str) -> String {
    format!(
        "({} OR pg_catalog.has_column_privilege({c}.oid, a.attnum, '{ANY_OF_COLUMNS}'))",
        is(&format!("{c}.relowner"))
    )
}

/// Who a grant is from and to: `x` is a row of aclexplode.
const GRANTOR: &str = "pg_catalog.pg_get_userbyid(x.grantor)";
const GRANTEE: &str = "CASE WHEN x.grantee = 0 THEN 'PUBLIC' ELSE pg_catalog.pg_get_userbyid(x.grantee) END";

/// Whether it may be passed on; what it is about has the owner `owner`.
fn grantable(owner: &str) -> String {
    yes(&format!("x.is_grantable OR x.grantee <> 0 AND pg_catalog.pg_has_role(x.grantee, {owner}, 'USAGE')"))
}

/// Grants are shown to whom they are from and to.
fn concerns() -> String {
    format!("(x.grantee = 0 OR {} OR {})", is("x.grantor"), is("x.grantee"))
}

/// Those of a relation of grants, with its columns, that are from or to a role whose rights the session has.
fn of_roles(relation: &str) -> String {
    format!(
        "SELECT * FROM information_schema.{relation}
         WHERE grantor IN (SELECT role_name FROM information_schema.enabled_roles)
            OR grantee IN (SELECT role_name FROM information_schema.enabled_roles)"
    )
}

/// What the definition of the view `v` uses of a catalogue: a row of pg_depend.
fn used_by_views(catalogue: &str) -> String {
    format!(
        "pg_catalog.pg_class v JOIN pg_catalog.pg_namespace nv ON nv.oid = v.relnamespace
         JOIN pg_catalog.pg_rewrite r ON r.ev_class = v.oid
         JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND d.objid = r.oid
            AND d.refclassid = 'pg_catalog.{catalogue}'::pg_catalog.regclass AND d.refobjid <> v.oid"
    )
}

const ANY: &str = "SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER";
const ANY_OF_COLUMNS: &str = "SELECT, INSERT, UPDATE, REFERENCES";
/// Who may read a table alone is not told of its constraints.
const CHANGE: &str = "INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER";
const CHANGE_OF_COLUMNS: &str = "INSERT, UPDATE, REFERENCES";

/// The relations and their queries.
pub fn views() -> Vec<View> {
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
    vec![
        (
            "information_schema.information_schema_catalog_name",
            "",
            format!("SELECT {DB}"),
        ),
        (
            "information_schema.enabled_roles",
            "",
            format!("SELECT rolname FROM pg_catalog.pg_authid WHERE {}", is("oid")),
        ),
        (
            "information_schema.applicable_roles",
            "",
            format!(
                "SELECT pg_catalog.pg_get_userbyid(m.member), pg_catalog.pg_get_userbyid(m.roleid), {}
                 FROM (SELECT member, roleid, admin_option FROM pg_catalog.pg_auth_members
                    UNION SELECT datdba, 'pg_database_owner'::pg_catalog.regrole::oid, false
                    FROM pg_catalog.pg_database WHERE datname = {DB}) m
                 WHERE {}",
                yes("m.admin_option"),
                is("m.member"),
            ),
        ),
        (
            "information_schema.administrable_role_authorizations",
            "",
            "SELECT * FROM information_schema.applicable_roles WHERE is_grantable = 'YES'".into(),
        ),
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
                 FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_authid u ON u.oid = n.nspowner
                 WHERE {} OR pg_catalog.has_schema_privilege(n.oid, 'CREATE, USAGE')",
                is("n.nspowner")
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
                 WHERE c.relkind IN ('r', 'v', 'f', 'p') AND {}",
                yes("c.relkind IN ('r', 'p') OR c.relkind IN ('v', 'f')
                    AND pg_catalog.pg_relation_is_updatable(c.oid, false) & 8 = 8"),
                may_use("c", ANY, ANY_OF_COLUMNS),
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
                 WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'v', 'f', 'p') AND {shown}",
                shown = may_use_column("c"),
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
                 WHERE con.contype NOT IN ('t', 'x') AND r.relkind IN ('r', 'f', 'p') AND {shown}
                 UNION ALL
                 SELECT {DB}, nr.nspname,
                    nr.oid || '_' || r.oid || '_' || a.attnum || '_not_null', {DB}, nr.nspname, r.relname,
                    'CHECK', 'NO', 'NO', 'YES', NULL
                 FROM pg_catalog.pg_namespace nr JOIN pg_catalog.pg_class r ON nr.oid = r.relnamespace
                 JOIN pg_catalog.pg_attribute a ON r.oid = a.attrelid
                 WHERE a.attnotnull AND a.attnum > 0 AND NOT a.attisdropped AND r.relkind IN ('r', 'f', 'p') AND {shown}",
                yes("con.condeferrable"),
                yes("con.condeferred"),
                "CASE WHEN i.indnullsnotdistinct THEN 'NO' ELSE 'YES' END",
                shown = may_use("r", CHANGE, CHANGE_OF_COLUMNS),
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
                 WHERE con.contype IN ('p', 'u', 'f') AND r.relkind IN ('r', 'f', 'p') AND {}",
                may_use_column("r")
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
                 WHERE con.contype IN ('c', 'p', 'u', 'f') AND r.relkind IN ('r', 'f', 'p') AND {}",
                is("r.relowner")
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
                 WHERE con.contype IN ('p', 'u', 'f') AND r.relkind IN ('r', 'f', 'p') AND {}",
                is("r.relowner")
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
                 FROM {constraint} JOIN pg_catalog.pg_class r ON r.oid = con.conrelid
                 LEFT JOIN pg_catalog.pg_constraint pk ON pk.conindid = con.conindid
                    AND pk.conrelid = con.confrelid AND pk.contype IN ('p', 'u')
                 LEFT JOIN pg_catalog.pg_namespace npk ON npk.oid = pk.connamespace
                 WHERE con.contype = 'f' AND {}",
                action("con.confupdtype"),
                action("con.confdeltype"),
                may_use("r", CHANGE, CHANGE_OF_COLUMNS),
            ),
        ),
        (
            "information_schema.check_constraints",
            "",
            format!(
                "SELECT {DB}, rs.nspname, con.conname, pg_catalog.substr(pg_catalog.pg_get_constraintdef(con.oid), 7)
                 FROM pg_catalog.pg_constraint con LEFT JOIN pg_catalog.pg_namespace rs ON rs.oid = con.connamespace
                 LEFT JOIN pg_catalog.pg_class r ON r.oid = con.conrelid
                 LEFT JOIN pg_catalog.pg_type t ON t.oid = con.contypid
                 WHERE con.contype = 'c' AND {}
                 UNION ALL
                 SELECT {DB}, n.nspname, n.oid || '_' || r.oid || '_' || a.attnum || '_not_null',
                    a.attname || ' IS NOT NULL'
                 FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_class r ON n.oid = r.relnamespace
                 JOIN pg_catalog.pg_attribute a ON r.oid = a.attrelid
                 WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attnotnull AND r.relkind IN ('r', 'f', 'p') AND {}",
                is("coalesce(r.relowner, t.typowner)"),
                is("r.relowner"),
            ),
        ),
        (
            "information_schema.views",
            "",
            format!(
                "SELECT {DB}, nc.nspname, c.relname, CASE WHEN {} THEN pg_catalog.pg_get_viewdef(c.oid) END,
                    pg_catalog.\"$view_check\"(c.oid), {}, {}, 'NO', 'NO', 'NO'
                 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace nc ON nc.oid = c.relnamespace
                 WHERE c.relkind = 'v' AND {}",
                is("c.relowner"),
                yes("pg_catalog.pg_relation_is_updatable(c.oid, false) & 20 = 20"),
                yes("pg_catalog.pg_relation_is_updatable(c.oid, false) & 8 = 8"),
                may_use("c", ANY, ANY_OF_COLUMNS),
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
                 WHERE NOT EXISTS (SELECT 1 FROM pg_catalog.pg_depend d WHERE d.objid = s.seqrelid AND d.deptype = 'i')
                    AND ({} OR CASE WHEN c.relkind = 'S'
                        THEN pg_catalog.has_sequence_privilege(c.oid, 'SELECT, UPDATE, USAGE') END)",
                yes("s.seqcycle"),
                is("c.relowner"),
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
                 WHERE t.typtype = 'd' AND ({} OR pg_catalog.has_type_privilege(t.oid, 'USAGE'))",
                domain[0], domain[1], domain[2], domain[3], domain[4], domain[5], domain[6], domain[7],
                is("t.typowner"),
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
                 WHERE t.typtype = 'd' AND ({} OR pg_catalog.has_type_privilege(t.oid, 'USAGE'))",
                yes("con.condeferrable"),
                yes("con.condeferred"),
                is("t.typowner"),
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
                 WHERE t.typtype = 'd' AND c.relkind IN ('r', 'v', 'f', 'p') AND a.attnum > 0 AND NOT a.attisdropped
                    AND {}",
                is("t.typowner")
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
                 WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'v', 'f', 'p') AND {}",
                types("a.atttypid"),
                is("coalesce(bt.typowner, t.typowner)"),
            ),
        ),
        (
            "information_schema.domain_udt_usage",
            "",
            format!(
                "SELECT {DB}, nbt.nspname, bt.typname, {DB}, nt.nspname, t.typname
                 FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace nt ON nt.oid = t.typnamespace
                 JOIN pg_catalog.pg_type bt ON bt.oid = t.typbasetype
                 JOIN pg_catalog.pg_namespace nbt ON nbt.oid = bt.typnamespace
                 WHERE t.typtype = 'd' AND {}",
                is("bt.typowner")
            ),
        ),
        (
            "information_schema.column_column_usage",
            "",
            format!(
                "SELECT DISTINCT {DB}, n.nspname, c.relname, a.attname, made.attname
                 FROM pg_catalog.pg_attrdef e JOIN pg_catalog.pg_class c ON c.oid = e.adrelid
                 JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                 JOIN pg_catalog.pg_attribute made ON made.attrelid = c.oid AND made.attnum = e.adnum
                 JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass
                    AND d.objid = e.oid AND d.refobjid = c.oid
                    AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
                 JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.refobjsubid
                 WHERE made.attgenerated <> '' AND a.attnum <> made.attnum AND {}",
                is("c.relowner")
            ),
        ),
        (
            "information_schema.view_table_usage",
            "",
            format!(
                "SELECT DISTINCT {DB}, nv.nspname, v.relname, {DB}, nt.nspname, t.relname
                 FROM {} JOIN pg_catalog.pg_class t ON t.oid = d.refobjid
                 JOIN pg_catalog.pg_namespace nt ON nt.oid = t.relnamespace
                 WHERE v.relkind = 'v' AND t.relkind IN ('r', 'v', 'f', 'p') AND {}",
                used_by_views("pg_class"),
                is("t.relowner"),
            ),
        ),
        (
            "information_schema.view_column_usage",
            "",
            format!(
                "SELECT DISTINCT {DB}, nv.nspname, v.relname, {DB}, nt.nspname, t.relname, a.attname
                 FROM {} JOIN pg_catalog.pg_class t ON t.oid = d.refobjid
                 JOIN pg_catalog.pg_namespace nt ON nt.oid = t.relnamespace
                 JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attnum = d.refobjsubid
                 WHERE v.relkind = 'v' AND t.relkind IN ('r', 'v', 'f', 'p') AND {}",
                used_by_views("pg_class"),
                is("t.relowner"),
            ),
        ),
        (
            "information_schema.view_routine_usage",
            "",
            format!(
                "SELECT DISTINCT {DB}, nv.nspname, v.relname, {DB}, np.nspname, p.proname || '_' || p.oid
                 FROM {} JOIN pg_catalog.pg_proc p ON p.oid = d.refobjid
                 JOIN pg_catalog.pg_namespace np ON np.oid = p.pronamespace
                 WHERE v.relkind = 'v' AND {}",
                used_by_views("pg_proc"),
                is("p.proowner"),
            ),
        ),
        (
            "information_schema.foreign_data_wrappers",
            "",
            format!(
                "SELECT {DB}, w.fdwname, u.rolname, NULL, 'c'
                 FROM pg_catalog.pg_foreign_data_wrapper w JOIN pg_catalog.pg_authid u ON u.oid = w.fdwowner"
            ),
        ),
        (
            "information_schema.foreign_servers",
            "",
            format!(
                "SELECT {DB}, s.srvname, {DB}, w.fdwname, s.srvtype, s.srvversion, u.rolname
                 FROM pg_catalog.pg_foreign_server s JOIN pg_catalog.pg_foreign_data_wrapper w ON w.oid = s.srvfdw
                 JOIN pg_catalog.pg_authid u ON u.oid = s.srvowner"
            ),
        ),
        (
            "information_schema.foreign_tables",
            "",
            format!(
                "SELECT {DB}, n.nspname, c.relname, {DB}, s.srvname
                 FROM pg_catalog.pg_foreign_table t JOIN pg_catalog.pg_class c ON c.oid = t.ftrelid
                 JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                 JOIN pg_catalog.pg_foreign_server s ON s.oid = t.ftserver WHERE {}",
                may_use("c", ANY, ANY_OF_COLUMNS),
            ),
        ),
        (
            "information_schema.foreign_table_options",
            "",
            format!(
                "SELECT {DB}, n.nspname, c.relname, o.option_name, o.option_value
                 FROM pg_catalog.pg_foreign_table t JOIN pg_catalog.pg_class c ON c.oid = t.ftrelid
                 JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                 CROSS JOIN LATERAL pg_catalog.pg_options_to_table(t.ftoptions) o WHERE {}",
                may_use("c", ANY, ANY_OF_COLUMNS),
            ),
        ),
        (
            "information_schema.table_privileges",
            "",
            format!(
                "SELECT {GRANTOR}, {GRANTEE}, {DB}, n.nspname, c.relname, x.privilege_type, {}, {}
                 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                 CROSS JOIN LATERAL pg_catalog.aclexplode(
                    coalesce(c.relacl, pg_catalog.acldefault('r', c.relowner))) x
                 WHERE c.relkind IN ('r', 'v', 'f', 'p') AND {}",
                grantable("c.relowner"),
                yes("x.privilege_type = 'SELECT'"),
                concerns(),
            ),
        ),
        (
            "information_schema.role_table_grants",
            "",
            of_roles("table_privileges"),
        ),
        (
            "information_schema.column_privileges",
            "",
            format!(
                "SELECT {GRANTOR}, {GRANTEE}, {DB}, x.nspname, x.relname, x.attname, x.privilege_type, {}
                 FROM ({columns} CROSS JOIN LATERAL pg_catalog.aclexplode(
                        coalesce(c.relacl, pg_catalog.acldefault('r', c.relowner))) y WHERE {tables}
                    UNION {columns} CROSS JOIN LATERAL pg_catalog.aclexplode(a.attacl) y WHERE {tables}) x
                 WHERE x.privilege_type IN ('INSERT', 'SELECT', 'UPDATE', 'REFERENCES') AND {}",
                grantable("x.relowner"),
                concerns(),
                columns = "SELECT y.grantor, y.grantee, y.privilege_type, y.is_grantable, n.nspname, c.relname,
                        c.relowner, a.attname
                    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid",
                tables = "c.relkind IN ('r', 'v', 'f', 'p') AND a.attnum > 0 AND NOT a.attisdropped",
            ),
        ),
        (
            "information_schema.role_column_grants",
            "",
            of_roles("column_privileges"),
        ),
        (
            "information_schema.routine_privileges",
            "",
            format!(
                "SELECT {GRANTOR}, {GRANTEE}, {DB}, n.nspname, p.proname || '_' || p.oid, {DB}, n.nspname, p.proname,
                    'EXECUTE', {}
                 FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
                 CROSS JOIN LATERAL pg_catalog.aclexplode(
                    coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))) x
                 WHERE {}",
                grantable("p.proowner"),
                concerns(),
            ),
        ),
        (
            "information_schema.role_routine_grants",
            "",
            of_roles("routine_privileges"),
        ),
        (
            "information_schema.udt_privileges",
            "",
            format!(
                "SELECT {GRANTOR}, {GRANTEE}, {DB}, n.nspname, t.typname, 'TYPE USAGE', {}
                 FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
                 CROSS JOIN LATERAL pg_catalog.aclexplode(
                    coalesce(t.typacl, pg_catalog.acldefault('T', t.typowner))) x
                 WHERE t.typtype = 'c' AND {}",
                grantable("t.typowner"),
                concerns(),
            ),
        ),
        (
            "information_schema.role_udt_grants",
            "",
            of_roles("udt_privileges"),
        ),
        (
            "information_schema.usage_privileges",
            "",
            format!(
                "SELECT {GRANTOR}, {GRANTEE}, {DB}, x.nspname, x.name, x.kind, 'USAGE', {}
                 FROM (SELECT c.collowner, 0::oid, false, n.nspname, c.collname, 'COLLATION', c.collowner
                    FROM pg_catalog.pg_collation c JOIN pg_catalog.pg_namespace n ON n.oid = c.collnamespace
                    WHERE c.collencoding IN (-1, 6)
                    UNION ALL
                    SELECT y.grantor, y.grantee, y.is_grantable, n.nspname, t.typname, 'DOMAIN', t.typowner
                    FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
                    CROSS JOIN LATERAL pg_catalog.aclexplode(
                        coalesce(t.typacl, pg_catalog.acldefault('T', t.typowner))) y
                    WHERE t.typtype = 'd' AND y.privilege_type = 'USAGE'
                    UNION ALL
                    SELECT y.grantor, y.grantee, y.is_grantable, n.nspname, c.relname, 'SEQUENCE', c.relowner
                    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                    CROSS JOIN LATERAL pg_catalog.aclexplode(c.relacl) y
                    WHERE c.relkind = 'S' AND y.privilege_type = 'USAGE'
                 ) x(grantor, grantee, is_grantable, nspname, name, kind, owner)
                 WHERE {}",
                grantable("x.owner"),
                concerns(),
            ),
        ),
        (
            "information_schema.role_usage_grants",
            "",
            of_roles("usage_privileges"),
        ),
        (
            "information_schema.user_defined_types",
            "user_defined_type_catalog, user_defined_type_schema, user_defined_type_name,
             user_defined_type_category, is_instantiable",
            format!(
                "SELECT {DB}, n.nspname, c.relname, 'STRUCTURED', 'YES'
                 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                 JOIN pg_catalog.pg_type t ON t.oid = c.reltype
                 WHERE c.relkind = 'c' AND ({} OR pg_catalog.has_type_privilege(t.oid, 'USAGE'))",
                is("t.typowner")
            ),
        ),
        (
            "information_schema.attributes",
            "",
            format!(
                "SELECT {DB}, nc.nspname, c.relname, a.attname, a.attnum, NULL, {nullable}, {data_type},
                    {max}, {octets}, NULL, NULL, NULL,
                    CASE WHEN nco.nspname IS NOT NULL THEN {DB} END, nco.nspname, co.collname,
                    {precision}, {radix}, {scale}, {seconds}, {fields}, {field_precision},
                    {DB}, coalesce(nbt.nspname, nt.nspname), coalesce(bt.typname, t.typname),
                    NULL, NULL, NULL, NULL, a.attnum, 'NO'
                 FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
                 JOIN pg_catalog.pg_namespace nc ON nc.oid = c.relnamespace
                 {types}
                 LEFT JOIN pg_catalog.pg_collation co ON a.attcollation = co.oid AND co.collname <> 'default'
                 LEFT JOIN pg_catalog.pg_namespace nco ON co.collnamespace = nco.oid
                 WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind = 'c'
                    AND ({} OR pg_catalog.has_type_privilege(c.reltype, 'USAGE'))",
                is("c.relowner"),
                nullable = yes("NOT (a.attnotnull OR t.typtype = 'd' AND t.typnotnull)"),
                types = types("a.atttypid"),
            ),
        ),
        (
            "information_schema.data_type_privileges",
            "",
            "SELECT udt_catalog, udt_schema, udt_name, 'USER-DEFINED TYPE', dtd_identifier
             FROM information_schema.attributes
             UNION ALL SELECT table_catalog, table_schema, table_name, 'TABLE', dtd_identifier
             FROM information_schema.columns
             UNION ALL SELECT domain_catalog, domain_schema, domain_name, 'DOMAIN', dtd_identifier
             FROM information_schema.domains
             UNION ALL SELECT specific_catalog, specific_schema, specific_name, 'ROUTINE', dtd_identifier
             FROM information_schema.parameters
             UNION ALL SELECT specific_catalog, specific_schema, specific_name, 'ROUTINE', dtd_identifier
             FROM information_schema.routines"
                .into(),
        ),
        (
            "information_schema.element_types",
            "object_catalog, object_schema, object_name, object_type, collection_type_identifier, data_type,
             udt_catalog, udt_schema, udt_name, dtd_identifier",
            format!(
                "SELECT {DB}, x.schema, x.name, x.kind, x.place, CASE WHEN nt.nspname = 'pg_catalog'
                        THEN pg_catalog.format_type(t.oid, NULL) ELSE 'USER-DEFINED' END,
                    {DB}, nt.nspname, t.typname, 'a' || x.place
                 FROM (SELECT n.nspname, c.relname::text,
                        CASE WHEN c.relkind = 'c' THEN 'USER-DEFINED TYPE' ELSE 'TABLE' END, a.attnum::int4, a.atttypid
                    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
                    WHERE c.relkind IN ('r', 'v', 'f', 'p', 'c') AND a.attnum > 0 AND NOT a.attisdropped
                    UNION ALL SELECT n.nspname, d.typname, 'DOMAIN', 1, d.typbasetype
                    FROM pg_catalog.pg_type d JOIN pg_catalog.pg_namespace n ON n.oid = d.typnamespace
                    WHERE d.typtype = 'd'
                    UNION ALL SELECT n.nspname, p.proname || '_' || p.oid, 'ROUTINE', y.n::int4, y.ty
                    FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
                    JOIN LATERAL pg_catalog.unnest(coalesce(p.proallargtypes, p.proargtypes::oid[]))
                        WITH ORDINALITY y(ty, n) ON true
                    UNION ALL SELECT n.nspname, p.proname || '_' || p.oid, 'ROUTINE', 0, p.prorettype
                    FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
                 ) x(schema, name, kind, place, ty)
                 JOIN pg_catalog.pg_type l ON l.oid = x.ty AND l.typelem <> 0 AND l.typlen = -1
                 JOIN pg_catalog.pg_type t ON t.oid = l.typelem
                 JOIN pg_catalog.pg_namespace nt ON nt.oid = t.typnamespace
                 WHERE (x.schema, x.name, x.kind, x.place::text) IN (
                    SELECT object_schema, object_name, object_type, dtd_identifier
                    FROM information_schema.data_type_privileges)"
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
                    CASE WHEN l.lanname = 'sql' THEN 'SQL' ELSE 'EXTERNAL' END, CASE WHEN {own} THEN p.prosrc END,
                    CASE WHEN l.lanname = 'c' THEN p.prosrc END, pg_catalog.upper(l.lanname::text), 'GENERAL',
                    {deterministic}, 'MODIFIES', CASE WHEN p.prokind <> 'p' THEN {null_call} END, 'YES', 0,
                    CASE WHEN p.prosecdef THEN 'DEFINER' ELSE 'INVOKER' END, 'NO', 'NO'
                 FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_proc p ON n.oid = p.pronamespace
                 JOIN pg_catalog.pg_language l ON p.prolang = l.oid {types}
                 WHERE p.prokind IN ('f', 'p') AND ({own} OR pg_catalog.has_function_privilege(p.oid, 'EXECUTE'))",
                own = is("p.proowner"),
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
                    CASE WHEN {own} THEN pg_catalog.pg_get_function_arg_default(p.oid, x.n::int4) END
                 FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_proc p ON n.oid = p.pronamespace
                 JOIN LATERAL pg_catalog.unnest(coalesce(p.proallargtypes, p.proargtypes::oid[]))
                    WITH ORDINALITY x(ty, n) ON true {types}
                 WHERE {own} OR pg_catalog.has_function_privilege(p.oid, 'EXECUTE')",
                own = is("p.proowner"),
                data_type = of(DATA_TYPE, "-1"),
                types = types("x.ty"),
            ),
        ),
    ]
}
