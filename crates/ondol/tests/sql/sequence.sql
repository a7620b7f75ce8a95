-- made, and their options
CREATE SEQUENCE s;
SELECT * FROM s;
SELECT nextval('s'), nextval('s');
SELECT * FROM s;
SELECT currval('s'), lastval();
SELECT setval('s', 10), nextval('s');
SELECT setval('s', 20, false), nextval('s');
CREATE SEQUENCE s;
CREATE SEQUENCE IF NOT EXISTS s;
CREATE TABLE s (a int);
CREATE SEQUENCE bad INCREMENT BY 0;
CREATE SEQUENCE bad INCREMENT BY -1 MINVALUE 20;
CREATE SEQUENCE bad INCREMENT BY 1 MAXVALUE -20;
CREATE SEQUENCE bad INCREMENT BY -1 START 10;
CREATE SEQUENCE bad INCREMENT BY 1 START -10;
CREATE SEQUENCE bad CACHE 0;
CREATE SEQUENCE bad AS boolean;
CREATE SEQUENCE bad AS smallint MAXVALUE 100000;
CREATE SEQUENCE bad AS smallint MINVALUE -100000;
CREATE SEQUENCE bad MINVALUE 1 MINVALUE 2;
CREATE SEQUENCE bad OWNED BY nothing;
CREATE SEQUENCE bad OWNED BY nowhere.a;
CREATE SEQUENCE bad MAXVALUE 100000000000000000000;
-- down, around, in steps
CREATE SEQUENCE down INCREMENT BY -3 MAXVALUE 5 MINVALUE -5;
SELECT nextval('down'), nextval('down'), nextval('down'), nextval('down');
SELECT nextval('down');
SELECT nextval('down');
CREATE SEQUENCE around AS smallint MAXVALUE 3 CYCLE CACHE 2;
SELECT nextval('around') FROM generate_series(1, 8);
SELECT * FROM around;
CREATE SEQUENCE small AS smallint START 32766;
SELECT nextval('small'), nextval('small');
SELECT nextval('small');
-- names
CREATE SEQUENCE "Odd Name";
SELECT nextval('"Odd Name"'), nextval('public."Odd Name"');
SELECT nextval('Odd Name');
SELECT nextval('nowhere');
SELECT nextval('nowhere.s');
SELECT nextval('');
SELECT nextval(NULL);
CREATE TABLE t (id int DEFAULT nextval('s'), b text);
SELECT nextval('t');
INSERT INTO s VALUES (1);
SELECT last_value FROM s FOR UPDATE;
-- values
SELECT setval('down', 6);
SELECT setval('down', -6);
SELECT currval('small');
SELECT currval('t');
DISCARD SEQUENCES;
SELECT currval('s');
SELECT lastval();
-- changed
ALTER SEQUENCE s INCREMENT BY 5 START WITH 100 MAXVALUE 1000;
SELECT nextval('s');
ALTER SEQUENCE s RESTART;
SELECT nextval('s'), nextval('s');
ALTER SEQUENCE s RESTART WITH 7;
SELECT nextval('s');
ALTER SEQUENCE s RESTART WITH 2000;
ALTER SEQUENCE s MAXVALUE 6;
ALTER SEQUENCE s AS smallint;
ALTER SEQUENCE s NO MAXVALUE;
\d s
ALTER SEQUENCE IF EXISTS nowhere RESTART;
ALTER SEQUENCE nowhere RESTART;
ALTER SEQUENCE t RESTART;
ALTER SEQUENCE s RENAME TO r;
INSERT INTO t (b) VALUES ('a') RETURNING id;
\d t
ALTER TABLE r RENAME TO s;
ALTER SEQUENCE s RENAME TO t;
-- in transactions: values stay given, definitions do not
BEGIN;
SELECT nextval('s');
ROLLBACK;
SELECT nextval('s');
BEGIN;
ALTER SEQUENCE s RESTART WITH 500;
SELECT nextval('s');
SAVEPOINT a;
ALTER SEQUENCE s RESTART WITH 600;
SELECT nextval('s');
ROLLBACK TO a;
SELECT nextval('s');
ROLLBACK;
SELECT nextval('s');
BEGIN;
CREATE SEQUENCE gone;
SELECT nextval('gone');
ROLLBACK;
SELECT nextval('gone');
SELECT lastval();
BEGIN READ ONLY;
SELECT nextval('s');
ROLLBACK;
BEGIN READ ONLY;
SELECT setval('s', 1);
ROLLBACK;
-- owned
ALTER SEQUENCE s OWNED BY t.id;
\d s
SELECT pg_get_serial_sequence('t', 'id'), pg_get_serial_sequence('t', 'b');
SELECT pg_get_serial_sequence('t', 'c');
SELECT pg_get_serial_sequence('nowhere', 'c');
ALTER SEQUENCE s OWNED BY NONE;
\ds
DROP SEQUENCE s;
DROP SEQUENCE t;
DROP TABLE s;
DROP SEQUENCE nowhere;
DROP SEQUENCE IF EXISTS nowhere;
DROP SEQUENCE s CASCADE;
INSERT INTO t (b) VALUES ('b') RETURNING id;
DROP SEQUENCE down, around, small, "Odd Name";
\ds
-- values are taken in the order of the rows, for those that a limit leaves
create sequence in_order;
select g, nextval('in_order') from generate_series(1, 5) g order by g desc limit 2;
select g % 2, count(*), nextval('in_order') from generate_series(1, 5) g group by g % 2 order by 1 desc;
select nextval('in_order') as n, g from generate_series(1, 3) g order by n desc;
select currval('in_order');
drop sequence in_order;

CREATE SEQUENCE looked_at START 5;
SELECT pg_sequence_last_value('looked_at');
SELECT nextval('looked_at');
SELECT pg_sequence_last_value('looked_at'::regclass), pg_sequence_last_value(NULL);
SELECT sequencename, pg_sequence_last_value(sequencename::text::regclass) FROM pg_sequences WHERE sequencename = 'looked_at';
DROP SEQUENCE looked_at;
