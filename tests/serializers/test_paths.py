"""Paths of the parts of a type."""

from __future__ import annotations

import pytest

from state_processor.serializers import paths
from state_processor.serializers.base import CompositeTypeSerializerSnapshot, TypeSerializer
from state_processor.serializers.runtime.scala import CaseClassSerializer
from state_processor.serializers.runtime.ttl import TtlSerializer
from state_processor.serializers.traversal import fold
from state_processor.types.flink_types import Types
from tests.serializers.harness import check_children

T = Types


@pytest.mark.parametrize(
    ("path", "name", "expected"),
    [("", "a", "a"), ("a", "b", "a.b"), ("a", "", "a"), ("key:", "a", "key:a"), ("key:", "", "key:"), ("", "", "")],
)
def test_join(path: str, name: str, expected: str) -> None:
    assert paths.join(path, name) == expected


def test_a_path_inside_another() -> None:
    assert paths.is_inside("value", "value")
    assert paths.is_inside("value.element.x", "value.element")
    assert not paths.is_inside("value.elements", "value.element")
    assert paths.moved("value.element.x", "value.element", "list_value") == "list_value.x"


def leaves(type_: TypeSerializer, path: str = "") -> list[str]:
    """The paths of the parts without children."""
    found: list[str] = []
    fold(type_, lambda at, part, inner: None if inner(part) else found.append(at), path)
    return found


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (T.POJO("A", {"x": T.LIST(T.INT()), "y": T.MAP(T.STRING(), T.NULLABLE(T.INT()))}), ["x.element", "y.key", "y.value"]),
        (T.TUPLE([T.INT(), T.SET(T.LONG())]), ["f0", "f1.element"]),
        (T.ROW_NAMED(["a", "b"], [T.INT(), T.EITHER(T.INT(), T.STRING())]), ["a", "b.left", "b.right"]),
        (TtlSerializer.of(T.OBJECT_ARRAY(T.STRING())), ["", "element"]),
        (CaseClassSerializer("com.acme.Pair", [T.INT(), T.LIST(T.INT())]), ["_1", "_2.element"]),
    ],
    ids=str,
)
def test_types_and_snapshots_have_the_same_paths(type_: TypeSerializer, expected: list[str]) -> None:
    assert leaves(type_) == expected
    assert leaves(type_, "value") == [paths.join("value", path) for path in expected]
    snapshot = type_.snapshot()
    if isinstance(snapshot, CompositeTypeSerializerSnapshot) and type_.child_names != ("a", "b"):
        assert tuple(snapshot.nested_names) == tuple(type_.child_names)
    check_children(type_)
