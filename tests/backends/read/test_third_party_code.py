"""Serializers of users that raise anything: the error names class, operator and state, and other states stay readable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read import catalog
from state_processor.serializers import (
    DataInput,
    DataOutput,
    DecodeOptions,
    TypeSerializer,
    TypeSerializerSnapshot,
    register_snapshot,
    registrations,
)
from state_processor.support.errors import StateProcessorError, third_party_errors
from tests.backends import state_files as files
from tests.backends.state_files import LONG, STRING

MONEY = "com.acme.MoneySnapshot"
FAILURES: dict[str, Callable[[], Any]] = {}
"""What methods of the classes below do in place of their work."""


def _raise(error: BaseException) -> Any:
    raise error


def _recursion() -> Any:
    return _recursion()


def _or(method: str, work: Callable[[], Any]) -> Any:
    return FAILURES.get(method, work)()


class Money(TypeSerializer):
    def __str__(self) -> str:
        return _or("str", lambda: "MONEY")

    def read(self, source: DataInput) -> Any:
        value = source.read_long()
        return _or("decode", lambda: value)

    def write(self, value: Any, target: DataOutput) -> None:
        _or("encode", lambda: target.write_long(value))

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return _or("arrow_type", pa.int64)

    def hash_code(self, value: Any) -> int:
        return int(_or("hash_code", lambda: value & 0x7F))

    def snapshot(self) -> TypeSerializerSnapshot:
        return MoneySnapshot(MONEY, 1)


class MoneySnapshot(TypeSerializerSnapshot):
    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> TypeSerializerSnapshot:
        return _or("read", lambda: cls(class_name, version))

    def write(self, target: DataOutput) -> None:
        pass

    def restore_serializer(self) -> TypeSerializer:
        return _or("restore", Money)


ERRORS = {
    "KeyError": lambda: _raise(KeyError("currency")),
    "AttributeError": lambda: _raise(AttributeError("amount")),
    "AssertionError": lambda: _raise(AssertionError()),
    "RecursionError": _recursion,
    "TypeError": object,  # another type than requested
}


@pytest.fixture(autouse=True)
def _own_classes() -> Iterator[None]:
    with registrations():
        register_snapshot(MONEY, MoneySnapshot)
        yield
        FAILURES.clear()


def keyed(key: TypeSerializer = STRING) -> OperatorState:
    """An operator with the states ``price`` (of the user's type) and ``count``."""
    header = files.keyed_header(key, [files.keyed("price", Money()), files.keyed("count", LONG)])
    entry = (key.serialize("a" if key is STRING else 5) + files.NAMESPACE_OF_VOID, files.long(7))
    group = files.group_of(STRING, "a")
    return files.operator(files.canonical(header, (0, 127), {group: {0: [entry], 1: [entry]}}).handle())


def split_list() -> OperatorState:
    header = files.operator_header([files.operator_list("price", Money()), files.operator_list("count", LONG)])
    data = header + files.long(7) + files.long(7)
    return files.operator(files.operator_handle(data, {"price": (0, [len(header)]), "count": (0, [len(header) + 8])}))


def _listed(operator: OperatorState) -> dict[str, str]:
    rows = catalog.states(files.snapshot(operator)).to_pylist()
    return {row["state_name"]: row["value_type"] for row in rows}


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("method", ["read", "restore", "arrow_type", "str"])
@pytest.mark.parametrize("operator", [keyed, split_list])
def test_other_states_are_listed_and_read(operator: Callable[[], OperatorState], method: str, error: str) -> None:
    found = operator()
    FAILURES[method] = ERRORS[error]
    listed = _listed(found)
    assert listed["count"] == "LONG"
    assert "test_third_party_code.Money" in listed["price"]
    assert error in listed["price"]
    assert len(files.read_rows(found, "count")) == 1
    if (operator, method) == (keyed, "read"):  # values that fill their part of an entry are bytes
        assert [row["value"] for row in files.read_rows(found, "price")] == [files.long(7)]
        return
    with pytest.raises(StateProcessorError, match=rf"(?s)price.*test_third_party_code\.Money.*{error}") as refused:
        files.read_rows(found, "price")
    assert len(str(refused.value).splitlines()) <= 3


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("operator", [keyed, split_list])
def test_values_that_cannot_be_decoded(operator: Callable[[], OperatorState], error: str) -> None:
    found = operator()
    FAILURES["decode"] = ERRORS[error] if error != "TypeError" else lambda: _raise(TypeError("amount"))
    assert len(files.read_rows(found, "count")) == 1
    with pytest.raises(StateProcessorError, match=rf"(?s)price.*test_third_party_code\.Money\.read failed.*{error}") as refused:
        files.read_rows(found, "price")
    assert "operator 'op'" in str(refused.value)
    assert type(refused.value.__cause__).__name__ == error


def test_values_of_another_type() -> None:
    FAILURES["decode"] = lambda: "seven"
    with pytest.raises(StateProcessorError, match=r"operator 'op'.*state 'price'.*expected int64 in the column 'value'"):
        files.read_rows(keyed(), "price")


def test_our_own_errors_are_not_blamed_on_users() -> None:
    with pytest.raises(KeyError), third_party_errors("here", parts=[LONG]):
        raise KeyError("a bug")
