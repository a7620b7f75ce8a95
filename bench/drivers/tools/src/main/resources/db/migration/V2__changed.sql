ALTER TABLE flown ADD COLUMN at timestamptz NOT NULL DEFAULT now();
CREATE VIEW dear AS SELECT name, price FROM flown WHERE price > 1;
