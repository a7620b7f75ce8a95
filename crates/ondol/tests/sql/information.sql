-- What information_schema tells: to an owner, and to roles that may do some of it (compared with PostgreSQL 15).
CREATE ROLE ann;
CREATE ROLE bob;
CREATE ROLE grp;
GRANT grp TO ann WITH ADMIN OPTION;
CREATE SCHEMA isx;
GRANT USAGE ON SCHEMA isx TO ann;
GRANT CREATE ON SCHEMA isx TO bob WITH GRANT OPTION;
CREATE TABLE isx.t (a int PRIMARY KEY, b text, c int GENERATED ALWAYS AS (a * 2) STORED, d numeric(10,2) DEFAULT 5 CHECK (d > 0), e int GENERATED ALWAYS AS (a + length(b)) STORED);
CREATE TABLE isx.u (id serial PRIMARY KEY, a int REFERENCES isx.t ON DELETE CASCADE, x varchar(10)[], UNIQUE (a, id));
CREATE VIEW isx.v AS SELECT a, b FROM isx.t WHERE c > 2;
CREATE MATERIALIZED VIEW isx.m AS SELECT a FROM isx.t;
CREATE DOMAIN isx.dom AS int CHECK (VALUE > 0) NOT NULL;
CREATE TYPE isx.mood AS ENUM ('a', 'b');
CREATE TYPE isx.comp AS (p int, q isx.mood, r text[]);
CREATE TABLE isx.w (d isx.dom, m isx.mood, c isx.comp);
CREATE SEQUENCE isx.sq AS smallint START 3;
CREATE FUNCTION isx.f(a int, b text DEFAULT 'x') RETURNS TABLE (p int, q text) LANGUAGE sql AS 'SELECT a, b';
GRANT SELECT, INSERT ON isx.t TO ann WITH GRANT OPTION;
GRANT UPDATE (b, d) ON isx.t TO bob;
GRANT SELECT ON isx.t TO PUBLIC;
GRANT USAGE ON SEQUENCE isx.sq TO ann;
GRANT EXECUTE ON FUNCTION isx.f TO bob;
REVOKE EXECUTE ON FUNCTION isx.f FROM PUBLIC;
GRANT USAGE ON TYPE isx.mood TO ann;
GRANT USAGE ON DOMAIN isx.dom TO bob WITH GRANT OPTION;
GRANT SELECT ON isx.v TO bob;
ALTER TABLE isx.u OWNER TO ann;
CREATE FUNCTION isx.g(int) RETURNS int LANGUAGE sql AS 'SELECT $1 + 1';
CREATE VIEW isx.vf AS SELECT isx.g(a) AS g FROM isx.v;
ALTER DOMAIN isx.dom OWNER TO bob;
SELECT table_name, table_type, is_insertable_into, is_typed
    FROM information_schema.tables WHERE table_schema = 'isx'
    ORDER BY 1, 2, 3, 4;
SELECT table_name, column_name, ordinal_position, column_default, is_nullable, data_type, numeric_precision, numeric_scale, domain_schema, domain_name, udt_schema, udt_name, is_generated, generation_expression, is_updatable
    FROM information_schema.columns WHERE table_schema = 'isx'
    ORDER BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15;
SELECT grantor, grantee, table_name, privilege_type, is_grantable, with_hierarchy
    FROM information_schema.table_privileges WHERE table_schema = 'isx'
    ORDER BY 1, 2, 3, 4, 5, 6;
SELECT grantor, grantee, table_name, column_name, privilege_type, is_grantable
    FROM information_schema.column_privileges WHERE table_schema = 'isx'
    ORDER BY 1, 2, 3, 4, 5, 6;
SELECT grantor, grantee, object_name, object_type, privilege_type, is_grantable
    FROM information_schema.usage_privileges WHERE object_schema = 'isx'
    ORDER BY 1, 2, 3, 4, 5, 6;
SELECT grantor, grantee, udt_name, privilege_type, is_grantable
    FROM information_schema.udt_privileges WHERE udt_schema = 'isx'
    ORDER BY 1, 2, 3, 4, 5;
SELECT grantor, grantee, routine_schema, routine_name, privilege_type, is_grantable
    FROM information_schema.routine_privileges WHERE specific_schema = 'isx'
    ORDER BY 1, 2, 3, 4, 5, 6;
