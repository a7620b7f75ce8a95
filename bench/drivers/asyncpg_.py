"""asyncpg: what a program does with it. Prints a line for each exercise."""

import asyncio, asyncpg, sys, datetime as dt, decimal, uuid, traceback, io

P = dict(host="127.0.0.1", port=int(sys.argv[1]), user="postgres", database="postgres")
tests = []


def check(f):
    tests.append(f)
    return f


@check
async def types(c):
    D = decimal.Decimal
    for t, vs in {
        "bool": [True],
        "int2": [-5],
        "int4": [2**31 - 1],
        "int8": [-(2**63)],
        "float4": [1.5],
        "float8": [1e300],
        "numeric": [D("1.50"), D("-12345678901234567890.5"), D("NaN"), D(0)],
        "text": ["é", ""],
        "varchar": ["x"],
        "bytea": [b"\0\1"],
        "date": [dt.date(2020, 1, 2)],
        "time": [dt.time(1, 2, 3, 4)],
        "timetz": [dt.time(1, 2, 3, tzinfo=dt.timezone.utc)],
        "timestamp": [dt.datetime(2020, 1, 2, 3, 4, 5, 6)],
        "timestamptz": [dt.datetime(2020, 1, 2, tzinfo=dt.timezone.utc)],
        "interval": [dt.timedelta(days=400, seconds=5)],
        "uuid": [uuid.uuid4()],
        "int4[]": [[1, None, 3], [], [[1, 2], [3, 4]]],
        "text[]": [["a", None, '"']],
        "numeric[]": [[D("1.5")]],
        "name": ["n"],
        '"char"': [b"c"],
        "oid": [5],
        "json": ['{"a": 1}'],
        "bpchar": ["ab"],
    }.items():
        for v in vs:
            try:
                r = await c.fetchval(f"select $1::{t}", v)
                assert r == v or str(r) == str(v), (t, v, r)
                assert await c.fetchval(f"select $1::{t}", None) is None
            except Exception as e:
                raise AssertionError(f"{t} {v}: {e}")


@check
async def transactions(c):
    await c.execute("create table if not exists atx(a int primary key, b text not null check (b<>'bad'))")
    try:
        async with c.transaction():
            await c.execute("insert into atx values(1,'x')")
            try:
                async with c.transaction():
                    await c.execute("insert into atx values(1,'y')")
            except asyncpg.UniqueViolationError as e:
                assert (e.table_name, e.constraint_name, e.schema_name) == ("atx", "atx_pkey", "public")
            await c.execute("insert into atx values(2,'x')")
        assert await c.fetchval("select count(*) from atx") == 2
        for iso in ("read_committed", "repeatable_read", "serializable"):
            async with c.transaction(isolation=iso, readonly=True, deferrable=True):
                await c.fetch("select * from atx")
        try:
            await c.execute("insert into atx values(3,'bad')")
            assert 0
        except asyncpg.CheckViolationError as e:
            assert e.constraint_name == "atx_b_check"
        await c.executemany("insert into atx values($1,$2)", [(i, "x") for i in range(100, 1100)])
        assert await c.fetchval("select count(*) from atx") == 1002
        try:
            await c.executemany("insert into atx values($1,$2)", [(5000, "x"), (100, "x")])
            assert 0
        except asyncpg.UniqueViolationError:
            pass
        assert await c.fetchval("select count(*) from atx") == 1002
        r = await c.fetchrow("insert into atx values($1,$2) returning *", 7000, "z")
        assert dict(r) == {"a": 7000, "b": "z"}
    finally:
        await c.execute("drop table atx")


@check
async def cursors(c):
    async with c.transaction():
        n = 0
        async for r in c.cursor("select generate_series(1,$1::int)", 500, prefetch=7):
            n += 1
        assert n == 500
        cur = await c.cursor("select generate_series(1,100)")
        assert len(await cur.fetch(10)) == 10
        await cur.forward(5)
        assert (await cur.fetchrow())[0] == 16


@check
async def prepared(c):
    s = await c.prepare("select $1::int as a, $2::text as b")
    assert [p.name for p in s.get_parameters()] == ["int4", "text"]
    assert [a.name for a in s.get_attributes()] == ["a", "b"]
    assert dict(await s.fetchrow(1, "x")) == {"a": 1, "b": "x"}


@check
async def plan_changes(c):
    await c.execute("create table apc(a int)")
    s = await c.prepare("select * from apc")
    await s.fetch()
    await c.execute("alter table apc add b int")
    assert list((await c.fetch("select * from apc"))) == []
    try:
        await s.fetch()
        raise AssertionError("no error")
    except asyncpg.InvalidCachedStatementError:
        pass
    await c.execute("drop table apc")


