"""Lists, maps, sets, values with a null flag, and joined lists."""

from __future__ import annotations

import struct
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.serializers import DataInput, DecodeOptions, TypeSerializer
from state_processor.serializers.base import Verdict
from state_processor.serializers.codec import Codec
from state_processor.serializers.core.basic import NullValueSerializer, NumberSerializer, StringSerializer
from state_processor.serializers.core.collections import (
    ARRAY_LIST_SNAPSHOT,
    JoinedListCodec,
    ListCodec,
    ListSerializer,
    MapSerializer,
    NullFlagged,
    SetSerializer,
)
from state_processor.support.errors import CorruptSnapshotError, InvalidRowError, UndecodableValueError
from tests.serializers.harness import (
    Specimen,
    check_codec,
    check_payloads,
    check_snapshot,
    check_specimen,
    decode_with_kernel,
    skip_with_kernel,
    specimens,
)

PLAIN = DecodeOptions()
INT, LONG, STRING, NULL_VALUE = NumberSerializer("INT"), NumberSerializer("LONG"), StringSerializer(), NullValueSerializer()
LIST, SET, MAP = ListSerializer(STRING), SetSerializer(INT), MapSerializer(STRING, INT)
JOINED = JoinedListCodec(STRING)


@pytest.mark.parametrize(
    ("serializer", "data", "value", "shown"),
    [
        (LIST, "00000000", [], []),
        (LIST, "00000003" + "0261" + "00" + "01", ["a", None, ""], ["a", None, ""]),
        (SET, "00000002" + "0000000007" + "01", [7, None], [7, None]),
        (MAP, "00000000", [], []),
        (MAP, "00000002" + "0261" + "0000000007" + "0262" + "01", [("a", 7), ("b", None)], [("a", 7), ("b", None)]),
        (NullFlagged(INT), "0000000007", 7, 7),
        (NullFlagged(INT), "01", None, None),
        (NullFlagged(INT, null_when=False), "00", None, None),
        (NullFlagged(INT, null_when=False), "0100000007", 7, 7),
        (JOINED, "", [], []),
        (JOINED, "0261", ["a"], ["a"]),
        (JOINED, "0261" + "2c" + "022c", ["a", ","], ["a", ","]),
    ],
    ids=str,
)
def test_bytes(serializer: TypeSerializer, data: str, value: Any, shown: Any) -> None:
    payload = bytes.fromhex(data)
    if not isinstance(serializer, JoinedListCodec):
        assert check_payloads(serializer, [payload, payload]) == [value, value]
    assert serializer.deserialize(payload) == value
    assert serializer.serialize(value) == payload
    assert decode_with_kernel(serializer, [payload, payload]) == [shown, shown]


def test_a_list_state_has_no_null() -> None:
    """Flink stops to read a list at a null. Earlier elements are there, later ones are not."""
    assert JOINED.deserialize(bytes.fromhex("0261" + "2c" + "00")) == ["a", None]
    with pytest.raises(InvalidRowError, match="element 1 is null; an element of a list state can't be null"):
        JOINED.serialize(["a", None, "b"])


def test_names_and_types() -> None:
    assert [str(s) for s in (LIST, SET, MAP, NullFlagged(INT), JOINED)] == [
        "LIST<STRING>",
        "SET<INT>",
        "MAP<STRING,INT>",
        "INT",
        "LIST<STRING>",
    ]
    assert LIST.arrow_type(PLAIN) == JOINED.arrow_type(PLAIN) == pa.list_(pa.string())
    assert MAP.arrow_type(PLAIN) == pa.map_(pa.string(), pa.int32())


ints = st.integers(-(2**31), 2**31 - 1)
texts = st.none() | st.text(max_size=10)
maps = st.dictionaries(st.text(max_size=5), st.none() | ints, max_size=6).map(lambda d: list(d.items()))
RANDOM: list[tuple[Codec, st.SearchStrategy[Any]]] = [
    (LIST, st.lists(texts)),
    (SET, st.lists(st.none() | ints, unique=True)),
    (MAP, maps),
    (NullFlagged(INT), st.none() | ints),
    (ListSerializer(LIST), st.lists(st.lists(texts, max_size=4), max_size=6)),
    (ListSerializer(MAP), st.lists(maps, max_size=5)),
    (
        MapSerializer(INT, LIST),
        st.lists(st.tuples(ints, st.none() | st.lists(texts, max_size=3)), max_size=5, unique_by=itemgetter(0)),
    ),
    (MapSerializer(INT, MAP), st.lists(st.tuples(ints, st.none() | maps), max_size=5, unique_by=itemgetter(0))),
    (ListSerializer(NULL_VALUE), st.integers(0, 40).map(lambda n: [None] * n)),
    (NullFlagged(ListCodec(NullFlagged(LIST))), st.none() | st.lists(st.none() | st.lists(texts, max_size=3), max_size=5)),
]


@pytest.mark.parametrize(("serializer", "values"), RANDOM, ids=str)
def test_random_values(serializer: Codec, values: st.SearchStrategy[Any]) -> None:
    @given(st.lists(values, max_size=10))
    def check(sample: list[Any]) -> None:
        payloads = [serializer.serialize(v) for v in sample]
        assert check_payloads(serializer, payloads) == sample
        if isinstance(serializer, TypeSerializer):
            check_snapshot(serializer.snapshot())

    check()