SELECT table_name, view_definition, check_option, is_updatable, is_insertable_into, is_trigger_updatable, is_trigger_deletable, is_trigger_insertable_into
    FROM information_schema.views WHERE table_schema = 'isx'
    ORDER BY 1, 2, 3, 4, 5, 6, 7, 8;
SELECT sequence_name, data_type, numeric_precision, numeric_precision_radix, numeric_scale, start_value, minimum_value, maximum_value, increment, cycle_option
    FROM information_schema.sequences WHERE sequence_schema = 'isx'
    ORDER BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10;
SELECT domain_name, data_type, numeric_precision, numeric_precision_radix, numeric_scale, udt_schema, udt_name, dtd_identifier
    FROM information_schema.domains WHERE domain_schema = 'isx'
    ORDER BY 1, 2, 3, 4, 5, 6, 7, 8;
SELECT constraint_schema, constraint_name, domain_name, is_deferrable, initially_deferred
    FROM information_schema.domain_constraints WHERE domain_schema = 'isx'
    ORDER BY 1, 2, 3, 4, 5;
SELECT constraint_schema, table_name, constraint_type, is_deferrable, initially_deferred, enforced, nulls_distinct
    FROM information_schema.table_constraints WHERE table_schema = 'isx' AND constraint_name NOT LIKE '%not_null'
    ORDER BY 1, 2, 3, 4, 5, 6, 7;
SELECT constraint_schema, constraint_name, table_name, column_name, ordinal_position, position_in_unique_constraint
    FROM information_schema.key_column_usage WHERE table_schema = 'isx'
    ORDER BY 1, 2, 3, 4, 5, 6;
SELECT constraint_name, unique_constraint_schema, unique_constraint_name, match_option, update_rule, delete_rule
    FROM information_schema.referential_constraints WHERE constraint_schema = 'isx'
    ORDER BY 1, 2, 3, 4, 5, 6;
SELECT check_clause
    FROM information_schema.check_constraints WHERE constraint_schema = 'isx' AND constraint_name NOT LIKE '%not_null'
    ORDER BY 1;
SELECT table_name, column_name, constraint_schema, constraint_name
    FROM information_schema.constraint_column_usage WHERE table_schema = 'isx'
    ORDER BY 1, 2, 3, 4;
SELECT table_name, constraint_schema, constraint_name
    FROM information_schema.constraint_table_usage WHERE table_schema = 'isx'
    ORDER BY 1, 2, 3;
SELECT udt_name, attribute_name, ordinal_position, is_nullable, data_type, numeric_precision, numeric_precision_radix, numeric_scale, attribute_udt_schema, attribute_udt_name, dtd_identifier, is_derived_reference_attribute
    FROM information_schema.attributes WHERE udt_schema = 'isx'
    ORDER BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12;
SELECT object_type, collection_type_identifier, data_type, udt_schema, udt_name, dtd_identifier
    FROM information_schema.element_types WHERE object_schema = 'isx'
    ORDER BY 1, 2, 3, 4, 5, 6;
SELECT user_defined_type_name, user_defined_type_category, is_instantiable
    FROM information_schema.user_defined_types WHERE user_defined_type_schema = 'isx'
    ORDER BY 1, 2, 3;
SELECT udt_schema, udt_name, domain_name
    FROM information_schema.domain_udt_usage WHERE domain_schema = 'isx'
    ORDER BY 1, 2, 3;
SELECT udt_schema, udt_name, table_name, column_name
    FROM information_schema.column_udt_usage WHERE table_schema = 'isx'
    ORDER BY 1, 2, 3, 4;
SELECT domain_schema, domain_name, table_name, column_name
    FROM information_schema.column_domain_usage WHERE table_schema = 'isx'
    ORDER BY 1, 2, 3, 4;
SELECT table_name, column_name, dependent_column
    FROM information_schema.column_column_usage WHERE table_schema = 'isx'
    ORDER BY 1, 2, 3;
SELECT view_schema, view_name, table_name, column_name
    FROM information_schema.view_column_usage WHERE table_schema = 'isx'
    ORDER BY 1, 2, 3, 4;
SELECT view_schema, view_name, table_name
    FROM information_schema.view_table_usage WHERE table_schema = 'isx'
    ORDER BY 1, 2, 3;
SELECT table_name, specific_schema, specific_name LIKE 'g_%' AS named
    FROM information_schema.view_routine_usage WHERE table_schema = 'isx'
    ORDER BY 1;
