//! The support matrix, `docs/sql.md`: made from what the database does and from its own lists, so that it
//! cannot be wrong.
//!
//! Each form is run, and is supported or refused with 0A000; anything else is a mistake in the list of forms.
//! When the document is not what it should be, `ONDOL_BLESS=1 cargo test -p ondol --test support` writes it.
use ondol::{Database, OpenOptions, Session, TempFolder};
use ondol_sql::bind::accepted;
use ondol_types::ty::{Category, Modifier};
use ondol_types::{TypeId, agg, func, known, window};
use std::collections::BTreeMap;
use std::fmt::Write;

/// What the forms may use; each is run in a transaction of its own, after this.
const GIVEN: &str = "
    CREATE TABLE t (a integer PRIMARY KEY, b text, c integer NOT NULL DEFAULT 0, d numeric(8, 2), e timestamptz);
    CREATE TABLE u (a integer, b text);
    CREATE TABLE w (a integer[], b text[]);
    CREATE INDEX u_b ON u (b);
    INSERT INTO t VALUES (1, 'one', 1, 1.5, '2024-01-01'), (2, 'two', 2, 2.5, NULL);
    CREATE FUNCTION one(integer) RETURNS SETOF t LANGUAGE sql AS 'SELECT * FROM t WHERE a = $1';
    PREPARE q(integer) AS SELECT * FROM t WHERE a = $1;
";

