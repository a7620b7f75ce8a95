"""The package, on a database of this process and through a server: the places are in ONDOL_PLACES."""

import datetime
import decimal
import os
import threading
import unittest
import uuid

import ondol

PLACES = os.environ["ONDOL_PLACES"].split(";")


class Case(unittest.TestCase):
    """Each test is run at each place."""

    def run(self, result=None):
        for self.place in PLACES:
            super().run(result)
        return result

    def setUp(self):
        self.db = ondol.connect(self.place)
        self.db.executescript("DROP TABLE IF EXISTS t; CREATE TABLE t (id bigint PRIMARY KEY, v text)")
        self.db.commit()

    def tearDown(self):
        self.db.close()

    def raises(self, kind, sqlstate, *call):
        with self.assertRaises(kind) as raised:
            call[0](*call[1:])
        self.assertEqual(raised.exception.sqlstate, sqlstate, raised.exception)
        return raised.exception


class DbApi(Case):
    def test_names(self):
        self.assertEqual((ondol.apilevel, ondol.threadsafety, ondol.paramstyle), ("2.0", 1, "pyformat"))
        self.assertTrue(issubclass(ondol.IntegrityError, ondol.DatabaseError))
        self.assertTrue(issubclass(ondol.InterfaceError, ondol.Error))
        self.assertIs(self.db.OperationalError, ondol.OperationalError)
        self.assertEqual(ondol.Binary(b"x"), b"x")
        self.assertEqual(ondol.DateFromTicks(86400 * 400).year, 1971)

    def test_rows(self):
        cursor = self.db.cursor()
        self.assertIs(cursor.executemany("INSERT INTO t VALUES (%s, %s)", [(i, str(i)) for i in range(10)]), cursor)
        self.assertEqual(cursor.rowcount, 10)
        self.assertIsNone(cursor.description)
        cursor.execute("SELECT id, v FROM t ORDER BY id")
        self.assertEqual(cursor.rowcount, 10)
        self.assertEqual([c[0] for c in cursor.description], ["id", "v"])
        self.assertTrue(cursor.description[0][1] == ondol.NUMBER and cursor.description[1][1] == ondol.STRING)
        self.assertEqual(cursor.fetchone(), (0, "0"))
        self.assertEqual(cursor.fetchmany(2), [(1, "1"), (2, "2")])
        self.assertEqual(next(cursor), (3, "3"))
        self.assertEqual(len(cursor.fetchall()), 6)
        self.assertEqual((cursor.fetchone(), cursor.fetchall(), cursor.fetchmany()), (None, [], []))
        self.assertEqual([row for row in self.db.execute("SELECT 1 WHERE false")], [])
        cursor.execute("UPDATE t SET v = v || '!' WHERE id < %(most)s AND id <> %(most)s", {"most": 4, "other": 1})
        self.assertEqual(cursor.rowcount, 4)
        self.assertRaises(ondol.ProgrammingError, cursor.fetchone)
        with self.db.cursor() as other:
            self.assertEqual(other.execute("SELECT v FROM t WHERE id = %s", [3]).fetchone(), ("3!",))
        self.assertRaises(ondol.InterfaceError, other.execute, "SELECT 1")
        cursor.executemany("INSERT INTO t VALUES (%s, %s)", [])
        self.assertEqual(cursor.rowcount, 0)

    def test_transactions(self):
        count = "SELECT count(*) FROM t"
        other = ondol.connect(self.place)
        self.db.execute("INSERT INTO t VALUES (1, 'a')")
        self.assertTrue(self.db.in_transaction)
        self.assertEqual(other.execute(count).fetchone(), (0,))
        other.rollback()
        self.db.commit()
        self.assertEqual(other.execute(count).fetchone(), (1,))
        other.rollback()
        with self.assertRaises(ZeroDivisionError):
            with self.db:
                self.db.execute("DELETE FROM t")
                1 / 0
        self.assertEqual(other.execute(count).fetchone(), (1,))
        other.rollback()
        with self.db:
            self.db.execute("DELETE FROM t")
        self.assertEqual(other.execute(count).fetchone(), (0,))
        other.close()
        # After an error in a transaction nothing but its end is possible.
        self.raises(ondol.DataError, "22012", self.db.execute, "SELECT 1 / 0")
        self.raises(ondol.InternalError, "25P02", self.db.execute, "SELECT 1")
        self.db.rollback()
        self.db.execute("SELECT 1")
        with self.assertRaises(ondol.ProgrammingError):
            self.db.autocommit = True
        self.db.rollback()
        self.db.autocommit = True
        self.db.execute("INSERT INTO t VALUES (1, 'a')")
        self.assertFalse(self.db.in_transaction)
        # In autocommit, all or none.
        self.raises(
            ondol.IntegrityError, "23505", self.db.executemany, "INSERT INTO t VALUES (%s, 'x')", [(2,), (1,), (3,)]
        )
        self.assertEqual(self.db.execute(count).fetchone(), (1,))

    def test_errors(self):
        e = self.raises(ondol.ProgrammingError, "42P01", self.db.execute, "SELECT * FROM nowhere")
        self.assertIn("nowhere", str(e))
        self.db.rollback()
        self.db.execute("INSERT INTO t VALUES (1, 'a')")
        e = self.raises(ondol.IntegrityError, "23505", self.db.execute, "INSERT INTO t VALUES (1, 'a')")
        self.assertIn("already exists", e.detail)
        self.assertIn("DETAIL", str(e))
        self.db.rollback()
        for sql, params, said in [
            ("SELECT %s", (), "expected more than 0 parameters"),
            ("SELECT %s", (1, 2), "expected 1 parameters, found 2"),
            ("SELECT %(a)s", (1,), "given by places, but stand in the statement by names"),
            ("SELECT %s", {"a": 1}, "given by names, but stand in the statement by places"),
            ("SELECT %(b)s", {"a": 1}, "'b' is not given"),
            ("SELECT 5 % 2", (), "expected %s, %(name)s or %%"),
        ]:
            with self.assertRaises(ondol.ProgrammingError) as raised:
                self.db.execute(sql, params)
            self.assertIn(said, str(raised.exception))
        self.assertRaises(TypeError, self.db.execute, "SELECT %s", (object(),))
        self.db.rollback()
        self.raises(ondol.NotSupportedError, "0A000", self.db.execute, "COPY t TO STDOUT")
        self.db.rollback()
        self.assertEqual(self.db.execute("SELECT 5 % 2").fetchone(), (1,))
        row = self.db.execute("SELECT 5 %% %s::int, '%s''%%', $$%s$$ -- %s", (2,)).fetchone()
        self.assertEqual(row, (1, "%s'%", "%s"))
        self.db.close()
        self.assertTrue(self.db.closed)
        self.db.close()
        self.assertRaises(ondol.InterfaceError, self.db.cursor)
        self.raises(ondol.OperationalError, "08003", self.db.commit)
        self.raises(ondol.OperationalError, "08001", ondol.connect, "postgres://127.0.0.1:1")
        self.raises(ondol.OperationalError, "08001", ondol.connect, "postgres://h?a=b")
        self.raises(ondol.OperationalError, "08001", ondol.connect, "mysql://h/x")
        self.assertRaises(TypeError, ondol.connect, 5)


