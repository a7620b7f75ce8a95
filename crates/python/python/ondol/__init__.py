"""Ondol, a main-memory transactional SQL database: in this process, or a server's.

    db = ondol.connect("bank")            # a database's folder, made if it is not there
    db = ondol.connect("postgres://...")  # a server

By DB-API 2.0 (PEP 249), with the parameters of psycopg: %s, or %(name)s. Beyond that a connection has
execute(), executemany(), call() and batch(); a cursor is also an iterator and a context, and gives its rows as
an Arrow table.
"""

import datetime as _datetime
import os as _os
import time as _time
from collections import OrderedDict as _OrderedDict

from . import _ondol
from ._ondol import __version__
from ._parameters import adapted, numbered
from ._values import converter

apilevel = "2.0"
#: Threads may share the module, not connections.
threadsafety = 1
paramstyle = "pyformat"


class Warning(Exception):
    pass


class Error(Exception):
    """What has failed. `sqlstate` is PostgreSQL's code of five characters; `detail` and `hint` may be None."""

    sqlstate = detail = hint = None


class InterfaceError(Error):
    pass


class DatabaseError(Error):
    pass


class DataError(DatabaseError):
    pass


class OperationalError(DatabaseError):
    pass


class IntegrityError(DatabaseError):
    pass


class InternalError(DatabaseError):
    pass


class ProgrammingError(DatabaseError):
    pass


class NotSupportedError(DatabaseError):
    pass


# By the first two characters of the SQLSTATE, as psycopg has it.
_KINDS = {
    "08": OperationalError,
    "0A": NotSupportedError,
    "20": ProgrammingError,
    "21": ProgrammingError,
    "22": DataError,
    "23": IntegrityError,
    "24": InternalError,
    "25": InternalError,
    "26": ProgrammingError,
    "28": OperationalError,
    "2B": InternalError,
    "2D": InternalError,
    "34": OperationalError,
    "39": InternalError,
    "3B": OperationalError,
    "3D": ProgrammingError,
    "3F": ProgrammingError,
    "40": OperationalError,
    "42": ProgrammingError,
    "44": ProgrammingError,
    "53": OperationalError,
    "54": OperationalError,
    "55": OperationalError,
    "57": OperationalError,
    "58": OperationalError,
    "XX": InternalError,
}


def _error(sqlstate, message, detail=None, hint=None):
    """One of DB-API's exceptions."""
    further = "".join("\n%s: %s" % said for said in (("DETAIL", detail), ("HINT", hint)) if said[1])
    e = _KINDS.get(sqlstate[:2], DatabaseError)(message + further)
    e.sqlstate, e.detail, e.hint = sqlstate, detail, hint
    return e


class _failures:
    """A context in which the library's failures become DB-API's exceptions."""

    def __enter__(self):
        return self

    def __exit__(self, kind, e, trace):
        if kind is not None and issubclass(kind, _ondol.Failure):
            raise _error(*e.args) from None


_FAILURES = _failures()


def connect(whereto, autocommit=False):
    """Connects: to a server by postgres://USER:PASSWORD@HOST:PORT/DATABASE, or to a database's folder. A folder
    that a server has is talked to through it; one that is nobody's is opened in this process, and made if it is
    not there. Without `autocommit` a transaction begins with the first statement."""
    return Connection(whereto, autocommit)


