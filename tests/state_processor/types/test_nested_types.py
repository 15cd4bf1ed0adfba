"""Types of many levels: built up to a limit, refused beyond it, whether they are made by calls or named by text."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from state_processor import Types
from state_processor.serializers import TypeSerializer, read_serializer_snapshot
from state_processor.serializers.traversal import MOST_LEVELS
from state_processor.support.errors import OptionError
from state_processor.types.declared_types import parse_type

WRAPPERS: dict[str, Callable[[TypeSerializer], TypeSerializer]] = {
    "LIST": Types.LIST,
    "SET": Types.SET,
    "MAP": lambda inner: Types.MAP(Types.STRING(), inner),
    "TUPLE": lambda inner: Types.TUPLE([Types.INT(), inner]),
    "ROW": lambda inner: Types.ROW([inner, Types.INT()]),
    "ROW_NAMED": lambda inner: Types.ROW_NAMED(["a"], [inner]),
    "EITHER": lambda inner: Types.EITHER(Types.INT(), inner),
    "NULLABLE": Types.NULLABLE,
    "POJO": lambda inner: Types.POJO("a.B", {"c": inner}),
    "OBJECT_ARRAY": lambda inner: Types.OBJECT_ARRAY(inner, "java.lang.Object"),
}


def nested(wrap: Callable[[TypeSerializer], TypeSerializer], levels: int) -> TypeSerializer:
    made = Types.INT()
    for _ in range(levels - 1):
        made = wrap(made)
    return made


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_type_of_the_most_levels_is_built_and_read(name: str) -> None:
    data = nested(WRAPPERS[name], MOST_LEVELS).snapshot().to_bytes()
    assert read_serializer_snapshot(data).restore_serializer().snapshot().to_bytes() == data


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_type_of_more_levels_is_refused(name: str) -> None:
    with pytest.raises(OptionError, match=f"nested more than {MOST_LEVELS} levels deep"):
        nested(WRAPPERS[name], MOST_LEVELS + 1)


def test_a_type_that_uses_others_twice_on_every_level_is_built_quickly() -> None:
    made = Types.INT()
    for _ in range(20):
        made = Types.LIST(made)
    for _ in range(4):
        made = Types.TUPLE([made, made])
    assert len(made.snapshot().to_bytes()) > 16 * 20


@pytest.mark.parametrize("levels", [MOST_LEVELS + 1, 1000, 100_000])
def test_text_of_more_levels_is_refused(levels: int) -> None:
    with pytest.raises(OptionError, match=f"nested more than {MOST_LEVELS} levels deep"):
        parse_type("LIST<" * levels + "INT" + ">" * levels)


def test_text_of_the_most_levels_is_a_type() -> None:
    levels = MOST_LEVELS - 1
    assert str(parse_type("LIST<" * levels + "INT" + ">" * levels)).count("LIST") == levels
