"""Parameters: where they stand in a statement, and what is sent of them."""

import datetime
import decimal
import json
import re
import uuid

# What a percent sign may stand for, and where it stands for nothing: in texts, names and comments.
_PIECES = re.compile(
    r"""(?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/|(?P<dollar>\$[A-Za-z_]*\$).*?(?P=dollar))"""
    r"""|%\((?P<name>[^)]*)\)s|(?P<place>%s)|(?P<percent>%%)|(?P<other>%)""",
    re.DOTALL,
)


def numbered(sql, params, error):
    """The statement with $1 and so on, and the values in their order. Without parameters it is as it stands."""
    if params is None:
        return sql, []
    is_named = hasattr(params, "keys")
    if not is_named:
        params = list(params)
    values, numbers = [], {}

    def replaced(found):
        if found["text"] is not None:
            return found["text"].replace("%%", "%")
        if found["percent"]:
            return "%"
        if found["other"]:
            raise error("expected %%s, %%(name)s or %%%% behind %r" % sql[: found.start() + 1][-20:])
        name = found["name"]
        if (name is not None) != is_named:
            wanted, given = ("names", "places") if is_named else ("places", "names")
            raise error("the parameters are given by %s, but stand in the statement by %s" % (wanted, given))
        if name is not None:
            if name not in numbers:
                if name not in params:
                    raise error("the parameter %r is not given" % name)
                values.append(params[name])
                numbers[name] = len(values)
            return "$%d" % numbers[name]
        if len(values) == len(params):
            raise error("expected more than %d parameters" % len(params))
        values.append(params[len(values)])
        return "$%d" % len(values)

    text = _PIECES.sub(replaced, sql)
    if not is_named and len(values) != len(params):
        raise error("expected %d parameters, found %d" % (len(values), len(params)))
    return text, values


_PLAIN = (bool, int, float, str, bytes, bytearray)


def adapted(value):
    """The value as it is sent: of a type that the library takes, or its text."""
    if value is None or type(value) in _PLAIN:
        return value
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, (list, tuple)):
        return _array(value)
    if isinstance(value, dict):
        return json.dumps(value)
    if isinstance(value, datetime.timedelta):
        return "%d days %d seconds %d microseconds" % (value.days, value.seconds, value.microseconds)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (decimal.Decimal, uuid.UUID)):
        return str(value)
    # One that is derived of these.
    for plain in _PLAIN:
        if isinstance(value, plain):
            return plain(value)
    raise TypeError("a value of the type %s cannot be a parameter" % type(value).__name__)


def _array(items):
    """An array's text."""
    shown = []
    for item in items:
        if isinstance(item, (list, tuple)):
            shown.append(_array(item))
            continue
        item = adapted(item)
        if item is None:
            shown.append("NULL")
        elif isinstance(item, bool):
            shown.append("t" if item else "f")
        elif isinstance(item, (bytes, bytearray)):
            shown.append('"\\\\x%s"' % item.hex())
        else:
            shown.append('"%s"' % str(item).replace("\\", "\\\\").replace('"', '\\"'))
    return "{%s}" % ",".join(shown)
