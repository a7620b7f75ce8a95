CREATE TABLE t (id integer PRIMARY KEY, a integer[], b text[], c integer);
CREATE INDEX t_a ON t (a, c);
CREATE INDEX t_b ON t USING hash (b);

-- Arrays as keys.
SELECT id FROM t WHERE a = '{1,2}';
SELECT id FROM t WHERE a >= '{1}' AND a < '{2}';
SELECT id FROM t WHERE b IN ('{x}', '{y,z}');
SELECT id FROM t ORDER BY a, c LIMIT 3;
SELECT x.id FROM t x JOIN t y ON x.b = y.b AND x.id < y.id;
-- ANY and ALL: of known items it is IN.
SELECT c FROM t WHERE id = ANY ('{1,2,3}');
SELECT c FROM t WHERE id = ANY (ARRAY[1, c]);
SELECT c FROM t WHERE id <> ALL (ARRAY[1, 2]);
SELECT c FROM t WHERE c > ALL (a) AND b[1] = 'x';
-- Rows and arrays.
SELECT x FROM unnest(ARRAY[1, 2]) AS x WHERE x > 1;
SELECT id, x FROM t, unnest(a) AS x WHERE id = 5;
SELECT id, x, n FROM t LEFT JOIN unnest(b) WITH ORDINALITY AS u(x, n) ON n = id;
SELECT ARRAY(SELECT c FROM t WHERE id < 5 ORDER BY c);
UPDATE t SET a[1] = c, a[2:3] = '{1,2}' WHERE id = 1;
-- Of an array that is a parameter, another table's, or computed, each item is looked up once.
SELECT c FROM t WHERE id = ANY (string_to_array(current_setting('search_path'), ',')::integer[]);
SELECT x.c FROM t y JOIN t x ON x.id = ANY (y.a) WHERE y.id = 5;
