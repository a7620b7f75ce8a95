"""Values of each type: plain ones that meet each other often, and those at the edges."""

PLAIN = {
    "boolean": ["true", "false"],
    "smallint": ["0", "1", "2", "3", "5", "-1"],
    "integer": ["0", "1", "2", "3", "4", "5", "7", "-1"],
    "bigint": ["0", "1", "2", "3", "6", "-2"],
    "numeric": ["0", "1", "1.5", "2.0", "2.00", "-0.5", "3.25"],
    "double precision": ["0", "1", "1.5", "2", "-0.5", "3.25"],
    "text": ["'a'", "'b'", "'ab'", "'B'", "''", "'a '", "'c'"],
    "varchar(5)": ["'a'", "'b'", "'ab'", "''", "'a '"],
    "char(3)": ["'a'", "'b'", "'ab'", "''", "'a '"],
    "bytea": [r"'\x'", r"'\x00'", r"'\x61'", r"'\x6162'"],
    "date": ["'2020-01-01'", "'2020-02-29'", "'1999-12-31'", "'2020-01-02'"],
    "timestamp": ["'2020-01-01 00:00:00'", "'2020-02-29 12:34:56.789'", "'1999-12-31 23:59:59'"],
    "timestamptz": ["'2020-01-01 00:00:00+00'", "'2020-02-29 12:34:56.789+02'", "'1999-12-31 23:59:59-08'"],
    "real": ["0", "1", "1.5", "2", "-0.5", "3.25"],
    "uuid": ["'00000000-0000-0000-0000-000000000001'", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "'{ffffffff-ffff-ffff-ffff-ffffffffffff}'"],
    "interval": ["'1 day'", "'24:00:00'", "'1 mon'", "'30 days'", "'-01:30:00'", "'1 year 2 mons 3 days 04:05:06.789'", "'00:00:00'"],
    "oid": ["'0'", "'1'", "'2'", "'5'"],
    "name": ["'a'", "'b'", "'ab'", "''"],
    '"char"': ["'a'", "'b'", "'B'"],
    "jsonb": ["'null'", "'1'", "'\"a\"'", "'[]'", "'{}'", "'true'", "'[1, 2]'", "'{\"a\": 1}'", "'{\"a\": [1, {\"b\": null}], \"b\": \"x\"}'", "'[{\"a\": 1}, \"a\"]'", "'1.50'"],
    "json": ["'null'", "'1'", "' \"a\"'", "'[ ]'", "'{}'", "'[1, 2]'", "'{\"a\":1, \"a\" : 2}'", "'{\"a\": [1,{\"b\":null}], \"b\":\"x\"}'"],
    "integer[]": ["'{}'", "'{1}'", "'{1,2}'", "'{1,2,3}'", "'{2,1}'", "'{1,NULL}'", "'{{1,2},{3,4}}'", "'{3,1,2,1}'"],
    "text[]": ["'{}'", "'{a}'", "'{a,b}'", "'{b,NULL,a}'", "'{{a,b},{ab,c}}'", "'{\"\",\"a \"}'"],
}

