-- SEARCH and CYCLE; the results are PostgreSQL 15's.
CREATE TABLE graph0 (f int, t int, label text);
INSERT INTO graph0 VALUES (1, 2, 'arc 1 -> 2'), (1, 3, 'arc 1 -> 3'), (2, 3, 'arc 2 -> 3'), (1, 4, 'arc 1 -> 4'), (4, 5, 'arc 4 -> 5');
WITH RECURSIVE search_graph(f, t, label) AS (SELECT * FROM graph0 g UNION ALL SELECT g.* FROM graph0 g, search_graph sg WHERE g.f = sg.t)
  SEARCH DEPTH FIRST BY f, t SET seq SELECT * FROM search_graph ORDER BY seq;
WITH RECURSIVE search_graph(f, t, label) AS (SELECT * FROM graph0 g UNION SELECT g.* FROM graph0 g, search_graph sg WHERE g.f = sg.t)
  SEARCH DEPTH FIRST BY f, t SET seq SELECT * FROM search_graph ORDER BY seq;
WITH RECURSIVE search_graph(f, t, label) AS (SELECT * FROM graph0 g UNION ALL SELECT g.* FROM graph0 g, search_graph sg WHERE g.f = sg.t)
  SEARCH BREADTH FIRST BY f, t SET seq SELECT * FROM search_graph ORDER BY seq;
WITH RECURSIVE search_graph(f, t, label) AS (SELECT * FROM graph0 g UNION SELECT g.* FROM graph0 g, search_graph sg WHERE g.f = sg.t)
  SEARCH BREADTH FIRST BY f, t SET seq SELECT * FROM search_graph ORDER BY seq;
-- By hand and by name, within and without.
WITH RECURSIVE test AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM test) SEARCH DEPTH FIRST BY x SET y SELECT * FROM test LIMIT 5;
WITH RECURSIVE test AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM test) SEARCH BREADTH FIRST BY x SET y SELECT * FROM test LIMIT 5;
CREATE TABLE graph (f int, t int, label text);
INSERT INTO graph VALUES (1, 2, 'arc 1 -> 2'), (1, 3, 'arc 1 -> 3'), (2, 3, 'arc 2 -> 3'), (1, 4, 'arc 1 -> 4'), (4, 5, 'arc 4 -> 5'), (5, 1, 'arc 5 -> 1');
WITH RECURSIVE search_graph(f, t, label, is_cycle, path) AS (SELECT *, false, ARRAY[ROW(g.f, g.t)] FROM graph g UNION ALL
  SELECT g.*, ROW(g.f, g.t) = ANY (path), path || ROW(g.f, g.t) FROM graph g, search_graph sg WHERE g.f = sg.t AND NOT is_cycle)
  SELECT * FROM search_graph ORDER BY path;
WITH RECURSIVE search_graph(f, t, label) AS (SELECT * FROM graph g UNION ALL SELECT g.* FROM graph g, search_graph sg WHERE g.f = sg.t)
  CYCLE f, t SET is_cycle USING path SELECT * FROM search_graph ORDER BY path;
WITH RECURSIVE search_graph(f, t, label) AS (SELECT * FROM graph g UNION SELECT g.* FROM graph g, search_graph sg WHERE g.f = sg.t)
  CYCLE f, t SET is_cycle TO 'Y' DEFAULT 'N' USING path SELECT * FROM search_graph ORDER BY path;
WITH RECURSIVE search_graph(f, t, label) AS (SELECT * FROM graph g UNION ALL SELECT g.* FROM graph g, search_graph sg WHERE g.f = sg.t)
  CYCLE f, t SET is_cycle TO 1 DEFAULT 0 USING path SELECT is_cycle, count(*), pg_typeof(is_cycle) FROM search_graph GROUP BY 1 ORDER BY 1;
WITH RECURSIVE test AS (SELECT 0 AS x UNION ALL SELECT (x + 1) % 10 FROM test) CYCLE x SET is_cycle USING path SELECT * FROM test;
WITH RECURSIVE test AS (SELECT 0 AS x UNION ALL SELECT (x + 1) % 10 FROM test WHERE NOT is_cycle) CYCLE x SET is_cycle USING path SELECT * FROM test;
-- Both.
WITH RECURSIVE search_graph(f, t, label) AS (SELECT * FROM graph g UNION ALL SELECT g.* FROM graph g, search_graph sg WHERE g.f = sg.t)
  SEARCH DEPTH FIRST BY f, t SET seq CYCLE f, t SET is_cycle TO true DEFAULT false USING path SELECT * FROM search_graph ORDER BY seq;
