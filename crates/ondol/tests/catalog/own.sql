-- names to numbers and back
SELECT 'customer'::regclass, 'customer'::regclass::oid, 'pg_class'::regclass::oid, '"Odd Name"'::regclass, 'public.line'::regclass, {customer}::regclass, '-'::regclass, 0::regclass, '1259'::regclass, 4294967295::oid::regclass

-- an object of JSON
SELECT json_build_object('a', 1, 'b', 1.50, 'c', true, 'd', NULL, 'e', E'x"y\\z\n\x01ü/', 'f', timestamp '2020-01-02 03:04:05.5', 'g', date '2020-01-02', 'h', ARRAY[1, 2], 'i', ARRAY['a', NULL, 'b'], 'j', 1.5::float8, 'k', 'NaN'::float8, 'l', 'NaN'::numeric, 'm', 2.5::real, 'n', 26::oid, 'o', 'n'::name, 'r', json_build_object('x', 1), 's', ARRAY[[1, 2], [3, 4]], 't', '{}'::int[], 5, 'u', 'v', true, 'w', 1e20::float8, 'y', 'infinity'::timestamp), json_build_object()

-- no object of JSON
SELECT json_build_object('a')

-- no key of JSON
SELECT json_build_object('a', 1, NULL, 2)

-- partitions
SELECT count(*) FROM pg_partition_ancestors('customer') WITH ORDINALITY AS a(relid, depth)

-- partitions among the targets
SELECT 1 WHERE 1 IN (SELECT pg_partition_ancestors('customer')::oid::int8 UNION ALL VALUES (2))

-- types by name
SELECT 'int4'::regtype, 'numeric(3,1)'::regtype, 'text[]'::regtype, 'mood'::regtype, '_mood'::regtype, 'timestamp with time zone'::regtype::oid, 'character varying'::regtype, 'char(3)'::regtype, 'bpchar'::regtype, '"char"'::regtype

-- functions by name
SELECT 'now'::regproc, 'lower(text)'::regprocedure, 'substring(text, int4)'::regprocedure, 'add_one'::regproc, 'add_one(integer)'::regprocedure, 'int4pl'::regproc::oid, 'pg_catalog.lower(text)'::regprocedure

-- operators by name
SELECT '=(int4,int4)'::regoperator, '-(none,int4)'::regoperator, '=(int4,int4)'::regoperator::oid, '||/'::regoper

-- schemas, roles, collations
SELECT 'public'::regnamespace, 'pg_catalog'::regnamespace::oid, 'postgres'::regrole, '"C"'::regcollation

-- no table
SELECT 'nope'::regclass

-- no table in public
SELECT 'public.nope'::regclass

-- no type
SELECT 'nope'::regtype

-- no function
SELECT 'nope'::regproc

-- several functions
SELECT 'substring'::regproc

-- no such arguments
SELECT 'lower(boolean)'::regprocedure

-- no operator
SELECT '@@@@'::regoper

-- several operators
SELECT '='::regoper

-- no schema
SELECT 'nope'::regnamespace

-- no role
SELECT 'nope'::regrole

-- no name
SELECT 'a b'::regclass

-- no name either
SELECT '"a'::regclass

-- too many names
SELECT 'a.b.c.d'::regclass

-- another database
SELECT 'a.b.c'::regclass

-- numbers out of range
SELECT '4294967296'::regclass

-- texts as names
SELECT n::regclass, n::regclass::oid = c.oid FROM (VALUES ('customer'), ('line')) v(n) JOIN pg_class c ON c.relname = n ORDER BY 1, 2

-- what is there
SELECT to_regclass('customer'), to_regclass('nope'), to_regtype('int'), to_regtype('nope'), to_regproc('now'), to_regproc('nope'), to_regprocedure('lower(text)'), to_regprocedure('nope(text)'), to_regoper('||/'), to_regoperator('=(int4,int4)'), to_regnamespace('public'), to_regnamespace('nope'), to_regrole('postgres'), to_regrole('nope')

-- arrays of names
SELECT ARRAY['customer', 'line']::regclass[], '{customer,line}'::regclass[]::oid[], '{int4,text}'::regtype[]

-- comparisons
SELECT relname FROM pg_class WHERE oid = 'customer'::regclass OR oid = '{line}'::oid OR oid IN ('orders'::regclass) ORDER BY 1

