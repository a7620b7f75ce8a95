"""SQLAlchemy's own compliance suite for dialects: a line for each of its classes, with how many tests passed."""

import collections
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

import psycopg

# Without the extensions that it makes first, which only tests of citext and hstore need.
RUN = """
import sys, pytest, sqlalchemy.dialects.postgresql.provision as provision
provision._extensions = []
sys.exit(pytest.main(sys.argv[1:]))
"""
port, suite = sys.argv[1:]
with psycopg.connect(f"host=127.0.0.1 port={port} user=postgres dbname=postgres", autocommit=True) as c:
    for name in ["test_schema", "test_schema_2"]:
        c.execute(f"CREATE SCHEMA IF NOT EXISTS {name}")
with tempfile.TemporaryDirectory() as folder:
    told = pathlib.Path(folder) / "told.xml"
    address = f"postgresql+psycopg://postgres@127.0.0.1:{port}/postgres"
    words = ["-c", RUN, "test/dialect/test_suite.py", "--dburi", address, "--junitxml", told]
    quiet = ["-q", "--tb=no", "--maxfail=1000000", "-p", "no:cacheprovider", "-p", "no:warnings"]
    done = subprocess.run([sys.executable, *words, *quiet], cwd=suite, capture_output=True, text=True)
    if not told.exists():
        sys.exit(done.stdout + done.stderr)
    cases = list(xml.parse(told).getroot().iter("testcase"))
passed, skipped, failed = (collections.Counter() for _ in range(3))
why = {}
for case in cases:
    # test.dialect.test_suite.JSONTest_postgresql+psycopg_15_0
    name = case.get("classname").split(".")[-1].split("_postgresql")[0]
    bad = case.find("failure") if case.find("failure") is not None else case.find("error")
    if bad is not None:
        failed[name] += 1
        why.setdefault(name, bad.get("message", "").splitlines()[0][:150])
    elif case.find("skipped") is not None:
        skipped[name] += 1
    else:
        passed[name] += 1
for name in sorted(set(passed) | set(failed)):
    count = f"{passed[name]} passed, {failed[name]} failed, {skipped[name]} skipped"
    print(f"FAIL {name}: {count}; {why[name]}" if failed[name] else f"ok {name}")
total = [sum(n.values()) for n in (passed, failed, skipped)]
print("{} passed, {} failed, {} skipped".format(*total))