@given(st.lists(st.lists(st.lists(texts, max_size=3), max_size=5), max_size=8))
def test_random_joined_lists(sample: list[list[list[str | None]]]) -> None:
    serializer = JoinedListCodec(LIST)
    payloads = [serializer.serialize(v) for v in sample]
    assert [serializer.deserialize(p) for p in payloads] == sample
    if payloads:
        assert decode_with_kernel(serializer, payloads) == sample
        skip_with_kernel(serializer, payloads)


@pytest.mark.parametrize("data", ["02612c", "0261" + "3b" + "0261", "2c"])
def test_damaged_joined_lists(data: str) -> None:
    payload = bytes.fromhex(data)
    with pytest.raises(CorruptSnapshotError):
        JOINED.deserialize(payload)
    with pytest.raises(CorruptSnapshotError):
        decode_with_kernel(JOINED, [payload])


@pytest.mark.parametrize("serializer", [LIST, SET, MAP, ListSerializer(NULL_VALUE), MapSerializer(LONG, MAP)], ids=str)
@pytest.mark.parametrize("count", [-1, 2**31 - 1])
def test_counts_are_checked_before_anything_is_allocated(serializer: TypeSerializer, count: int) -> None:
    payload = struct.pack(">i", count) + bytes(3)
    for read in (serializer.read, serializer.skip):
        with pytest.raises(CorruptSnapshotError, match=f"{count} .* announced, 3 bytes left"):
            read(DataInput(payload))
    with pytest.raises(CorruptSnapshotError, match="element count"):
        decode_with_kernel(serializer, [payload])
    with pytest.raises(CorruptSnapshotError, match="element count"):
        skip_with_kernel(serializer, [payload])


@pytest.mark.parametrize("serializer", [ListSerializer(LIST), MapSerializer(STRING, LIST), SET], ids=str)
def test_truncated_at_every_byte(serializer: TypeSerializer) -> None:
    value: Any = {
        "LIST<LIST<STRING>>": [["a", None], [], ["bcd"]],
        "MAP<STRING,LIST<STRING>>": [("a", ["b"]), ("", None), ("c", [None])],
        "SET<INT>": [1, None, 2],
    }[str(serializer)]
    payload = serializer.serialize(value)
    check_codec(serializer, [value])
    for size in range(len(payload)):
        with pytest.raises(CorruptSnapshotError):
            serializer.deserialize(payload[:size])
        with pytest.raises(CorruptSnapshotError):
            decode_with_kernel(serializer, [payload[:size]])
        with pytest.raises(CorruptSnapshotError):
            skip_with_kernel(serializer, [payload[:size]])


def test_a_null_key_of_a_map_is_refused_by_name() -> None:
    payload = MAP.serialize([(None, 1)])
    assert MAP.deserialize(payload) == [(None, 1)]
    with pytest.raises(UndecodableValueError, match="null key"):
        decode_with_kernel(MAP, [payload])


def test_hash_codes_of_java() -> None:
    assert ListSerializer(INT).hash_code([1, 2, 3]) == 30817
    assert ListSerializer(INT).hash_code([]) == 1
    assert LIST.hash_code(["a", None]) == 31 * (31 + 97)
    assert SET.hash_code([1, 2, None]) == 3
    assert MAP.hash_code([("a", 7), ("b", None)]) == (97 ^ 7) + 98
    assert NullFlagged(INT).hash_code(None) == 0


@pytest.mark.parametrize(
    ("old", "new", "verdict", "reason"),
    [
        (LIST, ListSerializer(STRING), Verdict.COMPATIBLE_AS_IS, ""),
        (LIST, ListSerializer(INT), Verdict.INCOMPATIBLE, "IntSerializer"),
        (LIST, ListSerializer(STRING, ARRAY_LIST_SNAPSHOT), Verdict.INCOMPATIBLE, "ArrayListSerializerSnapshot is required"),
        (LIST, SetSerializer(STRING), Verdict.INCOMPATIBLE, "SetSerializerSnapshot is required"),
        (MAP, MapSerializer(STRING, INT), Verdict.COMPATIBLE_AS_IS, ""),
        (MAP, MapSerializer(STRING, LONG), Verdict.INCOMPATIBLE, "LongSerializer"),
    ],
    ids=str,
)
def test_compatibility(old: TypeSerializer, new: TypeSerializer, verdict: Verdict, reason: str) -> None:
    result = old.snapshot().resolve_schema_compatibility(new)
    assert result.verdict is verdict
    assert reason in result.reason


@pytest.mark.parametrize(
    "specimen",
    [
        *specimens("flink-core", "list-serializer-*"),
        *specimens("flink-core", "map-serializer-*"),
        *specimens("flink-runtime", "arraylist-serializer-*"),
    ],
    ids=str,
)
def test_specimens(specimen: Specimen) -> None:
    expected = [(i, str(i)) for i in range(3)] if specimen.name.startswith("map") else ["Apache", "Flink"]
    assert check_specimen(specimen) == expected
