"""State of PyFlink jobs: byte arrays around the bytes of its coders, in all forms of backends, and its keys."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

from state_processor import Types
from state_processor.serializers import DecodeOptions
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.arrays import BytesSerializer
from state_processor.serializers.core.rows import RowSerializer, RowValue, TupleSerializer
from state_processor.serializers.hash_codes import hash_codes
from state_processor.serializers.io import DataInput
from state_processor.serializers.kernel.encode.encoder import encode_column
from state_processor.serializers.runtime.wrapping import TtlSerializer, TtlValue
from state_processor.serializers.table.logical_types import DecimalType, RowType
from state_processor.serializers.table.python_state import (
    ByteArrayWrapperSerializer,
    CountedPiecesSerializer,
    FramedSerializer,
    JoinedPiecesCodec,
    OneElementSerializer,
    PickleSerializer,
    PythonKeySerializer,
    framed,
    json_of,
    python_coder,
)
from state_processor.serializers.table.rowdata import RowDataSerializer
from state_processor.support.errors import CorruptSnapshotError, UndecodableValueError, UnsupportedFormatError
from tests.serializers.harness import check_codec, decode_with_kernel

ROW = Types.ROW_NAMED(["name", "count"], [Types.STRING(), Types.INT()])
TIMED = DecodeOptions(ttl=True)
LONG = FramedSerializer(python_coder(Types.LONG()), BytesSerializer())
TEXT = FramedSerializer(python_coder(Types.STRING()), BytesSerializer())


def array(*values: bytes) -> bytes:
    data = b"".join(values)
    return len(data).to_bytes(4, "big") + data


def long(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (Types.LONG(), [0, -1, 2**62]),
        (Types.STRING(), ["", "é", "a" * 300]),
        (Types.PICKLED_BYTE_ARRAY(), [b"", b"\x80"]),
        (ROW, [RowValue("+I", ("r", 1)), RowValue("+I", (None, None))]),
        (Types.LIST(Types.LONG()), [[], [1, None, 3]]),
        (Types.MAP(Types.STRING(), ROW), [[], [("a", None), ("b", RowValue("+I", ("r", 1)))]]),
    ],
    ids=str,
)
def test_values(type_: TypeSerializer, values: list[Any]) -> None:
    for written in (BytesSerializer(), ByteArrayWrapperSerializer()):
        in_array = framed(python_coder(type_), written)
        check_codec(in_array, values)
        assert in_array.serialize(values[-1]) == array(python_coder(type_).serialize(values[-1]))
        assert in_array.snapshot() == written.snapshot()
    check_codec(OneElementSerializer(framed(python_coder(type_), BytesSerializer())), values)


def test_keys_of_broadcast_state_are_byte_arrays() -> None:
    assert encode_column(LONG, pa.array([7]), as_keys=True).data.tobytes() == array(long(7))
    row = FramedSerializer(RowDataSerializer(RowType.of(DecimalType(20, 0))), BytesSerializer())
    assert row.serialize(row.key_from_column((None,))) == row.serialize(row.from_column((None,)))


@pytest.mark.parametrize("data", [array(long(1), b"\0"), array(long(1)[:7]), array(long(1))[:-1], b"\xff" * 12])
def test_an_array_of_another_size(data: bytes) -> None:
    with pytest.raises(CorruptSnapshotError, match="bytes"):
        LONG.deserialize(data)
    with pytest.raises(CorruptSnapshotError):
        decode_with_kernel(LONG, [data + bytes(8)])


def test_a_value_is_a_list_of_one_element() -> None:
    value = OneElementSerializer(LONG)
    assert value.serialize(7) == b"\0\0\0\1" + array(long(7))
    two = b"\0\0\0\2" + 2 * array(long(7))
    with pytest.raises(CorruptSnapshotError, match="one element, found 2"):
        value.deserialize(two)
    with pytest.raises(CorruptSnapshotError, match="unexpected byte"):
        decode_with_kernel(value, [two])


PIECES = [(long(1), long(2), long(3)), (long(4),), (long(5), long(6))]


def test_lists_come_in_pieces() -> None:
    joined, counted = JoinedPiecesCodec(LONG), CountedPiecesSerializer(LONG)
    framed_bytes = b",".join(array(*piece) for piece in PIECES)
    heap_bytes = b"\0\0\0\3" + b"".join(array(*piece) for piece in PIECES)
    assert joined.deserialize(framed_bytes) == counted.deserialize(heap_bytes) == [1, 2, 3, 4, 5, 6]
    assert decode_with_kernel(joined, [framed_bytes, b"", array(long(9))]) == [[1, 2, 3, 4, 5, 6], [], [9]]
    assert decode_with_kernel(counted, [heap_bytes, bytes(4), heap_bytes]) == [[1, 2, 3, 4, 5, 6], [], [1, 2, 3, 4, 5, 6]]
    assert joined.serialize([1, 2]) == array(long(1)) + b"," + array(long(2))
    assert joined.deserialize(array() + b"," + array(long(1))) == decode_with_kernel(joined, [array() + b"," + array(long(1))])[0]
    check_codec(counted, [[1, 2], [], [3]])
    texts = JoinedPiecesCodec(TEXT)
    data = array(array(b"a"), array("é".encode())) + b"," + array(array(b""))
    assert texts.deserialize(data) == decode_with_kernel(texts, [data])[0] == ["a", "é", ""]


@pytest.mark.parametrize("damaged", [array(long(1), b"\0"), array(long(1)) + b";" + array(long(1)), array(long(1)) + b","])
def test_damaged_pieces(damaged: bytes) -> None:
    joined = JoinedPiecesCodec(LONG)
    with pytest.raises(CorruptSnapshotError):
        joined.deserialize(damaged)
    with pytest.raises(CorruptSnapshotError):
        decode_with_kernel(joined, [damaged])


def test_the_elements_of_a_piece_have_its_time() -> None:
    timed = TtlSerializer.of(LONG)
    data = long(1000) + array(long(1), long(2)) + b"," + long(2000) + array(long(3))
    joined = JoinedPiecesCodec(timed)
    assert joined.deserialize(data) == [TtlValue(1000, 1), TtlValue(1000, 2), TtlValue(2000, 3)]
    assert decode_with_kernel(joined, [data, data]) == 2 * [[1, 2, 3]]
    (rows,) = decode_with_kernel(joined, [data], TIMED)
    assert [(row["_last_access"].timestamp(), row["value"]) for row in rows] == [(1, 1), (1, 2), (2, 3)]
    assert rows == [joined.element.to_column(v, TIMED) | {} for v in joined.deserialize(data)]


def test_elements_without_bytes() -> None:
    empty = FramedSerializer(TupleSerializer([]), BytesSerializer())
    with pytest.raises(UnsupportedFormatError, match="may be empty: their number"):
        JoinedPiecesCodec(empty)


KEY = RowSerializer([Types.STRING()])
PAIR = Types.TUPLE([Types.INT(), Types.STRING()])


def test_keys_are_rows_of_one_field() -> None:
    key = PythonKeySerializer(KEY)
    check_codec(key, ["amelia", "", "é"])
    assert key.serialize("a") == KEY.serialize(RowValue("+I", ("a",)))
    assert key.snapshot().to_bytes() == KEY.snapshot().to_bytes()
    assert decode_with_kernel(key, [KEY.serialize(RowValue("+I", (None,)))]) == [None]
    assert key.deserialize(KEY.serialize(RowValue("+I", (None,)))) is None


@pytest.mark.parametrize(
    ("type_", "column"),
    [
        (Types.STRING(), pa.array(["a", "é", ""])),
        (Types.LONG(), pa.array([1, -(2**40)])),
        (Types.PICKLED_BYTE_ARRAY(), pa.array([b"\x80a", b""], pa.binary())),
        (PAIR, pa.array([{"f0": 1, "f1": "a"}], PAIR.arrow_type(DecodeOptions()))),
    ],
    ids=str,
)
def test_hashes_of_keys_are_those_of_rows(type_: TypeSerializer, column: pa.Array) -> None:
    row = RowSerializer([type_])
    key = PythonKeySerializer(row)
    expected = [row.hash_code(row.from_column({"f0": value})) for value in column.to_pylist()]
    assert [key.hash_code(key.from_column(value)) for value in column.to_pylist()] == expected
    assert hash_codes(key, column).tolist() == expected


def test_pickles() -> None:
    loaded = PickleSerializer(None)
    data = BytesSerializer().serialize(pickle.dumps({"a": (1, None)}))
    assert loaded.deserialize(data) == '{"a": [1, null]}'
    as_map = PickleSerializer(Types.MAP(Types.STRING(), Types.LONG()))
    assert as_map.deserialize(BytesSerializer().serialize(pickle.dumps({"a": 1}))) == [("a", 1)]
    assert PickleSerializer(Types.LONG()).deserialize(BytesSerializer().serialize(pickle.dumps(None))) is None
    with pytest.raises(UndecodableValueError, match="a pickled str is no LONG"):
        PickleSerializer(Types.LONG()).deserialize(BytesSerializer().serialize(pickle.dumps("x")))
    with pytest.raises(UndecodableValueError, match="can't be loaded"):
        loaded.deserialize(BytesSerializer().serialize(b"x"))


@pytest.mark.parametrize("value", [{1: 2}, [{"a": {2: 1}}], b"x", float("nan"), {1, 2}, object()])
def test_objects_without_json(value: Any) -> None:
    with pytest.raises(UndecodableValueError, match="does not fit JSON"):
        json_of(value)


def test_the_end_of_an_array_is_that_of_its_input() -> None:
    data = array(long(7)) + array(long(8))
    source = DataInput(data)
    assert [LONG.read(source), LONG.read(source), source.at_end()] == [7, 8, True]
    with pytest.raises(UnsupportedFormatError, match="as values of PyFlink, found LONG"):
        framed(python_coder(Types.LONG()), Types.LONG())
