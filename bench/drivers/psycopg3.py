"""psycopg 3: what a program does with it, every type both ways. Prints a line for each exercise."""

import psycopg, sys, datetime as dt, decimal, uuid, ipaddress, time, threading, traceback

port = int(sys.argv[1])
SINCE_3_2 = tuple(int(n) for n in psycopg.__version__.split(".")[:2]) >= (3, 2)
D = dict(host="127.0.0.1", port=port, user="postgres", dbname="postgres")


def check(name):
    def deco(f):
        try:
            with psycopg.connect(**D, autocommit=True) as c:
                f(c)
            print("ok", name)
        except Exception as e:
            places = [t.lineno for t in traceback.extract_tb(e.__traceback__) if t.filename == __file__]
            print(f"FAIL {name}: {type(e).__name__} {str(e).splitlines()[:1]} {places}")

    return deco


UTC = dt.timezone.utc
vals = {
    "boolean": [True, False],
    "smallint": [-32768, 32767, 0],
    "integer": [-(2**31), 2**31 - 1],
    "bigint": [-(2**63), 2**63 - 1, 0],
    "real": [1.5, float("inf"), float("-inf"), 1e-30],
    "double precision": [1.1, float("inf"), -0.0, 5e-324, 1.7976931348623157e308],
    "numeric": [
        decimal.Decimal(x)
        for x in [
            "0",
            "1",
            "-1.50",
            "12345678901234567890.123456789",
            "1E-20",
            "NaN",
            "Infinity",
            "-Infinity",
            "10000",
            "0.0001",
        ]
    ],
    "numeric(10,2)": [decimal.Decimal("1.25")],
    "text": ["", "x", "é😀", "q'\\\n"],
    "varchar(5)": ["abcde"],
    "char(4)": ["ab  "],
    "name": ["n"],
    '"char"': ["c"],
    "bytea": [b"", b"\0\xff\x01", bytes(range(256))],
    "date": [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2000, 1, 1)],
    "time": [dt.time(0, 0), dt.time(23, 59, 59, 999999)],
    "timetz": [dt.time(1, 2, 3, tzinfo=dt.timezone(dt.timedelta(hours=3)))],
    "timestamp": [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)],
    "timestamptz": [dt.datetime(2020, 1, 1, tzinfo=UTC)],
    "interval": [dt.timedelta(days=3, seconds=5, microseconds=7), dt.timedelta(days=-1)],
    "uuid": [uuid.UUID(int=1)],
    "json": [{"a": [1, 2]}],
    "jsonb": [{"a": [1, 2]}],
    "oid": [0, 4294967295],
    "integer[]": [[1, 2], [], [None, 3], [[1, 2], [3, 4]]],
    "text[]": [["a", "b,c", '"', None, "NULL", ""]],
    "numeric[]": [[decimal.Decimal("1.5")]],
    "timestamptz[]": [[dt.datetime(2020, 1, 1, tzinfo=UTC)]],
    "uuid[]": [[uuid.UUID(int=5)]],
    "bytea[]": [[b"\1\2"]],
    "boolean[]": [[True, None]],
    "date[]": [[dt.date(2000, 1, 1)]],
    "inet": [ipaddress.ip_interface("10.0.0.1/8")],
    "cidr": [ipaddress.ip_network("10.0.0.0/8")],
    "int4range": [psycopg.types.range.Range(1, 5)],
    "regclass": ["pg_class"],
    "point": ["(1,2)"],
    "money": ["$1.00"],
    "bit(3)": ["101"],
    "varbit": ["1"],
    "xml": ["<a/>"],
    "tsvector": ["'a'"],
    "macaddr": ["08:00:2b:01:02:03"],
}
from psycopg.types.json import Json, Jsonb