class Values(Case):
    def test_both_ways(self):
        utc = datetime.timezone.utc
        for ty, value in [
            ("bool", True),
            ("int2", -7),
            ("int8", 2**63 - 1),
            ("float4", 1.5),
            ("float8", -0.1),
            ("numeric", decimal.Decimal("123456789012345678901234567890.50")),
            ("numeric", 2**70),
            ("text", "naïve '\\ \U0001f600"),
            ("varchar", ""),
            ("bytea", bytes(range(256))),
            ("date", datetime.date(1, 1, 1)),
            ("date", datetime.date(9999, 12, 31)),
            ("time", datetime.time(23, 59, 59, 123456)),
            ("timetz", datetime.time(1, 2, 3, tzinfo=datetime.timezone(datetime.timedelta(hours=5, minutes=30)))),
            ("timestamp", datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)),
            ("timestamptz", datetime.datetime(2024, 2, 29, 12, tzinfo=utc)),
            ("interval", datetime.timedelta(days=-3, seconds=5, microseconds=7)),
            ("uuid", uuid.uuid4()),
            ("jsonb", {"a": [1, None, "ü"]}),
            ("json", {"b": True}),
            ("int4[]", [1, None, 3]),
            ("int4[]", []),
            ("int4[]", [[1, 2], [3, 4]]),
            ("text[]", ["a", 'b "c"', "\\", None, "NULL", ""]),
            ("numeric[]", [decimal.Decimal("1.10")]),
            ("bool[]", [True, False]),
            ("bytea[]", [b"\x00\xff"]),
            ("timestamptz[]", [datetime.datetime(2024, 2, 29, 12, tzinfo=utc)]),
            ("date[]", [datetime.date(2000, 1, 1)]),
            ("oid", 4294967295),
        ]:
            with self.subTest(ty, value=value):
                row = self.db.execute("SELECT %%(v)s::%s, NULL::%s" % (ty, ty), {"v": value}).fetchone()
                self.assertEqual(row, (value, None))
                self.assertIs(type(row[0]), decimal.Decimal if ty == "numeric" else type(value))
        self.assertEqual(
            self.db.execute("SELECT %s::timestamptz", (datetime.datetime(2024, 1, 1, 12),)).fetchone()[0].tzinfo, utc
        )
        # What Python has not stays a text.
        for sql, shown in [
            ("'infinity'::date", "infinity"),
            ("'4713-01-01 BC'::timestamp", "4713-01-01 00:00:00 BC"),
            ("'1 mon 2 days'::interval", "1 mon 2 days"),
            ("'24:00'::time", "24:00:00"),
            ("'x'::char(3)", "x  "),
            ("'[0:1]={5,6}'::int[]", [5, 6]),
        ]:
            self.assertEqual(self.db.execute("SELECT " + sql).fetchone(), (shown,))
        self.db.executescript("DROP TYPE IF EXISTS mood; CREATE TYPE mood AS ENUM ('glad', 'sad')")
        self.assertEqual(self.db.execute("SELECT %s::mood", ("sad",)).fetchone(), ("sad",))

    def test_arrow(self):
        try:
            import pyarrow
        except ImportError:
            cursor = self.db.execute("SELECT 1")
            self.assertRaisesRegex(ImportError, "pip install", cursor.fetch_arrow)
            return
        table = self.db.execute("SELECT g AS n, g::text AS t, g / 2.0 AS h FROM generate_series(1, 3) g").fetch_arrow()
        self.assertEqual(table.column("n").to_pylist(), [1, 2, 3])
        self.assertEqual(table.schema.field("t").type, pyarrow.string())