SELECT routine_schema, routine_name, routine_type, data_type, type_udt_schema, type_udt_name, dtd_identifier, routine_body, routine_definition, external_language, parameter_style, is_deterministic, sql_data_access, is_null_call, schema_level_routine, security_type, as_locator, is_udt_dependent
    FROM information_schema.routines WHERE specific_schema = 'isx'
    ORDER BY 1, 2, 3;
SELECT ordinal_position, parameter_mode, is_result, as_locator, parameter_name, data_type, udt_schema, udt_name, dtd_identifier, parameter_default
    FROM information_schema.parameters WHERE specific_schema = 'isx'
    ORDER BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10;
SELECT object_type, dtd_identifier
    FROM information_schema.data_type_privileges WHERE object_schema = 'isx'
    ORDER BY 1, 2;
SELECT schema_owner
    FROM information_schema.schemata WHERE schema_name = 'isx'
    ORDER BY 1;
SELECT grantee, role_name, is_grantable
    FROM information_schema.applicable_roles WHERE grantee IN ('ann', 'bob', 'grp')
    ORDER BY 1, 2, 3;
SELECT grantee, role_name, is_grantable
    FROM information_schema.administrable_role_authorizations WHERE grantee IN ('ann', 'bob', 'grp')
    ORDER BY 1, 2, 3;