for t, vs in vals.items():

    @check("type " + t)
    def _(c):
        for pb in ("%t", "%b", "%s"):
            for rb in (False, True):
                cur = c.cursor(binary=rb)
                for v in vs:
                    if t in ("regclass", "point", "money", "bit(3)", "varbit", "xml", "tsvector", "macaddr"):
                        if pb == "%b" or rb:
                            continue
                    a = Json(v) if t == "json" else Jsonb(v) if t == "jsonb" else v
                    try:
                        cur.execute(f"SELECT {pb}::{t} AS v, {pb}::{t} IS NULL", (a, a))
                    except psycopg.ProgrammingError as e:
                        if "cannot adapt" in str(e):
                            continue
                        raise Exception(f"{pb} {rb} {v!r}: {e}")
                    except Exception as e:
                        raise Exception(f"{pb} {rb} {v!r}: {e}")
                    got = cur.fetchone()[0]
                    if t == "real":
                        ok = abs(got - v) < 1e-6 * abs(v) or got == v
                    elif t == "numeric" and v.is_nan():
                        ok = got.is_nan()
                    else:
                        ok = got == v or str(got) == str(v)
                    if not ok:
                        raise Exception(f"{pb} {rb} {v!r} -> {got!r}")
                    # typed null
                    cur.execute(f"SELECT {pb}::{t}", (None,))
                    assert cur.fetchone() == (None,)


@check("transactions")
def _(c):
    c.execute("CREATE TABLE tx(a int primary key, b text not null)")
    c.autocommit = False
    c.execute("insert into tx values(1,'x')")
    c.rollback()
    assert c.execute("select count(*) from tx").fetchone()[0] == 0
    c.commit()
    with c.transaction():
        c.execute("insert into tx values(1,'x')")
        try:
            with c.transaction():
                c.execute("insert into tx values(2,'y')")
                c.execute("insert into tx values(1,'y')")
        except psycopg.errors.UniqueViolation as e:
            d = e.diag
            assert (d.schema_name, d.table_name, d.constraint_name, d.sqlstate) == (
                "public",
                "tx",
                "tx_pkey",
                "23505",
            ), (d.schema_name, d.table_name, d.constraint_name)
        with c.transaction():
            c.execute("insert into tx values(3,'z')")
    c.commit()
    assert c.execute("select array_agg(a order by a) from tx").fetchone()[0] == [1, 3]
    c.commit()
    try:
        c.execute("insert into tx values (9,null)")
    except psycopg.errors.NotNullViolation as e:
        assert (e.diag.column_name, e.diag.table_name) == ("b", "tx")
    try:
        c.execute("select 1")
        assert 0
    except psycopg.errors.InFailedSqlTransaction:
        pass
    assert c.info.transaction_status == psycopg.pq.TransactionStatus.INERROR
    c.rollback()
    for iso in psycopg.IsolationLevel:
        c.isolation_level = iso
        r = c.execute("show transaction_isolation").fetchone()[0]
        c.rollback()
        assert r.upper().replace(" ", "_") == iso.name, (r, iso)
    c.isolation_level = None
    c.read_only = True
    try:
        c.execute("delete from tx")
        assert 0
    except psycopg.errors.ReadOnlySqlTransaction:
        pass
    c.rollback()
    c.read_only = None
    c.deferrable = True
    c.execute("select 1")
    c.rollback()
    c.deferrable = None
    c.execute("drop table tx")
    c.commit()


@check("errors")
def _(c):
    for q, st in [
        ("select", None),
        ("selec 1", "42601"),
        ("select x", "42703"),
        ("select * from nope", "42P01"),
        ("select 1/0", "22012"),
        ("select 'x'::int", "22P02"),
        ("select nofn()", "42883"),
        ("select 2147483648::int", "22003"),
        ("select '2000-13-01'::date", "22008"),
    ]:
        try:
            c.execute(q)
            assert st is None, q
        except psycopg.Error as e:
            assert e.sqlstate == st, (q, e.sqlstate)
            assert e.diag.severity == "ERROR" and e.diag.severity_nonlocalized == "ERROR"
    try:
        c.execute("select %s + x", (1,))
    except psycopg.Error as e:
        assert e.diag.statement_position == "13", e.diag.statement_position


