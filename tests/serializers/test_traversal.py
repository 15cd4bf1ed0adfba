"""Nested serializers, information for them that snapshots lack, and paths of the parts of a type."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from state_processor.serializers import DataInput, DataOutput, DecodeOptions, read_serializer_snapshot, traversal
from state_processor.serializers.avro.containers import AvroReference
from state_processor.serializers.avro.records import AvroSerializer
from state_processor.serializers.avro.scalars import AvroBytes, AvroString
from state_processor.serializers.base import CompositeTypeSerializerSnapshot, TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.core.basic import StringSerializer
from state_processor.serializers.core.collections import ListSerializer, MapSerializer
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.core.rows import TupleSerializer
from state_processor.serializers.java.types import JavaType
from state_processor.serializers.kryo.nested_kryo import declare, java_types
from state_processor.serializers.kryo.serializer import KryoSerializer
from state_processor.serializers.runtime.scala import CaseClassSerializer
from state_processor.serializers.runtime.wrapping import TtlSerializer
from state_processor.serializers.traversal import (
    fold,
    outermost_of,
    parts_of,
    transform,
    walk,
    with_changed_children,
    zip_types,
)
from state_processor.types.flink_types import Types
from tests.serializers.harness import check_children

LONGS = "java.util.List<java.lang.Long>"
COUNTS = "java.util.Map<java.lang.String,java.lang.Long>"
NESTED: dict[str, Callable[[], TypeSerializer]] = {
    "itself": lambda: KryoSerializer(LONGS),
    "list": lambda: ListSerializer(KryoSerializer(LONGS)),
    "map": lambda: MapSerializer(KryoSerializer("java.util.UUID"), KryoSerializer(COUNTS)),
    "tuple in a list": lambda: ListSerializer(TupleSerializer([StringSerializer(), KryoSerializer(LONGS)])),
    "pojo with ttl": lambda: TtlSerializer.of(
        PojoSerializer.of("Order", {"z": KryoSerializer(LONGS), "a": ListSerializer(KryoSerializer(COUNTS))})
    ),
}


def test_parts_of_a_class_include_parts_inside_of_others() -> None:
    inner = TupleSerializer([StringSerializer(), TupleSerializer([StringSerializer()])])
    assert parts_of(TupleSerializer, ListSerializer(inner)) == [inner, inner.children[1]]
    assert len(parts_of((ListSerializer, StringSerializer), ListSerializer(inner))) == 3
    assert parts_of(KryoSerializer, inner) == []


@pytest.mark.parametrize("name", NESTED)
def test_a_restored_serializer_is_told_type_arguments(name: str) -> None:
    given = NESTED[name]()
    restored = read_serializer_snapshot(given.snapshot().to_bytes()).restore_serializer()
    assert set(java_types(restored)) == {JavaType(type_.name) for type_ in java_types(given)}
    restored = declare(java_types(given), restored)
    assert java_types(restored) == java_types(given)
    assert restored.snapshot().to_bytes() == given.snapshot().to_bytes()


def test_types_of_other_serializers_are_not_taken() -> None:
    serializer = ListSerializer(KryoSerializer("java.util.Set"))
    assert declare([JavaType.parse(LONGS)], serializer) is serializer
    assert declare([JavaType.parse("java.util.Set<java.lang.Long>")] * 2, serializer) is serializer
    assert java_types(serializer) == (JavaType("java.util.Set"),)


def test_a_type_that_contains_itself_ends() -> None:
    fields = [{"name": "value", "type": "string"}, {"name": "next", "type": ["null", "Node"]}]
    type_ = AvroSerializer(json.dumps({"type": "record", "name": "Node", "fields": fields})).type
    (reference,) = outermost_of(AvroReference, type_)
    assert reference.record is type_
    assert not reference.children


def test_a_record_that_contains_itself_is_rebuilt_with_all_that_refers_to_it() -> None:
    fields = [{"name": "value", "type": "string"}, {"name": "next", "type": ["null", "Node"]}]
    type_ = AvroSerializer(json.dumps({"type": "record", "name": "Node", "fields": fields})).type
    new = transform(type_, lambda part: AvroBytes() if isinstance(part, AvroString) else part)
    (reference,) = outermost_of(AvroReference, new)
    assert reference.record is new
    value = {"value": b"a", "next": {"value": b"b", "next": None}}
    assert new.deserialize(new.serialize(value)) == value
    assert type_.deserialize(new.serialize(value)) == {"value": "a", "next": {"value": "b", "next": None}}


def test_what_stays_is_not_copied() -> None:
    type_ = TupleSerializer([ListSerializer(StringSerializer()), MapSerializer(StringSerializer(), KryoSerializer(LONGS))])
    assert transform(type_, lambda part: part) is type_
    changed = transform(type_, lambda part: StringSerializer() if isinstance(part, KryoSerializer) else part)
    assert str(changed) == "TUPLE<LIST<STRING>,MAP<STRING,STRING>>"
    assert changed.fields[0] is type_.fields[0]
    assert str(type_) == f"TUPLE<LIST<STRING>,MAP<STRING,KRYO<{LONGS}>>>"


class BoxSerializer(TypeSerializer):
    """A serializer of a user: it has a composite snapshot, and says nothing of its children."""

    def __init__(self, content: TypeSerializer) -> None:
        self.content = content

    def __str__(self) -> str:
        return f"BOX<{self.content}>"

    def read(self, source: DataInput) -> Any:
        return self.content.read(source)

    def write(self, value: Any, target: DataOutput) -> None:
        self.content.write(value, target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.content.arrow_type(options)

    def snapshot(self) -> TypeSerializerSnapshot:
        return BoxSnapshot("com.acme.BoxSnapshot", [self.content.snapshot()])


class BoxSnapshot(CompositeTypeSerializerSnapshot):
    """Snapshot of :class:`BoxSerializer`."""

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        return BoxSerializer(nested[0])


def test_a_composite_snapshot_has_the_children_by_default() -> None:
    box = BoxSerializer(TupleSerializer([KryoSerializer("java.util.List"), StringSerializer()]))
    assert [str(part) for part in walk(box)] == [str(box), str(box.content), "KRYO<java.util.List>", "STRING"]
    assert str(declare([JavaType.parse(LONGS)], box)) == f"BOX<TUPLE<KRYO<{LONGS}>,STRING>>"
    check_children(BoxSerializer(TupleSerializer([StringSerializer()])))


class Forgetful(ListSerializer):
    """A serializer whose author has not thought of its children."""

    @property
    def children(self) -> Sequence[TypeSerializer]:
        return ()

    def with_children(self, children: Sequence[TypeSerializer]) -> TypeSerializer:
        return self


def test_a_forgotten_child_is_named() -> None:
    with pytest.raises(AssertionError, match="the children of Forgetful are not those in its snapshot"):
        check_children(Forgetful(StringSerializer()))
    with pytest.raises(AssertionError, match=r"RemakesOthers\.with_children"):
        check_children(RemakesOthers(StringSerializer()))


class RemakesOthers(ListSerializer):
    """A serializer that makes another of its children."""

    def with_children(self, children: Sequence[TypeSerializer]) -> TypeSerializer:
        return ListSerializer(*children)


def test_a_fold_leaves_out_what_it_does_not_enter() -> None:
    type_ = TupleSerializer([StringSerializer(), ListSerializer(StringSerializer())])

    def count(path: str, part: TypeSerializer, inner: Callable[[TypeSerializer], list[int]]) -> int:
        return 1 if isinstance(part, ListSerializer) else 1 + sum(inner(part))

    assert fold(type_, count) == 3
    assert fold(type_, lambda path, part, inner: [path, *(found for of in inner(part) for found in of)], "v") == [
        *("v", "v.f0", "v.f1", "v.f1.element")
    ]


def _with_element(snapshot: TypeSerializerSnapshot, element: TypeSerializerSnapshot) -> TypeSerializerSnapshot:
    return fold(snapshot, lambda path, part, inner: element if path == "a.element" else with_changed_children(part, inner(part)))


def test_snapshots_are_walked_and_replaced_like_serializers() -> None:
    long, text = KryoSerializer(LONGS).snapshot(), StringSerializer().snapshot()
    type_ = PojoSerializer.of("Order", {"a": ListSerializer(StringSerializer()), "b": StringSerializer()})
    snapshot = type_.snapshot()
    seen: list[str] = []
    fold(snapshot, lambda path, part, inner: (seen.append(path), inner(part)))
    assert seen == ["", "a", "a.element", "b"]
    changed = _with_element(snapshot, long)
    assert changed.to_bytes() != snapshot.to_bytes()
    back = _with_element(changed, text)
    assert back.to_bytes() == snapshot.to_bytes()


def test_types_are_zipped_at_the_same_places() -> None:
    one = TupleSerializer([StringSerializer(), ListSerializer(StringSerializer())])
    other = TupleSerializer([KryoSerializer(LONGS), ListSerializer(KryoSerializer(COUNTS))])
    taken = zip_types(one, other, lambda a, b: b if isinstance(b, KryoSerializer) else None)
    assert str(taken) == str(other)
    assert zip_types(one, one, lambda a, b: None) is one
    assert zip_types(one, StringSerializer(), lambda a, b: None) is one


T = Types


@pytest.mark.parametrize(
    ("path", "name", "expected"),
    [("", "a", "a"), ("a", "b", "a.b"), ("a", "", "a"), ("key:", "a", "key:a"), ("key:", "", "key:"), ("", "", "")],
)
def test_join(path: str, name: str, expected: str) -> None:
    assert traversal.join_path(path, name) == expected


def test_a_path_inside_another() -> None:
    assert traversal.is_inside("value", "value")
    assert traversal.is_inside("value.element.x", "value.element")
    assert not traversal.is_inside("value.elements", "value.element")
    assert traversal.moved("value.element.x", "value.element", "list_value") == "list_value.x"


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
    assert leaves(type_, "value") == [traversal.join_path("value", path) for path in expected]
    snapshot = type_.snapshot()
    if isinstance(snapshot, CompositeTypeSerializerSnapshot) and type_.child_names != ("a", "b"):
        assert tuple(snapshot.nested_names) == tuple(type_.child_names)
    check_children(type_)
