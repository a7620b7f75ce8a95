-- A row that a function changes between being read by the statement that calls it and being changed by that.
CREATE TABLE t (a integer PRIMARY KEY, d integer DEFAULT 7, c text, u text);
INSERT INTO t VALUES (1, 1, 'a', 'short'), (2, 2, 'two', repeat('B', 3000));
CREATE FUNCTION f(integer) RETURNS integer VOLATILE LANGUAGE sql AS
  'UPDATE t SET d = 100, c = ''fromf'', u = repeat(''f'', 2000) WHERE a = $1 RETURNING d';
INSERT INTO t VALUES (1, 1) ON CONFLICT (a) DO UPDATE SET d = f(1) + 7 RETURNING d;
UPDATE t SET d = f(1) + 9, u = 'upd' WHERE a = 1;
UPDATE t SET d = 5 WHERE f(a) = 100;
DELETE FROM t WHERE f(a) = 100;
SELECT a, d, c, length(u) FROM t ORDER BY a;
-- Another row than the one that is changed.
UPDATE t SET d = f(2) + 1 WHERE a = 1;
SELECT a, d, c, length(u) FROM t ORDER BY a;
-- The row is changed by the function before the statement comes to it.
UPDATE t SET d = d + f(3 - a);
SELECT a, d FROM t ORDER BY a;
-- Its key is changed, or the row deleted.
CREATE FUNCTION mv(integer) RETURNS integer VOLATILE LANGUAGE sql AS
  'UPDATE t SET a = a + 50 WHERE a = $1 RETURNING d';
CREATE FUNCTION del(integer) RETURNS integer VOLATILE LANGUAGE sql AS 'DELETE FROM t WHERE a = $1 RETURNING d';
INSERT INTO t VALUES (2, 1) ON CONFLICT (a) DO UPDATE SET a = t.a + 1000 + 0 * mv(2);
INSERT INTO t VALUES (2, 1) ON CONFLICT (a) DO UPDATE SET d = del(t.a) + 77, c = 'other';
INSERT INTO t VALUES (2, 1) ON CONFLICT (a) DO UPDATE SET d = 1 WHERE del(t.a) > 0;
UPDATE t SET d = del(a) + 77;
SELECT a, d, c FROM t ORDER BY a;
-- RETURNING is computed when the row has gone.
DELETE FROM t WHERE a = 2 RETURNING a, c, length(u), f(a), f(1);
SELECT a, d, c FROM t ORDER BY a;
-- Each row of a command is its own.
CREATE FUNCTION up(integer) RETURNS integer VOLATILE LANGUAGE sql AS
  'INSERT INTO t (a, d) VALUES ($1, 1) ON CONFLICT (a) DO UPDATE SET d = t.d + 1 RETURNING d';
INSERT INTO t (a, d) VALUES (700, 1), (600, 1);
INSERT INTO t (a, d) VALUES (601, 1), (600, 1), (600, 1) ON CONFLICT (a) DO UPDATE SET d = t.d + 0 * up(700);
SELECT a, d FROM t ORDER BY a;
-- What is not volatile changes nothing.
CREATE FUNCTION s(integer) RETURNS integer STABLE LANGUAGE sql AS
  'UPDATE t SET d = d + 1 WHERE a = $1 RETURNING d';
SELECT s(1);
INSERT INTO t VALUES (1, 1) ON CONFLICT (a) DO UPDATE SET d = s(1) + 1000;
CREATE FUNCTION l(integer) RETURNS integer STABLE LANGUAGE sql AS 'SELECT d FROM t WHERE a = $1 FOR UPDATE';
SELECT l(1);
SELECT a, d FROM t ORDER BY a;