@check("columns")
def _(c):
    c.execute("create table col(a int, b varchar(7), c numeric(5,2), d text[])")
    cur = c.execute("select b, a, a+1, c from col")
    assert [
        (d.name, d.type_code, d.precision, d.scale, d.internal_size, d.display_size) for d in cur.description
    ] == [
        ("b", 1043, None, None, None, 7),
        ("a", 23, None, None, 4, None),
        ("?column?", 23, None, None, 4, None),
        ("c", 1700, 5, 2, None, None),
    ], cur.description
    oid = c.execute("select 'col'::regclass::oid").fetchone()[0]
    cur = c.execute("select b, a, a+1, c from (select * from col) x order by a")
    r = cur.pgresult
    assert [(r.ftable(i), r.ftablecol(i)) for i in range(4)] == [(oid, 2), (oid, 1), (0, 0), (oid, 3)], [
        (r.ftable(i), r.ftablecol(i)) for i in range(4)
    ]
    cur = c.execute("insert into col values(1) returning b, a, 3")
    r = cur.pgresult
    assert [(r.ftable(i), r.ftablecol(i)) for i in range(3)] == [(oid, 2), (oid, 1), (0, 0)]
    cur = c.execute("update col set a=2 returning b, a, 3")
    r = cur.pgresult
    assert [(r.ftable(i), r.ftablecol(i)) for i in range(3)] == [(oid, 2), (oid, 1), (0, 0)]
    cur = c.execute("with w as (select a from col) select a, count(*) from w group by a")
    r = cur.pgresult
    assert [(r.ftable(i), r.ftablecol(i)) for i in range(2)] == [(oid, 1), (0, 0)], [
        (r.ftable(i), r.ftablecol(i)) for i in range(2)
    ]
    cur = c.execute("with w as (select a from col) delete from col returning d, a")
    r = cur.pgresult
    assert [(r.ftable(i), r.ftablecol(i)) for i in range(2)] == [(oid, 4), (oid, 1)]
    cur = c.execute("select x.b, y.a from col x left join col y using (a)")
    r = cur.pgresult
    assert [(r.ftable(i), r.ftablecol(i)) for i in range(2)] == [(oid, 2), (oid, 1)]
    cur = c.execute("select a from col union select a from col")
    r = cur.pgresult
    assert r.ftable(0) == 0
    c.execute("create view cv as select a, b from col")
    voi = c.execute("select 'cv'::regclass::oid").fetchone()[0]
    cur = c.execute("select b from cv")
    r = cur.pgresult
    assert (r.ftable(0), r.ftablecol(0)) == (voi, 2)
    c.execute("drop view cv")
    c.execute("drop table col")


@check("pipeline")
def _(c):
    c.execute("create table pl(a int primary key)")
    with c.pipeline() as p:
        for i in range(500):
            c.execute("insert into pl values(%s)", (i,))
        cur = c.execute("select count(*) from pl")
        p.sync()
        assert cur.fetchone()[0] == 500
        try:
            c.execute("insert into pl values(1000)")
            c.execute("insert into pl values(1)")
            cc = c.execute("insert into pl values(1001)")
            p.sync()
            cc.fetchall()
            assert 0
        except (psycopg.errors.UniqueViolation, psycopg.errors.PipelineAborted):
            pass
    n = c.execute("select count(*) from pl").fetchone()[0]
    assert n == 500, n
    cur = c.cursor()
    cur.executemany(
        "insert into pl values(%s) returning a", [(i,) for i in range(2000, 2300)], returning=True
    )
    got = []
    while True:
        got.append(cur.fetchone()[0])
        if not cur.nextset():
            break
    assert got == list(range(2000, 2300))
    c.execute("drop table pl")


