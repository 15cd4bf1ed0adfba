"""Paths of columns and of fields in them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from state_processor.backends.formats.field_selection import EVERYTHING, applied, selected
from state_processor.support.errors import OptionError

ADDRESS = pa.struct([("city", pa.string()), ("zip", pa.int32())])
VISITS = pa.map_(pa.string(), ADDRESS)
VALUE = pa.struct([("id", pa.int64()), ("address", ADDRESS), ("stops", pa.list_(ADDRESS)), ("visits", VISITS)])
BC = pa.struct([("b", pa.int8()), ("c", pa.int8())])
SCHEMA = pa.schema([("key", pa.int64()), ("value", VALUE), ("a.b", pa.string()), ("a", BC), ("key.x", pa.int8())])


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["value.id", "key"], [("value", pa.struct([("id", pa.int64())])), ("key", pa.int64())]),
        (["key", "key"], [("key", pa.int64())]),
        (["value", "value.id"], [("value", VALUE)]),
        (["value.id", "value"], [("value", VALUE)]),
        (
            ["value.address.zip", "value.id"],
            [("value", pa.struct([("id", pa.int64()), ("address", pa.struct([("zip", pa.int32())]))]))],
        ),
        (
            ["value.stops.element.zip", "value.visits.value.city"],
            [
                (
                    "value",
                    pa.struct(
                        [
                            ("stops", pa.list_(pa.struct([("zip", pa.int32())]))),
                            ("visits", pa.map_(pa.string(), pa.struct([("city", pa.string())]))),
                        ]
                    ),
                )
            ],
        ),
        (["value.visits.key"], [("value", pa.struct([("visits", pa.map_(pa.string(), pa.struct([])))]))]),
        (["key.x"], [("key.x", pa.int8())]),
        (["a.c"], [("a", pa.struct([("c", pa.int8())]))]),
    ],
)
def test_selected_fields(paths: list[str], expected: list[tuple[str, pa.DataType]]) -> None:
    assert applied(selected(paths, SCHEMA), SCHEMA) == pa.schema(expected)


def test_whole_columns() -> None:
    assert selected(["a", "key"], SCHEMA) == {"a": EVERYTHING, "key": EVERYTHING}
    assert applied(None, SCHEMA) is SCHEMA
    assert applied(selected(["key", "a"], SCHEMA), SCHEMA.remove(3)).names == ["key"]


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("valu", "there is no column 'valu'; did you mean 'value'"),
        ("values.id", "there is no column 'values.id'; did you mean 'value'"),
        ("x", "there is no column 'x'; there are a, a.b, key, key.x, value"),
        ("value.address.zap", "'value.address' does not have a field 'zap'; did you mean 'value.address.zip'"),
        ("value.stops.zip", "'value.stops' does not have a field 'zip'; there are element"),
        ("key.id", "'key' does not have fields"),
        ("value.id.x", "'value.id' does not have fields"),
        ("a.b", "may be in 'a.b' or in 'a'; name the whole column"),
    ],
)
def test_paths_that_name_nothing_or_several(path: str, problem: str) -> None:
    with pytest.raises(OptionError, match=f"columns: '{path}'.*{problem}"):
        selected([path], SCHEMA)
