"""Parts that Kryo wrote, shown in tables and put back: bytes where nothing changed, classes where something did."""

from __future__ import annotations

from typing import Any

import pytest

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.collections import JoinedListCodec, ListSerializer, MapStateValue
from state_processor.serializers.core.nullable import NullableSerializer
from state_processor.serializers.core.rows import TupleSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.java.types import JavaType
from state_processor.serializers.kryo.classes import KryoMap, Node
from state_processor.serializers.kryo.nested_kryo import kryo_parts
from state_processor.serializers.kryo.pending_values import PendingEntries, StoredParts, canonical_text, with_pending_values
from state_processor.serializers.kryo.serializer import KryoSerializer, KryoValue
from state_processor.support.errors import InvalidRowError
from state_processor.types.flink_types import Types

T = Types
FLINK = 1
LONG = "java.lang.Long"


def kryo(text: str) -> KryoSerializer:
    return KryoSerializer(text, flink=FLINK)


def node(class_name: str, *elements: Any) -> Node:
    return Node(class_name, [*elements])


def value(part: KryoSerializer, tree: Node) -> KryoValue:
    encoded = part._encode(tree)
    return part.deserialize(encoded.raw)  # type: ignore[return-value]


ANY_LIST, LONGS = kryo("java.util.List"), kryo(f"java.util.List<{LONG}>")
NUMBERS = node("java.util.LinkedList", Node(LONG, 1), Node("java.lang.Integer", 1))


def settled(type_: TypeSerializer, old: Any, new: Any) -> Any:
    """What becomes of a column's value where the state has another: its lossless form."""
    drafted = PendingEntries(type_, "value")
    drafts = with_pending_values(type_)
    parts = StoredParts() if old is None else drafted.parts(type_.serialize(old))
    return type_.deserialize(drafted.resolved(drafts.serialize(drafts.from_column(new)), parts))


def present(type_: TypeSerializer, old: Any) -> Any:
    return type_.to_column(old, DecodeOptions())


@pytest.mark.parametrize(
    ("type_", "make"),
    [
        (ANY_LIST, lambda part: part),
        (TupleSerializer([T.INT(), ANY_LIST]), lambda part: (1, part)),
        (ListSerializer(ANY_LIST), lambda part: [part, part]),
        (JoinedListCodec(TupleSerializer([ANY_LIST, T.INT()])), lambda part: [(part, 1), (part, 2)]),
        (MapStateValue(ANY_LIST), lambda part: part),
        (NullableSerializer(TupleSerializer([ANY_LIST])), lambda part: (part,)),
    ],
    ids=lambda given: str(given) if isinstance(given, TypeSerializer) else "",
)
def test_what_is_as_it_was_keeps_its_bytes(type_: TypeSerializer, make: Any) -> None:
    """The column says nothing of the list's class, nor which number is an Integer; new, it could not be encoded."""
    old = make(value(ANY_LIST, NUMBERS))
    column = present(type_, old)
    assert type_.serialize(settled(type_, old, column)) == type_.serialize(old)
    with pytest.raises(InvalidRowError, match=r"may be an Integer or a Long.*declare the content of the part"):
        settled(type_, None, column)


def test_elements_that_moved_keep_their_bytes() -> None:
    type_ = JoinedListCodec(ANY_LIST)
    first, second = (value(ANY_LIST, node("java.util.Vector", Node(LONG, n))) for n in (1, 2))
    assert [v.raw for v in settled(type_, [first, second], ["[2]"])] == [second.raw]
    assert [v.raw for v in settled(type_, [first, second], ["[2]", "[1]", "[2]"])] == [second.raw, first.raw, second.raw]


def test_which_of_several_is_meant_has_to_be_clear() -> None:
    type_ = JoinedListCodec(ANY_LIST)
    one, other = (value(ANY_LIST, node(name, Node(LONG, 1))) for name in ("java.util.Vector", "java.util.ArrayList"))
    third = value(ANY_LIST, node("java.util.Vector", Node(LONG, 3)))
    assert [v.raw for v in settled(type_, [third, one, other], ["[3]", "[1]", "[1]"])] == [third.raw, one.raw, other.raw]
    with pytest.raises(InvalidRowError, match=r"value.element: \[1\] matches 2 different values"):
        settled(type_, [third, one, other], ["[1]"])


def test_what_changed_keeps_its_classes() -> None:
    old = value(LONGS, node("java.util.LinkedList", Node(LONG, 1)))
    assert settled(LONGS, old, [1, 2]).node.class_name == "java.util.LinkedList"
    assert settled(LONGS, old, [1, 2]).value == [1, 2]
    assert settled(LONGS, None, [1, 2]).node.class_name == "java.util.ArrayList"
    one = value(LONGS, Node("java.util.Collections$SingletonList", [Node(LONG, 1)]))
    assert settled(LONGS, one, [2]).node.class_name == "java.util.Collections$SingletonList"
    assert settled(LONGS, one, [1, 2]).node.class_name == "java.util.ArrayList"


def test_what_is_inside_keeps_its_classes() -> None:
    part = kryo(f"java.util.Map<java.lang.String,java.util.List<{LONG}>>")
    inner = node("java.util.LinkedList", Node(LONG, 1))
    entries = KryoMap((Node("java.lang.String", k), inner) for k in ("same", "changed", "gone"))
    old = value(part, Node("java.util.TreeMap", entries))
    new = settled(part, old, [("same", [1]), ("changed", [7]), ("new", [1])])
    assert new.node.class_name == "java.util.TreeMap"
    assert [(k.content, v.class_name) for k, v in new.node.content] == [
        ("same", "java.util.LinkedList"),
        ("changed", "java.util.LinkedList"),
        ("new", "java.util.ArrayList"),
    ]


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("java.time.Instant", ["2024-01-01T00:00:00Z", "2024-01-01T00:00Z"]),
        ("java.lang.Double", [0.5]),
        ("java.math.BigInteger", ["1" * 5000, int("1" * 4000) * 10**1000 + int("1" * 1000)]),
        ("java.util.List", ["[1, 2]", "[1,2]"]),
        ("java.util.Map<java.lang.String,java.lang.Long>", [{"a": 1}, [("a", 1)]]),
    ],
)
def test_one_value_shows_as_one_text(type_: str, values: list[Any]) -> None:
    assert len({canonical_text(JavaType.parse(type_), v) for v in values}) == 1


@pytest.mark.parametrize(
    ("type_", "one", "other"),
    [("java.util.List", "[1]", "[1.0]"), ("java.util.List", "[true]", "[1]"), ("java.lang.Double", 0.0, -0.0)],
)
def test_other_values_show_as_other_texts(type_: str, one: Any, other: Any) -> None:
    assert canonical_text(JavaType.parse(type_), one) != canonical_text(JavaType.parse(type_), other)


def test_paths() -> None:
    shape = T.POJO("a.Shape", {"tags": ANY_LIST, "n": T.INT()}, {"a.Square": {"sides": T.LIST(T.TUPLE([LONGS, T.INT()]))}})
    found = [(path, str(part)) for path, part in kryo_parts(shape, "value")]
    assert sorted(set(found)) == [("value.sides.element.f0", str(LONGS)), ("value.tags", str(ANY_LIST))]
    assert [path for path, _ in found].count("value.tags") == 2
    assert [path for path, _ in kryo_parts(T.MAP(ANY_LIST, T.EITHER(LONGS, T.INT())), "v")] == ["v.key", "v.value.left"]