class Connection:
    """A session of a database, for one thread at a time."""

    Warning, Error, InterfaceError, DatabaseError = Warning, Error, InterfaceError, DatabaseError
    DataError, OperationalError, IntegrityError = DataError, OperationalError, IntegrityError
    InternalError, ProgrammingError, NotSupportedError = InternalError, ProgrammingError, NotSupportedError

    #: Statements that stay prepared from one call to the next.
    STATEMENTS = 200

    def __init__(self, whereto, autocommit=False):
        with _FAILURES:
            self._session = _ondol.Session(_os.fspath(whereto))
        self._statements = _OrderedDict()
        self._autocommit = bool(autocommit)

    @property
    def is_remote(self):
        """Whether a server has the database."""
        return self._session.is_remote

    @property
    def closed(self):
        return self._session.is_closed()

    @property
    def in_transaction(self):
        with _FAILURES:
            return self._session.in_transaction()

    @property
    def autocommit(self):
        """Each statement commits by itself, outside a transaction that BEGIN has begun."""
        return self._autocommit

    @autocommit.setter
    def autocommit(self, on):
        if self.in_transaction:
            raise ProgrammingError("autocommit cannot be changed in a transaction: commit or roll back first")
        self._autocommit = bool(on)

    def close(self):
        """Closes it; an open transaction is rolled back."""
        self._statements.clear()
        with _FAILURES:
            self._session.close()

    def commit(self):
        """Commits the transaction, if one is open: it is on disk when this returns."""
        with _FAILURES:
            if self._session.in_transaction():
                self._session.execute("COMMIT")

    def rollback(self):
        with _FAILURES:
            if self._session.in_transaction():
                self._session.execute("ROLLBACK")

    def cancel(self):
        """Breaks off, from another thread, what the connection does: that fails with sqlstate 57014."""
        self._session.cancel()

    def cursor(self):
        if self.closed:
            raise InterfaceError("the connection is closed")
        return Cursor(self)

    def execute(self, sql, params=None):
        """A cursor that has executed it."""
        return self.cursor().execute(sql, params)

    def executemany(self, sql, all_params):
        return self.cursor().executemany(sql, all_params)

    def executescript(self, sql):
        """Runs statements without parameters, separated by semicolons; their rows are dropped."""
        self._begin()
        with _FAILURES:
            return self._session.execute(sql)

    def call(self, name, *params):
        """The rows of a registered query, as a cursor."""
        cursor = self.cursor()
        return cursor._run(self._registered(name), [params])

    def batch(self, calls, together=True):
        """Runs many statements in one message: pairs of a statement and its parameters. Gives a cursor for each.
        If they are together (and no transaction is open), all are one transaction, and the first error is the
        end of all; if not, an error is in the place of its cursor, and each is a transaction of its own."""
        if not together and not self._autocommit and not self.in_transaction:
            raise ProgrammingError("statements that commit by themselves need autocommit")
        self._begin()
        made = [self._prepared(sql, params) for sql, params in calls]
        answers = self._answers(made, together and self._autocommit)
        found = []
        for (statement, _), answer in zip(made, answers):
            if len(answer) == 2:
                cursor = self.cursor()
                cursor._take(self._columns(statement), answer)
                found.append(cursor)
            elif together:
                raise _error(*answer)
            else:
                found.append(_error(*answer))
        return found

    def __enter__(self):
        return self

    def __exit__(self, kind, e, trace):
        if self.closed:
            return
        if kind is None:
            self.commit()
        else:
            self.rollback()

    def __repr__(self):
        state = "closed" if self.closed else "a server's" if self.is_remote else "in this process"
        return "<ondol.Connection, %s>" % state

    def _begin(self):
        """Begins the transaction that statements want, before they are prepared: none of theirs is let go."""
        with _FAILURES:
            while len(self._statements) > self.STATEMENTS:
                self._session.forget(self._statements.popitem(last=False)[1])
        if not self._autocommit:
            with _FAILURES:
                if not self._session.in_transaction():
                    self._session.execute("BEGIN")

    def _kept(self, key, make):
        known = self._statements.get(key)
        if known is not None:
            self._statements.move_to_end(key)
            return known
        with _FAILURES:
            statement = self._statements[key] = make()
        return statement

    def _prepared(self, sql, params):
        """A statement's number, and its parameters in its order."""
        text, values = numbered(sql, params, ProgrammingError)
        return self._kept(text, lambda: self._session.prepare(text)), [adapted(v) for v in values]

    def _registered(self, name):
        return self._kept((name,), lambda: self._session.registered(name))

    def _columns(self, statement):
        with _FAILURES:
            return self._session.columns(statement)

    def _answers(self, calls, together):
        with _FAILURES:
            return self._session.run(calls, together)


