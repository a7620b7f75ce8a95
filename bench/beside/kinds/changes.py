"""INSERT, UPDATE and DELETE, after each of which the whole tables are compared."""
import tables
from case import Case, Step
from kinds.queries import FAMILY, Maker, Scope


def conflict(rng, table, maker):
    """ON CONFLICT, in all its forms."""
    target = rng.choice((" (id)", " (id)", " (id)", f" ON CONSTRAINT {table.name}_pkey", f" (id, {table.columns[1][0]})", ""))
    if rng.random() < 0.35:
        return f" ON CONFLICT{target} DO NOTHING"
    sets = []
    for name, ty in rng.sample(table.columns[1:], rng.randint(1, min(2, len(table.columns) - 1))):
        same = [n for n, t in table.columns[1:] if t == ty]
        values = [f"excluded.{name}", f"excluded.{rng.choice(same)}", f"{table.name}.{rng.choice(same)}", tables.value(rng, ty), "DEFAULT", f"COALESCE({table.name}.{name}, excluded.{name})"]
        if ty in ("integer", "bigint", "numeric"):
            values.append(f"{table.name}.{name} + excluded.{name}")
        sets.append(f"{name} = {rng.choice(values)}")
    if rng.random() < 0.1:
        sets.append(f"id = excluded.id + {rng.randint(0, 3)}")
    both = Scope([(f"{side}.{n}", t) for side in (table.name, "excluded") for n, t in table.columns])
    where = f" WHERE {maker.condition(both, 1)}" if rng.random() < 0.4 else ""
    return f" ON CONFLICT{target} DO UPDATE SET {', '.join(sets)}{where}"


def change(rng, known, next_id):
    """One changing statement; unique keys are changed so that no order of the rows matters."""
    table = rng.choice(known)
    other = known[1 - known.index(table)] if len(known) > 1 else table
    maker = Maker(rng, known)
    columns = [(f"{table.name}.{n}", t) for n, t in table.columns]
    scope = Scope(columns)
    where = f" WHERE {maker.condition(scope, 2)}" if rng.random() < 0.85 else ""
    returning = rng.choice(("", "", f" RETURNING {table.name}.id", f" RETURNING {table.name}.*"))
    roll = rng.random()
    if roll < 0.3:
        ids = [next(next_id) if rng.random() < 0.85 else rng.randint(1, 12) for _ in range(rng.choice((1, 1, 2, 3)))]
        rows = ["(" + ", ".join([str(i)] + [tables.value(rng, t) for _, t in table.columns[1:]]) + ")" for i in ids]
        if rng.random() < 0.2:
            names = [n for n, _ in table.columns]
            kept = ["id"] + rng.sample(names[1:], rng.randint(0, len(names) - 1))
            types = dict(table.columns)
            rows = ["(" + ", ".join([str(i)] + [tables.value(rng, types[c]) for c in kept[1:]]) + ")" for i in ids]
            return Step(f"INSERT INTO {table.name} ({', '.join(kept)}) VALUES {', '.join(rows)}{returning}")
        if rng.random() < 0.35:
            return Step(f"INSERT INTO {table.name} VALUES {', '.join(rows)}{conflict(rng, table, maker)}{returning}")
        return Step(f"INSERT INTO {table.name} VALUES {', '.join(rows)}{returning}")
    if roll < 0.38:
        shift = next(next_id) + 1000
        return Step(f"INSERT INTO {table.name} SELECT id + {shift}, {', '.join(n for n, _ in table.columns[1:])} FROM {table.name}{where}{returning}")
    if roll < 0.72:
        sets = []
        for name, ty in rng.sample(table.columns[1:], rng.randint(1, min(2, len(table.columns) - 1))):
            same = [n for n, t in table.columns[1:] if t == ty]
            what = rng.random()
            if what < 0.5:
                value = tables.value(rng, ty)
            elif what < 0.7:
                value = f"{table.name}.{rng.choice(same)}"
            elif what < 0.8 and ty in ("integer", "bigint", "numeric"):
                value = f"{table.name}.{name} + 1"
            elif what < 0.9:
                inner, good = maker.scalar(ty, 0, scope)
                value = inner if good and (ty == "bigint" or "count" not in inner) else "DEFAULT"
            else:
                value = f"COALESCE({table.name}.{name}, {maker.constant(ty, 0)})"
            sets.append(f"{name} = {value}")
        if rng.random() < 0.15:
            sets.append(f"id = {table.name}.id + {1000 + next(next_id)}")
        if rng.random() < 0.12 and other is not table:
            return Step(f"UPDATE {table.name} SET {', '.join(sets)} FROM {other.name} AS f WHERE f.id = {table.name}.id{where.replace(' WHERE', ' AND', 1)}{returning}")
        return Step(f"UPDATE {table.name} SET {', '.join(sets)}{where}{returning}")
    if roll < 0.8:
        key = f"id = {rng.randint(1, 12)}"
        return Step(f"UPDATE {table.name} SET id = {rng.randint(1, 14)} WHERE {key}{returning}")
    if roll < 0.83:
        return Step(f"DELETE FROM {table.name} USING {other.name} AS f WHERE f.id = {table.name}.id{where.replace(' WHERE', ' AND', 1)}{returning}")
    if roll < 0.86:
        return Step(f"DELETE FROM {table.name} WHERE id IN (SELECT id FROM {table.name}{where} ORDER BY id{rng.choice(('', ' DESC'))} LIMIT {rng.choice((1, 2, 3))}){returning}")
    if roll < 0.87:
        return Step(f"TRUNCATE {table.name}")
    return Step(f"DELETE FROM {table.name}{where}{returning}")


def look(rng, known, probing=True):
    """The whole table, or what a look-up finds of it."""
    table = rng.choice(known)
    roll = rng.random()
    if roll < 0.5 or not probing:
        return Step(f"SELECT * FROM {table.name}")
    if roll < 0.7:
        ids = ", ".join(str(rng.randint(1, 14)) for _ in range(rng.choice((1, 2, 3, 6))))
        return Step(f"SELECT * FROM {table.name} WHERE id IN ({ids})")
    if roll < 0.8:
        return Step(f"SELECT id FROM {table.name} ORDER BY id{rng.choice(('', ' DESC'))}", order=(0,))
    name, ty = rng.choice(table.columns[1:])
    maker = Maker(rng, known)
    if FAMILY[ty] == "number" or rng.random() < 0.5:
        values = ", ".join(maker.constant(ty, 0) for _ in range(rng.choice((1, 2, 4))))
        return Step(f"SELECT * FROM {table.name} WHERE {name} IN ({values})")
    return Step(f"SELECT {name}, count(*) FROM {table.name} GROUP BY {name}")


def case(rng):
    known, steps = tables.two(rng)
    next_id = iter(range(30, 900))
    for _ in range(12):
        steps.append(change(rng, known, next_id))
        steps.append(look(rng, known))
    steps += [Step(f"SELECT * FROM {t.name}") for t in known]
    return Case("changes", steps)