ODD = {
    "boolean": [],
    "smallint": ["32767", "-32768", "100"],
    "integer": ["2147483647", "-2147483648", "65536", "100", "10", "64"],
    "bigint": ["9223372036854775807", "-9223372036854775808", "4294967296", "1000000007"],
    "numeric": ["99999999999999999999.99", "1e-20", "'NaN'", "'Infinity'", "'-Infinity'", "0.000", "123456.789000", "-9.999999999999999", "1e30", "0.1", "1e-300", "12345678901234567890123456789012345678.5"],
    "double precision": ["'NaN'", "'Infinity'", "'-Infinity'", "'-0'", "1e308", "1e-308", "0.1", "1e15", "123456789.125", "1e-5", "2.5", "5e-324"],
    "text": ["'A%_'", r"'a\b'", "'é'", "'日本'", "' x '", "'abcabc'", "'12'", "'-3.5'", "'t'", "'NULL'", "'2020-01-01'", "'a''b'", "'%a%'", "'_'", r"'\x41'", "E'a\\tb\\nc'", "'ß'", "'ÀÉ'", "'null'", "'UTF8'", "'hex'", "'base64'", "'escape'", "'year'", "'YWJj'"],
    "varchar(5)": ["'abcde'", "'日本語'"],
    "char(3)": ["'abc'", "' a'", "'é'"],
    "bytea": [r"'\xff00ff'", r"'\xdeadbeef'", "'abc'", r"'\000'", r"'\xc3a9'"],
    "date": ["'infinity'", "'-infinity'", "'4713-01-01 BC'", "'5874897-12-31'", "'0001-01-01'", "'1900-03-01'", "'2000-02-29'", "'1970-01-01'"],
    "timestamp": ["'infinity'", "'-infinity'", "'294276-12-31 23:59:59.999999'", "'0044-03-15 BC'", "'2000-01-01'", "'1970-01-01 00:00:00.000001'"],
    "timestamptz": ["'infinity'", "'-infinity'", "'2000-01-01 00:00:00+14'", "'0044-03-15 BC'", "'1970-01-01 00:00:00.5+00'"],
    "real": ["'NaN'", "'Infinity'", "'-Infinity'", "'-0'", "3.4e38", "1e-38", "0.1", "16777217", "1e-45"],
    "uuid": [],
    "interval": ["'-1 mons +30 days'", "'178956970 years 7 mons'", "'2147483647 days'", "'2562047788:00:54.775807'", "'0.1 month'", "'P1Y2M3DT4H5M6.7S'", "'1.5 weeks ago'", "'-00:00:00.000001'"],
    "oid": ["'4294967295'", "'2147483648'", "'-1'"],
    "name": ["'A name'", "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'", "'é'", "'a '"],
    '"char"': ["'abc'", "' '", "'~'"],
    "jsonb": ["'\"\\u00e9\\ud83d\\ude00\\n\\\"\"'", "'[[], [[1]], {}]'", "'{\"\": 1, \"aa\": -0.0, \"b\": 1e20}'", "'{\"a\": {\"a\": {\"a\": []}}}'", "'[1, 1.0, \"1\", null, true]'", "'{\"a\":'", "'\"\\u0000\"'", "'01'", "'[1,]'", "'12345678901234567890.123'"],
    "json": ["'\"\\u00e9\\ud83d\\ude00\\n\\\"\"'", "'{\"a\": \"\\ud83d\"}'", "'{\"a\":null,\"b\":[null,{\"c\":null}]}'", "' [1, 1.0 ,\"1\" ]'", "'{a:1}'", "'\"a'", "'{\"a\" 1}'"],
    "integer[]": ["'[0:1]={1,2}'", "'[-2:-1][5:6]={{1,2},{3,NULL}}'", "'{NULL}'", "'{2147483647,-2147483648}'", "'{{{1},{2}},{{3},{4}}}'", "'[2147483646:2147483646]={1}'"],
    "text[]": ["'{NULL,\"NULL\"}'", r"""'{"a\"b","c\\d",",","{}"}'""", "'{日本,é}'", "'[3:4]={x,y}'", "'{12,-3.5}'", "'{t,2020-01-01}'"],
}

NUMBERS = ("smallint", "integer", "bigint", "numeric", "real", "double precision")
# json cannot be compared: it stands where a function takes it.
TYPES = [t for t in PLAIN if t != "json"]


def literal(rng, ty, odd=0.3, null=0.08):
    """A value with its type said."""
    if rng.random() < null:
        return f"NULL::{ty}"
    text = bare(rng, ty, odd)
    return f"{text}::{ty}" if text.startswith(("'", "E'")) or rng.random() < 0.8 or "-" in text else text


def bare(rng, ty, odd=0.3):
    """A value as it stands in VALUES for a column of the type."""
    if ODD[ty] and rng.random() < odd:
        text = rng.choice(ODD[ty])
    else:
        text = rng.choice(PLAIN[ty])
    if text.startswith("-") or (ty in NUMBERS and not text.startswith("'")):
        return f"'{text}'"
    return text