@check("copy")
def _(c):
    c.execute("create table cp(a int, b text, c timestamptz)")
    cur = c.cursor()
    with cur.copy("COPY cp FROM STDIN") as cp:
        for i in range(5000):
            cp.write_row((i, "x\t\n\\" + str(i) if i % 3 else None, dt.datetime(2020, 1, 1, tzinfo=UTC)))
    assert c.execute("select count(*), count(b) from cp").fetchone() == (5000, 3333)
    with cur.copy("COPY cp TO STDOUT") as cp:
        assert sum(1 for _ in cp.rows()) == 5000
    with cur.copy("COPY (select a from cp) TO STDOUT (format csv, header)") as cp:
        assert sum(len(x) for x in cp) > 5000
    try:
        with cur.copy("COPY cp FROM STDIN") as cp:
            cp.write("1\tx\t\\N\n")
            raise KeyError("broken off")
    except (KeyError, psycopg.errors.QueryCanceled):
        pass  # Until 3.2 what the server says of it is raised.
    assert c.execute("select count(*) from cp").fetchone()[0] == 5000
    try:
        with cur.copy("COPY cp FROM STDIN") as cp:
            cp.write("notanumber\tx\t\\N\n")
        assert 0
    except psycopg.errors.InvalidTextRepresentation as e:
        assert "COPY cp, line 1, column a" in e.diag.context, e.diag.context
    cp = cur.copy("COPY cp FROM STDIN")
    cx = cp.__enter__()
    cx.write("1\tx\t\\N\n")
    c.pgconn.finish()
    with psycopg.connect(**D, autocommit=True) as d:
        time.sleep(0.1)
        assert d.execute("select count(*) from cp").fetchone()[0] == 5000
        d.execute("drop table cp")


@check("copy binary")
def _(c):
    c.execute("create table cb(a int, b text, c numeric, d bytea, e timestamptz, f int[])")
    try:
        cur = c.cursor()
        with cur.copy("COPY cb FROM STDIN (FORMAT BINARY)") as cp:
            cp.set_types(["int4", "text", "numeric", "bytea", "timestamptz", "int4[]"])
            for i in range(100):
                cp.write_row(
                    (
                        i,
                        "t" + str(i),
                        decimal.Decimal(i) / 4,
                        b"\0" * i,
                        dt.datetime(2020, 1, 1, tzinfo=UTC),
                        [i, None],
                    )
                )
        with cur.copy("COPY cb TO STDOUT (FORMAT BINARY)") as cp:
            cp.set_types(["int4", "text", "numeric", "bytea", "timestamptz", "int4[]"])
            rows = list(cp.rows())
            assert len(rows) == 100 and rows[7][2] == decimal.Decimal("1.75") and rows[3][5] == [3, None]
    finally:
        c.execute("drop table cb")


@check("cancel")
def _(c):
    t = threading.Timer(0.3, c.cancel)
    t.start()
    t0 = time.time()
    try:
        c.execute("select pg_sleep(10)")
        assert 0
    except psycopg.errors.QueryCanceled:
        assert time.time() - t0 < 3
    t = threading.Timer(0.3, c.cancel)
    t.start()
    try:
        c.execute("select count(*) from generate_series(1,100000000) a, generate_series(1,1000) b")
        assert 0
    except psycopg.errors.QueryCanceled:
        pass
    assert c.execute("select 1").fetchone()[0] == 1


@check("cancel_safe")
def _(c):
    t = threading.Timer(0.3, c.cancel_safe if SINCE_3_2 else c.cancel)
    t.start()
    t0 = time.time()
    try:
        c.execute("select pg_sleep(10)")
        assert 0
    except psycopg.errors.QueryCanceled:
        assert time.time() - t0 < 3


