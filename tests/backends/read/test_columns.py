"""Columns and fields that are read, and others that are not decoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.serializers.core.collections import ListSerializer, MapSerializer
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.core.rows import RowSerializer, RowValue, TupleSerializer
from state_processor.serializers.core.temporal import InstantSerializer
from state_processor.serializers.runtime.wrapping import TtlSerializer
from state_processor.support.errors import OptionError, UndecodableValueError
from tests.backends.keyed_files import CANONICAL, FORMATS, Entry, listed, mapped, one, void
from tests.backends.state_files import LONG, STRING, group_of, keyed, read_batches, read_rows, string

INNER = PojoSerializer.of("Inner", {"city": STRING, "zip": LONG})
POJO = PojoSerializer.of(
    "Outer", {"id": LONG, "inner": INNER, "names": ListSerializer(STRING)}, {"Sub": {"extra": STRING, "inside": INNER}}
)
ROW = RowSerializer([STRING, LONG, TupleSerializer([LONG, STRING])])
TIMED = TtlSerializer.of(POJO)
STATES = [
    keyed("pojo", POJO),
    keyed("row", ROW),
    keyed("timed", TIMED),
    keyed("list", ListSerializer(INNER), "LIST"),
    keyed("map", MapSerializer(STRING, INNER), "MAP"),
]
PATHS = {
    "pojo": ["key", "value.id", "value.inner.zip", "value.names", "value._class", "value.inside.city", "value.extra"],
    "row": ["key", "value.f0", "value.f1", "value.f2.f1"],
    "timed": ["key", "value.inner.city", "value.id", "_last_access", "_key_group", "_subtask"],
    "list": ["key", "list_index", "list_value.zip"],
    "map": ["key", "map_key", "map_value.city", "_key_group"],
    None: ["key", "pojo.inner.zip", "row.f1", "list.element.zip", "map.value.city", "timed"],
}


def pojo(i: int) -> Any:
    inner = None if i % 4 == 1 else {"city": f"city {i}", "zip": i}
    value = {"id": i, "inner": inner, "names": [f"name {i}"] * (i % 3)}
    if i % 5 == 4:
        return POJO.from_column({"_class": "Sub", "extra": "more", "inside": inner, **value})
    return None if i % 7 == 6 else POJO.from_column({"_class": "Outer", "extra": None, "inside": None, **value})


def operator_of(form: str) -> OperatorState:
    entries: dict[int, dict[int, list[Entry]]] = {}
    for i in range(40):
        key = string(f"key-{i}")
        group = entries.setdefault(group_of(STRING, f"key-{i}"), {n: [] for n in range(len(STATES))})
        inner = INNER.serialize(INNER.from_column({"city": f"city {i}", "zip": i}))
        row = RowValue("+I", (None if i % 2 else "text", i, (i, "in a tuple") if i % 3 else None))
        group[0].append(void(key, POJO.serialize(pojo(i))))
        if i % 2:
            group[1].append(void(key, ROW.serialize(row)))
        group[2].append(void(key, TIMED.serialize((1000 * i, pojo(i)))))
        if i % 3:
            group[3].append(void(key, listed(form, inner, inner)))
        group[4] += mapped(form, key, b"\0", [(string("u"), inner), (string("v"), None if i % 2 else inner)])
    return one(form, STRING, STATES, entries)


def pruned(value: Any, whole: pa.DataType, wanted: pa.DataType) -> Any:
    """A value with the fields that a type has."""
    if value is None or whole.equals(wanted):
        return value
    if pa.types.is_struct(wanted):
        return {f.name: pruned(value[f.name], whole.field(f.name).type, f.type) for f in wanted}
    if pa.types.is_map(wanted):
        return [(k, pruned(v, whole.item_type, wanted.item_type)) for k, v in value]
    return [pruned(v, whole.value_type, wanted.value_type) for v in value]


@FORMATS
@pytest.mark.parametrize("state", PATHS)
@pytest.mark.parametrize("flatten", [True, False])
def test_fields_are_those_of_the_whole_value(form: str, state: str | None, flatten: bool) -> None:
    found = operator_of(form)
    options: dict[str, Any] = {"flatten": flatten, "metadata": True}
    whole = pa.Table.from_batches(read_batches(found, state, **options))
    paths = PATHS[state]
    if not flatten:
        paths = [p.replace("list_value", "value.element").replace("map_value", "value.value") for p in paths]
        paths = [p for p in paths if p not in ("list_index", "map_key")]
    for columns in (paths, paths[1:], *([p] for p in paths)):
        read = pa.Table.from_batches(read_batches(found, state, columns=tuple(columns), **options))
        assert read.column_names == list(dict.fromkeys(path.split(".")[0] for path in columns))
        types = {f.name: (whole.schema.field(f.name).type, f.type) for f in read.schema}
        assert read.to_pylist() == [{n: pruned(row[n], *t) for n, t in types.items()} for row in whole.to_pylist()]


@FORMATS
def test_expired_values_and_keys_are_left_out_whatever_is_selected(form: str) -> None:
    found = operator_of(form)
    options: dict[str, Any] = {"ttl": 10_000, "as_of": 30_000, "keys": tuple(f"key-{i}" for i in range(0, 40, 2))}
    expected = [{"key": row["key"]} for row in read_rows(found, "timed", **options)]
    assert 0 < len(expected) < 20
    assert read_rows(found, "timed", columns=("key",), **options) == expected


@FORMATS
def test_fields_that_are_not_selected_are_not_decoded(form: str) -> None:
    value = PojoSerializer.of("P", {"at": InstantSerializer(), "id": LONG})
    data = value.serialize({"at": (0, 1), "id": 7})
    found = one(form, STRING, [keyed("v", value)], {group_of(STRING, "a"): {0: [void(string("a"), data)]}})
    with pytest.raises(UndecodableValueError):
        read_rows(found, "v")
    assert read_rows(found, "v", columns=("value.id", "key")) == [{"value": {"id": 7}, "key": "a"}]


@pytest.mark.parametrize(("state", "columns"), [("pojo", ["value.di"]), (None, ["pojos.id"]), ("list", ["value"])])
def test_columns_that_there_are_not(state: str | None, columns: Sequence[str]) -> None:
    with pytest.raises(OptionError, match=r"columns: .*did you mean '(value\.id|pojo|list_value)'"):
        read_rows(operator_of(CANONICAL), state, columns=tuple(columns))
