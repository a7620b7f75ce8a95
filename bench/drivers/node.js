// node-postgres: what a program does with it. Prints a line for each exercise.
const { Client, Pool } = require("pg");
const Cursor = require("pg-cursor");
const { from: copyFrom, to: copyTo } = require("pg-copy-streams");
const { pipeline } = require("stream/promises");
const { Readable } = require("stream");
const assert = require("assert");

const settings = { host: "127.0.0.1", port: Number(process.argv[2]), user: "postgres", database: "postgres" };
const exercises = {
  async types(c) {
    const values = {
      boolean: true,
      int4: -5,
      int8: "9007199254740993",
      float8: 1.5,
      numeric: "1.50",
      text: "é😀'",
      uuid: "00000000-0000-0000-0000-000000000001",
    };
    for (const [type, value] of Object.entries(values)) {
      assert.deepStrictEqual((await c.query(`SELECT $1::${type} AS v`, [value])).rows[0].v, value, type);
      assert.strictEqual((await c.query(`SELECT $1::${type} AS v`, [null])).rows[0].v, null, type);
    }
    const r = await c.query("SELECT $1::bytea AS b, $2::int[] AS a, $3::text[] AS t, $4::timestamptz AS d", [
      Buffer.from([0, 255]),
      [1, null, 3],
      ["a,b", '"', null],
      new Date(1e12),
    ]);
    assert.deepStrictEqual(r.rows[0], {
      b: Buffer.from([0, 255]),
      a: [1, null, 3],
      t: ["a,b", '"', null],
      d: new Date(1e12),
    });
    const binary = await c.query({
      text: "SELECT 5::int4 AS a, 'x'::text AS b, true AS c, 1.5::float8 AS d",
      binary: true,
    });
    assert.deepStrictEqual(binary.rows[0], { a: 5, b: "x", c: true, d: 1.5 });
  },
  async transactions(c) {
    await c.query("CREATE TABLE node_t (a int PRIMARY KEY)");
    await c.query("BEGIN");
    await c.query("INSERT INTO node_t VALUES (1)");
    await c.query("ROLLBACK");
    assert.strictEqual((await c.query("SELECT count(*)::int AS n FROM node_t")).rows[0].n, 0);
    await c.query("INSERT INTO node_t VALUES (1)");
    await assert.rejects(
      c.query("INSERT INTO node_t VALUES ($1)", [1]),
      (e) =>
        e.code === "23505" && e.table === "node_t" && e.constraint === "node_t_pkey" && e.schema === "public",
    );
    await assert.rejects(c.query("SELECT nothing"), (e) => e.code === "42703" && e.position === "8");
    await c.query("DROP TABLE node_t");
  },
  async named(c) {
    for (let i = 0; i < 5; i++)
      assert.strictEqual(
        (await c.query({ name: "n", text: "SELECT $1::int + 1 AS v", values: [i] })).rows[0].v,
        i + 1,
      );
    const several = await c.query("SELECT 1 AS a; SELECT 2 AS b");
    assert.deepStrictEqual(
      several.map((r) => r.rows[0]),
      [{ a: 1 }, { b: 2 }],
    );
  },
  async cursors(c) {
    const cursor = c.query(new Cursor("SELECT generate_series(1, $1::int) AS g", [25]));
    const sizes = [];
    for (;;) {
      const rows = await cursor.read(10);
      sizes.push(rows.length);
      if (rows.length === 0) break;
    }
    assert.deepStrictEqual(sizes, [10, 10, 5, 0]);
    const early = c.query(new Cursor("SELECT generate_series(1, 100000)"));
    await early.read(1);
    await early.close();
    assert.strictEqual((await c.query("SELECT 1 AS a")).rows[0].a, 1);
  },
  async copy(c) {
    await c.query("CREATE TABLE node_c (a int, b text)");
    await pipeline(
      Readable.from(Array.from({ length: 5000 }, (_, i) => `${i}\tx${i}\n`)),
      c.query(copyFrom("COPY node_c FROM STDIN")),
    );
    let bytes = 0;
    for await (const part of c.query(copyTo("COPY node_c TO STDOUT"))) bytes += part.length;
    assert.ok(bytes > 40000);
    await assert.rejects(
      pipeline(Readable.from(["x\ty\n"]), c.query(copyFrom("COPY node_c FROM STDIN"))),
      (e) => e.code === "22P02",
    );
    const broken = new Readable({
      read() {
        this.push("1\t2\n");
        this.destroy(new Error("broken off"));
      },
    });
    await assert.rejects(pipeline(broken, c.query(copyFrom("COPY node_c FROM STDIN"))));
    assert.strictEqual((await c.query("SELECT count(*)::int AS n FROM node_c")).rows[0].n, 5000);
    await c.query("DROP TABLE node_c");
  },
  async notifications(c) {
    const told = new Promise((done) => c.on("notification", done));
    await c.query("LISTEN node_ch");
    const other = new Client(settings);
    await other.connect();
    await other.query("NOTIFY node_ch, 'hi'");
    await other.end();
    assert.strictEqual((await told).payload, "hi");
  },
  async pool() {
    const pool = new Pool({ ...settings, max: 5 });
    const all = await Promise.all(
      Array.from({ length: 200 }, (_, i) => pool.query("SELECT $1::int AS v", [i])),
    );
    assert.strictEqual(
      all.reduce((sum, r) => sum + r.rows[0].v, 0),
      19900,
    );
    await pool.end();
  },
};
(async () => {
  for (const [name, exercise] of Object.entries(exercises)) {
    const c = new Client(settings);
    c.on("error", () => {});
    try {
      await c.connect();
      await exercise(c);
      console.log("ok", name);
    } catch (e) {
      console.log("FAIL", `${name}:`, String(e.message).split("\n")[0]);
    }
    await c.end().catch(() => {});
  }
})();