/// Chapter, then forms: how it is written, and a statement that has it. What begins with `!` is run outside a
/// transaction.
const FORMS: &[(&str, &[(&str, &str)])] = &[
    (
        "Queries",
        &[
            ("SELECT ... FROM ... WHERE", "SELECT a, b AS x FROM t WHERE a > 1"),
            ("SELECT without FROM", "SELECT 1"),
            ("VALUES", "VALUES (1, 'x'), (2, 'y')"),
            ("TABLE name", "TABLE t"),
            ("SELECT DISTINCT", "SELECT DISTINCT b FROM t"),
            ("SELECT DISTINCT ON", "SELECT DISTINCT ON (b) a, b FROM t"),
            ("GROUP BY, HAVING", "SELECT b, count(*) FROM t GROUP BY b HAVING count(*) > 0"),
            ("GROUPING SETS, ROLLUP, CUBE", "SELECT b, count(*) FROM t GROUP BY ROLLUP (b)"),
            ("ORDER BY ... ASC, DESC, NULLS FIRST, LAST", "SELECT a FROM t ORDER BY b DESC NULLS LAST, 1"),
            ("ORDER BY ... USING", "SELECT a FROM t ORDER BY a USING <"),
            ("LIMIT, OFFSET", "SELECT a FROM t LIMIT 1 OFFSET 1"),
            ("FETCH FIRST ... ROWS ONLY", "SELECT a FROM t ORDER BY a FETCH FIRST 1 ROW ONLY"),
            ("FETCH FIRST ... WITH TIES", "SELECT a FROM t ORDER BY a FETCH FIRST 1 ROW WITH TIES"),
            ("FOR UPDATE, FOR SHARE", "SELECT a FROM t FOR UPDATE"),
            ("FOR UPDATE OF ... NOWAIT, SKIP LOCKED", "SELECT t.a FROM t, u FOR UPDATE OF t SKIP LOCKED"),
            ("FOR NO KEY UPDATE, FOR KEY SHARE", "SELECT a FROM t FOR NO KEY UPDATE"),
            ("UNION, UNION ALL", "SELECT a FROM t UNION SELECT a FROM u"),
            ("INTERSECT, EXCEPT", "SELECT a FROM t INTERSECT SELECT a FROM u"),
            ("WITH", "WITH x AS (SELECT a FROM t) SELECT * FROM x"),
            ("WITH ... AS [NOT] MATERIALIZED", "WITH x AS MATERIALIZED (SELECT a FROM t) SELECT * FROM x"),
            (
                "WITH RECURSIVE",
                "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x WHERE n < 3) SELECT * FROM x",
            ),
            ("INNER JOIN, CROSS JOIN", "SELECT 1 FROM t JOIN u ON t.a = u.a CROSS JOIN u v"),
            ("LEFT JOIN", "SELECT 1 FROM t LEFT JOIN u ON t.a = u.a"),
            ("RIGHT JOIN", "SELECT 1 FROM t RIGHT JOIN u ON t.a = u.a"),
            ("FULL JOIN", "SELECT 1 FROM t FULL JOIN u ON t.a = u.a"),
            ("JOIN ... USING", "SELECT a FROM t JOIN u USING (a)"),
            ("NATURAL JOIN", "SELECT 1 FROM t NATURAL JOIN u"),
            ("subquery in FROM", "SELECT 1 FROM (SELECT a FROM t) AS s(x)"),
            ("LATERAL", "SELECT 1 FROM t, LATERAL (SELECT t.a) s"),
            ("LATERAL functions", "SELECT 1 FROM t, generate_series(1, t.a)"),
            (
                "functions with column definitions",
                r#"SELECT * FROM json_to_record('{"a": 1}') AS x(a integer)"#,
            ),
            ("unnest", "SELECT n, s FROM unnest(ARRAY[1, 2], ARRAY['a', 'b']) AS x(n, s)"),
            ("unnest ... WITH ORDINALITY", "SELECT v, n FROM w, unnest(w.b) WITH ORDINALITY AS x(v, n)"),
            ("set-returning function among the targets", "SELECT unnest(a) FROM w"),
            (
                "regexp_matches, regexp_split_to_table",
                "SELECT m[1], s FROM regexp_matches('ab', '(.)', 'g') m, regexp_split_to_table('a b', ' ') s",
            ),
            ("function in FROM", "SELECT * FROM generate_series(1, 3) AS g(n)"),
            (
                "generate_series over timestamps",
                "SELECT * FROM generate_series(timestamp '2024-01-01', '2024-02-01', '1 week')",
            ),
            ("WITH ORDINALITY", "SELECT * FROM generate_series(1, 3) WITH ORDINALITY"),
            ("ROWS FROM", "SELECT * FROM ROWS FROM (generate_series(1, 2), generate_series(1, 3))"),
            ("TABLESAMPLE", "SELECT * FROM t TABLESAMPLE system (10)"),
            ("window functions, OVER", "SELECT row_number() OVER (ORDER BY a) FROM t"),
            (
                "aggregates OVER a window, FILTER",
                "SELECT sum(a) FILTER (WHERE a > 1) OVER (ORDER BY a) FROM t",
            ),
            (
                "WINDOW",
                "SELECT rank() OVER w, count(*) OVER (w ORDER BY a) FROM t WINDOW w AS (PARTITION BY b)",
            ),
            (
                "frames: ROWS, RANGE, GROUPS, EXCLUDE",
                "SELECT sum(a) OVER (ORDER BY a RANGE BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM t",
            ),
            ("SELECT INTO", "SELECT * INTO v FROM t"),
        ],
    ),
    (
        "Expressions",
        &[
            ("IN (list)", "SELECT a IN (1, 2) FROM t"),
            ("IN (subquery)", "SELECT a FROM t WHERE a IN (SELECT a FROM u)"),
            ("NOT IN (subquery)", "SELECT a FROM t WHERE a NOT IN (SELECT a FROM u)"),
            ("EXISTS", "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a)"),
            ("scalar subquery", "SELECT (SELECT max(a) FROM u) FROM t"),
            ("row comparison", "SELECT a FROM t WHERE (a, c) < (2, 2)"),
            ("= ANY, ALL (subquery)", "SELECT a FROM t WHERE a = ANY (SELECT a FROM u)"),
            ("= ANY, ALL (array)", "SELECT a FROM t WHERE a = ANY (ARRAY[1, 2]) AND a < ALL ('{3, 4}')"),
            ("CASE", "SELECT CASE WHEN a = 1 THEN 'x' ELSE 'y' END, CASE a WHEN 1 THEN 2 END FROM t"),
            (
                "COALESCE, NULLIF, GREATEST, LEAST",
                "SELECT COALESCE(b, ''), NULLIF(a, 1), GREATEST(a, 2), LEAST(a, 2) FROM t",
            ),
            ("CAST, ::", "SELECT CAST(a AS text), b::char(3) FROM t"),
            ("BETWEEN, BETWEEN SYMMETRIC", "SELECT a BETWEEN 1 AND 2, a BETWEEN SYMMETRIC 2 AND 1 FROM t"),
            (
                "IS NULL, IS TRUE, IS DISTINCT FROM",
                "SELECT b IS NULL, (a = 1) IS NOT TRUE, a IS DISTINCT FROM 1 FROM t",
            ),
            ("LIKE, ILIKE", "SELECT b LIKE 'o%', b ILIKE 'O%' ESCAPE '#' FROM t"),
            ("SIMILAR TO", "SELECT b SIMILAR TO 'o%' FROM t"),
            ("~, ~* (regular expressions)", "SELECT b ~ '^o' FROM t"),
            (
                "substring(... FROM pattern), SIMILAR",
                "SELECT substring(b FROM 'o.'), substring(b SIMILAR 'o#\"%#\"' ESCAPE '#') FROM t",
            ),
            ("EXTRACT", "SELECT EXTRACT(year FROM e) FROM t"),
            ("AT TIME ZONE", "SELECT e AT TIME ZONE 'UTC' FROM t"),
            ("INTERVAL", "SELECT e + INTERVAL '1 day' FROM t"),
            ("COLLATE", "SELECT b COLLATE \"C\" FROM t"),
            (
                "json, jsonb: ->, ->>, #>, @>, ?, ||, -",
                r#"SELECT '{"a": 1}'::jsonb -> 'a', '{}'::json ->> 'a'"#,
            ),
            ("subscripts of jsonb", r#"SELECT ('{"a": [1]}'::jsonb)['a'][0]"#),
            ("jsonpath, @?, @@", "SELECT '{}'::jsonb @? '$.a'"),
            ("ARRAY[...]", "SELECT ARRAY[1, 2], ARRAY[[1], [2]], ARRAY[]::text[]"),
            ("ARRAY(subquery)", "SELECT ARRAY(SELECT a FROM t)"),
            ("array[i], array[i:j]", "SELECT a[1], a[1:2], a[:2] FROM w"),
            ("ROW(...)", "SELECT ROW(1, 'x'), ROW(t.*), (1, 2) = ROW(1, 2) FROM t"),
            (
                "row IS NULL, IS DISTINCT FROM",
                "SELECT t IS NULL, ROW(a, b) IS DISTINCT FROM ROW(1, 'x') FROM t",
            ),
            ("the row of a relation by its name", "SELECT t, t.*::text, (t).b FROM t"),
            ("(row).field, (row).*", "SELECT (r).f1, (r).* FROM (SELECT ROW(a, c) AS r FROM t) s"),
            ("aggregate(DISTINCT ...)", "SELECT count(DISTINCT b), sum(DISTINCT a) FROM t"),
            ("aggregate(... ORDER BY ...)", "SELECT string_agg(b, ',' ORDER BY a) FROM t"),
            ("aggregate FILTER (WHERE ...)", "SELECT count(*) FILTER (WHERE a > 1) FROM t"),
            ("CURRENT_DATE, CURRENT_TIMESTAMP", "SELECT CURRENT_DATE, CURRENT_TIMESTAMP"),
        ],
    ),
    (
        "Changing rows",
        &[
            ("INSERT ... VALUES", "INSERT INTO t (a, b) VALUES (3, 'x'), (4, DEFAULT)"),
            ("INSERT ... SELECT", "INSERT INTO u SELECT a, b FROM t"),
            ("INSERT ... DEFAULT VALUES", "INSERT INTO u DEFAULT VALUES"),
            ("INSERT ... ON CONFLICT DO NOTHING", "INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING"),
            ("ON CONFLICT (columns)", "INSERT INTO t VALUES (1) ON CONFLICT (a) DO NOTHING"),
            (
                "ON CONFLICT ON CONSTRAINT",
                "INSERT INTO t VALUES (1) ON CONFLICT ON CONSTRAINT t_pkey DO NOTHING",
            ),
            (
                "ON CONFLICT (columns) WHERE",
                "INSERT INTO t VALUES (1) ON CONFLICT (a) WHERE a > 0 DO NOTHING",
            ),
            (
                "ON CONFLICT DO UPDATE ... WHERE",
                "INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET b = excluded.b WHERE t.c > 0 RETURNING a",
            ),
            ("UPDATE", "UPDATE t SET b = 'x', c = c + 1 WHERE a = 1"),
            ("UPDATE ... FROM", "UPDATE t SET b = u.b FROM u WHERE u.a = t.a"),
            ("UPDATE ... SET (...) = (...)", "UPDATE t SET (b, c) = ('x', 1)"),
            ("UPDATE ... SET (...) = (SELECT ...)", "UPDATE t SET (b, c) = (SELECT 'x', 1)"),
            ("UPDATE ... SET array[i] = ...", "UPDATE w SET a[1] = 2"),
            ("UPDATE ... SET array[i:j] = ...", "UPDATE w SET a[1:2] = '{3, 4}'"),
            ("INSERT ... (array[i])", "INSERT INTO w (a[1]) VALUES (2)"),
            ("DELETE", "DELETE FROM t WHERE a = 1"),
            ("DELETE ... USING", "DELETE FROM t USING u WHERE u.a = t.a"),
            ("MERGE", "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE"),
            ("RETURNING", "DELETE FROM t RETURNING a, b"),
            (
                "WITH ... INSERT, UPDATE, DELETE",
                "WITH x AS (SELECT 1 AS a) DELETE FROM t USING x WHERE x.a = t.a",
            ),
            ("INSERT, UPDATE, DELETE in WITH", "WITH x AS (DELETE FROM t RETURNING a) SELECT * FROM x"),
            (
                "WHERE CURRENT OF",
                "DECLARE c CURSOR FOR SELECT a FROM t; FETCH c; DELETE FROM t WHERE CURRENT OF c",
            ),
            ("COPY ... TO STDOUT (FORMAT text, csv)", "COPY t TO STDOUT (FORMAT csv, HEADER)"),
            ("COPY (query) TO STDOUT", "COPY (SELECT a FROM t) TO STDOUT"),
            ("COPY ... FROM STDIN", "COPY t FROM STDIN (FORMAT csv)"),
            (
                "COPY ... TO, COPY ... FROM 'file' (FORMAT parquet)",
                "COPY (SELECT a FROM t) TO STDOUT (FORMAT parquet)",
            ),
            ("COPY ... (FORMAT binary)", "COPY t TO STDOUT (FORMAT binary)"),
            ("COPY ... TO PROGRAM", "COPY t TO PROGRAM 'cat'"),
            ("COPY ... FROM ... WHERE", "COPY t FROM STDIN WHERE a > 1"),
            ("TRUNCATE", "TRUNCATE t, u"),
            ("TRUNCATE ... CASCADE", "TRUNCATE t CASCADE"),
        ],
    ),
    (
        "Schemas",
        &[
            (
                "CREATE SCHEMA [IF NOT EXISTS] [AUTHORIZATION]",
                "CREATE SCHEMA IF NOT EXISTS s AUTHORIZATION postgres",
            ),
            (
                "CREATE SCHEMA with elements",
                "CREATE SCHEMA s CREATE TABLE v (a integer) CREATE INDEX ON v (a)",
            ),
            ("ALTER SCHEMA ... RENAME TO", "CREATE SCHEMA s; ALTER SCHEMA s RENAME TO z"),
            ("DROP SCHEMA [IF EXISTS] [CASCADE]", "DROP SCHEMA IF EXISTS s CASCADE"),
            ("schema.table, schema.table.column", "SELECT public.t.a FROM public.t"),
            ("ALTER TABLE ... SET SCHEMA", "CREATE SCHEMA s; ALTER TABLE t SET SCHEMA s"),
            (
                "ALTER TYPE, DOMAIN ... SET SCHEMA",
                "CREATE SCHEMA s; CREATE DOMAIN s.d AS integer; ALTER DOMAIN s.d SET SCHEMA public",
            ),
            (
                "ALTER FUNCTION ... SET SCHEMA",
                "CREATE SCHEMA s; CREATE FUNCTION s.f() RETURNS integer LANGUAGE sql AS 'SELECT 1'; ALTER FUNCTION s.f() SET SCHEMA public",
            ),
            ("SET search_path", "SET search_path = public, pg_temp"),
            ("OPERATOR(schema.operator)", "SELECT 1 OPERATOR(pg_catalog.+) 2"),
        ],
    ),
    (
        "Roles and privileges",
        &[
            ("CREATE ROLE, USER, GROUP", "CREATE ROLE r LOGIN PASSWORD 'secret' CONNECTION LIMIT 3"),
            (
                "ALTER ROLE",
                "CREATE ROLE r; ALTER ROLE r CREATEROLE VALID UNTIL 'infinity'; ALTER ROLE r RENAME TO q",
            ),
            (
                "ALTER ROLE ... SET, ALTER DATABASE ... SET",
                "ALTER ROLE postgres SET work_mem = '1MB'; ALTER DATABASE postgres RESET ALL",
            ),
            ("DROP ROLE [IF EXISTS]", "DROP ROLE IF EXISTS nobody"),
            (
                "GRANT, REVOKE of roles",
                "CREATE ROLE r; CREATE ROLE q; GRANT r TO q WITH ADMIN OPTION; REVOKE r FROM q",
            ),
            (
                "SET ROLE, SET SESSION AUTHORIZATION",
                "CREATE ROLE r; SET ROLE r; RESET ROLE; SET SESSION AUTHORIZATION r",
            ),
            ("ALTER ... OWNER TO", "CREATE ROLE r; ALTER TABLE t OWNER TO r; ALTER SCHEMA public OWNER TO r"),
            ("REASSIGN OWNED, DROP OWNED", "CREATE ROLE r; REASSIGN OWNED BY r TO postgres; DROP OWNED BY r"),
            (
                "GRANT, REVOKE on tables and columns",
                "CREATE ROLE r; GRANT SELECT (a), DELETE ON t TO r WITH GRANT OPTION; REVOKE ALL ON t FROM r CASCADE",
            ),
            ("GRANT ... ON ALL TABLES IN SCHEMA", "GRANT SELECT ON ALL TABLES IN SCHEMA public TO PUBLIC"),
            (
                "GRANT, REVOKE on schemas, sequences, functions, types, domains, databases",
                "CREATE ROLE r; GRANT CREATE ON SCHEMA public TO r; GRANT TEMP ON DATABASE postgres TO r; CREATE TYPE mood AS ENUM (); REVOKE ALL ON TYPE mood FROM PUBLIC",
            ),
            (
                "ALTER DEFAULT PRIVILEGES",
                "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO PUBLIC",
            ),
            (
                "SECURITY DEFINER",
                "CREATE FUNCTION f() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS 'SELECT count(*) FROM t'",
            ),
        ],
    ),
    (
        "Tables and indexes",
        &[
            (
                "CREATE TABLE",
                "CREATE TABLE v (a integer PRIMARY KEY, b text NOT NULL UNIQUE, c integer DEFAULT 1 + 1)",
            ),
            ("CREATE TABLE IF NOT EXISTS", "CREATE TABLE IF NOT EXISTS t (a integer)"),
            (
                "PRIMARY KEY (...), UNIQUE (...), CONSTRAINT name",
                "CREATE TABLE v (a integer, b integer, CONSTRAINT k PRIMARY KEY (a, b), UNIQUE (b))",
            ),
            ("CREATE TABLE ... ()", "CREATE TABLE v (); INSERT INTO v DEFAULT VALUES; SELECT FROM v"),
            ("COLLATE", "CREATE TABLE v (a text COLLATE \"C\")"),
            ("columns of regclass and its like", "CREATE TABLE v (a regclass, b regtype)"),
            ("columns of arrays of regclass", "CREATE TABLE v (a regclass[])"),
            ("CHECK", "CREATE TABLE v (a integer CHECK (a > 0))"),
            (
                "REFERENCES, FOREIGN KEY, MATCH SIMPLE, FULL",
                "CREATE TABLE v (a integer REFERENCES t, b integer, FOREIGN KEY (b) REFERENCES t (a) MATCH FULL)",
            ),
            ("MATCH PARTIAL", "CREATE TABLE v (a integer REFERENCES t MATCH PARTIAL)"),
            (
                "ON DELETE, ON UPDATE: NO ACTION, RESTRICT, CASCADE, SET NULL, SET DEFAULT",
                "CREATE TABLE v (a integer REFERENCES t ON DELETE SET NULL (a) ON UPDATE CASCADE)",
            ),
            (
                "DEFERRABLE, INITIALLY DEFERRED (of foreign keys)",
                "CREATE TABLE v (a integer REFERENCES t DEFERRABLE INITIALLY DEFERRED)",
            ),
            ("DEFERRABLE (of other constraints)", "CREATE TABLE v (a integer UNIQUE DEFERRABLE)"),
            (
                "ALTER TABLE ... ADD FOREIGN KEY, NOT VALID, ALTER CONSTRAINT",
                "ALTER TABLE u ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES t NOT VALID; \
                 ALTER TABLE u VALIDATE CONSTRAINT f; ALTER TABLE u ALTER CONSTRAINT f DEFERRABLE",
            ),
            (
                "EXCLUDE USING btree, hash (... WITH =) [WHERE (...)]",
                "CREATE TABLE v (a integer, EXCLUDE USING btree ((a / 2) WITH =) WHERE (a > 0))",
            ),
            ("EXCLUDE with other operators", "CREATE TABLE v (a integer, EXCLUDE USING btree (a WITH <>))"),
            ("EXCLUDE USING gist", "CREATE TABLE v (a integer, EXCLUDE USING gist (a WITH =))"),
            ("GENERATED ... AS IDENTITY", "CREATE TABLE v (a integer GENERATED ALWAYS AS IDENTITY)"),
            (
                "GENERATED ... STORED",
                "CREATE TABLE v (a integer, b integer GENERATED ALWAYS AS (a + 1) STORED)",
            ),
            ("serial", "CREATE TABLE v (a serial)"),
            ("COLLATE, other than the one there is", "CREATE TABLE v (a text COLLATE \"de_DE\")"),
            ("DEFERRABLE", "CREATE TABLE v (a integer UNIQUE DEFERRABLE)"),
            (
                "PRIMARY KEY, UNIQUE (...) INCLUDE",
                "CREATE TABLE v (a integer, b integer, PRIMARY KEY (a) INCLUDE (b))",
            ),
            ("UNIQUE NULLS NOT DISTINCT", "CREATE TABLE v (a integer UNIQUE NULLS NOT DISTINCT)"),
            ("CREATE TEMPORARY TABLE ... ON COMMIT", "CREATE TEMP TABLE v (a integer) ON COMMIT DELETE ROWS"),
            ("CREATE UNLOGGED TABLE", "CREATE UNLOGGED TABLE v (a integer)"),
            (
                "ALTER TABLE ... SET LOGGED, SET UNLOGGED",
                "CREATE UNLOGGED TABLE v (a serial); ALTER TABLE v SET LOGGED; ALTER TABLE v SET UNLOGGED",
            ),
            (
                "REFERENCES, serial of a temporary table",
                "CREATE TEMP TABLE v (a serial PRIMARY KEY); CREATE TEMP TABLE w (a integer REFERENCES v)",
            ),
            ("CREATE TABLE ... AS", "CREATE TABLE v AS SELECT 1 AS a"),
            ("CREATE TABLE ... (LIKE ...)", "CREATE TABLE v (LIKE t)"),
            ("INHERITS, PARTITION BY", "CREATE TABLE v (a integer) PARTITION BY RANGE (a)"),
            ("ALTER TABLE ... ADD PRIMARY KEY, UNIQUE", "ALTER TABLE u ADD PRIMARY KEY (a)"),
            (
                "ALTER TABLE ... ADD CONSTRAINT ... USING INDEX",
                "CREATE UNIQUE INDEX k ON u (a); ALTER TABLE u ADD CONSTRAINT k PRIMARY KEY USING INDEX k",
            ),
            (
                "ALTER TABLE ... ADD CHECK, NOT VALID, VALIDATE CONSTRAINT",
                "ALTER TABLE t ADD CONSTRAINT k CHECK (a > 0) NOT VALID; ALTER TABLE t VALIDATE CONSTRAINT k",
            ),
            (
                "ALTER TABLE ... ADD COLUMN [IF NOT EXISTS] (the rows stay as they are)",
                "ALTER TABLE t ADD COLUMN IF NOT EXISTS z integer NOT NULL DEFAULT 1 CHECK (z > 0), ADD y text UNIQUE",
            ),
            (
                "ALTER TABLE ... ADD COLUMN ... DEFAULT, of a volatile function (computed row by row)",
                "ALTER TABLE t ADD COLUMN z double precision DEFAULT random()",
            ),
            (
                "ALTER TABLE ... DROP COLUMN [IF EXISTS] (the rows stay as they are)",
                "ALTER TABLE t DROP COLUMN b, DROP COLUMN IF EXISTS z",
            ),
            (
                "ALTER TABLE ... ALTER COLUMN ... SET, DROP DEFAULT",
                "ALTER TABLE t ALTER COLUMN b SET DEFAULT 'x', ALTER c DROP DEFAULT",
            ),
            (
                "ALTER TABLE ... ALTER COLUMN ... SET, DROP NOT NULL (the rows are looked at; copied beside writers where NULL was never allowed)",
                "ALTER TABLE t ALTER COLUMN b SET NOT NULL, ALTER c DROP NOT NULL",
            ),
            (
                "ALTER TABLE ... ALTER COLUMN ... TYPE (the rows are copied, beside writers, but for longer varchar, and text)",
                "ALTER TABLE t ALTER COLUMN c TYPE bigint",
            ),
            (
                "ALTER TABLE ... ALTER COLUMN ... TYPE ... USING (computed row by row)",
                "ALTER TABLE t ALTER COLUMN b TYPE integer USING length(b)",
            ),
            ("ALTER TABLE ... DROP CONSTRAINT", "ALTER TABLE t DROP CONSTRAINT t_pkey"),
            ("ALTER TABLE ... RENAME TO", "ALTER TABLE IF EXISTS t RENAME TO v"),
            (
                "ALTER TABLE ... RENAME COLUMN, CONSTRAINT",
                "ALTER TABLE t RENAME b TO x; ALTER TABLE t RENAME CONSTRAINT t_pkey TO k",
            ),
            ("ALTER INDEX ... RENAME TO", "ALTER INDEX u_b RENAME TO u_c"),
            ("DROP TABLE [IF EXISTS]", "DROP TABLE IF EXISTS u, no_such_table"),
            ("DROP ... CASCADE", "DROP TABLE t CASCADE"),
            ("CREATE [UNIQUE] INDEX", "CREATE UNIQUE INDEX i ON t (c DESC NULLS LAST, b)"),
            ("CREATE INDEX ... USING btree, hash", "CREATE INDEX i ON t USING hash (b)"),
            (
                "CREATE INDEX ... USING crtree [WITH (bits = 8 | 16)] (ranges over two to six columns at once)",
                "CREATE TABLE x (a integer, d date); CREATE INDEX ON x USING crtree (a, d) WITH (bits = 16)",
            ),
            (
                "CREATE INDEX CONCURRENTLY (outside a transaction block, where every CREATE INDEX lets others use the table)",
                "!CREATE TABLE x (a integer); CREATE INDEX CONCURRENTLY x_a ON x (a); DROP TABLE x",
            ),
            ("CREATE INDEX ... USING gin, gist, brin, spgist", "CREATE INDEX i ON t USING gin (b)"),
            ("CREATE INDEX ... (expression)", "CREATE INDEX i ON t (lower(b))"),
            ("CREATE INDEX ... WHERE", "CREATE INDEX i ON t (b) WHERE a > 1"),
            (
                "CREATE INDEX ... INCLUDE (told of, not stored: a row in memory has all of its columns)",
                "CREATE INDEX i ON t (b) INCLUDE (c)",
            ),
            (
                "CREATE UNIQUE INDEX ... NULLS NOT DISTINCT",
                "CREATE UNIQUE INDEX i ON t (b) NULLS NOT DISTINCT",
            ),
            (
                "CREATE INDEX ... (... COLLATE \"C\" text_pattern_ops)",
                "CREATE INDEX i ON t (b COLLATE \"C\" text_pattern_ops)",
            ),
            ("DROP INDEX", "DROP INDEX u_b"),
            ("REINDEX INDEX, TABLE", "REINDEX TABLE t"),
            (
                "REINDEX SCHEMA, DATABASE, SYSTEM, REINDEX CONCURRENTLY (outside a transaction block)",
                "!REINDEX SCHEMA public",
            ),
            ("REINDEX (VERBOSE)", "REINDEX (VERBOSE) TABLE t"),
            ("CLUSTER", "CLUSTER t USING t_pkey"),
            ("COMMENT", "COMMENT ON TABLE t IS 'x'"),
        ],
    ),
    (
        "Other objects",
        &[
            (
                "CREATE FUNCTION ... LANGUAGE sql AS '...'",
                "CREATE FUNCTION f(x integer) RETURNS integer LANGUAGE sql AS 'SELECT x + 1'",
            ),
            (
                "RETURNS SETOF, TABLE, void",
                "CREATE FUNCTION f() RETURNS TABLE (a integer, b text) LANGUAGE sql AS 'SELECT a, b FROM t'",
            ),
            (
                "CREATE OR REPLACE FUNCTION",
                "CREATE OR REPLACE FUNCTION one(integer) RETURNS SETOF t LANGUAGE sql AS 'SELECT * FROM t WHERE a = $1'",
            ),
            (
                "CREATE FUNCTION ... (... DEFAULT ...), f(b => 1)",
                "CREATE FUNCTION f(a integer DEFAULT 2, b integer DEFAULT 3) RETURNS integer LANGUAGE sql AS 'SELECT a + b'; SELECT f(b => 1)",
            ),
            (
                "CREATE FUNCTION ... (VARIADIC ...)",
                "CREATE FUNCTION f(VARIADIC a integer[]) RETURNS integer LANGUAGE sql AS 'SELECT a[1]'; SELECT f(1, 2), f(VARIADIC ARRAY[3])",
            ),
            (
                "CREATE FUNCTION ... STRICT",
                "CREATE FUNCTION f(integer) RETURNS integer LANGUAGE sql STRICT AS 'SELECT $1'",
            ),
            (
                "several statements in a body",
                "CREATE FUNCTION f() RETURNS integer LANGUAGE sql AS 'DELETE FROM u; SELECT 1'",
            ),
            ("BEGIN ATOMIC", "CREATE FUNCTION f() RETURNS integer BEGIN ATOMIC SELECT 1; END"),
            (
                "LANGUAGE plpgsql",
                "CREATE FUNCTION f() RETURNS integer LANGUAGE plpgsql AS 'BEGIN RETURN 1; END'",
            ),
            ("CREATE PROCEDURE, CALL", "CREATE PROCEDURE f() LANGUAGE sql AS 'SELECT 1'"),
            ("DROP FUNCTION", "DROP FUNCTION one(integer)"),
            ("CREATE TRIGGER", "CREATE TRIGGER x BEFORE INSERT ON t EXECUTE FUNCTION one()"),
            ("CREATE OR REPLACE VIEW", "CREATE OR REPLACE VIEW v (a) AS SELECT 1"),
            ("ALTER VIEW", "CREATE VIEW v AS SELECT 1 AS a; ALTER VIEW v RENAME COLUMN a TO b"),
            ("DROP VIEW", "CREATE VIEW v AS SELECT 1 AS a; DROP VIEW IF EXISTS v CASCADE"),
            ("CREATE TEMPORARY VIEW", "CREATE TEMP VIEW v AS SELECT 1 AS a"),
            ("CREATE VIEW ... WITH CHECK OPTION", "CREATE VIEW v AS SELECT a FROM t WITH CHECK OPTION"),
            (
                "security_barrier, security_invoker of a view, ALTER VIEW ... SET, RESET",
                "CREATE VIEW v WITH (security_barrier, security_invoker = false) AS SELECT a FROM t; \
                 ALTER VIEW v SET (security_invoker = true); ALTER VIEW v RESET (security_barrier)",
            ),
            (
                "INSERT, UPDATE, DELETE of a view",
                "CREATE VIEW v AS SELECT a, b FROM t; UPDATE v SET b = b; DELETE FROM v WHERE a < 0; INSERT INTO v VALUES (70, 'x')",
            ),
            (
                "CREATE MATERIALIZED VIEW ... WITH [NO] DATA",
                "CREATE MATERIALIZED VIEW IF NOT EXISTS v (x) AS SELECT 1 WITH NO DATA",
            ),
            (
                "REFRESH MATERIALIZED VIEW [CONCURRENTLY] ... WITH [NO] DATA",
                "CREATE MATERIALIZED VIEW v AS SELECT a FROM t; REFRESH MATERIALIZED VIEW v WITH NO DATA; \
                 REFRESH MATERIALIZED VIEW v; CREATE UNIQUE INDEX ON v (a); REFRESH MATERIALIZED VIEW CONCURRENTLY v",
            ),
            (
                "CREATE FOREIGN TABLE ... SERVER innodb",
                "CREATE FOREIGN TABLE f (a integer PRIMARY KEY, b text) SERVER innodb OPTIONS (path '/nothing/there.ibd')",
            ),
            (
                "ALTER FOREIGN TABLE ... RENAME, SET SCHEMA, OWNER TO",
                "CREATE FOREIGN TABLE f (a integer) SERVER innodb OPTIONS (path '/nothing/there.ibd'); \
                 ALTER FOREIGN TABLE f RENAME TO g; CREATE SCHEMA s; ALTER FOREIGN TABLE g SET SCHEMA s; \
                 ALTER FOREIGN TABLE s.g OWNER TO CURRENT_USER",
            ),
            (
                "DROP FOREIGN TABLE",
                "CREATE FOREIGN TABLE f (a integer) SERVER innodb OPTIONS (path '/nothing/there.ibd'); DROP FOREIGN TABLE f",
            ),
            ("CREATE SERVER, CREATE FOREIGN DATA WRAPPER", "CREATE SERVER s FOREIGN DATA WRAPPER innodb"),
            (
                "ALTER MATERIALIZED VIEW ... RENAME, SET SCHEMA",
                "CREATE MATERIALIZED VIEW v AS SELECT 1 AS a; ALTER MATERIALIZED VIEW v RENAME COLUMN a TO b; \
                 CREATE SCHEMA s; ALTER MATERIALIZED VIEW v SET SCHEMA s; ALTER MATERIALIZED VIEW s.v RENAME TO w",
            ),
            (
                "DROP MATERIALIZED VIEW",
                "CREATE MATERIALIZED VIEW v AS SELECT 1; DROP MATERIALIZED VIEW IF EXISTS v CASCADE",
            ),
            (
                "CREATE SEQUENCE",
                "CREATE SEQUENCE IF NOT EXISTS s AS smallint INCREMENT BY -1 MINVALUE -5 NO MAXVALUE START -1 CACHE 2 CYCLE OWNED BY t.a",
            ),
            (
                "ALTER SEQUENCE, RENAME TO",
                "CREATE SEQUENCE s; ALTER SEQUENCE s INCREMENT 2 RESTART WITH 5 OWNED BY NONE; ALTER SEQUENCE s RENAME TO r",
            ),
            ("DROP SEQUENCE", "CREATE SEQUENCE s; DROP SEQUENCE IF EXISTS s CASCADE"),
            ("CREATE TEMPORARY SEQUENCE", "CREATE TEMP SEQUENCE s"),
            (
                "CREATE UNLOGGED SEQUENCE, ALTER SEQUENCE ... SET LOGGED",
                "CREATE UNLOGGED SEQUENCE s; ALTER SEQUENCE s SET LOGGED",
            ),
            (
                "ALTER TABLE ... DROP EXPRESSION",
                "CREATE TABLE v (a integer, b integer GENERATED ALWAYS AS (a + 1) STORED); ALTER TABLE v ALTER b DROP EXPRESSION",
            ),
            ("TRUNCATE ... RESTART IDENTITY", "TRUNCATE t RESTART IDENTITY"),
            (
                "ALTER TABLE ... ADD GENERATED, SET GENERATED, DROP IDENTITY",
                "CREATE TABLE v (a integer GENERATED ALWAYS AS IDENTITY); ALTER TABLE v ALTER a SET GENERATED BY DEFAULT SET START 5 RESTART; \
                 ALTER TABLE v ALTER a DROP IDENTITY, ALTER a SET NOT NULL; ALTER TABLE v ALTER a ADD GENERATED BY DEFAULT AS IDENTITY",
            ),
            (
                "INSERT ... OVERRIDING SYSTEM VALUE, OVERRIDING USER VALUE",
                "CREATE TABLE v (a integer GENERATED ALWAYS AS IDENTITY); INSERT INTO v OVERRIDING SYSTEM VALUE VALUES (7); \
                 INSERT INTO v OVERRIDING USER VALUE VALUES (7)",
            ),
            ("CREATE SCHEMA", "CREATE SCHEMA s"),
            ("CREATE TYPE ... AS ENUM", "CREATE TYPE e AS ENUM ('x')"),
            ("CREATE TYPE ... AS (...)", "CREATE TYPE e AS (a integer, b text)"),
            ("CREATE TYPE of a range, a base type", "CREATE TYPE e AS RANGE (subtype = integer)"),
            (
                "ALTER TYPE ... ADD, DROP, ALTER ATTRIBUTE (the last two where no column has such values)",
                "CREATE TYPE e AS (a integer); ALTER TYPE e ADD ATTRIBUTE b text, DROP ATTRIBUTE a",
            ),
            (
                "ALTER TYPE ... RENAME ATTRIBUTE",
                "CREATE TYPE e AS (a integer); ALTER TYPE e RENAME ATTRIBUTE a TO b",
            ),
            (
                "ALTER TYPE ... ADD VALUE",
                "CREATE TYPE e AS ENUM ('x'); ALTER TYPE e ADD VALUE IF NOT EXISTS 'y' BEFORE 'x'",
            ),
            (
                "ALTER TYPE ... RENAME VALUE",
                "CREATE TYPE e AS ENUM ('x'); ALTER TYPE e RENAME VALUE 'x' TO 'y'",
            ),
            ("ALTER TYPE ... RENAME TO", "CREATE TYPE e AS ENUM ('x'); ALTER TYPE e RENAME TO f"),
            ("DROP TYPE", "CREATE TYPE e AS ENUM ('x'); DROP TYPE e"),
            ("CREATE DOMAIN", "CREATE DOMAIN d AS integer NOT NULL DEFAULT 1 CONSTRAINT c CHECK (VALUE > 0)"),
            (
                "ALTER DOMAIN",
                "CREATE DOMAIN d AS integer; ALTER DOMAIN d SET NOT NULL; ALTER DOMAIN d ADD CONSTRAINT c CHECK (VALUE > 0)",
            ),
            ("DROP DOMAIN", "CREATE DOMAIN d AS integer; DROP DOMAIN d"),
            ("CREATE EXTENSION", "CREATE EXTENSION x"),
            ("CREATE RULE, CREATE POLICY", "CREATE RULE r AS ON INSERT TO t DO INSTEAD NOTHING"),
            ("DO", "DO 'BEGIN END'"),
        ],
    ),
    (
        "Transactions and sessions",
        &[
            (
                "BEGIN, START TRANSACTION, COMMIT, ROLLBACK",
                "!BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY; COMMIT",
            ),
            ("BEGIN ... DEFERRABLE", "!BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE; COMMIT"),
            ("COMMIT and ROLLBACK AND CHAIN", "!BEGIN; COMMIT AND CHAIN; COMMIT"),
            ("SAVEPOINT, RELEASE, ROLLBACK TO", "SAVEPOINT s; ROLLBACK TO s; RELEASE s"),
            ("SET TRANSACTION", "!BEGIN; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; COMMIT"),
            ("PREPARE TRANSACTION", "!BEGIN; PREPARE TRANSACTION 'x'"),
            ("LOCK TABLE", "LOCK TABLE t"),
            ("LOCK TABLE ... IN any of the eight modes, NOWAIT", "LOCK TABLE t IN SHARE MODE NOWAIT"),
            (
                "SET, SET LOCAL, RESET, SHOW",
                "SET LOCAL lock_timeout = '1s'; SHOW lock_timeout; RESET lock_timeout",
            ),
            ("PREPARE, EXECUTE, DEALLOCATE", "EXECUTE q(1)"),
            ("EXECUTE of a registered query", "EXECUTE one(1)"),
            ("EXPLAIN", "EXPLAIN SELECT * FROM t"),
            ("EXPLAIN ANALYZE", "EXPLAIN ANALYZE SELECT * FROM t"),
            (
                "EXPLAIN (VERBOSE, COSTS OFF, FORMAT json)",
                "EXPLAIN (VERBOSE, COSTS OFF, FORMAT json) SELECT * FROM t",
            ),
            ("EXPLAIN (FORMAT yaml)", "EXPLAIN (FORMAT yaml) SELECT * FROM t"),
            (
                "DECLARE CURSOR, FETCH, MOVE, CLOSE",
                "DECLARE c NO SCROLL CURSOR FOR SELECT a FROM t ORDER BY a; FETCH c; MOVE FORWARD 1 IN c; FETCH ALL FROM c; CLOSE c",
            ),
            (
                "DECLARE SCROLL CURSOR; FETCH PRIOR, FIRST, LAST, ABSOLUTE, RELATIVE, BACKWARD",
                "DECLARE c SCROLL CURSOR FOR SELECT a FROM t; FETCH LAST FROM c; FETCH BACKWARD 1 FROM c; FETCH ABSOLUTE 2 FROM c",
            ),
            ("DECLARE CURSOR WITH HOLD", "!DECLARE c CURSOR WITH HOLD FOR SELECT 1; FETCH c; CLOSE c"),
            (
                "DECLARE INSENSITIVE CURSOR, ASENSITIVE (which every cursor is)",
                "DECLARE c INSENSITIVE CURSOR FOR SELECT 1; CLOSE ALL",
            ),
            ("EXPLAIN DECLARE", "EXPLAIN DECLARE c CURSOR FOR SELECT 1"),
            ("DECLARE BINARY CURSOR", "DECLARE c BINARY CURSOR FOR SELECT 1"),
            (
                "DECLARE CURSOR ... FOR UPDATE, NO KEY UPDATE, SHARE, KEY SHARE",
                "DECLARE c CURSOR FOR SELECT a FROM t FOR UPDATE; FETCH c",
            ),
            ("LISTEN, NOTIFY", "LISTEN x"),
            ("SET CONSTRAINTS", "SET CONSTRAINTS ALL DEFERRED"),
            ("CHECKPOINT", "!CHECKPOINT"),
            ("DISCARD ALL, DISCARD PLANS", "!DISCARD PLANS"),
        ],
    ),
];

fn setup() -> (TempFolder, Database) {
    let folder = TempFolder::new().unwrap();
    let db = OpenOptions::new().open(folder.path()).unwrap();
    (folder, db)
}

/// What became of a form.
fn verdict(s: &mut Session, sql: &str) -> String {
    let alone = sql.starts_with('!');
    if !alone {
        s.execute("BEGIN").unwrap();
        s.execute(GIVEN).unwrap_or_else(|e| panic!("{e}"));
    }
    let sql = sql.trim_start_matches('!');
    // What comes from or goes to the client has calls of its own.
    let done = match sql {
        _ if sql.contains("FROM STDIN") => s.copy_in(sql, std::io::empty(), |_| {}).map(drop),
        _ if sql.contains("TO STDOUT") => s.copy_out(sql, std::io::sink(), |_| {}).map(drop),
        _ => s.execute(sql).map(drop),
    };
    s.rollback();
    let _ = s.execute("DEALLOCATE ALL");
    match done {
        Ok(()) => "yes".to_string(),
        Err(e) if e.sqlstate() == "0A000" => format!("no: {}", e.0.message),
        Err(e) => panic!("{sql}: neither supported nor refused, but {}: {e}", e.sqlstate()),
    }
}

/// The types that a column can have, with their modifiers.
fn type_names() -> Vec<String> {
    let values = |t: &TypeId| !matches!(t.category(), Category::Unknown | Category::Pseudo);
    let name = |t: TypeId| {
        let (first, rest) = t.name().split_once(' ').unwrap_or((t.name(), ""));
        match t.def().modifier {
            Modifier::None => t.name().to_string(),
            Modifier::Length { .. } => format!("{}(n)", t.name()),
            Modifier::PrecisionAndScale => format!("{}(p, s)", t.name()),
            Modifier::Seconds { .. } => format!("{first}(p) {rest}"),
            Modifier::Own(own) => format!("{}{}", t.name(), own.written),
        }
    };
    TypeId::all().filter(values).map(name).collect()
}

fn types(of: &[TypeId], variadic: bool) -> String {
    let name = |t: &TypeId| if *t == func::ANY { "any" } else { t.name() };
    let mut names: Vec<String> = of.iter().map(|t| name(t).to_string()).collect();
    if variadic && let Some(last) = names.last_mut() {
        *last += ", ..."
    }
    names.join(", ")
}

/// A page with its prose at 110 columns: its paragraphs, and the points of its lists. A piece of code is not
/// parted.
fn wrapped(page: &str) -> String {
    let mut out = String::new();
    for line in page.lines() {
        let mut words: Vec<String> = vec![];
        for piece in line.split(' ') {
            match words.last_mut() {
                // A sign by itself at the beginning of a line would begin a list, a quote or a table.
                Some(last)
                    if last.matches('`').count() % 2 == 1
                        || !piece.contains(|c: char| c.is_alphanumeric() || c == '`') =>
                {
                    last.push(' ');
                    last.push_str(piece);
                }
                _ => words.push(piece.to_string()),
            }
        }
        if line.starts_with(['|', '#']) {
            words = vec![line.to_string()];
        }
        let mut width = 0;
        for word in words {
            let columns = word.chars().count();
            if width > 0 {
                let fits = width + 1 + columns <= 110;
                let (between, columns) = match (fits, line.starts_with("- ")) {
                    (true, _) => (" ", width + 1),
                    (false, true) => ("\n  ", 2),
                    (false, false) => ("\n", 0),
                };
                out += between;
                width = columns;
            }
            out += &word;
            width += columns;
        }
        out.push('\n');
    }
    out
}

fn document() -> String {
    let mut out = String::from(
        "# What SQL there is\n\n\
         The grammar is PostgreSQL's own. A supported form means the same as in PostgreSQL; any other is refused with SQLSTATE 0A000. \
         A test that runs each form makes this page (`crates/ondol/tests/support.rs`): change it there.\n",
    );
    let (_folder, db) = setup();
    let mut s = db.session();
    for (chapter, forms) in FORMS {
        write!(out, "\n## {chapter}\n\n| form | |\n| --- | --- |\n").unwrap();
        for (form, sql) in *forms {
            let verdict = verdict(&mut s, sql);
            writeln!(out, "| {} | {} |", form.replace('|', "\\|"), verdict.replace('|', "\\|")).unwrap();
        }
    }
    out += "\n## Accepted without effect\n\nForms that mean nothing to a database in memory, and cannot change an answer, are accepted with a NOTICE.\n\n";
    for a in accepted::ALL {
        writeln!(out, "- `{}`: {}", a.what, a.notice).unwrap();
    }
    writeln!(out, "\n## Types\n\n{}; and arrays of each.", type_names().join(", ")).unwrap();
    let mut list = |title: &str, all: BTreeMap<String, Vec<String>>| {
        write!(out, "\n## {title}\n\n").unwrap();
        for (name, mut forms) in all {
            forms.sort();
            forms.dedup();
            writeln!(out, "- `{name}`: {}", forms.join("; ")).unwrap();
        }
    };
    let mut functions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    // Most operators' functions are called by their symbols only, and what begins with $ by the grammar.
    const CALLED: &[&str] = &["starts_with", "array_append", "array_cat", "array_prepend"];
    let hidden = |f: &func::FuncDef| {
        f.name.starts_with('$') || func::operator::of_function(f.id).is_some() && !CALLED.contains(&f.name)
    };
    for f in func::all().filter(|f| !hidden(f)) {
        let form = format!("({}) → {}", types(f.args, f.variadic), f.ret.name());
        functions.entry(f.name.into()).or_default().push(form);
    }
    let mut operators: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for o in func::operators() {
        let left = o.left.map_or(String::new(), |l| format!("{} ", types(&[l], false)));
        let right = o.args().last().map_or(String::new(), |r| types(&[*r], false));
        let form = format!("{left}{} {right} → {}", o.name, types(&[o.ret()], false));
        operators.entry(o.name.into()).or_default().push(form);
    }
    let mut aggregates: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for a in agg::all() {
        let form = format!("({}) → {}", types(a.args, false), types(&[a.ret], false));
        aggregates.entry(a.name.into()).or_default().push(form);
    }
    let mut windows: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for w in window::all() {
        let form = format!("({}) → {}", types(w.args, false), types(&[w.ret], false));
        windows.entry(w.name.into()).or_default().push(form);
    }
    list("Functions", functions);
    list("Aggregates", aggregates);
    list("Window functions", windows);
    list("Operators", operators);
    out += "\n## Settings\n\n";
    let mut settings = vec![];
    let query = "SELECT name, description FROM ondol_settings WHERE is_changeable OR name = 'log_ring'";
    s.for_each(query, &[], |row| {
        settings.push((row.get::<String>(0)?, row.get::<String>(1)?));
        Ok(())
    })
    .unwrap();
    for (name, about) in &settings {
        writeln!(out, "- `{name}`: {about}").unwrap();
    }
    out += LIMITS;
    out += PARALLEL;
    out += PARQUET;
    out += CATALOG;
    out += ELSEWHERE;
    let fixed = known::settings().filter(|k| k.context == known::SettingContext::User);
    let fixed = fixed.map(|k| k.name).filter(|n| !settings.iter().any(|s| s.0 == *n));
    for (title, names) in known::absent().into_iter().chain([("Settings with one value", fixed.collect())]) {
        write!(out, "\n{title}: `{}`.\n", names.join("`, `")).unwrap();
    }
    wrapped(&out)
}

/// Held by `tests/sizes.rs`, which reads the numbers from here.
const LIMITS: &str = "
## Sizes

| what | at most | beyond |
| --- | --- | --- |
| a value: text, varchar, char, bytea | 1,073,741,819 bytes | 54000 |
| columns of a table | 1,600 | 54011 |
| columns of a result | 1,664 | 54011 |
| columns of an index | 32 | 54011 |
| tables of a query | 128 | 54000 |
| levels of a statement's nesting | 150 | 54001 |

A row has no size of its own that it may not exceed. One of up to 4,016 bytes stands in a page with others; text, bytea and numeric are counted by the 16 bytes that they have there, numeric(p, s) of up to 18 digits by 8. So up to 970 columns of integer do, and 247 of text. A longer row takes whole pages of 4 KiB. A value is held to the memory limit, too: it is there twice while it is stored, three times while it is read, and once more for each function over it.
";

/// Held by `tests/sql/known.sql`.
const ELSEWHERE: &str = "
## What PostgreSQL has besides

PostgreSQL 15 has names that this database has not. They are refused as not supported (0A000): the names below, all other functions and aggregates of `pg_catalog`, the system columns `xmin`, `xmax`, `cmin` and `cmax`, time zones other than UTC and fixed abbreviations. All settings are known: those above are obeyed; of those listed last a session can ask only for what is done anyway, and all else is not supported (0A000); what PostgreSQL does not let a session change is refused as PostgreSQL does (55P02). Names with a dot hold whatever they are given. Any other name does not exist, and has PostgreSQL's error for that. The lists are those of a server's catalogue: `crates/types/src/known/`.
";

/// Held by `tests/catalog.rs`.
const CATALOG: &str = "
## PostgreSQL's catalogue

`pg_catalog` and `information_schema` have all relations of PostgreSQL 15, with its columns and types, in its order; a column of a type that is not here is text. Those of whose rows none is here are empty. What is PostgreSQL's own (types, functions, operators, casts, operator classes) has PostgreSQL's OIDs, as far as it is here; what users have made has OIDs from 16384 on. Rows are made when a statement reads them, of the dictionary that it sees; of `pg_class`, `pg_attribute`, `pg_attrdef`, `pg_index` and `pg_constraint` only those of one object are made where the statement asks for one by its OID (or `relname`). The relations cannot be changed (42501).

`regclass`, `regtype`, `regproc`, `regprocedure`, `regoper`, `regoperator`, `regnamespace`, `regrole` and `regcollation` read and show names. A name is looked up when the statement runs, also that of a literal; that of a literal is looked at when the statement is planned, too, for its error. A value keeps the name that it was shown by when it was made; in a column it is the number, and is given the name that the object has when the row is read. Arrays of them, and fields of composite types, are not stored (0A000).

What differs: of the system columns `xmin`, `xmax`, `cmin` and `cmax` `pg_attribute` tells, as PostgreSQL's does, though a statement that names one is refused; indexes are of the kind that they are here; `reltuples` counts rows, `relpages` memory. There is one database. `information_schema._pg_expandarray` gives a row as a value, the only kind of such values.
";

/// Held by `tests/parallel.rs`.
const PARALLEL: &str = "
## EXPLAIN

EXPLAIN shows the plan in PostgreSQL's words, then the byte code that it became. `COSTS OFF` leaves out the guesses: the cost until the first row and until the last (a page read in sequence is 1), rows, and bytes a row. They come from the sizes of tables and indexes, there being no statistics; they compare plans of one statement and tell no times. `VERBOSE` adds what each node gives, `ANALYZE` runs the statement and counts the rows and starts of each node and the executions of each instruction, `FORMAT json` gives all of it as one text. A query in an expression stands below the node that asks for it: as InitPlan where it is run once at most, as SubPlan where it is run for each row.

## Definitions side by side

Sessions change definitions side by side, each in its transaction; others see what was defined when that has committed, and what is open is not there for them (42P01). Who would make a name that another transaction has made, or change or drop what another has changed or dropped, waits until that one ends, and goes by what it left: a name that is taken is 42P07, 42710 or 42723 (PostgreSQL: 23505), `IF NOT EXISTS` and `IF EXISTS` hold then, and an index without a name gets another.

What a new definition rests on stays: types of columns, arguments and domains, also those whose names stand in the text of a default or a check, and a table whose rows a function returns. Several may rest on one; who would change or drop it waits for them. `lock_timeout`, `statement_timeout` and cancelling end a wait, a cycle of waits is 40P01, also one with rows' locks; ROLLBACK TO SAVEPOINT and the failure of a transaction let go at once of what was claimed since. An ALTER TYPE claims all tables with such columns. Two indexes of one table are built one after the other.

## ON CONFLICT

INSERT ... ON CONFLICT goes by the newest rows, as in PostgreSQL: a row with the same key that another transaction has yet to commit, change or delete is waited for; one that is committed counts although the statement's snapshot does not show it. DO UPDATE locks that row, also where its WHERE is false, and sees its newest version. At REPEATABLE READ and SERIALIZABLE a row that the snapshot does not show is 40001, for DO NOTHING too. A row that the command itself has inserted or changed is left alone by DO NOTHING, and 21000 for DO UPDATE. What differs: who waits for the key of an index that is no arbiter holds none of its own keys meanwhile, and looks at the arbiters once more before it is refused (23505); at SERIALIZABLE what DO NOTHING left alone counts as read.

## Changing tables

CREATE INDEX on an expression, or with a predicate, adds a hidden column to the table for each that no other index of it has. The rows are copied once, with the values and the index, as by ALTER TABLE below: beside those who use the table, but for a short end. Only where a registered query is called do others wait all the while, and the transaction must be READ COMMITTED; CONCURRENTLY says so. Where other indexes are on the same expressions no row is copied. A row has room for the values of hidden columns as for those of others. REINDEX makes indexes anew from the rows, which nobody uses meanwhile, also with CONCURRENTLY; indexes are in step with rows always, so there is no other need for it than doubt.

ALTER TABLE has the table for itself until its transaction ends: it waits for those who use it, and others wait for it. Where rows lie otherwise afterwards (a column of another type, or one that may be NULL as it might not be when the rows were made), they are copied with the indexes. Outside a transaction block others go on using the table meanwhile: the rows of a snapshot are copied, then what was committed since, again and again, and only what came last while nobody uses the table. An error of a row (a value that cannot be converted, a NULL, a duplicate key) is told as of one of these snapshots, although the row may be gone by then. In a transaction block, and for a temporary table, others wait while all rows are copied. A table takes its memory twice meanwhile, and some ten bytes a row. A transaction above READ COMMITTED whose snapshot is older than the copy is refused with 40001 when it comes to the table afterwards; in a transaction block, as with PostgreSQL's rewriting forms, such a snapshot finds no rows there. SET NOT NULL and a primary key look at the rows, while others wait. All else is done at once, however large the table is. The default of a new column is computed once. A value that USING, a domain or a generated column computes of its row alone is computed as the row is copied. Where it depends on more (a volatile default, a stable function, a registered query), an UPDATE computes the values row by row: then the rows are copied twice, others wait, and the transaction must be READ COMMITTED.

ADD COLUMN without a volatile default leaves the rows as they are: the table says what the column is in them (`attmissingval` of `pg_attribute`). A row in which it is something else, and a new row in which it is not what the old ones have, names a string with the values of all columns that were added so: to read one costs a look there, to change one a new string, and such a row some 50 bytes more. DROP COLUMN leaves the rows as well: the bytes of a column that was not added later stay in them, and new rows have zeros there, until rows are copied; but of a column of a type that users have defined they are copied. Copied rows have all columns in them again, and nothing else; so they have where ADD COLUMN finds a table that never had rows. New tables have room for the name of that string in each row: 6 bytes, which five in eight tables have anyway, where the others' rows are 16 bytes longer; but rows of the greatest size that fits a page have none, and tables made by earlier versions only where it is left. Without room, ADD COLUMN copies the rows once, and they have it then.

A check is kept as text over the columns' names, which follows RENAME COLUMN; the functions in it are those of that name when a statement is planned. INSERT, UPDATE and COPY FROM hold each new row to all checks, in the order of their names; an UPDATE leaves out a check that is immutable and none of whose columns it sets. To look at rows that are there (ADD without NOT VALID, VALIDATE, ALTER COLUMN TYPE) takes a transaction that is READ COMMITTED.

ADD FOREIGN KEY and VALIDATE CONSTRAINT, at READ COMMITTED and of tables that the transaction has not altered otherwise, look at the rows while others change them; else writers to both tables wait. A new foreign key is announced to everyone first; it waits for those who have changed rows of either table and did not know of it. Until it is there, nothing is refused by it: whoever would break it, or delete a row that others name, waits until the transaction that adds it has ended. VALIDATE waits for nobody who uses the tables.

## Full scans by several threads

A table of `min_parallel_table_scan_size` (8MB) or more is read by up to `max_parallel_workers_per_gather` threads, by default as many as there are cores (0 turns it off, and is the default where there is one core), when a statement reads all of it once and

- makes aggregates of its rows, with WHERE and GROUP BY or without (no joins, no DISTINCT inside an aggregate): EXPLAIN then shows `Parallel Seq Scan` or `Parallel Foreign Scan` and `Workers Planned`, EXPLAIN ANALYZE runs in one thread, and shows neither; or
- is a query without more than columns, expressions and WHERE (no ORDER BY, LIMIT or DISTINCT), not through a cursor: EXPLAIN shows the same. A server's threads make the messages for the client, too; a client that is slow to take them makes them wait, and bounds what there is of them; or
- is COPY of a table, or of such a query, to a file or STDOUT; or
- is CREATE TABLE AS of such a query: the threads insert what they read, so that rows of the new table do not lie in the order of the query's.

A table that `innodb_scan` reads is read so, too; its `count(*)` without conditions is counted by several threads in any statement. The threads read in the statement's snapshot and transaction, its own uncommitted changes included, at every isolation level. The result is the same as one thread's, in the same order: rows come in storage order, and groups come as they are first met. Sums and averages of double precision are added part by part, and may differ from one thread's in the last digits. Each thread may take as much memory as a statement.

The threads are workers of the process. All its databases share them, for full scans, COPY FROM, the filling of indexes, imports and recovery. There are as many as cores, or as a program asks for by `set_workers` before the first of them has work. `max_parallel_workers_per_gather` is into how many jobs a statement is cut; jobs of several statements take turns on the workers, and one that waits (for whoever fetches the rows, say) holds none. The view `ondol_workers` has a row for each: its jobs that have not ended, and how many have.
";

/// Held by `tests/parquet.rs`.
const PARQUET: &str = "
## COPY in Parquet

`COPY t TO 'file' (FORMAT parquet)`, also of a query and to STDOUT; `COPY t FROM 'file' (FORMAT parquet)`. It comes with cargo's feature `columnar`, which is on by default; without it, 0A000.

| SQL | Parquet |
| --- | --- |
| boolean; smallint, integer, bigint; double precision | the same |
| numeric(p, s), of up to 76 digits | decimals of that precision and scale |
| text, varchar(n), char(n) | UTF8; char(n) with its blanks, as PostgreSQL shows it |
| bytea | bytes |
| date | days |
| any other type | UTF8: the value's text |
| timestamp, timestamptz | microseconds, without a zone and in UTC |

A value that Parquet cannot hold is an error that names row and column: NaN of numeric, infinite dates and timestamps, timestamps after the year 294246. `UNREPRESENTABLE 'null'` makes them NULL, `UNREPRESENTABLE 'text'` makes text of all columns of these types. Only `'text'` takes numeric without a precision; a cast gives it one.

Row groups count against the memory limit until they are written (53200); so do batches of some thousand rows, from when they are read until they are inserted. A row group of a table is what one worker makes of 1 to 16 MB of it; one of another query has up to 1,048,576 rows or some 128 MB. A file that COPY TO writes, also as text, has its name when it is whole: until then it is `NAME.PID.N.partial`, which an error removes. A pipe or a device, and the target of a link, is written to directly.

Files are read by the names of their columns: with a list of columns these, and no others; without one all of the file's, which the table must have. Columns that the file lacks get their defaults. A column of a type that the table's cannot hold exactly is refused (42804); so is a value that does not fit, or would lose digits, with its row and column. Texts are read into columns of every type, as COPY reads them. Columns of lists and structures are refused, and compression other than Snappy, gzip and LZ4.
";

/// For docs/coming-from-postgresql.md: by chapter of the document how many forms there are, and which of them
/// are refused.
fn refused(document: &str) -> String {
    let mut out = String::from("| chapter | forms | of them here | refused |\n| --- | ---: | ---: | --- |\n");
    for chapter in document.split("\n## ").skip(1) {
        let (title, body) = chapter.split_once('\n').unwrap_or((chapter, ""));
        let row = |l: &'_ str| -> Option<(String, bool)> {
            let (form, verdict) = l.strip_prefix("| ")?.strip_suffix(" |")?.rsplit_once(" | ")?;
            (verdict == "yes" || verdict.starts_with("no: ")).then(|| (form.to_string(), verdict == "yes"))
        };
        let forms: Vec<(String, bool)> = body.lines().filter_map(row).collect();
        let not: Vec<&str> = forms.iter().filter(|f| !f.1).map(|f| f.0.as_str()).collect();
        if !forms.is_empty() {
            let here = forms.len() - not.len();
            writeln!(out, "| {title} | {} | {here} | {} |", forms.len(), not.join("; ")).unwrap();
        }
    }
    out
}

#[test]
fn the_support_matrix_tells_what_is_so() {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let document = document();
    let page = std::fs::read_to_string(docs.join("coming-from-postgresql.md")).unwrap();
    let (before, rest) = page.split_once("<!-- forms -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- end -->").unwrap();
    let page = format!("{before}<!-- forms -->\n{}<!-- end -->{after}", refused(&document));
    for (name, now) in [("sql.md", document), ("coming-from-postgresql.md", page)] {
        let path = docs.join(name);
        if std::env::var_os("ONDOL_BLESS").is_some() {
            std::fs::write(&path, &now).unwrap();
        }
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        for (n, (a, b)) in there.lines().zip(now.lines()).enumerate() {
            assert_eq!(a, b, "docs/{name}, line {}: write it anew with ONDOL_BLESS=1", n + 1);
        }
        assert!(there == now, "docs/{name} is too short or too long: write it anew with ONDOL_BLESS=1");
    }
}