-- types of values
SELECT pg_typeof(1), pg_typeof(1.5), pg_typeof('x'::varchar), pg_typeof(now()), pg_typeof(ARRAY[1]), pg_typeof('x'::name), pg_typeof(NULL::mood), pg_typeof('x'), pg_typeof('customer'::regclass)

-- joins by number
SELECT c.relname, a.attname, t.typname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid JOIN pg_type t ON t.oid = a.atttypid WHERE c.relname = 'line' AND a.attnum > 0 ORDER BY a.attnum

-- columns of all tables
SELECT attrelid::regclass, attname, atttypid::regtype, format_type(atttypid, atttypmod), attlen, attnum, attndims, attbyval, attalign, attstorage, attnotnull, atthasdef, attcollation FROM pg_attribute WHERE attrelid >= 16384 AND attnum > 0 AND attrelid IN (SELECT oid FROM pg_class WHERE relkind IN ('r', 'i') AND relnamespace = 'public'::regnamespace) ORDER BY attrelid::regclass::text, attnum

-- tables
SELECT relname, relnamespace::regnamespace, relam, relhasindex, relisshared, relpersistence, relkind, relnatts, relchecks, relhasrules, relhastriggers, relispartition, relispopulated, relreplident, relrowsecurity FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1

-- indexes
SELECT indexrelid::regclass, indrelid::regclass, indnatts, indnkeyatts, indisunique, indisprimary, indisexclusion, indimmediate, indisvalid, indkey, indcollation, indclass, indoption FROM pg_index WHERE indrelid >= 16384 AND indrelid::regclass::text !~ 'pg_toast' ORDER BY indexrelid::regclass::text

-- statements of indexes
SELECT pg_get_indexdef(indexrelid), pg_get_indexdef(indexrelid, 0, true), pg_get_indexdef(indexrelid, 1, false), pg_get_indexdef(indexrelid, 9, true) FROM pg_index WHERE indrelid IN ({customer}, {line}, {orders}) ORDER BY 1

-- keys
SELECT conname, contype, condeferrable, convalidated, conrelid::regclass, conindid::regclass, confrelid, conkey, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype IN ('p', 'u') AND conrelid >= 16384 ORDER BY 1

-- checks
SELECT conname, contype, conrelid::regclass, contypid::regtype, conkey, conbin IS NULL FROM pg_constraint WHERE contype = 'c' AND connamespace = 'public'::regnamespace ORDER BY 1

-- types that users have made
SELECT typname, typlen, typbyval, typtype, typcategory, typispreferred, typdelim, typelem::regtype, typarray::regtype, typinput, typoutput, typreceive, typsend, typsubscript, typanalyze, typalign, typstorage, typnotnull, typbasetype::regtype, typtypmod, typndims, typcollation FROM pg_type WHERE typname IN ('mood', '_mood', 'positive', '_positive', 'code') ORDER BY 1

-- labels
SELECT enumtypid::regtype, enumsortorder, enumlabel FROM pg_enum ORDER BY 1, 2

-- types of PostgreSQL
SELECT oid, typname, typlen, typbyval, typtype, typcategory, typispreferred, typelem, typarray, typinput, typoutput, typalign, typstorage FROM pg_type WHERE typname IN ('bool', 'int4', 'text', 'varchar', 'bpchar', 'name', 'oid', 'regclass', '_int4', 'numeric', 'timestamptz', 'uuid', 'int2vector', 'char', 'interval', 'bytea') ORDER BY oid

-- functions that users have made
SELECT proname, prolang, procost, prorows, prokind, proretset, provolatile, proparallel, pronargs, prorettype::regtype, proargtypes, proargmodes, proargnames, prosrc, pg_get_function_arguments(oid), pg_get_function_identity_arguments(oid), pg_get_function_result(oid) FROM pg_proc WHERE oid >= 16384 ORDER BY 1

-- statements of functions
SELECT pg_get_functiondef(oid) FROM pg_proc WHERE oid >= 16384 ORDER BY 1

-- functions of PostgreSQL
SELECT oid, proname, prokind, proretset, provolatile, pronargs, prorettype, proargtypes FROM pg_proc WHERE proname IN ('lower', 'int4pl', 'now', 'sum', 'generate_series') AND prorettype IN (20, 23, 25, 1184, 1700) AND proargtypes::text NOT LIKE '1700 1700%' AND proargtypes::text <> '3831' AND proname <> 'sum' ORDER BY oid

