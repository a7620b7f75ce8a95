CREATE TABLE small (a integer PRIMARY KEY, b integer);
CREATE TABLE large (a integer PRIMARY KEY, b integer);
CREATE INDEX ON large (b);
-- each way as it is taken
SELECT * FROM large WHERE a = 1;
SELECT * FROM large WHERE b > 1 ORDER BY b;
SELECT * FROM small JOIN large ON small.b = large.b + 1;
SET enable_indexscan = off;
SELECT * FROM large WHERE a = 1;
SELECT * FROM large WHERE b > 1 ORDER BY b;
SET enable_seqscan = off;
-- none is left that is on: as usual
SELECT * FROM large WHERE a = 1;
SET enable_indexscan = on;
SELECT * FROM large;
SELECT count(*) FROM large WHERE b < 1000000 AND b > 0;
SET enable_seqscan = on;
SET enable_hashjoin = off;
SELECT * FROM small JOIN large ON small.b = large.b + 1;
SELECT * FROM small LEFT JOIN large ON small.b = large.b + 1;
SELECT * FROM small WHERE NOT EXISTS (SELECT FROM large WHERE large.b + 1 = small.b);
SET enable_nestloop = off;
SELECT * FROM small JOIN large ON small.b = large.b + 1;
SET enable_hashjoin = on;
SELECT * FROM small JOIN large ON small.b = large.a WHERE small.a = 1;
SET enable_nestloop = on;
SELECT * FROM small JOIN large ON small.b = large.a WHERE small.a = 1;
SET enable_sort = off;
SELECT * FROM large ORDER BY b;
