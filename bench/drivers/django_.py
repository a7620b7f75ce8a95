"""Django 5: migrations, a model, introspection. Prints a line for each exercise."""

import os
import pathlib
import sys
import tempfile

import django
from django.conf import settings
from django.core.management import call_command

home = pathlib.Path(tempfile.mkdtemp())
(home / "shelf").mkdir()
(home / "shelf/__init__.py").write_text("")
(home / "shelf/models.py").write_text("""
from django.db import models

class Author(models.Model):
    name = models.CharField(max_length=30, unique=True)
    born = models.DateField(null=True)
    worth = models.DecimalField(max_digits=10, decimal_places=2, default=0)

class Book(models.Model):
    author = models.ForeignKey(Author, models.CASCADE, related_name="books")
    title = models.TextField(db_index=True)
    added = models.DateTimeField(auto_now_add=True)
    key = models.UUIDField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["author", "title"], name="once")]
""")
sys.path.insert(0, str(home))
database = {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "postgres"}
settings.configure(
    DATABASES={"default": {**database, "HOST": "127.0.0.1", "PORT": sys.argv[1]}},
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "shelf"],
    USE_TZ=True,
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
)
django.setup()
from django.db import IntegrityError, connection, models, transaction  # noqa: E402

quiet = {"stdout": open(os.devnull, "w"), "verbosity": 0}


def migrates():
    call_command("makemigrations", "shelf", **quiet)
    call_command("migrate", **quiet)


def migrates_there_and_back():
    (home / "shelf/migrations/0002_more.py").write_text("""
from django.db import migrations, models

class Migration(migrations.Migration):
    dependencies = [("shelf", "0001_initial")]
    operations = [
        migrations.AddField("book", "pages", models.IntegerField(default=1)),
        migrations.AlterField("author", "name", models.CharField(max_length=60, unique=True)),
        migrations.RenameField("book", "key", "uuid"),
        migrations.AddIndex("book", models.Index(fields=["pages"], name="by_pages")),
    ]
""")
    call_command("migrate", "shelf", **quiet)
    call_command("migrate", "shelf", "0001", **quiet)


def introspects():
    text = home / "inspected"
    with text.open("w") as out:
        call_command("inspectdb", stdout=out)
    found = text.read_text()
    assert "class ShelfBook" in found and "ForeignKey(" in found, found
    assert "Unable to inspect" not in found, found


def objects():
    from django.contrib.auth.models import User
    from shelf.models import Author, Book

    User.objects.create_user("ann", password="secret")
    authors = Author.objects.bulk_create(Author(name=f"a{i}") for i in range(50))
    Book.objects.bulk_create(Book(author=a, title=f"t{n}") for a in authors for n in range(3))
    assert Book.objects.filter(author__name__startswith="a1").count() == 33
    assert Author.objects.annotate(n=models.Count("books")).filter(n=3).count() == 50
    assert Author.objects.get_or_create(name="a1")[1] is False
    assert Author.objects.update_or_create(name="a1", defaults={"worth": 5})[1] is False
    try:
        with transaction.atomic():
            Author.objects.create(name="a1")
        raise AssertionError("no error")
    except IntegrityError:
        pass
    with transaction.atomic():
        assert len(Author.objects.select_for_update().filter(name="a2")) == 1
    assert len(list(Book.objects.order_by("id").iterator(chunk_size=10))) == 150
    assert Author.objects.filter(name="a1").delete()[0] == 4
    assert connection.vendor == "postgresql"


def flushes():
    call_command("flush", interactive=False, **quiet)


for f in [migrates, migrates_there_and_back, objects, introspects, flushes]:
    try:
        f()
        print("ok", f.__name__)
    except Exception as e:
        print(f"FAIL {f.__name__}: {type(e).__name__}: {str(e).splitlines()[0]}")
