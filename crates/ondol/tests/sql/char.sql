-- char(n) keeps its blanks where PostgreSQL keeps them, and bpchar without a length what it was given.
CREATE TABLE c(i int PRIMARY KEY, a char(3), b char(5), v varchar(5), t text, p bpchar);
INSERT INTO c VALUES (1,'ab','ab','ab','ab','ab'),(2,'x','xyz','x ','x ','x  '),(3,NULL,'','','',''),(4,'abc','abc  ','abc','abc','abc '),(5,'é','éa','é ','é','é  ');
-- By themselves, and in brackets, which show blanks.
SELECT i, '[' || a::text || ']', '[' || b || ']', concat('[',a,']'), concat('[',b,']'), concat('[',p,']') FROM c ORDER BY i;
SELECT i, length(a), length(b), length(p), octet_length(a), octet_length(b), octet_length(p), bit_length(a), char_length(b), character_length(p) FROM c ORDER BY i;
SELECT i, a::bytea, b::bytea, p::bytea FROM c ORDER BY i;
SELECT i, a::text::bytea, p::text::bytea, octet_length(p::varchar), octet_length(a::varchar(2)) FROM c ORDER BY i;
SELECT 'ab'::char(4)::bytea, 'ab'::char(4)::char(2)::bytea, 'abc'::char(4)::char(2)::bytea, 'ab'::char(2)::char(4)::bytea, 'ab  '::bpchar::bytea, 'ab  '::bpchar::char(3)::bytea;
SELECT 'ab'::char(4)::text::bytea, 'ab'::char(4)::varchar::bytea, 'ab'::char(4)::varchar(3)::bytea, 'ab  '::bpchar::text::bytea;
-- CASE, COALESCE, NULLIF, GREATEST, LEAST.
SELECT i, concat('[', CASE WHEN i < 3 THEN a ELSE b END, ']') FROM c ORDER BY i;
SELECT i, CASE WHEN i < 3 THEN a ELSE b END::bytea, (CASE WHEN i < 3 THEN a END)::bytea, (CASE WHEN i < 3 THEN a ELSE 'zz' END)::bytea FROM c ORDER BY i;
SELECT i, octet_length(CASE WHEN i < 3 THEN a ELSE v END), octet_length(CASE WHEN i < 3 THEN a ELSE t END), octet_length(CASE WHEN i < 3 THEN t ELSE a END) FROM c ORDER BY i;
SELECT i, concat('[', COALESCE(a, b), ']'), concat('[', COALESCE(a, 'none'), ']'), concat('[', COALESCE(NULL, a, NULL), ']'), concat('[', COALESCE(a, t), ']') FROM c ORDER BY i;
SELECT i, concat('[', NULLIF(a, 'ab'), ']'), concat('[', NULLIF(b, a), ']'), concat('[', NULLIF(p, 'x'), ']'), octet_length(NULLIF(a, t)) FROM c ORDER BY i;
SELECT i, concat('[', GREATEST(a, b), ']'), concat('[', LEAST(a, b), ']'), concat('[', LEAST(b, a), ']'), concat('[', GREATEST(a, 'm'), ']'), octet_length(GREATEST(a, v)) FROM c ORDER BY i;
SELECT concat('[', CASE WHEN true THEN 'a'::char(3) ELSE 'b'::char(3) END, ']'), concat('[', COALESCE(NULL::char(4), 'a'::char(2)), ']'), concat('[', COALESCE(NULL::char(4), 'a'::char(4)), ']');
-- UNION, VALUES, subqueries.
SELECT a::bytea, length(a), octet_length(a) FROM (SELECT a FROM c UNION ALL SELECT b FROM c) u ORDER BY 1, 3;
SELECT octet_length(x) FROM (SELECT a x FROM c WHERE i = 1 UNION ALL SELECT 'q') u;
SELECT octet_length(x) FROM (SELECT 'q' x UNION ALL SELECT a FROM c WHERE i = 1) u;
SELECT octet_length(x) FROM (SELECT a x FROM c WHERE i = 1 UNION ALL SELECT v FROM c WHERE i = 2) u;
SELECT octet_length(x) FROM (SELECT v x FROM c WHERE i = 2 UNION ALL SELECT a FROM c WHERE i = 1) u;
SELECT count(*) FROM (SELECT a FROM c UNION SELECT b FROM c) u;
SELECT count(*) FROM (SELECT a FROM c INTERSECT SELECT b FROM c) u;
SELECT count(*) FROM (SELECT a FROM c EXCEPT SELECT b FROM c) u;
SELECT concat('[', x, ']'), octet_length(x) FROM (VALUES ('a'::char(3)), ('b'::char(3))) w(x);
SELECT concat('[', x, ']'), octet_length(x) FROM (VALUES ('a'::char(3)), ('b'::char(5)), ('c')) w(x);
SELECT concat('[', x, ']'), octet_length(x) FROM (VALUES ('a'::char(3)), (NULL), ('c   ')) w(x);
SELECT concat('[', (SELECT a FROM c WHERE i = 1), ']'), octet_length((SELECT b FROM c WHERE i = 1)), (SELECT p FROM c WHERE i = 2)::bytea;
WITH w(x) AS (SELECT a FROM c UNION ALL SELECT b FROM c) SELECT max(octet_length(x)), min(octet_length(x)) FROM w;
SELECT concat('[', x, ']') FROM (SELECT a x FROM c OFFSET 0) q ORDER BY x NULLS FIRST;
-- Comparing ignores trailing blanks of char(n), not of others.
SELECT i, a = b, a < b, a <> p, b = p, a = v, a = t, b = t, p = t, p = v FROM c ORDER BY i;
SELECT 'ab'::char(4) = 'ab'::char(2), 'ab  '::bpchar = 'ab', 'ab  '::bpchar = 'ab '::bpchar, 'ab  '::bpchar = 'ab'::text, 'ab'::char(4) = 'ab  '::text, 'ab'::char(4) = 'ab  '::varchar, 'ab'::char(4) = 'ab  ';
SELECT i FROM c WHERE a = 'ab   ' ORDER BY i;
SELECT i FROM c WHERE a = 'ab   '::text ORDER BY i;
SELECT i FROM c WHERE p = 'x' ORDER BY i;
SELECT i FROM c WHERE p IN ('x ', 'abc') ORDER BY i;
SELECT i FROM c WHERE CASE WHEN i < 3 THEN a ELSE b END = 'abc' ORDER BY i;
SELECT i FROM c WHERE COALESCE(a, b) IN ('ab', 'abc   ', '') ORDER BY i;
SELECT x.i, y.i FROM c x JOIN c y ON x.a = y.b ORDER BY 1, 2;
SELECT x.i, y.i FROM c x JOIN c y ON x.p = y.b ORDER BY 1, 2;
SELECT x.i, y.i FROM c x JOIN c y ON x.p = y.p ORDER BY 1, 2;
SELECT x.i, y.i FROM c x JOIN c y ON COALESCE(x.a, x.b) = COALESCE(y.b, y.a) ORDER BY 1, 2;
SELECT i, a BETWEEN 'ab' AND 'ab ', p BETWEEN 'x' AND 'x ', p IS DISTINCT FROM 'x', (p, i) = ('x', 2), (p, i) < ('x', 3) FROM c ORDER BY i;
-- Patterns see the blanks.
SELECT i, a LIKE 'ab', a LIKE 'ab ', a LIKE 'ab%', p LIKE 'x', p LIKE 'x  ', a ILIKE 'AB_', a NOT LIKE 'x  ', COALESCE(a, b) LIKE 'ab ', a::text LIKE 'ab' FROM c ORDER BY i;
SELECT i, a LIKE a, b LIKE b, a LIKE b FROM c ORDER BY i;
-- Order, groups.
SELECT i FROM c ORDER BY a, i;
SELECT i FROM c ORDER BY p, i;
SELECT i FROM c ORDER BY COALESCE(a, b) DESC, i;
SELECT CASE WHEN i = 1 THEN 'x'::char(2) ELSE p END FROM c ORDER BY 1;
SELECT count(DISTINCT a), count(DISTINCT p), count(DISTINCT COALESCE(a, b)) FROM c;
SELECT count(*) FROM (SELECT a FROM c UNION ALL SELECT b FROM c) u GROUP BY a ORDER BY 1;
SELECT count(*), length(a) FROM (SELECT a FROM c UNION ALL SELECT b FROM c UNION ALL SELECT p FROM c) u GROUP BY a ORDER BY a;
SELECT count(*) FROM (SELECT DISTINCT a FROM (SELECT a FROM c UNION ALL SELECT b FROM c UNION ALL SELECT p FROM c) u) w;
SELECT concat('[', a, ']') FROM c GROUP BY a ORDER BY a;
SELECT concat('[', a, ']', b, ']') FROM (SELECT DISTINCT a, b FROM c) d ORDER BY a, b;
SELECT concat('[', min(a), ']'), concat('[', max(b), ']'), octet_length(max(a)), octet_length(min(b)), max(b)::bytea FROM c;
SELECT octet_length(max(x)), octet_length(min(x)) FROM (SELECT 'ab'::char(4) x UNION ALL SELECT 'b'::char(2)) u;
SELECT string_agg(a, '|'), string_agg(b, '|'), string_agg(p, '|') FROM (SELECT a, b, p FROM c ORDER BY i) o;
-- Arrays.
SELECT ARRAY[a, b]::text, ARRAY[a]::text, array_append(ARRAY[a], b)::text FROM c WHERE i = 1;
SELECT array_agg(a), array_agg(b), array_agg(p) FROM (SELECT a, b, p FROM c ORDER BY i) o;
SELECT concat('[', (ARRAY[a, b])[1], ']'), concat('[', (ARRAY[a])[1], ']'), octet_length((ARRAY[a, b])[2]), octet_length((ARRAY[a])[1]), (ARRAY[a])[1]::bytea FROM c WHERE i = 1;
SELECT ('{a,b}'::char(3)[])::text, ('{a,b}'::char(3)[])[1]::bytea, octet_length(('{a,b}'::char(3)[])[2]), ('{a,"b "}'::bpchar[])[2]::bytea, ('{a,b}'::char(3)[])::text[], ('{a,b}'::char(3)[])::varchar[]::text;
SELECT concat('[', x, ']'), octet_length(x), x::bytea FROM unnest('{a,b}'::char(3)[]) x;
SELECT concat('[', x, ']'), octet_length(x) FROM unnest(ARRAY['a'::char(3), 'b'::char(4)]) x;
SELECT 'a'::char(3) = ANY ('{a,b}'::char(2)[]), 'a  ' = ANY ('{a,b}'::char(2)[]), 'a'::bpchar = ANY ('{"a  ",b}'::bpchar[]), '{a,b}'::char(3)[] = '{a,b}'::char(5)[], '{"a "}'::bpchar[] = '{a}'::bpchar[];
SELECT array_position('{a,b}'::char(3)[], 'b'), array_remove('{a,b}'::char(3)[], 'b'), array_replace('{a,b}'::char(3)[], 'b', 'c'), array_to_string('{a,b}'::char(3)[], '|'), array_fill('x'::char(3), ARRAY[2]);
SELECT count(*), x FROM (SELECT '{"a "}'::bpchar[] x UNION ALL SELECT '{a}'::bpchar[] UNION ALL SELECT '{b}'::bpchar[]) u GROUP BY x ORDER BY 1;
-- Functions that take text take char(n) without its blanks.
SELECT i, a || '|', '|' || a || '|', a || b, length(a || b), upper(a), length(upper(a)), substr(b, 2, 3) || '|', left(b, 4) || '|', replace(a, 'b', 'c') || '|', reverse(b) || '|', rpad(a, 4, '*'), lpad(a, 4, '*'), repeat(a, 2) || '|', md5(a) = md5(rtrim(a)), position('b' in b), strpos(b, ' '), quote_literal(a), trim(b) || '|', btrim(p) || '|', overlay(b placing 'q' from 1) || '|' FROM c ORDER BY i;
SELECT i, concat(a, b, p, '|'), concat_ws(',', a, b, p) FROM c ORDER BY i;
-- Functions in SQL.
CREATE FUNCTION id(x char) RETURNS char LANGUAGE sql AS 'SELECT x';
CREATE FUNCTION five() RETURNS char(5) LANGUAGE sql AS $$SELECT 'ab'::char(5)$$;
CREATE FUNCTION three(x bpchar) RETURNS bpchar LANGUAGE sql AS $$SELECT CASE WHEN x = 'ab' THEN x ELSE 'zz'::char(3) END$$;
CREATE FUNCTION as_text(x char(9)) RETURNS text LANGUAGE sql AS $$SELECT x$$;
CREATE FUNCTION pick(int) RETURNS SETOF bpchar LANGUAGE sql AS $$SELECT b FROM c WHERE i <= $1 ORDER BY i$$;
CREATE FUNCTION pair(int) RETURNS TABLE(q char(3), r bpchar) LANGUAGE sql AS $$SELECT a, b FROM c WHERE i <= $1 ORDER BY i$$;
SELECT concat('[', id(a), ']'), octet_length(id(a)), octet_length(id(b)), id(b)::bytea, octet_length(id('x   ')), concat('[', id('q'), ']') FROM c WHERE i = 1;
SELECT concat('[', five(), ']'), octet_length(five()), five()::bytea, octet_length(three('ab   ')), octet_length(three('q')), octet_length(as_text('ab  ')), as_text(b) || '|' FROM c WHERE i = 1;
SELECT concat('[', x, ']') FROM pick(3) x;
SELECT concat('[', q, ']'), concat('[', r, ']') FROM pair(3);
-- Tables of it, assignment.
CREATE TABLE made AS SELECT i, CASE WHEN i < 3 THEN a ELSE b END x, a, COALESCE(a, b) y FROM c;
SELECT i, octet_length(x), octet_length(a), octet_length(y) FROM made ORDER BY i;
UPDATE made SET a = x WHERE i < 3;
UPDATE made SET x = a, y = 'q   ' WHERE i = 1;
SELECT i, x::bytea, a::bytea, y::bytea FROM made ORDER BY i;
CREATE INDEX ON made(x);
CREATE UNIQUE INDEX ON made(y);
SELECT i FROM made WHERE x = 'ab' ORDER BY i;
SELECT i FROM made WHERE x = 'ab     ' ORDER BY i;
SELECT i FROM made WHERE x >= 'x' ORDER BY x, i;
INSERT INTO made VALUES (9, 'q', 'q', 'q');
INSERT INTO made VALUES (9, 'q', 'q', 'q  r');
INSERT INTO made(i, y) VALUES (10, 'q  r    ');
INSERT INTO c(i, a) VALUES (6, 'abcd');
INSERT INTO c(i, a) VALUES (6, 'abc   ');
INSERT INTO c(i, a) SELECT 7, p FROM c WHERE i = 2;
INSERT INTO c(i, b) SELECT 8, (a || '  ')::char(4) FROM c WHERE i = 6;
SELECT i, a::bytea, b::bytea FROM c WHERE i > 5 ORDER BY i;
-- Domains.
CREATE DOMAIN dc AS char(4) CHECK (octet_length(VALUE) = 4 AND VALUE <> 'bad');
SELECT concat('[', 'ab'::dc, ']'), octet_length('ab'::dc), octet_length(COALESCE('ab'::dc, 'q'::char(2))), 'ab'::dc::bytea;
SELECT 'bad'::dc;
-- Prepared statements.
PREPARE q(bpchar) AS SELECT concat('[', $1, ']'), octet_length($1), $1 = 'x', $1::text || '|';
EXECUTE q('x  ');
EXECUTE q('x');
