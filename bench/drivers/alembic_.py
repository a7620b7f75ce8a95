"""Alembic: a schema made by SQLAlchemy is found to be as it was declared, and is changed by operations.
Prints a line for each exercise."""

import datetime
import enum
import sys

import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy.orm import DeclarativeBase, Session, mapped_column, relationship

engine = sa.create_engine(f"postgresql+psycopg://postgres@127.0.0.1:{sys.argv[1]}/postgres")


class Base(DeclarativeBase):
    metadata = sa.MetaData(schema="shop")


class Kind(enum.Enum):
    small = 1
    large = 2


class Item(Base):
    __tablename__ = "item"
    id = mapped_column(sa.Integer, primary_key=True)
    name = mapped_column(sa.String(30), nullable=False, server_default="none", comment="what it is called")
    price = mapped_column(sa.Numeric(10, 3))
    at = mapped_column(sa.DateTime(timezone=True), server_default=sa.func.now())
    weight = mapped_column(sa.Float)
    kind = mapped_column(sa.Enum(Kind, name="kind"))
    sizes = mapped_column(sa.ARRAY(sa.Integer))
    keeps = mapped_column(sa.Interval)
    more = mapped_column(sa.JSON)
    twice = mapped_column(sa.Integer, sa.Computed("id * 2", persisted=True))
    __table_args__ = (
        sa.UniqueConstraint("name", "price", name="once"),
        sa.CheckConstraint("weight > 0", name="weighs"),
        sa.Index("by_lower_name", sa.text("lower(name)")),
        sa.Index("dear", "price", postgresql_where=sa.text("price > 3"), postgresql_include=["weight"]),
        {"comment": "what is sold"},
    )


class Sale(Base):
    __tablename__ = "sale"
    id = mapped_column(sa.BigInteger, sa.Identity(always=True, start=5, increment=2), primary_key=True)
    item_id = mapped_column(
        sa.ForeignKey("shop.item.id", ondelete="SET NULL", deferrable=True, initially="DEFERRED", name="sold")
    )
    item = relationship(Item)


def differences(connection):
    is_ours = {"include_name": lambda name, type_, _: type_ != "schema" or name == "shop"}
    wanted = {"include_schemas": True, "compare_type": True, "compare_server_default": True, **is_ours}
    return compare_metadata(MigrationContext.configure(connection, opts=wanted), Base.metadata)


def is_as_declared():
    with engine.begin() as c:
        c.execute(sa.text("CREATE SCHEMA shop"))
    Base.metadata.create_all(engine)
    with engine.connect() as c:
        found = differences(c)
        assert found == [], found


def changes_what_is_there():
    with engine.begin() as c:
        op = Operations(MigrationContext.configure(c))
        op.add_column("item", sa.Column("new", sa.String(5), server_default="v"), schema="shop")
        text = {"type_": sa.Text(), "nullable": False, "new_column_name": "newer", "comment": "hm"}
        op.alter_column("item", "new", schema="shop", **text)
        key = sa.Column("id", sa.Uuid, primary_key=True, server_default=sa.text("gen_random_uuid()"))
        op.create_table("other", key, sa.Column("sale", sa.BigInteger), schema="shop")
        schemas = {"source_schema": "shop", "referent_schema": "shop"}
        op.create_foreign_key("of", "other", "sale", ["sale"], ["id"], onupdate="CASCADE", **schemas)
        op.create_index("by_sale", "other", ["sale"], schema="shop", unique=True)
        op.drop_constraint("of", "other", schema="shop")
        op.drop_index("by_sale", schema="shop", table_name="other")
        op.rename_table("other", "last", schema="shop")
    with engine.connect() as c:
        found = [f[0] for f in differences(c)]
        assert sorted(found) == ["remove_column", "remove_table"], found
    with engine.begin() as c:
        op = Operations(MigrationContext.configure(c))
        op.drop_column("item", "newer", schema="shop")
        op.drop_table("last", schema="shop")
    with engine.connect() as c:
        assert differences(c) == []


def keeps_objects():
    day = datetime.timedelta(days=2)
    with Session(engine) as s:
        item = Item(name="a", price=3.5, weight=1.5, kind=Kind.large, sizes=[1, 2], keeps=day, more={"a": [1]})
        s.add(Sale(item=item))
        s.commit()
        columns = (Item.name, Item.twice, Item.keeps, Item.sizes, Item.kind, Item.more)
        found = s.execute(sa.select(*columns).where(Item.id == item.id)).all()
        assert found == [("a", 2, day, [1, 2], Kind.large, {"a": [1]})], found


for exercise in [is_as_declared, changes_what_is_there, keeps_objects]:
    try:
        exercise()
        print("ok", exercise.__name__, flush=True)
    except Exception as e:
        print(f"FAIL {exercise.__name__}: {type(e).__name__}: {' '.join(str(e).split())[:300]}", flush=True)
