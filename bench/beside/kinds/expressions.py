"""Expressions from the functions and operators that docs/sql.md lists, over constants and over the columns of
a VALUES list."""
import os
import re

from case import Case, Step
from values import PLAIN, TYPES, literal

PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "..", "docs", "sql.md")
# They tell of the time, of the server or of chance; what is in `any` is told apart by its texts.
LEFT_OUT = {"clock_timestamp", "current_database", "current_user", "gen_random_uuid", "now", "random", "session_user", "statement_timestamp", "transaction_timestamp", "version",
            "like", "notlike", "extract", "position", "overlay"}
# They tell of the catalogue, whose objects are others on both sides, or change something.
CATALOGUE = re.compile(r"pg_|has_|to_reg|obj_|col_|shobj_|row_security|format_type|current_|set_config|setval|nextval|currval|lastval|timeofday|getdatabase|inet_|txid_")
SPELLED = {"timestamp without time zone": "timestamp", "timestamp with time zone": "timestamptz", "character": "char(3)"}


# Each stands for the items' type, or for arrays of it.
POLYMORPHIC = {"anyelement": "", "anynonarray": "", "anycompatible": "", "anyarray": "[]", "anycompatiblearray": "[]"}


def of_items(ty, item):
    return item + POLYMORPHIC[ty] if ty in POLYMORPHIC else ty


def spelled(ty):
    return SPELLED.get(ty, ty)


def read():
    """result type -> [(template, argument types)]"""
    found, section = {}, ""
    # A point of a list goes on in the lines that are indented.
    for line in open(PAGE, encoding="utf-8").read().replace("\n  ", " ").splitlines():
        if line.startswith("## "):
            section = line[3:].strip()
        m = re.match(r"- `([^`]+)`: (.*)", line)
        if not m or section not in ("Functions", "Operators"):
            continue
        name, forms = m[1], m[2].split("; ")
        for form in forms:
            left, _, result = form.rpartition(" → ")
            result = spelled(result.strip())
            if section == "Functions":
                if name in LEFT_OUT or CATALOGUE.match(name):
                    continue
                inner = left.strip()[1:-1]
                arguments = [a.strip() for a in inner.split(",")] if inner else []
                if "..." in arguments:
                    arguments = [a for a in arguments if a != "..."] + ["any"] * 2
                template = f"{name}({', '.join('{}' for _ in arguments)})"
            else:
                sides = left.split(f" {name} ") if f" {name} " in left else ["", left.strip()[len(name):]]
                arguments = [a.strip() for a in sides if a.strip()]
                template = f"({name} {{}})" if len(arguments) == 1 else f"({{}} {name} {{}})"
            for item in ("integer", "text") if any(t in POLYMORPHIC for t in [result, *arguments]) else ("",):
                found.setdefault(of_items(result, item), []).append((template, [of_items(spelled(a), item) for a in arguments]))
    return found


FORMS = read()
FORMS.setdefault("boolean", []).extend([
    ("({} AND {})", ["boolean", "boolean"]), ("({} OR {})", ["boolean", "boolean"]), ("(NOT {})", ["boolean"]), ("({} IS NULL)", ["any"]),
    ("({} IS NOT TRUE)", ["boolean"]), ("({} IS UNKNOWN)", ["boolean"]), ("({} IN ({}, {}))", ["same", "same", "same"]), ("({} NOT IN ({}, {}))", ["same", "same", "same"]),
    ("({} BETWEEN {} AND {})", ["same", "same", "same"]), ("({} NOT BETWEEN SYMMETRIC {} AND {})", ["same", "same", "same"]),
    ("({} IS DISTINCT FROM {})", ["same", "same"]), ("({} < {})", ["number", "number"]), ("({} = {})", ["number", "number"]), ("({} LIKE {})", ["text", "pattern"]),
    ("({} NOT ILIKE {})", ["text", "pattern"]), ("({} LIKE {} ESCAPE '#')", ["text", "pattern"]), ("(({}, {}) < ({}, {}))", ["same", "same", "same", "same"]),
    ("(({}, {}) = ({}, {}))", ["same", "same", "same", "same"]), ("({} >= {})", ["same", "same"]), ("starts_with({}, {})", ["text", "text"]),
])
for _ty in TYPES:
    FORMS.setdefault(_ty, []).extend([
        ("CASE WHEN {} THEN {} ELSE {} END", ["boolean", _ty, _ty]), ("COALESCE({}, {})", [_ty, _ty]), ("NULLIF({}, {})", [_ty, _ty]),
        ("GREATEST({}, {}, {})", [_ty, _ty, _ty]), ("LEAST({}, {})", [_ty, _ty]), ("CASE {} WHEN {} THEN {} END", ["integer", "integer", _ty]),
    ])
