-- Arrays of every type.
CREATE TABLE lists (id int PRIMARY KEY, a int[], t text[][], n numeric(4,1)[3], c char(3) ARRAY, d date[] NOT NULL DEFAULT '{}');
INSERT INTO lists VALUES
    (1, '{1,2,3}', '{{a,"b c"},{NULL,""}}', '{1.25,2}', '{a,bc}', '{2000-01-01}'),
    (2, ARRAY[4,NULL,6], ARRAY[['x','y']], ARRAY[1,2.55], ARRAY['a','b'], ARRAY['2000-01-01'::date, 'infinity']),
    (3, '[0:2]={7,8,9}', '{}', '{}', '{NULL}', DEFAULT),
    (4, NULL, NULL, NULL, NULL, ARRAY[]::date[]),
    (5, '{1,2}', '{null}', ARRAY[NULL]::numeric[], '{"",""}', DEFAULT),
    (6, '{{1,2},{3,4}}', '{"NULL"}', '{NaN}', NULL, DEFAULT);
INSERT INTO lists VALUES (7, '{1,x}');
INSERT INTO lists VALUES (7, '{1,2');
INSERT INTO lists VALUES (7, '1,2');
INSERT INTO lists VALUES (7, '{1,2}}');
INSERT INTO lists VALUES (7, '{{1,2},{3}}');
INSERT INTO lists VALUES (7, '[1:3]={1,2}');
INSERT INTO lists VALUES (7, '{99999999999}');
INSERT INTO lists VALUES (7, ARRAY['a']);
INSERT INTO lists VALUES (7, 1);
INSERT INTO lists (id, c) VALUES (7, '{abcd}');
INSERT INTO lists (id, n) VALUES (7, '{1000}');
SELECT * FROM lists ORDER BY id;
-- Order, groups and equality.
SELECT id, a FROM lists ORDER BY a, id;
SELECT id, a FROM lists ORDER BY a DESC NULLS LAST, id;
SELECT d, count(*) FROM lists GROUP BY d ORDER BY d;
SELECT min(a), max(a), count(DISTINCT d) FROM lists;
SELECT id FROM lists WHERE a = '{1,2,3}';
SELECT id FROM lists WHERE a > '{1,2}' AND a < ARRAY[5] ORDER BY id;
SELECT id FROM lists WHERE a IN ('{1,2}', '[0:2]={7,8,9}', '{7,8,9}') ORDER BY id;
SELECT ARRAY[1,2] = '{1,2}', ARRAY[1,2] <> ARRAY[1,3], ARRAY[1,NULL] = ARRAY[1,NULL], '[2:3]={1,2}'::int[] = ARRAY[1,2];
SELECT ARRAY[1,2] < ARRAY[1,NULL], ARRAY[1,2] < ARRAY[1,2,0], '{{1},{2}}'::int[] < '{1,2}'::int[], ARRAY[2] > '{1,9}';
SELECT ARRAY[1,2] = ARRAY[1.0,2.0];
SELECT ARRAY['a'] = ARRAY['a'::varchar];
-- Subscripts and slices.
SELECT id, a[1], a[2], a[0], t[1][2], t[1], n[1], c[1], a[NULL] FROM lists ORDER BY id;
SELECT id, a[1:2], a[:1], a[2:], a[:], t[2:2][1:1], t[1:2][2], a[3:1] FROM lists ORDER BY id;
SELECT (ARRAY[10,20,30])[2], ('{5,6}'::int[])[1], (ARRAY[[1,2],[3,4]])[2][1], (string_to_array('a b c', ' '))[3];
SELECT id, a[id] AS own FROM lists WHERE a[id] IS NOT NULL ORDER BY id;
SELECT id[1] FROM lists;
SELECT a['x'] FROM lists;
SELECT a[1.4::numeric(2,1)] FROM lists WHERE id = 1;
SELECT a[1][1][1][1][1][1][1] FROM lists;
-- Constructors.
SELECT ARRAY[1,2.5,NULL], ARRAY['a',NULL], ARRAY[[1,2],[3,4]], ARRAY[ARRAY[1],ARRAY[2]], ARRAY[]::text[], ARRAY[[],[]]::int[];
SELECT ARRAY['1','2']::int[], ARRAY[1,2]::text[], ARRAY[1.5,2.5]::int[], ARRAY['a','bcd']::varchar(2)[], '{1.5,2.25}'::numeric(3,1)[];
SELECT ARRAY[];
SELECT ARRAY[1,'a'];
SELECT ARRAY[1,true];
SELECT ARRAY[[1,2],[3]];
SELECT ARRAY[1,ARRAY[2]];
SELECT ARRAY(SELECT id FROM lists WHERE id < 4 ORDER BY id DESC), ARRAY(SELECT id FROM lists WHERE id > 100);
SELECT id, ARRAY(SELECT l.id + x FROM generate_series(1, 2) AS x) FROM lists l WHERE id < 3 ORDER BY id;
SELECT ARRAY(SELECT a FROM lists WHERE id IN (1, 2) ORDER BY id);
SELECT ARRAY(SELECT 1, 2);
-- Casts.
SELECT '{1,2}'::int[]::text, '{1,2}'::text::int[], '{1,2}'::int[]::bigint[], '{1.6,2}'::numeric[]::int[], '{t,f}'::bool[]::text[];
SELECT '{1,2}'::int[]::date[];
SELECT '{300000}'::int[]::smallint[];
SELECT 1::int[];
SELECT '{1}'::int[]::int;
SELECT CAST('{abc,d}' AS varchar(2)[]), CAST('{abc,d}' AS char(2)[]), '{1,2}'::_int4;
-- Operators.
SELECT ARRAY[1,2] || ARRAY[3], ARRAY[1] || 2, 0 || ARRAY[1], ARRAY[1] || NULL, NULL || ARRAY[1], ARRAY[1] || '{2,3}';
SELECT ARRAY[[1,2]] || ARRAY[3,4], ARRAY[1,2] || ARRAY[[3,4]], ARRAY[1] || 2.5, ARRAY['a'] || 'b'::text, '{}'::int[] || 1;
SELECT ARRAY[1] || ARRAY['a'];
SELECT ARRAY[1,2] || ARRAY[[1],[2]];
SELECT ARRAY['a'] || 'b';
SELECT ARRAY[1,2,3] @> ARRAY[3,1], ARRAY[1] <@ ARRAY[1,2], ARRAY[1,2] && ARRAY[2,3], ARRAY[1] && '{}', ARRAY[1,NULL] @> ARRAY[NULL]::int[], '{}' <@ ARRAY[1];
SELECT ARRAY[1] @> ARRAY['a'];
SELECT ARRAY[1] + 1;
SELECT 'x'::text || ARRAY[1];
-- ANY and ALL.
SELECT 2 = ANY (ARRAY[1,2]), 2 = ANY ('{1,3}'), 2 = ANY ('{1,NULL}'), 2 <> ALL ('{1,3}'), 2 > ALL (ARRAY[1,NULL]), NULL = ANY ('{1}'::int[]);
SELECT 1 = ANY ('{}'::int[]), 1 = ALL ('{}'::int[]), NULL = ANY ('{}'::int[]), 1 = ANY (NULL::int[]);
SELECT 'abc' LIKE ANY (ARRAY['x%', 'a%']), 'abc' ~~ ALL ('{a%,%c}'), 1.5 < ANY (ARRAY[1,2]), 3 = SOME ('{{1,2},{3,4}}');
SELECT id FROM lists WHERE id = ANY ('{1,3,9}') ORDER BY id;
SELECT id FROM lists WHERE 2 = ANY (a) ORDER BY id;
SELECT id FROM lists WHERE 9 > ALL (a) ORDER BY id;
SELECT 1 = ANY (1);
SELECT 1 + ANY ('{1}');
SELECT 'a' = ANY (ARRAY[1]);
PREPARE by_ids (int[]) AS SELECT id FROM lists WHERE id = ANY ($1) ORDER BY id;
EXECUTE by_ids ('{2,4}');
EXECUTE by_ids (ARRAY[5,6,7]);
EXECUTE by_ids (NULL);
-- Functions.
SELECT array_length('{{1,2,3},{4,5,6}}'::int[], 1), array_length('{{1,2,3},{4,5,6}}'::int[], 2), array_length('{}'::int[], 1), array_length(ARRAY[1], 0);
SELECT id, array_ndims(a), array_dims(a), array_lower(a, 1), array_upper(a, 1), cardinality(a) FROM lists ORDER BY id;
SELECT array_append(ARRAY[1], 2), array_append(NULL::int[], 1), array_append(NULL, 'x'), array_prepend(0, '[5:6]={1,2}'::int[]), array_cat(ARRAY[1], NULL), array_append(ARRAY[1], NULL);
SELECT array_append('{{1}}'::int[], 2);
SELECT array_cat('{{1,2}}'::int[], '{{{3,4}}}'::int[]), array_cat('{1}'::int[], '{{{3}}}'::int[]);
SELECT array_remove(ARRAY[1,2,1,NULL], 1), array_remove(ARRAY[1,NULL], NULL), array_replace(ARRAY[1,2,1], 1, 5), array_replace('{{1,2}}'::int[], 2, NULL);
SELECT array_remove('{{1,2}}'::int[], 1);
SELECT array_position(ARRAY['a','b','a'], 'a'), array_position(ARRAY['a','b','a'], 'a', 2), array_position('[0:1]={5,6}'::int[], 6), array_positions(ARRAY[1,2,1], 1), array_position(ARRAY[1,NULL], NULL), array_positions(ARRAY[1], 9);
SELECT array_position('{{1,2}}'::int[], 1);
SELECT array_to_string(ARRAY[1,NULL,3], ','), array_to_string(ARRAY[1,NULL,3], ',', '*'), array_to_string(ARRAY[[true,false],[NULL,true]], '/'), array_to_string(ARRAY[1], NULL);
SELECT string_to_array('a,b,,c', ','), string_to_array('abc', NULL), string_to_array('abc', ''), string_to_array('', ','), string_to_array('a,b,c', ',', 'b'), string_to_array(NULL, ',');
SELECT array_fill(7, ARRAY[2,2]), array_fill('x'::text, ARRAY[2], ARRAY[0]), array_fill(NULL::int, '{3}'), array_fill(1, '{}');
SELECT array_fill(1, NULL);
SELECT array_fill(1, ARRAY[-1]);
SELECT array_fill(1, ARRAY[1,2], ARRAY[1]);
SELECT trim_array(ARRAY[1,2,3], 2), trim_array('[0:2]={1,2,3}'::int[], 1), trim_array('{}'::int[], 0);
SELECT trim_array(ARRAY[1,2], 3);
SELECT array_length('{1,2}', 1);
SELECT array_fill('x', ARRAY[1]);
SELECT array_length(1, 1);
SELECT concat(ARRAY[1,2], 'x'), quote_literal(ARRAY['a''b']), num_nulls(ARRAY[1], NULL);
SELECT GREATEST(ARRAY[1,2], ARRAY[1,3]), COALESCE(NULL, ARRAY[1]), NULLIF(ARRAY[1], '{1}'), CASE WHEN true THEN ARRAY[1] ELSE '{2}' END;
-- Rows into arrays, and back.
SELECT array_agg(id), array_agg(a[1]) FROM (SELECT * FROM lists ORDER BY id) AS l;
SELECT array_agg(id) FROM lists WHERE id > 100;
SELECT d, array_agg(a) FROM lists WHERE id IN (3, 1) GROUP BY d ORDER BY d;
SELECT array_agg(a) FROM lists WHERE id IN (1, 5);
SELECT array_agg(a) FROM lists WHERE id IN (1, 4);
SELECT array_agg(c[1]) FILTER (WHERE id < 3) FROM lists;
SELECT * FROM unnest(ARRAY[1,2,NULL]);
SELECT * FROM unnest('{{1,2},{3,4}}'::int[]) AS x;
SELECT x.*, n FROM unnest(ARRAY['a','b']) WITH ORDINALITY AS x(v, n);
SELECT * FROM unnest(ARRAY[1,2], ARRAY['a','b','c']) AS u(n, t);
SELECT * FROM unnest('{}'::int[]);
SELECT * FROM unnest(NULL::int[]);
SELECT * FROM unnest('{1}');
SELECT * FROM unnest(1);
SELECT id, x FROM lists, unnest(a) AS x WHERE x > 6 ORDER BY id, x;
SELECT id, v, n FROM lists LEFT JOIN unnest(t) WITH ORDINALITY AS u(v, n) ON n > 1 ORDER BY id, n;
SELECT id, s, a[s] FROM lists CROSS JOIN LATERAL generate_subscripts(a, 1) AS s WHERE id < 4 ORDER BY id, s;
SELECT * FROM generate_subscripts('[3:5]={1,2,3}'::int[], 1, true);
SELECT id FROM lists RIGHT JOIN unnest(a) x ON true;
SELECT array_agg(DISTINCT x) FROM unnest(ARRAY[3,1,NULL,3,2]) AS x;
SELECT sum(x), count(*) FROM unnest((SELECT a FROM lists WHERE id = 1)) AS x WHERE x > 1;
SELECT id FROM lists WHERE 3 IN (SELECT * FROM unnest(a)) ORDER BY id;
SELECT id, (SELECT sum(x) FROM unnest(a) AS x) FROM lists ORDER BY id;
-- Changes.
UPDATE lists SET a[2] = 20, a[5] = 50 WHERE id = 1 RETURNING a;
UPDATE lists SET a[1] = id, t[1] = 'new' WHERE id = 4 RETURNING a, t;
UPDATE lists SET a[2][1] = 30 WHERE id = 6 RETURNING a;
UPDATE lists SET a[-1] = 0 WHERE id = 3 RETURNING a;
UPDATE lists SET a[3][1] = 30 WHERE id = 6;
UPDATE lists SET a[1][1] = 30 WHERE id = 1;
UPDATE lists SET a[NULL] = 30 WHERE id = 1;
UPDATE lists SET a[1] = 'x' WHERE id = 1;
UPDATE lists SET a[1] = true WHERE id = 1;
UPDATE lists SET a[1] = 1, a = '{}' WHERE id = 1;
UPDATE lists SET id[1] = 1;
UPDATE lists SET a[2:3] = '{8,9}' WHERE id = 1 RETURNING a;
UPDATE lists SET a[7:8] = ARRAY[7,8,9] WHERE id = 1 RETURNING a;
UPDATE lists SET a[:0] = ARRAY[0] WHERE id = 1 RETURNING a;
UPDATE lists SET a[1:2][2:2] = '{5,6}' WHERE id = 6 RETURNING a;
UPDATE lists SET a[1:2] = NULL WHERE id = 1 RETURNING a;
UPDATE lists SET a[1:3] = '{1}' WHERE id = 1;
UPDATE lists SET c[1:2] = '{x,y}' WHERE id = 6 RETURNING c;
UPDATE lists SET c[1:2] = 5 WHERE id = 6;
UPDATE lists SET a = a || 99, c[2] = 'z' WHERE id = 2 RETURNING id, a, c;
DELETE FROM lists WHERE a @> '{99}' AND id = 2 RETURNING id;
-- Indexes.
CREATE UNIQUE INDEX ON lists (a);
CREATE INDEX by_t ON lists (t DESC, id);
CREATE INDEX by_d ON lists USING hash (d);
INSERT INTO lists (id, a) VALUES (8, '{1,2}');
SELECT id FROM lists WHERE a = '{1,2}';
SELECT id FROM lists WHERE a >= '{1,2}' ORDER BY a, id;
SELECT id FROM lists WHERE d = '{}' ORDER BY id;
SELECT x.id, y.id FROM lists x JOIN lists y ON x.d = y.d AND x.id < y.id ORDER BY 1, 2;
-- Large ones.
CREATE TABLE large AS SELECT 1 AS id, array_agg(x) AS a, array_agg('item ' || x) AS t FROM generate_series(1, 5000) AS x;
SELECT cardinality(a), a[1], a[5000], t[4999], t[1:2] FROM large;
SELECT count(*), sum(x), max(n) FROM unnest((SELECT a FROM large)) WITH ORDINALITY AS u(x, n);
SELECT 4321 = ANY (a), 'item 17' = ANY (t), 5001 = ANY (a) FROM large;
UPDATE large SET a[5001] = 5001 WHERE id = 1 RETURNING cardinality(a);
-- COPY.
COPY (SELECT id, a, t, c FROM lists ORDER BY id) TO STDOUT;
COPY (SELECT id, a, t, c FROM lists ORDER BY id) TO STDOUT (FORMAT csv);
COPY lists (id, a, t) FROM STDIN;
11	{11,\N}	{"a\\b"}
\.
COPY lists (id, a, t) FROM STDIN;
11	{11,NULL}	{"a\\\\b",c d}
\.
SELECT id, a, t FROM lists WHERE id = 11;
DROP TABLE lists;
DROP TABLE large;