-- operators of PostgreSQL
SELECT oid, oprname, oprkind, oprcanmerge, oprcanhash, oprleft::regtype, oprright::regtype, oprresult::regtype, oprcom::regoperator, oprnegate::regoperator, oprcode FROM pg_operator WHERE oprleft = 23 AND oprright = 23 ORDER BY oid

-- operator classes
SELECT c.oid, amname, opcname, opcintype::regtype, opcdefault FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod WHERE opcname IN ('int4_ops', 'text_ops', 'bpchar_ops') AND amname IN ('btree', 'hash') ORDER BY 1

-- collations
SELECT oid, collname, collprovider, collencoding FROM pg_collation WHERE collname IN ('default', 'C', 'POSIX') ORDER BY 1

-- the database
SELECT datname, pg_encoding_to_char(encoding), datcollate, datctype, datistemplate, datallowconn, datlocprovider FROM pg_database WHERE datname = current_database()

-- format_type
SELECT format_type(23, NULL), format_type(1043, 24), format_type(1700, 786438), format_type(1042, NULL), format_type(1042, -1), format_type(1042, 7), format_type(1114, 3), format_type(1184, -1), format_type(1009, NULL), format_type(1231, 786438), format_type(0, NULL), format_type(999999999, NULL), format_type(NULL, 1), format_type(18, NULL), format_type(705, NULL), format_type(2276, NULL)

-- visibility
SELECT pg_table_is_visible('customer'::regclass), pg_table_is_visible('information_schema.tables'::regclass), pg_table_is_visible(1), pg_type_is_visible('mood'::regtype), pg_function_is_visible('now'::regproc), pg_operator_is_visible('||/'::regoper), pg_collation_is_visible(100)

-- encodings
SELECT pg_encoding_to_char(6), pg_encoding_to_char(0), pg_encoding_to_char(-1), pg_encoding_to_char(99), pg_char_to_encoding('utf8'), pg_char_to_encoding('nope'), getdatabaseencoding(), pg_client_encoding()

-- privileges
SELECT has_table_privilege('customer', 'select'), has_table_privilege('postgres', {line}, 'SELECT, INSERT WITH GRANT OPTION'), has_schema_privilege('public', 'usage'), has_database_privilege(current_database(), 'connect'), has_column_privilege({customer}, 1::int2, 'select'), has_table_privilege(1::oid, 'select'), has_function_privilege('now()', 'execute'), has_type_privilege('mood', 'usage'), pg_has_role('postgres', 'member')

-- no privilege
SELECT has_table_privilege('customer', 'fly')

-- privilege on nothing
SELECT has_table_privilege('nope', 'select')

-- comments
SELECT obj_description({customer}, 'pg_class'), col_description({customer}, 1), shobj_description({customer}, 'pg_database'), obj_description({customer})

-- settings
SELECT current_setting('server_encoding', true), current_setting('nope.nope', true), set_config('application_name', 'shop', true), current_setting('application_name')

-- no setting
SELECT current_setting('nope')

-- around the session
SELECT pg_is_in_recovery(), pg_my_temp_schema(), pg_is_other_temp_schema(1), pg_backend_pid() > 0, current_user, current_catalog, pg_trigger_depth()

-- a user
SELECT pg_get_userbyid(10), pg_get_userbyid(99999999)

-- sizes as text
SELECT pg_size_pretty(x::bigint), pg_size_pretty(-x::bigint), pg_size_pretty(x::numeric) FROM (VALUES (0), (1), (10239), (10240), (10751), (10752), (1048576), (20969472), (20971519), (10737418240), (9223372036854775807)) v(x)

-- vectors
SELECT indkey, indkey[0], indkey[1], indkey::int2[], array_upper(indkey, 1), array_lower(indkey, 1), 2 = ANY(indkey), ARRAY(SELECT unnest(indkey)), '1 2 3'::int2vector, '1 2'::oidvector, array_length('4 5'::oidvector, 1) FROM pg_index WHERE indexrelid = 'line_pkey'::regclass

-- aggregates over the catalogue
SELECT count(*), min(relname), max(relname), array_agg(relname ORDER BY relname), string_agg(relname::text, ',' ORDER BY relname) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace

-- lateral
SELECT c.relname, k.n, a.attname FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid, LATERAL unnest(i.indkey) WITH ORDINALITY k(attnum, n) JOIN pg_attribute a ON a.attnum = k.attnum WHERE a.attrelid = c.oid AND i.indisprimary AND c.relnamespace = 2200 ORDER BY 1, 2

