CREATE TABLE t (a integer, b text, c numeric(6,2) DEFAULT 9.99);
COPY t FROM stdin;
1	one	1.5
2	\N	\N
3	tab\there\\ and\nnewline	-3
\.
SELECT * FROM t ORDER BY a;
COPY t TO stdout;
COPY t (b, a) TO stdout (FORMAT csv, HEADER);
COPY (SELECT a, b FROM t WHERE a < 3 ORDER BY a DESC) TO stdout (FORMAT csv, NULL 'nil', DELIMITER ';', FORCE_QUOTE *);
TRUNCATE t;
COPY t (a, b) FROM stdin (FORMAT csv, HEADER);
a,b
1,"quoted, with ""quotes"""
2,
3,""
4,"two
lines"
\.
SELECT a, b, b IS NULL AS none, c FROM t ORDER BY a;
COPY t (a) FROM stdin;
5
x
\.
SELECT count(*) FROM t;
COPY t FROM stdin;
1	too few
\.
COPY t (a) FROM stdin;
1	too many
\.
COPY nothing FROM stdin;
COPY t (nothing) TO stdout;
COPY t TO stdout (FORMAT binary, HEADER);
BEGIN;
DELETE FROM t;
COPY t (a) FROM stdin;
100
200
\.
SELECT a, c FROM t ORDER BY a;
ROLLBACK;
SELECT count(*) FROM t;
DROP TABLE t;
CREATE TABLE marked (a text);
COPY marked FROM STDIN;
one
two\.
lost
\.
COPY marked FROM STDIN;
one
two
\.
COPY marked FROM STDIN;
three
x\.y
\.
COPY marked FROM STDIN;
\.x
\.
COPY marked FROM STDIN;
a\\.b
\.
COPY marked FROM STDIN (FORMAT csv);
c\.d
\.e
\.
SELECT * FROM marked;
