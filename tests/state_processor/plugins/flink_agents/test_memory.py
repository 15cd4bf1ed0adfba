"""Objects of memory, and the fields that they name."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from state_processor.errors import InvalidRowError
from state_processor.plugins.flink_agents import corrected_objects

SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("map_key", pa.string()),
        ("map_value", pa.struct([("type", pa.string()), ("value", pa.string()), ("subKeys", pa.list_(pa.string()))])),
    ]
)


def value(path: str, key: str = "ada") -> dict[str, Any]:
    return {"key": key, "map_key": path, "map_value": {"type": "VALUE", "value": '"x"', "subKeys": []}}


def thing(path: str, *fields: str | None, key: str | None = "ada") -> dict[str, Any]:
    return {"key": key, "map_key": path, "map_value": {"type": "OBJECT", "value": None, "subKeys": [*fields]}}


def corrected(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    return corrected_objects(pa.Table.from_pylist([*rows], schema=SCHEMA)).to_pylist()


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], []),
        ([thing("", "b", "a"), value("a"), thing("b")], []),
        ([thing("", "a", "b"), value("a")], [thing("", "a")]),
        ([thing("", "a"), value("a"), value("b")], [thing("", "a", "b")]),
        ([thing("", "a", None), value("a")], [thing("", "a")]),
        ([value("a.b.c")], [thing("a.b", "c"), thing("a", "b"), thing("", "a")]),
        ([thing("", "a"), thing("a", "b")], [thing("a")]),
        ([thing("", "a"), value("a"), thing("", key="bob"), value("b", key="bob")], [thing("", "b", key="bob")]),
        ([thing("", key=None), thing("", key="None")], []),
    ],
)
def test_objects_name_their_fields(rows: list[Any], expected: list[Any]) -> None:
    def order(row: Any) -> Any:
        return str(row["key"]), row["map_key"]

    assert sorted(corrected(*rows), key=order) == sorted(expected, key=order)


def test_a_value_with_fields_is_refused() -> None:
    with pytest.raises(InvalidRowError, match="memory of key 'ada': 'a' is a value, and has the fields b, c"):
        corrected(thing("", "a"), value("a"), value("a.c"), value("a.b"))


def test_other_rows_are_refused() -> None:
    with pytest.raises(InvalidRowError, match="missing: map_key, map_value"):
        corrected_objects(pa.table({"key": ["ada"], "value": [1]}))