-- correlated
SELECT relname, (SELECT count(*) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0), EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary) FROM pg_class c WHERE relkind = 'r' AND relnamespace = 2200 ORDER BY 1

-- unqualified, qualified, hidden
SELECT (SELECT count(*) > 0 FROM pg_class), (SELECT count(*) > 0 FROM pg_catalog.pg_class), (SELECT count(*) FROM pg_foreign_table), (SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal), (SELECT count(*) FROM pg_inherits)

-- pg_tables
SELECT * FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename

-- pg_indexes
SELECT * FROM pg_indexes WHERE schemaname = 'public' ORDER BY indexname

-- pg_views
SELECT * FROM pg_views WHERE schemaname = 'public'

-- pg_user
SELECT usename, usesysid, usecreatedb, usesuper, userepl, usebypassrls, passwd, valuntil, useconfig FROM pg_user

-- information_schema.tables
SELECT * FROM information_schema.tables WHERE table_schema = 'public' ORDER BY table_name

-- information_schema.columns
SELECT * FROM information_schema.columns WHERE table_schema = 'public' ORDER BY table_name, ordinal_position

-- information_schema.table_constraints
SELECT * FROM information_schema.table_constraints WHERE table_schema = 'public' AND constraint_name NOT LIKE '%not_null' ORDER BY constraint_name

-- information_schema.key_column_usage
SELECT * FROM information_schema.key_column_usage WHERE table_schema = 'public' ORDER BY constraint_name, ordinal_position

-- information_schema.constraint_column_usage
SELECT * FROM information_schema.constraint_column_usage WHERE table_schema = 'public' ORDER BY constraint_name, column_name

-- information_schema.constraint_table_usage
SELECT * FROM information_schema.constraint_table_usage WHERE table_schema = 'public' ORDER BY constraint_name

-- information_schema.referential_constraints
SELECT * FROM information_schema.referential_constraints WHERE true ORDER BY constraint_name

-- information_schema.domains
SELECT * FROM information_schema.domains WHERE domain_schema = 'public' ORDER BY domain_name

-- information_schema.domain_constraints
SELECT * FROM information_schema.domain_constraints WHERE domain_schema = 'public' ORDER BY constraint_name

-- information_schema.column_domain_usage
SELECT * FROM information_schema.column_domain_usage WHERE domain_schema = 'public' ORDER BY table_name, column_name

-- information_schema.column_udt_usage
SELECT * FROM information_schema.column_udt_usage WHERE table_schema = 'public' ORDER BY table_name, column_name

-- information_schema.routines
SELECT * FROM information_schema.routines WHERE routine_schema = 'public' ORDER BY routine_name

-- information_schema.parameters
SELECT * FROM information_schema.parameters WHERE specific_schema = 'public' ORDER BY specific_name, ordinal_position

-- information_schema.character_sets
SELECT * FROM information_schema.character_sets WHERE true ORDER BY 1

-- information_schema.information_schema_catalog_name
SELECT * FROM information_schema.information_schema_catalog_name WHERE true ORDER BY 1

-- information_schema.schemata
SELECT * FROM information_schema.schemata WHERE schema_name = 'public' ORDER BY 1

-- information_schema.views
SELECT * FROM information_schema.views WHERE table_schema = 'public' ORDER BY 1

-- information_schema.sequences
SELECT * FROM information_schema.sequences WHERE true ORDER BY 1

-- information_schema.triggers
SELECT * FROM information_schema.triggers WHERE true ORDER BY 1

-- information_schema.element_types
SELECT * FROM information_schema.element_types WHERE object_schema = 'nope' ORDER BY 1

-- information_schema.table_privileges
SELECT * FROM information_schema.table_privileges WHERE table_schema = 'public' AND table_name = 'customer' ORDER BY table_name, privilege_type

-- information_schema.collations
SELECT * FROM information_schema.collations WHERE collation_name IN ('C', 'default') ORDER BY collation_name

-- information_schema.check_constraints
SELECT * FROM information_schema.check_constraints WHERE constraint_schema = 'public' AND constraint_name NOT LIKE '%not_null' ORDER BY constraint_name

-- not null as checks
SELECT count(*) FROM information_schema.table_constraints WHERE table_schema = 'public' AND constraint_name LIKE '%not_null'

