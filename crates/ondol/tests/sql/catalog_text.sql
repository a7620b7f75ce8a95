-- Texts of defaults, checks and rules; what depends on what.
CREATE SCHEMA d;
CREATE TABLE t (a int PRIMARY KEY, b text DEFAULT 'x', c serial, e int CHECK (e > 0), CHECK (e < a),
    f int GENERATED ALWAYS AS IDENTITY, g int GENERATED ALWAYS AS (a+e) STORED, h varchar(10) DEFAULT 'abc',
    i numeric(8,2) DEFAULT 1, j bigint DEFAULT 1 + 2, k date DEFAULT '2020-01-01', l timestamptz DEFAULT now(),
    m boolean DEFAULT true, n int DEFAULT -1, o text DEFAULT upper('x' || 'y'), p timestamp DEFAULT CURRENT_TIMESTAMP,
    q date DEFAULT CURRENT_DATE, r int[] DEFAULT '{1,2}', s int DEFAULT '5',
    CONSTRAINT ck CHECK (b IN ('x', 'y') OR a BETWEEN 1 AND 10 AND b IS NOT NULL),
    CONSTRAINT lk CHECK (b LIKE 'a%' AND length(b) > 3 AND NOT (a = 1)));
SELECT adnum, pg_get_expr(adbin, adrelid), pg_get_expr(adbin, adrelid, true) FROM pg_attrdef
    WHERE adrelid = 't'::regclass ORDER BY 1;
SELECT conname, pg_get_constraintdef(oid), pg_get_constraintdef(oid, true) FROM pg_constraint
    WHERE conrelid = 't'::regclass ORDER BY 1;
SELECT column_name, column_default FROM information_schema.columns WHERE table_name = 't' AND column_default IS NOT NULL
    ORDER BY ordinal_position;
CREATE TABLE r (a int REFERENCES t ON DELETE CASCADE, x int);
CREATE INDEX r_x ON r (x);
CREATE FUNCTION fn(int) RETURNS int LANGUAGE sql AS 'SELECT $1';
CREATE VIEW v AS SELECT t.a, fn(r.x) AS z FROM t JOIN r USING (a) WHERE t.b = 'q';
CREATE MATERIALIZED VIEW mv AS SELECT a FROM v;
CREATE TYPE en AS ENUM ('x');
CREATE DOMAIN dm AS int CHECK (VALUE > 0);
CREATE TABLE w (e en, d dm);
CREATE SEQUENCE sq OWNED BY w.d;
SELECT c.relname, d.objsubid, d.deptype, d.refclassid::regclass, rc.relname, d.refobjsubid
    FROM pg_depend d JOIN pg_class c ON d.classid = 'pg_class'::regclass AND d.objid = c.oid
    LEFT JOIN pg_class rc ON d.refclassid = 'pg_class'::regclass AND d.refobjid = rc.oid
    WHERE c.relnamespace = 'public'::regnamespace AND d.refclassid <> 'pg_type'::regclass
    ORDER BY 1, 2, 3, 4, 5, 6;
SELECT c.relname, d.deptype, d.refclassid::regclass, rc.relname, d.refobjsubid
    FROM pg_depend d JOIN pg_rewrite w ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid
    JOIN pg_class c ON c.oid = w.ev_class
    LEFT JOIN pg_class rc ON d.refclassid = 'pg_class'::regclass AND d.refobjid = rc.oid
    WHERE c.relnamespace = 'public'::regnamespace ORDER BY 1, 2, 3, 4, 5;
SELECT con.conname, d.deptype, d.refclassid::regclass, rc.relname, d.refobjsubid
    FROM pg_depend d JOIN pg_constraint con ON d.classid = 'pg_constraint'::regclass AND d.objid = con.oid
    LEFT JOIN pg_class rc ON d.refclassid = 'pg_class'::regclass AND d.refobjid = rc.oid
    WHERE con.connamespace = 'public'::regnamespace ORDER BY 1, 2, 3, 4, 5;
SELECT ad.adnum, d.deptype, d.refclassid::regclass, rc.relname, d.refobjsubid
    FROM pg_depend d JOIN pg_attrdef ad ON d.classid = 'pg_attrdef'::regclass AND d.objid = ad.oid
    LEFT JOIN pg_class rc ON d.refclassid = 'pg_class'::regclass AND d.refobjid = rc.oid
    ORDER BY 1, 2, 3, 4, 5;
