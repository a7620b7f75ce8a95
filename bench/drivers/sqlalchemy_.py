"""SQLAlchemy 2: tables, reflection, its unit of work. Prints a line for each exercise."""

import datetime
import decimal
import sys
import uuid

import sqlalchemy as sa
from sqlalchemy import orm

URL = f"postgresql+psycopg://postgres@127.0.0.1:{sys.argv[1]}/postgres"
engine = sa.create_engine(URL)
exercises = []


def exercise(f):
    exercises.append(f)
    return f


class Base(orm.DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "sa_author"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(30), unique=True)
    born: orm.Mapped[datetime.date | None]
    worth: orm.Mapped[decimal.Decimal] = orm.mapped_column(sa.Numeric(10, 2), default=0)
    key: orm.Mapped[uuid.UUID] = orm.mapped_column(default=uuid.uuid4)
    tags: orm.Mapped[list] = orm.mapped_column(sa.ARRAY(sa.Text), default=list)
    books: orm.Mapped[list["Book"]] = orm.relationship(back_populates="author", cascade="all, delete-orphan")


class Book(Base):
    __tablename__ = "sa_book"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    author_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("sa_author.id", ondelete="CASCADE"))
    title: orm.Mapped[str] = orm.mapped_column(sa.Text, index=True)
    author: orm.Mapped[Author] = orm.relationship(back_populates="books")


@exercise
def makes_tables():
    Base.metadata.drop_all(engine)
    Base.metadata.create_all(engine)
    assert sa.inspect(engine).has_table("sa_book")


@exercise
def unit_of_work():
    with orm.Session(engine) as s:
        s.add_all(
            Author(name=f"a{i}", tags=["x", "y"], books=[Book(title=f"t{n}") for n in range(3)])
            for i in range(50)
        )
        s.commit()
        assert s.scalar(sa.select(sa.func.count()).select_from(Book)) == 150
        a = s.scalars(
            sa.select(Author).options(orm.selectinload(Author.books)).where(Author.name == "a7")
        ).one()
        assert len(a.books) == 3 and a.tags == ["x", "y"]
        a.books.pop()
        a.name = "changed"
        s.commit()
        s.delete(s.get(Author, a.id))
        s.commit()
        s.add(Author(name="a1"))
        try:
            s.commit()
            raise AssertionError("no error")
        except sa.exc.IntegrityError as e:
            assert e.orig.diag.constraint_name == "sa_author_name_key"
            s.rollback()
        with s.begin_nested() as part:
            s.add(Author(name="nested"))
            s.flush()
            part.rollback()
        assert s.scalar(sa.select(sa.func.count()).select_from(Author)) == 49


@exercise
def statements():
    with engine.begin() as c:
        insert = sa.dialects.postgresql.insert(Author.__table__).values(name="a1", worth=5)
        upsert = insert.on_conflict_do_update(index_elements=["name"], set_={"worth": insert.excluded.worth})
        assert c.execute(upsert.returning(Author.__table__.c.worth)).scalar() == 5
        names = sa.select(Author.name).order_by(Author.name)
        rows = c.execute(names, execution_options={"stream_results": True})
        assert len(list(rows)) == 49
        c.execute(sa.insert(Book.__table__), [{"author_id": 1, "title": f"m{i}"} for i in range(500)])


@exercise
def reflects_tables():
    found = sa.MetaData()
    found.reflect(engine)
    t = found.tables["sa_book"]
    assert [f.column.table.name for f in t.foreign_keys] == ["sa_author"]
    assert isinstance(found.tables["sa_author"].c.worth.type, sa.Numeric)


def reflection(name, call):
    def f():
        call(sa.inspect(engine))

    f.__name__ = f"reflects_{name}"
    exercise(f)


for name in [
    "columns",
    "pk_constraint",
    "foreign_keys",
    "indexes",
    "unique_constraints",
    "check_constraints",
    "table_comment",
    "table_options",
]:
    reflection(name, lambda i, name=name: getattr(i, f"get_{name}")("sa_author"))
for name in [
    "table_names",
    "view_names",
    "schema_names",
    "sequence_names",
    "temp_table_names",
    "materialized_view_names",
]:
    reflection(name, lambda i, name=name: getattr(i, f"get_{name}")())
for name in ["enums", "domains"]:
    reflection(name, lambda i, name=name: getattr(i, f"get_{name}")())

for f in exercises:
    try:
        f()
        print("ok", f.__name__)
    except Exception as e:
        print(f"FAIL {f.__name__}: {type(e).__name__}: {str(e).splitlines()[0]}")
