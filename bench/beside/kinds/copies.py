"""COPY in and out, text and csv, with data that is sometimes broken."""
import tables
from case import Case, Step
from kinds.changes import look
from kinds.texts import changed
from values import ODD, PLAIN

OPTIONS = ["", "", "(FORMAT text)", "(FORMAT csv)", "(FORMAT csv)", "(FORMAT csv, HEADER)", "(DELIMITER '|')", "(NULL 'nil')", "(FORMAT csv, DELIMITER ';', QUOTE '|')", "(FORMAT csv, NULL 'nil')",
           "(FORMAT csv, ESCAPE '!')", "(FORMAT csv, FORCE_QUOTE *)", "(FORMAT csv, FORCE_NULL (id))", "(FORMAT csv, FORCE_NOT_NULL (id))", "(DELIMITER ',', NULL '')", "(FORMAT csv, HEADER MATCH)", "CSV HEADER", "DELIMITER ','"]
FIELDS = ["", "\\N", "a", "b c", "x\\ty", "a\"b", "\"q\"", "'", "\\\\", "\\.", "é", "nil", "1,2", "|", "\\x41", "\\101", "\\n", " ", "\"a,b\"", "\"x\"\"y\"", "\"nil\"", "\\", "1;2"]


def plain(rng, ty):
    text = rng.choice(PLAIN[ty] + (ODD[ty] if rng.random() < 0.3 else []))
    if text.startswith("E'"):
        return "a\\tb"
    return text[1:-1].replace("''", "'") if text.startswith("'") else text


def data(rng, table, options, first):
    delimiter = "|" if "DELIMITER '|'" in options else ";" if "';'" in options else "," if "csv" in options.lower() or "','" in options else "\t"
    lines = [delimiter.join(n for n, _ in table.columns)] if "HEADER" in options and rng.random() < 0.9 else []
    for i in range(rng.choice((0, 1, 2, 4))):
        cells = [str(first + i)]
        for _, ty in table.columns[1:]:
            roll = rng.random()
            if roll < 0.15:
                cells.append("\\N" if delimiter == "\t" else "nil" if "nil" in options else "")
            elif ty == "text" and roll < 0.7 or roll < 0.18:
                cells.append(rng.choice(FIELDS))
            else:
                cells.append(plain(rng, ty))
        lines.append(delimiter.join(cells))
    text = "".join(line + "\n" for line in lines)
    for _ in range(rng.choice((0, 0, 0, 0, 1, 2))):
        text = changed(rng, text)
    if rng.random() < 0.06:
        text = text.replace("\n", "\r\n")
    if rng.random() < 0.05:
        text += rng.choice(("\\.\n", "\\.\n1\n", "\\.x\n"))
    return text


def case(rng):
    table, steps = tables.make(rng, "t1", rows=rng.choice((0, 3, 6)), key=rng.random() < 0.5)
    first = 100
    for _ in range(8):
        options = rng.choice(OPTIONS)
        roll = rng.random()
        if roll < 0.6:
            names = "" if rng.random() < 0.8 else f" ({', '.join(n for n, _ in table.columns)})"
            steps.append(Step(f"COPY t1{names} FROM STDIN {options}".strip(), data=data(rng, table, options, first)))
            first += 10
            steps.append(look(rng, [table], probing=rng.random() < 0.5))
        else:
            names = ", ".join(n for n, _ in table.columns)
            steps.append(Step(f"COPY (SELECT {names} FROM t1 ORDER BY id, {names}) TO STDOUT {options}".strip()))
    steps.append(Step("SELECT * FROM t1"))
    return Case("copies", steps)