@check
async def copying(c):
    await c.execute("create table acp(a int, b text, c timestamptz, d numeric)")
    try:
        await c.copy_to_table("acp", source=io.BytesIO(b"1\tx\t\\N\t1.5\n"))
        b = io.BytesIO()
        await c.copy_from_query("select * from acp where a=$1", 1, output=b, format="csv")
        assert b.getvalue() == b"1,x,,1.5\n", b.getvalue()

        async def bad():
            yield b"1\tx\t\\N\t1\n"
            raise KeyError("x")

        try:
            await c.copy_to_table("acp", source=bad())
            assert 0
        except KeyError:
            pass
        assert await c.fetchval("select count(*) from acp") == 1
    finally:
        await c.execute("drop table acp")


@check
async def copying_records(c):
    await c.execute("create table acr(a int, b text, c timestamptz, d numeric)")
    try:
        when = dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)
        records = [(i, "t", when, decimal.Decimal("1.5")) for i in range(1000)]
        await c.copy_records_to_table("acr", records=records)
        assert await c.fetchval("select count(*) from acr") == 1000
    finally:
        await c.execute("drop table acr")


@check
async def cancelling(c):
    try:
        await asyncio.wait_for(
            c.fetch("select count(*) from generate_series(1,100000000) a, generate_series(1,1000) b"), 0.3
        )
        assert 0
    except asyncio.TimeoutError:
        pass
    assert await c.fetchval("select 1") == 1
    try:
        await c.fetch(
            "select count(*) from generate_series(1,100000000) a, generate_series(1,1000) b", timeout=0.3
        )
        assert 0
    except asyncio.TimeoutError:
        pass
    assert await c.fetchval("select 1") == 1


@check
async def listening(c):
    got = []
    await c.add_listener("ach", lambda *a: got.append(a[2:]))
    d = await asyncpg.connect(**P)
    await d.execute("notify ach,'x'")
    await asyncio.sleep(0.3)
    await d.close()
    assert got == [("ach", "x")], got
    await c.remove_listener("ach", lambda: 0)


@check
async def pool(c):
    async with asyncpg.create_pool(min_size=2, max_size=5, **P) as p:

        async def w(i):
            async with p.acquire() as k:
                return await k.fetchval("select $1::int", i)

        assert sum(await asyncio.gather(*[w(i) for i in range(200)])) == 19900


@check
async def codecs(c):
    await c.execute(
        "create type amood as enum('a','b'); create type apair as (x int, y text); create domain adom as int check (value>0)"
    )
    try:
        assert await c.fetchval("select $1::amood", "a") == "a"
        assert await c.fetchval("select $1::amood[]", ["a", "b"]) == ["a", "b"]
        assert await c.fetchval("select $1::adom", 3) == 3
        r = await c.fetchval("select row(1,$1)::apair", "q")
        assert dict(r) == {"x": 1, "y": "q"}
        assert tuple(await c.fetchval("select $1::apair", (1, "q"))) == (1, "q")
        assert await c.fetchval("select row(1,'x'::text, null)") == (1, "x", None)
        await c.set_type_codec("json", encoder=str, decoder=str, schema="pg_catalog")
    finally:
        await c.execute("drop domain adom; drop type amood; drop type apair")


@check
async def settings(c):
    d = await asyncpg.connect(
        server_settings={"search_path": "pg_catalog", "application_name": "q", "jit": "off"}, **P
    )
    assert await d.fetchval("show search_path") == "pg_catalog"
    await d.close()
    await c.reset()
    s = c.get_settings()
    assert s.TimeZone
    assert c.get_server_version().major == 15
    assert c.get_server_pid() > 0
    await c.reload_schema_state()
    await c.execute("select 1; select 2")


@check
async def notices(c):
    got = []
    c.add_log_listener(lambda k, m: got.append(m.message))
    await c.execute("drop table if exists nope_x")
    await asyncio.sleep(0.05)
    assert got


async def main():
    for f in tests:
        try:
            c = await asyncpg.connect(**P)
            await asyncio.wait_for(f(c), 20)
            print("ok", f.__name__)
        except Exception as e:
            places = [x.lineno for x in traceback.extract_tb(e.__traceback__) if x.filename == __file__]
            print(f"FAIL {f.__name__}: {type(e).__name__} {str(e).splitlines()[:1]} {places}")
        finally:
            try:
                await c.close(timeout=2)
            except Exception as e:
                print("close", e)


asyncio.run(main())