WITH RECURSIVE search_graph(f, t, label) AS (SELECT * FROM graph g UNION ALL SELECT g.* FROM graph g, search_graph sg WHERE g.f = sg.t)
  SEARCH BREADTH FIRST BY f, t SET seq CYCLE f, t SET is_cycle TO true DEFAULT false USING path SELECT * FROM search_graph ORDER BY seq;
-- Several readers, and one within a subquery.
WITH RECURSIVE a AS (SELECT 1 AS b UNION ALL SELECT b FROM a) CYCLE b SET c USING p SELECT a.b, a2.c FROM a, a a2 ORDER BY 1, 2;
WITH RECURSIVE a AS (SELECT 1 AS b UNION ALL SELECT * FROM a) CYCLE b SET c USING p SELECT * FROM a;
WITH RECURSIVE a AS (SELECT 1 AS b UNION ALL SELECT b FROM a) CYCLE b SET c USING p SELECT (SELECT max(b) FROM a WHERE c) AS b;
-- Views.
CREATE VIEW v_search AS WITH RECURSIVE search_graph(f, t, label) AS (SELECT * FROM graph0 g UNION ALL SELECT g.* FROM graph0 g, search_graph sg WHERE g.f = sg.t)
  SEARCH DEPTH FIRST BY f, t SET seq SELECT f, t, label FROM search_graph ORDER BY seq;
SELECT pg_get_viewdef('v_search');
SELECT * FROM v_search;
CREATE VIEW v_cycle1 AS WITH RECURSIVE search_graph(f, t, label) AS (SELECT * FROM graph g UNION ALL SELECT g.* FROM graph g, search_graph sg WHERE g.f = sg.t)
  CYCLE f, t SET is_cycle USING path SELECT f, t, label FROM search_graph;
SELECT pg_get_viewdef('v_cycle1');
SELECT * FROM v_cycle1 ORDER BY 1, 2, 3;
CREATE VIEW v_cycle2 AS WITH RECURSIVE search_graph(f, t, label) AS (SELECT * FROM graph g UNION SELECT g.* FROM graph g, search_graph sg WHERE g.f = sg.t)
  SEARCH BREADTH FIRST BY f, t SET seq CYCLE f, t SET is_cycle TO 'Y' DEFAULT 'N' USING path SELECT f, t, label, is_cycle FROM search_graph ORDER BY seq;
SELECT pg_get_viewdef('v_cycle2');
SELECT * FROM v_cycle2;
-- What may not be.
WITH RECURSIVE test AS (SELECT 1 AS x) SEARCH DEPTH FIRST BY x SET y SELECT * FROM test;
WITH test AS (SELECT 1 AS x) CYCLE x SET y USING z SELECT * FROM test;
WITH RECURSIVE test AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM test) SEARCH DEPTH FIRST BY z SET y SELECT * FROM test;
WITH RECURSIVE test AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM test) SEARCH DEPTH FIRST BY x, x SET y SELECT * FROM test;
WITH RECURSIVE test AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM test) SEARCH DEPTH FIRST BY x SET x SELECT * FROM test;
WITH RECURSIVE test AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM test) CYCLE z SET y USING p SELECT * FROM test;
WITH RECURSIVE test AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM test) CYCLE x, x SET y USING p SELECT * FROM test;
WITH RECURSIVE test AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM test) CYCLE x SET x USING p SELECT * FROM test;
WITH RECURSIVE test AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM test) CYCLE x SET y USING x SELECT * FROM test;
WITH RECURSIVE test AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM test) CYCLE x SET y USING y SELECT * FROM test;
WITH RECURSIVE test AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM test) CYCLE x SET y TO true DEFAULT 55 USING p SELECT * FROM test;
WITH RECURSIVE test AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM test) SEARCH DEPTH FIRST BY x SET s CYCLE x SET s USING p SELECT * FROM test;
WITH RECURSIVE test AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM test) SEARCH DEPTH FIRST BY x SET s CYCLE x SET y USING s SELECT * FROM test;
WITH RECURSIVE test AS (SELECT 1 AS x UNION ALL SELECT x FROM test UNION ALL SELECT 3) SEARCH DEPTH FIRST BY x SET y SELECT * FROM test;
WITH RECURSIVE test AS ((SELECT 1 AS x UNION ALL SELECT 2) UNION ALL SELECT x + 1 FROM test) SEARCH DEPTH FIRST BY x SET y SELECT * FROM test;
WITH RECURSIVE test AS (SELECT 1 AS x UNION ALL (SELECT x + 1 FROM test UNION SELECT 2)) SEARCH DEPTH FIRST BY x SET y SELECT * FROM test;
WITH RECURSIVE test AS (SELECT 1 AS x UNION ALL SELECT * FROM (SELECT x + 1 FROM test) s) SEARCH DEPTH FIRST BY x SET y SELECT * FROM test;
