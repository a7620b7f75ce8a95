CREATE TABLE t (id integer PRIMARY KEY, a text, b varchar(20), c char(5));
CREATE INDEX t_a ON t (a);
CREATE INDEX t_b ON t (id, b DESC);
CREATE INDEX t_c ON t (c);
CREATE INDEX t_lower ON t (lower(a));

-- What a text begins with is a range of an index.
SELECT id FROM t WHERE a LIKE 'abc%';
SELECT id FROM t WHERE a LIKE 'a\_c_d%';
SELECT id FROM t WHERE a LIKE 'abc';
SELECT id FROM t WHERE a ~ '^abc';
SELECT id FROM t WHERE a ~ '^abc$';
SELECT id FROM t WHERE a ~ '^ab*c';
SELECT id FROM t WHERE a ^@ 'abc';
SELECT id FROM t WHERE id = 1 AND b LIKE 'x%';
SELECT id FROM t WHERE lower(a) LIKE 'abc%';
SELECT id FROM t WHERE a LIKE 'ab%' AND a > 'abc';
SELECT id FROM t WHERE a LIKE 'b%' ORDER BY a DESC LIMIT 3;
-- Not of these.
SELECT id FROM t WHERE a LIKE '%c';
SELECT id FROM t WHERE a LIKE b;
SELECT id FROM t WHERE a NOT LIKE 'abc%';
SELECT id FROM t WHERE a ILIKE 'abc%';
SELECT id FROM t WHERE a ~ 'abc';
SELECT id FROM t WHERE a ~ '^(abc|d)';
SELECT id FROM t WHERE c LIKE 'abc%';