for _a in ("smallint", "integer", "bigint", "numeric", "double precision", "text"):
    for _b in ("smallint", "integer", "bigint", "numeric", "double precision", "numeric(10,2)", "numeric(5,0)"):
        if _a != _b:
            FORMS.setdefault(_b, []).append(("CAST({} AS " + _b + ")", [_a]))
for _a in TYPES:
    FORMS["text"].append(("({})::text", [_a]))
    FORMS.setdefault("varchar(5)", []).append(("({})::varchar(5)", [_a]))
    FORMS.setdefault("char(3)", []).append(("({})::char(3)", [_a]))
FORMS["date"] += [("({})::date", ["timestamp"]), ("({})::date", ["timestamptz"]), ("({})::date", ["text"])]
FORMS["timestamp"] += [("({})::timestamp", ["date"]), ("({})::timestamp", ["timestamptz"]), ("({})::timestamp(2)", ["timestamp"])]
FORMS["timestamptz"] += [("({})::timestamptz", ["date"]), ("({})::timestamptz", ["timestamp"]), ("({})::timestamptz(0)", ["timestamptz"])]
FORMS["integer"] += [("({})::integer", ["boolean"]), ("position({} IN {})", ["text", "text"])]
FORMS["boolean"] += [("({})::boolean", ["integer"]), ("({})::boolean", ["text"])]
FORMS["text"] += [("overlay({} PLACING {} FROM {})", ["text", "text", "small"]), ("trim(BOTH {} FROM {})", ["text", "text"]), ("substring({} FROM {} FOR {})", ["text", "small", "small"]),
                  ("encode({}, {})", ["bytea", "coding"])]
FORMS["bytea"] += [("decode({}, {})", ["text", "coding"])]
for _t in ("integer", "text"):
    FORMS[_t] += [("({})[{}]", [_t + "[]", "small"]), ("({})[{}][{}]", [_t + "[]", "small", "small"])]
    FORMS[_t + "[]"] += [("({})[{}:{}]", [_t + "[]", "small", "small"]), ("({})[:{}]", [_t + "[]", "small"]), ("({})[{}:{}][{}:]", [_t + "[]", "small", "small", "small"]), ("ARRAY[{}, {}]", [_t, _t]),
                         ("ARRAY[{}, {}]", [_t + "[]", _t + "[]"]), ("({})::" + _t + "[]", ["text"]), ("({})::" + _t + "[]", ["text[]"]), ("({})::" + _t + "[]", ["integer[]"])]
    FORMS["boolean"] += [("({} = ANY ({}))", [_t, _t + "[]"]), ("({} <> ALL ({}))", [_t, _t + "[]"]), ("({} < ANY ({}))", [_t, _t + "[]"]), ("({} >= ALL ({}))", [_t, _t + "[]"])]
FORMS["boolean"] += [("({} LIKE ANY ({}))", ["text", "text[]"]), ("({} = ANY ({}))", ["number", "integer[]"])]
FORMS["jsonb"] += [("({})::jsonb", ["text"]), ("({})::jsonb", ["json"]), ("({})[{}][{}]", ["jsonb", "small", "key"]), ("jsonb_set({}, {}, {})", ["jsonb", "path", "jsonb"]), ("jsonb_insert({}, {}, {})", ["jsonb", "path", "jsonb"])]
FORMS["json"] += [("({})::json", ["text"]), ("({})::json", ["jsonb"])]
FORMS["text"] += [("({} #>> {})", ["jsonb", "path"]), ("({} #>> {})", ["json", "path"]), ("({} ->> {})", ["json", "key"]), ("({} ->> {})", ["jsonb", "key"])]
FORMS["jsonb"] += [("({} #> {})", ["jsonb", "path"]), ("({} #- {})", ["jsonb", "path"]), ("({} -> {})", ["jsonb", "key"])]
FORMS["numeric"].append(("({})::numeric", ["jsonb"]))
FORMS["boolean"] += [("({})::boolean", ["jsonb"]), ("({} ? {})", ["jsonb", "key"])]
for _f in ("year", "month", "day", "hour", "minute", "second", "dow", "isodow", "doy", "week", "isoyear", "epoch", "century", "decade", "millennium", "quarter",
           "milliseconds", "microseconds", "julian", "timezone", "odd"):
    for _t in ("date", "timestamp", "timestamptz"):
        FORMS["numeric"].append((f"extract({_f} FROM {{}})", [_t]))
        FORMS["double precision"].append((f"date_part('{_f}', {{}})", [_t]))
    FORMS["timestamp"].append((f"date_trunc('{_f}', {{}})", ["timestamp"]))
