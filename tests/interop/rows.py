"""Tables of Arrow from rows and a schema in Spark's notation, for tests that run the same with and without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

_SIMPLE: Final = {
    "bigint": pa.int64(),
    "date": pa.date32(),
    "double": pa.float64(),
    "int": pa.int32(),
    "long": pa.int64(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
}


def table_of(rows: Iterable[Sequence[Any]], schema: str) -> pa.Table:
    """Return rows as a table; ``schema`` has names and types such as ``key string, value map<string,long>``."""
    fields = [pa.field(name, _type(text)) for name, _, text in (part.strip().partition(" ") for part in _parts(schema))]
    columns = list(zip(*rows, strict=True)) or [()] * len(fields)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)], pa.schema(fields))


def _type(text: str) -> pa.DataType:
    kind, _, inner = text.removesuffix(">").partition("<")
    if not inner:
        return _SIMPLE[text]
    parts = list(_parts(inner))
    if kind == "struct":
        return pa.struct([(name, _type(of)) for name, _, of in (part.partition(":") for part in parts)])
    return pa.map_(*map(_type, parts)) if kind == "map" else pa.list_(_type(*parts))


def _parts(text: str) -> Iterator[str]:
    """The parts between commas that are not inside of brackets."""
    start = depth = 0
    for at, character in enumerate(text):
        depth += (character == "<") - (character == ">")
        if character == "," and not depth:
            yield text[start:at]
            start = at + 1
    yield text[start:]