-- pgbench
SELECT o.n, p.partstrat, pg_catalog.count(i.inhparent) FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON (n.oid = c.relnamespace) CROSS JOIN LATERAL (SELECT pg_catalog.array_position(pg_catalog.current_schemas(true), n.nspname)) AS o(n) LEFT JOIN pg_catalog.pg_partitioned_table AS p ON (p.partrelid = c.oid) LEFT JOIN pg_catalog.pg_inherits AS i ON (c.oid = i.inhparent) WHERE c.relname = 'customer' AND o.n IS NOT NULL GROUP BY 1, 2 ORDER BY 1 ASC LIMIT 1

-- a browser of databases
SELECT n.oid, n.nspname, d.description FROM pg_catalog.pg_namespace n LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = n.oid AND d.objsubid = 0 AND d.classoid = 'pg_namespace'::regclass WHERE n.nspname = 'nope' ORDER BY nspname

-- a browser of columns
SELECT c.relname, a.attname, pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) AS def_value, dsc.description, dep.objid FROM pg_catalog.pg_attribute a INNER JOIN pg_catalog.pg_class c ON (a.attrelid = c.oid) LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid = ad.adrelid AND a.attnum = ad.adnum) LEFT OUTER JOIN pg_catalog.pg_description dsc ON (c.oid = dsc.objoid AND a.attnum = dsc.objsubid) LEFT OUTER JOIN pg_depend dep ON dep.refobjid = a.attrelid AND dep.deptype = 'i' AND dep.refobjsubid = a.attnum AND dep.classid = dep.refclassid WHERE NOT a.attisdropped AND c.oid = {customer} AND a.attnum > 0 ORDER BY a.attnum

-- a browser of keywords
SELECT string_agg(word, ',' ORDER BY word) FROM pg_catalog.pg_get_keywords() WHERE word <> ALL ('{a,abs}'::text[]) AND catcode = 'R'

-- columns of keys
SELECT i.relname, a.attname, (information_schema._pg_expandarray(x.indkey)).n FROM pg_catalog.pg_class t JOIN pg_catalog.pg_attribute a ON t.oid = a.attrelid JOIN pg_catalog.pg_index x ON t.oid = x.indrelid JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid WHERE t.relname = 'line' AND x.indisprimary AND a.attnum = 1

-- things in another schema
SELECT 'sales.item'::regclass, 'sales.kind'::regtype, 'sales.price'::regproc, 'sales.price(integer)'::regprocedure, to_regclass('item'), to_regtype('kind'), 'sales.item_pkey'::regclass, 'sales'::regnamespace, 'customer'::regclass, 'sales.customer'::regclass

-- what is visible
SELECT relname, relnamespace::regnamespace, pg_table_is_visible(oid) FROM pg_class WHERE relname IN ('customer', 'item', 'item_pkey') ORDER BY 1, 2

-- columns of types of another schema
SELECT attname, atttypid::regtype, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'sales.item'::regclass AND attnum > 0 ORDER BY attnum

-- statements about another schema
SELECT pg_get_indexdef('sales.item_pkey'::regclass), pg_get_indexdef('sales.item_pkey'::regclass, 0, true), pg_get_function_result('sales.price'::regproc), pg_get_functiondef('sales.price'::regproc)

-- columns by a whole name
SELECT pg_catalog.pg_class.relname, pg_class.relkind FROM pg_catalog.pg_class WHERE pg_catalog.pg_class.oid = 'sales.item'::regclass

-- the number of a table's table
SELECT tableoid::regclass, c.tableoid = 'pg_class'::regclass FROM pg_class c WHERE oid = 'customer'::regclass

-- sequences
SELECT seqrelid::regclass, seqtypid::regtype, seqstart, seqincrement, seqmax, seqmin, seqcache, seqcycle FROM pg_sequence ORDER BY seqstart, seqincrement, seqtypid

-- sequences with their names
SELECT * FROM pg_sequences ORDER BY sequencename

-- what sequences go with
SELECT objid::regclass, refobjid::regclass, refobjsubid, deptype FROM pg_depend WHERE classid = 'pg_class'::regclass AND refclassid = 'pg_class'::regclass AND objid IN (SELECT seqrelid FROM pg_sequence) AND refobjsubid > 0 ORDER BY refobjsubid

-- columns with sequences
SELECT attname, attidentity, attgenerated, atthasdef, pg_get_serial_sequence('tally', attname) FROM pg_attribute a WHERE attrelid = 'tally'::regclass AND attnum > 0 ORDER BY attnum

-- the default of serial
SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'tally'::regclass ORDER BY adnum