SET ROLE ann;
SELECT table_name FROM information_schema.tables WHERE table_schema = 'isx' ORDER BY 1;
SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'isx' ORDER BY 1, 2;
SELECT count(*) FROM information_schema.table_constraints WHERE table_schema = 'isx';
SELECT count(*) FROM information_schema.constraint_column_usage WHERE table_schema = 'isx';
SELECT count(*) FROM information_schema.check_constraints WHERE constraint_schema = 'isx';
SELECT count(*) FROM information_schema.sequences WHERE sequence_schema = 'isx';
SELECT count(*) FROM information_schema.domains WHERE domain_schema = 'isx';
SELECT count(*) FROM information_schema.domain_constraints WHERE domain_schema = 'isx';
SELECT count(*) FROM information_schema.attributes WHERE udt_schema = 'isx';
SELECT table_name, view_definition IS NULL AS hidden FROM information_schema.views WHERE table_schema = 'isx' ORDER BY 1, 2;
SELECT routine_name, routine_definition IS NULL AS hidden FROM information_schema.routines WHERE specific_schema = 'isx' ORDER BY 1, 2;
SELECT parameter_name, parameter_default FROM information_schema.parameters WHERE specific_schema = 'isx' ORDER BY 1, 2;
SELECT grantor, grantee, table_name, privilege_type FROM information_schema.table_privileges WHERE table_schema = 'isx' ORDER BY 1, 2, 3, 4;
SELECT count(*) FROM information_schema.column_privileges WHERE table_schema = 'isx';
SELECT grantor, grantee, table_name, privilege_type FROM information_schema.role_table_grants WHERE table_schema = 'isx' ORDER BY 1, 2, 3, 4;
SELECT count(*) FROM information_schema.role_column_grants WHERE table_schema = 'isx';
SELECT count(*) FROM information_schema.usage_privileges WHERE object_schema = 'isx';
SELECT count(*) FROM information_schema.role_usage_grants WHERE object_schema = 'isx';
SELECT count(*) FROM information_schema.udt_privileges WHERE udt_schema = 'isx';
SELECT count(*) FROM information_schema.role_udt_grants WHERE udt_schema = 'isx';
SELECT count(*) FROM information_schema.routine_privileges WHERE specific_schema = 'isx';
SELECT count(*) FROM information_schema.role_routine_grants WHERE specific_schema = 'isx';
SELECT count(*) FROM information_schema.view_table_usage WHERE table_schema = 'isx';
SELECT count(*) FROM information_schema.element_types WHERE object_schema = 'isx';
SELECT schema_name FROM information_schema.schemata WHERE schema_name = 'isx' ORDER BY 1;
SELECT count(*) FROM information_schema.key_column_usage WHERE table_schema = 'isx';
SELECT count(*) FROM information_schema.referential_constraints WHERE constraint_schema = 'isx';
SELECT count(*) FROM information_schema.user_defined_types WHERE user_defined_type_schema = 'isx';
SELECT count(*) FROM information_schema.column_udt_usage WHERE table_schema = 'isx';
SELECT count(*) FROM information_schema.column_column_usage WHERE table_schema = 'isx';
SELECT count(*) FROM information_schema.view_routine_usage WHERE table_schema = 'isx';
RESET ROLE;
SET ROLE bob;
SELECT table_name FROM information_schema.tables WHERE table_schema = 'isx' ORDER BY 1;
SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'isx' ORDER BY 1, 2;
SELECT count(*) FROM information_schema.table_constraints WHERE table_schema = 'isx';
SELECT count(*) FROM information_schema.constraint_column_usage WHERE table_schema = 'isx';
SELECT count(*) FROM information_schema.check_constraints WHERE constraint_schema = 'isx';
SELECT count(*) FROM information_schema.sequences WHERE sequence_schema = 'isx';
SELECT count(*) FROM information_schema.domains WHERE domain_schema = 'isx';
SELECT count(*) FROM information_schema.domain_constraints WHERE domain_schema = 'isx';
SELECT count(*) FROM information_schema.attributes WHERE udt_schema = 'isx';
SELECT table_name, view_definition IS NULL AS hidden FROM information_schema.views WHERE table_schema = 'isx' ORDER BY 1, 2;
SELECT routine_name, routine_definition IS NULL AS hidden FROM information_schema.routines WHERE specific_schema = 'isx' ORDER BY 1, 2;
SELECT parameter_name, parameter_default FROM information_schema.parameters WHERE specific_schema = 'isx' ORDER BY 1, 2;
SELECT grantor, grantee, table_name, privilege_type FROM information_schema.table_privileges WHERE table_schema = 'isx' ORDER BY 1, 2, 3, 4;
SELECT count(*) FROM information_schema.column_privileges WHERE table_schema = 'isx';
SELECT grantor, grantee, table_name, privilege_type FROM information_schema.role_table_grants WHERE table_schema = 'isx' ORDER BY 1, 2, 3, 4;
SELECT count(*) FROM information_schema.role_column_grants WHERE table_schema = 'isx';
SELECT count(*) FROM information_schema.usage_privileges WHERE object_schema = 'isx';
SELECT count(*) FROM information_schema.role_usage_grants WHERE object_schema = 'isx';
SELECT count(*) FROM information_schema.udt_privileges WHERE udt_schema = 'isx';
SELECT count(*) FROM information_schema.role_udt_grants WHERE udt_schema = 'isx';
SELECT count(*) FROM information_schema.routine_privileges WHERE specific_schema = 'isx';
SELECT count(*) FROM information_schema.role_routine_grants WHERE specific_schema = 'isx';
SELECT count(*) FROM information_schema.view_table_usage WHERE table_schema = 'isx';
SELECT count(*) FROM information_schema.element_types WHERE object_schema = 'isx';
SELECT schema_name FROM information_schema.schemata WHERE schema_name = 'isx' ORDER BY 1;
SELECT count(*) FROM information_schema.key_column_usage WHERE table_schema = 'isx';
SELECT count(*) FROM information_schema.referential_constraints WHERE constraint_schema = 'isx';
SELECT count(*) FROM information_schema.user_defined_types WHERE user_defined_type_schema = 'isx';
SELECT count(*) FROM information_schema.column_udt_usage WHERE table_schema = 'isx';
SELECT count(*) FROM information_schema.column_column_usage WHERE table_schema = 'isx';
SELECT count(*) FROM information_schema.view_routine_usage WHERE table_schema = 'isx';
RESET ROLE;
SELECT (aclexplode(relacl)).privilege_type FROM pg_class WHERE relname = 't' AND relkind = 'r' ORDER BY 1;
SELECT x.privilege_type, x.is_grantable, x.ordinality FROM pg_class, aclexplode(relacl) WITH ORDINALITY x WHERE relname = 'v' AND relnamespace = 'isx'::regnamespace ORDER BY 3;
CREATE VIEW grants AS SELECT c.relname, x.privilege_type FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) x;
SELECT pg_get_viewdef('grants'::regclass);
SELECT privilege_type FROM grants WHERE relname = 'v' ORDER BY 1;
SELECT aclexplode(NULL);
SELECT aclexplode(1);
SELECT classid::regclass::text, objsubid, refobjid::regrole::text, deptype, count(*) FROM pg_shdepend
    WHERE refclassid = 'pg_authid'::regclass AND refobjid IN ('ann'::regrole, 'bob'::regrole, 'grp'::regrole)
    GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4;