@check("server cursors")
def _(c):
    c.autocommit = False
    with c.cursor("sc", scrollable=True) as cur:
        cur.execute("select generate_series(1,1000) as a")
        assert len(cur.fetchmany(10)) == 10
        cur.scroll(5)
        assert cur.fetchone()[0] == 16
        cur.scroll(0, mode="absolute")
        assert cur.fetchone()[0] == 1
        assert len(cur.fetchall()) == 999
    with c.cursor("sd", withhold=True, binary=True) as cur:
        cur.itersize = 7
        cur.execute("select a, a::text from generate_series(1,100) a")
        c.commit()
        assert sum(r[0] for r in cur) == 5050
    c.commit()
    with c.cursor("se") as cur:
        assert cur.execute("select %s::int as x", (5,)).fetchone()[0] == 5
    c.commit()
    c.autocommit = True
    cur = c.cursor()
    n = 0
    for r in cur.stream("select generate_series(1,1000)"):
        n += 1
    assert n == 1000
    if hasattr(psycopg.pq.PGconn, "set_chunked_rows_mode"):
        n = 0
        for r in cur.stream("select generate_series(1,1000)", size=100):
            n += 1
        assert n == 1000


@check("prepared")
def _(c):
    c.prepare_threshold = 2
    c.prepared_max = 3
    for i in range(20):
        assert c.execute("select %s::int + 1", (i,)).fetchone()[0] == i + 1
    for i in range(20):
        c.execute(f"select {i}, %s::text", ("x",), prepare=True)
    n = c.execute("select count(*) from pg_prepared_statements").fetchone()[0]
    assert n <= 4, n
    c.execute("drop table if exists pp")
    c.execute("create table pp(a int)")
    for i in range(5):
        c.execute("select * from pp", prepare=True)
    c.execute("alter table pp add b int")
    try:
        c.execute("select * from pp")
    except psycopg.errors.FeatureNotSupported as e:
        assert "cached plan" in str(e)
    if SINCE_3_2:  # Before it does not notice.
        c.execute("deallocate all")
        c.execute("select * from pp")
    c.execute("drop table pp")


@check("keys")
def _(c):
    c.execute(
        "create table gk(id bigserial primary key, b uuid default gen_random_uuid(), t timestamptz default now())"
    )
    r = c.execute("insert into gk default values returning *").fetchone()
    assert r[0] == 1 and isinstance(r[1], uuid.UUID) and isinstance(r[2], dt.datetime)
    c.execute("drop table gk")


@check("notify")
def _(c):
    c.execute("listen ch")
    with psycopg.connect(**D, autocommit=True) as d:
        d.execute("notify ch, 'hi'")
        d.execute("select pg_notify('ch','two')")
    told = c.notifies(timeout=2, stop_after=2) if SINCE_3_2 else c.notifies()
    got = [(n.channel, n.payload) for _, n in zip(range(2), told)]
    assert got == [("ch", "hi"), ("ch", "two")], got


@check("composite, enum")
def _(c):
    c.execute("create type em as enum('a','b'); create type cmp as (a int, b text)")
    from psycopg.types.enum import EnumInfo, register_enum
    from psycopg.types.composite import CompositeInfo, register_composite
    import enum

    class E(enum.Enum):
        a = "a"
        b = "b"

    i = EnumInfo.fetch(c, "em")
    register_enum(i, c, E)
    for b in (0, 1):
        assert c.execute("select %s::em", (E.a,), binary=bool(b)).fetchone()[0] == E.a
        assert c.execute("select %s::em[]", ([E.a, E.b],), binary=bool(b)).fetchone()[0] == [E.a, E.b]
    i = CompositeInfo.fetch(c, "cmp")
    register_composite(i, c)
    for b in (0, 1):
        for ph in ("%t", "%s", "%b"):
            r = c.execute(f"select {ph}::cmp", (i.python_type(1, "x"),), binary=bool(b)).fetchone()[0]
            assert r == i.python_type(1, "x"), r
    c.execute("drop type em; drop type cmp")


