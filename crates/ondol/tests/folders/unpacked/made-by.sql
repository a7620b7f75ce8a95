CREATE DOMAIN fee AS numeric(6,2) DEFAULT 0.5;
CREATE TABLE account (id integer PRIMARY KEY, owner text, balance numeric(12,2) NOT NULL, rate numeric(18,6), fee fee, whole numeric(18), any_scale numeric);
CREATE INDEX account_balance ON account (balance, owner);
CREATE INDEX account_rate ON account USING hash (rate);
CREATE TABLE loose (price numeric(8,2), bonus numeric(5,1));
INSERT INTO account VALUES (1, 'one', 10.50, 0.000001, DEFAULT, 999999999999999999, 1.500), (2, 'two', 'NaN', 'NaN', NULL, NULL, 'Infinity'),
  (3, 'three', -9999999999.99, 999999999999.999999, 9999.99, -999999999999999999, NULL), (4, 'four', 0, NULL, 1, 0, 0.00);
INSERT INTO loose VALUES (1.5, 2), (0, NULL), ('NaN', 9999.9), (-3, -0.1);
CREATE FUNCTION pay(integer, numeric) RETURNS numeric LANGUAGE sql AS 'UPDATE account SET balance = balance + $2 WHERE id = $1 RETURNING balance';
CREATE FUNCTION rich(numeric) RETURNS SETOF account LANGUAGE sql STABLE AS 'SELECT * FROM account WHERE balance > $1 ORDER BY id';
CREATE FUNCTION open(integer, numeric) RETURNS void LANGUAGE sql AS 'INSERT INTO account (id, owner, balance, rate) VALUES ($1, $1::text, $2, $2 / 3)';
CHECKPOINT;
SELECT pay(1, 0.25);
SELECT open(5, 7.777);
DELETE FROM account WHERE id = 4;
