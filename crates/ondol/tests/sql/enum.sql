-- Enums: made, changed, dropped; ordered by their labels; wherever values go.
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE mood AS ENUM ('a');
CREATE TYPE empty AS ENUM ();
CREATE TYPE twice AS ENUM ('a', 'b', 'a');
CREATE TYPE long AS ENUM ('1234567890123456789012345678901234567890123456789012345678901234');
CREATE TYPE public."My Kind" AS ENUM ('x y', 'it''s', '', 'a,b');
-- Values.
SELECT 'sad'::mood, 'happy'::text::mood, CAST('ok' AS mood), mood 'sad', mood('ok');
SELECT 'glad'::mood;
SELECT 'SAD'::mood;
SELECT ' sad'::mood;
SELECT 1::mood;
SELECT 'ok'::mood::integer;
SELECT 'ok'::mood::"My Kind";
SELECT 'sad'::mood::text || '!', length('happy'::mood::text), 'ok'::mood::varchar(1);
SELECT 'sad'::mood(3);
SELECT 'sad'::nosuch;
SELECT 'it''s'::"My Kind", ''::"My Kind", '{"x y",it''s,"","a,b"}'::"My Kind"[];
SELECT NULL::mood IS NULL, 'ok'::mood IS NOT NULL;
-- Order.
SELECT 'sad'::mood < 'ok', 'happy' > 'ok'::mood, 'sad'::mood = 'sad', 'ok' <> 'ok'::mood, 'ok'::mood <= 'ok', 'sad'::mood >= 'ok';
SELECT 'sad'::mood < 'glad';
SELECT 'sad'::mood = 'sad'::text;
SELECT 'x y'::"My Kind" = 'sad'::mood;
SELECT 'sad'::mood = ANY ('{ok,sad}'), 'sad'::mood IN ('ok', 'happy'), 'sad'::mood BETWEEN 'sad' AND 'ok', 'ok' = ALL (ARRAY['ok']::mood[]);
SELECT greatest('sad'::mood, 'happy', 'ok'), least('happy', 'ok'::mood), nullif('ok'::mood, 'ok'), coalesce(NULL, 'ok'::mood);
SELECT CASE WHEN true THEN 'ok'::mood ELSE 'sad' END, CASE 'ok'::mood WHEN 'sad' THEN 1 WHEN 'ok' THEN 2 END;
SELECT CASE WHEN true THEN 'ok'::mood ELSE 'x y'::"My Kind" END;
SELECT 'ok'::mood UNION ALL SELECT 'sad' ORDER BY 1;
-- Functions.
SELECT enum_first(NULL::mood), enum_last('sad'::mood), enum_range(NULL::mood), enum_range('ok'::mood, NULL), enum_range(NULL, 'ok'::mood), enum_range('happy'::mood, 'sad');
SELECT enum_range(NULL::mood, NULL);
SELECT enum_first(NULL);
SELECT enum_first(1);
SELECT enum_range('ok'::mood, 'x y'::"My Kind");
-- Tables.
CREATE TABLE person (name text PRIMARY KEY, current mood NOT NULL DEFAULT 'ok', before mood, all_of mood[]);
INSERT INTO person VALUES ('Moe', 'happy', 'sad', '{happy,sad,NULL}'), ('Larry', 'sad', NULL, ARRAY['ok', 'sad']::mood[]);
INSERT INTO person (name) VALUES ('Curly');
INSERT INTO person VALUES ('Shemp', 'glad');
INSERT INTO person VALUES ('Shemp', 'sad'::text);
INSERT INTO person SELECT n, m::mood FROM (VALUES ('Joe', 'sad'), ('Curly Joe', 'happy')) v (n, m);
SELECT * FROM person ORDER BY current, name;
SELECT * FROM person ORDER BY before DESC NULLS LAST, name DESC;
SELECT name FROM person WHERE current > 'sad' ORDER BY name;
SELECT current, count(*) FROM person GROUP BY current ORDER BY current DESC;
SELECT min(current), max(current), count(DISTINCT current), array_agg(current ORDER BY name) FROM person;
SELECT min(current), max(current), count(DISTINCT current) FROM person;
SELECT min(all_of), max(all_of) FROM person;
SELECT DISTINCT current FROM person ORDER BY 1;
SELECT a.name, b.name FROM person a JOIN person b ON a.current = b.before ORDER BY 1;
SELECT name, all_of[1], 'sad' = ANY (all_of) AS low, array_length(all_of, 1), all_of || 'ok' FROM person WHERE all_of IS NOT NULL ORDER BY 1;
SELECT u FROM person, unnest(all_of) u ORDER BY u, name;
UPDATE person SET before = current, current = 'sad' WHERE current = 'happy';
UPDATE person SET all_of[2] = 'happy' WHERE name = 'Larry';
DELETE FROM person WHERE current = 'ok' RETURNING *;
SELECT * FROM person ORDER BY before, name;
-- Keys.
CREATE UNIQUE INDEX by_before ON person (before);
CREATE INDEX by_current ON person (current DESC, name);
CREATE INDEX by_all ON person (all_of);
CREATE INDEX by_hash ON person USING hash (current);
CREATE TABLE color_of (m mood PRIMARY KEY, color text);
INSERT INTO color_of VALUES ('happy', 'yellow'), ('sad', 'blue');
INSERT INTO color_of VALUES ('sad', 'grey');
SELECT * FROM color_of WHERE m >= 'sad' ORDER BY m;
-- Changed.
ALTER TYPE mood ADD VALUE 'glad' BEFORE 'happy';
ALTER TYPE mood ADD VALUE 'glad';
ALTER TYPE mood ADD VALUE IF NOT EXISTS 'glad';
ALTER TYPE mood ADD VALUE 'worst' BEFORE 'sad';
ALTER TYPE mood ADD VALUE 'best';
ALTER TYPE mood ADD VALUE 'fair' AFTER 'sad';
ALTER TYPE mood ADD VALUE 'x' AFTER 'nosuch';
ALTER TYPE nosuch ADD VALUE 'x';
ALTER TYPE integer ADD VALUE 'x';
ALTER TYPE mood ADD VALUE '1234567890123456789012345678901234567890123456789012345678901234';
SELECT enum_range(NULL::mood);
INSERT INTO color_of VALUES ('glad', 'green'), ('best', 'white'), ('fair', 'brown'), ('worst', 'black');
SELECT * FROM color_of ORDER BY m;
SELECT * FROM color_of WHERE m > 'sad' AND m < 'happy' ORDER BY m DESC;
SELECT * FROM color_of WHERE m = 'glad';
ALTER TYPE mood RENAME VALUE 'glad' TO 'pleased';
ALTER TYPE mood RENAME VALUE 'glad' TO 'pleased';
ALTER TYPE mood RENAME VALUE 'ok' TO 'sad';
SELECT * FROM color_of ORDER BY m;
SELECT 'glad'::mood;
ALTER TYPE mood RENAME TO feeling;
SELECT 'pleased'::feeling, 'pleased'::mood;
SELECT m::feeling FROM color_of ORDER BY 1 LIMIT 1;
ALTER TYPE feeling RENAME TO "My Kind";
ALTER TYPE feeling RENAME TO person;
ALTER TYPE feeling RENAME TO mood;
CREATE TABLE mood (a integer);
CREATE TYPE person AS ENUM ('a');
-- Nested insertions keep their order.
CREATE TYPE step AS ENUM ('first', 'last');
ALTER TYPE step ADD VALUE 's1' BEFORE 'last';
ALTER TYPE step ADD VALUE 's2' BEFORE 'last';
ALTER TYPE step ADD VALUE 's3' AFTER 's1';
ALTER TYPE step ADD VALUE 's0' AFTER 'first';
SELECT enum_range(NULL::step);
-- Transactions.
BEGIN;
CREATE TYPE brief AS ENUM ('a', 'b');
CREATE TABLE briefly (b brief);
INSERT INTO briefly VALUES ('b'), ('a');
SELECT * FROM briefly ORDER BY b;
ALTER TYPE brief RENAME VALUE 'a' TO 'z';
SELECT * FROM briefly ORDER BY b;
ROLLBACK;
SELECT 'a'::brief;
BEGIN;
ALTER TYPE mood RENAME VALUE 'best' TO 'finest';
SELECT max(m) FROM color_of;
ROLLBACK;
SELECT max(m) FROM color_of;
-- Statements prepared before a change.
PREPARE of_mood (mood) AS SELECT color FROM color_of WHERE m = $1;
PREPARE any_mood AS SELECT color FROM color_of WHERE m = $1;
EXECUTE of_mood ('sad');
EXECUTE any_mood ('sad');
ALTER TYPE mood ADD VALUE 'even better';
INSERT INTO color_of VALUES ('even better', 'gold');
EXECUTE of_mood ('even better');
EXECUTE any_mood ('even better');
EXECUTE any_mood ('nosuch');
-- Functions.
CREATE FUNCTION color_for(mood) RETURNS text LANGUAGE sql AS 'SELECT color FROM color_of WHERE m = $1';
CREATE FUNCTION next_mood(m mood) RETURNS mood LANGUAGE sql AS 'SELECT min(c.m) FROM color_of c WHERE c.m > next_mood.m';
CREATE FUNCTION moods() RETURNS SETOF mood LANGUAGE sql AS 'SELECT m FROM color_of ORDER BY m';
SELECT color_for('glad');
SELECT color_for('pleased'), next_mood('pleased'), next_mood(NULL);
SELECT * FROM moods() m WHERE m < 'ok';
ALTER TYPE mood RENAME VALUE 'pleased' TO 'glad';
SELECT color_for('glad'), next_mood('fair');
-- COPY.
COPY color_of TO STDOUT;
COPY color_of (m, color) FROM STDIN;
ok	none
\.
COPY color_of (m, color) FROM STDIN;
okay	none
\.
COPY (SELECT m, all_of FROM color_of, person WHERE m = 'ok' ORDER BY name) TO STDOUT (FORMAT csv);
-- Dropped.
DROP TYPE mood;
DROP TYPE nosuch;
DROP TYPE IF EXISTS nosuch;
DROP TYPE integer;
DROP TYPE step, "My Kind";
SELECT 'first'::step;
DROP FUNCTION color_for, next_mood, moods;
DROP TABLE color_of;
DROP TYPE mood;
DROP TABLE person;
DROP TYPE mood;
DROP TYPE mood;
