"""Entries with serialized bytes instead of values: delimited, but not decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from state_processor.backends.formats import row_layout as layouts
from state_processor.backends.formats.framing import KEY_GROUP
from state_processor.backends.formats.row_layout import KEY_GROUP_COLUMN, Field, RowLayout, RowPart
from state_processor.backends.formats.source import KeyedStateSource, decode_framed
from state_processor.backends.metadata import handles as h
from state_processor.backends.state.descriptions import KeyedDescription
from state_processor.serializers.codec import Codec
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.kernel.columns import DISCARD
from state_processor.serializers.kernel.opcodes import Op

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder

LOSSLESS: Final = DecodeOptions(nanos="string", row_kind=True)
ENTRY_COLUMNS: Final = frozenset(
    {
        layouts.KEY,
        layouts.NAMESPACE,
        layouts.VALUE,
        layouts.MAP_KEY,
        layouts.MAP_VALUE,
        layouts.TIMESTAMP,
        KEY_GROUP_COLUMN,
    }
)
"""All columns of an entry, and its key group."""


class PassThroughCodec(Codec):
    """Codec of the bytes of another codec's values.

    ``inner``: the codec that finds the end of a value.
    """

    child_names = ("",)

    def __init__(self, inner: Codec) -> None:
        self.inner = inner
        self.length = inner.length
        self.min_size = inner.min_size

    @property
    def children(self) -> Sequence[Codec]:
        return (self.inner,)

    def with_children(self, children: Sequence[Any]) -> Codec:
        (inner,) = children
        return self._copy_with(inner=inner, length=inner.length, min_size=inner.min_size)

    def __str__(self) -> str:
        return str(self.inner)

    def read(self, source: DataInput) -> bytes:
        start = source.position
        self.inner.skip(source)
        return bytes(source.data[start : source.position])

    @property
    def writes_null(self) -> bool:
        return self.inner.writes_null

    def write(self, value: bytes | None, target: DataOutput) -> None:
        if value is None:  # heap files don't contain its bytes
            self.inner.write(None, target)
        else:
            target.write_bytes(value)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        start = builder.register()
        builder.op(Op.MARK, register=start)
        self.inner.emit_decode(builder, DISCARD)
        builder.op(Op.CAPTURE, column, register=start)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.raw(column, self.inner.serialize(None) if self.writes_null else None)


def with_serialized_values(state: KeyedDescription, serialized: Callable[[Codec], Codec] = PassThroughCodec) -> KeyedDescription:
    """Return the state with bytes instead of all values.

    ``serialized``: function that returns the codec of the bytes of a serializer's values.
    """
    return state.map_serializers(serialized)


def serialized_entries(
    source: KeyedStateSource, state: KeyedDescription, key_groups: h.KeyGroupRange
) -> Iterator[pa.RecordBatch]:
    """Yield the entries of a state with bytes instead of values.

    ``source``: the keyed state of one handle. ``state``: the state from :func:`with_serialized_values`. ``key_groups``: the key
    groups of the handle to read.
    """
    for run in source.runs(state.name, key_groups):
        yield from run.decode(state, ENTRY_COLUMNS, LOSSLESS)


def decode_bytes(serializer: Codec, values: pa.Array, context: str) -> pa.Array:
    """Decode a column of serialized values; dates and times become text."""
    layout = RowLayout((RowPart(0, (Field(layouts.KEY, serializer),)),), frozenset({layouts.KEY}))
    offsets = np.frombuffer(values.buffers()[1], dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    buffer = np.frombuffer(values.buffers()[2], dtype=np.uint8)
    buffer.flags.writeable = False
    entries = np.zeros((len(values), KEY_GROUP + 1), dtype=np.int64)
    entries[:, 0], entries[:, 1] = offsets[:-1], offsets[1:]
    batches: list[Any] = list(decode_framed(layout, LOSSLESS, context, iter([(buffer, 0, entries)])))
    return pa.chunked_array([b.column(0) for b in batches], serializer.arrow_type(LOSSLESS)).combine_chunks()
