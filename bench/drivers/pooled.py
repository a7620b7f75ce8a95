"""psycopg 3 through a pooler in transaction mode. Prints a line for each exercise."""

import sys
import time

import psycopg
from psycopg import errors

SETTINGS = {"host": "127.0.0.1", "port": int(sys.argv[1]), "user": "postgres", "dbname": "postgres"}


def connect(**more):
    for _ in range(100):
        try:
            # Prepared statements would need pgbouncer 1.21.
            return psycopg.connect(**SETTINGS, prepare_threshold=None, **more)
        except psycopg.OperationalError:
            time.sleep(0.1)
    raise AssertionError("the pooler did not start")


def transactions():
    with connect() as a, connect() as b:
        a.execute("CREATE TABLE pooled (a integer PRIMARY KEY)")
        a.commit()
        for i in range(100):
            a.execute("INSERT INTO pooled VALUES (%s)", (2 * i,))
            b.execute("INSERT INTO pooled VALUES (%s)", (2 * i + 1,))
            a.commit()
            b.rollback()
        assert b.execute("SELECT count(*) FROM pooled").fetchone() == (100,)
        try:
            b.execute("INSERT INTO pooled VALUES (0)")
            raise AssertionError("no error")
        except errors.UniqueViolation as e:
            assert e.diag.constraint_name == "pooled_pkey"
        b.rollback()


def many_clients():
    clients = [connect(autocommit=True) for _ in range(20)]
    for n in range(20):
        for c in clients:
            assert c.execute("SELECT %s::integer + 1", (n,)).fetchone() == (n + 1,)
    for c in clients:
        c.close()


def copying():
    with connect() as c:
        with c.cursor().copy("COPY pooled FROM STDIN") as copy:
            for i in range(1000, 2000):
                copy.write_row((i,))
        assert c.execute("SELECT count(*) FROM pooled").fetchone() == (1100,)


def lost_connections():
    for _ in range(50):
        c = connect()
        c.execute("INSERT INTO pooled VALUES (-1)")
        c.pgconn.finish()
    with connect() as c:
        assert c.execute("SELECT count(*) FROM pooled WHERE a < 0").fetchone() == (0,)
        c.execute("DROP TABLE pooled")


for f in [transactions, many_clients, copying, lost_connections]:
    try:
        f()
        print("ok", f.__name__)
    except Exception as e:
        print(f"FAIL {f.__name__}: {type(e).__name__}: {str(e).splitlines()[:1]}")
