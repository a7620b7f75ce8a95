"""Rows as tables of Arrow's."""


def table(names, types, rows):
    try:
        import pyarrow as arrow
    except ImportError:
        raise ImportError("rows as Arrow need the package pyarrow: pip install 'ondol[arrow]'") from None
    known = {
        16: arrow.bool_(),
        17: arrow.binary(),
        20: arrow.int64(),
        21: arrow.int16(),
        23: arrow.int32(),
        26: arrow.uint32(),
        700: arrow.float32(),
        701: arrow.float64(),
        1082: arrow.date32(),
        1083: arrow.time64("us"),
        1114: arrow.timestamp("us"),
        1184: arrow.timestamp("us", tz="UTC"),
    }
    texts = {18, 19, 25, 1042, 1043}
    columns = list(zip(*rows)) if rows else [()] * len(names)
    arrays = []
    for oid, values in zip(types, columns):
        if oid in texts:
            arrays.append(arrow.array(values, arrow.string()))
        elif oid in known:
            arrays.append(arrow.array(values, known[oid]))
        elif oid == 1700:
            # Arrow's own choice of digits, which is that of the widest value.
            arrays.append(arrow.array(values) if any(v is not None for v in values) else arrow.nulls(len(values)))
        else:
            arrays.append(arrow.array([None if v is None else str(v) for v in values], arrow.string()))
    return arrow.Table.from_arrays(arrays, names=names)
