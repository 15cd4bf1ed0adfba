"""Words about values that serializers can't write: the types that were expected and found, never code that met the value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import state_processor as sp
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.errors import UNWRITABLE, why_unwritable

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
        serializer.serialize(serializer.accept(value))
    except UNWRITABLE as problem:
        return why_unwritable(problem, serializer, value)
    return ""


def test_a_number_where_text_is_expected() -> None:
    with pytest.raises(AttributeError) as caught:
        T.STRING().serialize(5)
    assert why_unwritable(caught.value, T.STRING(), 5) == "expected a value of STRING, found one of type int"
