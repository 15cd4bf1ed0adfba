"""Words about values that serializers can't write: the types that were expected and found, never code that met the value."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import state_processor as sp
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.scalars import SCALARS
from state_processor.support.errors import UNWRITABLE, InvalidRowError, StateProcessorError, why_unwritable

T = sp.Types
TYPES = [T.STRING(), T.LONG(), T.BYTES(), T.LIST(T.STRING()), T.MAP(T.STRING(), T.LONG()), T.TUPLE([T.STRING()]), T.BIG_DEC()]
VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.lists(st.integers()))


@pytest.mark.parametrize("serializer", TYPES, ids=str)
@given(value=VALUES)
def test_messages_are_about_types_not_about_code(serializer: TypeSerializer, value: Any) -> None:
    words = words_about(serializer, value)
    assert "attribute" not in words
    assert "object is not" not in words


def words_about(serializer: TypeSerializer, value: Any) -> str:
    """The words about a value; none if it can be written."""
    try:
        serializer.serialize(serializer.from_column(value))
    except UNWRITABLE as problem:
        return why_unwritable(problem, serializer, value)
    return ""


def test_a_number_where_text_is_expected() -> None:
    with pytest.raises(InvalidRowError, match=r"^expected a value of STRING, found one of type int$") as caught:
        T.STRING().serialize(5)
    assert isinstance(caught.value.__cause__, AttributeError)
    with pytest.raises(InvalidRowError, match=r"^expected a value of LONG, found null$"):
        T.LONG().serialize(None)


ALL_TYPES = [
    *TYPES,
    *(scalar.serializer for scalar in SCALARS.values()),
    *(T.PRIMITIVE_ARRAY(T.INT()), T.BASIC_ARRAY(T.STRING()), T.SET(T.LONG()), T.ROW([T.INT()]), T.ROW_NAMED(["a"], [T.INT()])),
    *(T.EITHER(T.INT(), T.STRING()), T.NULLABLE(T.LONG()), T.TIME_WINDOW(), T.ENUM("a.E", ["A"]), T.POJO("a.P", {"x": T.INT()})),
    *(T.ROW_DATA("a INT"), T.ARRAY_DATA("INT"), T.MAP_DATA("STRING", "INT"), T.SQL_DATA("TIMESTAMP(3)"), T.SQL_DATA("STRING")),
    T.POJO("a.P", {"x": T.INT()}, subclasses={"a.Q": {"y": T.INT()}}),
    T.AVRO('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}'),
    *(T.KRYO("java.util.ArrayList"), T.KRYO("java.time.Duration"), T.KRYO("java.util.UUID")),
]
OBJECTS = [5, 2**70, 1.5, "ab", b"ab", True, [1], ["a"], {"a": 1}, {}, (1,), {1}, object(), date.max, Decimal("1.1"), None]


@pytest.mark.parametrize("serializer", ALL_TYPES, ids=str)
def test_errors_are_those_of_this_library(serializer: TypeSerializer) -> None:
    """Whatever the object is: it is written, or the error has the root of this library."""
    refused = 0
    for value in OBJECTS:
        try:
            serializer.serialize(value)
        except StateProcessorError:
            refused += 1
    assert refused >= 1 or str(serializer) == "BOOLEAN"


@pytest.mark.parametrize("value", [5, True])
def test_a_number_is_not_so_many_bytes(value: int) -> None:
    with pytest.raises(TypeError):
        T.BYTES().from_column(value)


def test_errors_of_other_code_pass() -> None:
    """They are reported as errors of that code."""

    class Own(type(T.LONG())):  # type: ignore[misc]
        def write(self, value: Any, target: Any) -> None:
            raise KeyError("own")

    with pytest.raises(KeyError, match="own"):
        Own("LONG").serialize(5)