@check("params")
def _(c):
    assert c.execute("select %s", ("x",)).fetchone()[0] == "x"
    assert c.execute("select %s = any(%s)", (2, [1, 2])).fetchone()[0] is True
    assert (
        c.execute(
            "select count(*) from generate_series(1,%s) g where g = any(%s)", (10, [1, 2, 99])
        ).fetchone()[0]
        == 2
    )
    assert c.execute("select %s || 'y'", ("x",)).fetchone()[0] == "xy"
    assert c.execute("select %(a)s::int + %(b)s::int + %(a)s::int", {"a": 1, "b": 2}).fetchone()[0] == 4
    assert (
        c.execute("select %s::date - %s::date", (dt.date(2020, 1, 2), dt.date(2020, 1, 1))).fetchone()[0] == 1
    )
    assert c.execute(
        "select %s::timestamptz + %s", (dt.datetime(2020, 1, 2, tzinfo=UTC), dt.timedelta(days=1))
    ).fetchone()[0] == dt.datetime(2020, 1, 3, tzinfo=UTC)
    assert len(c.execute("select " + ",".join(["%s::int"] * 1600), list(range(1600))).fetchone()) == 1600
    assert (
        c.execute(
            "select cardinality(array[" + ",".join(["%s::int"] * 30000) + "])", list(range(30000))
        ).fetchone()[0]
        == 30000
    )
    big = "x" * (20 << 20)
    assert len(c.execute("select %s::text", (big,)).fetchone()[0]) == 20 << 20


@check("reconnect")
def _(c):
    pid = c.info.backend_pid
    assert c.execute("select pg_backend_pid()").fetchone()[0] == pid
    with psycopg.connect(**D, autocommit=True) as d:
        assert d.execute("select pg_terminate_backend(%s)", (pid,)).fetchone()[0] is True
    try:
        c.execute("select 1")
        c.execute("select 1")
        assert 0, "still there"
    except psycopg.OperationalError as e:
        assert "terminating connection" in str(e), e


@check("settings")
def _(c):
    with psycopg.connect(
        **D,
        options="-c search_path=pg_catalog -c statement_timeout=1234 -c datestyle=ISO,DMY",
        application_name="app é",
    ) as d:
        assert d.execute("show search_path").fetchone()[0] == "pg_catalog"
        assert d.execute("show statement_timeout").fetchone()[0] == "1234ms"
        assert d.info.parameter_status("application_name") in ("app é", "app ??"), d.info.parameter_status(
            "application_name"
        )
    c.execute("set timezone='Europe/Rome'")
    assert c.info.timezone.key == "Europe/Rome"
    assert c.info.parameter_status("TimeZone") == "Europe/Rome"
    assert c.execute("select '2020-07-01 12:00+00'::timestamptz").fetchone()[0].utcoffset() == dt.timedelta(
        hours=2
    )
    c.execute("set client_encoding='utf8'")
    c.execute("discard all")
    c.execute("reset all")
    for p in (
        "server_version",
        "server_encoding",
        "client_encoding",
        "integer_datetimes",
        "standard_conforming_strings",
        "DateStyle",
        "IntervalStyle",
        "is_superuser",
        "session_authorization",
        "in_hot_standby",
        "default_transaction_read_only",
    ):
        assert c.info.parameter_status(p), p
    assert c.info.server_version >= 150000
    c.execute("set intervalstyle='iso_8601'")
    c.execute("set datestyle='German'")
    assert c.execute("select %b::date", (dt.date(2020, 1, 2),)).fetchone()[0] == dt.date(2020, 1, 2)


@check("notices")
def _(c):
    got = []
    c.add_notice_handler(lambda d: got.append((d.severity, d.sqlstate, d.message_primary)))
    c.execute("drop table if exists nope_nope")
    assert got and got[0][1] == "00000", got
