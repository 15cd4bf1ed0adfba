"""Memory of decoding: bounded for types of any depth and rows of any size, and refused in words beyond the limit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from state_processor.serializers import DataOutput, DecodeOptions, TypeSerializer, read_serializer_snapshot
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.core.collections import ListSerializer, MapSerializer
from state_processor.serializers.io import MAX_NESTING
from state_processor.serializers.kernel.decode import arena as arenas
from state_processor.serializers.kernel.decode.decoder import ColumnDecoder
from state_processor.serializers.kernel.decode.program import DecodeBuilder
from state_processor.serializers.kernel.opcodes import Op
from state_processor.support.errors import UndecodableValueError, UnsupportedFormatError
from tests.serializers.harness import decode_with_kernel


def nested(levels: int, inner: TypeSerializer | None = None) -> TypeSerializer:
    serializer: TypeSerializer = inner or StringSerializer()
    for _ in range(levels):
        serializer = ListSerializer(serializer)
    return serializer


def value_of(levels: int, inner: Any = "x") -> Any:
    for _ in range(levels):
        inner = [inner]
    return inner


def decode_limited(serializer: TypeSerializer, payload: bytes, limit: int) -> list[Any]:
    builder = DecodeBuilder(pa.schema([("value", serializer.arrow_type(DecodeOptions()))]), DecodeOptions())
    builder.op(Op.SEEK, part=0)
    serializer.emit_decode(builder, builder.column("value"))
    builder.op(Op.END)
    builder.op(Op.ROW_END)
    decoder = ColumnDecoder(builder.build(), memory_limit=limit)
    entries = np.array([[0, len(payload), 0, 0, 0]], dtype=np.int64)
    locate = lambda position, *_: f"here, offset {position}"  # noqa: E731
    batches = [*decoder.entries(np.frombuffer(payload, dtype=np.uint8), entries, locate), *decoder.finish()]
    return [value for batch in batches for value in batch.column(0).to_pylist()]


@pytest.mark.parametrize("levels", [1, 5, 15, 30, 90])
def test_memory_does_not_grow_with_a_power_of_the_depth(levels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    allocate = arenas.allocate
    monkeypatch.setattr(arenas, "allocate", lambda size: sizes.append(size) or allocate(size))
    serializer = nested(levels)
    values = [value_of(levels), value_of(levels - 1, []), []]
    assert decode_with_kernel(serializer, [serializer.serialize(v) for v in values]) == values
    assert max(sizes) < 64 << 20


def test_wide_values_in_deep_types_are_decoded() -> None:
    serializer = nested(12, NumberSerializer("INT"))
    value = value_of(10, [list(range(1000))] * 20)
    assert decode_with_kernel(serializer, [serializer.serialize(value)]) == [value]


def test_snapshots_nested_beyond_the_limit_are_refused() -> None:
    deepest = nested(MAX_NESTING - 1).snapshot().to_bytes()
    assert read_serializer_snapshot(deepest).to_bytes() == deepest
    too_deep = nested(MAX_NESTING).snapshot().to_bytes()
    with pytest.raises(UnsupportedFormatError, match=f"nested more than {MAX_NESTING} levels deep"):
        read_serializer_snapshot(too_deep)


def test_snapshots_nested_a_thousand_times_are_refused() -> None:
    header = nested(1).snapshot().to_bytes()
    element = StringSerializer().snapshot().to_bytes()
    assert header.endswith(element)
    with pytest.raises(UnsupportedFormatError, match="levels deep"):
        read_serializer_snapshot(header.removesuffix(element) * 2000 + element)


def test_a_row_larger_than_the_limit_is_refused() -> None:
    text = StringSerializer()
    payload = text.serialize("x" * 400_000)
    with pytest.raises(UndecodableValueError, match=r"here, offset .*'value' needs more .* raise batch_memory"):
        decode_limited(text, payload, 1_000_000)
    assert decode_limited(text, payload, 4_000_000) == ["x" * 400_000]


def test_a_row_that_fits_the_limit_is_read_whatever_its_columns_share() -> None:
    serializer = MapSerializer(StringSerializer(), ListSerializer(NumberSerializer("LONG")))
    value = {"k" * 50_000: list(range(20_000)), "": [], "v": [1]}
    target = DataOutput()
    serializer.write(list(value.items()), target)
    assert dict(decode_limited(serializer, target.to_bytes(), 1_500_000)[0]) == value
