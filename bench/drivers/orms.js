// Sequelize, TypeORM and Knex: schemas that they make and change, and what they ask. Prints a line for each
// exercise.
require("reflect-metadata");
const assert = require("assert");
const { Sequelize, DataTypes, Op } = require("sequelize");
const { DataSource, EntitySchema } = require("typeorm");
const knex = require("knex");

const url = `postgres://postgres@127.0.0.1:${process.argv[2]}/postgres`;

async function sequelize() {
  const s = new Sequelize(url, { logging: false });
  const User = s.define("user", {
    name: { type: DataTypes.STRING, allowNull: false, unique: true },
    born: DataTypes.DATEONLY,
    note: DataTypes.TEXT,
    tags: DataTypes.ARRAY(DataTypes.STRING),
    more: DataTypes.JSONB,
  });
  const Post = s.define(
    "post",
    { title: DataTypes.STRING, price: DataTypes.DECIMAL(10, 2) },
    { indexes: [{ fields: ["title"] }] },
  );
  User.hasMany(Post);
  Post.belongsTo(User);
  await s.sync({ force: true });
  const posts = [{ title: "t", price: 1.5 }];
  await User.create({ name: "ann", born: "2000-01-01", tags: ["x", "y"], more: { a: 1 }, posts }, { include: [Post] });
  assert.strictEqual((await User.bulkCreate([{ name: "bob" }, { name: "cy" }], { returning: true })).length, 2);
  await User.upsert({ name: "bob", note: "new" }, { conflictFields: ["name"] });
  assert.strictEqual(await User.count({ where: { note: "new" } }), 1);
  const where = { name: { [Op.iLike]: "%a%" } };
  const found = await User.findAll({ include: [Post], order: [["id", "ASC"]], limit: 2, where });
  assert.deepStrictEqual([found.length, found[0].posts.length, found[0].more], [1, 1, { a: 1 }]);
  assert.strictEqual((await User.findAll({ where: { more: { a: 1 } } })).length, 1);
  const sums = { attributes: ["userId", [s.fn("SUM", s.col("price")), "sum"]], group: ["userId"], raw: true };
  assert.deepStrictEqual(await Post.findAll(sums), [{ userId: 1, sum: "1.50" }]);
  await s.transaction(async (transaction) => {
    const row = await User.findOne({ where: { name: "ann" }, lock: transaction.LOCK.UPDATE, skipLocked: true, transaction });
    await row.update({ note: "changed" }, { transaction });
  });
  await assert.rejects(User.create({ name: "ann" }), { name: "SequelizeUniqueConstraintError" });
  await s.sync({ alter: true });
  const q = s.getQueryInterface();
  assert.strictEqual((await q.describeTable("users")).id.primaryKey, true);
  assert.strictEqual((await q.showIndex("users")).length, 3);
  assert.strictEqual((await q.getForeignKeyReferencesForTable("posts")).length, 1);
  await q.addColumn("users", "extra", { type: DataTypes.INTEGER, defaultValue: 5 });
  await q.renameColumn("users", "extra", "more_of_it");
  await q.removeColumn("users", "more_of_it");
  await s.close();
}

// It makes its type in a block of PL/pgSQL.
async function sequelize_enum() {
  const s = new Sequelize(url, { logging: false });
  s.define("state", { state: DataTypes.ENUM("a", "b") });
  await s.sync();
  await s.close();
}

async function typeorm() {
  const Person = new EntitySchema({
    name: "Person",
    columns: {
      id: { type: Number, primary: true, generated: true },
      name: { type: String, unique: true },
      at: { type: "timestamptz", createDate: true },
      key: { type: "uuid", generated: "uuid" },
      amount: { type: "numeric", precision: 10, scale: 2, nullable: true },
      kind: { type: "enum", enum: ["x", "y"], default: "x" },
      more: { type: "jsonb", default: {} },
    },
    relations: { pets: { type: "one-to-many", target: "Pet", inverseSide: "owner" } },
  });
  const owner = { type: "many-to-one", target: "Person", inverseSide: "pets", onDelete: "CASCADE", joinColumn: true };
  const Pet = new EntitySchema({
    name: "Pet",
    columns: { id: { type: Number, primary: true, generated: "identity" }, name: { type: String } },
    indices: [{ columns: ["name"] }],
    relations: { owner },
  });
  const d = new DataSource({ type: "postgres", url, uuidExtension: "pgcrypto", entities: [Person, Pet] });
  await d.initialize();
  await d.synchronize();
  assert.deepStrictEqual((await d.driver.createSchemaBuilder().log()).upQueries, []);
  const people = d.getRepository("Person");
  const ann = await people.save({ name: "ann", amount: 3.25, more: { a: 1 } });
  await d.getRepository("Pet").save({ name: "rex", owner: ann });
  const found = await people.find({ relations: { pets: true }, take: 2, skip: 0, order: { id: "ASC" } });
  assert.deepStrictEqual([found[0].pets[0].name, found[0].amount, found[0].more], ["rex", "3.25", { a: 1 }]);
  const counts = people.createQueryBuilder("p").leftJoin("p.pets", "t").select("p.kind", "k");
  const grouped = await counts.addSelect("count(t.id)", "n").groupBy("p.kind").getRawMany();
  assert.deepStrictEqual(grouped, [{ k: "x", n: "1" }]);
  await people.upsert({ name: "ann", amount: 1 }, ["name"]);
  await d.transaction((m) => m.getRepository("Person").update({ name: "ann" }, { amount: 2 }));
  assert.strictEqual((await people.findOneBy({ name: "ann" })).amount, "2.00");
  await d.destroy();
}

async function knex_() {
  const k = knex({ client: "pg", connection: url });
  await k.schema.createTable("kept", (t) => {
    t.increments();
    t.string("a").index();
    t.timestamps(true, true);
    t.uuid("key").defaultTo(k.raw("gen_random_uuid()"));
    t.jsonb("more").defaultTo("{}");
    t.enu("kind", ["q", "w"], { useNative: true, enumName: "kept_kind" });
  });
  await k.schema.alterTable("kept", (t) => {
    t.integer("b").notNullable().defaultTo(3);
    t.renameColumn("a", "c");
    t.unique(["c", "b"]);
  });
  assert.deepStrictEqual(await k("kept").insert([{ c: "x" }, { c: "y" }], ["id"]), [{ id: 1 }, { id: 2 }]);
  assert.strictEqual((await k("kept").insert({ c: "x", b: 3 }).onConflict(["c", "b"]).merge().returning("id"))[0].id, 1);
  assert.strictEqual(await k.schema.hasTable("kept"), true);
  assert.strictEqual((await k("kept").columnInfo()).b.nullable, false);
  const migration = { up: (k) => k.schema.createTable("made", (t) => t.bigIncrements()), down: (k) => k.schema.dropTable("made") };
  const source = { getMigrations: async () => ["one"], getMigrationName: (m) => m, getMigration: async () => migration };
  assert.deepStrictEqual((await k.migrate.latest({ migrationSource: source }))[1], ["one"]);
  assert.deepStrictEqual((await k.migrate.rollback({ migrationSource: source }))[1], ["one"]);
  await k.destroy();
}

(async () => {
  for (const [name, exercise] of Object.entries({ sequelize, sequelize_enum, typeorm, knex: knex_ })) {
    try {
      await exercise();
      console.log("ok", name);
    } catch (e) {
      console.log(`FAIL ${name}: ${String(e.message).replace(/\s+/g, " ").slice(0, 300)}`);
    }
  }
  process.exit(0);
})();
