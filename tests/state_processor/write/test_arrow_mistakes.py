"""Messages about rows and arguments that users give without Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.testing import assert_state
from tests.state_processor.samples import ORDERS_PATH

T = sp.Types

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "files": sp.files,
    "orphans": sp.orphans,
    "retain": lambda directory: sp.retain(directory, keep=1),
    "dispose": sp.dispose,
    "list_snapshots": sp.list_snapshots,
}


def add(rows: Any, type_: Any) -> None:
    states = {"value": sp.ValueState(type_)}
    sp.arrow.SavepointWriter.new().with_keyed_state("u", rows, key_type=T.STRING(), states=states)


@pytest.mark.parametrize(
    ("rows", "type_", "message"),
    [
        (
            pa.table({"key": ["a"], "value": ["x"]}),
            T.LONG(),
            "is of Arrow type string; the type LONG takes int64; cast it to int64$",
        ),
        (
            pa.table({"key": ["a"], "value": [[1]]}),
            T.MAP(T.STRING(), T.INT()),
            r"is of Arrow type list<.*takes map<string, int32>$",
        ),
        ([{"key": "a", "value": 1}, {"key": "b"}, {"key": "c", "value": "x"}], T.LONG(), "'value' of row 2 .* 'x' of type str: "),
        ([{"key": "a", "value": 1}, {"key": "b", "value": 1 << 70}], T.LONG(), rf"'value' of row 1 .* {1 << 70} of type int: "),
        ([{"key": "a", "value": T.LONG()}], T.LONG(), "'value' of row 0 can't become a value of Arrow"),
    ],
)
def test_columns_of_another_type(rows: Any, type_: Any, message: str) -> None:
    with pytest.raises((sp.InvalidRowError, sp.OptionError), match=message) as refused:
        add(rows, type_)
    assert "Spark" not in str(refused.value)


def test_keys_of_another_type() -> None:
    with pytest.raises(
        sp.OptionError, match="column 'key' is of Arrow type int64; the type STRING takes string; cast it to string"
    ):
        sp.arrow.read_state(ORDERS_PATH, "orders", "total", keys=pa.table({"key": [1]}))


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=list(FUNCTIONS))
@pytest.mark.parametrize("path", [None, 3])
def test_a_directory_that_is_not_a_path(function: Callable[[Any], Any], path: Any) -> None:
    with pytest.raises(sp.OptionError, match=r"expected (a path or URL|the directory of a savepoint or checkpoint), found"):
        function(path)


@pytest.mark.parametrize("also", [None, "/elsewhere", 3])
def test_further_directories_that_are_not_a_list(also: Any) -> None:
    with pytest.raises(sp.OptionError, match=f"also: expected a list of directories, found {also!r}"):
        sp.files(ORDERS_PATH, also=also)


@pytest.mark.parametrize(
    ("uid", "state", "expected", "wanted"),
    [
        ("orders", "total", 3, "a dictionary of values by key, found an object of type int"),
        ("catalog", "pending", 3, "a list of elements, found an object of type int"),
        ("catalog", "pending", "restock", "a list of elements, found an object of type str"),
    ],
)
def test_expected_contents_of_another_type(uid: str, state: str, expected: Any, wanted: str) -> None:
    with pytest.raises(sp.OptionError, match=f"expected: state '{state}' is compared with {wanted}"):
        assert_state(ORDERS_PATH, uid, state, expected)
