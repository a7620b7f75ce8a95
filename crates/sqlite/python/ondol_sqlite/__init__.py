"""Loads the VFS "ondol" into Python's SQLite.

    import sqlite3, ondol_sqlite

    with sqlite3.connect(":memory:") as loader:
        ondol_sqlite.load(loader)  # once for the process
    db = sqlite3.connect("file:app.db?vfs=ondol", uri=True)
"""
import pathlib

__all__ = ["load"]

LIBRARY = pathlib.Path(__file__).with_name("libondol_sqlite.so")


def load(connection):
    """Loads the library through a connection; it stays until the process ends, for all connections opened
    later.

    Raises FileNotFoundError where the package lacks its library, sqlite3.NotSupportedError or AttributeError
    where this Python's SQLite loads no extensions, and sqlite3.OperationalError where SQLite refuses it.
    Extension loading is off afterwards.
    """
    if not LIBRARY.exists():
        raise FileNotFoundError(f"{LIBRARY} is missing: copy target/release/libondol_sqlite.so there, then build the wheel")
    connection.enable_load_extension(True)
    try:
        connection.load_extension(str(LIBRARY.with_suffix("")))
    finally:
        connection.enable_load_extension(False)
