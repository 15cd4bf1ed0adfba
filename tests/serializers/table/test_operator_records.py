"""Collections and records of SQL operators, and PyFlink's table serializers."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.stored_operator import survey
from state_processor.serializers import DecodeOptions, TypeSerializer, read_serializer_snapshot
from state_processor.serializers.base import SchemaCompatibility, Verdict, write_nested_snapshots
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.core.collections import ListSerializer, MapSerializer
from state_processor.serializers.core.rows import RowValue
from state_processor.serializers.io import DataOutput
from state_processor.serializers.table.logical_types import ArrayType, AtomicType, BytesType, MapType, RowType, TextType, TimeType
from state_processor.serializers.table.operator_records import (
    MULTISET,
    LinkedListSerializer,
    ListViewSerializer,
    MapViewSerializer,
    MultisetInfo,
    MultisetInfoSerializer,
    NodeSerializer,
    NullAwareMapSerializer,
    OrderedField,
    RowSequence,
    RowSequenceSerializer,
    SequencedRow,
    SortedLongSerializer,
    WindowKey,
    WindowKeySerializer,
    comparator_object,
    is_ordered,
    sorted_map,
)
from state_processor.serializers.table.python_rows import PythonArrayDataSerializer, PythonMapDataSerializer, python_serializer
from state_processor.serializers.table.python_state import (
    PYTHON,
    PythonBigDecimalSerializer,
    PythonDateSerializer,
    PythonDecimalSerializer,
    PythonTimeSerializer,
    PythonTimestampSerializer,
)
from state_processor.serializers.table.rowdata import RowDataSerializer
from state_processor.serializers.table.single_values import TABLE, DateDataSerializer, NullSerializer, TimeDataSerializer
from state_processor.support.errors import CorruptSnapshotError, StateProcessorError, UnsupportedFormatError
from tests.archives import unpacked
from tests.serializers import java_streams as js
from tests.serializers.harness import (
    Specimen,
    check_codec,
    check_payloads,
    check_snapshot,
    check_specimen,
    decode_with_kernel,
    specimens,
)

INT, LONG, STRING = NumberSerializer("INT"), NumberSerializer("LONG"), StringSerializer()


@given(st.lists(st.lists(st.none() | st.integers(-9, 9), max_size=20)))
def test_linked_lists(lists: list[list[int | None]]) -> None:
    check_codec(LinkedListSerializer(LONG), lists)
    check_codec(LinkedListSerializer(LONG, has_null_mask=False), [[v for v in e if v is not None] for e in lists])


def test_linked_list_bytes() -> None:
    assert LinkedListSerializer(INT).serialize([None, 5]) == bytes.fromhex("00000002 80 00000005")
    assert LinkedListSerializer(INT, has_null_mask=False).serialize([5]) == bytes.fromhex("00000001 00000005")


@pytest.mark.parametrize("data", ["ff ff ff ff", "7f ff ff ff 00", "00 00 00 02 00 00 00 00 05"])
def test_damaged_linked_lists(data: str) -> None:
    payload = bytes.fromhex(data)
    with pytest.raises(CorruptSnapshotError):
        LinkedListSerializer(INT).deserialize(payload)
    with pytest.raises(StateProcessorError):
        decode_with_kernel(LinkedListSerializer(INT), [payload])


def test_old_linked_list_goes_on_after_migration() -> None:
    old = LinkedListSerializer(LONG, has_null_mask=False, outer_version=1).snapshot()
    assert old.resolve_schema_compatibility(LinkedListSerializer(LONG)).verdict is Verdict.COMPATIBLE_AFTER_MIGRATION
    assert old.resolve_schema_compatibility(old).verdict is Verdict.COMPATIBLE_AS_IS


KINDS = DecodeOptions(row_kind=True)


@pytest.mark.parametrize("specimen", specimens("flink-table-runtime", "*"), ids=str)
def test_specimens_of_flink(specimen: Specimen) -> None:
    assert check_specimen(specimen) == [42, -42, 0, 2**63 - 1, -(2**63)]


RECORDS: list[tuple[TypeSerializer, list[Any]]] = [
    (ListViewSerializer(ListSerializer(LONG)), [[1, 2], []]),
    (MapViewSerializer(MapSerializer(STRING, LONG)), [[("a", 1), ("b", None)]]),
    (NullAwareMapSerializer(STRING, LONG), [[(None, 1), ("b", None)], []]),
    (NullSerializer(), [None, None]),
    (WindowKeySerializer(STRING), [WindowKey(-1, "k")]),
    (SortedLongSerializer(), [-1, 0, 2**63 - 1]),
    (NodeSerializer(STRING), [SequencedRow("row", 1, None, 2, None, -5), SequencedRow("row", 2, 1, 3, 9, 0)]),
    (RowSequenceSerializer(), [RowSequence(1, 2)]),
    (MultisetInfoSerializer(), [MultisetInfo(9, 3)]),
    (PythonDateSerializer(), [0, -719_162]),
    (PythonTimeSerializer(), [0, 86_399_999]),
    (DateDataSerializer(), [0, 19_782]),
    (TimeDataSerializer(3), [0, 86_399_999]),
    (PythonBigDecimalSerializer(), ["1.50", "-1E+30"]),
    (PythonDecimalSerializer(10, 8), [Decimal("1.50000000"), Decimal("1E-8")]),
]


@pytest.mark.parametrize(("serializer", "values"), RECORDS, ids=[type(s).__name__ for s, _ in RECORDS])
def test_records(serializer: TypeSerializer, values: list[Any]) -> None:
    check_codec(serializer, values)


def test_bytes_of_records() -> None:
    node = NodeSerializer(LONG).serialize(SequencedRow(7, 1, None, 2, None, 3))
    assert node == struct.pack(">qq?q?q?qq", 7, 1, True, 0, False, 2, True, 0, 3)
    assert NullAwareMapSerializer(LONG, LONG).serialize([(None, 2)]) == struct.pack(">i??q", 1, True, False, 2)
    assert SortedLongSerializer().serialize(-1) == b"\x7f" + b"\xff" * 7
    with pytest.raises(CorruptSnapshotError):
        NullSerializer().deserialize(b"\1")


def _nested(*serializers: TypeSerializer) -> bytes:
    target = DataOutput()
    write_nested_snapshots([s.snapshot() for s in serializers], target)
    return target.to_bytes()


def _snapshot(name: str, version: int, payload: bytes) -> bytes:
    return js.utf(name) + struct.pack(">i", version) + payload


def _sorted_map(positions: int, code: str) -> bytes:
    fields: dict[str, js.Value] = {"positions": positions, "generatedRecordComparator": js.string(code)}
    comparator = js.stream(js.instance("a.Comparator", fields))
    return _snapshot(f"{TABLE}SortedMapSerializerSnapshot", 3, comparator + _nested(LONG, STRING))


def test_sorted_map() -> None:
    snapshot = read_serializer_snapshot(_sorted_map(1, "A$1"))
    check_snapshot(snapshot)
    assert check_payloads(snapshot.restore_serializer(), [struct.pack(">iq", 1, 5) + b"\0\2a"]) == [[(5, "a")]]
    regenerated, other = (read_serializer_snapshot(_sorted_map(*a)) for a in [(1, "A$2"), (2, "A$1")])
    assert snapshot.resolve_schema_compatibility(regenerated).verdict is Verdict.COMPATIBLE_AS_IS
    assert "the order of the comparator a.Comparator has changed" in snapshot.resolve_schema_compatibility(other).reason


def test_row_data_key() -> None:
    inner = LONG.snapshot().to_bytes()
    data = _snapshot(
        f"{MULTISET}RowDataKeySerializerSnapshot", 0, struct.pack(">i", 2) + b"eq" + struct.pack(">i", 1) + b"h" + inner
    )
    snapshot = read_serializer_snapshot(data)
    check_snapshot(snapshot)
    assert snapshot.to_bytes() == data
    check_payloads(snapshot.restore_serializer(), [bytes(8)])


# PyFlink

ROW = RowType.of(AtomicType("INT"), TextType(), ArrayType(AtomicType("BIGINT")), MapType(TextType(), TimeType()))
TYPES = (
    js.logical("IntType"),
    js.logical("VarCharType", length=2**31 - 1),
    js.logical("ArrayType", elementType=js.logical("BigIntType")),
    js.logical("MapType", keyType=js.logical("VarCharType", length=2**31 - 1), valueType=js.logical("TimeType", precision=0)),
)


def test_python_rows() -> None:
    nested = _nested(*[INT] * 4)
    data = _snapshot(
        f"{PYTHON}RowDataSerializer$RowDataSerializerSnapshot", 3, struct.pack(">i", 4) + b"".join(map(js.stream, TYPES)) + nested
    )
    snapshot = read_serializer_snapshot(data)
    check_snapshot(snapshot)
    serializer = snapshot.restore_serializer()
    value = RowValue("-D", (5, "é", [1, None], [("k", 1000), ("n", None)]))
    expected = "c0 00000005 00000002 c3a9 00000002 01 0000000000000001 00 00000002 00000001 6b 00 000003e8 00000001 6e 01"
    assert serializer.serialize(value) == bytes.fromhex(expected)
    assert check_payloads(serializer, [serializer.serialize(value)], KINDS) == [value]
    shown = {"f0": 5, "f1": "é", "f2": [1, None], "f3": [("k", "00:00:01"), ("n", None)]}
    assert serializer.to_column(value, DecodeOptions()) == shown


def test_python_collections() -> None:
    for name, types, text in [
        ("ArrayDataSerializer$ArrayDataSerializerSnapshot", TYPES[:1], "LIST<INT>"),
        ("MapDataSerializer$BaseMapSerializerSnapshot", TYPES[:2][::-1], "MAP<STRING,INT>"),
    ]:
        objects = [*types, *[js.instance("a.Serializer", {}) for _ in types]]
        data = _snapshot(f"{PYTHON}{name}", 1, b"".join(map(js.stream, objects)))
        snapshot = read_serializer_snapshot(data)
        check_snapshot(snapshot)
        assert str(snapshot.restore_serializer()) == text


def test_python_limits() -> None:
    check_snapshot(PythonTimestampSerializer(6).snapshot())
    with pytest.raises(UnsupportedFormatError, match="VARIANT"):
        python_serializer(AtomicType("VARIANT"))
    for serializer in (
        PythonArrayDataSerializer(ArrayType(AtomicType("INT"))),
        PythonMapDataSerializer(MapType(TextType(), TextType())),
    ):
        with pytest.raises(UnsupportedFormatError, match="must come from a savepoint"):
            serializer.snapshot()


# Comparators: Flink takes those in the snapshots of its own sorted maps for the same


@pytest.mark.parametrize(("ascending", "compatible"), [(True, True), (False, False)])
def test_an_order_is_compared_with_the_order_that_flink_wrote(ascending: bool, compatible: bool) -> None:
    snapshot = open_snapshot(str(unpacked("sql") / "2.3.0" / "top-of-updates" / "savepoint"))
    found = [survey(snapshot, operator)[0].get("sorted-map") for operator in snapshot.metadata.operators]
    (written,) = (states[0].value.snapshot() for states in found if states)
    order = [OrderedField(AtomicType("BIGINT"), ascending, nulls_last=False)]
    made = sorted_map(RowDataSerializer(RowType.of(AtomicType("BIGINT"))), NumberSerializer("LONG"), order).snapshot()
    assert (written.resolve_schema_compatibility(made) == SchemaCompatibility.compatible_as_is()) == compatible


def test_other_types_are_not_ordered() -> None:
    assert is_ordered(TextType())
    assert not is_ordered(BytesType())
    with pytest.raises(UnsupportedFormatError, match="the order of BYTES is not known; expected numbers, text, or times"):
        comparator_object([OrderedField(BytesType(), ascending=True, nulls_last=False)])