RESULTS = [t for t in FORMS if t != "any"]
# The argument says how much is made.
SMALL = {"repeat", "lpad", "rpad", "factorial", "<<", ">>", "round", "trunc", "power", "pow", "^", "exp", "chr", "left", "right", "set_bit", "get_bit", "substr"}


def expression(rng, ty, depth, columns=()):
    """An expression of the type; `columns`: (name, type) to be used."""
    if ty == "any":
        ty = rng.choice(TYPES)
    if ty == "number":
        ty = rng.choice(("smallint", "integer", "bigint", "numeric", "double precision"))
    if ty == "small":
        return rng.choice(("0", "1", "2", "3", "-1", "10", "NULL"))
    if ty == "pattern":
        return rng.choice(("'%'", "'a%'", "'_'", "'%b'", "'A_'", r"'a\%'", "'a#%'", r"'\'", "''", "'%a%b%'", "NULL"))
    if ty == "key":
        return rng.choice(("'a'", "'b'", "'aa'", "''", "'0'", "'1'", "NULL"))
    if ty == "path":
        return rng.choice(("'{a}'", "'{0}'", "'{a,1,b}'", "'{-1,a}'", "'{}'", "'{b,c}'", "'{1}'", "'{a,NULL}'", "'{-9}'", "'{0,0}'"))
    if ty == "coding":
        return rng.choice(("'hex'", "'base64'", "'escape'", "'HEX'", "'odd'"))
    fitting = [n for n, t in columns if t == ty]
    if fitting and rng.random() < (0.75 if depth <= 0 else 0.3):
        return rng.choice(fitting)
    if depth <= 0 or rng.random() < 0.15 or ty not in FORMS:
        return literal(rng, ty) if ty in PLAIN else f"{literal(rng, 'numeric')}::{ty}"
    template, arguments = rng.choice(FORMS[ty])
    same = rng.choice(TYPES)
    name = template.split("(")[0]
    texts = []
    for i, a in enumerate(arguments):
        if (name in SMALL or any(f" {s} " in template for s in ("<<", ">>", "^"))) and a in ("integer", "numeric", "bigint", "double precision") and (i > 0 or len(arguments) == 1):
            texts.append(rng.choice(("0", "1", "2", "3", "5", "-1", "30")) + f"::{a}" if rng.random() < 0.9 else literal(rng, a, odd=0.1 if name in ("repeat", "lpad", "rpad", "factorial", "exp") else 0.3) if a != "numeric" else "2.5")
        else:
            texts.append(expression(rng, same if a == "same" else a, depth - 1, columns))
    if name in ("repeat", "lpad", "rpad", "factorial"):
        # Large ones are no test but a load.
        texts = [t if i != (0 if name == "factorial" else 1) else rng.choice(("0", "1", "3", "-1", "12", "NULL")) for i, t in enumerate(texts)]
    return template.format(*texts)


def case(rng):
    if rng.random() < 0.5:
        items = [expression(rng, rng.choice(RESULTS), rng.choice((1, 1, 2, 2, 3))) for _ in range(rng.choice((1, 1, 2)))]
        return Case("expressions", [Step(f"SELECT {', '.join(items)}")])
    columns = [(f"c{i}", rng.choice(TYPES)) for i in range(3)]
    rows = ", ".join("(" + ", ".join(literal(rng, t) for _, t in columns) + ")" for _ in range(rng.randint(1, 4)))
    items = [expression(rng, rng.choice(RESULTS), rng.choice((1, 2, 2, 3)), columns) for _ in range(rng.choice((1, 2)))]
    where = f" WHERE {expression(rng, 'boolean', 2, columns)}" if rng.random() < 0.4 else ""
    return Case("expressions", [Step(f"SELECT {', '.join(items)} FROM (VALUES {rows}) AS v ({', '.join(n for n, _ in columns)}){where}")])
