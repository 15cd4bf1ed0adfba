"""The decode kernel: batches, growth, truncation of every program at every byte, and bytes that mean nothing."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_processor.serializers import DecodeOptions, TypeSerializer
from state_processor.serializers.core.arrays import (
    BytesSerializer,
    GenericArraySerializer,
    PrimitiveArraySerializer,
    string_array,
)
from state_processor.serializers.core.basic import (
    BigDecimalSerializer,
    BigIntegerSerializer,
    CharSerializer,
    NumberSerializer,
    StringSerializer,
)
from state_processor.serializers.core.collections import (
    JoinedListCodec,
    ListSerializer,
    MapSerializer,
    NullFlagged,
    SetSerializer,
)
from state_processor.serializers.core.enums import EnumSerializer
from state_processor.serializers.core.nullable import EitherSerializer, NullableSerializer
from state_processor.serializers.core.rows import RowSerializer, TupleSerializer
from state_processor.serializers.core.temporal import (
    InstantSerializer,
    LocalDateSerializer,
    LocalDateTimeSerializer,
    LocalTimeSerializer,
    MillisSerializer,
    SqlTimestampSerializer,
)
from state_processor.serializers.kernel.columns import DISCARD
from state_processor.serializers.kernel.decode.decoder import ColumnDecoder
from state_processor.serializers.kernel.decode.program import DecodeBuilder
from state_processor.serializers.kernel.encode.encoder import encode_column
from state_processor.serializers.kernel.opcodes import Op
from state_processor.support.errors import (
    CorruptSnapshotError,
    InvalidRowError,
    NotCompilableError,
    StateProcessorError,
    UndecodableValueError,
)
from state_processor.types.flink_types import Types
from tests.serializers.harness import decode_with_kernel, skip_with_kernel

PLAIN, TEXT = DecodeOptions(), DecodeOptions(nanos="string", row_kind=True)
INT, LONG, STRING = NumberSerializer("INT"), NumberSerializer("LONG"), StringSerializer()
WORDS = ListSerializer(STRING)


def here(position: int, entry: int, begin: int) -> str:
    return f"position {position}, entry {entry}, row from {begin}"


def back_to_back(
    serializer: TypeSerializer, payloads: Sequence[bytes], *, batch_rows: int = 1 << 16, batch_bytes: int = 8 << 20
) -> tuple[list[pa.RecordBatch], ColumnDecoder]:
    """The batches of values that lie one after the other, and the decoder after them."""
    builder = DecodeBuilder(pa.schema([("value", serializer.arrow_type(PLAIN))]), PLAIN)
    serializer.emit_decode(builder, builder.column("value"))
    builder.op(Op.ROW_END)
    decoder = ColumnDecoder(builder.build(), batch_rows, batch_bytes)
    batches = list(decoder.rows(as_array(b"".join(payloads)), 0, len(payloads), here))
    return [*batches, *decoder.finish()], decoder


def as_array(data: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(data, dtype=np.uint8)


def values_of(batches: Sequence[pa.RecordBatch]) -> list[Any]:
    for batch in batches:
        batch.validate(full=True)
    return [v for batch in batches for v in batch.column(0).to_pylist()]


@pytest.mark.parametrize(("rows", "sizes"), [(0, []), (1, [1]), (9, [9]), (10, [10]), (11, [10, 1]), (35, [10, 10, 10, 5])])
def test_batches_are_cut_at_rows(rows: int, sizes: list[int]) -> None:
    batches, decoder = back_to_back(LONG, [LONG.serialize(i) for i in range(rows)], batch_rows=10)
    assert [b.num_rows for b in batches] == sizes
    assert values_of(batches) == list(range(rows))
    assert decoder.position == 8 * rows


def test_batches_are_cut_at_bytes() -> None:
    texts = ["x" * 1000 for _ in range(500)]
    batches, _ = back_to_back(STRING, [STRING.serialize(t) for t in texts], batch_bytes=20_000)
    assert values_of(batches) == texts
    assert max(b.nbytes for b in batches) <= 25_000


def test_one_row_larger_than_a_batch_is_a_batch() -> None:
    sizes = [1, 100_000, 2, 300_000, 3]
    words = [["é" * 3] * n for n in sizes]
    batches, _ = back_to_back(WORDS, [WORDS.serialize(w) for w in words], batch_bytes=10_000)
    assert values_of(batches) == words


def test_rows_that_begin_small_and_grow() -> None:
    words = [["ab" * n] * n for n in (*range(60), 200, 0, 200)]
    batches, _ = back_to_back(WORDS, [WORDS.serialize(w) for w in words], batch_bytes=4_000)
    assert values_of(batches) == words


def test_a_column_that_was_empty_for_thousands_of_batches_can_still_grow() -> None:
    texts = [None] * 3000 + ["y" * 500, None]
    batches, _ = back_to_back(STRING, [STRING.serialize(t) for t in texts], batch_rows=1)
    assert values_of(batches) == texts


def test_several_blocks_go_into_one_batch() -> None:
    builder = DecodeBuilder(pa.schema([("value", pa.int64())]), PLAIN)
    LONG.emit_decode(builder, builder.column("value"))
    builder.op(Op.ROW_END)
    decoder = ColumnDecoder(builder.build(), batch_rows=4)
    batches = []
    for block in ([0, 1, 2], [], [3], [4, 5, 6, 7, 8]):
        batches += decoder.rows(as_array(b"".join(map(LONG.serialize, block))), 0, len(block), here)
        assert decoder.position == 8 * len(block)
    assert [b.column(0).to_pylist() for b in [*batches, *decoder.finish()]] == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    assert list(ColumnDecoder(builder.build()).finish()) == []


def test_batches_outlive_the_decoder() -> None:
    batches, decoder = back_to_back(STRING, [STRING.serialize(f"text {i}") for i in range(100)], batch_rows=7)
    del decoder
    back_to_back(STRING, [STRING.serialize("overwritten") for _ in range(1000)], batch_rows=7)
    assert values_of(batches) == [f"text {i}" for i in range(100)]


def test_parts_of_entries_and_their_numbers() -> None:
    builder = DecodeBuilder(pa.schema([("value", pa.string()), ("key", pa.int64()), ("group", pa.int64())]), PLAIN)
    builder.op(Op.SEEK, part=0)
    LONG.emit_decode(builder, builder.column("key"))
    builder.op(Op.END)
    builder.op(Op.SEEK, part=1)
    STRING.emit_decode(builder, builder.column("value"))
    builder.op(Op.END)
    builder.op(Op.ENTRY, builder.column("group"), field=4)
    builder.op(Op.ROW_END)
    data = b"??" + LONG.serialize(5) + STRING.serialize("five") + LONG.serialize(6) + STRING.serialize(None)
    entries = np.array([[2, 10, 10, 15, 77], [15, 23, 23, 24, 78]], dtype=np.int64)
    decoder = ColumnDecoder(builder.build())
    assert list(decoder.entries(as_array(data), entries, here)) == []
    (batch,) = decoder.finish()
    assert batch.to_pylist() == [{"value": "five", "key": 5, "group": 77}, {"value": None, "key": 6, "group": 78}]


def test_errors_say_where_they_are() -> None:
    payloads = [WORDS.serialize(["a"]), WORDS.serialize(["b", "c"])[:-1]]
    with pytest.raises(CorruptSnapshotError, match="position 12, entry -1, row from 6: a string is damaged"):
        back_to_back(WORDS, payloads, batch_rows=1)


def test_columns_that_are_not_wanted_are_stepped_over() -> None:
    serializer = TupleSerializer([LONG, MapSerializer(STRING, WORDS), STRING])
    payload = serializer.serialize((1, [("a", ["b", None]), ("c", None)], "end"))
    builder = DecodeBuilder(pa.schema([("last", pa.string())]), PLAIN)
    LONG.emit_decode(builder, DISCARD)
    serializer.fields[1].emit_decode(builder, DISCARD)
    STRING.emit_decode(builder, builder.column("last"))
    builder.op(Op.ROW_END)
    decoder = ColumnDecoder(builder.build())
    list(decoder.rows(as_array(payload * 3), 0, 3, here))
    assert [b.to_pylist() for b in decoder.finish()] == [[{"last": "end"}] * 3]
    assert decoder.position == 3 * len(payload)


def test_what_the_kernel_does_not_know_says_so() -> None:
    class Exotic(StringSerializer):
        def emit_decode(self, builder: DecodeBuilder, column: Any) -> None:
            TypeSerializer.emit_decode(self, builder, column)

    with pytest.raises(NotCompilableError, match="STRING"):
        decode_with_kernel(ListSerializer(Exotic()), [])


EVERYTHING: list[TypeSerializer] = [
    *(NumberSerializer(n) for n in ("BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE")),
    CharSerializer(),
    STRING,
    BigIntegerSerializer(),
    BigDecimalSerializer(),
    *map(MillisSerializer, ("DATE", "SQL_DATE", "SQL_TIME")),
    *(
        c()
        for c in (SqlTimestampSerializer, InstantSerializer, LocalDateSerializer, LocalTimeSerializer, LocalDateTimeSerializer)
    ),
    BytesSerializer(),
    PrimitiveArraySerializer("INT"),
    string_array(),
    GenericArraySerializer(STRING, "java.lang.String"),
    WORDS,
    SetSerializer(INT),
    MapSerializer(STRING, WORDS),
    JoinedListCodec(STRING),
    NullFlagged(WORDS),
    NullableSerializer(LONG, 8),
    EnumSerializer("com.acme.Tier", ["BRONZE", "GOLD"]),
    EitherSerializer(STRING, WORDS),
    TupleSerializer([STRING, WORDS, INT]),
    RowSerializer([STRING, RowSerializer([INT] * 9), WORDS]),
    MapSerializer(INT, RowSerializer([EitherSerializer(LONG, TupleSerializer([STRING])), BigDecimalSerializer()])),
]


@pytest.mark.parametrize("serializer", EVERYTHING, ids=str)
@pytest.mark.parametrize("options", [PLAIN, TEXT], ids=["plain", "text"])
def test_any_bytes_give_an_error_or_what_the_reference_reads(serializer: TypeSerializer, options: DecodeOptions) -> None:
    small = st.sampled_from([0, 0, 0, 1, 1, 2, 3, 8, 0x2C, 0x7F, 0x80, 0xFF])

    @settings(max_examples=15)
    @given(st.lists(st.binary(max_size=40) | st.lists(small, max_size=40).map(bytes), min_size=10, max_size=10, unique=True))
    def check(payloads: list[bytes]) -> None:  # hypothesis takes longer to draw one than the test to compare it
        for data in payloads:
            try:
                value = serializer.to_column(serializer.deserialize(data), options)
                expected = pa.array([value], serializer.arrow_type(options)).to_pylist()
            except (StateProcessorError, pa.ArrowException):
                expected = None
            try:
                found = decode_with_kernel(serializer, [data], options)
            except StateProcessorError:
                found = None
            if expected is not None:
                assert repr(found) == repr(expected)
                skip_with_kernel(serializer, [data], options)

    check()


@pytest.mark.parametrize("serializer", EVERYTHING, ids=str)
def test_no_rows(serializer: TypeSerializer) -> None:
    batches, decoder = back_to_back(serializer, [])
    assert batches == []
    assert decoder.position == 0


def test_a_decoder_is_freed_with_its_bytes_at_once() -> None:
    builder = DecodeBuilder(pa.schema([("a", pa.int64())]), DecodeOptions())
    LONG.emit_decode(builder, builder.column("a"))
    builder.op(Op.ROW_END)
    decoder = ColumnDecoder(builder.build())
    buffer = np.zeros(8, dtype=np.uint8)
    freed = weakref.ref(buffer)
    assert sum(batch.num_rows for batch in [*decoder.rows(buffer, 0, 1, partial(_of_buffer, buffer)), *decoder.finish()]) == 1
    gc.disable()
    try:
        del decoder, buffer
        assert freed() is None
    finally:
        gc.enable()


def _of_buffer(buffer: np.ndarray, *place: int) -> str:
    return f"{len(buffer)} bytes, {place}"


@pytest.mark.parametrize("number", [-(2**127), 2**127 - 1, 10**38, -(10**38)])
def test_decimals_of_more_digits_than_128_bits_hold(number: int) -> None:
    """The smallest number of 128 bits has 39 digits, and its negative overflows."""
    serializer = Types.SQL_DATA("DECIMAL(38, 0)")
    with pytest.raises(UndecodableValueError, match="out of the range"):
        decode_with_kernel(serializer, [(16).to_bytes(4, "big") + number.to_bytes(16, "big", signed=True)])
    column = pa.Array.from_buffers(pa.decimal128(38, 0), 1, [None, pa.py_buffer(number.to_bytes(16, "little", signed=True))])
    with pytest.raises(InvalidRowError, match="out of the range"):
        encode_column(serializer, column)
