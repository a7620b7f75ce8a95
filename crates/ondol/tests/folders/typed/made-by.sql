CREATE DOMAIN price AS numeric(8,2) DEFAULT 1 CHECK (VALUE >= 0);
CREATE TYPE kind AS ENUM ('low', 'high');
CREATE TABLE wares (id integer PRIMARY KEY, kind kind NOT NULL, price price, discount numeric(4,3), kinds kind[], code character(5));
CREATE INDEX wares_price ON wares (price DESC, kind);
CREATE UNIQUE INDEX wares_discount ON wares USING hash (discount);
INSERT INTO wares VALUES (1, 'low', 12.25, 0.125, '{low,high}', 'ab'), (2, 'high', DEFAULT, NULL, NULL, NULL),
  (3, 'high', 999999.99, -0.5, '{}', 'abcde'), (4, 'low', 0, 'NaN', NULL, '');
CREATE FUNCTION below(price) RETURNS SETOF wares LANGUAGE sql STABLE AS 'SELECT * FROM wares WHERE price < $1 ORDER BY id';
CREATE FUNCTION reprice(integer, numeric) RETURNS void LANGUAGE sql AS 'UPDATE wares SET price = $2, discount = discount * 2 WHERE id = $1';
CREATE FUNCTION code_or(integer, text) RETURNS text LANGUAGE sql STABLE AS 'SELECT ''['' || COALESCE(code::bpchar, $2::bpchar)::text || '']'' FROM wares WHERE id = $1';
CREATE FUNCTION width(integer) RETURNS integer LANGUAGE sql STABLE AS 'SELECT octet_length(CASE WHEN id > 0 THEN code ELSE ''abcdefgh''::character(8) END) FROM wares WHERE id = $1';
CHECKPOINT;
SELECT reprice(1, 13);
UPDATE wares SET discount = 0.001 WHERE id = 2;
DELETE FROM wares WHERE id = 4;