class Further(Case):
    def test_batches(self):
        self.db.autocommit = True
        insert = "INSERT INTO t VALUES (%s, %s)"
        found = self.db.batch([(insert, (1, "a")), (insert, (2, "b")), ("SELECT v FROM t ORDER BY id", None)])
        self.assertEqual([c.rowcount for c in found], [1, 1, 2])
        self.assertEqual(found[2].fetchall(), [("a",), ("b",)])
        self.raises(ondol.IntegrityError, "23505", self.db.batch, [(insert, (3, "c")), (insert, (1, "x"))])
        found = self.db.batch([(insert, (3, "c")), (insert, (1, "x")), (insert, (4, "d"))], together=False)
        self.assertEqual([type(c) for c in found], [ondol.Cursor, ondol.IntegrityError, ondol.Cursor])
        self.assertEqual(self.db.execute("SELECT count(*) FROM t").fetchone(), (4,))
        self.db.autocommit = False
        self.assertRaises(ondol.ProgrammingError, self.db.batch, [(insert, (9, "x"))], together=False)
        self.db.batch([(insert, (5, "e"))])
        self.db.rollback()
        self.assertEqual(self.db.execute("SELECT count(*) FROM t").fetchone(), (4,))

    def test_registered_queries(self):
        self.db.executescript(
            "DROP FUNCTION IF EXISTS named; INSERT INTO t VALUES (1, 'one');"
            "CREATE FUNCTION named(bigint) RETURNS SETOF text LANGUAGE sql AS 'SELECT v FROM t WHERE id = $1'"
        )
        self.assertEqual(self.db.call("named", 1).fetchall(), [("one",)])
        cursor = self.db.cursor()
        self.assertEqual(cursor.callproc("named", (2,)), (2,))
        self.assertEqual(cursor.fetchall(), [])
        self.raises(ondol.ProgrammingError, "26000", self.db.call, "unnamed")

    def test_cancel(self):
        threading.Timer(0.2, self.db.cancel).start()
        self.raises(ondol.OperationalError, "57014", self.db.execute, "SELECT pg_sleep(100)")
        self.db.rollback()
        self.assertEqual(self.db.execute("SELECT 1").fetchone(), (1,))

    def test_statements_of_every_kind(self):
        self.db.execute("CREATE TEMPORARY TABLE tmp (n int)")
        self.db.execute("SET LOCAL application_name = 'snake'")
        self.assertEqual(self.db.execute("SHOW application_name").fetchone(), ("snake",))
        self.assertTrue(self.db.execute("EXPLAIN SELECT 1").fetchall())
        self.db.executemany("INSERT INTO tmp VALUES (%s)", [(1,), (2,)])
        self.assertEqual(self.db.execute("SELECT sum(n) FROM tmp").fetchone(), (3,))
        self.db.rollback()
        self.raises(ondol.ProgrammingError, "42P01", self.db.execute, "SELECT * FROM tmp")

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    def test_fork(self):
        self.db.execute("INSERT INTO t VALUES (1, 'a')")
        child = os.fork()
        if child == 0:
            # Neither its parent's connections, nor its databases in this process.
            code = 0
            try:
                self.db.execute("INSERT INTO t VALUES (2, 'b')")
                code = 1
            except ondol.Error as e:
                code = 0 if e.sqlstate == "08003" else 2
            del self.db
            os._exit(code)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.db.commit()
        self.assertEqual(self.db.execute("SELECT count(*) FROM t").fetchone(), (1,))

    def test_many_statements(self):
        # More than stay prepared; each is right.
        for n in range(2 * self.db.STATEMENTS):
            self.assertEqual(self.db.execute("SELECT %d + %%s::int" % n, (1,)).fetchone(), (n + 1,))
        many = 2 * self.db.STATEMENTS
        found = self.db.batch([("SELECT %d - %%s::int" % n, (1,)) for n in range(many)])
        self.assertEqual([c.fetchone() for c in found], [(n - 1,) for n in range(many)])
        self.assertLessEqual(len(self.db.execute("SELECT 1").connection._statements), self.db.STATEMENTS + 1)

    def test_threads(self):
        def work(n):
            db = ondol.connect(self.place)
            for i in range(20):
                with db:
                    db.execute("INSERT INTO t VALUES (%s, 'x')", (1000 * n + i,))
            db.close()

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.db.execute("SELECT count(*) FROM t").fetchone(), (80,))


if __name__ == "__main__":
    unittest.main()
