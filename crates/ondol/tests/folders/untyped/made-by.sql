CREATE TABLE kinds (id integer PRIMARY KEY, label character varying(20) NOT NULL DEFAULT 'none' UNIQUE,
  fixed character(5), price numeric(8,2), seen timestamp(3) with time zone, tags text[], code uuid, span interval, ratio real);
CREATE INDEX ON kinds (price DESC, seen);
CREATE INDEX kinds_hash ON kinds USING hash (fixed);
CREATE TABLE empty (a bigint, b boolean);
INSERT INTO kinds VALUES (1, 'one', 'a', 1.50, '2024-02-29 12:00:00.123+00', '{x,NULL,"a b"}', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '1 mon 2 days', 1.5),
  (2, 'two', NULL, -3, NULL, '{}', NULL, NULL, NULL), (3, DEFAULT, 'long', NULL, 'infinity', NULL, NULL, '-1 us', 'NaN');
UPDATE kinds SET price = 99.99 WHERE id = 2;
DELETE FROM kinds WHERE id = 3;
INSERT INTO kinds (id, label) VALUES (4, repeat('y', 20));
CREATE FUNCTION dear(floor_price numeric) RETURNS SETOF kinds LANGUAGE sql STABLE AS 'SELECT * FROM kinds WHERE price >= floor_price';
CREATE FUNCTION put(integer, text[]) RETURNS void LANGUAGE sql AS 'INSERT INTO kinds (id, tags, label) VALUES ($1, $2, $1::text)';
CHECKPOINT;
SELECT put(5, '{p,q}');
DELETE FROM kinds WHERE id = 4;