SELECT c.relname, w.rulename, w.ev_type, w.ev_enabled, w.is_instead, w.ev_qual
    FROM pg_rewrite w JOIN pg_class c ON c.oid = w.ev_class WHERE c.relnamespace = 'public'::regnamespace ORDER BY 1;
SELECT pg_get_ruledef(w.oid), pg_get_ruledef(w.oid, true)
    FROM pg_rewrite w JOIN pg_class c ON c.oid = w.ev_class WHERE c.relname = 'v';
COMMENT ON TABLE t IS 'a table';
COMMENT ON COLUMN t.b IS 'a column';
COMMENT ON CONSTRAINT ck ON t IS 'a check';
COMMENT ON CONSTRAINT t_pkey ON t IS 'a key';
COMMENT ON INDEX r_x IS 'an index';
COMMENT ON MATERIALIZED VIEW mv IS 'a view';
COMMENT ON FUNCTION fn(int) IS 'a function';
COMMENT ON TYPE en IS 'a type';
COMMENT ON DOMAIN dm IS 'a domain';
COMMENT ON CONSTRAINT dm_check ON DOMAIN dm IS 'its check';
COMMENT ON SCHEMA d IS 'a schema';
COMMENT ON SCHEMA none IS 'no schema';
SELECT classoid::regclass, objsubid, description FROM pg_description
    WHERE objoid >= 16384 ORDER BY 3;
SELECT obj_description('d'::regnamespace, 'pg_namespace');
SELECT obj_description(oid, 'pg_constraint') FROM pg_constraint WHERE conname IN ('ck', 't_pkey', 'dm_check') ORDER BY 1;
COMMENT ON SCHEMA d IS NULL;
SELECT obj_description('d'::regnamespace, 'pg_namespace');
-- Which views are updatable, and what WITH says of them.
CREATE VIEW up AS SELECT x, a AS k, x + 1 AS y FROM r WITH LOCAL CHECK OPTION;
CREATE VIEW down AS SELECT DISTINCT x FROM r;
CREATE VIEW fenced WITH (security_barrier) AS SELECT x FROM r WHERE x > 0;
CREATE VIEW said WITH (security_invoker = false, check_option = cascaded) AS SELECT x FROM r;
CREATE VIEW bad WITH (security_barrier = 100) AS SELECT 1 AS a;
CREATE VIEW bad WITH (security_invoker = 100) AS SELECT 1 AS a;
CREATE VIEW bad WITH (what = 1) AS SELECT 1 AS a;
CREATE VIEW bad WITH (check_option = never) AS SELECT x FROM r;
SELECT relname, reloptions FROM pg_class WHERE relkind = 'v' AND relnamespace = 'public'::regnamespace ORDER BY 1;
SELECT table_name, is_updatable, is_insertable_into, check_option FROM information_schema.views
    WHERE table_schema = 'public' AND table_name <> 'fenced' ORDER BY 1;
SELECT table_name, is_insertable_into FROM information_schema.tables
    WHERE table_schema = 'public' AND table_name <> 'fenced' ORDER BY 1;
SELECT table_name, column_name, is_updatable FROM information_schema.columns
    WHERE table_name IN ('up', 'down', 'said') ORDER BY 1, 2;
ALTER VIEW said SET (security_barrier = true);
ALTER VIEW said RESET (security_invoker, check_option);
ALTER VIEW down SET (check_option = local);
ALTER VIEW said SET (nothing = 1);
SELECT reloptions FROM pg_class WHERE relname = 'said';
INSERT INTO r VALUES (NULL, 5), (NULL, -5);
SELECT * FROM fenced WHERE 10 / (x + 5) > 0;
SELECT * FROM fenced;
CREATE OR REPLACE VIEW fenced AS SELECT x FROM r WHERE x > 0;
SELECT reloptions FROM pg_class WHERE relname = 'fenced';
-- A sequence is named by where it is found.
CREATE SEQUENCE d.far;
CREATE TABLE takes (a int DEFAULT nextval('d.far'::regclass), b int DEFAULT nextval('public.sq'), c bigint DEFAULT setval('sq', 5));
SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'takes'::regclass ORDER BY adnum;