class Cursor:
    """Runs statements, and has the rows of the last."""

    def __init__(self, connection):
        #: The connection whose it is.
        self.connection = connection
        #: For each column of the rows: name, type code (PostgreSQL's number), and five times None; None, if the
        #: last statement gives none.
        self.description = None
        #: Rows that the last statement has changed or given, or -1.
        self.rowcount = -1
        #: How many rows fetchmany() gives.
        self.arraysize = 100
        self._rows, self._at, self._types, self._is_closed = None, 0, (), False

    def close(self):
        self._is_closed, self._rows, self.description = True, None, None

    def execute(self, sql, params=None):
        """Runs a statement; gives the cursor itself."""
        self._look()
        self.connection._begin()
        statement, values = self.connection._prepared(sql, params)
        return self._run(statement, [values], has_begun=True)

    def executemany(self, sql, all_params):
        """Runs a statement with each of the parameters, in one message. In autocommit they are one transaction.
        `rowcount` is that of all."""
        self._look()
        self.connection._begin()
        made = [self.connection._prepared(sql, params) for params in all_params]
        if not made:
            self.description, self.rowcount, self._rows = None, 0, None
            return self
        return self._run(made[0][0], [values for _, values in made], has_begun=True)

    def callproc(self, name, params=()):
        """Calls a registered query, whose rows can be fetched then."""
        self._look()
        self._run(self.connection._registered(name), [params])
        return params

    def fetchone(self):
        rows = self._fetched()
        if self._at >= len(rows):
            return None
        self._at += 1
        return rows[self._at - 1]

    def fetchmany(self, size=None):
        rows = self._fetched()
        first, self._at = self._at, min(len(rows), self._at + (self.arraysize if size is None else size))
        return rows[first : self._at]

    def fetchall(self):
        rows = self._fetched()
        first, self._at = self._at, len(rows)
        return rows[first:] if first else list(rows)

    def fetch_arrow(self):
        """The rows that were not fetched yet as a table of Arrow's; it needs the package pyarrow."""
        from ._arrow import table

        names = [column[0] for column in self.description or ()]
        return table(names, self._types, self.fetchall())

    def setinputsizes(self, sizes):
        pass

    def setoutputsize(self, size, column=None):
        pass

    @property
    def rownumber(self):
        return None if self._rows is None else self._at

    def __iter__(self):
        return self

    def __next__(self):
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def __enter__(self):
        return self

    def __exit__(self, kind, e, trace):
        self.close()

    def _look(self):
        if self._is_closed:
            raise InterfaceError("the cursor is closed")
        if self.connection.closed:
            raise InterfaceError("the connection is closed")

    def _fetched(self):
        self._look()
        if self._rows is None:
            raise ProgrammingError("the last statement gives no rows")
        return self._rows

    def _run(self, statement, all_values, has_begun=False):
        self.description, self.rowcount, self._rows = None, -1, None
        connection = self.connection
        if not has_begun:
            connection._begin()
            all_values = [[adapted(v) for v in values] for values in all_values]
        together = connection._autocommit and len(all_values) > 1
        answers = connection._answers([(statement, values) for values in all_values], together)
        affected = 0
        for answer in answers:
            if len(answer) != 2:
                raise _error(*answer)
            affected += answer[0]
        self._take(connection._columns(statement), answers[-1])
        self.rowcount = affected
        return self

    def _take(self, columns, answer):
        self.rowcount, rows = answer
        self._at, self._types = 0, [oid for _, oid in columns]
        if not columns:
            self._rows = self.description = None
            return
        self.description = [(name, oid, None, None, None, None, None) for name, oid in columns]
        convert = [(i, f) for i, f in enumerate(map(converter, self._types)) if f]
        if convert:
            rows = [_converted(row, convert) for row in rows]
        self._rows = rows


def _converted(row, convert):
    values = list(row)
    for i, f in convert:
        if values[i] is not None:
            values[i] = f(values[i])
    return tuple(values)


class _Kind:
    """A kind of types, which is equal to the type codes of its types."""

    def __init__(self, *oids):
        self._oids = frozenset(oids)

    def __eq__(self, other):
        return other in self._oids if isinstance(other, int) else self is other

    def __hash__(self):
        return hash(self._oids)


STRING = _Kind(18, 19, 25, 1042, 1043)
BINARY = _Kind(17)
NUMBER = _Kind(20, 21, 23, 700, 701, 1700)
DATETIME = _Kind(1082, 1083, 1114, 1184, 1266)
ROWID = _Kind(26)

Date, Time, Timestamp = _datetime.date, _datetime.time, _datetime.datetime
Binary = bytes


def DateFromTicks(ticks):
    return Date(*_time.localtime(ticks)[:3])


def TimeFromTicks(ticks):
    return Time(*_time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks):
    return Timestamp(*_time.localtime(ticks)[:6])
