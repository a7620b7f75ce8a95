"""SQLite in the guest: what the last power cut left is looked at, by our extension and by stock SQLite; then
writers write until the next cut. The host judges what is told (sqlite.py)."""
import ctypes
import os
import shutil
import sqlite3
import subprocess
import time

import history
import main as guest

FOLDER = "/mnt/files"
PATH = FOLDER + "/a.db"


# What SQLite notes in its log: why something could not be opened is only there.
LOG = []


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
def log(_, code, text):
    LOG.append(f"({code}) {text.decode(errors='replace')}")


def listen():
    """Before SQLite is used at all: SQLITE_CONFIG_LOG."""
    library = next(line.split()[5] for line in open("/proc/self/maps") if "libsqlite3" in line)
    if ctypes.CDLL(library).sqlite3_config(16, log, None):
        raise RuntimeError("SQLite lets nobody read its log")


def load(extension):
    loader = sqlite3.connect(":memory:")
    loader.enable_load_extension(True)
    loader.load_extension(extension)
    loader.close()


def patiently(what):
    """A lock that others hold for a moment is waited for, where SQLite itself does not."""
    end = time.monotonic() + 60
    while True:
        try:
            return what()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.01)


def connect(path, parameters):
    uri = f"file:{path}?{parameters}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=60)


def ours(said):
    if said["mode"] == "stock":
        return connect(PATH, "vfs=unix")
    return connect(PATH, f"vfs=ondol&ondol={said['mode']}&ondol_run={said['run']}")


def look(connection, writers):
    """What is in a database, as it claims."""
    def rows(who):
        return connection.execute("SELECT key, n, step, body FROM t WHERE who = ? ORDER BY key", (who,))

    found = {"integrity": "; ".join(r[0] for r in connection.execute("PRAGMA integrity_check"))}
    found["last"] = [n for (n,) in connection.execute("SELECT n FROM last ORDER BY who")]
    found["digest"] = [history.digest(rows(who)) for who in range(writers)]
    return found


def attempt(what):
    try:
        return what()
    except sqlite3.DatabaseError as error:
        return {"error": f"{error}; SQLite's log: {LOG[-5:]}"}


def stock(path, writers):
    connection = connect(path, "vfs=unix")
    try:
        # A rollback journal that is hot is played back here, and a WAL recovered.
        return look(connection, writers)
    finally:
        connection.close()


def files():
    return {name: os.path.getsize(f"{FOLDER}/{name}") for name in sorted(os.listdir(FOLDER)) if "a.db" in name}


def versions():
    with open(PATH, "rb") as file:
        return list(file.read(20)[18:])


def status(connection):
    return dict(connection.execute("SELECT name, value FROM ondol_status WHERE database = 'main'"))


def examine(said):
    """What the cut has left, by whom it can be read, and what there is after we let it go."""
    writers = said["writers"]
    found = {"files": files(), "versions": versions()}
    marked = found["versions"][1] == 3
    if not marked:
        # In SQLite's layout, stock SQLite must recover the same from the same files.
        os.makedirs("/mnt/copy")
        for name in ("a.db", "a.db-wal", "a.db-journal"):
            if os.path.exists(f"{FOLDER}/{name}"):
                shutil.copyfile(f"{FOLDER}/{name}", f"/mnt/copy/{name}")
        found["copy"] = attempt(lambda: stock("/mnt/copy/a.db", writers))
        shutil.rmtree("/mnt/copy")
    if said["stock_first"]:
        found["stock_first"] = attempt(lambda: stock(PATH, writers))
        if marked:
            found["left"] = files()
    connection = ours(said)
    found["ours"] = attempt(lambda: connection.execute("PRAGMA synchronous=FULL") and look(connection, writers))
    if "error" not in found["ours"]:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if said["detach"]:
            attempt(lambda: connection.execute("PRAGMA ondol_detach").fetchall())
            found["detached"] = versions()
    connection.close()
    found["closed"] = {"files": files(), "versions": versions()}
    found["stock"] = attempt(lambda: stock(PATH, writers))
    return found


def prepare(said):
    if said["fresh"]:
        connection = connect(PATH, "vfs=unix")
        connection.execute(f"PRAGMA page_size={said['page']}")
        connection.executescript(history.SCHEMA)
        for who in range(said["writers"]):
            connection.execute("INSERT INTO last VALUES(?, 0)", (who,))
        connection.close()
        # The database's name, and the folder's.
        os.sync()


def settle(connection, said):
    mode = connection.execute(f"PRAGMA journal_mode={said['journal']}").fetchone()[0]
    if mode.upper() != said["journal"]:
        raise RuntimeError(f"journal_mode={said['journal']} became {mode}")
    connection.execute(f"PRAGMA synchronous={said['synchronous']}")
    connection.execute(f"PRAGMA wal_autocheckpoint={said['autocheckpoint']}")
    connection.execute("PRAGMA cache_size=60")


def write(host, said, who, n):
    seed = said["history"]

    def opened():
        connection = ours(said)
        patiently(lambda: settle(connection, said))
        return connection

    connection = opened()
    while True:
        n += 1
        steps, afterwards = history.transaction(seed, who, n)
        patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
        for i, step in enumerate(steps):
            if step[0] == "put":
                row = (who, step[1], n, i, history.body(seed, who, n, i, step[2]))
                connection.execute("INSERT OR REPLACE INTO t VALUES(?, ?, ?, ?, ?)", row)
            elif step[0] == "delete":
                connection.execute("DELETE FROM t WHERE who = ? AND key = ?", (who, step[1]))
            elif step[0] == "trim":
                sql = "DELETE FROM t WHERE who = ? AND key >= ? AND key < ?"
                connection.execute(sql, (who, history.APPENDED, step[1]))
            else:
                connection.execute("SAVEPOINT s" if step[0] == "begin" else "ROLLBACK TO s")
        connection.execute("UPDATE last SET n = ? WHERE who = ?", (n, who))
        connection.execute("COMMIT")
        host.tell(done=[who, n])
        if afterwards == "reopen":
            connection.close()
            connection = opened()
        elif afterwards == "VACUUM":
            attempt(lambda: connection.execute("VACUUM"))
        elif afterwards and said["journal"] == "WAL":
            attempt(lambda: connection.execute(f"PRAGMA wal_checkpoint({afterwards})").fetchall())
        if n % 10 == 0 and said["mode"] != "stock":
            host.tell(status=status(connection))


def main(host, said):
    guest.mount(said["device"], said["fs"], FOLDER, said["fresh"], said.get("options"))
    listen()
    load(said["extension"])
    prepare(said)
    if said["fresh"] and "doctor" in said:
        done = subprocess.run([said["doctor"], "sqlite", "doctor", FOLDER], capture_output=True, text=True)
        host.tell(doctor=done.stdout + done.stderr)
    host.tell(found=None if said["fresh"] else examine(said))
    go = host.hear()
    said.update(go)
    # The journal's mode is changed alone, and a WAL taken into care.
    connection = ours(said)
    settle(connection, said)
    connection.close()
    host.tell(going=True)
    for who in range(1, said["writers"]):
        if os.fork() == 0:
            try:
                write(host, said, who, said["from"][who])
            except BaseException as error:
                host.tell(failed=f"writer {who}: {error!r}")
                time.sleep(60)
    write(host, said, 0, said["from"][0])
