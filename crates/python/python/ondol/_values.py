"""Values of types that Python does not have by itself, from their texts."""

import datetime
import decimal
import json
import re
import uuid

_ARRAYS = {
    1000: 16, 1001: 17, 1002: 18, 1003: 19, 1005: 21, 1007: 23, 1016: 20, 1009: 25, 1014: 1042, 1015: 1043,
    1021: 700, 1022: 701, 1028: 26, 1231: 1700, 1182: 1082, 1183: 1083, 1115: 1114, 1185: 1184, 1187: 1186,
    1270: 1266, 2951: 2950, 199: 114, 3807: 3802,
}  # fmt: skip


def _bool(text):
    return text in ("t", "true")


def _bytes(text):
    return bytes.fromhex(text[2:])


def _fraction(text):
    """Microseconds, from the digits behind a point."""
    return int((text or "").ljust(6, "0")[:6])


_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)$")
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:([+-])(\d\d)(?::?(\d\d))?(?::(\d\d))?)?$")


def _date(text):
    found = _DATE.match(text)
    return datetime.date(*map(int, found.groups())) if found else text


def _zone(sign, hours, minutes, seconds):
    if sign is None:
        return None
    past = datetime.timedelta(hours=int(hours), minutes=int(minutes or 0), seconds=int(seconds or 0))
    return datetime.timezone(-past if sign == "-" else past)


def _time(text):
    found = _TIME.match(text)
    if not found or found[1] == "24":
        return text
    return datetime.time(int(found[1]), int(found[2]), int(found[3]), _fraction(found[4]), _zone(*found.groups()[4:]))


def _moment(text):
    day, _, rest = text.partition(" ")
    day, time = _date(day), _time(rest)
    if isinstance(day, str) or isinstance(time, str):
        return text
    moment = datetime.datetime.combine(day, time)
    return moment.astimezone(datetime.timezone.utc) if moment.tzinfo else moment


_PART = re.compile(r"([+-]?\d+) (year|mon|day)s?")
_HOURS = re.compile(r"([+-]?)(\d+):(\d\d):(\d\d)(?:\.(\d+))?$")


def _interval(text):
    """A timedelta, unless there are months in it, of which nobody knows how long they are."""
    days, rest = 0, text
    for number, unit in _PART.findall(text):
        if unit != "day":
            return text
        days = int(number)
    rest = _PART.sub("", text).strip()
    found = _HOURS.match(rest) if rest else None
    if rest and not found:
        return text
    past = datetime.timedelta()
    if found:
        past = datetime.timedelta(
            hours=int(found[2]), minutes=int(found[3]), seconds=int(found[4]), microseconds=_fraction(found[5])
        )
    return datetime.timedelta(days=days) + (-past if found and found[1] == "-" else past)


_FROM_TEXT = {
    16: _bool,
    17: _bytes,
    20: int,
    21: int,
    23: int,
    26: int,
    114: json.loads,
    700: float,
    701: float,
    1082: _date,
    1083: _time,
    1114: _moment,
    1184: _moment,
    1186: _interval,
    1266: _time,
    1700: decimal.Decimal,
    2950: uuid.UUID,
    3802: json.loads,
}

# Those that come as texts though they are none.
_OPAQUE = {26, 114, 700, 1083, 1186, 1266, 2950, 3802}


def converter(oid):
    """What makes a value of a text that came; None, if the value is one already."""
    if oid in _OPAQUE:
        return _FROM_TEXT[oid]
    if oid in _ARRAYS:
        item = _FROM_TEXT.get(_ARRAYS[oid], str)
        return lambda text: _items(text, item)
    return None


_ITEM = re.compile(r'\{|\}|,|"((?:[^"\\]|\\.)*)"|([^{},"]+)', re.DOTALL)


def _items(text, item):
    """An array's items, as lists within lists."""
    if text.startswith("["):
        # Its bounds, which lists do not have.
        text = text.partition("=")[2]
    stack, found = [], None
    for piece in _ITEM.finditer(text):
        said = piece[0]
        if said == "{":
            stack.append([])
        elif said == "}":
            found = stack.pop()
            if stack:
                stack[-1].append(found)
        elif piece[1] is not None:
            stack[-1].append(item(re.sub(r"\\(.)", r"\1", piece[1], flags=re.DOTALL)))
        elif said != ",":
            stack[-1].append(None if said == "NULL" else item(said))
    return found
